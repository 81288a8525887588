// Package ec2err has constructors for all of EC2's errors, so that every code and text is in one
// place. It does not decide when to return an error and does not know about resources. Only
// packages under service/ec2 import it.
package ec2err

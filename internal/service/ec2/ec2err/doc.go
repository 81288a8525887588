// Package ec2err holds the errors that EC2 answers with: every code and text in one
// place, as constructors. It does not decide when to return one, and does not know
// about resources; only the packages of service/ec2 import it.
package ec2err

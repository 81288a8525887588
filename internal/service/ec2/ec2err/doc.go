// Package ec2err holds the errors that EC2 answers with: every code and text in one
// place, as constructors. It does not decide when one is due, and knows no
// resources; only the packages of service/ec2 import it.
package ec2err

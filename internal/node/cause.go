package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/aws/smithy-go"
)

// Causes of failed steps without a decision behind them. All other causes are error codes of the AWS services that
// were called.
const (
	CauseNoSuchHost     = "NoSuchHost"     // DNS does not have the name
	CauseWrongAuthority = "WrongAuthority" // the certificate is from another authority
	CauseNoProfile      = "NoInstanceProfile"
	CauseNotTrusted     = "AssumeRoleUnauthorizedAccess" // EC2 may not assume the role
	CauseUnknownCommand = "UnknownCommand"               // a script runs what the machine does not have
	CauseNoPodAddress   = "NoFreeAddress"                // the node has no free address for a pod
	CauseImageName      = "InvalidImageName"             // an image's name cannot be parsed
	CauseImagePull      = "ErrImagePull"                 // a registry or its permissions refuse an image
)

// CauseOf returns the cause of an error: what its Cause method returns, or the error code of an AWS service. It
// returns "" for all other errors.
func CauseOf(err error) string {
	var known interface{ Cause() string }
	var api smithy.APIError
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, unnamed := errors.AsType[x509.HostnameError](err)
	switch {
	case errors.As(err, &known):
		return known.Cause()
	case isDNS && dns.IsNotFound:
		return CauseNoSuchHost
	case unverified || unknown || unnamed:
		return CauseWrongAuthority
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return ""
}

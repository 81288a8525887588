package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/aws/smithy-go"
)

// Causes of failed steps that no decision stands behind. Others are the error codes of the
// AWS services that were called.
const (
	CauseNoSuchHost     = "NoSuchHost"     // DNS has no such name
	CauseWrongAuthority = "WrongAuthority" // the certificate is of another authority
	CauseNoProfile      = "NoInstanceProfile"
	CauseNotTrusted     = "AssumeRoleUnauthorizedAccess" // EC2 may not assume the role
	CauseUnknownCommand = "UnknownCommand"               // a script runs what the machine does not have
)

// CauseOf returns what failed as data: what an error with a Cause method says, or the code
// of an AWS service. It is empty for everything else.
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

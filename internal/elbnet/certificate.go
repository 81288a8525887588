package elbnet

import (
	"strings"

	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// CheckCertificate checks that a listener can use a certificate of an account and region. If the certificate does not
// exist, it returns missing. IAM server certificates do not exist, because they cannot be uploaded.
func (b *Base) CheckCertificate(sc regional.Scope, a arn.ARN, missing error) error {
	id, ok := strings.CutPrefix(a.Resource, "certificate/")
	if !ok || a.Service != "acm" || a.Account != sc.Account || a.Region != sc.Region || uuid.Validate(id) != nil {
		return missing
	}
	if b.Certificate == nil {
		return nil
	}
	exists, usable := b.Certificate(sc.Account, sc.Region, a.String())
	switch {
	case !exists:
		return missing
	case !usable:
		return awserr.Newf("UnsupportedCertificate", "The certificate '%s' must have a fully-qualified domain name, a supported signature, and a supported key size.", a) // from memory
	}
	return nil
}

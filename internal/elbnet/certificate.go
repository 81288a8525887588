package elbnet

import (
	"strings"

	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// CheckCertificate checks that a listener can use a certificate of ACM or IAM. If an account and region do not have the
// certificate, it returns missing.
func (b *Base) CheckCertificate(sc regional.Scope, a arn.ARN, missing error) error {
	id, ofACM := strings.CutPrefix(a.Resource, "certificate/")
	ofACM = ofACM && a.Service == "acm" && a.Region == sc.Region && uuid.Validate(id) == nil
	ofIAM := a.Service == "iam" && strings.HasPrefix(a.Resource, "server-certificate/")
	if a.Account != sc.Account || !ofACM && !ofIAM {
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

package elbnet

import (
	"strings"

	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// CertificateMayExist reports whether a certificate with that ARN may exist in an account and region. AWS Certificate
// Manager is not emulated, so every ARN that it could have created is assumed to exist. IAM server certificates
// cannot be uploaded, so none exist.
func CertificateMayExist(a arn.ARN, sc regional.Scope) bool {
	id, ok := strings.CutPrefix(a.Resource, "certificate/")
	return ok && a.Service == "acm" && a.Account == sc.Account && a.Region == sc.Region && uuid.Validate(id) == nil
}

package elbnet

import (
	"strings"

	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// CertificateMayExist reports whether a certificate of that ARN can be there in an
// account and region. AWS Certificate Manager is not here to ask: every ARN that it could have made is
// taken to exist. Server certificates of IAM cannot be uploaded, so there are none.
func CertificateMayExist(a arn.ARN, sc regional.Scope) bool {
	id, ok := strings.CutPrefix(a.Resource, "certificate/")
	return ok && a.Service == "acm" && a.Account == sc.Account && a.Region == sc.Region && uuid.Validate(id) == nil
}

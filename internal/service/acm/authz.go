package acm

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

type resolver struct{ s *Service }

// Resource implements authz.Resolver. A certificate is identified by its ARN.
func (r resolver) Resource(_ context.Context, account, region, _, id string) (authz.Resource, bool) {
	key, err := keyOf(scope{regional.At(account, region)}, id)
	if err != nil {
		return authz.Resource{}, false
	}
	c, err := certificates.Get(r.s.store, key)
	return authz.Resource{ARN: id, Tags: c.Tags, Keys: map[string][]string{"acm:domainnames": c.Names}}, err == nil
}

// Targets implements authz.Targeter.
func (resolver) Targets(_ context.Context, _ *awsapi.Call, in any) ([]authz.Target, bool) {
	req, ok := in.(*awsacm.RequestCertificateInput)
	if !ok {
		return nil, false
	}
	// The defaults are those of the service authorization reference.
	keys := map[string][]string{
		"acm:domainnames":                    slices.Compact(slices.Sorted(slices.Values(append([]string{aws.ToString(req.DomainName)}, req.SubjectAlternativeNames...)))),
		"acm:validationmethod":               {or(string(req.ValidationMethod), "EMAIL")},
		"acm:keyalgorithm":                   {or(string(req.KeyAlgorithm), "RSA_2048")},
		"acm:certificatetransparencylogging": {"ENABLED"},
		"acm:export":                         nil,
		"acm:certificateauthority":           nil,
	}
	//lint:ignore SA1019 clients still send it, and policies still have its key
	if req.Options != nil && req.Options.CertificateTransparencyLoggingPreference != "" {
		//lint:ignore SA1019 clients still send it, and policies still have its key
		keys["acm:certificatetransparencylogging"] = []string{string(req.Options.CertificateTransparencyLoggingPreference)}
	}
	tags, tagKeys := authz.RequestTags(in)
	return []authz.Target{{Keys: keys, Tags: tags, TagKeys: tagKeys}}, true
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Members: map[string]string{
		"CertificateId": "CertificateArn",
	},
	Tagging:    awsapi.Tagging{Action: "AddTagsToCertificate", Source: "https://docs.aws.amazon.com/acm/latest/APIReference/API_RequestCertificate.html"},
	StoredKeys: "certificateauthority certificatetransparencylogging domainnames export keyalgorithm validationmethod",
}

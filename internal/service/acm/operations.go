package acm

import (
	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{s}, Tagging: s.taggable(), Run: s.Run}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "acm",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "RequestCertificate", Members: "DomainName DomainValidationOptions IdempotencyToken KeyAlgorithm Options.CertificateTransparencyLoggingPreference SubjectAlternativeNames Tags ValidationMethod",
				Except: "every ValidationMethod but DNS; requests must specify it, because the default on AWS is EMAIL"},
			{Name: "DescribeCertificate", Members: "CertificateArn", Settled: awsapi.SettledWhen(func(out *awsacm.DescribeCertificateOutput) bool { return string(out.Certificate.Status) != pending })},
			{Name: "ListCertificates", Members: "CertificateStatuses Includes.keyTypes MaxItems NextToken SortBy SortOrder"},
			{Name: "GetCertificate", Members: "CertificateArn"},
			{Name: "ImportCertificate", Members: "Certificate CertificateArn CertificateChain PrivateKey Tags"},
			{Name: "UpdateCertificateOptions", Members: "CertificateArn Options.CertificateTransparencyLoggingPreference"},
			{Name: "DeleteCertificate", Members: "CertificateArn"},
			{Name: "AddTagsToCertificate", Members: "CertificateArn Tags"},
			{Name: "RemoveTagsFromCertificate", Members: "CertificateArn Tags"},
			{Name: "ListTagsForCertificate", Members: "CertificateArn"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "ExportCertificate RevokeCertificate", Why: "Drydock keeps no private keys, and clients do not trust its issuer."},
			{Operations: "RenewCertificate", Why: "There is no AWS Private CA. Public certificates are not renewed: no daemon runs for months."},
			{Operations: "ResendValidationEmail", Why: "No mail is sent: certificates are validated by DNS."},
			{Operations: "GetAccountConfiguration PutAccountConfiguration", Why: "No event is sent when a certificate is about to expire."},
			{Operations: "SearchCertificates", Why: "ListCertificates lists all."},
		},
	}
}

func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, certificates, account, region, func(k store.Key, c *certificateRecord) (string, map[string]string) {
				return scopeAt(k).arn(c.ID), c.Tags
			})
		},
		Put: func(name string, tags map[string]string) any {
			return &awsacm.AddTagsToCertificateInput{CertificateArn: &name, Tags: tagList(tags)}
		},
		Remove: func(name string, keys []string) any {
			return &awsacm.RemoveTagsFromCertificateInput{CertificateArn: &name, Tags: keyList(keys)}
		},
	}
}

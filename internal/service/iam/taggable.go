package iam

import (
	"strings"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of IAM: of policies, instance profiles, server
// certificates and identity providers, but not of users and roles.
// https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/supported-services.html
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			if region != "" {
				return nil
			}
			out := module.Resources(s.store, policies, account, "", func(_ store.Key, p *managedPolicy) (string, map[string]string) { return p.arn(account), tagMap(p.Tags) })
			out = append(out, module.Resources(s.store, profiles, account, "", func(_ store.Key, p *instanceProfile) (string, map[string]string) {
				return p.arn(account), tagMap(p.Tags)
			})...)
			out = append(out, module.Resources(s.store, serverCertificates, account, "", func(_ store.Key, c *serverCertificate) (string, map[string]string) {
				return c.arn(account), tagMap(c.Tags)
			})...)
			out = append(out, module.Resources(s.store, samlProviders, account, "", func(_ store.Key, p *samlProvider) (string, map[string]string) {
				return samlProviderARN(account, p.Name), tagMap(p.Tags)
			})...)
			return append(out, module.Resources(s.store, providers, account, "", func(_ store.Key, p *oidcProvider) (string, map[string]string) {
				return providerARN(account, p.URL), tagMap(p.Tags)
			})...)
		},
		Put: func(arn string, tags map[string]string) any {
			list := tagging.List(tags, func(k, v *string) iamtypes.Tag { return iamtypes.Tag{Key: k, Value: v} })
			switch name := arn[strings.LastIndexByte(arn, '/')+1:]; {
			case strings.Contains(arn, ":policy/"):
				return &awsiam.TagPolicyInput{PolicyArn: &arn, Tags: list}
			case strings.Contains(arn, ":instance-profile/"):
				return &awsiam.TagInstanceProfileInput{InstanceProfileName: &name, Tags: list}
			case strings.Contains(arn, ":server-certificate/"):
				return &awsiam.TagServerCertificateInput{ServerCertificateName: &name, Tags: list}
			case strings.Contains(arn, ":saml-provider/"):
				return &awsiam.TagSAMLProviderInput{SAMLProviderArn: &arn, Tags: list}
			default:
				return &awsiam.TagOpenIDConnectProviderInput{OpenIDConnectProviderArn: &arn, Tags: list}
			}
		},
		Remove: func(arn string, keys []string) any {
			switch name := arn[strings.LastIndexByte(arn, '/')+1:]; {
			case strings.Contains(arn, ":policy/"):
				return &awsiam.UntagPolicyInput{PolicyArn: &arn, TagKeys: keys}
			case strings.Contains(arn, ":instance-profile/"):
				return &awsiam.UntagInstanceProfileInput{InstanceProfileName: &name, TagKeys: keys}
			case strings.Contains(arn, ":server-certificate/"):
				return &awsiam.UntagServerCertificateInput{ServerCertificateName: &name, TagKeys: keys}
			case strings.Contains(arn, ":saml-provider/"):
				return &awsiam.UntagSAMLProviderInput{SAMLProviderArn: &arn, TagKeys: keys}
			default:
				return &awsiam.UntagOpenIDConnectProviderInput{OpenIDConnectProviderArn: &arn, TagKeys: keys}
			}
		},
	}
}

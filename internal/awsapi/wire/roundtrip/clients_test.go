package roundtrip_test

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/organizations"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/shield"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/wafregional"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"
)

// clients makes the SDK's client of a model.
var clients = map[string]func(aws.Config) any{
	"acm":                      func(c aws.Config) any { return acm.NewFromConfig(c) },
	"arc-zonal-shift":          func(c aws.Config) any { return arczonalshift.NewFromConfig(c) },
	"autoscaling":              func(c aws.Config) any { return autoscaling.NewFromConfig(c) },
	"cloudformation":           func(c aws.Config) any { return cloudformation.NewFromConfig(c) },
	"cloudtrail":               func(c aws.Config) any { return cloudtrail.NewFromConfig(c) },
	"ec2":                      func(c aws.Config) any { return awsec2.NewFromConfig(c) },
	"ec2-instance-connect":     func(c aws.Config) any { return ec2instanceconnect.NewFromConfig(c) },
	"ecr":                      func(c aws.Config) any { return ecr.NewFromConfig(c) },
	"ecr-public":               func(c aws.Config) any { return ecrpublic.NewFromConfig(c) },
	"eks":                      func(c aws.Config) any { return awseks.NewFromConfig(c) },
	"elb":                      func(c aws.Config) any { return elasticloadbalancing.NewFromConfig(c) },
	"elbv2":                    func(c aws.Config) any { return elasticloadbalancingv2.NewFromConfig(c) },
	"events":                   func(c aws.Config) any { return eventbridge.NewFromConfig(c) },
	"iam":                      func(c aws.Config) any { return awsiam.NewFromConfig(c) },
	"kms":                      func(c aws.Config) any { return kms.NewFromConfig(c) },
	"logs":                     func(c aws.Config) any { return cloudwatchlogs.NewFromConfig(c) },
	"pricing":                  func(c aws.Config) any { return pricing.NewFromConfig(c) },
	"resourcegroupstaggingapi": func(c aws.Config) any { return resourcegroupstaggingapi.NewFromConfig(c) },
	"route53":                  func(c aws.Config) any { return route53.NewFromConfig(c) },
	"secretsmanager":           func(c aws.Config) any { return secretsmanager.NewFromConfig(c) },
	"service-quotas":           func(c aws.Config) any { return servicequotas.NewFromConfig(c) },
	"ssm":                      func(c aws.Config) any { return awsssm.NewFromConfig(c) },
	"sts":                      func(c aws.Config) any { return awssts.NewFromConfig(c) },
	"shield":                   func(c aws.Config) any { return shield.NewFromConfig(c) },
	"waf-regional":             func(c aws.Config) any { return wafregional.NewFromConfig(c) },
	"wafv2":                    func(c aws.Config) any { return wafv2.NewFromConfig(c) },
	"s3": func(c aws.Config) any {
		return s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = true })
	},
	"organizations": func(c aws.Config) any { return organizations.NewFromConfig(c) },
	"sns":           func(c aws.Config) any { return sns.NewFromConfig(c) },
	"sqs": func(c aws.Config) any {
		return sqs.NewFromConfig(c, func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })
	},
}

// variants are the union members to generate. Package wire has a generated table of all; this one is written by hand,
// so that each checks the other.
var variants = typesByName(
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberExportOption](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberExported](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberInUse](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberManagedBy](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberRenewalStatus](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberStatus](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberType](),
	reflect.TypeFor[acmtypes.AcmCertificateMetadataFilterMemberValidationMethod](),
	reflect.TypeFor[acmtypes.CertificateFilterMemberAcmCertificateMetadataFilter](),
	reflect.TypeFor[acmtypes.CertificateFilterMemberCertificateArn](),
	reflect.TypeFor[acmtypes.CertificateFilterMemberX509AttributeFilter](),
	reflect.TypeFor[acmtypes.CertificateFilterStatementMemberAnd](),
	reflect.TypeFor[acmtypes.CertificateFilterStatementMemberFilter](),
	reflect.TypeFor[acmtypes.CertificateFilterStatementMemberNot](),
	reflect.TypeFor[acmtypes.CertificateFilterStatementMemberOr](),
	reflect.TypeFor[acmtypes.CertificateMetadataMemberAcmCertificateMetadata](),
	reflect.TypeFor[acmtypes.GeneralNameMemberDirectoryName](),
	reflect.TypeFor[acmtypes.GeneralNameMemberDnsName](),
	reflect.TypeFor[acmtypes.GeneralNameMemberIpAddress](),
	reflect.TypeFor[acmtypes.GeneralNameMemberOtherName](),
	reflect.TypeFor[acmtypes.GeneralNameMemberRegisteredId](),
	reflect.TypeFor[acmtypes.GeneralNameMemberRfc822Name](),
	reflect.TypeFor[acmtypes.GeneralNameMemberUniformResourceIdentifier](),
	reflect.TypeFor[acmtypes.SubjectAlternativeNameFilterMemberDnsName](),
	reflect.TypeFor[acmtypes.SubjectFilterMemberCommonName](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberExtendedKeyUsage](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberKeyAlgorithm](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberKeyUsage](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberNotAfter](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberNotBefore](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberSerialNumber](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberSubject](),
	reflect.TypeFor[acmtypes.X509AttributeFilterMemberSubjectAlternativeName](),
	reflect.TypeFor[logstypes.IntegrationDetailsMemberOpenSearchIntegrationDetails](),
	reflect.TypeFor[logstypes.ResourceConfigMemberOpenSearchResourceConfig](),
	reflect.TypeFor[s3types.AnalyticsFilterMemberAnd](),
	reflect.TypeFor[s3types.AnalyticsFilterMemberPrefix](),
	reflect.TypeFor[s3types.AnalyticsFilterMemberTag](),
	reflect.TypeFor[s3types.MetricsFilterMemberAccessPointArn](),
	reflect.TypeFor[s3types.MetricsFilterMemberAnd](),
	reflect.TypeFor[s3types.MetricsFilterMemberPrefix](),
	reflect.TypeFor[s3types.MetricsFilterMemberTag](),
	reflect.TypeFor[s3types.ObjectEncryptionMemberSSEKMS](),
	reflect.TypeFor[ssmtypes.CloudConnectorConfigurationMemberAzureConfiguration](),
	reflect.TypeFor[ssmtypes.ConfigurationTargetsMemberSubscriptions](),
	reflect.TypeFor[ssmtypes.ExecutionInputsMemberAutomation](),
	reflect.TypeFor[ssmtypes.ExecutionPreviewMemberAutomation](),
	reflect.TypeFor[ssmtypes.NodeTypeMemberInstance](),
)

func typesByName(types ...reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, t := range types {
		out[t.String()] = t
	}
	return out
}

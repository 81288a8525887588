package iam

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// A serviceRole describes a service-linked role. Its description is the one that the service itself
// gives it.
type serviceRole struct{ name, policy, description string }

// serviceRoles are those that EKS clusters and the services that they use need, and some that modules for Terraform and
// CloudFormation make for services that Drydock does not have.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_aws-services-that-work-with-iam.html
var serviceRoles = map[string]serviceRole{
	"eks.amazonaws.com":                  {"AWSServiceRoleForAmazonEKS", "AmazonEKSServiceRolePolicy", "Allows Amazon EKS to call AWS services on your behalf."},
	"eks-nodegroup.amazonaws.com":        {"AWSServiceRoleForAmazonEKSNodegroup", "AWSServiceRoleForAmazonEKSNodegroup", "This policy allows Amazon EKS to create and manage Nodegroups"},
	"eks-fargate.amazonaws.com":          {"AWSServiceRoleForAmazonEKSForFargate", "AmazonEKSForFargateServiceRolePolicy", "This policy grants necessary permissions to Amazon EKS to run fargate tasks"},
	"eks-connector.amazonaws.com":        {"AWSServiceRoleForAmazonEKSConnector", "AmazonEKSConnectorServiceRolePolicy", "Allows Amazon EKS to connect clusters from elsewhere."}, // the description is from memory
	"autoscaling.amazonaws.com":          {"AWSServiceRoleForAutoScaling", "AutoScalingServiceRolePolicy", "Default Service-Linked Role enables access to AWS Services and Resources used or managed by Auto Scaling"},
	"spot.amazonaws.com":                 {"AWSServiceRoleForEC2Spot", "AWSEC2SpotServiceRolePolicy", "Default EC2 Spot Service Linked Role"},
	"spotfleet.amazonaws.com":            {"AWSServiceRoleForEC2SpotFleet", "AWSEC2SpotFleetServiceRolePolicy", "Default EC2 Spot Fleet Service Linked Role"},
	"ec2fleet.amazonaws.com":             {"AWSServiceRoleForEC2Fleet", "AWSEC2FleetServiceRolePolicy", "Default EC2 Fleet Service Linked Role"},
	"elasticloadbalancing.amazonaws.com": {"AWSServiceRoleForElasticLoadBalancing", "AWSElasticLoadBalancingServiceRolePolicy", "Allows ELB to call AWS services on your behalf."},

	// As recorded by LocalStack's tests/aws/services/iam/test_iam.snapshot.json, test_service_role_lifecycle.
	"accountdiscovery.ssm.amazonaws.com":              {"AWSServiceRoleForAmazonSSM_AccountDiscovery", "AWSSystemsManagerAccountDiscoveryServicePolicy", ""},
	"acm.amazonaws.com":                               {"AWSServiceRoleForCertificateManager", "CertificateManagerServiceRolePolicy", ""},
	"appmesh.amazonaws.com":                           {"AWSServiceRoleForAppMesh", "AWSAppMeshServiceRolePolicy", ""},
	"autoscaling-plans.amazonaws.com":                 {"AWSServiceRoleForAutoScalingPlans_EC2AutoScaling", "AWSAutoScalingPlansEC2AutoScalingPolicy", ""},
	"backup.amazonaws.com":                            {"AWSServiceRoleForBackup", "AWSBackupServiceLinkedRolePolicyForBackup", ""},
	"batch.amazonaws.com":                             {"AWSServiceRoleForBatch", "BatchServiceRolePolicy", ""},
	"cassandra.application-autoscaling.amazonaws.com": {"AWSServiceRoleForApplicationAutoScaling_CassandraTable", "AWSApplicationAutoscalingCassandraTablePolicy", ""},
	"cks.kms.amazonaws.com":                           {"AWSServiceRoleForKeyManagementServiceCustomKeyStores", "AWSKeyManagementServiceCustomKeyStoresServiceRolePolicy", ""},
	"cloudtrail.amazonaws.com":                        {"AWSServiceRoleForCloudTrail", "CloudTrailServiceRolePolicy", ""},
	"codestar-notifications.amazonaws.com":            {"AWSServiceRoleForCodeStarNotifications", "AWSCodeStarNotificationsServiceRolePolicy", ""},
	"connect.amazonaws.com":                           {"AWSServiceRoleForAmazonConnect", "AmazonConnectServiceLinkedRolePolicy", ""},
	"dms-fleet-advisor.amazonaws.com":                 {"AWSServiceRoleForDMSFleetAdvisor", "AWSDMSFleetAdvisorServiceRolePolicy", ""},
	"dms.amazonaws.com":                               {"AWSServiceRoleForDMSServerless", "AWSDMSServerlessServiceRolePolicy", ""},
	"docdb-elastic.amazonaws.com":                     {"AWSServiceRoleForDocDB-Elastic", "AmazonDocDB-ElasticServiceRolePolicy", ""},
	"ec2-instance-connect.amazonaws.com":              {"AWSServiceRoleForEc2InstanceConnect", "Ec2InstanceConnectEndpoint", ""},
	"ec2.application-autoscaling.amazonaws.com":       {"AWSServiceRoleForApplicationAutoScaling_EC2SpotFleetRequest", "AWSApplicationAutoscalingEC2SpotFleetRequestPolicy", ""},
	"ecr.amazonaws.com":                               {"AWSServiceRoleForECRTemplate", "ECRTemplateServiceRolePolicy", ""},
	"elasticbeanstalk.amazonaws.com":                  {"AWSServiceRoleForElasticBeanstalk", "AWSElasticBeanstalkServiceRolePolicy", ""},
	"elasticfilesystem.amazonaws.com":                 {"AWSServiceRoleForAmazonElasticFileSystem", "AmazonElasticFileSystemServiceRolePolicy", ""},
	"email.cognito-idp.amazonaws.com":                 {"AWSServiceRoleForAmazonCognitoIdpEmailService", "AmazonCognitoIdpEmailServiceRolePolicy", ""},
	"emr-containers.amazonaws.com":                    {"AWSServiceRoleForAmazonEMRContainers", "AmazonEMRContainersServiceRolePolicy", ""},
	"emrwal.amazonaws.com":                            {"AWSServiceRoleForEMRWAL", "EMRDescribeClusterPolicyForEMRWAL", ""},
	"fis.amazonaws.com":                               {"AWSServiceRoleForFIS", "AmazonFISServiceRolePolicy", ""},
	"grafana.amazonaws.com":                           {"AWSServiceRoleForAmazonGrafana", "AmazonGrafanaServiceLinkedRolePolicy", ""},
	"imagebuilder.amazonaws.com":                      {"AWSServiceRoleForImageBuilder", "AWSServiceRoleForImageBuilder", ""},
	"iotmanagedintegrations.amazonaws.com":            {"AWSServiceRoleForIoTManagedIntegrations", "AWSIoTManagedIntegrationsRolePolicy", ""},
	"kafka.amazonaws.com":                             {"AWSServiceRoleForKafka", "KafkaServiceRolePolicy", ""},
	"kafkaconnect.amazonaws.com":                      {"AWSServiceRoleForKafkaConnect", "KafkaConnectServiceRolePolicy", ""},
	"lakeformation.amazonaws.com":                     {"AWSServiceRoleForLakeFormationDataAccess", "LakeFormationDataAccessServiceRolePolicy", ""},
	"lexv2.amazonaws.com":                             {"AWSServiceRoleForLexV2Bots", "AmazonLexV2BotPolicy", ""},
	"lightsail.amazonaws.com":                         {"AWSServiceRoleForLightsail", "LightsailExportAccess", ""},
	"m2.amazonaws.com":                                {"AWSServiceRoleForAWSM2", "AWSM2ServicePolicy", ""},
	"memorydb.amazonaws.com":                          {"AWSServiceRoleForMemoryDB", "MemoryDBServiceRolePolicy", ""},
	"mq.amazonaws.com":                                {"AWSServiceRoleForAmazonMQ", "AmazonMQServiceRolePolicy", ""},
	"mrk.kms.amazonaws.com":                           {"AWSServiceRoleForKeyManagementServiceMultiRegionKeys", "AWSKeyManagementServiceMultiRegionKeysServiceRolePolicy", ""},
	"notifications.amazonaws.com":                     {"AWSServiceRoleForAwsUserNotifications", "AWSUserNotificationsServiceLinkedRolePolicy", ""},
	"observability.aoss.amazonaws.com":                {"AWSServiceRoleForAmazonOpenSearchServerless", "AmazonOpenSearchServerlessServiceRolePolicy", ""},
	"ops.apigateway.amazonaws.com":                    {"AWSServiceRoleForAPIGateway", "APIGatewayServiceRolePolicy", ""},
	"ops.emr-serverless.amazonaws.com":                {"AWSServiceRoleForAmazonEMRServerless", "AmazonEMRServerlessServiceRolePolicy", ""},
	"opsdatasync.ssm.amazonaws.com":                   {"AWSServiceRoleForSystemsManagerOpsDataSync", "AWSSystemsManagerOpsDataSyncServiceRolePolicy", ""},
	"opsinsights.ssm.amazonaws.com":                   {"AWSServiceRoleForAmazonSSM_OpsInsights", "AWSSSMOpsInsightsServiceRolePolicy", ""},
	"ram.amazonaws.com":                               {"AWSServiceRoleForResourceAccessManager", "AWSResourceAccessManagerServiceRolePolicy", ""},
	"redshift.amazonaws.com":                          {"AWSServiceRoleForRedshift", "AmazonRedshiftServiceLinkedRolePolicy", ""},
	"replication.cassandra.amazonaws.com":             {"AWSServiceRoleForKeyspacesReplication", "KeyspacesReplicationServiceRolePolicy", ""},
	"repository.sync.codeconnections.amazonaws.com":   {"AWSServiceRoleForGitSync", "AWSGitSyncServiceRolePolicy", ""},
	"resource-explorer-2.amazonaws.com":               {"AWSServiceRoleForResourceExplorer", "AWSResourceExplorerServiceRolePolicy", ""},
	"rolesanywhere.amazonaws.com":                     {"AWSServiceRoleForRolesAnywhere", "AWSRolesAnywhereServicePolicy", ""},
	"s3-outposts.amazonaws.com":                       {"AWSServiceRoleForS3OnOutposts", "AWSS3OnOutpostsServiceRolePolicy", ""},
	"ses.amazonaws.com":                               {"AWSServiceRoleForAmazonSES", "AmazonSESServiceRolePolicy", ""},
	"shield.amazonaws.com":                            {"AWSServiceRoleForAWSShield", "AWSShieldServiceRolePolicy", ""},
	"ssm-incidents.amazonaws.com":                     {"AWSServiceRoleForIncidentManager", "AWSIncidentManagerServiceRolePolicy", ""},
	"ssm-quicksetup.amazonaws.com":                    {"AWSServiceRoleForSSMQuickSetup", "SSMQuickSetupRolePolicy", ""},
	"sso.amazonaws.com":                               {"AWSServiceRoleForSSO", "AWSSSOServiceRolePolicy", ""},
	"vpcorigin.cloudfront.amazonaws.com":              {"AWSServiceRoleForCloudFrontVPCOrigin", "AWSCloudFrontVPCOriginServiceRolePolicy", ""},
	"waf.amazonaws.com":                               {"AWSServiceRoleForWAFLogging", "WAFLoggingServiceRolePolicy", ""},
	"wafv2.amazonaws.com":                             {"AWSServiceRoleForWAFV2Logging", "WAFV2LoggingServiceRolePolicy", ""},

	"config.amazonaws.com":                                  {"AWSServiceRoleForConfig", "AWSConfigServiceRolePolicy", ""},
	"custom-resource.application-autoscaling.amazonaws.com": {"AWSServiceRoleForApplicationAutoScaling_CustomResource", "AWSApplicationAutoScalingCustomResourcePolicy", ""},
	"dynamodb.application-autoscaling.amazonaws.com":        {"AWSServiceRoleForApplicationAutoScaling_DynamoDBTable", "AWSApplicationAutoscalingDynamoDBTablePolicy", ""},
	"ecs.amazonaws.com":                                     {"AWSServiceRoleForECS", "AmazonECSServiceRolePolicy", ""},
	"ecs.application-autoscaling.amazonaws.com":             {"AWSServiceRoleForApplicationAutoScaling_ECSService", "AWSApplicationAutoscalingECSServicePolicy", ""},
	"elasticache.amazonaws.com":                             {"AWSServiceRoleForElastiCache", "ElastiCacheServiceRolePolicy", ""},
	"es.amazonaws.com":                                      {"AWSServiceRoleForAmazonElasticsearchService", "AmazonElasticsearchServiceRolePolicy", ""},
	"guardduty.amazonaws.com":                               {"AWSServiceRoleForAmazonGuardDuty", "AmazonGuardDutyServiceRolePolicy", ""},
	"inspector.amazonaws.com":                               {"AWSServiceRoleForAmazonInspector", "AmazonInspectorServiceRolePolicy", ""},
	"opensearchservice.amazonaws.com":                       {"AWSServiceRoleForAmazonOpenSearchService", "AmazonOpenSearchServiceRolePolicy", ""},
	"pullthroughcache.ecr.amazonaws.com":                    {"AWSServiceRoleForECRPullThroughCache", "AWSECRPullThroughCache_ServiceRolePolicy", ""},
	"rds.amazonaws.com":                                     {"AWSServiceRoleForRDS", "AmazonRDSServiceRolePolicy", ""},
	"replication.ecr.amazonaws.com":                         {"AWSServiceRoleForECRReplication", "ECRReplicationServiceRolePolicy", ""},
	"ssm.amazonaws.com":                                     {"AWSServiceRoleForAmazonSSM", "AmazonSSMServiceRolePolicy", ""},
}

// suffixed are the services that allow a suffix. https://docs.aws.amazon.com/autoscaling/ec2/userguide/autoscaling-service-linked-role.html
// and [recorded] test_service_role_lifecycle_custom_suffix, as above
var suffixed = []string{"autoscaling.amazonaws.com", "connect.amazonaws.com", "lexv2.amazonaws.com", "spot.amazonaws.com", "spotfleet.amazonaws.com", "ec2fleet.amazonaws.com"}

// serviceRoleName is the name of the role that a request makes; false for a service that
// has none here.
func serviceRoleName(in *awsiam.CreateServiceLinkedRoleInput) (string, bool) {
	sr, ok := serviceRoles[aws.ToString(in.AWSServiceName)]
	if suffix := aws.ToString(in.CustomSuffix); suffix != "" {
		return sr.name + "_" + suffix, ok
	}
	return sr.name, ok
}

// CreateServiceLinkedRole creates the role of an AWS service.
func (s *Service) CreateServiceLinkedRole(ctx context.Context, in *awsiam.CreateServiceLinkedRoleInput) (*awsiam.CreateServiceLinkedRoleOutput, error) {
	if in.CustomSuffix != nil && !slices.Contains(suffixed, *in.AWSServiceName) {
		return nil, noCustomSuffix(*in.AWSServiceName)
	}
	call, service := awsapi.CallFrom(ctx), *in.AWSServiceName
	name, ok := serviceRoleName(in)
	if !ok {
		return nil, awserr.NotImplemented("the service-linked role of " + service)
	}
	sr, description := serviceRoles[service], aws.ToString(in.Description)
	if call.Internal() {
		description = sr.description
	}
	r := role{
		identity: identity{
			Name: name, Path: "/aws-service-role/" + service + "/", ID: ids.IAM("AROA"), Created: s.now(),
			Attached: []string{"arn:aws:iam::aws:policy/aws-service-role/" + sr.policy},
		},
		Trust:       `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"}]}`,
		Description: description, MaxSession: 3600, ServiceLinked: service,
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := roles.Get(tx, nameKey(call.Account, name)); err == nil {
			return serviceRoleTaken(name)
		}
		return roles.Create(tx, nameKey(call.Account, name), r)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateServiceLinkedRoleOutput{Role: s.outRole(call.Account, &r)}, nil
}

// deletions are the latest failed attempts to delete service-linked roles, by role name.
var deletions = store.NewCollection[deletion]("iam", "service-role-deletion")

type deletion struct {
	Task  string
	Usage map[string][]string // ARNs of resources that need the role, by region
}

// Register adds functions that return resources that need service-linked roles. Call it before the
// service is used.
func (s *Service) Register(usage ...module.RoleUsage) { s.roleUsages = append(s.roleUsages, usage...) }

func (s *Service) roleUsage(account, principal string) map[string][]string {
	usage := map[string][]string{}
	for _, u := range s.roleUsages {
		used := u(account, principal)
		for _, region := range slices.Sorted(maps.Keys(used)) {
			usage[region] = append(usage[region], used[region]...)
		}
	}
	return usage
}

// DeleteServiceLinkedRole deletes a service's role at once. If the service still has resources that
// need it, the deletion fails, as its status then shows.
func (s *Service) DeleteServiceLinkedRole(ctx context.Context, in *awsiam.DeleteServiceLinkedRoleInput) (*awsiam.DeleteServiceLinkedRoleOutput, error) {
	r, err := roleKind.read(ctx, s.store, *in.RoleName)
	if err != nil {
		return nil, err
	}
	if r.ServiceLinked == "" {
		return nil, noSuchRole(*in.RoleName)
	}
	acct := awsapi.CallFrom(ctx).Account
	failed := deletion{Task: "task" + r.Path + r.Name + "/" + ids.UUID()}
	failed.Usage = s.roleUsage(acct, r.ServiceLinked)
	key := nameKey(acct, r.Name)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		r, err := roles.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, noSuchRole(*in.RoleName))
		}
		if len(failed.Usage) > 0 {
			return deletions.Put(tx, key, failed)
		}
		deleteRole(tx, acct, &r)
		deletions.Delete(tx, key)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DeleteServiceLinkedRoleOutput{DeletionTaskId: &failed.Task}, nil
}

// GetServiceLinkedRoleDeletionStatus returns the result of a deletion.
func (s *Service) GetServiceLinkedRoleDeletionStatus(ctx context.Context, in *awsiam.GetServiceLinkedRoleDeletionStatusInput) (*awsiam.GetServiceLinkedRoleDeletionStatusOutput, error) {
	path := strings.Split(*in.DeletionTaskId, "/")
	if len(path) != 5 || path[0] != "task" || path[1] != "aws-service-role" {
		return nil, invalidInput("The deletion task id is invalid.") // no source
	}
	key := nameKey(awsapi.CallFrom(ctx).Account, path[3])
	if d, err := deletions.Get(s.store, key); err == nil && d.Task == *in.DeletionTaskId {
		out := &iamtypes.DeletionTaskFailureReasonType{Reason: aws.String("The role is used by resources of the service.")} // from memory
		for _, region := range slices.Sorted(maps.Keys(d.Usage)) {
			out.RoleUsageList = append(out.RoleUsageList, iamtypes.RoleUsageType{Region: &region, Resources: d.Usage[region]})
		}
		return &awsiam.GetServiceLinkedRoleDeletionStatusOutput{Status: iamtypes.DeletionTaskStatusTypeFailed, Reason: out}, nil
	}
	if _, err := roles.Get(s.store, key); store.IgnoreNotFound(err) != nil {
		return nil, err
	} else if err == nil {
		return nil, noSuchEntity("The deletion task %s cannot be found.", *in.DeletionTaskId) // from memory
	}
	return &awsiam.GetServiceLinkedRoleDeletionStatusOutput{Status: iamtypes.DeletionTaskStatusTypeSucceeded}, nil
}

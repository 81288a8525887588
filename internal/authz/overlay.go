package authz

import (
	"strings"
)

// This file corrects and completes the service authorization reference. Every row names its source; SAR is the
// reference itself, https://docs.aws.amazon.com/service-authorization/latest/reference/.

// renamed are operations whose action has another name.
var renamed = map[string]string{
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
	"s3:ListObjects":             "s3:ListBucket",
	"s3:ListObjectsV2":           "s3:ListBucket",
	"s3:HeadBucket":              "s3:ListBucket",
	"s3:HeadObject":              "s3:GetObject",
	"s3:CopyObject":              "s3:PutObject",
	"s3:CreateMultipartUpload":   "s3:PutObject",
	"s3:UploadPart":              "s3:PutObject",
	"s3:CompleteMultipartUpload": "s3:PutObject",
	"s3:ListBuckets":             "s3:ListAllMyBuckets",
	"s3:DeleteObjects":           "s3:DeleteObject",
	"s3:UploadPartCopy":          "s3:PutObject",
	"s3:ListParts":               "s3:ListMultipartUploadParts",
	"s3:ListMultipartUploads":    "s3:ListBucketMultipartUploads",
	"s3:ListObjectVersions":      "s3:ListBucketVersions",

	"s3:GetBucketAccelerateConfiguration":   "s3:GetAccelerateConfiguration",
	"s3:PutBucketAccelerateConfiguration":   "s3:PutAccelerateConfiguration",
	"s3:GetBucketCors":                      "s3:GetBucketCORS",
	"s3:PutBucketCors":                      "s3:PutBucketCORS",
	"s3:DeleteBucketCors":                   "s3:PutBucketCORS",
	"s3:GetBucketEncryption":                "s3:GetEncryptionConfiguration",
	"s3:PutBucketEncryption":                "s3:PutEncryptionConfiguration",
	"s3:DeleteBucketEncryption":             "s3:PutEncryptionConfiguration",
	"s3:GetBucketLifecycleConfiguration":    "s3:GetLifecycleConfiguration",
	"s3:PutBucketLifecycleConfiguration":    "s3:PutLifecycleConfiguration",
	"s3:DeleteBucketLifecycle":              "s3:PutLifecycleConfiguration",
	"s3:GetBucketNotificationConfiguration": "s3:GetBucketNotification",
	"s3:GetBucketReplication":               "s3:GetReplicationConfiguration",
	"s3:GetObjectLockConfiguration":         "s3:GetBucketObjectLockConfiguration",
	"s3:PutObjectLockConfiguration":         "s3:PutBucketObjectLockConfiguration",
	"s3:GetPublicAccessBlock":               "s3:GetBucketPublicAccessBlock",
	"s3:PutPublicAccessBlock":               "s3:PutBucketPublicAccessBlock",
	"s3:DeletePublicAccessBlock":            "s3:PutBucketPublicAccessBlock",
	"s3:DeleteBucketTagging":                "s3:PutBucketTagging",
	"s3:DeleteBucketOwnershipControls":      "s3:PutBucketOwnershipControls",
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-api-permissions-reference.html
	"sqs:SendMessageBatch":             "sqs:SendMessage",
	"sqs:DeleteMessageBatch":           "sqs:DeleteMessage",
	"sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
	"sns:PublishBatch":                 "sns:Publish",
	// https://docs.aws.amazon.com/kms/latest/APIReference/API_ReEncrypt.html: also kms:ReEncryptTo, which the service
	// adds
	"kms:ReEncrypt": "kms:ReEncryptFrom",
	// The embedded reference is older than these operations. On AWS their actions have their own names; here the
	// policies for the listener's actions, for refreshing insights, for a cluster's encryption, or for pulling an
	// image, allow them.
	"elasticloadbalancing:DescribeCapacityReservation": "elasticloadbalancing:DescribeLoadBalancerAttributes",
	"elasticloadbalancing:DescribeListenerAttributes":  "elasticloadbalancing:DescribeListeners",
	"elasticloadbalancing:ModifyListenerAttributes":    "elasticloadbalancing:ModifyListener",
	"eks:CancelUpdate":                 "eks:StartInsightsRefresh",
	"eks:CreateCertificateAuthority":   "eks:AssociateEncryptionConfig",
	"eks:ActivateCertificateAuthority": "eks:AssociateEncryptionConfig",
	"eks:DeleteCertificateAuthority":   "eks:AssociateEncryptionConfig",
	"eks:DescribeCertificateAuthority": "eks:DescribeCluster",
	"eks:ListCertificateAuthorities":   "eks:DescribeCluster",
	"ecr:ListImageReferrers":           "ecr:BatchGetImage",
}

// A targetRow says which resources an operation touches, if the names of its members do not show that.
type targetRow struct {
	// targets are TYPE=MEMBERS, separated by spaces. TYPE? is left out if the request does not name it. MEMBERS are
	// the parts of the ARN joined by +, each one or more members, joined by |; 'x is the literal x, used if no member
	// is present. An empty string means an action without resources.
	targets string
	source  string
}

// unnamed are the ARNs that EKS checks although SAR has no resource for the action: users reported "is not authorized
// to perform: eks:ListClusters on resource: arn:aws:eks:us-east-1:111122223333:cluster/*", and likewise
// eks:DescribeClusterVersions on …:111122223333:*.
var unnamed = map[string]string{
	"eks:ListClusters":            "arn:${Partition}:eks:${Region}:${Account}:cluster/*",
	"eks:DescribeClusterVersions": "arn:${Partition}:eks:${Region}:${Account}:*",
}

var targeted = map[string]targetRow{
	// SAR also requires the web ACL, but no web ACLs exist here.
	"wafv2:GetWebACLForResource":        {"loadbalancer/app/=ResourceArn", "SAR"},
	"waf-regional:GetWebACLForResource": {"loadbalancer/app/=ResourceArn", "SAR"},

	// For lists, IAM's resource is the path, with the list's kind. SAR has none (from memory of IAM's messages:
	// iam:ListRoles on resource: arn:aws:iam::…:role/).
	"iam:ListUsers":            {"user=PathPrefix|'/", "messages of IAM"},
	"iam:ListGroups":           {"group=PathPrefix|'/", "messages of IAM"},
	"iam:ListRoles":            {"role=PathPrefix|'/", "messages of IAM"},
	"iam:ListInstanceProfiles": {"instance-profile=PathPrefix|'/", "messages of IAM"},
	"iam:ListPolicies":         {"policy=PathPrefix|'/", "messages of IAM"},

	"iam:ListServerCertificates": {"server-certificate=PathPrefix|'/", "as the lists above"},
	// SAR names every kind for the tag operations; the identity is the one given.
	"iam:AddUserToGroup":                     {"group=GroupName", "SAR"},
	"iam:RemoveUserFromGroup":                {"group=GroupName", "SAR"},
	"iam:ListGroupsForUser":                  {"user=UserName", "SAR"},
	"iam:AddRoleToInstanceProfile":           {"instance-profile=InstanceProfileName", "SAR"},
	"iam:RemoveRoleFromInstanceProfile":      {"instance-profile=InstanceProfileName", "SAR"},
	"iam:ListInstanceProfilesForRole":        {"role=RoleName", "SAR"},
	"iam:DeleteVirtualMFADevice":             {"mfa=SerialNumber", "SAR: sms-mfa is no longer offered"},
	"iam:CreateOpenIDConnectProvider":        {"oidc-provider=Url", "SAR: named by the URL without its scheme"},
	"iam:GetContextKeysForPrincipalPolicy":   {"user?=PolicySourceArn", "SAR: the principal asked about, of whatever kind"},
	"iam:GenerateServiceLastAccessedDetails": {"user=Arn", "SAR: the entity or policy asked about, of whatever kind"},
	"iam:ListPoliciesGrantingServiceAccess":  {"user=Arn", "SAR, as above"},
	"iam:SimulatePrincipalPolicy":            {"user?=PolicySourceArn", "SAR: the principal simulated, of whatever kind"},

	"sts:AssumeRole":                {"role=RoleArn", "SAR"},
	"sts:AssumeRoleWithWebIdentity": {"role=RoleArn", "SAR"},
	"sts:GetFederationToken":        {"federated-user=Name", "SAR: named federated-user/NAME"},

	// A parameter is identified by its name or its ARN, and a list of paths by its path.
	"ssm:GetParametersByPath":    {"parameter=Path", "SAR, https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-access.html"},
	"ssm:AddTagsToResource":      {"parameter=ResourceId", "SAR: of ResourceType Parameter; the service knows those of documents"},
	"ssm:RemoveTagsFromResource": {"parameter=ResourceId", "SAR, as above"},
	"ssm:ListTagsForResource":    {"parameter=ResourceId", "SAR, as above"},
	"ssm:GetParameter":           {"parameter=Name", "SAR"},
	"ssm:GetParameters":          {"parameter=Names", "SAR"},
	"ssm:GetParameterHistory":    {"parameter=Name", "SAR"},
	"ssm:DescribeParameters":     {"", "SAR: no resource"},

	"ssm:CreateDocument":              {"document=Name", "SAR"},
	"ssm:GetServiceSetting":           {"servicesetting=SettingId", "SAR"},
	"ssm:UpdateServiceSetting":        {"servicesetting=SettingId", "SAR; the service adds the role that it passes"},
	"ssm:ResetServiceSetting":         {"servicesetting=SettingId", "SAR"},
	"ssm:ListDocuments":               {"", "SAR: no resource"},
	"ssm:ResumeSession":               {"session=SessionId", "SAR"},
	"ssm:TerminateSession":            {"session=SessionId", "SAR"},
	"ssm:GetConnectionStatus":         {"instance=Target", "SAR"},
	"ssm:DescribeSessions":            {"", "SAR: no resource"},
	"ssm:DescribeInstanceInformation": {"", "SAR: no resource"},
	"ssm:ListAssociations":            {"", "SAR: no resource"},
	"ssm:PutInventory":                {"", "SAR: no resource; the service knows ssm:InventoryTypeName"},
	"ssm:ListInventoryEntries":        {"", "SAR: no resource"},
	"ssm:GetInventory":                {"", "SAR: no resource"},
	"ssm:GetInventorySchema":          {"", "SAR: no resource"},
	"ssm:DeleteInventory":             {"", "SAR: no resource"},
	"ssm:StartAssociationsOnce":       {"association=AssociationIds", "SAR"},
	"ssm:DescribeAssociation":         {"association?=AssociationId document?=Name instance?=InstanceId", "SAR"},
	"ssm:DeleteAssociation":           {"association?=AssociationId document?=Name instance?=InstanceId", "SAR"},

	"ssm:DescribeInstanceAssociationsStatus":    {"instance=InstanceId", "SAR"},
	"ssm:DescribeEffectiveInstanceAssociations": {"instance=InstanceId", "SAR"},

	// EKS: creating something in a cluster is checked against the cluster.
	"eks:ListUpdates":                        {"cluster=name nodegroup?=name+nodegroupName addon?=name+addonName capability?=name+capabilityName", "SAR"},
	"eks:DescribeUpdate":                     {"cluster=name nodegroup?=name+nodegroupName addon?=name+addonName capability?=name+capabilityName", "SAR"},
	"eks:CreateCapability":                   {"", "SAR: no resource"},
	"eks:DescribeCapability":                 {"capability=clusterName+capabilityName", "SAR"},
	"eks:UpdateCapability":                   {"capability=clusterName+capabilityName", "SAR"},
	"eks:DeleteCapability":                   {"capability=clusterName+capabilityName", "SAR"},
	"eks:CreateAddon":                        {"cluster=clusterName", "SAR; its associations, of no name yet, are asked about by their roles"},
	"eks:UpdateAddon":                        {"addon=clusterName+addonName", "SAR, as above"},
	"eks:DeleteAddon":                        {"addon=clusterName+addonName", "SAR, as above"},
	"eks:CreateCluster":                      {"cluster=name", "https://docs.aws.amazon.com/eks/latest/userguide/security-iam-id-based-policies.html: messages name the cluster, SAR has no resource"},
	"eks:DescribeAccessEntry":                {"access-entry=clusterName+principalArn", "SAR"},
	"eks:UpdateAccessEntry":                  {"access-entry=clusterName+principalArn", "SAR"},
	"eks:DeleteAccessEntry":                  {"access-entry=clusterName+principalArn", "SAR"},
	"eks:AssociateAccessPolicy":              {"access-entry=clusterName+principalArn", "SAR"},
	"eks:DisassociateAccessPolicy":           {"access-entry=clusterName+principalArn", "SAR"},
	"eks:DescribePodIdentityAssociation":     {"podidentityassociation=clusterName+associationId", "SAR"},
	"eks:UpdatePodIdentityAssociation":       {"podidentityassociation=clusterName+associationId", "SAR"},
	"eks:DeletePodIdentityAssociation":       {"podidentityassociation=clusterName+associationId", "SAR"},
	"eks:DescribeIdentityProviderConfig":     {"identityproviderconfig=clusterName+identityProviderConfig.type+identityProviderConfig.name", "SAR"},
	"eks:DisassociateIdentityProviderConfig": {"identityproviderconfig=clusterName+identityProviderConfig.type+identityProviderConfig.name", "SAR"},
	"eks:ListAssociatedAccessPolicies":       {"access-entry=clusterName+principalArn", "SAR"},
	"eks:DescribeEksAnywhereSubscription":    {"eks-anywhere-subscription=id", "SAR"},
	"eks:UpdateEksAnywhereSubscription":      {"eks-anywhere-subscription=id", "SAR"},
	"eks:DeleteEksAnywhereSubscription":      {"eks-anywhere-subscription=id", "SAR"},
	"eks:TagResource":                        {"cluster=resourceArn", "SAR: the resource whose ARN is given, of whatever kind"},
	"eks:UntagResource":                      {"cluster=resourceArn", "SAR, as above"},
	"eks:ListTagsForResource":                {"cluster=resourceArn", "SAR, as above"},

	// Auto Scaling's tags name their group themselves.
	"autoscaling:CreateOrUpdateTags": {"autoScalingGroup='*+Tags.ResourceId", "SAR"},
	"autoscaling:DeleteTags":         {"autoScalingGroup='*+Tags.ResourceId", "SAR"},

	// EC2 only checks those of these resources that a request names.
	"ec2:CreateRoute":                  {"route-table=RouteTableId", "SAR"},
	"ec2:DeleteRoute":                  {"route-table=RouteTableId", "SAR"},
	"ec2:AssociateRouteTable":          {"route-table=RouteTableId subnet?=SubnetId internet-gateway?=GatewayId", "SAR"},
	"ec2:EnableVgwRoutePropagation":    {"route-table=RouteTableId vpn-gateway=GatewayId", "SAR"},
	"ec2:DisableVgwRoutePropagation":   {"route-table=RouteTableId vpn-gateway=GatewayId", "SAR"},
	"ec2:DisassociateRouteTable":       {"route-table=AssociationId", "SAR: the table of the association"},
	"ec2:DisassociateVpcCidrBlock":     {"vpc=AssociationId", "SAR: the VPC of the association"},
	"ec2:DisassociateSubnetCidrBlock":  {"subnet=AssociationId", "SAR: the subnet of the association"},
	"ec2:ReplaceNetworkAclAssociation": {"network-acl=NetworkAclId subnet=AssociationId", "SAR: the new list, the subnet of the association"},
	"ec2:AcceptVpcPeeringConnection":   {"vpc-peering-connection=VpcPeeringConnectionId vpc=VpcPeeringConnectionId", "SAR: the accepter's VPC"},
	"ec2:AssociateAddress":             {"elastic-ip?=AllocationId|PublicIp instance?=InstanceId network-interface?=NetworkInterfaceId", "SAR"},
	"ec2:DisassociateAddress":          {"elastic-ip?=AssociationId|PublicIp network-interface?=AssociationId|PublicIp", "SAR: those of the association"},
	"ec2:ReleaseAddress":               {"elastic-ip?=AllocationId|PublicIp", "SAR"},
	"ec2:DeleteFlowLogs":               {"vpc-flow-log=FlowLogIds", "SAR"},
	"ec2:ModifySecurityGroupRules":     {"security-group=GroupId security-group-rule=SecurityGroupRules.SecurityGroupRuleId", "SAR"},
	"ec2:ModifyInstanceAttribute":      {"instance=InstanceId security-group?=Groups volume?=BlockDeviceMappings.Ebs.VolumeId", "SAR"},
	"ec2:ModifyNetworkInterfaceAttribute": {
		"network-interface=NetworkInterfaceId security-group?=Groups instance?=Attachment.AttachmentId", "SAR",
	},
	"ec2:ModifyInstanceCreditSpecification": {"instance=InstanceCreditSpecifications.InstanceId", "SAR"},
	"ec2:ModifyVpcEndpoint": {
		"vpc-endpoint=VpcEndpointId route-table?=AddRouteTableIds route-table?=RemoveRouteTableIds subnet?=AddSubnetIds subnet?=RemoveSubnetIds " +
			"security-group?=AddSecurityGroupIds security-group?=RemoveSecurityGroupIds", "SAR",
	},
	"ec2:ReplaceIamInstanceProfileAssociation": {"instance=AssociationId", "SAR: the instance of the association"},
	"ec2:DisassociateIamInstanceProfile":       {"instance=AssociationId", "SAR, as above"},
	"ec2:DetachNetworkInterface":               {"network-interface=AttachmentId instance?=AttachmentId", "SAR: those of the attachment"},
	"ec2:AuthorizeSecurityGroupIngress":        {"security-group=GroupId|GroupName", "SAR"},
	"ec2:AuthorizeSecurityGroupEgress":         {"security-group=GroupId", "SAR"},
	"ec2:RevokeSecurityGroupIngress":           {"security-group=GroupId|GroupName", "SAR"},
	"ec2:RevokeSecurityGroupEgress":            {"security-group=GroupId", "SAR"},
	"ec2:CreateNetworkInterface":               {"network-interface= subnet=SubnetId security-group?=Groups", "SAR"},
	"ec2:AttachNetworkInterface":               {"instance=InstanceId network-interface=NetworkInterfaceId", "SAR"},
	"ec2:CreateSecurityGroup":                  {"security-group= vpc?=VpcId", "SAR: the group has no ID yet"},
	"ec2:CreateLaunchTemplate":                 {"launch-template=", "SAR: the template has no ID yet"},
	"ec2:RegisterImage":                        {"image= snapshot?=BlockDeviceMappings.Ebs.SnapshotId", "SAR: the image has no ID yet"},
	"ec2:CreateKeyPair":                        {"key-pair=KeyName", "SAR"},
	"ec2:ImportKeyPair":                        {"key-pair=KeyName", "SAR"},
}

// aliases are the names that services use for the variable parts of their ARNs, if members have other names: PREFIX
// VARIABLE → members, best first.
var aliases = map[string]string{
	"acm CertificateId":                    "CertificateArn",
	"autoscaling GroupFriendlyName":        "AutoScalingGroupName",
	"ec2 FleetId":                          "FleetId FleetIds",
	"ec2 KeyPairName":                      "KeyName KeyNames",
	"ec2 LaunchTemplateId":                 "LaunchTemplateId LaunchTemplateName",
	"ec2 NaclId":                           "NetworkAclId NetworkAclIds",
	"ec2 PlacementGroupName":               "GroupName",
	"ec2 SecurityGroupId":                  "GroupId GroupName GroupIds",
	"ec2 SecurityGroupRuleId":              "SecurityGroupRuleIds",
	"ec2 VpcEndpointId":                    "VpcEndpointId VpcEndpointIds",
	"ec2 VpcPeeringConnectionId":           "VpcPeeringConnectionId VpcPeeringConnectionIds",
	"eks ClusterName":                      "clusterName name",
	"eks UUID":                             "associationId",
	"eks IdentityProviderConfigName":       "identityProviderConfigName",
	"events RuleName":                      "Rule Name",
	"iam GroupNameWithPath":                "GroupName",
	"iam InstanceProfileNameWithPath":      "InstanceProfileName",
	"iam MfaTokenIdWithPath":               "SerialNumber VirtualMFADeviceName",
	"iam OidcProviderName":                 "OpenIDConnectProviderArn",
	"iam CertificateNameWithPath":          "ServerCertificateName",
	"iam PolicyNameWithPath":               "PolicyArn PolicyName",
	"iam RoleNameWithPath":                 "RoleName",
	"iam SamlProviderName":                 "SAMLProviderArn Name",
	"iam UserNameWithPath":                 "UserName",
	"kms KeyId":                            "KeyId",
	"logs LogGroupName":                    "logGroupName",
	"route53 Id":                           "HostedZoneId Id",
	"s3 BucketName":                        "Bucket",
	"s3 ObjectName":                        "Key",
	"secretsmanager SecretId":              "SecretId Name",
	"sns TopicName":                        "TopicArn ResourceArn TargetArn Name",
	"sqs QueueName":                        "QueueName QueueUrl",
	"ssm DocumentName":                     "Name DocumentName",
	"ssm ParameterNameWithoutLeadingSlash": "Name Names",
}

// owners map resource types to the service that owns them, if it is another one.
var owners = map[string]string{
	"sts/role": "iam", "ssm/instance": "ec2", "ec2-instance-connect/instance": "ec2", "ec2-instance-connect/instance-connect-endpoint": "ec2",
}

// arnRules fix ARNs that the pattern alone gets wrong.
var arnRules = map[string]func(string) string{
	// A path and the leading slash of a name become one slash.
	"ssm/parameter": func(arn string) string {
		return publicParameter(strings.Replace(arn, ":parameter//", ":parameter/", 1))
	},
	"ssm/servicesetting": func(arn string) string { return strings.Replace(arn, ":servicesetting//", ":servicesetting/", 1) },
	"iam/user":           oneSlash, "iam/group": oneSlash, "iam/role": oneSlash, "iam/policy": oneSlash, "iam/instance-profile": oneSlash, "iam/mfa": oneSlash, "iam/server-certificate": oneSlash,
	"iam/oidc-provider": func(arn string) string { return strings.Replace(arn, ":oidc-provider/https://", ":oidc-provider/", 1) },
	"sqs/queue":         queueARN,
}

func oneSlash(arn string) string {
	return strings.Replace(arn, "//", "/", 1)
}

// publicParameter removes the account from the ARN of a parameter that AWS publishes.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html
func publicParameter(arn string) string {
	f := strings.SplitN(arn, ":", 6)
	if len(f) == 6 && strings.HasPrefix(f[5], "parameter/aws/") {
		f[4] = ""
		return strings.Join(f, ":")
	}
	return arn
}

// queueARN handles queue URLs, which end in ACCOUNT/NAME. The account may be another one.
func queueARN(arn string) string {
	f := strings.SplitN(arn, ":", 6)
	if i := strings.LastIndexByte(arn, '/'); len(f) == 6 && i >= 0 {
		f[5] = arn[i+1:]
		if account := arn[strings.LastIndexByte(arn[:i], '/')+1 : i]; len(account) == 12 && strings.Trim(account, "0123456789") == "" {
			f[4] = account
		}
		return strings.Join(f, ":")
	}
	return arn
}

// A dependent is an action that an operation also needs if its request has a certain member.
type dependent struct {
	member string // its value names the resource
	action string
	kind   string // the resource's type
	via    string // the type of the resource that the member names, which holds the actual resource
	keys   string // condition keys: KEY=VALUE, separated by spaces
	source string
}

func passRole(member, service, source string) dependent {
	return dependent{member: member, action: "iam:PassRole", kind: "role", keys: "iam:PassedToService=" + service, source: source}
}

func passProfile(member, source string) dependent {
	return dependent{member: member, action: "iam:PassRole", kind: "role", via: "instance-profile", keys: "iam:PassedToService=ec2.amazonaws.com", source: source}
}

const (
	sourcePassRole     = "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"
	sourceEKSRoles     = "https://docs.aws.amazon.com/eks/latest/userguide/security-iam-id-based-policies.html"
	sourceCapabilities = "https://docs.aws.amazon.com/eks/latest/userguide/capability-role.html"
	sourceAddonRoles   = "https://docs.aws.amazon.com/eks/latest/userguide/update-addon-role.html"
	sourceEC2Profile   = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permission-to-pass-iam-roles.html"
)

var dependents = map[string][]dependent{
	"ec2:AssociateIamInstanceProfile":          {passProfile("IamInstanceProfile.Arn", sourceEC2Profile), passProfile("IamInstanceProfile.Name", sourceEC2Profile)},
	"ec2:ReplaceIamInstanceProfileAssociation": {passProfile("IamInstanceProfile.Arn", sourceEC2Profile), passProfile("IamInstanceProfile.Name", sourceEC2Profile)},
	"iam:AddRoleToInstanceProfile":             {passRole("RoleName", "ec2.amazonaws.com", "SAR: dependent action")},
	// https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
	"ec2:CreateFlowLogs": {
		passRole("DeliverLogsPermissionArn", "vpc-flow-logs.amazonaws.com", "SAR: dependent action"),
		passRole("DeliverCrossAccountRole", "vpc-flow-logs.amazonaws.com", "SAR: dependent action"),
	},
	"eks:CreateCluster":                {passRole("roleArn", "eks.amazonaws.com", sourceEKSRoles), passRole("computeConfig.nodeRoleArn", "eks.amazonaws.com", sourceEKSRoles)},
	"eks:UpdateClusterConfig":          {passRole("computeConfig.nodeRoleArn", "eks.amazonaws.com", sourceEKSRoles)},
	"eks:CreateNodegroup":              {passRole("nodeRole", "eks.amazonaws.com", sourceEKSRoles)},
	"eks:RegisterCluster":              {passRole("connectorConfig.roleArn", "ssm.amazonaws.com", "https://docs.aws.amazon.com/eks/latest/userguide/connecting-cluster.html")},
	"eks:CreateCapability":             {passRole("roleArn", "capabilities.eks.amazonaws.com", sourceCapabilities)},
	"eks:UpdateCapability":             {passRole("roleArn", "capabilities.eks.amazonaws.com", sourceCapabilities)},
	"eks:CreateFargateProfile":         {passRole("podExecutionRoleArn", "eks.amazonaws.com", sourceEKSRoles)},
	"eks:CreateAddon":                  {passRole("serviceAccountRoleArn", "eks.amazonaws.com", sourceEKSRoles), passRole("podIdentityAssociations.roleArn", "pods.eks.amazonaws.com", sourceAddonRoles)},
	"eks:UpdateAddon":                  {passRole("serviceAccountRoleArn", "eks.amazonaws.com", sourceEKSRoles), passRole("podIdentityAssociations.roleArn", "pods.eks.amazonaws.com", sourceAddonRoles)},
	"eks:CreatePodIdentityAssociation": {passRole("roleArn", "pods.eks.amazonaws.com", "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html")},
	"eks:UpdatePodIdentityAssociation": {passRole("roleArn", "pods.eks.amazonaws.com", "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html")},
	// Using the configuration in a group needs no further EC2 permissions than creating it did:
	// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
	"autoscaling:CreateLaunchConfiguration": {passProfile("IamInstanceProfile", sourcePassRole)},
	"autoscaling:CreateAutoScalingGroup": {
		passRole("ServiceLinkedRoleARN", "autoscaling.amazonaws.com", "SAR: dependent action"),
		passRole("LifecycleHookSpecificationList.RoleARN", "autoscaling.amazonaws.com", sourcePassRole),
	},
	"autoscaling:UpdateAutoScalingGroup":    {passRole("ServiceLinkedRoleARN", "autoscaling.amazonaws.com", "SAR: dependent action")},
	"autoscaling:PutLifecycleHook":          {passRole("RoleARN", "autoscaling.amazonaws.com", sourcePassRole)},
	"cloudformation:CreateChangeSet":        {passRole("RoleARN", "cloudformation.amazonaws.com", sourcePassRole)},
	"cloudformation:CreateStack":            {passRole("RoleARN", "cloudformation.amazonaws.com", sourcePassRole)},
	"cloudformation:DeleteStack":            {passRole("RoleARN", "cloudformation.amazonaws.com", sourcePassRole)},
	"cloudformation:ContinueUpdateRollback": {passRole("RoleARN", "cloudformation.amazonaws.com", sourcePassRole)},
	"cloudformation:RollbackStack":          {passRole("RoleARN", "cloudformation.amazonaws.com", sourcePassRole)},
	"cloudformation:UpdateStack":            {passRole("RoleARN", "cloudformation.amazonaws.com", sourcePassRole)},
	"events:PutTargets":                     {passRole("Targets.RoleArn", "events.amazonaws.com", sourcePassRole)},
}

// A tagger says which action is needed to tag resources on creation.
type tagger struct {
	// action returns the action for a type of resource, or "" if there is none.
	action func(kind string) string
	// createKey is the condition key whose value is the operation's name.
	createKey string
	// free are operations whose own permission covers tagging.
	free   []string
	source string
}

var taggers = map[string]tagger{
	"ec2": {
		action:    func(string) string { return "CreateTags" },
		createKey: "ec2:createaction",
		source:    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html",
	},
	"eks": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html",
	},
	"iam": {
		action: func(kind string) string { return iamTaggers[kind] },
		source: "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html",
	},
	"ssm": {
		action: func(string) string { return "AddTagsToResource" },
		source: "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html",
	},
	"autoscaling": {
		action: func(string) string { return "CreateOrUpdateTags" },
		source: "https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html",
	},
	"sqs": {
		action: func(string) string { return "TagQueue" },
		source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html",
	},
	"acm": {
		action: func(string) string { return "AddTagsToCertificate" },
		source: "https://docs.aws.amazon.com/acm/latest/APIReference/API_RequestCertificate.html",
	},
	"secretsmanager": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html",
	},
	"sns": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/sns/latest/api/API_CreateTopic.html",
	},
	"elasticloadbalancing": {
		action:    func(string) string { return "AddTags" },
		createKey: "elasticloadbalancing:createaction",
		source:    "https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/tagging-resources-during-creation.html",
	},
	"ecr": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-using-tags.html",
	},
	"ecr-public": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/AmazonECR/latest/public/ecr-public-using-tags.html",
	},
	"logs": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html",
	},
	"events": {
		action: func(string) string { return "TagResource" },
		source: "https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html",
	},
	"kms": {
		action: func(string) string { return "TagResource" },
		free:   []string{"CreateKey"}, // the service adds the check itself, with its condition keys
		source: "https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateKey.html",
	},
	"ec2-instance-connect": {
		action: func(string) string { return "" },
	},
}

var iamTaggers = map[string]string{
	"user": "TagUser", "role": "TagRole", "policy": "TagPolicy",
	"instance-profile": "TagInstanceProfile", "oidc-provider": "TagOpenIDConnectProvider", "server-certificate": "TagServerCertificate",
}

// memberKeys are condition keys whose value is in a member with another name, by path. A key with the name of a
// top-level member needs no row.
var memberKeys = map[string]string{
	// SAR of EKS; names of the members from the API model.
	"eks:kubernetesversion":                       "version",
	"eks:authenticationmode":                      "accessConfig.authenticationMode",
	"eks:bootstrapclustercreatoradminpermissions": "accessConfig.bootstrapClusterCreatorAdminPermissions",
	"eks:endpointpublicaccess":                    "resourcesVpcConfig.endpointPublicAccess",
	"eks:endpointprivateaccess":                   "resourcesVpcConfig.endpointPrivateAccess",
	"eks:encryptionconfigproviderkeyarns":         "encryptionConfig.provider.keyArn",
	"eks:supporttype":                             "upgradePolicy.supportType",
	"eks:zonalshiftenabled":                       "zonalShiftConfig.enabled",
	"eks:computeconfigenabled":                    "computeConfig.enabled",
	"eks:elasticloadbalancingenabled":             "kubernetesNetworkConfig.elasticLoadBalancing.enabled",
	"eks:blockstorageenabled":                     "storageConfig.blockStorage.enabled",
	"eks:controlplanescalingtier":                 "controlPlaneScalingConfig.tier",
	"eks:clustername":                             "clusterName",
	"eks:accessentrytype":                         "type",
	"eks:accessscope":                             "accessScope.type",
	"eks:namespaces":                              "accessScope.namespaces",
	"eks:clientid":                                "oidc.clientId",
	"eks:issuerurl":                               "oidc.issuerUrl",
	// SAR of Auto Scaling.
	"autoscaling:vpczoneidentifiers":              "VPCZoneIdentifier",
	"autoscaling:instancetype":                    "InstanceType",
	"autoscaling:instancetypes":                   "MixedInstancesPolicy.LaunchTemplate.Overrides.InstanceType",
	"autoscaling:metadatahttptokens":              "MetadataOptions.HttpTokens",
	"autoscaling:metadatahttpendpoint":            "MetadataOptions.HttpEndpoint",
	"autoscaling:metadatahttpputresponsehoplimit": "MetadataOptions.HttpPutResponseHopLimit",
	"autoscaling:trafficsourceidentifiers":        "TrafficSources.Identifier",
	"autoscaling:loadbalancernames":               "LoadBalancerNames",
	// SAR of STS.
	"sts:requestcontextproviders": "ProvidedContexts.ProviderArn",
	"sts:taskpolicyarn":           "TaskPolicyArn.Arn",
	"organizations:policytype":    "Type|Filter|PolicyType",
	// SAR of IAM.
	"iam:servicespecificcredentialservicename": "ServiceName",
	"iam:servicespecificcredentialagedays":     "CredentialAgeDays",
	// SAR of EC2; only keys that the request alone determines.
	"ec2:add/group":                  "CreateVolumePermission.Add.Group",
	"ec2:add/userid":                 "CreateVolumePermission.Add.UserId",
	"ec2:remove/group":               "CreateVolumePermission.Remove.Group",
	"ec2:remove/userid":              "CreateVolumePermission.Remove.UserId",
	"ec2:placementgroupname":         "GroupName",
	"ec2:placementgroupstrategy":     "Strategy",
	"ec2:dpdtimeoutseconds":          "Options.TunnelOptions.DPDTimeoutSeconds",
	"ec2:ikeversions":                "Options.TunnelOptions.IKEVersions.Value",
	"ec2:insidetunnelcidr":           "Options.TunnelOptions.TunnelInsideCidr",
	"ec2:insidetunnelipv6cidr":       "Options.TunnelOptions.TunnelInsideIpv6Cidr",
	"ec2:phase1dhgroup":              "Options.TunnelOptions.Phase1DHGroupNumbers.Value",
	"ec2:phase1encryptionalgorithms": "Options.TunnelOptions.Phase1EncryptionAlgorithms.Value",
	"ec2:phase1integrityalgorithms":  "Options.TunnelOptions.Phase1IntegrityAlgorithms.Value",
	"ec2:phase1lifetimeseconds":      "Options.TunnelOptions.Phase1LifetimeSeconds",
	"ec2:phase2dhgroup":              "Options.TunnelOptions.Phase2DHGroupNumbers.Value",
	"ec2:phase2encryptionalgorithms": "Options.TunnelOptions.Phase2EncryptionAlgorithms.Value",
	"ec2:phase2integrityalgorithms":  "Options.TunnelOptions.Phase2IntegrityAlgorithms.Value",
	"ec2:phase2lifetimeseconds":      "Options.TunnelOptions.Phase2LifetimeSeconds",
	"ec2:rekeyfuzzpercentage":        "Options.TunnelOptions.RekeyFuzzPercentage",
	"ec2:rekeymargintimeseconds":     "Options.TunnelOptions.RekeyMarginTimeSeconds",
	"ec2:replaywindowsizepackets":    "Options.TunnelOptions.ReplayWindowSize",
	"ec2:tenancy":                    "InstanceTenancy",
	"ec2:vpceservicename":            "ServiceName",
	"ec2:vpceserviceregion":          "ServiceRegion",
	// SAR of Service Quotas.
	"servicequotas:service": "ServiceCode",
}

package cluster

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// [seen] cluster-api-provider-aws, aws-nuke
func errNodegroupsAttached(cluster, nodegroup string) error {
	return &ekstypes.ResourceInUseException{Message: new("Cluster has nodegroups attached"), ClusterName: &cluster, NodegroupName: &nodegroup}
}

// terraform-provider-aws retries on "in progress".
func errBusy(cluster string, status ekstypes.ClusterStatus) error {
	return ekserr.InUse(cluster, "Cluster %s has an operation in progress: it is currently %s", cluster, status)
}

func errDeletionProtected(cluster string) error {
	return ekserr.InvalidRequest(cluster, "Cluster %s has deletion protection enabled. Disable deletion protection before deleting the cluster.", cluster)
}

// [seen] pulumi/pulumi-eks#48
func errLimit() error {
	return &ekstypes.ResourceLimitExceededException{Message: new("Cluster limit exceeded for account.")}
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-version-unsupported
func errUnsupportedVersion(cluster, version string) error {
	return ekserr.InvalidParameter(cluster, "unsupported Kubernetes version %s", version)
}

func errExtendedSupport(cluster, version string) error {
	return ekserr.InvalidParameter(cluster, "Kubernetes version %s is in extended support. The support type cannot be STANDARD", version) // from memory
}

// [seen] terraform-provider-aws retries on "does not exist" and "trusted entity is not correct".
func errRoleNotAssumable(cluster, role string) error {
	return ekserr.InvalidParameter(cluster, "Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", role)
}

func errRoleARN(cluster, role string) error {
	return ekserr.InvalidParameter(cluster, "roleArn, %s, is not a valid role ARN of this account", role)
}

// [seen]
func errOneZone(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Subnets specified must be in at least two different AZs")
}

// [seen] EKS passes on EC2's text.
func errSubnetNotFound(cluster, id string) error {
	return ekserr.InvalidParameter(cluster, "The subnet ID '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

func errSecurityGroupNotFound(cluster, id string) error {
	return ekserr.InvalidParameter(cluster, "The security group '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

func errSubnetVPCs(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Subnets specified must be in the same VPC")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-sg-and-subnets-same-vpc
func errSecurityGroupVPC(cluster string, groups []string, vpc string) error {
	return ekserr.InvalidParameter(cluster, "Security group(s) [%s] are not (in/associated to) the same VPC as the subnets. Please specify a security group that is associated with the VPC: %s", strings.Join(groups, ", "), vpc)
}

func errTooManySecurityGroups(cluster string) error {
	return ekserr.InvalidParameter(cluster, "You can specify at most 5 security groups.")
}

// [seen] eksctl validates the same combination with this reason.
func errNoEndpointAccess(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Private and public endpoint access cannot be false")
}

func errBadPublicCIDR(cluster string, cidrs []string) error {
	return ekserr.InvalidParameter(cluster, "The following CIDRs are invalid in publicAccessCidrs: [%s]", strings.Join(cidrs, ", "))
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-service-ipv4-cidr-private-range
func errServiceCIDRRange(cluster, cidr string) error {
	return ekserr.InvalidParameter(cluster, "Invalid Cluster Service Ipv4 CIDR %s for the cluster %s, must be within RFC1918 range", cidr, cluster)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-service-ipv4-cidr-prefix-range
func errServiceCIDRSize(cluster, cidr string) error {
	return ekserr.InvalidParameter(cluster, "Invalid Cluster Service Ipv4 CIDR %s for the cluster %s, must have netmask size between /12 and /24 inclusive", cidr, cluster)
}

func errServiceCIDROverlap(cluster, cidr, vpcCIDR string) error {
	return ekserr.InvalidParameter(cluster, "The service CIDR %s overlaps with the VPC CIDR %s.", cidr, vpcCIDR)
}

// [seen] quoted by rules for CDK templates
func errServiceCIDRWithIPv6(cluster string) error {
	return ekserr.InvalidParameter(cluster, "serviceIpv4Cidr cannot be specified when creating an \"ipv6\" cluster")
}

// The rule is https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html, the text from memory.
func errSubnetsWithoutIPv6(cluster string, subnets []string) error {
	return ekserr.InvalidParameter(cluster, "The following subnets do not have an IPv6 CIDR block associated, which an \"ipv6\" cluster requires: [%s]", strings.Join(subnets, ", "))
}

// Recorded for UpdateClusterConfig: https://github.com/elastic-ipfs/infrastructure/pull/221
func errNoFreeIPs(cluster string, subnets []string) error {
	var text strings.Builder
	for _, id := range subnets {
		fmt.Fprintf(&text, "%s Free IPs: 0 ", id)
	}
	return ekserr.InvalidRequest(cluster, "Provided subnets %s, need at least 5 IPs in each subnet to be free for this operation", text.String())
}

// The rule is https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html, the text from memory.
func errIPv6Region(cluster, region string) error {
	return ekserr.InvalidParameter(cluster, "ipFamily \"ipv6\" is not supported in region %s", region)
}

// The rule is https://docs.aws.amazon.com/eks/latest/userguide/hybrid-nodes-cluster-prep.html, the text from memory.
func errRemoteNetworkIPv6(cluster string) error {
	return ekserr.InvalidParameter(cluster, "remoteNetworkConfig cannot be specified when creating an \"ipv6\" cluster")
}

// [seen] terraform-aws-eks, CDK
func errModeChange(cluster string, from, to ekstypes.AuthenticationMode) error {
	return ekserr.InvalidParameter(cluster, "Unsupported authentication mode update from %s to %s", from, to)
}

// [seen]
func errBootstrapRequired(cluster string) error {
	return ekserr.InvalidParameter(cluster, "bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode is set to CONFIG_MAP")
}

// [seen] aws-controllers-k8s/community#1855
func errSameEndpointAccess(cluster string, private, public bool, cidrs []string) error {
	return ekserr.InvalidParameter(cluster, "Cluster is already at the desired configuration with endpointPrivateAccess: %t , endpointPublicAccess: %t, and Public Endpoint Restrictions: [%s]", private, public, strings.Join(cidrs, ", "))
}

// [seen]
func errSameLogging(cluster string) error {
	return ekserr.InvalidParameter(cluster, "No changes needed for the logging config provided")
}

func errOneUpdate(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Only one type of update can be allowed.")
}

// Capabilities are to be deleted first, as eksctl does. The text is from memory.
func errCapabilitiesAttached(cluster string) error {
	return ekserr.InUse(cluster, "Cluster has capabilities attached")
}

// [seen] kubernetes-sigs/cluster-api-provider-aws#4728
func errFargateProfilesAttached(cluster string) error {
	return ekserr.InUse(cluster, "Cluster has Fargate Profiles in ACTIVE/CREATING state")
}

// [seen] aws-controllers-k8s/community#1175
func errKeyRequired(cluster string) error {
	return ekserr.InvalidParameter(cluster, "KeyArn is required")
}

// [seen] for a key ID in place of an ARN
func errKeyARN(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The keyArn for encryptionConfig is invalid.")
}

// [seen]
func errKeyRegion(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The keyArn for encryptionConfig is scoped to invalid aws region.")
}

// [seen] kubernetes-sigs/cluster-api-provider-aws#2432 (kms:CreateGrant) and
// terraform-aws-modules/terraform-aws-eks#2678 (kms:DescribeKey). The text is the same for keys of
// any account.
func errKeyNotAllowed(cluster, action string) error {
	return ekserr.InvalidRequest(cluster, "User not authorized to perform %s operation", action)
}

// [seen] hashicorp/terraform-provider-aws#19968
func errEncrypted(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Encryption is already enabled on the cluster")
}

// [seen] cloud-custodian/cloud-custodian, tests/data/placebo/test_eks_associate_encryption_config_invalid_kms_key
func errNoKey(cluster, key string) error {
	return ekserr.InvalidParameter(cluster, "The KeyArn in encryptionConfig provider %s is not found.", key)
}

// from memory
func errKeyNotSymmetric(cluster, key string) error {
	return ekserr.InvalidParameter(cluster, "KMS key %s is not a symmetric key that can encrypt and decrypt data.", key)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-encryption-resources-secrets-only
func errEncryptedResources(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Invalid k8s resource for encryption")
}

// from memory
func errManyEncryptionConfigs(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Only one encryptionConfig is supported.")
}

// [seen] terraform-aws-modules/terraform-aws-eks#3328
func errProviderIsCluster(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Incorrect Identity Provider URL configuration. The Identity Provider URL cannot be same as OpenID Connect (OIDC) issuer URL")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-idp-issuer-url-https
func errIssuerScheme(cluster string) error {
	return ekserr.InvalidParameter(cluster, "IssuerURL must use https:// scheme.")
}

func errIssuerURL(cluster, issuer string) error {
	return ekserr.InvalidParameter(cluster, "The issuerUrl %s is invalid: it must have a host and no query parameters.", issuer)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-idp-username-prefix-system, for system: itself
func errProviderPrefix(cluster, prefix string) error {
	return ekserr.InvalidParameter(cluster, "The prefix %s is reserved for Kubernetes system use", prefix)
}

func errProviderType(cluster, typ string) error {
	return ekserr.InvalidParameter(cluster, "The identity provider config type %s is invalid. The only type available is oidc.", typ)
}

func errProviderExists(cluster string) error {
	return ekserr.InUse(cluster, "Cluster %s already has an identity provider configuration. A cluster can have one OIDC identity provider.", cluster)
}

// [seen] eksctl-io/eksctl#6293
func errNoProvider(cluster, name string) error {
	return ekserr.NotFound("No config found for cluster: %s, config type: oidc, config name: %s", cluster, name)
}

// The text is from memory.
func errNoAnswer(why string) error {
	return &ekstypes.ServerException{Message: new("The cluster's control plane did not answer: " + why + ". Try again.")}
}

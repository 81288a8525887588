// Package twin lists the operations that may be called in an AWS account, redacts secrets in the answers, and keeps
// recordings in folders. Package source makes recordings, and package account loads them.
package twin

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// An Operation is one that may be asked of a source.
type Operation struct {
	Service string // as in IAM's actions
	Name    string
	Why     string // what it is needed for
}

// Kubernetes is the service of the API of clusters. Its only operation is List.
const Kubernetes = recording.Kubernetes

// operations is the complete list of what may be asked. Everything here reads, and none returns a secret: user data is
// redacted before it is stored. Secrets, passwords, registry tokens and decrypted parameters (GetSecretValue,
// GetPasswordData, GetAuthorizationToken, GetParameter) must never be added; a test holds that.
var operations = func() []Operation {
	var out []Operation
	for _, group := range []struct{ service, names, why string }{
		{"sts", "GetCallerIdentity", "which account this is"},
		{"ec2", "DescribeVpcs DescribeVpcAttribute DescribeSubnets DescribeDhcpOptions", "the network"},
		{"ec2", "DescribeRouteTables DescribeInternetGateways DescribeEgressOnlyInternetGateways DescribeNatGateways DescribeVpcPeeringConnections", "where packets go"},
		{"ec2", "DescribeTransitGateways DescribeTransitGatewayVpcAttachments DescribeTransitGatewayAttachments DescribeTransitGatewayRouteTables", "transit gateways"},
		{"ec2", "GetTransitGatewayRouteTablePropagations GetTransitGatewayPrefixListReferences SearchTransitGatewayRoutes", "their routes"},
		{"ec2", "DescribeSecurityGroups DescribeSecurityGroupRules DescribeNetworkAcls DescribeManagedPrefixLists GetManagedPrefixListEntries", "what may pass"},
		{"ec2", "DescribeVpcEndpoints", "private ways to AWS's services"},
		{"ec2", "DescribeNetworkInterfaces DescribeAddresses", "addresses"},
		{"ec2", "DescribeInstances DescribeInstanceAttribute DescribeVolumes DescribeImages", "instances, and how they boot"},
		{"ec2", "GetConsoleOutput", "what nodes wrote when they booted"},
		{"ec2", "DescribeLaunchTemplates DescribeLaunchTemplateVersions", "how node groups launch instances"},
		{"autoscaling", "DescribeAutoScalingGroups DescribeLaunchConfigurations DescribeScalingActivities DescribeLifecycleHooks", "how many nodes there should be, and why launches failed"},
		{"autoscaling", "DescribePolicies DescribeScheduledActions", "what changes how many there should be"},
		{"eks", "ListClusters DescribeCluster ListNodegroups DescribeNodegroup ListAddons DescribeAddon ListFargateProfiles DescribeFargateProfile", "clusters and what belongs to them"},
		{"eks", "ListAccessEntries DescribeAccessEntry ListAssociatedAccessPolicies", "who may enter a cluster"},
		{"eks", "ListPodIdentityAssociations DescribePodIdentityAssociation ListIdentityProviderConfigs DescribeIdentityProviderConfig", "identities of pods and users"},
		{"eks", "ListInsights DescribeInsight", "use of deprecated APIs, which only AWS sees"},
		{"eks", "ListUpdates DescribeUpdate ListCapabilities DescribeCapability", "updates that failed, and capabilities"},
		{"kms", "ListKeys DescribeKey GetKeyPolicy ListAliases ListGrants", "who may use the keys of volumes and Secrets"},
		{"ecr", "DescribeRepositories GetRepositoryPolicy", "who may pull images"},
		{"route53", "ListHostedZones GetHostedZone ListResourceRecordSets ListHostedZonesByVPC", "names in private zones"},
		{recording.ELB, "DescribeLoadBalancers DescribeLoadBalancerAttributes DescribeLoadBalancerPolicies DescribeTags", "Classic Load Balancers"},
		{recording.ELBv2, "DescribeLoadBalancers DescribeLoadBalancerAttributes DescribeListeners DescribeListenerCertificates DescribeRules DescribeTags", "load balancers, their names and what they accept"},
		{recording.ELBv2, "DescribeTargetGroups DescribeTargetGroupAttributes DescribeTargetHealth", "where load balancers send it"},
		{"ssm", "DescribeInstanceInformation", "whether agents are connected"},
		{recording.Organizations, "DescribeOrganization ListPoliciesForTarget DescribePolicy ListParents", "policies of the organization that bind the account"},
		{"ssm", "DescribeParameters", "names of parameters, never their values"},
		{"servicequotas", "ListServiceQuotas", "how many instances and clusters there may be"},
		{Kubernetes, "List", "the objects in clusters, without the values of Secrets; --no-kubernetes leaves them out"},
		{"iam", "GetAccountAuthorizationDetails", "roles and policies in one call"},
		{"iam", "GetRole ListRolePolicies GetRolePolicy ListAttachedRolePolicies GetPolicy GetPolicyVersion ListInstanceProfilesForRole GetInstanceProfile", "only if that call is not allowed: the roles that clusters and instances use, one by one"},
		{"iam", "ListOpenIDConnectProviders GetOpenIDConnectProvider", "web identities of service accounts"},
	} {
		for name := range strings.FieldsSeq(group.names) {
			out = append(out, Operation{group.service, name, group.why})
		}
	}
	return out
}()

// Operations returns everything that may be asked of a source.
func Operations() []Operation { return slices.Clone(operations) }

// Allowed reports whether an operation may be asked of a source.
func Allowed(service, operation string) bool {
	return slices.ContainsFunc(operations, func(o Operation) bool { return o.Service == service && o.Name == operation })
}

// Policy returns the smallest IAM policy that allows everything in the list. Most describe operations have no
// resource-level permissions, so that all of them are granted on "*".
func Policy() string {
	type statement struct {
		Sid, Effect string
		Action      []string
		Resource    string
	}
	s := statement{"DrydockImport", "Allow", nil, "*"}
	for _, o := range operations {
		if o.Service != "sts" && o.Service != Kubernetes { // GetCallerIdentity needs no permission, and clusters have their own
			s.Action = append(s.Action, recording.Action(o.Service, o.Name))
		}
	}
	slices.Sort(s.Action)
	s.Action = slices.Compact(s.Action) // both generations of load balancers
	b, err := json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{s}}, "", "  ")
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(b)
}

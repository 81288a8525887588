package access

import (
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// [seen] terraform-aws-modules/terraform-aws-eks#3048
func errNotInAPIMode(cluster string) error {
	return ekserr.InvalidRequest(cluster, "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.")
}

// [seen]
func errNoEntry() error {
	return ekserr.NotFound("The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
}

// [seen]
func errEntryExists(cluster string) error {
	return ekserr.InUse(cluster, "The specified access entry resource is already in use on this cluster.")
}

// [seen] hashicorp/terraform-provider-aws#36447
func errServiceLinkedPrincipal(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role")
}

// [seen] terraform-aws-modules/terraform-aws-eks#2969
func errInvalidPrincipal(cluster, why string) error {
	return ekserr.InvalidParameter(cluster, "The specified principalArn is invalid: %s.", why)
}

// [seen] terraform-aws-modules/terraform-aws-eks#2915
func errGroupName(cluster, group, prefix string) error {
	return ekserr.InvalidParameter(cluster, "The kubernetes group name %s is invalid, it cannot start with %s", group, prefix)
}

// [seen] aws-ia/terraform-aws-eks-blueprints#1920
func errUsernamePrefix(cluster, prefix string) error {
	return ekserr.InvalidParameter(cluster, "The username must not begin with %s", prefix)
}

func errUsernameSession(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The username must contain {{SessionName}} or {{SessionNameRaw}} after a colon, since the principal is an IAM role")
}

// [seen] aws/aws-cdk#31146, when there were four types
func errEntryType(cluster string) error {
	return ekserr.InvalidParameter(cluster, "AccessEntry type must be one of [EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, HYBRID_LINUX, HYPERPOD_LINUX, EC2, STANDARD]")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-node-type-forbids-groups and -username-only-standard
func errNodeEntryFields(cluster, field, typ string) error {
	return ekserr.InvalidParameter(cluster, "The specified %s is invalid: setting %s is not allowed when the type is \"%s\"", field, field, typ)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-node-type-requires-role
func errNodeEntryPrincipal(cluster string) error {
	return ekserr.InvalidParameter(cluster, "AccessEntry principalArn must be IAM role when using types [EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, HYBRID_LINUX, EC2]")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-principal-arn-account
func errNodeEntryAccount(cluster string) error {
	return ekserr.InvalidParameter(cluster, "AccessEntry principalArn must be from the same account as the cluster when using types [EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, HYBRID_LINUX, EC2]")
}

// [seen] aws-controllers-k8s/community#2144
func errNodeEntryPolicy(cluster string) error {
	return ekserr.InvalidParameter(cluster, "This operation can only be performed on Access Entries with a type of \"STANDARD\".")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-policy-arn-form
func errPolicyARN(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The policyArn parameter format is not valid")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-policy-arn-partition. The code is that of errNoEntry.
func errNoPolicy() error {
	return ekserr.NotFound("The specified policyArn could not be found. You can view your available access policies with 'list-access-policies'")
}

func errPolicyNotAssociated(arn string) error {
	return ekserr.NotFound("The specified policyArn %s is not associated with the access entry.", arn)
}

func errServiceLinkedPolicy(cluster, arn string) error {
	return ekserr.InvalidParameter(cluster, "The policyArn %s is designated for AWS service-linked roles only.", arn)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-scope-cluster-forbids-namespaces
func errScopeNamespaces(cluster string) error {
	return ekserr.InvalidParameter(cluster, "accessScope should not include namespaces if the type is not set as namespace")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-accessentry-scope-namespace-requires-namespaces
func errScopeNoNamespace(cluster string) error {
	return ekserr.InvalidParameter(cluster, "At least 1 namespace must be provided if the type is set as namespace")
}

func errScope(cluster, why string) error {
	return ekserr.InvalidParameter(cluster, "The accessScope is invalid: %s.", why)
}

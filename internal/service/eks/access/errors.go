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

func errEntryType(cluster, typ string) error {
	return ekserr.InvalidParameter(cluster, "The specified access entry type %s is invalid.", typ)
}

func errNodeEntryFields(cluster, field, typ string) error {
	return ekserr.InvalidParameter(cluster, "The %s parameter can't be specified for access entries of type %s.", field, typ)
}

func errNodeEntryPrincipal(cluster, typ string) error {
	return ekserr.InvalidParameter(cluster, "The principalArn of access entries of type %s must be an IAM role.", typ)
}

func errNodeEntryPolicy(cluster, typ string) error {
	return ekserr.InvalidRequest(cluster, "Access policies can't be associated with access entries of type %s.", typ)
}

func errNoPolicy(cluster, arn string) error {
	return ekserr.InvalidParameter(cluster, "The policyArn %s is invalid: no such access policy. You can view available access policies with 'list-access-policies'.", arn)
}

func errPolicyNotAssociated(arn string) error {
	return ekserr.NotFound("The specified policyArn %s is not associated with the access entry.", arn)
}

func errServiceLinkedPolicy(cluster, arn string) error {
	return ekserr.InvalidParameter(cluster, "The policyArn %s is designated for AWS service-linked roles only.", arn)
}

func errScope(cluster, why string) error {
	return ekserr.InvalidParameter(cluster, "The accessScope is invalid: %s.", why)
}

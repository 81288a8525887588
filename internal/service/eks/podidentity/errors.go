package podidentity

import (
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// [seen] eksctl-io/eksctl#7753, awslabs/crossplane-on-eks#168
func errExists(cluster, id string) error {
	return ekserr.InUse(cluster, "Association already exists: %s", id)
}

// [seen] terraform-provider-aws retries CreatePodIdentityAssociation on it.
func errNoRole(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Role provided in the request does not exist.")
}

// [seen] hashicorp/terraform-provider-aws#41483, aws/aws-cdk#31522
func errTrust(cluster string) error {
	return ekserr.InvalidParameter(cluster, "Trust policy of the role provided is invalid. Follow the official documentation to resolve the issue.")
}

// [seen] aws-samples/eks-workshop-v2#882
func errAssociationID(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The parameter associationId should be 19 characters long.")
}

func errNotFound(id string) error {
	return ekserr.NotFound("No association found for id: %s", id) // from memory
}

func errRoleARN(cluster, parameter, role string) error {
	return ekserr.InvalidParameter(cluster, "The %s %s is not a valid IAM role ARN", parameter, role) // from memory
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-podidentity-policy-requires-disable-session-tags
func errPolicyTags(cluster string) error {
	return ekserr.InvalidParameter(cluster, "When policy is specified, disableSessionTags must be set to true")
}

func errPolicy(cluster string, why error) error {
	return ekserr.InvalidParameter(cluster, "The policy is invalid: %v", why) // from memory
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdatePodIdentityAssociation.html
func errNoChange(cluster string) error {
	return ekserr.InvalidParameter(cluster, "You must change at least one of roleArn, targetRoleArn, disableSessionTags and policy.") // from memory
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-podidentity-namespace-format and -service-account-format
func errKubernetesName(cluster, parameter, form string) error {
	return ekserr.InvalidParameter(cluster, "The parameter %s contains invalid characters. It should conform to the regular expression %s", parameter, form)
}

func errOwned(cluster, id, owner string) error {
	return ekserr.InvalidRequest(cluster, "Association %s is owned by addon %s", id, owner)
}

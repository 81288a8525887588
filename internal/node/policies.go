package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/policy"
)

// policyFor maps an action to the AWS-managed policy that allows it to nodes.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
func policyFor(action string) string {
	switch {
	case strings.HasPrefix(action, "ecr:"):
		return "AmazonEC2ContainerRegistryReadOnly"
	case action == "eks:DescribeCluster", action == ActionDescribeInstances, action == ActionAssumeForPod:
		return "AmazonEKSWorkerNodePolicy"
	case action == ActionRegisterAgent, action == ActionControlChannel, action == ActionGetMessages:
		return "AmazonSSMManagedInstanceCore" // https://docs.aws.amazon.com/systems-manager/latest/userguide/setup-instance-permissions.html
	default:
		return "AmazonEKS_CNI_Policy"
	}
}

// ActionsOfNodes are what nodes call of the service of an action, on their way to Ready and
// for their pods' addresses and images: what lets one through lets all of them through.
func ActionsOfNodes(action string) []string {
	service, _, _ := strings.Cut(action, ":")
	out := []string{}
	for _, a := range []string{
		ActionDescribeInstances, ActionDescribeInterfaces, ActionCreateInterface, ActionAttachInterface, ActionAssignAddresses, ActionUnassignAddresses, ActionAssignIPv6,
		ActionDescribeSubnets, ActionDetachInterface, ActionDeleteInterface, ActionModifyInterface, ActionCreateTags,
		ActionGetObject, ActionAssumeForPod, ActionGetToken, ActionGetImage, ActionGetLayer,
	} {
		if strings.HasPrefix(a, service+":") {
			out = append(out, a)
		}
	}
	if !slices.Contains(out, action) {
		out = append(out, action)
	}
	return out
}

// CallsToReady returns the AWS API calls that a node in a region needs to become Ready. They are for its name, for the
// images of the add-ons that every node runs and, unless aws-node has a role of its own, for its pods' addresses.
func CallsToReady(region string, cniHasRole, ipv6 bool) []Call {
	registry := addons.Registry(region)
	account, _, _ := strings.Cut(registry, ".")
	image := Call{Account: account, Region: region, Host: registry, Repository: "amazon-k8s-cni"}
	bucket := "prod-" + region + "-starport-layer-bucket"
	out := []Call{{Action: ActionDescribeInstances}, {Action: ActionGetToken}}
	for _, image.Action = range []string{ActionGetImage, ActionGetLayer} {
		out = append(out, image)
	}
	out = append(out, Call{Action: ActionGetObject, Region: region, Host: bucket + ".s3." + region + ".amazonaws.com", Bucket: bucket})
	if !cniHasRole {
		actions := []string{ActionDescribeInterfaces, ActionAssignAddresses, ActionCreateInterface, ActionAttachInterface}
		if ipv6 {
			actions = []string{ActionDescribeInterfaces, ActionCreateTags, ActionAssignIPv6}
		}
		for _, a := range actions {
			out = append(out, Call{Action: a})
		}
	}
	return out
}

// maxAttached is how many managed policies a role may have.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
const maxAttached = 10

// ManagedPolicy returns the ARN of the AWS-managed policy of nodes, or of Fargate's pods, that allows an action.
func ManagedPolicy(action string, fargate bool) string {
	name := policyFor(action)
	if fargate && strings.HasPrefix(action, "ecr:") {
		name = "AmazonEKSFargatePodExecutionRolePolicy" // https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
	}
	return "arn:aws:iam::aws:policy/" + name
}

// Attached returns the change that attaches a managed policy to a role, and its command.
func Attached(roleARN, policyARN string) (advice.Change, string) {
	return advice.Change{Kind: advice.AttachPolicy, Resource: roleARN, Value: policyARN},
		"aws iam attach-role-policy --role-name " + roleARN[strings.LastIndexByte(roleARN, '/')+1:] + " --policy-arn " + policyARN
}

// Granted returns the change that lets nodes with a role do an action, and its command. The managed policy of the
// CNI does not allow IPv6; users write that one themselves.
// https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html#cni-iam-role-create-ipv6-policy
func Granted(roleARN, action string, fargate bool) (advice.Change, string) {
	if action != ActionAssignIPv6 {
		return Attached(roleARN, ManagedPolicy(action, fargate))
	}
	return advice.Change{Kind: advice.PutPolicy, Resource: roleARN, Value: policy6},
		"aws iam put-role-policy --role-name " + roleARN[strings.LastIndexByte(roleARN, '/')+1:] + " --policy-name AmazonEKS_CNI_IPv6_Policy --policy-document '" + policy6 + "'"
}

const policy6 = `{"Version":"2012-10-17","Statement":[` +
	`{"Effect":"Allow","Action":["ec2:AssignIpv6Addresses","ec2:DescribeInstances","ec2:DescribeTags","ec2:DescribeNetworkInterfaces","ec2:DescribeInstanceTypes"],"Resource":"*"},` +
	`{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"arn:aws:ec2:*:*:network-interface/*"}]}`

// Permitted returns a judge of changes to a role and to a VPC endpoint. It reports whether they allow a request that
// was refused under p. Such changes only add Allow statements, so they cannot take a permission from anyone.
func Permitted(req policy.Request, p policy.Policies) advice.Judge {
	return func(changes []advice.Change) error {
		now := p
		for i := range changes {
			if err := applyTo(&now, &changes[i]); err != nil {
				return err
			}
		}
		if d := policy.Evaluate(req, now); !d.Allowed {
			return fmt.Errorf("%s is still refused: %s", req.Action, d.Reason)
		}
		return nil
	}
}

// applyTo makes a change on a copy of policies.
func applyTo(p *policy.Policies, c *advice.Change) error {
	switch c.Kind {
	case advice.AttachPolicy:
		managed, ok := managedpolicies.Get(c.Value)
		if !ok {
			return fmt.Errorf("there is no policy %s", c.Value)
		}
		doc, err := policy.Parse(policy.Identity, managed.Document)
		if err != nil {
			return err
		}
		attached := 0
		for _, s := range p.Identity {
			if strings.HasPrefix(s.Name, "arn:") {
				attached++
			}
		}
		if attached >= maxAttached {
			return fmt.Errorf("%s has %d managed policies, which is the quota", c.Resource, attached)
		}
		p.Identity = append(slices.Clip(p.Identity), policy.Source{Name: c.Value, Document: doc})
	case advice.PutPolicy:
		doc, err := policy.Parse(policy.Identity, c.Value)
		if err != nil {
			return err
		}
		p.Identity = append(slices.Clip(p.Identity), policy.Source{Name: "AmazonEKS_CNI_IPv6_Policy", Document: doc})
	case advice.AddStatement: // to the policy of an endpoint, which may be another call's
		if !slices.ContainsFunc(p.Endpoint, func(s policy.Source) bool { return s.Name == c.Resource }) {
			return nil
		}
		_, *p = policy.Suggestion{Changes: []policy.Change{{Kind: policy.AddStatement, Type: policy.VPCEndpoint, Statement: c.Value}}}.Apply(policy.Request{}, *p)
	default:
		return fmt.Errorf("policies have no change %s", c.Kind)
	}
	return nil
}

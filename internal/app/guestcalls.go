package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/sts"
)

// guestCalls decides the calls that programs of an image make as the instance's
// role, such as the VPC CNI plugin's: by the network to the service's endpoint,
// that endpoint's policy, and the policies of the role. What such a call does is
// done elsewhere, so a thousand nodes need no thousand HTTP exchanges for it.
type guestCalls struct {
	network     *guestNetwork
	credentials func(ctx context.Context, instanceID string) (aws.Credentials, error)
	sts         *sts.Service
	ec2         *ec2.Service
	authorizer  *authz.Authorizer
}

func (d *daemon) guestCalls() *guestCalls {
	return &guestCalls{network: d.machines.network, credentials: d.machines.credentials, sts: d.sts, ec2: d.ec2, authorizer: d.authorizer}
}

// hosts are the endpoints of services, before the region.
var hosts = map[string]string{"ec2": "ec2", "ecr": "api.ecr", "eks": "eks", "sts": "sts"}

// policyFor names the AWS-managed policy by which nodes are allowed an action.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
func policyFor(action string) string {
	switch {
	case strings.HasPrefix(action, "ecr:"):
		return "AmazonEC2ContainerRegistryReadOnly"
	case action == "eks:DescribeCluster", action == node.ActionDescribeInstances:
		return "AmazonEKSWorkerNodePolicy"
	default:
		return "AmazonEKS_CNI_Policy"
	}
}

// call decides a call of an instance by its IAM action: ec2:DescribeInstances. Its
// error is the AWS SDK's for Go, and a *node.Refusal where a decision is behind it.
func (g *guestCalls) call(ctx context.Context, in node.Instance, action string) error {
	service, operation, _ := strings.Cut(action, ":")
	v, err := g.network.allow(ctx, in, hosts[service]+"."+in.Region+".amazonaws.com", 443)
	if err != nil {
		return wrapped(err, "operation error "+strings.ToUpper(service)+": "+operation+", exceeded maximum number of attempts, 3, https response error StatusCode: 0, request send failed, ")
	}
	creds, err := g.credentials(ctx, in.ID)
	if err != nil {
		return fmt.Errorf("operation error %s: %s, get identity: get credentials: failed to refresh cached credentials, %w", strings.ToUpper(service), operation, err)
	}
	_, who, err := g.sts.OpenSession(ctx, creds.AccessKeyID, creds.SessionToken)
	if err != nil {
		return err
	}
	call := &awsapi.Call{
		RequestID: ids.UUID(), Service: service, Operation: operation, Account: in.Account, Region: in.Region, Principal: who,
		SourceIP: v.Source, Time: time.Now(), TLS: true,
	}
	if v.Endpoint != "" {
		call.VPCEndpointID, call.VPCID = v.Endpoint, in.VPCID
	}
	if service == "ecr" {
		call.Account = node.Registry // whose repositories these are
	}
	err = g.authorizer.Authorize(awsapi.WithCall(ctx, call), call, g.input(in, action))
	denial, ok := errors.AsType[*authz.Denial](err)
	if !ok {
		return err
	}
	if service == "ecr" && openToAll(denial.Decision) {
		return nil
	}
	denial.Encoded = "" // sealed anew each time, and of no use here
	code := "AccessDeniedException"
	if service == "ec2" {
		code = "UnauthorizedOperation"
	}
	return &node.Refusal{
		Err:      fmt.Errorf("operation error %s: %s, https response error StatusCode: %d, api error %s: %s", strings.ToUpper(service), operation, http.StatusForbidden, code, denial.Error()),
		Decision: iamDecision(in.RoleARN, code, denial.Decision),
	}
}

// openToAll reports whether only the policy of a repository is missing: those of
// EKS's registry let every account pull.
func openToAll(d policy.Decision) bool {
	return !d.ExplicitDeny && !slices.ContainsFunc(d.Missing, func(t policy.PolicyType) bool { return t != policy.ResourceBased })
}

// iamDecision is a denial of a node's role, with what would have allowed it.
func iamDecision(roleARN, code string, d policy.Decision) node.Decision {
	out := node.Decision{By: node.ByIAM, Code: code, Component: d.Action, Text: "the role " + roleARN + " may not " + d.Action + ": " + d.Reason}
	for _, m := range d.Missing {
		if m == policy.IdentityBased {
			out.Fixes = append(out.Fixes, attach(roleARN, policyFor(d.Action)))
		}
	}
	return out
}

// attach is the command that gives a role an AWS-managed policy.
func attach(roleARN, managed string) string {
	return "aws iam attach-role-policy --role-name " + roleName(roleARN) + " --policy-arn arn:aws:iam::aws:policy/" + managed
}

// roleName is a role's name, without its path.
func roleName(roleARN string) string { return roleARN[strings.LastIndexByte(roleARN, '/')+1:] }

// wrapped is an error with a program's own words before it. The decision stays.
func wrapped(err error, text string) error {
	if why := node.DecisionOf(err); why != nil {
		return &node.Refusal{Err: fmt.Errorf("%s%w", text, err), Decision: *why}
	}
	return fmt.Errorf("%s%w", text, err)
}

// input is what the program sends, as far as policies see it.
func (g *guestCalls) input(in node.Instance, action string) any {
	var eni string
	if i, ok := g.ec2.InstanceByID(in.Account, in.Region, in.ID); ok && len(i.NetworkInterfaces) > 0 {
		eni = aws.ToString(i.NetworkInterfaces[0].NetworkInterfaceId)
	}
	switch action {
	case node.ActionDescribeInstances:
		return &awsec2.DescribeInstancesInput{InstanceIds: []string{in.ID}}
	case node.ActionDescribeInterfaces:
		return &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{eni}}
	case node.ActionCreateInterface:
		return &awsec2.CreateNetworkInterfaceInput{SubnetId: &in.SubnetID}
	case node.ActionAttachInterface:
		return &awsec2.AttachNetworkInterfaceInput{InstanceId: &in.ID, NetworkInterfaceId: &eni}
	case node.ActionAssignAddresses:
		return &awsec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: &eni}
	case node.ActionGetImage, node.ActionGetLayer:
		return &struct{ RepositoryName *string }{aws.String(node.CNIRepository)}
	}
	return &struct{}{}
}

// connect decides a connection that brings nothing to this machine: an image's
// layers from S3.
func (g *guestCalls) connect(ctx context.Context, in node.Instance, host string, port int) error {
	_, err := g.network.allow(ctx, in, host, port)
	return err
}

// whyUnauthorized says why a cluster does not know an instance's token.
func (d *daemon) whyUnauthorized(ctx context.Context, in node.Instance, host, token string) *node.Decision {
	p, ok := d.machines.planes.byHost(host)
	if !ok {
		p, ok = d.machines.planes.byEndpoint("https://" + host)
	}
	if !ok {
		return nil
	}
	_, err := d.eks.Authenticate(ctx, p.ID, token)
	if err == nil {
		return nil // it would get in now
	}
	out := &node.Decision{By: node.ByCluster, Code: "Unauthorized", Component: in.RoleARN, Text: err.Error()}
	doors, err := d.eks.Doors(ctx, p.ID)
	if err != nil {
		return out
	}
	role, bare := in.RoleARN, in.RoleARN
	if a, err := arn.Parse(role); err == nil {
		bare = arn.IAM(a.Account, "role/"+roleName(role))
	}
	known := append(append([]string{}, doors.Entries...), doors.Mapped...)
	if len(known) > 0 {
		out.Text += "; the cluster knows " + strings.Join(known, ", ")
	} else {
		out.Text += "; the cluster knows nobody"
	}
	for _, m := range doors.Mapped {
		switch name := m[strings.LastIndexByte(m, '/')+1:]; {
		case role != bare && strings.EqualFold(m, role):
			out.Text += ". The role has a path, which aws-auth must not have: tokens are of " + bare
		case strings.Contains(m, ":instance-profile/"):
			out.Text += ". " + m + " is an instance profile; nodes are known by their role, " + bare
		case strings.Contains(m, ":assumed-role/"):
			out.Text += ". " + m + " is a session; write the role's ARN, " + bare
		case strings.EqualFold(name, roleName(role)) && !strings.EqualFold(m, bare):
			out.Text += ". " + m + " is of another account or kind than " + bare
		}
	}
	if doors.API {
		out.Fixes = append(out.Fixes, "aws eks create-access-entry --cluster-name "+p.Key.Name+" --principal-arn "+role+" --type EC2_LINUX")
	}
	if doors.ConfigMap {
		out.Fixes = append(out.Fixes, "eksctl create iamidentitymapping --cluster "+p.Key.Name+" --arn "+bare+
			" --username 'system:node:{{EC2PrivateDNSName}}' --group system:bootstrappers --group system:nodes")
	}
	return out
}

// controlPlaneVersion is the version of the control plane at an endpoint: 1.33.
func (m *machines) controlPlaneVersion(host string) string {
	p, ok := m.planes.byHost(host)
	if !ok {
		p, _ = m.planes.byEndpoint("https://" + host)
	}
	return p.Key.Version
}

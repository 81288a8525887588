package compute

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// guestCalls decides about the calls that an image's programs, such as the VPC CNI plugin, make as the instance's
// role: by the network to the service's endpoint, that endpoint's policy, and the policies of the role. Other code
// produces the effect of such a call, so that a thousand nodes do not need a thousand HTTP exchanges.
type guestCalls struct {
	network     *guestNetwork
	credentials func(ctx context.Context, instanceID string) (aws.Credentials, error)
	sts         STS
	ec2         EC2
	iam         IAM
	images      Images
	public      PublicImages
	strict      bool
	api         awsapi.API
	authorizer  Authorizer
	faults      *fault.Set
}

// hosts are the parts of the services' endpoints before the region.
var hosts = map[string]string{"ec2": "ec2", "ec2messages": "ec2messages", "ecr": "api.ecr", "eks": "eks", "ssm": "ssm", "ssmmessages": "ssmmessages", "sts": "sts"}

// call decides at once about a call of an instance. Its error is that of the AWS SDK for Go, and a *node.Refusal if
// there is a decision behind it.
func (g *guestCalls) call(ctx context.Context, in machine.Instance, c node.Call) error {
	_, err := g.decide(ctx, in, c)
	return err
}

// host returns the host name that a call is sent to.
func (g *guestCalls) host(in machine.Instance, c node.Call) string {
	service, _, _ := strings.Cut(c.Action, ":")
	return cmp.Or(c.Host, hosts[service]+"."+cmp.Or(c.Region, in.Region)+".amazonaws.com")
}

// decide is call, which also returns the call as it arrives; nil if AWS does not know who
// makes it.
func (g *guestCalls) decide(ctx context.Context, in machine.Instance, c node.Call) (*awsapi.Call, error) {
	service, operation, _ := strings.Cut(c.Action, ":")
	v, err := g.network.decide(ctx, in, g.host(in, c), 443)
	if err != nil {
		return nil, wrapped(err, "operation error "+strings.ToUpper(service)+": "+operation+", exceeded maximum number of attempts, 3, https response error StatusCode: 0, request send failed, ")
	}
	if service == "s3" { // by a URL that ECR has signed
		return nil, g.throughEndpoint(ctx, in, v, c).error()
	}
	creds := c.Credentials
	if creds == nil {
		own, err := g.credentials(ctx, in.ID)
		if err != nil {
			return nil, fmt.Errorf("operation error %s: %s, get identity: get credentials: failed to refresh cached credentials, %w", strings.ToUpper(service), operation, err)
		}
		creds = &own
	}
	_, who, err := g.sts.OpenSession(ctx, creds.AccessKeyID, creds.SessionToken)
	if err != nil {
		return nil, err
	}
	call, refused, err := g.permit(ctx, in, c, v, who)
	if refused != nil {
		return nil, refused.error()
	}
	return call, err
}

// permit decides whether policies allow a call that has arrived. It returns the call, or why it was refused.
func (g *guestCalls) permit(ctx context.Context, in machine.Instance, c node.Call, v *reach.Verdict, who awsapi.Principal) (*awsapi.Call, *refused, error) {
	service, operation, _ := strings.Cut(c.Action, ":")
	call := &awsapi.Call{
		RequestID: ids.UUID(), Service: service, Operation: operation, Account: in.Account, Region: cmp.Or(c.Region, in.Region), Principal: who,
		SourceIP: v.Source, Time: g.network.clock.Now(), TLS: true,
	}
	call.VPCEndpoint = endpointOf(in, v)
	if err := g.fault(in, call); err != nil {
		return nil, nil, err
	}
	call.Account = cmp.Or(c.Account, in.Account) // the account of the repositories
	err := g.authorizer.Authorize(awsapi.WithCall(ctx, call), call, g.input(in, c))
	denial, ok := errors.AsType[*authz.Denial](err)
	if !ok {
		return call, nil, err
	}
	if service == "ecr" && !g.known(call.Account) {
		if openToAll(denial.Decision) {
			return call, nil, nil
		}
		denial.Policies.Resource = []policy.Source{anybody}
	}
	denial.Encoded = "" // sealing differs each time, and the message is not needed here
	code := "AccessDeniedException"
	if service == "ec2" {
		code = "UnauthorizedOperation"
	}
	d := &denial.Decision
	out := &refused{
		err:      fmt.Errorf("operation error %s: %s, https response error StatusCode: %d, api error %s: %s", strings.ToUpper(service), operation, http.StatusForbidden, code, denial.Error()),
		request:  denial.Request,
		policies: denial.Policies,
	}
	role := cmp.Or(who.RoleARN, in.RoleARN)
	out.decision = node.Decision{By: node.ByIAM, Code: code, Component: d.Action, Text: "the role " + role + " may not " + d.Action + ": " + d.Reason}
	if slices.Contains(d.Missing, policy.VPCEndpoint) && !g.endpointChange(ctx, in, v.Endpoint, d.Action, "*", out) {
		return nil, out, nil
	}
	if slices.Contains(d.Missing, policy.IdentityBased) {
		out.add(node.Granted(role, d.Action, in.Fargate))
	}
	return nil, out, nil
}

// A refused is a call that policies do not allow, with the changes that would allow it.
type refused struct {
	err      error
	decision node.Decision
	request  policy.Request
	policies policy.Policies
	changes  []advice.Change
	commands []string
}

func (r *refused) add(c advice.Change, command string) {
	r.changes, r.commands = append(r.changes, c), append(r.commands, command)
}

// error returns the call's error with the decision that caused it.
func (r *refused) error() error {
	if r == nil {
		return nil
	}
	if len(r.changes) > 0 {
		r.decision.Fixes = advice.Try(node.Permitted(r.request, r.policies), r.changes, r.commands...)
	}
	return &node.Refusal{Err: r.err, Decision: r.decision}
}

// permits returns fixes that together allow all of the refused calls, one for each change. They have been tried
// together.
func permits(calls []*refused) []advice.Fix {
	var all []advice.Change
	var commands []string
	for _, r := range calls {
		for i, c := range r.changes {
			if !slices.ContainsFunc(all, c.Equal) {
				all, commands = append(all, c), append(commands, r.commands[i])
			}
		}
	}
	judge := func([]advice.Change) error {
		for _, r := range calls {
			if err := node.Permitted(r.request, r.policies)(all); err != nil {
				return err
			}
		}
		return nil
	}
	var out []advice.Fix
	for i := range all {
		out = append(out, advice.Try(judge, all[i:i+1], commands[i])...)
	}
	return out
}

// anybody is a policy that allows everything to everybody.
var anybody = policy.Source{Name: "anybody", Document: &policy.Document{Statements: []policy.Statement{{Actions: []string{"*"}, Resources: []string{"*"}, Principals: &policy.Principals{All: true}}}}}

// throughEndpoint checks a call to S3 against the policy of the VPC endpoint that it went through, if any.
func (g *guestCalls) throughEndpoint(ctx context.Context, in machine.Instance, v *reach.Verdict, c node.Call) *refused {
	if v.Endpoint == "" {
		return nil
	}
	text, ok := g.ec2.EndpointPolicy(ctx, in.Account, in.Region, v.Endpoint)
	doc := &policy.Document{} // allows nothing, for an endpoint that was deleted
	switch {
	case ok && text == "":
		return nil
	case ok:
		var err error
		if doc, err = policy.Parse(policy.Endpoint, text); err != nil { // EC2 does not store unreadable policies
			doc = &policy.Document{}
		}
	}
	out := &refused{
		err:      errors.New("403 Forbidden"),
		request:  policy.Request{Action: c.Action, Resource: "arn:aws:s3:::" + c.Bucket + "/layers"},
		policies: through(v.Endpoint, doc),
	}
	out.request.Context.Values = map[string][]string{"aws:sourcevpce": {v.Endpoint}, "aws:sourcevpc": {in.VPCID}}
	d := policy.Evaluate(out.request, out.policies)
	if d.Allowed {
		return nil
	}
	out.decision = node.Decision{
		By: node.ByIAM, Code: "AccessDenied", Component: v.Endpoint,
		Text: "the policy of the VPC endpoint " + v.Endpoint + " does not allow " + c.Action + " on " + out.request.Resource + ": " + d.Reason,
	}
	g.endpointChange(ctx, in, v.Endpoint, c.Action, "arn:aws:s3:::"+c.Bucket+"/*", out)
	return out
}

// Through decides by the policy of a VPC endpoint alone, for URLs that a service of AWS has signed.
func Through(req policy.Request, endpoint string, document *policy.Document) policy.Decision {
	return policy.Evaluate(req, through(endpoint, document))
}

func through(endpoint string, document *policy.Document) policy.Policies {
	all := []policy.Source{anybody}
	return policy.Policies{Identity: all, Resource: all, Endpoint: []policy.Source{{Name: endpoint, Document: document}}}
}

// openToAll reports whether nothing but the policy of a repository is missing. The policies of EKS's registry let
// every account pull.
//
// AWS deviation: here, so do the repositories of all other accounts that Drydock does not have.
func openToAll(d policy.Decision) bool {
	return !d.ExplicitDeny && !slices.ContainsFunc(d.Missing, func(t policy.PolicyType) bool { return t != policy.ResourceBased })
}

// endpointChange adds the change that makes a VPC endpoint's policy also allow an action of nodes and its related
// actions. It reports whether such a change exists.
func (g *guestCalls) endpointChange(ctx context.Context, in machine.Instance, endpoint, action, resource string, to *refused) bool {
	text, ok := g.ec2.EndpointPolicy(ctx, in.Account, in.Region, endpoint)
	if !ok {
		return false
	}
	statement, err := json.Marshal(map[string]any{"Effect": "Allow", "Principal": "*", "Action": node.ActionsOfNodes(action), "Resource": resource})
	if err != nil {
		return false
	}
	document, err := policy.WithStatement(text, string(statement))
	if err != nil {
		return false
	}
	to.add(advice.Change{Kind: advice.AddStatement, Resource: endpoint, Value: string(statement)},
		"aws ec2 modify-vpc-endpoint --vpc-endpoint-id "+endpoint+" --policy-document '"+strings.ReplaceAll(document, "'", `\u0027`)+"' --region "+in.Region)
	return true
}

// wrapped puts a program's own words before an error. The decision stays.
func wrapped(err error, text string) error {
	if why := node.DecisionOf(err); why != nil {
		return &node.Refusal{Err: fmt.Errorf("%s%w", text, err), Decision: *why}
	}
	return fmt.Errorf("%s%w", text, err)
}

// input returns what the program sends, as far as policies look at it.
func (g *guestCalls) input(in machine.Instance, c node.Call) any {
	eni := c.Interface
	if eni == "" && c.Action != node.ActionDescribeInstances && strings.HasPrefix(c.Action, "ec2:") {
		if i, ok := g.ec2.InstanceByID(in.Account, in.Region, in.ID); ok && len(i.NetworkInterfaces) > 0 {
			eni = aws.ToString(i.NetworkInterfaces[0].NetworkInterfaceId)
		}
	}
	switch c.Action {
	case node.ActionDescribeInstances:
		return &awsec2.DescribeInstancesInput{InstanceIds: []string{in.ID}}
	case node.ActionDescribeInterfaces:
		return &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{eni}}
	case node.ActionCreateInterface:
		return &awsec2.CreateNetworkInterfaceInput{
			SubnetId:          aws.String(cmp.Or(c.Subnet, in.SubnetID)),
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: ec2Tags(c.Tags)}},
		}
	case node.ActionCreateTags:
		return &awsec2.CreateTagsInput{Resources: []string{eni}, Tags: ec2Tags(c.Tags)}
	case node.ActionModifyInterface:
		return &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &eni}
	case node.ActionDetachInterface:
		return &awsec2.DetachNetworkInterfaceInput{AttachmentId: &c.Attachment}
	case node.ActionDescribeSubnets:
		return &awsec2.DescribeSubnetsInput{}
	case node.ActionAttachInterface:
		return &awsec2.AttachNetworkInterfaceInput{InstanceId: &in.ID, NetworkInterfaceId: &eni}
	case node.ActionAssignAddresses:
		return &awsec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: &eni}
	case node.ActionAssignIPv6:
		return &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: &eni}
	case node.ActionUnassignAddresses:
		return &awsec2.UnassignPrivateIpAddressesInput{NetworkInterfaceId: &eni}
	case node.ActionDeleteInterface:
		return &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &eni}
	case node.ActionGetImage, node.ActionGetLayer:
		return &struct{ RepositoryName *string }{&c.Repository}
	case node.ActionRegisterAgent:
		return &struct{ InstanceId *string }{&in.ID}
	case node.ActionAssumeForPod:
		return &eksauth.AssumeRoleForPodIdentityInput{ClusterName: &c.Cluster}
	}
	return &struct{}{}
}

// ec2Tags returns the tags for a request of EC2.
func ec2Tags(tags map[string]string) []ec2types.Tag {
	out := make([]ec2types.Tag, 0, len(tags))
	for k, v := range tags {
		out = append(out, ec2types.Tag{Key: &k, Value: &v})
	}
	return out
}

// connect decides at once about a connection that transfers nothing to this machine: an image's layers from S3.
func (g *guestCalls) connect(ctx context.Context, in machine.Instance, host string, port int) error {
	_, err := g.network.decide(ctx, in, host, port)
	return err
}

// controlPlaneVersion returns the version of the control plane at an endpoint: 1.33.
func (m *Machines) controlPlaneVersion(host string) string {
	p, ok := m.cfg.ControlPlanes.ByHost(host)
	if !ok {
		p, _ = m.cfg.ControlPlanes.ByEndpoint("https://" + host)
	}
	return p.Key.Version
}

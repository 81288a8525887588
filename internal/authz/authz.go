// Package authz determines which permissions a request needs, and asks package policy whether the caller has them.
//
// A call needs one or more checks: its own action on every resource that it touches, and any dependent actions
// (iam:PassRole when it passes a role, ec2:CreateTags when it creates tagged resources). The service authorization
// reference, embedded as data, lists the resource types and condition keys of each action. The ARNs are filled from
// the request's members by their names. Services correct the reference row by row, with a source for each
// (awsapi.Authorization), and provide the stored facts about a resource (its tags, its full ARN) through a Resolver.
//
// A condition key that an action has but that Drydock cannot resolve is unknown: a statement that uses it is decided
// against the caller, and the decision names it. A key that an action does not have is absent from the request, as on
// AWS.
//
// Services may import it for Target and Resource; awsapi/server renders its denials; internal/app connects the rest.
package authz

import (
	"context"
	"maps"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Resource is what a service has stored about one resource.
type Resource struct {
	ARN string
	// Account is the owner, if the ARN does not say: that of an S3 bucket or object.
	Account string
	Tags    map[string]string
	// Keys are values of condition keys, in lower case. A key without values is known to be absent.
	Keys map[string][]string
	// Role is the ARN of the role that the resource holds (an instance profile).
	Role string
	// Policy is the resource's own policy, or nil. It applies to actions of the resource's own service.
	Policy *policy.Source
	// PolicyText is Policy as it was set, if its owner can change it.
	PolicyText string
	// AccountPolicies are account-level policies that count as the resource's own, as in CloudWatch Logs.
	AccountPolicies []policy.Source
	// PolicyRequired says that Policy must allow the access, whatever other policies allow. KMS keys require it.
	PolicyRequired bool
	// Grants are a KMS key's grants.
	Grants []policy.Source
	// Trust is a role's trust policy. It applies to the actions that assume the role.
	Trust *policy.Source
}

// A Resolver looks up the stored resources of one service.
type Resolver interface {
	// Resource finds a resource by its type in the authorization reference and the identifier that a request uses: an
	// ID, a name, or CLUSTER/NAME for a nested resource.
	Resource(ctx context.Context, account, region, kind, id string) (Resource, bool)
}

// A PolicyHolder is a Resolver of a service whose resources have their own policies. Those policies apply to the
// account's root user too.
type PolicyHolder interface {
	Resolver
	HoldsPolicies()
}

// A Targeter is a Resolver of a service with operations whose resources cannot be described in a table. ok is false
// for all other operations.
type Targeter interface {
	Targets(ctx context.Context, call *awsapi.Call, in any) (targets []Target, ok bool)
}

// A Target is one resource that a call touches.
type Target struct {
	// Action is the action on the resource. Empty means the call's own action.
	Action string
	// Type is the resource type in the authorization reference of the action's service. Empty means an action without
	// resources.
	Type string
	// ID is the identifier that the request uses, or the resource's ARN. It is empty for a resource that does not
	// exist yet, and for any resource.
	ID string
	// New says that the call creates the resource. Nothing is stored about it, although a resource with the same name
	// may exist.
	New bool
	// Tags are the tags that the request adds to it.
	Tags map[string]string
	// TagKeys are the keys of Tags, or of the tags that the request removes.
	TagKeys []string
	// Keys are values of condition keys that the request contains, in lower case. A key without values is known to be
	// absent.
	Keys map[string][]string
	// Costly are functions that return values of condition keys, in lower case, that are expensive to find. They are
	// called only if a policy uses the key.
	Costly map[string]func() []string
	// AllKeys says that the request has no condition keys of the service besides those in Keys and Costly, so none is
	// unknown.
	AllKeys bool

	launch string // the launch template of a launcher's check, or empty
}

// Config configures an Authorizer.
type Config struct {
	// Policies returns the policies that apply to a principal. root says that the principal needs none
	// (iam.Service.PoliciesOf). Required.
	Policies func(p awsapi.Principal) (policies policy.Policies, root bool)
	// Services are the services whose rows correct the reference.
	Services []awsapi.Service
	// Resolvers look up stored resources, by IAM prefix: ec2, iam, eks, … Register adds more.
	Resolvers map[string]Resolver
	// Controls returns the service and resource control policies that bind an account, see policy.Policies. Nil means
	// that there are no organizations.
	Controls func(account string) (service, resource [][]policy.Source)
	// Organization returns the ID and the path of an account in its organization, if it is in one. Nil means that there
	// are no organizations.
	Organization func(account string) (id, path string, ok bool)
	// EndpointPolicy returns the document of a VPC endpoint's policy, for calls that came through the endpoint. An
	// empty document allows everything. It returns false if there is no such endpoint, and then nothing is allowed
	// through it. If EndpointPolicy is nil, the resolver that implements EndpointPolicies is used.
	EndpointPolicy func(ctx context.Context, account, region, endpointID string) (document string, ok bool)
	// Store holds the key that seals encoded messages. If it is nil, there are no encoded messages.
	Store *store.Store
}

// An Authorizer authorizes calls. Its methods may be called concurrently.
type Authorizer struct {
	cfg       Config
	resolvers map[string]Resolver // by IAM prefix
	rows      *table
	plans     planCache
	endpoints endpointPolicies
}

// New returns an Authorizer.
func New(cfg Config) *Authorizer {
	a := &Authorizer{cfg: cfg, resolvers: map[string]Resolver{}, rows: newTable(cfg.Services)}
	maps.Copy(a.resolvers, cfg.Resolvers)
	return a
}

// Register adds the resolver of a service, which is named by its SDK package. If services share an IAM prefix, their
// resolvers are tried in turn. Register all of them before the first request.
func (a *Authorizer) Register(service string, r Resolver) {
	prefix := Prefix(service)
	if first := a.resolvers[prefix]; first != nil {
		r = inTurn{first, r}
	}
	a.resolvers[prefix] = r
	if e, ok := r.(EndpointPolicies); ok && a.cfg.EndpointPolicy == nil {
		a.cfg.EndpointPolicy = e.EndpointPolicy
	}
}

// EndpointPolicies is implemented by the Resolver that has the policies of VPC endpoints: EC2's.
type EndpointPolicies interface {
	EndpointPolicy(ctx context.Context, account, region, endpointID string) (document string, ok bool)
}

// inTurn tries the resolvers of services that share an IAM prefix, such as both versions of Elastic Load Balancing.
type inTurn [2]Resolver

// Resource implements Resolver.
func (t inTurn) Resource(ctx context.Context, account, region, kind, id string) (Resource, bool) {
	for _, r := range t {
		if res, ok := r.Resource(ctx, account, region, kind, id); ok {
			return res, true
		}
	}
	return Resource{}, false
}

// Targets implements Targeter.
func (t inTurn) Targets(ctx context.Context, call *awsapi.Call, in any) ([]Target, bool) {
	for _, r := range t {
		if r, ok := r.(Targeter); ok {
			if targets, ok := r.Targets(ctx, call, in); ok {
				return targets, true
			}
		}
	}
	return nil, false
}

// Authorize decides whether call, whose decoded input is in, is allowed. It returns nil, a *Denial, or another error
// if it could not decide.
func (a *Authorizer) Authorize(ctx context.Context, call *awsapi.Call, in any) error {
	return a.authorize(ctx, call, func() []Check { return a.Checks(ctx, call, in) })
}

// AuthorizeTargets authorizes a call whose handler determines its targets: only after reading the request does
// sts:AssumeRole know the role and, from the token, the caller. The checks, keys and denials are those of Authorize.
func (a *Authorizer) AuthorizeTargets(ctx context.Context, call *awsapi.Call, in any, targets ...Target) error {
	return a.authorize(ctx, call, func() []Check {
		out := make([]Check, 0, len(targets))
		for _, t := range targets {
			out = append(out, a.check(ctx, call, t.Action, t, in))
		}
		return out
	})
}

func (a *Authorizer) authorize(ctx context.Context, call *awsapi.Call, checks func() []Check) error {
	if call.Principal.Type == awsapi.AWSService && call.Principal.RoleARN != "" {
		return nil // under a service-linked role, which no policy of the account binds
	}
	policies, root := a.policiesOf(call.Principal)
	if unconditional[call.Service+":"+call.Operation] || call.Principal.Type == awsapi.InstanceCaller {
		if call.VPCEndpoint.ID == "" {
			return nil
		}
		policies, root = policy.Policies{Identity: []policy.Source{{Name: "needs no permission", Document: everything}}}, false
	}
	if root && !policies.Sessioned && len(policies.ServiceControls) == 0 && call.VPCEndpoint.ID == "" && call.Principal.IssuedAt.IsZero() {
		if _, bound := a.resolvers[Prefix(call.Service)].(PolicyHolder); !bound {
			return nil // nothing can deny what the account's root user does
		}
	}
	policies.Endpoint = a.endpointPolicy(ctx, call.VPCEndpoint)
	var first *Denial
	list := checks()
	if tooMuch(list) {
		return errTooMuch(call.Service)
	}
	for _, c := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		d := a.decide(call, c, policies)
		if d == nil {
			continue
		}
		if d.Decision.ExplicitDeny {
			first = d
			break
		}
		if first == nil {
			first = d
		} else if len(first.also) < maxAlso {
			first.also = append(first.also, d)
		}
	}
	if first == nil {
		return nil
	}
	return a.seal(ctx, first)
}

// policiesOf returns the policies that apply to p itself.
func (a *Authorizer) policiesOf(p awsapi.Principal) (out policy.Policies, root bool) {
	if p.Account == "" || p.Type == awsapi.AWSService {
		return out, false // a web identity or a service, which belongs to no account
	}
	if out, root = a.cfg.Policies(p); root {
		out.Identity = []policy.Source{{Name: "root of the account", Document: everything}}
	}
	if a.cfg.Controls != nil && !serviceLinked(&p) {
		out.ServiceControls, _ = a.cfg.Controls(p.Account)
	}
	return out, root
}

// serviceLinked reports whether a principal is a session of a service-linked role, which policies of organizations
// do not restrict.
// https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_scps.html#not-restricted-by-scp
func serviceLinked(p *awsapi.Principal) bool {
	return strings.Contains(p.RoleARN, ":role/aws-service-role/")
}

// resourceControlled are the services whose resources resource control policies restrict, by IAM prefix.
// https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_rcps.html#rcp-supported-services
var resourceControlled = map[string]bool{"ecr": true, "kms": true, "logs": true, "s3": true, "secretsmanager": true, "sqs": true, "sts": true}

// control adds the resource control policies that bind the account of a request's resource, and the condition keys of
// the organizations of both sides.
func (a *Authorizer) control(p *awsapi.Principal, endpoint awsapi.VPCEndpoint, req *policy.Request, policies *policy.Policies) {
	if a.cfg.Controls == nil {
		return
	}
	account := req.ResourceAccount
	if account == "" && len(req.Context.Values["aws:resourceaccount"]) == 1 {
		account = req.Context.Values["aws:resourceaccount"][0]
	}
	by := "principal"
	if p.Type == awsapi.AWSService {
		by = "source"
	}
	set := func(name, account string, paths bool) {
		if id, path, ok := a.cfg.Organization(account); ok {
			req.Context.Values["aws:"+name+"orgid"] = []string{id}
			if paths {
				req.Context.Values["aws:"+name+"orgpaths"] = []string{path}
			}
		}
	}
	set(by, p.Account, true)
	set("resource", account, true)
	if org, all := endpointKeys(req.Action); org {
		set("vpce", endpoint.Account, all)
	}
	if prefix, _ := split(req.Action); resourceControlled[prefix] && account != "" && !serviceLinked(p) {
		_, policies.ResourceControls = a.cfg.Controls(account)
	}
}

// endpointPolicy returns the policy of the VPC endpoint that a call came through.
func (a *Authorizer) endpointPolicy(ctx context.Context, e awsapi.VPCEndpoint) []policy.Source {
	if e.ID == "" || a.cfg.EndpointPolicy == nil {
		return nil
	}
	text, ok := a.cfg.EndpointPolicy(ctx, e.Account, e.Region, e.ID)
	switch {
	case !ok: // the endpoint was deleted while the connection was open, or is unreadable
		return []policy.Source{{Name: e.ID, Document: nothing}}
	case text == "":
		return nil
	}
	return []policy.Source{{Name: e.ID, Document: a.endpoints.get(text)}}
}

// bind adds the resource's own policies for an action to those of the caller.
func (r *Resource) bind(action, kind string, policies *policy.Policies) {
	prefix, _ := split(action)
	if prefix == "sts" && kind == "role" {
		// If the role does not exist, the caller gets the same error as for a trust policy that does not name the
		// caller.
		if policies.Trust = r.Trust; policies.Trust == nil {
			policies.Trust = &policy.Source{Name: "no such role", Document: nothing}
		}
	}
	if !strings.HasPrefix(r.ARN, "arn:aws:"+prefix+":") {
		return
	}
	policies.ResourceRequired, policies.Grants = r.PolicyRequired, r.Grants
	policies.Resource = r.AccountPolicies
	if r.Policy != nil {
		policies.Resource = []policy.Source{*r.Policy}
	}
}

// unconditional are actions that need no permission and that the caller's own policies cannot deny. A VPC endpoint's
// policy can: AWS's guidance for data perimeters makes no exception for them.
// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
// https://github.com/aws-samples/data-perimeter-policy-examples/blob/main/service_specific_guidance/sts-specific-guidance.md
var unconditional = map[string]bool{"sts:GetCallerIdentity": true, "sts:GetSessionToken": true}

// everything is a policy that allows everything; it stands for the policy that an account's root user does not need.
var everything = &policy.Document{Statements: []policy.Statement{{Actions: []string{"*"}, Resources: []string{"*"}}}}

// Prefix returns the IAM prefix of a service's actions, by the name of its SDK package. With one exception it is the
// service's signing name.
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
func Prefix(service string) string {
	if service == "resourcegroupstaggingapi" {
		return "tag"
	}
	if name, ok := model.SigningName(service); ok {
		return name
	}
	return service
}

// ServicePrincipal returns the service principal of a service, by the name of its SDK
// package: eks.amazonaws.com.
func ServicePrincipal(service string) string { return Prefix(service) + ".amazonaws.com" }

// protocolOf returns the protocol of an action's service, which determines how its denials are worded.
func protocolOf(service string) string {
	m, err := model.Get(service)
	if err != nil {
		return model.ProtocolJSON
	}
	return m.Protocol
}

func split(action string) (prefix, name string) {
	prefix, name, _ = strings.Cut(action, ":")
	return prefix, name
}

// Allowed decides whether the caller of ctx could do what t describes, by the same way, if the resource were as given. KMS
// uses it to check a key policy before it is set.
func (a *Authorizer) Allowed(ctx context.Context, t Target, as Resource) bool {
	call := awsapi.CallFrom(ctx)
	if call.Principal.Type == awsapi.AWSService {
		return true
	}
	c := a.check(ctx, call, t.Action, Target{Action: t.Action, Type: t.Type, New: true, Keys: t.Keys, AllKeys: t.AllKeys}, nil)
	c.Resource, c.stored = as.ARN, as
	policies, _ := a.policiesOf(call.Principal)
	policies.Endpoint = a.endpointPolicy(ctx, call.VPCEndpoint)
	return a.decide(call, c, policies) == nil
}

package iam

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// A simulation evaluates made-up requests with the engine that authorizes real ones. As in AWS's
// simulator, condition keys that are not in the context are absent.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
type simulation struct {
	actions   []string
	resources []string // empty means "*"
	owner     string   // account of the resources, or empty
	principal policy.Principal
	policies  policy.Policies
	context   policy.Context
	written   map[string]string // condition keys as the policies spell them, by lower case
}

// Terms in MatchedStatements, as the simulator spells them.
const (
	sourceIAM      = "IAM Policy"
	sourceResource = "Resource Policy"
)

const (
	// maxSimulated limits how many policies a simulation request can contain.
	maxSimulated = 100
	// maxMatched is how many statements the results on one page may refer to.
	maxMatched = 10_000
)

var actionRE = regexp.MustCompile(`^[A-Za-z0-9-]+:[A-Za-z0-9]+$`)

// SimulateCustomPolicy evaluates the policies in the request.
func (s *Service) SimulateCustomPolicy(ctx context.Context, in *awsiam.SimulateCustomPolicyInput) (*awsiam.SimulateCustomPolicyOutput, error) {
	sim, err := newSimulation(in.ActionNames, in.ResourceArns)
	if err != nil {
		return nil, err
	}
	if err := sim.entries(in.ContextEntries); err != nil {
		return nil, err
	}
	if err := sim.addInputs(in.PolicyInputList, in.PermissionsBoundaryPolicyInputList); err != nil {
		return nil, err
	}
	if err := sim.addResource(in.ResourcePolicy, in.ResourceOwner, in.CallerArn); err != nil {
		return nil, err
	}
	results, next, err := sim.run(ctx, s.clock.Now(), in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.SimulateCustomPolicyOutput{EvaluationResults: results, IsTruncated: next != nil, Marker: next}, nil
}

// SimulatePrincipalPolicy evaluates the policies of a user, group or role.
func (s *Service) SimulatePrincipalPolicy(ctx context.Context, in *awsiam.SimulatePrincipalPolicyInput) (*awsiam.SimulatePrincipalPolicyOutput, error) {
	sim, err := newSimulation(in.ActionNames, in.ResourceArns)
	if err != nil {
		return nil, err
	}
	e, err := s.entity(awsapi.CallFrom(ctx).Account, *in.PolicySourceArn)
	if err != nil {
		return nil, err
	}
	sim.policies, sim.principal = e.policies, e.principal
	sim.context.Values = e.keys
	if err := sim.entries(in.ContextEntries); err != nil {
		return nil, err
	}
	if err := sim.addInputs(in.PolicyInputList, in.PermissionsBoundaryPolicyInputList); err != nil {
		return nil, err
	}
	caller := in.CallerArn
	if caller == nil && in.ResourcePolicy != nil {
		caller = in.PolicySourceArn
	}
	if err := sim.addResource(in.ResourcePolicy, in.ResourceOwner, caller); err != nil {
		return nil, err
	}
	results, next, err := sim.run(ctx, s.clock.Now(), in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.SimulatePrincipalPolicyOutput{EvaluationResults: results, IsTruncated: next != nil, Marker: next}, nil
}

// newSimulation returns a simulation of actions on resources.
func newSimulation(actions, resources []string) (*simulation, error) {
	for _, n := range actions {
		if !actionRE.MatchString(n) {
			return nil, invalidInput("Invalid Action name: %s", n) // from memory
		}
	}
	for _, a := range resources {
		if _, err := arn.Parse(a); err != nil && a != "*" {
			return nil, invalidInput("ResourceNames are not in a valid ARN format: %s.", a) // https://github.com/aws-containers/amazon-ecs-exec-checker/issues/35
		}
	}
	return &simulation{actions: actions, resources: resources}, nil
}

// entries parses the context in the request.
func (sim *simulation) entries(entries []iamtypes.ContextEntry) error {
	if sim.context.Values == nil {
		sim.context.Values = map[string][]string{}
	}
	for _, e := range entries {
		name, typ := aws.ToString(e.ContextKeyName), string(e.ContextKeyType)
		if len(e.ContextKeyValues) > 1 && !strings.HasSuffix(typ, "List") {
			return invalidInput("Context key %s of type %s has more than one value.", name, typ) // from memory
		}
		sim.context.Values[strings.ToLower(name)] = e.ContextKeyValues
	}
	return nil
}

// addInputs adds the policies in the request. A permissions boundary replaces the entity's.
func (sim *simulation) addInputs(documents, boundary []string) error {
	docs, err := parseInputs(documents)
	if err != nil {
		return err
	}
	for i, doc := range docs {
		sim.policies.Identity = append(sim.policies.Identity, policy.Source{Name: "PolicyInputList." + strconv.Itoa(i+1), Document: doc})
	}
	switch {
	case len(boundary) > 1:
		return invalidInput("Only one permissions boundary policy is allowed.") // from memory
	case len(boundary) == 1:
		doc, err := policy.Parse(policy.Identity, boundary[0])
		if err != nil {
			return invalidInput("Invalid input: %s", err)
		}
		sim.policies.Boundary = &policy.Source{Name: "PermissionsBoundaryPolicyInputList.1", Document: doc}
	}
	return nil
}

// addResource adds the resource's policy, its owner and the caller.
func (sim *simulation) addResource(document, owner, caller *string) error {
	if owner != nil {
		// A bare account number is refused, too: https://github.com/boto/botocore/issues/1346
		a, err := arn.Parse(*owner)
		if err != nil || !isAccount(a.Account) {
			return invalidInput("'%s' is not a valid as a Resource Owner.", *owner)
		}
		sim.owner = a.Account
	}
	if caller != nil {
		a, err := arn.Parse(*caller)
		if err != nil || a.Service != "iam" || !strings.HasPrefix(a.Resource, "user/") {
			return invalidInput("Invalid caller - Caller must be an IAM user in this context.") // [seen] in articles about simulating roles
		}
		sim.principal.Account, sim.principal.ARN = a.Account, *caller
		sim.context.Values["aws:principalarn"] = []string{*caller}
		sim.context.Values["aws:principalaccount"] = []string{a.Account}
	}
	if document != nil {
		if caller == nil {
			return invalidInput("CallerArn is required when a resource policy is given.") // from memory
		}
		doc, err := policy.Parse(policy.Resource, *document)
		if err != nil {
			return invalidInput("Invalid input: %s", err)
		}
		sim.policies.Resource = []policy.Source{{Name: "ResourcePolicy", Document: doc}}
	}
	return nil
}

// run evaluates one page of all pairs of an action and a resource, and no other pairs, however many
// there are. A page may have fewer results than requested:
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulateCustomPolicy.html
func (sim *simulation) run(ctx context.Context, now time.Time, marker *string, maxItems *int32) (results []iamtypes.EvaluationResult, next *string, err error) {
	sim.prepare(now)
	resources := sim.resources
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	page, err := pages.Start(maxItems, marker)
	if err != nil {
		return nil, nil, err
	}
	start, total := 0, len(sim.actions)*len(resources)
	if page.After != "" {
		last, err := strconv.Atoi(page.After)
		if err != nil || last < 0 || last >= total {
			return nil, nil, invalidMarker()
		}
		start = last + 1
	}
	results = []iamtypes.EvaluationResult{}
	for i, matched := start, 0; i < total && !page.Full(); i++ {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if matched > maxMatched {
			page.Stop()
			break
		}
		r := sim.evaluate(sim.actions[i/len(resources)], resources[i%len(resources)])
		results = append(results, r)
		matched += len(r.MatchedStatements)
		page.Add(strconv.Itoa(i))
	}
	return results, page.Next(), nil
}

// prepare completes the context and records how the policies spell its keys.
func (sim *simulation) prepare(now time.Time) {
	for k, v := range map[string]string{
		"aws:currenttime": now.UTC().Format(time.RFC3339), "aws:epochtime": strconv.FormatInt(now.Unix(), 10),
	} {
		if _, ok := sim.context.Values[k]; !ok {
			sim.context.Values[k] = []string{v}
		}
	}
	var docs []*policy.Document
	for _, src := range slices.Concat(sim.policies.Identity, sim.policies.Session, sim.policies.Resource) {
		docs = append(docs, src.Document)
	}
	if sim.policies.Boundary != nil {
		docs = append(docs, sim.policies.Boundary.Document)
	}
	sim.written = map[string]string{}
	for _, k := range policy.ContextKeys(docs...) {
		sim.written[strings.ToLower(k)] = k
	}
}

// missing returns the absent condition keys that could have changed the decision.
func (sim *simulation) missing(req policy.Request) []string {
	req.Context.Unknown = policy.AnyKey
	out := []string{}
	for _, k := range policy.Evaluate(req, sim.policies).UnknownKeys {
		out = append(out, cmp.Or(sim.written[k], k))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (sim *simulation) evaluate(action, resource string) iamtypes.EvaluationResult {
	req := policy.Request{Action: action, Resource: resource, ResourceAccount: sim.owner, Principal: sim.principal, Context: sim.context}
	d := policy.Evaluate(req, sim.policies)
	decision := iamtypes.PolicyEvaluationDecisionTypeImplicitDeny
	switch {
	case d.Allowed:
		decision = iamtypes.PolicyEvaluationDecisionTypeAllowed
	case d.ExplicitDeny:
		decision = iamtypes.PolicyEvaluationDecisionTypeExplicitDeny
	}
	matched := []iamtypes.Statement{}
	for _, m := range d.Matched {
		matched = append(matched, outMatch(m))
	}
	var boundary *iamtypes.PermissionsBoundaryDecisionDetail
	if sim.policies.Boundary != nil {
		alone := policy.Evaluate(req, policy.Policies{Identity: []policy.Source{*sim.policies.Boundary}})
		boundary = &iamtypes.PermissionsBoundaryDecisionDetail{AllowedByPermissionsBoundary: alone.Allowed}
	}
	out := iamtypes.EvaluationResult{
		EvalActionName: &action, EvalResourceName: &resource, EvalDecision: decision,
		MatchedStatements: matched, MissingContextValues: []string{}, PermissionsBoundaryDecisionDetail: boundary,
	}
	missing := sim.missing(req)
	if resource == "*" {
		out.MissingContextValues = missing
		return out
	}
	out.ResourceSpecificResults = []iamtypes.ResourceSpecificResult{{
		EvalResourceName: &resource, EvalResourceDecision: decision, MatchedStatements: matched,
		MissingContextValues: missing, PermissionsBoundaryDecisionDetail: boundary,
	}}
	return out
}

// sourceID returns a policy's ID in results: its name, and for an inline policy "user_NAME_POLICY".
// [seen] hashicorp/terraform-provider-aws, TestAccIAMPrincipalPolicySimulationDataSource_basic
func sourceID(source string) string {
	parts := strings.Split(source[strings.LastIndexByte(source, ':')+1:], "/")
	name := parts[len(parts)-1]
	if len(parts) > 2 && slices.Contains([]string{"user", "group", "role"}, parts[0]) {
		return parts[0] + "_" + parts[len(parts)-2] + "_" + name
	}
	return name
}

func outMatch(m policy.Match) iamtypes.Statement {
	out := iamtypes.Statement{
		SourcePolicyId: aws.String(sourceID(m.Source)), SourcePolicyType: sourceIAM,
		StartPosition: &iamtypes.Position{Line: int32(m.Start.Line), Column: int32(m.Start.Column)},
		EndPosition:   &iamtypes.Position{Line: int32(m.End.Line), Column: int32(m.End.Column)},
	}
	if m.Type == policy.ResourceBased {
		out.SourcePolicyType = sourceResource
	}
	return out
}

// GetContextKeysForCustomPolicy returns the condition keys that policies refer to.
func (s *Service) GetContextKeysForCustomPolicy(_ context.Context, in *awsiam.GetContextKeysForCustomPolicyInput) (*awsiam.GetContextKeysForCustomPolicyOutput, error) {
	docs, err := parseInputs(in.PolicyInputList)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetContextKeysForCustomPolicyOutput{ContextKeyNames: contextKeys(docs)}, nil
}

// GetContextKeysForPrincipalPolicy returns the condition keys that the policies of a user, group or
// role refer to.
func (s *Service) GetContextKeysForPrincipalPolicy(ctx context.Context, in *awsiam.GetContextKeysForPrincipalPolicyInput) (*awsiam.GetContextKeysForPrincipalPolicyOutput, error) {
	e, err := s.entity(awsapi.CallFrom(ctx).Account, *in.PolicySourceArn)
	if err != nil {
		return nil, err
	}
	docs, err := parseInputs(in.PolicyInputList)
	if err != nil {
		return nil, err
	}
	for _, src := range e.policies.Identity {
		docs = append(docs, src.Document)
	}
	return &awsiam.GetContextKeysForPrincipalPolicyOutput{ContextKeyNames: contextKeys(docs)}, nil
}

func parseInputs(texts []string) ([]*policy.Document, error) {
	if len(texts) > maxSimulated {
		return nil, invalidInput("A simulation takes at most %d policies.", maxSimulated) // no source
	}
	var docs []*policy.Document
	for _, text := range texts {
		doc, err := policy.Parse(policy.Identity, text)
		if err != nil {
			return nil, invalidInput("Invalid input: %s", err)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

func contextKeys(docs []*policy.Document) []string {
	if keys := policy.ContextKeys(docs...); keys != nil {
		return keys
	}
	return []string{}
}

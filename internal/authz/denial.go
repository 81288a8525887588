package authz

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/policy"
)

// A Denial is a check that was refused. It is an error; awsapi/server renders it with Render and records it with its
// evidence.
type Denial struct {
	Principal awsapi.Principal
	Service   string // the SDK's package name of the service whose wording the denial uses
	Operation string
	Decision  policy.Decision
	// Request and Policies are what was evaluated, for explanations.
	Request  policy.Request
	Policies policy.Policies
	// Encoded is the sealed message of EC2's denials, or empty.
	Encoded string

	check    Check
	endpoint awsapi.VPCEndpoint
	also     []*Denial // other denials of the same call
}

// Denied returns the denial of an action on a resource when only the decision is known.
func Denied(call *awsapi.Call, d policy.Decision) *Denial {
	return &Denial{
		Principal: call.Principal, Service: call.Service, Operation: call.Operation, Decision: d,
		Request: policy.Request{Action: d.Action, Resource: d.Resource},
	}
}

func (d *Denial) Error() string { return d.message() }

// decide evaluates one check. It returns nil if the check is allowed.
func (a *Authorizer) decide(call *awsapi.Call, c Check, policies policy.Policies) *Denial {
	c.stored.bind(c.Action, c.target.Type, &policies)
	req := policy.Request{Action: c.Action, Resource: c.Resource, ResourceAccount: c.stored.Account, Principal: PrincipalOf(call.Principal), Context: c.context(call)}
	a.control(&call.Principal, call.VPCEndpoint, &req, &policies)
	d := &Denial{Principal: call.Principal, Service: call.Service, Operation: call.Operation, Request: req, Policies: policies, check: c, endpoint: call.VPCEndpoint}
	if narrow(call.Principal, c.Action) {
		d.Decision = policy.Decision{
			Action: c.Action, Resource: c.Resource,
			Reason: "temporary credentials of this kind cannot perform the " + c.Action + " action",
		}
		return d
	}
	d.Decision = policy.Evaluate(req, policies)
	if c.find(&req.Context, d.Decision.UnknownKeys) {
		d.Decision = policy.Evaluate(req, policies)
	}
	if d.Decision.Allowed {
		return nil
	}
	c.find(&req.Context, slices.Collect(maps.Keys(c.target.Costly))) // later policies may use these keys
	return d
}

// find looks up the values of the costly keys among the given ones and reports whether there are any.
func (c *Check) find(in *policy.Context, keys []string) (some bool) {
	for _, key := range keys {
		find := c.target.Costly[key]
		if _, known := in.Values[key]; find != nil && !known {
			in.Values[key], some = find(), true
		}
	}
	return some
}

// narrow reports whether p holds temporary credentials of GetSessionToken or GetFederationToken, which cannot use IAM
// without an MFA device, nor most of STS.
//
// AWS deviation: AWS answers InvalidClientTokenId, this is AccessDenied.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_request.html
func narrow(p awsapi.Principal, action string) bool {
	temporary := p.Type == awsapi.FederatedUser || p.Type != awsapi.AssumedRole && !p.IssuedAt.IsZero()
	switch {
	case !temporary:
		return false
	case unconditional[action], action == "sts:AssumeRole" && p.Type != awsapi.FederatedUser:
		return false
	}
	return strings.HasPrefix(action, "iam:") && p.MFAAt.IsZero() || strings.HasPrefix(action, "sts:")
}

// PrincipalOf returns p as policies name it.
func PrincipalOf(p awsapi.Principal) policy.Principal {
	if p.Type == awsapi.AWSService {
		return policy.Principal{Service: p.Name}
	}
	if p.Account == "" && p.FederatedProvider != "" {
		return policy.Principal{Federated: p.FederatedProvider}
	}
	out := policy.Principal{Account: p.Account, ARN: p.ARN, RoleARN: p.RoleARN, ID: p.UserID}
	if p.Type == awsapi.FederatedUser && p.Name != "" {
		out.UserARN = "arn:aws:iam::" + p.Account + ":user/" + p.Name
	}
	return out
}

// message returns AWS's text. https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
func (d *Denial) message() string {
	ec2 := protocolOf(d.Service) == model.ProtocolEC2
	dec := &d.Decision
	var b strings.Builder
	if ec2 {
		b.WriteString("You are not authorized to perform this operation. ")
	}
	b.WriteString("User: " + cmp.Or(d.Principal.ARN, PrincipalOf(d.Principal).Service) + " is not authorized to perform: " + dec.Action)
	// EC2 and Route 53 leave out the resource if the action has none. https://github.com/kubernetes-sigs/external-dns/issues/4219
	if dec.Resource != "" && (dec.Resource != "*" || !ec2 && d.Service != "route53") {
		b.WriteString(" on resource: " + d.display())
	}
	switch {
	case strings.HasPrefix(dec.Reason, "with "):
		b.WriteString(" " + dec.Reason)
	case dec.Reason != "":
		b.WriteString(" because " + dec.Reason)
	case dec.ExplicitDeny:
		b.WriteString(" with an explicit deny")
	}
	if d.Encoded != "" {
		b.WriteString(". Encoded authorization failure message: " + d.Encoded)
	}
	return b.String()
}

// display returns the resource as messages show it. IAM names missing resources by kind and name, policies also by
// their kind, and lists by their path. https://github.com/aws/aws-cdk/issues/27067 (on resource: role cdk-…),
// https://github.com/aws/aws-sam-cli/issues/394 (on resource: policy path /)
func (d *Denial) display() string {
	resource := d.Decision.Resource
	if strings.HasPrefix(d.Decision.Action, "s3:") {
		return `"` + resource + `"` // https://docs.aws.amazon.com/AmazonS3/latest/userguide/troubleshoot-403-errors.html
	}
	if !strings.HasPrefix(d.Decision.Action, "iam:") {
		return resource
	}
	t := &d.check.target
	switch _, path, policy := strings.Cut(resource, ":policy"); {
	case policy && d.Decision.Action == "iam:ListPolicies":
		return "policy path " + path
	case policy:
		return "policy " + resource // from memory
	case t.ID != "" && !t.New && d.check.stored.ARN == "" && !strings.ContainsAny(t.ID, "/:"):
		return t.Type + " " + t.ID
	}
	return resource
}

// Render returns the denial as a client sees it, with the code, status and text of the service that was called.
func (d *Denial) Render() *awserr.Error {
	if d.check.target.launch != "" {
		if err := d.deniedLaunch(); err != nil {
			return err
		}
	}
	text := d.message()
	if d.hiddenKey() {
		text = "The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to access."
	}
	if d.Service == "sns" { // SNS has its own error code, and writes SNS: in actions
		return awserr.New("AuthorizationError", strings.ReplaceAll(text, " sns:", " SNS:")).WithStatus(http.StatusForbidden)
	}
	switch protocolOf(d.Service) {
	case model.ProtocolEC2:
		return awserr.New("UnauthorizedOperation", text).WithStatus(http.StatusForbidden)
	case model.ProtocolQuery, model.ProtocolRESTXML:
		return awserr.New("AccessDenied", text).WithStatus(http.StatusForbidden)
	case model.ProtocolJSON:
		// json services answer 400: https://docs.aws.amazon.com/systems-manager/latest/APIReference/CommonErrors.html
		return awserr.New("AccessDeniedException", text).WithStatus(http.StatusBadRequest)
	}
	return awserr.New("AccessDeniedException", text).WithStatus(http.StatusForbidden)
}

// errTooMuch is the error for a call that touches too many resources to be authorized.
//
// AWS deviation: AWS authorizes the call and refuses it because of one of its quotas.
func errTooMuch(service string) error {
	const text = "The request names too many resources and tags."
	switch protocolOf(service) {
	case model.ProtocolEC2:
		return awserr.New("InvalidParameterValue", text)
	case model.ProtocolQuery, model.ProtocolRESTXML:
		return awserr.New("ValidationError", text)
	}
	return awserr.New("ValidationException", text)
}

// hiddenKey reports whether the denial concerns a KMS key that only a ciphertext names and that the caller's account
// does not have. KMS does not reveal whether such a key exists.
// https://github.com/aws/aws-encryption-sdk-javascript/issues/1005
func (d *Denial) hiddenKey() bool {
	named := map[string]string{"kms:Decrypt": "KeyId", "kms:ReEncryptFrom": "SourceKeyId"}[d.Decision.Action]
	if named == "" || d.Decision.ExplicitDeny || first(d.check.input, named) != "" {
		return false
	}
	key, err := arn.Parse(d.Decision.Resource)
	return err == nil && (key.Account != d.Principal.Account || d.check.stored.Policy == nil)
}

// An Explanation is a denial as the journal keeps it, with everything needed to explain it later, when policies may
// have changed.
type Explanation struct {
	RequestID string `json:"requestId"`
	Service   string `json:"service"`
	Operation string `json:"operation"`
	// ResourceType is the type of the decision's resource in the authorization
	// reference.
	ResourceType string `json:"resourceType,omitempty"`
	// Principal is the caller, with what is needed to find its policies again.
	Principal awsapi.Principal `json:"principal"`
	// Explanation has no details about statements of other actions. Omitted counts the statements that were left out
	// because there were too many.
	Explanation policy.Explanation `json:"explanation"`
	Omitted     int                `json:"omittedStatements,omitempty"`
	// NoSuchRole says that the role to be assumed does not exist, so changing policies does not help.
	NoSuchRole bool `json:"noSuchRole,omitempty"`
	// Keys are the condition keys of the request, as AWS writes them.
	Keys map[string][]string `json:"conditionKeys,omitempty"`
	// Endpoint is the VPC endpoint that the call came through.
	Endpoint awsapi.VPCEndpoint `json:"vpcEndpoint,omitzero"`
	// Suggestions are the smallest changes that would have allowed it.
	Suggestions []policy.Suggestion `json:"suggestions,omitempty"`
	// Also holds the call's other denied checks. They have only the action and resource of the decision, the
	// resource's type, and the keys.
	Also []Explanation `json:"also,omitempty"`
}

const (
	// maxAlso bounds Also.
	maxAlso = 16
	// maxStatements and maxOthers bound the statements kept per layer: those of the action, and those of other
	// actions.
	maxStatements = 40
	maxOthers     = 200
	// maxExplanation bounds an explanation in the journal, in bytes.
	maxExplanation = 64 << 10
)

// Explain returns the reasons for the denial. It evaluates the policies as they were then, not the current ones.
func (d *Denial) Explain(requestID string) Explanation {
	out := Explanation{
		RequestID: requestID, Principal: d.Principal, Service: d.Service, Operation: d.Operation, ResourceType: d.check.target.Type,
		Explanation: policy.Explanation{Decision: d.Decision}, Keys: map[string][]string{}, Endpoint: d.endpoint,
	}
	if !narrow(d.Principal, d.Request.Action) {
		out.Explanation = policy.Explain(d.Request, d.Policies)
		if out.NoSuchRole = d.Policies.Trust != nil && d.check.stored.Trust == nil; !out.NoSuchRole {
			out.Suggestions = policy.Suggest(d.Request, d.Policies)
		}
	}
	for i := range out.Explanation.Layers {
		out.trim(&out.Explanation.Layers[i])
	}
	for k, v := range d.Request.Context.Values {
		if len(v) > 0 {
			out.Keys[d.check.name(k)] = v
		}
	}
	for _, o := range d.also {
		other := Explanation{ResourceType: o.check.target.Type, Keys: map[string][]string{}}
		other.Explanation.Decision = policy.Decision{Action: o.Decision.Action, Resource: o.Decision.Resource, UnknownKeys: o.Decision.UnknownKeys}
		for k, v := range o.Request.Context.Values {
			if len(v) > 0 {
				other.Keys[o.check.name(k)] = v
			}
		}
		out.Also = append(out.Also, other)
	}
	return out
}

// Others returns the call's other denied checks as separate explanations.
func (e Explanation) Others() []Explanation {
	out := slices.Clone(e.Also)
	for i := range out {
		out[i].RequestID, out[i].Service, out[i].Operation, out[i].Principal, out[i].Endpoint = e.RequestID, e.Service, e.Operation, e.Principal, e.Endpoint
	}
	return out
}

// trim drops the details of statements of other actions.
func (e *Explanation) trim(l *policy.LayerExplanation) {
	var kept []policy.StatementExplanation
	detailed, others := 0, 0
	for _, s := range l.Statements {
		if len(s.Mismatches) > 0 && (s.Mismatches[0].Element == policy.ActionElement || s.Mismatches[0].Element == policy.NotActionElement) {
			s = policy.StatementExplanation{Match: s.Match, Outcome: s.Outcome, Mismatches: []policy.Mismatch{{Element: policy.ActionElement}}}
			others++
		} else {
			detailed++
		}
		if detailed > maxStatements || others > maxOthers {
			e.Omitted++
			continue
		}
		kept = append(kept, s)
	}
	l.Statements = kept
}

// Reconsider evaluates a denied request against the current policies (the caller's, the resource's or role's, and the
// endpoint's) after changes, which are made on a copy.
func (a *Authorizer) Reconsider(ctx context.Context, e Explanation, changes ...policy.Change) policy.Decision {
	if d := e.Explanation.Decision; narrow(e.Principal, d.Action) {
		return d
	}
	return policy.Evaluate(a.again(ctx, e, changes))
}

// Suggest returns the smallest changes that would allow a denied request after changes have been made to the current
// policies.
func (a *Authorizer) Suggest(ctx context.Context, e Explanation, changes ...policy.Change) []policy.Suggestion {
	if narrow(e.Principal, e.Explanation.Decision.Action) {
		return nil
	}
	return policy.Suggest(a.again(ctx, e, changes))
}

// again returns a denied request and the current policies with changes applied.
func (a *Authorizer) again(ctx context.Context, e Explanation, changes []policy.Change) (policy.Request, policy.Policies) {
	d := e.Explanation.Decision
	values := make(map[string][]string, len(e.Keys))
	for k, v := range e.Keys {
		values[strings.ToLower(k)] = v
	}
	policies, _ := a.policiesOf(e.Principal)
	policies.Endpoint = a.endpointPolicy(ctx, e.Endpoint)
	stored := a.Stored(ctx, e)
	stored.bind(d.Action, e.ResourceType, &policies)
	req := policy.Request{
		Action: d.Action, Resource: d.Resource, ResourceAccount: stored.Account, Principal: PrincipalOf(e.Principal),
		Context: policy.Context{Values: values, Unknown: func(key string) bool { return slices.Contains(d.UnknownKeys, key) }},
	}
	a.control(&e.Principal, e.Endpoint, &req, &policies)
	return policy.Suggestion{Changes: changes}.Apply(req, policies)
}

// Stored returns what is stored now about the resource of a denied request.
func (a *Authorizer) Stored(ctx context.Context, e Explanation) Resource {
	var region string
	for k, v := range e.Keys {
		if strings.EqualFold(k, "aws:RequestedRegion") {
			region = firstOf(v)
		}
	}
	d := e.Explanation.Decision
	return a.stored(ctx, d.Action, e.Principal.Account, region, e.ResourceType, d.Resource)
}

func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Record returns the denial as the fields of a journal entry.
func (d *Denial) Record(requestID string) map[string]any {
	matched := make([]string, 0, len(d.Decision.Matched))
	for _, m := range d.Decision.Matched {
		matched = append(matched, m.String())
	}
	fields := map[string]any{
		"requestId": requestID, "principal": d.Principal.ARN, "service": d.Service, "operation": d.Operation,
		"action": d.Decision.Action, "resource": d.Decision.Resource, "allowed": false, "explicitDeny": d.Decision.ExplicitDeny,
		"reason": d.Decision.Reason, "matched": matched, "unknownKeys": d.Decision.UnknownKeys,
	}
	why := d.Explain(requestID)
	b, err := json.Marshal(why)
	if err == nil && len(b) > maxExplanation {
		why.Explanation.Layers, why.Suggestions, why.Also, why.Principal.SessionPolicies = nil, nil, nil, nil
		b, err = json.Marshal(why)
	}
	if err == nil && len(b) <= maxExplanation {
		fields["why"] = json.RawMessage(b)
	}
	return fields
}

package cloudformation

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/glob"
)

// Actions of an update on a resource, as stack policies name them.
const (
	actionModify  = "Update:Modify"
	actionReplace = "Update:Replace"
	actionDelete  = "Update:Delete"
)

// A stackPolicy says which updates are allowed. If there is one, everything that no
// statement allows is denied.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/protect-stack-resources.html
type stackPolicy struct {
	Statement oneOrMore[policyStatement]
}

type policyStatement struct {
	Effect            string
	Action, NotAction oneOrMore[string]
	Principal         any
	Resource          oneOrMore[string]
	NotResource       oneOrMore[string]
	Condition         map[string]map[string]oneOrMore[string]
	Sid               string
}

// oneOrMore is a list that may be written as a single element.
type oneOrMore[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *oneOrMore[T]) UnmarshalJSON(raw []byte) error {
	var list []T
	if err := json.Unmarshal(raw, &list); err == nil {
		*l = list
		return nil
	}
	var one T
	if err := json.Unmarshal(raw, &one); err != nil {
		return err
	}
	*l = []T{one}
	return nil
}

// policyText checks and returns the stack policy in a request.
func policyText(body *string) (string, error) {
	if body == nil {
		return "", nil
	}
	if _, err := parsePolicy(*body); err != nil {
		return "", invalid("Error validating stack policy: Invalid stack policy") // [seen] the same snapshots, test_stack_policies
	}
	return aws.ToString(body), nil
}

func parsePolicy(text string) (*stackPolicy, error) {
	var p stackPolicy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, err
	}
	for _, st := range p.Statement {
		if st.Effect != "Allow" && st.Effect != "Deny" || st.Principal != "*" || len(st.Action)+len(st.NotAction) == 0 || len(st.Resource)+len(st.NotResource) == 0 {
			return nil, fmt.Errorf("statement %q of a stack policy lacks an element", st.Sid)
		}
		for operator, on := range st.Condition {
			for key := range on {
				if operator != "StringEquals" && operator != "StringLike" || key != "ResourceType" {
					return nil, fmt.Errorf("unknown condition %s on %s", operator, key)
				}
			}
		}
	}
	return &p, nil
}

// permits returns an error if the stack's policy does not allow an update of a resource.
func (o *operation) permits(action, id, typ string) error {
	text := o.rec.Policy
	if o.rec.PolicyOnce != "" {
		text = o.rec.PolicyOnce
	}
	if text == "" {
		return nil
	}
	p, err := parsePolicy(text)
	if err != nil {
		return err
	}
	allowed := false
	for i, st := range p.Statement {
		if !st.covers(action, "LogicalResourceId/"+id, typ) {
			continue
		}
		if st.Effect == "Deny" {
			return fmt.Errorf("Action denied by stack policy: Statement [#%d] does not allow [%s] for resource [LogicalResourceId/%s]; ", i+1, action, id) //nolint:staticcheck // AWS's words
		}
		allowed = true
	}
	if !allowed {
		return fmt.Errorf("Action not allowed by stack policy: no statement allows [%s] for resource [LogicalResourceId/%s]", action, id) //nolint:staticcheck // the words are ours
	}
	return nil
}

func (st *policyStatement) covers(action, resource, typ string) bool {
	matches := func(patterns []string, text string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(p, text) })
	}
	if len(st.Action) > 0 && !matches(st.Action, action) || matches(st.NotAction, action) || len(st.Resource) > 0 && !matches(st.Resource, resource) || matches(st.NotResource, resource) {
		return false
	}
	for operator, on := range st.Condition {
		types := on["ResourceType"]
		if operator == "StringEquals" && !slices.Contains(types, typ) || operator == "StringLike" && !matches(types, typ) {
			return false
		}
	}
	return true
}

package organizations

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// known reports whether policies of a type are evaluated here.
func known(kind orgtypes.PolicyType) error {
	if _, ok := grammars[string(kind)]; !ok {
		return awserr.NotImplemented("policies of type " + string(kind))
	}
	return nil
}

// EnablePolicyType puts the policies of a type into force.
func (s *Service) EnablePolicyType(ctx context.Context, in *awsorg.EnablePolicyTypeInput) (*awsorg.EnablePolicyTypeOutput, error) {
	root, err := s.turn(ctx, *in.RootId, in.PolicyType, true)
	return &awsorg.EnablePolicyTypeOutput{Root: root}, err
}

// DisablePolicyType detaches all policies of a type, except AWS's own, and takes them out of force.
func (s *Service) DisablePolicyType(ctx context.Context, in *awsorg.DisablePolicyTypeInput) (*awsorg.DisablePolicyTypeOutput, error) {
	root, err := s.turn(ctx, *in.RootId, in.PolicyType, false)
	return &awsorg.DisablePolicyTypeOutput{Root: root}, err
}

func (s *Service) turn(ctx context.Context, rootID string, kind orgtypes.PolicyType, on bool) (*orgtypes.Root, error) {
	if err := known(kind); err != nil {
		return nil, err
	}
	var root *orgtypes.Root
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		switch {
		case rootID != o.Root:
			return errNoRoot()
		case on && o.enabled(string(kind)):
			return errTypeEnabled()
		case !on && !o.enabled(string(kind)):
			return errTypeNotEnabled()
		}
		o.Types = slices.DeleteFunc(slices.Clone(o.Types), func(t string) bool { return t == string(kind) })
		if on {
			o.Types = append(o.Types, string(kind))
			slices.Sort(o.Types)
			root = o.root()
			return organizations.Put(tx, key(o.home, only), o.organization)
		}
		root = o.root()
		if err := organizations.Put(tx, key(o.home, only), o.organization); err != nil {
			return err
		}
		for _, t := range o.targets() {
			left := slices.DeleteFunc(slices.Clone(t.attached), func(id string) bool { d, ok := o.policy(id); return ok && d.Type == string(kind) })
			for _, id := range defaults() {
				if byAWS[id].Type == string(kind) {
					left = append(left, id)
				}
			}
			if err := o.attach(tx, t.id, left); err != nil {
				return err
			}
		}
		return nil
	})
	return root, err
}

// A target is what a policy can be attached to.
type target struct {
	id, name string
	kind     orgtypes.TargetType
	attached []string
}

// targets returns the root, the units and the accounts.
func (o *org) targets() []target {
	out := []target{{o.Root, "Root", orgtypes.TargetTypeRoot, o.Attached}}
	for _, u := range units.All(o.r, all(o.home)) {
		out = append(out, target{u.Value.ID, u.Value.Name, orgtypes.TargetTypeOrganizationalUnit, u.Value.Attached})
	}
	for _, m := range o.members() {
		out = append(out, target{m.Key.Account, m.Value.Name, orgtypes.TargetTypeAccount, m.Value.Attached})
	}
	return out
}

func (o *org) target(id string) (target, error) {
	if id == o.Root {
		return target{o.Root, "Root", orgtypes.TargetTypeRoot, o.Attached}, nil
	}
	if m, err := o.account(id); err == nil {
		return target{id, m.Name, orgtypes.TargetTypeAccount, m.Attached}, nil
	}
	u, err := units.Get(o.r, key(o.home, id))
	return target{u.ID, u.Name, orgtypes.TargetTypeOrganizationalUnit, u.Attached}, store.NotFoundAs(err, errNoTarget())
}

// attach replaces the policies of a target.
func (o *org) attach(tx *store.Tx, id string, ids []string) error {
	if id == o.Root {
		o.Attached = ids
		return organizations.Put(tx, key(o.home, only), o.organization)
	}
	if strings.HasPrefix(id, "ou-") {
		return units.Update(tx, key(o.home, id), func(u *unit) error { u.Attached = ids; return nil })
	}
	return members.Update(tx, key(id, only), func(m *member) error { m.Attached = ids; return nil })
}

// check validates a policy's document.
// https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_scps_syntax.html
func check(kind, content string) error {
	if len(content) > maxContent {
		return &orgtypes.ConstraintViolationException{Message: new("You have exceeded the maximum size of a policy."), // from memory
			Reason: orgtypes.ConstraintViolationExceptionReasonPolicyContentLimitExceeded}
	}
	doc, err := policy.Parse(grammars[kind], content)
	if err != nil {
		malformed, ok := errors.AsType[*policy.MalformedError](err)
		if !ok {
			return err
		}
		return errMalformed(malformed.Message)
	}
	if kind != resourceType {
		return nil
	}
	// https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_rcps_syntax.html
	for _, st := range doc.Statements {
		switch {
		case !st.Deny:
			return errMalformed("Resource control policies can only have statements with the effect Deny.")
		case st.Principals == nil || !st.Principals.All:
			return errMalformed("The Principal of resource control policies must be *.")
		case len(st.NotActions) > 0 || slices.Contains(st.Actions, "*"):
			return errMalformed("Resource control policies must list the actions of supported services.")
		}
	}
	return nil
}

func (o *org) summary(d document) *orgtypes.PolicySummary {
	_, byAmazon := byAWS[d.ID]
	return &orgtypes.PolicySummary{Id: aws.String(d.ID), Arn: aws.String(o.policyARN(d)), Name: aws.String(d.Name), Description: aws.String(d.Description), Type: orgtypes.PolicyType(d.Type), AwsManaged: byAmazon}
}

func (o *org) policySDK(d document) *orgtypes.Policy {
	return &orgtypes.Policy{Content: aws.String(d.Content), PolicySummary: o.summary(d)}
}

// CreatePolicy stores a policy. It has no effect until it is attached.
func (s *Service) CreatePolicy(ctx context.Context, in *awsorg.CreatePolicyInput) (*awsorg.CreatePolicyOutput, error) {
	if err := known(in.Type); err != nil {
		return nil, err
	}
	d := document{ID: "p-" + fresh(8), Name: *in.Name, Description: *in.Description, Type: string(in.Type), Content: *in.Content}
	if err := check(d.Type, d.Content); err != nil {
		return nil, err
	}
	out := &awsorg.CreatePolicyOutput{}
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		have := policies.All(tx, all(o.home))
		if slices.ContainsFunc(have, func(i store.Item[document]) bool { return i.Value.Name == d.Name && i.Value.Type == d.Type }) {
			return errPolicyExists()
		}
		if len(have) >= maxPolicies {
			return errLimit(orgtypes.ConstraintViolationExceptionReasonPolicyNumberLimitExceeded)
		}
		if err := putTags(tx, o, d.ID, in.Tags); err != nil {
			return err
		}
		out.Policy = o.policySDK(d)
		return policies.Create(tx, key(o.home, d.ID), d)
	})
	return out, err
}

// DescribePolicy returns a policy with its document.
func (s *Service) DescribePolicy(ctx context.Context, in *awsorg.DescribePolicyInput) (*awsorg.DescribePolicyOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	d, ok := o.policy(*in.PolicyId)
	if !ok {
		return nil, errNoPolicy()
	}
	return &awsorg.DescribePolicyOutput{Policy: o.policySDK(d)}, nil
}

// UpdatePolicy changes a policy. The change takes effect at once.
func (s *Service) UpdatePolicy(ctx context.Context, in *awsorg.UpdatePolicyInput) (*awsorg.UpdatePolicyOutput, error) {
	out := &awsorg.UpdatePolicyOutput{}
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		d, ok := o.policy(*in.PolicyId)
		if !ok {
			return errNoPolicy()
		}
		if _, ok := byAWS[d.ID]; ok {
			return errManagementOnly()
		}
		for to, v := range map[*string]*string{&d.Name: in.Name, &d.Description: in.Description, &d.Content: in.Content} {
			if v != nil {
				*to = *v
			}
		}
		if err := check(d.Type, d.Content); err != nil {
			return err
		}
		if slices.ContainsFunc(policies.All(tx, all(o.home)), func(i store.Item[document]) bool {
			return i.Value.Name == d.Name && i.Value.Type == d.Type && i.Value.ID != d.ID
		}) {
			return errPolicyExists()
		}
		out.Policy = o.policySDK(d)
		return policies.Put(tx, key(o.home, d.ID), d)
	})
	return out, err
}

// DeletePolicy deletes a policy that is attached nowhere.
func (s *Service) DeletePolicy(ctx context.Context, in *awsorg.DeletePolicyInput) (*awsorg.DeletePolicyOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		d, ok := o.policy(*in.PolicyId)
		if !ok {
			return errNoPolicy()
		}
		if _, ok := byAWS[d.ID]; ok {
			return errManagementOnly()
		}
		if slices.ContainsFunc(o.targets(), func(t target) bool { return slices.Contains(t.attached, d.ID) }) {
			return errPolicyInUse()
		}
		policies.Delete(tx, key(o.home, d.ID))
		tagged.Delete(tx, key(o.home, d.ID))
		return nil
	})
	return &awsorg.DeletePolicyOutput{}, err
}

// ListPolicies lists the policies of a type.
func (s *Service) ListPolicies(ctx context.Context, in *awsorg.ListPoliciesInput) (*awsorg.ListPoliciesOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	ids := defaults()
	for _, i := range policies.All(s.store, all(o.home)) {
		ids = append(ids, i.Value.ID)
	}
	list, next, err := o.summaries(ids, in.Filter, in.MaxResults, in.NextToken)
	return &awsorg.ListPoliciesOutput{Policies: list, NextToken: next}, err
}

func (o *org) summaries(ids []string, kind orgtypes.PolicyType, size *int32, token *string) ([]orgtypes.PolicySummary, *string, error) {
	list := []orgtypes.PolicySummary{}
	for _, id := range ids {
		if d, ok := o.policy(id); ok && d.Type == string(kind) {
			list = append(list, *o.summary(d))
		}
	}
	return paging.Cut(pages, list, func(p orgtypes.PolicySummary) string { return *p.Id }, size, token)
}

// AttachPolicy attaches a policy to a root, unit or account.
func (s *Service) AttachPolicy(ctx context.Context, in *awsorg.AttachPolicyInput) (*awsorg.AttachPolicyOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		d, t, same, err := o.pair(*in.PolicyId, *in.TargetId)
		switch {
		case err != nil:
			return err
		case slices.Contains(t.attached, d.ID):
			return errAttached()
		case same >= maxAttached:
			return errManyPolicies()
		}
		return o.attach(tx, t.id, append(slices.Clone(t.attached), d.ID))
	})
	return &awsorg.AttachPolicyOutput{}, err
}

// DetachPolicy detaches a policy. At least one of its type must stay.
func (s *Service) DetachPolicy(ctx context.Context, in *awsorg.DetachPolicyInput) (*awsorg.DetachPolicyOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		d, t, same, err := o.pair(*in.PolicyId, *in.TargetId)
		switch {
		case err != nil:
			return err
		case !slices.Contains(t.attached, d.ID):
			return errNotAttached()
		case same == 1 || d.ID == fullResourceAccess: // AWS's resource control policy always stays
			return errLastPolicy()
		}
		return o.attach(tx, t.id, slices.DeleteFunc(slices.Clone(t.attached), func(id string) bool { return id == d.ID }))
	})
	return &awsorg.DetachPolicyOutput{}, err
}

// pair returns a policy of an enabled type and a target, and how many policies of that type the target has.
func (o *org) pair(policyID, targetID string) (d document, t target, same int, err error) {
	d, ok := o.policy(policyID)
	if !ok {
		return d, t, 0, errNoPolicy()
	}
	if t, err = o.target(targetID); err != nil {
		return d, t, 0, err
	}
	if !o.enabled(d.Type) {
		return d, t, 0, errTypeNotEnabled()
	}
	for _, id := range t.attached {
		if other, ok := o.policy(id); ok && other.Type == d.Type {
			same++
		}
	}
	return d, t, same, nil
}

// ListPoliciesForTarget lists the policies of a type that are attached to a target itself.
func (s *Service) ListPoliciesForTarget(ctx context.Context, in *awsorg.ListPoliciesForTargetInput) (*awsorg.ListPoliciesForTargetOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	t, err := o.target(*in.TargetId)
	if err != nil {
		return nil, err
	}
	if !o.enabled(string(in.Filter)) {
		t.attached = nil
	}
	list, next, err := o.summaries(t.attached, in.Filter, in.MaxResults, in.NextToken)
	return &awsorg.ListPoliciesForTargetOutput{Policies: list, NextToken: next}, err
}

// ListTargetsForPolicy lists what a policy is attached to.
func (s *Service) ListTargetsForPolicy(ctx context.Context, in *awsorg.ListTargetsForPolicyInput) (*awsorg.ListTargetsForPolicyOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	d, ok := o.policy(*in.PolicyId)
	if !ok {
		return nil, errNoPolicy()
	}
	list := []orgtypes.PolicyTargetSummary{}
	for _, t := range o.targets() {
		if o.enabled(d.Type) && slices.Contains(t.attached, d.ID) {
			list = append(list, orgtypes.PolicyTargetSummary{TargetId: aws.String(t.id), Arn: o.arnOf(t.id), Name: aws.String(t.name), Type: t.kind})
		}
	}
	list, next, err := paging.Cut(pages, list, func(t orgtypes.PolicyTargetSummary) string { return *t.TargetId }, in.MaxResults, in.NextToken)
	return &awsorg.ListTargetsForPolicyOutput{Targets: list, NextToken: next}, err
}

// maxTags is the quota of tags per resource.
const maxTags = 50

func putTags(tx *store.Tx, o *org, id string, tags []orgtypes.Tag) error {
	have, err := tagged.Get(tx, key(o.home, id))
	if store.IgnoreNotFound(err) != nil || len(tags) == 0 {
		return store.IgnoreNotFound(err)
	}
	have = maps.Clone(have)
	if have == nil {
		have = map[string]string{}
	}
	for _, t := range tags {
		have[*t.Key] = aws.ToString(t.Value)
	}
	if len(have) > maxTags {
		return errLimit(orgtypes.ConstraintViolationExceptionReasonMaxTagLimitExceeded)
	}
	return tagged.Put(tx, key(o.home, id), have)
}

// exists returns an error unless an ID is that of something with tags.
func (o *org) exists(id string) error {
	if _, ok := o.policy(id); ok {
		return nil
	}
	_, err := o.target(id)
	return err
}

// TagResource adds tags to a root, unit, account or policy.
func (s *Service) TagResource(ctx context.Context, in *awsorg.TagResourceInput) (*awsorg.TagResourceOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		if err := o.exists(*in.ResourceId); err != nil {
			return err
		}
		return putTags(tx, o, *in.ResourceId, in.Tags)
	})
	return &awsorg.TagResourceOutput{}, err
}

// UntagResource removes tags.
func (s *Service) UntagResource(ctx context.Context, in *awsorg.UntagResourceInput) (*awsorg.UntagResourceOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		if err := o.exists(*in.ResourceId); err != nil {
			return err
		}
		return store.IgnoreNotFound(tagged.Update(tx, key(o.home, *in.ResourceId), func(have *map[string]string) error {
			*have = maps.Clone(*have)
			for _, k := range in.TagKeys {
				delete(*have, k)
			}
			return nil
		}))
	})
	return &awsorg.UntagResourceOutput{}, err
}

// ListTagsForResource lists tags.
func (s *Service) ListTagsForResource(ctx context.Context, in *awsorg.ListTagsForResourceInput) (*awsorg.ListTagsForResourceOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	if err := o.exists(*in.ResourceId); err != nil {
		return nil, err
	}
	out := &awsorg.ListTagsForResourceOutput{Tags: []orgtypes.Tag{}}
	have, err := tagged.Get(s.store, key(o.home, *in.ResourceId))
	for _, k := range slices.Sorted(maps.Keys(have)) {
		out.Tags = append(out.Tags, orgtypes.Tag{Key: &k, Value: aws.String(have[k])})
	}
	return out, store.IgnoreNotFound(err)
}

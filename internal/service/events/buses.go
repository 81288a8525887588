package events

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxBuses is the quota of buses per account and region, and maxRules of rules per bus.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
const (
	maxBuses   = 100
	maxRules   = 300
	maxTargets = 5
)

// CreateEventBus creates a bus.
func (s *Service) CreateEventBus(ctx context.Context, in *awsevents.CreateEventBusInput) (*awsevents.CreateEventBusOutput, error) {
	sc, name := scopeOf(ctx), *in.Name
	if strings.Contains(name, "/") {
		return nil, errBusName()
	}
	tags, err := putTags(nil, in.Tags)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if name == defaultBus {
			return errBusExists(name)
		}
		b := busRecord{Name: name, Description: aws.ToString(in.Description), Created: s.now(), Modified: s.now(), Tags: tags}
		if err := buses.Create(tx, sc.Key(name), b); errors.Is(err, store.ErrExists) {
			return errBusExists(name)
		} else if err != nil {
			return err
		}
		if len(buses.All(tx, sc.All())) > maxBuses {
			return errLimit()
		}
		return nil
	})
	return &awsevents.CreateEventBusOutput{EventBusArn: aws.String(sc.busARN(name)), Description: in.Description}, err
}

// DescribeEventBus describes a bus.
func (s *Service) DescribeEventBus(ctx context.Context, in *awsevents.DescribeEventBusInput) (*awsevents.DescribeEventBusOutput, error) {
	sc, name := scopeOf(ctx).parseBus(in.Name)
	b, err := s.bus(s.store, sc, name)
	if err != nil {
		return nil, err
	}
	shown := sc.shown(b)
	return &awsevents.DescribeEventBusOutput{
		Arn: shown.Arn, Name: shown.Name, Description: shown.Description, Policy: shown.Policy, CreationTime: shown.CreationTime, LastModifiedTime: shown.LastModifiedTime,
	}, nil
}

func (sc scope) shown(b busRecord) eventstypes.EventBus {
	out := eventstypes.EventBus{Arn: aws.String(sc.busARN(b.Name)), Name: &b.Name, Description: text(b.Description), Policy: text(b.Policy)}
	if !b.Created.IsZero() {
		out.CreationTime, out.LastModifiedTime = &b.Created, &b.Modified
	}
	return out
}

// text returns a string for a response, or nil if it is empty.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// changeBus changes the record of a bus.
func (s *Service) changeBus(ctx context.Context, sc scope, name string, fn func(*busRecord) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		b, err := s.bus(tx, sc, name)
		if err != nil {
			return err
		}
		if err := fn(&b); err != nil {
			return err
		}
		b.Modified = s.now()
		if b.Created.IsZero() {
			b.Created = b.Modified
		}
		return buses.Put(tx, sc.Key(name), b)
	})
}

// UpdateEventBus changes the description of a bus.
func (s *Service) UpdateEventBus(ctx context.Context, in *awsevents.UpdateEventBusInput) (*awsevents.UpdateEventBusOutput, error) {
	sc, name := scopeOf(ctx).parseBus(in.Name)
	err := s.changeBus(ctx, sc, name, func(b *busRecord) error {
		b.Description = aws.ToString(in.Description)
		return nil
	})
	return &awsevents.UpdateEventBusOutput{Arn: aws.String(sc.busARN(name)), Name: &name, Description: in.Description}, err
}

// DeleteEventBus deletes a bus that has no rules.
func (s *Service) DeleteEventBus(ctx context.Context, in *awsevents.DeleteEventBusInput) (*awsevents.DeleteEventBusOutput, error) {
	sc, name := scopeOf(ctx), *in.Name
	if name == defaultBus {
		return nil, errDeleteDefault()
	}
	return &awsevents.DeleteEventBusOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.bus(tx, sc, name); err != nil {
			return err
		}
		if len(rules.All(tx, sc.Below(name))) > 0 {
			return errBusHasRules()
		}
		buses.Delete(tx, sc.Key(name))
		return nil
	})
}

func pages(question string) paging.Rules {
	return paging.Rules{Usual: 100, Question: question, BadToken: errToken}
}

// ListEventBuses lists buses by name.
func (s *Service) ListEventBuses(ctx context.Context, in *awsevents.ListEventBusesInput) (*awsevents.ListEventBusesOutput, error) {
	sc, prefix := scopeOf(ctx), aws.ToString(in.NamePrefix)
	var all []busRecord
	found := false
	for _, b := range buses.All(s.store, sc.All()) {
		found = found || b.Value.Name == defaultBus
		all = append(all, b.Value)
	}
	if !found {
		all = append(all, busRecord{Name: defaultBus})
	}
	all = slices.DeleteFunc(all, func(b busRecord) bool { return !strings.HasPrefix(b.Name, prefix) })
	slices.SortFunc(all, func(a, b busRecord) int { return strings.Compare(a.Name, b.Name) })
	page, next, err := paging.Cut(pages("buses/"+prefix), all, func(b busRecord) string { return b.Name }, in.Limit, in.NextToken)
	out := &awsevents.ListEventBusesOutput{EventBuses: []eventstypes.EventBus{}, NextToken: next}
	for _, b := range page {
		out.EventBuses = append(out.EventBuses, sc.shown(b))
	}
	return out, err
}

// A busPolicy is a policy in the form that PutPermission writes. Other statements are left as they
// are.
type busPolicy struct {
	Version   string
	Statement []json.RawMessage
}

type statement struct {
	Sid       string
	Effect    string
	Principal any
	Action    string
	Resource  string
	Condition map[string]map[string]string `json:",omitempty"`
}

// readPolicy returns a bus's policy, and the index of the statement with an ID, or -1 if there is
// none.
func readPolicy(text, id string) (p busPolicy, at int, err error) {
	p.Version = policy.Version2012
	if text == "" {
		return p, -1, nil
	}
	var raw struct {
		Version   string
		Statement json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return p, -1, err
	}
	p.Version = raw.Version
	if json.Unmarshal(raw.Statement, &p.Statement) != nil {
		p.Statement = []json.RawMessage{raw.Statement} // a single statement may be without a list
	}
	return p, slices.IndexFunc(p.Statement, func(b json.RawMessage) bool {
		var st struct{ Sid string }
		return json.Unmarshal(b, &st) == nil && st.Sid == id
	}), nil
}

func (b *busRecord) setPolicy(p busPolicy) error {
	if len(p.Statement) == 0 {
		b.Policy = ""
		return nil
	}
	raw, err := json.Marshal(p)
	b.Policy = string(raw)
	return err
}

// PutPermission sets the policy of a bus, or adds a statement to it.
func (s *Service) PutPermission(ctx context.Context, in *awsevents.PutPermissionInput) (*awsevents.PutPermissionOutput, error) {
	sc, name := scopeOf(ctx).parseBus(in.EventBusName)
	if in.Policy != nil {
		if _, err := policy.Parse(policy.Resource, *in.Policy); err != nil {
			return nil, errPolicy(err)
		}
		return &awsevents.PutPermissionOutput{}, s.changeBus(ctx, sc, name, func(b *busRecord) error {
			b.Policy = *in.Policy
			return nil
		})
	}
	if in.Action == nil || in.Principal == nil || in.StatementId == nil {
		return nil, errPermission()
	}
	st := statement{Sid: *in.StatementId, Effect: "Allow", Principal: "*", Action: *in.Action, Resource: sc.busARN(name)}
	if *in.Principal != "*" {
		st.Principal = map[string]string{"AWS": arn.IAM(*in.Principal, "root")}
	}
	if c := in.Condition; c != nil {
		st.Condition = map[string]map[string]string{*c.Type: {*c.Key: *c.Value}}
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	return &awsevents.PutPermissionOutput{}, s.changeBus(ctx, sc, name, func(b *busRecord) error {
		p, at, err := readPolicy(b.Policy, st.Sid)
		if err != nil {
			return err
		}
		if at >= 0 {
			p.Statement[at] = raw
		} else {
			p.Statement = append(p.Statement, raw)
		}
		return b.setPolicy(p)
	})
}

// RemovePermission removes a statement from the policy of a bus, or the whole policy.
func (s *Service) RemovePermission(ctx context.Context, in *awsevents.RemovePermissionInput) (*awsevents.RemovePermissionOutput, error) {
	sc, name := scopeOf(ctx).parseBus(in.EventBusName)
	return &awsevents.RemovePermissionOutput{}, s.changeBus(ctx, sc, name, func(b *busRecord) error {
		if in.RemoveAllPermissions {
			b.Policy = ""
			return nil
		}
		p, at, err := readPolicy(b.Policy, aws.ToString(in.StatementId))
		if err != nil {
			return err
		}
		if at < 0 {
			return errNoStatement()
		}
		p.Statement = slices.Delete(p.Statement, at, at+1)
		return b.setPolicy(p)
	})
}

func putTags(old map[string]string, more []eventstypes.Tag) (map[string]string, error) {
	rules := tagging.Rules{Most: 50, Reserved: errReservedTag, TooMany: errManyTags}
	return tagging.Put(rules, old, more, func(t eventstypes.Tag) (key, value *string) { return t.Key, t.Value })
}

// changeTags changes the tags of a bus or rule.
func (s *Service) changeTags(ctx context.Context, text string, fn func(old map[string]string) (map[string]string, error)) error {
	sc, bus, rule, ok := parseARN(text)
	if !ok || sc != scopeOf(ctx) {
		return errTargetARN(text)
	}
	if rule == "" {
		return s.changeBus(ctx, sc, bus, func(b *busRecord) (err error) {
			b.Tags, err = fn(b.Tags)
			return err
		})
	}
	return s.changeRule(ctx, sc, bus, rule, func(r *ruleRecord) (err error) {
		r.Tags, err = fn(r.Tags)
		return err
	})
}

// TagResource adds or replaces tags of a bus or rule.
func (s *Service) TagResource(ctx context.Context, in *awsevents.TagResourceInput) (*awsevents.TagResourceOutput, error) {
	return &awsevents.TagResourceOutput{}, s.changeTags(ctx, *in.ResourceARN, func(old map[string]string) (map[string]string, error) { return putTags(old, in.Tags) })
}

// UntagResource removes tags from a bus or rule.
func (s *Service) UntagResource(ctx context.Context, in *awsevents.UntagResourceInput) (*awsevents.UntagResourceOutput, error) {
	return &awsevents.UntagResourceOutput{}, s.changeTags(ctx, *in.ResourceARN, func(old map[string]string) (map[string]string, error) {
		for _, k := range in.TagKeys {
			delete(old, k)
		}
		return old, nil
	})
}

// ListTagsForResource lists the tags of a bus or rule.
func (s *Service) ListTagsForResource(ctx context.Context, in *awsevents.ListTagsForResourceInput) (*awsevents.ListTagsForResourceOutput, error) {
	sc, bus, rule, ok := parseARN(*in.ResourceARN)
	if !ok || sc != scopeOf(ctx) {
		return nil, errTargetARN(*in.ResourceARN)
	}
	tags, err := s.tagsOf(sc, bus, rule)
	if err != nil {
		return nil, err
	}
	return &awsevents.ListTagsForResourceOutput{Tags: tagging.List(tags, func(k, v *string) eventstypes.Tag { return eventstypes.Tag{Key: k, Value: v} })}, nil
}

func (s *Service) tagsOf(sc scope, bus, rule string) (map[string]string, error) {
	if rule == "" {
		b, err := s.bus(s.store, sc, bus)
		return b.Tags, err
	}
	r, err := s.rule(s.store, sc, bus, rule)
	return r.Tags, err
}

package events

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/eventpattern"
	"github.com/drydock-dev/drydock/internal/schedule"
	"github.com/drydock-dev/drydock/internal/store"
)

// PutRule creates a rule, or changes everything about it except its targets and tags.
func (s *Service) PutRule(ctx context.Context, in *awsevents.PutRuleInput) (*awsevents.PutRuleOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	r := ruleRecord{
		Bus: bus, Name: *in.Name, Description: aws.ToString(in.Description), Pattern: aws.ToString(in.EventPattern), Schedule: aws.ToString(in.ScheduleExpression),
		Disabled: in.State == eventstypes.RuleStateDisabled, Started: s.now(),
	}
	if in.State == eventstypes.RuleStateEnabledWithAllCloudtrailManagementEvents {
		return nil, awserr.NotImplemented("the rule state " + string(in.State))
	}
	if r.Pattern == "" && r.Schedule == "" {
		return nil, errNothingToMatch()
	}
	if r.Pattern != "" {
		if _, err := eventpattern.Parse(r.Pattern); err != nil {
			return nil, errPattern(err)
		}
	}
	if r.Schedule != "" {
		if bus != defaultBus {
			return nil, errScheduleBus()
		}
		if _, err := schedule.Parse(r.Schedule); err != nil {
			return nil, errSchedule()
		}
	}
	tags, err := putTags(nil, in.Tags)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.bus(tx, sc, bus); err != nil {
			return err
		}
		next := r
		switch old, err := rules.Get(tx, sc.Key(bus+"/"+r.Name)); {
		case notFound(err):
			if next.Tags = tags; len(rules.All(tx, sc.Below(bus))) >= maxRules {
				return errLimit()
			}
		case err != nil:
			return err
		default:
			next.Targets, next.Tags = old.Targets, old.Tags
			if old.Schedule == r.Schedule && !old.Disabled {
				next.Started = old.Started
			}
		}
		return rules.Put(tx, sc.Key(bus+"/"+r.Name), next)
	})
	if err != nil {
		return nil, err
	}
	s.wakeUp()
	return &awsevents.PutRuleOutput{RuleArn: aws.String(sc.ruleARN(bus, r.Name))}, nil
}

// changeRule changes the record of a rule.
func (s *Service) changeRule(ctx context.Context, sc scope, bus, name string, fn func(*ruleRecord) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		r, err := s.rule(tx, sc, bus, name)
		if err != nil {
			return err
		}
		if err := fn(&r); err != nil {
			return err
		}
		return rules.Put(tx, sc.Key(bus+"/"+name), r)
	})
}

func state(r *ruleRecord) eventstypes.RuleState {
	if r.Disabled {
		return eventstypes.RuleStateDisabled
	}
	return eventstypes.RuleStateEnabled
}

// DescribeRule describes a rule.
func (s *Service) DescribeRule(ctx context.Context, in *awsevents.DescribeRuleInput) (*awsevents.DescribeRuleOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	r, err := s.rule(s.store, sc, bus, *in.Name)
	if err != nil {
		return nil, err
	}
	return &awsevents.DescribeRuleOutput{
		Arn: aws.String(sc.ruleARN(bus, r.Name)), Name: &r.Name, EventBusName: &bus, Description: text(r.Description), EventPattern: text(r.Pattern),
		ScheduleExpression: text(r.Schedule), State: state(&r), CreatedBy: &sc.Account,
	}, nil
}

// DeleteRule deletes a rule without targets. It is not an error if the rule does not exist.
func (s *Service) DeleteRule(ctx context.Context, in *awsevents.DeleteRuleInput) (*awsevents.DeleteRuleOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	return &awsevents.DeleteRuleOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.bus(tx, sc, bus); err != nil {
			return err
		}
		r, err := rules.Get(tx, sc.Key(bus+"/"+*in.Name))
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		if len(r.Targets) > 0 {
			return errHasTargets()
		}
		rules.Delete(tx, sc.Key(bus+"/"+*in.Name))
		return nil
	})
}

func (s *Service) enable(ctx context.Context, busName *string, name string, enabled bool) error {
	sc, bus := scopeOf(ctx).parseBus(busName)
	defer s.wakeUp()
	return s.changeRule(ctx, sc, bus, name, func(r *ruleRecord) error {
		if r.Disabled && enabled {
			r.Started = s.now()
		}
		r.Disabled = !enabled
		return nil
	})
}

// EnableRule enables a rule.
func (s *Service) EnableRule(ctx context.Context, in *awsevents.EnableRuleInput) (*awsevents.EnableRuleOutput, error) {
	return &awsevents.EnableRuleOutput{}, s.enable(ctx, in.EventBusName, *in.Name, true)
}

// DisableRule disables a rule, so that it matches nothing.
func (s *Service) DisableRule(ctx context.Context, in *awsevents.DisableRuleInput) (*awsevents.DisableRuleOutput, error) {
	return &awsevents.DisableRuleOutput{}, s.enable(ctx, in.EventBusName, *in.Name, false)
}

// listRules calls fn for a page of the matching rules of a bus, and returns the token for the next
// page.
func (s *Service) listRules(sc scope, bus, question string, size *int32, token *string, match func(*ruleRecord) bool, fn func(*ruleRecord)) (*string, error) {
	if _, err := s.bus(s.store, sc, bus); err != nil {
		return nil, err
	}
	page, err := pages(question+bus).Start(size, token)
	if err != nil {
		return nil, err
	}
	rules.Scan(s.store, sc.Below(bus), page.After, func(k store.Key, r ruleRecord) bool {
		if !match(&r) {
			return true
		}
		if page.Full() {
			return false
		}
		fn(&r)
		page.Add(k.ID)
		return true
	})
	return page.Next(), nil
}

// ListRules lists the rules of a bus by name.
func (s *Service) ListRules(ctx context.Context, in *awsevents.ListRulesInput) (*awsevents.ListRulesOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	out := &awsevents.ListRulesOutput{Rules: []eventstypes.Rule{}}
	prefix := aws.ToString(in.NamePrefix)
	var err error
	out.NextToken, err = s.listRules(sc, bus, "rules/"+prefix+"/", in.Limit, in.NextToken, func(r *ruleRecord) bool { return strings.HasPrefix(r.Name, prefix) }, func(r *ruleRecord) {
		out.Rules = append(out.Rules, eventstypes.Rule{
			Arn: aws.String(sc.ruleARN(bus, r.Name)), Name: &r.Name, EventBusName: &bus, Description: text(r.Description), EventPattern: text(r.Pattern),
			ScheduleExpression: text(r.Schedule), State: state(r),
		})
	})
	return out, err
}

// ListRuleNamesByTarget lists the rules of a bus that have a target.
func (s *Service) ListRuleNamesByTarget(ctx context.Context, in *awsevents.ListRuleNamesByTargetInput) (*awsevents.ListRuleNamesByTargetOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	out := &awsevents.ListRuleNamesByTargetOutput{RuleNames: []string{}}
	var err error
	out.NextToken, err = s.listRules(sc, bus, "target/"+*in.TargetArn+"/", in.Limit, in.NextToken, func(r *ruleRecord) bool {
		return slices.ContainsFunc(r.Targets, func(t target) bool { return t.ARN == *in.TargetArn })
	}, func(r *ruleRecord) { out.RuleNames = append(out.RuleNames, r.Name) })
	return out, err
}

// PutTargets adds targets to a rule, or replaces those with the same IDs.
func (s *Service) PutTargets(ctx context.Context, in *awsevents.PutTargetsInput) (*awsevents.PutTargetsOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	var more []target
	for i := range in.Targets {
		t, err := newTarget(&in.Targets[i])
		if err != nil {
			return nil, err
		}
		more = append(more, t)
	}
	err := s.changeRule(ctx, sc, bus, *in.Rule, func(r *ruleRecord) error {
		r.Targets = slices.Clone(r.Targets)
		for _, t := range more {
			if i := slices.IndexFunc(r.Targets, func(o target) bool { return o.ID == t.ID }); i >= 0 {
				r.Targets[i] = t
			} else {
				r.Targets = append(r.Targets, t)
			}
		}
		if len(r.Targets) > maxTargets {
			return errLimit()
		}
		return nil
	})
	s.wakeUp()
	return &awsevents.PutTargetsOutput{FailedEntries: []eventstypes.PutTargetsResultEntry{}}, err
}

func newTarget(in *eventstypes.Target) (target, error) {
	t := target{ID: *in.Id, ARN: *in.Arn, Input: aws.ToString(in.Input), Path: aws.ToString(in.InputPath)}
	a, err := arn.Parse(t.ARN)
	if err != nil {
		return t, errTargetARN(t.ARN)
	}
	switch {
	case a.Service == "sqs":
		if in.SqsParameters != nil {
			t.Group = aws.ToString(in.SqsParameters.MessageGroupId)
		}
		if strings.HasSuffix(t.ARN, ".fifo") && t.Group == "" {
			return t, errGroup(t.ID)
		}
	case a.Service == "sns":
		if a.Account == "" || a.Region == "" || a.Resource == "" || strings.Contains(a.Resource, ":") { // subscriptions have a colon
			return t, errTargetARN(t.ARN)
		}
	case a.Service == "logs" && strings.HasPrefix(a.Resource, "log-group:"):
	default:
		return t, awserr.NotImplemented("targets of EventBridge other than queues of SQS, topics of SNS and log groups of CloudWatch Logs, such as " + t.ARN)
	}
	given := 0
	if in.Input != nil {
		if given++; !json.Valid([]byte(t.Input)) {
			return t, errInput(t.ID)
		}
	}
	if in.InputPath != nil {
		if given++; !validPath(t.Path) {
			return t, errInputPath(t.ID)
		}
	}
	if x := in.InputTransformer; x != nil {
		given++
		t.Template, t.Paths = *x.InputTemplate, x.InputPathsMap
		for _, p := range t.Paths {
			if !validPath(p) {
				return t, errInputPath(t.ID)
			}
		}
		for _, name := range placeholders(t.Template) {
			if _, ok := t.Paths[name]; !ok && !predefined(name) {
				return t, errPlaceholder(t.ID, name)
			}
		}
	}
	if given > 1 {
		return t, errOneInput(t.ID)
	}
	if d := in.DeadLetterConfig; d != nil && d.Arn != nil {
		if q, err := arn.Parse(*d.Arn); err != nil || q.Service != "sqs" {
			return t, errTargetARN(*d.Arn)
		}
		t.DeadLetter = *d.Arn
	}
	if p := in.RetryPolicy; p != nil {
		t.MaxAge, t.MaxRetries = p.MaximumEventAgeInSeconds, p.MaximumRetryAttempts
	}
	return t, nil
}

// RemoveTargets removes targets from a rule.
func (s *Service) RemoveTargets(ctx context.Context, in *awsevents.RemoveTargetsInput) (*awsevents.RemoveTargetsOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	err := s.changeRule(ctx, sc, bus, *in.Rule, func(r *ruleRecord) error {
		r.Targets = slices.DeleteFunc(slices.Clone(r.Targets), func(t target) bool { return slices.Contains(in.Ids, t.ID) })
		return nil
	})
	return &awsevents.RemoveTargetsOutput{FailedEntries: []eventstypes.RemoveTargetsResultEntry{}}, err
}

// ListTargetsByRule lists the targets of a rule.
func (s *Service) ListTargetsByRule(ctx context.Context, in *awsevents.ListTargetsByRuleInput) (*awsevents.ListTargetsByRuleOutput, error) {
	sc, bus := scopeOf(ctx).parseBus(in.EventBusName)
	r, err := s.rule(s.store, sc, bus, *in.Rule)
	if err != nil {
		return nil, err
	}
	page, next, err := paging.CutInOrder(pages("targets/"+bus+"/"+r.Name), r.Targets, func(t target) string { return t.ID }, in.Limit, in.NextToken)
	out := &awsevents.ListTargetsByRuleOutput{Targets: []eventstypes.Target{}, NextToken: next}
	for _, t := range page {
		shown := eventstypes.Target{Id: &t.ID, Arn: &t.ARN, Input: text(t.Input), InputPath: text(t.Path)}
		if t.Template != "" {
			shown.InputTransformer = &eventstypes.InputTransformer{InputTemplate: &t.Template, InputPathsMap: t.Paths}
		}
		if t.Group != "" {
			shown.SqsParameters = &eventstypes.SqsParameters{MessageGroupId: &t.Group}
		}
		if t.DeadLetter != "" {
			shown.DeadLetterConfig = &eventstypes.DeadLetterConfig{Arn: &t.DeadLetter}
		}
		if t.MaxAge != nil || t.MaxRetries != nil {
			shown.RetryPolicy = &eventstypes.RetryPolicy{MaximumEventAgeInSeconds: t.MaxAge, MaximumRetryAttempts: t.MaxRetries}
		}
		out.Targets = append(out.Targets, shown)
	}
	return out, err
}

// TestEventPattern reports whether an event matches a pattern.
func (s *Service) TestEventPattern(_ context.Context, in *awsevents.TestEventPatternInput) (*awsevents.TestEventPatternOutput, error) {
	p, err := eventpattern.Parse(*in.EventPattern)
	if err != nil {
		return nil, errPattern(err)
	}
	e, err := eventpattern.ParseEvent([]byte(*in.Event))
	if err != nil {
		return nil, errEvent()
	}
	return &awsevents.TestEventPatternOutput{Result: p.Matches(e)}, nil
}

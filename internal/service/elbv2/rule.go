package elbv2

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxRules is the quota of rules per load balancer, without default rules. It is lower than AWS's
// 100, so that all rules can be changed in one transaction together with other records.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
const maxRules = 95

// CreateRule adds a rule to a listener of an Application Load Balancer.
func (s *Service) CreateRule(ctx context.Context, in *awselbv2.CreateRuleInput) (*awselbv2.CreateRuleOutput, error) {
	sc := scopeOf(ctx)
	made, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	conditions, err := checkConditions(in.Conditions)
	if err != nil {
		return nil, err
	}
	if len(conditions) == 0 {
		return nil, errValidation("A condition must be specified")
	}
	var r ruleRecord
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		l, err := listener(tx, sc, in.ListenerArn)
		if err != nil {
			return err
		}
		lb, err := loadBalancer(tx, sc, l.Listener.LoadBalancerArn)
		if err != nil {
			return err
		}
		if lb.network() {
			return errRulesOfNetwork()
		}
		actions, err := s.checkActions(tx, sc, &lb, l.Listener.Protocol, in.Actions)
		if err != nil {
			return err
		}
		all := rules.All(tx, sc.Below(lb.id()))
		if len(all) >= maxRules {
			return errTooManyRules(lb.arn())
		}
		id := idOf("listener", *in.ListenerArn)
		for _, o := range all {
			if strings.HasPrefix(o.Key.ID, id+"/") && *o.Value.Rule.Priority == strconv.Itoa(int(*in.Priority)) {
				return errPriorityInUse(*o.Value.Rule.Priority)
			}
		}
		id += "/" + ids.Hex(idDigits)
		r = ruleRecord{Tags: made, Rule: elbv2types.Rule{
			RuleArn:  aws.String(arn.New("elasticloadbalancing", sc.Region, sc.Account, "listener-rule/"+id)),
			Priority: priorityText(*in.Priority), Conditions: conditions, Actions: actions, IsDefault: aws.Bool(false),
		}}
		return rules.Create(tx, sc.Key(id), r)
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.CreateRuleOutput{Rules: []elbv2types.Rule{r.Rule}}, nil
}

// defaultRule returns the rule that represents a listener's default actions.
func (r *listenerRecord) defaultRule() elbv2types.Rule {
	return elbv2types.Rule{
		RuleArn:    aws.String(strings.Replace(r.arn(), ":listener/", ":listener-rule/", 1) + "/" + r.DefaultRule),
		Priority:   aws.String("default"),
		Conditions: []elbv2types.RuleCondition{}, Actions: r.Listener.DefaultActions, IsDefault: aws.Bool(true),
	}
}

// rule returns the rule with an ARN. A default rule has no record of its own.
func rule(r store.Reader, sc scope, a *string) (ruleRecord, error) {
	v, _, err := ruleKind.get(r, sc, a)
	return v, err
}

// listenerOfDefaultRule returns the listener whose default rule has an ARN, and its key.
func listenerOfDefaultRule(r store.Reader, sc scope, a *string) (l listenerRecord, key store.Key, ok bool) {
	id := idOf("listener-rule", text(a))
	if id == "" {
		return l, key, false
	}
	key = sc.Key(id[:strings.LastIndexByte(id, '/')])
	l, err := listeners.Get(r, key)
	if err != nil {
		return l, key, false
	}
	return l, key, *l.defaultRule().RuleArn == *a
}

// isDefaultRule reports whether an ARN belongs to a default rule.
func isDefaultRule(r store.Reader, sc scope, a *string) (elbv2types.Rule, bool) {
	l, _, ok := listenerOfDefaultRule(r, sc, a)
	if !ok {
		return elbv2types.Rule{}, false
	}
	return l.defaultRule(), true
}

// DescribeRules lists the rules of a listener by priority, with the default rule last, or rules by
// their ARNs.
func (s *Service) DescribeRules(ctx context.Context, in *awselbv2.DescribeRulesInput) (*awselbv2.DescribeRulesOutput, error) {
	sc := scopeOf(ctx)
	found := []elbv2types.Rule{}
	switch {
	case in.ListenerArn != nil && len(in.RuleArns) == 0:
		l, err := listener(s.Store, sc, in.ListenerArn)
		if err != nil {
			return nil, err
		}
		for _, r := range rules.All(s.Store, sc.Below(idOf("listener", *in.ListenerArn))) {
			found = append(found, r.Value.Rule)
		}
		found = append(found, l.defaultRule())
	case in.ListenerArn == nil && len(in.RuleArns) > 0:
		for _, a := range in.RuleArns {
			if d, ok := isDefaultRule(s.Store, sc, &a); ok {
				found = append(found, d)
				continue
			}
			r, err := rule(s.Store, sc, &a)
			if _, no := err.(*elbv2types.RuleNotFoundException); no { //nolint:errorlint // just made
				return nil, errNoRules()
			}
			if err != nil {
				return nil, err
			}
			found = append(found, r.Rule)
		}
	case in.ListenerArn != nil: // [seen] moto
		return nil, errValidation("Listener rule ARNs and a listener ARN cannot be specified at the same time")
	default:
		return nil, errRulesOrListener()
	}
	slices.SortFunc(found, func(a, b elbv2types.Rule) int { return strings.Compare(orderOf(a), orderOf(b)) })
	found, next, err := paging.Cut(pages, found, orderOf, in.PageSize, in.Marker)
	return &awselbv2.DescribeRulesOutput{Rules: found, NextMarker: next}, err
}

// orderOf returns a rule's sort key: its priority, with the default rule last.
func orderOf(r elbv2types.Rule) string {
	n, err := strconv.Atoi(*r.Priority)
	if err != nil {
		n = 99999
	}
	return fmt.Sprintf("%05d/%s", n, *r.RuleArn)
}

// ModifyRule changes a rule's conditions or actions.
func (s *Service) ModifyRule(ctx context.Context, in *awselbv2.ModifyRuleInput) (*awselbv2.ModifyRuleOutput, error) {
	sc := scopeOf(ctx)
	if len(in.Conditions) == 0 && len(in.Actions) == 0 {
		return nil, errValidation("Either conditions or actions must be specified")
	}
	conditions, err := checkConditions(in.Conditions)
	if err != nil {
		return nil, err
	}
	var r ruleRecord
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		if _, ok := isDefaultRule(tx, sc, in.RuleArn); ok {
			return errDefaultRuleChanged(*in.RuleArn)
		}
		if r, err = rule(tx, sc, in.RuleArn); err != nil {
			return err
		}
		id := idOf("listener-rule", *in.RuleArn)
		if len(conditions) > 0 {
			r.Rule.Conditions = conditions
		}
		if len(in.Actions) > 0 {
			l, err := listeners.Get(tx, sc.Key(id[:strings.LastIndexByte(id, '/')]))
			if err != nil {
				return err
			}
			lb, err := loadBalancer(tx, sc, l.Listener.LoadBalancerArn)
			if err != nil {
				return err
			}
			if r.Rule.Actions, err = s.checkActions(tx, sc, &lb, l.Listener.Protocol, in.Actions); err != nil {
				return err
			}
		}
		return rules.Put(tx, sc.Key(id), r)
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.ModifyRuleOutput{Rules: []elbv2types.Rule{r.Rule}}, nil
}

// DeleteRule deletes a rule.
func (s *Service) DeleteRule(ctx context.Context, in *awselbv2.DeleteRuleInput) (*awselbv2.DeleteRuleOutput, error) {
	sc := scopeOf(ctx)
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		if _, ok := isDefaultRule(tx, sc, in.RuleArn); ok {
			return errDefaultRule(*in.RuleArn)
		}
		if _, err := rule(tx, sc, in.RuleArn); err != nil {
			return err
		}
		rules.Delete(tx, sc.Key(idOf("listener-rule", *in.RuleArn)))
		return nil
	})
	return &awselbv2.DeleteRuleOutput{}, err
}

// SetRulePriorities changes the priorities of rules of one listener.
func (s *Service) SetRulePriorities(ctx context.Context, in *awselbv2.SetRulePrioritiesInput) (*awselbv2.SetRulePrioritiesOutput, error) {
	sc := scopeOf(ctx)
	out := &awselbv2.SetRulePrioritiesOutput{Rules: []elbv2types.Rule{}}
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		out.Rules = []elbv2types.Rule{}
		moved := map[string]bool{}
		taken := map[string]bool{} // LISTENER PRIORITY
		for _, p := range in.RulePriorities {
			if p.Priority == nil {
				return errMissing("priority")
			}
			if _, ok := isDefaultRule(tx, sc, p.RuleArn); ok {
				return errDefaultRuleChanged(*p.RuleArn)
			}
			r, err := rule(tx, sc, p.RuleArn)
			if err != nil {
				return err
			}
			id := idOf("listener-rule", *p.RuleArn)
			slot := id[:strings.LastIndexByte(id, '/')] + " " + strconv.Itoa(int(*p.Priority))
			if taken[slot] || moved[id] {
				return errPriorityTwice(*p.Priority)
			}
			taken[slot], moved[id] = true, true
			r.Rule.Priority = priorityText(*p.Priority)
			if err := rules.Put(tx, sc.Key(id), r); err != nil {
				return err
			}
			out.Rules = append(out.Rules, r.Rule)
		}
		for _, r := range rules.All(tx, sc.All()) {
			if id := r.Key.ID; !moved[id] && taken[id[:strings.LastIndexByte(id, '/')]+" "+*r.Value.Rule.Priority] {
				return errPriorityInUse(*r.Value.Rule.Priority)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

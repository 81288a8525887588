package events

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Authz provides package authz with the stored attributes of buses and rules, including the
// policies of buses.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. Resources are identified by the ARNs that Targets returns.
func (r resolver) Resource(_ context.Context, _, _, _, id string) (authz.Resource, bool) {
	sc, bus, rule, ok := parseARN(id)
	if !ok {
		return authz.Resource{}, false
	}
	out := authz.Resource{ARN: id}
	out.Tags, _ = r.s.tagsOf(sc, bus, rule) // empty if it does not exist
	b, err := r.s.bus(r.s.store, sc, bus)
	if err != nil || b.Policy == "" {
		return out, true
	}
	out.Policy = &policy.Source{Name: "policy of " + sc.busARN(bus), Document: r.s.docs.Get(b.Policy)}
	return out, true
}

const (
	busType    = "event-bus"
	ruleOfBus  = "rule-on-custom-event-bus"
	ruleOfMain = "rule-on-default-event-bus"
)

// Targets implements authz.Targeter.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	sc := scopeAt(call.Account, call.Region)
	bus := func(name *string) authz.Target {
		to, bus := sc.parseBus(name)
		return authz.Target{Type: busType, ID: to.busARN(bus)}
	}
	rule := func(busName *string, name string) authz.Target {
		to, bus := sc.parseBus(busName)
		t := authz.Target{Type: ruleOfMain, ID: to.ruleARN(bus, name), Keys: map[string][]string{"events:creatoraccount": {to.Account}, "events:managedby": nil}}
		if bus != defaultBus {
			t.Type = ruleOfBus
		}
		return t
	}
	tagged := func(text string) authz.Target {
		_, bus, rule, _ := parseARN(text)
		t := authz.Target{Type: busType, ID: text}
		switch {
		case rule != "" && bus == defaultBus:
			t.Type = ruleOfMain
		case rule != "":
			t.Type = ruleOfBus
		}
		t.Keys = map[string][]string{"events:creatoraccount": {call.Account}}
		return t
	}
	var t authz.Target
	switch in := in.(type) {
	case *awsevents.CreateEventBusInput:
		t = bus(in.Name)
		t.New = true
		t.Tags, t.TagKeys = tagsIn(in.Tags)
	case *awsevents.DescribeEventBusInput:
		t = bus(in.Name)
	case *awsevents.UpdateEventBusInput:
		t = bus(in.Name)
	case *awsevents.DeleteEventBusInput:
		t = bus(in.Name)
	case *awsevents.PutRuleInput:
		t = rule(in.EventBusName, *in.Name)
		t.Tags, t.TagKeys = tagsIn(in.Tags)
		patternKeys(t.Keys, aws.ToString(in.EventPattern))
	case *awsevents.DescribeRuleInput:
		t = rule(in.EventBusName, *in.Name)
	case *awsevents.DeleteRuleInput:
		t = rule(in.EventBusName, *in.Name)
	case *awsevents.EnableRuleInput:
		t = rule(in.EventBusName, *in.Name)
	case *awsevents.DisableRuleInput:
		t = rule(in.EventBusName, *in.Name)
	case *awsevents.PutTargetsInput:
		t = rule(in.EventBusName, *in.Rule)
		for _, x := range in.Targets {
			t.Keys["events:targetarn"] = append(t.Keys["events:targetarn"], *x.Arn)
		}
	case *awsevents.RemoveTargetsInput:
		t = rule(in.EventBusName, *in.Rule)
	case *awsevents.ListTargetsByRuleInput:
		t = rule(in.EventBusName, *in.Rule)
	case *awsevents.TagResourceInput:
		t = tagged(*in.ResourceARN)
		t.Tags, t.TagKeys = tagsIn(in.Tags)
	case *awsevents.UntagResourceInput:
		t = tagged(*in.ResourceARN)
		t.TagKeys = in.TagKeys
	case *awsevents.ListTagsForResourceInput:
		t = tagged(*in.ResourceARN)
	case *awsevents.PutEventsInput:
		var out []authz.Target
		for _, e := range in.Entries {
			t := bus(e.EventBusName)
			i := slices.IndexFunc(out, func(o authz.Target) bool { return o.ID == t.ID })
			if i < 0 {
				t.Keys = map[string][]string{"events:source": nil, "events:detail-type": nil, "events:eventbusinvocation": {"false"}}
				i, out = len(out), append(out, t)
			}
			add := func(key string, v *string) {
				if v != nil && !slices.Contains(out[i].Keys[key], *v) {
					out[i].Keys[key] = append(out[i].Keys[key], *v)
				}
			}
			add("events:source", e.Source)
			add("events:detail-type", e.DetailType)
		}
		return out, true
	default:
		return nil, false
	}
	return []authz.Target{t}, true
}

func tagsIn(list []eventstypes.Tag) (tags map[string]string, keys []string) {
	for _, t := range list {
		if tags == nil {
			tags = map[string]string{}
		}
		tags[*t.Key] = aws.ToString(t.Value)
		keys = append(keys, *t.Key)
	}
	return tags, keys
}

// patternKeys adds the values that a rule's pattern requires for fields that are condition keys.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-conditions.html
func patternKeys(keys map[string][]string, pattern string) {
	var all map[string]any
	if json.Unmarshal([]byte(pattern), &all) != nil {
		all = nil
	}
	for key, path := range map[string]string{
		"events:source": "source", "events:detail-type": "detail-type", "events:detail.service": "detail.service",
		"events:detail.eventtypecode": "detail.eventTypeCode", "events:detail.useridentity.principalid": "detail.userIdentity.principalId",
	} {
		keys[key] = nil
		v := any(all)
		for name := range strings.SplitSeq(path, ".") {
			o, _ := v.(map[string]any)
			v = o[name]
		}
		list, _ := v.([]any)
		for _, x := range list {
			if s, ok := x.(string); ok {
				keys[key] = append(keys[key], s)
			}
		}
	}
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Members: map[string]string{
		"RuleName": "Rule Name",
	},
	PassedRoles: map[string][]awsapi.PassedRole{
		"PutTargets": {{Member: "Targets.RoleArn", Service: "events.amazonaws.com", Source: "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"}},
	},
	Tagging: awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html"},
	StoredKeys: "creatoraccount detail-type detail.eventtypecode detail.service detail.useridentity.principalid " +
		"eventbusinvocation managedby source targetarn",
}

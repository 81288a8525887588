package elbv2

import (
	"context"
	"maps"
	"slices"
	"strings"

	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
)

// Authz provides package authz with the stored attributes of load balancers and everything that
// belongs to them.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Requests identify resources by ARN.
func (r resolver) Resource(_ context.Context, account, region, _, id string) (authz.Resource, bool) {
	var out tags
	err := tagged(r.s.Store, nil, regional.At(account, region), id, func(t tags) (tags, error) {
		out = t
		return t, nil
	})
	return authz.Resource{ARN: id, Tags: out}, err == nil
}

// typeOf returns the resource type of an ARN in the authorization reference.
func typeOf(a string) string {
	p := strings.SplitN(a, ":", 6)
	if len(p) < 6 {
		return ""
	}
	kind, rest, _ := strings.Cut(p[5], "/")
	of, _, _ := strings.Cut(rest, "/")
	switch kind {
	case "loadbalancer":
		if of == "net" || of == "app" {
			return kind + "/" + of + "/"
		}
		return kind
	case "listener", "listener-rule":
		return kind + "/" + of
	}
	return kind
}

// Targets implements authz.Targeter. It derives the type of a resource from its ARN, because the
// reference lists those of Application and Network Load Balancers alike.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	switch in := in.(type) {
	case *awselbv2.CreateLoadBalancerInput:
		kind := "loadbalancer/app/"
		if in.Type == elbv2types.LoadBalancerTypeEnumNetwork {
			kind = "loadbalancer/net/"
		}
		return []authz.Target{made(kind, text(in.Name), in.Tags)}, true
	case *awselbv2.CreateTargetGroupInput:
		return []authz.Target{made("targetgroup", text(in.Name), in.Tags)}, true
	case *awselbv2.CreateListenerInput:
		return below(call, in.LoadBalancerArn, "loadbalancer", "listener", in.Tags), true
	case *awselbv2.CreateRuleInput:
		return below(call, in.ListenerArn, "listener", "listener-rule", in.Tags), true
	case *awselbv2.SetRulePrioritiesInput:
		var out []authz.Target
		for _, p := range in.RulePriorities {
			out = append(out, authz.Target{Type: typeOf(text(p.RuleArn)), ID: text(p.RuleArn)})
		}
		return out, true
	case *awselbv2.AddTagsInput:
		var out []authz.Target
		for _, a := range in.ResourceArns {
			t := made(typeOf(a), a, in.Tags)
			t.New = false
			out = append(out, t)
		}
		return out, true
	case *awselbv2.RemoveTagsInput:
		var out []authz.Target
		for _, a := range in.ResourceArns {
			out = append(out, authz.Target{Type: typeOf(a), ID: a, TagKeys: in.TagKeys})
		}
		return out, true
	}
	if strings.HasPrefix(call.Operation, "Describe") {
		return nil, false
	}
	name, ok := authz.Named(in, "RuleArn", "ListenerArn", "TargetGroupArn", "LoadBalancerArn")
	return []authz.Target{{Type: typeOf(name), ID: name}}, ok
}

// made returns the target for a resource that is to be created with tags.
func made(kind, id string, in []elbv2types.Tag) authz.Target {
	t := authz.Target{Type: kind, ID: id, New: true}
	for _, tag := range in {
		if t.Tags == nil {
			t.Tags = map[string]string{}
		}
		t.Tags[text(tag.Key)] = text(tag.Value)
	}
	t.TagKeys = slices.Sorted(maps.Keys(t.Tags))
	return t
}

// below returns the targets for creating a listener or rule: the parent, which is the action's
// resource, and the new resource if it is tagged.
func below(call *awsapi.Call, parent *string, kind, child string, in []elbv2types.Tag) []authz.Target {
	t := authz.Target{Type: typeOf(text(parent)), ID: text(parent), Keys: map[string][]string{}}
	tag := made("", "", in)
	authz.SetTags(t.Keys, tag.Tags, "aws:requesttag/")
	t.Keys["aws:tagkeys"] = tag.TagKeys
	out := []authz.Target{t}
	if len(tag.Tags) > 0 {
		id := idOf(kind, text(parent))
		of, rest, _ := strings.Cut(id, "/")
		tag.Action, tag.Type, tag.ID = "elasticloadbalancing:AddTags", child+"/"+of, rest
		tag.Keys = map[string][]string{"elasticloadbalancing:createaction": {call.Operation}}
		out = append(out, tag)
	}
	return out
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		// The embedded reference is older than these operations. On AWS their actions have their own names; here the
		// policies for the listener's actions allow them.
		"DescribeCapacityReservation": "DescribeLoadBalancerAttributes",
		"DescribeListenerAttributes":  "DescribeListeners",
		"ModifyListenerAttributes":    "ModifyListener",
	},
	Tagging: elbnet.Tagging,
}

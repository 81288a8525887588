package elb

import (
	"context"
	"strings"

	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// Authz tells package authz what is stored of load balancers.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Requests name load balancers by their names.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind != loadBalancerType || strings.HasPrefix(id, "arn:") { // ARNs are the second generation's
		return authz.Resource{}, false
	}
	lb, err := loadBalancers.Get(r.s.Store, regional.At(account, region).Key(id[strings.LastIndexByte(id, '/')+1:]))
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{ARN: arn.New("elasticloadbalancing", region, account, "loadbalancer/"+lb.Name), Tags: lb.Tags}, true
}

const loadBalancerType = "loadbalancer"

// Targets implements authz.Targeter: the reference lists the resources of both
// generations under one prefix.
func (r resolver) Targets(_ context.Context, _ *awsapi.Call, in any) ([]authz.Target, bool) {
	named := func(name *string) ([]authz.Target, bool) {
		return []authz.Target{{Type: loadBalancerType, ID: text(name)}}, true
	}
	switch in := in.(type) {
	case *awselb.CreateLoadBalancerInput:
		t := authz.Target{Type: loadBalancerType, ID: text(in.LoadBalancerName), New: true}
		t.Tags = map[string]string{}
		for _, tag := range in.Tags {
			t.Tags[text(tag.Key)] = text(tag.Value)
			t.TagKeys = append(t.TagKeys, text(tag.Key))
		}
		return []authz.Target{t}, true
	case *awselb.AddTagsInput:
		var out []authz.Target
		for _, name := range in.LoadBalancerNames {
			t := authz.Target{Type: loadBalancerType, ID: name, Tags: map[string]string{}}
			for _, tag := range in.Tags {
				t.Tags[text(tag.Key)] = text(tag.Value)
				t.TagKeys = append(t.TagKeys, text(tag.Key))
			}
			out = append(out, t)
		}
		return out, true
	case *awselb.RemoveTagsInput:
		var out []authz.Target
		for _, name := range in.LoadBalancerNames {
			t := authz.Target{Type: loadBalancerType, ID: name}
			for _, tag := range in.Tags {
				t.TagKeys = append(t.TagKeys, text(tag.Key))
			}
			out = append(out, t)
		}
		return out, true
	case *awselb.DeleteLoadBalancerInput:
		return named(in.LoadBalancerName)
	case *awselb.ApplySecurityGroupsToLoadBalancerInput:
		return named(in.LoadBalancerName)
	case *awselb.AttachLoadBalancerToSubnetsInput:
		return named(in.LoadBalancerName)
	case *awselb.DetachLoadBalancerFromSubnetsInput:
		return named(in.LoadBalancerName)
	case *awselb.ConfigureHealthCheckInput:
		return named(in.LoadBalancerName)
	case *awselb.RegisterInstancesWithLoadBalancerInput:
		return named(in.LoadBalancerName)
	case *awselb.DeregisterInstancesFromLoadBalancerInput:
		return named(in.LoadBalancerName)
	case *awselb.CreateLoadBalancerListenersInput:
		return named(in.LoadBalancerName)
	case *awselb.DeleteLoadBalancerListenersInput:
		return named(in.LoadBalancerName)
	case *awselb.SetLoadBalancerListenerSSLCertificateInput:
		return named(in.LoadBalancerName)
	case *awselb.CreateLoadBalancerPolicyInput:
		return named(in.LoadBalancerName)
	case *awselb.CreateLBCookieStickinessPolicyInput:
		return named(in.LoadBalancerName)
	case *awselb.CreateAppCookieStickinessPolicyInput:
		return named(in.LoadBalancerName)
	case *awselb.DeleteLoadBalancerPolicyInput:
		return named(in.LoadBalancerName)
	case *awselb.SetLoadBalancerPoliciesOfListenerInput:
		return named(in.LoadBalancerName)
	case *awselb.SetLoadBalancerPoliciesForBackendServerInput:
		return named(in.LoadBalancerName)
	case *awselb.ModifyLoadBalancerAttributesInput:
		return named(in.LoadBalancerName)
	}
	return nil, false
}

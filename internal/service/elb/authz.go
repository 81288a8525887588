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

// Authz provides package authz with the stored attributes of load balancers.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Requests identify load balancers by name.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind != loadBalancerType || strings.HasPrefix(id, "arn:") { // ARNs belong to the second generation
		return authz.Resource{}, false
	}
	lb, err := loadBalancers.Get(r.s.Store, regional.At(account, region).Key(id[strings.LastIndexByte(id, '/')+1:]))
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{ARN: arn.New("elasticloadbalancing", region, account, "loadbalancer/"+lb.Name), Tags: lb.Tags}, true
}

const loadBalancerType = "loadbalancer"

// Targets implements authz.Targeter, because the reference lists the resources of both generations
// under one prefix.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) (out []authz.Target, ok bool) {
	tags, keys := authz.RequestTags(in)
	switch in := in.(type) {
	case *awselb.CreateLoadBalancerInput:
		return []authz.Target{{Type: loadBalancerType, ID: text(in.LoadBalancerName), New: true, Tags: tags, TagKeys: keys}}, true
	case *awselb.AddTagsInput:
		for _, name := range in.LoadBalancerNames {
			out = append(out, authz.Target{Type: loadBalancerType, ID: name, Tags: tags, TagKeys: keys})
		}
		return out, true
	case *awselb.RemoveTagsInput:
		for _, name := range in.LoadBalancerNames {
			out = append(out, authz.Target{Type: loadBalancerType, ID: name, TagKeys: keys})
		}
		return out, true
	}
	name, ok := authz.Named(in, "LoadBalancerName")
	return []authz.Target{{Type: loadBalancerType, ID: name}}, ok && !strings.HasPrefix(call.Operation, "Describe")
}

package autoscaling

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/store"
)

// Authz tells package authz what is stored of groups and launch configurations.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Both kinds are called by their names.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	key := store.Key{Account: account, Region: region, ID: id[strings.LastIndexByte(id, '/')+1:]}
	switch kind {
	case "autoScalingGroup":
		g, err := groups.Get(r.s.store, key)
		if err != nil {
			return authz.Resource{}, false
		}
		out := authz.Resource{ARN: aws.ToString(g.Group.AutoScalingGroupARN), Tags: map[string]string{}}
		for _, t := range g.Group.Tags {
			out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		return out, true
	case "launchConfiguration":
		c, err := configs.Get(r.s.store, key)
		return authz.Resource{ARN: aws.ToString(c.LaunchConfigurationARN)}, err == nil
	}
	return authz.Resource{}, false
}

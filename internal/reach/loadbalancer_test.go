package reach_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// A Network Load Balancer made without security groups is filtered by none of its
// own; one with groups, and every other interface without any rule, is.
func TestNetworkLoadBalancerWithoutGroups(t *testing.T) {
	base := with(t, open(), "sg-app", func(g *reach.SecurityGroup) {
		g.Rules = append(g.Rules, tcp("sgr-node", 30080, cidr("10.0.0.0/24")))
	})
	check := func(kind string, groups ...string) bool {
		lb := eni("eni-lb", "vpc-1", "subnet-pub", "10.0.0.60", "", groups...)
		lb.Type, lb.Requester = kind, "amazon-elb"
		return edit(base, lb).Check(reach.Flow{From: reach.At("eni-lb"), To: reach.At("i-app"), Protocol: reach.TCP, Port: 30080}).Reachable
	}
	for name, tt := range map[string]struct {
		kind   string
		groups []string
		want   bool
	}{
		"network, none":         {reach.TypeNetworkLoadBalancer, nil, true},
		"network, lets out":     {reach.TypeNetworkLoadBalancer, []string{"sg-web"}, true},
		"network, of no rules":  {reach.TypeNetworkLoadBalancer, []string{"sg-gone"}, false},
		"application, none":     {"interface", nil, false},
		"application, lets out": {"interface", []string{"sg-web"}, true},
	} {
		if got := check(tt.kind, tt.groups...); got != tt.want {
			t.Errorf("%s: reachable %t", name, got)
		}
	}
}

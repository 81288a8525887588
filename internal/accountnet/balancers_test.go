package accountnet

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// What a load balancer does with a connection. Every failure belongs to the hop at which it occurs.
func TestThroughALoadBalancer(t *testing.T) {
	d := twinNetworks().Edit()
	d.Put(&reach.LoadBalancer{DNSName: "lb.elb.us-east-1.amazonaws.com", Name: "arn:lb", Internal: true, Interfaces: []string{"eni-lb-a"}})
	d.Put(&reach.SecurityGroup{ID: "sg-shut", VPC: "vpc-a"})
	s := d.Snapshot()
	eni := *s.Get("eni-pod-a").(*reach.Interface) //nolint:forcetypeassert // of twinNetworks
	eni.Groups = []string{"sg-shut"}
	d = s.Edit()
	d.Put(&eni)
	shut := d.Snapshot()
	target := func(healthy bool) balancedTarget {
		return balancedTarget{what: "10.0.0.10", to: reach.At("eni-pod-a"), from: "eni-lb-a", port: 80, checked: 81, healthy: healthy, why: "Health checks failed"}
	}
	const listener = "listener TCP:80, target group g"
	for _, tt := range []struct {
		name string
		net  *reach.Snapshot
		b    balancing
		code string
		want string // part of the text
	}{
		{"no listener", s, balancing{noListener: reach.CodeListeners}, reach.CodeListeners, "arn:lb has no listener at port 80"},
		{"answers itself", s, balancing{listener: listener, answer: "which answers 404"}, "", "which answers 404"},
		{"no targets", s, balancing{listener: listener, noTargets: reach.CodeNoTargets, group: "arn:group"}, reach.CodeNoTargets, listener + " has no targets"},
		{"healthy", s, balancing{listener: listener, targets: []balancedTarget{target(false), target(true)}}, "", "forwarded to 10.0.0.10, which is healthy"},
		{"nothing listens", s, balancing{listener: listener, targets: []balancedTarget{target(false)}}, reach.CodeTargetHealth, "10.0.0.10 port 81: Health checks failed"},
		{"the target's group", shut, balancing{listener: listener, targets: []balancedTarget{target(false)}}, reach.CodeGroupNoRules, "sg-shut has no rules"},
		{"a load balancer behind it", s, balancing{listener: listener, targets: []balancedTarget{{what: "arn:alb", healthy: true}}}, "", "forwarded to arn:alb"},
		{"one that is not healthy", s, balancing{listener: listener, targets: []balancedTarget{{what: "arn:alb", why: "no"}}}, reach.CodeTargetHealth, "no target of " + listener + " is healthy: arn:alb: no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := s.Check(reach.Flow{From: reach.At("eni-pod-a"), To: reach.At("eni-lb-a"), Protocol: reach.TCP, Port: 80})
			v := tt.b.through(tt.net, s.LoadBalancerOf("eni-lb-a"), first)
			code := ""
			if len(v.Explanations) > 0 {
				code = v.Explanations[0].Code
			}
			if code != tt.code || v.Reachable != (tt.code == "") || !strings.Contains(v.Text(), tt.want) {
				t.Errorf("%s, want %s\n%s", code, tt.code, v.Text())
			}
			if tt.code == reach.CodeNoTargets && v.Explanations[0].TargetGroup != "arn:group" {
				t.Errorf("the target group is %q", v.Explanations[0].TargetGroup)
			}
		})
	}
}

package reach_test

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

func TestFaults(t *testing.T) {
	base := with(t, closed(), "eni-operator", func(e *reach.Interface) { e.Zone = "us-east-1b" })
	isolated := &reach.Fault{ID: "F-1", Instance: "i-worker", Text: "fault F-1 set by drydock fault", Fix: "drydock fault clear F-1"}
	zoneA := &reach.Fault{ID: "F-2", Zone: "us-east-1a", Text: "fault F-2", Fix: "drydock fault clear F-2"}
	zoneB := &reach.Fault{ID: "F-3", Zone: "us-east-1b", Text: "fault F-3", Fix: "drydock fault clear F-3"}
	noDNS := &reach.Fault{ID: "F-4", VPC: "vpc-k8s", DNS: true, Text: "fault F-4", Fix: "drydock fault clear F-4"}
	noDNSOfOne := &reach.Fault{ID: "F-5", Instance: "i-worker", DNS: true, Text: "fault F-5", Fix: "drydock fault clear F-5"}
	noMetadata := &reach.Fault{ID: "F-6", Instance: "i-worker", Metadata: true, Text: "fault F-6", Fix: "drydock fault clear F-6"}
	for _, tt := range []struct {
		name     string
		faults   []any
		from, to string
		port     uint16
		want     string // the decisive explanation's; empty if reachable
	}{
		{"from an isolated instance", []any{isolated}, "i-worker", clusterName, 443, "i-worker is isolated by a fault: fault F-1 set by drydock fault"},
		{"to an isolated instance", []any{isolated}, "i-operator", "i-worker", 22, "i-worker is isolated by a fault"},
		{"within its subnet", []any{isolated}, "i-worker", "10.0.1.50", 443, "i-worker is isolated by a fault"},
		{"its metadata", []any{isolated}, "i-worker", "169.254.169.254", 80, ""},
		{"another instance", []any{isolated}, "i-bastion", "i-operator", 22, ""},
		{"from a zone that is out", []any{zoneA}, "i-worker", "10.0.2.50", 443, "i-worker is down with its zone us-east-1a, by a fault"},
		{"to a zone that is out", []any{zoneB}, "i-bastion", "i-operator", 22, "i-operator is down with its zone us-east-1b, by a fault"},
		{"an endpoint with an address in another zone", []any{zoneB}, "i-worker", clusterName, 443, ""},
		{"without DNS", []any{noDNS}, "i-worker", clusterName, 443, "Amazon's DNS server does not answer: fault F-4"},
		{"without DNS by address", []any{noDNS}, "i-worker", "10.0.1.50", 443, ""},
		{"another VPC's DNS", []any{noDNS}, "i-bastion", clusterName, 443, "-"},
		{"one instance without DNS", []any{noDNSOfOne}, "i-worker", clusterName, 443, "fault F-5"},
		{"its neighbour", []any{noDNSOfOne}, "i-operator", "example.com", 443, "-"},
		{"the DNS server itself", []any{noDNS}, "i-worker", "169.254.169.253", 53, "Amazon's DNS server does not answer: fault F-4"},
		{"without metadata", []any{noMetadata}, "i-worker", "169.254.169.254", 80, "instance metadata does not answer: fault F-6"},
		{"without metadata only", []any{noMetadata}, "i-worker", clusterName, 443, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := edit(base, tt.faults...)
			f := reach.Flow{From: reach.At(tt.from), Protocol: reach.TCP, Port: tt.port}
			var v *reach.Verdict
			if strings.HasPrefix(tt.to, "i-") {
				f.To = reach.At(tt.to)
				v = s.Check(f)
			} else {
				v = s.CheckName(f, tt.to)
			}
			switch {
			case tt.want == "-": // whatever it is, it is not a fault
				for _, x := range v.Explanations {
					if x.Code == reach.CodeFault {
						t.Errorf("by a fault: %s", x.Text)
					}
				}
			case tt.want == "":
				if !v.Reachable {
					t.Errorf("not reachable:\n%s", v.Text())
				}
			case v.Reachable || !strings.Contains(v.Explanations[0].Text, tt.want):
				t.Errorf("want %q:\n%s", tt.want, v.Text())
			case v.Explanations[0].Code != reach.CodeFault:
				t.Errorf("the code is %s", v.Explanations[0].Code)
			}
		})
	}
}

// A fault cuts an established connection, whatever security groups track.
func TestFaultsCutConnections(t *testing.T) {
	base := closed()
	made, ok := base.CheckName(reach.Flow{From: reach.At("i-worker"), Protocol: reach.TCP, Port: 443}, clusterName).Established()
	if !ok {
		t.Fatal("not established")
	}
	if !base.Continues(made).Reachable {
		t.Error("cut without a fault")
	}
	s := edit(base, &reach.Fault{ID: "F-1", Instance: "i-worker", Text: "fault F-1"})
	if s.Continues(made).Reachable {
		t.Error("it lives on")
	}
	if s = edit(s, "F-1"); !s.Continues(made).Reachable {
		t.Error("cut after the fault")
	}
}

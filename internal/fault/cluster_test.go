package fault_test

import (
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/fault"
)

func TestFaultsOfClusters(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   fault.Fault
		want string
	}{
		{"a cluster", fault.Fault{Kind: fault.EtcdFull, Cluster: "dev"}, ""},
		{"no cluster", fault.Fault{Kind: fault.EtcdFull}, "a fault of kind etcd-full needs: cluster"},
		{"an instance", fault.Fault{Kind: fault.Isolate, Instance: "i-1", Cluster: "dev"}, "a fault of kind isolate has no cluster"},
		{"no delay", fault.Fault{Kind: fault.SlowAPIServer, Cluster: "dev"}, "a fault of kind slow-api-server needs: delay"},
		{"too long", fault.Fault{Kind: fault.SlowAPIServer, Cluster: "dev", Delay: time.Minute}, "a delay of an API server must be at most 30s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.in.Check(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("Check = %q, want %q", got, tt.want)
			}
		})
	}
	s := fault.NewSet(fault.Config{})
	changed := s.Changed()
	s.Replace([]fault.Fault{{ID: "F-1", Kind: fault.EtcdFull, Account: "1", Region: "r", Cluster: "dev"}})
	select {
	case <-changed:
	default:
		t.Error("Changed was not closed")
	}
	if f := s.Cluster(fault.EtcdFull, "1", "r", "dev"); f == nil || f.ID != "F-1" {
		t.Errorf("%+v", f)
	}
	if s.Cluster(fault.EtcdFull, "1", "r", "other") != nil || s.Cluster(fault.ControlPlane, "1", "r", "dev") != nil || (*fault.Set)(nil).Changed() != nil {
		t.Error("a fault that is not set")
	}
}

package accountnet

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// twinNetworks are two VPCs with the same addresses, each with a load balancer and a pod at 10.0.0.10.
func twinNetworks() *reach.Snapshot {
	cidrs := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	all := netip.MustParsePrefix("0.0.0.0/0")
	d := reach.New("us-east-1").Edit()
	for _, n := range []string{"a", "b"} {
		vpc, subnet, group := "vpc-"+n, "subnet-"+n, "sg-"+n
		d.Put(&reach.VPC{ID: vpc, CIDRs: cidrs})
		d.Put(&reach.Subnet{ID: subnet, VPC: vpc, Zone: "us-east-1a", CIDRs: cidrs})
		d.Put(&reach.RouteTable{ID: "rtb-" + n, VPC: vpc, Main: true, Routes: []reach.Route{{Destination: cidrs[0], Target: reach.Local}}})
		d.Put(&reach.ACL{ID: "acl-" + n, VPC: vpc, Default: true, Entries: []reach.Entry{
			{Number: 100, Allow: true, Protocol: reach.AllProtocols, CIDR: all}, {Number: 100, Egress: true, Allow: true, Protocol: reach.AllProtocols, CIDR: all},
		}})
		d.Put(&reach.SecurityGroup{ID: group, VPC: vpc, Rules: []reach.Rule{{ID: "sgr-in", Protocol: reach.AllProtocols, CIDR: all}, {ID: "sgr-out", Egress: true, Protocol: reach.AllProtocols, CIDR: all}}})
		for host, id := range map[string]string{"10.0.0.5": "eni-lb-" + n, "10.0.0.10": "eni-pod-" + n} {
			d.Put(&reach.Interface{
				ID: id, VPC: vpc, Subnet: subnet, Zone: "us-east-1a", Attached: true, Groups: []string{group},
				Addresses: []reach.Address{{Private: netip.MustParseAddr(host)}},
			})
		}
	}
	return d.Snapshot()
}

func newProbes(t testing.TB, planes map[string][]string, look func(ctx context.Context, plane string) (*workloads, error)) *healthProbes {
	network := twinNetworks()
	return &healthProbes{
		network: func(context.Context, string, string) (*reach.Snapshot, error) { return network, nil },
		planes:  func(context.Context, string, string) (map[string][]string, error) { return planes, nil },
		look:    look, log: testkit.Log(t), known: map[string]*knownWorkloads{},
	}
}

// A check is answered by a cluster in the target's VPC, if that cluster can be asked.
func TestHealthCheckAsksTheRightCluster(t *testing.T) {
	clusters := map[string]*workloads{
		"ready": {pods: map[string]bool{"10.0.0.10": true}}, "unready": {pods: map[string]bool{"10.0.0.10": false}}, "empty": {}, "broken": nil,
	}
	look := func(_ context.Context, plane string) (*workloads, error) {
		if w := clusters[plane]; w != nil {
			return w, nil
		}
		return nil, errors.New("it boots")
	}
	for _, tt := range []struct {
		name string
		a, b []string // the planes of the VPCs
		from string
		want elbnet.Finding
	}{
		{"the first VPC's", []string{"ready"}, []string{"unready"}, "a", elbnet.Answers},
		{"the second VPC's", []string{"ready"}, []string{"unready"}, "b", elbnet.Refused},
		{"none here", []string{"ready"}, nil, "b", elbnet.Unclaimed},
		{"a broken one elsewhere", []string{"empty"}, []string{"broken"}, "a", elbnet.Unclaimed},
		{"a broken one before it", []string{"broken", "ready"}, nil, "a", elbnet.Answers},
		{"a broken one may have it", []string{"broken", "empty"}, nil, "a", elbnet.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProbes(t, map[string][]string{"vpc-a": tt.a, "vpc-b": tt.b}, look)
			got := p.checks(t.Context(), "111122223333", "us-east-1")(t.Context(), elbnet.Probe{Interface: "eni-lb-" + tt.from, Address: netip.MustParseAddr("10.0.0.10"), Port: 80})
			if got != tt.want {
				t.Errorf("found %d, want %d", got, tt.want)
			}
		})
	}
}

// The checks of one request look up the network and the clusters only once. The next request looks them up again.
func TestHealthChecksLookAroundOnce(t *testing.T) {
	p := newProbes(t, nil, nil)
	lists := 0
	p.planes = func(context.Context, string, string) (map[string][]string, error) {
		lists++
		return nil, nil
	}
	looks, network := 0, p.network
	p.network = func(ctx context.Context, account, region string) (*reach.Snapshot, error) {
		looks++
		return network(ctx, account, region)
	}
	for request := range 2 {
		check := p.checks(t.Context(), "111122223333", "us-east-1")
		for range 3 {
			if got := check(t.Context(), elbnet.Probe{Interface: "eni-lb-a", Address: netip.MustParseAddr("10.0.0.10"), Port: 80}); got != elbnet.Unclaimed {
				t.Errorf("found %d", got)
			}
		}
		if looks != request+1 || lists != request+1 {
			t.Errorf("%d looks and %d lists after %d requests", looks, lists, request+1)
		}
	}
}

// Concurrent callers share one look-up of a cluster, whether it succeeds or not, and outdated results are dropped.
func TestHealthChecksShareALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		p := newProbes(t, nil, func(ctx context.Context, plane string) (*workloads, error) {
			looks.Add(1)
			if plane == "slow" {
				select {
				case <-ctx.Done():
				case <-time.After(3 * time.Second):
				}
				return nil, errors.New("too late")
			}
			return &workloads{}, ctx.Err()
		})
		leaves, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{leaves, t.Context(), t.Context()} {
			wg.Go(func() {
				if _, err := p.workloads(ctx, "slow"); err == nil || ctx == t.Context() && err.Error() != "too late" {
					t.Errorf("the slow cluster: %v", err)
				}
			})
		}
		synctest.Wait()
		leave()
		if _, err := p.workloads(t.Context(), "quick"); err != nil {
			t.Errorf("another cluster meanwhile: %v", err)
		}
		wg.Wait()
		if _, err := p.workloads(t.Context(), "slow"); err == nil || looks.Load() != 2 {
			t.Errorf("%d looks at two clusters; the slow one: %v", looks.Load(), err)
		}
		time.Sleep(workloadsAge)
		if _, err := p.workloads(t.Context(), "quick"); err != nil || looks.Load() != 3 || len(p.known) != 1 {
			t.Errorf("later: %d looks, %d clusters known: %v", looks.Load(), len(p.known), err)
		}
	})
}

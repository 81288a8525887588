package compute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/client-go/rest"
	clocks "k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/node"
	nodeboxes "github.com/drydock-dev/drydock/internal/node/containers"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// removedInterfaces is a network that only supports removing interfaces.
type removedInterfaces struct {
	mu  sync.Mutex
	ids []string
}

func (*removedInterfaces) MakeInterface(context.Context, fargate.InterfaceRequest) (fargate.Interface, error) {
	return fargate.Interface{}, errors.New("nothing is made of a cluster that is gone")
}

func (r *removedInterfaces) RemoveInterface(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
	return nil
}

// Trouble with one cluster ends neither the daemon nor the work for the others, and nothing is left of deleted
// clusters that had machines.
func TestFargateOutlivesItsClusters(t *testing.T) {
	st := testkit.Store(t)
	const account, region = "111122223333", "us-east-1"
	key := func(id string) store.Key { return store.Key{Account: account, Region: region, ID: id} }
	records := store.NewCollection[map[string]string]("fargate", "machine")
	record := func(cluster, eni string) {
		t.Helper()
		err := st.Update(t.Context(), func(tx *store.Tx) error {
			return records.Create(tx, key(cluster+"/uid"), map[string]string{"PodUID": "uid", "Interface": eni, "Address": "10.0.0.1"})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	record("going", "eni-1")
	record("gone", "eni-2")
	record("stays", "eni-3")

	var mu sync.Mutex
	asked := map[string]int{}
	removed := &removedInterfaces{}
	clock := clocktesting.NewFakeClock(time.Now())
	f := &fargates{
		m:        &Machines{cfg: Config{Store: st, Clock: clock, Log: testkit.Log(t)}},
		runtime:  simulated.New(node.Config{Log: testkit.Log(t)}, simulated.Options{}),
		machines: map[string]*fargateMachine{}, running: map[string]*runningFargate{},
		clusters: func(context.Context) ([]eks.ClusterStatus, error) {
			return []eks.ClusterStatus{
				{Account: account, Region: region, Name: "going", Status: "DELETING", PlaneID: "p-going"},
				{Account: account, Region: region, Name: "stays", Status: "ACTIVE", PlaneID: "p-stays"},
			}, nil
		},
		profiles: func() (map[store.Key]bool, error) { return map[store.Key]bool{key("stays"): true}, nil },
		restConfig: func(id string) (*rest.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[id]++
			return nil, controlplane.ErrNotFound
		},
		network: func(string, string) fargate.Network { return removed },
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	testkit.Eventually(t, 20*time.Second, func() error {
		clock.Step(fargateRetry)
		mu.Lock()
		defer mu.Unlock()
		removed.mu.Lock()
		defer removed.mu.Unlock()
		slices.Sort(removed.ids)
		if asked["p-stays"] < 2 || !slices.Equal(removed.ids, []string{"eni-1", "eni-2"}) {
			return fmt.Errorf("planes asked for %v, interfaces removed %v", asked, removed.ids)
		}
		return nil
	})
	record("later", "eni-4") // of a deleted cluster: an operation that was in progress
	testkit.Eventually(t, 20*time.Second, func() error {
		clock.Step(fargateRetry)
		left := fargate.Clusters(st)
		if len(left) != 1 || !left[key("stays")] {
			return fmt.Errorf("clusters with machines: %v", left)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run ended with %v", err)
	}
	if asked["p-going"] != 0 {
		t.Error("a scheduler was started for a cluster that is deleted")
	}
}

// clusterOfFamily is EKS with one cluster.
type clusterOfFamily struct {
	EKS
	family string
}

func (c clusterOfFamily) FargateCluster(context.Context, string, string, string) (eks.FargateCluster, error) {
	return eks.FargateCluster{IPFamily: c.family}, nil
}

// The runtime of Fargate's machines is that of the profile's tag, and otherwise that of instances. What cannot be is said, unless
// the choice is Drydock's.
func TestRuntimeOfFargate(t *testing.T) {
	able := probe.Run().Available
	for _, tt := range []struct{ tag, configured, family, want, why string }{
		{"", "", "ipv4", "simulated", ""},
		{"simulated", "containers", "ipv4", "simulated", ""},
		{"containers", "", "ipv4", "containers", ""},
		{"", "containers", "ipv4", "containers", ""},
		{"auto", "simulated", "ipv6", "simulated", ""},
		{"", "auto", "ipv6", "simulated", ""},
		{"containers", "", "ipv6", "", "pods cannot run containers: machines that run containers have no IPv6 addresses"},
		{"", "containers", "ipv6", "", "pods cannot run containers: machines that run containers have no IPv6 addresses"},
		{"firecracker", "", "ipv4", "", `there is no machine runtime "firecracker": the tag drydock:runtime is simulated, containers or auto`},
	} {
		if tt.want == "containers" && !able {
			tt.want, tt.why = "", "pods cannot run containers: "+probe.Run().Why()+" (drydock doctor containers)"
		}
		m := &Machines{
			cfg:      Config{EKS: clusterOfFamily{family: tt.family}, NodeRuntime: tt.configured},
			kubelets: simulated.New(node.Config{Log: testkit.Log(t)}, simulated.Options{}), boxes: nodeboxes.New(node.Config{Log: testkit.Log(t)}, nodeboxes.Options{}),
		}
		f := &fargates{m: m, runtime: m.kubelets}
		got, err := f.runtimeFor(t.Context(), eks.ClusterStatus{Name: "dev"}, tt.tag)
		why := ""
		if err != nil {
			why = err.Error()
		}
		if got != tt.want || why != tt.why {
			t.Errorf("tag %q, configured %q, %s: %q, %q, want %q, %q", tt.tag, tt.configured, tt.family, got, why, tt.want, tt.why)
		}
	}
}

// noInterfaces is EC2 without network interfaces.
type noInterfaces struct{ EC2 }

func (noInterfaces) DescribeNetworkInterfaces(context.Context, *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error) {
	return &awsec2.DescribeNetworkInterfacesOutput{}, nil
}

// A machine that cannot be started has a step that says why, until it is gone.
func TestFargateMachinesThatDoNotStart(t *testing.T) {
	m := &Machines{
		cfg:      Config{EC2: noInterfaces{}, Clock: clocks.RealClock{}},
		kubelets: simulated.New(node.Config{Log: testkit.Log(t)}, simulated.Options{}), boxes: nodeboxes.New(node.Config{Log: testkit.Log(t)}, nodeboxes.Options{}),
	}
	m.fargates = &fargates{m: m, runtime: m.kubelets, machines: map[string]*fargateMachine{}}
	in := node.Fargate{Instance: machine.Instance{ID: "eni-1"}, Runtime: machine.Containers}
	if err := m.fargates.Start(t.Context(), in); err == nil {
		t.Fatal("a machine without a network interface starts")
	}
	info, ok := m.Info("eni-1")
	if !ok || len(info.Steps) != 1 || info.Steps[0].OK || info.Steps[0].Name != "boot" || info.Steps[0].Evidence != "there is no network interface eni-1" {
		t.Errorf("info %+v, %t", info, ok)
	}
	if err := m.fargates.Stop(t.Context(), "eni-1"); err != nil {
		t.Fatal(err)
	}
	if info, ok := m.Info("eni-1"); ok {
		t.Errorf("a machine that is gone has the steps %+v", info.Steps)
	}
}

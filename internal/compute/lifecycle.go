package compute

import (
	"context"
	"fmt"
	"strings"
	"sync"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
)

// RunNodeLifecycles removes the nodes of instances that are gone from their clusters, and ends control planes whose
// clusters no longer exist, until ctx ends.
func (m *Machines) RunNodeLifecycles(ctx context.Context) error {
	return (&nodeLifecycles{m: m, running: map[string]*runningLifecycle{}}).run(ctx)
}

// nodeLifecycles runs, for every cluster with a control plane, the controller
// that removes the nodes of instances that are gone.
type nodeLifecycles struct {
	m       *Machines
	mu      sync.Mutex
	running map[string]*runningLifecycle // by plane ID
}

type runningLifecycle struct {
	*node.Lifecycle
	stop context.CancelFunc
	done chan struct{}
}

func (n *nodeLifecycles) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer n.sync(ctx, nil)
	defer cancel() // runs before the other two
	wg.Go(func() { n.watchInstances(ctx) })
	for {
		changed := n.m.cfg.Store.Changed()
		planes := n.m.cfg.ControlPlanes.Planes() // listed before the clusters, because a record precedes its claim
		clusters, err := n.m.cfg.EKS.Clusters(ctx)
		if err != nil {
			return err
		}
		n.releaseOrphans(ctx, planes, clusters)
		n.sync(ctx, clusters)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if !clock.Sleep(ctx, n.m.cfg.Clock, lookAgain) {
			return nil
		}
	}
}

// releaseOrphans stops control planes whose cluster no longer exists: a reset, or a crash in the middle of one,
// removes the record but not the plane. A cluster whose record cannot be read still exists, and only its name is
// known.
func (n *nodeLifecycles) releaseOrphans(ctx context.Context, planes []controlplane.Plane, clusters []eks.ClusterStatus) {
	type name struct{ account, region, name string }
	owned, unreadable := map[string]bool{}, map[name]bool{}
	for _, c := range clusters {
		if c.Unreadable() {
			unreadable[name{c.Account, c.Region, c.Name}] = true
			continue
		}
		owned[c.Owner] = true
	}
	for _, p := range planes {
		if owned[p.Owner] || unreadable[name{p.Key.Account, p.Key.Region, p.Key.Name}] {
			continue
		}
		if err := n.m.cfg.ControlPlanes.ReleaseOf(ctx, p.ID, p.Owner); err != nil && ctx.Err() == nil {
			n.m.cfg.Log.Warn("releasing a control plane without a cluster", "plane", p.ID, "err", err)
		}
	}
}

// sync starts missing machines and stops those that should no longer run.
func (n *nodeLifecycles) sync(ctx context.Context, clusters []eks.ClusterStatus) {
	want := map[string]eks.ClusterStatus{}
	for _, c := range clusters {
		if c.PlaneID != "" && c.Status != "CREATING" && ctx.Err() == nil {
			want[c.PlaneID] = c
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.running {
		if _, ok := want[id]; !ok {
			r.stop()
			<-r.done
			delete(n.running, id)
		}
	}
	for id, c := range want {
		if n.running[id] != nil {
			continue
		}
		r, err := n.start(ctx, c)
		if err != nil {
			n.m.cfg.Log.Warn("node lifecycle", "cluster", c.Name, "err", err)
			continue
		}
		n.running[id] = r
	}
}

func (n *nodeLifecycles) start(ctx context.Context, c eks.ClusterStatus) (*runningLifecycle, error) {
	rc, err := n.m.cfg.ControlPlanes.RESTConfig(c.PlaneID)
	if err != nil {
		return nil, err
	}
	rc.QPS = -1 // it is our own server, and many nodes may go at once
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	r := &runningLifecycle{
		Lifecycle: node.NewLifecycle(node.LifecycleConfig{
			Client: client,
			State: func(_ context.Context, providerID string) (node.InstanceState, error) {
				return instanceState(n.m.cfg.EC2, c.Account, c.Region, providerID)
			},
			EndPods: n.m.cfg.Timing.PodsEndWithNode,
			Clock:   n.m.cfg.Clock,
			Log:     n.m.cfg.Log.With("cluster", c.Name),
		}),
		stop: stop,
		done: make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		r.Run(ctx)
	}()
	return r, nil
}

// watchInstances triggers a check of the nodes when an instance goes away or stops.
func (n *nodeLifecycles) watchInstances(ctx context.Context) {
	w := n.m.cfg.EC2.WatchInstances(store.Scope{})
	defer w.Stop()
	for {
		keys, err := w.Next(ctx)
		if err != nil {
			return
		}
		for _, k := range keys {
			i, ok := n.m.cfg.EC2.InstanceByID(k.Account, k.Region, k.ID)
			if ok && (i.State.Name == ec2types.InstanceStateNamePending || i.State.Name == ec2types.InstanceStateNameRunning) {
				continue
			}
			n.mu.Lock()
			for _, r := range n.running {
				r.Check()
			}
			n.mu.Unlock()
			break
		}
	}
}

// instanceState returns the state of the instance with a provider ID, aws:///ZONE/ID.
func instanceState(s EC2, account, region, providerID string) (node.InstanceState, error) {
	id := kube.InstanceID(providerID)
	if strings.HasPrefix(id, "fargate-") {
		return node.InstanceExists, nil // Fargate's scheduler handles its own nodes
	}
	if !strings.HasPrefix(id, "i-") {
		return node.InstanceExists, fmt.Errorf("provider ID %q names no instance", providerID)
	}
	state, ok := s.InstanceState(account, region, id)
	if !ok {
		return node.InstanceGone, nil
	}
	switch ec2types.InstanceStateName(state) {
	case ec2types.InstanceStateNameTerminated, ec2types.InstanceStateNameShuttingDown:
		return node.InstanceGone, nil
	case ec2types.InstanceStateNameStopped, ec2types.InstanceStateNameStopping:
		return node.InstanceStopped, nil
	default:
		return node.InstanceExists, nil
	}
}

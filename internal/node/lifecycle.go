package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/kube"
)

// InstanceState is EC2's state of the instance behind a Node object.
type InstanceState int

// The states that matter to a Node object.
const (
	// InstanceExists is an instance that is running or will be.
	InstanceExists InstanceState = iota
	// InstanceStopped is one that is off and may be started again.
	InstanceStopped
	// InstanceGone is one that is terminated, or that EC2 does not know.
	InstanceGone
)

// taintShutdown is set on nodes whose instance is off.
var taintShutdown = corev1.Taint{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}

// LifecycleConfig configures a Lifecycle.
type LifecycleConfig struct {
	// Client is an administrator of the cluster.
	Client kubernetes.Interface
	// State returns the state of the instance with a provider ID (aws:///us-east-1a/i-…). If it fails, the node is
	// left unchanged.
	State func(ctx context.Context, providerID string) (InstanceState, error)
	// EndPods ends the pods of a node that is removed, instead of leaving them to the pod
	// garbage collector.
	EndPods bool
	// Interval is how often all nodes are checked without a reason; 0 means a minute.
	Interval time.Duration
	Clock    clock.Clock  // nil means the system clock
	Log      *slog.Logger // nil means slog.Default()
}

// Lifecycle does, for one cluster, what the node lifecycle controller of the AWS cloud controller manager does on
// EKS: it deletes the Node objects of instances that are gone, which ends their pods, and taints those of instances
// that are off. It is not part of any runtime, because a machine that no longer exists cannot report that.
//
// https://github.com/kubernetes/cloud-provider/blob/master/controllers/nodelifecycle/node_lifecycle_controller.go
type Lifecycle struct {
	cfg  LifecycleConfig
	poke chan struct{}
}

// NewLifecycle returns a controller that does nothing before Run.
func NewLifecycle(cfg LifecycleConfig) *Lifecycle {
	if cfg.Interval == 0 {
		cfg.Interval = time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Lifecycle{cfg: cfg, poke: make(chan struct{}, 1)}
}

// Check requests a check of the nodes soon. Call it when an instance has stopped, terminated or started. It returns
// at once, and several calls in a row count as one.
func (l *Lifecycle) Check() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// lookAgain is how soon nodes are checked once more: the interval of the cloud controller manager
// (--node-monitor-period).
const lookAgain = 5 * time.Second

// Run checks the nodes whenever requested, and every Interval, until ctx ends.
func (l *Lifecycle) Run(ctx context.Context) {
	timer := l.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		wait := l.cfg.Interval
		select {
		case <-ctx.Done():
			return
		case <-l.poke:
			// A machine that ended while it was joining may register after this pass, or be missing from the cache
			// that the pass reads.
			wait = min(wait, lookAgain)
		case <-timer.C():
		}
		listed, err := l.pass(ctx)
		if err != nil && ctx.Err() == nil {
			l.cfg.Log.Warn("node lifecycle", "err", err)
			wait = lookAgain
		}
		// Listing a large cluster takes time in proportion to its size: spend at most a tenth of the time on it,
		// unless that would mean too few checks. An API server that has just started is slow, too.
		rest := min(max(200*time.Millisecond, 10*listed), lookAgain)
		timer.Stop()
		timer.Reset(rest)
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		timer.Reset(max(wait-rest, 0))
	}
}

// pass checks all nodes once, and returns how long it took to list them.
func (l *Lifecycle) pass(ctx context.Context) (listed time.Duration, err error) {
	began := l.cfg.Clock.Now()
	// Read from the API server's cache: objects that are not in it yet are handled in the next pass.
	nodes, err := l.cfg.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, fmt.Errorf("listing nodes: %w", err)
	}
	listed = l.cfg.Clock.Since(began)
	var g errgroup.Group
	g.SetLimit(16) // a whole zone of nodes may go at once
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if !strings.HasPrefix(n.Spec.ProviderID, "aws://") {
			continue
		}
		state, err := l.cfg.State(ctx, n.Spec.ProviderID)
		if err != nil {
			return listed, errors.Join(fmt.Errorf("looking up the instance of node %s: %w", n.Name, err), g.Wait())
		}
		g.Go(func() error {
			err := l.follow(ctx, n, state)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil
			}
			return err
		})
	}
	return listed, g.Wait()
}

// follow adjusts a node to its instance's state.
func (l *Lifecycle) follow(ctx context.Context, n *corev1.Node, state InstanceState) error {
	switch state {
	case InstanceGone:
		return l.remove(ctx, n)
	case InstanceStopped:
		return l.taint(ctx, n, true)
	default:
		return l.taint(ctx, n, false)
	}
}

func (l *Lifecycle) remove(ctx context.Context, n *corev1.Node) error {
	now := metav1.NewTime(l.cfg.Clock.Now())
	// This is only an event, so its failure is not worth failing for.
	_, err := l.cfg.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", n.Name, now.UnixNano()), Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID},
		Reason:         "DeletingNode",
		Message:        fmt.Sprintf("Deleting node %s because it does not exist in the cloud provider", n.Name),
		Type:           corev1.EventTypeNormal,
		Source:         corev1.EventSource{Component: "cloud-node-lifecycle-controller"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		l.cfg.Log.Debug("node lifecycle: writing an event", "node", n.Name, "err", err)
	}
	err = l.cfg.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
	if err != nil {
		return fmt.Errorf("deleting node %s: %w", n.Name, err)
	}
	if l.cfg.EndPods {
		return kube.EndPods(ctx, l.cfg.Client, n.Name)
	}
	return nil
}

// taint sets or removes the shutdown taint.
func (l *Lifecycle) taint(ctx context.Context, n *corev1.Node, want bool) error {
	is := func(t corev1.Taint) bool { return t.Key == taintShutdown.Key }
	if slices.ContainsFunc(n.Spec.Taints, is) == want {
		return nil
	}
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), is)
	if want {
		taints = append(taints, taintShutdown)
	}
	// A merge patch replaces the whole list, so it must only apply to the version that was read.
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return fmt.Errorf("tainting node %s: %w", n.Name, err)
	}
	if _, err := l.cfg.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("tainting node %s: %w", n.Name, err)
	}
	return nil
}

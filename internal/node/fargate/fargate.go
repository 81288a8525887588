// Package fargate does what AWS Fargate does for an EKS cluster: for each pod of a Fargate profile it gets a machine
// of the right size, with a network interface in one of the profile's subnets, lets the machine join the cluster as
// the profile's pod execution role, and binds the pod to it. The machine is removed with its pod.
//
// Admission (service/eks) decides which pods are Fargate's: they have the scheduler fargate-scheduler and a label
// with their profile's name. If a pod cannot run, the package reports the reason as Fargate does, with an event and
// the pod's condition.
//
// A Scheduler works for one cluster. Everything it creates is recorded first, so that after a crash at any point
// nothing is created twice and nothing is left over.
//
// It does not depend on EKS or EC2: internal/compute connects them. internal/app and internal/why import it, too.
package fargate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// SchedulerName is the scheduler of Fargate's pods.
	SchedulerName = "fargate-scheduler"
	// LabelProfile names a pod's profile.
	LabelProfile = "eks.amazonaws.com/fargate-profile"
	// labelComputeType marks Fargate's nodes, as a label and as a taint.
	labelComputeType   = "eks.amazonaws.com/compute-type"
	computeTypeFargate = "fargate"
)

const (
	workers = 32
	// provisioning is how long a machine may take to join before Fargate tries another one; seen on AWS, twice within
	// seven minutes.
	provisioning = 3 * time.Minute
	// lookAgain is how often a pod that is blocked by something outside of it is checked.
	lookAgain = 5 * time.Second
)

// ErrNoAddress is returned by Network's MakeInterface if a subnet has no free address or does not exist.
var ErrNoAddress = errors.New("the subnet has no free addresses")

// ErrNoProfile is returned by Config.Profile for a profile that does not exist.
var ErrNoProfile = errors.New("no such Fargate profile")

// A BlockedError says in Fargate's words why a profile cannot launch pods.
type BlockedError struct{ Reason string }

func (e *BlockedError) Error() string { return e.Reason }

// A RefusedError is returned by Network's MakeInterface if EC2 refuses to create an interface for a reason other than
// the subnet or the groups.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// A Cluster is what machines need to know about their cluster.
type Cluster struct {
	node.ClusterInfo
	// KubeletVersion is the kubelet's version, such as 1.36.2.
	KubeletVersion string
	// SecurityGroups are the groups of the machines' interfaces.
	SecurityGroups []string
}

// A Profile says how its pods are launched.
type Profile struct {
	RoleARN string
	Subnets []string
	Runtime string // of the machines: see node.Fargate
}

// An InterfaceRequest asks for a network interface. A repeated request with the same token returns the same
// interface.
type InterfaceRequest struct {
	Token, Subnet, Description string
	Groups                     []string
	IPv6                       bool // it also gets an IPv6 address
}

// An Interface is a network interface.
type Interface struct {
	ID, VPC, Zone string
	Address       netip.Addr
	Address6      netip.Addr // the zero Addr if it has none
}

// Network makes network interfaces.
type Network interface {
	MakeInterface(ctx context.Context, req InterfaceRequest) (Interface, error)
	// RemoveInterface removes an interface. It is not an error if it does not exist.
	RemoveInterface(ctx context.Context, id string) error
}

// Machines runs the machines of pods.
type Machines interface {
	Start(ctx context.Context, in node.Fargate) error
	Stop(ctx context.Context, id string) error
}

// Config connects a Scheduler. Everything without a stated default is required.
type Config struct {
	Account, Region, Cluster string
	Store                    *store.Store
	// Client has all rights in the cluster.
	Client   kubernetes.Interface
	Describe func(ctx context.Context) (Cluster, error)
	// Profile returns how pods of the named profile are currently launched. It returns ErrNoProfile or a
	// *BlockedError if they cannot be, and also if none of the profile's selectors matches the pod, because any user
	// can set a pod's scheduler and label.
	Profile  func(ctx context.Context, name string, pod *corev1.Pod) (Profile, error)
	Network  Network
	Machines Machines
	// Policies returns the SecurityGroupPolicies of a namespace. If nil, there are none.
	Policies func(ctx context.Context, namespace string) ([]SecurityGroupPolicy, error)
	// Timeout is how long a machine may take to join; 0 means 3 minutes.
	Timeout time.Duration
	Clock   clock.WithTicker // nil means the real clock
	Log     *slog.Logger     // nil means slog.Default
}

// A Scheduler is Fargate's scheduler for one cluster.
type Scheduler struct {
	cfg   Config
	clock clock.WithTicker
	log   *slog.Logger
	pods  cache.Indexer
	nodes cache.Store
	queue *reconcile.Queue[types.UID]

	mu      sync.Mutex
	byNode  map[string]types.UID // pods by the node of their machine
	subnets map[string]int       // number of machines by subnet
	started map[types.UID]string // the interfaces of machines that were started

	logging loggingState
}

// New returns a scheduler that does nothing before Run.
func New(cfg Config) *Scheduler {
	if cfg.Timeout == 0 {
		cfg.Timeout = provisioning
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Scheduler{
		cfg: cfg, clock: cfg.Clock, log: cfg.Log,
		byNode: map[string]types.UID{}, subnets: map[string]int{}, started: map[types.UID]string{},
	}
}

const byUID = "uid"

// Run schedules until ctx ends, and leaves what runs running.
func (s *Scheduler) Run(ctx context.Context) error {
	s.queue = reconcile.NewQueue("fargate/"+s.cfg.Cluster, s.sync, s.clock, s.log)
	defer s.queue.ShutDown()
	core := s.cfg.Client.CoreV1()
	onlyPods := fields.OneTermEqualSelector("spec.schedulerName", SchedulerName).String()
	pods := s.informer(&corev1.Pod{}, cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = onlyPods
			return core.Pods(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = onlyPods
			return core.Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}, cache.Indexers{byUID: func(obj any) ([]string, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			return []string{string(p.UID)}, nil
		}
		return nil, nil
	}})
	onlyNodes := labels.Set{labelComputeType: computeTypeFargate}.String()
	nodes := s.informer(&corev1.Node{}, cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = onlyNodes
			return core.Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = onlyNodes
			return core.Nodes().Watch(ctx, o)
		},
	}, nil)
	s.pods, s.nodes = pods.GetIndexer(), nodes.GetStore()
	if err := s.follow(pods, nodes); err != nil {
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { pods.RunWithContext(ctx) })
	wg.Go(func() { nodes.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, nodes.HasSynced) {
		return nil
	}
	for _, m := range machines.All(s.cfg.Store, s.all()) { // also pods that were deleted while the watch was down
		s.note(&m.Value)
		s.occupy("", m.Value.Subnet)
		s.queue.Add(m.Value.PodUID)
	}
	s.queue.Run(ctx, workers)
	return nil
}

func (s *Scheduler) informer(of runtime.Object, lw cache.ListWatch, index cache.Indexers) cache.SharedIndexInformer {
	inf := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&lw, s.cfg.Client), of, 0, index)
	_ = inf.SetTransform(func(obj any) (any, error) { // fails only once started
		if m, ok := obj.(metav1.Object); ok {
			m.SetManagedFields(nil)
		}
		return obj, nil
	})
	_ = inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		s.log.Log(ctx, slog.LevelDebug, "fargate: watching", "err", err)
	})
	return inf
}

// follow queues pods when they, or their machines' nodes, change.
func (s *Scheduler) follow(pods, nodes cache.SharedIndexInformer) error {
	pod := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if p, ok := obj.(*corev1.Pod); ok {
			s.queue.Add(p.UID)
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: pod,
		UpdateFunc: func(was, is any) {
			// Status changes that the kubelet makes to a running pod need no action.
			if o, ok := was.(*corev1.Pod); ok && o.Spec.NodeName != "" {
				if n, ok := is.(*corev1.Pod); ok && n.UID == o.UID {
					return
				}
			}
			pod(was)
			pod(is)
		},
		DeleteFunc: pod,
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	ofNode := func(obj any) {
		if n, ok := obj.(*corev1.Node); ok {
			s.mu.Lock()
			uid, ok := s.byNode[n.Name]
			s.mu.Unlock()
			if ok {
				s.queue.Add(uid)
			}
		}
	}
	_, err = nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: ofNode,
		UpdateFunc: func(was, is any) {
			if o, ok := was.(*corev1.Node); ok && !kube.NodeReady(o) { // heartbeats do not matter
				ofNode(is)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// Halt stops the machines that were started, without changing the cluster. Call it after the cluster was deleted and
// Run has returned.
func (s *Scheduler) Halt(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for uid, id := range s.started {
		if err := s.cfg.Machines.Stop(ctx, id); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(s.started, uid)
	}
	return errors.Join(errs...)
}

// Abandon removes all recorded machines and what was created for them, without asking the cluster. It is for a
// cluster that was deleted and has no running Scheduler. Of the Config it only needs Store, Network and Machines.
func (s *Scheduler) Abandon(ctx context.Context) error {
	all := machines.All(s.cfg.Store, s.all())
	var errs []error
	for i := range all {
		errs = append(errs, s.end(ctx, &all[i].Value, func() error { return nil }))
	}
	return errors.Join(errs...)
}

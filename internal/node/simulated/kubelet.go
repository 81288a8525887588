package simulated

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// The kubelet's defaults, which EKS keeps.
const (
	leaseSeconds  = 40
	leaseInterval = leaseSeconds / 4 * time.Second
	// In a cluster with more simulated nodes than leaseNodes, leases are renewed less often, but at least half as
	// often: all these nodes' writes and the API server that handles them share one machine.
	//
	// AWS deviation: a real node renews every 10 s in clusters of any size. Nodes are considered dead after 40 s
	// (Kubernetes 1.31) or 50 s without a renewal.
	leaseNodes = 250
	// statusInterval is how often an unchanged status is reported.
	statusInterval = 5 * time.Minute
	// networkRetry is the maximum interval at which the CNI tries to get its first addresses. It starts with
	// networkRetryFirst.
	networkRetry      = 10 * time.Second
	networkRetryFirst = time.Second
	// complaintInterval is how often the kubelet logs that there is no network.
	complaintInterval = 5 * time.Second
	// eventsAfter is how long a node that is not Ready yet delays its events: becoming Ready comes first.
	eventsAfter = 3 * time.Second
	// notFoundRetry is how often a kubelet looks for its Node object after it was deleted.
	notFoundRetry = 10 * time.Second
	// watchTime is how long one watch lasts. The kubelet's reflector uses 5 to 10 minutes; the choice only affects
	// load.
	watchTime = 30 * time.Minute
)

// kubelet is a node that has joined. All its state belongs to the goroutine of run; the goroutine that follows the
// watch passes events to it.
type kubelet struct {
	m        *instance
	client   *client
	os       *system
	object   *corev1.Node // the object to register; nil once it is registered
	endpoint string
	name     string
	hostIP   netip.Addr
	maxPods  int
	refs     references
	// allocatable is what pods can request.
	allocatable requests

	uid      types.UID // of the Node object
	rebooted bool      // the Node object is from an earlier boot
	existed  bool      // pods may already exist
	hidden   error     // why the node that may not be created cannot be read either

	begun        time.Time // when run began
	network      bool      // the CNI has addresses
	networkDelay time.Duration
	cni          *pod // the pod of aws-node
	// addressTrouble says that a recorded step reports missing addresses.
	addressTrouble bool
	troubled       string // the step at which a call of the API last failed
	ipam           *ipamd
	pods           map[types.UID]*pod
	events         eventQueue
	asks           chan func()   // functions for the goroutine of run to call
	ended          chan struct{} // closed when run has ended

	ready      bool // as the Node object says
	lease      *coordinationv1.Lease
	renewed    time.Time // when the lease's last successful renewal began
	givenUp    bool      // the node may have been marked Unknown since the last heartbeat
	leaseDue   time.Time
	statusDue  time.Time
	networkDue time.Time
	// complaintDue is when the kubelet next logs that there is no network.
	complaintDue time.Time

	pressure        bool      // the node reports that its disk is full
	pressureChanged bool      // pressure has changed since the last reported status
	fullAt          time.Time // when the disk was last seen full
	evictDue        time.Time
}

// pod is a pod and what the kubelet has not told the API server about it yet.
type pod struct {
	*podMachine
	due     time.Time // when to look at it next; zero means when it changes
	retry   time.Duration
	removed bool     // its deletion was confirmed to the API server
	aws     *awsNode // only for aws-node
	adopted bool     // it ran before this program was restarted

	requests requests
	freed    bool // its address was released
}

func newKubelet(m *instance, c *client, cfg *userdata.Config, sz size) *kubelet {
	name := nodeName(m.in, cfg)
	k := &kubelet{
		m: m, client: c, name: name, endpoint: cfg.Endpoint,
		object:  nodeObject(m.in, cfg, name, sz, m.rt.clock.Now()),
		hostIP:  hostIP(m.in, cfg),
		maxPods: int(sz.maxPods),
		pods:    map[types.UID]*pod{}, asks: make(chan func()), ended: make(chan struct{}),
	}
	k.refs.k = k
	k.allocatable = requests{
		milliCPU: sz.allocatable.Cpu().MilliValue(), memory: sz.allocatable.Memory().Value(), storage: sz.allocatable.StorageEphemeral().Value(),
	}
	k.ipam = &ipamd{
		m: m, maxPods: k.maxPods, pool: newPool(), cfg: parseCNI(manifestCNI(cfg.ClusterName)),
		log: func(format string, args ...any) { k.os.ipamdLog(format, args...) },
		pod: k.cniPod, denied: k.denied,
	}
	return k
}

func (k *kubelet) close() {
	k.client.close()
	k.m.rt.clusters.put(k.client.cluster)
}

func (k *kubelet) now() time.Time { return k.m.rt.clock.Now() }

func (k *kubelet) nodePath() string { return "/api/v1/nodes/" + k.name }

// register creates the Node object, or takes over the existing one.
func (k *kubelet) register(ctx context.Context) error {
	now := k.now()
	k.hidden = nil // of an earlier try
	k.object.Status.Conditions = nodeConditions(false, false, networkNotReady, now, now)
	var created corev1.Node
	err := k.client.do(ctx, http.MethodPost, "/api/v1/nodes", nil, k.object, &created)
	if apierrors.IsAlreadyExists(err) {
		return k.reregister(ctx)
	}
	if apierrors.IsForbidden(err) && minor(k.m.in.Image.KubeletVersion) >= getsForbidden {
		var have corev1.Node
		k.hidden = k.client.do(ctx, http.MethodGet, k.nodePath(), nil, nil, &have)
	}
	if err != nil {
		return err
	}
	k.uid, k.object = created.UID, nil
	return nil
}

// getsForbidden is the minor version since which the kubelet asks for its node if it may not create it, and logs that error.
// https://github.com/kubernetes/kubernetes/blob/v1.36.1/pkg/kubelet/kubelet_node_status.go
const getsForbidden = 32

// reregister reconciles a Node object of an earlier boot or an earlier run of this runtime: status and the kubelet's
// own labels, never taints.
func (k *kubelet) reregister(ctx context.Context) error {
	var have corev1.Node
	if err := k.client.do(ctx, http.MethodGet, k.nodePath(), nil, nil, &have); err != nil {
		return err
	}
	want := k.object
	if have.Spec.ProviderID != want.Spec.ProviderID {
		return failed(node.StepRegister, fmt.Errorf("node %s belongs to another instance (%s) and must be deleted first", k.name, have.Spec.ProviderID))
	}
	k.uid, k.existed = have.UID, true
	k.rebooted = have.Status.NodeInfo.BootID != want.Status.NodeInfo.BootID
	if !k.rebooted && have.Status.NodeInfo.KubeletVersion == want.Status.NodeInfo.KubeletVersion {
		for _, c := range have.Status.Conditions {
			if c.Type == corev1.NodeReady {
				k.ready = c.Status == corev1.ConditionTrue
			}
		}
		k.object = nil
		return nil
	}
	body, err := registrationPatch(want)
	if err != nil {
		return err
	}
	if err := k.client.do(ctx, http.MethodPatch, k.nodePath()+"/status", nil, body, nil); err != nil {
		return err
	}
	if k.rebooted {
		k.events.nodeEvent(k.now(), corev1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", k.name, want.Status.NodeInfo.BootID))
	}
	k.object = nil
	return nil
}

// run is the kubelet's loop: it does what is due, most urgent first, and otherwise waits for the watch or the clock.
func (k *kubelet) run(ctx context.Context) {
	now := k.now()
	k.events.nodeEvent(now, corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	k.begun, k.leaseDue, k.renewed = now, now, now
	if k.hasOwnCNI() {
		k.networkDue = now
	}
	k.network = k.ready // by an earlier run
	k.complaintDue = now
	k.os.klog('I', "kubelet.go:2458", "Starting kubelet main sync loop")
	k.statusDue = now.Add(statusInterval)
	if k.ready { // by an earlier run: report now, because the last report may be old
		k.statusDue = now
	}

	k.m.show(k)
	defer k.m.hide(k)
	updates := make(chan update, 16)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		k.follow(ctx, updates)
	}()
	defer func() { <-followed }()

	timer := k.m.rt.clock.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		// News from the API server comes first, because it may make other work unnecessary.
		select {
		case u := <-updates:
			k.apply(u)
			continue
		case ask := <-k.asks:
			ask()
			continue
		default:
		}
		k.faults()
		wait, busy := k.work(ctx)
		if busy {
			continue
		}
		if !timer.Stop() {
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(wait)
		select {
		case u := <-updates:
			k.apply(u)
		case ask := <-k.asks:
			ask()
		case <-timer.C():
		case <-ctx.Done():
		}
	}
}

// work does one thing that is due and returns true, or returns how long to wait until something is due.
func (k *kubelet) work(ctx context.Context) (wait time.Duration, busy bool) {
	now := k.now()
	switch {
	case !k.networkDue.IsZero() && !now.Before(k.networkDue):
		k.setUpNetwork(ctx)
		return 0, true
	case k.network != k.ready && !now.Before(k.statusDue.Add(-statusInterval)):
		k.heartbeat(ctx)
		return 0, true
	case !now.Before(k.leaseDue):
		k.renewLease(ctx)
		return 0, true
	case !now.Before(k.statusDue):
		k.heartbeat(ctx)
		return 0, true
	}
	next := k.leaseDue
	if !k.network {
		if !now.Before(k.complaintDue) {
			// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet.go; the message is containerd's.
			k.os.klog('E', "kubelet.go:3262", "Container runtime network not ready", "networkReady", "NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized")
			k.complaintDue = now.Add(complaintInterval)
		}
		if k.complaintDue.Before(next) {
			next = k.complaintDue
		}
	}
	if k.statusDue.Before(next) {
		next = k.statusDue
	}
	if !k.networkDue.IsZero() && k.networkDue.Before(next) {
		next = k.networkDue
	}
	if k.network != k.ready && k.statusDue.Add(-statusInterval).Before(next) {
		next = k.statusDue.Add(-statusInterval)
	}
	if k.cni != nil && !k.cni.due.IsZero() && !now.Before(k.cni.due) {
		k.sync(ctx, k.cni) // other pods wait for it
		return 0, true
	}
	for _, p := range k.pods {
		if p.due.IsZero() {
			continue
		}
		if !now.Before(p.due) {
			k.sync(ctx, p)
			return 0, true
		}
		if p.due.Before(next) {
			next = p.due
		}
	}
	if k.ipam.running && !k.ipam.due.IsZero() {
		if !now.Before(k.ipam.due) {
			k.maintainAddresses(ctx)
			return 0, true
		}
		if k.ipam.due.Before(next) {
			next = k.ipam.due
		}
	}
	if begin := k.begun.Add(eventsAfter); k.ready || !now.Before(begin) {
		if k.events.emit(ctx, k) {
			return 0, true
		}
	} else if len(k.events.queue) > 0 && begin.Before(next) {
		next = begin
	}
	return next.Sub(now), false
}

// heartbeat reports the node's status.
func (k *kubelet) heartbeat(ctx context.Context) {
	changed := k.network != k.ready
	body, err := heartbeatPatch(k.network, k.pressure, networkNotReady, func(t corev1.NodeConditionType) bool {
		return k.givenUp || changed && t == corev1.NodeReady || k.pressureChanged && t == corev1.NodeDiskPressure
	}, k.now())
	if err == nil {
		err = k.client.do(ctx, http.MethodPatch, k.nodePath()+"/status", nil, body, nil)
	}
	if err != nil {
		k.os.klog('E', "kubelet_node_status.go:548", "Error updating node status, will retry",
			"err", fmt.Sprintf("error getting node %q: %s", k.name, k.said(err, "Get", k.nodePath()+"?resourceVersion=0&timeout=10s")))
		// As with the kubelet, a node whose object was deleted is not registered again.
		k.trouble(ctx, "reporting the node's status", err)
		delay := k.retryDelay()
		if apierrors.IsNotFound(err) {
			delay = notFoundRetry
		}
		k.statusDue = k.now().Add(delay)
		if changed {
			k.statusDue = k.statusDue.Add(statusInterval)
		}
		k.m.tries(k.statusDue)
		return
	}
	k.recovered(ctx)
	k.givenUp, k.pressureChanged = false, false
	k.statusDue = k.now().Add(statusInterval - rand.N(statusInterval/10))
	if changed {
		k.ready = k.network
		if k.ready {
			k.os.klog('I', "kubelet_node_status.go:512", "Fast updating node status as it just became ready")
			k.events.nodeEvent(k.now(), corev1.EventTypeNormal, "NodeReady", fmt.Sprintf("Node %s status is now: NodeReady", k.name))
		}
	}
	if k.ready {
		k.m.step(ctx, node.StepReady, nil, "node "+k.name)
		k.m.phase(node.PhaseReady, "")
	}
}

func (k *kubelet) retryDelay() time.Duration { return time.Second + rand.N(time.Second) }

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

// renewLease writes the node's lease.
func (k *kubelet) renewLease(ctx context.Context) {
	now := k.now()
	if k.lease == nil {
		k.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: k.name, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.name, UID: k.uid}},
		}}
	}
	k.lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	k.lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &k.name, LeaseDurationSeconds: ptr(int32(leaseSeconds)), RenewTime: ptr(metav1.NewMicroTime(now)),
	}
	var out coordinationv1.Lease
	var err error
	if k.lease.ResourceVersion == "" {
		err = k.client.do(ctx, http.MethodPost, leasePath, nil, k.lease, &out)
	} else {
		err = k.client.do(ctx, http.MethodPut, leasePath+"/"+k.name, nil, k.lease, &out)
	}
	switch {
	case err == nil:
		k.recovered(ctx)
		out.ManagedFields = nil
		k.lease = &out
		interval := k.leaseInterval()
		k.leaseDue = now.Add(interval - rand.N(interval/20))
		if k.now().Sub(k.renewed) > leaseSeconds*time.Second {
			k.givenUp, k.statusDue = true, k.now()
		}
		k.renewed = now
		return
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		err = k.client.do(ctx, http.MethodGet, leasePath+"/"+k.name, nil, nil, &out)
		if err == nil {
			out.ManagedFields = nil
			k.lease = &out
			return // due at once, now against the right version
		}
	case apierrors.IsNotFound(err):
		k.lease = nil
	}
	if ctx.Err() == nil {
		k.os.klog('E', "controller.go:195", "Failed to update lease", "err", k.said(err, "Put", leasePath+"/"+k.name+"?timeout=10s"))
	}
	k.trouble(ctx, "renewing the node's lease", err)
	k.leaseDue = k.now().Add(k.retryDelay())
	k.m.tries(k.leaseDue)
}

// leaseInterval returns how often leases are renewed in a cluster of this size.
func (k *kubelet) leaseInterval() time.Duration {
	nodes := k.m.rt.clusters.nodes(k.client.cluster)
	return min(max(leaseInterval, leaseInterval*time.Duration(nodes)/leaseNodes), 2*leaseInterval)
}

// trouble records that the cluster cannot be reached or does not accept the node any more.
func (k *kubelet) trouble(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || err == nil {
		return
	}
	err = explain(err, k.m.in)
	k.m.phase(node.PhaseRegistered, what+": "+err.Error())
	if se, ok := errors.AsType[*stepError](err); ok {
		k.troubled = se.step
		if se.step == node.StepIdentity {
			err = k.m.withReason(ctx, k, err)
		}
		k.m.step(ctx, se.step, err, "")
	}
	k.m.rt.log.Debug("simulated node", "instance", k.m.in.ID, "node", k.name, "what", what, "err", err)
}

// recovered undoes what trouble recorded.
func (k *kubelet) recovered(ctx context.Context) {
	if k.troubled == "" {
		return
	}
	k.m.step(ctx, k.troubled, nil, "recovered")
	k.troubled = ""
	if k.ready {
		k.m.phase(node.PhaseReady, "")
	}
}

// update is a message from the watch: one pod, or all pods.
type update struct {
	gone bool
	pod  *corev1.Pod
	list []corev1.Pod
	all  bool
}

// follow watches the node's pods until ctx ends.
func (k *kubelet) follow(ctx context.Context, updates chan<- update) {
	send := func(u update) {
		select {
		case updates <- u:
		case <-ctx.Done():
		}
	}
	// A new node has no pods to list.
	version := "0"
	relist := k.existed
	var delay time.Duration
	for ctx.Err() == nil {
		var err error
		if relist {
			var list corev1.PodList
			query := url.Values{"fieldSelector": {"spec.nodeName=" + k.name}, "resourceVersion": {"0"}}
			if err = k.client.do(ctx, http.MethodGet, "/api/v1/pods", query, nil, &list); err == nil {
				send(update{all: true, list: list.Items})
				version, relist = list.ResourceVersion, false
			}
		}
		began := k.now()
		if err == nil {
			err = k.client.watchPods(ctx, k.name, version, watchTime-rand.N(watchTime/3), func(t watch.EventType, p *corev1.Pod) {
				version, delay = p.ResourceVersion, 0
				if t == watch.Bookmark {
					return
				}
				send(update{pod: p, gone: t == watch.Deleted})
			})
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && k.m.rt.clock.Since(began) > time.Second: // the watch ended when it was supposed to
			continue
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			relist = true
		}
		if err != nil {
			// https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/client-go/tools/cache/reflector.go
			k.os.klog('E', "reflector.go:205", "Failed to watch", "err", "failed to list *v1.Pod: "+k.said(err, "Get", "/api/v1/pods?fieldSelector=spec.nodeName%3D"+k.name),
				"logger", "UnhandledError", "reflector", "pkg/kubelet/config/apiserver.go:66", "type", "*v1.Pod")
		}
		k.m.rt.log.Debug("simulated node: watching pods", "instance", k.m.in.ID, "node", k.name, "err", err)
		delay = min(max(delay*2, 200*time.Millisecond), 10*time.Second)
		if !k.m.sleep(ctx, delay+rand.N(delay)) {
			return
		}
	}
}

package simulated

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/node"
)

// awsNode is what a node's pod of the DaemonSet aws-node says about the CNI plugin in it.
type awsNode struct {
	env map[string]string // of the container aws-node
	// role is the role that IAM roles for service accounts give it, and identity says that EKS Pod Identity gives it
	// one. Without either, it acts as the node.
	role     string
	identity bool
}

// The container of aws-node that runs the CNI's daemon, and its service account.
const (
	awsNodeContainer = "aws-node"
	awsNodeAccount   = "aws-node"
)

// newAWSNode reads the pod of aws-node. It returns nil for other pods.
func newAWSNode(p *corev1.Pod) *awsNode {
	if p.Namespace != metav1.NamespaceSystem || p.Labels["k8s-app"] != "aws-node" {
		return nil
	}
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == awsNodeContainer })
	if i < 0 {
		return nil
	}
	a := &awsNode{env: map[string]string{}}
	for _, e := range p.Spec.Containers[i].Env {
		a.env[e.Name] = e.Value
	}
	a.role, a.identity = a.env["AWS_ROLE_ARN"], a.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] != ""
	return a
}

// daemon returns the container in which the CNI's daemon runs, or nil if it does not run.
func (p *pod) daemon() *container {
	if p == nil || p.ended() || p.stopped {
		return nil
	}
	for i := range p.apps {
		if c := &p.apps[i]; c.name == awsNodeContainer && c.state == running {
			return c
		}
	}
	return nil
}

// hasOwnCNI reports whether the network of pods works without aws-node, as on Fargate.
func (k *kubelet) hasOwnCNI() bool { return k.m.in.Fargate || k.isManaged() }

// isManaged reports whether the node is one of EKS Auto Mode, on which the network of pods is part of the system.
func (k *kubelet) isManaged() bool { return k.m.in.Operator != "" }

// followCNI starts the CNI's daemon when its container starts, and stops it with the container.
func (k *kubelet) followCNI(ctx context.Context) {
	k.noteImage(ctx)
	c := k.cni.daemon()
	switch {
	case c == nil:
		k.ipam.container, k.ipam.running, k.networkDue = "", false, time.Time{}
	case c.id != k.ipam.container:
		k.ipam.container, k.ipam.running = c.id, false
		k.ipam.cfg = parseCNI(k.cni.aws.env)
		k.ipam.credentials = nil
		if k.cni.adopted && k.network {
			k.resumeCNI(ctx)
			return
		}
		k.networkDue, k.networkDelay = k.now(), 0
	}
}

// resumeCNI continues with a daemon that was running before this program was restarted.
func (k *kubelet) resumeCNI(ctx context.Context) {
	k.cni.adopted = false
	if err := k.ipam.load(ctx); err != nil {
		k.ipam.log("%v", err)
		k.networkDue = k.now().Add(networkRetryFirst)
		return
	}
	k.ipam.running = true
	k.m.step(ctx, node.StepNetwork, nil, k.ipam.has())
	k.ipam.changed()
	k.wake()
}

// noteImage records whether the images of aws-node have been pulled.
func (k *kubelet) noteImage(ctx context.Context) {
	if k.cni == nil || k.network {
		return
	}
	for _, s := range k.cni.troubles(nil) {
		if s.Name == node.StepPodImage {
			k.m.record(ctx, node.Step{Name: node.StepImage, Evidence: s.Evidence, Decision: s.Decision})
			k.m.phase(node.PhaseRegistered, s.Evidence)
			for _, cs := range [][]container{k.cni.inits, k.cni.apps} {
				for i := range cs {
					if at := cs[i].pull.retry; at.After(k.now()) {
						k.m.tries(at)
					}
				}
			}
			return
		}
	}
	if c := k.cni.daemon(); c != nil {
		k.m.step(ctx, node.StepImage, nil, c.image)
	}
}

// setUpNetwork starts the CNI's daemon. Without it and its permissions to manage addresses for pods, the node does
// not become Ready.
func (k *kubelet) setUpNetwork(ctx context.Context) {
	err := k.startIPAM(ctx)
	if err != nil {
		k.networkDelay = min(max(2*k.networkDelay, networkRetryFirst), networkRetry)
		k.networkDue = k.now().Add(k.networkDelay)
		if ctx.Err() == nil {
			k.failedNetwork(ctx, err)
		}
		return
	}
	k.ipam.running, k.network, k.networkDue, k.networkDelay = true, true, time.Time{}, 0
	k.markCNI(ctx, true)
	k.m.step(ctx, node.StepNetwork, k.ipam.problem, k.ipam.has())
	k.addressTrouble = k.ipam.problem != nil
	k.wake()
}

// failedNetwork reports why the CNI's daemon does not start.
func (k *kubelet) failedNetwork(ctx context.Context, err error) {
	k.ipam.log("%s", err)
	k.markCNI(ctx, false)
	if k.network { // it was set up once, and its configuration stays on the disk
		return
	}
	k.m.step(ctx, node.StepNetwork, err, "")
	k.m.phase(node.PhaseRegistered, err.Error())
	k.m.tries(k.networkDue)
}

// markCNI sets whether the daemon's container is ready.
//
// AWS deviation: if it is not ready for long, its liveness probe restarts it.
func (k *kubelet) markCNI(ctx context.Context, ready bool) {
	c := k.cni.daemon()
	if c == nil || c.unready == !ready {
		return
	}
	c.unready = !ready
	if c.unready {
		k.cni.event(k.now(), corev1.EventTypeWarning, "Unhealthy", `Readiness probe failed: timeout: failed to connect service ":50051" within 5s`, c)
	}
	k.cni.dirty, k.cni.due = true, k.now()
}

// startIPAM starts the daemon.
func (k *kubelet) startIPAM(ctx context.Context) error {
	if k.isManaged() {
		k.ipam.manage(k.m.clusterName(), k.name, k.hostIP.Is6())
		return k.ipam.start(ctx)
	}
	if k.hasOwnCNI() { // the pod has the machine's address
		k.ipam.cfg.noProvisioning = true
		k.ipam.pool.set([]node.PodInterface{{Addresses: []netip.Addr{k.hostIP}}}, false)
		return nil
	}
	return k.ipam.start(ctx)
}

// cniPod returns the pod in which the daemon runs, or nil.
func (k *kubelet) cniPod() *cniPod {
	if k.cni == nil {
		return nil
	}
	return &cniPod{
		Cluster: Cluster{Name: k.m.clusterName(), Node: k.name, API: k.client, AgentRuns: func(context.Context) bool { return k.runs(PodIdentityAgent) }},
		m:       k.m, namespace: k.cni.namespace, name: k.cni.name, uid: k.cni.uid, aws: k.cni.aws,
	}
}

// runs reports whether a pod with that name prefix runs on the node.
func (k *kubelet) runs(prefix string) bool {
	for _, p := range k.pods {
		if strings.HasPrefix(p.name, prefix) && p.phase == corev1.PodRunning && !p.stopped {
			return true
		}
	}
	return false
}

// denied reports a missing permission as the daemon does: by an event of its pod.
func (k *kubelet) denied(_ context.Context, action string) {
	if k.cni == nil {
		return
	}
	k.cni.event(k.now(), corev1.EventTypeWarning, missingPermission, missingPermissionText(action), nil)
	k.cni.due = k.now()
}

// loseCNI ends the daemon with its pod. The node stays as ready as it is.
func (k *kubelet) loseCNI() {
	k.cni = nil
	for _, p := range k.pods { // its successor, which may have come first
		if p.aws != nil && !p.deleting {
			k.cni, p.due = p, k.now()
		}
	}
	if k.cni == nil && !k.hasOwnCNI() {
		k.ipam.container, k.ipam.running, k.networkDue = "", false, time.Time{}
	}
}

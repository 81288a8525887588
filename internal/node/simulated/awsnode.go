package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	authenticationv1 "k8s.io/api/authentication/v1"
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

// identifyCNI gets the credentials that sign the daemon's calls. Nil means the node's.
func (k *kubelet) identifyCNI(ctx context.Context) (*aws.Credentials, error) {
	a := k.cni
	if a == nil || a.aws.role == "" && !a.aws.identity {
		return nil, nil
	}
	if k.m.rt.cfg.PodCredentials == nil {
		return nil, errors.New("no credential provider is configured for pods")
	}
	id := node.PodIdentity{Cluster: k.m.clusterName(), Namespace: a.namespace, ServiceAccount: awsNodeAccount, RoleARN: a.aws.role}
	audience := "sts.amazonaws.com"
	if a.aws.role == "" {
		audience = "pods.eks.amazonaws.com"
		if !k.runs("eks-pod-identity-agent-") {
			return nil, errors.New("failed to refresh cached credentials, failed to load credentials, exceeded maximum number of attempts, 3, : " +
				"Get \"http://169.254.170.23/v1/credentials\": dial tcp 169.254.170.23:80: connect: connection refused")
		}
	}
	token, err := k.token(ctx, a, audience)
	if err != nil {
		return nil, fmt.Errorf("a token for the service account %s: %w", awsNodeAccount, err)
	}
	id.Token = token
	creds, err := k.m.rt.cfg.PodCredentials(ctx, k.m.in, id)
	if err != nil {
		return nil, err
	}
	return &creds, nil
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

// token asks the API server for a token of a pod's service account, as the kubelet does for the pod's volumes. An
// empty audience means the API server's.
func (k *kubelet) token(ctx context.Context, p *pod, audience ...string) (string, error) {
	req := &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: audience, ExpirationSeconds: ptr(int64(3600)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.name, UID: p.uid},
		},
	}
	var out authenticationv1.TokenRequest
	err := k.client.do(ctx, http.MethodPost, "/api/v1/namespaces/"+p.namespace+"/serviceaccounts/"+awsNodeAccount+"/token", nil, req, &out)
	return out.Status.Token, err
}

// findENIConfig finds the ENIConfig of the node, as the daemon's service account.
// https://github.com/aws/amazon-vpc-cni-k8s/blob/master/pkg/eniconfig/eniconfig.go
func (k *kubelet) findENIConfig(ctx context.Context) (subnet string, groups []string, err error) {
	if k.cni == nil {
		return "", nil, errors.New("eniconfig: eniconfig is not available")
	}
	var n corev1.Node
	if err := k.client.do(ctx, http.MethodGet, k.nodePath(), nil, nil, &n); err != nil {
		return "", nil, err
	}
	c := &k.ipam.cfg
	name, ok := n.Labels["vpc.amazonaws.com/externalEniConfig"]
	if !ok {
		name, ok = n.Annotations[c.eniConfigAnnotation]
	}
	if !ok {
		name, ok = n.Labels[c.eniConfigLabel]
	}
	if !ok {
		name = "default"
	}
	token, err := k.token(ctx, k.cni)
	if err != nil {
		return "", nil, err
	}
	var config struct {
		Spec struct {
			Subnet         string   `json:"subnet"`
			SecurityGroups []string `json:"securityGroups"`
		} `json:"spec"`
	}
	if err := k.client.getAs(ctx, token, "/apis/crd.k8s.amazonaws.com/v1alpha1/eniconfigs/"+name, &config); err != nil {
		return "", nil, fmt.Errorf("eniconfig: eniconfig is not available: %s: %w", name, err)
	}
	return config.Spec.Subnet, config.Spec.SecurityGroups, nil
}

// denied reports a missing permission as the daemon does: by an event of its pod.
func (k *kubelet) denied(action string) {
	if k.cni == nil {
		return
	}
	k.cni.event(k.now(), corev1.EventTypeWarning, "MissingIAMPermissions", "Unauthorized operation: failed to call "+action+
		" due to missing permissions. Please refer https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/iam-policy.md to attach relevant policy to IAM role", nil)
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

package simulated

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

// call checks whether the instance's role may call an AWS API, after the time that a program would have waited for
// the answer.
func (m *instance) call(ctx context.Context, action string) error {
	err := m.decide(ctx, node.Call{Action: action})
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		m.sleep(ctx, m.rt.cfg.Patience)
	}
	return err
}

// decide checks the same at once.
func (m *instance) decide(ctx context.Context, c node.Call) error {
	if m.rt.cfg.Call == nil {
		return nil
	}
	return m.rt.cfg.Call(ctx, m.in, c)
}

// credentials returns those of the instance's role.
func (m *instance) credentials(ctx context.Context) (aws.Credentials, error) {
	return m.rt.cfg.Credentials(ctx, m.in.ID)
}

// puller pulls images as the instance's role.
func (m *instance) puller() image.Puller {
	p := image.Puller{Call: m.decide, Patience: m.rt.cfg.Patience}
	if m.rt.cfg.Connect != nil {
		p.Connect = func(ctx context.Context, host string, port int) error { return m.rt.cfg.Connect(ctx, m.in, host, port) }
	}
	if m.rt.cfg.Image != nil {
		p.Exists = func(ctx context.Context, n image.Name) error {
			return m.rt.cfg.Image(ctx, m.in, n.Registry, n.Repository, n.Reference)
		}
	}
	return p
}

// learnName gets the node's private DNS name from EC2, as nodeadm and Bottlerocket's pluto do at boot, and not when the kubelet
// is restarted; bootstrap.sh has already done it. It returns false if ctx ended.
//
// AWS deviation: nodeadm gives up after some minutes, and only a reboot makes it try again.
func (m *instance) learnName(ctx context.Context, os *system) bool {
	if m.in.Image.Family != images.AL2023 && m.in.Image.Family != images.Bottlerocket || m.in.Operator != "" { // nodes of EKS Auto Mode have their IDs as names
		return true
	}
	if os.booted != nil {
		return true
	}
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 7*time.Second) {
		err := m.call(ctx, node.ActionDescribeInstances)
		if ctx.Err() != nil {
			return false
		}
		m.step(ctx, node.StepName, err, m.in.PrivateDNSName)
		if err == nil {
			return true
		}
		m.phase(node.PhaseJoining, err.Error())
		if os.ami != nil {
			os.ami.NodeadmFailed(err, true)
		}
		if !m.pause(ctx, delay+rand.N(delay)) {
			return false
		}
	}
}

// join registers the node, retrying as the kubelet does, and reports whether it succeeded before ctx ended.
func (m *instance) join(ctx context.Context, os *system, k *kubelet) bool {
	delay := 100 * time.Millisecond
	for {
		// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet_node_status.go
		os.klog('I', "kubelet_node_status.go:75", "Attempting to register node", "node", k.name)
		err := k.register(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			os.klog('I', "kubelet_node_status.go:78", "Successfully registered node", "node", k.name)
			m.connected(ctx, k)
			m.step(ctx, node.StepIdentity, nil, "role "+m.in.RoleARN)
			m.step(ctx, node.StepRegister, nil, "node "+k.name)
			m.compareVersions(ctx, k)
			m.phase(node.PhaseRegistered, "")
			return true
		}
		os.logFailure(k, err)
		err = explain(err, m.in)
		name := node.StepRegister
		if se, ok := errors.AsType[*stepError](err); ok {
			name = se.step
		}
		switch name {
		case node.StepIdentity:
			m.connected(ctx, k)
			err = m.withReason(ctx, k, err)
		case node.StepRegister:
			m.connected(ctx, k)
			m.step(ctx, node.StepIdentity, nil, "role "+m.in.RoleARN)
		}
		m.step(ctx, name, err, "")
		m.phase(node.PhaseJoining, err.Error())
		if !m.pause(ctx, delay+rand.N(delay)) {
			return false
		}
		// The kubelet's maximum is 7 s. A node that a rule keeps out should not keep a core busy either.
		delay = min(delay*2, 7*time.Second)
	}
}

// connected records the steps that are proven by an answer of the API server.
func (m *instance) connected(ctx context.Context, k *kubelet) {
	m.step(ctx, node.StepCredentials, nil, "of the role "+m.in.RoleARN)
	to := k.endpoint
	if r := k.client.route.Load(); r != nil {
		m.step(ctx, node.StepDNS, nil, fmt.Sprintf("%s is %s, by %s", r.Name, r.Address, r.By))
		to = r.Name + " at " + net.JoinHostPort(r.Address.String(), "443")
	}
	m.step(ctx, node.StepEndpoint, nil, to)
}

// withReason adds to an error why the cluster does not accept the node.
func (m *instance) withReason(ctx context.Context, k *kubelet, err error) error {
	if m.rt.cfg.WhyUnauthorized == nil {
		return err
	}
	token, terr := k.client.identity.bearer(ctx)
	if terr != nil {
		return err
	}
	why := m.rt.cfg.WhyUnauthorized(ctx, m.in, k.client.host, token)
	if why == nil {
		return err
	}
	return failed(node.StepIdentity, &node.Refusal{Err: err, Decision: *why})
}

// compareVersions warns about a kubelet that is too old or too new for the control plane.
func (m *instance) compareVersions(ctx context.Context, k *kubelet) {
	if m.rt.cfg.ControlPlaneVersion == nil {
		return
	}
	if s, ok := CompareVersions(m.in, m.rt.cfg.ControlPlaneVersion(k.client.host)); ok {
		m.record(ctx, s)
	}
}

// CompareVersions returns the step that warns about a kubelet that is too old or too new for a control plane of a version.
// It returns false if one of the versions is not known. Nothing keeps such a node out: it registers and becomes Ready, and
// problems appear later.
// https://github.com/awslabs/amazon-eks-ami/issues/2119 https://kubernetes.io/releases/version-skew-policy/#kubelet
func CompareVersions(in machine.Instance, plane string) (node.Step, bool) {
	own, other := minor(in.Image.KubeletVersion), minor(plane)
	if own < 0 || other < 0 {
		return node.Step{}, false
	}
	s := node.Step{Name: node.StepVersion, OK: true, Evidence: "kubelet " + in.Image.KubeletVersion + ", control plane " + plane}
	why := node.Decision{By: node.ByKubernetes, Code: "VersionSkew", Component: "kubelet " + in.Image.KubeletVersion}
	switch {
	case own > other:
		why.Text = "kubelet " + in.Image.KubeletVersion + " is newer than the control plane, " + plane + ", which Kubernetes does not support: the node joins, and may misbehave"
		// A newer control plane would also help, but Drydock does not update clusters yet.
		why.Fixes = []advice.Fix{otherImage(in, plane)}
	case other-own > 3:
		why.Text = "kubelet " + in.Image.KubeletVersion + " is more than three minor versions older than the control plane, " + plane + ", which Kubernetes does not support: the node joins, and may misbehave"
		why.Fixes = []advice.Fix{otherImage(in, plane)}
	default:
		return s, true
	}
	s.Warning, s.Decision = true, &why
	return s, true
}

// otherImage returns the image of nodes for a version of the control plane.
func otherImage(in machine.Instance, plane string) advice.Fix {
	return advice.Sketch("launch nodes of this image in place of "+in.ID,
		"aws ssm get-parameter --name /aws/service/eks/optimized-ami/"+plane+"/amazon-linux-2023/x86_64/standard/recommended/image_id --query Parameter.Value --output text --region "+in.Region)
}

func (m *instance) clusterName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info.Cluster
}

// minor returns the second number of a version, or -1.
func minor(version string) int {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || parts[0] != "1" {
		return -1
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return -1
	}
	return n
}

// explain returns the step at which an API call failed, with a text that does not change from one attempt to the
// next.
func explain(err error, in machine.Instance) error {
	if _, ok := errors.AsType[*stepError](err); ok {
		return err
	}
	if ce, ok := errors.AsType[*credentialsError](err); ok {
		return failed(node.StepCredentials, ce)
	}
	if de, ok := errors.AsType[*dialError](err); ok {
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return failed(node.StepDNS, fmt.Errorf("resolving the API endpoint: %w", de))
		}
		return failed(node.StepEndpoint, fmt.Errorf("connecting to the API endpoint: %w", de))
	}
	if ua, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return failed(node.StepEndpoint, fmt.Errorf("the API endpoint's certificate was not signed by the certificate authority in user data: %w", ua))
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return failed(node.StepEndpoint, fmt.Errorf("the API endpoint did not answer within %v", callTimeout))
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return failed(node.StepIdentity, fmt.Errorf("Unauthorized: the cluster does not map the role %s", in.RoleARN)) //nolint:staticcheck // the kubelet's text
	case apierrors.IsForbidden(err):
		return failed(node.StepRegister, err)
	case apierrors.ReasonForError(err) != "":
		return failed(node.StepRegister, err)
	default:
		return failed(node.StepEndpoint, err)
	}
}

package simulated_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const nodeName = "ip-10-0-0-1.ec2.internal"

// bench is a runtime, one API server, and the parts of AWS around them.
type bench struct {
	t   *testing.T
	api *fakeAPI
	ec2 *fakeEC2
	rt  *simulated.Runtime

	mu       sync.Mutex
	steps    []node.Step
	dialErr  error
	credsErr error
	cni      string // environment of aws-node
	metadata func(string) http.RoundTripper
	script   func(context.Context, shell.Job) (shell.Result, error) // nil means that machines have no shell
	broken   func(machine.Instance, string) *fault.Fault
	// call and connect decide about AWS APIs and connections; nil allows all.
	call    func(node.Call) error
	connect func(host string) error

	podCredentials func(context.Context, machine.Instance, node.PodIdentity) (aws.Credentials, error)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, api: newFakeAPI(t), ec2: newFakeEC2(100)}
	b.start()
	t.Cleanup(func() {
		if err := b.rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// awsNode is the pod of the CNI that the DaemonSet controller makes for a node.
func (b *bench) awsNode() *corev1.Pod {
	p := pod("aws-node")
	p.Namespace, p.Labels = "kube-system", map[string]string{"k8s-app": "aws-node"}
	p.Spec.HostNetwork = true
	c := &p.Spec.Containers[0]
	c.Name, c.Image, c.ImagePullPolicy = "aws-node", "602401143452.dkr.ecr.us-east-1.amazonaws.com/amazon-k8s-cni:v1.20.4-eksbuild.2", corev1.PullIfNotPresent
	for _, e := range strings.Fields("CLUSTER_NAME=dev " + b.cni) {
		name, value, _ := strings.Cut(e, "=")
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	return p
}

// restartWithShell starts the runtime again, and from then on scripts really run.
func (b *bench) restartWithShell() {
	b.t.Helper()
	b.script = func(ctx context.Context, job shell.Job) (shell.Result, error) { return shell.Run(ctx, job) }
	if err := b.rt.Shutdown(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.start()
}

// start makes a runtime, as a daemon's start does.
func (b *bench) start() {
	b.t.Helper()
	if b.api.daemons == nil {
		b.api.daemons = func() []*corev1.Pod { return []*corev1.Pod{b.awsNode()} }
	}
	rt := simulated.New(node.Config{
		Credentials: func(_ context.Context, id string) (aws.Credentials, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return aws.Credentials{AccessKeyID: "ASIA" + id, SecretAccessKey: "secret", SessionToken: "session"}, b.credsErr
		},
		DialEndpoint: func(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error) {
			b.mu.Lock()
			err := b.dialErr
			b.mu.Unlock()
			if host != endpointHost || port != 443 {
				b.t.Errorf("%s dials %s:%d", in.ID, host, port)
			}
			if err != nil {
				return nil, err
			}
			return b.api.dial(ctx)
		},
		Call: func(_ context.Context, _ machine.Instance, c node.Call) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.call == nil {
				return nil
			}
			return b.call(c)
		},
		Connect: func(_ context.Context, _ machine.Instance, host string, _ int) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.connect == nil {
				return nil
			}
			return b.connect(host)
		},
		Patience:   5 * time.Second,
		PodNetwork: b.ec2,
		PodCredentials: func(ctx context.Context, in machine.Instance, id node.PodIdentity) (aws.Credentials, error) {
			return b.podCredentials(ctx, in, id)
		},
		Step: func(_ context.Context, s node.Step) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.steps = append(b.steps, s)
		},
		Log: testkit.Log(b.t),
	}, simulated.Options{Metadata: b.metadata, RunScript: b.script, Broken: b.broken})
	b.rt = rt
}

func (b *bench) instance() machine.Instance {
	return machine.Instance{
		Account: "000000000000", Region: "us-east-1", ID: "i-0123456789abcdef0", BootID: "1",
		Type:    instancetypes.Type{Name: "m5.large", VCPU: 2, MemoryMiB: 8192, ENIs: 3, IPv4PerENI: 10},
		Image:   images.Image{ID: "ami-1", Architecture: "x86_64", Family: images.AL2023, KubeletVersion: "1.36.2"},
		DiskGiB: 20, AvailabilityZone: "us-east-1a", ZoneID: "use1-az1", PrivateIP: netip.MustParseAddr("10.0.0.1"),
		PrivateDNSName: nodeName, RoleARN: "arn:aws:iam::000000000000:role/node",
		UserData: nodeadmUserData(b.api.caPEM, "  kubelet:\n    flags: [--node-labels=eks.amazonaws.com/nodegroup=ng, --register-with-taints=a=b:NoSchedule]"),
	}
}

func (b *bench) launch(in machine.Instance) {
	b.t.Helper()
	if err := b.rt.Start(b.t.Context(), in); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) info() node.Info {
	b.t.Helper()
	info, ok := b.rt.Info("i-0123456789abcdef0")
	if !ok {
		b.t.Fatal("the instance is not known")
	}
	return info
}

// failedSteps returns the names and evidence of failed steps.
func (b *bench) failedSteps() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, s := range b.steps {
		if !s.OK {
			out = append(out, s.Name+": "+s.Evidence)
		}
	}
	return out
}

// after lets d pass, with everything that happens in it.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}

func TestNodeJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)

		if got := b.info(); got.Phase != node.PhaseReady || got.NodeName != nodeName || got.Cluster != "dev" || got.Problem != "" {
			t.Fatalf("info: %+v, failed steps %q", got, b.failedSteps())
		}
		// A node joins with four writes, including its CNI's, and emits events.
		want := []string{
			"POST /api/v1/nodes",
			"POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
			"POST /api/v1/namespaces/default/events",
			"PATCH /api/v1/namespaces/kube-system/pods/aws-node/status",
			"PATCH /api/v1/nodes/" + nodeName + "/status",
			"POST /api/v1/namespaces/kube-system/events",
			"POST /api/v1/namespaces/kube-system/events",
			"POST /api/v1/namespaces/kube-system/events",
			"POST /api/v1/namespaces/kube-system/events",
			"POST /api/v1/namespaces/default/events",
		}
		got := b.api.takeWrites()
		slices.Sort(want)
		slices.Sort(got) // events are written when there is nothing else to do
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		n := b.api.node(nodeName)
		if diff := cmp.Diff(map[string]string{
			"kubernetes.io/hostname": nodeName, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
			"node.kubernetes.io/instance-type": "m5.large", "beta.kubernetes.io/instance-type": "m5.large",
			"topology.kubernetes.io/zone": "us-east-1a", "topology.kubernetes.io/region": "us-east-1",
			"failure-domain.beta.kubernetes.io/zone": "us-east-1a", "failure-domain.beta.kubernetes.io/region": "us-east-1",
			"topology.k8s.aws/zone-id": "use1-az1", "eks.amazonaws.com/nodegroup": "ng",
		}, n.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if got := n.Spec.ProviderID; got != "aws:///us-east-1a/i-0123456789abcdef0" {
			t.Errorf("provider ID %s", got)
		}
		if diff := cmp.Diff([]corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}}, n.Spec.Taints); diff != "" {
			t.Error(diff)
		}
		if got := n.Status.NodeInfo.KubeletVersion; !strings.HasPrefix(got, "v1.36.2-eks-") || len(got) != len("v1.36.2-eks-")+7 {
			t.Errorf("kubelet version %s", got)
		}
		if got := n.Status.Conditions[3]; got.Type != corev1.NodeReady || got.Status != corev1.ConditionTrue || got.Reason != "KubeletReady" {
			t.Errorf("condition %+v", got)
		}
		l := b.api.lease(nodeName)
		if *l.Spec.HolderIdentity != nodeName || *l.Spec.LeaseDurationSeconds != 40 || l.OwnerReferences[0].UID != n.UID {
			t.Errorf("lease %+v", l)
		}
		var reasons []string
		for _, e := range b.api.events() {
			if e.InvolvedObject.Kind == "Node" {
				reasons = append(reasons, e.Reason)
			}
		}
		if diff := cmp.Diff([]string{"Starting", "NodeReady"}, reasons); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTokenIsAPresignedCallOfTheNodesRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)
		tokens := b.api.seenTokens()
		if len(tokens) != 1 {
			t.Fatalf("%d tokens", len(tokens))
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(tokens[0], "k8s-aws-v1."))
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		got := map[string]string{"host": u.Host, "path": u.Path}
		for _, k := range []string{"Action", "Version", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Security-Token"} {
			got[k] = q.Get(k)
		}
		if diff := cmp.Diff(map[string]string{
			"host": "sts.us-east-1.amazonaws.com", "path": "/", "Action": "GetCallerIdentity", "Version": "2011-06-15",
			"X-Amz-Expires": "60", "X-Amz-SignedHeaders": "host;x-k8s-aws-id", "X-Amz-Security-Token": "session",
		}, got); diff != "" {
			t.Error(diff)
		}
		// The cluster accepts it for 15 minutes, and it is renewed before that.
		after(14 * time.Minute)
		if got := len(b.api.seenTokens()); got != 2 {
			t.Errorf("%d tokens after 14 minutes", got)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)
		b.api.takeWrites()
		after(10 * time.Minute)
		var leases, status int
		for _, w := range b.api.takeWrites() {
			switch {
			case strings.HasPrefix(w, "PUT /apis/coordination.k8s.io/"):
				leases++
			case strings.HasPrefix(w, "PATCH /api/v1/nodes/"):
				status++
			default:
				t.Errorf("write %s", w)
			}
		}
		if leases < 58 || leases > 65 || status != 2 {
			t.Errorf("%d lease renewals and %d status reports in 10 minutes", leases, status)
		}
		if age := time.Since(b.api.lease(nodeName).Spec.RenewTime.Time); age > 11*time.Second {
			t.Errorf("the lease is %v old", age)
		}
		if err := machine.Stop(t.Context(), b.rt, "i-0123456789abcdef0", true); err != nil {
			t.Fatal(err)
		}
		b.api.takeWrites()
		after(time.Minute)
		if got := b.api.takeWrites(); got != nil {
			t.Errorf("an instance that is off writes: %q", got)
		}
		if _, ok := b.rt.Info("i-0123456789abcdef0"); ok {
			t.Error("an instance that is off is still known")
		}
	})
}

func TestPodsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)
		b.api.takeWrites()
		b.api.bind(nodeName, pod("web"))
		after(time.Second)
		p := b.api.pod("web")
		if p.Status.Phase != corev1.PodRunning || p.Status.PodIP != "10.0.1.1" || p.Status.HostIP != "10.0.0.1" {
			t.Fatalf("status %+v", p.Status)
		}
		// One write of status; the rest are events.
		want := []string{
			"PATCH /api/v1/namespaces/default/pods/web/status",
			"POST /api/v1/namespaces/default/events", "POST /api/v1/namespaces/default/events",
			"POST /api/v1/namespaces/default/events", "POST /api/v1/namespaces/default/events",
		}
		if diff := cmp.Diff(want, b.api.takeWrites()); diff != "" {
			t.Error(diff)
		}
		b.api.deletePod("web", 30)
		after(time.Second)
		if b.api.pod("web") != nil {
			t.Error("the pod is still there")
		}
		if got := b.api.takeWrites(); len(got) == 0 || got[0] != "DELETE /api/v1/namespaces/default/pods/web" {
			t.Errorf("writes %q", got)
		}
		if got := b.info().Pods; got != 1 { // aws-node
			t.Errorf("%d pods", got)
		}
	})
}

// A Job counts its pods by their last status, and holds them with a finalizer until it has seen that.
func TestPodWithFinalizerGetsALastStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		p := pod("job")
		p.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
		b.api.bind(nodeName, p)
		after(time.Second)
		b.api.takeWrites()
		b.api.deletePod("job", 30)
		after(time.Second)
		got := slices.DeleteFunc(b.api.takeWrites(), func(w string) bool { return strings.HasSuffix(w, "/events") })
		want := []string{"PATCH /api/v1/namespaces/default/pods/job/status", "DELETE /api/v1/namespaces/default/pods/job"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Whatever AWS does not allow keeps the node out, with the failed step. It joins when that changes.
func TestNodeIsKeptOut(t *testing.T) {
	unauthorized := func(string, string) *apierrors.StatusError { return apierrors.NewUnauthorized("Unauthorized") }
	forbidden := func(string, string) *apierrors.StatusError {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(`User "x" cannot create resource "nodes"`))
	}
	for _, tc := range []struct {
		name   string
		change func(b *bench, in *machine.Instance)
		step   string // and evidence, a part of
		heal   func(b *bench)
	}{
		{"no route", func(b *bench, _ *machine.Instance) { b.dialErr = errors.New("no route to host") }, "endpoint: connecting to the API endpoint: ",
			func(b *bench) { b.dialErr = nil }},
		{"role not mapped", func(b *bench, _ *machine.Instance) { b.api.refuse = unauthorized }, "identity: Unauthorized: the cluster does not map the role arn:aws:iam::000000000000:role/node",
			func(b *bench) { b.api.refusing(nil) }},
		{"not a node to the cluster", func(b *bench, _ *machine.Instance) { b.api.refuse = forbidden }, "register: nodes is forbidden",
			func(b *bench) { b.api.refusing(nil) }},
		{"no credentials", func(b *bench, _ *machine.Instance) { b.credsErr = errors.New("no such role") }, "credentials: getting instance role credentials: no such role",
			func(b *bench) { b.credsErr = nil }},
		{"the wrong authority", func(b *bench, in *machine.Instance) {
			_, other := selfSigned(b.t)
			in.UserData = nodeadmUserData(other, "")
		}, "endpoint: the API endpoint's certificate was not signed by the certificate authority in user data", nil},
		{"no user data", func(_ *bench, in *machine.Instance) { in.UserData = nil }, "user-data: there is no user data: ", nil},
		{"an image without kubelet", func(_ *bench, in *machine.Instance) { in.Image.KubeletVersion = "" }, "bootstrap: image ami-1 has no kubelet", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				in := b.instance()
				tc.change(b, &in)
				b.launch(in)
				after(5 * time.Minute)
				gaveUp := strings.HasPrefix(tc.step, "user-data") || strings.HasPrefix(tc.step, "bootstrap")
				if got := b.info(); got.Phase == node.PhaseReady || got.Problem == "" || gaveUp != got.NextTry.IsZero() || time.Until(got.NextTry) > 15*time.Second {
					t.Errorf("info %+v", got)
				}
				// Once, although it was tried many times.
				if got := b.failedSteps(); len(got) != 1 || !strings.HasPrefix(got[0], tc.step) {
					t.Errorf("failed steps %q, want %q", got, tc.step)
				}
				if b.api.node(nodeName) != nil {
					t.Error("the node is registered")
				}
				if tc.heal == nil {
					return
				}
				b.mu.Lock()
				tc.heal(b)
				b.mu.Unlock()
				after(20 * time.Second)
				if got := b.info(); got.Phase != node.PhaseReady {
					t.Errorf("info %+v", got)
				}
			})
		})
	}
}

func TestAPIServerGoesAwayAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)
		b.api.refusing(func(string, string) *apierrors.StatusError { return apierrors.NewServiceUnavailable("down") })
		b.api.endWatches(nil)
		b.api.bind(nodeName, pod("web"))
		after(2 * time.Minute)
		if got := b.info(); got.Phase != node.PhaseRegistered || got.Problem == "" || time.Until(got.NextTry) > 3*time.Second || got.NextTry.IsZero() {
			t.Errorf("info %+v", got)
		}
		b.api.refusing(nil)
		after(6 * time.Minute)
		if got := b.info(); got.Phase != node.PhaseReady || got.Problem != "" || !got.NextTry.IsZero() {
			t.Errorf("info %+v", got)
		}
	})
}

func TestNodeThatWasGivenUpComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)
		b.api.refusing(func(_, path string) *apierrors.StatusError {
			if strings.Contains(path, "/leases") {
				return apierrors.NewServiceUnavailable("slow")
			}
			return nil
		})
		after(55 * time.Second)
		b.api.giveUp(nodeName)
		b.api.refusing(nil)
		after(5 * time.Second)
		want := map[corev1.NodeConditionType]string{
			corev1.NodeReady: "True KubeletReady", corev1.NodeMemoryPressure: "False KubeletHasSufficientMemory",
			corev1.NodeDiskPressure: "False KubeletHasNoDiskPressure", corev1.NodePIDPressure: "False KubeletHasSufficientPID",
		}
		got := map[corev1.NodeConditionType]string{}
		for _, c := range b.api.node(nodeName).Status.Conditions {
			got[c.Type] = string(c.Status) + " " + c.Reason
			if since := time.Since(c.LastTransitionTime.Time); since > 6*time.Second {
				t.Errorf("%s changed %v ago", c.Type, since)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	})
}

func TestWatchThatExpiredIsListedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		b.api.bind(nodeName, pod("stays"))
		b.api.bind(nodeName, pod("goes"))
		after(time.Second)
		b.api.endWatches(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
		b.api.mu.Lock()
		delete(b.api.objects["pods"], "default/goes")
		b.api.mu.Unlock()
		b.api.bind(nodeName, pod("comes"))
		after(time.Minute)
		if got := b.info().Pods; got != 3 {
			t.Errorf("%d pods", got)
		}
		if got := b.api.pod("comes").Status.Phase; got != corev1.PodRunning {
			t.Errorf("the new pod is %s", got)
		}
	})
}

// The daemon ends and starts again, and the node continues.
func TestDaemonRestartLeavesPodsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		b.api.bind(nodeName, pod("web"))
		after(time.Second)
		before := b.api.pod("web")
		if err := b.rt.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.rt.Start(t.Context(), b.instance()); !errors.Is(err, machine.ErrShutdown) {
			t.Errorf("starting after the end: %v", err)
		}
		b.api.takeWrites()
		b.start()
		b.launch(b.instance())
		b.api.bind(nodeName, pod("new"))
		after(time.Second)
		if diff := cmp.Diff(before, b.api.pod("web")); diff != "" {
			t.Errorf("the pod changed (-before +after):\n%s", diff)
		}
		if got := b.api.pod("new").Status.PodIP; got == "" || got == before.Status.PodIP {
			t.Errorf("the new pod has the address %q", got)
		}
		if got := b.info(); got.Phase != node.PhaseReady || got.Pods != 3 {
			t.Errorf("info %+v", got)
		}
	})
}

func TestRebootStartsContainersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		b.api.bind(nodeName, pod("web"))
		after(time.Second)
		bootID := b.api.node(nodeName).Status.NodeInfo.BootID
		m, ok := b.rt.Machine("i-0123456789abcdef0")
		if !ok {
			t.Fatal("the machine is not on")
		}
		if err := m.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if got := b.api.pod("web").Status.ContainerStatuses[0]; got.RestartCount != 1 || got.State.Running == nil {
			t.Errorf("container %+v", got)
		}
		if got := b.api.node(nodeName).Status.NodeInfo.BootID; got == bootID {
			t.Error("the boot ID stayed")
		}
		if got := b.info().Phase; got != node.PhaseReady {
			t.Errorf("phase %s", got)
		}
		if err := m.Reboot(t.Context()); !errors.Is(err, machine.ErrOff) {
			t.Errorf("rebooting a boot that is over: %v", err)
		}
	})
}

func TestNodeTakesNoMorePodsThanItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		in := b.instance()
		in.UserData = nodeadmUserData(b.api.caPEM, "  kubelet: {config: {maxPods: 1}}")
		b.launch(in)
		after(time.Second)
		b.api.bind(nodeName, pod("first"))
		after(time.Second)
		b.api.bind(nodeName, pod("second"))
		after(time.Second)
		got := b.api.pod("second").Status
		if got.Phase != corev1.PodFailed || got.Reason != "OutOfpods" || got.Message != "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1" {
			t.Errorf("status %+v", got)
		}
	})
}

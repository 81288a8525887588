package simulated_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
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

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
)

const nodeName = "ip-10-0-0-1.ec2.internal"

// bench is a runtime, one API server, and the AWS around them.
type bench struct {
	t   *testing.T
	api *fakeAPI
	rt  *simulated.Runtime

	mu       sync.Mutex
	steps    []node.Step
	addrs    []netip.Addr
	assigns  int // how many further assignments succeed
	dialErr  error
	credsErr error
	metadata func(string) http.RoundTripper
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, api: newFakeAPI(t), assigns: 2}
	b.start()
	t.Cleanup(func() {
		if err := b.rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start makes a runtime, as a daemon's start does.
func (b *bench) start() {
	b.t.Helper()
	rt := simulated.New(node.Config{
		Metadata: b.metadata,
		Credentials: func(_ context.Context, id string) (aws.Credentials, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return aws.Credentials{AccessKeyID: "ASIA" + id, SecretAccessKey: "secret", SessionToken: "session"}, b.credsErr
		},
		DialEndpoint: func(ctx context.Context, in node.Instance, host string, port int) (net.Conn, error) {
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
		PodAddresses: func(context.Context, string) ([]netip.Addr, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.Clone(b.addrs), nil
		},
		AssignPodAddresses: func(context.Context, string) ([]netip.Addr, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.assigns == 0 {
				return nil, node.ErrAddressLimit
			}
			b.assigns--
			var out []netip.Addr
			for range 2 {
				out = append(out, netip.AddrFrom4([4]byte{10, 0, 1, byte(len(b.addrs) + len(out) + 1)}))
			}
			b.addrs = append(b.addrs, out...)
			return out, nil
		},
		Step: func(_ context.Context, s node.Step) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.steps = append(b.steps, s)
		},
		Log: slog.New(slog.DiscardHandler),
	})
	b.rt = rt
}

func (b *bench) instance() node.Instance {
	return node.Instance{
		Account: "000000000000", Region: "us-east-1", ID: "i-0123456789abcdef0", BootID: "1",
		InstanceType: "m5.large", Architecture: "x86_64", VCPU: 2, MemoryMiB: 8192, RootVolumeGiB: 20, MaxENI: 3, IPv4PerENI: 10,
		ImageID: "ami-1", AMIFamily: node.AL2023, KubeletVersion: "1.36.2",
		AvailabilityZone: "us-east-1a", AvailabilityZoneID: "use1-az1", PrivateIP: netip.MustParseAddr("10.0.0.1"),
		PrivateDNSName: nodeName, RoleARN: "arn:aws:iam::000000000000:role/node",
		UserData: nodeadmUserData(b.api.caPEM, "  kubelet:\n    flags: [--node-labels=eks.amazonaws.com/nodegroup=ng, --register-with-taints=a=b:NoSchedule]"),
	}
}

func (b *bench) launch(in node.Instance) {
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

// after lets d pass, and everything that happens in it.
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
		// Three writes and two events bring a node in.
		want := []string{
			"POST /api/v1/nodes",
			"PATCH /api/v1/nodes/" + nodeName + "/status",
			"POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
			"POST /api/v1/namespaces/default/events",
			"POST /api/v1/namespaces/default/events",
		}
		if diff := cmp.Diff(want, b.api.takeWrites()); diff != "" {
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
			reasons = append(reasons, e.Reason)
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
		// It lives for 15 minutes at the cluster, and is renewed before.
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
		if err := b.rt.Stop(t.Context(), "i-0123456789abcdef0"); err != nil {
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
			"POST /api/v1/namespaces/default/events", "POST /api/v1/namespaces/default/events", "POST /api/v1/namespaces/default/events",
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
		if got := b.info().Pods; got != 0 {
			t.Errorf("%d pods", got)
		}
	})
}

// A Job counts its pods by their last status, and holds them by a finalizer until
// it has seen it.
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

func TestAddressesRunOutAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t) // two assignments of two addresses
		b.launch(b.instance())
		for i := range 5 {
			b.api.bind(nodeName, pod(fmt.Sprint("web-", i)))
		}
		after(time.Minute)
		phases := map[corev1.PodPhase]int{}
		waiting := ""
		used := map[string]bool{}
		for i := range 5 {
			p := b.api.pod(fmt.Sprint("web-", i))
			phases[p.Status.Phase]++
			if p.Status.Phase == corev1.PodPending {
				waiting = p.Name
			} else if used[p.Status.PodIP] {
				t.Errorf("%s is used twice", p.Status.PodIP)
			}
			used[p.Status.PodIP] = true
		}
		if phases[corev1.PodRunning] != 4 || phases[corev1.PodPending] != 1 {
			t.Fatalf("phases %v", phases)
		}
		if got := b.api.pod(waiting).Status.ContainerStatuses[0].State.Waiting.Reason; got != "ContainerCreating" {
			t.Errorf("reason %s", got)
		}
		i := slices.IndexFunc(b.api.events(), func(e *corev1.Event) bool { return e.Reason == "FailedCreatePodSandBox" })
		if i < 0 {
			t.Fatal("no event")
		}
		if e := b.api.events()[i]; !strings.HasSuffix(e.Message, "add cmd: failed to assign an IP address to container") || e.Count < 3 {
			t.Errorf("event %q, %d times", e.Message, e.Count)
		}
		gone := "web-0"
		if waiting == gone {
			gone = "web-1"
		}
		b.api.deletePod(gone, 0)
		after(time.Second)
		if got := b.api.pod(waiting).Status.Phase; got != corev1.PodRunning {
			t.Errorf("%s is %s", waiting, got)
		}
	})
}

// What AWS does not allow, keeps the node out, with the step that failed; and it
// gets in when that changes.
func TestNodeIsKeptOut(t *testing.T) {
	unauthorized := func(string, string) *apierrors.StatusError { return apierrors.NewUnauthorized("Unauthorized") }
	forbidden := func(string, string) *apierrors.StatusError {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(`User "x" cannot create resource "nodes"`))
	}
	for _, tc := range []struct {
		name   string
		change func(b *bench, in *node.Instance)
		step   string // and evidence, a part of
		heal   func(b *bench)
	}{
		{"no route", func(b *bench, _ *node.Instance) { b.dialErr = errors.New("no route to host") }, "endpoint: connecting to the API endpoint: ",
			func(b *bench) { b.dialErr = nil }},
		{"role not mapped", func(b *bench, _ *node.Instance) { b.api.refuse = unauthorized }, "identity: Unauthorized: the cluster knows no node with the role arn:aws:iam::000000000000:role/node",
			func(b *bench) { b.api.refusing(nil) }},
		{"not a node to the cluster", func(b *bench, _ *node.Instance) { b.api.refuse = forbidden }, "register: nodes is forbidden",
			func(b *bench) { b.api.refusing(nil) }},
		{"no credentials", func(b *bench, _ *node.Instance) { b.credsErr = errors.New("no such role") }, "credentials: getting instance role credentials: no such role",
			func(b *bench) { b.credsErr = nil }},
		{"no instance profile", func(_ *bench, in *node.Instance) { in.RoleARN = "" }, "credentials: the instance has no instance profile with a role", nil},
		{"the wrong authority", func(b *bench, in *node.Instance) {
			_, other := selfSigned(b.t)
			in.UserData = nodeadmUserData(other, "")
		}, "endpoint: the API endpoint's certificate is not of the authority in user data", nil},
		{"no user data", func(_ *bench, in *node.Instance) { in.UserData = nil }, "user-data: there is no user data: ", nil},
		{"an image without kubelet", func(_ *bench, in *node.Instance) { in.KubeletVersion = "" }, "bootstrap: image ami-1 has no kubelet", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				in := b.instance()
				tc.change(b, &in)
				b.launch(in)
				after(5 * time.Minute)
				if got := b.info(); got.Phase == node.PhaseReady || got.Problem == "" {
					t.Errorf("info %+v", got)
				}
				// Once, though it was tried many times.
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

func TestNodeWithoutAddressesIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		rt := simulated.New(node.Config{
			Credentials:  func(context.Context, string) (aws.Credentials, error) { return aws.Credentials{}, nil },
			DialEndpoint: func(ctx context.Context, _ node.Instance, _ string, _ int) (net.Conn, error) { return b.api.dial(ctx) },
			PodAddresses: func(context.Context, string) ([]netip.Addr, error) { return nil, nil },
			AssignPodAddresses: func(context.Context, string) ([]netip.Addr, error) {
				return nil, errors.New("UnauthorizedOperation: not authorized to perform this operation")
			},
		})
		defer rt.Shutdown(context.Background())
		if err := rt.Start(t.Context(), b.instance()); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		info, _ := rt.Info("i-0123456789abcdef0")
		if info.Phase != node.PhaseRegistered || !strings.Contains(info.Problem, "UnauthorizedOperation") {
			t.Errorf("info %+v", info)
		}
		c := b.api.node(nodeName).Status.Conditions[3]
		if c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "cni plugin not initialized") {
			t.Errorf("condition %+v", c)
		}
	})
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
		if got := b.info(); got.Phase != node.PhaseRegistered || got.Problem == "" {
			t.Errorf("info %+v", got)
		}
		b.api.refusing(nil)
		after(6 * time.Minute)
		if got := b.info(); got.Phase != node.PhaseReady || got.Problem != "" {
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
		if got := b.info().Pods; got != 2 {
			t.Errorf("%d pods", got)
		}
		if got := b.api.pod("comes").Status.Phase; got != corev1.PodRunning {
			t.Errorf("the new pod is %s", got)
		}
	})
}

// The daemon ends and starts again: the node goes on where it was.
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
		if err := b.rt.Start(t.Context(), b.instance()); !errors.Is(err, node.ErrShutdown) {
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
		if got := b.info(); got.Phase != node.PhaseReady || got.Pods != 2 {
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
		if err := b.rt.Reboot(t.Context(), "i-0123456789abcdef0"); err != nil {
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
		if err := b.rt.Reboot(t.Context(), "i-unknown"); !errors.Is(err, node.ErrNotRunning) {
			t.Errorf("rebooting an unknown instance: %v", err)
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

package fargate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is a cluster and an account's network, both faked, around a scheduler.
type world struct {
	testing.TB
	store   *store.Store
	client  *fake.Clientset
	timeout time.Duration
	log     *slog.Logger

	mu       sync.Mutex
	profile  error
	runtime  string         // of new machines
	free     map[string]int // addresses by subnet
	tokens   map[string]string
	eni      map[string]Interface
	made     int
	machines map[string]node.Fargate
	dead     bool  // machines do not join
	broken   error // why machines do not start
	panics   int   // how many more look-ups of the profile panic
	groups   []string
	policies []SecurityGroupPolicy
	// badGroups says what is wrong with the groups.
	badGroups error
	// crash is counted down by everything that the scheduler does to the world, and then ends the scheduler in the
	// middle of it.
	crash  int
	cancel context.CancelFunc
	done   chan struct{}
}

var errCrash = errors.New("crashed")

// act is called after each act; it may end this run of the scheduler.
func (w *world) act() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crash--; w.crash == 0 {
		w.cancel()
	}
	if w.crash <= 0 && w.crash > -1000 {
		return errCrash
	}
	return nil
}

func newWorld(t testing.TB) *world {
	t.Helper()
	st, err := store.Open(context.Background(), store.Config{Ephemeral: true, Log: testkit.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		TB: t, store: st, client: fake.NewClientset(), log: testkit.Log(t), free: map[string]int{"subnet-a": 200, "subnet-b": 200},
		tokens: map[string]string{}, eni: map[string]Interface{}, machines: map[string]node.Fargate{}, crash: -1000,
	}
	w.client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "binding" {
			return false, nil, nil
		}
		b, _ := a.(k8stesting.CreateAction).GetObject().(*corev1.Binding)
		obj, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), b.Namespace, b.Name)
		if err != nil {
			return true, nil, err
		}
		pod := obj.(*corev1.Pod).DeepCopy()
		if pod.Spec.NodeName != "" {
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errors.New("it is bound"))
		}
		pod.Spec.NodeName = b.Target.Name
		return true, b, w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
	})
	t.Cleanup(func() {
		w.stop()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// start starts a run of the scheduler.
func (w *world) start() *Scheduler {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan struct{})
	s := New(Config{
		Account: "111122223333", Region: "us-east-1", Cluster: "dev", Store: w.store, Client: w.client, Network: w, Machines: w, Timeout: w.timeout,
		Describe: func(context.Context) (Cluster, error) {
			return Cluster{ClusterInfo: node.ClusterInfo{Endpoint: "https://dev"}, KubeletVersion: "1.36.2", SecurityGroups: []string{"sg-1"}}, nil
		},
		Profile: func(_ context.Context, _ string, _ *corev1.Pod) (Profile, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.panics > 0 {
				w.panics--
				panic("a bug")
			}
			return Profile{RoleARN: "arn:aws:iam::111122223333:role/pods", Subnets: []string{"subnet-a", "subnet-b"}, Runtime: w.runtime}, w.profile
		},
		Policies: func(context.Context, string) ([]SecurityGroupPolicy, error) { return w.policies, nil },
		Log:      w.log,
	})
	go func() {
		defer close(w.done)
		if err := s.Run(ctx); err != nil {
			w.Error(err)
		}
	}()
	return s
}

func (w *world) stop() {
	if w.cancel != nil {
		w.cancel()
		<-w.done
	}
}

func (w *world) MakeInterface(_ context.Context, req InterfaceRequest) (Interface, error) {
	i, err := func() (Interface, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if id, ok := w.tokens[req.Token]; ok {
			if i, ok := w.eni[id]; ok {
				return i, nil
			}
			return Interface{}, ErrNoAddress
		}
		if w.free[req.Subnet] == 0 {
			return Interface{}, ErrNoAddress
		}
		if w.groups = req.Groups; w.badGroups != nil {
			return Interface{}, w.badGroups
		}
		w.free[req.Subnet]--
		w.made++
		i := Interface{ID: fmt.Sprintf("eni-%d", w.made), VPC: "vpc-1", Zone: "us-east-1" + strings.TrimPrefix(req.Subnet, "subnet-"), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(w.made)})}
		w.eni[i.ID], w.tokens[req.Token] = i, i.ID
		return i, nil
	}()
	if err != nil {
		return i, err
	}
	return i, w.act()
}

func (w *world) RemoveInterface(_ context.Context, id string) error {
	w.mu.Lock()
	if i, ok := w.eni[id]; ok {
		w.free["subnet-"+strings.TrimPrefix(i.Zone, "us-east-1")]++
		delete(w.eni, id)
	}
	w.mu.Unlock()
	return w.act()
}

// Start joins the cluster at once.
func (w *world) Start(ctx context.Context, in node.Fargate) error {
	w.mu.Lock()
	w.machines[in.ID] = in
	dead, broken := w.dead, w.broken
	w.mu.Unlock()
	if broken != nil {
		return broken
	}
	if !dead {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: in.NodeName, Labels: in.Labels},
			Spec:       corev1.NodeSpec{ProviderID: in.ProviderID, Taints: in.Taints},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if _, err := w.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			w.Error(err)
		}
	}
	return w.act()
}

func (w *world) Stop(_ context.Context, id string) error {
	w.mu.Lock()
	delete(w.machines, id)
	w.mu.Unlock()
	return w.act()
}

func (w *world) create(name string, change func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("uid-" + name), Labels: map[string]string{LabelProfile: "fp"}},
		Spec:       corev1.PodSpec{SchedulerName: SchedulerName, Containers: []corev1.Container{{Name: "c"}}},
	}
	if change != nil {
		change(p)
	}
	p, err := w.client.CoreV1().Pods("shop").Create(w.Context(), p, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) get(name string) *corev1.Pod {
	w.Helper()
	p, err := w.client.CoreV1().Pods("shop").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// bound waits until a pod is bound and returns its node.
func (w *world) bound(name string) *corev1.Node {
	w.Helper()
	var n *corev1.Node
	testkit.Eventually(w, 30*time.Second, func() error {
		p := w.get(name)
		if p.Spec.NodeName == "" {
			return fmt.Errorf("pod %s is not bound: %v", name, p.Status.Conditions)
		}
		var err error
		n, err = w.client.CoreV1().Nodes().Get(w.Context(), p.Spec.NodeName, metav1.GetOptions{})
		return err
	})
	return n
}

// things returns what exists besides pods: interfaces, machines, nodes, records.
func (w *world) things() [4]int {
	w.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	n := Count(w.store, "111122223333", "us-east-1", "dev", "fp")
	w.mu.Lock()
	defer w.mu.Unlock()
	return [4]int{len(w.eni), len(w.machines), len(nodes.Items), n}
}

func (w *world) settles(want [4]int) {
	w.Helper()
	testkit.Eventually(w, 30*time.Second, func() error {
		if got := w.things(); got != want {
			return fmt.Errorf("interfaces, machines, nodes, records: %v, want %v", got, want)
		}
		return nil
	})
}

// said are the events about a pod by Fargate's scheduler.
func (w *world) said(name string) []string {
	w.Helper()
	list, err := w.client.CoreV1().Events("shop").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name && e.Source.Component == SchedulerName {
			out = append(out, e.Type+" "+e.Reason+": "+e.Message)
		}
	}
	return out
}

func (w *world) eventually(name, event string) {
	w.Helper()
	testkit.Eventually(w, 30*time.Second, func() error {
		if got := w.said(name); !slices.Contains(got, event) {
			return fmt.Errorf("events of %s: %q", name, got)
		}
		return nil
	})
}

func TestAPodAndItsMachine(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("web", nil)
	n := w.bound("web")
	if n.Name != "fargate-ip-10-0-0-1.ec2.internal" || n.Labels["eks.amazonaws.com/compute-type"] != "fargate" || n.Labels["kubernetes.io/hostname"] != "ip-10-0-0-1.ec2.internal" ||
		!strings.HasPrefix(n.Spec.ProviderID, "aws:///us-east-1a/") || !strings.HasSuffix(n.Spec.ProviderID, "/"+n.Name) {
		t.Errorf("node = %+v", n)
	}
	if !slices.Equal(w.groups, []string{"sg-1"}) {
		t.Errorf("groups %v", w.groups)
	}
	in := w.machines["eni-1"]
	if in.RoleARN != "arn:aws:iam::111122223333:role/pods" || in.Image.KubeletVersion != "1.36.2" || in.SubnetID != "subnet-a" || in.PrivateIP.String() != "10.0.0.1" || in.ClusterName != "dev" {
		t.Errorf("machine = %+v", in)
	}
	w.eventually("web", `Warning LoggingDisabled: Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`)
	w.eventually("web", "Normal Scheduled: Successfully assigned shop/web to "+n.Name)
	w.settles([4]int{1, 1, 1, 1})

	// A pod that has ended keeps its machine until it is deleted, as on AWS.
	p := w.get("web")
	p.Status.Phase = corev1.PodSucceeded
	if _, err := w.client.CoreV1().Pods("shop").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.create("second", nil)
	if n := w.bound("second"); !strings.HasPrefix(n.Spec.ProviderID, "aws:///us-east-1b/") {
		t.Errorf("pods do not spread: %s", n.Spec.ProviderID)
	}
	w.settles([4]int{2, 2, 2, 2})
	for _, name := range []string{"web", "second"} {
		if err := w.client.CoreV1().Pods("shop").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.settles([4]int{})
}

func TestPodsThatFargateRefuses(t *testing.T) {
	w := newWorld(t)
	w.start()
	yes := true
	w.create("privileged", func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes} })
	w.eventually("privileged", "Warning FailedScheduling: Pod not supported on Fargate: invalid SecurityContext fields: Privileged")
	w.create("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
	w.mu.Lock()
	w.profile = &BlockedError{"Misconfigured Fargate Profile: fargate profile fp blocked for new launches due to: x"}
	w.mu.Unlock()
	w.create("blocked", nil)
	w.eventually("blocked", "Warning FailedScheduling: Misconfigured Fargate Profile: fargate profile fp blocked for new launches due to: x")
	c := w.get("privileged").Status.Conditions
	if len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionFalse || c[0].Reason != "POD_UNSUPPORTED_ON_FARGATE" {
		t.Errorf("conditions = %+v", c)
	}
	if got := w.said("gated"); got != nil {
		t.Errorf("of a gated pod: %q", got)
	}
	w.settles([4]int{})

	// The profile is no longer blocked, so the pod continues.
	w.mu.Lock()
	w.profile = nil
	w.mu.Unlock()
	n := w.bound("blocked")
	w.eventually("blocked", "Normal Scheduled: Successfully assigned shop/blocked to "+n.Name)
	if got := w.said("blocked"); len(got) != 3 {
		t.Errorf("events = %q", got)
	}
}

func TestFullSubnets(t *testing.T) {
	w := newWorld(t)
	w.free = map[string]int{"subnet-a": 0, "subnet-b": 1}
	w.start()
	w.create("one", nil)
	if n := w.bound("one"); !strings.HasPrefix(n.Spec.ProviderID, "aws:///us-east-1b/") {
		t.Errorf("node = %+v", n)
	}
	w.create("two", nil)
	w.eventually("two", "Warning FailedScheduling: Pod provisioning failed: no free IP addresses in subnets [subnet-a subnet-b] of fargate profile fp")
	w.settles([4]int{1, 1, 1, 1})
	w.mu.Lock()
	w.free["subnet-a"] = 1
	w.mu.Unlock()
	w.bound("two")
}

func TestMachinesThatDoNotJoin(t *testing.T) {
	w := newWorld(t)
	w.dead = true
	w.replaces(func() { w.dead = false })
}

// A machine that cannot be started is replaced after the same time.
func TestMachinesThatDoNotStart(t *testing.T) {
	w := newWorld(t)
	w.broken = errors.New("no room")
	w.replaces(func() { w.broken = nil })
}

// replaces checks that a machine times out, and that another one gets its pod after a mend.
func (w *world) replaces(mend func()) {
	w.timeout = 300 * time.Millisecond
	w.start()
	w.create("web", nil)
	w.eventually("web", "Warning FailedScheduling: Pod provisioning timed out (will retry)")
	w.mu.Lock()
	mend()
	w.mu.Unlock()
	w.bound("web")
	w.settles([4]int{1, 1, 1, 1})
}

func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.runtime = "containers"
	w.start()
	for i := range 3 {
		w.create(fmt.Sprint("web-", i), nil)
	}
	for i := range 3 {
		w.bound(fmt.Sprint("web-", i))
	}
	w.settles([4]int{3, 3, 3, 3})
	w.stop()
	w.mu.Lock()
	w.machines = map[string]node.Fargate{} // gone with the daemon
	w.runtime = "simulated"                // the profile's tag has changed
	w.mu.Unlock()
	if err := w.client.CoreV1().Pods("shop").Delete(t.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s := w.start()
	w.settles([4]int{2, 2, 2, 2})
	w.mu.Lock()
	for _, in := range w.machines {
		if in.Runtime != "containers" {
			t.Errorf("%s continues in the runtime %q", in.NodeName, in.Runtime)
		}
	}
	w.mu.Unlock()
	if w.made != 3 {
		t.Errorf("%d interfaces were made", w.made)
	}
	w.stop()
	if err := s.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.settles([4]int{2, 0, 2, 2})
}

// Killed after any of its acts, the scheduler creates nothing twice and leaves nothing behind.
func TestCrashes(t *testing.T) {
	const launch, all = 2, 4 // interface and start; stop and removal of the interface
	for n := 1; n <= all+1; n++ {
		t.Run(fmt.Sprint("after act ", n), func(t *testing.T) {
			w := newWorld(t)
			w.crash = n
			w.start()
			restart := func() {
				<-w.done
				w.mu.Lock()
				w.crash, w.machines = -1000, map[string]node.Fargate{}
				w.mu.Unlock()
				w.start()
			}
			w.create("web", nil)
			if n <= launch {
				restart()
			}
			w.bound("web")
			w.settles([4]int{1, 1, 1, 1})
			if err := w.client.CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if n > launch && n <= all {
				restart()
			}
			w.settles([4]int{})
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.made != 1 {
				t.Errorf("%d interfaces were made", w.made)
			}
		})
	}
}

// A pod was deleted while the record of its machine had no interface yet.
func TestCrashBetweenInterfaceAndItsNote(t *testing.T) {
	w := newWorld(t)
	m := podMachine{UID: "attempt", PodUID: "uid-web", Namespace: "shop", Pod: "web", Profile: "fp", Subnet: "subnet-a", Groups: []string{"sg-1"}}
	if _, err := w.MakeInterface(t.Context(), InterfaceRequest{Token: "attempt/subnet-a", Subnet: "subnet-a", Groups: []string{"sg-1"}}); err != nil {
		t.Fatal(err)
	}
	s := &Scheduler{cfg: Config{Account: "111122223333", Region: "us-east-1", Cluster: "dev"}}
	if err := w.store.Update(t.Context(), func(tx *store.Tx) error { return machines.Create(tx, s.key(m.PodUID), m) }); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.settles([4]int{})
	if clusters := Clusters(w.store); len(clusters) != 0 {
		t.Errorf("clusters = %v", clusters)
	}
}

// Nothing is left of a cluster that was deleted before its machines, not even an interface that was not recorded
// because of a crash.
func TestAbandon(t *testing.T) {
	w := newWorld(t)
	s := w.start()
	w.create("web", nil)
	w.bound("web")
	w.stop()
	lost := podMachine{UID: "attempt", PodUID: "uid-lost", Namespace: "shop", Pod: "lost", Profile: "fp", Subnet: "subnet-a", Groups: []string{"sg-1"}}
	if _, err := w.MakeInterface(t.Context(), InterfaceRequest{Token: "attempt/subnet-a", Subnet: "subnet-a", Groups: []string{"sg-1"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Update(t.Context(), func(tx *store.Tx) error { return machines.Create(tx, s.key(lost.PodUID), lost) }); err != nil {
		t.Fatal(err)
	}
	w.settles([4]int{2, 1, 1, 2})
	gone := New(Config{Account: "111122223333", Region: "us-east-1", Cluster: "dev", Store: w.store, Network: w, Machines: w})
	if err := gone.Abandon(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.settles([4]int{0, 0, 1, 0}) // the node belongs to the cluster and was deleted with it
}

func TestRecordsKeep(t *testing.T) {
	m := podMachine{UID: "u", Address: netip.MustParseAddr("10.0.0.1")}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back podMachine
	if err := json.Unmarshal(raw, &back); err != nil || back.UID != m.UID || back.Address != m.Address {
		t.Errorf("%s: %+v, %v", raw, back, err)
	}
}

func TestLogging(t *testing.T) {
	const output = "[OUTPUT]\n    Name %s\n    Match *\n"
	for _, tt := range []struct{ name, plugin, event, annotation string }{
		{"enabled", "cloudwatch_logs", "Normal LoggingEnabled: Successfully enabled logging for pod", "LoggingEnabled"},
		{
			"invalid", "amazon_data_firehose",
			"Warning LoggingDisabled: Disabled logging for pod due to invalid configmap. amazon_data_firehose is not a supported output plugin. Please fix the logging configmap",
			"LoggingDisabled: LOGGING_CONFIGMAP_INVALID",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-logging", Namespace: "aws-observability"}, Data: map[string]string{"output.conf": fmt.Sprintf(output, tt.plugin)}}
			if _, err := w.client.CoreV1().ConfigMaps("aws-observability").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.start()
			w.create("web", nil)
			w.eventually("web", tt.event)
			if got := w.get("web").Annotations["Logging"]; got != tt.annotation {
				t.Errorf("annotation %q", got)
			}
		})
	}
}

// On machines that run containers, logs are sent if the log router knows how.
func TestLogsThatAreSent(t *testing.T) {
	const (
		cloudwatch = "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    log_group_name g\n    log_stream_prefix p-\n"
		firehose   = "[OUTPUT]\n    Name kinesis_firehose\n    Match *\n    delivery_stream d\n"
	)
	for _, tt := range []struct {
		name, output, filters string
		event, annotation     string
		sent                  bool
	}{
		{"to a group", cloudwatch, "", "Normal LoggingEnabled: Successfully enabled logging for pod", "LoggingEnabled", true},
		{
			"to one of two", cloudwatch + firehose, "", "Warning LoggingOutputNotAvailable: Drydock has no destination for the output plugin kinesis_firehose: logs are sent by the others only",
			"LoggingEnabled", true,
		},
		{
			"to none", firehose, "", "Warning LoggingDisabled: Disabled logging for pod. Drydock has no destination for the output plugin kinesis_firehose",
			"LoggingDisabled: LOGGING_NOT_AVAILABLE_IN_DRYDOCK", false,
		},
		{
			"with a filter that is not there", cloudwatch, "[FILTER]\n    Name throttle\n    Match *\n",
			"Warning LoggingDisabled: Disabled logging for pod. the filter plugin throttle is not available in Drydock", "LoggingDisabled: LOGGING_NOT_AVAILABLE_IN_DRYDOCK", false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime = "containers"
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-logging", Namespace: "aws-observability"}, Data: map[string]string{"output.conf": tt.output, "filters.conf": tt.filters}}
			if _, err := w.client.CoreV1().ConfigMaps("aws-observability").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.start()
			w.create("web", nil)
			w.eventually("web", tt.event)
			if got := w.get("web").Annotations["Logging"]; got != tt.annotation {
				t.Errorf("annotation %q", got)
			}
			w.bound("web")
			w.mu.Lock()
			in := w.machines["eni-1"]
			w.mu.Unlock()
			if sent := in.Logging["output.conf"] == tt.output; sent != tt.sent || in.Namespace != "shop" || in.Pod != "web" || in.PodUID != string(w.get("web").UID) {
				t.Errorf("machine %+v", in)
			}
		})
	}
}

// A ConfigMap that cannot be read is not the same as a missing one: the pod is checked again.
func TestLoggingThatCannotBeAsked(t *testing.T) {
	w := newWorld(t)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-logging", Namespace: "aws-observability"}, Data: map[string]string{"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n"}}
	if _, err := w.client.CoreV1().ConfigMaps("aws-observability").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	w.client.PrependReactor("get", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return asked.Add(1) == 1, nil, apierrors.NewTimeoutError("busy", 1)
	})
	w.start()
	w.create("web", nil)
	w.eventually("web", "Normal LoggingEnabled: Successfully enabled logging for pod")
	if got := w.get("web").Annotations["Logging"]; got != "LoggingEnabled" || asked.Load() != 2 {
		t.Errorf("annotation %q, asked %d times", got, asked.Load())
	}
}

func TestLoggingFault(t *testing.T) {
	const good = "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    region us-east-1\n"
	for _, tt := range []struct {
		name string
		data map[string]string
		want string
	}{
		{"an output", map[string]string{"output.conf": good}, ""},
		{"two, in other letters", map[string]string{"output.conf": good + "\n# and\n[output]\n    NAME es\n    match *\n"}, ""},
		{"all", map[string]string{
			"output.conf": good, "filters.conf": "[FILTER]\n  Name parser\n  Match *\n", "parsers.conf": "[PARSER]\n  Name own\n  Format json\n", "flb_log_cw": "true",
		}, ""},
		{"nothing", nil, "output.conf has no output plugin"},
		{"another key", map[string]string{"output.conf": good, "input.conf": ""}, "input.conf is not supported"},
		{"too long", map[string]string{"output.conf": good + "#" + strings.Repeat("x", 5300)}, "it has more than 5300 characters"},
		{"another plugin", map[string]string{"output.conf": "[OUTPUT]\n    Name s3\n    Match *\n"}, "s3 is not a supported output plugin"},
		{"another filter", map[string]string{"output.conf": good, "filters.conf": "[FILTER]\n  Name lua\n  Match *\n"}, "lua is not a supported filter plugin"},
		{"no match", map[string]string{"output.conf": "[OUTPUT]\n    Name es\n"}, "match is required for each [OUTPUT]"},
		{"the second has none", map[string]string{"output.conf": good + "[OUTPUT]\n    Match *\n"}, "name is required for each [OUTPUT]"},
		{"no format", map[string]string{"output.conf": good, "parsers.conf": "[PARSER]\n    Name own\n"}, "format is required for each [PARSER]"},
		{"another section", map[string]string{"output.conf": "[SERVICE]\n    Flush 1\n"}, "[SERVICE] is not allowed in output.conf"},
		{"a variable", map[string]string{"output.conf": good + "    log_group_name ${GROUP}\n"}, "environment variables are not allowed in output.conf"},
		{"not indented", map[string]string{"output.conf": "[OUTPUT]\nName es\nMatch *\n"}, "the keys of output.conf are not indented alike, and more than their directives"},
		{"indented otherwise", map[string]string{"output.conf": good + "      log_group_name x\n"}, "the keys of output.conf are not indented alike, and more than their directives"},
		{"directives otherwise", map[string]string{"output.conf": good + "  [OUTPUT]\n    Name es\n"}, "the directives of output.conf are not indented alike"},
		{"no directive", map[string]string{"output.conf": "Name es\n"}, "output.conf does not begin with [OUTPUT]"},
	} {
		if got := loggingFault(&corev1.ConfigMap{Data: tt.data}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestAPanicIsAnError: a bug with one pod ends neither the daemon nor the scheduling of other pods, and the pod is
// retried.
func TestAPanicIsAnError(t *testing.T) {
	w := newWorld(t)
	w.log, w.panics = testkit.Log(t, "panic: a bug"), 2
	w.start()
	w.create("a", nil)
	w.create("b", nil)
	w.bound("a")
	w.bound("b")
}

package why

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const (
	runningPod = `
metadata: {name: web-1, namespace: shop, ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, image: nginx}]}
status:
  phase: Running
  podIP: 10.0.0.9
  containerStatuses: [{name: c, image: nginx, ready: true, state: {running: {}}}]
`
	waitingPod = `
metadata: {name: web-1, namespace: shop, labels: {pod-template-hash: abc}, ownerReferences: [{kind: ReplicaSet, name: web-abc, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, image: nginx}]}
status:
  phase: Pending
  podIP: 10.0.0.9
  containerStatuses: [{name: c, image: nginx, state: {waiting: {reason: REASON, message: "MESSAGE"}}}]
`
	unscheduledPod = `
metadata: {name: web-1, namespace: shop}
spec: {schedulerName: default-scheduler, nodeSelector: {disk: ssd}, containers: [{name: c, image: nginx, resources: {requests: {cpu: CPU}}}]}
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "MESSAGE"}]
`
	readyNode = `
metadata: {name: n1, labels: {eks.amazonaws.com/nodegroup: ng, node.kubernetes.io/instance-type: m5.large, topology.kubernetes.io/zone: us-east-1a}}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "29"}, conditions: [{type: Ready, status: "True"}]}
`
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhyPod shows what `drydock why pod` prints about a pod at each of its steps.
func TestWhyPod(t *testing.T) {
	s := testkit.NewServer(t, testkit.Config{})
	var onHost machineSteps
	x := New(Config{IAM: iam.New(iam.Config{Store: s.Store}), EKS: nodegroups{}, EC2: noEC2{}, Machines: &onHost, Journal: openJournal(t), Network: func(context.Context, string, string) (*reach.Snapshot, error) {
		return reach.New("us-east-1"), nil
	}})
	var b strings.Builder
	var ofFargate fargateExplanation
	explain := func(title, failing, pod, node string, change func(*eks.PodFacts)) {
		t.Helper()
		f := eks.PodFacts{Cluster: "dev", Account: awsapi.DefaultAccount, Region: "us-east-1", Identity: eks.ServiceAccountIdentity{
			Cluster: "dev", Account: awsapi.DefaultAccount, Region: "us-east-1", Namespace: "shop", ServiceAccount: "default", Exists: true,
			Issuer: "https://oidc.eks.us-east-1.amazonaws.com/id/0123", Subject: "system:serviceaccount:shop:default", Audience: "sts.amazonaws.com",
		}}
		if pod != "" {
			f.Pod = read[corev1.Pod](t, pod)
		}
		if node != "" {
			n := read[corev1.Node](t, node)
			if f.Nodes = []corev1.Node{*n}; f.Pod != nil && f.Pod.Spec.NodeName != "" {
				f.Node, f.Nodes = n, nil
			}
		}
		if change != nil {
			change(&f)
		}
		for i := range f.Nodes {
			if f.Nodes[i].Status.Allocatable == nil {
				f.Nodes[i].Status.Allocatable = read[corev1.Node](t, readyNode).Status.Allocatable
			}
		}
		e, err := x.explainPod(t.Context(), &f, &ofFargate, "shop", "web-1")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if s := e.FirstFailed(); s != nil {
			got = s.Name
		}
		if got != failing {
			t.Errorf("%s: fails at %q, want %q", title, got, failing)
		}
		b.WriteString("== " + title + "\n" + e.Text() + "\n")
	}
	event := func(reason, message string) func(*eks.PodFacts) {
		return func(f *eks.PodFacts) {
			f.Events = append(f.Events, corev1.Event{Reason: reason, Message: message, InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "web"}})
		}
	}
	unscheduled := func(cpu, message string) string {
		return strings.NewReplacer("CPU", cpu, "MESSAGE", message).Replace(unscheduledPod)
	}
	waiting := func(reason, message string) string {
		return strings.NewReplacer("REASON", reason, "MESSAGE", message).Replace(waitingPod)
	}
	sandbox := strings.Replace(waiting("ContainerCreating", ""), "  podIP: 10.0.0.9\n", "", 1)

	withSSD := strings.Replace(readyNode, "{eks", "{disk: ssd, eks", 1)

	explain("it runs", "", runningPod, readyNode, nil)
	explain("no service account", podAdmission, "", "", event("FailedCreate", `Error creating: pods "web-" is forbidden: error looking up service account shop/cart: serviceaccount "cart" not found`))
	quota := func(pods string) func(*eks.PodFacts) {
		return func(f *eks.PodFacts) {
			event("FailedCreate", `Error creating: pods "web-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`)(f)
			hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
			f.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}}
		}
	}
	explain("a quota", podAdmission, "", "", quota("2"))
	explain("a quota that has been raised", podAdmission, "", "", quota("3"))
	explain("a webhook", podAdmission, "", "", event("FailedCreate", `Error creating: admission webhook "policy.example" denied the request: no latest`))
	explain("no nodes", podScheduling, unscheduled("1", "no nodes available to schedule pods"), "", nil)
	explain("a node more would do", podScheduling, unscheduled("1", "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."), withSSD, nil)
	explain("Karpenter launches no node", podScheduling, unscheduled("1", "0/1 nodes are available: 1 Insufficient cpu."), withSSD, func(f *eks.PodFacts) {
		f.Events = append(f.Events, corev1.Event{Reason: "FailedScheduling", Source: corev1.EventSource{Component: "karpenter"}, Message: "Failed to schedule pod, no nodepool matched: nodepool requirements not satisfied"})
	})
	explain("no node is large enough", podScheduling, unscheduled("64", "0/1 nodes are available: 1 Insufficient cpu."), readyNode, nil)
	explain("its selector, and a taint", podScheduling, unscheduled("1", "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."), readyNode, func(f *eks.PodFacts) {
		f.Nodes = append(f.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/not-ready"}}}})
	})
	fargate := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "fargate-n0", Labels: map[string]string{"eks.amazonaws.com/compute-type": "fargate"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "eks.amazonaws.com/compute-type", Value: "fargate", Effect: corev1.TaintEffectNoSchedule}}},
	}
	explain("a taint that nobody names, on the nodes it wants", podScheduling, unscheduled("1", "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."), readyNode, func(f *eks.PodFacts) {
		f.Nodes = append([]corev1.Node{fargate}, append(f.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"disk": "ssd"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}},
		})...)
		f.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web"}}
		f.Pod.Spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}, {Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}}
	})
	explain("nodes of Fargate alone", podScheduling, unscheduled("1", "0/1 nodes are available: 1 node(s) had untolerated taint(s)."), "", func(f *eks.PodFacts) {
		f.Nodes = []corev1.Node{fargate}
	})
	explain("a node group without nodes", podScheduling, unscheduled("1", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."), readyNode, func(f *eks.PodFacts) {
		f.Pod.Spec.NodeSelector = map[string]string{"eks.amazonaws.com/nodegroup": "db"}
	})
	disk := func(name, value string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": value}}}
	}
	const mismatch = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
	explain("a label that one node has for others", podScheduling, unscheduled("1", mismatch), readyNode, func(f *eks.PodFacts) {
		f.Nodes = append([]corev1.Node{disk("n0", "nvme")}, f.Nodes...)
	})
	explain("a label that every node has for others", podScheduling, unscheduled("1", mismatch), "", func(f *eks.PodFacts) {
		f.Nodes = []corev1.Node{disk("n0", "nvme"), disk("n1", "hdd")}
	})
	claim := func(class string, provisioner *storagev1.StorageClass, selected bool) func(*eks.PodFacts) {
		return func(f *eks.PodFacts) {
			f.Unbound = []eks.UnboundClaim{{Claim: read[corev1.PersistentVolumeClaim](t, `
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, storageClassName: "`+class+`", resources: {requests: {storage: 10Gi}}}
`), Class: provisioner, Selected: selected}}
		}
	}
	gp2 := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp2"}, Provisioner: "kubernetes.io/aws-ebs"}
	explain("a claim that is bound at once, and is not", podScheduling, unscheduled("1", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."), withSSD, claim("gp2", gp2, false))
	explain("a claim of no class", podScheduling, unscheduled("1", "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."), withSSD, claim("", nil, false))
	explain("a claim whose provisioner has its turn", podScheduling, unscheduled("1", ""), withSSD, claim("gp2", gp2, true))
	explain("a claim of a class that is not there", podScheduling, unscheduled("1", `running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded`), withSSD, claim("gp9", nil, false))
	explain("a claim that waits for room for its pod", podScheduling, unscheduled("1", "0/1 nodes are available: 1 Insufficient cpu."), withSSD, claim("gp2", gp2, false))
	explain("a claim on which nothing has acted yet", "", unscheduled("1", ""), withSSD, claim("gp2", gp2, false))
	ofFargate = fargateExplanation{Notes: []string{`not of Fargate profile fp: its namespace is "bank"`}}
	explain("no node, and no profile", podScheduling, unscheduled("1", "no nodes available to schedule pods"), "", nil)
	ofFargate = fargateExplanation{Ours: true, Evidence: "Pod not supported on Fargate: invalid SecurityContext fields: Privileged", Reason: &api.Reason{By: "Fargate", Code: "UnsupportedPodSpec", Component: "pod shop/web-1", Text: "Fargate runs no privileged containers"}}
	explain("what Fargate does not run", podScheduling, unscheduled("1", ""), "", nil)
	ofFargate = fargateExplanation{Ours: true, Evidence: "a machine with eni-1 is being started for it"}
	explain("Fargate is at it", "", unscheduled("1", ""), "", nil)
	ofFargate = fargateExplanation{}
	explain("the node is not ready", podNode, sandbox, strings.Replace(readyNode, `status: "True"`, `status: "Unknown", reason: NodeStatusUnknown, message: Kubelet stopped posting node status.`, 1), nil)
	explain("no node of that name", podNode, sandbox, "", func(f *eks.PodFacts) {
		f.Nodes = []corev1.Node{*read[corev1.Node](t, strings.Replace(readyNode, "n1", "n2", 1))}
	})
	explain("no node of that name, and no controller", podNode, strings.Replace(sandbox, ", controller: true", "", 1), "", nil)
	onHost = machineSteps{steps: []node.Step{{Name: node.StepPodAddress, Cause: node.CauseNoPodAddress}}}
	explain("no address", podAddress, sandbox, readyNode, event("FailedCreatePodSandBox", `Failed to create pod sandbox: plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`))
	onHost = machineSteps{steps: []node.Step{}}
	explain("an image that may not be pulled", podImage, waiting("ErrImageNeverPull", `Container image \"nginx\" is not present with pull policy of Never`), readyNode, nil)
	onHost = machineSteps{}
	explain("no image of that name", podImage, waiting("InvalidImageName", `Failed to apply default image tag \"nginx\": x`), readyNode, nil)
	onHost = machineSteps{steps: []node.Step{{Name: node.StepPodImage, Cause: node.CauseImagePull, Evidence: `Failed to pull image "nginx": no basic auth credentials`}}}
	explain("an image that is refused", podImage, waiting("ImagePullBackOff", "Back-off pulling image"), readyNode, nil)
	onHost = machineSteps{}
	explain("a Secret without the key", podConfiguration, waiting("CreateContainerConfigError", "couldn't find key k in Secret shop/s"), readyNode, func(f *eks.PodFacts) {
		f.Missing = []eks.MissingObject{{Kind: "Secret", Name: "s", Key: "k"}}
	})
	explain("a key of a Secret that is gone", podConfiguration, waiting("CreateContainerConfigError", `secret \"s\" not found`), readyNode, func(f *eks.PodFacts) {
		f.Missing = []eks.MissingObject{{Kind: "Secret", Name: "s", Wants: "k"}}
	})
	explain("a ConfigMap that is gone", "", runningPod, readyNode, func(f *eks.PodFacts) {
		f.Missing = []eks.MissingObject{{Kind: "ConfigMap", Name: "cm", Volume: true}}
	})
	explain("a role and no provider", podIdentity, runningPod, readyNode, func(f *eks.PodFacts) {
		f.Identity.RoleARN = "arn:aws:iam::000000000000:role/cart"
	})
	explain("it was made before its role", podIdentity, runningPod, readyNode, func(f *eks.PodFacts) {
		f.Identity.RoleARN, f.Identity.WithoutToken = "arn:aws:iam::000000000000:role/cart", []string{"web-0", "web-1"}
	})
	explain("it crashes", podRunning, strings.Replace(runningPod, "ready: true, state: {running: {}}", "restartCount: 3, state: {waiting: {reason: CrashLoopBackOff, message: back-off 40s restarting failed container}}, lastState: {terminated: {exitCode: 1, reason: Error}}", 1), readyNode, nil)
	testkit.Golden(t, "why_pod.golden", b.String())
}

// machineSteps is a world with one machine, n1, and the steps that it reports for a pod.
type machineSteps struct {
	noMachines
	steps []node.Step
}

func (m *machineSteps) FargateNode(_, _, _ string) (machine.Instance, bool) {
	return machine.Instance{ID: "i-1"}, m.steps != nil
}

func (m *machineSteps) PodSteps(_, _, _ string) []node.Step { return m.steps }

// nodegroups has one managed node group, ng, which may have ten nodes and wants two.
type nodegroups struct{ EKS }

func (nodegroups) DescribeNodegroup(context.Context, *awseks.DescribeNodegroupInput) (*awseks.DescribeNodegroupOutput, error) {
	return &awseks.DescribeNodegroupOutput{Nodegroup: &ekstypes.Nodegroup{ScalingConfig: &ekstypes.NodegroupScalingConfig{MaxSize: aws.Int32(10), DesiredSize: aws.Int32(2)}}}, nil
}

// A quota is raised by the requested amount of each resource, for all missing pods, and never lowered.
func TestRaisedQuota(t *testing.T) {
	quota := func(cpu, pods string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"limits.cpu": resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse(pods),
		}}}
	}
	const says = " requested: limits.cpu=500m,pods=1, used: limits.cpu=2,pods=4, limited: limits.cpu=2,pods=4"
	for _, tt := range []struct {
		quota   *corev1.ResourceQuota
		wanting int
		want    string
	}{
		{quota("2", "4"), 0, `"limits.cpu":"2500m","pods":"5"`},
		{quota("2", "4"), 1, `"limits.cpu":"2500m","pods":"5"`},
		{quota("2", "4"), 3, `"limits.cpu":"3500m","pods":"7"`},
		{quota("3", "4"), 1, `"pods":"5"`},
		{quota("2500m", "5"), 1, ""},
		{quota("3500m", "7"), 1, ""}, // the quota was raised after the event
	} {
		got, want := raisedQuota(tt.quota, says, " --namespace shop", tt.wanting), ""
		if tt.want != "" {
			want = `kubectl patch resourcequota q --namespace shop --type merge --patch '{"spec":{"hard":{` + tt.want + `}}}'`
		}
		if (len(got) == 1) != (want != "") || want != "" && got[0].Shell() != want {
			t.Errorf("%v, %d pods are wanting: %+v, want %s", tt.quota.Spec.Hard, tt.wanting, got, want)
		}
	}
	// Other pods have used the quota since.
	full := quota("2500m", "5")
	full.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}
	if got := raisedQuota(full, says, " --namespace shop", 1); len(got) != 1 || !got[0].Proven || !strings.Contains(got[0].Shell(), `{"pods":"6"}`) {
		t.Errorf("a quota that is full again: %+v", got)
	}
	if got := raisedQuota(quota("2", "4"), "", " --namespace shop", 1); len(got) != 1 || got[0].Sketch == "" {
		t.Errorf("of nothing known: %+v", got)
	}
}

func TestSchedulerReasons(t *testing.T) {
	for message, want := range map[string]string{
		"no nodes available to schedule pods": "no nodes available to schedule pods",
		"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b, c}. preemption: 0/3.": "1 Insufficient cpu|2 node(s) had untolerated taint {a: b, c}",
		"0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: x":                     "1 Too many pods",
		"0/1 nodes are available: }}},,{": "}}}||{",
	} {
		if got := strings.Join(schedulerReasons(message), "|"); got != want {
			t.Errorf("%s: %s", message, got)
		}
	}
}

func TestOnlyCluster(t *testing.T) {
	const a, b, us, eu = "111111111111", "222222222222", "us-east-1", "eu-west-1"
	clusters := []eks.ClusterStatus{
		{Account: a, Region: us, Name: "dev"}, {Account: a, Region: us, Name: "prod"}, {Account: b, Region: eu, Name: "dev"},
	}
	for _, tt := range []struct{ account, region, name, want, err string }{
		{a, us, "prod", "prod", ""},
		{b, eu, "", "dev", ""},
		{a, us, "", "", "there are several clusters; choose one: --cluster dev, --cluster prod"},
		{a, eu, "dev", "", "there is no cluster dev in eu-west-1 of account 111111111111; there is one: --region us-east-1 --account 111111111111"},
		{b, us, "", "", "there is no cluster in us-east-1 of account 222222222222; there is one: --region us-east-1 --account 111111111111"},
		{b, eu, "test", "", "there is no cluster test in eu-west-1 of account 222222222222"},
	} {
		got, err := onlyCluster(clusters, tt.account, tt.region, tt.name)
		if said := fmt.Sprint(err); got != tt.want || said != cmp.Or(tt.err, "<nil>") {
			t.Errorf("%q of %s in %s: %q, %v", tt.name, tt.account, tt.region, got, err)
		}
	}
}

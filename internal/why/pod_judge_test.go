package why

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/service/eks"
)

// The judge and the scheduler agree on whether a node takes a pod.
func TestSchedulable(t *testing.T) {
	const plain = `
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: "1"}}}]}
`
	other := func(spec string) func(*eks.PodFacts) {
		return func(f *eks.PodFacts) {
			f.Scheduled = []corev1.Pod{*read[corev1.Pod](t, "metadata: {name: other, namespace: shop}\nspec: {nodeName: n1, "+spec+"}")}
		}
	}
	volume := func(zone string) func(*eks.PodFacts) {
		return func(f *eks.PodFacts) {
			f.Volumes = []corev1.PersistentVolume{*read[corev1.PersistentVolume](t, `
metadata: {name: pv}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [`+zone+`]}]}]}}}
`)}
		}
	}
	with := func(spec string) string { return strings.Replace(plain, "spec: {", "spec: {"+spec+", ", 1) }
	for _, tt := range []struct {
		name, pod string
		world     func(*eks.PodFacts)
		want      string // what is wrong
	}{
		{"room", plain, nil, ""},
		{"room beside another", plain, other(`containers: [{name: c, resources: {requests: {cpu: "1"}}}]`), ""},
		{"no room beside another", plain, other(`containers: [{name: c, resources: {requests: {cpu: 1100m}}}]`), "n1 has not enough cpu left"},
		{"what no node has", strings.Replace(plain, `cpu: "1"`, `nvidia.com/gpu: "1"`, 1), nil, "n1 has not enough nvidia.com/gpu left"},
		{"a selector", with("nodeSelector: {disk: ssd}"), nil, "n1 has other labels than the pod wants"},
		{"cordoned", plain, func(f *eks.PodFacts) { f.Nodes[0].Spec.Unschedulable = true }, "n1 is cordoned"},
		{"a taint", plain, func(f *eks.PodFacts) {
			f.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule}}
		}, "n1 has the taint a=b:NoSchedule"},
		{"a volume here", plain, volume("us-east-1a"), ""},
		{"a volume in another zone", plain, volume("us-east-1b"), "the volume pv cannot be used on n1, by its node affinity"},
		{"a port", strings.Replace(plain, "image: nginx", "ports: [{containerPort: 80, hostPort: 80}]", 1), other("containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]"), "n1 has the port 80/TCP taken"},
		{"one that keeps it away", plain, other("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}"), "whether other keeps the pod away cannot be tried"},
		{"spread", with("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"), nil, "whether its topologySpreadConstraints are kept cannot be tried"},
		{"no nodes", plain, func(f *eks.PodFacts) { f.Nodes = nil }, "the cluster has no nodes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &eks.PodFacts{Pod: read[corev1.Pod](t, tt.pod), Nodes: []corev1.Node{*read[corev1.Node](t, readyNode)}}
			if tt.world != nil {
				tt.world(f)
			}
			c := &podChain{facts: f, pod: f.Pod}
			got := ""
			if err := c.schedulable(f.Pod, f.Nodes); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A toleration does not help a pod for which the node has no room.
func TestUntaintingIsNotEnough(t *testing.T) {
	f := &eks.PodFacts{Cluster: "dev", Pod: read[corev1.Pod](t, "metadata: {name: web, namespace: shop}\nspec: {containers: [{name: c, resources: {requests: {cpu: \"1\"}}}]}"), Nodes: []corev1.Node{*read[corev1.Node](t, readyNode)}}
	f.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "team", Effect: corev1.TaintEffectNoSchedule}}
	c := &podChain{facts: f, pod: f.Pod}
	_, fixes := c.taintedBy("1 node(s) had untolerated taint(s)")
	if len(fixes) != 2 || !fixes[0].Proven || !fixes[1].Proven {
		t.Errorf("with room: %+v", fixes)
	}
	f.Scheduled = []corev1.Pod{*read[corev1.Pod](t, "metadata: {name: other}\nspec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: \"2\"}}}]}")}
	_, fixes = c.taintedBy("1 node(s) had untolerated taint(s)")
	if len(fixes) != 2 || fixes[0].Proven || !strings.Contains(fixes[0].Sketch, "n1 has not enough cpu left") || fixes[1].Proven {
		t.Errorf("without room: %+v", fixes)
	}
}

// A namespace is opened only as far as its pods need.
func TestPodSecurityLevel(t *testing.T) {
	for level, spec := range map[string]string{"baseline": "containers: [{name: c, image: nginx}]", "privileged": "hostNetwork: true, containers: [{name: c, image: nginx}]"} {
		fixes := podSecurity("shop", read[corev1.PodTemplateSpec](t, "spec: {"+spec+"}"))
		if len(fixes) != 1 || !fixes[0].Proven || !strings.HasSuffix(fixes[0].Shell(), "enforce="+level) {
			t.Errorf("%s: %+v", level, fixes)
		}
	}
	if fixes := podSecurity("shop", nil); len(fixes) != 1 || fixes[0].Proven {
		t.Errorf("of unknown pods: %+v", fixes)
	}
}

// An empty Secret is no fix for a pod that also mounts a key of it.
func TestEmptySecret(t *testing.T) {
	c := &podChain{facts: &eks.PodFacts{Missing: []eks.MissingObject{{Kind: "Secret", Name: "s"}, {Kind: "Secret", Name: "s", Wants: "k", Volume: true}}}}
	if err := c.referenced(c.facts.Missing[0])(nil); err == nil {
		t.Error("it is enough")
	}
	c.facts.Missing = c.facts.Missing[:1]
	if err := c.referenced(c.facts.Missing[0])(nil); err != nil {
		t.Error(err)
	}
}

// Claims are bound only together, and to volumes that are large enough.
func TestVolumesForClaims(t *testing.T) {
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return read[corev1.PersistentVolumeClaim](t, "metadata: {name: "+name+", namespace: shop}\nspec: {accessModes: [ReadWriteOnce], storageClassName: gp2, resources: {requests: {storage: 1Gi}}}")
	}
	pod := read[corev1.Pod](t, "metadata: {name: web, namespace: shop}\nspec: {containers: [{name: c}]}")
	c := &podChain{facts: &eks.PodFacts{Pod: pod, Nodes: []corev1.Node{*read[corev1.Node](t, readyNode)}, Unbound: []eks.UnboundClaim{{Claim: claim("a")}, {Claim: claim("b")}}}, pod: pod}
	if !c.unbound("pod has unbound immediate PersistentVolumeClaims") {
		t.Fatal("they are bound")
	}
	if fixes := c.Steps[0].Reason.Fixes; len(fixes) != 1 || !fixes[0].Proven || len(fixes[0].Commands) != 2 {
		t.Errorf("%+v", fixes)
	}
	small := volumeFor(claim("a"))
	small.Spec.Capacity = corev1.ResourceList{}
	if err := c.bindable([]*corev1.PersistentVolumeClaim{claim("a")}, []*corev1.PersistentVolume{small})(nil); err == nil {
		t.Error("a volume without room is taken")
	}
}

// unpullable is a machine that cannot pull images.
type unpullable struct{ machineSteps }

func (*unpullable) TryPull(context.Context, string, string) error { return errors.New("no such image") }

// Permission to pull an image is no fix if the image cannot be pulled.
func TestPullPolicy(t *testing.T) {
	pod := read[corev1.Pod](t, waitingPod)
	c := &podChain{x: New(Config{Machines: &unpullable{}}), facts: &eks.PodFacts{Pod: pod}, pod: pod}
	if fixes := c.allowPull("c", "nginx"); len(fixes) != 1 || fixes[0].Proven {
		t.Errorf("%+v", fixes)
	}
}

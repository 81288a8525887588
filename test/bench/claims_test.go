package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestBenchClaims measures claims of EBS volumes without the rest of TestBenchContainers.
func TestBenchClaims(t *testing.T) {
	measure(t)
	d := upContainers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	d.loadFlow(t)
	role, nodeRole := d.roles(ctx)
	subnets := d.subnets(ctx)
	d.createCluster(ctx, "c", role, subnets)
	d.join(ctx, "c", nodeRole, subnets, 1, 2)
	claims(ctx, t, d, d.kubectlFor(t, "c"))
}

// What happens to a claim until its pod is Ready.
const (
	created  = "the cluster has the pod"
	chosen   = "the scheduler has chosen its node"
	made     = "the volume is made"
	bound    = "the scheduler has bound the pod"
	inUse    = "the kubelet says that it needs the volume"
	attached = "the attacher has attached it"
	noted    = "the node's status says so"
	staged   = "it is mounted on the node"
	mounted  = "it is mounted in the pod"
	ready    = "the pod is Ready"
)

// moments are when steps have happened first, by the step and the object.
type moments struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (m *moments) note(step, object string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.at[step+object]; !ok {
		m.at[step+object] = time.Now()
	}
}

// claims measures the time from a claim of an EBS volume until a pod has mounted it.
func claims(ctx context.Context, t *testing.T, d *drydock, kubectl func(args ...string) string) {
	t.Helper()
	c := awseks.NewFromConfig(d.config())
	role := d.role(ctx, "ebs", "pods.eks.amazonaws.com", "service-role/AmazonEBSCSIDriverPolicy")
	for _, in := range []awseks.CreateAddonInput{
		{AddonName: aws.String("eks-pod-identity-agent")},
		{AddonName: aws.String("aws-ebs-csi-driver"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{{RoleArn: &role, ServiceAccount: aws.String("ebs-csi-controller-sa")}}},
	} {
		in.ClusterName = aws.String("c")
		if _, err := c.CreateAddon(ctx, &in); err != nil {
			t.Fatal(err)
		}
	}
	kubectl("-n", "kube-system", "rollout", "status", "deployment/ebs-csi-controller", "--timeout=2m")
	kubectl("-n", "kube-system", "rollout", "status", "daemonset/ebs-csi-node", "--timeout=2m")
	watching, stop := context.WithCancel(ctx)
	defer stop()
	m := &moments{at: map[string]time.Time{}}
	m.watch(watching, t, d)
	manifest := filepath.Join(t.TempDir(), "claim.yaml")
	client := d.client("c")
	var took []time.Duration
	steps := map[string][]time.Duration{}
	for i := range 7 {
		if err := os.WriteFile(manifest, fmt.Appendf(nil, `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim-%[1]d}
spec: {accessModes: [ReadWriteOnce], storageClassName: ebs, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: claim-%[1]d}
spec:
  containers: [{name: flow, image: %[2]q, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: claim-%[1]d}}]
`, i, flowImage), 0o600); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		kubectl("apply", "-f", manifest)
		name := fmt.Sprint("claim-", i)
		kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=1m")
		took = append(took, time.Since(begun))
		claim, err := client.CoreV1().PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		volume, err := client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		for step, object := range map[string]string{
			created: name, chosen: name, made: volume.Name, bound: name, ready: name, attached: volume.Name, inUse: volume.Spec.CSI.VolumeHandle, noted: volume.Spec.CSI.VolumeHandle,
			staged: volume.Spec.CSI.VolumeHandle, mounted: volume.Name,
		} {
			at, ok := m.at[step+object]
			if !ok {
				t.Errorf("it was not seen of %s that %s", object, step)
				continue
			}
			steps[step] = append(steps[step], at.Sub(begun))
		}
		m.mu.Unlock()
	}
	t.Logf("kubectl apply of a claim and its pod until kubectl wait says Ready, two commands: median %v of %v", median(took), took)
	if t.Failed() {
		return
	}
	for _, step := range []string{created, chosen, made, bound, inUse, attached, noted, staged, mounted, ready} {
		t.Logf("  %v until %s", median(steps[step]).Round(time.Millisecond), step)
	}
}

// watch notes what the cluster and the mounts of its nodes say, until ctx ends.
func (m *moments) watch(ctx context.Context, t *testing.T, d *drydock) {
	t.Helper()
	client := d.client("c")
	for _, watchAll := range []func(context.Context, metav1.ListOptions) (watch.Interface, error){
		client.CoreV1().PersistentVolumes().Watch, client.CoreV1().PersistentVolumeClaims("default").Watch, client.CoreV1().Pods("default").Watch, client.CoreV1().Nodes().Watch, client.StorageV1().VolumeAttachments().Watch,
	} {
		w, err := watchAll(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer w.Stop()
			for e := range w.ResultChan() {
				m.saw(e.Object)
			}
		}()
	}
	var kubelets []string
	for _, p := range machines(d) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p)) // it may have ended
		if slices.Contains(strings.Split(string(b), "\x00"), "kubelet") {
			kubelets = append(kubelets, fmt.Sprintf("/proc/%d/mountinfo", p))
		}
	}
	if len(kubelets) == 0 {
		t.Fatal("there are no kubelets")
	}
	go func() {
		for ctx.Err() == nil {
			for _, file := range kubelets {
				b, _ := os.ReadFile(file) // it may have ended
				for l := range bytes.Lines(b) {
					f := strings.Fields(string(l))
					switch {
					case len(f) < 5:
					case strings.Contains(f[4], "/drydock-volumes/"):
						m.note(staged, filepath.Base(f[4]))
					case strings.Contains(f[4], "/kubernetes.io~csi/") && strings.HasSuffix(f[4], "/mount"):
						m.note(mounted, filepath.Base(filepath.Dir(f[4])))
					}
				}
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
}

// saw notes what an object says.
func (m *moments) saw(o any) {
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		m.note(made, o.Name)
	case *corev1.PersistentVolumeClaim:
		if o.Annotations["volume.kubernetes.io/selected-node"] != "" {
			m.note(chosen, o.Name)
		}
	case *corev1.Pod:
		m.note(created, o.Name)
		if o.Spec.NodeName != "" {
			m.note(bound, o.Name)
		}
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				m.note(ready, o.Name)
			}
		}
	case *corev1.Node:
		for _, v := range o.Status.VolumesInUse {
			m.note(inUse, after(string(v)))
		}
		for _, v := range o.Status.VolumesAttached {
			m.note(noted, after(string(v.Name)))
		}
	case *storagev1.VolumeAttachment:
		if o.Status.Attached && o.Spec.Source.PersistentVolumeName != nil {
			m.note(attached, *o.Spec.Source.PersistentVolumeName)
		}
	}
}

// after returns a volume's ID of the kubelet's name for it, kubernetes.io/csi/ebs.csi.aws.com^vol-….
func after(name string) string {
	_, id, _ := strings.Cut(name, "^")
	return id
}

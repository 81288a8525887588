package eks_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func withVolumes(w *world) { w.volumes = newVolumes(w.faults) }

const autoDriver = "ebs.csi.eks.amazonaws.com"

// storageWorld is a cluster with EKS Auto Mode, a node of it, another node, and a class.
func storageWorld(t *testing.T) (*world, *fake.Clientset) {
	w := newWorld(t, withClock, withVolumes)
	cs := w.autoCluster()
	w.ec2.mu.Lock()
	w.ec2.instances["i-0123"] = instance("i-0123", "ip-1")
	w.ec2.mu.Unlock()
	for name, labels := range map[string]map[string]string{
		"i-0123": {"eks.amazonaws.com/compute-type": "auto", corev1.LabelTopologyZone: "us-east-1b"}, "other": {corev1.LabelTopologyZone: "us-east-1a"},
	} {
		testkit.Must(cs.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1b/" + name}}, metav1.CreateOptions{}))(t)
	}
	testkit.Must(cs.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "auto"}, Provisioner: autoDriver, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "eks.amazonaws.com/compute-type", Values: []string{"auto"}}}}},
	}, metav1.CreateOptions{}))(t)
	return w, cs
}

// claim creates a claim whose pod Kubernetes wants on a node.
func claim(t *testing.T, cs *fake.Clientset, name, node string, change ...func(*corev1.PersistentVolumeClaim)) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Annotations: map[string]string{
			"volume.kubernetes.io/storage-provisioner": autoDriver, "volume.kubernetes.io/selected-node": node,
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: aws.String("auto"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, f := range change {
		f(c)
	}
	testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), c, metav1.CreateOptions{}))(t)
}

// Whatever call fails, before or after taking effect, and whenever the service restarts, a claim gets one volume, which is attached,
// grows, is detached and deleted.
func TestVolumesSurviveAnyCrash(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprintf("EKS_CRASH_SEED=%d", seed), func(t *testing.T) {
			w, cs := storageWorld(t)
			r := rand.New(rand.NewPCG(seed, seed))
			step := func(want string, and func() error) {
				t.Helper()
				w.faults.mu.Lock()
				w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(seed, 7)), 4, 0.4
				w.faults.mu.Unlock()
				if r.IntN(2) == 0 {
					w.restart()
				}
				w.eventually(func() error {
					if got := w.volumes.describe(); got != want {
						return fmt.Errorf("%q, want %q", got, want)
					}
					return and()
				})
				w.faults.calm()
			}
			volume := func() (*corev1.PersistentVolume, error) {
				return cs.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-uid-data", metav1.GetOptions{})
			}
			claim(t, cs, "data", "i-0123")
			step("volume us-east-1b 8 GiB available", func() error { _, err := volume(); return err })
			if w.volumes.created != 1 {
				t.Errorf("%d volumes were created", w.volumes.created)
			}

			// Kubernetes binds them.
			v := testkit.Must(volume())(t)
			if v.Spec.CSI.Driver != autoDriver || v.Spec.ClaimRef.Name != "data" || len(v.Finalizers) != 1 || len(v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions) != 2 {
				t.Errorf("%+v", v)
			}
			v.Status.Phase = corev1.VolumeBound
			testkit.Must(cs.CoreV1().PersistentVolumes().Update(t.Context(), v, metav1.UpdateOptions{}))(t)
			c := testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{}))(t)
			c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = v.Name, corev1.ClaimBound, v.Spec.Capacity
			testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), c, metav1.UpdateOptions{}))(t)
			testkit.Must(cs.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: autoDriver, NodeName: "i-0123", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}},
			}, metav1.CreateOptions{}))(t)
			attachment := func() *storagev1.VolumeAttachment {
				return testkit.Must(cs.StorageV1().VolumeAttachments().Get(t.Context(), "csi-1", metav1.GetOptions{}))(t)
			}
			step("volume us-east-1b 8 GiB in-use at i-0123 /dev/xvdaa", func() error {
				if a := attachment(); !a.Status.Attached || a.Status.AttachmentMetadata["devicePath"] != "/dev/xvdaa" || len(a.Finalizers) != 1 || a.Status.AttachError != nil {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})

			// It grows. The node has no real kubelet, so there is no file system to wait for.
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("20Gi")
			testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), c, metav1.UpdateOptions{}))(t)
			step("volume us-east-1b 20 GiB in-use at i-0123 /dev/xvdaa", func() error {
				c, err := cs.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{})
				if err == nil && c.Status.Capacity.Storage().String() != "20Gi" {
					err = errors.New("the claim has " + c.Status.Capacity.Storage().String())
				}
				return err
			})

			// The claim goes first, so its volume waits for the end of its attachment.
			if err := cs.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			v = testkit.Must(volume())(t)
			v.Status.Phase = corev1.VolumeReleased
			testkit.Must(cs.CoreV1().PersistentVolumes().Update(t.Context(), v, metav1.UpdateOptions{}))(t)
			w.eventOf(v.Name, "VolumeFailedDelete", "is still attached to node i-0123")
			a := attachment()
			a.DeletionTimestamp = &metav1.Time{Time: w.fake.Now()}
			testkit.Must(cs.StorageV1().VolumeAttachments().Update(t.Context(), a, metav1.UpdateOptions{}))(t)
			step("volume us-east-1b 20 GiB available", func() error {
				if a := attachment(); len(a.Finalizers) > 0 {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})
			if err := cs.StorageV1().VolumeAttachments().Delete(t.Context(), "csi-1", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			step("", func() error {
				if _, err := volume(); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the volume is there: %v", err)
				}
				return nil
			})
		})
	}
}

// A volume whose reclaim policy is Retain stays, although the response to the creation of its object was lost, and even if its
// claim goes at once.
func TestVolumesAreRetained(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		t.Run(fmt.Sprintf("at once %t", atOnce), func(t *testing.T) {
			w, cs := storageWorld(t)
			testkit.Must(cs.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "keep"}, Provisioner: autoDriver, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
				ReclaimPolicy: new(corev1.PersistentVolumeReclaimRetain),
			}, metav1.CreateOptions{}))(t)
			var lost atomic.Bool
			cs.PrependReactor("create", "persistentvolumes", func(a k8stesting.Action) (bool, runtime.Object, error) {
				if lost.Swap(true) {
					return false, nil, nil
				}
				if atOnce {
					if err := cs.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default", "data"); err != nil {
						t.Error(err)
					}
				}
				if err := cs.Tracker().Create(a.GetResource(), a.(k8stesting.CreateAction).GetObject(), ""); err != nil {
					t.Error(err)
				}
				return true, nil, errors.New("the response was lost")
			})
			keep := func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = aws.String("keep") }
			claim(t, cs, "data", "i-0123", keep)
			w.eventually(func() error {
				_, err := cs.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-uid-data", metav1.GetOptions{})
				return err
			})
			// Whenever another claim has been served, there has been another pass.
			claim(t, cs, "second", "i-0123", keep)
			w.eventOf("second", "ProvisioningSucceeded", "")
			if !atOnce {
				if err := cs.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			claim(t, cs, "third", "i-0123", keep)
			w.eventOf("third", "ProvisioningSucceeded", "")
			if got, want := w.volumes.describe(), strings.TrimSpace(strings.Repeat("volume us-east-1b 8 GiB available\n", 3)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// On a node that runs containers, the kubelet enlarges the file system. A volume whose object was deleted is detached, too.
func TestVolumesOfContainers(t *testing.T) {
	w, cs := storageWorld(t)
	w.containers.Store("i-0123")
	claim(t, cs, "data", "i-0123")
	w.eventOf("data", "ProvisioningSucceeded", "")
	v := testkit.Must(cs.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-uid-data", metav1.GetOptions{}))(t)
	v.Status.Phase = corev1.VolumeBound
	testkit.Must(cs.CoreV1().PersistentVolumes().Update(t.Context(), v, metav1.UpdateOptions{}))(t)
	testkit.Must(cs.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: autoDriver, NodeName: "i-0123", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}},
	}, metav1.CreateOptions{}))(t)
	attachment := func() *storagev1.VolumeAttachment {
		return testkit.Must(cs.StorageV1().VolumeAttachments().Get(t.Context(), "csi-1", metav1.GetOptions{}))(t)
	}
	w.eventually(func() error {
		if a := attachment(); !a.Status.Attached {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
	c := testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{}))(t)
	c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = v.Name, corev1.ClaimBound, v.Spec.Capacity
	c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("20Gi")
	testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), c, metav1.UpdateOptions{}))(t)
	w.eventOf("data", "FileSystemResizeRequired", "Require file system resize of volume on node")

	if err := cs.CoreV1().PersistentVolumes().Delete(t.Context(), v.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a := attachment()
	a.DeletionTimestamp = &metav1.Time{Time: w.fake.Now()}
	testkit.Must(cs.StorageV1().VolumeAttachments().Update(t.Context(), a, metav1.UpdateOptions{}))(t)
	w.eventually(func() error {
		if a := attachment(); len(a.Finalizers) > 0 || w.volumes.describe() != "volume us-east-1b 20 GiB available" {
			return fmt.Errorf("%q, %+v", w.volumes.describe(), a)
		}
		return nil
	})
}

// A denial has another text whenever it is printed, as IAM's have.
type denial struct{ n atomic.Int32 }

func (d *denial) Error() string {
	n := d.n.Add(1)
	return fmt.Sprintf("User: session-%d is not authorized. Encoded authorization failure message: %x", n, n)
}

// What cannot be provisioned or attached says why, in the words of the sidecars, and is tried again.
func TestVolumesThatAreRefused(t *testing.T) {
	w, cs := storageWorld(t)
	w.volumes.deny("CreateVolume", awserr.New("UnauthorizedOperation", "You are not authorized to perform this operation."))
	claim(t, cs, "denied", "i-0123")
	w.eventOf("denied", "ProvisioningFailed", `failed to provision volume with StorageClass "auto": rpc error: code = Internal desc = Could not create volume "pvc-uid-denied": could not create volume in EC2: UnauthorizedOperation`)
	claim(t, cs, "elsewhere", "other")
	w.eventOf("elsewhere", "ProvisioningFailed", "CSINode other does not contain driver ebs.csi.eks.amazonaws.com")
	claim(t, cs, "many", "i-0123", func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteMany })
	w.eventOf("many", "ProvisioningFailed", "Only AccessModes[ReadWriteOnce] supported.")
	claim(t, cs, "copy", "i-0123", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "denied"}
	})
	w.eventOf("copy", "ProvisioningFailed", "only snapshots are supported as sources of volumes")
	claim(t, cs, "late", "gone") // Kubernetes selects another node
	w.eventOf("late", "ProvisioningFailed", `nodes "gone" not found`)
	w.eventually(func() error {
		if late := testkit.Must(cs.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "late", metav1.GetOptions{}))(t); late.Annotations["volume.kubernetes.io/selected-node"] != "" {
			return fmt.Errorf("%q", late.Annotations)
		}
		return nil
	})
	w.volumes.deny("CreateVolume", nil)
	w.eventOf("denied", "ProvisioningSucceeded", "Successfully provisioned volume pvc-uid-denied")

	attach := func(name, node string) *storagev1.VolumeAttachment {
		t.Helper()
		return testkit.Must(cs.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{Attacher: autoDriver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: aws.String("pvc-uid-denied")}},
		}, metav1.CreateOptions{}))(t)
	}
	says := func(name, text string) {
		t.Helper()
		w.eventually(func() error {
			a, err := cs.StorageV1().VolumeAttachments().Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && (a.Status.AttachError == nil || a.Status.AttachError.Message != text) {
				err = fmt.Errorf("%+v", a.Status)
			}
			return err
		})
	}
	attach("wrong", "other")
	says("wrong", "CSINode other does not contain driver ebs.csi.eks.amazonaws.com")
	w.auto.setDeny(errors.New("assuming the cluster role: AccessDenied"))
	attach("right", "i-0123")
	says("right", `rpc error: code = Internal desc = Could not attach volume "vol-00000000000000001" to node "i-0123": assuming the cluster role: AccessDenied`)
	w.auto.setDeny(nil)

	// Denials have another text in each attempt. Only the first is in the status, because a change of it starts the next attempt.
	w.volumes.deny("AttachVolume", &denial{})
	w.eventually(func() error {
		a, err := cs.StorageV1().VolumeAttachments().Get(t.Context(), "right", metav1.GetOptions{})
		if err == nil && !strings.Contains(a.Status.AttachError.Message, "session-") {
			err = errors.New(a.Status.AttachError.Message)
		}
		return err
	})
	first := testkit.Must(cs.StorageV1().VolumeAttachments().Get(t.Context(), "right", metav1.GetOptions{}))(t)
	// A volume that EC2 is creating does not wait until what failed is tried again.
	w.volumes.mu.Lock()
	w.volumes.slow = 10
	w.volumes.mu.Unlock()
	w.pace = 50 * time.Millisecond
	began := w.fake.Now()
	claim(t, cs, "second", "i-0123")
	w.eventOf("second", "ProvisioningSucceeded", "")
	if took := w.fake.Since(began); took > 15*time.Second {
		t.Errorf("the volume took %s", took)
	}
	w.pace = time.Second
	if now := testkit.Must(cs.StorageV1().VolumeAttachments().Get(t.Context(), "right", metav1.GetOptions{}))(t); now.Status.AttachError.Message != first.Status.AttachError.Message {
		t.Errorf("%q, and before %q", now.Status.AttachError.Message, first.Status.AttachError.Message)
	}
	w.volumes.deny("AttachVolume", nil)
	w.eventually(func() error {
		if a := testkit.Must(cs.StorageV1().VolumeAttachments().Get(t.Context(), "right", metav1.GetOptions{}))(t); !a.Status.Attached || a.Status.AttachError != nil {
			return fmt.Errorf("%+v", a.Status)
		}
		return nil
	})

	// Without EKS Auto Mode, attachments go and volumes stay. Claims wait.
	if _, err := w.update(autoMode(w, false)); err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if all := testkit.Must(cs.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{}))(t); len(all.Items) != 0 {
		t.Errorf("%+v", all.Items)
	}
	if _, err := cs.StorageV1().CSIDrivers().Get(t.Context(), autoDriver, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if v := testkit.Must(cs.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-uid-denied", metav1.GetOptions{}))(t); v.DeletionTimestamp != nil {
		t.Error("the volume is being deleted")
	}
}

// Contents of snapshots get snapshots, which go with them.
func TestSnapshotsOfAutoMode(t *testing.T) {
	w, _ := storageWorld(t)
	content := func(change map[string]any) {
		o := unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent", "metadata": map[string]any{"name": "snapcontent-1"},
			"spec": map[string]any{"driver": autoDriver, "deletionPolicy": "Delete", "source": map[string]any{"volumeHandle": "vol-1"}, "volumeSnapshotRef": map[string]any{"uid": "1"}},
		}}
		for k, v := range change {
			o.Object[k] = v
		}
		objects := w.objects()
		objects.mu.Lock()
		defer objects.mu.Unlock()
		objects.lists = map[string][]unstructured.Unstructured{"volumesnapshotcontents": {o}}
	}
	patched := func(key string) map[string]any {
		objects := w.objects()
		objects.mu.Lock()
		defer objects.mu.Unlock()
		return objects.patched["volumesnapshotcontents/snapcontent-1"+key]
	}
	denied := &denial{}
	w.volumes.deny("CreateSnapshot", denied)
	content(nil)
	w.eventOf("snapcontent-1", "SnapshotCreationFailed", "session-")
	w.eventually(func() error {
		if patched("/status") == nil {
			return errors.New("no status")
		}
		return nil
	})
	attempts := func() { // two begin, so one has begun and ended
		t.Helper()
		last := denied.n.Load() + 2
		w.eventually(func() error {
			if n := denied.n.Load(); n < last {
				return fmt.Errorf("%d attempts", n)
			}
			return nil
		})
	}
	content(patched("/status"))
	attempts()
	objects := w.objects()
	objects.mu.Lock()
	delete(objects.patched, "volumesnapshotcontents/snapcontent-1/status")
	objects.mu.Unlock()
	attempts()
	if p := patched("/status"); p != nil {
		t.Errorf("the failure is written again: %v", p)
	}
	w.volumes.deny("CreateSnapshot", nil)
	var st map[string]any
	w.eventually(func() error {
		if st, _ = patched("/status")["status"].(map[string]any); st["readyToUse"] != true || st["error"] != nil {
			return fmt.Errorf("%v", st)
		}
		return nil
	})
	if st["restoreSize"] != int64(8<<30) || st["creationTime"] != epoch.UnixNano() || w.volumes.describe() != "snapshot completed" {
		t.Errorf("%v %s", st, w.volumes.describe())
	}
	content(map[string]any{
		"metadata": map[string]any{
			"name": "snapcontent-1", "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": []any{"snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"},
			"annotations": map[string]any{"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"},
		},
		"status": map[string]any{"snapshotHandle": st["snapshotHandle"], "readyToUse": true},
	})
	gone := func() error {
		if patched("") == nil || w.volumes.describe() != "" {
			return fmt.Errorf("%v %s", patched(""), w.volumes.describe())
		}
		return nil
	}
	w.eventually(gone)

	// One that was made for a snapshot in EC2, and that no snapshot of the cluster has used.
	objects.mu.Lock()
	delete(objects.patched, "volumesnapshotcontents/snapcontent-1")
	objects.mu.Unlock()
	content(map[string]any{
		"metadata": map[string]any{
			"name": "snapcontent-1", "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": []any{"snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"},
		},
		"spec": map[string]any{"driver": autoDriver, "deletionPolicy": "Retain", "source": map[string]any{"snapshotHandle": "snap-1"}, "volumeSnapshotRef": map[string]any{"name": "none"}},
	})
	w.eventually(gone)
}

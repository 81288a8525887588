package eks_test

import (
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// TestUnboundClaims checks which claims keep a pod from being scheduled.
func TestUnboundClaims(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	ctx, client := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"}), w.kubernetes()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "ebs.csi.aws.com"}, metav1.CreateOptions{})
	must(err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"}}
	for _, c := range []struct{ name, class, volume, node string }{
		{"data", "fast", "", "n1"}, {"bound", "fast", "pv-1", ""}, {"odd", "slow", "", ""}, {"classless", "", "", ""},
	} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: "shop"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: c.volume, StorageClassName: &c.class},
		}
		if c.node != "" {
			claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": c.node}
		}
		_, err := client.CoreV1().PersistentVolumeClaims("shop").Create(ctx, claim, metav1.CreateOptions{})
		must(err)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: c.name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.name}}})
	}
	_, err = client.CoreV1().PersistentVolumeClaims("shop").Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "db-scratch", Namespace: "shop"}}, metav1.CreateOptions{})
	must(err)
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		corev1.Volume{Name: "gone", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "gone"}}},
		corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	)
	_, err = client.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	must(err)
	for name, node := range map[string]string{"bound": "n1", "stranded": "gone"} {
		p := pod.DeepCopy()
		p.Name, p.Spec.NodeName = name, node
		_, err = client.CoreV1().Pods("shop").Create(ctx, p, metav1.CreateOptions{})
		must(err)
	}

	for name, want := range map[string][][3]string{
		"db":       {{"data", "ebs.csi.aws.com", "selected"}, {"odd"}, {"classless"}, {"db-scratch"}},
		"bound":    nil,
		"stranded": {{"data", "ebs.csi.aws.com", "selected"}, {"odd"}, {"classless"}},
	} {
		f, err := w.svc.PodFacts(ctx, "dev", "shop", name)
		must(err)
		var got [][3]string
		for _, u := range f.Unbound {
			is := [3]string{u.Claim.Name}
			if u.Class != nil {
				is[1] = u.Class.Provisioner
			}
			if u.Selected {
				is[2] = "selected"
			}
			got = append(got, is)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

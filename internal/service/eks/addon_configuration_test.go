package eks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/service/eks"
)

// has checks that an object exists, or that it does not.
func (w *world) has(id string, want bool) {
	w.Helper()
	if got := slices.Contains(w.objects().ids(), id); got != want {
		w.Errorf("%s is there: %t, want %t", id, got, want)
	}
}

func TestAddOnInItsOwnNamespace(t *testing.T) {
	w := addOnWorld(t)
	own := &ekstypes.AddonNamespaceConfigRequest{Namespace: aws.String("storage")}
	made := w.createAddon(&awseks.CreateAddonInput{
		AddonName: aws.String("aws-ebs-csi-driver"), NamespaceConfig: own,
		PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{{ServiceAccount: aws.String("ebs-csi-controller-sa"), RoleArn: aws.String(w.arn("role/pods"))}},
	})
	if made.NamespaceConfig == nil || *made.NamespaceConfig.Namespace != "storage" {
		t.Errorf("namespace = %+v", made.NamespaceConfig)
	}
	w.waitAddon("aws-ebs-csi-driver", ekstypes.AddonStatusActive)
	const workload = "Deployment storage/ebs-csi-controller"
	w.has(workload, true)
	w.has("Namespace /storage", true)
	w.has("Deployment kube-system/ebs-csi-controller", false)
	binding := fmt.Sprint(w.objects().field("ClusterRoleBinding /ebs-csi-provisioner-binding", "subjects"))
	if !strings.Contains(binding, "namespace:storage") {
		t.Errorf("the binding is for %s", binding)
	}
	list, err := w.client.ListPodIdentityAssociations(t.Context(), &awseks.ListPodIdentityAssociationsInput{ClusterName: aws.String("dev"), Namespace: aws.String("storage")})
	if err != nil || len(list.Associations) != 1 {
		t.Errorf("associations = %+v, %v", list, err)
	}

	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("aws-ebs-csi-driver"), ConfigurationValues: aws.String(`{"controller":{"replicaCount":1}}`)})
	got := w.waitAddon("aws-ebs-csi-driver", ekstypes.AddonStatusActive)
	if got.NamespaceConfig == nil || *got.NamespaceConfig.Namespace != "storage" || w.objects().field(workload, "spec.replicas") != int64(1) {
		t.Errorf("after an update it is in %+v with %v", got.NamespaceConfig, w.objects().field(workload, "spec.replicas"))
	}
	w.objects().stop(workload, true)
	w.waitAddon("aws-ebs-csi-driver", ekstypes.AddonStatusDegraded)
	w.deleteAddon("aws-ebs-csi-driver", false)
	w.has(workload, false)
	w.has("Namespace /storage", true) // may contain other objects

	metrics := w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server"), NamespaceConfig: &ekstypes.AddonNamespaceConfigRequest{Namespace: aws.String("metrics")}})
	w.waitAddon(*metrics.AddonName, ekstypes.AddonStatusActive)
	w.has("RoleBinding kube-system/metrics-server-auth-reader", true)
	for path, want := range map[string]string{"subjects": "namespace:metrics", "roleRef": "extension-apiserver-authentication-reader"} {
		if got := fmt.Sprint(w.objects().field("RoleBinding kube-system/metrics-server-auth-reader", path)); !strings.Contains(got, want) {
			t.Errorf("%s = %s", path, got)
		}
	}
	const api = "APIService /v1beta1.metrics.k8s.io"
	w.deleteAddon(*metrics.AddonName, false)
	older := func() {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}}
		o.SetName("v1beta1.metrics.k8s.io")
		if err := w.objects().Apply(t.Context(), o, eks.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		w.has(api, true)
	}
	// Someone else's stays in both cases: the user's own metrics server is behind it.
	w.createAddon(&awseks.CreateAddonInput{AddonName: metrics.AddonName})
	w.waitAddon(*metrics.AddonName, ekstypes.AddonStatusActive)
	older()
	w.objects().usersOwn(api)
	w.objects().place("Deployment kube-system/metrics-server", "node-1")
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: metrics.AddonName, ConfigurationValues: aws.String("replicas: 1"), ResolveConflicts: ekstypes.ResolveConflictsOverwrite})
	w.waitAddon(*metrics.AddonName, ekstypes.AddonStatusActive)
	w.has(api, true)
	w.deleteAddon(*metrics.AddonName, false)
	w.has("Deployment kube-system/metrics-server", false)
	w.has(api, true)
}

// An add-on whose pods serve an API has it only if a pod is on a node that runs containers: without anything behind it, no
// namespace could be deleted.
func TestAPIsOfAddOns(t *testing.T) {
	t.Parallel()
	const api = "APIService /v1beta1.metrics.k8s.io"
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	_, cs := w.planes.only()
	if err := join(cs, instance("i-1", "node-1"), ""); err != nil {
		t.Fatal(err)
	}
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server"), NamespaceConfig: &ekstypes.AddonNamespaceConfigRequest{Namespace: aws.String("metrics")}})
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	w.objects().place("Deployment metrics/metrics-server", "node-1")
	eventually := func(want bool) {
		t.Helper()
		w.eventually(func() error {
			if got := slices.Contains(w.objects().ids(), api); got != want {
				return fmt.Errorf("there is an %s: %t", api, got)
			}
			return nil
		})
	}
	w.lookedAt(3)
	w.has(api, false)
	w.containers.Store("i-1")
	eventually(true)
	if got := fmt.Sprint(w.objects().field(api, "spec.service")); got != "map[name:metrics-server namespace:metrics]" {
		t.Errorf("it is served by %v", got)
	}
	w.containers.Store("")
	eventually(false)
	w.containers.Store("i-1")
	eventually(true)
	w.deleteAddon("metrics-server", false)
	w.has(api, false)
}

// An update removes the objects that the add-on no longer has, and nothing else.
func TestAddOnUpdateRemovesWhatItLeavesOut(t *testing.T) {
	const budget = "PodDisruptionBudget kube-system/coredns"
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), ConfigurationValues: aws.String(`
eniConfig: {create: true, region: us-east-1, subnets: {us-east-1a: {id: subnet-1}, us-east-1b: {id: subnet-2, securityGroups: [sg-1]}}}`)})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	w.has("ENIConfig /us-east-1a", true)
	if got := fmt.Sprint(w.objects().field("ENIConfig /us-east-1b", "spec")); got != "map[securityGroups:[sg-1] subnet:subnet-2]" {
		t.Errorf("the ENIConfig is %s", got)
	}
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), ConfigurationValues: aws.String(`
eniConfig: {create: true, region: us-east-1, subnets: {us-east-1b: {id: subnet-2}}}`)})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	w.has("ENIConfig /us-east-1a", false)
	w.has("ENIConfig /us-east-1b", true)
	w.has("DaemonSet kube-system/aws-node", true)

	// CoreDNS cannot take over the user's object, so nothing belongs to the add-on yet.
	if err := w.objects().edit(budget, "spec.maxUnavailable", "25%"); err != nil {
		t.Fatal(err)
	}
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns")})
	w.waitAddon("coredns", ekstypes.AddonStatusCreateFailed)
	without := aws.String(`{"podDisruptionBudget": {"enabled": false}}`)
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: without})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.has(budget, true)
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String(`{}`), ResolveConflicts: ekstypes.ResolveConflictsOverwrite})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: without})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.has(budget, false)
}

// Values of the maximum size can also be changed: the store accepts the old values together with
// the new.
func TestAddOnLongestConfiguration(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server")})
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	for _, values := range []string{
		"{} #" + strings.Repeat("x", 128<<10-4),
		"{} #" + strings.Repeat("y", 128<<10-4),
		"{} #" + strings.Repeat("<", (384<<10-6)/6), // each takes six bytes in JSON
		"{} #" + strings.Repeat(">", (384<<10-6)/6),
	} {
		w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("metrics-server"), ConfigurationValues: &values})
		if got := w.waitAddon("metrics-server", ekstypes.AddonStatusActive); aws.ToString(got.ConfigurationValues) != values {
			t.Errorf("it has %d bytes of %.10s...", len(aws.ToString(got.ConfigurationValues)), values)
		}
	}
}

// Versions of an add-on differ in more than their image tags.
func TestAddOnVersionsDiffer(t *testing.T) {
	w := addOnWorld(t)
	container := func() string {
		return fmt.Sprint(w.objects().field("DaemonSet kube-system/ebs-csi-node", "spec.template.spec.containers"))
	}
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("aws-ebs-csi-driver")})
	w.waitAddon("aws-ebs-csi-driver", ekstypes.AddonStatusActive)
	if !strings.Contains(container(), "--http-endpoint=0.0.0.0:9809") {
		t.Errorf("the newest one has %s", container())
	}
	rules := func() string { return fmt.Sprint(w.objects().field("ClusterRole /aws-node", "rules")) }
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), AddonVersion: aws.String("v1.20.4-eksbuild.2")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	if strings.Contains(rules(), "clusterpolicyendpoints") {
		t.Errorf("v1.20.4 may %s", rules())
	}
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), AddonVersion: aws.String("v1.21.1-eksbuild.5")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	if !strings.Contains(rules(), "clusterpolicyendpoints/status") {
		t.Errorf("v1.21.1 may %s", rules())
	}
	// And back: EKS accepts any older version that supports the cluster's release.
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), AddonVersion: aws.String("v1.20.4-eksbuild.2")})
	if got := w.waitAddon("vpc-cni", ekstypes.AddonStatusActive); *got.AddonVersion != "v1.20.4-eksbuild.2" || strings.Contains(rules(), "clusterpolicyendpoints") {
		t.Errorf("back at %s it may %s", *got.AddonVersion, rules())
	}
}

func (w *world) addNodes(from, to int) {
	w.Helper()
	_, cs := w.planes.only()
	for i := from; i < to; i++ {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("dns-%d", i)}}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		if _, err := cs.CoreV1().Nodes().Create(w.Context(), n, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) waitReplicas(want int64) {
	w.Helper()
	w.eventually(func() error {
		if got := w.objects().field(coreDNS, "spec.replicas"); got != want {
			return fmt.Errorf("%v replicas, want %d", got, want)
		}
		return nil
	})
}

func TestCoreDNSIsScaled(t *testing.T) {
	t.Parallel()
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String(`{"autoScaling":{"enabled":true,"maxReplicas":4}}`)})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.waitReplicas(2)
	w.addNodes(0, 33)
	w.waitReplicas(3)
	// Whoever scales it, EKS scales it back. Other fields set by others are kept.
	for _, n := range []int64{0, 7} {
		for path, value := range map[string]any{"spec.revisionHistoryLimit": int64(3), "spec.replicas": n} {
			if err := w.objects().edit(coreDNS, path, value); err != nil {
				t.Fatal(err)
			}
		}
		w.waitReplicas(3)
	}
	w.addNodes(33, 100)
	w.waitReplicas(4)
	if got := w.objects().field(coreDNS, "spec.revisionHistoryLimit"); got != int64(3) {
		t.Errorf("revisionHistoryLimit = %v", got)
	}
	w.updateAddon(&awseks.UpdateAddonInput{
		AddonName: aws.String("coredns"), ResolveConflicts: ekstypes.ResolveConflictsOverwrite,
		ConfigurationValues: aws.String(`{"autoScaling":{"enabled":true,"maxReplicas":4},"podLabels":{"team":"a"}}`),
	})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.waitReplicas(4)
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String(`{"autoScaling":{"enabled":false}}`)})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.waitReplicas(2)
}

package eks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/service/eks"
)

// insights returns the insights of the cluster dev as CATEGORY VERSION NAME: STATUS.
func (w *world) insights() []string {
	w.Helper()
	out, err := w.client.ListInsights(w.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev")})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, i := range out.Insights {
		all = append(all, fmt.Sprintf("%s %s %s: %s", i.Category, *i.KubernetesVersion, *i.Name, i.InsightStatus.Status))
	}
	return all
}

func (w *world) wantInsights(want ...string) {
	w.Helper()
	w.eventually(func() error {
		if diff := cmp.Diff(want, w.insights()); diff != "" {
			return fmt.Errorf("insights (-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestInsights(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	dev := aws.String("dev")
	w.wantInsights(
		"UPGRADE_READINESS 1.35 Amazon Linux 2 compatibility: PASSING",
		"UPGRADE_READINESS 1.35 Cluster health issues: PASSING",
		"UPGRADE_READINESS 1.35 EKS add-on version compatibility: PASSING",
		"UPGRADE_READINESS 1.35 Kubelet version skew: PASSING",
		"UPGRADE_READINESS 1.35 kube-proxy version skew: PASSING",
		"UPGRADE_READINESS 1.37 Deprecated APIs removed in Kubernetes v1.37: PASSING",
		"UPGRADE_READINESS 1.38 Deprecated APIs removed in Kubernetes v1.38: PASSING",
		"UPGRADE_READINESS 1.39 Deprecated APIs removed in Kubernetes v1.39: PASSING")
	// The texts that EKS has, from recorded outputs of list-insights, and its links, from an example of the AWS CLI.
	all, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: dev, Filter: &ekstypes.InsightsFilter{KubernetesVersions: []string{"1.35"}}})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, i := range all.Insights {
		texts[*i.Name] = *i.Description + "\n" + *i.InsightStatus.Reason
	}
	if diff := cmp.Diff(map[string]string{
		"Amazon Linux 2 compatibility":     "Checks if any nodes in the cluster are running Amazon Linux 2. Support for Amazon Linux 2 on Amazon EKS will end on November 26, 2025. Additionally, Amazon EKS will not release Amazon Linux 2 AMIs for Kubernetes version 1.33 and higher\nNo Amazon Linux 2 nodes detected.",
		"Cluster health issues":            "Checks for any cluster health issues that prevent successful upgrade to the next Kubernetes version on EKS.\nNo cluster health issues detected.",
		"EKS add-on version compatibility": "Checks version of installed EKS add-ons to ensure they are compatible with the next version of Kubernetes. \nAll installed EKS add-on versions are compatible with next Kubernetes version.",
		"Kubelet version skew":             "Checks for kubelet versions of worker nodes in the cluster to see if upgrade would cause non compliance with supported Kubernetes kubelet version skew policy.\nNode kubelet versions match the cluster control plane version.",
		"kube-proxy version skew":          "Checks version of kube-proxy in cluster to see if upgrade would cause non compliance with supported Kubernetes kube-proxy version skew policy.\nkube-proxy versions match the cluster control plane version.",
	}, texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	before, err := w.client.DescribeInsightsRefresh(t.Context(), &awseks.DescribeInsightsRefreshInput{ClusterName: dev})
	if err != nil || before.Status != ekstypes.InsightsRefreshStatusCompleted {
		t.Fatalf("refresh %+v, %v", before, err)
	}

	w.node("worker", "v1.32.0-eks-1234567", "")
	daemons := w.kubernetes().AppsV1().DaemonSets("kube-system")
	_, err = daemons.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "kube-proxy", Image: "registry.local:5000/eks/kube-proxy:v1.31.2-minimal-eksbuild.1@sha256:ab"}, {Name: "sidecar", Image: "sidecar:1.35"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.wantInsights(
		"UPGRADE_READINESS 1.35 Amazon Linux 2 compatibility: PASSING",
		"UPGRADE_READINESS 1.35 Cluster health issues: PASSING",
		"UPGRADE_READINESS 1.35 EKS add-on version compatibility: PASSING",
		"UPGRADE_READINESS 1.35 Kubelet version skew: WARNING",
		"UPGRADE_READINESS 1.35 kube-proxy version skew: ERROR",
		"UPGRADE_READINESS 1.37 Deprecated APIs removed in Kubernetes v1.37: PASSING",
		"UPGRADE_READINESS 1.38 Deprecated APIs removed in Kubernetes v1.38: PASSING",
		"UPGRADE_READINESS 1.39 Deprecated APIs removed in Kubernetes v1.39: PASSING")

	failing, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: dev, Filter: &ekstypes.InsightsFilter{
		Statuses: []ekstypes.InsightStatusValue{ekstypes.InsightStatusValueError}, KubernetesVersions: []string{"1.35"},
	}})
	if err != nil || len(failing.Insights) != 1 {
		t.Fatalf("failing insights %+v, %v", failing, err)
	}
	one, err := w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: dev, Id: failing.Insights[0].Id})
	if err != nil {
		t.Fatal(err)
	}
	i := one.Insight
	if *i.InsightStatus.Reason != "kube-proxy version 1.31 is more than 3 minor versions older than Kubernetes version 1.35." ||
		len(i.Resources) != 1 || *i.Resources[0].KubernetesResourceUri != "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy" {
		t.Errorf("insight %s", asJSON(i))
	}
	again, err := w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: dev, Id: i.Id})
	if err != nil || !again.Insight.LastTransitionTime.Equal(*i.LastTransitionTime) {
		t.Errorf("the insight's last transition moved: %v", err)
	}
	_, err = w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: dev, Id: aws.String("none")})
	wantError(t, err, "ResourceNotFoundException", "No insight found for ID: none")

	started, err := w.client.StartInsightsRefresh(t.Context(), &awseks.StartInsightsRefreshInput{ClusterName: dev})
	if err != nil || started.Status != ekstypes.InsightsRefreshStatusInProgress {
		t.Errorf("refresh %+v, %v", started, err)
	}
	after, err := w.client.DescribeInsightsRefresh(t.Context(), &awseks.DescribeInsightsRefreshInput{ClusterName: dev})
	if err != nil || after.Status != ekstypes.InsightsRefreshStatusCompleted || !after.EndedAt.After(*before.EndedAt) {
		t.Errorf("refresh %+v, %v", after, err)
	}
}

func TestInsightAboutAmazonLinux2(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	for name, os := range map[string]string{"new": "Amazon Linux 2023.9.20251117", "old": "Amazon Linux 2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OSImage: os, KubeletVersion: "v1.34.1-eks-1234567"}}}
		if _, err := w.kubernetes().CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const reason = "The cluster contains legacy Amazon Linux 2 (AL2) nodes. Migrate Amazon Linux 2 node groups to Amazon Linux 2023 before November 26, 2025 or before upgrading to EKS 1.33."
	w.eventually(func() error {
		list, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev"), Filter: &ekstypes.InsightsFilter{Statuses: []ekstypes.InsightStatusValue{ekstypes.InsightStatusValueError}}})
		if err != nil {
			return err
		}
		if len(list.Insights) != 1 || *list.Insights[0].Name != "Amazon Linux 2 compatibility" || *list.Insights[0].InsightStatus.Reason != reason {
			return fmt.Errorf("insights %s", asJSON(list.Insights))
		}
		one, err := w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: list.Insights[0].Id})
		if err == nil && (len(one.Insight.Resources) != 1 || *one.Insight.Resources[0].KubernetesResourceUri != "/api/v1/nodes/old") {
			err = fmt.Errorf("resources %s", asJSON(one.Insight.Resources))
		}
		return err
	})
	_, err := w.toVersion(version("1.35"))
	wantError(t, err, "InvalidStateException", "Upgrade readiness issues detected. Call the EKS ListInsights API to view upgrade blocking issues detected by EKS. Pass the force flag to override upgrade readiness errors and proceed with upgrade.")
}

func TestInsightAboutAddons(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	// A version for 1.34 that 1.35 does not have.
	if _, err := w.client.CreateAddon(t.Context(), &awseks.CreateAddonInput{ClusterName: aws.String("dev"), AddonName: aws.String("coredns"), AddonVersion: aws.String(onlyFor(t, w, "coredns", "1.34", "1.35"))}); err != nil {
		t.Fatal(err)
	}
	out, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev"), Filter: &ekstypes.InsightsFilter{Statuses: []ekstypes.InsightStatusValue{ekstypes.InsightStatusValueError}}})
	if err != nil || len(out.Insights) != 1 || *out.Insights[0].Name != "EKS add-on version compatibility" {
		t.Fatalf("failing insights %+v, %v", out, err)
	}
	one, err := w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: out.Insights[0].Id})
	if err != nil {
		t.Fatal(err)
	}
	if d := one.Insight.CategorySpecificSummary.AddonCompatibilityDetails; len(d) != 1 || *d[0].Name != "coredns" || len(d[0].CompatibleVersions) == 0 {
		t.Errorf("details %s", asJSON(d))
	}
}

// onlyFor returns a version of an add-on that is offered for a Kubernetes version, but not for the
// next one.
func onlyFor(t *testing.T, w *world, name, kubernetes, next string) string {
	t.Helper()
	out, err := w.client.DescribeAddonVersions(t.Context(), &awseks.DescribeAddonVersionsInput{AddonName: &name})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out.Addons[0].AddonVersions {
		has := map[string]bool{}
		for _, c := range v.Compatibilities {
			has[*c.ClusterVersion] = true
		}
		if has[kubernetes] && !has[next] {
			return *v.AddonVersion
		}
	}
	t.Fatalf("every version of %s for %s is also for %s", name, kubernetes, next)
	return ""
}

func TestInsightAboutDeprecatedAPIs(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.36")
	at := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	use := func(api, agent string, n int) eks.APIUse {
		return eks.APIUse{API: api, UserAgent: agent, Requests: n, Last: at}
	}
	w.planes.mu.Lock()
	w.planes.uses = []eks.APIUse{
		use("/api/v1/endpoints", "old-controller", 9), // no removal is planned
		use("/apis/storage.k8s.io/v1beta1/volumeattributesclasses", "csi", 3),
		use("/apis/resource.k8s.io/v1beta1/resourceclaims", "gpu-operator", 4),
		use("/apis/resource.k8s.io/v1beta1/resourceclaims", "terraform", 5),
	}
	w.planes.mu.Unlock()
	w.wantInsights(
		"UPGRADE_READINESS 1.37 Deprecated APIs removed in Kubernetes v1.37: ERROR",
		"UPGRADE_READINESS 1.38 Deprecated APIs removed in Kubernetes v1.38: WARNING",
		"UPGRADE_READINESS 1.39 Deprecated APIs removed in Kubernetes v1.39: PASSING")
	out, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev"), Filter: &ekstypes.InsightsFilter{KubernetesVersions: []string{"1.38"}}})
	if err != nil {
		t.Fatal(err)
	}
	one, err := w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: out.Insights[0].Id})
	if err != nil {
		t.Fatal(err)
	}
	if got := *one.Insight.InsightStatus.Reason; got != "Deprecated API usage detected within last 30 days and your cluster is on Kubernetes v1.36" {
		t.Error(got)
	}
	details := one.Insight.CategorySpecificSummary.DeprecationDetails
	if len(details) != 4 {
		t.Fatalf("details %s", asJSON(details))
	}
	claims := details[1]
	if *claims.Usage != "/apis/resource.k8s.io/v1beta1/resourceclaims" || *claims.ReplacedWith != "/apis/resource.k8s.io/v1/resourceclaims" ||
		*claims.StopServingVersion != "1.38" || *claims.StartServingReplacementVersion != "1.34" || len(claims.ClientStats) != 2 {
		t.Fatalf("details %s", asJSON(claims))
	}
	if c := claims.ClientStats[0]; *c.UserAgent != "terraform" || c.NumberOfRequestsLast30Days != 5 || !c.LastRequestTime.Equal(at) {
		t.Errorf("client %s", asJSON(c))
	}
}

// The planned removals match those of Kubernetes.
func TestRemovalsAreKubernetes(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.36")
	type lifecycle interface {
		APILifecycleRemoved() (major, minor int)
	}
	want := map[string]lifecycle{
		"/apis/storage.k8s.io/v1beta1/volumeattributesclasses": &storagev1beta1.VolumeAttributesClass{},
		"/apis/resource.k8s.io/v1beta1/deviceclasses":          &resourcev1beta1.DeviceClass{},
		"/apis/resource.k8s.io/v1beta1/resourceclaims":         &resourcev1beta1.ResourceClaim{},
		"/apis/resource.k8s.io/v1beta1/resourceclaimtemplates": &resourcev1beta1.ResourceClaimTemplate{},
		"/apis/resource.k8s.io/v1beta1/resourceslices":         &resourcev1beta1.ResourceSlice{},
		"/apis/resource.k8s.io/v1beta2/deviceclasses":          &resourcev1beta2.DeviceClass{},
		"/apis/resource.k8s.io/v1beta2/resourceclaims":         &resourcev1beta2.ResourceClaim{},
		"/apis/resource.k8s.io/v1beta2/resourceclaimtemplates": &resourcev1beta2.ResourceClaimTemplate{},
		"/apis/resource.k8s.io/v1beta2/resourceslices":         &resourcev1beta2.ResourceSlice{},
	}
	out, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev")})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range out.Insights {
		one, err := w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: i.Id})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range one.Insight.CategorySpecificSummary.DeprecationDetails {
			if l := want[*d.Usage]; l == nil {
				t.Errorf("%s is not deprecated", *d.Usage)
			} else if major, minor := l.APILifecycleRemoved(); *d.StopServingVersion != fmt.Sprintf("%d.%d", major, minor) {
				t.Errorf("%s is removed in %d.%d, not %s", *d.Usage, major, minor, *d.StopServingVersion)
			}
			delete(want, *d.Usage)
		}
	}
	for api := range want {
		t.Errorf("no insight names %s", api)
	}
}

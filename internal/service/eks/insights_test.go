package eks_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"UPGRADE_READINESS 1.35 Cluster health issues: PASSING",
		"UPGRADE_READINESS 1.35 EKS add-on version compatibility: PASSING",
		"UPGRADE_READINESS 1.35 Kubelet version skew: PASSING",
		"UPGRADE_READINESS 1.35 kube-proxy version skew: PASSING")
	before, err := w.client.DescribeInsightsRefresh(t.Context(), &awseks.DescribeInsightsRefreshInput{ClusterName: dev})
	if err != nil || before.Status != ekstypes.InsightsRefreshStatusCompleted {
		t.Fatalf("refresh %+v, %v", before, err)
	}

	w.node("worker", "v1.32.0-eks-1234567", "")
	daemons := w.kubernetes().AppsV1().DaemonSets("kube-system")
	_, err = daemons.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "kube-proxy", Image: "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/kube-proxy:v1.31.2-minimal-eksbuild.1"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.wantInsights(
		"UPGRADE_READINESS 1.35 Cluster health issues: PASSING",
		"UPGRADE_READINESS 1.35 EKS add-on version compatibility: PASSING",
		"UPGRADE_READINESS 1.35 Kubelet version skew: WARNING",
		"UPGRADE_READINESS 1.35 kube-proxy version skew: ERROR")

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

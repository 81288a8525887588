package eks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// clusterAt creates an ACTIVE cluster of a version.
func (w *world) clusterAt(version string) *ekstypes.Cluster {
	w.Helper()
	in := w.createInput("dev")
	in.Version = &version
	if _, err := w.client.CreateCluster(w.Context(), in); err != nil {
		w.Fatal(err)
	}
	return w.waitCluster("dev", ekstypes.ClusterStatusActive)
}

func (w *world) toVersion(in *awseks.UpdateClusterVersionInput) (*ekstypes.Update, error) {
	in.Name = aws.String("dev")
	out, err := w.client.UpdateClusterVersion(w.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.Update, nil
}

const (
	notReadyToUpgrade  = "Upgrade readiness issues detected. Call the EKS ListInsights API to view upgrade blocking issues detected by EKS. Pass the force flag to override upgrade readiness errors and proceed with upgrade."
	notReadyToRollBack = "Rollback readiness issues detected. Call the EKS ListInsights API to view rollback blocking issues detected by EKS. Pass the force flag to override rollback readiness errors and proceed with rollback."
)

// wouldBeRefused checks that `drydock why cluster` says which insight refuses a change of the version.
func (w *world) wouldBeRefused(what, version, reason string) {
	w.Helper()
	if want, got := what+" to Kubernetes "+version+" would be refused unless forced: "+reason, w.updateNotes(); !slices.Contains(got, want) {
		w.Errorf("notes %q, want %q", got, want)
	}
}

// upgraded changes the version and waits until the update has ended.
func (w *world) upgraded(in *awseks.UpdateClusterVersionInput) *ekstypes.Update {
	w.Helper()
	up, err := w.toVersion(in)
	if err != nil {
		w.Fatal(err)
	}
	if up.Status != ekstypes.UpdateStatusInProgress {
		w.Errorf("the new update is %s", up.Status)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	got, err := w.client.DescribeUpdate(w.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: up.Id})
	if err != nil {
		w.Fatal(err)
	}
	return got.Update
}

// updateNotes returns what drydock why cluster says about the updates of the cluster.
func (w *world) updateNotes() []string {
	w.Helper()
	out, err := w.svc.UpdateNotes(awsapi.WithCall(w.Context(), &awsapi.Call{Account: w.account, Region: testkit.Region, Service: "eks"}), "dev", true)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func version(v string) *awseks.UpdateClusterVersionInput {
	return &awseks.UpdateClusterVersionInput{Version: &v}
}

// node adds a node with a kubelet of a version, in a node group unless group is empty.
func (w *world) node(name, kubelet, group string) {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubelet}}}
	if group != "" {
		n.Labels = map[string]string{plane.LabelNodegroup: group}
	}
	if _, err := w.kubernetes().CoreV1().Nodes().Create(w.Context(), n, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestClusterIsUpgradedByOneMinorAtATime(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.33")
	for _, v := range []string{"1.34", "1.35", "1.36"} {
		up := w.upgraded(version(v))
		if up.Status != ekstypes.UpdateStatusSuccessful || up.Type != ekstypes.UpdateTypeVersionUpdate || len(up.Errors) != 0 {
			t.Fatalf("update to %s: %+v", v, up)
		}
		c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
		params := map[string]string{}
		for _, p := range up.Params {
			params[string(p.Type)] = *p.Value
		}
		if diff := cmp.Diff(map[string]string{"Version": v, "PlatformVersion": *c.PlatformVersion}, params); diff != "" {
			t.Errorf("params (-want +got):\n%s", diff)
		}
		pl, _ := w.planes.only()
		if *c.Version != v || w.planes.Version(pl.ID) != v {
			t.Errorf("cluster at %s, control plane at %s, want %s", *c.Version, w.planes.Version(pl.ID), v)
		}
	}
}

func TestVersionUpdatesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	for _, tt := range []struct{ name, version, code, message string }{
		{"the same version", "1.34", "InvalidParameterException", "Unsupported Kubernetes minor version update from 1.34 to 1.34"},
		{"a skipped version", "1.36", "InvalidParameterException", "Unsupported Kubernetes minor version update from 1.34 to 1.36"},
		{"a version that does not exist", "1.99", "InvalidParameterException", "unsupported Kubernetes version 1.99"},
		{"no version", "latest", "InvalidParameterException", "unsupported Kubernetes version latest"},
		{"a downgrade of a cluster that was created so", "1.33", "InvalidRequestException", "Unsupported Kubernetes minor version update from 1.34 to 1.33: the cluster was not upgraded from version 1.33, so it cannot be rolled back to it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.toVersion(version(tt.version))
			wantError(t, err, tt.code, tt.message)
		})
	}
	_, err := w.toVersion(&awseks.UpdateClusterVersionInput{Version: aws.String("1.35"), RollbackConfig: &ekstypes.RollbackConfig{}})
	wantError(t, err, "InvalidParameterException", "rollbackConfig is only valid for a rollback, and version 1.35 is an upgrade")
	_, err = w.client.UpdateClusterVersion(t.Context(), &awseks.UpdateClusterVersionInput{Name: aws.String("none"), Version: aws.String("1.35")})
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: none.")
}

func TestVersionUpdateNeedsAnIdleCluster(t *testing.T) {
	w := newWorld(t, func(w *world) { w.timing.ClusterUpdating = time.Hour })
	w.clusterAt("1.34")
	in := version("1.35")
	in.ClientRequestToken = aws.String("once")
	up, err := w.toVersion(in)
	if err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusUpdating)
	if again, err := w.toVersion(in); err != nil || *again.Id != *up.Id {
		t.Errorf("the repeated request: %v, %v", again, err)
	}
	_, err = w.toVersion(version("1.35"))
	wantError(t, err, "ResourceInUseException", "Cannot VersionUpdate because cluster dev currently has update "+*up.Id+" in progress")
	_, err = w.client.CancelUpdate(t.Context(), &awseks.CancelUpdateInput{Name: aws.String("dev"), UpdateId: up.Id})
	wantError(t, err, "InvalidRequestException", "Update "+*up.Id+" cannot be cancelled. Only a VersionRollback of a cluster with Auto Mode can be, while its nodes are rolled back")
	_, err = w.client.CancelUpdate(t.Context(), &awseks.CancelUpdateInput{Name: aws.String("dev"), UpdateId: aws.String("none")})
	wantError(t, err, "ResourceNotFoundException", "No update found for ID: none")
}

func TestNodesTooOldForTheNextVersion(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.35")
	w.node("old", "v1.32.9-eks-1234567", "workers")
	w.eventually(func() error {
		_, err := w.toVersion(version("1.36"))
		if err == nil {
			t.Fatal("the update was accepted")
		}
		if !isCode(err, "InvalidRequestException") {
			return err
		}
		return nil
	})
	in := version("1.36")
	in.Force = true
	_, err := w.toVersion(in)
	wantError(t, err, "InvalidRequestException", "Nodegroups workers must be updated to match cluster version 1.35 before updating cluster version")

	if notes := w.updateNotes(); len(notes) == 0 || notes[0] != "an upgrade to Kubernetes 1.36 would be refused, even if forced: nodegroups workers are too old" {
		t.Errorf("notes %q", notes)
	}
	if err := w.kubernetes().CoreV1().Nodes().Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.node("mine", "v1.31.0", "")
	w.eventually(func() error {
		if _, err = w.toVersion(version("1.36")); err == nil {
			t.Fatal("the update was accepted")
		}
		if got, ok := errors.AsType[*ekstypes.InvalidStateException](err); !ok || got.ErrorMessage() != notReadyToUpgrade {
			return err
		}
		return nil
	})
	w.wouldBeRefused("an upgrade", "1.36", "Kubelet version skew: kubelet version 1.31 is more than 3 minor versions older than Kubernetes version 1.36.")
	if up := w.upgraded(in); up.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("forced update: %+v", up)
	}
}

func TestVersionUpdateNeedsFreeAddresses(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.35")
	w.ec2.mu.Lock()
	for i := range w.ec2.subnets {
		w.ec2.subnets[i].AvailableIpAddressCount = aws.Int32(1)
	}
	w.ec2.mu.Unlock()
	_, err := w.toVersion(version("1.36"))
	text := "One or more of the subnets associated with your cluster does not have enough available IP addresses for Amazon EKS to perform cluster management operations. " +
		"Free up addresses in the subnet(s), or associate different subnets to your cluster using the Amazon EKS update-cluster-config API."
	wantError(t, err, "InvalidStateException", notReadyToUpgrade)
	w.wouldBeRefused("an upgrade", "1.36", "Cluster health issues: "+text)
	in := version("1.36")
	in.Force = true
	up := w.upgraded(in)
	want := []ekstypes.ErrorDetail{{ErrorCode: ekstypes.ErrorCodeInsufficientFreeAddresses, ErrorMessage: &text, ResourceIds: []string{"subnet-a", "subnet-b", "subnet-c"}}}
	if up.Status != ekstypes.UpdateStatusFailed || len(up.Errors) != 1 || *up.Errors[0].ErrorMessage != text ||
		up.Errors[0].ErrorCode != want[0].ErrorCode || !slices.Equal(up.Errors[0].ResourceIds, want[0].ResourceIds) {
		t.Errorf("update %s, errors %s", up.Status, asJSON(up.Errors))
	}
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); *c.Version != "1.35" {
		t.Errorf("version %s after the failed update", *c.Version)
	}
	if notes := w.updateNotes(); len(notes) != 2 || !strings.HasSuffix(notes[0], " failed: InsufficientFreeAddresses: "+text) ||
		notes[1] != "an upgrade to Kubernetes 1.36 would be refused unless forced: Cluster health issues: "+text {
		t.Errorf("notes %q", notes)
	}
}

// If the new control plane serves requests but its controllers never run, the update eventually fails, and the
// cluster keeps the new version.
func TestVersionUpdateWhoseControllersNeverRun(t *testing.T) {
	w := newWorld(t, withClock)
	w.pace = time.Minute
	w.clusterAt("1.35")
	w.planes.mu.Lock()
	w.planes.upgrading = func(version string) error {
		for id := range w.planes.versions {
			w.planes.versions[id] = version
		}
		return errors.New("its controllers do not run")
	}
	w.planes.mu.Unlock()
	up := w.upgraded(version("1.36"))
	if up.Status != ekstypes.UpdateStatusFailed || len(up.Errors) != 1 || *up.Errors[0].ErrorMessage != "its controllers do not run" {
		t.Errorf("update %s, errors %s", up.Status, asJSON(up.Errors))
	}
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); *c.Version != "1.36" {
		t.Errorf("version %s", *c.Version)
	}
}

func TestRollback(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	w.upgraded(version("1.35"))
	w.upgraded(version("1.36"))
	_, err := w.toVersion(version("1.34"))
	wantError(t, err, "InvalidParameterException", "Unsupported Kubernetes minor version update from 1.36 to 1.34")
	for _, m := range []int32{119, 10081} {
		_, err = w.toVersion(&awseks.UpdateClusterVersionInput{Version: aws.String("1.35"), RollbackConfig: &ekstypes.RollbackConfig{TimeoutMinutes: &m}})
		wantError(t, err, "InvalidParameterException", "rollbackConfig.timeoutMinutes must be between 120 and 10080")
	}
	w.node("new", "v1.36.1-eks-1234567", "workers")
	w.eventually(func() error {
		list, err := w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev"), Filter: &ekstypes.InsightsFilter{
			Categories: []ekstypes.Category{ekstypes.CategoryRollbackReadiness}, Statuses: []ekstypes.InsightStatusValue{ekstypes.InsightStatusValueError},
		}})
		if err == nil && len(list.Insights) != 1 {
			err = fmt.Errorf("%d failing insights", len(list.Insights))
		}
		return err
	})
	in := &awseks.UpdateClusterVersionInput{Version: aws.String("1.35"), RollbackConfig: &ekstypes.RollbackConfig{TimeoutMinutes: aws.Int32(120)}}
	_, err = w.toVersion(in)
	wantError(t, err, "InvalidStateException", notReadyToRollBack)
	w.wouldBeRefused("a rollback", "1.35", "Kubelet version skew: kubelet version 1.36 is newer than Kubernetes version 1.35.")
	in.Force = true
	up := w.upgraded(in)
	if up.Type != ekstypes.UpdateTypeVersionRollback || up.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("rollback: %+v", up)
	}
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); *c.Version != "1.35" || *c.PlatformVersion != "eks.12" {
		t.Errorf("after the rollback: version %s, %s", *c.Version, *c.PlatformVersion)
	}
	_, err = w.toVersion(version("1.34"))
	wantError(t, err, "InvalidRequestException", "Unsupported Kubernetes minor version update from 1.35 to 1.34: the cluster was not upgraded from version 1.34, so it cannot be rolled back to it")
}

// A rollback is refused if objects would become unreadable, or if that is unknown, unless it is forced.
func TestRollbackReadiness(t *testing.T) {
	newest, _ := eksversions.Lookup(eksversions.Default)
	before := fmt.Sprintf("1.%d", eksversions.Number(newest.Minor)-1)
	w := newWorld(t)
	w.clusterAt(before)
	w.upgraded(version(newest.Minor))
	const name = "Kubernetes API usage compatibility"
	w.rollbackInsight(name, ekstypes.InsightStatusValuePassing)

	uri := newest.Introduces[0]
	objects := w.objects()
	objects.mu.Lock()
	objects.served = map[string]bool{uri: true}
	objects.mu.Unlock()
	w.rollbackInsight(name, ekstypes.InsightStatusValueError)
	_, err := w.toVersion(version(before))
	wantError(t, err, "InvalidStateException", notReadyToRollBack)
	w.wouldBeRefused("a rollback", before, fmt.Sprintf("%s: The cluster has objects of %s, which Kubernetes version %s does not serve.", name, uri, before))

	objects.mu.Lock()
	objects.served, objects.silent = nil, errors.New("it does not answer")
	objects.mu.Unlock()
	_, err = w.toVersion(version(before))
	wantError(t, err, "InvalidStateException", notReadyToRollBack)
	w.wouldBeRefused("a rollback", before, name+": it does not answer")
	in := version(before)
	in.Force = true
	if up := w.upgraded(in); up.Status != ekstypes.UpdateStatusSuccessful || up.Type != ekstypes.UpdateTypeVersionRollback {
		t.Errorf("forced rollback: %s", asJSON(up))
	}
}

// An upgrade, its insights and its rehearsal do not need what only a rollback depends on.
func TestUpgradeWhileEvidenceForARollbackIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	w.upgraded(version("1.35"))
	objects := w.objects()
	objects.mu.Lock()
	objects.silent = errors.New("it does not answer")
	objects.mu.Unlock()
	w.wantInsights(
		"ROLLBACK_READINESS 1.34 Cluster health issues: PASSING",
		"ROLLBACK_READINESS 1.34 EKS add-on version compatibility: PASSING",
		"ROLLBACK_READINESS 1.34 Kubelet version skew: PASSING",
		"ROLLBACK_READINESS 1.34 Kubernetes API usage compatibility: UNKNOWN",
		"ROLLBACK_READINESS 1.34 kube-proxy version skew: PASSING",
		"UPGRADE_READINESS 1.36 Amazon Linux 2 compatibility: PASSING",
		"UPGRADE_READINESS 1.36 Cluster health issues: PASSING",
		"UPGRADE_READINESS 1.36 EKS add-on version compatibility: PASSING",
		"UPGRADE_READINESS 1.36 Kubelet version skew: PASSING",
		"UPGRADE_READINESS 1.36 kube-proxy version skew: PASSING",
		"UPGRADE_READINESS 1.37 Deprecated APIs removed in Kubernetes v1.37: PASSING",
		"UPGRADE_READINESS 1.38 Deprecated APIs removed in Kubernetes v1.38: PASSING",
		"UPGRADE_READINESS 1.39 Deprecated APIs removed in Kubernetes v1.39: PASSING")
	lists := func() int {
		objects.mu.Lock()
		defer objects.mu.Unlock()
		return objects.lookups
	}
	before := lists()
	upgrade := testkit.Must(w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev"), Filter: &ekstypes.InsightsFilter{Categories: []ekstypes.Category{ekstypes.CategoryUpgradeReadiness}}}))(t)
	for _, i := range upgrade.Insights {
		testkit.Must(w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: i.Id}))(t)
	}
	if out, err := w.rehearse(); err != nil || len(out.Unknown) > 0 {
		t.Errorf("rehearsal: %v, unknown %q", err, out.Unknown)
	}
	if up := w.upgraded(version("1.36")); up.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("upgrade %s", asJSON(up))
	}
	if n := lists() - before; n > 0 {
		t.Errorf("objects were listed %d times for an upgrade", n)
	}
}

// An upgrade at the end of extended support is final. One at the end of standard support can be rolled back to extended
// support.
func TestRollbackAfterTheEndOfSupport(t *testing.T) {
	for _, tt := range []struct {
		support ekstypes.SupportType
		refusal string
	}{
		{ekstypes.SupportTypeExtended, "Cluster dev cannot be rolled back to version 1.35 because it was upgraded automatically at the end of that version's extended support"},
		{ekstypes.SupportTypeStandard, "Cluster dev cannot be rolled back to version 1.35 because that version's standard support has ended. Change the cluster's upgrade policy to EXTENDED first"},
	} {
		t.Run(string(tt.support), func(t *testing.T) {
			w := newWorld(t, withClock, func(w *world) {
				v, _ := eksversions.Lookup("1.35")
				w.fake.SetTime(v.EndOfStandardSupport.Add(-48 * time.Hour)) // AWS may be early here, with drydock fault
			})
			in := w.createInput("dev")
			in.Version, in.UpgradePolicy = aws.String("1.35"), &ekstypes.UpgradePolicyRequest{SupportType: tt.support}
			if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			w.waitCluster("dev", ekstypes.ClusterStatusActive)
			if err := w.svc.EndSupport(t.Context(), w.account, testkit.Region, "dev"); err != nil {
				t.Fatal(err)
			}
			w.waitCluster("dev", ekstypes.ClusterStatusActive)
			back := version("1.35")
			back.Force = true
			_, err := w.toVersion(back)
			wantError(t, err, "InvalidRequestException", tt.refusal)
			if got := w.updateNotes(); !slices.Contains(got, "a rollback to Kubernetes 1.35 would be refused: "+tt.refusal) {
				t.Errorf("notes %q", got)
			}
			if tt.support == ekstypes.SupportTypeExtended {
				return
			}
			w.mustUpdate(&awseks.UpdateClusterConfigInput{UpgradePolicy: &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeExtended}})
			if got := w.updateNotes(); !slices.ContainsFunc(got, func(n string) bool {
				return strings.HasPrefix(n, "the cluster can be rolled back to Kubernetes 1.35 until ")
			}) {
				t.Errorf("notes %q", got)
			}
			if up := w.upgraded(back); up.Status != ekstypes.UpdateStatusSuccessful {
				t.Errorf("rollback: %s", asJSON(up))
			}
		})
	}
}

// Fields that the previous version drops are a warning: in templates and in objects that are not made from one, and in ephemeral
// containers, which templates do not have, but not if they have their default.
func TestRollbackReadinessOfFields(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		lists    map[string][]string
		want     []string
	}{
		{"1.33", "1.34", map[string][]string{
			"pods":         {`{"metadata":{"name":"bare","namespace":"shop"},"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"spec":{"volumeAttributesClassName":"gold"}}}}]}}`},
			"statefulsets": {`{"metadata":{"name":"db","namespace":"shop"},"spec":{"volumeClaimTemplates":[{"spec":{"volumeAttributesClassName":"gold"}}]}}`},
		}, []string{
			"/api/v1/namespaces/shop/pods/bare spec.volumes[].ephemeral.volumeClaimTemplate.spec.volumeAttributesClassName",
			"/apis/apps/v1/namespaces/shop/statefulsets/db spec.volumeClaimTemplates[].spec.volumeAttributesClassName",
		}},
		{"1.34", "1.35", map[string][]string{
			"cronjobs":    {`{"metadata":{"name":"report","namespace":"shop"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"env":[{"value":"a"},{"valueFrom":{"fileKeyRef":{"key":"k"}}}]}]}}}}}}`},
			"csidrivers":  {`{"metadata":{"name":"ebs.csi.aws.com"},"spec":{"serviceAccountTokenInSecrets":false}}`},
			"deployments": {`{"metadata":{"name":"web","namespace":"shop"},"spec":{"template":{"spec":{"hostnameOverride":"web","containers":[{"name":"c"}]}}}}`, `{"metadata":{"name":"old","namespace":"shop"},"spec":{"template":{"spec":{"hostname":"web"}}}}`},
			"jobs":        {`{"metadata":{"name":"report-1","namespace":"shop","ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"report","controller":true}]},"spec":{"template":{"spec":{"hostnameOverride":"r"}}}}`},
			"pods": {
				`{"metadata":{"name":"web-1-a","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","controller":true}]},"spec":{"hostnameOverride":"web","ephemeralContainers":[{"env":[{"valueFrom":{"fileKeyRef":{"key":"k"}}}]}]}}`,
				`{"metadata":{"name":"game-0","namespace":"shop","ownerReferences":[{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","name":"game","controller":true}]},"spec":{"hostnameOverride":"game"}}`,
				`{"metadata":{"name":"bare","namespace":"shop"},"spec":{"initContainers":[{"restartPolicyRules":[{"action":"Restart"}]}]}}`,
			},
			"podtemplates": {`{"metadata":{"name":"pod","namespace":"shop"},"template":{"spec":{"hostnameOverride":"pod"}}}`},
			"replicasets": {
				`{"metadata":{"name":"web-1","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","controller":true}]},"spec":{"template":{"spec":{"hostnameOverride":"web"}}}}`,
				`{"metadata":{"name":"canary-1","namespace":"shop","ownerReferences":[{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","name":"canary","controller":true}]},"spec":{"template":{"spec":{"hostnameOverride":"canary"}}}}`,
				`{"metadata":{"name":"bare","namespace":"shop"},"spec":{"template":{"spec":{"hostnameOverride":"bare"}}}}`,
			},
			"replicationcontrollers": {`{"metadata":{"name":"rc","namespace":"shop"},"spec":{"template":{"spec":{"hostnameOverride":"rc"}}}}`},
		}, []string{
			"/api/v1/namespaces/shop/pods/bare spec.initContainers[].restartPolicyRules",
			"/api/v1/namespaces/shop/pods/game-0 spec.hostnameOverride",
			"/api/v1/namespaces/shop/pods/web-1-a spec.ephemeralContainers[].env[].valueFrom.fileKeyRef",
			"/api/v1/namespaces/shop/podtemplates/pod template.spec.hostnameOverride",
			"/api/v1/namespaces/shop/replicationcontrollers/rc spec.template.spec.hostnameOverride",
			"/apis/apps/v1/namespaces/shop/deployments/web spec.template.spec.hostnameOverride",
			"/apis/apps/v1/namespaces/shop/replicasets/bare spec.template.spec.hostnameOverride",
			"/apis/apps/v1/namespaces/shop/replicasets/canary-1 spec.template.spec.hostnameOverride",
			"/apis/batch/v1/namespaces/shop/cronjobs/report spec.jobTemplate.spec.template.spec.containers[].env[].valueFrom.fileKeyRef",
		}},
		{"1.35", "1.36", map[string][]string{
			"resourceclaims": {
				`{"metadata":{"name":"gpu","namespace":"shop"},"spec":{"devices":{"requests":[{"firstAvailable":[{"name":"a"},{"capacity":{"requests":{"memory":"1Gi"}}}]}]}}}`,
				`{"metadata":{"name":"web-1-gpu","namespace":"shop","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web-1","controller":true}]},"spec":{"devices":{"requests":[{"exactly":{"tolerations":[{"key":"slow"}]}}]}}}`,
			},
			"resourceclaimtemplates": {`{"metadata":{"name":"gpu","namespace":"shop"},"spec":{"spec":{"devices":{"requests":[{"firstAvailable":[{"tolerations":[{"key":"slow"}]}]}],"constraints":[{"distinctAttribute":"slot"}]}}}}`},
		}, []string{
			"/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu spec.devices.requests[].firstAvailable[].capacity",
			"/apis/resource.k8s.io/v1/namespaces/shop/resourceclaimtemplates/gpu spec.spec.devices.constraints[].distinctAttribute",
			"/apis/resource.k8s.io/v1/namespaces/shop/resourceclaimtemplates/gpu spec.spec.devices.requests[].firstAvailable[].tolerations",
		}},
	} {
		t.Run(tt.to, func(t *testing.T) {
			w := newWorld(t)
			w.clusterAt(tt.from)
			w.upgraded(version(tt.to))
			lists := map[string][]unstructured.Unstructured{}
			for resource, texts := range tt.lists {
				for _, text := range texts {
					var o unstructured.Unstructured
					if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
						t.Fatal(err)
					}
					lists[resource] = append(lists[resource], o)
				}
			}
			objects := w.objects()
			objects.mu.Lock()
			objects.lists = lists
			objects.mu.Unlock()
			found := w.rollbackInsight("Kubernetes API usage compatibility", ekstypes.InsightStatusValueWarning)
			var got []string
			for _, r := range found.Resources {
				got = append(got, *r.InsightStatus.Reason)
			}
			var want []string
			for _, use := range tt.want {
				uri, path, _ := strings.Cut(use, " ")
				want = append(want, fmt.Sprintf("%s uses the field %s, which Kubernetes version %s does not support.", uri, path, tt.from))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if up := w.upgraded(version(tt.from)); up.Status != ekstypes.UpdateStatusSuccessful {
				t.Errorf("rollback %s", asJSON(up))
			}
		})
	}
}

// If there are too many objects, the insight says so, whether something was found or not.
func TestRollbackReadinessOfTooManyObjects(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.34")
	w.upgraded(version("1.35"))
	objects := w.objects()
	for status, found := range map[ekstypes.InsightStatusValue][]unstructured.Unstructured{
		ekstypes.InsightStatusValuePassing: nil,
		ekstypes.InsightStatusValueWarning: {{Object: map[string]any{"metadata": map[string]any{"name": "bare", "namespace": "shop"}, "spec": map[string]any{"hostnameOverride": "bare"}}}},
	} {
		objects.mu.Lock()
		objects.lists, objects.silent = map[string][]unstructured.Unstructured{"pods": found}, plane.ErrTooMany
		objects.mu.Unlock()
		i := w.rollbackInsight("Kubernetes API usage compatibility", status)
		if !strings.HasSuffix(*i.InsightStatus.Reason, ". Not all objects were checked for newer fields, because there are too many.") || len(i.Resources) != len(found) {
			t.Errorf("%s", asJSON(i))
		}
	}
}

// rollbackInsight waits until an insight about a rollback has a status, and describes it.
func (w *world) rollbackInsight(name string, status ekstypes.InsightStatusValue) *ekstypes.Insight {
	w.Helper()
	var found *ekstypes.Insight
	w.eventually(func() error {
		list, err := w.client.ListInsights(w.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev"), Filter: &ekstypes.InsightsFilter{Categories: []ekstypes.Category{ekstypes.CategoryRollbackReadiness}}})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Insights, func(i ekstypes.InsightSummary) bool { return *i.Name == name })
		if i < 0 || list.Insights[i].InsightStatus.Status != status {
			return fmt.Errorf("the insight %s is not %s: %s", name, status, asJSON(list.Insights))
		}
		one, err := w.client.DescribeInsight(w.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: list.Insights[i].Id})
		if err != nil {
			return err
		}
		found = one.Insight
		return nil
	})
	return found
}

// An upgrade and a rollback end correctly however often calls fail or the service restarts.
func TestVersionUpdateSurvivesAnyCrash(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t)
			w.clusterAt("1.35")
			r := rand.New(rand.NewPCG(seed, seed))
			change := func(to string, restart bool) {
				w.faults.mu.Lock()
				w.faults.rand, w.faults.left, w.faults.rate = r, 4, 0.5
				w.faults.mu.Unlock()
				var up *ekstypes.Update
				w.eventually(func() (err error) { up, err = w.toVersion(version(to)); return err })
				if restart {
					w.restart()
				}
				c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
				got, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: up.Id})
				if err != nil {
					t.Fatal(err)
				}
				if *c.Version != to || got.Update.Status != ekstypes.UpdateStatusSuccessful {
					t.Errorf("version %s, update %s %s", *c.Version, got.Update.Status, asJSON(got.Update.Errors))
				}
			}
			if seed%2 == 0 { // the server keeps using the service that was stopped, so no other request follows
				change("1.36", true)
				return
			}
			change("1.36", false)
			change("1.35", true)
		})
	}
}

// TestPlatformVersions: a cluster moves to the next platform version on demand and, with AWS's timing, by itself, while
// it stays ACTIVE. A daemon that dies on the way finishes the move.
func TestPlatformVersions(t *testing.T) {
	w := newWorld(t, withClock, func(w *world) { w.timing.ClusterPlatform, w.pace = 35*24*time.Hour, 24*time.Hour })
	c := w.clusterAt(eksversions.Default)
	number := func(c *ekstypes.Cluster) (n int) {
		if _, err := fmt.Sscanf(*c.PlatformVersion, "eks.%d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	moved := func(want int) {
		t.Helper()
		w.eventually(func() error {
			if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); number(c) != want {
				return fmt.Errorf("platform version %s", *c.PlatformVersion)
			}
			return nil
		})
	}
	w.faults.mu.Lock()
	w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(1, 2)), 2, 1
	w.faults.mu.Unlock()
	if err := w.svc.MovePlatform(t.Context(), w.account, testkit.Region, "dev"); err != nil {
		t.Fatal(err)
	}
	moved(number(c) + 1)
	moved(number(c) + 2)
	w.planes.mu.Lock()
	defer w.planes.mu.Unlock()
	if w.planes.replaced < 2 {
		t.Errorf("the control plane was replaced %d times", w.planes.replaced)
	}
}

// TestUpdateNotes: an update of any type that is in progress is explained.
func TestUpdateNotes(t *testing.T) {
	w := newWorld(t, func(w *world) { w.timing.ClusterUpdating = time.Hour })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if got := w.updateNotes(); len(got) > 0 {
		t.Errorf("notes of a new cluster: %q", got)
	}
	up, err := w.update(&awseks.UpdateClusterConfigInput{DeletionProtection: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	want := "the DeletionProtectionUpdate, requested at " + up.CreatedAt.UTC().Format(time.RFC3339) + ", is in progress"
	if got := w.updateNotes(); !slices.Equal(got, []string{want}) {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// TestEndOfSupport: AWS upgrades a cluster whose version is no longer supported, whatever its insights say.
func TestEndOfSupport(t *testing.T) {
	v, _ := eksversions.Lookup("1.35")
	w := newWorld(t, withClock, func(w *world) { w.timing.ClusterPlatform, w.pace = 35*24*time.Hour, 24*time.Hour })
	w.fake.SetTime(v.EndOfStandardSupport.Add(-48 * time.Hour))
	in := w.createInput("dev")
	in.Version, in.UpgradePolicy = aws.String("1.35"), &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeStandard}
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.node("old", "v1.31.0", "")
	w.eventually(func() error {
		if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); *c.Version != "1.36" {
			return fmt.Errorf("version %s", *c.Version)
		}
		return nil
	})
	list, err := w.client.ListUpdates(t.Context(), &awseks.ListUpdatesInput{Name: aws.String("dev")})
	if err != nil || len(list.UpdateIds) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	up, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: &list.UpdateIds[0]})
	if err != nil || up.Update.Type != ekstypes.UpdateTypeVersionUpdate || up.Update.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("%+v, %v", up.Update, err)
	}
	err = w.svc.EndSupport(t.Context(), w.account, testkit.Region, "dev")
	if err == nil || !strings.Contains(err.Error(), "Kubernetes version 1.36 is the latest one") {
		t.Errorf("EndSupport = %v", err)
	}
}

// TestVersionUpdateThatAFaultStops fails at once and leaves the cluster at its version.
func TestVersionUpdateThatAFaultStops(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.35")
	w.planes.mu.Lock()
	w.planes.upgrading = func(string) error {
		return fault.Because(errors.New("unhealthy"), &fault.Fault{ID: "F-1", Kind: fault.Upgrade, Cluster: "dev"})
	}
	w.planes.mu.Unlock()
	up := w.upgraded(version("1.36"))
	want := "The update to Kubernetes version 1.36 failed health checks. Amazon EKS reverted the infrastructure deployment, and the cluster remains on the prior Kubernetes version."
	if up.Status != ekstypes.UpdateStatusFailed || len(up.Errors) != 1 || *up.Errors[0].ErrorMessage != want {
		t.Errorf("update %s, errors %s", up.Status, asJSON(up.Errors))
	}
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); *c.Version != "1.35" {
		t.Errorf("version %s after the failed update", *c.Version)
	}
}

// TestVersionUpdateWaitsForTheControlPlane: an upgrade of a control plane that is down completes when it is back.
func TestVersionUpdateWaitsForTheControlPlane(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.35")
	var tries atomic.Int32
	w.planes.mu.Lock()
	w.planes.upgrading = func(string) error {
		if tries.Add(1) <= 3 {
			return fault.Because(errors.New("the control plane is down"), &fault.Fault{ID: "F-1", Kind: fault.ControlPlane, Cluster: "dev"})
		}
		return nil
	}
	w.planes.mu.Unlock()
	if up := w.upgraded(version("1.36")); up.Status != ekstypes.UpdateStatusSuccessful || tries.Load() < 4 {
		t.Errorf("after %d tries: update %s, errors %s", tries.Load(), up.Status, asJSON(up.Errors))
	}
}

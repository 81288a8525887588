package eks_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) rehearse() (eks.Rehearsal, error) {
	return w.svc.Rehearse(awsapi.WithCall(w.Context(), &awsapi.Call{Account: w.account, Region: testkit.Region, Service: "eks"}), "dev", w.unknownMoves)
}

// certificateUntil returns a certificate that expires at a given time.
func certificateUntil(t *testing.T, end time.Time) []byte {
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: testkit.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)})
}

func TestRehearsal(t *testing.T) {
	w := newWorld(t)
	_, err := w.rehearse()
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: dev.")
	w.clusterAt("1.35")
	w.planes.unconverted = []string{"widgets.example.com"}
	if out, err := w.rehearse(); err != nil || len(out.Findings) != 1 || out.Findings[0].Check != "conversion-webhook" || out.Findings[0].Subject != "widgets.example.com" {
		t.Errorf("rehearsal with a conversion webhook %s, %v", asJSON(out), err)
	}
	w.planes.unconverted, w.planes.stubbed = nil, map[string]int{"check.example.com": 3}
	if out, err := w.rehearse(); err != nil || len(out.Findings) > 0 || out.Stubbed["check.example.com"] != 3 {
		t.Errorf("rehearsal with an admission webhook %s, %v", asJSON(out), err)
	}
	w.planes.stubbed = nil
	if out, err := w.rehearse(); err != nil || len(out.Findings) > 0 || out.From != "1.35" || out.To != "1.36" {
		t.Errorf("rehearsal %s, %v", asJSON(out), err)
	}

	// What would break.
	client, ctx := w.kubernetes(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{"app": "web"}
	_, err = client.PolicyV1().PodDisruptionBudgets("shop").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	must(err)
	for name, node := range map[string]string{"web-1": "n", "web-2": ""} {
		_, err := client.CoreV1().Pods("shop").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}, metav1.CreateOptions{})
		must(err)
	}
	_, err = client.CoreV1().Services("shop").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: "shop"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "policy.example"}}, metav1.CreateOptions{})
	must(err)
	expired := time.Now().Add(-time.Hour)
	old, valid := certificateUntil(t, expired), certificateUntil(t, time.Now().Add(time.Hour))
	external := func(bundle []byte) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "shop", Name: "elsewhere"}, CABundle: bundle}
	}
	fail, ignore := admissionregistrationv1.Fail, admissionregistrationv1.Ignore
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "shop", Name: "policy"}}
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a.shop", ClientConfig: service, FailurePolicy: &fail}, {Name: "b.shop", ClientConfig: service, FailurePolicy: &ignore},
			{Name: "c.shop", ClientConfig: external(slices.Concat(old, valid)), FailurePolicy: &fail}, {Name: "d.shop", ClientConfig: external(old), FailurePolicy: &ignore}},
	}, metav1.CreateOptions{})
	must(err)
	w.node("worker", "v1.33.0-eks-1234567", "")
	w.planes.mu.Lock()
	w.planes.protected = map[string]bool{"web-1": true, "web-2": true}
	w.planes.uses = []eks.APIUse{{API: "/apis/storage.k8s.io/v1beta1/volumeattributesclasses", UserAgent: "csi", Requests: 3}}
	w.planes.mu.Unlock()
	want := []string{
		"error pod-disruption-budget shop/web: node groups cannot drain pod web-1: Cannot evict pod as it would violate the pod's disruption budget.",
		"error webhook validating policy: a.shop: its service shop/policy does not exist; requests that it matches are refused",
		"warning deprecated-api /apis/storage.k8s.io/v1beta1/volumeattributesclasses: removed in Kubernetes 1.37; csi made 3 requests in the last 30 days",
		"warning kubelet-version-skew /api/v1/nodes/worker: kubelet version 1.33 is 3 minor versions older than Kubernetes version 1.36, the most that is supported.",
		"warning self-managed-nodes worker: EKS does not update nodes that are in no node group",
		"warning webhook validating policy: b.shop: its service shop/policy does not exist; it is skipped",
		"warning webhook validating policy: d.shop: its CA bundle expired at " + expired.UTC().Format(time.RFC3339) + "; it is skipped",
	}
	w.eventually(func() error {
		out, err := w.rehearse()
		if err != nil {
			return err
		}
		var got []string
		for _, f := range out.Findings {
			got = append(got, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Check, f.Subject, f.Text))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("findings (-want +got):\n%s", diff)
		}
		return nil
	})
	w.planes.mu.Lock()
	for id := range w.planes.byID {
		if strings.HasPrefix(id, "COPY") {
			t.Errorf("the copy %s is left", id)
		}
	}
	w.planes.upgrading = func(string) error { return errors.New("no luck") }
	w.planes.mu.Unlock()
	out, err := w.rehearse()
	must(err)
	if !slices.ContainsFunc(out.Findings, func(f eks.Finding) bool { return f.Check == "upgrade" && f.Text == "the upgrade failed: no luck" }) {
		t.Errorf("findings %s", asJSON(out.Findings))
	}
}

// The nodes of a group are replaced on the copy, and only there.
func TestRehearsalReplacesNodes(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.35")
	group := w.nodegroup("dev", "ng", 2)
	own := w.nodegroupInput("dev", "own", 0)
	w.template("custom", &ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-custom")})
	own.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Name: aws.String("custom")}
	testkit.Must(w.client.CreateNodegroup(t.Context(), own))(t)
	w.waitNodegroup("dev", "own", ekstypes.NodegroupStatusActive)
	nodes := w.nodes()
	for i := range nodes {
		nodes[i].Status.NodeInfo.KubeletVersion = "v1.35.1-eks-1234567"
		testkit.Must(w.kubernetes().CoreV1().Nodes().UpdateStatus(t.Context(), &nodes[i], metav1.UpdateOptions{}))(t)
	}
	owner := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: aws.Bool(true)}}
	daemon := []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: aws.Bool(true)}}
	for name, by := range map[string][]metav1.OwnerReference{"web-1": owner, "agent-1": daemon, "bare": nil} {
		testkit.Must(w.kubernetes().CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", OwnerReferences: by}, Spec: corev1.PodSpec{NodeName: nodes[0].Name}}, metav1.CreateOptions{}))(t)
	}
	var out eks.Rehearsal
	w.eventually(func() (err error) { // until the nodes' kubelets are known
		if out, err = w.rehearse(); err == nil && len(out.Findings) > 0 && out.Findings[0].Severity == "error" {
			err = errors.New(out.Findings[0].Text)
		}
		return err
	})
	want := []eks.RehearsedStep{
		{Kind: "node-group", Name: "ng", From: *group.ReleaseVersion, To: out.Steps[0].To, Text: "2 nodes replaced, 2 pods moved"},
		{Kind: "node-group", Name: "own", From: out.Steps[1].From, Text: "stays"},
	}
	if diff := cmp.Diff(want, out.Steps); diff != "" || !strings.HasPrefix(out.Steps[0].To, "1.36.") {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	var got []string
	for _, f := range out.Findings {
		got = append(got, f.Severity+" "+f.Check+" "+f.Subject+": "+f.Text)
	}
	if diff := cmp.Diff([]string{
		"warning bare-pod ng: no controller will recreate these pods after their node is replaced: shop/bare",
		"warning node-group own: its AMI is your own: make a version of its launch template with an AMI for Kubernetes 1.36",
	}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	w.unknownMoves = "the source did not allow listing deployments"
	if out, err := w.rehearse(); err != nil || out.Steps[0].To != "" || out.Steps[0].Text != "unknown: the source did not allow listing deployments" {
		t.Errorf("steps %+v, %v", out.Steps, err)
	}
	for _, n := range w.nodes() {
		if n.Spec.Unschedulable || strings.HasPrefix(n.Name, "next.") {
			t.Errorf("the cluster has changed: %s, unschedulable: %t", n.Name, n.Spec.Unschedulable)
		}
	}
	if left := testkit.Must(w.kubernetes().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}))(t).Items; len(left) != 3 {
		t.Errorf("%d pods are left in the cluster", len(left))
	}
}

// The kubelets do not know the copy. The rehearsal renews their leases there, and only there: otherwise the copy's controllers would
// take all nodes for dead and evict their pods.
func TestRehearsalKeepsNodesAlive(t *testing.T) {
	w := newWorld(t, withClock)
	w.clusterAt("1.35")
	w.node("worker", "v1.35.1-eks-1234567", "")
	old := metav1.NewMicroTime(w.fake.Now().Add(-time.Hour))
	if _, err := w.kubernetes().CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", Namespace: corev1.NamespaceNodeLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &old},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	copied := func() *fake.Clientset { // the caller of Upgrade holds the mutex
		for id, cs := range w.planes.byID {
			if strings.HasPrefix(id, "COPY") {
				return cs
			}
		}
		return nil
	}
	began := w.fake.Now()
	var renewals []time.Time
	w.planes.mu.Lock()
	w.planes.upgrading = func(string) error { // the upgrade takes three times 40 s, as long as a lease lasts, and nothing else advances the clock
		changes, err := copied().CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer changes.Stop()
		for range 12 {
			w.fake.Step(10 * time.Second)
			late := time.After(time.Second)
			for waiting := true; waiting; {
				select {
				case e := <-changes.ResultChan():
					if l, ok := e.Object.(*coordinationv1.Lease); ok && !l.Spec.RenewTime.Time.Before(began) {
						renewals = append(renewals, l.Spec.RenewTime.Time)
						waiting = l.Spec.RenewTime.Time.Before(w.fake.Now())
					}
				case <-late:
					waiting = false
				}
			}
		}
		renewals = append(renewals, w.fake.Now()) // the end of the upgrade
		return nil
	}
	w.planes.mu.Unlock()
	out := testkit.Must(w.rehearse())(t)
	if len(renewals) == 0 {
		t.Fatalf("rehearsal %s", asJSON(out))
	}
	for last, i := began, 0; i < len(renewals); last, i = renewals[i], i+1 {
		if since := renewals[i].Sub(last); since >= 40*time.Second {
			t.Errorf("the lease was not renewed for %s", since)
		}
	}
	if l := testkit.Must(w.kubernetes().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "worker", metav1.GetOptions{}))(t); !l.Spec.RenewTime.Equal(&old) {
		t.Errorf("the cluster's own lease was renewed at %s", l.Spec.RenewTime)
	}
}

// rehearsed is rehearse while the world's clock advances.
func (w *world) rehearsed() eks.Rehearsal {
	w.Helper()
	var out eks.Rehearsal
	done := make(chan error, 1)
	go func() {
		var err error
		out, err = w.rehearse()
		done <- err
	}()
	var failed error
	w.eventually(func() error {
		select {
		case failed = <-done:
			return nil
		default:
			return errors.New("the rehearsal has not ended")
		}
	})
	if failed != nil {
		w.Fatal(failed)
	}
	return out
}

// texts are findings as SEVERITY CHECK SUBJECT: TEXT.
func texts(r *eks.Rehearsal) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Severity+" "+f.Check+" "+f.Subject+": "+f.Text)
	}
	return out
}

// What keeps a node group from being updated is a finding. What an operator does with its pods is unknown, as none runs on the copy.
func TestRehearsalOfNodesThatCannotBeReplaced(t *testing.T) {
	w := newWorld(t, withClock)
	w.clusterAt("1.35")
	w.nodegroup("dev", "ng", 1)
	node := w.nodes()[0]
	node.Status.NodeInfo.KubeletVersion = "v1.35.1-eks-1234567"
	testkit.Must(w.kubernetes().CoreV1().Nodes().UpdateStatus(t.Context(), &node, metav1.UpdateOptions{}))(t)
	set := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: aws.Bool(true)}}
	operator := []metav1.OwnerReference{{APIVersion: "postgresql.cnpg.io/v1", Kind: "Cluster", Name: "db", Controller: aws.Bool(true)}}
	put := func(name string, labels map[string]string, by []metav1.OwnerReference) {
		t.Helper()
		testkit.Must(w.kubernetes().CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: labels, OwnerReferences: by}, Spec: corev1.PodSpec{NodeName: node.Name}}, metav1.CreateOptions{}))(t)
	}
	budget := func(name string, labels map[string]string) {
		t.Helper()
		testkit.Must(w.kubernetes().PolicyV1().PodDisruptionBudgets("shop").Create(t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}, metav1.CreateOptions{}))(t)
	}
	protect := func(names ...string) {
		w.planes.mu.Lock()
		defer w.planes.mu.Unlock()
		w.planes.protected = map[string]bool{}
		for _, n := range names {
			w.planes.protected[n] = true
		}
	}
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	const held = "Cannot evict pod as it would violate the pod's disruption budget."

	put("web-1", web, set)
	budget("web", web)
	protect("web-1")
	out := w.rehearsed()
	if diff := cmp.Diff([]string{
		"error node-group ng: the update fails with PodEvictionFailure at node " + node.Name + ": pod shop/web-1: " + held,
		"error pod-disruption-budget shop/web: node groups cannot drain pod web-1: " + held,
	}, texts(&out)); diff != "" || !out.Steps[0].Failed || len(out.Unknown) > 0 {
		t.Errorf("a budget protects the pod: steps %+v, unknown %q, findings (-want +got):\n%s", out.Steps, out.Unknown, diff)
	}

	protect()
	w.planes.mu.Lock()
	w.planes.replacements = map[string]*corev1.Pod{"web-1": {
		ObjectMeta: metav1.ObjectMeta{Name: "web-2", Namespace: "shop", UID: "2", OwnerReferences: set},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 Insufficient memory."}}},
	}}
	w.planes.mu.Unlock()
	out = w.rehearsed()
	if diff := cmp.Diff([]string{"error scheduling ng: once the nodes are replaced, no node takes pod shop/web-2: 0/1 nodes are available: 1 Insufficient memory."}, texts(&out)); diff != "" ||
		out.Steps[0].Text != "1 node replaced, 1 pod moved; no node takes 1 pod" {
		t.Errorf("no node takes the pod: steps %+v, findings (-want +got):\n%s", out.Steps, diff)
	}

	w.planes.mu.Lock()
	w.planes.replacements = nil
	w.planes.mu.Unlock()
	put("db-1", db, operator)
	put("client", db, set)
	budget("db", db)
	protect("db-1", "client")
	out = w.rehearsed()
	if got := texts(&out); len(got) > 0 || out.Steps[0].Failed || out.Steps[0].Text != "1 node replaced, 3 pods moved; the rest is unknown" {
		t.Errorf("an operator's pod: steps %+v, findings %q", out.Steps, got)
	}
	if diff := cmp.Diff([]string{
		"whether node groups can drain pod client, db-1, which budget shop/db protects, is unknown: the operator of Cluster db does not run on the copy",
		"whether pod shop/client of node group ng can be evicted is unknown: budget shop/db also counts pods of an operator, which does not run on the copy",
		"whether pod shop/db-1 of node group ng can be evicted is unknown: the operator of Cluster db does not run on the copy",
		"the operator of Cluster db does not run on the copy, so it is unknown whether it creates pods again when the nodes of node group ng are drained, and whether a node takes them: shop/db-1",
	}, out.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}

// EKS refuses to update a node group that cannot launch nodes.
func TestRehearsalOfARefusedUpdate(t *testing.T) {
	w := newWorld(t, withClock)
	w.clusterAt("1.35")
	w.nodegroup("dev", "ng", 0)
	w.iam.remove(w.arn("role/node"))
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDegraded)
	out := w.rehearsed()
	if got := texts(&out); len(got) != 1 || !strings.HasPrefix(got[0], "error node-group ng: EKS refuses the update: ") || !out.Steps[0].Failed {
		t.Errorf("steps %+v, findings %q", out.Steps, got)
	}
}

// Add-ons get versions for the new Kubernetes version on the copy. What keeps them from it is a finding, and what the catalogue does not
// have is unknown.
func TestRehearsalUpdatesAddons(t *testing.T) {
	w := newWorld(t, withClock)
	w.clusterAt("1.34")
	for _, name := range []string{"coredns", "metrics-server", "vpc-cni"} {
		in := &awseks.CreateAddonInput{ClusterName: aws.String("dev"), AddonName: &name}
		if name == "coredns" {
			in.AddonVersion = aws.String(onlyFor(t, w, name, "1.34", "1.35"))
		}
		testkit.Must(w.client.CreateAddon(t.Context(), in))(t)
		w.waitAddon(name, ekstypes.AddonStatusActive)
	}
	key := store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}
	if err := record.Addons.UpdateOne(t.Context(), w.server.Store, key.Below("vpc-cni"), func(a *record.Addon) error {
		a.Addon.AddonVersion = aws.String("v9.9.9-eksbuild.1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	steps := func(r *eks.Rehearsal) (out []string) {
		for _, s := range r.Steps {
			out = append(out, s.Name+": "+s.Text)
		}
		return out
	}
	out := w.rehearsed()
	if diff := cmp.Diff([]string{"vpc-cni: unknown", "coredns: updated", "metrics-server: stays: it supports Kubernetes 1.35"}, steps(&out)); diff != "" || out.Steps[1].To == "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if len(out.Unknown) != 1 || !strings.HasPrefix(out.Unknown[0], "version v9.9.9-eksbuild.1 of add-on vpc-cni is not in Drydock's catalogue") {
		t.Errorf("unknown %q", out.Unknown)
	}

	plane, _ := w.planes.only()
	copied := testkit.Must(w.planes.objects(&rest.Config{Host: "COPY" + plane.ID[4:]}))(t).(*fakeObjects)
	copied.mu.Lock()
	copied.foreign["Deployment kube-system/coredns"] = map[string]any{"spec.revisionHistoryLimit": int64(3)}
	copied.mu.Unlock()
	out = w.rehearsed()
	if got := texts(&out); !slices.ContainsFunc(got, func(f string) bool {
		return strings.HasPrefix(f, "error add-on-update coredns: the update fails with ConfigurationConflict: ")
	}) || !out.Steps[1].Failed || steps(&out)[1] != "coredns: fails" {
		t.Errorf("somebody has changed coredns: steps %+v, findings %q", out.Steps, got)
	}
	copied.mu.Lock()
	copied.foreign = map[string]map[string]any{}
	copied.mu.Unlock()
	copied.refuse("Deployment kube-system/coredns", apierrors.NewUnauthorized("who is asking?"))
	if out = w.rehearsed(); !slices.Contains(texts(&out), "error add-on-update coredns: the update fails with AccessDenied: who is asking?") {
		t.Errorf("the API server refuses the Deployment: findings %q", texts(&out))
	}
}

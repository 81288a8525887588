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
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks"
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
	w.planes.unconverted = nil
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

package eks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// wantNote waits until a note about the cluster contains a text, or none does.
func (w *world) wantNote(text string, want bool) {
	w.Helper()
	w.eventually(func() error {
		notes := w.updateNotes()
		if got := slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, text) }); got != want {
			return fmt.Errorf("notes %q: one contains %q: %v, want %v", notes, text, got, want)
		}
		return nil
	})
}

func TestNotesSayWhatIsRepeated(t *testing.T) {
	w := newWorld(t)
	w.planes.mu.Lock()
	w.planes.notReady = errors.New("its port is in use")
	w.planes.mu.Unlock()
	testkit.Must(w.client.CreateCluster(t.Context(), w.createInput("dev")))(t)
	w.wantNote("EKS repeats what it does while the cluster is CREATING, because the last attempt failed: waiting for the control plane: its port is in use", true)
	w.planes.mu.Lock()
	w.planes.notReady = nil
	w.planes.mu.Unlock()
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.wantNote("EKS repeats", false)
}

func TestNotesSayWhyLogsDoNotArrive(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("dev")
	in.Logging = &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(true), Types: []ekstypes.LogType{"scheduler"}}}}
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	plane, _ := w.planes.only()
	line := []eks.LogLine{{Component: "kube-scheduler", Time: 1, Text: "a"}}
	w.logs.fail(errors.New("the key of the log group is disabled"))
	if err := w.svc.WriteLogs(t.Context(), plane.ID, "0123", line); err == nil {
		t.Error("the lines were written")
	}
	const note = "the logs of the control plane do not reach the log group /aws/eks/dev/cluster: writing to kube-scheduler-0123 of /aws/eks/dev/cluster: the key of the log group is disabled"
	w.wantNote(note, true)
	w.logs.fail(nil)
	if err := w.svc.WriteLogs(t.Context(), plane.ID, "0123", line); err != nil {
		t.Error(err)
	}
	w.wantNote(note, false)
}

func TestNotesSayWhoCannotLogIn(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	maps := w.kubernetes().CoreV1().ConfigMaps("kube-system")
	authMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth", Namespace: "kube-system"}, Data: map[string]string{"mapRoles": "- rolearn: ["}}
	testkit.Must(maps.Create(t.Context(), authMap, metav1.CreateOptions{}))(t)
	w.wantNote("the ConfigMap aws-auth is invalid, so parts of it have no effect: mapRoles: ", true)
	authMap.Data["mapRoles"] = "[]"
	testkit.Must(maps.Update(t.Context(), authMap, metav1.UpdateOptions{}))(t)
	w.wantNote("aws-auth", false)

	for _, mode := range []ekstypes.AuthenticationMode{ekstypes.AuthenticationModeApiAndConfigMap, ekstypes.AuthenticationModeApi} {
		w.wantNote("aws-auth", false)
		w.mustUpdate(&awseks.UpdateClusterConfigInput{AccessConfig: &ekstypes.UpdateAccessConfigRequest{AuthenticationMode: mode}})
	}
	w.wantNote("the ConfigMap aws-auth has no effect: the authentication mode is API", true)
	const nobody = "no user and no role can log in: the authentication mode is API, and there is no access entry of type STANDARD"
	w.wantNote(nobody, false)
	dev := aws.String("dev")
	for _, p := range testkit.Must(w.client.ListAccessEntries(t.Context(), &awseks.ListAccessEntriesInput{ClusterName: dev}))(t).AccessEntries {
		if !strings.Contains(p, "/aws-service-role/") {
			testkit.Must(w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: &p}))(t)
		}
	}
	w.wantNote(nobody, true)
}

func TestNotesSayWhichNodesDoNotTrustAnAuthority(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.node(name, "v1.36.0", "")
	}
	ctx, dev := t.Context(), aws.String("dev")
	made := testkit.Must(w.client.CreateCertificateAuthority(ctx, &awseks.CreateCertificateAuthorityInput{ClusterName: dev}))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	id := *made.CertificateAuthority.Id
	w.wantNote("nodes are older than the certificate authority "+id+". Before you activate it, replace them and run aws eks update-kubeconfig: a, b, c and 1 more", true)
	testkit.Must(w.client.ActivateCertificateAuthority(ctx, &awseks.ActivateCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: &id}))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.wantNote("nodes that are older than the certificate authority "+id+", which signs, do not trust the API server until they are replaced: a, b, c and 1 more", true)
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := w.kubernetes().CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantNote(id, false)
}

func TestNotesAnnounceTheEndOfSupport(t *testing.T) {
	v, _ := eksversions.Lookup("1.35")
	w := newWorld(t, withClock, func(w *world) { w.timing.ClusterPlatform = 100 * 24 * time.Hour })
	w.fake.SetTime(v.EndOfStandardSupport.AddDate(0, 0, -61))
	in := w.createInput("dev")
	in.Version, in.UpgradePolicy = aws.String("1.35"), &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeStandard}
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	const note = "AWS upgrades the cluster to Kubernetes 1.36 by itself on "
	w.wantNote(note, false)
	w.fake.SetTime(v.EndOfStandardSupport.AddDate(0, 0, -59))
	w.wantNote(note+v.EndOfStandardSupport.Format(time.DateOnly)+", when the support of 1.35 ends", true)
}

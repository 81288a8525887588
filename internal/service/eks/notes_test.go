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

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
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
	w.wantNote("the cluster is CREATING, and EKS is retrying; the last attempt failed: waiting for the control plane: its port is in use", true)
	w.planes.mu.Lock()
	w.planes.notReady = nil
	w.planes.mu.Unlock()
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.wantNote("EKS is retrying", false)
}

func TestNotesSayWhyLogsDoNotArrive(t *testing.T) {
	w := newWorld(t, withClock)
	in := w.createInput("dev")
	in.Logging = &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(true), Types: []ekstypes.LogType{"scheduler"}}}}
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	plane, _ := w.planes.only()
	line := []eks.LogLine{{Component: "kube-scheduler", Time: 1, Text: "a"}}
	w.logs.fail(errors.New("the key of the log group is disabled"))
	since := "since " + w.fake.Now().UTC().Format(time.RFC3339)
	fail := func() {
		t.Helper()
		if err := w.svc.WriteLogs(t.Context(), plane.ID, "0123", line); err == nil {
			t.Error("the lines were written")
		}
	}
	fail()
	w.fake.Step(time.Hour)
	fail()
	const note = " the logs of the control plane have not reached the log group /aws/eks/dev/cluster: writing to kube-scheduler-0123 of /aws/eks/dev/cluster: the key of the log group is disabled"
	w.wantNote(since+note, true)
	w.logs.fail(nil)
	if err := w.svc.WriteLogs(t.Context(), plane.ID, "0123", line); err != nil {
		t.Error(err)
	}
	w.wantNote(note, false)

	// A change of the logging may be what was wrong.
	w.logs.fail(errors.New("the key of the log group is disabled"))
	fail()
	w.wantNote(note, true)
	w.logs.fail(nil)
	w.mustUpdate(&awseks.UpdateClusterConfigInput{Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(true), Types: []ekstypes.LogType{"api"}}}}})
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
	const lockedOut = "no IAM user or role can log in: the authentication mode is API, and there is no access entry of type STANDARD"
	w.wantNote(lockedOut, false)
	dev := aws.String("dev")
	for _, p := range testkit.Must(w.client.ListAccessEntries(t.Context(), &awseks.ListAccessEntriesInput{ClusterName: dev}))(t).AccessEntries {
		if !strings.Contains(p, "/aws-service-role/") {
			testkit.Must(w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: &p}))(t)
		}
	}
	w.wantNote(lockedOut, true)
	of := " --cluster-name dev --principal-arn " + w.arn("role/ROLE") + " --region " + testkit.Region
	w.wantNote("aws eks create-access-entry"+of+" && aws eks associate-access-policy"+of+" --policy-arn arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy --access-scope type=cluster", true)
	notes, err := w.svc.UpdateNotes(awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: testkit.Region, Service: "eks"}), "dev", false)
	if err != nil || slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "can log in") }) {
		t.Errorf("if not all access entries are known: %q, %v", notes, err)
	}
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
	young := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "young", CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}}
	testkit.Must(w.kubernetes().CoreV1().Nodes().Create(ctx, young, metav1.CreateOptions{}))(t)
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

	// No node has to trust one that signed before, or whose distribution has failed.
	w.node("old", "v1.36.0", "")
	w.wantNote(id, true)
	for _, a := range testkit.Must(w.client.ListCertificateAuthorities(ctx, &awseks.ListCertificateAuthoritiesInput{ClusterName: dev}))(t).CertificateAuthorities {
		if *a.Id != id {
			testkit.Must(w.client.ActivateCertificateAuthority(ctx, &awseks.ActivateCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: a.Id}))(t)
		}
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.wantNote(id, false)
	testkit.Must(w.client.DeleteCertificateAuthority(ctx, &awseks.DeleteCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: &id}))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	key := store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}
	made = testkit.Must(w.client.CreateCertificateAuthority(ctx, &awseks.CreateCertificateAuthorityInput{ClusterName: dev}))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	id = *made.CertificateAuthority.Id
	w.wantNote(id, true)
	if err := record.Clusters.UpdateOne(ctx, w.server.Store, key, func(c *record.Cluster) error {
		c.Authorities = slices.Clone(c.Authorities)
		for i := range c.Authorities {
			if a := &c.Authorities[i]; *a.Id == id {
				a.DistributionStatus = ekstypes.CertificateAuthorityDistributionStatusFailed
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
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
	const note = "AWS upgrades the cluster to Kubernetes 1.36 automatically on "
	w.wantNote(note, false)
	w.fake.SetTime(v.EndOfStandardSupport.AddDate(0, 0, -59))
	w.wantNote(note+v.EndOfStandardSupport.Format(time.DateOnly)+", when the support of 1.35 ends", true)
}

// A node that has not reported the version of its kubelet yet does not hold an upgrade back.
func TestNotesAboutKubeletsWithoutAVersion(t *testing.T) {
	w := newWorld(t)
	w.clusterAt("1.35")
	w.node("old", "v1.31.0", "ng-old")
	w.node("new", "", "ng-new")
	w.wantNote("an upgrade to Kubernetes 1.36 would be refused, even if forced: nodegroups ng-old are too old", true)
}

// A twin keeps its version until something is changed in it, however old it is.
func TestNotesSayThatSupportHasEnded(t *testing.T) {
	v, _ := eksversions.Lookup("1.35")
	twins := &fakeTwins{changed: true}
	w := newWorld(t, withClock, func(w *world) { w.twins, w.timing.ClusterPlatform = twins, 100*24*time.Hour })
	w.fake.SetTime(v.EndOfStandardSupport.AddDate(0, 0, -61))
	in := w.createInput("dev")
	in.Version, in.UpgradePolicy = aws.String("1.35"), &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeStandard}
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	twins.mu.Lock()
	twins.changed = false
	twins.mu.Unlock()
	w.fake.SetTime(v.EndOfStandardSupport.AddDate(0, 0, 1))
	w.wantNote("the support of Kubernetes 1.35 ended on "+v.EndOfStandardSupport.Format(time.DateOnly)+": AWS upgrades the cluster to 1.36 automatically", true)
}

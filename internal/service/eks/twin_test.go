package eks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eks/load"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// fakeTwins treats every account as a twin. Until changed is set, reconcilers leave it alone.
type fakeTwins struct {
	lists []recording.KubernetesList
	pages []string

	// onRead, if not nil, is called once, while a cluster is copied.
	onRead   func()
	readOnce sync.Once
	store    store.Reader

	mu           sync.Mutex
	changed      bool
	lost         []recording.Gap
	staleReports int // calls of Lost about records that were read again since
}

func (f *fakeTwins) Held(string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.changed
}

func (f *fakeTwins) Objects(_ context.Context, _, _ string, fn func(recording.KubernetesList, *eks.TwinObjects) error) error {
	for i, q := range f.lists {
		if f.onRead != nil {
			f.readOnce.Do(f.onRead)
		}
		var l eks.TwinObjects
		if err := errors.Join(json.Unmarshal([]byte(f.pages[i]), &l), fn(q, &l)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeTwins) Lost(_ context.Context, _ string, still func(store.Reader) bool, gaps []recording.Gap) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !still(f.store) {
		f.staleReports++
		return nil
	}
	f.lost = gaps
	return nil
}

// recordAnswer adds an answer to a recording.
func recordAnswer(t *testing.T, r *recording.Recording, service, operation string, in, out any) {
	t.Helper()
	r.Answers = append(r.Answers, recording.Answer{Service: service, Operation: operation, Input: testkit.Must(json.Marshal(in))(t), Pages: []json.RawMessage{testkit.Must(json.Marshal(out))(t)}})
}

// recordingOf reads the cluster dev and its node group.
func (w *world) recordingOf(t *testing.T) *recording.Recording {
	t.Helper()
	ctx := t.Context()
	r := &recording.Recording{Source: recording.Source{Format: recording.FormatVersion, Partition: "aws", Account: w.account, Region: testkit.Region, Complete: true, Started: time.Now()}}
	name := aws.String("dev")
	recordAnswer(t, r, "eks", "DescribeCluster", &awseks.DescribeClusterInput{Name: name}, testkit.Must(w.client.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: name}))(t))
	group := &awseks.DescribeNodegroupInput{ClusterName: name, NodegroupName: aws.String("ng")}
	made := testkit.Must(w.client.DescribeNodegroup(ctx, group))(t)
	recordAnswer(t, r, "eks", "DescribeNodegroup", group, made)
	template := &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("2")}
	recordAnswer(t, r, "autoscaling", "DescribeAutoScalingGroups", &awsautoscaling.DescribeAutoScalingGroupsInput{}, &awsautoscaling.DescribeAutoScalingGroupsOutput{
		AutoScalingGroups: []autoscalingtypes.AutoScalingGroup{{AutoScalingGroupName: made.Nodegroup.Resources.AutoScalingGroups[0].Name, LaunchTemplate: template}},
	})
	recordAnswer(t, r, "ec2", "DescribeLaunchTemplateVersions", &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: template.LaunchTemplateId}, &awsec2.DescribeLaunchTemplateVersionsOutput{
		LaunchTemplateVersions: []ec2types.LaunchTemplateVersion{
			{LaunchTemplateId: template.LaunchTemplateId, VersionNumber: aws.Int64(2), LaunchTemplateData: &ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-2")}},
		},
	})
	entries := testkit.Must(w.client.ListAccessEntries(ctx, &awseks.ListAccessEntriesInput{ClusterName: name}))(t)
	for _, e := range entries.AccessEntries {
		in := &awseks.DescribeAccessEntryInput{ClusterName: name, PrincipalArn: &e}
		recordAnswer(t, r, "eks", "DescribeAccessEntry", in, testkit.Must(w.client.DescribeAccessEntry(ctx, in))(t))
		policies := &awseks.ListAssociatedAccessPoliciesInput{ClusterName: name, PrincipalArn: &e}
		recordAnswer(t, r, "eks", "ListAssociatedAccessPolicies", policies, testkit.Must(w.client.ListAssociatedAccessPolicies(ctx, policies))(t))
	}
	insights := &awseks.ListInsightsInput{ClusterName: name}
	listed := testkit.Must(w.client.ListInsights(ctx, insights))(t)
	recordAnswer(t, r, "eks", "ListInsights", insights, listed)
	for _, i := range listed.Insights {
		in := &awseks.DescribeInsightInput{ClusterName: name, Id: i.Id}
		recordAnswer(t, r, "eks", "DescribeInsight", in, testkit.Must(w.client.DescribeInsight(ctx, in))(t))
	}
	updates := &awseks.ListUpdatesInput{Name: name}
	for _, id := range testkit.Must(w.client.ListUpdates(ctx, updates))(t).UpdateIds {
		in := &awseks.DescribeUpdateInput{Name: name, UpdateId: &id}
		recordAnswer(t, r, "eks", "DescribeUpdate", in, testkit.Must(w.client.DescribeUpdate(ctx, in))(t))
	}
	recordAnswer(t, r, "ec2", "DescribeNetworkInterfaces", &awsec2.DescribeNetworkInterfacesInput{}, testkit.Must(w.ec2.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{}))(t))
	recordAnswer(t, r, "iam", "GetAccountAuthorizationDetails", &awsiam.GetAccountAuthorizationDetailsInput{}, &awsiam.GetAccountAuthorizationDetailsOutput{RoleDetailList: []iamtypes.RoleDetail{
		{Arn: aws.String(w.arn("role/node")), RoleId: aws.String("AROANODE"), CreateDate: aws.Time(time.Now().Add(-time.Hour))},
		{Arn: aws.String(w.arn("role/path/dev")), RoleId: aws.String("AROADEV2"), CreateDate: aws.Time(time.Now().Add(time.Hour))}, // created again
	}})
	recordAnswer(t, r, recording.Kubernetes, "List", recording.KubernetesList{Cluster: "dev", Version: "v1", Resource: "configmaps"}, map[string]any{"Kind": "ConfigMapList"})
	return r
}

// A copied cluster has the identity of its source. Nothing is made in EC2, and node groups stay as they are until
// somebody changes something.
func TestCopiedCluster(t *testing.T) {
	source := newWorld(t)
	source.cluster("dev", ekstypes.AuthenticationModeApi)
	source.nodegroup("dev", "ng", 1)
	testkit.Must(source.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(source.arn("role/path/dev"))}))
	const deprecated = "/apis/storage.k8s.io/v1beta1/volumeattributesclasses"
	source.planes.mu.Lock()
	source.planes.uses = []eks.APIUse{{API: deprecated, UserAgent: "csi", Requests: 3}}
	source.planes.mu.Unlock()
	tagged := testkit.Must(source.client.UpdateClusterConfig(t.Context(), &awseks.UpdateClusterConfigInput{Name: aws.String("dev"), DeletionProtection: aws.Bool(true)}))(t).Update.Id
	source.eventually(func() error {
		if u := testkit.Must(source.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: tagged}))(t).Update; u.Status != ekstypes.UpdateStatusSuccessful {
			return fmt.Errorf("the update is %s", u.Status)
		}
		return nil
	})
	rec := source.recordingOf(t)

	twins := &fakeTwins{lists: []recording.KubernetesList{
		{Cluster: "dev", Version: "v1", Resource: "configmaps"}, {Cluster: "dev", Group: "apps", Version: "v1", Resource: "replicasets"}, {Cluster: "dev", Version: "v1", Resource: "pods"},
		{Cluster: "dev", Version: "v1", Resource: "nodes"}, {Cluster: "dev", Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	}, pages: []string{
		`{"Kind":"ConfigMapList","Items":[{"metadata":{"name":"aws-auth","namespace":"kube-system","uid":"1","resourceVersion":"7"},"data":{"mapRoles":"[]"}},{"metadata":{"name":"refused","namespace":"default"}}]}`,
		`{"Kind":"ReplicaSetList","Items":[{"metadata":{"name":"web-1","namespace":"default","ownerReferences":[{"kind":"Deployment","name":"web","uid":"2"}]},"spec":{},"status":{"replicas":1}}]}`,
		`{"Kind":"PodList","Items":[{"metadata":{"name":"web-1-a","namespace":"default"},"spec":{},"status":{"phase":"Running"}},{"metadata":{"name":"done","namespace":"default"},"status":{"phase":"Succeeded"}},` +
			`{"metadata":{"name":"db-1","namespace":"default","ownerReferences":[{"apiVersion":"postgresql.cnpg.io/v1","kind":"Cluster","name":"db","uid":"3","controller":true}]},"spec":{}}]}`,
		`{"Kind":"NodeList","Items":[{"metadata":{"name":"n"},"spec":{"taints":[{"key":"node.kubernetes.io/not-ready"},{"key":"own"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`,
		`{"Kind":"ValidatingWebhookConfigurationList","Items":[{"metadata":{"name":"policy"},"webhooks":[{"name":"a.example.com"}]}]}`,
	}}
	w := newWorld(t, func(w *world) { w.twins = twins })
	w.account = source.account
	w.client = awseks.NewFromConfig(w.server.AWSConfig(w.account))
	w.planes.mu.Lock()
	w.planes.objectsOf = map[string]*fakeObjects{}
	w.planes.mu.Unlock()
	read := func() {
		writes, gaps, err := load.Records(rec)
		if err != nil || len(gaps) > 0 {
			t.Errorf("%v, gaps %v", err, gaps)
		}
		if err := w.server.Store.Update(t.Context(), func(tx *store.Tx) error {
			for _, write := range writes {
				if err := write.Put(tx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	twins.onRead, twins.store = read, w.server.Store // it is read again while it is copied
	read()
	want := testkit.Must(source.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("dev")}))(t).Cluster
	var got *ekstypes.Cluster
	w.eventually(func() error {
		got = testkit.Must(w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("dev")}))(t).Cluster
		if got.Status != ekstypes.ClusterStatusActive {
			return fmt.Errorf("it is %s", got.Status)
		}
		return nil
	})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(ekstypes.Cluster{}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore()),
		cmpopts.IgnoreFields(ekstypes.Cluster{}, "Endpoint", "CertificateAuthority")); diff != "" {
		t.Errorf("-source +twin:\n%s", diff)
	}
	if c, ok := eks.CopyAt(w.server.Store, w.account, strings.TrimPrefix(*want.Endpoint, "https://")); !ok || *want.Identity.Oidc.Issuer != c.Plane.Issuer || len(c.Interfaces) == 0 {
		t.Errorf("the source's endpoint %s leads to %+v", *want.Endpoint, c)
	}
	for _, g := range record.Nodegroups.All(w.server.Store, store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}.AllBelow()) {
		if g := g.Value; g.LaunchTemplateID != "lt-1" || g.TemplateVersion != "2" || g.ImageID != "ami-2" {
			t.Errorf("the node group launches from %s %s with %s", g.LaunchTemplateID, g.TemplateVersion, g.ImageID)
		}
	}
	if len(w.ec2.running()) > 0 {
		t.Error("instances were launched")
	}
	twins.mu.Lock()
	if twins.staleReports != 1 || !slices.ContainsFunc(twins.lost, func(g recording.Gap) bool { return g.Subject == "default/done" }) {
		t.Errorf("%d stale reports of what could not be copied, and then %+v", twins.staleReports, twins.lost)
	}
	twins.mu.Unlock()
	objects := w.objects()
	objects.mu.Lock()
	defer objects.mu.Unlock()
	for id, unwanted := range map[string]bool{"ConfigMap kube-system/aws-auth": false, "ReplicaSet default/web-1": false, "Pod default/web-1-a": false, "Pod default/done": true, "Node /n": false, "ValidatingWebhookConfiguration /policy": false} {
		if o := objects.byID[id]; (o == nil) != unwanted {
			t.Errorf("%s: %v", id, o)
		} else if o != nil && (len(o.GetOwnerReferences()) > 0 || o.Object["status"] != nil) {
			t.Errorf("%s: %v", id, o)
		}
	}
	if got := kube.Operated(objects.byID["Pod default/db-1"]); got != "Cluster db" {
		t.Errorf("the operator's pod is controlled by %q", got)
	}
	if text := fmt.Sprint(objects.byID["Node /n"]); strings.Contains(text, "not-ready") || !strings.Contains(text, "own") {
		t.Error(text)
	}
	if text := fmt.Sprint(objects.byID["ValidatingWebhookConfiguration /policy"]); !strings.Contains(text, "expression:false") {
		t.Error(text)
	}
	// Use of deprecated APIs is the source's, and what is done with the twin does not forget it. Without its insights, use is unknown.
	use := func() *ekstypes.Insight {
		t.Helper()
		for _, i := range testkit.Must(w.client.ListInsights(t.Context(), &awseks.ListInsightsInput{ClusterName: aws.String("dev")}))(t).Insights {
			if *i.KubernetesVersion == "1.37" {
				return testkit.Must(w.client.DescribeInsight(t.Context(), &awseks.DescribeInsightInput{ClusterName: aws.String("dev"), Id: i.Id}))(t).Insight
			}
		}
		t.Fatal("there is no insight about 1.37")
		return nil
	}
	if i := use(); i.InsightStatus.Status == ekstypes.InsightStatusValuePassing || *i.CategorySpecificSummary.DeprecationDetails[0].ClientStats[0].UserAgent != "csi" {
		t.Errorf("the twin's insight about use of deprecated APIs: %s", asJSON(i))
	}
	key := store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}
	if err := record.ClusterInsights.UpdateOne(t.Context(), w.server.Store, key.Below("insights"), func(r *record.Insights) error { r.Source = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	if i := use(); i.InsightStatus.Status != ekstypes.InsightStatusValueUnknown {
		t.Errorf("without the source's insights: %s", asJSON(i))
	}
	if u := testkit.Must(w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: tagged}))(t).Update; u.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("the twin's update: %s", asJSON(u))
	}
	plane, _ := w.planes.only()
	if known, err := w.svc.KnownPrincipals(t.Context(), plane.ID); err != nil || !slices.Contains(known.Gone, w.arn("role/path/dev")) || slices.Contains(known.Gone, w.arn("role/node")) {
		t.Errorf("known principals %+v, %v", known, err)
	}
	// An entry that is older than its role was made for another role.
	e, err := record.AccessEntries.Get(w.server.Store, store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}.Below(w.arn("role/path/dev")))
	if err != nil || e.PrincipalID == "AROADEV2" {
		t.Errorf("%+v, %v", e, err)
	}
}

// EKS may leave out the version and the reason of an insight, and the time of an update.
func TestInsightsOfTheSource(t *testing.T) {
	w := newWorld(t, func(w *world) { w.twins = &fakeTwins{changed: true} })
	w.clusterAt("1.35")
	name := aws.String("dev")
	r := &recording.Recording{Source: recording.Source{Account: w.account, Region: testkit.Region, Started: time.Now()}}
	cluster := &awseks.DescribeClusterInput{Name: name}
	recordAnswer(t, r, "eks", "DescribeCluster", cluster, testkit.Must(w.client.DescribeCluster(t.Context(), cluster))(t))
	listed := &awseks.ListInsightsOutput{}
	for _, id := range []string{"A", "B"} {
		listed.Insights = append(listed.Insights, ekstypes.InsightSummary{Id: &id, Name: &id, Category: ekstypes.CategoryUpgradeReadiness})
	}
	recordAnswer(t, r, "eks", "ListInsights", &awseks.ListInsightsInput{ClusterName: name}, listed)
	for _, id := range []string{"1", "2"} {
		recordAnswer(t, r, "eks", "DescribeUpdate", &awseks.DescribeUpdateInput{Name: name, UpdateId: &id}, &awseks.DescribeUpdateOutput{Update: &ekstypes.Update{
			Id: &id, Type: ekstypes.UpdateTypeConfigUpdate, Status: ekstypes.UpdateStatusFailed, Errors: []ekstypes.ErrorDetail{{ErrorCode: ekstypes.ErrorCodeUnknown}},
		}})
	}
	writes, _, err := load.Records(r)
	if err != nil || len(writes) != 4 {
		t.Fatalf("%d writes, %v", len(writes), err)
	}
	if err := w.server.Store.Update(t.Context(), func(tx *store.Tx) error {
		for _, write := range writes[1:] { // the first one is the cluster
			if err := write.Put(tx); err != nil {
				return err
			}
		}
		return record.Clusters.Update(tx, store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}, func(c *record.Cluster) error {
			c.Source = &record.Source{ObjectsRead: true}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if notes := fmt.Sprint(w.updateNotes()); !strings.Contains(notes, "failed: Unknown") {
		t.Errorf("notes %s", notes)
	}
	out, err := w.rehearse()
	if diff := cmp.Diff([]string{"the insight A is UNKNOWN", "the insight B is UNKNOWN"}, out.Unknown); err != nil || diff != "" {
		t.Errorf("%v, unknown (-want +got):\n%s", err, diff)
	}
	if _, err := w.toVersion(version("1.36")); err != nil {
		t.Error(err)
	}
}

// The objects of a copy are masked while they still say that they are custom resources, as those of the source were.
func TestComparable(t *testing.T) {
	w := newWorld(t, func(w *world) { w.twins = &fakeTwins{changed: true} })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if err := record.Clusters.UpdateOne(t.Context(), w.server.Store, store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}, func(c *record.Cluster) error {
		c.Source = &record.Source{ObjectsRead: true}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	release := func(password string) map[string]any {
		return map[string]any{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": map[string]any{"name": "db", "namespace": "shop"}, "spec": map[string]any{"password": password}}
	}
	objects := w.objects()
	objects.mu.Lock()
	objects.lists = map[string][]unstructured.Unstructured{"helmreleases": {{Object: release("hunter2")}}}
	objects.mu.Unlock()
	q := recording.KubernetesList{Cluster: "dev", Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
	ours, theirs, err := w.svc.Comparable(t.Context(), w.account, testkit.Region, q, &eks.TwinObjects{Kind: "HelmReleaseList", Items: []map[string]any{release("xxxxxx0")}},
		func(kind string, o map[string]any) { twin.RedactObject(kind, o) })
	if diff := cmp.Diff(theirs, ours); err != nil || diff != "" || len(ours) != 1 {
		t.Errorf("%v, -source +twin:\n%s", err, diff)
	}
	for resource, compared := range map[string]bool{"pods": false, "nodes": false, "configmaps": true, "secrets": true} {
		if eks.Compared(recording.KubernetesList{Version: "v1", Resource: resource}) != compared {
			t.Errorf("%s are compared: %t", resource, !compared)
		}
	}
}

// If the source's aws-auth is unknown, it may map any role: nothing is printed that would map it again.
func TestTryNodeWithoutTheSourcesObjects(t *testing.T) {
	w := newWorld(t, func(w *world) { w.twins = &fakeTwins{} })
	w.cluster("dev", ekstypes.AuthenticationModeApiAndConfigMap)
	plane, _ := w.planes.only()
	for read, refused := range map[bool]bool{true: true, false: false} {
		key := store.Key{Account: w.account, Region: testkit.Region, ID: "dev"}
		if err := record.Clusters.UpdateOne(t.Context(), w.server.Store, key, func(c *record.Cluster) error {
			c.Source = &record.Source{ObjectsRead: read}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.svc.TryNode(t.Context(), plane.ID, w.arn("role/path/dev"), "EC2_LINUX"); (err != nil) != refused {
			t.Errorf("objects read %t: %v", read, err)
		}
	}
}

// Whatever a source says of a cluster, its records are its own.
func TestHostileClusters(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 1)
	for _, tt := range []struct{ old, new, want string }{
		{`"Name":"dev"`, `"Name":"../x"`, "eks:DescribeCluster: invalid name"},
		{":cluster/dev", ":cluster/other", "is not the ARN"},
		{`/id/`, `/id/x`, "does not end with an ID"},
		{`:nodegroup/dev/ng/`, `:nodegroup/other/ng/`, "is not the ARN"},
	} {
		r := w.recordingOf(t)
		for i := range r.Answers {
			r.Answers[i].Pages[0] = json.RawMessage(strings.ReplaceAll(string(r.Answers[i].Pages[0]), tt.old, tt.new))
		}
		if _, _, err := load.Records(r); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.new, err, tt.want)
		}
	}
	r := w.recordingOf(t)
	for i := range r.Answers {
		if r.Answers[i].Operation == "ListInsights" {
			r.Answers[i].Pages[0] = json.RawMessage(strings.ReplaceAll(string(r.Answers[i].Pages[0]), `"Reason":"`, `"Reason":"`+strings.Repeat("x", 1<<20)))
		}
		if r.Answers[i].Operation == "DescribeInsight" {
			r.Answers[i].Pages[0] = json.RawMessage(`{"Insight":{"Id":"other"}}`)
		}
	}
	if _, gaps, err := load.Records(r); err != nil || len(gaps) != 1 || !strings.Contains(gaps[0].String(), "the insights of cluster dev are more than 512 KiB") {
		t.Errorf("%v, %v", gaps, err)
	}
	r = w.recordingOf(t)
	r.Answers[0].Pages[0] = json.RawMessage(regexp.MustCompile(`"Version":"1\.[0-9]+"`).ReplaceAllString(string(r.Answers[0].Pages[0]), `"Version":"1.21"`))
	if _, gaps, err := load.Records(r); err != nil || len(gaps) != 1 || gaps[0].String() != "cluster dev has Kubernetes 1.21, which Drydock does not have" {
		t.Errorf("%v, %v", gaps, err)
	}
}

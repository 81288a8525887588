package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/failures"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
	"github.com/drydock-dev/drydock/internal/twin/source"
)

// deniedRows are the rows whose verdicts depend on what EKS and Kubernetes say.
var deniedRows = []string{"not-mapped", "entry-type", "no-cni-policy", "pod-service-account", "pod-quota", "pod-selector", "pod-provider"}

// TestTwinNeverGuessesClusters denies each read of EKS, and each list of Kubernetes objects, in turn. The twin then gives the
// source's verdict, or says that it is unknown; it never gives another one. A twin needs a control plane of its own each time,
// so the test runs with TWINS=1 only.
func TestTwinNeverGuessesClusters(t *testing.T) {
	if !twinsPlayed() {
		t.Skip("boots some thirty control planes: TWINS=1 runs it")
	}
	if ok, err := condition("clients:aws,kubectl"); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Skip("needs the aws CLI and kubectl")
	}
	w := newFailureWorld(t, "")
	var rows []*failure
	for _, row := range failures.All() {
		if slices.Contains(deniedRows, row.ID) {
			rows = append(rows, &failure{Failure: row, w: w})
		}
	}
	for _, f := range rows {
		f.prepare(t)
		f.launch(t)
	}
	cluster := w.worlds[failures.Open]["CLUSTER"]
	auditor := w.auditor(t, cluster) // verdicts say how many others the cluster knows
	want := map[string][]cause{}
	for _, f := range rows {
		f.explained(t)
		want[f.ID] = f.causes(t, dataOf(w.env))
	}
	read := func(deny string) *recording.Recording {
		t.Helper()
		if deny == "" {
			deny = "ec2:TerminateInstances"
		}
		testkit.Must(w.fixtures.iam.PutUserPolicy(w.ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("auditor"), PolicyName: aws.String("p"), PolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"` + deny + `","Resource":"*"}]}`)}))(t)
		return testkit.Must(source.Read(w.ctx, auditor, source.Options{Clusters: []string{cluster}, Rate: 10_000}))(t)
	}
	d := w.newTwin(t)
	info := testkit.Must(api.ReadInfo(d.data))(t)
	complete := read("")
	variants := map[string]func() *recording.Recording{"nothing": func() *recording.Recording { return complete }}
	for _, op := range twin.Operations() {
		if op.Service == "eks" && op.Name != "ListClusters" && slices.ContainsFunc(complete.Answers, func(a recording.Answer) bool { return a.Service == "eks" && a.Operation == op.Name }) {
			variants["eks:"+op.Name] = func() *recording.Recording { return read("eks:" + op.Name) }
		}
	}
	variants["all objects"] = func() *recording.Recording {
		r := without(complete, func(recording.KubernetesList) bool { return true })
		r.Answers = append(r.Answers, refusedList(recording.KubernetesList{Cluster: cluster}))
		return r
	}
	for i := range complete.Answers {
		a := &complete.Answers[i]
		if a.Service != recording.Kubernetes {
			continue
		}
		q := testkit.Must(a.KubernetesList())(t)
		if !slices.ContainsFunc(a.Pages, func(p json.RawMessage) bool { return bytes.Contains(p, []byte(`"metadata"`)) }) {
			continue // the cluster has none
		}
		variants["kubernetes: "+q.GroupResource()] = func() *recording.Recording {
			r := without(complete, func(other recording.KubernetesList) bool { return other == q })
			r.Answers = append(r.Answers, refusedList(q))
			return r
		}
	}
	unknowns := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var body bytes.Buffer
			if err := twin.Send(variants[name](), &body); err != nil {
				t.Fatal(err)
			}
			made := testkit.Must((&api.Client{Daemon: info}).ImportTwin(w.ctx, &body, true))(t)
			if (len(made.Gaps) == 0) != (name == "nothing") {
				t.Errorf("gaps: %q", made.Gaps)
			}
			for _, f := range rows {
				var got []cause
				deadline := time.Now().Add(90 * time.Second)
				for {
					got = f.causes(t, d.data)
					isUnknown := slices.ContainsFunc(got, func(c cause) bool { return strings.Contains(c.Step, "unknown: ") })
					if cmp.Equal(want[f.ID], got) || isUnknown && name != "nothing" {
						if isUnknown {
							unknowns[name] = append(unknowns[name], f.ID)
						}
						break
					}
					if time.Now().After(deadline) {
						t.Errorf("without %s, %s is guessed (-source +twin):\n%s", name, f.ID, cmp.Diff(want[f.ID], got))
						break
					}
					<-time.After(500 * time.Millisecond)
				}
			}
			t.Logf("%v; unknown: %v", time.Since(began).Round(time.Second), unknowns[name])
		})
	}
	for _, name := range []string{"eks:DescribeCluster", "eks:ListAccessEntries", "kubernetes: configmaps", "kubernetes: pods", "all objects"} {
		if len(unknowns[name]) == 0 {
			t.Errorf("without %s nothing is unknown", name)
		}
	}
	for _, name := range []string{"kubernetes: secrets", "kubernetes: apiservices.apiregistration.k8s.io"} {
		if len(unknowns[name]) > 0 {
			t.Errorf("without %s, %v are unknown, which do not depend on it", name, unknowns[name])
		}
	}
}

// auditor makes a user who may look into a cluster, and returns its configuration.
func (w *failureWorld) auditor(t *testing.T, cluster string) aws.Config {
	t.Helper()
	name := aws.String("auditor")
	user := testkit.Must(w.fixtures.iam.CreateUser(w.ctx, &awsiam.CreateUserInput{UserName: name}))(t).User
	key := testkit.Must(w.fixtures.iam.CreateAccessKey(w.ctx, &awsiam.CreateAccessKeyInput{UserName: name}))(t).AccessKey
	testkit.Must(w.fixtures.eks.CreateAccessEntry(w.ctx, &awseks.CreateAccessEntryInput{ClusterName: &cluster, PrincipalArn: user.Arn}))(t)
	testkit.Must(w.fixtures.eks.AssociateAccessPolicy(w.ctx, &awseks.AssociateAccessPolicyInput{
		ClusterName: &cluster, PrincipalArn: user.Arn, PolicyArn: aws.String("arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"), AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster},
	}))(t)
	return aws.Config{Region: "us-east-1", BaseEndpoint: &w.url, Credentials: credentials.NewStaticCredentialsProvider(*key.AccessKeyId, *key.SecretAccessKey, "")}
}

// without returns a recording without the lists of some Kubernetes objects.
func without(r *recording.Recording, some func(recording.KubernetesList) bool) *recording.Recording {
	out := &recording.Recording{Source: r.Source}
	for i := range r.Answers {
		q, err := r.Answers[i].KubernetesList()
		if r.Answers[i].Service != recording.Kubernetes || err != nil || !some(q) {
			out.Answers = append(out.Answers, r.Answers[i])
		}
	}
	return out
}

// refusedList is the answer of an API server that does not allow listing objects, as TestKubernetes of package source reads it.
func refusedList(q recording.KubernetesList) recording.Answer {
	in, err := json.Marshal(q)
	if err != nil {
		panic(fmt.Sprint("strings can always be encoded: ", err))
	}
	gap := &recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: q.Cluster, Code: "AccessDenied", Message: "no"}
	if q.Resource != "" {
		gap.Resource = q.GroupResource()
	}
	return recording.Answer{Service: recording.Kubernetes, Operation: "List", Input: in, Gap: gap}
}

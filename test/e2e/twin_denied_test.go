package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
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

// TestTwinNeverGuessesClusters denies each read of AWS, and each list of Kubernetes objects, in turn. The twin then gives the
// source's verdict, or says that it is unknown; it never gives another one. A twin needs a control plane of its own each time,
// so the test runs with TWINS=1 only. What the import asks for and the cluster does not have at all is denied at once: the
// objects in the twin are the same, so only one verdict more can be unknown.
func TestTwinNeverGuessesClusters(t *testing.T) {
	if !twinsPlayed() {
		t.Skip("boots about a hundred control planes: TWINS=1 runs it")
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
	}
	cluster := w.worlds[failures.Open]["CLUSTER"]
	w.kinds(t, rows[0], cluster)
	auditor := w.auditor(t, cluster)
	for _, f := range rows { // whose verdicts say how many others the cluster knows
		f.launch(t)
	}
	want := map[string][]cause{}
	for _, f := range rows {
		f.explained(t)
		if f.ID == "pod-selector" { // its verdict says what nodes there were when the scheduler last looked
			f.sh(t, "kubectl get pod picky -o yaml | kubectl replace --force -f -")
			f.explained(t)
		}
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
		action := recording.Action(op.Service, op.Name)
		asked := slices.ContainsFunc(complete.Answers, func(a recording.Answer) bool { return a.Service == op.Service && a.Operation == op.Name })
		if asked && op.Service != "sts" && op.Service != recording.Kubernetes && op.Name != "ListClusters" { // --cluster does not need that list
			variants[action] = func() *recording.Recording { return read(action) }
		}
	}
	variants["all objects"] = func() *recording.Recording {
		r := without(complete, func(recording.KubernetesList) bool { return true })
		r.Answers = append(r.Answers, refusedList(recording.KubernetesList{Cluster: cluster}))
		return r
	}
	var none []recording.KubernetesList
	for i := range complete.Answers {
		a := &complete.Answers[i]
		if a.Service != recording.Kubernetes {
			continue
		}
		q := testkit.Must(a.KubernetesList())(t)
		if !slices.ContainsFunc(a.Pages, func(p json.RawMessage) bool { return bytes.Contains(p, []byte(`"metadata"`)) }) {
			none = append(none, q)
			continue
		}
		variants["kubernetes: "+q.GroupResource()] = func() *recording.Recording {
			r := without(complete, func(other recording.KubernetesList) bool { return other == q })
			r.Answers = append(r.Answers, refusedList(q))
			return r
		}
	}
	variants["kinds of which there are no objects"] = func() *recording.Recording {
		r := without(complete, func(other recording.KubernetesList) bool { return slices.Contains(none, other) })
		for _, q := range none {
			r.Answers = append(r.Answers, refusedList(q))
		}
		return r
	}
	t.Logf("%d variants; the cluster has none of %v", len(variants), none)
	unknowns := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			unknowns[name] = nil // it is played, although perhaps not all are
			var body bytes.Buffer
			if err := twin.Send(variants[name](), &body); err != nil {
				t.Fatal(err)
			}
			made := testkit.Must((&api.Client{Daemon: info}).ImportTwin(w.ctx, &body, api.ImportOptions{Replace: true}))(t)
			if (len(made.Gaps) == 0) != (name == "nothing") && !strings.HasPrefix(name, "kinds of") {
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
	telling := []string{"eks:DescribeCluster", "eks:ListAccessEntries", "kubernetes: configmaps", "kubernetes: pods", "all objects"}
	harmless := []string{"kubernetes: secrets", "kubernetes: apiservices.apiregistration.k8s.io", "route53:ListHostedZones"}
	for _, name := range slices.Concat(telling, harmless) {
		if variants[name] == nil {
			t.Errorf("there is no variant %s", name)
		}
	}
	for _, name := range telling {
		if _, played := unknowns[name]; played && len(unknowns[name]) == 0 {
			t.Errorf("without %s nothing is unknown", name)
		}
	}
	for _, name := range harmless {
		if len(unknowns[name]) > 0 {
			t.Errorf("without %s, %v are unknown, which do not depend on it", name, unknowns[name])
		}
	}
}

// kinds gives a cluster something of everything that the import reads, if the rows have none.
func (w *failureWorld) kinds(t *testing.T, f *failure, cluster string) {
	t.Helper()
	file := filepath.Join(f.dir, "kinds.yaml")
	if err := os.WriteFile(file, []byte(oneOfEachKind), 0o600); err != nil {
		t.Fatal(err)
	}
	f.sh(t, "kubectl apply -f "+file+" || { sleep 1; kubectl apply -f "+file+"; }") // the second time, the custom kind is served
	ctx, name := w.ctx, aws.String("kinds")
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com","eks-fargate-pods.amazonaws.com","pods.eks.amazonaws.com"]},"Action":["sts:AssumeRole","sts:TagSession"]}]}`
	role := testkit.Must(w.fixtures.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: name, AssumeRolePolicyDocument: &trust}))(t).Role.Arn
	subnets := testkit.Must(w.fixtures.eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &cluster}))(t).Cluster.ResourcesVpcConfig.SubnetIds
	testkit.Must(w.fixtures.eks.CreateNodegroup(ctx, &awseks.CreateNodegroupInput{
		ClusterName: &cluster, NodegroupName: name, NodeRole: role, Subnets: subnets, ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(1), DesiredSize: aws.Int32(0)},
	}))(t)
	vpc := w.worlds[failures.Open]["VPC"]
	table := testkit.Must(w.fixtures.ec2.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &vpc}))(t).RouteTable.RouteTableId
	testkit.Must(w.fixtures.eks.CreateFargateProfile(ctx, &awseks.CreateFargateProfileInput{
		ClusterName: &cluster, FargateProfileName: name, PodExecutionRoleArn: role, Subnets: []string{w.subnet(t, vpc, "10.40.127.0/24", "a", *table, false)},
		Selectors: []ekstypes.FargateProfileSelector{{Namespace: aws.String("nowhere")}},
	}))(t)
	testkit.Must(w.fixtures.eks.CreateAddon(ctx, &awseks.CreateAddonInput{ClusterName: &cluster, AddonName: aws.String("snapshot-controller")}))(t)
	testkit.Must(w.fixtures.eks.CreatePodIdentityAssociation(ctx, &awseks.CreatePodIdentityAssociationInput{ClusterName: &cluster, Namespace: name, ServiceAccount: name, RoleArn: role}))(t)
	testkit.Must(w.fixtures.eks.AssociateIdentityProviderConfig(ctx, &awseks.AssociateIdentityProviderConfigInput{
		ClusterName: &cluster, Oidc: &ekstypes.OidcIdentityProviderConfigRequest{IdentityProviderConfigName: name, IssuerUrl: aws.String("https://issuer.example.com"), ClientId: name},
	}))(t)
}

// oneOfEachKind has an object of kinds that no row has.
const oneOfEachKind = `
apiVersion: v1
kind: Namespace
metadata: {name: kinds}
---
apiVersion: v1
kind: Secret
metadata: {name: kinds, namespace: kinds}
stringData: {password: hunter2}
---
apiVersion: v1
kind: LimitRange
metadata: {name: kinds, namespace: kinds}
spec: {limits: [{type: Container, default: {cpu: 100m}}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: kinds, namespace: kinds}
spec: {replicas: 0, selector: {app: rc}, template: {metadata: {labels: {app: rc}}, spec: {containers: [{name: c, image: nginx}]}}}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: kinds, namespace: kinds}
template: {metadata: {labels: {app: template}}, spec: {containers: [{name: c, image: nginx}]}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: kinds}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /kinds}, storageClassName: kinds}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kinds, namespace: kinds}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: kinds}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kinds}
provisioner: kinds.example.com
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: kinds.example.com}
spec: {attachRequired: false}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kinds, namespace: kinds}
spec: {replicas: 0, serviceName: kinds, selector: {matchLabels: {app: set}}, template: {metadata: {labels: {app: set}}, spec: {containers: [{name: c, image: nginx}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: kinds, namespace: kinds}
spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: kinds, namespace: kinds}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: kinds, namespace: kinds}
spec: {minAvailable: 1, selector: {matchLabels: {app: set}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: kinds, namespace: kinds}
spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: kinds}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: kinds}
spec: {controller: kinds.example.com/controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: kinds, namespace: kinds}
spec: {ingressClassName: kinds, defaultBackend: {service: {name: kinds, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: kinds, namespace: kinds}
spec: {podSelector: {}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: kinds}
value: 7
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kinds}
handler: kinds
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: kinds}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: kinds, namespace: kinds}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: kinds}}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kinds}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [kinds.example.com], apiVersions: ["*"], operations: [DELETE], resources: ["*"]}]}
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kinds}
spec: {policyName: kinds, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kinds}
webhooks:
- name: kinds.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [kinds.example.com], apiVersions: ["*"], operations: [DELETE], resources: ["*"]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.kinds.example.com}
spec:
  group: kinds.example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: kinds.example.com/v1
kind: Widget
metadata: {name: kinds, namespace: kinds}
spec: {size: 7}
`

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

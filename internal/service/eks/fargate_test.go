package eks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/serviceevents/eventstest"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// fargateWorld has a pod execution role, and its subnet-c is a public subnet.
func fargateWorld(t *testing.T, options ...func(*world)) *world {
	t.Helper()
	w := newWorld(t, options...)
	w.iam.add(w.arn("role/pods"), "AROAPODS", "eks-fargate-pods.amazonaws.com")
	w.ec2.tables = []ec2types.RouteTable{
		{VpcId: aws.String("vpc-main"), Associations: []ec2types.RouteTableAssociation{{Main: aws.Bool(true)}}, Routes: []ec2types.Route{{GatewayId: aws.String("local")}}},
		{
			VpcId: aws.String("vpc-main"), Associations: []ec2types.RouteTableAssociation{{SubnetId: aws.String("subnet-c"), Main: aws.Bool(false)}},
			Routes: []ec2types.Route{{GatewayId: aws.String("local")}, {GatewayId: aws.String("igw-1"), DestinationCidrBlock: aws.String("0.0.0.0/0")}},
		},
	}
	return w
}

func (w *world) profileInput(name string, namespaces ...string) *awseks.CreateFargateProfileInput {
	in := &awseks.CreateFargateProfileInput{
		ClusterName: aws.String("dev"), FargateProfileName: &name, PodExecutionRoleArn: aws.String(w.arn("role/pods")), Subnets: []string{"subnet-a", "subnet-b"},
	}
	for _, ns := range namespaces {
		in.Selectors = append(in.Selectors, ekstypes.FargateProfileSelector{Namespace: &ns})
	}
	return in
}

func (w *world) profile(in *awseks.CreateFargateProfileInput) *ekstypes.FargateProfile {
	w.Helper()
	if _, err := w.client.CreateFargateProfile(w.Context(), in); err != nil {
		w.Fatal(err)
	}
	var out *awseks.DescribeFargateProfileOutput
	var err error
	testkit.Eventually(w, 20*time.Second, func() error {
		out, err = w.client.DescribeFargateProfile(w.Context(), &awseks.DescribeFargateProfileInput{ClusterName: in.ClusterName, FargateProfileName: in.FargateProfileName})
		if err != nil {
			return err
		}
		if out.FargateProfile.Status != ekstypes.FargateProfileStatusActive {
			return fmt.Errorf("it is %s", out.FargateProfile.Status)
		}
		return nil
	})
	return out.FargateProfile
}

func (w *world) deleteProfile(name string) {
	w.Helper()
	if _, err := w.client.DeleteFargateProfile(w.Context(), &awseks.DeleteFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: &name}); err != nil {
		w.Fatal(err)
	}
	testkit.Eventually(w, 20*time.Second, func() error {
		_, err := w.client.DescribeFargateProfile(w.Context(), &awseks.DescribeFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: &name})
		if isCode(err, "ResourceNotFoundException") {
			return nil
		}
		return fmt.Errorf("profile %s is still there (%v)", name, err)
	})
}

func (w *world) mapRoles() string {
	w.Helper()
	cm, err := w.kubernetes().CoreV1().ConfigMaps("kube-system").Get(w.Context(), "aws-auth", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return cm.Data["mapRoles"]
}

func TestAFargateProfileLives(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	in := w.profileInput("fp", "shop", "kube-system")
	in.Tags, in.ClientRequestToken = map[string]string{"team": "a"}, aws.String("token")
	p := w.profile(in)
	if !strings.HasPrefix(*p.FargateProfileArn, "arn:aws:eks:us-east-1:"+w.account+":fargateprofile/dev/fp/") || *p.PodExecutionRoleArn != w.arn("role/pods") ||
		p.CreatedAt == nil || p.Health == nil || len(p.Health.Issues) != 0 || p.Tags["team"] != "a" {
		t.Errorf("profile = %+v", p)
	}
	if diff := cmp.Diff([]string{"subnet-a", "subnet-b"}, p.Subnets); diff != "" {
		t.Error(diff)
	}
	if again, err := w.client.CreateFargateProfile(t.Context(), in); err != nil || *again.FargateProfile.FargateProfileArn != *p.FargateProfileArn {
		t.Errorf("the same request again: %v, %v", again, err)
	}
	other := w.profileInput("fp", "elsewhere")
	other.ClientRequestToken = in.ClientRequestToken
	_, err := w.client.CreateFargateProfile(t.Context(), other)
	wantError(t, err, "InvalidRequestException", "The clientRequestToken was used before with different parameters.")
	_, err = w.client.CreateFargateProfile(t.Context(), w.profileInput("fp", "shop"))
	wantError(t, err, "ResourceInUseException", "A Fargate Profile already exists with this name in this cluster.")

	// EKS gives the role access.
	entry, err := w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/pods"))})
	if err != nil || *entry.AccessEntry.Type != "FARGATE_LINUX" || *entry.AccessEntry.Username != "system:node:{{SessionName}}" {
		t.Errorf("access entry = %+v, %v", entry, err)
	}

	if _, err := w.client.TagResource(t.Context(), &awseks.TagResourceInput{ResourceArn: p.FargateProfileArn, Tags: map[string]string{"env": "x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.UntagResource(t.Context(), &awseks.UntagResourceInput{ResourceArn: p.FargateProfileArn, TagKeys: []string{"team"}}); err != nil {
		t.Fatal(err)
	}
	tags, err := w.client.ListTagsForResource(t.Context(), &awseks.ListTagsForResourceInput{ResourceArn: p.FargateProfileArn})
	if err != nil || cmp.Diff(map[string]string{"env": "x"}, tags.Tags) != "" {
		t.Errorf("tags = %v, %v", tags, err)
	}

	w.profile(w.profileInput("another", "elsewhere"))
	var names []string
	for pages := awseks.NewListFargateProfilesPaginator(w.client, &awseks.ListFargateProfilesInput{ClusterName: aws.String("dev"), MaxResults: aws.Int32(1)}); pages.HasMorePages(); {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, out.FargateProfileNames...)
	}
	if diff := cmp.Diff([]string{"another", "fp"}, names); diff != "" {
		t.Error(diff)
	}

	_, err = w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")})
	wantError(t, err, "ResourceInUseException", "Cluster has Fargate Profiles in ACTIVE/CREATING state")
	w.deleteProfile("fp")
	if _, err := w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/pods"))}); err != nil {
		t.Errorf("the entry went while another profile needs it: %v", err)
	}
	w.deleteProfile("another")
	_, err = w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/pods"))})
	if !isCode(err, "ResourceNotFoundException") {
		t.Errorf("the entry stays: %v", err)
	}
	_, err = w.client.DescribeFargateProfile(t.Context(), &awseks.DescribeFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: aws.String("fp")})
	wantError(t, err, "ResourceNotFoundException", "No Fargate Profile found with name: fp.")
}

func TestTheFirstProfileMakesTheServiceLinkedRole(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	bad := w.profileInput("fp", "shop")
	bad.Selectors = nil
	if _, err := w.client.CreateFargateProfile(t.Context(), bad); err == nil || len(w.serviceRoles) != 1 {
		t.Errorf("a request that is refused makes %v, %v", w.serviceRoles, err)
	}
	w.profile(w.profileInput("fp", "shop"))
	if diff := cmp.Diff([]string{"AWSServiceRoleForAmazonEKS", "AWSServiceRoleForAmazonEKSForFargate"}, w.serviceRoles); diff != "" {
		t.Error(diff)
	}
}

func TestFargateMapsItsRoleInAWSAuth(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	w.profile(w.profileInput("fp", "shop"))
	want := `- groups:
  - system:bootstrappers
  - system:nodes
  - system:node-proxier
  rolearn: ` + w.arn("role/pods") + `
  username: system:node:{{SessionName}}
`
	if diff := cmp.Diff(want, w.mapRoles()); diff != "" {
		t.Error(diff)
	}
	w.deleteProfile("fp")
	if got := w.mapRoles(); got != "[]\n" {
		t.Errorf("mapRoles = %q", got)
	}
}

// A profile that cannot be created fails. Then it can be deleted, and so can its cluster.
func TestFargateProfilesThatCannotBeMade(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trouble func(*testing.T, *fake.Clientset)
		code    ekstypes.FargateProfileIssueCode
		says    string
	}{
		{"aws-auth is no YAML", func(t *testing.T, cs *fake.Clientset) {
			t.Helper()
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth", Namespace: "kube-system"}, Data: map[string]string{"mapRoles": "- ["}}
			if _, err := cs.CoreV1().ConfigMaps("kube-system").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}, ekstypes.FargateProfileIssueCodeInternalFailure, "aws-auth"},
		{"a dead control plane", func(_ *testing.T, cs *fake.Clientset) {
			cs.PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("connection refused")
			})
		}, ekstypes.FargateProfileIssueCodeClusterUnreachable, "connection refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := fargateWorld(t, func(w *world) { w.timing.FargateProfileTimeout, w.timing.NodeDrain = 100*time.Millisecond, time.Second })
			w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
			w.profile(w.profileInput("first", "shop")) // creates aws-auth
			tc.trouble(t, w.kubernetes())
			in := w.profileInput("fp", "shop")
			in.PodExecutionRoleArn = aws.String(w.arn("role/more"))
			w.iam.add(w.arn("role/more"), "AROAMORE", "eks-fargate-pods.amazonaws.com")
			if _, err := w.client.CreateFargateProfile(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 20*time.Second, func() error {
				out, err := w.client.DescribeFargateProfile(t.Context(), &awseks.DescribeFargateProfileInput{ClusterName: in.ClusterName, FargateProfileName: in.FargateProfileName})
				if err != nil {
					return err
				}
				p := out.FargateProfile
				if p.Status != ekstypes.FargateProfileStatusCreateFailed || len(p.Health.Issues) != 1 || p.Health.Issues[0].Code != tc.code || !strings.Contains(*p.Health.Issues[0].Message, tc.says) {
					return fmt.Errorf("profile is %s: %+v", p.Status, p.Health)
				}
				return nil
			})
			w.deleteProfile("fp")
			w.deleteProfile("first")
			if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFargateProfilesChangeOneAtATime(t *testing.T) {
	w := fargateWorld(t, func(w *world) {
		w.timing.FargateProfileCreating, w.timing.FargateProfileDeleting = time.Hour, time.Hour
	})
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if _, err := w.client.CreateFargateProfile(t.Context(), w.profileInput("one", "shop")); err != nil {
		t.Fatal(err)
	}
	_, err := w.client.CreateFargateProfile(t.Context(), w.profileInput("two", "shop"))
	wantError(t, err, "ResourceInUseException", "Cannot create Fargate Profile two because cluster dev currently has Fargate profile one in status CREATING")
	_, err = w.client.DeleteFargateProfile(t.Context(), &awseks.DeleteFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: aws.String("one")})
	wantError(t, err, "ResourceInUseException", "Cannot Delete Fargate Profile one because cluster dev currently has Fargate profile one in status CREATING")
}

func TestCreateFargateProfileRefusesWhatAWSRefuses(t *testing.T) {
	w := fargateWorld(t, func(w *world) { w.quotas = eks.Quotas{FargateProfilesPerCluster: 1} })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.iam.add(w.arn("role/elsewhere"), "AROAELSE", "ec2.amazonaws.com")
	labels := map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": ""}
	for _, tc := range []struct {
		name    string
		change  func(*awseks.CreateFargateProfileInput)
		code    string
		message string
	}{
		{"public subnet", func(in *awseks.CreateFargateProfileInput) { in.Subnets = []string{"subnet-a", "subnet-c"} }, "InvalidParameterException", "Subnet subnet-c provided in Fargate Profile is not a private subnet"},
		{"subnet of another VPC", func(in *awseks.CreateFargateProfileInput) { in.Subnets = []string{"subnet-other"} }, "InvalidParameterException", "Subnet subnet-other provided in Fargate Profile does not belong to the VPC of cluster dev"},
		{"no such subnet", func(in *awseks.CreateFargateProfileInput) { in.Subnets = []string{"subnet-x"} }, "InvalidParameterException", "Subnet subnet-x provided in Fargate Profile does not exist"},
		{"trust", func(in *awseks.CreateFargateProfileInput) {
			in.PodExecutionRoleArn = aws.String(w.arn("role/elsewhere"))
		}, "InvalidParameterException", "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal"},
		{"no such role", func(in *awseks.CreateFargateProfileInput) { in.PodExecutionRoleArn = aws.String(w.arn("role/none")) }, "InvalidParameterException", "The PodExecutionRole " + w.arn("role/none") + " could not be found."},
		{"role of another account", func(in *awseks.CreateFargateProfileInput) {
			in.PodExecutionRoleArn = aws.String("arn:aws:iam::999999999999:role/pods")
		}, "AccessDeniedException", "Cross-account pass role is not allowed."},
		{"no selector", func(in *awseks.CreateFargateProfileInput) { in.Selectors = nil }, "InvalidParameterException", "Fargate Profile requires at least one selector."},
		{"no namespace", func(in *awseks.CreateFargateProfileInput) { in.Selectors[0].Namespace = nil }, "InvalidParameterException", "Fargate Profile must have at least one selector with at least one namespace value."},
		{"six label pairs", func(in *awseks.CreateFargateProfileInput) { in.Selectors[0].Labels = labels }, "InvalidParameterException", "Request contains Selector with more than 5 Label pairs"},
		{"six selectors", func(in *awseks.CreateFargateProfileInput) {
			for range 5 {
				in.Selectors = append(in.Selectors, in.Selectors[0])
			}
		}, "InvalidParameterException", "Request contains more than 5 Selectors"},
		{"hostile namespace", func(in *awseks.CreateFargateProfileInput) { in.Selectors[0].Namespace = aws.String("shop\x00") }, "InvalidParameterException", "The namespace provided is invalid."},
		{"underscore in a namespace", func(in *awseks.CreateFargateProfileInput) { in.Selectors[0].Namespace = aws.String("bad_ns") }, "InvalidParameterException", "The namespace provided is invalid."},
		{"hostile label", func(in *awseks.CreateFargateProfileInput) { in.Selectors[0].Labels = map[string]string{"a b": "c"} }, "InvalidParameterException", "Selector label provided is invalid."},
		{"reserved name", func(in *awseks.CreateFargateProfileInput) { in.FargateProfileName = aws.String("eks-mine") }, "InvalidParameterException", "The fargate profile name starts with the reserved prefix: 'eks-'."},
		{"name", func(in *awseks.CreateFargateProfileInput) { in.FargateProfileName = aws.String("-a") }, "InvalidParameterException", "The fargateProfileName parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores."},
		{"no cluster", func(in *awseks.CreateFargateProfileInput) { in.ClusterName = aws.String("none") }, "ResourceNotFoundException", "No cluster found for name: none."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := w.profileInput("fp", "shop")
			tc.change(in)
			_, err := w.client.CreateFargateProfile(t.Context(), in)
			wantError(t, err, tc.code, tc.message)
		})
	}
	in := w.profileInput("fp", "shop")
	in.Subnets = nil
	if p := w.profile(in); cmp.Diff([]string{"subnet-a", "subnet-b"}, p.Subnets) != "" {
		t.Errorf("default subnets = %v, want the cluster's private ones", p.Subnets)
	}
	_, err := w.client.CreateFargateProfile(t.Context(), w.profileInput("more", "shop"))
	wantError(t, err, "ResourceLimitExceededException", "Fargate Profile limit exceeded for cluster.")
}

func TestFargateChoice(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	for _, p := range []struct {
		name      string
		selectors []ekstypes.FargateProfileSelector
	}{
		{"b-prod", []ekstypes.FargateProfileSelector{{Namespace: aws.String("prod*")}}},
		{"a-web", []ekstypes.FargateProfileSelector{
			{Namespace: aws.String("prod-?"), Labels: map[string]string{"app": "web*", "tier": "?"}}, {Namespace: aws.String("web")},
		}},
		{"c-keys", []ekstypes.FargateProfileSelector{{Namespace: aws.String("keys"), Labels: map[string]string{"*/kind": "batch"}}}},
	} {
		in := w.profileInput(p.name)
		in.Selectors = p.selectors
		w.profile(in)
	}
	daemon := []metav1.OwnerReference{{Kind: "DaemonSet", Controller: aws.Bool(true)}}
	for _, tc := range []struct {
		name        string
		namespace   string
		labels      map[string]string
		annotations map[string]string
		owners      []metav1.OwnerReference
		want        string
		why         map[string]string // reasons for profiles that were not chosen
	}{
		{name: "a star", namespace: "production", want: "b-prod", why: map[string]string{"a-web": "no selector matches"}},
		{name: "a star for nothing", namespace: "prod", want: "b-prod"},
		{name: "the whole namespace", namespace: "my-prod", why: map[string]string{"b-prod": "no selector matches"}},
		{name: "the first by name", namespace: "prod-1", labels: map[string]string{"app": "web-shop", "tier": "1"}, want: "a-web", why: map[string]string{"b-prod": "several profiles match, and the first by name is used: a-web"}},
		{name: "all labels count", namespace: "prod-1", labels: map[string]string{"app": "web-shop"}, want: "b-prod"},
		{name: "a question mark is one character", namespace: "prod-1", labels: map[string]string{"app": "web", "tier": "12"}, want: "b-prod"},
		{name: "any selector", namespace: "web", want: "a-web"},
		{name: "wildcards in keys", namespace: "keys", labels: map[string]string{"example.com/kind": "batch"}, want: "c-keys"},
		{name: "wildcards in keys, another value", namespace: "keys", labels: map[string]string{"example.com/kind": "web"}},
		{name: "asked for", namespace: "prod-1", labels: map[string]string{"app": "web", "tier": "1", "eks.amazonaws.com/fargate-profile": "b-prod"}, want: "b-prod"},
		{name: "asked for one that does not match", namespace: "web", labels: map[string]string{"eks.amazonaws.com/fargate-profile": "b-prod"}, why: map[string]string{"a-web": `the pod's label eks.amazonaws.com/fargate-profile asks for "b-prod"`}},
		{name: "CoreDNS as it comes", namespace: "prod", annotations: map[string]string{"eks.amazonaws.com/compute-type": "ec2"}, why: map[string]string{"b-prod": `the pod's annotation eks.amazonaws.com/compute-type is "ec2"`}},
		{name: "CoreDNS set to Fargate", namespace: "prod", annotations: map[string]string{"eks.amazonaws.com/compute-type": "Fargate"}, want: "b-prod"},
		{name: "a DaemonSet's", namespace: "prod", owners: daemon, why: map[string]string{"b-prod": "the pod belongs to a DaemonSet"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: tc.labels, Annotations: tc.annotations, OwnerReferences: tc.owners}}
			got, err := w.svc.ExplainFargate(t.Context(), w.account, "us-east-1", "dev", tc.namespace, pod)
			if err != nil || got.Profile != tc.want {
				t.Fatalf("choice = %+v, %v; want %q", got, err, tc.want)
			}
			for _, c := range got.Profiles {
				if why, ok := tc.why[c.Name]; ok && c.Why != why {
					t.Errorf("%s: %q, want %q", c.Name, c.Why, why)
				}
			}
			plane, _ := w.planes.only()
			patch, err := w.svc.MutateFargatePod(t.Context(), plane.ID, tc.namespace, pod)
			if err != nil || strings.Contains(string(patch), "fargate-scheduler") != (tc.want != "") {
				t.Errorf("patch = %s, %v", patch, err)
			}
		})
	}
}

func TestMutateFargatePod(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	plane, _ := w.planes.only()
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, SchedulerName: "default-scheduler"}}
	}
	if patch, err := w.svc.MutateFargatePod(t.Context(), plane.ID, "shop", pod()); patch != nil || err != nil {
		t.Errorf("without a profile: %s, %v", patch, err)
	}
	w.profile(w.profileInput("fp", "shop"))
	patch, err := w.svc.MutateFargatePod(t.Context(), plane.ID, "shop", pod())
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"op": "add", "path": "/metadata/labels", "value": map[string]any{"eks.amazonaws.com/fargate-profile": "fp"}},
		{"op": "add", "path": "/metadata/annotations", "value": map[string]any{"Logging": "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND"}},
		{"op": "add", "path": "/metadata/annotations/CapacityProvisioned", "value": "0.25vCPU 0.5GB"},
		{"op": "add", "path": "/spec/schedulerName", "value": "fargate-scheduler"},
		{"op": "add", "path": "/spec/priorityClassName", "value": "system-node-critical"},
		{"op": "add", "path": "/spec/priority", "value": 2000001000.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	stamped := pod()
	stamped.Spec.SchedulerName = "fargate-scheduler"
	if patch, err := w.svc.MutateFargatePod(t.Context(), plane.ID, "shop", stamped); patch != nil || err != nil {
		t.Errorf("a second time: %s, %v", patch, err)
	}
}

// A profile becomes ACTIVE when the API server calls Fargate's webhook.
func TestAProfileWaitsForItsWebhook(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	asked := make(chan string, 1)
	w.planes.setAdmit(func(plane string) {
		select {
		case asked <- plane:
		default:
		}
	})
	if _, err := w.client.CreateFargateProfile(t.Context(), w.profileInput("fp", "shop")); err != nil {
		t.Fatal(err)
	}
	plane := <-asked
	<-asked // asked again, because the webhook was not called the first time
	got, err := w.client.DescribeFargateProfile(t.Context(), &awseks.DescribeFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: aws.String("fp")})
	if err != nil || got.FargateProfile.Status != ekstypes.FargateProfileStatusCreating {
		t.Fatalf("before the API server calls the webhook: %+v, %v", got, err)
	}
	if _, err := w.kubernetes().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "fargate", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	w.planes.setAdmit(w.admit)
	w.eventually(func() error {
		got, err := w.client.DescribeFargateProfile(t.Context(), &awseks.DescribeFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: aws.String("fp")})
		if err == nil && got.FargateProfile.Status != ekstypes.FargateProfileStatusActive {
			err = fmt.Errorf("plane %s: %s", plane, got.FargateProfile.Status)
		}
		return err
	})
}

// An ACTIVE profile in a cluster without the webhook gets it back when Drydock starts. Calls of the
// API server before that do not count for the next profile.
func TestAnActiveProfileGetsItsWebhook(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.profile(w.profileInput("fp", "shop"))
	webhooks := w.kubernetes().AdmissionregistrationV1().MutatingWebhookConfigurations()
	remove := func() {
		t.Helper()
		if err := webhooks.Delete(t.Context(), "fargate", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	w.restart()
	w.eventually(func() error {
		_, err := webhooks.Get(t.Context(), "fargate", metav1.GetOptions{})
		return err
	})

	w.profile(w.profileInput("second", "shop"))
	remove()
	asked := make(chan string, 1)
	w.planes.setAdmit(func(plane string) {
		select {
		case asked <- plane:
		default:
		}
	})
	if _, err := w.client.CreateFargateProfile(t.Context(), w.profileInput("third", "shop")); err != nil {
		t.Fatal(err)
	}
	<-asked // until it is called, it is not known to work
	w.planes.setAdmit(w.admit)
	w.eventually(func() error {
		got, err := w.client.DescribeFargateProfile(t.Context(), &awseks.DescribeFargateProfileInput{ClusterName: aws.String("dev"), FargateProfileName: aws.String("third")})
		if err == nil && got.FargateProfile.Status != ekstypes.FargateProfileStatusActive {
			err = fmt.Errorf("it is %s", got.FargateProfile.Status)
		}
		return err
	})
}

func TestDeletingAProfileDeletesItsPods(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.profile(w.profileInput("fp", "shop"))
	for name, scheduler := range map[string]string{"mine": "fargate-scheduler", "not-mine": "default-scheduler"} {
		_, err := w.kubernetes().CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{"eks.amazonaws.com/fargate-profile": "fp"}},
			Spec:       corev1.PodSpec{SchedulerName: scheduler},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.deleteProfile("fp")
	left, err := w.kubernetes().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "not-mine" {
		t.Errorf("pods left = %v, %v", left, err)
	}
}

func TestFargateLaunch(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	in := w.profileInput("fp", "shop")
	in.Tags = map[string]string{"team": "shop"}
	w.profile(in)
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace, Labels: map[string]string{"eks.amazonaws.com/fargate-profile": "fp"}}}
	}
	launch := func() (eks.FargateProfileLaunch, error) {
		return w.svc.FargateLaunch(t.Context(), w.account, "us-east-1", "dev", "fp", pod("shop"))
	}
	got, err := launch()
	if diff := cmp.Diff(eks.FargateProfileLaunch{RoleARN: w.arn("role/pods"), Subnets: []string{"subnet-a", "subnet-b"}, Tags: map[string]string{"team": "shop"}}, got); diff != "" || err != nil {
		t.Errorf("launch: %v\n%s", err, diff)
	}
	// The pod's author has set the profile's label and Fargate's scheduler.
	_, err = w.svc.FargateLaunch(t.Context(), w.account, "us-east-1", "dev", "fp", pod("elsewhere"))
	if err == nil || err.Error() != "Misconfigured Fargate Profile: pod does not match any selector of fargate profile fp" {
		t.Errorf("a pod that no selector matches: %v", err)
	}
	blocked := "Misconfigured Fargate Profile: fargate profile fp blocked for new launches due to: "
	w.iam.add(w.arn("role/pods"), "AROAPODS", "ec2.amazonaws.com")
	if _, err := launch(); err == nil || err.Error() != blocked+"Failed to assume PodExecutionRole; Please make sure the role exists and trusts the eks-fargate-pods.amazonaws.com service principal" {
		t.Errorf("trust: %v", err)
	}
	w.iam.add(w.arn("role/pods"), "AROAPODS", "eks-fargate-pods.amazonaws.com")
	if _, err := w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/pods"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := launch(); err == nil || err.Error() != blocked+"Pod execution role is not found in auth config or does not have all required permissions for launching fargate pods." {
		t.Errorf("no entry: %v", err)
	}
}

// TestFargatePatching: what a disruption budget keeps is announced once, and deleted when it is due. Pods that are newer than the
// fault run on patched hosts.
func TestFargatePatching(t *testing.T) {
	w := fargateWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.profile(w.profileInput("fp", "shop"))
	began := time.Date(2026, 6, 27, 12, 52, 44, 0, time.UTC)
	_, cs := w.planes.only()
	pods := cs.CoreV1().Pods("shop")
	for name, created := range map[string]time.Time{"free": began.Add(-time.Hour), "broken": began.Add(-time.Hour), "kept": began.Add(-time.Hour), "new": began.Add(time.Minute)} {
		if _, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Namespace: "shop", CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{"eks.amazonaws.com/fargate-profile": "fp"}},
			Spec:       corev1.PodSpec{SchedulerName: "fargate-scheduler", NodeName: "fargate-" + name},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const budget = "Cannot evict pod as it would violate the pod's disruption budget."
	attempts, broken := 0, true
	cs.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		e, ok := a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
		switch {
		case !ok:
			return false, nil, nil
		case e.Name == "kept":
			attempts++
			return true, nil, apierrors.NewTooManyRequests(budget, 0)
		case e.Name == "broken" && broken:
			return true, nil, apierrors.NewServiceUnavailable("not now")
		}
		return true, nil, cs.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", e.Name)
	})
	names := func() string {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range list.Items {
			out = append(out, p.Name)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	var bus eventstest.Bus
	f := &fault.Fault{ID: "F-1", Kind: fault.FargatePatch, Account: w.account, Region: "us-east-1", Cluster: "dev", Since: began, Until: began.Add(72 * time.Hour)}
	for range 2 { // a pod that cannot be evicted neither holds up the others nor repeats their events
		if err := w.svc.PatchFargate(t.Context(), &bus, f, false); err == nil || !strings.Contains(err.Error(), "evicting pod shop/broken: not now") {
			t.Fatalf("patching: %v", err)
		}
		if got := names(); got != "broken kept new" {
			t.Fatalf("pods %q", got)
		}
	}
	broken = false
	for range 2 {
		if err := w.svc.PatchFargate(t.Context(), &bus, f, false); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); got != "kept new" || attempts != 1 {
		t.Errorf("pods %q after %d attempts to evict the one that a budget keeps", got, attempts)
	}
	e := bus.Next(t, "EKS Fargate Pod Scheduled Termination")
	want := `{"clusterName":"dev","evictErrorMessage":"` + budget + `","fargateProfileName":"fp","podName":"kept","podNamespace":"shop","scheduledTerminationTime":"2026-06-30T12:52:44.000Z[UTC]"}`
	var detail bytes.Buffer
	if err := json.Compact(&detail, e.Detail); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(detail.String(), `\u0027`, "'"); got != want || len(bus.Left()) != 0 {
		t.Errorf("detail\n%s, want\n%s; other events %q", got, want, bus.Left())
	}
	if err := w.svc.PatchFargate(t.Context(), &bus, f, true); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "new" || len(bus.Left()) != 0 {
		t.Errorf("pods %q, events %q", got, bus.Left())
	}
	if got := bus.Emitted(w.account, "us-east-1", "fault/F-1/kept"); got != "" {
		t.Errorf("the pod's event is remembered as %q", got)
	}
}

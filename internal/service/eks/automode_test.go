package eks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// fakeAutoNodes is EC2 and IAM for the nodes of EKS Auto Mode. It has no capacity.
type fakeAutoNodes struct {
	*fakeEC2
	*fakeIAM
	made *ec2types.RequestLaunchTemplateData // by the last CreateLaunchTemplate

	session sync.Mutex
	tags    map[string]string // of the last session of the cluster role
	deny    error             // of AsClusterRole
}

// setDeny makes the cluster role assumable, or not.
func (f *fakeAutoNodes) setDeny(err error) {
	f.session.Lock()
	defer f.session.Unlock()
	f.deny = err
}

func (f *fakeAutoNodes) CreateFleet(context.Context, *awsec2.CreateFleetInput) (*awsec2.CreateFleetOutput, error) {
	return nil, errors.New("UnauthorizedOperation: You are not authorized to perform this operation.")
}

func (f *fakeAutoNodes) TerminateInstances(context.Context, *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error) {
	return &awsec2.TerminateInstancesOutput{}, nil
}

func (f *fakeAutoNodes) CreateLaunchTemplate(_ context.Context, in *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error) {
	f.made = in.LaunchTemplateData
	return nil, errors.New("UnauthorizedOperation: You are not authorized to perform this operation.")
}

func (f *fakeAutoNodes) AddRoleToInstanceProfile(ctx context.Context, in *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error) {
	return f.fakeIAM.AddRoleToInstanceProfile(ctx, in)
}

func (f *fakeAutoNodes) AsClusterRole(ctx context.Context, _, _, _ string, tags map[string]string) (context.Context, error) {
	f.session.Lock()
	defer f.session.Unlock()
	f.tags = tags
	return ctx, f.deny
}

// TestAutoModeOfANewCluster: CreateCluster records the switches, EKS lets the nodes' role in, and the control plane
// gets the setting.
func TestAutoModeOfANewCluster(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("auto")
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi}
	in.ComputeConfig = &ekstypes.ComputeConfigRequest{Enabled: aws.Bool(true), NodePools: []string{"system", "general-purpose"}, NodeRoleArn: aws.String(w.arn("role/node"))}
	in.StorageConfig = &ekstypes.StorageConfigRequest{BlockStorage: &ekstypes.BlockStorage{Enabled: aws.Bool(true)}}
	in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: aws.Bool(true)}}
	_, err := w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "InvalidParameterException", "When EKS Auto Mode is enabled, bootstrapSelfManagedAddons must be set to false.")
	in.BootstrapSelfManagedAddons = aws.Bool(false)
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	c := w.waitCluster("auto", ekstypes.ClusterStatusActive)
	if !aws.ToBool(c.ComputeConfig.Enabled) || strings.Join(c.ComputeConfig.NodePools, " ") != "general-purpose system" || aws.ToString(c.ComputeConfig.NodeRoleArn) != w.arn("role/node") ||
		!aws.ToBool(c.StorageConfig.BlockStorage.Enabled) || !aws.ToBool(c.KubernetesNetworkConfig.ElasticLoadBalancing.Enabled) {
		t.Errorf("%+v %+v %+v", c.ComputeConfig, c.StorageConfig, c.KubernetesNetworkConfig)
	}
	policies, err := w.client.ListAssociatedAccessPolicies(t.Context(), &awseks.ListAssociatedAccessPoliciesInput{ClusterName: aws.String("auto"), PrincipalArn: aws.String(w.arn("role/node"))})
	if err != nil || len(policies.AssociatedAccessPolicies) != 1 || !strings.HasSuffix(*policies.AssociatedAccessPolicies[0].PolicyArn, "/AmazonEKSAutoNodePolicy") {
		t.Errorf("%+v, %v", policies, err)
	}
	// The service-linked role may act in the cluster, as long as EKS Auto Mode is enabled.
	own := func() string {
		t.Helper()
		out := testkit.Must(w.client.ListAssociatedAccessPolicies(t.Context(), &awseks.ListAssociatedAccessPoliciesInput{
			ClusterName: aws.String("auto"), PrincipalArn: aws.String(w.arn("role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS")),
		}))(t)
		var names []string
		for _, p := range out.AssociatedAccessPolicies {
			names = append(names, strings.TrimPrefix(*p.PolicyArn, "arn:aws:eks::aws:cluster-access-policy/AmazonEKS"))
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got, want := own(), "BlockStorageClusterPolicy BlockStoragePolicy ClusterInsightsPolicy ComputeClusterPolicy ComputePolicy EventPolicy LoadBalancingClusterPolicy LoadBalancingPolicy NetworkingClusterPolicy NetworkingPolicy"; got != want {
		t.Errorf("policies %s, want %s", got, want)
	}
	var set *automode.Setting
	w.eventually(func() error {
		if set = w.planes.setting(); set == nil {
			return errors.New("the control plane has no setting")
		}
		return nil
	})
	if set.NodeRole != "node" || strings.Join(set.NodePools, " ") != "general-purpose system" || set.SecurityGroup != *c.ResourcesVpcConfig.ClusterSecurityGroupId {
		t.Errorf("%+v", set)
	}
	off := autoMode(w, false)
	off.Name = aws.String("auto")
	testkit.Must(w.client.UpdateClusterConfig(t.Context(), off))(t)
	w.waitCluster("auto", ekstypes.ClusterStatusActive)
	if got := own(); got != "ClusterInsightsPolicy EventPolicy" {
		t.Errorf("policies %s after the end of EKS Auto Mode", got)
	}
}

// TestAutoModeResolvesNodeClasses: what a NodeClass selects, and why it cannot be used.
func TestAutoModeResolvesNodeClasses(t *testing.T) {
	w := newWorld(t)
	c := w.cluster("auto", ekstypes.AuthenticationModeApi)
	plane, _ := w.planes.only()
	nc := automode.NodeClass{Name: "own", NodeClassSpec: automode.NodeClassSpec{
		Role: "node", SubnetSelectorTerms: []automode.Term{{ID: c.ResourcesVpcConfig.SubnetIds[0]}},
		SecurityGroupSelectorTerms: []automode.Term{{ID: *c.ResourcesVpcConfig.ClusterSecurityGroupId}},
	}}
	got := w.svc.AutoMode(t.Context(), plane.ID, automode.Call{Resolve: &nc}).Resolved
	if p := got.Problems[automode.InstanceProfileReady]; p.Reason != "UnauthorizedNodeRole" || p.Message != "Role node is unauthorized to join nodes to the cluster" {
		t.Errorf("without an access entry: %+v", got.Problems)
	}
	if len(got.Subnets) != 1 || got.Subnets[0].Zone == "" || len(got.SecurityGroups) != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("auto"), PrincipalArn: aws.String(w.arn("role/node")), Type: aws.String("EC2")}); err != nil {
		t.Fatal(err)
	}
	w.auto.deny = errors.New("sts:TagSession is missing")
	got = w.svc.AutoMode(t.Context(), plane.ID, automode.Call{Resolve: &nc}).Resolved
	if p := got.Problems[automode.InstanceProfileReady]; p.Reason != "InstanceProfileCreationFailed" || !strings.Contains(p.Message, "sts:TagSession is missing") {
		t.Errorf("without sts:TagSession: %+v", got.Problems)
	}
	w.auto.deny = nil
	if got = w.svc.AutoMode(t.Context(), plane.ID, automode.Call{Resolve: &nc}).Resolved; len(got.Problems) != 0 || !strings.HasPrefix(got.InstanceProfile, "eks-us-east-1-auto-") {
		t.Errorf("%+v", got)
	}
	if w.auto.tags[automode.TagCluster] != "auto" {
		t.Errorf("session tags %v", w.auto.tags)
	}
}

// TestAutoModeNodesAreRolledBackFirst: a rollback of a cluster with EKS Auto Mode waits until all nodes have the older version,
// and can be cancelled or fail until then.
func TestAutoModeNodesAreRolledBackFirst(t *testing.T) {
	w := newWorld(t, withClock)
	in := w.createInput("dev")
	in.Version, in.BootstrapSelfManagedAddons = aws.String("1.35"), aws.Bool(false)
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi}
	in.ComputeConfig = &ekstypes.ComputeConfigRequest{Enabled: aws.Bool(true), NodePools: []string{"system"}, NodeRoleArn: aws.String(w.arn("role/node"))}
	in.StorageConfig = &ekstypes.StorageConfigRequest{BlockStorage: &ekstypes.BlockStorage{Enabled: aws.Bool(true)}}
	in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: aws.Bool(true)}}
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.upgraded(version("1.36"))
	w.node("i-00000000000000001", "v1.36.1-eks-1234567", "")
	node := testkit.Must(w.kubernetes().CoreV1().Nodes().Get(t.Context(), "i-00000000000000001", metav1.GetOptions{}))(t)
	node.Labels = map[string]string{"eks.amazonaws.com/compute-type": "auto"}
	testkit.Must(w.kubernetes().CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}))(t)
	image := func(v string) {
		img, _ := images.EKS(testkit.Region, images.Bottlerocket, v, "x86_64", "")
		w.ec2.mu.Lock()
		defer w.ec2.mu.Unlock()
		w.ec2.instances["i-00000000000000001"] = ec2types.Instance{
			InstanceId: aws.String("i-00000000000000001"), ImageId: &img.ID, State: &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning},
			Operator: &ec2types.OperatorResponse{Managed: aws.Bool(true), Principal: aws.String("eks.amazonaws.com")}, Tags: []ec2types.Tag{{Key: aws.String(automode.TagCluster), Value: aws.String("dev")}},
		}
	}
	rollback := func() *ekstypes.Update {
		t.Helper()
		return testkit.Must(w.toVersion(&awseks.UpdateClusterVersionInput{Version: aws.String("1.35"), RollbackConfig: &ekstypes.RollbackConfig{TimeoutMinutes: aws.Int32(120)}}))(t)
	}
	nodesGet := func(v string) {
		t.Helper()
		w.eventually(func() error {
			if s := w.planes.setting(); s == nil || s.Version != v {
				return fmt.Errorf("the setting is %+v, want version %s", s, v)
			}
			return nil
		})
	}
	becomes := func(up *ekstypes.Update, status ekstypes.UpdateStatus) *ekstypes.Update {
		t.Helper()
		var got *ekstypes.Update
		w.eventually(func() error {
			got = testkit.Must(w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: up.Id}))(t).Update
			if got.Status != status {
				return fmt.Errorf("the update is %s, want %s", got.Status, status)
			}
			return nil
		})
		return got
	}
	is := func(v string) {
		t.Helper()
		if c := testkit.Must(w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("dev")}))(t).Cluster; *c.Version != v || c.Status != ekstypes.ClusterStatusActive {
			t.Errorf("the cluster is %s, %s", *c.Version, c.Status)
		}
	}

	// Pods that must not be disrupted delay the nodes, which does not refuse the rollback.
	var pods []unstructured.Unstructured
	long := metav1.NewTime(time.Now().Add(-2 * time.Hour))
	for name, p := range map[string]corev1.Pod{
		"kept":      {Spec: corev1.PodSpec{NodeName: node.Name}},
		"ended":     {Spec: corev1.PodSpec{NodeName: node.Name}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		"elsewhere": {Spec: corev1.PodSpec{NodeName: "another"}},
		"kept-3h":   {Spec: corev1.PodSpec{NodeName: node.Name}, Status: corev1.PodStatus{StartTime: &long}},
		"kept-1h":   {Spec: corev1.PodSpec{NodeName: node.Name}, Status: corev1.PodStatus{StartTime: &long}},
	} {
		value := "true"
		if _, d, ok := strings.Cut(name, "-"); ok {
			value = d
		}
		p.Name, p.Namespace, p.Annotations = name, "shop", map[string]string{"karpenter.sh/do-not-disrupt": value}
		pods = append(pods, unstructured.Unstructured{Object: testkit.Must(runtime.DefaultUnstructuredConverter.ToUnstructured(&p))(t)})
	}
	objects := w.objects()
	lists := func(m map[string][]unstructured.Unstructured) {
		objects.mu.Lock()
		defer objects.mu.Unlock()
		objects.lists = m
	}
	lists(map[string][]unstructured.Unstructured{"pods": pods})
	var keeping []string
	for _, r := range w.rollbackInsight("EKS Auto Mode node disruption", ekstypes.InsightStatusValueWarning).Resources {
		keeping = append(keeping, *r.KubernetesResourceUri)
	}
	slices.Sort(keeping)
	if diff := cmp.Diff([]string{"/api/v1/namespaces/shop/pods/kept", "/api/v1/namespaces/shop/pods/kept-3h"}, keeping); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}

	// What would block the nodes refuses the rollback, and what keeps nodes from coming is explained.
	object := func(text string) []unstructured.Unstructured {
		var o unstructured.Unstructured
		if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return []unstructured.Unstructured{o}
	}
	lists(map[string][]unstructured.Unstructured{
		"nodepools":   object(`{"metadata":{"name":"default"},"spec":{"disruption":{"budgets":[{"nodes":"0","reasons":["Drifted"]}]}},"status":{"conditions":[{"type":"NodeClassReady","status":"False","message":"NodeClass is not ready"},{"type":"Ready","status":"False","message":"NodeClassReady=False"}]}}`),
		"nodeclasses": object(`{"metadata":{"name":"default"},"status":{"conditions":[{"type":"SubnetsReady","status":"True"},{"type":"InstanceProfileReady","status":"False","message":"not authorized to perform: iam:AddRoleToInstanceProfile"}]}}`),
		"nodeclaims":  object(`{"metadata":{"name":"default-abcde"},"status":{"conditions":[{"type":"Drifted","status":"False"},{"type":"Launched","status":"Unknown","reason":"InsufficientCapacity"}]}}`),
	})
	_, err := w.toVersion(version("1.35"))
	wantError(t, err, "InvalidStateException", notReadyToRollBack)
	w.wouldBeRefused("a rollback", "1.35", "EKS Auto Mode node disruption: A disruption budget of the node pool default allows no node to drift.")
	notes := strings.Join(w.updateNotes(), "\n")
	for _, want := range []string{
		"EKS Auto Mode's NodeClass default is not ready: InstanceProfileReady: not authorized to perform: iam:AddRoleToInstanceProfile",
		"EKS Auto Mode's NodePool default is not ready: NodeClassReady: NodeClass is not ready", "EKS Auto Mode's NodeClaim default-abcde is not ready: Launched: InsufficientCapacity",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%s lacks %s", notes, want)
		}
	}
	lists(nil)
	if notes := strings.Join(w.updateNotes(), "\n"); !strings.Contains(notes, "EKS Auto Mode has no node pool") {
		t.Error(notes)
	}

	launches := func(v string) {
		t.Helper()
		plane, _ := w.planes.only()
		w.svc.AutoMode(t.Context(), plane.ID, automode.Call{Launch: &automode.Launch{NodeClass: automode.NodeClass{Name: "default"}, NodePool: "system", NodeClaim: "system-abcde", Arch: "amd64", Token: "t"}})
		if img, _ := images.EKS(testkit.Region, images.Bottlerocket, v, "x86_64", ""); w.auto.made == nil || aws.ToString(w.auto.made.ImageId) != img.ID {
			t.Errorf("a node is launched from %+v, want the image %s for Kubernetes %s", w.auto.made, img.ID, v)
		}
	}

	// Cancelled: nodes follow the cluster's version again.
	image("1.36")
	launches("1.36")
	up := rollback()
	nodesGet("1.35")
	launches("1.35")
	is("1.36")
	_, err = w.client.UpdateClusterConfig(t.Context(), &awseks.UpdateClusterConfigInput{Name: aws.String("dev"), DeletionProtection: aws.Bool(true)})
	wantError(t, err, "ResourceInUseException", "")
	if notes := w.updateNotes(); len(notes) == 0 || !strings.Contains(notes[0], "is in progress: 1 nodes of EKS Auto Mode have a newer version") {
		t.Errorf("%q", notes)
	}
	cancel := &awseks.CancelUpdateInput{Name: aws.String("dev"), UpdateId: up.Id}
	if u := testkit.Must(w.client.CancelUpdate(t.Context(), cancel))(t).Update; u.Status != ekstypes.UpdateStatusCancelled || u.Cancellation.Status != ekstypes.CancellationStatusSuccessful {
		t.Errorf("%+v", u)
	}
	nodesGet("1.36")
	is("1.36")
	_, err = w.client.CancelUpdate(t.Context(), cancel)
	wantError(t, err, "InvalidRequestException", "")

	// Too late.
	up = rollback()
	nodesGet("1.35")
	w.pace = time.Hour
	if u := becomes(up, ekstypes.UpdateStatusFailed); len(u.Errors) != 1 || !strings.Contains(*u.Errors[0].ErrorMessage, "did not complete within the timeout: 1 nodes have a newer version") {
		t.Errorf("%+v", u)
	}
	w.pace = time.Second
	nodesGet("1.36")
	is("1.36")

	// In time, in spite of crashes during the rollback of the nodes, and of calls that fail before or after they take effect.
	up = rollback()
	nodesGet("1.35")
	w.restart()
	nodesGet("1.35")
	w.faults.mu.Lock()
	w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(1, 7)), 4, 0.6
	w.faults.mu.Unlock()
	w.restart()
	image("1.35")
	node.Status.NodeInfo.KubeletVersion = "v1.35.2-eks-1234567"
	testkit.Must(w.kubernetes().CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}))(t)
	becomes(up, ekstypes.UpdateStatusSuccessful)
	is("1.35")
	nodesGet("1.35")
	_, err = w.client.CancelUpdate(t.Context(), &awseks.CancelUpdateInput{Name: aws.String("dev"), UpdateId: up.Id})
	wantError(t, err, "InvalidRequestException", "")
}

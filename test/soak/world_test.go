package soak

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const cluster = "soak"

// grouped is how many nodes a managed node group keeps. The others are launched by hand, and join by their user data.
const grouped = 4

// A world is a daemon with a cluster, and everything that nodes need to join it.
type world struct {
	*daemon
	plan plan
	ec2  *awsec2.Client
	eks  *awseks.Client
	kube *kubernetes.Clientset

	vpc      string
	subnets  []string // of us-east-1a, b and c
	image    string
	userData string
	looks    int
	suspects map[string]int // what looked wrong last time, and how often
}

func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{daemon: start(t), plan: p, suspects: map[string]int{}}
	cfg := w.config()
	w.ec2, w.eks = awsec2.NewFromConfig(cfg), awseks.NewFromConfig(cfg)
	clusterRole := w.role("eks", "eks.amazonaws.com")
	nodeRole := w.role("node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly", "AmazonEKS_CNI_Policy")
	for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		out := must(w.ec2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: aws.String("availability-zone"), Values: []string{zone}}}}))(t)
		w.vpc = *out.Subnets[0].VpcId
		w.subnets = append(w.subnets, *out.Subnets[0].SubnetId)
	}
	must(w.eks.CreateCluster(ctx, &awseks.CreateClusterInput{
		Name: aws.String(cluster), RoleArn: &clusterRole, ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: w.subnets},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	}))(t)
	active := awseks.NewClusterActiveWaiter(w.eks)
	described := must(active.WaitForOutput(ctx, &awseks.DescribeClusterInput{Name: aws.String(cluster)}, 2*time.Minute))(t)
	must(w.eks.CreateNodegroup(ctx, &awseks.CreateNodegroupInput{
		ClusterName: aws.String(cluster), NodegroupName: aws.String("group"), NodeRole: &nodeRole, Subnets: w.subnets,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), DesiredSize: aws.Int32(grouped), MaxSize: aws.Int32(2 * grouped)},
	}))(t)
	if err := awseks.NewNodegroupActiveWaiter(w.eks).Wait(ctx, &awseks.DescribeNodegroupInput{ClusterName: aws.String(cluster), NodegroupName: aws.String("group")}, 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	param := "/aws/service/eks/optimized-ami/" + *described.Cluster.Version + "/amazon-linux-2023/x86_64/standard/recommended/image_id"
	w.image = *must(awsssm.NewFromConfig(cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: &param}))(t).Parameter.Value
	w.userData = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: %s
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
`, cluster, *described.Cluster.Endpoint, *described.Cluster.CertificateAuthority.Data, *described.Cluster.KubernetesNetworkConfig.ServiceIpv4Cidr))
	w.drydock("kubeconfig", cluster)
	rc := must(clientcmd.BuildConfigFromFlags("", filepath.Join(w.dir, "kubeconfig")))(t)
	rc.QPS, rc.Burst = 100, 200
	w.kube = must(kubernetes.NewForConfig(rc))(t)
	w.deploy()
	w.awaitWhole(time.Minute)
	return w
}

// role makes a role, and an instance profile for that of nodes.
func (w *world) role(name, service string, policies ...string) string {
	w.t.Helper()
	ctx := w.t.Context()
	c := awsiam.NewFromConfig(w.config())
	out := must(c.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName:                 &name,
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"}]}`),
	}))(w.t)
	for _, p := range policies {
		must(c.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &name, PolicyArn: aws.String("arn:aws:iam::aws:policy/" + p)}))(w.t)
	}
	if len(policies) > 0 {
		must(c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &name}))(w.t)
		must(c.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &name}))(w.t)
	}
	return *out.Role.Arn
}

// deploy creates pods that need addresses on all nodes.
func (w *world) deploy() {
	w.t.Helper()
	labels := map[string]string{"app": "soak"}
	grace := int64(1)
	must(w.kube.AppsV1().Deployments("default").Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "soak"},
		Spec: appsv1.DeploymentSpec{
			Replicas: aws.Int32(int32(w.plan.nodes)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{{Name: "c", Image: "public.ecr.aws/docker/library/busybox:latest"}},
				},
			},
		},
	}, metav1.CreateOptions{}))(w.t)
}

func (w *world) scale(ctx context.Context, n int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	_, err := w.kube.AppsV1().Deployments("default").Patch(ctx, "soak", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// instances returns the instances in the given states, by ID.
func (w *world) instances(ctx context.Context, states ...string) (map[string]ec2types.Instance, error) {
	out := map[string]ec2types.Instance{}
	pages := awsec2.NewDescribeInstancesPaginator(w.ec2, &awsec2.DescribeInstancesInput{
		MaxResults: aws.Int32(1000), Filters: []ec2types.Filter{{Name: aws.String("instance-state-name"), Values: states}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				out[*i.InstanceId] = i
			}
		}
	}
	return out, nil
}

// empty ends all nodes, including those of the group.
func (w *world) empty() {
	w.t.Helper()
	ctx := w.t.Context()
	began := time.Now()
	if err := w.scale(ctx, 0); err != nil {
		w.t.Fatal(err)
	}
	must(w.eks.DeleteNodegroup(ctx, &awseks.DeleteNodegroupInput{ClusterName: aws.String(cluster), NodegroupName: aws.String("group")}))(w.t)
	if err := awseks.NewNodegroupDeletedWaiter(w.eks).Wait(ctx, &awseks.DescribeNodegroupInput{ClusterName: aws.String(cluster), NodegroupName: aws.String("group")}, 3*time.Minute); err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("the node group is deleted after %v", time.Since(began).Round(time.Millisecond))
	all, err := w.instances(ctx, "pending", "running", "stopping", "stopped")
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for id := range all {
		ids = append(ids, id)
	}
	if len(ids) > 0 {
		must(w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: ids}))(w.t)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// eventually waits until check is content.
func (w *world) eventually(within time.Duration, what string, check func(context.Context) error) {
	w.t.Helper()
	deadline, tell := time.Now().Add(within), time.Now().Add(10*time.Second)
	for {
		err := check(w.t.Context())
		if err == nil {
			return
		}
		if time.Now().After(tell) {
			w.t.Logf("%s: not yet: %v", what, err)
			tell = time.Now().Add(10 * time.Second)
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s, not within %v: %v", what, within, err)
		}
		pause(200 * time.Millisecond)
	}
}

// pause waits a little; every loop around it has a deadline.
func pause(d time.Duration) { <-time.After(d) }

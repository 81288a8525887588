package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestBenchPodCredentials measures the time from a pod's creation until the AWS
// SDK's default chain has credentials by its service account's role: the webhook,
// the scheduler, the simulated kubelet, the token, STS.
func TestBenchPodCredentials(t *testing.T) {
	measure(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, _ := up(t, "--warm-spares", "0")
	clusterRole, nodeRole := d.roles(ctx)
	subnets := d.subnets(ctx)
	d.createCluster(ctx, "pods", clusterRole, subnets)
	eks, iam := awseks.NewFromConfig(d.config()), awsiam.NewFromConfig(d.config())
	if _, err := eks.CreateNodegroup(ctx, &awseks.CreateNodegroupInput{
		ClusterName: aws.String("pods"), NodegroupName: aws.String("ng"), NodeRole: &nodeRole, Subnets: subnets,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(1), DesiredSize: aws.Int32(1)},
	}); err != nil {
		t.Fatal(err)
	}
	if err := awseks.NewNodegroupActiveWaiter(eks).Wait(ctx, &awseks.DescribeNodegroupInput{ClusterName: aws.String("pods"), NodegroupName: aws.String("ng")}, time.Minute); err != nil {
		t.Fatal(err)
	}
	client := d.client("pods")
	role := d.webIdentityRole(ctx, eks, iam, "pods", "system:serviceaccount:default:*")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "cart", Annotations: map[string]string{"eks.amazonaws.com/role-arn": role}}}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	var took []time.Duration
	for i := range 11 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cart-%d", i)},
			Spec:       corev1.PodSpec{ServiceAccountName: "cart", Containers: []corev1.Container{{Name: "app", Image: "nginx"}}},
		}
		begun := time.Now()
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		env, err := podEnvironment(ctx, client, "default", pod.Name, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range env {
			t.Setenv(k, v)
		}
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	t.Logf("a pod's creation to its credentials: median %s of %d", median(took), len(took))
}

func (d *drydock) client(cluster string) kubernetes.Interface {
	d.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", d.kubeconfig(cluster))
	if err != nil {
		d.t.Fatal(err)
	}
	cfg.QPS = -1 // otherwise the client's own limit would be measured
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	return client
}

// webIdentityRole makes the cluster's issuer an identity provider and creates a role that trusts the service accounts
// whose subject matches.
func (d *drydock) webIdentityRole(ctx context.Context, eks *awseks.Client, iam *awsiam.Client, cluster, subject string) string {
	d.t.Helper()
	out, err := eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &cluster})
	if err != nil {
		d.t.Fatal(err)
	}
	issuer := *out.Cluster.Identity.Oidc.Issuer
	provider, err := iam.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}})
	if err != nil {
		d.t.Fatal(err)
	}
	trust := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":%q},"Action":"sts:AssumeRoleWithWebIdentity",
		"Condition":{"StringLike":{"%s:sub":%q}}}]}`, *provider.OpenIDConnectProviderArn, issuer[len("https://"):], subject)
	role, err := iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("pod"), AssumeRolePolicyDocument: &trust})
	if err != nil {
		d.t.Fatal(err)
	}
	return *role.Role.Arn
}

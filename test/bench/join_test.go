package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/kube"
)

// TestBenchJoin measures the time from RunInstances until the instance's node is
// Ready: user data, every step of the join, and the CNI's pod.
func TestBenchJoin(t *testing.T) {
	measure(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, _ := up(t, "--warm-spares", "0")
	clusterRole, nodeRole := d.roles(ctx)
	subnets := d.subnets(ctx)
	d.createCluster(ctx, "join", clusterRole, subnets)
	eks, iam, ec2 := awseks.NewFromConfig(d.config()), awsiam.NewFromConfig(d.config()), awsec2.NewFromConfig(d.config())
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(eks.CreateAccessEntry(ctx, &awseks.CreateAccessEntryInput{ClusterName: aws.String("join"), PrincipalArn: &nodeRole, Type: aws.String("EC2_LINUX")}))
	check(iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")}))
	check(iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: aws.String("node")}))
	out, err := eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: aws.String("join")})
	check(out, err)
	image, err := awsssm.NewFromConfig(d.config()).GetParameter(ctx, &awsssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/" + *out.Cluster.Version + "/amazon-linux-2023/x86_64/standard/recommended/image_id"),
	})
	check(image, err)
	userData := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: join
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
`, *out.Cluster.Endpoint, *out.Cluster.CertificateAuthority.Data, *out.Cluster.KubernetesNetworkConfig.ServiceIpv4Cidr))
	client := d.client("join")
	var took []time.Duration
	for i := range 11 {
		begun := time.Now()
		check(ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
			ImageId: image.Parameter.Value, InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			SubnetId: &subnets[i%len(subnets)], UserData: &userData, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")},
		}))
		for ready := 0; ready <= i; {
			nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			check(nodes, err) // also when it takes too long
			ready = 0
			for n := range nodes.Items {
				if kube.NodeReady(&nodes.Items[n]) {
					ready++
				}
			}
		}
		took = append(took, time.Since(begun))
	}
	t.Logf("RunInstances to Ready: median %s of %d", median(took), len(took))
}

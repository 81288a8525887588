package bench

import (
	"errors"
	"testing"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// How long a version update takes with ten nodes, and for how long a client gets no answer.
func TestBenchUpgrade(t *testing.T) {
	measure(t)
	ctx := t.Context()
	d, _ := up(t, "--warm-spares", "0", "--quota", "nodes-per-nodegroup=1000")
	role, nodeRole := d.roles(ctx)
	subnets := d.ownNetwork(ctx)
	c := awseks.NewFromConfig(d.config())
	name, version := "old", "1.33"
	if _, err := c.CreateCluster(ctx, &awseks.CreateClusterInput{
		Name: &name, RoleArn: &role, Version: &version, ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi},
	}); err != nil {
		t.Fatal(err)
	}
	if err := awseks.NewClusterActiveWaiter(c).Wait(ctx, &awseks.DescribeClusterInput{Name: &name}, 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	d.join(ctx, name, nodeRole, subnets, 1, 10)
	client := d.client(name)
	for _, to := range []string{"1.34", "1.35", "1.36"} {
		begun := time.Now()
		up, err := c.UpdateClusterVersion(ctx, &awseks.UpdateClusterVersionInput{Name: &name, Version: &to})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan time.Duration)
		go func() {
			defer close(done)
			testkit.Eventually(t, 2*time.Minute, func() error {
				got, err := c.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: &name, UpdateId: up.Update.Id})
				if err == nil && got.Update.Status == ekstypes.UpdateStatusInProgress {
					err = errors.New("in progress")
				}
				return err
			})
			done <- time.Since(begun)
		}()
		var gap, took time.Duration
		for last := begun; took == 0; {
			if _, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err == nil {
				gap, last = max(gap, time.Since(last)), time.Now()
			}
			select {
			case took = <-done:
			default:
			}
		}
		t.Logf("update to %s with ten nodes: %v, longest time without an answer %v", to, took.Round(10*time.Millisecond), gap.Round(time.Millisecond))
	}
}

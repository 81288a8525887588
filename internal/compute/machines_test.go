package compute

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/node"
	nodeboxes "github.com/drydock-dev/drydock/internal/node/containers"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// oneOfEach is EC2 with an instance and, in the region of the only cluster, a network interface.
type oneOfEach struct{ EC2 }

func (oneOfEach) InstanceIDs() (map[string]bool, error) { return map[string]bool{"i-1": true}, nil }

func (oneOfEach) DescribeNetworkInterfaces(ctx context.Context, _ *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error) {
	out := &awsec2.DescribeNetworkInterfacesOutput{}
	if c := awsapi.CallFrom(ctx); c.Account == "111122223333" && c.Region == "eu-west-1" {
		out.NetworkInterfaces = []ec2types.NetworkInterface{{NetworkInterfaceId: aws.String("eni-1")}}
	}
	return out, nil
}

type oneCluster struct{ EKS }

func (oneCluster) Clusters(context.Context) ([]eks.ClusterStatus, error) {
	return []eks.ClusterStatus{{Account: "111122223333", Region: "eu-west-1", Name: "dev"}}, nil
}

// A reset removes the disks of instances that were off, and those of no other machine.
func TestResetRemovesDisks(t *testing.T) {
	st := testkit.Store(t)
	dir := t.TempDir()
	m := &Machines{
		cfg:   Config{Store: st, EC2: oneOfEach{}, EKS: oneCluster{}},
		boxes: nodeboxes.New(node.Config{Log: testkit.Log(t)}, nodeboxes.Options{Machines: boxes.Config{Dir: dir}}),
	}
	if err := os.MkdirAll(filepath.Join(dir, "roots"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"i-1", "i-2", "eni-1", "eni-2"} {
		if err := os.MkdirAll(filepath.Join(dir, "disks", id, "disk"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"vol-i1", "vol-i2", "vol-eni1", "vol-eni2"} {
		if err := os.WriteFile(filepath.Join(dir, "roots", name+".ext4"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.StopAccount(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*/*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"eni-1", "i-1", "vol-eni1.ext4", "vol-i1.ext4"}; !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

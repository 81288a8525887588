package eks_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
)

// cluster6 creates the IPv6 cluster dev.
func (w *world) cluster6(mode ekstypes.AuthenticationMode) *ekstypes.Cluster {
	w.Helper()
	in := w.createInput("dev")
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: mode}
	in.ResourcesVpcConfig.SubnetIds = []string{"subnet-six-a", "subnet-six-b"}
	in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{IpFamily: ekstypes.IpFamilyIpv6}
	if _, err := w.client.CreateCluster(w.Context(), in); err != nil {
		w.Fatal(err)
	}
	return w.waitCluster("dev", ekstypes.ClusterStatusActive)
}

// The service range of an IPv6 cluster is EKS's own choice. The control plane's interfaces have IPv6 addresses, and
// everyone may use its dual-stack endpoint.
func TestIPv6Cluster(t *testing.T) {
	w := newWorld(t)
	c := w.cluster6(ekstypes.AuthenticationModeApi)
	n := c.KubernetesNetworkConfig
	p, err := netip.ParsePrefix(aws.ToString(n.ServiceIpv6Cidr))
	if err != nil || p.Bits() != 108 || p.Masked() != p || !netip.MustParsePrefix("fd00::/8").Contains(p.Addr()) {
		t.Errorf("service range %v: %v", p, err)
	}
	if n.IpFamily != ekstypes.IpFamilyIpv6 || n.ServiceIpv4Cidr != nil {
		t.Errorf("network configuration %+v", n)
	}
	if diff := cmp.Diff([]string{"0.0.0.0/0", "::/0"}, c.ResourcesVpcConfig.PublicAccessCidrs); diff != "" {
		t.Errorf("public CIDRs (-want +got):\n%s", diff)
	}
	for _, i := range w.ec2.interfaces {
		if len(i.Ipv6Addresses) != 1 {
			t.Errorf("interface in %s has %d IPv6 addresses", *i.SubnetId, len(i.Ipv6Addresses))
		}
	}
	_, err = w.update(&awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-b"}}})
	wantError(t, err, "InvalidParameterException", `The following subnets do not have an IPv6 CIDR block associated, which an "ipv6" cluster requires: [subnet-a, subnet-b]`)
	_, err = w.update(&awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{"subnet-six-a", "subnet-six-b", "subnet-only-six"}}})
	wantError(t, err, "InvalidRequestException", "Provided subnets subnet-only-six Free IPs: 0 , need at least 5 IPs in each subnet to be free for this operation")
	w.mustUpdate(&awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{PublicAccessCidrs: []string{"2001:db8::/32"}}})
}

// A node group needs subnets that give its nodes IPv6 addresses. Its nodes have one prefix each, which is enough for
// as many pods as they may run.
func TestIPv6Nodegroup(t *testing.T) {
	w := newWorld(t)
	c := w.cluster6(ekstypes.AuthenticationModeApi)
	in := w.nodegroupInput("dev", "bare", 1)
	in.Subnets = []string{"subnet-six-a", "subnet-six-b"}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	g := w.waitNodegroup("dev", "bare", ekstypes.NodegroupStatusCreateFailed)
	want := "One or more Amazon EC2 Subnets of [subnet-six-b] for node group bare does not automatically assign IPv6 addresses to instances launched into it. See IP addressing in VPC guide: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-ip-addressing.html#subnet-public-ip"
	if i := g.Health.Issues; len(i) != 1 || i[0].Code != ekstypes.NodegroupIssueCodeEc2SubnetMissingIpv6Assignment || *i[0].Message != want || !slices.Equal(i[0].ResourceIds, []string{"subnet-six-b"}) {
		t.Errorf("issues %s", asJSON(i))
	}

	data := make(chan string, 1)
	w.ec2.onLaunch(func(i ec2types.Instance, userData string) {
		select {
		case data <- userData:
		default:
		}
		w.boot(i, userData)
	})
	in = w.nodegroupInput("dev", "ng", 1)
	in.Subnets = []string{"subnet-six-a"}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	raw := <-data
	service := *c.KubernetesNetworkConfig.ServiceIpv6Cidr
	for _, part := range []string{"cidr: " + service, "- " + strings.TrimSuffix(service, "/108") + "a\n", "maxPods: 110"} {
		if !strings.Contains(raw, part) {
			t.Errorf("user data lacks %q:\n%s", part, raw)
		}
	}
}

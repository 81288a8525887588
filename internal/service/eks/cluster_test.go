package eks_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestAClusterBecomesActiveAndGoesWithoutATrace(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("dev")
	in.Tags = map[string]string{"team": "blue"}
	made, err := w.client.CreateCluster(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	c := made.Cluster
	if c.Status != ekstypes.ClusterStatusCreating || c.Endpoint != nil || c.CreatedAt == nil || c.CertificateAuthority == nil {
		t.Errorf("CreateCluster answered %+v", c)
	}
	if got := *c.AccessConfig.BootstrapClusterCreatorAdminPermissions; !got {
		t.Error("the creator is no administrator")
	}

	c = w.waitCluster("dev", ekstypes.ClusterStatusActive)
	plane, cs := w.planes.only()
	group := *c.ResourcesVpcConfig.ClusterSecurityGroupId
	want := &ekstypes.Cluster{
		Name: aws.String("dev"), Arn: aws.String("arn:aws:eks:us-east-1:" + w.account + ":cluster/dev"), CreatedAt: c.CreatedAt,
		Version: aws.String("1.36"), PlatformVersion: aws.String("eks.4"), RoleArn: in.RoleArn, Status: ekstypes.ClusterStatusActive,
		Endpoint: &plane.Endpoint,
		CertificateAuthority: &ekstypes.Certificate{
			Active: &ekstypes.ActiveCertificateAuthority{Id: aws.String("ca-initial"), ActivatedBy: ekstypes.CertificateAuthorityActivatedByEks},
			Data:   aws.String(base64.StdEncoding.EncodeToString(plane.CAPEM)),
		},
		Identity: &ekstypes.Identity{Oidc: &ekstypes.OIDC{Issuer: &plane.Issuer}},
		ResourcesVpcConfig: &ekstypes.VpcConfigResponse{
			ClusterSecurityGroupId: &group, ControlPlaneEgressMode: ekstypes.ControlPlaneEgressModeTypeAwsManaged, EndpointPublicAccess: true, PublicAccessCidrs: []string{"0.0.0.0/0"},
			SecurityGroupIds: []string{}, SubnetIds: []string{"subnet-a", "subnet-b", "subnet-c"}, VpcId: aws.String("vpc-main"),
		},
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{
			IpFamily: ekstypes.IpFamilyIpv4, ServiceIpv4Cidr: aws.String("10.100.0.0/16"), ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: aws.Bool(false)},
		},
		Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(false), Types: []ekstypes.LogType{
			ekstypes.LogTypeApi, ekstypes.LogTypeAudit, ekstypes.LogTypeAuthenticator, ekstypes.LogTypeControllerManager, ekstypes.LogTypeScheduler,
		}}}},
		AccessConfig:       &ekstypes.AccessConfigResponse{AuthenticationMode: ekstypes.AuthenticationModeConfigMap},
		UpgradePolicy:      &ekstypes.UpgradePolicyResponse{SupportType: ekstypes.SupportTypeExtended},
		DeletionProtection: aws.Bool(false), Health: &ekstypes.ClusterHealth{Issues: []ekstypes.ClusterIssue{}},
		Tags: map[string]string{"team": "blue"},

		KubeApiServerConfig: c.KubeApiServerConfig, KubeControllerManagerConfig: c.KubeControllerManagerConfig, KubeSchedulerConfig: c.KubeSchedulerConfig, // see TestControlPlaneSettings
	}
	if diff := cmp.Diff(want, c, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())); diff != "" {
		t.Errorf("DescribeCluster (-want +got):\n%s", diff)
	}
	sg := w.ec2.groups[group]
	if !regexp.MustCompile(`^eks-cluster-sg-dev-\d+$`).MatchString(*sg.GroupName) || *sg.IpPermissions[0].UserIdGroupPairs[0].GroupId != group {
		t.Errorf("cluster security group: %+v", sg)
	}
	if len(w.ec2.interfaces) != 3 {
		t.Errorf("%d network interfaces, want 3", len(w.ec2.interfaces))
	}
	for _, i := range w.ec2.interfaces {
		if *i.Description != "Amazon EKS dev" {
			t.Errorf("interface is described %q", *i.Description)
		}
	}
	if _, err := cs.RbacV1().ClusterRoles().Get(t.Context(), "eks:node-bootstrapper", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if s, err := cs.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil || len(s.Endpoints) != 3 || *s.Ports[0].Port != 443 {
		t.Errorf("the endpoints of the service kubernetes: %v, %v", s, err)
	}
	if got := w.planes.access[plane.ID]; got != "true [0.0.0.0/0] false" {
		t.Errorf("endpoint access = %s", got)
	}

	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	w.nothingLeft()
}

// nothingLeft checks that nothing that EKS created is left.
func (w *world) nothingLeft() {
	w.Helper()
	if grants := w.keys.granted(); len(grants) != 0 {
		w.Errorf("grants are left: %v", grants)
	}
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	for id, g := range w.ec2.groups {
		if strings.HasPrefix(*g.GroupName, "eks-") {
			w.Errorf("security group %s is left", id)
		}
	}
	if len(w.ec2.interfaces)+len(w.planes.owners)+len(w.iam.profiles) > 0 {
		w.Errorf("left: interfaces %v, planes %v, profiles %v", w.ec2.interfaces, w.planes.owners, w.iam.profiles)
	}
	for name := range w.ec2.templates {
		if strings.HasPrefix(name, "eks-") {
			w.Errorf("launch template %s is left", name)
		}
	}
}

func TestCreateClusterRefusesWhatAWSRefuses(t *testing.T) {
	w := newWorld(t)
	w.iam.add(w.arn("role/untrusting"), "AROAX", "ec2.amazonaws.com")
	w.cluster("taken", ekstypes.AuthenticationModeConfigMap)
	vpc := func(in *awseks.CreateClusterInput) *ekstypes.VpcConfigRequest { return in.ResourcesVpcConfig }
	for name, tt := range map[string]struct {
		change        func(*awseks.CreateClusterInput)
		code, message string
	}{
		"a name that begins with a hyphen": {
			func(in *awseks.CreateClusterInput) { in.Name = aws.String("-dev") },
			"InvalidParameterException", "The cluster name parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.",
		},
		"a name of 101 characters": {
			func(in *awseks.CreateClusterInput) { in.Name = aws.String(strings.Repeat("a", 101)) },
			"InvalidParameterException", "The cluster name parameter is too long. It can have at most 100 characters.",
		},
		"a name that is taken": {
			func(in *awseks.CreateClusterInput) { in.Name = aws.String("taken") },
			"ResourceInUseException", "Cluster already exists with name: taken",
		},
		"an unknown version": {
			func(in *awseks.CreateClusterInput) { in.Version = aws.String("1.32") },
			"InvalidParameterException", "unsupported Kubernetes version 1.32",
		},
		"a role that does not exist": {
			func(in *awseks.CreateClusterInput) { in.RoleArn = aws.String(w.arn("role/nobody")) },
			"InvalidParameterException", "Role with arn: " + w.arn("role/nobody") + ", could not be assumed because it does not exist or the trusted entity is not correct",
		},
		"a role that trusts somebody else": {
			func(in *awseks.CreateClusterInput) { in.RoleArn = aws.String(w.arn("role/untrusting")) },
			"InvalidParameterException", "Role with arn: " + w.arn("role/untrusting") + ", could not be assumed because it does not exist or the trusted entity is not correct",
		},
		"one subnet": {
			func(in *awseks.CreateClusterInput) { vpc(in).SubnetIds = []string{"subnet-a"} },
			"InvalidParameterException", "Subnets specified must be in at least two different AZs",
		},
		"two subnets of one zone": {
			func(in *awseks.CreateClusterInput) { vpc(in).SubnetIds = []string{"subnet-a", "subnet-a2"} },
			"InvalidParameterException", "Subnets specified must be in at least two different AZs",
		},
		"a subnet that does not exist": {
			func(in *awseks.CreateClusterInput) { vpc(in).SubnetIds = []string{"subnet-a", "subnet-x"} },
			"InvalidParameterException", "The subnet ID 'subnet-x' does not exist (Service: Ec2, Status Code: 400)",
		},
		"subnets of two VPCs": {
			func(in *awseks.CreateClusterInput) { vpc(in).SubnetIds = []string{"subnet-a", "subnet-other"} },
			"InvalidParameterException", "Subnets specified must be in the same VPC",
		},
		"a security group of another VPC": {
			func(in *awseks.CreateClusterInput) { vpc(in).SecurityGroupIds = []string{"sg-other"} },
			"InvalidParameterException", "Security group(s) [sg-other] are not (in/associated to) the same VPC as the subnets. Please specify a security group that is associated with the VPC: vpc-main",
		},
		"a security group that does not exist": {
			func(in *awseks.CreateClusterInput) { vpc(in).SecurityGroupIds = []string{"sg-x"} },
			"InvalidParameterException", "The security group 'sg-x' does not exist (Service: Ec2, Status Code: 400)",
		},
		"six security groups": {
			func(in *awseks.CreateClusterInput) {
				vpc(in).SecurityGroupIds = []string{"1", "2", "3", "4", "5", "6"}
			},
			"InvalidParameterException", "You can specify at most 5 security groups.",
		},
		"no endpoint access": {
			func(in *awseks.CreateClusterInput) { vpc(in).EndpointPublicAccess = aws.Bool(false) },
			"InvalidParameterException", "Private and public endpoint access cannot be false",
		},
		"a public CIDR that is private": {
			func(in *awseks.CreateClusterInput) {
				vpc(in).PublicAccessCidrs = []string{"203.0.113.0/24", "10.0.0.0/8", "x"}
			},
			"InvalidParameterException", "The following CIDRs are invalid in publicAccessCidrs: [10.0.0.0/8, x]",
		},
		"a service CIDR outside the private blocks": {
			func(in *awseks.CreateClusterInput) { in.KubernetesNetworkConfig = serviceCIDR("100.64.0.0/16") },
			"InvalidParameterException", "Invalid Cluster Service Ipv4 CIDR 100.64.0.0/16 for the cluster refused, must be within RFC1918 range",
		},
		"a service CIDR that is too small": {
			func(in *awseks.CreateClusterInput) { in.KubernetesNetworkConfig = serviceCIDR("10.0.0.0/25") },
			"InvalidParameterException", "Invalid Cluster Service Ipv4 CIDR 10.0.0.0/25 for the cluster refused, must have netmask size between /12 and /24 inclusive",
		},
		"a service CIDR inside the VPC": {
			func(in *awseks.CreateClusterInput) { in.KubernetesNetworkConfig = serviceCIDR("172.31.0.0/20") },
			"InvalidParameterException", "The service CIDR 172.31.0.0/20 overlaps with the VPC CIDR 172.31.0.0/16.",
		},
		"a service CIDR of an IPv6 cluster": {
			func(in *awseks.CreateClusterInput) {
				in.KubernetesNetworkConfig = serviceCIDR("10.100.0.0/16")
				in.KubernetesNetworkConfig.IpFamily = ekstypes.IpFamilyIpv6
			},
			"InvalidParameterException", `serviceIpv4Cidr cannot be specified when creating an "ipv6" cluster`,
		},
		"IPv6 in subnets without it": {
			func(in *awseks.CreateClusterInput) {
				in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{IpFamily: ekstypes.IpFamilyIpv6}
			},
			"InvalidParameterException", `The following subnets do not have an IPv6 CIDR block associated, which an "ipv6" cluster requires: [subnet-a, subnet-b, subnet-c]`,
		},
		"hybrid nodes of an IPv6 cluster": {
			func(in *awseks.CreateClusterInput) {
				in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{IpFamily: ekstypes.IpFamilyIpv6}
				in.RemoteNetworkConfig = &ekstypes.RemoteNetworkConfigRequest{RemoteNodeNetworks: []ekstypes.RemoteNodeNetwork{{Cidrs: []string{"192.168.0.0/16"}}}}
			},
			"InvalidParameterException", `remoteNetworkConfig cannot be specified when creating an "ipv6" cluster`,
		},
		"an unknown family": {
			func(in *awseks.CreateClusterInput) {
				in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{IpFamily: "ipv5"}
			},
			"InvalidParameterException", "Invalid ipFamily: ipv5",
		},
		"a public IPv6 CIDR of an IPv4 cluster": {
			func(in *awseks.CreateClusterInput) { vpc(in).PublicAccessCidrs = []string{"0.0.0.0/0", "::/0"} },
			"InvalidParameterException", "The following CIDRs are invalid in publicAccessCidrs: [::/0]",
		},
		"no administrator in CONFIG_MAP mode": {
			func(in *awseks.CreateClusterInput) {
				in.AccessConfig = &ekstypes.CreateAccessConfigRequest{BootstrapClusterCreatorAdminPermissions: aws.Bool(false)}
			},
			"InvalidParameterException", "bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode is set to CONFIG_MAP",
		},
		"unknown logs": {
			func(in *awseks.CreateClusterInput) {
				in.Logging = &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(true), Types: []ekstypes.LogType{"kubelet"}}}}
			},
			"InvalidParameterException", "Invalid log type: kubelet",
		},
		"a reserved tag": {
			func(in *awseks.CreateClusterInput) { in.Tags = map[string]string{"aws:x": "y"} },
			"InvalidParameterException", "Tag keys that start with aws: are reserved for AWS use.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := w.createInput("refused")
			tt.change(in)
			_, err := w.client.CreateCluster(t.Context(), in)
			wantError(t, err, tt.code, tt.message)
		})
	}
}

func TestPublicAccessCIDRsOfAPrivateClusterAreKept(t *testing.T) {
	w := newWorld(t)
	for name, cidrs := range map[string][]string{"none": {}, "all": {"0.0.0.0/0"}} {
		in := w.createInput(name)
		in.ResourcesVpcConfig.EndpointPublicAccess, in.ResourcesVpcConfig.EndpointPrivateAccess = aws.Bool(false), aws.Bool(true)
		in.ResourcesVpcConfig.PublicAccessCidrs = cidrs
		out, err := w.client.CreateCluster(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cidrs, out.Cluster.ResourcesVpcConfig.PublicAccessCidrs); diff != "" {
			t.Errorf("publicAccessCidrs of %s (-want +got):\n%s", name, diff)
		}
	}
}

func serviceCIDR(c string) *ekstypes.KubernetesNetworkConfigRequest {
	return &ekstypes.KubernetesNetworkConfigRequest{ServiceIpv4Cidr: &c}
}

func TestServiceCIDRAvoidsTheVPC(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("ten")
	in.ResourcesVpcConfig.SubnetIds = []string{"subnet-ten-a", "subnet-ten-b"}
	out, err := w.client.CreateCluster(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := *out.Cluster.KubernetesNetworkConfig.ServiceIpv4Cidr; got != "172.20.0.0/16" {
		t.Errorf("service CIDR in a 10.0.0.0/8 VPC = %s", got)
	}
}

func TestCreateClusterIsIdempotentPerToken(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("dev")
	in.ClientRequestToken = aws.String("token-1")
	first, err := w.client.CreateCluster(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.client.CreateCluster(t.Context(), in)
	if err != nil || !again.Cluster.CreatedAt.Equal(*first.Cluster.CreatedAt) {
		t.Fatalf("repeated: %v", err)
	}
	in.Version = aws.String("1.33")
	_, err = w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "InvalidRequestException", "The clientRequestToken was used before with different parameters.")
}

func TestClusterQuota(t *testing.T) {
	w := newWorld(t, func(w *world) { w.quotas = eks.Quotas{Clusters: 1} })
	w.cluster("one", ekstypes.AuthenticationModeApi)
	_, err := w.client.CreateCluster(t.Context(), w.createInput("two"))
	wantError(t, err, "ResourceLimitExceededException", "Cluster limit exceeded for account.")
}

func TestACreationThatCannotSucceedFailsWithItsReason(t *testing.T) {
	w := newWorld(t)
	w.planes.notReady = errors.New("booting")
	if _, err := w.client.CreateCluster(t.Context(), w.createInput("dev")); err != nil {
		t.Fatal(err)
	}
	w.ec2.mu.Lock()
	w.ec2.subnetErr = awserr.New("InvalidSubnetID.NotFound", "The subnet ID 'subnet-a' does not exist")
	w.ec2.mu.Unlock()
	c := w.waitCluster("dev", ekstypes.ClusterStatusFailed)
	if i := c.Health.Issues[0]; i.Code != ekstypes.ClusterIssueCodeEc2SubnetNotFound || *i.Message != "The subnet ID 'subnet-a' does not exist" {
		t.Errorf("health issue = %+v", i)
	}
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	w.nothingLeft()
}

func TestDescribeOfNothing(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("nope")})
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: nope.")
	_, err = w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("nope")})
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: nope.")
}

func TestListClustersPages(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"a", "b", "c"} {
		if _, err := w.client.CreateCluster(t.Context(), w.createInput(n)); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]string
	p := awseks.NewListClustersPaginator(w.client, &awseks.ListClustersInput{MaxResults: aws.Int32(2)})
	for p.HasMorePages() {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, out.Clusters)
	}
	if diff := cmp.Diff([][]string{{"a", "b"}, {"c"}}, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// The dates are those of EKS's release calendar, and the status follows from them.
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html#kubernetes-release-calendar
func TestDescribeClusterVersions(t *testing.T) {
	type version struct{ Released, Standard, Extended, Status string }
	day := func(s string) time.Time { return testkit.Must(time.Parse(time.DateOnly, s))(t) }
	for _, tt := range []struct {
		now      time.Time
		extended []string
	}{
		{day("2026-07-29").Add(-time.Second), nil},
		{day("2026-07-29"), []string{"1.33"}}, // extended support begins with the day
		{day("2026-12-03"), []string{"1.34", "1.33"}},
	} {
		t.Run(tt.now.Format(time.RFC3339), func(t *testing.T) {
			w := newWorld(t, withClock)
			w.fake.SetTime(tt.now)
			want := map[string]version{
				"1.36": {"2026-06-02", "2027-08-02", "2028-08-02", "STANDARD_SUPPORT"},
				"1.35": {"2026-01-27", "2027-03-27", "2028-03-27", "STANDARD_SUPPORT"},
				"1.34": {"2025-10-02", "2026-12-02", "2027-12-02", "STANDARD_SUPPORT"},
				"1.33": {"2025-05-29", "2026-07-29", "2027-07-29", "STANDARD_SUPPORT"},
			}
			for _, v := range tt.extended {
				of := want[v]
				of.Status = "EXTENDED_SUPPORT"
				want[v] = of
			}
			out, err := w.client.DescribeClusterVersions(t.Context(), &awseks.DescribeClusterVersionsInput{})
			if err != nil {
				t.Fatal(err)
			}
			var order []string
			got := map[string]version{}
			for _, v := range out.ClusterVersions {
				order = append(order, *v.ClusterVersion)
				got[*v.ClusterVersion] = version{v.ReleaseDate.Format(time.DateOnly), v.EndOfStandardSupportDate.Format(time.DateOnly), v.EndOfExtendedSupportDate.Format(time.DateOnly), string(v.VersionStatus)}
				for _, at := range []*time.Time{v.ReleaseDate, v.EndOfStandardSupportDate, v.EndOfExtendedSupportDate} {
					if !at.Equal(at.Truncate(24 * time.Hour)) { // the calendar is in UTC
						t.Errorf("%s has a date at %s", *v.ClusterVersion, at)
					}
				}
				if want := strings.ReplaceAll(strings.ToLower(string(v.VersionStatus)), "_", "-"); string(v.Status) != want {
					t.Errorf("%s has the status %s, want %s", *v.ClusterVersion, v.Status, want)
				}
				if v.DefaultVersion != (*v.ClusterVersion == "1.36") || *v.ClusterType != "eks" {
					t.Errorf("%s: default %t, type %s", *v.ClusterVersion, v.DefaultVersion, *v.ClusterType)
				}
			}
			if diff := cmp.Diff([]string{"1.36", "1.35", "1.34", "1.33"}, order); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("dates and status (-want +got):\n%s", diff)
			}
			list, err := w.client.DescribeClusterVersions(t.Context(), &awseks.DescribeClusterVersionsInput{VersionStatus: ekstypes.VersionStatusExtendedSupport})
			if err != nil {
				t.Fatal(err)
			}
			var extended []string
			for _, v := range list.ClusterVersions {
				extended = append(extended, *v.ClusterVersion)
			}
			if diff := cmp.Diff(tt.extended, extended); diff != "" {
				t.Errorf("in extended support (-want +got):\n%s", diff)
			}
		})
	}
}

// A control plane's certificate authority expires after ten years. DescribeCluster shows the
// current one.
func TestDescribeClusterShowsARenewedAuthority(t *testing.T) {
	w := newWorld(t)
	old := w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 1)
	w.planes.renew("renewed")
	w.restart()
	w.eventually(func() error {
		out, err := w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("dev")})
		if err != nil {
			return err
		}
		if ca := *out.Cluster.CertificateAuthority.Data; ca != base64.StdEncoding.EncodeToString([]byte("renewed")) {
			return fmt.Errorf("the authority is %s, was %s", ca, *old.CertificateAuthority.Data)
		}
		return nil
	})
}

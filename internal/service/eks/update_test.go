package eks_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
)

func (w *world) update(in *awseks.UpdateClusterConfigInput) (*ekstypes.Update, error) {
	in.Name = aws.String("dev")
	out, err := w.client.UpdateClusterConfig(w.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.Update, nil
}

func (w *world) mustUpdate(in *awseks.UpdateClusterConfigInput) *ekstypes.Update {
	w.Helper()
	up, err := w.update(in)
	if err != nil {
		w.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	out, err := w.client.DescribeUpdate(w.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: up.Id})
	if err != nil {
		w.Fatal(err)
	}
	if out.Update.Status != ekstypes.UpdateStatusSuccessful {
		w.Errorf("update %s is %s: %v", out.Update.Type, out.Update.Status, out.Update.Errors)
	}
	return out.Update
}

func mode(m ekstypes.AuthenticationMode) *awseks.UpdateClusterConfigInput {
	return &awseks.UpdateClusterConfigInput{AccessConfig: &ekstypes.UpdateAccessConfigRequest{AuthenticationMode: m}}
}

func TestAuthenticationModeGoesOneWay(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	_, err := w.update(mode(ekstypes.AuthenticationModeApi))
	wantError(t, err, "InvalidParameterException", "Unsupported authentication mode update from CONFIG_MAP to API")

	up := w.mustUpdate(mode(ekstypes.AuthenticationModeApiAndConfigMap))
	if up.Type != ekstypes.UpdateTypeAccessConfigUpdate {
		t.Errorf("type = %s", up.Type)
	}
	out, err := w.client.ListAccessEntries(t.Context(), &awseks.ListAccessEntriesInput{ClusterName: aws.String("dev")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{w.arn("role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"), w.arn("root")}
	if diff := cmp.Diff(want, out.AccessEntries); diff != "" {
		t.Errorf("entries after the change (-want +got):\n%s", diff)
	}
	w.mustUpdate(mode(ekstypes.AuthenticationModeApi))
	_, err = w.update(mode(ekstypes.AuthenticationModeApiAndConfigMap))
	wantError(t, err, "InvalidParameterException", "Unsupported authentication mode update from API to API_AND_CONFIG_MAP")
}

func TestEndpointAccessUpdate(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	access := func(public, private *bool, cidrs ...string) *awseks.UpdateClusterConfigInput {
		return &awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{EndpointPublicAccess: public, EndpointPrivateAccess: private, PublicAccessCidrs: cidrs}}
	}
	_, err := w.update(access(aws.Bool(true), nil))
	wantError(t, err, "InvalidParameterException", "Cluster is already at the desired configuration with endpointPrivateAccess: false , endpointPublicAccess: true, and Public Endpoint Restrictions: [0.0.0.0/0]")
	_, err = w.update(access(aws.Bool(false), nil))
	wantError(t, err, "InvalidParameterException", "Private and public endpoint access cannot be false")

	w.mustUpdate(access(aws.Bool(false), aws.Bool(true)))
	plane, _ := w.planes.only()
	if got := w.planes.access[plane.ID]; got != "false [] true" {
		t.Errorf("endpoint access = %s", got)
	}
	w.mustUpdate(access(nil, nil, "0.0.0.0/0")) // has no effect, but is stored
	if got := w.planes.access[plane.ID]; got != "false [0.0.0.0/0] true" {
		t.Errorf("endpoint access = %s", got)
	}
	up := w.mustUpdate(access(aws.Bool(true), nil, "198.51.100.0/24"))
	var params []string
	for _, p := range up.Params {
		params = append(params, string(p.Type)+"="+*p.Value)
	}
	if diff := cmp.Diff([]string{"EndpointPublicAccess=true", "EndpointPrivateAccess=true", `PublicAccessCidrs=["198.51.100.0/24"]`}, params); diff != "" {
		t.Errorf("params (-want +got):\n%s", diff)
	}
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if v := c.ResourcesVpcConfig; !v.EndpointPublicAccess || !v.EndpointPrivateAccess || v.PublicAccessCidrs[0] != "198.51.100.0/24" {
		t.Errorf("cluster = %+v", v)
	}
	list, err := w.client.ListUpdates(t.Context(), &awseks.ListUpdatesInput{Name: aws.String("dev")})
	if err != nil || len(list.UpdateIds) != 3 {
		t.Errorf("ListUpdates = %v, %v", list, err)
	}
}

func TestSubnetsAndSecurityGroupsUpdate(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.mustUpdate(&awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{"subnet-a2", "subnet-b"}, SecurityGroupIds: []string{"sg-1"}}})
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	got := map[string]int{}
	for _, i := range w.ec2.interfaces {
		got[*i.SubnetId] = len(i.Groups)
	}
	if diff := cmp.Diff(map[string]int{"subnet-a2": 2, "subnet-b": 2}, got); diff != "" {
		t.Errorf("interfaces' groups by subnet (-want +got):\n%s", diff)
	}
}

func TestOneUpdateAtATime(t *testing.T) {
	w := newWorld(t, func(w *world) { w.timing.ClusterUpdating = time.Hour })
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	up, err := w.update(mode(ekstypes.AuthenticationModeApiAndConfigMap))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.update(&awseks.UpdateClusterConfigInput{DeletionProtection: aws.Bool(true)})
	wantError(t, err, "ResourceInUseException", "Cannot DeletionProtectionUpdate because cluster dev currently has update "+*up.Id+" in progress")
	_, err = w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")})
	wantError(t, err, "ResourceInUseException", "Cannot DeleteCluster because cluster dev currently has update "+*up.Id+" in progress")
	_, err = w.update(&awseks.UpdateClusterConfigInput{DeletionProtection: aws.Bool(true), UpgradePolicy: &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeStandard}})
	wantError(t, err, "InvalidParameterException", "Only one type of update can be allowed.")
}

func TestDeletionProtection(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.mustUpdate(&awseks.UpdateClusterConfigInput{DeletionProtection: aws.Bool(true)})
	_, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")})
	wantError(t, err, "InvalidRequestException", "Cluster dev has deletion protection enabled. Disable deletion protection before deleting the cluster.")
}

func TestSettingsThatAreStored(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	up := w.mustUpdate(&awseks.UpdateClusterConfigInput{ZonalShiftConfig: &ekstypes.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}})
	if up.Type != ekstypes.UpdateTypeZonalShiftConfigUpdate || *up.Params[0].Value != `{"enabled":true}` {
		t.Errorf("%+v", up)
	}
	up = w.mustUpdate(&awseks.UpdateClusterConfigInput{ControlPlaneScalingConfig: &ekstypes.ControlPlaneScalingConfig{Tier: ekstypes.ProvisionedControlPlaneTierTierXl}})
	if up.Type != ekstypes.UpdateTypeControlPlaneScalingConfigUpdate || *up.Params[0].Value != "standard" || *up.Params[1].Value != "tier-xl" {
		t.Errorf("%+v", up)
	}
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); !*c.ZonalShiftConfig.Enabled || c.ControlPlaneScalingConfig.Tier != "tier-xl" {
		t.Errorf("%+v %+v", c.ZonalShiftConfig, c.ControlPlaneScalingConfig)
	}
	_, err := w.update(&awseks.UpdateClusterConfigInput{ControlPlaneScalingConfig: &ekstypes.ControlPlaneScalingConfig{Tier: "tier-9xl"}})
	wantError(t, err, "InvalidParameterException", "")
}

func remote(nodes, pods []string) *ekstypes.RemoteNetworkConfigRequest {
	out := &ekstypes.RemoteNetworkConfigRequest{RemoteNodeNetworks: []ekstypes.RemoteNodeNetwork{}, RemotePodNetworks: []ekstypes.RemotePodNetwork{}}
	if nodes != nil {
		out.RemoteNodeNetworks = append(out.RemoteNodeNetworks, ekstypes.RemoteNodeNetwork{Cidrs: nodes})
	}
	if pods != nil {
		out.RemotePodNetworks = append(out.RemotePodNetworks, ekstypes.RemotePodNetwork{Cidrs: pods})
	}
	return out
}

func TestRemoteNetworks(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("dev")
	in.RemoteNetworkConfig = remote([]string{"192.168.0.0/24"}, nil)
	_, err := w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "InvalidParameterException", "AccessConfig AuthMode must be API_AND_CONFIG_MAP or API when remoteNetworkConfig is specified")
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	for _, c := range []struct {
		nodes, pods []string
		want        string
	}{
		{[]string{"172.31.0.0/20"}, nil, "Invalid remote node network: CIDR 172.31.0.0/20 overlaps with VPC CIDR 172.31.0.0/16"},
		{[]string{"10.0.0.0/8"}, nil, "Invalid remote node network: CIDR 10.0.0.0/8 overlaps with service CIDR 10.100.0.0/16"},
		{[]string{"192.168.0.0/24"}, []string{"192.168.0.0/25"}, "Invalid remote pod network: CIDR 192.168.0.0/25 overlaps with already existing CIDR 192.168.0.0/24"},
		{[]string{"8.8.8.0/24"}, nil, "Invalid remote node network: CIDR 8.8.8.0/24 is not part of RFC 1918 or CGNAT"},
		{[]string{"100.64.0.0/9"}, nil, "Invalid remote node network: CIDR 100.64.0.0/9 is not part of RFC 1918 or CGNAT"},
		{nil, []string{"192.168.0.0/24"}, "remoteNodeNetworks are required when specifying remoteNetworkConfig."},
		{nil, nil, "No changes detected"},
	} {
		_, err := w.update(&awseks.UpdateClusterConfigInput{RemoteNetworkConfig: remote(c.nodes, c.pods)})
		wantError(t, err, "InvalidParameterException", c.want)
	}
	both := remote([]string{"192.168.0.0/24"}, []string{"100.64.0.0/10"})
	up := w.mustUpdate(&awseks.UpdateClusterConfigInput{RemoteNetworkConfig: both})
	if up.Type != ekstypes.UpdateTypeRemoteNetworkConfigUpdate ||
		*up.Params[0].Value != `{"remoteNodeNetworks":[{"cidrs":["192.168.0.0/24"]}],"remotePodNetworks":[{"cidrs":["100.64.0.0/10"]}]}` {
		t.Errorf("%+v", up)
	}
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	want := &ekstypes.RemoteNetworkConfigResponse{RemoteNodeNetworks: both.RemoteNodeNetworks, RemotePodNetworks: both.RemotePodNetworks}
	if diff := cmp.Diff(want, c.RemoteNetworkConfig, cmpopts.IgnoreUnexported(ekstypes.RemoteNetworkConfigResponse{}, ekstypes.RemoteNodeNetwork{}, ekstypes.RemotePodNetwork{})); diff != "" {
		t.Errorf("remote networks (-want +got):\n%s", diff)
	}
	_, err = w.update(&awseks.UpdateClusterConfigInput{RemoteNetworkConfig: both})
	wantError(t, err, "InvalidParameterException", "No changes detected")
	w.mustUpdate(&awseks.UpdateClusterConfigInput{RemoteNetworkConfig: remote(nil, nil)})
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); c.RemoteNetworkConfig != nil {
		t.Errorf("%+v", c.RemoteNetworkConfig)
	}
}

func TestAutoModeIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	change := func(compute, storage, balancing bool) *awseks.UpdateClusterConfigInput {
		return &awseks.UpdateClusterConfigInput{
			ComputeConfig:           &ekstypes.ComputeConfigRequest{Enabled: &compute},
			StorageConfig:           &ekstypes.StorageConfigRequest{BlockStorage: &ekstypes.BlockStorage{Enabled: &storage}},
			KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: &balancing}},
		}
	}
	const partly = "For EKS Auto Mode, please ensure that all required configs, including computeConfig, kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled."
	_, err := w.update(change(true, false, true))
	wantError(t, err, "InvalidParameterException", partly)
	_, err = w.update(&awseks.UpdateClusterConfigInput{ComputeConfig: &ekstypes.ComputeConfigRequest{Enabled: aws.Bool(true)}})
	wantError(t, err, "InvalidParameterException", partly)
	_, err = w.update(&awseks.UpdateClusterConfigInput{ComputeConfig: &ekstypes.ComputeConfigRequest{NodeRoleArn: aws.String(w.arn("role/node"))}})
	wantError(t, err, "InvalidParameterException", "When Compute Config nodeRoleArn is not null or empty, nodePool value(s) must be provided.")
	auto := change(true, true, true)
	auto.ComputeConfig.NodePools = []string{"general-purpose", "gpu"}
	auto.ComputeConfig.NodeRoleArn = aws.String(w.arn("role/node"))
	_, err = w.update(auto)
	wantError(t, err, "InvalidParameterException", "Invalid node pool: gpu. Valid values are general-purpose, system.")
	auto.ComputeConfig.NodePools, auto.ComputeConfig.NodeRoleArn = []string{"general-purpose"}, aws.String(w.arn("role/cluster"))
	_, err = w.update(auto)
	wantError(t, err, "InvalidParameterException", "The role "+w.arn("role/cluster")+" does not exist or does not allow ec2.amazonaws.com to assume it.")
	_, err = w.update(&awseks.UpdateClusterConfigInput{KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{IpFamily: ekstypes.IpFamilyIpv6}})
	wantError(t, err, "InvalidParameterException", "The serviceIpv4Cidr and the ipFamily of a cluster cannot be updated.")
	if up := w.mustUpdate(change(false, false, false)); up.Type != ekstypes.UpdateTypeAutoModeUpdate || len(up.Params) != 3 {
		t.Errorf("%+v", up)
	}
}

// TestExtendedSupportCannotBeLeft: standard support is refused once a version is in extended support.
func TestExtendedSupportCannotBeLeft(t *testing.T) {
	v, _ := eksversions.Lookup(eksversions.Default)
	w := newWorld(t, withClock, func(w *world) { w.fake.SetTime(v.EndOfStandardSupport.Add(time.Hour)) })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	_, err := w.update(&awseks.UpdateClusterConfigInput{UpgradePolicy: &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeStandard}})
	wantError(t, err, "InvalidParameterException", "Kubernetes version "+eksversions.Default+" is in extended support. The support type cannot be STANDARD")
}

func TestTags(t *testing.T) {
	w := newWorld(t)
	c := w.cluster("dev", ekstypes.AuthenticationModeApi)
	entry, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/path/dev"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 0)); err != nil {
		t.Fatal(err)
	}
	ng := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	for _, arn := range []*string{c.Arn, entry.AccessEntry.AccessEntryArn, ng.NodegroupArn} {
		t.Run(*arn, func(t *testing.T) {
			if _, err := w.client.TagResource(t.Context(), &awseks.TagResourceInput{ResourceArn: arn, Tags: map[string]string{"a": "1", "b": "2"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.client.UntagResource(t.Context(), &awseks.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a"}}); err != nil {
				t.Fatal(err)
			}
			out, err := w.client.ListTagsForResource(t.Context(), &awseks.ListTagsForResourceInput{ResourceArn: arn})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"b": "2"}, out.Tags); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
		})
	}
	_, err = w.client.ListTagsForResource(t.Context(), &awseks.ListTagsForResourceInput{ResourceArn: aws.String(*c.Arn + "x")})
	wantError(t, err, "NotFoundException", "The specified resource could not be found: "+*c.Arn+"x")
	_, err = w.client.ListTagsForResource(t.Context(), &awseks.ListTagsForResourceInput{ResourceArn: aws.String("nonsense")})
	wantError(t, err, "BadRequestException", "Invalid resource ARN: nonsense")
}

// Members of the SDK that Drydock's model does not have are refused, also below members that are handled.
func TestNewerMembersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	for name, in := range map[string]awseks.UpdateClusterConfigInput{
		"controller manager": {KubeControllerManagerConfig: &ekstypes.KubeControllerManagerConfigRequest{PodGcControllerConfig: &ekstypes.PodGcControllerConfigRequest{TerminatedPodGcThreshold: aws.Int32(10)}}},
		"egress":             {ResourcesVpcConfig: &ekstypes.VpcConfigRequest{ControlPlaneEgressMode: ekstypes.ControlPlaneEgressModeTypeCustomerRouted}},
		"gateway API":        {KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{GatewayApi: &ekstypes.GatewayApiConfiguration{Crds: &ekstypes.CrdManagementConfiguration{Managed: aws.Bool(true)}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			in.Name = aws.String("dev")
			_, err := w.client.UpdateClusterConfig(t.Context(), &in)
			wantError(t, err, "NotImplemented", "")
		})
	}
}

func TestAClusterWithoutCapabilities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	out, err := w.client.ListCapabilities(t.Context(), &awseks.ListCapabilitiesInput{ClusterName: aws.String("dev")})
	if err != nil || out.Capabilities == nil || len(out.Capabilities) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = w.client.ListCapabilities(t.Context(), &awseks.ListCapabilitiesInput{ClusterName: aws.String("none")})
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: none.")
	_, err = w.client.ListUpdates(t.Context(), &awseks.ListUpdatesInput{Name: aws.String("dev"), CapabilityName: aws.String("argo")})
	wantError(t, err, "ResourceNotFoundException", "No capability found for name: argo.")
}

// AWS_MANAGED is the default of controlPlaneEgressMode, and the only value here.
func TestControlPlaneEgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	c := w.cluster("dev", ekstypes.AuthenticationModeApi)
	if mode := c.ResourcesVpcConfig.ControlPlaneEgressMode; mode != ekstypes.ControlPlaneEgressModeTypeAwsManaged {
		t.Errorf("egress mode %q", mode)
	}
	in := &awseks.CreateClusterInput{
		Name: aws.String("other"), RoleArn: c.RoleArn,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: c.ResourcesVpcConfig.SubnetIds, ControlPlaneEgressMode: ekstypes.ControlPlaneEgressModeTypeAwsManaged},
	}
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Error(err)
	}
	in.Name, in.ResourcesVpcConfig.ControlPlaneEgressMode = aws.String("third"), ekstypes.ControlPlaneEgressModeTypeCustomerIsolated
	_, err := w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "NotImplemented", "")
	_, err = w.client.UpdateClusterConfig(t.Context(), &awseks.UpdateClusterConfigInput{Name: c.Name, ResourcesVpcConfig: &ekstypes.VpcConfigRequest{
		ControlPlaneEgressMode: ekstypes.ControlPlaneEgressModeTypeAwsManaged, EndpointPrivateAccess: aws.Bool(!c.ResourcesVpcConfig.EndpointPrivateAccess),
	}})
	if err != nil {
		t.Error(err)
	}
}

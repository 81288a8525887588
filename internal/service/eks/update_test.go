package eks_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
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

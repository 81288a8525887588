package eks_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/automode"
)

// fakeAutoNodes is EC2 and IAM for the nodes of EKS Auto Mode. It has no capacity.
type fakeAutoNodes struct {
	*fakeEC2
	*fakeIAM
	tags map[string]string // of the last session of the cluster role
	deny error             // of AsClusterRole
}

func (f *fakeAutoNodes) CreateFleet(context.Context, *awsec2.CreateFleetInput) (*awsec2.CreateFleetOutput, error) {
	return nil, errors.New("UnauthorizedOperation: You are not authorized to perform this operation.")
}

func (f *fakeAutoNodes) TerminateInstances(context.Context, *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error) {
	return &awsec2.TerminateInstancesOutput{}, nil
}

func (f *fakeAutoNodes) CreateLaunchTemplate(ctx context.Context, in *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error) {
	return f.fakeEC2.CreateLaunchTemplate(ctx, in)
}

func (f *fakeAutoNodes) AddRoleToInstanceProfile(ctx context.Context, in *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error) {
	return f.fakeIAM.AddRoleToInstanceProfile(ctx, in)
}

func (f *fakeAutoNodes) AsClusterRole(ctx context.Context, _, _, _ string, tags map[string]string) (context.Context, error) {
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

package eks_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/userdata"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// machines lets real EC2 instances join the fake control plane by their user data.
type machines struct {
	t      *testing.T
	planes *fakePlanes
}

func (m machines) Start(_ context.Context, in machine.Instance) error {
	_, cs := m.planes.only()
	cfg, err := userdata.Parse(images.AL2023, in.UserData)
	if err != nil {
		m.t.Errorf("user data of %s: %v", in.ID, err)
		return nil
	}
	if !strings.HasSuffix(in.RoleARN, ":role/node") || cfg.ClusterName != "dev" {
		m.t.Errorf("instance %s has role %q and is for cluster %q", in.ID, in.RoleARN, cfg.ClusterName)
	}
	err = join(cs, ec2types.Instance{InstanceId: &in.ID, PrivateDnsName: &in.PrivateDNSName}, "")
	if err != nil && !strings.Contains(err.Error(), "exists") {
		return err
	}
	return nil
}

func (machines) Stop(context.Context, string, string, string) error { return nil }

func (machines) ReplaceDisk(string, string) error { return nil }

func (machines) Machine(string) (machine.Machine, bool) { return nil, false }

type profiles struct{ iam *iam.Service }

func (p profiles) InstanceProfile(ctx context.Context, account, name string) (ec2.Profile, bool, error) {
	got, role, err := p.iam.InstanceProfileRole(ctx, account, name)
	if errors.Is(err, iam.ErrNoSuchInstanceProfile) {
		return ec2.Profile{}, false, nil
	}
	return ec2.Profile{ARN: got.ARN, ID: got.ID, RoleARN: role.ARN}, err == nil, err
}

// With Drydock's real EC2 and IAM, to check that they do what EKS asks of them.
func TestWithTheRealNeighbours(t *testing.T) {
	quiet := testkit.Log(t)
	planes := newPlanes(&faults{})
	var network *ec2.Service
	var service *eks.Service
	var scaling *autoscaling.Service
	mayMakeRoles := false
	srv := testkit.NewServer(t, testkit.Config{AuthorizeInput: func(_ context.Context, call *awsapi.Call, _ any) error {
		if call.Operation == "CreateServiceLinkedRole" && call.By() == "eks.amazonaws.com" && !mayMakeRoles {
			return authz.Denied(call, policy.Decision{})
		}
		return nil
	}, Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		identities := iam.New(iam.Config{Store: st, Log: quiet})
		network = ec2.New(ec2.Config{Store: st, Timing: clock.Fast(), Profiles: profiles{identities}, Log: quiet})
		scaling = autoscaling.New(autoscaling.Config{Store: st, EC2: network, Instances: network, Log: quiet})
		var err error
		service, err = eks.New(eks.Config{
			Store: st, ControlPlanes: planes, InstanceProfiles: identities, Network: network, Instances: network, AutoScaling: scaling,
			Identity: func(ctx context.Context, arn string) (eks.Identity, error) {
				role, err := identities.RoleByARN(ctx, arn)
				if err != nil {
					return eks.Identity{}, eks.ErrNoIdentity
				}
				id := eks.Identity{ARN: arn, ID: role.ID}
				for _, s := range []string{"eks.amazonaws.com", "ec2.amazonaws.com"} {
					if identities.TrustsService(role, s) {
						id.TrustedServices = append(id.TrustedServices, s)
					}
				}
				return id, nil
			},
			VerifyPresigned: func(context.Context, *http.Request) (awsapi.Principal, error) {
				return awsapi.Principal{}, errors.New("no")
			},
			Logs:              awscall.Logs{API: front},
			EnsureServiceRole: awscall.IAM{API: front}.EnsureServiceRole,
			OwnHost:           func(string) bool { return false }, NewClient: planes.client, NewObjects: planes.objects, Timing: clock.Fast(), Log: quiet,
		})
		if err != nil {
			t.Fatal(err)
		}
		identities.Register(service.Module(nil).RoleUsage...)
		return []awsapi.Service{identities.AWS(), network.AWS(), service.AWS()}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 3)
	go func() { done <- service.Run(ctx) }()
	go func() { done <- network.RunOn(ctx, machines{t, planes}) }()
	go func() { done <- scaling.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	})
	account := srv.Account(t)
	cfg := srv.AWSConfig(account)
	w := &world{TB: t, planes: planes, account: account, client: awseks.NewFromConfig(cfg)}
	ec2Client, iamClient := awsec2.NewFromConfig(cfg), awsiam.NewFromConfig(cfg)
	for role, service := range map[string]string{"cluster": "eks", "node": "ec2"} {
		if _, err := iamClient.CreateRole(t.Context(), &awsiam.CreateRoleInput{RoleName: &role, AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	sn, err := ec2Client.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	var subnets []string
	for _, s := range sn.Subnets {
		subnets = append(subnets, *s.SubnetId)
	}
	in := w.createInput("dev")
	in.ResourcesVpcConfig.SubnetIds = subnets
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi}
	_, err = w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "InvalidRequestException", "Failed to create service linked role: AWSServiceRoleForAmazonEKS due to missing permissions for 'iam:CreateServiceLinkedRole'")
	mayMakeRoles = true
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	interfaces := func() []ec2types.NetworkInterface {
		t.Helper()
		out, err := ec2Client.DescribeNetworkInterfaces(t.Context(), &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
			{Name: aws.String("description"), Values: []string{"Amazon EKS dev"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return out.NetworkInterfaces
	}
	for _, i := range interfaces() {
		if !*i.RequesterManaged || *i.Groups[0].GroupId != *c.ResourcesVpcConfig.ClusterSecurityGroupId {
			t.Errorf("interface = %+v", i)
		}
	}
	if n := len(interfaces()); n != 3 {
		t.Errorf("%d control plane interfaces, want 3", n)
	}
	ng := w.nodegroupInput("dev", "ng", 3)
	ng.Subnets = subnets
	if _, err := w.client.CreateNodegroup(t.Context(), ng); err != nil {
		t.Fatal(err)
	}
	g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	out, err := ec2Client.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:eks:nodegroup-name"), Values: []string{"ng"}}, {Name: aws.String("tag:aws:autoscaling:groupName"), Values: []string{*g.Resources.AutoScalingGroups[0].Name}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range out.Reservations {
		n += len(r.Instances)
	}
	if n != 3 {
		t.Errorf("%d instances, want 3", n)
	}
	// The roles that EKS has made are there as long as EKS needs them.
	roles, err := iamClient.ListRoles(t.Context(), &awsiam.ListRolesInput{PathPrefix: aws.String("/aws-service-role/eks")})
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, r := range roles.Roles {
		attached := testkit.Must(iamClient.ListAttachedRolePolicies(t.Context(), &awsiam.ListAttachedRolePoliciesInput{RoleName: r.RoleName}))(t).AttachedPolicies
		trust, err := url.QueryUnescape(*r.AssumeRolePolicyDocument)
		if service := strings.Split(*r.Path, "/")[2]; err != nil || !strings.Contains(trust, `"Principal":{"Service":"`+service+`"}`) {
			t.Errorf("%s trusts %s, %v", *r.RoleName, trust, err)
		}
		made = append(made, *r.Path+*r.RoleName+" "+*r.Description+" "+*attached[0].PolicyName)
	}
	if diff := cmp.Diff([]string{
		"/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS Allows Amazon EKS to call AWS services on your behalf. AmazonEKSServiceRolePolicy",
		"/aws-service-role/eks-nodegroup.amazonaws.com/AWSServiceRoleForAmazonEKSNodegroup This policy allows Amazon EKS to create and manage Nodegroups AWSServiceRoleForAmazonEKSNodegroup",
	}, made, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("service-linked roles (-want +got):\n%s", diff)
	}
	deleted := func(role string) iamtypes.DeletionTaskStatusType {
		task := testkit.Must(iamClient.DeleteServiceLinkedRole(t.Context(), &awsiam.DeleteServiceLinkedRoleInput{RoleName: &role}))(t).DeletionTaskId
		return testkit.Must(iamClient.GetServiceLinkedRoleDeletionStatus(t.Context(), &awsiam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: task}))(t).Status
	}
	if got := deleted("AWSServiceRoleForAmazonEKSNodegroup"); got != iamtypes.DeletionTaskStatusTypeFailed {
		t.Errorf("the role of a node group: %s", got)
	}
	w.deleteNodegroup("dev", "ng")
	if got := deleted("AWSServiceRoleForAmazonEKSNodegroup"); got != iamtypes.DeletionTaskStatusTypeSucceeded {
		t.Errorf("the role of no node group: %s", got)
	}
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	if left := interfaces(); len(left) > 0 {
		t.Errorf("interfaces are left: %v", left)
	}
	groups, err := ec2Client.DescribeSecurityGroups(t.Context(), &awsec2.DescribeSecurityGroupsInput{})
	if err != nil || len(groups.SecurityGroups) != 1 {
		t.Errorf("security groups left = %v, %v", groups, err)
	}
	templates, err := ec2Client.DescribeLaunchTemplates(t.Context(), &awsec2.DescribeLaunchTemplatesInput{})
	if err != nil || len(templates.LaunchTemplates) != 0 {
		t.Errorf("launch templates left = %v, %v", templates, err)
	}
	ips, err := iamClient.ListInstanceProfiles(t.Context(), &awsiam.ListInstanceProfilesInput{})
	if err != nil || len(ips.InstanceProfiles) != 0 {
		t.Errorf("instance profiles left = %v, %v", ips, err)
	}
}

package server_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// toys are the handlers of these tests: one service per protocol, as small as possible.
type toys struct {
	mu   sync.Mutex
	call awsapi.Call // of the last request

	describeCluster func(ctx context.Context) (*awseks.DescribeClusterOutput, error)
}

func (y *toys) note(ctx context.Context) *awsapi.Call {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.call = *awsapi.CallFrom(ctx)
	return &y.call
}

func (y *toys) last() awsapi.Call {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.call
}

func (y *toys) services(*store.Store) []awsapi.Service {
	return []awsapi.Service{
		{Name: "sts", Handler: toySTS{y}, Operations: []awsapi.Operation{
			{Name: "GetCallerIdentity", Exempt: true},
			{Name: "AssumeRoleWithWebIdentity", Unsigned: true, Members: "RoleArn RoleSessionName WebIdentityToken"},
		}},
		{Name: "iam", Handler: toyIAM{y}, Operations: []awsapi.Operation{
			{Name: "GetUser", Members: "UserName"},
			{Name: "CreateRole", Members: "*"},
		}},
		{Name: "ec2", Handler: toyEC2{y}, Operations: []awsapi.Operation{
			{Name: "DescribeVpcs", Members: "VpcIds Filters"},
			{Name: "RunInstances", Members: "ImageId MinCount MaxCount TagSpecifications ClientToken"},
		}},
		{Name: "ssm", Handler: toySSM{y}, Operations: []awsapi.Operation{{Name: "GetParameter", Members: "Name"}}},
		{Name: "eks", Handler: toyEKS{y}, Operations: []awsapi.Operation{
			{Name: "DescribeCluster", Members: "name", Settled: awsapi.SettledWhen(func(out *awseks.DescribeClusterOutput) bool {
				return out.Cluster.Status == ekstypes.ClusterStatusActive
			})},
			{Name: "CreateCluster", Members: "name roleArn resourcesVpcConfig.subnetIds clientRequestToken"},
			{Name: "DescribeAccessEntry", Members: "clusterName principalArn"},
			{Name: "ListClusters"},
		}},
	}
}

type toySTS struct{ *toys }

func (y toySTS) GetCallerIdentity(ctx context.Context, _ *awssts.GetCallerIdentityInput) (*awssts.GetCallerIdentityOutput, error) {
	p := y.note(ctx).Principal
	return &awssts.GetCallerIdentityOutput{Account: &p.Account, Arn: &p.ARN, UserId: &p.UserID}, nil
}

func (y toySTS) AssumeRoleWithWebIdentity(ctx context.Context, in *awssts.AssumeRoleWithWebIdentityInput) (*awssts.AssumeRoleWithWebIdentityOutput, error) {
	y.note(ctx)
	if *in.WebIdentityToken == "a.bad" {
		return nil, &ststypes.InvalidIdentityTokenException{Message: aws.String("bad token")}
	}
	return &awssts.AssumeRoleWithWebIdentityOutput{SubjectFromWebIdentityToken: in.WebIdentityToken}, nil
}

type toyIAM struct{ *toys }

func (y toyIAM) GetUser(ctx context.Context, in *awsiam.GetUserInput) (*awsiam.GetUserOutput, error) {
	y.note(ctx)
	if in.UserName == nil {
		return nil, errors.New("who?") // not an AWS error: a bug
	}
	return nil, &iamtypes.NoSuchEntityException{Message: aws.String("The user with name " + *in.UserName + " cannot be found.")}
}

func (y toyIAM) CreateRole(ctx context.Context, in *awsiam.CreateRoleInput) (*awsiam.CreateRoleOutput, error) {
	y.note(ctx)
	return &awsiam.CreateRoleOutput{Role: &iamtypes.Role{RoleName: in.RoleName, AssumeRolePolicyDocument: in.AssumeRolePolicyDocument}}, nil
}

type toyEC2 struct{ *toys }

func (y toyEC2) DescribeVpcs(ctx context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	y.note(ctx)
	if len(in.VpcIds) > 0 {
		return nil, awserr.Newf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", in.VpcIds[0])
	}
	return &awsec2.DescribeVpcsOutput{Vpcs: []ec2types.Vpc{{VpcId: aws.String("vpc-1"), OwnerId: &y.call.Account}}}, nil
}

func (y toyEC2) RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	y.note(ctx)
	if aws.ToString(in.ImageId) == "panic" {
		panic("out of cheese")
	}
	return &awsec2.RunInstancesOutput{ReservationId: aws.String("r-1")}, nil
}

type toySSM struct{ *toys }

func (y toySSM) GetParameter(ctx context.Context, in *awsssm.GetParameterInput) (*awsssm.GetParameterOutput, error) {
	y.note(ctx)
	return nil, awserr.Newf("ParameterNotFound", "")
}

type toyEKS struct{ *toys }

func (y toyEKS) DescribeCluster(ctx context.Context, in *awseks.DescribeClusterInput) (*awseks.DescribeClusterOutput, error) {
	y.note(ctx)
	if y.describeCluster != nil {
		return y.describeCluster(ctx)
	}
	return nil, &ekstypes.ResourceNotFoundException{Message: aws.String("No cluster found for name: " + *in.Name + "."), ClusterName: in.Name}
}

func (y toyEKS) CreateCluster(ctx context.Context, in *awseks.CreateClusterInput) (*awseks.CreateClusterOutput, error) {
	y.note(ctx)
	return &awseks.CreateClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name, Status: ekstypes.ClusterStatusCreating}}, nil
}

func (y toyEKS) DescribeAccessEntry(ctx context.Context, in *awseks.DescribeAccessEntryInput) (*awseks.DescribeAccessEntryOutput, error) {
	y.note(ctx)
	return &awseks.DescribeAccessEntryOutput{AccessEntry: &ekstypes.AccessEntry{PrincipalArn: in.PrincipalArn}}, nil
}

func (y toyEKS) ListClusters(ctx context.Context, _ *awseks.ListClustersInput) (*awseks.ListClustersOutput, error) {
	y.note(ctx)
	return &awseks.ListClustersOutput{Clusters: []string{"a", "b"}}, nil
}

func start(t *testing.T, cfg testkit.Config) (*testkit.Server, *toys) {
	t.Helper()
	y := &toys{}
	cfg.Services = y.services
	return testkit.NewServer(t, cfg), y
}

func TestEveryProtocolTravelsThroughThePipeline(t *testing.T) {
	s, y := start(t, testkit.Config{})
	account := s.Account(t)
	cfg := s.AWSConfig(account)
	ctx := t.Context()

	id, err := awssts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil)
	if err != nil || *id.Arn != "arn:aws:iam::"+account+":root" {
		t.Errorf("sts: %+v, %v", id, err)
	}
	if c := y.last(); c.Service != "sts" || c.Operation != "GetCallerIdentity" || c.Account != account || c.Region != "us-east-1" ||
		!c.SourceIP.IsLoopback() || c.UserAgent == "" || c.RequestID == "" || c.TLS {
		t.Errorf("call is %+v", c)
	}
	role, err := awsiam.NewFromConfig(cfg).CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("r"), AssumeRolePolicyDocument: aws.String(`{"a": "b c"}`)})
	if err != nil || *role.Role.RoleName != "r" {
		t.Errorf("iam: %+v, %v", role, err)
	}
	vpcs, err := awsec2.NewFromConfig(cfg).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: []ec2types.Filter{{Name: aws.String("n"), Values: []string{"v"}}}})
	if err != nil || *vpcs.Vpcs[0].VpcId != "vpc-1" {
		t.Errorf("ec2: %+v, %v", vpcs, err)
	}
	if !y.last().Members.Has("Filters.Values") {
		t.Errorf("members are %v", y.last().Members)
	}
	_, err = awsssm.NewFromConfig(cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/a")})
	if err == nil {
		t.Error("ssm: no error")
	}
	arn := "arn:aws:iam::1:role/path/n%41me+ü"
	entry, err := awseks.NewFromConfig(cfg).DescribeAccessEntry(ctx, &awseks.DescribeAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: &arn})
	if err != nil || *entry.AccessEntry.PrincipalArn != arn {
		t.Errorf("eks: %+v, %v", entry, err)
	}
}

// A region that AWS does not have is not an empty region: its endpoints do not even resolve on AWS.
func TestRegionsThatAreNone(t *testing.T) {
	s, _ := start(t, testkit.Config{})
	cfg := s.AWSConfig(s.Account(t))
	for region, want := range map[string]string{
		"eu-west-1":  "",
		"eu-west-11": "InvalidSignatureException Forbidden: Credential should be scoped to a valid region, not 'eu-west-11'. ",
		"mars":       "InvalidSignatureException Forbidden: Credential should be scoped to a valid region, not 'mars'. ",
	} {
		cfg.Region = region
		_, err := awseks.NewFromConfig(cfg).ListClusters(t.Context(), nil)
		switch {
		case err == nil && want != "", err != nil && code(err) != want:
			t.Errorf("%s: %v, want %q", region, err, want)
		}
	}
}

package cloudformation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

var errKilled = errors.New("the daemon was killed")

// A killer is an API that kills its daemon before or after the nth call that changes something. As at a real kill, the
// calls that are under way have either happened before the next daemon runs or never happen, and the dead daemon does
// nothing with their answers.
type killer struct {
	awsapi.API
	nth   int
	after bool
	kill  func()
	// dead is closed at the end of the test.
	dead chan struct{}

	mu      sync.Mutex
	calls   int
	killed  bool
	changes sync.WaitGroup // the calls under way that change something
}

func (k *killer) Call(ctx context.Context, in any) (any, error) {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", in), ".")
	reads := strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List")
	k.mu.Lock()
	gone, mine := k.killed, false
	if !reads && !gone {
		k.calls++
		mine = k.calls == k.nth
		k.killed = mine
		if !mine {
			k.changes.Add(1)
		}
	}
	k.mu.Unlock()
	switch {
	case gone:
		<-k.dead
		return nil, errKilled
	case !mine:
		out, err := k.API.Call(context.WithoutCancel(ctx), in)
		if !reads {
			k.changes.Done()
		}
		k.mu.Lock()
		gone = k.killed
		k.mu.Unlock()
		if gone {
			<-k.dead
			return nil, errKilled
		}
		return out, err
	}
	if k.after {
		_, _ = k.API.Call(ctx, in) // the result does not matter
	}
	k.changes.Wait()
	k.kill()
	<-k.dead
	return nil, errKilled
}

const network = `
Resources:
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16, EnableDnsHostnames: true}}
  N: {Type: AWS::EC2::Subnet, DependsOn: T, Properties: {VpcId: !Ref V, CidrBlock: 10.0.1.0/24, MapPublicIpOnLaunch: 'true'}}
  I: {Type: AWS::EC2::InternetGateway, DependsOn: V}
  A: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: !Ref V, InternetGatewayId: !Ref I}}
  T: {Type: AWS::EC2::RouteTable, DependsOn: A, Properties: {VpcId: !Ref V}}
  R: {Type: AWS::EC2::Route, DependsOn: N, Properties: {RouteTableId: !Ref T, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref I}}
  L: {Type: AWS::EC2::SubnetRouteTableAssociation, DependsOn: R, Properties: {RouteTableId: !Ref T, SubnetId: !Ref N}}
  E: {Type: AWS::EC2::EIP, DependsOn: L, Properties: {Domain: vpc}}
  G: {Type: AWS::EC2::SecurityGroup, DependsOn: E, Properties: {GroupDescription: g, VpcId: !Ref V, SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 22, ToPort: '22', CidrIp: 10.0.0.0/8}]}}
  S: {Type: AWS::EC2::SecurityGroupIngress, Properties: {GroupId: !GetAtt G.GroupId, IpProtocol: -1, SourceSecurityGroupId: !Ref G}}
  O:
    Type: AWS::IAM::Role
    DependsOn: S
    Properties:
      AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: 'sts:AssumeRole'}]}
      ManagedPolicyArns: [arn:aws:iam::aws:policy/ReadOnlyAccess]
  P: {Type: AWS::IAM::InstanceProfile, Properties: {Roles: [!Ref O]}}
  K: {Type: AWS::EC2::LaunchTemplate, Properties: {LaunchTemplateData: {InstanceType: t3.micro, IamInstanceProfile: {Arn: !GetAtt P.Arn}}}}
  Q: {Type: AWS::SQS::Queue, DependsOn: K}
  M: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !GetAtt Q.Arn}}
Outputs:
  Route: {Value: !Ref R}
  Attachment: {Value: !Ref A}
  Version: {Value: !GetAtt K.LatestVersionNumber}
  Same: {Value: !Sub '${G}=${G.GroupId}'}
`

// what lists everything that the stack may have created, with one entry for each resource.
func (w *world) what(t *testing.T) []string {
	t.Helper()
	ctx, machines := t.Context(), awsec2.NewFromConfig(w.cfg)
	var out []string
	for _, v := range testkit.Must(machines.DescribeVpcs(ctx, nil))(t).Vpcs {
		out = append(out, *v.VpcId)
	}
	for _, v := range testkit.Must(machines.DescribeSubnets(ctx, nil))(t).Subnets {
		out = append(out, *v.SubnetId)
	}
	for _, v := range testkit.Must(machines.DescribeInternetGateways(ctx, nil))(t).InternetGateways {
		out = append(out, *v.InternetGatewayId)
	}
	for _, v := range testkit.Must(machines.DescribeRouteTables(ctx, nil))(t).RouteTables {
		out = append(out, *v.RouteTableId)
	}
	for _, v := range testkit.Must(machines.DescribeAddresses(ctx, nil))(t).Addresses {
		out = append(out, *v.PublicIp)
	}
	for _, v := range testkit.Must(machines.DescribeSecurityGroups(ctx, nil))(t).SecurityGroups {
		out = append(out, *v.GroupId)
	}
	for _, v := range testkit.Must(machines.DescribeLaunchTemplates(ctx, nil))(t).LaunchTemplates {
		out = append(out, *v.LaunchTemplateId)
	}
	for _, v := range testkit.Must(awsiam.NewFromConfig(w.cfg).ListRoles(ctx, nil))(t).Roles {
		out = append(out, *v.RoleName)
	}
	for _, v := range testkit.Must(awsiam.NewFromConfig(w.cfg).ListInstanceProfiles(ctx, nil))(t).InstanceProfiles {
		out = append(out, *v.InstanceProfileName)
	}
	out = append(out, testkit.Must(awssqs.NewFromConfig(w.cfg).ListQueues(ctx, &awssqs.ListQueuesInput{}))(t).QueueUrls...)
	for _, v := range testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(ctx, &awsssm.DescribeParametersInput{}))(t).Parameters {
		out = append(out, *v.Name)
	}
	slices.Sort(out)
	return out
}

// TestKilledAnywhere kills a daemon before or after each of its calls. The next daemon must
// finish the stack: the stack lists exactly the resources that exist, and its deletion
// leaves nothing behind.
func TestKilledAnywhere(t *testing.T) {
	w := newWorld(t)
	before := w.what(t)
	for nth := 1; ; nth++ {
		survived := false
		for _, after := range []bool{false, true} {
			k := &killer{API: w.front, nth: nth, after: after, dead: make(chan struct{})}
			killed := make(chan struct{})
			var cancel func()
			ready := make(chan struct{})
			k.kill = func() { <-ready; cancel(); close(killed) }
			var ended chan error
			cancel, ended = w.run(k)
			close(ready)
			name := fmt.Sprintf("s%d%t", nth, after)
			id := w.create(t, name, network)
			var next func()
			var nextEnded chan error
			select {
			case <-killed:
				next, nextEnded = w.run(w.front)
			case <-w.final(t, id):
			}
			st := w.want(t, id, "CREATE_COMPLETE")
			out := w.outputs(st)
			if !strings.HasPrefix(out["Route"], "rtb-") || !strings.HasSuffix(out["Route"], "|0.0.0.0/0") || !strings.HasPrefix(out["Attachment"], "IGW|vpc-") || out["Version"] != "1" {
				t.Errorf("%d, %t: %v", nth, after, out)
			}
			if a, b, _ := strings.Cut(out["Same"], "="); a != b || !strings.HasPrefix(a, "sg-") {
				t.Errorf("a group in a VPC is referred to by its ID: %v", out)
			}
			// A VPC comes with a route table and a security group; the other 11 are the stack's.
			if now := w.what(t); len(now)-len(before) != 11+2 {
				t.Errorf("%d, %t: there are %v more", nth, after, slices.DeleteFunc(now, func(id string) bool { return slices.Contains(before, id) }))
			}
			w.delete(t, id)
			if next == nil { // killed during the deletion, or not at all
				select {
				case <-killed:
					next, nextEnded = w.run(w.front)
				case <-w.final(t, id):
					survived = true
				}
			}
			w.want(t, id, "DELETE_COMPLETE")
			if now := w.what(t); !slices.Equal(now, before) {
				t.Errorf("%d, %t: left are %v\n%s", nth, after, slices.DeleteFunc(now, func(id string) bool { return slices.Contains(before, id) }), w.script(t, id))
			}
			close(k.dead)
			cancel()
			<-ended
			if next != nil {
				next()
				<-nextEnded
			}
			if t.Failed() {
				return
			}
		}
		if survived {
			if nth < 30 {
				t.Errorf("only %d calls change something", nth)
			}
			return
		}
	}
}

// TestReplacementThatWasNotCreated kills a daemon that is about to create the replacement of a VPC. The cleanup of the
// rollback looks for the replacement by its tags, and must not take the VPC that the stack keeps for it.
func TestReplacementThatWasNotCreated(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	api := &refuser{API: w.front}
	api.refuse.Store(func(any) error { return nil })
	first, firstEnded := w.run(api)
	vpc := func(n int) *string {
		return aws.String(fmt.Sprintf("Resources: {V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.%d.0.0/16}}}\nOutputs: {V: {Value: !Ref V}}", n))
	}
	id := w.create(t, "kept", *vpc(0))
	kept := w.outputs(w.want(t, id, "CREATE_COMPLETE"))["V"]
	creating, dead := make(chan struct{}), make(chan struct{})
	api.refuse.Store(func(in any) error {
		if _, ok := in.(*awsec2.CreateVpcInput); ok {
			close(creating)
			<-dead
			return errKilled
		}
		return nil
	})
	testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: vpc(1)}))(t)
	<-creating
	first()
	testkit.Must(w.CancelUpdateStack(ctx, &awscloudformation.CancelUpdateStackInput{StackName: &id}))(t)
	next, nextEnded := w.run(w.front)
	w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
	if _, err := awsec2.NewFromConfig(w.cfg).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{kept}}); err != nil {
		t.Errorf("the VPC of the stack is gone: %v\n%s", err, w.script(t, id))
	}
	close(dead)
	<-firstEnded
	next()
	<-nextEnded
}

// final returns a channel that is closed when a stack's operation has ended.
func (w *world) final(t *testing.T, id string) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		for {
			changed := w.config.Store.Changed()
			all, err := w.DescribeStacks(t.Context(), &awscloudformation.DescribeStacksInput{StackName: &id})
			if err != nil || !strings.HasSuffix(string(all.Stacks[0].StackStatus), "_IN_PROGRESS") {
				close(out)
				return
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return out
}

// killed runs prepare with one daemon, act with a second one that is killed before or after its nth mutating call,
// and check with a third. ended returns a channel that is closed when the work ends. lived reports whether the work
// ended because there were fewer than n calls.
func (w *world) killed(t *testing.T, nth int, after bool, prepare, act func(), ended func() <-chan struct{}, check func(lived bool)) {
	t.Helper()
	first, firstEnded := w.run(w.front)
	prepare()
	first()
	<-firstEnded
	k := &killer{API: w.front, nth: nth, after: after, dead: make(chan struct{})}
	killed, ready := make(chan struct{}), make(chan struct{})
	var cancel func()
	k.kill = func() { <-ready; cancel(); close(killed) }
	var secondEnded chan error
	cancel, secondEnded = w.run(k)
	close(ready)
	act()
	lived := false
	select {
	case <-killed:
	case <-ended():
		lived = true
	}
	next, nextEnded := w.run(w.front)
	check(lived)
	close(k.dead)
	cancel()
	<-secondEnded
	next()
	<-nextEnded
}

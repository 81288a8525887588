package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
)

const (
	demoUser = "demo-guest" // the user who is denied access
	demoNode = "demo-late"  // the instance, its security group and its instance profile
)

// refusals ends the demo with what Drydock is for: a user who is denied access and a node that cannot join, each
// explained and fixed.
func (d *demo) refusals(ctx context.Context, cfg aws.Config, info api.DaemonInfo, kubeconfig string) error {
	if err := d.refusedUser(ctx, cfg, info); err != nil {
		return fmt.Errorf("the user who is denied access: %w", err)
	}
	if err := d.refusedNode(ctx, cfg.Region, info); err != nil {
		return fmt.Errorf("the node that fails to join: %w", err)
	}
	return d.show(ctx, "kubectl get nodes", "kubectl", "--kubeconfig", kubeconfig, "get", "nodes")
}

// show runs one of this program's commands, and prints it as a user would type it. Exit code 1 means that the
// command's answer is no.
func (d *demo) show(ctx context.Context, typed string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(d.streams.Out, "\n$ %s\n", typed)
	c := exec.CommandContext(ctx, self, args...)
	c.Stdout, c.Stderr = d.streams.Out, d.streams.Err
	err = c.Run()
	if no, ok := errors.AsType[*exec.ExitError](err); ok && no.ExitCode() == 1 {
		return nil
	}
	return err
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.streams.Out, format+"\n", args...) }

// refusedUser lets a user without policies describe the cluster, and then adds a policy.
func (d *demo) refusedUser(ctx context.Context, cfg aws.Config, info api.DaemonInfo) error {
	if _, err := d.iam.GetUser(ctx, &awsiam.GetUserInput{UserName: aws.String(demoUser)}); err == nil {
		d.step("user %s already has access", demoUser)
		return nil
	}
	if _, err := d.iam.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String(demoUser)}); err != nil {
		return err
	}
	key, err := d.iam.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String(demoUser)})
	if err != nil {
		return err
	}
	theirs := cfg.Copy()
	theirs.Credentials = credentials.NewStaticCredentialsProvider(aws.ToString(key.AccessKey.AccessKeyId), aws.ToString(key.AccessKey.SecretAccessKey), "")
	theirEKS := awseks.NewFromConfig(theirs)
	d.step("user %s, who has no policies, describes the cluster", demoUser)
	describe := func() error {
		_, err := theirEKS.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &d.cluster})
		return err
	}
	refused := describe()
	if refused == nil {
		d.step("the call succeeds: authorization is off (--authorization)")
		return nil
	}
	var ae smithy.APIError
	if !errors.As(refused, &ae) {
		return refused
	}
	d.say("\n$ aws eks describe-cluster --name %s --profile %s\n\nAn error occurred (%s) when calling the DescribeCluster operation: %s", d.cluster, demoUser, ae.ErrorCode(), ae.ErrorMessage())
	if err := d.show(ctx, "drydock why request --last-denied", "why", "request", "--last-denied", "--data-dir", info.DataDir); err != nil {
		return err
	}
	e, err := d.clientOf(info).WhyRequest(ctx, "", "")
	if err != nil {
		return err
	}
	fix, err := proven(e.Fixes)
	if err != nil {
		return err
	}
	d.say("\n$ %s", fix.Shell())
	name, document := "request-"+e.RequestID, `{"Version":"2012-10-17","Statement":[`+fix.Changes[0].Value+`]}`
	if _, err := d.iam.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String(demoUser), PolicyName: &name, PolicyDocument: &document}); err != nil {
		return err
	}
	if err := describe(); err != nil {
		return err
	}
	d.step("user %s can describe the cluster", demoUser)
	return nil
}

// refusedNode launches an instance whose security group lets nothing out, and then opens the group.
func (d *demo) refusedNode(ctx context.Context, region string, info api.DaemonInfo) error {
	found, err := d.ec2.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:Name"), Values: []string{demoNode}}, {Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}},
	}})
	if err != nil {
		return err
	}
	if len(found.Reservations) > 0 {
		d.step("instance %s has already joined", aws.ToString(found.Reservations[0].Instances[0].InstanceId))
		return nil
	}
	cluster, err := d.eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &d.cluster})
	if err != nil {
		return err
	}
	c := cluster.Cluster
	group, err := d.closedGroup(ctx, aws.ToString(c.ResourcesVpcConfig.VpcId))
	if err != nil {
		return err
	}
	instance, err := d.launchNode(ctx, group, c.ResourcesVpcConfig.SubnetIds[0], aws.ToString(c.Version), fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: %s
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
`, d.cluster, aws.ToString(c.Endpoint), aws.ToString(c.CertificateAuthority.Data), aws.ToString(c.KubernetesNetworkConfig.ServiceIpv4Cidr)))
	if err != nil {
		return err
	}
	d.step("instance %s is running but does not join the cluster", instance)
	ask := func(until func(e *api.NodeExplanation) bool) error {
		for {
			e, err := d.clientOf(info).WhyNode(ctx, api.Place{Region: region}, instance)
			if err != nil || until(&e) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	var fix advice.Fix
	var none error
	if err := ask(func(e *api.NodeExplanation) bool {
		s := e.FirstFailed()
		if s == nil || s.Reason == nil {
			return false
		}
		fix, none = proven(s.Reason.Fixes)
		return true
	}); err != nil || none != nil {
		return errors.Join(err, none)
	}
	why := []string{"why", "node", instance, "--region", region, "--data-dir", info.DataDir}
	if err := d.show(ctx, "drydock why node "+instance, why...); err != nil {
		return err
	}
	d.say("\n$ %s", fix.Shell())
	for i := range fix.Changes {
		if err := d.addRules(ctx, &fix.Changes[i]); err != nil {
			return err
		}
	}
	if err := ask(func(e *api.NodeExplanation) bool { return e.Ready }); err != nil {
		return err
	}
	d.step("instance %s has joined", instance)
	return nil
}

// proven returns the first fix, which the demo runs. As always, what it prints has been tried.
func proven(fixes []advice.Fix) (advice.Fix, error) {
	if len(fixes) == 0 || !fixes[0].Proven || len(fixes[0].Changes) == 0 {
		return advice.Fix{}, errors.New("drydock why does not offer a proven fix")
	}
	return fixes[0], nil
}

// addRules makes the change of a security group as its command does, for whoever has no AWS CLI.
func (d *demo) addRules(ctx context.Context, c *advice.Change) error {
	if c.Kind != advice.AddRule {
		return fmt.Errorf("the demo cannot make the change %s", c.Kind)
	}
	for _, r := range c.Rules {
		p := ec2types.IpPermission{IpProtocol: aws.String(r.Protocol.String()), FromPort: aws.Int32(int32(r.Ports.From)), ToPort: aws.Int32(int32(r.Ports.To))}
		if r.Group != "" {
			p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: aws.String(r.Group)}}
		} else {
			p.IpRanges = []ec2types.IpRange{{CidrIp: aws.String(r.CIDR.String())}}
		}
		var err error
		if r.Egress {
			_, err = d.ec2.AuthorizeSecurityGroupEgress(ctx, &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: &c.Resource, IpPermissions: []ec2types.IpPermission{p}})
		} else {
			_, err = d.ec2.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &c.Resource, IpPermissions: []ec2types.IpPermission{p}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closedGroup creates a security group that lets nothing out.
func (d *demo) closedGroup(ctx context.Context, vpc string) (string, error) {
	sg, err := d.ec2.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String(demoNode), Description: aws.String("lets nothing out"), VpcId: &vpc})
	if err != nil {
		return "", err
	}
	_, err = d.ec2.RevokeSecurityGroupEgress(ctx, &awsec2.RevokeSecurityGroupEgressInput{GroupId: sg.GroupId, IpPermissions: []ec2types.IpPermission{
		{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}},
	}})
	return aws.ToString(sg.GroupId), err
}

// launchNode launches a self-managed node with the node group's role, which the cluster already accepts.
func (d *demo) launchNode(ctx context.Context, group, subnet, version, userData string) (string, error) {
	if _, err := d.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String(demoNode)}); err != nil {
		return "", err
	}
	if _, err := d.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(demoNode), RoleName: aws.String("demo-node")}); err != nil {
		return "", err
	}
	image, err := d.ssm.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/" + version + "/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	if err != nil {
		return "", err
	}
	runtime := "simulated"
	if d.containers {
		runtime = "containers"
	}
	out, err := d.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: image.Parameter.Value, InstanceType: ec2types.InstanceTypeT3Medium, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: &subnet, SecurityGroupIds: []string{group}, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String(demoNode)},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{
			{Key: aws.String("Name"), Value: aws.String(demoNode)}, {Key: aws.String("kubernetes.io/cluster/" + d.cluster), Value: aws.String("owned")},
			{Key: aws.String("drydock:runtime"), Value: &runtime},
		}}},
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Instances[0].InstanceId), nil
}

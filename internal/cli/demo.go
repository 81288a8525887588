package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
)

// demo creates a cluster through the public AWS endpoint with the official SDK, exactly as a user's program would.
type demo struct {
	*globalOptions
	cluster, nodegroup string
	nodes, replicas    int32
	started            time.Time
	containers         bool   // the nodes of the node group run containers
	image              string // of the workload

	iam *awsiam.Client
	ec2 *awsec2.Client
	eks *awseks.Client
	ssm *awsssm.Client
}

func newDemo(o *globalOptions) *cobra.Command {
	d := &demo{globalOptions: o, cluster: "demo", nodegroup: "workers", nodes: 2, replicas: 6}
	return &cobra.Command{
		Use:   "demo",
		Short: "Take a tour: a cluster, nodes, a workload, and two failures explained",
		Long: `Start Drydock if it is not running, create an IAM role, the cluster "demo" and a node
group of two nodes through the AWS API, deploy a workload and show it. The nodes run
containers if this machine can (see "drydock doctor containers"). Then a user is denied
access and a node fails to join; "drydock why" explains both, and both are fixed. The
daemon keeps running; "drydock down" stops it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.run(cmd.Context())
		},
	}
}

func (d *demo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	d.started = time.Now()
	info, err := d.daemon(ctx)
	if err != nil {
		return err
	}
	cfg := awsConfig(info)
	d.iam, d.ec2, d.eks, d.ssm = awsiam.NewFromConfig(cfg), awsec2.NewFromConfig(cfg), awseks.NewFromConfig(cfg), awsssm.NewFromConfig(cfg)

	clusterRole, err := d.role(ctx, "demo-cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
	if err != nil {
		return err
	}
	nodeRole, err := d.role(ctx, "demo-node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly")
	if err != nil {
		return err
	}
	subnets, err := d.subnets(ctx)
	if err != nil {
		return err
	}
	if err := d.createCluster(ctx, clusterRole, subnets); err != nil {
		return err
	}
	if err := d.createNodegroup(ctx, nodeRole, subnets); err != nil {
		return err
	}
	if d.image = "nginx"; d.containers {
		d.image = addons.Registry(cfg.Region) + "/" + addonimages.DemoRepository + ":1"
	}
	kubeconfig, err := d.writeKubeconfig(ctx, cfg, d.cluster, filepath.Join(info.DataDir, "demo.kubeconfig"))
	if err != nil {
		return err
	}
	if err := d.workload(ctx, kubeconfig); err != nil {
		return err
	}
	if err := d.refusals(ctx, cfg, info, kubeconfig); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(mustGetwd(), self); err == nil && len(rel) < len(self) {
		self = rel
	}
	flag := dataDirFlag(info.DataDir)
	d.progress("\nThe cluster is yours now. Continue by hand:")
	fmt.Fprintf(d.streams.Out, `
  eval "$(%[1]s env%[2]s)"
  aws eks describe-cluster --name %[3]s
  aws eks update-kubeconfig --name %[3]s        # or, without the aws CLI: %[1]s kubeconfig %[3]s%[2]s
  kubectl get pods -o wide                    # or: %[1]s kubectl get pods -o wide
  aws eks update-nodegroup-config --cluster-name %[3]s --nodegroup-name %[4]s --scaling-config desiredSize=3
%[5]s  %[1]s status%[2]s
  %[1]s down%[2]s
`, self, flag, d.cluster, d.nodegroup, d.intoPods())
	return nil
}

// intoPods returns the commands that need pods to be real.
func (d *demo) intoPods() string {
	if !d.containers {
		return ""
	}
	return `  kubectl logs deployment/web
  kubectl exec deployment/web -- /web get web
`
}

func mustGetwd() string {
	wd, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return wd
}

// step prints progress with the time since the demo began.
func (d *demo) step(format string, args ...any) {
	d.progress("[%5.1f s] %s", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// daemon returns the running daemon, or starts one.
func (d *demo) daemon(ctx context.Context) (api.DaemonInfo, error) {
	info, err := d.readInfo()
	if err == nil {
		d.step("Drydock is already running: %s", info.URL)
		return info, nil
	}
	if !errors.Is(err, errNotRunning) {
		return api.DaemonInfo{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return api.DaemonInfo{}, err
	}
	up := exec.CommandContext(ctx, self, "up", "--detach", "--data-dir", d.dataDir)
	up.Stderr = d.streams.Err
	if err := up.Run(); err != nil {
		return api.DaemonInfo{}, fmt.Errorf("starting Drydock: %w", err)
	}
	info, err = d.readInfo()
	if err == nil {
		d.step("Drydock answers at %s", info.URL)
	}
	return info, err
}

// role returns the ARN of a role that the AWS service may assume, creating it if needed.
func (d *demo) role(ctx context.Context, name, service string, policies ...string) (string, error) {
	trust := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":%q},"Action":"sts:AssumeRole"}]}`, service)
	created, err := d.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
	var exists *iamtypes.EntityAlreadyExistsException
	if errors.As(err, &exists) {
		got, err := d.iam.GetRole(ctx, &awsiam.GetRoleInput{RoleName: &name})
		if err != nil {
			return "", err
		}
		return aws.ToString(got.Role.Arn), nil
	}
	if err != nil {
		return "", err
	}
	for _, p := range policies {
		if _, err := d.iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{
			RoleName: &name, PolicyArn: aws.String("arn:aws:iam::aws:policy/" + p),
		}); err != nil {
			return "", err
		}
	}
	d.step("IAM role %s for %s", name, service)
	return aws.ToString(created.Role.Arn), nil
}

// subnets returns the default subnets.
func (d *demo) subnets(ctx context.Context) ([]string, error) {
	out, err := d.ec2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: []ec2types.Filter{
		{Name: aws.String("default-for-az"), Values: []string{"true"}},
	}})
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(out.Subnets))
	for _, s := range out.Subnets {
		ids = append(ids, aws.ToString(s.SubnetId))
	}
	return ids, nil
}

func (d *demo) createCluster(ctx context.Context, role string, subnets []string) error {
	begun := time.Now()
	_, err := d.eks.CreateCluster(ctx, &awseks.CreateClusterInput{
		Name:               &d.cluster,
		RoleArn:            &role,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		AccessConfig:       &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	})
	var inUse *ekstypes.ResourceInUseException
	switch {
	case errors.As(err, &inUse):
		d.step("cluster %s exists", d.cluster)
	case err != nil:
		return err
	default:
		d.step("cluster %s: CREATING", d.cluster)
	}
	waiter := awseks.NewClusterActiveWaiter(d.eks)
	out, err := waiter.WaitForOutput(ctx, &awseks.DescribeClusterInput{Name: &d.cluster}, 5*time.Minute)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", d.cluster, err)
	}
	d.step("cluster %s: ACTIVE after %.1f s, Kubernetes %s at %s", d.cluster, time.Since(begun).Seconds(), aws.ToString(out.Cluster.Version), aws.ToString(out.Cluster.Endpoint))
	return nil
}

func (d *demo) createNodegroup(ctx context.Context, role string, subnets []string) error {
	begun := time.Now()
	tags := map[string]string{"drydock:runtime": "simulated"}
	if r := probe.Run(); r.Available {
		tags["drydock:runtime"] = "containers"
	} else {
		d.step("the pods will run no containers: %s (drydock doctor containers)", r.Why())
	}
	_, err := d.eks.CreateNodegroup(ctx, &awseks.CreateNodegroupInput{
		Tags:          tags,
		ClusterName:   &d.cluster,
		NodegroupName: &d.nodegroup,
		NodeRole:      &role,
		Subnets:       subnets,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(4), DesiredSize: &d.nodes},
	})
	var inUse *ekstypes.ResourceInUseException
	switch {
	case errors.As(err, &inUse):
		d.step("node group %s exists", d.nodegroup)
	case err != nil:
		return err
	default:
		d.step("node group %s: CREATING", d.nodegroup)
	}
	waiter := awseks.NewNodegroupActiveWaiter(d.eks)
	out, err := waiter.WaitForOutput(ctx, &awseks.DescribeNodegroupInput{ClusterName: &d.cluster, NodegroupName: &d.nodegroup}, 5*time.Minute)
	if err != nil {
		return fmt.Errorf("node group %s: %w", d.nodegroup, err)
	}
	// An earlier demo may have created it, elsewhere.
	d.containers = out.Nodegroup.Tags["drydock:runtime"] == "containers"
	d.step("node group %s: ACTIVE after %.1f s", d.nodegroup, time.Since(begun).Seconds())
	return nil
}

func (d *demo) workload(ctx context.Context, kubeconfig string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	kubectl := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, self, append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...)
		c.Stdout, c.Stderr = d.streams.Out, d.streams.Err
		return c
	}
	look := kubectl("get", "deployment", "web")
	look.Stdout, look.Stderr = nil, nil
	if look.Run() != nil {
		if err := kubectl("create", "deployment", "web", "--image", d.image, "--replicas", fmt.Sprint(d.replicas)).Run(); err != nil {
			return fmt.Errorf("creating the deployment: %w", err)
		}
		if err := kubectl("expose", "deployment", "web", "--port", "80", "--target-port", "8080").Run(); err != nil {
			return fmt.Errorf("creating the service: %w", err)
		}
	}
	rollout := kubectl("rollout", "status", "deployment/web", "--timeout", "2m")
	rollout.Stdout = nil
	if err := rollout.Run(); err != nil {
		return fmt.Errorf("waiting for the deployment: %w", err)
	}
	d.step("deployment web: %d pods are Running", d.replicas)
	for _, what := range []string{"nodes", "pods"} {
		fmt.Fprintf(d.streams.Out, "\n$ kubectl get %s -o wide\n", what)
		if err := kubectl("get", what, "-o", "wide").Run(); err != nil {
			return err
		}
	}
	if !d.containers {
		return nil
	}
	// The Service's name needs CoreDNS, and its address kube-proxy. Both may still be starting.
	get := []string{"exec", "deployment/web", "--", "/web", "get", "web"}
	for {
		try := kubectl(get...)
		try.Stdout, try.Stderr = nil, nil
		if try.Run() == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connecting to the service web: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	for _, args := range [][]string{get, {"logs", "-l", "app=web", "--tail", "1"}} {
		fmt.Fprintf(d.streams.Out, "\n$ kubectl %s\n", strings.Join(args, " "))
		if err := kubectl(args...).Run(); err != nil {
			return err
		}
	}
	return nil
}

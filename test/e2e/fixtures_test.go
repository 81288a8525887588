package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/failures"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// fixtures are made with the SDK, which costs a thirtieth of the AWS CLI's time:
// what is under test is what the table's commands do with them.
type fixtures struct {
	ec2 *awsec2.Client
	iam *awsiam.Client
	eks *awseks.Client
	ssm *awsssm.Client
}

const nodeTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newFailureWorld starts a daemon, whose nodes have a runtime, and builds the networks and clusters.
func newFailureWorld(t *testing.T, runtime string) *failureWorld {
	t.Helper()
	bin := testkit.Program(t)
	data, err := os.MkdirTemp("", "dd")
	if err != nil {
		t.Fatal(err)
	}
	w := &failureWorld{dir: t.TempDir(), worlds: map[failures.World]map[string]string{}, mapping: make(chan struct{}, 1), patience: patience}
	limit := failureLimit
	if runtime == "containers" {
		w.image, w.patience, limit = addons.Registry("us-east-1")+"/"+addonimages.DemoRepository+":1", containersPatience, containersLimit
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.Context()), limit, fmt.Errorf("the failures have been played for %v", limit))
	t.Cleanup(cancel)
	w.ctx, w.end = context.WithCancelCause(ctx)
	path := filepath.Dir(bin) + string(os.PathListSeparator) + os.Getenv("PATH")
	w.env = append(os.Environ(), "PATH="+path, "HOME="+w.dir, "DRYDOCK_DATA_DIR="+data, "AWS_PAGER=", "AWS_DEFAULT_OUTPUT=json",
		"AWS_CONFIG_FILE="+filepath.Join(w.dir, "aws-config"), "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(w.dir, "aws-credentials"), "AWS_EC2_METADATA_DISABLED=true")
	drydock := func(args ...string) []byte {
		t.Helper()
		cmd := program(w.ctx, bin, args...)
		cmd.Env = w.env
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("drydock %v: %v\n%s", args, err, errs.String())
		}
		return out
	}
	t.Cleanup(func() {
		down(bin, data, t.Log)
		if t.Failed() {
			logs(data, t.Log)
		}
		os.RemoveAll(data)
	})
	up := []string{"up", "-d", "--port", "0", "--warm-spares", "0", "--quota", "vcpus=100000"}
	if runtime != "" {
		up = append(up, "--node-runtime", runtime)
	}
	drydock(up...)
	var vars map[string]string
	if err := json.Unmarshal(drydock("env", "--output", "json"), &vars); err != nil {
		t.Fatal(err)
	}
	for k, v := range vars {
		w.env = append(w.env, k+"="+v)
	}
	w.url = vars["AWS_ENDPOINT_URL"]
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &w.url,
		Credentials: credentials.NewStaticCredentialsProvider(vars["AWS_ACCESS_KEY_ID"], vars["AWS_SECRET_ACCESS_KEY"], ""),
	}
	w.fixtures = fixtures{ec2: awsec2.NewFromConfig(cfg), iam: awsiam.NewFromConfig(cfg), eks: awseks.NewFromConfig(cfg), ssm: awsssm.NewFromConfig(cfg)}
	clusterRole := must[*awsiam.CreateRoleOutput](t)(w.fixtures.iam.CreateRole(w.ctx, &awsiam.CreateRoleInput{
		RoleName: aws.String("w4-cluster"), AssumeRolePolicyDocument: aws.String(strings.Replace(nodeTrust, "ec2.", "eks.", 1)),
	}))
	w.role(t, "w4-node", "/")
	roles := []string{"w4-node"}
	for _, f := range failures.All() {
		if f.Own&(failures.OwnRole|failures.OwnRolePath) != 0 {
			roles = append(roles, "w4-"+f.ID)
		}
	}
	open, closed := w.openNetwork(t), w.closedNetwork(t)
	created := make(chan func(), 2)
	for _, c := range []struct {
		vars    map[string]string
		name    string
		version string
		roles   []string
	}{{open, "w4", "1.34", roles}, {closed, "w4-closed", "1.33", []string{"w4-node"}}} {
		must[*awseks.CreateClusterOutput](t)(w.fixtures.eks.CreateCluster(w.ctx, &awseks.CreateClusterInput{
			Name: &c.name, Version: &c.version, RoleArn: clusterRole.Role.Arn,
			AccessConfig: &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
			ResourcesVpcConfig: &ekstypes.VpcConfigRequest{
				SubnetIds:            []string{c.vars["SUBNET"], c.vars["SUBNET_B"]},
				EndpointPublicAccess: aws.Bool(true), EndpointPrivateAccess: aws.Bool(true),
			},
		}))
		created <- func() { w.clusterVars(t, c.vars, c.name, c.version, c.roles) }
	}
	(<-created)()
	(<-created)()
	elsewhere := map[string]string{}
	for k, v := range closed {
		elsewhere[k] = v
	}
	for _, k := range []string{"VPC", "SUBNET", "SG", "TABLE"} {
		elsewhere[k] = open[k]
	}
	sg := must[*awsec2.CreateSecurityGroupOutput](t)(w.fixtures.ec2.CreateSecurityGroup(w.ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String("elsewhere"), Description: aws.String("elsewhere"), VpcId: aws.String(open["VPC"]),
	}))
	elsewhere["SG"] = *sg.GroupId
	w.worlds[failures.Open], w.worlds[failures.Closed], w.worlds[failures.Elsewhere] = open, closed, elsewhere
	w.baseNode(t)
	return w
}

// subnet makes one, in the VPC's next block.
func (w *failureWorld) subnet(t *testing.T, vpc, cidr, zone, table string, public bool) string {
	t.Helper()
	ctx := w.ctx
	out := must[*awsec2.CreateSubnetOutput](t)(w.fixtures.ec2.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &cidr, AvailabilityZone: aws.String("us-east-1" + zone)}))
	id := *out.Subnet.SubnetId
	if public {
		must[*awsec2.ModifySubnetAttributeOutput](t)(w.fixtures.ec2.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: &id, MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	}
	if table != "" {
		must[*awsec2.AssociateRouteTableOutput](t)(w.fixtures.ec2.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{SubnetId: &id, RouteTableId: &table}))
	}
	return id
}

// vpc makes one; with an internet gateway, the main route table has a route to it.
func (w *failureWorld) vpc(t *testing.T, cidr string, gateway bool) map[string]string {
	t.Helper()
	ctx := w.ctx
	out := must[*awsec2.CreateVpcOutput](t)(w.fixtures.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: &cidr}))
	vars := map[string]string{"VPC": *out.Vpc.VpcId}
	must[*awsec2.ModifyVpcAttributeOutput](t)(w.fixtures.ec2.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: out.Vpc.VpcId, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	tables := must[*awsec2.DescribeRouteTablesOutput](t)(w.fixtures.ec2.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{*out.Vpc.VpcId}}}}))
	vars["TABLE"] = *tables.RouteTables[0].RouteTableId
	if gateway {
		igw := must[*awsec2.CreateInternetGatewayOutput](t)(w.fixtures.ec2.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))
		vars["IGW"] = *igw.InternetGateway.InternetGatewayId
		must[*awsec2.AttachInternetGatewayOutput](t)(w.fixtures.ec2.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: aws.String(vars["IGW"]), VpcId: out.Vpc.VpcId}))
		w.defaultRoute(t, vars["TABLE"], vars["IGW"])
	}
	return vars
}

func (w *failureWorld) defaultRoute(t *testing.T, table, gateway string) {
	t.Helper()
	must[*awsec2.CreateRouteOutput](t)(w.fixtures.ec2.CreateRoute(w.ctx, &awsec2.CreateRouteInput{RouteTableId: &table, GatewayId: &gateway, DestinationCidrBlock: aws.String("0.0.0.0/0")}))
}

func (w *failureWorld) openNetwork(t *testing.T) map[string]string {
	t.Helper()
	vars := w.vpc(t, "10.40.0.0/16", true)
	vars["SUBNET"] = w.subnet(t, vars["VPC"], "10.40.128.0/18", "a", "", true)
	vars["SUBNET_B"] = w.subnet(t, vars["VPC"], "10.40.192.0/18", "b", "", true)
	return vars
}

func (w *failureWorld) closedNetwork(t *testing.T) map[string]string {
	t.Helper()
	ctx := w.ctx
	vars := w.vpc(t, "10.50.0.0/16", false)
	vars["SUBNET"] = w.subnet(t, vars["VPC"], "10.50.0.0/18", "a", "", false)
	vars["SUBNET_B"] = w.subnet(t, vars["VPC"], "10.50.64.0/18", "b", "", false)
	sg := must[*awsec2.CreateSecurityGroupOutput](t)(w.fixtures.ec2.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String("endpoints"), Description: aws.String("endpoints"), VpcId: aws.String(vars["VPC"]),
	}))
	vars["ENDPOINT_SG"] = *sg.GroupId
	must[*awsec2.AuthorizeSecurityGroupIngressOutput](t)(w.fixtures.ec2.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: sg.GroupId, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), CidrIp: aws.String("10.50.0.0/16"),
	}))
	for _, service := range []string{"ec2", "ecr.api", "ecr.dkr", "sts", "eks"} {
		out := must[*awsec2.CreateVpcEndpointOutput](t)(w.fixtures.ec2.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{
			VpcId: aws.String(vars["VPC"]), VpcEndpointType: ec2types.VpcEndpointTypeInterface, ServiceName: aws.String("com.amazonaws.us-east-1." + service),
			SubnetIds: []string{vars["SUBNET"]}, SecurityGroupIds: []string{*sg.GroupId}, PrivateDnsEnabled: aws.Bool(true),
		}))
		vars[failures.EndpointVariable(service)] = *out.VpcEndpoint.VpcEndpointId
	}
	store := must[*awsec2.CreateVpcEndpointOutput](t)(w.fixtures.ec2.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{
		VpcId: aws.String(vars["VPC"]), ServiceName: aws.String("com.amazonaws.us-east-1.s3"), RouteTableIds: []string{vars["TABLE"]},
	}))
	vars[failures.EndpointVariable("s3")] = *store.VpcEndpoint.VpcEndpointId
	return vars
}

// clusterVars waits for a cluster and completes the variables of its world.
func (w *failureWorld) clusterVars(t *testing.T, vars map[string]string, name, version string, roles []string) {
	t.Helper()
	out, err := awseks.NewClusterActiveWaiter(w.fixtures.eks).WaitForOutput(w.ctx, &awseks.DescribeClusterInput{Name: &name}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c := out.Cluster
	vars["CLUSTER"], vars["ENDPOINT"], vars["CA"] = name, *c.Endpoint, *c.CertificateAuthority.Data
	vars["CIDR"], vars["ISSUER"] = *c.KubernetesNetworkConfig.ServiceIpv4Cidr, *c.Identity.Oidc.Issuer
	vars["CLUSTER_SG"], vars["SG"] = *c.ResourcesVpcConfig.ClusterSecurityGroupId, *c.ResourcesVpcConfig.ClusterSecurityGroupId
	vars["ROLE"], vars["PROFILE"], vars["ROLE_ARN"] = "w4-node", "w4-node", "arn:aws:iam::000000000000:role/w4-node"
	vars["KUBECONFIG"] = filepath.Join(w.dir, name+".kubeconfig")
	older := "/aws/service/eks/optimized-ami/%s/amazon-linux-2/recommended/image_id"
	newer := "/aws/service/eks/optimized-ami/%s/amazon-linux-2023/x86_64/standard/recommended/image_id"
	for k, parameter := range map[string]string{
		"AMI": fmt.Sprintf(newer, version), "AMI_NEWER": fmt.Sprintf(newer, "1.35"), "AMI_AL2": fmt.Sprintf(older, "1.32"), "AMI_OLDER": fmt.Sprintf(older, "1.30"),
	} {
		vars[k] = *must[*awsssm.GetParameterOutput](t)(w.fixtures.ssm.GetParameter(w.ctx, &awsssm.GetParameterInput{Name: &parameter})).Parameter.Value
	}
	for _, v := range w.env {
		if file, ok := strings.CutPrefix(v, "AWS_CA_BUNDLE="); ok && file != "" {
			vars["OTHER_CA"] = base64.StdEncoding.EncodeToString(must[[]byte](t)(os.ReadFile(file)))
		}
	}
	auth, err := json.Marshal(corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "aws-auth", Namespace: "kube-system"}, Data: map[string]string{"mapRoles": w.awsAuth(roles)},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &failure{w: w, dir: w.dir, vars: vars}
	f.sh(t, "aws eks update-kubeconfig --name $CLUSTER")
	if err := os.WriteFile(filepath.Join(w.dir, name+".json"), auth, 0o600); err != nil {
		t.Fatal(err)
	}
	f.sh(t, "kubectl apply -f "+name+".json")
}

// role makes a node's role with its policies and its instance profile.
func (w *failureWorld) role(t *testing.T, name, path string) {
	t.Helper()
	ctx, c := w.ctx, w.fixtures.iam
	must[*awsiam.CreateRoleOutput](t)(c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, Path: &path, AssumeRolePolicyDocument: aws.String(nodeTrust)}))
	for _, p := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"} {
		must[*awsiam.AttachRolePolicyOutput](t)(c.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &name, PolicyArn: aws.String("arn:aws:iam::aws:policy/" + p)}))
	}
	must[*awsiam.CreateInstanceProfileOutput](t)(c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &name}))
	must[*awsiam.AddRoleToInstanceProfileOutput](t)(c.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &name}))
}

// own makes what a row has for itself, and returns the row's variables.
func (w *failureWorld) own(t *testing.T, f *failures.Failure) map[string]string {
	t.Helper()
	ctx, c := w.ctx, w.fixtures.ec2
	vars := map[string]string{}
	for k, v := range w.worlds[f.World] {
		vars[k] = v
	}
	if f.Own&failures.OwnGroup != 0 {
		sg := must[*awsec2.CreateSecurityGroupOutput](t)(c.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("w4-" + f.ID), Description: &f.ID, VpcId: aws.String(vars["VPC"])}))
		vars["SG"] = *sg.GroupId
	}
	if f.Own&failures.OwnTable != 0 {
		table := must[*awsec2.CreateRouteTableOutput](t)(c.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: aws.String(vars["VPC"])}))
		vars["TABLE"] = *table.RouteTable.RouteTableId
		w.defaultRoute(t, vars["TABLE"], vars["IGW"])
	}
	if f.Own&(failures.OwnSubnet|failures.OwnSmallSubnet) != 0 {
		w.mu.Lock()
		n := w.subnets
		w.subnets++
		w.mu.Unlock()
		size := 24
		if f.Own&failures.OwnSmallSubnet != 0 {
			size = 28
		}
		vars["SUBNET"] = w.subnet(t, vars["VPC"], fmt.Sprintf("10.40.%d.0/%d", n, size), "a", vars["TABLE"], true)
	}
	if f.Own&failures.OwnACL != 0 {
		acl := must[*awsec2.CreateNetworkAclOutput](t)(c.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: aws.String(vars["VPC"])}))
		vars["ACL"] = *acl.NetworkAcl.NetworkAclId
		for _, egress := range []bool{false, true} {
			must[*awsec2.CreateNetworkAclEntryOutput](t)(c.CreateNetworkAclEntry(ctx, &awsec2.CreateNetworkAclEntryInput{
				NetworkAclId: acl.NetworkAcl.NetworkAclId, Egress: &egress, RuleNumber: aws.Int32(100), Protocol: aws.String("-1"), CidrBlock: aws.String("0.0.0.0/0"), RuleAction: ec2types.RuleActionAllow,
			}))
		}
		acls := must[*awsec2.DescribeNetworkAclsOutput](t)(c.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{Filters: []ec2types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{vars["SUBNET"]}}}}))
		for _, a := range acls.NetworkAcls[0].Associations {
			if *a.SubnetId == vars["SUBNET"] {
				must[*awsec2.ReplaceNetworkAclAssociationOutput](t)(c.ReplaceNetworkAclAssociation(ctx, &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: a.NetworkAclAssociationId, NetworkAclId: acl.NetworkAcl.NetworkAclId}))
			}
		}
	}
	if f.Own&(failures.OwnRole|failures.OwnRoleUnmapped|failures.OwnRolePath) != 0 {
		name, path := "w4-"+f.ID, "/"
		if f.Own&failures.OwnRolePath != 0 {
			path = "/ops/"
		}
		w.role(t, name, path)
		vars["ROLE"], vars["PROFILE"], vars["ROLE_ARN"] = name, name, "arn:aws:iam::000000000000:role"+path+name
	}
	if f.Own&failures.OwnVPC != 0 {
		own := w.vpc(t, "10.60.0.0/16", true)
		vars["OWN_VPC"], vars["SUBNET"] = own["VPC"], w.subnet(t, own["VPC"], "10.60.0.0/24", "a", "", true)
		sg := must[*awsec2.CreateSecurityGroupOutput](t)(c.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("w4-" + f.ID), Description: &f.ID, VpcId: aws.String(own["VPC"])}))
		vars["SG"] = *sg.GroupId
	}
	return vars
}

// baseNode launches the open cluster's node for pods, labelled w4=base.
func (w *failureWorld) baseNode(t *testing.T) {
	t.Helper()
	base := &failure{w: w, dir: w.dir, vars: w.worlds[failures.Open]}
	for _, f := range failures.All() {
		if f.ID != "type-too-small" {
			continue
		}
		base.writeUserData(t, strings.Replace(f.FixedUserData, "w4=small", "w4=base", 1))
		base.launchBy(t, f.FixedLaunch)
	}
	base.waitReady(t)
	base.vars["BASE_NODE"] = base.vars["NODE"]
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drydock-dev/drydock/internal/store/dump"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// oldData reads data that an older version has written: test/data/NAME.
func oldData(name string) ([]dump.Pair, error) {
	f, err := os.Open(filepath.Join("..", "data", name, "etcd.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return dump.Read(f)
}

// restore NAME makes the data folder of the daemon one with the data of test/data/NAME.
func restore(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: restore NAME")
	}
	pairs, err := oldData(args[0])
	ts.Check(err)
	ts.Check(dump.ToStore(context.Background(), filepath.Join(ts.Getenv("DRYDOCK_DATA_DIR"), "store"), pairs))
}

// editdata KEY PATTERN NEW replaces what matches in the value of a key below the store's
// prefix. The daemon must be down.
func editData(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 || neg {
		ts.Fatalf("usage: editdata KEY PATTERN NEW")
	}
	ctx, dir := context.Background(), filepath.Join(ts.Getenv("DRYDOCK_DATA_DIR"), "store")
	pairs, err := dump.FromStore(ctx, dir)
	ts.Check(err)
	i := slices.IndexFunc(pairs, func(p dump.Pair) bool { return p.Key == "/drydock/"+args[0] })
	if i < 0 {
		ts.Fatalf("no key %s", args[0])
	}
	old := pairs[i].Value()
	edited := regexp.MustCompile(args[1]).ReplaceAll(old, []byte(args[2]))
	if bytes.Equal(edited, old) {
		ts.Fatalf("%s has no match: %s", args[0], old)
	}
	pairs[i].SetValue(edited)
	ts.Check(os.RemoveAll(dir))
	ts.Check(dump.ToStore(ctx, dir, pairs))
}

// TestOldData opens data of older versions and asks every service for what it had.
func TestOldData(t *testing.T) {
	names, err := os.ReadDir("../data")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.IsDir() {
			t.Run(n.Name(), func(t *testing.T) { testOldData(t, n.Name()) })
		}
	}
}

func testOldData(t *testing.T, name string) {
	bin := testkit.Program(t)
	pairs, err := oldData(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.MkdirTemp("", "dd")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
		defer cancel()
		cmd := program(ctx, bin, append(args, "--data-dir", data)...)
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("drydock %v: %v", args, err)
		}
		return out
	}
	t.Cleanup(func() {
		down(bin, data, t.Log)
		os.RemoveAll(data)
	})
	if err := dump.ToStore(t.Context(), filepath.Join(data, "store"), pairs); err != nil {
		t.Fatal(err)
	}
	run("up", "-d", "--port", "0", "--warm-spares", "0")
	var env map[string]string
	if err := json.Unmarshal(run("env", "--output", "json"), &env); err != nil {
		t.Fatal(err)
	}
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]),
		Credentials: credentials.NewStaticCredentialsProvider(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], ""),
	}
	ctx := t.Context()
	same := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}

	eks, cluster := awseks.NewFromConfig(cfg), aws.String("fixture")
	clusters := must[*awseks.ListClustersOutput](t)(eks.ListClusters(ctx, &awseks.ListClustersInput{}))
	same("clusters", clusters.Clusters, []string{"expired", "fixture"})
	group := must[*awseks.DescribeNodegroupOutput](t)(eks.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: cluster, NodegroupName: aws.String("workers")}))
	same("node group", []any{string(group.Nodegroup.Status), *group.Nodegroup.ScalingConfig.DesiredSize, group.Nodegroup.Labels},
		[]any{"ACTIVE", int32(2), map[string]string{"pool": "workers"}})
	profile := must[*awseks.DescribeFargateProfileOutput](t)(eks.DescribeFargateProfile(ctx, &awseks.DescribeFargateProfileInput{ClusterName: cluster, FargateProfileName: aws.String("serverless")}))
	same("Fargate profile", string(profile.FargateProfile.Status), "ACTIVE")
	addons := must[*awseks.ListAddonsOutput](t)(eks.ListAddons(ctx, &awseks.ListAddonsInput{ClusterName: cluster}))
	same("add-ons", addons.Addons, []string{"eks-pod-identity-agent"})
	associations := must[*awseks.ListPodIdentityAssociationsOutput](t)(eks.ListPodIdentityAssociations(ctx, &awseks.ListPodIdentityAssociationsInput{ClusterName: cluster}))
	same("pod identity associations", len(associations.Associations), 1)
	policies := must[*awseks.ListAssociatedAccessPoliciesOutput](t)(eks.ListAssociatedAccessPolicies(ctx, &awseks.ListAssociatedAccessPoliciesInput{
		ClusterName: cluster, PrincipalArn: aws.String("arn:aws:iam::000000000000:user/team/jane"),
	}))
	same("access policies", len(policies.AssociatedAccessPolicies), 1)

	iam := awsiam.NewFromConfig(cfg)
	users := must[*awsiam.ListUsersOutput](t)(iam.ListUsers(ctx, &awsiam.ListUsersInput{PathPrefix: aws.String("/team/")}))
	same("users", []any{len(users.Users), *users.Users[0].UserName}, []any{1, "jane"})
	roles := must[*awsiam.ListRolesOutput](t)(iam.ListRoles(ctx, &awsiam.ListRolesInput{PathPrefix: aws.String("/")}))
	for _, want := range []string{"cluster", "node", "fargate", "pod"} {
		found := false
		for _, r := range roles.Roles {
			found = found || *r.RoleName == want
		}
		same("role "+want, found, true)
	}
	oidc := must[*awsiam.ListOpenIDConnectProvidersOutput](t)(iam.ListOpenIDConnectProviders(ctx, &awsiam.ListOpenIDConnectProvidersInput{}))
	same("identity providers", len(oidc.OpenIDConnectProviderList), 1)
	keys := must[*awsiam.ListAccessKeysOutput](t)(iam.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: aws.String("jane")}))
	same("access keys", len(keys.AccessKeyMetadata), 1)
	// The secret is as good as it was.
	jane := cfg
	jane.Credentials = credentials.NewStaticCredentialsProvider(*keys.AccessKeyMetadata[0].AccessKeyId, secretOf(t, pairs, *keys.AccessKeyMetadata[0].AccessKeyId), "")
	me := must[*awssts.GetCallerIdentityOutput](t)(awssts.NewFromConfig(jane).GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{}))
	same("caller", *me.Arn, "arn:aws:iam::000000000000:user/team/jane")

	kms := awskms.NewFromConfig(cfg)
	sealed := must[*awskms.EncryptOutput](t)(kms.Encrypt(ctx, &awskms.EncryptInput{KeyId: aws.String("alias/fixture"), Plaintext: []byte("x")}))
	opened := must[*awskms.DecryptOutput](t)(kms.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob}))
	same("KMS", string(opened.Plaintext), "x")
	ssm := awsssm.NewFromConfig(cfg)
	for name, want := range map[string]string{"/fixture/plain": "second version", "/fixture/plain:1": "plain text", "/fixture/secret": "the secret"} {
		p := must[*awsssm.GetParameterOutput](t)(ssm.GetParameter(ctx, &awsssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)}))
		same(name, *p.Parameter.Value, want)
	}

	ec2 := awsec2.NewFromConfig(cfg)
	instances := must[*awsec2.DescribeInstancesOutput](t)(ec2.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{}))
	running := 0
	for _, r := range instances.Reservations {
		for _, i := range r.Instances {
			if i.State.Name == "running" {
				running++
			}
		}
	}
	same("running instances", running, 5)
	templates := must[*awsec2.DescribeLaunchTemplateVersionsOutput](t)(ec2.DescribeLaunchTemplateVersions(ctx, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("fixture")}))
	same("launch template versions", len(templates.LaunchTemplateVersions), 2)
	vpcs := must[*awsec2.DescribeVpcsOutput](t)(ec2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}))
	same("VPCs", len(vpcs.Vpcs), 3)
	groups := must[*awsautoscaling.DescribeAutoScalingGroupsOutput](t)(awsautoscaling.NewFromConfig(cfg).DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{}))
	size := map[bool]int{}
	for _, g := range groups.AutoScalingGroups {
		size[strings.HasPrefix(*g.AutoScalingGroupName, "eks-")] += len(g.Instances)
	}
	same("Auto Scaling groups' instances, of EKS and others", size, map[bool]int{true: 2, false: 1})
	balancers := must[*awselbv2.DescribeLoadBalancersOutput](t)(awselbv2.NewFromConfig(cfg).DescribeLoadBalancers(ctx, &awselbv2.DescribeLoadBalancersInput{Names: []string{"fixture"}}))
	same("load balancers", len(balancers.LoadBalancers), 1)
	classic := must[*awselb.DescribeLoadBalancersOutput](t)(awselb.NewFromConfig(cfg).DescribeLoadBalancers(ctx, &awselb.DescribeLoadBalancersInput{LoadBalancerNames: []string{"classic"}}))
	same("Classic Load Balancers", len(classic.LoadBalancerDescriptions), 1)
}

// secretOf returns the secret of an access key in old data.
func secretOf(t *testing.T, pairs []dump.Pair, id string) string {
	t.Helper()
	i := slices.IndexFunc(pairs, func(p dump.Pair) bool {
		return strings.HasPrefix(p.Key, "/drydock/aws/iam/access-key/") && strings.HasSuffix(p.Key, "/"+id)
	})
	if i < 0 {
		t.Fatalf("no access key %s", id)
	}
	var key struct{ Secret string }
	if err := json.Unmarshal(pairs[i].Value(), &key); err != nil {
		t.Fatal(err)
	}
	return key.Secret
}

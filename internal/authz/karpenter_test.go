package authz_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
)

const ec2Trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// owned are the tags that Karpenter adds to everything it creates.
var owned = []string{"kubernetes.io/cluster/demo", "owned", "eks:eks-cluster-name", "demo", "karpenter.sh/nodepool", "default"}

// karpenter is a session of a role with that policy, and the user who assumed it.
func (w *world) karpenter(t *testing.T, root caller, account, policy string) (helper, session caller) {
	t.Helper()
	ctx := t.Context()
	helper = w.user(t, root, "helper", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:*","Resource":"*"}]}`)
	must[*awsiam.CreateRoleOutput](t)(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName:                 aws.String("karpenter"),
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + account + `"},"Action":"sts:AssumeRole"}]}`),
	}))
	w.setPolicy(t, root, policy)
	return helper, w.session(t, helper, "arn:aws:iam::"+account+":role/karpenter")
}

func (w *world) setPolicy(t *testing.T, root caller, policy string) {
	t.Helper()
	must[*awsiam.PutRolePolicyOutput](t)(root.iam.PutRolePolicy(t.Context(), &awsiam.PutRolePolicyInput{
		RoleName: aws.String("karpenter"), PolicyName: aws.String("controller"), PolicyDocument: &policy,
	}))
}

// TestKarpentersPolicy makes the calls of Karpenter's controller, and variations of them, with its published policy.
func TestKarpentersPolicy(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)

	helper, k := w.karpenter(t, root, account, document(t, "karpenter.json", account))
	for _, name := range []string{"KarpenterNodeRole-demo", "Administrators"} {
		must[*awsiam.CreateRoleOutput](t)(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(ec2Trust)}))
	}
	must[*awsiam.CreateInstanceProfileOutput](t)(root.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("admin")}))
	must[*awsiam.AddRoleToInstanceProfileOutput](t)(root.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("admin"), RoleName: aws.String("Administrators")}))
	must[*awsiam.CreateInstanceProfileOutput](t)(root.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("untagged")}))

	image := must[*awsec2.DescribeImagesOutput](t)(k.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}})).Images[0]
	arch := ec2types.InstanceTypeM5Large
	if image.Architecture == ec2types.ArchitectureValuesArm64 {
		arch = ec2types.InstanceTypeM6gLarge
	}
	template := func(c caller, name string, pairs ...string) error {
		in := &awsec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &name,
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
				ImageId: image.ImageId, InstanceType: arch,
				TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: tags(owned...)}},
			},
		}
		if pairs != nil {
			in.TagSpecifications = []ec2types.TagSpecification{tagged(ec2types.ResourceTypeLaunchTemplate, pairs...)}
		}
		_, err := c.ec2.CreateLaunchTemplate(ctx, in)
		return err
	}
	// Somebody else's templates.
	must[string](t)("", template(root, "foreign"))
	must[string](t)("", template(root, "other-cluster", "kubernetes.io/cluster/other", "owned", "karpenter.sh/nodepool", "default"))

	launch := func(template string, dryRun bool, specs ...ec2types.TagSpecification) (*awsec2.RunInstancesOutput, error) {
		return k.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), DryRun: &dryRun, TagSpecifications: specs,
			LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: &template},
		})
	}
	all := []ec2types.TagSpecification{tagged(ec2types.ResourceTypeInstance, owned...), tagged(ec2types.ResourceTypeVolume, owned...)}
	var instance string
	profile := func(name string, pairs ...string) error {
		in := &awsiam.CreateInstanceProfileInput{InstanceProfileName: &name}
		for i := 0; i+1 < len(pairs); i += 2 {
			in.Tags = append(in.Tags, iamtypes.Tag{Key: &pairs[i], Value: &pairs[i+1]})
		}
		_, err := k.iam.CreateInstanceProfile(ctx, in)
		return err
	}
	nodeclass := []string{"kubernetes.io/cluster/demo", "owned", "eks:eks-cluster-name", "demo", "topology.kubernetes.io/region", "us-east-1", "karpenter.k8s.aws/ec2nodeclass", "default"}
	elsewhere := k.cfg
	elsewhere.Region = "eu-west-1"

	for _, tt := range []struct {
		name string
		do   func() error
		// action and resource of the refusal; empty if allowed
		action, resource string
	}{
		{"a tagged launch template", func() error { return template(k, "mine", owned...) }, "", ""},
		{"a launch template without tags", func() error { return template(k, "bare") }, "ec2:CreateLaunchTemplate", "launch-template/*"},
		{"a launch template of another cluster", func() error { return template(k, "x", "kubernetes.io/cluster/other", "owned") }, "ec2:CreateLaunchTemplate", "launch-template/*"},
		{"a dry run", func() error { _, err := launch("mine", true, all...); return err }, "DryRun", ""},
		{"a launch", func() error {
			out, err := launch("mine", false, all...)
			if err == nil {
				instance = *out.Instances[0].InstanceId
			}
			return err
		}, "", ""},
		{"a launch without tags", func() error { _, err := launch("mine", false); return err }, "ec2:RunInstances", "instance/*"},
		{"a dry run without tags", func() error { _, err := launch("mine", true); return err }, "ec2:RunInstances", "instance/*"},
		{"a launch without tags on volumes", func() error { _, err := launch("mine", false, all[0]); return err }, "ec2:RunInstances", "volume/*"},
		{"a launch from a template without the discovery tag", func() error { _, err := launch("foreign", false, all...); return err }, "ec2:RunInstances", "launch-template/lt-"},
		{"a launch from a template of another cluster", func() error { _, err := launch("other-cluster", false, all...); return err }, "ec2:RunInstances", "launch-template/lt-"},
		{"tags on its own instance", func() error {
			_, err := k.ec2.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{instance}, Tags: tags("Name", "default/n")})
			return err
		}, "", ""},
		{"other tags on its own instance", func() error {
			_, err := k.ec2.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{instance}, Tags: tags("team", "x")})
			return err
		}, "ec2:CreateTags", "instance/i-"},
		{"an instance profile", func() error { return profile("mine", nodeclass...) }, "", ""},
		{"an instance profile without tags", func() error { return profile("bare") }, "iam:CreateInstanceProfile", "instance-profile/bare"},
		{"its role into the profile", func() error {
			_, err := k.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("mine"), RoleName: aws.String("KarpenterNodeRole-demo")})
			return err
		}, "", ""},
		{"another role into the profile", func() error {
			_, err := k.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("mine"), RoleName: aws.String("Administrators")})
			return err
		}, "iam:PassRole", "role/Administrators"},
		{"a foreign profile", func() error {
			_, err := k.iam.DeleteInstanceProfile(ctx, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("untagged")})
			return err
		}, "iam:DeleteInstanceProfile", "instance-profile/untagged"},
		{"a launch with a foreign profile", func() error {
			_, err := k.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
				MinCount: aws.Int32(1), MaxCount: aws.Int32(1), TagSpecifications: all,
				LaunchTemplate:     &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("mine")},
				IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("admin")},
			})
			return err
		}, "iam:PassRole", "role/Administrators"},
		{"a published parameter", func() error {
			_, err := awsssm.NewFromConfig(k.cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id")})
			return err
		}, "", ""},
		{"a parameter of the account", func() error {
			_, err := awsssm.NewFromConfig(k.cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/secret")})
			return err
		}, "ssm:GetParameter", "parameter/secret"},
		{"subnets", func() error { _, err := k.ec2.DescribeSubnets(ctx, nil); return err }, "", ""},
		{"subnets of another region", func() error { _, err := awsec2.NewFromConfig(elsewhere).DescribeSubnets(ctx, nil); return err }, "ec2:DescribeSubnets", ""},
		{"network ACLs", func() error { _, err := k.ec2.DescribeNetworkAcls(ctx, nil); return err }, "ec2:DescribeNetworkAcls", ""},
		{"its own instance's end", func() error {
			_, err := k.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{instance}})
			return err
		}, "", ""},
		{"its own template's end", func() error {
			_, err := k.ec2.DeleteLaunchTemplate(ctx, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("mine")})
			return err
		}, "", ""},
		{"a foreign template's end", func() error {
			_, err := k.ec2.DeleteLaunchTemplate(ctx, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("foreign")})
			return err
		}, "ec2:DeleteLaunchTemplate", "launch-template/lt-"},
		{"a user", func() error {
			_, err := k.iam.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("eve")})
			return err
		}, "iam:CreateUser", "user/eve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			switch {
			case tt.action == "" && err != nil:
				t.Fatal(err)
			case tt.action == "DryRun":
				if code(err) != "DryRunOperation" {
					t.Fatal(err)
				}
			case tt.action != "":
				said := message(err)
				if !strings.Contains(said, k.arn+" is not authorized to perform: "+tt.action+" ") ||
					tt.resource != "" && !regexp.MustCompile(`on resource: arn:aws:[a-z0-9]+:[a-z0-9-]*:[0-9]*:`+regexp.QuoteMeta(tt.resource)).MatchString(said) ||
					!strings.Contains(said, "because no identity-based policy allows the "+tt.action+" action") {
					t.Fatalf("%v, want a refusal of %s on %s", err, tt.action, tt.resource)
				}
			}
		})
	}

	t.Run("the encoded message decodes", func(t *testing.T) {
		must[string](t)("", template(root, "mine", owned...))
		_, err := launch("foreign", false, all...)
		if code(err) != "UnauthorizedOperation" {
			t.Fatal(err)
		}
		_, encoded, ok := strings.Cut(message(err), ". Encoded authorization failure message: ")
		if !ok {
			t.Fatal(err)
		}
		if _, err := k.sts.DecodeAuthorizationMessage(ctx, &awssts.DecodeAuthorizationMessageInput{EncodedMessage: &encoded}); code(err) != "AccessDenied" {
			t.Errorf("Karpenter may not decode, but: %v", err)
		}
		out := must[*awssts.DecodeAuthorizationMessageOutput](t)(helper.sts.DecodeAuthorizationMessage(ctx, &awssts.DecodeAuthorizationMessageInput{EncodedMessage: &encoded}))
		var got struct {
			Allowed, ExplicitDeny bool
			Context               struct {
				Principal        struct{ ID, ARN string }
				Action, Resource string
				Conditions       struct {
					Items []struct {
						Key    string
						Values struct{ Items []struct{ Value string } }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(*out.DecodedMessage), &got); err != nil {
			t.Fatal(err)
		}
		c := got.Context
		if got.Allowed || got.ExplicitDeny || c.Principal.ARN != k.arn || c.Action != "ec2:RunInstances" || !strings.Contains(c.Resource, ":launch-template/lt-") {
			t.Errorf("decoded %s", *out.DecodedMessage)
		}
		keys := map[string]string{}
		for _, i := range c.Conditions.Items {
			keys[i.Key] = i.Values.Items[0].Value
		}
		if keys["ec2:LaunchTemplate"] != c.Resource || keys["aws:RequestedRegion"] != "us-east-1" || keys["ec2:IsLaunchTemplateResource"] != "false" {
			t.Errorf("conditions %v", keys)
		}
		stranger, _ := w.root(t)
		for name, who := range map[string]caller{"another account": stranger, "a forged message": root} {
			text := encoded
			if name == "a forged message" {
				text = "A" + encoded[1:len(encoded)-4] + "AAAA"
			}
			if _, err := who.sts.DecodeAuthorizationMessage(ctx, &awssts.DecodeAuthorizationMessageInput{EncodedMessage: &text}); code(err) != "InvalidAuthorizationMessageException" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAFleetReportsWhatItMayNotLaunch: CreateFleet itself is allowed; launching from a pool is not, and the answer
// says so where Karpenter looks for it.
func TestAFleetReportsWhatItMayNotLaunch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	policy := strings.Replace(document(t, "karpenter.json", account), `"Action": ["ec2:RunInstances", "ec2:CreateFleet"],
      "Condition"`, `"Action": ["ec2:CreateFleet"],
      "Condition"`, 1)
	_, k := w.karpenter(t, root, account, policy)
	image := must[*awsec2.DescribeImagesOutput](t)(k.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []ec2types.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}}})).Images[0]
	subnet := must[*awsec2.DescribeSubnetsOutput](t)(k.ec2.DescribeSubnets(ctx, nil)).Subnets[0]
	must[*awsec2.CreateLaunchTemplateOutput](t)(k.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("mine"), TagSpecifications: []ec2types.TagSpecification{tagged(ec2types.ResourceTypeLaunchTemplate, owned...)},
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId:           image.ImageId,
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: tags(owned...)}},
		},
	}))
	fleet := func(template string, kinds ...ec2types.ResourceType) (*awsec2.CreateFleetOutput, error) {
		in := &awsec2.CreateFleetInput{
			Type:                        ec2types.FleetTypeInstant,
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &template, Version: aws.String("$Latest")},
				Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: ec2types.InstanceTypeM5Large, SubnetId: subnet.SubnetId}},
			}},
		}
		for _, kind := range kinds {
			in.TagSpecifications = append(in.TagSpecifications, tagged(kind, owned...))
		}
		return k.ec2.CreateFleet(ctx, in)
	}
	all := []ec2types.ResourceType{ec2types.ResourceTypeFleet, ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume}

	out := must[*awsec2.CreateFleetOutput](t)(fleet("mine", all...))
	if len(out.Instances) != 0 || len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != "UnauthorizedOperation" ||
		!strings.Contains(aws.ToString(out.Errors[0].ErrorMessage), "is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:"+account+":launch-template/lt-") ||
		!strings.Contains(aws.ToString(out.Errors[0].ErrorMessage), "Encoded authorization failure message: ") {
		t.Errorf("%d instances, errors %+v", len(out.Instances), out.Errors)
	}
	if _, err := fleet("mine", ec2types.ResourceTypeInstance); code(err) != "UnauthorizedOperation" || !strings.Contains(message(err), "ec2:CreateFleet on resource: arn:aws:ec2:us-east-1:"+account+":fleet/*") {
		t.Errorf("a fleet without tags: %v", err)
	}
	// With the published policy the same fleet launches.
	w.setPolicy(t, root, document(t, "karpenter.json", account))
	if out := must[*awsec2.CreateFleetOutput](t)(fleet("mine", all...)); len(out.Instances) != 1 || len(out.Errors) != 0 {
		t.Errorf("allowed: %d instances, errors %+v", len(out.Instances), out.Errors)
	}
}

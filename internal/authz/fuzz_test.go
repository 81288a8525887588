package authz_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// fuzzed are operations whose targets are found in each of the ways there are.
var fuzzed = []struct {
	service, operation string
	input              func() any
}{
	{"ec2", "RunInstances", func() any { return new(ec2.RunInstancesInput) }},
	{"ec2", "CreateFleet", func() any { return new(ec2.CreateFleetInput) }},
	{"ec2", "CreateTags", func() any { return new(ec2.CreateTagsInput) }},
	{"ec2", "CreateNetworkInterface", func() any { return new(ec2.CreateNetworkInterfaceInput) }},
	{"eks", "CreateCluster", func() any { return new(eks.CreateClusterInput) }},
	{"eks", "CreateNodegroup", func() any { return new(eks.CreateNodegroupInput) }},
	{"eks", "UpdateAccessEntry", func() any { return new(eks.UpdateAccessEntryInput) }},
	{"iam", "CreateRole", func() any { return new(iam.CreateRoleInput) }},
	{"iam", "AddRoleToInstanceProfile", func() any { return new(iam.AddRoleToInstanceProfileInput) }},
	{"iam", "SimulatePrincipalPolicy", func() any { return new(iam.SimulatePrincipalPolicyInput) }},
	{"ssm", "GetParameters", func() any { return new(ssm.GetParametersInput) }},
	{"sts", "AssumeRole", func() any { return new(sts.AssumeRoleInput) }},
	{"autoscaling", "CreateAutoScalingGroup", func() any { return new(autoscaling.CreateAutoScalingGroupInput) }},
	{"nosuch", "Operation", func() any { return new(struct{ Name *string }) }},
}

// FuzzAuthorize authorizes requests that a client may have made up. Nothing panics; a caller without policies may do
// nothing; a caller with a policy for everything may do everything; an explicit deny of everything wins; a denial can
// be rendered and explained.
func FuzzAuthorize(f *testing.F) {
	for i, in := range []string{
		`{"ImageId":"ami-1","LaunchTemplate":{"LaunchTemplateName":"x"},"SubnetId":"subnet-1","TagSpecifications":[{"ResourceType":"instance","Tags":[{"Key":"a","Value":null}]}]}`,
		`{"LaunchTemplateConfigs":[{"LaunchTemplateSpecification":{"LaunchTemplateId":"lt-1"},"Overrides":[{"SubnetId":""}]}]}`,
		`{"Resources":["","vpc","vpc-1","arn:aws:ec2:::vpc/x"],"Tags":[{}]}`,
		`{"SubnetId":"${aws:username}","Groups":["*","?"]}`,
		`{"Name":"a/b","RoleArn":"arn:aws:iam:::role/","AccessConfig":{"AuthenticationMode":"x"},"Tags":{"":"","A":"b","a":"c"}}`,
		`{"ClusterName":"","NodegroupName":"/","NodeRole":":","Subnets":[""],"LaunchTemplate":{"Name":"x","Version":"-1"}}`,
		`{"ClusterName":"c","PrincipalArn":"arn:aws:iam::1:role/x"}`,
		`{"RoleName":"r","Path":"/../","Tags":[{"Key":"k"}]}`,
		`{"RoleName":"r","InstanceProfileName":"arn:aws:iam::000000000000:instance-profile/p"}`,
		`{"PolicySourceArn":"arn:aws:iam::000000000000:user/"}`,
		`{"Names":["/aws//x","//","arn:aws:ssm:us-east-1::parameter/aws/x"]}`,
		`{"RoleArn":"arn:aws:iam::000000000000:role/none","RoleSessionName":""}`,
		`{"MixedInstancesPolicy":{"LaunchTemplate":{"LaunchTemplateSpecification":{"LaunchTemplateId":"lt"}}},"VPCZoneIdentifier":",,"}`,
		`{"Name":"x"}`,
	} {
		f.Add(uint8(i), in, "10.0.0.1", "agent")
	}
	f.Add(uint8(2), "{}", "", "") // tags nothing
	w := newWorld(f)
	everything, err := policy.Parse(policy.Identity, allow("*", "*", ""))
	if err != nil {
		f.Fatal(err)
	}
	nothing, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"*","Resource":"*"}]}`)
	if err != nil {
		f.Fatal(err)
	}
	authorizers := map[string]*authz.Authorizer{}
	for name, doc := range map[string]*policy.Document{"no policies": nil, "everything": everything, "denied": nothing} {
		authorizers[name] = authz.New(authz.Config{
			Services: services,
			Policies: func(awsapi.Principal) (out policy.Policies, root bool) {
				if doc != nil {
					out.Identity = []policy.Source{{Name: "inline", Document: doc}}
				}
				return out, false
			},
			Resolvers: map[string]authz.Resolver{"ec2": w.ec2.Authz(), "iam": w.iam.Authz(), "ssm": w.ssm.Authz()},
			Store:     w.Store,
		})
	}
	f.Fuzz(func(t *testing.T, which uint8, input, address, agent string) {
		op := fuzzed[int(which)%len(fuzzed)]
		in := op.input()
		if json.Unmarshal([]byte(input), in) != nil {
			return
		}
		addr, _ := netip.ParseAddr(address)
		for name, a := range authorizers {
			call := &awsapi.Call{
				Service: op.service, Operation: op.operation, Account: "111122223333", Region: "us-east-1", Time: time.Unix(0, 0), SourceIP: addr, UserAgent: agent,
				Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: "111122223333", Name: "me", ARN: "arn:aws:iam::111122223333:user/me", UserID: "AIDAEXAMPLE"},
			}
			err := a.Authorize(t.Context(), call, in)
			if (err == nil) && name != "everything" {
				t.Errorf("%s: %s %s is allowed", name, op.operation, input)
			}
			var denial *authz.Denial
			if !errors.As(err, &denial) {
				continue
			}
			// The trust policy of a role and other accounts also decide.
			if own, _ := arn.Parse(denial.Request.Resource); name == "everything" && op.service != "sts" && own.Account == "111122223333" {
				t.Errorf("%s is refused to who may do everything: %v", op.operation, err)
			}
			if denial.Render().Message == "" {
				t.Error("no message")
			}
			if _, err := json.Marshal(denial.Record("id")); err != nil {
				t.Error(err)
			}
		}
	})
}

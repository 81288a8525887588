package why

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/transport/http"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestWhyRequest shows what `drydock why request` says of refusals of each kind.
func TestWhyRequest(t *testing.T) {
	log := openJournal(t)
	var users *iam.Service
	var authorizer *authz.Authorizer
	s := testkit.NewServer(t, testkit.Config{
		Journal: log,
		Services: func(st *store.Store) []awsapi.Service {
			users = iam.New(iam.Config{Store: st})
			machines := ec2.New(ec2.Config{Store: st})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), machines.AWS(), new(sts.Service).AWS()},
				Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"ec2": machines.Authz(), "iam": users.Authz()},
				EndpointPolicy: machines.EndpointPolicy, Store: st,
			})
			sessions := sts.New(sts.Config{Store: st, Directory: users, Authorize: authorizer.AuthorizeTargets})
			return []awsapi.Service{users.AWS(), machines.AWS(), sessions.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			return sigv4.Credential{SecretKey: secret, Principal: p}, err
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error {
			return authorizer.Authorize(ctx, call, in)
		},
	})
	x := New(Config{Journal: log, Authorizer: authorizer, IAM: users})
	ctx, account := t.Context(), s.Account(t)
	root := awsiam.NewFromConfig(s.AWSConfig(account))
	rootEC2 := awsec2.NewFromConfig(s.AWSConfig(account))
	if _, err := root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	key, err := root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("dev")})
	if err != nil {
		t.Fatal(err)
	}
	dev := s.AWSConfigWith(credentials.NewStaticCredentialsProvider(*key.AccessKey.AccessKeyId, *key.AccessKey.SecretAccessKey, ""))
	devEC2, devIAM := awsec2.NewFromConfig(dev), awsiam.NewFromConfig(dev)
	put := func(name, document string) {
		t.Helper()
		if _, err := root.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("dev"), PolicyName: &name, PolicyDocument: &document}); err != nil {
			t.Fatal(err)
		}
	}
	vpc, err := rootEC2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), TagSpecifications: []ec2types.TagSpecification{
		{ResourceType: ec2types.ResourceTypeVpc, Tags: []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}

	var b strings.Builder
	n := testkit.NewNormalizer().Hide("REQUEST", `[0-9a-f]{8}-[0-9a-f-]{27}`).Hide("ACCOUNT", account).Hide("VPC", `vpc-[0-9a-f]+`)
	times := regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z`)
	explain := func(title string, err error, meanwhile func()) {
		t.Helper()
		var response *http.ResponseError
		var withID interface{ ServiceRequestID() string }
		if err == nil || !errors.As(err, &response) || !errors.As(err, &withID) {
			t.Fatalf("%s: %v", title, err)
		}
		if meanwhile != nil {
			meanwhile()
		}
		e, ok, err := x.explainRequest(ctx, account, withID.ServiceRequestID())
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", title, ok, err)
		}
		last, _, err := x.explainRequest(ctx, account, "")
		if err != nil || last.RequestID != e.RequestID {
			t.Errorf("%s: the last denied is %s, %v", title, last.RequestID, err)
		}
		b.WriteString("== " + title + "\n" + n.Replace(times.ReplaceAllString(e.Text(), "TIME")) + "\n")
	}

	_, err = devEC2.DescribeVpcs(ctx, nil)
	explain("a user without policies", err, nil)

	put("network", `{"Version":"2012-10-17","Statement":[
		{"Sid":"Read","Effect":"Allow","Action":"ec2:Describe*","Resource":"*"},
		{"Sid":"OwnTeam","Effect":"Allow","Action":["ec2:DeleteVpc","ec2:CreateVpc"],"Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"green"}}}]}`)
	_, err = devEC2.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: vpc.Vpc.VpcId})
	explain("a condition that does not hold", err, nil)

	put("guard", `{"Version":"2012-10-17","Statement":[{"Sid":"NoUsers","Effect":"Deny","Action":"iam:*User","Resource":"*"},{"Effect":"Allow","Action":"iam:*","Resource":"*"}]}`)
	_, err = devIAM.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("eve")})
	explain("an explicit deny, lifted meanwhile", err, func() {
		put("guard", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:*","Resource":"*"}]}`)
	})

	trusting := func(condition string) *string {
		return aws.String(`{"Version":"2012-10-17","Statement":[{"Sid":"Partners","Effect":"Allow","Principal":{"AWS":"` + account + `"},"Action":"sts:AssumeRole","Condition":` + condition + `}]}`)
	}
	if _, err := root.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("partner"), AssumeRolePolicyDocument: trusting(`{"StringEquals":{"sts:ExternalId":"x1"}}`)}); err != nil {
		t.Fatal(err)
	}
	put("assume", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)
	devSTS := awssts.NewFromConfig(dev)
	assume := func(role string) error {
		_, err := devSTS.AssumeRole(ctx, &awssts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::" + account + ":role/" + role), RoleSessionName: aws.String("work")})
		return err
	}
	explain("a trust policy that asks for more", assume("partner"), nil)
	explain("a trust policy that asks for less meanwhile", assume("partner"), func() {
		if _, err := root.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: aws.String("partner"), PolicyDocument: trusting(`{"StringEquals":{"sts:RoleSessionName":"work"}}`)}); err != nil {
			t.Fatal(err)
		}
	})
	explain("a role that is not there", assume("none"), nil)
	testkit.Golden(t, "why_request.golden", b.String())

	out, err := devEC2.DescribeVpcs(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := middleware.GetRequestIDMetadata(out.ResultMetadata)
	if e, ok, err := x.explainRequest(ctx, "", id); err != nil || !ok || e.Refused || !strings.Contains(e.Text(), "No policy refused it.") {
		t.Errorf("an allowed request: %+v %v %v", e, ok, err)
	}
	if _, ok, err := x.explainRequest(ctx, "", "no-such-request"); ok || err != nil {
		t.Errorf("an unknown request: %v %v", ok, err)
	}
}

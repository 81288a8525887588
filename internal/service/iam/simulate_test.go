package iam_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/google/go-cmp/cmp"
)

const (
	allowGet = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Sid": "Get", "Effect": "Allow", "Action": "iam:Get*", "Resource": "*"},
    {"Sid": "Here", "Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*",
     "Condition": {"StringEquals": {"aws:RequestedRegion": "eu-west-1", "ec2:InstanceType": ["m5.large", "${aws:PrincipalTag/size}"]}}}
  ]
}`
	denyRoot = `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"iam:GetUser","Resource":"arn:aws:iam::*:user/root"}]}`
)

func entry(key string, typ iamtypes.ContextKeyTypeEnum, values ...string) iamtypes.ContextEntry {
	return iamtypes.ContextEntry{ContextKeyName: &key, ContextKeyType: typ, ContextKeyValues: values}
}

func TestSimulateCustomPolicy(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	ann := "arn:aws:iam::" + account + ":user/ann"
	for _, tt := range []struct {
		name     string
		in       awsiam.SimulateCustomPolicyInput
		decision iamtypes.PolicyEvaluationDecisionType
		matched  []string // SOURCE LINE:COLUMN-LINE:COLUMN
		missing  []string
	}{
		{"allowed", awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}},
			"allowed", []string{"PolicyInputList.1 3:17-4:77"}, nil},
		{"not allowed", awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:DeleteUser"}, PolicyInputList: []string{allowGet}}, "implicitDeny", nil, nil},
		{"denied", awsiam.SimulateCustomPolicyInput{
			ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet, denyRoot}, ResourceArns: []string{"arn:aws:iam::111122223333:user/root"},
		}, "explicitDeny", []string{"PolicyInputList.2 1:38-1:116"}, nil},
		{"keys missing", awsiam.SimulateCustomPolicyInput{ActionNames: []string{"ec2:RunInstances"}, PolicyInputList: []string{allowGet}},
			"implicitDeny", nil, []string{"aws:PrincipalTag/size", "aws:RequestedRegion", "ec2:InstanceType"}},
		{"keys given", awsiam.SimulateCustomPolicyInput{
			ActionNames: []string{"ec2:RunInstances"}, PolicyInputList: []string{allowGet},
			ContextEntries: []iamtypes.ContextEntry{entry("aws:RequestedRegion", "string", "eu-west-1"), entry("EC2:instancetype", "string", "t3.nano"), entry("aws:PrincipalTag/size", "string", "t3.nano")},
		}, "allowed", []string{"PolicyInputList.1 4:78-6:136"}, nil},
		{"bounded", awsiam.SimulateCustomPolicyInput{
			ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}, PermissionsBoundaryPolicyInputList: []string{denyRoot},
		}, "implicitDeny", nil, nil},
		{"by the resource alone", awsiam.SimulateCustomPolicyInput{
			ActionNames: []string{"sqs:SendMessage"}, PolicyInputList: []string{allowGet}, CallerArn: &ann, ResourceArns: []string{"arn:aws:sqs:us-east-1:" + account + ":q"},
			ResourcePolicy: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + ann + `"},"Action":"sqs:*","Resource":"*"}]}`),
		}, "allowed", []string{"ResourcePolicy 1:38-1:145"}, nil},
		{"across accounts both must allow", awsiam.SimulateCustomPolicyInput{
			ActionNames: []string{"sqs:SendMessage"}, PolicyInputList: []string{allowGet}, CallerArn: &ann, ResourceArns: []string{"arn:aws:sqs:us-east-1:999900009999:q"},
			ResourceOwner:  aws.String("arn:aws:iam::999900009999:root"),
			ResourcePolicy: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + ann + `"},"Action":"sqs:*","Resource":"*"}]}`),
		}, "implicitDeny", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.SimulateCustomPolicy(ctx, &tt.in)
			check(t, err)
			if len(out.EvaluationResults) != 1 {
				t.Fatalf("%d results", len(out.EvaluationResults))
			}
			r := out.EvaluationResults[0]
			if r.EvalDecision != tt.decision {
				t.Errorf("%s, want %s", r.EvalDecision, tt.decision)
			}
			var matched []string
			for _, m := range r.MatchedStatements {
				matched = append(matched, *m.SourcePolicyId+" "+position(m.StartPosition)+"-"+position(m.EndPosition))
			}
			if diff := cmp.Diff(tt.matched, matched); diff != "" {
				t.Errorf("matched (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(strings.Join(tt.missing, " "), strings.Join(r.MissingContextValues, " ")); diff != "" {
				t.Errorf("missing (-want +got)\n%s", diff)
			}
			if bounded := tt.in.PermissionsBoundaryPolicyInputList != nil; bounded != (r.PermissionsBoundaryDecisionDetail != nil) {
				t.Errorf("boundary: %+v", r.PermissionsBoundaryDecisionDetail)
			}
			if (tt.in.ResourceArns != nil) != (len(r.ResourceSpecificResults) == 1) {
				t.Errorf("%d results of resources", len(r.ResourceSpecificResults))
			}
		})
	}
}

func position(p *iamtypes.Position) string {
	return strings.Join([]string{strconv.Itoa(int(p.Line)), strconv.Itoa(int(p.Column))}, ":")
}

func TestSimulationsPage(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	in := &awsiam.SimulateCustomPolicyInput{
		ActionNames: []string{"iam:GetUser", "iam:GetRole"}, ResourceArns: []string{"arn:aws:iam::1:user/a", "arn:aws:iam::1:user/b", "arn:aws:iam::1:user/c"},
		PolicyInputList: []string{allowGet}, MaxItems: aws.Int32(4),
	}
	first := testkit.Must(c.SimulateCustomPolicy(ctx, in))(t)
	in.Marker = first.Marker
	second := testkit.Must(c.SimulateCustomPolicy(ctx, in))(t)
	var got []string
	for _, r := range append(first.EvaluationResults, second.EvaluationResults...) {
		got = append(got, *r.EvalActionName+" "+(*r.EvalResourceName)[len("arn:aws:iam::1:user/"):])
	}
	want := []string{"iam:GetUser a", "iam:GetUser b", "iam:GetUser c", "iam:GetRole a", "iam:GetRole b", "iam:GetRole c"}
	if diff := cmp.Diff(want, got); diff != "" || !first.IsTruncated || second.IsTruncated {
		t.Errorf("(-want +got)\n%s", diff)
	}
	in.Marker = aws.String("Nonsense")
	_, err := c.SimulateCustomPolicy(ctx, in)
	testkit.WantError(t, err, "ValidationError", "Invalid Marker.")
}

// The simulator's result for a principal is what really happens.
func TestSimulationAgreesWithReality(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann"), Tags: []iamtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}}})
	check(t, err)
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("bob"), Path: aws.String("/b/")})
	check(t, err)
	_, err = c.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("readers")})
	check(t, err)
	_, err = c.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("readers"), UserName: aws.String("ann")})
	check(t, err)
	put := func(name, doc string) {
		t.Helper()
		_, err := c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: &name, PolicyDocument: &doc})
		check(t, err)
	}
	_, err = c.PutGroupPolicy(ctx, &awsiam.PutGroupPolicyInput{GroupName: aws.String("readers"), PolicyName: aws.String("read"), PolicyDocument: aws.String(readerDoc)})
	check(t, err)
	put("self", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:*","Resource":"arn:aws:iam::*:user/${aws:username}"},
		{"Effect":"Deny","Action":"iam:*","Resource":"*","Condition":{"StringNotEquals":{"aws:PrincipalTag/team":"a"}}},
		{"Effect":"Deny","Action":"iam:GetUser","Resource":"arn:aws:iam::*:user/b/*"}]}`)
	_, err = c.PutUserPermissionsBoundary(ctx, &awsiam.PutUserPermissionsBoundaryInput{UserName: aws.String("ann"), PermissionsBoundary: aws.String("arn:aws:iam::aws:policy/IAMReadOnlyAccess")})
	check(t, err)
	key := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("ann")}))(t).AccessKey
	ann := w.as(*key.AccessKeyId, *key.SecretAccessKey)
	user := "arn:aws:iam::" + account + ":user/"
	for _, tt := range []struct {
		action, resource string
		call             func() error
	}{
		{"iam:GetUser", user + "ann", func() error { _, err := ann.GetUser(ctx, &awsiam.GetUserInput{}); return err }},
		{"iam:GetUser", user + "b/bob", func() error {
			_, err := ann.GetUser(ctx, &awsiam.GetUserInput{UserName: aws.String("bob")})
			return err
		}},
		{"iam:ListAccessKeys", user + "b/bob", func() error {
			_, err := ann.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: aws.String("bob")})
			return err
		}},
		{"iam:TagUser", user + "ann", func() error { // the boundary does not allow it
			_, err := ann.TagUser(ctx, &awsiam.TagUserInput{UserName: aws.String("ann"), Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
			return err
		}},
		{"iam:DeleteUser", user + "b/bob", func() error {
			_, err := ann.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("bob")})
			return err
		}},
	} {
		t.Run(tt.action+" "+tt.resource, func(t *testing.T) {
			out := testkit.Must(c.SimulatePrincipalPolicy(ctx, &awsiam.SimulatePrincipalPolicyInput{
				PolicySourceArn: aws.String(user + "ann"), ActionNames: []string{tt.action}, ResourceArns: []string{tt.resource},
			}))(t)
			for _, m := range out.EvaluationResults[0].MatchedStatements {
				if id := *m.SourcePolicyId; !slices.Contains([]string{"user_ann_self", "group_readers_read", "IAMReadOnlyAccess"}, id) {
					t.Errorf("a policy is called %s", id)
				}
			}
			said := out.EvaluationResults[0].EvalDecision
			err := tt.call()
			if (said == "allowed") != (err == nil) || (said == "explicitDeny") != (err != nil && strings.Contains(err.Error(), "explicit deny")) {
				t.Errorf("simulated %s, really %v", said, err)
			}
		})
	}
	keys := testkit.Must(c.GetContextKeysForPrincipalPolicy(ctx, &awsiam.GetContextKeysForPrincipalPolicyInput{PolicySourceArn: aws.String(user + "ann")}))(t)
	if diff := cmp.Diff([]string{"aws:PrincipalTag/team", "aws:username"}, keys.ContextKeyNames); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSimulationRefusesNonsense(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	root := "arn:aws:iam::" + account + ":root"
	_, err := c.SimulatePrincipalPolicy(ctx, &awsiam.SimulatePrincipalPolicyInput{PolicySourceArn: &root, ActionNames: []string{"iam:GetUser"}})
	testkit.WantError(t, err, "InvalidInput", "Invalid Entity Arn: "+root+" does not clearly define entity type and name.")
	_, err = c.SimulatePrincipalPolicy(ctx, &awsiam.SimulatePrincipalPolicyInput{PolicySourceArn: aws.String("arn:aws:iam::999900009999:role/other"), ActionNames: []string{"iam:GetUser"}})
	testkit.WantError(t, err, "InvalidInput", "Invalid Policy Source Arn: caller's account "+account+" does not have access to policies in account 999900009999")
	_, err = c.SimulateCustomPolicy(ctx, &awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}, CallerArn: aws.String("arn:aws:iam::" + account + ":role/r")})
	testkit.WantError(t, err, "InvalidInput", "Invalid caller - Caller must be an IAM user in this context.")
	_, err = c.SimulateCustomPolicy(ctx, &awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}, ResourceOwner: &account})
	testkit.WantError(t, err, "InvalidInput", "'"+account+"' is not a valid as a Resource Owner.")
	_, err = c.SimulateCustomPolicy(ctx, &awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}, ResourceArns: []string{"*", "ann"}})
	testkit.WantError(t, err, "InvalidInput", "ResourceNames are not in a valid ARN format: ann.")
	_, err = c.SimulatePrincipalPolicy(ctx, &awsiam.SimulatePrincipalPolicyInput{PolicySourceArn: aws.String("arn:aws:iam::" + account + ":user/nobody"), ActionNames: []string{"iam:GetUser"}})
	testkit.WantError(t, err, "NoSuchEntity", "The user with name nobody cannot be found.")
	_, err = c.SimulateCustomPolicy(ctx, &awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:*"}, PolicyInputList: []string{allowGet}})
	testkit.WantError(t, err, "InvalidInput", "")
	_, err = c.SimulateCustomPolicy(ctx, &awsiam.SimulateCustomPolicyInput{ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{"{"}})
	testkit.WantError(t, err, "InvalidInput", "")
	_, err = c.SimulateCustomPolicy(ctx, &awsiam.SimulateCustomPolicyInput{
		ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}, ContextEntries: []iamtypes.ContextEntry{entry("aws:username", "string", "a", "b")},
	})
	testkit.WantError(t, err, "InvalidInput", "")
}

// However many statements match, a page of results stays small: it ends early and has a marker for
// the next one.
func TestSimulationsOfManyStatements(t *testing.T) {
	w := newWorld(t)
	c, _ := w.root(t)
	const statements = 2000
	text := `{"Version":"2012-10-17","Statement":[` + strings.Repeat(`{"Effect":"Allow","Action":"*","Resource":"*"},`, statements-1) + `{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	in := &awsiam.SimulateCustomPolicyInput{PolicyInputList: []string{text}, MaxItems: aws.Int32(1000)}
	for i := range 12 {
		in.ActionNames = append(in.ActionNames, "iam:Get"+strconv.Itoa(i))
	}
	pages, results := 0, 0
	for ; ; pages++ {
		out, err := c.SimulateCustomPolicy(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		results += len(out.EvaluationResults)
		if n := len(out.EvaluationResults) * statements; n > 12_000 {
			t.Errorf("a page names %d statements", n)
		}
		if !out.IsTruncated {
			break
		}
		in.Marker = out.Marker
	}
	if results != 12 || pages != 1 {
		t.Errorf("%d results, %d pages before the last", results, pages)
	}
	_, err := c.SimulateCustomPolicy(t.Context(), &awsiam.SimulateCustomPolicyInput{
		ActionNames: []string{"iam:GetUser"}, PolicyInputList: []string{allowGet}, ResourceArns: []string{"arn:aws:iam::111122223333:user/" + strings.Repeat("u", 2048)},
	})
	if err == nil || !strings.Contains(err.Error(), "at 'resourceArns' failed to satisfy constraint: Member must satisfy constraint: [Member must have length less than or equal to 2048") {
		t.Errorf("a long resource: %.300v", err)
	}
}

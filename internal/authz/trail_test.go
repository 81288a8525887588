package authz_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// TestCallsInCloudTrail: writes and denied calls of every kind of principal, and no
// secret of theirs.
func TestCallsInCloudTrail(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	nobody := w.user(t, root, "nobody", "")
	helper, k := w.karpenter(t, root, account, document(t, "karpenter.json", account))
	trail := awscloudtrail.NewFromConfig(root.cfg)

	if _, err := nobody.ec2.DescribeVpcs(ctx, nil); code(err) != "UnauthorizedOperation" {
		t.Fatal(err)
	}
	if _, err := root.ec2.DescribeVpcs(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := k.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: ec2types.InstanceTypeM5Large,
		ImageId: aws.String("ami-0123456789abcdef0"), UserData: aws.String("c2VjcmV0LXVzZXItZGF0YQ=="),
	}); code(err) != "UnauthorizedOperation" {
		t.Fatal(err)
	}
	if _, err := awsssm.NewFromConfig(root.cfg).PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/p"), Value: aws.String("secret-value"), Type: ssmtypes.ParameterTypeString}); err != nil {
		t.Fatal(err)
	}
	find := func(name string) (cloudtrailtypes.Event, map[string]any) {
		t.Helper()
		out := must[*awscloudtrail.LookupEventsOutput](t)(trail.LookupEvents(ctx, &awscloudtrail.LookupEventsInput{
			LookupAttributes: []cloudtrailtypes.LookupAttribute{{AttributeKey: cloudtrailtypes.LookupAttributeKeyEventName, AttributeValue: &name}},
		}))
		if len(out.Events) == 0 {
			t.Fatalf("no event %s", name)
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(*out.Events[0].CloudTrailEvent), &record); err != nil {
			t.Fatal(err)
		}
		return out.Events[0], record
	}

	e, record := find("RunInstances")
	id := record["userIdentity"].(map[string]any)
	session, _ := id["sessionContext"].(map[string]any)
	issuer, _ := session["sessionIssuer"].(map[string]any)
	if record["errorCode"] != "Client.UnauthorizedOperation" || record["eventSource"] != "ec2.amazonaws.com" || id["type"] != "AssumedRole" ||
		issuer["arn"] != "arn:aws:iam::"+account+":role/karpenter" || *e.Username != "session" || record["responseElements"] != nil {
		t.Errorf("RunInstances: %s", *e.CloudTrailEvent)
	}
	if !strings.Contains(*e.CloudTrailEvent, `"userData":"<sensitiveDataRemoved>"`) || !strings.Contains(*e.CloudTrailEvent, `"instancesSet":{"items":[{"imageId":"ami-0123456789abcdef0","maxCount":1,"minCount":1}]}`) {
		t.Errorf("parameters: %s", *e.CloudTrailEvent)
	}
	if !slices.ContainsFunc(e.Resources, func(r cloudtrailtypes.Resource) bool { return *r.ResourceName == "ami-0123456789abcdef0" }) {
		t.Errorf("resources: %v", e.Resources)
	}
	e, record = find("DescribeVpcs") // only the denied call; others are not recorded
	if id := record["userIdentity"].(map[string]any); id["userName"] != "nobody" || record["readOnly"] != true || *e.ReadOnly != "true" {
		t.Errorf("DescribeVpcs: %s", *e.CloudTrailEvent)
	}
	e, record = find("CreateAccessKey")
	if record["userIdentity"].(map[string]any)["type"] != "Root" || *e.Username != "root" || len(e.Resources) != 2 {
		t.Errorf("CreateAccessKey: %s\n%v", *e.CloudTrailEvent, e.Resources)
	}
	// The assumed role is a resource, and the event is a read with an answer.
	e, record = find("AssumeRole")
	if answer, _ := record["responseElements"].(map[string]any); helper.arn == "" || record["readOnly"] != true || answer["assumedRoleUser"] == nil ||
		!strings.Contains(*e.CloudTrailEvent, `"resources":[{"ARN":"arn:aws:iam::`+account+`:role/karpenter","accountId":"`+account+`","type":"AWS::IAM::Role"}]`) {
		t.Errorf("AssumeRole: %s", *e.CloudTrailEvent)
	}

	// EC2's newer operations use other names; LookupEvents finds their resources.
	template := must[*awsec2.CreateLaunchTemplateOutput](t)(root.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("web"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			InstanceType: "t3.micro", SecurityGroupIds: []string{"sg-0123456789abcdef0"}, UserData: aws.String("c2VjcmV0LXVzZXItZGF0YQ=="),
		},
	})).LaunchTemplate
	e, record = find("CreateLaunchTemplate")
	wrapped, _ := record["responseElements"].(map[string]any)["CreateLaunchTemplateResponse"].(map[string]any)
	if wrapped["launchTemplate"] == nil || !strings.Contains(*e.CloudTrailEvent, `"SecurityGroupId":{"content":"sg-0123456789abcdef0","tag":1},"UserData":"<sensitiveDataRemoved>"`) {
		t.Errorf("CreateLaunchTemplate: %s", *e.CloudTrailEvent)
	}
	for _, name := range []string{*template.LaunchTemplateId, "web", "sg-0123456789abcdef0"} {
		out := must[*awscloudtrail.LookupEventsOutput](t)(trail.LookupEvents(ctx, &awscloudtrail.LookupEventsInput{
			LookupAttributes: []cloudtrailtypes.LookupAttribute{{AttributeKey: cloudtrailtypes.LookupAttributeKeyResourceName, AttributeValue: &name}},
		}))
		if len(out.Events) != 1 {
			t.Errorf("%d events about %s", len(out.Events), name)
		}
	}

	// No secret is in the journal at all.
	everything := ""
	pages := awscloudtrail.NewLookupEventsPaginator(trail, &awscloudtrail.LookupEventsInput{MaxResults: aws.Int32(3)})
	seen := map[string]bool{}
	for pages.HasMorePages() {
		out := must[*awscloudtrail.LookupEventsOutput](t)(pages.NextPage(ctx))
		for _, e := range out.Events {
			if seen[*e.EventId] {
				t.Errorf("%s twice", *e.EventId)
			}
			seen[*e.EventId] = true
			everything += *e.CloudTrailEvent
		}
	}
	if len(seen) < 8 {
		t.Errorf("%d events by pages", len(seen))
	}
	creds := must[aws.Credentials](t)(k.cfg.Credentials.Retrieve(ctx))
	for _, secret := range []string{"secret-value", "c2VjcmV0LXVzZXItZGF0YQ", creds.SecretAccessKey, creds.SessionToken} {
		if strings.Contains(everything, secret) {
			t.Errorf("the secret %.12s… is in CloudTrail", secret)
		}
	}
}

// TestCallsAcrossAccountsInCloudTrail: both accounts have the event, and the role's account learns no more about the
// other's caller than the account.
func TestCallsAcrossAccountsInCloudTrail(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	owner, _ := w.root(t)
	guest, guests := w.root(t)
	role := must[*awsiam.CreateRoleOutput](t)(owner.iam.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName: aws.String("shared"), AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + guests + `"},"Action":"sts:AssumeRole"}]}`),
	})).Role
	user := w.user(t, guest, "visitor", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)
	w.session(t, user, *role.Arn)
	var records []map[string]any
	for _, who := range []caller{guest, owner} {
		out := must[*awscloudtrail.LookupEventsOutput](t)(awscloudtrail.NewFromConfig(who.cfg).LookupEvents(ctx, &awscloudtrail.LookupEventsInput{
			LookupAttributes: []cloudtrailtypes.LookupAttribute{{AttributeKey: cloudtrailtypes.LookupAttributeKeyEventName, AttributeValue: aws.String("AssumeRole")}},
		}))
		if len(out.Events) != 1 {
			t.Fatalf("%d events", len(out.Events))
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(*out.Events[0].CloudTrailEvent), &record); err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	of := records[1]["userIdentity"].(map[string]any)
	if records[0]["sharedEventID"] == nil || records[0]["sharedEventID"] != records[1]["sharedEventID"] || records[0]["eventID"] == records[1]["eventID"] ||
		records[1]["recipientAccountId"] == guests || of["type"] != "AWSAccount" || of["accountId"] != guests || of["arn"] != nil || of["userName"] != nil {
		t.Errorf("the caller's %v\nthe role's   %v", records[0], records[1])
	}
}

// TestPrivilegeEscalation: ways to get more permissions than one has. Each is refused without the permission that
// guards it, and none changes anything.
func TestPrivilegeEscalation(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	const admin = "arn:aws:iam::aws:policy/AdministratorAccess"
	everything := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	policyARN := *must[*awsiam.CreatePolicyOutput](t)(root.iam.CreatePolicy(ctx, &awsiam.CreatePolicyInput{
		PolicyName: aws.String("own"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}]}`),
	})).Policy.Arn
	must[*awsiam.CreatePolicyVersionOutput](t)(root.iam.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: &policyARN, PolicyDocument: &everything}))
	w.user(t, root, "boss", everything)
	must[*awsiam.CreateRoleOutput](t)(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("power"), AssumeRolePolicyDocument: aws.String(ec2Trust)}))
	must[*awsiam.CreateGroupOutput](t)(root.iam.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("admins")}))
	must[*awsiam.CreateInstanceProfileOutput](t)(root.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("p")}))
	// mallory has neighbouring permissions: on herself, and everything of EC2.
	mallory := w.user(t, root, "mallory", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["iam:CreateAccessKey","iam:Get*","iam:List*"],"Resource":"arn:aws:iam::*:user/${aws:username}"},
		{"Effect":"Allow","Action":["iam:AddRoleToInstanceProfile","ec2:*"],"Resource":"*"},
		{"Effect":"Allow","Action":"iam:AttachUserPolicy","Resource":"*","Condition":{"ArnEquals":{"iam:PolicyARN":"arn:aws:iam::aws:policy/ReadOnlyAccess"}}},
		{"Effect":"Allow","Action":"iam:CreateRole","Resource":"*","Condition":{"StringEquals":{"iam:PermissionsBoundary":"`+policyARN+`"}}},
		{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::`+account+`:role/power","Condition":{"StringEquals":{"iam:PassedToService":"eks.amazonaws.com"}}}]}`)
	self := aws.String("mallory")

	for _, tt := range []struct {
		name   string
		do     func() error
		action string // part of the refusal; empty if allowed
	}{
		{"a key of her own", func() error { _, err := mallory.iam.CreateAccessKey(ctx, nil); return err }, ""},
		{"a key of another user", func() error {
			_, err := mallory.iam.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("boss")})
			return err
		}, "iam:CreateAccessKey"},
		{"an inline policy for herself", func() error {
			_, err := mallory.iam.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: self, PolicyName: aws.String("x"), PolicyDocument: &everything})
			return err
		}, "iam:PutUserPolicy"},
		{"AdministratorAccess for herself", func() error {
			_, err := mallory.iam.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: self, PolicyArn: aws.String(admin)})
			return err
		}, "iam:AttachUserPolicy"},
		{"ReadOnlyAccess for herself", func() error {
			_, err := mallory.iam.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: self, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")})
			return err
		}, ""},
		{"a stronger default version", func() error {
			_, err := mallory.iam.SetDefaultPolicyVersion(ctx, &awsiam.SetDefaultPolicyVersionInput{PolicyArn: &policyARN, VersionId: aws.String("v2")})
			return err
		}, "iam:SetDefaultPolicyVersion"},
		{"a new version", func() error {
			_, err := mallory.iam.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: &policyARN, PolicyDocument: &everything, SetAsDefault: true})
			return err
		}, "iam:CreatePolicyVersion"},
		{"into the group of administrators", func() error {
			_, err := mallory.iam.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("admins"), UserName: self})
			return err
		}, "iam:AddUserToGroup"},
		{"another trust policy", func() error {
			_, err := mallory.iam.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: aws.String("power"), PolicyDocument: aws.String(ec2Trust)})
			return err
		}, "iam:UpdateAssumeRolePolicy"},
		{"a role passed to EC2 that she may pass to EKS", func() error {
			_, err := mallory.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("p"), RoleName: aws.String("power")})
			return err
		}, "iam:PassRole"},
		{"a role without the boundary", func() error {
			_, err := mallory.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("r"), AssumeRolePolicyDocument: aws.String(ec2Trust)})
			return err
		}, "iam:CreateRole"},
		{"a role with the boundary", func() error {
			_, err := mallory.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("r"), AssumeRolePolicyDocument: aws.String(ec2Trust), PermissionsBoundary: &policyARN})
			return err
		}, ""},
		{"away with the boundary", func() error {
			_, err := mallory.iam.DeleteRolePermissionsBoundary(ctx, &awsiam.DeleteRolePermissionsBoundaryInput{RoleName: aws.String("r")})
			return err
		}, "iam:DeleteRolePermissionsBoundary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			if tt.action == "" && err != nil || tt.action != "" && (code(err) != "AccessDenied" || !strings.Contains(message(err), "perform: "+tt.action+" ")) {
				t.Errorf("%v, want %q refused", err, tt.action)
			}
		})
	}
}

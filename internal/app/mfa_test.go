package app

import (
	"bytes"
	"errors"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/pquerna/otp/totp"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestMFA: a user enables virtual MFA devices, and policies see them.
func TestMFA(t *testing.T) {
	info, account := startDaemon(t), "111122223333"
	ctx := t.Context()
	root := awsiam.NewFromConfig(configFor(info, account, "test"))
	testkit.Must(root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ada")}))(t)
	testkit.Must(root.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ada"), PolicyName: aws.String("p"), PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sqs:ListQueues","Resource":"*","Condition":{"Bool":{"aws:MultiFactorAuthPresent":"true"},"NumericLessThan":{"aws:MultiFactorAuthAge":"3600"}}},
		{"Effect":"Allow","Action":"iam:*MFADevice*","Resource":["arn:aws:iam::*:mfa/${aws:username}*","arn:aws:iam::*:user/${aws:username}"]}]}`)}))(t)
	testkit.Must(root.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("careful"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:user/ada"},"Action":"sts:AssumeRole","Condition":{"Bool":{"aws:MultiFactorAuthPresent":"true"}}}]}`)}))(t)
	testkit.Must(root.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: aws.String("careful"), PolicyName: aws.String("p"), PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sqs:ListQueues","Resource":"*","Condition":{"Bool":{"aws:MultiFactorAuthPresent":"true"}}}]}`)}))(t)
	key := testkit.Must(root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("ada")}))(t).AccessKey
	mine := configFor(info, *key.AccessKeyId, *key.SecretAccessKey)
	ada, tokens := awsiam.NewFromConfig(mine), awssts.NewFromConfig(mine)
	list := func(c *ststypes.Credentials) error {
		cfg := mine.Copy()
		if c != nil {
			cfg.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
		}
		_, err := awssqs.NewFromConfig(cfg).ListQueues(ctx, &awssqs.ListQueuesInput{})
		return err
	}
	code := func(d *iamtypes.VirtualMFADevice, spans int) *string {
		t.Helper()
		c := testkit.Must(totp.GenerateCode(string(d.Base32StringSeed), time.Now().Add(time.Duration(spans)*30*time.Second)))(t)
		return &c
	}
	enable := func(name string) *iamtypes.VirtualMFADevice {
		t.Helper()
		d := testkit.Must(ada.CreateVirtualMFADevice(ctx, &awsiam.CreateVirtualMFADeviceInput{VirtualMFADeviceName: &name}))(t).VirtualMFADevice
		if want := "arn:aws:iam::" + account + ":mfa/" + name; *d.SerialNumber != want || len(d.Base32StringSeed) != 64 {
			t.Errorf("%s with a seed of %d characters", *d.SerialNumber, len(d.Base32StringSeed))
		}
		if _, err := png.Decode(bytes.NewReader(d.QRCodePNG)); err != nil {
			t.Error(err)
		}
		in := &awsiam.EnableMFADeviceInput{UserName: aws.String("ada"), SerialNumber: d.SerialNumber, AuthenticationCode1: code(d, -1), AuthenticationCode2: code(d, 1)}
		_, err := ada.EnableMFADevice(ctx, in)
		testkit.WantErrorWith(t, err, "InvalidAuthenticationCode", "Authentication code for device is not valid.")
		// The second code is the last that is over, so that two more can be used at once.
		in.AuthenticationCode1, in.AuthenticationCode2 = code(d, -2), code(d, -1)
		testkit.Must(ada.EnableMFADevice(ctx, in))(t)
		_, err = ada.EnableMFADevice(ctx, in)
		testkit.WantErrorWith(t, err, "EntityAlreadyExists", "MFA Device is already in use.")
		return d
	}
	phone := enable("ada-phone")

	// The key alone is not enough. A session with a code is, and a code can be used once.
	testkit.WantErrorWith(t, list(nil), "AccessDenied", "perform: sqs:ListQueues")
	session := func(serial, code *string) (*ststypes.Credentials, error) {
		out, err := tokens.GetSessionToken(ctx, &awssts.GetSessionTokenInput{SerialNumber: serial, TokenCode: code})
		if err != nil {
			return nil, err
		}
		return out.Credentials, nil
	}
	once := code(phone, 0)
	creds := testkit.Must(session(phone.SerialNumber, once))(t)
	if err := list(creds); err != nil {
		t.Error(err)
	}
	if err := list(testkit.Must(session(nil, nil))(t)); err == nil {
		t.Error("a session without a code has an MFA device")
	}
	_, err := session(phone.SerialNumber, once)
	testkit.WantErrorWith(t, err, "AccessDenied", "MultiFactorAuthentication failed with invalid MFA one time pass code.")
	_, err = session(nil, once)
	testkit.WantErrorWith(t, err, "AccessDenied", "must provide both MFA serial number and one time pass code.")
	_, err = session(aws.String("arn:aws:iam::"+account+":mfa/none"), once)
	testkit.WantErrorWith(t, err, "AccessDenied", "unable to validate MFA code.  Please verify your MFA serial number is valid and associated with this user.")

	// A trust policy sees the code of AssumeRole; the role's session does not have it.
	assume := func(serial, code *string) (*awssts.AssumeRoleOutput, error) {
		return tokens.AssumeRole(ctx, &awssts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::" + account + ":role/careful"), RoleSessionName: aws.String("ada"), SerialNumber: serial, TokenCode: code})
	}
	_, err = assume(nil, nil)
	testkit.WantErrorWith(t, err, "AccessDenied", "is not authorized to perform: sts:AssumeRole")
	tablet := enable("ada-tablet")
	role := testkit.Must(assume(tablet.SerialNumber, code(tablet, 0)))(t)
	if err := list(role.Credentials); err == nil {
		t.Error("the session of a role has an MFA device")
	}

	// CloudTrail shows it.
	proven := mine.Copy()
	proven.Credentials = credentials.NewStaticCredentialsProvider(*creds.AccessKeyId, *creds.SecretAccessKey, *creds.SessionToken)
	testkit.Must(awsiam.NewFromConfig(proven).TagMFADevice(ctx, &awsiam.TagMFADeviceInput{SerialNumber: phone.SerialNumber, Tags: []iamtypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}))(t)
	testkit.Eventually(t, time.Minute, func() error {
		found, err := awscloudtrail.NewFromConfig(configFor(info, account, "test")).LookupEvents(ctx, &awscloudtrail.LookupEventsInput{LookupAttributes: []cloudtrailtypes.LookupAttribute{
			{AttributeKey: cloudtrailtypes.LookupAttributeKeyEventName, AttributeValue: aws.String("TagMFADevice")},
		}})
		if err != nil {
			return err
		}
		for _, e := range found.Events {
			if strings.Contains(*e.CloudTrailEvent, `"mfaAuthenticated":"true"`) {
				return nil
			}
		}
		return errors.New("no TagMFADevice with an MFA device")
	})

	// A user with devices cannot be deleted, nor a device that is in use.
	testkit.Must(root.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: aws.String("ada"), AccessKeyId: key.AccessKeyId}))(t)
	testkit.Must(root.DeleteUserPolicy(ctx, &awsiam.DeleteUserPolicyInput{UserName: aws.String("ada"), PolicyName: aws.String("p")}))(t)
	_, err = root.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("ada")})
	testkit.WantErrorWith(t, err, "DeleteConflict", "must delete MFA device first")
	_, err = root.DeleteVirtualMFADevice(ctx, &awsiam.DeleteVirtualMFADeviceInput{SerialNumber: phone.SerialNumber})
	testkit.WantErrorWith(t, err, "DeleteConflict", "MFA VirtualDevice in use. Must deactivate first.")
	if n := len(testkit.Must(root.ListMFADevices(ctx, &awsiam.ListMFADevicesInput{UserName: aws.String("ada")}))(t).MFADevices); n != 2 {
		t.Errorf("%d devices", n)
	}
	for _, d := range []*iamtypes.VirtualMFADevice{phone, tablet} {
		testkit.Must(root.DeactivateMFADevice(ctx, &awsiam.DeactivateMFADeviceInput{UserName: aws.String("ada"), SerialNumber: d.SerialNumber}))(t)
		_, err = root.DeactivateMFADevice(ctx, &awsiam.DeactivateMFADeviceInput{UserName: aws.String("ada"), SerialNumber: d.SerialNumber})
		testkit.WantErrorWith(t, err, "NoSuchEntity", "MFA Device invalid for user.")
	}
	unassigned := testkit.Must(root.ListVirtualMFADevices(ctx, &awsiam.ListVirtualMFADevicesInput{AssignmentStatus: iamtypes.AssignmentStatusTypeUnassigned}))(t).VirtualMFADevices
	if len(unassigned) != 2 {
		t.Errorf("%d devices are unassigned", len(unassigned))
	}
	for _, d := range unassigned {
		testkit.Must(root.DeleteVirtualMFADevice(ctx, &awsiam.DeleteVirtualMFADeviceInput{SerialNumber: d.SerialNumber}))(t)
		_, err = root.DeleteVirtualMFADevice(ctx, &awsiam.DeleteVirtualMFADeviceInput{SerialNumber: d.SerialNumber})
		testkit.WantErrorWith(t, err, "NoSuchEntity", "VirtualMFADevice with serial number "+*d.SerialNumber+" doesn't exist.")
	}
	testkit.Must(root.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("ada")}))(t)
}

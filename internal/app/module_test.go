package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/app/internal/toy"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestAServiceIsAFolderAndALine adds a service to the list and expects it everywhere that AWS's services are: signed
// calls, IAM with its correction of the reference, CloudTrail, faults, reset, compatibility.
func TestAServiceIsAFolderAndALine(t *testing.T) {
	before := services
	t.Cleanup(func() { services = before })
	services = slices.DeleteFunc(slices.Clone(services), func(e entry) bool { return e.operations().Name == "ecrpublic" }) // which the toy is
	services = append(services, entry{new(toy.Service).AWS, func(*daemon) module.Module { return toy.New().Module() }})

	ctx, info := t.Context(), startDaemon(t)
	admin := configFor(info, "test", "test")
	repos, daemon := awsecrpublic.NewFromConfig(admin), &api.Client{Daemon: info}
	count := func() int {
		t.Helper()
		out, err := repos.DescribeRepositories(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Repositories)
	}

	if _, err := repos.CreateRepository(ctx, &awsecrpublic.CreateRepositoryInput{RepositoryName: aws.String("cart")}); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 1 {
		t.Errorf("%d repositories, want 1", got)
	}

	users := awsiam.NewFromConfig(admin)
	if _, err := users.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("reader")}); err != nil {
		t.Fatal(err)
	}
	key, err := users.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("reader")})
	if err != nil {
		t.Fatal(err)
	}
	reader := awsecrpublic.NewFromConfig(configFor(info, *key.AccessKey.AccessKeyId, *key.AccessKey.SecretAccessKey))
	_, err = reader.CreateRepository(ctx, &awsecrpublic.CreateRepositoryInput{RepositoryName: aws.String("cart")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "User: arn:aws:iam::000000000000:user/reader is not authorized to perform: ecr-public:CreateRepository on resource: "+
		"arn:aws:ecr-public::000000000000:repository/cart because no identity-based policy allows the ecr-public:CreateRepository action")
	_, err = reader.DescribeRepositories(ctx, nil)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "User: arn:aws:iam::000000000000:user/reader is not authorized to perform: ecr-public:DescribeRepositories on resource: "+
		"arn:aws:ecr-public::000000000000:repository/toys because no identity-based policy allows the ecr-public:DescribeRepositories action")

	testkit.Eventually(t, 10*time.Second, func() error {
		out, err := awscloudtrail.NewFromConfig(admin).LookupEvents(ctx, &awscloudtrail.LookupEventsInput{LookupAttributes: []cloudtrailtypes.LookupAttribute{
			{AttributeKey: cloudtrailtypes.LookupAttributeKeyEventSource, AttributeValue: aws.String("ecr-public.amazonaws.com")},
		}})
		if err != nil {
			return err
		}
		if len(out.Events) != 3 {
			return errors.New("CloudTrail does not have all three calls yet")
		}
		var event struct {
			ErrorCode         string
			RequestParameters map[string]string
		}
		if err := json.Unmarshal([]byte(*out.Events[2].CloudTrailEvent), &event); err != nil {
			return err
		}
		if event.ErrorCode != "" || event.RequestParameters["repositoryName"] != "cart" {
			t.Errorf("the first event: %s", *out.Events[2].CloudTrailEvent)
		}
		return nil
	})

	if _, err := daemon.SetFault(ctx, fault.Fault{Kind: fault.Throttle, Account: awsapi.DefaultAccount, Region: "us-east-1", Operation: "ecr-public:DescribeRepositories", Count: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = repos.DescribeRepositories(ctx, nil)
	testkit.WantErrorWith(t, err, "ThrottlingException", "Rate exceeded")

	if err := daemon.Reset(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 0 {
		t.Errorf("%d repositories after a reset", got)
	}

	var page bytes.Buffer
	if err := WriteCompatibility(&page); err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(page.String(), "\n## ecr-public")
	if !strings.Contains(part, "CreateRepository") {
		t.Errorf("the compatibility page does not have the service:\n%.400s", part)
	}
}

// startDaemon runs a separate daemon for a test.
func startDaemon(t *testing.T) api.DaemonInfo {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan api.DaemonInfo, 1), make(chan error, 1)
	dir := t.TempDir() // not created in the goroutine, so that it is removed after the cleanup below
	go func() {
		ended <- runDaemon(ctx, cli.DaemonConfig{
			DataDir: dir, Listen: netip.MustParseAddrPort("127.0.0.1:0"), Ephemeral: true, ClientAddress: netip.MustParseAddr("203.0.113.10"),
		}, func(info api.DaemonInfo) { started <- info })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended: %v", err)
		}
	})
	select {
	case info := <-started:
		return info
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return api.DaemonInfo{}
	}
}

func configFor(info api.DaemonInfo, key, secret string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &info.URL, Credentials: credentials.NewStaticCredentialsProvider(key, secret, ""),
		Retryer: func() aws.Retryer { return retry.NewStandard(onlyTorn) },
	}
}

// onlyTorn retries calls whose connection was torn, and no others. The SDK closes a request's body as soon as the
// response begins. If net/http is then still looking for the body's end, it drops the connection in the middle of a
// long response.
func onlyTorn(o *retry.StandardOptions) {
	o.RateLimiter = ratelimit.None
	o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		return aws.BoolTernary(errors.Is(err, net.ErrClosed))
	})}
}

// trailEvent is the part of CloudTrail's records that the tests check.
type trailEvent struct {
	EventName, ErrorCode, SourceIPAddress, UserAgent string
	ReadOnly                                         bool
	RequestParameters, ResponseElements              map[string]any
	Resources                                        []struct{ ARN, Type string }
	UserIdentity                                     struct {
		Type, ARN, InvokedBy, UserName, IdentityProvider string
		SessionContext                                   struct{ SessionIssuer struct{ ARN string } }
	}
}

// events waits for CloudTrail's records of an operation, the newest first.
func events(t *testing.T, cfg aws.Config, name string, count int) []trailEvent {
	t.Helper()
	var out []trailEvent
	testkit.Eventually(t, 10*time.Second, func() error {
		got, err := awscloudtrail.NewFromConfig(cfg).LookupEvents(t.Context(), &awscloudtrail.LookupEventsInput{LookupAttributes: []cloudtrailtypes.LookupAttribute{
			{AttributeKey: cloudtrailtypes.LookupAttributeKeyEventName, AttributeValue: &name},
		}})
		if err != nil {
			return err
		}
		if len(got.Events) < count {
			return fmt.Errorf("%d events %s, want %d", len(got.Events), name, count)
		}
		out = nil
		for _, e := range got.Events {
			var event trailEvent
			if err := json.Unmarshal([]byte(*e.CloudTrailEvent), &event); err != nil {
				return err
			}
			out = append(out, event)
		}
		return nil
	})
	return out
}

// TestServicesCallAsAWSDoes: calls between services pass policies and faults and are in CloudTrail, as the user's
// forward access session or as a service-linked role.
func TestServicesCallAsAWSDoes(t *testing.T) {
	ctx, info := t.Context(), startDaemon(t)
	admin := configFor(info, "test", "test")
	users, daemon := awsiam.NewFromConfig(admin), &api.Client{Daemon: info}
	user := func(name, statements string) *awsssm.Client {
		t.Helper()
		_, err := users.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name})
		if err == nil {
			_, err = users.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{
				UserName: &name, PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[` + statements + `]}`),
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		key, err := users.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})
		if err != nil {
			t.Fatal(err)
		}
		return awsssm.NewFromConfig(configFor(info, *key.AccessKey.AccessKeyId, *key.AccessKey.SecretAccessKey))
	}
	const parameters = `{"Effect":"Allow","Action":["ssm:*","kms:*"],"Resource":"*"}`
	put := func(c *awsssm.Client, name string) error {
		_, err := c.PutParameter(ctx, &awsssm.PutParameterInput{Name: &name, Value: aws.String("secret"), Type: ssmtypes.ParameterTypeSecureString})
		return err
	}

	// A forward access session: the user's permissions, used by SSM.
	if err := put(user("all", parameters), "/a"); err != nil {
		t.Fatal(err)
	}
	e := events(t, admin, "Encrypt", 1)[0]
	if e.UserIdentity.ARN != "arn:aws:iam::000000000000:user/all" || e.UserIdentity.InvokedBy != "ssm.amazonaws.com" || e.SourceIPAddress != "ssm.amazonaws.com" {
		t.Errorf("KMS was called by %+v from %s", e.UserIdentity, e.SourceIPAddress)
	}
	if e.UserAgent != "ssm.amazonaws.com" || !e.ReadOnly || e.ResponseElements != nil || len(e.Resources) != 1 || e.Resources[0].Type != "AWS::KMS::Key" {
		t.Errorf("KMS was called by %s, read only %v, answered %v, about %v", e.UserAgent, e.ReadOnly, e.ResponseElements, e.Resources)
	}
	for condition, allowed := range map[string]bool{
		`{"Bool":{"aws:ViaAWSService":"true"}}`:                                        false,
		`{"ForAnyValue:StringEquals":{"aws:CalledVia":"ssm.amazonaws.com"}}`:           false,
		`{"StringEquals":{"aws:CalledViaFirst":"ssm.amazonaws.com"}}`:                  false,
		`{"StringEquals":{"aws:CalledViaLast":"eks.amazonaws.com"}}`:                   true,
		`{"IpAddress":{"aws:SourceIp":"0.0.0.0/0"}}`:                                   true, // the address is not forwarded
		`{"StringEquals":{"kms:ViaService":"ssm.us-east-1.amazonaws.com"}}`:            false,
		`{"StringEquals":{"kms:ViaService":"secretsmanager.us-east-1.amazonaws.com"}}`: true,
	} {
		name := fmt.Sprintf("user%d", len(condition))
		err := put(user(name, parameters+`,{"Effect":"Deny","Action":"kms:*","Resource":"*","Condition":`+condition+`}`), "/"+name)
		if (err == nil) != allowed {
			t.Errorf("a Deny of kms:* with %s: got %v, want allowed %v", condition, err, allowed)
		}
	}

	// A few throttles are retried; if there are many, the user gets them.
	throttle := func(count int64) {
		t.Helper()
		if _, err := daemon.SetFault(ctx, fault.Fault{Kind: fault.Throttle, Account: awsapi.DefaultAccount, Region: "us-east-1", Operation: "kms:Encrypt", Count: count}); err != nil {
			t.Fatal(err)
		}
	}
	parametersOfAdmin := awsssm.NewFromConfig(admin)
	throttle(2)
	if err := put(parametersOfAdmin, "/b"); err != nil {
		t.Errorf("with two throttles of KMS: %v", err)
	}
	throttle(100)
	testkit.WantErrorWith(t, put(parametersOfAdmin, "/c"), "ThrottlingException", "Rate exceeded")

	// A service-linked role: Auto Scaling launches.
	scaling, machines := awsautoscaling.NewFromConfig(admin), awsec2.NewFromConfig(admin)
	zones, err := machines.DescribeAvailabilityZones(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := machines.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("template"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: aws.String("resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"), InstanceType: ec2types.InstanceTypeT3Micro,
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := scaling.CreateAutoScalingGroup(ctx, &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(0), MaxSize: aws.Int32(1), AvailabilityZones: []string{*zones.AvailabilityZones[0].ZoneName},
		LaunchTemplate: &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("template")},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.SetFault(ctx, fault.Fault{Kind: fault.Throttle, Account: awsapi.DefaultAccount, Region: "us-east-1", Operation: "ec2:RunInstances", Count: 6}); err != nil {
		t.Fatal(err)
	}
	if _, err := scaling.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(1)}); err != nil {
		t.Fatal(err)
	}
	launched := func() *trailEvent {
		for _, e := range events(t, admin, "RunInstances", 1) {
			if e.ErrorCode == "" {
				return &e
			}
		}
		return nil
	}
	testkit.Eventually(t, 30*time.Second, func() error { // the reconciler does not give up because of throttles
		if launched() == nil {
			return errors.New("no instance was launched")
		}
		return nil
	})
	if e := launched(); e.RequestParameters["instancesSet"] == nil || e.RequestParameters["launchTemplate"] == nil || e.ResponseElements["instancesSet"] == nil {
		t.Errorf("the group's instance was launched with %v, answered %v", e.RequestParameters, e.ResponseElements)
	}
	if id := launched().UserIdentity; id.InvokedBy != "autoscaling.amazonaws.com" || id.ARN != "arn:aws:sts::000000000000:assumed-role/AWSServiceRoleForAutoScaling/AutoScaling" ||
		id.SessionContext.SessionIssuer.ARN != "arn:aws:iam::000000000000:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling" {
		t.Errorf("the group's instance was launched by %+v", id)
	}
}

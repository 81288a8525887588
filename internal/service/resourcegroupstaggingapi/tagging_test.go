package resourcegroupstaggingapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awstagging "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	taggingtypes "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/service/events"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/service/resourcegroupstaggingapi"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// newServer returns a server with the services that have resources to tag.
func newServer(t *testing.T) *testkit.Server {
	t.Helper()
	bytes, err := bytestore.Open(bytestore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bytes.Close() })
	var users *iam.Service
	var authorizer *authz.Authorizer
	return testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			log := testkit.Log(t)
			users = iam.New(iam.Config{Store: st, Log: log})
			authorizer = authz.New(authz.Config{Services: []awsapi.Service{users.AWS(), new(ec2.Service).AWS(), new(sqs.Service).AWS(), new(ssm.Service).AWS(), new(logs.Service).AWS(), new(kms.Service).AWS(), new(events.Service).AWS(), new(elbv2.Service).AWS(), new(ecr.Service).AWS()}, Policies: users.PoliciesOf, Store: st})
			modules := []module.Module{
				users.Module(), ec2.New(ec2.Config{Store: st, Log: log}).Module(nil), sqs.New(sqs.Config{Store: st, Bytes: bytes, Log: log}).Module(),
				ssm.New(ssm.Config{Store: st, Log: log}).Module(nil), logs.New(logs.Config{Store: st, Bytes: bytes, Log: log}).Module(),
				kms.New(kms.Config{Store: st, Allowed: authorizer.Allowed, Log: log}).Module(), events.New(events.Config{Store: st, Bytes: bytes, Log: log}).Module(),
				cloudtrail.New(cloudtrail.Config{Store: st, Log: log}).Module(), elbv2.New(elbnet.Config{Store: st, Network: elbnet.Network{EC2: awscall.EC2{API: front}}, Log: log}).Module(),
				ecr.New(ecr.Config{Store: st, Log: log}).Module(),
			}
			modules = append(modules, resourcegroupstaggingapi.New(resourcegroupstaggingapi.Config{API: front, Services: func() []module.Tagging {
				var out []module.Tagging
				for _, m := range modules {
					out = append(out, m.Tagging)
				}
				return out
			}}).Module())
			var out []awsapi.Service
			for _, m := range modules {
				if out = append(out, m.Service); m.Resolver != nil {
					authorizer.Register(m.Service.Name, m.Resolver)
				}
			}
			return out
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
}

// resources creates one untagged resource in each service and returns their ARNs.
func resources(t *testing.T, cfg aws.Config, account string) []string {
	t.Helper()
	ctx := t.Context()
	machines := awsec2.NewFromConfig(cfg)
	vpc := *testkit.Must(machines.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")}))(t).Vpc.VpcId
	group := testkit.Must(awselbv2.NewFromConfig(cfg).CreateTargetGroup(ctx, &awselbv2.CreateTargetGroupInput{
		Name: aws.String("web"), Port: aws.Int32(80), Protocol: elbv2types.ProtocolEnumHttp, VpcId: &vpc, TargetType: elbv2types.TargetTypeEnumIp,
	}))(t)
	people := awsiam.NewFromConfig(cfg)
	document := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	policy := testkit.Must(people.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("all"), PolicyDocument: &document}))(t)
	profile := testkit.Must(people.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node"), Path: aws.String("/k/")}))(t)
	provider := testkit.Must(people.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("https://oidc.example.com/id/1"), ThumbprintList: []string{strings.Repeat("a", 40)}}))(t)
	key := testkit.Must(awskms.NewFromConfig(cfg).CreateKey(ctx, nil))(t)
	testkit.Must(awssqs.NewFromConfig(cfg).CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("jobs")}))(t)
	parameters := awsssm.NewFromConfig(cfg)
	for _, name := range []string{"plain", "/deep/er"} {
		testkit.Must(parameters.PutParameter(ctx, &awsssm.PutParameterInput{Name: &name, Value: aws.String("v"), Type: ssmtypes.ParameterTypeString}))(t)
	}
	testkit.Must(awslogs.NewFromConfig(cfg).CreateLogGroup(ctx, &awslogs.CreateLogGroupInput{LogGroupName: aws.String("/app/web")}))(t)
	rule := testkit.Must(awsevents.NewFromConfig(cfg).PutRule(ctx, &awsevents.PutRuleInput{Name: aws.String("r"), EventPattern: aws.String(`{"source":["a"]}`)}))(t)
	bus := testkit.Must(awsevents.NewFromConfig(cfg).CreateEventBus(ctx, &awsevents.CreateEventBusInput{Name: aws.String("orders")}))(t)
	trail := testkit.Must(awscloudtrail.NewFromConfig(cfg).CreateTrail(ctx, &awscloudtrail.CreateTrailInput{Name: aws.String("main"), S3BucketName: aws.String("logs")}))(t)
	repository := testkit.Must(awsecr.NewFromConfig(cfg).CreateRepository(ctx, &awsecr.CreateRepositoryInput{RepositoryName: aws.String("cart")}))(t)
	at := func(service, resource string) string {
		return "arn:aws:" + service + ":us-east-1:" + account + ":" + resource
	}
	return []string{
		at("ec2", "vpc/"+vpc), *group.TargetGroups[0].TargetGroupArn, *policy.Policy.Arn, *profile.InstanceProfile.Arn, *provider.OpenIDConnectProviderArn, *key.KeyMetadata.Arn,
		at("sqs", "jobs"), at("ssm", "parameter/plain"), at("ssm", "parameter/deep/er"), at("logs", "log-group:/app/web"), *rule.RuleArn, *bus.EventBusArn, *trail.TrailARN, *repository.Repository.RepositoryArn,
	}
}

func TestTagsOfAllServices(t *testing.T) {
	s := newServer(t)
	ctx, account := t.Context(), s.Account(t)
	cfg := s.AWSConfig(account)
	c := awstagging.NewFromConfig(cfg)
	all := resources(t, cfg, account)
	get := func(in *awstagging.GetResourcesInput) []string {
		t.Helper()
		out := testkit.Must(c.GetResources(ctx, in))(t)
		if aws.ToString(out.PaginationToken) != "" || out.PaginationToken == nil {
			t.Errorf("the token is %v", out.PaginationToken)
		}
		arns := []string{}
		for _, r := range out.ResourceTagMappingList {
			arns = append(arns, *r.ResourceARN)
		}
		return arns
	}
	if got := get(&awstagging.GetResourcesInput{}); len(got) > 0 {
		t.Errorf("without tags: %q", got)
	}
	for name, why := range testkit.Must(c.TagResources(ctx, &awstagging.TagResourcesInput{ResourceARNList: all, Tags: map[string]string{"team": "a", "env": "x"}}))(t).FailedResourcesMap {
		t.Errorf("%s: %s", name, *why.ErrorMessage)
	}
	if out := testkit.Must(c.TagResources(ctx, &awstagging.TagResourcesInput{ResourceARNList: all[:1], Tags: map[string]string{"team": "b"}}))(t); len(out.FailedResourcesMap) > 0 {
		t.Errorf("%+v", out.FailedResourcesMap)
	}
	want := slices.Sorted(slices.Values(all))
	for name, in := range map[string]*awstagging.GetResourcesInput{
		"all":         {},
		"by key":      {TagFilters: []taggingtypes.TagFilter{{Key: aws.String("team")}}},
		"by values":   {TagFilters: []taggingtypes.TagFilter{{Key: aws.String("team"), Values: []string{"a", "b"}}, {Key: aws.String("env"), Values: []string{"x"}}}},
		"by ARN":      {ResourceARNList: all},
		"by services": {ResourceTypeFilters: []string{"ec2", "elasticloadbalancing", "iam", "kms", "sqs", "ssm", "logs", "events", "cloudtrail", "ecr"}},
	} {
		if got := get(in); !slices.Equal(got, want) {
			t.Errorf("%s: %q\nwant %q", name, got, want)
		}
	}
	for filter, want := range map[string][]string{
		"ec2:vpc": all[:1], "elasticloadbalancing:targetgroup": all[1:2], "iam:policy": all[2:3], "kms:key": all[5:6], "sqs:queue": all[6:7], "logs:log-group": all[9:10],
		"events:rule": all[10:11], "events:event-bus": all[11:12], "ec2:instance": {}, "ec2:vp": {}, "s3": {},
	} {
		if got := get(&awstagging.GetResourcesInput{ResourceTypeFilters: []string{filter}}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
	if got := get(&awstagging.GetResourcesInput{TagFilters: []taggingtypes.TagFilter{{Key: aws.String("team"), Values: []string{"b"}}}}); !slices.Equal(got, all[:1]) {
		t.Errorf("team b: %q", got)
	}
	pages := awstagging.NewGetResourcesPaginator(c, &awstagging.GetResourcesInput{}, func(o *awstagging.GetResourcesPaginatorOptions) { o.Limit = 5 })
	n, seen := 0, 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n, seen = n+1, seen+len(page.ResourceTagMappingList)
	}
	if n != 3 || seen != len(all) {
		t.Errorf("%d resources on %d pages", seen, n)
	}
	if got := testkit.Must(c.GetTagKeys(ctx, nil))(t).TagKeys; !slices.Equal(got, []string{"env", "team"}) {
		t.Errorf("keys %q", got)
	}
	if got := testkit.Must(c.GetTagValues(ctx, &awstagging.GetTagValuesInput{Key: aws.String("team")}))(t).TagValues; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("values %q", got)
	}
	// Resources are listed in their own region, and global ones in us-east-1.
	elsewhere := cfg.Copy()
	elsewhere.Region = "eu-west-1"
	if got := testkit.Must(awstagging.NewFromConfig(elsewhere).GetResources(ctx, nil))(t).ResourceTagMappingList; len(got) > 0 {
		t.Errorf("elsewhere: %+v", got)
	}
	if out := testkit.Must(c.UntagResources(ctx, &awstagging.UntagResourcesInput{ResourceARNList: all, TagKeys: []string{"team", "env"}}))(t); len(out.FailedResourcesMap) > 0 {
		t.Errorf("%+v", out.FailedResourcesMap)
	}
	if got := get(&awstagging.GetResourcesInput{}); len(got) > 0 {
		t.Errorf("after the tags are gone: %q", got)
	}
}

func TestRefusals(t *testing.T) {
	s := newServer(t)
	ctx, account := t.Context(), s.Account(t)
	cfg := s.AWSConfig(account)
	c := awstagging.NewFromConfig(cfg)
	vpc := "arn:aws:ec2:us-east-1:" + account + ":vpc/" + *testkit.Must(awsec2.NewFromConfig(cfg).CreateVpc(ctx, &awsec2.CreateVpcInput{
		CidrBlock: aws.String("10.0.0.0/16"), TagSpecifications: []ec2types.TagSpecification{{ResourceType: "vpc", Tags: []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}},
	}))(t).Vpc.VpcId
	filters := []taggingtypes.TagFilter{{Key: aws.String("team")}}
	for want, in := range map[string]*awstagging.GetResourcesInput{
		"ResourceARNList cannot be specified together with": {ResourceARNList: []string{vpc}, TagFilters: filters},
		"ResourcesPerPage must be between 1 and 100.":       {ResourcesPerPage: aws.Int32(101)},
		"TagsPerPage and ResourcesPerPage":                  {ResourcesPerPage: aws.Int32(10), TagsPerPage: aws.Int32(100)},
		"TagsPerPage must be a multiple of 100":             {TagsPerPage: aws.Int32(150)},
		"The resource type filter ec2: is not of the form":  {ResourceTypeFilters: []string{"ec2:"}},
	} {
		_, err := c.GetResources(ctx, in)
		testkit.WantErrorWith(t, err, "InvalidParameterException", want)
	}
	_, err := c.GetResources(ctx, &awstagging.GetResourcesInput{PaginationToken: aws.String("x")})
	testkit.WantErrorWith(t, err, "PaginationTokenExpiredException", "")
	gone := "arn:aws:ec2:us-east-1:" + account + ":vpc/vpc-0123456789abcdef0"
	out := testkit.Must(c.TagResources(ctx, &awstagging.TagResourcesInput{ResourceARNList: []string{gone, vpc}, Tags: map[string]string{"k": "v"}}))(t)
	if f := out.FailedResourcesMap; len(f) != 1 || f[gone].ErrorCode != taggingtypes.ErrorCodeInvalidParameterException || f[gone].StatusCode != 400 {
		t.Errorf("%+v", f)
	}

	// The caller needs permission for both the tagging API and the service's operation.
	people := awsiam.NewFromConfig(cfg)
	testkit.Must(people.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann")}))(t)
	key := testkit.Must(people.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("ann")}))(t).AccessKey
	ann := awstagging.NewFromConfig(s.AWSConfigWith(credentials.NewStaticCredentialsProvider(*key.AccessKeyId, *key.SecretAccessKey, "")))
	_, err = ann.GetResources(ctx, nil)
	testkit.WantErrorWith(t, err, "AccessDeniedException", fmt.Sprintf("User: arn:aws:iam::%s:user/ann is not authorized to perform: tag:GetResources", account))
	allow := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"tag:*","Resource":"*"}]}`
	testkit.Must(people.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("p"), PolicyDocument: &allow}))(t)
	if got := testkit.Must(ann.GetResources(ctx, nil))(t).ResourceTagMappingList; len(got) != 1 || len(got[0].Tags) != 2 {
		for _, r := range got {
			t.Errorf("%s", *r.ResourceARN)
		}
	}
	out = testkit.Must(ann.TagResources(ctx, &awstagging.TagResourcesInput{ResourceARNList: []string{vpc}, Tags: map[string]string{"k": "w"}}))(t)
	if f := out.FailedResourcesMap[vpc]; !strings.Contains(aws.ToString(f.ErrorMessage), "is not authorized to perform: ec2:CreateTags") {
		t.Errorf("%q", aws.ToString(f.ErrorMessage))
	}
}

package ecr_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/go-containerregistry/pkg/crane"

	"github.com/drydock-dev/drydock/internal/testkit"
)

const (
	aLifecycle   = `{"rules":[{"rulePriority":1,"selection":{"tagStatus":"untagged","countType":"sinceImagePushed","countUnit":"days","countNumber":14},"action":{"type":"expire"}}]}`
	everyonePull = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"ecr:BatchGetImage"}]}`
)

var pullsThrough = []ecrtypes.RCTAppliedFor{ecrtypes.RCTAppliedForPullThroughCache}

func TestTemplates(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, c := t.Context(), a.c
	basic := &awsecr.CreateRepositoryCreationTemplateInput{Prefix: aws.String("team/apps/"), AppliedFor: pullsThrough}
	got := testkit.Must(c.CreateRepositoryCreationTemplate(ctx, basic))(t)
	want := &ecrtypes.RepositoryCreationTemplate{
		Prefix: basic.Prefix, AppliedFor: pullsThrough, CreatedAt: got.RepositoryCreationTemplate.CreatedAt, UpdatedAt: got.RepositoryCreationTemplate.CreatedAt, ImageTagMutability: "MUTABLE",
		EncryptionConfiguration: &ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate{EncryptionType: "AES256"},
	}
	same := func(what string, got *ecrtypes.RepositoryCreationTemplate) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(*want, ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate{}, ecrtypes.Tag{}, ecrtypes.ImageTagMutabilityExclusionFilter{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
	}
	same("created", got.RepositoryCreationTemplate)
	if *got.RegistryId != a.id {
		t.Errorf("registry %s", *got.RegistryId)
	}
	basic.Prefix = aws.String("team/apps")
	_, err := c.CreateRepositoryCreationTemplate(ctx, basic)
	testkit.WantErrorWith(t, err, "TemplateAlreadyExistsException", "The repository creation template already exists.")
	if r := testkit.Must(awsiam.NewFromConfig(w.AWSConfig(a.id)).GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("AWSServiceRoleForECRTemplate")}))(t).Role; *r.Path != "/aws-service-role/ecr.amazonaws.com/" {
		t.Errorf("role %+v", r)
	}

	role := a.role("creator", "ecr.amazonaws.com", `{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`)
	w.clock.Step(1e9)
	up := testkit.Must(c.UpdateRepositoryCreationTemplate(ctx, &awsecr.UpdateRepositoryCreationTemplateInput{
		Prefix: basic.Prefix, AppliedFor: []ecrtypes.RCTAppliedFor{"REPLICATION", "CREATE_ON_PUSH"}, Description: aws.String("apps"), ImageTagMutability: "IMMUTABLE_WITH_EXCLUSION",
		ImageTagMutabilityExclusionFilters: []ecrtypes.ImageTagMutabilityExclusionFilter{{Filter: aws.String("latest*"), FilterType: "WILDCARD"}},
		EncryptionConfiguration:            &ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate{EncryptionType: "KMS"}, CustomRoleArn: &role,
		LifecyclePolicy: aws.String(aLifecycle), RepositoryPolicy: aws.String(everyonePull), ResourceTags: []ecrtypes.Tag{{Key: aws.String("env"), Value: aws.String("test")}},
	}))(t).RepositoryCreationTemplate
	want.AppliedFor, want.Description, want.ImageTagMutability, want.CustomRoleArn = []ecrtypes.RCTAppliedFor{"REPLICATION", "CREATE_ON_PUSH"}, aws.String("apps"), "IMMUTABLE_WITH_EXCLUSION", &role
	want.ImageTagMutabilityExclusionFilters = []ecrtypes.ImageTagMutabilityExclusionFilter{{Filter: aws.String("latest*"), FilterType: "WILDCARD"}}
	want.EncryptionConfiguration.EncryptionType, want.LifecyclePolicy, want.RepositoryPolicy = "KMS", aws.String(aLifecycle), aws.String(everyonePull)
	want.ResourceTags, want.UpdatedAt = []ecrtypes.Tag{{Key: aws.String("env"), Value: aws.String("test")}}, up.UpdatedAt
	same("updated", up)
	if !up.UpdatedAt.After(*up.CreatedAt) {
		t.Errorf("updated at %v", up.UpdatedAt)
	}
	up = testkit.Must(c.UpdateRepositoryCreationTemplate(ctx, &awsecr.UpdateRepositoryCreationTemplateInput{Prefix: basic.Prefix, Description: aws.String("")}))(t).RepositoryCreationTemplate
	want.Description = nil
	same("one member", up)

	for _, prefix := range []string{"ROOT", "other"} {
		testkit.Must(c.CreateRepositoryCreationTemplate(ctx, &awsecr.CreateRepositoryCreationTemplateInput{Prefix: &prefix, AppliedFor: pullsThrough}))(t)
	}
	list := func(max *int32, prefixes ...string) (names []string) {
		for p := awsecr.NewDescribeRepositoryCreationTemplatesPaginator(c, &awsecr.DescribeRepositoryCreationTemplatesInput{MaxResults: max, Prefixes: prefixes}); p.HasMorePages(); {
			for _, t := range testkit.Must(p.NextPage(ctx))(t).RepositoryCreationTemplates {
				names = append(names, *t.Prefix)
			}
		}
		return names
	}
	if diff := cmp.Diff([]string{"ROOT", "other", "team/apps/"}, list(aws.Int32(2))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ROOT", "team/apps/"}, list(nil, "none", "ROOT", "team/apps")); diff != "" {
		t.Error(diff)
	}
	same("deleted", testkit.Must(c.DeleteRepositoryCreationTemplate(ctx, &awsecr.DeleteRepositoryCreationTemplateInput{Prefix: basic.Prefix}))(t).RepositoryCreationTemplate)
	_, err = c.DeleteRepositoryCreationTemplate(ctx, &awsecr.DeleteRepositoryCreationTemplateInput{Prefix: basic.Prefix})
	testkit.WantErrorWith(t, err, "TemplateNotFoundException", "can't be found")
	_, err = c.UpdateRepositoryCreationTemplate(ctx, &awsecr.UpdateRepositoryCreationTemplateInput{Prefix: basic.Prefix})
	testkit.WantErrorWith(t, err, "TemplateNotFoundException", "can't be found")

	bad := func(change func(*awsecr.CreateRepositoryCreationTemplateInput), code, text string) {
		t.Helper()
		in := &awsecr.CreateRepositoryCreationTemplateInput{Prefix: aws.String("bad"), AppliedFor: pullsThrough}
		change(in)
		_, err := c.CreateRepositoryCreationTemplate(ctx, in)
		testkit.WantErrorWith(t, err, code, text)
	}
	const invalid = "InvalidParameterException"
	bad(func(in *awsecr.CreateRepositoryCreationTemplateInput) {
		in.AppliedFor = []ecrtypes.RCTAppliedFor{"NEVER"}
	}, invalid, "[REPLICATION, PULL_THROUGH_CACHE, CREATE_ON_PUSH]")
	bad(func(in *awsecr.CreateRepositoryCreationTemplateInput) { in.LifecyclePolicy = aws.String(`{}`) }, invalid, "LifecyclePolicyText")
	bad(func(in *awsecr.CreateRepositoryCreationTemplateInput) { in.RepositoryPolicy = aws.String(`{`) }, invalid, "Invalid repository policy provided")
	bad(func(in *awsecr.CreateRepositoryCreationTemplateInput) {
		in.ImageTagMutability = "MUTABLE_WITH_EXCLUSION"
	}, invalid, "Filters are required")
}

// Who creates a template needs the permissions for what ECR does with it.
func TestPermissionsForTemplates(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	role := a.role("creator", "ecr.amazonaws.com", `{"Statement":[{"Effect":"Allow","Action":"ecr:*","Resource":"*"}]}`)
	create := func(name, actions string) error {
		user := a.user(name, `{"Statement":[{"Effect":"Allow","Action":["iam:CreateServiceLinkedRole"`+actions+`],"Resource":"*"}]}`)
		_, err := user.CreateRepositoryCreationTemplate(t.Context(), &awsecr.CreateRepositoryCreationTemplateInput{
			Prefix: aws.String("apps"), AppliedFor: pullsThrough, LifecyclePolicy: aws.String(aLifecycle), RepositoryPolicy: aws.String(everyonePull), CustomRoleArn: &role,
		})
		return err
	}
	actions := ""
	for n, action := range []string{"ecr:CreateRepositoryCreationTemplate", "ecr:CreateRepository", "ecr:PutLifecyclePolicy", "ecr:SetRepositoryPolicy", "iam:PassRole"} {
		testkit.WantErrorWith(t, create("user"+string(rune('a'+n)), actions), "AccessDeniedException", "is not authorized to perform: "+action+" on resource")
		actions += `,"` + action + `"`
	}
	if err := create("all", actions); err != nil {
		t.Error(err)
	}
}

// A repository that a pull creates has the settings of the template with the longest prefix.
func TestPullThroughWithTemplate(t *testing.T) {
	p := newPuller(t)
	ctx := t.Context()
	p.up.image("1", manifestOf("config", "layer"), "config", "layer")
	template := func(prefix string, change func(*awsecr.CreateRepositoryCreationTemplateInput)) {
		t.Helper()
		in := &awsecr.CreateRepositoryCreationTemplateInput{Prefix: &prefix, AppliedFor: pullsThrough}
		change(in)
		testkit.Must(p.c.CreateRepositoryCreationTemplate(ctx, in))(t)
	}
	key := testkit.Must(awskms.NewFromConfig(p.w.AWSConfig(p.id)).CreateKey(ctx, &awskms.CreateKeyInput{}))(t).KeyMetadata
	role := p.role("creator", "ecr.amazonaws.com", `{"Statement":[{"Effect":"Allow","Action":["ecr:CreateRepository","ecr:TagResource","kms:CreateGrant","kms:DescribeKey"],"Resource":"*"}]}`)
	weak := p.role("weak", "ecr.amazonaws.com", `{"Statement":[{"Effect":"Allow","Action":"ecr:CreateRepository","Resource":"*"}]}`)
	stranger := p.role("stranger", "ec2.amazonaws.com", `{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`)
	tags := []ecrtypes.Tag{{Key: aws.String("team"), Value: aws.String("apps")}}
	template("ROOT", func(in *awsecr.CreateRepositoryCreationTemplateInput) { in.ImageTagMutability = "IMMUTABLE" })
	template("quay", func(in *awsecr.CreateRepositoryCreationTemplateInput) {
		in.AppliedFor = []ecrtypes.RCTAppliedFor{"REPLICATION"}
	})
	template("quay/apps", func(in *awsecr.CreateRepositoryCreationTemplateInput) {
		in.LifecyclePolicy, in.RepositoryPolicy = aws.String(aLifecycle), aws.String(everyonePull)
	})
	template("quay/apps/sealed", func(in *awsecr.CreateRepositoryCreationTemplateInput) {
		in.ResourceTags, in.CustomRoleArn = tags, &role
		in.EncryptionConfiguration = &ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate{EncryptionType: "KMS", KmsKey: key.Arn}
	})
	template("quay/norole", func(in *awsecr.CreateRepositoryCreationTemplateInput) { in.ResourceTags = tags })
	template("quay/weak", func(in *awsecr.CreateRepositoryCreationTemplateInput) {
		in.ResourceTags, in.CustomRoleArn = tags, &weak
	})
	template("quay/stranger", func(in *awsecr.CreateRepositoryCreationTemplateInput) { in.CustomRoleArn = &stranger })
	repository := func(name string) ecrtypes.Repository {
		t.Helper()
		return testkit.Must(p.c.DescribeRepositories(ctx, &awsecr.DescribeRepositoriesInput{RepositoryNames: []string{name}}))(t).Repositories[0]
	}

	p.digest("quay/plain:1")
	if r := repository("quay/plain"); r.ImageTagMutability != "IMMUTABLE" || r.EncryptionConfiguration.EncryptionType != "AES256" {
		t.Errorf("%+v", r)
	}
	p.digest("quay/apps/web:1")
	if r := repository("quay/apps/web"); r.ImageTagMutability != "MUTABLE" {
		t.Errorf("%+v", r)
	}
	if got := testkit.Must(p.c.GetLifecyclePolicy(ctx, &awsecr.GetLifecyclePolicyInput{RepositoryName: aws.String("quay/apps/web")}))(t); *got.LifecyclePolicyText != aLifecycle {
		t.Errorf("%s", *got.LifecyclePolicyText)
	}
	if got := testkit.Must(p.c.GetRepositoryPolicy(ctx, &awsecr.GetRepositoryPolicyInput{RepositoryName: aws.String("quay/apps/web")}))(t); *got.PolicyText != everyonePull {
		t.Errorf("%s", *got.PolicyText)
	}
	p.digest("quay/apps/sealed/db:1")
	r := repository("quay/apps/sealed/db")
	if r.EncryptionConfiguration.EncryptionType != "KMS" || *r.EncryptionConfiguration.KmsKey != *key.Arn {
		t.Errorf("%+v", r.EncryptionConfiguration)
	}
	if got := testkit.Must(p.c.ListTagsForResource(ctx, &awsecr.ListTagsForResourceInput{ResourceArn: r.RepositoryArn}))(t).Tags; len(got) != 1 || *got[0].Value != "apps" {
		t.Errorf("tags %+v", got)
	}

	for image, want := range map[string]string{
		"quay/norole/app:1":   "'quay/norole' needs a repository creation role",
		"quay/weak/app:1":     "assumed-role/weak/ECR is not authorized to perform: ecr:TagResource",
		"quay/stranger/app:1": "unable to assume the role " + stranger,
	} {
		wantText(t, p.pull(ctx, image), want)
	}
	puller := login(t, p.user("puller", `{"Statement":[{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage","ecr:BatchImportUpstreamImage"],"Resource":"*"}]}`), p.addr, p.id)
	_, err := crane.Manifest(puller.ref("quay/apps/other:1"), puller.options()...)
	wantText(t, err, "user/puller is not authorized to perform: ecr:CreateRepository on resource: arn:aws:ecr:us-east-1:"+p.id+":repository/quay/apps/other")
	if n := len(testkit.Must(p.c.DescribeRepositories(ctx, &awsecr.DescribeRepositoriesInput{}))(t).Repositories); n != 3 {
		t.Errorf("%d repositories", n)
	}
}

// A push creates a repository only if a template says so.
func TestCreateOnPush(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	c := login(t, a.c, w.registry(t), a.id)
	image := anImage(t)
	testkit.Must(a.c.CreateRepositoryCreationTemplate(t.Context(), &awsecr.CreateRepositoryCreationTemplateInput{
		Prefix: aws.String("made"), AppliedFor: []ecrtypes.RCTAppliedFor{"CREATE_ON_PUSH"}, ImageTagMutability: "IMMUTABLE",
	}))(t)
	wantText(t, c.push(image, "other/app:1"), "NAME_UNKNOWN")
	pusher := login(t, a.user("pusher", `{"Statement":[{"Effect":"Allow","NotAction":"ecr:CreateRepository","Resource":"*"}]}`), c.addr, a.id)
	wantText(t, pusher.push(image, "made/app:1"), "user/pusher is not authorized to perform: ecr:CreateRepository")
	if err := c.push(image, "made/app:1"); err != nil {
		t.Fatal(err)
	}
	r := testkit.Must(a.c.DescribeRepositories(t.Context(), &awsecr.DescribeRepositoriesInput{}))(t).Repositories
	if len(r) != 1 || *r[0].RepositoryName != "made/app" || r[0].ImageTagMutability != "IMMUTABLE" {
		t.Errorf("%+v", r)
	}
	if err := pusher.push(anImage(t), "made/app:2"); err != nil {
		t.Error(err)
	}
}

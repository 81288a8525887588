package ssm_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func client(t *testing.T) *awsssm.Client {
	t.Helper()
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		return []awsapi.Service{ssm.New(ssm.Config{Store: st}).AWS()}
	}})
	return awsssm.NewFromConfig(srv.AWSConfig(srv.Account(t)))
}

func TestPublicParameters(t *testing.T) {
	c := client(t)
	ctx := t.Context()
	const base = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended"
	img, _ := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	got, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(base + "/image_id")})
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Parameter; *p.Value != img.ID || *p.ARN != "arn:aws:ssm:us-east-1::parameter"+base+"/image_id" || *p.DataType != "aws:ec2:image" {
		t.Errorf("%+v", p)
	}
	_, err = c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id")})
	var missing *ssmtypes.ParameterNotFound
	if !errors.As(err, &missing) {
		t.Errorf("AL2 for 1.33: %v", err)
	}
	current := got.Parameter
	selected, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(fmt.Sprintf("%s:%d", *current.Name, current.Version))})
	if err != nil || *selected.Parameter.Value != img.ID {
		t.Errorf("the published version: %v %v", selected, err)
	}
	for _, version := range []string{fmt.Sprint(current.Version + 1), fmt.Sprint(current.Version - 1), "label", ""} {
		_, err = c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(*current.Name + ":" + version)})
		testkit.WantError(t, err, "ParameterVersionNotFound", "")
	}
	below, err := c.GetParametersByPath(ctx, &awsssm.GetParametersByPathInput{Path: aws.String(base)})
	if err != nil || len(below.Parameters) != 3 {
		t.Errorf("by path: %v %v", below, err)
	}
	both, err := c.GetParameters(ctx, &awsssm.GetParametersInput{Names: []string{base + "/release_version", "/nothing"}})
	if err != nil || len(both.Parameters) != 1 || *both.Parameters[0].Value != "1.36.1-20260917" || len(both.InvalidParameters) != 1 {
		t.Errorf("several: %+v %v", both, err)
	}
	n := 0
	p := awsssm.NewGetParametersByPathPaginator(c, &awsssm.GetParametersByPathInput{Path: aws.String("/aws/service/bottlerocket"), Recursive: aws.Bool(true)})
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Parameters)
	}
	if n < 100 {
		t.Errorf("%d parameters of Bottlerocket", n)
	}
}

func TestImageParameter(t *testing.T) {
	var s *ssm.Service
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		s = ssm.New(ssm.Config{Store: st})
		return []awsapi.Service{s.AWS()}
	}})
	account := srv.Account(t)
	c := awsssm.NewFromConfig(srv.AWSConfig(account))
	img, _ := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	for name, dataType := range map[string]string{"/golden": "aws:ec2:image", "/plain": "text"} {
		if _, err := c.PutParameter(t.Context(), &awsssm.PutParameterInput{Name: &name, Value: &img.ID, Type: "String", DataType: &dataType}); err != nil {
			t.Fatal(err)
		}
	}
	const public = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
	for name, want := range map[string]bool{
		"/golden": true, "/golden:1": true, "/golden:2": false, "/plain": false, "/none": false, public: true,
		"arn:aws:ssm:us-east-1:" + account + ":parameter/golden": true,
	} {
		got, ok := s.ImageParameter(account, testkit.Region, name)
		if ok != want || ok && got != img.ID {
			t.Errorf("%s: %s %v", name, got, ok)
		}
	}
}

func TestOwnParameters(t *testing.T) {
	c := client(t)
	ctx := t.Context()
	put := func(name, value string, edit func(*awsssm.PutParameterInput)) (*awsssm.PutParameterOutput, error) {
		in := &awsssm.PutParameterInput{Name: &name, Value: &value, Type: "String"}
		if edit != nil {
			edit(in)
		}
		return c.PutParameter(ctx, in)
	}
	for _, name := range []string{"/app/one", "/app/two", "/app/deep/three"} {
		if _, err := put(name, "v1", nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := put("/app/one", "v2", nil)
	testkit.WantError(t, err, "ParameterAlreadyExists", "")
	out, err := put("/app/one", "v2", func(in *awsssm.PutParameterInput) { in.Overwrite = aws.Bool(true) })
	if err != nil || out.Version != 2 {
		t.Fatalf("%+v %v", out, err)
	}
	for ref, want := range map[string]string{"/app/one": "v2", "/app/one:1": "v1"} {
		got, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: &ref})
		if err != nil || *got.Parameter.Value != want {
			t.Errorf("%s: %+v %v", ref, got, err)
		}
	}
	_, err = c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/app/one:9")})
	testkit.WantError(t, err, "ParameterVersionNotFound", "")
	flat, err := c.GetParametersByPath(ctx, &awsssm.GetParametersByPathInput{Path: aws.String("/app")})
	if err != nil || len(flat.Parameters) != 2 {
		t.Errorf("flat: %+v %v", flat, err)
	}
	listed, err := c.DescribeParameters(ctx, &awsssm.DescribeParametersInput{ParameterFilters: []ssmtypes.ParameterStringFilter{{Key: aws.String("Name"), Option: aws.String("BeginsWith"), Values: []string{"/app/t"}}}})
	if err != nil || len(listed.Parameters) != 1 {
		t.Errorf("listed: %+v %v", listed, err)
	}
	tagging := &awsssm.AddTagsToResourceInput{ResourceType: "Parameter", ResourceId: aws.String("/app/one"), Tags: []ssmtypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}
	if _, err := c.AddTagsToResource(ctx, tagging); err != nil {
		t.Fatal(err)
	}
	tags, err := c.ListTagsForResource(ctx, &awsssm.ListTagsForResourceInput{ResourceType: "Parameter", ResourceId: aws.String("/app/one")})
	if err != nil || len(tags.TagList) != 1 {
		t.Errorf("tags: %+v %v", tags, err)
	}
	if _, err := c.DeleteParameter(ctx, &awsssm.DeleteParameterInput{Name: aws.String("/app/one")}); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/app/one")})
	testkit.WantError(t, err, "ParameterNotFound", "")

	_, err = put("/aws/service/x", "x", nil)
	testkit.WantError(t, err, "AccessDeniedException", "")
	_, err = put("/empty", "", nil)
	testkit.WantError(t, err, "ValidationException", "1 validation error detected: Value at 'value' failed to satisfy constraint: Member must have length greater than or equal to 1")
	_, err = put("awsome", "x", nil)
	testkit.WantError(t, err, "ValidationException", "")
	_, err = put("/number", "x", func(in *awsssm.PutParameterInput) { in.AllowedPattern = aws.String("[0-9]+") })
	testkit.WantError(t, err, "ParameterPatternMismatchException", "")
}

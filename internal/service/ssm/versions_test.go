package ssm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestSecureString(t *testing.T) {
	c := client(t)
	ctx := t.Context()
	const secret = "hunter2"
	if _, err := c.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/db/password"), Value: aws.String(secret), Type: "SecureString"}); err != nil {
		t.Fatal(err)
	}
	for _, decrypt := range []bool{false, true} {
		one, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/db/password"), WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		some, err := c.GetParameters(ctx, &awsssm.GetParametersInput{Names: []string{"/db/password"}, WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		path, err := c.GetParametersByPath(ctx, &awsssm.GetParametersByPathInput{Path: aws.String("/db"), WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		old, err := c.GetParameterHistory(ctx, &awsssm.GetParameterHistoryInput{Name: aws.String("/db/password"), WithDecryption: &decrypt})
		if err != nil {
			t.Fatal(err)
		}
		if k := aws.ToString(old.Parameters[0].KeyId); k != "alias/aws/ssm" || *old.Parameters[0].Name != "/db/password" {
			t.Errorf("history: %+v", old.Parameters[0])
		}
		for how, value := range map[string]string{"get": *one.Parameter.Value, "several": *some.Parameters[0].Value, "path": *path.Parameters[0].Value, "history": *old.Parameters[0].Value} {
			if clear := value == secret; clear != decrypt || !decrypt && strings.Contains(value, secret) {
				t.Errorf("%s, decrypted %v: %q", how, decrypt, value)
			}
		}
	}
	listed, err := c.DescribeParameters(ctx, &awsssm.DescribeParametersInput{ParameterFilters: []ssmtypes.ParameterStringFilter{{Key: aws.String("KeyId"), Values: []string{"alias/aws/ssm"}}}})
	if err != nil || len(listed.Parameters) != 1 || *listed.Parameters[0].KeyId != "alias/aws/ssm" {
		t.Errorf("%+v %v", listed, err)
	}
	_, err = c.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/other"), Value: aws.String("x"), Type: "SecureString", KeyId: aws.String("alias/mine")})
	testkit.WantError(t, err, "NotImplemented", "")
	_, err = c.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/other"), Value: aws.String("x"), Type: "String", KeyId: aws.String("alias/aws/ssm")})
	testkit.WantError(t, err, "ValidationException", "")
}

func TestLabels(t *testing.T) {
	c := client(t)
	ctx := t.Context()
	name := aws.String("/app/x")
	put := func(value string) error {
		_, err := c.PutParameter(ctx, &awsssm.PutParameterInput{Name: name, Value: &value, Type: "String", Overwrite: aws.Bool(true)})
		return err
	}
	label := func(version int64, labels ...string) (*awsssm.LabelParameterVersionOutput, error) {
		return c.LabelParameterVersion(ctx, &awsssm.LabelParameterVersionInput{Name: name, ParameterVersion: &version, Labels: labels})
	}
	for i := range 3 {
		if err := put(fmt.Sprintf("v%d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := label(1, "prod", "1st", "awsome", "SSM-x", "not valid")
	if err != nil || out.ParameterVersion != 1 || len(out.InvalidLabels) != 4 {
		t.Fatalf("%+v %v", out, err)
	}
	read := func(ref string) string {
		t.Helper()
		got, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: &ref})
		if err != nil {
			t.Fatal(err)
		}
		return *got.Parameter.Value
	}
	if v := read("/app/x:prod"); v != "v1" {
		t.Errorf("prod is %s", v)
	}
	if _, err := label(2, "prod"); err != nil { // moves the label
		t.Fatal(err)
	}
	if v := read("/app/x:prod"); v != "v2" {
		t.Errorf("prod is %s", v)
	}
	byLabel, err := c.GetParametersByPath(ctx, &awsssm.GetParametersByPathInput{Path: aws.String("/app"), ParameterFilters: []ssmtypes.ParameterStringFilter{{Key: aws.String("Label"), Values: []string{"prod"}}}})
	if err != nil || len(byLabel.Parameters) != 1 || byLabel.Parameters[0].Version != 2 {
		t.Errorf("%+v %v", byLabel, err)
	}
	var many []string
	for i := range 10 {
		many = append(many, fmt.Sprintf("label-%d", i))
	}
	_, err = label(2, many...)
	testkit.WantError(t, err, "ParameterVersionLabelLimitExceeded", "")
	_, err = label(9, "prod")
	testkit.WantError(t, err, "ParameterVersionNotFound", "")
	_, err = label(1, strings.Repeat("x", 101))
	testkit.WantError(t, err, "ValidationException", "")
	_, err = c.LabelParameterVersion(ctx, &awsssm.LabelParameterVersionInput{Name: aws.String("/none"), Labels: []string{"a"}})
	testkit.WantError(t, err, "ParameterNotFound", "")
	gone, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/app/x:staging")})
	if gone != nil {
		t.Errorf("%+v", gone)
	}
	testkit.WantError(t, err, "ParameterVersionNotFound", "")

	// The oldest version is kept as long as it has a label.
	if _, err := label(1, "keep"); err != nil {
		t.Fatal(err)
	}
	for i := 3; i < 100; i++ {
		if err := put("v"); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WantError(t, put("one too many"), "ParameterMaxVersionLimitExceeded", "")
	un, err := c.UnlabelParameterVersion(ctx, &awsssm.UnlabelParameterVersionInput{Name: name, ParameterVersion: aws.Int64(1), Labels: []string{"keep", "other"}})
	if err != nil || !slices.Equal(un.RemovedLabels, []string{"keep"}) || !slices.Equal(un.InvalidLabels, []string{"other"}) {
		t.Fatalf("%+v %v", un, err)
	}
	if err := put("now it goes"); err != nil {
		t.Error(err)
	}
	_, err = c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/app/x:1")})
	testkit.WantError(t, err, "ParameterVersionNotFound", "")
	n, labels := 0, 0
	for p := awsssm.NewGetParameterHistoryPaginator(c, &awsssm.GetParameterHistoryInput{Name: name, MaxResults: aws.Int32(7)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Parameters {
			n, labels = n+1, labels+len(v.Labels)
		}
	}
	if n != 100 || labels != 1 {
		t.Errorf("%d versions with %d labels", n, labels)
	}
}

func TestGlobalInfrastructure(t *testing.T) {
	c := client(t)
	for name, want := range map[string]string{
		"/aws/service/global-infrastructure/regions/eu-west-1/longName":                        "Europe (Ireland)",
		"/aws/service/global-infrastructure/availability-zones/use1-az1/parent-region":         "us-east-1",
		"/aws/service/global-infrastructure/regions/us-west-2/availability-zones/usw2-az1":     "usw2-az1",
		"arn:aws:ssm:us-east-1::parameter/aws/service/global-infrastructure/regions/us-west-2": "us-west-2",
	} {
		got, err := c.GetParameter(t.Context(), &awsssm.GetParameterInput{Name: &name})
		if err != nil || *got.Parameter.Value != want {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	// The request of aws ssm get-parameters-by-path to list the regions.
	n := 0
	for p := awsssm.NewGetParametersByPathPaginator(c, &awsssm.GetParametersByPathInput{Path: aws.String("/aws/service/global-infrastructure/regions")}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Parameters)
	}
	if n < 30 {
		t.Errorf("%d regions", n)
	}
}

func TestBadParameters(t *testing.T) {
	c := client(t)
	ctx := t.Context()
	put := func(name, value string, edit func(*awsssm.PutParameterInput)) error {
		in := &awsssm.PutParameterInput{Name: &name, Value: &value, Type: "String"}
		if edit != nil {
			edit(in)
		}
		_, err := c.PutParameter(ctx, in)
		return err
	}
	tags := func(n int) (out []ssmtypes.Tag) {
		for i := range n {
			out = append(out, ssmtypes.Tag{Key: aws.String(fmt.Sprintf("k%d", i)), Value: aws.String("v")})
		}
		return out
	}
	if err := put("/advanced", strings.Repeat("x", 8000), func(in *awsssm.PutParameterInput) { in.Tier = "Intelligent-Tiering" }); err != nil {
		t.Fatal(err)
	}
	describe := func(f ...ssmtypes.ParameterStringFilter) error {
		_, err := c.DescribeParameters(ctx, &awsssm.DescribeParametersInput{ParameterFilters: f})
		return err
	}
	byPath := func(path string, f ...ssmtypes.ParameterStringFilter) error {
		_, err := c.GetParametersByPath(ctx, &awsssm.GetParametersByPathInput{Path: &path, ParameterFilters: f})
		return err
	}
	filter := func(key, option string, values ...string) ssmtypes.ParameterStringFilter {
		return ssmtypes.ParameterStringFilter{Key: &key, Option: &option, Values: values}
	}
	for _, tc := range []struct {
		name, code string
		err        error
	}{
		// names
		{"prefix aws", "ValidationException", put("awsome", "x", nil)},
		{"prefix ssm in a path", "ValidationException", put("/SSM/x", "x", nil)},
		{"reserved path", "AccessDeniedException", put("/aws/mine", "x", nil)},
		{"space", "ValidationException", put("/a b", "x", nil)},
		{"path without a slash in front", "ValidationException", put("a/b", "x", nil)},
		{"16 levels", "HierarchyLevelLimitExceededException", put(strings.Repeat("/x", 16), "x", nil)},
		// values
		{"empty", "ValidationException", put("/x", "", nil)},
		{"4097 bytes", "ValidationException", put("/x", strings.Repeat("x", 4097), nil)},
		{"8193 bytes", "ValidationException", put("/x", strings.Repeat("x", 8193), func(in *awsssm.PutParameterInput) { in.Tier = "Advanced" })},
		{"type", "ValidationException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.Type = "Number" })},
		{"no type", "ValidationException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.Type = "" })},
		{"data type", "ValidationException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.DataType = aws.String("aws:mars") })},
		{"image", "ValidationException", put("/x", "ami-00000000000000000", func(in *awsssm.PutParameterInput) { in.DataType = aws.String("aws:ec2:image") })},
		{"pattern", "ParameterPatternMismatchException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.AllowedPattern = aws.String("[0-9]+") })},
		{"bad pattern", "InvalidAllowedPatternException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.AllowedPattern = aws.String("[") })},
		{"description", "ValidationException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.Description = aws.String(strings.Repeat("x", 1025)) })},
		{"downgrade", "ValidationException", put("/advanced", "x", func(in *awsssm.PutParameterInput) {
			in.Overwrite, in.Tier = aws.Bool(true), "Standard"
		})},
		{"policies", "InvalidPolicyAttributeException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.Policies = aws.String("[1]") })},
		// tags
		{"tags with overwrite", "ValidationException", put("/x", "x", func(in *awsssm.PutParameterInput) { in.Overwrite, in.Tags = aws.Bool(true), tags(1) })},
		{"51 tags", "TooManyTagsError", put("/x", "x", func(in *awsssm.PutParameterInput) { in.Tags = tags(51) })},
		{"tag of AWS", "ValidationException", put("/x", "x", func(in *awsssm.PutParameterInput) {
			in.Tags = []ssmtypes.Tag{{Key: aws.String("aws:x"), Value: aws.String("v")}}
		})},
		// filters
		{"unknown key", "InvalidFilterKey", describe(filter("Colour", "Equals", "red"))},
		{"label", "InvalidFilterKey", describe(filter("Label", "Equals", "x"))},
		{"twice", "InvalidFilterKey", describe(filter("Name", "Equals", "x"), filter("Name", "Equals", "y"))},
		{"no values", "InvalidFilterValue", describe(filter("Name", "Equals"))},
		{"option", "InvalidFilterOption", describe(filter("Name", "Like", "x"))},
		{"path option", "InvalidFilterOption", describe(filter("Path", "Equals", "/x"))},
		{"path without slash", "ValidationException", byPath("x")},
		{"name by path", "InvalidFilterKey", byPath("/x", filter("Name", "Equals", "x"))},
		{"label begins with", "InvalidFilterOption", byPath("/x", filter("Label", "BeginsWith", "x"))},
	} {
		t.Run(tc.name, func(t *testing.T) { testkit.WantError(t, tc.err, tc.code, "") })
	}
	left, err := c.DescribeParameters(ctx, &awsssm.DescribeParametersInput{})
	if err != nil || len(left.Parameters) != 1 {
		t.Errorf("refused parameters were made: %+v %v", left, err)
	}
}

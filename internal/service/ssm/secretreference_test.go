package ssm_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestParametersThatReferToSecrets(t *testing.T) {
	owner, user := withUsers(t)
	c, secrets, ctx := awsssm.NewFromConfig(owner), awssm.NewFromConfig(owner), t.Context()
	first := testkit.Must(secrets.CreateSecret(ctx, &awssm.CreateSecretInput{Name: aws.String("db/password"), SecretString: aws.String("old")}))(t)
	testkit.Must(secrets.PutSecretValue(ctx, &awssm.PutSecretValueInput{SecretId: first.ARN, SecretString: aws.String("new")}))(t)
	const path = "/aws/reference/secretsmanager/"
	get := func(c *awsssm.Client, name string) (*awsssm.GetParameterOutput, error) {
		return c.GetParameter(ctx, &awsssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	}
	for selector, want := range map[string]string{"": "new", ":AWSPREVIOUS": "old", ":" + *first.VersionId: "old"} {
		p := testkit.Must(get(c, path+"db/password"+selector))(t).Parameter
		var source struct{ ARN, Name, VersionID, SecretString string }
		if err := json.Unmarshal([]byte(aws.ToString(p.SourceResult)), &source); err != nil {
			t.Fatal(err)
		}
		if *p.Value != want || *p.Name != path+"db/password" || p.Type != "SecureString" || *p.ARN != *first.ARN || aws.ToString(p.Selector) != selector ||
			source.SecretString != want || source.Name != "db/password" || source.ARN != *first.ARN || (source.VersionID == *first.VersionId) != (want == "old") {
			t.Errorf("%q: %+v from %+v", selector, p, source)
		}
	}
	_, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(path + "db/password")})
	testkit.WantErrorWith(t, err, "ValidationException", "WithDecryption flag must be True for retrieving a Secret Manager secret.")
	_, err = get(c, path+"absent")
	testkit.WantErrorWith(t, err, "ParameterNotFound", "An error occurred (ParameterNotFound) when referencing Secrets Manager: Secret aws/reference/secretsmanager/absentnull not found.")
	many := testkit.Must(c.GetParameters(ctx, &awsssm.GetParametersInput{Names: []string{path + "db/password", path + "absent"}, WithDecryption: aws.Bool(true)}))(t)
	if len(many.Parameters) != 1 || *many.Parameters[0].Value != "new" || !slices.Equal(many.InvalidParameters, []string{path + "absent"}) {
		t.Errorf("several: %+v", many)
	}

	const reads = `{"Effect":"Allow","Action":"ssm:GetParameter","Resource":"arn:aws:ssm:*:*:parameter/aws/reference/secretsmanager/db/*"}`
	const both = reads + `,{"Effect":"Allow","Action":["secretsmanager:GetSecretValue","kms:Decrypt"],"Resource":"*"}`
	if _, err := get(awsssm.NewFromConfig(user("both", both)), path+"db/password"); err != nil {
		t.Errorf("with both permissions: %v", err)
	}
	_, err = get(awsssm.NewFromConfig(user("parameters", reads)), path+"db/password")
	testkit.WantErrorWith(t, err, "AccessDeniedException", "An error occurred (AccessDeniedException) when referencing Secrets Manager: User: arn:aws:iam::")
	_, err = get(awsssm.NewFromConfig(user("secrets", `{"Effect":"Allow","Action":["secretsmanager:*","kms:*"],"Resource":"*"}`)), path+"db/password")
	testkit.WantErrorWith(t, err, "AccessDeniedException", "is not authorized to perform: ssm:GetParameter on resource: arn:aws:ssm:us-east-1:")
}

func TestMalformedNames(t *testing.T) {
	owner, _ := withUsers(t)
	c, ctx := awsssm.NewFromConfig(owner), t.Context()
	const text = `Parameter name: can't be prefixed with "ssm" (case-insensitive). If formed as a path, it can consist of sub-paths divided by slash symbol; ` +
		`each sub-path can be formed as a mix of letters, numbers and the following 3 symbols .-_`
	put := func(name string) error {
		_, err := c.PutParameter(ctx, &awsssm.PutParameterInput{Name: &name, Value: aws.String("v"), Type: "String"})
		return err
	}
	if err := put("/a/b"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/a//b", "a/b", "{a}-b", "a b"} {
		_, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: &name})
		testkit.WantErrorWith(t, err, "ValidationException", text)
		_, err = c.GetParameters(ctx, &awsssm.GetParametersInput{Names: []string{name}})
		testkit.WantErrorWith(t, err, "ValidationException", text)
		if name == "a/b" {
			testkit.WantErrorWith(t, put(name), "ValidationException", "Parameter name must be a fully qualified name.")
		} else {
			testkit.WantErrorWith(t, put(name), "ValidationException", text)
		}
	}
	if p := testkit.Must(c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(" /a/b ")}))(t).Parameter; *p.Name != "/a/b" {
		t.Errorf("a name with spaces around it: %+v", p)
	}
}

package ssm_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestSecretsOfCustomerManagedKeys checks that KMS encrypts values, directly or with a data key,
// and that its errors are passed on as by Parameter Store.
func TestSecretsOfCustomerManagedKeys(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		keys := kms.New(kms.Config{Store: st})
		return []awsapi.Service{keys.AWS(), ssm.New(ssm.Config{Store: st, KMS: keys}).AWS()}
	}})
	cfg := srv.AWSConfig(srv.Account(t))
	c, keys, ctx := awsssm.NewFromConfig(cfg), awskms.NewFromConfig(cfg), t.Context()
	made, err := keys.CreateKey(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := made.KeyMetadata.Arn
	if _, err := keys.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: aws.String("alias/ours"), TargetKeyId: key}); err != nil {
		t.Fatal(err)
	}
	put := func(name, key, value string, edit func(*awsssm.PutParameterInput)) error {
		in := &awsssm.PutParameterInput{Name: &name, Value: &value, Type: "SecureString", Overwrite: aws.Bool(true)}
		if key != "" {
			in.KeyId = &key
		}
		if edit != nil {
			edit(in)
		}
		_, err := c.PutParameter(ctx, in)
		return err
	}
	get := func(name string, decrypt bool) (string, error) {
		out, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: &name, WithDecryption: &decrypt})
		if err != nil {
			return "", err
		}
		return *out.Parameter.Value, nil
	}
	long := strings.Repeat("0123456789", 600)
	for name, tt := range map[string]struct {
		key, value string
		edit       func(*awsssm.PutParameterInput)
	}{
		"/standard":  {*key, "secret", nil},
		"/alias":     {"alias/ours", "secret", nil},
		"/advanced":  {*key, long, func(in *awsssm.PutParameterInput) { in.Tier = "Advanced" }},
		"/tiering":   {*key, long, func(in *awsssm.PutParameterInput) { in.Tier = "Intelligent-Tiering" }},
		"/overwrite": {*key, "secret", func(in *awsssm.PutParameterInput) { in.Type = "" }},
	} {
		if name == "/overwrite" { // the first version has AWS's key
			if err := put(name, "", "old", nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := put(name, tt.key, tt.value, tt.edit); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := get(name, true); err != nil || got != tt.value {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if got, err := get(name, false); err != nil || got == "" || strings.Contains(got, tt.value) {
			t.Errorf("%s is in the clear: %q %v", name, got, err)
		}
	}
	managed, err := keys.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String("alias/aws/ssm")})
	if err != nil || managed.KeyMetadata.KeyManager != "AWS" {
		t.Errorf("AWS's key: %+v %v", managed, err)
	}
	if got, err := get("/overwrite:1", true); err != nil || got != "old" {
		t.Errorf("the version of AWS's key: %q %v", got, err)
	}
	list, err := c.DescribeParameters(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Parameters {
		if want := map[bool]string{true: "alias/ours", false: *key}[*p.Name == "/alias"]; *p.KeyId != want {
			t.Errorf("%s has the key %s", *p.Name, *p.KeyId)
		}
	}
	// Errors of KMS.
	testkit.WantError(t, put("/none", "alias/none", "x", nil), "InvalidKeyId", "")
	testkit.WantError(t, put("/plain", *key, "x", func(in *awsssm.PutParameterInput) { in.Type = "String" }), "ValidationException", "")
	if _, err := keys.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: key}); err != nil {
		t.Fatal(err)
	}
	_, err = get("/standard", true)
	testkit.WantError(t, err, "InvalidKeyId", "")
	if err == nil || !strings.Contains(err.Error(), *key+" is disabled. (Service: AWSKMS; Status Code: 400; Error Code: DisabledException; Request ID: ") {
		t.Errorf("%v", err)
	}
}

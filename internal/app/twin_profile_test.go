package app

import (
	"crypto/sha1" //nolint:gosec // the name of the cache's file
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin/source"
)

// With a profile of IAM Identity Center, the token in the user's cache is exchanged for credentials of a role, and these are used for reads
// only. The recording holds none of it.
func TestTwinOfAnSSOProfile(t *testing.T) {
	const account, token = "411222333444", "sso-token-of-a-user"
	info := startDaemon(t)
	admin := configFor(info, account, "test")
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:root"},"Action":"sts:AssumeRole"}]}`
	iam := awsiam.NewFromConfig(admin)
	user := testkit.Must(iam.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: aws.String("jane")}))(t).User
	testkit.Must(iam.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{UserName: user.UserName, PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)}))(t)
	key := testkit.Must(iam.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: user.UserName}))(t).AccessKey
	role := testkit.Must(iam.CreateRole(t.Context(), &awsiam.CreateRoleInput{RoleName: aws.String("AWSReservedSSO_ReadOnly"), AssumeRolePolicyDocument: &trust}))(t).Role
	testkit.Must(iam.AttachRolePolicy(t.Context(), &awsiam.AttachRolePolicyInput{RoleName: role.RoleName, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")}))(t)
	lent := testkit.Must(awssts.NewFromConfig(configFor(info, *key.AccessKeyId, *key.SecretAccessKey)).AssumeRole(t.Context(), &awssts.AssumeRoleInput{RoleArn: role.Arn, RoleSessionName: aws.String("jane")}))(t).Credentials

	asked := 0
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Method != http.MethodGet || r.URL.Path != "/federation/credentials" || r.URL.Query().Get("account_id") != account || r.Header.Get("x-amz-sso_bearer_token") != token {
			t.Errorf("the portal was asked %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"roleCredentials": map[string]any{
			"accessKeyId": lent.AccessKeyId, "secretAccessKey": lent.SecretAccessKey, "sessionToken": lent.SessionToken, "expiration": lent.Expiration.UnixMilli(),
		}})
	}))
	defer portal.Close()
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(home, ".aws", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config", "[profile prod]\nregion = us-east-1\nsso_session = corp\nsso_account_id = "+account+"\nsso_role_name = ReadOnly\n[sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://corp.awsapps.com/start\n")
	name := sha1.Sum([]byte("corp")) //nolint:gosec // as AWS's tools do
	write("sso/cache/"+hex.EncodeToString(name[:])+".json", `{"accessToken":"`+token+`","expiresAt":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	for name, value := range map[string]string{"HOME": home, "AWS_CONFIG_FILE": filepath.Join(home, ".aws", "config"), "AWS_ENDPOINT_URL_SSO": portal.URL, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""} {
		t.Setenv(name, value)
	}
	cfg := testkit.Must(config.LoadDefaultConfig(t.Context(), config.WithSharedConfigProfile("prod")))(t)
	cfg.BaseEndpoint = &info.URL
	rec := testkit.Must(source.Read(t.Context(), cfg, quickly))(t)
	if asked != 1 || !strings.HasSuffix(rec.Source.Caller, ":assumed-role/AWSReservedSSO_ReadOnly/jane") {
		t.Errorf("the portal was asked %d times; read by %s", asked, rec.Source.Caller)
	}
	text := asJSON(t, rec)
	for what, secret := range map[string]string{"token": token, "secret key": *lent.SecretAccessKey, "session token": *lent.SessionToken} {
		if strings.Contains(text, secret) {
			t.Errorf("the recording has the %s", what)
		}
	}
}

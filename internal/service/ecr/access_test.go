package ecr_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awssecretsmanager "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/google/go-containerregistry/pkg/crane"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// secret creates a secret and returns its ARN.
func (a *account) secret(name, value string) string {
	a.t.Helper()
	c := awssecretsmanager.NewFromConfig(a.w.AWSConfig(a.id))
	return *testkit.Must(c.CreateSecret(a.t.Context(), &awssecretsmanager.CreateSecretInput{Name: &name, SecretString: &value}))(a.t).ARN
}

// role creates a role that trusts a service, with the given policy, and returns its ARN.
func (a *account) role(name, service, policy string) string {
	a.t.Helper()
	c := awsiam.NewFromConfig(a.w.AWSConfig(a.id))
	trust := `{"Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"}]}`
	arn := *testkit.Must(c.CreateRole(a.t.Context(), &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust}))(a.t).Role.Arn
	testkit.Must(c.PutRolePolicy(a.t.Context(), &awsiam.PutRolePolicyInput{RoleName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(a.t)
	return arn
}

const cacheService = "pullthroughcache.ecr.amazonaws.com"

// Rules say how their upstream registry is accessed: by a secret, by a role, or not at all.
func TestCredentialsOfRules(t *testing.T) {
	w := newWorld(t)
	a, other := w.account(t), w.account(t)
	ctx := t.Context()
	secret := a.secret("ecr-pullthroughcache/hub", "test") // what it holds shows later
	theirs := other.secret("ecr-pullthroughcache/hub", "test")
	gone := "arn:aws:secretsmanager:us-east-1:" + a.id + ":secret:ecr-pullthroughcache/none-abcdef"
	role := "arn:aws:iam::" + a.id + ":role/cache"
	upstream := other.id + ".dkr.ecr.us-east-1.amazonaws.com"
	const unsupported, invalid, missing = "UnsupportedUpstreamRegistryException", "InvalidParameterException", "SecretNotFoundException"
	for n, tt := range []struct{ url, kind, credential, role, code, text string }{
		{url: "registry-1.docker.io", code: unsupported, text: "The specified upstream registry requires authentication. Specify a valid Secrets Manager ARN containing the upstream registry credentials."},
		{url: "ghcr.io", code: unsupported, text: "requires authentication"},
		{url: "registry.gitlab.com", code: unsupported, text: "requires authentication"},
		{url: "cgr.dev", code: unsupported, text: "requires authentication"},
		{url: "team.azurecr.io", code: unsupported, text: "requires authentication"},
		{url: "registry-1.docker.io", credential: gone, code: missing, text: "The ARN of the secret specified in the pull through cache rule was not found."},
		{url: "registry-1.docker.io", credential: theirs, code: missing, text: "Please verify the secret exists in the same region and account"},
		{url: "registry-1.docker.io", credential: strings.Replace(secret, "us-east-1", "us-west-2", 1), code: missing, text: "Please verify the secret exists in the same region"},
		{url: "registry-1.docker.io", credential: strings.Replace(secret, "ecr-pullthroughcache", "other", 1), code: invalid, text: "credentialArn"},
		{url: "registry-1.docker.io", role: role, code: invalid, text: "Upstream registry URL and provided credential type do not match"},
		{url: "registry-1.docker.io", kind: "quay", credential: secret, code: invalid, text: "Upstream registry URL and entered upstream registry do not match"},
		{url: "quay.io", credential: secret, code: unsupported, text: "The specified upstream registry doesn't require authentication"},
		{url: "quay.io", role: role, code: invalid, text: "do not match"},
		{url: upstream, code: unsupported, text: "requires authentication"},
		{url: upstream, credential: secret, code: invalid, text: "do not match"},
		{url: upstream, role: "arn:aws:iam::" + other.id + ":role/cache", code: "AccessDeniedException", text: "iam:PassRole"},
		{url: upstream, role: "arn:aws:iam::" + a.id + ":user/cache", code: invalid, text: "The role must be in the account of the registry"},
		{url: a.id + ".dkr.ecr.us-east-1.amazonaws.com", code: unsupported, text: "is invalid"},
		{url: a.id + ".dkr.ecr.eu-west-1.amazonaws.com"},
		{url: upstream, role: role},
		{url: "quay.io", kind: "k8s"}, // ignored
		{url: "registry-1.docker.io", kind: "docker-hub", credential: secret},
	} {
		in := &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String(fmt.Sprintf("rule%d", n)), UpstreamRegistryUrl: &tt.url}
		if tt.credential != "" {
			in.CredentialArn = &tt.credential
		}
		if tt.role != "" {
			in.CustomRoleArn = &tt.role
		}
		in.UpstreamRegistry = ecrtypes.UpstreamRegistry(tt.kind)
		out, err := a.c.CreatePullThroughCacheRule(ctx, in)
		switch {
		case tt.code != "":
			testkit.WantErrorWith(t, err, tt.code, tt.text)
		case err != nil:
			t.Errorf("%+v: %v", tt, err)
		case aws.ToString(out.CredentialArn) != tt.credential || aws.ToString(out.CustomRoleArn) != tt.role:
			t.Errorf("%+v: %+v", tt, out)
		}
	}
	last := aws.String("rule21")
	_, err := a.c.UpdatePullThroughCacheRule(ctx, &awsecr.UpdatePullThroughCacheRuleInput{EcrRepositoryPrefix: last, CredentialArn: &gone})
	testkit.WantErrorWith(t, err, missing, "was not found")
	again := a.secret("ecr-pullthroughcache/again", "x")
	out := testkit.Must(a.c.UpdatePullThroughCacheRule(ctx, &awsecr.UpdatePullThroughCacheRuleInput{EcrRepositoryPrefix: last, CredentialArn: &again}))(t)
	if aws.ToString(out.CredentialArn) != again {
		t.Errorf("credential %s", aws.ToString(out.CredentialArn))
	}
	_, err = a.c.UpdatePullThroughCacheRule(ctx, &awsecr.UpdatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("none"), CredentialArn: &again})
	testkit.WantErrorWith(t, err, "PullThroughCacheRuleNotFoundException", "none")
}

// The caller who creates a rule needs permission to create ECR's service-linked role, and to pass a custom role.
func TestPermissionsForRules(t *testing.T) {
	w := newWorld(t)
	a, other := w.account(t), w.account(t)
	ctx := t.Context()
	user := a.user("builder", `{"Statement":[{"Effect":"Allow","Action":"ecr:*","Resource":"*"}]}`)
	quay := &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("quay"), UpstreamRegistryUrl: aws.String("quay.io")}
	_, err := user.CreatePullThroughCacheRule(ctx, quay)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "is not authorized to perform: iam:CreateServiceLinkedRole")
	testkit.Must(a.c.CreatePullThroughCacheRule(ctx, quay))(t)
	name := aws.String("AWSServiceRoleForECRPullThroughCache")
	if r := testkit.Must(awsiam.NewFromConfig(w.AWSConfig(a.id)).GetRole(ctx, &awsiam.GetRoleInput{RoleName: name}))(t).Role; *r.Path != "/aws-service-role/"+cacheService+"/" {
		t.Errorf("role %+v", r)
	}
	quay.EcrRepositoryPrefix = aws.String("second") // the role exists
	testkit.Must(user.CreatePullThroughCacheRule(ctx, quay))(t)

	role := a.role("cache", cacheService, `{"Statement":[{"Effect":"Allow","Action":"ecr:*","Resource":"*"}]}`)
	_, err = user.CreatePullThroughCacheRule(ctx, &awsecr.CreatePullThroughCacheRuleInput{
		EcrRepositoryPrefix: aws.String("ecr"), UpstreamRegistryUrl: aws.String(other.id + ".dkr.ecr.us-east-1.amazonaws.com"), CustomRoleArn: &role,
	})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "is not authorized to perform: iam:PassRole on resource: "+role)
}

// guarded makes an upstream registry want a token, which it gives for a user name and a password.
func (f *fakeUpstream) guarded(user, password string, seen *[]string) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		auth := r.Header.Get("Authorization")
		f.mu.Lock()
		*seen = append(*seen, r.Host+" "+auth)
		f.mu.Unlock()
		switch {
		case r.Host == "auth.example":
			if auth != basic {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"you said %s"}]}`, auth)
				return true
			}
			fmt.Fprint(w, `{"token":"granted"}`)
			return true
		case r.Host == "cdn.example":
			return false
		case auth != "Bearer granted":
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://auth.example/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, "https://cdn.example"+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
}

// The user name and the token of the secret are exchanged for a token of the registry, and go nowhere else.
func TestPullThroughWithCredentials(t *testing.T) {
	w := newWorld(t)
	var logged bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&logged, nil))
	a := w.account(t)
	ctx := t.Context()
	up, seen := &fakeUpstream{}, []string{}
	up.image("1", manifestOf("config", "layer"), "config", "layer")
	up.guarded("me", "s3cret", &seen)
	w.upstreamServer(t, up)
	secrets := awssecretsmanager.NewFromConfig(w.AWSConfig(a.id))
	secret := a.secret("ecr-pullthroughcache/hub", "test")
	prefix := aws.String("hub")
	testkit.Must(a.c.CreatePullThroughCacheRule(ctx, &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: prefix, UpstreamRegistryUrl: aws.String("registry-1.docker.io"), CredentialArn: &secret}))(t)
	c := login(t, a.c, w.registry(t), a.id)
	pull := func() error {
		_, err := crane.Manifest(c.ref("hub/library/app:1"), c.options()...)
		return err
	}
	validate := func(failure string) {
		t.Helper()
		out := testkit.Must(a.c.ValidatePullThroughCacheRule(ctx, &awsecr.ValidatePullThroughCacheRuleInput{EcrRepositoryPrefix: prefix}))(t)
		if out.IsValid != (failure == "") || !strings.Contains(aws.ToString(out.Failure), failure) || *out.CredentialArn != secret || *out.UpstreamRegistryUrl != "registry-1.docker.io" {
			t.Errorf("%v %s, want %q", out.IsValid, aws.ToString(out.Failure), failure)
		}
	}
	set := func(value string) {
		t.Helper()
		testkit.Must(secrets.PutSecretValue(ctx, &awssecretsmanager.PutSecretValueInput{SecretId: &secret, SecretString: &value}))(t)
	}
	const form = "must be a JSON object with the keys username and accessToken"
	validate(form)
	wantText(t, pull(), "DENIED: The secret specified in the pull through cache rule "+form)
	set(`{"username":"me","accessToken":"wr0ng"}`)
	const denied = "The authentication to the upstream registry failed. Verify that the credentials provided in the pull through cache rule are correct, and try again."
	validate(denied)
	wantText(t, pull(), "DENIED: "+denied)
	set(`{"username":"me","accessToken":"s3cret"}`)
	validate("")
	if err := pull(); err != nil {
		t.Fatal(err)
	}
	cdn := 0
	for _, s := range seen {
		if host, auth, _ := strings.Cut(s, " "); host == "cdn.example" {
			cdn++
			if auth != "" {
				t.Errorf("another host got %q", auth)
			}
		}
	}
	if cdn != 2 {
		t.Errorf("%d layers", cdn)
	}
	testkit.Must(secrets.DeleteSecret(ctx, &awssecretsmanager.DeleteSecretInput{SecretId: &secret, ForceDeleteWithoutRecovery: aws.Bool(true)}))(t)
	validate("The ARN of the secret specified in the pull through cache rule was not found.")
	w.upstream = nil
	validate("The ARN of the secret")
	for _, s := range []string{"s3cret", "wr0ng", base64.StdEncoding.EncodeToString([]byte("me:s3cret")), base64.StdEncoding.EncodeToString([]byte("me:wr0ng"))} {
		if strings.Contains(logged.String(), s) {
			t.Errorf("the log has %s:\n%s", s, logged.String())
		}
	}
}

// What a registry says that quotes the credentials is not logged.
func TestCredentialsAreNotLogged(t *testing.T) {
	w := newWorld(t)
	var logged bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&logged, nil))
	a := w.account(t)
	up := &fakeUpstream{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		user, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, `{"errors":[{"code":"TEAPOT","message":"%s %s %s"}]}`, user, password, r.Header.Get("Authorization"))
		return true
	}}
	w.upstreamServer(t, up)
	secret := a.secret("ecr-pullthroughcache/hub", `{"username":"me","accessToken":"s3cret"}`)
	testkit.Must(a.c.CreatePullThroughCacheRule(t.Context(), &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("hub"), UpstreamRegistryUrl: aws.String("ghcr.io"), CredentialArn: &secret}))(t)
	c := login(t, a.c, w.registry(t), a.id)
	_, err := crane.Manifest(c.ref("hub/app:1"), c.options()...)
	wantText(t, err, "Unable to access the upstream registry ghcr.io.")
	if text := logged.String(); !strings.Contains(text, "me *** Basic ***") || strings.Contains(text, "s3cret") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("me:s3cret"))) {
		t.Errorf("log:\n%s", text)
	}
}

// A secret whose KMS key is disabled cannot be decrypted.
func TestSecretWithoutKey(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx := t.Context()
	keys := awskms.NewFromConfig(w.AWSConfig(a.id))
	key := testkit.Must(keys.CreateKey(ctx, &awskms.CreateKeyInput{}))(t).KeyMetadata.KeyId
	secret := testkit.Must(awssecretsmanager.NewFromConfig(w.AWSConfig(a.id)).CreateSecret(ctx, &awssecretsmanager.CreateSecretInput{
		Name: aws.String("ecr-pullthroughcache/hub"), SecretString: aws.String("x"), KmsKeyId: key,
	}))(t).ARN
	testkit.Must(keys.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: key}))(t)
	_, err := a.c.CreatePullThroughCacheRule(ctx, &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("hub"), UpstreamRegistryUrl: aws.String("cgr.dev"), CredentialArn: secret})
	testkit.WantErrorWith(t, err, "UnableToDecryptSecretValueException", "The secret is accessible but is unable to be decrypted.")
}

// A rule for a registry without credentials is valid if the registry can be reached.
func TestValidateOpenRegistry(t *testing.T) {
	w := newWorld(t)
	a, other := w.account(t), w.account(t)
	a.rule("quay", "quay.io")
	in := &awsecr.ValidatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("quay")}
	if out := testkit.Must(a.c.ValidatePullThroughCacheRule(t.Context(), in))(t); out.IsValid || *out.Failure != "Unable to access the upstream registry quay.io." {
		t.Errorf("%+v", out)
	}
	w.upstreamServer(t, &fakeUpstream{})
	if out := testkit.Must(a.c.ValidatePullThroughCacheRule(t.Context(), in))(t); !out.IsValid || out.Failure != nil {
		t.Errorf("%+v", out)
	}
	_, err := a.c.ValidatePullThroughCacheRule(t.Context(), &awsecr.ValidatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("none")})
	testkit.WantErrorWith(t, err, "PullThroughCacheRuleNotFoundException", "none")
	in.RegistryId = &a.id
	_, err = other.c.ValidatePullThroughCacheRule(t.Context(), in)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "ecr:ValidatePullThroughCacheRule")
	_, err = a.user("reader", `{"Statement":[{"Effect":"Allow","Action":"ecr:Describe*","Resource":"*"}]}`).ValidatePullThroughCacheRule(t.Context(), in)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "ecr:ValidatePullThroughCacheRule")
}

// A rule for another account's registry copies with a role, which the other account must allow. Within an account it needs none.
func TestPullThroughFromECR(t *testing.T) {
	w := newWorld(t)
	a, other := w.account(t), w.account(t)
	ctx := t.Context()
	addr := w.registry(t)
	other.repository("team/app")
	manifest := other.push("team/app", "1", "config", "layer")
	role := a.role("cache", cacheService, `{"Statement":[{"Effect":"Allow","Action":["ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"],"Resource":"*"}]}`)
	stranger := a.role("stranger", "ec2.amazonaws.com", `{"Statement":[{"Effect":"Allow","Action":"ecr:*","Resource":"*"}]}`)
	url := other.id + ".dkr.ecr.us-east-1.amazonaws.com"
	rule := &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("other"), UpstreamRegistryUrl: &url, CustomRoleArn: &stranger, UpstreamRepositoryPrefix: aws.String("team")}
	testkit.Must(a.c.CreatePullThroughCacheRule(ctx, rule))(t)
	c := login(t, a.c, addr, a.id)
	pull := func(image string) error {
		got, err := crane.Digest(c.ref(image), c.options()...)
		if err == nil && got != digestOf(manifest) {
			t.Errorf("%s is %s", image, got)
		}
		return err
	}
	wantText(t, pull("other/app:1"), "Amazon ECR is unable to assume the role "+stranger)
	testkit.Must(a.c.UpdatePullThroughCacheRule(ctx, &awsecr.UpdatePullThroughCacheRuleInput{EcrRepositoryPrefix: rule.EcrRepositoryPrefix, CustomRoleArn: &role}))(t)
	wantText(t, pull("other/app:1"), "The authentication to the upstream registry failed.")
	policy := `{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + a.id + `:root"},"Action":["ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"]}]}`
	testkit.Must(other.c.SetRepositoryPolicy(ctx, &awsecr.SetRepositoryPolicyInput{RepositoryName: aws.String("team/app"), PolicyText: &policy}))(t)
	if err := pull("other/app:1"); err != nil {
		t.Error(err)
	}
	if out := testkit.Must(a.c.ValidatePullThroughCacheRule(ctx, &awsecr.ValidatePullThroughCacheRuleInput{EcrRepositoryPrefix: rule.EcrRepositoryPrefix}))(t); !out.IsValid || *out.CustomRoleArn != role {
		t.Errorf("%+v", out)
	}

	// The other region's registry is empty, and rules are not followed from there.
	far := awsecr.NewFromConfig(w.AWSConfig(a.id), func(o *awsecr.Options) { o.Region = "eu-west-1" })
	back := a.id + ".dkr.ecr.us-east-1.amazonaws.com"
	testkit.Must(far.CreatePullThroughCacheRule(ctx, &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("ROOT"), UpstreamRegistryUrl: &back}))(t)
	to := a.id + ".dkr.ecr.eu-west-1.amazonaws.com"
	testkit.Must(a.c.CreatePullThroughCacheRule(ctx, &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("ROOT"), UpstreamRegistryUrl: &to}))(t)
	wantText(t, pull("none:1"), "NAME_UNKNOWN")
	a.repository("mine")
	mine := a.push("mine", "1", "config", "layer")
	remote := c
	remote.host = to
	got, err := crane.Digest(remote.ref("mine:1"), remote.options()...)
	if err != nil || got != digestOf(mine) {
		t.Errorf("%s, %v", got, err)
	}
}

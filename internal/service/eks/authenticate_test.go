package eks_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// token returns a token of the principal with an access key, as if signed for a cluster.
func token(key, cluster string, change ...func(*url.URL, url.Values)) string {
	u := &url.URL{Scheme: "https", Host: "sts.us-east-1.amazonaws.com", Path: "/"}
	q := url.Values{
		"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-Credential": {key},
		"X-Amz-Date": {time.Now().UTC().Format("20060102T150405Z")}, "X-Amz-Expires": {"60"}, "X-Amz-SignedHeaders": {"host;x-k8s-aws-id"},
		"X-Amz-Signature": {"for-" + cluster},
	}
	for _, c := range change {
		c(u, q)
	}
	u.RawQuery = q.Encode()
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(u.String()))
}

func (w *world) user(name, id string) awsapi.Principal {
	return awsapi.Principal{Type: awsapi.IAMUser, Account: w.account, ARN: w.arn("user/" + name), UserID: id, AccessKeyID: "AKIA" + name, Name: name}
}

func (w *world) session(rolePath, id, session string) awsapi.Principal {
	name := rolePath[strings.LastIndexByte(rolePath, '/')+1:]
	return awsapi.Principal{
		Type: awsapi.AssumedRole, Account: w.account, ARN: "arn:aws:sts::" + w.account + ":assumed-role/" + name + "/" + session,
		UserID: id + ":" + session, AccessKeyID: "ASIA" + name, Name: name, RoleARN: w.arn("role/" + rolePath), SessionName: session,
	}
}

func (w *world) login(key string) (authnv1.UserInfo, error) {
	plane, _ := w.planes.only()
	return w.svc.Authenticate(w.Context(), plane.ID, token(key, "dev"))
}

func TestTokensAreJudgedAsTheAuthenticatorJudges(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	w.principals["root"] = awsapi.Principal{Type: awsapi.Root, Account: w.account, ARN: w.arn("root"), UserID: w.account}
	plane, _ := w.planes.only()
	good := token("root", "dev")
	for name, tt := range map[string]struct {
		token string
		want  string // part of the reason; empty if the token is valid
	}{
		"good":                      {good, ""},
		"signed for drydock itself": {token("root", "dev", func(u *url.URL, _ url.Values) { u.Scheme, u.Host = "http", "localhost:4566" }), ""},
		"the global endpoint":       {token("root", "dev", func(u *url.URL, _ url.Values) { u.Host = "sts.amazonaws.com" }), ""},
		"a FIPS endpoint":           {token("root", "dev", func(u *url.URL, _ url.Values) { u.Host = "sts-fips.us-gov-west-1.amazonaws.com" }), ""},
		"14 minutes old, expires 60": {token("root", "dev", func(_ *url.URL, q url.Values) {
			q.Set("X-Amz-Date", time.Now().UTC().Add(-14*time.Minute).Format("20060102T150405Z"))
		}), ""},
		"16 minutes old": {token("root", "dev", func(_ *url.URL, q url.Values) {
			q.Set("X-Amz-Date", time.Now().UTC().Add(-16*time.Minute).Format("20060102T150405Z"))
		}), "X-Amz-Date parameter is expired"},
		"another cluster's":    {token("root", "prod"), "SignatureDoesNotMatch"},
		"an unknown key":       {token("nobody", "dev"), "InvalidClientTokenId"},
		"no prefix":            {good[3:], "missing expected"},
		"padded":               {good + "=", "not base64"},
		"too long":             {good + strings.Repeat("A", 4096), "too large"},
		"another host":         {token("root", "dev", func(u *url.URL, _ url.Values) { u.Host = "sts.amazonaws.com.evil.example" }), "unexpected hostname"},
		"a host with a port":   {token("root", "dev", func(u *url.URL, _ url.Values) { u.Host = "sts.amazonaws.com:8443" }), "unexpected hostname"},
		"plain http to AWS":    {token("root", "dev", func(u *url.URL, _ url.Values) { u.Scheme = "http" }), "unexpected scheme"},
		"a user in the URL":    {token("root", "dev", func(u *url.URL, _ url.Values) { u.User = url.User("x") }), "unexpected parts"},
		"another path":         {token("root", "dev", func(u *url.URL, _ url.Values) { u.Path = "/x" }), "unexpected path"},
		"another action":       {token("root", "dev", func(_ *url.URL, q url.Values) { q.Set("Action", "AssumeRole") }), "unexpected action"},
		"two actions":          {token("root", "dev", func(_ *url.URL, q url.Values) { q.Add("Action", "GetCallerIdentity") }), "multiple values"},
		"an action twice":      {token("root", "dev", func(_ *url.URL, q url.Values) { q.Set("action", "GetCallerIdentity") }), "multiple values"},
		"an unknown parameter": {token("root", "dev", func(_ *url.URL, q url.Values) { q.Set("RoleArn", "x") }), "non-whitelisted"},
		"no signed cluster":    {token("root", "dev", func(_ *url.URL, q url.Values) { q.Set("X-Amz-SignedHeaders", "host") }), "did not sign"},
		"expires in an hour":   {token("root", "dev", func(_ *url.URL, q url.Values) { q.Set("X-Amz-Expires", "3600") }), "invalid X-Amz-Expires"},
		"no date":              {token("root", "dev", func(_ *url.URL, q url.Values) { q.Del("X-Amz-Date") }), "error parsing X-Amz-Date"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := w.svc.Authenticate(t.Context(), plane.ID, tt.token)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want == "" && got.Username != "kubernetes-admin":
				t.Errorf("user = %+v", got)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, eks.ErrUnauthenticated)):
				t.Errorf("error = %v, want a refusal with %q", err, tt.want)
			}
		})
	}
	if _, err := w.svc.Authenticate(t.Context(), "NO-SUCH-PLANE", good); !errors.Is(err, eks.ErrUnauthenticated) {
		t.Errorf("unknown plane: %v", err)
	}
}

func TestATokenOfTheRealSignerIsGood(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	creds := aws.Credentials{AccessKeyID: "AKIAREAL", SecretAccessKey: "secret"}
	verifier := sigv4.NewVerifier(sigv4.Config{Lookup: func(_ context.Context, key, _ string) (sigv4.Credential, error) {
		if key != creds.AccessKeyID {
			return sigv4.Credential{}, sigv4.ErrUnknownKey
		}
		return sigv4.Credential{SecretKey: creds.SecretAccessKey, Principal: w.user("real", "AIDAREAL")}, nil
	}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-k8s-aws-id", "dev")
	signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), creds, req, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "sts", "us-east-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(signed)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]bool{"dev": true, "prod": false} {
		got, err := verifier.VerifyPresigned(t.Context(), u, http.Header{"X-K8s-Aws-Id": {cluster}}, http.MethodGet)
		if (err == nil) != want || want && got.Name != "real" {
			t.Errorf("for cluster %s: %+v, %v", cluster, got, err)
		}
	}
}

func TestAccessEntriesDecideWhoComesIn(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	dev := aws.String("dev")
	for principal, in := range map[string]awseks.CreateAccessEntryInput{
		w.arn("user/jane"):     {KubernetesGroups: []string{"devs"}},
		w.arn("role/path/dev"): {KubernetesGroups: []string{"g-{{SessionName}}"}},
		w.arn("role/node"):     {Type: aws.String("EC2_LINUX")},
	} {
		in.ClusterName, in.PrincipalArn = dev, &principal
		if _, err := w.client.CreateAccessEntry(t.Context(), &in); err != nil {
			t.Fatal(err)
		}
	}
	w.principals["jane"] = w.user("jane", "AIDAJANE")
	w.principals["john"] = w.user("john", "AIDAJOHN")
	w.principals["again"] = w.user("jane", "AIDANEWJANE")
	w.principals["dev"] = w.session("path/dev", "AROADEV", "me@example.com")
	w.principals["wrongpath"] = w.session("dev", "AROADEV", "me")
	w.ec2.instances["i-0123456789abcdef0"] = instance("i-0123456789abcdef0", "ip-172-31-0-9.ec2.internal")
	w.principals["node"] = w.session("node", "AROANODE", "i-0123456789abcdef0")
	w.principals["gone"] = w.session("node", "AROANODE", "i-00000000000000000")
	w.principals["nonode"] = w.session("node", "AROANODE", "botocore-session")

	type who struct {
		Username string
		Groups   []string
	}
	for key, want := range map[string]who{
		"jane":      {w.arn("user/jane"), []string{"devs"}},
		"john":      {},
		"again":     {},
		"dev":       {"arn:aws:sts::" + w.account + ":assumed-role/dev/me-example.com", []string{"g-me-example.com"}},
		"wrongpath": {},
		"node":      {"system:node:ip-172-31-0-9.ec2.internal", []string{"system:bootstrappers", "system:nodes"}},
		"gone":      {},
		"nonode":    {},
	} {
		t.Run(key, func(t *testing.T) {
			got, err := w.login(key)
			if want.Username == "" {
				if !errors.Is(err, eks.ErrUnauthenticated) {
					t.Errorf("login = %+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, who{got.Username, got.Groups}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got, err := w.login("dev")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]authnv1.ExtraValue{
		"accessKeyId": {"ASIAdev"}, "arn": {w.principals["dev"].ARN}, "canonicalArn": {w.arn("role/dev")}, "principalId": {"AROADEV"},
		"sessionName": {"me@example.com"}, "sigs.k8s.io/aws-iam-authenticator/principalId": {"AROADEV"},
	}, got.Extra); diff != "" || got.UID != "aws-iam-authenticator:"+w.account+":AROADEV" {
		t.Errorf("uid %s, extra (-want +got):\n%s", got.UID, diff)
	}
}

func TestAWSAuthDecidesWhoComesIn(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	auth := func(data map[string]string) {
		t.Helper()
		maps := w.kubernetes().CoreV1().ConfigMaps("kube-system")
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth", Namespace: "kube-system"}, Data: data}
		if _, err := maps.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.principals["jane"] = w.user("jane", "AIDAJANE")
	w.principals["dev"] = w.session("path/dev", "AROADEV", "me@example.com")
	w.principals["canary"] = w.user("canary", "AIDACANARY")
	w.principals["canary-role"] = w.session("canary", "AROACANARY", "s")
	w.principals["creator"] = awsapi.Principal{Type: awsapi.Root, Account: w.account, ARN: w.arn("root"), UserID: w.account}
	item := func(kind, arn, username string) string {
		return fmt.Sprintf("- %s: %s\n  username: %s\n", kind, arn, username)
	}
	for name, tt := range map[string]struct {
		data map[string]string
		key  string
		want string // username; empty if refused
	}{
		"a user":                        {map[string]string{"mapUsers": item("userarn", w.arn("user/jane"), "jane")}, "jane", "jane"},
		"a user in another case":        {map[string]string{"mapUsers": item("userARN", strings.ToUpper(w.arn("user/jane")), "jane")}, "jane", "jane"},
		"nobody":                        {map[string]string{}, "jane", ""},
		"a role without its path":       {map[string]string{"mapRoles": item("rolearn", w.arn("role/dev"), "dev-{{SessionName}}")}, "dev", "dev-me-example.com"},
		"a role with its path":          {map[string]string{"mapRoles": item("rolearn", w.arn("role/path/dev"), "dev")}, "dev", ""},
		"the raw session":               {map[string]string{"mapRoles": item("rolearn", w.arn("role/dev"), `"{{AccountID}}:{{SessionNameRaw}}"`)}, "dev", w.account + ":me@example.com"},
		"a template for nodes":          {map[string]string{"mapRoles": item("rolearn", w.arn("role/dev"), "system:node:{{EC2PrivateDNSName}}")}, "dev", ""},
		"an account":                    {map[string]string{"mapAccounts": "- \"" + w.account + "\"\n"}, "jane", w.arn("user/jane")},
		"another account":               {map[string]string{"mapAccounts": "- \"111122223333\"\n"}, "jane", ""},
		"what is broken beside":         {map[string]string{"mapRoles": "}{", "mapUsers": item("userarn", w.arn("user/jane"), "jane")}, "jane", "jane"},
		"an item without an ARN beside": {map[string]string{"mapUsers": "- username: x\n" + item("userarn", w.arn("user/jane"), "jane")}, "jane", "jane"},
		"no list":                       {map[string]string{"mapUsers": "jane"}, "jane", ""},
		"not YAML":                      {map[string]string{"mapUsers": "- userarn: [" + w.arn("user/jane")}, "jane", ""},
		"tabs":                          {map[string]string{"mapUsers": "-\tuserarn: " + w.arn("user/jane")}, "jane", ""},
		"a wrong key of the map":        {map[string]string{"mapUser": item("userarn", w.arn("user/jane"), "jane")}, "jane", ""},
		"a wrong key of an item":        {map[string]string{"mapUsers": item("user_arn", w.arn("user/jane"), "jane")}, "jane", ""},
		"a user among the roles":        {map[string]string{"mapRoles": item("userarn", w.arn("user/jane"), "jane")}, "jane", ""},
		"a wrong type":                  {map[string]string{"mapUsers": "- userarn: {a: b}\n  username: jane\n"}, "jane", ""},
		"an item of the wrong type":     {map[string]string{"mapUsers": "- 7\n" + item("userarn", w.arn("user/jane"), "jane")}, "jane", "jane"},
		"the same ARN twice":            {map[string]string{"mapUsers": item("userarn", w.arn("user/jane"), "first") + item("userarn", w.arn("user/jane"), "last")}, "jane", "last"},
		"the same key twice":            {map[string]string{"mapUsers": "- userarn: " + w.arn("user/john") + "\n  userarn: " + w.arn("user/jane") + "\n  username: jane\n"}, "jane", "jane"},
		"a billion laughs":              {map[string]string{"mapUsers": laughs()}, "jane", ""},
		"aliases of a long text":        {map[string]string{"mapUsers": fmt.Sprintf("- {userarn: %q, username: jane}\n- &a %q\n- [%s*a]\n", w.arn("user/jane"), strings.Repeat("x", 40<<10), strings.Repeat("*a,", 9_999))}, "jane", ""},
		"ten thousand items":            {map[string]string{"mapUsers": strings.Repeat(item("userarn", w.arn("user/x"), "x"), 10_000) + item("userarn", w.arn("user/jane"), "jane")}, "jane", "jane"},
		"deep nesting":                  {map[string]string{"mapUsers": strings.Repeat("[", 20_000)}, "jane", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// Another principal's login shows when the map has been read.
			data, canary := maps.Clone(tt.data), ""
			if data["mapUsers"] == "" {
				canary, data["mapUsers"] = "canary", item("userarn", w.arn("user/canary"), `"`+name+`"`)
			} else if data["mapRoles"] == "" {
				canary, data["mapRoles"] = "canary-role", item("rolearn", w.arn("role/canary"), `"`+name+`"`)
			}
			auth(data)
			testkit.Eventually(t, 5*time.Second, func() error {
				if got, err := w.login(canary); canary != "" && got.Username != name {
					return fmt.Errorf("login = %q, %v", got.Username, err)
				}
				return nil
			})
			if got, err := w.login(tt.key); canary != "" && (got.Username != tt.want || (err == nil) != (tt.want != "")) {
				t.Errorf("login = %q, %v; want %q", got.Username, err, tt.want)
			}
			testkit.Eventually(t, 5*time.Second, func() error {
				got, err := w.login(tt.key)
				if got.Username != tt.want || (err == nil) != (tt.want != "") {
					return fmt.Errorf("login = %q, %v; want %q", got.Username, err, tt.want)
				}
				return nil
			})
			// The creator keeps access whatever the map says.
			if got, err := w.login("creator"); err != nil || got.Username != "kubernetes-admin" {
				t.Errorf("the creator is %q, %v", got.Username, err)
			}
		})
	}
}

// laughs is a "billion laughs" YAML document: a short text that expands to a huge one.
func laughs() string {
	var b strings.Builder
	b.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'k'; c++ {
		fmt.Fprintf(&b, "%c: &%c [%[3]s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ","))
	}
	return b.String()
}

func TestAnAccessEntryGoesBeforeAWSAuth(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApiAndConfigMap)
	w.principals["jane"] = w.user("jane", "AIDAJANE")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth", Namespace: "kube-system"}, Data: map[string]string{
		"mapUsers": "- userarn: " + w.arn("user/jane") + "\n  username: from-map\n",
	}}
	if _, err := w.kubernetes().CoreV1().ConfigMaps("kube-system").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		if got, err := w.login("jane"); got.Username != "from-map" {
			return fmt.Errorf("login = %q, %v", got.Username, err)
		}
		return nil
	})
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("user/jane")), Username: aws.String("from-entry")}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.login("jane"); got.Username != "from-entry" {
		t.Errorf("login = %q, %v", got.Username, err)
	}
}

// The entry of an identity that was deleted and created again is what has to be replaced:
// another entry is refused, whatever aws-auth says.
func TestAStaleEntryIsNamed(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApiAndConfigMap)
	w.principals["jane"] = w.user("jane", "AIDANEW")
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("user/jane"))}); err != nil {
		t.Fatal(err)
	}
	_, err := w.login("jane")
	if refused, ok := errors.AsType[*eks.Refusal](err); !ok || refused.Cause() != eks.CauseStaleEntry {
		t.Errorf("login: %v", err)
	}
}

func TestAccessPoliciesAuthorize(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	jane := aws.String(w.arn("user/jane"))
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: jane}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.AssociateAccessPolicy(t.Context(), &awseks.AssociateAccessPolicyInput{
		ClusterName: aws.String("dev"), PrincipalArn: jane, PolicyArn: aws.String(viewPolicy),
		AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"dev-*", "shared"}},
	}); err != nil {
		t.Fatal(err)
	}
	plane, _ := w.planes.only()
	ask := func(principal awsapi.Principal, a *authzv1.ResourceAttributes, n *authzv1.NonResourceAttributes) bool {
		t.Helper()
		id, _, _ := strings.Cut(principal.UserID, ":")
		ok, _, err := w.svc.Authorize(t.Context(), plane.ID, authzv1.SubjectAccessReviewSpec{
			ResourceAttributes: a, NonResourceAttributes: n, User: "x", UID: "aws-iam-authenticator:" + w.account + ":" + id,
			Extra: map[string]authzv1.ExtraValue{"principalId": {id}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	root := awsapi.Principal{UserID: w.account}
	for _, tt := range []struct {
		who             awsapi.Principal
		verb, resource  string
		namespace, name string
		want            bool
	}{
		{root, "delete", "nodes", "", "n", true},
		{w.user("jane", "AIDAJANE"), "list", "pods", "dev-blue", "", true},
		{w.user("jane", "AIDAJANE"), "list", "pods", "shared", "", true},
		{w.user("jane", "AIDAJANE"), "list", "pods", "prod", "", false},
		{w.user("jane", "AIDAJANE"), "list", "pods", "", "", false},
		{w.user("jane", "AIDAJANE"), "delete", "pods", "dev-blue", "p", false},
		{w.user("john", "AIDAJOHN"), "list", "pods", "dev-blue", "", false},
	} {
		t.Run(tt.who.UserID+" "+tt.verb+" "+tt.resource+" in "+tt.namespace, func(t *testing.T) {
			got := ask(tt.who, &authzv1.ResourceAttributes{Verb: tt.verb, Resource: tt.resource, Namespace: tt.namespace, Name: tt.name}, nil)
			if got != tt.want {
				t.Errorf("allowed = %v", got)
			}
		})
	}
	if !ask(root, nil, &authzv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}) || ask(w.user("jane", "AIDAJANE"), nil, &authzv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}) {
		t.Error("/metrics is for the cluster's administrators only")
	}
	ok, _, err := w.svc.Authorize(t.Context(), plane.ID, authzv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:x:y", UID: "6d0e", Extra: map[string]authzv1.ExtraValue{"principalId": {w.account}},
		ResourceAttributes: &authzv1.ResourceAttributes{Verb: "list", Resource: "pods"},
	})
	if ok || err != nil {
		t.Errorf("a service account is allowed: %v, %v", ok, err)
	}
}

func FuzzAuthenticateNeverLetsAStrangerIn(f *testing.F) {
	for _, s := range []string{"", "k8s-aws-v1.", "k8s-aws-v1.aHR0cHM6Ly9zdHMuYW1hem9uYXdzLmNvbS8", token("nobody", "dev"), token("root", "prod"),
		token("root", "dev", func(u *url.URL, _ url.Values) { u.Host = "evil.example" })} {
		f.Add(s)
	}
	w := newWorld(f)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	plane, _ := w.planes.only()
	f.Fuzz(func(t *testing.T, tok string) {
		if got, err := w.svc.Authenticate(context.Background(), plane.ID, tok); err == nil || got.Username != "" {
			t.Errorf("token %q is good for %+v", tok, got)
		}
	})
}

func TestAuthenticateIsFast(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.principals["root"] = awsapi.Principal{Type: awsapi.Root, Account: w.account, ARN: w.arn("root"), UserID: w.account}
	plane, _ := w.planes.only()
	tok := token("root", "dev")
	if _, err := w.svc.Authenticate(t.Context(), plane.ID, tok); err != nil {
		t.Fatal(err)
	}
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := w.svc.Authenticate(context.Background(), plane.ID, tok); err != nil {
				b.Fatal(err)
			}
		}
	})
	if per := time.Duration(result.NsPerOp()); per > time.Millisecond {
		t.Errorf("a login takes %s, want at most 1ms", per)
	} else {
		t.Logf("a login takes %s", per)
	}
}

package sts_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/golang-jwt/jwt/v5"
)

const (
	issuerPath  = "oidc.eks.us-east-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF"
	issuer      = "https://" + issuerPath
	otherIssuer = "oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF"
	podSubject  = "system:serviceaccount:shop:cart"
)

// A tokenMaker signs tokens as a cluster does.
type tokenMaker struct {
	method jwt.SigningMethod
	key    any
	kid    string
}

func number(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// makers returns an RSA and an elliptic-curve key, and the key set that publishes both.
func makers(t *testing.T) (rs, es tokenMaker, keySet []byte) {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	point, err := e.PublicKey.Bytes()
	must(t, err)
	keySet, err = json.Marshal(map[string]any{"keys": []map[string]string{
		{"use": "sig", "kty": "RSA", "kid": "r", "n": number(r.N.Bytes()), "e": "AQAB"},
		{"use": "sig", "kty": "EC", "crv": "P-256", "kid": "e", "x": number(point[1:33]), "y": number(point[33:])},
	}})
	must(t, err)
	return tokenMaker{jwt.SigningMethodRS256, r, "r"}, tokenMaker{jwt.SigningMethodES256, e, "e"}, keySet
}

func (m tokenMaker) sign(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(m.method, claims)
	if m.kid != "" {
		token.Header["kid"] = m.kid
	}
	signed, err := token.SignedString(m.key)
	must(t, err)
	return signed
}

// irsa creates what IAM roles for service accounts need: a registered issuer, and a role that
// trusts one of its service accounts.
func (w *world) irsa(t *testing.T, root caller, account string) {
	t.Helper()
	ctx := context.Background()
	must(t, second(root.iam.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String(issuer), ClientIDList: []string{"sts.amazonaws.com"}})))
	for name, prefix := range map[string]string{"pod": issuerPath, "elsewhere": otherIssuer} {
		trust := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::%s:oidc-provider/%s"},
			"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"%s:sub":"%s","%s:aud":"sts.amazonaws.com"}}}]}`, account, issuerPath, prefix, podSubject, prefix)
		must(t, second(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, Path: aws.String("/p/"), AssumeRolePolicyDocument: &trust})))
	}
}

// anonymous returns a client without credentials.
func (w *world) anonymous() *awssts.Client {
	return awssts.NewFromConfig(w.AWSConfigWith(aws.AnonymousCredentials{}))
}

// A web identity request is not signed, so its account and region do not determine which VPC
// endpoint's policy applies.
func TestEndpointPoliciesBindWebIdentities(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	w.irsa(t, root, account)
	rs, _, keySet := makers(t)
	w.issuers[issuer] = keySet
	now := w.clock.Now()
	token := rs.sign(t, jwt.MapClaims{
		"iss": issuer, "aud": []string{"sts.amazonaws.com"}, "sub": podSubject, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	assume := func() error {
		return second(w.anonymous().AssumeRoleWithWebIdentity(ctx, &awssts.AssumeRoleWithWebIdentityInput{
			RoleArn: aws.String("arn:aws:iam::" + account + ":role/p/pod"), RoleSessionName: aws.String("cart"), WebIdentityToken: &token,
		}))
	}
	const statement = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":%s,"Action":"%s","Resource":"*"}]}`
	must(t, assume())
	w.endpoint = fmt.Sprintf(statement, `"*"`, "sts:GetCallerIdentity")
	testkit.WantError(t, assume(), "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	// As in AWS's own data perimeter examples:
	// https://github.com/aws-samples/data-perimeter-policy-examples/blob/main/vpc_endpoint_policies/sts_endpoint_policy.json
	w.endpoint = fmt.Sprintf(statement, `{"Federated":"*"}`, "sts:AssumeRoleWithWebIdentity")
	must(t, assume())
}

func TestWebIdentity(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	w.irsa(t, root, account)
	rs, es, keySet := makers(t)
	stranger, _, _ := makers(t)
	w.issuers[issuer] = keySet
	now := w.clock.Now()
	good := jwt.MapClaims{
		"iss": issuer, "aud": []string{"sts.amazonaws.com"}, "sub": podSubject, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	with := func(key string, value any) jwt.MapClaims {
		c := maps.Clone(good)
		c[key] = value
		if value == nil {
			delete(c, key)
		}
		return c
	}
	expired := now.Add(-time.Second)
	for _, tt := range []struct {
		name, role, token string
		code, message     string // empty if allowed
	}{
		{"signed by RSA", "pod", rs.sign(t, good), "", ""},
		{"signed by an elliptic curve", "pod", es.sign(t, good), "", ""},
		{"one of several audiences", "pod", rs.sign(t, with("aud", []string{"https://kubernetes.default.svc", "sts.amazonaws.com"})), "", ""},
		{"wrong subject", "pod", rs.sign(t, with("sub", "system:serviceaccount:shop:other")), "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"},
		{"another region's issuer in the conditions", "elsewhere", rs.sign(t, good), "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"},
		{"no such role", "missing", rs.sign(t, good), "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"},
		{"wrong audience", "pod", rs.sign(t, with("aud", "https://kubernetes.default.svc")), "InvalidIdentityToken", "Incorrect token audience"},
		{"unregistered issuer", "pod", rs.sign(t, with("iss", "https://"+otherIssuer)), "InvalidIdentityToken", "No OpenIDConnect provider found in your account for https://" + otherIssuer},
		{"issuer over http", "pod", rs.sign(t, with("iss", "http://"+issuerPath)), "InvalidIdentityToken", ""},
		{"expired", "pod", rs.sign(t, with("exp", expired.Unix())), "ExpiredTokenException", fmt.Sprintf("Token expired: current date/time %d must be before the expiration date/time %d", now.Unix(), expired.Unix())},
		{"of tomorrow", "pod", rs.sign(t, with("nbf", now.Add(24*time.Hour).Unix())), "InvalidIdentityToken", ""},
		{"without an end", "pod", rs.sign(t, with("exp", nil)), "InvalidIdentityToken", "Missing a required claim: exp"},
		{"another's signature", "pod", stranger.sign(t, good), "InvalidIdentityToken", "Token signature invalid"},
		{"a key that the issuer has not", "pod", tokenMaker{rs.method, rs.key, "x"}.sign(t, good), "InvalidIdentityToken", "Couldn't retrieve verification key from your identity provider,  please reference AssumeRoleWithWebIdentity documentation for requirements"},
		{"no signature", "pod", tokenMaker{jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "r"}.sign(t, good), "InvalidIdentityToken", ""},
		{"the public key as a secret", "pod", tokenMaker{jwt.SigningMethodHS256, keySet, "r"}.sign(t, good), "InvalidIdentityToken", ""},
		{"RSA's key for the curve", "pod", tokenMaker{es.method, es.key, "r"}.sign(t, good), "InvalidIdentityToken", ""},
		{"no token", "pod", "not.a.token", "InvalidIdentityToken", "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)"},
		{"cut", "pod", rs.sign(t, good)[:100], "InvalidIdentityToken", ""},
		{"too long", "pod", strings.Repeat("a", 20001), "ValidationError", "1 validation error detected: Value '***' at 'webIdentityToken' failed to satisfy constraint: Member must have length less than or equal to 20000"},
		{"tags without permission", "pod", rs.sign(t, with("https://aws.amazon.com/tags", map[string]any{"principal_tags": map[string][]string{"team": {"a"}}})), "AccessDenied", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := w.anonymous().AssumeRoleWithWebIdentity(ctx, &awssts.AssumeRoleWithWebIdentityInput{
				RoleArn: roleARN(account, tt.role), RoleSessionName: aws.String("cart"), WebIdentityToken: &tt.token,
			})
			if tt.code != "" {
				testkit.WantError(t, err, tt.code, tt.message)
				return
			}
			must(t, err)
			provider := "arn:aws:iam::" + account + ":oidc-provider/" + issuerPath
			if *out.Provider != provider || *out.Audience != "sts.amazonaws.com" || *out.SubjectFromWebIdentityToken != podSubject {
				t.Errorf("%s %s %s", *out.Provider, *out.Audience, *out.SubjectFromWebIdentityToken)
			}
			wantCaller(t, w.with(out.Credentials), "arn:aws:sts::"+account+":assumed-role/pod/cart")
		})
	}
	t.Run("an issuer that nobody can ask", func(t *testing.T) {
		delete(w.issuers, issuer)
		token := rs.sign(t, good)
		_, err := w.anonymous().AssumeRoleWithWebIdentity(ctx, &awssts.AssumeRoleWithWebIdentityInput{
			RoleArn: roleARN(account, "pod"), RoleSessionName: aws.String("cart"), WebIdentityToken: &token,
		})
		testkit.WantError(t, err, "InvalidIdentityToken", "")
	})
	t.Run("a removed provider", func(t *testing.T) {
		w.issuers[issuer] = keySet
		must(t, second(root.iam.DeleteOpenIDConnectProvider(ctx, &awsiam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: aws.String("arn:aws:iam::" + account + ":oidc-provider/" + issuerPath)})))
		token := rs.sign(t, good)
		_, err := w.anonymous().AssumeRoleWithWebIdentity(ctx, &awssts.AssumeRoleWithWebIdentityInput{
			RoleArn: roleARN(account, "pod"), RoleSessionName: aws.String("cart"), WebIdentityToken: &token,
		})
		testkit.WantError(t, err, "InvalidIdentityToken", "No OpenIDConnect provider found in your account for "+issuer)
	})
}

// Weak keys in a key set are not used.
func TestIssuersKeysMustBeStrong(t *testing.T) {
	w := newWorld(t)
	root, account := w.root(t)
	w.irsa(t, root, account)
	rs, _, _ := makers(t)
	now := w.clock.Now()
	token := rs.sign(t, jwt.MapClaims{"iss": issuer, "aud": "sts.amazonaws.com", "sub": podSubject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	for name, keySet := range map[string]string{
		"a short modulus":  `{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"}]}`,
		"another curve":    `{"keys":[{"kty":"EC","crv":"P-384","kid":"r","x":"AA","y":"AA"}]}`,
		"not on the curve": `{"keys":[{"kty":"EC","crv":"P-256","kid":"r","x":"` + number(make([]byte, 32)) + `","y":"` + number(make([]byte, 32)) + `"}]}`,
		"a shared secret":  `{"keys":[{"kty":"oct","kid":"r","k":"AA"}]}`,
		"no JSON":          `<html>`,
		"no keys":          `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.issuers[issuer] = []byte(keySet)
			_, err := w.anonymous().AssumeRoleWithWebIdentity(context.Background(), &awssts.AssumeRoleWithWebIdentityInput{
				RoleArn: roleARN(account, "pod"), RoleSessionName: aws.String("cart"), WebIdentityToken: &token,
			})
			testkit.WantError(t, err, "InvalidIdentityToken", "")
		})
	}
}

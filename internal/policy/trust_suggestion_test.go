package policy_test

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

// A statement that lets in a provider's web identities names one of them: without sub and aud every service account
// of the cluster could assume the role. A request cannot carry another token, so none is suggested.
func TestTrustSuggestionsKeepSubAndAud(t *testing.T) {
	const provider = "oidc.eks.us-east-1.amazonaws.com/id/ABC"
	trust := func(sub string) *policy.Source {
		doc, err := policy.Parse(policy.Trust, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::000000000000:oidc-provider/`+provider+`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+provider+`:sub":"`+sub+`"}}}]}`)
		if err != nil {
			t.Fatal(err)
		}
		return &policy.Source{Name: "trust", Document: doc}
	}
	req := policy.Request{
		Action: "sts:AssumeRoleWithWebIdentity", Resource: "arn:aws:iam::000000000000:role/app",
		Principal: policy.Principal{Federated: "arn:aws:iam::000000000000:oidc-provider/" + provider},
		Context: policy.Context{Values: map[string][]string{
			strings.ToLower(provider) + ":sub": {"system:serviceaccount:shop:web"}, strings.ToLower(provider) + ":aud": {"sts.amazonaws.com"},
		}},
	}
	got := policy.Suggest(req, policy.Policies{Trust: trust("system:serviceaccount:shop:other")})
	want := `"Condition":{"StringEquals":{"` + provider + `:aud":"sts.amazonaws.com","` + provider + `:sub":"system:serviceaccount:shop:web"}}`
	if len(got) != 1 || len(got[0].Changes) != 1 || got[0].Changes[0].Kind != policy.AddStatement || !strings.Contains(got[0].Changes[0].Statement, want) {
		t.Errorf("suggested %v, want a statement with %s", got, want)
	}
	delete(req.Context.Values, strings.ToLower(provider)+":sub")
	if got := policy.Suggest(req, policy.Policies{Trust: trust("x")}); len(got) > 0 {
		t.Errorf("without a sub: %v", got)
	}
}

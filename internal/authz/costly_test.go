package authz_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// TestCostlyKeys: keys that are expensive to find are only looked up if a policy uses them, and for the evidence of a
// denial.
func TestCostlyKeys(t *testing.T) {
	const key = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	asks := func(effect, operator, alias string) string {
		return `{"Effect":"` + effect + `","Action":"kms:Encrypt","Resource":"*","Condition":{"` + operator + `":{"kms:ResourceAliases":"` + alias + `"}}}`
	}
	const plain = `{"Effect":"Allow","Action":"kms:Encrypt","Resource":"*"}`
	for _, tt := range []struct {
		name, statements string
		allowed          bool
		finds            int
	}{
		{"nobody asks", plain, true, 0},
		{"an allow asks", asks("Allow", "ForAnyValue:StringEquals", "alias/ours"), true, 1},
		{"an allow asks for another", asks("Allow", "ForAnyValue:StringEquals", "alias/theirs"), false, 1},
		{"a deny asks", plain + "," + asks("Deny", "ForAnyValue:StringEquals", "alias/ours"), false, 1},
		{"a deny asks for another", plain + "," + asks("Deny", "ForAnyValue:StringEquals", "alias/theirs"), true, 1},
		{"a statement of another action asks", plain + `,{"Effect":"Deny","Action":"kms:Sign","Resource":"*","Condition":{"Null":{"kms:ResourceAliases":"false"}}}`, true, 0},
		{"the evidence", `{"Effect":"Allow","Action":"kms:Sign","Resource":"*"}`, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":[`+tt.statements+`]}`)
			if err != nil {
				t.Fatal(err)
			}
			a := authz.New(authz.Config{Policies: func(awsapi.Principal) (policy.Policies, bool) {
				return policy.Policies{Identity: []policy.Source{{Name: "inline", Document: doc}}}, false
			}})
			call := awsapi.Call{
				Service: "kms", Operation: "Encrypt", Account: "111122223333", Region: "us-east-1", Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
				Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: "111122223333", Name: "me", ARN: "arn:aws:iam::111122223333:user/me", UserID: "AIDAEXAMPLE"},
			}
			finds := 0
			err = a.AuthorizeTargets(t.Context(), &call, &awskms.EncryptInput{}, authz.Target{
				Action: "kms:Encrypt", Type: "key", ID: key, AllKeys: true,
				Costly: map[string]func() []string{"kms:resourcealiases": func() []string { finds++; return []string{"alias/ours"} }},
			})
			if (err == nil) != tt.allowed || finds != tt.finds {
				t.Errorf("allowed is %t, after %d finds: %v", err == nil, finds, err)
			}
			if err == nil {
				return
			}
			denial, ok := errors.AsType[*authz.Denial](err)
			if !ok {
				t.Fatal(err)
			}
			if got := denial.Explain("r").Keys["kms:ResourceAliases"]; !slices.Equal(got, []string{"alias/ours"}) || len(denial.Decision.UnknownKeys) > 0 {
				t.Errorf("the evidence has the aliases %q, and %q unknown", got, denial.Decision.UnknownKeys)
			}
		})
	}
}

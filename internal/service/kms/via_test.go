package kms_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestServicesUseKeysForTheirCallers checks that calls on behalf of a caller are made as that
// caller, via the service.
func TestServicesUseKeysForTheirCallers(t *testing.T) {
	w := newWorld(t, nil, nil)
	owner, account := w.root(t)
	w.user(t, account, "plain")
	principal := awsapi.Principal{Type: awsapi.IAMUser, Account: account, Name: "plain", ARN: "arn:aws:iam::" + account + ":user/plain"}
	through := func(service string, in any) error {
		call := &awsapi.Call{Service: service, Operation: "Any", Account: account, Region: testkit.Region, Principal: principal}
		_, err := w.Front.Call(awsapi.WithCall(t.Context(), call), in)
		return err
	}
	encrypt := func(service string, key string) error {
		return through(service, &awskms.EncryptInput{KeyId: &key, Plaintext: []byte("p")})
	}
	check(t, encrypt("ssm", "alias/aws/ssm"))
	if encrypt("eks", "alias/aws/ssm") == nil || encrypt("kms", "alias/aws/ssm") == nil {
		t.Error("the key of Systems Manager is used by others")
	}
	check(t, encrypt("ec2", "alias/aws/ebs"))

	_, arn := newKey(t, owner, func(in *awskms.CreateKeyInput) {
		in.Policy = aws.String(`{"Version":"2012-10-17","Statement":[
			{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:root"},"Action":"kms:*","Resource":"*"},
			{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:user/plain"},"Action":"kms:CreateGrant","Resource":"*",
			 "Condition":{"Bool":{"kms:GrantIsForAWSResource":"true"},"ForAllValues:StringEquals":{"kms:GrantOperations":["Encrypt","Decrypt"]}}},
			{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:user/plain"},"Action":"kms:Encrypt","Resource":"*",
			 "Condition":{"StringEquals":{"kms:RequestAlias":"alias/ours"},"ForAnyValue:StringEquals":{"kms:ResourceAliases":"alias/ours"}}}]}`)
	})
	_, err := owner.CreateAlias(t.Context(), &awskms.CreateAliasInput{AliasName: aws.String("alias/ours"), TargetKeyId: &arn})
	check(t, err)
	grant := func(service string, ops ...kmstypes.GrantOperation) error {
		in := &awskms.CreateGrantInput{KeyId: &arn, GranteePrincipal: aws.String("arn:aws:iam::" + account + ":root"), Operations: ops}
		return through(service, in)
	}
	check(t, grant("ec2", "Encrypt", "Decrypt"))
	// EKS's grants for clusters do not count as grants for an AWS resource:
	// https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
	if grant("kms", "Encrypt") == nil || grant("ec2", "Encrypt", "GenerateDataKey") == nil || grant("eks", "Encrypt") == nil {
		t.Error("a grant that the key policy does not allow")
	}
	check(t, encrypt("kms", "alias/ours"))
	wantError(t, encrypt("kms", arn), "AccessDeniedException: User: arn:aws:iam::"+account+":user/plain is not authorized to perform: kms:Encrypt on resource: "+arn+" because no identity-based policy allows the kms:Encrypt action")

	// The journal has what `drydock why request` shows: the key policy, and which part of it did
	// not match.
	why := w.denied(t)
	if text := why.Explanation.String(); !strings.Contains(text, "key policy of "+arn) || !strings.Contains(text, `kms:RequestAlias is "alias/ours"; the request has no kms:RequestAlias`) {
		t.Errorf("%s", text)
	}
	if now := w.authorizer.Reconsider(t.Context(), why); now.Allowed {
		t.Error("allowed meanwhile, by nothing")
	}
	g, err := owner.CreateGrant(t.Context(), &awskms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &principal.ARN, Operations: []kmstypes.GrantOperation{"Encrypt"}})
	check(t, err)
	// The grant for the account matches too; which of the two comes first depends on their ids.
	named := func(m policy.Match) bool { return strings.Contains(m.String(), *g.GrantId) }
	if now := w.authorizer.Reconsider(t.Context(), why); !now.Allowed || !slices.ContainsFunc(now.Matched, named) {
		t.Errorf("a grant has been created in the meantime: %+v", now)
	}
}

// denied is the last refusal in the journal.
func (w *world) denied(t *testing.T) authz.Explanation {
	t.Helper()
	for e, err := range w.journal.Query(journal.Filter{Kind: journal.KindDecision}) {
		check(t, err)
		b, err := json.Marshal(e.Fields["why"])
		check(t, err)
		var out authz.Explanation
		check(t, json.Unmarshal(b, &out))
		return out
	}
	t.Fatal("nothing was refused")
	return authz.Explanation{}
}

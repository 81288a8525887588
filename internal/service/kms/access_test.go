package kms_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// TestWhoMayUseAKey checks key policies, IAM policies and grants, alone and in combination, within
// one account and across two.
// https://docs.aws.amazon.com/kms/latest/developerguide/policy-evaluation.html
func TestWhoMayUseAKey(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	owner, account := w.root(t)
	_, foreign := w.root(t)
	users := map[string]*awskms.Client{
		"plain":   w.user(t, account, "plain"),
		"iam":     w.user(t, account, "iam", "kms:*"),
		"foreign": w.user(t, foreign, "plain"),
		"far":     w.user(t, foreign, "iam", "kms:*"),
		"root":    owner,
	}
	arns := map[string]string{
		"plain": "arn:aws:iam::" + account + ":user/plain", "iam": "arn:aws:iam::" + account + ":user/iam",
		"foreign": "arn:aws:iam::" + foreign + ":user/plain", "far": "arn:aws:iam::" + foreign + ":user/iam",
		"root": "arn:aws:iam::" + account + ":root",
	}
	const (
		ok       = ""
		identity = "because no identity-based policy allows the kms:Encrypt action"
		resource = "because no resource-based policy allows the kms:Encrypt action"
		denied   = "with an explicit deny in a resource-based policy"
	)
	statement := func(effect, principal string, more ...string) string {
		return `{"Effect":"` + effect + `","Principal":{"AWS":"` + principal + `"},"Action":"kms:Encrypt","Resource":"*"` + strings.Join(more, "") + `}`
	}
	root := `{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:root"},"Action":"kms:*","Resource":"*"}`
	manage := `{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:root"},"Action":["kms:CreateGrant","kms:PutKeyPolicy"],"Resource":"*"}`
	for _, tt := range []struct {
		name       string
		statements []string
		grantee    string // who has a grant for Encrypt, if anyone
		want       map[string]string
	}{
		{"the key policy lets IAM decide", []string{root}, "", map[string]string{
			"root": ok, "iam": ok, "plain": identity, "foreign": identity, "far": resource}},
		{"the key policy names nobody", []string{manage}, "", map[string]string{"root": resource, "iam": resource, "plain": identity, "far": resource}},
		{"the key policy names a user", []string{manage, statement("Allow", arns["plain"])}, "", map[string]string{"plain": ok, "iam": resource, "root": resource}},
		{"everybody, of other accounts by their IAM only", []string{manage, statement("Allow", "*")}, "", map[string]string{"plain": ok, "root": ok, "foreign": identity, "far": ok}},
		{"another account, by its IAM", []string{root, statement("Allow", "arn:aws:iam::"+foreign+":root")}, "", map[string]string{"foreign": identity, "far": ok}},
		{"a user of another account, by its IAM", []string{root, statement("Allow", arns["foreign"])}, "", map[string]string{"foreign": identity, "far": resource}},
		{"a grant alone", []string{manage}, "plain", map[string]string{"plain": ok, "iam": resource, "root": resource}},
		{"a grant to another account's user", []string{manage}, "foreign", map[string]string{"foreign": ok, "far": resource}},
		{"a grant to another account: its IAM decides", []string{manage}, "arn:aws:iam::" + foreign + ":root", map[string]string{"foreign": identity, "far": ok}},
		{"deny wins over a grant", []string{manage, statement("Deny", arns["plain"])}, "plain", map[string]string{"plain": denied}},
		{"deny binds root", []string{root, statement("Deny", "*")}, "", map[string]string{"root": denied, "iam": denied}},
		{"a condition of the caller's account", []string{manage, statement("Allow", "*", `,"Condition":{"StringEquals":{"kms:CallerAccount":"`+account+`"}}`)}, "",
			map[string]string{"plain": ok, "far": resource}},
		{"a condition that no direct call meets", []string{manage, statement("Allow", "*", `,"Condition":{"StringEquals":{"kms:ViaService":"ssm.us-east-1.amazonaws.com"}}`)}, "",
			map[string]string{"plain": identity, "iam": resource}},
		{"the encryption context", []string{manage, statement("Allow", arns["plain"], `,"Condition":{"StringEquals":{"kms:EncryptionContext:App":"web"},"ForAllValues:StringEquals":{"kms:EncryptionContextKeys":["App","Env"]}}`)}, "",
			map[string]string{"plain": ok}},
		{"another encryption context", []string{manage, statement("Allow", arns["plain"], `,"Condition":{"StringEquals":{"kms:EncryptionContext:App":"db"}}`)}, "",
			map[string]string{"plain": identity}},
		{"what the key is", []string{manage, statement("Allow", arns["plain"], `,"Condition":{"StringEquals":{"kms:KeySpec":"SYMMETRIC_DEFAULT","kms:KeyUsage":"ENCRYPT_DECRYPT","kms:KeyOrigin":"AWS_KMS","kms:EncryptionAlgorithm":"SYMMETRIC_DEFAULT","aws:ResourceTag/team":"blue"}}`)}, "",
			map[string]string{"plain": ok}},
		{"an alias that was not used", []string{manage, statement("Allow", arns["plain"], `,"Condition":{"StringEquals":{"kms:RequestAlias":"alias/x"}}`)}, "",
			map[string]string{"plain": identity}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, arn := newKey(t, owner, func(in *awskms.CreateKeyInput) {
				in.Policy = aws.String(`{"Version":"2012-10-17","Statement":[` + strings.Join(tt.statements, ",") + `]}`)
				in.Tags = []kmstypes.Tag{{TagKey: aws.String("team"), TagValue: aws.String("blue")}}
				in.BypassPolicyLockoutSafetyCheck = true
			})
			if tt.grantee != "" {
				who, named := arns[tt.grantee]
				if !named {
					who = tt.grantee
				}
				_, err := owner.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &who, Operations: []kmstypes.GrantOperation{"Encrypt"}})
				check(t, err)
			}
			for who, want := range tt.want {
				_, err := users[who].Encrypt(ctx, &awskms.EncryptInput{KeyId: &arn, Plaintext: []byte("x"), EncryptionContext: map[string]string{"App": "web"}})
				switch {
				case want == ok && err != nil:
					t.Errorf("%s: %v", who, err)
				case want != ok && err == nil:
					t.Errorf("%s is allowed", who)
				case want != ok:
					wantError(t, err, "AccessDeniedException: User: "+arns[who]+" is not authorized to perform: kms:Encrypt on resource: "+arn+" "+want)
				}
			}
		})
	}
}

func TestForeignCiphertext(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	owner, account := w.root(t)
	_, foreign := w.root(t)
	stranger := w.user(t, foreign, "stranger", "kms:*")
	id, arn := newKey(t, owner, nil)
	sealed, err := owner.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x")})
	check(t, err)
	_, err = stranger.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob})
	wantError(t, err, "AccessDeniedException: The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to access.")
	_, err = stranger.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob, KeyId: &arn})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+foreign+":user/stranger is not authorized to perform: kms:Decrypt on resource: "+arn+" because no resource-based policy allows the kms:Decrypt action")
	// Other accounts cannot tell whether a key exists.
	none := "arn:aws:kms:us-east-1:" + account + ":key/11111111-2222-3333-4444-555555555555"
	_, err = stranger.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &none})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+foreign+":user/stranger is not authorized to perform: kms:DescribeKey on resource: "+none+" because no resource-based policy allows the kms:DescribeKey action")
	// A key policy cannot allow other accounts to administer the key.
	policy := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*"}}`
	_, err = owner.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: &id, Policy: &policy})
	check(t, err)
	_, err = stranger.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: &arn})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+foreign+":user/stranger is not authorized to perform: kms:ScheduleKeyDeletion…")
	if _, err = stranger.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob}); err != nil {
		t.Error(err)
	}
}

func TestKeyPoliciesAreEchoedAndChecked(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, account := w.root(t)
	id, _ := newKey(t, c, nil)
	get := func() string {
		out, err := c.GetKeyPolicy(ctx, &awskms.GetKeyPolicyInput{KeyId: &id})
		check(t, err)
		if *out.PolicyName != "default" {
			t.Errorf("%s", *out.PolicyName)
		}
		return *out.Policy
	}
	if p := get(); !strings.Contains(p, `"Id" : "key-default-1"`) || !strings.Contains(p, `"AWS" : "arn:aws:iam::`+account+`:root"`) {
		t.Errorf("the default policy: %s", p)
	}
	odd := `{ "Statement" :[{"Sid":"x","Effect":"Allow", "Principal":{"AWS":["arn:aws:iam::` + account + `:root"]},"Action":["kms:*"],"Resource":"*"}],"Version":"2012-10-17"}`
	_, err := c.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: &id, Policy: &odd, PolicyName: aws.String("default")})
	check(t, err)
	if got := get(); got != odd {
		t.Errorf("not verbatim: %s", got)
	}
	// Statement IDs may repeat [seen] in the acceptance tests of Terraform's AWS provider: TestAccKMSKey_Policy_iamRole.
	twice := strings.Replace(odd, `"Statement" :[`, `"Statement" :[{"Sid":"x","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::`+account+`:root"},"Action":"kms:Encrypt","Resource":"*"},`, 1)
	for _, policy := range []string{twice, odd} {
		_, err = c.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: &id, Policy: &policy})
		check(t, err)
	}
	lockout := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:root"},"Action":"kms:Encrypt","Resource":"*"}}`
	for policy, want := range map[string]string{
		lockout: "MalformedPolicyDocumentException: The new key policy will not allow you to update the key policy in the future.",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:role/none"},"Action":"kms:*","Resource":"*"}}`: "MalformedPolicyDocumentException: Policy contains a statement with one or more invalid principals.",
		`nonsense`: "MalformedPolicyDocumentException: …",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"kms:*"}}`: "MalformedPolicyDocumentException: …",
	} {
		_, err := c.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: &id, Policy: &policy})
		wantError(t, err, want)
		_, err = c.CreateKey(ctx, &awskms.CreateKeyInput{Policy: &policy})
		wantError(t, err, want)
	}
	if get() != odd {
		t.Error("a refused policy is in force")
	}
	// With the default policy, the author's IAM policies must allow PutKeyPolicy.
	encrypter := w.user(t, account, "encrypter", "kms:CreateKey", "kms:Encrypt")
	_, err = encrypter.CreateKey(ctx, &awskms.CreateKeyInput{Policy: &odd})
	wantError(t, err, "MalformedPolicyDocumentException: The new key policy will not allow you to update the key policy in the future.")
	_, err = c.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: &id, Policy: &lockout, BypassPolicyLockoutSafetyCheck: true})
	check(t, err)
	_, err = c.GetKeyPolicy(ctx, &awskms.GetKeyPolicyInput{KeyId: &id})
	wantError(t, err, "AccessDeniedException: …")
}

package kms_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestGrantsAllowWhatTheyName checks a grant's operations and its constraints on the encryption
// context.
// https://docs.aws.amazon.com/kms/latest/developerguide/create-grant-overview.html#grant-constraints
func TestGrantsAllowWhatTheyName(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	owner, account := w.root(t)
	app := w.user(t, account, "app")
	who := "arn:aws:iam::" + account + ":user/app"
	pairs := func(kv ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i]] = kv[i+1]
		}
		return out
	}
	subset := func(kv ...string) *kmstypes.GrantConstraints {
		return &kmstypes.GrantConstraints{EncryptionContextSubset: pairs(kv...)}
	}
	equals := func(kv ...string) *kmstypes.GrantConstraints {
		return &kmstypes.GrantConstraints{EncryptionContextEquals: pairs(kv...)}
	}
	for _, tt := range []struct {
		name        string
		operations  string
		constraints *kmstypes.GrantConstraints
		context     map[string]string
		want        bool
	}{
		{"the operation", "Encrypt", nil, nil, true},
		{"another operation", "Decrypt", nil, nil, false},
		{"several", "Decrypt Encrypt", nil, pairs("any", "thing"), true},
		{"subset, exactly", "Encrypt", subset("a", "1"), pairs("a", "1"), true},
		{"subset, and more", "Encrypt", subset("a", "1"), pairs("a", "1", "b", "2"), true},
		{"subset, another value", "Encrypt", subset("a", "1"), pairs("a", "2"), false},
		{"subset, missing", "Encrypt", subset("a", "1", "b", "2"), pairs("a", "1"), false},
		{"subset, no context", "Encrypt", subset("a", "1"), nil, false},
		{"subset, the case of the name", "Encrypt", subset("a", "1"), pairs("A", "1"), false},
		{"subset, two names that differ by case", "Encrypt", subset("a", "1"), pairs("A", "1", "a", "2"), false},
		{"subset, a value is not a pattern", "Encrypt", subset("a", "*"), pairs("a", "1"), false},
		{"subset, a value is not a variable", "Encrypt", subset("a", "${aws:username}"), pairs("a", "app"), false},
		{"equals", "Encrypt", equals("a", "1", "b", "2"), pairs("b", "2", "a", "1"), true},
		{"equals, and more", "Encrypt", equals("a", "1"), pairs("a", "1", "b", "2"), false},
		{"equals, missing", "Encrypt", equals("a", "1", "b", "2"), pairs("a", "1"), false},
		{"equals, no context", "Encrypt", equals("a", "1"), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, _ := newKey(t, owner, nil)
			var ops []kmstypes.GrantOperation
			for op := range strings.FieldsSeq(tt.operations + " DescribeKey") {
				ops = append(ops, kmstypes.GrantOperation(op))
			}
			g, err := owner.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: &who, Operations: ops, Constraints: tt.constraints})
			check(t, err)
			encrypt := func() error {
				_, err := app.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x"), EncryptionContext: tt.context, GrantTokens: []string{*g.GrantToken}})
				return err
			}
			if err := encrypt(); (err == nil) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if _, err := app.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &id}); err != nil {
				t.Errorf("DescribeKey is not constrained: %v", err)
			}
			_, err = owner.RevokeGrant(ctx, &awskms.RevokeGrantInput{KeyId: &id, GrantId: g.GrantId})
			check(t, err)
			wantError(t, encrypt(), "AccessDeniedException: User: "+who+" is not authorized to perform: kms:Encrypt…")
		})
	}
}

// TestGranteesGrantNoMore checks that a grantee with CreateGrant cannot grant more than its own
// grant allows.
func TestGranteesGrantNoMore(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	owner, account := w.root(t)
	app := w.user(t, account, "app")
	w.user(t, account, "friend")
	who, friend := "arn:aws:iam::"+account+":user/app", "arn:aws:iam::"+account+":user/friend"
	subset := &kmstypes.GrantConstraints{EncryptionContextSubset: map[string]string{"a": "1"}}
	equals := &kmstypes.GrantConstraints{EncryptionContextEquals: map[string]string{"a": "1"}}
	wider := &kmstypes.GrantConstraints{EncryptionContextSubset: map[string]string{"b": "1"}}
	narrower := &kmstypes.GrantConstraints{EncryptionContextSubset: map[string]string{"a": "1", "b": "1"}}
	for _, tt := range []struct {
		name       string
		has, gives *kmstypes.GrantConstraints
		operations []kmstypes.GrantOperation
		want       bool
	}{
		{"what it has", nil, nil, []kmstypes.GrantOperation{"Encrypt"}, true},
		{"more operations", nil, nil, []kmstypes.GrantOperation{"Encrypt", "Decrypt"}, false},
		{"a constraint of its own", nil, subset, []kmstypes.GrantOperation{"Encrypt"}, true},
		{"without the constraint", subset, nil, []kmstypes.GrantOperation{"Encrypt"}, false},
		{"the same constraint", subset, subset, []kmstypes.GrantOperation{"Encrypt"}, true},
		{"a stricter one", subset, narrower, []kmstypes.GrantOperation{"Encrypt"}, true},
		{"the strictest", subset, equals, []kmstypes.GrantOperation{"Encrypt"}, true},
		{"another one", subset, wider, []kmstypes.GrantOperation{"Encrypt"}, false},
		{"equals is not subset", equals, subset, []kmstypes.GrantOperation{"Encrypt"}, false},
		{"equals", equals, equals, []kmstypes.GrantOperation{"Encrypt"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, _ := newKey(t, owner, nil)
			_, err := owner.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: &who, Operations: []kmstypes.GrantOperation{"CreateGrant", "Encrypt"}, Constraints: tt.has})
			check(t, err)
			_, err = app.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: &friend, Operations: tt.operations, Constraints: tt.gives})
			if (err == nil) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestGrantsAreListedAndEnded(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	owner, account := w.root(t)
	app, retirer := w.user(t, account, "app"), w.user(t, account, "retirer")
	who, retiring := "arn:aws:iam::"+account+":user/app", "arn:aws:iam::"+account+":user/retirer"
	id, arn := newKey(t, owner, nil)
	grant := func(edit func(*awskms.CreateGrantInput)) *awskms.CreateGrantOutput {
		t.Helper()
		in := &awskms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &who, Operations: []kmstypes.GrantOperation{"Encrypt", "Decrypt"}}
		if edit != nil {
			edit(in)
		}
		out, err := owner.CreateGrant(ctx, in)
		check(t, err)
		return out
	}
	named := func(in *awskms.CreateGrantInput) { in.Name, in.RetiringPrincipal = aws.String("ours"), &retiring }
	first, again := grant(named), grant(named)
	if *first.GrantId != *again.GrantId || *first.GrantToken == *again.GrantToken {
		t.Error("a repeated request made another grant, or the same token")
	}
	other := grant(func(in *awskms.CreateGrantInput) { named(in); in.Operations = in.Operations[:1] })
	plain, own := grant(nil), grant(func(in *awskms.CreateGrantInput) { in.Operations = append(in.Operations, "RetireGrant") })
	ids := func() []string {
		t.Helper()
		var out []string
		in := &awskms.ListGrantsInput{KeyId: &id, Limit: aws.Int32(2)}
		for {
			page, err := owner.ListGrants(ctx, in)
			check(t, err)
			if len(page.Grants) > 2 || page.Truncated != (page.NextMarker != nil) {
				t.Errorf("a page: %+v", page)
			}
			for _, g := range page.Grants {
				out = append(out, *g.GrantId)
			}
			if in.Marker = page.NextMarker; in.Marker == nil {
				return out
			}
		}
	}
	want := func(grants ...*awskms.CreateGrantOutput) {
		t.Helper()
		var all []string
		for _, g := range grants {
			all = append(all, *g.GrantId)
		}
		if got := ids(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(all))) {
			t.Errorf("grants %v, want %v", got, all)
		}
	}
	want(first, other, plain, own)
	list, err := owner.ListGrants(ctx, &awskms.ListGrantsInput{KeyId: &id, GrantId: first.GrantId})
	check(t, err)
	if g := list.Grants[0]; len(list.Grants) != 1 || *g.KeyId != arn || *g.GranteePrincipal != who || *g.RetiringPrincipal != retiring || *g.Name != "ours" ||
		*g.IssuingAccount != "arn:aws:iam::"+account+":root" || g.CreationDate == nil {
		t.Errorf("%+v", g)
	}
	retirable, err := owner.ListRetirableGrants(ctx, &awskms.ListRetirableGrantsInput{RetiringPrincipal: &retiring})
	check(t, err)
	if len(retirable.Grants) != 2 {
		t.Errorf("%d grants to retire", len(retirable.Grants))
	}

	// Only principals that the grant names may retire it.
	retire := func(c *awskms.Client, g *awskms.CreateGrantOutput) error {
		_, err := c.RetireGrant(ctx, &awskms.RetireGrantInput{KeyId: &arn, GrantId: g.GrantId})
		return err
	}
	wantError(t, retire(app, plain), "AccessDeniedException: …")
	wantError(t, retire(app, first), "AccessDeniedException: …")
	wantError(t, retire(retirer, plain), "AccessDeniedException: …")
	check(t, retire(app, own))
	check(t, retire(retirer, other))
	want(first, plain)
	_, err = retirer.RetireGrant(ctx, &awskms.RetireGrantInput{GrantToken: first.GrantToken})
	check(t, err)
	check(t, retire(owner, plain))
	want()
	_, err = owner.RevokeGrant(ctx, &awskms.RevokeGrantInput{KeyId: &id, GrantId: first.GrantId})
	wantError(t, err, "NotFoundException: …")
	_, err = owner.RetireGrant(ctx, &awskms.RetireGrantInput{KeyId: &arn})
	wantError(t, err, "ValidationException: …")
}

func TestGrantsAreChecked(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	owner, account := w.root(t)
	id, arn := newKey(t, owner, nil)
	mac, _ := newKey(t, owner, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = "HMAC_256", "GENERATE_VERIFY_MAC" })
	root := "arn:aws:iam::" + account + ":root"
	big := map[string]string{}
	for _, k := range strings.Split("abcdefghi", "") {
		big[k] = "1"
	}
	_, err := owner.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: aws.String("dynamodb.us-west-1.amazonaws.com"), Operations: []kmstypes.GrantOperation{"Encrypt"}})
	check(t, err)
	for want, in := range map[string]*awskms.CreateGrantInput{
		"InvalidArnException: ARN does not refer to a valid principal: arn:aws:iam::" + account + ":role/none":              {GranteePrincipal: aws.String("arn:aws:iam::" + account + ":role/none")},
		"InvalidArnException: ARN does not refer to a valid principal: somebody":                                            {GranteePrincipal: aws.String("somebody")},
		"ValidationException: Grant operation Sign is not supported for a SYMMETRIC_DEFAULT key with usage ENCRYPT_DECRYPT": {Operations: []kmstypes.GrantOperation{"Sign"}},
		"ValidationException: Grant operation Encrypt is not supported for a HMAC_256 key with usage GENERATE_VERIFY_MAC":   {KeyId: &mac},
		"ValidationException: 1 validation error detected: Value '[Fly]' at 'operations' failed to satisfy constraint: …":   {Operations: []kmstypes.GrantOperation{"Fly"}},
		"NotFoundException: Invalid keyId 'alias/x'":                                                                        {KeyId: aws.String("alias/x")},
		"InvalidGrantTokenException: Invalid grant token":                                                                   {GrantTokens: []string{"bm9uZQ=="}},
		"ValidationException: The encryption context of a grant constraint is too large.":                                   {Constraints: &kmstypes.GrantConstraints{EncryptionContextSubset: big}},
		"ValidationException: You cannot specify both EncryptionContextEquals and EncryptionContextSubset.": {
			Constraints: &kmstypes.GrantConstraints{EncryptionContextSubset: map[string]string{"a": "1"}, EncryptionContextEquals: map[string]string{"a": "1"}}},
		"NotImplemented: …": {GranteeServicePrincipal: aws.String("eks.amazonaws.com")},
	} {
		if in.KeyId == nil {
			in.KeyId = &id
		}
		if in.GranteePrincipal == nil {
			in.GranteePrincipal = &root
		}
		if in.Operations == nil {
			in.Operations = []kmstypes.GrantOperation{"Encrypt"}
		}
		_, err := owner.CreateGrant(ctx, in)
		wantError(t, err, want)
	}
	_, err = owner.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: &root, Operations: []kmstypes.GrantOperation{"Encrypt"},
		Constraints: &kmstypes.GrantConstraints{EncryptionContextEquals: map[string]string{"a": "1"}, EncryptionContextSubset: map[string]string{}}})
	check(t, err) // Terraform sends both members
	_, err = owner.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: &id})
	check(t, err)
	_, err = owner.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: &root, Operations: []kmstypes.GrantOperation{"Encrypt"}})
	wantError(t, err, "DisabledException: "+arn+" is disabled.")
}

// TestEveryGrantCounts checks that all grants to the caller are considered, however many there are,
// and that grants to others are not read.
func TestEveryGrantCounts(t *testing.T) {
	w := newWorld(t, nil, nil)
	owner, account := w.root(t)
	w.user(t, account, "app")
	id, _ := newKey(t, owner, nil)
	const many = 1010
	who, root := "arn:aws:iam::"+account+":user/app", "arn:aws:iam::"+account+":root"
	as := func(arn string) context.Context {
		return awsapi.WithCall(t.Context(), &awsapi.Call{Account: account, Region: testkit.Region, Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: account, ARN: arn}})
	}
	var last string
	grant := func(to string) {
		t.Helper()
		out, err := w.kms.CreateGrant(as(root), &awskms.CreateGrantInput{KeyId: &id, GranteePrincipal: &to, Operations: []kmstypes.GrantOperation{"Encrypt"}})
		check(t, err)
		last = *out.GrantId
	}
	grants := func(arn string) int {
		t.Helper()
		key, ok := w.kms.Authz().Resource(as(arn), account, testkit.Region, "key", id)
		if !ok {
			t.Fatal("no key")
		}
		return len(key.Grants)
	}
	for range many {
		grant(who)
	}
	grant(root)
	if n := grants(who); n != many+1 {
		t.Errorf("%d grants of %d count", n, many+1)
	}
	if n := grants(who + "2"); n != 1 {
		t.Errorf("%d grants for somebody else, want the account's", n)
	}
	_, err := owner.RevokeGrant(t.Context(), &awskms.RevokeGrantInput{KeyId: &id, GrantId: &last})
	check(t, err)
	if n := grants(who + "2"); n != 0 {
		t.Errorf("%d grants after the revocation", n)
	}
}

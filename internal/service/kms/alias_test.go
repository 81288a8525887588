package kms_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

func TestAliases(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, account := w.root(t)
	one, _ := newKey(t, c, nil)
	two, _ := newKey(t, c, nil)
	mac, _ := newKey(t, c, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = "HMAC_256", "GENERATE_VERIFY_MAC" })
	create := func(name, key string) error {
		_, err := c.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: &name, TargetKeyId: &key})
		return err
	}
	check(t, create("alias/ours", one))
	wantError(t, create("alias/ours", two), "AlreadyExistsException: An alias with the name arn:aws:kms:us-east-1:"+account+":alias/ours already exists")
	wantError(t, create("ours", one), `ValidationException: Alias must start with the prefix "alias/". Please see https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html`)
	wantError(t, create("alias/aws/ours", one), "NotAuthorizedException: …")
	wantError(t, create("alias/a:b", one), "ValidationException: alias/a:b contains invalid characters for an alias")
	wantError(t, create("alias/a b", one), "ValidationException: 1 validation error detected: Value 'alias/a b' at 'aliasName' failed to satisfy constraint: Member must satisfy regular expression pattern: ^[a-zA-Z0-9:/_-]+$")
	wantError(t, create("alias/b", "alias/ours"), "ValidationException: Aliases must refer to keys. Not aliases")
	describe := func() string {
		out, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String("alias/ours")})
		check(t, err)
		return *out.KeyMetadata.KeyId
	}
	_, err := c.UpdateAlias(ctx, &awskms.UpdateAliasInput{AliasName: aws.String("alias/ours"), TargetKeyId: &two})
	check(t, err)
	if describe() != two {
		t.Error("the alias has not moved")
	}
	_, err = c.UpdateAlias(ctx, &awskms.UpdateAliasInput{AliasName: aws.String("alias/ours"), TargetKeyId: &mac})
	wantError(t, err, "ValidationException: …")
	list, err := c.ListAliases(ctx, &awskms.ListAliasesInput{KeyId: &two})
	if err != nil || len(list.Aliases) != 1 || *list.Aliases[0].AliasName != "alias/ours" || *list.Aliases[0].TargetKeyId != two {
		t.Errorf("%+v %v", list, err)
	}
	_, err = c.DeleteAlias(ctx, &awskms.DeleteAliasInput{AliasName: aws.String("alias/ours")})
	check(t, err)
	_, err = c.DeleteAlias(ctx, &awskms.DeleteAliasInput{AliasName: aws.String("alias/ours")})
	wantError(t, err, "NotFoundException: Alias arn:aws:kms:us-east-1:"+account+":alias/ours is not found.")
	for i := range 50 {
		check(t, create("alias/"+string(rune('a'+i/26))+string(rune('a'+i%26)), one))
	}
	wantError(t, create("alias/late", one), "LimitExceededException: …")
	// A user needs permission for both the key and the alias.
	half := w.user(t, account, "half")
	_, err = half.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: aws.String("alias/half"), TargetKeyId: &two})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+account+":user/half is not authorized to perform: kms:CreateAlias on resource: arn:aws:kms:us-east-1:"+account+":alias/half because no identity-based policy allows the kms:CreateAlias action")
}

// TestAWSManagedKeys checks that they are created when first described, and that only their service
// can use them.
func TestAWSManagedKeys(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, account := w.root(t)
	managed := func() []kmstypes.AliasListEntry {
		var out []kmstypes.AliasListEntry
		p := awskms.NewListAliasesPaginator(c, &awskms.ListAliasesInput{Limit: aws.Int32(5)})
		for p.HasMorePages() {
			page, err := p.NextPage(ctx)
			check(t, err)
			out = append(out, page.Aliases...)
		}
		if !slices.IsSortedFunc(out, func(a, b kmstypes.AliasListEntry) int {
			return slices.Compare([]byte(*a.AliasName), []byte(*b.AliasName))
		}) {
			t.Error("not in order")
		}
		return out
	}
	count := func() (n int) {
		for _, a := range managed() {
			if a.TargetKeyId != nil {
				n++
			}
		}
		return n
	}
	if n := len(managed()); n < 10 || count() != 0 {
		t.Errorf("%d aliases, %d with keys", n, count())
	}
	_, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: aws.String("alias/aws/ssm"), Plaintext: []byte("x")})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+account+":root is not authorized to perform: kms:Encrypt on resource: arn:aws:kms:us-east-1:"+account+":alias/aws/ssm because no resource-based policy allows the kms:Encrypt action")
	if count() != 0 {
		t.Error("a refused request made a key")
	}
	out, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String("alias/aws/ssm")})
	check(t, err)
	if out.KeyMetadata.KeyManager != kmstypes.KeyManagerTypeAws || count() != 1 {
		t.Errorf("%+v", out.KeyMetadata)
	}
	again, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String("alias/aws/ssm")})
	if err != nil || *again.KeyMetadata.KeyId != *out.KeyMetadata.KeyId {
		t.Errorf("%v %v", again, err)
	}
	_, err = c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: out.KeyMetadata.KeyId})
	wantError(t, err, "AccessDeniedException: …")
	_, err = c.Encrypt(ctx, &awskms.EncryptInput{KeyId: out.KeyMetadata.KeyId, Plaintext: []byte("x")})
	wantError(t, err, "AccessDeniedException: …")
	status, err := c.GetKeyRotationStatus(ctx, &awskms.GetKeyRotationStatusInput{KeyId: out.KeyMetadata.KeyId})
	if err != nil || !status.KeyRotationEnabled {
		t.Errorf("%v %v", status, err)
	}
}

func TestTagsAndDescriptions(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, account := w.root(t)
	id, _ := newKey(t, c, nil)
	tag := func(kv ...string) error {
		in := &awskms.TagResourceInput{KeyId: &id}
		for i := 0; i < len(kv); i += 2 {
			in.Tags = append(in.Tags, kmstypes.Tag{TagKey: &kv[i], TagValue: &kv[i+1]})
		}
		_, err := c.TagResource(ctx, in)
		return err
	}
	check(t, tag("b", "1", "a", "2"))
	check(t, tag("a", "3"))
	wantError(t, tag("a", "1", "a", "2"), "TagException: Duplicate tag keys")
	wantError(t, tag("AWS:x", "1"), "TagException: Tags beginning with aws: are reserved")
	_, err := c.UntagResource(ctx, &awskms.UntagResourceInput{KeyId: &id, TagKeys: []string{"b", "none"}})
	check(t, err)
	list, err := c.ListResourceTags(ctx, &awskms.ListResourceTagsInput{KeyId: &id})
	if err != nil || len(list.Tags) != 1 || *list.Tags[0].TagKey != "a" || *list.Tags[0].TagValue != "3" {
		t.Errorf("%+v %v", list, err)
	}
	_, err = c.UpdateKeyDescription(ctx, &awskms.UpdateKeyDescriptionInput{KeyId: &id, Description: aws.String("new")})
	check(t, err)
	d, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &id})
	if err != nil || *d.KeyMetadata.Description != "new" {
		t.Errorf("%v %v", d, err)
	}
	// Creating a key with tags requires permission to tag.
	maker := w.user(t, account, "maker", "kms:CreateKey")
	_, err = maker.CreateKey(ctx, &awskms.CreateKeyInput{Tags: []kmstypes.Tag{{TagKey: aws.String("a"), TagValue: aws.String("1")}}})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+account+":user/maker is not authorized to perform: kms:TagResource on resource: * because no identity-based policy allows the kms:TagResource action")
	_, err = maker.CreateKey(ctx, nil)
	check(t, err)
}

func TestKeysAreListedInPages(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	want := map[string]bool{}
	for range 7 {
		id, _ := newKey(t, c, nil)
		want[id] = true
	}
	p := awskms.NewListKeysPaginator(c, &awskms.ListKeysInput{Limit: aws.Int32(3)})
	pages := 0
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		check(t, err)
		pages++
		for _, k := range page.Keys {
			if !want[*k.KeyId] {
				t.Errorf("%s is strange, or listed twice", *k.KeyId)
			}
			delete(want, *k.KeyId)
		}
	}
	if pages != 3 || len(want) > 0 {
		t.Errorf("%d pages, without %v", pages, want)
	}
	_, err := c.ListKeys(ctx, &awskms.ListKeysInput{Marker: aws.String("!")})
	wantError(t, err, "InvalidMarkerException: …")
	_, err = c.ListKeys(ctx, &awskms.ListKeysInput{Limit: aws.Int32(1001)})
	wantError(t, err, "ValidationException: …")
	_, err = c.ListAliases(ctx, &awskms.ListAliasesInput{Limit: aws.Int32(101)})
	wantError(t, err, "ValidationException: 1 validation error detected: Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100")
}

package sts_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// trusting creates a role whose trust policy has these statements.
func (w *world) trusting(t *testing.T, root caller, name, statements string) {
	t.Helper()
	trust := `{"Version":"2012-10-17","Statement":[` + statements + `]}`
	must(t, second(root.iam.CreateRole(context.Background(), &awsiam.CreateRoleInput{RoleName: &name, Path: aws.String("/p/"), AssumeRolePolicyDocument: &trust})))
}

func tagged(pairs ...string) func(*awssts.AssumeRoleInput) {
	return func(in *awssts.AssumeRoleInput) {
		for i := 0; i < len(pairs); i += 2 {
			in.Tags = append(in.Tags, ststypes.Tag{Key: &pairs[i], Value: &pairs[i+1]})
		}
	}
}

func transitive(keys ...string) func(*awssts.AssumeRoleInput) {
	return func(in *awssts.AssumeRoleInput) { in.TransitiveTagKeys = keys }
}

func from(identity string) func(*awssts.AssumeRoleInput) {
	return func(in *awssts.AssumeRoleInput) { in.SourceIdentity = &identity }
}

func TestSessionTags(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	must(t, second(root.iam.TagUser(ctx, &awsiam.TagUserInput{UserName: aws.String("ann"), Tags: []iamtypes.Tag{{Key: aws.String("Floor"), Value: aws.String("2")}}})))
	byAnn := `"Principal":{"AWS":"arn:aws:iam::` + account + `:user/ann"}`
	byFirst := `"Principal":{"AWS":"arn:aws:iam::` + account + `:role/p/first"}`
	w.trusting(t, root, "first", `{"Effect":"Allow",`+byAnn+`,"Action":["sts:AssumeRole","sts:TagSession"],"Condition":{"StringEquals":{"aws:PrincipalTag/floor":"2"},"StringEqualsIfExists":{"aws:RequestTag/team":"a"}}}`)
	w.trusting(t, root, "second", `{"Effect":"Allow",`+byFirst+`,"Action":["sts:AssumeRole","sts:TagSession"],"Condition":{"StringEquals":{"aws:PrincipalTag/team":"a"}}}`)
	w.trusting(t, root, "untagged", `{"Effect":"Allow",`+byFirst+`,"Action":"sts:AssumeRole"}`)

	out, err := ann.assume(roleARN(account, "first"), tagged("team", "a", "cost", "1"), transitive("cost"))
	must(t, err)
	first := w.with(out.Credentials)
	_, err = ann.assume(roleARN(account, "first"), tagged("team", "b"))
	testkit.WantError(t, err, "AccessDenied", "")
	_, err = ann.assume(roleARN(account, "first"), transitive("cost"))
	testkit.WantError(t, err, "InvalidParameterValue", "The specified transitive tag key must be included in the requested tags.")
	_, err = ann.assume(roleARN(account, "first"), tagged("team", "a", "Team", "a"))
	testkit.WantError(t, err, "InvalidParameterValue", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")

	// The transitive tag is passed on, which the next role must permit. It cannot be overridden.
	must(t, second(first.assume(roleARN(account, "second"))))
	_, err = first.assume(roleARN(account, "untagged"))
	testkit.WantError(t, err, "AccessDenied", "")
	_, err = first.assume(roleARN(account, "second"), tagged("Cost", "2"))
	testkit.WantError(t, err, "InvalidParameterValue", "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key from the calling session.")

	// The user's current tags apply.
	must(t, second(root.iam.UntagUser(ctx, &awsiam.UntagUserInput{UserName: aws.String("ann"), TagKeys: []string{"floor"}})))
	_, err = ann.assume(roleARN(account, "first"), tagged("team", "a"))
	testkit.WantError(t, err, "AccessDenied", "")
}

func TestSourceIdentity(t *testing.T) {
	w := newWorld(t)
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	byAnn := `"Principal":{"AWS":"arn:aws:iam::` + account + `:user/ann"}`
	byFirst := `"Principal":{"AWS":"arn:aws:iam::` + account + `:role/p/first"}`
	w.trusting(t, root, "first", `{"Effect":"Allow",`+byAnn+`,"Action":["sts:AssumeRole","sts:SetSourceIdentity"],"Condition":{"StringLike":{"sts:SourceIdentity":["ann*"]}}},
		{"Effect":"Allow",`+byAnn+`,"Action":"sts:AssumeRole"}`)
	w.trusting(t, root, "second", `{"Effect":"Allow",`+byFirst+`,"Action":["sts:AssumeRole","sts:SetSourceIdentity"],"Condition":{"StringEquals":{"aws:SourceIdentity":"ann"}}}`)

	_, err := ann.assume(roleARN(account, "first"), from("bob"))
	testkit.WantError(t, err, "AccessDenied", "")
	plain, err := ann.assume(roleARN(account, "first"))
	must(t, err)
	_, err = w.with(plain.Credentials).assume(roleARN(account, "second"))
	testkit.WantError(t, err, "AccessDenied", "")

	out, err := ann.assume(roleARN(account, "first"), from("ann"))
	must(t, err)
	if out.SourceIdentity == nil || *out.SourceIdentity != "ann" {
		t.Errorf("the session is from %v", out.SourceIdentity)
	}
	first := w.with(out.Credentials)
	next, err := first.assume(roleARN(account, "second"))
	must(t, err)
	if next.SourceIdentity == nil || *next.SourceIdentity != "ann" {
		t.Errorf("the next session is from %v", next.SourceIdentity)
	}
	_, err = first.assume(roleARN(account, "second"), from("bob"))
	testkit.WantError(t, err, "AccessDenied", "")
}

// A federated user's tags require a permission of their own, and policies see them.
func TestTagsOfFederatedUsers(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	ask := func() error {
		_, err := ann.sts.GetFederationToken(ctx, &awssts.GetFederationTokenInput{
			Name: aws.String("guest"), Tags: []ststypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
		})
		return err
	}
	w.allow(t, root, "ann", "sts:GetFederationToken", "*")
	testkit.WantError(t, ask(), "AccessDenied", "User: arn:aws:iam::"+account+":user/ann is not authorized to perform: sts:TagSession on resource: arn:aws:sts::"+account+":federated-user/guest")
	w.allow(t, root, "ann", "sts:*", "*")
	must(t, ask())
}

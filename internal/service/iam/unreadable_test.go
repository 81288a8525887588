package iam_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A policy or a group whose record cannot be read denies everything: what it denied is not known.
func TestUnreadablePoliciesDeny(t *testing.T) {
	for collection, id := range map[string]string{"policy": "p", "group": "g"} {
		t.Run(collection, func(t *testing.T) {
			w := newWorld(t)
			ctx := t.Context()
			root, account := w.root(t)
			testkit.Must(root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann")}))(t)
			key := testkit.Must(root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("ann")}))(t).AccessKey
			testkit.Must(root.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("reader"), PolicyDocument: aws.String(readerDoc)}))(t)
			testkit.Must(root.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("g")}))(t)
			testkit.Must(root.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("g"), UserName: aws.String("ann")}))(t)
			p := testkit.Must(root.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String(readerDoc)}))(t).Policy
			testkit.Must(root.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: aws.String("ann"), PolicyArn: p.Arn}))(t)
			ann := w.as(*key.AccessKeyId, *key.SecretAccessKey)
			testkit.Must(ann.ListRoles(ctx, &awsiam.ListRolesInput{}))(t)

			damaged := store.NewCollection[string]("iam", collection)
			check(t, w.Store.Update(ctx, func(tx *store.Tx) error {
				return damaged.Put(tx, store.Key{Account: account, ID: id}, "not an object")
			}))
			_, err := ann.ListRoles(ctx, &awsiam.ListRolesInput{})
			testkit.WantError(t, err, "AccessDenied", "User: arn:aws:iam::"+account+":user/ann is not authorized to perform: iam:ListRoles on resource: arn:aws:iam::"+account+":role/ with an explicit deny in an identity-based policy")
		})
	}
}

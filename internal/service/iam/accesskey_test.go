package iam_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// The default user's key still works after a reset, because shells have it in their
// environment. Everything else is gone.
func TestAccessKeyOutlivesAReset(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	check(t, w.iam.EnsureAccount(ctx, awsapi.DefaultAccount))
	out, err := w.as(iam.DefaultAccessKey, iam.DefaultSecret).CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String(iam.DefaultUser)})
	check(t, err)
	id, secret := aws.ToString(out.AccessKey.AccessKeyId), aws.ToString(out.AccessKey.SecretAccessKey)
	admin := w.as(id, secret)
	_, err = admin.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("eve")})
	check(t, err)
	for range 2 { // restoring twice is harmless
		check(t, w.Store.Reset(ctx, awsapi.DefaultAccount))
		check(t, w.iam.EnsureAccount(ctx, awsapi.DefaultAccount))
		check(t, w.iam.RestoreAccessKey(ctx, id, secret))
		check(t, w.iam.RestoreAccessKey(ctx, id, secret))
	}
	users := testkit.Must(admin.ListUsers(ctx, &awsiam.ListUsersInput{}))(t)
	if len(users.Users) != 1 || aws.ToString(users.Users[0].UserName) != iam.DefaultUser {
		t.Errorf("users: %v", users.Users)
	}
}

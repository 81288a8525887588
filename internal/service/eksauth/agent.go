package eksauth

import (
	"context"
	"net/http"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/podidentityagent"
)

// Agent is the EKS Pod Identity Agent of a cluster's nodes. call calls EKS Auth with a pod's token, as the agent's node.
func Agent(call func(ctx context.Context, token string) (*AssumeRoleForPodIdentityOutput, error)) http.Handler {
	return podidentityagent.Handler(func(ctx context.Context, token string) (podidentityagent.Credentials, error) {
		out, err := call(ctx, token)
		if err != nil {
			return podidentityagent.Credentials{}, err
		}
		c := out.Credentials
		user, _ := arn.Parse(*out.AssumedRoleUser.Arn) // STS's own
		return podidentityagent.Credentials{
			AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, Token: *c.SessionToken, AccountID: user.Account, Expiration: *c.Expiration,
		}, nil
	})
}

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/iam"
)

// roleDenies returns the actions that no policy of a role allows on any resource, or that
// one denies everywhere. What depends on a condition counts as allowed.
func (d *daemon) roleDenies(ctx context.Context, roleARN string, actions []string) ([]string, error) {
	role, err := d.iam.RoleByARN(ctx, roleARN)
	if errors.Is(err, iam.ErrNoSuchRole) {
		return actions, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking %s up: %w", roleARN, err)
	}
	a, err := arn.Parse(roleARN)
	if err != nil {
		return nil, err
	}
	who := awsapi.Principal{Type: awsapi.AssumedRole, Account: a.Account, RoleARN: roleARN, UserID: role.ID + ":addon"}
	policies, _ := d.iam.PoliciesOf(who)
	var denied []string
	for _, action := range actions {
		req := policy.Request{Action: action, Resource: "*", Principal: policy.Principal{ARN: roleARN, Account: a.Account}}
		req.Context.Unknown = func(string) bool { return true }
		if got := policy.Evaluate(req, policies); !got.Allowed && len(got.UnknownKeys) == 0 {
			denied = append(denied, action)
		}
	}
	return denied, nil
}

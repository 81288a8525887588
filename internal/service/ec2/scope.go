package ec2

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/store"
)

// A scope is the account and region a call is about.
type scope struct{ account, region string }

func (sc scope) key(id string) store.Key {
	return store.Key{Account: sc.account, Region: sc.region, ID: id}
}

func (sc scope) all() store.Scope { return store.Scope{Account: sc.account, Region: sc.region} }

// arn returns the ARN of an EC2 resource: sc.arn("instance", "i-…").
func (sc scope) arn(kind, id string) string {
	return arn.New("ec2", sc.region, sc.account, kind+"/"+id)
}

func keyScope(k store.Key) scope { return scope{k.Account, k.Region} }

// scope returns the scope of ctx's call, with its default VPC made.
func (s *Service) scope(ctx context.Context) (scope, error) {
	call := awsapi.CallFrom(ctx)
	sc := scope{call.Account, call.Region}
	if _, ok := regions.Lookup(sc.region); !ok {
		return sc, errUnknownRegion(sc.region)
	}
	return sc, s.prepare(ctx, sc)
}

// update is a transaction that a dry run leaves without effect after everything
// has been checked.
func (s *Service) update(ctx context.Context, dryRun *bool, fn func(*store.Tx) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		if aws.ToBool(dryRun) {
			return errDryRun()
		}
		return nil
	})
}

// checkDryRun is for operations that only read.
func checkDryRun(dryRun *bool) error {
	if aws.ToBool(dryRun) {
		return errDryRun()
	}
	return nil
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

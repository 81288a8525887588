package instance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// An unfinishedLaunchRecord exists while a RunInstances call that takes several transactions is
// between the first and the last. Its key is the first instance's ID. If the daemon dies in between
// and the request is not repeated with its token, the launched instances are terminated: EC2
// launches at least MinCount instances or none.
type unfinishedLaunchRecord struct {
	IDs   []string
	Token string `json:",omitempty"`
}

// noteUnfinished creates the record in a launch's first transaction and deletes it in the last.
// Launches for fleets and other internal ones need no record, because their service completes them.
func noteUnfinished(tx *store.Tx, sc resource.Scope, l launch, planned []string, first, last bool, token *string) error {
	switch {
	case l.purpose != purpose{} || first && last:
		return nil
	case first:
		return unfinishedLaunches.Create(tx, sc.Key(planned[0]), unfinishedLaunchRecord{IDs: planned, Token: aws.ToString(token)})
	case last:
		unfinishedLaunches.Delete(tx, sc.Key(planned[0]))
	}
	return nil
}

// reconcileUnfinished undoes a launch that no call in this process is working on.
func (s *Service) reconcileUnfinished(ctx context.Context, k store.Key) (time.Duration, error) {
	if !s.launches.TryLock() {
		return time.Second, nil
	}
	defer s.launches.Unlock()
	u, err := unfinishedLaunches.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	return 0, s.takeBack(ctx, resource.KeyScope(k), u.Token, u.IDs)
}

// takeBack terminates the instances that a launch has already stored. It deletes the token with the
// first instances and the unfinished-launch record with the last.
func (s *Service) takeBack(ctx context.Context, sc resource.Scope, token string, launched []string) error {
	for start := 0; start < len(launched); start += chunkInstances {
		chunk := launched[start:min(start+chunkInstances, len(launched))]
		err := s.Store.Update(ctx, func(tx *store.Tx) error {
			if start == 0 && token != "" {
				if err := forgetToken(tx, sc, token, launched[0]); err != nil {
					return err
				}
			}
			for _, id := range chunk {
				i, err := record.Instances.Get(tx, sc.Key(id))
				if resource.NotFound(err) || err == nil && (i.State == record.ShuttingDown || i.State == record.Terminated) {
					continue
				}
				if err != nil {
					return err
				}
				s.enter(&i, record.ShuttingDown)
				i.ReasonCode, i.ReasonMessage = "Server.InternalError", "Server.InternalError: Internal error on launch"
				if err := record.Instances.Put(tx, sc.Key(id), i); err != nil {
					return err
				}
			}
			if start+len(chunk) == len(launched) {
				unfinishedLaunches.Delete(tx, sc.Key(launched[0]))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("undoing a failed launch: %w", err)
		}
	}
	return nil
}

// forgetToken deletes a launch's token, unless the token now belongs to another launch.
func forgetToken(tx *store.Tx, sc resource.Scope, token, first string) error {
	k := resource.TokenKey(sc, "RunInstances", token)
	rec, err := resource.ClientTokens.Get(tx, k)
	if err == nil && slices.Contains(rec.IDs, first) {
		resource.ClientTokens.Delete(tx, k)
	}
	return store.IgnoreNotFound(err)
}

var unfinishedLaunches = store.NewCollection[unfinishedLaunchRecord]("ec2", "unfinished-launch")

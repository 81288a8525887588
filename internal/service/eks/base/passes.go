package base

import (
	"context"
	"errors"
	"time"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	passSettle = 200 * time.Millisecond // how long a pass waits for more changes
	passSoon   = 300 * time.Millisecond
	passRetry  = 5 * time.Second
	passResync = time.Minute
	// passHurries limits how many passes in a row follow failed ones soon. They take about ten seconds, in which AWS completes
	// most of what a pass waits for.
	passHurries = 20
)

// ErrSoon is what a pass returns if it waits for something in AWS. If something else has failed, it is joined with those errors.
var ErrSoon = errors.New("not yet complete")

// Passes calls start until it succeeds, and then calls pass repeatedly: when wake or the nodes report a change, soon after a pass
// that waits for AWS, a few seconds after a pass that failed, and at least every minute, because users may also change what is in
// AWS. It returns when ctx ends, or when EKS Auto Mode is disabled on the cluster.
func (s *Service) Passes(ctx context.Context, key store.Key, ses *plane.Session, what string, wake <-chan struct{}, start func(context.Context) error, pass func(context.Context, *record.Cluster) error) {
	wait := func(d time.Duration, changes ...<-chan struct{}) bool {
		changes = append(changes, nil, nil)
		select {
		case <-ctx.Done():
			return false
		case <-s.Clock.After(d):
		case <-changes[0]:
		case <-changes[1]:
		}
		return true
	}
	for {
		err := start(ctx)
		if err == nil {
			break
		}
		s.Log.Debug(what, "cluster", key.String(), "err", err)
		if !wait(passRetry) {
			return
		}
	}
	nodes := ses.Nodes()
	select {
	case <-ctx.Done():
		return
	case <-nodes.Synced:
	}
	hurried := 0
	for {
		changed := nodes.Next()
		rec, err := record.Clusters.Get(s.Store, key)
		if errors.Is(err, store.ErrNotFound) || err == nil && (!rec.AutoMode().On() || rec.Plane.ID == "") {
			return
		}
		if err == nil {
			err = pass(ctx, &rec)
		}
		soon := errors.Is(err, ErrSoon)
		failed := err != nil && err != ErrSoon //nolint:errorlint // a joined error is a failure, too
		if failed {
			s.Log.Debug(what, "cluster", key.String(), "err", err)
		}
		// What AWS is completing does not wait for the retry of something else that failed, but not for long, because each pass
		// repeats what failed.
		if soon && failed {
			hurried++
		} else {
			hurried = 0
		}
		again := passResync
		switch {
		case soon && hurried <= passHurries:
			again = passSoon
		case err != nil:
			again = passRetry
		}
		if !wait(again, changed, wake) || !wait(passSettle) {
			return
		}
	}
}

// AsClusterRole returns a context in which EKS calls as the cluster role, with the session tag that the managed policies
// of EKS Auto Mode compare with the tags of resources. The role's trust policy must allow sts:TagSession.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-cluster-iam-role.html
func (s *Service) AsClusterRole(ctx context.Context, key store.Key, rec *record.Cluster) (context.Context, error) {
	return s.AutoNodes.AsClusterRole(ctx, *rec.Cluster.Arn, *rec.Cluster.RoleArn, key.Region, map[string]string{automode.TagCluster: key.ID})
}

package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// timeout is how long applying an add-on is retried before it fails, and how long deleting its
	// objects is retried before the add-on is removed anyway.
	timeout = 15 * time.Minute
	// step is the first interval between checks of an add-on that waits for its pods. lookAgain is
	// the interval once the add-on is healthy or has waited for long.
	step      = 200 * time.Millisecond
	lookAgain = 5 * time.Second
)

// A work is one reconciliation of an add-on.
//
//	CREATING → ACTIVE ⇄ DEGRADED, both ⇄ UPDATING; all → DELETING → gone
//	   └→ CREATE_FAILED, UPDATE_FAILED: until they are updated
type work struct {
	s       *Service
	key     store.Key
	rec     record.Addon
	a       *addons.AddOn
	cluster addons.Cluster
	objects plane.Objects
	nodes   func() *plane.Nodes
}

// Reconciler brings add-ons into the state that their records describe.
func (s *Service) Reconciler() reconcile.Config {
	return reconcile.Config{
		Name: "eks/addon", Watcher: record.Addons.Watch(s.Store, store.Scope{}), Reconcile: s.reconcile, Hold: s.Hold(), Workers: 16, Log: s.Log, Clock: s.Clock,
	}
}

// reconcile brings one add-on a step closer to the state in its record.
func (s *Service) reconcile(ctx context.Context, key store.Key) (time.Duration, error) {
	rec, err := record.Addons.Get(s.Store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	cluster, err := record.Clusters.Get(s.Store, key.Owner())
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if base.Usable(cluster) != nil {
		return 0, nil // the add-ons of a cluster are deleted with it
	}
	a, ok := addons.Lookup(*rec.Addon.AddonName)
	if !ok {
		return 0, fmt.Errorf("add-on %s is not in the catalogue", *rec.Addon.AddonName)
	}
	ses, err := s.Sessions.Open(key.Owner(), cluster.Plane.ID)
	if err != nil {
		return 0, err
	}
	w := &work{s: s, key: key, rec: rec, a: a, cluster: clusterFacts(key, cluster, cluster.Plane), objects: ses.Objects, nodes: ses.Nodes}
	switch rec.Addon.Status {
	case ekstypes.AddonStatusCreating, ekstypes.AddonStatusUpdating:
		return w.apply(ctx)
	case ekstypes.AddonStatusActive, ekstypes.AddonStatusDegraded:
		return w.look(ctx)
	case ekstypes.AddonStatusDeleting:
		return w.remove(ctx)
	}
	return 0, nil
}

// wanted is the add-on's specification after the update in progress, if there is one, or its
// current one.
func (w *work) wanted() record.AddonSpec {
	now := w.rec.Spec()
	if w.rec.Next != nil {
		next := *w.rec.Next
		next.Replicas = now.Replicas
		return next
	}
	return now
}

// apply applies the objects of an add-on that is being created or updated, then waits for its pods.
func (w *work) apply(ctx context.Context) (time.Duration, error) {
	if !w.rec.Applied {
		objects, err := objectsOf(w.a, w.wanted(), w.cluster)
		if err != nil {
			return 0, w.fail(ctx, newIssue(ekstypes.AddonIssueCodeInternalFailure, err.Error()))
		}
		updating := w.rec.Addon.Status == ekstypes.AddonStatusUpdating
		if err := applyAll(ctx, w.objects, objects, w.rec.Resolve, updating, func() error { return w.touch(ctx) }); err != nil {
			issue := applyIssue(err)
			if issue == nil && ctx.Err() == nil && w.s.Clock.Since(w.rec.Since) > timeout {
				issue = newIssue(ekstypes.AddonIssueCodeClusterUnreachable, err.Error())
			}
			if issue == nil {
				return 0, err
			}
			return 0, w.fail(ctx, issue)
		}
		if err := w.prune(ctx, objects); err != nil {
			return 0, err
		}
		return 0, w.change(ctx, func(r *record.Addon) {
			r.Set(w.wanted())
			r.Next, r.Applied, r.Had = nil, true, true
		}, nil)
	}
	w.offer(ctx)
	issue, coming, err := w.health(ctx)
	age := w.s.Clock.Since(w.rec.Since)
	if err != nil {
		if ctx.Err() != nil || age <= timeout {
			return 0, err
		}
		// The objects have been applied and may work, so the add-on becomes DEGRADED, not
		// CREATE_FAILED.
		issue = newIssue(ekstypes.AddonIssueCodeClusterUnreachable, err.Error())
	}
	switch {
	case issue == nil && age < w.s.Timing.AddonApplying:
		return w.s.Timing.AddonApplying - age, nil
	case issue == nil:
		return lookAgain, w.finish(ctx, nil)
	case age < w.patience(coming):
		return w.pace(w.rec.Since), nil
	}
	return step, w.finish(ctx, issue)
}

// patience is how long to wait for the pods of a new or changed add-on. A new one whose pods cannot
// start becomes DEGRADED soon, but not while they may still start: eksctl and the SDK's waiter give
// up on a DEGRADED add-on. An update fails if its rollout does not complete.
// https://github.com/aws/containers-roadmap/issues/2242
func (w *work) patience(coming bool) time.Duration {
	switch t := w.s.Timing; {
	case coming:
		return t.AddonRollout
	case w.rec.Addon.Status == ekstypes.AddonStatusCreating:
		return t.AddonUnhealthy
	default:
		return t.AddonStuck
	}
}

// touch records, before anything is applied, that existing objects belong to the add-on from now
// on.
func (w *work) touch(ctx context.Context) error {
	if !w.rec.Untouched {
		return nil
	}
	return record.Addons.UpdateOne(ctx, w.s.Store, w.key, func(r *record.Addon) error {
		if !w.current(r) {
			return errChanged
		}
		r.Untouched = false
		return nil
	})
}

// errChanged makes the reconciler start over.
var errChanged = errors.New("the add-on changed while it was being reconciled")

// current reports whether r still is the add-on that was read, in the same state.
func (w *work) current(r *record.Addon) bool {
	return *r.Addon.AddonArn == *w.rec.Addon.AddonArn && r.Addon.Status == w.rec.Addon.Status && r.UpdateID == w.rec.UpdateID
}

// pace returns the interval to the next check. It grows with the time already waited.
func (w *work) pace(since time.Time) time.Duration {
	return min(max(w.s.Clock.Since(since)/10, step), lookAgain)
}

// finish completes a creation or update: the add-on becomes ACTIVE, or DEGRADED if there is an
// issue. Applied objects stay even if the update failed.
func (w *work) finish(ctx context.Context, issue *ekstypes.AddonIssue) error {
	return w.change(ctx, func(r *record.Addon) {
		if issue == nil {
			r.Enter(ekstypes.AddonStatusActive, w.s.Clock.Now())
		} else {
			r.Enter(ekstypes.AddonStatusDegraded, w.s.Clock.Now(), *issue)
		}
	}, func(u *ekstypes.Update) {
		u.Status = ekstypes.UpdateStatusSuccessful
		if issue != nil {
			u.Status, u.Errors = ekstypes.UpdateStatusFailed, []ekstypes.ErrorDetail{updateErrorOf(issue)}
		}
	})
}

// fail ends a creation or update that changed nothing.
func (w *work) fail(ctx context.Context, issue *ekstypes.AddonIssue) error {
	w.s.Log.Info("add-on cannot be applied", "addon", w.key.String(), "code", issue.Code, "why", *issue.Message)
	return w.change(ctx, func(r *record.Addon) {
		st := ekstypes.AddonStatusCreateFailed
		if r.Addon.Status == ekstypes.AddonStatusUpdating {
			st = ekstypes.AddonStatusUpdateFailed
		}
		r.Next = nil
		r.Enter(st, w.s.Clock.Now(), *issue)
	}, func(u *ekstypes.Update) {
		u.Status, u.Errors = ekstypes.UpdateStatusFailed, []ekstypes.ErrorDetail{updateErrorOf(issue)}
	})
}

// look makes an ACTIVE add-on DEGRADED once pods have been missing for a while, and ACTIVE again
// when they are back.
func (w *work) look(ctx context.Context) (time.Duration, error) {
	w.offer(ctx)
	issue, _, err := w.health(ctx)
	if err != nil {
		w.s.Log.Debug("checking an add-on", "addon", w.key.String(), "err", err)
		return lookAgain, nil // this is the cluster's problem, not the add-on's
	}
	scaled, err := w.scale(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		w.s.Log.Warn("scaling an add-on failed", "addon", w.key.String(), "err", err)
		issue = cmp.Or(issue, applyIssue(err))
	}
	again, err := w.judge(ctx, issue)
	if scaled {
		again = step // its pods are still to start
	}
	return again, err
}

// judge records the issue of an ACTIVE or DEGRADED add-on and returns the interval to the next
// check.
func (w *work) judge(ctx context.Context, issue *ekstypes.AddonIssue) (time.Duration, error) {
	active := w.rec.Addon.Status == ekstypes.AddonStatusActive
	switch {
	case issue == nil && active:
		if w.rec.Ailing.IsZero() {
			return lookAgain, nil
		}
		return lookAgain, w.change(ctx, func(r *record.Addon) { r.Ailing = time.Time{} }, nil)
	case issue == nil:
		return lookAgain, w.change(ctx, func(r *record.Addon) { r.Enter(ekstypes.AddonStatusActive, w.s.Clock.Now()) }, nil)
	case !active:
		return w.pace(w.rec.Since), w.restate(ctx, issue)
	case w.rec.Ailing.IsZero():
		return step, w.change(ctx, func(r *record.Addon) { r.Ailing = w.s.Clock.Now() }, nil)
	case w.s.Clock.Since(w.rec.Ailing) < w.s.Timing.AddonUnhealthy:
		return w.pace(w.rec.Ailing), nil
	}
	return step, w.change(ctx, func(r *record.Addon) { r.Enter(ekstypes.AddonStatusDegraded, w.s.Clock.Now(), *issue) }, nil)
}

// restate records a DEGRADED add-on's new issue. It does so at most once per lookAgain, because the
// text may count pods and nodes.
func (w *work) restate(ctx context.Context, issue *ekstypes.AddonIssue) error {
	same := func(a, b ekstypes.AddonIssue) bool {
		return a.Code == b.Code && aws.ToString(a.Message) == aws.ToString(b.Message) && slices.Equal(a.ResourceIds, b.ResourceIds)
	}
	if h := w.rec.Addon.Health; h != nil && slices.EqualFunc(h.Issues, []ekstypes.AddonIssue{*issue}, same) || w.s.Clock.Since(*w.rec.Addon.ModifiedAt) < lookAgain {
		return nil
	}
	return w.change(ctx, func(r *record.Addon) {
		r.Addon.ModifiedAt = new(w.s.Now())
		r.Addon.Health = &ekstypes.AddonHealth{Issues: []ekstypes.AddonIssue{*issue}}
	}, nil)
}

// remove removes a DELETING add-on's objects and roles, then its record. With preserve, both stay
// and no longer belong to the add-on. If the add-on never applied anything, existing objects are
// not its own and stay as well.
func (w *work) remove(ctx context.Context) (time.Duration, error) {
	if !w.rec.Preserve && !w.rec.Untouched {
		gone, err := w.removeObjects(ctx)
		switch {
		case err == nil && gone:
		case w.s.Clock.Since(w.rec.Since) < timeout:
			return w.pace(w.rec.Since), err
		default:
			w.s.Log.Warn("could not remove all objects of an add-on", "addon", w.key.String(), "err", err)
		}
	}
	cluster := w.key.Owner()
	return 0, w.s.Store.Update(ctx, func(tx *store.Tx) error {
		r, err := record.Addons.Get(tx, w.key)
		if err != nil || *r.Addon.AddonArn != *w.rec.Addon.AddonArn {
			return store.IgnoreNotFound(err)
		}
		owned := podidentity.OwnedBy(tx, cluster, *r.Addon.AddonArn)
		for _, o := range owned {
			if !w.rec.Preserve {
				record.PodIdentities.Delete(tx, o.Key)
			} else if err := record.PodIdentities.Update(tx, o.Key, func(p *record.PodIdentity) error { p.Association.OwnerArn = nil; return nil }); err != nil {
				return err
			}
		}
		for _, up := range record.Updates.All(tx, cluster.AllBelow()) {
			if up.Value.Addon == *w.rec.Addon.AddonName {
				record.Updates.Delete(tx, up.Key)
			}
		}
		record.Addons.Delete(tx, w.key)
		return nil
	})
}

// removeObjects deletes the add-on's objects and reports whether all are gone. Objects with
// finalizers, such as a CustomResourceDefinition, take longer.
func (w *work) removeObjects(ctx context.Context) (gone bool, err error) {
	objects, err := objectsOf(w.a, w.rec.Spec(), w.cluster)
	if err != nil {
		return false, err
	}
	apis, objects := splitAPIs(objects)
	if err := w.removeOurs(ctx, apis, false); err != nil { // an existing one may be someone else's
		return false, err
	}
	objects = slices.DeleteFunc(objects, isNamespace)
	var left atomic.Bool
	err = plane.Each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		if err := w.objects.Delete(ctx, o); err != nil {
			return fmt.Errorf("removing %s: %w", plane.Describe(o), err)
		}
		_, err := w.objects.Get(ctx, o)
		switch {
		case err == nil:
			left.Store(true)
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("reading %s: %w", plane.Describe(o), err)
		}
		return nil
	})
	return !left.Load(), err
}

// change updates the record, unless it has changed since it was read, together with the update in
// progress.
func (w *work) change(ctx context.Context, fn func(*record.Addon), update func(*ekstypes.Update)) error {
	err := w.s.Store.Update(ctx, func(tx *store.Tx) error {
		r, err := record.Addons.Get(tx, w.key)
		if err != nil {
			return err
		}
		if !w.current(&r) {
			return nil
		}
		if update != nil {
			if err := w.endUpdate(tx, update); err != nil {
				return err
			}
		}
		return record.Addons.Update(tx, w.key, func(r *record.Addon) error {
			fn(r)
			if update != nil {
				r.UpdateID = ""
			}
			return nil
		})
	})
	return store.IgnoreNotFound(err)
}

// endUpdate applies fn to the add-on's update in progress, if there is one.
func (w *work) endUpdate(tx *store.Tx, fn func(*ekstypes.Update)) error {
	if w.rec.UpdateID == "" {
		return nil
	}
	err := record.Updates.Update(tx, w.key.Owner().Below(w.rec.UpdateID), func(u *record.Update) error { fn(&u.Update); return nil })
	return store.IgnoreNotFound(err)
}

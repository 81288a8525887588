package ssm

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// targetPoll is how often the targets of an association are looked up again. Instances that have started, come
	// online or been tagged change no record of this service.
	targetPoll = 2 * time.Second
	// maxRuns is how many runs of an association are kept. Runs that are the latest ones of a target are kept, too.
	maxRuns = 20
)

// runs are the commands that associations run. They are kept apart from those of users, as on AWS: ListCommands lists
// them only by their ID.
var runs = store.NewCollection[commandRecord]("ssm", "association-run", store.Same) // ASSOCIATION/COMMAND; version 2 is version 4 of commands

// A runRecord says which association a command is a run of.
type runRecord struct {
	Association string
	Version     int64
	Execution   string // ID
	// Due is the association's due time that the run answers.
	Due time.Time
}

// key returns the key of a command's record.
func (c *commandRecord) key(sc scope) store.Key {
	if c.Run != nil {
		return sc.Key(c.Run.Association).Below(c.ID)
	}
	return sc.Key(c.ID)
}

// collection returns the collection of a command's record.
func (c *commandRecord) collection() store.Collection[commandRecord] {
	if c.Run != nil {
		return runs
	}
	return commands
}

func (s *Service) reconcilers() []reconcile.Config {
	return []reconcile.Config{{
		Name: "ssm/association", Watcher: associations.Watch(s.store, store.Scope{}), Reconcile: s.reconcileAssociation, Log: s.log, Clock: s.clock,
	}}
}

// reconcileAssociation runs an association on those of its targets that it has not run on since it was due.
func (s *Service) reconcileAssociation(ctx context.Context, key store.Key) (time.Duration, error) {
	a, err := associations.Get(s.store, key)
	if store.IsNotFound(err) {
		return 0, s.forgetAssociation(ctx, key)
	}
	if err != nil {
		return 0, err
	}
	now := s.now()
	next, more := a.next(cmp.Or(a.Due, a.Updated))
	if more && !next.After(now) {
		// The change triggers the next call. If the daemon missed several times, the association runs once.
		return 0, associations.UpdateOne(ctx, s.store, key, func(a *associationRecord) error { a.due(now); return nil })
	}
	if !a.Due.IsZero() {
		if err := s.runAssociation(ctx, scope{regional.At(key.Account, key.Region)}, &a); err != nil {
			return 0, err
		}
	}
	if again := next.Sub(now); more && again < targetPoll {
		return again, nil
	}
	return targetPoll, nil
}

// due makes an association due, which it has not been at the same time before.
func (a *associationRecord) due(now time.Time) {
	if !now.After(a.Due) {
		now = a.Due.Add(time.Millisecond)
	}
	a.Due = now
}

// runAssociation runs an association on its targets that are online.
func (s *Service) runAssociation(ctx context.Context, sc scope, a *associationRecord) error {
	done := map[string]bool{}
	var late []string
	for _, i := range runs.All(s.store, sc.Key(a.ID).AllBelow()) {
		if i.Value.Run.Due.Before(a.Due) {
			late = append(late, i.Value.ID)
			continue
		}
		for _, id := range i.Value.Instances {
			done[id] = true
		}
	}
	var ready []string
	targets := s.associationTargets(sc, &a.associationVersion)
	for _, i := range targets {
		waits := a.OnlyScheduled && i.LaunchTime.After(a.Due) // for the next time
		if done[i.ID] || waits {
			continue
		}
		if s.can(ctx, &i, RunCommands) {
			ready = append(ready, i.ID)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	slices.Sort(ready)
	s.cancel(errEnding, late...) // a run that is still in progress when the next one begins times out
	return s.beginRun(ctx, sc, a, targets, ready)
}

// associationTargets returns the running instances that are targets of a version of an association.
func (s *Service) associationTargets(sc scope, v *associationVersion) []machine.Instance {
	return slices.DeleteFunc(s.instances(sc), func(i machine.Instance) bool { return !s.matchesAssociation(v, &i) })
}

// beginRun starts a run of an association on some of its targets. If the document cannot run any more, the run fails.
func (s *Service) beginRun(ctx context.Context, sc scope, a *associationRecord, targets []machine.Instance, instances []string) error {
	c := commandRecord{
		ID: ids.UUID(), Document: a.Document, Version: a.DocumentVersion, Parameters: a.Parameters, Requested: s.now(), Timeout: 3600, Targets: a.Targets,
		Concurrency: cmp.Or(a.Concurrency, "100%"), Errors: cmp.Or(a.Errors, "100%"), Bucket: a.Bucket, Prefix: a.Prefix, Instances: instances,
		Run: &runRecord{Association: a.ID, Version: a.Version, Execution: ids.UUID(), Due: a.Due},
	}
	_, what, unfit := s.scripts(ctx, sc, a.Document, a.DocumentVersion, a.Parameters)
	if unfit != nil {
		what = []document.Script{{Name: "document", Failure: unfit.Error()}}
	}
	running, ok := s.began(sc, c.ID, instances)
	if !ok {
		return nil // too many commands are running; the next call tries again
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := associations.Get(tx, sc.Key(a.ID))
		if err != nil {
			return err
		}
		if now.Version != a.Version {
			return errConcurrent() // the change triggers the next call
		}
		return runs.Create(tx, c.key(sc), c)
	})
	if err == nil {
		err = s.forgetRuns(ctx, sc, a, targets)
	}
	if err != nil {
		s.done(c.ID, len(instances))
		return err
	}
	go s.runAll(running, sc, &c, what)
	return nil
}

// forgetRuns deletes the oldest runs of an association that are not the latest ones of any target. Instances that no longer
// run are no targets.
func (s *Service) forgetRuns(ctx context.Context, sc scope, a *associationRecord, targets []machine.Instance) error {
	without := map[string]bool{} // targets whose latest run has not been seen
	for _, i := range targets {
		without[i.ID] = true
	}
	for n, r := range s.runsOf(sc, a.ID) {
		needed := n < maxRuns
		for _, id := range r.Instances {
			needed = needed || without[id]
			delete(without, id)
		}
		if !needed {
			if err := s.forgetCommand(ctx, sc, &r.commandRecord); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetAssociation cancels the runs of an association that was deleted, and deletes what is stored of it.
func (s *Service) forgetAssociation(ctx context.Context, key store.Key) error {
	sc := scope{regional.At(key.Account, key.Region)}
	for _, i := range runs.All(s.store, key.AllBelow()) {
		s.cancel(nil, i.Value.ID)
		if err := s.forgetCommand(ctx, sc, &i.Value); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(associationVersions.All(s.store, key.AllBelow()), store.MaxWrites) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, i := range some {
				associationVersions.Delete(tx, i.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runsOf returns the runs of an association, the newest first.
func (s *Service) runsOf(sc scope, association string) []foundCommand {
	return s.withInvocations(sc, func() []store.Item[commandRecord] { return runs.All(s.store, sc.Key(association).AllBelow()) })
}

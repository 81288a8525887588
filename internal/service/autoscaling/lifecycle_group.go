package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// ofGroup returns the group that the resource with key k belongs to.
func ofGroup(k store.Key) (store.Key, bool) { return k.Owner(), true }

// Run reconciles groups until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return reconcile.Run(ctx, reconcile.Config{
		Name: "autoscaling/group", Watcher: groups.Watch(s.store, store.Scope{}), Workers: 16, Log: s.log, Clock: s.clock,
		Related: []reconcile.Related{
			{Watcher: members.Watch(s.store, store.Scope{}), Of: ofGroup},
			{Watcher: refreshes.Watch(s.store, store.Scope{}), Of: ofGroup},
			{Watcher: s.cfg.Instances.WatchInstances(store.Scope{}), Of: s.ownerOf},
		},
		Reconcile: s.reconcileGroup, Hold: s.held(),
	}, reconcile.Config{
		Name: "autoscaling/scheduled-action", Watcher: scheduled.Watch(s.store, store.Scope{}), Workers: 2, Log: s.log, Clock: s.clock,
		Reconcile: s.carryOut, Hold: s.held(),
	})
}

func (s *Service) held() func(store.Key) bool {
	if s.cfg.Held == nil {
		return nil
	}
	return func(k store.Key) bool { return s.cfg.Held(k.Account) }
}

// heldUntil returns when an account's groups began to act, or zero if they always have.
func (s *Service) heldUntil(account string) time.Time {
	if s.cfg.HeldUntil == nil {
		return time.Time{}
	}
	return s.cfg.HeldUntil(account)
}

// WatchMembers watches the instances of groups. MemberGroup returns the group of a key.
func (s *Service) WatchMembers(sc store.Scope) *store.Watcher { return members.Watch(s.store, sc) }

// MemberGroup returns the name of the group that a watched key belongs to.
func (s *Service) MemberGroup(k store.Key) string {
	name, err := url.QueryUnescape(k.Owner().ID)
	if err != nil {
		return "" // not one of our keys
	}
	return name
}

// ownerOf returns the group that a changed instance belongs to.
func (s *Service) ownerOf(instance store.Key) (store.Key, bool) {
	o, err := owners.Get(s.store, instance)
	if err != nil {
		return store.Key{}, false
	}
	return scope{regional.At(instance.Account, instance.Region)}.group(o.Group), true
}

// A work is one reconciliation of one group.
type work struct {
	s   *Service
	key store.Key
	g   groupRecord     // shared: do not modify
	svc context.Context //nolint:containedctx // the call EC2 is made with
}

func (w *work) scope() scope { return scope{regional.At(w.key.Account, w.key.Region)} }

// reconcileGroup brings one group closer to the state in its record: it carries out planned
// launches, handles changes of instances, then corrects the number of instances.
func (s *Service) reconcileGroup(ctx context.Context, key store.Key) (time.Duration, error) {
	g, err := groups.Get(s.store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	w := &work{s: s, key: key, g: g, svc: s.asService(ctx, key.Account, key.Region)}
	if err := w.launch(ctx); err != nil {
		return 0, err
	}
	due, err := w.follow(ctx)
	if err != nil {
		return 0, err
	}
	if err := w.targets(ctx); err != nil {
		return 0, err
	}
	checkup, err := w.checkup(ctx)
	if err != nil {
		return 0, err
	}
	patience, err := w.giveUp(ctx, w.members())
	if err != nil {
		return 0, err
	}
	again, err := w.balance(ctx)
	if err != nil {
		return 0, err
	}
	if err := w.launch(ctx); err != nil {
		return 0, err
	}
	return earlier(earlier(earlier(due, checkup), patience), again), s.prune(ctx, key)
}

// earlier returns the shorter of two waits. Zero means no wait.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (w *work) members() []memberRecord {
	all := members.All(w.s.store, w.key.AllBelow())
	out := make([]memberRecord, len(all))
	for i, m := range all {
		out[i] = m.Value
	}
	return out
}

// balance adjusts the number of instances to the desired capacity.
func (w *work) balance(ctx context.Context) (time.Duration, error) {
	g, err := groups.Get(w.s.store, w.key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	w.g = g
	all := w.members()
	waiting := plans.All(w.s.store, w.key.AllBelow())
	if g.Deleting {
		if len(all)+len(waiting) == 0 {
			return 0, w.s.forget(ctx, w.key)
		}
		return 0, w.endAll(ctx, all)
	}
	c := g.census(all)
	for _, p := range waiting {
		if !p.Value.Warm {
			c.active += p.Value.Count
		}
	}
	switch want := g.desired(); {
	case want > c.active:
		if !g.runs("Launch") {
			return 0, nil
		}
		if taken, err := w.draw(ctx, all, want-c.active); taken > 0 || err != nil {
			return 0, err // the change triggers the next reconciliation
		}
		if wait := g.RetryAt.Sub(w.s.now()); wait > 0 {
			return wait, nil
		}
		return 0, w.plan(ctx, all, want-c.active, "")
	case want < c.active && c.lightest <= c.active-want:
		if c.risingSurplus || !g.runs("Terminate") {
			return 0, nil // instances are terminated only after their replacements are in service
		}
		return 0, w.scaleIn(ctx, all, c.active-want)
	}
	pool, err := w.keepPool(ctx, all, waiting)
	if err != nil {
		return 0, err
	}
	again, err := w.renew(ctx, all, c)
	return earlier(pool, again), err
}

// renew replaces instances of a group that has as many as it wants.
func (w *work) renew(ctx context.Context, all []memberRecord, c count) (time.Duration, error) {
	g := &w.g
	if r := w.s.activeRefresh(w.s.store, w.key); r != nil && g.runs("InstanceRefresh") {
		return w.refresh(ctx, *r, all)
	}
	busy, due, err := w.turnover(ctx, all, c)
	if err != nil || busy {
		return due, err
	}
	again, err := w.rebalance(ctx, all, c)
	return earlier(due, again), err
}

// A count has what balance needs to know about a group's instances.
type count struct {
	active        int  // units of capacity
	lightest      int  // units of the instance that counts as the least
	moving        bool // an instance is launching or terminating
	risingSurplus bool
}

func (g *groupRecord) census(all []memberRecord) count {
	var c count
	for _, m := range all {
		if m.capacity() {
			units := g.weight(&m)
			if c.active == 0 || units < c.lightest {
				c.lightest = units
			}
			c.active += units
		}
		c.moving = c.moving || m.pending() || m.terminating()
		c.risingSurplus = c.risingSurplus || m.Surplus && m.pending()
	}
	return c
}

// endAll terminates the instances of a group that is being deleted.
func (w *work) endAll(ctx context.Context, all []memberRecord) error {
	return w.end(ctx, slices.DeleteFunc(all, func(m memberRecord) bool { return m.terminating() }), func(g *groupRecord, m *memberRecord) string {
		return because(append(slices.Clone(g.Causes),
			fmt.Sprintf("At %s instance %s was selected for termination.", stamp(w.s.now()), m.ID))...)
	}, false)
}

// scaleIn terminates n instances.
func (w *work) scaleIn(ctx context.Context, all []memberRecord, n int) error {
	serving := slices.DeleteFunc(slices.Clone(all), func(m memberRecord) bool { return !m.capacity() })
	r := w.s.activeRefresh(w.s.store, w.key)
	before := w.g.units(serving)
	var chosen []memberRecord
	back := false // to the warm pool
	pick := func(from []memberRecord, cause string) error {
		if n <= w.g.units(chosen) || len(from) == 0 {
			return nil
		}
		rules, err := w.rules(serving)
		if err != nil {
			return err
		}
		var leave []memberRecord
		for _, id := range rules.victims(from, n-w.g.units(chosen)) {
			i := slices.IndexFunc(from, func(m memberRecord) bool { return m.ID == id })
			leave = append(leave, from[i])
		}
		chosen = append(chosen, leave...)
		if back {
			if err := w.reuse(ctx, leave); err != nil {
				return err
			}
		}
		return w.end(ctx, leave, w.whyScaleIn(leave, before, cause), true)
	}
	if r != nil { // replacements were launched first, so the refresh's targets are terminated now
		targets := slices.DeleteFunc(slices.Clone(serving), func(m memberRecord) bool { return !slices.Contains(r.Value.Targets, m.ID) })
		if err := pick(targets, refreshCause); err != nil {
			return err
		}
	}
	for _, cause := range []string{unhealthyCause, lifetimeCause} { // their replacements were launched first
		due := slices.DeleteFunc(slices.Clone(serving), func(m memberRecord) bool { return contains(chosen, m.ID) || w.dueFor(&m) != cause })
		if err := pick(due, cause); err != nil {
			return err
		}
	}
	var strangers []memberRecord // instances in zones that no longer belong to the group
	for _, m := range serving {
		if !slices.Contains(w.g.Group.AvailabilityZones, m.Zone) && !contains(chosen, m.ID) {
			strangers = append(strangers, m)
		}
	}
	if err := pick(strangers, ""); err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(serving), func(m memberRecord) bool { return contains(chosen, m.ID) })
	back = w.g.reuses()
	return pick(rest, "")
}

func contains(all []memberRecord, id string) bool {
	return slices.ContainsFunc(all, func(m memberRecord) bool { return m.ID == id })
}

const (
	refreshCause  = "an instance refresh"
	unhealthyOwed = "an instance was launched in response to an unhealthy instance needing to be replaced."
	refreshOwed   = "an instance was launched in response to an instance refresh."
	replaceOwed   = "an instance was started in response to a difference between desired and actual capacity."
	rebalanceOwed = "an instance was launched to aid in balancing the group's zones." // from memory
	healthEC2     = "an instance was taken out of service in response to an EC2 health check indicating it has been terminated or stopped."
	// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-healthchecks.html
	healthELB      = "an instance was taken out of service in response to an ELB system health check failure."
	healthUser     = "an instance was taken out of service in response to a user health-check."
	abandonedCause = "an instance was taken out of service in response to an abandoned lifecycle action." // from memory
)

// whyScaleIn returns the cause for each terminated instance. It names all of them if there is
// enough room.
func (w *work) whyScaleIn(leave []memberRecord, before int, cause string) func(*groupRecord, *memberRecord) string {
	now := stamp(w.s.now())
	return func(g *groupRecord, m *memberRecord) string {
		var why []string
		if cause != "" {
			why = append(why, "At "+now+" "+outOfService(cause, m))
		} else {
			why = append(slices.Clone(g.Causes), fmt.Sprintf("At %s an instance was taken out of service in response to a difference between desired and actual capacity, shrinking the capacity from %d to %d.",
				now, before, before-w.g.units(leave)))
		}
		selected := func(id string) string { return fmt.Sprintf("At %s instance %s was selected for termination.", now, id) }
		every := slices.Clone(why)
		for _, l := range leave[:min(len(leave), 20)] {
			every = append(every, selected(l.ID))
		}
		if full := because(every...); len(leave) <= 20 && len(full) < maxCause {
			return full
		}
		return because(append(why, selected(m.ID))...)
	}
}

// rules returns the termination policies and the data that they depend on.
func (w *work) rules(serving []memberRecord) (scaleIn, error) {
	rules := scaleIn{policies: w.g.Group.TerminationPolicies, now: w.s.now(), configAge: map[string]time.Time{}, weight: w.g.weight}
	src, err := w.s.source(w.svc, w.scope(), &w.g)
	if err != nil && awserr.CodeOf(err) == "" {
		return rules, err
	}
	rules.source = src // if the template was deleted, no instance is current
	if src.mixed != nil {
		rules.spotWant = w.g.desired() - onDemand(src.mixed, w.g.desired())
	}
	for _, m := range serving {
		if m.Config == "" {
			continue
		}
		if lc, err := configs.Get(w.s.store, w.scope().group(m.Config)); err == nil {
			rules.configAge[m.Config] = *lc.CreatedTime
		}
	}
	return rules, nil
}

// onDemand returns how many of n instances are On-Demand according to a distribution.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_InstancesDistribution.html
func onDemand(d *autoscalingtypes.InstancesDistribution, n int) int {
	base := min(n, int(aws.ToInt32(d.OnDemandBaseCapacity)))
	return base + ((n-base)*int(aws.ToInt32(d.OnDemandPercentageAboveBaseCapacity))+99)/100
}

// end starts the termination of instances. clear means that the activities report the group's
// causes, which are then cleared.
func (w *work) end(ctx context.Context, leave []memberRecord, cause func(*groupRecord, *memberRecord) string, clear bool) error {
	var told []string
	for chunk := range slices.Chunk(leave, batch) {
		err := w.s.store.Update(ctx, func(tx *store.Tx) error {
			g, err := groups.Get(tx, w.key)
			if err != nil {
				return err
			}
			if clear && told == nil {
				told = slices.Clone(g.Causes)
			}
			telling := g
			if clear {
				telling.Causes = told
			}
			for _, l := range chunk {
				err := members.Update(tx, w.key.Below(l.ID), func(m *memberRecord) error {
					if m.terminating() {
						return nil
					}
					return w.s.beginEnd(tx, w.key, &g, m, cause(&telling, m), true)
				})
				if store.IgnoreNotFound(err) != nil {
					return err
				}
			}
			if clear {
				g.Causes = nil
			}
			g.LastActivity = w.s.now()
			return groups.Put(tx, w.key, g)
		})
		if err != nil {
			return store.IgnoreNotFound(err)
		}
	}
	return nil
}

// rebalance launches instances in the zones with the fewest if zones differ by two or more
// instances. Once
// those are in service, scaleIn terminates as many in the zones with the most.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html#AutoScalingBehavior.InstanceUsage
func (w *work) rebalance(ctx context.Context, all []memberRecord, c count) (time.Duration, error) {
	g := &w.g
	if c.moving || c.active == 0 || !g.runs("AZRebalance") || !g.runs("Launch") || !g.runs("Terminate") {
		return 0, nil
	}
	zones := map[string]int{}
	strangers, heaviest := 0, 1
	for _, m := range all {
		if !m.capacity() {
			continue
		}
		units := g.weight(&m)
		heaviest = max(heaviest, units)
		if slices.Contains(g.Group.AvailabilityZones, m.Zone) {
			zones[m.Zone] += units
		} else if !m.Protected {
			strangers += units
		}
	}
	most, fewest := 0, c.active
	for _, z := range g.Group.AvailabilityZones {
		most, fewest = max(most, zones[z]), min(fewest, zones[z])
	}
	n := strangers
	if most-fewest >= 2*heaviest && slices.ContainsFunc(all, func(m memberRecord) bool { return zones[m.Zone] == most && !m.Protected }) {
		n += (most - fewest) / 2
	}
	if n == 0 {
		return 0, nil
	}
	if wait := g.RetryAt.Sub(w.s.now()); wait > 0 {
		return wait, nil
	}
	n = min(n, max(1, int(*g.Group.MaxSize)/10)) // AWS exceeds the maximum by at most ten percent or by one
	return 0, w.plan(ctx, all, n, rebalanceOwed)
}

// forget deletes the records of a group without instances. Its latest activities stay.
func (s *Service) forget(ctx context.Context, key store.Key) error {
	var gone []func(*store.Tx)
	more := func(k store.Key, del func(*store.Tx, store.Key)) {
		gone = append(gone, func(tx *store.Tx) { del(tx, k) })
	}
	for _, p := range policies.All(s.store, key.AllBelow()) {
		more(p.Key, policies.Delete)
	}
	for _, r := range refreshes.All(s.store, key.AllBelow()) {
		more(r.Key, refreshes.Delete)
	}
	for _, a := range scheduled.All(s.store, key.AllBelow()) {
		more(a.Key, scheduled.Delete)
	}
	told := actions.All(s.store, key.AllBelow())
	slices.SortFunc(told, func(a, b store.Item[activityRecord]) int { return latestFirst(a.Value.Activity, b.Value.Activity) })
	for _, a := range told[min(len(told), keptOfDeleted):] {
		more(a.Key, actions.Delete)
	}
	for chunk := range slices.Chunk(gone, 90) {
		if err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, del := range chunk {
				del(tx)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, key)
		if err != nil || !g.Deleting {
			return store.IgnoreNotFound(err)
		}
		groups.Delete(tx, key)
		return nil
	})
}

// keptOfDeleted is how many activities of a deleted group are kept.
const keptOfDeleted = 100

// byID compares members by ID.
func byID(a, b memberRecord) int { return cmp.Compare(a.ID, b.ID) }

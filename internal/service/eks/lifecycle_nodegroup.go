package eks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// nodeWait is how long one reconciliation waits for nodes to change.
	nodeWait = time.Second
	// joinWait is how long an update of labels or taints waits for instances that
	// boot with the old ones.
	joinWait = 30 * time.Second
	// syncWait is how long one reconciliation waits for the first list of nodes.
	syncWait = 10 * time.Second
	// steady is how often a settled group is looked at: an instance that ended
	// by itself is replaced.
	steady = 5 * time.Second
	// drainStep is how often a draining node is looked at.
	drainStep = 500 * time.Millisecond
	// nodeWorkers is how many nodes of a group are worked on at once.
	nodeWorkers = 16
)

// nodegroupReconciler brings node groups to what their records say. Changes of the
// instances of their Auto Scaling groups wake it.
func (s *Service) nodegroupReconciler() reconcile.Config {
	return reconcile.Config{
		Name: "eks/nodegroup", Watcher: nodegroups.Watch(s.store, store.Scope{}), Reconcile: s.reconcileNodegroup, Workers: 64, Log: s.log, Clock: s.clock,
		Related: []reconcile.Related{{Watcher: s.cfg.AutoScaling.WatchMembers(store.Scope{}), Of: s.nodegroupOfMember}},
	}
}

// nodegroupOfMember returns the node group whose Auto Scaling group a changed
// instance is in.
func (s *Service) nodegroupOfMember(changed store.Key) (store.Key, bool) {
	name := s.cfg.AutoScaling.MemberGroup(changed)
	if !strings.HasPrefix(name, "eks-") {
		return store.Key{}, false
	}
	all, err := nodegroups.List(s.store, store.Scope{Account: changed.Account, Region: changed.Region})
	if err != nil {
		return store.Key{}, false
	}
	i := slices.IndexFunc(all, func(g store.Item[nodegroupRecord]) bool { return g.Value.resourceName() == name })
	if i < 0 {
		return store.Key{}, false
	}
	return all[i].Key, true
}

// reconcileNodegroup brings one node group a step nearer to what its record says.
func (s *Service) reconcileNodegroup(ctx context.Context, key store.Key) (time.Duration, error) {
	g, err := nodegroups.Get(s.store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	cluster, err := clusters.Get(s.store, clusterOf(key))
	if err != nil {
		return 0, store.IgnoreNotFound(err) // reset; nothing to do it with
	}
	w := &groupWork{s: s, key: key, g: &g, cluster: &cluster, svc: s.asService(ctx, key.Account, key.Region)}
	switch g.Nodegroup.Status {
	case ekstypes.NodegroupStatusCreating:
		again, err := w.create(ctx)
		if err != nil && ctx.Err() == nil {
			return w.createTrouble(ctx, err)
		}
		return again, err
	case ekstypes.NodegroupStatusActive, ekstypes.NodegroupStatusDegraded:
		return w.keep(ctx)
	case ekstypes.NodegroupStatusUpdating:
		return w.update(ctx)
	case ekstypes.NodegroupStatusDeleting:
		return w.remove(ctx)
	}
	return 0, nil
}

// groupWork is one reconciliation of one node group.
type groupWork struct {
	s       *Service
	key     store.Key
	g       *nodegroupRecord // as read; shared, never written
	cluster *clusterRecord
	svc     context.Context //nolint:containedctx // the call EC2 and IAM are made with
}

// session connects to the cluster and waits until its nodes are known: what is
// decided without them would end nodes that are not drained.
func (w *groupWork) session(ctx context.Context) (*session, error) {
	ses, err := w.s.sessions.open(clusterOf(w.key), w.cluster.Plane.ID)
	if err != nil {
		return nil, err
	}
	if w.g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting && w.s.clock.Since(w.g.Since) >= w.s.cfg.Timing.NodeDrain {
		return ses, nil // out of patience with a dead control plane
	}
	select {
	case <-ses.nodes().synced:
		return ses, nil
	case <-w.s.clock.After(syncWait):
		return nil, errNoAnswer
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change changes the record of this life of the group while it has the status.
func (w *groupWork) change(ctx context.Context, fn func(*nodegroupRecord)) error {
	return store.IgnoreNotFound(nodegroups.UpdateOne(ctx, w.s.store, w.key, func(g *nodegroupRecord) error {
		if g.UUID == w.g.UUID {
			fn(g)
		}
		return nil
	}))
}

// create does whatever is missing of a CREATING group.
func (w *groupWork) create(ctx context.Context) (time.Duration, error) {
	g, s := w.g, w.s
	ses, err := w.session(ctx)
	if err != nil {
		return 0, err
	}
	nodes := ses.nodes()
	if g.LaunchTemplateID == "" {
		if !w.cluster.usesAPI() {
			if err := mapNodeRole(ctx, ses, g.Role.ARN, typeEC2Linux); err != nil {
				return 0, err
			}
		}
		if found, err := w.publicAddressIssue(); err != nil {
			return 0, err
		} else if found != nil {
			return 0, w.fail(ctx, *found)
		}
		if g.Nodegroup.RemoteAccess != nil && g.Nodegroup.Resources.RemoteAccessSecurityGroup == nil {
			id, err := w.ensureRemoteAccess()
			if err != nil {
				return 0, err
			}
			return 0, w.change(ctx, func(g *nodegroupRecord) {
				r := *g.Nodegroup.Resources
				r.RemoteAccessSecurityGroup, g.Nodegroup.Resources = &id, &r
			})
		}
		if err := w.ensureInstanceProfile(); err != nil {
			return 0, err
		}
		id, err := s.launchTemplate(w.svc, w.cluster, g)
		if err != nil {
			return 0, err
		}
		// The record's change brings this function back.
		return 0, w.change(ctx, func(g *nodegroupRecord) { g.LaunchTemplateID = id })
	}
	if !g.ScalingGroupMade {
		if err := w.createScalingGroup(); err != nil {
			return 0, err
		}
		return 0, w.change(ctx, func(g *nodegroupRecord) { g.ScalingGroupMade = true })
	}
	asg, err := w.tend(ctx, ses)
	if errors.Is(err, errNoScalingGroup) {
		return 0, w.fail(ctx, w.noScalingGroup())
	}
	if err != nil {
		return 0, err
	}
	members := asg.staying
	desired := int(*g.Nodegroup.ScalingConfig.DesiredSize)
	waited := s.clock.Since(g.Since)
	unready := withoutNode(members, nodes, kube.NodeReady)
	joined := len(members) - len(unready)
	switch {
	case joined >= desired && waited >= s.cfg.Timing.NodegroupCreating:
		return steady, w.change(ctx, func(g *nodegroupRecord) {
			if g.Nodegroup.Status == ekstypes.NodegroupStatusCreating {
				g.Nodegroup.Status, g.Since = ekstypes.NodegroupStatusActive, s.clock.Now().UTC()
				g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
				g.Nodegroup.Health.Issues = []ekstypes.Issue{}
			}
		})
	case joined >= desired:
		return s.cfg.Timing.NodegroupCreating - waited, nil
	}
	left := s.timeout() - min(waited, s.clock.Since(lastJoin(members, nodes)))
	if left <= 0 {
		return 0, w.giveUp(ctx, asg, nodes)
	}
	if len(members) < desired { // the Auto Scaling group brings this function back
		return min(nodeWait, left), nil
	}
	w.await(ctx, nodes, unready, kube.NodeReady, min(nodeWait, left))
	return time.Millisecond, nil
}

// giveUp fails a CREATING group with all that is found wrong with it.
func (w *groupWork) giveUp(ctx context.Context, asg *scalingGroup, nodes *nodeWatch) error {
	issues, err := w.misconfigured(ctx, asg)
	if err != nil {
		return err
	}
	launch, err := w.launchIssue()
	if err != nil {
		return err
	}
	if launch != nil && len(asg.staying) < int(*w.g.Nodegroup.ScalingConfig.DesiredSize) {
		issues = append(issues, *launch)
	}
	never := withoutNode(asg.staying, nodes, anyNode)
	sick := slices.DeleteFunc(withoutNode(asg.staying, nodes, kube.NodeReady), func(m member) bool { return slices.Contains(never, m) })
	issues = append(issues, nodeIssues(never, sick)...)
	if len(issues) == 0 { // nothing was launched, and nobody says why
		issues = []ekstypes.Issue{notJoined(nil)}
	}
	return w.fail(ctx, issues...)
}

func (s *Service) timeout() time.Duration {
	return s.cfg.Timing.NodegroupTimeout
}

// createTrouble decides what an error means to a group being made: what the
// user has to repair is shown, and after the timeout it is final.
func (w *groupWork) createTrouble(ctx context.Context, cause error) (time.Duration, error) {
	found := nodegroupIssue(cause)
	if w.s.clock.Since(w.g.Since) < w.s.timeout() && !final(cause) {
		return 0, cause
	}
	if found == nil {
		found = new(issue(ekstypes.NodegroupIssueCodeInternalFailure, cause.Error()))
	}
	w.s.log.Warn("node group creation failed", "nodegroup", w.key.String(), "err", cause)
	return 0, w.fail(ctx, *found)
}

// final reports whether trying again cannot help.
func final(err error) bool {
	return errors.Is(err, errNotMIME) || strings.HasSuffix(code(err), ".NotFound") || strings.HasSuffix(code(err), ".Malformed") || code(err) == "NotImplemented"
}

func (w *groupWork) fail(ctx context.Context, issues ...ekstypes.Issue) error {
	return w.change(ctx, func(g *nodegroupRecord) {
		if g.Nodegroup.Status == ekstypes.NodegroupStatusCreating {
			g.Nodegroup.Status, g.Since = ekstypes.NodegroupStatusCreateFailed, w.s.clock.Now().UTC()
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: issues}
		}
	})
}

// keep holds an ACTIVE group at its size. What is wrong with it is shown as DEGRADED
// and goes away when it is mended.
func (w *groupWork) keep(ctx context.Context) (time.Duration, error) {
	ses, err := w.session(ctx)
	if errors.Is(err, errNoAnswer) {
		return steady, w.health(ctx, []ekstypes.Issue{errUnreachable(w.cluster.name())})
	}
	if err != nil {
		return 0, err
	}
	asg, err := w.tend(ctx, ses)
	if errors.Is(err, errNoScalingGroup) {
		return steady, w.health(ctx, []ekstypes.Issue{w.noScalingGroup()})
	}
	if err != nil {
		return 0, err
	}
	if err := w.follow(ctx, asg); err != nil {
		return 0, err
	}
	issues, err := w.misconfigured(ctx, asg)
	if err != nil {
		return 0, err
	}
	missing := withoutNode(asg.staying, ses.nodes(), kube.NodeReady)
	if err := w.noteMissing(ctx, missing); err != nil {
		return 0, err
	}
	serving := slices.DeleteFunc(slices.Clone(missing), func(m member) bool { return slices.Contains(asg.joining, m) })
	sick := slices.DeleteFunc(w.missingFor(serving, w.s.cfg.Timing.NodegroupUnhealthy), func(m member) bool {
		// A new node has the patience of one that is to join: its images are pulled.
		n := ses.nodes().node(m.id)
		return n != nil && w.s.clock.Since(n.CreationTimestamp.Time) < w.s.timeout()
	})
	issues = append(issues, nodeIssues(w.missingFor(asg.joining, w.s.timeout()), sick)...)
	if err := w.repair(asg, serving); err != nil {
		return 0, err
	}
	launching := len(asg.staying) < int(*asg.size.DesiredSize)
	if launching {
		launch, err := w.launchIssue()
		if err != nil {
			return 0, err
		}
		if launch != nil {
			issues = append(issues, *launch)
		}
	}
	// A launch under way mends nothing before it succeeds.
	if len(issues) > 0 || !launching {
		if err := w.health(ctx, issues); err != nil {
			return 0, err
		}
	}
	if len(asg.leaving)+len(missing) > 0 {
		return drainStep, nil
	}
	return steady, nil
}

// follow takes over a size that somebody gave the Auto Scaling group: the cluster
// autoscaler changes it there.
func (w *groupWork) follow(ctx context.Context, asg *scalingGroup) error {
	if jsonText(asg.size) == jsonText(*w.g.Nodegroup.ScalingConfig) {
		return nil
	}
	return w.change(ctx, func(g *nodegroupRecord) {
		if st := g.Nodegroup.Status; st == ekstypes.NodegroupStatusActive || st == ekstypes.NodegroupStatusDegraded {
			g.Nodegroup.ScalingConfig = &asg.size
		}
	})
}

// health writes the issues and the status they mean, if they differ.
func (w *groupWork) health(ctx context.Context, issues []ekstypes.Issue) error {
	status := ekstypes.NodegroupStatusDegraded
	if len(issues) == 0 {
		status, issues = ekstypes.NodegroupStatusActive, []ekstypes.Issue{}
	}
	if w.g.Nodegroup.Status == status && jsonText(w.g.Nodegroup.Health.Issues) == jsonText(issues) {
		return nil
	}
	return w.change(ctx, func(g *nodegroupRecord) {
		if st := g.Nodegroup.Status; st == ekstypes.NodegroupStatusActive || st == ekstypes.NodegroupStatusDegraded {
			g.Nodegroup.Status = status
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: issues}
		}
	})
}

// update finishes the update of an UPDATING group: new size under way, labels
// and taints on the nodes there are.
func (w *groupWork) update(ctx context.Context) (time.Duration, error) {
	ses, err := w.session(ctx)
	if err != nil {
		return 0, err
	}
	if w.g.Rollout != nil {
		return w.rollOut(ctx, ses)
	}
	marks, err := w.updatesMarks()
	if err != nil {
		return 0, err
	}
	if w.g.TemplateStale {
		version, err := w.s.newTemplateVersion(w.svc, w.cluster, w.g)
		if err != nil {
			return 0, err
		}
		// The record's change brings this function back.
		return 0, w.change(ctx, func(g *nodegroupRecord) { g.TemplateVersion, g.TemplateStale = version, false })
	}
	failure := w.updateScalingGroup()
	if failure != nil && nodegroupIssue(failure) == nil {
		return 0, failure
	}
	if failure == nil {
		asg, err := w.tend(ctx, ses)
		if err != nil {
			return 0, err
		}
		absent := withoutNode(asg.staying, ses.nodes(), anyNode)
		if err := w.relabel(ctx, ses, w.g, asg.staying); err != nil {
			return 0, err
		}
		left := joinWait - w.s.clock.Since(w.g.Since)
		if marks && left > 0 {
			switch {
			case len(absent) > 0:
				w.await(ctx, ses.nodes(), absent, anyNode, min(nodeWait, left))
				return time.Millisecond, nil
			case len(asg.staying) < int(*w.g.Nodegroup.ScalingConfig.DesiredSize):
				return drainStep, nil // one may be on its way with the old template
			}
		}
	}
	var detail *ekstypes.ErrorDetail
	if failure != nil {
		detail = &ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCodeNodeCreationFailure, ErrorMessage: new(message(failure)), ResourceIds: []string{}}
	}
	return steady, w.endUpdate(ctx, detail, func(g *nodegroupRecord) { g.RemovedLabels, g.RemovedTaints = nil, nil })
}

// updatesMarks reports whether the update in progress changes labels or taints.
func (w *groupWork) updatesMarks() (bool, error) {
	u, err := updates.Get(w.s.store, below(clusterOf(w.key), w.g.UpdateID))
	return slices.ContainsFunc(u.Update.Params, func(p ekstypes.UpdateParam) bool {
		switch p.Type {
		case ekstypes.UpdateParamTypeLabelsToAdd, ekstypes.UpdateParamTypeLabelsToRemove,
			ekstypes.UpdateParamTypeTaintsToAdd, ekstypes.UpdateParamTypeTaintsToRemove:
			return true
		}
		return false
	}), store.IgnoreNotFound(err)
}

// tend looks after the instances of the Auto Scaling group: those that have joined
// come into service, those that leave are drained and let go, and the nodes of those
// that are gone are removed. It returns errNoScalingGroup if there is no Auto Scaling
// group.
func (w *groupWork) tend(ctx context.Context, ses *session) (*scalingGroup, error) {
	asg, err := w.scalingGroup()
	if err != nil {
		return nil, err
	}
	if asg == nil {
		return nil, errNoScalingGroup
	}
	var joined []string
	absent := withoutNode(asg.joining, ses.nodes(), anyNode)
	for _, m := range asg.joining {
		if !slices.Contains(absent, m) {
			joined = append(joined, m.id)
		}
	}
	if len(joined) > 0 {
		if err := w.s.cfg.AutoScaling.CompleteLifecycleActions(w.svc, w.g.resourceName(), launchHook, hookContinue, joined); err != nil {
			return nil, fmt.Errorf("bringing instances into service: %w", err)
		}
	}
	if err := w.drainLeaving(ctx, ses, asg); err != nil {
		return nil, err
	}
	return asg, w.adopt(ctx, ses, asg)
}

// drainLeaving takes a step with every instance that is to leave, and lets those go
// whose node is empty, or out of time.
func (w *groupWork) drainLeaving(ctx context.Context, ses *session, asg *scalingGroup) error {
	if err := w.noteLeaving(ctx, asg); err != nil || len(asg.leaving) == 0 {
		return err
	}
	limit := w.s.cfg.Timing.NodeDrain
	if w.g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
		// Two pods of CoreDNS on the last node keep each other there: the disruption
		// budget lets one go, which finds no other node.
		limit = w.s.cfg.Timing.NodegroupDrain
	}
	var mu sync.Mutex
	var ended []string
	var errs []error
	var eg errgroup.Group
	eg.SetLimit(nodeWorkers)
	for _, m := range asg.leaving {
		eg.Go(func() error {
			done, err := true, error(nil)
			if n := ses.nodes().node(m.id); n != nil {
				done, err = drain(ctx, ses, n, false)
			}
			mu.Lock()
			defer mu.Unlock()
			since, known := w.g.Draining[m.id]
			switch {
			case done && err == nil, known && w.s.clock.Since(since) >= limit:
				ended = append(ended, m.id)
			case err != nil: // one node's trouble holds up no other
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = eg.Wait() // its functions return none
	if len(ended) == 0 {
		return errors.Join(errs...)
	}
	slices.Sort(ended)
	if err := w.s.cfg.AutoScaling.CompleteLifecycleActions(w.svc, w.g.resourceName(), terminateHook, hookContinue, ended); err != nil {
		return fmt.Errorf("letting instances go: %w", err)
	}
	return errors.Join(append(errs, w.deleteNodes(ctx, ses, ended))...)
}

// noteLeaving remembers since when instances drain, and forgets those that are gone.
func (w *groupWork) noteLeaving(ctx context.Context, asg *scalingGroup) error {
	same := len(w.g.Draining) == len(asg.leaving)
	for _, m := range asg.leaving {
		_, known := w.g.Draining[m.id]
		same = same && known
	}
	if same {
		return nil
	}
	now := w.s.clock.Now().UTC()
	return w.change(ctx, func(g *nodegroupRecord) {
		old := g.Draining
		g.Draining = map[string]time.Time{}
		for _, m := range asg.leaving {
			g.Draining[m.id] = now
			if since, known := old[m.id]; known {
				g.Draining[m.id] = since
			}
		}
	})
}

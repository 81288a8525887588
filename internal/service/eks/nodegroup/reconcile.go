package nodegroup

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

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// nodeWait is how long one reconciliation waits for changes of nodes.
	nodeWait = time.Second
	// joinWait is how long an update of labels or taints waits for instances that are booting with
	// the old ones.
	joinWait = 30 * time.Second
	// syncWait is how long one reconciliation waits for the initial list of nodes.
	syncWait = 10 * time.Second
	// steady is the interval between checks of a settled group, which find instances that ended by
	// themselves.
	steady = 5 * time.Second
	// drainStep is the interval between checks of a draining node.
	drainStep = 500 * time.Millisecond
	// nodeWorkers is how many nodes of a group are worked on at the same time.
	nodeWorkers = 16
)

// Reconciler brings node groups into the state that their records describe. It also runs when
// instances of their Auto Scaling groups change.
func (s *Service) Reconciler() reconcile.Config {
	return reconcile.Config{
		Name: "eks/nodegroup", Watcher: record.Nodegroups.Watch(s.Store, store.Scope{}), Reconcile: s.reconcile, Hold: s.Hold(), Workers: 64, Log: s.Log, Clock: s.Clock,
		Related: []reconcile.Related{{Watcher: s.AutoScaling.WatchMembers(store.Scope{}), Of: s.groupOfMember}},
	}
}

// groupOfMember returns the node group that owns a changed instance's Auto Scaling group.
func (s *Service) groupOfMember(changed store.Key) (store.Key, bool) {
	name := s.AutoScaling.MemberGroup(changed)
	if !strings.HasPrefix(name, "eks-") {
		return store.Key{}, false
	}
	all := record.Nodegroups.All(s.Store, store.Scope{Account: changed.Account, Region: changed.Region})
	i := slices.IndexFunc(all, func(g store.Item[record.Nodegroup]) bool { return g.Value.ResourceName() == name })
	if i < 0 {
		return store.Key{}, false
	}
	return all[i].Key, true
}

// reconcile brings one node group a step closer to the state in its record.
func (s *Service) reconcile(ctx context.Context, key store.Key) (time.Duration, error) {
	g, err := record.Nodegroups.Get(s.Store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	cluster, err := record.Clusters.Get(s.Store, key.Owner())
	if err != nil {
		return 0, store.IgnoreNotFound(err) // the cluster was reset
	}
	w := &work{s: s, key: key, g: &g, cluster: &cluster, svc: s.asService(ctx, key)}
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

// A work is one reconciliation of one node group.
type work struct {
	s       *Service
	key     store.Key
	g       *record.Nodegroup // shared: do not modify
	cluster *record.Cluster
	svc     context.Context //nolint:containedctx // the call EC2 and IAM are made with
}

// session connects to the cluster and waits until its nodes are known. Without them, the reconciler
// might terminate nodes that are not drained.
func (w *work) session(ctx context.Context) (*plane.Session, error) {
	ses, err := w.s.Sessions.Open(w.key.Owner(), w.cluster.Plane.ID)
	if err != nil {
		return nil, err
	}
	if w.g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting && w.s.Clock.Since(w.g.Since) >= w.s.Timing.NodeDrain {
		return ses, nil // an unreachable control plane must not block the deletion
	}
	select {
	case <-ses.Nodes().Synced:
		return ses, nil
	case <-w.s.Clock.After(syncWait):
		return nil, plane.ErrNoAnswer
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change updates the group's record, unless the group was deleted or replaced by another one of the
// same name.
func (w *work) change(ctx context.Context, fn func(*record.Nodegroup)) error {
	return store.IgnoreNotFound(record.Nodegroups.UpdateOne(ctx, w.s.Store, w.key, func(g *record.Nodegroup) error {
		if g.UUID == w.g.UUID {
			fn(g)
		}
		return nil
	}))
}

// create does whatever a CREATING group still needs.
func (w *work) create(ctx context.Context) (time.Duration, error) {
	g, s := w.g, w.s
	ses, err := w.session(ctx)
	if err != nil {
		return 0, err
	}
	nodes := ses.Nodes()
	if g.LaunchTemplateID == "" {
		if !w.cluster.UsesAPI() {
			if err := access.MapNodeRole(ctx, ses, g.Role.ARN, access.TypeEC2Linux); err != nil {
				return 0, err
			}
		}
		for _, check := range []func() (*ekstypes.Issue, error){w.publicAddressIssue, w.address6Issue} {
			if found, err := check(); err != nil {
				return 0, err
			} else if found != nil {
				return 0, w.fail(ctx, *found)
			}
		}
		if g.Nodegroup.RemoteAccess != nil && g.Nodegroup.Resources.RemoteAccessSecurityGroup == nil {
			id, err := w.ensureRemoteAccess()
			if err != nil {
				return 0, err
			}
			return 0, w.change(ctx, func(g *record.Nodegroup) {
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
		// The change of the record triggers the next reconciliation.
		return 0, w.change(ctx, func(g *record.Nodegroup) { g.LaunchTemplateID = id })
	}
	if !g.ScalingGroupMade {
		if err := w.createScalingGroup(); err != nil {
			return 0, err
		}
		return 0, w.change(ctx, func(g *record.Nodegroup) { g.ScalingGroupMade = true })
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
	waited := s.Clock.Since(g.Since)
	unready := withoutNode(members, nodes, kube.NodeReady)
	joined := len(members) - len(unready)
	switch {
	case joined >= desired && waited >= s.Timing.NodegroupCreating:
		return steady, w.change(ctx, func(g *record.Nodegroup) {
			if g.Nodegroup.Status == ekstypes.NodegroupStatusCreating {
				g.Nodegroup.Status, g.Since = ekstypes.NodegroupStatusActive, s.Clock.Now().UTC()
				g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
				g.Nodegroup.Health.Issues = []ekstypes.Issue{}
			}
		})
	case joined >= desired:
		return s.Timing.NodegroupCreating - waited, nil
	}
	left := s.timeout() - min(waited, s.Clock.Since(lastJoin(members, nodes)))
	if left <= 0 {
		return 0, w.giveUp(ctx, asg, nodes)
	}
	if len(members) < desired { // the Auto Scaling group's change triggers the next reconciliation
		return min(nodeWait, left), nil
	}
	w.await(ctx, nodes, unready, kube.NodeReady, min(nodeWait, left))
	return time.Millisecond, nil
}

// giveUp makes a CREATING group CREATE_FAILED, with all issues that can be found.
func (w *work) giveUp(ctx context.Context, asg *scalingGroup, nodes *plane.Nodes) error {
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
	if len(issues) == 0 { // nothing was launched, for an unknown reason
		issues = []ekstypes.Issue{notJoined(nil)}
	}
	return w.fail(ctx, issues...)
}

func (s *Service) timeout() time.Duration {
	return s.Timing.NodegroupTimeout
}

// createTrouble handles an error during creation. It retries until the timeout, unless the error is
// final, and then fails the group with an issue. What is not about the group says nothing about its
// nodes, such as a control plane that does not answer yet after a crash: it has as much time again.
func (w *work) createTrouble(ctx context.Context, cause error) (time.Duration, error) {
	found, limit := issueOf(cause), w.s.timeout()
	if found == nil {
		limit *= 2
	}
	if w.s.Clock.Since(w.g.Since) < limit && !final(cause) {
		return 0, cause
	}
	if errors.Is(cause, plane.ErrNoAnswer) {
		found = new(errUnreachable(w.cluster.Name()))
	}
	if found == nil {
		found = new(issue(ekstypes.NodegroupIssueCodeInternalFailure, cause.Error()))
	}
	w.s.Log.Warn("node group creation failed", "nodegroup", w.key.String(), "err", cause)
	return 0, w.fail(ctx, *found)
}

// final reports whether retrying cannot help.
func final(err error) bool {
	return errors.Is(err, errNotMIME) || strings.HasSuffix(awserr.CodeOf(err), ".NotFound") || strings.HasSuffix(awserr.CodeOf(err), ".Malformed") || awserr.CodeOf(err) == "NotImplemented"
}

func (w *work) fail(ctx context.Context, issues ...ekstypes.Issue) error {
	return w.change(ctx, func(g *record.Nodegroup) {
		if g.Nodegroup.Status == ekstypes.NodegroupStatusCreating {
			g.Nodegroup.Status, g.Since = ekstypes.NodegroupStatusCreateFailed, w.s.Clock.Now().UTC()
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: issues}
		}
	})
}

// keep maintains an ACTIVE or DEGRADED group. The group is DEGRADED as long as it has issues.
func (w *work) keep(ctx context.Context) (time.Duration, error) {
	ses, err := w.session(ctx)
	if errors.Is(err, plane.ErrNoAnswer) {
		return steady, w.health(ctx, []ekstypes.Issue{errUnreachable(w.cluster.Name())})
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
	missing := withoutNode(asg.staying, ses.Nodes(), kube.NodeReady)
	if err := w.noteMissing(ctx, missing); err != nil {
		return 0, err
	}
	serving := slices.DeleteFunc(slices.Clone(missing), func(m member) bool { return slices.Contains(asg.joining, m) })
	sick := slices.DeleteFunc(w.missingFor(serving, w.s.Timing.NodegroupUnhealthy), func(m member) bool {
		// A new node gets as much time as an instance that is still joining, because its images are
		// being pulled.
		n := ses.Nodes().OfInstance(m.id)
		return n != nil && w.s.Clock.Since(n.CreationTimestamp.Time) < w.s.timeout()
	})
	issues = append(issues, nodeIssues(w.missingFor(asg.joining, w.s.timeout()), sick)...)
	if err := w.repair(ctx, ses.Nodes(), asg); err != nil {
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
	// The issue stays during another launch until one succeeds.
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

// follow adopts a size that was set on the Auto Scaling group, as the cluster autoscaler does.
func (w *work) follow(ctx context.Context, asg *scalingGroup) error {
	if base.JSON(asg.size) == base.JSON(*w.g.Nodegroup.ScalingConfig) {
		return nil
	}
	return w.change(ctx, func(g *record.Nodegroup) {
		if st := g.Nodegroup.Status; st == ekstypes.NodegroupStatusActive || st == ekstypes.NodegroupStatusDegraded {
			g.Nodegroup.ScalingConfig = &asg.size
		}
	})
}

// health records the issues and the resulting status if they changed.
func (w *work) health(ctx context.Context, issues []ekstypes.Issue) error {
	status := ekstypes.NodegroupStatusDegraded
	if len(issues) == 0 {
		status, issues = ekstypes.NodegroupStatusActive, []ekstypes.Issue{}
	}
	if w.g.Nodegroup.Status == status && base.JSON(w.g.Nodegroup.Health.Issues) == base.JSON(issues) {
		return nil
	}
	return w.change(ctx, func(g *record.Nodegroup) {
		if st := g.Nodegroup.Status; st == ekstypes.NodegroupStatusActive || st == ekstypes.NodegroupStatusDegraded {
			g.Nodegroup.Status = status
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: issues}
		}
	})
}

// update completes the update of an UPDATING group: it sets the new size, and puts new labels and
// taints on existing nodes.
func (w *work) update(ctx context.Context) (time.Duration, error) {
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
		// The change of the record triggers the next reconciliation.
		return 0, w.change(ctx, func(g *record.Nodegroup) { g.TemplateVersion, g.TemplateStale = version, false })
	}
	failure := w.updateScalingGroup()
	if failure != nil && issueOf(failure) == nil {
		return 0, failure
	}
	if failure == nil {
		asg, err := w.tend(ctx, ses)
		if err != nil {
			return 0, err
		}
		absent := withoutNode(asg.staying, ses.Nodes(), anyNode)
		if err := w.relabel(ctx, ses, w.g, asg.staying); err != nil {
			return 0, err
		}
		left := joinWait - w.s.Clock.Since(w.g.Since)
		if marks && left > 0 {
			switch {
			case len(absent) > 0:
				w.await(ctx, ses.Nodes(), absent, anyNode, min(nodeWait, left))
				return time.Millisecond, nil
			case len(asg.staying) < int(*w.g.Nodegroup.ScalingConfig.DesiredSize):
				return drainStep, nil // an instance with the old template may still be coming
			}
		}
	}
	var detail *ekstypes.ErrorDetail
	if failure != nil {
		detail = &ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCodeNodeCreationFailure, ErrorMessage: new(awserr.TextOf(failure)), ResourceIds: []string{}}
	}
	return steady, w.endUpdate(ctx, detail, func(g *record.Nodegroup) { g.RemovedLabels, g.RemovedTaints = nil, nil })
}

// updatesMarks reports whether the update in progress changes labels or taints.
func (w *work) updatesMarks() (bool, error) {
	u, err := record.Updates.Get(w.s.Store, w.key.Owner().Below(w.g.UpdateID))
	return slices.ContainsFunc(u.Update.Params, func(p ekstypes.UpdateParam) bool {
		switch p.Type {
		case ekstypes.UpdateParamTypeLabelsToAdd, ekstypes.UpdateParamTypeLabelsToRemove,
			ekstypes.UpdateParamTypeTaintsToAdd, ekstypes.UpdateParamTypeTaintsToRemove:
			return true
		}
		return false
	}), store.IgnoreNotFound(err)
}

// tend looks after the instances of the Auto Scaling group. It brings those that have joined into
// service, drains and releases those that are leaving, and removes the nodes of those that are
// gone. It returns errNoScalingGroup if there is no Auto Scaling group.
func (w *work) tend(ctx context.Context, ses *plane.Session) (*scalingGroup, error) {
	asg, err := w.scalingGroup()
	if err != nil {
		return nil, err
	}
	if asg == nil {
		return nil, errNoScalingGroup
	}
	var joined []string
	absent := withoutNode(asg.joining, ses.Nodes(), anyNode)
	for _, m := range asg.joining {
		if !slices.Contains(absent, m) {
			joined = append(joined, m.id)
		}
	}
	if len(joined) > 0 {
		if err := w.s.AutoScaling.CompleteLifecycleActions(w.svc, w.g.ResourceName(), launchHook, hookContinue, joined); err != nil {
			return nil, fmt.Errorf("bringing instances into service: %w", err)
		}
	}
	if err := w.drainLeaving(ctx, ses, asg); err != nil {
		return nil, err
	}
	return asg, w.adopt(ctx, ses, asg)
}

// drainLeaving drains the instances that are leaving, one step each, and releases those whose node
// is empty or has run out of time.
func (w *work) drainLeaving(ctx context.Context, ses *plane.Session, asg *scalingGroup) error {
	if err := w.noteLeaving(ctx, asg); err != nil || len(asg.leaving) == 0 {
		return err
	}
	limit := w.s.Timing.NodeDrain
	if w.g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
		// The last node would never be empty because of CoreDNS: its disruption budget evicts one
		// of the two pods, which stays Pending, and then protects the other.
		limit = w.s.Timing.NodegroupDrain
	}
	var mu sync.Mutex
	var ended []string
	var errs []error
	var eg errgroup.Group
	eg.SetLimit(nodeWorkers)
	for _, m := range asg.leaving {
		eg.Go(func() error {
			done, err := true, error(nil)
			if n := ses.Nodes().OfInstance(m.id); n != nil {
				done, err = drain(ctx, ses, n, false)
			}
			mu.Lock()
			defer mu.Unlock()
			since, known := w.g.Draining[m.id]
			switch {
			case done && err == nil, known && w.s.Clock.Since(since) >= limit:
				ended = append(ended, m.id)
			case err != nil: // one node's error does not hold up the others
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = eg.Wait() // its functions return nil
	if len(ended) == 0 {
		return errors.Join(errs...)
	}
	slices.Sort(ended)
	if err := w.s.AutoScaling.CompleteLifecycleActions(w.svc, w.g.ResourceName(), terminateHook, hookContinue, ended); err != nil {
		return fmt.Errorf("releasing instances: %w", err)
	}
	return errors.Join(append(errs, w.deleteNodes(ctx, ses, ended))...)
}

// noteLeaving records since when instances have been draining, and removes those that are gone.
func (w *work) noteLeaving(ctx context.Context, asg *scalingGroup) error {
	return w.noteSince(ctx, asg.leaving, func(g *record.Nodegroup) *map[string]time.Time { return &g.Draining })
}

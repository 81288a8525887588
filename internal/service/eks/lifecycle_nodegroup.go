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

// reconcileNodegroup brings one node group a step nearer to what its record says.
func (s *Service) reconcileNodegroup(ctx context.Context, key store.Key) (time.Duration, error) {
	g, err := nodegroups.Get(s.store, key)
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	cluster, err := clusters.Get(s.store, clusterOf(key))
	if err != nil {
		return 0, ignoreNotFound(err) // reset; nothing to do it with
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
	if w.g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting && w.s.clock.Since(w.g.Since) >= drainLimit {
		return ses, nil // out of patience with a dead control plane
	}
	select {
	case <-ses.nodes().synced:
		return ses, nil
	case <-w.s.clock.After(syncWait):
		return nil, errors.New("the control plane does not answer")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change changes the record of this life of the group while it has the status.
func (w *groupWork) change(ctx context.Context, fn func(*nodegroupRecord)) error {
	return ignoreNotFound(nodegroups.UpdateOne(ctx, w.s.store, w.key, func(g *nodegroupRecord) error {
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
			if err := s.mapNodeRole(ctx, ses, g.Role.ARN); err != nil {
				return 0, err
			}
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
	if err != nil {
		return 0, err
	}
	members := asg.staying
	desired := int(*g.Nodegroup.ScalingConfig.DesiredSize)
	waited := s.clock.Since(g.Since)
	unready := withoutNode(members, nodes, ready)
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
	case waited >= s.timeout():
		issue, err := w.launchIssue()
		if err != nil {
			return 0, err
		}
		if issue == nil || len(members) >= desired {
			issue = &ekstypes.Issue{
				Code: ekstypes.NodegroupIssueCodeNodeCreationFailure, Message: new("Instances failed to join the kubernetes cluster"),
				ResourceIds: memberIDs(unready),
			}
		}
		return 0, w.fail(ctx, *issue)
	}
	if len(members) < desired { // the Auto Scaling group brings this function back
		return min(nodeWait, s.timeout()-waited), nil
	}
	w.await(ctx, nodes, unready, ready, min(nodeWait, s.timeout()-waited))
	return time.Millisecond, nil
}

func (s *Service) timeout() time.Duration {
	if t := s.cfg.Timing.NodegroupTimeout; t > 0 {
		return t
	}
	return 2 * time.Minute
}

// createTrouble decides what an error means to a group being made: what the
// user has to repair is shown, and after the timeout it is final.
func (w *groupWork) createTrouble(ctx context.Context, cause error) (time.Duration, error) {
	issue := nodegroupIssue(cause)
	if w.s.clock.Since(w.g.Since) < w.s.timeout() && !final(cause) {
		return 0, cause
	}
	if issue == nil {
		issue = &ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeInternalFailure, Message: new(cause.Error()), ResourceIds: []string{}}
	}
	w.s.log.Warn("node group creation failed", "nodegroup", w.key.String(), "err", cause)
	return 0, w.fail(ctx, *issue)
}

// final reports whether trying again cannot help.
func final(err error) bool {
	return errors.Is(err, errNotMIME) || strings.HasSuffix(code(err), ".NotFound") || strings.HasSuffix(code(err), ".Malformed") || code(err) == "NotImplemented"
}

func (w *groupWork) fail(ctx context.Context, issue ekstypes.Issue) error {
	return w.change(ctx, func(g *nodegroupRecord) {
		if g.Nodegroup.Status == ekstypes.NodegroupStatusCreating {
			g.Nodegroup.Status, g.Since = ekstypes.NodegroupStatusCreateFailed, w.s.clock.Now().UTC()
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{issue}}
		}
	})
}

// nodegroupIssue returns the issue of an error of EC2 or IAM, nil for others.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html
func nodegroupIssue(err error) *ekstypes.Issue {
	issue := func(c ekstypes.NodegroupIssueCode) *ekstypes.Issue {
		return &ekstypes.Issue{Code: c, Message: new(message(err)), ResourceIds: []string{}}
	}
	switch c := code(err); {
	case errors.Is(err, errNotMIME):
		return &ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration, Message: new(errNotMIME.Error()), ResourceIds: []string{}}
	case c == "":
		return nil
	case c == "ValidationError" && strings.HasPrefix(message(err), "The subnet ID"): // Auto Scaling's refusals have one code
		return issue(ekstypes.NodegroupIssueCodeEc2SubnetNotFound)
	default:
		return issue(issueCode(c))
	}
}

// issueCode is EKS's code for one of EC2 or IAM.
func issueCode(c string) ekstypes.NodegroupIssueCode {
	switch {
	case strings.HasPrefix(c, "InvalidSubnet"):
		return ekstypes.NodegroupIssueCodeEc2SubnetNotFound
	case strings.HasPrefix(c, "InvalidGroup"):
		return ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound
	case strings.HasPrefix(c, "InvalidAMIID"):
		return ekstypes.NodegroupIssueCodeAmiIdNotFound
	case strings.HasPrefix(c, "InvalidLaunchTemplate"):
		return ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound
	case c == "InsufficientFreeAddressesInSubnet":
		return ekstypes.NodegroupIssueCodeInsufficientFreeAddresses
	case c == "InstanceLimitExceeded", c == "VcpuLimitExceeded":
		return ekstypes.NodegroupIssueCodeInstanceLimitExceeded
	case c == "NoSuchEntity", c == "NoSuchEntityException":
		return ekstypes.NodegroupIssueCodeIamNodeRoleNotFound
	}
	return ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures
}

// message is an AWS error's own text.
func message(err error) string {
	var api interface{ ErrorMessage() string }
	if errors.As(err, &api) {
		return api.ErrorMessage()
	}
	return err.Error()
}

// keep holds an ACTIVE group at its size. What goes wrong with launching is
// shown as DEGRADED and goes away by itself.
func (w *groupWork) keep(ctx context.Context) (time.Duration, error) {
	ses, err := w.session(ctx)
	if err != nil {
		return 0, err
	}
	asg, err := w.tend(ctx, ses)
	if err != nil {
		return 0, err
	}
	if asg == nil {
		return steady, w.health(ctx, ekstypes.NodegroupStatusDegraded, []ekstypes.Issue{{
			Code: ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound, ResourceIds: []string{w.g.resourceName()},
			Message: new("We couldn't find the Auto Scaling group associated with the managed node group. You may be able to recreate an Auto Scaling group with the same settings to recover."),
		}})
	}
	if err := w.follow(ctx, asg); err != nil {
		return 0, err
	}
	if len(asg.staying) < int(*asg.size.DesiredSize) {
		issue, err := w.launchIssue()
		if err != nil {
			return 0, err
		}
		if issue != nil {
			return steady, w.health(ctx, ekstypes.NodegroupStatusDegraded, []ekstypes.Issue{*issue})
		}
	} else if err := w.health(ctx, ekstypes.NodegroupStatusActive, []ekstypes.Issue{}); err != nil {
		return 0, err
	}
	if len(asg.leaving)+len(asg.joining) > 0 {
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

// health writes status and issues if they differ.
func (w *groupWork) health(ctx context.Context, status ekstypes.NodegroupStatus, issues []ekstypes.Issue) error {
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
		if asg == nil {
			return 0, errors.New("the Auto Scaling group is gone")
		}
		absent := withoutNode(asg.staying, ses.nodes(), anyNode)
		if err := w.relabel(ctx, ses, asg.staying); err != nil {
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
	return steady, ignoreNotFound(w.s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := nodegroups.Get(tx, w.key)
		if err != nil || g.UUID != w.g.UUID || g.UpdateID != w.g.UpdateID {
			return err
		}
		if err := updates.Update(tx, below(clusterOf(w.key), g.UpdateID), func(u *updateRecord) error {
			u.Update.Status = ekstypes.UpdateStatusSuccessful
			if failure != nil {
				u.Update.Status = ekstypes.UpdateStatusFailed
				u.Update.Errors = []ekstypes.ErrorDetail{{ErrorCode: ekstypes.ErrorCodeNodeCreationFailure, ErrorMessage: new(message(failure)), ResourceIds: []string{}}}
			}
			return nil
		}); ignoreNotFound(err) != nil {
			return err
		}
		return nodegroups.Update(tx, w.key, func(g *nodegroupRecord) error {
			g.Nodegroup.Status, g.Since, g.UpdateID = ekstypes.NodegroupStatusActive, w.s.clock.Now().UTC(), ""
			g.RemovedLabels, g.RemovedTaints = nil, nil
			return nil
		})
	}))
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
	}), ignoreNotFound(err)
}

// tend looks after the instances of the Auto Scaling group: those that have joined
// come into service, those that leave are drained and let go, and the nodes of those
// that are gone are removed. It returns nil if there is no Auto Scaling group.
func (w *groupWork) tend(ctx context.Context, ses *session) (*scalingGroup, error) {
	asg, err := w.scalingGroup()
	if err != nil || asg == nil {
		return nil, err
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
	var mu sync.Mutex
	var ended []string
	var errs []error
	var eg errgroup.Group
	eg.SetLimit(nodeWorkers)
	for _, m := range asg.leaving {
		eg.Go(func() error {
			done, err := true, error(nil)
			if n := ses.nodes().node(m.id); n != nil {
				done, err = drain(ctx, ses, n)
			}
			mu.Lock()
			defer mu.Unlock()
			since, known := w.g.Draining[m.id]
			switch {
			case done && err == nil, known && w.s.clock.Since(since) >= drainLimit:
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

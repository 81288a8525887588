package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// excludeLabel takes a node out of load balancers before it terminates.
const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

// rollOut takes one step of replacing a group's nodes. It launches new nodes, then drains and
// terminates old ones, as many at once as the update configuration allows, then restores the size.
// Each step depends only on the state found.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
func (w *work) rollOut(ctx context.Context, ses *plane.Session) (time.Duration, error) {
	r := w.g.Rollout
	if r.TemplateVersion == "" {
		return 0, w.beginRollout(ctx)
	}
	asg, err := w.tend(ctx, ses)
	if errors.Is(err, errNoScalingGroup) { // nothing to roll back; the update fails with its first error
		failure := r.Failure
		if failure == nil {
			failure = &ekstypes.ErrorDetail{
				ErrorCode: ekstypes.ErrorCodeNodeCreationFailure, ErrorMessage: new(err.Error()), ResourceIds: []string{w.g.ResourceName()},
			}
		}
		return steady, w.endRollout(ctx, failure)
	}
	if err != nil {
		return 0, err
	}
	if r.Failure != nil {
		return w.turnBack(ctx, ses, asg)
	}
	old, fresh := asg.generations(r.TemplateVersion)
	oldLeaving := slices.ContainsFunc(asg.leaving, func(m member) bool { return asg.versions[m.id] != r.TemplateVersion })
	size := r.Size
	if surge := w.surge(asg); len(old) > 0 && surge > 0 {
		size.DesiredSize, size.MaxSize = new(*size.DesiredSize+surge), new(*size.MaxSize+surge)
	}
	if len(old) > 0 || !oldLeaving {
		if again, err := w.resize(asg, w.g.Target(), size); again || err != nil {
			return drainStep, err
		}
	}
	unready := withoutNode(fresh, ses.Nodes(), kube.NodeReady)
	short := int(*size.DesiredSize) - len(old) - (len(fresh) - len(unready))
	if (short > 0) == r.ShortSince.IsZero() {
		return drainStep, w.changeRollout(ctx, func(r *record.Rollout) {
			r.ShortSince = time.Time{}
			if short > 0 {
				r.ShortSince = w.s.Clock.Now().UTC()
			}
		})
	}
	if short > 0 {
		left := w.s.timeout() - min(w.s.Clock.Since(r.ShortSince), w.s.Clock.Since(lastJoin(fresh, ses.Nodes())))
		if left <= 0 {
			return 0, w.failRollout(ctx, ekstypes.ErrorCodeNodeCreationFailure, // [seen] kubernetes/autoscaler#5264
				"Couldn't proceed with upgrade process as new nodes are not joining node group "+*w.g.Nodegroup.NodegroupName, nil)
		}
		if !w.minimal() || len(old) == 0 {
			w.await(ctx, ses.Nodes(), unready, kube.NodeReady, min(drainStep, left))
			return drainStep, nil
		}
	}
	if len(old) == 0 {
		if oldLeaving || len(asg.staying) != int(*r.Size.DesiredSize) {
			return drainStep, nil
		}
		return steady, w.endRollout(ctx, nil)
	}
	return w.retire(ctx, ses, asg, old, max(short, 0))
}

// generations splits the staying members into those launched from the given version and older ones.
func (a *scalingGroup) generations(version string) (old, fresh []member) {
	for _, m := range a.staying {
		if a.versions[m.id] == version {
			fresh = append(fresh, m)
		} else {
			old = append(old, m)
		}
	}
	return old, fresh
}

func (w *work) minimal() bool {
	c := w.g.Nodegroup.UpdateConfig
	return c != nil && c.UpdateStrategy == ekstypes.NodegroupUpdateStrategiesMinimal
}

// surge is how many extra nodes a rollout launches.
func (w *work) surge(asg *scalingGroup) int32 {
	if w.minimal() {
		return 0
	}
	return int32(max(2*asg.zones, w.parallel())) //nolint:gosec // at most 100
}

// parallel is how many nodes may be unavailable at once.
func (w *work) parallel() int {
	c, n := w.g.Nodegroup.UpdateConfig, int(*w.g.Rollout.Size.DesiredSize)
	switch {
	case c == nil:
		return 1
	case c.MaxUnavailablePercentage != nil:
		return min(100, max(1, n*int(*c.MaxUnavailablePercentage)/100))
	case c.MaxUnavailable != nil:
		return int(*c.MaxUnavailable)
	}
	return 1
}

// beginRollout creates the launch template version for new nodes. If image and template are
// unchanged, it uses the current version.
func (w *work) beginRollout(ctx context.Context) error {
	version := w.g.LaunchVersion()
	if r := w.g.Rollout; r.ImageID != w.g.ImageID || base.JSON(r.LaunchTemplate) != base.JSON(w.g.Nodegroup.LaunchTemplate) {
		var err error
		version, err = w.s.newTemplateVersion(w.svc, w.cluster, w.g.Target())
		if found := issueOf(err); err != nil && found != nil {
			return w.endRollout(ctx, &ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCodeUnknown, ErrorMessage: found.Message, ResourceIds: []string{w.g.LaunchTemplateID}})
		}
		if err != nil {
			return err
		}
	}
	return w.change(ctx, func(g *record.Nodegroup) {
		if g.Rollout != nil {
			r := *g.Rollout
			r.TemplateVersion, g.Rollout = version, &r
		}
	})
}

// resize gives the Auto Scaling group a size and a record's launch template version. again reports
// whether it had to change anything.
func (w *work) resize(asg *scalingGroup, rec *record.Nodegroup, size ekstypes.NodegroupScalingConfig) (again bool, err error) {
	if base.JSON(asg.size) == base.JSON(size) && asg.template.version == rec.LaunchVersion() {
		return false, nil
	}
	sized := *rec
	sized.Nodegroup.ScalingConfig = &size
	return true, (&work{s: w.s, g: &sized, svc: w.svc}).updateScalingGroup()
}

// retire drains and terminates old nodes, as many at once as allowed. short is how many nodes are
// already unavailable. An old instance counts until it is terminated, because the minimal strategy is for
// groups without capacity for many more.
func (w *work) retire(ctx context.Context, ses *plane.Session, asg *scalingGroup, old []member, short int) (time.Duration, error) {
	r := w.g.Rollout
	for _, m := range old { // pods must not move from one old node to another
		if err := markRetiring(ctx, ses, ses.Nodes().OfInstance(m.id)); err != nil {
			return 0, err
		}
	}
	evicting := map[string]time.Time{}
	for _, m := range old {
		if since, ok := r.Evicting[m.id]; ok {
			evicting[m.id] = since
		}
	}
	ids := memberIDs(old)
	for _, id := range ids {
		if _, on := evicting[id]; !on && len(evicting)+max(short, len(asg.leaving)+asg.ending) < w.parallel() {
			evicting[id] = w.s.Clock.Now().UTC()
		}
	}
	if !maps.Equal(evicting, r.Evicting) {
		return drainStep, w.changeRollout(ctx, func(r *record.Rollout) { r.Evicting = evicting })
	}
	for _, id := range slices.Sorted(maps.Keys(evicting)) {
		done := true
		if n := ses.Nodes().OfInstance(id); n != nil {
			var err error
			if done, err = drain(ctx, ses, n, r.Force); err != nil {
				return 0, err
			}
		}
		switch {
		case done:
			if err := w.terminate(id, false); err != nil {
				return 0, err
			}
		case w.s.Clock.Since(evicting[id]) >= w.s.Timing.NodeDrain: // [seen] aws/containers-roadmap#1282
			return 0, w.failRollout(ctx, ekstypes.ErrorCodePodEvictionFailure,
				"Reached max retries while trying to evict pods from nodes in node group "+*w.g.Nodegroup.NodegroupName, []string{nodeName(ses, id)})
		}
	}
	return drainStep, nil
}

func nodeName(ses *plane.Session, instanceID string) string {
	if n := ses.Nodes().OfInstance(instanceID); n != nil {
		return n.Name
	}
	return instanceID
}

// terminate terminates an instance of the Auto Scaling group. With shrink, the group does not
// replace it.
func (w *work) terminate(instanceID string, shrink bool) error {
	_, err := w.s.AutoScaling.TerminateInstanceInAutoScalingGroup(w.svc, &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &instanceID, ShouldDecrementDesiredCapacity: &shrink,
	})
	if awserr.CodeOf(err) == "ValidationError" && strings.HasPrefix(awserr.TextOf(err), "Instance Id not found") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("terminating %s: %w", instanceID, err)
	}
	return nil
}

// markRetiring cordons a node that will be replaced and takes it out of load balancers.
func markRetiring(ctx context.Context, ses *plane.Session, n *corev1.Node) error {
	if n == nil || n.Spec.Unschedulable && n.Labels[excludeLabel] != "" {
		return nil
	}
	return retiring(ctx, ses, n, `"true"`, "true", "cordoning")
}

// unmarkRetiring undoes markRetiring.
func unmarkRetiring(ctx context.Context, ses *plane.Session, n *corev1.Node) error {
	if n == nil || !n.Spec.Unschedulable && n.Labels[excludeLabel] == "" {
		return nil
	}
	return retiring(ctx, ses, n, "null", "null", "uncordoning")
}

func retiring(ctx context.Context, ses *plane.Session, n *corev1.Node, label, unschedulable, doing string) error {
	patch := []byte(`{"metadata":{"labels":{"` + excludeLabel + `":` + label + `}},"spec":{"unschedulable":` + unschedulable + `}}`)
	_, err := ses.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s: %w", doing, n.Name, err)
	}
	return nil
}

// turnBack rolls back a failed rollout: it terminates surplus new nodes and restores the launch
// template. As on AWS, the node that could not be drained stays cordoned.
func (w *work) turnBack(ctx context.Context, ses *plane.Session, asg *scalingGroup) (time.Duration, error) {
	r := w.g.Rollout
	old, fresh := asg.generations(r.TemplateVersion)
	for _, m := range old {
		if _, stuck := r.Evicting[m.id]; stuck {
			continue
		}
		if err := unmarkRetiring(ctx, ses, ses.Nodes().OfInstance(m.id)); err != nil {
			return 0, err
		}
	}
	surplus := len(asg.staying) - int(*r.Size.DesiredSize)
	before := r.Size
	before.DesiredSize, before.MaxSize = new(max(*r.Size.DesiredSize, int32(len(asg.staying)))), new(max(*r.Size.MaxSize, int32(len(asg.staying)))) //nolint:gosec // a group's size
	if again, err := w.resize(asg, w.g, before); again || err != nil {
		return drainStep, err
	}
	if surplus > 0 {
		ids := memberIDs(fresh)
		for _, id := range ids[:min(surplus, len(ids))] {
			if err := w.terminate(id, true); err != nil {
				return 0, err
			}
		}
		if len(ids) > 0 {
			return drainStep, nil
		}
	}
	if again, err := w.resize(asg, w.g, r.Size); again || err != nil {
		return drainStep, err
	}
	return steady, w.endRollout(ctx, r.Failure)
}

func (w *work) changeRollout(ctx context.Context, fn func(*record.Rollout)) error {
	return w.change(ctx, func(g *record.Nodegroup) {
		if g.Rollout != nil && g.UpdateID == w.g.UpdateID {
			r := *g.Rollout
			fn(&r)
			g.Rollout = &r
		}
	})
}

func (w *work) failRollout(ctx context.Context, code ekstypes.ErrorCode, message string, resources []string) error {
	if resources == nil {
		resources = []string{}
	}
	return w.changeRollout(ctx, func(r *record.Rollout) {
		if r.Failure == nil {
			r.Failure = &ekstypes.ErrorDetail{ErrorCode: code, ErrorMessage: &message, ResourceIds: resources}
		}
	})
}

// endRollout completes the update. If it succeeded, the group gets the rollout's image and
// template.
func (w *work) endRollout(ctx context.Context, failure *ekstypes.ErrorDetail) error {
	return w.endUpdate(ctx, failure, func(g *record.Nodegroup) {
		if g.Rollout != nil && failure == nil {
			*g = *g.Target()
		}
		g.Rollout = nil
	})
}

// endUpdate ends the update in progress and makes the group ACTIVE.
func (w *work) endUpdate(ctx context.Context, failure *ekstypes.ErrorDetail, fn func(*record.Nodegroup)) error {
	return store.IgnoreNotFound(w.s.Store.Update(ctx, func(tx *store.Tx) error {
		g, err := record.Nodegroups.Get(tx, w.key)
		if err != nil || g.UUID != w.g.UUID || g.UpdateID != w.g.UpdateID {
			return err
		}
		if err := record.Updates.Update(tx, w.key.Owner().Below(g.UpdateID), func(u *record.Update) error {
			u.Update.Status = ekstypes.UpdateStatusSuccessful
			if failure != nil {
				u.Update.Status, u.Update.Errors = ekstypes.UpdateStatusFailed, []ekstypes.ErrorDetail{*failure}
			}
			return nil
		}); store.IgnoreNotFound(err) != nil {
			return err
		}
		return record.Nodegroups.Update(tx, w.key, func(g *record.Nodegroup) error {
			g.Nodegroup.Status, g.Since, g.UpdateID = ekstypes.NodegroupStatusActive, w.s.Clock.Now().UTC(), ""
			fn(g)
			return nil
		})
	}))
}

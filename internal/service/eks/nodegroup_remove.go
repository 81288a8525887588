package eks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/store"
)

// remove drains and ends everything of a DELETING group and then its record.
func (w *groupWork) remove(ctx context.Context) (time.Duration, error) {
	if err := w.deleteScalingGroup(); err != nil {
		return 0, fmt.Errorf("removing the Auto Scaling group: %w", err)
	}
	asg, err := w.scalingGroup()
	if err != nil {
		return 0, err
	}
	ses, err := w.session(ctx)
	if err != nil {
		return 0, err
	}
	if asg != nil {
		if err := w.drainLeaving(ctx, ses, asg); err != nil && w.s.clock.Since(w.g.Since) < w.s.cfg.Timing.NodeDrain {
			return 0, err
		}
		return drainStep, nil
	}
	var stale []string
	for _, n := range ses.nodes().group(*w.g.Nodegroup.NodegroupName) {
		stale = append(stale, kube.InstanceID(n.Spec.ProviderID))
	}
	if err := w.deleteNodes(ctx, ses, stale); err != nil && w.s.clock.Since(w.g.Since) < w.s.cfg.Timing.NodeDrain {
		return 0, err
	}
	if done, err := w.removeRemoteAccess(ctx); !done || err != nil {
		return drainStep, err
	}
	return 0, w.removeRest(ctx, ses)
}

// removeRest removes what a group without instances has left.
func (w *groupWork) removeRest(ctx context.Context, ses *session) error {
	name := "eks-" + w.g.UUID
	_, err := w.s.cfg.Instances.DeleteLaunchTemplate(w.svc, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
	if err != nil && !strings.HasPrefix(code(err), "InvalidLaunchTemplate") {
		return fmt.Errorf("removing the launch template: %w", err)
	}
	if err := w.removeInstanceProfile(); err != nil {
		return err
	}
	_, inherited, err := w.heir(w.s.store)
	if err != nil {
		return err
	}
	switch {
	case inherited && !w.cluster.usesAPI(): // an attempt before may have unmapped it
		err = mapNodeRole(ctx, ses, w.g.Role.ARN, typeEC2Linux)
	case !inherited && w.cluster.usesConfigMap():
		err = unmapNodeRole(ctx, ses, w.g.Role.ARN, typeEC2Linux)
	}
	if err != nil && w.s.clock.Since(w.g.Since) < w.s.cfg.Timing.NodeDrain {
		return err
	}
	if err := w.deleteUpdates(ctx); err != nil {
		return err
	}
	return w.s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := nodegroups.Get(tx, w.key)
		if err != nil || g.UUID != w.g.UUID {
			return store.IgnoreNotFound(err)
		}
		heir, stays, err := w.heir(tx)
		switch {
		case err != nil:
			return err
		case stays && !inherited:
			return errInherited
		}
		nodegroups.Delete(tx, w.key)
		switch {
		case !g.AccessEntryMade:
		case stays: // its nodes come in by the entry, and it removes it
			return nodegroups.Update(tx, heir, func(o *nodegroupRecord) error { o.AccessEntryMade = true; return nil })
		default:
			accessEntries.Delete(tx, below(clusterOf(w.key), g.Role.ARN))
		}
		return nil
	})
}

// errInherited makes removeRest begin again.
var errInherited = errors.New("a node group with the same node role was made meanwhile")

// heir returns another group of the cluster with the same node role that stays.
func (w *groupWork) heir(r store.Reader) (key store.Key, ok bool, err error) {
	others, err := nodegroups.List(r, allBelow(clusterOf(w.key)))
	for _, o := range others {
		if o.Key != w.key && o.Value.Role == w.g.Role && o.Value.Nodegroup.Status != ekstypes.NodegroupStatusDeleting {
			return o.Key, true, nil
		}
	}
	return store.Key{}, false, err
}

func (w *groupWork) deleteUpdates(ctx context.Context) error {
	cluster := clusterOf(w.key)
	items, err := updates.List(w.s.store, allBelow(cluster))
	if err != nil {
		return err
	}
	items = slices.DeleteFunc(items, func(i store.Item[updateRecord]) bool { return i.Value.Nodegroup != *w.g.Nodegroup.NodegroupName })
	for chunk := range slices.Chunk(items, deleteBatch) {
		if err := w.s.store.Update(ctx, func(tx *store.Tx) error {
			for _, i := range chunk {
				updates.Delete(tx, i.Key)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

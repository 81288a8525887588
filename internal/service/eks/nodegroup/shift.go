package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// During a zonal shift of a cluster, EKS cordons the nodes in the zone, suspends the balancing of zones in the Auto
// Scaling groups of node groups, and takes the zone's subnets out of them. Nodes and their pods stay.
// https://docs.aws.amazon.com/eks/latest/userguide/zone-shift.html

// annotationShifted marks the nodes that EKS cordoned for a shift, which it uncordons afterwards. AWS's own mark is
// not documented.
const annotationShifted = "drydock.dev/zonal-shift"

const (
	rebalancing = "AZRebalance"
	launching   = "Launch"
)

// ShiftReconciler gives zonal shifts of clusters their effect, and takes it back when they end.
func (s *Service) ShiftReconciler() reconcile.Config {
	cfg := reconcile.Config{
		Name: "eks/zonalshift", Watcher: record.Clusters.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileShift, Log: s.Log, Clock: s.Clock,
		Related: []reconcile.Related{{Watcher: record.Nodegroups.Watch(s.Store, store.Scope{}), Of: func(k store.Key) (store.Key, bool) { return k.Owner(), true }}},
	}
	if s.ZonalShifts != nil {
		cfg.Related = append(cfg.Related, reconcile.Related{Watcher: s.ZonalShifts.Watch(store.Scope{}), Of: func(k store.Key) (store.Key, bool) {
			a, err := arn.Parse(s.ZonalShifts.ResourceOf(k))
			name, ok := strings.CutPrefix(a.Resource, "cluster/")
			return store.Key{Account: a.Account, Region: a.Region, ID: name}, err == nil && ok && a.Service == "eks"
		}})
	}
	return cfg
}

// reconcileShift applies the zonal shift of one cluster, or ends it.
func (s *Service) reconcileShift(ctx context.Context, key store.Key) (time.Duration, error) {
	cluster, err := record.Clusters.Get(s.Store, key)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return 0, err
	}
	applied, err := record.ZonalShifts.Get(s.Store, key)
	shifted := err == nil
	if store.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if shifted && (gone || applied.UID != cluster.UID) {
		return time.Millisecond, s.forgetShift(ctx, key)
	}
	if st := cluster.Cluster.Status; gone || st != ekstypes.ClusterStatusActive && st != ekstypes.ClusterStatusUpdating {
		return 0, nil
	}
	zone, until := s.shiftedFrom(key, &cluster)
	switch {
	case zone == "" && !shifted:
		return 0, nil
	case shifted && applied.Zone != zone:
		if err := s.endShift(ctx, key, &cluster, applied); err != nil {
			return 0, err
		}
		return time.Millisecond, s.forgetShift(ctx, key)
	case !shifted:
		applied = record.ZonalShift{UID: cluster.UID, Zone: zone}
		if err := s.Store.Update(ctx, func(tx *store.Tx) error { return record.ZonalShifts.Put(tx, key, applied) }); err != nil {
			return 0, err
		}
	}
	return max(time.Millisecond, min(steady, until.Sub(s.Clock.Now()))), s.applyShift(ctx, key, &cluster, applied)
}

// shiftedFrom returns the name of the zone that a cluster is shifted away from, and until when; or "".
func (s *Service) shiftedFrom(key store.Key, c *record.Cluster) (name string, until time.Time) {
	if s.ZonalShifts == nil || c.Cluster.ZonalShiftConfig == nil || !aws.ToBool(c.Cluster.ZonalShiftConfig.Enabled) {
		return "", until
	}
	id, until := s.ZonalShifts.Zone(*c.Cluster.Arn, aws.ToTime(c.Cluster.CreatedAt))
	region, _ := regions.Lookup(key.Region)
	z, _ := region.Zone(id)
	return z.Name, until
}

func (s *Service) forgetShift(ctx context.Context, key store.Key) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error { record.ZonalShifts.Delete(tx, key); return nil })
}

func (s *Service) applyShift(ctx context.Context, key store.Key, cluster *record.Cluster, shift record.ZonalShift) error {
	// A user who uncordons a node during the shift has the last word: the node keeps its mark.
	err := s.patchNodes(ctx, key, cluster, `{"metadata":{"annotations":{"`+annotationShifted+`":"`+shift.Zone+`"}},"spec":{"unschedulable":true}}`, func(n *corev1.Node) bool {
		return n.Labels[corev1.LabelTopologyZone] == shift.Zone && !n.Spec.Unschedulable && n.Annotations[annotationShifted] == ""
	})
	return errors.Join(err, s.eachScalingGroup(ctx, key, cluster, func(w *work, asg *scalingGroup) error {
		outside, err := w.subnetsOutside(shift.Zone)
		if err != nil {
			return err
		}
		suspend := []string{rebalancing}
		if len(outside) == 0 {
			suspend = append(suspend, launching) // an Auto Scaling group needs a subnet
		}
		suspend = slices.DeleteFunc(suspend, func(p string) bool { return slices.Contains(asg.suspended, p) })
		if len(suspend) > 0 {
			if err := w.noteSuspended(ctx, suspend); err != nil {
				return err
			}
			if _, err := w.s.AutoScaling.SuspendProcesses(w.svc, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: new(w.g.ResourceName()), ScalingProcesses: suspend}); err != nil {
				return err
			}
		}
		if len(outside) == 0 || sameSubnets(asg.subnets, outside) {
			return nil
		}
		return w.setSubnets(outside)
	}))
}

// endShift undoes what applyShift did. It leaves what users have changed in the meantime.
func (s *Service) endShift(ctx context.Context, key store.Key, cluster *record.Cluster, shift record.ZonalShift) error {
	err := s.patchNodes(ctx, key, cluster, `{"metadata":{"annotations":{"`+annotationShifted+`":null}},"spec":{"unschedulable":null}}`, func(n *corev1.Node) bool {
		return n.Annotations[annotationShifted] != ""
	})
	return errors.Join(err, s.eachScalingGroup(ctx, key, cluster, func(w *work, asg *scalingGroup) error {
		if outside, err := w.subnetsOutside(shift.Zone); err != nil {
			return err
		} else if sameSubnets(asg.subnets, outside) && !sameSubnets(asg.subnets, w.g.Nodegroup.Subnets) {
			if err := w.setSubnets(w.g.Nodegroup.Subnets); err != nil {
				return err
			}
		}
		if p := shift.Suspended[*w.g.Nodegroup.NodegroupName]; len(p) > 0 {
			_, err := w.s.AutoScaling.ResumeProcesses(w.svc, &awsautoscaling.ResumeProcessesInput{AutoScalingGroupName: new(w.g.ResourceName()), ScalingProcesses: p})
			return err
		}
		return nil
	}))
}

// patchNodes patches the nodes of a cluster for which which returns true.
func (s *Service) patchNodes(ctx context.Context, key store.Key, cluster *record.Cluster, patch string, which func(*corev1.Node) bool) error {
	ses, err := s.Sessions.Open(key, cluster.Plane.ID)
	if err != nil {
		return err
	}
	select {
	case <-ses.Nodes().Synced:
	case <-s.Clock.After(syncWait):
		return plane.ErrNoAnswer
	case <-ctx.Done():
		return ctx.Err()
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(nodeWorkers)
	for _, n := range ses.Nodes().All() {
		if !which(n) {
			continue
		}
		eg.Go(func() error {
			_, err := ses.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("shifting %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return eg.Wait()
}

// eachScalingGroup calls fn for the Auto Scaling groups of a cluster's node groups. One group's error does not hold up
// the others.
func (s *Service) eachScalingGroup(ctx context.Context, key store.Key, cluster *record.Cluster, fn func(*work, *scalingGroup) error) error {
	var errs []error
	for _, g := range record.Nodegroups.All(s.Store, key.AllBelow()) {
		if g.Value.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
			continue
		}
		w := &work{s: s, key: g.Key, g: &g.Value, cluster: cluster, svc: s.asService(ctx, g.Key)}
		asg, err := w.scalingGroup()
		if err == nil && asg != nil {
			err = fn(w, asg)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shift returns the zonal shift that has an effect on the group's cluster, or nil.
func (w *work) shift() *record.ZonalShift {
	sh, err := record.ZonalShifts.Get(w.s.Store, w.key.Owner())
	if err != nil || sh.UID != w.cluster.UID {
		return nil
	}
	return &sh
}

// launchSubnets returns the subnets in which a new Auto Scaling group launches instances.
func (w *work) launchSubnets() ([]string, error) {
	if sh := w.shift(); sh != nil {
		if outside, err := w.subnetsOutside(sh.Zone); err != nil || len(outside) > 0 {
			return outside, err
		}
	}
	return w.g.Nodegroup.Subnets, nil
}

// subnetsOutside returns the group's subnets that are not in a zone.
func (w *work) subnetsOutside(zone string) ([]string, error) {
	out, err := w.s.Network.DescribeSubnets(w.svc, &awsec2.DescribeSubnetsInput{SubnetIds: w.g.Nodegroup.Subnets})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, sn := range out.Subnets {
		if aws.ToString(sn.AvailabilityZone) != zone {
			ids = append(ids, *sn.SubnetId)
		}
	}
	return ids, nil
}

func (w *work) setSubnets(subnets []string) error {
	_, err := w.s.AutoScaling.UpdateAutoScalingGroup(w.svc, &awsautoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: new(w.g.ResourceName()), VPCZoneIdentifier: new(strings.Join(subnets, ",")),
	})
	return err
}

// noteSuspended records processes that are about to be suspended, so that they are resumed even after a crash.
func (w *work) noteSuspended(ctx context.Context, processes []string) error {
	return record.ZonalShifts.UpdateOne(ctx, w.s.Store, w.key.Owner(), func(sh *record.ZonalShift) error {
		if sh.Suspended == nil {
			sh.Suspended = map[string][]string{}
		}
		name := *w.g.Nodegroup.NodegroupName
		sh.Suspended[name] = slices.Compact(slices.Sorted(slices.Values(append(sh.Suspended[name], processes...))))
		return nil
	})
}

func sameSubnets(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// A Shiftable is a cluster that is registered for zonal shifts.
type Shiftable struct {
	ARN, Name string
	Created   time.Time
	Tags      map[string]string
	// Zones returns the names of the zones in which the cluster and its node groups have subnets.
	Zones func(context.Context) ([]string, error)
}

// Shiftable returns the clusters of an account and region that are registered for zonal shifts.
func (s *Service) Shiftable(account, region string) []Shiftable {
	var out []Shiftable
	for _, i := range record.Clusters.All(s.Store, store.Scope{Account: account, Region: region}) {
		c := i.Value.Cluster
		if c.ZonalShiftConfig == nil || !aws.ToBool(c.ZonalShiftConfig.Enabled) || c.Status != ekstypes.ClusterStatusActive && c.Status != ekstypes.ClusterStatusUpdating {
			continue
		}
		out = append(out, Shiftable{*c.Arn, *c.Name, aws.ToTime(c.CreatedAt), c.Tags, func(ctx context.Context) ([]string, error) {
			return s.zones(ctx, i.Key, c.ResourcesVpcConfig.SubnetIds)
		}})
	}
	return out
}

// zones returns the names of the zones of subnets and of a cluster's node groups. It skips deleted subnets.
func (s *Service) zones(ctx context.Context, cluster store.Key, subnets []string) ([]string, error) {
	subnets = slices.Clone(subnets)
	for _, g := range record.Nodegroups.All(s.Store, cluster.AllBelow()) {
		subnets = append(subnets, g.Value.Nodegroup.Subnets...)
	}
	slices.Sort(subnets)
	ctx = s.AsService(ctx, cluster.Account, cluster.Region)
	var zones []string
	for _, id := range slices.Compact(subnets) {
		out, err := s.Network.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{id}})
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidSubnet") {
			continue
		}
		if err != nil {
			return nil, err
		}
		zones = append(zones, aws.ToString(out.Subnets[0].AvailabilityZone))
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// ServiceRole is the service-linked role as which fleets launch, except instant ones.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-service-linked-roles-ec2-fleet.html
var ServiceRole = awsapi.ServiceRole{Service: "ec2fleet.amazonaws.com", Name: "AWSServiceRoleForEC2Fleet", Session: "EC2Fleet"} // session from memory

// UsesRole returns the ARN of a fleet that uses the service-linked role, or "".
func UsesRole(f store.Item[Fleet]) string {
	if f.Value.Type == typeInstant || f.Value.State == stateDeleted {
		return ""
	}
	return resource.KeyScope(f.Key).ARN("fleet", f.Value.ID)
}

// retryAfter is the interval between attempts to launch a fleet's missing capacity.
const retryAfter = time.Second

// A fleetCount counts a fleet's instances and units.
type fleetCount struct {
	live      []record.Instance // neither terminated nor shutting down
	ending    int               // shutting down
	fulfilled fleetUnits
	launched  fleetUnits // including instances that have terminated, as long as their records exist
}

func (s *Service) countFleet(r store.Reader, sc resource.Scope, id string) (fleetCount, error) {
	var c fleetCount
	record.Instances.Scan(r, sc.All(), "", func(_ store.Key, i record.Instance) bool {
		if i.FleetID != id {
			return true
		}
		isSpot := i.SpotRequestID != ""
		*c.launched.of(isSpot) += max(i.FleetWeight, 0)
		switch i.State {
		case record.ShuttingDown:
			c.ending++
		case record.Terminated:
		default:
			c.live = append(c.live, i)
			*c.fulfilled.of(isSpot) += i.FleetWeight
		}
		return true
	})
	return c, nil
}

// Reconcilers maintain the target capacity of fleets.
func (s *Service) Reconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/fleet", Watcher: Fleets.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileFleet, Workers: 4},
	}
}

// reconcileFleet brings a fleet to its target capacity, and eventually deletes the record of a
// fleet that has ended.
func (s *Service) reconcileFleet(ctx context.Context, k store.Key) (time.Duration, error) {
	f, err := Fleets.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if _, mine := s.underWay.m.Load(f.ID); mine {
		return retryAfter, nil
	}
	sc := resource.KeyScope(k)
	ctx = awsapi.AsService(ctx, k.Account, k.Region, ServiceRole, s.Now())
	count, err := s.countFleet(s.Store, sc, f.ID)
	if err != nil {
		return 0, err
	}
	switch f.State {
	case stateSubmitted:
		return 0, s.editFleet(ctx, k, func(f *Fleet) {
			if f.State != stateSubmitted {
				return
			}
			if f.Type == typeInstant { // the call that launched it was interrupted
				f.Groups = foundGroups(count.live)
			}
			f.State, f.Since = stateActive, s.Now()
		})
	case stateActive:
		if f.Type == typeInstant {
			return s.forgetFleet(ctx, k, f, count)
		}
		return s.fillFleet(ctx, k, f, count)
	case stateTerminating:
		if len(count.live) > 0 {
			if err := s.terminateForFleet(ctx, sc, count.live); err != nil {
				return 0, err
			}
		}
	}
	if len(count.live)+count.ending > 0 { // the end of an instance triggers the next reconciliation
		return 0, nil
	}
	if f.State != stateDeleted {
		return 0, s.editFleet(ctx, k, func(f *Fleet) { f.State, f.Since = stateDeleted, s.Now() })
	}
	return s.forgetFleet(ctx, k, f, count)
}

// foundGroups groups the instances of an interrupted launch by their attributes.
func foundGroups(live []record.Instance) []fleetGroup {
	var out []fleetGroup
	for _, i := range live {
		o := fleetOrigin{
			TemplateID: i.Tags["aws:ec2launchtemplate:id"], Version: i.Tags["aws:ec2launchtemplate:version"],
			Type: i.Type, Zone: i.Zone, ZoneID: i.ZoneID, Subnet: i.SubnetID, Spot: i.SpotRequestID != "",
		}
		n := slices.IndexFunc(out, func(g fleetGroup) bool {
			return g.Pool.Type == o.Type && g.Pool.Subnet == o.Subnet && g.Pool.Spot == o.Spot && g.Pool.TemplateID == o.TemplateID
		})
		if n < 0 {
			n, out = len(out), append(out, fleetGroup{Pool: o})
		}
		out[n].Instances = append(out[n].Instances, i.ID)
	}
	return out
}

func (s *Service) editFleet(ctx context.Context, k store.Key, fn func(*Fleet)) error {
	err := Fleets.UpdateOne(ctx, s.Store, k, func(f *Fleet) error {
		fn(f)
		return nil
	})
	return store.IgnoreNotFound(err)
}

// forgetFleet deletes the record of a fleet without instances after a while.
func (s *Service) forgetFleet(ctx context.Context, k store.Key, f Fleet, count fleetCount) (time.Duration, error) {
	lasts := s.Timing.InstanceTerminatedVisible
	if len(count.live)+count.ending > 0 {
		return max(lasts, retryAfter), nil
	}
	if left := f.Since.Add(lasts).Sub(s.Now()); left > 0 {
		return left, nil
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		Fleets.Delete(tx, k)
		return nil
	})
}

// fillFleet launches the missing capacity of a request or maintain fleet and terminates excess
// capacity.
func (s *Service) fillFleet(ctx context.Context, k store.Key, f Fleet, count fleetCount) (time.Duration, error) {
	now, sc := s.Now(), resource.KeyScope(k)
	if now.Before(f.ValidFrom) {
		return f.ValidFrom.Sub(now), nil
	}
	var next time.Duration
	if !f.ValidUntil.IsZero() {
		if next = f.ValidUntil.Sub(now); next <= 0 {
			if f.TerminateExpired && len(count.live) > 0 {
				return 0, s.terminateForFleet(ctx, sc, count.live)
			}
			return 0, nil
		}
	}
	target, have := f.Target.units(), count.fulfilled
	if f.Type == typeRequest { // terminated instances are not replaced
		have = fleetUnits{max(f.Placed.OnDemand, count.launched.OnDemand), max(f.Placed.Spot, count.launched.Spot)}
	}
	lack := fleetUnits{target.OnDemand - have.OnDemand, target.Spot - have.Spot}
	if lack.OnDemand <= 0 && lack.Spot <= 0 {
		if f.Type == typeMaintain && f.Excess == "termination" {
			if err := s.trimFleet(ctx, sc, f, count); err != nil {
				return 0, err
			}
		}
		if f.Type == typeRequest && f.Placed != have || len(f.Faults) > 0 {
			return next, s.editFleet(ctx, k, func(f *Fleet) {
				f.Faults = nil
				if f.Type == typeRequest {
					f.Placed = have
				}
			})
		}
		return next, nil
	}
	groups, faults, err := s.launchFleet(ctx, sc, f, lack, nil)
	if err != nil {
		return 0, err
	}
	if len(groups) > 0 || !slices.EqualFunc(faults, f.Faults, func(a, b fleetFault) bool { return a.Code == b.Code && a.Message == b.Message }) {
		err := s.editFleet(ctx, k, func(f *Fleet) { f.Faults = faults })
		if err != nil {
			return 0, err
		}
	}
	return retryAfter, nil
}

// trimFleet terminates instances above the target, starting with the most expensive types, the
// newest instances first.
func (s *Service) trimFleet(ctx context.Context, sc resource.Scope, f Fleet, count fleetCount) error {
	target := f.Target.units()
	excess := fleetUnits{count.fulfilled.OnDemand - target.OnDemand, count.fulfilled.Spot - target.Spot}
	slices.SortFunc(count.live, func(a, b record.Instance) int {
		return cmp.Or(cmp.Compare(pricePerUnit(b, sc), pricePerUnit(a, sc)), b.LaunchTime.Compare(a.LaunchTime), cmp.Compare(a.ID, b.ID))
	})
	var out []record.Instance
	for _, i := range count.live {
		if over := excess.of(i.SpotRequestID != ""); i.FleetWeight > 0 && *over >= i.FleetWeight {
			*over -= i.FleetWeight
			out = append(out, i)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return s.terminateForFleet(ctx, sc, out)
}

// terminateForFleet terminates instances, including protected ones.
func (s *Service) terminateForFleet(ctx context.Context, sc resource.Scope, all []record.Instance) error {
	for chunk := range slices.Chunk(all, 30) {
		err := s.Store.Update(ctx, func(tx *store.Tx) error {
			for _, seen := range chunk {
				i, err := record.Instances.Get(tx, sc.Key(seen.ID))
				if resource.NotFound(err) || err == nil && (i.State == record.Terminated || i.State == record.ShuttingDown) {
					continue
				}
				if err != nil {
					return err
				}
				s.instances.UserInitiated(&i, record.ShuttingDown)
				if err := record.Instances.Put(tx, sc.Key(i.ID), i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Poke triggers the reconciler of the fleet to which a terminated instance belongs.
func Poke(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
	if i.FleetID == "" {
		return nil
	}
	f, err := Fleets.Get(tx, sc.Key(i.FleetID))
	if resource.NotFound(err) || err == nil && f.Type == typeInstant && f.State == stateActive {
		return nil
	}
	if err != nil {
		return err
	}
	f.Pokes++
	return Fleets.Put(tx, sc.Key(f.ID), f)
}

package autoscaling

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// launchers is how many RunInstances calls of a group run at the same time.
	launchers = 4
	// maxPlanned limits how many launches are planned at once, because a plan is one transaction.
	maxPlanned = 1200
	lastRetry  = time.Minute
)

// plan decides on n launches and stores them. If surplus is set, they go beyond the desired
// capacity, for that cause.
func (w *work) plan(ctx context.Context, all []memberRecord, n int, surplus string) error {
	return w.planFor(ctx, all, n, surplus, false)
}

// unknownSubnets is why a group of a twin launches nothing if its subnets were not imported.
const unknownSubnets = "The subnets of the group are unknown: the source did not allow ec2:DescribeSubnets. Launching EC2 instance failed."

// planFor is like plan. If warm is set, the launches go into the warm pool, for the cause in surplus.
func (w *work) planFor(ctx context.Context, all []memberRecord, n int, surplus string, warm bool) error {
	if len(w.g.Subnets) == 0 {
		return w.failed(ctx, nil, unknownSubnets)
	}
	src, err := w.s.source(w.svc, w.scope(), &w.g)
	if code := awserr.CodeOf(err); code != "" {
		return w.failed(ctx, nil, awserr.TextOf(err))
	} else if err != nil {
		return err
	}
	step := src.lightest()
	n = min(n, maxPlanned*step)
	now := w.s.now()
	serving := slices.DeleteFunc(slices.Clone(all), func(m memberRecord) bool { return !warm && !m.capacity() || warm && !m.warm() })
	return store.IgnoreNotFound(w.s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, w.key)
		if err != nil || g.Deleting || g.desired() != w.g.desired() {
			return err // if the group changed, its watcher triggers the next reconciliation
		}
		place := newPlacement(&g, &src, w.key.Region, serving, n, func(m *memberRecord) bool { return w.dueFor(m) == "" })
		orders := []order{{n, surplus}}
		if !warm {
			orders = g.orders(n, g.units(serving), surplus, now)
		}
		for _, o := range orders {
			for _, lot := range place.next(o.n) {
				request, err := json.Marshal(src.request(&g, lot.spot))
				if err != nil {
					return err
				}
				for left := lot.n; left > 0; left -= batch * step {
					p := planRecord{
						Token: ids.UUID(), Count: min(left, batch*step), Pools: w.pools(&g, &src, lot, surplus != "" || g.balancedOnly()), Request: request, Spot: lot.spot,
						Template: src.template, Cause: o.cause, Started: now, Surplus: surplus != "" && !warm, Mixed: src.mixed != nil, Warm: warm,
					}
					if src.config != nil {
						p.Config, p.Spot = *src.config.LaunchConfigurationName, aws.ToString(src.config.SpotPrice) != ""
					}
					if err := plans.Put(tx, w.key.Below(p.Token), p); err != nil {
						return err
					}
				}
			}
		}
		if surplus == "" {
			g.Causes = nil
		}
		g.LastActivity = now
		return groups.Put(tx, w.key, g)
	}))
}

// An order is a number of launches for one cause.
type order struct {
	n     int
	cause string
}

// orders divides n launches among their causes, starting with replacements that are owed.
func (g *groupRecord) orders(n, before int, surplus string, now time.Time) []order {
	at := "At " + stamp(now) + " "
	if surplus != "" {
		return []order{{n, at + surplus}}
	}
	var out []order
	for _, sentence := range sortedKeys(g.Owed) {
		k := min(n, g.Owed[sentence])
		if k > 0 {
			out = append(out, order{k, at + sentence})
		}
		n -= k
	}
	g.Owed = nil
	if n > 0 {
		before += total(out)
		out = append(out, order{n, because(append(slices.Clone(g.Causes), fmt.Sprintf(
			"%san instance was started in response to a difference between desired and actual capacity, increasing the capacity from %d to %d.", at, before, before+n))...)})
	}
	return out
}

func total(orders []order) int {
	n := 0
	for _, o := range orders {
		n += o.n
	}
	return n
}

// A lot is a number of units of capacity with one purchase option in one subnet.
type lot struct {
	n      int
	subnet subnet
	spot   bool
}

// A placement distributes capacity among zones, their subnets, and purchase options.
type placement struct {
	g      *groupRecord
	src    *launchSource
	region string
	zones  map[string]int
	size   map[string]int // by subnet
	demand int            // On-Demand capacity still to launch; the rest is Spot
}

// newPlacement returns a placement of n more units of capacity. Instances that do not stay do not count in their zones.
func newPlacement(g *groupRecord, src *launchSource, region string, serving []memberRecord, n int, stays func(*memberRecord) bool) *placement {
	p := &placement{g: g, src: src, region: region, zones: map[string]int{}, size: map[string]int{}, demand: n}
	bought := 0
	for _, m := range serving {
		if stays(&m) {
			p.zones[m.Zone] += g.weight(&m)
			p.size[m.Subnet] += g.weight(&m)
		}
		if !m.Spot {
			bought += g.weight(&m)
		}
	}
	if src.mixed != nil {
		p.demand = max(0, onDemand(src.mixed, g.units(serving)+n)-bought)
	}
	return p
}

// next places n units of capacity, instance by instance, in the zone and subnet with the least.
func (p *placement) next(n int) []lot {
	var out []lot
	for n > 0 {
		sn := slices.MinFunc(p.g.Subnets, func(a, b subnet) int {
			if p.zones[a.Zone] != p.zones[b.Zone] {
				return p.zones[a.Zone] - p.zones[b.Zone]
			}
			return p.size[a.ID] - p.size[b.ID]
		})
		spot := p.demand <= 0
		units := 1
		if len(p.src.offers) > 0 {
			units = p.src.preferred(p.region, sn.Zone, spot)[0].units()
		}
		n -= units
		p.zones[sn.Zone] += units
		p.size[sn.ID] += units
		p.demand -= units
		i := slices.IndexFunc(out, func(l lot) bool { return l.subnet == sn && l.spot == spot })
		if i < 0 {
			i = len(out)
			out = append(out, lot{0, sn, spot})
		}
		out[i].n += units
	}
	return out
}

// pools returns the pools for a lot in order of preference: the lot's subnet with each type, then
// the other subnets. With here, only the lot's zone counts, because a launch elsewhere would not
// balance the zones.
func (w *work) pools(g *groupRecord, src *launchSource, l lot, here bool) []pool {
	subnets := []subnet{l.subnet}
	for _, sn := range g.Subnets {
		if sn != l.subnet && (!here || sn.Zone == l.subnet.Zone) {
			subnets = append(subnets, sn)
		}
	}
	var out []pool
	for _, sn := range subnets {
		if len(src.offers) == 0 {
			out = append(out, pool{Subnet: sn})
			continue
		}
		offers := src.preferred(w.key.Region, sn.Zone, l.spot)
		for _, o := range offers[:min(len(offers), maxOffers)] {
			out = append(out, o.pool(sn))
		}
	}
	return out
}

// maxOffers limits how many types a launch tries in a subnet: instance requirements can match hundreds.
const maxOffers = 40

// preferred sorts the offers according to the allocation strategy: by price per unit if the strategy
// depends on it, otherwise in the user's order. All pools count as equally deep.
func (src *launchSource) preferred(region, zone string, spot bool) []offer {
	strategy, price := aws.ToString(src.mixed.OnDemandAllocationStrategy), func(t string) (float64, bool) { return prices.OnDemand(region, t) }
	if spot {
		strategy, price = aws.ToString(src.mixed.SpotAllocationStrategy), func(t string) (float64, bool) { return prices.Spot(region, zone, t) }
	}
	offers := slices.Clone(src.offers)
	if strategy == lowestPrice || strategy == "price-capacity-optimized" {
		slices.SortStableFunc(offers, func(a, b offer) int {
			x, known := price(a.kind)
			y, alsoKnown := price(b.kind)
			if !known || !alsoKnown {
				return 0
			}
			return cmp.Compare(x/float64(a.units()), y/float64(b.units()))
		})
	}
	return offers
}

// launch carries out the stored plans.
func (w *work) launch(ctx context.Context) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(launchers)
	for _, p := range plans.All(w.s.store, w.key.AllBelow()) {
		eg.Go(func() error { return w.carryOut(ctx, p.Key, p.Value) })
	}
	return eg.Wait()
}

// carryOut carries out one plan, trying one pool after the other. It stores the index of a pool
// before trying it.
func (w *work) carryOut(ctx context.Context, key store.Key, p planRecord) error {
	for {
		in, err := p.call()
		if err != nil {
			return err
		}
		out, err := w.s.cfg.EC2.RunInstances(w.svc, in)
		if err == nil {
			return w.launched(ctx, key, &p, out)
		}
		code := awserr.CodeOf(err)
		switch {
		case ctx.Err() != nil, code == "", code == "InternalFailure", code == "InternalError", code == "RequestLimitExceeded":
			return fmt.Errorf("launching %d instances: %w", p.Count, err)
		case !elsewhere(code) || p.Attempt+1 >= len(p.Pools):
			return w.failed(ctx, &key, p.refusal(code, awserr.TextOf(err)))
		}
		p.Attempt++
		if err := plans.UpdateOne(ctx, w.s.store, key, func(stored *planRecord) error { stored.Attempt = p.Attempt; return nil }); err != nil {
			return store.IgnoreNotFound(err)
		}
	}
}

// refusal returns the text for EC2's error in an activity. With a mixed instances policy, it
// includes the purchase option and the code.
func (p *planRecord) refusal(code, text string) string {
	switch {
	case !p.Mixed:
		return text
	case p.Spot:
		return "Could not launch Spot Instances. " + code + " - " + text
	}
	return "Could not launch On-Demand Instances. " + code + " - " + text
}

// launched adds the instances of a plan to the group.
func (w *work) launched(ctx context.Context, key store.Key, p *planRecord, out *awsec2.RunInstancesOutput) error {
	from := p.Pools[p.Attempt]
	in, template := from.Subnet, p.Template
	if from.Template != nil {
		template = from.Template
	}
	return w.s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := plans.Get(tx, key); err != nil {
			return store.IgnoreNotFound(err)
		}
		g, err := groups.Get(tx, w.key)
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		for _, i := range out.Instances {
			m := memberRecord{
				ID: *i.InstanceId, Group: g.name(), Zone: in.Zone, ZoneID: in.ZoneID, Subnet: in.ID, Type: string(i.InstanceType),
				Image: aws.ToString(i.ImageId), Spot: p.Spot, Template: template, Config: p.Config, Launched: p.Started, Weight: from.Weight,
				State: autoscalingtypes.LifecycleStatePending, Protected: aws.ToBool(g.Group.NewInstancesProtectedFromScaleIn), Surplus: p.Surplus,
			}
			what := "Launching a new EC2 instance"
			if p.Warm {
				m.State, what = autoscalingtypes.LifecycleStateWarmedPending, intoPool
			}
			if i.LaunchTime != nil {
				m.Launched = *i.LaunchTime
			}
			if m.Activity, err = begin(tx, w.key, &g, what+": "+m.ID, p.Cause, in, p.Started); err != nil {
				return err
			}
			if err := members.Put(tx, w.key.Below(m.ID), m); err != nil {
				return err
			}
			if err := owners.Put(tx, w.scope().Key(m.ID), ownerRecord{g.name()}); err != nil {
				return err
			}
		}
		plans.Delete(tx, key)
		if g.Failures == 0 {
			return nil
		}
		g.fresh()
		return groups.Put(tx, w.key, g)
	})
}

// failed deletes a plan, records the failure in an activity, and sets the time of the next attempt.
func (w *work) failed(ctx context.Context, plan *store.Key, text string) error {
	now := w.s.now()
	return store.IgnoreNotFound(w.s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, w.key)
		if err != nil {
			return err
		}
		var sn subnet
		if len(g.Subnets) > 0 {
			sn = g.Subnets[0]
		}
		cause := because(append(slices.Clone(g.Causes), fmt.Sprintf("At %s %s", stamp(now), replaceOwed))...)
		if plan != nil {
			p, err := plans.Get(tx, *plan)
			if err != nil {
				return err
			}
			cause, sn = p.Cause, p.Pools[p.Attempt].Subnet
			plans.Delete(tx, *plan)
		}
		id, err := begin(tx, w.key, &g, "Launching a new EC2 instance", cause, sn, now)
		if err != nil {
			return err
		}
		if err := end(tx, w.key, id, autoscalingtypes.ScalingActivityStatusCodeFailed, text+" Launching EC2 instance failed.", now); err != nil {
			return err
		}
		g.RetryAt = now.Add(min(lastRetry, time.Second<<min(g.Failures, 10)))
		g.Failures++
		return groups.Put(tx, w.key, g)
	}))
}

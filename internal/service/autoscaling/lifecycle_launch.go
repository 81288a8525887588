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
	src, err := w.s.source(w.svc, w.scope(), &w.g)
	if code := awserr.CodeOf(err); code != "" {
		return w.failed(ctx, nil, awserr.TextOf(err))
	} else if err != nil {
		return err
	}
	n = min(n, maxPlanned)
	now := w.s.now()
	serving := slices.DeleteFunc(slices.Clone(all), func(m memberRecord) bool { return !m.capacity() })
	return store.IgnoreNotFound(w.s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, w.key)
		if err != nil || g.Deleting || g.desired() != w.g.desired() {
			return err // if the group changed, its watcher triggers the next reconciliation
		}
		place := newPlacement(&g, &src, serving, n)
		for _, o := range g.orders(n, len(serving), surplus, now) {
			for _, lot := range place.next(o.n) {
				request, err := json.Marshal(src.request(&g, lot.spot))
				if err != nil {
					return err
				}
				for left := lot.n; left > 0; left -= batch {
					p := planRecord{
						Token: ids.UUID(), Count: min(left, batch), Pools: w.pools(&g, &src, lot, surplus != ""), Request: request, Spot: lot.spot,
						Template: src.template, Cause: o.cause, Started: now, Surplus: surplus != "", Mixed: src.mixed != nil,
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

// A lot is a number of launches with one purchase option in one subnet.
type lot struct {
	n      int
	subnet subnet
	spot   bool
}

// A placement distributes launches among zones, their subnets, and purchase options.
type placement struct {
	g      *groupRecord
	zones  map[string]int
	size   map[string]int // by subnet
	demand int            // On-Demand instances still to launch; the rest is Spot
}

func newPlacement(g *groupRecord, src *launchSource, serving []memberRecord, n int) *placement {
	p := &placement{g: g, zones: map[string]int{}, size: map[string]int{}, demand: n}
	bought := 0
	for _, m := range serving {
		p.zones[m.Zone]++
		p.size[m.Subnet]++
		if !m.Spot {
			bought++
		}
	}
	if src.mixed != nil {
		p.demand = max(0, onDemand(src.mixed, len(serving)+n)-bought)
	}
	return p
}

// next places n launches, each in the zone and subnet with the fewest instances.
func (p *placement) next(n int) []lot {
	var out []lot
	for range n {
		sn := slices.MinFunc(p.g.Subnets, func(a, b subnet) int {
			if p.zones[a.Zone] != p.zones[b.Zone] {
				return p.zones[a.Zone] - p.zones[b.Zone]
			}
			return p.size[a.ID] - p.size[b.ID]
		})
		p.zones[sn.Zone]++
		p.size[sn.ID]++
		spot := p.demand <= 0
		p.demand--
		i := slices.IndexFunc(out, func(l lot) bool { return l.subnet == sn && l.spot == spot })
		if i < 0 {
			i = len(out)
			out = append(out, lot{0, sn, spot})
		}
		out[i].n++
	}
	return out
}

// pools returns the pools for a lot in order of preference: the lot's subnet with each type, then
// the other subnets. With here, only the lot's subnet counts, because a launch elsewhere would not
// balance the zones.
func (w *work) pools(g *groupRecord, src *launchSource, l lot, here bool) []pool {
	subnets := []subnet{l.subnet}
	if !here {
		for _, sn := range g.Subnets {
			if sn != l.subnet {
				subnets = append(subnets, sn)
			}
		}
	}
	var out []pool
	for _, sn := range subnets {
		types := []string{""}
		if len(src.types) > 0 {
			types = src.preferred(w.key.Region, sn.Zone, l.spot)
		}
		for _, t := range types {
			out = append(out, pool{sn, t})
		}
	}
	return out
}

// preferred sorts the types according to the allocation strategy: by price if the strategy depends
// on it, otherwise in the user's order. All pools count as equally deep.
func (src *launchSource) preferred(region, zone string, spot bool) []string {
	strategy, price := aws.ToString(src.mixed.OnDemandAllocationStrategy), func(t string) (float64, bool) { return prices.OnDemand(region, t) }
	if spot {
		strategy, price = aws.ToString(src.mixed.SpotAllocationStrategy), func(t string) (float64, bool) { return prices.Spot(region, zone, t) }
	}
	types := slices.Clone(src.types)
	if strategy == lowestPrice || strategy == "price-capacity-optimized" {
		slices.SortStableFunc(types, func(a, b string) int {
			x, known := price(a)
			y, alsoKnown := price(b)
			if !known || !alsoKnown {
				return 0
			}
			return cmp.Compare(x, y)
		})
	}
	return types
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
	in := p.Pools[p.Attempt].Subnet
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
				Image: aws.ToString(i.ImageId), Spot: p.Spot, Template: p.Template, Config: p.Config, Launched: p.Started,
				State: autoscalingtypes.LifecycleStatePending, Protected: aws.ToBool(g.Group.NewInstancesProtectedFromScaleIn), Surplus: p.Surplus,
			}
			if i.LaunchTime != nil {
				m.Launched = *i.LaunchTime
			}
			if m.Activity, err = begin(tx, w.key, &g, "Launching a new EC2 instance: "+m.ID, p.Cause, in, p.Started); err != nil {
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

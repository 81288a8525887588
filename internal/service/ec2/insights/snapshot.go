package insights

import (
	"context"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// idleAfter is how long an unused snapshot is kept.
const idleAfter = 10 * time.Minute

// A snapshotCache has the snapshots of recently used regions.
type snapshotCache struct {
	mu      sync.Mutex
	regions map[resource.Scope]*regionSnapshot
}

// A regionSnapshot is a snapshot and the feeds that update it. The zero value is empty and not yet
// fed.
type regionSnapshot struct {
	mu       sync.Mutex
	used     time.Time // guarded by snapshotCache.mu
	snapshot *reach.Snapshot
	feeds    map[resource.Scope][]recordFeed // of the account itself and of accounts with which it is peered
	stopped  bool
}

// A recordFeed updates snapshots with the records of one collection.
type recordFeed struct {
	watcher *store.Watcher
	apply   func(*reach.Draft, store.Key) error
}

// Reach returns the current network of an account and region, including the VPCs of accounts with
// which it is peered. It caches the snapshot and applies only the changes since the last call.
func (s *Service) Reach(ctx context.Context, account, region string) (*reach.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc := resource.Scope{Account: account, Region: region}
	for {
		r := s.reached.region(sc, s.Clock.Now())
		r.mu.Lock()
		if r.stopped { // it was just stopped because it was idle
			r.mu.Unlock()
			continue
		}
		snapshot, err := s.updateReach(r, sc)
		r.mu.Unlock()
		return snapshot, err
	}
}

// region returns the entry of a scope and removes idle entries.
func (c *snapshotCache) region(sc resource.Scope, now time.Time) *regionSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, r := range c.regions {
		if k != sc && now.Sub(r.used) > idleAfter && r.mu.TryLock() {
			delete(c.regions, k)
			r.stop()
			r.mu.Unlock()
		}
	}
	r := c.regions[sc]
	if r == nil {
		r = &regionSnapshot{feeds: map[resource.Scope][]recordFeed{}}
		if c.regions == nil {
			c.regions = map[resource.Scope]*regionSnapshot{}
		}
		c.regions[sc] = r
	}
	r.used = now
	return r
}

func (r *regionSnapshot) stop() {
	r.stopped = true
	r.unwatch()
}

func (r *regionSnapshot) unwatch() {
	for _, feeds := range r.feeds {
		for _, f := range feeds {
			f.watcher.Stop()
		}
	}
}

// updateReach brings r up to date. r.mu must be held.
func (s *Service) updateReach(r *regionSnapshot, sc resource.Scope) (*reach.Snapshot, error) {
	if r.snapshot == nil {
		d := reach.New(sc.Region).Edit()
		for _, p := range firewall.ManagedPrefixLists(sc.Region) {
			d.Put(prefixListOf(p))
		}
		r.snapshot = d.Snapshot()
		r.feeds[sc] = s.reachFeeds(sc)
	}
	for {
		if err := r.pull(); err != nil {
			return nil, err
		}
		more := false
		for _, peer := range r.snapshot.PeeredAccounts(sc.Account) {
			other := resource.Scope{Account: peer, Region: sc.Region}
			if r.feeds[other] == nil {
				r.feeds[other], more = s.reachFeeds(other), true
			}
		}
		if !more {
			return r.snapshot, nil
		}
	}
}

// pull builds the next snapshot if anything has changed.
func (r *regionSnapshot) pull() error {
	var d *reach.Draft
	for _, feeds := range r.feeds {
		for _, f := range feeds {
			for _, k := range f.watcher.Changed() {
				if d == nil {
					d = r.snapshot.Edit()
				}
				if err := f.apply(d, k); err != nil {
					r.unwatch() // changes were lost, so start over
					r.feeds, r.snapshot = map[resource.Scope][]recordFeed{}, nil
					return err
				}
			}
		}
	}
	if d != nil {
		r.snapshot = d.Snapshot()
	}
	return nil
}

// feed watches a collection. convert may return nil for records that are irrelevant to the network.
func feed[T any](s *Service, c resource.Kind[T], sc resource.Scope, convert func(store.Reader, resource.Scope, T) reach.Resource) recordFeed {
	return recordFeed{
		watcher: c.Watch(s.Store, sc.All()),
		apply: func(d *reach.Draft, k store.Key) error {
			v, err := c.Get(s.Store, k)
			if resource.NotFound(err) {
				d.Delete(k.ID)
				return nil
			}
			if err != nil {
				return err
			}
			if r := convert(s.Store, sc, v); r != nil {
				d.Put(r)
			} else {
				d.Delete(k.ID)
			}
			return nil
		},
	}
}

// reachFeeds returns the feeds for everything that the network consists of.
func (s *Service) reachFeeds(sc resource.Scope) []recordFeed {
	return []recordFeed{
		feed(s, record.VPCs, sc, vpcOf),
		feed(s, record.Subnets, sc, subnetOf),
		feed(s, record.RouteTables, sc, routeTableOf),
		feed(s, record.NetworkACLs, sc, aclOf),
		feed(s, record.SecurityGroups, sc, groupOf),
		feed(s, record.NetworkInterfaces, sc, interfaceOf),
		feed(s, record.Instances, sc, instanceOf),
		feed(s, record.InternetGateways, sc, internetGatewayOf),
		feed(s, record.EgressGateways, sc, egressGatewayOf),
		feed(s, record.NATGateways, sc, natGatewayOf),
		feed(s, record.Peerings, sc, peeringOf),
		feed(s, record.TransitGateways, sc, transitGatewayOf),
		feed(s, record.TransitAttachments, sc, transitAttachmentOf),
		feed(s, record.TransitRouteTables, sc, transitTableOf),
		feed(s, record.VPNGateways, sc, vpnGatewayOf),
		feed(s, record.VPCEndpoints, sc, endpointOf),
		feed(s, record.ConnectEndpoints, sc, connectEndpointOf),
		feed(s, record.PrefixLists, sc, func(_ store.Reader, _ resource.Scope, p record.PrefixList) reach.Resource { return prefixListOf(p) }),
	}
}

package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/node"
)

// room returns how many more addresses or prefixes an interface can have.
func (d *ipamd) room(e node.PodInterface) int { return d.perENI() - len(e.Addresses) - len(e.Prefixes) }

// target returns how many addresses, or prefixes, are missing or in excess according to the targets for single
// addresses. ok is false if no target is set.
func (d *ipamd) target(s poolStats) (short, over int, ok bool) {
	c := &d.cfg
	if !c.warmIPs() {
		return 0, 0, false
	}
	short = max(c.warmIP-s.available(), 0, c.minimumIP-s.total)
	over = max(min(max(s.available()-c.warmIP, 0), s.total-c.minimumIP), 0)
	if c.prefixes {
		short = ceil(short, blockSize)
		over = max(min(s.freeBlocks, s.blocks-ceil(s.assigned+c.warmIP, blockSize), s.blocks-ceil(c.minimumIP, blockSize)), 0)
	}
	return short, over, true
}

func ceil(n, by int) int { return (n + by - 1) / by }

// tooLow reports whether more addresses are needed.
func (d *ipamd) tooLow() bool {
	if d.cfg.ipv6 {
		return false
	}
	s := d.pool.stats(nil)
	if s.total >= d.maxPods {
		return false
	}
	if short, _, ok := d.target(s); ok {
		return short > 0
	}
	warm := d.cfg.warmENI * d.perENI()
	if d.cfg.prefixes {
		warm = d.cfg.warmPrefix * blockSize
	}
	return s.available() < warm || warm == 0 && s.available() == 0
}

// want returns how many addresses or prefixes to get at once.
func (d *ipamd) want() int {
	s := d.pool.stats(nil)
	short, _, ok := d.target(s)
	switch {
	case d.cfg.prefixes && ok:
		return max(short, 1)
	case d.cfg.prefixes:
		return max(d.cfg.warmPrefix-s.freeBlocks, 1)
	case ok:
		return short
	default:
		return d.perENI()
	}
}

// increase gets more addresses, on the existing interfaces or on a new one. It only returns errors that keep the
// plugin from starting.
func (d *ipamd) increase(ctx context.Context) error {
	if d.cfg.noProvisioning || d.m.rt.clock.Now().Before(d.full) {
		return nil
	}
	grown, err := d.assign(ctx)
	if err != nil {
		d.problem = err
		if d.subnetFull(err) {
			return nil
		}
		return err
	}
	if !grown && d.hasRoomForENI() {
		if err := d.attach(ctx); err != nil {
			// The plugin only logs it: a node becomes Ready without further interfaces.
			d.problem = err
			d.subnetFull(err)
			return nil
		}
		grown = true
	}
	if grown {
		d.problem = nil
	}
	return nil
}

func (d *ipamd) hasRoomForENI() bool { return len(d.enis) < d.maxENI() }

// subnetFull records that EC2 has no more addresses, so that it is not asked for a while. It returns false if err
// means something else.
func (d *ipamd) subnetFull(err error) bool {
	if !insufficient(err) {
		return false
	}
	d.full = d.m.rt.clock.Now().Add(fullRetry)
	d.log("Unable to attach IPs/Prefixes for the ENI, subnet doesn't seem to have enough IPs/Prefixes. Consider using new subnet or carve a reserved range using create-subnet-cidr-reservation")
	return true
}

// insufficient reports whether an error means that a subnet has too few addresses.
func insufficient(err error) bool {
	return hasCode(err, "InsufficientFreeAddressesInSubnet") || hasCode(err, "InsufficientCidrBlocks")
}

func hasCode(err error, code string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == code
}

// assign gets more addresses for the first interface that has room.
func (d *ipamd) assign(ctx context.Context) (grown bool, err error) {
	n := d.want()
	if n <= 0 {
		return false, nil
	}
	what := "IP addresses"
	if d.cfg.prefixes {
		what = "IPv4 prefix"
	}
	for _, e := range d.usable() {
		room := d.room(e)
		if room <= 0 {
			continue
		}
		err := d.call(ctx, node.Call{Action: node.ActionAssignAddresses, Interface: e.ID})
		var now node.PodInterface
		if err == nil {
			now, err = d.assignTo(ctx, e.ID, min(n, room))
			if err != nil && min(n, room) > 1 { // at least one
				now, err = d.assignTo(ctx, e.ID, 1)
			}
		}
		switch {
		case err == nil:
			i := slices.IndexFunc(d.enis, func(x node.PodInterface) bool { return x.ID == e.ID })
			d.enis[i] = now
			d.refill()
			return true, nil
		case hasCode(err, "PrivateIpAddressLimitExceeded"): // another call has added some
			before := d.pool.stats(nil).total
			return d.load(ctx) == nil && d.pool.stats(nil).total > before, nil
		case d.cfg.discover && insufficient(err):
			d.problem = err
		default:
			return false, fmt.Errorf("failed to allocate one %s on ENI %s, err: %w", what, e.ID, err)
		}
	}
	return false, nil
}

func (d *ipamd) assignTo(ctx context.Context, eni string, n int) (node.PodInterface, error) {
	addresses, prefixes := n, 0
	if d.cfg.prefixes {
		addresses, prefixes = 0, n
	}
	now, err := d.m.rt.cfg.PodNetwork.Assign(ctx, d.m.in, eni, addresses, prefixes, d.cfg.eniTags(d.m.in.ID))
	return now, asSDK("AssignPrivateIpAddresses", err)
}

// asSDK returns an error of EC2 as programs see it.
func asSDK(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("operation error EC2: %s, https response error StatusCode: 400, api error %w", operation, err)
}

// attach creates and attaches another interface.
func (d *ipamd) attach(ctx context.Context) error {
	n := min(d.want(), d.perENI())
	if n <= 0 {
		return nil
	}
	spec := node.PodInterfaceSpec{Addresses: n, Tags: d.cfg.eniTags(d.m.in.ID), Cluster: d.cfg.cluster}
	if d.cfg.prefixes {
		spec.Addresses, spec.Prefixes = 0, n
	}
	spec.Tags[tagCreated] = d.m.rt.clock.Now().UTC().Format(time.RFC3339)
	switch {
	case d.cfg.custom:
		var err error
		if spec.Subnet, spec.Groups, err = d.pod().eniConfig(ctx, &d.cfg); err != nil {
			return err
		}
	case d.cfg.discover:
		spec.Discover = d.call(ctx, node.Call{Action: node.ActionDescribeSubnets}) == nil
	}
	for _, c := range []node.Call{
		{Action: node.ActionCreateInterface, Subnet: spec.Subnet, Tags: spec.Tags},
		{Action: node.ActionDescribeInstances},
		{Action: node.ActionAttachInterface},
		{Action: node.ActionModifyInterface},
	} {
		if err := d.call(ctx, c); err != nil {
			return fmt.Errorf("AllocENI: failed to create ENI: %w", err)
		}
	}
	e, err := d.m.rt.cfg.PodNetwork.Attach(ctx, d.m.in, spec)
	if err != nil {
		return fmt.Errorf("AllocENI: failed to create ENI: %w", asSDK("CreateNetworkInterface", err))
	}
	d.enis = append(d.enis, e)
	d.refill()
	return nil
}

// maintain checks the pool and does what is due.
func (d *ipamd) maintain(ctx context.Context) {
	now := d.m.rt.clock.Now()
	d.due = time.Time{}
	at := func(t time.Time) {
		if d.due.IsZero() || t.Before(d.due) {
			d.due = t
		}
	}
	if d.cfg.noProvisioning || d.cfg.ipv6 {
		return
	}
	s := d.pool.stats(nil)
	switch _, over, targeted := d.target(s); {
	case d.tooLow():
		before := s.total
		if err := d.increase(ctx); err != nil {
			d.log("%v", err)
		}
		switch {
		case d.pool.stats(nil).total > before:
			at(now.Add(poolInterval))
		case d.problem != nil:
			at(later(d.full, now.Add(fullRetry)))
		}
	case over > 0, !targeted && d.cfg.prefixes && s.freeBlocks > d.cfg.warmPrefix:
		if next := d.decreased.Add(decreaseInterval); !d.decreased.IsZero() && now.Before(next) {
			at(next)
			break
		}
		if !targeted {
			over = s.freeBlocks - d.cfg.warmPrefix
		}
		d.decreased = now
		d.giveBack(ctx, over)
		at(now.Add(poolInterval))
	}
	if removed, next := d.removeENI(ctx, now); removed {
		at(now.Add(poolInterval))
	} else if !next.IsZero() {
		at(next)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// giveBack returns n addresses or prefixes to the subnet.
func (d *ipamd) giveBack(ctx context.Context, n int) {
	for _, e := range d.usable() {
		ips, blocks := d.pool.freeable(e.ID, n)
		if len(ips)+len(blocks) == 0 {
			continue
		}
		err := d.call(ctx, node.Call{Action: node.ActionUnassignAddresses, Interface: e.ID})
		if err == nil {
			err = d.m.rt.cfg.PodNetwork.Unassign(ctx, d.m.in, e.ID, ips, blocks)
		}
		if err != nil {
			d.log("Failed to free IPs %v from ENI %s: %s", ips, e.ID, err)
			continue
		}
		if n -= len(ips) + len(blocks); n <= 0 {
			break
		}
	}
	if err := d.load(ctx); err != nil {
		d.log("%v", err)
	}
}

// removeENI gives back one interface that no pod uses, or returns when one may be given back.
func (d *ipamd) removeENI(ctx context.Context, now time.Time) (removed bool, next time.Time) {
	if !d.tooManyENIs() {
		return false, time.Time{}
	}
	for _, e := range d.usable() {
		idle, cooled := d.pool.idle(e.ID)
		if e.Device == 0 || !idle || d.needed(e) {
			continue
		}
		if ready := later(e.Attached.Add(minENIAge), cooled); now.Before(ready) {
			if next.IsZero() || ready.Before(next) {
				next = ready
			}
			continue
		}
		for _, c := range []node.Call{
			{Action: node.ActionDescribeInterfaces, Interface: e.ID},
			{Action: node.ActionDetachInterface, Interface: e.ID, Attachment: e.Attachment},
			{Action: node.ActionDeleteInterface, Interface: e.ID},
		} {
			if err := d.call(ctx, c); err != nil {
				d.log("Failed to free ENI %s, err: %v", e.ID, err)
				return false, now.Add(decreaseInterval)
			}
		}
		if err := d.m.rt.cfg.PodNetwork.Remove(ctx, d.m.in, e.ID); err != nil {
			d.log("Failed to free ENI %s, err: %v", e.ID, err)
			return false, now.Add(decreaseInterval)
		}
		d.enis = slices.DeleteFunc(slices.Clone(d.enis), func(x node.PodInterface) bool { return x.ID == e.ID })
		d.refill()
		return true, time.Time{}
	}
	return false, next
}

// tooManyENIs reports whether one interface fewer might still meet the targets.
func (d *ipamd) tooManyENIs() bool {
	if d.cfg.warmIPs() {
		return true // needed decides
	}
	warm := d.cfg.warmENI
	if d.cfg.prefixes {
		return true
	}
	return d.pool.stats(nil).available() >= (warm+1)*d.perENI()
}

// needed reports whether the targets would be missed without an interface.
func (d *ipamd) needed(e node.PodInterface) bool {
	others := d.pool.stats(func(eni string) bool { return eni != e.ID })
	c := &d.cfg
	up := func(n int) int { return ceil(n, d.unit()) * d.unit() }
	return c.warmIP != 0 && others.available() < up(c.warmIP) ||
		c.minimumIP != 0 && others.total < up(c.minimumIP) ||
		c.prefixes && c.warmPrefix != 0 && others.freeBlocks < c.warmPrefix
}

// changed makes the pool due for a check soon.
func (d *ipamd) changed() {
	if t := d.m.rt.clock.Now().Add(poolInterval); d.due.IsZero() || t.Before(d.due) {
		d.due = t
	}
}

package elbnet

import (
	"context"
	"net/netip"
)

// A Probe is a health check of one target.
type Probe struct {
	// Interface is the load balancer's from which the check comes.
	Interface string
	// Instance is the target, or Address is.
	Instance string
	Address  netip.Addr
	Protocol string // TCP, SSL, HTTP, HTTPS, …
	Port     uint16
	Path     string
}

// A Finding is what a health check finds.
type Finding int

// The findings.
const (
	Unknown  Finding = iota // nobody can say
	Answers                 // as a healthy target does
	TimedOut                // no packet comes back
	Refused                 // nothing answers at the port, or the wrong thing
	// Unclaimed: packets get there, but nobody knows what runs there: the target is no
	// cluster's.
	Unclaimed
)

// A Prober makes health checks.
type Prober func(context.Context, Probe) Finding

// Prober returns what checks the health of targets for one request.
func (n *Network) Prober(ctx context.Context, account, region string) Prober {
	if n.Probes == nil {
		return func(context.Context, Probe) Finding { return Unknown }
	}
	return n.Probes(ctx, account, region)
}

// Unclaimed returns ask, and the instances of which it has found that they are no
// cluster's.
func (ask Prober) Unclaimed() (Prober, map[string]bool) {
	unclaimed := map[string]bool{}
	return func(ctx context.Context, p Probe) Finding {
		found := ask(ctx, p)
		unclaimed[p.Instance] = unclaimed[p.Instance] || found == Unclaimed
		return found
	}, unclaimed
}

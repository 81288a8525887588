package elbnet

import (
	"context"
	"net/netip"
)

// A Probe is a health check of one target.
type Probe struct {
	// Interface is the load balancer's interface from which the check comes.
	Interface string
	// Instance or Address is the target.
	Instance string
	Address  netip.Addr
	Protocol string // TCP, SSL, HTTP, HTTPS, …
	Port     uint16
	Path     string
}

// A Finding is the result of a health check.
type Finding int

// The findings.
const (
	Unknown  Finding = iota // it cannot be determined
	Answers                 // like a healthy target
	TimedOut                // no packet comes back
	Refused                 // nothing answers at the port, or the answer is wrong
	// Unclaimed means that packets arrive, but what runs there is unknown because the target belongs to no cluster.
	Unclaimed
)

// A Prober performs health checks.
type Prober func(context.Context, Probe) Finding

// Prober returns the health checks of one request.
func (n *Network) Prober(ctx context.Context, account, region string) Prober {
	if n.Probes == nil {
		return func(context.Context, Probe) Finding { return Unknown }
	}
	return n.Probes(ctx, account, region)
}

// Unclaimed wraps ask and also returns the set of instances found to belong to no cluster.
func (ask Prober) Unclaimed() (Prober, map[string]bool) {
	unclaimed := map[string]bool{}
	return func(ctx context.Context, p Probe) Finding {
		found := ask(ctx, p)
		unclaimed[p.Instance] = unclaimed[p.Instance] || found == Unclaimed
		return found
	}, unclaimed
}

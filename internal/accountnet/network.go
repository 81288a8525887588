// Package accountnet assembles the network of an account and region from all services:
// EC2's, with the names of clusters and load balancers, and what is broken in it. For a
// load balancer it says where a connection goes on to, and what its health checks find.
// How packets get through is decided by package reach; load balancers ask for their health
// checks through package elbnet.
//
// Where clusters and load balancers are found it reads from the store, so that a Network
// needs none of their services: load balancers ask it about the health of their targets.
// What a load balancer does with a connection it asks that service (Balanced). Only app
// imports it.
package accountnet

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is who makes the network.
type Config struct {
	Store *store.Store
	EC2   EC2
	// Faults are those in force.
	Faults        *fault.Set
	ControlPlanes ControlPlanes
	Log           *slog.Logger
}

// EC2 is what is asked of the service of that name.
type EC2 interface {
	Reach(ctx context.Context, account, region string) (*reach.Snapshot, error)
}

// ControlPlanes are those of clusters.
type ControlPlanes interface {
	// AtHost is the one behind AWS's name of an endpoint.
	AtHost(host string) (planeID string, ok bool)
	// Serving is how to ask one as its administrator; an error says that it does not serve.
	Serving(planeID string) (*rest.Config, error)
}

// A Network is the network of all accounts and regions.
type Network struct {
	cfg    Config
	health *healthProbes
}

// New returns a Network.
func New(cfg Config) *Network {
	n := &Network{cfg: cfg}
	n.health = &healthProbes{network: n.Snapshot, planes: n.planesByVPC, look: n.lookAtWorkloads, log: cfg.Log, known: map[string]*knownWorkloads{}}
	return n
}

// Probes are the health checks of one request.
func (n *Network) Probes(ctx context.Context, account, region string) elbnet.Prober {
	return n.health.checks(ctx, account, region)
}

// Snapshot is the current network of an account and region.
func (n *Network) Snapshot(ctx context.Context, account, region string) (*reach.Snapshot, error) {
	s, err := n.cfg.EC2.Reach(ctx, account, region)
	if err != nil {
		return nil, err
	}
	endpoints := eks.APIEndpoints(n.cfg.Store, account, region)
	balancers, err := n.balancers(account, region)
	if err != nil {
		return nil, err
	}
	broken := broken(n.cfg.Faults, account, region)
	if len(endpoints)+len(balancers)+len(broken) == 0 {
		return s, nil
	}
	draft := s.Edit()
	for _, f := range broken {
		draft.Put(f)
	}
	for _, e := range endpoints {
		draft.Put(hostName(s, e))
	}
	for _, b := range balancers {
		draft.Put(b)
	}
	return draft.Snapshot(), nil
}

// broken is what faults break in a network.
func broken(set *fault.Set, account, region string) []reach.Resource {
	var out []reach.Resource
	for _, x := range set.Network(account, region) {
		out = append(out, &reach.Fault{
			ID: x.ID, Instance: x.Instance, Zone: x.Zone, VPC: x.VPC,
			Metadata: x.Kind == fault.IMDS, DNS: x.Kind == fault.DNS, Text: x.Why(), Fix: x.Fix(),
		})
	}
	return out
}

// hostName is a cluster's endpoint in DNS.
func hostName(s *reach.Snapshot, e eks.APIEndpoint) *reach.HostName {
	h := &reach.HostName{Name: strings.ToLower(e.Host), Owner: e.ARN, PublicFrom: []netip.Prefix{}}
	for _, id := range e.Interfaces {
		if eni, ok := s.Get(id).(*reach.Interface); ok && len(eni.Addresses) > 0 {
			h.Private = append(h.Private, eni.Addresses[0].Private)
		}
	}
	if e.Private {
		h.VPC = e.VPCID
	}
	if e.Public {
		h.Public = []netip.Addr{reach.StableAddress(h.Name)}
		for _, c := range e.PublicCIDRs {
			if p, err := netip.ParsePrefix(c); err == nil {
				h.PublicFrom = append(h.PublicFrom, p)
			}
		}
	}
	return h
}

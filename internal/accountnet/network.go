// Package accountnet assembles the network of an account and region from all services: EC2's, with the names of
// clusters, load balancers and hosted zones, and the faults in it. It says where a load balancer forwards a connection, and what
// its health checks find. Package reach decides whether packets get through; load balancers run their health checks
// through package elbnet.
//
// It reads the locations of clusters and load balancers from the store, so a Network does not need their services,
// which ask it about the health of targets. Only Balanced calls those services, to learn what a load balancer does
// with a connection. Only app imports the package.
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

// Config is what a Network needs.
type Config struct {
	Store *store.Store
	EC2   EC2
	// Zones returns the hosted zones that answer in a region. It may be nil.
	Zones func(region string) []reach.Resource
	// Faults are the faults in force.
	Faults        *fault.Set
	ControlPlanes ControlPlanes
	Log           *slog.Logger
}

// EC2 is the part of the EC2 service that is needed here.
type EC2 interface {
	Reach(ctx context.Context, account, region string) (*reach.Snapshot, error)
}

// ControlPlanes are the clusters' control planes.
type ControlPlanes interface {
	// AtHost returns the control plane with the given AWS endpoint name.
	AtHost(host string) (planeID string, ok bool)
	// Serving returns an administrator's configuration for a control plane, or an error if it does not serve.
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

// Probes returns the health checks of one request.
func (n *Network) Probes(ctx context.Context, account, region string) elbnet.Prober {
	return n.health.checks(ctx, account, region)
}

// Snapshot returns the current network of an account and region.
func (n *Network) Snapshot(ctx context.Context, account, region string) (*reach.Snapshot, error) {
	s, err := n.cfg.EC2.Reach(ctx, account, region)
	if err != nil {
		return nil, err
	}
	endpoints := eks.APIEndpoints(n.cfg.Store, account, region)
	balancers := n.balancers(account, region)
	broken := broken(n.cfg.Faults, account, region)
	var zones []reach.Resource
	if n.cfg.Zones != nil {
		zones = n.cfg.Zones(region)
	}
	if len(endpoints)+len(balancers)+len(broken)+len(zones) == 0 {
		return s, nil
	}
	draft := s.Edit()
	for _, z := range zones {
		draft.Put(z)
	}
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

// broken returns what faults break in a network.
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

// hostName returns a cluster's endpoint as a name in DNS.
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

package app

import (
	"context"
	"net/netip"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// network is the network of an account and region, with the names of its clusters and
// load balancers.
func (d *daemon) network(ctx context.Context, account, region string) (*reach.Snapshot, error) {
	s, err := d.ec2.Reach(ctx, account, region)
	if err != nil {
		return nil, err
	}
	endpoints, err := d.eks.APIEndpoints(ctx, account, region)
	if err != nil {
		return nil, err
	}
	balancers, err := d.balancers(account, region)
	if err != nil {
		return nil, err
	}
	broken := d.faults.Network(account, region)
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

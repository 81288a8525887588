package app

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
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
	broken := d.faults.networkFaults(account, region)
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

// getWhyReach answers whether a connection can be made, and why.
func (d *daemon) getWhyReach(w http.ResponseWriter, r *http.Request) {
	q, err := parseReachQuery(r.URL.Query(), d.cfg.ClientAddress)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, err := d.network(r.Context(), q.account, q.region)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var v *reach.Verdict
	if q.name != "" {
		v = s.CheckName(q.flow, q.name)
	} else {
		v = s.Check(q.flow)
	}
	if v, err = d.through(r.Context(), q.account, q.region, s, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := d.clusterForHost(r.Context(), q, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, v)
}

// clusterForHost adds the endpoint's name where a cluster's was given for a host's.
func (d *daemon) clusterForHost(ctx context.Context, q reachQuery, v *reach.Verdict) error {
	if q.name == "" || len(v.Explanations) == 0 || v.Explanations[0].Code != reach.CodeName {
		return nil
	}
	endpoints, err := d.eks.APIEndpoints(ctx, q.account, q.region)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if strings.HasSuffix(e.ARN, ":cluster/"+q.name) {
			v.Explanations[0].Text += "; the endpoint of cluster " + q.name + " is " + e.Host
		}
	}
	return nil
}

// A reachQuery is what `drydock why reach` asks.
type reachQuery struct {
	account, region string
	flow            reach.Flow
	name            string // of the destination, if it is one
}

func parseReachQuery(v url.Values, client netip.Addr) (reachQuery, error) {
	q := reachQuery{account: v.Get("account"), region: v.Get("region")}
	if q.account == "" {
		q.account = awsapi.DefaultAccount
	}
	if q.region == "" {
		q.region = "us-east-1"
	}
	if !accountNumber.MatchString(q.account) {
		return q, fmt.Errorf("account must be 12 digits")
	}
	if !client.IsValid() {
		client = reach.Client
	}
	var err error
	if q.flow.Protocol, err = reach.ParseProtocol(v.Get("protocol")); err != nil || q.flow.Protocol < 0 {
		return q, fmt.Errorf("protocol %q is none of tcp, udp, icmp, icmpv6 and 0 to 255", v.Get("protocol"))
	}
	switch from := v.Get("from"); {
	case from == "":
		return q, fmt.Errorf("from is missing")
	case from == "laptop":
		q.flow.From = reach.Addr(client)
	default:
		if a, err := netip.ParseAddr(from); err == nil {
			q.flow.From = reach.Addr(a)
		} else {
			q.flow.From = reach.At(from)
			if strings.HasPrefix(from, "eice-") || strings.HasPrefix(from, "igw-") {
				q.flow.From.Address = client
			}
		}
	}
	to := v.Get("to")
	if p := v.Get("port"); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return q, fmt.Errorf("port %q is none", p)
		}
		q.flow.Port = uint16(n)
	}
	if a, err := netip.ParseAddr(to); err == nil {
		q.flow.To = reach.Addr(a)
	} else if resourceID(to) {
		q.flow.To = reach.At(to)
	} else if to == "" {
		return q, fmt.Errorf("to is missing")
	} else {
		q.name = to
	}
	return q, nil
}

// resourceID reports whether a destination is a resource: host names have dots.
func resourceID(s string) bool {
	for _, prefix := range []string{"i-", "eni-", "vpce-", "igw-"} {
		if strings.HasPrefix(s, prefix) && !strings.Contains(s, ".") {
			return true
		}
	}
	return false
}

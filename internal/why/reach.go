package why

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/reach"
)

// getWhyReach explains whether a connection can be made.
func (x *Explainer) getWhyReach(w http.ResponseWriter, r *http.Request) {
	q, err := parseReachQuery(r, x.cfg.ClientAddress)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := x.endpointAt(r.Context(), &q); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s, err := x.cfg.Network(r.Context(), q.account, q.region)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	q.flow.From = sourceAt(s, q.flow.From)
	var v *reach.Verdict
	if q.name != "" {
		v = s.CheckName(q.flow, q.name)
	} else {
		v = s.Check(q.flow)
	}
	if v, err = x.cfg.Through(r.Context(), q.account, q.region, s, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := x.clusterForHost(r.Context(), q, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	unknown, also := x.unknownReach(q.account, q.name, s, v)
	out := api.ReachExplanation{Verdict: *v, Unknown: unknown}
	switch {
	case len(unknown) > 0:
		out.Reachable = false
		httpapi.Answer(w, out)
		return
	case len(also) > 0:
		out.Note = "what else blocks the connection is unknown, and so is what would open it: " + strings.Join(also, "; ")
		httpapi.Answer(w, out)
		return
	}
	if err := x.networkPolicies(r.Context(), q.account, q.region, &out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !v.Reachable {
		out.Answer = advice.Network(s, advice.Connection{Needs: []advice.Need{{Flow: q.flow, Name: q.name}}, Through: x.through(r.Context(), q.account, q.region)})
	}
	httpapi.Answer(w, out)
}

// endpointAt maps the address of a cluster's listener on this machine, which DescribeCluster and kubeconfigs contain,
// to the endpoint that it stands for.
func (x *Explainer) endpointAt(ctx context.Context, q *reachQuery) error {
	if !q.flow.To.Address.IsLoopback() {
		return nil
	}
	clusters, err := x.cfg.EKS.Clusters(ctx)
	if err != nil {
		return err
	}
	endpoints, err := x.cfg.EKS.APIEndpoints(ctx, q.account, q.region)
	if err != nil {
		return err
	}
	listener := "https://" + netip.AddrPortFrom(q.flow.To.Address, q.flow.Port).String()
	for _, c := range clusters {
		if c.Account != q.account || c.Region != q.region || c.Endpoint != listener {
			continue
		}
		for _, e := range endpoints {
			if strings.HasSuffix(e.ARN, ":cluster/"+c.Name) {
				q.name, q.flow.To, q.flow.Port = e.Host, reach.Endpoint{}, 443
				return nil
			}
		}
	}
	return nil
}

// clusterForHost adds the endpoint's host name if a cluster's name was given instead.
func (x *Explainer) clusterForHost(ctx context.Context, q reachQuery, v *reach.Verdict) error {
	if q.name == "" || len(v.Explanations) == 0 || v.Explanations[0].Code != reach.CodeName {
		return nil
	}
	endpoints, err := x.cfg.EKS.APIEndpoints(ctx, q.account, q.region)
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

// A reachQuery is the question of `drydock why reach`.
type reachQuery struct {
	account, region string
	flow            reach.Flow
	name            string // the destination, if it is a host name
}

func parseReachQuery(r *http.Request, client netip.Addr) (q reachQuery, err error) {
	if q.account, q.region, err = httpapi.Place(r); err != nil {
		return q, err
	}
	if !client.IsValid() {
		client = reach.Client
	}
	v := r.URL.Query()
	if q.flow.Protocol, err = reach.ParseProtocol(v.Get("protocol")); err != nil || q.flow.Protocol < 0 {
		return q, fmt.Errorf("invalid protocol %q: want tcp, udp, icmp, icmpv6 or a number from 0 to 255", v.Get("protocol"))
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
			return q, fmt.Errorf("invalid port %q: want a number from 1 to 65535", p)
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

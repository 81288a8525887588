package why

import (
	"context"
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/netpolicy"
	"github.com/drydock-dev/drydock/internal/reach"
)

// sourceAt returns the source of a connection from a private address, such as a pod's: the network interface that has it, if there is
// one.
func sourceAt(s *reach.Snapshot, from reach.Endpoint) reach.Endpoint {
	if from.ID != "" || !from.Address.IsPrivate() {
		return from
	}
	var found []string
	for r := range s.All {
		if v, ok := r.(*reach.VPC); ok {
			if e := s.InterfaceAt(v.ID, from.Address); e != nil {
				found = append(found, e.ID)
			}
		}
	}
	if len(found) != 1 {
		return from
	}
	return reach.Endpoint{ID: found[0], Address: from.Address}
}

// networkPolicies makes a connection that the network allows unreachable if the network policies of a cluster drop it.
func (x *Explainer) networkPolicies(ctx context.Context, account, region string, out *api.ReachExplanation) error {
	v := &out.Verdict
	if !v.Reachable || !v.Source.IsValid() || !v.Destination.IsValid() {
		return nil
	}
	d, err := x.cfg.EKS.NetworkPolicyDrop(ctx, account, region, v.Source, v.Destination, v.Flow.Protocol.String(), v.Flow.Port)
	if err != nil || d == nil {
		return err
	}
	direction, pod := strings.ToLower(string(d.Direction)), d.Pod.Namespace+"/"+d.Pod.Name
	e := reach.Explanation{Code: reach.CodeNetworkPolicy, Kind: reach.KindNetworkPolicy, Direction: direction, Protocol: v.Flow.Protocol}
	var names []string
	for _, p := range d.Policies {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	end := fmt.Sprintf("%s %s", v.Source, v.Flow.Protocol)
	if direction == reach.Egress {
		end = fmt.Sprintf("%s %s", v.Destination, v.Flow.Protocol)
	}
	if v.Flow.Protocol.Ported() {
		end += fmt.Sprintf(" %d", v.Flow.Port)
	}
	if d.Denied != nil {
		e.Component = d.Denied.PolicyRef.Name
		e.Text = fmt.Sprintf("the ClusterNetworkPolicy %s of cluster %s (tier %s, priority %d) selects pod %s and denies %s for %s", e.Component, d.Cluster, d.Denied.Tier, d.Denied.Priority, pod, direction, end)
		fix := "a rule that accepts it in a ClusterNetworkPolicy with a lower priority number, or no rule that denies it"
		if d.Denied.Tier == netpolicy.Baseline {
			fix = "a NetworkPolicy of the namespace that selects the pod: it comes before the tier Baseline"
		}
		v.Reachable, v.Explanations = false, append(v.Explanations, e)
		out.Fixes = oneSketch(fix, "kubectl get clusternetworkpolicy -o yaml")
		return nil
	}
	e.Component = strings.Join(names, ", ")
	switch len(names) {
	case 0:
		e.Component = pod
		e.Text = fmt.Sprintf("no network policy of cluster %s selects pod %s, and the mode strict of the VPC CNI lets such pods send and receive nothing", d.Cluster, pod)
	case 1:
		e.Text = fmt.Sprintf("the network policy %s of cluster %s selects pod %s and has no %s rule for %s", names[0], d.Cluster, pod, direction, end)
	default:
		e.Text = fmt.Sprintf("the network policies %s of cluster %s select pod %s and have no %s rule for %s", e.Component, d.Cluster, pod, direction, end)
	}
	v.Reachable, v.Explanations = false, append(v.Explanations, e)
	out.Fixes = oneSketch("a network policy that allows it: policies add to one another", "kubectl get networkpolicy --namespace "+d.Pod.Namespace+" -o yaml")
	return nil
}

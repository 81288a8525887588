package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// whole extends each fix of the step at which a node is stuck with fixes for the problems that the node would meet
// next, so that it becomes Ready. known caches these fixes for similar nodes.
func (x *Explainer) whole(ctx context.Context, e *api.NodeExplanation, m *machine.Instance, steps []node.Step, known answers) {
	stuck := e.FirstFailed()
	if m == nil || m.Fargate || e.Ready || stuck == nil || stuck.Reason == nil || !slices.ContainsFunc(stuck.Reason.Fixes, func(f advice.Fix) bool { return f.Proven }) {
		return
	}
	key := fmt.Sprint("ahead of ", m.RoleARN, m.SubnetID, m.Interfaces[0].SecurityGroupIDs, m.Image.Family, stuck.Name, stuck.Reason.Component, string(m.UserData))
	a, ok := known[key]
	if !ok {
		ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: e.Account, Region: e.Region, Service: "eks"})
		a = x.ahead(ctx, e, m, steps, stuck.Reason)
		if known != nil && !ofOne(&a) {
			known[key] = a
		}
	}
	if stuck.Reason.By == node.ByIAM && !slices.ContainsFunc(stuck.Reason.Fixes, func(f advice.Fix) bool { return !permission(&f) || refused(&f, &a) }) {
		stuck.Reason.Fixes = nil
		stuck.Reason.Text += "\nThis has been allowed since, and the node tries again."
		return
	}
	for i := range stuck.Reason.Fixes {
		if f := &stuck.Reason.Fixes[i]; f.Proven {
			*f = extended(*f, a)
		}
	}
}

// permission reports whether a fix only changes the policies of a node's role.
func permission(f *advice.Fix) bool {
	return !slices.ContainsFunc(f.Changes, func(c advice.Change) bool {
		return c.Kind != advice.AttachPolicy && c.Kind != advice.PutPolicy && (c.Kind != advice.AddStatement || !strings.HasPrefix(c.Resource, "vpce-"))
	})
}

// refused reports whether anything that a fix allows is still denied.
func refused(f *advice.Fix, ahead *advice.Answer) bool {
	return slices.ContainsFunc(ahead.Fixes, func(o advice.Fix) bool { return overlap(f, &o) })
}

// overlap reports whether two fixes have a change in common.
func overlap(a, b *advice.Fix) bool {
	return slices.ContainsFunc(a.Changes, func(c advice.Change) bool { return slices.ContainsFunc(b.Changes, c.Equal) })
}

// extended returns a fix followed by the fixes ahead that share no change with it. A fix that replaces the instance
// comes last, because the new instance needs what the others allow.
func extended(f advice.Fix, ahead advice.Answer) advice.Fix {
	var more []advice.Fix
	for _, next := range ahead.Fixes {
		if !overlap(&f, &next) && (!next.Replaces || !f.Replaces) {
			more = append(more, next)
		}
	}
	chain := append([]advice.Fix{f}, more...)
	slices.SortStableFunc(chain, func(a, b advice.Fix) int { return replacements(&a) - replacements(&b) })
	out := chain[0]
	for _, next := range chain[1:] {
		out.Then(next)
	}
	if ahead.Note != "" {
		out.Lacks(ahead.Note)
	}
	return out
}

func replacements(f *advice.Fix) int {
	if f.Replaces {
		return 1
	}
	return 0
}

// ahead returns fixes for everything that would keep an instance from becoming Ready: its role's trust policy, the
// network, the cluster name in its user data, the mapping of its role, the role's policies, and the CNI plugin. The
// note names the first problem that has no fix. If the network is what stopped the instance, its fix already covers
// the whole network.
func (x *Explainer) ahead(ctx context.Context, e *api.NodeExplanation, m *machine.Instance, steps []node.Step, why *api.Reason) (out advice.Answer) {
	// Use the first proven alternative.
	add := func(what string, alternatives []advice.Fix) {
		i := slices.IndexFunc(alternatives, func(f advice.Fix) bool { return f.Proven })
		switch {
		case i >= 0:
			out.Fixes = append(out.Fixes, alternatives[i])
		case len(alternatives) > 0 && out.Note == "":
			out.Note = what
			if s := alternatives[0].Sketch; s != "" {
				out.Note += " (" + s + ")"
			}
		}
	}
	if m.RoleARN == "" {
		return out
	}
	add("EC2 may not assume "+m.RoleARN, x.trusting(m.RoleARN, "ec2.amazonaws.com"))
	who, err := x.principalOf(m.RoleARN)
	if err != nil {
		return out
	}
	if hosts, err := x.hostsOfNode(ctx, e.Account, e.Region, steps); err == nil && why.By != node.ByNetwork && x.cfg.Network != nil {
		if a, err := x.connect(ctx, e.Account, e.Region, node.Connection{From: e.Instance, Host: hosts[0], Port: 443}, steps); err == nil {
			add("the network", a.Fixes)
			if out.Note == "" {
				out.Note = a.Note
			}
		}
	}
	s, named := x.joins(e, m)
	cniHasRole := false
	if s != nil {
		if named != "" && named != s.Cluster {
			add("its user data names the cluster "+named, x.relaunch(e, m, named, s.Cluster))
		}
		add("the cluster does not take its role for a node's", x.admitted(ctx, e.Region, s))
		if id, err := x.cfg.EKS.ServiceAccountIdentity(ctx, s.Cluster, "kube-system", "aws-node"); err == nil {
			cniHasRole = id.RoleARN != "" || id.Association != nil
		}
	}
	ipv6 := false
	if c, err := userdata.Parse(m.Image.Family, m.UserData); err == nil {
		ipv6 = c.IPv6()
	}
	who.UserID, who.ARN = strings.TrimSuffix(who.UserID, "session")+m.ID, strings.TrimSuffix(who.ARN, "session")+m.ID
	calls := node.CallsToReady(e.Region, cniHasRole, ipv6)
	if action := why.Component; why.By == node.ByIAM && strings.HasPrefix(action, "ec2:") && !slices.ContainsFunc(calls, func(c node.Call) bool { return c.Action == action }) {
		calls = append(calls, node.Call{Action: action})
	}
	permissions, faults := x.cfg.Machines.Permit(ctx, *m, who, calls)
	for _, f := range permissions {
		add("the policies of "+m.RoleARN, []advice.Fix{f})
	}
	for _, f := range faults {
		add(f.Text, x.faultFixes(e.Account, e.Region, f.Component))
	}
	return out
}

// joins returns the cluster that an instance tries to join, and the cluster name in its user data.
func (x *Explainer) joins(e *api.NodeExplanation, m *machine.Instance) (s *node.Subject, named string) {
	if c, err := userdata.Parse(m.Image.Family, m.UserData); err == nil && c.Endpoint != "" {
		if plane, cluster, ok := x.cfg.PlaneAt(strings.TrimPrefix(c.Endpoint, "https://")); ok {
			return subject(plane, cluster, m.RoleARN, m), c.ClusterName
		}
	}
	if plane, err := x.planeOf(e); err == nil {
		return subject(plane, e.Cluster, m.RoleARN, m), ""
	}
	return nil, ""
}

// admitted returns fixes that make a cluster accept a role as a node role. It returns nil if the cluster already
// does.
func (x *Explainer) admitted(ctx context.Context, region string, s *node.Subject) []advice.Fix {
	err := x.cfg.EKS.TryNode(ctx, s.PlaneID, s.Role, entryType(s))
	refused, ok := errors.AsType[*eks.Refusal](err)
	if !ok {
		return nil
	}
	switch refused.Cause() {
	case eks.CauseStaleEntry, eks.CauseNotNodeEntry:
		return x.replaceEntry(region, s)
	case eks.CauseNotNode:
		return x.editAuth(ctx, s, "EC2_LINUX")
	}
	return x.mapRole(ctx, region, s)
}

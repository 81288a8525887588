package why

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// What the source of a twin did not tell makes verdicts unknown. The functions below return the reasons, and none if
// the verdict holds whatever the missing answers are.

// unknown returns what is missing of a twin, as far as it is relevant.
func (x *Explainer) unknown(account string, relevant func(recording.Gap) bool) []string {
	if x.cfg.Gaps == nil {
		return nil
	}
	var out []string
	for _, g := range x.cfg.Gaps(account) {
		if text := g.String(); relevant(g) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// filters are the operations that only tell what may pass at an interface or at the border of a subnet. What another
// filter blocks stays blocked, whatever these would have answered.
var filters = map[string][]string{
	"DescribeSecurityGroups": {reach.CodeGroupMismatch, reach.CodeGroupNoRules, reach.CodeGroupReferences},
	"DescribeNetworkAcls":    {reach.CodeACL},
}

// notTheNetwork are the operations of EC2 that tell nothing about reachability. The rules of security groups are also
// in the answer to DescribeSecurityGroups.
var notTheNetwork = []string{"DescribeSecurityGroupRules", "DescribeInstanceAttribute", "DescribeVolumes", "DescribeImages"}

// unknownReach returns what a verdict about a connection depends on and the source did not tell. name is the
// destination, if it is a host name. If the connection is certainly blocked, but perhaps by more than v says, it removes
// the explanations that are not certain and returns what is missing as also.
func (x *Explainer) unknownReach(account, name string, v *reach.Verdict) (out, also []string) {
	known := x.knownBlocks(account, v)
	text, err := json.Marshal(v)
	if err != nil {
		return []string{err.Error()}, nil
	}
	code := ""
	if len(v.Explanations) > 0 {
		code = v.Explanations[0].Code
	}
	out = x.unknown(account, func(g recording.Gap) bool {
		switch {
		case g.Service != "ec2" || slices.Contains(notTheNetwork, g.Operation):
			return false
		case g.Operation == "DescribeVpcAttribute":
			return name != ""
		case g.Code == recording.NotModelled && g.Operation == "DescribeRouteTables":
			// Only if the path ends at the route that cannot be followed.
			return strings.Contains(string(text), g.Subject) && (code == reach.CodeBadStateRoute || code == reach.CodeUnsupported || code == reach.CodeNoDestination)
		case g.Subject != "":
			return strings.Contains(string(text), g.Subject)
		}
		if _, filter := filters[g.Operation]; filter && len(known) > 0 {
			also = append(also, g.String())
			return false
		}
		return true
	})
	if len(out) == 0 && len(also) > 0 {
		v.Explanations = known
	}
	if x.cfg.Gaps != nil && x.cfg.IsTwin(account) && code == reach.CodeName {
		out = append(out, "hosted zones and load balancers are not imported, so "+name+" may exist")
	}
	return out, also
}

// knownBlocks returns the explanations of filters that the source did tell.
func (x *Explainer) knownBlocks(account string, v *reach.Verdict) []reach.Explanation {
	if x.cfg.Gaps == nil || v.Reachable {
		return nil
	}
	all := x.cfg.Gaps(account)
	var out []reach.Explanation
	for _, e := range v.Explanations {
		for operation, codes := range filters {
			if slices.Contains(codes, e.Code) && !slices.ContainsFunc(all, func(g recording.Gap) bool { return g.Operation == operation }) {
				out = append(out, e)
			}
		}
	}
	return out
}

// unknownPolicies returns what is missing of the policies of principals, given by their ARNs.
func (x *Explainer) unknownPolicies(account string, principals ...string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		return g.Service == "iam" && g.Operation != "GetOpenIDConnectProvider" && g.Operation != "ListOpenIDConnectProviders" &&
			(g.Subject == "" || slices.Contains(principals, g.Subject))
	})
}

// unknownRequest returns what a decision about a request depends on and the source did not tell. An explicit deny
// holds, whatever other policies say.
func (x *Explainer) unknownRequest(account, principal string, d policy.Decision) []string {
	if d.ExplicitDeny {
		return nil
	}
	return x.unknownPolicies(account, principal)
}

// unknownNode returns what a node's steps depend on and the source did not tell.
func (x *Explainer) unknownNode(account, instance, role string) []string {
	out := x.unknown(account, func(g recording.Gap) bool {
		switch {
		case g.Subject == instance || role != "" && g.Subject == role:
			return true
		case g.Subject != "":
			return false
		case g.Service == "ec2":
			return g.Operation != "DescribeSecurityGroupRules" && g.Operation != "DescribeVolumes"
		}
		return true
	})
	if x.cfg.Gaps != nil && x.cfg.IsTwin(account) {
		out = append(out, "clusters are not imported, so whether the node joins its cluster cannot be said")
	}
	return out
}

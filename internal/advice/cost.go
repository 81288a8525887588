package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A Cost is the cost of a change in points. Fixes are ranked by it, lowest first.
type Cost struct {
	// Privilege grows with the permissions that the change grants.
	Privilege int `json:"privilege"`
	// Reach grows with the connections that the change makes possible.
	Reach int `json:"reach"`
	// Effort covers everything else: what has to be created, replaced or restarted.
	Effort int `json:"effort,omitempty"`
	// Opens describes the new permissions and connections in words.
	Opens string `json:"opens,omitempty"`
}

func reaches(points int) Cost { return Cost{Reach: points} }

func effort(points int) Cost { return Cost{Effort: points} }

func (c Cost) total() int { return c.Privilege + c.Reach + c.Effort }

func (c Cost) plus(o Cost) Cost {
	out := Cost{Privilege: c.Privilege + o.Privilege, Reach: c.Reach + o.Reach, Effort: c.Effort + o.Effort, Opens: c.Opens}
	if o.Opens != "" && !slices.Contains(strings.Split(c.Opens, "; "), o.Opens) {
		out.Opens = strings.TrimPrefix(c.Opens+"; "+o.Opens, "; ")
	}
	return out
}

// String formats the cost as `drydock why` prints it.
func (c Cost) String() string {
	if c.Privilege+c.Reach == 0 {
		return "no privilege, no reach"
	}
	return fmt.Sprintf("privilege %d, reach %d: %s", c.Privilege, c.Reach, c.Opens)
}

// priced returns a copy of changes with their costs filled in.
func priced(changes []Change) []Change {
	out := slices.Clone(changes)
	for i := range out {
		out[i].price()
	}
	return out
}

// costOf returns the total cost of changes.
func costOf(changes []Change) (sum Cost) {
	for i := range changes {
		sum = sum.plus(changes[i].Cost)
	}
	return sum
}

// Rank sorts fixes by total cost, lowest first, and puts sketches last.
func Rank(fixes []Fix) []Fix {
	slices.SortStableFunc(fixes, func(a, b Fix) int {
		if a.Sketch != "" || b.Sketch != "" {
			return cmp.Compare(min(len(a.Sketch), 1), min(len(b.Sketch), 1))
		}
		return a.Cost.total() - b.Cost.total()
	})
	return fixes
}

// price fills in the cost of a change. The points of a change to the network depend on that network, so its proposer
// has already set them.
func (c *Change) price() {
	role := c.Resource[strings.LastIndexByte(c.Resource, '/')+1:]
	switch c.Kind {
	case AddRule:
		for _, r := range c.Rules {
			c.opens("%s %s %s, %s", c.Resource, map[bool]string{true: "may connect to", false: "lets in"}[r.Egress], peerOf(r.CIDR.String(), r.Group, r.PrefixList), ports(r.Protocol, r.Ports))
		}
	case AddEntry:
		c.opens("%s lets %s %s, %s", c.Resource, map[bool]string{true: "out to", false: "in from"}[c.Entry.Egress], c.Entry.CIDR, ports(c.Entry.Protocol, c.Entry.Ports))
	case DeleteEntry:
		c.opens("%s no longer denies %s %s, %s", c.Resource, way(c.Entry.Egress), c.Entry.CIDR, ports(c.Entry.Protocol, c.Entry.Ports))
	case AddRoute, ReplaceRoute:
		c.opens("subnets of %s reach %s by %s", c.Resource, cmp.Or(c.Route.PrefixList, c.Route.Destination.String()), c.Route.Target)
	case CreateGroup:
		for _, r := range c.Rules {
			c.opens("%s lets in %s, %s", c.Resource, peerOf(r.CIDR.String(), r.Group, r.PrefixList), ports(r.Protocol, r.Ports))
		}
	case CreateEndpoint:
		c.opens("%s reaches %s without the internet", c.VPC, c.Service)
	case AttachGateway:
		c.opens("%s has a way to the internet", c.VPC)
	case CreateNATGateway:
		c.opens("%s has a way to the internet through %s", c.VPC, c.Subnets[0])
	case AssociateAddress:
		c.opens("%s has a public address", c.Resource)
	case DisableCheck:
		c.opens("%s may forward packets of others", c.Resource)
	case AllowPublicAccess:
		c.opens("the public endpoint of %s lets in %s", c.Service, c.Value)
	case AcceptPeering, CreatePeering:
		c.opens("%s connects two VPCs", c.Resource)
	case AssociateTransit:
		c.opens("%s reaches what %s has routes to", c.Resource, c.Tables[0])
	case PropagateTransit:
		c.opens("VPCs that use %s reach the VPC of %s", c.Tables[0], c.Resource)
	case RouteTransit:
		c.opens("VPCs that use %s reach %s by %s", c.Resource, c.Route.Destination, c.Route.Target)
	case AddTransitSubnet:
		c.opens("the zone of %s reaches what %s does", c.Subnets[0], c.Resource)
	case AddStatement:
		c.Cost = grants(`{"Version":"2012-10-17","Statement":[`+c.Value+`]}`, short(c.Resource)[0]+": ")
	case PutPolicy:
		c.Cost = grants(c.Value, role+": ")
	case AttachPolicy:
		if p, ok := managedpolicies.Get(c.Value); ok {
			c.Cost = grants(p.Document, "")
			c.Cost.Opens = role + " may do what " + p.Name + " allows"
		}
	case CreateRole:
		c.Cost = grants(`{"Version":"2012-10-17","Statement":[`+c.Value+`]}`, "new role "+role+": ")
	case CreateProvider, AddAudience:
		c.Cost = Cost{Privilege: 1, Opens: "roles may trust tokens for " + c.Value}
	case MapRole, ReplaceMapping:
		c.Cost = Cost{Privilege: 2, Opens: "instances with role " + c.Value[strings.LastIndexByte(c.Value, '/')+1:] + " may become nodes of " + c.Resource}
	case EnableMetadata:
		c.Cost = Cost{Privilege: 1, Effort: 2, Opens: "programs on " + c.Resource + " get the credentials of its role"}
	case RunCommand:
		c.Cost = Cost{Privilege: 1, Effort: 1, Opens: "on " + c.Resource + ", " + c.Value}
	case SendKey:
		c.Cost = Cost{Privilege: 1, Opens: "the key logs in to " + c.Resource + " as " + c.Value + " for a minute"}
	case AssociateProfile:
		c.Cost = Cost{Privilege: 2, Opens: "programs on " + c.Resource + " get the credentials of the role of " + c.Value[strings.LastIndexByte(c.Value, '/')+1:]}
	case SetHopLimit:
		c.Cost = Cost{Privilege: 1, Opens: "pods on " + c.Resource + " get the credentials of its role"}
	case CreateGrant:
		c.Cost = Cost{Privilege: 3, Opens: c.Value[strings.LastIndexByte(c.Value, '/')+1:] + " may use the key " + c.Resource}
	case SetPodSecurity:
		c.Cost = Cost{Privilege: 10, Opens: "pods in " + c.Resource + " may have what the level " + c.Value + " allows"}
		if c.Value == "baseline" {
			c.Cost.Privilege = 5
		}
	case InstallAddon:
		c.Cost = Cost{Privilege: 1, Effort: 3, Opens: "the add-on " + c.Value + " gets its permissions in " + c.Resource}
	case ReplaceInstance, ScaleNodegroup:
		c.Cost = effort(5)
	case ReplaceNodegroup:
		c.Cost = effort(10)
	case DeleteObject:
		c.Cost = effort(2)
	case RaiseQuota, EnableKey, CreateObject, PatchObject, ClearFault, StartInstance, EnablePrivateDNS, AddRouteTable, EnableAttribute:
		c.Cost.Effort = max(c.Cost.Effort, 1)
	case RemoveTaint, RebootInstance:
		c.Cost = effort(3) // affects all pods
	}
}

func (c *Change) opens(format string, args ...any) {
	c.Cost = c.Cost.plus(Cost{Opens: fmt.Sprintf(format, args...)})
}

func peerOf(cidr, group, prefixList string) string { return cmp.Or(group, prefixList, cidr) }

func ports(p reach.Protocol, r reach.PortRange) string {
	switch {
	case p != reach.TCP && p != reach.UDP:
		return p.String()
	case r.From == r.To:
		return fmt.Sprintf("%s %d", p, r.From)
	}
	return fmt.Sprintf("%s %d-%d", p, r.From, r.To)
}

// grants returns the cost of a policy's Allow statements, which depends on their actions, resources and principals.
// Each statement's text begins with who.
func grants(document, who string) Cost {
	var out Cost
	for _, kind := range []policy.Kind{policy.Identity, policy.Resource, policy.Trust, policy.Endpoint} {
		doc, err := policy.Parse(kind, document)
		if err != nil {
			continue
		}
		for i := range doc.Statements {
			s := &doc.Statements[i]
			if s.Deny {
				continue
			}
			n := 0
			for _, a := range s.Actions {
				n += actionCost(a)
			}
			if s.NotActions != nil {
				n += actionCost("*")
			}
			widest := 1
			for _, r := range s.Resources {
				widest = max(widest, resourceCost(r))
			}
			if s.Principals != nil && s.Principals.All && len(s.Conditions) == 0 {
				widest *= 3
			}
			says := strings.Join(s.Actions, ", ")
			if len(s.Resources) > 0 {
				says += " on " + strings.Join(short(s.Resources...), ", ")
			}
			if p := s.Principals; p != nil && !p.All {
				says += " by " + strings.Join(short(slices.Concat(p.AWS, p.Service, p.Federated)...), ", ")
			}
			if len(s.Conditions) > 0 {
				says += " under conditions"
			}
			out = out.plus(Cost{Privilege: n * widest, Opens: who + says})
		}
		return out
	}
	return out
}

// short returns the resource part of each ARN.
func short(arns ...string) []string {
	out := make([]string, len(arns))
	for i, a := range arns {
		out[i] = a
		if parts := strings.SplitN(a, ":", 6); len(parts) == 6 && parts[0] == "arn" {
			out[i] = parts[5]
		}
	}
	return out
}

// actionCost returns 1 for a single action. A pattern costs more than listing the actions that it matches.
func actionCost(pattern string) int {
	switch {
	case strings.Trim(pattern, "*") == "":
		return 1_000_000
	case strings.HasSuffix(pattern, ":*"):
		return 500
	case strings.ContainsAny(pattern, "*?"):
		return 50
	}
	return 1
}

func resourceCost(pattern string) int {
	switch {
	case pattern == "*":
		return 6
	case strings.ContainsAny(pattern, "*?"):
		return 2
	}
	return 1
}

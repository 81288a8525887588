package why

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// filters are the operations that only tell what may pass at an interface or at the border of a subnet. What another
// filter blocks stays blocked, whatever these would have answered.
var filters = map[string][]string{
	"DescribeSecurityGroups": {reach.CodeGroupMismatch, reach.CodeGroupNoRules, reach.CodeGroupReferences},
	"DescribeNetworkAcls":    {reach.CodeACL},
}

// notTheNetwork are the operations of EC2 that tell nothing about reachability. The rules of security groups are also
// in the answer to DescribeSecurityGroups.
var notTheNetwork = []string{"DescribeSecurityGroupRules", "DescribeInstanceAttribute", "DescribeVolumes", "DescribeImages", "DescribeLaunchTemplates", "DescribeLaunchTemplateVersions", "GetConsoleOutput"}

// unknownReach returns what a verdict about a connection depends on and the source did not return. name is the
// destination, if it is a host name. If the connection is certainly blocked, but perhaps by more than v says, it removes
// the explanations that are not certain and returns what is missing as also.
func (x *Explainer) unknownReach(account, name string, s *reach.Snapshot, v *reach.Verdict) (out, also []string) {
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
		case g.Service == "route53":
			return name != "" && namesDepend(g, name, string(text), s.InterfaceOf(v.Flow.From))
		case g.Service != "ec2" || slices.Contains(notTheNetwork, g.Operation):
			return false
		case g.Operation == "DescribeVpcAttribute":
			return name != ""
		case g.Code == recording.NotModelled && g.Operation == "DescribeRouteTables":
			// Only if the path ends at the route that cannot be followed.
			return strings.Contains(string(text), g.Subject) && (code == reach.CodeBadStateRoute || code == reach.CodeUnsupported || code == reach.CodeNoDestination)
		case g.Code == recording.NotModelled && g.Operation == "SearchTransitGatewayRoutes":
			return strings.Contains(string(text), g.Subject) && (code == reach.CodeTransitBadRoute || code == reach.CodeTransitNoRoute)
		case g.Code == recording.NotModelled && g.Operation == "DescribeTransitGateways": // references to groups
			return strings.Contains(string(text), g.Subject) && slices.Contains(filters["DescribeSecurityGroups"], code)
		case blocksPublicAccess(g):
			return strings.Contains(string(text), "igw-") && (isIn(s.InterfaceOf(v.Flow.From), g.Subject) || isIn(s.InterfaceOf(v.Flow.To), g.Subject) || strings.Contains(string(text), g.Subject))
		case g.Subject != "":
			return strings.Contains(string(text), g.Subject)
		case strings.Contains(g.Operation, "TransitGateway"):
			from, to := s.InterfaceOf(v.Flow.From), s.InterfaceOf(v.Flow.To)
			return strings.Contains(string(text), "tgw-") || from != nil && to != nil && from.VPC != to.VPC
		}
		if _, filter := filters[g.Operation]; filter && len(known) > 0 {
			also = append(also, g.String())
			return false
		}
		return true
	})
	out = append(out, x.unknownBalancer(account, name, s, v, string(text))...)
	if len(out) == 0 && len(also) > 0 {
		v.Explanations = known
	}
	if x.cfg.Gaps != nil && x.cfg.IsTwin(account) && code == reach.CodeName && !strings.Contains(string(text), "private hosted zone") {
		out = append(out, "public zones are not imported, so "+name+" may exist")
	}
	return out, also
}

// blocksPublicAccess reports whether a gap is about a subnet with VPC Block Public Access, whose internet gateway lets less pass
// than its routes say.
func blocksPublicAccess(g recording.Gap) bool {
	return g.Code == recording.NotModelled && g.Operation == "DescribeSubnets"
}

// isIn reports whether an interface, if there is one, is in a subnet.
func isIn(e *reach.Interface, subnet string) bool { return e != nil && e.Subnet == subnet }

// namesDepend reports whether what a name resolves to depends on a gap of Route 53. text is the verdict, and from the interface
// that asks, or nil.
func namesDepend(g recording.Gap, name, text string, from *reach.Interface) bool {
	switch {
	case g.Operation == "ListHostedZonesByVPC" && g.Code == recording.NotModelled: // another owner's zone
		return strings.Contains(text, g.Message)
	case g.Operation == "ListHostedZonesByVPC":
		return from != nil && from.VPC == g.Subject
	case g.Subject == "": // a private zone may have any name
		return true
	}
	return within(name, strings.TrimSuffix(strings.TrimPrefix(g.Subject, "*."), "."))
}

// balancing are the operations that tell where a load balancer sends a connection.
var balancing = []string{"DescribeListeners", "DescribeRules", "DescribeTargetGroups", "DescribeTargetHealth"}

// unknownBalancer returns what the source did not return of the load balancer that a connection goes to. text is the verdict as
// JSON.
func (x *Explainer) unknownBalancer(account, name string, s *reach.Snapshot, v *reach.Verdict, text string) []string {
	to := s.InterfaceOf(v.Flow.To)
	named := reach.IsBalancerName(name)
	known := strings.Contains(text, `"loadBalancer":`) || to != nil && s.LoadBalancerOf(to.ID) != nil
	if !known && !named && (to == nil || to.Requester != elbnet.Requester) {
		return nil
	}
	reached := strings.Contains(text, `"kind":"`+reach.KindLoadBalancer+`"`)
	out := x.unknown(account, func(g recording.Gap) bool {
		return (g.Service == recording.ELB || g.Service == recording.ELBv2) && (!known && g.Operation == "DescribeLoadBalancers" || reached && slices.Contains(balancing, g.Operation))
	})
	if len(out) == 0 && !known && named && x.cfg.Gaps != nil && x.cfg.IsTwin(account) {
		out = append(out, name+" is not the name of a load balancer of the account in this region, so its addresses are unknown")
	}
	return out
}

// knownBlocks returns the explanations of filters that the source returned.
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

// hostsOfEKS are the hosts whose addresses decide about nodes and pods, but for the endpoint of the cluster.
func hostsOfEKS(region string) []string {
	at := "." + region + ".amazonaws.com"
	return []string{"ec2" + at, "eks" + at, "eks-auth." + region + ".api.aws", "sts" + at, "api.ecr" + at, addons.Registry(region), "prod-" + region + "-starport-layer-bucket.s3" + at}
}

// registriesOf are the hosts of the registries of a pod's images.
func registriesOf(pod *corev1.Pod) []string {
	var out []string
	if pod == nil {
		return nil
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		host, _, named := strings.Cut(c.Image, "/")
		if !named || !strings.ContainsAny(host, ".:") {
			host = "registry-1.docker.io"
		}
		host, _, _ = strings.Cut(host, ":")
		out = append(out, host)
	}
	return out
}

// vpcOf returns the VPC of an instance, or "" if it is not known.
func (x *Explainer) vpcOf(instance string) string {
	if m, err := x.cfg.Machines.Instance(instance); err == nil {
		return m.VPCID
	}
	return ""
}

// zonesDecide reports whether a refused read of Route 53 decides what some names, or the endpoint of a cluster, resolve to in a VPC,
// or in any if it is not known. Which zones answer in a VPC, whoever owns them, is also in the answer to
// ListHostedZonesByVPC.
func (x *Explainer) zonesDecide(g recording.Gap, account, vpc string, names []string) bool {
	switch {
	case g.Operation == "ListHostedZonesByVPC":
		return vpc == "" || g.Subject == vpc
	case g.Subject == "":
		return slices.ContainsFunc(x.cfg.Gaps(account), func(o recording.Gap) bool {
			return o.Operation == "ListHostedZonesByVPC" && o.Code != recording.NotModelled && (vpc == "" || o.Subject == vpc)
		})
	}
	zone := strings.TrimSuffix(strings.TrimPrefix(g.Subject, "*."), ".")
	return zone == "amazonaws.com" || zone == "com" || strings.HasSuffix(zone, "eks.amazonaws.com") || slices.ContainsFunc(names, func(n string) bool { return within(n, zone) })
}

// within reports whether a name is in a zone.
func within(name, zone string) bool {
	name = strings.TrimSuffix(name, ".")
	return name == zone || strings.HasSuffix(name, "."+zone)
}

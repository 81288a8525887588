package ec2

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/store"
)

// reachNames are the names of an interface endpoint: its own, that of the region
// first, and those it answers for in its VPC.
func (v vpcEndpointRecord) reachNames(r store.Reader, sc scope) (own, private []string) {
	service, ok := strings.CutPrefix(v.ServiceName, "com.amazonaws."+sc.region+".")
	if !ok {
		return nil, nil
	}
	// The parts are the other way round: ecr.api is api.ecr.REGION.amazonaws.com.
	parts := strings.Split(service, ".")
	slices.Reverse(parts)
	domain := strings.Join(parts, ".") + "." + sc.region
	if v.DNSSuffix != "" {
		own = []string{v.ID + "-" + v.DNSSuffix + "." + domain + ".vpce.amazonaws.com"}
		for _, id := range v.SubnetIDs {
			if sn, err := subnets.Get(r, sc.key(id)); err == nil {
				own = append(own, v.ID+"-"+v.DNSSuffix+"-"+sn.Zone+"."+domain+".vpce.amazonaws.com")
			}
		}
	}
	if !v.PrivateDNS {
		return own, nil
	}
	switch name := domain + ".amazonaws.com"; service {
	case "ecr.dkr", "s3", "execute-api":
		return own, []string{name, "*." + name}
	case "eks-auth":
		return own, []string{"eks-auth." + sc.region + ".api.aws"}
	default:
		return own, []string{name}
	}
}

// reachPrefixLists are AWS's own lists.
func reachPrefixLists(region string) []prefixListRecord {
	list := func(id, service string, p netip.Prefix) prefixListRecord {
		return prefixListRecord{ID: id, Name: "com.amazonaws." + region + "." + service, Versions: [][]prefixListEntry{{{CIDR: p.String()}}}}
	}
	return []prefixListRecord{
		list("pl-63a5400a", "s3", netip.MustParsePrefix("3.5.0.0/22")),
		list("pl-02cd2c6b", "dynamodb", netip.MustParsePrefix("52.94.0.0/22")),
	}
}

package instance

import (
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// interfaceFields are the DescribeNetworkInterfaces filters that DescribeInstances also has, keyed
// by their names there.
const interfaceFields = `addresses.association.allocation-id addresses.association.association-id addresses.association.public-ip addresses.primary
	addresses.private-ip-address association.allocation-id association.association-id association.ip-owner-id association.public-dns-name
	association.public-ip attachment.attachment-id attachment.delete-on-termination attachment.device-index attachment.instance-id
	attachment.instance-owner-id attachment.status availability-zone description group-id group-name ipv6-addresses.ipv6-address
	mac-address network-interface-id operator.managed operator.principal owner-id private-dns-name private-ip-address requester-id
	requester-managed source-dest-check status subnet-id vpc-id`

// addInterfaceFields adds filters on an instance's network interfaces.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
func (s *Service) addInterfaceFields(sc resource.Scope, out filter.Fields[record.Instance]) {
	type v = record.NetworkInterface
	add := func(name string, get func(v) []string) {
		out["network-interface."+name] = func(i record.Instance) []string {
			var all []string
			for _, e := range i.AttachedInterfaces(s.Store, sc) {
				all = append(all, get(e)...)
			}
			return all
		}
	}
	shared := s.interfaces.InterfaceFields(sc)
	for _, name := range strings.Fields(interfaceFields) {
		add(name, shared[name])
	}
	own := filter.Fields[v]{
		"addresses.association.carrier-ip":        filter.Never[v],
		"addresses.association.customer-owned-ip": filter.Never[v],
		"addresses.association.ip-owner-id":       shared["association.ip-owner-id"],
		"addresses.association.public-dns-name":   shared["association.public-dns-name"],
		"addresses.private-dns-name": resource.Each(func(e v) []string { return e.Addresses }, func(a string) string {
			return record.PrivateDNSName(sc.Region, a)
		}),
		"association.carrier-ip":         filter.Never[v],
		"association.customer-owned-ip":  filter.Never[v],
		"attachment.attach-time":         filter.One(func(e v) string { return resource.TimeText(e.Attachment.Time) }),
		"attachment.network-card-index":  filter.One(func(e v) string { return strconv.Itoa(int(e.Attachment.CardIndex)) }),
		"deny-all-igw-traffic":           filter.Flag(func(v) bool { return false }),
		"ipv4-prefixes.ipv4-prefix":      func(e v) []string { return e.Prefixes },
		"ipv6-address":                   func(e v) []string { return e.IPv6 },
		"ipv6-addresses.is-primary-ipv6": filter.Never[v],
		"ipv6-native":                    filter.Flag(func(e v) bool { return len(e.Addresses) == 0 }),
		"ipv6-prefixes.ipv6-prefix":      filter.Never[v],
		"outpost-arn":                    filter.Never[v],
		"public-dns-name":                shared["association.public-dns-name"],
		"tag-key":                        func(e v) []string { return e.Tags.Keys() },
		"tag-value":                      func(e v) []string { return e.Tags.Values() },
	}
	for name, get := range own {
		add(name, get)
	}
}

package ec2

import (
	"strconv"
	"strings"
)

// instanceInterfaceFields are the filters of DescribeNetworkInterfaces that
// DescribeInstances has too, by what its network interfaces are called there.
const instanceInterfaceFields = `addresses.association.allocation-id addresses.association.association-id addresses.association.public-ip addresses.primary
	addresses.private-ip-address association.allocation-id association.association-id association.ip-owner-id association.public-dns-name
	association.public-ip attachment.attachment-id attachment.delete-on-termination attachment.device-index attachment.instance-id
	attachment.instance-owner-id attachment.status availability-zone description group-id group-name ipv6-addresses.ipv6-address
	mac-address network-interface-id operator.managed operator.principal owner-id private-dns-name private-ip-address requester-id
	requester-managed source-dest-check status subnet-id vpc-id`

// addInterfaceFields adds the filters by an instance's network interfaces.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
func (s *Service) addInterfaceFields(sc scope, out fields[instanceRecord]) {
	type v = networkInterfaceRecord
	add := func(name string, get func(v) []string) {
		out["network-interface."+name] = func(i instanceRecord) []string {
			var all []string
			for _, e := range i.interfaces(s.store, sc) {
				all = append(all, get(e)...)
			}
			return all
		}
	}
	shared := s.networkInterfaceFields(sc)
	for _, name := range strings.Fields(instanceInterfaceFields) {
		add(name, shared[name])
	}
	own := fields[v]{
		"addresses.association.carrier-ip":        never[v],
		"addresses.association.customer-owned-ip": never[v],
		"addresses.association.ip-owner-id":       shared["association.ip-owner-id"],
		"addresses.association.public-dns-name":   shared["association.public-dns-name"],
		"addresses.private-dns-name": each(func(e v) []string { return e.Addresses }, func(a string) string {
			return privateDNSName(sc.region, a)
		}),
		"association.carrier-ip":         never[v],
		"association.customer-owned-ip":  never[v],
		"attachment.attach-time":         one(func(e v) string { return timeText(e.Attachment.Time) }),
		"attachment.network-card-index":  one(func(e v) string { return strconv.Itoa(int(e.Attachment.CardIndex)) }),
		"deny-all-igw-traffic":           flag(func(v) bool { return false }),
		"ipv4-prefixes.ipv4-prefix":      func(e v) []string { return e.Prefixes },
		"ipv6-address":                   func(e v) []string { return e.IPv6 },
		"ipv6-addresses.is-primary-ipv6": never[v],
		"ipv6-native":                    flag(func(v) bool { return false }),
		"ipv6-prefixes.ipv6-prefix":      never[v],
		"outpost-arn":                    never[v],
		"public-dns-name":                shared["association.public-dns-name"],
		"tag-key":                        func(e v) []string { return e.Tags.keys() },
		"tag-value":                      func(e v) []string { return e.Tags.values() },
	}
	for name, get := range own {
		add(name, get)
	}
}

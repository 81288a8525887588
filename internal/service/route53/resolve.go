package route53

import (
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/store"
)

// resolvable returns a zone in the form that package reach resolves.
//
// AWS deviation: the answers of a routing policy do not vary. A name has all addresses of its multivalue records, and
// otherwise those of one record: the one with the greatest weight, the primary one, or the first by its identifier.
func resolvable(z *zoneRecord, sets []route53types.ResourceRecordSet) *reach.HostedZone {
	out := &reach.HostedZone{ID: z.ID, Name: plain(z.Name), Records: map[string]reach.Record{}}
	for _, v := range z.VPCs {
		out.VPCs = append(out.VPCs, v.ID)
	}
	chosen := map[string]*route53types.ResourceRecordSet{} // by name and type
	for i := range sets {
		set := &sets[i]
		name := plain(*set.Name)
		rec := out.Records[name] // a name with any record exists
		switch set.Type {
		case route53types.RRTypeA, route53types.RRTypeAaaa, route53types.RRTypeCname:
			key := name + " " + string(set.Type)
			if before := chosen[key]; before != nil && !aws.ToBool(set.MultiValueAnswer) {
				if !preferred(set, before) {
					break
				}
				rec = without(rec, before)
			}
			chosen[key] = set
			rec = with(rec, set)
		}
		out.Records[name] = rec
	}
	return out
}

// zone returns the zone in the form that package reach resolves.
func (f *foreignRecord) zone(region string) *reach.HostedZone {
	out := &reach.HostedZone{ID: f.ID, Name: plain(f.Name), Unread: f.unread()}
	for _, v := range f.VPCs {
		if v.Region == region {
			out.VPCs = append(out.VPCs, v.ID)
		}
	}
	return out
}

// CNAME returns the target of a name's CNAME record, without a trailing dot, or "" if the record does not exist. It
// looks in the most specific public zones that contain the name. If several zones have the same name, it looks in all of
// them, because Drydock cannot know which one the name is delegated to.
func (s *Service) CNAME(name string) string {
	name = asked(name)
	var closest []store.Item[zoneRecord]
	for _, item := range zones.All(s.store, store.Scope{}) {
		switch z := &item.Value; {
		case z.Private || !within(name, z.Name) || len(closest) > 0 && len(z.Name) < len(closest[0].Value.Name):
		case len(closest) > 0 && len(z.Name) == len(closest[0].Value.Name):
			closest = append(closest, item)
		default:
			closest = []store.Item[zoneRecord]{item}
		}
	}
	for _, zone := range closest {
		b, _ := buckets.Get(s.store, zone.Key.Below(bucketOf(name)))
		for _, r := range b.Sets {
			if r.Name == name && r.Type == string(route53types.RRTypeCname) && len(r.Values) > 0 {
				return plain(asked(r.Values[0]))
			}
		}
	}
	return ""
}

// preferred reports whether a record set is preferred to another one with the same name and type.
func preferred(set, to *route53types.ResourceRecordSet) bool {
	return aws.ToInt64(set.Weight) > aws.ToInt64(to.Weight) ||
		set.Failover == route53types.ResourceRecordSetFailoverPrimary && to.Failover != route53types.ResourceRecordSetFailoverPrimary
}

func with(rec reach.Record, set *route53types.ResourceRecordSet) reach.Record {
	if a := set.AliasTarget; a != nil {
		// Clients put this prefix before a load balancer's name to get addresses of both families.
		rec.Target = strings.TrimPrefix(plain(*a.DNSName), "dualstack.")
		return rec
	}
	for _, r := range set.ResourceRecords {
		if set.Type == route53types.RRTypeCname {
			rec.Target = plain(asked(*r.Value))
		} else if a, err := netip.ParseAddr(*r.Value); err == nil {
			rec.Addresses = append(rec.Addresses, a)
		}
	}
	return rec
}

// without undoes with: it returns a record without what a set added to it.
func without(rec reach.Record, set *route53types.ResourceRecordSet) reach.Record {
	gone := with(reach.Record{}, set)
	out := reach.Record{Target: rec.Target}
	if gone.Target != "" {
		out.Target = ""
	}
	for _, a := range rec.Addresses {
		if len(gone.Addresses) == 0 || a.Is4() != gone.Addresses[0].Is4() {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

package route53

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

var importedID = regexp.MustCompile(`^Z[0-9A-Z]{1,31}$`)

// importRecords turns what another account's Route 53 answered into records: its private zones with their record sets, and
// the zones of others that answer in its VPCs, without records. Record sets whose answer depends on more than Drydock knows
// are left out, with a gap.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := ofAccount(r.Source.Account)
	var gaps []recording.Gap
	sets := map[string]map[string][]route53types.ResourceRecordSet{} // by zone and bucket
	count := map[string]int{}
	pages, err := recording.Pages[awsroute53.ListResourceRecordSetsInput, awsroute53.ListResourceRecordSetsOutput](r, "route53", "ListResourceRecordSets")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range pages {
		zone := bare(p.Input.HostedZoneId)
		for _, s := range p.Output.ResourceRecordSets {
			if s.Name == nil || s.AliasTarget != nil && (s.AliasTarget.DNSName == nil || s.AliasTarget.HostedZoneId == nil) {
				return nil, nil, fmt.Errorf("the source's answer to route53:ListResourceRecordSets: a record set of zone %s has no name or no target", zone)
			}
			if slices.ContainsFunc(s.ResourceRecords, func(r route53types.ResourceRecord) bool { return r.Value == nil }) {
				return nil, nil, fmt.Errorf("the source's answer to route53:ListResourceRecordSets: a record of %.255q has no value", *s.Name)
			}
			if s.GeoLocation != nil || s.GeoProximityLocation != nil || s.CidrRoutingConfig != nil || s.TrafficPolicyInstanceId != nil {
				gaps = append(gaps, recording.Gap{Service: "route53", Operation: "ListResourceRecordSets", Subject: plain(*s.Name), Code: recording.NotModelled, Message: "the answer of zone " + zone + " for " + *s.Name + " depends on who asks, which Drydock does not know"})
				continue
			}
			if sets[zone] == nil {
				sets[zone] = map[string][]route53types.ResourceRecordSet{}
			}
			b := bucketOf(*s.Name)
			sets[zone][b] = append(sets[zone][b], s)
			count[zone]++
		}
	}
	found, err := recording.Pages[awsroute53.GetHostedZoneInput, awsroute53.GetHostedZoneOutput](r, "route53", "GetHostedZone")
	if err != nil {
		return nil, nil, err
	}
	var writes []module.Write
	for _, p := range found {
		in := p.Output.HostedZone
		if in == nil || in.Name == nil || !importedID.MatchString(bare(in.Id)) {
			return nil, nil, fmt.Errorf("the source's answer to route53:GetHostedZone: it has no zone with an ID and a name")
		}
		z := zoneRecord{ID: bare(in.Id), Name: *in.Name, CallerReference: aws.ToString(in.CallerReference), Private: true, Created: r.Source.Started, Sets: count[bare(in.Id)]}
		z.Serial = rand.Int64() // another one than that of an earlier import, as views are kept by it
		if in.Config != nil {
			z.Comment = aws.ToString(in.Config.Comment)
		}
		for _, v := range p.Output.VPCs {
			z.VPCs = append(z.VPCs, vpcRecord{ID: aws.ToString(v.VPCId), Region: string(v.VPCRegion)})
		}
		writes = append(writes, module.Put(zones, sc.Key(z.ID), z))
		for b, s := range sets[z.ID] {
			writes = append(writes, module.Put(buckets, sc.Key(z.ID+"/"+b), bucketWith(s)))
		}
	}
	others, err := othersZones(r)
	for _, f := range others {
		writes = append(writes, module.Put(foreigns, sc.Key(f.ID), *f))
		gaps = append(gaps, recording.Gap{Service: "route53", Operation: "ListHostedZonesByVPC", Subject: f.ID, Code: recording.NotModelled, Message: f.unread()})
	}
	return writes, gaps, err
}

// othersZones returns the zones of other accounts and of AWS's services. Only their names and owners can be read.
// https://docs.aws.amazon.com/Route53/latest/APIReference/API_ListHostedZonesByVPC.html
func othersZones(r *recording.Recording) ([]*foreignRecord, error) {
	pages, err := recording.Pages[awsroute53.ListHostedZonesByVPCInput, awsroute53.ListHostedZonesByVPCOutput](r, "route53", "ListHostedZonesByVPC")
	if err != nil {
		return nil, err
	}
	var out []*foreignRecord
	for _, p := range pages {
		for _, z := range p.Output.HostedZoneSummaries {
			id := bare(z.HostedZoneId)
			if z.Name == nil || z.Owner == nil || !importedID.MatchString(id) {
				return nil, errors.New("the source's answer to route53:ListHostedZonesByVPC: a zone has no ID, name or owner")
			}
			if aws.ToString(z.Owner.OwningAccount) == r.Source.Account {
				continue
			}
			i := slices.IndexFunc(out, func(f *foreignRecord) bool { return f.ID == id })
			if i < 0 {
				i = len(out)
				out = append(out, &foreignRecord{ID: id, Name: strings.TrimSuffix(*z.Name, ".") + ".", Account: aws.ToString(z.Owner.OwningAccount), Service: aws.ToString(z.Owner.OwningService)})
			}
			out[i].VPCs = append(out[i].VPCs, vpcRecord{ID: aws.ToString(p.Input.VPCId), Region: string(p.Input.VPCRegion)})
		}
	}
	return out, nil
}

package cloudformation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

const hostedZone = "AWS::Route53::HostedZone"

func route53Handlers() map[string]handler {
	const ofRecord = "HostedZoneId HostedZoneName Comment ResourceRecords"
	return map[string]handler{
		hostedZone: made(handler{
			inPlace: "HostedZoneConfig HostedZoneTags VPCs", update: updateZone,
			find:   findZone,
			settle: settleZone,
			read: func(r *request) (map[string]any, error) {
				z, err := call[awsroute53.GetHostedZoneOutput](r, &awsroute53.GetHostedZoneInput{Id: &r.id})
				if err != nil || z.DelegationSet == nil { // a private zone has no delegation set
					return map[string]any{"Id": r.id}, err
				}
				return map[string]any{"Id": r.id, "NameServers": z.DelegationSet.NameServers}, nil
			},
			remove: one[awsroute53.DeleteHostedZoneOutput](func(r *request) any { return &awsroute53.DeleteHostedZoneInput{Id: &r.id} }),
		}, "HostedZoneTags VPCs", func(r *request, in *awsroute53.CreateHostedZoneInput) {
			in.CallerReference = &r.token
			if all := r.zoneVPCs(); len(all) > 0 { // settleZone associates the other VPCs
				in.VPC = &all[0]
			}
		}, func(_ *request, out *awsroute53.CreateHostedZoneOutput) *string { return zoneID(out.HostedZone.Id) }),
		"AWS::Route53::RecordSet": {
			input: &route53types.ResourceRecordSet{}, own: ofRecord,
			inPlace: "AliasTarget CidrRoutingConfig Comment Failover GeoLocation GeoProximityLocation HealthCheckId MultiValueAnswer Region ResourceRecords SetIdentifier TTL Type Weight",
			find:    func(r *request) (string, error) { return r.findRecords(r.text("Name")) },
			create: func(r *request) (string, error) {
				return r.text("Name"), r.changeRecords(route53types.ChangeActionCreate, r)
			},
			update: updateRecords, read: idAs("Id"), remove: removeRecords,
		},
		"AWS::Route53::RecordSetGroup": {
			input: &struct {
				RecordSets []route53types.ResourceRecordSet
			}{}, own: "HostedZoneId HostedZoneName Comment RecordSets", inPlace: "Comment RecordSets",
			find: func(r *request) (string, error) { return r.findRecords(r.generated(r.o.rec.Name, 255)) },
			create: func(r *request) (string, error) {
				return r.generated(r.o.rec.Name, 255), r.changeRecords(route53types.ChangeActionCreate, r)
			},
			update: updateRecords, read: idAs("Id"), remove: removeRecords,
		},
	}
}

// zoneID returns the ID in the path that Route 53 returns for a zone.
func zoneID(id *string) *string {
	return aws.String(strings.TrimPrefix(aws.ToString(id), "/hostedzone/"))
}

func findZone(r *request) (string, error) {
	in := &awsroute53.ListHostedZonesInput{}
	for {
		out, err := call[awsroute53.ListHostedZonesOutput](r, in)
		if err != nil {
			return "", err
		}
		for _, z := range out.HostedZones {
			if aws.ToString(z.CallerReference) == r.token {
				return *zoneID(z.Id), nil
			}
		}
		if !out.IsTruncated {
			return "", nil
		}
		in.Marker = out.NextMarker
	}
}

func (r *request) zoneVPCs() (out []route53types.VPC) {
	list, _ := r.props.Get("VPCs").([]any)
	for _, e := range list {
		m, _ := e.(*template.Map)
		out = append(out, route53types.VPC{VPCId: aws.String(text(m, "VPCId")), VPCRegion: route53types.VPCRegion(text(m, "VPCRegion"))})
	}
	return out
}

// settleZone associates a zone's VPCs and sets its tags.
func settleZone(r *request) error {
	z, err := call[awsroute53.GetHostedZoneOutput](r, &awsroute53.GetHostedZoneInput{Id: &r.id})
	if err != nil {
		return err
	}
	same := func(a route53types.VPC) func(route53types.VPC) bool {
		return func(b route53types.VPC) bool { return aws.ToString(a.VPCId) == aws.ToString(b.VPCId) }
	}
	want := r.zoneVPCs()
	for _, v := range want {
		if !slices.ContainsFunc(z.VPCs, same(v)) {
			if _, err := call[awsroute53.AssociateVPCWithHostedZoneOutput](r, &awsroute53.AssociateVPCWithHostedZoneInput{HostedZoneId: &r.id, VPC: &v}); err != nil {
				return err
			}
		}
	}
	for _, v := range z.VPCs {
		if r.was != nil && r.changed("VPCs") && !slices.ContainsFunc(want, same(v)) {
			if _, err := call[awsroute53.DisassociateVPCFromHostedZoneOutput](r, &awsroute53.DisassociateVPCFromHostedZoneInput{HostedZoneId: &r.id, VPC: &v}); err != nil {
				return err
			}
		}
	}
	set, gone := r.tags(), []string(nil)
	if r.was != nil {
		set, gone = r.tagChanges()
	}
	if len(set)+len(gone) == 0 {
		return nil
	}
	in := &awsroute53.ChangeTagsForResourceInput{ResourceId: &r.id, ResourceType: route53types.TagResourceTypeHostedzone, RemoveTagKeys: gone}
	for _, t := range set {
		in.AddTags = append(in.AddTags, route53types.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err = call[awsroute53.ChangeTagsForResourceOutput](r, in)
	return err
}

// updateZone changes a zone's comment; settleZone changes the rest.
func updateZone(r *request) error {
	if !r.changed("HostedZoneConfig") {
		return nil
	}
	config, _ := r.props.Get("HostedZoneConfig").(*template.Map)
	_, err := call[awsroute53.UpdateHostedZoneCommentOutput](r, &awsroute53.UpdateHostedZoneCommentInput{Id: &r.id, Comment: aws.String(text(config, "Comment"))})
	return err
}

// recordZone returns the ID of the zone in a record set's properties.
func (r *request) recordZone() (*string, error) {
	if id := r.text("HostedZoneId"); id != "" {
		return zoneID(&id), nil
	}
	name := r.text("HostedZoneName")
	out, err := call[awsroute53.ListHostedZonesByNameOutput](r, &awsroute53.ListHostedZonesByNameInput{DNSName: &name})
	if err != nil {
		return nil, err
	}
	zones := slices.DeleteFunc(out.HostedZones, func(z route53types.HostedZone) bool { return aws.ToString(z.Name) != name })
	if len(zones) != 1 {
		return nil, fmt.Errorf("found %d hosted zones with the name %s, want one; the name must end with a period", len(zones), name) // our own wording
	}
	return zoneID(zones[0].Id), nil
}

// recordSets returns the record sets of a RecordSet or of a RecordSetGroup.
func (r *request) recordSets() ([]route53types.ResourceRecordSet, error) {
	if r.typ == "AWS::Route53::RecordSet" {
		set, err := r.recordSet(r.props, "", "HostedZoneId", "HostedZoneName", "Comment")
		return []route53types.ResourceRecordSet{set}, err
	}
	var out []route53types.ResourceRecordSet
	list, _ := r.props.Get("RecordSets").([]any)
	for _, e := range list {
		m, ok := e.(*template.Map)
		if !ok {
			return nil, r.wrongType("RecordSets", "List of Map")
		}
		set, err := r.recordSet(m, "RecordSets.")
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

func (r *request) recordSet(m *template.Map, path string, other ...string) (set route53types.ResourceRecordSet, err error) {
	err = r.fillWith(&set, m, append(other, "ResourceRecords"), path)
	values, _ := m.Get("ResourceRecords").([]any)
	for _, v := range values {
		value, _ := template.Text(v)
		set.ResourceRecords = append(set.ResourceRecords, route53types.ResourceRecord{Value: &value})
	}
	return set, err
}

func (r *request) changeRecords(action route53types.ChangeAction, of *request) error {
	sets, err := of.recordSets()
	if err != nil {
		return err
	}
	batch := &route53types.ChangeBatch{}
	for _, set := range sets {
		batch.Changes = append(batch.Changes, route53types.Change{Action: action, ResourceRecordSet: &set})
	}
	return r.submitRecords(batch)
}

func (r *request) submitRecords(batch *route53types.ChangeBatch) error {
	if len(batch.Changes) == 0 {
		return nil
	}
	zone, err := r.recordZone()
	if err != nil {
		return err
	}
	if comment := r.text("Comment"); comment != "" {
		batch.Comment = &comment
	}
	_, err = call[awsroute53.ChangeResourceRecordSetsOutput](r, &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: zone, ChangeBatch: batch})
	return err
}

// sameRecord reports whether two record sets have the same name, type and identifier.
func sameRecord(a, b *route53types.ResourceRecordSet) bool {
	name := func(set *route53types.ResourceRecordSet) string {
		return strings.ToLower(strings.TrimSuffix(aws.ToString(set.Name), "."))
	}
	return name(a) == name(b) && a.Type == b.Type && aws.ToString(a.SetIdentifier) == aws.ToString(b.SetIdentifier)
}

// existingRecord returns the record set in the zone that has the name, type and identifier of set, or nil if there is
// none.
func (r *request) existingRecord(zone *string, set *route53types.ResourceRecordSet) (*route53types.ResourceRecordSet, error) {
	out, err := call[awsroute53.ListResourceRecordSetsOutput](r, &awsroute53.ListResourceRecordSetsInput{
		HostedZoneId: zone, StartRecordName: set.Name, StartRecordType: set.Type, StartRecordIdentifier: set.SetIdentifier, MaxItems: aws.Int32(1),
	})
	if err != nil || len(out.ResourceRecordSets) == 0 || !sameRecord(set, &out.ResourceRecordSets[0]) {
		return nil, err
	}
	return &out.ResourceRecordSets[0], nil
}

// findRecords returns id if the first of the record sets exists.
func (r *request) findRecords(id string) (string, error) {
	zone, err := r.recordZone()
	if err != nil {
		return "", err
	}
	sets, err := r.recordSets()
	if err != nil || len(sets) == 0 {
		return "", err
	}
	is, err := r.existingRecord(zone, &sets[0])
	if err != nil || is == nil {
		return "", err
	}
	return id, nil
}

// updateRecords sets the record sets of the new version and deletes those that only the old version has, in one
// change batch.
func updateRecords(r *request) error {
	before, err := r.was.recordSets()
	if err != nil {
		return err
	}
	sets, err := r.recordSets()
	if err != nil {
		return err
	}
	zone, err := r.recordZone()
	if err != nil {
		return err
	}
	batch := &route53types.ChangeBatch{}
	for _, old := range before {
		if slices.ContainsFunc(sets, func(set route53types.ResourceRecordSet) bool { return sameRecord(&set, &old) }) {
			continue
		}
		is, err := r.existingRecord(zone, &old)
		if err != nil {
			return err
		}
		if is != nil {
			batch.Changes = append(batch.Changes, route53types.Change{Action: route53types.ChangeActionDelete, ResourceRecordSet: is})
		}
	}
	for _, set := range sets {
		batch.Changes = append(batch.Changes, route53types.Change{Action: route53types.ChangeActionUpsert, ResourceRecordSet: &set})
	}
	return r.submitRecords(batch)
}

// removeRecords deletes the record sets that still exist.
func removeRecords(r *request) error {
	zone, err := r.recordZone()
	if err != nil {
		return err
	}
	sets, err := r.recordSets()
	if err != nil {
		return err
	}
	batch := &route53types.ChangeBatch{}
	for _, set := range sets {
		is, err := r.existingRecord(zone, &set)
		if err != nil {
			return err
		}
		if is != nil {
			batch.Changes = append(batch.Changes, route53types.Change{Action: route53types.ChangeActionDelete, ResourceRecordSet: is})
		}
	}
	return r.submitRecords(batch)
}

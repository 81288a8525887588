package route53

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxZones is the default quota. https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/DNSLimitations.html
const maxZones = 500

// reserved are domains that cannot have a public zone.
var reserved = map[string]bool{"example.com.": true, "example.net.": true, "example.org.": true}

// CreateHostedZone creates a public zone, or a private one for a VPC.
func (s *Service) CreateHostedZone(ctx context.Context, in *awsroute53.CreateHostedZoneInput) (*awsroute53.CreateHostedZoneOutput, error) {
	name, p := normalized(*in.Name)
	if p != nil {
		return nil, errDomain(p)
	}
	z := zoneRecord{ID: newID("Z0", 21), Name: name, CallerReference: *in.CallerReference, Created: s.now(), Sets: 2, VPCs: []vpcRecord{}}
	if c := in.HostedZoneConfig; c != nil {
		z.Comment, z.Private = aws.ToString(c.Comment), c.PrivateZone
	}
	if in.VPC != nil {
		v, err := s.vpc(ctx, in.VPC)
		if err != nil {
			return nil, err
		}
		z.Private, z.VPCs = true, []vpcRecord{v}
	}
	switch {
	case z.Private && len(z.VPCs) == 0:
		return nil, errPrivateWithoutVPC()
	case !z.Private && reserved[name]:
		return nil, errReservedDomain(name)
	}
	z.NameServers = nameServers(&z)
	sc := caller(ctx)
	var change changeRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		all := zones.All(tx, sc.All())
		if len(all) >= maxZones {
			return errManyZones()
		}
		for _, other := range all {
			if other.Value.CallerReference == z.CallerReference {
				return errZoneExists()
			}
		}
		if z.Private {
			if err := conflicting(tx, z.VPCs[0], &z); err != nil {
				return err
			}
		}
		if err := zones.Put(tx, sc.Key(z.ID), z); err != nil {
			return err
		}
		if err := buckets.Put(tx, sc.Key(z.ID+"/"+bucketOf(z.Name)), bucketWith(apex(&z))); err != nil {
			return err
		}
		var err error
		change, err = s.record(tx, sc, "")
		return err
	})
	out := &awsroute53.CreateHostedZoneOutput{
		HostedZone: z.shown(), ChangeInfo: change.pending(), Location: aws.String("https://route53.amazonaws.com/2013-04-01/hostedzone/" + z.ID), VPC: in.VPC,
	}
	if !z.Private {
		out.DelegationSet = &route53types.DelegationSet{NameServers: z.NameServers}
	}
	return out, err
}

// nameServers returns the name servers of a zone. Private zones all have the same ones, which never answer.
func nameServers(z *zoneRecord) []string {
	if z.Private {
		return []string{"ns-0.awsdns-00.com", "ns-512.awsdns-00.net", "ns-1024.awsdns-00.org", "ns-1536.awsdns-00.co.uk"}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(z.ID)) // never fails
	n := h.Sum32()
	return []string{
		fmt.Sprintf("ns-%d.awsdns-%02d.com", n%512, n%64), fmt.Sprintf("ns-%d.awsdns-%02d.net", 512+n%512, (n>>6)%64),
		fmt.Sprintf("ns-%d.awsdns-%02d.org", 1024+n%512, (n>>12)%64), fmt.Sprintf("ns-%d.awsdns-%02d.co.uk", 1536+n%512, (n>>18)%64),
	}
}

// apex returns the record sets of a new zone.
func apex(z *zoneRecord) []route53types.ResourceRecordSet {
	var ns []route53types.ResourceRecord
	for _, n := range z.NameServers {
		ns = append(ns, route53types.ResourceRecord{Value: aws.String(n + ".")})
	}
	soa := z.NameServers[0] + ". awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400"
	return []route53types.ResourceRecordSet{
		{Name: &z.Name, Type: route53types.RRTypeNs, TTL: aws.Int64(172800), ResourceRecords: ns},
		{Name: &z.Name, Type: route53types.RRTypeSoa, TTL: aws.Int64(900), ResourceRecords: []route53types.ResourceRecord{{Value: &soa}}},
	}
}

func (z *zoneRecord) shown() *route53types.HostedZone {
	out := &route53types.HostedZone{
		Id: aws.String("/hostedzone/" + z.ID), Name: &z.Name, CallerReference: &z.CallerReference, ResourceRecordSetCount: aws.Int64(int64(z.Sets)),
		Config: &route53types.HostedZoneConfig{PrivateZone: z.Private},
	}
	if z.Comment != "" {
		out.Config.Comment = &z.Comment
	}
	return out
}

// GetHostedZone describes a zone with its name servers or VPCs.
func (s *Service) GetHostedZone(ctx context.Context, in *awsroute53.GetHostedZoneInput) (*awsroute53.GetHostedZoneOutput, error) {
	z, err := s.zone(s.store, caller(ctx), in.Id)
	if err != nil {
		return nil, err
	}
	out := &awsroute53.GetHostedZoneOutput{HostedZone: z.shown()}
	if !z.Private {
		out.DelegationSet = &route53types.DelegationSet{NameServers: z.NameServers}
	}
	for _, v := range z.VPCs {
		out.VPCs = append(out.VPCs, v.shown())
	}
	return out, nil
}

func (v vpcRecord) shown() route53types.VPC {
	return route53types.VPC{VPCId: &v.ID, VPCRegion: route53types.VPCRegion(v.Region)}
}

// own returns the caller's zones, sorted by ID.
func (s *Service) own(ctx context.Context) []zoneRecord {
	var out []zoneRecord
	for _, item := range zones.All(s.store, caller(ctx).All()) {
		out = append(out, item.Value)
	}
	return out
}

// page cuts a list to MaxItems and returns the first element of the next page.
func page[T any](all []T, size *int32, usual int32) (some []T, next *T, most int32, err error) {
	if most = usual; size != nil {
		if *size <= 0 {
			return nil, nil, 0, errMaxItems()
		}
		most = min(*size, usual)
	}
	if len(all) > int(most) {
		return all[:most], &all[most], most, nil
	}
	return all, nil, most, nil
}

// ListHostedZones lists zones by ID.
func (s *Service) ListHostedZones(ctx context.Context, in *awsroute53.ListHostedZonesInput) (*awsroute53.ListHostedZonesOutput, error) {
	all := s.own(ctx)
	if m := aws.ToString(in.Marker); m != "" {
		i := slices.IndexFunc(all, func(z zoneRecord) bool { return z.ID == bare(in.Marker) })
		if i < 0 {
			return nil, errMarker(m)
		}
		all = all[i:]
	}
	if in.HostedZoneType == route53types.HostedZoneTypePrivateHostedZone {
		all = slices.DeleteFunc(all, func(z zoneRecord) bool { return !z.Private })
	}
	some, next, most, err := page(all, in.MaxItems, 100)
	out := &awsroute53.ListHostedZonesOutput{HostedZones: []route53types.HostedZone{}, Marker: in.Marker, MaxItems: &most, IsTruncated: next != nil}
	for _, z := range some {
		out.HostedZones = append(out.HostedZones, *z.shown())
	}
	if next != nil {
		out.NextMarker = &next.ID
	}
	return out, err
}

// ListHostedZonesByName lists zones by name, starting at a given one.
func (s *Service) ListHostedZonesByName(ctx context.Context, in *awsroute53.ListHostedZonesByNameInput) (*awsroute53.ListHostedZonesByNameOutput, error) {
	all := s.own(ctx)
	slices.SortFunc(all, func(a, b zoneRecord) int {
		return cmp.Or(strings.Compare(reversed(a.Name), reversed(b.Name)), strings.Compare(a.ID, b.ID))
	})
	if in.DNSName != nil {
		from := reversed(asked(*in.DNSName))
		all = slices.DeleteFunc(all, func(z zoneRecord) bool {
			c := strings.Compare(reversed(z.Name), from)
			return c < 0 || c == 0 && in.HostedZoneId != nil && z.ID < bare(in.HostedZoneId)
		})
	}
	some, next, most, err := page(all, in.MaxItems, 100)
	out := &awsroute53.ListHostedZonesByNameOutput{HostedZones: []route53types.HostedZone{}, DNSName: in.DNSName, HostedZoneId: in.HostedZoneId, MaxItems: &most, IsTruncated: next != nil}
	for _, z := range some {
		out.HostedZones = append(out.HostedZones, *z.shown())
	}
	if next != nil {
		out.NextDNSName, out.NextHostedZoneId = &next.Name, &next.ID
	}
	return out, err
}

// ListHostedZonesByVPC lists the zones, of any account, that answer in a VPC.
func (s *Service) ListHostedZonesByVPC(ctx context.Context, in *awsroute53.ListHostedZonesByVPCInput) (*awsroute53.ListHostedZonesByVPCOutput, error) {
	if _, err := s.vpc(ctx, &route53types.VPC{VPCId: in.VPCId, VPCRegion: in.VPCRegion}); err != nil {
		return nil, err
	}
	vpc := vpcRecord{ID: *in.VPCId, Region: string(in.VPCRegion)}
	var all []foreignRecord
	for _, item := range zones.All(s.store, store.Scope{}) {
		if item.Value.answersIn(vpc) {
			all = append(all, foreignRecord{ID: item.Value.ID, Name: item.Value.Name, Account: item.Key.Account})
		}
	}
	for _, item := range foreigns.All(s.store, caller(ctx).All()) {
		if f := item.Value; contains(f.VPCs, vpc) && !slices.ContainsFunc(all, func(z foreignRecord) bool { return z.ID == f.ID }) {
			all = append(all, f)
		}
	}
	all = slices.DeleteFunc(all, func(z foreignRecord) bool { return z.ID <= aws.ToString(in.NextToken) })
	slices.SortFunc(all, func(a, b foreignRecord) int { return strings.Compare(a.ID, b.ID) })
	some, next, most, err := page(all, in.MaxItems, 100)
	out := &awsroute53.ListHostedZonesByVPCOutput{HostedZoneSummaries: []route53types.HostedZoneSummary{}, MaxItems: &most}
	for _, z := range some {
		owner := &route53types.HostedZoneOwner{OwningAccount: &z.Account}
		if z.Service != "" {
			owner = &route53types.HostedZoneOwner{OwningService: &z.Service}
		}
		out.HostedZoneSummaries = append(out.HostedZoneSummaries, route53types.HostedZoneSummary{HostedZoneId: &z.ID, Name: &z.Name, Owner: owner})
		if next != nil {
			out.NextToken = &z.ID
		}
	}
	return out, err
}

// GetHostedZoneCount returns the number of the caller's zones.
func (s *Service) GetHostedZoneCount(ctx context.Context, _ *awsroute53.GetHostedZoneCountInput) (*awsroute53.GetHostedZoneCountOutput, error) {
	return &awsroute53.GetHostedZoneCountOutput{HostedZoneCount: aws.Int64(int64(len(s.own(ctx))))}, nil
}

// UpdateHostedZoneComment replaces a zone's comment.
func (s *Service) UpdateHostedZoneComment(ctx context.Context, in *awsroute53.UpdateHostedZoneCommentInput) (*awsroute53.UpdateHostedZoneCommentOutput, error) {
	var out zoneRecord
	err := s.changeZone(ctx, in.Id, func(z *zoneRecord) error {
		z.Comment = aws.ToString(in.Comment)
		out = *z
		return nil
	})
	return &awsroute53.UpdateHostedZoneCommentOutput{HostedZone: out.shown()}, err
}

// DeleteHostedZone deletes a zone that has only its own NS and SOA records.
func (s *Service) DeleteHostedZone(ctx context.Context, in *awsroute53.DeleteHostedZoneInput) (*awsroute53.DeleteHostedZoneOutput, error) {
	sc := caller(ctx)
	var change changeRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		z, err := s.zone(tx, sc, in.Id)
		if err != nil {
			return err
		}
		for _, set := range setsOf(tx, sc, z.ID) {
			if *set.Name != z.Name || set.Type != route53types.RRTypeNs && set.Type != route53types.RRTypeSoa {
				return errZoneNotEmpty()
			}
		}
		for _, b := range buckets.All(tx, sc.Below(z.ID)) {
			buckets.Delete(tx, b.Key)
		}
		zones.Delete(tx, sc.Key(z.ID))
		change, err = s.record(tx, sc, "")
		return err
	})
	return &awsroute53.DeleteHostedZoneOutput{ChangeInfo: change.pending()}, err
}

// GetDNSSEC reports that a zone is not signed.
func (s *Service) GetDNSSEC(ctx context.Context, in *awsroute53.GetDNSSECInput) (*awsroute53.GetDNSSECOutput, error) {
	_, err := s.zone(s.store, caller(ctx), in.HostedZoneId)
	return &awsroute53.GetDNSSECOutput{KeySigningKeys: []route53types.KeySigningKey{}, Status: &route53types.DNSSECStatus{ServeSignature: aws.String("NOT_SIGNING")}}, err
}

// vpc checks, on behalf of the user, that a VPC exists.
func (s *Service) vpc(ctx context.Context, in *route53types.VPC) (vpcRecord, error) {
	v := vpcRecord{ID: aws.ToString(in.VPCId), Region: string(in.VPCRegion)}
	if v.ID == "" || v.Region == "" {
		return v, errVPCMembers()
	}
	call := *awsapi.CallFrom(ctx)
	call.Region = v.Region
	_, err := s.ec2.DescribeVpcs(awsapi.WithCall(ctx, &call), &awsec2.DescribeVpcsInput{VpcIds: []string{v.ID}})
	switch code := awserr.CodeOf(err); {
	case err == nil || awsapi.IsThrottle(err):
		return v, err
	case code == "UnauthorizedOperation":
		return v, errDenied(err)
	case strings.HasPrefix(code, "InvalidVpc"):
		return v, errNoVPC()
	}
	return v, err
}

func (z *zoneRecord) answersIn(v vpcRecord) bool {
	return contains(z.VPCs, v)
}

// conflicting returns an error if another zone with the same name answers in a VPC.
func conflicting(r store.Reader, v vpcRecord, z *zoneRecord) error {
	for _, other := range zones.All(r, store.Scope{}) {
		if other.Value.ID != z.ID && other.Value.Name == z.Name && other.Value.answersIn(v) {
			return errConflictingZone(v, z.Name)
		}
	}
	return nil
}

// AssociateVPCWithHostedZone lets a private zone answer in another VPC. If another account owns the zone, it must have
// authorized the VPC.
func (s *Service) AssociateVPCWithHostedZone(ctx context.Context, in *awsroute53.AssociateVPCWithHostedZoneInput) (*awsroute53.AssociateVPCWithHostedZoneOutput, error) {
	v, err := s.vpc(ctx, in.VPC)
	if err != nil {
		return nil, err
	}
	sc := caller(ctx)
	var change changeRecord
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		z, owner, err := s.anyZone(tx, in.HostedZoneId)
		if err != nil {
			return err
		}
		if owner != sc {
			if !slices.ContainsFunc(z.Authorized, func(o vpcRecord) bool { return o.ID == v.ID && o.Region == v.Region }) {
				return errNotAuthorized(v)
			}
			v.Account = sc.Account
		}
		if !z.Private {
			return errPublicZone(z.ID, v)
		}
		if z.answersIn(v) {
			return errConflictingZone(v, z.Name)
		}
		if err := conflicting(tx, v, &z); err != nil {
			return err
		}
		z.VPCs, z.Serial = append(slices.Clone(z.VPCs), v), z.Serial+1
		if err := zones.Put(tx, owner.Key(z.ID), z); err != nil {
			return err
		}
		change, err = s.record(tx, sc, aws.ToString(in.Comment))
		return err
	})
	return &awsroute53.AssociateVPCWithHostedZoneOutput{ChangeInfo: change.pending()}, err
}

// DisassociateVPCFromHostedZone stops a private zone from answering in a VPC. The owner of either may do that.
func (s *Service) DisassociateVPCFromHostedZone(ctx context.Context, in *awsroute53.DisassociateVPCFromHostedZoneInput) (*awsroute53.DisassociateVPCFromHostedZoneOutput, error) {
	v := vpcRecord{ID: aws.ToString(in.VPC.VPCId), Region: string(in.VPC.VPCRegion)}
	if v.ID == "" || v.Region == "" {
		return nil, errVPCMembers()
	}
	sc := caller(ctx)
	var change changeRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		z, owner, err := s.anyZone(tx, in.HostedZoneId)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(z.VPCs, func(o vpcRecord) bool {
			return o.ID == v.ID && o.Region == v.Region && (owner == sc || o.Account == sc.Account)
		})
		switch {
		case i < 0 && owner != sc:
			return errNoZone(z.ID)
		case i < 0:
			return errNotAssociated(v, z.ID)
		case len(z.VPCs) == 1:
			return errLastVPC()
		}
		z.VPCs, z.Serial = slices.Delete(slices.Clone(z.VPCs), i, i+1), z.Serial+1
		if err := zones.Put(tx, owner.Key(z.ID), z); err != nil {
			return err
		}
		change, err = s.record(tx, sc, aws.ToString(in.Comment))
		return err
	})
	return &awsroute53.DisassociateVPCFromHostedZoneOutput{ChangeInfo: change.pending()}, err
}

// CreateVPCAssociationAuthorization authorizes another account's VPC to be associated with a zone.
func (s *Service) CreateVPCAssociationAuthorization(ctx context.Context, in *awsroute53.CreateVPCAssociationAuthorizationInput) (*awsroute53.CreateVPCAssociationAuthorizationOutput, error) {
	v := vpcRecord{ID: aws.ToString(in.VPC.VPCId), Region: string(in.VPC.VPCRegion)}
	if v.ID == "" || v.Region == "" {
		return nil, errVPCMembers()
	}
	err := s.changeZone(ctx, in.HostedZoneId, func(z *zoneRecord) error {
		if !slices.Contains(z.Authorized, v) {
			z.Authorized = append(slices.Clone(z.Authorized), v)
		}
		return nil
	})
	return &awsroute53.CreateVPCAssociationAuthorizationOutput{HostedZoneId: aws.String(bare(in.HostedZoneId)), VPC: in.VPC}, err
}

// DeleteVPCAssociationAuthorization withdraws an authorization. It does not end an association.
func (s *Service) DeleteVPCAssociationAuthorization(ctx context.Context, in *awsroute53.DeleteVPCAssociationAuthorizationInput) (*awsroute53.DeleteVPCAssociationAuthorizationOutput, error) {
	v := vpcRecord{ID: aws.ToString(in.VPC.VPCId), Region: string(in.VPC.VPCRegion)}
	err := s.changeZone(ctx, in.HostedZoneId, func(z *zoneRecord) error {
		i := slices.Index(z.Authorized, v)
		if i < 0 {
			return errNoAuthorization()
		}
		z.Authorized = slices.Delete(slices.Clone(z.Authorized), i, i+1)
		return nil
	})
	return &awsroute53.DeleteVPCAssociationAuthorizationOutput{}, err
}

// ListVPCAssociationAuthorizations lists the VPCs that may be associated with a zone.
func (s *Service) ListVPCAssociationAuthorizations(ctx context.Context, in *awsroute53.ListVPCAssociationAuthorizationsInput) (*awsroute53.ListVPCAssociationAuthorizationsOutput, error) {
	z, err := s.zone(s.store, caller(ctx), in.HostedZoneId)
	if err != nil {
		return nil, err
	}
	some, next, err := paging.Cut(paging.Rules{Usual: 50, Question: z.ID, BadToken: errToken}, z.Authorized, func(v vpcRecord) string { return v.Region + " " + v.ID }, in.MaxResults, in.NextToken)
	out := &awsroute53.ListVPCAssociationAuthorizationsOutput{HostedZoneId: &z.ID, VPCs: []route53types.VPC{}, NextToken: next}
	for _, v := range some {
		out.VPCs = append(out.VPCs, v.shown())
	}
	return out, err
}

package ec2

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A peeringRecord joins two VPCs. Each side's account and region holds a copy,
// equal but for its tags; one in a VPC's own account and region is one record.
type peeringRecord struct {
	ID        string // pcx-…
	Requester peeringSide
	Accepter  peeringSide
	State     ec2types.VpcPeeringConnectionStateReasonCode // only active ones carry traffic
	Message   string
	Since     time.Time
	// Expires is when a request that nobody accepted ends.
	Expires time.Time `json:",omitzero"`
	Tags    Tags      `json:",omitempty"`
}

type peeringSide struct {
	Account, Region string
	VPCID           string
	CIDR            string // primary block when the connection was requested
	// AllowDNS lets the other side's VPC resolve this side's public host names to
	// private addresses: AllowDnsResolutionFromRemoteVpc.
	AllowDNS bool `json:",omitempty"`
}

// requestLifetime is how long a request waits to be accepted.
// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html#vpc-peering-lifecycle
const requestLifetime = 7 * 24 * time.Hour

const overlapMessage = "Failed due to incorrect VPC-ID, Account ID, or overlapping CIDR range"

func peeringKind() kindOf[peeringRecord] {
	return kindOf[peeringRecord]{peerings, peeringID, func(p *peeringRecord) (string, *Tags) { return p.ID, &p.Tags }}
}

func (d peeringSide) scope() scope { return scope{d.Account, d.Region} }

func (p peeringRecord) active() bool {
	return p.State == ec2types.VpcPeeringConnectionStateReasonCodeActive
}

// live reports whether the connection carries traffic or may come to.
func (p peeringRecord) live() bool {
	return p.active() || p.State == ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance
}

// side returns the side of a VPC; nil if it is none.
func (p *peeringRecord) side(sc scope, vpc string) *peeringSide {
	for _, d := range []*peeringSide{&p.Requester, &p.Accepter} {
		if d.scope() == sc && d.VPCID == vpc {
			return d
		}
	}
	return nil
}

// other returns the side that is not a VPC's.
func (p peeringRecord) other(sc scope, vpc string) peeringSide {
	if p.Requester.scope() == sc && p.Requester.VPCID == vpc {
		return p.Accepter
	}
	return p.Requester
}

// put writes both copies of a connection; those there are keep their tags.
func (p peeringRecord) put(tx *store.Tx) error {
	for i, sc := range []scope{p.Requester.scope(), p.Accepter.scope()} {
		if i == 1 && sc == p.Requester.scope() {
			break
		}
		mine := p
		old, err := peerings.Get(tx, sc.key(p.ID))
		switch {
		case err == nil:
			mine.Tags = old.Tags
		case !notFound(err):
			return err
		case i == 1:
			mine.Tags = nil
		}
		if err := peerings.Put(tx, sc.key(p.ID), mine); err != nil {
			return err
		}
	}
	return nil
}

// peeredBlocks returns the blocks of the VPCs that a VPC is or may be peered with.
func peeredBlocks(r store.Reader, sc scope, vpc string) ([]netip.Prefix, error) {
	all, err := list(r, peerings, sc, func(p peeringRecord) bool { return p.live() && p.side(sc, vpc) != nil })
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, p := range all {
		o := p.other(sc, vpc)
		v, err := vpcs.Get(r, o.scope().key(o.VPCID))
		if notFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(append(out, v.prefixes()...), v.prefixes6()...)
	}
	return out, nil
}

// activePeering finds the active connection between a VPC and another.
func activePeering(r store.Reader, sc scope, vpc string, peer scope, peerVPC string) (peeringRecord, bool, error) {
	all, err := list(r, peerings, sc, func(p peeringRecord) bool {
		o := p.other(sc, vpc)
		return p.active() && p.side(sc, vpc) != nil && o.scope() == peer && o.VPCID == peerVPC
	})
	if err != nil || len(all) == 0 {
		return peeringRecord{}, false, err
	}
	return all[0], true, nil
}

func (s *Service) sdkPeeringSide(d peeringSide, shown, active bool) *ec2types.VpcPeeringConnectionVpcInfo {
	out := &ec2types.VpcPeeringConnectionVpcInfo{OwnerId: aws.String(d.Account), Region: aws.String(d.Region), VpcId: aws.String(d.VPCID)}
	if !shown {
		return out
	}
	out.CidrBlock = aws.String(d.CIDR)
	if v, err := vpcs.Get(s.store, d.scope().key(d.VPCID)); err == nil {
		for _, b := range v.blocks() {
			out.CidrBlockSet = append(out.CidrBlockSet, ec2types.CidrBlock{CidrBlock: aws.String(b.CIDR)})
		}
		for _, b := range v.IPv6 {
			out.Ipv6CidrBlockSet = append(out.Ipv6CidrBlockSet, ec2types.Ipv6CidrBlock{Ipv6CidrBlock: aws.String(b.CIDR)})
		}
	}
	if active {
		out.PeeringOptions = d.options()
	}
	return out
}

func (d peeringSide) options() *ec2types.VpcPeeringConnectionOptionsDescription {
	return &ec2types.VpcPeeringConnectionOptionsDescription{
		AllowDnsResolutionFromRemoteVpc:            aws.Bool(d.AllowDNS),
		AllowEgressFromLocalClassicLinkToRemoteVpc: aws.Bool(false),
		AllowEgressFromLocalVpcToRemoteClassicLink: aws.Bool(false),
	}
}

// sdkPeering renders a connection. What the accepter's VPC looks like is shown
// once it has accepted.
func (s *Service) sdkPeering(p peeringRecord) ec2types.VpcPeeringConnection {
	out := ec2types.VpcPeeringConnection{
		VpcPeeringConnectionId: aws.String(p.ID),
		RequesterVpcInfo:       s.sdkPeeringSide(p.Requester, true, p.active()),
		AccepterVpcInfo:        s.sdkPeeringSide(p.Accepter, p.active() || p.Accepter.scope() == p.Requester.scope(), p.active()),
		Status:                 &ec2types.VpcPeeringConnectionStateReason{Code: p.State, Message: aws.String(p.Message)},
		Tags:                   p.Tags.sdk(),
	}
	if p.State == ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance {
		out.ExpirationTime = aws.Time(p.Expires)
	}
	return out
}

// enter puts a connection into a state.
func (s *Service) enterPeering(p *peeringRecord, state ec2types.VpcPeeringConnectionStateReasonCode, message string) {
	p.State, p.Message, p.Since = state, message, s.now()
}

// CreateVpcPeeringConnection asks for a connection with a VPC. One that cannot
// be becomes failed, as on AWS:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcPeeringConnection.html
// One that was asked for already is answered as it is; the same two VPCs the other
// way around are a second request, which cannot be accepted.
// https://github.com/hashicorp/terraform-provider-aws/issues/27750
// https://github.com/ansible-collections/community.aws/issues/580
func (s *Service) CreateVpcPeeringConnection(ctx context.Context, in *awsec2.CreateVpcPeeringConnectionInput) (*awsec2.CreateVpcPeeringConnectionOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.PeerVpcId == nil {
		return nil, errMissing("peerVpcId")
	}
	peer := sc
	if in.PeerOwnerId != nil {
		peer.account = *in.PeerOwnerId
	}
	if in.PeerRegion != nil {
		peer.region = *in.PeerRegion
	}
	if _, ok := regions.Lookup(peer.region); !ok {
		return nil, errUnknownRegion(peer.region)
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeVpcPeeringConnection)
	if err != nil {
		return nil, err
	}
	var p peeringRecord
	there := false
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		there = false
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		all, err := list(tx, peerings, sc, func(o peeringRecord) bool { return o.live() })
		if err != nil {
			return err
		}
		outstanding := 0
		for _, o := range all {
			if o.Requester.scope() == sc && o.Requester.VPCID == v.ID && o.Accepter.scope() == peer && o.Accepter.VPCID == *in.PeerVpcId {
				p, there = o, true
				return nil
			}
			if !o.active() {
				outstanding++
			}
		}
		if err := checkQuota(tx, sc, quotaPeeringRequests, outstanding+1, errLimit("OutstandingVpcPeeringConnectionLimitExceeded", "outstanding VPC peering connection requests")); err != nil {
			return err
		}
		p = peeringRecord{
			ID:        ids.Resource("pcx"),
			Requester: peeringSide{Account: sc.account, Region: sc.region, VPCID: v.ID, CIDR: v.CIDR},
			Accepter:  peeringSide{Account: peer.account, Region: peer.region, VPCID: *in.PeerVpcId},
			Expires:   s.now().Add(requestLifetime), Tags: tags,
		}
		s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance, "Pending Acceptance by "+peer.account)
		other, err := vpcs.Get(tx, peer.key(*in.PeerVpcId))
		switch {
		case notFound(err) && peer == sc:
			return vpcID.notFound(*in.PeerVpcId)
		case notFound(err):
			s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodeFailed, overlapMessage)
			return peerings.Create(tx, sc.key(p.ID), p) // nobody is there to see the other copy
		case err != nil:
			return err
		}
		p.Accepter.CIDR = other.CIDR
		if overlap(v, other) {
			s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodeFailed, overlapMessage)
		}
		return p.put(tx)
	})
	if err != nil {
		return nil, err
	}
	answered := p
	if p.live() && !there {
		answered.State, answered.Message = ec2types.VpcPeeringConnectionStateReasonCodeInitiatingRequest, "Initiating Request to "+peer.account
	}
	out := s.sdkPeering(answered)
	out.ExpirationTime = aws.Time(p.Expires)
	return &awsec2.CreateVpcPeeringConnectionOutput{VpcPeeringConnection: &out}, nil
}

func overlap(a, b vpcRecord) bool {
	for _, p := range append(a.prefixes(), a.prefixes6()...) {
		for _, q := range append(b.prefixes(), b.prefixes6()...) {
			if p.Overlaps(q) {
				return true
			}
		}
	}
	return false
}

// changePeering edits a connection from the state it must be in.
func (s *Service) changePeering(ctx context.Context, dryRun *bool, id *string, edit func(*store.Tx, scope, *peeringRecord) error) (peeringRecord, error) {
	var p peeringRecord
	sc, err := s.scope(ctx)
	if err != nil {
		return p, err
	}
	err = s.update(ctx, dryRun, func(tx *store.Tx) error {
		if p, err = get(tx, peerings, sc, peeringID, aws.ToString(id)); err != nil {
			return err
		}
		if err := edit(tx, sc, &p); err != nil {
			return err
		}
		return p.put(tx)
	})
	return p, err
}

// mayAnswer refuses everyone but the accepter.
func (p peeringRecord) mayAnswer(sc scope, verb, past string) error {
	switch {
	case p.Accepter.Account != sc.account:
		return errNotPermitted("User (%s) cannot %s peering %s", sc.account, verb, p.ID)
	case p.Accepter.Region != sc.region:
		return errNotPermitted("Incorrect region (%s) specified for this request. VPC peering connection %s must be %s in region %s", sc.region, p.ID, past, p.Accepter.Region)
	}
	return nil
}

func (p peeringRecord) badTransition(to string) error {
	return errf("InvalidStateTransition", "Invalid state transition for %s, attempted to transition from %s to %s", p.ID, p.State, to)
}

// AcceptVpcPeeringConnection accepts a request.
func (s *Service) AcceptVpcPeeringConnection(ctx context.Context, in *awsec2.AcceptVpcPeeringConnectionInput) (*awsec2.AcceptVpcPeeringConnectionOutput, error) {
	p, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(tx *store.Tx, sc scope, p *peeringRecord) error {
		if err := p.mayAnswer(sc, "accept", "accepted"); err != nil {
			return err
		}
		if p.State != ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance {
			return p.badTransition("active")
		}
		_, peered, err := activePeering(tx, p.Requester.scope(), p.Requester.VPCID, p.Accepter.scope(), p.Accepter.VPCID)
		if err != nil {
			return err
		}
		if peered {
			return errPeeringExists(p.ID)
		}
		for _, d := range []peeringSide{p.Requester, p.Accepter} {
			n, err := count(tx, peerings, d.scope(), func(o peeringRecord) bool { return o.active() && o.side(d.scope(), d.VPCID) != nil })
			if err != nil {
				return err
			}
			if err := checkQuota(tx, d.scope(), quotaPeerings, n+1, errLimit("ActiveVpcPeeringConnectionPerVpcLimitExceeded", "active VPC peering connections per VPC")); err != nil {
				return err
			}
		}
		s.enterPeering(p, ec2types.VpcPeeringConnectionStateReasonCodeActive, "Active")
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.State, p.Message = ec2types.VpcPeeringConnectionStateReasonCodeProvisioning, "Provisioning"
	out := s.sdkPeering(p)
	return &awsec2.AcceptVpcPeeringConnectionOutput{VpcPeeringConnection: &out}, nil
}

// RejectVpcPeeringConnection rejects a request.
func (s *Service) RejectVpcPeeringConnection(ctx context.Context, in *awsec2.RejectVpcPeeringConnectionInput) (*awsec2.RejectVpcPeeringConnectionOutput, error) {
	_, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(_ *store.Tx, sc scope, p *peeringRecord) error {
		if err := p.mayAnswer(sc, "reject", "accepted or rejected"); err != nil {
			return err
		}
		if p.State != ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance {
			return p.badTransition("rejected")
		}
		s.enterPeering(p, ec2types.VpcPeeringConnectionStateReasonCodeRejected, "Rejected by "+sc.account)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.RejectVpcPeeringConnectionOutput{Return: aws.Bool(true)}, nil
}

// DeleteVpcPeeringConnection ends a connection; either side may, and the
// requester may take its request back.
func (s *Service) DeleteVpcPeeringConnection(ctx context.Context, in *awsec2.DeleteVpcPeeringConnectionInput) (*awsec2.DeleteVpcPeeringConnectionOutput, error) {
	_, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(_ *store.Tx, sc scope, p *peeringRecord) error {
		if !p.live() {
			return p.badTransition("deleting")
		}
		if !p.active() && p.Requester.scope() != sc {
			return errNotPermitted("User (%s) cannot delete peering %s", sc.account, p.ID) // [seen] moto
		}
		s.enterPeering(p, ec2types.VpcPeeringConnectionStateReasonCodeDeleted, "Deleted by "+sc.account)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteVpcPeeringConnectionOutput{Return: aws.Bool(true)}, nil
}

// ModifyVpcPeeringConnectionOptions changes how names resolve across a connection.
// Each side is changed by its own account, in its own region.
func (s *Service) ModifyVpcPeeringConnectionOptions(ctx context.Context, in *awsec2.ModifyVpcPeeringConnectionOptionsInput) (*awsec2.ModifyVpcPeeringConnectionOptionsOutput, error) {
	if in.AccepterPeeringConnectionOptions == nil && in.RequesterPeeringConnectionOptions == nil {
		return nil, errMissing("accepterPeeringConnectionOptions")
	}
	out := &awsec2.ModifyVpcPeeringConnectionOptionsOutput{}
	_, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(tx *store.Tx, sc scope, p *peeringRecord) error {
		if !p.active() {
			// https://github.com/grem11n/terraform-aws-vpc-peering/issues/21
			return errNotPermitted("Peering %s is not active. Peering options can be added only to active peerings.", p.ID)
		}
		set := func(side *peeringSide, options *ec2types.PeeringConnectionOptionsRequest, name string) (*ec2types.PeeringConnectionOptions, error) {
			if options == nil {
				return nil, nil
			}
			switch {
			case side.Account != sc.account:
				// https://github.com/hashicorp/terraform-provider-aws/issues/582
				return nil, errNotPermitted("User %s does not have permission to modify the %s side peering options", sc.account, strings.ToLower(name))
			case side.Region != sc.region:
				// https://github.com/hashicorp/terraform-provider-aws/issues/12113
				return nil, errNotPermitted("%s's VPC Peering connection options cannot be modified for a different region", name)
			}
			if options.AllowDnsResolutionFromRemoteVpc != nil {
				side.AllowDNS = *options.AllowDnsResolutionFromRemoteVpc
			}
			if v, err := vpcs.Get(tx, sc.key(side.VPCID)); err == nil && side.AllowDNS && (v.NoDNSSupport || !v.DNSHostnames) {
				// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-dns.html; from memory
				return nil, errNotPermitted("The VPC %s must have DNS resolution and DNS hostnames enabled.", v.ID)
			}
			return &ec2types.PeeringConnectionOptions{AllowDnsResolutionFromRemoteVpc: aws.Bool(side.AllowDNS)}, nil
		}
		var err error
		if out.RequesterPeeringConnectionOptions, err = set(&p.Requester, in.RequesterPeeringConnectionOptions, "Requester"); err != nil {
			return err
		}
		out.AccepterPeeringConnectionOptions, err = set(&p.Accepter, in.AccepterPeeringConnectionOptions, "Accepter")
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func peeringFields() fields[peeringRecord] {
	type v = peeringRecord
	return fields[v]{
		"accepter-vpc-info.cidr-block":  one(func(p v) string { return p.Accepter.CIDR }),
		"accepter-vpc-info.owner-id":    one(func(p v) string { return p.Accepter.Account }),
		"accepter-vpc-info.vpc-id":      one(func(p v) string { return p.Accepter.VPCID }),
		"expiration-time":               one(func(p v) string { return p.Expires.Format(time.RFC3339) }),
		"requester-vpc-info.cidr-block": one(func(p v) string { return p.Requester.CIDR }),
		"requester-vpc-info.owner-id":   one(func(p v) string { return p.Requester.Account }),
		"requester-vpc-info.vpc-id":     one(func(p v) string { return p.Requester.VPCID }),
		"status-code":                   one(func(p v) string { return string(p.State) }),
		"status-message":                one(func(p v) string { return p.Message }),
		"vpc-peering-connection-id":     one(func(p v) string { return p.ID }),
	}
}

// DescribeVpcPeeringConnections lists connections of either side.
func (s *Service) DescribeVpcPeeringConnections(ctx context.Context, in *awsec2.DescribeVpcPeeringConnectionsInput) (*awsec2.DescribeVpcPeeringConnectionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	found, next, err := describe(s.store, sc, peeringKind(), query{
		ids: in.VpcPeeringConnectionIds, filters: in.Filters, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{5, 1000},
	}, peeringFields())
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeVpcPeeringConnectionsOutput{NextToken: next, VpcPeeringConnections: []ec2types.VpcPeeringConnection{}}
	for _, p := range found {
		out.VpcPeeringConnections = append(out.VpcPeeringConnections, s.sdkPeering(p))
	}
	return out, nil
}

// reconcilePeering lets a request expire and forgets connections that are over.
func (s *Service) reconcilePeering(ctx context.Context, k store.Key) (time.Duration, error) {
	p, err := peerings.Get(s.store, k)
	if notFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	switch {
	case p.active():
		return 0, nil
	case p.live():
		if left := p.Expires.Sub(s.now()); left > 0 {
			return left, nil
		}
		return 0, s.store.Update(ctx, func(tx *store.Tx) error {
			p, err := peerings.Get(tx, k)
			if notFound(err) || err == nil && (!p.live() || p.active()) {
				return nil
			}
			if err != nil {
				return err
			}
			s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodeExpired, "Expired")
			return p.put(tx)
		})
	}
	if left := p.Since.Add(s.timing.PeeringOverVisible).Sub(s.now()); left > 0 {
		return left, nil
	}
	return 0, s.store.Update(ctx, func(tx *store.Tx) error {
		peerings.Delete(tx, k)
		return nil
	})
}

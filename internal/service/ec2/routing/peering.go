package routing

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
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// requestLifetime is how long a request can be accepted.
// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html#vpc-peering-lifecycle
const requestLifetime = 7 * 24 * time.Hour

const overlapMessage = "Failed due to incorrect VPC-ID, Account ID, or overlapping CIDR range"

// PeeredBlocks returns the blocks of all VPCs that a VPC is peered with or may become peered with.
func PeeredBlocks(r store.Reader, sc resource.Scope, vpc string) ([]netip.Prefix, error) {
	all := resource.List(r, record.Peerings, sc, func(p record.Peering) bool { return p.Live() && p.Side(sc, vpc) != nil })
	var out []netip.Prefix
	for _, p := range all {
		o := p.Other(sc, vpc)
		v, err := record.VPCs.Get(r, o.Scope().Key(o.VPCID))
		if resource.NotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(append(out, v.Prefixes()...), v.Prefixes6()...)
	}
	return out, nil
}

func (s *Service) sdkPeeringSide(d record.PeeringSide, shown, active bool) *ec2types.VpcPeeringConnectionVpcInfo {
	out := &ec2types.VpcPeeringConnectionVpcInfo{OwnerId: aws.String(d.Account), Region: aws.String(d.Region), VpcId: aws.String(d.VPCID)}
	if !shown {
		return out
	}
	out.CidrBlock = aws.String(d.CIDR)
	if v, err := record.VPCs.Get(s.Store, d.Scope().Key(d.VPCID)); err == nil {
		for _, b := range v.Blocks() {
			out.CidrBlockSet = append(out.CidrBlockSet, ec2types.CidrBlock{CidrBlock: aws.String(b.CIDR)})
		}
		for _, b := range v.IPv6 {
			out.Ipv6CidrBlockSet = append(out.Ipv6CidrBlockSet, ec2types.Ipv6CidrBlock{Ipv6CidrBlock: aws.String(b.CIDR)})
		}
	}
	if active {
		out.PeeringOptions = d.Options()
	}
	return out
}

// sdkPeering converts a connection for the SDK. Details of the accepter's VPC are included once it
// has accepted.
func (s *Service) sdkPeering(p record.Peering) ec2types.VpcPeeringConnection {
	out := ec2types.VpcPeeringConnection{
		VpcPeeringConnectionId: aws.String(p.ID),
		RequesterVpcInfo:       s.sdkPeeringSide(p.Requester, true, p.Active()),
		AccepterVpcInfo:        s.sdkPeeringSide(p.Accepter, p.Active() || p.Accepter.Scope() == p.Requester.Scope(), p.Active()),
		Status:                 &ec2types.VpcPeeringConnectionStateReason{Code: p.State, Message: aws.String(p.Message)},
		Tags:                   p.Tags.Listed(),
	}
	if p.State == ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance {
		out.ExpirationTime = aws.Time(p.Expires)
	}
	return out
}

// enterPeering changes a connection's state.
func (s *Service) enterPeering(p *record.Peering, state ec2types.VpcPeeringConnectionStateReasonCode, message string) {
	p.State, p.Message, p.Since = state, message, s.Now()
}

// CreateVpcPeeringConnection requests a connection with a VPC. As on AWS, an impossible connection
// enters the state failed:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcPeeringConnection.html
// A repeated request returns the existing connection. A request in the opposite direction creates a
// second connection, which cannot be accepted.
// https://github.com/hashicorp/terraform-provider-aws/issues/27750
// https://github.com/ansible-collections/community.aws/issues/580
func (s *Service) CreateVpcPeeringConnection(ctx context.Context, in *awsec2.CreateVpcPeeringConnectionInput) (*awsec2.CreateVpcPeeringConnectionOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.PeerVpcId == nil {
		return nil, ec2err.Missing("peerVpcId")
	}
	peer := sc
	if in.PeerOwnerId != nil {
		peer.Account = *in.PeerOwnerId
	}
	if in.PeerRegion != nil {
		peer.Region = *in.PeerRegion
	}
	if _, ok := regions.Lookup(peer.Region); !ok {
		return nil, ec2err.UnknownRegion(peer.Region)
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVpcPeeringConnection)
	if err != nil {
		return nil, err
	}
	var p record.Peering
	there := false
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		there = false
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		all := resource.List(tx, record.Peerings, sc, func(o record.Peering) bool { return o.Live() })
		outstanding := 0
		for _, o := range all {
			if o.Requester.Scope() == sc && o.Requester.VPCID == v.ID && o.Accepter.Scope() == peer && o.Accepter.VPCID == *in.PeerVpcId {
				p, there = o, true
				return nil
			}
			if !o.Active() {
				outstanding++
			}
		}
		if err := quota.Check(tx, sc, quota.PeeringRequests, outstanding+1, ec2err.Limit("OutstandingVpcPeeringConnectionLimitExceeded", "outstanding VPC peering connection requests")); err != nil {
			return err
		}
		p = record.Peering{
			ID:        ids.Resource("pcx"),
			Requester: record.PeeringSide{Account: sc.Account, Region: sc.Region, VPCID: v.ID, CIDR: v.CIDR},
			Accepter:  record.PeeringSide{Account: peer.Account, Region: peer.Region, VPCID: *in.PeerVpcId},
			Expires:   s.Now().Add(requestLifetime), Tags: tags,
		}
		s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance, "Pending Acceptance by "+peer.Account)
		other, err := record.VPCs.Get(tx, peer.Key(*in.PeerVpcId))
		switch {
		case resource.NotFound(err) && peer == sc:
			return resource.VPCID.NotFound(*in.PeerVpcId)
		case resource.NotFound(err):
			s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodeFailed, overlapMessage)
			return record.Peerings.Create(tx, sc.Key(p.ID), p) // the other account does not exist, so there is no second copy
		case err != nil:
			return err
		}
		p.Accepter.CIDR = other.CIDR
		if overlap(v, other) {
			s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodeFailed, overlapMessage)
		}
		return p.Put(tx)
	})
	if err != nil {
		return nil, err
	}
	answered := p
	if p.Live() && !there {
		answered.State, answered.Message = ec2types.VpcPeeringConnectionStateReasonCodeInitiatingRequest, "Initiating Request to "+peer.Account
	}
	out := s.sdkPeering(answered)
	out.ExpirationTime = aws.Time(p.Expires)
	return &awsec2.CreateVpcPeeringConnectionOutput{VpcPeeringConnection: &out}, nil
}

func overlap(a, b record.VPC) bool {
	for _, p := range append(a.Prefixes(), a.Prefixes6()...) {
		for _, q := range append(b.Prefixes(), b.Prefixes6()...) {
			if p.Overlaps(q) {
				return true
			}
		}
	}
	return false
}

// changePeering edits a connection in a transaction. edit checks the connection's state.
func (s *Service) changePeering(ctx context.Context, dryRun *bool, id *string, edit func(*store.Tx, resource.Scope, *record.Peering) error) (record.Peering, error) {
	var p record.Peering
	sc := resource.ScopeOf(ctx)
	err := s.Update(ctx, dryRun, func(tx *store.Tx) (err error) {
		if p, err = resource.Get(tx, record.Peerings, sc, aws.ToString(id)); err != nil {
			return err
		}
		if err := edit(tx, sc, &p); err != nil {
			return err
		}
		return p.Put(tx)
	})
	return p, err
}

// AcceptVpcPeeringConnection accepts a request.
func (s *Service) AcceptVpcPeeringConnection(ctx context.Context, in *awsec2.AcceptVpcPeeringConnectionInput) (*awsec2.AcceptVpcPeeringConnectionOutput, error) {
	p, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(tx *store.Tx, sc resource.Scope, p *record.Peering) error {
		if err := p.MayAnswer(sc, "accept", "accepted"); err != nil {
			return err
		}
		if p.State != ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance {
			return p.BadTransition("active")
		}
		_, peered := record.ActivePeering(tx, p.Requester.Scope(), p.Requester.VPCID, p.Accepter.Scope(), p.Accepter.VPCID)
		if peered {
			return ec2err.PeeringExists(p.ID)
		}
		for _, d := range []record.PeeringSide{p.Requester, p.Accepter} {
			if err := quota.Room(tx, d.Scope(), quota.Peerings, record.Peerings, func(o record.Peering) bool { return o.Active() && o.Side(d.Scope(), d.VPCID) != nil }, ec2err.Limit("ActiveVpcPeeringConnectionPerVpcLimitExceeded", "active VPC peering connections per VPC")); err != nil {
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
	_, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(_ *store.Tx, sc resource.Scope, p *record.Peering) error {
		if err := p.MayAnswer(sc, "reject", "accepted or rejected"); err != nil {
			return err
		}
		if p.State != ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance {
			return p.BadTransition("rejected")
		}
		s.enterPeering(p, ec2types.VpcPeeringConnectionStateReasonCodeRejected, "Rejected by "+sc.Account)
		return nil
	})
	return &awsec2.RejectVpcPeeringConnectionOutput{Return: aws.Bool(true)}, err
}

// DeleteVpcPeeringConnection deletes a connection. Either side may do so; the requester may also
// withdraw its request.
func (s *Service) DeleteVpcPeeringConnection(ctx context.Context, in *awsec2.DeleteVpcPeeringConnectionInput) (*awsec2.DeleteVpcPeeringConnectionOutput, error) {
	_, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(_ *store.Tx, sc resource.Scope, p *record.Peering) error {
		if !p.Live() {
			return p.BadTransition("deleting")
		}
		if !p.Active() && p.Requester.Scope() != sc {
			return ec2err.NotPermitted("User (%s) cannot delete peering %s", sc.Account, p.ID) // [seen] moto
		}
		s.enterPeering(p, ec2types.VpcPeeringConnectionStateReasonCodeDeleted, "Deleted by "+sc.Account)
		return nil
	})
	return &awsec2.DeleteVpcPeeringConnectionOutput{Return: aws.Bool(true)}, err
}

// ModifyVpcPeeringConnectionOptions changes how names resolve across a connection. Each side is
// changed by its own account in its own region.
func (s *Service) ModifyVpcPeeringConnectionOptions(ctx context.Context, in *awsec2.ModifyVpcPeeringConnectionOptionsInput) (*awsec2.ModifyVpcPeeringConnectionOptionsOutput, error) {
	if in.AccepterPeeringConnectionOptions == nil && in.RequesterPeeringConnectionOptions == nil {
		return nil, ec2err.Missing("accepterPeeringConnectionOptions")
	}
	out := &awsec2.ModifyVpcPeeringConnectionOptionsOutput{}
	_, err := s.changePeering(ctx, in.DryRun, in.VpcPeeringConnectionId, func(tx *store.Tx, sc resource.Scope, p *record.Peering) error {
		if !p.Active() {
			// https://github.com/grem11n/terraform-aws-vpc-peering/issues/21
			return ec2err.NotPermitted("Peering %s is not active. Peering options can be added only to active peerings.", p.ID)
		}
		set := func(side *record.PeeringSide, options *ec2types.PeeringConnectionOptionsRequest, name string) (*ec2types.PeeringConnectionOptions, error) {
			if options == nil {
				return nil, nil
			}
			switch {
			case side.Account != sc.Account:
				// https://github.com/hashicorp/terraform-provider-aws/issues/582
				return nil, ec2err.NotPermitted("User %s does not have permission to modify the %s side peering options", sc.Account, strings.ToLower(name))
			case side.Region != sc.Region:
				// https://github.com/hashicorp/terraform-provider-aws/issues/12113
				return nil, ec2err.NotPermitted("%s's VPC Peering connection options cannot be modified for a different region", name)
			}
			if options.AllowDnsResolutionFromRemoteVpc != nil {
				side.AllowDNS = *options.AllowDnsResolutionFromRemoteVpc
			}
			if v, err := record.VPCs.Get(tx, sc.Key(side.VPCID)); err == nil && side.AllowDNS && (v.NoDNSSupport || !v.DNSHostnames) {
				// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-dns.html; from memory
				return nil, ec2err.NotPermitted("The VPC %s must have DNS resolution and DNS hostnames enabled.", v.ID)
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
	return out, err
}

func peeringFields() filter.Fields[record.Peering] {
	type v = record.Peering
	return filter.Fields[v]{
		"accepter-vpc-info.cidr-block":  filter.One(func(p v) string { return p.Accepter.CIDR }),
		"accepter-vpc-info.owner-id":    filter.One(func(p v) string { return p.Accepter.Account }),
		"accepter-vpc-info.vpc-id":      filter.One(func(p v) string { return p.Accepter.VPCID }),
		"expiration-time":               filter.One(func(p v) string { return p.Expires.Format(time.RFC3339) }),
		"requester-vpc-info.cidr-block": filter.One(func(p v) string { return p.Requester.CIDR }),
		"requester-vpc-info.owner-id":   filter.One(func(p v) string { return p.Requester.Account }),
		"requester-vpc-info.vpc-id":     filter.One(func(p v) string { return p.Requester.VPCID }),
		"status-code":                   filter.One(func(p v) string { return string(p.State) }),
		"status-message":                filter.One(func(p v) string { return p.Message }),
		"vpc-peering-connection-id":     filter.One(func(p v) string { return p.ID }),
	}
}

// DescribeVpcPeeringConnections lists connections in which the account is on either side.
func (s *Service) DescribeVpcPeeringConnections(ctx context.Context, in *awsec2.DescribeVpcPeeringConnectionsInput) (*awsec2.DescribeVpcPeeringConnectionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.Peerings, resource.Query{
		IDs: in.VpcPeeringConnectionIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, peeringFields())
	return &awsec2.DescribeVpcPeeringConnectionsOutput{NextToken: next, VpcPeeringConnections: resource.Map(found, s.sdkPeering)}, err
}

// reconcilePeering expires requests and removes connections that have ended.
func (s *Service) reconcilePeering(ctx context.Context, k store.Key) (time.Duration, error) {
	p, err := record.Peerings.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	switch {
	case p.Active():
		return 0, nil
	case p.Live():
		if left := p.Expires.Sub(s.Now()); left > 0 {
			return left, nil
		}
		return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
			p, err := record.Peerings.Get(tx, k)
			if resource.NotFound(err) || err == nil && (!p.Live() || p.Active()) {
				return nil
			}
			if err != nil {
				return err
			}
			s.enterPeering(&p, ec2types.VpcPeeringConnectionStateReasonCodeExpired, "Expired")
			return p.Put(tx)
		})
	}
	if left := p.Since.Add(s.Timing.PeeringOverVisible).Sub(s.Now()); left > 0 {
		return left, nil
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		record.Peerings.Delete(tx, k)
		return nil
	})
}

package ec2

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// States of VPC endpoints.
const (
	endpointPending   = "pending"
	endpointAvailable = "available"
	endpointDeleting  = "deleting"
)

// A vpcEndpointRecord is a private way to a service: by interfaces in subnets,
// or by routes of a gateway.
type vpcEndpointRecord struct {
	ID          string // vpce-…
	VPCID       string
	ServiceName string // com.amazonaws.us-east-1.ecr.api
	Gateway     bool   `json:",omitempty"` // otherwise an interface endpoint
	State       string
	Since       time.Time
	Created     time.Time
	// Policy is the endpoint policy as it was given; empty allows everything.
	Policy string `json:",omitempty"`
	// RouteTableIDs are those with the route of a gateway endpoint.
	RouteTableIDs []string `json:",omitempty"`
	// SubnetIDs, GroupIDs, InterfaceIDs, PrivateDNS are those of interface
	// endpoints; the interface at an index is in the subnet at that index.
	SubnetIDs    []string `json:",omitempty"`
	GroupIDs     []string `json:",omitempty"`
	InterfaceIDs []string `json:",omitempty"`
	PrivateDNS   bool     `json:",omitempty"`
	// RequesterID is the AWS service that made and manages the endpoint.
	RequesterID string `json:",omitempty"`
	// DNSSuffix makes the endpoint's names unique: vpce-…-SUFFIX.ec2.….
	DNSSuffix string `json:",omitempty"`
	Tags      Tags   `json:",omitempty"`
}

// allowAll is the policy of endpoints that are given none, as EC2 returns it.
const allowAll = `{"Version":"2008-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`

func vpcEndpointKind() kindOf[vpcEndpointRecord] {
	return kindOf[vpcEndpointRecord]{vpcEndpoints, vpcEndpointID, func(e *vpcEndpointRecord) (string, *Tags) { return e.ID, &e.Tags }}
}

func (e vpcEndpointRecord) service(region string) endpointService {
	s, _ := findEndpointService(region, e.ServiceName, e.Gateway)
	return s
}

func (e vpcEndpointRecord) kind() ec2types.VpcEndpointType {
	if e.Gateway {
		return ec2types.VpcEndpointTypeGateway
	}
	return ec2types.VpcEndpointTypeInterface
}

// dnsNames are the endpoint's own names: one of the endpoint, one of each zone.
func (e vpcEndpointRecord) dnsNames(r store.Reader, sc scope) []string {
	if e.Gateway {
		return nil
	}
	host := "." + e.service(sc.region).host() + "." + sc.region + ".vpce.amazonaws.com"
	out := []string{e.ID + "-" + e.DNSSuffix + host}
	for _, id := range e.SubnetIDs {
		if sn, err := subnets.Get(r, sc.key(id)); err == nil {
			out = append(out, e.ID+"-"+e.DNSSuffix+"-"+sn.Zone+host)
		}
	}
	return out
}

// The hosted zones that EC2 returns with the names of endpoints.
const (
	endpointZone = "Z7HUB22UULQXV"
	privateZone  = "ZONEIDPENDING"
)

func (s *Service) sdkEndpoint(sc scope, e vpcEndpointRecord) ec2types.VpcEndpoint {
	out := ec2types.VpcEndpoint{
		VpcEndpointId: aws.String(e.ID), VpcId: aws.String(e.VPCID), ServiceName: aws.String(e.ServiceName), ServiceRegion: aws.String(sc.region),
		VpcEndpointType: e.kind(), State: ec2types.State(e.State), CreationTimestamp: aws.Time(e.Created), OwnerId: aws.String(sc.account),
		PrivateDnsEnabled: aws.Bool(e.PrivateDNS), RequesterManaged: aws.Bool(e.RequesterID != ""),
		PolicyDocument: aws.String(e.Policy),
		RouteTableIds:  append([]string{}, e.RouteTableIDs...), SubnetIds: append([]string{}, e.SubnetIDs...),
		NetworkInterfaceIds: append([]string{}, e.InterfaceIDs...), Groups: []ec2types.SecurityGroupIdentifier{},
		DnsEntries: []ec2types.DnsEntry{}, Tags: e.Tags.sdk(),
	}
	if e.Policy == "" {
		out.PolicyDocument = aws.String(allowAll)
	}
	if e.Gateway {
		return out
	}
	out.IpAddressType = ec2types.IpAddressTypeIpv4
	out.DnsOptions = &ec2types.DnsOptions{DnsRecordIpType: ec2types.DnsRecordIpTypeIpv4}
	for _, g := range groupIdentifiers(s.store, sc, e.GroupIDs) {
		out.Groups = append(out.Groups, ec2types.SecurityGroupIdentifier{GroupId: g.GroupId, GroupName: g.GroupName})
	}
	for _, n := range e.dnsNames(s.store, sc) {
		out.DnsEntries = append(out.DnsEntries, ec2types.DnsEntry{DnsName: aws.String(n), HostedZoneId: aws.String(endpointZone)})
	}
	if e.PrivateDNS {
		for _, n := range e.service(sc.region).privateDNSNames() {
			out.DnsEntries = append(out.DnsEntries, ec2types.DnsEntry{DnsName: aws.String(n), HostedZoneId: aws.String(privateZone)})
		}
	}
	return out
}

// DescribeVpcEndpoints lists endpoints.
func (s *Service) DescribeVpcEndpoints(ctx context.Context, in *awsec2.DescribeVpcEndpointsInput) (*awsec2.DescribeVpcEndpointsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = vpcEndpointRecord
	found, next, err := describe(s.store, sc, vpcEndpointKind(), query{
		ids: in.VpcEndpointIds, filters: in.Filters, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{1, 1000},
	}, fields[v]{
		"ip-address-type": one(func(e v) string {
			if e.Gateway {
				return ""
			}
			return "ipv4"
		}),
		"service-name":       one(func(e v) string { return e.ServiceName }),
		"service-region":     one(func(v) string { return sc.region }),
		"vpc-endpoint-id":    one(func(e v) string { return e.ID }),
		"vpc-endpoint-state": one(func(e v) string { return e.State }),
		"vpc-endpoint-type":  one(func(e v) string { return string(e.kind()) }),
		"vpc-id":             one(func(e v) string { return e.VPCID }),
	})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeVpcEndpointsOutput{NextToken: next, VpcEndpoints: []ec2types.VpcEndpoint{}}
	for _, e := range found {
		out.VpcEndpoints = append(out.VpcEndpoints, s.sdkEndpoint(sc, e))
	}
	return out, nil
}

// reconcileEndpoint brings an endpoint to its next state when it is due.
func (s *Service) reconcileEndpoint(ctx context.Context, k store.Key) (time.Duration, error) {
	states := endpointStates{endpointPending, endpointAvailable, endpointDeleting}
	return advanceEndpoint(ctx, s, vpcEndpoints, k, states, func(e *vpcEndpointRecord) endpointLife {
		return endpointLife{&e.State, &e.Since, e.InterfaceIDs}
	})
}

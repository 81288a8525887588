package endpoint

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of VPC endpoints.
const (
	endpointPending   = "pending"
	endpointAvailable = "available"
	endpointDeleting  = "deleting"
)

// allowAll is the default endpoint policy, as EC2 returns it.
const allowAll = `{"Version":"2008-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`

// ServiceOf returns the service that an endpoint connects to.
func ServiceOf(e record.VPCEndpoint, region string) endpointService {
	s, err := findService(region, e.ServiceName, e.Gateway)
	if err != nil { // of a twin: another provider's, or newer than the list
		name, ok := strings.CutPrefix(e.ServiceName, "com.amazonaws.vpce."+region+".")
		if !ok {
			name = strings.TrimPrefix(e.ServiceName, "com.amazonaws."+region+".")
		}
		return endpointService{name, region, e.Gateway}
	}
	return s
}

// DNSNames are the endpoint's own names: one for the endpoint and one for each zone.
func DNSNames(e record.VPCEndpoint, r store.Reader, sc resource.Scope) []string {
	if e.Gateway || len(e.SubnetIDs) == 0 { // [seen] hashicorp/terraform-provider-aws, TestAccVPCEndpoint_interfaceBasic
		return nil
	}
	host := "." + ServiceOf(e, sc.Region).host() + "." + sc.Region + ".vpce.amazonaws.com"
	out := []string{e.ID + "-" + e.DNSSuffix + host}
	for _, id := range e.SubnetIDs {
		if sn, err := record.Subnets.Get(r, sc.Key(id)); err == nil {
			out = append(out, e.ID+"-"+e.DNSSuffix+"-"+sn.Zone+host)
		}
	}
	return out
}

// The hosted zones that EC2 returns with endpoint DNS names.
const (
	endpointZone = "Z7HUB22UULQXV"
	privateZone  = "ZONEIDPENDING"
)

func (s *Service) sdkEndpoint(sc resource.Scope, e record.VPCEndpoint) ec2types.VpcEndpoint {
	out := ec2types.VpcEndpoint{
		VpcEndpointId: aws.String(e.ID), VpcId: aws.String(e.VPCID), ServiceName: aws.String(e.ServiceName), ServiceRegion: aws.String(sc.Region),
		VpcEndpointType: e.Kind(), State: ec2types.State(e.State), CreationTimestamp: aws.Time(e.Created), OwnerId: aws.String(sc.Account),
		PrivateDnsEnabled: aws.Bool(e.PrivateDNS), RequesterManaged: aws.Bool(e.RequesterID != ""),
		PolicyDocument: aws.String(e.Policy),
		RouteTableIds:  append([]string{}, e.RouteTableIDs...), SubnetIds: append([]string{}, e.SubnetIDs...),
		NetworkInterfaceIds: append([]string{}, e.InterfaceIDs...), Groups: []ec2types.SecurityGroupIdentifier{},
		DnsEntries: []ec2types.DnsEntry{}, Tags: e.Tags.Listed(),
	}
	if e.Policy == "" {
		out.PolicyDocument = aws.String(allowAll)
	}
	if e.Gateway {
		return out
	}
	out.IpAddressType = ec2types.IpAddressTypeIpv4
	out.DnsOptions = &ec2types.DnsOptions{DnsRecordIpType: ec2types.DnsRecordIpTypeIpv4}
	for _, g := range eni.GroupIdentifiers(s.Store, sc, e.GroupIDs) {
		out.Groups = append(out.Groups, ec2types.SecurityGroupIdentifier{GroupId: g.GroupId, GroupName: g.GroupName})
	}
	for _, n := range DNSNames(e, s.Store, sc) {
		out.DnsEntries = append(out.DnsEntries, ec2types.DnsEntry{DnsName: aws.String(n), HostedZoneId: aws.String(endpointZone)})
	}
	if e.PrivateDNS && len(e.SubnetIDs) > 0 {
		for _, n := range ServiceOf(e, sc.Region).PrivateDNSNames() {
			out.DnsEntries = append(out.DnsEntries, ec2types.DnsEntry{DnsName: aws.String(n), HostedZoneId: aws.String(privateZone)})
		}
	}
	return out
}

// DescribeVpcEndpoints lists endpoints.
func (s *Service) DescribeVpcEndpoints(ctx context.Context, in *awsec2.DescribeVpcEndpointsInput) (*awsec2.DescribeVpcEndpointsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.VPCEndpoint
	found, next, err := resource.Describe(s.Store, sc, record.VPCEndpoints, resource.Query{
		IDs: in.VpcEndpointIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 1000},
	}, filter.Fields[v]{
		"ip-address-type": filter.One(func(e v) string {
			if e.Gateway {
				return ""
			}
			return "ipv4"
		}),
		"service-name":       filter.One(func(e v) string { return e.ServiceName }),
		"service-region":     filter.One(func(v) string { return sc.Region }),
		"vpc-endpoint-id":    filter.One(func(e v) string { return e.ID }),
		"vpc-endpoint-state": filter.One(func(e v) string { return e.State }),
		"vpc-endpoint-type":  filter.One(func(e v) string { return string(e.Kind()) }),
		"vpc-id":             filter.One(func(e v) string { return e.VPCID }),
	})
	return &awsec2.DescribeVpcEndpointsOutput{NextToken: next, VpcEndpoints: resource.Map(found, func(e record.VPCEndpoint) ec2types.VpcEndpoint { return s.sdkEndpoint(sc, e) })}, err
}

// reconcileEndpoint moves an endpoint to its next state when it is due.
func (s *Service) reconcileEndpoint(ctx context.Context, k store.Key) (time.Duration, error) {
	states := endpointStates{endpointPending, endpointAvailable, endpointDeleting}
	return advance(ctx, s, record.VPCEndpoints, k, states, func(e *record.VPCEndpoint) endpointLife {
		return endpointLife{&e.State, &e.Since, e.InterfaceIDs}
	})
}

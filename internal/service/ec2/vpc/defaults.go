package vpc

import (
	"context"
	"fmt"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/store"
)

const defaultVPCCIDR = "172.31.0.0/16"

// Prepare creates the initial resources of an account in a region, unless it has done so before: a
// VPC with a subnet in each zone, an internet gateway, and a route to it.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-vpc.html
func (s *Service) Prepare(ctx context.Context, account, region string) error {
	if _, ok := regions.Lookup(region); !ok {
		return ec2err.UnknownRegion(region)
	}
	sc := resource.Scope{Account: account, Region: region}
	made := func(r store.Reader) bool {
		_, err := record.Defaults.Get(r, sc.Key(record.DefaultsID))
		return err == nil
	}
	if made(s.Store) {
		return nil
	}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		if made(tx) {
			return nil
		}
		dopt := record.DHCPOptions{ID: ids.Resource("dopt")}
		if err := record.DHCPOptionSets.Create(tx, sc.Key(dopt.ID), dopt); err != nil {
			return err
		}
		if err := record.Defaults.Create(tx, sc.Key(record.DefaultsID), record.RegionDefaults{DHCPOptionsID: dopt.ID}); err != nil {
			return err
		}
		_, err := s.makeDefaultVPC(tx, sc, dopt.ID)
		return err
	})
}

func (s *Service) makeDefaultVPC(tx *store.Tx, sc resource.Scope, dhcpOptionsID string) (record.VPC, error) {
	v, err := s.makeVPC(tx, sc, record.VPC{
		CIDR: defaultVPCCIDR, Default: true, DNSHostnames: true, DHCPOptionsID: dhcpOptionsID, Tenancy: "default",
	})
	if err != nil {
		return v, err
	}
	igw := record.InternetGateway{ID: ids.Resource("igw"), VPCID: v.ID}
	if err := record.InternetGateways.Create(tx, sc.Key(igw.ID), igw); err != nil {
		return v, err
	}
	err = record.RouteTables.Update(tx, sc.Key(v.MainRouteTableID), func(t *record.RouteTable) error {
		t.Routes = append(t.Routes, record.Route{Destination: "0.0.0.0/0", GatewayID: igw.ID, Origin: routing.OriginCreateRoute})
		return nil
	})
	if err != nil {
		return v, err
	}
	for i, z := range defaultZones(sc.Region) {
		sn := record.Subnet{
			ID: ids.Resource("subnet"), VPCID: v.ID, CIDR: fmt.Sprintf("172.31.%d.0/20", i<<4), Zone: z.Name, ZoneID: z.ID,
			DefaultForZone: true, MapPublicIP: true, HostnameType: "ip-name",
		}
		if err := s.makeSubnet(tx, sc, sn); err != nil {
			return v, err
		}
	}
	return v, nil
}

// defaultZones returns the zones in which the default VPC has a subnet.
//
// AWS deviation: in us-east-1 these are only three of six, so that every default subnet suits EKS, which refuses use1-az3.
func defaultZones(region string) []regions.Zone {
	r, _ := regions.Lookup(region)
	if region == "us-east-1" {
		return r.Zones[:3]
	}
	return r.Zones
}

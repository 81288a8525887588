package ec2

import (
	"context"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A defaultsRecord says that an account's region has got what every region of a
// new account has. It stays when the user deletes the default VPC: AWS does not
// bring it back by itself either.
type defaultsRecord struct{ DHCPOptionsID string }

const (
	defaultsID     = "region"
	defaultVPCCIDR = "172.31.0.0/16"
)

// ensureDefaults makes what a new account finds in a region: a VPC with a subnet
// in each of the first three zones, an internet gateway and a route to it.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-vpc.html
func (s *Service) ensureDefaults(ctx context.Context, sc scope) error {
	if _, err := defaults.Get(s.store, sc.key(defaultsID)); err == nil {
		return nil
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := defaults.Get(tx, sc.key(defaultsID)); err == nil {
			return nil // made meanwhile
		}
		dopt := dhcpOptionsRecord{ID: ids.Resource("dopt")}
		if err := dhcpOptions.Create(tx, sc.key(dopt.ID), dopt); err != nil {
			return err
		}
		if err := defaults.Create(tx, sc.key(defaultsID), defaultsRecord{DHCPOptionsID: dopt.ID}); err != nil {
			return err
		}
		_, err := s.makeDefaultVPC(tx, sc, dopt.ID)
		return err
	})
}

// Prepare makes the default VPC of an account and region, if it is not there.
func (s *Service) Prepare(ctx context.Context, account, region string) error {
	if _, ok := regions.Lookup(region); !ok {
		return errUnknownRegion(region)
	}
	return s.ensureDefaults(ctx, scope{account, region})
}

func (s *Service) makeDefaultVPC(tx *store.Tx, sc scope, dhcpOptionsID string) (vpcRecord, error) {
	v, err := s.makeVPC(tx, sc, vpcRecord{
		CIDR: defaultVPCCIDR, Default: true, DNSHostnames: true, DHCPOptionsID: dhcpOptionsID, Tenancy: "default",
	})
	if err != nil {
		return v, err
	}
	igw := internetGatewayRecord{ID: ids.Resource("igw"), VPCID: v.ID}
	if err := internetGateways.Create(tx, sc.key(igw.ID), igw); err != nil {
		return v, err
	}
	err = routeTables.Update(tx, sc.key(v.MainRouteTableID), func(t *routeTableRecord) error {
		t.Routes = append(t.Routes, route{Destination: "0.0.0.0/0", GatewayID: igw.ID, Origin: originCreateRoute})
		return nil
	})
	if err != nil {
		return v, err
	}
	region, _ := regions.Lookup(sc.region)
	for i, z := range region.Zones[:min(3, len(region.Zones))] {
		cidr := []string{"172.31.0.0/20", "172.31.16.0/20", "172.31.32.0/20"}[i]
		sn := subnetRecord{
			ID: ids.Resource("subnet"), VPCID: v.ID, CIDR: cidr, Zone: z.Name, ZoneID: z.ID,
			DefaultForZone: true, MapPublicIP: true, HostnameType: "ip-name",
		}
		if err := s.makeSubnet(tx, sc, sn); err != nil {
			return v, err
		}
	}
	return v, nil
}

package vpc

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// noDHCPOptions is the DHCP options ID of a VPC without options.
const noDHCPOptions = "default"

// parseDHCP validates the options in a request.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateDhcpOptions.html
func parseDHCP(in []ec2types.NewDhcpConfiguration) (map[string][]string, error) {
	out := map[string][]string{}
	invalid := func(key, value string) error {
		return ec2err.InvalidParameterValue("Invalid value '%s' for %s", value, key) // from memory
	}
	for _, c := range in {
		key := aws.ToString(c.Key)
		if len(c.Values) == 0 {
			return nil, ec2err.Missing("value")
		}
		most := 1
		switch key {
		case "domain-name-servers", "ntp-servers", "netbios-name-servers":
			most = 4
			if key != "netbios-name-servers" {
				most = 8 // four of each address family
			}
			for _, v := range c.Values {
				a, err := netip.ParseAddr(v)
				amazon := key == "domain-name-servers" && v == "AmazonProvidedDNS"
				if !amazon && (err != nil || a.Is6() && key == "netbios-name-servers") {
					return nil, invalid(key, v)
				}
			}
		case "domain-name", "ipv6-address-preferred-lease-time":
		case "netbios-node-type":
			if v := c.Values[0]; v != "1" && v != "2" && v != "4" && v != "8" {
				return nil, invalid(key, v)
			}
		default:
			return nil, ec2err.InvalidValue(key, "name", "Unknown DHCP option") // the end-to-end tests of aws-controllers-k8s/ec2-controller quote it
		}
		if len(c.Values) > most {
			return nil, invalid(key, c.Values[most])
		}
		if _, dup := out[key]; dup {
			return nil, ec2err.InvalidParameterValue("Duplicate DHCP option %s", key) // from memory
		}
		out[key] = slices.Clone(c.Values)
	}
	if len(out) == 0 {
		return nil, ec2err.Missing("dhcpConfiguration")
	}
	return out, nil
}

// CreateDhcpOptions creates a set of options that VPCs can be associated with.
func (s *Service) CreateDhcpOptions(ctx context.Context, in *awsec2.CreateDhcpOptionsInput) (*awsec2.CreateDhcpOptionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	options, err := parseDHCP(in.DhcpConfigurations)
	if err != nil {
		return nil, err
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeDhcpOptions)
	if err != nil {
		return nil, err
	}
	d := record.DHCPOptions{ID: ids.Resource("dopt"), Options: options, Tags: tags}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error { return record.DHCPOptionSets.Create(tx, sc.Key(d.ID), d) })
	return &awsec2.CreateDhcpOptionsOutput{DhcpOptions: new(d.SDK(sc))}, err
}

// AssociateDhcpOptions associates a VPC with a set of options, or with none: "default".
func (s *Service) AssociateDhcpOptions(ctx context.Context, in *awsec2.AssociateDhcpOptionsInput) (*awsec2.AssociateDhcpOptionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.DhcpOptionsId)
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if id != noDHCPOptions {
			if _, err := resource.Get(tx, record.DHCPOptionSets, sc, id); err != nil {
				return err
			}
		}
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		v.DHCPOptionsID = id
		return record.VPCs.Put(tx, sc.Key(v.ID), v)
	})
	return &awsec2.AssociateDhcpOptionsOutput{}, err
}

// DeleteDhcpOptions deletes a set of options that no VPC uses.
func (s *Service) DeleteDhcpOptions(ctx context.Context, in *awsec2.DeleteDhcpOptionsInput) (*awsec2.DeleteDhcpOptionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Delete(ctx, s.Core, record.DHCPOptionSets, in.DryRun, in.DhcpOptionsId, func(tx *store.Tx, d *record.DHCPOptions) error {
		used := resource.Exists(tx, record.VPCs, sc, func(v record.VPC) bool { return v.DHCPOptionsID == d.ID })
		if used {
			return ec2err.HasDependencies("dhcpOptions", d.ID)
		}
		return nil
	})
	return &awsec2.DeleteDhcpOptionsOutput{}, err
}

// DescribeDhcpOptions lists DHCP option sets.
func (s *Service) DescribeDhcpOptions(ctx context.Context, in *awsec2.DescribeDhcpOptionsInput) (*awsec2.DescribeDhcpOptionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.DHCPOptionSets, resource.Query{
		IDs: in.DhcpOptionsIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, filter.Fields[record.DHCPOptions]{
		"dhcp-options-id": filter.One(func(d record.DHCPOptions) string { return d.ID }),
		"key":             func(d record.DHCPOptions) []string { return slices.Sorted(maps.Keys(d.In(sc))) },
		"owner-id":        filter.One(func(record.DHCPOptions) string { return sc.Account }),
		"value": func(d record.DHCPOptions) []string {
			return slices.Concat(slices.Collect(maps.Values(d.In(sc)))...)
		},
	})
	return &awsec2.DescribeDhcpOptionsOutput{DhcpOptions: resource.SDKAll(sc, found), NextToken: next}, err
}

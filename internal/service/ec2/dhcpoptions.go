package ec2

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A dhcpOptionsRecord is a set of DHCP options.
type dhcpOptionsRecord struct {
	ID string
	// Options is nil for the set every region starts with: Amazon's DNS and the
	// region's internal domain.
	Options map[string][]string `json:",omitempty"`
	Tags    Tags                `json:",omitempty"`
}

func dhcpKind() kindOf[dhcpOptionsRecord] {
	return kindOf[dhcpOptionsRecord]{dhcpOptions, dhcpOptionsID, func(d *dhcpOptionsRecord) (string, *Tags) { return d.ID, &d.Tags }}
}

// noDHCPOptions is the ID a VPC without options has.
const noDHCPOptions = "default"

// internalDomain is the domain of private DNS names.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
func internalDomain(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

func (d dhcpOptionsRecord) options(sc scope) map[string][]string {
	if d.Options != nil {
		return d.Options
	}
	return map[string][]string{"domain-name": {internalDomain(sc.region)}, "domain-name-servers": {"AmazonProvidedDNS"}}
}

func (d dhcpOptionsRecord) sdk(sc scope) ec2types.DhcpOptions {
	out := ec2types.DhcpOptions{DhcpOptionsId: aws.String(d.ID), OwnerId: aws.String(sc.account), Tags: d.Tags.sdk()}
	opts := d.options(sc)
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		c := ec2types.DhcpConfiguration{Key: aws.String(k)}
		for _, v := range opts[k] {
			c.Values = append(c.Values, ec2types.AttributeValue{Value: aws.String(v)})
		}
		out.DhcpConfigurations = append(out.DhcpConfigurations, c)
	}
	return out
}

// parseDHCP checks the options of a request.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateDhcpOptions.html
func parseDHCP(in []ec2types.NewDhcpConfiguration) (map[string][]string, error) {
	out := map[string][]string{}
	invalid := func(key, value string) error {
		return errInvalidParameter("Invalid value '%s' for %s", value, key) // from memory
	}
	for _, c := range in {
		key := aws.ToString(c.Key)
		if len(c.Values) == 0 {
			return nil, errMissing("value")
		}
		most := 1
		switch key {
		case "domain-name-servers", "ntp-servers", "netbios-name-servers":
			most = 4
			if key != "netbios-name-servers" {
				most = 8 // four of each family
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
			return nil, errInvalidValue(key, "name", "Unknown DHCP option") // the end-to-end tests of aws-controllers-k8s/ec2-controller quote it
		}
		if len(c.Values) > most {
			return nil, invalid(key, c.Values[most])
		}
		if _, dup := out[key]; dup {
			return nil, errInvalidParameter("Duplicate DHCP option %s", key) // from memory
		}
		out[key] = slices.Clone(c.Values)
	}
	if len(out) == 0 {
		return nil, errMissing("dhcpConfiguration")
	}
	return out, nil
}

// CreateDhcpOptions creates a set, which VPCs are associated with later.
func (s *Service) CreateDhcpOptions(ctx context.Context, in *awsec2.CreateDhcpOptionsInput) (*awsec2.CreateDhcpOptionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	options, err := parseDHCP(in.DhcpConfigurations)
	if err != nil {
		return nil, err
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeDhcpOptions)
	if err != nil {
		return nil, err
	}
	d := dhcpOptionsRecord{ID: ids.Resource("dopt"), Options: options, Tags: tags}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error { return dhcpOptions.Create(tx, sc.key(d.ID), d) })
	if err != nil {
		return nil, err
	}
	out := d.sdk(sc)
	return &awsec2.CreateDhcpOptionsOutput{DhcpOptions: &out}, nil
}

// AssociateDhcpOptions gives a VPC a set of options, or none: "default".
func (s *Service) AssociateDhcpOptions(ctx context.Context, in *awsec2.AssociateDhcpOptionsInput) (*awsec2.AssociateDhcpOptionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.DhcpOptionsId)
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if id != noDHCPOptions {
			if _, err := get(tx, dhcpOptions, sc, dhcpOptionsID, id); err != nil {
				return err
			}
		}
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		v.DHCPOptionsID = id
		return vpcs.Put(tx, sc.key(v.ID), v)
	})
	return &awsec2.AssociateDhcpOptionsOutput{}, err
}

// DeleteDhcpOptions deletes a set that no VPC uses.
func (s *Service) DeleteDhcpOptions(ctx context.Context, in *awsec2.DeleteDhcpOptionsInput) (*awsec2.DeleteDhcpOptionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		d, err := get(tx, dhcpOptions, sc, dhcpOptionsID, aws.ToString(in.DhcpOptionsId))
		if err != nil {
			return err
		}
		used, err := exists(tx, vpcs, sc, func(v vpcRecord) bool { return v.DHCPOptionsID == d.ID })
		if err != nil {
			return err
		}
		if used {
			return errHasDependencies("dhcpOptions", d.ID)
		}
		dhcpOptions.Delete(tx, sc.key(d.ID))
		return nil
	})
	return &awsec2.DeleteDhcpOptionsOutput{}, err
}

// DescribeDhcpOptions lists DHCP option sets.
func (s *Service) DescribeDhcpOptions(ctx context.Context, in *awsec2.DescribeDhcpOptionsInput) (*awsec2.DescribeDhcpOptionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	found, next, err := describe(s.store, sc, dhcpKind(), query{
		ids: in.DhcpOptionsIds, filters: in.Filters, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{5, 1000},
	}, fields[dhcpOptionsRecord]{
		"dhcp-options-id": one(func(d dhcpOptionsRecord) string { return d.ID }),
		"key":             func(d dhcpOptionsRecord) []string { return slices.Sorted(maps.Keys(d.options(sc))) },
		"owner-id":        one(func(dhcpOptionsRecord) string { return sc.account }),
		"value": func(d dhcpOptionsRecord) []string {
			return slices.Concat(slices.Collect(maps.Values(d.options(sc)))...)
		},
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeDhcpOptionsOutput{DhcpOptions: sdkAll(sc, found), NextToken: next}, nil
}

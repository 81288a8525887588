package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// A dhcpOptionsRecord is a set of DHCP options.
type dhcpOptionsRecord struct {
	ID string
	// Options is nil for the set every region starts with: Amazon's DNS and the
	// region's internal domain.
	Options map[string][]string `json:",omitempty"`
	Tags    Tags                `json:",omitempty"`
}

// internalDomain is the domain of private DNS names.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
func internalDomain(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

func (d dhcpOptionsRecord) options(sc scope) map[string]string {
	return map[string]string{"domain-name": internalDomain(sc.region), "domain-name-servers": "AmazonProvidedDNS"}
}

func (d dhcpOptionsRecord) sdk(sc scope) ec2types.DhcpOptions {
	out := ec2types.DhcpOptions{DhcpOptionsId: aws.String(d.ID), OwnerId: aws.String(sc.account), Tags: d.Tags.sdk()}
	opts := d.options(sc)
	for _, k := range Tags(opts).keys() {
		out.DhcpConfigurations = append(out.DhcpConfigurations, ec2types.DhcpConfiguration{
			Key: aws.String(k), Values: []ec2types.AttributeValue{{Value: aws.String(opts[k])}},
		})
	}
	return out
}

// DescribeDhcpOptions lists DHCP option sets.
func (s *Service) DescribeDhcpOptions(ctx context.Context, in *awsec2.DescribeDhcpOptionsInput) (*awsec2.DescribeDhcpOptionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[dhcpOptionsRecord]{
		"dhcp-options-id": one(func(d dhcpOptionsRecord) string { return d.ID }),
		"key":             func(d dhcpOptionsRecord) []string { return Tags(d.options(sc)).keys() },
		"owner-id":        one(func(dhcpOptionsRecord) string { return sc.account }),
		"value": func(d dhcpOptionsRecord) []string {
			o := d.options(sc)
			return []string{o["domain-name"], o["domain-name-servers"]}
		},
	}, func(d dhcpOptionsRecord) Tags { return d.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choose(s.store, dhcpOptions, sc, dhcpOptionsID, in.DhcpOptionsIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(d dhcpOptionsRecord) string { return d.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeDhcpOptionsOutput{DhcpOptions: sdkAll(sc, found), NextToken: next}, err
}

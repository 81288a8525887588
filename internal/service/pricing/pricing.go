// Package pricing answers the AWS Price List API for EC2's on-demand instances (Linux, shared
// tenancy or bare metal), which Karpenter and cost tools use. Prices come from catalog/prices,
// everything else from catalog/instancetypes.
//
// AWS deviation: there are no products for other operating systems, tenancies, terms and services,
// so a filter for them finds nothing. No other service imports the package.
package pricing

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awspricing "github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

// Service answers the operations. It has no state.
type Service struct{}

// New returns the service.
func New() *Service { return &Service{} }

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:    "pricing",
		Handler: s,
		Operations: []awsapi.Operation{
			{Name: "DescribeServices", Members: "FormatVersion MaxResults NextToken ServiceCode"},
			{Name: "GetAttributeValues", Members: "AttributeName MaxResults NextToken ServiceCode"},
			{Name: "GetProducts", Members: "Filters FormatVersion MaxResults NextToken ServiceCode"},
		},
	}
}

const (
	serviceCode   = "AmazonEC2"
	formatVersion = "aws_v1"
)

// checkRegion rejects calls signed for a region without a Price List endpoint.
// https://docs.aws.amazon.com/general/latest/gr/billing.html#pls_region
func checkRegion(ctx context.Context) error {
	switch region := awsapi.CallFrom(ctx).Region; region {
	case "us-east-1", "ap-south-1", "eu-central-1":
		return nil
	default:
		return errRegion(region)
	}
}

// check does the checks that all operations have in common.
func check(ctx context.Context, code, format *string) error {
	if err := checkRegion(ctx); err != nil {
		return err
	}
	if f := aws.ToString(format); f != "" && f != formatVersion {
		return errFormat(f)
	}
	for _, r := range aws.ToString(code) {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return errServiceCodeForm()
		}
	}
	if code != nil && *code != serviceCode {
		if *code == "" {
			return errNoServiceCode()
		}
		return errServiceCode(*code)
	}
	return nil
}

// DescribeServices lists a service's product attributes.
func (s *Service) DescribeServices(ctx context.Context, in *awspricing.DescribeServicesInput) (*awspricing.DescribeServicesOutput, error) {
	if err := check(ctx, in.ServiceCode, in.FormatVersion); err != nil {
		return nil, err
	}
	if aws.ToString(in.NextToken) != "" {
		return nil, errNextToken() // there is just one service, so a token for a second page is invalid
	}
	return &awspricing.DescribeServicesOutput{
		FormatVersion: aws.String(formatVersion),
		Services:      []pricingtypes.Service{{ServiceCode: aws.String(serviceCode), AttributeNames: attributeNames()}},
	}, nil
}

// attributeNames are the attributes of every product, and the two of the document itself that AWS
// lists as well.
func attributeNames() []string {
	p, _ := newProduct(mustRegion("us-east-1"), "m5.large")
	names := []string{"productFamily", "termType"}
	for name := range p.attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func mustRegion(name string) regions.Region {
	r, _ := regions.Lookup(name)
	return r
}

// GetAttributeValues lists the values that products have for an attribute.
func (s *Service) GetAttributeValues(ctx context.Context, in *awspricing.GetAttributeValuesInput) (*awspricing.GetAttributeValuesOutput, error) {
	if in.ServiceCode == nil {
		return nil, errNoServiceCode()
	}
	if err := check(ctx, in.ServiceCode, nil); err != nil {
		return nil, err
	}
	name := aws.ToString(in.AttributeName)
	if !slices.Contains(attributeNames(), name) {
		return nil, errAttribute(name)
	}
	var values []string
	add := func(p product) {
		if v, ok := p.field(name); ok {
			values = append(values, v)
		}
	}
	// Most attributes depend on either the type or the region. Only usagetype and similar ones
	// depend on both.
	for _, r := range regions.All() {
		for _, t := range instanceTypes(r.Name) {
			if r.Name != "us-east-1" && t != "m5.large" && !byBoth(name) {
				continue
			}
			if p, ok := newProduct(r, t); ok {
				add(p)
			}
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	values, next, err := paging.Cut(pages("values/"+name, 10000), values, func(v string) string { return v }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awspricing.GetAttributeValuesOutput{AttributeValues: []pricingtypes.AttributeValue{}, NextToken: next}
	for _, v := range values {
		out.AttributeValues = append(out.AttributeValues, pricingtypes.AttributeValue{Value: aws.String(v)})
	}
	return out, nil
}

// byBoth are the attributes that depend on both region and type.
func byBoth(attribute string) bool { return attribute == "usagetype" || attribute == "instancesku" }

// instanceTypes returns the types for which a region has products, in a fixed order.
func instanceTypes(region string) []string {
	return slices.DeleteFunc(prices.InstanceTypes(region), func(name string) bool { return !instancetypes.Valid(name) })
}

// GetProducts lists the products that match all filters, each as a JSON document.
func (s *Service) GetProducts(ctx context.Context, in *awspricing.GetProductsInput) (*awspricing.GetProductsOutput, error) {
	if in.ServiceCode == nil {
		return nil, errNoServiceCode()
	}
	if err := check(ctx, in.ServiceCode, in.FormatVersion); err != nil {
		return nil, err
	}
	filters := compile(in.Filters)
	page, err := pages(filters.text, 100).Start(in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	start := 0
	if page.After != "" {
		last, err := strconv.Atoi(page.After)
		if err != nil {
			return nil, errNextToken()
		}
		start = last + 1
	}
	out := &awspricing.GetProductsOutput{FormatVersion: aws.String(formatVersion), PriceList: []string{}}
	// A token contains the last product's position among all products, whose order is fixed.
	position := 0
	for _, r := range regions.All() {
		types := instanceTypes(r.Name)
		if !filters.possible("regionCode", r.Name) || start >= position+len(types) {
			position += len(types)
			continue
		}
		for _, t := range types {
			at := position
			position++
			if at < start || !filters.possible("instanceType", t) {
				continue
			}
			p, ok := newProduct(r, t)
			if !ok || !filters.match(p) {
				continue
			}
			if page.Full() {
				out.NextToken = page.Next()
				return out, nil
			}
			doc, err := p.document()
			if err != nil {
				return nil, fmt.Errorf("writing the product of %s: %w", t, err)
			}
			out.PriceList = append(out.PriceList, doc)
			page.Add(strconv.Itoa(at))
		}
	}
	return out, nil
}

// pages returns the paging rules. AWS's tokens are opaque, "…==:…". A token for different filters
// is rejected.
func pages(question string, usual int) paging.Rules {
	return paging.Rules{Usual: usual, Question: question, BadToken: func(string) error { return errNextToken() }}
}

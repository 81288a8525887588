package pricing_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awspricing "github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/service/pricing"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func client(t *testing.T, region string) *awspricing.Client {
	t.Helper()
	srv := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{pricing.New().AWS()}
	}})
	cfg := srv.AWSConfig(srv.Account(t))
	cfg.Region = region
	return awspricing.NewFromConfig(cfg)
}

func match(pairs ...string) []pricingtypes.Filter {
	var out []pricingtypes.Filter
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, pricingtypes.Filter{Field: &pairs[i], Type: pricingtypes.FilterTypeTermMatch, Value: &pairs[i+1]})
	}
	return out
}

// item has what Karpenter 1.14 reads of a product.
type item struct {
	Product struct {
		Attributes struct{ InstanceType, RegionCode string }
	}
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct{ PricePerUnit map[string]string }
		}
	}
}

// TestKarpenter makes the requests of Karpenter's pricing provider.
func TestKarpenter(t *testing.T) {
	c := client(t, "eu-central-1")
	for _, tc := range []struct {
		tenancy, family, name string
		least                 int
	}{
		{"Shared", "Compute Instance", "m5.large", 800},
		{"Dedicated", "Compute Instance (bare metal)", "c5.metal", 50},
	} {
		t.Run(tc.tenancy, func(t *testing.T) {
			got := map[string]float64{}
			p := awspricing.NewGetProductsPaginator(c, &awspricing.GetProductsInput{
				ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100),
				Filters: match("regionCode", "eu-west-1", "serviceCode", "AmazonEC2", "preInstalledSw", "NA", "operatingSystem", "Linux",
					"capacitystatus", "Used", "marketoption", "OnDemand", "tenancy", tc.tenancy, "productFamily", tc.family),
			})
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, doc := range page.PriceList {
					var it item
					if err := json.Unmarshal([]byte(doc), &it); err != nil {
						t.Fatal(err)
					}
					if it.Product.Attributes.RegionCode != "eu-west-1" {
						t.Errorf("a product of %s", it.Product.Attributes.RegionCode)
					}
					for _, term := range it.Terms.OnDemand {
						for _, d := range term.PriceDimensions {
							usd, err := strconv.ParseFloat(d.PricePerUnit["USD"], 64)
							if _, twice := got[it.Product.Attributes.InstanceType]; err != nil || twice {
								t.Errorf("%s: %v, twice: %v", it.Product.Attributes.InstanceType, err, twice)
							}
							got[it.Product.Attributes.InstanceType] = usd
						}
					}
				}
			}
			want, _ := prices.OnDemand("eu-west-1", tc.name)
			if len(got) < tc.least || got[tc.name] != want {
				t.Errorf("%d prices, %s costs %v, want %v", len(got), tc.name, got[tc.name], want)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	c := client(t, "us-east-1")
	base := match("regionCode", "us-east-1")
	for _, tc := range []struct {
		name   string
		filter pricingtypes.Filter
		want   int
	}{
		{"term", match("instanceType", "m5.large")[0], 1},
		{"field in another case", match("INSTANCETYPE", "m5.large")[0], 1},
		{"value in another case", match("instanceType", "M5.LARGE")[0], 0},
		{"unknown field", match("colour", "red")[0], 0},
		{"Windows", match("operatingSystem", "Windows")[0], 0},
		{"any of", pricingtypes.Filter{Field: aws.String("instanceType"), Type: "ANY_OF", Value: aws.String("m5.large,c5.large,m5.huge")}, 2},
		{"contains", pricingtypes.Filter{Field: aws.String("instanceType"), Type: "CONTAINS", Value: aws.String("m5.12x")}, 1},
		{"equals", pricingtypes.Filter{Field: aws.String("usagetype"), Type: "EQUALS", Value: aws.String("BoxUsage:t3.nano")}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := c.GetProducts(t.Context(), &awspricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), Filters: append(base[:1:1], tc.filter)})
			if err != nil || len(out.PriceList) != tc.want {
				t.Errorf("%d products, %v, want %d", len(out.PriceList), err, tc.want)
			}
		})
	}
	none, err := c.GetProducts(t.Context(), &awspricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), Filters: []pricingtypes.Filter{
		{Field: aws.String("instanceType"), Type: "NONE_OF", Value: aws.String("m5.large")}, base[0], match("instanceType", "m5.large")[0],
	}})
	if err != nil || len(none.PriceList) != 0 {
		t.Errorf("none of: %v %v", none, err)
	}
}

func TestServicesAndAttributes(t *testing.T) {
	c := client(t, "us-east-1")
	services, err := c.DescribeServices(t.Context(), &awspricing.DescribeServicesInput{})
	if err != nil || len(services.Services) != 1 || len(services.Services[0].AttributeNames) < 25 {
		t.Fatalf("%+v %v", services, err)
	}
	for name, least := range map[string]int{"regionCode": 30, "instanceType": 1000, "operatingSystem": 1, "location": 30, "usagetype": 30000, "productFamily": 2} {
		n := 0
		p := awspricing.NewGetAttributeValuesPaginator(c, &awspricing.GetAttributeValuesInput{ServiceCode: aws.String("AmazonEC2"), AttributeName: &name})
		for p.HasMorePages() {
			page, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += len(page.AttributeValues)
		}
		if n < least {
			t.Errorf("%s has %d values", name, n)
		}
	}
}

func TestBadInput(t *testing.T) {
	c := client(t, "us-east-1")
	ctx := t.Context()
	ec2 := aws.String("AmazonEC2")
	products := func(in *awspricing.GetProductsInput) func() error {
		return func() error { _, err := c.GetProducts(ctx, in); return err }
	}
	elsewhere := client(t, "eu-west-1")
	for _, tc := range []struct {
		name, code string
		call       func() error
	}{
		{"unknown service", "NotFoundException", products(&awspricing.GetProductsInput{ServiceCode: aws.String("AmazonMars")})},
		{"service code with a space", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: aws.String("Compute Instance")})},
		{"empty service code", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: aws.String("")})},
		{"format", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: ec2, FormatVersion: aws.String("aws_v9")})},
		{"page of 0", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: ec2, MaxResults: aws.Int32(0)})},
		{"page of 101", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: ec2, MaxResults: aws.Int32(101)})},
		{"token", "InvalidNextTokenException", products(&awspricing.GetProductsInput{ServiceCode: ec2, NextToken: aws.String("x")})},
		{"filter type", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: ec2, Filters: []pricingtypes.Filter{{Field: ec2, Type: "LIKE", Value: ec2}}})},
		{"empty value", "InvalidParameterException", products(&awspricing.GetProductsInput{ServiceCode: ec2, Filters: match("regionCode", "")})},
		{"attribute", "NotFoundException", func() error {
			_, err := c.GetAttributeValues(ctx, &awspricing.GetAttributeValuesInput{ServiceCode: ec2, AttributeName: aws.String("colour")})
			return err
		}},
		{"region", "InvalidSignatureException", func() error {
			_, err := elsewhere.GetProducts(ctx, &awspricing.GetProductsInput{ServiceCode: ec2})
			return err
		}},
		{"not handled", "NotImplemented", func() error {
			_, err := c.GetPriceListFileUrl(ctx, &awspricing.GetPriceListFileUrlInput{FileFormat: aws.String("csv"), PriceListArn: aws.String("arn:aws:pricing:::price-list/aws/AmazonEC2/USD/20260706000000/us-east-1")})
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call()
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != tc.code {
				t.Errorf("got %v, want %s", err, tc.code)
			}
		})
	}
	// A token is valid only for its request.
	page, err := c.GetProducts(ctx, &awspricing.GetProductsInput{ServiceCode: ec2, MaxResults: aws.Int32(1), Filters: match("regionCode", "us-east-1")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.GetProducts(ctx, &awspricing.GetProductsInput{ServiceCode: ec2, MaxResults: aws.Int32(1), NextToken: page.NextToken})
	var bad *pricingtypes.InvalidNextTokenException
	if !errors.As(err, &bad) {
		t.Errorf("another question's token: %v", err)
	}
}

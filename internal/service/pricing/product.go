package pricing

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

// A product is an instance type in a region with Linux, on demand.
type product struct {
	sku        string
	family     string
	attributes map[string]string
	usd        float64
}

// newProduct returns the product for a type in a region, or false if there is none.
func newProduct(r regions.Region, name string) (product, bool) {
	usd, ok := prices.OnDemand(r.Name, name)
	if !ok {
		return product{}, false
	}
	info, ok := instancetypes.Info(name)
	if !ok {
		return product{}, false
	}
	p := product{sku: sku(r.Name, name), family: "Compute Instance", usd: usd}
	tenancy, usage := "Shared", "BoxUsage:"
	if aws.ToBool(info.BareMetal) {
		// AWS also lists bare metal under dedicated tenancy, which is where Karpenter looks.
		p.family, tenancy, usage = "Compute Instance (bare metal)", "Dedicated", "DedicatedUsage:"
	}
	if prefix := usagePrefix(r); prefix != "" {
		usage = prefix + "-" + usage
	}
	p.attributes = map[string]string{
		"availabilityzone":            "NA",
		"capacitystatus":              "Used",
		"classicnetworkingsupport":    "false",
		"currentGeneration":           yesNo(aws.ToBool(info.CurrentGeneration)),
		"enhancedNetworkingSupported": yesNo(info.NetworkInfo != nil && info.NetworkInfo.EnaSupport != ec2types.EnaSupportUnsupported),
		"gpuMemory":                   "NA",
		"instanceFamily":              instanceFamily(name),
		"instanceType":                name,
		"instancesku":                 sku("instance", name),
		"licenseModel":                "No License required",
		"location":                    location(r.LongName),
		"locationType":                "AWS Region",
		"marketoption":                "OnDemand",
		"memory":                      memory(info),
		"networkPerformance":          networkPerformance(info),
		"normalizationSizeFactor":     normalizationSizeFactor(name),
		"operatingSystem":             "Linux",
		"operation":                   "RunInstances",
		"preInstalledSw":              "NA",
		"processorArchitecture":       "64-bit",
		"regionCode":                  r.Name,
		"servicecode":                 serviceCode,
		"servicename":                 "Amazon Elastic Compute Cloud",
		"storage":                     storage(info),
		"tenancy":                     tenancy,
		"usagetype":                   usage + name,
		"vcpu":                        vcpu(info),
		"vpcnetworkingsupport":        "true",
	}
	return p, true
}

// field returns an attribute or another value that AWS's filters accept. Field names are
// case-insensitive: AWS's own examples use ServiceCode.
func (p product) field(name string) (string, bool) {
	if v, ok := p.attributes[name]; ok {
		return v, true
	}
	switch strings.ToLower(name) {
	case "productfamily":
		return p.family, true
	case "termtype":
		return "OnDemand", true
	case "sku":
		return p.sku, true
	}
	for k, v := range p.attributes {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return "", false
}

// Codes of the on-demand term and its hourly rate, the same for all products.
const (
	onDemandTerm = "JRTCKXETXF"
	hourlyRate   = "6YS6EN2CT7"
)

// document returns the product in the format of GetProducts.
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-ppslong.html#price-list-query-api-find-services-products
func (p product) document() (string, error) {
	type object map[string]any
	term, rate := p.sku+"."+onDemandTerm, p.sku+"."+onDemandTerm+"."+hourlyRate
	date := prices.Date()
	usd := strconv.FormatFloat(p.usd, 'f', -1, 64)
	doc, err := json.Marshal(object{
		"product":     object{"productFamily": p.family, "attributes": p.attributes, "sku": p.sku},
		"serviceCode": serviceCode,
		"terms": object{"OnDemand": object{term: object{
			"priceDimensions": object{rate: object{
				"unit":         "Hrs",
				"endRange":     "Inf",
				"description":  fmt.Sprintf("$%s per On Demand Linux %s Instance Hour", usd, p.attributes["instanceType"]),
				"appliesTo":    []string{},
				"rateCode":     rate,
				"beginRange":   "0",
				"pricePerUnit": object{"USD": strconv.FormatFloat(p.usd, 'f', 10, 64)},
			}},
			"sku":            p.sku,
			"effectiveDate":  date.Format("2006-01-02T15:04:05Z"),
			"offerTermCode":  onDemandTerm,
			"termAttributes": object{},
		}}},
		"version":         date.Format("20060102150405"),
		"publicationDate": date.Format("2006-01-02T15:04:05Z"),
	})
	return string(doc), err
}

// sku derives a stable SKU of 16 letters and digits.
func sku(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return base32.StdEncoding.EncodeToString(sum[:10])
}

func yesNo(b bool) string {
	if b {
		return "Yes"
	}
	return "No"
}

// location returns the region's name in the price list, where the older European regions are "EU".
func location(longName string) string {
	switch longName {
	case "Europe (Spain)", "Europe (Zurich)":
		return longName
	}
	return strings.Replace(longName, "Europe (", "EU (", 1)
}

// usagePrefix returns the price list's code of a region, or "" for us-east-1. The rule for newer
// regions is from
// https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html,
// and the codes of older ones are from billing reports.
func usagePrefix(r regions.Region) string {
	switch r.Name {
	case "us-east-1":
		return ""
	case "eu-west-1":
		return "EU"
	case "ap-southeast-1":
		return "APS1"
	case "ap-southeast-2":
		return "APS2"
	case "ap-south-1":
		return "APS3"
	case "ap-southeast-3":
		return "APS4"
	case "ap-south-2":
		return "APS5"
	case "ap-southeast-4":
		return "APS6"
	case "ca-central-1":
		return "CAN1"
	case "ca-west-1":
		return "CAN2"
	}
	id, _, _ := strings.Cut(r.Zones[0].ID, "-")
	return strings.ToUpper(id)
}

func instanceFamily(name string) string {
	family, _, _ := strings.Cut(name, ".")
	letters := strings.TrimRight(family[:strings.IndexAny(family+"0", "0123456789")], "-")
	switch letters {
	case "c", "hpc":
		return "Compute optimized"
	case "r", "x", "z", "u", "cr":
		return "Memory optimized"
	case "i", "d", "h", "im", "is", "hs":
		return "Storage optimized"
	case "p", "g", "gr", "cg":
		return "GPU instance"
	case "inf", "trn", "dl":
		return "Machine Learning ASIC Instances"
	case "f":
		return "FPGA Instances"
	case "vt":
		return "Media Accelerator Instances"
	default:
		return "General purpose"
	}
}

func memory(info *ec2types.InstanceTypeInfo) string {
	if info.MemoryInfo == nil {
		return "NA"
	}
	return strconv.FormatFloat(float64(aws.ToInt64(info.MemoryInfo.SizeInMiB))/1024, 'f', -1, 64) + " GiB"
}

func vcpu(info *ec2types.InstanceTypeInfo) string {
	if info.VCpuInfo == nil {
		return "NA"
	}
	return strconv.Itoa(int(aws.ToInt32(info.VCpuInfo.DefaultVCpus)))
}

func networkPerformance(info *ec2types.InstanceTypeInfo) string {
	if info.NetworkInfo == nil || info.NetworkInfo.NetworkPerformance == nil {
		return "NA"
	}
	return *info.NetworkInfo.NetworkPerformance
}

func storage(info *ec2types.InstanceTypeInfo) string {
	s := info.InstanceStorageInfo
	if s == nil || len(s.Disks) == 0 {
		return "EBS only"
	}
	d := s.Disks[0]
	kind := strings.ToUpper(string(d.Type))
	if s.NvmeSupport == ec2types.EphemeralNvmeSupportRequired {
		kind = "NVMe " + kind
	}
	return fmt.Sprintf("%d x %d %s", aws.ToInt32(d.Count), aws.ToInt64(d.SizeInGB), kind)
}

// normalizationSizeFactor returns the normalization factor of an instance size.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/apply_ri.html
func normalizationSizeFactor(name string) string {
	_, size, _ := strings.Cut(name, ".")
	switch size {
	case "nano":
		return "0.25"
	case "micro":
		return "0.5"
	case "small":
		return "1"
	case "medium":
		return "2"
	case "large":
		return "4"
	case "xlarge":
		return "8"
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(size, "xlarge")); err == nil {
		return strconv.Itoa(8 * n)
	}
	return "NA"
}

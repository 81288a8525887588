// Package quotas is the catalogue of the service quotas of Drydock's services: AWS's codes, names and default values.
// It contains neither the quotas granted to an account (service/servicequotas) nor their enforcement. Any package may
// import it.
package quotas

import (
	"strconv"
	"strings"
	"sync"
)

// A Service is a service in the terms of Service Quotas. VPC has its own code, although its operations are EC2's.
type Service struct{ Code, Name string }

// Services returns the services that have quotas here, sorted by code.
func Services() []Service {
	return []Service{
		{"autoscaling", "Amazon EC2 Auto Scaling"},
		{"ec2", "Amazon Elastic Compute Cloud (Amazon EC2)"},
		{"eks", "Amazon Elastic Kubernetes Service (Amazon EKS)"},
		{"vpc", "Amazon Virtual Private Cloud (Amazon VPC)"},
	}
}

// A Quota limits what an account may have in a region.
type Quota struct {
	Service string // eks
	Code    string // L-1194D53C
	Name    string
	// Default is AWS's value for an account that has not requested an increase.
	Default    float64
	Adjustable bool
	// Value is the account's value. The catalogue sets it to Default.
	Value float64
}

// CountsVCPUs reports whether a quota of EC2 limits the vCPUs of running instances.
func (q *Quota) CountsVCPUs() bool {
	return strings.HasPrefix(q.Name, "Running On-Demand") || strings.HasSuffix(q.Name, "Spot Instance Requests")
}

// AWS deviation: the vCPU quotas of running instances are 1,152 instead of a new account's 5, so that nothing has to be
// requested first.
//
// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
// https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
// https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-quotas.html
const table = `
autoscaling L-CDE20ADC   500 yes Auto Scaling groups per region
autoscaling L-6B80B8FA   200 yes Launch configurations per region
ec2         L-0263D0A3     5 yes EC2-VPC Elastic IPs
ec2         L-1216C47A  1152 yes Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances
ec2         L-34B43A08  1152 yes All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests
ec2         L-3819A6DF  1152 yes All G and VT Spot Instance Requests
ec2         L-417A185B  1152 yes Running On-Demand P instances
ec2         L-7212CCBC  1152 yes All P4, P3 and P2 Spot Instance Requests
ec2         L-DB2E81BA  1152 yes Running On-Demand G and VT instances
ec2         L-6E869C2A  1152 yes Running On-Demand DL instances
ec2         L-85EED4F7  1152 yes All DL Spot Instance Requests
ec2         L-74FC7D96  1152 yes Running On-Demand F instances
ec2         L-88CF9481  1152 yes All F Spot Instance Requests
ec2         L-F7808C92  1152 yes Running On-Demand HPC instances
ec2         L-1945791B  1152 yes Running On-Demand Inf instances
ec2         L-B5D1601B  1152 yes All Inf Spot Instance Requests
ec2         L-2C3B7624  1152 yes Running On-Demand Trn instances
ec2         L-6B0D517C  1152 yes All Trn Spot Instance Requests
ec2         L-43DA4232  1152 yes Running On-Demand High Memory instances
ec2         L-7295265B  1152 yes Running On-Demand X instances
ec2         L-E3A00192  1152 yes All X Spot Instance Requests
ec2         L-A2478D36     5 yes Transit gateways per account
ec2         L-43872EB7    20 yes Transit gateway route tables per transit gateway
eks         L-1194D53C   100 yes Clusters
eks         L-33415657    10 yes Fargate profiles per cluster
eks         L-6D54EA21    30 yes Managed node groups per cluster
eks         L-BD136A63   450 yes Nodes per managed node group
vpc         L-F678F1CE     5 yes VPCs per Region
vpc         L-407747CB   200 yes Subnets per VPC
vpc         L-83CA0A9D     5 yes IPv4 CIDR blocks per VPC
vpc         L-085A6257     5 yes IPv6 CIDR blocks per VPC
vpc         L-E79EC296  2500 yes VPC security groups per Region
vpc         L-0EA8095F    60 yes Inbound or outbound rules per security group
vpc         L-2AFB9258     5 yes Security groups per network interface
vpc         L-DF5E4CA3  5000 yes Network interfaces per Region
vpc         L-A4707A72     5 yes Internet gateways per Region
vpc         L-45FE3B85     5 yes Egress-only internet gateways per Region
vpc         L-FE5A380F     5 yes NAT gateways per Availability Zone
vpc         L-B4A6D682   200 yes Network ACLs per VPC
vpc         L-2AEEBF1A    20 yes Rules per network ACL
vpc         L-589F43AA   200 yes Route tables per VPC
vpc         L-93826ACB   500 yes Routes per route table
vpc         L-7E9ECCDB    50 yes Active VPC peering connections per VPC
vpc         L-DC9F7029    25 yes Outstanding VPC peering connection requests
vpc         L-8312C5BB   168 no  VPC peering connection request expiry hours
vpc         L-1B52E74A    20 yes Gateway VPC endpoints per Region
vpc         L-29B6F2EB    50 yes Interface VPC endpoints per VPC
vpc         L-3248932A 20480 no  Characters per VPC endpoint policy
`

var catalogue = sync.OnceValue(func() map[string][]Quota {
	out := map[string][]Quota{}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		f := strings.Fields(line)
		value, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			panic("quotas: bad line " + line) // a constant of this package
		}
		out[f[0]] = append(out[f[0]], Quota{
			Service: f[0], Code: f[1], Name: strings.Join(f[4:], " "), Default: value, Value: value, Adjustable: f[3] == "yes",
		})
	}
	return out
})

// Of returns a service's quotas in a fixed order, each with its default as the value, or nil if there is no such
// service.
func Of(service string) []Quota { return append([]Quota(nil), catalogue()[service]...) }

// Lookup returns a quota, or false if there is none.
func Lookup(service, code string) (Quota, bool) {
	for _, q := range catalogue()[service] {
		if q.Code == code {
			return q, true
		}
	}
	return Quota{}, false
}

// InTwins reports whether the value of a quota decides something in a twin: those of EKS do, and those of EC2 that count vCPUs.
func InTwins(service, code string) bool {
	q, ok := Lookup(service, code)
	return ok && (service == "eks" || service == "ec2" && q.CountsVCPUs())
}

// ServiceName returns the full name of a service, or false if it has no quotas here.
func ServiceName(code string) (string, bool) {
	for _, s := range Services() {
		if s.Code == code {
			return s.Name, true
		}
	}
	return "", false
}

package endpoint

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// interfaceServices are the AWS services that interface endpoints can connect to, by the last part
// of their names: com.amazonaws.REGION.NAME.
// https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html
const interfaceServices = `
acm acm-pca access-analyzer airflow.api amplify app-integrations appconfig appconfigdata application-autoscaling
appmesh appmesh-envoy-management appstream.api athena auditmanager autoscaling autoscaling-plans
backup backup-gateway batch bedrock bedrock-agent bedrock-agent-runtime bedrock-runtime
cloudformation cloudhsmv2 cloudtrail codeartifact.api codeartifact.repositories codebuild codecommit codedeploy codepipeline
config databrew datasync dms dynamodb ebs ec2 ec2messages ecr.api ecr.dkr ecs ecs-agent ecs-telemetry
eks eks-auth elasticache elasticbeanstalk elasticfilesystem elasticloadbalancing elasticmapreduce email-smtp events
execute-api fis fsx glue grafana guardduty guardduty-data inspector2 iot.data kafka kinesis-firehose kinesis-streams kms
lambda license-manager logs monitoring oam organizations pipes pricing.api ram rds rds-data redshift redshift-data
rekognition resource-groups rolesanywhere s3 sagemaker.api sagemaker.runtime scheduler secretsmanager securityhub
servicecatalog servicediscovery servicequotas sns sqs ssm ssm-contacts ssm-incidents ssmmessages states storagegateway
sts synthetics tagging textract transcribe transfer translate wafv2 xray
`

// An endpointService is a service that endpoints connect to.
type endpointService struct {
	name    string // such as ecr.api
	region  string
	gateway bool // has a gateway endpoint rather than an interface endpoint
}

func services(region string) []endpointService {
	out := []endpointService{{"dynamodb", region, true}, {"s3", region, true}}
	for _, name := range strings.Fields(interfaceServices) {
		out = append(out, endpointService{name, region, false})
	}
	slices.SortStableFunc(out, func(a, b endpointService) int { return strings.Compare(a.name, b.name) })
	return out
}

// findService returns the service with a full name and endpoint type.
func findService(region, full string, gateway bool) (endpointService, error) {
	found := false
	for _, s := range services(region) {
		if s.fullName() == full {
			if s.gateway == gateway {
				return s, nil
			}
			found = true
		}
	}
	if found {
		kind := "Interface"
		if gateway {
			kind = "Gateway"
		}
		return endpointService{}, ec2err.New("InvalidParameter", "Endpoint type (%s) does not match available service types.", kind)
	}
	return endpointService{}, ec2err.New("InvalidServiceName", "The Vpc Endpoint Service '%s' does not exist", full)
}

func (s endpointService) fullName() string { return "com.amazonaws." + s.region + "." + s.name }

func (s endpointService) id() string {
	h := fnv.New64a()
	fmt.Fprint(h, s.fullName(), s.gateway)
	return fmt.Sprintf("vpce-svc-0%016x", h.Sum64())
}

// host returns the service's part of host names: api.ecr for ecr.api, and vpce-svc-… for a service that is not AWS's.
func (s endpointService) host() string {
	switch s.name {
	case "kinesis-streams":
		return "kinesis"
	case "kinesis-firehose":
		return "firehose"
	}
	if first, second, ok := strings.Cut(s.name, "."); ok {
		return second + "." + first
	}
	return s.name
}

// PrivateDNSNames are the service's public names that private DNS resolves inside the VPC.
func (s endpointService) PrivateDNSNames() []string {
	if s.gateway || strings.HasPrefix(s.name, "vpce-svc-") { // whose owners may choose any name
		return nil
	}
	base := s.host() + "." + s.region + ".amazonaws.com"
	switch s.name {
	case "ecr.dkr": // registry host names begin with the account
		return []string{base, "*." + base}
	case "s3":
		return []string{base, "*." + base}
	case "eks", "eks-auth":
		return []string{s.host() + "." + s.region + ".amazonaws.com", s.host() + "." + s.region + ".api.aws"}
	case "execute-api", "codeartifact.repositories":
		return []string{"*." + base}
	}
	return []string{base}
}

// zones returns the zones that the service's interfaces can be in: all zones of the region.
func (s endpointService) zones() []string {
	r, _ := regions.Lookup(s.region)
	return r.ZoneNames()
}

func (s endpointService) serviceType() ec2types.ServiceType {
	if s.gateway {
		return ec2types.ServiceTypeGateway
	}
	return ec2types.ServiceTypeInterface
}

// SDK renders the record for the SDK.
func (s endpointService) SDK(resource.Scope) ec2types.ServiceDetail {
	out := ec2types.ServiceDetail{
		ServiceName: aws.String(s.fullName()), ServiceId: aws.String(s.id()), ServiceRegion: aws.String(s.region), Owner: aws.String("amazon"),
		ServiceType:                []ec2types.ServiceTypeDetail{{ServiceType: s.serviceType()}},
		AvailabilityZones:          s.zones(),
		BaseEndpointDnsNames:       []string{s.host() + "." + s.region + ".vpce.amazonaws.com"},
		AcceptanceRequired:         aws.Bool(false),
		ManagesVpcEndpoints:        aws.Bool(false),
		VpcEndpointPolicySupported: aws.Bool(true),
		SupportedIpAddressTypes:    []ec2types.ServiceConnectivityType{ec2types.ServiceConnectivityTypeIpv4},
	}
	if s.gateway {
		out.BaseEndpointDnsNames = []string{s.host() + "." + s.region + ".amazonaws.com"}
		return out
	}
	names := s.PrivateDNSNames()
	out.PrivateDnsName = aws.String(names[len(names)-1])
	if s.name != "ecr.dkr" {
		out.PrivateDnsName = aws.String(names[0])
	}
	for _, n := range names {
		out.PrivateDnsNames = append(out.PrivateDnsNames, ec2types.PrivateDnsDetails{PrivateDnsName: aws.String(n)})
	}
	out.PrivateDnsNameVerificationState = ec2types.DnsNameStateVerified
	return out
}

// DescribeVpcEndpointServices lists the services that endpoints connect to.
func (s *Service) DescribeVpcEndpointServices(ctx context.Context, in *awsec2.DescribeVpcEndpointServicesInput) (*awsec2.DescribeVpcEndpointServicesOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = endpointService
	match, err := filter.Compile(in.Filters, filter.Fields[v]{
		"owner":                      filter.One(func(v) string { return "amazon" }),
		"service-name":               filter.One(v.fullName),
		"service-region":             filter.One(func(e v) string { return e.region }),
		"service-type":               filter.One(func(e v) string { return string(e.serviceType()) }),
		"supported-ip-address-types": filter.One(func(v) string { return "ipv4" }),
	}, func(v) tag.Set { return nil })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	all := services(sc.Region)
	for _, name := range in.ServiceNames {
		if !slices.ContainsFunc(all, func(e v) bool { return e.fullName() == name }) {
			return nil, ec2err.New("InvalidServiceName", "The Vpc Endpoint Service '%s' does not exist", name)
		}
	}
	all = slices.DeleteFunc(all, func(e v) bool {
		return len(in.ServiceNames) > 0 && !slices.Contains(in.ServiceNames, e.fullName()) || !match(e)
	})
	key := func(e v) string { return e.fullName() + " " + e.id() }
	slices.SortFunc(all, func(a, b v) int { return strings.Compare(key(a), key(b)) })
	all, next, err := resource.Paginate(all, key, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeVpcEndpointServicesOutput{ServiceDetails: resource.SDKAll(sc, all), ServiceNames: []string{}, NextToken: next}
	for _, e := range all {
		out.ServiceNames = append(out.ServiceNames, e.fullName())
	}
	out.ServiceNames = slices.Compact(out.ServiceNames)
	return out, nil
}

package ec2_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// documentedFilters are the filters that the API reference of each of the
// network's calls documents; tags means tag:KEY and tag-key besides.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/OperationList-query-vpc.html
func documentedFilters() map[string]string {
	return map[string]string{
		"DescribeAddresses":                  "allocation-id association-id instance-id network-border-group network-interface-id network-interface-owner-id private-ip-address public-ip tags",
		"DescribeDhcpOptions":                "dhcp-options-id key owner-id value tags",
		"DescribeEgressOnlyInternetGateways": "tags",
		"DescribeFlowLogs":                   "deliver-log-status log-destination-type flow-log-id log-group-name resource-id traffic-type tags",
		"DescribeInstanceConnectEndpoints":   "instance-connect-endpoint-id state subnet-id vpc-id tags",
		"DescribeInternetGateways":           "attachment.state attachment.vpc-id internet-gateway-id owner-id tags",
		"DescribeManagedPrefixLists":         "owner-id prefix-list-id prefix-list-name tags",
		"DescribeNatGateways":                "nat-gateway-id state subnet-id vpc-id tags",
		"DescribeNetworkAcls": `association.association-id association.network-acl-id association.subnet-id default entry.cidr entry.icmp.code
			entry.icmp.type entry.ipv6-cidr entry.port-range.from entry.port-range.to entry.protocol entry.rule-action entry.egress
			entry.rule-number network-acl-id owner-id vpc-id tags`,
		"DescribeNetworkInterfaces": `addresses.association.owner-id addresses.association.public-ip addresses.primary addresses.private-ip-address
			association.allocation-id association.association-id association.ip-owner-id association.public-ip association.public-dns-name
			attachment.attach-time attachment.attachment-id attachment.delete-on-termination attachment.device-index attachment.instance-id
			attachment.instance-owner-id attachment.nat-gateway-id attachment.status availability-zone availability-zone-id description group-id
			ipv6-addresses.ipv6-address interface-type mac-address network-interface-id operator.managed operator.principal owner-id
			private-dns-name private-ip-address requester-id requester-managed source-dest-check status subnet-id vpc-id tags`,
		"DescribePrefixLists": "prefix-list-id prefix-list-name",
		"DescribeRouteTables": `association.gateway-id association.route-table-association-id association.route-table-id association.subnet-id
			association.main owner-id route-table-id route.destination-cidr-block route.destination-ipv6-cidr-block
			route.destination-prefix-list-id route.egress-only-internet-gateway-id route.gateway-id route.instance-id route.nat-gateway-id
			route.transit-gateway-id route.origin route.state route.vpc-peering-connection-id vpc-id tags`,
		"DescribeSecurityGroupRules": "group-id security-group-rule-id tags",
		"DescribeSecurityGroups": `description egress.ip-permission.cidr egress.ip-permission.from-port egress.ip-permission.group-id
			egress.ip-permission.group-name egress.ip-permission.ipv6-cidr egress.ip-permission.prefix-list-id egress.ip-permission.protocol
			egress.ip-permission.to-port egress.ip-permission.user-id group-id group-name ip-permission.cidr ip-permission.from-port
			ip-permission.group-id ip-permission.group-name ip-permission.ipv6-cidr ip-permission.prefix-list-id ip-permission.protocol
			ip-permission.to-port ip-permission.user-id owner-id vpc-id tags`,
		"DescribeSubnets": `availability-zone availability-zone-id available-ip-address-count cidr-block customer-owned-ipv4-pool default-for-az
			enable-dns64 enable-lni-at-device-index ipv6-cidr-block-association.ipv6-cidr-block ipv6-cidr-block-association.association-id
			ipv6-cidr-block-association.state ipv6-native map-customer-owned-ip-on-launch map-public-ip-on-launch outpost-arn owner-id
			private-dns-name-options-on-launch.hostname-type private-dns-name-options-on-launch.enable-resource-name-dns-a-record
			private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record state subnet-arn subnet-id vpc-id tags`,
		"DescribeTags":                "key resource-id resource-type tags value",
		"DescribeVpcEndpointServices": "owner service-name service-region service-type supported-ip-address-types tags",
		"DescribeVpcEndpoints":        "ip-address-type service-name service-region vpc-id vpc-endpoint-id vpc-endpoint-state vpc-endpoint-type tags",
		"DescribeVpcPeeringConnections": `accepter-vpc-info.cidr-block accepter-vpc-info.owner-id accepter-vpc-info.vpc-id expiration-time
			requester-vpc-info.cidr-block requester-vpc-info.owner-id requester-vpc-info.vpc-id status-code status-message
			vpc-peering-connection-id tags`,
		"DescribeVpcs": `cidr cidr-block-association.cidr-block cidr-block-association.association-id cidr-block-association.state dhcp-options-id
			ipv6-cidr-block-association.ipv6-cidr-block ipv6-cidr-block-association.ipv6-pool ipv6-cidr-block-association.association-id
			ipv6-cidr-block-association.state is-default owner-id state vpc-id tags`,
		"GetSecurityGroupsForVpc": "group-id description group-name owner-id primary-vpc-id tags",
	}
}

// filterCall calls an operation with one filter by the SDK's method of its name.
func filterCall(ctx context.Context, w *world, operation, name, vpc string) error {
	method := reflect.ValueOf(w.Client).MethodByName(operation)
	in := reflect.New(method.Type().In(1).Elem())
	f := in.Elem().FieldByName("Filters")
	if !f.IsValid() {
		f = in.Elem().FieldByName("Filter")
	}
	f.Set(reflect.ValueOf([]ec2types.Filter{{Name: aws.String(name), Values: []string{"no such value"}}}))
	if v := in.Elem().FieldByName("VpcId"); v.IsValid() {
		v.Set(reflect.ValueOf(&vpc))
	}
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), in})
	err, _ := out[1].Interface().(error)
	return err
}

func TestEveryDocumentedFilter(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	documented := documentedFilters()
	for _, operation := range slices.Sorted(maps.Keys(documented)) {
		t.Run(operation, func(t *testing.T) {
			for _, name := range strings.Fields(strings.ReplaceAll(documented[operation], "tags", "tag:a tag-key")) {
				if err := filterCall(ctx, w, operation, name, vpc); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			err := filterCall(ctx, w, operation, "colour", vpc)
			wantError(t, err, "InvalidParameterValue", "The filter 'colour' is invalid")
		})
	}
	// No other call of the service accepts any filter either.
	for _, op := range w.service.AWS().Operations {
		if !strings.HasPrefix(op.Name, "Describe") || !strings.Contains(op.Members, "Filter") {
			continue
		}
		if err := filterCall(ctx, w, op.Name, "colour", vpc); err == nil {
			t.Errorf("%s accepts any filter", op.Name)
		}
	}
}

func TestFiltersFind(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.0.0.0/16")
	allocation := w.allocate(t)
	nat := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.public, AllocationId: &allocation}))(t).NatGateway
	for _, f := range [][2]string{
		{"attachment.nat-gateway-id", *nat.NatGatewayId}, {"association.allocation-id", allocation}, {"interface-type", "nat_*"},
		{"requester-managed", "true"}, {"description", "Interface for NAT Gateway nat-?????????????????"},
	} {
		got := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter(f[0], f[1])}))(t).NetworkInterfaces
		if len(got) != 1 || *got[0].NetworkInterfaceId != *nat.NatGatewayAddresses[0].NetworkInterfaceId {
			t.Errorf("%s=%s finds %d interfaces", f[0], f[1], len(got))
		}
	}
}

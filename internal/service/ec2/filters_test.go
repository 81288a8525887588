package ec2_test

import (
	"context"
	_ "embed"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// documentedFilters has one line per operation with filters: its name, and the filter names that
// the SDK documents for it.
//
//go:embed testdata/filters.txt
var documentedFilters string

// filterCall calls an operation with one filter, using the SDK method with the operation's name.
func filterCall(ctx context.Context, w *world, operation, name, vpc string, fleet *string, hub map[string]string) error {
	method := reflect.ValueOf(w.Client).MethodByName(operation)
	in := reflect.New(method.Type().In(1).Elem())
	f := in.Elem().FieldByName("Filters")
	if !f.IsValid() {
		f = in.Elem().FieldByName("Filter")
	}
	value := "no such value"
	if strings.HasPrefix(name, "route-search.") {
		value = "192.0.2.0/24"
	}
	f.Set(reflect.ValueOf([]ec2types.Filter{{Name: aws.String(name), Values: []string{value}}}))
	for member, id := range hub {
		if f := in.Elem().FieldByName(member); f.IsValid() && f.Type() == reflect.TypeFor[*string]() {
			f.Set(reflect.ValueOf(&id))
		}
	}
	switch in := in.Interface().(type) {
	case *awsec2.GetSecurityGroupsForVpcInput:
		in.VpcId = &vpc
	case *awsec2.DescribeFleetInstancesInput:
		in.FleetId = fleet
	case *awsec2.DescribeLaunchTemplateVersionsInput:
		in.Versions = []string{"$Latest"}
	}
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), in})
	err, _ := out[1].Interface().(error)
	return err
}

func TestEveryDocumentedFilter(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	fleet := must(w.CreateFleet(ctx, &awsec2.CreateFleetInput{
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: w.template(t), Version: aws.String("1")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large"}},
		}},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: "on-demand"},
	}))(t).FleetId
	h := newHub(t, w)
	hub := map[string]string{"TransitGatewayRouteTableId": h.table, "TransitGatewayAttachmentId": h.spokes[0].attachment}
	total := 0
	for line := range strings.Lines(documentedFilters) {
		words := strings.Fields(line)
		t.Run(words[0], func(t *testing.T) {
			for _, name := range words[1:] {
				total++
				if err := filterCall(ctx, w, words[0], name, vpc, fleet, hub); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			err := filterCall(ctx, w, words[0], "colour", vpc, fleet, hub)
			wantError(t, err, "InvalidParameterValue", "The filter 'colour' is invalid")
		})
	}
	t.Logf("%d filters", total)
	// No other operation of the service accepts filters.
	for _, op := range w.service.AWS().Operations {
		if !strings.HasPrefix(op.Name, "Describe") || !strings.Contains(op.Members, "Filter") {
			continue
		}
		if err := filterCall(ctx, w, op.Name, "colour", vpc, fleet, hub); err == nil {
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

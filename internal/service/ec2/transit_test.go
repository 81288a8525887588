package ec2_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A hub is a transit gateway with two VPCs attached, each with a subnet and an interface that lets everything private
// in.
type hub struct {
	*world
	id, table string
	spokes    [2]spoke
}

type spoke struct{ vpc, subnet, table, attachment, eni, address string }

// transitState waits until a gateway, an attachment or a route table is in a state.
func (w *world) transitState(t testing.TB, id, state string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		got := ""
		switch {
		case strings.HasPrefix(id, "tgw-attach-"):
			out, err := w.DescribeTransitGatewayVpcAttachments(t.Context(), &awsec2.DescribeTransitGatewayVpcAttachmentsInput{TransitGatewayAttachmentIds: []string{id}})
			if err != nil {
				return err
			}
			got = string(out.TransitGatewayVpcAttachments[0].State)
		case strings.HasPrefix(id, "tgw-rtb-"):
			out, err := w.DescribeTransitGatewayRouteTables(t.Context(), &awsec2.DescribeTransitGatewayRouteTablesInput{TransitGatewayRouteTableIds: []string{id}})
			if err != nil {
				return err
			}
			got = string(out.TransitGatewayRouteTables[0].State)
		default:
			out, err := w.DescribeTransitGateways(t.Context(), &awsec2.DescribeTransitGatewaysInput{TransitGatewayIds: []string{id}})
			if err != nil {
				return err
			}
			got = string(out.TransitGateways[0].State)
		}
		if got != state {
			return fmt.Errorf("%s is %s, not %s", id, got, state)
		}
		return nil
	})
}

func newHub(t testing.TB, w *world) *hub {
	t.Helper()
	ctx := t.Context()
	g := must(w.CreateTransitGateway(ctx, &awsec2.CreateTransitGatewayInput{Description: aws.String("hub")}))(t).TransitGateway
	if g.State != ec2types.TransitGatewayStatePending || *g.Options.AmazonSideAsn != 64512 || g.Options.DnsSupport != "enable" || g.Options.MulticastSupport != "disable" {
		t.Errorf("a new gateway: %+v", g)
	}
	h := &hub{world: w, id: *g.TransitGatewayId, table: *g.Options.AssociationDefaultRouteTableId}
	w.transitState(t, h.id, "available")
	w.transitState(t, h.table, "available")
	for i := range h.spokes {
		s := &h.spokes[i]
		s.vpc = w.vpc(t, fmt.Sprintf("10.%d.0.0/16", i+1))
		s.subnet = w.subnet(t, s.vpc, fmt.Sprintf("10.%d.1.0/24", i+1))
		s.table = *must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", s.vpc)}))(t).RouteTables[0].RouteTableId
		a := must(w.CreateTransitGatewayVpcAttachment(ctx, &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: &h.id, VpcId: &s.vpc, SubnetIds: []string{s.subnet}}))(t)
		s.attachment = *a.TransitGatewayVpcAttachment.TransitGatewayAttachmentId
		w.transitState(t, s.attachment, "available")
		must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &s.table, DestinationCidrBlock: aws.String("10.0.0.0/8"), TransitGatewayId: &h.id}))(t)
		group := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &s.vpc, GroupName: aws.String("app"), Description: aws.String("app")}))(t).GroupId
		must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpProtocol: aws.String("-1"), CidrIp: aws.String("10.0.0.0/8")}))(t)
		e := w.managed(t, w.account, &awsec2.CreateNetworkInterfaceInput{SubnetId: &s.subnet, Groups: []string{*group}})
		s.eni, s.address = *e.NetworkInterfaceId, *e.PrivateIpAddress
	}
	return h
}

func (h *hub) flow() reach.Flow {
	return reach.Flow{From: reach.At(h.spokes[0].eni), To: reach.Addr(netip.MustParseAddr(h.spokes[1].address)), Protocol: reach.TCP, Port: 443}
}

// routes lists a table's routes as DESTINATION TYPE STATE ATTACHMENT.
func (h *hub) routes(t testing.TB, filters ...ec2types.Filter) []string {
	t.Helper()
	out := must(h.SearchTransitGatewayRoutes(t.Context(), &awsec2.SearchTransitGatewayRoutesInput{TransitGatewayRouteTableId: &h.table, Filters: filters}))(t)
	var all []string
	for _, r := range out.Routes {
		line := fmt.Sprintf("%s %s %s", *r.DestinationCidrBlock, r.Type, r.State)
		for _, a := range r.TransitGatewayAttachments {
			line += " " + *a.TransitGatewayAttachmentId
		}
		all = append(all, line)
	}
	return all
}

var anyType = filter("type", "static", "propagated")[0]

// Attached VPCs reach each other as long as every part of the way is there. What is deleted takes AWS's states, and
// goes in AWS's order.
func TestTransitGateway(t *testing.T) {
	w := newWorld(t)
	h := newHub(t, w)
	ctx := t.Context()
	a, b := h.spokes[0], h.spokes[1]
	if got, want := h.routes(t, anyType), []string{"10.1.0.0/16 propagated active " + a.attachment, "10.2.0.0/16 propagated active " + b.attachment}; !slices.Equal(got, want) {
		t.Errorf("got routes %q, want %q", got, want)
	}
	v := reaches(t, w.reach(t), h.flow(), "")
	for kind, want := range map[string]string{reach.KindTransitGateway: h.id, reach.KindTransitTable: h.table} {
		if got := hop(v, kind); got != want {
			t.Errorf("the way leads by %s %q, want %q", kind, got, want)
		}
	}
	if text := v.Text(); !strings.Contains(text, "10.2.0.0/16 → "+b.attachment) {
		t.Errorf("the route is missing in\n%s", text)
	}

	// A static route comes before a propagated one.
	must(w.CreateTransitGatewayRoute(ctx, &awsec2.CreateTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: aws.String("10.2.0.0/16"), Blackhole: aws.Bool(true)}))(t)
	reaches(t, w.reach(t), h.flow(), reach.CodeTransitBadRoute)
	if got := h.routes(t, filter("route-search.exact-match", "10.2.0.0/16")...); !slices.Equal(got, []string{"10.2.0.0/16 static blackhole"}) {
		t.Errorf("got %q", got)
	}
	must(w.ReplaceTransitGatewayRoute(ctx, &awsec2.ReplaceTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: aws.String("10.2.0.0/16"), TransitGatewayAttachmentId: &b.attachment}))(t)
	reaches(t, w.reach(t), h.flow(), "")
	must(w.DeleteTransitGatewayRoute(ctx, &awsec2.DeleteTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: aws.String("10.2.0.0/16")}))(t)

	// Propagation and association.
	link := func() (*string, *string) { return &b.attachment, &h.table }
	at, table := link()
	must(w.DisableTransitGatewayRouteTablePropagation(ctx, &awsec2.DisableTransitGatewayRouteTablePropagationInput{TransitGatewayAttachmentId: at, TransitGatewayRouteTableId: table}))(t)
	reaches(t, w.reach(t), h.flow(), reach.CodeTransitNoRoute)
	must(w.EnableTransitGatewayRouteTablePropagation(ctx, &awsec2.EnableTransitGatewayRouteTablePropagationInput{TransitGatewayAttachmentId: at, TransitGatewayRouteTableId: table}))(t)
	must(w.DisassociateTransitGatewayRouteTable(ctx, &awsec2.DisassociateTransitGatewayRouteTableInput{TransitGatewayAttachmentId: &a.attachment, TransitGatewayRouteTableId: table}))(t)
	reaches(t, w.reach(t), h.flow(), reach.CodeTransitNoTable)
	if out := must(w.GetTransitGatewayRouteTableAssociations(ctx, &awsec2.GetTransitGatewayRouteTableAssociationsInput{TransitGatewayRouteTableId: table}))(t); len(out.Associations) != 1 || *out.Associations[0].ResourceId != b.vpc {
		t.Errorf("associations: %+v", out.Associations)
	}
	second := *must(w.CreateTransitGatewayRouteTable(ctx, &awsec2.CreateTransitGatewayRouteTableInput{TransitGatewayId: &h.id}))(t).TransitGatewayRouteTable.TransitGatewayRouteTableId
	w.transitState(t, second, "available")
	must(w.AssociateTransitGatewayRouteTable(ctx, &awsec2.AssociateTransitGatewayRouteTableInput{TransitGatewayAttachmentId: &a.attachment, TransitGatewayRouteTableId: &second}))(t)
	reaches(t, w.reach(t), h.flow(), reach.CodeTransitNoRoute)

	// The blocks of a prefix list are routes, as they are at any time.
	list := must(w.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{
		PrefixListName: aws.String("spokes"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5), Entries: []ec2types.AddPrefixListEntry{{Cidr: aws.String("10.2.1.0/24")}},
	}))(t).PrefixList.PrefixListId
	must(w.CreateTransitGatewayPrefixListReference(ctx, &awsec2.CreateTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: &second, PrefixListId: list, TransitGatewayAttachmentId: &b.attachment}))(t)
	reaches(t, w.reach(t), h.flow(), "")
	if refs := must(w.GetTransitGatewayPrefixListReferences(ctx, &awsec2.GetTransitGatewayPrefixListReferencesInput{TransitGatewayRouteTableId: &second}))(t).TransitGatewayPrefixListReferences; len(refs) != 1 || refs[0].State != "available" {
		t.Errorf("references: %+v", refs)
	}
	if _, err := w.DeleteManagedPrefixList(ctx, &awsec2.DeleteManagedPrefixListInput{PrefixListId: list}); err == nil {
		t.Error("a prefix list with routes was deleted")
	}
	must(w.DeleteTransitGatewayPrefixListReference(ctx, &awsec2.DeleteTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: &second, PrefixListId: list}))(t)

	// The end.
	_, err := w.DeleteTransitGateway(ctx, &awsec2.DeleteTransitGatewayInput{TransitGatewayId: &h.id})
	if !hasCode(err, "IncorrectState") {
		t.Errorf("deleting a gateway with attachments: %v", err)
	}
	for _, s := range h.spokes {
		must(w.DeleteTransitGatewayVpcAttachment(ctx, &awsec2.DeleteTransitGatewayVpcAttachmentInput{TransitGatewayAttachmentId: &s.attachment}))(t)
		w.transitState(t, s.attachment, "deleted")
	}
	reaches(t, w.reach(t), h.flow(), reach.CodeBadStateRoute)
	if r := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("route.transit-gateway-id", h.id)}))(t).RouteTables; len(r) != 2 || r[0].Routes[1].State != ec2types.RouteStateBlackhole {
		t.Errorf("route tables: %+v", r)
	}
	if e := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("interface-type", "transit_gateway")}))(t).NetworkInterfaces; len(e) != 0 {
		t.Errorf("left over: %+v", e)
	}
	must(w.DeleteTransitGateway(ctx, &awsec2.DeleteTransitGatewayInput{TransitGatewayId: &h.id}))(t)
	w.transitState(t, h.id, "deleted")
	w.transitState(t, second, "deleted")
}

// VPCs without a way out share the NAT gateway of one that has it.
// https://docs.aws.amazon.com/vpc/latest/tgw/transit-gateway-nat-igw.html
func TestTransitGatewayWayOut(t *testing.T) {
	w := newWorld(t)
	h := newHub(t, w)
	ctx := t.Context()
	spoke, egress := h.spokes[0], h.spokes[1]
	all := aws.String("0.0.0.0/0")
	igw := must(w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(w.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &egress.vpc}))(t)
	public := w.subnet(t, egress.vpc, "10.2.2.0/24")
	table := must(w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &egress.vpc}))(t).RouteTable.RouteTableId
	must(w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: table, SubnetId: &public}))(t)
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: all, GatewayId: igw}))(t)
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: aws.String("10.1.0.0/16"), TransitGatewayId: &h.id}))(t)
	nat := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &public, AllocationId: aws.String(w.allocate(t))}))(t).NatGateway.NatGatewayId
	w.settle(t)
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &egress.table, DestinationCidrBlock: all, NatGatewayId: nat}))(t)
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &spoke.table, DestinationCidrBlock: all, TransitGatewayId: &h.id}))(t)
	out := reach.Flow{From: reach.At(spoke.eni), To: reach.Addr(reach.Outside), Protocol: reach.TCP, Port: 443}
	reaches(t, w.reach(t), out, reach.CodeTransitNoRoute)
	must(w.CreateTransitGatewayRoute(ctx, &awsec2.CreateTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: all, TransitGatewayAttachmentId: &egress.attachment}))(t)
	if v := reaches(t, w.reach(t), out, ""); hop(v, reach.KindNATGateway) != *nat {
		t.Errorf("not by the NAT gateway:\n%s", v.Text())
	}
}

func TestTransitGatewayErrors(t *testing.T) {
	w := newWorld(t)
	h := newHub(t, w)
	a, b := h.spokes[0], h.spokes[1]
	other := w.vpc(t, "10.9.0.0/16")
	near, same := w.subnet(t, other, "10.9.1.0/24"), w.subnet(t, other, "10.9.2.0/24")
	spare := must(w.CreateTransitGatewayRouteTable(t.Context(), &awsec2.CreateTransitGatewayRouteTableInput{TransitGatewayId: &h.id}))(t).TransitGatewayRouteTable.TransitGatewayRouteTableId
	w.transitState(t, *spare, "available")
	list := must(w.CreateManagedPrefixList(t.Context(), &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("l"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(1)}))(t).PrefixList.PrefixListId
	reference := &awsec2.CreateTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: spare, PrefixListId: list, Blackhole: aws.Bool(true)}
	must(w.CreateTransitGatewayPrefixListReference(t.Context(), reference))(t)
	none, noTable, noAttachment := "tgw-0123456789abcdef0", "tgw-rtb-0123456789abcdef0", "tgw-attach-0123456789abcdef0"
	for name, tt := range map[string]struct {
		call       func(ctx context.Context) error
		code, text string
	}{
		"unknown gateway": {func(ctx context.Context) error {
			_, err := w.DescribeTransitGateways(ctx, &awsec2.DescribeTransitGatewaysInput{TransitGatewayIds: []string{none}})
			return err
		}, "InvalidTransitGatewayID.NotFound", "Transit Gateway " + none + " was deleted or does not exist."},
		"unknown attachment": {func(ctx context.Context) error {
			_, err := w.DeleteTransitGatewayVpcAttachment(ctx, &awsec2.DeleteTransitGatewayVpcAttachmentInput{TransitGatewayAttachmentId: &noAttachment})
			return err
		}, "InvalidTransitGatewayAttachmentID.NotFound", "Transit Gateway VPC Attachment " + noAttachment + " was deleted or does not exist."},
		"unknown table": {func(ctx context.Context) error {
			_, err := w.SearchTransitGatewayRoutes(ctx, &awsec2.SearchTransitGatewayRoutesInput{TransitGatewayRouteTableId: &noTable, Filters: []ec2types.Filter{anyType}})
			return err
		}, "InvalidRouteTableID.NotFound", ""},
		"VPC attached twice": {func(ctx context.Context) error {
			_, err := w.CreateTransitGatewayVpcAttachment(ctx, &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: &h.id, VpcId: &a.vpc, SubnetIds: []string{a.subnet}})
			return err
		}, "DuplicateTransitGatewayAttachment", h.id + " has non-deleted Transit Gateway Attachments with same VPC ID."},
		"two subnets in a zone": {func(ctx context.Context) error {
			_, err := w.CreateTransitGatewayVpcAttachment(ctx, &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: &h.id, VpcId: &other, SubnetIds: []string{near, same}})
			return err
		}, "DuplicateSubnetsInSameZone", ""},
		"subnet of another VPC": {func(ctx context.Context) error {
			_, err := w.CreateTransitGatewayVpcAttachment(ctx, &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: &h.id, VpcId: &other, SubnetIds: []string{a.subnet}})
			return err
		}, "InvalidSubnetID.NotFound", ""},
		"route without attachment": {func(ctx context.Context) error {
			table := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", other)}))(t).RouteTables[0].RouteTableId
			_, err := w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: aws.String("10.1.0.0/16"), TransitGatewayId: &h.id})
			return err
		}, "InvalidTransitGatewayID.NotFound", "The transitGateway ID '" + h.id + "' does not exist"},
		"associated twice": {func(ctx context.Context) error {
			_, err := w.AssociateTransitGatewayRouteTable(ctx, &awsec2.AssociateTransitGatewayRouteTableInput{TransitGatewayAttachmentId: &b.attachment, TransitGatewayRouteTableId: &h.table})
			return err
		}, "Resource.AlreadyAssociated", ""},
		"propagated twice": {func(ctx context.Context) error {
			_, err := w.EnableTransitGatewayRouteTablePropagation(ctx, &awsec2.EnableTransitGatewayRouteTablePropagationInput{TransitGatewayAttachmentId: &b.attachment, TransitGatewayRouteTableId: &h.table})
			return err
		}, "TransitGatewayRouteTablePropagation.Duplicate", "Propagation " + b.attachment + " already exists in Transit Gateway Route Table " + h.table + "."},
		"not associated": {func(ctx context.Context) error {
			_, err := w.DisassociateTransitGatewayRouteTable(ctx, &awsec2.DisassociateTransitGatewayRouteTableInput{TransitGatewayAttachmentId: &b.attachment, TransitGatewayRouteTableId: spare})
			return err
		}, "InvalidAssociation.NotFound", ""},
		"not propagated": {func(ctx context.Context) error {
			_, err := w.DisableTransitGatewayRouteTablePropagation(ctx, &awsec2.DisableTransitGatewayRouteTablePropagationInput{TransitGatewayAttachmentId: &b.attachment, TransitGatewayRouteTableId: spare})
			return err
		}, "TransitGatewayRouteTablePropagation.NotFound", ""},
		"prefix list referenced twice": {func(ctx context.Context) error {
			_, err := w.CreateTransitGatewayPrefixListReference(ctx, reference)
			return err
		}, "PrefixListReferenceAlreadyExists", ""},
		"no such route": {func(ctx context.Context) error {
			_, err := w.DeleteTransitGatewayRoute(ctx, &awsec2.DeleteTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: aws.String("10.1.0.0/16")})
			return err
		}, "InvalidRoute.NotFound", ""},
		"default table deleted": {func(ctx context.Context) error {
			_, err := w.DeleteTransitGatewayRouteTable(ctx, &awsec2.DeleteTransitGatewayRouteTableInput{TransitGatewayRouteTableId: &h.table})
			return err
		}, "IncorrectState", ""},
		"gateway with attachments": {func(ctx context.Context) error {
			_, err := w.DeleteTransitGateway(ctx, &awsec2.DeleteTransitGatewayInput{TransitGatewayId: &h.id})
			return err
		}, "IncorrectState", h.id + " has non-deleted VPC Attachments: "},
		"multicast": {func(ctx context.Context) error {
			_, err := w.CreateTransitGateway(ctx, &awsec2.CreateTransitGatewayInput{Options: &ec2types.TransitGatewayRequestOptions{MulticastSupport: "enable"}})
			return err
		}, "NotImplemented", ""},
		"subnet with an attachment": {func(ctx context.Context) error {
			_, err := w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &a.subnet})
			return err
		}, "DependencyViolation", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.call(t.Context())
			if !hasCode(err, tt.code) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %s: %s", err, tt.code, tt.text)
			}
		})
	}
}

func TestTransitGatewayQuotas(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	subnets := []string{w.subnet(t, vpc, "10.0.1.0/24")}
	create := func() (*awsec2.CreateTransitGatewayOutput, error) {
		return w.CreateTransitGateway(ctx, &awsec2.CreateTransitGatewayInput{})
	}
	attach := func(gateway string) error {
		_, err := w.CreateTransitGatewayVpcAttachment(ctx, &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: &gateway, VpcId: &vpc, SubnetIds: subnets})
		return err
	}
	w.setQuota(t, "L-A2478D36", 6) // a VPC can be attached to five
	var gateways []string
	for range 6 {
		gateways = append(gateways, *must(create())(t).TransitGateway.TransitGatewayId)
	}
	_, err := create()
	wantError(t, err, "TransitGatewayLimitExceeded", "")
	for i, g := range gateways {
		w.transitState(t, g, "available")
		if err := attach(g); i < 5 && err != nil {
			t.Error(err)
		} else if i == 5 {
			wantError(t, err, "TransitGatewayAttachmentLimitExceeded", "")
		}
	}
	w.setQuota(t, "L-43872EB7", 1) // the default route table
	_, err = w.CreateTransitGatewayRouteTable(ctx, &awsec2.CreateTransitGatewayRouteTableInput{TransitGatewayId: &gateways[0]})
	wantError(t, err, "TransitGatewayRouteTableLimitExceeded", "")
}

package cloudformation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// gateways is a template with resources of which only one can exist at a time: the attachment of an internet gateway
// and the association of a subnet with a route table.
func gateways(vpc, table, more string) string {
	return `
Resources:
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  N: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref V, CidrBlock: 10.0.1.0/24}}
  W: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.1.0.0/16}}
  I: {Type: AWS::EC2::InternetGateway}
  T: {Type: AWS::EC2::RouteTable, Properties: {VpcId: !Ref V}}
  U: {Type: AWS::EC2::RouteTable, Properties: {VpcId: !Ref V}}
  A: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: !Ref ` + vpc + `, InternetGatewayId: !Ref I}}
  L: {Type: AWS::EC2::SubnetRouteTableAssociation, DependsOn: A, Properties: {SubnetId: !Ref N, RouteTableId: !Ref ` + table + `}}
` + more + `
Outputs:
  I: {Value: !Ref I}
  V: {Value: !Ref V}
  W: {Value: !Ref W}
  T: {Value: !Ref T}
  U: {Value: !Ref U}
`
}

// links returns the VPC of the stack's internet gateway and the route table of its subnet, by their logical IDs.
func (w *world) links(t *testing.T, id string) string {
	t.Helper()
	client, out := awsec2.NewFromConfig(w.cfg), w.outputs(w.settled(t, id))
	var found []string
	for _, g := range testkit.Must(client.DescribeInternetGateways(t.Context(), &awsec2.DescribeInternetGatewaysInput{InternetGatewayIds: []string{out["I"]}}))(t).InternetGateways {
		for _, a := range g.Attachments {
			found = append(found, map[string]string{out["V"]: "V", out["W"]: "W"}[*a.VpcId])
		}
	}
	for _, table := range testkit.Must(client.DescribeRouteTables(t.Context(), &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{out["T"], out["U"]}}))(t).RouteTables {
		for range table.Associations {
			found = append(found, map[string]string{out["T"]: "T", out["U"]: "U"}[*table.RouteTableId])
		}
	}
	return strings.Join(found, " ")
}

// fails is a subnet outside its VPC's range, which is created after everything else.
const fails = `  Z: {Type: AWS::EC2::Subnet, DependsOn: L, Properties: {VpcId: !Ref V, CidrBlock: 10.9.0.0/24}}`

// TestDeletedFirst replaces resources that must be deleted before their replacements are created. A rollback
// recreates the old ones.
func TestDeletedFirst(t *testing.T) {
	w := newRunning(t)
	before := w.what(t)
	id := w.create(t, "first", gateways("V", "T", ""))
	w.want(t, id, "CREATE_COMPLETE")
	_, script := w.update(t, id, gateways("W", "U", ""), "UPDATE_COMPLETE")
	wantScript(t, script, `S UPDATE_IN_PROGRESS User Initiated
A UPDATE_IN_PROGRESS Requested update requires the creation of a new physical resource; hence creating one.
A UPDATE_IN_PROGRESS Resource creation Initiated
A UPDATE_COMPLETE
L UPDATE_IN_PROGRESS Requested update requires the creation of a new physical resource; hence creating one.
L UPDATE_IN_PROGRESS Resource creation Initiated
L UPDATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
S UPDATE_COMPLETE`)
	if got := w.links(t, id); got != "W U" {
		t.Error(got)
	}
	_, script = w.update(t, id, gateways("V", "T", fails), "UPDATE_ROLLBACK_COMPLETE")
	if got := w.links(t, id); got != "W U" {
		t.Errorf("%s\n%s", got, script)
	}
	// The replacements of an update that is not rolled back are deleted first, too.
	w.update(t, id, gateways("V", "T", fails), "UPDATE_FAILED", func(in *awscloudformation.UpdateStackInput) { in.DisableRollback = aws.Bool(true) })
	if got := w.links(t, id); got != "V T" {
		t.Error(got)
	}
	testkit.Must(w.RollbackStack(t.Context(), &awscloudformation.RollbackStackInput{StackName: &id}))(t)
	w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
	if got := w.links(t, id); got != "W U" {
		t.Error(got)
	}
	w.update(t, id, gateways("V", "T", fails), "UPDATE_FAILED", func(in *awscloudformation.UpdateStackInput) { in.DisableRollback = aws.Bool(true) })
	w.update(t, id, gateways("W", "U", ""), "UPDATE_COMPLETE")
	if got := w.links(t, id); got != "W U" {
		t.Error(got)
	}
	// Another gateway for the same VPC is attached in place.
	other := strings.Replace(gateways("W", "U", "  J: {Type: AWS::EC2::InternetGateway}"), "InternetGatewayId: !Ref I", "InternetGatewayId: !Ref J", 1)
	_, script = w.update(t, id, other, "UPDATE_COMPLETE")
	if got := w.links(t, id); got != "U" || !strings.Contains(script, "A UPDATE_IN_PROGRESS\nA UPDATE_COMPLETE") {
		t.Errorf("%s\n%s", got, script)
	}
	w.update(t, id, strings.Replace(other, "!Ref J", "!Ref I", 1), "UPDATE_COMPLETE")
	w.update(t, id, strings.Replace(other, "Outputs:", fails+"\nOutputs:", 1), "UPDATE_ROLLBACK_COMPLETE")
	if got := w.links(t, id); got != "W U" {
		t.Error(got)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if now := w.what(t); !slices.Equal(now, before) {
		t.Errorf("left are %v", slices.DeleteFunc(now, func(id string) bool { return slices.Contains(before, id) }))
	}
}

// TestDeletedFirstKilledAnywhere kills a daemon before or after each call of such an update.
func TestDeletedFirstKilledAnywhere(t *testing.T) {
	w := newWorld(t)
	for _, more := range []string{"", fails} {
		status, want := cloudformationtypes.StackStatusUpdateComplete, "W U"
		if more != "" {
			status, want = cloudformationtypes.StackStatusUpdateRollbackComplete, "V T"
		}
		for nth, survived := 1, false; !survived; nth++ {
			for _, after := range []bool{false, true} {
				var id string
				w.killed(t, nth, after, func() {
					id = w.create(t, fmt.Sprintf("d%d%d%t", len(more), nth, after), gateways("V", "T", ""))
					w.want(t, id, "CREATE_COMPLETE")
				}, func() {
					testkit.Must(w.UpdateStack(t.Context(), &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: aws.String(gateways("W", "U", more))}))(t)
				}, func() <-chan struct{} { return w.final(t, id) }, func(lived bool) {
					survived = survived || lived
					w.want(t, id, status)
					if got := w.links(t, id); got != want {
						t.Errorf("%d, %t: %s, want %s\n%s", nth, after, got, want, w.script(t, id))
					}
					w.delete(t, id)
					w.want(t, id, "DELETE_COMPLETE")
				})
				if t.Failed() {
					return
				}
			}
		}
	}
}

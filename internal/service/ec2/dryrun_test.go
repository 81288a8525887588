package ec2_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Handlers process dry runs after their checks, and none may forget to. The test calls each with a
// dry run of an empty request and, unless that is valid, of a valid request. New operations must be
// added to those.
func TestDryRunsChangeNothing(t *testing.T) {
	w := newWorld(t)
	valid := dryRunRequests(t, w)
	maps.Copy(valid, networkDryRuns(t, w))
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{
		Service: "ec2", Account: w.account, Region: testkit.Region,
		Principal: awsapi.Principal{Type: awsapi.Root, Account: w.account, ARN: "arn:aws:iam::" + w.account + ":root"},
	})
	svc := w.service.AWS()
	if !svc.HandlesDryRun {
		t.Error("the pipeline answers dry runs before the handlers")
	}
	for _, op := range svc.Operations {
		handler := reflect.ValueOf(svc.Handler).MethodByName(op.Name)
		in := reflect.New(handler.Type().In(1).Elem())
		if !in.Elem().FieldByName("DryRun").IsValid() {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			changed := w.server.Store.Changed()
			err := dryRun(ctx, handler, in)
			if request, ok := valid[op.Name]; ok && request == nil {
				return // has no valid request here; covered by its own test
			} else if ok {
				if err == nil {
					t.Error("a dry run of an empty request is done")
				}
				err = dryRun(ctx, handler, reflect.ValueOf(request))
			}
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != "DryRunOperation" {
				t.Errorf("got %v, want DryRunOperation", err)
			}
			select {
			case <-changed:
				t.Error("the store has changed")
			default:
			}
		})
	}
}

func dryRun(ctx context.Context, handler, in reflect.Value) error {
	in.Elem().FieldByName("DryRun").Set(reflect.ValueOf(aws.Bool(true)))
	err, _ := handler.Call([]reflect.Value{reflect.ValueOf(ctx), in})[1].Interface().(error)
	return err
}

// dryRunRequests are valid requests by operation. Each would change something or must name a
// resource.
func dryRunRequests(t *testing.T, w *world) map[string]any {
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	empty := w.vpc(t, "10.1.0.0/16")
	sn := w.subnet(t, vpc, "10.0.0.0/24")
	free := w.subnet(t, vpc, "10.0.1.0/24")
	gateway := func(to string) *string {
		igw := must(w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
		if to != "" {
			must(w.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &to}))(t)
		}
		return igw
	}
	attached, detached := gateway(vpc), gateway("")
	table := func() *string {
		return must(w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &vpc}))(t).RouteTable.RouteTableId
	}
	routes, unused := table(), table()
	association := must(w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: routes, SubnetId: &sn}))(t).AssociationId
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: routes, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: attached}))(t)
	group := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: aws.String("g"), Description: aws.String("g")}))(t).GroupId
	rule := func(port int32) []ec2types.IpPermission {
		return []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: &port, ToPort: &port, IpRanges: []ec2types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}},
		}}
	}
	must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpPermissions: rule(80)}))(t)
	must(w.AuthorizeSecurityGroupEgress(ctx, &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: group, IpPermissions: rule(80)}))(t)
	eni := func() *string {
		return must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn}))(t).NetworkInterface.NetworkInterfaceId
	}
	second, spare := eni(), eni()
	key := aws.String("k")
	must(w.CreateKeyPair(ctx, &awsec2.CreateKeyPairInput{KeyName: key}))(t)
	public, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		t.Fatal(err)
	}
	data := &ec2types.RequestLaunchTemplateData{ImageId: image(t, "x86_64"), InstanceType: "m5.large"}
	template := must(w.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("old"), LaunchTemplateData: data}))(t).LaunchTemplate.LaunchTemplateId
	must(w.CreateLaunchTemplateVersion(ctx, &awsec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: template, LaunchTemplateData: data}))(t)
	launched := w.launch(t, 2, func(in *awsec2.RunInstancesInput) { in.SubnetId = &sn })
	running, stopped := []string{*launched[0].InstanceId}, []string{*launched[1].InstanceId}
	attachment := must(w.AttachNetworkInterface(ctx, &awsec2.AttachNetworkInterfaceInput{NetworkInterfaceId: second, InstanceId: &running[0], DeviceIndex: aws.Int32(1)}))(t).AttachmentId
	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: stopped}))(t)
	w.await(t, ec2types.InstanceStateNameStopped, stopped...)
	tags := []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}
	path := func() *string {
		return must(w.CreateNetworkInsightsPath(ctx, &awsec2.CreateNetworkInsightsPathInput{
			Source: attached, Destination: second, Protocol: ec2types.ProtocolTcp, DestinationPort: aws.Int32(22),
		}))(t).NetworkInsightsPath.NetworkInsightsPathId
	}
	analyzed, idle := path(), path()
	analysis := must(w.StartNetworkInsightsAnalysis(ctx, &awsec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: analyzed}))(t).NetworkInsightsAnalysis.NetworkInsightsAnalysisId
	machines := machineDryRuns(t, w, template, launched[0])
	all := map[string]any{
		"CreateNetworkInsightsPath":      &awsec2.CreateNetworkInsightsPathInput{Source: attached, Destination: second, Protocol: ec2types.ProtocolTcp},
		"DeleteNetworkInsightsPath":      &awsec2.DeleteNetworkInsightsPathInput{NetworkInsightsPathId: idle},
		"StartNetworkInsightsAnalysis":   &awsec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: idle},
		"DeleteNetworkInsightsAnalysis":  &awsec2.DeleteNetworkInsightsAnalysisInput{NetworkInsightsAnalysisId: analysis},
		"CreateVpc":                      &awsec2.CreateVpcInput{CidrBlock: aws.String("10.2.0.0/16")},
		"DeleteVpc":                      &awsec2.DeleteVpcInput{VpcId: &empty},
		"DescribeVpcAttribute":           &awsec2.DescribeVpcAttributeInput{VpcId: &vpc, Attribute: "enableDnsSupport"},
		"CreateSubnet":                   &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.0.2.0/24")},
		"DeleteSubnet":                   &awsec2.DeleteSubnetInput{SubnetId: &free},
		"AttachInternetGateway":          &awsec2.AttachInternetGatewayInput{InternetGatewayId: detached, VpcId: &empty},
		"DetachInternetGateway":          &awsec2.DetachInternetGatewayInput{InternetGatewayId: attached, VpcId: &vpc},
		"DeleteInternetGateway":          &awsec2.DeleteInternetGatewayInput{InternetGatewayId: detached},
		"CreateRouteTable":               &awsec2.CreateRouteTableInput{VpcId: &vpc},
		"DeleteRouteTable":               &awsec2.DeleteRouteTableInput{RouteTableId: unused},
		"AssociateRouteTable":            &awsec2.AssociateRouteTableInput{RouteTableId: unused, SubnetId: &free},
		"DisassociateRouteTable":         &awsec2.DisassociateRouteTableInput{AssociationId: association},
		"CreateRoute":                    &awsec2.CreateRouteInput{RouteTableId: unused, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: attached},
		"DeleteRoute":                    &awsec2.DeleteRouteInput{RouteTableId: routes, DestinationCidrBlock: aws.String("0.0.0.0/0")},
		"CreateSecurityGroup":            &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: aws.String("new"), Description: aws.String("new")},
		"DeleteSecurityGroup":            &awsec2.DeleteSecurityGroupInput{GroupId: group},
		"AuthorizeSecurityGroupIngress":  &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpPermissions: rule(443)},
		"AuthorizeSecurityGroupEgress":   &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: group, IpPermissions: rule(443)},
		"RevokeSecurityGroupIngress":     &awsec2.RevokeSecurityGroupIngressInput{GroupId: group, IpPermissions: rule(80)},
		"RevokeSecurityGroupEgress":      &awsec2.RevokeSecurityGroupEgressInput{GroupId: group, IpPermissions: rule(80)},
		"CreateNetworkInterface":         &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn},
		"DeleteNetworkInterface":         &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: spare},
		"AttachNetworkInterface":         &awsec2.AttachNetworkInterfaceInput{NetworkInterfaceId: spare, InstanceId: &running[0], DeviceIndex: aws.Int32(2)},
		"DetachNetworkInterface":         &awsec2.DetachNetworkInterfaceInput{AttachmentId: attachment},
		"CreateTags":                     &awsec2.CreateTagsInput{Resources: []string{vpc}, Tags: tags},
		"DeleteTags":                     &awsec2.DeleteTagsInput{Resources: []string{vpc}, Tags: tags},
		"CreateKeyPair":                  &awsec2.CreateKeyPairInput{KeyName: aws.String("new")},
		"ImportKeyPair":                  &awsec2.ImportKeyPairInput{KeyName: aws.String("new"), PublicKeyMaterial: ssh.MarshalAuthorizedKey(public)},
		"DeleteKeyPair":                  &awsec2.DeleteKeyPairInput{KeyName: key},
		"CreateLaunchTemplate":           &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("new"), LaunchTemplateData: data},
		"CreateLaunchTemplateVersion":    &awsec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: template, LaunchTemplateData: data},
		"DescribeLaunchTemplateVersions": &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: template},
		"ModifyLaunchTemplate":           &awsec2.ModifyLaunchTemplateInput{LaunchTemplateId: template, DefaultVersion: aws.String("2")},
		"DeleteLaunchTemplate":           &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: template},
		"DeleteLaunchTemplateVersions":   &awsec2.DeleteLaunchTemplateVersionsInput{LaunchTemplateId: template, Versions: []string{"2"}},
		"RunInstances":                   &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &sn},
		"StartInstances":                 &awsec2.StartInstancesInput{InstanceIds: stopped},
		"StopInstances":                  &awsec2.StopInstancesInput{InstanceIds: running},
		"RebootInstances":                &awsec2.RebootInstancesInput{InstanceIds: running},
		"TerminateInstances":             &awsec2.TerminateInstancesInput{InstanceIds: running},
	}
	maps.Copy(all, machines)
	maps.Copy(all, transitDryRuns(t, w))
	return all
}

package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// An instance whose interfaces have more records than fit in one transaction can still be
// terminated. Launching such an instance is refused.
func TestInstancesWithManyAddressesEnd(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := must(w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc
	block := *must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{*vpc.VpcId}}))(t).Vpcs[0].Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock
	sn := must(w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: vpc.VpcId, CidrBlock: aws.String("10.0.0.0/24"), Ipv6CidrBlock: aws.String(block[:len(block)-2] + "64")}))(t).Subnet.SubnetId

	id := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.InstanceType, in.SubnetId = "m5.4xlarge", sn })[0].InstanceId
	for n := range int32(4) {
		eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: sn, Ipv6AddressCount: aws.Int32(29)}))(t).NetworkInterface.NetworkInterfaceId
		attachment := must(w.AttachNetworkInterface(ctx, &awsec2.AttachNetworkInterfaceInput{InstanceId: id, NetworkInterfaceId: eni, DeviceIndex: aws.Int32(n + 1)}))(t).AttachmentId
		must(w.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: eni, Attachment: &ec2types.NetworkInterfaceAttachmentChanges{AttachmentId: attachment, DeleteOnTermination: aws.Bool(true)},
		}))(t)
	}
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*id}}))(t)
	w.await(t, "terminated", *id)
	if left := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{}))(t).NetworkInterfaces; len(left) != 0 {
		t.Errorf("%d interfaces are left", len(left))
	}
	if free := *must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{*sn}}))(t).Subnets[0].AvailableIpAddressCount; free != 251 {
		t.Errorf("%d addresses are free", free)
	}

	in := &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.4xlarge", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
	for n := range int32(4) {
		in.NetworkInterfaces = append(in.NetworkInterfaces, ec2types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(n), SubnetId: sn, Ipv6AddressCount: aws.Int32(29)})
	}
	if _, err := w.RunInstances(ctx, in); code(err) != "NotImplemented" {
		t.Errorf("a launch of too many addresses: %v", err)
	}
	in.NetworkInterfaces = in.NetworkInterfaces[:1]
	in.NetworkInterfaces[0].Ipv6AddressCount = aws.Int32(31)
	if _, err := w.RunInstances(ctx, in); code(err) != "PrivateIpAddressLimitExceeded" {
		t.Errorf("more addresses than the type allows: %v", err)
	}
}

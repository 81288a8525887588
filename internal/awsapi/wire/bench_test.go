package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// instances is an answer with n instances as full as those of a node group.
func instances(n int) *awsec2.DescribeInstancesOutput {
	at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	out := &awsec2.DescribeInstancesOutput{}
	for i := range n {
		id := fmt.Sprintf("i-%017x", i)
		out.Reservations = append(out.Reservations, ec2types.Reservation{
			OwnerId: aws.String("000000000000"), ReservationId: aws.String("r-0123456789abcdef0"), Groups: []ec2types.GroupIdentifier{},
			Instances: []ec2types.Instance{{
				InstanceId: &id, ImageId: aws.String("ami-0123456789abcdef0"), InstanceType: ec2types.InstanceTypeM5Large,
				LaunchTime: &at, AmiLaunchIndex: aws.Int32(0), Architecture: ec2types.ArchitectureValuesX8664,
				State:          &ec2types.InstanceState{Code: aws.Int32(16), Name: ec2types.InstanceStateNameRunning},
				PrivateDnsName: aws.String("ip-10-0-0-1.ec2.internal"), PrivateIpAddress: aws.String("10.0.0.1"),
				SubnetId: aws.String("subnet-0123456789abcdef0"), VpcId: aws.String("vpc-0123456789abcdef0"),
				Placement:          &ec2types.Placement{AvailabilityZone: aws.String("us-east-1a"), Tenancy: ec2types.TenancyDefault},
				IamInstanceProfile: &ec2types.IamInstanceProfile{Arn: aws.String("arn:aws:iam::000000000000:instance-profile/p"), Id: aws.String("AIPA")},
				SecurityGroups:     []ec2types.GroupIdentifier{{GroupId: aws.String("sg-1"), GroupName: aws.String("default")}},
				BlockDeviceMappings: []ec2types.InstanceBlockDeviceMapping{{
					DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.EbsInstanceBlockDevice{VolumeId: aws.String("vol-1"), AttachTime: &at, DeleteOnTermination: aws.Bool(true)},
				}},
				NetworkInterfaces: []ec2types.InstanceNetworkInterface{{
					NetworkInterfaceId: aws.String("eni-1"), MacAddress: aws.String("02:00:00:00:00:01"), PrivateIpAddress: aws.String("10.0.0.1"),
					PrivateIpAddresses: []ec2types.InstancePrivateIpAddress{{Primary: aws.Bool(true), PrivateIpAddress: aws.String("10.0.0.1")}},
					Groups:             []ec2types.GroupIdentifier{{GroupId: aws.String("sg-1"), GroupName: aws.String("default")}},
				}},
				Tags: []ec2types.Tag{
					{Key: aws.String("Name"), Value: aws.String("dev-ng")}, {Key: aws.String("eks:cluster-name"), Value: aws.String("dev")},
					{Key: aws.String("eks:nodegroup-name"), Value: aws.String("ng")}, {Key: aws.String("kubernetes.io/cluster/dev"), Value: aws.String("owned")},
				},
			}},
		})
	}
	return out
}

func BenchmarkEncodeDescribeInstances100(b *testing.B) {
	op, out := operation(b, "ec2.DescribeInstances"), instances(100)
	b.ReportAllocs()
	for b.Loop() {
		r, err := wire.Encode(op, out, "rid", "")
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(r.Body)))
	}
}

func BenchmarkDecodeDescribeInstances(b *testing.B) {
	op := operation(b, "ec2.DescribeInstances")
	req := form("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag%3Aeks%3Acluster-name&Filter.1.Value.1=dev&Filter.2.Name=instance-state-name&Filter.2.Value.1=running&MaxResults=1000")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(op, req, &awsec2.DescribeInstancesInput{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetCallerIdentity(b *testing.B) {
	op := operation(b, "sts.GetCallerIdentity")
	req := form("Action=GetCallerIdentity&Version=2011-06-15")
	out := &awssts.GetCallerIdentityOutput{Account: aws.String("000000000000"), Arn: aws.String("arn:aws:iam::000000000000:user/admin"), UserId: aws.String("AIDA")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(op, req, &awssts.GetCallerIdentityInput{}); err != nil {
			b.Fatal(err)
		}
		if _, err := wire.Encode(op, out, "rid", ""); err != nil {
			b.Fatal(err)
		}
	}
}

package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// call returns a context for calling handlers directly.
func (w *world) call(b *testing.B) *awsapi.Call {
	b.Helper()
	if err := w.service.Prepare(b.Context(), w.account, testkit.Region); err != nil {
		b.Fatal(err)
	}
	return &awsapi.Call{Account: w.account, Region: testkit.Region}
}

func BenchmarkRunInstances1000(b *testing.B) {
	w := newWorld(b)
	ctx := awsapi.WithCall(b.Context(), w.call(b))
	v, err := w.service.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		b.Fatal(err)
	}
	sn, err := w.service.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := w.service.RunInstances(ctx, &awsec2.RunInstancesInput{
			ImageId: image(b, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1000), MaxCount: aws.Int32(1000), SubnetId: sn.Subnet.SubnetId,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDescribeInstances100(b *testing.B) {
	w := newWorld(b)
	ctx := awsapi.WithCall(b.Context(), w.call(b))
	w.launch(b, 100, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.service.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDescribeInstances10000 reads one page of 1,000 from the middle of 10,000.
func BenchmarkDescribeInstances10000(b *testing.B) {
	w := newWorld(b)
	ctx := awsapi.WithCall(b.Context(), w.call(b))
	v, err := w.service.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		b.Fatal(err)
	}
	sn, err := w.service.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		b.Fatal(err)
	}
	for range 10 {
		_, err := w.service.RunInstances(ctx, &awsec2.RunInstancesInput{
			ImageId: image(b, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1000), MaxCount: aws.Int32(1000), SubnetId: sn.Subnet.SubnetId,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	first, err := w.service.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(1000)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := w.service.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(1000), NextToken: first.NextToken})
		if err != nil {
			b.Fatal(err)
		}
	}
}

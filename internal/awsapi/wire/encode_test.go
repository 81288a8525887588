package wire_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

const xmlDecl = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

func TestEncode(t *testing.T) {
	at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name   string
		op     string
		out    any
		accept string
		typ    string
		body   string
	}{
		{
			name: "ec2 has sets, milliseconds and a requestId",
			op:   "ec2.DescribeInstances",
			out: &awsec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: []ec2types.Instance{{
				InstanceId: aws.String("i-1"), LaunchTime: &at, EbsOptimized: aws.Bool(false), Tags: []ec2types.Tag{},
				State: &ec2types.InstanceState{Code: aws.Int32(16), Name: ec2types.InstanceStateNameRunning},
			}}}}},
			typ:  "text/xml;charset=UTF-8",
			body: xmlDecl + `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>rid</requestId><reservationSet><item><instancesSet><item><ebsOptimized>false</ebsOptimized><instanceId>i-1</instanceId><launchTime>2024-01-02T03:04:05.000Z</launchTime><instanceState><code>16</code><name>running</name></instanceState><tagSet/></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`,
		},
		{
			name: "ec2 says true where there is no result",
			op:   "ec2.DeleteVpc", out: &awsec2.DeleteVpcOutput{},
			typ:  "text/xml;charset=UTF-8",
			body: xmlDecl + `<DeleteVpcResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>rid</requestId><return>true</return></DeleteVpcResponse>`,
		},
		{
			name: "query has a result, sends false and escapes",
			op:   "iam.ListRoles",
			out:  &awsiam.ListRolesOutput{Roles: []iamtypes.Role{{RoleName: aws.String(`<&">`), CreateDate: &at}}},
			typ:  "text/xml",
			body: `<ListRolesResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><ListRolesResult><IsTruncated>false</IsTruncated><Roles><member><CreateDate>2024-01-02T03:04:05Z</CreateDate><RoleName>&lt;&amp;&quot;&gt;</RoleName></member></Roles></ListRolesResult><ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata></ListRolesResponse>`,
		},
		{
			name: "query answers without a result where there is none",
			op:   "iam.DeleteRole", out: &awsiam.DeleteRoleOutput{},
			typ:  "text/xml",
			body: `<DeleteRoleResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata></DeleteRoleResponse>`,
		},
		{
			name: "query answers in JSON when asked to, as aws-iam-authenticator asks STS",
			op:   "sts.GetCallerIdentity", accept: "application/json",
			out:  &awssts.GetCallerIdentityOutput{Account: aws.String("000000000000"), Arn: aws.String("arn:aws:iam::000000000000:root"), UserId: aws.String("000000000000")},
			typ:  "application/json",
			body: `{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":"000000000000","Arn":"arn:aws:iam::000000000000:root","UserId":"000000000000"},"ResponseMetadata":{"RequestId":"rid"}}}`,
		},
		{
			name: "rest-json has seconds, empty lists and no nil ones",
			op:   "eks.DescribeCluster",
			out: &awseks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{
				Name: aws.String("dev\n"), CreatedAt: aws.Time(at.Add(50 * time.Millisecond)), Tags: map[string]string{},
				ResourcesVpcConfig: &ekstypes.VpcConfigResponse{SubnetIds: []string{}},
			}},
			typ:  "application/json",
			body: `{"cluster":{"createdAt":1704164645.05,"name":"dev\n","resourcesVpcConfig":{"endpointPrivateAccess":false,"endpointPublicAccess":false,"subnetIds":[]},"tags":{}}}`,
		},
		{
			name: "json without a result has no body",
			op:   "kms.EnableKey", out: &kms.EnableKeyOutput{}, typ: "application/x-amz-json-1.1",
		},
		{
			name: "a query-compatible service answers in its old form",
			op:   "sqs?query.CreateQueue", out: &sqs.CreateQueueOutput{QueueUrl: aws.String("u")},
			typ:  "text/xml",
			body: `<CreateQueueResponse xmlns="http://sqs.amazonaws.com/doc/2012-11-05/"><CreateQueueResult><QueueUrl>u</QueueUrl></CreateQueueResult><ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata></CreateQueueResponse>`,
		},
		{
			name: "s3 names its roots itself",
			op:   "s3.ListObjectsV2", out: &s3.ListObjectsV2Output{Contents: []s3types.Object{{Key: aws.String("k")}}},
			typ:  "text/xml",
			body: xmlDecl + `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Contents><Key>k</Key></Contents></ListBucketResult>`,
		},
		{
			name: "s3 answers a location without a wrapper",
			op:   "s3.GetBucketLocation", out: &s3.GetBucketLocationOutput{LocationConstraint: "eu-west-1"},
			typ:  "text/xml",
			body: xmlDecl + `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">eu-west-1</LocationConstraint>`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := wire.Encode(operation(t, c.op), c.out, "rid", c.accept)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Body) != c.body {
				t.Errorf("body\n%s\nwant\n%s", r.Body, c.body)
			}
			if got := r.Header.Get("Content-Type"); got != c.typ {
				t.Errorf("content type %q, want %q", got, c.typ)
			}
			if got := r.Header.Get("x-amzn-RequestId"); got != "rid" {
				t.Errorf("request ID %q", got)
			}
		})
	}
}

func TestEncodeTakesTheStatusOfTheModel(t *testing.T) {
	r, err := wire.Encode(operation(t, "s3.DeleteBucket"), &s3.DeleteBucketOutput{}, "rid", "")
	if err != nil || r.Status != 204 {
		t.Errorf("status %d, %v; want 204", r.Status, err)
	}
}

func TestEncodeKeepsHeadersInOneLine(t *testing.T) {
	r, err := wire.Encode(operation(t, "s3.HeadObject"), &s3.HeadObjectOutput{ETag: aws.String("a\r\nX-Evil: 1")}, "rid", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Header.Get("ETag"); got != "a  X-Evil: 1" {
		t.Errorf("header %q", got)
	}
}

func TestEncodeReplacesWhatXMLCannotHold(t *testing.T) {
	r, err := wire.Encode(operation(t, "iam.DeleteRole"), &awsiam.DeleteRoleOutput{}, "a\x00b\xffc\rd", "")
	if err != nil {
		t.Fatal(err)
	}
	want := `<DeleteRoleResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><ResponseMetadata><RequestId>a` + "\uFFFD" + `b` + "\uFFFD" + `c&#xD;d</RequestId></ResponseMetadata></DeleteRoleResponse>`
	if string(r.Body) != want {
		t.Errorf("body\n%s\nwant\n%s", r.Body, want)
	}
}

package wire_test

import (
	"errors"
	"net/http"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// ignoreUnexported ignores the SDK's marker fields.
var ignoreUnexported = cmp.FilterPath(func(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && f.Name()[0] >= 'a' && f.Name()[0] <= 'z'
}, cmp.Ignore())

// A decodeCase is a request and the expected result: input and members, or an error as "Code: message".
type decodeCase struct {
	name    string
	op      string
	req     *wire.Request
	in      any // an empty input
	want    any
	members string
	err     string
}

var decodeCases = []decodeCase{
	// ec2
	{
		name: "ec2 lists are flattened and carry capitals",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=vpc-id&Filter.1.Value.1=a+b&Filter.1.Value.2=%26&MaxResults=5&DryRun=false"),
		want: &awsec2.DescribeInstancesInput{
			Filters:    []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{"a b", "&"}}},
			MaxResults: aws.Int32(5), DryRun: aws.Bool(false),
		},
		members: "DryRun Filters Filters.Name Filters.Values MaxResults",
	},
	{
		name: "ec2 list positions may have gaps and be huge",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req:     form("InstanceId.100000000=c&InstanceId.2=a&InstanceId.10=b"),
		want:    &awsec2.DescribeInstancesInput{InstanceIds: []string{"a", "b", "c"}},
		members: "InstanceIds",
	},
	{
		name: "ec2 reads parameters of the URL, without the signature's",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req:     rest("GET", "/?Action=DescribeInstances&InstanceId.1=i-1&X-Amz-Signature=0&X-Amz-Security-Token=t", ""),
		want:    &awsec2.DescribeInstancesInput{InstanceIds: []string{"i-1"}},
		members: "InstanceIds",
	},
	{
		name: "ec2 query names differ from location names",
		op:   "ec2.RunInstances", in: &awsec2.RunInstancesInput{},
		req: form("MinCount=1&MaxCount=1&NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.Ipv6Addresses.1.Ipv6Address=%3A%3A1"),
		want: &awsec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{
				DeviceIndex: aws.Int32(0), Ipv6Addresses: []ec2types.InstanceIpv6Address{{Ipv6Address: aws.String("::1")}},
			}},
		},
		members: "MaxCount MinCount NetworkInterfaces NetworkInterfaces.DeviceIndex NetworkInterfaces.Ipv6Addresses NetworkInterfaces.Ipv6Addresses.Ipv6Address",
	},
	{
		name: "ec2 refuses unknown parameters",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form("Filter.1.Colour=red"),
		err: "UnknownParameter: The parameter Filter.1.Colour is not recognized",
	},
	{
		name: "ec2 refuses a list position that is not a number",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form("InstanceId.one=i-1"),
		err: "UnknownParameter: The parameter InstanceId.one is not recognized",
	},
	{
		name: "ec2 names the missing parameter",
		op:   "ec2.CreateSubnet", in: &awsec2.CreateSubnetInput{},
		req: form("CidrBlock=10.0.0.0/24"),
		err: "MissingParameter: The request must contain the parameter VpcId",
	},
	{
		name: "ec2 refuses a value of another type",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form("MaxResults=many"),
		err: "InvalidParameterValue: Value (many) for parameter MaxResults is invalid. Expected: 'integer'.",
	},
	{
		name: "query parameters must be URL-encoded",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form("InstanceId.1=%zz"),
		err: `MalformedQueryString: Keys and values of the query string must be URL-encoded: "InstanceId.1=%zz"`,
	},
	{
		name: "query parameters must not nest without end",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form(strings.Repeat("a.", 100) + "=1"),
		err: "MalformedQueryString: The request is nested too deeply.",
	},
	{
		name: "query parameters must not be too many",
		op:   "ec2.DescribeInstances", in: &awsec2.DescribeInstancesInput{},
		req: form(manyParameters()),
		err: "MalformedQueryString: The request has too many parameters.",
	},

	// query
	{
		name: "a presigned GetCallerIdentity, the token of aws eks get-token, has no members",
		op:   "sts.GetCallerIdentity", in: &awssts.GetCallerIdentityInput{},
		req:  rest("GET", "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20240102%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-Date=20240102T030405Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=0", "", "x-k8s-aws-id", "dev"),
		want: &awssts.GetCallerIdentityInput{},
	},
	{
		name: "query lists have a member element",
		op:   "iam.CreateRole", in: &awsiam.CreateRoleInput{},
		req: form("Action=CreateRole&Version=2010-05-08&RoleName=r&AssumeRolePolicyDocument=%7B%7D&Tags.member.1.Key=k&Tags.member.1.Value="),
		want: &awsiam.CreateRoleInput{
			RoleName: aws.String("r"), AssumeRolePolicyDocument: aws.String("{}"),
			Tags: []iamtypes.Tag{{Key: aws.String("k"), Value: aws.String("")}},
		},
		members: "AssumeRolePolicyDocument RoleName Tags Tags.Key Tags.Value",
	},
	{
		name: "query takes an empty value for an empty list",
		op:   "iam.TagRole", in: &awsiam.TagRoleInput{},
		req:     form("RoleName=r&Tags="),
		want:    &awsiam.TagRoleInput{RoleName: aws.String("r"), Tags: []iamtypes.Tag{}},
		members: "RoleName Tags",
	},
	{
		name: "query reports unknown parameters out of reach of honoured members",
		op:   "iam.TagRole", in: &awsiam.TagRoleInput{},
		req:     form("RoleName=r&Tags.member.1.Key=k&Tags.member.1.Value=v&Tags.member.1.Colour=red&Speed=1"),
		want:    &awsiam.TagRoleInput{RoleName: aws.String("r"), Tags: []iamtypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}}},
		members: "RoleName Speed Tags Tags.Key Tags.Value Tags/member/1/Colour",
	},
	{
		name: "query names all missing members",
		op:   "iam.CreateRole", in: &awsiam.CreateRoleInput{},
		req: form("Tags.member.1.Key=k"),
		err: "ValidationError: 3 validation errors detected: Value null at 'tags.1.member.value' failed to satisfy constraint: Member must not be null; Value null at 'assumeRolePolicyDocument' failed to satisfy constraint: Member must not be null; Value null at 'roleName' failed to satisfy constraint: Member must not be null",
	},
	{
		name: "query refuses a value of another type",
		op:   "sts.AssumeRole", in: &awssts.AssumeRoleInput{},
		req: form("RoleArn=a&RoleSessionName=s&DurationSeconds=1h"),
		err: "MalformedInput: Value (1h) for parameter DurationSeconds is not a valid integer.",
	},
	{
		name: "query-compatible services accept their old form",
		op:   "sqs?query.CreateQueue", in: &sqs.CreateQueueInput{},
		req: form("Action=CreateQueue&Version=2012-11-05&QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=5&Tag.1.Key=a&Tag.1.Value=b"),
		want: &sqs.CreateQueueInput{
			QueueName: aws.String("q"), Attributes: map[string]string{"DelaySeconds": "5"}, Tags: map[string]string{"a": "b"},
		},
		members: "Attributes QueueName tags",
	},

	// json
	{
		name: "json reads every kind of value",
		op:   "ssm.PutParameter", in: &awsssm.PutParameterInput{},
		req: rest("POST", "/", `{"Name":"n","Value":"v\u00e9","Overwrite":true,"Tags":[{"Key":"k","Value":"v"}],"Tier":null}`),
		want: &awsssm.PutParameterInput{
			Name: aws.String("n"), Value: aws.String("vé"), Overwrite: aws.Bool(true),
			Tags: []ssmtypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}},
		},
		members: "Name Overwrite Tags Tags.Key Tags.Value Value",
	},
	{
		name: "json takes no body for an empty object",
		op:   "ssm.DescribeParameters", in: &awsssm.DescribeParametersInput{},
		req: rest("POST", "/", ""), want: &awsssm.DescribeParametersInput{},
	},
	{
		name: "json takes whole numbers in any notation",
		op:   "ssm.DescribeParameters", in: &awsssm.DescribeParametersInput{},
		req: rest("POST", "/", `{"MaxResults":1.0e1}`), want: &awsssm.DescribeParametersInput{MaxResults: aws.Int32(10)},
		members: "MaxResults",
	},
	{
		name: "json reports unknown members",
		op:   "ssm.GetParameter", in: &awsssm.GetParameterInput{},
		req:  rest("POST", "/", `{"Name":"n","Colour":"red"}`),
		want: &awsssm.GetParameterInput{Name: aws.String("n")}, members: "Colour Name",
	},
	{
		name: "json refuses a missing member",
		op:   "ssm.GetParameter", in: &awsssm.GetParameterInput{},
		req: rest("POST", "/", `{}`),
		err: "ValidationException: 1 validation error detected: Value null at 'name' failed to satisfy constraint: Member must not be null",
	},
	{
		name: "json refuses a number for a string",
		op:   "ssm.GetParameter", in: &awsssm.GetParameterInput{},
		req: rest("POST", "/", `{"Name":1}`),
		err: "SerializationException: NUMBER_VALUE can not be converted to a String",
	},
	{
		name: "json refuses a string for a number",
		op:   "ssm.DescribeParameters", in: &awsssm.DescribeParametersInput{},
		req: rest("POST", "/", `{"MaxResults":"5"}`),
		err: "SerializationException: STRING_VALUE can not be converted to an Integer",
	},
	{
		name: "json refuses a number out of range",
		op:   "ssm.DescribeParameters", in: &awsssm.DescribeParametersInput{},
		req: rest("POST", "/", `{"MaxResults":1e300}`),
		err: "SerializationException: NUMBER_VALUE can not be converted to an Integer",
	},
	{
		name: "json refuses a structure for a list",
		op:   "ssm.GetParameters", in: &awsssm.GetParametersInput{},
		req: rest("POST", "/", `{"Names":{}}`),
		err: "SerializationException: Start of structure or map found where not expected.",
	},
	{
		name: "json refuses a truncated body",
		op:   "ssm.GetParameter", in: &awsssm.GetParameterInput{},
		req: rest("POST", "/", `{"Name":"n`),
		err: "SerializationException: The request body is not valid JSON.",
	},
	{
		name: "json refuses two values",
		op:   "ssm.GetParameter", in: &awsssm.GetParameterInput{},
		req: rest("POST", "/", `{"Name":"n"}{}`),
		err: "SerializationException: The request body has data after its JSON value.",
	},
	{
		name: "json refuses nesting without end",
		op:   "ssm.GetParameter", in: &awsssm.GetParameterInput{},
		req: rest("POST", "/", strings.Repeat(`{"a":`, 1000)),
		err: "SerializationException: The request is nested too deeply.",
	},
	{
		name: "json reads a union's member",
		op:   "ssm.StartExecutionPreview", in: &awsssm.StartExecutionPreviewInput{},
		req: rest("POST", "/", `{"DocumentName":"doc","ExecutionInputs":{"Automation":{"TargetParameterName":"p"}}}`),
		want: &awsssm.StartExecutionPreviewInput{
			DocumentName: aws.String("doc"),
			ExecutionInputs: &ssmtypes.ExecutionInputsMemberAutomation{
				Value: ssmtypes.AutomationExecutionInputs{TargetParameterName: aws.String("p")},
			},
		},
		members: "DocumentName ExecutionInputs ExecutionInputs.Automation ExecutionInputs.Automation.TargetParameterName",
	},

	// rest-json
	{
		name: "rest-json unescapes labels and keeps what value types lose",
		op:   "eks.UpdateNodegroupVersion", in: &awseks.UpdateNodegroupVersionInput{},
		req:     rest("POST", "/clusters/a%2Fb/node-groups/n%20g/update-version", `{"force":false,"clientRequestToken":"t"}`),
		want:    &awseks.UpdateNodegroupVersionInput{ClusterName: aws.String("a/b"), NodegroupName: aws.String("n g"), ClientRequestToken: aws.String("t")},
		members: "clientRequestToken clusterName force nodegroupName",
	},
	{
		name: "rest-json reads the query",
		op:   "eks.UntagResource", in: &awseks.UntagResourceInput{},
		req:     rest("DELETE", "/tags/arn%3Aaws%3Aeks%3Aus-east-1%3A000000000000%3Acluster%2Fdev?tagKeys=a&tagKeys=b%20c", ""),
		want:    &awseks.UntagResourceInput{ResourceArn: aws.String("arn:aws:eks:us-east-1:000000000000:cluster/dev"), TagKeys: []string{"a", "b c"}},
		members: "resourceArn tagKeys",
	},
	{
		name: "rest-json reports unknown members and parameters",
		op:   "eks.UpdateClusterConfig", in: &awseks.UpdateClusterConfigInput{},
		req: rest("POST", "/clusters/dev/update-config?speed=1&X-Amz-Date=now", `{"resourcesVpcConfig":{"colour":1}}`),
		want: &awseks.UpdateClusterConfigInput{
			Name: aws.String("dev"), ResourcesVpcConfig: &ekstypes.VpcConfigRequest{},
		},
		members: "?speed name resourcesVpcConfig resourcesVpcConfig/colour",
	},
	{
		name: "eks answers missing members with its own exception",
		op:   "eks.CreateCluster", in: &awseks.CreateClusterInput{},
		req: rest("POST", "/clusters", `{"name":"dev","resourcesVpcConfig":{}}`),
		err: "InvalidParameterException: 1 validation error detected: Value null at 'roleArn' failed to satisfy constraint: Member must not be null",
	},
	{
		name: "rest-json refuses a bad number in the query",
		op:   "eks.ListClusters", in: &awseks.ListClustersInput{},
		req: rest("GET", "/clusters?maxResults=x", ""),
		err: "SerializationException: Value (x) at 'maxResults' can not be converted to integer",
	},

	// rest-xml
	{
		name: "rest-xml reads labels, lists and structures",
		op:   "route53.CreateHostedZone", in: &route53.CreateHostedZoneInput{},
		req: rest("POST", "/2013-04-01/hostedzone", `<?xml version="1.0"?><CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Name>a&amp;b</Name><CallerReference>r</CallerReference></CreateHostedZoneRequest>`),
		want: &route53.CreateHostedZoneInput{
			Name: aws.String("a&b"), CallerReference: aws.String("r"),
		},
		members: "CallerReference Name",
	},
	{
		name: "rest-xml refuses document types",
		op:   "route53.CreateHostedZone", in: &route53.CreateHostedZoneInput{},
		req: rest("POST", "/2013-04-01/hostedzone", `<!DOCTYPE x [<!ENTITY e "e">]><CreateHostedZoneRequest><Name>&e;</Name></CreateHostedZoneRequest>`),
		err: "InvalidInput: Invalid XML ; The request body is not well-formed XML.",
	},
	{
		name: "rest-xml refuses unknown entities",
		op:   "route53.CreateHostedZone", in: &route53.CreateHostedZoneInput{},
		req: rest("POST", "/2013-04-01/hostedzone", `<CreateHostedZoneRequest><Name>&e;</Name></CreateHostedZoneRequest>`),
		err: "InvalidInput: Invalid XML ; The request body is not well-formed XML.",
	},
	{
		name: "rest-xml refuses nesting without end",
		op:   "route53.CreateHostedZone", in: &route53.CreateHostedZoneInput{},
		req: rest("POST", "/2013-04-01/hostedzone", strings.Repeat("<a>", 1000)+strings.Repeat("</a>", 1000)),
		err: "InvalidInput: Invalid XML ; The request body is not well-formed XML.",
	},
}

// manyParameters is a body beyond the bound on names.
func manyParameters() string {
	var b strings.Builder
	for i := range 60_000 {
		b.WriteString("InstanceId.")
		b.WriteString(strings.Repeat("1", 1+i%9))
		b.WriteByte(byte('0' + i%10))
		b.WriteString("." + time.Duration(i).String())
		b.WriteString("=x&")
	}
	return b.String()
}

func TestDecode(t *testing.T) {
	for _, c := range decodeCases {
		t.Run(c.name, func(t *testing.T) {
			in := reflect.New(reflect.TypeOf(c.in).Elem()).Interface()
			members, err := wire.Decode(operation(t, c.op), c.req, in)
			if err == nil {
				err = wire.Validate(operation(t, c.op), nil, in, members)
			}
			if c.err != "" {
				var e *awserr.Error
				if !errors.As(err, &e) {
					t.Fatalf("error %v, want %s", err, c.err)
				}
				if got := e.Code + ": " + e.Message; got != c.err {
					t.Errorf("error\n%s\nwant\n%s", got, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, in, ignoreUnexported); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			var names []string
			for m := range members {
				names = append(names, m)
			}
			sort.Strings(names)
			if got := strings.Join(names, " "); got != c.members {
				t.Errorf("members\n%s\nwant\n%s", got, c.members)
			}
		})
	}
}

// A member that the model has and the SDK's struct lacks must be refused, even if its operation honours everything.
func TestDecodeReportsMembersTheSDKLacks(t *testing.T) {
	var in struct{ Name *string }
	members, err := wire.Decode(operation(t, "ssm.PutParameter"), rest("POST", "/", `{"Name":"n","Value":"v"}`), &in)
	if err != nil {
		t.Fatal(err)
	}
	if !members.Has("Value") {
		t.Error("Value is not present")
	}
	if aws.ToString(in.Name) != "n" {
		t.Errorf("name %v", in.Name)
	}
}

func TestDecodeAcceptsEveryTimestampFormat(t *testing.T) {
	want := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, text := range []string{
		"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.000Z", "2024-01-02T05:04:05+02:00",
		"2024-01-02T03:04:05", "Tue, 02 Jan 2024 03:04:05 GMT", "1704164645", "1.704164645E9",
	} {
		t.Run(text, func(t *testing.T) {
			var in awsec2.DescribeSpotPriceHistoryInput
			req := &wire.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte("StartTime=" + strings.ReplaceAll(text, "+", "%2B"))}
			if _, err := wire.Decode(operation(t, "ec2.DescribeSpotPriceHistory"), req, &in); err != nil {
				t.Fatal(err)
			}
			if !in.StartTime.Equal(want) {
				t.Errorf("%v, want %v", in.StartTime, want)
			}
		})
	}
}

func TestDecodeRefusesWhatIsNoStruct(t *testing.T) {
	for _, in := range []any{nil, 1, awsec2.DescribeInstancesInput{}, (*awsec2.DescribeInstancesInput)(nil)} {
		if _, err := wire.Decode(operation(t, "ec2.DescribeInstances"), form(""), in); err == nil {
			t.Errorf("%T is accepted", in)
		}
	}
}

package wire_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// Where the events of TestTrail were recorded. Long values are shortened, and members that add nothing are left out;
// names and nesting are unchanged.
const (
	// A day of attacks on an account of Invictus Incident Response, July 2023:
	// https://github.com/invictus-ir/aws_dataset
	recordedByInvictus = "invictus-ir/aws_dataset CloudTrail/218007301253_CloudTrail_us-east-1_20230710T"
	// https://github.com/DataDog/stratus-red-team/tree/main/docs/detonation-logs
	recordedByStratus = "DataDog/stratus-red-team docs/detonation-logs/"
	// https://github.com/Permiso-io-tools/CloudConsoleCartographer/tree/main/Tests/Sessions
	recordedByCartographer = "Permiso-io-tools/CloudConsoleCartographer Tests/Sessions/"
	// https://github.com/panther-labs/panther-analysis/tree/main/rules/aws_cloudtrail_rules
	recordedByPanther = "panther-labs/panther-analysis rules/aws_cloudtrail_rules/"
)

// TestTrail compares with events as CloudTrail recorded them.
func TestTrail(t *testing.T) {
	at := time.Date(2023, 7, 10, 11, 55, 14, 0, time.UTC)
	str := aws.String
	spec := func(kind ec2types.ResourceType, kv ...string) []ec2types.TagSpecification {
		var tags []ec2types.Tag
		for i := 0; i < len(kv); i += 2 {
			tags = append(tags, ec2types.Tag{Key: &kv[i], Value: &kv[i+1]})
		}
		return []ec2types.TagSpecification{{ResourceType: kind, Tags: tags}}
	}
	filter := func(name string, values ...string) []ec2types.Filter {
		return []ec2types.Filter{{Name: &name, Values: values}}
	}
	tags := []ec2types.Tag{{Key: str("StratusRedTeam"), Value: str("true")}}
	for _, tt := range []struct {
		source string
		op     string
		in     any // or out
		out    any
		want   string
	}{
		// EC2's old operations: the WSDL's names.
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.RunInstances", &awsec2.RunInstancesInput{
			ImageId: str("ami-1"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "t3.micro", ClientToken: str("D3"),
			NetworkInterfaces:  []ec2types.InstanceNetworkInterfaceSpecification{{NetworkInterfaceId: str("eni-1"), DeviceIndex: aws.Int32(0), DeleteOnTermination: aws.Bool(false)}},
			IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: str("p")}, EbsOptimized: aws.Bool(false), TagSpecifications: spec("instance", "StratusRedTeam", "true"),
			CreditSpecification: &ec2types.CreditSpecificationRequest{CpuCredits: str("unlimited")}, HibernationOptions: &ec2types.HibernationOptionsRequest{Configured: aws.Bool(false)},
		}, nil, `{"instancesSet":{"items":[{"imageId":"ami-1","minCount":1,"maxCount":1}]},"instanceType":"t3.micro","blockDeviceMapping":{},
			"monitoring":{"enabled":false},"disableApiTermination":false,"disableApiStop":false,"clientToken":"D3",
			"networkInterfaceSet":{"items":[{"networkInterfaceId":"eni-1","deviceIndex":0,"deleteOnTermination":false}]},
			"iamInstanceProfile":{"name":"p"},"ebsOptimized":false,"tagSpecificationSet":{"items":[{"resourceType":"instance","tags":[{"key":"StratusRedTeam","value":"true"}]}]},
			"creditSpecification":{"cpuCredits":"unlimited"},"hibernationOptions":{"configured":false}}`},
		{recordedByCartographer + "0a94aa63bc", "ec2.RunInstances", &awsec2.RunInstancesInput{
			ImageId: str("ami-1"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), KeyName: str("k"), InstanceType: "t2.micro",
			NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), AssociatePublicIpAddress: aws.Bool(true), Groups: []string{"sg-1"}}},
		}, nil, `{"networkInterfaceSet":{"items":[{"groupSet":{"items":[{"groupId":"sg-1"}]},"deviceIndex":0,"associatePublicIpAddress":true}]},"blockDeviceMapping":{},
			"disableApiStop":false,"disableApiTermination":false,"instanceType":"t2.micro","monitoring":{"enabled":false},
			"instancesSet":{"items":[{"maxCount":1,"keyName":"k","minCount":1,"imageId":"ami-1"}]}}`},
		{recordedByPanther + " of a launch by Auto Scaling", "ec2.RunInstances", &awsec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "p2.xlarge", ClientToken: str("fleet-1-0"), SubnetId: str("subnet-1"),
			Placement: &ec2types.Placement{AvailabilityZone: str("us-west-2a")},
		}, nil, `{"availabilityZone":"us-west-2a","blockDeviceMapping":{},"clientToken":"fleet-1-0","disableApiStop":false,"disableApiTermination":false,
			"instanceType":"p2.xlarge","instancesSet":{"items":[{"maxCount":1,"minCount":1}]},"monitoring":{"enabled":false},"subnetId":"subnet-1"}`},
		{"https://github.com/GorillaStack/auto-tag sample_ec2_runinstances_event.js", "ec2.RunInstances", &awsec2.RunInstancesInput{
			ImageId: str("ami-1"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SecurityGroupIds: []string{"sg-1"}, SecurityGroups: []string{"g"}, UserData: str("c2VjcmV0"),
			BlockDeviceMappings: []ec2types.BlockDeviceMapping{{DeviceName: str("/dev/xvda"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(8), DeleteOnTermination: aws.Bool(true), VolumeType: "gp2"}}},
		}, nil, `{"instancesSet":{"items":[{"imageId":"ami-1","minCount":1,"maxCount":1}]},"groupSet":{"items":[{"groupId":"sg-1"},{"groupName":"g"}]},
			"userData":"<sensitiveDataRemoved>","monitoring":{"enabled":false},"disableApiTermination":false,"disableApiStop":false,
			"blockDeviceMapping":{"items":[{"deviceName":"/dev/xvda","ebs":{"volumeSize":8,"deleteOnTermination":true,"volumeType":"gp2"}}]}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.RunInstances", nil, &awsec2.RunInstancesOutput{
			ReservationId: str("r-1"), OwnerId: str("123837392027"), Groups: []ec2types.GroupIdentifier{}, Instances: []ec2types.Instance{{
				InstanceId: str("i-1"), State: &ec2types.InstanceState{Code: aws.Int32(0), Name: "pending"}, LaunchTime: &at, Tags: tags,
				SecurityGroups: []ec2types.GroupIdentifier{{GroupId: str("sg-1")}},
				NetworkInterfaces: []ec2types.InstanceNetworkInterface{{
					NetworkInterfaceId: str("eni-1"), Ipv6Addresses: []ec2types.InstanceIpv6Address{},
					PrivateIpAddresses: []ec2types.InstancePrivateIpAddress{{PrivateIpAddress: str("10.0.1.10"), Primary: aws.Bool(true)}},
				}},
			}},
		}, `{"requestId":"ID","reservationId":"r-1","ownerId":"123837392027","groupSet":{},"instancesSet":{"items":[{"instanceId":"i-1",
			"instanceState":{"code":0,"name":"pending"},"launchTime":1688990114000,"tagSet":{"items":[{"key":"StratusRedTeam","value":"true"}]},
			"groupSet":{"items":[{"groupId":"sg-1"}]},"networkInterfaceSet":{"items":[{"networkInterfaceId":"eni-1","ipv6AddressesSet":{},
			"privateIpAddressesSet":{"item":[{"privateIpAddress":"10.0.1.10","primary":true}]}}]}}]}}`},
		{recordedByInvictus + "1210Z_6CICdbJQM3beT7n3", "ec2.TerminateInstances", &awsec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}}, nil,
			`{"instancesSet":{"items":[{"instanceId":"i-1"}]}}`},
		{recordedByInvictus + "1210Z_6CICdbJQM3beT7n3", "ec2.TerminateInstances", nil, &awsec2.TerminateInstancesOutput{TerminatingInstances: []ec2types.InstanceStateChange{{
			InstanceId: str("i-1"), CurrentState: &ec2types.InstanceState{Code: aws.Int32(32), Name: "shutting-down"}, PreviousState: &ec2types.InstanceState{Code: aws.Int32(16), Name: "running"},
		}}}, `{"requestId":"ID","instancesSet":{"items":[{"instanceId":"i-1","currentState":{"code":32,"name":"shutting-down"},"previousState":{"code":16,"name":"running"}}]}}`},
		{recordedByCartographer + " of the console", "ec2.StopInstances", &awsec2.StopInstancesInput{InstanceIds: []string{"i-1"}}, nil,
			`{"force":false,"instancesSet":{"items":[{"instanceId":"i-1"}]}}`},
		{recordedByInvictus + "1215Z_YMDRJwtmC82bUwAo", "ec2.CreateTags", &awsec2.CreateTagsInput{Resources: []string{"ami-1"}, Tags: tags}, nil,
			`{"resourcesSet":{"items":[{"resourceId":"ami-1"}]},"tagSet":{"items":[{"key":"StratusRedTeam","value":"true"}]}}`},
		{recordedByInvictus + "1215Z_YMDRJwtmC82bUwAo", "ec2.CreateTags", nil, &awsec2.CreateTagsOutput{}, `{"requestId":"ID","_return":true}`},
		{recordedByInvictus + "1215Z_YMDRJwtmC82bUwAo", "ec2.AuthorizeSecurityGroupIngress", &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: str("sg-1"), IpPermissions: []ec2types.IpPermission{{
			IpProtocol: str("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), IpRanges: []ec2types.IpRange{{CidrIp: str("0.0.0.0/0"), Description: str("TLS from Internet")}},
		}}}, nil, `{"groupId":"sg-1","ipPermissions":{"items":[{"ipProtocol":"tcp","fromPort":443,"toPort":443,"groups":{},
			"ipRanges":{"items":[{"cidrIp":"0.0.0.0/0","description":"TLS from Internet"}]},"ipv6Ranges":{},"prefixListIds":{}}]}}`},
		{recordedByInvictus + "1215Z_YMDRJwtmC82bUwAo", "ec2.AuthorizeSecurityGroupIngress", &awsec2.AuthorizeSecurityGroupIngressInput{
			GroupId: str("sg-1"), IpProtocol: str("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), CidrIp: str("0.0.0.0/0"),
		}, nil, `{"groupId":"sg-1","ipPermissions":{},"ipProtocol":"tcp","fromPort":22,"toPort":22,"cidrIp":"0.0.0.0/0"}`},
		{recordedByInvictus + "1215Z_YMDRJwtmC82bUwAo", "ec2.AuthorizeSecurityGroupIngress", nil, &awsec2.AuthorizeSecurityGroupIngressOutput{Return: aws.Bool(true), SecurityGroupRules: []ec2types.SecurityGroupRule{{
			GroupOwnerId: str("123837392027"), GroupId: str("sg-1"), SecurityGroupRuleId: str("sgr-1"), IsEgress: aws.Bool(false), IpProtocol: str("tcp"), CidrIpv4: str("0.0.0.0/0"),
		}}}, `{"requestId":"ID","_return":true,"securityGroupRuleSet":{"items":[{"groupOwnerId":"123837392027","groupId":"sg-1","securityGroupRuleId":"sgr-1",
			"isEgress":false,"ipProtocol":"tcp","cidrIpv4":"0.0.0.0/0"}]}}`},
		{recordedByInvictus + "1215Z_YMDRJwtmC82bUwAo", "ec2.CreateSecurityGroup", &awsec2.CreateSecurityGroupInput{
			GroupName: str("g"), Description: str("d"), VpcId: str("vpc-1"), TagSpecifications: spec("security-group", "Name", "g"),
		}, nil, `{"groupName":"g","groupDescription":"d","vpcId":"vpc-1","tagSpecificationSet":{"items":[{"resourceType":"security-group","tags":[{"key":"Name","value":"g"}]}]}}`},
		{recordedByInvictus + "1215Z_YxpR6PTmNBivhnJJ", "ec2.CreateVolume", &awsec2.CreateVolumeInput{Size: aws.Int32(1), AvailabilityZone: str("us-east-1a"), ClientToken: str("7C")}, nil,
			`{"size":"1","zone":"us-east-1a","clientToken":"7C"}`},
		{recordedByInvictus + "1215Z_YxpR6PTmNBivhnJJ", "ec2.CreateVolume", nil, &awsec2.CreateVolumeOutput{
			VolumeId: str("vol-1"), Size: aws.Int32(1), AvailabilityZone: str("us-east-1a"), State: "creating", CreateTime: &at, VolumeType: "gp2", Iops: aws.Int32(100),
		}, `{"requestId":"ID","volumeId":"vol-1","size":"1","zone":"us-east-1a","status":"creating","createTime":1688990114000,"volumeType":"gp2","iops":100}`},
		{recordedByInvictus + "1200Z_iLj9fb7yyUG9X4Bf", "ec2.CreateNetworkInterface", &awsec2.CreateNetworkInterfaceInput{
			SubnetId: str("subnet-1"), PrivateIpAddresses: []ec2types.PrivateIpAddressSpecification{{PrivateIpAddress: str("10.0.1.10"), Primary: aws.Bool(true)}},
		}, nil, `{"subnetId":"subnet-1","groupSet":{},"privateIpAddressesSet":{"items":[{"privateIpAddress":"10.0.1.10","primary":true}]}}`},
		{recordedByPanther + "aws_network_acl_permissive_entry.yml", "ec2.CreateNetworkAclEntry", &awsec2.CreateNetworkAclEntryInput{
			NetworkAclId: str("acl-1"), RuleNumber: aws.Int32(500), Egress: aws.Bool(true), RuleAction: "allow", Protocol: str("-1"), CidrBlock: str("0.0.0.0/0"),
		}, nil, `{"networkAclId":"acl-1","ruleNumber":500,"egress":true,"ruleAction":"allow","icmpTypeCode":{},"portRange":{},"aclProtocol":"-1","cidrBlock":"0.0.0.0/0"}`},
		{recordedByStratus + "aws.execution.ec2-user-data.json", "ec2.ModifyInstanceAttribute", &awsec2.ModifyInstanceAttributeInput{
			InstanceId: str("i-1"), UserData: &ec2types.SecureBlobAttributeValue{Value: []byte("secret")},
		}, nil, `{"instanceId":"i-1","userData":"<sensitiveDataRemoved>"}`},
		{recordedByCartographer + " of the console", "ec2.CreateKeyPair", nil, &awsec2.CreateKeyPairOutput{KeyName: str("k"), KeyPairId: str("key-1"), KeyFingerprint: str("42"), KeyMaterial: str("secret")},
			`{"keyPairId":"key-1","keyMaterial":"<sensitiveDataRemoved>","keyName":"k","keyFingerprint":"42","requestId":"ID"}`},
		// Describe operations show lists that were not given.
		{recordedByInvictus + "1200Z_iLj9fb7yyUG9X4Bf", "ec2.DescribeInstances", &awsec2.DescribeInstancesInput{InstanceIds: []string{"i-1"}, Filters: filter("instance-state-name", "running", "pending")}, nil,
			`{"instancesSet":{"items":[{"instanceId":"i-1"}]},"filterSet":{"items":[{"name":"instance-state-name","valueSet":{"items":[{"value":"running"},{"value":"pending"}]}}]}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.DescribeImages", &awsec2.DescribeImagesInput{Owners: []string{"amazon"}}, nil,
			`{"executableBySet":{},"imagesSet":{},"ownersSet":{"items":[{"owner":"amazon"}]},"filterSet":{}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.DescribeSecurityGroups", &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-1"}}, nil,
			`{"securityGroupSet":{},"securityGroupIdSet":{"items":[{"groupId":"sg-1"}]},"filterSet":{}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.DescribeAvailabilityZones", &awsec2.DescribeAvailabilityZonesInput{}, nil, `{"availabilityZoneSet":{},"availabilityZoneIdSet":{}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.DescribeRegions", &awsec2.DescribeRegionsInput{AllRegions: aws.Bool(true)}, nil, `{"regionSet":{},"allRegions":true}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.DescribeRouteTables", &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{"rtb-1"}}, nil,
			`{"routeTableIdSet":{"items":[{"routeTableId":"rtb-1"}]},"filterSet":{}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.DescribeSubnets", &awsec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-1"}}, nil, `{"subnetSet":{"items":[{"subnetId":"subnet-1"}]},"filterSet":{}}`},
		{recordedByCartographer + " of the console", "ec2.DescribePlacementGroups", &awsec2.DescribePlacementGroupsInput{Filters: filter("strategy", "cluster")}, nil,
			`{"placementGroupSet":{},"placementGroupIdSet":{},"filterSet":{"items":[{"valueSet":{"items":[{"value":"cluster"}]},"name":"strategy"}]}}`},
		{recordedByCartographer + " of the console", "ec2.DescribeAddresses", &awsec2.DescribeAddressesInput{PublicIps: []string{"52.45.102.28"}, AllocationIds: []string{"eipalloc-1"}}, nil,
			`{"publicIpsSet":{"items":[{"publicIp":"52.45.102.28"}]},"filterSet":{},"allocationIdsSet":{"items":[{"allocationId":"eipalloc-1"}]}}`},

		// EC2's newer operations: the query parameters, and the answer's XML.
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.CreateNatGateway", &awsec2.CreateNatGatewayInput{
			ConnectivityType: "public", AllocationId: str("eipalloc-1"), SubnetId: str("subnet-1"), ClientToken: str("86C5-D4"), TagSpecifications: spec("natgateway", "StratusRedTeam", "true", "Name", "n"),
		}, nil, `{"CreateNatGatewayRequest":{"ConnectivityType":"public","AllocationId":"eipalloc-1","SubnetId":"subnet-1","ClientToken":"86C5-D4","TagSpecification":{"ResourceType":"natgateway","tag":1,
			"Tag":[{"Value":true,"tag":1,"Key":"StratusRedTeam"},{"Value":"n","tag":2,"Key":"Name"}]}}}`},
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "ec2.CreateNatGateway", nil, &awsec2.CreateNatGatewayOutput{ClientToken: str("86C5-D4"), NatGateway: &ec2types.NatGateway{
			NatGatewayId: str("nat-1"), State: "pending", CreateTime: &at, NatGatewayAddresses: []ec2types.NatGatewayAddress{{AllocationId: str("eipalloc-1"), IsPrimary: aws.Bool(true)}},
			Tags: []ec2types.Tag{{Key: str("StratusRedTeam"), Value: str("true")}, {Key: str("Name"), Value: str("n")}},
		}}, `{"CreateNatGatewayResponse":{"xmlns":"http://ec2.amazonaws.com/doc/2016-11-15/","natGateway":{"tagSet":{"item":[{"value":true,"key":"StratusRedTeam"},{"value":"n","key":"Name"}]},
			"natGatewayAddressSet":{"item":{"isPrimary":true,"allocationId":"eipalloc-1"}},"createTime":"2023-07-10T11:55:14.000Z","natGatewayId":"nat-1","state":"pending"},
			"requestId":"ID","clientToken":"86C5-D4"}}`},
		{recordedByInvictus + "1205Z_UljXNp9xLp8nsAGc", "ec2.CreateFlowLogs", &awsec2.CreateFlowLogsInput{ResourceIds: []string{"vpc-1"}, ResourceType: "VPC", MaxAggregationInterval: aws.Int32(600), TrafficType: "REJECT"}, nil,
			`{"CreateFlowLogsRequest":{"ResourceId":{"tag":1,"content":"vpc-1"},"MaxAggregationInterval":600,"ResourceType":"VPC","TrafficType":"REJECT"}}`},
		{recordedByInvictus + "1205Z_UljXNp9xLp8nsAGc", "ec2.CreateFlowLogs", nil, &awsec2.CreateFlowLogsOutput{ClientToken: str("ou"), FlowLogIds: []string{"fl-1"}, Unsuccessful: []ec2types.UnsuccessfulItem{}},
			`{"CreateFlowLogsResponse":{"xmlns":"http://ec2.amazonaws.com/doc/2016-11-15/","requestId":"ID","clientToken":"ou","unsuccessful":"","flowLogIdSet":{"item":"fl-1"}}}`},
		{recordedByCartographer + "83679c6b5a", "ec2.CreateLaunchTemplate", &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: str("t"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			InstanceType: "t2.micro", ImageId: str("ami-1"), KeyName: str("k"),
			NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), SubnetId: str("subnet-1"), Groups: []string{"sg-1"}}},
		}}, nil, `{"CreateLaunchTemplateRequest":{"LaunchTemplateData":{"InstanceType":"t2.micro","ImageId":"ami-1","NetworkInterface":{"SecurityGroupId":{"content":"sg-1","tag":1},
			"SubnetId":"subnet-1","DeviceIndex":0,"tag":1},"KeyName":"k"},"LaunchTemplateName":"t"}}`},
		{"a post on an IdempotentParameterMismatch of Terraform, May 2022", "ec2.CreateLaunchTemplate", &awsec2.CreateLaunchTemplateInput{ClientToken: str("terraform-1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			UserData: str("c2VjcmV0"), SecurityGroupIds: []string{"sg-1", "sg-2"},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: str("/dev/sda1"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(100)}}},
		}}, nil, `{"CreateLaunchTemplateRequest":{"LaunchTemplateData":{"UserData":"<sensitiveDataRemoved>","SecurityGroupId":[{"tag":1,"content":"sg-1"},{"tag":2,"content":"sg-2"}],
			"BlockDeviceMapping":{"Ebs":{"VolumeSize":100},"tag":1,"DeviceName":"/dev/sda1"}},"ClientToken":"terraform-1"}}`},
		{recordedByCartographer + "83679c6b5a", "ec2.DeleteLaunchTemplate", &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: str("lt-1")}, nil, `{"DeleteLaunchTemplateRequest":{"LaunchTemplateId":"lt-1"}}`},
		{recordedByCartographer + "83679c6b5a", "ec2.DeleteLaunchTemplate", nil, &awsec2.DeleteLaunchTemplateOutput{LaunchTemplate: &ec2types.LaunchTemplate{LaunchTemplateId: str("lt-1"), LatestVersionNumber: aws.Int64(1)}},
			`{"DeleteLaunchTemplateResponse":{"xmlns":"http://ec2.amazonaws.com/doc/2016-11-15/","launchTemplate":{"launchTemplateId":"lt-1","latestVersionNumber":1},"requestId":"ID"}}`},
		{recordedByCartographer + "05a71330a1", "ec2.CreateVpcEndpoint", &awsec2.CreateVpcEndpointInput{
			VpcId: str("vpc-1"), ServiceName: str("s"), VpcEndpointType: "Interface", PrivateDnsEnabled: aws.Bool(true), DnsOptions: &ec2types.DnsOptionsSpecification{DnsRecordIpType: "ipv4"},
		}, nil, `{"CreateVpcEndpointRequest":{"PrivateDnsEnabled":true,"VpcEndpointType":"Interface","DnsOptions":{"DnsRecordIpType":"ipv4"},"ServiceName":"s","VpcId":"vpc-1"}}`},
		{recordedByCartographer + "05a71330a1", "ec2.CreateVpcEndpoint", nil, &awsec2.CreateVpcEndpointOutput{VpcEndpoint: &ec2types.VpcEndpoint{
			VpcEndpointId: str("vpce-1"), OwnerId: str("200802171337"), SubnetIds: []string{}, Groups: []ec2types.SecurityGroupIdentifier{{GroupId: str("sg-1"), GroupName: str("default")}},
		}}, `{"CreateVpcEndpointResponse":{"xmlns":"http://ec2.amazonaws.com/doc/2016-11-15/","vpcEndpoint":{"subnetIdSet":"","vpcEndpointId":"vpce-1",
			"groupSet":{"item":{"groupName":"default","groupId":"sg-1"}},"ownerId":200802171337},"requestId":"ID"}}`},
		{recordedByStratus + "aws.lateral-movement.ec2-serial-console-send-ssh-public-key.json", "ec2.EnableSerialConsoleAccess", &awsec2.EnableSerialConsoleAccessInput{}, nil, `{"EnableSerialConsoleAccessRequest":""}`},
		{recordedByInvictus + "1205Z_UljXNp9xLp8nsAGc", "ec2.DescribeVpcEndpoints", &awsec2.DescribeVpcEndpointsInput{Filters: filter("vpc-id", "vpc-1")}, nil,
			`{"DescribeVpcEndpointsRequest":{"Filter":{"Value":{"tag":1,"content":"vpc-1"},"tag":1,"Name":"vpc-id"}}}`},
		{"https://github.com/aws/karpenter-provider-aws/issues/5850", "ec2.CreateFleet", &awsec2.CreateFleetInput{Type: "instant", TagSpecifications: spec("instance", "component", "shared-resource", "Name", "n"),
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{Overrides: []ec2types.FleetLaunchTemplateOverridesRequest{{SubnetId: str("subnet-1")}, {SubnetId: str("subnet-2")}}}},
		}, nil, `{"CreateFleetRequest":{"Type":"instant","TagSpecification":{"ResourceType":"instance","tag":1,"Tag":[{"Value":"shared-resource","tag":1,"Key":"component"},{"Value":"n","tag":2,"Key":"Name"}]},
			"LaunchTemplateConfigs":{"tag":1,"Overrides":[{"SubnetId":"subnet-1","tag":1},{"SubnetId":"subnet-2","tag":2}]}}}`},
		{"https://github.com/aws/karpenter-provider-aws/issues/5850", "ec2.CreateFleet", nil, &awsec2.CreateFleetOutput{FleetId: str("fleet-1"), Instances: []ec2types.CreateFleetInstance{{
			Lifecycle: "on-demand", InstanceIds: []string{"i-1"}, LaunchTemplateAndOverrides: &ec2types.LaunchTemplateAndOverridesResponse{Overrides: &ec2types.FleetLaunchTemplateOverrides{SubnetId: str("subnet-1")}},
		}}}, `{"CreateFleetResponse":{"xmlns":"http://ec2.amazonaws.com/doc/2016-11-15/","requestId":"ID","fleetId":"fleet-1","fleetInstanceSet":{"item":{"lifecycle":"on-demand",
			"instanceIds":{"item":"i-1"},"launchTemplateAndOverrides":{"overrides":{"subnetId":"subnet-1"}}}}}}`},

		// Other services: the members' names with a small first letter.
		{recordedByInvictus + "1200Z_x9kHmzMa7cx6l9wM", "iam.CreateRole", nil, &awsiam.CreateRoleOutput{Role: &iamtypes.Role{RoleName: str("r"), Arn: str("arn:r"), CreateDate: &at, Tags: []iamtypes.Tag{{Key: str("k"), Value: str("true")}}}},
			`{"role":{"roleName":"r","arn":"arn:r","createDate":"Jul 10, 2023 11:55:14 AM","tags":[{"key":"k","value":"true"}]}}`},
		{recordedByInvictus + "1225Z_vMAR90Iiaqr6M5sR", "iam.CreateAccessKey", nil, &awsiam.CreateAccessKeyOutput{AccessKey: &iamtypes.AccessKey{AccessKeyId: str("AKIA"), SecretAccessKey: str("secret"), Status: "Active", UserName: str("u"), CreateDate: &at}},
			`{"accessKey":{"accessKeyId":"AKIA","status":"Active","userName":"u","createDate":"Jul 10, 2023 11:55:14 AM"}}`},
		{recordedByInvictus + "1225Z_vMAR90Iiaqr6M5sR", "iam.CreateLoginProfile", &awsiam.CreateLoginProfileInput{UserName: str("u"), Password: str("secret"), PasswordResetRequired: false}, nil,
			`{"passwordResetRequired":false,"userName":"u"}`},
		{recordedByInvictus + "1225Z_vMAR90Iiaqr6M5sR", "iam.DeleteUser", nil, &awsiam.DeleteUserOutput{}, `null`},
		{recordedByInvictus + "1200Z_iLj9fb7yyUG9X4Bf", "sts.AssumeRole", nil, &awssts.AssumeRoleOutput{
			Credentials:     &ststypes.Credentials{AccessKeyId: str("ASIA"), SecretAccessKey: str("secret"), Expiration: &at},
			AssumedRoleUser: &ststypes.AssumedRoleUser{Arn: str("arn:s"), AssumedRoleId: str("AROA:s")},
		}, `{"credentials":{"accessKeyId":"ASIA","expiration":"Jul 10, 2023, 11:55:14 AM"},"assumedRoleUser":{"assumedRoleId":"AROA:s","arn":"arn:s"}}`},
		{recordedByInvictus + "1200Z_iLj9fb7yyUG9X4Bf", "kms.Encrypt", &awskms.EncryptInput{KeyId: str("alias/aws/ssm"), Plaintext: []byte("secret"), EncryptionAlgorithm: "SYMMETRIC_DEFAULT", EncryptionContext: map[string]string{"PARAMETER_ARN": "arn:p"}}, nil,
			`{"encryptionContext":{"PARAMETER_ARN":"arn:p"},"keyId":"alias/aws/ssm","encryptionAlgorithm":"SYMMETRIC_DEFAULT"}`},
		{recordedByCartographer + " of a new trail", "kms.CreateKey", nil, &awskms.CreateKeyOutput{KeyMetadata: &kmstypes.KeyMetadata{AWSAccountId: str("200802171337"), KeyId: str("2f"), CreationDate: &at, Enabled: true}},
			`{"keyMetadata":{"aWSAccountId":"200802171337","keyId":"2f","creationDate":"Jul 10, 2023, 11:55:14 AM","enabled":true}}`},
		{recordedByInvictus + "1205Z_zs3JGxETHr59VpkX", "ssm.PutParameter", &awsssm.PutParameterInput{Name: str("/p"), Value: str("secret"), Type: ssmtypes.ParameterTypeSecureString, Overwrite: aws.Bool(false), Tags: []ssmtypes.Tag{{Key: str("k"), Value: str("true")}}}, nil,
			`{"name":"/p","value":"HIDDEN_DUE_TO_SECURITY_REASONS","type":"SecureString","overwrite":false,"tags":[{"key":"k","value":"true"}]}`},
		{"https://docs.aws.amazon.com/eks/latest/userguide/understanding-service-name-entries.html", "eks.CreateCluster", nil, &awseks.CreateClusterOutput{Cluster: &ekstypes.Cluster{Name: str("c"), Status: "CREATING", CreatedAt: aws.Time(time.UnixMilli(1527535003208))}},
			`{"cluster":{"name":"c","status":"CREATING","createdAt":1527535003.208}}`},
	} {
		t.Run(tt.op+" "+tt.source, func(t *testing.T) {
			op := operation(t, tt.op)
			got := wire.TrailRequest(op, tt.in)
			if tt.in == nil {
				got = wire.TrailResponse(op, tt.out, "ID")
			}
			b, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var have, want any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &have); err != nil || !reflect.DeepEqual(have, want) {
				t.Errorf("%v\ngot  %s\nwant %s", err, b, tt.want)
			}
		})
	}
}

package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// network are answers about a VPC with two subnets, of which one is public, and a machine in each.
const network = `
ec2 DescribeVpcs {"Vpcs":[{"VpcId":"vpc-0123456789abcdef0","CidrBlock":"10.0.0.0/16","OwnerId":"490000000000","DhcpOptionsId":"dopt-0123456789abcdef0"}]}
ec2 DescribeSubnets {"Subnets":[
	{"SubnetId":"subnet-0123456789abcdef1","VpcId":"vpc-0123456789abcdef0","CidrBlock":"10.0.1.0/24","AvailabilityZone":"us-east-1a","OwnerId":"490000000000"STATES},
	{"SubnetId":"subnet-0123456789abcdef2","VpcId":"vpc-0123456789abcdef0","CidrBlock":"10.0.2.0/24","AvailabilityZone":"us-east-1b","OwnerId":"490000000000"STATES}]}
ec2 DescribeInternetGateways {"InternetGateways":[{"InternetGatewayId":"igw-0123456789abcdef0","Attachments":[{"VpcId":"vpc-0123456789abcdef0","State":"available"}]}]}
ec2 DescribeRouteTables {"RouteTables":[{"RouteTableId":"rtb-0123456789abcdef0","VpcId":"vpc-0123456789abcdef0","Associations":[{"Main":true,"RouteTableAssociationId":"rtbassoc-1","RouteTableId":"rtb-0123456789abcdef0"}],
	"Routes":[{"DestinationCidrBlock":"10.0.0.0/16","GatewayId":"local","Origin":"CreateRouteTable","State":"active"},{"DestinationCidrBlock":"0.0.0.0/0","GatewayId":"igw-0123456789abcdef0","Origin":"CreateRoute","State":"active"}]}]}
ec2 DescribeSecurityGroups {"SecurityGroups":[{"GroupId":"sg-0123456789abcdef0","VpcId":"vpc-0123456789abcdef0","GroupName":"all","OwnerId":"490000000000",
	"IpPermissions":[{"IpProtocol":"-1","IpRanges":[{"CidrIp":"0.0.0.0/0"}],"UserIdGroupPairs":[],"PrefixListIds":[]}],"IpPermissionsEgress":[{"IpProtocol":"-1","IpRanges":[{"CidrIp":"0.0.0.0/0"}]}]}]}
ec2 DescribeNetworkAcls {"NetworkAcls":[{"NetworkAclId":"acl-0123456789abcdef0","VpcId":"vpc-0123456789abcdef0","IsDefault":true,"Associations":[{"NetworkAclAssociationId":"aclassoc-1","SubnetId":"subnet-0123456789abcdef1"},{"NetworkAclAssociationId":"aclassoc-2","SubnetId":"subnet-0123456789abcdef2"}],
	"Entries":[{"CidrBlock":"0.0.0.0/0","Egress":true,"Protocol":"-1","RuleAction":"allow","RuleNumber":100},{"CidrBlock":"0.0.0.0/0","Egress":false,"Protocol":"-1","RuleAction":"allow","RuleNumber":100}]}]}
ec2 DescribeNetworkInterfaces {"NetworkInterfaces":[
	{"NetworkInterfaceId":"eni-0123456789abcdef1","VpcId":"vpc-0123456789abcdef0","SubnetId":"subnet-0123456789abcdef1","AvailabilityZone":"us-east-1a","InterfaceType":"interface","Status":"in-use","SourceDestCheck":true,"MacAddress":"02:00:00:00:00:01",
	 "Attachment":{"AttachmentId":"eni-attach-1","InstanceOwnerId":"490000000000","Status":"attached","DeviceIndex":1},
	 "Groups":[{"GroupId":"sg-0123456789abcdef0","GroupName":"all"}],"PrivateIpAddress":"10.0.1.10","Association":{"IpOwnerId":"amazon","PublicIp":"34.207.0.10"},
	 "PrivateIpAddresses":[{"Primary":true,"PrivateIpAddress":"10.0.1.10","Association":{"IpOwnerId":"amazon","PublicIp":"34.207.0.10"}}]},
	{"NetworkInterfaceId":"eni-0123456789abcdef2","VpcId":"vpc-0123456789abcdef0","SubnetId":"subnet-0123456789abcdef2","AvailabilityZone":"us-east-1b","InterfaceType":"vpc_endpoint","Status":"in-use","SourceDestCheck":true,"MacAddress":"02:00:00:00:00:02",
	 "Attachment":{"AttachmentId":"ela-attach-2","InstanceOwnerId":"amazon-aws","Status":"attached","DeviceIndex":1},"RequesterManaged":true,"RequesterId":"727180483921","Description":"VPC Endpoint Interface vpce-0123456789abcdef0",
	 "Groups":[{"GroupId":"sg-0123456789abcdef0","GroupName":"all"}],"PrivateIpAddress":"10.0.2.20","PrivateIpAddresses":[{"Primary":true,"PrivateIpAddress":"10.0.2.20"}]}]}
`

// answersOf makes a recording of answers, one after the other: SERVICE OPERATION OUTPUT.
func answersOf(t *testing.T, account, answers string) *recording.Recording {
	t.Helper()
	r := &recording.Recording{Source: recording.Source{Format: recording.FormatVersion, Partition: "aws", Account: account, Region: "us-east-1", Caller: "arn:aws:iam::" + account + ":root", Started: time.Now().UTC(), Complete: true}}
	for rest := strings.TrimSpace(answers); rest != ""; rest = strings.TrimSpace(rest) {
		service, after, _ := strings.Cut(rest, " ")
		operation, after, _ := strings.Cut(after, " ")
		d := json.NewDecoder(strings.NewReader(after))
		var page json.RawMessage
		if err := d.Decode(&page); err != nil {
			t.Fatalf("%s %s: %v", service, operation, err)
		}
		r.Answers = append(r.Answers, recording.Answer{Service: service, Operation: operation, Input: json.RawMessage(`{}`), Pages: []json.RawMessage{page}})
		rest = after[d.InputOffset():]
	}
	return r
}

// What AWS has been seen to answer, and Drydock itself never does. The answers have the members of recordings that
// cloud-custodian/cloud-custodian publishes for its tests (tests/data/placebo, Apache License 2.0), named with each, and values of
// our own.
func TestTwinOfWhatAWSAnswers(t *testing.T) {
	to := startDaemon(t)
	const account, machine = "490000000000", "eni-0123456789abcdef1"
	plain := strings.ReplaceAll(network, "STATES", "")

	// test_subnet_endpoint_filter: an endpoint of a service that is another account's. Its names begin as those of AWS's services do,
	// and go on with the ID of the service. Rules of groups have no ports if they are for all protocols, and may lack lists.
	t.Run("an endpoint of another provider", func(t *testing.T) {
		const name = "vpce-0123456789abcdef0-mt4iyi9i.vpce-svc-0caf1c7342f032f18.us-east-1.vpce.amazonaws.com"
		made := loadTwin(t, to, answersOf(t, account, plain+`ec2 DescribeVpcEndpoints {"VpcEndpoints":[{"VpcEndpointId":"vpce-0123456789abcdef0","VpcEndpointType":"Interface","VpcId":"vpc-0123456789abcdef0",
			"ServiceName":"com.amazonaws.vpce.us-east-1.vpce-svc-0caf1c7342f032f18","State":"available","SubnetIds":["subnet-0123456789abcdef2"],"Groups":[{"GroupId":"sg-0123456789abcdef0","GroupName":"all"}],"PrivateDnsEnabled":false,
			"NetworkInterfaceIds":["eni-0123456789abcdef2"],"DnsEntries":[{"DnsName":"`+name+`","HostedZoneId":"Z7HUB22UULQXV"}]}]}`))
		if len(made.Gaps) > 0 {
			t.Errorf("gaps: %q", made.Gaps)
		}
		got := testkit.Must(awsec2.NewFromConfig(configFor(to, account, "test")).DescribeVpcEndpoints(t.Context(), &awsec2.DescribeVpcEndpointsInput{}))(t).VpcEndpoints
		if len(got) != 1 || len(got[0].DnsEntries) == 0 || aws.ToString(got[0].DnsEntries[0].DnsName) != name {
			t.Errorf("got %s", asJSON(t, got))
		}
		if v := reached(t, to, account, api.Connection{From: machine, To: name, Port: "443", Protocol: "tcp"}); !v.Reachable {
			t.Error(v.Text())
		}
	})

	// test_eni_private_subnet: subnets say whether VPC Block Public Access is on. Here it is, which Drydock does not have.
	for mode, want := range map[string]bool{"off": false, "block-bidirectional": true} {
		t.Run("VPC Block Public Access "+mode, func(t *testing.T) {
			loadTwin(t, to, answersOf(t, account, strings.ReplaceAll(network, "STATES", `,"BlockPublicAccessStates":{"InternetGatewayBlockMode":"`+mode+`"}`)))
			out := reached(t, to, account, api.Connection{From: machine, To: "198.51.100.7", Port: "443", Protocol: "tcp"})
			if len(out.Unknown) > 0 != want || out.Reachable == want {
				t.Errorf("to the internet: %s", out.Text())
			}
			if v := reached(t, to, account, api.Connection{From: machine, To: "eni-0123456789abcdef2", Port: "443", Protocol: "tcp"}); !v.Reachable {
				t.Errorf("inside the VPC: %s", v.Text())
			}
		})
	}

	// test_vpc_endpoint_service_details_live: an endpoint of a service in another region.
	t.Run("an endpoint of another region's service", func(t *testing.T) {
		made := loadTwin(t, to, answersOf(t, account, plain+`ec2 DescribeVpcEndpoints {"VpcEndpoints":[{"VpcEndpointId":"vpce-0123456789abcdef0","VpcEndpointType":"Interface","VpcId":"vpc-0123456789abcdef0",
			"ServiceName":"com.amazonaws.us-west-2.s3","ServiceRegion":"us-west-2","State":"available"}]}`))
		if !slices.Equal(made.Gaps, []string{"vpce-0123456789abcdef0 is an endpoint of a service in us-west-2, which Drydock does not have"}) {
			t.Errorf("gaps: %q", made.Gaps)
		}
	})
}

// The records of another account's zone cannot be read, so names in it are unknown in the VPCs in which it answers. Other names
// are known.
func TestTwinOfAnothersZone(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account, owner = "491000000000", "492000000000"
	w, ctx := newNetWorld(t, from, account, "public"), t.Context()
	w.running(t)
	mine := &route53types.VPC{VPCId: &w.vpc, VPCRegion: route53types.VPCRegionUsEast1}
	theirs := newNetWorld(t, from, owner, "public")
	own := awsroute53.NewFromConfig(configFor(from, owner, "test"))
	zone := testkit.Must(own.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{
		Name: aws.String("shared.example"), CallerReference: aws.String("1"), VPC: &route53types.VPC{VPCId: &theirs.vpc, VPCRegion: route53types.VPCRegionUsEast1},
	}))(t).HostedZone.Id
	testkit.Must(own.ChangeResourceRecordSets(ctx, &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: zone, ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{{
		Action: route53types.ChangeActionCreate, ResourceRecordSet: &route53types.ResourceRecordSet{Name: aws.String("db.shared.example"), Type: route53types.RRTypeA, TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: aws.String("198.51.100.7")}}},
	}}}}))(t)
	testkit.Must(own.CreateVPCAssociationAuthorization(ctx, &awsroute53.CreateVPCAssociationAuthorizationInput{HostedZoneId: zone, VPC: mine}))(t)
	member := awsroute53.NewFromConfig(configFor(from, account, "test"))
	testkit.Must(member.AssociateVPCWithHostedZone(ctx, &awsroute53.AssociateVPCWithHostedZoneInput{HostedZoneId: zone, VPC: mine}))(t)
	nested := testkit.Must(member.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("own.shared.example"), CallerReference: aws.String("2"), VPC: mine}))(t).HostedZone.Id
	testkit.Must(member.ChangeResourceRecordSets(ctx, &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: nested, ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{{
		Action: route53types.ChangeActionCreate, ResourceRecordSet: &route53types.ResourceRecordSet{Name: aws.String("a.own.shared.example"), Type: route53types.RRTypeA, TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: aws.String("198.51.100.8")}}},
	}}}}))(t)

	rec := readTwin(t, from, account, "test")
	made := loadTwin(t, to, rec)
	bare := strings.TrimPrefix(*zone, "/hostedzone/")
	unread := "the records of the private hosted zone " + bare + " (shared.example) of account " + owner + " cannot be read"
	if !slices.Equal(made.Gaps, []string{unread}) {
		t.Errorf("gaps: %q", made.Gaps)
	}
	if diff := gocmp.Diff(answers(t, rec), answers(t, readTwin(t, to, account, "test"))); diff != "" {
		t.Errorf("the twin answers otherwise (-source +twin):\n%s", diff)
	}
	for name, want := range map[string]bool{"db.shared.example": true, "any.db.shared.example": true, "xshared.example": false, "a.own.shared.example": false, "ec2.us-east-1.amazonaws.com": false} {
		c := api.Connection{From: w.machine, To: name, Port: "443", Protocol: "tcp"}
		source, got := reached(t, from, account, c), reached(t, to, account, c)
		switch {
		case want && !slices.Contains(got.Unknown, unread):
			t.Errorf("%s is guessed: %s", name, got.Text())
		case !want && asJSON(t, source) != asJSON(t, got):
			t.Errorf("%s (-source +twin):\n%s", name, gocmp.Diff(asJSON(t, source), asJSON(t, got)))
		}
	}
	// Without the list, any name may be in such a zone.
	key, secret := denied(t, from, account, "route53:ListHostedZonesByVPC")
	loadTwin(t, to, readTwin(t, from, key, secret))
	for _, name := range []string{"db.shared.example", "ec2.us-east-1.amazonaws.com"} {
		if got := reached(t, to, account, api.Connection{From: w.machine, To: name, Port: "443", Protocol: "tcp"}); !strings.Contains(got.Text(), "unknown: the source did not allow route53:ListHostedZonesByVPC for "+w.vpc) {
			t.Errorf("%s: %s", name, got.Text())
		}
	}
}

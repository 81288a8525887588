package cloudformation_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/service/acm"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/service/ecrpublic"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/service/events"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/service/route53"
	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/service/secretsmanager"
	"github.com/drydock-dev/drydock/internal/service/sns"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

type profiles struct{ *iam.Service }

func (p profiles) InstanceProfile(ctx context.Context, account, name string) (ec2.Profile, bool, error) {
	got, role, err := p.InstanceProfileRole(ctx, account, name)
	if errors.Is(err, iam.ErrNoSuchInstanceProfile) {
		return ec2.Profile{}, false, nil
	}
	return ec2.Profile{ARN: got.ARN, ID: got.ID, RoleARN: role.ARN}, err == nil, err
}

// newWide returns a world with all services in which stacks can create resources, except
// EKS.
func newWide(t *testing.T) *world {
	t.Helper()
	w := &world{}
	bytes, err := bytestore.Open(bytestore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bytes.Close() })
	blobs, err := blobstore.Open(blobstore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	var run []func(context.Context) error
	w.Server = testkit.NewServer(t, testkit.Config{Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		log, fast := testkit.Log(t), timing.Fast()
		users := iam.New(iam.Config{Store: st, Log: log})
		machines := ec2.New(ec2.Config{Store: st, Timing: fast, Profiles: profiles{users}, Log: log})
		queues := sqs.New(sqs.Config{Store: st, Bytes: bytes, Log: log})
		parameters := ssm.New(ssm.Config{Store: st, Log: log})
		groups := logs.New(logs.Config{Store: st, Bytes: bytes, Log: log})
		buckets := s3.New(s3.Config{Store: st, Blobs: blobs, Log: log})
		registry := ecr.New(ecr.Config{Store: st, Images: imagestore.New(imagestore.Config{Store: st, Blobs: blobs}), Log: log})
		buses := events.New(events.Config{Store: st, Bytes: bytes, SQS: queues, Logs: groups, Log: log})
		keys := kms.New(kms.Config{Store: st, Log: log})
		balancing := elbnet.Config{Store: st, Timing: fast, Log: log, Network: elbnet.Network{
			EC2: machines, EnsureInterfaces: machines.EnsureManagedInterfaces,
			Probes: func(context.Context, string, string) elbnet.Prober {
				return func(context.Context, elbnet.Probe) elbnet.Finding { return elbnet.Answers }
			},
		}}
		names := route53.New(route53.Config{Store: st, EC2: machines})
		secrets := secretsmanager.New(secretsmanager.Config{Store: st, KMS: awscall.KMS{API: front}, API: front})
		topics := sns.New(sns.Config{Store: st, SQS: awscall.SQS{API: front}, Log: log})
		certificates := acm.New(acm.Config{Store: st, CNAME: names.CNAME, Log: log})
		public := ecrpublic.New(ecrpublic.Config{Store: st, Images: imagestore.New(imagestore.Config{Store: st, Blobs: blobs})})
		classic, balancers := elb.New(balancing), elbv2.New(balancing)
		scaling := autoscaling.New(autoscaling.Config{Store: st, EC2: machines, Instances: machines, Sources: map[string]autoscaling.Sources{"elb": classic, "elbv2": balancers}, Log: log})
		w.config = cloudformation.Config{Store: st, API: front, Log: log}
		stacks := cloudformation.New(w.config)
		run = append(run, machines.Run, classic.Run, balancers.Run, scaling.Run, certificates.Run, stacks.Run)
		return []awsapi.Service{users.AWS(), machines.AWS(), queues.AWS(), parameters.AWS(), groups.AWS(), buses.AWS(), keys.AWS(), classic.AWS(), balancers.AWS(), scaling.AWS(), buckets.AWS(), registry.AWS(), names.AWS(), secrets.AWS(), topics.AWS(), certificates.AWS(), public.AWS(), stacks.AWS()}
	}})
	w.account = w.Account(t)
	w.cfg = w.AWSConfig(w.account)
	w.Client = awscloudformation.NewFromConfig(w.cfg)
	testkit.Run(t, run...)
	return w
}

// everything returns the resources that exist in the services that stacks can use.
func (w *world) everything(t *testing.T) map[string]bool {
	t.Helper()
	ctx, out := t.Context(), map[string]bool{}
	for _, id := range w.what(t) {
		out[id] = true
	}
	add := func(ids ...*string) {
		for _, id := range ids {
			out[aws.ToString(id)] = true
		}
	}
	machines, users := awsec2.NewFromConfig(w.cfg), awsiam.NewFromConfig(w.cfg)
	for _, r := range testkit.Must(machines.DescribeInstances(ctx, nil))(t).Reservations {
		for _, i := range r.Instances {
			if i.State.Name != "terminated" {
				add(i.InstanceId)
			}
		}
	}
	for _, v := range testkit.Must(machines.DescribeVolumes(ctx, nil))(t).Volumes {
		add(v.VolumeId)
	}
	for _, v := range testkit.Must(machines.DescribeNetworkInterfaces(ctx, nil))(t).NetworkInterfaces {
		add(v.NetworkInterfaceId)
	}
	for _, v := range testkit.Must(machines.DescribePlacementGroups(ctx, nil))(t).PlacementGroups {
		add(v.GroupName)
	}
	for _, v := range testkit.Must(machines.DescribeCapacityReservations(ctx, nil))(t).CapacityReservations {
		if v.State == ec2types.CapacityReservationStateActive {
			add(v.CapacityReservationId)
		}
	}
	for _, v := range testkit.Must(machines.DescribeKeyPairs(ctx, nil))(t).KeyPairs {
		add(v.KeyName)
	}
	for _, v := range testkit.Must(machines.DescribeVpcPeeringConnections(ctx, nil))(t).VpcPeeringConnections {
		if v.Status.Code != "deleted" {
			add(v.VpcPeeringConnectionId)
		}
	}
	for _, v := range testkit.Must(machines.DescribeVpcEndpoints(ctx, nil))(t).VpcEndpoints {
		add(v.VpcEndpointId)
	}
	for _, v := range testkit.Must(machines.DescribeNatGateways(ctx, nil))(t).NatGateways {
		if v.State != "deleted" {
			add(v.NatGatewayId)
		}
	}
	for _, v := range testkit.Must(machines.DescribeEgressOnlyInternetGateways(ctx, nil))(t).EgressOnlyInternetGateways {
		add(v.EgressOnlyInternetGatewayId)
	}
	for _, v := range testkit.Must(machines.DescribeDhcpOptions(ctx, nil))(t).DhcpOptions {
		add(v.DhcpOptionsId)
	}
	for _, v := range testkit.Must(machines.DescribeNetworkAcls(ctx, nil))(t).NetworkAcls {
		add(v.NetworkAclId)
	}
	for _, v := range testkit.Must(machines.DescribeManagedPrefixLists(ctx, nil))(t).PrefixLists {
		add(v.PrefixListId)
	}
	for _, v := range testkit.Must(machines.DescribeFlowLogs(ctx, nil))(t).FlowLogs {
		add(v.FlowLogId)
	}
	for _, v := range testkit.Must(machines.DescribeInstanceConnectEndpoints(ctx, nil))(t).InstanceConnectEndpoints {
		add(v.InstanceConnectEndpointId)
	}
	for _, v := range testkit.Must(users.ListUsers(ctx, nil))(t).Users {
		add(v.UserName)
	}
	for _, v := range testkit.Must(users.ListGroups(ctx, nil))(t).Groups {
		add(v.GroupName)
	}
	for _, v := range testkit.Must(users.ListPolicies(ctx, &awsiam.ListPoliciesInput{Scope: "Local"}))(t).Policies {
		add(v.Arn)
	}
	for _, v := range testkit.Must(users.ListOpenIDConnectProviders(ctx, nil))(t).OpenIDConnectProviderList {
		add(v.Arn)
	}
	for _, v := range testkit.Must(awslogs.NewFromConfig(w.cfg).DescribeLogGroups(ctx, nil))(t).LogGroups {
		add(v.LogGroupName)
	}
	for _, v := range testkit.Must(awslogs.NewFromConfig(w.cfg).DescribeResourcePolicies(ctx, nil))(t).ResourcePolicies {
		add(v.PolicyName)
	}
	for _, v := range testkit.Must(awsevents.NewFromConfig(w.cfg).ListRules(ctx, nil))(t).Rules {
		add(v.Name)
	}
	for _, v := range testkit.Must(awskms.NewFromConfig(w.cfg).ListAliases(ctx, nil))(t).Aliases {
		add(v.AliasName)
	}
	for _, v := range testkit.Must(awss3.NewFromConfig(w.cfg).ListBuckets(ctx, nil))(t).Buckets {
		add(v.Name)
	}
	registry := awsecr.NewFromConfig(w.cfg)
	for _, v := range testkit.Must(registry.DescribeRepositories(ctx, nil))(t).Repositories {
		add(v.RepositoryArn)
	}
	for _, v := range testkit.Must(registry.DescribePullThroughCacheRules(ctx, nil))(t).PullThroughCacheRules {
		add(v.EcrRepositoryPrefix)
	}
	for _, v := range testkit.Must(awsecrpublic.NewFromConfig(w.cfg).DescribeRepositories(ctx, nil))(t).Repositories {
		add(v.RepositoryArn)
	}
	for _, v := range testkit.Must(registry.GetRegistryScanningConfiguration(ctx, nil))(t).ScanningConfiguration.Rules {
		add(aws.String("scanning " + string(v.ScanFrequency)))
	}
	for _, v := range testkit.Must(awssm.NewFromConfig(w.cfg).ListSecrets(ctx, &awssm.ListSecretsInput{IncludePlannedDeletion: aws.Bool(true)}))(t).SecretList {
		add(v.ARN)
	}
	for _, v := range testkit.Must(awssns.NewFromConfig(w.cfg).ListTopics(ctx, nil))(t).Topics {
		add(v.TopicArn)
	}
	for _, v := range testkit.Must(awssns.NewFromConfig(w.cfg).ListSubscriptions(ctx, nil))(t).Subscriptions {
		add(v.SubscriptionArn)
	}
	for _, v := range testkit.Must(awsacm.NewFromConfig(w.cfg).ListCertificates(ctx, &awsacm.ListCertificatesInput{Includes: &acmtypes.Filters{KeyTypes: acmtypes.KeyAlgorithm("").Values()}}))(t).CertificateSummaryList {
		add(v.CertificateArn)
	}
	for _, v := range testkit.Must(awsroute53.NewFromConfig(w.cfg).ListHostedZones(ctx, nil))(t).HostedZones {
		add(v.Id)
	}
	scaling := awsautoscaling.NewFromConfig(w.cfg)
	for _, v := range testkit.Must(scaling.DescribeAutoScalingGroups(ctx, nil))(t).AutoScalingGroups {
		add(v.AutoScalingGroupName)
	}
	for _, v := range testkit.Must(scaling.DescribeLaunchConfigurations(ctx, nil))(t).LaunchConfigurations {
		add(v.LaunchConfigurationName)
	}
	for _, v := range testkit.Must(awselb.NewFromConfig(w.cfg).DescribeLoadBalancers(ctx, nil))(t).LoadBalancerDescriptions {
		add(v.LoadBalancerName)
	}
	for _, v := range testkit.Must(awselbv2.NewFromConfig(w.cfg).DescribeLoadBalancers(ctx, nil))(t).LoadBalancers {
		add(v.LoadBalancerArn)
	}
	for _, v := range testkit.Must(awselbv2.NewFromConfig(w.cfg).DescribeTargetGroups(ctx, nil))(t).TargetGroups {
		add(v.TargetGroupArn)
	}
	return out
}

// A typesTest is a template with some types, the expected outputs, and checks to make while
// the stack exists.
type typesTest struct {
	body string
	// outputs are prefixes of the outputs' values.
	outputs map[string]string
	look    func(t *testing.T, w *world, outputs map[string]string)
	// changes are pairs of texts: an update replaces the first with the second in the
	// template. tags are the stack's tags after the update. No resource may be replaced.
	changes []string
	tags    []cloudformationtypes.Tag
	changed func(t *testing.T, w *world, outputs map[string]string)
}

var team = []cloudformationtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}}

const trustEC2 = `{Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: 'sts:AssumeRole'}]}`

const net = `
  VPC: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16, EnableDnsSupport: true, EnableDnsHostnames: true}}
  A: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref VPC, CidrBlock: 10.0.1.0/24, AvailabilityZone: !Select [0, !GetAZs '']}}
  B: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref VPC, CidrBlock: 10.0.2.0/24, AvailabilityZone: !Select [1, !GetAZs '']}}
  IGW: {Type: AWS::EC2::InternetGateway}
  Attached: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: !Ref VPC, InternetGatewayId: !Ref IGW}}
  Table: {Type: AWS::EC2::RouteTable, Properties: {VpcId: !Ref VPC}}
  Out: {Type: AWS::EC2::Route, DependsOn: Attached, Properties: {RouteTableId: !Ref Table, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref IGW}}
  TableA: {Type: AWS::EC2::SubnetRouteTableAssociation, Properties: {RouteTableId: !Ref Table, SubnetId: !Ref A}}
  TableB: {Type: AWS::EC2::SubnetRouteTableAssociation, Properties: {RouteTableId: !Ref Table, SubnetId: !Ref B}}
  SG: {Type: AWS::EC2::SecurityGroup, Properties: {GroupDescription: g, VpcId: !Ref VPC}}
`

var typesTests = map[string]typesTest{
	"names": {body: `
Resources:
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16, EnableDnsHostnames: true}}
  W: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.1.0.0/16, EnableDnsHostnames: true}}
  Public: {Type: AWS::Route53::HostedZone, Properties: {Name: names.test}}
  Private:
    Type: AWS::Route53::HostedZone
    Properties:
      Name: inside.test
      HostedZoneConfig: {Comment: one}
      HostedZoneTags: [{Key: k, Value: v}]
      VPCs: [{VPCId: !Ref V, VPCRegion: !Ref 'AWS::Region'}]
  A: {Type: AWS::Route53::RecordSet, Properties: {HostedZoneId: !Ref Private, Name: a.inside.test, Type: A, TTL: '60', ResourceRecords: [10.0.0.1]}}
  Alias: {Type: AWS::Route53::RecordSet, DependsOn: A, Properties: {HostedZoneName: inside.test., Name: alias.inside.test., Type: A, AliasTarget: {DNSName: a.inside.test, HostedZoneId: !Ref Private}}}
  Group:
    Type: AWS::Route53::RecordSetGroup
    Properties:
      HostedZoneId: !Ref Public
      Comment: c
      RecordSets:
        - {Name: one.names.test, Type: CNAME, TTL: '300', ResourceRecords: [two.names.test]}
        - {Name: weighted.names.test, Type: A, TTL: '5', SetIdentifier: x, Weight: 10, ResourceRecords: [192.0.2.1, 192.0.2.2]}
Outputs:
  Public: {Value: !Ref Public}
  Servers: {Value: !Join [',', !GetAtt Public.NameServers]}
  Private: {Value: !GetAtt Private.Id}
  A: {Value: !Ref A}
  Group: {Value: !Ref Group}
`, outputs: map[string]string{"Public": "Z", "Servers": "ns-", "Private": "Z", "A": "a.inside.test", "Group": "names-Group-"},
		changes: []string{"10.0.0.1]", "10.0.0.2]", "Comment: one", "Comment: two", "Name: one.names.test, Type: CNAME", "Name: three.names.test, Type: CNAME", "Weight: 10", "Weight: 20",
			"VPCs: [{VPCId: !Ref V,", "VPCs: [{VPCId: !Ref W, VPCRegion: !Ref 'AWS::Region'}, {VPCId: !Ref V,"},
		tags: team,
		changed: func(t *testing.T, w *world, out map[string]string) {
			client := awsroute53.NewFromConfig(w.cfg)
			z := testkit.Must(client.GetHostedZone(t.Context(), &awsroute53.GetHostedZoneInput{Id: aws.String(out["Private"])}))(t)
			if len(z.VPCs) != 2 || *z.HostedZone.Config.Comment != "two" || *z.HostedZone.ResourceRecordSetCount != 4 {
				t.Errorf("%+v %+v", z.HostedZone, z.VPCs)
			}
			tags := testkit.Must(client.ListTagsForResource(t.Context(), &awsroute53.ListTagsForResourceInput{ResourceId: aws.String(out["Private"]), ResourceType: "hostedzone"}))(t).ResourceTagSet.Tags
			if len(tags) != 2 {
				t.Errorf("%+v", tags)
			}
			var have []string
			for _, set := range testkit.Must(client.ListResourceRecordSets(t.Context(), &awsroute53.ListResourceRecordSetsInput{HostedZoneId: aws.String(out["Public"])}))(t).ResourceRecordSets {
				have = append(have, *set.Name+" "+string(set.Type))
				if set.Weight != nil && *set.Weight != 20 {
					t.Errorf("weight %d", *set.Weight)
				}
			}
			if got := strings.Join(have, ", "); got != "names.test. NS, names.test. SOA, three.names.test. CNAME, weighted.names.test. A" {
				t.Error(got)
			}
		},
	},
	"network": {body: `
Resources:` + net + `
  Other: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.8.0.0/16}}
  Peering: {Type: AWS::EC2::VPCPeeringConnection, Properties: {VpcId: !Ref VPC, PeerVpcId: !Ref Other, Tags: [{Key: Name, Value: p}]}}
  ToOther: {Type: AWS::EC2::Route, Properties: {RouteTableId: !Ref Table, DestinationCidrBlock: 10.8.0.0/16, VpcPeeringConnectionId: !Ref Peering}}
  More: {Type: AWS::EC2::VPCCidrBlock, Properties: {VpcId: !Ref VPC, CidrBlock: 10.1.0.0/16}}
  Six: {Type: AWS::EC2::VPCCidrBlock, Properties: {VpcId: !Ref VPC, AmazonProvidedIpv6CidrBlock: true}}
  SixA: {Type: AWS::EC2::SubnetCidrBlock, DependsOn: Six, Properties: {SubnetId: !Ref A, Ipv6CidrBlock: !Select [0, !Cidr [!Select [0, !GetAtt VPC.Ipv6CidrBlocks], 4, 64]]}}
  Out6: {Type: AWS::EC2::EgressOnlyInternetGateway, Properties: {VpcId: !Ref VPC}}
  Route6: {Type: AWS::EC2::Route, Properties: {RouteTableId: !Ref Table, DestinationIpv6CidrBlock: '::/0', EgressOnlyInternetGatewayId: !Ref Out6}}
  IP: {Type: AWS::EC2::EIP, DependsOn: Attached, Properties: {Domain: vpc}}
  NAT: {Type: AWS::EC2::NatGateway, DependsOn: Out, Properties: {AllocationId: !GetAtt IP.AllocationId, SubnetId: !Ref A}}
  S3: {Type: AWS::EC2::VPCEndpoint, Properties: {VpcId: !Ref VPC, ServiceName: !Sub 'com.amazonaws.${AWS::Region}.s3', RouteTableIds: [!Ref Table]}}
  SSM: {Type: AWS::EC2::VPCEndpoint, Properties: {VpcId: !Ref VPC, VpcEndpointType: Interface, ServiceName: !Sub 'com.amazonaws.${AWS::Region}.ssm', SubnetIds: [!Ref B], SecurityGroupIds: [!Ref SG]}}
  Options: {Type: AWS::EC2::DHCPOptions, Properties: {DomainName: x.internal, DomainNameServers: [AmazonProvidedDNS]}}
  HasOptions: {Type: AWS::EC2::VPCDHCPOptionsAssociation, Properties: {VpcId: !Ref VPC, DhcpOptionsId: !Ref Options}}
  ACL: {Type: AWS::EC2::NetworkAcl, Properties: {VpcId: !Ref VPC}}
  ACLIn: {Type: AWS::EC2::NetworkAclEntry, Properties: {NetworkAclId: !Ref ACL, RuleNumber: 100, Protocol: 6, RuleAction: allow, CidrBlock: 0.0.0.0/0, PortRange: {From: '443', To: 443}}}
  ACLOut: {Type: AWS::EC2::NetworkAclEntry, Properties: {NetworkAclId: !Ref ACL, RuleNumber: 100, Protocol: 1, Egress: true, RuleAction: allow, CidrBlock: 0.0.0.0/0, Icmp: {Code: -1, Type: -1}}}
  ACLOfB: {Type: AWS::EC2::SubnetNetworkAclAssociation, Properties: {NetworkAclId: !Ref ACL, SubnetId: !Ref B}}
  List: {Type: AWS::EC2::PrefixList, Properties: {PrefixListName: l, AddressFamily: IPv4, MaxEntries: 3, Entries: [{Cidr: 10.0.0.0/8, Description: ours}]}}
  In: {Type: AWS::EC2::SecurityGroupIngress, Properties: {GroupId: !Ref SG, IpProtocol: tcp, FromPort: 443, ToPort: 443, SourcePrefixListId: !Ref List}}
  Eg: {Type: AWS::EC2::SecurityGroupEgress, Properties: {GroupId: !Ref SG, IpProtocol: tcp, FromPort: 443, ToPort: 443, CidrIp: 10.0.0.0/8}}
  Connect: {Type: AWS::EC2::InstanceConnectEndpoint, Properties: {SubnetId: !Ref A, SecurityGroupIds: [!Ref SG]}}
  Group: {Type: AWS::Logs::LogGroup}
  FlowRole: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: ` + trustEC2 + `}}
  Flow: {Type: AWS::EC2::FlowLog, Properties: {ResourceType: VPC, ResourceId: !Ref VPC, TrafficType: ALL, LogGroupName: !Ref Group, DeliverLogsPermissionArn: !GetAtt FlowRole.Arn}}
Outputs:
  Peering: {Value: !Ref Peering}
  CIDR: {Value: !Ref More}
  CIDRId: {Value: !GetAtt Six.Id}
  SubnetCIDR: {Value: !Ref SixA}
  Egress: {Value: !GetAtt Out6.Id}
  Association: {Value: !Ref HasOptions}
  ACL: {Value: !GetAtt ACLOfB.AssociationId}
  List: {Value: !GetAtt List.Arn}
  Rule: {Value: !GetAtt Eg.Id}
  Endpoint: {Value: !Select [0, !GetAtt SSM.DnsEntries]}
  Connect: {Value: !Ref Connect}
  Flow: {Value: !GetAtt Flow.Id}
  NAT: {Value: !Ref NAT}
`, outputs: map[string]string{
		"Peering": "pcx-", "CIDR": "vpc-cidr-assoc-", "CIDRId": "vpc-cidr-assoc-", "SubnetCIDR": "subnet-cidr-assoc-", "Egress": "eigw-", "Association": "dopt-", "ACL": "aclassoc-", "List": "arn:aws:ec2:",
		"Rule": "sgr-", "Endpoint": "Z", "Connect": "eice-", "Flow": "fl-", "NAT": "nat-",
	}, look: func(t *testing.T, w *world, out map[string]string) {
		p := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeVpcPeeringConnections(t.Context(), &awsec2.DescribeVpcPeeringConnectionsInput{VpcPeeringConnectionIds: []string{out["Peering"]}}))(t).VpcPeeringConnections[0]
		if p.Status.Code != "active" {
			t.Errorf("CloudFormation accepts the peering: %+v", p.Status)
		}
	}, tags: team, changes: []string{
		"EnableDnsHostnames: true", "EnableDnsHostnames: true, Tags: [{Key: Name, Value: v}]", "CidrBlock: 10.0.2.0/24", "CidrBlock: 10.0.2.0/24, MapPublicIpOnLaunch: true",
		"PortRange: {From: '443', To: 443}", "PortRange: {From: '80', To: 443}", "MaxEntries: 3, Entries: [{Cidr: 10.0.0.0/8, Description: ours}]", "MaxEntries: 4, Entries: [{Cidr: 10.9.0.0/16}, {Cidr: 10.8.0.0/16}]",
		"SubnetIds: [!Ref B]", "SubnetIds: [!Ref A]", "ToPort: 443, CidrIp: 10.0.0.0/8", "ToPort: 443, CidrIp: 10.0.0.0/8, Description: out", "ToPort: 443, SourcePrefixListId", "ToPort: 443, Description: in, SourcePrefixListId",
		"Name, Value: p", "Name, Value: q", "DestinationCidrBlock: 10.8.0.0/16, VpcPeeringConnectionId: !Ref Peering", "DestinationCidrBlock: 10.8.0.0/16, GatewayId: !Ref IGW",
		"GroupDescription: g, VpcId: !Ref VPC", "GroupDescription: g, VpcId: !Ref VPC, SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 80, ToPort: 80, CidrIp: 0.0.0.0/0}]",
	}, changed: func(t *testing.T, w *world, out map[string]string) {
		list := testkit.Must(awsec2.NewFromConfig(w.cfg).GetManagedPrefixListEntries(t.Context(), &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: aws.String(out["List"][strings.LastIndexByte(out["List"], '/')+1:])}))(t).Entries
		tags := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeVpcPeeringConnections(t.Context(), &awsec2.DescribeVpcPeeringConnectionsInput{VpcPeeringConnectionIds: []string{out["Peering"]}}))(t).VpcPeeringConnections[0].Tags
		if len(list) != 2 || !slices.ContainsFunc(tags, func(t ec2types.Tag) bool { return *t.Key == "team" }) || !slices.ContainsFunc(tags, func(t ec2types.Tag) bool { return *t.Value == "q" }) {
			t.Errorf("%+v %+v", list, tags)
		}
	}},
	"transit": {body: `
Resources:` + net + `
  Other: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.1.0.0/16}}
  C: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Other, CidrBlock: 10.1.1.0/24}}
  Hub: {Type: AWS::EC2::TransitGateway, Properties: {Description: hub, AmazonSideAsn: 64600, DefaultRouteTableAssociation: disable, DefaultRouteTablePropagation: disable, Tags: [{Key: a, Value: b}]}}
  Near: {Type: AWS::EC2::TransitGatewayAttachment, Properties: {TransitGatewayId: !Ref Hub, VpcId: !Ref VPC, SubnetIds: [!Ref A]}}
  Far: {Type: AWS::EC2::TransitGatewayVpcAttachment, Properties: {TransitGatewayId: !Ref Hub, VpcId: !Ref Other, SubnetIds: [!Ref C], Options: {ApplianceModeSupport: enable}}}
  Routes: {Type: AWS::EC2::TransitGatewayRouteTable, Properties: {TransitGatewayId: !Ref Hub}}
  Uses: {Type: AWS::EC2::TransitGatewayRouteTableAssociation, Properties: {TransitGatewayRouteTableId: !Ref Routes, TransitGatewayAttachmentId: !Ref Near}}
  Learns: {Type: AWS::EC2::TransitGatewayRouteTablePropagation, Properties: {TransitGatewayRouteTableId: !Ref Routes, TransitGatewayAttachmentId: !Ref Far}}
  Away: {Type: AWS::EC2::TransitGatewayRoute, Properties: {TransitGatewayRouteTableId: !Ref Routes, DestinationCidrBlock: 192.168.0.0/16, TransitGatewayAttachmentId: !Ref Far}}
  Over: {Type: AWS::EC2::Route, DependsOn: Near, Properties: {RouteTableId: !Ref Table, DestinationCidrBlock: 10.1.0.0/16, TransitGatewayId: !Ref Hub}}
Outputs:
  Hub: {Value: !GetAtt Hub.Id}
  ARN: {Value: !GetAtt Hub.TransitGatewayArn}
  Near: {Value: !Ref Near}
  Routes: {Value: !Ref Routes}
  Uses: {Value: !Ref Uses}
  Away: {Value: !Ref Away}
`, outputs: map[string]string{"Hub": "tgw-", "ARN": "arn:aws:ec2:", "Near": "tgw-attach-", "Routes": "tgw-rtb-", "Uses": "tgw-rtb-", "Away": "tgw-rtb-"},
		look: func(t *testing.T, w *world, out map[string]string) {
			routes := testkit.Must(awsec2.NewFromConfig(w.cfg).SearchTransitGatewayRoutes(t.Context(), &awsec2.SearchTransitGatewayRoutesInput{
				TransitGatewayRouteTableId: aws.String(out["Routes"]), Filters: []ec2types.Filter{{Name: aws.String("state"), Values: []string{"active"}}},
			}))(t).Routes
			if len(routes) != 2 || *routes[0].DestinationCidrBlock != "10.1.0.0/16" || *routes[1].DestinationCidrBlock != "192.168.0.0/16" {
				t.Errorf("routes %+v", routes)
			}
		},
		changes: []string{"SubnetIds: [!Ref A]", "SubnetIds: [!Ref A, !Ref B]"}, tags: team,
		changed: func(t *testing.T, w *world, out map[string]string) {
			a := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeTransitGatewayVpcAttachments(t.Context(), &awsec2.DescribeTransitGatewayVpcAttachmentsInput{TransitGatewayAttachmentIds: []string{out["Near"]}}))(t).TransitGatewayVpcAttachments[0]
			if len(a.SubnetIds) != 2 || !slices.ContainsFunc(a.Tags, func(t ec2types.Tag) bool { return *t.Key == "team" }) {
				t.Errorf("attachment %+v", a)
			}
		}},
	"vpn": {body: `
Resources:` + net + `
  Gateway: {Type: AWS::EC2::VPNGateway, Properties: {Type: ipsec.1, AmazonSideAsn: 64700, Tags: [{Key: a, Value: b}]}}
  Joined: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: !Ref VPC, VpnGatewayId: !Ref Gateway}}
  Office: {Type: AWS::EC2::CustomerGateway, Properties: {Type: ipsec.1, IpAddress: 203.0.113.30, BgpAsn: 65020}}
  Tunnel:
    Type: AWS::EC2::VPNConnection
    Properties:
      Type: ipsec.1
      VpnGatewayId: !Ref Gateway
      CustomerGatewayId: !Ref Office
      StaticRoutesOnly: true
      VpnTunnelOptionsSpecifications: [{PreSharedKey: a-secret-key, TunnelInsideCidr: 169.254.10.0/30}]
  There: {Type: AWS::EC2::VPNConnectionRoute, Properties: {VpnConnectionId: !Ref Tunnel, DestinationCidrBlock: 192.168.0.0/16}}
  Learned: {Type: AWS::EC2::VPNGatewayRoutePropagation, DependsOn: Joined, Properties: {VpnGatewayId: !Ref Gateway, RouteTableIds: [!Ref Table]}}
Outputs:
  Gateway: {Value: !GetAtt Gateway.VPNGatewayId}
  Joined: {Value: !Ref Joined}
  Kind: {Value: !GetAtt Joined.AttachmentType}
  Office: {Value: !Ref Office}
  Tunnel: {Value: !Ref Tunnel}
`, outputs: map[string]string{"Gateway": "vgw-", "Joined": "VGW|vpc-", "Kind": "VGW", "Office": "cgw-", "Tunnel": "vpn-"},
		look: func(t *testing.T, w *world, out map[string]string) {
			c := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeVpnConnections(t.Context(), &awsec2.DescribeVpnConnectionsInput{VpnConnectionIds: []string{out["Tunnel"]}}))(t).VpnConnections[0]
			if len(c.Routes) != 1 || !strings.Contains(*c.CustomerGatewayConfiguration, "a-secret-key") {
				t.Errorf("connection %+v", c)
			}
		}, changes: []string{"Value: b", "Value: c"}, tags: team},
	"capacity": {body: `
Resources:
  Near: {Type: AWS::EC2::PlacementGroup, Properties: {Strategy: cluster, Tags: [{Key: a, Value: b}]}}
  Apart: {Type: AWS::EC2::PlacementGroup, Properties: {Strategy: partition, PartitionCount: 3}}
  Held:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: !Select [0, !GetAZs '']
      InstanceType: m5.large
      InstancePlatform: Linux/UNIX
      InstanceCount: 2
      InstanceMatchCriteria: targeted
      TagSpecifications: [{ResourceType: capacity-reservation, Tags: [{Key: Name, Value: held}]}]
Outputs:
  Near: {Value: !GetAtt Near.GroupName}
  Apart: {Value: !Ref Apart}
  Held: {Value: !Ref Held}
  State: {Value: !GetAtt Held.State}
  Free: {Value: !GetAtt Held.AvailableInstanceCount}
`, outputs: map[string]string{"Near": "capacity-Near-", "Apart": "capacity-Apart-", "Held": "cr-", "State": "active", "Free": "2"},
		look: func(t *testing.T, w *world, out map[string]string) {
			machines := awsec2.NewFromConfig(w.cfg)
			held := testkit.Must(machines.DescribeCapacityReservations(t.Context(), &awsec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{out["Held"]}}))(t).CapacityReservations[0]
			apart := testkit.Must(machines.DescribePlacementGroups(t.Context(), &awsec2.DescribePlacementGroupsInput{GroupNames: []string{out["Apart"]}}))(t).PlacementGroups[0]
			if !slices.ContainsFunc(held.Tags, func(t ec2types.Tag) bool { return *t.Value == "held" }) || *apart.PartitionCount != 3 {
				t.Errorf("%+v, %+v", held, apart)
			}
		},
		changes: []string{"InstanceCount: 2", "InstanceCount: 3", "InstanceMatchCriteria: targeted", "InstanceMatchCriteria: targeted\n      EndDateType: limited\n      EndDate: '2099-01-02T03:04:05Z'"},
		changed: func(t *testing.T, w *world, out map[string]string) {
			held := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeCapacityReservations(t.Context(), &awsec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{out["Held"]}}))(t).CapacityReservations[0]
			if *held.TotalInstanceCount != 3 || held.EndDate == nil || held.EndDate.Year() != 2099 {
				t.Errorf("%+v", held)
			}
		}},
	"instances": {body: `
Parameters:
  Image: {Type: String}
Resources:` + net + `
  Key: {Type: AWS::EC2::KeyPair, Properties: {KeyName: made}}
  Mine: {Type: AWS::EC2::KeyPair, Properties: {KeyName: mine, PublicKeyMaterial: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGxvkkjxbL02ODt4MAh6Pg6oKKnR2bGg0CKe6AkI5DlS x}}
  Role: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: ` + trustEC2 + `}}
  Profile: {Type: AWS::IAM::InstanceProfile, Properties: {Roles: [!Ref Role]}}
  Disk: {Type: AWS::EC2::Volume, Properties: {AvailabilityZone: !GetAtt A.AvailabilityZone, Size: '8', VolumeType: gp3, Encrypted: false}}
  Disk2: {Type: AWS::EC2::Volume, Properties: {AvailabilityZone: !GetAtt A.AvailabilityZone, Size: 9}}
  One:
    Type: AWS::EC2::Instance
    Properties:
      ImageId: !Ref Image
      InstanceType: t3.micro
      KeyName: !Ref Key
      SubnetId: !Ref A
      SecurityGroupIds: [!Ref SG]
      Monitoring: true
      SourceDestCheck: false
      Tenancy: default
      UserData: !Base64 |
        #!/bin/bash
      Volumes: [{Device: /dev/sdf, VolumeId: !Ref Disk2}]
      Tags: [{Key: Name, Value: one}]
  Two:
    Type: AWS::EC2::Instance
    DependsOn: Out
    Properties:
      ImageId: !Ref Image
      InstanceType: t3.micro
      KeyName: !Ref Mine
      NetworkInterfaces: [{AssociatePublicIpAddress: 'true', DeviceIndex: '0', GroupSet: [!Ref SG], SubnetId: !Ref A}]
      BlockDeviceMappings: [{DeviceName: /dev/xvda, Ebs: {VolumeSize: '30', VolumeType: gp3, DeleteOnTermination: true}}]
      MetadataOptions: {HttpTokens: required, HttpPutResponseHopLimit: 2}
      PropagateTagsToVolumeOnCreation: true
      Tags: [{Key: Name, Value: two}]
  Plugged: {Type: AWS::EC2::VolumeAttachment, Properties: {InstanceId: !Ref Two, VolumeId: !Ref Disk, Device: /dev/sdg}}
  Card: {Type: AWS::EC2::NetworkInterface, Properties: {SubnetId: !Ref A, GroupSet: [!Ref SG], Description: second, SourceDestCheck: false}}
  CardIn: {Type: AWS::EC2::NetworkInterfaceAttachment, Properties: {DeviceIndex: '1', InstanceId: !Ref Two, NetworkInterfaceId: !Ref Card}}
  IP: {Type: AWS::EC2::EIP, DependsOn: Attached, Properties: {Domain: vpc}}
  IPOfOne: {Type: AWS::EC2::EIPAssociation, Properties: {AllocationId: !GetAtt IP.AllocationId, InstanceId: !Ref One}}
  IP2: {Type: AWS::EC2::EIP, DependsOn: Attached, Properties: {Domain: vpc}}
  IPOfCard: {Type: AWS::EC2::EIPAssociation, Properties: {AllocationId: !GetAtt IP2.AllocationId, NetworkInterfaceId: !Ref Card}}
Outputs:
  Instance: {Value: !Ref One}
  Private: {Value: !GetAtt One.PrivateIp}
  Public: {Value: !GetAtt Two.PublicIp}
  Zone: {Value: !GetAtt Two.AvailabilityZone}
  Name: {Value: !GetAtt One.PrivateDnsName}
  Key: {Value: !GetAtt Key.KeyPairId}
  Mine: {Value: !Ref Mine}
  Plugged: {Value: !Ref Plugged}
  Card: {Value: !GetAtt Card.PrimaryPrivateIpAddress}
  CardIn: {Value: !GetAtt CardIn.AttachmentId}
  Association: {Value: !GetAtt IPOfOne.Id}
`, outputs: map[string]string{
		"Instance": "i-", "Private": "10.0.1.", "Public": "", "Zone": "us-east-1a", "Name": "ip-10-0-1-", "Key": "key-", "Mine": "mine", "Plugged": "vol-", "Card": "10.0.1.", "CardIn": "eni-attach-", "Association": "eipassoc-",
	}, look: func(t *testing.T, w *world, out map[string]string) {
		secret := testkit.Must(awsssm.NewFromConfig(w.cfg).GetParameter(t.Context(), &awsssm.GetParameterInput{Name: aws.String("/ec2/keypair/" + out["Key"]), WithDecryption: aws.Bool(true)}))(t)
		if !strings.Contains(*secret.Parameter.Value, "PRIVATE KEY") {
			t.Errorf("%q", *secret.Parameter.Value)
		}
		i := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{InstanceIds: []string{out["Instance"]}}))(t).Reservations[0].Instances[0]
		if len(i.BlockDeviceMappings) != 2 || *i.SourceDestCheck || i.Monitoring.State != "enabled" && i.Monitoring.State != "pending" {
			t.Errorf("%+v", i)
		}
	}, changes: []string{
		"Size: 9", "Size: 9, VolumeType: gp3", "Description: second, SourceDestCheck: false", "Description: third, SourceDestCheck: true, Tags: [{Key: Name, Value: x}]", "NetworkInterfaceId: !Ref Card}}\n  IP:", "NetworkInterfaceId: !Ref Card, DeleteOnTermination: false}}\n  IP:",
		"InstanceType: t3.micro\n      KeyName: !Ref Key", "InstanceType: t3.small\n      DisableApiTermination: false\n      IamInstanceProfile: !Ref Profile\n      KeyName: !Ref Key", "Monitoring: true", "Monitoring: false", "SourceDestCheck: false\n", "SourceDestCheck: true\n",
		"HttpPutResponseHopLimit: 2", "HttpPutResponseHopLimit: 3", "Name, Value: two", "Name, Value: 2",
	}, changed: func(t *testing.T, w *world, out map[string]string) {
		i := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{InstanceIds: []string{out["Instance"]}}))(t).Reservations[0].Instances[0]
		if i.InstanceType != "t3.small" || !*i.SourceDestCheck || i.State.Name != "running" {
			t.Errorf("%+v", i)
		}
	}},
	"scaling": {body: `
Parameters:
  Image: {Type: String}
Resources:` + net + `
  Config:
    Type: AWS::AutoScaling::LaunchConfiguration
    Properties:
      ImageId: !Ref Image
      InstanceType: t3.micro
      SecurityGroups: [!Ref SG]
      InstanceMonitoring: false
      AssociatePublicIpAddress: 'true'
      BlockDeviceMappings: [{DeviceName: /dev/xvda, Ebs: {VolumeSize: 20, VolumeType: gp2}}]
      UserData: !Base64 '#!/bin/sh'
  Template: {Type: AWS::EC2::LaunchTemplate, Properties: {LaunchTemplateData: {ImageId: !Ref Image, InstanceType: t3.micro, SecurityGroupIds: [!Ref SG]}}}
  Classic:
    Type: AWS::ElasticLoadBalancing::LoadBalancer
    Properties:
      Subnets: [!Ref A, !Ref B]
      Scheme: internal
      SecurityGroups: [!Ref SG]
      CrossZone: true
      ConnectionDrainingPolicy: {Enabled: true, Timeout: 30}
      ConnectionSettings: {IdleTimeout: 90}
      Listeners: [{InstancePort: '80', InstanceProtocol: TCP, LoadBalancerPort: '80', Protocol: TCP}]
      HealthCheck: {HealthyThreshold: '2', Interval: '10', Target: 'TCP:80', Timeout: '5', UnhealthyThreshold: '3'}
  Targets:
    Type: AWS::ElasticLoadBalancingV2::TargetGroup
    DependsOn: A
    Properties: {Port: 80, Protocol: HTTP, VpcId: !Ref VPC, HealthCheckPath: /up, Matcher: {HttpCode: '200'}, TargetType: ip, Targets: [{Id: 10.0.1.77, Port: 80}], TargetGroupAttributes: [{Key: deregistration_delay.timeout_seconds, Value: '1'}]}
  Instances: {Type: AWS::ElasticLoadBalancingV2::TargetGroup, Properties: {Port: 80, Protocol: HTTP, VpcId: !Ref VPC}}
  Balancer:
    Type: AWS::ElasticLoadBalancingV2::LoadBalancer
    Properties: {Subnets: [!Ref A, !Ref B], Scheme: internal, SecurityGroups: [!Ref SG], LoadBalancerAttributes: [{Key: idle_timeout.timeout_seconds, Value: '77'}]}
  Listener:
    Type: AWS::ElasticLoadBalancingV2::Listener
    Properties: {LoadBalancerArn: !Ref Balancer, Port: 80, Protocol: HTTP, DefaultActions: [{Type: forward, TargetGroupArn: !Ref Targets}]}
  Rule:
    Type: AWS::ElasticLoadBalancingV2::ListenerRule
    Properties: {ListenerArn: !Ref Listener, Priority: 7, Conditions: [{Field: path-pattern, PathPatternConfig: {Values: [/x/*]}}], Actions: [{Type: fixed-response, FixedResponseConfig: {StatusCode: '404', ContentType: text/plain}}]}
  Secure:
    Type: AWS::ElasticLoadBalancingV2::Listener
    Properties: {LoadBalancerArn: !Ref Balancer, Port: 443, Protocol: HTTPS, Certificates: [{CertificateArn: !Sub 'arn:aws:acm:${AWS::Region}:${AWS::AccountId}:certificate/11111111-1111-1111-1111-111111111111'}], DefaultActions: [{Type: forward, TargetGroupArn: !Ref Targets}]}
  Certificate:
    Type: AWS::ElasticLoadBalancingV2::ListenerCertificate
    Properties: {ListenerArn: !Ref Secure, Certificates: [{CertificateArn: !Sub 'arn:aws:acm:${AWS::Region}:${AWS::AccountId}:certificate/22222222-2222-2222-2222-222222222222'}]}
  Old:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties: {LaunchConfigurationName: !Ref Config, MinSize: '1', MaxSize: '2', DesiredCapacity: '1', Cooldown: '60', VPCZoneIdentifier: [!Ref A, !Ref B], LoadBalancerNames: [!Ref Classic], MetricsCollection: [{Granularity: 1Minute}], Tags: [{Key: Name, Value: n, PropagateAtLaunch: true}]}
  New:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties: {LaunchTemplate: {LaunchTemplateId: !Ref Template, Version: !GetAtt Template.LatestVersionNumber}, MinSize: 0, MaxSize: 3, VPCZoneIdentifier: [!Ref A]}
  Hook: {Type: AWS::AutoScaling::LifecycleHook, Properties: {AutoScalingGroupName: !Ref New, LifecycleTransition: 'autoscaling:EC2_INSTANCE_TERMINATING', HeartbeatTimeout: 60, DefaultResult: CONTINUE}}
  Pool: {Type: AWS::AutoScaling::WarmPool, Properties: {AutoScalingGroupName: !Ref New, MinSize: 1, MaxGroupPreparedCapacity: 1, PoolState: Running}}
  Night: {Type: AWS::AutoScaling::ScheduledAction, Properties: {AutoScalingGroupName: !Ref New, MaxSize: 2, Recurrence: '0 22 * * *', TimeZone: Europe/Berlin, EndTime: '2099-01-02T03:04:05Z'}}
  Policy: {Type: AWS::AutoScaling::ScalingPolicy, Properties: {AutoScalingGroupName: !Ref New, AdjustmentType: ChangeInCapacity, ScalingAdjustment: 1, Cooldown: '60'}}
Outputs:
  Config: {Value: !Ref Config}
  Classic: {Value: !GetAtt Classic.DNSName}
  Balancer: {Value: !GetAtt Balancer.LoadBalancerFullName}
  DNS: {Value: !GetAtt Balancer.DNSName}
  Targets: {Value: !GetAtt Targets.TargetGroupFullName}
  Listener: {Value: !GetAtt Listener.ListenerArn}
  Rule: {Value: !GetAtt Rule.RuleArn}
  Old: {Value: !Ref Old}
  New: {Value: !GetAtt New.AutoScalingGroupARN}
  Hook: {Value: !Ref Hook}
  Pool: {Value: !Ref Pool}
  Policy: {Value: !Ref Policy}
`, outputs: map[string]string{
		"Config": "scaling-Config-", "Classic": "internal-", "Balancer": "app/scaling-Balancer-", "DNS": "internal-scaling-", "Targets": "targetgroup/", "Listener": "arn:aws:elasticloadbalancing:", "Rule": "arn:aws:elasticloadbalancing:",
		"Old": "scaling-Old-", "New": "arn:aws:autoscaling:", "Hook": "scaling-Hook-", "Pool": "scaling-New-", "Policy": "arn:aws:autoscaling:",
	}, tags: team, changes: []string{
		"MinSize: 0, MaxSize: 3", "MinSize: 1, MaxSize: 4", "DesiredCapacity: '1', Cooldown: '60'", "DesiredCapacity: '2', Cooldown: '90'", "LoadBalancerNames: [!Ref Classic]", "TargetGroupARNs: [!Ref Instances]", "PropagateAtLaunch: true}]", "PropagateAtLaunch: false}]",
		"HeartbeatTimeout: 60", "HeartbeatTimeout: 90", "MinSize: 1, MaxGroup", "MinSize: 2, MaxGroup", "ScalingAdjustment: 1", "ScalingAdjustment: 2", "StatusCode: '404'", "StatusCode: '503'", "Priority: 7", "Priority: 8", "HealthCheckPath: /up", "HealthCheckPath: /down", "Id: 10.0.1.77", "Id: 10.0.1.78",
		"timeout_seconds, Value: '77'", "timeout_seconds, Value: '78'", "IdleTimeout: 90", "IdleTimeout: 91", "LoadBalancerPort: '80', Protocol: TCP", "LoadBalancerPort: '81', Protocol: TCP", "Port: 80, Protocol: HTTP, DefaultActions", "Port: 8080, Protocol: HTTP, DefaultActions",
	}, changed: func(t *testing.T, w *world, out map[string]string) {
		g := testkit.Must(awsautoscaling.NewFromConfig(w.cfg).DescribeAutoScalingGroups(t.Context(), &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{out["Old"]}}))(t).AutoScalingGroups[0]
		if len(g.Instances) != 2 || len(g.LoadBalancerNames) != 0 || len(g.TargetGroupARNs) != 1 || *g.DefaultCooldown != 90 || !slices.ContainsFunc(g.Tags, func(t autoscalingtypes.TagDescription) bool { return *t.Key == "team" }) {
			t.Errorf("%+v", g)
		}
		pool := testkit.Must(awsautoscaling.NewFromConfig(w.cfg).DescribeWarmPool(t.Context(), &awsautoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String(out["Pool"])}))(t).WarmPoolConfiguration
		if *pool.MinSize != 2 || pool.PoolState != autoscalingtypes.WarmPoolStateRunning {
			t.Errorf("%+v", pool)
		}
		r := testkit.Must(awselbv2.NewFromConfig(w.cfg).DescribeRules(t.Context(), &awselbv2.DescribeRulesInput{RuleArns: []string{out["Rule"]}}))(t).Rules[0]
		if *r.Priority != "8" || *r.Actions[0].FixedResponseConfig.StatusCode != "503" {
			t.Errorf("%+v", r)
		}
	}},
	"identities": {body: `
Resources:
  Boundary: {Type: AWS::IAM::ManagedPolicy, Properties: {PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: '*', Resource: '*'}]}, Description: d}}
  Role: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: ` + trustEC2 + `, Policies: [{PolicyName: in, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 's3:*', Resource: '*'}]}}]}}
  User:
    Type: AWS::IAM::User
    Properties:
      Path: /team/
      Groups: [!Ref Group]
      ManagedPolicyArns: [arn:aws:iam::aws:policy/ReadOnlyAccess]
      PermissionsBoundary: !Ref Boundary
      Policies: [{PolicyName: in, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Deny, Action: 's3:*', Resource: '*'}]}}]
      LoginProfile: {Password: 'correct-Horse-9', PasswordResetRequired: true}
      Tags: [{Key: a, Value: b}]
  Bare: {Type: AWS::IAM::User}
  Group: {Type: AWS::IAM::Group, Properties: {ManagedPolicyArns: [arn:aws:iam::aws:policy/ReadOnlyAccess], Policies: [{PolicyName: in, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 's3:*', Resource: '*'}]}}]}}
  Members: {Type: AWS::IAM::UserToGroupAddition, Properties: {GroupName: !Ref Group, Users: [!Ref Bare]}}
  Key: {Type: AWS::IAM::AccessKey, Properties: {UserName: !Ref Bare, Status: Inactive}}
  Policy: {Type: AWS::IAM::Policy, Properties: {PolicyName: all, Roles: [!Ref Role], Users: [!Ref Bare], Groups: [!Ref Group], PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:*', Resource: '*'}]}}}
  Attached: {Type: AWS::IAM::ManagedPolicy, Properties: {ManagedPolicyName: attached, Roles: [!Ref Role], Users: [!Ref Bare], Groups: [!Ref Group], PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:*', Resource: '*'}]}}}
  RolePolicy: {Type: AWS::IAM::RolePolicy, Properties: {PolicyName: one, RoleName: !Ref Role, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:*', Resource: '*'}]}}}
  UserPolicy: {Type: AWS::IAM::UserPolicy, Properties: {PolicyName: one, UserName: !Ref Bare, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:*', Resource: '*'}]}}}
  GroupPolicy: {Type: AWS::IAM::GroupPolicy, Properties: {PolicyName: one, GroupName: !Ref Group, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:*', Resource: '*'}]}}}
  Linked: {Type: AWS::IAM::ServiceLinkedRole, Properties: {AWSServiceName: spot.amazonaws.com}}
  Provider: {Type: AWS::IAM::OIDCProvider, Properties: {Url: 'https://oidc.example.com/id/1', ClientIdList: [sts.amazonaws.com], ThumbprintList: [9e99a48a9960b14926bb7f3b02e22da2b0ab7280], Tags: [{Key: a, Value: b}]}}
Outputs:
  User: {Value: !GetAtt User.Arn}
  Group: {Value: !GetAtt Group.Arn}
  Key: {Value: !Ref Key}
  Secret: {Value: !GetAtt Key.SecretAccessKey}
  Policy: {Value: !Ref Policy}
  Attached: {Value: !Ref Attached}
  RolePolicy: {Value: !Ref RolePolicy}
  Members: {Value: !Ref Members}
  Linked: {Value: !Ref Linked}
  Provider: {Value: !Ref Provider}
  Role: {Value: !Ref Role}
`, outputs: map[string]string{
		"User": "arn:aws:iam::", "Group": "arn:aws:iam::", "Key": "AKIA", "Secret": "", "Policy": "identities-Policy-", "Attached": "arn:aws:iam::", "RolePolicy": "one|identities-Role-", "Members": "identities-Members-",
		"Linked": "AWSServiceRoleForEC2Spot", "Provider": "arn:aws:iam::",
	}, look: func(t *testing.T, w *world, out map[string]string) {
		if len(out["Secret"]) != 40 {
			t.Errorf("%q", out["Secret"])
		}
		inline := testkit.Must(awsiam.NewFromConfig(w.cfg).ListRolePolicies(t.Context(), &awsiam.ListRolePoliciesInput{RoleName: aws.String(out["Role"])}))(t).PolicyNames
		if slices.Sort(inline); !slices.Equal(inline, []string{"all", "in", "one"}) {
			t.Errorf("%v", inline)
		}
	}, tags: team, changes: []string{
		"PolicyName: all", "PolicyName: every", "Roles: [!Ref Role], Users: [!Ref Bare], Groups: [!Ref Group], PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:*'", "Roles: [!Ref Role], Groups: [!Ref Group], PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 'sqs:Send*'",
		"Policies: [{PolicyName: in, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: 's3:*', Resource: '*'}]}}]}}\n  User:", "Description: r, MaxSessionDuration: 7200, PermissionsBoundary: !Ref Boundary, ManagedPolicyArns: [arn:aws:iam::aws:policy/ReadOnlyAccess]}}\n  User:",
		"      Groups: [!Ref Group]\n      ManagedPolicyArns: [arn:aws:iam::aws:policy/ReadOnlyAccess]\n      PermissionsBoundary: !Ref Boundary\n", "", "Status: Inactive", "Status: Active", "Users: [!Ref Bare]}}\n  Key", "Users: [!Ref User]}}\n  Key",
		"ManagedPolicyArns: [arn:aws:iam::aws:policy/ReadOnlyAccess], Policies: [{PolicyName: in,", "Policies: [{PolicyName: out,", "RoleName: !Ref Role, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow", "RoleName: !Ref Role, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Deny",
		"ClientIdList: [sts.amazonaws.com]", "ClientIdList: [a, b]", "9e99a48a9960b14926bb7f3b02e22da2b0ab7280", "9e99a48a9960b14926bb7f3b02e22da2b0ab7281", "Effect: Allow, Action: '*'", "Effect: Allow, Action: 's3:*'",
	}, changed: func(t *testing.T, w *world, out map[string]string) {
		users := awsiam.NewFromConfig(w.cfg)
		inline := testkit.Must(users.ListRolePolicies(t.Context(), &awsiam.ListRolePoliciesInput{RoleName: aws.String(out["Role"])}))(t).PolicyNames
		attached := testkit.Must(users.ListAttachedRolePolicies(t.Context(), &awsiam.ListAttachedRolePoliciesInput{RoleName: aws.String(out["Role"])}))(t).AttachedPolicies
		role := testkit.Must(users.GetRole(t.Context(), &awsiam.GetRoleInput{RoleName: aws.String(out["Role"])}))(t).Role
		if slices.Sort(inline); !slices.Equal(inline, []string{"every", "one"}) || len(attached) != 2 || *role.MaxSessionDuration != 7200 || role.PermissionsBoundary == nil || len(role.Tags) != 1 {
			t.Errorf("%v %+v %+v", inline, attached, role)
		}
		if out["Secret"] == "" {
			t.Error("a secret that is shown once is lost by an update")
		}
	}},
	"storage": {body: `
Resources:
  Plain: {Type: AWS::S3::Bucket}
  Full:
    Type: AWS::S3::Bucket
    Properties:
      BucketName: storage-full
      AccessControl: Private
      ObjectLockEnabled: false
      VersioningConfiguration: {Status: Enabled}
      BucketEncryption: {ServerSideEncryptionConfiguration: [{BucketKeyEnabled: true, ServerSideEncryptionByDefault: {SSEAlgorithm: AES256}}]}
      PublicAccessBlockConfiguration: {BlockPublicAcls: true, BlockPublicPolicy: true, IgnorePublicAcls: true, RestrictPublicBuckets: true}
      OwnershipControls: {Rules: [{ObjectOwnership: BucketOwnerEnforced}]}
      LifecycleConfiguration:
        Rules:
          - {Id: old, Status: Enabled, NoncurrentVersionExpiration: {NoncurrentDays: 30}}
          - {Id: parts, Status: Enabled, AbortIncompleteMultipartUpload: {DaysAfterInitiation: 1}}
          - {Id: dated, Status: Disabled, ExpirationDate: '2030-01-01T00:00:00Z'}
          - {Id: some, Status: Enabled, Prefix: logs/, TagFilters: [{Key: a, Value: b}], ObjectSizeGreaterThan: '7', ExpirationInDays: 90, Transitions: [{StorageClass: GLACIER, TransitionInDays: 60}], NoncurrentVersionTransitions: [{StorageClass: STANDARD_IA, TransitionInDays: 30}]}
      CorsConfiguration: {CorsRules: [{Id: all, AllowedMethods: [GET], AllowedOrigins: ['*'], ExposedHeaders: [Date], MaxAge: 60}]}
      WebsiteConfiguration: {IndexDocument: index.html, ErrorDocument: error.html, RoutingRules: [{RoutingRuleCondition: {KeyPrefixEquals: a}, RedirectRule: {ReplaceKeyPrefixWith: b}}]}
      LoggingConfiguration: {DestinationBucketName: !Ref Plain, LogFilePrefix: l/}
      AccelerateConfiguration: {AccelerationStatus: Enabled}
      Tags: [{Key: k, Value: v}]
  Policy: {Type: AWS::S3::BucketPolicy, Properties: {Bucket: !Ref Full, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Deny, Principal: '*', Action: 's3:*', Resource: !Sub '${Full.Arn}/*', Condition: {Bool: {'aws:SecureTransport': false}}}]}}}
  Bare: {Type: AWS::ECR::Repository}
  Repository:
    Type: AWS::ECR::Repository
    Properties:
      RepositoryName: team/app
      ImageTagMutability: IMMUTABLE_WITH_EXCLUSION
      ImageTagMutabilityExclusionFilters: [{ImageTagMutabilityExclusionFilterType: WILDCARD, ImageTagMutabilityExclusionFilterValue: 'latest*'}]
      ImageScanningConfiguration: {ScanOnPush: true}
      EncryptionConfiguration: {EncryptionType: AES256}
      EmptyOnDelete: true
      LifecyclePolicy: {LifecyclePolicyText: '{"rules":[{"rulePriority":1,"selection":{"tagStatus":"untagged","countType":"sinceImagePushed","countUnit":"days","countNumber":365},"action":{"type":"expire"}}]}'}
      RepositoryPolicyText: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: '*', Action: ['ecr:BatchGetImage']}]}
      Tags: [{Key: k, Value: v}]
  Registry: {Type: AWS::ECR::RegistryPolicy, Properties: {PolicyText: {Version: 2012-10-17, Statement: [{Sid: Import, Effect: Allow, Principal: {AWS: !Sub 'arn:aws:iam::${AWS::AccountId}:root'}, Action: ['ecr:BatchImportUpstreamImage'], Resource: !Sub 'arn:aws:ecr:${AWS::Region}:${AWS::AccountId}:repository/*'}]}}}
  Cache: {Type: AWS::ECR::PullThroughCacheRule, Properties: {EcrRepositoryPrefix: k8s, UpstreamRegistryUrl: registry.k8s.io}}
Outputs:
  Plain: {Value: !Ref Plain}
  Full: {Value: !GetAtt Full.Arn}
  Domain: {Value: !GetAtt Full.RegionalDomainName}
  Site: {Value: !GetAtt Full.WebsiteURL}
  Policy: {Value: !Ref Policy}
  Bare: {Value: !Ref Bare}
  Repository: {Value: !GetAtt Repository.Arn}
  URI: {Value: !GetAtt Repository.RepositoryUri}
  Registry: {Value: !Ref Registry}
  Cache: {Value: !Ref Cache}
`, outputs: map[string]string{
		"Plain": "storage-plain-", "Full": "arn:aws:s3:::storage-full", "Domain": "storage-full.s3.us-east-1.amazonaws.com", "Site": "http://storage-full.s3-website-us-east-1.amazonaws.com", "Policy": "storage-full",
		"Bare": "storage-bare-", "Repository": "arn:aws:ecr:us-east-1:", "URI": "", "Registry": "", "Cache": "k8s",
	}, look: func(t *testing.T, w *world, out map[string]string) {
		buckets, bucket := awss3.NewFromConfig(w.cfg), aws.String("storage-full")
		rules := testkit.Must(buckets.GetBucketLifecycleConfiguration(t.Context(), &awss3.GetBucketLifecycleConfigurationInput{Bucket: bucket}))(t).Rules
		if len(rules) != 4 || *rules[0].Filter.Prefix != "" || *rules[3].Filter.And.Prefix != "logs/" || *rules[3].Filter.And.ObjectSizeGreaterThan != 7 || *rules[3].Expiration.Days != 90 ||
			*rules[3].Transitions[0].Days != 60 || *rules[3].NoncurrentVersionTransitions[0].NoncurrentDays != 30 || rules[2].Expiration.Date.Year() != 2030 {
			t.Errorf("%+v", rules)
		}
		site := testkit.Must(buckets.GetBucketWebsite(t.Context(), &awss3.GetBucketWebsiteInput{Bucket: bucket}))(t)
		cors := testkit.Must(buckets.GetBucketCors(t.Context(), &awss3.GetBucketCorsInput{Bucket: bucket}))(t).CORSRules[0]
		logging := testkit.Must(buckets.GetBucketLogging(t.Context(), &awss3.GetBucketLoggingInput{Bucket: bucket}))(t).LoggingEnabled
		if *site.IndexDocument.Suffix != "index.html" || *site.RoutingRules[0].Redirect.ReplaceKeyPrefixWith != "b" || *cors.MaxAgeSeconds != 60 || *logging.TargetBucket != out["Plain"] {
			t.Errorf("%+v %+v %+v", site, cors, logging)
		}
		repo := testkit.Must(awsecr.NewFromConfig(w.cfg).DescribeRepositories(t.Context(), &awsecr.DescribeRepositoriesInput{RepositoryNames: []string{"team/app"}}))(t).Repositories[0]
		if repo.ImageTagMutability != "IMMUTABLE_WITH_EXCLUSION" || *repo.ImageTagMutabilityExclusionFilters[0].Filter != "latest*" || !repo.ImageScanningConfiguration.ScanOnPush {
			t.Errorf("%+v", repo)
		}
		put := testkit.Must(buckets.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: bucket, Key: aws.String("x")}))(t)
		testkit.Must(buckets.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: bucket, Key: aws.String("x"), VersionId: put.VersionId}))(t)
	}, tags: team, changes: []string{
		"{Id: old, Status: Enabled", "{Id: old, Status: Disabled", "      CorsConfiguration: {CorsRules: [{Id: all, AllowedMethods: [GET], AllowedOrigins: ['*'], ExposedHeaders: [Date], MaxAge: 60}]}\n", "", "      WebsiteConfiguration: ", "      OwnershipControls: {Rules: [{ObjectOwnership: ObjectWriter}]}\n      WebsiteConfiguration: ",
		"      OwnershipControls: {Rules: [{ObjectOwnership: BucketOwnerEnforced}]}\n", "", "      LoggingConfiguration: {DestinationBucketName: !Ref Plain, LogFilePrefix: l/}\n", "", "AccelerationStatus: Enabled", "AccelerationStatus: Suspended", "VersioningConfiguration: {Status: Enabled}", "VersioningConfiguration: {Status: Suspended}",
		"      AccessControl: Private\n", "", "RestrictPublicBuckets: true", "RestrictPublicBuckets: false", "{Key: k, Value: v}", "{Key: k, Value: w}", "Effect: Deny, Principal: '*', Action: 's3:*'", "Effect: Deny, Principal: '*', Action: 's3:Get*'",
		"IMMUTABLE_WITH_EXCLUSION\n      ImageTagMutabilityExclusionFilters: [{ImageTagMutabilityExclusionFilterType: WILDCARD, ImageTagMutabilityExclusionFilterValue: 'latest*'}]", "MUTABLE", "ScanOnPush: true", "ScanOnPush: false", "countNumber\":365", "countNumber\":30",
		"      RepositoryPolicyText: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: '*', Action: ['ecr:BatchGetImage']}]}\n", "", "Sid: Import", "Sid: Other", "EmptyOnDelete: true", "EmptyOnDelete: false",
	}, changed: func(t *testing.T, w *world, _ map[string]string) {
		buckets, bucket := awss3.NewFromConfig(w.cfg), aws.String("storage-full")
		_, err := buckets.GetBucketCors(t.Context(), &awss3.GetBucketCorsInput{Bucket: bucket})
		testkit.WantError(t, err, "NoSuchCORSConfiguration", "The CORS configuration does not exist")
		tags := testkit.Must(buckets.GetBucketTagging(t.Context(), &awss3.GetBucketTaggingInput{Bucket: bucket}))(t).TagSet
		logging := testkit.Must(buckets.GetBucketLogging(t.Context(), &awss3.GetBucketLoggingInput{Bucket: bucket}))(t).LoggingEnabled
		owner := testkit.Must(buckets.GetBucketOwnershipControls(t.Context(), &awss3.GetBucketOwnershipControlsInput{Bucket: bucket}))(t).OwnershipControls.Rules[0].ObjectOwnership
		registry := awsecr.NewFromConfig(w.cfg)
		repo := testkit.Must(registry.DescribeRepositories(t.Context(), &awsecr.DescribeRepositoriesInput{RepositoryNames: []string{"team/app"}}))(t).Repositories[0]
		repoTags := testkit.Must(registry.ListTagsForResource(t.Context(), &awsecr.ListTagsForResourceInput{ResourceArn: repo.RepositoryArn}))(t).Tags
		if len(tags) != 2 || logging != nil || owner != "ObjectWriter" || repo.ImageTagMutability != "MUTABLE" || repo.ImageScanningConfiguration.ScanOnPush || len(repoTags) != 2 {
			t.Errorf("%+v %+v %s %+v %+v", tags, logging, owner, repo, repoTags)
		}
		_, err = registry.GetRepositoryPolicy(t.Context(), &awsecr.GetRepositoryPolicyInput{RepositoryName: repo.RepositoryName})
		testkit.WantError(t, err, "RepositoryPolicyNotFoundException", "…")
	}},
	"neighbours": {body: `
Resources:
  Generated:
    Type: AWS::SecretsManager::Secret
    Properties:
      Description: d
      GenerateSecretString: {SecretStringTemplate: '{"user": "admin"}', GenerateStringKey: password, PasswordLength: 20, ExcludePunctuation: true}
      Tags: [{Key: k, Value: v}]
  Given: {Type: AWS::SecretsManager::Secret, Properties: {Name: team/given, SecretString: hush-hush, KmsKeyId: !Ref Key}}
  Key: {Type: AWS::KMS::Key, Properties: {PendingWindowInDays: 7}}
  SecretPolicy: {Type: AWS::SecretsManager::ResourcePolicy, Properties: {SecretId: !Ref Given, BlockPublicPolicy: true, ResourcePolicy: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {AWS: !Sub 'arn:aws:iam::${AWS::AccountId}:root'}, Action: 'secretsmanager:GetSecretValue', Resource: '*'}]}}}
  Schedule: {Type: AWS::SecretsManager::RotationSchedule, Properties: {SecretId: !Ref Generated, RotationLambdaARN: !Sub 'arn:aws:lambda:${AWS::Region}:${AWS::AccountId}:function:rotate', RotationRules: {AutomaticallyAfterDays: 30}}}
  Queue: {Type: AWS::SQS::Queue}
  Other: {Type: AWS::SQS::Queue}
  Topic: {Type: AWS::SNS::Topic, Properties: {DisplayName: shown, Subscription: [{Protocol: sqs, Endpoint: !GetAtt Queue.Arn}], Tags: [{Key: k, Value: v}]}}
  Named: {Type: AWS::SNS::Topic, Properties: {TopicName: named, FifoTopic: false}}
  Subscription: {Type: AWS::SNS::Subscription, Properties: {TopicArn: !Ref Named, Protocol: sqs, Endpoint: !GetAtt Other.Arn, RawMessageDelivery: true, FilterPolicy: {color: [red]}}}
  TopicPolicy: {Type: AWS::SNS::TopicPolicy, Properties: {Topics: [!Ref Topic], PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: events.amazonaws.com}, Action: 'sns:Publish', Resource: !Ref Topic}]}}}
  InlinePolicy: {Type: AWS::SNS::TopicInlinePolicy, Properties: {TopicArn: !Ref Named, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {AWS: !Ref AWS::AccountId}, Action: 'sns:Publish', Resource: !Ref Named}]}}}
  Public:
    Type: AWS::ECR::PublicRepository
    Properties:
      RepositoryName: team/public
      RepositoryCatalogData: {RepositoryDescription: r, AboutText: about, Architectures: [ARM 64]}
      RepositoryPolicyText: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: '*', Action: 'ecr-public:BatchGetImage'}]}
      Tags: [{Key: k, Value: v}]
  Scanning: {Type: AWS::ECR::RegistryScanningConfiguration, Properties: {ScanType: BASIC, Rules: [{ScanFrequency: SCAN_ON_PUSH, RepositoryFilters: [{Filter: 'team/*', FilterType: WILDCARD}]}]}}
Outputs:
  Generated: {Value: !Ref Generated}
  Given: {Value: !GetAtt Given.Id}
  SecretPolicy: {Value: !Ref SecretPolicy}
  Schedule: {Value: !Ref Schedule}
  Topic: {Value: !Ref Topic}
  TopicName: {Value: !GetAtt Topic.TopicName}
  Subscription: {Value: !Ref Subscription}
  TopicPolicy: {Value: !Ref TopicPolicy}
  InlinePolicy: {Value: !Ref InlinePolicy}
  Public: {Value: !GetAtt Public.Arn}
  Scanning: {Value: !Ref Scanning}
`, outputs: map[string]string{
		"Generated": "arn:aws:secretsmanager:us-east-1:", "Given": "arn:aws:secretsmanager:us-east-1:", "SecretPolicy": "arn:aws:secretsmanager:", "Schedule": "arn:aws:secretsmanager:", "Topic": "arn:aws:sns:us-east-1:",
		"TopicName": "neighbours-Topic-", "Subscription": "arn:aws:sns:", "TopicPolicy": "neighbours-TopicPolicy-", "InlinePolicy": "arn:aws:sns:", "Public": "arn:aws:ecr-public::", "Scanning": "",
	}, look: func(t *testing.T, w *world, out map[string]string) {
		secrets := awssm.NewFromConfig(w.cfg)
		value := *testkit.Must(secrets.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String(out["Generated"])}))(t).SecretString
		var fields map[string]string
		if err := json.Unmarshal([]byte(value), &fields); err != nil || fields["user"] != "admin" || len(fields["password"]) != 20 {
			t.Errorf("%s: %v", value, err)
		}
		if _, name, _ := strings.Cut(out["Generated"], ":secret:"); !strings.HasPrefix(name, "Generated-") {
			t.Error(name)
		}
		topics := awssns.NewFromConfig(w.cfg)
		attributes := testkit.Must(topics.GetTopicAttributes(t.Context(), &awssns.GetTopicAttributesInput{TopicArn: aws.String(out["Topic"])}))(t).Attributes
		if attributes["DisplayName"] != "shown" || attributes["SubscriptionsConfirmed"] != "1" || !strings.Contains(attributes["Policy"], "events.amazonaws.com") {
			t.Errorf("%v", attributes)
		}
		data := testkit.Must(awsecrpublic.NewFromConfig(w.cfg).GetRepositoryCatalogData(t.Context(), &awsecrpublic.GetRepositoryCatalogDataInput{RepositoryName: aws.String("team/public")}))(t).CatalogData
		if aws.ToString(data.Description) != "r" || aws.ToString(data.AboutText) != "about" || len(data.Architectures) != 1 {
			t.Errorf("%+v", data)
		}
	}, tags: team, changes: []string{
		"Description: d\n", "Description: e\n", "PasswordLength: 20", "PasswordLength: 24", "SecretString: hush-hush, KmsKeyId: !Ref Key", "SecretString: other", "{Key: k, Value: v}", "{Key: k, Value: w}",
		"Action: 'secretsmanager:GetSecretValue'", "Action: 'secretsmanager:DescribeSecret'", "AutomaticallyAfterDays: 30", "AutomaticallyAfterDays: 60", "DisplayName: shown, Subscription: [{Protocol: sqs, Endpoint: !GetAtt Queue.Arn}], ", "",
		"RawMessageDelivery: true, FilterPolicy: {color: [red]}", "FilterPolicy: {color: [blue]}", "Principal: {Service: events.amazonaws.com}, Action: 'sns:Publish'", "Principal: {Service: s3.amazonaws.com}, Action: 'sns:Publish'",
		"Principal: {AWS: !Ref AWS::AccountId}, Action: 'sns:Publish'", "Principal: {AWS: !Ref AWS::AccountId}, Action: 'sns:Subscribe'", "RepositoryDescription: r, ", "",
		"      RepositoryPolicyText: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: '*', Action: 'ecr-public:BatchGetImage'}]}\n", "", "Filter: 'team/*'", "Filter: 'other/*'",
	}, changed: func(t *testing.T, w *world, out map[string]string) {
		secrets := awssm.NewFromConfig(w.cfg)
		value := *testkit.Must(secrets.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String(out["Generated"])}))(t).SecretString
		given := testkit.Must(secrets.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String("team/given")}))(t)
		described := testkit.Must(secrets.DescribeSecret(t.Context(), &awssm.DescribeSecretInput{SecretId: aws.String(out["Generated"])}))(t)
		if len(value) != len(`{"user":"admin","password":"012345678901234567890123"}`) || *given.SecretString != "other" || *described.Description != "e" || len(described.Tags) != 2 || *described.RotationRules.AutomaticallyAfterDays != 60 {
			t.Errorf("%s %s %+v", value, *given.SecretString, described)
		}
		topics := awssns.NewFromConfig(w.cfg)
		attributes := testkit.Must(topics.GetTopicAttributes(t.Context(), &awssns.GetTopicAttributesInput{TopicArn: aws.String(out["Topic"])}))(t).Attributes
		subscription := testkit.Must(topics.GetSubscriptionAttributes(t.Context(), &awssns.GetSubscriptionAttributesInput{SubscriptionArn: aws.String(out["Subscription"])}))(t).Attributes
		if attributes["DisplayName"] != "" || attributes["SubscriptionsConfirmed"] != "0" || !strings.Contains(attributes["Policy"], "s3.amazonaws.com") || subscription["RawMessageDelivery"] != "false" || !strings.Contains(subscription["FilterPolicy"], "blue") {
			t.Errorf("%v %v", attributes, subscription)
		}
	}},
	"services": {body: `
Resources:
  Nothing: {Type: AWS::CloudFormation::WaitConditionHandle}
  Waited: {Type: AWS::CloudFormation::WaitCondition, Properties: {Count: 0, Timeout: 1}}
  CDKMetadata: {Type: AWS::CDK::Metadata, Properties: {Analytics: 'v2:deflate64:x'}}
  Key: {Type: AWS::KMS::Key, Properties: {Description: k, EnableKeyRotation: true, RotationPeriodInDays: 100, PendingWindowInDays: 7, KeyPolicy: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {AWS: !Sub 'arn:${AWS::Partition}:iam::${AWS::AccountId}:root'}, Action: 'kms:*', Resource: '*'}]}}}
  Alias: {Type: AWS::KMS::Alias, Properties: {AliasName: alias/mine, TargetKeyId: !Ref Key}}
  P: {Type: AWS::SSM::Parameter, Properties: {Type: StringList, Value: 'a,b', Description: d, Tags: {k: v}}}
  Queue: {Type: AWS::SQS::Queue, Properties: {MessageRetentionPeriod: 300, SqsManagedSseEnabled: true, Tags: [{Key: k, Value: v}]}}
  Other: {Type: AWS::SQS::Queue, Properties: {FifoQueue: true}}
  Policy: {Type: AWS::SQS::QueuePolicy, Properties: {Queues: [!Ref Queue], PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: [events.amazonaws.com]}, Action: 'sqs:SendMessage', Resource: !GetAtt Queue.Arn}]}}}
  Inline: {Type: AWS::SQS::QueueInlinePolicy, Properties: {Queue: !Ref Other, PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: '*', Action: 'sqs:SendMessage', Resource: '*'}]}}}
  Rule: {Type: AWS::Events::Rule, Properties: {EventPattern: {source: [aws.health]}, State: ENABLED, Targets: [{Id: q, Arn: !GetAtt Queue.Arn}], Tags: [{Key: k, Value: v}]}}
  Group: {Type: AWS::Logs::LogGroup, Properties: {RetentionInDays: 7, LogGroupClass: STANDARD, Tags: [{Key: k, Value: v}]}}
  Stream: {Type: AWS::Logs::LogStream, Properties: {LogGroupName: !Ref Group}}
  LogPolicy: {Type: AWS::Logs::ResourcePolicy, Properties: {PolicyName: p, PolicyDocument: '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"logs:PutLogEvents","Resource":"*"}]}'}}
Outputs:
  Key: {Value: !GetAtt Key.Arn}
  Alias: {Value: !Ref Alias}
  Queue: {Value: !Ref Queue}
  Fifo: {Value: !GetAtt Other.QueueName}
  Policy: {Value: !Ref Policy}
  Inline: {Value: !Ref Inline}
  Rule: {Value: !Ref Rule}
  RuleArn: {Value: !GetAtt Rule.Arn}
  Group: {Value: !GetAtt Group.Arn}
  Stream: {Value: !Ref Stream}
  LogPolicy: {Value: !Ref LogPolicy}
`, outputs: map[string]string{
		"Key": "arn:aws:kms:", "Alias": "alias/mine", "Queue": "http", "Fifo": "services-Other-", "Policy": "services-Policy-", "Inline": "http", "Rule": "services-Rule-", "RuleArn": "arn:aws:events:", "Group": "arn:aws:logs:",
		"Stream": "services-Stream-", "LogPolicy": "p",
	}, look: func(t *testing.T, w *world, out map[string]string) {
		if !strings.HasSuffix(out["Group"], ":*") || !strings.HasSuffix(out["Fifo"], ".fifo") {
			t.Errorf("%v", out)
		}
		got := testkit.Must(awssqs.NewFromConfig(w.cfg).GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: aws.String(out["Queue"]), AttributeNames: []sqstypes.QueueAttributeName{"Policy"}}))(t)
		targets := testkit.Must(awsevents.NewFromConfig(w.cfg).ListTargetsByRule(t.Context(), &awsevents.ListTargetsByRuleInput{Rule: aws.String(out["Rule"])}))(t).Targets
		if !strings.Contains(got.Attributes["Policy"], "events.amazonaws.com") || len(targets) != 1 {
			t.Errorf("%v %+v", got.Attributes, targets)
		}
	}, tags: team, changes: []string{
		"Description: k", "Description: l", "Value: 'a,b', Description: d", "Value: 'a,c', Description: e", "MessageRetentionPeriod: 300", "MessageRetentionPeriod: 600", "Principal: '*', Action: 'sqs:SendMessage'", "Principal: '*', Action: 'sqs:*'",
		"RetentionInDays: 7, ", "", "source: [aws.health]", "source: [aws.ec2]", "{Id: q,", "{Id: r,", "logs:PutLogEvents", "logs:*",
	}, changed: func(t *testing.T, w *world, out map[string]string) {
		targets := testkit.Must(awsevents.NewFromConfig(w.cfg).ListTargetsByRule(t.Context(), &awsevents.ListTargetsByRuleInput{Rule: aws.String(out["Rule"])}))(t).Targets
		group := testkit.Must(awslogs.NewFromConfig(w.cfg).DescribeLogGroups(t.Context(), nil))(t).LogGroups[0]
		tags := testkit.Must(awslogs.NewFromConfig(w.cfg).ListTagsForResource(t.Context(), &awslogs.ListTagsForResourceInput{ResourceArn: group.LogGroupArn}))(t).Tags
		if len(targets) != 1 || *targets[0].Id != "r" || group.RetentionInDays != nil || tags["team"] != "a" {
			t.Errorf("%+v %+v %v", targets, group, tags)
		}
	}},
}

// TestTypes creates stacks with every type. Ref and Fn::GetAtt must return what AWS
// documents, and deleting the stacks must leave nothing behind.
func TestTypes(t *testing.T) {
	image, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		t.Fatal("no image")
	}
	for name, tt := range typesTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWide(t)
			before := w.everything(t)
			id := w.create(t, name, tt.body, func(in *awscloudformation.CreateStackInput) {
				if strings.Contains(tt.body, "Parameters:") {
					in.Parameters = []cloudformationtypes.Parameter{{ParameterKey: aws.String("Image"), ParameterValue: &image.ID}}
				}
			})
			out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
			for k, begin := range tt.outputs {
				if !strings.HasPrefix(out[k], begin) || out[k] == "" {
					t.Errorf("%s is %q, want %s…", k, out[k], begin)
				}
			}
			if tt.look != nil {
				tt.look(t, w, out)
			}
			for _, body := range []string{strings.NewReplacer(tt.changes...).Replace(tt.body), tt.body} { // and back
				st, script := w.update(t, id, body, "UPDATE_COMPLETE", func(in *awscloudformation.UpdateStackInput) {
					if body != tt.body {
						in.Tags = tt.tags
					}
					if strings.Contains(tt.body, "Parameters:") {
						in.Parameters = []cloudformationtypes.Parameter{{ParameterKey: aws.String("Image"), UsePreviousValue: aws.Bool(true)}}
					}
				})
				if status, lines := w.drift(t, id); status != "IN_SYNC" {
					t.Errorf("%s after the update:\n%s", status, lines)
				}
				if strings.Contains(script, "Requested update requires") {
					t.Errorf("something is replaced:\n%s", script)
				}
				if tt.changed != nil && body != tt.body {
					tt.changed(t, w, w.outputs(st))
				}
			}
			w.delete(t, id)
			w.want(t, id, "DELETE_COMPLETE")
			after := w.everything(t)
			for id := range after {
				if !before[id] {
					t.Errorf("%s is left", id)
				}
			}
		})
	}
}

// TestEveryTypeIsTested checks that a test creates and deletes each type. The types of EKS
// need clusters: the scripts of test/e2e create some of them.
func TestEveryTypeIsTested(t *testing.T) {
	for _, typ := range cloudformation.Types() {
		tested := strings.HasPrefix(typ, "AWS::EKS::") || ofCustomResources(typ) || strings.Contains(validated+refused, "Type: "+typ+",") || strings.Contains(outer("", "", ""), "Type: "+typ+",")
		for tt := range maps.Values(typesTests) {
			tested = tested || strings.Contains(tt.body, "Type: "+typ+"}") || strings.Contains(tt.body, "Type: "+typ+",") || strings.Contains(tt.body, "Type: "+typ+"\n")
		}
		if !tested {
			t.Errorf("no template of a test has a %s", typ)
		}
	}
}

// TestPageOfTypes checks which properties the page in docs lists for each type. They come
// from the call and the own properties that the handler names.
func TestPageOfTypes(t *testing.T) {
	refused := func(any) ([]string, string) { return []string{"InstanceTenancy", "Placement.HostId"}, "" }
	for _, typ := range cloudformation.TypesSupported(refused) {
		switch typ.Type {
		case "AWS::CloudFormation::WaitConditionHandle", "AWS::CDK::Metadata":
			continue
		case "AWS::EC2::VPC":
			if !slices.Equal(typ.Refused, []string{"InstanceTenancy"}) || !slices.Contains(typ.Handled, "CidrBlock") || !slices.Contains(typ.InPlace, "Tags") {
				t.Errorf("%+v", typ)
			}
		case "AWS::EC2::Instance":
			if !slices.Contains(typ.Refused, "HostId") || !slices.Contains(typ.Handled, "LaunchTemplate") {
				t.Errorf("%+v", typ)
			}
		}
		if len(typ.Handled) == 0 {
			t.Errorf("%s has no properties", typ.Type)
		}
	}
}

// TestDeletionTakesAMoment checks that a stack can be found by its name for a while after
// its resources are gone, because eksctl asks for it.
func TestDeletionTakesAMoment(t *testing.T) {
	w := newWorld(t)
	w.config.Deleting = time.Hour
	cancel, ended := w.run(w.front)
	t.Cleanup(func() { cancel(); <-ended })
	id := w.create(t, "moment", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)
	w.want(t, id, "CREATE_COMPLETE")
	w.delete(t, id)
	testkit.Eventually(t, 10*time.Second, func() error {
		if script := w.script(t, id); !strings.Contains(script, "Q DELETE_COMPLETE") {
			return errors.New(script)
		}
		return nil
	})
	st := testkit.Must(w.DescribeStacks(t.Context(), &awscloudformation.DescribeStacksInput{StackName: aws.String("moment")}))(t).Stacks[0]
	if st.StackStatus != "DELETE_IN_PROGRESS" {
		t.Errorf("%s", st.StackStatus)
	}
}

package ec2

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/keypair"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/placement"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
)

// Authz provides package authz with the stored attributes of EC2's resources and the targets of
// launches.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// keyed returns condition keys from a list KEY, VALUE, … An empty value means that the request does
// not have the key.
func keyed(pairs ...string) map[string][]string {
	out := make(map[string][]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if out[pairs[i]] = nil; pairs[i+1] != "" {
			out[pairs[i]] = []string{pairs[i+1]}
		}
	}
	return out
}

// Resource implements authz.Resolver.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	sc := resource.Scope{Account: account, Region: region}
	find, ok := authzKinds[kind]
	if !ok {
		return authz.Resource{}, false
	}
	return find(r.s, sc, kind, r.s.associated(sc, kind, id))
}

// HoldsPolicies implements authz.PolicyHolder: resources that an AWS service manages have a policy, which binds the root user.
func (resolver) HoldsPolicies() {}

// EndpointPolicy implements authz.EndpointPolicies.
func (r resolver) EndpointPolicy(ctx context.Context, account, region, id string) (document string, ok bool) {
	return r.s.EndpointPolicy(ctx, account, region, id)
}

// EndpointPolicy returns the policy document of a VPC endpoint. It is empty if the endpoint allows
// everything. It returns false if there is no such endpoint.
func (s *Service) EndpointPolicy(_ context.Context, account, region, id string) (document string, ok bool) {
	e, err := record.VPCEndpoints.Get(s.Store, resource.Scope{Account: account, Region: region}.Key(id))
	return e.Policy, err == nil
}

type authzKind func(s *Service, sc resource.Scope, kind, id string) (authz.Resource, bool)

// stored returns a resolver for a kind of resource with these condition keys.
func stored[T any](k resource.Kind[T], keys func(resource.Scope, *T) map[string][]string) authzKind {
	return func(s *Service, sc resource.Scope, kind, id string) (authz.Resource, bool) {
		v, err := k.Get(s.Store, sc.Key(id))
		if err != nil {
			return authz.Resource{}, false
		}
		_, tags := k.Of(&v)
		return authz.Resource{ARN: sc.ARN(kind, id), Tags: *tags, Keys: keys(sc, &v)}, true
	}
}

// noKeys is for kinds without condition keys of their own.
func noKeys[T any](resource.Scope, *T) map[string][]string { return nil }

// authzKinds are the resolvers by resource type, as named in the authorization reference.
var authzKinds = map[string]authzKind{
	"vpc": stored(record.VPCs, func(_ resource.Scope, v *record.VPC) map[string][]string {
		return keyed("ec2:vpcid", v.ID, "ec2:tenancy", v.Tenancy)
	}),
	"subnet": stored(record.Subnets, func(sc resource.Scope, v *record.Subnet) map[string][]string {
		return keyed("ec2:subnetid", v.ID, "ec2:vpc", sc.ARN("vpc", v.VPCID), "ec2:availabilityzone", v.Zone, "ec2:availabilityzoneid", v.ZoneID)
	}),
	"security-group":      authzGroup,
	"security-group-rule": authzRule,
	"network-interface": stored(record.NetworkInterfaces, func(sc resource.Scope, e *record.NetworkInterface) map[string][]string {
		return keyed("ec2:networkinterfaceid", e.ID, "ec2:subnet", sc.ARN("subnet", e.SubnetID), "ec2:vpc", sc.ARN("vpc", e.VPCID),
			"ec2:availabilityzone", e.Zone, "ec2:managedresourceoperator", e.RequesterID, "ec2:authorizedservice", "", "ec2:authorizeduser", "", "ec2:permission", "")
	}),
	"instance": operated(record.Instances, func(sc resource.Scope, v *record.Instance) map[string][]string {
		profile := ""
		if v.Profile != nil {
			profile = v.Profile.ARN
		}
		return keyed("ec2:instanceid", v.ID, "ec2:instancetype", v.Type, "ec2:instanceprofile", profile,
			"ec2:availabilityzone", v.Zone, "ec2:availabilityzoneid", v.ZoneID, "ec2:rootdevicetype", "ebs",
			"ec2:metadatahttptokens", v.Tokens, "ec2:managedresourceoperator", v.Operator)
	}),
	"key-pair":        authzKeyPair,
	"launch-template": authzTemplate,
	"route-table": stored(record.RouteTables, func(sc resource.Scope, t *record.RouteTable) map[string][]string {
		return keyed("ec2:routetableid", t.ID, "ec2:vpc", sc.ARN("vpc", t.VPCID))
	}),
	"internet-gateway": stored(record.InternetGateways, func(_ resource.Scope, v *record.InternetGateway) map[string][]string {
		return keyed("ec2:internetgatewayid", v.ID)
	}),
	"network-acl": stored(record.NetworkACLs, func(sc resource.Scope, v *record.NetworkACL) map[string][]string {
		return keyed("ec2:networkaclid", v.ID, "ec2:vpc", sc.ARN("vpc", v.VPCID))
	}),
	"dhcp-options": stored(record.DHCPOptionSets, func(_ resource.Scope, v *record.DHCPOptions) map[string][]string {
		return keyed("ec2:dhcpoptionsid", v.ID)
	}),
	"elastic-ip": stored(record.Addresses, func(_ resource.Scope, v *record.Address) map[string][]string {
		return keyed("ec2:allocationid", v.ID, "ec2:domain", "vpc", "ec2:publicipaddress", v.PublicIP)
	}),
	"vpc-peering-connection": stored(record.Peerings, func(_ resource.Scope, v *record.Peering) map[string][]string {
		return keyed("ec2:vpcpeeringconnectionid", v.ID, "ec2:requestervpc", vpcARN(v.Requester), "ec2:acceptervpc", vpcARN(v.Accepter))
	}),
	"placement-group":              authzPlacement,
	"volume":                       stored(storage.Volumes, func(_ resource.Scope, v *storage.Volume) map[string][]string { return keyed("ec2:volumeid", v.ID) }),
	"natgateway":                   stored(record.NATGateways, noKeys),
	"egress-only-internet-gateway": stored(record.EgressGateways, noKeys),
	"transit-gateway": stored(record.TransitGateways, func(_ resource.Scope, g *record.TransitGateway) map[string][]string {
		return keyed("ec2:transitgatewayid", g.ID)
	}),
	"transit-gateway-attachment": stored(record.TransitAttachments, func(_ resource.Scope, a *record.TransitAttachment) map[string][]string {
		return keyed("ec2:transitgatewayattachmentid", a.ID, "ec2:transitgatewayid", a.GatewayID)
	}),
	"transit-gateway-route-table": stored(record.TransitRouteTables, func(_ resource.Scope, t *record.TransitRouteTable) map[string][]string {
		return keyed("ec2:transitgatewayroutetableid", t.ID, "ec2:transitgatewayid", t.GatewayID)
	}),
	"vpn-gateway":      stored(record.VPNGateways, noKeys),
	"customer-gateway": stored(record.CustomerGateways, noKeys),
	"vpn-connection":   stored(record.VPNConnections, noKeys),
	"vpc-endpoint": stored(record.VPCEndpoints, func(sc resource.Scope, v *record.VPCEndpoint) map[string][]string {
		return keyed("ec2:vpceservicename", v.ServiceName, "ec2:vpceserviceowner", serviceOwner, "ec2:vpceserviceregion", sc.Region)
	}),
	"instance-connect-endpoint": stored(record.ConnectEndpoints, noKeys),
	"prefix-list":               stored(record.PrefixLists, noKeys),
	"vpc-flow-log":              stored(record.FlowLogs, noKeys),
	"image":                     authzImage,
	"snapshot":                  authzSnapshot,
	"replace-root-volume-task":  stored(instance.RootTasks, noKeys),
}

// serviceOwner is ec2:VpceServiceOwner of the services that AWS offers, and there are no others.
const serviceOwner = "amazon"

func vpcARN(side record.PeeringSide) string {
	return resource.Scope{Account: side.Account, Region: side.Region}.ARN("vpc", side.VPCID)
}

// authzPlacement resolves a placement group by its ID or name.
func authzPlacement(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	g, ok := placement.Find(s.Store, sc, id)
	if !ok {
		return authz.Resource{}, false
	}
	return authz.Resource{
		ARN: g.ARN(sc), Tags: g.Tags,
		Keys: keyed("ec2:placementgroupname", g.Name, "ec2:placementgroupstrategy", g.Strategy),
	}, true
}

func authzGroup(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	ref, name := aws.String(id), (*string)(nil)
	if !strings.HasPrefix(id, "sg-") {
		ref, name = nil, ref
	}
	g, err := firewall.FindGroup(s.Store, sc, ref, name)
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{
		ARN: sc.ARN("security-group", g.ID), Tags: g.Tags,
		Keys: keyed("ec2:securitygroupid", g.ID, "ec2:vpc", sc.ARN("vpc", g.VPCID)),
	}, true
}

func authzRule(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	found := resource.List(s.Store, record.SecurityGroups, sc, func(g record.SecurityGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id })
	})
	if len(found) == 0 {
		return authz.Resource{}, false
	}
	i := slices.IndexFunc(found[0].Rules, func(r record.SecurityGroupRule) bool { return r.ID == id })
	return authz.Resource{ARN: sc.ARN("security-group-rule", id), Tags: found[0].Rules[i].Tags}, true
}

func authzKeyPair(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	k, err := keypair.KeyPairs.Get(s.Store, keypair.Key(sc, id))
	if resource.NotFound(err) && strings.HasPrefix(id, "key-") {
		for _, k = range resource.List(s.Store, keypair.KeyPairs, sc, func(k keypair.KeyPair) bool { return k.ID == id }) {
			err = nil
		}
	}
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{
		ARN: sc.ARN("key-pair", k.Name), Tags: k.Tags, Keys: keyed("ec2:keypairname", k.Name, "ec2:keypairtype", k.Type),
	}, true
}

// authzTemplate resolves a launch template by its ID or name.
func authzTemplate(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	ref, name := aws.String(id), (*string)(nil)
	if !strings.HasPrefix(id, "lt-") {
		ref, name = nil, ref
	}
	t, err := launchtemplate.Find(s.Store, sc, ref, name)
	if err != nil {
		return authz.Resource{}, false
	}
	out := authz.Resource{ARN: sc.ARN("launch-template", t.ID), Tags: t.Tags, Keys: keyed("ec2:managedresourceoperator", t.Operator)}
	if t.Operator != "" {
		out.Policy = &operatorPolicy
	}
	return out, true
}

// operated is stored for resources that AWS services may manage for users.
func operated[T any](k resource.Kind[T], keys func(resource.Scope, *T) map[string][]string) authzKind {
	find := stored(k, keys)
	return func(s *Service, sc resource.Scope, kind, id string) (authz.Resource, bool) {
		out, ok := find(s, sc, kind, id)
		if ok && out.Keys["ec2:managedresourceoperator"] != nil {
			out.Policy = &operatorPolicy
		}
		return out, ok
	}
}

// operatorPolicy is the policy of resources that an AWS service manages: users may look at them and tag them, and only
// the service may change them, under its service-linked role, which no policy binds, or in a role's session of its own: EKS
// attaches volumes as the cluster role.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/amazon-ec2-managed-instances.html
// [seen] aws/eks-node-monitoring-agent#151: "explicitly denied ec2:TerminateInstances via a resource-based policy"
var operatorPolicy = policy.Source{Name: "policy of the resource's operator", Document: &policy.Document{Statements: []policy.Statement{
	{Principals: &policy.Principals{All: true}, Deny: true, Resources: []string{"*"}, NotActions: []string{"ec2:Describe*", "ec2:Get*", "ec2:CreateTags", "ec2:DeleteTags", "ec2:RunInstances", "ec2:CreateFleet"},
		Conditions: []policy.Condition{{Operator: "StringNotEquals", Key: "drydock:InvokedBy", Values: []string{"eks.amazonaws.com"}}}},
}}}

// authzImage resolves an image. The ARNs of images and snapshots have no account.
func authzImage(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	img, public, tags, ok := s.ImageOf(sc, id)
	if !ok {
		return authz.Resource{}, false
	}
	owner := img.OwnerAlias
	if owner == "" {
		owner = img.OwnerID
	}
	return authz.Resource{
		ARN: "arn:" + awsapi.Partition + ":ec2:" + sc.Region + "::image/" + img.ID, Tags: tags,
		Keys: keyed("ec2:imageid", img.ID, "ec2:imagetype", "machine", "ec2:owner", owner, "ec2:public", strconv.FormatBool(public), "ec2:rootdevicetype", "ebs"),
	}, true
}

func authzSnapshot(s *Service, sc resource.Scope, _, id string) (authz.Resource, bool) {
	v, owner, err := storage.FindSnapshot(s.Store, sc, id)
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{
		ARN: "arn:" + awsapi.Partition + ":ec2:" + sc.Region + "::snapshot/" + id, Tags: v.Tags,
		Keys: keyed("ec2:snapshotid", id, "ec2:owner", owner, "ec2:parentvolume", sc.ARN("volume", v.VolumeID), "ec2:volumesize", itoa(&v.SizeGiB),
			"ec2:snapshottime", v.Started.Format(time.RFC3339), "ec2:encrypted", strconv.FormatBool(v.Encrypted)),
	}, true
}

// Targets implements authz.Targeter for launches, key pairs and tags.
func (r resolver) Targets(ctx context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	sc := resource.Scope{Account: call.Account, Region: call.Region}
	switch in := in.(type) {
	case *awsec2.RequestSpotInstancesInput:
		return r.s.spotTargets(ctx, sc, in), true
	case *awsec2.RunInstancesInput:
		return r.s.launchTargets(ctx, sc, in), true
	case *awsec2.CreateFleetInput:
		return r.s.fleetTargets(ctx, sc, in), true
	case *awsec2.ModifyFleetInput:
		return append([]authz.Target{{Type: "fleet", ID: aws.ToString(in.FleetId)}}, append(configTargets(in.LaunchTemplateConfigs), r.s.profileTargets(ctx, sc, in.LaunchTemplateConfigs)...)...), true
	case *awsec2.DeleteKeyPairInput:
		return r.s.keyPairTargets(sc, in), true
	case *awsec2.CreateTagsInput:
		return tagTargets(in.Resources, in.Tags), true
	case *awsec2.DeleteTagsInput:
		return tagTargets(in.Resources, in.Tags), true
	}
	return nil, false
}

// authzPrefixes are the resource types whose ID prefix is not the type's name, by prefix.
var authzPrefixes = map[string]string{
	"i": "instance", "vol": "volume", "sg": "security-group", "sgr": "security-group-rule", "eni": "network-interface",
	"igw": "internet-gateway", "rtb": "route-table", "acl": "network-acl", "dopt": "dhcp-options", "lt": "launch-template",
	"key": "key-pair", "eipalloc": "elastic-ip", "nat": "natgateway", "eigw": "egress-only-internet-gateway",
	"pcx": "vpc-peering-connection", "vpce": "vpc-endpoint", "eice": "instance-connect-endpoint", "pl": "prefix-list",
	"tgw": "transit-gateway", "tgw-attach": "transit-gateway-attachment", "tgw-rtb": "transit-gateway-route-table",
	"vgw": "vpn-gateway", "cgw": "customer-gateway", "vpn": "vpn-connection",
	"fl": "vpc-flow-log", "replacevol": "replace-root-volume-task", "ami": "image", "snap": "snapshot", "pg": "placement-group", "sir": "spot-instances-request",
}

// tagTargets are the resources whose tags a request changes.
func tagTargets(ids []string, tags []ec2types.Tag) []authz.Target {
	given, keys := tagPairs(tags)
	out := make([]authz.Target, 0, len(ids))
	for _, id := range resource.SortedUnique(ids) {
		prefix := resource.PrefixOf(id)
		kind, ok := authzPrefixes[prefix]
		if !ok {
			kind = prefix // vpc, subnet, fleet
		}
		out = append(out, authz.Target{Type: kind, ID: id, Tags: given, TagKeys: keys, Keys: keyed("ec2:createaction", "")})
	}
	return out
}

func tagPairs(tags []ec2types.Tag) (map[string]string, []string) {
	given := make(map[string]string, len(tags))
	keys := make([]string, 0, len(tags))
	for _, t := range tags {
		given[aws.ToString(t.Key)] = aws.ToString(t.Value)
		keys = append(keys, aws.ToString(t.Key))
	}
	return given, keys
}

func itoa[T int32 | int64](n *T) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

const sourceProfile = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permission-to-pass-iam-roles.html"

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		// EC2 only checks those of these resources that a request names.
		"CreateRoute":                       {Resources: "route-table=RouteTableId", Source: "SAR"},
		"DeleteRoute":                       {Resources: "route-table=RouteTableId", Source: "SAR"},
		"AssociateRouteTable":               {Resources: "route-table=RouteTableId subnet?=SubnetId internet-gateway?=GatewayId", Source: "SAR"},
		"EnableVgwRoutePropagation":         {Resources: "route-table=RouteTableId vpn-gateway=GatewayId", Source: "SAR"},
		"DisableVgwRoutePropagation":        {Resources: "route-table=RouteTableId vpn-gateway=GatewayId", Source: "SAR"},
		"DisassociateRouteTable":            {Resources: "route-table=AssociationId", Source: "SAR: the table of the association"},
		"DisassociateVpcCidrBlock":          {Resources: "vpc=AssociationId", Source: "SAR: the VPC of the association"},
		"DisassociateSubnetCidrBlock":       {Resources: "subnet=AssociationId", Source: "SAR: the subnet of the association"},
		"ReplaceNetworkAclAssociation":      {Resources: "network-acl=NetworkAclId subnet=AssociationId", Source: "SAR: the new list, the subnet of the association"},
		"AcceptVpcPeeringConnection":        {Resources: "vpc-peering-connection=VpcPeeringConnectionId vpc=VpcPeeringConnectionId", Source: "SAR: the accepter's VPC"},
		"AssociateAddress":                  {Resources: "elastic-ip?=AllocationId|PublicIp instance?=InstanceId network-interface?=NetworkInterfaceId", Source: "SAR"},
		"DisassociateAddress":               {Resources: "elastic-ip?=AssociationId|PublicIp network-interface?=AssociationId|PublicIp", Source: "SAR: those of the association"},
		"ReleaseAddress":                    {Resources: "elastic-ip?=AllocationId|PublicIp", Source: "SAR"},
		"DeleteFlowLogs":                    {Resources: "vpc-flow-log=FlowLogIds", Source: "SAR"},
		"ModifySecurityGroupRules":          {Resources: "security-group=GroupId security-group-rule=SecurityGroupRules.SecurityGroupRuleId", Source: "SAR"},
		"ModifyInstanceAttribute":           {Resources: "instance=InstanceId security-group?=Groups volume?=BlockDeviceMappings.Ebs.VolumeId", Source: "SAR"},
		"ModifyNetworkInterfaceAttribute":   {Resources: "network-interface=NetworkInterfaceId security-group?=Groups instance?=Attachment.AttachmentId", Source: "SAR"},
		"ModifyInstanceCreditSpecification": {Resources: "instance=InstanceCreditSpecifications.InstanceId", Source: "SAR"},
		"CreateVpcEndpoint":                 {Resources: "vpc=VpcId vpc-endpoint= route-table?=RouteTableIds security-group?=SecurityGroupIds subnet?=SubnetIds subnet?=SubnetConfigurations.SubnetId", Source: "SAR: the endpoint has no ID yet"},
		"ModifyVpcEndpoint": {Resources: "vpc-endpoint=VpcEndpointId route-table?=AddRouteTableIds route-table?=RemoveRouteTableIds subnet?=AddSubnetIds subnet?=RemoveSubnetIds " +
			"subnet?=SubnetConfigurations.SubnetId security-group?=AddSecurityGroupIds security-group?=RemoveSecurityGroupIds", Source: "SAR"},
		"ReplaceIamInstanceProfileAssociation": {Resources: "instance=AssociationId", Source: "SAR: the instance of the association"},
		"DisassociateIamInstanceProfile":       {Resources: "instance=AssociationId", Source: "SAR, as above"},
		"DetachNetworkInterface":               {Resources: "network-interface=AttachmentId instance?=AttachmentId", Source: "SAR: those of the attachment"},
		"AuthorizeSecurityGroupIngress":        {Resources: "security-group=GroupId|GroupName", Source: "SAR"},
		"AuthorizeSecurityGroupEgress":         {Resources: "security-group=GroupId", Source: "SAR"},
		"RevokeSecurityGroupIngress":           {Resources: "security-group=GroupId|GroupName", Source: "SAR"},
		"RevokeSecurityGroupEgress":            {Resources: "security-group=GroupId", Source: "SAR"},
		"CreateNetworkInterface":               {Resources: "network-interface= subnet=SubnetId security-group?=Groups", Source: "SAR"},
		"AttachNetworkInterface":               {Resources: "instance=InstanceId network-interface=NetworkInterfaceId", Source: "SAR"},
		"CreateSecurityGroup":                  {Resources: "security-group= vpc?=VpcId", Source: "SAR: the group has no ID yet"},
		"CreateLaunchTemplate":                 {Resources: "launch-template=", Source: "SAR: the template has no ID yet"},
		"RegisterImage":                        {Resources: "image= snapshot?=BlockDeviceMappings.Ebs.SnapshotId", Source: "SAR: the image has no ID yet"},
		"CreateKeyPair":                        {Resources: "key-pair=KeyName", Source: "SAR"},
		"ImportKeyPair":                        {Resources: "key-pair=KeyName", Source: "SAR"},
	},
	Members: map[string]string{
		"FleetId":                "FleetId FleetIds",
		"KeyPairName":            "KeyName KeyNames",
		"LaunchTemplateId":       "LaunchTemplateId LaunchTemplateName",
		"NaclId":                 "NetworkAclId NetworkAclIds",
		"PlacementGroupName":     "GroupName",
		"SecurityGroupId":        "GroupId GroupName GroupIds",
		"SecurityGroupRuleId":    "SecurityGroupRuleIds",
		"VpcEndpointId":          "VpcEndpointId VpcEndpointIds",
		"VpcPeeringConnectionId": "VpcPeeringConnectionId VpcPeeringConnectionIds",
	},
	PassedRoles: map[string][]awsapi.PassedRole{
		"AssociateIamInstanceProfile":          {{Member: "IamInstanceProfile.Arn", Profile: true, Source: sourceProfile}, {Member: "IamInstanceProfile.Name", Profile: true, Source: sourceProfile}},
		"ReplaceIamInstanceProfileAssociation": {{Member: "IamInstanceProfile.Arn", Profile: true, Source: sourceProfile}, {Member: "IamInstanceProfile.Name", Profile: true, Source: sourceProfile}},
		// https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
		"CreateFlowLogs": {
			{Member: "DeliverLogsPermissionArn", Service: "vpc-flow-logs.amazonaws.com", Source: "SAR: dependent action"},
			{Member: "DeliverCrossAccountRole", Service: "vpc-flow-logs.amazonaws.com", Source: "SAR: dependent action"},
		},
	},
	Tagging: awsapi.Tagging{Action: "CreateTags", CreateAction: true, Source: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html"},
	KeyMembers: map[string]string{
		// Only keys that the request alone determines.
		"add/group":                  "CreateVolumePermission.Add.Group",
		"add/userid":                 "CreateVolumePermission.Add.UserId",
		"remove/group":               "CreateVolumePermission.Remove.Group",
		"remove/userid":              "CreateVolumePermission.Remove.UserId",
		"placementgroupname":         "GroupName",
		"placementgroupstrategy":     "Strategy",
		"dpdtimeoutseconds":          "Options.TunnelOptions.DPDTimeoutSeconds",
		"ikeversions":                "Options.TunnelOptions.IKEVersions.Value",
		"insidetunnelcidr":           "Options.TunnelOptions.TunnelInsideCidr",
		"insidetunnelipv6cidr":       "Options.TunnelOptions.TunnelInsideIpv6Cidr",
		"phase1dhgroup":              "Options.TunnelOptions.Phase1DHGroupNumbers.Value",
		"phase1encryptionalgorithms": "Options.TunnelOptions.Phase1EncryptionAlgorithms.Value",
		"phase1integrityalgorithms":  "Options.TunnelOptions.Phase1IntegrityAlgorithms.Value",
		"phase1lifetimeseconds":      "Options.TunnelOptions.Phase1LifetimeSeconds",
		"phase2dhgroup":              "Options.TunnelOptions.Phase2DHGroupNumbers.Value",
		"phase2encryptionalgorithms": "Options.TunnelOptions.Phase2EncryptionAlgorithms.Value",
		"phase2integrityalgorithms":  "Options.TunnelOptions.Phase2IntegrityAlgorithms.Value",
		"phase2lifetimeseconds":      "Options.TunnelOptions.Phase2LifetimeSeconds",
		"rekeyfuzzpercentage":        "Options.TunnelOptions.RekeyFuzzPercentage",
		"rekeymargintimeseconds":     "Options.TunnelOptions.RekeyMarginTimeSeconds",
		"replaywindowsizepackets":    "Options.TunnelOptions.ReplayWindowSize",
		"tenancy":                    "InstanceTenancy",
		"vpceservicename":            "ServiceName",
		"vpceserviceregion":          "ServiceRegion",
	},
	StoredKeys: `acceptervpc allocationid associatepublicipaddress attribute attribute/${attributename} authorizedservice authorizeduser availabilityzone availabilityzoneid
		cpuoptionsamdsevsnp createaction dhcpoptionsid domain ebsoptimized encrypted imageid imagetype
		instanceautorecovery instancebandwidthweighting instanceid instancemarkettype instancemetadatatags
		instanceprofile instancetype internetgatewayid islaunchtemplateresource keypairname keypairtype kmskeyid
		launchtemplate managedresourceoperator metadatahttpendpoint metadatahttpputresponsehoplimit metadatahttptokens
		networkaclid networkinterfaceid newinstanceprofile owner parentsnapshot parentvolume permission placementgroup placementgroupname placementgroupstrategy
		productcode public publicipaddress region requestervpc roledelivery rootdevicetype routetableid securitygroupid snapshotid
		snapshottime sourceinstancearn subnet subnetid tenancy
		transitgatewayattachmentid transitgatewayid transitgatewayroutetableid volumeid volumeinitializationrate
		volumeiops volumesize volumethroughput volumetype vpc vpceservicename vpceserviceowner vpceserviceregion vpcid vpcpeeringconnectionid`,
	AbsentKeys: "capacityreservationfleet elasticgputype ipamprefixlistresolvertargetid ipv4ipampoolid ipv6ipampoolid outpostarn sourceoutpostarn vpcemultiregion vpceprivatednspreference vpceprivatednsspecifieddomains",
}

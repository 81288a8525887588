package app

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
)

// The calls that Terraform's VPC and EKS modules, Karpenter, the AWS CLI in walkthroughs and cluster-autoscaler make
// to the services that machines and networks need are handled, or refused with a reason in docs/compatibility.md.
func TestClientsOperations(t *testing.T) {
	table, err := server.Compatibility(operations())
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]server.OperationCompatibility{}
	for _, s := range table {
		for _, op := range s.Operations {
			known[s.Name+":"+op.Name] = op
		}
	}
	for _, tt := range []struct{ client, service, operations string }{
		{"Terraform aws_vpc", "ec2", `CreateVpc DescribeVpcs DescribeVpcAttribute ModifyVpcAttribute DescribeNetworkAcls DescribeRouteTables
			DescribeSecurityGroups DeleteVpc AssociateVpcCidrBlock DisassociateVpcCidrBlock`},
		{"Terraform aws_subnet", "ec2", "CreateSubnet DescribeSubnets ModifySubnetAttribute DescribeNetworkInterfaces DeleteSubnet AssociateSubnetCidrBlock DisassociateSubnetCidrBlock"},
		{"Terraform aws_internet_gateway", "ec2", "CreateInternetGateway AttachInternetGateway DescribeInternetGateways DetachInternetGateway DeleteInternetGateway"},
		{"Terraform aws_egress_only_internet_gateway", "ec2", "CreateEgressOnlyInternetGateway DescribeEgressOnlyInternetGateways DeleteEgressOnlyInternetGateway"},
		{"Terraform aws_eip", "ec2", "AllocateAddress DescribeAddresses DescribeAddressesAttribute AssociateAddress DisassociateAddress ReleaseAddress"},
		{"Terraform aws_nat_gateway", "ec2", "CreateNatGateway DescribeNatGateways DeleteNatGateway"},
		{"Terraform aws_route_table", "ec2", `CreateRouteTable DescribeRouteTables CreateRoute ReplaceRoute DeleteRoute AssociateRouteTable
			DisassociateRouteTable ReplaceRouteTableAssociation DeleteRouteTable`},
		{"Terraform default resources", "ec2", `AuthorizeSecurityGroupIngress AuthorizeSecurityGroupEgress RevokeSecurityGroupIngress RevokeSecurityGroupEgress
			CreateNetworkAclEntry DeleteNetworkAclEntry ReplaceNetworkAclAssociation CreateTags`},
		{"Terraform aws_network_acl", "ec2", "CreateNetworkAcl DeleteNetworkAcl ReplaceNetworkAclEntry"},
		{"Terraform aws_security_group", "ec2", `CreateSecurityGroup DescribeSecurityGroupRules DeleteSecurityGroup ModifySecurityGroupRules
			UpdateSecurityGroupRuleDescriptionsIngress UpdateSecurityGroupRuleDescriptionsEgress`},
		{"Terraform aws_ec2_tag", "ec2", "CreateTags DescribeTags DeleteTags"},
		{"Terraform aws_vpc_endpoint", "ec2", "CreateVpcEndpoint DescribeVpcEndpoints DescribePrefixLists ModifyVpcEndpoint DeleteVpcEndpoints DescribeVpcEndpointServices"},
		{"Terraform aws_ec2_instance_connect_endpoint", "ec2", "CreateInstanceConnectEndpoint DescribeInstanceConnectEndpoints DeleteInstanceConnectEndpoint"},
		{"Terraform aws_vpc_dhcp_options", "ec2", "CreateDhcpOptions AssociateDhcpOptions DescribeDhcpOptions DeleteDhcpOptions"},
		{"Terraform aws_flow_log", "ec2", "CreateFlowLogs DescribeFlowLogs DeleteFlowLogs"},
		{"Terraform aws_launch_template", "ec2", `CreateLaunchTemplate DescribeLaunchTemplates DescribeLaunchTemplateVersions CreateLaunchTemplateVersion
			ModifyLaunchTemplate DeleteLaunchTemplate`},
		{"Terraform data sources", "ec2", "DescribeSubnets DescribeImages DescribeAvailabilityZones DescribeInstanceTypes DescribeInstanceTypeOfferings DescribeRegions DescribeAccountAttributes"},
		{"Terraform aws_instance", "ec2", `RunInstances DescribeInstances DescribeInstanceAttribute DescribeVolumes DescribeInstanceCreditSpecifications
			DescribeIamInstanceProfileAssociations ModifyInstanceAttribute ModifyInstanceMetadataOptions MonitorInstances UnmonitorInstances
			StopInstances StartInstances TerminateInstances ModifyInstanceCreditSpecification AssociateIamInstanceProfile
			ReplaceIamInstanceProfileAssociation DisassociateIamInstanceProfile`},
		{"Terraform aws_autoscaling_group", "autoscaling", `CreateAutoScalingGroup DescribeAutoScalingGroups UpdateAutoScalingGroup DeleteAutoScalingGroup
			DescribeScalingActivities CreateOrUpdateTags DeleteTags EnableMetricsCollection DisableMetricsCollection StartInstanceRefresh CancelInstanceRefresh
			DescribeInstanceRefreshes SuspendProcesses ResumeProcesses SetInstanceProtection PutLifecycleHook DeleteLifecycleHook`},
		{"Terraform aws_autoscaling_schedule", "autoscaling", "PutScheduledUpdateGroupAction DescribeScheduledActions DeleteScheduledAction"},
		{"Terraform aws_launch_configuration", "autoscaling", "CreateLaunchConfiguration DescribeLaunchConfigurations DeleteLaunchConfiguration"},
		{"Terraform data aws_ssm_parameter", "ssm", "GetParameter"},

		{"Karpenter", "ec2", `DescribeInstanceTypes DescribeInstanceTypeOfferings DescribeSpotPriceHistory DescribeSubnets DescribeSecurityGroups DescribeImages
			DescribeCapacityReservations DescribePlacementGroups DescribeLaunchTemplates CreateLaunchTemplate DeleteLaunchTemplate CreateFleet RunInstances
			DescribeInstances TerminateInstances CreateTags DescribeInstanceStatus DescribeAvailabilityZones`},
		{"Karpenter", "pricing", "GetProducts"},
		{"AWS Load Balancer Controller", "wafv2", "GetWebACLForResource"},
		{"AWS Load Balancer Controller", "waf-regional", "GetWebACLForResource"},
		{"AWS Load Balancer Controller", "shield", "GetSubscriptionState"},
		{"Karpenter", "ssm", "GetParameter"},

		{"AWS CLI and CloudFormation", "ec2", `CreateVpcPeeringConnection AcceptVpcPeeringConnection DescribeVpcPeeringConnections DeleteVpcPeeringConnection
			ModifyVpcPeeringConnectionOptions CreateKeyPair ImportKeyPair DescribeKeyPairs DeleteKeyPair StartInstances StopInstances RebootInstances
			GetConsoleOutput CreateNetworkInterface DeleteNetworkInterface AttachNetworkInterface DetachNetworkInterface ModifyNetworkInterfaceAttribute
			AssignPrivateIpAddresses UnassignPrivateIpAddresses GetSecurityGroupsForVpc DescribeSecurityGroupReferences
			CreateVolume AttachVolume DetachVolume DeleteVolume ModifyVolume CreateSnapshot DeleteSnapshot DescribeSnapshots
			CreateNetworkInsightsPath StartNetworkInsightsAnalysis DescribeNetworkInsightsAnalyses`},
		{"AWS CLI", "ssm", "StartSession TerminateSession ResumeSession DescribeInstanceInformation DescribeSessions GetParameters GetParametersByPath"},

		{"cluster-autoscaler", "autoscaling", `DescribeAutoScalingGroups DescribeScalingActivities DescribeLaunchConfigurations SetDesiredCapacity
			TerminateInstanceInAutoScalingGroup DescribeTags`},
		{"cluster-autoscaler", "ec2", "DescribeLaunchTemplateVersions DescribeImages DescribeInstanceTypes GetInstanceTypesFromInstanceRequirements"},
	} {
		for _, name := range strings.Fields(tt.operations) {
			switch op, ok := known[tt.service+":"+name]; {
			case !ok:
				t.Errorf("%s: AWS has no %s %s", tt.client, tt.service, name)
			case op.State == server.None && op.Why == "":
				t.Errorf("%s uses %s %s, which is neither handled nor refused with a reason", tt.client, tt.service, name)
			}
		}
	}
}

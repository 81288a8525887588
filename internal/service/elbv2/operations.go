package elbv2

import "github.com/drydock-dev/drydock/internal/awsapi"

const (
	paged       = " Marker PageSize"
	healthCheck = ` HealthCheckEnabled HealthCheckIntervalSeconds HealthCheckPath HealthCheckPort HealthCheckProtocol HealthCheckTimeoutSeconds
		HealthyThresholdCount Matcher UnhealthyThresholdCount`
	mappings = " SubnetMappings.AllocationId SubnetMappings.PrivateIPv4Address SubnetMappings.SubnetId Subnets"
	// Actions of all kinds are stored; transforms are not supported.
	secure = " AlpnPolicy Certificates.CertificateArn DefaultActions MutualAuthentication.Mode MutualAuthentication.IgnoreClientCertificateExpiry Port Protocol SslPolicy"
)

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "elasticloadbalancingv2", Handler: s, Authorization: authorization, Constraints: constraints, Refused: refusals(), Operations: []awsapi.Operation{
		// Load balancers.
		{Name: "CreateLoadBalancer", Members: "IpAddressType Name Scheme SecurityGroups Tags Type" + mappings,
			Except: "Type gateway, IpAddressType other than ipv4"},
		{Name: "DescribeLoadBalancers", Members: "LoadBalancerArns Names" + paged, Settled: awsapi.SettledWhen(settledLoadBalancers)},
		{Name: "DeleteLoadBalancer", Members: "LoadBalancerArn"},
		{Name: "DescribeLoadBalancerAttributes", Members: "LoadBalancerArn"},
		{Name: "ModifyLoadBalancerAttributes", Members: "Attributes LoadBalancerArn"},
		{Name: "DescribeCapacityReservation", Members: "LoadBalancerArn"},
		{Name: "SetSecurityGroups", Members: "EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic LoadBalancerArn SecurityGroups"},
		{Name: "SetSubnets", Members: "IpAddressType LoadBalancerArn" + mappings, Except: "IpAddressType other than ipv4"},
		{Name: "SetIpAddressType", Members: "IpAddressType LoadBalancerArn", Except: "IpAddressType other than ipv4"},
		// Target groups.
		{Name: "CreateTargetGroup", Members: "IpAddressType Name Port Protocol ProtocolVersion Tags TargetType VpcId" + healthCheck,
			Except: "TargetType lambda, Protocol GENEVE and QUIC, IpAddressType other than ipv4"},
		{Name: "DescribeTargetGroups", Members: "LoadBalancerArn Names TargetGroupArns" + paged},
		{Name: "ModifyTargetGroup", Members: "TargetGroupArn" + healthCheck},
		{Name: "DeleteTargetGroup", Members: "TargetGroupArn"},
		{Name: "DescribeTargetGroupAttributes", Members: "TargetGroupArn"},
		{Name: "ModifyTargetGroupAttributes", Members: "Attributes TargetGroupArn"},
		{Name: "RegisterTargets", Members: "TargetGroupArn Targets.AvailabilityZone Targets.Id Targets.Port"},
		{Name: "DeregisterTargets", Members: "TargetGroupArn Targets.AvailabilityZone Targets.Id Targets.Port"},
		{Name: "DescribeTargetHealth", Members: "TargetGroupArn Targets.AvailabilityZone Targets.Id Targets.Port", Settled: awsapi.SettledWhen(settledHealth)},
		// Listeners and rules.
		{Name: "CreateListener", Members: "LoadBalancerArn Tags" + secure},
		{Name: "DescribeListeners", Members: "ListenerArns LoadBalancerArn" + paged},
		{Name: "ModifyListener", Members: "ListenerArn" + secure},
		{Name: "DeleteListener", Members: "ListenerArn"},
		{Name: "DescribeListenerAttributes", Members: "ListenerArn"},
		{Name: "ModifyListenerAttributes", Members: "Attributes ListenerArn"},
		{Name: "AddListenerCertificates", Members: "Certificates.CertificateArn ListenerArn"},
		{Name: "RemoveListenerCertificates", Members: "Certificates.CertificateArn ListenerArn"},
		{Name: "DescribeListenerCertificates", Members: "ListenerArn" + paged},
		{Name: "CreateRule", Members: "Actions Conditions ListenerArn Priority Tags"},
		{Name: "DescribeRules", Members: "ListenerArn RuleArns" + paged},
		{Name: "ModifyRule", Members: "Actions Conditions RuleArn"},
		{Name: "DeleteRule", Members: "RuleArn"},
		{Name: "SetRulePriorities", Members: "RulePriorities"},
		// Tags.
		{Name: "AddTags", Members: "ResourceArns Tags"},
		{Name: "RemoveTags", Members: "ResourceArns TagKeys"},
		{Name: "DescribeTags", Members: "ResourceArns"},
	}}
}

func refusals() []awsapi.Refusal {
	return []awsapi.Refusal{
		{Operations: `CreateTrustStore DeleteTrustStore ModifyTrustStore DescribeTrustStores DescribeTrustStoreAssociations DescribeTrustStoreRevocations
			AddTrustStoreRevocations RemoveTrustStoreRevocations GetTrustStoreCaCertificatesBundle GetTrustStoreRevocationContent DeleteSharedTrustStoreAssociation`,
			Why: "client certificates are passed through and not checked against a trust store"},
		{Operations: "ModifyCapacityReservation", Why: "load balancers here have no capacity of their own that could be reserved"},
		{Operations: "DescribeSSLPolicies", Why: "policies are only names; listeners accept the names that AWS has"},
		{Operations: "DescribeAccountLimits", Why: "quotas of load balancers cannot be changed"},
		{Operations: "GetResourcePolicy ModifyIpPools", Why: "resources are not shared between accounts, and there are no IPAM pools"},
	}
}

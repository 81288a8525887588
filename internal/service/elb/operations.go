package elb

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/elbnet"
)

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "elasticloadbalancing", Handler: s, Authorization: awsapi.Authorization{Tagging: elbnet.Tagging}, Refused: refusals(), Operations: []awsapi.Operation{
		{Name: "CreateLoadBalancer", Members: "AvailabilityZones Listeners LoadBalancerName Scheme SecurityGroups Subnets Tags"},
		{Name: "DescribeLoadBalancers", Members: "LoadBalancerNames Marker PageSize"},
		{Name: "DeleteLoadBalancer", Members: "LoadBalancerName"},
		{Name: "ApplySecurityGroupsToLoadBalancer", Members: "LoadBalancerName SecurityGroups"},
		{Name: "AttachLoadBalancerToSubnets", Members: "LoadBalancerName Subnets"},
		{Name: "DetachLoadBalancerFromSubnets", Members: "LoadBalancerName Subnets"},
		{Name: "EnableAvailabilityZonesForLoadBalancer", Members: "AvailabilityZones LoadBalancerName"},
		{Name: "DisableAvailabilityZonesForLoadBalancer", Members: "AvailabilityZones LoadBalancerName"},
		{Name: "DescribeLoadBalancerAttributes", Members: "LoadBalancerName"},
		{Name: "ModifyLoadBalancerAttributes", Members: "LoadBalancerAttributes LoadBalancerName"},
		// Listeners.
		{Name: "CreateLoadBalancerListeners", Members: "Listeners LoadBalancerName"},
		{Name: "DeleteLoadBalancerListeners", Members: "LoadBalancerName LoadBalancerPorts"},
		{Name: "SetLoadBalancerListenerSSLCertificate", Members: "LoadBalancerName LoadBalancerPort SSLCertificateId"},
		// Instances.
		{Name: "ConfigureHealthCheck", Members: "HealthCheck LoadBalancerName"},
		{Name: "RegisterInstancesWithLoadBalancer", Members: "Instances LoadBalancerName"},
		{Name: "DeregisterInstancesFromLoadBalancer", Members: "Instances LoadBalancerName"},
		{Name: "DescribeInstanceHealth", Members: "Instances LoadBalancerName", Settled: awsapi.SettledWhen(settledHealth)},
		// Policies are stored and described. Those of stickiness and of the proxy protocol have an effect.
		{Name: "CreateLoadBalancerPolicy", Members: "LoadBalancerName PolicyAttributes PolicyName PolicyTypeName"},
		{Name: "CreateLBCookieStickinessPolicy", Members: "CookieExpirationPeriod LoadBalancerName PolicyName"},
		{Name: "CreateAppCookieStickinessPolicy", Members: "CookieName LoadBalancerName PolicyName"},
		{Name: "DeleteLoadBalancerPolicy", Members: "LoadBalancerName PolicyName"},
		{Name: "DescribeLoadBalancerPolicies", Members: "LoadBalancerName PolicyNames", Except: "requests without LoadBalancerName, which return AWS's sample policies"},
		{Name: "SetLoadBalancerPoliciesOfListener", Members: "LoadBalancerName LoadBalancerPort PolicyNames"},
		{Name: "SetLoadBalancerPoliciesForBackendServer", Members: "InstancePort LoadBalancerName PolicyNames"},
		// Tags.
		{Name: "AddTags", Members: "LoadBalancerNames Tags"},
		{Name: "RemoveTags", Members: "LoadBalancerNames Tags"},
		{Name: "DescribeTags", Members: "LoadBalancerNames"},
	}}
}

func refusals() []awsapi.Refusal {
	return []awsapi.Refusal{
		{Operations: "DescribeLoadBalancerPolicyTypes DescribeAccountLimits", Why: "policies are only stored, and quotas of load balancers cannot be changed"},
	}
}

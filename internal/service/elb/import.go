package elb

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// importRecords turns what another account's Elastic Load Balancing answered into records of Classic Load Balancers.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := regional.At(r.Source.Account, r.Source.Region)
	attributes, err := recording.Pages[awselb.DescribeLoadBalancerAttributesInput, awselb.DescribeLoadBalancerAttributesOutput](r, recording.ELB, "DescribeLoadBalancerAttributes")
	if err != nil {
		return nil, nil, err
	}
	policies, err := recording.Pages[awselb.DescribeLoadBalancerPoliciesInput, awselb.DescribeLoadBalancerPoliciesOutput](r, recording.ELB, "DescribeLoadBalancerPolicies")
	if err != nil {
		return nil, nil, err
	}
	described, err := recording.Pages[awselb.DescribeTagsInput, awselb.DescribeTagsOutput](r, recording.ELB, "DescribeTags")
	if err != nil {
		return nil, nil, err
	}
	found, err := recording.Pages[awselb.DescribeLoadBalancersInput, awselb.DescribeLoadBalancersOutput](r, recording.ELB, "DescribeLoadBalancers")
	if err != nil {
		return nil, nil, err
	}
	interfaces, err := elbnet.Imported(r)
	if err != nil {
		return nil, nil, err
	}
	var writes []module.Write
	for _, p := range found {
		for i := range p.Output.LoadBalancerDescriptions {
			rec, err := imported(&p.Output.LoadBalancerDescriptions[i])
			if err != nil {
				return nil, nil, fmt.Errorf("the source's answer to %s: %w", recording.Action(recording.ELB, "DescribeLoadBalancers"), err)
			}
			rec.Interfaces, rec.Attributes = interfaces[rec.Name], defaultAttributes()
			for _, a := range attributes {
				if text(a.Input.LoadBalancerName) == rec.Name && a.Output.LoadBalancerAttributes != nil {
					rec.Attributes = *a.Output.LoadBalancerAttributes
				}
			}
			for _, p := range policies {
				if text(p.Input.LoadBalancerName) == rec.Name {
					rec.Policies = append(rec.Policies, slices.DeleteFunc(slices.Clone(p.Output.PolicyDescriptions), func(d elbtypes.PolicyDescription) bool {
						return text(d.PolicyTypeName) == lbCookie || text(d.PolicyTypeName) == appCookie || d.PolicyName == nil || d.PolicyTypeName == nil
					})...)
				}
			}
			for _, page := range described {
				for _, d := range page.Output.TagDescriptions {
					for _, t := range d.Tags {
						if text(d.LoadBalancerName) == rec.Name {
							rec.Tags[text(t.Key)] = text(t.Value)
						}
					}
				}
			}
			writes = append(writes, module.Put(loadBalancers, sc.Key(rec.Name), rec))
		}
	}
	return writes, nil, nil
}

// imported returns the record of a load balancer of another account. The name serves as the UID, by which its interfaces are
// found.
func imported(in *elbtypes.LoadBalancerDescription) (loadBalancerRecord, error) {
	name := text(in.LoadBalancerName)
	if err := checkName(name); err != nil || name == "" || in.DNSName == nil || in.HealthCheck == nil {
		return loadBalancerRecord{}, fmt.Errorf("%q has no valid name, no DNS name or no health check", name)
	}
	r := loadBalancerRecord{
		UID: name, Name: name, DNSName: *in.DNSName, Internal: text(in.Scheme) == "internal", VPC: text(in.VPCId), Subnets: in.Subnets, Zones: in.AvailabilityZones, Groups: in.SecurityGroups,
		Created: aws.ToTime(in.CreatedTime), HealthCheck: *in.HealthCheck, Backends: map[int32][]string{}, Tags: map[string]string{},
	}
	for _, l := range in.ListenerDescriptions {
		if l.Listener != nil {
			r.Listeners = append(r.Listeners, listenerRecord{Listener: *l.Listener, Policies: l.PolicyNames})
		}
	}
	for _, b := range in.BackendServerDescriptions {
		r.Backends[aws.ToInt32(b.InstancePort)] = b.PolicyNames
	}
	if p := in.Policies; p != nil {
		r.LBCookies, r.AppCookies = p.LBCookieStickinessPolicies, p.AppCookieStickinessPolicies
	}
	for _, i := range in.Instances {
		r.Instances = append(r.Instances, text(i.InstanceId))
	}
	return r, nil
}

package cloudformation

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func (r *request) elbv2Tags() (out []elbv2types.Tag) {
	for _, t := range r.tags() {
		out = append(out, elbv2types.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// afterSlash returns the rest of an ARN after part.
func afterSlash(arn, part string) string {
	_, rest, _ := strings.Cut(arn, part)
	return rest
}

func balancerHandlers() map[string]handler {
	return map[string]handler{
		"AWS::ElasticLoadBalancing::LoadBalancer": made(handler{
			inPlace: "ConnectionDrainingPolicy ConnectionSettings CrossZone HealthCheck Instances Listeners SecurityGroups Subnets Tags", update: updateClassic,
			find: func(r *request) (string, error) {
				b, err := r.classic(r.balancerName("LoadBalancerName"))
				return aws.ToString(b.LoadBalancerName), err
			},
			settle: settleClassic,
			read: func(r *request) (map[string]any, error) {
				b, err := r.classic(r.id)
				out := map[string]any{"Id": r.id, "DNSName": b.DNSName, "CanonicalHostedZoneName": b.CanonicalHostedZoneName, "CanonicalHostedZoneNameID": b.CanonicalHostedZoneNameID}
				if g := b.SourceSecurityGroup; g != nil {
					out["SourceSecurityGroup.GroupName"], out["SourceSecurityGroup.OwnerAlias"] = g.GroupName, g.OwnerAlias
				}
				return out, err
			},
			remove: one[awselb.DeleteLoadBalancerOutput](func(r *request) any { return &awselb.DeleteLoadBalancerInput{LoadBalancerName: &r.id} }),
		}, "LoadBalancerName Tags HealthCheck Instances CrossZone ConnectionDrainingPolicy ConnectionSettings", func(r *request, in *awselb.CreateLoadBalancerInput) {
			in.LoadBalancerName = aws.String(r.balancerName("LoadBalancerName"))
			for _, t := range r.tags() {
				in.Tags = append(in.Tags, elbtypes.Tag{Key: &t.Key, Value: &t.Value})
			}
		}, func(r *request, _ *awselb.CreateLoadBalancerOutput) *string {
			return aws.String(r.balancerName("LoadBalancerName"))
		}),
		"AWS::ElasticLoadBalancingV2::LoadBalancer": made(handler{
			inPlace: "LoadBalancerAttributes SecurityGroups SubnetMappings Subnets Tags", update: updateBalancer,
			find: func(r *request) (string, error) {
				b, err := r.balancer(&awselbv2.DescribeLoadBalancersInput{Names: []string{r.balancerName("Name")}})
				return aws.ToString(b.LoadBalancerArn), err
			},
			settle: func(r *request) error {
				in := &awselbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &r.id}
				err := each(r, "LoadBalancerAttributes", "", func(a *elbv2types.LoadBalancerAttribute, _ *template.Map) error {
					in.Attributes = append(in.Attributes, *a)
					return nil
				})
				if err != nil {
					return err
				}
				if len(in.Attributes) > 0 {
					if _, err := call[awselbv2.ModifyLoadBalancerAttributesOutput](r, in); err != nil {
						return err
					}
				}
				return r.until(func() (string, error) {
					b, err := r.balancer(&awselbv2.DescribeLoadBalancersInput{LoadBalancerArns: []string{r.id}})
					if err != nil || b.State == nil {
						return "", err
					}
					return string(b.State.Code), nil
				}, "active", "failed")
			},
			read: func(r *request) (map[string]any, error) {
				b, err := r.balancer(&awselbv2.DescribeLoadBalancersInput{LoadBalancerArns: []string{r.id}})
				return map[string]any{"LoadBalancerArn": r.id, "LoadBalancerName": b.LoadBalancerName, "LoadBalancerFullName": afterSlash(r.id, ":loadbalancer/"), "DNSName": b.DNSName,
					"CanonicalHostedZoneID": b.CanonicalHostedZoneId, "SecurityGroups": append([]string{}, b.SecurityGroups...)}, err
			},
			remove: one[awselbv2.DeleteLoadBalancerOutput](func(r *request) any { return &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: &r.id} }),
		}, "Name Tags LoadBalancerAttributes", func(r *request, in *awselbv2.CreateLoadBalancerInput) {
			in.Name, in.Tags = aws.String(r.balancerName("Name")), r.elbv2Tags()
		}, func(_ *request, out *awselbv2.CreateLoadBalancerOutput) *string {
			return out.LoadBalancers[0].LoadBalancerArn
		}),
		"AWS::ElasticLoadBalancingV2::TargetGroup": made(handler{
			inPlace: "HealthCheckEnabled HealthCheckIntervalSeconds HealthCheckPath HealthCheckPort HealthCheckProtocol HealthCheckTimeoutSeconds HealthyThresholdCount Matcher Tags TargetGroupAttributes Targets UnhealthyThresholdCount", update: updateTargetGroup,
			find: func(r *request) (string, error) {
				g, err := r.targetGroup(&awselbv2.DescribeTargetGroupsInput{Names: []string{r.balancerName("Name")}})
				return aws.ToString(g.TargetGroupArn), err
			},
			settle: func(r *request) error {
				in := &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &r.id}
				err := each(r, "TargetGroupAttributes", "", func(a *elbv2types.TargetGroupAttribute, _ *template.Map) error {
					in.Attributes = append(in.Attributes, *a)
					return nil
				})
				if err != nil {
					return err
				}
				if len(in.Attributes) > 0 {
					if _, err := call[awselbv2.ModifyTargetGroupAttributesOutput](r, in); err != nil {
						return err
					}
				}
				to := &awselbv2.RegisterTargetsInput{TargetGroupArn: &r.id}
				if err := each(r, "Targets", "", func(t *elbv2types.TargetDescription, _ *template.Map) error {
					to.Targets = append(to.Targets, *t)
					return nil
				}); err != nil || len(to.Targets) == 0 {
					return err
				}
				_, err = call[awselbv2.RegisterTargetsOutput](r, to)
				return err
			},
			read: func(r *request) (map[string]any, error) {
				g, err := r.targetGroup(&awselbv2.DescribeTargetGroupsInput{TargetGroupArns: []string{r.id}})
				_, name, _ := strings.Cut(r.id, ":targetgroup/")
				return map[string]any{"TargetGroupArn": r.id, "TargetGroupName": g.TargetGroupName, "TargetGroupFullName": "targetgroup/" + name, "LoadBalancerArns": append([]string{}, g.LoadBalancerArns...)}, err
			},
			remove: one[awselbv2.DeleteTargetGroupOutput](func(r *request) any { return &awselbv2.DeleteTargetGroupInput{TargetGroupArn: &r.id} }),
		}, "Name Tags TargetGroupAttributes Targets", func(r *request, in *awselbv2.CreateTargetGroupInput) {
			in.Name, in.Tags = aws.String(r.balancerName("Name")), r.elbv2Tags()
		}, func(_ *request, out *awselbv2.CreateTargetGroupOutput) *string {
			return out.TargetGroups[0].TargetGroupArn
		}),
		"AWS::ElasticLoadBalancingV2::Listener": made(handler{
			inPlace: "AlpnPolicy Certificates DefaultActions ListenerAttributes Port Protocol SslPolicy", update: updateListener,
			find: func(r *request) (string, error) {
				out, err := call[awselbv2.DescribeListenersOutput](r, &awselbv2.DescribeListenersInput{LoadBalancerArn: aws.String(r.text("LoadBalancerArn"))})
				if err != nil {
					return "", err
				}
				for _, l := range out.Listeners {
					if strconv.Itoa(int(aws.ToInt32(l.Port))) == r.text("Port") {
						return aws.ToString(l.ListenerArn), nil
					}
				}
				return "", nil
			},
			settle: func(r *request) error {
				in := &awselbv2.ModifyListenerAttributesInput{ListenerArn: &r.id}
				err := each(r, "ListenerAttributes", "", func(a *elbv2types.ListenerAttribute, _ *template.Map) error {
					in.Attributes = append(in.Attributes, *a)
					return nil
				})
				if err != nil || len(in.Attributes) == 0 {
					return err
				}
				_, err = call[awselbv2.ModifyListenerAttributesOutput](r, in)
				return err
			},
			read:   idAs("ListenerArn"),
			remove: one[awselbv2.DeleteListenerOutput](func(r *request) any { return &awselbv2.DeleteListenerInput{ListenerArn: &r.id} }),
		}, "ListenerAttributes", func(*request, *awselbv2.CreateListenerInput) {}, func(_ *request, out *awselbv2.CreateListenerOutput) *string { return out.Listeners[0].ListenerArn }),
		"AWS::ElasticLoadBalancingV2::ListenerRule": made(handler{
			inPlace: "Actions Conditions Priority", update: updateListenerRule,
			find: func(r *request) (string, error) {
				out, err := call[awselbv2.DescribeRulesOutput](r, &awselbv2.DescribeRulesInput{ListenerArn: aws.String(r.text("ListenerArn"))})
				if err != nil {
					return "", err
				}
				for _, l := range out.Rules {
					if aws.ToString(l.Priority) == r.text("Priority") {
						return aws.ToString(l.RuleArn), nil
					}
				}
				return "", nil
			},
			read: func(r *request) (map[string]any, error) {
				return map[string]any{"RuleArn": r.id, "IsDefault": false}, nil
			},
			remove: one[awselbv2.DeleteRuleOutput](func(r *request) any { return &awselbv2.DeleteRuleInput{RuleArn: &r.id} }),
		}, "", func(*request, *awselbv2.CreateRuleInput) {}, func(_ *request, out *awselbv2.CreateRuleOutput) *string { return out.Rules[0].RuleArn }),
		"AWS::ElasticLoadBalancingV2::ListenerCertificate": made(handler{
			read: idAs("Id"),
			remove: func(r *request) error {
				in := &awselbv2.RemoveListenerCertificatesInput{}
				if err := r.fill(in, ""); err != nil {
					return err
				}
				_, err := call[awselbv2.RemoveListenerCertificatesOutput](r, in)
				return err
			},
		}, "", func(*request, *awselbv2.AddListenerCertificatesInput) {}, func(r *request, _ *awselbv2.AddListenerCertificatesOutput) *string {
			return aws.String(r.generated(r.o.rec.Name, 255))
		}),
	}
}

// balancerName returns a name of at most 32 characters, which may not end with a hyphen.
func (r *request) balancerName(property string) string { return r.name(property, 32) }

// settleClassic applies the settings of a Classic Load Balancer that have calls of their own.
func settleClassic(r *request) error {
	if r.props.Has("HealthCheck") {
		in := &awselb.ConfigureHealthCheckInput{LoadBalancerName: &r.id, HealthCheck: &elbtypes.HealthCheck{}}
		if err := r.fillIn(in.HealthCheck, "HealthCheck", ""); err != nil {
			return err
		}
		if _, err := call[awselb.ConfigureHealthCheckOutput](r, in); err != nil {
			return err
		}
	}
	attributes := &elbtypes.LoadBalancerAttributes{}
	if r.props.Has("CrossZone") {
		attributes.CrossZoneLoadBalancing = &elbtypes.CrossZoneLoadBalancing{Enabled: r.text("CrossZone") == "true"}
	}
	if r.props.Has("ConnectionDrainingPolicy") {
		attributes.ConnectionDraining = &elbtypes.ConnectionDraining{}
		if err := r.fillIn(attributes.ConnectionDraining, "ConnectionDrainingPolicy", ""); err != nil {
			return err
		}
	}
	if r.props.Has("ConnectionSettings") {
		attributes.ConnectionSettings = &elbtypes.ConnectionSettings{}
		if err := r.fillIn(attributes.ConnectionSettings, "ConnectionSettings", ""); err != nil {
			return err
		}
	}
	if attributes.CrossZoneLoadBalancing != nil || attributes.ConnectionDraining != nil || attributes.ConnectionSettings != nil {
		if _, err := call[awselb.ModifyLoadBalancerAttributesOutput](r, &awselb.ModifyLoadBalancerAttributesInput{LoadBalancerName: &r.id, LoadBalancerAttributes: attributes}); err != nil {
			return err
		}
	}
	if ids := r.list("Instances"); len(ids) > 0 {
		in := &awselb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &r.id}
		for _, id := range ids {
			in.Instances = append(in.Instances, elbtypes.Instance{InstanceId: &id})
		}
		if _, err := call[awselb.RegisterInstancesWithLoadBalancerOutput](r, in); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) classic(name string) (elbtypes.LoadBalancerDescription, error) {
	out, err := call[awselb.DescribeLoadBalancersOutput](r, &awselb.DescribeLoadBalancersInput{LoadBalancerNames: []string{name}})
	if err != nil {
		return elbtypes.LoadBalancerDescription{}, err
	}
	return first(out.LoadBalancerDescriptions)
}

func (r *request) balancer(in *awselbv2.DescribeLoadBalancersInput) (elbv2types.LoadBalancer, error) {
	out, err := call[awselbv2.DescribeLoadBalancersOutput](r, in)
	if err != nil {
		return elbv2types.LoadBalancer{}, err
	}
	return first(out.LoadBalancers)
}

func (r *request) targetGroup(in *awselbv2.DescribeTargetGroupsInput) (elbv2types.TargetGroup, error) {
	out, err := call[awselbv2.DescribeTargetGroupsOutput](r, in)
	if err != nil {
		return elbv2types.TargetGroup{}, err
	}
	return first(out.TargetGroups)
}

package app

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

// roleUsage answers what IAM asks before it deletes a service's role: clusters need
// that of EKS; node groups, Auto Scaling groups and load balancers those of their
// services.
func (d *daemon) roleUsage(ctx context.Context, account, service string) map[string][]string {
	usage := map[string][]string{}
	switch service {
	case "eks.amazonaws.com":
		for _, p := range d.planes.Planes() {
			if k := p.Key; k.Account == account {
				usage[k.Region] = append(usage[k.Region], arn.New("eks", k.Region, account, "cluster/"+k.Name))
			}
		}
	case "eks-nodegroup.amazonaws.com":
		for _, p := range d.planes.Planes() {
			k := p.Key
			if k.Account != account {
				continue
			}
			// A cluster that is gone meanwhile has no node groups either.
			_ = everyPage(func(page *string) (*string, error) {
				out, err := d.eks.ListNodegroups(in(ctx, account, k.Region), &awseks.ListNodegroupsInput{ClusterName: &k.Name, NextToken: page})
				if err != nil {
					return nil, err
				}
				for _, name := range out.Nodegroups {
					usage[k.Region] = append(usage[k.Region], arn.New("eks", k.Region, account, "nodegroup/"+k.Name+"/"+name))
				}
				return out.NextToken, nil
			})
		}
	case "elasticloadbalancing.amazonaws.com":
		for _, r := range regions.All() {
			arns, err := d.loadBalancers(in(ctx, account, r.Name), r.Name, account)
			if err != nil {
				d.log.WarnContext(ctx, "app: listing the load balancers that need their service's role", "error", err)
			}
			if len(arns) > 0 {
				usage[r.Name] = arns
			}
		}
	case "autoscaling.amazonaws.com":
		for _, r := range regions.All() {
			err := everyPage(func(page *string) (*string, error) {
				out, err := d.scaling.DescribeAutoScalingGroups(in(ctx, account, r.Name), &awsautoscaling.DescribeAutoScalingGroupsInput{IncludeInstances: aws.Bool(false), NextToken: page})
				if err != nil {
					return nil, err
				}
				for _, g := range out.AutoScalingGroups {
					usage[r.Name] = append(usage[r.Name], aws.ToString(g.AutoScalingGroupARN))
				}
				return out.NextToken, nil
			})
			if err != nil {
				d.log.WarnContext(ctx, "app: listing the Auto Scaling groups that need their service's role", "error", err)
			}
		}
	}
	return usage
}

// loadBalancers returns the ARNs of those of both generations.
func (d *daemon) loadBalancers(ctx context.Context, region, account string) ([]string, error) {
	var arns []string
	classic := everyPage(func(page *string) (*string, error) {
		out, err := d.elb.DescribeLoadBalancers(ctx, &awselb.DescribeLoadBalancersInput{Marker: page})
		if err != nil {
			return nil, err
		}
		for _, lb := range out.LoadBalancerDescriptions {
			arns = append(arns, arn.New("elasticloadbalancing", region, account, "loadbalancer/"+aws.ToString(lb.LoadBalancerName)))
		}
		return out.NextMarker, nil
	})
	v2 := everyPage(func(page *string) (*string, error) {
		out, err := d.elbv2.DescribeLoadBalancers(ctx, &awselbv2.DescribeLoadBalancersInput{Marker: page})
		if err != nil {
			return nil, err
		}
		for _, lb := range out.LoadBalancers {
			arns = append(arns, aws.ToString(lb.LoadBalancerArn))
		}
		return out.NextMarker, nil
	})
	return arns, errors.Join(classic, v2)
}

// everyPage asks for the first page and, as long as there is one, for the next.
func everyPage(list func(page *string) (next *string, err error)) error {
	next, err := list(nil)
	for err == nil && next != nil {
		next, err = list(next)
	}
	return err
}

// in is ctx for calls that Drydock makes itself in an account and region.
func in(ctx context.Context, account, region string) context.Context {
	return awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: region})
}

package app

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

// roleUsage answers what IAM asks before it deletes a service's role: clusters need
// that of EKS, node groups and Auto Scaling groups those of their services.
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
			out, err := d.eks.ListNodegroups(in(ctx, account, k.Region), &awseks.ListNodegroupsInput{ClusterName: &k.Name})
			if err != nil {
				continue // the cluster is gone meanwhile, and its node groups before it
			}
			for _, name := range out.Nodegroups {
				usage[k.Region] = append(usage[k.Region], arn.New("eks", k.Region, account, "nodegroup/"+k.Name+"/"+name))
			}
		}
	case "autoscaling.amazonaws.com":
		for _, r := range regions.All() {
			out, err := d.scaling.DescribeAutoScalingGroups(in(ctx, account, r.Name), &awsautoscaling.DescribeAutoScalingGroupsInput{IncludeInstances: aws.Bool(false)})
			if err != nil {
				d.log.WarnContext(ctx, "app: listing the Auto Scaling groups that need their service's role", "error", err)
				continue
			}
			for _, g := range out.AutoScalingGroups {
				usage[r.Name] = append(usage[r.Name], aws.ToString(g.AutoScalingGroupARN))
			}
		}
	}
	return usage
}

// in is ctx for calls that Drydock makes itself in an account and region.
func in(ctx context.Context, account, region string) context.Context {
	return awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: region})
}

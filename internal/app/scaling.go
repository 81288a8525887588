package app

import (
	"context"

	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
)

// newAutoScaling makes the Auto Scaling service and connects it to EC2 and IAM.
func (d *daemon) newAutoScaling() *autoscaling.Service {
	return autoscaling.New(autoscaling.Config{
		Store:     d.store,
		EC2:       awscall.EC2{API: d.server},
		Instances: d.ec2,
		Sources:   map[string]autoscaling.Sources{"elb": d.elb, "elbv2": d.elbv2},
		EnsureServiceRole: func(ctx context.Context, account string) (string, error) {
			role, err := d.iam.EnsureServiceLinkedRole(ctx, account, "autoscaling.amazonaws.com")
			return role.ARN, err
		},
		Timing: d.timing,
		Log:    d.log,
	})
}

package authz

import (
	"context"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// launches returns what the instances that AWS launches after an operation will touch, as if the caller launched one.
func (a *Authorizer) launches(ctx context.Context, call *awsapi.Call, in any) []Target {
	l, ok := a.rows.launches[Prefix(call.Service)+":"+call.Operation]
	if !ok {
		return nil
	}
	ec2, ok := a.resolvers["ec2"].(Targeter)
	if !ok {
		return nil
	}
	var out []Target
	for _, path := range l.Templates {
		id, name := first(in, path+".LaunchTemplateId", path+".Id"), first(in, path+".LaunchTemplateName", path+".Name")
		if id == "" && name == "" {
			continue
		}
		launch := &awsec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			LaunchTemplate: &ec2types.LaunchTemplateSpecification{},
		}
		if name != "" {
			launch.LaunchTemplate.LaunchTemplateName = &name
		} else {
			launch.LaunchTemplate.LaunchTemplateId = &id
		}
		if version := first(in, path+".Version"); version != "" {
			launch.LaunchTemplate.Version = &version
		}
		if subnet, _, _ := strings.Cut(first(in, l.Subnets), ","); subnet != "" {
			launch.SubnetId = aws.String(strings.TrimSpace(subnet))
		}
		targets, _ := ec2.Targets(ctx, call, launch)
		for _, t := range targets {
			// The launching service may choose instance type and image itself.
			if t.Action == "" {
				t.Action = "ec2:RunInstances"
			}
			if t.Type == "image" && t.ID == "" {
				continue
			}
			t.launch = id + name
			out = append(out, t)
		}
	}
	return out
}

// deniedLaunch returns the error, in the launching service's words, for a launch template that the caller may not
// launch from. It returns nil if EC2's own words apply.
func (d *Denial) deniedLaunch() *awserr.Error {
	switch d.Service {
	case "eks":
		// https://github.com/scylladb/scylla-cluster-tests/issues/12172
		text := "You are not authorized to launch instances with this launch template."
		if d.Encoded != "" {
			text += " Encoded authorization failure message: " + d.Encoded
		}
		return awserr.New("InvalidRequestException", text)
	case "autoscaling":
		// https://github.com/eksctl-io/eksctl/issues/834; [seen] with the code in Terraform's output
		return awserr.New("AccessDenied", "You are not authorized to use launch template: "+d.check.target.launch).WithStatus(http.StatusForbidden)
	}
	return nil
}

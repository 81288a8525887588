package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// Calls between services that have no equivalent in the AWS API.

// imageExists tells SSM whether an image exists, for parameters that hold image IDs.
func (d *daemon) imageExists(ctx context.Context, account, region, id string) (bool, error) {
	ctx = awsapi.AsService(ctx, account, region, awsapi.ServiceRole{Service: "ssm.amazonaws.com", Name: "AWSServiceRoleForAmazonSSM", Session: "SSM"}, time.Now())
	_, err := awscall.EC2{API: d.server}.DescribeImages(ctx, &awsec2.DescribeImagesInput{ImageIds: []string{id}})
	if api, ok := errors.AsType[smithy.APIError](err); ok && strings.HasPrefix(api.ErrorCode(), "InvalidAMIID.") {
		return false, nil
	}
	return err == nil, err
}

// groups are Auto Scaling groups as EKS uses them: by calls, and by look-ups of their
// members.
type groups struct {
	awscall.AutoScaling
	members
}

type members interface {
	CompleteLifecycleActions(ctx context.Context, group, hook, result string, instanceIDs []string) error
	WatchMembers(store.Scope) *store.Watcher
	MemberGroup(store.Key) string
}

// imageAction sends the event of an action on an image of ECR.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html
func (d *daemon) imageAction(a ecr.Action) {
	detail := map[string]any{"result": "SUCCESS", "repository-name": a.Repository, "image-digest": a.Digest, "action-type": a.Type, "image-tag": a.Tag}
	if err := d.events.Emit(a.Account, a.Region, &serviceevents.Event{
		DetailType: "ECR Image Action", Source: "aws.ecr", Time: a.At.UTC().Format(serviceevents.TimeForm), Detail: serviceevents.Detail(detail),
	}); err != nil {
		d.log.Warn("sending the event of an image", "repository", a.Repository, "err", err)
	}
}

// imageSync sends the event of an attempt to copy an image from an upstream registry. The names of the fields of a failure are those of
// the AWS CDK; its values are from memory.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html
func (d *daemon) imageSync(a ecr.Sync) {
	detail := map[string]any{"rule-version": "1", "sync-status": "SUCCESS", "ecr-repository-prefix": a.Prefix, "repository-name": a.Repository, "upstream-registry-url": a.URL}
	if a.Tag != "" {
		detail["image-tag"] = a.Tag
	}
	if a.Digest != "" {
		detail["image-digest"] = a.Digest
	}
	if a.Failure != nil {
		detail["sync-status"], detail["failure-code"], detail["failure-reason"] = "FAILURE", awserr.CodeOf(a.Failure), awserr.TextOf(a.Failure)
	}
	if err := d.events.Emit(a.Account, a.Region, &serviceevents.Event{
		DetailType: "ECR Pull Through Cache Action", Source: "aws.ecr", Time: a.At.UTC().Format(serviceevents.TimeForm),
		Resources: []string{arn.New("ecr", a.Region, a.Account, "repository/"+a.Repository)}, Detail: serviceevents.Detail(detail),
	}); err != nil {
		d.log.Warn("sending the event of a pull-through cache action", "repository", a.Repository, "err", err)
	}
}

// hostRole returns a session of the role of default host management, if it trusts Systems Manager.
func (d *daemon) hostRole(ctx context.Context, account, region, instanceID string) (awsapi.Principal, bool) {
	name := d.ssm.HostRole(account, region)
	if name == "" {
		return awsapi.Principal{}, false
	}
	session, err := d.managerSession(ctx, name, instanceID)
	return session, err == nil
}

// managerSession returns a session of a role that was passed to Systems Manager, if the role trusts it.
func (d *daemon) managerSession(ctx context.Context, roleARN, name string) (awsapi.Principal, error) {
	return d.serviceSession(ctx, roleARN, "ssm.amazonaws.com", name)
}

// serviceSession returns a session of a role that was passed to a service, if the role trusts it.
func (d *daemon) serviceSession(ctx context.Context, roleARN, service, name string) (awsapi.Principal, error) {
	role, err := d.iam.RoleByARN(ctx, roleARN)
	if err != nil {
		return awsapi.Principal{}, err
	}
	if !d.iam.TrustsService(role, service) {
		return awsapi.Principal{}, fmt.Errorf("the trust policy of %s does not let %s assume it", roleARN, service)
	}
	return d.sts.RoleSession(ctx, role.ARN, name)
}

package ssm

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

const servicePrincipal = "ssm.amazonaws.com"

// SNS is the part of SNS that the service uses.
type SNS interface {
	Publish(context.Context, *awssns.PublishInput) (*awssns.PublishOutput, error)
}

// notifications are the notifications that a command sends. Topic is empty if it sends none.
type notifications struct {
	Topic      string   `json:",omitempty"`
	Events     []string `json:",omitempty"`
	Invocation bool     `json:",omitempty"` // for each instance, not for the command as a whole
}

func (n *notifications) sdk() *ssmtypes.NotificationConfig {
	out := &ssmtypes.NotificationConfig{NotificationArn: aws.String(n.Topic), NotificationEvents: []ssmtypes.NotificationEvent{}}
	if n.Topic == "" {
		return out
	}
	for _, e := range n.Events {
		out.NotificationEvents = append(out.NotificationEvents, ssmtypes.NotificationEvent(e))
	}
	out.NotificationType = ssmtypes.NotificationTypeCommand
	if n.Invocation {
		out.NotificationType = ssmtypes.NotificationTypeInvocation
	}
	return out
}

// notifies records the notifications that a request asks for. The texts of its errors are the API reference's.
func (s *Service) notifies(ctx context.Context, c *commandRecord, in *awsssm.SendCommandInput) error {
	c.Role = aws.ToString(in.ServiceRoleArn)
	n := in.NotificationConfig
	if n == nil || aws.ToString(n.NotificationArn) == "" && len(n.NotificationEvents) == 0 {
		return nil // clients send back what SendCommand has returned
	}
	topic, err := arn.Parse(aws.ToString(n.NotificationArn))
	if err != nil || topic.Service != "sns" || strings.Contains(topic.Resource, ":") {
		return &ssmtypes.InvalidNotificationConfig{Message: aws.String("One or more configuration items isn't valid. Verify that a valid Amazon Resource Name (ARN) was provided for an Amazon Simple Notification Service topic.")}
	}
	if _, err := s.assume(ctx, c.Role); err != nil {
		return &ssmtypes.InvalidRole{Message: aws.String("The role name can't contain invalid characters. Also verify that you specified an IAM role for notifications that includes the required trust policy.")}
	}
	c.Notify = notifications{Topic: *n.NotificationArn, Invocation: n.NotificationType == ssmtypes.NotificationTypeInvocation}
	for _, e := range n.NotificationEvents {
		c.Notify.Events = append(c.Notify.Events, string(e))
	}
	if c.Notify.Events == nil {
		c.Notify.Events = []string{string(ssmtypes.NotificationEventAll)}
	}
	return nil
}

// notification is the form of AWS's messages.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/monitoring-sns-examples.html
type notification struct {
	CommandID    string    `json:"commandId"`
	DocumentName string    `json:"documentName"`
	InstanceID   string    `json:"instanceId,omitempty"`
	InstanceIDs  *[]string `json:"instanceIds,omitempty"`
	Requested    string    `json:"requestedDateTime"`
	Expires      string    `json:"expiresAfter,omitempty"`
	Bucket       *string   `json:"outputS3BucketName,omitempty"`
	Prefix       *string   `json:"outputS3KeyPrefix,omitempty"`
	Status       string    `json:"status"`
	EventTime    string    `json:"eventTime"`
}

const notificationTime = "2006-01-02T15:04:05.999Z"

// notify publishes the new state of a command or, if instance is not empty, of its invocation on an instance, if the
// command's notifications ask for that. A failure does not affect the command.
func (s *Service) notify(sc scope, c *commandRecord, instance, status string) {
	n := &c.Notify
	if n.Topic == "" || n.Invocation != (instance != "") || !slices.Contains(n.Events, status) && !slices.Contains(n.Events, string(ssmtypes.NotificationEventAll)) {
		return
	}
	m := notification{CommandID: c.ID, DocumentName: c.Document, InstanceID: instance, Requested: c.Requested.UTC().Format(notificationTime), Status: status, EventTime: s.now().UTC().Format(notificationTime)}
	if instance == "" {
		ids := []string{}
		if len(c.Targets) == 0 {
			ids = c.Instances
		}
		m.InstanceIDs, m.Bucket, m.Prefix = &ids, &c.Bucket, &c.Prefix
		m.Expires = c.Requested.Add(time.Duration(c.Timeout) * time.Second).UTC().Format(notificationTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), logPatience) // the command may have been cancelled
	defer cancel()
	text, err := json.Marshal(m)
	var as awsapi.Principal
	if err == nil {
		as, err = s.assume(ctx, c.Role)
	}
	if err == nil {
		_, err = s.sns.Publish(awsapi.AsRole(ctx, as, sc.Region, servicePrincipal, s.now()), &awssns.PublishInput{
			TopicArn: &n.Topic, Message: aws.String(string(text)), Subject: aws.String("EC2 Run Command Notification " + sc.Region), // the subject is from memory
		})
	}
	if err != nil {
		s.log.Warn("a notification of a command could not be published", "command", c.ID, "topic", n.Topic, "error", err)
	}
}

package cloudformation

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// notify sends the new events of a stack to its topics, in order and with the permissions of the stack's operation. If
// the daemon is killed, some events are sent twice.
func (s *Service) notify(ctx context.Context, key store.Key) (time.Duration, error) {
	rec, err := stacks.Get(s.store, key)
	if err != nil || rec.Unpublished == 0 {
		return 0, store.IgnoreNotFound(err)
	}
	o := &operation{s: s, key: key, rec: rec, arn: stackARN(key, &rec)}
	as, err := o.as(ctx)
	next := rec.Events - rec.Unpublished + 1
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, ErrNoRole):
		s.log.Warn("sending events of a stack to its topics", "stack", o.arn, "err", err)
		next = rec.Events + 1
	case err != nil:
		return 0, err
	}
	for err = nil; next <= rec.Events; next++ {
		var e eventRecord
		if e, err = events.Get(s.store, eventKey(key, next)); store.IsNotFound(err) {
			continue // the stack's events have been deleted
		} else if err != nil {
			break
		}
		for _, topic := range rec.NotificationARNs {
			in := &awssns.PublishInput{TopicArn: &topic, Subject: aws.String("AWS CloudFormation Notification"), Message: aws.String(o.notification(&e))}
			// An event that a topic refuses is not sent to it again.
			if _, err := awsapi.Do[awssns.PublishOutput](as, s.cfg.API, in); err != nil && ctx.Err() == nil {
				s.log.Warn("sending an event of a stack to a topic", "stack", o.arn, "topic", topic, "err", err)
			}
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return 0, errors.Join(store.IgnoreNotFound(err), store.IgnoreNotFound(stacks.UpdateOne(ctx, s.store, key, func(now *stackRecord) error {
		now.Unpublished = min(now.Unpublished, now.Events-next+1)
		return nil
	})))
}

// notification returns the message about an event.
// [seen] in messages that users of AWS have published; the values are not escaped
func (o *operation) notification(e *eventRecord) string {
	var b strings.Builder
	for _, line := range [][2]string{
		{"StackId", o.arn}, {"Timestamp", e.Time.Format("2006-01-02T15:04:05.000Z")}, {"EventId", e.ID}, {"LogicalResourceId", e.LogicalID}, {"Namespace", o.key.Account},
		{"PhysicalResourceId", e.PhysicalID}, {"PrincipalId", o.rec.Operation.Caller.UserID}, {"ResourceProperties", cmp.Or(e.Properties, "null")}, {"ResourceStatus", e.Status},
		{"ResourceStatusReason", e.Reason}, {"ResourceType", e.Type}, {"StackName", o.rec.Name}, {"ClientRequestToken", cmp.Or(e.Token, "null")},
	} {
		b.WriteString(line[0] + "='" + line[1] + "'\n")
	}
	return b.String()
}

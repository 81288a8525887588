package events

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/schedule"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// atOnce is how many deliveries run at the same time.
	atOnce = 16
	// longestPause is the longest interval between checks for due deliveries.
	longestPause = time.Hour
	// firstRetry is the interval before the first retry of a delivery. It doubles with every retry,
	// up to longestRetry.
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	// Default retry limits for targets.
	// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html
	defaultAge     = 24 * time.Hour
	defaultRetries = 185
	// mostMissed is how many times of a schedule are made up for if they passed since the last
	// check.
	mostMissed = 60
)

func scopeAt(account, region string) scope { return scope{regional.At(account, region)} }

// Run delivers events and runs schedules until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.load(); err != nil {
		return err
	}
	looked := s.clock.Now()
	for {
		now := s.clock.Now()
		wait := min(s.keepSchedules(looked, now), longestPause)
		looked = now
		due, next := s.due(now)
		if len(due) > 0 {
			if err := s.deliverAll(ctx, due); err != nil && ctx.Err() == nil {
				s.log.Warn("events: writing what was delivered", "err", err)
			}
			next = 0
		}
		if ctx.Err() != nil {
			return nil
		}
		wait = max(min(wait, next), time.Millisecond)
		t := s.clock.NewTimer(wait)
		if s.clock.Since(now) >= wait {
			t.Stop() // the time has passed before the timer started
			continue
		}
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-s.wake:
			t.Stop()
		case <-t.C():
		}
	}
}

// load reads the deliveries that an earlier daemon did not complete.
func (s *Service) load() error {
	for _, b := range s.bytes.Buckets(kind) {
		err := s.bytes.Scan(b, []byte{deliveryLetter}, func(key, raw []byte, err error) error {
			d := &delivery{}
			if err == nil {
				*d, err = deliveries.Decode(raw)
			}
			if err != nil {
				s.log.Warn("events: skipping an event that cannot be read", "err", err)
				return nil
			}
			s.mu.Lock()
			s.pending[deliveryID{b, binary.BigEndian.Uint64(key[1:])}] = d
			s.mu.Unlock()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// due returns some of the due deliveries, and the time until the next one is due.
func (s *Service) due(now time.Time) (map[deliveryID]*delivery, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, next := map[deliveryID]*delivery{}, longestPause
	for id, d := range s.pending {
		if left := d.Due.Sub(now); left > 0 {
			next = min(next, left)
		} else if len(out) < 4*atOnce {
			out[id] = d
		}
	}
	return out, next
}

// deliverAll runs deliveries, and keeps those on disk that must be retried.
func (s *Service) deliverAll(ctx context.Context, due map[deliveryID]*delivery) error {
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	var mu sync.Mutex
	var writes []bytestore.Write
	for id, d := range due {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			again := s.deliver(ctx, scopeAt(id.bucket.Account, id.bucket.Name), d)
			if ctx.Err() != nil {
				return // the next daemon delivers it
			}
			write := bytestore.Delete(id.bucket, id.key())
			if again != nil {
				raw, err := deliveries.Encode(*again)
				if err != nil {
					again = nil
				} else {
					write = bytestore.Put(id.bucket, id.key(), raw)
				}
			}
			mu.Lock()
			writes = append(writes, write)
			mu.Unlock()
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, ok := s.pending[id]; !ok {
				return // dropped by a reset
			}
			if again == nil {
				delete(s.pending, id)
			} else {
				s.pending[id] = again
			}
		})
	}
	group.Wait()
	return s.bytes.Do(writes...).Wait()
}

// deliver runs a delivery. It returns the delivery to be retried, or nil if it is complete.
func (s *Service) deliver(ctx context.Context, sc scope, d *delivery) *delivery {
	now := s.now()
	asEvents := awsapi.AsServicePrincipal(ctx, sc.Account, sc.Region, principal, d.Rule, now)
	err := s.call(asEvents, d, now)
	if err == nil {
		return nil
	}
	next := *d
	next.Attempts++
	next.Code, next.Message = "INTERNAL_ERROR", err.Error()
	final := ""
	var api smithy.APIError
	if errors.As(err, &api) {
		next.Message = api.ErrorMessage()
		switch code := api.ErrorCode(); {
		case awsapi.IsThrottle(err):
			next.Code = "THROTTLING"
		case api.ErrorFault() == smithy.FaultServer:
		case strings.HasPrefix(code, "AccessDenied"):
			next.Code, final = "NO_PERMISSIONS", "NonRetryableError"
		case strings.Contains(code, "DoesNotExist") || strings.Contains(code, "NonExistent") || strings.Contains(code, "NotFound"):
			next.Code, final = "NO_RESOURCE", "NonRetryableError"
		default:
			next.Code, final = "SDK_CLIENT_ERROR", "NonRetryableError"
		}
	}
	age, retries := defaultAge, defaultRetries
	if d.Target.MaxAge != nil {
		age = time.Duration(*d.Target.MaxAge) * time.Second
	}
	if d.Target.MaxRetries != nil {
		retries = int(*d.Target.MaxRetries)
	}
	switch next.Due = now.Add(min(firstRetry<<min(next.Attempts-1, 30), longestRetry)); {
	case final != "":
	case next.Attempts > retries:
		final = "MaximumRetryAttempts"
	case next.Due.Sub(d.Time) > age:
		final = "MaximumEventAgeInSeconds"
	default:
		return &next
	}
	s.log.Info("events: giving up a delivery", "rule", d.Rule, "target", d.Target.ARN, "err", err)
	if d.Target.DeadLetter != "" {
		if err := s.sendDeadLetter(asEvents, &next, final); err != nil {
			s.log.Warn("events: sending to a dead-letter queue", "rule", d.Rule, "queue", d.Target.DeadLetter, "err", err)
		}
	}
	return nil
}

// call calls the target.
func (s *Service) call(ctx context.Context, d *delivery, now time.Time) error {
	a, err := arn.Parse(d.Target.ARN)
	if err != nil {
		return err
	}
	if a.Service == "sqs" {
		in := &awssqs.SendMessageInput{QueueUrl: &d.Target.ARN, MessageBody: &d.Body, MessageGroupId: text(d.Target.Group)}
		_, err := s.cfg.SQS.SendMessage(ctx, in)
		return err
	}
	if a.Service == "sns" {
		_, err := s.cfg.SNS.Publish(ctx, &awssns.PublishInput{TopicArn: &d.Target.ARN, Message: &d.Body})
		return err
	}
	group := strings.TrimSuffix(strings.TrimPrefix(a.Resource, "log-group:"), ":*")
	// Each target has its own stream, which keeps its name after a restart.
	stream := uuid.NewSHA1(uuid.NameSpaceURL, []byte(d.Rule+" "+d.Target.ID)).String()
	put := &awslogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: []logstypes.InputLogEvent{logEvent(d, now)}}
	_, err = s.cfg.Logs.PutLogEvents(ctx, put)
	var missing *logstypes.ResourceNotFoundException
	if api := smithy.APIError(nil); !errors.As(err, &missing) && (!errors.As(err, &api) || api.ErrorCode() != "ResourceNotFoundException") {
		return err
	}
	if _, err := s.cfg.Logs.CreateLogStream(ctx, &awslogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream}); err != nil {
		return fmt.Errorf("creating the log stream: %w", err)
	}
	_, err = s.cfg.Logs.PutLogEvents(ctx, put)
	return err
}

// logEvent returns the event for a log group: what the target gets, or the timestamp and message
// from its template.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutTargets.html
func logEvent(d *delivery, now time.Time) logstypes.InputLogEvent {
	e := logstypes.InputLogEvent{Timestamp: aws.Int64(now.UnixMilli()), Message: &d.Body}
	var made struct {
		Timestamp *int64
		Message   json.RawMessage
	}
	if d.Target.Template == "" || json.Unmarshal([]byte(d.Body), &made) != nil || made.Message == nil {
		return e
	}
	message := string(made.Message)
	if json.Unmarshal(made.Message, &message) != nil {
		message = string(made.Message) // not a string
	}
	if e.Message = &message; made.Timestamp != nil {
		e.Timestamp = made.Timestamp
	}
	return e
}

// sendDeadLetter sends the event of a failed delivery to its dead-letter queue.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
func (s *Service) sendDeadLetter(ctx context.Context, d *delivery, condition string) error {
	attributes := map[string]sqstypes.MessageAttributeValue{}
	for name, value := range map[string]string{
		"RULE_ARN": d.Rule, "TARGET_ARN": d.Target.ARN, "ERROR_CODE": d.Code, "ERROR_MESSAGE": d.Message, "EXHAUSTED_RETRY_CONDITION": condition,
		"RETRY_ATTEMPTS": strconv.Itoa(d.Attempts - 1),
	} {
		if value != "" {
			attributes[name] = sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
		}
	}
	_, err := s.cfg.SQS.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: &d.Target.DeadLetter, MessageBody: aws.String(string(d.Event)), MessageAttributes: attributes})
	return err
}

// keepSchedules sends the events of schedules that became due between two times, and returns the
// time until the next one is due.
func (s *Service) keepSchedules(after, now time.Time) time.Duration {
	wait := longestPause
	for _, item := range rules.All(s.store, store.Scope{}) {
		r := &item.Value
		if r.Schedule == "" || r.Disabled || len(r.Targets) == 0 {
			continue
		}
		sched, err := schedule.Parse(r.Schedule)
		if err != nil {
			continue // validated when it was set
		}
		sc := scopeAt(item.Key.Account, item.Key.Region)
		at, ok := sched.Next(r.Started, after)
		for n := 0; ok && !at.After(now); at, ok = sched.Next(r.Started, at) {
			if n++; n > mostMissed {
				break
			}
			if err := s.fire(sc, r, at); err != nil {
				s.log.Warn("events: the event of a schedule", "rule", r.Name, "err", err)
			}
		}
		if ok {
			wait = min(wait, max(at.Sub(now), 0))
		}
	}
	return wait
}

// fire sends the event of a schedule to the rule's own targets.
func (s *Service) fire(sc scope, r *ruleRecord, at time.Time) error {
	raw, err := marshal(&serviceevents.Event{
		Version: "0", ID: ids.UUID(), DetailType: "Scheduled Event", Source: "aws.events", Account: sc.Account, Time: formatTime(at), Region: sc.Region,
		Resources: []string{sc.ruleARN(r.Bus, r.Name)}, Detail: json.RawMessage("{}"),
	})
	if err != nil {
		return err
	}
	_, err = s.enqueue(sc, s.toTargets(sc, r, raw))
	return err
}

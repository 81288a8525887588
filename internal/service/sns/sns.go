// Package sns implements the part of Amazon SNS that connects services: standard topics, their policies, and
// subscriptions of SQS queues, with filter policies and raw delivery. When the call that publishes a message returns,
// the message has reached all queues.
//
//	aws sns publish ──► filter policies ──► SQS, as sns.amazonaws.com
//	                                        └─ refused ──► the subscription's dead-letter queue
//
// Package authz makes access decisions, including topic policies. Only the composition root imports the package.
package sns

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/eventpattern"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// SQS has the operation that SNS uses to deliver messages.
type SQS interface {
	SendMessage(context.Context, *awssqs.SendMessageInput) (*awssqs.SendMessageOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	SQS   SQS
	Clock clock.PassiveClock // nil means the real clock
	Log   *slog.Logger       // nil means slog.Default
}

// Service is Amazon SNS.
type Service struct {
	store *store.Store
	sqs   SQS
	clock clock.PassiveClock
	log   *slog.Logger
	docs  policy.Documents

	mu sync.Mutex
	// filters are parsed filter policies, by text.
	filters map[string]*eventpattern.Pattern
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, sqs: cfg.SQS, clock: cfg.Clock, log: cfg.Log, filters: map[string]*eventpattern.Pattern{}}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(topic string) string { return arn.New("sns", sc.Region, sc.Account, topic) }

// parse returns the account, the topic and the subscription in an ARN. The ARN of a topic has no subscription.
func (sc scope) parse(name string) (at scope, topic, subscription string, ok bool) {
	a, err := arn.Parse(name)
	if err != nil || a.Service != "sns" || a.Region != sc.Region || a.Account == "" {
		return sc, "", "", false
	}
	topic, subscription, _ = strings.Cut(a.Resource, ":")
	return scope{regional.At(a.Account, a.Region)}, topic, subscription, true
}

// topic returns the topic with an ARN.
func (s *Service) topic(r store.Reader, sc scope, name *string) (topicRecord, scope, error) {
	at, topic, subscription, ok := sc.parse(deref(name))
	if !ok || subscription != "" {
		return topicRecord{}, sc, errTopicARN(deref(name))
	}
	t, err := topics.Get(r, at.Key(topic))
	return t, at, store.NotFoundAs(err, errNoTopic())
}

// changeTopic changes the topic with an ARN.
func (s *Service) changeTopic(ctx context.Context, name *string, fn func(scope, *topicRecord) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		t, at, err := s.topic(tx, scopeOf(ctx), name)
		if err != nil {
			return err
		}
		if err := fn(at, &t); err != nil {
			return err
		}
		return topics.Put(tx, at.Key(t.Name), t)
	})
}

// subscription returns the subscription with an ARN.
func (s *Service) subscription(r store.Reader, sc scope, name *string) (subscriptionRecord, scope, error) {
	at, topic, id, ok := sc.parse(deref(name))
	if !ok || id == "" {
		return subscriptionRecord{}, sc, errSubscriptionARN(deref(name))
	}
	out, err := subscriptions.Get(r, at.Key(topic+"/"+id))
	return out, at, store.NotFoundAs(err, errNoSubscription())
}

// filter parses a filter policy, or returns one that was parsed before.
func (s *Service) filter(text string) (*eventpattern.Pattern, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.filters[text]; ok {
		return p, nil
	}
	p, err := eventpattern.Parse(text)
	if err != nil {
		return nil, err
	}
	if len(s.filters) >= 1000 {
		s.filters = map[string]*eventpattern.Pattern{}
	}
	s.filters[text] = p
	return p, nil
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

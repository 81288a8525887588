// Package events answers Amazon EventBridge: event buses, rules with patterns and schedules, and
// deliveries to SQS queues, SNS topics and CloudWatch Logs log groups.
//
// Buses and rules are records in the store. Deliveries in progress are in the byte store, so that
// an event that PutEvents has accepted survives a crash.
//
//	PutEvents, schedules, Emit ─► rules that match ─► delivery ─► target
//	                                                     │ fails
//	                                                     └─► later again ─► dead-letter queue
//
// Targets are called through the AWS API server as events.amazonaws.com, which the policy of a
// queue or of the log groups must allow.
//
// Package authz makes access decisions, including the policies of buses. Only the composition root
// imports the package.
package events

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/eventpattern"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// SQS are the operations of SQS that EventBridge calls.
type SQS interface {
	SendMessage(context.Context, *awssqs.SendMessageInput) (*awssqs.SendMessageOutput, error)
}

// SNS are the operations of SNS that EventBridge calls.
type SNS interface {
	Publish(context.Context, *awssns.PublishInput) (*awssns.PublishOutput, error)
}

// Logs are the operations of CloudWatch Logs that EventBridge calls.
type Logs interface {
	CreateLogStream(context.Context, *awslogs.CreateLogStreamInput) (*awslogs.CreateLogStreamOutput, error)
	PutLogEvents(context.Context, *awslogs.PutLogEventsInput) (*awslogs.PutLogEventsOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	Bytes *bytestore.Store
	SQS   SQS
	SNS   SNS
	Logs  Logs
	Clock clock.WithTicker // nil means the real clock
	Log   *slog.Logger     // nil means slog.Default
}

// Service is Amazon EventBridge.
type Service struct {
	cfg   Config
	store *store.Store
	bytes *bytestore.Store
	clock clock.WithTicker
	log   *slog.Logger

	parsed parsed
	docs   policy.Documents

	// mu guards the fields below. It is not held while waiting for the disk.
	mu sync.Mutex
	// pending are the deliveries that are not complete, by their place on disk.
	pending map[deliveryID]*delivery
	last    uint64 // number of the latest delivery
	wake    chan struct{}
}

// New returns the service. Call Run to deliver events and run schedules.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, bytes: cfg.Bytes, clock: cfg.Clock, log: cfg.Log, pending: map[deliveryID]*delivery{}, wake: make(chan struct{}, 1)}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

const (
	// principal is the principal that calls targets.
	principal = "events.amazonaws.com"
	// kind is the kind of the service's buckets in the byte store.
	kind = "events"
	// defaultBus is the bus that every account has in every region.
	defaultBus = "default"
)

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) busARN(bus string) string {
	return arn.New("events", sc.Region, sc.Account, "event-bus/"+bus)
}

func (sc scope) ruleARN(bus, rule string) string {
	if bus != defaultBus {
		rule = bus + "/" + rule
	}
	return arn.New("events", sc.Region, sc.Account, "rule/"+rule)
}

func (sc scope) bucket() bytestore.Bucket {
	return bytestore.Bucket{Account: sc.Account, Kind: kind, Name: sc.Region}
}

// parseBus parses a reference to a bus in a request: empty, a name, or an ARN, which may be in
// another account.
func (sc scope) parseBus(name *string) (scope, string) {
	if name == nil {
		return sc, defaultBus
	}
	a, err := arn.Parse(*name)
	if err != nil || a.Service != "events" {
		return sc, *name
	}
	bus, _ := strings.CutPrefix(a.Resource, "event-bus/")
	return scope{regional.At(a.Account, a.Region)}, bus
}

// parseARN parses the ARN of a bus or of a rule.
func parseARN(text string) (sc scope, bus, rule string, ok bool) {
	a, err := arn.Parse(text)
	if err != nil || a.Service != "events" {
		return sc, "", "", false
	}
	sc = scope{regional.At(a.Account, a.Region)}
	if bus, ok := strings.CutPrefix(a.Resource, "event-bus/"); ok {
		return sc, bus, "", bus != ""
	}
	name, ok := strings.CutPrefix(a.Resource, "rule/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return sc, name[:i], name[i+1:], ok
	}
	return sc, defaultBus, name, ok && name != ""
}

// bus returns the record of a bus. The default bus exists even without a record.
func (s *Service) bus(r store.Reader, sc scope, name string) (busRecord, error) {
	b, err := buses.Get(r, sc.Key(name))
	if name == defaultBus && notFound(err) {
		return busRecord{Name: defaultBus}, nil
	}
	return b, store.NotFoundAs(err, errNoBus(name))
}

// rule returns the record of a rule.
func (s *Service) rule(r store.Reader, sc scope, bus, name string) (ruleRecord, error) {
	if _, err := s.bus(r, sc, bus); err != nil {
		return ruleRecord{}, err
	}
	rec, err := rules.Get(r, sc.Key(bus+"/"+name))
	return rec, store.NotFoundAs(err, errNoRule(bus, name))
}

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// Reset drops the state of an account, or of all accounts, from memory. The caller then empties the
// byte store.
func (s *Service) Reset(_ context.Context, account string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.pending {
		if account == "" || id.bucket.Account == account {
			delete(s.pending, id)
		}
	}
	return nil
}

// parsed are parsed patterns by text.
type parsed struct {
	mu       sync.Mutex
	patterns map[string]*eventpattern.Pattern
}

const maxParsed = 1000

func (p *parsed) get(text string) (*eventpattern.Pattern, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.patterns[text]; known != nil {
		return known, nil
	}
	made, err := eventpattern.Parse(text)
	if err != nil {
		return nil, err
	}
	if p.patterns == nil || len(p.patterns) >= maxParsed {
		p.patterns = map[string]*eventpattern.Pattern{}
	}
	p.patterns[text] = made
	return made, nil
}

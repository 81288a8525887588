// Package sqs answers Amazon SQS: standard and FIFO queues with every feature that their clients
// use.
//
// Queues are records in the store. Each message has two values in the byte store: its changing
// state (when it is visible, how often it was received) and its content. Whatever is needed to
// select messages is also in memory (queue), and is loaded when a queue is first used. Sends,
// deletions and visibility changes are on disk before the response.
//
//	SendMessage ─► delayed ─► visible ─► ReceiveMessage ─► in flight ─► DeleteMessage
//	                             ▲                            │
//	                             └── the timeout has passed ◄─┘ (too often: to the dead-letter queue)
//
// Package authz makes access decisions, including queue policies. Only the composition root imports
// the package.
package sqs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// KMS are the operations that SQS calls on its caller's behalf for queues with a KMS key.
type KMS interface {
	Decrypt(context.Context, *awskms.DecryptInput) (*awskms.DecryptOutput, error)
	GenerateDataKey(context.Context, *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	Bytes *bytestore.Store
	KMS   KMS
	// PrincipalExists reports whether a queue policy may name a principal. nil means that it may
	// name any.
	PrincipalExists func(ctx context.Context, arn string) bool
	// Draining returns a channel that is closed when the daemon shuts down: waiting receivers then
	// return without messages. nil means that it never is.
	Draining func(context.Context) <-chan struct{}
	// Pause is how long the name of a deleted queue cannot be reused, and how long a purged queue
	// cannot be purged again.
	Pause time.Duration
	Clock clock.WithTicker // nil means the real clock
	Log   *slog.Logger     // nil means slog.Default
}

// Service is Amazon SQS.
type Service struct {
	cfg   Config
	store *store.Store
	bytes *bytestore.Store
	clock clock.WithTicker
	log   *slog.Logger
	docs  policy.Documents
	keys  dataKeys

	// mu guards the queues and everything in them. It is not held while waiting for the disk,
	// except to load a queue.
	mu      sync.Mutex
	queues  map[string]*queue // by ID of the queue's record
	deleted map[store.Key]time.Time
	// moves wakes the goroutine that runs move tasks.
	moves chan struct{}
}

// New returns the service. Call Run to expire messages and run move tasks.
func New(cfg Config) *Service {
	s := &Service{
		cfg: cfg, store: cfg.Store, bytes: cfg.Bytes, clock: cfg.Clock, log: cfg.Log,
		queues: map[string]*queue{}, deleted: map[store.Key]time.Time{}, moves: make(chan struct{}, 1),
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

func (s *Service) draining(ctx context.Context) <-chan struct{} {
	if s.cfg.Draining == nil {
		return nil
	}
	return s.cfg.Draining(ctx)
}

// kind is the kind of the service's buckets in the byte store.
const kind = "sqs"

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(name string) string { return arn.New("sqs", sc.Region, sc.Account, name) }

func (sc scope) url(name string) string {
	return "https://sqs." + sc.Region + ".amazonaws.com/" + sc.Account + "/" + name
}

func (sc scope) bucket(id string) bytestore.Bucket {
	return bytestore.Bucket{Account: sc.Account, Kind: kind, Name: sc.Region + "/" + id}
}

// parseURL returns the account and name in a queue's URL. Clients may send a URL with any host, or
// just the name.
func parseURL(sc scope, url string) (scope, string) {
	if strings.HasPrefix(url, "arn:") {
		return parseARN(sc, url)
	}
	i := strings.LastIndexByte(url, '/')
	if i < 0 {
		return sc, url
	}
	rest, name := url[:i], url[i+1:]
	if account := rest[strings.LastIndexByte(rest, '/')+1:]; isAccount(account) {
		sc.Account = account
	}
	return sc, name
}

// parseARN parses a queue's ARN. The name is empty if it is not a queue's ARN in the region.
func parseARN(sc scope, text string) (scope, string) {
	a, err := arn.Parse(text)
	if err != nil || a.Service != "sqs" || a.Partition != awsapi.Partition || a.Region != sc.Region || !isAccount(a.Account) {
		return sc, ""
	}
	return scope{regional.At(a.Account, a.Region)}, a.Resource
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// find returns the record of the queue whose URL is in a request.
func (s *Service) find(ctx context.Context, url *string) (queueRecord, scope, error) {
	sc, name := parseURL(scopeOf(ctx), *url)
	rec, err := queues.Get(s.store, sc.Key(name))
	if errors.Is(err, store.ErrNotFound) {
		return rec, sc, errNoQueue()
	}
	return rec, sc, err
}

// Reset drops the queues of an account, or all queues, from memory. The caller then empties the
// byte store.
func (s *Service) Reset(_ context.Context, account string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, q := range s.queues {
		if account == "" || q.sc.Account == account {
			q.close()
			delete(s.queues, id)
		}
	}
	for key := range s.deleted {
		if account == "" || key.Account == account {
			delete(s.deleted, key)
		}
	}
	return nil
}

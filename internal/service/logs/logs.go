// Package logs answers Amazon CloudWatch Logs: log groups and streams, their events, and the
// policies by which an account allows AWS services to write events.
//
// Groups, streams and policies are records in the store. Events are in the byte store, in one
// bucket per group, ordered by time. So searches, retention and the account's limit all read or
// remove part of a bucket from its beginning.
//
//	PutLogEvents ─► 'e' TIME STREAM SEQUENCE ─► GetLogEvents, FilterLogEvents
//	            └─► 's' STREAM: the state that DescribeLogStreams shows
//
// Package authz makes access decisions, including resource policies. Only the composition root
// imports the package.
package logs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// KMS is the operation that CloudWatch Logs calls, as itself, before it sets a group's key.
type KMS interface {
	GenerateDataKey(context.Context, *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	Bytes *bytestore.Store
	KMS   KMS
	// Limit is the maximum total size of an account's events in bytes. To make room for new ones,
	// the oldest events of its largest group are removed. 0 means DefaultLimit.
	Limit int64
	Clock clock.WithTicker // nil means the real clock
	Log   *slog.Logger     // nil means slog.Default
}

// DefaultLimit is the default maximum size of an account's events in bytes: half of what the
// account may store.
const DefaultLimit = bytestore.DefaultRoom / 2

// Service is Amazon CloudWatch Logs.
type Service struct {
	cfg   Config
	store *store.Store
	bytes *bytestore.Store
	clock clock.WithTicker
	log   *slog.Logger

	docs policy.Documents

	// mu orders the writes to a stream. It is held while writes are submitted, but not while
	// waiting for the disk.
	mu sync.Mutex
	// streams are the states of streams that have been written to since the start.
	streams map[streamID]*streamState
	// written is how much each account has written since its limit was last checked.
	written map[string]int64
}

// New returns the service. Call Run to remove expired events.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, bytes: cfg.Bytes, clock: cfg.Clock, log: cfg.Log, streams: map[streamID]*streamState{}, written: map[string]int64{}}
	if s.cfg.Limit == 0 {
		s.cfg.Limit = DefaultLimit
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// kind is the kind of the service's buckets in the byte store.
const kind = "logs"

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) groupARN(name string) string {
	return arn.New("logs", sc.Region, sc.Account, "log-group:"+name)
}

func (sc scope) streamARN(group, stream string) string {
	return sc.groupARN(group) + ":log-stream:" + stream
}

func (sc scope) bucket(groupID string) bytestore.Bucket {
	return bytestore.Bucket{Account: sc.Account, Kind: kind, Name: sc.Region + "/" + groupID}
}

// groupName parses a reference to a group in a request: its name or its ARN, which may end in :*.
// The name is empty if the ARN is not that of a group in the scope.
func (sc scope) groupName(identifier string) string {
	if !strings.HasPrefix(identifier, "arn:") {
		return identifier
	}
	name, ok := strings.CutPrefix(identifier, sc.groupARN(""))
	if !ok {
		return ""
	}
	return strings.TrimSuffix(name, ":*")
}

// named returns the name of the group that a request gives by name or identifier.
func (sc scope) named(name, identifier *string) (string, error) {
	switch {
	case name != nil && identifier != nil:
		return "", errNameAndIdentifier()
	case name == nil && identifier == nil:
		return "", errNoName()
	case name != nil:
		return *name, nil
	}
	return sc.groupName(*identifier), nil
}

// group returns the record of a group.
func (s *Service) group(sc scope, name string) (groupRecord, error) {
	if name == "" {
		return groupRecord{}, errNoGroup()
	}
	g, err := groups.Get(s.store, sc.Key(name))
	return g, store.NotFoundAs(err, errNoGroup())
}

// stream returns the record of a stream.
func (s *Service) stream(sc scope, g *groupRecord, name string) (streamRecord, error) {
	r, err := streams.Get(s.store, sc.Key(g.ID+"/"+name))
	return r, store.NotFoundAs(err, errNoStream())
}

// changeGroup changes the record of a group.
func (s *Service) changeGroup(ctx context.Context, name string, fn func(*groupRecord) error) error {
	if name == "" {
		return errNoGroup()
	}
	return store.NotFoundAs(groups.UpdateOne(ctx, s.store, scopeOf(ctx).Key(name), fn), errNoGroup())
}

// Reset drops the state of an account, or of all accounts, from memory. The caller then empties the
// byte store.
func (s *Service) Reset(_ context.Context, account string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.streams {
		if account == "" || id.account == account {
			delete(s.streams, id)
		}
	}
	return nil
}

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

func millis(t time.Time) *int64 { return aws.Int64(t.UnixMilli()) }

// Package logs answers Amazon CloudWatch Logs: log groups and streams, their events, and
// the policies of an account that let AWS services write events.
//
// Groups, streams and policies are records of the store. Events are in the store of bytes,
// in one bucket for each group, by their time, so that a search, the end of the retention
// and the account's limit all read or remove a part of the bucket from its beginning.
//
//	PutLogEvents ─► 'e' TIME STREAM SEQUENCE ─► GetLogEvents, FilterLogEvents
//	            └─► 's' STREAM: what DescribeLogStreams says of it
//
// Who may do what is decided by package authz, which asks resource policies, too.
// Only the composition root imports the package.
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

// KMS is what CloudWatch Logs asks of KMS, as itself, before a group gets a key.
type KMS interface {
	GenerateDataKey(context.Context, *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	Bytes *bytestore.Store
	KMS   KMS
	// Limit is how many bytes the events of an account may have. The oldest ones of its
	// largest group make room for new ones. 0 means DefaultLimit.
	Limit int64
	Clock clock.WithTicker // nil: the real one
	Log   *slog.Logger     // nil: slog.Default
}

// DefaultLimit is how many bytes the events of an account may have: half of what the
// account may store.
const DefaultLimit = bytestore.DefaultRoom / 2

// Service is Amazon CloudWatch Logs.
type Service struct {
	cfg   Config
	store *store.Store
	bytes *bytestore.Store
	clock clock.WithTicker
	log   *slog.Logger

	docs documents

	// mu orders the writes to a stream. It is held while they are asked for, not while they
	// are on their way to the disk.
	mu sync.Mutex
	// streams are the states of the streams that were written to since the start.
	streams map[streamID]*streamState
	// written is how much an account has written since the last look at its limit.
	written map[string]int64
}

// New returns the service. Call Run to remove events at the end of their retention.
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

// kind is what the service's buckets are called in the store of bytes.
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

// groupName reads what a request calls a group: its name or its ARN, which may end in :*.
// The name is empty if the ARN is none of a group of the scope.
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

// named returns the name of the group that a request calls by its name or identifier.
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

// Reset forgets what is in memory of an account, or of all. The store of bytes is emptied
// next.
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

// documents are resource policies, parsed, by their texts.
type documents struct {
	mu   sync.Mutex
	docs map[string]*policy.Document
}

const maxDocuments = 1000

func (d *documents) get(text string) *policy.Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc, ok := d.docs[text]; ok {
		return doc
	}
	doc, err := policy.Parse(policy.Resource, text)
	if err != nil {
		doc = &policy.Document{} // it was checked when it was put
	}
	if d.docs == nil || len(d.docs) >= maxDocuments {
		d.docs = map[string]*policy.Document{}
	}
	d.docs[text] = doc
	return doc
}

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

func millis(t time.Time) *int64 { return aws.Int64(t.UnixMilli()) }

package ssm

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// Bounds of sessions.
const (
	tokenLife    = time.Minute
	idleTime     = 20 * time.Minute // Session Manager's default; preferences may set another time
	longest      = 24 * time.Hour   // the most that preferences may set
	maxPerTarget = 50
	maxEnded     = 200 // ended sessions that are kept per account and region
)

// A sessionRecord is a session as DescribeSessions shows it. Service.live has the sessions that are running.
type sessionRecord struct {
	ID       string
	Target   string
	Owner    string // the caller's ARN
	UserID   string // the caller's aws:userid
	Document string
	Reason   string `json:",omitempty"`
	Started  time.Time
	Ended    time.Time
}

var sessions = store.NewCollection[sessionRecord]("ssm", "session")

// errNotConnected has AWS's text. aws ssm start-session prints it as (TargetNotConnected): i-… is not connected.
func errNotConnected(target string) error {
	return &ssmtypes.TargetNotConnected{Message: aws.String(target + " is not connected.")}
}

func errNoSession(id string) error {
	return &ssmtypes.DoesNotExistException{Message: aws.String("Session " + id + " does not exist.")}
}

// StartSession starts a session with an instance. Its program starts once the client has opened the data channel.
func (s *Service) StartSession(ctx context.Context, in *awsssm.StartSessionInput) (*awsssm.StartSessionOutput, error) {
	sc, call := scopeOf(ctx), awsapi.CallFrom(ctx)
	p, err := s.planOf(ctx, sc, aws.ToString(in.DocumentName), in.Parameters)
	if err != nil {
		return nil, err
	}
	if p.preferences.RunAsEnabled && !p.program.Elevated {
		p.user = cmp.Or(call.Principal.Tags["SSMSessionRunAs"], p.preferences.RunAsDefaultUser)
	}
	target, connected := s.target(ctx, sc, aws.ToString(in.Target), ServeSessions)
	if !connected {
		return nil, errNotConnected(aws.ToString(in.Target))
	}
	rec := sessionRecord{
		ID: sessionName(&call.Principal), Target: target.ID, Owner: call.Principal.ARN, UserID: call.Principal.UserID, Document: p.document, Reason: aws.ToString(in.Reason), Started: s.now(),
	}
	l := s.admit(sc, rec, p)
	if l == nil {
		return nil, awserr.New("ThrottlingException", "Rate exceeded")
	}
	token := l.newToken()
	if err := s.record(ctx, sc, rec); err != nil {
		l.end("")
		return nil, err
	}
	go l.watch() // ends with the session
	return &awsssm.StartSessionOutput{SessionId: aws.String(rec.ID), TokenValue: &token, StreamUrl: aws.String(s.streamURL(rec.ID))}, nil
}

// admit returns a new session, or nil if its target has too many sessions or the daemon is shutting down.
func (s *Service) admit(sc scope, rec sessionRecord, p plan) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, other := range s.live {
		if other.rec.Target == rec.Target {
			count++
		}
	}
	if count >= maxPerTarget || s.ending {
		return nil
	}
	l := newLive(s, sc, rec, p)
	s.live[rec.ID] = l
	return l
}

// sessionName returns a session's ID: the caller's name and 26 random characters, as on AWS. Policies refer to the
// name, as in session/${aws:username}-*.
func sessionName(p *awsapi.Principal) string {
	name := p.Name
	switch {
	case p.SessionName != "":
		name = p.SessionName
	case p.Type == awsapi.Root || name == "":
		name = "root"
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return name + "-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// record stores the record of a new session and removes those of the oldest ended ones.
func (s *Service) record(ctx context.Context, sc scope, rec sessionRecord) error {
	var ended []store.Item[sessionRecord]
	for _, i := range sessions.All(s.store, sc.All()) {
		if !s.isLive(i.Value.ID) {
			ended = append(ended, i)
		}
	}
	slices.SortFunc(ended, func(a, b store.Item[sessionRecord]) int { return a.Value.Started.Compare(b.Value.Started) })
	ended = ended[:max(0, len(ended)-maxEnded)]
	return s.store.Update(ctx, func(tx *store.Tx) error {
		for _, i := range ended[:min(len(ended), 50)] {
			sessions.Delete(tx, i.Key)
		}
		return sessions.Create(tx, sc.Key(rec.ID), rec)
	})
}

func (s *Service) isLive(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id] != nil
}

// channelPath is the path of data channels, as on AWS.
const channelPath = "/v1/data-channel/"

func (s *Service) streamURL(id string) string {
	u := strings.Replace(s.endpoint, "http", "ws", 1)
	return u + channelPath + url.PathEscape(id) + "?role=publish_subscribe"
}

// own returns a session of the caller's account and region, or nil if the session has ended.
func (s *Service) own(ctx context.Context, id *string) (*live, error) {
	sc := scopeOf(ctx)
	s.mu.Lock()
	l := s.live[aws.ToString(id)]
	s.mu.Unlock()
	if l != nil && l.sc == sc {
		return l, nil
	}
	_, err := sessions.Get(s.store, sc.Key(aws.ToString(id)))
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoSession(aws.ToString(id))
	}
	return nil, err
}

// ResumeSession gives the client of a broken data channel a new token. If the session has ended, it returns no token.
// The plugin takes that for a timeout.
func (s *Service) ResumeSession(ctx context.Context, in *awsssm.ResumeSessionInput) (*awsssm.ResumeSessionOutput, error) {
	l, err := s.own(ctx, in.SessionId)
	if err != nil || l == nil {
		return &awsssm.ResumeSessionOutput{SessionId: in.SessionId}, err
	}
	token := l.newToken()
	return &awsssm.ResumeSessionOutput{SessionId: in.SessionId, TokenValue: &token, StreamUrl: aws.String(s.streamURL(l.rec.ID))}, nil
}

// TerminateSession ends a session.
func (s *Service) TerminateSession(ctx context.Context, in *awsssm.TerminateSessionInput) (*awsssm.TerminateSessionOutput, error) {
	l, err := s.own(ctx, in.SessionId)
	if err != nil {
		return nil, err
	}
	if l != nil {
		l.end("")
	}
	return &awsssm.TerminateSessionOutput{SessionId: in.SessionId}, nil
}

// DescribeSessions lists the account's sessions, newest first.
func (s *Service) DescribeSessions(ctx context.Context, in *awsssm.DescribeSessionsInput) (*awsssm.DescribeSessionsOutput, error) {
	sc := scopeOf(ctx)
	var all []ssmtypes.Session
	for _, i := range sessions.All(s.store, sc.All()) {
		r := i.Value
		active := s.isLive(r.ID)
		if active != (in.State == ssmtypes.SessionStateActive) {
			continue
		}
		out := ssmtypes.Session{
			SessionId: aws.String(r.ID), Target: aws.String(r.Target), Owner: aws.String(r.Owner), DocumentName: aws.String(r.Document), StartDate: aws.Time(r.Started),
			Reason: optional(r.Reason), Status: ssmtypes.SessionStatusConnected, AccessType: ssmtypes.AccessTypeStandard, OutputUrl: &ssmtypes.SessionManagerOutputUrl{},
		}
		if !active {
			out.Status = ssmtypes.SessionStatusTerminated
			out.EndDate = aws.Time(r.Started) // if the daemon ended during the session
			if !r.Ended.IsZero() {
				out.EndDate = aws.Time(r.Ended)
			}
		}
		ok, err := passes(&out, in.Filters)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, out)
		}
	}
	slices.SortStableFunc(all, func(a, b ssmtypes.Session) int { return b.StartDate.Compare(*a.StartDate) })
	list, next, err := paging.CutInOrder(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all,
		func(x ssmtypes.Session) string { return *x.SessionId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.DescribeSessionsOutput{Sessions: append([]ssmtypes.Session{}, list...), NextToken: next}, nil
}

func passes(x *ssmtypes.Session, filters []ssmtypes.SessionFilter) (bool, error) {
	for _, f := range filters {
		value, ok := aws.ToString(f.Value), false
		switch f.Key {
		case ssmtypes.SessionFilterKeyTargetId:
			ok = *x.Target == value
		case ssmtypes.SessionFilterKeyOwner:
			ok = *x.Owner == value
		case ssmtypes.SessionFilterKeyStatus:
			ok = string(x.Status) == value
		case ssmtypes.SessionFilterKeySessionId:
			ok = *x.SessionId == value
		case ssmtypes.SessionFilterKeyInvokedAfter, ssmtypes.SessionFilterKeyInvokedBefore:
			var err error
			if ok, err = invoked(string(f.Key), value, *x.StartDate); err != nil {
				return false, err
			}
		case ssmtypes.SessionFilterKeyAccessType:
			ok = string(x.AccessType) == value
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// newToken returns a token that opens the data channel once, within a minute. Earlier tokens become invalid.
func (l *live) newToken() string {
	var b [48]byte
	_, _ = rand.Read(b[:]) // never fails
	token := base64.StdEncoding.EncodeToString(b[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.tokenUntil = sha256.Sum256([]byte(token)), l.s.clock.Now().Add(tokenLife)
	return token
}

// admit reports whether a token opens the data channel now. If so, it uses the token up.
func (l *live) admit(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := sha256.Sum256([]byte(token))
	ok := subtle.ConstantTimeCompare(sum[:], l.token[:]) == 1 && l.s.clock.Now().Before(l.tokenUntil)
	if ok {
		l.tokenUntil = time.Time{}
	}
	return ok
}

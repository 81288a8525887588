package events

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/eventpattern"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/serviceevents"
)

// maxEntries is the maximum total size of the entries in a request.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html#eb-putevent-size
const maxEntries = 256 << 10

// PutEvents sends events to the rules of buses. Accepted events are on disk when it returns.
func (s *Service) PutEvents(ctx context.Context, in *awsevents.PutEventsInput) (*awsevents.PutEventsOutput, error) {
	sc, size := scopeOf(ctx), 0
	for _, e := range in.Entries {
		size += len(aws.ToString(e.Source)) + len(aws.ToString(e.DetailType)) + len(aws.ToString(e.Detail))
		for _, r := range e.Resources {
			size += len(r)
		}
		if e.Time != nil {
			size += 14
		}
	}
	if size > maxEntries {
		return nil, errTooLarge()
	}
	out := &awsevents.PutEventsOutput{}
	var commits []*bytestore.Commit
	for i := range in.Entries {
		e := &in.Entries[i]
		if code, message := refusal(e); code != "" {
			out.FailedEntryCount++
			out.Entries = append(out.Entries, eventstypes.PutEventsResultEntry{ErrorCode: &code, ErrorMessage: &message})
			continue
		}
		event := serviceevents.Event{
			Version: "0", ID: ids.UUID(), DetailType: *e.DetailType, Source: *e.Source, Account: sc.Account, Time: s.now().Format(serviceevents.TimeForm), Region: sc.Region,
			Resources: e.Resources, Detail: json.RawMessage(*e.Detail),
		}
		if e.Time != nil {
			event.Time = e.Time.UTC().Format(serviceevents.TimeForm)
		}
		to, bus := sc.parseBus(e.EventBusName)
		commit, err := s.send(to, bus, &event)
		if err != nil {
			code, message := "InternalFailure", err.Error()
			out.FailedEntryCount++
			out.Entries = append(out.Entries, eventstypes.PutEventsResultEntry{ErrorCode: &code, ErrorMessage: &message})
			continue
		}
		if commit != nil {
			commits = append(commits, commit)
		}
		out.Entries = append(out.Entries, eventstypes.PutEventsResultEntry{EventId: &event.ID})
	}
	for _, c := range commits {
		if err := c.Wait(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// refusal returns the reason why an entry is not accepted.
func refusal(e *eventstypes.PutEventsRequestEntry) (code, message string) {
	for _, m := range []struct {
		name  string
		value *string
	}{{"Source", e.Source}, {"DetailType", e.DetailType}, {"Detail", e.Detail}} {
		if aws.ToString(m.value) == "" {
			return "InvalidArgument", "Parameter " + m.name + " is not valid. Reason: " + m.name + " is a required argument."
		}
	}
	if !strings.HasPrefix(strings.TrimSpace(*e.Detail), "{") || !json.Valid([]byte(*e.Detail)) {
		return "MalformedDetail", "Detail is malformed."
	}
	if strings.HasPrefix(*e.Source, "aws.") {
		return "NotAuthorizedForSourceException", "Not authorized for the source."
	}
	return "", ""
}

// EmitOnce sends an event of an AWS service to the default bus, about a new state of
// something, unless the last event about it was of that state already. The state is on disk
// together with the event's deliveries, so that a crash neither loses nor repeats the event.
// A nil event notes the state only.
func (s *Service) EmitOnce(account, region, thing, state string, e *serviceevents.Event) error {
	sc := scopeAt(account, region)
	if s.Emitted(account, region, thing) == state {
		return nil
	}
	raw, err := marks.Encode(mark{state})
	if err != nil {
		return err
	}
	write := bytestore.Put(sc.bucket(), markKey(thing), raw)
	if e == nil {
		return s.bytes.Do(write).Wait()
	}
	return s.emit(sc, e, write)
}

// Emit sends an event of an AWS service to the default bus.
func (s *Service) Emit(account, region string, e *serviceevents.Event) error {
	return s.emit(scopeAt(account, region), e)
}

func (s *Service) emit(sc scope, e *serviceevents.Event, writes ...bytestore.Write) error {
	e.Version, e.Account, e.Region = "0", sc.Account, sc.Region
	if e.ID == "" {
		e.ID = ids.UUID()
	}
	if e.Time == "" {
		e.Time = formatTime(s.now())
	}
	c, err := s.send(sc, defaultBus, e, writes...)
	if err != nil || c == nil {
		return err
	}
	return c.Wait()
}

// Emitted returns the state that the last event about something was of; empty if there was
// none.
func (s *Service) Emitted(account, region, thing string) string {
	raw, err := s.bytes.Get(scopeAt(account, region).bucket(), markKey(thing))
	if err != nil {
		return ""
	}
	m, err := marks.Decode(raw)
	if err != nil {
		return ""
	}
	return m.State
}

// Forget removes what is known of the events about something, and about what is below it.
func (s *Service) Forget(account, region, thing string) error {
	bucket := scopeAt(account, region).bucket()
	writes := []bytestore.Write{bytestore.Delete(bucket, markKey(thing))}
	if err := s.bytes.Scan(bucket, markKey(thing+"/"), func(key, _ []byte, _ error) error {
		writes = append(writes, bytestore.Delete(bucket, bytes.Clone(key)))
		return nil
	}); err != nil {
		return err
	}
	return s.bytes.Do(writes...).Wait()
}

// send enqueues deliveries of an event to the targets of all matching rules of a bus. The commit is
// nil if there is nothing to write. A bus that does not exist has no rules.
func (s *Service) send(sc scope, bus string, e *serviceevents.Event, writes ...bytestore.Write) (*bytestore.Commit, error) {
	if e.Resources == nil {
		e.Resources = []string{}
	}
	raw, err := marshal(e)
	if err != nil {
		return nil, err
	}
	var parsed *eventpattern.Event
	var all []*delivery
	for _, item := range rules.All(s.store, sc.Below(bus)) {
		r := &item.Value
		if r.Disabled || r.Pattern == "" || len(r.Targets) == 0 {
			continue
		}
		if parsed == nil {
			if parsed, err = eventpattern.ParseEvent(raw); err != nil {
				return nil, err
			}
		}
		p, err := s.parsed.get(r.Pattern)
		if err != nil {
			s.log.Warn("events: skipping a rule whose pattern cannot be read", "rule", r.Name, "err", err)
			continue
		}
		if p.Matches(parsed) {
			all = append(all, s.toTargets(sc, r, raw)...)
		}
	}
	return s.enqueue(sc, all, writes...)
}

// marshal encodes an event for targets.
func marshal(e *serviceevents.Event) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// toTargets returns the deliveries of an event to the targets of a rule.
func (s *Service) toTargets(sc scope, r *ruleRecord, event []byte) (out []*delivery) {
	now := s.now()
	for _, t := range r.Targets {
		body, ok := t.body(event, sc.ruleARN(r.Bus, r.Name), r.Name, now)
		if !ok {
			s.log.Warn("events: the input of a target makes nothing of an event", "rule", r.Name, "target", t.ID)
			continue
		}
		out = append(out, &delivery{Rule: sc.ruleARN(r.Bus, r.Name), Target: t, Event: event, Body: body, Time: now, Due: now})
	}
	return out
}

// enqueue stores deliveries. They run once they are on disk.
func (s *Service) enqueue(sc scope, all []*delivery, writes ...bytestore.Write) (*bytestore.Commit, error) {
	size := 0
	raws := make([][]byte, len(all))
	for i, d := range all {
		var err error
		if raws[i], err = deliveries.Encode(*d); err != nil {
			return nil, err
		}
		size += len(raws[i])
	}
	if err := s.bytes.Room(sc.Account, size); err != nil {
		return nil, err
	}
	if len(all)+len(writes) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := sc.bucket()
	made := map[deliveryID]*delivery{}
	for i, d := range all {
		s.last = max(s.last+1, uint64(s.clock.Now().UnixMicro()))
		id := deliveryID{b, s.last}
		made[id] = d
		writes = append(writes, bytestore.Put(b, id.key(), raws[i]))
	}
	c := s.bytes.Do(writes...)
	if len(made) > 0 {
		go func() { // wake the runner once the deliveries are on disk
			if c.Wait() != nil {
				return
			}
			s.mu.Lock()
			for id, d := range made {
				s.pending[id] = d
			}
			s.mu.Unlock()
			s.wakeUp()
		}()
	}
	return c, nil
}

func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// formatTime formats a time for events.
func formatTime(t time.Time) string { return t.UTC().Format(serviceevents.TimeForm) }

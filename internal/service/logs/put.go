package logs

import (
	"context"
	"errors"
	"sort"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/drydock-dev/drydock/internal/bytestore"
)

// Limits of a batch.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const (
	maxBatchSize  = 1 << 20
	eventOverhead = 26
	maxSpan       = 24 * time.Hour
	maxAge        = 14 * 24 * time.Hour
	maxAhead      = 2 * time.Hour
)

// PutLogEvents stores events. It leaves out events that are too old or too new, and reports them in
// the response.
func (s *Service) PutLogEvents(ctx context.Context, in *awslogs.PutLogEventsInput) (*awslogs.PutLogEventsOutput, error) {
	sc, list := scopeOf(ctx), in.LogEvents
	g, err := s.group(sc, *in.LogGroupName)
	if err != nil {
		return nil, err
	}
	r, err := s.stream(sc, &g, *in.LogStreamName)
	if err != nil {
		return nil, err
	}
	size := 0
	for i, e := range list {
		size += len(*e.Message) + eventOverhead
		if i > 0 && *e.Timestamp < *list[i-1].Timestamp {
			return nil, errOrder()
		}
	}
	if size > maxBatchSize {
		return nil, errTooLarge(size)
	}
	if *list[len(list)-1].Timestamp-*list[0].Timestamp > maxSpan.Milliseconds() {
		return nil, errSpan()
	}
	now := s.now()
	list, rejected := accept(list, &g, now)
	if err := s.makeRoom(sc, int64(size+len(list)*perEvent)); err != nil {
		return nil, err
	}
	st, err := s.write(sc, &g, &r, list, now)
	if err != nil {
		return nil, err
	}
	return &awslogs.PutLogEventsOutput{NextSequenceToken: aws.String(st.token()), RejectedLogEventsInfo: rejected}, nil
}

// accept returns the events that are neither too old nor too new, and reports the others. Events
// are sorted by time.
func accept(list []logstypes.InputLogEvent, g *groupRecord, now time.Time) ([]logstypes.InputLogEvent, *logstypes.RejectedLogEventsInfo) {
	first := func(at int64) int {
		return sort.Search(len(list), func(i int) bool { return *list[i].Timestamp >= at })
	}
	tooOld, expired, tooNew := first(now.Add(-maxAge).UnixMilli()), first(g.cutoff(now)), first(now.Add(maxAhead).UnixMilli()+1)
	if tooOld == 0 && expired == 0 && tooNew == len(list) {
		return list, nil
	}
	info := &logstypes.RejectedLogEventsInfo{}
	if tooOld > 0 {
		info.TooOldLogEventEndIndex = aws.Int32(int32(tooOld))
	}
	if expired > 0 {
		info.ExpiredLogEventEndIndex = aws.Int32(int32(expired))
	}
	if tooNew < len(list) {
		info.TooNewLogEventStartIndex = aws.Int32(int32(tooNew))
	}
	return list[max(tooOld, expired):max(tooOld, expired, tooNew)], info
}

// write stores events of a stream and returns when they are on disk.
func (s *Service) write(sc scope, g *groupRecord, r *streamRecord, list []logstypes.InputLogEvent, now time.Time) (streamState, error) {
	b := sc.bucket(g.ID)
	raws := make([][]byte, len(list))
	for i, e := range list {
		var err error
		if raws[i], err = events.Encode(eventRecord{Ingested: now.UnixMilli(), Message: *e.Message}); err != nil {
			return streamState{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A deletion first removes the record, then the events while holding the lock.
	if known, err := s.stream(sc, g, r.Name); err != nil {
		return streamState{}, err
	} else if known.ID != r.ID {
		return streamState{}, errNoStream()
	}
	st, err := s.stateOf(sc, g, r)
	if err != nil || len(list) == 0 {
		return *st, err
	}
	writes := make([]bytestore.Write, 0, len(list)+1)
	for i, e := range list {
		st.Sequence++
		writes = append(writes, bytestore.Put(b, position{*e.Timestamp, r.ID, st.Sequence}.key(), raws[i]))
	}
	if first := *list[0].Timestamp; st.First == 0 || first < st.First {
		st.First = first
	}
	st.Last, st.Ingested = max(st.Last, *list[len(list)-1].Timestamp), now.UnixMilli()
	raw, err := states.Encode(*st)
	if err != nil {
		return *st, err
	}
	written := *st
	c := s.bytes.Do(append(writes, bytestore.Put(b, stateKey(r.ID), raw))...)
	s.mu.Unlock()
	err = c.Wait()
	s.mu.Lock()
	if err != nil {
		delete(s.streams, streamID{sc.Account, sc.Region, g.ID, r.ID}) // it will be read again
	}
	return written, err
}

// stateOf returns the state of a stream, which the caller may modify. The caller holds s.mu.
func (s *Service) stateOf(sc scope, g *groupRecord, r *streamRecord) (*streamState, error) {
	id := streamID{sc.Account, sc.Region, g.ID, r.ID}
	if st := s.streams[id]; st != nil {
		return st, nil
	}
	st := &streamState{}
	raw, err := s.bytes.Get(sc.bucket(g.ID), stateKey(r.ID))
	switch {
	case err == nil:
		if *st, err = states.Decode(raw); err != nil {
			return st, err
		}
	case !errors.Is(err, bytestore.ErrNotFound):
		return st, err
	}
	s.streams[id] = st
	return st, nil
}

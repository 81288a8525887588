package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// existsAs returns exists if err means that the record exists already.
func existsAs(err, exists error) error {
	if errors.Is(err, store.ErrExists) {
		return exists
	}
	return err
}

// CreateLogStream creates a stream in a group.
func (s *Service) CreateLogStream(ctx context.Context, in *awslogs.CreateLogStreamInput) (*awslogs.CreateLogStreamOutput, error) {
	sc, r := scopeOf(ctx), streamRecord{ID: ids.Hex(16), Name: *in.LogStreamName, Created: s.now()}
	if strings.ContainsRune(r.Name, 0) {
		return nil, errParameter("Log stream names have no null characters.") // Drydock's own limit: a record cannot have this name
	}
	return &awslogs.CreateLogStreamOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, sc.Key(*in.LogGroupName))
		if err != nil {
			return store.NotFoundAs(err, errNoGroup())
		}
		return existsAs(streams.Create(tx, sc.Key(g.ID+"/"+r.Name), r), errStreamExists())
	})
}

// DeleteLogStream deletes a stream and its events.
func (s *Service) DeleteLogStream(ctx context.Context, in *awslogs.DeleteLogStreamInput) (*awslogs.DeleteLogStreamOutput, error) {
	sc := scopeOf(ctx)
	var group, stream string
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, sc.Key(*in.LogGroupName))
		if err != nil {
			return store.NotFoundAs(err, errNoGroup())
		}
		key := sc.Key(g.ID + "/" + *in.LogStreamName)
		r, err := streams.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, errNoStream())
		}
		streams.Delete(tx, key)
		group, stream = g.ID, r.ID
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock() // no write to the stream is submitted after this
	delete(s.streams, streamID{sc.Account, sc.Region, group, stream})
	s.mu.Unlock()
	return &awslogs.DeleteLogStreamOutput{}, s.removeStream(sc.bucket(group), stream)
}

// removeStream removes the events of a stream and then its state. If the daemon stops in between,
// dropOrphans finds the state and continues.
func (s *Service) removeStream(b bytestore.Bucket, stream string) error {
	if err := s.bytes.Do().Wait(); err != nil { // wait for earlier writes
		return err
	}
	if _, err := s.remove(b, end, 0, func(p position) bool { return p.stream == stream }); err != nil {
		return err
	}
	return s.bytes.Do(bytestore.Delete(b, stateKey(stream))).Wait()
}

// statesOf returns the states of all streams of a group that have one, by stream ID.
func (s *Service) statesOf(b bytestore.Bucket) (map[string]streamState, error) {
	out := map[string]streamState{}
	err := s.bytes.Scan(b, []byte{stateLetter}, func(key, raw []byte, err error) error {
		var st streamState
		if err == nil {
			st, err = states.Decode(raw)
		}
		if err != nil {
			s.log.Warn("logs: skipping the state of a stream that cannot be read", "err", err)
			return nil
		}
		out[string(key[1:])] = st
		return nil
	})
	return out, err
}

// DescribeLogStreams lists the streams of a group by name or by last event.
func (s *Service) DescribeLogStreams(ctx context.Context, in *awslogs.DescribeLogStreamsInput) (*awslogs.DescribeLogStreamsOutput, error) {
	sc, prefix := scopeOf(ctx), aws.ToString(in.LogStreamNamePrefix)
	name, err := sc.named(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	byTime := in.OrderBy == logstypes.OrderByLastEventTime
	if byTime && prefix != "" {
		return nil, errOrderWithPrefix()
	}
	g, err := s.group(sc, name)
	if err != nil {
		return nil, err
	}
	state, err := s.statesOf(sc.bucket(g.ID))
	if err != nil {
		return nil, err
	}
	all := streams.All(s.store, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: g.ID + "/" + prefix})
	if byTime {
		slices.SortStableFunc(all, func(a, b store.Item[streamRecord]) int {
			return cmp.Compare(state[a.Value.ID].Last, state[b.Value.ID].Last)
		})
	}
	if aws.ToBool(in.Descending) {
		slices.Reverse(all)
	}
	rules := pages(50, g.ID, prefix, string(in.OrderBy), fmt.Sprint(aws.ToBool(in.Descending)))
	page, next, err := paging.CutInOrder(rules, all, func(r store.Item[streamRecord]) string { return r.Value.ID }, in.Limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awslogs.DescribeLogStreamsOutput{LogStreams: []logstypes.LogStream{}, NextToken: next}
	for _, item := range page {
		r := item.Value
		//lint:ignore SA1019 AWS still answers it, always as 0
		shown := logstypes.LogStream{Arn: aws.String(sc.streamARN(name, r.Name)), LogStreamName: &r.Name, CreationTime: millis(r.Created), StoredBytes: aws.Int64(0)}
		if st, ok := state[r.ID]; ok {
			shown.FirstEventTimestamp, shown.LastEventTimestamp, shown.LastIngestionTime = &st.First, &st.Last, &st.Ingested
			shown.UploadSequenceToken = aws.String(st.token())
		}
		out.LogStreams = append(out.LogStreams, shown)
	}
	return out, nil
}

// token returns a sequence token of 56 digits. PutLogEvents used to require the latest one; today
// it accepts any.
func (st *streamState) token() string { return fmt.Sprintf("49%054d", st.Sequence) }

package logs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/drydock-dev/drydock/internal/service/logs/filterpattern"
)

// Limits of a response.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
const (
	maxEvents = 10000
	maxSize   = 1 << 20
	// maxLooks is how many events FilterLogEvents examines before it returns a token, whether or
	// not any matched.
	maxLooks = 100_000
)

// bounds returns the range of keys of the events that a request asks for.
func (s *Service) bounds(g *groupRecord, start, to *int64) (lower, upper []byte) {
	lower, upper = from(max(aws.ToInt64(start), g.cutoff(s.now()))), end
	if to != nil {
		upper = from(*to)
	}
	return lower, upper
}

// A pageToken is a position between two events of a stream, for reading forward or backward: f/TIME
// SEQUENCE/s in 56 digits, as on AWS.
func pageToken(letter string, p position) *string {
	return aws.String(fmt.Sprintf("%s/%016d%040d/s", letter, p.time, p.sequence))
}

func parsePageToken(token, stream string) (back bool, p position, err error) {
	f := strings.Split(token, "/")
	if len(f) != 3 || f[0] != "f" && f[0] != "b" || len(f[1]) != 56 || f[2] != "s" {
		return false, p, errToken(token)
	}
	time, err1 := strconv.ParseInt(f[1][:16], 10, 64)
	sequence, err2 := strconv.ParseUint(f[1][16:], 10, 64)
	if err1 != nil || err2 != nil || time < 0 {
		return false, p, errToken(token)
	}
	return f[0] == "b", position{time, stream, sequence}, nil
}

// GetLogEvents reads the events of a stream, from the end or from the head. At the end of the
// stream, it returns the forward token that it was given, until there are new events.
func (s *Service) GetLogEvents(ctx context.Context, in *awslogs.GetLogEventsInput) (*awslogs.GetLogEventsOutput, error) {
	sc := scopeOf(ctx)
	name, err := sc.named(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	g, err := s.group(sc, name)
	if err != nil {
		return nil, err
	}
	r, err := s.stream(sc, &g, *in.LogStreamName)
	if err != nil {
		return nil, err
	}
	lower, upper := s.bounds(&g, in.StartTime, in.EndTime)
	back, at := !aws.ToBool(in.StartFromHead), position{time: aws.ToInt64(in.StartTime), stream: r.ID}
	if in.NextToken != nil {
		if back, at, err = parsePageToken(*in.NextToken, r.ID); err != nil {
			return nil, err
		}
		if key := at.key(); back && bytes.Compare(key, upper) < 0 {
			upper = key
		} else if !back && bytes.Compare(key, lower) > 0 {
			lower = key
		}
	}
	limit, size := maxEvents, 0
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	out := &awslogs.GetLogEventsOutput{Events: []logstypes.OutputLogEvent{}}
	first, last := at, at
	err = s.bytes.Range(sc.bucket(g.ID), lower, upper, back, func(key []byte, value func() ([]byte, error)) bool {
		p := positionOf(key)
		if p.stream != r.ID {
			return true
		}
		e, ok := s.event(value)
		if !ok {
			return true
		}
		if size += len(e.Message) + eventOverhead; len(out.Events) == limit || size > maxSize && len(out.Events) > 0 {
			return false
		}
		if len(out.Events) == 0 {
			first, last = p, p
		}
		if back {
			first = p
		} else {
			last = p
		}
		out.Events = append(out.Events, logstypes.OutputLogEvent{Timestamp: &p.time, Message: &e.Message, IngestionTime: &e.Ingested})
		return true
	})
	if back {
		slices.Reverse(out.Events)
	}
	if len(out.Events) > 0 {
		last.sequence++
	}
	out.NextForwardToken, out.NextBackwardToken = pageToken("f", last), pageToken("b", first)
	return out, err
}

// event decodes an event. Damaged events are skipped.
func (s *Service) event(value func() ([]byte, error)) (eventRecord, bool) {
	raw, err := value()
	var e eventRecord
	if err == nil {
		e, err = events.Decode(raw)
	}
	if err != nil {
		s.log.Warn("logs: skipping an event that cannot be read", "err", err)
	}
	return e, err == nil
}

// FilterLogEvents searches the streams of a group.
func (s *Service) FilterLogEvents(ctx context.Context, in *awslogs.FilterLogEventsInput) (*awslogs.FilterLogEventsOutput, error) {
	sc, text, prefix := scopeOf(ctx), aws.ToString(in.FilterPattern), aws.ToString(in.LogStreamNamePrefix)
	name, err := sc.named(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	if prefix != "" && len(in.LogStreamNames) > 0 {
		return nil, errNamesAndPrefix()
	}
	pattern, err := filterpattern.Parse(text)
	if err != nil {
		return nil, errFilterPattern(err)
	}
	g, err := s.group(sc, name)
	if err != nil {
		return nil, err
	}
	wanted := map[string]string{} // names of streams by ID
	for _, n := range in.LogStreamNames {
		r, err := s.stream(sc, &g, n)
		if err != nil {
			return nil, err
		}
		wanted[r.ID] = n
	}
	if len(in.LogStreamNames) == 0 {
		for _, r := range streams.All(s.store, sc.Below(g.ID)) {
			if strings.HasPrefix(r.Value.Name, prefix) {
				wanted[r.Value.ID] = r.Value.Name
			}
		}
	}
	page, err := pages(maxEvents, g.ID, text, prefix, strings.Join(in.LogStreamNames, "\x00")).Start(in.Limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	lower, upper := s.bounds(&g, in.StartTime, in.EndTime)
	if after := []byte(page.After); bytes.Compare(after, lower) >= 0 {
		lower = append(after, 0)
	}
	out := &awslogs.FilterLogEventsOutput{Events: []logstypes.FilteredLogEvent{}, SearchedLogStreams: []logstypes.SearchedLogStream{}}
	size, looks := 0, 0
	err = s.bytes.Range(sc.bucket(g.ID), lower, upper, false, func(key []byte, value func() ([]byte, error)) bool {
		p := positionOf(key)
		if stream, ok := wanted[p.stream]; ok {
			if e, ok := s.event(value); ok && pattern.Match(e.Message) {
				if page.Full() {
					return false
				}
				if size += len(e.Message) + eventOverhead; size > maxSize && len(out.Events) > 0 {
					page.Stop()
					return false
				}
				page.Add(string(key))
				out.Events = append(out.Events, logstypes.FilteredLogEvent{EventId: p.id(), LogStreamName: &stream, Timestamp: &p.time, Message: &e.Message, IngestionTime: &e.Ingested})
			}
		}
		if looks++; looks == maxLooks {
			page.Add(string(key))
			page.Stop()
		}
		return looks < maxLooks
	})
	out.NextToken = page.Next()
	return out, err
}

// id returns the ID of an event: 56 digits.
func (p position) id() *string {
	stream, err := strconv.ParseUint(p.stream, 16, 64)
	if err != nil {
		stream = 0 // no stream has this ID
	}
	return aws.String(fmt.Sprintf("%016d%020d%020d", p.time, stream, p.sequence))
}

// TestMetricFilter returns which messages match a filter pattern, and the values found in them.
func (s *Service) TestMetricFilter(_ context.Context, in *awslogs.TestMetricFilterInput) (*awslogs.TestMetricFilterOutput, error) {
	pattern, err := filterpattern.Parse(*in.FilterPattern)
	if err != nil {
		return nil, errFilterPattern(err)
	}
	out := &awslogs.TestMetricFilterOutput{Matches: []logstypes.MetricFilterMatchRecord{}}
	for i, message := range in.LogEventMessages {
		if values, ok := pattern.Extract(message); ok {
			out.Matches = append(out.Matches, logstypes.MetricFilterMatchRecord{EventNumber: int64(i + 1), EventMessage: &message, ExtractedValues: values})
		}
	}
	return out, nil
}

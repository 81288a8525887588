package logs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestGroups(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	ctx, c := t.Context(), a.c
	name := aws.String("/aws/eks/one/cluster")
	create := &awslogs.CreateLogGroupInput{LogGroupName: name, Tags: map[string]string{"env": "testing"}}
	testkit.Must(c.CreateLogGroup(ctx, create))(t)
	_, err := c.CreateLogGroup(ctx, create)
	testkit.WantError(t, err, "ResourceAlreadyExistsException", "The specified log group already exists")
	for _, n := range []string{"/aws/eks/two/cluster", "/aws/eks", "a", "b"} {
		a.group(n)
	}
	testkit.Must(c.PutRetentionPolicy(ctx, &awslogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: aws.Int32(7)}))(t)
	_, err = c.PutRetentionPolicy(ctx, &awslogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: aws.Int32(8)})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "failed to satisfy constraint: Member must satisfy enum value set: [1, 3, 5,")

	describe := func(in awslogs.DescribeLogGroupsInput) (string, *awslogs.DescribeLogGroupsOutput) {
		out := testkit.Must(c.DescribeLogGroups(ctx, &in))(t)
		var names []string
		for _, g := range out.LogGroups {
			names = append(names, *g.LogGroupName)
		}
		return strings.Join(names, " "), out
	}
	got, out := describe(awslogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("/aws/eks/o")})
	arn := "arn:aws:logs:us-east-1:" + a.id + ":log-group:/aws/eks/one/cluster"
	// As recorded by LocalStack's test_describe_log_groups_with_prefix.
	want := logstypes.LogGroup{
		Arn: aws.String(arn + ":*"), LogGroupArn: &arn, LogGroupName: name, LogGroupClass: "STANDARD", MetricFilterCount: aws.Int32(0),
		StoredBytes: aws.Int64(0), RetentionInDays: aws.Int32(7), DeletionProtectionEnabled: aws.Bool(false), CreationTime: aws.Int64(w.clock.Now().UnixMilli()),
	}
	if diff := cmp.Diff([]logstypes.LogGroup{want}, out.LogGroups, cmpopts.IgnoreUnexported(logstypes.LogGroup{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", got, diff)
	}
	for _, tt := range []struct {
		in   awslogs.DescribeLogGroupsInput
		want string
	}{
		{awslogs.DescribeLogGroupsInput{}, "/aws/eks /aws/eks/one/cluster /aws/eks/two/cluster a b"},
		{awslogs.DescribeLogGroupsInput{LogGroupNamePattern: aws.String("two")}, "/aws/eks/two/cluster"},
		{awslogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("two")}, ""},
		{awslogs.DescribeLogGroupsInput{LogGroupIdentifiers: []string{arn, "b"}}, "/aws/eks/one/cluster b"},
		{awslogs.DescribeLogGroupsInput{LogGroupClass: "INFREQUENT_ACCESS"}, ""},
	} {
		if got, out := describe(tt.in); got != tt.want || out.NextToken != nil {
			t.Errorf("%+v: %s, want %s", tt.in, got, tt.want)
		}
	}
	var all []string
	for in := (awslogs.DescribeLogGroupsInput{Limit: aws.Int32(2)}); ; {
		got, out := describe(in)
		all = append(all, got)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	if got := strings.Join(all, ", "); got != "/aws/eks /aws/eks/one/cluster, /aws/eks/two/cluster a, b" {
		t.Errorf("by pages: %s", got)
	}
	_, err = c.DescribeLogGroups(ctx, &awslogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("a"), LogGroupNamePattern: aws.String("a")})
	testkit.WantError(t, err, "InvalidParameterException", "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.")
	list := testkit.Must(c.ListLogGroups(ctx, &awslogs.ListLogGroupsInput{LogGroupNamePattern: aws.String("^/aws/eks/t|one")}))(t)
	if len(list.LogGroups) != 2 || *list.LogGroups[0].LogGroupArn != arn {
		t.Errorf("listed %+v", list.LogGroups)
	}

	// Tags, by both kinds of calls, as recorded by LocalStack's test_tag_resource_api.
	testkit.Must(c.TagResource(ctx, &awslogs.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"test1": "val1", "test2": "val2"}}))(t)
	//lint:ignore SA1019 clients still call it
	testkit.Must(c.TagLogGroup(ctx, &awslogs.TagLogGroupInput{LogGroupName: name, Tags: map[string]string{"test3": "val3"}}))(t)
	tags := func() string {
		t.Helper()
		//lint:ignore SA1019 as above
		old := testkit.Must(c.ListTagsLogGroup(ctx, &awslogs.ListTagsLogGroupInput{LogGroupName: name}))(t).Tags
		if now := testkit.Must(c.ListTagsForResource(ctx, &awslogs.ListTagsForResourceInput{ResourceArn: &arn}))(t).Tags; !cmp.Equal(old, now) {
			t.Errorf("tags %v and %v", old, now)
		}
		return fmt.Sprint(old)
	}
	if got := tags(); got != "map[env:testing test1:val1 test2:val2 test3:val3]" {
		t.Errorf("tags %s", got)
	}
	//lint:ignore SA1019 as above
	testkit.Must(c.UntagLogGroup(ctx, &awslogs.UntagLogGroupInput{LogGroupName: name, Tags: []string{"test3"}}))(t)
	testkit.Must(c.UntagResource(ctx, &awslogs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"env", "test1"}}))(t)
	if got := tags(); got != "map[test2:val2]" {
		t.Errorf("tags %s", got)
	}
	_, err = c.TagResource(ctx, &awslogs.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"aws:x": ""}})
	testkit.WantError(t, err, "InvalidParameterException", "")

	// The end.
	testkit.Must(c.PutLogGroupDeletionProtection(ctx, &awslogs.PutLogGroupDeletionProtectionInput{LogGroupIdentifier: &arn, DeletionProtectionEnabled: aws.Bool(true)}))(t)
	remove := &awslogs.DeleteLogGroupInput{LogGroupName: name}
	_, err = c.DeleteLogGroup(ctx, remove)
	testkit.WantError(t, err, "ValidationException", "")
	testkit.Must(c.PutLogGroupDeletionProtection(ctx, &awslogs.PutLogGroupDeletionProtectionInput{LogGroupIdentifier: name, DeletionProtectionEnabled: aws.Bool(false)}))(t)
	testkit.Must(c.DeleteRetentionPolicy(ctx, &awslogs.DeleteRetentionPolicyInput{LogGroupName: name}))(t)
	if _, out := describe(awslogs.DescribeLogGroupsInput{LogGroupNamePrefix: name}); out.LogGroups[0].RetentionInDays != nil {
		t.Error("a retention is left")
	}
	testkit.Must(c.DeleteLogGroup(ctx, remove))(t)
	_, err = c.DeleteLogGroup(ctx, remove)
	testkit.WantError(t, err, "ResourceNotFoundException", "The specified log group does not exist.")
}

func TestStreams(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	ctx, c := t.Context(), a.c
	a.group("g")
	for _, n := range []string{"b", "a", "c/d"} {
		a.stream("g", n)
	}
	_, err := c.CreateLogStream(ctx, &awslogs.CreateLogStreamInput{LogGroupName: aws.String("g"), LogStreamName: aws.String("a")})
	testkit.WantError(t, err, "ResourceAlreadyExistsException", "The specified log stream already exists")
	_, err = c.CreateLogStream(ctx, &awslogs.CreateLogStreamInput{LogGroupName: aws.String("none"), LogStreamName: aws.String("a")})
	testkit.WantError(t, err, "ResourceNotFoundException", "The specified log group does not exist.")
	a.put("g", "c/d", -10, "x")
	a.put("g", "a", -5, "x")
	describe := func(in awslogs.DescribeLogStreamsInput) (string, []logstypes.LogStream) {
		t.Helper()
		var names []string
		var all []logstypes.LogStream
		for {
			out := testkit.Must(c.DescribeLogStreams(ctx, &in))(t)
			for _, s := range out.LogStreams {
				names = append(names, *s.LogStreamName)
			}
			all = append(all, out.LogStreams...)
			if in.NextToken = out.NextToken; in.NextToken == nil {
				return strings.Join(names, " "), all
			}
		}
	}
	g := aws.String("g")
	for _, tt := range []struct {
		in   awslogs.DescribeLogStreamsInput
		want string
	}{
		{awslogs.DescribeLogStreamsInput{LogGroupName: g}, "a b c/d"},
		{awslogs.DescribeLogStreamsInput{LogGroupName: g, Limit: aws.Int32(1)}, "a b c/d"},
		{awslogs.DescribeLogStreamsInput{LogGroupIdentifier: aws.String("arn:aws:logs:us-east-1:" + a.id + ":log-group:g"), LogStreamNamePrefix: aws.String("c/")}, "c/d"},
		{awslogs.DescribeLogStreamsInput{LogGroupName: g, Descending: aws.Bool(true)}, "c/d b a"},
		{awslogs.DescribeLogStreamsInput{LogGroupName: g, OrderBy: "LastEventTime", Descending: aws.Bool(true), Limit: aws.Int32(1)}, "a c/d b"},
	} {
		if got, _ := describe(tt.in); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	_, all := describe(awslogs.DescribeLogStreamsInput{LogGroupName: g})
	if s := all[0]; *s.FirstEventTimestamp != w.clock.Now().Add(-5*time.Second).UnixMilli() || *s.LastEventTimestamp != *s.FirstEventTimestamp || s.UploadSequenceToken == nil ||
		*s.Arn != "arn:aws:logs:us-east-1:"+a.id+":log-group:g:log-stream:a" {
		t.Errorf("%+v", s)
	}
	//lint:ignore SA1019 clients still read it
	if s := all[1]; s.LastEventTimestamp != nil || s.UploadSequenceToken != nil || *s.StoredBytes != 0 {
		t.Errorf("a stream without events: %+v", s)
	}
	_, err = c.DescribeLogStreams(ctx, &awslogs.DescribeLogStreamsInput{LogGroupName: g, LogGroupIdentifier: g})
	testkit.WantError(t, err, "ValidationException", "LogGroup name and LogGroup ARN are mutually exclusive parameters.")
	_, err = c.DescribeLogStreams(ctx, &awslogs.DescribeLogStreamsInput{LogGroupName: g, LogStreamNamePrefix: g, OrderBy: "LastEventTime"})
	testkit.WantError(t, err, "InvalidParameterException", "")
	del := &awslogs.DeleteLogStreamInput{LogGroupName: g, LogStreamName: aws.String("a")}
	testkit.Must(c.DeleteLogStream(ctx, del))(t)
	_, err = c.DeleteLogStream(ctx, del)
	testkit.WantError(t, err, "ResourceNotFoundException", "The specified log stream does not exist.")
	a.stream("g", "a")
	if got, _ := a.get(&awslogs.GetLogEventsInput{LogGroupName: g, LogStreamName: aws.String("a")}); got != "" {
		t.Errorf("a new stream of the name has %s", got)
	}
	if got, _ := a.filter(&awslogs.FilterLogEventsInput{LogGroupName: g}); got != "c/d:x" {
		t.Errorf("found %s", got)
	}
	testkit.Must(c.DeleteLogGroup(ctx, &awslogs.DeleteLogGroupInput{LogGroupName: g}))(t)
	if n := w.bytes.Used(a.id); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestPut: the texts are those that LocalStack's tests recorded (test_logs_events).
func TestPut(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	a.group("g")
	a.stream("g", "s")
	put := func(group, stream string, seconds int, edit func(*awslogs.PutLogEventsInput)) error {
		in := a.batch(group, stream, seconds, "x", "y", "z")
		edit(in)
		_, err := a.c.PutLogEvents(t.Context(), in)
		return err
	}
	nothing := func(*awslogs.PutLogEventsInput) {}
	const hour, day = 3600, 24 * 3600
	for _, tt := range []struct {
		err        error
		code, text string
	}{
		{put("none", "s", 0, nothing), "ResourceNotFoundException", "The specified log group does not exist."},
		{put("g", "none", 0, nothing), "ResourceNotFoundException", "The specified log stream does not exist."},
		{put("g", "s", 0, func(in *awslogs.PutLogEventsInput) {
			in.LogEvents[0], in.LogEvents[1] = in.LogEvents[1], in.LogEvents[0]
		}), "InvalidParameterException", "Log events in a single PutLogEvents request must be in chronological order."},
		{put("g", "s", 0, func(in *awslogs.PutLogEventsInput) {
			in.LogEvents[0].Timestamp = aws.Int64(w.clock.Now().Add(-25 * time.Hour).UnixMilli())
		}), "InvalidParameterException", "The batch of log events in a single PutLogEvents request cannot span more than 24 hours."},
		{put("g", "s", 0, func(in *awslogs.PutLogEventsInput) {
			in.LogEvents[0].Message = aws.String(strings.Repeat("x", 1<<20))
		}), "InvalidParameterException", "Upload too large: 1048656 bytes exceeds limit of 1048576"},
	} {
		testkit.WantError(t, tt.err, tt.code, tt.text)
	}
	rejected := func(seconds int) string {
		t.Helper()
		r := a.put("g", "s", seconds, "1", "2", "3").RejectedLogEventsInfo
		if r == nil {
			return ""
		}
		return fmt.Sprint(aws.ToInt32(r.TooOldLogEventEndIndex), aws.ToInt32(r.ExpiredLogEventEndIndex), aws.ToInt32(r.TooNewLogEventStartIndex))
	}
	for seconds, want := range map[int]string{
		0: "", -14 * day: "", -14*day - 2: "2 0 0", -14*day - 9: "3 0 0", 2*hour - 2: "", 2*hour - 1: "0 0 2", 9 * hour: "0 0 0",
	} {
		if got := rejected(seconds); got != want {
			t.Errorf("events %d seconds from now: %s, want %s", seconds, got, want)
		}
	}
	testkit.Must(a.c.PutRetentionPolicy(t.Context(), &awslogs.PutRetentionPolicyInput{LogGroupName: aws.String("g"), RetentionInDays: aws.Int32(1)}))(t)
	if got := rejected(-day - 1); got != "0 1 0" {
		t.Errorf("expired events: %s", got)
	}
	if out := a.put("g", "s", 0, "🙀 - 参よ - 日本語"); out.NextSequenceToken == nil {
		t.Error("there is no sequence token")
	}
}

func TestGet(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	a.group("g")
	a.stream("g", "s")
	a.stream("g", "other")
	head := &awslogs.GetLogEventsInput{LogGroupName: aws.String("g"), LogStreamName: aws.String("s"), StartFromHead: aws.Bool(true), Limit: aws.Int32(2)}
	_, empty := a.get(head)
	a.put("g", "s", -100, "1", "2", "3", "4", "5")
	a.put("g", "other", -99, "x", "y")
	want := func(in *awslogs.GetLogEventsInput, want string) *awslogs.GetLogEventsOutput {
		t.Helper()
		got, out := a.get(in)
		if got != want {
			t.Errorf("read %q, want %q", got, want)
		}
		return out
	}
	at := func(token *string) *awslogs.GetLogEventsInput {
		in := *head
		in.NextToken = token
		return &in
	}
	want(at(empty.NextForwardToken), "1 2")
	one := want(head, "1 2")
	two := want(at(one.NextForwardToken), "3 4")
	three := want(at(two.NextForwardToken), "5")
	last := want(at(three.NextForwardToken), "")
	if *last.NextForwardToken != *three.NextForwardToken || len(*last.NextForwardToken) != 60 {
		t.Errorf("at the end: %s after %s", *last.NextForwardToken, *three.NextForwardToken)
	}
	a.put("g", "s", -95, "6") // of the time of the last one plus a second
	want(at(last.NextForwardToken), "6")
	want(at(three.NextBackwardToken), "3 4")
	first := want(at(one.NextBackwardToken), "")
	if *first.NextBackwardToken != *one.NextBackwardToken {
		t.Error("at the head: another token")
	}
	tail := *head
	tail.StartFromHead = nil
	out := want(&tail, "5 6")
	want(at(out.NextBackwardToken), "3 4")
	some := *head
	some.Limit, some.StartTime, some.EndTime = nil, aws.Int64(w.clock.Now().Add(-99*time.Second).UnixMilli()), aws.Int64(w.clock.Now().Add(-97*time.Second).UnixMilli())
	want(&some, "2 3")
	some.StartFromHead = nil
	want(&some, "2 3")
	some.LogGroupName, some.LogGroupIdentifier = nil, aws.String("arn:aws:logs:us-east-1:"+a.id+":log-group:g")
	want(&some, "2 3")
	_, err := a.c.GetLogEvents(t.Context(), at(aws.String("invalid-token")))
	testkit.WantError(t, err, "InvalidParameterException", "The specified nextToken is invalid.")
	some.Limit = aws.Int32(10001)
	_, err = a.c.GetLogEvents(t.Context(), &some)
	testkit.WantError(t, err, "InvalidParameterException", "1 validation error detected: Value '10001' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 10000")

	// Events of one time keep their order.
	a.stream("g", "same")
	in := a.batch("g", "same", 0, "a", "b", "c")
	for i := range in.LogEvents {
		in.LogEvents[i].Timestamp = in.LogEvents[0].Timestamp
	}
	testkit.Must(a.c.PutLogEvents(t.Context(), in))(t)
	testkit.Must(a.c.PutLogEvents(t.Context(), in))(t)
	want(&awslogs.GetLogEventsInput{LogGroupName: aws.String("g"), LogStreamName: aws.String("same")}, "a b c a b c")
}

func TestFilter(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	g := aws.String("g")
	a.group("g")
	for _, s := range []string{"a1", "a2", "b1"} {
		a.stream("g", s)
	}
	a.put("g", "b1", -100, `{"n":1}`)
	a.put("g", "a1", -99, "ERROR:1")
	a.put("g", "a2", -97, "ERROR:2", "WARN:2")
	a.put("g", "b1", -98, `{"n":2}`)
	a.put("g", "a1", -95, "WARN:1")
	for _, tt := range []struct {
		in   awslogs.FilterLogEventsInput
		want string
	}{
		{awslogs.FilterLogEventsInput{LogGroupName: g}, `b1:{"n":1} a1:ERROR:1 b1:{"n":2} a2:ERROR:2 a2:WARN:2 a1:WARN:1`},
		{awslogs.FilterLogEventsInput{LogGroupIdentifier: g, FilterPattern: aws.String("ERROR")}, "a1:ERROR:1 a2:ERROR:2"},
		{awslogs.FilterLogEventsInput{LogGroupName: g, FilterPattern: aws.String("{ $.n > 1 }")}, `b1:{"n":2}`},
		//lint:ignore SA1019 clients still send it
		{awslogs.FilterLogEventsInput{LogGroupName: g, LogStreamNamePrefix: aws.String("a"), FilterPattern: aws.String("-ERROR"), Interleaved: aws.Bool(true)}, "a2:WARN:2 a1:WARN:1"},
		{awslogs.FilterLogEventsInput{LogGroupName: g, LogStreamNames: []string{"a2", "b1"}, FilterPattern: aws.String("[x]")}, `b1:{"n":1} b1:{"n":2} a2:ERROR:2 a2:WARN:2`},
		{awslogs.FilterLogEventsInput{LogGroupName: g, StartTime: aws.Int64(w.clock.Now().Add(-98 * time.Second).UnixMilli()), EndTime: aws.Int64(w.clock.Now().Add(-96 * time.Second).UnixMilli())}, `b1:{"n":2} a2:ERROR:2`},
	} {
		if got, out := a.filter(&tt.in); got != tt.want || out.NextToken != nil {
			t.Errorf("found %s, want %s", got, tt.want)
		}
	}
	// Pages.
	var found []string
	ids := map[string]bool{}
	for in := (&awslogs.FilterLogEventsInput{LogGroupName: g, FilterPattern: aws.String("?ERROR ?WARN"), Limit: aws.Int32(3)}); ; {
		got, out := a.filter(in)
		found = append(found, got)
		for _, e := range out.Events {
			ids[*e.EventId] = true
		}
		if in.NextToken = out.NextToken; out.NextToken == nil {
			break
		}
	}
	if len(found) != 2 || len(ids) != 4 {
		t.Errorf("by pages: %q, %d events", found, len(ids))
	}
	for _, tt := range []struct {
		in         awslogs.FilterLogEventsInput
		code, text string
	}{
		{awslogs.FilterLogEventsInput{LogGroupName: aws.String("none")}, "ResourceNotFoundException", "The specified log group does not exist."},
		{awslogs.FilterLogEventsInput{LogGroupName: g, LogStreamNames: []string{"none"}}, "ResourceNotFoundException", "The specified log stream does not exist."},
		{awslogs.FilterLogEventsInput{LogGroupName: g, NextToken: aws.String("invalid-token")}, "InvalidParameterException", "The specified nextToken is invalid."},
		{awslogs.FilterLogEventsInput{LogGroupName: g, FilterPattern: aws.String("foo-bar")}, "InvalidParameterException", "Invalid character(s) in term 'foo-bar'"},
		{awslogs.FilterLogEventsInput{LogGroupName: g, LogStreamNamePrefix: g, LogStreamNames: []string{"a1"}}, "InvalidParameterException", ""},
		{awslogs.FilterLogEventsInput{}, "ValidationException", ""},
	} {
		_, err := a.c.FilterLogEvents(t.Context(), &tt.in)
		testkit.WantError(t, err, tt.code, tt.text)
	}
	out := testkit.Must(a.c.TestMetricFilter(t.Context(), &awslogs.TestMetricFilterInput{FilterPattern: aws.String("[level, ..., code = 4*]"), LogEventMessages: []string{"ERROR 500", "WARN of 404"}}))(t)
	if len(out.Matches) != 1 || out.Matches[0].EventNumber != 2 || fmt.Sprint(out.Matches[0].ExtractedValues) != "map[$2:of $code:404 $level:WARN]" {
		t.Errorf("matches %+v", out.Matches)
	}
	if got := testkit.Must(a.c.DescribeSubscriptionFilters(t.Context(), &awslogs.DescribeSubscriptionFiltersInput{LogGroupName: g}))(t); len(got.SubscriptionFilters) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestRetention: expired events are not read any more, and are removed in time.
func TestRetention(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	testkit.Run(t, w.logs.Run)
	a.group("g")
	a.stream("g", "s")
	a.put("g", "s", -100, "old")
	testkit.Must(a.c.PutRetentionPolicy(t.Context(), &awslogs.PutRetentionPolicyInput{LogGroupName: aws.String("g"), RetentionInDays: aws.Int32(1)}))(t)
	before := w.bytes.Used(a.id)
	testkit.Eventually(t, 10*time.Second, func() error {
		if !w.clock.HasWaiters() {
			return fmt.Errorf("the first sweep has not ended")
		}
		return nil
	})
	w.clock.Step(24 * time.Hour)
	a.put("g", "s", 0, "new")
	if got, _ := a.filter(&awslogs.FilterLogEventsInput{LogGroupName: aws.String("g")}); got != "s:new" {
		t.Errorf("found %s", got)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := w.bytes.Used(a.id); n > before {
			return fmt.Errorf("%d bytes", n)
		}
		return nil
	})
}

// TestLimit: the oldest events of the largest group make room.
func TestLimit(t *testing.T) {
	const limit = 64 << 10
	w := newWorld(t, options{limit: limit})
	a := w.account(t)
	for _, g := range []string{"large", "small"} {
		a.group(g)
		a.stream(g, "s")
	}
	a.put("small", "s", -1000, "keep")
	for i := range 100 {
		a.put("large", "s", i-200, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 2000)))
		if n := w.bytes.Used(a.id); n > limit {
			t.Fatalf("%d bytes after %d events", n, i)
		}
	}
	if got, _ := a.filter(&awslogs.FilterLogEventsInput{LogGroupName: aws.String("small")}); got != "s:keep" {
		t.Errorf("found %q", got)
	}
	got, out := a.get(&awslogs.GetLogEventsInput{LogGroupName: aws.String("large"), LogStreamName: aws.String("s")})
	if n := len(out.Events); n < 15 || n > 32 || !strings.HasPrefix(got[strings.LastIndexByte(got, ' ')+1:], "099") {
		t.Errorf("%d events are left", n)
	}
}

// TestRestart: what was answered is there after a restart, and what a daemon left that
// ended while it deleted is not.
func TestRestart(t *testing.T) {
	o := options{dir: t.TempDir()}
	w := newWorld(t, o)
	a := w.account(t)
	a.group("g")
	a.stream("g", "s")
	a.put("g", "s", -10, "1", "2")
	if err := w.bytes.Close(); err != nil {
		t.Fatal(err)
	}
	o.store = w.Store
	next := newWorld(t, o)
	a.w, a.c = next, awslogs.NewFromConfig(next.AWSConfig(a.id))
	a.put("g", "s", -8, "3")
	if got, _ := a.filter(&awslogs.FilterLogEventsInput{LogGroupName: aws.String("g")}); got != "s:1 s:2 s:3" {
		t.Errorf("found %s", got)
	}
	if err := next.bytes.Close(); err != nil {
		t.Fatal(err)
	}
	fresh := newWorld(t, options{dir: o.dir}) // no record names these bytes
	if fresh.bytes.Used(a.id) == 0 {
		t.Fatal("there is nothing to remove")
	}
	testkit.Run(t, fresh.logs.Run)
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := fresh.bytes.Used(a.id); n != 0 {
			return fmt.Errorf("%d bytes are left", n)
		}
		return nil
	})
}

func TestPermissions(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	ctx := t.Context()
	a.group("/app/one")
	a.stream("/app/one", "s")
	group := "arn:aws:logs:us-east-1:" + a.id + ":log-group:/app/one"
	allow := func(actions, resource, condition string) string {
		return `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":` + actions + `,"Resource":"` + resource + `"` + condition + `}}`
	}
	writer := a.user("writer", allow(`["logs:CreateLogStream","logs:PutLogEvents","logs:DescribeLogStreams"]`, group+":*", ""))
	put := func(c *awslogs.Client) error {
		_, err := c.PutLogEvents(ctx, a.batch("/app/one", "s", 0, "x"))
		return err
	}
	if err := put(writer); err != nil {
		t.Error(err)
	}
	if _, err := writer.DescribeLogStreams(ctx, &awslogs.DescribeLogStreamsInput{LogGroupName: aws.String("/app/one")}); err != nil {
		t.Error(err)
	}
	read := &awslogs.GetLogEventsInput{LogGroupName: aws.String("/app/one"), LogStreamName: aws.String("s")}
	_, err := writer.GetLogEvents(ctx, read)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "user/writer is not authorized to perform: logs:GetLogEvents on resource: "+group+":log-stream:s because no identity-based policy allows the logs:GetLogEvents action")
	_, err = writer.CreateLogGroup(ctx, &awslogs.CreateLogGroupInput{LogGroupName: aws.String("/app/two")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "on resource: arn:aws:logs:us-east-1:"+a.id+":log-group:/app/two:log-stream: ")
	_, err = writer.DescribeLogGroups(ctx, nil)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "on resource: arn:aws:logs:us-east-1:"+a.id+":log-group::log-stream: ")
	_, err = writer.ListTagsForResource(ctx, &awslogs.ListTagsForResourceInput{ResourceArn: &group})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "on resource: "+group+" because")

	// Without :*, the ARN is good for tags alone.
	bare := a.user("bare", allow(`"logs:*"`, group, ""))
	if err := put(bare); err == nil {
		t.Error("a policy on the group without :* lets write")
	}
	if _, err := bare.ListTagsForResource(ctx, &awslogs.ListTagsForResourceInput{ResourceArn: &group}); err != nil {
		t.Error(err)
	}
	// By tags.
	tagged := a.user("tagged", allow(`"logs:*"`, "*", `,"Condition":{"StringEquals":{"aws:ResourceTag/team":"a"}}`))
	_, err = tagged.GetLogEvents(ctx, read)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "logs:GetLogEvents")
	testkit.Must(a.c.TagResource(ctx, &awslogs.TagResourceInput{ResourceArn: &group, Tags: map[string]string{"team": "a"}}))(t)
	if _, err := tagged.GetLogEvents(ctx, read); err != nil {
		t.Error(err)
	}
	maker := a.user("maker", allow(`["logs:CreateLogGroup","logs:TagResource"]`, "*", `,"Condition":{"StringEquals":{"aws:RequestTag/team":"a"}}`))
	if _, err := maker.CreateLogGroup(ctx, &awslogs.CreateLogGroupInput{LogGroupName: aws.String("m"), Tags: map[string]string{"team": "a"}}); err != nil {
		t.Error(err)
	}
	_, err = maker.CreateLogGroup(ctx, &awslogs.CreateLogGroupInput{LogGroupName: aws.String("n"), Tags: map[string]string{"team": "b"}})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "logs:CreateLogGroup")

	// An AWS service, by a resource policy of the account.
	event := func(source string) error {
		_, err := w.Front.Call(awsapi.AsServicePrincipal(ctx, a.id, testkit.Region, "events.amazonaws.com", source, time.Now()), a.batch("/app/one", "s", 0, "x"))
		return err
	}
	rule := "arn:aws:events:us-east-1:" + a.id + ":rule/r"
	testkit.WantErrorWith(t, event(rule), "AccessDeniedException", "logs:PutLogEvents")
	doc := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"logs:PutLogEvents","Resource":"` + group + `:*","Condition":{"ArnEquals":{"aws:SourceArn":"` + rule + `"}}}}`
	put1 := testkit.Must(a.c.PutResourcePolicy(ctx, &awslogs.PutResourcePolicyInput{PolicyName: aws.String("p"), PolicyDocument: &doc}))(t)
	if *put1.ResourcePolicy.PolicyDocument != doc || put1.ResourcePolicy.PolicyScope != "ACCOUNT" {
		t.Errorf("%+v", put1.ResourcePolicy)
	}
	if err := event(rule); err != nil {
		t.Error(err)
	}
	if event(rule+"2") == nil {
		t.Error("another rule may write, too")
	}
	for i := range 9 {
		testkit.Must(a.c.PutResourcePolicy(ctx, &awslogs.PutResourcePolicyInput{PolicyName: aws.String(fmt.Sprint("q", i)), PolicyDocument: &doc}))(t)
	}
	_, err = a.c.PutResourcePolicy(ctx, &awslogs.PutResourcePolicyInput{PolicyName: aws.String("r"), PolicyDocument: &doc})
	testkit.WantError(t, err, "LimitExceededException", "Resource limit exceeded.")
	_, err = a.c.PutResourcePolicy(ctx, &awslogs.PutResourcePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String("{")})
	testkit.WantError(t, err, "InvalidParameterException", "")
	if n := len(testkit.Must(a.c.DescribeResourcePolicies(ctx, nil))(t).ResourcePolicies); n != 10 {
		t.Errorf("%d policies", n)
	}
	testkit.Must(a.c.DeleteResourcePolicy(ctx, &awslogs.DeleteResourcePolicyInput{PolicyName: aws.String("p")}))(t)
	_, err = a.c.DeleteResourcePolicy(ctx, &awslogs.DeleteResourcePolicyInput{PolicyName: aws.String("p")})
	testkit.WantError(t, err, "ResourceNotFoundException", "Policy with name [p] does not exist.")
}

// TestEndpointPolicy: calls through a VPC endpoint need its policy, too.
func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t, options{endpoint: `{"Statement":[{"Effect":"Allow","Principal":"*","Action":["logs:Create*"],"Resource":"*"}]}`})
	a := w.account(t)
	a.group("g")
	a.stream("g", "s")
	_, err := a.c.PutLogEvents(t.Context(), a.batch("g", "s", 0, "x"))
	testkit.WantErrorWith(t, err, "AccessDeniedException", "because no VPC endpoint policy allows the logs:PutLogEvents action")
}

// TestKMS: a group gets a key only if the key's policy lets CloudWatch Logs use it for the group.
func TestKMS(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	ctx := t.Context()
	keys := awskms.NewFromConfig(w.AWSConfig(a.id))
	policy := func(extra string) *string {
		return aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + a.id + `:root"},"Action":"kms:*","Resource":"*"}` + extra + `]}`)
	}
	key := testkit.Must(keys.CreateKey(ctx, &awskms.CreateKeyInput{Policy: policy("")}))(t).KeyMetadata.Arn
	create := &awslogs.CreateLogGroupInput{LogGroupName: aws.String("g"), KmsKeyId: key}
	_, err := a.c.CreateLogGroup(ctx, create)
	arn := "arn:aws:logs:us-east-1:" + a.id + ":log-group:g"
	testkit.WantError(t, err, "AccessDeniedException", "The specified KMS key does not exist or is not allowed to be used with Arn '"+arn+"'")
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
	testkit.Must(keys.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: key, Policy: policy(`,{"Effect":"Allow","Principal":{"Service":"logs.us-east-1.amazonaws.com"},
		"Action":["kms:Encrypt*","kms:Decrypt*","kms:ReEncrypt*","kms:GenerateDataKey*","kms:Describe*"],"Resource":"*","Condition":{"ArnEquals":{"kms:EncryptionContext:aws:logs:arn":"` + arn + `"}}}`)}))(t)
	testkit.Must(a.c.CreateLogGroup(ctx, create))(t)
	shown := func() *string {
		return testkit.Must(a.c.DescribeLogGroups(ctx, nil))(t).LogGroups[0].KmsKeyId
	}
	if got := shown(); aws.ToString(got) != *key {
		t.Errorf("key %v", got)
	}
	testkit.Must(a.c.DisassociateKmsKey(ctx, &awslogs.DisassociateKmsKeyInput{LogGroupName: aws.String("g")}))(t)
	if got := shown(); got != nil {
		t.Errorf("key %v", got)
	}
	testkit.Must(a.c.AssociateKmsKey(ctx, &awslogs.AssociateKmsKeyInput{ResourceIdentifier: &arn, KmsKeyId: key}))(t)
	testkit.Must(keys.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: key}))(t)
	_, err = a.c.AssociateKmsKey(ctx, &awslogs.AssociateKmsKeyInput{LogGroupName: aws.String("g"), KmsKeyId: key})
	testkit.WantError(t, err, "AccessDeniedException", "")
}

// TestTrail: CloudTrail has what manages groups, and no events.
func TestTrail(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	a.group("g")
	a.stream("g", "s")
	a.put("g", "s", 0, "secret")
	a.filter(&awslogs.FilterLogEventsInput{LogGroupName: aws.String("g")})
	var names []string
	testkit.Eventually(t, 10*time.Second, func() error {
		names = nil
		for e, err := range w.journal.Query(journal.Filter{Account: a.id}) {
			if err != nil {
				return err
			}
			if e.Fields["event"] != nil {
				names = append(names, fmt.Sprint(e.Fields["operation"]))
			}
		}
		if len(names) < 2 {
			return fmt.Errorf("events of %v", names)
		}
		return nil
	})
	if got := strings.Join(names, " "); got != "CreateLogGroup CreateLogStream" && got != "CreateLogStream CreateLogGroup" {
		t.Errorf("events of %s", got)
	}
}

package events_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// everything matches any event.
const everything = `{"source":[{"prefix":""}]}`

func TestBuses(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	ctx, c := t.Context(), a.events
	bus := aws.String("orders")
	create := &awsevents.CreateEventBusInput{Name: bus, Description: aws.String("test bus"), Tags: []eventstypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}
	arn := "arn:aws:events:us-east-1:" + a.id + ":event-bus/orders"
	if out := testkit.Must(c.CreateEventBus(ctx, create))(t); *out.EventBusArn != arn || *out.Description != "test bus" {
		t.Errorf("%+v", out)
	}
	_, err := c.CreateEventBus(ctx, create)
	testkit.WantError(t, err, "ResourceAlreadyExistsException", "Event bus orders already exists.")
	_, err = c.CreateEventBus(ctx, &awsevents.CreateEventBusInput{Name: aws.String("default")})
	testkit.WantError(t, err, "ResourceAlreadyExistsException", "Event bus default already exists.")
	_, err = c.DescribeEventBus(ctx, &awsevents.DescribeEventBusInput{Name: aws.String("none")})
	testkit.WantError(t, err, "ResourceNotFoundException", "Event bus none does not exist.")
	_, err = c.DeleteEventBus(ctx, &awsevents.DeleteEventBusInput{Name: aws.String("default")})
	testkit.WantError(t, err, "ValidationException", "Cannot delete event bus default.")
	names := func(in awsevents.ListEventBusesInput) (out string) {
		for {
			l := testkit.Must(c.ListEventBuses(ctx, &in))(t)
			for _, b := range l.EventBuses {
				out += *b.Name + " "
			}
			if in.NextToken = l.NextToken; in.NextToken == nil {
				return out
			}
		}
	}
	if got := names(awsevents.ListEventBusesInput{Limit: aws.Int32(1)}); got != "default orders " {
		t.Errorf("buses %s", got)
	}
	if got := names(awsevents.ListEventBusesInput{NamePrefix: aws.String("or")}); got != "orders " {
		t.Errorf("buses %s", got)
	}

	// Permissions, as recorded by LocalStack's test_put_permission.
	for sid, who := range map[string]string{"one": "111122223333", "all": "*"} {
		testkit.Must(c.PutPermission(ctx, &awsevents.PutPermissionInput{EventBusName: bus, Action: aws.String("events:PutEvents"), Principal: &who, StatementId: &sid}))(t)
	}
	testkit.Must(c.RemovePermission(ctx, &awsevents.RemovePermissionInput{EventBusName: bus, StatementId: aws.String("all")}))(t)
	out := testkit.Must(c.DescribeEventBus(ctx, &awsevents.DescribeEventBusInput{Name: &arn}))(t)
	want := `{"Version":"2012-10-17","Statement":[{"Sid":"one","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"events:PutEvents","Resource":"` + arn + `"}]}`
	if *out.Policy != want || out.CreationTime == nil {
		t.Errorf("policy %s\nwant   %s", *out.Policy, want)
	}
	_, err = c.RemovePermission(ctx, &awsevents.RemovePermissionInput{EventBusName: bus, StatementId: aws.String("two")})
	testkit.WantError(t, err, "ResourceNotFoundException", "Statement with the provided id does not exist.")
	testkit.Must(c.RemovePermission(ctx, &awsevents.RemovePermissionInput{EventBusName: bus, RemoveAllPermissions: true}))(t)
	if out := testkit.Must(c.DescribeEventBus(ctx, &awsevents.DescribeEventBusInput{Name: bus}))(t); out.Policy != nil {
		t.Errorf("policy %s", *out.Policy)
	}
	_, err = c.PutPermission(ctx, &awsevents.PutPermissionInput{Policy: aws.String("{")})
	testkit.WantError(t, err, "ValidationException", "")

	// Tags.
	testkit.Must(c.TagResource(ctx, &awsevents.TagResourceInput{ResourceARN: &arn, Tags: []eventstypes.Tag{{Key: aws.String("l"), Value: aws.String("w")}}}))(t)
	testkit.Must(c.UntagResource(ctx, &awsevents.UntagResourceInput{ResourceARN: &arn, TagKeys: []string{"k"}}))(t)
	if tags := testkit.Must(c.ListTagsForResource(ctx, &awsevents.ListTagsForResourceInput{ResourceARN: &arn}))(t).Tags; len(tags) != 1 || *tags[0].Value != "w" {
		t.Errorf("tags %+v", tags)
	}
	testkit.Must(c.UpdateEventBus(ctx, &awsevents.UpdateEventBusInput{Name: bus, Description: aws.String("new")}))(t)
	testkit.Must(c.PutRule(ctx, &awsevents.PutRuleInput{Name: aws.String("r"), EventBusName: bus, EventPattern: aws.String(everything)}))(t)
	_, err = c.DeleteEventBus(ctx, &awsevents.DeleteEventBusInput{Name: bus})
	testkit.WantError(t, err, "ValidationException", "")
	testkit.Must(c.DeleteRule(ctx, &awsevents.DeleteRuleInput{Name: aws.String("r"), EventBusName: bus}))(t)
	testkit.Must(c.DeleteEventBus(ctx, &awsevents.DeleteEventBusInput{Name: bus}))(t)
}

func TestRules(t *testing.T) {
	w := newWorld(t, options{})
	a := w.account(t)
	ctx, c := t.Context(), a.events
	q := a.queue("q", true)
	arn := a.rule("r1", everything, q.target("1"))
	if want := "arn:aws:events:us-east-1:" + a.id + ":rule/r1"; arn != want {
		t.Errorf("ARN %s, want %s", arn, want)
	}
	a.rule("r2", everything, q.target("1"), q.target("2"))
	a.rule("s", everything)
	name := aws.String("r1")
	// As recorded by LocalStack's test_put_list_with_prefix_describe_delete_rule.
	d := testkit.Must(c.DescribeRule(ctx, &awsevents.DescribeRuleInput{Name: name}))(t)
	if *d.Arn != arn || *d.CreatedBy != a.id || *d.EventBusName != "default" || *d.EventPattern != everything || d.State != "ENABLED" || d.Description != nil || d.ScheduleExpression != nil {
		t.Errorf("%+v", d)
	}
	var names []string
	for in := (&awsevents.ListRulesInput{NamePrefix: aws.String("r"), Limit: aws.Int32(1)}); ; {
		out := testkit.Must(c.ListRules(ctx, in))(t)
		for _, r := range out.Rules {
			names = append(names, *r.Name)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	if fmt.Sprint(names) != "[r1 r2]" {
		t.Errorf("rules %v", names)
	}
	if out := testkit.Must(c.ListRuleNamesByTarget(ctx, &awsevents.ListRuleNamesByTargetInput{TargetArn: &q.arn}))(t); fmt.Sprint(out.RuleNames) != "[r1 r2]" {
		t.Errorf("rules of a target: %v", out.RuleNames)
	}
	testkit.Must(c.DisableRule(ctx, &awsevents.DisableRuleInput{Name: name}))(t)
	if d := testkit.Must(c.DescribeRule(ctx, &awsevents.DescribeRuleInput{Name: name}))(t); d.State != "DISABLED" {
		t.Errorf("state %s", d.State)
	}
	testkit.Must(c.EnableRule(ctx, &awsevents.EnableRuleInput{Name: name}))(t)
	testkit.Must(c.PutRule(ctx, &awsevents.PutRuleInput{Name: name, ScheduleExpression: aws.String("rate(5 minutes)"), Description: aws.String("d")}))(t)
	if d := testkit.Must(c.DescribeRule(ctx, &awsevents.DescribeRuleInput{Name: name}))(t); d.EventPattern != nil || *d.ScheduleExpression != "rate(5 minutes)" || *d.Description != "d" {
		t.Errorf("changed: %+v", d)
	}
	list := func() []eventstypes.Target {
		return testkit.Must(c.ListTargetsByRule(ctx, &awsevents.ListTargetsByRuleInput{Rule: name}))(t).Targets
	}
	if got := list(); len(got) != 1 || *got[0].Arn != q.arn {
		t.Errorf("a change of the rule left the targets %+v", got)
	}
	full := eventstypes.Target{
		Id: aws.String("1"), Arn: &q.arn, InputTransformer: &eventstypes.InputTransformer{InputTemplate: aws.String(`"<x>"`), InputPathsMap: map[string]string{"x": "$.detail"}},
		DeadLetterConfig: &eventstypes.DeadLetterConfig{Arn: &q.arn}, RetryPolicy: &eventstypes.RetryPolicy{MaximumRetryAttempts: aws.Int32(0), MaximumEventAgeInSeconds: aws.Int32(60)},
	}
	a.targets("r1", full)
	if got := list(); *got[0].InputTransformer.InputTemplate != `"<x>"` || *got[0].DeadLetterConfig.Arn != q.arn || *got[0].RetryPolicy.MaximumEventAgeInSeconds != 60 {
		t.Errorf("targets %+v", got)
	}

	put := func(in awsevents.PutRuleInput) error {
		in.Name = aws.String("x")
		_, err := c.PutRule(ctx, &in)
		return err
	}
	target := func(edit func(*eventstypes.Target)) error {
		in := eventstypes.Target{Id: aws.String("t"), Arn: &q.arn}
		edit(&in)
		_, err := c.PutTargets(ctx, &awsevents.PutTargetsInput{Rule: name, Targets: []eventstypes.Target{in}})
		return err
	}
	describe := func(name string) error {
		_, err := c.DescribeRule(ctx, &awsevents.DescribeRuleInput{Name: &name})
		return err
	}
	remove := func(name string) error {
		_, err := c.DeleteRule(ctx, &awsevents.DeleteRuleInput{Name: &name})
		return err
	}
	many := make([]eventstypes.Target, 6)
	for i := range many {
		many[i] = eventstypes.Target{Id: aws.String(fmt.Sprint(i)), Arn: &q.arn}
	}
	_, tooMany := c.PutTargets(ctx, &awsevents.PutTargetsInput{Rule: aws.String("s"), Targets: many})
	for _, tt := range []struct {
		err        error
		code, text string
	}{
		{put(awsevents.PutRuleInput{}), "ValidationException", "Parameter(s) EventPattern or ScheduleExpression must be specified."},
		{put(awsevents.PutRuleInput{EventPattern: aws.String(`{"a":[]}`)}), "InvalidEventPatternException", "Event pattern is not valid. Reason: Empty arrays are not allowed\n at [Source: (String)\"{\"a\":[]}\"; line: 1, column: 8]"},
		{put(awsevents.PutRuleInput{ScheduleExpression: aws.String("cron(INVALID)")}), "ValidationException", "Parameter ScheduleExpression is not valid."},
		{put(awsevents.PutRuleInput{EventBusName: aws.String("none"), EventPattern: aws.String(everything)}), "ResourceNotFoundException", "Event bus none does not exist."},
		{describe("none"), "ResourceNotFoundException", "Rule none does not exist on EventBus default."},
		{remove("none"), "", ""},
		{remove("r1"), "ValidationException", "Rule can't be deleted since it has targets."},
		{tooMany, "LimitExceededException", "The requested resource exceeds the maximum number allowed."},
		{target(func(t *eventstypes.Target) { t.Id = aws.String("!@#$@!#$") }), "ValidationException",
			`1 validation error detected: Value '!@#$@!#$' at 'targets.1.member.id' failed to satisfy constraint: Member must satisfy regular expression pattern: [\.\-_A-Za-z0-9]+`},
		{target(func(t *eventstypes.Target) { t.Input, t.InputPath = aws.String("{}"), aws.String("$.detail") }), "ValidationException",
			"Only one of Input, InputPath, or InputTransformer must be provided for target t."},
		{target(func(t *eventstypes.Target) {
			t.InputTransformer = &eventstypes.InputTransformer{InputTemplate: aws.String(`"<notdefinedkey>"`)}
		}), "ValidationException", "InputTemplate for target t contains invalid placeholder notdefinedkey."},
		{target(func(t *eventstypes.Target) { t.Input = aws.String("{") }), "ValidationException", ""},
		{target(func(t *eventstypes.Target) { t.InputPath = aws.String("detail") }), "ValidationException", ""},
		{put(awsevents.PutRuleInput{EventPattern: aws.String(`{"a":["x"]}}`)}), "InvalidEventPatternException", "Event pattern is not valid. Reason: unexpected text after the JSON value"},
		{target(func(t *eventstypes.Target) {
			t.Arn = aws.String("arn:aws:sns:us-east-1:000000000000:t:5be8f5b8-6f1f-4a5a-9d5e-0d2b9e4c0a11")
		}), "ValidationException", "Parameter arn:aws:sns:us-east-1:000000000000:t:5be8f5b8-6f1f-4a5a-9d5e-0d2b9e4c0a11 is not valid. Reason: Provided Arn is not in correct format."},
		{target(func(t *eventstypes.Target) { t.Arn = aws.String("queue") }), "ValidationException", "Parameter queue is not valid. Reason: Provided Arn is not in correct format."},
		{target(func(t *eventstypes.Target) { t.Arn = aws.String(q.arn + ".fifo") }), "ValidationException", ""},
		{target(func(t *eventstypes.Target) { t.Arn = aws.String("arn:aws:lambda:us-east-1:" + a.id + ":function:f") }), "NotImplemented", ""},
	} {
		if tt.code == "" {
			if tt.err != nil {
				t.Error(tt.err)
			}
			continue
		}
		testkit.WantError(t, tt.err, tt.code, tt.text)
	}
	testkit.Must(c.CreateEventBus(ctx, &awsevents.CreateEventBusInput{Name: aws.String("b")}))(t)
	testkit.WantError(t, put(awsevents.PutRuleInput{EventBusName: aws.String("b"), ScheduleExpression: aws.String("rate(1 minute)")}), "ValidationException", "ScheduleExpression is supported only on the default event bus.")
	testkit.Must(c.RemoveTargets(ctx, &awsevents.RemoveTargetsInput{Rule: name, Ids: []string{"1", "none"}}))(t)
	if err := remove("r1"); err != nil {
		t.Error(err)
	}
	res := testkit.Must(c.TestEventPattern(ctx, &awsevents.TestEventPatternInput{EventPattern: aws.String(`{"a":["x"]}`), Event: aws.String(`{"a":"x"}`)}))(t)
	if !res.Result {
		t.Error("a pattern does not match")
	}
}

// TestDelivery: an event as Karpenter reads it from its queue.
func TestDelivery(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	q, fifo, other := a.queue("q", true), a.queue("q.fifo", true), a.queue("other", true)
	group := fifo.target("f")
	group.SqsParameters = &eventstypes.SqsParameters{MessageGroupId: aws.String("g")}
	a.rule("all", everything, q.target("1"), group)
	a.rule("some", `{"source":["none"]}`, other.target("1"))
	id := a.put("my.app", "Order & more", `{"n":1,"s":"<x>"}`)
	var m sqstypes.Message
	for _, m = range []sqstypes.Message{q.messages(1)[0], fifo.messages(1)[0]} {
		got := parse(t, *m.Body)
		delete(got, "time")
		want := map[string]any{
			"version": "0", "id": id, "detail-type": "Order & more", "source": "my.app", "account": a.id, "region": "us-east-1", "resources": []any{}, "detail": map[string]any{"n": 1.0, "s": "<x>"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		if !strings.HasPrefix(*m.Body, `{"version":"0","id":"`+id+`","detail-type":"Order & more",`) {
			t.Errorf("body %s", *m.Body)
		}
	}
	if m.Attributes["MessageGroupId"] != "g" {
		t.Errorf("attributes %v", m.Attributes)
	}
	other.messages(0)

	// A custom bus has its own rules.
	ctx := t.Context()
	bus := aws.String("orders")
	testkit.Must(a.events.CreateEventBus(ctx, &awsevents.CreateEventBusInput{Name: bus}))(t)
	testkit.Must(a.events.PutRule(ctx, &awsevents.PutRuleInput{Name: aws.String("r"), EventBusName: bus, EventPattern: aws.String(everything)}))(t)
	testkit.Must(a.events.PutTargets(ctx, &awsevents.PutTargetsInput{Rule: aws.String("r"), EventBusName: bus, Targets: []eventstypes.Target{other.target("1")}}))(t)
	entry := func(bus *string, edit func(*eventstypes.PutEventsRequestEntry)) eventstypes.PutEventsRequestEntry {
		e := eventstypes.PutEventsRequestEntry{Source: aws.String("s"), DetailType: aws.String("t"), Detail: aws.String("{}"), EventBusName: bus}
		edit(&e)
		return e
	}
	nothing := func(*eventstypes.PutEventsRequestEntry) {}
	at := time.Date(2022, 1, 2, 3, 4, 5, 0, time.UTC)
	out := testkit.Must(a.events.PutEvents(ctx, &awsevents.PutEventsInput{Entries: []eventstypes.PutEventsRequestEntry{
		entry(bus, func(e *eventstypes.PutEventsRequestEntry) { e.Time, e.Resources = &at, []string{"r"} }),
		entry(bus, func(e *eventstypes.PutEventsRequestEntry) { e.Source = nil }),
		entry(bus, func(e *eventstypes.PutEventsRequestEntry) { e.DetailType = nil }),
		entry(bus, func(e *eventstypes.PutEventsRequestEntry) { e.Detail = nil }),
		entry(bus, func(e *eventstypes.PutEventsRequestEntry) { e.Detail = aws.String("[1]") }),
		entry(bus, func(e *eventstypes.PutEventsRequestEntry) { e.Source = aws.String("aws.ec2") }),
		entry(aws.String("none"), nothing),
	}}))(t)
	var codes []string
	for _, e := range out.Entries {
		codes = append(codes, aws.ToString(e.ErrorCode)+" "+aws.ToString(e.ErrorMessage))
	}
	want := []string{
		" ", "InvalidArgument Parameter Source is not valid. Reason: Source is a required argument.",
		"InvalidArgument Parameter DetailType is not valid. Reason: DetailType is a required argument.",
		"InvalidArgument Parameter Detail is not valid. Reason: Detail is a required argument.", "MalformedDetail Detail is malformed.",
		"NotAuthorizedForSourceException Not authorized for the source.", " ",
	}
	if diff := cmp.Diff(want, codes); diff != "" || out.FailedEntryCount != 5 {
		t.Errorf("%d failed (-want +got):\n%s", out.FailedEntryCount, diff)
	}
	if got := parse(t, *other.messages(1)[0].Body); got["time"] != "2022-01-02T03:04:05Z" || fmt.Sprint(got["resources"]) != "[r]" {
		t.Errorf("%v", got)
	}
	_, err := a.events.PutEvents(ctx, &awsevents.PutEventsInput{Entries: []eventstypes.PutEventsRequestEntry{entry(nil, func(e *eventstypes.PutEventsRequestEntry) {
		e.Detail = aws.String(`{"x":"` + strings.Repeat("x", 256<<10) + `"}`)
	})}})
	testkit.WantError(t, err, "ValidationException", "Total size of the entries in the request is over the limit.")
	q.messages(0)

	// Events of AWS services, each once.
	for range 2 {
		if err := w.events.EmitOnce(a.id, testkit.Region, "instance/i-1", "warned", &serviceevents.Event{
			DetailType: "EC2 Spot Instance Interruption Warning", Source: "aws.ec2", Detail: json.RawMessage(`{"instance-id":"i-1","instance-action":"terminate"}`),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := parse(t, *q.messages(1)[0].Body); got["detail-type"] != "EC2 Spot Instance Interruption Warning" || got["account"] != a.id {
		t.Errorf("%v", got)
	}
	q.messages(0)
	if err := w.events.Forget(a.id, testkit.Region, "instance/i-1"); err != nil {
		t.Error(err)
	}
	fifo.messages(1)
	testkit.Eventually(t, 10*time.Second, func() error { // nothing is left of what was delivered
		if n := len(w.bytes.Buckets("events")); n == 0 {
			return fmt.Errorf("no bucket")
		}
		for _, b := range w.bytes.Buckets("events") {
			if n := w.bytes.Size(b); n != 0 {
				return fmt.Errorf("%d bytes", n)
			}
		}
		return nil
	})
}

// TestInput compares what targets get with what LocalStack's tests recorded
// (test_events_inputs.snapshot.json).
func TestInput(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	q := a.queue("q", true)
	paths := map[string]string{
		"userId": "$.detail.payload.acc_id", "payload": "$.detail.payload", "systemstring": "$.detail.awsAccountId", "listsingle": "$.detail.listsingle",
		"listmulti": "$.detail.listmulti", "second": "$.detail.listmulti[1]", "valid": "$.detail.valid", "detail-type": "$.detail-type",
	}
	const detail = `{"command":"update-account","payload":{"acc_id":"0a787ecb-4015","sf_id":"baz"},"listsingle":["HIGH"],"listmulti":["ACTIVE","INACTIVE"],"valid":true}`
	rule := a.rule("r", everything, q.target("1"))
	for _, tt := range []struct{ input, path, template, want string }{
		{input: `{"a":"b"}`, want: `{"a":"b"}`},
		{path: "$.detail.payload", want: `{"acc_id":"0a787ecb-4015","sf_id":"baz"}`},
		{path: "$.detail.payload.sf_id", want: `"baz"`},
		{path: "$.notexisting", want: ""},
		{template: `"Event of <detail-type> type, from <systemstring>."`, want: `"Event of T type, from ."`},
		{template: `"{[/Check of <detail-type> type"`, want: `"{[/Check of T type"`},
		{template: `{"detailType": <detail-type>, "command": <systemstring>}`, want: `{"detailType": "T", "command": ""}`},
		{template: `{"path": "users/<userId>/second/<userId>", "bod": <payload>, "l": [<userId>, "x"]}`, want: `{"path": "users/0a787ecb-4015/second/0a787ecb-4015", "bod": {"acc_id":"0a787ecb-4015","sf_id":"baz"}, "l": ["0a787ecb-4015", "x"]}`},
		{template: `"Payload of <payload> and <userId>, <listsingle>, <listmulti>, <second>, <valid>"`, want: `"Payload of {acc_id:0a787ecb-4015,sf_id:baz} and 0a787ecb-4015, [HIGH], [ACTIVE,INACTIVE], INACTIVE, true"`},
		{template: `{"singlelistitem": <listsingle>}`, want: `{"singlelistitem": ["HIGH"]}`},
		{template: `{"singlelistitem": "<listsingle>"}`, want: ""},
		{template: `<listsingle> single list item`, want: ""},
		{template: "\"<listsingle> one\"\n\"<userId> two\"", want: "\"[HIGH] one\"\n\"0a787ecb-4015 two\""},
		{template: `"<aws.events.rule-arn> <aws.events.rule-name>"`, want: `"` + rule + ` r"`},
		{template: `{"e": <aws.events.event>}`, want: `{"e": {"account":"` + a.id + `","detailType":"T","id":"ID","region":"us-east-1","resources":[],"source":"s","time":"TIME","version":"0"}}`},
	} {
		target := q.target("1")
		if tt.input != "" {
			target.Input = &tt.input
		}
		if tt.path != "" {
			target.InputPath = &tt.path
		}
		if tt.template != "" {
			target.InputTransformer = &eventstypes.InputTransformer{InputTemplate: &tt.template, InputPathsMap: paths}
		}
		a.targets("r", target)
		id := a.put("s", "T", detail)
		if tt.want == "" {
			q.messages(0)
			continue
		}
		got := strings.ReplaceAll(*q.messages(1)[0].Body, id, "ID")
		if i := strings.Index(got, `"time":"`); i >= 0 {
			got = got[:i+8] + "TIME" + got[i+28:]
		}
		if got != tt.want {
			t.Errorf("%s%s%s: %s\nwant %s", tt.input, tt.path, tt.template, got, tt.want)
		}
	}
}

// TestDeadLetters: what cannot be delivered is tried again within bounds, or not at all,
// and goes to a dead-letter queue.
func TestDeadLetters(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	shut, dead := a.queue("shut", false), a.queue("dead", true)
	target := shut.target("1")
	target.DeadLetterConfig = &eventstypes.DeadLetterConfig{Arn: &dead.arn}
	rule := a.rule("r", everything, target)
	id := a.put("s", "t", "{}")
	m := dead.messages(1)[0]
	attribute := func(m sqstypes.Message, name string) string {
		return aws.ToString(m.MessageAttributes[name].StringValue)
	}
	if parse(t, *m.Body)["id"] != id || attribute(m, "ERROR_CODE") != "NO_PERMISSIONS" || attribute(m, "RULE_ARN") != rule || attribute(m, "TARGET_ARN") != shut.arn ||
		!strings.Contains(attribute(m, "ERROR_MESSAGE"), "sqs:SendMessage") || attribute(m, "RETRY_ATTEMPTS") != "0" {
		t.Errorf("%s %+v", *m.Body, m.MessageAttributes)
	}
	gone := eventstypes.Target{Id: aws.String("1"), Arn: aws.String(shut.arn + "none"), DeadLetterConfig: target.DeadLetterConfig}
	a.targets("r", gone)
	a.put("s", "t", "{}")
	if m := dead.messages(1)[0]; attribute(m, "ERROR_CODE") != "NO_PERMISSIONS" && attribute(m, "ERROR_CODE") != "NO_RESOURCE" {
		t.Errorf("%+v", m.MessageAttributes)
	}
	shut.messages(0)
}

// TestTopic: a topic gets events if its policy lets EventBridge publish them.
func TestTopic(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	topics := awssns.NewFromConfig(w.AWSConfig(a.id))
	arn := "arn:aws:sns:us-east-1:" + a.id + ":news"
	policy := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sns:Publish","Resource":"` + arn + `"}}`
	testkit.Must(topics.CreateTopic(t.Context(), &awssns.CreateTopicInput{Name: aws.String("news"), Attributes: map[string]string{"Policy": policy}}))(t)
	q := a.queue("q", false)
	allow := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*"}}`
	testkit.Must(a.sqs.SetQueueAttributes(t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: &q.url, Attributes: map[string]string{"Policy": allow}}))(t)
	testkit.Must(topics.Subscribe(t.Context(), &awssns.SubscribeInput{TopicArn: &arn, Protocol: aws.String("sqs"), Endpoint: &q.arn, Attributes: map[string]string{"RawMessageDelivery": "true"}}))(t)
	a.rule("r", everything, eventstypes.Target{Id: aws.String("1"), Arn: &arn})
	id := a.put("s", "t", "{}")
	if got := parse(t, *q.messages(1)[0].Body); got["id"] != id {
		t.Errorf("%v", got)
	}
}

// TestLogGroup: a log group gets events if a resource policy lets EventBridge write them.
func TestLogGroup(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	ctx := t.Context()
	group := aws.String("/aws/events/all")
	testkit.Must(a.logs.CreateLogGroup(ctx, &awslogs.CreateLogGroupInput{LogGroupName: group}))(t)
	arn := "arn:aws:logs:us-east-1:" + a.id + ":log-group:" + *group
	doc := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","delivery.logs.amazonaws.com"]},"Action":["logs:CreateLogStream","logs:PutLogEvents"],"Resource":"` + arn + `:*"}}`
	testkit.Must(a.logs.PutResourcePolicy(ctx, &awslogs.PutResourcePolicyInput{PolicyName: aws.String("p"), PolicyDocument: &doc}))(t)
	a.rule("r", everything, eventstypes.Target{Id: aws.String("1"), Arn: &arn}, eventstypes.Target{
		Id: aws.String("2"), Arn: aws.String(arn + ":*"), InputTransformer: &eventstypes.InputTransformer{InputPathsMap: map[string]string{"s": "$.source"}, InputTemplate: aws.String(`{"timestamp":` + fmt.Sprint(w.clock.Now().UnixMilli()) + `,"message":"from <s>"}`)},
	})
	one := a.put("s", "t", "{}")
	two := a.put("s", "t", "{}")
	testkit.Eventually(t, 10*time.Second, func() error {
		out, err := a.logs.FilterLogEvents(ctx, &awslogs.FilterLogEventsInput{LogGroupName: group})
		if err != nil {
			return err
		}
		var all string
		streams := map[string]bool{}
		for _, e := range out.Events {
			all += *e.Message + "\n"
			streams[*e.LogStreamName] = true
		}
		if len(out.Events) != 4 || len(streams) != 2 || !strings.Contains(all, one) || !strings.Contains(all, two) || !strings.Contains(all, "from s\n") {
			return fmt.Errorf("events %s in %d streams", all, len(streams))
		}
		return nil
	})
}

func TestSchedules(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	q := a.queue("q", true)
	out := testkit.Must(a.events.PutRule(t.Context(), &awsevents.PutRuleInput{Name: aws.String("tick"), ScheduleExpression: aws.String("rate(1 minute)")}))(t)
	a.targets("tick", q.target("1"))
	w.clock.Step(59 * time.Second)
	q.messages(0)
	w.clock.Step(time.Second)
	got := parse(t, *q.messages(1)[0].Body)
	if got["detail-type"] != "Scheduled Event" || got["source"] != "aws.events" || fmt.Sprint(got["resources"]) != "["+*out.RuleArn+"]" || fmt.Sprint(got["detail"]) != "map[]" {
		t.Errorf("%v", got)
	}
	w.clock.Step(2 * time.Minute) // both are kept
	q.messages(2)
	testkit.Must(a.events.DisableRule(t.Context(), &awsevents.DisableRuleInput{Name: aws.String("tick")}))(t)
	w.clock.Step(5 * time.Minute)
	q.messages(0)
}

// TestRestart: what PutEvents accepted is delivered by the next daemon.
func TestRestart(t *testing.T) {
	o := options{dir: t.TempDir()}
	w := newWorld(t, o) // which does not run
	a := w.account(t)
	q := a.queue("q", true)
	a.rule("r", everything, q.target("1"))
	id := a.put("s", "t", "{}")
	if err := w.bytes.Close(); err != nil {
		t.Fatal(err)
	}
	o.store = w.Store
	next := newWorld(t, o)
	testkit.Run(t, next.events.Run)
	q.a.sqs = awssqs.NewFromConfig(next.AWSConfig(a.id))
	if got := parse(t, *q.messages(1)[0].Body); got["id"] != id {
		t.Errorf("%v", got)
	}
}

func TestPermissions(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.events.Run)
	a := w.account(t)
	ctx := t.Context()
	q := a.queue("q", true)
	a.rule("r", everything, q.target("1"))
	arn := "arn:aws:events:us-east-1:" + a.id
	allow := func(action, resource, condition string) string {
		return `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"` + action + `","Resource":"` + resource + `"` + condition + `}}`
	}
	put := func(c *awsevents.Client, bus *string, source string) error {
		_, err := c.PutEvents(ctx, &awsevents.PutEventsInput{Entries: []eventstypes.PutEventsRequestEntry{{Source: &source, DetailType: aws.String("t"), Detail: aws.String("{}"), EventBusName: bus}}})
		return err
	}
	sender := a.user("sender", allow("events:PutEvents", arn+":event-bus/default", `,"Condition":{"StringEquals":{"events:source":"good"}}`))
	if err := put(sender, nil, "good"); err != nil {
		t.Error(err)
	}
	testkit.WantErrorWith(t, put(sender, nil, "bad"), "AccessDeniedException", "user/sender is not authorized to perform: events:PutEvents on resource: "+arn+":event-bus/default because no identity-based policy allows the events:PutEvents action")
	_, err := sender.DescribeRule(ctx, &awsevents.DescribeRuleInput{Name: aws.String("r")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "on resource: "+arn+":rule/r because")

	targets := a.user("targets", allow("events:PutTargets", arn+":rule/r", `,"Condition":{"ArnEquals":{"events:TargetArn":"`+q.arn+`"}}`))
	change := func(arn string) error {
		_, err := targets.PutTargets(ctx, &awsevents.PutTargetsInput{Rule: aws.String("r"), Targets: []eventstypes.Target{{Id: aws.String("1"), Arn: &arn}}})
		return err
	}
	if err := change(q.arn); err != nil {
		t.Error(err)
	}
	testkit.WantErrorWith(t, change(q.arn+"2"), "AccessDeniedException", "events:PutTargets")
	ruler := a.user("ruler", allow("events:PutRule", arn+":rule/*", `,"Condition":{"ForAllValues:StringEquals":{"events:source":"aws.ec2"},"Null":{"events:source":"false"}}`))
	rule := func(pattern string) error {
		_, err := ruler.PutRule(ctx, &awsevents.PutRuleInput{Name: aws.String("new"), EventPattern: &pattern})
		return err
	}
	if err := rule(`{"source":["aws.ec2"]}`); err != nil {
		t.Error(err)
	}
	testkit.WantErrorWith(t, rule(`{"source":["aws.s3"]}`), "AccessDeniedException", "events:PutRule")
	testkit.WantErrorWith(t, rule(`{"account":["1"]}`), "AccessDeniedException", "events:PutRule")

	// Another account, by the policy of the bus.
	q.messages(1)
	other := w.account(t)
	bus := aws.String(arn + ":event-bus/default")
	testkit.WantErrorWith(t, put(other.events, bus, "s"), "AccessDeniedException", *bus)
	testkit.Must(a.events.PutPermission(ctx, &awsevents.PutPermissionInput{Action: aws.String("events:PutEvents"), Principal: &other.id, StatementId: aws.String("o")}))(t)
	if err := put(other.events, bus, "s"); err != nil {
		t.Error(err)
	}
	if got := parse(t, *q.messages(1)[0].Body); got["account"] != other.id {
		t.Errorf("%v", got)
	}
}

// TestEndpointPolicy: calls through a VPC endpoint need its policy, too.
func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t, options{endpoint: `{"Statement":[{"Effect":"Allow","Principal":"*","Action":["events:PutRule"],"Resource":"*"}]}`})
	a := w.account(t)
	a.rule("r", everything)
	_, err := a.events.PutEvents(t.Context(), &awsevents.PutEventsInput{Entries: []eventstypes.PutEventsRequestEntry{{Source: aws.String("s"), DetailType: aws.String("t"), Detail: aws.String("{}")}}})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "because no VPC endpoint policy allows the events:PutEvents action")
}

package logrouter

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var (
	web = &Source{
		Namespace: "shop", Pod: "web", PodUID: "u-1", Container: "c", ContainerID: "0123", Image: "web:1", Host: "fargate-ip-10-0-0-1.ec2.internal",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"fluentbit.io/exclude_stderr-c": "true"},
	}
	read = time.Date(2026, 11, 29, 8, 0, 5, 0, time.UTC)
)

const (
	plain  = `2026-11-29T08:00:00.5Z stdout F hello <you>`
	object = `2026-11-29T08:00:00.5Z stdout F {"level":"info","n":1}`
	crio   = `
[PARSER]
    Name crio
    Format Regex
    Regex ^(?<time>[^ ]+) (?<stream>stdout|stderr) (?<logtag>P|F) (?<log>.*)$
    Time_Key    time
    Time_Format %Y-%m-%dT%H:%M:%S.%L%z
`
	parsed = `
[FILTER]
    Name parser
    Match *
    Key_name log
    Parser crio
`
	output = `
[OUTPUT]
    Name cloudwatch_logs
    Match   kube.*
    region eu-west-1
    log_group_name my-logs
    log_stream_prefix from-fluent-bit-
    log_retention_days 60
    auto_create_group true
`
)

func TestRoute(t *testing.T) {
	printed := time.Date(2026, 11, 29, 8, 0, 0, 500e6, time.UTC)
	for _, tt := range []struct {
		name             string
		filters, parsers string
		output           string
		line             string
		at               time.Time
		want             string // JSON, or another text; empty if there is no event
	}{
		{"without filters, a record is the line", "", "", output, plain, read, `{"log":"2026-11-29T08:00:00.5Z stdout F hello <you>"}`},
		{"a parser takes it apart, and tells the time", parsed, crio, output, plain, printed, `{"stream":"stdout","logtag":"F","log":"hello <you>"}`},
		{"what no parser matches stays", parsed, strings.Replace(crio, "P|F", "X", 1), output, plain, read, `{"log":"2026-11-29T08:00:00.5Z stdout F hello <you>"}`},
		{"the second parser", strings.Replace(parsed, "Parser crio", "Parser none\n    Parser crio", 1), crio + "[PARSER]\n    Name none\n    Format json\n", output, plain, printed, `{"stream":"stdout","logtag":"F","log":"hello <you>"}`},
		{"Reserve_Data and Preserve_Key", strings.Replace(parsed, "Parser crio", "Parser crio\n    Reserve_Data On\n    Preserve_Key On", 1), strings.Replace(crio, "<log>", "<message>", 1), output, plain, printed,
			`{"stream":"stdout","logtag":"F","message":"hello <you>","log":"2026-11-29T08:00:00.5Z stdout F hello <you>"}`},
		{"Time_Keep and types", parsed, strings.Replace(crio, "Time_Key", "Time_Keep On\n    Types logtag:bool\n    Time_Key", 1), output, `2026-11-29T09:00:00.5+01:00 stdout F x`, printed, `{"time":"2026-11-29T09:00:00.5+01:00","stream":"stdout","logtag":false,"log":"x"}`},
		{"kubernetes merges what is JSON", parsed + "[FILTER]\n    Name kubernetes\n    Match kube.*\n    Merge_Log On\n    Keep_Log Off\n    Buffer_Size 0\n", crio, output, object, printed,
			`{"stream":"stdout","logtag":"F","level":"info","n":1,"kubernetes":{"pod_name":"web","namespace_name":"shop","pod_id":"u-1","host":"fargate-ip-10-0-0-1.ec2.internal","container_name":"c","docker_id":"0123","container_image":"web:1","annotations":{"fluentbit.io/exclude_stderr-c":"true"},"labels":{"app":"web"}}}`},
		{"and keeps what is not", parsed + "[FILTER]\n    Name kubernetes\n    Match kube.*\n    Merge_Log On\n    Keep_Log Off\n    Labels Off\n", crio, output, plain, printed,
			`{"stream":"stdout","logtag":"F","log":"hello <you>","kubernetes":{"pod_name":"web","namespace_name":"shop","pod_id":"u-1","host":"fargate-ip-10-0-0-1.ec2.internal","container_name":"c","docker_id":"0123","container_image":"web:1","annotations":{"fluentbit.io/exclude_stderr-c":"true"}}}`},
		{"grep", "[FILTER]\n    Name grep\n    Match *\n    Exclude log hello\n", "", output, plain, read, ""},
		{"grep of what is not there", "[FILTER]\n    Name grep\n    Match *\n    Regex $kubernetes['labels']['app'] web\n", "", output, plain, read, ""},
		{"grep of a nested field", "[FILTER]\n    Name kubernetes\n    Match *\n[FILTER]\n    Name grep\n    Match *\n    Regex $kubernetes['labels']['app'] web\n[FILTER]\n    Name record_modifier\n    Match *\n    Remove_key kubernetes\n", "", output, "x", read, `{"log":"x"}`},
		{"the first Regex of grep decides", "[FILTER]\n    Name grep\n    Match *\n    Regex log hello\n    Regex log none\n    Exclude log you\n", "", output, "hello you", read, `{"log":"hello you"}`},
		{"and drops what it does not match", "[FILTER]\n    Name grep\n    Match *\n    Regex log none\n    Regex log hello\n", "", output, "hello you", read, ""},
		{"an Exclude before it", "[FILTER]\n    Name grep\n    Match *\n    Exclude log you\n    Regex log hello\n", "", output, "hello you", read, ""},
		{"an expression in slashes", "[FILTER]\n    Name grep\n    Match *\n    Exclude log /^HELLO you$/i\n", "", output, "hello you", read, ""},
		{"a path is not an expression in slashes", "[FILTER]\n    Name grep\n    Match *\n    Exclude log /var/log\n", "", output, "var", read, `{"log":"var"}`},
		{"but an expression", "[FILTER]\n    Name grep\n    Match *\n    Exclude log /var/log\n", "", output, "in /var/log/x", read, ""},
		{"an excluded container", parsed + "[FILTER]\n    Name kubernetes\n    Match kube.*\n    K8S-Logging.Exclude On\n", crio, output, `2026-11-29T08:00:00.5Z stderr F x`, printed, ""},
		{"and its other stream", parsed + "[FILTER]\n    Name kubernetes\n    Match kube.*\n    K8S-Logging.Exclude On\n[FILTER]\n    Name record_modifier\n    Match *\n    Remove_key kubernetes\n", crio, output, plain, printed,
			`{"stream":"stdout","logtag":"F","log":"hello <you>"}`},
		{"a format without a year", parsed, strings.Replace(strings.Replace(crio, "[^ ]+", "[^ ]+ [^ ]+ [^ ]+", 1), "%Y-%m-%dT%H:%M:%S.%L%z", "%b %d %H:%M:%S", 1), output, "Nov 29 08:00:00 stdout F x", printed.Truncate(time.Second), `{"stream":"stdout","logtag":"F","log":"x"}`},
		{"a time before 1970", parsed, crio, output, "1969-12-31T23:59:59Z stdout F x", read, `{"stream":"stdout","logtag":"F","log":"x"}`},
		{"a time of another form stays", parsed, crio, output, "noon stdout F x", read, `{"time":"noon","stream":"stdout","logtag":"F","log":"x"}`},
		{"modify", "[FILTER]\n    Name modify\n    Match *\n    Rename log message\n    Add cluster dev\n    Add message no\n    Set a b\n    Remove a\n    Copy cluster c\n", "", output, "x", read, `{"message":"x","cluster":"dev","c":"dev"}`},
		{"record_modifier", "[FILTER]\n    Name record_modifier\n    Match *\n    Record cluster dev\n    Allowlist_key none\n", "", output, "x", read, `{"cluster":"dev"}`},
		{"a filter of other tags", "[FILTER]\n    Name grep\n    Match other.*\n    Exclude log .\n", "", output, "x", read, `{"log":"x"}`},
		{"an output of other tags", "", "", strings.Replace(output, "kube.*", "other.*", 1), "x", read, ""},
		{"log_key", parsed, crio, output + "    log_key log\n", plain, printed, "hello <you>"},
	} {
		r, err := New(map[string]string{"filters.conf": tt.filters, "parsers.conf": tt.parsers, "output.conf": tt.output}, "us-east-1")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		o := r.Outputs[0]
		e, ok := r.Route(web, tt.line, read, o)
		if ok != (tt.want != "") {
			t.Errorf("%s: %+v, %t", tt.name, e, ok)
		}
		if !ok {
			continue
		}
		var is, want any
		same := e.Message == tt.want
		if json.Unmarshal([]byte(e.Message), &is) == nil && json.Unmarshal([]byte(tt.want), &want) == nil {
			same = reflect.DeepEqual(is, want)
		}
		if !same || !e.Time.Equal(tt.at) || e.Stream != "from-fluent-bit-kube.var.log.containers.web_shop_c-0123.log" {
			t.Errorf("%s: %s at %v in %s,\nwant %s at %v", tt.name, e.Message, e.Time, e.Stream, tt.want, tt.at)
		}
		if o.Region != "eu-west-1" || o.Group != "my-logs" || !o.Create || o.RetentionDays != 60 {
			t.Errorf("%s: output %+v", tt.name, o)
		}
	}
}

// Numbers and long messages: what float64 cannot hold stays, and what CloudWatch Logs refuses is cut between characters.
func TestMessage(t *testing.T) {
	data := map[string]string{
		"parsers.conf": "[PARSER]\n    Name j\n    Format json\n    Decode_Field_As json more\n",
		"filters.conf": "[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Parser j\n[FILTER]\n    Name kubernetes\n    Match *\n    Merge_Log On\n[FILTER]\n    Name record_modifier\n    Match *\n    Remove_key kubernetes\n",
		"output.conf":  output,
	}
	r, err := New(data, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		`{"id":1234567890123456789,"more":"{\"n\":9007199254740993}"}`: `{"id":1234567890123456789,"more":{"n":9007199254740993}}`,
		`{"log":"{\"id\":1234567890123456789}"}`:                       `{"id":1234567890123456789,"log":"{\"id\":1234567890123456789}"}`,
		`{"id":1} rest`:                                                `{"log":"{\"id\":1} rest"}`,
	} {
		if e, ok := r.Route(web, line, read, r.Outputs[0]); !ok || e.Message != want {
			t.Errorf("%s: %s, %t, want %s", line, e.Message, ok, want)
		}
	}
	e, ok := r.Route(web, strings.Repeat("é", MaxMessage), read, r.Outputs[0])
	if !ok || len(e.Message) > MaxMessage || len(e.Message) < MaxMessage-1 || !utf8.ValidString(e.Message) {
		t.Errorf("a long message has %d bytes", len(e.Message))
	}
}

// A configuration that cannot be followed is refused by name, and destinations that are not there are named.
func TestWhatIsNotThere(t *testing.T) {
	for _, tt := range []struct{ key, text, want string }{
		{"filters.conf", "[FILTER]\n    Name throttle\n    Match *\n", "the filter plugin throttle is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Parser none\n", "filter plugin parser: there is no parser none"},
		{"filters.conf", "[FILTER]\n    Name modify\n    Match *\n    Condition Key_exists a\n", "filter plugin modify: the setting condition is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name grep\n    Match *\n    Regex log (\n", "filter plugin grep: invalid expression"},
		{"filters.conf", "[FILTER]\n    Name kubernetes\n    Match *\n    K8S-Logging.Parser On\n", "filter plugin kubernetes: the setting k8s-logging.parser with the value On is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name kubernetes\n    Match *\n    Merge_Log_Trim Off\n", "filter plugin kubernetes: the setting merge_log_trim with the value Off is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name kubernetes\n    Match *\n    Kube_Tag_Prefix x.\n", "filter plugin kubernetes: the setting kube_tag_prefix with the value x. is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Unescape_Key On\n", "filter plugin parser: the setting unescape_key with the value On is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name grep\n    Match *\n    Regex log /a/ix\n", "filter plugin grep: invalid expression \"/a/ix\": the option x is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format regex\n    Regex /a/x\n", "parser l: invalid Regex: the option x is not available in Drydock"},
		{"filters.conf", "[FILTER]\n    Name grep\n    Match *\n    Regex log a\n    Logical_Op or\n", "filter plugin grep: the setting logical_op is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format json\n    Skip_Empty_Values Off\n", "parser l: the setting skip_empty_values with the value Off is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format json\n    Decode_Field_As escaped_utf8 log\n", "parser l: the decoder escaped_utf8 is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format json\n    Types x:hex\n", "parser l: the type x:hex is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format json\n    Time_Format %s%%\n", "parser l: the Time_Format %s%% is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format ltsv\n", "parser l: the format ltsv is not available in Drydock"},
		{"parsers.conf", "[PARSER]\n    Name l\n    Format regex\n    Regex (?=x)\n", "parser l: invalid Regex"},
		{"output.conf", "[OUTPUT]\n    Name cloudwatch\n    Match *\n    log_group_name g\n", "output plugin cloudwatch: either log_stream_name or log_stream_prefix is required"},
		{"output.conf", "[OUTPUT]\n    Name cloudwatch\n    Match *\n    log_stream_prefix p\n", "output plugin cloudwatch: log_group_name is required"},
		{"output.conf", "[OUTPUT]\n    Name cloudwatch\n    Match *\n    log_group_name /x/$(kubernetes['namespace_name'])\n    log_stream_prefix p\n", "output plugin cloudwatch: names of groups and streams with $(…) are not available in Drydock"},
		{"output.conf", "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    log_group_name g\n    log_stream_prefix p\n    role_arn r\n", "output plugin cloudwatch_logs: the setting role_arn is not available in Drydock"},
	} {
		if _, err := New(map[string]string{tt.key: tt.text}, "us-east-1"); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
	}
	r, err := New(map[string]string{"output.conf": "[OUTPUT]\n    Name kinesis_firehose\n    Match *\n[OUTPUT]\n    Name cloudwatch\n    Match *\n    log_group_name g\n    log_stream_name s\n"}, "us-east-1")
	if err != nil || len(r.Outputs) != 1 || !reflect.DeepEqual(r.Without, []string{"kinesis_firehose"}) {
		t.Fatalf("router %+v, %v", r, err)
	}
	if got, ok := r.Route(web, "x", read, r.Outputs[0]); !ok || got.Stream != "s" || r.Outputs[0].Region != "us-east-1" {
		t.Errorf("event %+v, %t", got, ok)
	}
}

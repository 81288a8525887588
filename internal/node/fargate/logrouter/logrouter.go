// Package logrouter implements Fargate's log router, which processes the lines that containers print: it reads the ConfigMap
// aws-logging, which contains a part of Fluent Bit's configuration, applies the filters in it to records, and determines the
// stream of CloudWatch Logs for each. It does no I/O: package node/containers reads the lines and calls CloudWatch Logs.
//
// It implements Fluent Bit's outputs cloudwatch_logs and cloudwatch, and the filters parser, kubernetes, grep, record_modifier
// and modify, with the settings that the AWS documentation and common examples use. A configuration with other filters or
// settings is an error that names them. Outputs with other destinations are left out and listed.
//
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html and https://docs.fluentbit.io/manual/pipeline. May be
// imported by internal/node/fargate and internal/node/containers.
package logrouter

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// A Source is the container that a line comes from.
type Source struct {
	Namespace, Pod, PodUID string
	Container, ContainerID string
	Image, Host            string
	Labels, Annotations    map[string]string
}

// tagPrefix stands for the folder of the log files.
const tagPrefix = "kube.var.log.containers."

// tag returns the tag of records, which Fluent Bit makes from the name of the log file.
func (s *Source) tag() string {
	return tagPrefix + s.Pod + "_" + s.Namespace + "_" + s.Container + "-" + s.ContainerID + ".log"
}

// An Output is a log group.
type Output struct {
	Region, Group string
	// Create says that the group is created if it does not exist, with a retention unless it is 0.
	Create        bool
	RetentionDays int32

	match                  matcher
	stream, prefix, logKey string
}

// An Event is what one line becomes in a stream of CloudWatch Logs.
type Event struct {
	Stream  string
	Time    time.Time
	Message string
}

// A Router turns lines into events, as a configuration says.
type Router struct {
	Outputs []*Output
	// Without are the outputs whose destinations are not there.
	Without []string

	filters []filter
}

// A record is what Fluent Bit passes from filter to filter.
type record struct {
	tag    string
	at     time.Time
	fields map[string]any
	source *Source
}

// A filter changes a record, or reports that it is dropped.
type filter struct {
	match matcher
	do    func(*record) (keep bool)
}

// New returns the router of the ConfigMap's data, for machines in a Region.
func New(data map[string]string, region string) (*Router, error) {
	parsers := map[string]*parser{}
	for _, s := range sections(data["parsers.conf"]) {
		p, err := newParser(s)
		if err != nil {
			return nil, err
		}
		parsers[s.get("name")] = p
	}
	r := &Router{}
	for _, s := range sections(data["filters.conf"]) {
		f, err := newFilter(s, parsers)
		if err != nil {
			return nil, err
		}
		r.filters = append(r.filters, f)
	}
	for _, s := range sections(data["output.conf"]) {
		name := strings.ToLower(s.get("name"))
		if name != "cloudwatch_logs" && name != "cloudwatch" {
			r.Without = append(r.Without, name)
			continue
		}
		o, err := newOutput(s, region)
		if err != nil {
			return nil, fmt.Errorf("output plugin %s: %w", name, err)
		}
		r.Outputs = append(r.Outputs, o)
	}
	return r, nil
}

// outputKeys are the settings of outputs that are known. Those without a use here change how Fluent Bit works, not what it sends.
var outputKeys = []string{
	"name", "match", "match_regex", "region", "log_group_name", "log_stream_prefix", "log_stream_name", "auto_create_group", "log_retention_days", "log_key",
	"endpoint", "sts_endpoint", "auto_retry_requests", "retry_limit", "extra_user_agent", "workers", "net.keepalive", "storage.total_limit_size",
}

func newOutput(s section, region string) (*Output, error) {
	if err := s.only(outputKeys); err != nil {
		return nil, err
	}
	m, err := newMatcher(s)
	if err != nil {
		return nil, err
	}
	o := &Output{
		Region: region, Group: s.get("log_group_name"), Create: isTrue(s.get("auto_create_group")), match: m,
		stream: s.get("log_stream_name"), prefix: s.get("log_stream_prefix"), logKey: s.get("log_key"),
	}
	if r := s.get("region"); r != "" {
		o.Region = r
	}
	switch {
	case o.Group == "":
		return nil, fmt.Errorf("log_group_name is required")
	case strings.Contains(o.Group, "$(") || strings.Contains(o.stream, "$("):
		return nil, fmt.Errorf("names of groups and streams with $(…) are not available in Drydock")
	case (o.stream == "") == (o.prefix == ""):
		return nil, fmt.Errorf("either log_stream_name or log_stream_prefix is required")
	}
	if d := s.get("log_retention_days"); d != "" {
		n, err := strconv.ParseInt(d, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("invalid log_retention_days %q: want a number of days", d)
		}
		o.RetentionDays = int32(n)
	}
	return o, nil
}

// Route returns the event for an output of a line of a container's log file, which has the time, the stream and the text as
// containerd writes them. at is the event's time unless a parser finds another. ok is false if the output gets no event.
func (r *Router) Route(src *Source, line string, at time.Time, o *Output) (e Event, ok bool) {
	if !o.match(src.tag()) {
		return Event{}, false
	}
	rec := &record{tag: src.tag(), at: at, fields: map[string]any{"log": line}, source: src}
	for _, f := range r.filters {
		if f.match(rec.tag) && !f.do(rec) {
			return Event{}, false
		}
	}
	message, ok := o.message(rec)
	if len(message) > MaxMessage {
		message = strings.ToValidUTF8(message[:MaxMessage], "")
	}
	return Event{Stream: o.Stream(src), Time: rec.at, Message: message}, ok
}

// Stream returns the name of the stream of a container's events.
func (o *Output) Stream(src *Source) string {
	if o.stream != "" {
		return o.stream
	}
	return o.prefix + src.tag()
}

// MaxMessage is how many bytes of a message are sent: CloudWatch Logs adds 26 to them, and the sum may be 256 KiB.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/logs/cloudwatch_limits_cwl.html
const MaxMessage = 256<<10 - 26

// message returns the text of an event: the record as JSON, or one of its fields.
func (o *Output) message(r *record) (string, bool) {
	var v any = r.fields
	if o.logKey != "" {
		field, ok := r.fields[o.logKey]
		if text, isText := field.(string); isText {
			return text, text != ""
		}
		if !ok {
			return "", false
		}
		v = field
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", false // what was decoded from JSON can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n"), true
}

// A matcher reports whether a tag matches a directive.
type matcher func(tag string) bool

func newMatcher(s section) (matcher, error) {
	if expr := s.get("match_regex"); expr != "" {
		re, err := compile(expr)
		if err != nil {
			return nil, fmt.Errorf("invalid Match_Regex %q: %w", expr, err)
		}
		return re.MatchString, nil
	}
	pattern := s.get("match")
	return func(tag string) bool {
		ok, err := path.Match(escape.Replace(pattern), tag) // tags have no slashes
		return err == nil && ok
	}, nil
}

// escape leaves only asterisks with a meaning.
var escape = strings.NewReplacer(`\`, `\\`, "[", `\[`, "?", `\?`)

func isFalse(v string) bool {
	switch strings.ToLower(v) {
	case "false", "off", "no", "0":
		return true
	}
	return false
}

func isTrue(v string) bool {
	switch strings.ToLower(v) {
	case "true", "on", "yes", "1":
		return true
	}
	return false
}

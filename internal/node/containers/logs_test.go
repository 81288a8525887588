package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate/logrouter"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// diskFiles are the files of a machine in a folder.
type diskFiles string

func (d diskFiles) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(string(d) + name) }
func (d diskFiles) Stat(name string) (fs.FileInfo, error)      { return os.Stat(string(d) + name) }

func (d diskFiles) ReadAt(name string, offset, limit int64) ([]byte, error) {
	b, err := os.ReadFile(string(d) + name)
	if err != nil {
		return nil, err
	}
	b = b[min(offset, int64(len(b))):]
	return b[:min(limit, int64(len(b)))], nil
}

func (d diskFiles) Write(_ context.Context, name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(string(d)+name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(string(d)+name, data, mode)
}

// fakeLogs is CloudWatch Logs with one group.
type fakeLogs struct {
	group     bool
	streams   map[string]bool
	retention int32
	calls     int
	got       []string // messages
	// fail returns the error of an operation's call, or nil.
	fail func(operation string, events []logstypes.InputLogEvent) error
}

func (f *fakeLogs) failure(operation string, events []logstypes.InputLogEvent) error {
	if f.fail == nil {
		return nil
	}
	return f.fail(operation, events)
}

func code(c string) error { return &smithy.GenericAPIError{Code: c, Message: "no"} }

func (f *fakeLogs) CreateLogGroup(context.Context, *cloudwatchlogs.CreateLogGroupInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogGroupOutput, error) {
	f.group = true
	return &cloudwatchlogs.CreateLogGroupOutput{}, nil
}

func (f *fakeLogs) CreateLogStream(_ context.Context, in *cloudwatchlogs.CreateLogStreamInput, _ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogStreamOutput, error) {
	switch {
	case !f.group:
		return nil, code("ResourceNotFoundException")
	case f.streams[*in.LogStreamName]:
		return nil, code("ResourceAlreadyExistsException")
	}
	f.streams[*in.LogStreamName] = true
	return &cloudwatchlogs.CreateLogStreamOutput{}, nil
}

func (f *fakeLogs) PutRetentionPolicy(_ context.Context, in *cloudwatchlogs.PutRetentionPolicyInput, _ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.PutRetentionPolicyOutput, error) {
	if err := f.failure("PutRetentionPolicy", nil); err != nil {
		return nil, err
	}
	f.retention = *in.RetentionInDays
	return &cloudwatchlogs.PutRetentionPolicyOutput{}, nil
}

func (f *fakeLogs) PutLogEvents(_ context.Context, in *cloudwatchlogs.PutLogEventsInput, _ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.PutLogEventsOutput, error) {
	f.calls++
	size := 0
	for i, e := range in.LogEvents {
		size += len(*e.Message) + 26
		if i > 0 && *e.Timestamp < *in.LogEvents[i-1].Timestamp {
			return nil, code("InvalidParameterException")
		}
	}
	first, last := *in.LogEvents[0].Timestamp, *in.LogEvents[len(in.LogEvents)-1].Timestamp
	if size > 1<<20 || len(in.LogEvents) > 10000 || first < 0 || last-first > (24*time.Hour).Milliseconds() {
		return nil, code("InvalidParameterException")
	}
	if !f.streams[*in.LogStreamName] {
		return nil, code("ResourceNotFoundException")
	}
	if err := f.failure("PutLogEvents", in.LogEvents); err != nil {
		return nil, err
	}
	for _, e := range in.LogEvents {
		f.got = append(f.got, *e.Message)
	}
	return &cloudwatchlogs.PutLogEventsOutput{}, nil
}

// failingFiles are files of which some cannot be read.
type failingFiles struct {
	logFiles
	fail func(operation, name string) error
}

func (f failingFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.fail("ReadDir", name); err != nil {
		return nil, err
	}
	return f.logFiles.ReadDir(name)
}

func (f failingFiles) Stat(name string) (fs.FileInfo, error) {
	if err := f.fail("Stat", name); err != nil {
		return nil, err
	}
	return f.logFiles.Stat(name)
}

func (f failingFiles) ReadAt(name string, offset, limit int64) ([]byte, error) {
	if err := f.fail("ReadAt", name); err != nil {
		return nil, err
	}
	return f.logFiles.ReadAt(name, offset, limit)
}

// A logWorld is a log router with a machine's files and CloudWatch Logs.
type logWorld struct {
	*testing.T
	*logSender
	logs *fakeLogs
	disk string
	gone bool // the pod was deleted
	down bool // the cluster does not answer
	deny bool // the machine may not ask for the pod
	at   time.Time
}

const logFile = "/var/log/pods/shop_web_u-1/c/0.log"

func newLogWorld(t *testing.T, filters string) *logWorld {
	t.Helper()
	w := &logWorld{T: t, logs: &fakeLogs{streams: map[string]bool{}}, disk: t.TempDir(), at: time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)}
	for _, name := range []string{logDir, filepath.Dir(logFile)} {
		if err := os.MkdirAll(w.disk+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(w.disk+logFile, w.disk+logDir+"/web_shop_c-0123.log"); err != nil {
		t.Fatal(err)
	}
	w.restart(filters)
	return w
}

// restart makes another log router with the same files, as a daemon does that starts again.
func (w *logWorld) restart(filters string) {
	w.Helper()
	r, err := logrouter.New(map[string]string{
		"parsers.conf": "[PARSER]\n    Name line\n    Format regex\n    Regex ^[^ ]+ [^ ]+ F (?<time>[^ ]+) (?<text>.*)$\n    Time_Key time\n    Time_Format %Y-%m-%dT%H:%M:%S%z\n",
		"filters.conf": filters,
		"output.conf":  "[OUTPUT]\n    Name cloudwatch\n    Match *\n    log_group_name g\n    log_stream_prefix p-\n    log_retention_days 7\n    auto_create_group on\n    log_key text\n",
	}, "us-east-1")
	if err != nil {
		w.Fatal(err)
	}
	f := &node.Fargate{Namespace: "shop", Pod: "web", PodUID: "u-1"}
	w.logSender = &logSender{
		fargate: f, router: r, files: diskFiles(w.disk), now: func() time.Time { return w.at }, api: func(string) logsAPI { return w.logs },
		pod: func(context.Context) (*corev1.Pod, error) {
			switch {
			case w.down:
				return nil, errors.New("the cluster is down")
			case w.deny:
				return nil, errForbidden
			case w.gone:
				return nil, nil
			}
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"fluentbit.io/exclude": "true"}}}, nil
		},
	}
	w.load()
}

// prints adds lines to the log that are printed now, with times of their own.
func (w *logWorld) prints(lines ...string) {
	w.Helper()
	f, err := os.OpenFile(w.disk+logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		w.Fatal(err)
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(f, "2026-11-29T08:59:59Z stdout F %s\n", l); err != nil {
			w.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		w.Fatal(err)
	}
}

func (w *logWorld) rotate(to string) {
	w.Helper()
	if err := os.Rename(w.disk+logFile, w.disk+to); err != nil {
		w.Fatal(err)
	}
}

// passes makes a pass and compares its error, and the messages that have come since the last one.
func (w *logWorld) passes(failure string, want ...string) {
	w.Helper()
	got := fmt.Sprint(w.pass(w.Context()))
	if got != failure && (got != "<nil>" || failure != "") {
		w.Errorf("pass: %s, want %q", got, failure)
	}
	if got := strings.Join(w.logs.got, ","); got != strings.Join(want, ",") {
		w.Errorf("messages %s, want %s", got, want)
	}
	w.logs.got = nil
}

const parseLines = "[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Parser line\n"

// What was added is sent once, also by the next daemon.
func TestLogsAreSentOnce(t *testing.T) {
	w := newLogWorld(t, parseLines)
	w.passes("") // the link leads nowhere
	w.prints("2026-11-29T08:59:00Z a", "2026-11-29T08:58:00Z b")
	w.passes("", "b", "a")
	w.prints("2026-11-29T08:59:00Z c")
	w.restart(parseLines)
	w.passes("", "c")
	w.passes("")
	if w.logs.calls != 2 || w.logs.retention != 7 {
		t.Errorf("%d calls, retention %d", w.logs.calls, w.logs.retention)
	}
	w.logs.streams = map[string]bool{} // deleted
	w.prints("2026-11-29T08:59:00Z d")
	w.passes("ResourceNotFoundException: no")
	w.passes("", "d")
	if err := os.Remove(w.disk + logDir + "/web_shop_c-0123.log"); err != nil {
		t.Fatal(err)
	}
	w.passes("")
	if len(w.state.Sent) > 0 {
		t.Errorf("a log that is gone is remembered: %v", w.state.Sent)
	}
}

// A replaced file is read to its end, whatever the size of the new one.
func TestLogsOfReplacedFiles(t *testing.T) {
	w := newLogWorld(t, parseLines)
	w.prints("2026-11-29T08:59:00Z a")
	w.passes("", "a")
	w.prints("2026-11-29T08:59:00Z b")
	w.rotate(logFile + ".20261129-085959")
	w.passes("") // there is no new file yet
	w.prints("2026-11-29T08:59:00Z c", "2026-11-29T08:59:00Z d", "2026-11-29T08:59:00Z e")
	w.restart(parseLines)
	w.passes("", "b", "c", "d", "e")
	w.passes("")

	w.rotate("/compressed") // the kubelet has compressed it meanwhile
	w.prints("2026-11-29T08:59:00Z f", "2026-11-29T08:59:00Z g", "2026-11-29T08:59:00Z h")
	w.passes("", "f", "g", "h")
}

// What cannot be read for a moment is read later.
func TestLogsThatCannotBeRead(t *testing.T) {
	const old = logFile + ".20261129-085959"
	for _, tt := range []struct{ operation, name string }{
		{"ReadAt", old}, {"Stat", old}, {"ReadDir", filepath.Dir(logFile)}, {"Stat", logDir + "/web_shop_c-0123.log"},
	} {
		w := newLogWorld(t, parseLines)
		w.prints("2026-11-29T08:59:00Z a")
		w.passes("", "a")
		w.prints("2026-11-29T08:59:00Z b")
		w.rotate(old)
		w.prints("2026-11-29T08:59:00Z c")
		failures := 0
		w.files = failingFiles{w.files, func(operation, name string) error {
			if operation != tt.operation || name != tt.name || failures > 0 {
				return nil
			}
			failures++
			return errors.New("input/output error")
		}}
		w.passes("input/output error")
		w.passes("", "b", "c")
		if failures == 0 {
			t.Errorf("no %s of %s", tt.operation, tt.name)
		}
	}
}

// A batch ends before the bounds of PutLogEvents, and has at least one event.
func TestBatches(t *testing.T) {
	at := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	event := func(after time.Duration, size int) logrouter.Event {
		return logrouter.Event{Time: at.Add(after), Message: strings.Repeat("x", size)}
	}
	for name, tt := range map[string]struct {
		events []logrouter.Event
		want   int
	}{
		"1 MiB":            {slices.Repeat([]logrouter.Event{event(0, 256<<10-26)}, 5), 4},
		"1 MiB and a byte": {[]logrouter.Event{event(0, 1<<19-26), event(0, 1<<19-25)}, 1},
		"one event":        {[]logrouter.Event{event(0, 2<<20), event(0, 1)}, 1},
		"10,000 events":    {slices.Repeat([]logrouter.Event{event(0, 1)}, 10001), 10000},
		"24 hours":         {[]logrouter.Event{event(time.Hour, 1), event(25*time.Hour, 1), event(0, 1)}, 2},
		"backwards":        {[]logrouter.Event{event(24*time.Hour, 1), event(0, 1), event(-time.Millisecond, 1)}, 2},
		"a day and more":   {[]logrouter.Event{event(0, 1), event(24*time.Hour+time.Millisecond, 1)}, 1},
	} {
		var b logBatch
		n := slices.IndexFunc(tt.events, func(e logrouter.Event) bool { return !b.add(e) })
		if n != tt.want || len(b.events) != tt.want {
			t.Errorf("%s: the event %d did not fit, the batch has %d, want %d", name, n, len(b.events), tt.want)
		}
	}
}

// A failure waits longer each time, and is logged when it changes.
func TestUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i := &instance{rt: &Runtime{clock: clock.RealClock{}, log: slog.New(slog.NewTextHandler(&log, nil))}}
		begin, at := time.Now(), []int{}
		i.untilDone(t.Context(), "trying", func() error {
			at = append(at, int(time.Since(begin).Seconds()))
			switch n := len(at); {
			case n < 4:
				return errors.New("early")
			case n < 10:
				return errors.New("late")
			}
			return nil
		})
		if want := []int{0, 5, 15, 35, 75, 155, 315, 555, 795, 1035}; !slices.Equal(at, want) {
			t.Errorf("tried after %v seconds, want %v", at, want)
		}
		if n := strings.Count(log.String(), "trying"); n != 2 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
	})
}

// A call has events of at most 24 hours, and a long log takes several calls. What it has sent is not sent again if the next call fails, and what
// CloudWatch Logs refuses does not hold up the rest.
func TestLogsInSeveralCalls(t *testing.T) {
	w := newLogWorld(t, parseLines)
	w.prints("2026-11-29T08:00:00Z a", "2026-11-27T08:00:00Z b", "1960-01-01T00:00:00Z c", "2026-11-27T08:00:00Z d")
	w.logs.fail = func(_ string, events []logstypes.InputLogEvent) error {
		if len(events) > 0 && *events[0].Message == "c" {
			return code("ThrottlingException")
		}
		return nil
	}
	w.passes("ThrottlingException: no", "a", "b")
	if s := w.step(errors.New("x")); s.Evidence != "logs are not sent: x" || !s.Warning || !s.OK {
		t.Errorf("step %+v", s)
	}
	w.logs.fail = func(_ string, events []logstypes.InputLogEvent) error {
		if len(events) > 0 && *events[0].Message == "c" {
			return code("InvalidParameterException")
		}
		return nil
	}
	w.passes("", "d")
	if s := w.step(nil); s.Evidence != "logs are sent to g; CloudWatch Logs has refused events: InvalidParameterException: no" || !s.Warning {
		t.Errorf("step %+v", s)
	}
	w.passes("")

	w.logs.calls = 0
	var many []string
	for range 80 {
		many = append(many, "2026-11-29T08:00:00Z "+strings.Repeat("x", 16<<10))
	}
	w.prints(many...)
	if err := w.pass(t.Context()); err != nil || len(w.logs.got) != 80 || w.logs.calls < 2 {
		t.Errorf("%d messages in %d calls, %v", len(w.logs.got), w.logs.calls, err)
	}
}

// A retention that could not be set is set later, also by the next daemon, and does not hold up logs.
func TestRetentionIsSetLater(t *testing.T) {
	w := newLogWorld(t, parseLines)
	w.logs.fail = func(operation string, _ []logstypes.InputLogEvent) error {
		if operation == "PutRetentionPolicy" {
			return code("AccessDeniedException")
		}
		return nil
	}
	w.prints("2026-11-29T08:59:00Z a")
	w.passes("", "a")
	if s := w.step(nil); s.Evidence != "logs are sent to g; the retention of g is not set: AccessDeniedException: no" || !s.Warning {
		t.Errorf("step %+v", s)
	}
	w.logs.fail = nil
	w.restart(parseLines)
	w.passes("")
	if w.logs.retention != 7 {
		t.Errorf("retention %d", w.logs.retention)
	}
	if s := w.step(nil); s.Evidence != "logs are sent to g" || s.Warning {
		t.Errorf("step %+v", s)
	}
}

// A cluster that does not answer holds logs up. A pod that is gone has the annotations that it had.
func TestLogsOfPodsThatAreGone(t *testing.T) {
	w := newLogWorld(t, parseLines)
	w.down = true
	w.prints("2026-11-29T08:59:00Z a")
	w.passes("the cluster is down")
	w.down, w.gone = false, true
	w.passes("", "a")

	exclude := parseLines + "[FILTER]\n    Name kubernetes\n    Match *\n    K8S-Logging.Exclude On\n"
	w = newLogWorld(t, exclude)
	w.prints("2026-11-29T08:59:00Z a")
	w.passes("")
	w.gone = true
	w.prints("2026-11-29T08:59:00Z b")
	w.passes("")
	w.deny = true // as nodes get it for pods that are gone
	w.passes("")
	w.prints("2026-11-29T08:59:00Z c")
	w.passes("")

	// A pod that is not known may be one that the API server does not know yet.
	w.restart(exclude)
	w.prints("2026-11-29T08:59:00Z d")
	w.passes("403 Forbidden")
	w.at = w.at.Add(time.Minute - time.Second)
	w.passes("403 Forbidden")
	w.at = w.at.Add(time.Second)
	w.passes("", "d")
	w.restart(exclude)
	w.prints("2026-11-29T08:59:00Z e")
	w.passes("403 Forbidden")
	w.last = true
	w.passes("", "e")
	w.restart(exclude)
	w.deny = false
	w.prints("2026-11-29T08:59:00Z f")
	w.passes("", "f")
}

// Only an answer that the pod is not there means that it was deleted.
func TestPodOfAMachine(t *testing.T) {
	var status int
	var body string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/shop/pods/web" {
			t.Errorf("path %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	rt := &Runtime{clock: clock.RealClock{}, cfg: node.Config{Credentials: func(context.Context, string) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "s"}, nil
	}}}
	c := &client{i: &instance{rt: rt, in: machine.Instance{Region: "us-east-1"}}, cfg: &userdata.Config{Endpoint: srv.URL}, http: srv.Client()}
	for _, tt := range []struct {
		status  int
		uid     string
		want    bool
		failure string
	}{
		{200, "u-1", true, ""},
		{200, "u-2", false, ""},
		{404, "", false, ""},
		{403, "", false, "asking the cluster for the pod: 403 Forbidden"},
		{401, "", false, "asking the cluster for the pod: Unauthorized"},
		{429, "", false, "asking the cluster for the pod: 429 Too Many Requests"},
		{500, "", false, "asking the cluster for the pod: 500 Internal Server Error"},
	} {
		status, body = tt.status, `{"metadata":{"uid":"`+tt.uid+`"}}`
		p, err := c.pod(t.Context(), &node.Fargate{Namespace: "shop", Pod: "web", PodUID: "u-1"})
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		if (p != nil) != tt.want || failure != tt.failure {
			t.Errorf("%d, %q: %v, %q", tt.status, tt.uid, p, failure)
		}
	}
}

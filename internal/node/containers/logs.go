package containers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate/logrouter"
)

const (
	// logDir has a link to the log of each container, named POD_NAMESPACE_CONTAINER-ID.log.
	logDir = "/var/log/containers"
	// sentFile remembers how much of each log was sent.
	sentFile = "/var/lib/drydock/logs-sent.json"
	// logsEvery is how often logs are read, and logsRetry how long a failure waits at most.
	logsEvery, logsRetry = time.Second, 10 * time.Second
	// logsAtOnce is how much of a log is read at once.
	logsAtOnce = 256 << 10
)

// A logSender is the log router of a Fargate pod. What could not be sent is tried again, until the machine ends.
//
// AWS deviation: Fluent Bit gives up after a few attempts.
type logSender struct {
	i       *instance
	c       *client
	router  *logrouter.Router
	sent    map[string]int64 // by output and file
	clients map[string]*cloudwatchlogs.Client
	streams map[[2]string]bool // those that exist, with their groups
}

// sendLogs sends the logs of the pod as its configuration says, until ctx ends.
func (i *instance) sendLogs(ctx context.Context, c *client) {
	r, err := logrouter.New(i.fargate.Logging, i.in.Region)
	if err != nil { // the scheduler has checked it
		i.rt.log.Warn("the logs of a pod of Fargate are not sent", "machine", i.in.ID, "err", err)
		return
	}
	s := &logSender{i: i, c: c, router: r, sent: map[string]int64{}, clients: map[string]*cloudwatchlogs.Client{}, streams: map[[2]string]bool{}}
	if b, err := i.machine.ReadAt(sentFile, 0, 1<<20); err == nil {
		if err := json.Unmarshal(b, &s.sent); err != nil {
			s.sent = map[string]int64{} // all is sent again
		}
	}
	for wait := logsEvery; ; {
		var flushed chan struct{}
		select {
		case <-i.rt.clock.After(wait):
		case flushed = <-i.flush:
		case <-ctx.Done():
			return
		}
		err := s.pass(ctx)
		if flushed != nil {
			close(flushed)
		}
		if ctx.Err() != nil {
			return
		}
		step := node.Step{Name: node.StepLogs, OK: true, Evidence: "logs are sent to " + s.groups()}
		wait = logsEvery
		if err != nil {
			step.Warning, step.Evidence = true, "logs are not sent: "+err.Error()
			wait = logsRetry
		}
		i.record(ctx, step)
	}
}

// logsPatience is how long the end of a machine waits for its log router.
const logsPatience = 5 * time.Second

// flushLogs waits until the log router has tried once more to send what the containers have printed.
func (i *instance) flushLogs(ctx context.Context) {
	i.mu.Lock()
	joined := i.client != nil
	i.mu.Unlock()
	if i.fargate.Logging == nil || !joined {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logsPatience)
	defer cancel()
	flushed := make(chan struct{})
	select {
	case i.flush <- flushed:
	case <-ctx.Done():
		return
	}
	select {
	case <-flushed:
	case <-ctx.Done():
	}
}

// groups names the log groups.
func (s *logSender) groups() string {
	var out []string
	for _, o := range s.router.Outputs {
		out = append(out, o.Group)
	}
	return strings.Join(out, ", ")
}

// pass sends what the containers have printed since the last pass. An output that fails does not stop the others.
func (s *logSender) pass(ctx context.Context) error {
	entries, err := s.i.machine.ReadDir(logDir)
	if err != nil {
		return nil //nolint:nilerr // no container has started
	}
	f := s.i.fargate
	var errs []error
	var pod *corev1.Pod
	for _, e := range entries {
		src, ok := sourceOf(e.Name(), f)
		if !ok {
			continue
		}
		st, err := s.i.machine.Stat(path.Join(logDir, e.Name()))
		if err != nil {
			continue // it is being replaced
		}
		for n, o := range s.router.Outputs {
			key := fmt.Sprintf("%d/%s", n, e.Name())
			if st.Size() < s.sent[key] {
				s.sent[key] = 0 // the kubelet has begun a new file
			}
			if st.Size() == s.sent[key] {
				continue
			}
			if pod == nil {
				if pod = s.pod(ctx); pod == nil {
					return nil // the cluster does not answer now
				}
			}
			s.describe(src, pod)
			if err := s.send(ctx, o, src, key, e.Name()); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// sourceOf returns the container of a log file, if it is one of the pod.
func sourceOf(file string, f *node.Fargate) (*logrouter.Source, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(file, ".log"), f.Pod+"_"+f.Namespace+"_")
	at := strings.LastIndexByte(rest, '-')
	if !ok || at < 0 {
		return nil, false
	}
	return &logrouter.Source{Namespace: f.Namespace, Pod: f.Pod, PodUID: f.PodUID, Container: rest[:at], ContainerID: rest[at+1:], Host: f.NodeName}, true
}

// pod returns the pod, without what is not known if the cluster has it no longer, or nil if it cannot be asked.
func (s *logSender) pod(ctx context.Context) *corev1.Pod {
	f := s.i.fargate
	var p corev1.Pod
	if err := s.c.get(ctx, "/api/v1/namespaces/"+url.PathEscape(f.Namespace)+"/pods/"+url.PathEscape(f.Pod), &p); err != nil {
		return nil
	}
	if string(p.UID) != f.PodUID {
		return &corev1.Pod{}
	}
	return &p
}

// describe adds what the pod says about a container.
func (s *logSender) describe(src *logrouter.Source, p *corev1.Pod) {
	src.Labels, src.Annotations = p.Labels, p.Annotations
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		if n := slices.IndexFunc(all, func(k corev1.Container) bool { return k.Name == src.Container }); n >= 0 {
			src.Image = all[n].Image
		}
	}
}

// send sends the whole lines that were added to a log, and notes how far it came.
func (s *logSender) send(ctx context.Context, o *logrouter.Output, src *logrouter.Source, key, file string) error {
	for {
		b, err := s.i.machine.ReadAt(path.Join(logDir, file), s.sent[key], logsAtOnce)
		if err != nil {
			return nil //nolint:nilerr // it is being replaced
		}
		end := bytes.LastIndexByte(b, '\n') + 1
		if end == 0 {
			return nil // lines have at most 16 KiB
		}
		streams := map[string][]logstypes.InputLogEvent{}
		for line := range strings.Lines(string(b[:end])) {
			for _, e := range s.router.Route(src, strings.TrimSuffix(line, "\n"), printed(line, s.i.rt.clock.Now())) {
				if e.Output == o {
					streams[e.Stream] = append(streams[e.Stream], logstypes.InputLogEvent{Timestamp: aws.Int64(e.Time.UnixMilli()), Message: aws.String(e.Message)})
				}
			}
		}
		for stream, events := range streams {
			if err := s.put(ctx, o, stream, events); err != nil {
				return err
			}
		}
		s.sent[key] += int64(end)
		if err := s.save(ctx); err != nil {
			return err
		}
		if len(b) < logsAtOnce {
			return nil
		}
	}
}

// printed returns the time at which containerd has read a line, with which each line begins.
func printed(line string, otherwise time.Time) time.Time {
	text, _, _ := strings.Cut(line, " ")
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return otherwise
	}
	return t
}

func (s *logSender) save(ctx context.Context) error {
	b, err := json.Marshal(s.sent)
	if err != nil {
		return err
	}
	return s.i.machine.Write(ctx, sentFile, b, 0o600)
}

// The bounds of PutLogEvents.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const (
	maxBatch      = 1 << 20
	maxEvents     = 10000
	eventOverhead = 26
	maxMessage    = 256<<10 - eventOverhead
)

// put sends events to a stream, which it makes if it does not exist.
func (s *logSender) put(ctx context.Context, o *logrouter.Output, stream string, events []logstypes.InputLogEvent) error {
	client := s.client(o.Region)
	if at := [2]string{o.Group, stream}; !s.streams[at] {
		if err := s.create(ctx, client, o, stream); err != nil {
			return failed(err)
		}
		s.streams[at] = true
	}
	slices.SortStableFunc(events, func(a, b logstypes.InputLogEvent) int { return cmp.Compare(*a.Timestamp, *b.Timestamp) })
	for len(events) > 0 {
		n, size := 0, 0
		for n < len(events) && n < maxEvents {
			if m := events[n].Message; len(*m) > maxMessage {
				events[n].Message = aws.String(strings.ToValidUTF8((*m)[:maxMessage], ""))
			}
			if size += len(*events[n].Message) + eventOverhead; size > maxBatch {
				break
			}
			n++
		}
		_, err := client.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: &o.Group, LogStreamName: &stream, LogEvents: events[:n]})
		if err != nil {
			if is(err, "ResourceNotFoundException") {
				delete(s.streams, [2]string{o.Group, stream}) // it was deleted
			}
			return failed(err)
		}
		events = events[n:]
	}
	return nil
}

// create makes a stream and, if the configuration says so, its group.
func (s *logSender) create(ctx context.Context, client *cloudwatchlogs.Client, o *logrouter.Output, stream string) error {
	add := func() error {
		_, err := client.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &o.Group, LogStreamName: &stream})
		if is(err, "ResourceAlreadyExistsException") {
			return nil
		}
		return err
	}
	err := add()
	if !is(err, "ResourceNotFoundException") || !o.Create {
		return err
	}
	if _, err := client.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &o.Group}); err != nil && !is(err, "ResourceAlreadyExistsException") {
		return err
	}
	if o.RetentionDays > 0 {
		if _, err := client.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &o.Group, RetentionInDays: &o.RetentionDays}); err != nil {
			return err
		}
	}
	return add()
}

// client returns a client that calls as the pod execution role, through the machine's network.
func (s *logSender) client(region string) *cloudwatchlogs.Client {
	if s.clients[region] == nil {
		s.clients[region] = cloudwatchlogs.New(cloudwatchlogs.Options{
			Region: region, HTTPClient: &http.Client{Transport: s.i.rt.options.HTTP(s.i.in), Timeout: 30 * time.Second}, RetryMaxAttempts: 1,
			Credentials:  aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) { return s.i.rt.cfg.Credentials(ctx, s.i.in.ID) }),
			BaseEndpoint: aws.String("https://logs." + region + ".amazonaws.com"),
		})
	}
	return s.clients[region]
}

// is reports whether an error has a code of the API.
func is(err error, code string) bool {
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && e.ErrorCode() == code
}

// failed returns an error without what differs in each attempt.
func failed(err error) error {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: %s", e.ErrorCode(), e.ErrorMessage())
	}
	if why := node.DecisionOf(err); why != nil {
		return errors.New(why.Text)
	}
	return err
}

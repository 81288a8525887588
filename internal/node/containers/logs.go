package containers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	// podLogs has the logs, as NAMESPACE_POD_UID/CONTAINER/RESTARTS.log. The kubelet gives those that it replaces a longer name.
	podLogs = "/var/log/pods"
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
	fargate *node.Fargate
	router  *logrouter.Router
	files   logFiles
	now     func() time.Time
	// pod returns the pod, or nil if it was deleted. errForbidden may mean that, too. Another error means that the cluster did not
	// answer.
	pod func(context.Context) (*corev1.Pod, error)
	api func(region string) logsAPI

	state logState
	known *corev1.Pod // as last returned by pod
	last  bool        // the machine ends after this pass
	// since is when the cluster has refused for the first time to describe a pod that is not known.
	since time.Time
	// Why some logs were not sent, and never will be, and why a retention is not set. They are empty otherwise.
	refused, rejected, retention string
}

// logFiles are the files of a machine.
type logFiles interface {
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	ReadAt(name string, offset, limit int64) ([]byte, error)
	Write(ctx context.Context, name string, data []byte, mode fs.FileMode) error
}

// logsAPI are the operations that the log router calls.
type logsAPI interface {
	CreateLogGroup(context.Context, *cloudwatchlogs.CreateLogGroupInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogGroupOutput, error)
	CreateLogStream(context.Context, *cloudwatchlogs.CreateLogStreamInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogStreamOutput, error)
	PutRetentionPolicy(context.Context, *cloudwatchlogs.PutRetentionPolicyInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.PutRetentionPolicyOutput, error)
	PutLogEvents(context.Context, *cloudwatchlogs.PutLogEventsInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.PutLogEventsOutput, error)
}

// logState is what the machine's disk has of a logSender.
type logState struct {
	// Sent says how much was sent, by output and file.
	Sent map[string]*sentLog
	// Retention has the groups, as REGION/GROUP, that were created and have no retention yet.
	Retention map[string]bool `json:",omitempty"`
}

// A sentLog says how much of a log was sent to an output.
type sentLog struct {
	Inode  uint64 // of the file: the kubelet replaces it when it is large
	Offset int64
	stream bool // it exists
}

// sendLogs sends the logs of the pod as its configuration says, until ctx ends.
func (i *instance) sendLogs(ctx context.Context, c *client) {
	r, err := logrouter.New(i.fargate.Logging, i.in.Region)
	if err != nil { // the scheduler has checked it
		i.rt.log.Warn("the logs of a pod of Fargate are not sent", "machine", i.in.ID, "err", err)
		return
	}
	s := &logSender{
		fargate: i.fargate, router: r, files: i.machine, now: i.rt.clock.Now, api: i.logsAPI(),
		pod: func(ctx context.Context) (*corev1.Pod, error) { return c.pod(ctx, i.fargate) },
	}
	s.load()
	for wait := logsEvery; ; {
		var flushed chan struct{}
		select {
		case <-i.rt.clock.After(wait):
		case flushed = <-i.flush:
		case <-ctx.Done():
			return
		}
		s.last = flushed != nil
		err := s.pass(ctx)
		if flushed != nil {
			close(flushed)
		}
		if ctx.Err() != nil {
			return
		}
		if wait = logsEvery; err != nil || s.retention != "" {
			wait = logsRetry
		}
		i.record(ctx, s.step(err))
	}
}

// step says how the last pass went.
func (s *logSender) step(err error) node.Step {
	step := node.Step{Name: node.StepLogs, OK: true, Evidence: "logs are sent to " + s.groups()}
	if err != nil {
		step.Evidence = "logs are not sent: " + err.Error()
	}
	for _, but := range []string{s.refused, s.rejected, s.retention} {
		if but != "" {
			step.Evidence += "; " + but
		}
	}
	step.Warning = err != nil || s.refused+s.rejected+s.retention != ""
	return step
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
	s.retain(ctx)
	entries, err := s.files.ReadDir(logDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no container has started
	}
	if err != nil {
		return err
	}
	pod := sync.OnceValues(func() (*corev1.Pod, error) {
		p, err := s.pod(ctx)
		if p != nil {
			s.known = p
		}
		if errors.Is(err, errForbidden) && s.deleted() {
			err = nil
		}
		return cmp.Or(s.known, &corev1.Pod{}), err
	})
	there := map[string]bool{}
	var failures []string // without repetitions
	for _, e := range entries {
		src, ok := sourceOf(e.Name(), s.fargate)
		if !ok {
			continue
		}
		for n, o := range s.router.Outputs {
			key := fmt.Sprintf("%d/%s", n, e.Name())
			there[key] = true
			if err := s.update(ctx, o, src, key, path.Join(logDir, e.Name()), pod); err != nil && !slices.Contains(failures, err.Error()) {
				failures = append(failures, err.Error())
			}
		}
	}
	maps.DeleteFunc(s.state.Sent, func(key string, _ *sentLog) bool { return !there[key] })
	if len(failures) > 0 {
		return errors.New(strings.Join(failures, "; "))
	}
	return nil
}

// podPatience is how long a cluster may refuse to describe a pod that it has not described yet.
const podPatience = time.Minute

// deleted reports whether a pod that the machine may not ask for counts as deleted: machines may ask for their own pods only. The
// API server may not know yet that the pod is the machine's own.
func (s *logSender) deleted() bool {
	if s.known != nil || s.last {
		return true
	}
	if s.since.IsZero() {
		s.since = s.now()
	}
	return s.now().Sub(s.since) >= podPatience
}

// update sends what was added to a log.
//
// AWS deviation: of the files that the kubelet has replaced, only the last one that was being read is read to its end, unless
// it is compressed by then.
func (s *logSender) update(ctx context.Context, o *logrouter.Output, src *logrouter.Source, key, file string, pod func() (*corev1.Pod, error)) error {
	st, err := s.files.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is being replaced
	}
	if err != nil {
		return err
	}
	at := s.state.Sent[key]
	if at == nil {
		at = &sentLog{Inode: inode(st)}
		s.state.Sent[key] = at
	}
	replaced := at.Inode != inode(st)
	if !replaced && st.Size() < at.Offset {
		at.Offset = 0 // it was truncated
	}
	if !replaced && st.Size() == at.Offset {
		return nil
	}
	p, err := pod()
	if err != nil {
		return err
	}
	describe(src, p)
	if replaced {
		old, err := s.old(src, at.Inode)
		if err != nil {
			return err
		}
		if old != "" {
			if err := s.send(ctx, o, src, at, old); err != nil {
				return err
			}
		}
		at.Inode, at.Offset = inode(st), 0
	}
	return s.send(ctx, o, src, at, file)
}

// old returns the name that the kubelet has given to a file that it has replaced, or the empty string if it is gone or compressed.
func (s *logSender) old(src *logrouter.Source, number uint64) (string, error) {
	folder := path.Join(podLogs, src.Namespace+"_"+src.Pod+"_"+src.PodUID, src.Container)
	entries, err := s.files.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if inode(st) == number && !strings.HasSuffix(e.Name(), ".gz") {
			return path.Join(folder, e.Name()), nil
		}
	}
	return "", nil
}

// inode returns the number that a file keeps when it gets another name.
func inode(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ino
	}
	return 0
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

// errForbidden is the error of client.pod if the machine may not ask for the pod.
var errForbidden = errors.New("403 Forbidden")

// pod returns the pod of a machine. If it was deleted, the result is nil.
func (c *client) pod(ctx context.Context, f *node.Fargate) (*corev1.Pod, error) {
	status, b, err := c.do(ctx, http.MethodGet, "/api/v1/namespaces/"+url.PathEscape(f.Namespace)+"/pods/"+url.PathEscape(f.Pod), nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the cluster for the pod: %w", failed(err))
	case status == http.StatusNotFound:
		return nil, nil
	case status == http.StatusForbidden:
		return nil, fmt.Errorf("asking the cluster for the pod: %w", errForbidden)
	case status != http.StatusOK:
		return nil, fmt.Errorf("asking the cluster for the pod: %d %s", status, http.StatusText(status))
	}
	var p corev1.Pod
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	if string(p.UID) != f.PodUID {
		return nil, nil
	}
	return &p, nil
}

// describe adds what the pod says about a container.
func describe(src *logrouter.Source, p *corev1.Pod) {
	src.Labels, src.Annotations = p.Labels, p.Annotations
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		if n := slices.IndexFunc(all, func(k corev1.Container) bool { return k.Name == src.Container }); n >= 0 {
			src.Image = all[n].Image
		}
	}
}

// send sends the whole lines that were added to a file, and notes how far it came.
func (s *logSender) send(ctx context.Context, o *logrouter.Output, src *logrouter.Source, at *sentLog, file string) error {
	for {
		b, err := s.files.ReadAt(file, at.Offset, logsAtOnce)
		var st fs.FileInfo
		if err == nil {
			st, err = s.files.Stat(file)
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && inode(st) != at.Inode {
			return nil // it is being replaced
		}
		if err != nil {
			return err
		}
		end := bytes.LastIndexByte(b, '\n') + 1
		if end == 0 && len(b) == logsAtOnce { // lines of containerd are shorter
			end = len(b)
		}
		if end == 0 {
			return nil
		}
		var batch logBatch
		read := at.Offset
		for line := range strings.Lines(string(b[:end])) {
			text := strings.TrimSuffix(line, "\n")
			if e, ok := s.router.Route(src, text, printed(text, s.now()), o); ok && !batch.add(e) {
				if err := s.put(ctx, o, src, at, batch.events, read); err != nil {
					return err
				}
				batch = logBatch{}
				batch.add(e)
			}
			read += int64(len(line))
		}
		if err := s.put(ctx, o, src, at, batch.events, read); err != nil {
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

// load reads what the machine's disk has. Without it, all is sent again.
func (s *logSender) load() {
	if b, err := s.files.ReadAt(sentFile, 0, 1<<20); err != nil || json.Unmarshal(b, &s.state) != nil {
		s.state = logState{}
	}
	if s.state.Sent == nil {
		s.state.Sent = map[string]*sentLog{}
	}
	maps.DeleteFunc(s.state.Sent, func(_ string, at *sentLog) bool { return at == nil })
	if s.state.Retention == nil {
		s.state.Retention = map[string]bool{}
	}
}

func (s *logSender) save(ctx context.Context) error {
	b, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	return s.files.Write(ctx, sentFile, b, 0o600)
}

// The bounds of PutLogEvents.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const (
	maxBatch      = 1 << 20
	maxEvents     = 10000
	maxSpan       = 24 * time.Hour
	eventOverhead = 26
)

// A logBatch has the events of one call.
type logBatch struct {
	events      []logstypes.InputLogEvent
	size        int
	first, last int64
}

// add adds an event, unless the call would be refused with it. The first one fits.
func (b *logBatch) add(e logrouter.Event) bool {
	at, size := e.Time.UnixMilli(), b.size+len(e.Message)+eventOverhead
	first, last := at, at
	if len(b.events) > 0 {
		first, last = min(at, b.first), max(at, b.last)
		if len(b.events) == maxEvents || size > maxBatch || last-first > maxSpan.Milliseconds() {
			return false
		}
	}
	b.events = append(b.events, logstypes.InputLogEvent{Timestamp: &at, Message: &e.Message})
	b.size, b.first, b.last = size, first, last
	return true
}

// put sends events to their stream, which it makes if it does not exist, and notes that the log was sent up to an offset.
// Events that CloudWatch Logs refuses because of their content would be refused again, so they are left out.
func (s *logSender) put(ctx context.Context, o *logrouter.Output, src *logrouter.Source, at *sentLog, events []logstypes.InputLogEvent, offset int64) error {
	if len(events) > 0 {
		stream := o.Stream(src)
		if !at.stream {
			if err := s.create(ctx, o, stream); err != nil {
				return failed(err)
			}
			at.stream = true
		}
		slices.SortStableFunc(events, func(a, b logstypes.InputLogEvent) int { return cmp.Compare(*a.Timestamp, *b.Timestamp) })
		out, err := s.api(o.Region).PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: &o.Group, LogStreamName: &stream, LogEvents: events})
		switch {
		case is(err, "InvalidParameterException"):
			s.refused = "CloudWatch Logs has refused events: " + failed(err).Error()
		case err != nil:
			if is(err, "ResourceNotFoundException") {
				at.stream = false // it was deleted
			}
			return failed(err)
		case out.RejectedLogEventsInfo != nil:
			s.rejected = "CloudWatch Logs has rejected events because of their time"
		}
	}
	at.Offset = offset
	return s.save(ctx)
}

// create makes a stream and, if the configuration says so, its group.
func (s *logSender) create(ctx context.Context, o *logrouter.Output, stream string) error {
	api := s.api(o.Region)
	add := func() error {
		_, err := api.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &o.Group, LogStreamName: &stream})
		if is(err, "ResourceAlreadyExistsException") {
			return nil
		}
		return err
	}
	err := add()
	if !is(err, "ResourceNotFoundException") || !o.Create {
		return err
	}
	_, err = api.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &o.Group})
	switch {
	case is(err, "ResourceAlreadyExistsException"):
	case err != nil:
		return err
	case o.RetentionDays > 0:
		s.state.Retention[o.Region+"/"+o.Group] = true
		if err := s.save(ctx); err != nil {
			return err
		}
		s.retain(ctx)
	}
	return add()
}

// retain sets the retention of the groups that have none yet.
func (s *logSender) retain(ctx context.Context) {
	s.retention = ""
	for _, o := range s.router.Outputs {
		key := o.Region + "/" + o.Group
		if !s.state.Retention[key] || o.RetentionDays == 0 {
			continue
		}
		_, err := s.api(o.Region).PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &o.Group, RetentionInDays: &o.RetentionDays})
		if err != nil && !is(err, "ResourceNotFoundException") {
			s.retention = "the retention of " + o.Group + " is not set: " + failed(err).Error()
			continue
		}
		delete(s.state.Retention, key) // it is set, or the group was deleted
	}
}

// logsAPI returns clients that call as the pod execution role, through the machine's network, by Region.
func (i *instance) logsAPI() func(region string) logsAPI {
	clients := map[string]logsAPI{}
	return func(region string) logsAPI {
		if clients[region] == nil {
			clients[region] = cloudwatchlogs.New(cloudwatchlogs.Options{
				Region: region, HTTPClient: &http.Client{Transport: i.rt.options.HTTP(i.in), Timeout: 30 * time.Second}, RetryMaxAttempts: 1,
				Credentials:  aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) { return i.rt.cfg.Credentials(ctx, i.in.ID) }),
				BaseEndpoint: aws.String("https://logs." + region + ".amazonaws.com"),
			})
		}
		return clients[region]
	}
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
	if e, ok := errors.AsType[*net.OpError](err); ok { // without ports
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	return err
}

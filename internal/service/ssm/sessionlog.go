package ssm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudwatchlogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Logs is the part of CloudWatch Logs that the service uses.
type Logs interface {
	CreateLogGroup(context.Context, *awscloudwatchlogs.CreateLogGroupInput) (*awscloudwatchlogs.CreateLogGroupOutput, error)
	CreateLogStream(context.Context, *awscloudwatchlogs.CreateLogStreamInput) (*awscloudwatchlogs.CreateLogStreamOutput, error)
	DescribeLogGroups(context.Context, *awscloudwatchlogs.DescribeLogGroupsInput) (*awscloudwatchlogs.DescribeLogGroupsOutput, error)
	PutLogEvents(context.Context, *awscloudwatchlogs.PutLogEventsInput) (*awscloudwatchlogs.PutLogEventsOutput, error)
}

// S3 is the part of S3 that the service uses.
type S3 interface {
	GetBucketEncryption(context.Context, *awss3.GetBucketEncryptionInput) (*awss3.GetBucketEncryptionOutput, error)
	PutObject(context.Context, *awss3.PutObjectInput) (*awss3.PutObjectOutput, error)
}

const (
	maxLogged   = 4 << 20   // bytes of a session's log; the rest is dropped
	maxLogEvent = 200 << 10 // bytes; AWS's limit is 256 KiB
	maxStreamed = 32 << 10  // bytes of a streamed event's lines, which JSON makes up to six times as long
	logInterval = 2 * time.Second
	logPatience = 30 * time.Second // for an upload
)

// A sessionLog keeps what a session prints, for CloudWatch Logs and S3. On AWS, the instance's agent writes the logs, so
// all calls are made as the instance's role.
type sessionLog struct {
	l       *live
	stop    chan struct{} // ends streaming
	stopped sync.WaitGroup

	mu   sync.Mutex
	text bytes.Buffer
	lost bool // output was dropped because text is full

	// Used only by the goroutine that streams.
	streamed int  // how much of text has been sent
	failing  bool // the last attempt to send lines failed
}

// openLog checks where a session is to be logged, and starts the log. If it returns an error, the session must not start.
func (l *live) openLog() (*sessionLog, error) {
	p := &l.plan.preferences
	ctx, cancel := context.WithTimeout(l.ctx, logPatience)
	defer cancel()
	if p.CloudWatchLogGroupName != "" && p.CloudWatchEncryptionEnabled {
		encrypted, err := l.s.groupEncrypted(ctx, l.rec.Target, p.CloudWatchLogGroupName)
		if err != nil {
			return nil, failure("Couldn't start the session because we are unable to validate encryption on CloudWatch Logs log group. Error: " + errorText(err))
		}
		if !encrypted {
			return nil, failure("We couldn't start the session because encryption is not set up on the selected CloudWatch Logs log group. Either encrypt the log group or choose an option to enable logging without encryption.")
		}
	}
	if p.S3BucketName != "" && p.S3EncryptionEnabled {
		as, err := l.s.fleet.As(ctx, l.rec.Target, "s3")
		if err == nil {
			_, err = l.s.s3.GetBucketEncryption(as, &awss3.GetBucketEncryptionInput{Bucket: &p.S3BucketName})
		}
		if awserr.CodeOf(err) == "ServerSideEncryptionConfigurationNotFoundError" {
			return nil, failure("We couldn't start the session because encryption is not set up on the selected Amazon S3 bucket. Either encrypt the bucket or choose an option to enable logging without encryption.")
		}
		if err != nil {
			return nil, failure("Couldn't start the session because we are unable to validate encryption on Amazon S3 bucket. Error: " + errorText(err))
		}
	}
	g := &sessionLog{l: l, stop: make(chan struct{})}
	if p.CloudWatchLogGroupName != "" && p.CloudWatchStreamingEnabled {
		g.stopped.Go(g.stream)
	}
	return g, nil
}

func errorText(err error) string {
	if code := awserr.CodeOf(err); code != "" {
		return code + ": " + awserr.TextOf(err)
	}
	return err.Error()
}

func (s *Service) groupEncrypted(ctx context.Context, instance, group string) (bool, error) {
	as, err := s.fleet.As(ctx, instance, "logs")
	if err != nil {
		return false, err
	}
	out, err := s.logs.DescribeLogGroups(as, &awscloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &group})
	if err != nil {
		return false, err
	}
	for _, g := range out.LogGroups {
		if aws.ToString(g.LogGroupName) == group {
			return g.KmsKeyId != nil, nil
		}
	}
	return false, errors.New("The specified log group does not exist.") //nolint:staticcheck // shown to the client
}

// wanted reports whether the session is logged anywhere.
func (g *sessionLog) wanted() bool {
	p := &g.l.plan.preferences
	return p.S3BucketName != "" || p.CloudWatchLogGroupName != ""
}

// Write implements io.Writer. It never fails.
func (g *sessionLog) Write(b []byte) (int, error) {
	if !g.wanted() {
		return len(b), nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	room := max(0, maxLogged-g.text.Len())
	g.lost = g.lost || room < len(b)
	g.text.Write(b[:min(room, len(b))])
	return len(b), nil
}

// controls are the control sequences of terminals, which logs leave out.
var controls = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\x1b[=>78M]|\r|\a")

// plain removes control sequences and invalid UTF-8 from text.
func plain(text []byte) string {
	return strings.ToValidUTF8(string(controls.ReplaceAll(text, nil)), "")
}

// stream sends complete lines to CloudWatch Logs while the session runs.
func (g *sessionLog) stream() {
	for {
		timer := g.l.s.clock.NewTimer(logInterval)
		select {
		case <-g.stop:
			timer.Stop()
			g.sendLines(true)
			return
		case <-timer.C():
			g.sendLines(false)
		}
	}
}

// A sessionEvent is the form of an event of a streamed log.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-logging-cwl-streaming.html
type sessionEvent struct {
	EventVersion string            `json:"eventVersion"`
	EventTime    string            `json:"eventTime"`
	Region       string            `json:"awsRegion"`
	Target       map[string]string `json:"target"`
	UserIdentity map[string]string `json:"userIdentity"`
	RunAsUser    string            `json:"runAsUser"`
	SessionID    string            `json:"sessionId"`
	SessionData  []string          `json:"sessionData"`
}

// sendLines sends the lines that have been completed since the last call, or everything if the session is over. Lines that
// could not be sent are sent by the next call.
func (g *sessionLog) sendLines(over bool) {
	for {
		g.mu.Lock()
		lines := nextLines(g.text.Bytes()[g.streamed:], over)
		n, data := len(lines), strings.Split(strings.TrimSuffix(plain(lines), "\n"), "\n")
		g.mu.Unlock()
		if n == 0 {
			return
		}
		err := g.sendEvent(data)
		if !g.failing || over { // one warning is enough
			g.report(err)
		}
		if g.failing = err != nil; g.failing {
			return
		}
		g.streamed += n
	}
}

// nextLines returns the lines of text that fit into one event. If the session goes on, the last line is left out until
// it is complete. A line that is too long for an event is cut between two characters.
func nextLines(text []byte, over bool) []byte {
	lines := text[:min(len(text), maxStreamed)]
	if whole := len(lines) == len(text); whole && over {
		return lines
	} else if end := bytes.LastIndexByte(lines, '\n') + 1; end > 0 || whole {
		return lines[:end]
	}
	for i := len(lines) - 1; i >= len(lines)-utf8.UTFMax; i-- {
		if utf8.RuneStart(lines[i]) {
			if !utf8.FullRune(lines[i:]) {
				return lines[:i]
			}
			break
		}
	}
	return lines
}

func (g *sessionLog) sendEvent(lines []string) error {
	l := g.l
	b, err := json.Marshal(sessionEvent{
		EventVersion: "1.0", EventTime: l.s.now().Format(time.RFC3339), Region: l.sc.Region, Target: map[string]string{"id": l.rec.Target}, UserIdentity: map[string]string{"arn": l.rec.Owner},
		RunAsUser: l.plan.runsAs(), SessionID: l.rec.ID, SessionData: lines,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	return l.s.putLog(ctx, l.rec.Target, l.plan.preferences.CloudWatchLogGroupName, l.rec.ID, string(b))
}

// report warns that a log could not be written. The warning does not contain the session's output.
func (g *sessionLog) report(err error) {
	if err != nil {
		g.l.s.log.Warn("the log of a session could not be written", "session", g.l.rec.ID, "instance", g.l.rec.Target, "error", err)
	}
}

// close writes what has not been written yet.
func (g *sessionLog) close() {
	close(g.stop)
	g.stopped.Wait()
	p, id, target := &g.l.plan.preferences, g.l.rec.ID, g.l.rec.Target
	g.mu.Lock()
	text := plain(g.text.Bytes())
	if g.lost {
		text += fmt.Sprintf("\n[Log truncated at %d MiB.]\n", maxLogged>>20)
	}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), logPatience) // the session's context has ended
	defer cancel()
	if p.CloudWatchLogGroupName != "" && !p.CloudWatchStreamingEnabled {
		g.report(g.l.s.putLog(ctx, target, p.CloudWatchLogGroupName, id, text))
	}
	if p.S3BucketName != "" {
		g.report(g.l.s.putObject(ctx, target, p.S3BucketName, path.Join(p.S3KeyPrefix, id+".log"), text))
	}
}

// putLog appends a text to a log stream as an instance's role. It creates the stream and, if the role allows it, the group.
func (s *Service) putLog(ctx context.Context, instance, group, stream, text string) error {
	if text == "" {
		return nil
	}
	ctx, err := s.fleet.As(ctx, instance, "logs")
	if err != nil {
		return err
	}
	create := func() error {
		_, err := s.logs.CreateLogStream(ctx, &awscloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream})
		return err
	}
	err = create()
	if awserr.CodeOf(err) == "ResourceNotFoundException" {
		if _, err = s.logs.CreateLogGroup(ctx, &awscloudwatchlogs.CreateLogGroupInput{LogGroupName: &group}); err == nil {
			err = create()
		}
	}
	if err != nil && awserr.CodeOf(err) != "ResourceAlreadyExistsException" {
		return err
	}
	for len(text) > 0 {
		n := len(text)
		if n > maxLogEvent {
			if n = strings.LastIndexByte(text[:maxLogEvent], '\n') + 1; n == 0 {
				for n = maxLogEvent; n > maxLogEvent-utf8.UTFMax && !utf8.RuneStart(text[n]); n-- { // between two characters
				}
			}
		}
		_, err := s.logs.PutLogEvents(ctx, &awscloudwatchlogs.PutLogEventsInput{
			LogGroupName: &group, LogStreamName: &stream,
			LogEvents: []logtypes.InputLogEvent{{Message: aws.String(strings.ToValidUTF8(text[:n], "")), Timestamp: aws.Int64(s.clock.Now().UnixMilli())}},
		})
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// putObject writes an object as an instance's role.
func (s *Service) putObject(ctx context.Context, instance, bucket, key, text string) error {
	ctx, err := s.fleet.As(ctx, instance, "s3")
	if err != nil {
		return err
	}
	_, err = s.s3.PutObject(ctx, &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(text), ContentLength: aws.Int64(int64(len(text)))})
	return err
}

package ssm_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/gorilla/websocket"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/service/sns"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A fleet has one instance.
type fleet struct {
	account string
	agent   error
	started atomic.Int32 // programs
	printed atomic.Int64 // bytes that yes has printed
	resized chan machine.Size
	gone    bool     // the instance is not running
	more    []string // IDs of other instances
	off     sync.Map // by instance ID, the first of the jobs that the agent cannot do
	role    awsapi.Principal
	missing string            // a user that the instance does not have
	answers map[string]string // what scripts print, by how they begin
	files   fstest.MapFS      // of the instances
	away    error             // why the instances do not reach other services
	dial    func(ctx context.Context, host string, port int) (net.Conn, error)
}

const instanceID = "i-0123456789abcdef0"

func (f *fleet) Instances(account, region string) []machine.Instance {
	if f.gone || account != f.account || region != testkit.Region {
		return nil
	}
	var out []machine.Instance
	for _, id := range append([]string{instanceID}, f.more...) {
		out = append(out, machine.Instance{ID: id, Account: account, Region: region, PrivateIP: netip.MustParseAddr("10.0.0.9")})
	}
	return out
}

func (f *fleet) Tags(string, string, string) map[string]string {
	return map[string]string{"team": "shop"}
}

func (f *fleet) Machine(id string) (machine.Machine, bool) { return computer{fleet: f, id: id}, true }

func (f *fleet) Agent(_ context.Context, id string, job ssm.Job) error {
	if first, off := f.off.Load(id); off && job >= first.(ssm.Job) {
		return errors.New("the agent is off")
	}
	return f.agent
}

func (f *fleet) AgentVersion(string) string { return "3.3.3050.0" }

// A computer prints its user and command, and echoes what is typed.
type computer struct {
	machine.Machine
	fleet *fleet
	id    string
}

func (c computer) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	return c.fleet.dial(ctx, host, port)
}

func (f *fleet) As(ctx context.Context, _, _ string) (context.Context, error) {
	if f.away != nil {
		return nil, f.away
	}
	return awsapi.WithCall(ctx, &awsapi.Call{RequestID: "r", Account: f.account, Region: testkit.Region, Principal: f.role, Time: time.Now(), TLS: true}), nil
}

func (c computer) Exec(ctx context.Context, cmd machine.Command) (machine.Process, error) {
	if cmd.User != "" && cmd.User == c.fleet.missing {
		return nil, machine.ErrNoUser
	}
	c.fleet.started.Add(1)
	p := program{ended: make(chan error, 1)}
	if cmd.Stdin == nil { // of Run Command
		go func() {
			switch script := cmd.Args[2]; script {
			case "fail":
				_, err := io.WriteString(cmd.Stderr, "no such file")
				p.ended <- errors.Join(err, errors.New("it failed"))
			case "hang":
				<-ctx.Done()
				p.ended <- ctx.Err()
			case "much":
				_, err := io.WriteString(cmd.Stdout, strings.Repeat("x", 100_000))
				p.ended <- err
			case "much of both":
				_, err := io.WriteString(cmd.Stdout, strings.Repeat("x", 100_000))
				_, failed := io.WriteString(cmd.Stderr, strings.Repeat("y", 100_000))
				p.ended <- errors.Join(err, failed)
			case "much of errors":
				_, err := io.WriteString(cmd.Stdout, "short")
				_, failed := io.WriteString(cmd.Stderr, strings.Repeat("y", 100_000))
				p.ended <- errors.Join(err, failed)
			case "exit 168", "exit 169":
				n, err := strconv.Atoi(strings.TrimPrefix(script, "exit "))
				p.ended <- cmp.Or[error](err, exitStatus(n))
			default:
				for begin, text := range c.fleet.answers {
					if strings.HasPrefix(script, begin) {
						script = text
						break
					}
				}
				_, err := io.WriteString(cmd.Stdout, cmd.User+script)
				p.ended <- err
			}
		}()
		return p, nil
	}
	p.resized = c.fleet.resized
	if p.resized != nil {
		p.resized <- cmd.Terminal.Size
	}
	go func() {
		if slices.Equal(cmd.Args, []string{"sh", "-c", "yes"}) {
			p.ended <- c.fleet.yes(cmd.Stdout)
			return
		}
		_, err := io.WriteString(cmd.Stdout, cmd.User+" "+strings.Join(cmd.Args, " "))
		if err == nil {
			_, err = io.Copy(cmd.Stdout, cmd.Stdin)
		}
		p.ended <- err
	}()
	return p, nil
}

// yes prints numbered lines of eight bytes without end.
func (f *fleet) yes(w io.Writer) error {
	for n := 0; ; n++ {
		size, err := fmt.Fprintf(w, "%07d\n", n)
		f.printed.Add(int64(size))
		if err != nil {
			return err
		}
	}
}

type program struct {
	machine.Process
	ended   chan error
	resized chan machine.Size
}

func (p program) Wait() (int, error) {
	err := <-p.ended
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status), nil
	}
	return 0, err
}

// An exitStatus ends a program with that status.
type exitStatus int

func (exitStatus) Error() string { return "exit" }

func (p program) Resize(s machine.Size) error {
	if p.resized != nil {
		p.resized <- s
	}
	return nil
}

// A world is an API server with the service, a server for data channels and one instance.
type world struct {
	*testkit.Server
	fleet   *fleet
	service *ssm.Service
	client  *awsssm.Client // of the account's root user
	users   *iam.Service
	stop    func() // shuts the service down as the daemon does
}

func newWorld(t testing.TB, clock clock.WithTicker) *world {
	t.Helper()
	w := &world{fleet: &fleet{}}
	channels := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.service.ServesChannel(r) {
			t.Errorf("not a channel: %s", r.URL)
		}
		w.service.ServeChannel(rw, r)
	}))
	t.Cleanup(channels.Close)
	blobs, err := blobstore.Open(blobstore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	events, err := bytestore.Open(bytestore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = events.Close() }) // the test is over
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			w.users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			authorizer = authz.New(authz.Config{Services: []awsapi.Service{w.users.AWS(), new(kms.Service).AWS(), new(logs.Service).AWS(), new(s3.Service).AWS(), new(sns.Service).AWS(), new(sqs.Service).AWS(), new(ssm.Service).AWS()}, Policies: w.users.PoliciesOf, Store: st})
			keys := kms.New(kms.Config{Store: st, Log: testkit.Log(t)})
			groups := logs.New(logs.Config{Store: st, Bytes: events, KMS: awscall.KMS{API: front}, Log: testkit.Log(t)})
			buckets := s3.New(s3.Config{Store: st, Blobs: blobs, KMS: awscall.KMS{API: front}, Authorize: authorizer.AuthorizeTargets, Log: testkit.Log(t)})
			w.service = ssm.New(ssm.Config{
				Store: st, Fleet: w.fleet, EndpointURL: channels.URL, Clock: clock, KMS: awscall.KMS{API: front}, Logs: awscall.Logs{API: front}, S3: awscall.S3{API: front}, SNS: awscall.SNS{API: front}, Inventory: awscall.SSM{API: front}, Assume: w.assume, Allowed: authorizer.Allowed,
			})
			authorizer.Register("iam", w.users.Authz())
			authorizer.Register("kms", keys.Authz())
			authorizer.Register("logs", groups.Authz())
			authorizer.Register("s3", buckets.Authz())
			authorizer.Register("ssm", w.service.Authz())
			queues := sqs.New(sqs.Config{Store: st, Bytes: events, Log: testkit.Log(t)})
			topics := sns.New(sns.Config{Store: st, SQS: awscall.SQS{API: front}, Log: testkit.Log(t)})
			authorizer.Register("sqs", queues.Module().Resolver)
			authorizer.Register("sns", topics.Module().Resolver)
			return []awsapi.Service{w.users.AWS(), keys.AWS(), groups.AWS(), buckets.AWS(), queues.AWS(), topics.AWS(), w.service.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := w.users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.stop = testkit.Run(t, w.service.Module(w.fleet).Run)
	w.fleet.account = w.Account(t)
	w.fleet.role = awsapi.Principal{Type: awsapi.Root, Account: w.fleet.account, ARN: "arn:aws:iam::" + w.fleet.account + ":root"}
	w.client = awsssm.NewFromConfig(w.AWSConfig(w.fleet.account))
	return w
}

func TestSessions(t *testing.T) {
	w := newWorld(t, nil)
	f, c, ctx := w.fleet, w.client, t.Context()
	start := func(in *awsssm.StartSessionInput) (*awsssm.StartSessionOutput, error) {
		if in.Target == nil {
			in.Target = aws.String(instanceID)
		}
		return c.StartSession(ctx, in)
	}
	list := func(filter string) int {
		t.Helper()
		out, err := c.DescribeInstanceInformation(ctx, &awsssm.DescribeInstanceInformationInput{Filters: []ssmtypes.InstanceInformationStringFilter{{Key: aws.String("tag:team"), Values: []string{filter}}}})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.InstanceInformationList)
	}

	f.agent = errors.New("it cannot reach ssm")
	_, err := start(&awsssm.StartSessionInput{})
	testkit.WantError(t, err, "TargetNotConnected", instanceID+" is not connected.")
	if n := list("shop"); n != 0 {
		t.Errorf("%d instances have registered", n)
	}
	f.agent = nil
	if list("shop") != 1 || list("other") != 0 {
		t.Error("filters by tags")
	}
	for _, status := range []ssmtypes.ConnectionStatus{ssmtypes.ConnectionStatusConnected, ssmtypes.ConnectionStatusNotConnected} {
		out, err := c.GetConnectionStatus(ctx, &awsssm.GetConnectionStatusInput{Target: aws.String(instanceID)})
		if err != nil || out.Status != status {
			t.Errorf("%v, %v; want %s", out, err, status)
		}
		f.agent = errors.New("the network changed")
	}
	lost, err := c.DescribeInstanceInformation(ctx, &awsssm.DescribeInstanceInformationInput{})
	if err != nil || len(lost.InstanceInformationList) != 1 || lost.InstanceInformationList[0].PingStatus != ssmtypes.PingStatusConnectionLost {
		t.Errorf("an agent that was there: %+v, %v", lost, err)
	}
	f.agent = nil
	_, err = start(&awsssm.StartSessionInput{DocumentName: aws.String("nothing")})
	testkit.WantError(t, err, "InvalidDocument", "Document with name nothing does not exist.")
	_, err = start(&awsssm.StartSessionInput{Target: aws.String("i-00000000000000000")})
	testkit.WantError(t, err, "TargetNotConnected", "i-00000000000000000 is not connected.")
	_, err = c.TerminateSession(ctx, &awsssm.TerminateSessionInput{SessionId: aws.String("missing-0123")})
	testkit.WantError(t, err, "DoesNotExistException", "Session missing-0123 does not exist.")

	session, err := start(&awsssm.StartSessionInput{DocumentName: aws.String("AWS-StartInteractiveCommand"), Parameters: map[string][]string{"command": {"top"}}, Reason: aws.String("to look")})
	if err != nil {
		t.Fatal(err)
	}
	open := func(out *awsssm.StartSessionOutput, token string, header http.Header) (*websocket.Conn, error) {
		conn, _, err := websocket.DefaultDialer.Dial(*out.StreamUrl, header)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.WriteJSON(map[string]string{"MessageSchemaVersion": "1.0", "TokenValue": token}); err != nil {
			return nil, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, _, err = conn.ReadMessage()
		return conn, err
	}
	if _, err := open(session, *session.TokenValue, http.Header{"Origin": {"https://example.com"}}); err == nil {
		t.Error("a page in a browser opened the channel")
	}
	if _, err := open(session, "guessed", nil); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("a guessed token: %v", err)
	}
	if _, err := open(session, *session.TokenValue, nil); err != nil {
		t.Errorf("the token: %v", err)
	}
	if _, err := open(session, *session.TokenValue, nil); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("the token again: %v", err)
	}
	resumed, err := c.ResumeSession(ctx, &awsssm.ResumeSessionInput{SessionId: session.SessionId})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(session, *resumed.TokenValue, nil); err != nil {
		t.Errorf("the token of ResumeSession: %v", err)
	}
	sessions := func(state ssmtypes.SessionState) []ssmtypes.Session {
		t.Helper()
		out, err := c.DescribeSessions(ctx, &awsssm.DescribeSessionsInput{State: state, Filters: []ssmtypes.SessionFilter{{Key: ssmtypes.SessionFilterKeyTargetId, Value: aws.String(instanceID)}}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Sessions
	}
	if s := sessions(ssmtypes.SessionStateActive); len(s) != 1 || *s[0].SessionId != *session.SessionId || *s[0].Reason != "to look" || s[0].Status != ssmtypes.SessionStatusConnected {
		t.Errorf("active: %+v", s)
	}
	for range 2 { // ending it twice does nothing
		if _, err := c.TerminateSession(ctx, &awsssm.TerminateSessionInput{SessionId: session.SessionId}); err != nil {
			t.Fatal(err)
		}
	}
	if s := sessions(ssmtypes.SessionStateHistory); len(s) != 1 || s[0].Status != ssmtypes.SessionStatusTerminated || s[0].EndDate == nil || len(sessions(ssmtypes.SessionStateActive)) != 0 {
		t.Errorf("history: %+v", s)
	}
	if out, err := c.ResumeSession(ctx, &awsssm.ResumeSessionInput{SessionId: session.SessionId}); err != nil || out.TokenValue != nil {
		t.Errorf("resuming a session that has ended: %+v, %v", out, err)
	}
}

func TestCommands(t *testing.T) {
	f := &fleet{}
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		return []awsapi.Service{ssm.New(ssm.Config{Store: st, Fleet: f}).AWS()}
	}})
	f.account = srv.Account(t)
	c, ctx := awsssm.NewFromConfig(srv.AWSConfig(f.account)), t.Context()
	send := func(in *awsssm.SendCommandInput, script string, more ...string) (string, error) {
		in.DocumentName, in.Parameters = aws.String("AWS-RunShellScript"), map[string][]string{"commands": {script}}
		if more != nil {
			in.Parameters["executionTimeout"] = more
		}
		out, err := c.SendCommand(ctx, in)
		if err != nil {
			return "", err
		}
		return *out.Command.CommandId, nil
	}
	await := func(id string, want ssmtypes.CommandInvocationStatus) *awsssm.GetCommandInvocationOutput {
		t.Helper()
		var out *awsssm.GetCommandInvocationOutput
		testkit.Eventually(t, 10*time.Second, func() (err error) {
			out, err = c.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: &id, InstanceId: aws.String(instanceID)})
			if err == nil && out.Status != want {
				err = errors.New("the status is " + string(out.Status))
			}
			return err
		})
		return out
	}
	tagged := func(value string) *awsssm.SendCommandInput {
		return &awsssm.SendCommandInput{Targets: []ssmtypes.Target{{Key: aws.String("tag:team"), Values: []string{value}}}}
	}

	id, err := send(tagged("shop"), "date")
	if err != nil {
		t.Fatal(err)
	}
	if out := await(id, "Success"); *out.StandardOutputContent != "date" || out.ResponseCode != 0 {
		t.Errorf("%q, %d", *out.StandardOutputContent, out.ResponseCode)
	}
	if id, err = send(&awsssm.SendCommandInput{InstanceIds: []string{instanceID}}, "much"); err != nil {
		t.Fatal(err)
	}
	if out := await(id, "Success"); len(*out.StandardOutputContent) != 24_000 {
		t.Errorf("%d characters are kept", len(*out.StandardOutputContent))
	}
	details, err := c.ListCommandInvocations(ctx, &awsssm.ListCommandInvocationsInput{CommandId: &id, Details: true})
	if err != nil || len(details.CommandInvocations) != 1 || *details.CommandInvocations[0].CommandPlugins[0].Output != strings.Repeat("x", 2377)+"\n---Output truncated---" {
		t.Errorf("%+v, %v", details, err)
	}
	for script, want := range map[string]string{
		"much of both":   strings.Repeat("x", 1165) + "\n---Output truncated---\n----------ERROR-------\n" + strings.Repeat("y", 1165) + "\n---Error truncated----",
		"much of errors": "short\n----------ERROR-------\n" + strings.Repeat("y", 2348) + "\n---Error truncated----",
	} {
		if id, err = send(&awsssm.SendCommandInput{InstanceIds: []string{instanceID}}, script); err != nil {
			t.Fatal(err)
		}
		if out := await(id, "Success"); len(*out.StandardErrorContent) != 8_000 {
			t.Errorf("%d characters of errors are kept", len(*out.StandardErrorContent))
		}
		details, err := c.ListCommandInvocations(ctx, &awsssm.ListCommandInvocationsInput{CommandId: &id, Details: true})
		if err != nil || *details.CommandInvocations[0].CommandPlugins[0].Output != want {
			t.Errorf("%s: %q, %v", script, *details.CommandInvocations[0].CommandPlugins[0].Output, err)
		}
	}
	if id, err = send(&awsssm.SendCommandInput{InstanceIds: []string{instanceID}}, "hang"); err != nil {
		t.Fatal(err)
	}
	await(id, "InProgress")
	if _, err := c.CancelCommand(ctx, &awsssm.CancelCommandInput{CommandId: &id}); err != nil {
		t.Fatal(err)
	}
	await(id, "Cancelled")
	if id, err = send(&awsssm.SendCommandInput{InstanceIds: []string{instanceID}}, "hang", "1"); err != nil {
		t.Fatal(err)
	}
	await(id, "TimedOut")
	if id, err = send(tagged("unmatched"), "date"); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: &id, InstanceId: aws.String(instanceID)})
	testkit.WantError(t, err, "InvocationDoesNotExist", "")
	if all, err := c.ListCommands(ctx, &awsssm.ListCommandsInput{}); err != nil || len(all.Commands) != 7 || *all.Commands[0].CommandId != id {
		t.Errorf("%+v, %v", all, err)
	}

	_, err = send(&awsssm.SendCommandInput{InstanceIds: []string{"i-00000000000000000"}}, "date")
	testkit.WantError(t, err, "InvalidInstanceId", "Instances [[i-00000000000000000]] not in a valid state for account "+f.account)
	_, err = c.SendCommand(ctx, &awsssm.SendCommandInput{DocumentName: aws.String("nothing"), InstanceIds: []string{instanceID}})
	testkit.WantError(t, err, "InvalidDocument", "Document with name nothing does not exist.")
	_, err = c.SendCommand(ctx, &awsssm.SendCommandInput{DocumentName: aws.String("AWS-RunShellScript"), InstanceIds: []string{instanceID}, Parameters: map[string][]string{"command": {"x"}}})
	testkit.WantErrorWith(t, err, "InvalidParameters", "has no parameter command")
}

// TestRunningCommandsAreKept checks that the record of a running command is kept, however many other commands are sent.
func TestRunningCommandsAreKept(t *testing.T) {
	w := newWorld(t, nil)
	send := func(script string, targets ...string) string {
		t.Helper()
		in := &awsssm.SendCommandInput{DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {script}}, InstanceIds: targets}
		if targets == nil {
			in.Targets = []ssmtypes.Target{{Key: aws.String("tag:team"), Values: []string{"nobody"}}} // a command that ends at once
		}
		out, err := w.client.SendCommand(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return *out.Command.CommandId
	}
	hanging := send("hang", instanceID)
	for range 205 {
		send("date")
	}
	if _, err := w.client.CancelCommand(t.Context(), &awsssm.CancelCommandInput{CommandId: &hanging}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		out, err := w.client.GetCommandInvocation(t.Context(), &awsssm.GetCommandInvocationInput{CommandId: &hanging, InstanceId: aws.String(instanceID)})
		if err == nil && out.Status != "Cancelled" {
			err = errors.New("the status is " + string(out.Status))
		}
		return err
	})
}

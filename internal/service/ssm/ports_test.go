package ssm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/xtaci/smux"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// greeter connects to a program that prints its host and port and then echoes. Port 1 is closed.
func greeter(_ context.Context, host string, port int) (net.Conn, error) {
	if port == 1 {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		if _, err := fmt.Fprintf(server, "%s:%d\n", host, port); err == nil {
			_, _ = io.Copy(server, server) // until the client hangs up
		}
	}()
	return client, nil
}

// openPort opens a port session as the plugin does.
func (w *world) openPort(t testing.TB, document string, parameters map[string][]string, version string) *plugin {
	t.Helper()
	out, err := w.client.StartSession(t.Context(), &awsssm.StartSessionInput{Target: aws.String(instanceID), DocumentName: &document, Parameters: parameters})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, out, version)
	go p.run()
	await(t, "the handshake is not completed", p.complete)
	return p
}

// mux multiplexes connections as the plugin does.
func (p *plugin) mux() *smux.Session {
	p.t.Helper()
	config := smux.DefaultConfig()
	config.KeepAliveDisabled = true
	session, err := smux.Client(struct {
		io.ReadCloser
		io.Writer
	}{p.output, p}, config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = session.Close() })
	return session
}

func stream(t testing.TB, session *smux.Session) *smux.Stream {
	t.Helper()
	s, err := session.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(10 * time.Second)) // on an open stream it cannot fail
	return s
}

// say sends text, reads its echo and returns the line before it.
func say(t testing.TB, c io.ReadWriter, text string) string {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	var got []byte
	b := make([]byte, 4096)
	for !bytes.HasSuffix(got, []byte(text)) {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
	}
	line, _, _ := bytes.Cut(got, []byte("\n"))
	return string(line)
}

// TestPortSessions checks that a session carries several connections at once, each with its own connection to the port.
func TestPortSessions(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.dial = greeter
	p := w.openPort(t, "AWS-StartPortForwardingSession", map[string][]string{"portNumber": {"8080"}, "localPortNumber": {"56789"}}, "1.2.707.0")
	if properties := p.request["Properties"].(map[string]any); p.request["SessionType"] != "Port" || properties["type"] != "LocalPortForwarding" || properties["localPortNumber"] != "56789" {
		t.Errorf("the handshake says %v", p.request)
	}
	session := p.mux()
	first, second := stream(t, session), stream(t, session)
	if got := say(t, first, "hello"); got != "localhost:8080" {
		t.Errorf("connected to %q", got)
	}
	say(t, second, "good evening")
	_ = first.Close()
	large := bytes.Repeat([]byte("x"), 200_000)
	go func() { _, _ = second.Write(large) }() // if this fails, reading fails below
	if _, err := io.ReadFull(second, make([]byte, len(large))); err != nil {
		t.Errorf("200 kB there and back: %v", err)
	}

	remote := w.openPort(t, "AWS-StartPortForwardingSessionToRemoteHost", map[string][]string{"host": {"db.internal"}, "portNumber": {"5432"}}, "1.2.707.0")
	if got := say(t, stream(t, remote.mux()), "x"); got != "db.internal:5432" {
		t.Errorf("connected to %q", got)
	}
	if _, err := w.client.StartSession(t.Context(), &awsssm.StartSessionInput{Target: aws.String(instanceID), DocumentName: aws.String("AWS-StartPortForwardingSessionToRemoteHost")}); err == nil {
		t.Error("a session to no host")
	}

	closed := w.openPort(t, "AWS-StartPortForwardingSession", map[string][]string{"portNumber": {"1"}}, "1.2.707.0")
	s := stream(t, closed.mux())
	if _, err := io.WriteString(s, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection to a closed port: %v", err)
	}
	if flag := <-closed.flags; flag != 3 {
		t.Errorf("flag %d", flag)
	}

	// A plugin that does not multiplex.
	old := w.openPort(t, "AWS-StartPortForwardingSession", map[string][]string{"portNumber": {"8080"}}, "1.1.61.0")
	conn := struct {
		io.Reader
		io.Writer
	}{old.output, old}
	if got := say(t, conn, "hello"); got != "localhost:8080" {
		t.Errorf("connected to %q", got)
	}
	if err := old.write(payloadFlag, []byte{0, 0, 0, 1}); err != nil { // DisconnectToPort
		t.Fatal(err)
	}
	if got := say(t, conn, "again"); got != "localhost:8080" {
		t.Errorf("connected to %q", got)
	}
	if err := old.write(payloadFlag, []byte{0, 0, 0, 2}); err != nil { // TerminateSession
		t.Fatal(err)
	}
	if why := old.ended(); why != "" {
		t.Errorf("ended with %q", why)
	}
}

// TestConnectionsOfEndedSessions checks that a connection that is established while its session ends is closed.
func TestConnectionsOfEndedSessions(t *testing.T) {
	for _, version := range []string{"1.1.61.0", "1.2.707.0"} {
		w := newWorld(t, nil)
		dialing, finish := make(chan struct{}), make(chan struct{})
		near, far := net.Pipe()
		w.fleet.dial = func(context.Context, string, int) (net.Conn, error) {
			close(dialing)
			<-finish
			return near, nil
		}
		p := w.openPort(t, "AWS-StartPortForwardingSession", nil, version)
		var out io.Writer = p
		if version != "1.1.61.0" {
			out = stream(t, p.mux())
		}
		if _, err := io.WriteString(out, "x"); err != nil {
			t.Fatal(err)
		}
		await(t, "no connection is made", dialing)
		active, err := w.client.DescribeSessions(t.Context(), &awsssm.DescribeSessionsInput{State: ssmtypes.SessionStateActive})
		if err != nil || len(active.Sessions) != 1 {
			t.Fatalf("%+v, %v", active, err)
		}
		if _, err := w.client.TerminateSession(t.Context(), &awsssm.TerminateSessionInput{SessionId: active.Sessions[0].SessionId}); err != nil {
			t.Fatal(err)
		}
		close(finish)
		_ = far.SetReadDeadline(time.Now().Add(10 * time.Second)) // pipes support deadlines
		if _, err := io.Copy(io.Discard, far); err != nil {
			t.Errorf("version %s: the connection stays open: %v", version, err)
		}
	}
}

// TestShutdown checks that sessions and commands end with the daemon, that their ends are recorded, and that nothing starts
// afterwards.
func TestShutdown(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	out, err := w.client.StartSession(ctx, &awsssm.StartSessionInput{Target: aws.String(instanceID)})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, out, "1.2.707.0")
	go p.run()
	p.expect("ssm-user sh")
	hang := &awsssm.SendCommandInput{DocumentName: aws.String("AWS-RunShellScript"), InstanceIds: []string{instanceID}, Parameters: map[string][]string{"commands": {"hang"}}}
	sent, err := w.client.SendCommand(ctx, hang)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n := w.fleet.started.Load(); n < 2 {
			return fmt.Errorf("%d programs have started, not the session's and the command's", n)
		}
		return nil
	})
	w.stop()
	if why := p.ended(); why != "" {
		t.Errorf("the session ended with %q", why)
	}
	history, err := w.client.DescribeSessions(ctx, &awsssm.DescribeSessionsInput{State: ssmtypes.SessionStateHistory})
	if err != nil || len(history.Sessions) != 1 || history.Sessions[0].EndDate.Before(*history.Sessions[0].StartDate) {
		t.Errorf("%+v, %v", history, err)
	}
	done, err := w.client.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: sent.Command.CommandId, InstanceId: aws.String(instanceID)})
	if err != nil || done.Status != "TimedOut" || *done.ExecutionEndDateTime == "" {
		t.Errorf("%+v, %v", done, err)
	}
	_, err = w.client.StartSession(ctx, &awsssm.StartSessionInput{Target: aws.String(instanceID)})
	testkit.WantError(t, err, "ThrottlingException", "")
	_, err = w.client.SendCommand(ctx, hang)
	testkit.WantError(t, err, "ThrottlingException", "")
}

// TestManySessions checks that sessions beyond the limit are refused, and that they leave nothing behind.
func TestManySessions(t *testing.T) {
	w := newWorld(t, nil)
	start := func() error {
		_, err := w.client.StartSession(t.Context(), &awsssm.StartSessionInput{Target: aws.String(instanceID)})
		return err
	}
	for range 50 {
		if err := start(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WantError(t, start(), "ThrottlingException", "Rate exceeded")
	active, err := w.client.DescribeSessions(t.Context(), &awsssm.DescribeSessionsInput{State: ssmtypes.SessionStateActive})
	if err != nil || len(active.Sessions) != 50 {
		t.Errorf("%d sessions, %v", len(active.Sessions), err)
	}
	if _, err := w.client.TerminateSession(t.Context(), &awsssm.TerminateSessionInput{SessionId: active.Sessions[0].SessionId}); err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Error(err)
	}
}

// TestAgentsThatAreGone checks that an instance that no longer runs is forgotten.
func TestAgentsThatAreGone(t *testing.T) {
	w := newWorld(t, nil)
	list := func() int {
		t.Helper()
		out, err := w.client.DescribeInstanceInformation(t.Context(), &awsssm.DescribeInstanceInformationInput{})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.InstanceInformationList)
	}
	if n := list(); n != 1 {
		t.Fatalf("%d instances", n)
	}
	w.fleet.gone = true
	if n := list(); n != 0 {
		t.Errorf("%d instances", n)
	}
	w.fleet.gone, w.fleet.agent = false, errors.New("booting")
	if n := list(); n != 0 {
		t.Errorf("an instance that never connected since it was started is listed")
	}
}

// TestSSHSessions checks that a session of AWS-StartSSHSession carries one connection to port 22, which ends with it.
func TestSSHSessions(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.dial = greeter
	p := w.openPort(t, "AWS-StartSSHSession", nil, "1.2.707.0")
	if properties := p.request["Properties"].(map[string]any); p.request["SessionType"] != "Port" || properties["portNumber"] != "22" || properties["type"] != nil {
		t.Errorf("the handshake says %v", p.request)
	}
	if got := say(t, struct {
		io.Reader
		io.Writer
	}{p.output, p}, "hello"); got != "localhost:22" {
		t.Errorf("connected to %q", got)
	}
	w.fleet.dial = func(context.Context, string, int) (net.Conn, error) {
		near, far := net.Pipe()
		return near, far.Close()
	}
	if why := w.openPort(t, "AWS-StartSSHSession", nil, "1.2.707.0").ended(); why != "" {
		t.Errorf("after the end of the connection: %q", why)
	}
	w.fleet.dial = greeter
	if why := w.openPort(t, "AWS-StartSSHSession", map[string][]string{"portNumber": {"1"}}, "1.2.707.0").ended(); why != "----------ERROR-------\nUnable to connect to specified port: connection refused" {
		t.Errorf("a closed port: %q", why)
	}
}

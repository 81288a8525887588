package ssm_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/gorilla/websocket"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// What a hostile client does to its own session.
const (
	goesOn          = "the session goes on"
	losesConnection = "the connection ends, and the session can be resumed"
	ends            = "the session ends"
)

// TestHostileClients checks that a client that breaks the protocol harms its own session only: another one on the same
// instance, and one on another instance, go on.
func TestHostileClients(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.dial = greeter
	w.fleet.more = []string{"i-0fedcba9876543210"}
	same := w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
	other := w.open(t, w.client, &awsssm.StartSessionInput{Target: aws.String(w.fleet.more[0])}, nil)
	same.expect("ssm-user sh")
	other.expect("ssm-user sh")

	// send sends a message, which the other end may have refused already.
	send := func(kind int, data []byte) func(*plugin) {
		return func(p *plugin) {
			p.mu.Lock()
			defer p.mu.Unlock()
			_ = p.conn.WriteMessage(kind, data)
		}
	}
	// raw sends the bytes of WebSocket frames.
	raw := func(b ...byte) func(*plugin) {
		return func(p *plugin) {
			p.mu.Lock()
			defer p.mu.Unlock()
			_, _ = p.conn.NetConn().Write(b)
		}
	}
	input := func(number int64, payload uint32, data []byte) []byte {
		return frame("input_stream_data", number, payload, data)
	}
	changed := func(at int, b ...byte) []byte {
		f := input(1, payloadOutput, []byte("changed"))
		copy(f[at:], b)
		return f
	}
	for _, tt := range []struct {
		name   string
		attack func(*plugin)
		own    string
	}{
		// Sequence numbers. The plugin acknowledges frames that arrive early, and so does the agent.
		{"numbers that are far away", func(p *plugin) {
			for _, number := range []int64{-1, math.MinInt64, 1 << 40, math.MaxInt64, 1000, 130} {
				send(websocket.BinaryMessage, input(number, payloadOutput, []byte("far away")))(p)
			}
		}, goesOn},
		{"the same number again and again", func(p *plugin) {
			for range 1000 {
				send(websocket.BinaryMessage, input(0, payloadOutput, []byte("again")))(p)
			}
		}, goesOn},
		{"false acknowledgements", func(p *plugin) {
			for number := range 1000 {
				send(websocket.BinaryMessage, frame("acknowledge", 0, 0, fmt.Appendf(nil, `{"AcknowledgedMessageSequenceNumber":%d}`, 100-number)))(p)
			}
		}, goesOn},

		// Frames that are not the protocol's.
		{"a giant frame", send(websocket.BinaryMessage, input(1, payloadOutput, make([]byte, 1<<20))), ends},
		{"a giant frame in fragments", func(p *plugin) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if w, err := p.conn.NextWriter(websocket.BinaryMessage); err == nil {
				for range 1024 {
					_, _ = w.Write(make([]byte, 1024))
				}
				_ = w.Close()
			}
		}, ends},
		{"a header that announces 1 TiB", raw(0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4), ends},
		{"no header", send(websocket.BinaryMessage, []byte("hello")), ends},
		{"an empty frame", send(websocket.BinaryMessage, nil), ends},
		{"a wrong header length", send(websocket.BinaryMessage, changed(0, 0xff, 0xff, 0xff, 0xff)), ends},
		{"a wrong digest", send(websocket.BinaryMessage, changed(80, 1, 2, 3)), ends},
		{"a payload longer than the frame", send(websocket.BinaryMessage, changed(116, binary.BigEndian.AppendUint32(nil, math.MaxUint32)...)), ends},
		{"an acknowledgement without JSON", send(websocket.BinaryMessage, frame("acknowledge", 0, 0, []byte("{"))), ends},
		{"an unknown type", send(websocket.BinaryMessage, frame("start_publication", 1, payloadOutput, nil)), goesOn},
		{"an unknown payload", func(p *plugin) { _ = p.write(math.MaxUint32, []byte("x")) }, goesOn},
		{"a size without JSON", func(p *plugin) { _ = p.write(payloadSize, []byte("{")) }, ends},
		{"sizes without bounds", func(p *plugin) {
			for _, size := range []string{`{"cols":-1,"rows":-1}`, `{"cols":0,"rows":0}`, `{"cols":9223372036854775807,"rows":9223372036854775807}`} {
				_ = p.write(payloadSize, []byte(size))
			}
		}, goesOn},
		{"an answer to no challenge", func(p *plugin) { _ = p.write(payloadAnswer, []byte("{")) }, ends},
		{"a second handshake", func(p *plugin) { _ = p.write(payloadResponse, []byte(`{"ClientVersion":"0"}`)) }, goesOn},

		// WebSockets.
		{"text frames", func(p *plugin) {
			for range 100 {
				send(websocket.TextMessage, []byte(`{"MessageSchemaVersion":"1.0","TokenValue":"again"}`))(p)
			}
		}, goesOn},
		{"a frame without a mask", raw(0x82, 0x01, 'x'), losesConnection},
		{"a reserved opcode", raw(0x83, 0x80, 1, 2, 3, 4), losesConnection},
		{"a compressed frame", raw(0xc2, 0x80, 1, 2, 3, 4), losesConnection},
		{"a long ping", raw(append([]byte{0x89, 0xfe, 0x01, 0x00, 1, 2, 3, 4}, make([]byte, 256)...)...), losesConnection},
		{"a connection that is cut", func(p *plugin) { _ = p.conn.NetConn().Close() }, losesConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var id string
			p := w.open(t, w.client, &awsssm.StartSessionInput{}, func(_ *plugin, out *awsssm.StartSessionOutput) { id = *out.SessionId })
			p.expect("ssm-user sh")
			tt.attack(p)
			switch tt.own {
			case goesOn:
				if _, err := io.WriteString(p, "goes on\n"); err != nil {
					t.Fatal(err)
				}
				if got := p.expect("goes on\n"); strings.TrimSpace(got) != "goes on" {
					t.Errorf("the session prints %q", got)
				}
				_ = p.conn.Close()
			default:
				if why := p.ended(); !strings.HasPrefix(why, "connection: ") {
					t.Errorf("ended with %q", why)
				}
			}
			if tt.own == losesConnection {
				if out, err := w.client.ResumeSession(t.Context(), &awsssm.ResumeSessionInput{SessionId: &id}); err != nil || out.TokenValue == nil {
					t.Errorf("not resumed: %+v, %v", out, err)
				}
			}
			testkit.Eventually(t, 10*time.Second, func() error {
				active := w.active(t, id)
				if active == (tt.own == ends) {
					return fmt.Errorf("the session's state is active: %v", active)
				}
				return nil
			})
			if _, err := w.client.TerminateSession(t.Context(), &awsssm.TerminateSessionInput{SessionId: &id}); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*plugin{same, other} {
				if _, err := fmt.Fprintln(p, tt.name); err != nil {
					t.Fatal(err)
				}
				p.expect(tt.name + "\n")
			}
		})
	}
}

// active reports whether a session is among the active ones.
func (w *world) active(t testing.TB, id string) bool {
	t.Helper()
	out, err := w.client.DescribeSessions(t.Context(), &awsssm.DescribeSessionsInput{
		State: ssmtypes.SessionStateActive, Filters: []ssmtypes.SessionFilter{{Key: ssmtypes.SessionFilterKeySessionId, Value: &id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Sessions) == 1
}

// TestFramesBeforeTheHandshake checks that a client without a token gets nothing, and leaves the session to the client that
// has it; and that a program reads nothing that was typed before the handshake.
func TestFramesBeforeTheHandshake(t *testing.T) {
	w := newWorld(t, nil)
	out, err := w.client.StartSession(t.Context(), &awsssm.StartSessionInput{Target: aws.String(instanceID)})
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]struct {
		kind int
		data []byte
	}{
		"a frame":             {websocket.BinaryMessage, frame("input_stream_data", 0, payloadOutput, []byte("x"))},
		"a giant message":     {websocket.TextMessage, fmt.Appendf(nil, `{"TokenValue":"%01048576d"}`, 0)},
		"no JSON":             {websocket.TextMessage, []byte("token")},
		"no token":            {websocket.TextMessage, []byte("{}")},
		"a token of one byte": {websocket.TextMessage, []byte(`{"TokenValue":"x"}`)},
	} {
		conn, resp, err := websocket.DefaultDialer.Dial(*out.StreamUrl, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		_ = conn.WriteMessage(first.kind, first.data) // the other end may have closed it
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, b, err := conn.ReadMessage(); err == nil || errors.Is(err, io.EOF) && len(b) > 0 {
			t.Errorf("%s: the session sends %q", name, b)
		}
		_ = conn.Close()
	}
	p := connect(t, out, "1.2.707.0")
	if _, err := fmt.Fprintln(p, "early"); err != nil {
		t.Fatal(err)
	}
	go p.run()
	shown := p.expect("ssm-user sh")
	if _, err := fmt.Fprintln(p, "later"); err != nil {
		t.Fatal(err)
	}
	if shown += p.expect("later\n"); shown != "ssm-user shlater\n" {
		t.Errorf("the session prints %q", shown)
	}
}

// TestWrongSequenceNumbersAreIdle checks that frames that are never delivered do not keep a session alive.
func TestWrongSequenceNumbersAreIdle(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, clock)
	p := w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
	p.expect("ssm-user sh")
	testkit.Eventually(t, 10*time.Second, func() error {
		p.mu.Lock()
		_ = p.conn.WriteMessage(websocket.BinaryMessage, frame("input_stream_data", 1<<40, payloadOutput, []byte("x"))) // the session may have ended
		p.mu.Unlock()
		if clock.Waiters() > 1 { // one is the ticker of the reconciler of associations
			clock.Step(time.Minute)
		}
		select {
		case why := <-p.closed:
			if why != "Your session timed out due to inactivity." {
				t.Errorf("ended with %q", why)
			}
			return nil
		default:
			return errors.New("the session goes on")
		}
	})
}

// TestTokensExpire checks that a token opens a session's data channel for a minute, and that the session outlives it.
func TestTokensExpire(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, clock)
	var session *awsssm.StartSessionOutput
	w.open(t, w.client, &awsssm.StartSessionInput{}, func(_ *plugin, out *awsssm.StartSessionOutput) { session = out }).expect("ssm-user sh")
	admitted := errors.New("admitted")
	for _, tt := range []struct {
		after time.Duration
		want  error
	}{{59 * time.Second, admitted}, {time.Minute, nil}} {
		resumed, err := w.client.ResumeSession(t.Context(), &awsssm.ResumeSessionInput{SessionId: session.SessionId})
		if err != nil {
			t.Fatal(err)
		}
		clock.Step(tt.after)
		conn, _, err := websocket.DefaultDialer.Dial(*session.StreamUrl, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conn.SetPongHandler(func(string) error { return admitted })
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if err := errors.Join(conn.WriteJSON(map[string]string{"MessageSchemaVersion": "1.0", "TokenValue": *resumed.TokenValue}), conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, _, err = conn.ReadMessage()
		}
		if tt.want == nil && !websocket.IsCloseError(err, websocket.ClosePolicyViolation) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("a token after %s: %v", tt.after, err)
		}
		if !w.active(t, *session.SessionId) {
			t.Errorf("the session has ended after %s", tt.after)
		}
	}
}

// TestOutputIsBounded checks that a program that prints without end waits while its client reads nothing, connected or not,
// and that the client then gets every line once.
func TestOutputIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	good := w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
	good.expect("ssm-user sh")
	var session *awsssm.StartSessionOutput
	slow := w.open(t, w.client, &awsssm.StartSessionInput{DocumentName: aws.String("AWS-StartInteractiveCommand"), Parameters: map[string][]string{"command": {"yes"}}},
		func(_ *plugin, out *awsssm.StartSessionOutput) { session = out })

	// The client stops reading, because its own output is not read.
	const bound = 256 << 10 // 128 frames and what the client has read
	waits := func(when string) {
		t.Helper()
		var before int64
		testkit.Eventually(t, 10*time.Second, func() error {
			for range 50 { // so much time passes in another session
				if _, err := fmt.Fprintln(good, "meanwhile"); err != nil {
					t.Fatal(err)
				}
				good.expect("meanwhile\n")
			}
			last := before
			if before = w.fleet.printed.Load(); before > bound {
				t.Fatalf("%s, the program has printed %d bytes", when, before)
			}
			if before == 0 || before != last {
				return fmt.Errorf("%s, the program does not wait: it has printed %d bytes", when, before)
			}
			return nil
		})
	}
	waits("while the client does not read")
	_ = slow.conn.Close()
	waits("while no client is connected")

	// A client resumes the session. The first one goes on with what it has received.
	resumed, err := w.client.ResumeSession(t.Context(), &awsssm.ResumeSessionInput{SessionId: session.SessionId})
	if err != nil {
		t.Fatal(err)
	}
	again := connect(t, &awsssm.StartSessionOutput{StreamUrl: resumed.StreamUrl, TokenValue: resumed.TokenValue}, "1.2.707.0")
	lines := make(chan string)
	go func() {
		b := make([]byte, 8)
		for _, p := range []*plugin{slow, again} {
			for {
				if _, err := io.ReadFull(p.output, b); err != nil {
					break
				}
				select {
				case lines <- string(b):
				case <-t.Context().Done():
					return
				}
			}
			if p == slow { // all that it has received has been read
				slow.mu.Lock()
				again.next, again.expected, again.early = slow.next, slow.expected, slow.early
				slow.mu.Unlock()
				go again.run()
			}
		}
	}()
	for n := range 3 * bound / 8 {
		select {
		case got := <-lines:
			if want := fmt.Sprintf("%07d\n", n); got != want {
				t.Fatalf("line %q instead of %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no line after %d", n)
		}
	}
}

// TestWindowSize checks that the size of the client's window reaches the program's terminal.
func TestWindowSize(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.resized = make(chan machine.Size, 10)
	p := w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
	p.expect("ssm-user sh")
	<-w.fleet.resized // the size that it starts with
	for _, size := range []machine.Size{{Columns: 132, Rows: 43}, {Columns: 80, Rows: 24}} {
		p.writeJSON(payloadSize, map[string]int{"cols": size.Columns, "rows": size.Rows})
		select {
		case got := <-w.fleet.resized:
			if got != size {
				t.Errorf("the size is %v, not %v", got, size)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the size does not reach the program")
		}
	}
}

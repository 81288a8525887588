package datachannel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
)

// A peer is a client of a channel.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
	over chan error // receives the result of Serve
}

// connect returns a client that the channel serves: frames sent from now on reach it in order.
func connect(t *testing.T, c *Channel) *peer {
	t.Helper()
	p := &peer{t: t, over: make(chan error, 1)}
	served := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.clients
	}
	before := served()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		Prepare(conn)
		p.over <- c.Serve(conn)
	}))
	t.Cleanup(srv.Close)
	var err error
	if p.conn, _, err = websocket.DefaultDialer.Dial(strings.Replace(srv.URL, "http", "ws", 1), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.conn.Close() })
	eventually(t, func() bool { return served() > before || c.Closed() })
	return p
}

func (p *peer) send(number int64, text string) {
	p.t.Helper()
	m := message{kind: typeInput, sequence: number, id: uuid.New(), payload: Output, data: []byte(text)}
	if err := p.conn.WriteMessage(websocket.BinaryMessage, m.bytes()); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next frame of a kind.
func (p *peer) next(kind string) message {
	p.t.Helper()
	for {
		_ = p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, b, err := p.conn.ReadMessage()
		if err != nil {
			p.t.Fatalf("waiting for %s: %v", kind, err)
		}
		m, err := parse(b)
		if err != nil {
			p.t.Fatal(err)
		}
		if m.kind == kind {
			return m
		}
	}
}

func (p *peer) acknowledge(number int64) {
	p.t.Helper()
	data, _ := json.Marshal(acknowledgement{Type: typeOutput, Sequence: number, Sequential: true})
	if err := p.conn.WriteMessage(websocket.BinaryMessage, (&message{kind: typeAck, id: uuid.New(), data: data}).bytes()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) ended() error {
	p.t.Helper()
	select {
	case err := <-p.over:
		return err
	case <-time.After(10 * time.Second):
		p.t.Fatal("the connection does not end")
		return nil
	}
}

func TestInputIsInOrder(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	p := connect(t, New(func(_ uint32, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		got.Write(data)
		return nil
	}))
	for _, f := range []struct {
		number int64
		text   string
	}{{1, "b"}, {0, "a"}, {0, "again"}, {3, "d"}, {2, "c"}} {
		p.send(f.number, f.text)
		var ack acknowledgement
		if m := p.next(typeAck); json.Unmarshal(m.data, &ack) != nil || ack.Sequence != f.number || !ack.Sequential || ack.Type != typeInput || m.flags != 3 {
			t.Errorf("frame %d is acknowledged as %+v", f.number, ack)
		}
	}
	p.send(1000, "too early") // not acknowledged
	p.send(4, "e")
	var ack acknowledgement
	if m := p.next(typeAck); json.Unmarshal(m.data, &ack) != nil || ack.Sequence != 4 {
		t.Errorf("after a frame that is far too early: %+v", ack)
	}
	mu.Lock()
	defer mu.Unlock()
	if got.String() != "abcde" {
		t.Errorf("received %q", &got)
	}
}

func TestOutputSurvivesAConnection(t *testing.T) {
	c := New(func(uint32, []byte) error { return nil })
	p := connect(t, c)
	if _, err := (Writer{c, Output}).Write(bytes.Repeat([]byte("x"), MaxPayload+1)); err != nil {
		t.Fatal(err)
	}
	for n, want := range []int{MaxPayload, 1} {
		if m := p.next(typeOutput); m.sequence != int64(n) || len(m.data) != want || m.payload != Output {
			t.Errorf("frame %d has %d bytes and number %d", n, len(m.data), m.sequence)
		}
	}
	if m := p.next(typeOutput); m.sequence != 0 {
		t.Errorf("frame %d is sent again first", m.sequence)
	}
	p.acknowledge(0)
	_ = p.conn.Close()
	_ = p.ended()
	if err := c.Send(StdErr, []byte("sent while disconnected")); err != nil {
		t.Fatal(err)
	}
	again := connect(t, c)
	for _, want := range []int64{1, 2} {
		if m := again.next(typeOutput); m.sequence != want {
			t.Errorf("the next client gets frame %d, want %d", m.sequence, want)
		}
		again.acknowledge(want)
	}
	c.Drain(10 * time.Second)
	c.Close("s-1", "why")
	var closed struct{ SessionId, Output string }
	if m := again.next(typeClosed); json.Unmarshal(m.data, &closed) != nil || closed.SessionId != "s-1" || closed.Output != "why" {
		t.Errorf("the end is %+v", closed)
	}
	if err := c.Send(Output, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestLostAcknowledgements checks that output continues when the acknowledgements of a whole window are lost with a
// connection. Like the plugin, the client does not acknowledge frames that it receives again.
func TestLostAcknowledgements(t *testing.T) {
	c := New(func(uint32, []byte) error { return nil })
	const frames = 2*window + 10
	printed := make(chan error, 1)
	p := connect(t, c)
	go func() {
		for range frames {
			if err := c.Send(Output, []byte("y")); err != nil {
				printed <- err
				return
			}
		}
		printed <- nil
	}()
	for n := range int64(window) {
		for p.next(typeOutput).sequence != n {
		}
	}
	_ = p.conn.Close()
	_ = p.ended()
	again := connect(t, c)
	deadline := time.Now().Add(20 * time.Second)
	for expected := int64(window); expected < frames; {
		if time.Now().After(deadline) {
			t.Fatalf("no frame %d", expected)
		}
		if m := again.next(typeOutput); m.sequence >= expected {
			if m.sequence != expected {
				t.Fatalf("frame %d instead of %d", m.sequence, expected)
			}
			again.acknowledge(expected)
			expected++
		}
	}
	if err := <-printed; err != nil {
		t.Fatal(err)
	}
}

// TestSlowReaders checks that a client that acknowledges nothing blocks the sender until the channel is closed.
func TestSlowReaders(t *testing.T) {
	c := New(func(uint32, []byte) error { return nil })
	connect(t, c)
	sent := make(chan int, 2*window)
	go func() {
		defer close(sent)
		for n := range 2 * window {
			if c.Send(Output, []byte("x")) != nil {
				return
			}
			sent <- n
		}
	}()
	last := -1
	for n := range window {
		last = <-sent
		if last != n {
			t.Fatalf("frame %d instead of %d", last, n)
		}
	}
	c.Close("", "")
	for n := range sent {
		t.Errorf("frame %d was sent beyond the window", n)
	}
}

// TestBandwidth checks that the frames of both directions count towards the bandwidth.
func TestBandwidth(t *testing.T) {
	c := New(func(uint32, []byte) error { return nil })
	const room = 10_000
	slow := rate.Every(time.Hour) // one byte
	c.in, c.out = rate.NewLimiter(slow, room), rate.NewLimiter(slow, room)
	p := connect(t, c)
	p.send(0, strings.Repeat("x", 1000))
	p.next(typeAck)
	if err := c.Send(Output, bytes.Repeat([]byte("y"), 500)); err != nil {
		t.Fatal(err)
	}
	if in, out := room-int(c.in.Tokens()), room-int(c.out.Tokens()); in != payloadOffset+1000 || out != payloadOffset+500 {
		t.Errorf("%d bytes in, %d out", in, out)
	}
	blocked := make(chan error)
	go func() { // sends more than there is room for
		for {
			if err := c.Send(Output, bytes.Repeat([]byte("y"), MaxPayload)); err != nil {
				blocked <- err
				return
			}
		}
	}()
	eventually(t, func() bool { return c.out.Tokens() < 0 }) // the sender waits
	c.Close("", "")
	if err := <-blocked; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestBandwidthLimit checks that neither direction carries more than 64 MiB in a second, beyond one MiB at once.
func TestBandwidthLimit(t *testing.T) {
	const sent = 33 << 20
	const least = (sent - burst - maxFrame) * time.Second / bandwidth
	limited := func(direction string, begun time.Time) {
		t.Helper()
		if took := time.Since(begun); took < least {
			t.Errorf("33 MiB %s took %v, not %v", direction, took, least)
		}
	}
	c := New(func(uint32, []byte) error { return nil })
	begun := time.Now()
	for n := range int64(sent / (payloadOffset + MaxPayload)) { // without a client, so nothing else takes long
		if err := c.Send(Output, make([]byte, MaxPayload)); err != nil {
			t.Fatal(err)
		}
		c.acknowledged(n)
	}
	limited("out", begun)

	c = New(func(uint32, []byte) error { return nil })
	p := connect(t, c)
	begun = time.Now()
	ignored := (&message{kind: "start_publication", data: make([]byte, maxFrame-payloadOffset)}).bytes()
	for range sent / maxFrame {
		if err := p.conn.WriteMessage(websocket.BinaryMessage, ignored); err != nil {
			t.Fatal(err)
		}
	}
	p.send(0, "the last frame")
	p.next(typeAck)
	limited("in", begun)
}

// TestInputIsBounded checks that what a client sends while the session reads nothing is dropped beyond a limit, and delivered
// in order once the client has sent it again.
func TestInputIsBounded(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	var got []byte
	c := New(func(_ uint32, data []byte) error {
		<-release
		mu.Lock()
		defer mu.Unlock()
		got = append(got, data...)
		return nil
	})
	p := connect(t, c)
	go func() { // the acknowledgements; which frames have arrived is seen below
		for {
			if _, _, err := p.conn.ReadMessage(); err != nil {
				return
			}
		}
	}()
	var all []byte
	for n := range 8 * maxQueued / MaxPayload {
		all = append(all, bytes.Repeat(fmt.Appendf(nil, "%08d", n), MaxPayload/8)...)
	}
	// sendFrom sends what follows the first n bytes, and returns when the channel has handled it.
	sendFrom := func(n, most int) {
		t.Helper()
		rest := all[n:min(n+most, len(all))]
		for i, part := range slices.Collect(slices.Chunk(rest, MaxPayload)) {
			p.send(int64(n/MaxPayload+i), string(part))
		}
		if err := c.Send(Output, nil); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		last := c.next - 1
		c.mu.Unlock()
		p.acknowledge(last)
		eventually(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.unacked) == 0
		})
	}
	sendFrom(0, len(all))
	c.mu.Lock()
	if c.queued > maxQueued || c.queued < maxQueued-2*(payloadOffset+MaxPayload) {
		t.Errorf("%d bytes are queued; want nearly %d", c.queued, maxQueued)
	}
	c.mu.Unlock()
	close(release)
	for n := 0; n < len(all); {
		before := n
		eventually(t, func() bool { // until everything that was queued has been received
			c.mu.Lock()
			queued := c.queued
			c.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			n = len(got)
			return queued == 0 && n > before
		})
		sendFrom(n, maxQueued/2)
	}
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Equal(got, all) {
		t.Errorf("received %d bytes that differ from the %d that were sent", len(got), len(all))
	}
}

// eventually waits until ok.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("not within ten seconds")
		}
	}
}

func TestHostileFrames(t *testing.T) {
	good := (&message{kind: typeInput, id: uuid.New(), payload: Output, data: []byte("x")}).bytes()
	change := func(at int, b ...byte) []byte {
		return append(append(bytes.Clone(good[:at]), b...), good[at+len(b):]...)
	}
	for name, frame := range map[string][]byte{
		"empty":                   {},
		"short":                   good[:50],
		"a wrong header":          change(0, 0xff, 0xff, 0xff, 0xff),
		"a wrong digest":          change(80, 1, 2, 3),
		"a wrong length":          change(headerLength, binary.BigEndian.AppendUint32(nil, 1<<31)...),
		"a huge frame":            append(bytes.Clone(good), make([]byte, 1<<20)...),
		"a false acknowledgement": (&message{kind: typeAck, data: []byte("{")}).bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			c := New(func(uint32, []byte) error { return nil })
			p := connect(t, c)
			_ = p.conn.WriteMessage(websocket.BinaryMessage, frame) // the other end may close it
			if err := p.ended(); err == nil {
				t.Error("no error")
			}
		})
	}
	for name, m := range map[string]message{
		"before the first": {kind: typeInput, sequence: -1, payload: Output},
		"an unknown type":  {kind: "start_publication"},
		"a false number":   {kind: typeAck, data: []byte(`{"AcknowledgedMessageSequenceNumber":77}`)},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(func(uint32, []byte) error { return nil })
			p := connect(t, c)
			if err := p.conn.WriteMessage(websocket.BinaryMessage, m.bytes()); err != nil {
				t.Fatal(err)
			}
			p.send(0, "x")
			var ack acknowledgement
			for ack.Sequence = -1; ack.Sequence != 0; {
				if json.Unmarshal(p.next(typeAck).data, &ack) != nil {
					t.Fatal("not an acknowledgement")
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&message{kind: typeInput, id: uuid.New(), payload: Output, data: []byte("x")}).bytes())
	f.Add([]byte{0, 0, 0, headerLength})
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parse(b); err == nil && len(m.data) > len(b) {
			t.Error("more data than bytes")
		}
	})
}

// TestAcknowledgementsPassWhileInputBlocks checks that a program that prints a lot and reads nothing does not stop,
// whatever the client types.
func TestAcknowledgementsPassWhileInputBlocks(t *testing.T) {
	release := make(chan struct{})
	c := New(func(uint32, []byte) error {
		<-release
		return nil
	})
	t.Cleanup(func() { close(release); c.Close("", "") })
	p := connect(t, c)
	for n := range int64(3) {
		p.send(n, "typed")
	}
	const frames = 3 * window
	printed := make(chan error, 1)
	go func() {
		for range frames {
			if err := c.Send(Output, []byte("y\n")); err != nil {
				printed <- err
				return
			}
		}
		printed <- nil
	}()
	seen := map[int64]bool{}
	for len(seen) < frames {
		m := p.next(typeOutput)
		seen[m.sequence] = true
		p.acknowledge(m.sequence)
	}
	if err := <-printed; err != nil {
		t.Fatal(err)
	}
}

// TestHandshakeIsQuiet checks that the client gets no frame between HandshakeComplete and its next own frame: the plugin
// fails if one arrives while it sets up a port session.
func TestHandshakeIsQuiet(t *testing.T) {
	var c *Channel
	c = New(func(payload uint32, _ []byte) error {
		if payload == HandshakeResponse {
			return c.Send(HandshakeComplete, []byte("{}"))
		}
		return nil
	})
	p := connect(t, c)
	send := func(number int64, payload uint32) {
		t.Helper()
		m := message{kind: typeInput, sequence: number, id: uuid.New(), payload: payload}
		if err := p.conn.WriteMessage(websocket.BinaryMessage, m.bytes()); err != nil {
			t.Fatal(err)
		}
	}
	send(0, HandshakeResponse)
	send(0, HandshakeResponse) // the plugin has not seen the acknowledgement yet
	send(1, Output)
	var got []string
	for range 3 {
		_ = p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, b, err := p.conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		m, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		var ack acknowledgement
		_ = json.Unmarshal(m.data, &ack) // only acknowledgements have a number
		got = append(got, fmt.Sprint(m.kind, " ", m.payload, " ", ack.Sequence))
	}
	if want := []string{typeAck + " 0 0", fmt.Sprint(typeOutput, " ", HandshakeComplete, " 0"), typeAck + " 0 1"}; !slices.Equal(got, want) {
		t.Errorf("the client gets %q, not %q", got, want)
	}
}

// Package datachannel implements the agent's end of a session's data channel, in the protocol of AWS's
// session-manager-plugin: numbered frames over a WebSocket. Frames are acknowledged and resent, so that a session
// survives a broken connection.
//
// Clients may be hostile, but can harm only their own channel. A frame that is too large or malformed closes it. As in AWS's
// agent, frames that arrive early or twice are acknowledged, and those that are too far ahead are ignored, as are text messages
// and unknown types: they do not keep a session from timing out. If a client reads nothing, the session's program waits. If the
// program reads nothing, frames beyond a limit are dropped, and the client sends them again.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/datachannel/datachannel.go
//
// It does not depend on sessions or machines. Only package ssm imports it.
package datachannel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// MaxPayload is the largest payload that a Writer puts into a frame, as in AWS's agent.
const MaxPayload = 1024

// Bounds of a channel.
const (
	maxFrame  = 16 << 10 // a client's largest frame; the plugin's carry 1,024 bytes
	window    = 128      // unacknowledged frames, and frames that arrived early
	maxQueued = 1 << 20  // bytes that the session has not read; dropping more is slow, because the plugin resends one frame in 100 ms
	resendIn  = 300 * time.Millisecond
	settleIn  = time.Second      // how long frames are resent to a client that has resumed the session and does not acknowledge them
	patience  = 5 * time.Second  // before HandshakeComplete is resent; the plugin never ignores it
	writeIn   = 10 * time.Second // a client that reads nothing for this long is disconnected
	keepAlive = 6 * time.Minute  // the plugin pings every five minutes
	bandwidth = 64 << 20         // bytes per second in each direction
	burst     = 1 << 20          // bytes that may pass at once
)

// wall is the real clock, even if the service has another one: the kernel enforces the deadlines of sockets, and
// clients acknowledge frames in real time.
var wall = clock.RealClock{}

// ErrClosed means that the channel is closed.
var ErrClosed = errors.New("the data channel is closed")

// A Channel is the agent's end of one session.
type Channel struct {
	// receive handles what the client sends, in order. It may block until the session reads. An error closes the channel.
	receive func(payload uint32, data []byte) error

	ctx     context.Context // ends when the channel is closed
	end     context.CancelFunc
	in, out *rate.Limiter

	serving sync.Mutex // one connection at a time
	consume sync.Once  // starts the goroutine that calls receive

	mu      sync.Mutex
	changed *sync.Cond
	input   []message       // what the client has sent
	queued  int             // the size of input in bytes
	conn    *websocket.Conn // nil while no client is connected
	clients int             // that have been served
	closed  bool
	next    int64 // the next frame's number
	unacked []sent

	// Used only by the goroutine that calls receive.
	expected int64 // the client's next frame
	early    map[int64]message
	shook    *websocket.Conn // on which the client's part of the handshake was acknowledged
	shaken   int64           // the number of that part's last frame

	writing sync.Mutex
	sealer  atomic.Pointer[Sealer] // nil if the session is not encrypted
}

type sent struct {
	number  int64
	payload uint32
	frame   []byte
	at      time.Time // zero if the connected client has not seen it
	again   time.Time // when it was first sent to the connected client, if that has resumed the session; otherwise zero
}

// late reports whether the client should have acknowledged the frame by now.
func (s *sent) late() bool {
	if s.payload == HandshakeComplete && !s.at.IsZero() {
		return wall.Since(s.at) > patience
	}
	return wall.Since(s.at) > resendIn
}

// New returns a channel without a client.
func New(receive func(payload uint32, data []byte) error) *Channel {
	c := &Channel{receive: receive, early: map[int64]message{}, in: rate.NewLimiter(bandwidth, burst), out: rate.NewLimiter(bandwidth, burst)}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Encrypt encrypts all output from now on, and expects encrypted input.
func (c *Channel) Encrypt(s *Sealer) { c.sealer.Store(s) }

// deliver passes the payload of a frame to receive, after decrypting it in an encrypted session.
func (c *Channel) deliver(m message) error {
	if s := c.sealer.Load(); s != nil && m.payload == Output {
		var err error
		if m.data, err = s.Open(m.data); err != nil {
			return err
		}
	}
	return c.receive(m.payload, m.data)
}

// Prepare limits what a client may send, and for how long, before it has been admitted.
func Prepare(conn *websocket.Conn) {
	conn.SetReadLimit(maxFrame)
	_ = conn.SetReadDeadline(wall.Now().Add(writeIn)) // a closed connection fails at the next read
}

// Deadline returns the deadline for writing the last message of a connection.
func Deadline() time.Time { return wall.Now().Add(time.Second) }

// Serve serves a client until its connection ends. An earlier client is disconnected. After a malformed frame, the channel is
// closed; after any other end of the connection, another client may be served.
func (c *Channel) Serve(conn *websocket.Conn) error {
	c.mu.Lock()
	if c.conn != nil {
		_ = c.conn.Close() // its Serve returns
	}
	c.mu.Unlock()
	c.serving.Lock()
	defer c.serving.Unlock()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.conn = conn
	c.clients++
	for i := range c.unacked {
		c.unacked[i].at, c.unacked[i].again = time.Time{}, time.Time{} // the new client has not seen them
	}
	c.mu.Unlock()
	c.consume.Do(func() { go c.receiveAll() }) // ends when the channel is closed
	stop := make(chan struct{})
	var resending sync.WaitGroup
	resending.Go(func() { c.resend(conn, stop) })
	defer func() {
		close(stop)
		resending.Wait()
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
	}()
	alive := func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return nil // Close has set the deadline
		}
		return conn.SetReadDeadline(wall.Now().Add(keepAlive))
	}
	pong := conn.PingHandler()
	conn.SetPingHandler(func(data string) error { return errors.Join(alive(), pong(data)) })
	conn.SetPongHandler(func(data string) error {
		c.settle(data)
		return nil
	})
	for {
		if err := alive(); err != nil {
			return err
		}
		kind, b, err := conn.ReadMessage()
		if errors.Is(err, websocket.ErrReadLimit) {
			c.Close("", "")
		}
		if err != nil {
			return err
		}
		if err := c.in.WaitN(c.ctx, len(b)); err != nil {
			return ErrClosed
		}
		if kind != websocket.BinaryMessage {
			continue
		}
		m, err := parse(b)
		if err == nil {
			err = c.handle(m)
		}
		if err != nil {
			c.Close("", "")
			return err
		}
	}
}

// handle handles one frame without blocking: acknowledgements must get through while the session reads no input,
// because it may be waiting for them.
func (c *Channel) handle(m message) error {
	switch m.kind {
	case typeAck:
		var ack acknowledgement
		if err := json.Unmarshal(m.data, &ack); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		c.acknowledged(ack.Sequence)
	case typeInput:
		c.mu.Lock()
		defer c.mu.Unlock()
		if size := len(m.data) + payloadOffset; c.queued+size <= maxQueued { // otherwise it is not acknowledged, so the client resends it
			c.input, c.queued = append(c.input, m), c.queued+size
			c.changed.Broadcast()
		}
	}
	return nil // other messages are not for the agent
}

// receiveAll hands over what clients send until the channel is closed.
func (c *Channel) receiveAll() {
	for {
		c.mu.Lock()
		for len(c.input) == 0 && !c.closed {
			c.changed.Wait()
		}
		if c.closed {
			c.mu.Unlock()
			return
		}
		m := c.input[0]
		c.input, c.queued = c.input[1:], c.queued-len(m.data)-payloadOffset
		if len(c.input) == 0 {
			c.input = nil // free the array
		}
		c.mu.Unlock()
		if c.inOrder(m) != nil {
			c.Close("", "")
			return
		}
	}
}

// shakes reports whether a frame is the client's part of the handshake.
//
// The plugin's listener stops silently if any frame arrives while it sets up a port session, right after
// HandshakeComplete. So these frames are acknowledged before HandshakeComplete is sent, and only once per connection.
// https://github.com/aws/session-manager-plugin/blob/mainline/src/sessionmanagerplugin/session/portsession/muxportforwarding.go
func (m *message) shakes() bool {
	return m.payload == HandshakeResponse || m.payload == EncChallengeResponse
}

// inOrder delivers a frame, and the early frames that follow it, and acknowledges it.
func (c *Channel) inOrder(m message) error {
	if m.sequence > c.expected+window || m.sequence > c.expected && len(c.early) >= window {
		return nil // not acknowledged, so the client sends it again
	}
	if m.sequence > c.expected {
		c.early[m.sequence] = m
	}
	if m.sequence == c.expected {
		if m.shakes() {
			c.acknowledge(m)
		}
		if err := c.deliver(m); err != nil {
			return err
		}
		c.expected++
	}
	c.acknowledge(m)
	for {
		next, ok := c.early[c.expected]
		if !ok {
			return nil
		}
		delete(c.early, c.expected)
		if err := c.deliver(next); err != nil {
			return err
		}
		c.expected++
	}
}

type acknowledgement struct {
	Type       string `json:"AcknowledgedMessageType"`
	ID         string `json:"AcknowledgedMessageId"`
	Sequence   int64  `json:"AcknowledgedMessageSequenceNumber"`
	Sequential bool   `json:"IsSequentialMessage"`
}

// acknowledge acknowledges a frame. If that fails, the client sends the frame again.
func (c *Channel) acknowledge(m message) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if m.shakes() {
		if conn == c.shook && m.sequence <= c.shaken {
			return
		}
		c.shook, c.shaken = conn, m.sequence
	}
	data, err := json.Marshal(acknowledgement{m.kind, m.id.String(), m.sequence, true})
	if err == nil && conn != nil {
		_ = c.write(conn, (&message{kind: typeAck, flags: 3, id: uuid.New(), data: data}).bytes())
	}
}

func (c *Channel) acknowledged(number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.unacked {
		if c.unacked[i].number == number {
			c.unacked = append(c.unacked[:i], c.unacked[i+1:]...)
			c.changed.Broadcast()
			return
		}
	}
}

func (c *Channel) write(conn *websocket.Conn, frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := conn.SetWriteDeadline(wall.Now().Add(writeIn)); err != nil {
		return err
	}
	err := conn.WriteMessage(websocket.BinaryMessage, frame)
	if err != nil {
		_ = conn.Close() // Serve returns
	}
	return err
}

// resend resends the frames that the client has not acknowledged in time. The plugin ignores frames that arrive before
// it is ready for them.
func (c *Channel) resend(conn *websocket.Conn, stop <-chan struct{}) {
	tick := wall.NewTicker(resendIn / 3)
	defer tick.Stop()
	for {
		var late [][]byte
		ping := false
		c.mu.Lock()
		now := wall.Now()
		for i := range c.unacked {
			s := &c.unacked[i]
			ping = ping || !s.again.IsZero() && now.Sub(s.again) > settleIn
			if len(late) == 16 || !s.late() {
				continue
			}
			if s.at.IsZero() && c.clients > 1 {
				s.again = now
			}
			s.at = now
			late = append(late, s.frame)
		}
		c.mu.Unlock()
		for _, f := range late {
			if c.write(conn, f) != nil {
				return
			}
		}
		if ping && conn.WriteControl(websocket.PingMessage, strconv.AppendInt(nil, now.UnixNano(), 10), wall.Now().Add(writeIn)) != nil {
			_ = conn.Close() // Serve returns
			return
		}
		select {
		case <-stop:
			return
		case <-tick.C():
		}
	}
}

// settle handles the answer to a ping of resend. The plugin acknowledges a frame only when it receives it for the first time,
// so an acknowledgement that was lost with an earlier connection never comes. But the answer to a ping shows that the plugin
// has received everything that was sent before the ping.
// https://github.com/aws/session-manager-plugin/blob/mainline/src/datachannel/streaming.go
func (c *Channel) settle(ping string) {
	at, err := strconv.ParseInt(ping, 10, 64)
	if err != nil {
		return // the client was not asked
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unacked = slices.DeleteFunc(c.unacked, func(s sent) bool {
		return !s.again.IsZero() && time.Unix(0, at).Sub(s.again) > settleIn
	})
	c.changed.Broadcast()
}

// Send sends a payload. It blocks while too many frames are unacknowledged. If no client is connected, the next one
// gets the payload.
func (c *Channel) Send(payload uint32, data []byte) error {
	if s := c.sealer.Load(); s != nil && (payload == Output || payload == StdErr) {
		data = s.Seal(data)
	}
	if err := c.out.WaitN(c.ctx, payloadOffset+len(data)); err != nil {
		return ErrClosed
	}
	c.mu.Lock()
	for len(c.unacked) >= window && !c.closed {
		c.changed.Wait()
	}
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	m := message{kind: typeOutput, sequence: c.next, id: uuid.New(), payload: payload, data: data}
	if c.next == 0 {
		m.flags = 1
	}
	frame := m.bytes()
	c.unacked = append(c.unacked, sent{number: c.next, payload: payload, frame: frame, at: wall.Now()})
	c.next++
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		_ = c.write(conn, frame) // if it fails, the next client gets it
	}
	return nil
}

// Drain waits until the client has acknowledged everything or atMost has passed.
func (c *Channel) Drain(atMost time.Duration) {
	late := false
	timer := wall.AfterFunc(atMost, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.changed.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.unacked) > 0 && !c.closed && c.conn != nil && !late {
		c.changed.Wait()
	}
}

// Closed reports whether the channel is closed, which a client's bad frame causes too.
func (c *Channel) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close closes the channel. If session is not empty, Close also sends the client the end of the session with output, which
// the client prints.
func (c *Channel) Close(session, output string) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed, c.input = true, nil
	c.changed.Broadcast()
	c.end()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		return
	}
	if session != "" {
		id := uuid.New()
		data, err := json.Marshal(map[string]any{
			"MessageId": id.String(), "CreatedDate": wall.Now().UTC().Format(time.RFC3339), "DestinationId": session, "SessionId": session,
			"MessageType": typeClosed, "SchemaVersion": 1, "Output": output,
		})
		if err == nil {
			_ = c.write(conn, (&message{kind: typeClosed, id: id, data: data}).bytes()) // the client may be gone
		}
		_ = conn.SetReadDeadline(wall.Now().Add(writeIn)) // the client closes the connection before that
		return
	}
	_ = conn.Close() // the client may be gone
}

// A Writer sends what is written to it as payloads of one kind.
type Writer struct {
	Channel *Channel
	Payload uint32
}

func (w Writer) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, MaxPayload)
		if err := w.Channel.Send(w.Payload, append([]byte(nil), p[done:done+n]...)); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

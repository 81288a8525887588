package ssm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ssm/datachannel"
	"github.com/drydock-dev/drydock/internal/store"
)

// A live is a session that has not ended.
type live struct {
	s       *Service
	sc      scope
	rec     sessionRecord
	plan    plan
	channel *datachannel.Channel
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	begin   sync.Once
	finish  sync.Once

	shaken chan struct{} // closed when the client has answered the handshake, with response
	answer sync.Once
	// response is set before shaken is closed.
	response handshakeResponse
	keys     *io.PipeReader // what the client sends to a program or a port
	typed    *io.PipeWriter

	mu         sync.Mutex
	token      [32]byte
	tokenUntil time.Time
	active     time.Time
	size       machine.Size
	program    machine.Process // nil until it runs
	conn       net.Conn        // of a port session that carries one connection at a time; nil while it has none
}

func newLive(s *Service, sc scope, rec sessionRecord, p plan) *live {
	l := &live{s: s, sc: sc, rec: rec, plan: p, shaken: make(chan struct{}), active: s.clock.Now(), size: machine.Size{Columns: 80, Rows: 24}}
	l.ctx, l.cancel = context.WithTimeout(context.Background(), longest)
	l.keys, l.typed = io.Pipe()
	l.channel = datachannel.New(l.receive)
	return l
}

// ServesChannel reports whether a request opens a data channel.
func (s *Service) ServesChannel(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, channelPath) && websocket.IsWebSocketUpgrade(r)
}

// ServeChannel serves a data channel until its connection ends. The first message must contain the session's token.
func (s *Service) ServeChannel(w http.ResponseWriter, r *http.Request) {
	// Browsers send an Origin header. The plugin does not.
	upgrader := websocket.Upgrader{HandshakeTimeout: 10 * time.Second, CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "" }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has written the response
	}
	defer conn.Close()
	datachannel.Prepare(conn)
	var open struct{ TokenValue string }
	if err := conn.ReadJSON(&open); err != nil {
		return
	}
	id, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), channelPath))
	s.mu.Lock()
	l := s.live[id]
	s.mu.Unlock()
	if err != nil || l == nil || !l.admit(open.TokenValue) {
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "invalid token"), datachannel.Deadline())
		return
	}
	l.touch()
	l.begin.Do(func() { go l.run() })
	_ = l.channel.Serve(conn) // the client may reconnect
	if l.channel.Closed() {
		l.end("") // a session without a channel is over
		return
	}
	l.touch()
}

// touch records that the client is active.
func (l *live) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = l.s.clock.Now()
}

// watch ends the session if the client does not open its channel in time, if nothing has been typed for too long, or if
// the session has lasted too long.
func (l *live) watch() {
	for limit := tokenLife; ; {
		l.mu.Lock()
		left := limit - l.s.clock.Since(l.active)
		l.mu.Unlock()
		if left <= 0 {
			l.end("Your session timed out due to inactivity.")
			return
		}
		timer := l.s.clock.NewTimer(left)
		select {
		case <-l.ctx.Done():
			timer.Stop()
			l.end("Your session timed out due to maximum session duration.")
			return
		case <-l.shaken:
			limit = idleTime
			timer.Stop()
			select { // shaken stays closed
			case <-l.ctx.Done():
			case <-l.idle():
			}
		case <-timer.C():
		}
	}
}

// idle returns a channel that receives a value when the session may have been idle for too long.
func (l *live) idle() <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.clock.After(idleTime - l.s.clock.Since(l.active))
}

// end ends the session. Only the first call has an effect. The client prints text.
func (l *live) end(text string) {
	l.finish.Do(func() {
		l.s.mu.Lock()
		delete(l.s.live, l.rec.ID)
		l.s.mu.Unlock()
		l.channel.Close(l.rec.ID, text)
		l.cancel()
		_ = l.typed.Close() // it is a pipe
		l.hangUp()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := sessions.UpdateOne(ctx, l.s.store, l.sc.Key(l.rec.ID), func(r *sessionRecord) error {
			r.Ended = l.s.now()
			return nil
		})
		if store.IgnoreNotFound(err) != nil { // there is no record if it could not be stored or its account was reset
			l.s.log.Warn("the end of a session could not be stored", "session", l.rec.ID, "error", err)
		}
	})
}

// A handshakeResponse is what the client answers to the handshake's request.
type handshakeResponse struct{ ClientVersion string }

// muxed reports whether the client carries several connections of a port session at once.
func (l *live) muxed() bool {
	select {
	case <-l.shaken:
		return newer(l.response.ClientVersion, muxedAfter)
	default:
		return false
	}
}

// newer reports whether a version, such as 1.2.707.0, is newer than another.
func newer(version, than string) bool {
	numbers := func(v string) (out []int) {
		for part := range strings.SplitSeq(v, ".") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return out
			}
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(version), numbers(than)) > 0
}

// receive handles what the client sends.
func (l *live) receive(payload uint32, data []byte) error {
	switch payload {
	case datachannel.Output:
		l.touch()
		switch {
		case l.plan.port != 0 && l.plan.document != documentSSH && !l.muxed():
			return l.toPort(data)
		case l.plan.document == documentNonInteractive:
			return nil // its command reads nothing
		}
		if _, err := l.typed.Write(data); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return err
		}
	case datachannel.Size:
		var size struct{ Cols, Rows int }
		if err := json.Unmarshal(data, &size); err != nil {
			return err
		}
		l.mu.Lock()
		l.size = machine.Size{Columns: size.Cols, Rows: size.Rows}
		program := l.program
		l.mu.Unlock()
		if program != nil {
			return program.Resize(machine.Size{Columns: size.Cols, Rows: size.Rows})
		}
	case datachannel.HandshakeResponse:
		var err error
		l.answer.Do(func() {
			err = json.Unmarshal(data, &l.response)
			close(l.shaken)
		})
		return err
	case datachannel.Flag:
		if len(data) != 4 {
			return nil
		}
		switch binary.BigEndian.Uint32(data) {
		case datachannel.TerminateSession:
			go l.end("") // end may wait for this function's caller
		case datachannel.DisconnectToPort:
			l.hangUp()
		}
	}
	return nil
}

// run performs the handshake with the client and then runs the session's program.
func (l *live) run() {
	began := l.s.clock.Now()
	kind := "Standard_Stream"
	var properties any
	switch {
	case l.plan.document == documentSSH: // without a type, the plugin connects its standard input and output
		kind, properties = "Port", map[string]string{"portNumber": strconv.Itoa(l.plan.port)}
	case l.plan.port != 0:
		kind = "Port"
		properties = map[string]string{"portNumber": "", "localPortNumber": l.plan.local, "type": "LocalPortForwarding"}
	case l.plan.document == documentInteractive:
		kind = "InteractiveCommands"
	case l.plan.document == documentNonInteractive:
		kind = "NonInteractiveCommands"
	}
	action := map[string]any{"ActionType": "SessionType", "ActionParameters": map[string]any{"SessionType": kind, "Properties": properties}}
	if l.send(datachannel.HandshakeRequest, map[string]any{"AgentVersion": agentVersion, "RequestedClientActions": []any{action}}) != nil {
		return
	}
	select {
	case <-l.shaken:
	case <-l.ctx.Done():
		return
	}
	if l.send(datachannel.HandshakeComplete, map[string]any{"HandshakeTimeToComplete": l.s.clock.Since(began), "CustomerMessage": ""}) != nil {
		return
	}
	var err error
	switch {
	case l.plan.port == 0:
		err = l.runProgram()
	case l.plan.document == documentSSH:
		err = l.runSSH()
	case l.muxed():
		err = l.runMuxed()
	default:
		return // receive does the rest until the client ends the session
	}
	text := ""
	if err != nil && l.ctx.Err() == nil {
		text = "----------ERROR-------\n" + err.Error()
	}
	l.channel.Drain(5 * time.Second)
	l.end(text)
}

func (l *live) send(payload uint32, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.channel.Send(payload, b)
}

// runProgram runs the shell or the command of a session as ssm-user.
func (l *live) runProgram() error {
	m, ok := l.s.fleet.Machine(l.rec.Target)
	if !ok {
		return machine.ErrOff
	}
	l.mu.Lock()
	size := l.size
	l.mu.Unlock()
	out := datachannel.Writer{Channel: l.channel, Payload: datachannel.Output}
	c := machine.Command{
		User: ssmUser, Args: []string{"sh"}, Dir: "/usr/bin", Stdin: l.keys, Stdout: out,
		Terminal: &machine.TerminalSpec{Type: "xterm-256color", Size: size},
	}
	switch l.plan.document {
	case documentInteractive:
		c.Args = []string{"sh", "-c", l.plan.command}
	case documentNonInteractive:
		c.Args, c.Stdin, c.Terminal = []string{"sh", "-c", l.plan.command}, nil, nil
		c.Stderr = out
	}
	p, err := m.Exec(l.ctx, c)
	if errors.Is(err, machine.ErrNoUser) {
		if err = addUser(l.ctx, m); err == nil {
			p, err = m.Exec(l.ctx, c)
		}
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.program = p
	resized := l.size != size
	size = l.size
	l.mu.Unlock()
	if resized {
		if err := p.Resize(size); err != nil {
			return err
		}
	}
	_, err = p.Wait()
	return err
}

// ssmUser is the user that sessions run as. The agent creates it for the first session.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-ssm-user-permissions.html
const ssmUser = "ssm-user"

func addUser(ctx context.Context, m machine.Machine) error {
	status, err := machine.Run(ctx, m, machine.Command{Args: []string{"sh", "-c", `useradd -m -c "" ` + ssmUser + ` && mkdir -p /etc/sudoers.d && {
echo "# User rules for ssm-user"; echo "ssm-user ALL=(ALL) NOPASSWD:ALL"; } > /etc/sudoers.d/ssm-agent-users && chmod 440 /etc/sudoers.d/ssm-agent-users`}})
	if err == nil && status != 0 {
		err = errors.New("the user ssm-user could not be created")
	}
	return err
}

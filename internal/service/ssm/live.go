package ssm

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ssm/datachannel"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
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
	ready    chan struct{}  // closed when the handshake is complete; input before that is ignored
	proof    chan []byte    // receives the client's answer to the encryption challenge
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
	l := &live{s: s, sc: sc, rec: rec, plan: p, shaken: make(chan struct{}), ready: make(chan struct{}), active: s.clock.Now(), size: machine.Size{Columns: 80, Rows: 24}}
	l.proof = make(chan []byte, 1)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.keys, l.typed = io.Pipe()
	l.channel = datachannel.New(l.receive)
	return l
}

// minutes returns n minutes, or the given default if n is 0.
func minutes(n int, otherwise time.Duration) time.Duration {
	return cmp.Or(time.Duration(n)*time.Minute, otherwise)
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
	l.begin.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.ending {
			s.working.Go(l.run) // ends with the session
		}
	})
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

// watch ends the session if the client does not open its channel and complete the handshake in time, if nothing has been
// typed for too long, or if the session has lasted too long.
func (l *live) watch() {
	limit, ready := tokenLife, l.ready
	over := l.s.clock.Now().Add(minutes(int(l.plan.preferences.MaxSessionDuration), longest))
	for {
		now := l.s.clock.Now()
		l.mu.Lock()
		left := limit - now.Sub(l.active)
		l.mu.Unlock()
		switch {
		case !now.Before(over):
			l.end("Your session timed out due to maximum session duration.")
			return
		case left <= 0:
			l.end("Your session timed out due to inactivity.")
			return
		}
		timer := l.s.clock.NewTimer(min(left, over.Sub(now)))
		select {
		case <-l.ctx.Done():
		case <-ready:
			limit, ready = minutes(int(l.plan.preferences.IdleSessionTimeout), idleTime), nil
		case <-timer.C():
		}
		timer.Stop()
		if l.ctx.Err() != nil {
			return
		}
	}
}

// end ends the session. Only the first call has an effect. The client prints text.
func (l *live) end(text string) {
	l.finish.Do(func() {
		l.s.mu.Lock()
		delete(l.s.live, l.rec.ID)
		l.s.mu.Unlock()
		l.channel.Close(l.rec.ID, text)
		l.cancel()
		_ = l.typed.Close() // always returns nil
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

// muxed reports whether the client carries several connections of a port session at once.
func (l *live) muxed() bool {
	select {
	case <-l.shaken:
		return images.OlderVersion(muxedAfter, l.response.ClientVersion)
	default:
		return false
	}
}

// receive handles what the client sends.
func (l *live) receive(payload uint32, data []byte) error {
	switch payload {
	case datachannel.Output:
		select {
		case <-l.ready:
		default:
			return nil // a client must not get around the handshake, which may require encryption
		}
		l.touch()
		switch {
		case l.plan.kind == document.Port && l.plan.port.Type != "" && !l.muxed():
			return l.toPort(data)
		case l.plan.kind == document.NonInteractiveCommands:
			return nil // the command has no standard input
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
	case datachannel.EncChallengeResponse:
		var answer struct{ Challenge []byte }
		if err := json.Unmarshal(data, &answer); err != nil {
			return err
		}
		select {
		case l.proof <- answer.Challenge:
		default: // only the first counts
		}
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

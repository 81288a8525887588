package ssm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/xtaci/smux"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ssm/datachannel"
)

// maxConnections is how many connections a port session carries at once.
const maxConnections = 100

// muxedAfter is the last version of the plugin that carries one connection at a time.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/plugins/port/port.go
const muxedAfter = "1.1.70.0"

// dialPort connects to the session's port as a program on the instance does. If that fails, it tells the client.
func (l *live) dialPort() (net.Conn, error) {
	m, ok := l.s.fleet.Machine(l.rec.Target)
	if !ok {
		return nil, machine.ErrOff
	}
	conn, err := m.Dial(l.ctx, cmp.Or(l.plan.port.Host, "localhost"), l.plan.port.Port)
	if err != nil {
		_ = l.channel.Send(datachannel.Flag, binary.BigEndian.AppendUint32(nil, datachannel.ConnectToPortError)) // the client may be gone
		return nil, err
	}
	return conn, nil
}

// A carrier is the connection that the streams of a port session share. What is written to it becomes output frames of the
// data channel.
type carrier struct {
	io.ReadCloser
	l *live
}

func (c carrier) Write(p []byte) (int, error) {
	c.l.touch()
	return datachannel.Writer{Channel: c.l.channel, Payload: datachannel.Output}.Write(p)
}

// runMuxed connects each stream that the client opens to the port, until the session ends. Newer plugins open a stream for
// each connection.
func (l *live) runMuxed() error {
	config := smux.DefaultConfig()
	config.KeepAliveDisabled = true // like AWS's agents since 3.1.1511.0: otherwise no session would ever be idle
	config.MaxReceiveBuffer = 1 << 20
	mux, err := smux.Server(carrier{l.keys, l}, config)
	if err != nil {
		return err
	}
	defer mux.Close()
	defer context.AfterFunc(l.ctx, func() { _ = mux.Close() })() // AcceptStream returns
	slots := make(chan struct{}, maxConnections)
	for {
		stream, err := mux.AcceptStream()
		if err != nil {
			return err
		}
		select {
		case slots <- struct{}{}:
			go func() { // ends when either end closes the connection
				defer func() { <-slots }()
				l.connect(stream)
			}()
		default:
			_ = stream.Close() // too many connections
		}
	}
}

// connect connects a stream to the port until either end closes it.
func (l *live) connect(stream *smux.Stream) {
	defer stream.Close()
	conn, err := l.dialPort()
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, stream) // either end may close it
		_ = conn.Close()
	}()
	_, _ = io.Copy(stream, conn)
}

// runSSH connects the client to the port until either end closes the connection.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/plugins/port/basicportsession.go
func (l *live) runSSH() error {
	conn, err := l.dialPort()
	if err != nil {
		return fmt.Errorf("Unable to connect to specified port: %w", err) //nolint:staticcheck // the agent's text
	}
	defer conn.Close()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	go func() { // ends with the session
		_, _ = io.Copy(conn, l.keys) // either end may close it
		_ = conn.Close()
	}()
	_, _ = io.Copy(carrier{l: l}, conn) // either end may close it
	// ssh stops its ProxyCommand itself. If the session ended first, the plugin would print that to the closed pipe, and the
	// aws CLI would report that the plugin was killed.
	select {
	case <-l.ctx.Done():
	case <-l.s.clock.After(hangUpTime):
	}
	return nil
}

// hangUpTime is how long a client has to exit by itself after its connection has ended.
const hangUpTime = time.Second

// toPort sends data to the port of a session that carries one connection at a time. It connects first if there is no
// connection.
func (l *live) toPort(data []byte) error {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		var err error
		if conn, err = l.dialPort(); err != nil {
			return nil //nolint:nilerr // the client knows, and may try again
		}
		l.mu.Lock()
		if l.ctx.Err() != nil { // the session has ended, and end found no connection to close
			l.mu.Unlock()
			return conn.Close()
		}
		l.conn = conn
		l.mu.Unlock()
		go l.fromPort(conn) // ends when the connection is closed
	}
	if _, err := conn.Write(data); err != nil {
		l.hangUp()
	}
	return nil
}

func (l *live) fromPort(conn net.Conn) {
	_, _ = io.Copy(carrier{l: l}, conn) // either end may close it
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn = nil
	}
}

// hangUp closes the connection of a port session that carries one at a time.
func (l *live) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close() // fromPort ends
		l.conn = nil
	}
}

package simulated

import (
	"errors"
	"net"
	"time"
)

// A pipeEnd is one end of a connection within the machine. Unlike that of net.Pipe, it can half-close.
type pipeEnd struct {
	net.Conn          // what it reads
	out      net.Conn // what it writes
}

func newPipe() (client, server *pipeEnd) {
	clientIn, serverOut := net.Pipe()
	serverIn, clientOut := net.Pipe()
	return &pipeEnd{clientIn, clientOut}, &pipeEnd{serverIn, serverOut}
}

func (p *pipeEnd) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipeEnd) CloseWrite() error           { return p.out.Close() }
func (p *pipeEnd) Close() error                { return errors.Join(p.out.Close(), p.Conn.Close()) }

func (p *pipeEnd) SetDeadline(t time.Time) error {
	return errors.Join(p.out.SetDeadline(t), p.Conn.SetDeadline(t))
}

func (p *pipeEnd) SetWriteDeadline(t time.Time) error { return p.out.SetDeadline(t) }

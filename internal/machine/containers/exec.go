package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// Exec implements machine.Machine.
func (m *Machine) Exec(ctx context.Context, c machine.Command) (machine.Process, error) {
	if !m.Abilities().Has(machine.Exec) {
		return m.Unsupported.Exec(ctx, c)
	}
	if err := m.running(); err != nil {
		return nil, err
	}
	conn, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return nil, err
	}
	p := &process{conn: conn, machine: m, ctx: ctx, ended: make(chan struct{})}
	p.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	request := inside.Command{Args: c.Args, User: c.User, Env: c.Env, Dir: c.Dir}
	if c.Terminal != nil {
		request.Terminal = &inside.Terminal{Type: c.Terminal.Type, Columns: c.Terminal.Size.Columns, Rows: c.Terminal.Size.Rows}
		err = p.onTerminal(request, c)
	} else {
		err = p.onPipes(request, c)
	}
	if err != nil {
		p.stop()
		return nil, errors.Join(err, conn.Close())
	}
	return p, nil
}

// onPipes starts a command with pipes as its standard input, output and error.
func (p *process) onPipes(request inside.Command, c machine.Command) error {
	var theirs, ours []*os.File
	defer func() { closeFiles(theirs...) }()
	for i := range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			closeFiles(ours...)
			return err
		}
		if i == 0 {
			theirs, ours = append(theirs, read), append(ours, write)
		} else {
			theirs, ours = append(theirs, write), append(ours, read)
		}
	}
	if _, err := exchange(p.ctx, p.conn, inside.MachineRequest{Exec: &request}, theirs...); err != nil {
		closeFiles(ours...)
		return err
	}
	p.files = append(p.files, ours[0])
	go func() { // ends when the program has, at the latest with the next write
		if c.Stdin != nil {
			_, _ = io.Copy(ours[0], c.Stdin)
		}
		_ = ours[0].Close()
	}()
	p.copyOut(c.Stdout, ours[1])
	p.copyOut(c.Stderr, ours[2])
	return nil
}

// copyOut copies what a program prints until its end.
func (p *process) copyOut(to io.Writer, from *os.File) {
	if to == nil {
		to = io.Discard
	}
	p.files = append(p.files, from)
	p.output.Go(func() {
		_, _ = io.Copy(to, from)
		_ = from.Close()
	})
}

// endOfInput is what a terminal's driver takes for the end of the input: Ctrl-D.
const endOfInput = "\x04"

// onTerminal starts a command on a terminal, which the machine opens.
func (p *process) onTerminal(request inside.Command, c machine.Command) error {
	files, err := exchange(p.ctx, p.conn, inside.MachineRequest{Exec: &request})
	if err != nil {
		return err
	}
	if len(files) != 1 {
		closeFiles(files...)
		return errors.New("the machine opened no terminal")
	}
	terminal, err := pollable(files[0])
	if err != nil {
		closeFiles(files...)
		return err
	}
	p.copyOut(c.Stdout, terminal)
	go func() { // ends when the program has, at the latest with the next write
		var stdin io.Reader = strings.NewReader("")
		if c.Stdin != nil {
			stdin = c.Stdin
		}
		_, err := io.Copy(terminal, stdin)
		// The client has hung up: whatever reads from the terminal comes to the end of its input, one program after the other.
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for err == nil {
			_, err = io.WriteString(terminal, endOfInput)
			select {
			case <-tick.C:
			case <-p.ended:
				return
			}
		}
	}()
	return nil
}

// A process is a program on the machine.
type process struct {
	machine *Machine
	ctx     context.Context
	conn    *net.UnixConn
	stop    func() bool
	ended   chan struct{} // closed by Wait
	once    sync.Once
	output  sync.WaitGroup
	files   []*os.File // pipes or the terminal
}

// pollable makes reads and writes of a file end at its deadlines and when it is closed. If it succeeds, it closes f.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(fd, true); err != nil { // after f.Fd, which does the opposite
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// leftPatience is how long the output of a program is read after its end. What it has started may hold it open forever.
const leftPatience = time.Second

// Wait implements machine.Process.
func (p *process) Wait() (int, error) {
	defer p.conn.Close()
	var r inside.Response
	_, err := inside.Receive(p.conn, &r)
	p.stop()
	p.once.Do(func() { close(p.ended) })
	for _, f := range p.files {
		_ = f.SetDeadline(time.Now().Add(leftPatience)) // it may be closed
	}
	p.output.Wait()
	switch {
	case p.ctx.Err() != nil:
		return 0, p.ctx.Err()
	case err != nil:
		return 0, machine.ErrOff
	}
	return r.Status, nil
}

// signals are the numbers of signals, which are the same on all processors.
var signals = map[machine.Signal]int{machine.SIGHUP: 1, machine.SIGINT: 2, machine.SIGQUIT: 3, machine.SIGKILL: 9, machine.SIGTERM: 15}

// Signal implements machine.Process.
func (p *process) Signal(s machine.Signal) error {
	number, ok := signals[s]
	if !ok {
		return fmt.Errorf("unknown signal %q", s)
	}
	_ = inside.Send(p.conn, inside.Signal{Number: number}) // the program may have ended
	return nil
}

// Resize implements machine.Process.
func (p *process) Resize(s machine.Size) error {
	_ = inside.Send(p.conn, inside.Signal{Columns: s.Columns, Rows: s.Rows}) // the program may have ended
	return nil
}

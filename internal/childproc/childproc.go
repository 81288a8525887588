// Package childproc runs this program again as a child that does one job and never outlives its parent.
//
// Parent and child share two pipes. Through the first, the parent sends the child's configuration and then keeps the
// pipe open: end of file tells the child that the parent has exited or wants the child to stop. Through the second,
// the child sends messages. Arguments and environment contain no secrets.
//
// The package does not depend on what children do. cmd/drydock names them (Modes). A Supervisor keeps a long-lived
// child running (internal/controlplane); a Worker is a child to exchange messages with and then discard
// (internal/machine/guest/sandbox).
package childproc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// command is the argument that makes the program a child. The mode follows it.
const command = "be-child"

// The child's ends of the two pipes.
const (
	downFD = 3
	upFD   = 4
)

// FirstFile is the descriptor of the first of Spec.Files in the child. The child closes it on exec, or its own children
// inherit it.
const FirstFile = 5

// maxFrame bounds configurations and messages. The largest have all files of a simulated machine.
const maxFrame = 128 << 20

// Env is what a child gets from its parent.
type Env struct {
	// Config is the configuration from the parent.
	Config []byte
	// Report sends one message to the parent. It may be called concurrently.
	Report func([]byte) error
	// Receive waits for the next message from the parent. It fails when there will be no more.
	Receive func(context.Context) ([]byte, error)
}

// A Main is the main function of a child. ctx ends when the parent exits or wants the child to stop. Main returns the
// exit code. Standard output and error go to the child's log file.
type Main func(ctx context.Context, env Env) int

// Modes are the kinds of children that the program can be, by name. cmd/drydock passes them to app.Main, so that
// nothing else links what children need.
type Modes map[string]Main

// Dispatch runs the mode that args (os.Args) request. Call it first in main. If ok is true, exit with code.
func (m Modes) Dispatch(ctx context.Context, args []string) (code int, ok bool) {
	if len(args) < 3 || args[len(args)-2] != command {
		return 0, false
	}
	run := m[args[len(args)-1]]
	if run == nil {
		fmt.Fprintf(os.Stderr, "drydock: unknown child mode %q; this command is for Drydock's own use\n", args[len(args)-1])
		return 2, true
	}
	code, err := be(ctx, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drydock: starting as a child:", err)
		return 2, true
	}
	return code, true
}

func be(ctx context.Context, run Main) (int, error) {
	down, up := os.NewFile(downFD, "down"), os.NewFile(upFD, "up")
	if down == nil || up == nil {
		return 0, errors.New("no pipe from a parent process; this command is for Drydock's own use")
	}
	// The child's own children must not inherit the pipes, because the pipes would then outlive the child.
	syscall.CloseOnExec(downFD)
	syscall.CloseOnExec(upFD)
	config, err := readFrame(down, nil)
	if err != nil {
		return 0, fmt.Errorf("reading the configuration: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan []byte)
	go func() { // ends with the process
		defer cancel()
		for {
			msg, err := readFrame(down, nil)
			if err != nil {
				return
			}
			messages <- msg
		}
	}()
	var mu sync.Mutex
	return run(ctx, Env{
		Config: config,
		Report: func(msg []byte) error {
			mu.Lock()
			defer mu.Unlock()
			return writeFrame(up, msg)
		},
		Receive: func(ctx context.Context) ([]byte, error) {
			select {
			case msg := <-messages:
				return msg, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}), nil
}

func writeFrame(w io.Writer, b []byte) error {
	if len(b) > maxFrame {
		return fmt.Errorf("message of %d bytes is too long", len(b))
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// readFrame reads a message. admit, unless nil, is asked before the content of the message is read, and may refuse it.
func readFrame(r io.Reader, admit func(size int) error) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > maxFrame {
		return nil, fmt.Errorf("message of %d bytes is too long", size)
	}
	if admit != nil {
		if err := admit(int(size)); err != nil {
			return nil, err
		}
		b := make([]byte, size) // exactly the memory that was admitted
		_, err := io.ReadFull(r, b)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return b, err
	}
	b := bytes.NewBuffer(make([]byte, 0, min(size, 1<<20))) // who claims a size has to send that much
	if n, err := io.CopyN(b, r, int64(size)); err != nil {
		if n > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// Package child is the process in which kubectl runs for a simulated machine. See package kubectl.
package child

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/xtaci/smux"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A process is one run of kubectl.
type process struct {
	ctx     context.Context
	job     kubectl.Job
	files   *vfs.FS
	mux     *smux.Session
	control *smux.Stream
	stdin   *os.File // the other end of os.Stdin, which kubectl reads
	source  string   // the file from which -f reads, if it is one

	reporting   sync.Mutex // a message takes several writes to control, which the goroutines of kubectl must not mix
	credentials credentials
}

// Main is the child's main function.
func Main(ctx context.Context, env childproc.Env) int {
	p, err := start(ctx, env)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p.end(p.kubectl())
	return 0
}

func start(ctx context.Context, env childproc.Env) (*process, error) {
	debug.SetMemoryLimit(kubectl.MaxMemory / 2)
	if err := childproc.LimitMemory(kubectl.MaxMemory); err != nil {
		return nil, fmt.Errorf("limiting memory: %w", err)
	}
	p := &process{ctx: ctx}
	if err := gob.NewDecoder(bytes.NewReader(env.Config)).Decode(&p.job); err != nil {
		return nil, err
	}
	p.files = vfs.New(p.job.Limits, nil)
	if err := p.files.Restore(p.job.Files); err != nil {
		return nil, err
	}
	p.files = p.files.As(p.job.UID, p.job.GID)
	var err error
	if os.Stdin, p.stdin, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.mux, err = smux.Client(&kubectl.Carrier{
		Message: env.Report, Next: func() ([]byte, error) { return env.Receive(ctx) }, End: func() {},
	}, kubectl.Streams()); err != nil {
		return nil, err
	}
	if p.control, err = p.mux.OpenStream(); err != nil {
		return nil, err
	}
	p.credentials.run = func(args, env []string) (kubectl.Reply, error) {
		return p.run(args, append(slices.Clip(p.job.Env), env...))
	}
	return p, closeHost()
}

// report sends a message on the control stream.
func (p *process) report(r kubectl.Request) error {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	return kubectl.Send(p.control, r)
}

// end reports how kubectl ended. It does not return: the parent ends this process.
func (p *process) end(status int) {
	_ = p.report(kubectl.Request{End: true, Status: status, Changes: vfs.Diff(p.job.Files, p.files.Image())}) // without a parent, this process ends
	<-p.ctx.Done()
	os.Exit(0)
}

// kubectl runs the command line and returns its exit status.
func (p *process) kubectl() int {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: output{p, false}, ErrOut: output{p, true}}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("INFO", streams.ErrOut) // gets the more severe entries, too
	cmdutil.BehaviorOnFatal(func(text string, code int) {
		if text != "" {
			_, _ = io.WriteString(streams.ErrOut, strings.TrimSuffix(p.named(text), "\n")+"\n") // the parent may be gone
		}
		p.end(code)
	})
	cmd := p.command(streams)
	cmd.SetArgs(p.job.Args)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	if err := cmd.ExecuteContext(p.ctx); err != nil {
		cmdutil.CheckErr(err)
	}
	return 0
}

// named replaces the standard input in an error message by the file whose contents it was.
func (p *process) named(text string) string {
	if p.source == "" {
		return text
	}
	return strings.NewReplacer(`"STDIN"`, strconv.Quote(p.source), "parsing STDIN:", "parsing "+p.source+":").Replace(text)
}

// feed lets kubectl read its standard input.
func (p *process) feed(data []byte) {
	go func() {
		_, _ = p.stdin.Write(data) // kubectl may not read all of it
		_ = p.stdin.Close()
	}()
}

// An output is kubectl's standard output or error.
type output struct {
	p   *process
	err bool
}

func (o output) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), 32<<10)
		if err := o.p.report(kubectl.Request{Output: rest[:n], Err: o.err}); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// A dialError is the reason why the machine's network did not connect.
type dialError struct {
	text    string
	timeout bool
}

func (e *dialError) Error() string   { return e.text }
func (e *dialError) Timeout() bool   { return e.timeout }
func (e *dialError) Temporary() bool { return false }

// dial connects by the machine's network.
func (p *process) dial(_ context.Context, _, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	stream, err := p.mux.OpenStream()
	if err != nil {
		return nil, err
	}
	var reply kubectl.Reply
	err = errors.Join(kubectl.Send(stream, kubectl.Request{Dial: true, Host: host, Port: port}), kubectl.Receive(stream, &reply))
	if err == nil && reply.Error != "" {
		err = &dialError{reply.Error, reply.Timeout}
	}
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return stream, nil
}

// run runs a program of the machine and returns what it printed. Its standard error becomes kubectl's.
func (p *process) run(args, env []string) (kubectl.Reply, error) {
	var reply kubectl.Reply
	stream, err := p.mux.OpenStream()
	if err != nil {
		return reply, err
	}
	defer stream.Close()
	_ = stream.SetDeadline(time.Now().Add(time.Minute))
	if err := errors.Join(kubectl.Send(stream, kubectl.Request{Run: args, Env: env}), kubectl.Receive(stream, &reply)); err != nil {
		return reply, err
	}
	_, err = output{p, true}.Write(reply.Stderr)
	return reply, err
}

func (p *process) getenv(name string) string {
	for _, e := range p.job.Env {
		if k, v, _ := strings.Cut(e, "="); k == name {
			return v
		}
	}
	return ""
}

package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/cloudinit"
)

// finished is written when user data has run to its end. A machine that loses its power before that runs it again.
const finished = "/var/lib/cloud/instances/boot-finished"

// cloudInit runs user data as cloud-init does. The connection's end kills its scripts.
func (b *box) cloudInit(c *net.UnixConn, r CloudInit) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
		cancel()
	}()
	_, err := os.Stat(finished)
	first := errors.Is(err, fs.ErrNotExist)
	res, err := cloudinit.Boot(ctx, cloudinit.Host{
		FS: bounded{}, InstanceID: b.cfg.ID, Version: r.Version, User: r.User, Keys: r.Keys,
		Run: runScript, Console: os.Stdout, Now: time.Now, Up: func() time.Duration { return time.Since(b.booted) },
	}, r.UserData, first)
	if err == nil && first {
		err = errors.Join(os.MkdirAll(path.Dir(finished), 0o755), os.WriteFile(finished, nil, 0o644), setHostname(b.cfg.Hostname))
	}
	out := Response{UserData: &res}
	if err != nil {
		out.fail(err)
	}
	_ = Send(c, &out) // the daemon may have gone
}

// runScript runs a script of user data.
func runScript(ctx context.Context, file string, env []string, out io.Writer) (status int, unknown []string, err error) {
	cmd, _, err := command(Command{Args: []string{file}, Env: env, Dir: "/"})
	if err != nil {
		return 0, nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		fmt.Fprintln(out, err) // such as: exec format error
		return 126, nil, nil
	}
	defer context.AfterFunc(ctx, func() { killSession(cmd.Process.Pid) })()
	missing := &notFound{}
	to := &redirected{to: io.MultiWriter(missing, out)}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(to, read)
		_ = read.Close()
	}()
	_ = cmd.Wait() // its state says more
	select {
	case <-copied:
	case <-time.After(100 * time.Millisecond): // what it has left behind still has its output
		to.redirect()
	}
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	if unknown = missing.commands(); cmd.ProcessState == nil { // reap was faster
		return 255, unknown, nil
	}
	status = cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = -int(ws.Signal()) // as Python says it
	}
	return status, unknown, nil
}

// notFound collects the names of commands that bash does not find.
type notFound struct {
	mu    sync.Mutex
	line  []byte
	names []string
}

// maxNames bounds the names of commands.
const maxNames = 20

// bashNotFound is what bash prints: FILE: line 3: NAME: command not found.
var bashNotFound = regexp.MustCompile(`: line \d+: ([^\s:/]{1,64}): command not found$`)

func (n *notFound) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range p {
		if b != '\n' {
			if len(n.line) < 4096 {
				n.line = append(n.line, b)
			}
			continue
		}
		if m := bashNotFound.FindSubmatch(n.line); m != nil && len(n.names) < maxNames && !slices.Contains(n.names, string(m[1])) {
			n.names = append(n.names, string(m[1]))
		}
		n.line = n.line[:0]
	}
	return len(p), nil
}

func (n *notFound) commands() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.names)
}

// A redirected writer writes to the log of user data, from redirect on without the help of who has opened it.
type redirected struct {
	mu sync.Mutex
	to io.Writer
}

func (r *redirected) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.to.Write(p) // a full disk does not end programs
	return len(p), nil
}

func (r *redirected) redirect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = os.Stdout
	if f, err := (bounded{}).Open(cloudinit.OutputLog, os.O_WRONLY|os.O_APPEND, 0); err == nil {
		r.to = io.MultiWriter(f, os.Stdout) // f is open until the machine is off
	}
}

// maxLog bounds each log of cloud-init. On AWS, only the size of the volume does.
const maxLog = 16 << 20

// A bounded disk has logs of bounded size.
type bounded struct{ disk }

func (bounded) Open(name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	f, err := openRegularFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &boundedLog{f, maxLog - st.Size()}, nil
}

type boundedLog struct {
	*os.File
	left int64
}

// Write writes what the log still has room for, and drops the rest.
func (l *boundedLog) Write(p []byte) (int, error) {
	n, err := l.File.Write(p[:max(0, min(int64(len(p)), l.left))])
	l.left -= int64(n)
	if err != nil {
		return n, err
	}
	return len(p), nil
}

// disk has the machine's files as the real system shows them. What root has put in their place may be anything.
type disk struct{}

var _ cloudinit.Files = disk{}

func (disk) ReadFile(name string) ([]byte, error) { return readRegular(name) }

func (disk) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := openRegularFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (disk) Open(name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	return openRegularFile(name, flag, perm)
}

func (disk) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (disk) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (disk) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (disk) Chmod(name string, perm fs.FileMode) error    { return os.Chmod(name, perm) }
func (disk) Chown(name string, uid, gid int) error        { return os.Chown(name, uid, gid) }

package inside

import (
	"context"
	"errors"
	"net"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// toolProgram is what the image's programs really are: a program that calls the daemon.
const toolProgram = Bin + "/guest"

// linkTools puts the image's programs into the machine's root. name=target links name to target unless the machine already has that
// program.
func linkTools(names []string) error {
	for _, name := range names {
		name, replaces := strings.CutPrefix(name, "!")
		name, program, linked := strings.Cut(name, "=")
		if !linked {
			program = toolProgram
		}
		if strings.HasPrefix(name, "/") {
			if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(toolProgram, name); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			continue
		}
		found := false
		for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
			_, err := os.Stat(path.Join(dir, name))
			found = found || err == nil
		}
		if found && !replaces {
			continue
		}
		if err := os.Symlink(program, path.Join(setuidBin, name)); err != nil {
			return err
		}
	}
	return nil
}

// serveTools accepts the calls of the image's programs.
func (b *box) serveTools() error {
	if err := os.MkdirAll(path.Dir(ToolsSocket), 0o755); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: ToolsSocket, Net: "unix"})
	if err != nil {
		return err
	}
	go serve(l, b.passOn)
	return os.Chmod(ToolsSocket, 0o666)
}

// offerTools makes a connection the one to which calls are passed on, until it is closed.
func (b *box) offerTools(c *net.UnixConn) {
	b.mu.Lock()
	b.tools = c
	b.mu.Unlock()
	answer(c, nil)
	_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tools == c {
		b.tools = nil
	}
}

// passOn passes a call of one of the image's programs on.
func (b *box) passOn(c *net.UnixConn) {
	var call ToolCall
	files, err := Receive(c, &call)
	defer func() { closeAll(files) }()
	if err != nil || len(files) != 3 || len(call.Args) == 0 {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return
	}
	call.UID = int(cred.Uid)
	own, err := c.File()
	if err != nil {
		return
	}
	files = append([]*os.File{own}, files...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tools == nil {
		answer(c, errors.New("the image's programs do not run yet"))
		return
	}
	if err := Send(b.tools, call, files...); err != nil {
		answer(c, err)
	}
}

// listen accepts TCP connections until the daemon closes the connection.
func listen(c *net.UnixConn, port uint16) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", (&net.TCPAddr{Port: int(port)}).String())
	answer(c, err)
	if err != nil {
		return
	}
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
		_ = l.Close()
	}()
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		f, err := in.(*net.TCPConn).File()
		if err == nil {
			err = Send(c, Connection{}, f)
			_ = f.Close()
		}
		_ = in.Close()
		if err != nil {
			_ = l.Close()
			return
		}
	}
}

// connect connects to a socket of the machine.
func connect(c *net.UnixConn, name string) {
	to, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		answer(c, err)
		return
	}
	defer to.Close()
	f, err := to.File()
	if err != nil {
		answer(c, err)
		return
	}
	defer f.Close()
	answer(c, nil, f)
}

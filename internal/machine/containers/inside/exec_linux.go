package inside

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// searchPath is where programs of the machine are looked for: first those of nodes, which are the image's own.
const searchPath = setuidBin + ":" + Bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is what programs of the machine see, besides the variables of their user.
var environment = []string{"PATH=" + searchPath, "LANG=C.UTF-8", "SSL_CERT_FILE=" + bundle}

// command returns a program of a user, ready to be started.
func command(r Command) (*exec.Cmd, accounts.User, error) {
	u, ok := accounts.FindUser(disk{}, cmp.Or(r.User, "root"))
	if !ok && cmp.Or(r.User, "root") == "root" { // whatever has become of /etc/passwd
		u, ok = accounts.User{Name: "root", Home: "/root"}, true
	}
	if !ok {
		return nil, u, fmt.Errorf("%w: %s", machine.ErrNoUser, r.User)
	}
	shell := cmp.Or(u.Shell, loginShell())
	args := r.Args
	if len(args) == 0 {
		args = []string{shell}
	}
	cmd := &exec.Cmd{Path: args[0], Args: slices.Clone(args), Dir: cmp.Or(r.Dir, u.Home)}
	if len(r.Args) == 0 {
		cmd.Args[0] = "-" + filepath.Base(shell) // a login shell
	}
	if !strings.Contains(args[0], "/") {
		cmd.Path, cmd.Err = lookPath(args[0])
	}
	if st, err := os.Stat(cmd.Dir); err != nil || !st.IsDir() {
		cmd.Dir = "/"
	}
	cmd.Env = append(slices.Clone(environment), "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name, "SHELL="+shell)
	cmd.Env = append(cmd.Env, r.Env...)
	cred := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, g := range accounts.Groups(disk{}) {
		if slices.Contains(g.Members, u.Name) {
			cred.Groups = append(cred.Groups, uint32(g.GID))
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: cred}
	return cmd, u, nil
}

// lookPath finds a program by the machine's own PATH, instead of this process's.
func lookPath(name string) (string, error) {
	for _, dir := range filepath.SplitList(searchPath) {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && unix.Access(p, unix.X_OK) == nil {
			return p, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// exec runs a command and reports its end. The connection's end kills everything in its session.
func (b *box) exec(c *net.UnixConn, r Command, files []*os.File) {
	if r.Terminal == nil && len(files) < 3 {
		answer(c, errors.New("a command without a terminal needs three files"))
		return
	}
	cmd, user, err := command(r)
	if err != nil {
		answer(c, err)
		return
	}
	var master *os.File
	if r.Terminal != nil {
		var slave *os.File
		if master, slave, err = openTerminal(user, *r.Terminal); err != nil {
			answer(c, err)
			return
		}
		defer master.Close()
		files = []*os.File{slave, slave, slave}
		defer slave.Close()
		cmd.SysProcAttr.Setctty = true
		cmd.Env = append([]string{"TERM=" + cmp.Or(r.Terminal.Type, "xterm-256color")}, cmd.Env...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	err = cmd.Start()
	status := 0
	if err != nil {
		status = 126
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			status = 127
			err = errors.New("command not found")
		}
		fmt.Fprintf(files[2], "bash: %s: %v\n", cmd.Args[0], err) // the reader may have gone
	}
	closeAll(files[:3])
	if master != nil {
		answer(c, nil, master)
	} else {
		answer(c, nil)
	}
	if err == nil {
		status = b.attend(c, cmd, master)
	}
	_ = Send(c, &Response{Ended: true, Status: status}) // the daemon may have gone
}

// attend waits for a program, to which it passes signals on, and returns its exit status.
func (b *box) attend(c *net.UnixConn, cmd *exec.Cmd, master *os.File) int {
	ended := make(chan struct{})
	go func() { // until the connection is closed, by exec's caller or by the daemon
		var sig Signal
		for {
			files, err := Receive(c, &sig)
			closeAll(files)
			select {
			case <-ended: // the process ID may belong to another program
				return
			default:
			}
			if err != nil {
				killSession(cmd.Process.Pid)
				return
			}
			deliver(cmd.Process.Pid, master, sig)
		}
	}()
	_ = cmd.Wait() // its state says more
	close(ended)
	status := 255
	if s := cmd.ProcessState; s != nil { // reap may have been faster
		status = s.ExitCode()
		if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			status = 128 + int(ws.Signal())
		}
	}
	return status
}

// deliver sends a signal to a program's process group and, if it has a terminal, to the group in the foreground there. It
// changes the size of the terminal instead, if the message has one.
func deliver(pid int, master *os.File, s Signal) {
	number := syscall.Signal(s.Number)
	group := 0 // in the foreground
	if master != nil {
		raw, err := master.SyscallConn() // Fd would make the daemon's reads block
		if err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) { // the program may have ended
			if s.Columns > 0 && s.Rows > 0 {
				_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(s.Columns), Row: uint16(s.Rows)})
				return
			}
			group, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
		})
	}
	if number == 0 {
		return
	}
	if group > 1 {
		_ = syscall.Kill(-group, number)
		if group == pid || number == syscall.SIGINT || number == syscall.SIGQUIT {
			return // as if it were typed
		}
	}
	_ = syscall.Kill(-pid, number)
}

// killSession ends all processes of a session.
func killSession(id int) {
	for range 10 { // until no process is left that could have started another one
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		found := false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			b, _ := os.ReadFile("/proc/" + e.Name() + "/stat") // it may have ended
			_, rest, _ := strings.Cut(string(b), ") ")
			if f := strings.Fields(rest); len(f) > 3 && f[0] != "Z" && f[3] == strconv.Itoa(id) {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
	}
}

// openTerminal opens a new terminal of a user. Slave is what the user's programs have.
func openTerminal(u accounts.User, t Terminal) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil && t.Columns > 0 && t.Rows > 0 {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(t.Columns), Row: uint16(t.Rows)})
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("opening a terminal", err)
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	const ttyGroup = 5
	if err = errors.Join(slave.Chown(u.UID, ttyGroup), slave.Chmod(0o620)); err != nil {
		return nil, nil, errors.Join(err, slave.Close())
	}
	return master, slave, nil
}

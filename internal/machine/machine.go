// Package machine is the seam between EC2 and whatever runs an instance as a computer: something that boots, has a
// console, is switched on and off, runs programs, holds files, accepts connections and has network interfaces. The
// kubelet that Kubernetes adds to such a computer belongs to package node.
//
// A [Runtime] runs machines: simulated ones (package simulated below) or containers. Not every machine can do
// everything: [Machine.Abilities] returns what it can do, and a method that it lacks returns an [*UnsupportedError].
// Callers must not look for more methods by type assertion. Code that needs a shell, a file or a port of an instance
// (Session Manager, Run Command, EC2 Instance Connect, ssh) uses this package and nothing behind it.
//
// Package machinetest tests any implementation. Any package may import this one; it does not depend on any service, a
// shell or Kubernetes.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"slices"
)

var (
	// ErrOff means that the machine is off, or was switched off during the call.
	ErrOff = errors.New("the machine is off")
	// ErrBooting means that the operating system is not up yet. See [Machine.Booted].
	ErrBooting = errors.New("the machine is still booting")
	// ErrShutdown means that the runtime has shut down.
	ErrShutdown = errors.New("the machine runtime has shut down")
	// ErrNoUser means that the machine has no such user.
	ErrNoUser = errors.New("no such user")
	// ErrKilled means that a program was ended because it took more time, memory or commands than the machine allows.
	ErrKilled = errors.New("the program was killed")
)

// Containers is the name of the runtime whose machines run containers.
const Containers = "containers"

// Runtime runs machines. All methods may be called concurrently.
type Runtime interface {
	// Name says which runtime this is: "simulated" or Containers.
	Name() string
	// Start switches a machine on and returns when it has started to boot. The machine stays on until it is stopped
	// or the runtime shuts down; ctx bounds the call only. Starting a machine that is on does nothing. After a
	// restart of the daemon every running instance is started again with the same BootID, and continues as if it had
	// never stopped.
	Start(ctx context.Context, in Instance) error
	// Machine returns a machine that is on, or false if it is not.
	Machine(id string) (Machine, bool)
	// Shutdown ends all machines because the daemon ends. They will be started again with the same BootID.
	Shutdown(ctx context.Context) error
}

// Machine is a computer that is on. It stands for one boot: after Stop or Reboot its methods return ErrOff, and
// Runtime.Machine returns the next one.
type Machine interface {
	// Instance describes the machine as it was started.
	Instance() Instance
	// Abilities returns what the machine can do besides being switched on and off. It does not change while the
	// machine is on.
	Abilities() Abilities
	// Booted returns a channel that is closed when the operating system is up. Cloud-init may still be running.
	Booted() <-chan struct{}
	// Console returns the end of the machine's console output, at most 64 KiB. It is kept across boots.
	Console() []byte

	// Stop switches the machine off and returns when nothing on it runs any more. force cuts the power: programs are
	// not asked to end. Stopping a machine that is off does nothing.
	Stop(ctx context.Context, force bool) error
	// Reboot stops the machine and boots it again.
	Reboot(ctx context.Context) error

	// Exec starts a program. It requires Exec, and Terminal if the command needs one. When ctx ends, so does the
	// program.
	Exec(ctx context.Context, c Command) (Process, error)
	// Files returns the machine's file system, as root sees it. Requires Files.
	Files() (Files, error)
	// Dial connects to a TCP port like a program on the machine: to the machine itself by localhost or one of its
	// addresses, and to other hosts as far as its network allows. Requires Dial.
	Dial(ctx context.Context, host string, port int) (net.Conn, error)
	// SetInterfaces attaches, changes and detaches network interfaces of the machine, which may still be booting,
	// until it has exactly these. Requires Interfaces.
	SetInterfaces(ctx context.Context, all []Interface) error
	// SetVolumes attaches, enlarges and detaches volumes of the machine, which may still be booting, until it has exactly
	// these besides those of its operating system. Requires Volumes.
	SetVolumes(ctx context.Context, all []Volume) error
}

// Ability is something that some machines can do.
type Ability string

// The abilities.
const (
	Exec       Ability = "run programs"
	Terminal   Ability = "run programs with a terminal"
	FileAccess Ability = "give access to its files"
	Dial       Ability = "accept connections"
	Interfaces Ability = "change its network interfaces"
	Volumes    Ability = "change its volumes"
)

// Abilities is a set of abilities.
type Abilities []Ability

// Has reports whether a is in the set.
func (s Abilities) Has(a Ability) bool { return slices.Contains(s, a) }

// UnsupportedError is returned by a method whose ability the machine does not have.
type UnsupportedError struct {
	ID      string // of the instance
	Ability Ability
	Reason  string // why the machine lacks it; may be empty
}

func (e *UnsupportedError) Error() string {
	text := fmt.Sprintf("instance %s cannot %s", e.ID, e.Ability)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Command describes a program to run.
type Command struct {
	// Args are the program and its arguments. There is no shell in between. If Args is empty, the user's login shell
	// runs and reads commands from Stdin.
	Args []string
	// User is a name in the machine's user list; empty means root.
	User string
	// Env, as KEY=value, is added to the user's HOME, USER, LOGNAME, SHELL and PATH.
	Env []string
	Dir string // empty means the user's home

	Stdin          io.Reader // nil means empty
	Stdout, Stderr io.Writer // nil means discard
	// Terminal is the terminal that the program has as standard input, output and error. Stdin is then what is typed,
	// Stdout what is shown, and Stderr is not used. Nil means no terminal.
	Terminal *TerminalSpec
	// Streamed means that a program without a terminal reads Stdin while it runs, and only as much as it needs. Otherwise
	// Stdin is read to its end before the program starts.
	Streamed bool
}

// TerminalSpec describes a terminal when a program starts on it.
type TerminalSpec struct {
	Type string // TERM: xterm-256color
	Size Size
}

// Size is a terminal's size in characters.
type Size struct{ Columns, Rows int }

// Signal is the name of a POSIX signal.
type Signal string

// The signals that clients of sessions send.
const (
	SIGHUP  Signal = "HUP"
	SIGINT  Signal = "INT"
	SIGQUIT Signal = "QUIT"
	SIGTERM Signal = "TERM"
	SIGKILL Signal = "KILL"
)

// Process is a program that was started.
type Process interface {
	// Wait returns the exit status when the program has ended and all its output has been written. If a signal ended
	// it, the status is 128 plus the signal's number. The error, if any, says why the program did not finish: ErrOff,
	// ErrKilled or ctx's error.
	Wait() (status int, err error)
	// Signal sends a signal. Sending one to a program that has ended does nothing.
	Signal(s Signal) error
	// Resize changes the size of the program's terminal, if it has one.
	Resize(s Size) error
}

type sourceKey struct{}

// WithSource returns a context with which Machine.Dial connects to the machine itself as if from the given address. Connections out
// of a machine have the port, too, unless it is 0.
func WithSource(ctx context.Context, source netip.AddrPort) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// SourceFrom returns what WithSource has set, or the zero AddrPort.
func SourceFrom(ctx context.Context) netip.AddrPort {
	source, _ := ctx.Value(sourceKey{}).(netip.AddrPort)
	return source
}

// Run runs a program and waits for its end.
func Run(ctx context.Context, m Machine, c Command) (status int, err error) {
	p, err := m.Exec(ctx, c)
	if err != nil {
		return 0, err
	}
	return p.Wait()
}

// Files is a machine's file system. Names are absolute. Errors are those of package fs: fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission. When a method returns, the data is on the machine's disk and survives a stop.
type Files interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// WriteFile replaces a file's content. perm is used if the file is new.
	WriteFile(name string, data []byte, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Chown(name string, uid, gid int) error
	Chmod(name string, perm fs.FileMode) error
	Rename(from, to string) error
	RemoveAll(name string) error
}

// Unsupported implements every method that requires an ability by returning an UnsupportedError. Implementations
// embed it and override the methods whose abilities they have.
type Unsupported struct {
	ID     string // of the instance
	Reason string
}

func (u Unsupported) lacks(a Ability) error { return &UnsupportedError{u.ID, a, u.Reason} }

// Abilities returns none.
func (u Unsupported) Abilities() Abilities { return nil }

// Exec returns an UnsupportedError, as do the methods below.
func (u Unsupported) Exec(context.Context, Command) (Process, error) { return nil, u.lacks(Exec) }
func (u Unsupported) Files() (Files, error)                          { return nil, u.lacks(FileAccess) }
func (u Unsupported) Dial(context.Context, string, int) (net.Conn, error) {
	return nil, u.lacks(Dial)
}
func (u Unsupported) SetInterfaces(context.Context, []Interface) error { return u.lacks(Interfaces) }
func (u Unsupported) SetVolumes(context.Context, []Volume) error       { return u.lacks(Volumes) }

// Stop switches a machine off if it is on.
func Stop(ctx context.Context, r Runtime, id string, force bool) error {
	m, ok := r.Machine(id)
	if !ok {
		return nil
	}
	return m.Stop(ctx, force)
}

// Package machine is the seam between EC2 and whatever runs an instance as a computer: it
// boots, has a console, is switched on and off, runs programs, holds files, accepts
// connections and has network interfaces. The kubelet that Kubernetes adds to such a
// computer belongs to package node.
//
// A [Runtime] runs machines: simulated ones (package simulated below) or containers. Not
// every machine can do everything: [Machine.Abilities] says what it can, and a method it
// lacks returns an [*UnsupportedError]. Callers must not look for more methods by type
// assertion. Whoever needs a shell, a file or a port of an instance (Session Manager, Run
// Command, EC2 Instance Connect, ssh) uses this package and nothing behind it.
//
// Package machinetest tests any implementation. Any package may import this one;  it does
// not know any service, no shell and no Kubernetes.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
)

var (
	// ErrOff means that the machine is not on, or was switched off during the call.
	ErrOff = errors.New("the machine is off")
	// ErrBooting means that the operating system is not up yet. See [Machine.Booted].
	ErrBooting = errors.New("the machine is still booting")
	// ErrShutdown means that the runtime has shut down.
	ErrShutdown = errors.New("the machine runtime has shut down")
	// ErrNoUser means that the machine has no such user.
	ErrNoUser = errors.New("no such user")
	// ErrKilled means that a program did not end by itself: it took more time, memory or
	// commands than the machine allows.
	ErrKilled = errors.New("the program was killed")
)

// Runtime runs machines. All methods may be called concurrently.
type Runtime interface {
	// Name says which runtime this is: "simulated" or "containers".
	Name() string
	// Start switches a machine on and returns when its boot has begun. The machine stays on
	// until it is stopped or the runtime shuts down; ctx bounds the call only. Starting a
	// machine that is on does nothing. After a restart of the daemon every running instance
	// is started again with the BootID it had, and goes on as if it had never stopped.
	Start(ctx context.Context, in Instance) error
	// Machine returns a machine that is on; false if it is not.
	Machine(id string) (Machine, bool)
	// Shutdown ends all machines because the daemon ends: they will be started again with
	// the same BootID.
	Shutdown(ctx context.Context) error
}

// Machine is a computer that is on. It stands for one boot: after Stop or Reboot its methods
// return ErrOff, and Runtime.Machine returns the next one.
type Machine interface {
	// Instance describes the machine as it was started.
	Instance() Instance
	// Abilities returns what the machine can do beyond being switched on and off. It does
	// not change while the machine is on.
	Abilities() Abilities
	// Booted is closed when the operating system is up. Cloud-init may still be at work.
	Booted() <-chan struct{}
	// Console returns the last of what the machine has printed to its console, 64 KiB at
	// most. It is kept from one boot to the next.
	Console() []byte

	// Stop switches the machine off and returns when nothing on it runs any more. With
	// force it is the power that is cut: programs are not asked to end. Stopping a machine
	// that is off does nothing.
	Stop(ctx context.Context, force bool) error
	// Reboot stops the machine and boots it again.
	Reboot(ctx context.Context) error

	// Exec starts a program. Requires Exec, and Terminal if the command wants one. ctx ends
	// the program, not only the call.
	Exec(ctx context.Context, c Command) (Process, error)
	// Files is the machine's file system, seen as root. Requires Files.
	Files() (Files, error)
	// Dial connects to a TCP port as a program on the machine would: to the machine itself
	// by localhost or one of its addresses, and to other hosts as far as its network
	// allows. Requires Dial.
	Dial(ctx context.Context, host string, port int) (net.Conn, error)
	// SetInterfaces attaches, changes and detaches network interfaces of the running
	// machine, or of one that still boots, until it has these. Requires Interfaces.
	SetInterfaces(ctx context.Context, all []Interface) error
}

// Ability is something that not every machine can do.
type Ability string

// The abilities.
const (
	Exec       Ability = "run programs"
	Terminal   Ability = "run programs with a terminal"
	FileAccess Ability = "give access to its files"
	Dial       Ability = "accept connections"
	Interfaces Ability = "change its network interfaces"
)

// Abilities is a set of abilities.
type Abilities []Ability

// Has reports whether a is in the set.
func (s Abilities) Has(a Ability) bool { return slices.Contains(s, a) }

// UnsupportedError is the error of a method whose ability the machine has not declared.
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

// Command says what to run.
type Command struct {
	// Args are the program and its arguments. No shell comes in between; if there are no
	// Args, it is the user's login shell that runs and reads commands from Stdin.
	Args []string
	// User is a name from the machine's user list; empty means root.
	User string
	// Env, as KEY=value, comes after HOME, USER, LOGNAME, SHELL and PATH, which are the
	// user's.
	Env []string
	Dir string // empty means the user's home

	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer // nil: discarded
	// Terminal is the terminal that the program has as standard input, output and error:
	// Stdin is then what is typed, Stdout what is shown, and Stderr is not used. nil: none.
	Terminal *TerminalSpec
}

// TerminalSpec describes a terminal when a program starts on it.
type TerminalSpec struct {
	Type string // TERM: xterm-256color
	Size Size
}

// Size is a terminal's, in characters.
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
	// Wait returns the exit status when the program has ended and everything it wrote is
	// written. A program that a signal ended has 128 plus its number. The error, if any,
	// says why the program did not come to an end: ErrOff, ErrKilled or that of ctx.
	Wait() (status int, err error)
	// Signal sends a signal. Sending one to a program that has ended does nothing.
	Signal(s Signal) error
	// Resize changes the size of the program's terminal, if it has one.
	Resize(s Size) error
}

// Run runs a program to its end.
func Run(ctx context.Context, m Machine, c Command) (status int, err error) {
	p, err := m.Exec(ctx, c)
	if err != nil {
		return 0, err
	}
	return p.Wait()
}

// Files is a machine's file system. Names are absolute. Errors are those of package fs:
// fs.ErrNotExist, fs.ErrExist, fs.ErrPermission. When the method returns, the data is on
// the machine's disk and survives a stop.
type Files interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// WriteFile replaces a file's content. perm counts if the file is new.
	WriteFile(name string, data []byte, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Chown(name string, uid, gid int) error
	Chmod(name string, perm fs.FileMode) error
	Rename(from, to string) error
	RemoveAll(name string) error
}

// Unsupported has every method that requires an ability, and returns an UnsupportedError
// from each. Implementations embed it and override the methods whose abilities they
// declare.
type Unsupported struct {
	ID     string // of the instance
	Reason string
}

func (u Unsupported) lacks(a Ability) error { return &UnsupportedError{u.ID, a, u.Reason} }

// Abilities returns none.
func (u Unsupported) Abilities() Abilities { return nil }

// Exec returns an UnsupportedError, as do the others.
func (u Unsupported) Exec(context.Context, Command) (Process, error) { return nil, u.lacks(Exec) }
func (u Unsupported) Files() (Files, error)                          { return nil, u.lacks(FileAccess) }
func (u Unsupported) Dial(context.Context, string, int) (net.Conn, error) {
	return nil, u.lacks(Dial)
}
func (u Unsupported) SetInterfaces(context.Context, []Interface) error { return u.lacks(Interfaces) }

// Stop switches a machine off if it is on.
func Stop(ctx context.Context, r Runtime, id string, force bool) error {
	m, ok := r.Machine(id)
	if !ok {
		return nil
	}
	return m.Stop(ctx, force)
}

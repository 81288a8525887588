// Package inside has the processes inside the namespaces of machines that run containers: the child modes Host and
// Machine, and the protocol that the daemon speaks with them.
//
// The host is one child of the daemon, in user, mount, network, process, IPC and host name namespaces of its own. It has
// the network of all machines (package fabric) and starts the machines; when it dies, the kernel ends everything below it.
// A machine is a child of the host: the first process in further namespaces, with a root file system of its own. It starts
// the machine's programs. There are many machines, so this process is a small program (tools/nodebin/machine).
//
// Both serve a unix socket. A connection carries one request and one response, each as a JSON frame, with open files passed
// alongside.
//
// Files named host… are the host's: its root file system, the machines that it starts, their network, and the layers of images.
// Files named machine…, and those about what runs there, are the machine's.
//
// Used by package machine/containers, cmd/drydock and tools/nodebin/machine. It does not know EC2, Kubernetes or the network's rules.
package inside

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/cloudinit"
)

// The child modes.
const (
	HostMode    = "machines"
	MachineMode = "machine"
)

// Bin is where a machine has the programs of nodes, besides its userland.
const Bin = "/opt/drydock/bin"

// HostConfig configures the host. Its files are the folder of disks, the listener for requests and the programs of nodes, the
// folders as detached mounts. No user in the host's user namespace owns the last one. Its working folder is that of the images, a
// mount that is read-only for good.
type HostConfig struct {
	// NoLimits says that there are no cgroup controllers.
	NoLimits bool
	// PIDs bounds the processes and threads of all machines together, if the kernel can do that (Linux 6.14). Zero means no bound.
	PIDs int
}

// A HostRequest asks the host for one thing.
type HostRequest struct {
	// Start starts a machine. The response comes when its network is ready. A file beside the request is its disk, as a
	// detached mount; otherwise the disk is a folder.
	Start *MachineConfig `json:",omitempty"`
	// Stop ends the machine with this ID.
	Stop string `json:",omitempty"`
	// Wait waits until the machine with this ID is off, for whatever reason.
	Wait string `json:",omitempty"`
	// Open connects to the socket of the machine with this ID. The response carries the connection.
	Open string `json:",omitempty"`
	// Apply makes the network of all machines like a fabric.State, which is read from the file beside the request, as JSON.
	Apply bool `json:",omitempty"`
	// Attach connects another network interface to a machine that is on.
	Attach *Attachment `json:",omitempty"`
	// Dial connects to a TCP address. The response carries the socket.
	Dial *Socket `json:",omitempty"`
	// Serve answers in the network, for all machines, until the connection is closed. After the response come messages:
	// a Connection with its socket for each that was accepted, or a Datagram, which may be sent back as its answer.
	Serve *Service `json:",omitempty"`
	// Outside asks for the network namespace of the internet: see fabric.Leave. The response carries it.
	Outside bool `json:",omitempty"`
	// Unpack unpacks an archive of images, with the files of layers.Mode.
	Unpack bool `json:",omitempty"`
}

// An Attachment says which device of a machine a network interface is. Attaching it again changes nothing.
type Attachment struct{ Machine, Interface, Device string }

// A Socket is a connection from a machine, in its own network, or from a network interface that AWS manages.
type Socket struct {
	Network   string // udp, from an interface, or empty for tcp
	Machine   string
	Interface string
	Address   netip.AddrPort
	// Client is the address that a connection from an interface has, if it is not the interface's, and its port if that is free.
	Client netip.AddrPort
}

// A Service is a port at which the fabric answers.
type Service struct {
	Network string // tcp or udp
	Port    uint16
}

// A Connection comes from a network interface.
type Connection struct{ Interface string }

// A Datagram comes from a network interface, or is the answer to it.
type Datagram struct {
	Interface       string
	Remote, Service netip.AddrPort
	Data            []byte
}

// MachineConfig describes a machine.
type MachineConfig struct {
	ID       string
	Hostname string
	// Interface is the machine's network interface, which the fabric has, and Address its primary address.
	Interface string
	Address   netip.Addr
	// Resolver is the address of the DNS server, and Search the domain of short names.
	Resolver netip.Addr
	Search   string
	// CA is added to the authorities that the machine's programs trust, as PEM.
	CA []byte
	// CPUs and MemoryBytes bound the machine if there are cgroup controllers. Its /proc has them in any case.
	CPUs        int
	MemoryBytes int64
	NoLimits    bool
	// Disk says that the machine has a disk, as a file. The host sets it.
	Disk bool
	// PIDs bounds processes and threads, by a cgroup or as HostConfig.PIDs.
	PIDs int
	// Userland has the chain IDs of an image's layers, the lowest first, if the machine has the programs of that image instead of the
	// real machine's.
	Userland []string
	// Tools are programs of the image that the daemon runs. They take the place of the host's if their name begins with an
	// exclamation mark. Programs outside of the usual folders have full paths.
	Tools []string
}

// A MachineRequest asks a machine for one thing.
type MachineRequest struct {
	Write *File    `json:",omitempty"`
	Start *Program `json:",omitempty"`
	// End ends a program that was started.
	End  string   `json:",omitempty"`
	Exec *Command `json:",omitempty"`
	// File does something with a file. See FileRequest.
	File *FileRequest `json:",omitempty"`
	// CloudInit runs user data. The response has its result.
	CloudInit *CloudInit `json:",omitempty"`
	// Listen accepts connections at a TCP port until the connection is closed. After the response come messages: a
	// Connection with its socket for each.
	Listen uint16 `json:",omitempty"`
	// Tools passes calls of the image's programs on until the connection is closed. After the response come messages: a
	// ToolCall with four files for each.
	Tools bool `json:",omitempty"`
	// Print writes to the console.
	Print string `json:",omitempty"`
	// Unix connects to a socket of the machine. The response carries the connection.
	Unix string `json:",omitempty"`
	// Mount shows the mount that the request carries at a folder, which is made. Unmount takes it away.
	Mount   string `json:",omitempty"`
	Unmount string `json:",omitempty"`
}

// A CloudInit is what cloud-init needs.
type CloudInit struct {
	UserData      []byte
	Version, User string
	Keys          []string // of the key pair
}

// ToolsSocket is where the machine's programs call those of the image, which the daemon runs. A call is a ToolCall with
// three pipes, standard input, output and error. Its response is the second one of a Command.
const ToolsSocket = "/run/drydock/tools.sock"

// A ToolCall is a call of one of the image's programs. To the daemon, its files are the connection of the caller, on which
// the response is sent, and the three pipes.
type ToolCall struct {
	Args []string
	Env  []string
	Dir  string
	// UID is the caller's, as the kernel says.
	UID int
}

// A File is one to be written. Its folder is created.
type File struct {
	Name string
	Data []byte
	Mode os.FileMode
}

// A Program is a child mode that runs until it is ended, and is restarted if it fails. Its output is in
// /var/log/MODE.log.
type Program struct {
	Mode   string
	Config []byte
}

// A Command is a program to run once. Without a terminal, the request carries its standard input, output and error. A second
// response comes when it has ended.
type Command struct {
	// Args are the program and its arguments. Without any, the user's login shell runs.
	Args []string
	User string // empty means root
	Env  []string
	Dir  string // empty means the user's home
	// Terminal makes the machine open a terminal for the command. The response carries the terminal's other end.
	Terminal *Terminal `json:",omitempty"`
}

// A Terminal is what a terminal is like when a command starts on it.
type Terminal struct {
	Type          string
	Columns, Rows int
}

// A Signal is sent to a running command, after its request: the signal's number, or a new size of the command's terminal.
type Signal struct {
	Number        int `json:",omitempty"`
	Columns, Rows int `json:",omitempty"`
}

// The operations of a FileRequest.
const (
	ReadFile  = "read"  // to the file that the request carries; a second response comes at the end
	WriteFile = "write" // from the file that the request carries
	Stat      = "stat"
	ReadDir   = "readdir"
	MkdirAll  = "mkdir"
	Chown     = "chown"
	Chmod     = "chmod"
	Rename    = "rename"
	RemoveAll = "remove"
	Symlink   = "symlink" // named Name, to To
)

// A FileRequest does something with the file of a name, as root.
type FileRequest struct {
	Op       string
	Name, To string
	Mode     fs.FileMode
	UID, GID int
	// Offset is where ReadFile begins, and Limit how many bytes it reads at most, or 0.
	Offset, Limit int64
}

// A FileInfo describes a file.
type FileInfo struct {
	Name     string
	Size     int64
	Mode     fs.FileMode
	ModTime  time.Time
	UID, GID int
	Inode    uint64
}

// A Response answers a request.
type Response struct {
	Error string `json:",omitempty"`
	// Errno is the system's number of the error, or 0. NoUser means that there is no such user, and Timeout that something
	// gave no answer.
	Errno   syscall.Errno `json:",omitempty"`
	NoUser  bool          `json:",omitempty"`
	Timeout bool          `json:",omitempty"`
	// Ended is set in a command's second response, with its exit status.
	Ended  bool `json:",omitempty"`
	Status int  `json:",omitempty"`
	// Files answers Stat and ReadDir.
	Files []FileInfo `json:",omitempty"`
	// UserData answers CloudInit.
	UserData *cloudinit.Result `json:",omitempty"`
}

const maxFrame = 1 << 20

// maxFiles bounds the files of one message.
const maxFiles = 8

// Send sends a message with files, which the caller closes.
func Send(c *net.UnixConn, msg any, files ...*os.File) error {
	b, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("message of %d bytes is too long", len(b))
	}
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = syscall.UnixRights(fds...)
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	n, _, err := c.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = c.Write(frame[n:])
	}
	return err
}

// Receive receives a message and its files, which the caller closes.
func Receive(c *net.UnixConn, msg any) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	head := make([]byte, 4)
	oob := make([]byte, syscall.CmsgSpace(4*maxFiles))
	for got := 0; got < len(head); {
		n, o, _, _, err := c.ReadMsgUnix(head[got:], oob)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if o > 0 {
			more, perr := parseRights(oob[:o])
			files = append(files, more...)
			err = errors.Join(err, perr)
		}
		if err != nil {
			return files, err
		}
		got += n
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxFrame {
		return files, fmt.Errorf("message of %d bytes is too long", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c, b); err != nil {
		return files, err
	}
	return files, json.Unmarshal(b, msg)
}

func parseRights(oob []byte) ([]*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []*os.File
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return out, err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			out = append(out, os.NewFile(uintptr(fd), "received"))
		}
	}
	return out, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// An Error is what a host or a machine answers. It unwraps to the system's error, if it has one.
type Error struct {
	text string
	err  error
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// Err returns the error of a response.
func (r *Response) Err() error {
	e := &Error{text: r.Error}
	switch {
	case r.Error == "":
		return nil
	case r.NoUser:
		e.err = machine.ErrNoUser
	case r.Timeout:
		e.err = os.ErrDeadlineExceeded
	case r.Errno != 0:
		e.err = r.Errno
	}
	return e
}

// answer sends the result of a request.
func answer(c *net.UnixConn, err error, files ...*os.File) {
	r := Response{}
	if err != nil {
		r.fail(err)
	}
	_ = Send(c, &r, files...) // the daemon may have gone
}

func (r *Response) fail(err error) {
	r.Error, r.NoUser = err.Error(), errors.Is(err, machine.ErrNoUser)
	r.Errno, _ = errors.AsType[syscall.Errno](err)
	ne, ok := errors.AsType[net.Error](err)
	r.Timeout = ok && ne.Timeout()
}

// serve accepts connections until the listener is closed.
func serve(l *net.UnixListener, handle func(*net.UnixConn)) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			handle(c)
		}()
	}
}

package kubectl

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/xtaci/smux"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Mode is the name of the child's mode.
const Mode = "kubectl"

// A Job is the child's configuration: one run of kubectl.
type Job struct {
	Args   []string // without the program's name
	Env    []string
	Dir    string
	Stdin  []byte
	Files  []vfs.Record
	Limits vfs.Limits
	// UID and GID are those of the user who runs kubectl.
	UID, GID int
}

// A Request is what the child wants. On its first stream it sends what kubectl prints, and last how kubectl has ended. For
// everything else it opens a stream for each request.
type Request struct {
	Output []byte `json:",omitempty"` // print this, on standard error if Err is set
	Err    bool   `json:",omitempty"`
	// End means that kubectl has ended with Status. Changes are its changes to the machine's files.
	End     bool         `json:",omitempty"`
	Status  int          `json:",omitempty"`
	Changes []vfs.Change `json:",omitempty"`

	// Dial connects to Host and Port. If the Reply has no error, the rest of the stream is the connection.
	Dial bool   `json:",omitempty"`
	Host string `json:",omitempty"`
	Port int    `json:",omitempty"`
	// Run runs a program of the machine and returns its output.
	Run []string `json:",omitempty"`
	Env []string `json:",omitempty"`
}

// NotFound is the error of a Reply to Run if the machine does not have the program.
const NotFound = "not found"

// A Reply answers Dial and Run.
type Reply struct {
	Error          string `json:",omitempty"`
	Timeout        bool   `json:",omitempty"` // Error is a timeout
	Status         int    `json:",omitempty"`
	Stdout, Stderr []byte `json:",omitempty"`
}

// maxMessage bounds a request and a reply, which contain files and output in base64.
const maxMessage = 12 << 20

// Send sends a request or a reply.
func Send(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// Receive receives a request or a reply.
func Receive(r io.Reader, v any) error {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > maxMessage {
		return fmt.Errorf("message of %d bytes is too long", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// A Carrier carries the streams between parent and child in messages.
type Carrier struct {
	Message func([]byte) error
	Next    func() ([]byte, error)
	End     func()

	rest []byte
}

// Read implements io.Reader.
func (c *Carrier) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		var err error
		if c.rest, err = c.Next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements io.Writer.
func (c *Carrier) Write(p []byte) (int, error) { return len(p), c.Message(p) }

// Close implements io.Closer.
func (c *Carrier) Close() error {
	c.End()
	return nil
}

// Streams is the configuration of both ends of the streams.
func Streams() *smux.Config {
	config := smux.DefaultConfig()
	config.Version = 2 // a stream that is not read does not hold up the others
	config.KeepAliveDisabled = true
	return config
}

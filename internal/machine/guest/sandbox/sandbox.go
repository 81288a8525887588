// Package sandbox runs the scripts of package shell in separate processes: what a
// script does to the interpreter's memory or stack (a string doubled forever, a
// function that calls itself) ends that process, and the daemon goes on.
//
// Parent and child talk by messages of gob. The child holds a copy of the guest's
// files while it runs; programs beyond the shell's own run in the parent, over a
// copy of the files as they are then. Only differences travel back, so that both
// sides may write at once. May be imported by packages under internal/node and by
// internal/compute; cmd/drydock names the child's main function.
package sandbox

import (
	"bytes"
	"encoding/gob"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Mode is the name of the child's mode.
const Mode = "guest"

// A message is what one side tells the other about one job. One of its pointers is
// set. Messages left over from another job are ignored.
type message struct {
	ID     int64          // of the job
	Cancel bool           // down: end the script now, and tell what it changed
	Job    *jobMessage    // down: run this
	Answer *answerMessage // down: what a program outside did
	Output *outputMessage // up
	Call   *callMessage   // up: run this program outside
	End    *endMessage    // up: the script has ended
}

type jobMessage struct {
	Files       []vfs.Record
	Limits      vfs.Limits
	Script      []byte
	Name        string
	Args, Env   []string
	Dir, User   string
	Host        string
	Stdin       []byte
	MaxCommands int64
	Patience    int
	Programs    []string
}

type outputMessage struct {
	Text []byte
	Err  bool // standard error
}

type callMessage struct {
	ID        int64
	Args, Env []string
	Dir, User string
	Stdin     []byte
	Files     []vfs.Record
}

type answerMessage struct {
	ID             int64
	Status         int
	Found          bool
	Stdout, Stderr []byte
	Changes        []vfs.Change
}

type endMessage struct {
	Status  int
	Unknown []string
	Killed  bool // it ran too many commands
	Busy    bool // something of it still runs: the process is of no more use
	Changes []vfs.Change
}

// maxStdin bounds what is piped into a program outside.
const maxStdin = 1 << 20

func encode(m message) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(m)
	return b.Bytes(), err
}

func decode(b []byte) (message, error) {
	var m message
	err := gob.NewDecoder(bytes.NewReader(b)).Decode(&m)
	return m, err
}

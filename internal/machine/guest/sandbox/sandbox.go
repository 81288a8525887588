// Package sandbox runs the scripts of package shell in separate processes. Whatever a script does to the
// interpreter's memory or stack (a string doubled forever, a function that calls itself) ends only that process, and
// the daemon continues.
//
// Parent and child exchange gob messages. While it runs, the child has a copy of the guest's files, and the parent keeps a
// copy as of the child's last call. Programs other than the shell's own run in the parent, on a further copy. Only
// differences are sent, so both sides may write at the same time, and a script may call many programs. May be imported by
// packages under internal/node and by internal/compute; cmd/drydock names the child's main function.
package sandbox

import (
	"bytes"
	"encoding/gob"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Mode is the name of the child's mode.
const Mode = "guest"

// A message is sent by either side about one job. One of its pointers is set. Messages left over from another job are
// ignored.
type message struct {
	ID     int64          // of the job
	Cancel bool           // down: end the script now, and report its changes
	Job    *jobMessage    // down: run this
	Answer *answerMessage // down: the result of a program that the parent ran
	Output *outputMessage // up
	Call   *callMessage   // up: the parent should run this program
	Drop   int64          // up: the output of the program with this ID is no longer read
	Want   bool           // up: a program is reading the terminal
	Input  *inputMessage  // down: what was typed
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
	Terminal    bool
	State       *shell.State
}

type inputMessage struct {
	Text []byte
	EOF  bool
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
	Long      bool         // the standard input continues beyond Stdin
	Terminal  bool         // the standard input is the terminal
	Changes   []vfs.Change // of the job's files since the last call
	All       bool         // Changes are those of an empty file system instead
}

type answerMessage struct {
	ID             int64
	More           bool // the program still runs, and Stdout is what it has printed since the last message
	Status         int
	Found          bool
	Stdout, Stderr []byte
	Changes        []vfs.Change
	Lost           bool // the parent has no memory for the job's files: the next call has to send all of them
}

type endMessage struct {
	Status  int
	Unknown []string
	Killed  bool // it ran too many commands
	Busy    bool // part of it still runs: the process cannot be reused
	Changes []vfs.Change
	State   *shell.State
	Exited  bool
	Login   *shell.Login
}

// maxStdin bounds the standard input of a program that the parent runs.
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

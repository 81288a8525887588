package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// Files implements machine.Machine.
func (m *Machine) Files() (machine.Files, error) {
	if !m.Abilities().Has(machine.FileAccess) {
		return m.Unsupported.Files()
	}
	return files{m}, nil
}

// ReadDir returns the entries of a folder for the daemon itself. It works even on machines whose image has no shell.
func (m *Machine) ReadDir(name string) ([]fs.DirEntry, error) { return files{m}.ReadDir(name) }

// Stat describes a file for the daemon itself.
func (m *Machine) Stat(name string) (fs.FileInfo, error) { return files{m}.Stat(name) }

// RemoveAll removes a file or folder, if it exists, for the daemon itself.
func (m *Machine) RemoveAll(name string) error { return files{m}.RemoveAll(name) }

// ReadAt returns at most limit bytes of a file from an offset, for the daemon itself. At the end of the file, it returns none.
func (m *Machine) ReadAt(name string, offset, limit int64) ([]byte, error) {
	b, _, err := files{m}.ask(inside.ReadFile, inside.FileRequest{Name: name, Offset: offset, Limit: limit}, nil)
	return b, err
}

// files are those of a machine. Its first process opens them, so that links lead nowhere else.
type files struct{ m *Machine }

var _ machine.Files = files{}

// Bounds of an operation on files.
const (
	maxFile      = 64 << 20
	filePatience = 30 * time.Second
)

// ask does something with a file.
func (f files) ask(op string, r inside.FileRequest, data io.Reader) (content []byte, info []inside.FileInfo, err error) {
	if err := f.m.running(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(f.m.ctx, filePatience)
	defer cancel()
	defer func() {
		switch {
		case err != nil && f.m.ctx.Err() != nil:
			err = machine.ErrOff
		case err != nil:
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				err = &fs.PathError{Op: op, Path: r.Name, Err: errno}
			}
		}
	}()
	conn, err := f.m.rt.open(ctx, f.m.in.ID)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r.Op = op
	var theirs []*os.File
	var ours *os.File
	if op == inside.ReadFile || op == inside.WriteFile {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		defer read.Close()
		defer write.Close()
		if op == inside.ReadFile {
			theirs, ours = []*os.File{write}, read
		} else {
			theirs, ours = []*os.File{read}, write
		}
		defer context.AfterFunc(ctx, func() { _ = ours.Close() })()
	}
	if err := inside.Send(conn, inside.MachineRequest{File: &r}, theirs...); err != nil {
		return nil, nil, err
	}
	closeFiles(theirs...)
	if op == inside.WriteFile {
		_, _ = io.Copy(ours, data) // if the machine does not read all of it, its response says why
		_ = ours.Close()
	}
	var res inside.Response
	receive := func() error {
		res = inside.Response{}
		got, err := inside.Receive(conn, &res)
		closeFiles(got...)
		if err != nil {
			return err
		}
		return res.Err()
	}
	if err := receive(); err != nil || op != inside.ReadFile {
		return nil, res.Files, err
	}
	content, err = io.ReadAll(io.LimitReader(ours, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", r.Name, maxFile)
	}
	if err != nil {
		return nil, nil, err
	}
	return content, nil, receive()
}

func (f files) do(op string, r inside.FileRequest) error {
	_, _, err := f.ask(op, r, nil)
	return err
}

// ReadFile implements machine.Files.
func (f files) ReadFile(name string) ([]byte, error) {
	b, _, err := f.ask(inside.ReadFile, inside.FileRequest{Name: name}, nil)
	return b, err
}

// Stat implements machine.Files.
func (f files) Stat(name string) (fs.FileInfo, error) {
	_, all, err := f.ask(inside.Stat, inside.FileRequest{Name: name}, nil)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("stat %s: no answer", name)
	}
	if err != nil {
		return nil, err
	}
	return info{all[0]}, nil
}

// ReadDir implements machine.Files.
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	_, all, err := f.ask(inside.ReadDir, inside.FileRequest{Name: name}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, 0, len(all))
	for _, i := range all {
		out = append(out, fs.FileInfoToDirEntry(info{i}))
	}
	return out, nil
}

// WriteFile implements machine.Files.
func (f files) WriteFile(name string, data []byte, perm fs.FileMode) error {
	_, _, err := f.ask(inside.WriteFile, inside.FileRequest{Name: name, Mode: perm}, bytes.NewReader(data))
	return err
}

// MkdirAll implements machine.Files.
func (f files) MkdirAll(name string, perm fs.FileMode) error {
	return f.do(inside.MkdirAll, inside.FileRequest{Name: name, Mode: perm})
}

// Chown implements machine.Files.
func (f files) Chown(name string, uid, gid int) error {
	return f.do(inside.Chown, inside.FileRequest{Name: name, UID: uid, GID: gid})
}

// Chmod implements machine.Files.
func (f files) Chmod(name string, perm fs.FileMode) error {
	return f.do(inside.Chmod, inside.FileRequest{Name: name, Mode: perm})
}

// Rename implements machine.Files.
func (f files) Rename(from, to string) error {
	return f.do(inside.Rename, inside.FileRequest{Name: from, To: to})
}

// RemoveAll implements machine.Files.
func (f files) RemoveAll(name string) error {
	return f.do(inside.RemoveAll, inside.FileRequest{Name: name})
}

// An info describes a file.
type info struct{ inside.FileInfo }

func (i info) Name() string       { return i.FileInfo.Name }
func (i info) Size() int64        { return i.FileInfo.Size }
func (i info) Mode() fs.FileMode  { return i.FileInfo.Mode }
func (i info) ModTime() time.Time { return i.FileInfo.ModTime }
func (i info) IsDir() bool        { return i.FileInfo.Mode.IsDir() }
func (i info) Sys() any {
	return &syscall.Stat_t{Uid: uint32(i.UID), Gid: uint32(i.GID), Ino: i.Inode}
}

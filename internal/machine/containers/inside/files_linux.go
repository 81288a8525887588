package inside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// file does what a request says with a file.
func (b *box) file(c *net.UnixConn, r FileRequest, files []*os.File) {
	var res Response
	err := fileOperation(c, r, files, &res)
	if err != nil {
		res = Response{}
		res.fail(err)
	}
	_ = Send(c, &res) // the daemon may have gone
}

func fileOperation(c *net.UnixConn, r FileRequest, files []*os.File, res *Response) error {
	switch r.Op {
	case ReadFile, WriteFile:
		if len(files) != 1 {
			return fmt.Errorf("%s needs one file", r.Op)
		}
	}
	switch r.Op {
	case ReadFile:
		f, err := openRegularFile(r.Name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Seek(r.Offset, io.SeekStart); err != nil {
			return err
		}
		_ = Send(c, res) // the daemon may have gone
		if r.Limit > 0 {
			_, err = io.Copy(files[0], io.LimitReader(f, r.Limit))
		} else {
			_, err = io.Copy(files[0], f)
		}
		return errors.Join(err, files[0].Close())
	case WriteFile:
		_, err := os.Lstat(r.Name)
		f, oerr := openRegularFile(r.Name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, r.Mode.Perm())
		if oerr != nil {
			return oerr
		}
		if err != nil { // it is new
			err = f.Chmod(r.Mode)
		}
		if err == nil {
			_, err = io.Copy(f, files[0])
		}
		return errors.Join(err, f.Close())
	case Stat:
		i, err := os.Stat(r.Name)
		if err == nil {
			res.Files = []FileInfo{infoOf(i)}
		}
		return err
	case ReadDir:
		entries, err := os.ReadDir(r.Name)
		for _, e := range entries[:min(len(entries), maxEntries)] {
			if i, err := e.Info(); err == nil {
				res.Files = append(res.Files, infoOf(i))
			}
		}
		return err
	case MkdirAll:
		return os.MkdirAll(r.Name, r.Mode.Perm())
	case Chown:
		return os.Chown(r.Name, r.UID, r.GID)
	case Chmod:
		return os.Chmod(r.Name, r.Mode)
	case Rename:
		return os.Rename(r.Name, r.To)
	case RemoveAll:
		return os.RemoveAll(r.Name)
	case Symlink:
		return os.Symlink(r.To, r.Name)
	}
	return fmt.Errorf("unknown operation %q", r.Op)
}

// maxEntries is how many entries of a folder are listed. They fit into a message.
const maxEntries = 2048

func infoOf(i fs.FileInfo) FileInfo {
	out := FileInfo{Name: i.Name(), Size: i.Size(), Mode: i.Mode(), ModTime: i.ModTime()}
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		out.UID, out.GID, out.Inode = int(st.Uid), int(st.Gid), st.Ino
	}
	return out
}

// openRegularFile opens a file that may be anything, without waiting for its other end.
func openRegularFile(name string, flags int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flags|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

package sshd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/sftp"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// maxOpen is how many files and folders a client may have open.
const maxOpen = 128

// umask is that of Amazon Linux.
const umask = 0o022

// sftp serves the sftp subsystem.
func (s *session) sftp(ctx context.Context) (int, error) {
	f := s.c.files()
	defer f.flush()
	server := sftp.NewRequestServer(unclosed{s.channel}, sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f}, sftp.WithStartDirectory(s.c.user.Home))
	err := server.Serve() // returns when the client closes the channel
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return 0, nil
	}
	return 255, nil // the client has broken the protocol
}

// An unclosed channel ignores Close, because the exit status is sent after the library has closed it.
type unclosed struct{ io.ReadWriter }

func (unclosed) Close() error { return nil }

// files gives a session access to a machine's files with its user's permissions, which the file system itself does not
// check.
type files struct {
	fs   *vfs.FS
	user accounts.User
	open atomic.Int64

	store func() error // stores the whole disk
	log   func(text string)
	mu    sync.Mutex
	later *time.Timer // calls flush; nil if nothing has changed
}

func (c *connection) files() *files {
	return &files{fs: c.s.cfg.FS, user: c.user, store: c.s.cfg.Changed, log: c.s.cfg.Log}
}

// storeIn is how long a change waits, so that later changes can be stored together with it.
const storeIn = time.Second

// changed schedules flush.
func (f *files) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.later == nil {
		f.later = time.AfterFunc(storeIn, f.flush)
	}
}

// flush stores what has changed. Sessions call it when they end.
func (f *files) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.later == nil {
		return
	}
	f.later.Stop()
	f.later = nil
	if err := f.store(); err != nil {
		f.log("error: storing the disk: " + err.Error())
	}
}

const (
	mayRead  = 4
	mayWrite = 2
	mayEnter = 1
)

// allowed reports whether the user has all of the given permissions on a file.
func (f *files) allowed(i fs.FileInfo, want fs.FileMode) bool {
	own, ok := i.(*vfs.Info)
	if f.user.UID == 0 {
		return true
	}
	if !ok {
		return false
	}
	bits := i.Mode().Perm()
	switch {
	case own.UID == f.user.UID:
		bits >>= 6
	case f.member(own.GID):
		bits >>= 3
	}
	return bits&want == want
}

func (f *files) member(gid int) bool {
	if gid == f.user.GID {
		return true
	}
	return slices.ContainsFunc(accounts.Groups(f.fs), func(g accounts.Group) bool {
		return g.GID == gid && slices.Contains(g.Members, f.user.Name)
	})
}

// maxLinks is how many symbolic links a path may have, as on Linux.
const maxLinks = 40

// resolve returns a path without symbolic links in its folders and, if follow is set, at its end. The user must be
// able to enter all of its folders.
func (f *files) resolve(name string, follow bool) (string, error) {
	done, rest := "/", strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		dir, err := f.fs.Lstat(done)
		if err != nil {
			return "", err
		}
		if !f.allowed(dir, mayEnter) {
			return "", refused(name)
		}
		at := path.Join(done, next)
		i, err := f.fs.Lstat(at)
		if err != nil && (len(rest) > 0 || !errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
		if err != nil || i.Mode()&fs.ModeSymlink == 0 || len(rest) == 0 && !follow {
			done = at
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
		}
		to, err := f.fs.Readlink(at)
		if err != nil {
			return "", err
		}
		if path.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(strings.Trim(to, "/"), "/"), rest...)
	}
	return done, nil
}

func refused(name string) error { return &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES} }

// place resolves the path of a file that is to be created, removed or renamed. It returns an error if the user may not
// write to the file's folder.
func (f *files) place(name string) (string, error) {
	at, err := f.resolve(name, false)
	if err != nil {
		return "", err
	}
	dir, err := f.fs.Stat(path.Dir(at))
	if err != nil {
		return "", err
	}
	if !f.allowed(dir, mayWrite|mayEnter) {
		return "", refused(name)
	}
	if i, err := f.fs.Lstat(at); err == nil && dir.Mode()&fs.ModeSticky != 0 && f.user.UID != 0 {
		if own, ok := i.(*vfs.Info); !ok || own.UID != f.user.UID {
			return "", refused(name)
		}
	}
	return at, nil
}

// A file is an open file of the file system.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// An openFile reports a change of the disk when it is closed, if it was open for writing.
type openFile struct {
	file
	f      *files
	writes bool
}

func (o *openFile) Close() error {
	o.f.open.Add(-1)
	if o.writes {
		o.f.changed()
	}
	return o.file.Close()
}

// An appended file is open for appending. Some clients count offsets from the file's old end, and others from its start;
// the first write shows which. Each write keeps its offset, because the library may reorder writes.
type appended struct {
	*openFile
	size  int64 // the file's size when it was opened
	first sync.Once
	base  int64
}

// WriteAt implements io.WriterAt.
func (a *appended) WriteAt(p []byte, off int64) (int, error) {
	a.first.Do(func() {
		if off < a.size {
			a.base = a.size
		}
	})
	return a.openFile.WriteAt(p, a.base+off)
}

// openAs opens a file with the flags of package os.
func (f *files) openAs(name string, flags int, perm fs.FileMode) (*openFile, error) {
	at, err := f.resolve(name, true)
	if err != nil {
		return nil, err
	}
	var want fs.FileMode = mayRead
	switch {
	case flags&os.O_WRONLY != 0:
		want = mayWrite
	case flags&os.O_RDWR != 0:
		want = mayRead | mayWrite
	}
	i, err := f.fs.Stat(at)
	created := false
	switch {
	case at == "/dev/null":
	case err == nil && !f.allowed(i, want):
		return nil, refused(name)
	case err == nil && !i.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case err != nil && flags&os.O_CREATE == 0:
		return nil, err
	case err != nil:
		if _, err := f.place(at); err != nil {
			return nil, err
		}
		created = true
	}
	if f.open.Add(1) > maxOpen {
		f.open.Add(-1)
		return nil, syscall.EMFILE
	}
	opened, err := f.fs.Open(at, flags, perm&^umask)
	if err == nil && created {
		err = f.fs.Chown(at, f.user.UID, f.user.GID)
	}
	if err != nil {
		f.open.Add(-1)
		return nil, err
	}
	return &openFile{opened.(file), f, flags&(os.O_WRONLY|os.O_RDWR) != 0}, nil
}

// Fileread implements sftp.FileReader.
func (f *files) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	return f.openAs(r.Filepath, os.O_RDONLY, 0)
}

// Filewrite implements sftp.FileWriter.
func (f *files) Filewrite(r *sftp.Request) (io.WriterAt, error) { return f.OpenFile(r) }

// OpenFile implements sftp.OpenFileWriter.
func (f *files) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) {
	p := r.Pflags()
	flags := os.O_WRONLY
	if p.Read {
		flags = os.O_RDWR
	}
	for _, o := range []struct {
		set  bool
		flag int
	}{{p.Creat, os.O_CREATE}, {p.Trunc, os.O_TRUNC}, {p.Excl, os.O_EXCL}} {
		if o.set {
			flags |= o.flag
		}
	}
	o, err := f.openAs(r.Filepath, flags, permissions(r.Attrs))
	if err != nil || !p.Append {
		return o, err
	}
	i, err := f.fs.Stat(r.Filepath)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return &appended{openFile: o, size: i.Size()}, nil
}

// permissions returns the permissions in the attributes of a request to open a file. The library does not say which
// attributes are present, but OpenSSH sends the permissions either alone or followed by two times.
func permissions(attributes []byte) fs.FileMode {
	if n := len(attributes); n != 4 && n != 12 {
		return 0o666
	}
	return fs.FileMode(binary.BigEndian.Uint32(attributes)) & fs.ModePerm
}

// Filecmd implements sftp.FileCmder.
func (f *files) Filecmd(r *sftp.Request) error {
	err := f.command(r)
	if err == nil {
		f.changed()
	}
	return err
}

func (f *files) command(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return f.setAttributes(r)
	case "Rename":
		to, err := f.resolve(r.Target, false)
		if err != nil {
			return err
		}
		if _, err := f.fs.Lstat(to); err == nil {
			return &fs.PathError{Op: "rename", Path: r.Target, Err: syscall.EEXIST}
		}
		return f.rename(r)
	case "PosixRename":
		return f.rename(r)
	case "Symlink":
		at, err := f.place(r.Target)
		if err != nil {
			return err
		}
		return f.fs.Symlink(r.Filepath, at)
	case "Link":
		return sftp.ErrSSHFxOpUnsupported
	}
	at, err := f.place(r.Filepath)
	if err != nil {
		return err
	}
	i, err := f.fs.Lstat(at)
	switch {
	case r.Method == "Mkdir":
		if err := f.fs.Mkdir(at, 0o777&^umask); err != nil {
			return err
		}
		return f.fs.Chown(at, f.user.UID, f.user.GID)
	case err != nil:
		return err
	case r.Method == "Rmdir" && !i.IsDir():
		return &fs.PathError{Op: "rmdir", Path: r.Filepath, Err: syscall.ENOTDIR}
	case r.Method == "Remove" && i.IsDir():
		return &fs.PathError{Op: "remove", Path: r.Filepath, Err: syscall.EISDIR}
	case r.Method == "Rmdir", r.Method == "Remove":
		return f.fs.Remove(at)
	}
	return sftp.ErrSSHFxOpUnsupported
}

func (f *files) rename(r *sftp.Request) error {
	from, err := f.place(r.Filepath)
	if err != nil {
		return err
	}
	to, err := f.place(r.Target)
	if err != nil {
		return err
	}
	return f.fs.Rename(from, to)
}

// extended is the flag for extended attributes, which are not supported.
const extended = 0x80000000

// setAttributes changes a file's attributes. Users with write permission may change the size; only the owner and root may
// change the others.
func (f *files) setAttributes(r *sftp.Request) error {
	at, err := f.resolve(r.Filepath, true)
	if err != nil || at == "/dev/null" {
		return err
	}
	i, err := f.fs.Stat(at)
	if err != nil {
		return err
	}
	own, ok := i.(*vfs.Info)
	if r.Flags&extended != 0 { // the library would allocate as many as the client claims
		return sftp.ErrSSHFxBadMessage
	}
	a, set := r.Attributes(), r.AttrFlags()
	if a == nil { // the packet is too short
		return sftp.ErrSSHFxBadMessage
	}
	if !ok || f.user.UID != 0 && own.UID != f.user.UID && (set.Permissions || set.Acmodtime || set.UidGid) {
		return &fs.PathError{Op: "setstat", Path: r.Filepath, Err: syscall.EPERM}
	}
	if set.Size {
		if !f.allowed(i, mayWrite) {
			return refused(r.Filepath)
		}
		if err := f.fs.Truncate(at, int64(min(a.Size, 1<<62))); err != nil {
			return err
		}
	}
	if set.UidGid {
		if f.user.UID != 0 && (int(a.UID) != own.UID || !f.member(int(a.GID))) {
			return &fs.PathError{Op: "chown", Path: r.Filepath, Err: syscall.EPERM}
		}
		if err := f.fs.Chown(at, int(a.UID), int(a.GID)); err != nil {
			return err
		}
	}
	if set.Permissions {
		if err := f.fs.Chmod(at, vfs.FileMode(i.Mode(), a.Mode&0o7777)); err != nil {
			return err
		}
	}
	if set.Acmodtime {
		return f.fs.Chtime(at, a.ModTime())
	}
	return nil
}

// PosixRename implements sftp.PosixRenameFileCmder.
func (f *files) PosixRename(r *sftp.Request) error { return f.Filecmd(r) }

// A listing is the contents of a folder, or a single file.
type listing []fs.FileInfo

// ListAt implements sftp.ListerAt.
func (l listing) ListAt(to []fs.FileInfo, from int64) (int, error) {
	if from >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(to, l[from:])
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

// Filelist implements sftp.FileLister.
func (f *files) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	at, err := f.resolve(r.Filepath, true)
	if err != nil {
		return nil, err
	}
	if at == "/dev/null" {
		return listing{vfs.Null()}, nil
	}
	i, err := f.fs.Stat(at)
	if err != nil || r.Method == "Stat" {
		return f.list(i, err)
	}
	if !f.allowed(i, mayRead) {
		return nil, refused(r.Filepath)
	}
	entries, err := f.fs.ReadDir(at)
	if err != nil {
		return nil, err
	}
	if f.open.Add(1) > maxOpen {
		f.open.Add(-1)
		return nil, syscall.EMFILE
	}
	out := make(listing, 0, len(entries))
	for _, e := range entries {
		if i, err := e.Info(); err == nil {
			out = append(out, i)
		}
	}
	return &openFolder{out, f}, nil
}

// An openFolder is a listing that counts as an open file.
type openFolder struct {
	listing
	f *files
}

// Close implements io.Closer.
func (o *openFolder) Close() error {
	o.f.open.Add(-1)
	return nil
}

func (f *files) list(i fs.FileInfo, err error) (sftp.ListerAt, error) {
	if err != nil {
		return nil, err
	}
	return listing{i}, nil
}

// Lstat implements sftp.LstatFileLister.
func (f *files) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	at, err := f.resolve(r.Filepath, false)
	if err != nil {
		return nil, err
	}
	if at == "/dev/null" {
		return listing{vfs.Null()}, nil
	}
	return f.list(f.fs.Lstat(at))
}

// Readlink implements sftp.ReadlinkFileLister.
func (f *files) Readlink(name string) (string, error) {
	at, err := f.resolve(name, false)
	if err != nil {
		return "", err
	}
	return f.fs.Readlink(at)
}

// RealPath implements sftp.RealPathFileLister. As with OpenSSH, the last element may not exist.
func (f *files) RealPath(name string) (string, error) {
	if !path.IsAbs(name) {
		name = path.Join(f.user.Home, name)
	}
	return f.resolve(name, true)
}

// LookupUserName implements sftp.NameLookupFileLister.
func (f *files) LookupUserName(uid string) string {
	if u, ok := accounts.FindUser(f.fs, uid); ok {
		return u.Name
	}
	return uid
}

// LookupGroupName implements sftp.NameLookupFileLister.
func (f *files) LookupGroupName(gid string) string {
	id, err := strconv.Atoi(gid)
	if g, ok := accounts.FindGroup(f.fs, gid); ok && err == nil && g.GID == id {
		return g.Name
	}
	return gid
}

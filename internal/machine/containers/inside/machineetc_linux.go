package inside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// etc writes the machine's own settings.
func (b *box) etc() error {
	id := strings.ReplaceAll(b.cfg.ID, "-", "")
	files := map[string]string{
		"resolv.conf": fmt.Sprintf("search %s\nnameserver %s\n", b.cfg.Search, b.cfg.Resolver),
		"machine-id":  (id + strings.Repeat("0", 32))[:32] + "\n",
		"profile":     profile,
	}
	if b.cfg.NoLimits {
		files["../opt/drydock/no-limits"] = ""
	}
	for name, text := range files {
		if err := unlessFull(replace(filepath.Join("/etc", name), []byte(text), 0o644)); err != nil {
			return err
		}
	}
	if err := settle([]setting{
		{"hostname", b.cfg.Hostname + "\n", 0o644},
		{"hosts", fmt.Sprintf("127.0.0.1 localhost\n%s %s %s\n", b.cfg.Address, b.cfg.Hostname, strings.SplitN(b.cfg.Hostname, ".", 2)[0]), 0o644},
	}); err != nil {
		return err
	}
	if b.cfg.Userland != nil {
		if err := addAccounts(); err != nil {
			return err
		}
	}
	return unlessFull(b.trust())
}

// unlessFull logs that the disk is full instead of failing, so that the machine boots and its root can make room.
func unlessFull(err error) error {
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	fmt.Printf("Drydock: the disk is full, so a setting is missing or old: %v\n", err)
	return nil
}

// bundle has the certificate authorities that the machine's programs trust, and redHat those of an image of that family, which has
// no bundle.
const (
	bundle = "/etc/ssl/certs/ca-certificates.crt"
	redHat = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
)

// trust adds the installation's certificate authority to those of the host.
func (b *box) trust() error {
	all, err := readRegular(bundle)
	if errors.Is(err, fs.ErrNotExist) {
		all, err = readRegular(redHat)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.Contains(string(all), string(b.cfg.CA)) {
		return nil
	}
	return replace(bundle, append(all, b.cfg.CA...), 0o644)
}

// readRegular reads a file that may be anything, without waiting for a writer.
func readRegular(name string) ([]byte, error) {
	f, err := openRegularFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// replace writes a file atomically, unless it is like that already: a full disk has no room for another one.
func replace(name string, data []byte, mode os.FileMode) error {
	if same(name, data, mode) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// same reports whether a name is that of root's own file with this text and mode.
func same(name string, data []byte, mode os.FileMode) bool {
	st, err := os.Lstat(name)
	if err != nil || st.Mode() != mode || st.Size() != int64(len(data)) {
		return false
	}
	if s := st.Sys().(*syscall.Stat_t); s.Uid != 0 || s.Gid != 0 || s.Nlink != 1 {
		return false
	}
	has, err := readRegular(name)
	return err == nil && bytes.Equal(has, data)
}

// Package nodebin holds the small static programs of nodes that run containers: runc, containerd's shim and nodetool.
// `make nodebin` builds them, and this package embeds them. A build without them works, but offers no containers.
//
// Used by package machine/containers and by `drydock doctor`. It depends on nothing of Drydock.
package nodebin

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed all:bin
var embedded embed.FS

// The programs.
const (
	Runc     = "runc"
	Shim     = "containerd-shim-runc-v2"
	Nodetool = "nodetool"
)

// links are the names under which nodetool is called.
var links = []string{"drydock-runc", "drydock-cni", "pause"}

func dir() string { return "bin/linux-" + runtime.GOARCH }

// Missing returns the programs that this build lacks.
func Missing() []string {
	var out []string
	for _, name := range []string{Runc, Shim, Nodetool} {
		if _, err := fs.Stat(embedded, path.Join(dir(), name+".gz")); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// Open returns a program.
func Open(name string) ([]byte, error) {
	b, err := embedded.ReadFile(path.Join(dir(), name+".gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this build of Drydock has no %s: make nodebin build", name)
	}
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("embedded %s: %w", name, err)
	}
	out, err := io.ReadAll(z) // gzip's checksum protects it
	if err != nil {
		return nil, fmt.Errorf("embedded %s: %w", name, err)
	}
	return out, nil
}

// Extract writes all programs into a folder.
func Extract(to string) error {
	if missing := Missing(); len(missing) > 0 {
		return fmt.Errorf("this build of Drydock has no %s: make nodebin build", strings.Join(missing, ", "))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range []string{Runc, Shim, Nodetool} {
		b, err := Open(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o755); err != nil {
			return err
		}
	}
	for _, name := range links {
		if err := os.Link(filepath.Join(to, Nodetool), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

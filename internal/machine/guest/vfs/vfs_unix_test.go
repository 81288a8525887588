//go:build unix

package vfs_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// The operating system is the oracle: the same random operations end the same way.
func TestLikeTheOperatingSystem(t *testing.T) {
	names := []string{"/a", "/b", "/a/c", "/a/c/d", "/b/e", "/l", "/a/l", "/l/c"}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		f := vfs.New(vfs.DefaultLimits, nil)
		pick := func() string { return names[r.IntN(len(names))] }
		for range 150 {
			a, b := pick(), pick()
			oa, ob := filepath.Join(dir, a), filepath.Join(dir, b)
			var op string
			var got, want error
			switch r.IntN(7) {
			case 0:
				op, got, want = "mkdir", f.Mkdir(a, 0o755), os.Mkdir(oa, 0o755)
			case 1:
				op, got, want = "write", f.WriteFile(a, []byte(b), 0o644), os.WriteFile(oa, []byte(b), 0o644)
			case 2:
				op, got, want = "remove", f.Remove(a), syscallRemove(oa)
			case 3:
				op, got, want = "rename", f.Rename(a, b), syscall.Rename(oa, ob)
			case 4:
				op, got, want = "symlink", f.Symlink(filepath.Base(b), a), os.Symlink(filepath.Base(b), oa)
			case 5:
				op, got, want = "removeall", f.RemoveAll(a), os.RemoveAll(oa)
			case 6:
				var x, y []byte
				x, got = f.ReadFile(a)
				y, want = os.ReadFile(oa)
				op = "read"
				if got == nil && want == nil && string(x) != string(y) {
					t.Fatalf("seed %d: %s holds %q, want %q", seed, a, x, y)
				}
			}
			if (got == nil) != (want == nil) {
				t.Fatalf("seed %d: %s %s %s: %v, want %v", seed, op, a, b, got, want)
			}
		}
	}
}

func syscallRemove(name string) error {
	if i, err := os.Lstat(name); err == nil && i.IsDir() {
		return syscall.Rmdir(name)
	}
	return syscall.Unlink(name)
}

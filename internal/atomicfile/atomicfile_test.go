package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// Write sets content and mode and leaves no temporary files.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, want := range []string{"one", "two"} {
		if err := Write(name, []byte(want), 0o640); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		info, _ := os.Stat(name)
		if err != nil || string(b) != want || info.Mode().Perm() != 0o640 {
			t.Errorf("%q %v, %v", b, info, err)
		}
	}
	if err := Write(dir, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

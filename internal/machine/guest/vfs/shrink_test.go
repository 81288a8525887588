package vfs

import (
	"errors"
	"testing"
)

// TestShrinking checks that a file that has become smaller uses less memory.
func TestShrinking(t *testing.T) {
	f := New(DefaultLimits, nil)
	if err := errors.Join(f.WriteFile("/f", make([]byte, 1<<20), 0o644), f.Truncate("/f", 1)); err != nil {
		t.Fatal(err)
	}
	if n := cap(f.root.children["f"].data); n > 1<<10 {
		t.Errorf("%d bytes of memory", n)
	}
	if err := f.Truncate("/f", 0); err != nil || f.root.children["f"].data != nil {
		t.Errorf("%v, %v", f.root.children["f"].data, err)
	}
}

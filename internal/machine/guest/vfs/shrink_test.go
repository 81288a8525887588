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

// TestAppending checks that appending to a file whose content an image has copies it once.
func TestAppending(t *testing.T) {
	f := New(DefaultLimits, nil)
	if err := f.WriteFile("/f", make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := *f.root.children["f"]
			n.shared = true
			if errno := f.resize(&n, 4<<20+1); errno != 0 {
				b.Fatal(errno)
			}
			f.space(-1)
		}
	})
	if n := r.AllocedBytesPerOp(); n > 7<<20 { // append adds a quarter
		t.Errorf("%d bytes of memory", n)
	}
}

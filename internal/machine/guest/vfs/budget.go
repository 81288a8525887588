package vfs

import "sync"

// A Budget is memory that file systems share for what they have beyond their own limits.
type Budget struct {
	mu   sync.Mutex
	left int64 // in bytes; negative after a Restore beyond the budget
}

// NewBudget returns a budget of that many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes} }

// Take takes bytes for something other than a file system, and reports whether so many were left. Give gives them back.
func (b *Budget) Take(n int64) bool { return b.take(n) }

// Give gives bytes back.
func (b *Budget) Give(n int64) { b.give(n) }

func (b *Budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *Budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

func (b *Budget) rest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.left)
}

// Share lets the file system grow beyond its own limit, up to most bytes, as far as the budget allows. Call it before the
// file system is used, and Release at the end.
func (f *FS) Share(b *Budget, most int64) { f.budget, f.most = b, most }

// Release gives back what the file system has from its budget. After that, it must not be written to.
func (f *FS) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.budget != nil {
		f.budget.give(f.borrowed)
		f.budget, f.borrowed = nil, 0
	}
}

package vfs

import "io/fs"

// UnixMode returns a mode's permission bits as chmod and stat number them, including set-user-ID, set-group-ID and
// the sticky bit, which Go stores elsewhere.
func UnixMode(m fs.FileMode) uint32 {
	n := uint32(m.Perm())
	for _, b := range specialBits() {
		if m&b.mode != 0 {
			n |= b.unix
		}
	}
	return n
}

// FileMode is the reverse of UnixMode, for a file of the same type as kind.
func FileMode(kind fs.FileMode, n uint32) fs.FileMode {
	m := kind&fs.ModeType | fs.FileMode(n).Perm()
	for _, b := range specialBits() {
		if n&b.unix != 0 {
			m |= b.mode
		}
	}
	return m
}

type specialBit struct {
	unix uint32
	mode fs.FileMode
}

func specialBits() [3]specialBit {
	return [3]specialBit{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}
}

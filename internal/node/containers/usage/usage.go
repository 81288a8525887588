// Package usage measures how much memory the processes of cgroups use, where the kernel does not count it because cgroup v2 has
// no memory controller.
//
// Used by the kubelet of machines that run containers. It does not depend on the rest of Drydock.
package usage

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Memory is what the processes of a cgroup and of those below it use, in bytes. Pages that several processes share are
// divided among them; the page cache of files that no process has mapped is in no sum.
type Memory struct {
	Total, Anonymous uint64
	// Unknown says that one of the processes could not be measured.
	Unknown bool
}

// Measure returns the memory of each cgroup with processes in a proc file system, and of those above it.
func Measure(proc string) map[string]Memory {
	out := map[string]Memory{}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return out
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		cgroup, ok := cgroupOf(path.Join(proc, e.Name(), "cgroup"))
		if !ok {
			continue // it has ended
		}
		total, anonymous, err := memoryOf(path.Join(proc, e.Name(), "smaps_rollup"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		for name := cgroup; ; name = path.Dir(name) {
			m := out[name]
			m.Total += total
			m.Anonymous += anonymous
			m.Unknown = m.Unknown || err != nil
			out[name] = m
			if name == "/" || name == "." {
				break
			}
		}
	}
	return out
}

// cgroupOf returns a process's cgroup of version 2. https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v2.html#processes
func cgroupOf(file string) (string, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return name, true
		}
	}
	return "", false
}

// memoryOf returns the proportional set size of a process and its anonymous part, from its file smaps_rollup.
// https://www.kernel.org/doc/html/latest/filesystems/proc.html
func memoryOf(file string) (total, anonymous uint64, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		f := strings.Fields(sc.Text()) // Pss:  123 kB
		if len(f) != 3 {
			continue
		}
		into := map[string]*uint64{"Pss:": &total, "Pss_Anon:": &anonymous}[f[0]]
		if into == nil {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*into = n << 10
	}
	return total, anonymous, nil
}

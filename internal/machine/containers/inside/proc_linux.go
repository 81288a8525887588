package inside

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The files of /proc about the whole computer show the real machine, because the kernel is shared. Others take the place of those
// that programs such as top and free read: the first process writes them, and again every procInterval if they change.
// /proc/uptime is not one of them, because ps compares it with the times at which processes have started, which the kernel counts
// from the real boot.

// procFiles is where these files are. They have a file system of their own, so that they can be shown read-only in /proc. Root can
// change them here.
const procFiles = "/opt/drydock/proc"

const procInterval = 2 * time.Second

// A procView computes the files.
type procView struct {
	cpus   int
	memory int64
	booted time.Time
	at     time.Time     // of the last update
	used   time.Duration // the processor time at that moment
	load   [3]float64
}

// showProc puts the machine's own files into /proc, and keeps them up to date.
func (b *box) showProc() error {
	if b.cfg.CPUs == 0 || b.cfg.MemoryBytes == 0 {
		return nil
	}
	v := &procView{cpus: b.cfg.CPUs, memory: b.cfg.MemoryBytes, booted: b.booted, at: b.booted}
	m := &mounter{}
	// A new user namespace, such as that of a pod with hostUsers: false, may mount /proc only if its creator sees one without
	// anything above it.
	m.mount("proc", procFiles+"/real", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("tmpfs", procFiles+"/shown", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=8m")
	m.do("writing "+procFiles, v.update)
	m.do("writing cpuinfo", func() error { return show("cpuinfo", v.cpuinfo) }) // it stays the same, and may be large
	m.do("writing nproc", func() error { return os.WriteFile(filepath.Join(setuidBin, "nproc"), []byte(nprocScript), 0o755) })
	for _, name := range append(slices.Collect(maps.Keys(v.files())), "cpuinfo") {
		m.do("showing "+name, func() error {
			at := filepath.Join("/proc", name)
			if err := unix.Mount(filepath.Join(procFiles, "shown", name), at, "", unix.MS_BIND, ""); err != nil {
				return err
			}
			return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		})
	}
	if m.err != nil {
		return m.err
	}
	go func() {
		for range time.Tick(procInterval) {
			_ = v.update() // the next one may succeed
		}
	}()
	return nil
}

// files returns the functions that make the files that change.
func (v *procView) files() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){"meminfo": v.meminfo, "stat": v.stat, "loadavg": v.loadavg}
}

// update writes the files. Programs keep them open, so each stays the same file.
func (v *procView) update() error {
	now, used := time.Now(), processorTime()
	if past := now.Sub(v.at).Seconds(); past > 0 {
		busy := (used - v.used).Seconds() / past // the processors in use
		for i, minutes := range []float64{1, 5, 15} {
			keep := math.Exp(-past / 60 / minutes)
			v.load[i] = v.load[i]*keep + busy*(1-keep)
		}
	}
	v.at, v.used = now, used
	var errs []error
	for name, text := range v.files() {
		errs = append(errs, show(name, text))
	}
	return errors.Join(errs...)
}

// show writes a file.
func show(name string, text func() ([]byte, error)) error {
	b, err := text()
	if err != nil {
		return err
	}
	return overwrite(filepath.Join(procFiles, "shown", name), b)
}

// overwrite writes a file that others may have open. A process that reads it at the same time may also see some of the old
// content, but never an empty file.
func overwrite(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil || st.Size() <= int64(len(b)) {
		return err
	}
	return f.Truncate(int64(len(b)))
}

// meminfo has the lines of the real one. https://www.kernel.org/doc/html/latest/filesystems/proc.html#meminfo
func (v *procView) meminfo() ([]byte, error) {
	host, err := os.ReadFile(procFiles + "/real/meminfo")
	if err != nil {
		return nil, err
	}
	total := v.memory >> 10
	used := min(residentMemory()>>10, total)
	own := map[string]int64{
		"MemTotal": total, "MemFree": total - used, "MemAvailable": total - used, "Active": used, "Active(anon)": used, "AnonPages": used,
		"CommitLimit": total / 2, "Committed_AS": used,
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(host)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		_, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		if !ok {
			continue
		}
		n := own[name]
		if strings.HasPrefix(name, "Vmalloc") || name == "Hugepagesize" {
			out.WriteString(line) // the kernel's own
			continue
		}
		fmt.Fprintf(&out, "%-16s%8d%s\n", name+":", n, strings.TrimRight(" "+unit, " "))
	}
	return out.Bytes(), nil
}

// residentMemory returns the bytes of memory that the machine's processes use, as ps -e -o rss shows them.
func residentMemory() int64 {
	var pages int64
	for _, pid := range processes() {
		b, err := os.ReadFile(filepath.Join(procFiles, "real", strconv.Itoa(pid), "statm"))
		if err != nil {
			continue // it has ended
		}
		if f := strings.Fields(string(b)); len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes numbers
			pages += n
		}
	}
	return pages * int64(os.Getpagesize())
}

// processes returns the IDs of the machine's processes.
func processes() (pids []int) {
	dir, err := os.Open(procFiles + "/real")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // those that could be read
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cpuinfo repeats the first processor of the real machine.
func (v *procView) cpuinfo() ([]byte, error) {
	host, err := os.ReadFile(procFiles + "/real/cpuinfo")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(host), "\n\n")
	perCore := 1
	if runtime.GOARCH == "amd64" {
		perCore = 2
	}
	var out bytes.Buffer
	for i := range v.cpus {
		own := map[string]int{
			"processor": i, "physical id": 0, "siblings": v.cpus, "core id": i / perCore, "cpu cores": max(v.cpus/perCore, 1), "apicid": i, "initial apicid": i,
		}
		for line := range strings.Lines(first + "\n") {
			if name, _, ok := strings.Cut(line, ":"); ok {
				if n, ok := own[strings.TrimSpace(name)]; ok {
					line = fmt.Sprintf("%s: %d\n", name, n)
				}
			}
			out.WriteString(line)
		}
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// processorTime returns the time that processors have spent on the machine.
func processorTime() time.Duration {
	user, system := cpuStat()
	return user + system
}

// cpuStat reads the statistics of the machine's cgroup, which the kernel counts even without controllers.
func cpuStat() (user, system time.Duration) {
	b, _ := os.ReadFile("/sys/fs/cgroup/cpu.stat") // without it, the machine seems idle
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseInt(value, 10, 64) // as above
		switch name {
		case "user_usec":
			user = time.Duration(n) * time.Microsecond
		case "system_usec":
			system = time.Duration(n) * time.Microsecond
		}
	}
	return user, system
}

// stat has the time of the processors in hundredths of a second, evenly distributed, and the other lines of the real one, with
// zeros. Only the time of the boot is as it is, for ps. https://www.kernel.org/doc/html/latest/filesystems/proc.html#stat
func (v *procView) stat() ([]byte, error) {
	host, err := os.ReadFile(procFiles + "/real/stat")
	if err != nil {
		return nil, err
	}
	const tick = 10 * time.Millisecond
	user, system := cpuStat()
	u, s := int64(user/tick), int64(system/tick)
	idle := max(int64(v.at.Sub(v.booted)/tick)*int64(v.cpus)-u-s, 0)
	var out bytes.Buffer
	line := func(name string, share int64) {
		fmt.Fprintf(&out, "%s %d 0 %d %d 0 0 0 0 0 0\n", name, u/share, s/share, idle/share)
	}
	line("cpu ", 1)
	for i := range v.cpus {
		line("cpu"+strconv.Itoa(i), int64(v.cpus))
	}
	for l := range strings.Lines(string(host)) {
		switch name, _, _ := strings.Cut(l, " "); {
		case strings.HasPrefix(name, "cpu"):
		case name == "btime":
			out.WriteString(l)
		case name == "procs_running":
			out.WriteString(name + " 1\n")
		default:
			out.WriteString(strings.TrimSpace(name) + " 0\n")
		}
	}
	return out.Bytes(), nil
}

// loadavg is an estimate from the processors in use: the kernel counts the processes of all machines together.
func (v *procView) loadavg() ([]byte, error) {
	all := processes()
	return fmt.Appendf(nil, "%.2f %.2f %.2f 1/%d %d\n", v.load[0], v.load[1], v.load[2], len(all), slices.Max(append(all, 0))), nil
}

// nprocScript counts the machine's processors: nproc asks the kernel, which has those of the real machine.
const nprocScript = `#!/bin/sh
n=$(grep -c ^processor /proc/cpuinfo)
for a; do
	case $a in --ignore=*) n=$((n - ${a#*=})) ;; esac
done
[ "$n" -gt 0 ] || n=1
echo "$n"
`

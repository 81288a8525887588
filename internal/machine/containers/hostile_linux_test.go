package containers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// userData runs user data on a machine until ctx ends.
func userData(ctx context.Context, m machine.Machine, text string) error {
	_, err := m.(*containers.Machine).CloudInit(ctx, inside.CloudInit{UserData: []byte(text), Version: "23.2", User: "ec2-user"})
	return err
}

// below returns how many processes and threads of this machine belong to the machines of a runtime of this test.
func below(t *testing.T) int {
	t.Helper()
	n := 0
	for _, host := range processes(t, "be-child\x00"+inside.HostMode) {
		if parent(t, host) != os.Getpid() {
			continue
		}
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", host))
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if own, err := os.Readlink(task + "/ns/user"); err == nil && own == ns { // otherwise it has ended
				n++
			}
		}
	}
	return n
}

// User data that starts processes without end takes neither the real machine's process IDs nor those of other machines.
func TestAForkBombStaysOnItsMachine(t *testing.T) {
	needContainers(t)
	const bound = 800 // Linux gives the first 300 only once, so half of it can be reached again
	var r *containers.Runtime
	cfg := newConfig(t, &r, t.TempDir(), idle{t})
	cfg.PIDs = bound
	r = containers.New(cfg)
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("shutting down: %v", err)
		}
	})
	a, b := start(t, r, instance("i-a", "10.0.0.11")), start(t, r, instance("i-b", "10.0.0.12"))
	if got := run(t, a, "sh", "-c", "cat /proc/sys/kernel/pid_max /sys/fs/cgroup/../pids.max 2> /dev/null; true"); !strings.Contains(got, strconv.Itoa(bound)) {
		needs.Missing(t, "neither cgroup controllers nor Linux 6.14 bound the processes of machines: %s", got)
	}
	for _, user := range []string{"ec2-user", "root"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		bomb := "f() { f & f & wait; }; f"
		go func() {
			_, err := machine.Run(ctx, a, machine.Command{User: user, Args: []string{"sh", "-c", bomb}})
			done <- err
		}()
		most := 0
		eventually(t, func() error {
			if most = max(most, below(t)); most < bound/2 {
				return fmt.Errorf("%d processes", most)
			}
			return nil
		})
		var busy sync.WaitGroup // what else runs on the machine cannot start anything either, and does not end the machine
		for range 16 {
			busy.Go(func() { _, _ = machine.Run(ctx, a, machine.Command{User: "root", Args: []string{"true"}}) })
		}
		for range 5 {
			if most = max(most, below(t)); most > 2*bound {
				t.Errorf("%d processes and threads, want at most %d", most, 2*bound)
			}
			run(t, b, "true")
		}
		cancel()
		busy.Wait()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) { // it also ends by itself, if its first shell cannot start the second
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.Stop(ctx, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if n := below(t); n > bound/2 {
			return fmt.Errorf("%d processes are left", n)
		}
		return nil
	})
	run(t, b, "true")
}

// Output without end fills neither the console nor the log, and ends with the machine.
func TestEndlessOutputIsBounded(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	asFolders(t, dir, "i-a")
	r := newRuntime(t, dir)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	done := make(chan error, 1)
	go func() {
		done <- userData(t.Context(), a, "#!/bin/bash\nhead -c 40M /dev/zero | tr '\\0' x\necho > /tmp/written\nyes\n")
	}()
	eventually(t, func() error { _, err := os.Stat(filepath.Join(dir, "disks/i-a/disk/tmp/written")); return err })
	for name, most := range map[string]int64{"console": 64 << 10, "console.1": 128 << 10, "disk/var/log/cloud-init-output.log": 16 << 20} {
		st, err := os.Stat(filepath.Join(dir, "disks/i-a", name))
		if errors.Is(err, os.ErrNotExist) && name == "console" { // it is being renamed
			continue
		}
		if err != nil || st.Size() > most {
			t.Errorf("%s: %v, %v; want at most %d bytes", name, st, err, most)
		}
	}
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, machine.ErrOff) {
		t.Errorf("user data of a machine that is off: %v", err)
	}
}

// The machine's root cannot kill the machine's first process, just as it cannot kill systemd. If it replaces cloud-init's
// files by links or pipes, user data still ends in time.
func TestUserDataThatAttacksItsMachine(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("real"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t, dir)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	run(t, a, "sh", "-c", "touch /run/this-boot")
	if err := userData(t.Context(), a, "#!/bin/bash\nfor s in KILL TERM INT HUP QUIT USR1 ABRT PIPE STOP; do kill -$s 1; done\necho survived > /tmp/survived\n"); err != nil {
		t.Fatal(err)
	}
	if got := run(t, a, "sh", "-c", "ls /run/this-boot; cat /tmp/survived"); got != "/run/this-boot\nsurvived\n" {
		t.Errorf("after signals to the first process: %q", got)
	}
	// A program that was started afterwards still ends by the signals that the first process ignores.
	var out bytes.Buffer
	if status, err := machine.Run(t.Context(), a, machine.Command{Args: []string{"sh", "-c", "kill -TERM $$; echo ignored"}, Stdout: &out}); status != 128+15 || err != nil {
		t.Errorf("a program that ends itself: %d, %v, %s", status, err, &out)
	}
	for _, plant := range []string{
		"ln -sf " + victim + " /var/log/cloud-init-output.log", "ln -sf /data/i-a/console /var/log/cloud-init.log",
		"rm -f /var/log/cloud-init-output.log; mkfifo /var/log/cloud-init-output.log", "rm -rf /var/lib/cloud; ln -s " + filepath.Dir(victim) + " /var/lib/cloud",
		"rm -rf /etc/passwd; mkfifo /etc/passwd",
	} {
		run(t, a, "sh", "-c", plant)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_ = userData(ctx, a, "#!/bin/bash\necho done\n") // it may fail
		if ctx.Err() != nil {
			t.Errorf("after %s, user data does not end", plant)
		}
		cancel()
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "real" {
		t.Errorf("the real machine's file is %q, %v", b, err)
	}
	if left, err := os.ReadDir(filepath.Dir(victim)); err != nil || len(left) != 1 {
		t.Errorf("the real machine's folder has %v, %v", left, err)
	}
}

// The root of a machine has everything there, and nothing of the real machine.
func TestTheRootOfAMachineSeesOnlyIt(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	start(t, r, instance("i-b", "10.0.0.12"))
	if got := run(t, a, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(got, "containers.test") || strings.Count(got, "be-child "+inside.MachineMode) != 1 || strings.Contains(got, inside.HostMode+" ") {
		t.Errorf("processes: %s", got)
	}
	if got := run(t, a, "sh", "-c", "ls /sys/class/net | tr '\\n' ' '"); got != "eth0 lo " {
		t.Errorf("network interfaces: %s", got)
	}
	if got := run(t, a, "sh", "-c", "ls /dev | tr '\\n' ' '; ls /dev/net"); strings.ContainsAny(strings.Join(strings.Fields(got), ""), "0123456789") || strings.Contains(got, "kvm") || strings.Contains(got, "mem") {
		t.Errorf("devices: %s", got)
	}
	if got := run(t, a, "sh", "-c", "find / -xdev -name "+filepath.Base(dir)+" 2>/dev/null; ls "+dir+" 2>/dev/null; true"); got != "" {
		t.Errorf("it finds %s", got)
	}
	for what, script := range map[string]string{
		"a disk can be made from its numbers":    "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk",
		"memory can be made from its numbers":    "mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem",
		"the real machine can be switched off":   "echo o > /proc/sysrq-trigger",
		"a setting of the kernel can be set":     "sysctl -w kernel.panic=1 || echo 1 > /proc/sys/kernel/panic",
		"the first process's root leads out":     "ls /proc/1/root/data || ls /proc/1/root" + dir,
		"a namespace of the host can be joined":  "nsenter -t 1 -m ls /data || nsenter -t 2 -m ls " + dir,
		"the real clock can be set":              "date -s 2001-01-01",
		"a kernel module can be loaded":          "modprobe loop || insmod /dev/null",
		"a file system of a disk can be mounted": "for d in vda sda nvme0n1; do mount -t ext4 /dev/$d /mnt && exit 0; done; exit 1",
		"other processes' cgroups can be seen":   "ls /sys/fs/cgroup/../host || cat /sys/fs/cgroup/../cgroup.procs | grep -v '^[0-9]*$'",
	} {
		var out bytes.Buffer
		if status, err := machine.Run(t.Context(), a, machine.Command{Args: []string{"sh", "-c", "exec 2>&1; " + script}, Stdout: &out}); status == 0 || err != nil {
			t.Errorf("%s: %d, %v: %s", what, status, err, &out)
		}
	}
	var st syscall.Utsname
	if err := syscall.Uname(&st); err != nil {
		t.Fatal(err)
	}
	before := st.Nodename
	run(t, a, "sh", "-c", "hostname hostile 2>/dev/null || echo hostile > /proc/sys/kernel/hostname")
	if err := syscall.Uname(&st); err != nil || st.Nodename != before {
		t.Errorf("the real machine's name has changed (%v)", err)
	}
}

// daemonDir names the folder of a daemon that is killed.
const daemonDir = "DRYDOCK_TEST_DAEMON_DIR"

// traces returns what machines could leave on the real one: mounts, network interfaces and groups.
func traces(t *testing.T, dir string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.Write(mounts)
	for _, l := range links {
		fmt.Fprintln(&out, l.Name)
	}
	st, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	group := fmt.Sprintf("drydock-%x", st.Sys().(*syscall.Stat_t).Ino)
	if _, err := os.Stat(filepath.Join(probe.Cgroup2(), group)); err == nil {
		fmt.Fprintln(&out, group)
	}
	return out.String()
}

// A daemon that is killed with running machines, and user data that stays behind, leaves no process, mount or network interface; the
// next daemon removes the groups.
func TestNothingStaysOfAKilledDaemon(t *testing.T) {
	needContainers(t)
	if dir := os.Getenv(daemonDir); dir != "" { // this is the daemon
		a := start(t, newRuntime(t, dir), instance("i-a", "10.0.0.11"))
		if err := userData(t.Context(), a, "#!/bin/bash\nmount -t tmpfs tmpfs /mnt\nip link add left type veth peer name behind\nunshare --net --mount --pid --fork setsid sleep 1003 < /dev/null > /dev/null 2>&1 &\n"); err != nil {
			t.Fatal(err)
		}
		fmt.Println("running")
		select {}
	}
	dir := t.TempDir()
	before := traces(t, dir)
	daemon := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	daemon.Env = append(os.Environ(), daemonDir+"="+dir)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Kill() }() // it has ended
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "running" {
	}
	if lines.Text() != "running" {
		t.Fatalf("the daemon does not run its machine: %q", lines.Text())
	}
	eventually(t, func() error {
		if len(processes(t, "sleep\x001003")) == 0 { // user data does not wait for it
			return errors.New("the machine runs no sleep")
		}
		return nil
	})
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	eventually(t, func() error {
		if left := processes(t, "sleep\x001003"); len(left) > 0 {
			return fmt.Errorf("processes %v are left", left)
		}
		return nil
	})
	r := newRuntime(t, dir)
	start(t, r, instance("i-a", "10.0.0.11"))
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if after := traces(t, dir); after != before {
			return fmt.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		return nil
	})
}

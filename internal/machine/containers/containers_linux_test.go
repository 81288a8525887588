package containers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// TestMain makes the test program its own child.
func TestMain(m *testing.M) {
	if code, ok := inside.HostModes().Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// idle is a guest that does nothing.
type idle struct{ t *testing.T }

func (g idle) Run(ctx context.Context) { <-ctx.Done() }
func (g idle) Tools() []string         { return nil }
func (g idle) Report(_ context.Context, e machine.Event) {
	if e.Err != nil {
		g.t.Errorf("%s: %v", e.Name, e.Err)
	}
}

func needContainers(t *testing.T) {
	t.Helper()
	if r := probe.Run(); !r.Available {
		if os.Getenv("DRYDOCK_WITHOUT_CONTAINERS") == "1" { // set by CI without what make nodebin needs
			t.Skip(r.Why())
		}
		needs.Missing(t, "%s", r.Why())
	}
}

// newConfig returns the configuration of machines in a network in which everything passes.
func newConfig(t *testing.T, r **containers.Runtime, dir string, g containers.Guest) containers.Config {
	var mu sync.Mutex
	all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	rules := []fabric.Rule{{Match: fabric.Match{Protocol: fabric.Any}, CIDRs: all}}
	range16 := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}
	st := &fabric.State{
		VPCs:    []fabric.VPC{{ID: "vpc-1", CIDRs: range16}},
		Subnets: []fabric.Subnet{{ID: "subnet-1", VPC: "vpc-1", CIDRs: range16, Routes: []fabric.Route{{Destination: range16[0], Kind: fabric.Local}}}},
		Groups:  []fabric.Group{{ID: "sg-1", Ingress: rules, Egress: rules}},
	}
	return containers.Config{
		Dir: dir, Guest: func(*containers.Machine) containers.Guest { return g }, Log: testlog.New(t),
		Connect: func(ctx context.Context, in machine.Instance) error {
			mu.Lock()
			defer mu.Unlock()
			id := in.Interfaces[0].ID
			st.Interfaces = slices.DeleteFunc(st.Interfaces, func(e fabric.Interface) bool { return e.ID == id })
			st.Interfaces = append(st.Interfaces, fabric.Interface{
				ID: id, VPC: "vpc-1", Subnet: "subnet-1", MAC: in.MAC, Addresses: []fabric.Address{{Private: in.PrivateIP}}, Groups: []string{"sg-1"},
			})
			return (*r).Apply(ctx, st)
		},
	}
}

func newRuntime(t *testing.T, dir string) *containers.Runtime {
	t.Helper()
	var r *containers.Runtime
	r = containers.New(newConfig(t, &r, dir, idle{t}))
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("shutting down: %v", err)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(dir, &st); err != nil {
			t.Error(err)
		}
		group := filepath.Join(probe.Cgroup2(), fmt.Sprintf("drydock-%x", st.Ino))
		if _, err := os.Stat(group); err == nil {
			t.Errorf("%s is left behind", group)
		}
	})
	return r
}

func instance(id, address string) machine.Instance {
	a := netip.MustParseAddr(address)
	return machine.Instance{
		ID: id, Region: "us-east-1", VPCID: "vpc-1", PrivateIP: a, PrivateDNSName: "ip-" + strings.ReplaceAll(address, ".", "-") + ".ec2.internal",
		Interfaces: []machine.Interface{{ID: "eni-" + id}}, MAC: "0a:00:00:00:00:" + address[len(address)-2:], Type: instancetypes.Type{Name: "m5.large", VCPU: 2, MemoryMiB: 8192},
	}
}

func start(t *testing.T, r *containers.Runtime, in machine.Instance) machine.Machine {
	t.Helper()
	if err := r.Start(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	m, _ := r.Machine(in.ID)
	select {
	case <-m.Booted():
	case <-time.After(time.Minute):
		t.Fatal("the machine does not boot")
	}
	return m
}

func run(t *testing.T, m machine.Machine, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	status, err := machine.Run(t.Context(), m, machine.Command{Args: args, Stdout: &out, Stderr: &errs})
	if err != nil || status != 0 {
		t.Fatalf("%v: status %d, %v\n%s%s", args, status, err, &out, &errs)
	}
	return out.String()
}

// eventually calls check until it succeeds.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

func TestMachinesAreComputersOfTheirOwn(t *testing.T) {
	needContainers(t)
	r := newRuntime(t, t.TempDir())
	a := start(t, r, instance("i-a", "10.0.0.11"))
	b := start(t, r, instance("i-b", "10.0.1.12"))
	if got := run(t, a, "hostname"); got != "ip-10-0-0-11.ec2.internal\n" {
		t.Errorf("hostname %q", got)
	}
	if got := run(t, a, "sh", "-c", "echo $$; ls /proc | grep -c '^[0-9]'; id -u; cat /etc/resolv.conf"); !strings.Contains(got, "nameserver 169.254.169.253") {
		t.Error(got)
	}
	if !bytes.Contains(a.Console(), []byte("is up with address 10.0.0.11")) {
		t.Errorf("console: %s", a.Console())
	}
	// A node needs nine, and they all count as this user's.
	if n, err := strconv.Atoi(strings.TrimSpace(run(t, a, "cat", "/proc/sys/fs/inotify/max_user_instances"))); err != nil || n < 8192 {
		t.Errorf("%d inotify instances, %v", n, err)
	}
	run(t, a, "bash", "-c", "echo one; echo two > /dev/console; [ -t 3 ] 3<> /dev/console")
	eventually(t, func() error {
		if !bytes.Contains(a.Console(), []byte("\ntwo\n")) || bytes.Contains(a.Console(), []byte("one")) {
			return fmt.Errorf("console: %q", a.Console())
		}
		return nil
	})
	for name, script := range map[string]string{
		"the host's programs can be written":     "touch /usr/bin/x",
		"the host's kernel settings are its own": "echo x > /proc/sys/kernel/core_pattern",
		"the host's disk is visible":             "ls /work || ls /root/go",
	} {
		if status, err := machine.Run(t.Context(), a, machine.Command{Args: []string{"sh", "-c", script}}); status == 0 || err != nil {
			t.Errorf("%s: %d, %v", name, status, err)
		}
	}
	// A server on one machine answers the other one.
	serve, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := b.Exec(serve, machine.Command{Args: []string{"perl", "-MIO::Socket::INET", "-e", `$s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c "hello ", $c->peerhost, "\n"; close $c }`}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		c, err := a.Dial(t.Context(), "10.0.1.12", 8080)
		if err != nil {
			return err
		}
		defer c.Close()
		got, err := io.ReadAll(c)
		if err == nil && string(got) != "hello 10.0.0.11\n" {
			t.Errorf("answer %q", got)
		}
		return err
	})
	if err := b.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := machine.Run(t.Context(), b, machine.Command{Args: []string{"true"}}); !errors.Is(err, machine.ErrOff) {
		t.Errorf("running a program on a machine that is off: %v", err)
	}
}

// The machine's root has left links on its disk that would lead out of it: none is followed by the next boot, nor by the
// daemon, which is the real root.
// A process whose parent has ended becomes a child of the machine's first process, which waits for it when it ends, again and again.
func TestOrphansAreReaped(t *testing.T) {
	needContainers(t)
	m := start(t, newRuntime(t, t.TempDir()), instance("i-1", "10.0.0.11"))
	for range 2 {
		orphans := strings.Fields(run(t, m, "sh", "-c", "for i in 1 2 3; do (setsid sleep 0.2 < /dev/null > /dev/null 2>&1 & echo $!); done"))
		if len(orphans) != 3 {
			t.Fatalf("orphans: %q", orphans)
		}
		eventually(t, func() error {
			if left := run(t, m, "sh", "-c", "cd /proc; grep . "+strings.Join(orphans, "/stat ")+"/stat 2> /dev/null || true"); left != "" {
				return fmt.Errorf("orphans are left:\n%s", left)
			}
			return nil
		})
	}
}

func TestLinksOnADiskLeadNowhere(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("real"), 0o666); err != nil {
		t.Fatal(err)
	}
	asFolders(t, dir, "i-b")
	r := newRuntime(t, dir)
	start(t, r, instance("i-b", "10.0.0.12"))
	disks := filepath.Join(dir, "disks")
	other := filepath.Join(disks, "i-b", "disk", "mnt")
	eventually(t, func() error { _, err := os.Stat(other); return err })
	for _, tc := range []struct{ name, link, to string }{
		{"the old root", ".old", "/data/i-b/disk/mnt"},
		{"a mount", "proc", "/data/i-b/disk/mnt"},
		{"the userland", "usr", "/data/i-b/disk/mnt"},
		{"the programs", "opt", "/data/i-b/disk/mnt"},
		{"the devices", "dev", "/data/i-b/disk/mnt"},
		{"the programs' folder", "opt/drydock/bin", "/programs"},
		{"the images", "var/lib/drydock", "/data/i-b/disk/mnt"},
		{"a file of the host", "etc/hostname", "/data/i-b/disk/mnt/hostname"},
		{"a copied folder", "etc/ssl", "/data/i-b/disk/mnt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := filepath.Join(disks, "i-a", "disk")
			if err := os.MkdirAll(filepath.Dir(filepath.Join(disk, tc.link)), 0o755); err != nil {
				t.Fatal(err)
			}
			chownAll(t, filepath.Join(disks, "i-a"))
			if err := os.Symlink(tc.to, filepath.Join(disk, tc.link)); err != nil {
				t.Fatal(err)
			}
			a := start(t, r, instance("i-a", "10.0.0.11"))
			if got := run(t, a, "sh", "-c", "ls -d /.old /data /programs /host-etc 2>/dev/null; awk '$5 ~ /data|programs|host-etc|old|sockets/' /proc/self/mountinfo; ls /proc/1/fd/*/data 2>/dev/null; true"); got != "" {
				t.Errorf("the machine sees %s", got)
			}
			if err := a.Stop(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
				t.Errorf("the other machine's disk has %v, %v", left, err)
			}
			if err := r.RemoveDisk("i-a"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(disks, "i-a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the disk is still there: %v", err)
			}
		})
	}
	// A folder that the machine needs is a link: it does not boot, and nothing is written elsewhere.
	t.Run("the console", func(t *testing.T) {
		a := start(t, r, instance("i-a", "10.0.0.11"))
		console := filepath.Join(disks, "i-a", "console")
		for _, plant := range []func() error{
			func() error { return os.Symlink(victim, console) },
			func() error { return syscall.Mkfifo(console, 0o666) },
		} {
			if err := errors.Join(os.Remove(console), plant()); err != nil {
				t.Fatal(err)
			}
			if got := a.Console(); len(got) > 0 {
				t.Errorf("console: %s", got)
			}
		}
	})
	if st, err := os.Stat(dir); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 || st.Mode().Perm() != 0o700 {
		t.Errorf("the daemon's folder is not its own: %v, %v", st, err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "real" {
		t.Errorf("the real machine's file is %q, %v", b, err)
	}
}

// reporting is a guest that keeps the errors of boots.
type reporting struct {
	idle
	errs chan error
}

func (g reporting) Report(_ context.Context, e machine.Event) {
	if e.Err != nil {
		select {
		case g.errs <- e.Err:
		default:
		}
	}
}

func newReportingRuntime(t *testing.T, dir string) (*containers.Runtime, chan error) {
	t.Helper()
	errs := make(chan error, 1)
	var r *containers.Runtime
	r = containers.New(newConfig(t, &r, dir, reporting{idle{t}, errs}))
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("shutting down: %v", err)
		}
	})
	return r, errs
}

// What a machine's root leaves on its disk can keep that machine from booting, but no other one.
func TestAHostileDiskHarmsOnlyItsMachine(t *testing.T) {
	needContainers(t)
	for name, plant := range map[string]func(disk string) error{
		"the settings are a link": func(disk string) error { return os.Symlink("/data/i-b/disk/mnt", filepath.Join(disk, "etc")) },
		"the authorities are a pipe": func(disk string) error {
			certs := filepath.Join(disk, "etc/ssl/certs")
			return errors.Join(os.MkdirAll(certs, 0o755), syscall.Mkfifo(filepath.Join(certs, "ca-certificates.crt"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, errs := newReportingRuntime(t, dir)
			b := start(t, r, instance("i-b", "10.0.0.12"))
			disk := filepath.Join(dir, "disks/i-a/disk")
			if err := errors.Join(os.MkdirAll(disk, 0o755), plant(disk)); err != nil {
				t.Fatal(err)
			}
			chownAll(t, filepath.Join(dir, "disks/i-a"))
			if err := r.Start(t.Context(), instance("i-a", "10.0.0.11")); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-errs:
				if !strings.Contains(err.Error(), "booting i-a") {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the machine is neither on nor off")
			}
			start(t, r, instance("i-c", "10.0.0.13"))
			if left := run(t, b, "ls", "-A", "/mnt"); left != "" {
				t.Errorf("the other machine's disk has %s", left)
			}
		})
	}
}

func TestAMachineWhoseFirstProcessDiesBootsAgain(t *testing.T) {
	needContainers(t)
	r, errs := newReportingRuntime(t, t.TempDir())
	m := start(t, r, instance("i-a", "10.0.0.11"))
	run(t, m, "sh", "-c", "echo kept > /var/lib/note; echo gone > /run/note")
	for _, pid := range processes(t, "be-child\x00"+inside.MachineMode+"\x00") {
		if parent(t, parent(t, pid)) == os.Getpid() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case err := <-errs:
		if !strings.Contains(err.Error(), "first process has ended") {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed")
	}
	eventually(t, func() error {
		var out bytes.Buffer
		_, err := machine.Run(t.Context(), m, machine.Command{Args: []string{"sh", "-c", "cat /var/lib/note; ls /run/note"}, Stdout: &out})
		if err == nil && out.String() != "kept\n" {
			err = fmt.Errorf("the machine has %q", &out)
		}
		return err
	})
}

// A program ends although what it has started still holds its output.
func TestAProgramEndsBeforeWhatItHasLeft(t *testing.T) {
	needContainers(t)
	m := start(t, newRuntime(t, t.TempDir()), instance("i-a", "10.0.0.11"))
	if got := run(t, m, "sh", "-c", "sleep 1000 & echo started"); got != "started\n" {
		t.Errorf("output %q", got)
	}
}

// chownAll gives a folder to the machines' root.
func chownAll(t *testing.T, dir string) {
	t.Helper()
	st, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	if err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, owner, owner))
	}); err != nil {
		t.Fatal(err)
	}
}

// What machines share cannot be written by them, whatever they do to the mount.
func TestWhatMachinesShareIsReadOnly(t *testing.T) {
	needContainers(t)
	r := newRuntime(t, t.TempDir())
	if err := r.SaveImage("web", strings.NewReader("image")); err != nil {
		t.Fatal(err)
	}
	a := start(t, r, instance("i-a", "10.0.0.11"))
	before := run(t, a, "sh", "-c", "cat /opt/drydock/images/web.tar; sha256sum /opt/drydock/bin/runc")
	for _, dir := range []string{"/opt/drydock/bin", "/opt/drydock/images"} {
		run(t, a, "sh", "-c", fmt.Sprintf("mount -o remount,bind,rw %[1]s; ! touch %[1]s/x && ! rm -f %[1]s/runc %[1]s/web.tar && ! chown 0 %[1]s && ! chmod 777 %[1]s", dir))
	}
	run(t, a, "sh", "-c", "! (echo x > /opt/drydock/bin/runc) && ! (echo x > /opt/drydock/images/web.tar)")
	if after := run(t, a, "sh", "-c", "cat /opt/drydock/images/web.tar; sha256sum /opt/drydock/bin/runc"); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
}

func TestADiskIsRemovedWithoutAHost(t *testing.T) {
	dir := t.TempDir()
	r := containers.New(containers.Config{Dir: dir, Guest: func(*containers.Machine) containers.Guest { return idle{t} }, Log: testlog.New(t)})
	if err := r.RemoveDisk("i-a"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	disk := filepath.Join(dir, "disks", "i-a", "disk")
	outside := t.TempDir()
	if err := errors.Join(os.MkdirAll(disk, 0o755), os.Symlink(outside, filepath.Join(disk, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveDisk("i-a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(disk)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disk is still there: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if err := r.RemoveDisk("../x"); err == nil {
		t.Error("a path out of the folder was accepted")
	}
}

// The host dies, as with the daemon: nothing of the machines stays, and they boot again with their disks.
func TestMachinesDieWithTheirHost(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	m := start(t, r, instance("i-a", "10.0.0.11"))
	run(t, m, "sh", "-c", "echo kept > /var/lib/note")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mark := "drydock-test-" + filepath.Base(dir)
	if _, err := m.Exec(ctx, machine.Command{Args: []string{"sh", "-c", "sleep 1000; : " + mark}}); err != nil {
		t.Fatal(err)
	}
	var below []int // the sleeping program and its shell, as this machine sees them
	eventually(t, func() error {
		if below = processes(t, mark); len(below) == 0 {
			return errors.New("the program does not run")
		}
		return nil
	})
	for _, pid := range processes(t, "be-child\x00"+inside.HostMode) {
		if parent(t, pid) == os.Getpid() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() error {
		if left := processes(t, mark); len(left) > 0 {
			return fmt.Errorf("processes %v still run", left)
		}
		return nil
	})
	eventually(t, func() error {
		var out bytes.Buffer
		_, err := machine.Run(t.Context(), m, machine.Command{Args: []string{"cat", "/var/lib/note"}, Stdout: &out})
		if err == nil && out.String() != "kept\n" {
			err = fmt.Errorf("the disk has %q", &out)
		}
		return err
	})
}

// processes returns the processes of this machine whose command line contains a text.
func processes(t *testing.T, text string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(b, []byte(text)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // it has ended
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	ppid, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

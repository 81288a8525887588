package containers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/machine/containers/volumes"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

func needDisks(t *testing.T) {
	t.Helper()
	needContainers(t)
	if err := volumes.Usable(); err != nil {
		needs.Missing(t, "disks need mkfs.ext4 and loop devices: %v", err)
	}
}

// asFolders makes the disks of machines folders, as those of earlier versions are.
func asFolders(t *testing.T, dir string, ids ...string) {
	t.Helper()
	const owner = 0x70000000 // as whom the machines' root is known outside
	disks := filepath.Join(dir, "disks")
	for _, id := range ids {
		if err := os.MkdirAll(filepath.Join(disks, id, "disk"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(disks, owner, owner); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		chownAll(t, filepath.Join(disks, id))
	}
}

// allocated returns how many MiB of the real disk a machine's disk has, and false if it has none.
func allocated(t *testing.T, dir, id string) (mib int64, ok bool) {
	t.Helper()
	var st syscall.Stat_t
	err := syscall.Stat(filepath.Join(dir, "roots", "vol-"+strings.ReplaceAll(id, "-", "")+".ext4"), &st)
	if errors.Is(err, syscall.ENOENT) {
		return 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512 >> 20, true
}

// A machine's disk has the size of its root volume: what fills it fills nothing else, and it has its data after a restart.
func TestADiskHasTheSizeOfItsVolume(t *testing.T) {
	needDisks(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	in := instance("i-a", "10.0.0.11")
	in.DiskGiB = 2
	a := start(t, r, in)
	b := start(t, r, instance("i-b", "10.0.0.12"))
	for _, name := range []string{"/var", "/etc", "/home", "/tmp"} {
		if size := strings.TrimSpace(run(t, a, "stat", "-f", "-c", "%T %b %S", name)); !strings.HasPrefix(size, "ext2/ext3 ") {
			t.Errorf("%s is on %s", name, size)
		}
	}
	mib := 0
	if _, err := fmt.Sscan(run(t, a, "sh", "-c", "echo $(($(stat -f -c '%b * %S' /var) >> 20))"), &mib); err != nil || mib < 1800 || mib > 2048 {
		t.Errorf("a disk of 2 GiB has %d MiB, %v", mib, err)
	}
	run(t, a, "sh", "-c", "echo kept > /var/lib/note; ! fallocate -l 3G /home/large 2> /tmp/err; grep -q 'No space left' /tmp/err; rm -f /home/large; fallocate -l 1700M /home/large")
	if mib, ok := allocated(t, dir, "i-a"); !ok || mib > 200 {
		t.Errorf("the real disk has %d MiB of it, %v", mib, ok)
	}
	run(t, b, "fallocate", "-l", "3G", "/home/large")
	run(t, b, "rm", "/home/large")
	// Programs change their user, as on a folder.
	run(t, a, "sh", "-c", "cp /usr/bin/id /home/id && chown nobody /home/id && chmod 4755 /home/id && test $(/home/id -un) = nobody")
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	in.DiskGiB = 3
	a = start(t, r, in)
	if got := run(t, a, "cat", "/var/lib/note"); got != "kept\n" {
		t.Errorf("the disk has %q", got)
	}
	run(t, a, "fallocate", "-l", "900M", "/home/more")
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveDisk("i-a"); err != nil {
		t.Fatal(err)
	}
	if _, ok := allocated(t, dir, "i-a"); ok {
		t.Error("the disk is still there")
	}
	eventually(t, func() error { return attachedTo(t, filepath.Join(dir, "roots"), "vol-ib") })
}

// attachedTo returns an error if a loop device has a file in a folder. The file except does not count.
func attachedTo(t *testing.T, dir, except string) error {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may be freed just now
		if strings.HasPrefix(string(b), dir) && !strings.Contains(string(b), except) {
			return fmt.Errorf("%s has %s", f, b)
		}
	}
	return nil
}

// A disk that is a folder stays one.
func TestADiskOfAnEarlierVersion(t *testing.T) {
	needDisks(t)
	dir := t.TempDir()
	asFolders(t, dir, "i-a")
	r := newRuntime(t, dir)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	run(t, a, "sh", "-c", "echo x > /var/lib/note")
	if _, err := os.Stat(filepath.Join(dir, "disks/i-a/disk/var/lib/note")); err != nil {
		t.Error(err)
	}
	if _, ok := allocated(t, dir, "i-a"); ok {
		t.Error("it has another disk, too")
	}
}

// A disk that cannot be mounted for a while keeps its data: its machine does not boot with another one.
func TestADiskIsNeverReplaced(t *testing.T) {
	needDisks(t)
	dir := t.TempDir()
	errs := make(chan error, 1)
	var missing atomic.Bool
	var r *containers.Runtime
	cfg := newConfig(t, &r, dir, reporting{idle{t}, errs})
	cfg.DisksUsable = func() error {
		if missing.Load() {
			return errors.New("there is no mkfs.ext4")
		}
		return volumes.Usable()
	}
	r = containers.New(cfg)
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("shutting down: %v", err)
		}
	})
	in := instance("i-a", "10.0.0.11")
	a := start(t, r, in)
	run(t, a, "sh", "-c", "echo kept > /var/lib/note")
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	missing.Store(true)
	if err := r.Start(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; !strings.Contains(err.Error(), "there is no mkfs.ext4") || !strings.Contains(err.Error(), probe.MountFix) {
		t.Error(err)
	}
	folder := func(id string) error { _, err := os.Lstat(filepath.Join(dir, "disks", id, "disk")); return err }
	start(t, r, instance("i-b", "10.0.0.12"))
	if err := folder("i-b"); err != nil {
		t.Errorf("the disk of a new machine: %v", err)
	}
	if err := folder("i-a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the machine has another disk: %v", err)
	}
	missing.Store(false)
	a = start(t, r, in)
	if got := run(t, a, "cat", "/var/lib/note"); got != "kept\n" {
		t.Errorf("the disk has %q", got)
	}
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	missing.Store(true)
	if err := r.RemoveDisk("i-a"); err != nil {
		t.Fatal(err)
	}
	if _, ok := allocated(t, dir, "i-a"); ok {
		t.Error("the disk is still there")
	}
}

// The disks of machines that are neither known nor on are removed, and what a daemon that was killed has left of others.
func TestDisksAreSwept(t *testing.T) {
	needDisks(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	left := func() (all []string) {
		for _, name := range []string{"disks", "roots"} {
			list, err := os.ReadDir(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				all = append(all, e.Name())
			}
		}
		return all
	}
	a := start(t, r, instance("i-a", "10.0.0.11"))
	b := start(t, r, instance("i-b", "10.0.0.12"))
	start(t, r, instance("i-c", "10.0.0.13"))
	for _, name := range []string{"new-123", "vol-ia.ext4.larger", "vol-id.ext4"} {
		if err := os.WriteFile(filepath.Join(dir, "roots", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Stop(t.Context(), true), b.Stop(t.Context(), true), r.SweepDisks(map[string]bool{"i-a": true})); err != nil {
		t.Fatal(err)
	}
	if got, want := left(), []string{"i-a", "i-c", "vol-ia.ext4", "vol-ic.ext4"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

// A machine boots with a full disk, so that its root can make room.
func TestAFullDiskBoots(t *testing.T) {
	needDisks(t)
	r := newRuntime(t, t.TempDir())
	in := instance("i-a", "10.0.0.11")
	in.DiskGiB = 1
	a := start(t, r, in)
	run(t, a, "sh", "-c", `
		fallocate -l $(( $(stat -f -c %a /home) * $(stat -f -c %S /home) - (8 << 20) )) /home/large
		! cat /dev/zero > /home/more 2> /dev/null
		i=0; while [ $i -lt 5000 ] && echo x 2> /dev/null > /home/small.$i; do i=$((i + 1)); done
		! echo x 2> /dev/null > /etc/new`)
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	a = start(t, r, in)
	run(t, a, "sh", "-c", "rm /home/large && echo x > /etc/new")
}

// A machine whose root has replaced a system file by a pipe does not boot again. All others do.
func TestAHostileDiskOfItsOwn(t *testing.T) {
	needDisks(t)
	r, errs := newReportingRuntime(t, t.TempDir())
	a := start(t, r, instance("i-a", "10.0.0.11"))
	run(t, a, "sh", "-c", "rm -f /etc/ssl/certs/ca-certificates.crt && mkfifo /etc/ssl/certs/ca-certificates.crt")
	if err := a.Reboot(t.Context()); err != nil && !errors.Is(err, machine.ErrBooting) {
		t.Fatal(err)
	}
	if err := <-errs; !strings.Contains(err.Error(), "booting i-a") {
		t.Error(err)
	}
	run(t, start(t, r, instance("i-b", "10.0.0.12")), "true")
}

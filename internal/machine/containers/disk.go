package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/machine/containers/volumes"
)

const (
	// diskDir is the folder of the machines' consoles and of disks that are folders. It belongs to their root.
	diskDir = "disks"
	// rootDir is the folder of the machines' disks, as images of file systems. Only the daemon sees it.
	rootDir = "roots"
	// defaultDiskGiB is the size of the root volume of Amazon's images.
	defaultDiskGiB = 20
)

// rootID returns the name of a machine's disk in the store.
func rootID(machineID string) string { return "vol-" + strings.ReplaceAll(machineID, "-", "") }

// mountDisk returns a detached mount of the machine's disk, a file system as large as its root volume. It returns nil if the
// disk is a folder, which has no bound: because an earlier version made it, or because this machine could not mount disks then.
// A disk that exists is never replaced by an empty folder.
func (m *Machine) mountDisk(ctx context.Context) (*os.File, error) {
	m.bounded.Store(false)
	r := m.rt
	folder := filepath.Join(r.cfg.Dir, diskDir, m.in.ID, "disk")
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	v := machine.Volume{ID: rootID(m.in.ID), SizeGiB: cmp.Or(m.in.DiskGiB, defaultDiskGiB)}
	_, err := os.Stat(filepath.Join(r.cfg.Dir, rootDir, v.ID+".ext4"))
	exists := !errors.Is(err, fs.ErrNotExist)
	if err := r.disksUsable(); err != nil {
		if exists {
			return nil, fmt.Errorf("mounting the disk, which has data: %w: %s (drydock doctor containers)", err, probe.MountFix)
		}
		return nil, nil //nolint:nilerr // drydock up has said so
	}
	mount, err := m.mountRoot(v)
	// After a crash of the daemon, the kernel needs a moment to write what the last boot has left.
	for deadline := time.Now().Add(mountTime); err != nil && exists && ctx.Err() == nil && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		mount, err = m.mountRoot(v)
	}
	if err == nil {
		m.bounded.Store(true)
		return mount, nil
	}
	if exists {
		return nil, err
	}
	r.cfg.Log.Warn("a machine's disk has no bound", "instance", m.in.ID, "err", err)
	return nil, r.roots.Remove(v.ID)
}

// disksUsable returns an error if this machine cannot mount disks. What is missing may come while the daemon runs.
func (r *Runtime) disksUsable() error {
	if r.cfg.DisksUsable != nil {
		return r.cfg.DisksUsable()
	}
	return volumes.Usable()
}

func (m *Machine) mountRoot(v machine.Volume) (*os.File, error) {
	mount, err := m.rt.roots.Mount(v, m.in.ID, firstID)
	if err != nil {
		return nil, fmt.Errorf("mounting the disk: %w", err)
	}
	if err := allowSetuid(mount); err != nil {
		return nil, errors.Join(fmt.Errorf("mounting the disk: %w", err), mount.Close())
	}
	return mount, nil
}

// DiskBounded reports whether the machine's disk is a file system of its own, as large as its root volume. It is known once the
// machine has booted.
func (m *Machine) DiskBounded() bool { return m.bounded.Load() }

// RemoveDisk removes the disk of a machine that is off, if it has one.
func (r *Runtime) RemoveDisk(id string) error {
	r.mu.Lock()
	on := r.machines[id] != nil
	r.mu.Unlock()
	if on {
		return fmt.Errorf("%s is on", id)
	}
	defer r.shareAgain()
	return errors.Join(r.removeFolders(id), r.roots.Remove(rootID(id)))
}

// removeFolders removes folders of machines that are off.
func (r *Runtime) removeFolders(ids ...string) error {
	disks, err := os.OpenRoot(filepath.Join(r.cfg.Dir, diskDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer disks.Close()
	var errs []error
	for _, id := range ids {
		errs = append(errs, disks.RemoveAll(id))
	}
	return errors.Join(errs...)
}

// SweepDisks removes the disks of machines that are neither known nor on, and what a daemon that was killed has left of new disks.
func (r *Runtime) SweepDisks(known map[string]bool) error {
	keep, images := map[string]bool{}, map[string]bool{}
	maps.Copy(keep, known)
	r.mu.Lock() // no machine starts meanwhile
	for id := range r.machines {
		keep[id] = true
	}
	for id := range keep {
		images[rootID(id)] = true
	}
	list, err := os.ReadDir(filepath.Join(r.cfg.Dir, diskDir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, r.roots.Sweep(images))
	r.mu.Unlock()
	var gone []string
	for _, e := range list {
		if !keep[e.Name()] {
			gone = append(gone, e.Name())
		}
	}
	defer r.shareAgain()
	return errors.Join(err, r.removeFolders(gone...))
}

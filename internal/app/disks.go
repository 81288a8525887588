package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/drydock-dev/drydock/internal/atomicfile"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/machine/containers/volumes"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// disks stores the data of root volumes and of their snapshots in files that are named by instance or snapshot ID.
type disks struct{ dir string }

var (
	_ compute.Disks = disks{}
	_ ec2.Disks     = allDisks{}
)

// allDisks stores the data of all volumes and snapshots.
type allDisks struct {
	root  disks
	other *volumes.Store
}

func allDisksIn(dataDir string) allDisks {
	return allDisks{disksIn(dataDir), volumes.New(filepath.Join(dataDir, "volumes"))}
}

// Copy implements ec2.Disks. A snapshot may be of either kind.
func (d allDisks) Copy(from, to string) error {
	var errs []error
	if !strings.HasPrefix(from, "vol-") && !strings.HasPrefix(to, "vol-") {
		errs = append(errs, d.root.Copy(from, to))
	}
	if !strings.HasPrefix(from, "i-") {
		errs = append(errs, d.other.Copy(from, to))
	}
	return errors.Join(errs...)
}

// Remove implements ec2.Disks.
func (d allDisks) Remove(id string) error {
	var errs []error
	if !strings.HasPrefix(id, "vol-") {
		errs = append(errs, d.root.Remove(id))
	}
	if !strings.HasPrefix(id, "i-") {
		errs = append(errs, d.other.Remove(id))
	}
	return errors.Join(errs...)
}

// open removes the data of instances, volumes and snapshots that do not exist.
func (d allDisks) open(of *ec2.Service) error {
	known, err := of.InstanceIDs()
	if err == nil {
		maps.Copy(known, of.DataIDs())
		err = errors.Join(d.root.open(known), d.other.Sweep(known))
	}
	if err != nil {
		return fmt.Errorf("removing the disks of ended instances: %w", err)
	}
	return nil
}

func disksIn(dataDir string) disks { return disks{filepath.Join(dataDir, "disks")} }

// open creates the folder and removes files that belong to neither an instance nor a snapshot.
func (d disks) open(known map[string]bool) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	return d.sweep(known)
}

func (d disks) file(id string) (string, error) {
	if !strings.HasPrefix(id, "i-") && !strings.HasPrefix(id, "snap-") || strings.ContainsAny(id, "/\\.") {
		return "", fmt.Errorf("%q is the ID of neither an instance nor a snapshot", id)
	}
	return filepath.Join(d.dir, id), nil
}

// Copy copies an instance's or a snapshot's data.
func (d disks) Copy(from, to string) error {
	data, ok, err := d.Load(from)
	if err != nil || !ok {
		return err
	}
	return d.Save(to, data)
}

// Load implements compute.Disks.
func (d disks) Load(id string) ([]byte, bool, error) {
	name, err := d.file(id)
	if err != nil {
		return nil, false, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// Save implements compute.Disks.
func (d disks) Save(instanceID string, data []byte) error {
	name, err := d.file(instanceID)
	if err != nil {
		return err
	}
	return atomicfile.Write(name, data, 0o600)
}

// sweep removes the disks of unknown instances and snapshots. Such disks exist if Drydock crashed after an instance
// ended but before its disk was removed.
func (d disks) sweep(known map[string]bool) error {
	list, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if !known[e.Name()] {
			errs = append(errs, os.Remove(filepath.Join(d.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Remove implements compute.Disks.
func (d disks) Remove(id string) error {
	name, err := d.file(id)
	if err != nil {
		return err
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

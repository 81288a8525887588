package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drydock-dev/drydock/internal/atomicfile"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// disks stores the root volumes of instances as files.
type disks struct{ dir string }

var _ compute.Disks = disks{}

// newDisks opens the disks of the existing instances.
func newDisks(dataDir string, instances *ec2.Service) (disks, error) {
	d := disks{filepath.Join(dataDir, "disks")}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return d, err
	}
	known, err := instances.InstanceIDs()
	if err == nil {
		err = d.sweep(known)
	}
	if err != nil {
		return d, fmt.Errorf("removing the disks of ended instances: %w", err)
	}
	return d, nil
}

func (d disks) file(instanceID string) (string, error) {
	if !strings.HasPrefix(instanceID, "i-") || strings.ContainsAny(instanceID, "/\\.") {
		return "", fmt.Errorf("bad instance ID %q", instanceID)
	}
	return filepath.Join(d.dir, instanceID), nil
}

// Load implements compute.Disks.
func (d disks) Load(instanceID string) ([]byte, bool, error) {
	name, err := d.file(instanceID)
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

// sweep removes the disks of unknown instances: a crash may come between the end of an instance and the removal of
// its disk.
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
func (d disks) Remove(instanceID string) error {
	name, err := d.file(instanceID)
	if err != nil {
		return err
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package containers

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// VolumeDir is the folder where a machine shows its volumes, by ID. Machines have no block devices: only root of the real machine
// can mount those. The pods of the EBS CSI driver see this folder because they see the kubelet's whole folder.
const VolumeDir = "/var/lib/kubelet/drydock-volumes"

// shownVolumes are the volumes of a machine.
type shownVolumes struct {
	mu    sync.Mutex
	want  []machine.Volume
	up    bool
	shown map[string]int32 // the sizes of those that it shows, by ID
}

func (m *Machine) volumeAbility() machine.Abilities {
	if m.rt.cfg.Volumes == nil {
		return nil
	}
	return machine.Abilities{machine.Volumes}
}

// SetVolumes implements machine.Machine.
func (m *Machine) SetVolumes(ctx context.Context, all []machine.Volume) error {
	if m.rt.cfg.Volumes == nil {
		return m.Unsupported.SetVolumes(ctx, all)
	}
	if m.ctx.Err() != nil {
		return machine.ErrOff
	}
	v := &m.volumes
	v.mu.Lock()
	defer v.mu.Unlock()
	v.want = all
	if !v.up {
		return nil // it gets them when it boots
	}
	return m.updateVolumes(ctx)
}

// showVolumes shows the volumes of a machine that has just booted, and tries until it has all or is off. It returns after the
// first attempt.
func (m *Machine) showVolumes(ctx context.Context) {
	v := &m.volumes
	v.mu.Lock()
	defer v.mu.Unlock()
	v.up, v.shown = true, map[string]int32{}
	if m.rt.cfg.Volumes == nil {
		return
	}
	if err := m.updateVolumes(ctx); err != nil {
		m.rt.cfg.Log.Warn("a machine has booted without some of its volumes", "instance", m.in.ID, "err", err)
		go m.retryVolumes(ctx)
	}
}

// retryVolumes shows volumes that could not be shown when the machine booted, until ctx ends.
func (m *Machine) retryVolumes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryVolumesIn):
		}
		m.volumes.mu.Lock()
		err := m.updateVolumes(ctx)
		m.volumes.mu.Unlock()
		if err == nil {
			return
		}
	}
}

const (
	retryVolumesIn = 2 * time.Second
	// mountTime bounds a machine's answer. Its root could stop it.
	mountTime = 30 * time.Second
)

// hideVolumes notes that a machine is off, and with it its mounts.
func (m *Machine) hideVolumes() {
	m.volumes.mu.Lock()
	defer m.volumes.mu.Unlock()
	m.volumes.up = false
}

// updateVolumes makes the machine show what it should. m.volumes.mu is held.
func (m *Machine) updateVolumes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mountTime)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	v := &m.volumes
	var errs []error
	wanted := map[string]bool{}
	for _, want := range v.want {
		wanted[want.ID] = true
		if size, ok := v.shown[want.ID]; ok && size >= want.SizeGiB {
			continue
		}
		if err := m.showVolume(ctx, want); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", want.ID, err))
			continue
		}
		v.shown[want.ID] = want.SizeGiB
	}
	for id := range v.shown {
		if wanted[id] {
			continue
		}
		if err := m.ask(ctx, inside.MachineRequest{Unmount: path.Join(VolumeDir, id)}); err != nil {
			errs = append(errs, fmt.Errorf("detaching volume %s: %w", id, err))
			continue
		}
		delete(v.shown, id)
	}
	return errors.Join(errs...)
}

// showVolume shows a volume, or makes one that is shown as large as it should be.
func (m *Machine) showVolume(ctx context.Context, want machine.Volume) error {
	mount, err := m.rt.cfg.Volumes.Mount(want, m.in.ID, firstID)
	if err != nil {
		return err
	}
	defer mount.Close()
	if _, shown := m.volumes.shown[want.ID]; shown {
		return nil
	}
	return m.ask(ctx, inside.MachineRequest{Mount: path.Join(VolumeDir, want.ID)}, mount)
}

package instance

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/store"
)

// A boot is a boot that this process has started.
type boot struct {
	number  int             // number in the instance's sequence of boots
	machine machine.Machine // nil without Machines
}

// A bootedSet records what this process has booted. It is empty after a restart of the daemon, so
// every running instance is started again.
type bootedSet struct {
	mu    sync.Mutex
	boots map[store.Key]boot
}

func newBootedSet() *bootedSet { return &bootedSet{boots: map[store.Key]boot{}} }

func (b *bootedSet) get(k store.Key) (boot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.boots[k]
	return n, ok
}

func (b *bootedSet) set(k store.Key, n boot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.boots[k] = n
}

func (b *bootedSet) remove(k store.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.boots, k)
}

// A runner brings machines into the state of the instance records. Without Machines, instances are
// only records.
type runner struct {
	*Service
	machines Machines
}

// Reconcilers advance the states of instances, launches and Spot requests, and run machines. held reports whether the
// instances of an account wait.
func (s *Service) Reconcilers(machines Machines, held func(account string) bool) []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/instance", Watcher: record.Instances.Watch(s.Store, store.Scope{}), Reconcile: runner{s, machines}.reconcileInstance, Workers: 32, Hold: func(k store.Key) bool { return held(k.Account) }},
		{Name: "ec2/unfinished-launch", Watcher: unfinishedLaunches.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileUnfinished, Workers: 1},
		{Name: "ec2/spot-request", Watcher: SpotRequests.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileSpot, Workers: 4},
	}
}

// launchPause is how long an instance waits before it looks again whether its launch is complete.
const launchPause = 20 * time.Millisecond

// reconcileInstance brings one machine into the state of its record, and moves the record to its
// next state when that is due.
func (s runner) reconcileInstance(ctx context.Context, k store.Key) (time.Duration, error) {
	i, err := record.Instances.Get(s.Store, k)
	if resource.NotFound(err) {
		return 0, s.stopMachine(ctx, k) // deleted or reset
	}
	if err != nil {
		return 0, err
	}
	switch i.State {
	case record.Pending:
		if _, ok := s.launching.Load(i.ReservationID); ok {
			return launchPause, nil
		}
		if err := s.startMachine(ctx, k, i); err != nil {
			return 0, err
		}
		if left := s.left(i, s.Timing.InstancePending); left > 0 {
			return left, nil
		}
		return 0, s.advance(ctx, k, i.State, func(_ *store.Tx, _ resource.Scope, i *record.Instance) error {
			s.enter(i, record.Running)
			i.ReasonCode, i.ReasonMessage = "", ""
			return nil
		})
	case record.Running:
		return 0, s.startMachine(ctx, k, i)
	case record.Stopping, record.ShuttingDown:
		if err := s.stopMachine(ctx, k); err != nil {
			return 0, err
		}
		if left := s.left(i, s.Timing.InstanceShuttingDown); left > 0 {
			return left, nil
		}
		if i.State == record.Stopping {
			return 0, s.advance(ctx, k, i.State, s.finishStop)
		}
		return 0, s.advance(ctx, k, i.State, s.finishTermination)
	case record.Terminated:
		if left := s.left(i, s.Timing.InstanceTerminatedVisible); left > 0 {
			return left, nil
		}
		var all bool
		err := s.Store.Update(ctx, func(tx *store.Tx) error {
			if all = dropRootTasks(tx, resource.KeyScope(k), i.ID, 0); all {
				record.Instances.Delete(tx, k)
			}
			return nil
		})
		if err == nil && !all {
			return time.Millisecond, nil
		}
		return 0, err
	}
	return 0, nil // already stopped
}

func (s *Service) left(i record.Instance, lasts time.Duration) time.Duration {
	return i.Since.Add(lasts).Sub(s.Now())
}

// enter changes the state of i.
func (s *Service) enter(i *record.Instance, state string) { i.State, i.Since = state, s.Now() }

// advance changes an instance if it is still in the state from.
func (s *Service) advance(ctx context.Context, k store.Key, from string, fn func(*store.Tx, resource.Scope, *record.Instance) error) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		i, err := record.Instances.Get(tx, k)
		if resource.NotFound(err) || err == nil && i.State != from {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(tx, resource.KeyScope(k), &i); err != nil {
			return err
		}
		return record.Instances.Put(tx, k, i)
	})
}

// finishStop completes a stop. It releases the public address, which does not outlast it.
func (s *Service) finishStop(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
	if err := eni.DropPublic(tx, sc, i); err != nil {
		return fmt.Errorf("public address of %s: %w", i.ID, err)
	}
	i.ReservedIn = ""
	s.enter(i, record.Stopped)
	return nil
}

// finishTermination deletes what belongs to the instance and frees its addresses. If that takes
// more than one transaction, the instance stays shutting-down, and the change of its record
// triggers the next one.
func (s *Service) finishTermination(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
	left := chunkWrites - terminationWrites
	for n := len(i.Interfaces) - 1; n >= 0; n-- {
		e, err := record.NetworkInterfaces.Get(tx, sc.Key(i.Interfaces[n]))
		if err != nil && !resource.NotFound(err) {
			return err
		}
		if err == nil {
			cost := e.Writes()
			if cost > left && n < len(i.Interfaces)-1 {
				i.Interfaces = i.Interfaces[:n+1]
				return nil
			}
			left -= cost
			if err := leaveInterface(tx, sc, e); err != nil {
				return err
			}
		}
	}
	i.Interfaces = nil
	if done, err := storage.ReleaseVolumes(tx, sc, i, left); err != nil || !done {
		return err
	}
	if err := s.endSpot(tx, sc, i); err != nil {
		return err
	}
	if err := s.ended(tx, sc, i); err != nil {
		return err
	}
	i.Interfaces, i.Profile, i.UserData, i.RootTask = nil, nil, "", "" // a task that has not been completed fails
	i.PrivateIP, i.PublicIP, i.SubnetID, i.VPCID = "", "", "", ""
	s.enter(i, record.Terminated)
	return nil
}

// terminationWrites is the number of writes for a termination, apart from interfaces and volumes.
const terminationWrites = 4

// leaveInterface deletes or detaches an interface of an instance that is terminating.
func leaveInterface(tx *store.Tx, sc resource.Scope, e record.NetworkInterface) error {
	if e.Attachment.DeleteOnTermination {
		return eni.Remove(tx, sc, e)
	}
	if err := eni.Detach(&e, tx, sc); err != nil {
		return err
	}
	return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
}

func (s runner) startMachine(ctx context.Context, k store.Key, i record.Instance) error {
	last, running := s.booted.get(k)
	if running && last.number == i.Boot {
		if err := s.completeRootTask(ctx, k, i); err != nil { // retried if it failed after the start
			return err
		}
		return s.showAttachments(ctx, k, i)
	}
	now := boot{number: i.Boot}
	if s.machines != nil {
		if running { // a reboot
			if err := s.machines.Stop(ctx, k.Account, k.Region, k.ID); err != nil {
				return fmt.Errorf("stopping %s for its reboot: %w", k.ID, err)
			}
		}
		if i.RootTask != "" {
			if err := s.replaceDisk(k, i); err != nil {
				return fmt.Errorf("replacing the root volume of %s: %w", k.ID, err)
			}
		}
		m, err := s.machine(resource.KeyScope(k), i)
		if err != nil {
			return err
		}
		if err := s.machines.Start(ctx, m); err != nil {
			return fmt.Errorf("starting %s: %w", k.ID, err)
		}
		now.machine, _ = s.machines.Machine(k.ID)
	}
	s.booted.set(k, now)
	return s.completeRootTask(ctx, k, i)
}

// showAttachments updates a running machine's network interfaces and volumes.
func (s runner) showAttachments(ctx context.Context, k store.Key, i record.Instance) error {
	if s.machines == nil {
		return nil
	}
	m, ok := s.machines.Machine(k.ID)
	if !ok {
		return nil
	}
	if m.Abilities().Has(machine.Interfaces) {
		if err := m.SetInterfaces(ctx, s.machineInterfaces(resource.KeyScope(k), i)); err != nil && !errors.Is(err, machine.ErrOff) {
			return fmt.Errorf("network interfaces of %s: %w", k.ID, err)
		}
	}
	if m.Abilities().Has(machine.Volumes) {
		volumes, err := s.machineVolumes(resource.KeyScope(k), i, m.Instance().Image)
		if err == nil {
			err = m.SetVolumes(ctx, volumes)
		}
		if err != nil && !errors.Is(err, machine.ErrOff) {
			return fmt.Errorf("volumes of %s: %w", k.ID, err)
		}
	}
	return nil
}

func (s runner) stopMachine(ctx context.Context, k store.Key) error {
	if s.machines != nil {
		if err := s.machines.Stop(ctx, k.Account, k.Region, k.ID); err != nil {
			return fmt.Errorf("stopping %s: %w", k.ID, err)
		}
	}
	s.booted.remove(k)
	return nil
}

// machine returns the instance's description for the runtime.
func (s *Service) machine(sc resource.Scope, i record.Instance) (machine.Instance, error) {
	userData, err := base64.StdEncoding.DecodeString(i.UserData)
	if err != nil {
		return machine.Instance{}, fmt.Errorf("user data of %s: %w", i.ID, err)
	}
	if len(userData) == 0 {
		userData = nil
	}
	var private netip.Addr // none in an IPv6-only subnet
	if i.PrivateIP != "" {
		if private, err = netip.ParseAddr(i.PrivateIP); err != nil {
			return machine.Instance{}, fmt.Errorf("address of %s: %w", i.ID, err)
		}
	}
	m := machine.Instance{
		Account: sc.Account, Region: sc.Region, ID: i.ID, ReservationID: i.ReservationID, LaunchTime: i.LaunchTime,
		BootID: fmt.Sprintf("%d/%d", i.LaunchTime.UnixNano(), i.Boot),
		VPCID:  i.VPCID, SubnetID: i.SubnetID, AvailabilityZone: i.Zone, ZoneID: i.ZoneID,
		PrivateIP: private, PrivateDNSName: i.PrivateDNSName(sc.Region), PublicDNSName: i.PublicDNSName(s.Store, sc),
		UserData: userData, KeyName: i.KeyName, Spot: i.SpotRequestID != "", Operator: i.Operator, Tags: i.Tags.With(nil),
	}
	m.Type, _ = instancetypes.Lookup(i.Type)
	m.Type.VCPU = i.VCPUs()
	if i.BaseImage == "" { // launched by an older version of Drydock
		m.Image, _ = s.images.ResolveImage(sc, i.ImageID)
	} else {
		m.Image, _ = images.ByName(sc.Region, i.BaseImage)
	}
	m.Image.ID = i.ImageID // set even if the image no longer exists
	m.DiskGiB = s.volume(sc, i, dataDevice(i, m.Image)).SizeGiB
	m.RootSnapshot = s.volume(sc, i, i.RootDevice).SnapshotID
	if m.Volumes, err = s.machineVolumes(sc, i, m.Image); err != nil {
		return machine.Instance{}, fmt.Errorf("volumes of %s: %w", i.ID, err)
	}
	m.PublicIP, _ = netip.ParseAddr(i.PublicIP) // the zero Addr if there is none
	if i.Profile != nil {
		m.ProfileARN, m.RoleARN = i.Profile.ARN, i.Profile.RoleARN
	}
	if m.Interfaces = s.machineInterfaces(sc, i); len(m.Interfaces) > 0 {
		m.MAC = m.Interfaces[0].MAC
		if n := slices.IndexFunc(m.Interfaces[0].Addresses, netip.Addr.Is6); n >= 0 {
			m.IPv6 = m.Interfaces[0].Addresses[n]
		}
	}
	return m, nil
}

// machineInterfaces returns the instance's network interfaces for the runtime.
func (s *Service) machineInterfaces(sc resource.Scope, i record.Instance) []machine.Interface {
	var out []machine.Interface
	for _, e := range i.AttachedInterfaces(s.Store, sc) {
		n := machine.Interface{ID: e.ID, Device: int(e.Attachment.DeviceIndex), MAC: e.MAC, SubnetID: e.SubnetID, SecurityGroupIDs: slices.Clone(e.Groups)}
		for _, text := range slices.Concat(e.Addresses, e.IPv6) {
			if ip, err := netip.ParseAddr(text); err == nil {
				n.Addresses = append(n.Addresses, ip)
			}
		}
		n.Prefixes = slices.Concat(record.ParsePrefixes(e.Prefixes), record.ParsePrefixes(e.Prefixes6))
		out = append(out, n)
	}
	return out
}

// machineVolumes returns the instance's volumes for the runtime, without those of its operating system.
func (s *Service) machineVolumes(sc resource.Scope, i record.Instance, img images.Image) ([]machine.Volume, error) {
	var out []machine.Volume
	for _, d := range i.Devices {
		if d.Name == i.RootDevice || d.Name == dataDevice(i, img) {
			continue
		}
		v, err := storage.Volumes.Get(s.Store, sc.Key(d.VolumeID))
		if resource.NotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, machine.Volume{ID: v.ID, SizeGiB: v.SizeGiB, SnapshotID: v.SnapshotID})
	}
	return out, nil
}

// dataDevice returns the device of the volume that holds the operating system's data. Bottlerocket keeps images,
// containers and logs on a separate volume.
// https://github.com/bottlerocket-os/bottlerocket#default-volumes
func dataDevice(i record.Instance, img images.Image) string {
	if img.Family == images.Bottlerocket {
		return bottlerocketData
	}
	return i.RootDevice
}

// volume returns the volume attached as a device, or the zero Volume if no volume is attached there.
func (s *Service) volume(sc resource.Scope, i record.Instance, device string) storage.Volume {
	for _, d := range i.Devices {
		if d.Name == device {
			v, _ := storage.Volumes.Get(s.Store, sc.Key(d.VolumeID))
			return v
		}
	}
	return storage.Volume{}
}

// bottlerocketData is the device name of Bottlerocket's data volume.
const bottlerocketData = "/dev/xvdb"

package ami

import (
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// The states of a service, in systemd's words.
type state string

const (
	inactive   state = "inactive (dead)"
	active     state = "active (running)"
	restarting state = "activating (auto-restart) (Result: exit-code)"
	crashed    state = "failed (Result: exit-code)"
	killed     state = "failed (Result: signal)"
)

// short returns the word that is-active prints for a state.
func (s state) short() string {
	word, _, _ := strings.Cut(string(s), " ")
	return word
}

// sub returns the finer state that show prints: running for active (running).
func (s state) sub() string {
	_, rest, _ := strings.Cut(string(s), "(")
	word, _, _ := strings.Cut(rest, ")")
	if s == crashed || s == killed {
		return "failed"
	}
	return word
}

type service struct {
	state state
	since time.Time
	pid   int
	// restarts counts the restarts by systemd after failures, since it was last started by hand.
	restarts int
	// removed means that its package was removed. The record stays, because a command may be about to use it.
	removed bool
}

// Where systemd keeps units: those of packages, those of the machine, and links to those that start at boot. All but
// the first are on the disk and survive a reboot.
const (
	packageUnits = "/usr/lib/systemd/system/"
	machineUnits = "/etc/systemd/system/"
	wants        = machineUnits + "multi-user.target.wants/"
)

// unitFile returns the file of a unit: the machine's, which comes first, or the package's.
func unitFile(files *vfs.FS, unit string) string {
	if _, err := files.Lstat(machineUnits + unit + ".service"); err == nil {
		return machineUnits + unit + ".service"
	}
	return packageUnits + unit + ".service"
}

func enable(files *vfs.FS, unit string) error {
	if enabled(files, unit) {
		return nil
	}
	if err := files.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	return files.Symlink(unitFile(files, unit), wants+unit+".service")
}

func disable(files *vfs.FS, unit string) { _ = files.Remove(wants + unit + ".service") } // it may not be enabled

func enabled(files *vfs.FS, unit string) bool {
	_, err := files.Lstat(wants + unit + ".service")
	return err == nil
}

// defaultTarget is a link that every image has.
const defaultTarget = machineUnits + "default.target"

// linkUnits links the services that the image starts. It does nothing on a disk that has the links already, because some may
// have been removed since. A disk without the default target is from a version that had none of the links.
func (m *Machine) linkUnits() error {
	if _, err := m.FS.Lstat(defaultTarget); err == nil {
		return nil
	}
	for _, name := range atBoot(m.In.Image) {
		if static(name) || masked(m.FS, name) {
			continue
		}
		if err := enable(m.FS, name); err != nil {
			return err
		}
	}
	return m.FS.Symlink(packageUnits+"multi-user.target", defaultTarget)
}

// static reports whether a unit starts at boot because others need it. It can be neither enabled nor disabled.
func static(unit string) bool { return unit == "systemd-journald" || unit == "systemd-logind" }

// masked reports whether a unit is a link to /dev/null, which keeps it from starting.
func masked(files *vfs.FS, unit string) bool {
	to, err := files.Readlink(machineUnits + unit + ".service")
	return err == nil && to == "/dev/null"
}

// atBoot returns the services that an image starts by itself.
func atBoot(i images.Image) []string {
	if i.Family == images.Bottlerocket { // the agent runs in the control container
		return []string{"chronyd", "containerd", "systemd-journald", agentPackage}
	}
	out := []string{"chronyd", "crond", "rsyslog", "sshd", "systemd-journald", "systemd-logind"}
	if HasAgent(i) {
		out = append(out, agentPackage)
	}
	if forNodes(i) {
		out = append(out, "containerd")
	}
	return out
}

// forNodes reports whether an image is one of EKS's, and not plain Amazon Linux.
func forNodes(i images.Image) bool { return i.KubeletVersion != "" }

// services returns the units of an image that matter to a node's life. containerd runs from boot, the kubelet once
// something starts it.
func services(i images.Image) []string {
	if i.Family == images.Bottlerocket {
		return append(atBoot(i), "kubelet")
	}
	out := append(atBoot(i), "cloud-init", "cloud-final")
	if !forNodes(i) {
		return out
	}
	out = append(out, "kubelet")
	if i.Family == images.AL2023 {
		out = append(out, "nodeadm-boot-hook", "nodeadm-config", "nodeadm-run")
	}
	return out
}

// title returns a unit's description, as in its file.
// https://github.com/awslabs/amazon-eks-ami/tree/main/templates/al2023/runtime/rootfs/etc/systemd/system
func title(name string) string {
	if t, ok := map[string]string{
		"amazon-ssm-agent": "amazon-ssm-agent", "chronyd": "NTP client/server", "cloud-final": "Execute cloud user/final scripts",
		"cloud-init": "Initial cloud-init job (metadata service crawler)", "containerd": "containerd container runtime", "crond": "Command Scheduler",
		"kubelet": "Kubernetes Kubelet", "nodeadm-boot-hook": "EKS Nodeadm Boot Hook", "nodeadm-config": "EKS Nodeadm Config", "nodeadm-run": "EKS Nodeadm Run",
		"rsyslog": "System Logging Service", "sshd": "OpenSSH server daemon", "systemd-journald": "Journal Service", "systemd-logind": "User Login Management",
	}[name]; ok {
		return t
	}
	return name
}

// StartServices starts the services that start at boot.
func (m *Machine) StartServices() {
	_ = m.linkUnits() // a full disk has already been reported
	if m.AgentVersion() == "" {
		m.removeAgent(m.FS)
	}
	if LacksConnect(m.In.Image, m.FS) {
		_ = m.installConnect(m.FS)
	}
	if m.In.Image.Family == images.Bottlerocket {
		m.loadSettings()
	}
	list, _ := m.FS.ReadDir(wants) // if it does not exist, nothing is enabled
	var names []string
	for _, name := range atBoot(m.In.Image) {
		if static(name) {
			names = append(names, name)
		}
	}
	for _, e := range list {
		names = append(names, strings.TrimSuffix(e.Name(), ".service"))
	}
	for _, name := range names {
		if masked(m.FS, name) || m.switchedOff(name) {
			continue
		}
		m.mu.Lock()
		if m.services[name] == nil {
			m.services[name] = &service{state: inactive}
		}
		m.mu.Unlock()
		m.start(name)
	}
}

// start starts a unit. It does nothing if the unit is running.
func (m *Machine) start(unit string) {
	if m.begin(unit) {
		m.changed(unit)
	}
}

// begin marks a unit as running. It returns false if the unit was already running.
func (m *Machine) begin(unit string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.services[unit]
	if u.state == active {
		return false
	}
	u.state, u.since, u.pid, u.restarts = active, m.world.Clock.Now(), m.nextPID(), 0
	m.tell(unit, "Started", "")
	return true
}

func (m *Machine) stop(unit string) {
	m.mu.Lock()
	u := m.services[unit]
	was := u.state
	u.state, u.since = inactive, m.world.Clock.Now()
	if was != inactive {
		m.tell(unit, "Stopped", "")
	}
	m.mu.Unlock()
	if was != inactive {
		m.changed(unit)
	}
}

// firstPID is the first process ID of services; each start gets a new one.
const firstPID = 1500

func (m *Machine) nextPID() int {
	m.pids++
	return firstPID + m.pids*7%30000
}

func (m *Machine) changed(unit string) {
	if unit == "kubelet" {
		select {
		case m.kubelet <- struct{}{}:
		default:
		}
	}
}

// maxServices is how many units a machine remembers, including those whose files were removed.
const maxServices = 1000

// unit finds a unit, or creates one from a unit file that user data installed. Such a unit can be started and
// stopped, but runs nothing.
func (m *Machine) unit(files *vfs.FS, name string) *service {
	m.mu.Lock()
	defer m.mu.Unlock()
	svc := m.services[name]
	if svc != nil && !svc.removed {
		return svc
	}
	for _, dir := range []string{machineUnits, packageUnits} {
		if _, err := files.Stat(dir + name + ".service"); err == nil && (svc != nil || len(m.services) < maxServices) {
			if svc == nil {
				svc = &service{state: inactive}
				m.services[name] = svc
			}
			svc.removed = false
			return svc
		}
	}
	return nil
}

// names returns all units, sorted.
func (m *Machine) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for n, svc := range m.services {
		if !svc.removed {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// Boots reports whether a unit starts when the machine boots.
func (m *Machine) Boots(unit string) bool {
	return m.enabledWord(m.FS, unit) == "enabled" && !m.switchedOff(unit)
}

// switchedOff reports whether a unit does not run because Bottlerocket's control container, in which the agent is, does not.
func (m *Machine) switchedOff(unit string) bool {
	return unit == agentPackage && m.In.Image.Family == images.Bottlerocket && !m.hostContainer("control")
}

// Refresh kills a unit if there is a fault that does not let it run, and starts the unit again when the fault is over, as
// systemd does.
func (m *Machine) Refresh(unit string) {
	if m.world.Broken == nil {
		return
	}
	broken := m.world.Broken(unit)
	m.mu.Lock()
	u := m.services[unit]
	die := u != nil && broken && u.state == active
	if die {
		u.state, u.since = killed, m.world.Clock.Now()
		m.log(unit, "systemd", unit+".service: Main process exited, code=killed, status=9/KILL")
		m.log(unit, "systemd", unit+".service: Failed with result 'signal'.")
	}
	revive := u != nil && !broken && u.state == killed
	m.mu.Unlock()
	switch {
	case die:
		m.changed(unit)
	case revive:
		m.start(unit)
	}
}

// Active reports whether a unit is running.
func (m *Machine) Active(unit string) bool {
	m.Refresh(unit)
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.services[unit]
	return u != nil && u.state == active
}

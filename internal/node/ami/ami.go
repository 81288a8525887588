// Package ami is what an EKS-optimised image has beyond a shell: its files, its services, and the programs that user
// data calls — bootstrap.sh or nodeadm, systemctl, journalctl, curl, imds.
//
// It runs nothing itself: scripts come from cloud-init through a sandbox, and the runtime acts on the kubelet's
// configuration files (Kubelet). The network is the instance's own, given by World. May be imported by packages under
// internal/node.
package ami

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/cfnbootstrap"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// World is what the machine can reach outside itself.
type World struct {
	// Metadata connects to the instance metadata service.
	Metadata http.RoundTripper
	// HTTP sends requests through the instance's network. It returns errors for names that do not resolve
	// (*net.DNSError) and for connections that time out.
	HTTP http.RoundTripper
	// Dial connects to a host like a program on the machine.
	Dial func(ctx context.Context, host string, port int) (net.Conn, error)
	// Kubectl runs kubectl: kubectl.Runner.Run. Nil means that the machine has none.
	Kubectl func(ctx context.Context, c *shell.Call, m kubectl.Machine) int
	// DescribeCluster calls EKS as the instance's role, through the instance's network. The error is AWS's or the
	// network's, as the AWS CLI prints it after its own prefix.
	DescribeCluster func(ctx context.Context, region, name string) (node.ClusterInfo, error)
	// PrivateDNSName gets the instance's private DNS name from EC2 as the instance's role, by DescribeInstances. If
	// nil, Instance.PrivateDNSName is used.
	PrivateDNSName func(ctx context.Context) (string, error)
	// Broken reports whether a fault kills a service whenever it runs or, for DiskFull, fills the disk. Nil means that
	// there are no faults.
	Broken func(unit string) bool
	// Surroundings is what the programs that inspect the machine see.
	Surroundings Surroundings
	Clock        clock.Clock
	// Patience divides the waits between the attempts of programs. 1 waits as long as AWS's programs do.
	Patience int
}

// A Machine is one instance with its image.
type Machine struct {
	In    machine.Instance
	FS    *vfs.FS
	world World
	born  time.Time // when it booted

	mu           sync.Mutex
	services     map[string]*service
	pids         int // the number of PIDs assigned so far
	journal      []entry
	logged       int             // how many entries have been logged since boot; the oldest may have been dropped
	messages     sync.Mutex      // while rsyslog writes its log
	written      int             // logged when it last did
	grown        chan struct{}   // closed when the journal grows; nil if nothing waits for that
	nodeadmFiles []userdata.File // as nodeadm last wrote them
	// seen are the kubelet's files as the script that last controlled the kubelet saw them, until it ends: its changes are
	// not on the disk before. A nil file does not exist.
	seen    map[string][]byte
	kubelet chan struct{} // signalled when the kubelet must be (re)started or stopped

	settingsMu sync.Mutex     // held while Bottlerocket's settings change or are read; taken before mu
	modified   map[string]any // the settings that apiclient set has changed: strings and booleans by key
}

// CloudInitVersion returns the version of cloud-init in images of that family.
func CloudInitVersion(f images.Family) string {
	if f == images.AL2 {
		return "19.3-46.amzn2.0.4"
	}
	return "22.2.2"
}

// SSHVersion returns the version that sshd announces in images of that family.
func SSHVersion(f images.Family) string {
	if f == images.AL2 {
		return "OpenSSH_7.4"
	}
	return "OpenSSH_8.7"
}

// New builds the machine's file system as its image has it.
func New(in machine.Instance, world World) (*Machine, error) {
	if world.Clock == nil {
		world.Clock = clock.RealClock{}
	}
	if world.Patience < 1 {
		world.Patience = 1
	}
	m := &Machine{
		In: in, FS: vfs.New(vfs.DefaultLimits, world.Clock.Now), world: world, born: world.Clock.Now(),
		services: map[string]*service{}, kubelet: make(chan struct{}, 1),
	}
	for _, name := range services(in.Image) {
		m.services[name] = &service{state: inactive}
	}
	for _, dir := range folders {
		if err := m.FS.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for _, f := range m.files() {
		if err := m.FS.MkdirAll(path.Dir(f.name), 0o755); err != nil {
			return nil, err
		}
		if err := m.FS.WriteFile(f.name, []byte(f.text), f.mode); err != nil {
			return nil, err
		}
	}
	if hasConnect(in.Image) {
		if err := m.installConnect(m.FS); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if err := m.FS.Chmod(dir, fs.ModeSticky|0o777); err != nil {
			return nil, err
		}
	}
	home := []string{"/home/ec2-user", "/home/ec2-user/.bash_profile", "/home/ec2-user/.bashrc"}
	if in.Image.Family == images.Bottlerocket {
		home = []string{"/home/ssm-user"}
		if err := m.FS.MkdirAll(home[0], 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range home {
		if err := m.FS.Chown(name, 1000, 1000); err != nil {
			return nil, err
		}
	}
	return m, m.linkUnits()
}

// programs are the image's programs beyond the shell's own. Programs outside of the usual folders have full paths.
func (m *Machine) program(name string) func(context.Context, *shell.Call) int {
	switch name {
	case "/etc/eks/bootstrap.sh":
		if m.In.Image.Family == images.AL2 {
			return m.bootstrap
		}
		return noBootstrap
	case "systemctl":
		return m.systemctl
	case "service":
		return m.serviceCommand
	case "journalctl":
		return m.journalctl
	case "curl":
		return m.curl
	case "wget":
		return m.wget
	case "tail":
		return m.tail
	case "imds":
		return m.imds
	case "ec2-metadata":
		return m.ec2MetadataCommand
	case "aws":
		return m.aws
	case "aws-iam-authenticator":
		if m.In.Image.KubeletVersion != "" && m.In.Image.Family == images.AL2 {
			return m.authenticator
		}
	case "kubectl":
		if m.world.Kubectl != nil {
			return m.kubectlCommand
		}
	case "yum", "rpm", "dnf", "amazon-linux-extras":
		return m.packageManager(name)
	case "nodeadm":
		if m.In.Image.Family == images.AL2023 {
			return m.nodeadm
		}
	case "kubelet":
		return m.kubeletCommand
	}
	if p := m.inspector(name); p != nil {
		return p
	}
	if slices.Contains(cfnbootstrap.Programs, path.Base(name)) && (path.Dir(name) == "." || path.Dir(name) == "/opt/aws/bin") {
		return m.cfn
	}
	return nil
}

// Outside runs the image's programs for shell.Job.
func (m *Machine) Outside(ctx context.Context, c *shell.Call) (int, bool) {
	name := c.Args[0]
	if path.IsAbs(name) {
		switch dir := path.Dir(name); dir {
		case "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin":
			name = path.Base(name)
		default:
			// The user may have replaced bootstrap.sh.
			if i, err := c.FS.Stat(name); err == nil && name == "/etc/eks/bootstrap.sh" && i.Size() != int64(len(bootstrapStub)) {
				return 0, false
			}
		}
	}
	p := m.program
	if m.In.Image.Family == images.Bottlerocket {
		p = func(name string) func(context.Context, *shell.Call) int { return m.bottlerocketProgram(c, name) }
	}
	run := p(name)
	if run == nil {
		return 0, false
	}
	return run(ctx, c), true
}

// ErrNotStarted says that nothing started the kubelet.
var ErrNotStarted = errors.New("the kubelet was not started")

// KubeletChanged is signalled when something on the machine has started, restarted or stopped the kubelet.
func (m *Machine) KubeletChanged() <-chan struct{} { return m.kubelet }

// Signal signals KubeletChanged again, for a caller that has read the signal but leaves the change to somebody else.
func (m *Machine) Signal() { m.changed("kubelet") }

// Kubelet returns the kubelet's configuration for joining, ErrNotStarted if nothing started it, or the error in its
// log if it cannot start with its configuration.
func (m *Machine) Kubelet() (*userdata.Config, error) {
	m.mu.Lock()
	s := m.services["kubelet"]
	m.mu.Unlock()
	if s == nil || s.state == inactive {
		return nil, ErrNotStarted
	}
	cfg, err := userdata.FromKubeletFiles(m.readKubelet)
	m.failedToStart(err)
	return cfg, err
}

// StartKubelet marks the kubelet as running, on an image that starts it by itself.
func (m *Machine) StartKubelet() { m.begin("kubelet") }

// Configure writes the kubelet's files as nodeadm does at every boot of Amazon Linux 2023, and starts the kubelet. It does
// nothing on other images. resumed means that the machine has not booted, but continues: then its disk may have the files
// already, and kept is true if so.
func (m *Machine) Configure(cfg *userdata.Config, name string, maxPods int, resumed bool) (kept bool, err error) {
	if m.In.Image.Family != images.AL2023 {
		return false, nil
	}
	files, err := cfg.NodeadmFiles(m.In.Region, name, m.nodeIP(cfg.IPv6()).String(), "aws:///"+m.In.AvailabilityZone+"/"+m.In.ID, maxPods)
	if err != nil {
		return false, err
	}
	for _, f := range files {
		_, err := m.FS.Lstat(f.Name)
		kept = kept || resumed && err == nil
	}
	for _, f := range files {
		if kept {
			break
		}
		if err := m.FS.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
			return false, err
		}
		if err := m.FS.WriteFile(f.Name, []byte(f.Text), f.Mode); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	m.nodeadmFiles = files
	m.mu.Unlock()
	m.NodeadmDone()
	m.begin("kubelet")
	return kept, nil
}

// nodeIP returns the address that the kubelet is given.
func (m *Machine) nodeIP(ipv6 bool) netip.Addr {
	if ipv6 {
		return m.In.IPv6
	}
	return m.In.PrivateIP
}

// Reread returns the configuration of a restarted kubelet. cfg is the configuration that Configure wrote to its files.
func (m *Machine) Reread(cfg *userdata.Config) (*userdata.Config, error) {
	if !m.Active("kubelet") {
		return nil, ErrNotStarted
	}
	m.mu.Lock()
	files := m.nodeadmFiles
	m.mu.Unlock()
	out, err := cfg.FromNodeadmFiles(m.readKubelet, files)
	m.failedToStart(err)
	return out, err
}

// failedToStart logs why the kubelet exited at once, unless err is nil.
func (m *Machine) failedToStart(err error) {
	if err == nil {
		return
	}
	m.Klog("kubelet", 'E', "run.go:72", "command failed", "err", err) // k8s.io/component-base/cli, 1.36
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := []string{"kubelet.service: Main process exited, code=exited, status=1/FAILURE", "kubelet.service: Failed with result 'exit-code'."}
	if m.In.Image.Family == images.AL2 { // systemd 219
		lines = []string{"kubelet.service: main process exited, code=exited, status=1/FAILURE", "Unit kubelet.service entered failed state.", "kubelet.service failed."}
	}
	for _, l := range lines {
		m.log("kubelet", "systemd", l)
	}
	if u := m.services["kubelet"]; u != nil {
		u.state, u.since = restarting, m.world.Clock.Now()
	}
}

// RestartDelay is how long systemd waits until it restarts a kubelet that has failed (RestartSec of its unit).
const RestartDelay = 5 * time.Second

// KubeletFailed reports whether the kubelet has failed, and systemd will restart it.
func (m *Machine) KubeletFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.services["kubelet"] != nil && m.services["kubelet"].state == restarting
}

// KubeletInactive reports whether the kubelet was never started, or was stopped. Faults do not change that.
func (m *Machine) KubeletInactive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.services["kubelet"] == nil || m.services["kubelet"].state == inactive
}

// RestartKubelet restarts a kubelet that has failed, as systemd does. It does nothing if the kubelet was started or
// stopped in the meantime.
func (m *Machine) RestartKubelet() {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.services["kubelet"]
	if u == nil || u.state != restarting {
		return
	}
	u.restarts++
	text := fmt.Sprintf("kubelet.service: Scheduled restart job, restart counter is at %d.", u.restarts)
	if m.In.Image.Family == images.AL2 {
		text = "kubelet.service holdoff time over, scheduling restart."
	}
	m.log("kubelet", "systemd", text)
	m.tell("kubelet", "Stopped", "")
	u.state, u.since, u.pid = active, m.world.Clock.Now(), m.nextPID()
	m.tell("kubelet", "Started", "")
}

// Disk returns the size of the root volume and how much of it a view of its files uses, in bytes.
func (m *Machine) Disk(files *vfs.FS) (total, used int64) {
	total = int64(cmp.Or(m.In.DiskGiB, 20)) << 30
	if m.world.Broken != nil && m.world.Broken(DiskFull) {
		return total, total
	}
	return total, files.Used()
}

// DiskFull is the argument of World.Broken that asks whether the root volume is full.
const DiskFull = "disk"

// wait sleeps between the attempts of a program.
func (m *Machine) wait(ctx context.Context, d time.Duration) bool {
	return timing.Sleep(ctx, m.world.Clock, d/time.Duration(m.world.Patience))
}

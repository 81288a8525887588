package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/sshd"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// Programs are what the programs of an image need that the daemon runs: the same as on simulated machines. See
// simulated.Options and ami.World. All are required.
type Programs struct {
	Kubectl         func(ctx context.Context, c *shell.Call, m kubectl.Machine) int
	HTTP            func(in machine.Instance) http.RoundTripper
	DescribeCluster func(ctx context.Context, in machine.Instance, region, name string) (node.ClusterInfo, error)
	Resolve         func(ctx context.Context, in machine.Instance, name string) ([]netip.Addr, error)
	Ping            func(ctx context.Context, in machine.Instance, host string) (netip.Addr, error)
	Subnet          func(in machine.Instance, id string) netip.Prefix
	Broken          func(in machine.Instance, unit string) *fault.Fault
	Patience        int
	// HostKeys is the secret from which the SSH host keys of machines are derived.
	HostKeys []byte
}

// An image is what Amazon's images have besides the userland of a Linux: services, and programs that neither every Linux
// has nor work without systemd. They run in the daemon, on a copy of the machine's files that they read or write.
type image struct {
	i   *instance
	ami *ami.Machine

	files  machine.Files
	logged map[string]int // how much of a unit's log is in the journal, in bytes
	busy   chan struct{}  // held by whoever uses files or logged
}

// newImage returns the image of an instance, or nil if it has no shell.
func newImage(i *instance) (*image, error) {
	if i.in.Image.Family == images.Bottlerocket {
		return nil, nil
	}
	p := &i.rt.options.Programs
	m := &image{i: i, logged: map[string]int{}, busy: make(chan struct{}, 1)}
	dial := func(ctx context.Context, host string, port int) (net.Conn, error) {
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" && p.Resolve != nil {
			all, err := p.Resolve(ctx, i.in, host)
			if err != nil {
				return nil, err
			}
			host = all[0].String()
		}
		return i.machine.Dial(ctx, host, port)
	}
	var err error
	m.ami, err = ami.New(i.in, ami.World{
		Clock: i.rt.clock, Patience: p.Patience, Metadata: i.rt.options.Metadata(i.in.ID), HTTP: p.HTTP(i.in), Dial: dial, Kubectl: p.Kubectl,
		DescribeCluster: func(ctx context.Context, region, name string) (node.ClusterInfo, error) {
			info, err := p.DescribeCluster(ctx, i.in, region, name)
			i.step(ctx, node.StepDescribe, err, "cluster "+name+" at "+info.Endpoint)
			return info, err
		},
		PrivateDNSName: func(ctx context.Context) (string, error) {
			err := i.call(ctx, node.ActionDescribeInstances)
			i.step(ctx, node.StepName, err, i.in.PrivateDNSName)
			return i.in.PrivateDNSName, err
		},
		Broken: func(unit string) bool { return p.Broken(i.in, unit) != nil },
		Surroundings: ami.Surroundings{
			Pods: i.sandboxes, ContainerLog: i.containerLog, UsedDisk: i.usedDisk, UsedMemory: i.usedMemory, Load: i.load, Rules: "kube-proxy's rules are shown by nft list ruleset",
			Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) { return p.Resolve(ctx, i.in, name) },
			Ping:    func(ctx context.Context, host string) (netip.Addr, error) { return p.Ping(ctx, i.in, host) },
			Connect: func(ctx context.Context, host string, port int) error {
				c, err := dial(ctx, host, port)
				if err != nil {
					return err
				}
				return c.Close()
			},
		},
	})
	return m, err
}

// hosts are the programs that a machine takes from the userland of the real one, whether it has them or not.
var hosts = []string{"ip", "ss", "ps", "top", "nft"}

// own are the programs that take the place of those of the real machine, which would not work or show the real machine. iptables
// is not one of them: that of the real machine shows the rules of this one.
var own = []string{"df", "free", "uptime", "systemctl", "service", "journalctl", "hostnamectl", "lscpu", "kubelet", "nodeadm", "yum", "dnf", "rpm", "crictl", "ctr", "ping"}

// tools returns the programs that the daemon runs: see inside.MachineConfig.
func (m *image) tools() []string {
	var out []string
	for _, name := range m.ami.Programs() {
		switch {
		case slices.Contains(hosts, name) || strings.HasPrefix(name, "/etc/"):
		case slices.Contains(own, name):
			out = append(out, "!"+name)
		default:
			out = append(out, name)
		}
	}
	return append(out, "ec2-metadata", "!"+bootstrapTool, "nft="+inside.Bin+"/nft")
}

// countTime bounds how long one measurement takes.
const countTime = 5 * time.Second

// usedDisk counts the bytes that the machine's own files use. It returns 0 for what it cannot count in time.
func (i *instance) usedDisk(ctx context.Context) int64 {
	return i.count(ctx, "du -skxc /etc /var /home /root /tmp /mnt /srv 2>/dev/null | tail -n 1 | cut -f 1")
}

// usedMemory counts the bytes of the memory of the machine's processes. It returns 0 for what it cannot count in time.
func (i *instance) usedMemory(ctx context.Context) int64 { return i.count(ctx, "ps -e -o rss=") }

// maxLoad bounds what is read of /proc/loadavg, in bytes: root may put any file in its place.
const maxLoad = 128

// load returns the content of /proc/loadavg, which the machine's first process writes.
func (i *instance) load() string {
	text, _ := i.machine.ReadAt("/proc/loadavg", 0, maxLoad) // the machine may be going off
	return string(text)
}

// count runs a script and returns the sum of the kibibytes that it prints, in bytes.
func (i *instance) count(ctx context.Context, script string) int64 {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	var out bytes.Buffer
	if _, err := machine.Run(ctx, i.machine, machine.Command{Args: []string{"sh", "-c", script}, Stdout: &out}); err != nil {
		return 0
	}
	var sum int64
	for _, field := range strings.Fields(out.String()) {
		kib, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		sum += kib << 10
	}
	return sum
}

// bootstrapTool is the name under which the image's script calls itself.
const (
	bootstrapTool   = "eks-bootstrap"
	bootstrapScript = "/etc/eks/bootstrap.sh"
)

// lock waits until no other command uses the copy of the machine's files.
func (m *image) lock(ctx context.Context) bool {
	select {
	case m.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (m *image) unlock() { <-m.busy }

// others are files that the machine's first process writes.
var others = []string{"/etc/passwd", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}

// install writes the image's files to a disk that does not have them.
func (m *image) install() error {
	_, err := m.files.Stat(sshd.ConfigFile)
	old := ami.LacksConnect(m.i.in.Image, m.files)
	fresh := errors.Is(err, fs.ErrNotExist) || old
	for _, r := range m.ami.FS.Image() {
		ours := strings.HasPrefix(r.Path, "/etc/") || strings.HasPrefix(r.Path, "/var/") || fresh && strings.HasPrefix(r.Path+"/", "/opt/aws/bin/")
		if !ours || slices.Contains(others, r.Path) {
			continue
		}
		var err error
		switch {
		case r.Mode.IsDir():
			err = m.files.MkdirAll(r.Path, r.Mode.Perm())
		case r.Mode&fs.ModeSymlink != 0:
			if err = m.i.machine.Symlink(r.Target, r.Path); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		default:
			if _, err = m.files.Stat(r.Path); !errors.Is(err, fs.ErrNotExist) && (!old || r.Path != sshd.ConfigFile) {
				continue
			}
			if r.Path == bootstrapScript {
				r.Data = []byte("#!/bin/sh\nexec " + bootstrapTool + " \"$@\"\n")
			}
			err = m.files.WriteFile(r.Path, r.Data, r.Mode.Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts the image's services and programs, which run until ctx ends.
func (m *image) start(ctx context.Context) error {
	var err error
	if m.files, err = m.i.machine.Files(); err != nil {
		return err
	}
	if err := m.install(); err != nil {
		return err
	}
	m.skipLogs()
	m.pull("/etc/systemd/system", "/var/lib/rpm")
	m.ami.StartServices()
	if err := m.i.machine.Tools(ctx, m.run); err != nil {
		return err
	}
	if err := sshd.MakeHostKeys(m.files, m.i.rt.options.Programs.HostKeys, m.i.in.ID, m.i.in.PrivateDNSName); err != nil {
		return err
	}
	server := sshd.New(sshd.Config{
		Host: m.i.machine, Files: m.files, SFTP: []string{"sftp-server"}, Keys: m.connectKeys, Version: ami.SSHVersion(m.i.in.Image.Family),
		Log: func(text string) { m.ami.Log("sshd", text) }, HostKeys: func() ([]ssh.Signer, error) { return sshd.HostKeys(m.files) },
	})
	return m.i.machine.Listen(ctx, 22, func() bool { return m.ami.Active("sshd") }, func(c net.Conn) { server.Serve(ctx, c) })
}

// connectKeys returns the keys that EC2 Instance Connect has sent for a user.
func (m *image) connectKeys(ctx context.Context, user string) []string {
	text, err := m.metadata().Get(ctx, "meta-data/managed-ssh-keys/active-keys/"+user)
	if err != nil {
		return nil // there are no keys, or the metadata service is off
	}
	return strings.Split(string(text), "\n")
}

func (m *image) metadata() imds.Client {
	return imds.Client{Transport: m.i.rt.options.Metadata(m.i.in.ID)}
}

// cloudInit runs user data and records the results.
func (m *image) cloudInit(ctx context.Context, userData []byte) error {
	var keys []string
	key, err := m.metadata().Get(ctx, "meta-data/public-keys/0/openssh-key")
	if err == nil {
		keys = append(keys, string(key))
	} else if !errors.Is(err, imds.ErrNotFound) {
		return err
	}
	res, err := m.i.machine.CloudInit(ctx, inside.CloudInit{UserData: userData, Version: ami.CloudInitVersion(m.i.in.Image.Family), User: "ec2-user", Keys: keys})
	if err != nil {
		return err
	}
	if err := m.i.machine.Print(ctx, sshd.Announce(m.files)); err != nil {
		return err
	}
	failed := map[string]string{}
	for _, f := range res.Failures {
		failed[f.What] = f.Reason
		m.i.step(ctx, machine.EventScript, errors.New(f.Module+": "+f.What+": "+f.Reason), "")
	}
	for _, s := range res.Scripts {
		if failed[s] == "" {
			m.i.step(ctx, machine.EventScript, nil, s+" succeeded")
		}
	}
	if err := res.UnknownCommands(); err != nil {
		m.i.step(ctx, machine.EventScript, err, "")
	}
	return nil
}

// watched are the folders and files of the machine that the image's programs read.
var watched = []string{"/etc/passwd", "/etc/group", "/etc/eks", "/etc/kubernetes", "/etc/ssh/sshd_config", "/etc/systemd/system", "/etc/cfn", "/var/lib/kubelet/kubeconfig", "/var/lib/rpm"}

// Bounds of what is copied for one program.
const (
	maxCopied = 1 << 20
	maxDepth  = 6
)

// pull copies files of the machine, as root sees them.
func (m *image) pull(names ...string) {
	for _, name := range names {
		m.pullOne(name, maxDepth)
	}
}

func (m *image) pullOne(name string, depth int) {
	if name == bootstrapScript || depth == 0 {
		return
	}
	i, err := m.files.Stat(name)
	switch {
	case err != nil:
		if errors.Is(err, fs.ErrNotExist) {
			_ = m.ami.FS.RemoveAll(name) // it may not be there
		}
	case i.IsDir():
		entries, err := m.files.ReadDir(name)
		if err != nil {
			return
		}
		have := map[string]bool{}
		for _, e := range entries {
			have[e.Name()] = true
			if e.Type()&fs.ModeSymlink == 0 { // links are the image's own
				m.pullOne(path.Join(name, e.Name()), depth-1)
			}
		}
		old, _ := m.ami.FS.ReadDir(name) // it may not be there
		for _, e := range old {
			if !have[e.Name()] {
				_ = m.ami.FS.RemoveAll(path.Join(name, e.Name()))
			}
		}
	case i.Mode().IsRegular() && i.Size() <= maxCopied:
		b, err := m.files.ReadFile(name)
		if err != nil {
			return
		}
		_ = m.ami.FS.MkdirAll(path.Dir(name), 0o755)
		_ = m.ami.FS.WriteFile(name, b, i.Mode().Perm()) // if the copy is full, the program does not find the file
	}
}

// named returns the files that a program's arguments and environment may name.
func named(t boxes.Tool, home string) []string {
	words := slices.Clone(t.Args[1:])
	for _, v := range t.Env {
		name, value, _ := strings.Cut(v, "=")
		if name == "KUBECONFIG" || name == "AWS_CONFIG_FILE" || name == "AWS_SHARED_CREDENTIALS_FILE" {
			words = append(words, value)
		}
	}
	out := []string{path.Join(home, ".aws/config"), path.Join(home, ".aws/credentials"), path.Join(home, ".kube/config")}
	for _, w := range words {
		if _, after, ok := strings.Cut(w, "://"); ok {
			w = after
		} else if _, after, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "-") {
			w = after
		}
		if w == "" || strings.HasPrefix(w, "-") || len(w) > 512 || strings.Contains(w, "\n") {
			continue
		}
		if !path.IsAbs(w) {
			w = path.Join("/", t.Dir, w)
		}
		out = append(out, path.Clean(w))
	}
	return out
}

// run runs a program of the image.
func (m *image) run(ctx context.Context, t boxes.Tool) int {
	user := accounts.User{Name: "root", Home: "/root"}
	if t.UID != 0 {
		found := false
		for _, u := range accounts.Users(m.files) {
			if u.UID == t.UID {
				user, found = u, true
			}
		}
		if !found {
			_, _ = io.WriteString(t.Stderr, "the caller is no user of this machine\n")
			return 1
		}
	}
	if !m.lock(ctx) {
		return 130
	}
	m.pull(watched...)
	m.readLogs()
	for _, name := range named(t, user.Home) {
		if user.UID == 0 {
			m.pullOne(name, 2)
		} else {
			m.pullAs(ctx, user, name)
		}
	}
	before := m.ami.FS.Image()
	m.unlock()
	args := slices.Clone(t.Args)
	if args[0] == bootstrapTool {
		args[0] = bootstrapScript
	}
	call := shell.NewCall(args, t.Env)
	call.FS, call.Dir, call.User = m.ami.FS.As(user.UID, user.GID), path.Join("/", t.Dir), user.Name
	out := &flushed{w: t.Stdout}
	call.Stdin, call.Stdout, call.Stderr = t.Stdin, out, t.Stderr
	defer m.ami.Done()
	status, found := m.ami.Outside(ctx, call)
	if !found {
		_, _ = io.WriteString(t.Stderr, "command not found\n")
		return 127
	}
	if !m.lock(ctx) {
		return 130
	}
	defer m.unlock()
	if err := m.push(ctx, user, before); err != nil {
		_, _ = io.WriteString(t.Stderr, err.Error()+"\n")
		return 1
	}
	return status
}

// A flushed writer is the output of a program that may go on for a while.
type flushed struct {
	w   io.Writer
	err error
}

func (f *flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		f.err = err
	}
	return n, err
}

// Flush implements shell.Flusher.
func (f *flushed) Flush() error { return f.err }

// pullAs copies a file that a user may read.
func (m *image) pullAs(ctx context.Context, user accounts.User, name string) {
	out := &limited{left: maxCopied}
	status, err := machine.Run(ctx, m.i.machine, machine.Command{User: user.Name, Args: []string{"sh", "-c", `test -f "$1" && exec cat "$1"`, "sh", name}, Stdout: out})
	if err != nil || status != 0 || out.left < 0 {
		return
	}
	_ = m.ami.FS.MkdirAll(path.Dir(name), 0o755)
	_ = m.ami.FS.WriteFile(name, out.data, 0o644) // if the copy is full, the program does not find the file
}

// limited keeps a limited amount of data.
type limited struct {
	data []byte
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left >= 0 {
		l.data = append(l.data, p...)
	}
	return len(p), nil
}

// push writes what has changed since before to the machine, with the permissions of a user.
func (m *image) push(ctx context.Context, user accounts.User, before []vfs.Record) error {
	old := map[string]vfs.Record{}
	for _, r := range before {
		old[r.Path] = r
	}
	for _, c := range vfs.Diff(before, m.ami.FS.Image()) {
		was, had := old[c.Path]
		switch {
		case had && !c.Removed && was.Mode == c.Mode && was.Target == c.Target && bytes.Equal(was.Data, c.Data): // it was written with what it had
			continue
		case strings.HasPrefix(c.Path, "/usr/") || strings.HasPrefix(c.Path, "/run/") || strings.HasPrefix(c.Path, "/proc/") || strings.HasPrefix(c.Path, "/sys/"):
			continue
		case user.UID != 0 && c.Mode.IsRegular() && !c.Removed:
			status, err := machine.Run(ctx, m.i.machine, machine.Command{User: user.Name, Args: []string{"sh", "-c", `mkdir -p "${1%/*}" && cat > "$1"`, "sh", c.Path}, Stdin: strings.NewReader(string(c.Data))})
			if err == nil && status != 0 {
				err = &fs.PathError{Op: "write", Path: c.Path, Err: fs.ErrPermission}
			}
			if err != nil {
				return err
			}
			continue
		case user.UID != 0:
			continue
		}
		var err error
		switch {
		case c.Removed:
			err = m.files.RemoveAll(c.Path)
		case c.Mode.IsDir():
			err = m.files.MkdirAll(c.Path, c.Mode.Perm())
		case c.Mode&fs.ModeSymlink != 0:
			err = errors.Join(m.files.RemoveAll(c.Path), m.i.machine.Symlink(c.Target, c.Path))
		default:
			if err = m.files.MkdirAll(path.Dir(c.Path), 0o755); err == nil {
				err = m.files.WriteFile(c.Path, c.Data, c.Mode.Perm())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// messagesEvery is how often rsyslog's log is written, and messagesTime bounds how long that takes.
const (
	messagesEvery = 5 * time.Second
	messagesTime  = 5 * time.Second
)

// writeMessages does what rsyslog does, until ctx ends.
func (m *image) writeMessages(ctx context.Context) {
	for timing.Sleep(ctx, m.i.rt.clock, messagesEvery) && m.lock(ctx) {
		m.readLogs()
		m.ami.WriteMessagesTo(m.files, func(text []byte) error {
			ctx, cancel := context.WithTimeout(ctx, messagesTime)
			defer cancel()
			status, err := machine.Run(ctx, m.i.machine, machine.Command{
				Args: []string{"sh", "-c", `umask 077; cat >> "$1"`, "sh", ami.MessagesLog}, Stdin: bytes.NewReader(text),
			})
			if err == nil && status != 0 {
				err = fmt.Errorf("writing %s: status %d", ami.MessagesLog, status)
			}
			return err
		})
		m.unlock()
	}
}

// unitLogs are the logs of units that really run.
var unitLogs = map[string]string{"kubelet": "/var/log/" + launch.KubeletRun + ".log", "containerd": "/var/log/" + launch.Containerd + ".log"}

// skipLogs leaves what was logged before this boot out of the journal.
func (m *image) skipLogs() {
	for unit, file := range unitLogs {
		if i, err := m.files.Stat(file); err == nil {
			m.logged[unit] = int(i.Size())
		}
	}
}

// readLogs adds what containerd and the kubelet have logged to the journal. The lock is held.
func (m *image) readLogs() {
	for unit, file := range unitLogs {
		from := m.logged[unit]
		if i, err := m.files.Stat(file); err != nil || i.Size() == int64(from) {
			continue // it has not started, or has logged nothing more
		}
		b, err := m.files.ReadFile(file)
		if err != nil {
			continue
		}
		if from > len(b) {
			from = 0 // the log is a new one
		}
		end := from + strings.LastIndexByte(string(b[from:]), '\n') + 1
		for line := range strings.Lines(string(b[from:end])) {
			m.ami.Log(unit, strings.TrimRight(line, "\n"))
		}
		m.logged[unit] = end
	}
}

package probe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine/containers/nodebin"
	"github.com/drydock-dev/drydock/internal/machine/containers/volumes"
)

// IDs is how many user and group IDs the machines' user namespace needs: those of all users that images may name.
const IDs = 65536

// Run probes this machine.
func Run() Report {
	root := os.Geteuid() == 0
	mounts, err := readMounts()
	if err != nil {
		return newReport([]Check{{Proc, Missing, err.Error(), "sudo mount -t proc proc /proc"}})
	}
	return newReport([]Check{kernel(), namespaces(), subIDs(root), proc(mounts), cgroups(mounts), limits(mounts, root), overlay(), nftables(root), programs(), privileges(root), mounting(), tun(root)})
}

// oldest is the first kernel that makes detached mounts read-only (mount_setattr). It also mounts overlay file systems in
// user namespaces, since 5.11.
var oldest = [2]int{5, 12}

// programs checks which programs this build embeds.
func programs() Check {
	if missing := nodebin.Missing(); len(missing) > 0 {
		return Check{Programs, Missing, "this build has no " + strings.Join(missing, ", "), "sudo apt-get install -y gcc libc6-dev libseccomp-dev && make nodebin build"}
	}
	return Check{Programs, OK, "embedded", ""}
}

func privileges(root bool) Check {
	if root {
		return Check{Root, OK, "the daemon may run as root", ""}
	}
	return Check{Root, Missing, "machines that run containers need a daemon that runs as root, for now", "sudo drydock up"}
}

func mounting() Check {
	if err := volumes.Usable(); err != nil {
		return Check{Volumes, Limited, err.Error() + ": machines do not show their EBS volumes, so claims are not mounted, and nothing bounds their disks", MountFix}
	}
	return Check{Volumes, OK, "ext4 by loop devices", ""}
}

// tun opens the device by which packets leave for the internet.
func tun(root bool) Check {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err == nil {
		err = f.Close()
	}
	return tunOpened(root, err)
}

// tunOpened says what an attempt to open the device means. Another user than root may not open it, and containers need root anyway;
// root may not if a cgroup forbids it, as in Docker.
func tunOpened(root bool, err error) Check {
	switch {
	case err == nil, !root && errors.Is(err, os.ErrPermission):
		return Check{Internet, OK, "/dev/net/tun, for drydock up --internet on", ""}
	case errors.Is(err, os.ErrPermission):
		return Check{Internet, Limited, lacksInternet + err.Error(), "docker run --privileged …"}
	}
	return Check{Internet, Limited, lacksInternet + err.Error(), "sudo modprobe tun"}
}

const lacksInternet = "machines cannot reach the internet, even with drydock up --internet on: "

func kernel() Check {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Check{Kernel, Missing, err.Error(), ""}
	}
	release := unix.ByteSliceToString(u.Release[:])
	var v [2]int
	_, _ = fmt.Sscanf(release, "%d.%d", &v[0], &v[1]) // zero is too old
	if slices.Compare(v[:], oldest[:]) < 0 {
		return Check{Kernel, Missing, fmt.Sprintf("Linux %s is older than %d.%d, the first that can make a mount read-only for machines", release, oldest[0], oldest[1]), ""}
	}
	return Check{Kernel, OK, "Linux " + release, ""}
}

// namespaces starts a program in the namespaces that the machines live in.
func namespaces() Check {
	cmd := exec.Command("/proc/self/exe", "--version") //nolint:noctx // it ends at once, or does not start
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL, Setpgid: true,
	}
	err := cmd.Start()
	if err == nil {
		// That it started is enough.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Check{Namespaces, OK, "can be created", ""}
	}
	c := Check{Namespaces, Missing, "cannot be created: " + err.Error(), ""}
	for _, s := range []struct{ file, bad, good string }{
		{"user/max_user_namespaces", "0", "15000"},
		{"kernel/unprivileged_userns_clone", "0", "1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "0"},
	} {
		if v, err := os.ReadFile("/proc/sys/" + s.file); err == nil && strings.TrimSpace(string(v)) == s.bad {
			name := strings.ReplaceAll(s.file, "/", ".")
			c.Found += fmt.Sprintf(" (%s is %s)", name, s.bad)
			c.Fix = fmt.Sprintf("sudo sysctl -w %s=%s", name, s.good)
			break
		}
	}
	if c.Fix == "" && errors.Is(err, syscall.EPERM) {
		c.Found += "; inside Docker, its seccomp profile forbids them"
		c.Fix = "docker run --privileged …"
	}
	return c
}

// subIDs looks for the IDs that a user other than root may map.
func subIDs(root bool) Check {
	if root {
		return Check{SubIDs, OK, "root may map any", ""}
	}
	me, err := user.Current()
	if err != nil {
		return Check{SubIDs, Missing, err.Error(), ""}
	}
	fix := "sudo usermod --add-subuids 524288-589823 --add-subgids 524288-589823 " + me.Username
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if n := SubIDRange(file, me.Username, me.Uid); n.Size < IDs {
			return Check{SubIDs, Missing, fmt.Sprintf("%s gives %s fewer than %d, so programs of other users than root cannot run", file, me.Username, IDs), fix}
		}
	}
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return Check{SubIDs, Missing, program + " is not installed", "sudo apt-get install -y uidmap"}
		}
	}
	return Check{SubIDs, OK, "in /etc/subuid and /etc/subgid", ""}
}

// A Range is a range of IDs.
type Range struct{ First, Size int }

// SubIDRange returns the largest range that a file such as /etc/subuid gives to a user.
func SubIDRange(file, name, uid string) Range {
	var out Range
	b, _ := os.ReadFile(file) // without the file there is none
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] != name && f[0] != uid {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		size, err2 := strconv.Atoi(f[2])
		if err1 == nil && err2 == nil && size > out.Size {
			out = Range{first, size}
		}
	}
	return out
}

// A mount is a line of /proc/self/mountinfo.
type mount struct{ path, kind string }

func readMounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(b), nil
}

func parseMounts(b []byte) []mount {
	var out []mount
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		if f, g := strings.Fields(before), strings.Fields(after); ok && len(f) > 4 && len(g) > 0 {
			out = append(out, mount{f[4], g[0]})
		}
	}
	return out
}

// proc looks for files below /proc that something is mounted over. The kernel then mounts no new /proc in a user
// namespace, because that would uncover them.
func proc(mounts []mount) Check {
	for _, m := range mounts {
		if strings.HasPrefix(m.path, "/proc/") && m.kind != "binfmt_misc" && m.kind != "autofs" {
			return Check{Proc, Missing, m.path + " is masked, as in Docker, so machines cannot have a /proc of their own", "docker run --privileged …"}
		}
	}
	return Check{Proc, OK, "is not masked", ""}
}

// Cgroup2 returns where cgroup v2 is mounted, or "".
func Cgroup2() string {
	mounts, err := readMounts()
	if err != nil {
		return ""
	}
	return cgroup2(mounts)
}

func cgroup2(mounts []mount) string {
	for _, m := range mounts {
		if m.kind == "cgroup2" {
			return m.path
		}
	}
	return ""
}

const mountCgroup2 = "sudo mkdir -p /sys/fs/cgroup/unified && sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"

func cgroups(mounts []mount) Check {
	if at := cgroup2(mounts); at != "" {
		return Check{Cgroups, OK, "mounted at " + at, ""}
	}
	return Check{Cgroups, Missing, "is not mounted", mountCgroup2}
}

// Controllers are the cgroup controllers that limit a machine and its pods.
var Controllers = []string{"cpu", "memory", "pids"}

// OwnCgroup returns the folder of this process in cgroup v2, or "".
func OwnCgroup() string {
	b, _ := os.ReadFile("/proc/self/cgroup") // without it there is none
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			if at := Cgroup2(); at != "" {
				return filepath.Join(at, rest)
			}
		}
	}
	return ""
}

// limits looks for cgroup controllers that machines may use.
func limits(mounts []mount, root bool) Check {
	at, fix := cgroup2(mounts), ""
	if at == "" {
		return Check{Limits, Limited, "there are no CPU and memory limits, OOM kills and pod statistics without cgroup v2", mountCgroup2}
	}
	why := "cgroup v1 has them"
	if !root {
		at, why = OwnCgroup(), "they are not delegated to this session"
		fix = "systemd-run --user --scope -p Delegate=yes drydock up"
	} else if slices.ContainsFunc(mounts, func(m mount) bool { return m.kind == "cgroup" }) {
		fix = `sudo sed -i 's/^GRUB_CMDLINE_LINUX="/&systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all /' /etc/default/grub && sudo update-grub && sudo reboot`
	}
	b, err := os.ReadFile(filepath.Join(at, "cgroup.controllers"))
	have := strings.Fields(string(b))
	var lacking []string
	for _, c := range Controllers {
		if !slices.Contains(have, c) {
			lacking = append(lacking, c)
		}
	}
	if err == nil && len(lacking) == 0 && (root || unix.Access(at, unix.W_OK) == nil) {
		return Check{Limits, OK, "controllers " + strings.Join(have, ", "), ""}
	}
	if len(lacking) == 0 {
		lacking = Controllers
	}
	return Check{Limits, Limited, fmt.Sprintf("no %s controller in cgroup v2 (%s): there are no limits and OOM kills, and the memory of pods is added up from their processes", strings.Join(lacking, ", "), why), fix}
}

func overlay() Check {
	b, err := os.ReadFile("/proc/filesystems")
	if err == nil && bytes.Contains(b, []byte("\toverlay\n")) {
		return Check{Overlay, OK, "in the kernel", ""}
	}
	return Check{Overlay, Missing, "the kernel has no overlay file system, or its module is not loaded", "sudo modprobe overlay"}
}

// nftables asks the kernel for the generation of its rules. A user other than root may not, but an EPERM says that there
// are rules.
func nftables(root bool) Check {
	switch err := nftGeneration(); {
	case err == nil, !root && errors.Is(err, syscall.EPERM):
		return Check{NFTables, OK, "in the kernel", ""}
	default:
		return Check{NFTables, Missing, "the kernel does not answer: " + err.Error(), "sudo modprobe nf_tables"}
	}
}

func nftGeneration() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	var msg bytes.Buffer
	_ = binary.Write(&msg, binary.NativeEndian, unix.NlMsghdr{ // to memory
		Len: uint32(unsafe.Sizeof(unix.NlMsghdr{})) + 4, Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: unix.NLM_F_REQUEST,
	})
	msg.Write([]byte{unix.AF_UNSPEC, 0, 0, 0})
	if err := unix.Sendto(fd, msg.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("send", err)
	}
	b := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return os.NewSyscallError("receive", err)
	}
	msgs, err := syscall.ParseNetlinkMessage(b[:n])
	if err != nil || len(msgs) == 0 {
		return io.ErrUnexpectedEOF
	}
	if m := msgs[0]; m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
		if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
			return syscall.Errno(-code)
		}
	}
	return nil
}

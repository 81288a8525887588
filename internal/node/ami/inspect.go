package ami

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// A Surroundings is what the programs that inspect a machine see of it. Of a field that is nil, they see nothing.
type Surroundings struct {
	Interfaces func() []machine.Interface
	// InterfaceName returns the name of the interface with a device index.
	InterfaceName func(device int) string
	// Subnet returns the range of a subnet.
	Subnet func(id string) netip.Prefix
	// Ports returns the TCP ports on which the machine's programs listen. The value is true if the program only listens
	// on localhost.
	Ports func() map[int]bool
	// Pods returns the pods that containerd runs.
	Pods func() []Sandbox
	// ContainerLog returns what a container has printed. Nil means that containers run nothing.
	ContainerLog func(id string) (string, error)
	// UsedDisk and UsedMemory return how many bytes are used. Nil means that nothing on the machine really runs.
	UsedDisk, UsedMemory func(ctx context.Context) int64
	// Load returns the content of /proc/loadavg. Nil means that nothing on the machine really runs.
	Load func() string
	// Rules says where the rules are that iptables does not show.
	Rules string
	// Resolve resolves a name as the machine's DNS server does.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Ping returns a host's address, and an error if the host does not answer an ICMP echo.
	Ping func(ctx context.Context, host string) (netip.Addr, error)
	// Connect opens a TCP connection and closes it.
	Connect func(ctx context.Context, host string, port int) error
}

// inspectors are the programs that inspect the machine.
var inspectors = map[string]func(*Machine, context.Context, *shell.Call) int{
	"ip": (*Machine).ip, "ss": (*Machine).ss, "ps": (*Machine).ps, "top": (*Machine).top, "df": (*Machine).df, "free": (*Machine).free,
	"uptime": (*Machine).uptime, "hostnamectl": (*Machine).hostnamectl, "iptables": (*Machine).iptables, "iptables-save": (*Machine).iptables, "nft": (*Machine).nft,
	"crictl": (*Machine).crictl, "ctr": (*Machine).ctr, "dig": (*Machine).dig, "nslookup": (*Machine).nslookup, "getent": (*Machine).getent,
	"kill": (*Machine).kill, "pkill": (*Machine).pkill, "pgrep": (*Machine).pkill, "pidof": (*Machine).pkill,
	"ping": (*Machine).ping, "nc": (*Machine).nc, "ncat": (*Machine).nc, "lscpu": (*Machine).lscpu,
}

func (m *Machine) inspector(name string) func(context.Context, *shell.Call) int {
	f := inspectors[name]
	if f == nil || (name == "crictl" || name == "ctr") && m.In.Image.KubeletVersion == "" {
		return nil
	}
	return func(ctx context.Context, c *shell.Call) int { return f(m, ctx, c) }
}

// lscpu shows what EC2 says about the processors of the instance's type. Their model is not known.
func (m *Machine) lscpu(_ context.Context, c *shell.Call) int {
	threads, cores := int32(1), int32(m.In.Type.VCPU) //nolint:gosec // few
	vendor := ""
	if info, ok := instancetypes.Info(m.In.Type.Name); ok && info.VCpuInfo != nil {
		threads, cores = cmp.Or(aws.ToInt32(info.VCpuInfo.DefaultThreadsPerCore), threads), cmp.Or(aws.ToInt32(info.VCpuInfo.DefaultCores), cores)
		if info.ProcessorInfo != nil {
			vendor = aws.ToString(info.ProcessorInfo.Manufacturer)
		}
	}
	show := func(name string, value any) { fmt.Fprintf(c.Stdout, "%-33s%v\n", name+":", value) }
	show("Architecture", m.architecture())
	show("CPU(s)", m.In.Type.VCPU)
	if id := map[string]string{"Intel": "GenuineIntel", "AMD": "AuthenticAMD", "AWS": "ARM"}[vendor]; id != "" {
		show("Vendor ID", id)
	}
	show("Thread(s) per core", threads)
	show("Core(s) per socket", cores)
	show("Socket(s)", 1)
	return 0
}

// A link is a network interface as Linux shows it.
type link struct {
	name, mac string
	address   netip.Prefix // the zero Prefix if the interface has no IPv4 address
}

func (m *Machine) links() []link {
	out := []link{{name: "lo", mac: "00:00:00:00:00:00", address: netip.MustParsePrefix("127.0.0.1/8")}}
	s := &m.world.Surroundings
	if s.Interfaces == nil || s.InterfaceName == nil {
		return out
	}
	all := slices.Clone(s.Interfaces())
	slices.SortFunc(all, func(a, b machine.Interface) int { return a.Device - b.Device })
	for _, i := range all {
		l := link{name: s.InterfaceName(i.Device), mac: i.MAC}
		if len(i.Addresses) > 0 && i.Addresses[0].Is4() { // the others are for pods
			l.address = netip.PrefixFrom(i.Addresses[0], 32)
			if s.Subnet != nil {
				if p := s.Subnet(i.SubnetID); p.IsValid() {
					l.address = netip.PrefixFrom(i.Addresses[0], p.Bits())
				}
			}
		}
		out = append(out, l)
	}
	return out
}

// ip shows addresses, links and routes in the format of iproute2.
func (m *Machine) ip(_ context.Context, c *shell.Call) int {
	brief, oneLine, words := false, false, []string{}
	for _, a := range c.Args[1:] {
		switch a {
		case "-br", "-brief":
			brief = true
		case "-o", "-oneline":
			oneLine = true
		case "-4", "-c", "-color", "-color=never", "show", "list", "ls", "dev":
		default:
			if strings.HasPrefix(a, "-") {
				fmt.Fprintf(c.Stderr, "Option %q is unknown, try \"ip -help\".\n", a)
				return 255
			}
			words = append(words, a)
		}
	}
	if len(words) == 0 {
		words = []string{""}
	}
	links := m.links()
	asked := func(l link) bool { return len(words) < 2 || l.name == words[1] }
	if !slices.ContainsFunc(links, asked) {
		fmt.Fprintf(c.Stderr, "Device \"%s\" does not exist.\n", words[1])
		return 1
	}
	addresses := strings.HasPrefix("address", words[0])
	switch {
	case words[0] != "" && (addresses || strings.HasPrefix("link", words[0])):
		for n, l := range links {
			if asked(l) {
				m.showLink(c, n+1, l, brief, addresses, oneLine)
			}
		}
	case words[0] != "" && strings.HasPrefix("route", words[0]):
		for n, l := range links {
			if l.name == "lo" || !l.address.IsValid() || !asked(l) {
				continue
			}
			net := l.address.Masked()
			if gateway := net.Addr().Next(); n == 1 {
				fmt.Fprintf(c.Stdout, "default via %s dev %s proto dhcp src %s metric 512 \n", gateway, l.name, l.address.Addr())
			}
			fmt.Fprintf(c.Stdout, "%s dev %s proto kernel scope link src %s metric 512 \n", net, l.name, l.address.Addr())
		}
	default:
		fmt.Fprintf(c.Stderr, "Object %q is not supported on simulated nodes, only address, link and route.\n", words[0])
		return 1
	}
	return 0
}

func (m *Machine) showLink(c *shell.Call, n int, l link, brief, addresses, oneLine bool) {
	state, flags, kind, mtu, queue := "UP", "BROADCAST,MULTICAST,UP,LOWER_UP", "ether", 9001, "mq"
	if l.name == "lo" {
		state, flags, kind, mtu, queue = "UNKNOWN", "LOOPBACK,UP,LOWER_UP", "loopback", 65536, "noqueue"
	}
	switch {
	case brief && addresses:
		text := ""
		if l.address.IsValid() {
			text = l.address.String() + " "
		}
		fmt.Fprintf(c.Stdout, "%-16s %-14s %s\n", l.name, state, text)
		return
	case brief:
		fmt.Fprintf(c.Stdout, "%-16s %-14s %s <%s> \n", l.name, state, l.mac, flags)
		return
	}
	broadcast := "ff:ff:ff:ff:ff:ff"
	if l.name == "lo" {
		broadcast = l.mac
	}
	// With -o, a backslash stands for each line break within a record, and addresses are records of their own.
	newline := "\n"
	if oneLine {
		newline = "\\"
	}
	if !addresses || !oneLine {
		fmt.Fprintf(c.Stdout, "%d: %s: <%s> mtu %d qdisc %s state %s group default qlen 1000%s    link/%s %s brd %s\n", n, l.name, flags, mtu, queue, state, newline, kind, l.mac, broadcast)
	}
	if !addresses || !l.address.IsValid() {
		return
	}
	if oneLine {
		fmt.Fprintf(c.Stdout, "%d: %s", n, l.name)
	}
	scope := "metric 512 brd " + last(l.address).String() + " scope global dynamic " + l.name
	if l.name == "lo" {
		scope = "scope host lo"
	}
	fmt.Fprintf(c.Stdout, "    inet %s %s%s       valid_lft forever preferred_lft forever\n", l.address, scope, newline)
}

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// programsAt maps TCP ports to the programs that listen on them.
var programsAt = map[int]string{22: "sshd", 10248: "kubelet", 10250: "kubelet"}

// ss lists the listening TCP sockets.
func (m *Machine) ss(_ context.Context, c *shell.Call) int {
	users := strings.Contains(strings.Join(c.Args[1:], " "), "p")
	ports := map[int]bool{}
	if p := m.world.Surroundings.Ports; p != nil {
		ports = p()
	}
	w := tabwriter.NewWriter(c.Stdout, 0, 1, 1, ' ', 0)
	header := "State\tRecv-Q\tSend-Q\tLocal Address:Port\tPeer Address:Port"
	if users {
		header += "\tProcess"
	}
	fmt.Fprintln(w, header)
	list := make([]int, 0, len(ports))
	for p := range ports {
		list = append(list, p)
	}
	slices.Sort(list)
	for _, p := range list {
		at := "0.0.0.0"
		if ports[p] {
			at = "127.0.0.1"
		}
		fmt.Fprintf(w, "LISTEN\t0\t4096\t%s:%d\t0.0.0.0:*", at, p)
		if name := programsAt[p]; users && name != "" {
			m.mu.Lock()
			if u := m.services[name]; u != nil && u.state == active {
				fmt.Fprintf(w, "\tusers:((\"%s\",pid=%d,fd=3))", name, u.pid)
			}
			m.mu.Unlock()
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // the output may no longer be read
	return 0
}

// A process is a row of ps.
type process struct {
	pid     int
	command string
	since   time.Time
	unit    string // whose main process it is, or ""
}

// name is the process's name, as ps -e shows it.
func (p process) name() string {
	name, _, _ := strings.Cut(path.Base(strings.Fields(p.command)[0]), ":")
	return name
}

// processes returns init, the running services and the program that c runs, ordered by PID.
func (m *Machine) processes(c *shell.Call) []process {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []process{{1, "/usr/lib/systemd/systemd --switched-root --system", m.born, ""}}
	highest := 1
	for name, s := range m.services {
		if s.state == active {
			out = append(out, process{s.pid, daemonCommand(name), s.since, name})
			highest = max(highest, s.pid)
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return append(out, process{highest + 1, strings.Join(c.Args, " "), m.world.Clock.Now(), ""})
}

// daemonCommand returns the command line of a service as ps shows it.
func daemonCommand(unit string) string {
	if c, ok := map[string]string{
		"amazon-ssm-agent": "/usr/bin/amazon-ssm-agent", "chronyd": "/usr/sbin/chronyd -F 2", "containerd": "/usr/bin/containerd", "crond": "/usr/sbin/crond -n",
		"kubelet": "/usr/bin/kubelet", "rsyslog": "/usr/sbin/rsyslogd -n", "sshd": "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
		"systemd-journald": "/usr/lib/systemd/systemd-journald", "systemd-logind": "/usr/lib/systemd/systemd-logind",
	}[unit]; ok {
		return c
	}
	return unit
}

// ps supports ps, ps aux, ps -ef and ps -e. Simulated programs use no CPU time and no memory.
func (m *Machine) ps(_ context.Context, c *shell.Call) int {
	all := m.processes(c)
	form := strings.TrimLeft(strings.Join(c.Args[1:], ""), "-")
	switch {
	case strings.Contains(form, "u") && strings.Contains(form, "a"):
		fmt.Fprintln(c.Stdout, "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND")
		for _, p := range all {
			fmt.Fprintf(c.Stdout, "%-8s %7d  0.0  0.0      0     0 ?        Ss   %s   0:00 %s\n", "root", p.pid, p.since.UTC().Format("15:04"), p.command)
		}
	case strings.Contains(form, "f"):
		fmt.Fprintln(c.Stdout, "UID          PID    PPID  C STIME TTY          TIME CMD")
		for _, p := range all {
			fmt.Fprintf(c.Stdout, "%-8s %7d %7d  0 %s ?        00:00:00 %s\n", "root", p.pid, min(1, p.pid-1), p.since.UTC().Format("15:04"), p.command)
		}
	default:
		if !strings.ContainsAny(form, "eA") {
			all = all[len(all)-1:]
		}
		fmt.Fprintln(c.Stdout, "    PID TTY          TIME CMD")
		for _, p := range all {
			fmt.Fprintf(c.Stdout, "%7d ?        00:00:00 %s\n", p.pid, p.name())
		}
	}
	return 0
}

// Prepare updates what the kernel and rsyslog of a simulated machine keep writing. It runs before each program.
func (m *Machine) Prepare() {
	m.WriteMessages()
	up := m.world.Clock.Since(m.born).Seconds()
	_ = m.FS.WriteFile("/proc/uptime", fmt.Appendf(nil, "%.2f %.2f\n", up, up*float64(m.In.Type.VCPU)), 0o444) // if the disk is full, it is old
}

func (m *Machine) up() string {
	d := m.world.Clock.Since(m.born)
	if d < time.Hour {
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	text := fmt.Sprintf("%2d:%02d", int(d.Hours())%24, int(d.Minutes())%60)
	switch days := int(d.Hours()) / 24; days {
	case 0:
		return text
	case 1:
		return "1 day, " + text
	default:
		return fmt.Sprintf("%d days, %s", days, text)
	}
}

func (m *Machine) uptime(_ context.Context, c *shell.Call) int {
	load := []string{"0.00", "0.00", "0.00"}
	if m.world.Surroundings.Load != nil {
		if f := strings.Fields(m.world.Surroundings.Load()); len(f) > 3 {
			load = f[:3]
		}
	}
	fmt.Fprintf(c.Stdout, " %s up %s,  0 users,  load average: %s\n", m.world.Clock.Now().UTC().Format("15:04:05"), m.up(), strings.Join(load, ", "))
	return 0
}

// top shows one screen in batch mode, because full-screen programs are not supported.
func (m *Machine) top(_ context.Context, c *shell.Call) int {
	if !slices.ContainsFunc(c.Args[1:], func(a string) bool { return strings.HasPrefix(a, "-") && strings.Contains(a, "b") }) {
		return c.Fail("simulated nodes have no full-screen programs; use top -b -n 1")
	}
	all := m.processes(c)
	mib := float64(m.In.Type.MemoryMiB)
	fmt.Fprintf(c.Stdout, "top - %s up %s,  0 users,  load average: 0.00, 0.00, 0.00\n", m.world.Clock.Now().UTC().Format("15:04:05"), m.up())
	fmt.Fprintf(c.Stdout, "Tasks: %3d total,   1 running, %3d sleeping,   0 stopped,   0 zombie\n", len(all), len(all)-1)
	fmt.Fprintf(c.Stdout, "%%Cpu(s):  0.0 us,  0.0 sy,  0.0 ni,100.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n")
	fmt.Fprintf(c.Stdout, "MiB Mem : %8.1f total, %8.1f free, %8.1f used, %8.1f buff/cache\n", mib, mib, 0.0, 0.0)
	fmt.Fprintf(c.Stdout, "MiB Swap: %8.1f total, %8.1f free, %8.1f used. %8.1f avail Mem \n\n", 0.0, 0.0, 0.0, mib)
	fmt.Fprintln(c.Stdout, "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND")
	for _, p := range all {
		name, _, _ := strings.Cut(path.Base(strings.Fields(p.command)[0]), ":")
		fmt.Fprintf(c.Stdout, "%7d root      20   0       0      0      0 S   0.0   0.0   0:00.00 %s\n", p.pid, name)
	}
	return 0
}

// free shows the machine's memory. Simulated programs use none.
func (m *Machine) free(ctx context.Context, c *shell.Call) int {
	unit := int64(1024)
	for _, a := range c.Args[1:] {
		switch a {
		case "-b":
			unit = 1
		case "-m", "--mebi":
			unit = 1 << 20
		case "-g", "--gibi":
			unit = 1 << 30
		}
	}
	total, used := int64(m.In.Type.MemoryMiB)<<20/unit, int64(0)
	if memory := m.world.Surroundings.UsedMemory; memory != nil {
		used = min(memory(ctx)/unit, total)
	}
	fmt.Fprintf(c.Stdout, "%15s %11s %11s %11s %11s %11s\n", "total", "used", "free", "shared", "buff/cache", "available")
	fmt.Fprintf(c.Stdout, "%-8s%12d%12d%12d%12d%12d%12d\n", "Mem:", total, used, total-used, 0, 0, total-used)
	fmt.Fprintf(c.Stdout, "%-8s%12d%12d%12d\n", "Swap:", 0, 0, 0)
	return 0
}

// df shows the root volume.
func (m *Machine) df(ctx context.Context, c *shell.Call) int {
	human := slices.ContainsFunc(c.Args[1:], func(a string) bool { return strings.HasPrefix(a, "-") && strings.Contains(a, "h") })
	total, used := m.Disk(c.FS)
	if disk := m.world.Surroundings.UsedDisk; disk != nil && used < total {
		used = min(max(disk(ctx), used), total)
	}
	percent := 0
	if total > 0 {
		percent = int((used*100 + total - 1) / total)
	}
	show := func(n int64) string { return fmt.Sprint((n + 1023) / 1024) }
	header := "Filesystem     1K-blocks    Used Available Use% Mounted on"
	if human {
		show, header = humanSize, "Filesystem      Size  Used Avail Use% Mounted on"
	}
	fmt.Fprintln(c.Stdout, header)
	if human {
		fmt.Fprintf(c.Stdout, "%-15s %4s  %4s  %4s %3d%% /\n", "/dev/nvme0n1p1", show(total), show(used), show(total-used), percent)
	} else {
		fmt.Fprintf(c.Stdout, "%-14s %9s %7s %9s %3d%% /\n", "/dev/nvme0n1p1", show(total), show(used), show(total-used), percent)
	}
	return 0
}

func humanSize(n int64) string {
	f, unit := float64(n), ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, u
	}
	if unit != "" && f < 10 {
		return fmt.Sprintf("%.1f%s", f, unit)
	}
	return fmt.Sprintf("%.0f%s", f, unit)
}

func (m *Machine) hostnamectl(_ context.Context, c *shell.Call) int {
	sum := sha256.Sum256([]byte(m.In.ID))
	arch := map[string]string{"x86_64": "x86-64", "arm64": "arm64"}[m.In.Image.Architecture]
	release, kernelArch := "Amazon Linux 2023", m.In.Image.Architecture
	if m.In.Image.Family == images.AL2 {
		release = "Amazon Linux 2"
	}
	if kernelArch == "arm64" {
		kernelArch = "aarch64"
	}
	for _, l := range [][2]string{
		{"Static hostname", m.In.PrivateDNSName}, {"Icon name", "computer-vm"}, {"Chassis", "vm"}, {"Machine ID", hex.EncodeToString(sum[:16])},
		{"Virtualization", "amazon"}, {"Operating System", release}, {"Kernel", "Linux " + kernel(m.In.Image.Family, kernelArch)}, {"Architecture", arch},
		{"Hardware Vendor", "Amazon EC2"}, {"Hardware Model", m.In.Type.Name},
	} {
		fmt.Fprintf(c.Stdout, "%16s: %s\n", l[0], l[1])
	}
	return 0
}

// noRules explains why iptables and nft show no rules.
const noRules = "simulated nodes forward no packets, so kube-proxy writes no rules here; drydock why reach shows what the network lets through"

// rules says why iptables and nft show no rules.
func (m *Machine) rules() string { return cmp.Or(m.world.Surroundings.Rules, noRules) }

func (m *Machine) iptables(_ context.Context, c *shell.Call) int {
	if path.Base(c.Args[0]) == "iptables-save" {
		fmt.Fprint(c.Stdout, "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n")
	} else {
		fmt.Fprint(c.Stdout, "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n")
	}
	fmt.Fprintf(c.Stderr, "# %s\n", m.rules())
	return 0
}

func (m *Machine) nft(_ context.Context, c *shell.Call) int {
	fmt.Fprintf(c.Stderr, "# %s\n", m.rules())
	return 0
}

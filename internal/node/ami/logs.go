package ami

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
)

// The log lines of a node's programs, each in its own format: klog of the kubelet,
// zap's console of nodeadm, zap's JSON of ipamd.

// Klog logs as the kubelet does: level is I, W or E, at is FILE:LINE of the source.
// https://github.com/kubernetes/klog/blob/main/klog.go (formatHeader)
func (m *Machine) Klog(unit string, level byte, at, message string, keysAndValues ...any) {
	var out strings.Builder
	m.mu.Lock()
	defer m.mu.Unlock()
	pid := 1
	if s := m.services[unit]; s != nil {
		if s.pid == 0 {
			s.pid = m.nextPID()
		}
		pid = s.pid
	}
	fmt.Fprintf(&out, "%c%s %7d %s] %q", level, m.world.Clock.Now().UTC().Format("0102 15:04:05.000000"), pid, at, message)
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		fmt.Fprintf(&out, " %v=%s", keysAndValues[i], strconv.Quote(fmt.Sprint(keysAndValues[i+1])))
	}
	m.log(unit, unit, out.String())
}

// A zapLine is a line of nodeadm's log: the calling source line and the message.
// https://github.com/awslabs/amazon-eks-ami, at commit 81fec2e (July 2026)
type zapLine struct {
	at, message string
	fields      []string // KEY, value
}

func (l zapLine) String() string { return l.level("info") }

// level formats the line in zap's console encoding, as nodeadm/internal/cli/logger.go has it.
func (l zapLine) level(level string) string {
	out := level + " " + l.at + " " + l.message
	var fields []string
	for i := 0; i+1 < len(l.fields); i += 2 {
		v, _ := json.Marshal(l.fields[i+1]) // strings always encode
		fields = append(fields, fmt.Sprintf("%q: %s", l.fields[i], v))
	}
	if fields != nil {
		out += " {" + strings.Join(fields, ", ") + "}"
	}
	return out
}

// The messages of nodeadm/cmd/nodeadm/init/init.go and of what it calls, in order.
func (m *Machine) nodeadmStart(sources string) []zapLine {
	return []zapLine{
		{at: "init/init.go:55", message: "Checking user is root.."},
		{at: "init/init.go:65", message: "Loading configuration..", fields: []string{"configSource", sources, "configCache", "/run/eks/nodeadm/config.json"}},
	}
}

func (m *Machine) nodeadmEnrich() []zapLine {
	return []zapLine{
		{at: "init/init.go:75", message: "Setting up nodeadm environment aspect..."},
		{at: "init/init.go:84", message: "Enriching configuration.."},
		{at: "init/init.go:164", message: "Fetching kubelet version.."},
		{at: "init/init.go:170", message: "Fetched kubelet version", fields: []string{"version", "v" + strings.TrimPrefix(m.In.Image.KubeletVersion, "v")}},
		{at: "init/init.go:171", message: "Fetching instance details.."},
	}
}

// daemonLines returns a phase's lines about both daemons.
func daemonLines(lines ...zapLine) []zapLine {
	var out []zapLine
	for _, daemon := range []string{"containerd", "kubelet"} {
		for _, l := range lines {
			l.fields = append([]string{"name", daemon}, l.fields...)
			out = append(out, l)
		}
	}
	return out
}

func aspectLines(names ...string) []zapLine {
	var out []zapLine
	for _, n := range names {
		out = append(out, zapLine{"init/init.go:252", "Setting up system aspect..", []string{"name", n}}, zapLine{"init/init.go:256", "Set up system aspect", []string{"name", n}})
	}
	return out
}

func (m *Machine) logZap(unit string, lines ...zapLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range lines {
		m.log(unit, "nodeadm", l.String())
	}
}

// NodeadmFailed logs that nodeadm could not read its configuration (the NodeConfig in user data) or, if enriching,
// could not get information about the instance. It does nothing on other images.
func (m *Machine) NodeadmFailed(err error, enriching bool) {
	if m.In.Image.Family != images.AL2023 || !forNodes(m.In.Image) {
		return
	}
	m.logZap("nodeadm-config", m.nodeadmStart("imds://user-data")...)
	if enriching {
		m.logZap("nodeadm-config", m.nodeadmEnrich()...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log("nodeadm-config", "nodeadm", zapLine{"cli/main.go:35", "Command failed", []string{"error", err.Error()}}.level("fatal"))
	m.log("nodeadm-config", "systemd", "nodeadm-config.service: Main process exited, code=exited, status=1/FAILURE")
	m.log("nodeadm-config", "systemd", "nodeadm-config.service: Failed with result 'exit-code'.")
	m.tell("nodeadm-config", "Failed to start", "")
	if u := m.services["nodeadm-config"]; u != nil {
		u.state, u.since = crashed, m.world.Clock.Now()
	}
}

// NodeadmDone logs that nodeadm has configured and started the node's daemons.
func (m *Machine) NodeadmDone() {
	if m.In.Image.Family != images.AL2023 || !forNodes(m.In.Image) {
		return
	}
	m.logZap("nodeadm-config", m.nodeadmStart("imds://user-data")...)
	m.logZap("nodeadm-config", m.nodeadmEnrich()...)
	m.logZap("nodeadm-config",
		zapLine{at: "init/init.go:202", message: "Fetching default options..."},
		zapLine{at: "init/init.go:91", message: "Validating configuration.."},
		zapLine{at: "init/init.go:96", message: "Creating daemon manager.."},
		zapLine{at: "init/init.go:120", message: "Setting up system config aspects..."},
	)
	m.logZap("nodeadm-config", aspectLines("instance-environment", "resolve")...)
	m.logZap("nodeadm-config", zapLine{at: "init/init.go:129", message: "Configuring daemons..."})
	m.logZap("nodeadm-config", daemonLines(zapLine{at: "init/init.go:217", message: "Configuring daemon..."}, zapLine{at: "init/init.go:221", message: "Configured daemon"})...)
	m.finished("nodeadm-config")
	m.logZap("nodeadm-run", m.nodeadmStart("imds://user-data, file:///etc/eks/nodeadm.d/")...)
	m.logZap("nodeadm-run", zapLine{at: "init/init.go:141", message: "Setting up system run aspects..."})
	m.logZap("nodeadm-run", aspectLines("marker", "local-disk")...)
	m.logZap("nodeadm-run", zapLine{at: "init/init.go:150", message: "Running daemons..."})
	m.logZap("nodeadm-run", daemonLines(
		zapLine{at: "init/init.go:233", message: "Ensuring daemon is running.."}, zapLine{at: "init/init.go:237", message: "Daemon is running"},
		zapLine{at: "init/init.go:239", message: "Running post-launch tasks.."}, zapLine{at: "init/init.go:243", message: "Finished post-launch tasks"},
	)...)
	m.finished("nodeadm-run")
}

// finished ends a unit that runs only once.
func (m *Machine) finished(unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell(unit, "Finished", "")
	if u := m.services[unit]; u != nil {
		u.state, u.since = inactive, m.world.Clock.Now()
	}
}

// ipamdLog is where the daemon of the VPC CNI plugin writes.
// https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#troubleshoot-cni
const ipamdLog = "/var/log/aws-routed-eni/ipamd.log"

// maxIPAMDLog is the size at which the daemon's log starts over.
const maxIPAMDLog = 64 << 10

// IPAMDLog adds a line to ipamd's log, in the form of https://github.com/aws/amazon-vpc-cni-k8s/issues/2073. The
// caller is only a file name, because line numbers differ from version to version.
func (m *Machine) IPAMDLog(level, message string) {
	b, err := json.Marshal(struct {
		Level  string `json:"level"`
		TS     string `json:"ts"`
		Caller string `json:"caller"`
		Msg    string `json:"msg"`
	}{level, m.world.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "ipamd/ipamd.go", message[:min(len(message), maxEntry)]})
	if err != nil || m.FS.MkdirAll(path.Dir(ipamdLog), 0o755) != nil {
		return // no log if the disk is full
	}
	flag := os.O_CREATE | os.O_APPEND | os.O_WRONLY
	if i, err := m.FS.Stat(ipamdLog); err == nil && i.Size() > maxIPAMDLog {
		flag = os.O_CREATE | os.O_TRUNC | os.O_WRONLY
	}
	f, err := m.FS.Open(ipamdLog, flag, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(b, '\n')) // as above
}

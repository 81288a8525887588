package ami

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// agentPackage is the package of the Systems Manager agent. All images have it but the minimal ones.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/provisioners/install-worker.sh
const agentPackage = "amazon-ssm-agent"

// LatestAgent is the version of the agent in the images.
const LatestAgent = "3.3.3050.0"

// agentVersions are the versions that can be installed, oldest first: some of those that AWS has released since TCP
// multiplexing. https://github.com/aws/amazon-ssm-agent/blob/mainline/RELEASENOTES.md
var agentVersions = []string{"3.1.338.0", "3.1.1927.0", "3.2.582.0", "3.2.1705.0", "3.2.2222.0", "3.2.2303.0", "3.3.40.0", "3.3.131.0", "3.3.987.0", "3.3.1611.0", LatestAgent}

// agentFile matches where AWS publishes the agent's package.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/agent-install-al2.html
var agentFile = regexp.MustCompile(`/(latest|[0-9.]+)/linux_[a-z0-9]+/amazon-ssm-agent\.rpm$`)

// HasAgent reports whether an image has the agent.
func HasAgent(i images.Image) bool { return i.Variant != "minimal" }

// AgentVersion returns the version of the Systems Manager agent on the machine, or the empty string if it has none.
func (m *Machine) AgentVersion() string {
	have := m.installed(m.FS)
	if !have.has(agentPackage) {
		return ""
	}
	return cmp.Or(have[agentPackage], LatestAgent)
}

// agentArgument returns the version that an argument of a package manager asks for: a URL, or a name such as
// amazon-ssm-agent-3.2.582.0. It returns false if the argument is not about the agent, and an empty version if it does not
// name one.
func agentArgument(arg string) (version string, ok bool) {
	name := packageName(arg)
	if name != agentPackage && !strings.HasPrefix(name, agentPackage+"-") {
		return "", false
	}
	version, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, agentPackage), "-"), "-")
	if found := agentFile.FindStringSubmatch(arg); found != nil && found[1] != "latest" {
		version = found[1]
	}
	return version, true
}

// agentRelease is the release of the agent's packages from AWS's bucket.
const agentRelease = "1"

// installAgent installs a version of the agent, and starts it as the package does.
func (m *Machine) installAgent(files *vfs.FS, version string) error {
	if err := remember(files, []string{agentPackage + " " + version}); err != nil {
		return err
	}
	m.mu.Lock()
	if m.services[agentPackage] == nil {
		m.services[agentPackage] = &service{state: inactive}
	}
	m.services[agentPackage].removed = false
	m.mu.Unlock()
	for _, f := range []*vfs.FS{files, m.FS} { // the second is the file system that a reboot finds
		if err := enable(f, agentPackage); err != nil {
			return err
		}
	}
	m.stop(agentPackage)
	m.start(agentPackage)
	return nil
}

// removeAgent stops the agent and removes its unit.
func (m *Machine) removeAgent(files *vfs.FS) {
	if m.unit(files, agentPackage) == nil {
		return
	}
	m.stop(agentPackage)
	disable(files, agentPackage)
	disable(m.FS, agentPackage)
	m.mu.Lock()
	m.services[agentPackage].removed = true
	m.mu.Unlock()
}

// agent handles an argument of yum or dnf that is about the agent. done means that there is nothing to install.
func (t *transaction) agent(arg string, have packageSet, downgrade bool) (version string, done bool, status int) {
	version, _ = agentArgument(arg)
	version = cmp.Or(version, LatestAgent)
	now, installed := have[agentPackage]
	now = cmp.Or(now, LatestAgent)
	switch {
	case !slices.Contains(agentVersions, version) && t.old():
		t.say("No package %s available.\nError: Nothing to do", arg)
		return "", true, 1
	case !slices.Contains(agentVersions, version):
		fmt.Fprintf(t.c.Stderr, "No match for argument: %s\nError: Unable to find a match: %s\n", arg, arg)
		return "", true, 1
	case !installed:
		return version, false, 0
	case version == now, downgrade && images.OlderVersion(now, version):
		if t.old() {
			t.say("Package %s already installed and latest version", agentPackage)
		} else {
			t.say("Package %s is already installed.", agentPackage)
		}
		return "", true, 0
	case images.OlderVersion(version, now) && t.old() && !downgrade:
		t.say("%s: does not update installed package.\nError: Nothing to do", arg)
		return "", true, 1
	}
	return version, false, 0 // dnf also installs an older version that is asked for
}

// upgradeAgent is rpm -U of the agent. old permits an older version.
func (m *Machine) upgradeAgent(c *shell.Call, arg string, old bool) int {
	version, _ := agentArgument(arg)
	version = cmp.Or(version, LatestAgent)
	now, installed := m.installed(c.FS)[agentPackage]
	now = cmp.Or(now, LatestAgent)
	full := func(v string) string {
		return agentPackage + "-" + v + "-" + agentRelease + "." + m.architecture()
	}
	switch {
	case !slices.Contains(agentVersions, version):
		fmt.Fprintf(c.Stderr, "curl: (22) The requested URL returned error: 403\nerror: skipping %s - transfer failed\n", arg)
		return 1
	case installed && version == now && !old:
		fmt.Fprintf(c.Stderr, "\tpackage %s is already installed\n", full(version))
		return 1
	case installed && images.OlderVersion(version, now) && !old:
		fmt.Fprintf(c.Stderr, "\tpackage %s (which is newer than %s) is already installed\n", full(now), full(version))
		return 1
	}
	if err := m.installAgent(c.FS, version); err != nil {
		fmt.Fprintf(c.Stderr, "error: %s\n", err)
		return 1
	}
	return 0
}

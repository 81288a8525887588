package ami

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Package managers are imitated up to the connection to the repository, which is in S3, through the machine's own
// network and name server. Packages have no content: installing one succeeds, is recorded (rpm -q) and creates a unit
// file if the package is known to have one, but adds no commands; those still end in "command not found". Of packages
// that are installed later, only the agent of Systems Manager has a version.

// installedFile records what was installed; on a real machine it is a database.
const installedFile = "/var/lib/rpm/simulated-packages"

// imagePackages returns the packages in the images, by the names they have there.
func (m *Machine) imagePackages() map[string]imagePackage {
	list := packages2023
	if m.In.Image.Family == images.AL2 {
		list = packages2
	}
	if hasConnect(m.In.Image) {
		list += connectPackage + " 1.1-19." + map[bool]string{true: "amzn2", false: "amzn2023"}[m.In.Image.Family == images.AL2] + " noarch EC2 instance scripting and configuration for EC2 Instance Connect\n"
	}
	out := map[string]imagePackage{}
	for line := range strings.Lines(list) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if f[0] == agentPackage && !HasAgent(m.In.Image) {
			continue
		}
		p := imagePackage{epoch: "(none)", arch: f[2], summary: f[3]}
		full := f[1]
		if epoch, rest, ok := strings.Cut(full, ":"); ok {
			p.epoch, full = epoch, rest
		}
		p.version, p.release, _ = strings.Cut(full, "-")
		if p.arch == "arch" {
			p.arch = m.architecture()
		}
		out[f[0]] = p
	}
	name, version, _ := strings.Cut(strings.TrimSuffix(kernel(m.In.Image.Family, m.architecture()), "."+m.architecture()), "-")
	out["kernel"] = imagePackage{name, version, "(none)", m.architecture(), "The Linux kernel"}
	return out
}

// An imagePackage is a package of an image.
type imagePackage struct{ version, release, epoch, arch, summary string }

// The packages of the images: name, [epoch:]version-release, architecture and summary. Versions are those in the release
// notes of Amazon Linux 2023.9 and in images of its time, such as https://github.com/docker-library/repo-info shows them;
// the last digits of some releases are from memory.
const packages2023 = `amazon-ssm-agent ` + LatestAgent + `-1.amzn2023 arch Manage EC2 Instances using SSM APIs
aws-cfn-bootstrap 2.0-34.amzn2023 noarch An EC2 bootstrapper for CloudFormation
awscli-2 2.30.4-1.amzn2023.0.1 noarch Universal Command Line Environment for AWS, version 2
bash 5.2.15-1.amzn2023.0.2 arch The GNU Bourne Again shell
ca-certificates 2023.2.68-1.0.amzn2023.0.1 noarch The Mozilla CA root certificate bundle
chrony 4.3-1.amzn2023.0.5 arch An NTP client/server
cloud-init 22.2.2-1.amzn2023.1.14 noarch Cloud instance init scripts
containerd 2.1.4-1.amzn2023.0.1 arch Industry-standard container runtime
coreutils 8.32-30.amzn2023.0.4 arch A set of basic GNU tools commonly used in shell scripts
curl 8.11.1-4.amzn2023.0.1 arch A utility for getting files from remote servers (FTP, HTTP, and others)
dnf 4.14.0-1.amzn2023.0.6 noarch Package manager
findutils 1:4.8.0-2.amzn2023.0.2 arch The GNU versions of find utilities (find and xargs)
gawk 5.1.0-3.amzn2023.0.3 arch The GNU version of the AWK text processing utility
grep 3.8-1.amzn2023.0.4 arch Pattern matching utilities
gzip 1.12-1.amzn2023.0.1 arch The GNU data compression program
jq 1.7.1-49.amzn2023.0.2 arch Command-line JSON processor
openssh-server 8.7p1-8.amzn2023.0.14 arch An open source SSH server daemon
sed 4.8-7.amzn2023.0.2 arch A GNU stream text editor
sudo 1.9.15-1.p5.amzn2023.0.1 arch Allows restricted root access for specified users
systemd 252.23-10.amzn2023 arch System and Service Manager
tar 2:1.34-1.amzn2023.0.4 arch GNU file archiving program
util-linux 2.37.4-1.amzn2023.0.4 arch Collection of basic system utilities
which 2.21-26.amzn2023.0.2 arch Displays where a particular program in your path is located
`

const packages2 = `amazon-linux-extras 2.0.3-1.amzn2 noarch Command-line tool that manages Extras topics
amazon-ssm-agent ` + LatestAgent + `-1.amzn2 arch Manage EC2 Instances using SSM APIs
aws-cfn-bootstrap 2.0-34.amzn2 noarch An EC2 bootstrapper for CloudFormation
awscli 1.18.147-1.amzn2.0.2 noarch Universal Command Line Environment for AWS
bash 4.2.46-34.amzn2 arch The GNU Bourne Again shell
ca-certificates 2023.2.68-1.amzn2.0.1 noarch The Mozilla CA root certificate bundle
chrony 4.2-5.amzn2.0.2 arch An NTP client/server
cloud-init 19.3-46.amzn2.0.4 noarch Cloud instance init scripts
containerd 1.7.27-1.amzn2.0.1 arch Industry-standard container runtime
coreutils 8.22-24.amzn2 arch A set of basic GNU tools commonly used in shell scripts
curl 8.3.0-1.amzn2.0.7 arch A utility for getting files from remote servers (FTP, HTTP, and others)
findutils 1:4.5.11-6.amzn2 arch The GNU versions of find utilities (find and xargs)
gawk 4.0.2-4.amzn2.1.3 arch The GNU version of the awk text processing utility
grep 2.20-3.amzn2.0.2 arch Pattern matching utilities
gzip 1.5-10.amzn2.0.1 arch The GNU data compression program
jq 1.5-1.amzn2.0.2 arch Command-line JSON processor
openssh-server 7.4p1-22.amzn2.0.6 arch An open source SSH server daemon
sed 4.2.2-5.amzn2.0.2 arch A GNU stream text editor
sudo 1.8.23-10.amzn2.3.5 arch Allows restricted root access for specified users
systemd 219-78.amzn2.0.22 arch A System and Service Manager
tar 2:1.26-35.amzn2.0.3 arch A GNU file archiving program
util-linux 2.30.2-2.amzn2.0.11 arch A collection of basic system utilities
which 2.20-7.amzn2.0.2 arch Displays where a particular program in your path is located
yum 3.4.3-158.amzn2.0.7 noarch RPM package installer/updater/manager
`

// unitOf maps well-known packages to the services that they bring.
var unitOf = map[string]string{
	"amazon-cloudwatch-agent": "amazon-cloudwatch-agent", "docker": "docker", "httpd": "httpd", "nginx": "nginx", "nfs-utils": "nfs-server", "amazon-efs-utils": "amazon-efs-mount-watchdog", "iscsi-initiator-utils": "iscsid",
}

// maxInstalled bounds the packages of a machine, because the machine can write the file that lists them.
const maxInstalled = 10_000

// installed returns the packages that the machine has.
func (m *Machine) installed(files *vfs.FS) packageSet {
	out := packageSet{}
	for name := range m.imagePackages() {
		out[name] = ""
	}
	b, _ := files.ReadFile(installedFile) // if it does not exist, nothing was installed
	for line := range strings.Lines(string(b)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if gone, ok := strings.CutPrefix(name, "-"); ok {
			delete(out, gone)
		} else if name != "" && len(out) < maxInstalled {
			out[name] = version
		}
	}
	return out
}

// A packageSet has the versions of packages by their names. An empty version is that of the image, or not known.
type packageSet map[string]string

func (s packageSet) has(name string) bool { _, ok := s[name]; return ok }

func (s packageSet) sorted() []string { return slices.Sorted(maps.Keys(s)) }

func remember(files *vfs.FS, names []string) error {
	if err := files.MkdirAll(path.Dir(installedFile), 0o755); err != nil {
		return err
	}
	b, err := files.ReadFile(installedFile)
	if err != nil {
		b = nil // this is the first
	}
	return files.WriteFile(installedFile, append(b, strings.Join(names, "\n")+"\n"...), 0o644)
}

// packageName returns a package's name, also if it is given by a file or a URL.
func packageName(arg string) string {
	name := strings.TrimSuffix(path.Base(arg), ".rpm")
	for _, arch := range []string{".x86_64", ".aarch64", ".noarch"} {
		name = strings.TrimSuffix(name, arch)
	}
	return name
}

func validPackage(name string) bool {
	return name != "" && len(name) < 128 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-@*") == ""
}

package ami

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
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

// mirror returns the package manager's first URL. http://nopipi.hatenablog.com/entry/2018/09/10/173000 names Amazon
// Linux 2's bucket; that of Amazon Linux 2023 and the paths are from memory.
func (m *Machine) mirror() string {
	if m.In.Image.Family == images.AL2 {
		return "https://" + Mirror(m.In) + "/2/core/latest/" + m.architecture() + "/mirror.list"
	}
	return "https://" + Mirror(m.In) + "/core/mirrors/latest/" + m.architecture() + "/mirror.list"
}

// Mirror returns the host from which an instance's package manager downloads.
func Mirror(in machine.Instance) string {
	if in.Image.Family == images.AL2 {
		return fmt.Sprintf("amazonlinux-2-repos-%s.s3.dualstack.%s.amazonaws.com", in.Region, in.Region)
	}
	return fmt.Sprintf("al2023-repos-%s-de612dc2.s3.dualstack.%s.amazonaws.com", in.Region, in.Region)
}

// reachMirror contacts the repository, and reports in curl's words if it cannot be reached. Any answer will do,
// because the AWS API server has no S3.
func (m *Machine) reachMirror(ctx context.Context) (code int, text string, ok bool) {
	target := m.mirror()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 3, err.Error(), false
	}
	resp, err := m.roundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // the content does not matter
		_ = resp.Body.Close()
		return 0, "", true
	}
	u, _ := url.Parse(target) // it was parsed above
	code, text = curlError(err, u)
	return code, text, false
}

// packageManager returns the package manager with that name, if the image has it: no Amazon Linux has apt-get.
func (m *Machine) packageManager(name string) func(context.Context, *shell.Call) int {
	al2, al2023 := m.In.Image.Family == images.AL2, m.In.Image.Family == images.AL2023
	switch {
	case name == "rpm" && (al2 || al2023):
		return m.rpm
	case name == "yum" && (al2 || al2023), name == "dnf" && al2023:
		return m.packages
	case name == "amazon-linux-extras" && al2:
		return m.extras
	}
	return nil
}

// A transaction is one run of yum or dnf.
type transaction struct {
	m *Machine
	c *shell.Call

	yes, quiet bool
	words      []string
}

// packages is yum and dnf, which on Amazon Linux 2023 are the same program.
func (m *Machine) packages(ctx context.Context, c *shell.Call) int {
	t := &transaction{m: m, c: c}
	for _, a := range c.Args[1:] {
		switch {
		case a == "-y" || a == "--assumeyes":
			t.yes = true
		case a == "-q" || a == "--quiet":
			t.quiet = true
		case strings.HasPrefix(a, "-"): // repositories, release versions and other choices
		default:
			t.words = append(t.words, a)
		}
	}
	if len(t.words) == 0 {
		fmt.Fprintln(c.Stderr, "You need to give some command")
		return 1
	}
	verb, names := t.words[0], t.words[1:]
	switch verb {
	case "clean", "versionlock", "config-manager", "module":
		return 0
	case "list", "repolist", "info", "search", "provides", "whatprovides":
		return t.list(ctx, verb, names)
	case "install", "localinstall", "reinstall", "groupinstall", "update", "upgrade", "upgrade-minimal", "makecache", "check-update", "remove", "erase", "autoremove", "swap", "downgrade":
	default:
		fmt.Fprintf(c.Stderr, "No such command: %s. Please use %s --help\n", verb, path.Base(c.Args[0]))
		return 1
	}
	if verb == "remove" || verb == "erase" || verb == "autoremove" {
		return t.remove(names)
	}
	if !t.reach(ctx) {
		return 1
	}
	switch verb {
	case "makecache":
		t.say("Metadata cache created.")
		return 0
	case "update", "upgrade", "upgrade-minimal", "check-update":
		if len(names) == 0 {
			t.say(t.nothing())
			return 0
		}
	}
	if verb == "reinstall" {
		return t.reinstall(names)
	}
	return t.install(ctx, names, verb == "downgrade")
}

// reinstall installs packages again that are installed.
func (t *transaction) reinstall(names []string) int {
	have := t.m.installed(t.c.FS)
	for _, n := range names {
		if !have.has(n) {
			t.say("Package %s available, but not installed.", n)
			fmt.Fprintln(t.c.Stderr, "Error: No packages marked for reinstall.")
			return 1
		}
	}
	if slices.Contains(names, connectPackage) {
		if err := t.m.installConnect(t.c.FS); err != nil {
			fmt.Fprintf(t.c.Stderr, "Error: %s\n", err)
			return 1
		}
	}
	t.say("Reinstalled:\n  %s\n\nComplete!", strings.Join(names, "\n  "))
	return 0
}

func (t *transaction) old() bool { return t.m.In.Image.Family == images.AL2 }

func (t *transaction) say(format string, args ...any) {
	if !t.quiet {
		fmt.Fprintf(t.c.Stdout, format+"\n", args...)
	}
}

func (t *transaction) nothing() string {
	if t.old() {
		return "No packages marked for update"
	}
	return "Dependencies resolved.\nNothing to do.\nComplete!"
}

// reach contacts the repository, and prints the errors of yum 3.4 or dnf 4 if it cannot be reached.
func (t *transaction) reach(ctx context.Context) bool {
	code, text, ok := t.m.reachMirror(ctx)
	if ok {
		return true
	}
	target := t.m.mirror()
	if t.old() {
		// https://agohack.com/amazon-ec2-yum-http-error-403 has the first two lines, for another error.
		kind := "14: curl#" + fmt.Sprint(code) + " - "
		if code == 28 {
			kind = "12: Timeout on " + target + ": (28, "
			text = fmt.Sprintf("'%s')", text)
		} else {
			text = `"` + text + `"`
		}
		fmt.Fprintf(t.c.Stderr, "Could not retrieve mirrorlist %s error was\n%s%s\n\n\n One of the configured repositories failed (Unknown),\n and yum doesn't have enough cached data to continue.\n\nCannot find a valid baseurl for repo: amzn2-core/2/x86_64\n", target, kind, text)
		return false
	}
	reason := map[int]string{6: "Couldn't resolve host name", 7: "Couldn't connect to server", 28: "Timeout was reached"}[code]
	reason = fmt.Sprintf("Curl error (%d): %s for %s [%s]", code, reason, target, text)
	// The form is librepo's, as shown in
	// https://getpagespeed.com/server-setup/nginx/epel-powered-by-cloudflare-cdn-fix-your-sanity.
	fmt.Fprintf(t.c.Stderr, "Errors during downloading metadata for repository 'amazonlinux':\n  - %s\nError: Failed to download metadata for repo 'amazonlinux': Cannot prepare internal mirrorlist: %s\n", reason, reason)
	return false
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

func (t *transaction) install(ctx context.Context, names []string, downgrade bool) int {
	if len(names) == 0 {
		fmt.Fprintln(t.c.Stderr, "Error: Need to pass a list of pkgs to install")
		return 1
	}
	have := t.m.installed(t.c.FS)
	var fresh []string
	agent := "" // the version of the Systems Manager agent to install
	chosen := packageSet{}
	for _, arg := range names {
		name := packageName(arg)
		if strings.Contains(arg, "://") {
			if err := t.m.fetch(ctx, arg); err != nil {
				if t.old() {
					fmt.Fprintf(t.c.Stderr, "Cannot open: %s. Skipping.\nError: Nothing to do\n", arg)
				} else {
					fmt.Fprintf(t.c.Stderr, "[MIRROR] %s: Curl error %s [%s]\nError: Error downloading packages:\n", path.Base(arg), err, arg)
				}
				return 1
			}
		}
		if _, ok := agentArgument(arg); ok {
			version, done, status := t.agent(arg, have, downgrade)
			if status != 0 {
				return status
			}
			if !done && !chosen.has(agentPackage) {
				agent, chosen[agentPackage] = version, version
				fresh = append(fresh, agentPackage)
			}
			continue
		}
		switch {
		case !validPackage(name):
			if t.old() {
				t.say("No package %s available.\nError: Nothing to do", arg)
			} else {
				fmt.Fprintf(t.c.Stderr, "No match for argument: %s\nError: Unable to find a match: %s\n", arg, arg)
			}
			return 1
		case have.has(name) && t.old():
			t.say("Package %s already installed and latest version", name)
		case have.has(name):
			t.say("Package %s is already installed.", name)
		case !chosen.has(name):
			chosen[name] = ""
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		if t.old() {
			t.say("Nothing to do")
		} else {
			t.say("%s", t.nothing())
		}
		return 0
	}
	t.say("Dependencies resolved.\n\nInstalling:\n %s\n\nTransaction Summary\nInstall  %d Package%s\n", strings.Join(fresh, "\n "), len(fresh), map[bool]string{true: "s"}[len(fresh) > 1])
	if !t.yes {
		// Nobody can answer prompts in user data.
		fmt.Fprint(t.c.Stdout, "Is this ok [y/N]: Operation aborted.\n")
		return 1
	}
	err := remember(t.c.FS, fresh)
	if agent != "" && err == nil {
		err = t.m.installAgent(t.c.FS, agent)
	}
	if slices.Contains(fresh, connectPackage) && err == nil {
		err = t.m.installConnect(t.c.FS)
	}
	for _, name := range fresh {
		if unit := unitOf[name]; unit != "" && err == nil {
			if err = t.c.FS.MkdirAll(packageUnits, 0o755); err == nil {
				err = t.c.FS.WriteFile(packageUnits+unit+".service", []byte("[Unit]\nDescription="+name+"\n"), 0o644)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(t.c.Stderr, "Error: %s\n", err)
		return 1
	}
	t.say("Installed:\n  %s\n\nComplete!", strings.Join(fresh, "\n  "))
	return 0
}

func (t *transaction) remove(names []string) int {
	have := t.m.installed(t.c.FS)
	var gone []string
	for _, n := range names {
		if !have.has(n) {
			t.say("No match for argument: %s", n)
			continue
		}
		gone = append(gone, "-"+n)
	}
	if gone == nil {
		t.say("%s", t.nothing())
		return 0
	}
	err := remember(t.c.FS, gone)
	if slices.Contains(gone, "-"+agentPackage) && err == nil {
		t.m.removeAgent(t.c.FS)
	}
	if slices.Contains(gone, "-"+connectPackage) && err == nil {
		err = t.m.removeConnect(t.c.FS)
	}
	if err != nil {
		fmt.Fprintf(t.c.Stderr, "Error: %s\n", err)
		return 1
	}
	t.say("Removed:")
	for _, n := range gone {
		t.say("  %s", n[1:])
	}
	t.say("\nComplete!")
	return 0
}

// list shows what is installed; the repositories' contents are not known here.
func (t *transaction) list(ctx context.Context, verb string, names []string) int {
	if verb == "list" && len(names) > 0 && (names[0] == "installed" || names[0] == "--installed") {
		have := t.m.installed(t.c.FS)
		wanted := packageSet{}
		for _, n := range names[1:] {
			wanted[n] = ""
		}
		shown := 0
		for _, n := range have.sorted() {
			if len(names) == 1 || wanted.has(n) {
				shown++
				fmt.Fprintln(t.c.Stdout, n)
			}
		}
		if shown == 0 {
			fmt.Fprintln(t.c.Stderr, "Error: No matching Packages to list")
			return 1
		}
		return 0
	}
	if !t.reach(ctx) {
		return 1
	}
	if verb == "repolist" {
		fmt.Fprintln(t.c.Stdout, "repo id          repo name\namazonlinux      Amazon Linux repository")
		return 0
	}
	fmt.Fprintf(t.c.Stderr, "%s %s is not supported on simulated nodes\n", path.Base(t.c.Args[0]), verb)
	return 1
}

// queried matches a tag, with its width, or an escaped character of rpm's query formats.
var queried = regexp.MustCompile(`%(-?[0-9]*)\{([A-Za-z0-9_:]+)\}|\\(.)`)

// query returns what rpm -q prints about a package. version is not empty if it is not that of the image.
// https://rpm.org/docs/latest/manual/queryformat.html
func (m *Machine) query(name, version, format string) (string, error) {
	p, known := m.imagePackages()[name]
	if name == agentPackage && version != "" {
		p = imagePackage{version, agentRelease, "(none)", m.architecture(), "Manage EC2 Instances using SSM APIs"}
		known = true
	}
	if format == "" {
		if !known {
			return name + "\n", nil
		}
		format = "%{NVRA}\\n"
	}
	full := name + "-" + p.version + "-" + p.release
	tags := map[string]string{
		"NAME": name, "VERSION": p.version, "RELEASE": p.release, "EPOCH": p.epoch, "ARCH": p.arch, "SUMMARY": p.summary, "VENDOR": "Amazon Linux", "GROUP": "Unspecified", "URL": "(none)",
		"INSTALLTIME": strconv.FormatInt(m.In.Image.Created.Unix(), 10), "SOURCERPM": full + ".src.rpm", "NVR": full, "NVRA": full + "." + p.arch, "EVR": p.version + "-" + p.release,
	}
	if !known {
		for tag := range tags {
			if tag != "NAME" {
				tags[tag] = "(none)"
			}
		}
		tags["NVR"], tags["NVRA"] = name, name
	}
	var failed error
	return queried.ReplaceAllStringFunc(format, func(part string) string {
		found := queried.FindStringSubmatch(part)
		if found[3] != "" {
			return cmp.Or(map[string]string{"n": "\n", "t": "\t"}[found[3]], found[3])
		}
		value, ok := tags[strings.ToUpper(strings.TrimPrefix(strings.ToUpper(found[2]), "RPMTAG_"))]
		if !ok {
			failed = fmt.Errorf("incorrect format: unknown tag: %q", found[2])
		}
		width, _ := strconv.Atoi(found[1]) // without one it is 0
		return fmt.Sprintf("%*s", min(max(width, -maxWidth), maxWidth), value)
	}), failed
}

const maxWidth = 1000 // of a tag

// rpm answers -q, -qa, -i and -e.
func (m *Machine) rpm(ctx context.Context, c *shell.Call) int {
	have := m.installed(c.FS)
	var flags, format string
	var names []string
	old := false
	for i := 1; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case (a == "--queryformat" || a == "--qf") && i+1 < len(c.Args):
			i++
			format = c.Args[i]
		case strings.HasPrefix(a, "--queryformat=") || strings.HasPrefix(a, "--qf="):
			_, format, _ = strings.Cut(a, "=")
		case a == "--oldpackage" || a == "--force":
			old = true
		case strings.HasPrefix(a, "--"):
			flags += map[string]string{"--query": "q", "--all": "a", "--install": "i", "--upgrade": "U", "--erase": "e", "--import": "I"}[a]
		case strings.HasPrefix(a, "-"):
			flags += a[1:]
		default:
			names = append(names, a)
		}
	}
	switch {
	case strings.ContainsAny(flags, "I"): // imports a key
		return 0
	case strings.Contains(flags, "q"):
		if strings.Contains(flags, "a") {
			names = have.sorted()
		}
		status := 0
		for _, n := range names {
			if !have.has(n) {
				fmt.Fprintf(c.Stdout, "package %s is not installed\n", n)
				status = 1
				continue
			}
			text, err := m.query(n, have[n], format)
			if err != nil {
				fmt.Fprintf(c.Stderr, "error: %s\n", err)
				return 1
			}
			if _, err := io.WriteString(c.Stdout, text); err != nil {
				return 1 // the reader is gone
			}
		}
		return status
	case strings.Contains(flags, "e") && len(names) > 0:
		for _, n := range names {
			if !have.has(n) {
				fmt.Fprintf(c.Stderr, "error: package %s is not installed\n", n)
				return 1
			}
		}
		return (&transaction{m: m, c: c, quiet: true}).remove(names)
	case strings.ContainsAny(flags, "iUF") && len(names) > 0:
		for _, n := range names {
			if strings.Contains(n, "://") {
				if err := m.fetch(ctx, n); err != nil {
					fmt.Fprintf(c.Stderr, "curl: %s\nerror: skipping %s - transfer failed\n", err, n)
					return 1
				}
			} else if _, err := c.FS.Stat(c.Path(n)); err != nil {
				fmt.Fprintf(c.Stderr, "error: open of %s failed: No such file or directory\n", n)
				return 1
			}
		}
		var others []string
		for _, n := range names {
			if _, ok := agentArgument(n); !ok {
				others = append(others, n)
			} else if status := m.upgradeAgent(c, n, old); status != 0 {
				return status
			}
		}
		if others == nil {
			return 0
		}
		t := &transaction{m: m, c: c, yes: true, quiet: true}
		for i, n := range others {
			others[i] = packageName(n) // they have been downloaded
		}
		return t.install(ctx, others, false)
	}
	fmt.Fprintf(c.Stderr, "rpm: %s is not supported on simulated nodes\n", strings.Join(c.Args[1:], " "))
	return 1
}

// fetch downloads what a package manager is to install from a URL.
func (m *Machine) fetch(ctx context.Context, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return errors.New("(3) URL using bad/illegal format or missing URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	resp, err := m.roundTrip(req)
	if err != nil {
		code, text := curlError(err, u)
		return fmt.Errorf("(%d) %s", code, text)
	}
	_ = resp.Body.Close() // only the route matters
	if resp.StatusCode >= 400 && !strings.HasSuffix(u.Hostname(), ".amazonaws.com") {
		return fmt.Errorf("(22) The requested URL returned error: %d", resp.StatusCode)
	}
	return nil
}

// extras is amazon-linux-extras of Amazon Linux 2, which enables topics and installs their packages.
func (m *Machine) extras(ctx context.Context, c *shell.Call) int {
	var words []string
	for _, a := range c.Args[1:] {
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	if len(words) < 2 {
		return 0 // prints the list of topics, which user data does not need
	}
	d := *c
	switch words[0] {
	case "enable", "disable":
		return 0
	case "install":
		d.Args = append([]string{"yum", "install", "-y"}, words[1:]...)
		for i, a := range d.Args {
			d.Args[i], _, _ = strings.Cut(a, "=") // TOPIC=VERSION
		}
		return m.packages(ctx, &d)
	}
	fmt.Fprintf(c.Stderr, "Unknown command %q\n", words[0])
	return 2
}

package ami

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

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
		// User data runs without a terminal, so the prompt is not answered.
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

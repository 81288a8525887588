package ami

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// Bottlerocket's host has no shell and no sshd. The Systems Manager agent runs in its control container, from which people get
// into the admin container, and by sheltie from there onto the host. On simulated machines, all three share one disk; the
// variable container says to a program in which it runs. Anyone may set it, so the boundary is only cosmetic.
// https://bottlerocket.dev/en/os/latest/#/install/quickstart/aws/host-containers/
// https://github.com/bottlerocket-os/bottlerocket-control-container, bottlerocket-admin-container
const (
	inControl = "" // where sessions begin
	inAdmin   = "admin"
	onHost    = "host"
)

// bottlerocketPrograms are the programs beyond the shell's own, by where they are.
var bottlerocketPrograms = map[string][]string{
	inControl: {"curl"},
	inAdmin:   {"curl", "wget", "ip", "ss", "ps", "top", "df", "free", "uptime", "ping", "dig", "nslookup", "nc", "kill", "pkill", "pgrep", "pidof"},
	onHost:    {"systemctl", "journalctl", "ctr", "iptables", "iptables-save", "ip", "ss", "ps", "df", "free", "uptime", "kill", "pkill", "pgrep", "pidof"},
}

// bottlerocketAPI is the program that stands for Bottlerocket's API server.
const bottlerocketAPI = "/usr/libexec/bottlerocket-api"

// settingsFile has the settings that were changed by apiclient set.
const settingsFile = "/var/lib/bottlerocket/settings.json"

// maxSettings bounds the size of settingsFile.
const maxSettings = 64 << 10

// bottlerocketFiles are what the containers have.
func (m *Machine) bottlerocketFiles() []imageFile {
	in := m.In
	return append(m.procFiles(), []imageFile{
		{"/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/bash\nnobody:x:99:99:Nobody:/:/sbin/nologin\nssm-user:x:1000:1000::/home/ssm-user:/bin/bash\n"},
		{"/etc/group", 0o644, "root:x:0:\nusers:x:100:ssm-user\napi:x:274:ssm-user\nnobody:x:99:\nssm-user:x:1000:\n"},
		{"/etc/hostname", 0o644, in.PrivateDNSName + "\n"},
		{"/etc/hosts", 0o644, "127.0.0.1   localhost localhost.localdomain localhost4 localhost4.localdomain4\n::1         localhost6 localhost6.localdomain6\n"},
		{"/etc/resolv.conf", 0o644, "nameserver 169.254.169.253\n"},
		{"/etc/os-release", 0o644, osRelease(images.AL2)}, // the containers'
		{"/etc/motd", 0o644, controlMotd},
		{"/etc/skel/.bashrc", 0o644, "cat /etc/motd\n"},
		{"/root/.bashrc", 0o644, "[ \"$container\" = admin ] && cat /etc/admin-motd\n"},
		{"/etc/admin-motd", 0o644, adminMotd},
		{"/usr/bin/apiclient", 0o755, apiclientScript},
		{"/usr/bin/enable-admin-container", 0o755, enableAdmin},
		{"/usr/bin/disable-admin-container", 0o755, disableAdmin},
		{"/usr/bin/enter-admin-container", 0o755, enterAdmin},
		{"/usr/sbin/sheltie", 0o755, sheltie},
		{"/proc/sys/kernel/arch", 0o444, m.architecture() + "\n"},
		{"/proc/sys/kernel/nproc", 0o444, fmt.Sprintln(in.Type.VCPU)},
		{"/proc/sys/kernel/osrelease", 0o444, "6.12.55\n"},
	}...)
}

const (
	controlMotd = `Welcome to Bottlerocket's control container!

apiclient reads and changes the settings of this node: apiclient get settings. Its help is apiclient --help.
enter-admin-container enables and enters the admin container, which has root access to the host;
enable-admin-container and disable-admin-container only switch it.
`
	adminMotd = `Welcome to Bottlerocket's admin container!

This container has root access to the node. sheltie opens a shell of the host itself.
`
	apiclientScript = `#!/bin/bash
case "$1" in
exec) ;;
*)
    ` + bottlerocketAPI + ` "$@"
    exit
    ;;
esac
shift
case "$1" in
-t | -T | --tty | --no-tty) shift ;;
esac
target=$1
` + bottlerocketAPI + ` exec "$@" </dev/null || exit
shift
[ "$target" = admin ] || target=
sudo container=$target "$@"
`
	enableAdmin = `#!/bin/bash
if apiclient raw -u "/settings?keys=settings.host-containers.admin.enabled" | grep -q true; then
    echo "The admin container is already enabled - it should start soon, if it hasn't already, and then you can SSH in or use 'apiclient exec admin bash'."
else
    echo "Enabling admin container"
    if ! apiclient set host-containers.admin.enabled=true; then
        echo "Error: failed to enable admin container" >&2
        exit 1
    fi
    echo "The admin container is now enabled - it should pull and start soon, and then you can SSH in or use 'apiclient exec admin bash'."
fi
echo "You can also use 'enter-admin-container' to enable, wait, and connect in one step."
`
	disableAdmin = `#!/bin/bash
if apiclient raw -u "/settings?keys=settings.host-containers.admin.enabled" | grep -q false; then
    echo "The admin container is already disabled - it should stop soon, if it hasn't already."
else
    echo "Disabling admin container"
    if ! apiclient set host-containers.admin.enabled=false; then
        echo "Error: failed to disable admin container" >&2
        exit 1
    fi
    echo "The admin container is now disabled - it should stop soon."
fi
`
	enterAdmin = `#!/bin/bash
echo "Confirming admin container is enabled..."
if ! enable-admin-container >/dev/null; then
    echo "Error: failed to enable admin container." >&2
    exit 1
fi
echo "Waiting for admin container to start..."
echo "Entering admin container"
apiclient exec admin bash
`
	sheltie = `#!/bin/bash
if [ "$container" != admin ]; then
    echo "sheltie: only the admin container can reach the host" >&2
    exit 1
fi
container=host bash
`
)

// bottlerocketEnvironment makes sh print the control container's greeting when it starts on a terminal.
var bottlerocketEnvironment = []string{"ENV=/etc/skel/.bashrc"}

// bottlerocketPrompt is the prompt of a shell in one of the containers, or on the host.
func bottlerocketPrompt(user string, env []string) string {
	sign := "$"
	if user == "root" {
		sign = "#"
	}
	switch {
	case slices.Contains(env, "container="+onHost):
		return "bash-5.1" + sign + " "
	case slices.Contains(env, "container="+inAdmin):
		return "[" + user + "@admin]" + sign + " "
	}
	return "[" + user + "@control]" + sign + " "
}

// Shells returns what shells of the image have in their environment, and their prompts; nil means Amazon Linux's.
func (m *Machine) Shells() (env []string, prompt func(user string, env []string) string) {
	if m.In.Image.Family != images.Bottlerocket {
		return nil, nil
	}
	return bottlerocketEnvironment, bottlerocketPrompt
}

// bottlerocketProgram returns the Bottlerocket program with the given name, or nil if the caller's container does not have it.
func (m *Machine) bottlerocketProgram(c *shell.Call, name string) func(context.Context, *shell.Call) int {
	if name == bottlerocketAPI {
		return m.apiclient
	}
	where := c.Getenv("container")
	if !slices.Contains(bottlerocketPrograms[where], name) || where != inControl && !m.hostContainer("admin") {
		return nil
	}
	return m.program(name)
}

// apiclient answers what Bottlerocket's API server does for the program of that name. What it does not implement, it says.
func (m *Machine) apiclient(_ context.Context, c *shell.Call) int {
	args := c.Args[1:]
	fail := func(format string, a ...any) int {
		fmt.Fprintf(c.Stderr, format+"\n", a...)
		return 1
	}
	show := func(v any, indent string) int {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", indent)
		if err := e.Encode(v); err != nil {
			return fail("%s", err)
		}
		_, _ = out.WriteTo(c.Stdout) // the program that reads it may have ended
		return 0
	}
	settings := m.settings()
	all := map[string]any{"settings": settings, "os": m.bottlerocketOS()}
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch {
	case command == "get":
		keys := args[1:]
		if len(keys) == 1 && strings.HasPrefix(keys[0], "/") {
			v, ok := resource(all, keys[0])
			if !ok {
				return fail("Failed to get settings: Failed GET request to '%s': it is not implemented on simulated machines", keys[0])
			}
			return show(v, "  ")
		}
		if len(keys) == 0 {
			keys = []string{"os.", "settings."}
		}
		return show(selected(all, hasPrefix(keys...)), "  ")
	case command == "raw" || command == "-u" || command == "--uri":
		if command == "raw" {
			args = args[1:]
		}
		if len(args) != 2 || args[0] != "-u" && args[0] != "--uri" {
			return fail("apiclient raw: simulated machines only answer apiclient raw -u URI")
		}
		v, ok := resource(all, args[1])
		if !ok {
			return fail("Failed GET request to '%s': it is not implemented on simulated machines", args[1])
		}
		return show(v, "")
	case command == "set":
		return m.set(c, args[1:])
	case command == "exec" && len(args) < 3:
		return fail("apiclient exec needs a container and a command: apiclient exec admin bash")
	case command == "exec" && args[1] != "admin" && args[1] != "control":
		return fail("Failed to exec: simulated machines only have the host containers admin and control, not '%s'", args[1])
	case command == "exec" && !m.hostContainer(args[1]):
		return fail("Failed to exec: the host container '%s' is not running", args[1])
	case command == "exec":
		return 0
	case command == "-h" || command == "--help" || command == "":
		fmt.Fprintln(c.Stderr, "Usage: apiclient [SUBCOMMAND] [OPTION]...\n\nOn simulated machines: get [PREFIX ...], raw -u URI, set KEY=VALUE ..., exec TARGET COMMAND [ARG ...].")
		return 2
	}
	return fail("apiclient %s is not implemented on simulated machines", command)
}

// settable are the settings that apiclient set can change.
var settable = []string{"motd", "host-containers.admin.enabled", "host-containers.control.enabled"}

// set changes settings.
func (m *Machine) set(c *shell.Call, pairs []string) int {
	fail := func(format string, a ...any) int {
		fmt.Fprintf(c.Stderr, "Failed to change settings: "+format+"\n", a...)
		return 1
	}
	if len(pairs) == 0 {
		fmt.Fprintln(c.Stderr, "Must specify key=value settings or --json settings with 'set'")
		return 2
	}
	wanted := map[string]any{}
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		key = strings.TrimPrefix(key, "settings.")
		switch {
		case !ok || !slices.Contains(settable, key):
			return fail("%q: simulated machines can only change %s", p, strings.Join(settable, ", "))
		case key == "motd":
			wanted[key] = value
		case value != "true" && value != "false":
			return fail("%s must be true or false, not %q", key, value)
		default:
			wanted[key] = value == "true"
		}
	}
	m.settingsMu.Lock()
	defer m.settingsMu.Unlock()
	modified := map[string]any{}
	maps.Copy(modified, m.modified)
	maps.Copy(modified, wanted)
	b, err := json.Marshal(modified)
	if err == nil && len(b) > maxSettings {
		err = fmt.Errorf("simulated machines keep at most %d bytes of them", maxSettings)
	}
	// Not to c.FS, which other programs do not see before this one's script ends.
	if err == nil {
		err = m.FS.MkdirAll(path.Dir(settingsFile), 0o755)
	}
	if err == nil {
		err = m.FS.WriteFile(settingsFile, b, 0o600)
	}
	if err != nil {
		return fail("%s", err)
	}
	m.modified = modified
	switch wanted["host-containers.control.enabled"] { // the agent runs in the control container
	case true:
		m.start(agentPackage)
	case false:
		m.stop(agentPackage)
	}
	return 0
}

// loadSettings reads the settings that apiclient set has changed before the machine booted. root may have written anything
// into their file.
func (m *Machine) loadSettings() {
	info, err := m.FS.Stat(settingsFile)
	if err != nil {
		return // nothing was changed
	}
	if info.Size() > maxSettings {
		m.Log("apiserver", fmt.Sprintf("%s is ignored: it has more than %d bytes", settingsFile, maxSettings))
		return
	}
	var saved map[string]any
	b, err := m.FS.ReadFile(settingsFile)
	if err == nil {
		err = json.Unmarshal(b, &saved)
	}
	if err != nil {
		m.Log("apiserver", settingsFile+" is ignored: "+err.Error())
		return
	}
	m.settingsMu.Lock()
	defer m.settingsMu.Unlock()
	m.modified = map[string]any{}
	for _, key := range settable {
		_, text := saved[key].(string)
		_, flag := saved[key].(bool)
		if text && key == "motd" || flag && key != "motd" {
			m.modified[key] = saved[key]
		}
	}
}

// settings returns the machine's settings: some defaults, those of user data, and what was changed.
func (m *Machine) settings() map[string]any {
	out := map[string]any{}
	for key, v := range map[string]any{
		"aws.region": m.In.Region, "motd": "Welcome to Bottlerocket!", "network.hostname": m.In.PrivateDNSName,
		"kubernetes.authentication-mode": "aws", "kubernetes.standalone-mode": false, "kubernetes.node-ip": m.In.PrivateIP.String(),
		"host-containers.admin.enabled": false, "host-containers.admin.superpowered": true,
		"host-containers.control.enabled": true, "host-containers.control.superpowered": false,
	} {
		put(out, strings.Split(key, "."), v)
	}
	var given struct {
		Settings map[string]any `toml:"settings"`
	}
	text, err := userdata.Decode(m.In.UserData)
	if err := errors.Join(err, toml.Unmarshal(text, &given)); err == nil { // otherwise the node's own step says so
		merge(out, given.Settings)
	}
	m.settingsMu.Lock()
	defer m.settingsMu.Unlock()
	for key, v := range m.modified {
		put(out, strings.Split(key, "."), v)
	}
	return out
}

// hostContainer reports whether a host container runs, which its setting says.
func (m *Machine) hostContainer(name string) bool {
	enabled, _ := lookUp(m.settings(), []string{"host-containers", name, "enabled"})
	return enabled == true
}

// bottlerocketOS is what the API says about the operating system.
func (m *Machine) bottlerocketOS() map[string]any {
	version := strings.Split(m.In.Image.KubeletVersion, ".")
	variant := "aws-k8s-" + strings.Join(version[:min(2, len(version))], ".")
	const release = "1.50.0"
	return map[string]any{"arch": m.architecture(), "pretty_name": "Bottlerocket OS " + release + " (" + variant + ")", "variant_id": variant, "version_id": release}
}

// resource returns what the API has at a URI.
// https://github.com/bottlerocket-os/bottlerocket/blob/develop/sources/api/apiserver/src/server/mod.rs
func resource(all map[string]any, uri string) (any, bool) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, false
	}
	query := u.Query()
	keys, prefix := query.Get("keys"), query.Get("prefix")
	match := hasPrefix("settings." + strings.TrimPrefix(prefix, "settings."))
	if keys != "" {
		wanted := strings.Split(keys, ",")
		match = func(key string) bool { return slices.Contains(wanted, key) }
	}
	switch name := strings.Trim(u.Path, "/"); {
	case name == "" && prefix != "":
		return selected(all, hasPrefix(prefix)), true
	case name == "" && u.RawQuery == "":
		return all, true
	case name == "settings" && (keys != "" || prefix != ""):
		if out, ok := selected(all, match)["settings"]; ok {
			return out, true
		}
		return map[string]any{}, true
	case all[name] != nil && u.RawQuery == "":
		return all[name], true
	}
	return nil, false
}

// hasPrefix returns a function that reports whether a key has any of the prefixes.
func hasPrefix(prefixes ...string) func(key string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	}
}

// selected returns the parts of a tree whose keys match.
func selected(tree map[string]any, match func(key string) bool) map[string]any {
	out := map[string]any{}
	var walk func(at []string, v any)
	walk = func(at []string, v any) {
		if sub, ok := v.(map[string]any); ok && len(sub) > 0 {
			for k := range maps.Keys(sub) {
				walk(append(slices.Clone(at), k), sub[k])
			}
			return
		}
		if match(strings.Join(at, ".")) {
			put(out, at, v)
		}
	}
	walk(nil, tree)
	return out
}

func lookUp(tree map[string]any, at []string) (any, bool) {
	v, ok := tree[at[0]]
	if sub, isTree := v.(map[string]any); isTree && len(at) > 1 {
		return lookUp(sub, at[1:])
	}
	return v, ok && len(at) == 1
}

func put(tree map[string]any, at []string, v any) {
	if len(at) == 1 {
		tree[at[0]] = v
		return
	}
	sub, ok := tree[at[0]].(map[string]any)
	if !ok {
		sub = map[string]any{}
		tree[at[0]] = sub
	}
	put(sub, at[1:], v)
}

func merge(into, from map[string]any) {
	for k, v := range from {
		sub, ok := v.(map[string]any)
		if have, both := into[k].(map[string]any); ok && both {
			merge(have, sub)
			continue
		}
		into[k] = v
	}
}

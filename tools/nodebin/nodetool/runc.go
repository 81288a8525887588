//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// realRunc is runc itself, and noLimits exists on machines without cgroup controllers.
const (
	realRunc = "/opt/drydock/bin/runc"
	noLimits = "/opt/drydock/no-limits"
)

// shownProc is where a machine has its own files of /proc, which it keeps up to date.
const shownProc = "/opt/drydock/proc/shown"

func runc() error {
	switch {
	case slices.Contains(os.Args, "create"):
		if err := adapt(option(os.Args, "--bundle", "-b", ".")); err != nil {
			return err
		}
	case slices.Contains(os.Args, "exec"):
		if file := option(os.Args, "--process", "-p", ""); file != "" {
			if err := adaptProgram(file); err != nil {
				return err
			}
		}
	}
	// containerd's waits may end late, those of programs in containers may not: 50 µs are the kernel's default.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 50_000, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return fmt.Errorf("starting runc: %w", syscall.Exec(realRunc, append([]string{"runc"}, os.Args[1:]...), os.Environ()))
}

// option returns the value of an option, or otherwise.
func option(args []string, long, short, otherwise string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, long+"="); ok {
			return v
		}
		if (a == long || a == short) && i+1 < len(args) {
			return args[i+1]
		}
	}
	return otherwise
}

// adaptProgram does for a program that is started in a running container what adapt does for the container's own.
func adaptProgram(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // a limit may be larger than what float64 represents
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	own(p)
	if b, err = json.Marshal(p); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// own removes from a program's description what belongs to the real machine.
func own(p map[string]any) {
	delete(p, "oomScoreAdj")
	if env, ok := p["env"].([]any); ok {
		p["env"] = slices.DeleteFunc(env, ofHost)
	}
}

// adapt removes what the kernel refuses in a user namespace: lowering the OOM score and, without controllers, limits. It adds
// the machine's programs to containers of images that contain only their names.
func adapt(dir string) error {
	file := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(b, &spec); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if p, ok := spec["process"].(map[string]any); ok {
		own(p)
	}
	if _, err := os.Stat(noLimits); err == nil {
		if l, ok := spec["linux"].(map[string]any); ok {
			delete(l, "resources")
		}
	}
	if err := setNetwork(spec); err != nil {
		return err
	}
	addMounts(spec, dir)
	showProc(spec, shownProc)
	if b, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// ofHost reports whether a variable is the address of Drydock on the real machine, which EKS's webhook for pods adds for
// programs that run there. On a machine, AWS's own names lead to Drydock.
func ofHost(v any) bool {
	s, _ := v.(string)
	name, endpoint, _ := strings.Cut(s, "=")
	if name != "AWS_ENDPOINT_URL" && name != "AWS_ENDPOINT_URL_STS" {
		return false
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && a.IsLoopback()
}

// The images of EKS's add-ons that Drydock serves contain the file marker, and symbolic links to the programs that every
// machine has, which are far too large to be copied to each. Any image may ask for them: they can be read by everyone, and
// written by no machine.
const marker = ".drydock-programs"

const shared = "/opt/drydock/bin"

// authorities is the machine's list of certificate authorities, which has Drydock's. bundles are where images have theirs.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

var bundles = []string{
	"etc/ssl/certs/ca-certificates.crt", "etc/ssl/cert.pem", "etc/ssl/ca-bundle.pem", "etc/pki/tls/certs/ca-bundle.crt", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
}

// procFiles are the files of /proc that have the processors and the memory of the machine, and not those of the real one.
var procFiles = []string{"cpuinfo", "loadavg", "meminfo", "stat"}

// showProc shows the machine's files of /proc in a container. Privileged containers see the real ones: they may mount /proc again, which
// the kernel permits only where nothing hides a part of it.
func showProc(spec map[string]any, dir string) {
	l, _ := spec["linux"].(map[string]any)
	if hidden, _ := l["maskedPaths"].([]any); len(hidden) == 0 {
		return
	}
	mounts, _ := spec["mounts"].([]any)
	for _, name := range procFiles {
		from := filepath.Join(dir, name)
		if _, err := os.Stat(from); err == nil {
			mounts = append(mounts, map[string]any{"destination": "/proc/" + name, "source": from, "type": "bind", "options": []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
		}
	}
	spec["mounts"] = mounts
}

// addMounts shows the machine's programs in a container of an image with the marker, and lets the programs of every
// container trust Drydock's certificate authority, if the image has a list of authorities at a usual place.
func addMounts(spec map[string]any, dir string) {
	r, _ := spec["root"].(map[string]any)
	path, _ := r["path"].(string)
	if path == "" {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return // runc says why
	}
	defer root.Close()
	regular := func(name string) bool { // and not a link, which may lead anywhere
		st, err := root.Lstat(name)
		return err == nil && st.Mode().IsRegular()
	}
	mounts, _ := spec["mounts"].([]any)
	add := func(from, to string) {
		mounts = append(mounts, map[string]any{"destination": to, "source": from, "type": "bind", "options": []string{"bind", "ro", "nosuid", "nodev"}})
	}
	if regular(marker) {
		add(shared, shared)
	}
	trusts := ""
	for _, b := range bundles {
		if regular(b) {
			trusts = "/" + b
			add(authorities, trusts)
		}
	}
	spec["mounts"] = mounts
	p, ok := spec["process"].(map[string]any)
	if env, isList := p["env"].([]any); ok && isList && trusts != "" && !slices.ContainsFunc(env, func(v any) bool {
		s, _ := v.(string)
		return strings.HasPrefix(s, "AWS_CA_BUNDLE=")
	}) {
		p["env"] = append(env, "AWS_CA_BUNDLE="+trusts) // the SDK for Python has a list of its own otherwise
	}
}

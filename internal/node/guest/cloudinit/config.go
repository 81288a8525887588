package cloudinit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/node/guest/vfs"
)

// A cloudConfig is the modules of cloud-config that leave something a user can see
// on a node. https://cloudinit.readthedocs.io/en/latest/reference/modules.html
type cloudConfig struct {
	Bootcmd           []any       `json:"bootcmd"`
	Runcmd            []any       `json:"runcmd"`
	WriteFiles        []writeFile `json:"write_files"`
	Users             []any       `json:"users"`
	SSHAuthorizedKeys []string    `json:"ssh_authorized_keys"`
	Hostname          string      `json:"hostname"`
	FQDN              string      `json:"fqdn"`
	// Ignored are modules that this machine does not have.
	ignored []string
}

type writeFile struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Encoding    string `json:"encoding"`
	Owner       string `json:"owner"`
	Permissions any    `json:"permissions"`
	Append      bool   `json:"append"`
	Defer       bool   `json:"defer"`
}

// maxEntries bounds each list of a cloud-config.
const maxEntries = 200

var known = []string{"bootcmd", "runcmd", "write_files", "users", "ssh_authorized_keys", "hostname", "fqdn", "preserve_hostname", "merge_how", "merge_type"}

// readConfigs merges all cloud-config parts as cloud-init does by default: later
// parts replace the keys of earlier ones.
// https://cloudinit.readthedocs.io/en/latest/reference/merging.html
func readConfigs(parts []Part) (*cloudConfig, error) {
	merged := map[string]any{}
	for _, p := range parts {
		if p.Type != typeConfig {
			continue
		}
		var doc map[string]any
		if err := yaml.Unmarshal(p.Body, &doc); err != nil { // bounds aliases
			return nil, fmt.Errorf("Failed loading yaml blob. %w", err) //nolint:staticcheck // cloud-init's text
		}
		maps.Copy(merged, doc)
	}
	b, err := yaml.Marshal(merged)
	if err != nil {
		return nil, err
	}
	cfg := &cloudConfig{}
	if err := yaml.Unmarshal(b, cfg); err != nil {
		return nil, fmt.Errorf("Invalid cloud-config provided: %w", err) //nolint:staticcheck // cloud-init's text
	}
	for key := range merged {
		if !slices.Contains(known, key) {
			cfg.ignored = append(cfg.ignored, key)
		}
	}
	for _, n := range []int{len(cfg.Users), len(cfg.WriteFiles), len(cfg.SSHAuthorizedKeys), len(cfg.Bootcmd), len(cfg.Runcmd)} {
		if n > maxEntries {
			return nil, fmt.Errorf("a list of cloud-config has %d entries: a simulated machine takes %d", n, maxEntries)
		}
	}
	slices.Sort(cfg.ignored)
	return cfg, nil
}

// commandScript turns a list of commands, each a line of shell or a list of
// words, into a script.
func commandScript(commands []any) ([]byte, error) {
	var out strings.Builder
	out.WriteString("#!/bin/sh\n")
	for _, c := range commands {
		switch c := c.(type) {
		case string:
			out.WriteString(c + "\n")
		case []any:
			var words []string
			for _, w := range c {
				switch w := w.(type) {
				case string:
					words = append(words, quote(w))
				case float64, int64, int, bool:
					words = append(words, quote(fmt.Sprint(w)))
				case nil:
				default:
					return nil, fmt.Errorf("Unable to shellify type '%T'. Expected list, string, tuple.", w) //nolint:staticcheck // cloud-init's text
				}
			}
			out.WriteString(strings.Join(words, " ") + "\n")
		case nil:
		default:
			return nil, fmt.Errorf("Unable to shellify type '%T'. Expected list, string, tuple.", c) //nolint:staticcheck // cloud-init's text
		}
	}
	return []byte(out.String()), nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (w *writeFile) write(files *vfs.FS) error {
	if !path.IsAbs(w.Path) {
		return fmt.Errorf("the path %q is not absolute", w.Path)
	}
	data := []byte(w.Content)
	for encoding := range strings.SplitSeq(w.Encoding, "+") {
		switch strings.ToLower(encoding) {
		case "", "text/plain":
		case "b64", "base64":
			decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(w.Content), ""))
			if err != nil {
				return fmt.Errorf("%s: %w", w.Path, err)
			}
			data = decoded
		case "gz", "gzip":
		default:
			return fmt.Errorf("Unknown encoding type %s, assuming text/plain", encoding) //nolint:staticcheck // cloud-init's text
		}
	}
	if strings.Contains(w.Encoding, "gz") {
		p := &parser{left: maxDecompressed}
		plain, err := p.gunzip(data)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Path, err)
		}
		data = plain
	}
	if w.Append {
		old, err := files.ReadFile(w.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data = append(old, data...)
	}
	perm := fs.FileMode(0o644)
	switch p := w.Permissions.(type) {
	case string:
		if n, err := strconv.ParseUint(strings.TrimPrefix(p, "0o"), 8, 32); err == nil {
			perm = fs.FileMode(n)
		}
	case float64: // YAML read 0644 as a number
		perm = fs.FileMode(uint32(p))
	}
	if err := files.MkdirAll(path.Dir(w.Path), 0o755); err != nil {
		return err
	}
	if err := files.WriteFile(w.Path, data, perm.Perm()); err != nil {
		return err
	}
	if err := files.Chmod(w.Path, perm.Perm()); err != nil {
		return err
	}
	if owner, _, _ := strings.Cut(w.Owner, ":"); owner != "" && owner != "root" {
		uid, ok := userID(files, owner)
		if !ok {
			return fmt.Errorf("OSError: Unknown user or group: %q", owner) //nolint:staticcheck // cloud-init's text
		}
		return files.Chown(w.Path, uid, uid)
	}
	return nil
}

func userID(files *vfs.FS, name string) (int, bool) {
	b, _ := files.ReadFile("/etc/passwd") // without it nobody is known
	for line := range strings.Lines(string(b)) {
		if p := strings.Split(line, ":"); len(p) > 2 && p[0] == name {
			n, err := strconv.Atoi(p[2])
			return n, err == nil
		}
	}
	return 0, false
}

// A user is an entry of users that is not just "default".
type user struct {
	name string
	keys []string
}

func (c *cloudConfig) userList() (users []user, keepDefault bool) {
	keepDefault = len(c.Users) == 0
	for _, u := range c.Users {
		switch u := u.(type) {
		case string:
			if u == "default" {
				keepDefault = true
			} else {
				users = append(users, user{name: u})
			}
		case map[string]any:
			name, _ := u["name"].(string)
			one := user{name: name}
			keys, ok := u["ssh_authorized_keys"].([]any)
			if !ok {
				keys, _ = u["ssh-authorized-keys"].([]any)
			}
			for _, k := range keys {
				if s, ok := k.(string); ok {
					one.keys = append(one.keys, s)
				}
			}
			users = append(users, one)
		}
	}
	return users, keepDefault
}

// nextID is the first free ID of ordinary users.
func nextID(passwd []byte) int {
	next := 1000
	for line := range strings.Lines(string(passwd)) {
		if p := strings.Split(line, ":"); len(p) > 2 {
			if n, err := strconv.Atoi(p[2]); err == nil && n >= next && n < 60000 {
				next = n + 1
			}
		}
	}
	return next
}

// addUser makes a user if it is not there, and authorizes keys for it.
func addUser(files *vfs.FS, name string, keys []string) error {
	if name == "" || strings.ContainsAny(name, ":/\n ") || len(name) > 32 {
		return fmt.Errorf("invalid user name %q", name)
	}
	uid, ok := userID(files, name)
	home := "/home/" + name
	if name == "root" {
		home = "/root"
	}
	if !ok {
		passwd, err := files.ReadFile("/etc/passwd")
		if err != nil {
			return err
		}
		uid = nextID(passwd)
		line := fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", name, uid, uid, home)
		if err := files.WriteFile("/etc/passwd", append(passwd, line...), 0o644); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(home+"/.ssh", 0o700); err != nil {
		return err
	}
	if len(keys) > 0 {
		file := home + "/.ssh/authorized_keys"
		old, err := files.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, k := range keys {
			old = append(old, strings.TrimSpace(k)+"\n"...)
		}
		if err := files.WriteFile(file, old, 0o600); err != nil {
			return err
		}
		if err := files.Chown(file, uid, uid); err != nil {
			return err
		}
	}
	return errors.Join(files.Chown(home, uid, uid), files.Chown(home+"/.ssh", uid, uid))
}

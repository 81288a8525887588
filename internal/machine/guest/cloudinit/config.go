package cloudinit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// A cloudConfig holds the modules of cloud-config with effects that a user can see on a node.
// https://cloudinit.readthedocs.io/en/latest/reference/modules.html
type cloudConfig struct {
	Bootcmd           []any       `json:"bootcmd"`
	Runcmd            []any       `json:"runcmd"`
	WriteFiles        []writeFile `json:"write_files"`
	Users             []any       `json:"users"`
	SSHAuthorizedKeys []string    `json:"ssh_authorized_keys"`
	Hostname          string      `json:"hostname"`
	FQDN              string      `json:"fqdn"`
	// Ignored are the modules that this machine does not have.
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
	left := maxMerged
	for _, p := range parts {
		if p.Type != typeConfig {
			continue
		}
		var doc map[string]any
		raw, err := yamlsafe.ToJSON(p.Body)
		if left -= len(raw); left < 0 {
			err = fmt.Errorf("its parts together are larger than %d bytes", maxMerged)
		}
		if err == nil {
			err = json.Unmarshal(raw, &doc)
		}
		if err != nil {
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
			return nil, fmt.Errorf("a cloud-config list has %d entries; a machine accepts at most %d", n, maxEntries)
		}
	}
	slices.Sort(cfg.ignored)
	return cfg, nil
}

// commandScript turns a list of commands, each a line of shell or a list of words, into a script.
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

func (w *writeFile) write(files Files) error {
	name := path.Join("/", w.Path)
	data := []byte(w.Content)
	kind, _ := encoding(w.Encoding)
	if strings.Contains(kind, "b64") {
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(w.Content), ""))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		data = decoded
	}
	if strings.Contains(kind, "gz") {
		p := &parser{left: maxDecompressed}
		plain, err := p.gunzip(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		data = plain
	}
	if w.Append {
		old, err := files.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data = append(old, data...)
	}
	perm := fs.FileMode(0o644)
	switch p := w.Permissions.(type) {
	case string:
		if n, err := strconv.ParseUint(strings.TrimPrefix(p, "0o"), 8, 32); err == nil {
			perm = vfs.FileMode(0, uint32(n)&0o7777) //nolint:gosec // twelve bits
		}
	case float64: // YAML parsed 0644 as a number
		perm = vfs.FileMode(0, uint32(p)&0o7777)
	}
	if err := files.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := files.WriteFile(name, data, perm.Perm()); err != nil {
		return err
	}
	if err := files.Chmod(name, perm); err != nil {
		return err
	}
	// The owner is set last, even if it is root, and that clears a set-user-ID bit:
	// https://github.com/canonical/cloud-init/blob/main/cloudinit/config/cc_write_files.py
	owner, _, _ := strings.Cut(w.Owner, ":")
	if owner == "" || owner == "root" {
		return files.Chown(name, 0, 0)
	}
	u, ok := accounts.FindUser(files, owner)
	if !ok {
		return fmt.Errorf("OSError: Unknown user or group: %q", owner) //nolint:staticcheck // cloud-init's text
	}
	return files.Chown(name, u.UID, u.GID)
}

// encoding parses the encoding of a file's content: gz, b64, gz+b64, or none. It returns false if cloud-init does not
// know the encoding, and then uses the content unchanged.
// https://github.com/canonical/cloud-init/blob/main/cloudinit/config/cc_write_files.py
func encoding(name string) (string, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "gz", "gzip":
		return "gz", true
	case "gz+base64", "gzip+base64", "gz+b64", "gzip+b64":
		return "gz+b64", true
	case "b64", "base64":
		return "b64", true
	case "", "text/plain":
		return "", true
	}
	return "", false
}

// A user is an entry of users other than "default".
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

// addUser creates a user if it does not exist, and authorizes keys for it.
func addUser(files Files, name string, keys []string) error {
	if name == "" || strings.ContainsAny(name, ":/\n ") || len(name) > 32 {
		return fmt.Errorf("invalid user name %q", name)
	}
	home := "/home/" + name
	if name == "root" {
		home = "/root"
	}
	u, ok := accounts.FindUser(files, name)
	if !ok {
		u = accounts.User{Name: name, UID: accounts.NextUID(files, false), Home: home, Shell: "/bin/bash"}
		u.GID = u.UID
		if err := accounts.PutUser(files, u); err != nil {
			return err
		}
		if _, ok := accounts.FindGroup(files, name); !ok {
			if err := accounts.PutGroup(files, accounts.Group{Name: name, GID: u.GID}); err != nil {
				return err
			}
		}
	}
	uid := u.UID
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

package sshd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/glob"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// maxKeys bounds the file of authorized keys, in bytes.
const maxKeys = 256 << 10

// A grant is what a line of authorized_keys allows, by its options.
type grant struct {
	command               string // runs instead of what the client asks for
	noTerminal, noForward bool
}

// The extensions of ssh.Permissions that carry a grant, and the key for the log.
const (
	extCommand    = "force-command"
	extNoTerminal = "no-pty"
	extNoForward  = "no-port-forwarding"
	extKey        = "key"
)

func grantOf(p *ssh.Permissions) grant {
	_, noTerminal := p.Extensions[extNoTerminal]
	_, noForward := p.Extensions[extNoForward]
	return grant{p.Extensions[extCommand], noTerminal, noForward}
}

var errDenied = errors.New("permission denied")

// authenticate decides whether a key may log in as a user. Clients ask before they sign, so this does not mean that
// they have the key.
func (c *connection) authenticate(ctx context.Context, user string, key ssh.PublicKey) (*ssh.Permissions, error) {
	c.tried = user
	u, ok := accounts.FindUser(c.s.cfg.FS, user)
	if !ok || u.Name != user {
		c.s.cfg.Log(fmt.Sprintf("Invalid user %.64q from %s", user, c.from))
		return nil, errDenied
	}
	for _, line := range c.s.keys(ctx, u) {
		known, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || !bytes.Equal(known.Marshal(), key.Marshal()) || !fromAllowed(options, c.from) {
			continue
		}
		c.user = u
		p := &ssh.Permissions{Extensions: map[string]string{extKey: strings.ToUpper(strings.TrimPrefix(key.Type(), "ssh-")) + " " + ssh.FingerprintSHA256(key)}}
		for _, o := range options {
			name, value, _ := strings.Cut(o, "=")
			switch strings.ToLower(name) {
			case "command":
				p.Extensions[extCommand] = unquote(value)
			case "no-pty":
				p.Extensions[extNoTerminal] = ""
			case "no-port-forwarding":
				p.Extensions[extNoForward] = ""
			case "restrict":
				p.Extensions[extNoTerminal], p.Extensions[extNoForward] = "", ""
			}
		}
		return p, nil
	}
	return nil, errDenied
}

// keys returns the lines of a user's authorized_keys and the further keys.
func (s *Server) keys(ctx context.Context, u accounts.User) []string {
	var out []string
	if b, err := strictly(s.cfg.FS, u); err == nil {
		out = strings.Split(string(b), "\n")
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log(err.Error())
	}
	if s.cfg.Keys != nil {
		out = append(out, s.cfg.Keys(ctx, u.Name)...)
	}
	return out
}

// strictly reads a user's authorized_keys. As with sshd's StrictModes, only the user and root may be able to write to
// it and to its folders.
func strictly(files *vfs.FS, u accounts.User) ([]byte, error) {
	name := path.Join(u.Home, ".ssh/authorized_keys")
	for _, f := range []string{u.Home, path.Dir(name), name} {
		i, err := files.Stat(f)
		if err != nil {
			return nil, err
		}
		own, ok := i.(*vfs.Info)
		if !ok || own.UID != 0 && own.UID != u.UID || i.Mode().Perm()&0o022 != 0 {
			return nil, fmt.Errorf("Authentication refused: bad ownership or modes for %s", f) //nolint:staticcheck // sshd's text
		}
		if f == name && i.Size() > maxKeys {
			return nil, fmt.Errorf("%s is too large", f)
		}
	}
	return files.ReadFile(name)
}

// fromAllowed reports whether the option from="PATTERN,…" admits a client's address.
func fromAllowed(options []string, remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	for _, o := range options {
		list, ok := strings.CutPrefix(o, "from=")
		if !ok {
			continue
		}
		allowed := false
		for p := range strings.SplitSeq(unquote(list), ",") {
			if refused, ok := strings.CutPrefix(p, "!"); ok {
				if matches(refused, host) {
					return false
				}
				continue
			}
			allowed = allowed || matches(p, host)
		}
		if !allowed {
			return false
		}
	}
	return true
}

func matches(pattern, host string) bool {
	if _, n, err := net.ParseCIDR(pattern); err == nil {
		return n.Contains(net.ParseIP(host))
	}
	return glob.Match(pattern, host)
}

// unquote returns an option's value without its quotes.
func unquote(v string) string {
	v = strings.TrimSuffix(strings.TrimPrefix(v, `"`), `"`)
	return strings.ReplaceAll(v, `\"`, `"`)
}

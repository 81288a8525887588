package sshd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/glob"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// maxKeys is the maximum size of authorized_keys in bytes.
const maxKeys = 256 << 10

// A grant holds the restrictions that the options of a line in authorized_keys impose.
type grant struct {
	command               string // runs instead of the command that the client asks for
	noTerminal, noForward bool
	destinations          []string // the HOST:PORT to which connections may be forwarded; none means all
}

// The extensions of ssh.Permissions that carry a grant, and the one that carries the key's fingerprint for the log.
const (
	extCommand    = "force-command"
	extNoTerminal = "no-pty"
	extNoForward  = "no-port-forwarding"
	extPermitOpen = "permitopen"
	extKey        = "key"
)

func grantOf(p *ssh.Permissions) grant {
	_, noTerminal := p.Extensions[extNoTerminal]
	_, noForward := p.Extensions[extNoForward]
	return grant{p.Extensions[extCommand], noTerminal, noForward, strings.Fields(p.Extensions[extPermitOpen])}
}

// forwards reports whether connections to a host's port may be forwarded. Like sshd, it compares hosts as they are written.
func (g *grant) forwards(host string, port uint32) bool {
	return !g.noForward && (len(g.destinations) == 0 || slices.ContainsFunc(g.destinations, func(d string) bool {
		h, p, err := net.SplitHostPort(d)
		return err == nil && h == host && (p == "*" || p == strconv.FormatUint(uint64(port), 10))
	}))
}

var errDenied = errors.New("permission denied")

// authenticate returns the permissions of a key for a user. Clients ask about a key before they sign with it, so success
// does not prove that the client has the private key.
func (c *connection) authenticate(ctx context.Context, user string, key ssh.PublicKey) (*ssh.Permissions, error) {
	c.tried = printable(user)
	u, ok := accounts.FindUser(c.s.cfg.Files, user)
	if !ok || u.Name != user {
		c.s.cfg.Log("Invalid user " + c.tried + " from " + c.from)
		return nil, errDenied
	}
	for _, line := range c.s.keys(ctx, u) {
		known, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || !bytes.Equal(known.Marshal(), key.Marshal()) {
			continue
		}
		extensions, err := allows(options, c.from)
		if err != nil {
			c.s.cfg.Log(fmt.Sprintf("A key of %s is refused: %s", u.Name, err))
			continue
		}
		c.user = u
		extensions[extKey] = strings.ToUpper(strings.TrimPrefix(key.Type(), "ssh-")) + " " + ssh.FingerprintSHA256(key)
		return &ssh.Permissions{Extensions: extensions}, nil
	}
	return nil, errDenied
}

// printable escapes a user name for the journal: a client that has not logged in may send anything.
func printable(name string) string {
	quoted := strconv.Quote(name[:min(len(name), 64)])
	return quoted[1 : len(quoted)-1]
}

// allows returns the extensions for the options of a line, or an error that says why its key may not log in. As in sshd,
// option names are case-insensitive, and a line with an unknown option is ignored.
func allows(options []string, remote string) (map[string]string, error) {
	out := map[string]string{}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		switch strings.ToLower(name) {
		case "from":
			if !fromAllowed(unquote(value), remote) {
				return nil, fmt.Errorf("it is not permitted from %s", remote)
			}
		case "command":
			out[extCommand] = unquote(value)
		case "expiry-time":
			until, err := expiry(unquote(value))
			if err != nil {
				return nil, err
			}
			if !time.Now().Before(until) {
				return nil, fmt.Errorf("it expired at %s", until.Format(time.RFC3339))
			}
		case "permitopen":
			if _, _, err := net.SplitHostPort(unquote(value)); err != nil || strings.Contains(value, " ") {
				return nil, fmt.Errorf("permitopen=%.64q is not HOST:PORT", value)
			}
			out[extPermitOpen] = strings.TrimSpace(out[extPermitOpen] + " " + unquote(value))
		case "no-pty":
			out[extNoTerminal] = ""
		case "pty":
			delete(out, extNoTerminal)
		case "no-port-forwarding":
			out[extNoForward] = ""
		case "port-forwarding":
			delete(out, extNoForward)
		case "restrict":
			out[extNoTerminal], out[extNoForward] = "", ""
		case "agent-forwarding", "no-agent-forwarding", "x11-forwarding", "no-x11-forwarding", "user-rc", "no-user-rc",
			"permitlisten", "tunnel", "environment", "no-touch-required":
			// The server has none of these features, and Amazon Linux's sshd_config disables environment.
		default: // cert-authority and other options that limit what a key may do
			return nil, fmt.Errorf("the option %.64q is not supported", name)
		}
	}
	return out, nil
}

// expiry reads the option expiry-time: YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, in UTC like the machine's own time.
func expiry(text string) (time.Time, error) {
	digits := strings.TrimSuffix(strings.TrimSuffix(text, "Z"), "z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, digits); err == nil && len(digits) == len(layout) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("expiry-time=%.64q is not a time", text)
}

// keys returns the lines of a user's authorized_keys, followed by the keys from Config.Keys.
func (s *Server) keys(ctx context.Context, u accounts.User) []string {
	var out []string
	if b, err := strictly(s.cfg.Files, u); err == nil {
		out = strings.Split(string(b), "\n")
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log(err.Error())
	}
	if s.cfg.Keys == nil {
		return out
	}
	if command, err := KeysCommand(s.cfg.Files); err == nil {
		return append(out, s.cfg.Keys(ctx, u.Name)...)
	} else if command != "" {
		s.cfg.Log("error: " + err.Error())
	}
	return out
}

// ConfigFile is sshd's configuration.
const ConfigFile = "/etc/ssh/sshd_config"

// KeysCommand returns the AuthorizedKeysCommand of a machine's sshd_config, or the empty string if it has none. It returns
// an error if sshd would not ask the program of EC2 Instance Connect for keys, because that is not the command or because
// it is gone.
//
// AWS deviation: this sshd reads the file when a client connects, and the real one when it starts.
func KeysCommand(files Files) (command string, err error) {
	config, err := files.ReadFile(ConfigFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(config)) {
		// As in sshd, the first line counts.
		if f := strings.Fields(line); len(f) > 1 && strings.EqualFold(f[0], "AuthorizedKeysCommand") {
			command = strings.Trim(f[1], `"`)
			break
		}
	}
	if command == "" || strings.EqualFold(command, "none") {
		return "", errors.New(ConfigFile + " has no AuthorizedKeysCommand")
	}
	if path.Base(command) != "eic_run_authorized_keys" {
		return command, fmt.Errorf("the AuthorizedKeysCommand %.128q is not that of EC2 Instance Connect", command)
	}
	i, err := files.Stat(command)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = syscall.ENOENT
		}
		return command, fmt.Errorf("Could not stat AuthorizedKeysCommand %q: %w", command, err) //nolint:staticcheck // sshd's text
	}
	if !i.Mode().IsRegular() || i.Mode().Perm()&0o111 == 0 {
		return command, fmt.Errorf("Unsafe AuthorizedKeysCommand %q: the program cannot be run", command) //nolint:staticcheck // sshd's text
	}
	return command, nil
}

// strictly reads a user's authorized_keys. Like sshd with StrictModes, it returns an error if anybody but the user and
// root can write to the file, its folder or the home folder.
func strictly(files Files, u accounts.User) ([]byte, error) {
	name := path.Join(u.Home, ".ssh/authorized_keys")
	for _, f := range []string{u.Home, path.Dir(name), name} {
		i, err := files.Stat(f)
		if err != nil {
			return nil, err
		}
		own, ok := i.Sys().(*syscall.Stat_t)
		if !ok || own.Uid != 0 && own.Uid != uint32(u.UID) || i.Mode().Perm()&0o022 != 0 {
			return nil, fmt.Errorf("Authentication refused: bad ownership or modes for %s", f) //nolint:staticcheck // sshd's text
		}
		if f == name && i.Size() > maxKeys {
			return nil, fmt.Errorf("%s is too large", f)
		}
	}
	return files.ReadFile(name)
}

// fromAllowed reports whether the option from="PATTERN,…" admits a client's address.
func fromAllowed(list, remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	allowed := false
	for p := range strings.SplitSeq(list, ",") {
		if refused, ok := strings.CutPrefix(p, "!"); ok {
			if matches(refused, host) {
				return false
			}
			continue
		}
		allowed = allowed || matches(p, host)
	}
	return allowed
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

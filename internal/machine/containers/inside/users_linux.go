package inside

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// profile is what login shells read. The host's own would set another PATH.
const profile = `# Written at each boot. Put your own settings into /etc/profile.d.
PATH=` + searchPath + `
export PATH
umask 022
for i in /etc/profile.d/*.sh; do [ -r "$i" ] && . "$i"; done
unset i
if [ -n "${BASH_VERSION-}" ] && [ -r /etc/bashrc ]; then . /etc/bashrc; fi
`

// bashrc gives bash Amazon Linux's prompt.
const bashrc = `if [ -n "${PS1-}" ] && ! shopt -oq posix; then PS1='[\u@\h \W]\$ '; fi
`

// pam lets chpasswd, passwd and su work without the settings of a distribution.
const pam = `auth     sufficient pam_rootok.so
auth     required   pam_unix.so
account  required   pam_unix.so
password required   pam_unix.so sha512 shadow
session  required   pam_unix.so
`

// A setting is a file in /etc that a new disk gets. Its owner may change it.
type setting struct {
	name, text string
	mode       fs.FileMode
}

// with returns the text for machines with another shell than bash.
func (s setting) with(shell string) string { return strings.ReplaceAll(s.text, "/bin/bash", shell) }

// loginShell is the shell of users who have chosen none.
func loginShell() string {
	if _, err := os.Stat("/bin/bash"); err != nil {
		return "/bin/sh"
	}
	return "/bin/bash"
}

var defaults = []setting{
	{"passwd", "root:x:0:0:root:/root:/bin/bash\nec2-user:x:1000:1000:EC2 Default User:/home/ec2-user:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", 0o644},
	{"group", "root:x:0:\ntty:x:5:\nwheel:x:10:ec2-user\nec2-user:x:1000:\nnogroup:x:65534:\n", 0o644},
	{"shadow", "root:" + accounts.Locked + ":19000::::::\nec2-user:" + accounts.Locked + ":19000::::::\n", 0o600},
	{"sudoers.d/90-cloud-init-users", "# User rules for ec2-user\nec2-user ALL=(ALL) NOPASSWD:ALL\n", 0o440},
	{"bashrc", bashrc, 0o644},
	{"bash.bashrc", bashrc, 0o644},
	{"skel/.bash_profile", "[ -f ~/.bashrc ] && . ~/.bashrc\n", 0o644},
	{"skel/.bashrc", "[ -f /etc/bashrc ] && . /etc/bashrc\n", 0o644},
	{"pam.d/other", pam, 0o644},
	{"login.defs", "UID_MIN 1000\nUID_MAX 60000\nSYS_UID_MIN 201\nSYS_UID_MAX 999\nGID_MIN 1000\nGID_MAX 60000\nSYS_GID_MIN 201\nSYS_GID_MAX 999\n" +
		"UMASK 022\nHOME_MODE 0700\nCREATE_HOME yes\nUSERGROUPS_ENAB yes\nENCRYPT_METHOD SHA512\nMAIL_DIR /var/spool/mail\n", 0o644},
	{"default/useradd", "HOME=/home\nSHELL=/bin/bash\nSKEL=/etc/skel\nCREATE_MAIL_SPOOL=no\n", 0o644},
}

// settle writes the settings that the disk does not have yet, and makes the homes of its users.
func settle(more []setting) error {
	shell := loginShell()
	for _, d := range append(more, defaults...) {
		at := path.Join("/etc", d.name)
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		if err := unlessFull(replace(at, []byte(d.with(shell)), d.mode)); err != nil {
			return err
		}
	}
	for _, u := range []accounts.User{{Name: "root", Home: "/root"}, {Name: "ec2-user", UID: 1000, GID: 1000, Home: "/home/ec2-user"}} {
		for _, name := range []string{".bash_profile", ".bashrc"} {
			at := path.Join(u.Home, name)
			if _, err := os.Lstat(at); err == nil {
				continue
			}
			b, err := readRegular(path.Join("/etc/skel", name))
			if err != nil {
				continue // the user has removed it
			}
			err = replace(at, b, 0o644)
			if err == nil {
				err = os.Lchown(at, u.UID, u.GID)
			}
			if err := unlessFull(err); err != nil {
				return err
			}
		}
		if err := os.Lchown(u.Home, u.UID, u.GID); err != nil && !errors.Is(err, fs.ErrNotExist) { // a full disk has no room for it
			return err
		}
	}
	return nil
}

// makeSudo makes a sudo that belongs to the machine's root. It cannot be shared by machines, because root may change it.
func makeSudo(root string) error {
	b, err := os.ReadFile(path.Join(programDir, "guest"))
	if err != nil {
		return err
	}
	at := path.Join(root, setuidBin, "sudo")
	if err := os.WriteFile(at, b, 0o755); err != nil {
		return err
	}
	return os.Chmod(at, 0o755|fs.ModeSetuid)
}

// overSh shows bash in place of sh, as on Amazon Linux, and the machine's sudo in place of the host's.
func (m *mounter) overSh(root string) error {
	for name, from := range map[string]string{"/bin/sh": "/bin/bash", "/usr/bin/sudo": path.Join(setuidBin, "sudo")} {
		at, err := filepath.EvalSymlinks(root + name)
		if err != nil || !strings.HasPrefix(at, root+"/usr/") && !strings.HasPrefix(at, root+"/bin/") {
			continue // not found
		}
		if from, err = filepath.EvalSymlinks(root + from); err != nil || from == at {
			continue
		}
		if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// setHostname sets the host name to that of /etc/hostname, which cloud-init may have written, or to the given one.
func setHostname(otherwise string) error {
	b, err := readRegular("/etc/hostname")
	name := strings.TrimSpace(string(b))
	if err != nil || name == "" || len(name) > 64 {
		name = otherwise
	}
	return unix.Sethostname([]byte(name))
}

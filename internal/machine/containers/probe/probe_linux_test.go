package probe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A test of the probe itself can only check what holds on every machine.
func TestEverythingMissingHasAReason(t *testing.T) {
	r := Run()
	if len(r.Checks) != 12 {
		t.Errorf("%d checks, want 12: %v", len(r.Checks), r.Checks)
	}
	for _, c := range r.Checks {
		if c.Found == "" {
			t.Errorf("%s: says nothing", c.Name)
		}
		if c.Level == Missing && r.Available {
			t.Errorf("available, although %s is missing", c.Name)
		}
	}
	if r.Available != (r.Why() == "") {
		t.Errorf("available %v, but the reason against it is %q", r.Available, r.Why())
	}
}

const hybrid = `22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
`

func TestMounts(t *testing.T) {
	for _, tc := range []struct {
		name, mountinfo string
		check           func([]mount) Check
		level           Level
		found           string
	}{
		{"cgroup v2 beside v1", hybrid, cgroups, OK, "/sys/fs/cgroup/unified"},
		{"cgroup v1 only", strings.ReplaceAll(hybrid, "cgroup2", "cgroup"), cgroups, Missing, "not mounted"},
		{"a /proc of its own", hybrid, proc, OK, "not masked"},
		{"binfmt_misc masks nothing", hybrid + "50 22 0:40 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw\n", proc, OK, "not masked"},
		{"a /proc of Docker", hybrid + "50 22 0:40 / /proc/kcore ro - tmpfs tmpfs rw\n", proc, Missing, "/proc/kcore is masked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.check(parseMounts([]byte(tc.mountinfo)))
			if c.Level != tc.level || !strings.Contains(c.Found, tc.found) {
				t.Errorf("%s: %s, want %s: …%s…", c.Level, c.Found, tc.level, tc.found)
			}
			if c.Level == Missing && c.Fix == "" {
				t.Error("there is no fix")
			}
		})
	}
}

func TestSubIDRange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(file, []byte("alice:100000:65536\nbob:1:10\n1001:165536:65536\nbob:231072:65536\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, uid string
		want      Range
	}{
		{"alice", "1000", Range{100000, 65536}},
		{"carol", "1001", Range{165536, 65536}},
		{"bob", "1002", Range{231072, 65536}},
		{"dave", "1003", Range{}},
	} {
		if got := SubIDRange(file, tc.name, tc.uid); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if got := SubIDRange(file+"-missing", "alice", "1000"); got != (Range{}) {
		t.Errorf("without the file: %v", got)
	}
}

// Without a TUN device, machines cannot reach the internet. That is no limit while --internet is off.
func TestInternet(t *testing.T) {
	for _, tt := range []struct {
		root  bool
		err   error
		level Level
		fix   string
	}{
		{true, nil, OK, ""},
		{false, syscall.EACCES, OK, ""},
		{true, syscall.EPERM, Limited, "--privileged"},
		{true, fs.ErrNotExist, Limited, "modprobe tun"},
		{false, fs.ErrNotExist, Limited, "modprobe tun"},
		{true, errors.New("no such device"), Limited, "modprobe tun"},
	} {
		c := tunOpened(tt.root, tt.err)
		if c.Level != tt.level || !strings.Contains(c.Fix, tt.fix) || (c.Fix == "") != (tt.fix == "") {
			t.Errorf("root %v, %v: %+v", tt.root, tt.err, c)
		}
		r := newReport([]Check{c, {Volumes, Limited, "none", ""}})
		if got := r.Limits(); !slices.Equal(got, []string{Volumes + ": none"}) || !r.Available || r.Has(Internet) != (tt.level == OK) {
			t.Errorf("root %v, %v: limits %q, internet %v", tt.root, tt.err, got, r.Has(Internet))
		}
	}
}

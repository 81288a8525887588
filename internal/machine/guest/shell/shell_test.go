package shell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

func newFS(t testing.TB) *vfs.FS {
	t.Helper()
	f := vfs.New(vfs.DefaultLimits, nil)
	for _, dir := range []string{"/tmp", "/etc", "/root", "/home/ec2-user"} {
		if err := f.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"/etc/passwd":  "root:x:0:0:root:/root:/bin/bash\nec2-user:x:1000:1000::/home/ec2-user:/bin/bash\n",
		"/etc/app.cfg": "# settings\nmode = slow\nport=80\nmode = slow\n",
		"/etc/x.json":  `{"a":{"b":[1,2,{"c":"d"}]}}`,
	} {
		if err := f.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func run(t testing.TB, f *vfs.FS, script string, change ...func(*shell.Job)) (string, shell.Result, error) {
	t.Helper()
	var out bytes.Buffer
	job := shell.Job{FS: f, Script: []byte(script), Name: "part-001", Stdout: &out, Stderr: &out, Host: "ip-10-0-0-1.ec2.internal", Env: []string{"HOME=/root"}}
	for _, c := range change {
		c(&job)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // less than what TestPatience says it sleeps
	defer cancel()
	res, err := shell.Run(ctx, job)
	return out.String(), res, err
}

// What these scripts print was taken from bash 5.2 and GNU coreutils.
var scripts = []struct {
	name, script, want string
	status             int
}{
	{"words", `set -euo pipefail; x=1; for i in $(seq 3); do x=$((x*i)); done; echo "$x ${x:+set} ${none:-default}"`, "6 set default\n", 0},
	{"errexit", "set -e\necho a\nfalse\necho b", "a\n", 1},
	{"trace", "#!/bin/bash -x\necho hello", "+ echo hello\nhello\n", 0},
	{"heredoc", "cat > /tmp/f <<'EOF'\n$x `y`\nEOF\ncat /tmp/f", "$x `y`\n", 0},
	{"append and read", "echo a > /tmp/f; echo b >> /tmp/f; while read -r l; do echo \"<$l>\"; done < /tmp/f", "<a>\n<b>\n", 0},
	{"a pipeline", "printf 'b\\na\\nb\\n' | sort | uniq -c | sort -rn | head -1 | tr -s ' '", " 2 b\n", 0},
	{"unknown", "echo a\nfoo --bar\necho $?", "a\npart-001: line 2: foo: command not found\n127\n", 0},
	{"pagers", "seq 3 > /tmp/f; less -N +G /tmp/f | tail -n 1; seq 2 | more; seq 2 | less -; less -p 2 -- /tmp/f; more -n 10 /etc/none; less /etc/none",
		"3\n1\n2\n1\n2\n1\n2\n3\nmore: cannot open /etc/none: No such file or directory\n/etc/none: No such file or directory\n", 1},
	{"editors", "vi /etc/hosts 2>&1 | cut -d ';' -f 1; nano /etc/hosts 2> /dev/null; echo $?", "vi: full-screen programs do not work on simulated machines\n1\n", 0},
	{"no file", "cat /etc/none", "cat: /etc/none: No such file or directory\n", 1},
	{"no program", "/opt/x/y", "part-001: line 1: /opt/x/y: No such file or directory\n", 127},
	{"a script without the bit", "echo 'echo hi' > /tmp/s; /tmp/s; chmod +x /tmp/s; /tmp/s", "part-001: line 1: /tmp/s: Permission denied\nhi\n", 0},
	{"a redirect into nothing", "echo a > /none/f; echo $?", "part-001: /none/f: No such file or directory\n1\n", 0},
	{"globs", "touch /tmp/a.txt /tmp/b.txt; cd /tmp; echo *.txt; pwd", "a.txt b.txt\n/tmp\n", 0},
	{"tests", "[ -d /etc ] && [[ -f /etc/passwd ]] && ! test -e /none && [ -x /usr/bin/sed ] && echo yes", "yes\n", 0},
	{"command -v", "command -v sed >/dev/null && which sed && ! command -v none", "/usr/bin/sed\n", 0},
	{"sudo", "sudo -E X=1 bash -c 'echo $X $0' ; whoami; sudo -u ec2-user whoami; su - ec2-user -c whoami", "1 bash\nroot\nec2-user\nec2-user\n", 0},
	{"sed in place", "sed -i -e 's/^mode *= *\\(.*\\)$/mode = fast # was \\1/' -e '/^#/d' /etc/app.cfg; cat /etc/app.cfg", "mode = fast # was slow\nport=80\nmode = fast # was slow\n", 0},
	{"sed with a backup", "sed -i.bak 's|80|8080|' /etc/app.cfg; grep -c 8080 /etc/app.cfg; grep port /etc/app.cfg.bak", "1\nport=80\n", 0},
	{"sed addresses", "seq 5 | sed -n '2,3p;$p'; seq 3 | sed '2a\\after two'; seq 3 | sed -E 's/([0-9])/<\\1&>/2;1!d'; echo aXbXc | sed 's/X/-/2'", "2\n3\n5\n1\n2\nafter two\n3\n1\naX" + "b-c\n", 0},
	{"sed slashes", `echo /a/b | sed 's/\/a/\/c/; s#/b#/d#'`, "/c/d\n", 0},
	{"grep", "grep -E '^(mode|port)' /etc/app.cfg | cut -d= -f2 | xargs; grep -q none /etc/app.cfg || echo absent; grep -oE '[0-9]+' /etc/app.cfg", "slow 80 slow\nabsent\n80\n", 0},
	{"jq", "jq -r '.a.b[2].c' /etc/x.json; jq -c --arg v w '.a.b |= map(numbers) | .x=$v' /etc/x.json; echo '{}' | jq -e .a; echo $?", "d\n{\"a\":{\"b\":[1,2]},\"x\":\"w\"}\nnull\n1\n", 0},
	{"base64", "echo -n hello | base64 | base64 -d; echo; echo hi | gzip | gunzip", "hello\nhi\n", 0},
	{"keys", "mkdir -p /home/ec2-user/.ssh && echo 'ssh-ed25519 AAAA me' >> ~ec2-user/.ssh/authorized_keys; tail -1 /home/ec2-user/.ssh/authorized_keys; chown -R ec2-user:ec2-user /home/ec2-user/.ssh; chmod 600 /home/ec2-user/.ssh/authorized_keys; stat -c '%a %U' /home/ec2-user/.ssh/authorized_keys", "ssh-ed25519 AAAA me\n600 ec2-user\n", 0},
	{"functions and traps", "f() { local a=$1; echo \"in $a\"; return 3; }; trap 'echo bye $?' EXIT; f x || echo $?", "in x\n3\nbye 0\n", 0},
	{"the host is not seen", "ls /; cat /proc/version; echo ~; hostname -s; id -u", "etc\nhome\nroot\ntmp\ncat: /proc/version: No such file or directory\n/root\nip-10-0-0-1\n0\n", 0},
	{"syntax", "if true; then", "part-001: line 1: syntax error: `then` must be followed by a statement list\n", 2},
	{"another language", "#!/usr/bin/python3\nprint(1)", "part-001: /usr/bin/python3: bad interpreter: No such file or directory\n", 126},
	{"a wrong flag", "cp --none a b", "cp: unrecognized option '--none'\nTry 'cp --help' for more information.\n", 1},
	{"rm", "rm -rf /; rm /etc; rm -f /none; rm -rf /etc; ls /etc", "rm: it is dangerous to operate recursively on '/'\nrm: use --no-preserve-root to override this failsafe\nrm: cannot remove '/etc': Is a directory\nls: cannot access '/etc': No such file or directory\n", 2},
	{"find", "mkdir -p /tmp/a/b; touch /tmp/a/x.log /tmp/a/b/y.log; find /tmp -name '*.log' -type f | sort; find /tmp/a -delete; ls /tmp", "/tmp/a/b/y.log\n/tmp/a/x.log\n", 0},
	{"timeout", "timeout 0.05 sleep 10; echo $?", "124\n", 0},
	{"background", "sleep 0.01 & wait; echo done", "done\n", 0},
	{"a full disk", "dd if=/dev/zero of=/tmp/big bs=1M count=100", "dd: error writing '/tmp/big': No space left on device\n", 1},
	{"echo onto a full disk", "dd if=/dev/zero of=/tmp/big bs=1M count=100 2>/dev/null; head -c 100000000 /dev/zero 2>/dev/null >> /tmp/big\nlong=$(seq 9999)\necho $long > /tmp/f; echo $?; printf %s $long > /tmp/f || echo no; echo x > /dev/null || echo wrong; set -e; exec > /tmp/f; echo $long; echo more >&2",
		"part-001: write error: No space left on device\n1\npart-001: write error: No space left on device\nno\npart-001: write error: No space left on device\n", 1},
	{"versions", "printf '1.10\\n1.9\\n' | sort -V", "1.9\n1.10\n", 0},
	{"lines", "seq 10 | tail -n +9; seq 10 | head -n 1; seq 5 | wc -l; seq 3 | tail -1", "9\n10\n1\n5\n3\n", 0},
	{"relative files", "cd /tmp && echo hi > f && cat < f && cat f && cat >> f <<E\nmore\nE\ncat f; ls /f", "hi\nhi\nhi\nmore\nls: cannot access '/f': No such file or directory\n", 2},
	{"a substitution that nobody reads", "true < <(seq 100000); exec > >(sleep 1000); echo end", "", 0},
	{"read from a command", "while read -r x; do echo \"<$x>\"; done < <(printf 'a\\nb\\n'); y=2; cat <(echo $y) <(echo z)", "<a>\n<b>\n2\nz\n", 0},
	{"log everything", "exec > >(tee /tmp/log | logger -t user-data) 2>&1; echo one; nope; sleep 0.01; echo two", "", 0},
	{"write to a command", "echo hi | tee >(cat > /tmp/copy) >/dev/null; sleep 0.05; cat /tmp/copy", "hi\n", 0},
	{"the host's users", "echo ~daemon ~root ~nobody/x", "~daemon /root ~nobody/x\n", 0},
	{"the host's users in braces", "echo {~daemon,~root/y} {,a}~daemon ~{daemon,bin} {~,x}daemon a~daemon", "~daemon /root/y ~daemon a~daemon ~daemon ~bin ~daemon xdaemon a~daemon\n", 0},
	{"the host's users in the background", "echo {~daemon,~bin} & wait", "~daemon ~bin\n", 0},
	{"the host's users in a trap", "trap 'echo ~daemon ~root {~bin,x}' EXIT", "~daemon /root ~bin x\n", 0},
	{"the host's users in a trap for errors", "trap 'echo ~daemon' ERR; (exit 1); true", "~daemon\n", 0},
	{"the host's users in an alias", "shopt -s expand_aliases; alias who='echo ~daemon ~root' if='if ~daemon/x'\nwho ~bin\nwho ~bin & wait; alias who", "~daemon /root ~bin\n~daemon /root ~bin\nalias who='echo '~'daemon ~root'\n", 0},
	{"the host's programs", "command -v python3 systemctl; command -v sed cd; f() { :; }; type f sed; type -p python3; echo $?", "/usr/bin/sed\ncd\nf is a function\nsed is /usr/bin/sed\n1\n", 0},
	{"refused builtins", "set -e; umask 077; ulimit -n 1024; hash -r; echo done", "done\n", 0},
	{"kill", "sleep 100 & kill $! && echo told; kill -0 1; kill -l | wc -l; kill; kill -NONE 1", "told\nkill: (1) - No such process\n1\nkill: usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]\nkill: NONE: invalid signal specification\n", 1},
	{"job control", "jobs; fg; bg %1; disown; sleep 0.01 & wait; echo $?; wait 99", "fg: no job control\nbg: no job control\ndisown: current: no such job\n0\nwait: pid 99 is not a child of this shell\n", 1},
	{"devices", "echo out > /dev/stdout; echo err > /dev/stderr; head -c 4 /dev/zero | wc -c; tr -dc a-z < /dev/urandom | head -c 8 | wc -c; test -e /dev/null && echo $HOSTNAME", "out\nerr\n4\n8\nip-10-0-0-1.ec2.internal\n", 0},
	{"a link's folder", "mkdir /tmp/d; touch /tmp/d/f; ln -s /tmp/d /tmp/l; rm -rf /tmp/l/; ls /tmp/d; [ -O /tmp/d ] && echo mine", "f\nmine\n", 0},
	{"tmpdir", "mktemp -d; export TMPDIR=/tmp; bash -c 'echo $TMPDIR'", "/tmp/tmp.0000000000\n/tmp\n", 0},
}

func TestScripts(t *testing.T) {
	for _, tc := range scripts {
		t.Run(tc.name, func(t *testing.T) {
			out, res, err := run(t, newFS(t), tc.script)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out); diff != "" || res.Status != tc.status {
				t.Errorf("status %d, want %d (-want +got):\n%s", res.Status, tc.status, diff)
			}
		})
	}
}

func TestUnknownCommandsAreNamed(t *testing.T) {
	_, res, err := run(t, newFS(t), "foo; bar | foo; /opt/x || true")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"foo", "bar", "/opt/x"}, res.Unknown); diff != "" {
		t.Error(diff)
	}
}

func TestPatience(t *testing.T) {
	if _, res, err := run(t, newFS(t), "sleep 60", func(j *shell.Job) { j.Patience = 1000 }); err != nil || res.Status != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestOutsidePrograms(t *testing.T) {
	var seen [][]string
	out, res, err := run(t, newFS(t), "x=$(curl -s http://169.254.169.254/); echo \"got $x\"; PATH=/none; /usr/bin/curl; nope", func(j *shell.Job) {
		j.Outside = func(_ context.Context, c *shell.Call) (int, bool) {
			if !strings.HasSuffix(c.Args[0], "curl") {
				return 0, false
			}
			seen = append(seen, c.Args)
			fmt.Fprintln(c.Stdout, "answer")
			return 7, true
		}
	})
	if err != nil || res.Status != 127 || out != "got answer\nanswer\npart-001: line 1: nope: command not found\n" || len(seen) != 2 {
		t.Errorf("%q, %+v, %v, %q", out, res, err, seen)
	}
}

func TestRunawayScriptsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		want   error
	}{
		"commands":   {"while true; do :; done", shell.ErrTooManyCommands},
		"arithmetic": {"while ((1)); do ((x++)); done", context.DeadlineExceeded},
		"processes":  {"f() { echo x | f; }; f", shell.ErrTooManyCommands},
		"sleep":      {"sleep 1000", context.DeadlineExceeded},
		"scripts":    {"echo '/tmp/s' > /tmp/s; chmod +x /tmp/s; /tmp/s", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			var out bytes.Buffer
			res, err := shell.Run(ctx, shell.Job{FS: newFS(t), Script: []byte(tc.script), Name: "s", Stdout: &out, Stderr: &out, MaxCommands: 2000})
			if !errors.Is(err, tc.want) && !errors.Is(err, context.DeadlineExceeded) || tc.want != nil && err == nil || res.Status == 0 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// The interpreter must not create a pipe for <(command) on the host, wherever the guest wants it.
func TestProcessSubstitutionStaysInside(t *testing.T) {
	dir := t.TempDir()
	out, _, err := run(t, newFS(t), fmt.Sprintf(`export TMPDIR=%s; eval 'cat <(echo hi)'; bash -c 'cat <(echo fine)'
echo 'cat <(echo sourced); x=a\ b; echo $1 $x' > /tmp/lib; . /tmp/lib one; trap 'cat <(echo trapped)' EXIT`, dir))
	if err != nil || out != "hi\nfine\nsourced\none a b\ntrapped\n" {
		t.Errorf("%q, %v", out, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestWhatRunsInTheBackgroundEndsWithItsScript(t *testing.T) {
	begun, deaf := make(chan struct{}), make(chan struct{})
	defer close(deaf)
	_, res, err := run(t, newFS(t), "deaf & sleep 1000 & await", func(j *shell.Job) {
		j.Outside = func(_ context.Context, c *shell.Call) (int, bool) {
			switch c.Args[0] {
			case "deaf":
				close(begun)
				<-deaf
			case "await":
				<-begun
			}
			return 0, true
		}
	})
	if err != nil || res.Status != 0 || !res.Busy {
		t.Errorf("%+v, %v", res, err)
	}
	// A listener usually ends within the time that it gets, but not on every busy machine.
	for tries := 1; ; tries++ {
		_, res, err := run(t, newFS(t), "dd if=/dev/zero bs=1024 count=100000000 > /dev/null & sleep 1000 & sleep 0.01")
		if err == nil && !res.Busy {
			break
		}
		if err != nil || tries == 100 {
			t.Fatalf("%+v, %v after %d tries", res, err, tries)
		}
	}
}

func FuzzRun(f *testing.F) {
	for _, s := range []string{"echo a | sed 's/a/b/'", "sed -i 's/x/&&/g' /etc/app.cfg", "grep '[' /etc/app.cfg", "jq . /etc/x.json", "cut -f1- x", "tr a-z A-Z", "find . -name '['", "xargs -I{} echo {}", "sed -n '/a/,/b/p'", "printf %s\\n a"} {
		f.Add(s)
	}
	for _, tc := range scripts {
		f.Add(tc.script)
	}
	for _, tc := range confirmed {
		f.Add(tc.script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		late := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("a script that does not end: %q", script)) })
		defer late.Stop()
		var out bytes.Buffer
		_, _ = shell.Run(ctx, shell.Job{FS: newFS(t), Script: []byte(script), Name: "s", Stdout: &out, Stderr: &out, MaxCommands: 200})
	})
}

// Archives may come from anywhere; their contents stay in the folder in which they are unpacked.
func FuzzArchives(f *testing.F) {
	seed := newFS(f)
	if out, res, err := run(f, seed, "mkdir -p /tmp/d/e; echo hi > /tmp/d/e/f; ln -s ../../etc /tmp/d/l; cd /tmp; tar cf a.tar d; tar czf a.tgz d; gzip -k a.tar"); err != nil || res.Status != 0 {
		f.Fatal(out, err)
	}
	for _, name := range []string{"/tmp/a.tar", "/tmp/a.tgz", "/tmp/a.tar.gz"} {
		b, err := seed.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files := newFS(t)
		if err := files.WriteFile("/tmp/a", data, 0o644); err != nil {
			return
		}
		passwd, err := files.ReadFile("/etc/passwd")
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = run(t, files, "mkdir /tmp/out; cd /tmp/out; tar tf /tmp/a; tar xf /tmp/a --strip-components=1; tar xf /tmp/a; gunzip -c /tmp/a; zcat < /tmp/a; base64 -d /tmp/a; jq . /tmp/a; awk '{print $1}' /tmp/a; sort -u /tmp/a")
		if now, err := files.ReadFile("/etc/passwd"); err != nil || !bytes.Equal(now, passwd) {
			t.Errorf("%q, %v", now, err)
		}
	})
}

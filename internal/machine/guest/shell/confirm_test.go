package shell_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// confirmed are scripts that run on the simulated machine and, as the same script in
// an empty folder, in bash with the tools of this machine: both print want.
var confirmed = []struct {
	name, script, want string
	needs              string // a tool that not every machine has
}{
	{name: "find by name", script: `mkdir -p a/b c; touch a/x.log a/b/y.log c/z.txt; find . -name '*.log' | sort; find a c -type d | sort; find . -maxdepth 1 -mindepth 1 | sort`,
		want: "./a/b/y.log\n./a/x.log\na\na/b\nc\n./a\n./c\n"},
	{name: "find with operators", script: `mkdir a; touch a/1 a/2 a/3; find a -type f ! -name 1 | sort; find a \( -name 1 -o -name 3 \) -print | sort; find a -name 2 -prune -o -type f -print | sort`,
		want: "a/2\na/3\na/1\na/3\na/1\na/3\n"},
	{name: "find -exec", script: `mkdir a; echo one > a/1; echo two > a/2; find a -type f -exec cat {} + | sort; find a -name 1 -exec echo found {} here \;; find a -name 2 -exec grep -q two {} \; -print`,
		want: "one\ntwo\nfound a/1 here\na/2\n"},
	{name: "find -delete", script: `mkdir -p a/b; touch a/b/x a/y; find a -name x -delete; find a -type d -empty; find a -delete; ls`, want: "a/b\n"},
	{name: "find by mode and size", script: `touch e; echo 12345 > f; chmod 600 f; chmod 4755 e; find . -type f -perm 600; find . -perm -4000; find . -type f -size +1c; find . -type f -empty; find . -iname F -type f`,
		want: "./f\n./e\n./f\n./e\n./f\n"},
	{name: "find -print0", script: `touch 'a b'; find . -type f -print0 | xargs -0 ls`, want: "./a b\n"},
	{name: "find without a match", script: `find none 2>/dev/null; echo $?; find . -nope 2>/dev/null; echo $?`, want: "1\n1\n"},
	{name: "grep -r", script: `mkdir -p d/e; echo 'key=1' > d/a.conf; printf 'x\nkey=2\n' > d/e/b.conf; echo key > d/c.txt; grep -r key d | sort; grep -rn --include='*.conf' key . | sort; grep -rl key | sort; grep -rh key= d | sort`,
		want: "d/a.conf:key=1\nd/c.txt:key\nd/e/b.conf:key=2\n./d/a.conf:1:key=1\n./d/e/b.conf:2:key=2\nd/a.conf\nd/c.txt\nd/e/b.conf\nkey=1\nkey=2\n"},
	{name: "grep with context", script: `seq 9 > f; grep -A1 3 f; grep -B1 -n 5 f; grep -C1 -E '2|8' f; grep -c 1 f; grep -L 1 f; echo $?; grep -H 7 f`,
		want: "3\n4\n4-4\n5:5\n1\n2\n3\n--\n7\n8\n9\n1\n0\nf:7\n"},
	{name: "grep in a folder", script: `mkdir d; grep x d; echo $?; printf 'a\n\nb\n' | grep -v '^$'; echo abc | grep -o 'b*'; echo 'a.b' | grep -F .; echo x | grep -e y -e x; grep -m1 . /dev/null; echo $?`,
		want: "grep: d: Is a directory\n2\na\nb\nb\na.b\nx\n1\n"},
	{name: "dates", script: `date -u -d @1700000000 '+%Y-%m-%dT%H:%M:%SZ %s %j %u %y %-d %e %a %b %Z %z %H%%'; date -u -d '2024-02-28 +2 days' +%F; date -u -d '2024-03-31 12:30:45' '+%T %I %p %k'; date -u -d @0 -R; date -u -d @1700000000 -Iseconds; date -u -d '2026-01-01T00:00:00Z' +%V-%G; date -u -d @1 --rfc-3339=seconds`,
		want: "2023-11-14T22:13:20Z 1700000000 318 2 23 14 14 Tue Nov UTC +0000 22%\n2024-03-01\n12:30:45 12 PM 12\nThu, 01 Jan 1970 00:00:00 +0000\n2023-11-14T22:13:20+00:00\n01-2026\n1970-01-01 00:00:01+00:00\n"},
	{name: "relative dates", script: `n=$(date +%s); h=$(date -d '1 hour ago' +%s); echo $(( (n - h + 5) / 60 )); d=$(date -d '+2 days' +%s); echo $(( (d - n + 5) / 3600 )); date -u -d '2024-01-31 1 week ago' +%F; date -u -d '2024-05-05 next day' +%F; date -d nonsense 2>/dev/null; echo $?`,
		want: "60\n48\n2024-01-24\n2024-05-06\n1\n"},
	{name: "tar", script: `mkdir -p d/e; echo hi > d/e/f; ln -s f d/e/l; chmod 750 d/e/f; tar czf a.tgz d; tar tzf a.tgz; mkdir out; tar -xzf a.tgz -C out --strip-components=1; cat out/e/f; readlink out/e/l; stat -c %a out/e/f; tar xf a.tgz d/e/f -O >/dev/null 2>&1; tar cf - d | tar tf - | tail -1`,
		want: "d/\nd/e/\nd/e/f\nd/e/l\nhi\nf\n750\nd/e/l\n"},
	{name: "tar of nothing", script: `tar cf x.tar none 2>&1; echo $?; echo junk > j; tar xf j >/dev/null 2>&1; echo $?; tar xf missing.tar 2>&1; echo $?`,
		want: "tar: none: Cannot stat: No such file or directory\ntar: Exiting with failure status due to previous errors\n2\n2\ntar: missing.tar: Cannot open: No such file or directory\ntar: Error is not recoverable: exiting now\n2\n"},
	{name: "gzip", script: `echo hello > f; gzip -k f; ls; zcat f.gz; gunzip -c f.gz; rm f; gunzip f.gz; cat f; gzip -c f | gzip -d; gzip none 2>&1; echo $?; echo x | gunzip 2>&1; gzip f; gzip -t f.gz; echo $?`,
		want: "f\nf.gz\nhello\nhello\nhello\nhello\ngzip: none: No such file or directory\n1\n\ngzip: stdin: not in gzip format\n0\n"},
	{name: "base64", script: `printf 'hello world' | base64; printf %060d 0 | base64 -w0; echo; echo aGk= | base64 --decode; echo; printf '%060d' 7 | base64`,
		want: "aGVsbG8gd29ybGQ=\nMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw\nhi\nMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw\nMDA3\n"},
	{name: "printf -v", script: `printf -v x '%03d-%s' 7 "it's"; echo "$x"; printf -v a[1] %s z; echo "${a[1]}"; f() { local y; printf -v y '%s,' a b; echo "$y"; }; f; printf -- '-%s\n' x`,
		want: "007-it's\nz\na,b,\n-x\n"},
	{name: "backslashes", script: `x='a'\''b'; y=a\ b\$c; echo "$x$y"; echo hi > a\ b; cat 'a b'; case a\ b in 'a b') echo case;; esac; [[ -f a\ b ]] && echo test; z="q\"r"; echo $z; w=~\/x; echo "${w#$HOME}"; [[ a\*b == a\*b ]] && echo star; eval 'v=it\'"'"s; echo "$v"`,
		want: "a'ba b$c\nhi\ncase\ntest\nq\"r\n~/x\nstar\nit's\n"},
	{name: "set-user-ID", script: `touch f; mkdir d; chmod 4755 f; stat -c '%a %A' f; chmod u-s f; stat -c %a f; chmod 1777 d; ls -ld d | cut -c1-10; chmod g+s d; stat -c %a d; chmod 755 d; stat -c %a d; chmod 00755 d; stat -c %a d; install -m 2711 f g; stat -c %a g; mkdir -m 700 e; stat -c '%a %F' e`,
		want: "4755 -rwsr-xr-x\n755\ndrwxrwxrwt\n3777\n2755\n755\n2711\n700 directory\n"},
	{name: "ls", script: `umask 022; mkdir d; touch .h b d/x; echo 123 > a; ln -s a l; ls; ls -A; ls -F; ls d b; ls -R d; ls -ld d | cut -c1-10; ls -l l | sed 's/.* l ->/l ->/'; ls -r; ls none 2>/dev/null; echo $?`,
		want: "a\nb\nd\nl\n.h\na\nb\nd\nl\na\nb\nd/\nl@\nb\n\nd:\nx\nd:\nx\ndrwxr-xr-x\nl -> a\nl\nd\nb\na\n2\n"},
	{name: "awk", script: `printf 'a:1\nb:2\n' > f; awk -F: '{s+=$2} END {print s}' f; awk -v n=3 'BEGIN{print n*2}'; echo 'x y' | awk '{print $2 > "out"}'; cat out; awk 'BEGIN {print ENVIRON["V"]}'; V=1 awk 'BEGIN {print ENVIRON["V"]}'; echo '{print NR}' > p; awk -f p f; df -P / 2>/dev/null | awk 'NR==9'`,
		want: "3\n6\ny\n\n1\n1\n2\n", needs: "awk"},
	{name: "jq", script: `echo '{"a":[1,2],"b":"x"}' | jq -r '.b, (.a|length)'; echo '[{"k":1}]' | jq -c '.[]|.k+1'; jq -n --arg v 1 '{v:$v}'`, want: "x\n2\n2\n{\n  \"v\": \"1\"\n}\n", needs: "jq"},
}

// prepare gives both sides the same environment: no locale, no time zone, no user's umask.
const prepare = "export LC_ALL=C TZ=UTC; umask 022\n"

func TestConfirmedScripts(t *testing.T) {
	for _, tc := range confirmed {
		t.Run(tc.name, func(t *testing.T) {
			f := newFS(t)
			if err := f.MkdirAll("/work", 0o755); err != nil {
				t.Fatal(err)
			}
			out, _, err := run(t, f, prepare+tc.script, func(j *shell.Job) { j.Dir = "/work" })
			if diff := cmp.Diff(tc.want, out); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// The rows above are true of the real tools, bash and GNU's, which must be installed under REQUIRE_CLIENTS=1.
func TestScriptsAreConfirmed(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		needs.Missing(t, "there is no bash here to compare with")
	}
	if out, _ := exec.CommandContext(t.Context(), bash, "-c", "ls --version; find --version; tar --version").Output(); strings.Count(string(out), "GNU") < 3 {
		needs.Missing(t, "the tools here are not GNU's")
	}
	for _, tc := range confirmed {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.needs); tc.needs != "" && err != nil {
				needs.Missing(t, "there is no %s here", tc.needs)
			}
			dir := filepath.Join(t.TempDir(), "work")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), bash, "-c", prepare+tc.script)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			_ = cmd.Run() // a script may end with any status
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

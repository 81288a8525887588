package cloudinit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/cloudinit"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

const multipartData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo one
--//
Content-Type: text/cloud-config

runcmd:
- echo from runcmd
--//
Content-Type: application/node.eks.aws

kind: NodeConfig
--//--
`

func gzipped(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.Bytes()
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name string
		data []byte
		want []string // type:body
	}{
		{"nothing", nil, nil},
		{"blanks", []byte(" \n"), nil},
		{"a script", []byte("#!/bin/sh\necho"), []string{"text/x-shellscript:#!/bin/sh\necho"}},
		{"a config", []byte("#cloud-config\nruncmd: []"), []string{"text/cloud-config:#cloud-config\nruncmd: []"}},
		{"compressed", gzipped("#!/bin/sh\n"), []string{"text/x-shellscript:#!/bin/sh\n"}},
		{"encoded twice", []byte(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))), []string{"text/x-shellscript:#!/bin/sh\n"}},
		{"anything", []byte("echo hello"), []string{"text/plain:echo hello"}},
		{"multipart", []byte(multipartData), []string{
			"text/x-shellscript:#!/bin/bash\necho one", "text/cloud-config:runcmd:\n- echo from runcmd", "application/node.eks.aws:kind: NodeConfig",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parts, err := cloudinit.Parse(tc.data)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, p.Type+":"+string(p.Body))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseIsBounded(t *testing.T) {
	var nested strings.Builder
	for i := range 10 {
		fmt.Fprintf(&nested, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
	}
	var many strings.Builder
	many.WriteString("Content-Type: multipart/mixed; boundary=b\n\n")
	for range 100 {
		many.WriteString("--b\nContent-Type: text/plain\n\nx\n")
	}
	many.WriteString("--b--\n")
	for name, data := range map[string][]byte{
		"a bomb": gzipped("#!" + strings.Repeat("x", 4<<20)), "nesting": []byte(nested.String()), "parts": []byte(many.String()),
	} {
		if _, err := cloudinit.Parse(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(multipartData))
	f.Add(gzipped("#!/bin/sh"))
	f.Add([]byte("#cloud-config\nwrite_files: [{path: /a}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		host, _ := newHost(t)
		host.Run = func(context.Context, string, []string, io.Writer) (int, []string, error) { return 0, nil, nil }
		if _, err := cloudinit.Boot(t.Context(), host, data, true); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzConfig is FuzzParse with input that is always a cloud-config.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"write_files: [{path: /a, content: x, encoding: gz+b64, permissions: 0644, owner: ec2-user, append: true, defer: true}]", "runcmd: [[a, 1, true], b, null]\nbootcmd: c",
		"users: [default, {name: x, ssh_authorized_keys: [k]}, {name: 'a:b'}]\nssh_authorized_keys: [k]\nhostname: h", "a: &a [*a]", "runcmd: {a: b}", "x: &x [1,2]\ny: [*x, *x]\nruncmd: *x", "a: &a " + strings.Repeat("x", 1_000) + "\nruncmd: [" + strings.Repeat("*a,", 2_000) + "]", "write_files: 7", "? [a]\n: b", "fqdn: {}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, _ := newHost(t)
		host.Run = func(context.Context, string, []string, io.Writer) (int, []string, error) { return 0, nil, nil }
		if _, err := cloudinit.Boot(t.Context(), host, []byte("#cloud-config\n"+text), true); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzMIME is FuzzParse with input that is always a multipart message.
func FuzzMIME(f *testing.F) {
	f.Add("text/x-shellscript", "base64", "IyEvYmluL3No", "inner")
	f.Add("multipart/mixed; boundary=inner", "", "--inner\nContent-Type: text/cloud-config\n\nruncmd: [a]\n--inner--", "inner")
	f.Add("text/plain; charset=\"x", "quoted-printable", "#!/bin/sh", "../../etc/passwd")
	f.Fuzz(func(t *testing.T, mediaType, encoding, body, filename string) {
		host, _ := newHost(t)
		host.Run = func(context.Context, string, []string, io.Writer) (int, []string, error) { return 0, nil, nil }
		data := "Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n\n--b\nContent-Type: " + mediaType + "\nContent-Transfer-Encoding: " + encoding +
			"\nContent-Disposition: attachment; filename=\"" + filename + "\"\n\n" + body + "\n--b--\n"
		if _, err := cloudinit.Boot(t.Context(), host, []byte(data), true); err != nil {
			t.Fatal(err)
		}
	})
}

// newHost returns a machine whose scripts run in this process, and its console.
func newHost(t testing.TB) (cloudinit.Host, *bytes.Buffer) {
	t.Helper()
	files := vfs.New(vfs.DefaultLimits, nil)
	for _, err := range []error{files.MkdirAll("/etc", 0o755), files.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/bash\n"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	console := &bytes.Buffer{}
	return cloudinit.Host{
		FS: files, InstanceID: "i-0123456789abcdef0", Version: "22.2.2", User: "ec2-user", Keys: []string{"ssh-ed25519 AAAA mine"},
		Console: console,
		Now:     func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		Up:      func() time.Duration { return 7*time.Second + 250*time.Millisecond },
		Run: func(ctx context.Context, file string, env []string, out io.Writer) (int, []string, error) {
			text, err := files.ReadFile(file)
			if err != nil {
				return 0, nil, err
			}
			res, err := shell.Run(ctx, shell.Job{FS: files, Script: text, Name: file, Env: env, Stdout: out, Stderr: out})
			return res.Status, res.Unknown, err
		},
	}, console
}

func TestBoot(t *testing.T) {
	host, console := newHost(t)
	data := `Content-Type: multipart/mixed; boundary="=="

--==
Content-Type: text/x-shellscript

#!/bin/bash -xe
echo $INSTANCE_ID
cat /etc/app.conf
frobnicate --now
echo never
--==
Content-Type: text/cloud-config

write_files:
- {path: /etc/app.conf, content: "a: b\n", permissions: '0600'}
- {path: /etc/decoded, content: aGVsbG8=, encoding: b64, owner: "nobody:nobody"}
runcmd:
- [sh, -c, 'echo "run $0"']
- echo second
bootcmd:
- echo early
ssh_authorized_keys: [ssh-rsa BBBB theirs]
packages: [jq]
--==--
`
	res, err := cloudinit.Boot(t.Context(), host, []byte(data), true)
	if err != nil {
		t.Fatal(err)
	}
	want := `Cloud-init v. 22.2.2 running 'init-local' at Fri, 02 Jan 2026 03:04:05 +0000. Up 7.25 seconds.
Cloud-init v. 22.2.2 running 'init' at Fri, 02 Jan 2026 03:04:05 +0000. Up 7.25 seconds.
early
2026-01-02 03:04:05,000 - util.py[WARNING]: Running module write-files failed: OSError: Unknown user or group: "nobody"
Cloud-init v. 22.2.2 running 'modules:config' at Fri, 02 Jan 2026 03:04:05 +0000. Up 7.25 seconds.
Cloud-init v. 22.2.2 running 'modules:final' at Fri, 02 Jan 2026 03:04:05 +0000. Up 7.25 seconds.
+ echo i-0123456789abcdef0
i-0123456789abcdef0
+ cat /etc/app.conf
a: b
+ frobnicate --now
/var/lib/cloud/instance/scripts/part-001: line 4: frobnicate: command not found
2026-01-02 03:04:05,000 - subp.py[WARNING]: Failed running /var/lib/cloud/instance/scripts/part-001 [127]
run sh
second
2026-01-02 03:04:05,000 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts in /var/lib/cloud/instance/scripts)
2026-01-02 03:04:05,000 - util.py[WARNING]: Running module scripts-user (<module 'cloudinit.config.cc_scripts_user'>) failed
Cloud-init v. 22.2.2 finished at Fri, 02 Jan 2026 03:04:05 +0000. Datasource DataSourceEc2.  Up 7.25 seconds
`
	if diff := cmp.Diff(want, console.String()); diff != "" {
		t.Errorf("console (-want +got):\n%s", diff)
	}
	if b, err := host.FS.ReadFile(cloudinit.OutputLog); err != nil || string(b) != console.String() {
		t.Errorf("the log differs from the console: %q, %v", b, err)
	}
	wantResult := cloudinit.Result{
		Scripts: []string{"/var/lib/cloud/instance/bootcmd.sh", "/var/lib/cloud/instance/scripts/part-001", "/var/lib/cloud/instance/scripts/runcmd"},
		Failures: []cloudinit.Failure{
			{Module: "write-files", What: "/etc/decoded", Reason: `OSError: Unknown user or group: "nobody"`},
			{Module: "scripts-user", What: "/var/lib/cloud/instance/scripts/part-001", Reason: "exit status 127"},
		},
		Unknown: []string{"frobnicate"}, Ignored: []string{"cloud-config packages"},
	}
	if diff := cmp.Diff(wantResult, res); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if b, err := host.FS.ReadFile("/home/ec2-user/.ssh/authorized_keys"); err != nil || string(b) != "ssh-ed25519 AAAA mine\nssh-rsa BBBB theirs\n" {
		t.Errorf("authorized keys %q, %v", b, err)
	}

	// The next boot runs no script, but bootcmd.
	console.Reset()
	res, err = cloudinit.Boot(t.Context(), host, []byte(data), false)
	if err != nil || len(res.Scripts) != 1 || !strings.Contains(console.String(), "\nearly\n") || strings.Contains(console.String(), "\nsecond\n") {
		t.Errorf("%+v, %v\n%s", res, err, console)
	}
}

func TestManyUsers(t *testing.T) {
	users := func(n int) string {
		var b strings.Builder
		b.WriteString("#cloud-config\nusers:\n")
		for i := range n {
			fmt.Fprintf(&b, "- u%d\n", i)
		}
		return b.String()
	}
	host, _ := newHost(t)
	if res, err := cloudinit.Boot(t.Context(), host, []byte(users(150)), true); err != nil || len(res.Failures) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if b, err := host.FS.ReadFile("/etc/passwd"); err != nil || !strings.Contains(string(b), "u149:x:1150:1150:") {
		t.Errorf("%s, %v", b, err)
	}
	host, _ = newHost(t)
	if res, err := cloudinit.Boot(t.Context(), host, []byte(users(5000)), true); err != nil || len(res.Failures) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestBrokenConfig(t *testing.T) {
	half := fmt.Sprintf("--B\nContent-Type: text/cloud-config\n\na: &a %q\nruncmd: [%s*a]\n", strings.Repeat("x", 9_000), strings.Repeat("*a,", 100))
	for name, tc := range map[string]struct{ data, want string }{
		"a bomb":    {"#cloud-config\n" + fmt.Sprintf("a: &a %q\nruncmd: [%s*a]\n", strings.Repeat("x", 40<<10), strings.Repeat("*a,", 9_999)), "Failed loading yaml blob. yaml: document contains excessive aliasing"},
		"halves":    {"Content-Type: multipart/mixed; boundary=B\n\n" + strings.Repeat(half, 3) + "--B--\n", "Failed loading yaml blob. its parts together are larger than"},
		"YAML":      {"#cloud-config\nruncmd: [", "Failed loading yaml blob."},
		"a type":    {"#cloud-config\nwrite_files: 7", "Invalid cloud-config provided"},
		"a command": {"#cloud-config\nruncmd: [{a: b}]", "Unable to shellify type"},
	} {
		host, console := newHost(t)
		res, err := cloudinit.Boot(t.Context(), host, []byte(tc.data), true)
		if err != nil || len(res.Failures) != 1 || !strings.Contains(console.String(), "[WARNING]") || !strings.Contains(fmt.Sprint(res.Failures), tc.want) || !strings.Contains(console.String(), "finished at") {
			t.Errorf("%s: %+v, %v\n%s", name, res, err, console)
		}
	}
}

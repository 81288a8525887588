package containers_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers"
)

// programs returns a layer with programs of the real machine and their libraries, and other files with their content.
func programs(t *testing.T, names []string, files map[string]string, links map[string]string) []byte {
	t.Helper()
	all := map[string][]byte{}
	add := func(name string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(name, "/")] = b
	}
	for _, name := range names {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		all["bin/"+name] = b
		out, err := exec.Command("ldd", at).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", at, err)
		}
		for _, lib := range regexp.MustCompile(`/\S+`).FindAllString(string(out), -1) {
			add(lib)
		}
	}
	for name, text := range files {
		all[name] = []byte(text)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range all {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(data)), Uid: 7, Gid: 8}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func withUserland(in machine.Instance, image string) machine.Instance {
	in.Tags = map[string]string{containers.UserlandTag: image}
	return in
}

// A machine has the programs of an image, what the image has in /etc and /var, and its own users.
func TestAnImageIsTheUserland(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	below := programs(t, []string{"bash", "cat", "ls", "id", "stat"}, map[string]string{
		"etc/os-release": "NAME=Tiny\n", "etc/passwd": "root:x:0:0::/root:/bin/sh\ntiny:x:7:8::/:/bin/sh", "etc/hosts": "192.0.2.1 wrong\n", "var/lib/tiny/data": "data", "srv/site": "site", "usr/share/gone": "x",
		"opt/tiny/bin": "tiny", "opt/aws/x": "x",
	}, map[string]string{"bin/sh": "bash", "var/run": "/run"})
	above := layer(t, file("usr/share/.wh.gone"), file("usr/share/kept"))
	load(t, r, "tiny:1", below, above)
	load(t, r, "other:1", layer(t, file("usr/other")))
	in := withUserland(instance("i-a", "10.0.0.11"), "tiny:1")
	a := start(t, r, in)
	for script, want := range map[string]string{
		"cat /etc/os-release":                    "NAME=Tiny\n",
		"ls /usr/share":                          "kept\n",
		"ls /lib/modules":                        "",
		"cat /var/lib/tiny/data /srv/site":       "datasite",
		"stat -c '%u %g %a' /var/lib/tiny/data":  "7 8 755\n",
		"id -un; id -un 7; id -u ec2-user":       "root\ntiny\n1000\n",
		"cat /etc/hostname; ls /var/run/drydock": "ip-10-0-0-11.ec2.internal\ntools.sock\n",
		"cat /opt/tiny/bin; ls /opt":             "tinydrydock\ntiny\n",
		"! (: > /usr/share/x) && ! (: > /bin/x)": "",
		"! ls /usr/bin/perl":                     "",
	} {
		if got := run(t, a, "sh", "-c", "exec 2> /dev/null; "+script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if got := run(t, a, "cat", "/etc/hosts"); !strings.Contains(got, "10.0.0.11") || strings.Contains(got, "wrong") {
		t.Errorf("/etc/hosts: %s", got)
	}
	var out bytes.Buffer
	if status, err := machine.Run(t.Context(), a, machine.Command{User: "ec2-user", Args: []string{"sh", "-c", "echo $SHELL"}, Stdout: &out}); status != 0 || err != nil || out.String() != "/bin/sh\n" && out.String() != "/bin/bash\n" {
		t.Errorf("the shell of ec2-user: %q, %d, %v", &out, status, err)
	}
	// What has changed on the disk stays, and what the image had there is not copied again.
	run(t, a, "sh", "-c", "echo mine > /etc/os-release; echo > /var/lib/tiny/data; echo new > /var/lib/tiny/more")
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	a = start(t, r, in)
	if got := run(t, a, "cat", "/etc/os-release", "/var/lib/tiny/data", "/var/lib/tiny/more"); got != "mine\n\nnew\n" {
		t.Errorf("after a restart: %q", got)
	}
	// Others have the real machine's programs.
	run(t, start(t, r, instance("i-b", "10.0.0.12")), "perl", "-e", "1")
}

// The image has links in place of folders that the machine shows or writes: they lead to nothing but its own files.
func TestAHostileUserlandSeesOnlyItsMachine(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	asFolders(t, dir, "i-b")
	r := newRuntime(t, dir)
	start(t, r, instance("i-b", "10.0.0.12"))
	const other = "/data/i-b/disk/mnt"
	up := strings.Repeat("../", 10)
	for i, links := range []map[string]string{
		{"bin/sh": "bash", "usr": other, "media": "/data", "home": "/data", "etc": other},
		{"bin/sh": "bash", "etc/x": other, "var/log/x": other, "var/cache": up + "data/i-b/disk/mnt", "root": up + other, "opt": other, "userland": "/userland"},
		{"bin/sh": "bash", "srv": "/", "lib/modules": other, "boot": "/host-etc", "proc": other, "sys": other, "dev": other, "run": other, "tmp": other, "opt/a": other},
	} {
		name := fmt.Sprintf("hostile:%d", i)
		load(t, r, name, programs(t, []string{"bash", "cat", "ls"}, nil, links))
		in := withUserland(instance("i-a", "10.0.0.11"), name)
		if err := r.Start(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		a, _ := r.Machine(in.ID)
		select {
		case <-a.Booted():
			got := run(t, a, "bash", "-c", "ls -d /data /programs /host-etc /sockets /userland/0 2>/dev/null; ls /media/ /boot/ /srv/data 2>/dev/null; true")
			if got != "" {
				t.Errorf("%v: the machine sees %q", links, got)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%v: the machine does not boot: %s", links, a.Console())
		}
		if err := a.Stop(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := r.RemoveDisk(in.ID); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "disks/i-b/disk/mnt")); err != nil || len(left) > 0 {
		t.Errorf("the other machine's disk has %v, %v", left, err)
	}
}

// Without its image, a machine does not boot and says why, until it can.
func TestAUserlandThatIsNotThere(t *testing.T) {
	needContainers(t)
	architecture := "arm64"
	if runtime.GOARCH == architecture {
		architecture = "amd64"
	}
	for _, tc := range []struct{ tag, want string }{
		{"tiny:1", "boot: the tag drydock:userland: the image tiny:1 is not loaded: load it with drydock image load, pull or import"},
		{"tiny", "boot: the tag drydock:userland: the image tiny:latest is not loaded: load it with drydock image load, pull or import"},
		{"Tiny", `boot: the tag drydock:userland: invalid image name "Tiny": invalid reference format: repository name (library/Tiny) must be lowercase`},
		{"foreign:1", "boot: the tag drydock:userland: the image foreign:1 cannot be used: it is not for linux/" + runtime.GOARCH},
	} {
		t.Run(tc.tag, func(t *testing.T) {
			r, errs := newReportingRuntime(t, t.TempDir())
			if tc.tag == "foreign:1" {
				loadFor(t, r, tc.tag, architecture, layer(t, file("x")))
			}
			in := withUserland(instance("i-a", "10.0.0.11"), tc.tag)
			if err := r.Start(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-errs:
				if got := machine.EventBoot + ": " + err.Error(); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			case <-time.After(time.Minute):
				t.Fatal("the machine is neither on nor off")
			}
			if tc.tag != "tiny:1" {
				return
			}
			load(t, r, "tiny:1", programs(t, []string{"bash"}, nil, nil))
			a, _ := r.Machine(in.ID)
			select {
			case <-a.Booted():
			case <-time.After(time.Minute):
				t.Fatal("the machine does not boot")
			}
			if status, err := machine.Run(context.Background(), a, machine.Command{Args: []string{"bash", "-c", "exit 7"}}); status != 7 || err != nil {
				t.Errorf("bash: %d, %v", status, err)
			}
		})
	}
}

package ami_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// Some programs run in the daemon: their cost is in proportion to their input, both arguments and files.
func TestProgramsWithMuchToDo(t *testing.T) {
	words := func(n int, format string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return out
	}
	packages := strings.Join(words(700_000, "package%d"), "\n")[:7<<20]
	for _, tc := range []struct {
		name, file string // of the packages
		args       []string
	}{
		{name: "units and properties", args: append([]string{"systemctl", "show", "-p", strings.Join(words(190_000, "p%d"), ",")}, words(60_000, "u%d")...)},
		{name: "units of the journal", args: append([]string{"journalctl"}, words(400_000, "-uu%d")...)},
		{name: "letters", args: append(append([]string{"curl"}, words(250_000, "-ss")...), "http://example.com")},
		{name: "packages to install", args: append([]string{"dnf", "install", "-y"}, words(200_000, "p%d")...)},
		{name: "packages to remove", args: append([]string{"dnf", "remove"}, words(200_000, "p%d")...)},
		{name: "installed packages", file: packages, args: []string{"rpm", "-qa"}},
		{name: "installed packages to look for", file: packages, args: append([]string{"rpm", "-q"}, words(200_000, "p%d")...)},
		{name: "installed packages to list", file: packages, args: append([]string{"dnf", "list", "installed"}, words(200_000, "p%d")...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, images.AL2023)
			if tc.file != "" {
				if err := w.FS.MkdirAll("/var/lib/rpm", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := w.FS.WriteFile("/var/lib/rpm/simulated-packages", []byte(tc.file), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			c := shell.NewCall(tc.args, nil)
			c.FS, c.Dir, c.User, c.Stdin, c.Stdout, c.Stderr = w.FS, "/", "root", strings.NewReader(""), &out, &out
			done := make(chan bool, 1)
			go func() {
				_, found := w.Outside(t.Context(), c)
				done <- found
			}()
			select {
			case found := <-done:
				if !found {
					t.Error("no such program")
				}
			case <-time.After(30 * time.Second): // of which it uses one hundredth
				t.Error("it does not end within 30 s")
			}
		})
	}
}

// A command with many units ends with its script.
func TestSystemctlEndsWithItsContext(t *testing.T) {
	w := newWorld(t, images.AL2023)
	var out bytes.Buffer
	c := shell.NewCall([]string{"systemctl", "status", "sshd", "sshd"}, nil)
	c.FS, c.Dir, c.User, c.Stdout, c.Stderr = w.FS, "/", "root", &out, &out
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _ := w.Outside(ctx, c); status != 143 || out.Len() > 0 {
		t.Errorf("status %d, %q", status, out.String())
	}
}

// A machine remembers no more units than it can have files.
func TestUnitsAreBounded(t *testing.T) {
	w := newWorld(t, images.AL2023)
	out, _ := w.run(`for i in $(seq 1200); do echo > /etc/systemd/system/u$i.service; systemctl is-active u$i >/dev/null; rm /etc/systemd/system/u$i.service; done; systemctl list-unit-files | tail -n 1`)
	if out != "1000 unit files listed.\n" {
		t.Errorf("%q", out)
	}
}

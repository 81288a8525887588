package cloudinit_test

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine/guest/cloudinit"
)

// How cc_write_files handles odd entries: none of them prevents the others.
func TestWriteFiles(t *testing.T) {
	host, console := newHost(t)
	res, err := cloudinit.Boot(t.Context(), host, []byte(`#cloud-config
write_files:
- {content: lost}
- {path: /a, content: plain, encoding: rot13}
- {path: b/c, content: aGk=, encoding: B64, permissions: '4755'}
- {path: /d, content: '%%%', encoding: base64}
- {path: /e, content: x, owner: 'nobody-here:x'}
- {path: /f, content: one, permissions: nonsense}
- {path: /f, content: two, append: true}
`), true)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/a": "plain", "/b/c": "hi", "/f": "onetwo"} {
		if b, err := host.FS.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if i, err := host.FS.Stat("/b/c"); err != nil || i.Mode() != 0o755 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	if len(res.Failures) != 2 || res.Failures[0].What != "/d" || res.Failures[1].What != "/e" {
		t.Errorf("%+v", res.Failures)
	}
	for _, want := range []string{"No path provided to write for entry 1 in module write-files", "Unknown encoding type rot13, assuming text/plain"} {
		if !strings.Contains(console.String(), want) {
			t.Errorf("the console has no %q:\n%s", want, console)
		}
	}
}

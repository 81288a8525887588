package accounts_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

func TestUsersAndGroups(t *testing.T) {
	f := vfs.New(vfs.DefaultLimits, nil)
	if got := accounts.Users(f); got != nil {
		t.Errorf("without a file: %v", got)
	}
	if err := f.Mkdir("/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	const passwd = "root:x:0:0:root:/root:/bin/bash\n# a comment\nbroken:x:y:z\nec2-user:x:1000:1000::/home/ec2-user:/bin/bash\n"
	if err := f.WriteFile("/etc/passwd", []byte(passwd), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, s := accounts.NextUID(f, false), accounts.NextUID(f, true); n != 1001 || s != 999 {
		t.Errorf("the next IDs are %d and %d", n, s)
	}
	app := accounts.User{Name: "app", UID: 201, GID: 5, Home: "/srv/app", Shell: "/sbin/nologin"}
	for _, err := range []error{
		accounts.PutUser(f, app), accounts.PutUser(f, accounts.User{Name: "root", Home: "/", Shell: "/bin/sh"}),
		accounts.PutGroup(f, accounts.Group{Name: "wheel", GID: 10, Members: []string{"a", "b"}}),
		accounts.SetPassword(f, "app", "*"), accounts.RemoveUser(f, "ec2-user"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := f.ReadFile("/etc/passwd")
	if diff := cmp.Diff("root:x:0:0::/:/bin/sh\n# a comment\nbroken:x:y:z\napp:x:201:5::/srv/app:/sbin/nologin\n", string(b)); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if u, ok := accounts.FindUser(f, "201"); !ok || u != app {
		t.Errorf("%+v", u)
	}
	if g, ok := accounts.FindGroup(f, "wheel"); !ok || g.String() != "wheel:x:10:a,b" {
		t.Errorf("%+v", g)
	}
	if p, q := accounts.Password(f, "app"), accounts.Password(f, "none"); p != "*" || q != accounts.Locked {
		t.Errorf("%q, %q", p, q)
	}
}

// TestNextID checks that no two accounts get the same ID, even at the end of a range.
func TestNextID(t *testing.T) {
	for _, test := range []struct {
		used         []int
		user, system int
	}{
		{nil, 1000, 999},
		{[]int{999, 998}, 1000, 997},
		{[]int{998, 1000, 65534}, 1001, 997},
		{[]int{201, 60000}, 1000, 999},
		{[]int{201, 202, 999, 1000, 59999, 60000}, 1001, 998},
	} {
		f := vfs.New(vfs.DefaultLimits, nil)
		if err := f.Mkdir("/etc", 0o755); err != nil {
			t.Fatal(err)
		}
		for _, id := range test.used {
			if err := accounts.PutUser(f, accounts.User{Name: fmt.Sprintf("u%d", id), UID: id, GID: id}); err != nil {
				t.Fatal(err)
			}
		}
		if user, system := accounts.NextUID(f, false), accounts.NextGID(f, true); user != test.user || system != test.system {
			t.Errorf("%v: %d and %d, want %d and %d", test.used, user, system, test.user, test.system)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{"app": true, "_a-1.b": true, "machine$": true, "": false, "1a": false, "a:b": false, "a b": false, "-a": false, "ä": false} {
		if got := accounts.ValidName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

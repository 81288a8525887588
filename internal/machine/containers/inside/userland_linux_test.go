package inside

import "testing"

// The machine's accounts do not take the IDs of an image's groups, and have their own user IDs.
func TestAccounts(t *testing.T) {
	for name, tc := range map[string]struct {
		ours, theirs string
		groups       bool
		want         string
	}{
		"a missing user":           {"root:x:0:0\nec2-user:x:1000:1000\n", "root:x:0:0:ours\nubuntu:x:1000:1000\n", false, "ec2-user:x:1000:1000\nroot:x:0:0:ours\nubuntu:x:1000:1000\n"},
		"all are there":            {"root:x:0:0\n", "root:x:0:0", false, "root:x:0:0"},
		"a name that begins alike": {"ec2:x:1:1\n", "ec2-user:x:2:2\n", false, "ec2:x:1:1\nec2-user:x:2:2\n"},
		"a group's ID is taken":    {"wheel:x:10:ec2-user\nec2-user:x:1000:\n", "uucp:x:10:\n", true, "ec2-user:x:1000:\nuucp:x:10:\n"},
		"no lines":                 {"root:x:0:\n", "", true, "root:x:0:\n"},
	} {
		if got := withAccounts(tc.ours, tc.theirs, tc.groups); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

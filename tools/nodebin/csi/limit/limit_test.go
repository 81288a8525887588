package limit

import "testing"

func TestLeft(t *testing.T) {
	shared, dedicated := Attachments{Volumes: 27}, Attachments{Volumes: 32, Dedicated: true}
	for _, c := range []struct {
		name                          string
		all                           Attachments
		interfaces, volumes, reserved int64
		want                          int64
	}{
		{"an instance without anything else", shared, 1, 0, -1, 26},
		{"further network interfaces", shared, 3, 0, -1, 24},
		{"volumes of the launch", shared, 1, 2, -1, 24},
		{"both", shared, 3, 2, -1, 22},
		{"nothing is known of the instance", shared, 0, 0, -1, 26},
		{"as many as the flag says", shared, 3, 2, 4, 21},
		{"the flag says none", shared, 1, 2, 0, 27},
		{"a limit of its own", dedicated, 8, 0, -1, 31},
		{"a limit of its own, with volumes of the launch", dedicated, 8, 2, -1, 29},
		{"Xen", Attachments{Volumes: 39, Dedicated: true}, 3, 0, -1, 38},
		{"always one", Attachments{Volumes: 3}, 8, 2, -1, 1},
	} {
		if got := c.all.Left(c.interfaces, c.volumes, c.reserved); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

package containers

import "testing"

func TestAttachments(t *testing.T) {
	for name, want := range map[string]string{
		"m5.large":  `{"dedicated":false,"volumes":27}`,
		"m7i.large": `{"dedicated":true,"volumes":32}`,
		"t2.medium": `{"dedicated":true,"volumes":39}`, // Xen
		"m0.large":  "",
	} {
		if got, err := attachments(name); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
	}
}

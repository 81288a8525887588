package images

import "testing"

func TestOlderVersion(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"3.3.40.0", "3.3.3050.0", true}, {"3.3.3050.0", "3.3.40.0", false}, {"3.3.40.0", "3.3.40.0", false},
		{"3.3", "3.3.0", true}, {"3.x.1", "3.0.2", true}, {"", "1.0", true}, {"1.0", "", false},
	} {
		if got := OlderVersion(tt.a, tt.b); got != tt.want {
			t.Errorf("%q older than %q: %v", tt.a, tt.b, got)
		}
	}
}

package app

import (
	"net/http/httptest"
	"testing"
)

// The daemon's own pages change and show things without a signature, so only
// programs on this machine may ask.
func TestPagesAreForProgramsOnThisMachine(t *testing.T) {
	for _, tt := range []struct {
		name, remote, host string
		allowed            bool
	}{
		{"a program", "127.0.0.1:50000", "127.0.0.1:4566", true},
		{"by name", "[::1]:50000", "localhost:4566", true},
		{"another machine", "192.0.2.1:50000", "127.0.0.1:4566", false},
		{"a rebound name", "127.0.0.1:50000", "evil.example:4566", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/_drydock/reset", nil)
			r.RemoteAddr, r.Host = tt.remote, tt.host
			if why := foreign(r); (why == "") != tt.allowed {
				t.Errorf("foreign: %q, allowed should be %v", why, tt.allowed)
			}
		})
	}
}

package app

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// TestOfAWS checks that AWS's addresses and names are never looked up on the internet, even if nothing here has them.
func TestOfAWS(t *testing.T) {
	s := reach.New("us-east-1")
	for to, want := range map[string]bool{
		"54.0.1.2": true, "54.4.255.255": true, "::ffff:54.0.1.2": true, "i-0123456789abcdef0": true,
		"ec2-54-0-1-2.compute-1.amazonaws.com": true, "EC2-54-0-1-2.compute-1.Amazonaws.com.": true, "ip-10-0-0-1.ec2.internal": true,
		"192.0.2.1": false, "54.255.0.1": false, "2001:db8::1": false, "example.com": false,
	} {
		if got := ofAWS(s, reach.Addr(reach.Client), to); got != want {
			t.Errorf("%s: %v", to, got)
		}
	}
}

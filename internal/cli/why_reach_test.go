package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/reach"
)

// The command asks the daemon, shows its verdict and exits with it.
func TestWhyReach(t *testing.T) {
	var asked string
	reachable := true
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/_drydock/why/reach":
			asked = r.URL.Query().Encode()
			v := reach.Verdict{Reachable: reachable, Source: netip.MustParseAddr("10.0.0.1"), Forward: []reach.Hop{{Kind: reach.KindInstance, ID: "i-1", OK: true}}}
			if !reachable {
				v.Explanations = []reach.Explanation{{Code: reach.CodeNoRoute, Text: "no way"}}
			}
			_ = json.NewEncoder(w).Encode(v)
		}
	})
	for _, tt := range []struct {
		name      string
		args      []string
		reachable bool
		code      int
		out       string // in either stream
		asked     string
	}{
		{"reachable", []string{"--from", "i-1", "--to", "example.com:443"}, true, 0, "reachable", "account=&from=i-1&port=443&protocol=tcp&region=us-east-1&to=example.com"},
		{"not reachable", []string{"--from", "laptop", "--to", "i-1:22"}, false, 1, "because: NO_ROUTE_TO_DESTINATION", "account=&from=laptop&port=22&protocol=tcp&region=us-east-1&to=i-1"},
		{"IPv6", []string{"--from", "i-1", "--to", "[2001:db8::1]:22"}, true, 0, "reachable", "account=&from=i-1&port=22&protocol=tcp&region=us-east-1&to=2001%3Adb8%3A%3A1"},
		{"without a port", []string{"--from", "i-1", "--to", "i-2", "--protocol", "icmp"}, true, 0, "reachable", "account=&from=i-1&port=&protocol=icmp&region=us-east-1&to=i-2"},
		{"json", []string{"--from", "i-1", "--to", "i-2:22", "-o", "json"}, false, 1, `"reachable": false`, "account=&from=i-1&port=22&protocol=tcp&region=us-east-1&to=i-2"},
		{"an endpoint", []string{"--from", "laptop", "--to", "https://127.0.0.1:27001"}, true, 0, "reachable", "account=&from=laptop&port=27001&protocol=tcp&region=us-east-1&to=127.0.0.1"},
		{"an endpoint of AWS", []string{"--from", "i-1", "--to", "https://x.gr7.us-east-1.eks.amazonaws.com"}, true, 0, "reachable", "account=&from=i-1&port=443&protocol=tcp&region=us-east-1&to=x.gr7.us-east-1.eks.amazonaws.com"},
		{"dot", []string{"--from", "i-1", "--to", "i-2:22", "-o", "dot"}, true, 0, "digraph", "account=&from=i-1&port=22&protocol=tcp&region=us-east-1&to=i-2"},
		{"a port is missing", []string{"--from", "i-1", "--to", "i-2"}, true, 2, "has no port", ""},
		{"a source is missing", []string{"--to", "i-2:22"}, true, 2, "--from is missing", ""},
		{"an output nobody knows", []string{"--from", "i-1", "--to", "i-2:22", "-o", "svg"}, true, 2, "not text, json or dot", ""},
		{"an account that is none", []string{"--from", "i-1", "--to", "i-2:22", "--account", "1"}, true, 2, "12-digit", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("AWS_REGION", "")
			t.Setenv("AWS_DEFAULT_REGION", "")
			asked, reachable = "", tt.reachable
			code, stdout, stderr := run(t, dir, append([]string{"why", "reach"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stdout+stderr, tt.out) || asked != tt.asked {
				t.Errorf("exit code %d, asked %q\n%s%s", code, asked, stdout, stderr)
			}
		})
	}
}

// What is printed for another account says by which credentials it runs, and --apply has them.
func TestWhyReachAppliesForAnotherAccount(t *testing.T) {
	mended := filepath.Join(t.TempDir(), "mended")
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_drydock/why/reach" {
			return
		}
		_, err := os.Stat(mended)
		e := api.ReachExplanation{Verdict: reach.Verdict{Reachable: err == nil}}
		if err != nil {
			e.Fixes = []advice.Fix{{Proven: true, Commands: []string{"test $AWS_ACCESS_KEY_ID-$AWS_PROFILE = 111122223333-", "touch " + mended}}}
		}
		_ = json.NewEncoder(w).Encode(e)
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "444455556666")
	t.Setenv("AWS_PROFILE", "mine")
	args := []string{"why", "reach", "--from", "i-1", "--to", "i-2:22", "--account", "111122223333"}
	if code, _, stderr := run(t, dir, args...); code != 1 || !strings.Contains(stderr, "export AWS_ACCESS_KEY_ID=111122223333") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, stdout, stderr := run(t, dir, append(args, "--apply", "--yes")...); code != 0 {
		t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
	}
}

// --apply runs what is printed, after an answer, and waits until it has helped.
func TestWhyReachApplies(t *testing.T) {
	mended := filepath.Join(t.TempDir(), "mended")
	commands := []string{"true"}
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_drydock/why/reach" {
			return
		}
		_, err := os.Stat(mended)
		e := api.ReachExplanation{Verdict: reach.Verdict{Reachable: err == nil}}
		if err != nil {
			e.Explanations = []reach.Explanation{{Code: reach.CodeNoRoute, Text: "rtb-1 has no route"}}
			e.Fixes = []advice.Fix{{Proven: true, Commands: commands}}
		}
		_ = json.NewEncoder(w).Encode(e)
	})
	touch := []string{"test -n \"$AWS_ENDPOINT_URL\"", "FILE=" + mended, "touch $FILE"}
	for _, tt := range []struct {
		name, in string
		commands []string
		args     []string
		code     int
		out      string
	}{
		{"no", "n\n", touch, nil, 1, "nothing was run"},
		{"no answer", "", touch, nil, 1, "nothing was run"},
		{"a failure", "", []string{"exit 3", "touch " + mended}, []string{"--yes"}, 1, "the fix failed"},
		{"it does not help", "", []string{"true"}, []string{"--yes", "--timeout", "1ms"}, 1, "not within 1ms: rtb-1 has no route"},
		{"yes", "y\n", touch, nil, 0, "It has helped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			commands = tt.commands
			var out bytes.Buffer
			code := Run(t.Context(), append([]string{"--data-dir", dir, "why", "reach", "--from", "i-1", "--to", "i-2:22", "--apply"}, tt.args...), Streams{In: strings.NewReader(tt.in), Out: &out, Err: &out}, Config{})
			if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(out.String(), tt.commands[0]) {
				t.Errorf("exit code %d:\n%s", code, out.String())
			}
		})
	}
}

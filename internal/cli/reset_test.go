package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
)

// Without --yes all accounts are emptied only if a person agrees.
func TestResetAsks(t *testing.T) {
	var emptied []string
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/_drydock/status":
			_ = json.NewEncoder(w).Encode(api.Status{Nodes: 3, Clusters: make([]api.ClusterStatus, 2)})
		case "/_drydock/reset":
			emptied = append(emptied, r.Method+" "+r.URL.Query().Get("account"))
			_, _ = w.Write([]byte("{}"))
		}
	})
	for _, tt := range []struct {
		args, answer string
		person       bool
		code         int
		want         string
		empties      bool
	}{
		{"reset", "", false, 2, "Try: drydock reset --all --yes --data-dir " + dir, false},
		{"reset --yes", "y\n", false, 2, "Try: drydock reset --all --yes", false},
		{"reset", "y\n", true, 0, "2 clusters, 3 instances and all other resources.\nDelete it? [y/N] All accounts are empty.", true},
		{"reset --all", "\n", true, 1, "nothing was deleted", false},
		{"reset --all", "", true, 1, "nothing was deleted", false},
		{"reset --all --yes", "", false, 0, "All accounts are empty.", true},
		{"reset --account 111122223333", "", false, 0, "Account 111122223333 is empty.", true},
		{"reset --all --account 111122223333", "", false, 2, "cannot be used together", false},
	} {
		t.Run(tt.args+tt.answer, func(t *testing.T) {
			emptied = nil
			var errs bytes.Buffer
			code := Run(t.Context(), append([]string{"--data-dir", dir}, strings.Fields(tt.args)...), Streams{
				In: strings.NewReader(tt.answer), Out: &errs, Err: &errs, Interactive: func() bool { return tt.person },
			}, Config{})
			if code != tt.code || !strings.Contains(errs.String(), tt.want) || tt.empties != (len(emptied) == 1) {
				t.Errorf("exit code %d, want %d; emptied %q\n%s", code, tt.code, emptied, errs.String())
			}
		})
	}
}

package awscli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// This machine's AWS CLI makes the same calls and prints the same. It takes a second per command, so only a part of
// the table is used.
func TestCommandsAreConfirmed(t *testing.T) {
	path, err := exec.LookPath("aws")
	if err != nil {
		needs.Missing(t, "there is no AWS CLI here to compare with")
	}
	if testing.Short() {
		t.Skip("starts the AWS CLI again and again")
	}
	for _, tc := range table {
		if !slices.Contains([]string{"filters", "a flag", "ssm", "shorthand", "a map", "nothing found"}, tc.name) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			var calls []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				b, _ := io.ReadAll(req.Body)
				calls = append(calls, canonical(req, string(b)))
				_, _ = io.WriteString(w, tc.answer)
			}))
			defer server.Close()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("%s %s --endpoint-url %s", path, tc.command, server.URL))
			cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=AKID", "AWS_SECRET_ACCESS_KEY=s", "AWS_DEFAULT_REGION=eu-west-1", "AWS_EC2_METADATA_DISABLED=true",
				"HOME="+t.TempDir(), "AWS_CONFIG_FILE=/dev/null", "TZ=UTC")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// Version 1, which may be the one installed here, prints times unchanged.
			got := strings.ReplaceAll(string(out), "05.000Z", "05+00:00")
			var a, b any
			if json.Unmarshal(out, &a) == nil && json.Unmarshal([]byte(tc.want), &b) == nil {
				if diff := cmp.Diff(b, a); diff != "" {
					t.Error(diff)
				}
			} else if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{tc.call}, calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
)

// Shells complete the names that the daemon knows; what it does not
// know is said without how it was asked.
func TestNames(t *testing.T) {
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/_drydock/nodes":
			_ = json.NewEncoder(w).Encode([]string{"i-1", "ip-10-0-0-1.ec2.internal", r.URL.Query().Get("account") + "@" + r.URL.Query().Get("region")})
		case "/_drydock/stacks":
			_ = json.NewEncoder(w).Encode([]string{"shop", "bank"})
		case "/_drydock/pods":
			names := []string{"default/web", "default/web-7c5ddbdf54-9x2lq", "shop/cart"}
			if !r.URL.Query().Has("running") {
				names = append(names, r.URL.Query().Get("cluster")+"/pending")
			}
			_ = json.NewEncoder(w).Encode(names)
		case "/_drydock/status":
			_ = json.NewEncoder(w).Encode(api.Status{Clusters: []api.ClusterStatus{
				{Account: "000000000000", Region: "us-east-1", Name: "dev"}, {Account: "111122223333", Region: "us-east-1", Name: "prod"}, {Account: "000000000000", Region: "eu-west-1", Name: "far"},
			}})
		case "/clusters/nope":
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"No cluster found for name: nope."}`))
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	for _, tt := range []struct {
		args string
		code int
		want string // all of standard output, or in standard error
	}{
		{"__complete why node ip-", 0, "ip-10-0-0-1.ec2.internal\n:4\n"},
		{"__complete why node --account 111122223333 --region eu-west-1 111", 0, "111122223333@eu-west-1\n:4\n"},
		{"__complete why stack s", 0, "shop\n:4\n"},
		{"__complete why node i-1 i", 0, ":4\n"},
		{"__complete why pod default/web", 0, "default/web\ndefault/web-7c5ddbdf54-9x2lq\n:4\n"},
		{"__complete why pod w", 0, "web\nweb-7c5ddbdf54-9x2lq\n:4\n"},
		{"__complete why pod --cluster dev --namespace dev p", 0, "pending\n:4\n"},
		{"__complete run --cluster dev --pod s", 0, "shop/cart\n:4\n"},
		{"__complete run --cluster dev --pod d", 0, "default/web\ndefault/web-7c5ddbdf54-9x2lq\n:4\n"},
		{"__complete kubeconfig p", 0, "prod\n:4\n"},
		{"__complete why cluster --region eu-west-1 f", 0, "far\n:4\n"},
		{"__complete why cluster --account 000000000000 p", 0, ":4\n"},
		{"kubeconfig nope", 1, "drydock: there is no cluster nope in us-east-1 of this account\nTry: drydock status --data-dir " + dir + "\n"},
		{"why cluster dev", 2, "answered 502 Bad Gateway\nTry: drydock status --data-dir " + dir + "\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := run(t, dir, strings.Fields(tt.args)...)
			if code != tt.code || code == 0 && stdout != tt.want || code != 0 && !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

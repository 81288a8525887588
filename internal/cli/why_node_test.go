package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
)

// brokenNode is kept out by its security group.
func brokenNode(id string) api.NodeExplanation {
	return api.NodeExplanation{Instance: id, State: "running", Steps: []api.Step{{Name: "endpoint", State: api.StepFailed, Reason: &api.Reason{By: "network", Code: "SG_HAS_NO_RULES"}}}}
}

func readyNode(id string) api.NodeExplanation {
	return api.NodeExplanation{Instance: id, State: "running", Ready: true, Steps: []api.Step{{Name: "ready", State: api.StepOK}}}
}

// brokenStack returns a stack that was rolled back, or a healthy one if its name is well.
func brokenStack(name string) api.StackExplanation {
	if name == "well" {
		return api.StackExplanation{Stack: name, Region: "us-east-1", Status: "CREATE_COMPLETE", Healthy: true, Steps: []api.Step{{Name: "Name", State: api.StepOK}}}
	}
	return api.StackExplanation{
		Stack: name, Region: "us-east-1", Status: "ROLLBACK_COMPLETE", Steps: []api.Step{{Name: "Name", State: api.StepFailed}},
		Failures: []api.StackFailure{{LogicalID: "Name"}},
	}
}

// The commands ask the daemon, show its answer and exit with it.
func TestWhyNode(t *testing.T) {
	var asked string
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		switch name := r.URL.Query().Get("name"); r.URL.Path {
		case "/_drydock/why/node":
			asked = r.URL.Query().Encode()
			switch name {
			case "i-1":
				_ = json.NewEncoder(w).Encode(brokenNode(name))
			case "i-2":
				_ = json.NewEncoder(w).Encode(readyNode(name))
			default:
				http.Error(w, "no instance or node "+name+" is known in us-east-1", http.StatusNotFound)
			}
		case "/_drydock/why/pod":
			asked = r.URL.Query().Encode()
			_ = json.NewEncoder(w).Encode(api.PodExplanation{Namespace: "shop", Pod: name, Cluster: "dev", Phase: "Pending"})
		case "/_drydock/why/stack":
			asked = r.URL.Query().Encode()
			if name == "none" {
				http.Error(w, "no stack none is in us-east-1; a deleted stack is known by its ARN", http.StatusNotFound)
				return
			}
			_ = json.NewEncoder(w).Encode(brokenStack(name))
		case "/_drydock/why/session":
			asked = r.URL.Query().Encode()
			_ = json.NewEncoder(w).Encode(api.SessionExplanation{Instance: name, Open: name == "i-2", Steps: []api.Step{{Name: "role", State: map[bool]string{true: api.StepOK, false: api.StepFailed}[name == "i-2"]}}})
		case "/_drydock/why/nodes":
			asked = r.URL.Query().Encode()
			_ = json.NewEncoder(w).Encode(api.NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []api.NodeExplanation{readyNode("i-2"), brokenNode("i-1")}})
		}
	})
	for _, tt := range []struct {
		name  string
		args  []string
		code  int
		out   string // in either stream
		asked string
	}{
		{"refused", []string{"node", "i-1"}, 1, "✘ endpoint", "account=&name=i-1&region=us-east-1"},
		{"ready", []string{"node", "i-2"}, 0, "Ready.", "account=&name=i-2&region=us-east-1"},
		{"watched until it is Ready", []string{"node", "i-2", "--watch"}, 0, "Ready.", "account=&name=i-2&region=us-east-1"},
		{"not known", []string{"node", "i-3"}, 2, "drydock: no instance or node i-3 is known in us-east-1\nTry: aws ec2 describe-instances --region us-east-1", "account=&name=i-3&region=us-east-1"},
		{"json", []string{"node", "i-1", "-o", "json"}, 1, `"code": "SG_HAS_NO_RULES"`, "account=&name=i-1&region=us-east-1"},
		{"no account", []string{"node", "i-1", "--account", "1"}, 2, "12-digit", ""},
		{"no output", []string{"node", "i-1", "-o", "dot"}, 2, "neither text nor json", ""},
		{"a node group", []string{"nodegroup", "ng", "--cluster", "dev"}, 1, "1 of 2 nodes Ready", "account=&cluster=dev&nodegroup=ng&region=us-east-1"},
		{"a node group of the only cluster", []string{"nodegroup", "ng"}, 1, "1 of 2 nodes Ready", "account=&cluster=&nodegroup=ng&region=us-east-1"},
		{"the only cluster", []string{"cluster"}, 1, "1 of 2 nodes Ready", "account=&cluster=&nodegroup=&region=us-east-1"},
		{"a cluster", []string{"cluster", "dev", "--account", "111122223333"}, 1, "cluster dev is ACTIVE: 1 of 2", "account=111122223333&cluster=dev&nodegroup=&region=us-east-1"},
		{"a pod of an account's key", []string{"pod", "shop/web"}, 1, "Pending", "account=111122223333&cluster=&name=web&namespace=shop&region=us-east-1"},
		{"a pod", []string{"pod", "shop/web"}, 1, "Pending: still in progress.", "account=&cluster=&name=web&namespace=shop&region=us-east-1"},
		{"a pod by its namespace", []string{"pod", "web", "-n", "shop", "--cluster", "dev", "-o", "json"}, 1, `"phase": "Pending"`, "account=&cluster=dev&name=web&namespace=shop&region=us-east-1"},
		{"a pod of the default namespace", []string{"pod", "web"}, 1, "Pending", "account=&cluster=&name=web&namespace=default&region=us-east-1"},
		{"a stack", []string{"stack", "shop"}, 1, "ROLLBACK_COMPLETE. First failed: Name.", "account=&name=shop&region=us-east-1"},
		{"a healthy stack", []string{"stack", "well"}, 0, "CREATE_COMPLETE.", "account=&name=well&region=us-east-1"},
		{"a stack as data", []string{"stack", "shop", "-o", "json"}, 1, `"logicalId": "Name"`, "account=&name=shop&region=us-east-1"},
		{"no session", []string{"session", "i-1"}, 1, "No session: role fails.", "account=&by=ssm&document=&from=&key=test&name=i-1&region=us-east-1&token=&user=ec2-user"},
		{"a session", []string{"session", "i-2", "--document", "mine"}, 0, "A session can be started.", "account=&by=ssm&document=mine&from=&key=test&name=i-2&region=us-east-1&token=&user=ec2-user"},
		{"a session of another account", []string{"session", "i-1", "--account", "111122223333", "-o", "json"}, 1, `"open": false`, "account=111122223333&by=ssm&document=&from=&key=111122223333&name=i-1&region=us-east-1&token=&user=ec2-user"},
		{"a session with an account's key", []string{"session", "i-1"}, 1, "No session: role fails.", "account=111122223333&by=ssm&document=&from=&key=111122223333&name=i-1&region=us-east-1&token=&user=ec2-user"},
		{"no way", []string{"session", "i-1", "--by", "telnet"}, 2, "--by \"telnet\" is not ssm, eic or ssh", ""},
		{"no such stack", []string{"stack", "none"}, 2, "drydock: no stack none is in us-east-1; a deleted stack is known by its ARN\nTry: aws cloudformation list-stacks --region us-east-1", "account=&name=none&region=us-east-1"},
		{"a pod of two namespaces", []string{"pod", "shop/web", "-n", "bank"}, 2, "name different namespaces", ""},
		{"no pod's name", []string{"pod", "a/b/c"}, 2, "is not [NAMESPACE/]NAME", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("AWS_REGION", "")
			t.Setenv("AWS_ACCESS_KEY_ID", "test")
			if strings.HasSuffix(tt.name, "an account's key") {
				t.Setenv("AWS_ACCESS_KEY_ID", "111122223333")
			}
			t.Setenv("AWS_DEFAULT_REGION", "")
			asked = ""
			code, stdout, stderr := run(t, dir, append([]string{"why"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stdout+stderr, tt.out) || asked != tt.asked {
				t.Errorf("exit code %d, asked %q\n%s%s", code, asked, stdout, stderr)
			}
		})
	}
}

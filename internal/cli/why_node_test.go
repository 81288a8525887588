package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// brokenNode is kept out by its security group.
func brokenNode(id string) NodeExplanation {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return NodeExplanation{
		Instance: id, Account: "000000000000", Region: "us-east-1", State: "running", Phase: "Joining", Cluster: "dev", Role: "arn:aws:iam::000000000000:role/node",
		Problem: "dial tcp 99.77.1.2:443: i/o timeout",
		Steps: []Step{
			{Name: "boot", State: StepOK, Evidence: "m5.large, ami-1", Time: at},
			{Name: "version", State: StepWarning, Evidence: "kubelet 1.34.4, control plane 1.33", Time: at, Reason: &Reason{By: "Kubernetes", Code: "VersionSkew", Component: "kubelet 1.34.4", Text: "kubelet 1.34.4 is newer than the control plane"}},
			{Name: "endpoint", State: StepFailed, Evidence: "dial tcp 99.77.1.2:443: i/o timeout\nsecond line", Time: at, Reason: &Reason{
				By: "network", Code: "SG_HAS_NO_RULES", Component: "sg-1", Text: "sg-1 has no rules",
				Fixes: []string{"aws ec2 authorize-security-group-egress --group-id sg-1", "aws ec2 create-vpc-endpoint"},
			}},
			{Name: "identity", State: StepPending},
		},
		Notes: []string{"the instance has no tag kubernetes.io/cluster/dev"},
	}
}

func readyNode(id string) NodeExplanation {
	return NodeExplanation{Instance: id, Region: "us-east-1", State: "running", Cluster: "dev", Node: "ip-10-0-0-1.ec2.internal", Ready: true, Steps: []Step{{Name: "ready", State: StepOK}}}
}

// signalledNode could not tell CloudFormation how it fares, and goes on.
func signalledNode(n NodeExplanation) NodeExplanation {
	n.Steps = append([]Step{{Name: "script", State: StepFailed, Evidence: "part-001: exit status 1"}, {Name: "user-data", State: StepOK}}, n.Steps...)
	return n
}

// scriptlessNode has a script that ended before bootstrap.sh.
func scriptlessNode() NodeExplanation {
	n := brokenNode("i-7")
	n.Steps = []Step{{Name: "script", State: StepFailed, Evidence: "part-001: exit status 127"}, {Name: "user-data", State: StepFailed, Evidence: "no bootstrap.sh"}}
	return n
}

// The screens are golden: UPDATE=1 writes them anew.
func TestWhyNodeScreens(t *testing.T) {
	gone := readyNode("i-3")
	gone.State, gone.Ready = "terminated", false
	broken, ready := brokenNode("i-1"), readyNode("i-2")
	isolated := readyNode("i-2")
	isolated.Ready, isolated.OutOfTouch = false, true
	isolated.Steps = []Step{{Name: "endpoint", State: StepFailed, Evidence: "dial tcp 99.77.1.2:443: i/o timeout"}, {Name: "ready", State: StepWarning, Evidence: "node n1, before it was out of touch"}}
	for name, text := range map[string]string{
		"node_refused":    broken.Text(),
		"node_ready":      ready.Text(),
		"node_terminated": gone.Text(),
		"node_isolated":   isolated.Text(),
		"nodegroup": (&NodesExplanation{
			Cluster: "dev", Nodegroup: "ng", Status: "DEGRADED", Issues: []string{"NodeCreationFailure: Unhealthy nodes in the kubernetes cluster (i-1)"},
			Nodes: []NodeExplanation{brokenNode("i-1"), brokenNode("i-4"), brokenNode("i-5"), brokenNode("i-6"), readyNode("i-2")},
		}).Text(),
		"cluster_signals": (&NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []NodeExplanation{signalledNode(readyNode("i-2")), signalledNode(brokenNode("i-1")), scriptlessNode()}}).Text(),
		"pod_waiting": (&PodExplanation{
			Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web-1", Node: "n1", Phase: "Pending",
			Steps: []Step{{Name: "node", State: StepOK, Evidence: "n1 is Ready"}, {Name: "configuration", State: StepFailed, Evidence: "Secret shop/s is missing", Reason: &Reason{
				By: "Kubernetes", Code: "NotFound", Component: "Secret shop/s", Text: "the pod names it\nand it does not exist", Fixes: []string{"kubectl create secret generic s"},
			}}, {Name: "running", State: StepPending}},
			Notes: []string{"it is being deleted since 12:00:00"},
		}).Text(),
		"pod_running":  (&PodExplanation{Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web-1", Phase: "Running", Running: true, Steps: []Step{{Name: "running", State: StepOK}}}).Text(),
		"pod_refused":  (&PodExplanation{Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web", Steps: []Step{{Name: "admission", State: StepFailed, Evidence: "exceeded quota: q"}}}).Text(),
		"pod_identity": (&PodExplanation{Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web", Phase: "Running", Running: true, Steps: []Step{{Name: "identity", State: StepFailed, Evidence: "AccessDenied"}}}).Text(),
		"cluster":      (&NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []NodeExplanation{readyNode("i-2")}}).Text(),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "why", name+".golden")
			if os.Getenv("UPDATE") == "1" {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The commands ask the daemon, show its answer and exit with it.
func TestWhyNode(t *testing.T) {
	var asked string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := r.URL.Query().Get("name"); r.URL.Path {
		case "/_drydock/ping":
			_ = json.NewEncoder(w).Encode(Ping{PID: os.Getpid()})
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
			_ = json.NewEncoder(w).Encode(PodExplanation{Namespace: "shop", Pod: name, Cluster: "dev", Phase: "Pending"})
		case "/_drydock/why/nodes":
			asked = r.URL.Query().Encode()
			_ = json.NewEncoder(w).Encode(NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []NodeExplanation{readyNode("i-2"), brokenNode("i-1")}})
		}
	}))
	defer daemon.Close()
	dir := t.TempDir()
	record, err := json.Marshal(DaemonInfo{PID: os.Getpid(), URL: daemon.URL, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(infoFile(dir), record, 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"a pod", []string{"pod", "shop/web"}, 1, "Pending: it is on its way.", "account=&cluster=&name=web&namespace=shop&region=us-east-1"},
		{"a pod by its namespace", []string{"pod", "web", "-n", "shop", "--cluster", "dev", "-o", "json"}, 1, `"phase": "Pending"`, "account=&cluster=dev&name=web&namespace=shop&region=us-east-1"},
		{"a pod of the default namespace", []string{"pod", "web"}, 1, "Pending", "account=&cluster=&name=web&namespace=default&region=us-east-1"},
		{"a pod of two namespaces", []string{"pod", "shop/web", "-n", "bank"}, 2, "are of two namespaces", ""},
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

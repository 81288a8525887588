package api

import (
	"github.com/drydock-dev/drydock/internal/advice"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// brokenNode is kept out by its security group.
func brokenNode(id string) NodeExplanation {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return NodeExplanation{
		Instance: id, Account: "000000000000", Region: "us-east-1", State: "running", Phase: "Joining", Cluster: "dev", Role: "arn:aws:iam::000000000000:role/node",
		Problem: "dial tcp 99.77.1.2:443: i/o timeout", NextTry: at,
		Steps: []Step{
			{Name: "boot", State: StepOK, Evidence: "m5.large, ami-1", Time: at},
			{Name: "version", State: StepWarning, Evidence: "kubelet 1.34.4, control plane 1.33", Time: at, Reason: &Reason{By: "Kubernetes", Code: "VersionSkew", Component: "kubelet 1.34.4", Text: "kubelet 1.34.4 is newer than the control plane"}},
			{Name: "endpoint", State: StepFailed, Evidence: "dial tcp 99.77.1.2:443: i/o timeout\nsecond line", Time: at, Reason: &Reason{
				By: "network", Code: "SG_HAS_NO_RULES", Component: "sg-1", Text: "sg-1 has no rules",
				Fixes: []advice.Fix{{Proven: true, Commands: []string{"aws ec2 authorize-security-group-egress --group-id sg-1"}}, {Proven: true, Commands: []string{"aws ec2 create-vpc-endpoint"}}},
			}},
			{Name: "identity", State: StepPending},
		},
		Notes: []string{"the instance has no tag kubernetes.io/cluster/dev"},
	}
}

func readyNode(id string) NodeExplanation {
	return NodeExplanation{Instance: id, Region: "us-east-1", State: "running", Cluster: "dev", Node: "ip-10-0-0-1.ec2.internal", Ready: true, Steps: []Step{{Name: "ready", State: StepOK}}}
}

// signalledNode could not signal CloudFormation, and continues.
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

func ofFargate(n NodeExplanation) NodeExplanation {
	n.Fargate = true
	return n
}

// A node that is not where it should be says when it tries again.
func TestNextTry(t *testing.T) {
	n := brokenNode("i-1")
	for want, at := range map[string]time.Time{
		"Not Ready: endpoint fails. The node is trying again now.":          time.Now().Add(-time.Second),
		"Not Ready: endpoint fails. The node tries again in 30m0s.":         time.Now().Add(30*time.Minute + 400*time.Millisecond),
		"Not Ready: endpoint fails. The node does not try again by itself.": {},
	} {
		n.NextTry = at
		if got := n.Verdict(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	n.State = "terminated"
	if got := n.Verdict(); got != "The instance is terminated." {
		t.Errorf("%q", got)
	}
}

// The texts are golden files; UPDATE=1 rewrites them.
func TestWhyNodeScreens(t *testing.T) {
	gone := readyNode("i-3")
	gone.State, gone.Ready = "terminated", false
	broken, ready := brokenNode("i-1"), readyNode("i-2")
	isolated := readyNode("i-2")
	isolated.Ready, isolated.OutOfTouch = false, true
	isolated.Steps = []Step{{Name: "endpoint", State: StepFailed, Evidence: "dial tcp 99.77.1.2:443: i/o timeout"}, {Name: "ready", State: StepWarning, Evidence: "node n1, before it lost contact"}}
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
				By: "Kubernetes", Code: "NotFound", Component: "Secret shop/s", Text: "the pod names it\nand it does not exist", Fixes: []advice.Fix{{Proven: true, Commands: []string{"kubectl create secret generic s"}}},
			}}, {Name: "running", State: StepPending}},
			Notes: []string{"it is being deleted since 12:00:00"},
		}).Text(),
		"pod_running":  (&PodExplanation{Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web-1", Phase: "Running", Running: true, Steps: []Step{{Name: "running", State: StepOK}}}).Text(),
		"pod_refused":  (&PodExplanation{Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web", Steps: []Step{{Name: "admission", State: StepFailed, Evidence: "exceeded quota: q"}}}).Text(),
		"pod_identity": (&PodExplanation{Cluster: "dev", Region: "us-east-1", Namespace: "shop", Pod: "web", Phase: "Running", Running: true, Steps: []Step{{Name: "identity", State: StepFailed, Evidence: "AccessDenied"}}}).Text(),
		"cluster":      (&NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []NodeExplanation{readyNode("i-2")}}).Text(),
		"cluster_reached": (&NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []NodeExplanation{readyNode("i-2"), ofFargate(readyNode("eni-1"))}, Endpoint: &EndpointAccess{
			Host: "A.gr7.us-east-1.eks.amazonaws.com", Public: true, PublicCIDRs: []string{"203.0.113.0/24"}, ClientAddress: "203.0.113.10", Addresses: []string{"99.77.1.2"}, Reachable: true,
		}}).Text(),
		"cluster_private": (&NodesExplanation{Cluster: "dev", Status: "ACTIVE", Nodes: []NodeExplanation{}, Endpoint: &EndpointAccess{
			Host: "A.gr7.us-east-1.eks.amazonaws.com", Private: true, ClientAddress: "203.0.113.10", Addresses: []string{"10.0.1.5", "10.0.2.5"},
		}}).Text(),
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

package simulated_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/node"
)

// The journal has what a real kubelet logs, also after boot. The kubelet's files are those that nodeadm writes, and a
// restarted kubelet reads them again.
func TestKubeletsStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.restartWithShell()
		in := b.instance()
		b.dialErr = &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.9:443")), Err: os.ErrDeadlineExceeded}
		b.launch(in)
		after(10 * time.Second)
		b.mu.Lock()
		b.dialErr = nil
		b.mu.Unlock()
		after(30 * time.Second)
		m, ok := b.rt.Machine(in.ID)
		if !ok {
			t.Fatal("the machine is not on")
		}
		sh := func(script string) string {
			t.Helper()
			out, _ := run(t, m, script)
			return out
		}
		logged := func(want ...string) {
			t.Helper()
			log := sh("journalctl -u kubelet -o cat")
			for _, w := range want {
				if !strings.Contains(log, w) {
					t.Errorf("the kubelet's journal lacks %s:\n%s", w, log)
				}
			}
		}
		logged(`"Attempting to register node" node="`+nodeName+`"`,
			`kubelet_node_status.go:108] "Unable to register node with API server" err="Post \"https://`+endpointHost+`/api/v1/nodes\": dial tcp 10.0.0.9:443: i/o timeout" node="`+nodeName+`"`,
			`"Successfully registered node"`, `] "Fast updating node status as it just became ready"`,
			`NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized`)
		for script, want := range map[string]string{
			"crictl ps | awk 'NR>1{print $(NF-4), $NF}'":                         "aws-node kube-system\n",
			"crictl images | awk 'NR>1{print $2}'":                               "v1.20.4-eksbuild.2\n",
			"ctr -n k8s.io c ls | grep -c amazon-k8s-cni":                        "1\n",
			"ctr -n default c ls | wc -l; ctr --namespace=k8s.io c ls | wc -l":   "1\n2\n",
			"ss -ltnp | grep -c '127.0.0.1:10248.*\"kubelet\"'":                  "1\n",
			"systemctl is-active kubelet":                                        "active\n",
			"jq -r .providerID /etc/kubernetes/kubelet/config.json":              "aws:///us-east-1a/i-0123456789abcdef0\n",
			"grep -c node-labels=eks.amazonaws.com /etc/eks/kubelet/environment": "1\n",
			"grep server: /var/lib/kubelet/kubeconfig":                           "      server: https://" + endpointHost + "\n",
		} {
			if out := sh(script); out != want {
				t.Errorf("%s: %q, want %q", script, out, want)
			}
		}

		b.api.refusing(func(string, string) *apierrors.StatusError { return apierrors.NewUnauthorized("Unauthorized") })
		after(time.Minute)
		logged(`controller.go:195] "Failed to update lease" err="Unauthorized"`)
		b.api.endWatches(nil)
		after(10 * time.Second)
		logged(`"Failed to watch" err="failed to list *v1.Pod: Unauthorized"`)
		b.api.refusing(nil)
		after(time.Minute)

		sh("systemctl stop kubelet")
		after(10 * time.Second)
		if got := b.info(); got.Phase != node.PhaseRunning || got.Problem != "kubelet.service is not running on the instance" || sh("systemctl is-active kubelet") != "inactive\n" {
			t.Errorf("after systemctl stop kubelet: %+v", got)
		}
		sh(`sed -i 's/"dev"/"other"/' /var/lib/kubelet/kubeconfig && systemctl start kubelet`)
		after(10 * time.Second)
		if got := b.info(); got.Cluster != "other" {
			t.Errorf("the kubelet's tokens are for %q", got.Cluster)
		}
		sh("mv /var/lib/kubelet/kubeconfig /root/kubeconfig; systemctl restart kubelet")
		after(10 * time.Second)
		logged(`run.go:72] "command failed" err="failed to run Kubelet: invalid kubeconfig: stat /var/lib/kubelet/kubeconfig: no such file or directory"`)
		if out := sh("systemctl is-active kubelet"); out != "activating\n" {
			t.Errorf("the kubelet is %s", out)
		}

		// Without its configuration, or with one that is broken, it fails, and systemd restarts it until it is fixed.
		const config = "/etc/kubernetes/kubelet/config.json"
		sh("cp " + config + " /root/config.json")
		sh("cp /root/kubeconfig /var/lib/kubelet/kubeconfig; rm " + config + "; systemctl restart kubelet")
		after(17 * time.Second)
		logged(`run.go:72] "command failed" err="failed to load kubelet config file, path: `+config+`, error: failed to load Kubelet config file `+config+`, error failed to read kubelet config file \"`+config+`\", error: open `+config+`: no such file or directory"`,
			"kubelet.service: Main process exited, code=exited, status=1/FAILURE\nkubelet.service: Failed with result 'exit-code'.\nkubelet.service: Scheduled restart job, restart counter is at 1.\nStopped kubelet.service - Kubernetes Kubelet.\nStarted kubelet.service - Kubernetes Kubelet.\n",
			"restart counter is at 3.")
		if got := b.info(); !strings.Contains(got.Problem, "failed to load kubelet config file") {
			t.Errorf("%+v", got)
		}
		sh("echo '{\"kind\": ' > " + config)
		after(10 * time.Second)
		logged(`error failed to decode: couldn't get version/kind; json parse error: unexpected end of JSON input"`)
		sh(": > " + config)
		after(10 * time.Second)
		logged(`error kubelet config file \"` + config + `\" was empty"`)
		sh("cp /root/config.json " + config)
		after(20 * time.Second)
		if out := sh("systemctl is-active kubelet"); out != "active\n" || b.info().Phase == node.PhaseRunning {
			t.Errorf("the kubelet is %s: %+v", out, b.info())
		}

		// The unit's environment names another file.
		sh("sed -i 's#--config=[^ ]*#--config=/etc/mine.json#' /etc/eks/kubelet/environment; systemctl restart kubelet")
		after(10 * time.Second)
		logged(`failed to load kubelet config file, path: /etc/mine.json`)
		if log := sh("journalctl -u kubelet -o cat | tail -n 20"); !strings.Contains(log, "restart counter is at 1.") {
			t.Errorf("the counter does not start again: %s", log)
		}
	})
}

// A kubelet logs why it cannot register now, and nothing of an earlier try.
func TestKubeletForgetsOldErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.restartWithShell()
		in := b.instance()
		nodes := schema.GroupResource{Resource: "nodes"}
		b.api.refusing(func(_, path string) *apierrors.StatusError {
			if strings.HasPrefix(path, "/api/v1/nodes") {
				return apierrors.NewForbidden(nodes, nodeName, errors.New("no"))
			}
			return nil
		})
		b.launch(in)
		after(20 * time.Second)
		last := func() string {
			t.Helper()
			m, ok := b.rt.Machine(in.ID)
			if !ok {
				t.Fatal("the machine is not on")
			}
			out, _ := run(t, m, "journalctl -u kubelet -o cat | grep 'Unable to register' | tail -n 1")
			return out
		}
		if got := last(); !strings.Contains(got, `"Unable to register node with API server, error getting existing node"`) {
			t.Errorf("of a forbidden node: %s", got)
		}
		b.api.refusing(func(method, path string) *apierrors.StatusError {
			if !strings.HasPrefix(path, "/api/v1/nodes") {
				return nil
			}
			if method == http.MethodPost {
				return apierrors.NewAlreadyExists(nodes, nodeName)
			}
			return apierrors.NewForbidden(nodes, nodeName, errors.New("not yours"))
		})
		after(2 * time.Minute)
		if got := last(); !strings.Contains(got, `"Unable to register node with API server" err=`) || !strings.Contains(got, "not yours") {
			t.Errorf("of an existing node: %s", got)
		}
	})
}

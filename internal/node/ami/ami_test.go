package ami_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
)

// metadata serves what bootstrap.sh requests. Everything else does not exist.
type metadata map[string]string

func (m metadata) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := func(code int, body string) *http.Response {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}
	}
	if req.Method == http.MethodPut {
		return answer(200, "token"), nil
	}
	if text, ok := m[req.URL.Path]; ok && req.Header.Get("X-Aws-Ec2-Metadata-Token") == "token" {
		return answer(200, text), nil
	}
	return answer(404, ""), nil
}

type world struct {
	plain bool // an image without a kubelet
	ami.World
	*ami.Machine
	t         *testing.T
	describes int
}

func newWorld(t *testing.T, family images.Family, change ...func(*world)) *world {
	t.Helper()
	w := &world{t: t}
	w.World = ami.World{
		Clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Patience: 1,
		Metadata: metadata{
			"/latest/meta-data/mac": "0a:00:00:00:00:01",
			"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/vpc-ipv4-cidr-blocks": "10.0.0.0/16\n100.64.0.0/16",
			"/latest/meta-data/instance-id":               "i-0123456789abcdef0",
			"/latest/meta-data/block-device-mapping/":     "ami",
			"/latest/meta-data/block-device-mapping/ami":  "/dev/xvda",
			"/latest/meta-data/public-keys/":              "0=mine",
			"/latest/meta-data/public-keys/0/":            "openssh-key",
			"/latest/meta-data/public-keys/0/openssh-key": "ssh-ed25519 AAAA mine",
		},
		DescribeCluster: func(context.Context, string, string) (node.ClusterInfo, error) {
			w.describes++
			return node.ClusterInfo{}, errors.New("An error occurred (ResourceNotFoundException) when calling the DescribeCluster operation: No cluster found for name: dev.")
		},
	}
	for _, c := range change {
		c(w)
	}
	kubelet := "1.32.11"
	if w.plain {
		kubelet = ""
	}
	m, err := ami.New(machine.Instance{
		ID: "i-0123456789abcdef0", Region: "us-east-1", Type: instancetypes.Type{Name: "m5.large", VCPU: 2, MemoryMiB: 8192, ENIs: 3, IPv4PerENI: 10},
		Image:            images.Image{Architecture: "x86_64", Family: family, KubeletVersion: kubelet},
		AvailabilityZone: "us-east-1a", PrivateIP: netip.MustParseAddr("10.0.0.7"), PrivateDNSName: "ip-10-0-0-7.ec2.internal",
	}, w.World)
	if err != nil {
		t.Fatal(err)
	}
	w.Machine = m
	m.StartServices()
	return w
}

// run runs a script on the machine.
func (w *world) run(script string) (string, int) {
	w.t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	res, err := shell.Run(ctx, shell.Job{FS: w.FS, Script: []byte(script), Name: "s", Stdout: &out, Stderr: &out, Outside: w.Outside, Host: "ip-10-0-0-7.ec2.internal"})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.String(), res.Status
}

const stamp = "2026-01-02T03:04:05+0000 [eks-bootstrap] "

var authority = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n"))

func TestBootstrap(t *testing.T) {
	given := "--apiserver-endpoint https://X.gr7.us-east-1.eks.amazonaws.com --b64-cluster-ca " + authority
	for _, tc := range []struct {
		name, script string
		status       int
		want         string // the last line
	}{
		{"no name", "/etc/eks/bootstrap.sh", 1, stamp + "ERROR: cluster name is not defined!"},
		{"help", "/etc/eks/bootstrap.sh --help", 1, "Bootstraps an instance into an EKS cluster"},
		{"dockerd", "/etc/eks/bootstrap.sh dev --container-runtime dockerd", 1, stamp + "ERROR: containerd is the only supported container runtime as of Kubernetes version 1.24"},
		{"a family", "/etc/eks/bootstrap.sh dev --ip-family ipv5 " + given, 1, stamp + "ERROR: Invalid --ip-family. Only ipv4 or ipv6 are allowed"},
		{"IPv6 without a range", "/etc/eks/bootstrap.sh dev --ip-family ipv6 " + given, 1, stamp + "ERROR: One of --service-ipv6-cidr or --dns-cluster-ip must be provided when --ip-family is ipv6"},
		{"a bad CA", "/etc/eks/bootstrap.sh dev --apiserver-endpoint https://x --b64-cluster-ca %%%", 1, "Exited with error on line 375"},
		{"an unknown cluster", "/etc/eks/bootstrap.sh dev --aws-api-retry-attempts 0", 255, stamp + "ERROR: Exhausted retries while describing cluster!"},
		{"all given", "sudo /etc/eks/bootstrap.sh dev " + given, 0, stamp + "INFO: complete!"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, images.AL2)
			out, status := w.run(tc.script)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if status != tc.status || lines[len(lines)-1] != tc.want {
				t.Errorf("status %d\n%s", status, out)
			}
			if _, err := w.Kubelet(); (err == nil) != (tc.status == 0) {
				t.Errorf("the kubelet: %v", err)
			}
		})
	}
}

func TestKubeletConfiguration(t *testing.T) {
	w := newWorld(t, images.AL2)
	out, status := w.run(`set -e
/etc/eks/bootstrap.sh dev --apiserver-endpoint https://x.eks.amazonaws.com --b64-cluster-ca ` + authority + ` \
  --kubelet-extra-args '--node-labels=team=a,tier=b --register-with-taints=only=me:NoSchedule --max-pods=20' --use-max-pods false`)
	if status != 0 {
		t.Fatal(out)
	}
	cfg, err := w.Kubelet()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ClusterName != "dev" || cfg.Endpoint != "https://x.eks.amazonaws.com" || string(cfg.CA) != "-----BEGIN CERTIFICATE-----\n" || cfg.MaxPods != 20 ||
		cfg.Labels["team"] != "a" || len(cfg.Taints) != 1 || cfg.ClusterDNS[0] != "172.20.0.10" || cfg.NodeName != "ip-10-0-0-7.ec2.internal" {
		t.Errorf("%+v", cfg)
	}
	// The reservation of bootstrap.sh for 29 pods and two cores.
	if diff := cmp.Diff(map[string]string{"cpu": "70m", "memory": "574Mi", "ephemeral-storage": "1Gi"}, cfg.KubeReserved); diff != "" {
		t.Error(diff)
	}

	// What scripts write to the kubelet's files applies at its next start.
	select {
	case <-w.KubeletChanged():
	default:
		t.Error("starting the kubelet was not signalled")
	}
	if out, status := w.run(`sed -i 's/--max-pods=20/--max-pods=5/' /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf; sudo systemctl restart kubelet; systemctl is-active kubelet`); status != 0 || out != "active\n" {
		t.Errorf("%d %s", status, out)
	}
	if cfg, err := w.Kubelet(); err != nil || cfg.MaxPods != 5 {
		t.Errorf("%+v, %v", cfg, err)
	}
	select {
	case <-w.KubeletChanged():
	default:
		t.Error("restarting it was not signalled")
	}
	w.run(`echo nonsense > /var/lib/kubelet/kubeconfig; systemctl restart kubelet`)
	if _, err := w.Kubelet(); err == nil {
		t.Error("a kubelet starts without a kubeconfig")
	}
	if out, status := w.run("systemctl status kubelet; journalctl -u kubelet -n 1"); status != 0 || !strings.Contains(out, "activating (auto-restart)") || !strings.Contains(out, "invalid kubeconfig") {
		t.Errorf("%d %s", status, out)
	}
}

// A configuration that is valid JSON but not an object does not end the script or anything else.
func TestHostileKubeletConfiguration(t *testing.T) {
	for _, text := range []string{"null", "7", "[]", `"x"`, "{", ""} {
		w := newWorld(t, images.AL2)
		out, status := w.run("printf '%s' '" + text + "' > /etc/kubernetes/kubelet/kubelet-config.json; /etc/eks/bootstrap.sh dev --apiserver-endpoint https://x --b64-cluster-ca " + authority)
		if (status == 0) != (text == "null") {
			t.Errorf("%q: status %d\n%s", text, status, out)
		}
	}
}

// What is enabled starts at the next boot, from what the disk holds.
func TestAnotherBoot(t *testing.T) {
	w := newWorld(t, images.AL2)
	if out, status := w.run("/etc/eks/bootstrap.sh dev --apiserver-endpoint https://x --b64-cluster-ca " + authority); status != 0 {
		t.Fatal(out)
	}
	again := func() *world {
		n := newWorld(t, images.AL2)
		n.run("systemctl stop sshd chronyd") // the world has started them
		if err := n.FS.Restore(w.FS.Image()); err != nil {
			t.Fatal(err)
		}
		n.StartServices()
		return n
	}
	if cfg, err := again().Kubelet(); err != nil || cfg.ClusterName != "dev" {
		t.Errorf("%+v, %v", cfg, err)
	}
	w.run("systemctl disable kubelet")
	if _, err := again().Kubelet(); !errors.Is(err, ami.ErrNotStarted) {
		t.Errorf("disabled: %v", err)
	}
	w.run("systemctl disable sshd; systemctl mask chronyd")
	if n := again(); n.Active("sshd") || n.Active("chronyd") || !n.Active("amazon-ssm-agent") || !n.Active("systemd-journald") {
		t.Error("services that do not start at boot run, or others do not")
	}
	// Disks of older versions have no links.
	if err := errors.Join(w.FS.RemoveAll("/etc/systemd/system"), w.FS.MkdirAll("/etc/systemd/system", 0o755)); err != nil {
		t.Fatal(err)
	}
	if n := again(); !n.Active("sshd") || !n.Active("chronyd") {
		t.Error("the services of an older disk do not run")
	}
}

func TestDescribeClusterIsTriedAgain(t *testing.T) {
	w := newWorld(t, images.AL2)
	done := make(chan string)
	go func() {
		out, _ := w.run("/etc/eks/bootstrap.sh dev")
		done <- out
	}()
	clock := w.World.Clock.(*clocktesting.FakeClock)
	for {
		select {
		case out := <-done:
			if n := strings.Count(out, "ResourceNotFoundException"); n != 4 || w.describes != 4 || !strings.Contains(out, "Attempt 3 of 3") {
				t.Errorf("%d attempts\n%s", n, out)
			}
			return
		default:
			clock.Step(time.Minute)
		}
	}
}

func TestBootstrapIsGoneFromAL2023(t *testing.T) {
	w := newWorld(t, images.AL2023)
	out, status := w.run("/etc/eks/bootstrap.sh dev")
	if status != 1 || !strings.Contains(out, "ERROR: bootstrap.sh has been removed from AL2023-based EKS AMIs.") {
		t.Errorf("%d %s", status, out)
	}
	// If the user has replaced the script at that path, the user's script runs.
	out, status = w.run("printf '#!/bin/bash\\necho mine\\n' > /etc/eks/bootstrap.sh; /etc/eks/bootstrap.sh dev")
	if status != 0 || out != "mine\n" {
		t.Errorf("%d %s", status, out)
	}
}

func TestPrograms(t *testing.T) {
	refused := func(w *world) {
		w.HTTP = transport(func(req *http.Request) (*http.Response, error) {
			switch req.URL.Hostname() {
			case "nowhere.example":
				return nil, &net.DNSError{Err: "no such host", Name: "nowhere.example", IsNotFound: true}
			case "slow.example":
				return nil, context.DeadlineExceeded
			}
			return &http.Response{StatusCode: 503, Status: "503 Service Unavailable", Header: http.Header{}, Body: io.NopCloser(strings.NewReader("busy")), Request: req}, nil
		})
	}
	for _, tc := range []struct {
		name, script, want string
		status             int
	}{
		{"IMDS by token", `T=$(curl -sX PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" http://169.254.169.254/latest/api/token); curl -s -H "X-aws-ec2-metadata-token: $T" http://169.254.169.254/latest/meta-data/instance-id`, "i-0123456789abcdef0", 0},
		{"imds", "imds latest/meta-data/mac", "0a:00:00:00:00:01\n", 0},
		{"ec2-metadata", "ec2-metadata -iv; ec2-metadata --instance-id --quiet; ec2-metadata -b; ec2-metadata -u; ec2-metadata --none",
			"instance-id: i-0123456789abcdef0\npublic-ipv4: not available\ni-0123456789abcdef0\nblock-device-mapping: \n\t ami: /dev/xvda\npublic-keys: \nkeyname:mine\nindex:0\nformat:openssh-key\nkey:(begins from next line)\nssh-ed25519 AAAA mine\nec2-metadata: unrecognized option '--none'\nTerminating...\n", 1},
		{"folders", "set -e; for d in profile.d sysctl.d sysconfig security/limits.d modules-load.d yum.repos.d cron.d sudoers.d; do echo x > /etc/$d/x; done; echo x > /var/tmp/x; stat -c %a /var/tmp", "1777\n", 0},
		{"a name that is none", "curl -fsS https://nowhere.example/x", "curl: (6) Could not resolve host: nowhere.example\n", 6},
		{"silence", "curl -s https://nowhere.example/x", "", 6},
		{"a timeout", "curl https://slow.example/x", "curl: (28) Failed to connect to slow.example port 443: Connection timed out\n", 28},
		{"an error of HTTP", "curl -f https://busy.example/ -o /tmp/x; curl -s -w '%{http_code}' https://busy.example/", "curl: (22) The requested URL returned error: 503\nbusy503", 0},
		{"an option", "curl --none x", "curl: option --none: is unknown\ncurl: try 'curl --help' or 'curl --manual' for more information\n", 2},
		{"a file", "cd /tmp; curl -sO https://busy.example/a/f; cat f", "busy", 0},
		{"another protocol", "curl file:///etc/passwd", "curl: (3) URL using bad/illegal format or missing URL\n", 3},
		{"wget", "wget -qO- --header 'X-aws-ec2-metadata-token: token' http://169.254.169.254/latest/meta-data/mac; echo; cd /tmp; wget -q -O f --method PUT http://169.254.169.254/latest/api/token; cat f", "0a:00:00:00:00:01\ntoken", 0},
		{"wget without a way", "wget https://nowhere.example/x; echo $?; wget https://slow.example/x; echo $?; wget https://busy.example/x; echo $?; wget -q https://busy.example/x; echo $?; wget --none; echo $?; wget -q -O /none/x http://169.254.169.254/latest/api/token --method=PUT",
			"wget: unable to resolve host address ‘nowhere.example’\n4\nConnection timed out\n4\nERROR 503: Service Unavailable.\n8\n8\nwget: unrecognized option '--none'\nUsage: wget [OPTION]... [URL]...\n\nTry `wget --help' for more options.\n2\n/none/x: No such file or directory\n", 3},
		{"a unit that is none", "systemctl start nginx; systemctl status nginx", "Failed to start nginx.service: Unit nginx.service not found.\nUnit nginx.service could not be found.\n", 4},
		{"a unit of one's own", "touch /etc/systemd/system/mine.service; systemctl enable --now mine && systemctl is-active mine", "Created symlink from /etc/systemd/system/multi-user.target.wants/mine.service to /etc/systemd/system/mine.service.\nactive\n", 0},
		{"kubelet's version", "kubelet --version", "Kubernetes v1.32.11\n", 0},
		{"what is there", "systemctl is-active containerd sshd; journalctl -u kubelet; uname -r; nproc", "active\nactive\n-- No entries --\n5.10.240-238.959.amzn2.x86_64\n2\n", 0},
		{"cfn-signal", "cfn-signal --stack s; /opt/aws/bin/cfn-init -v", "Error: No WaitConditionHandle URL or logical resource id specified\nError: cfn-init is not supported on simulated nodes; cfn-signal and cfn-get-metadata are\n", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, status := newWorld(t, images.AL2, refused).run(tc.script)
			if diff := cmp.Diff(tc.want, out); diff != "" || status != tc.status {
				t.Errorf("status %d, want %d\n%s", status, tc.status, diff)
			}
		})
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// FuzzPrograms runs the image's programs with arbitrary arguments.
func FuzzPrograms(f *testing.F) {
	for _, s := range []string{
		"systemctl enable --now x", "systemctl show -p A,B --value sshd", "journalctl -u kubelet -n5 -o json --since '2 min ago'", "journalctl -xeu kubelet", "curl -sSfL -H 'a: b' -d @/etc/passwd -w '%{http_code}' -o /tmp/x http://169.254.169.254/",
		"imds latest/meta-data/mac", "aws ec2 describe-tags --filters Name=a,Values=b,c", "yum install -y a-b", "dnf -q update", "rpm -qa", "amazon-linux-extras install a=b", "nodeadm init", "/etc/eks/bootstrap.sh c --kubelet-extra-args '--max-pods=3' --b64-cluster-ca Q0E= --apiserver-endpoint https://x",
		"service sshd restart", "kubelet --version", "/opt/aws/bin/cfn-signal --region=x",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, line string, old bool) {
		family := images.AL2023
		if old {
			family = images.AL2
		}
		w := newWorld(t, family, func(w *world) {
			w.Patience = 1 << 30
			w.World.Clock = clocktesting.NewFakeClock(time.Unix(1700000000, 0))
			w.HTTP = transport(func(req *http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded })
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		late := time.AfterFunc(time.Minute, func() { panic("a program that does not end: " + line) })
		defer late.Stop()
		_, _ = shell.Run(ctx, shell.Job{FS: w.FS, Script: []byte(line), Name: "s", Stdout: io.Discard, Stderr: io.Discard, Outside: w.Outside, MaxCommands: 50})
	})
}

package ami_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/catalog/images"
)

func TestPackages(t *testing.T) {
	var asked []string
	open := func(w *world) {
		w.HTTP = transport(func(req *http.Request) (*http.Response, error) {
			asked = append(asked, req.URL.Host)
			return &http.Response{StatusCode: 501, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
		})
	}
	closed := func(w *world) {
		w.HTTP = transport(func(req *http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded })
	}
	nameless := func(w *world) {
		w.HTTP = transport(func(req *http.Request) (*http.Response, error) {
			return nil, &net.DNSError{Err: "no such host", Name: req.URL.Hostname(), IsNotFound: true}
		})
	}
	const mirror2023 = "https://al2023-repos-us-east-1-de612dc2.s3.dualstack.us-east-1.amazonaws.com/core/mirrors/latest/x86_64/mirror.list"
	const connect = "rpm -q ec2-instance-connect; grep '^AuthorizedKeysCommand ' /etc/ssh/sshd_config; test -x /opt/aws/bin/eic_run_authorized_keys && echo program; "
	const agentURL = "https://s3.us-east-1.amazonaws.com/amazon-ssm-us-east-1/3.2.2303.0/linux_amd64/amazon-ssm-agent.rpm"
	const failed = "Failed to connect to al2023-repos-us-east-1-de612dc2.s3.dualstack.us-east-1.amazonaws.com port 443: Connection timed out"
	for _, tc := range []struct {
		name, script, want string
		family             images.Family
		world              func(*world)
		status             int
	}{
		{"a way to the repository", "dnf install -y -q htop && rpm -q htop; htop", "htop\ns: line 1: htop: command not found\n", images.AL2023, open, 127},
		{"the transcript", "yum install -y nginx jq; systemctl enable --now nginx && systemctl is-active nginx", "Package jq is already installed.\nDependencies resolved.\n\nInstalling:\n nginx\n\nTransaction Summary\nInstall  1 Package\n\nInstalled:\n  nginx\n\nComplete!\nCreated symlink /etc/systemd/system/multi-user.target.wants/nginx.service → /usr/lib/systemd/system/nginx.service.\nactive\n", images.AL2023, open, 0},
		{"nobody answers", "dnf install git >/dev/null || echo $?", "1\n", images.AL2023, open, 0},
		{"removed", "dnf remove -y jq; rpm -q jq; dnf list installed jq", "Removed:\n  jq\n\nComplete!\npackage jq is not installed\nError: No matching Packages to list\n", images.AL2023, open, 1},
		{"Instance Connect", connect + "yum remove -y -q ec2-instance-connect; " + connect + "echo AuthorizedKeysCommand /mine >> /etc/ssh/sshd_config; yum install -y -q ec2-instance-connect; " + connect,
			"ec2-instance-connect-1.1-19.amzn2023.noarch\nAuthorizedKeysCommand /opt/aws/bin/eic_run_authorized_keys %u %f\nprogram\npackage ec2-instance-connect is not installed\n" +
				"ec2-instance-connect-1.1-19.amzn2023.noarch\nAuthorizedKeysCommand /mine\nprogram\n", images.AL2023, open, 0},
		{"an older agent", "dnf install -y -q " + agentURL + "; rpm -q amazon-ssm-agent; systemctl is-active amazon-ssm-agent; dnf install -y -q amazon-ssm-agent-3.2.9.9", "amazon-ssm-agent-3.2.2303.0-1.x86_64\nactive\n" +
			"No match for argument: amazon-ssm-agent-3.2.9.9\nError: Unable to find a match: amazon-ssm-agent-3.2.9.9\n", images.AL2023, open, 1},
		{"an older agent on Amazon Linux 2", "yum install -y " + agentURL + "; yum downgrade -y -q amazon-ssm-agent-3.2.582.0; rpm -q amazon-ssm-agent; yum downgrade -y amazon-ssm-agent-3.3.40.0; yum install -y -q amazon-ssm-agent-3.3.40.0; rpm -q amazon-ssm-agent",
			agentURL + ": does not update installed package.\nError: Nothing to do\namazon-ssm-agent-3.2.582.0-1.x86_64\nPackage amazon-ssm-agent already installed and latest version\nNothing to do\namazon-ssm-agent-3.3.40.0-1.x86_64\n", images.AL2, open, 0},
		{"an older agent by rpm", "rpm -U " + agentURL + "; rpm -U --oldpackage " + agentURL + " && rpm -q amazon-ssm-agent; rpm -e amazon-ssm-agent; systemctl status amazon-ssm-agent; rpm -i " + agentURL + " && systemctl is-enabled amazon-ssm-agent",
			"\tpackage amazon-ssm-agent-3.3.3050.0-1.x86_64 (which is newer than amazon-ssm-agent-3.2.2303.0-1.x86_64) is already installed\namazon-ssm-agent-3.2.2303.0-1.x86_64\nUnit amazon-ssm-agent.service could not be found.\nenabled\n", images.AL2023, open, 0},
		{"an agent without a way", "rpm -U " + agentURL + " || echo $?", "curl: (28) Failed to connect to s3.us-east-1.amazonaws.com port 443: Connection timed out\nerror: skipping " + agentURL + " - transfer failed\n1\n", images.AL2023, closed, 0},
		{"no way", "dnf install -y git", "Errors during downloading metadata for repository 'amazonlinux':\n  - Curl error (28): Timeout was reached for " + mirror2023 + " [" + failed + "]\nError: Failed to download metadata for repo 'amazonlinux': Cannot prepare internal mirrorlist: Curl error (28): Timeout was reached for " + mirror2023 + " [" + failed + "]\n", images.AL2023, closed, 1},
		{"no way on Amazon Linux 2", "yum install -y git 2>&1 | tail -n 1", "Cannot find a valid baseurl for repo: amzn2-core/2/x86_64\n", images.AL2, closed, 0},
		{"no name", "yum update -y 2>&1 | sed -n 2p", "14: curl#6 - \"Could not resolve host: amazonlinux-2-repos-us-east-1.s3.dualstack.us-east-1.amazonaws.com\"\n", images.AL2, nameless, 0},
		{"extras", "amazon-linux-extras install -y docker=latest >/dev/null && rpm -q docker && systemctl start docker", "docker\n", images.AL2, open, 0},
		{"a file", "rpm -i https://example.com/x.rpm; rpm -ivh /tmp/none.rpm; rpm -e jq && rpm -q jq; rpm -e jq", "curl: (6) Could not resolve host: example.com\nerror: skipping https://example.com/x.rpm - transfer failed\nerror: open of /tmp/none.rpm failed: No such file or directory\npackage jq is not installed\nerror: package jq is not installed\n", images.AL2, nameless, 1},
		{"what the image has", `rpm -q jq kernel tar; rpm -qa --qf '%-8{NAME}|%{epoch}|%{VERSION}\n' | grep -E '^(tar|jq)'; rpm -q --queryformat '%{NOPE}' jq`, "jq-1.7.1-49.amzn2023.0.2.x86_64\nkernel-6.12.55-74.119.amzn2023.x86_64\ntar-1.34-1.amzn2023.0.4.x86_64\njq      |(none)|1.7.1\ntar     |2|1.34\nerror: incorrect format: unknown tag: \"NOPE\"\n", images.AL2023, open, 1},
		{"what was installed", `yum install -y -q htop; rpm -q --qf '%{NAME} %{VERSION}\n' htop bash`, "htop (none)\nbash 4.2.46\n", images.AL2, open, 0},
		{"another system's", "apt-get update; dnf --version", "s: line 1: apt-get: command not found\ns: line 1: dnf: command not found\n", images.AL2, open, 127},
		{"nonsense", "dnf frobnicate; dnf; dnf install -y 'a b'", "No such command: frobnicate. Please use dnf --help\nYou need to give some command\nNo match for argument: a b\nError: Unable to find a match: a b\n", images.AL2023, open, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, status := newWorld(t, tc.family, tc.world).run(tc.script)
			if diff := cmp.Diff(tc.want, out); diff != "" || status != tc.status {
				t.Errorf("status %d, want %d\n%s", status, tc.status, diff)
			}
		})
	}
	if len(asked) == 0 || asked[0] != "al2023-repos-us-east-1-de612dc2.s3.dualstack.us-east-1.amazonaws.com" {
		t.Errorf("%q", asked)
	}
}

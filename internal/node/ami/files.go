package ami

import (
	"fmt"
	"io/fs"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/sshd"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

type imageFile struct {
	name string
	mode fs.FileMode
	text string
}

// bootstrapStub takes the place of the image's bootstrap.sh, so that scripts that look for it find it. The program
// itself is in bootstrap.go.
const bootstrapStub = "#!/usr/bin/env bash\n# /etc/eks/bootstrap.sh of a simulated node\n"

// What shells read when they start on a terminal, as far as it matters here.
const (
	profile     = "for i in /etc/profile.d/*.sh; do\n    if [ -r \"$i\" ]; then\n        . \"$i\" >/dev/null\n    fi\ndone\nunset i\n"
	bashProfile = "# .bash_profile\n\nif [ -f ~/.bashrc ]; then\n    . ~/.bashrc\nfi\n"
	bashrc      = "# .bashrc\n\nif [ -f /etc/bashrc ]; then\n    . /etc/bashrc\nfi\n"
)

// folders are the image's folders that scripts put files into without creating them.
var folders = []string{
	"/boot", "/dev", "/etc/cni/net.d", "/etc/containerd", "/etc/cron.d", "/etc/cron.daily", "/etc/default", "/etc/eks/containerd", "/etc/kubernetes/kubelet", "/etc/kubernetes/manifests", "/etc/kubernetes/pki",
	"/etc/logrotate.d", "/etc/modprobe.d", "/etc/modules-load.d", "/etc/pki/ca-trust/source/anchors", "/etc/profile.d", "/etc/rsyslog.d", "/etc/security/limits.d", "/etc/ssh", "/etc/sudoers.d",
	"/etc/sysconfig", "/etc/sysctl.d", "/etc/systemd/system", "/etc/udev/rules.d", "/etc/yum.repos.d", "/home/ec2-user", "/mnt", "/opt/aws/bin", "/proc/sys/kernel", "/root", "/run", "/srv", "/sys", "/tmp",
	"/usr/bin", "/usr/lib/systemd/system", "/usr/local/bin", "/usr/share", "/var/lib/cloud/instance", "/var/lib/kubelet", "/var/log/pods", "/var/spool/cron", "/var/tmp",
}

// files are the image's files that scripts look at.
func (m *Machine) files() []imageFile {
	if m.In.Image.Family == images.Bottlerocket {
		return m.bottlerocketFiles()
	}
	in, arch := m.In, m.architecture()
	out := []imageFile{
		{"/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/bash\nnobody:x:99:99:Nobody:/:/sbin/nologin\nec2-user:x:1000:1000:EC2 Default User:/home/ec2-user:/bin/bash\n"},
		{"/etc/group", 0o644, "root:x:0:\nwheel:x:10:ec2-user\nnobody:x:99:\nec2-user:x:1000:\n"},
		{"/etc/hostname", 0o644, in.PrivateDNSName + "\n"},
		{"/etc/hosts", 0o644, "127.0.0.1   localhost localhost.localdomain localhost4 localhost4.localdomain4\n::1         localhost6 localhost6.localdomain6\n"},
		{"/etc/resolv.conf", 0o644, "nameserver 169.254.169.253\n"},
		{"/etc/os-release", 0o644, osRelease(in.Image.Family)},
		{"/etc/profile", 0o644, profile},
		{"/etc/bashrc", 0o644, profile},
		{"/etc/profile.d/colorls.sh", 0o644, "alias ll='ls -l --color=auto' 2>/dev/null\nalias l.='ls -d .* --color=auto' 2>/dev/null\nalias ls='ls --color=auto' 2>/dev/null\n"},
		{"/root/.bash_profile", 0o644, bashProfile},
		{"/root/.bashrc", 0o644, bashrc},
		{"/home/ec2-user/.bash_profile", 0o644, bashProfile},
		{"/home/ec2-user/.bashrc", 0o644, bashrc},
		{sshd.ConfigFile, 0o600, sshdConfig},
		{"/proc/sys/kernel/arch", 0o444, arch + "\n"},
		{"/proc/sys/kernel/nproc", 0o444, fmt.Sprintln(in.Type.VCPU)},
		{"/proc/sys/kernel/osrelease", 0o444, kernel(in.Image.Family, arch) + "\n"},
	}
	out = append(out, m.procFiles()...)
	if in.Image.KubeletVersion != "" {
		out = append(out, imageFile{"/etc/eks/bootstrap.sh", 0o755, bootstrapStub})
	}
	if in.Image.Family == images.AL2 {
		out = append(out,
			imageFile{userdata.KubeconfigFile, 0o644, kubeconfigTemplate},
			imageFile{userdata.KubeletConfigFile, 0o644, `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"}` + "\n"},
			imageFile{"/etc/eks/containerd/containerd-config.toml", 0o644, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"SANDBOX_IMAGE\"\n"},
		)
	}
	return out
}

// procFiles are the files of /proc about the whole computer. Simulated programs use no memory and no processor.
func (m *Machine) procFiles() []imageFile {
	in, cpus := m.In, ""
	for i := range in.Type.VCPU {
		if in.Image.Architecture == "arm64" {
			cpus += fmt.Sprintf("processor\t: %d\nCPU implementer\t: 0x41\nCPU architecture: 8\n\n", i)
		} else {
			cpus += fmt.Sprintf("processor\t: %d\nphysical id\t: 0\nsiblings\t: %d\ncore id\t\t: %d\ncpu cores\t: %d\n\n", i, in.Type.VCPU, i/2, max(in.Type.VCPU/2, 1))
		}
	}
	kib := in.Type.MemoryMiB * 1024
	return []imageFile{
		{"/proc/cpuinfo", 0o444, cpus},
		{"/proc/loadavg", 0o444, "0.00 0.00 0.00 1/120 4000\n"},
		{"/proc/meminfo", 0o444, fmt.Sprintf("MemTotal:       %8d kB\nMemFree:        %8[1]d kB\nMemAvailable:   %8[1]d kB\nBuffers:        %8[2]d kB\nCached:         %8[2]d kB\nSwapTotal:      %8[2]d kB\nSwapFree:       %8[2]d kB\n", kib, 0)},
	}
}

// kubeconfigTemplate has the placeholders that bootstrap.sh replaces.
const kubeconfigTemplate = `apiVersion: v1
kind: Config
clusters:
- cluster: {certificate-authority: /etc/kubernetes/pki/ca.crt, server: MASTER_ENDPOINT}
  name: kubernetes
contexts:
- context: {cluster: kubernetes, user: kubelet}
  name: kubelet
current-context: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/aws-iam-authenticator
      args: [token, -i, CLUSTER_NAME, --region, AWS_REGION]
`

// architecture returns the image's architecture as Linux names it.
func (m *Machine) architecture() string {
	if m.In.Image.Architecture == "arm64" {
		return "aarch64"
	}
	return m.In.Image.Architecture
}

func osRelease(f images.Family) string {
	if f == images.AL2 {
		return "NAME=\"Amazon Linux\"\nVERSION=\"2\"\nID=\"amzn\"\nID_LIKE=\"centos rhel fedora\"\nVERSION_ID=\"2\"\nPRETTY_NAME=\"Amazon Linux 2\"\n"
	}
	return "NAME=\"Amazon Linux\"\nVERSION=\"2023\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\nPLATFORM_ID=\"platform:al2023\"\nPRETTY_NAME=\"Amazon Linux 2023\"\n"
}

func kernel(f images.Family, arch string) string {
	if f == images.AL2 {
		return "5.10.240-238.959.amzn2." + arch
	}
	return "6.12.55-74.119.amzn2023." + arch
}

package ami

import (
	"path"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/sshd"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// connectPackage is the package with which sshd accepts the keys of EC2 Instance Connect. EKS's images, Amazon Linux and
// Ubuntu have it, but not the minimal Amazon Linux images.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/provisioners/install-worker.sh
const connectPackage = "ec2-instance-connect"

// sshdConfig is the image's sshd_config without the package, and oldConfig that of a version of Drydock that did not have
// the package's files.
const (
	sshdConfig = "SyslogFacility AUTHPRIV\n" + oldConfig + "Subsystem sftp /usr/libexec/openssh/sftp-server\n"
	oldConfig  = "AuthorizedKeysFile .ssh/authorized_keys\nPasswordAuthentication no\n"
)

// connectProgram is the package's program. sshd does not run it, but asks the metadata service itself if it is there.
const connectProgram = `#!/bin/sh
# Prints the public keys that EC2 Instance Connect has sent for a user.
metadata=http://169.254.169.254/latest
token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 5' $metadata/api/token) || exit 0
curl -sf -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/managed-ssh-keys/active-keys/$1/" || exit 0
`

// SSHDConfigFile is sshd's configuration.
const SSHDConfigFile = sshd.ConfigFile

// KeysCommand returns the program that sshd asks for keys, and an error if that is not the one of EC2 Instance Connect.
func KeysCommand(files sshd.Files) (command string, err error) { return sshd.KeysCommand(files) }

func hasConnect(i images.Image) bool {
	return i.Variant != "minimal" && i.Family != images.Bottlerocket
}

// ConnectFile returns the name of the package's program.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-connect-set-up.html
func ConnectFile(f images.Family) string {
	if f == images.Ubuntu {
		return "/usr/share/ec2-instance-connect/eic_run_authorized_keys"
	}
	return "/opt/aws/bin/eic_run_authorized_keys"
}

// connectLines are the lines that the package adds to sshd_config.
func connectLines(f images.Family) string {
	return "AuthorizedKeysCommand " + ConnectFile(f) + " %u %f\nAuthorizedKeysCommandUser ec2-instance-connect\n"
}

// installConnect adds what the package adds. Like the package, it does not change a command that sshd_config has already.
func (m *Machine) installConnect(files *vfs.FS) error {
	program := ConnectFile(m.In.Image.Family)
	if err := files.MkdirAll(path.Dir(program), 0o755); err != nil {
		return err
	}
	if err := files.WriteFile(program, []byte(connectProgram), 0o755); err != nil {
		return err
	}
	config, _ := files.ReadFile(sshd.ConfigFile) // without one, sshd has its defaults
	for line := range strings.Lines(string(config)) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(word, "AuthorizedKeysCommand") {
			return nil
		}
	}
	return writeConfig(files, string(config)+connectLines(m.In.Image.Family))
}

// removeConnect removes what installConnect adds.
func (m *Machine) removeConnect(files *vfs.FS) error {
	_ = files.Remove(ConnectFile(m.In.Image.Family)) // it may be gone
	config, _ := files.ReadFile(sshd.ConfigFile)
	if text := strings.ReplaceAll(string(config), connectLines(m.In.Image.Family), ""); text != string(config) {
		return writeConfig(files, text)
	}
	return nil
}

func writeConfig(files *vfs.FS, text string) error {
	return files.WriteFile(sshd.ConfigFile, []byte(text), 0o600)
}

// LacksConnect reports whether a disk was made by a version of Drydock whose images had the package, but not its files.
func LacksConnect(i images.Image, files accounts.Reader) bool {
	config, err := files.ReadFile(sshd.ConfigFile)
	return err == nil && string(config) == oldConfig && hasConnect(i)
}

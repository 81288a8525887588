package simulated

import (
	"context"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/machine/guest/sshd"
	"github.com/drydock-dev/drydock/internal/machine/imds"
)

// sshPort is where the SSH server of an image listens.
const sshPort = 22

// listenSSH makes the image's SSH server listen. The server accepts clients while its service runs.
func (c *Computer) listenSSH() error {
	if c.image.SSH == nil {
		return nil
	}
	if err := sshd.MakeHostKeys(c.image.FS, c.rt.cfg.HostKeys, c.in.ID, c.in.PrivateDNSName); err != nil {
		return err
	}
	server := sshd.New(sshd.Config{
		Host: c, FS: c.image.FS, Keys: c.connectKeys, Version: c.image.SSH.Version, Log: c.image.SSH.Log,
		HostKeys: func() ([]ssh.Signer, error) { return sshd.HostKeys(c.image.FS) },
		Changed: func() error {
			c.volume.touch()
			return c.save()
		},
	})
	c.Listen(sshPort, Listener{Up: c.image.SSH.Running, Serve: func(conn net.Conn) { server.Serve(c.ctx, conn) }})
	return nil
}

// connectKeys returns the keys that EC2 Instance Connect has sent for a user. As on Amazon Linux, sshd gets them from
// the metadata service. https://github.com/aws/aws-ec2-instance-connect-config
func (c *Computer) connectKeys(ctx context.Context, user string) []string {
	if c.rt.cfg.Metadata == nil {
		return nil
	}
	text, err := imds.Client{Transport: c.rt.cfg.Metadata(c.in.ID)}.Get(ctx, "meta-data/managed-ssh-keys/active-keys/"+user)
	if err != nil {
		return nil // there are no keys, or the metadata service is off
	}
	return strings.Split(string(text), "\n")
}

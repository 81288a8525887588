package sshd

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// hostKeyFiles are the files with sshd's keys. Amazon Linux 2023's cloud-init generates these two (ssh_genkeytypes).
var hostKeyFiles = []string{"/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key"}

// MakeHostKeys writes a machine's host keys, unless they exist. It derives them from a secret of the installation and the
// instance's ID, because clients complain about changed keys, and a machine's disk is not stored until something has
// been written to it.
func MakeHostKeys(files Files, secret []byte, instanceID, host string) error {
	for _, name := range hostKeyFiles {
		if _, err := files.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var private any
		kind := strings.TrimSuffix(strings.TrimPrefix(name, "/etc/ssh/ssh_host_"), "_key")
		seed, err := hkdf.Key(sha256.New, secret, nil, "ssh host key "+kind+" "+instanceID, 32)
		if err != nil {
			return err
		}
		if kind == "ed25519" {
			private = ed25519.NewKeyFromSeed(seed)
		} else {
			seed[0] &= 0x7f // below the order of the curve
			if private, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), seed); err != nil {
				return err
			}
		}
		block, err := ssh.MarshalPrivateKey(private, "root@"+host)
		if err != nil {
			return err
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			return err
		}
		public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))) + " root@" + host + "\n"
		if err := files.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
		if err := files.WriteFile(name+".pub", []byte(public), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// HostKeys reads a machine's host keys.
func HostKeys(files accounts.Reader) (out []ssh.Signer, err error) {
	for _, name := range hostKeyFiles {
		b, err := files.ReadFile(name)
		if err != nil {
			continue // the user has removed it
		}
		k, err := ssh.ParsePrivateKey(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, k)
	}
	if out == nil {
		return nil, errors.New("no hostkeys available -- exiting")
	}
	return out, nil
}

// Announce returns what cloud-init writes to the console about the host keys, so that users can compare fingerprints.
// https://github.com/canonical/cloud-init/blob/main/tools/write-ssh-key-fingerprints
func Announce(files accounts.Reader) string {
	var prints, keys strings.Builder
	for _, name := range hostKeyFiles {
		b, err := files.ReadFile(name + ".pub")
		if err != nil {
			continue
		}
		k, comment, _, _, err := ssh.ParseAuthorizedKey(b)
		if err != nil {
			continue
		}
		kind := strings.ToUpper(strings.TrimSuffix(strings.TrimPrefix(name, "/etc/ssh/ssh_host_"), "_key"))
		fmt.Fprintf(&prints, "256 %s %s (%s)\n", ssh.FingerprintSHA256(k), comment, kind)
		keys.Write(b)
	}
	const line = "#############################################################\n"
	return line + "-----BEGIN SSH HOST KEY FINGERPRINTS-----\n" + prints.String() + "-----END SSH HOST KEY FINGERPRINTS-----\n" + line +
		"-----BEGIN SSH HOST KEY KEYS-----\n" + keys.String() + "-----END SSH HOST KEY KEYS-----\n"
}

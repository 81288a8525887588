// Package nodebin holds the programs of nodes that run containers: the machine's first process, the node's (containerd, kubelet and
// others), runc, containerd's shim, nodetool, guest, CoreDNS, csi, and nft with its libraries. `make nodebin` builds them, and this
// package embeds them. A build without them works, but offers no containers.
//
// Used by package machine/containers and by `drydock doctor`. It does not depend on the rest of Drydock.
package nodebin

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// The programs.
const (
	Machine  = "drydock-machine"
	Node     = "drydock-node"
	Runc     = "runc"
	Shim     = "containerd-shim-runc-v2"
	Nodetool = "nodetool"
	Guest    = "guest"
	CoreDNS  = "coredns"
	CSI      = "csi"
)

// programs are all of them, and nft the archive of the folder of that name.
var programs = []string{Machine, Node, Runc, Shim, Nodetool, Guest, CoreDNS, CSI}

const nft = "nft.tar"

// links are the names under which a program is called.
var links = map[string][]string{
	Nodetool: {"drydock-runc", "drydock-cni", "pause", "sftp-server", "nft", "go-runner", "grpc-health-probe", "aws-vpc-cni-init", "aws-vpc-cni", "controller", "web"},
	Node:     {"kube-proxy", "ecr-credential-provider", "eks-pod-identity-agent", "metrics-server", "aws-network-policy-agent"},
	CSI:      {"aws-ebs-csi-driver", "csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller", "csi-node-driver-registrar", "livenessprobe"},
}

func dir() string { return "bin/linux-" + runtime.GOARCH }

// Missing returns the programs that this build lacks.
func Missing() []string {
	var out []string
	for _, name := range append(programs, nft) {
		if _, err := fs.Stat(embedded, path.Join(dir(), name+".zst")); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// Open returns a program.
func Open(name string) ([]byte, error) {
	var b bytes.Buffer
	err := expand(&b, name)
	return b.Bytes(), err
}

// expand writes a program. A checksum protects it.
func expand(to io.Writer, name string) error {
	f, err := embedded.Open(path.Join(dir(), name+".zst"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this build of Drydock has no %s: make nodebin build", name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err == nil {
		defer z.Close()
		_, err = z.WriteTo(to)
	}
	if err != nil {
		return fmt.Errorf("embedded %s: %w", name, err)
	}
	return nil
}

// Extract writes all programs into a folder.
func Extract(to string) error {
	if missing := Missing(); len(missing) > 0 {
		return fmt.Errorf("this build of Drydock has no %s: make nodebin build", strings.Join(missing, ", "))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var g errgroup.Group // together they are 320 MB, for which the first machine waits
	for _, name := range programs {
		g.Go(func() error {
			f, err := os.OpenFile(filepath.Join(to, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
			if err != nil {
				return err
			}
			return errors.Join(expand(f, name), f.Close())
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for program, names := range links {
		for _, name := range names {
			if err := os.Link(filepath.Join(to, program), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return extractNFT(filepath.Join(to, "nft.d"))
}

// extractNFT writes nft with its libraries and their loader into a folder.
func extractNFT(to string) error {
	b, err := Open(nft)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("embedded %s: %w", nft, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(h.Name)), data, 0o755)
		}
		if err != nil {
			return err
		}
	}
}

// Package addonimages provides the images of those EKS add-ons whose programs are on nodes that run containers. An image
// contains no programs: it has symbolic links to the node's programs, and a marker that makes the node show them in the
// container (tools/nodebin/nodetool). So an image takes a few kilobytes, however large its program is.
//
// They are Drydock's own images under AWS's names. All tags of a repository refer to the same image.
package addonimages

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Marker is the file by which a node recognizes the images, and Programs is the folder of a node's programs.
const (
	Marker   = ".drydock-programs"
	Programs = "/opt/drydock/bin"
)

// An Image is one image for this machine's architecture.
type Image struct {
	// Manifest is its manifest in the format MediaType, and Digest the manifest's digest.
	Manifest, MediaType, Digest string

	blobs map[string][]byte
}

// Blob returns a layer or the configuration.
func (i *Image) Blob(digest string) ([]byte, bool) {
	b, ok := i.blobs[digest]
	return b, ok
}

// A program is what an image contains: links to the node's programs, and how its container starts.
type program struct {
	links      map[string]string // a path without the leading slash, and the name of the node's program
	entrypoint []string
}

// programs are the images, by repository. The paths are those that the add-ons' manifests and upstream's images have.
var programs = map[string]program{
	"amazon-k8s-cni":                  {map[string]string{"app/aws-vpc-cni": "aws-vpc-cni", "app/grpc-health-probe": "grpc-health-probe"}, []string{"/app/aws-vpc-cni"}},
	"amazon-k8s-cni-init":             {map[string]string{"init/aws-vpc-cni-init": "aws-vpc-cni-init"}, []string{"/init/aws-vpc-cni-init"}},
	"amazon/aws-network-policy-agent": {map[string]string{"controller": "controller"}, []string{"/controller"}},
	"eks/aws-ebs-csi-driver":          {map[string]string{"bin/aws-ebs-csi-driver": "aws-ebs-csi-driver"}, []string{"/bin/aws-ebs-csi-driver"}},
	"eks/csi-attacher":                command("csi-attacher"),
	"eks/csi-node-driver-registrar":   command("csi-node-driver-registrar"),
	"eks/csi-provisioner":             command("csi-provisioner"),
	"eks/csi-resizer":                 command("csi-resizer"),
	"eks/csi-snapshotter":             command("csi-snapshotter"),
	"eks/livenessprobe":               command("livenessprobe"),
	"eks/snapshot-controller":         command("snapshot-controller"),
	"eks/coredns":                     {map[string]string{"coredns": "coredns"}, []string{"/coredns"}},
	"eks/eks-pod-identity-agent":      {map[string]string{"go-runner": "go-runner", "eks-pod-identity-agent": "eks-pod-identity-agent"}, []string{"/go-runner"}},
	"eks/kube-proxy":                  {map[string]string{"usr/local/bin/kube-proxy": "kube-proxy"}, []string{"kube-proxy"}},
	"eks/metrics-server":              command("metrics-server"),
	"eks/pause":                       {map[string]string{"pause": "pause"}, []string{"/pause"}},
	DemoRepository:                    {map[string]string{"web": "web"}, []string{"/web"}},
}

// command is an image with a program in its root.
func command(name string) program {
	return program{map[string]string{name: name}, []string{"/" + name}}
}

// DemoRepository has the image of the workload of `drydock demo`, which EKS does not have.
const DemoRepository = "drydock/web"

var made sync.Map // *Image, by repository

// Of returns the image in a repository of EKS's registries, or nil if Drydock does not have it.
func Of(repository string) *Image {
	p, ok := programs[repository]
	if !ok {
		return nil
	}
	if i, ok := made.Load(repository); ok {
		return i.(*Image)
	}
	i, _ := made.LoadOrStore(repository, build(p))
	return i.(*Image)
}

func build(p program) *Image {
	i := &Image{MediaType: "application/vnd.oci.image.manifest.v1+json", blobs: map[string][]byte{}}
	layer := p.layer()
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": p.entrypoint, "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + Programs}, "WorkingDir": "/",
			"Labels": map[string]string{"org.opencontainers.image.vendor": "Drydock"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	})
	i.Manifest = string(encode(map[string]any{
		"schemaVersion": 2, "mediaType": i.MediaType,
		"config": i.add("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{i.add("application/vnd.oci.image.layer.v1.tar", layer)},
	}))
	i.Digest = digestOf([]byte(i.Manifest))
	return i
}

// add adds a blob and returns its descriptor.
func (i *Image) add(mediaType string, b []byte) map[string]any {
	d := digestOf(b)
	i.blobs[d] = b
	return map[string]any{"mediaType": mediaType, "digest": d, "size": len(b)}
}

// layer returns the only layer, with the places where the node's programs appear.
func (p program) layer() []byte {
	dirs := []string{"etc/ssl/certs", "tmp", "opt/drydock/bin"}
	var names []string
	for name := range p.links {
		names = append(names, name)
		dirs = append(dirs, path.Dir(name))
	}
	slices.Sort(names)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(h *tar.Header, data string) { // writing to memory cannot fail
		h.Size = int64(len(data))
		_ = w.WriteHeader(h)
		_, _ = w.Write([]byte(data))
	}
	seen := map[string]bool{".": true}
	for _, d := range dirs {
		parts := strings.Split(d, "/")
		for n := range parts {
			if dir := path.Join(parts[:n+1]...); !seen[dir] {
				seen[dir] = true
				mode := int64(0o755)
				if dir == "tmp" {
					mode = 0o1777
				}
				put(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}, "")
			}
		}
	}
	put(&tar.Header{Typeflag: tar.TypeReg, Name: Marker, Mode: 0o444}, "")
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o444}, "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o444}, "") // the node's appears there
	for _, name := range names {
		put(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: path.Join(Programs, p.links[name]), Mode: 0o777}, "")
	}
	_ = w.Close()
	return b.Bytes()
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and strings
	}
	return b
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

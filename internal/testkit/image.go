package testkit

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ImageArchive builds a Go program, in a folder of its package, into an image of its own, as an archive as docker save
// writes it.
func ImageArchive(name, source, scratch string) ([]byte, error) {
	file := filepath.Join(scratch, filepath.Base(source))
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	return ProgramImage(name, file, "/"+filepath.Base(source), "")
}

// ProgramImage returns an archive, as docker save writes it, with an image that holds a static program at a path and an
// empty list of certificate authorities. The program runs as user, or as root if that is empty.
func ProgramImage(name, file, path, user string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	layer := tarOf(map[string][]byte{strings.TrimPrefix(path, "/"): b, "etc/ssl/certs/ca-certificates.crt": nil})
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{path}, "User": user},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return tarOf(map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest}), nil
}

// tarOf returns an archive of programs and files in memory, where writing cannot fail.
func tarOf(files map[string][]byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range files {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg})
		_, _ = w.Write(data)
	}
	_ = w.Close()
	return b.Bytes()
}

package containers

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"runtime"

	"github.com/drydock-dev/drydock/internal/machine/containers/nodebin"
)

// pauseArchive returns the pause image as an archive, as docker save writes it: one layer with one program.
func pauseArchive() (io.Reader, error) {
	program, err := nodebin.Open(nodebin.Nodetool)
	if err != nil {
		return nil, err
	}
	layer := archive(file{"pause", 0o755, program})
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{PauseImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(archive(file{"config.json", 0o644, config}, file{"layer.tar", 0o644, layer}, file{"manifest.json", 0o644, manifest})), nil
}

type file struct {
	name string
	mode int64
	data []byte
}

// archive returns a tar archive of files.
func archive(files ...file) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		// Writing to memory cannot fail.
		_ = w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg})
		_, _ = w.Write(f.data)
	}
	_ = w.Close()
	return b.Bytes()
}

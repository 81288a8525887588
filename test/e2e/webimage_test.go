package e2e

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

	"github.com/rogpeppe/go-internal/testscript"
)

// webImage FILE NAME writes an archive with an image of testdata/web, as docker save does. Its list of certificate
// authorities is empty.
func webImage(ts *testscript.TestScript, _ bool, args []string) {
	program := filepath.Join(ts.Getenv("WORK"), "web")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "./testdata/web")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(program)
	ts.Check(err)
	layer := tarOf(map[string][]byte{"web": b, "etc/ssl/certs/ca-certificates.crt": nil})
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/web"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	ts.Check(err)
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{args[1]}, "Layers": []string{"layer.tar"}}})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), tarOf(map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest}), 0o644))
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

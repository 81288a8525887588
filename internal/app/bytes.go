package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/cli"
)

// bytesDir returns the folder of the payloads whose records are in the daemon's etcd. Files without a record are
// removed, so each etcd has its own folder.
func bytesDir(cfg cli.DaemonConfig) string {
	dir := filepath.Join(cfg.DataDir, "bytes")
	if len(cfg.Etcd.Endpoints) == 0 {
		return dir
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(cfg.Etcd.Endpoints)), " ") + " " + cfg.Etcd.Prefix))
	return filepath.Join(dir, "etcd-"+hex.EncodeToString(sum[:6]))
}

func (d *daemon) openBytes() (err error) {
	d.bytesDir = bytesDir(d.cfg)
	if d.cfg.Ephemeral { // the records do not outlive the daemon either
		if d.bytesDir, err = os.MkdirTemp("", "drydock-bytes-"); err != nil {
			return err
		}
	}
	if d.bytes, err = bytestore.Open(bytestore.Config{Dir: d.bytesDir, Ephemeral: d.cfg.Ephemeral}); err != nil {
		return err
	}
	// No other process uses this folder, because this one holds the lock of bytes.db.
	d.blobs, err = blobstore.Open(blobstore.Config{Dir: filepath.Join(d.bytesDir, "blobs"), Ephemeral: d.cfg.Ephemeral})
	return err
}

func (d *daemon) closeBytes() (err error) {
	if d.bytes != nil {
		err = d.bytes.Close()
	}
	if d.cfg.Ephemeral && d.bytesDir != "" {
		err = errors.Join(err, os.RemoveAll(d.bytesDir))
	}
	return err
}

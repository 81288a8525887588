package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/cli"
)

// bytesDir is where payloads are whose records are in the daemon's etcd. What no record
// names is removed, so each etcd has a folder of its own.
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
	if d.cfg.Ephemeral { // the records, too, are gone with the daemon
		if d.bytesDir, err = os.MkdirTemp("", "drydock-bytes-"); err != nil {
			return err
		}
	}
	d.bytes, err = bytestore.Open(bytestore.Config{Dir: d.bytesDir, Ephemeral: d.cfg.Ephemeral})
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

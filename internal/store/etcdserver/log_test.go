package etcdserver

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.uber.org/zap"
)

// TestFilesInUseAreNoNews: etcd's own purge of old files finds files that are still being written, which is not worth
// a log line.
func TestFilesInUseAreNoNews(t *testing.T) {
	var out bytes.Buffer
	log := zap.New(&slogCore{log: slog.New(slog.NewTextHandler(&out, nil)), silent: &atomic.Bool{}})
	dir := t.TempDir()
	used, err := fileutil.LockFile(filepath.Join(dir, "0.wal"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	stop := make(chan struct{})
	done, failed := fileutil.PurgeFileWithDoneNotify(log, dir, "wal", 0, time.Millisecond, stop)
	close(stop)
	<-done
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
	if out.Len() > 0 {
		t.Errorf("the log says %s", &out)
	}
	log.Warn("failed to lock file", zap.Error(errors.New("no locks available")))
	if !bytes.Contains(out.Bytes(), []byte("no locks available")) {
		t.Error("what is wrong is not in the log")
	}
}

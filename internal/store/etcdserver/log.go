package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.uber.org/zap/zapcore"
)

// slogCore sends etcd's log entries of level warning and above to slog.
type slogCore struct {
	log    *slog.Logger
	silent *atomic.Bool // set while closing, when warnings are no longer useful
	fields []zapcore.Field
}

// expected are warnings that every embedded etcd logs and that do not help anyone.
var expected = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
	// A refused write. Its caller reports it.
	"failed to apply request": true,
	// A new member looks for its storage version before its first commit, and again a little later.
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
}

func (c *slogCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{c.log, c.silent, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level <= zapcore.ErrorLevel && (!c.Enabled(e.Level) || expected[e.Message] || c.silent.Load()) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	// etcd checks every half minute for old write-ahead log files. Those since the last snapshot are in use, and are
	// removed after the next one.
	if e.Message == "failed to lock file" && slices.ContainsFunc(fields, isLocked) {
		return nil
	}
	level := slog.LevelWarn
	if e.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields))
	for k, v := range enc.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	c.log.LogAttrs(context.Background(), level, "etcd: "+e.Message, attrs...)
	return nil
}

func isLocked(f zapcore.Field) bool {
	err, ok := f.Interface.(error)
	return ok && errors.Is(err, fileutil.ErrLocked)
}

func (c *slogCore) Sync() error { return nil }

// OnWrite is called after a fatal error or a panic has been logged.
func (h *fatalHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	h.fail(toError(ce, fields))
	runtime.Goexit()
}

func toError(ce *zapcore.CheckedEntry, fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Key == "error" {
			return fmt.Errorf("%s: %w", ce.Message, err)
		}
	}
	return fmt.Errorf("%s", ce.Message)
}

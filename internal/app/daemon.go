package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/authority"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// logPatience is how long writing the last log lines may take.
const logPatience = time.Second

// runDaemon is `drydock up`: it builds every part, calls ready once the endpoint answers, and returns when ctx has
// ended and everything has stopped.
func runDaemon(ctx context.Context, cfg cli.DaemonConfig, ready func(api.DaemonInfo)) (err error) {
	lines := newLogWriter(os.Stderr)
	defer lines.Close(logPatience)
	log := slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: logLevel()}))
	// The listener comes first: nothing is touched when the port is taken.
	plain, err := cli.Listen(ctx, cfg)
	if err != nil {
		return err
	}
	defer plain.Close()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("cannot use the data folder: %w\nTry: drydock up --data-dir FOLDER", err)
	}
	ca, err := authority.Open(authority.Config{Dir: cfg.DataDir, Listen: cfg.Listen.Addr(), Hosts: cfg.AllowHosts})
	if err != nil {
		return err
	}
	ln := server.Split(plain, ca.TLS())
	defer ln.Close()
	sc, err := storeConfig(cfg, log)
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, sc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	d := &daemon{cfg: cfg, log: log, store: st, timing: timing(cfg), started: time.Now()}
	d.info = api.DaemonInfo{
		PID:             os.Getpid(),
		URL:             "http://" + reachable(ln.Addr()),
		DataDir:         cfg.DataDir,
		CAFile:          ca.File(),
		NamedCAFile:     ca.NamedFile(),
		Notice:          notice(ca.Notice(), cfg),
		Version:         version,
		Started:         d.started,
		AccessKeyID:     wellKnownKey,
		SecretAccessKey: wellKnownKey,
		Token:           rand.Text(),
		LogFile:         os.Getenv("DRYDOCK_LOG_FILE"),
		Internet:        cfg.Internet,
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.assemble(ctx); err != nil {
		return err
	}
	if err := d.twins().Clean(ctx); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}

	// Everything below stops before close, in any order.
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	run := d.runs()
	failed := make(chan error, len(run)+1)
	for name, f := range run {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("%s ended: %w", name, err)
			}
		})
	}
	proxy := server.NewProxy(ln, log)
	wg.Go(func() { _ = proxy.Run(ctx) }) // it never fails
	wg.Go(func() {
		if err := server.Serve(ctx, ln, d.handler(proxy), log); err != nil && ctx.Err() == nil {
			failed <- fmt.Errorf("the AWS endpoint failed: %w", err)
		}
	})
	if err := api.WriteInfo(d.info); err != nil {
		return err
	}
	defer api.RemoveInfo(cfg.DataDir)
	ready(d.info)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case <-st.Failed():
		return st.Err()
	}
}

// notice returns what the user should know at start-up: about the CA, and about data stored apart from the records.
func notice(ca string, cfg cli.DaemonConfig) string {
	if len(cfg.Etcd.Endpoints) == 0 {
		return ca
	}
	return strings.TrimSpace(ca + "\nRecords are in the etcd of --etcd-endpoints. Messages of queues, log events, objects and image layers are in " + bytesDir(cfg) + ", on this machine only.")
}

func logLevel() slog.Level {
	level := slog.LevelWarn
	if s := os.Getenv("DRYDOCK_LOG"); s != "" {
		if err := level.UnmarshalText([]byte(s)); err != nil {
			return slog.LevelInfo
		}
	}
	return level
}

func timing(cfg cli.DaemonConfig) clock.Timing {
	if cfg.Timing == "aws" {
		return clock.AWS()
	}
	return clock.Fast()
}

func storeConfig(cfg cli.DaemonConfig, log *slog.Logger) (store.Config, error) {
	c := store.Config{
		Dir:       filepath.Join(cfg.DataDir, "store"),
		Ephemeral: cfg.Ephemeral,
		Endpoints: cfg.Etcd.Endpoints,
		CAFile:    cfg.Etcd.CAFile,
		CertFile:  cfg.Etcd.CertFile,
		KeyFile:   cfg.Etcd.KeyFile,
		Username:  cfg.Etcd.Username,
		Prefix:    cfg.Etcd.Prefix,
		Version:   version,
		Log:       log,
	}
	if cfg.Etcd.PasswordFile != "" {
		b, err := os.ReadFile(cfg.Etcd.PasswordFile)
		if err != nil {
			return store.Config{}, fmt.Errorf("--etcd-password-file: %w", err)
		}
		c.Password = strings.TrimSpace(string(b))
	}
	return c, nil
}

// reachable returns the address at which clients on this machine reach a listener.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

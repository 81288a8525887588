package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// etcds are the clusters the scripts started, by work folder.
var etcds sync.Map

type externalEtcd struct {
	server *embed.Etcd
	client *clientv3.Client
}

// startEtcd starts an etcd with TLS, as a user's own, and sets ETCD to its URL and
// ETCD_CA to its CA certificate.
func startEtcd(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := os.MkdirTemp("", "etcd")
	ts.Check(err)
	ts.Defer(func() { os.RemoveAll(dir) })
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = free, free
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientAutoTLS, cfg.SelfSignedCertValidity = true, 1
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(cfg)
	ts.Check(err)
	ts.Defer(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		ts.Fatalf("etcd is not ready")
	}
	endpoint := "https://" + server.Clients[0].Addr().String()
	ca := filepath.Join(dir, "fixtures", "client", "cert.pem")
	tls, err := transport.TLSInfo{TrustedCAFile: ca}.ClientConfig()
	ts.Check(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: tls, Logger: zap.NewNop()})
	ts.Check(err)
	ts.Defer(func() { client.Close() })
	etcds.Store(ts.Getenv("WORK"), externalEtcd{server, client})
	ts.Setenv("ETCD", endpoint)
	ts.Setenv("ETCD_CA", ca)
}

// etcdKeys PREFIX says whether the external etcd has keys with that prefix; with
// !, it waits until it has none.
func etcdKeys(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] etcdkeys PREFIX")
	}
	v, ok := etcds.Load(ts.Getenv("WORK"))
	if !ok {
		ts.Fatalf("no etcd is running: startetcd")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		got, err := v.(externalEtcd).client.Get(ctx, args[0], clientv3.WithPrefix(), clientv3.WithCountOnly())
		cancel()
		ts.Check(err)
		if (got.Count == 0) == neg {
			return
		}
		if !neg || time.Now().After(deadline) {
			ts.Fatalf("%d keys at %s", got.Count, args[0])
		}
		pause()
	}
}

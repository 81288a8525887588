package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// EtcdAccess is what a Kubernetes API server needs to use the store's etcd.
type EtcdAccess struct {
	// Endpoints are URLs, unix:///PATH for the embedded etcd.
	Endpoints []string
	// CAFile, CertFile and KeyFile are empty if TLS is not used.
	CAFile, CertFile, KeyFile string
	// NeedsPassword reports that the store logs in with a password and without a client certificate, which API
	// servers cannot do.
	NeedsPassword bool
}

// EtcdAccess returns how API servers reach the store's etcd.
func (s *Store) EtcdAccess() EtcdAccess { return s.access }

// ClusterPrefix returns the --etcd-prefix of a cluster's API server.
func (s *Store) ClusterPrefix(planeID string) string { return s.root + "/clusters/" + planeID }

// clusterRange returns the bounds of a cluster's keys. An empty ID would select every cluster.
func (s *Store) clusterRange(planeID string) (start, end string, err error) {
	if planeID == "" || strings.Contains(planeID, "/") {
		return "", "", fmt.Errorf("bad control plane ID %q", planeID)
	}
	start = s.ClusterPrefix(planeID) + "/"
	return start, clientv3.GetPrefixRangeEnd(start), nil
}

// deleteChunk is how many keys are deleted at once. etcd does not answer
// other requests in the meantime.
const deleteChunk = 500

// DeleteClusterPrefix deletes a cluster's Kubernetes state. Stop its API server first. It may be called again after
// an error.
func (s *Store) DeleteClusterPrefix(ctx context.Context, planeID string) error {
	start, end, err := s.clusterRange(planeID)
	if err != nil {
		return err
	}
	for {
		resp, err := s.client.Get(ctx, start, clientv3.WithRange(end), clientv3.WithLimit(deleteChunk), clientv3.WithKeysOnly())
		if err == nil && len(resp.Kvs) == 0 {
			return nil
		}
		if err == nil {
			last := string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
			_, err = s.client.Delete(ctx, start, clientv3.WithRange(last))
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return s.explain(err)
		}
	}
}

// ClusterIDs lists the control planes whose API servers have keys in etcd, whether or not they have records.
func (s *Store) ClusterIDs(ctx context.Context) ([]string, error) {
	all := s.ClusterPrefix("")
	end := clientv3.GetPrefixRangeEnd(all)
	var out []string
	for next := all; ; {
		resp, err := s.client.Get(ctx, next, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return nil, s.explain(err)
		}
		if len(resp.Kvs) == 0 {
			return out, nil
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(string(resp.Kvs[0].Key), all), "/")
		out = append(out, id)
		next = clientv3.GetPrefixRangeEnd(all + id + "/")
	}
}

// ClusterValue returns the raw bytes that a cluster's API server has stored under a key such as
// /secrets/default/token, or ErrNotFound if the key does not exist.
func (s *Store) ClusterValue(ctx context.Context, planeID, key string) ([]byte, error) {
	start, _, err := s.clusterRange(planeID)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Get(ctx, start+strings.TrimPrefix(key, "/"))
	if err != nil {
		return nil, s.explain(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, ErrNotFound
	}
	return resp.Kvs[0].Value, nil
}

// CountClusterKeys returns how many keys a cluster has in etcd.
func (s *Store) CountClusterKeys(ctx context.Context, planeID string) (int64, error) {
	start, end, err := s.clusterRange(planeID)
	if err != nil {
		return 0, err
	}
	return s.count(ctx, start, end)
}

// CountKeys returns how many keys are under the store's prefix in etcd: records, the clusters' keys and its own. It
// does not count the data version, which always exists.
func (s *Store) CountKeys(ctx context.Context) (int64, error) {
	start := s.root + "/"
	n, err := s.within(ctx, func() (int64, error) { return s.count(ctx, start, clientv3.GetPrefixRangeEnd(start)) })
	return max(0, n-1), err
}

// within stops waiting for read when ctx ends. The embedded etcd ignores contexts while it waits for its disk.
func (s *Store) within(ctx context.Context, read func() (int64, error)) (int64, error) {
	type result struct {
		n   int64
		err error
	}
	done := make(chan result, 1)
	if !s.spawn(func() {
		n, err := read()
		done <- result{n, err}
	}) {
		return 0, ErrClosed
	}
	select {
	case r := <-done:
		return r.n, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *Store) count(ctx context.Context, start, end string) (int64, error) {
	resp, err := s.client.Get(ctx, start, clientv3.WithRange(end), clientv3.WithCountOnly())
	if err != nil {
		return 0, s.explain(err)
	}
	return resp.Count, nil
}

// dialTimeout is how long Open waits for an external etcd.
const dialTimeout = 10 * time.Second

// dial connects to an external etcd.
func (s *Store) dial(ctx context.Context) error {
	cfg := s.cfg
	if (cfg.CertFile == "") != (cfg.KeyFile == "") {
		return errors.New("etcd client certificate and key must be given together")
	}
	secure, err := tlsConfig(cfg)
	if err != nil {
		return err
	}
	s.access = EtcdAccess{
		Endpoints: cfg.Endpoints,
		CAFile:    cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile,
		NeedsPassword: cfg.Username != "" && cfg.CertFile == "",
	}
	where := strings.Join(cfg.Endpoints, ", ")
	if err := reachable(ctx, cfg.Endpoints, secure); err != nil {
		return fmt.Errorf("%w: etcd at %s: %w; is it running, and are its URL and certificates right?", ErrUnavailable, where, err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  secure,
		Username:             cfg.Username,
		Password:             cfg.Password,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		Logger:               zap.NewNop(), // the caller gets the error
	})
	if err != nil {
		return fmt.Errorf("%w: etcd at %s: %w", ErrUnavailable, where, noAnswer(err))
	}
	s.client = client
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := client.Get(ctx, s.root, clientv3.WithCountOnly()); err != nil {
		return fmt.Errorf("%w: etcd at %s: %w", ErrUnavailable, where, noAnswer(err))
	}
	return nil
}

// noAnswer adds a likely cause to a bare "deadline exceeded".
func noAnswer(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s; does it want TLS (https://) or a client certificate?", dialTimeout)
	}
	return err
}

// reachable returns nil if one of the endpoints accepts connections, with TLS if its URL is https. The etcd client
// would only keep retrying, without saying what is wrong.
func reachable(ctx context.Context, endpoints []string, secure *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var err error
	for _, e := range endpoints {
		network, addr, handshake := "tcp", e, false
		if u, perr := url.Parse(e); perr == nil && u.Scheme != "" && u.Host+u.Path != "" {
			addr, handshake = u.Host, u.Scheme == "https"
			if strings.HasPrefix(u.Scheme, "unix") {
				network, addr = "unix", u.Host+u.Path
			}
		}
		var c net.Conn
		if handshake {
			c, err = (&tls.Dialer{Config: secure}).DialContext(ctx, network, addr)
		} else {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		if err == nil {
			return c.Close()
		}
	}
	return err
}

// tlsConfig returns nil if no endpoint uses TLS.
func tlsConfig(cfg Config) (*tls.Config, error) {
	secure := false
	for _, e := range cfg.Endpoints {
		secure = secure || strings.HasPrefix(e, "https://") || strings.HasPrefix(e, "unixs://")
	}
	if !secure {
		if cfg.CAFile+cfg.CertFile != "" {
			return nil, errors.New("etcd certificates are given but no endpoint starts with https://")
		}
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd CA: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd CA: no certificate in %s", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		// The files are read for every connection, so that certificates can be rotated.
		if _, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile); err != nil {
			return nil, fmt.Errorf("etcd client certificate: %w", err)
		}
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
			return &cert, err
		}
	}
	return out, nil
}

package simulated

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/machine"
)

// kubeletPort is where the kubelet serves its API.
const kubeletPort = 10250

// zPages is the minor version since which a kubelet serves /flagz and /statusz (KEPs 4828 and 4827).
const zPages = 36

// serveAPI returns a function that serves one client of the kubelet's API, until ctx ends. Most kubelets never have one.
//
// AWS deviation: the certificate is signed by itself, not by the cluster.
func (k *kubelet) serveAPI(ctx context.Context) func(net.Conn) {
	in, name, now := k.m.in, k.name, k.now
	certificate := sync.OnceValues(func() (*tls.Certificate, error) { return selfSigned(in, name, now()) })
	handler := sync.OnceValue(k.api)
	return func(conn net.Conn) {
		one := newOneConn(conn)
		server := http.Server{
			Handler: handler(), BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: log.New(io.Discard, "", 0), // of failed handshakes
			ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		}
		_ = server.Serve(&oneListener{conn: tls.Server(one, &tls.Config{ // it ends when the connection does
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		}), closed: one.closed})
	}
}

// api returns the handler of the kubelet's API. The cluster decides who may use it, and the node has its pods to show. Like a
// kubelet, it returns 404 for unknown paths without authenticating the client.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/server/server.go (NewServer)
func (k *kubelet) api() http.Handler {
	keeper := newGatekeeper(k)
	admitted := func(serve http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if status, text := keeper.admit(r); status != 0 {
				plainAnswer(status, text)(w, r)
				return
			}
			serve.ServeHTTP(w, r)
		}
	}
	noPods := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "pods on simulated nodes run nothing: "+r.URL.Path+" is not implemented", http.StatusNotImplemented)
	}
	notImplemented := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.URL.Path+" is not implemented on simulated nodes", http.StatusNotImplemented)
	}
	handler := http.NewServeMux()
	handle := func(serve http.HandlerFunc, paths ...string) {
		for _, p := range paths {
			handler.HandleFunc(p, admitted(serve))
		}
	}
	handle(plainAnswer(http.StatusOK, "ok"), "/healthz", "/healthz/ping", "/healthz/log", "/healthz/syncloop", "/healthz/device-plugin")
	handle(noPods, "/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/resource")
	handle(notImplemented, "/metrics/slis", "/configz", "/debug/flags/v")
	if minor(k.m.in.Image.KubeletVersion) >= zPages {
		handle(notImplemented, "/flagz", "/statusz")
	}
	// Everything else is a web service, to which all paths below its own belong, even if it then does not know them.
	services := http.NewServeMux()
	services.HandleFunc("/", plainAnswer(http.StatusNotFound, "404: Page Not Found"))
	service := func(serve http.HandlerFunc, methods []string, paths ...string) {
		for _, p := range paths {
			services.HandleFunc(p, plainAnswer(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
			for _, method := range methods {
				services.HandleFunc(method+" "+p, serve)
			}
		}
	}
	get, post, both := []string{http.MethodGet}, []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	service(k.servePods, get, "/pods", "/pods/{$}")
	service(noPods, get, "/runningpods/{$}", "/containerLogs/{namespace}/{pod}/{container}")
	service(noPods, post, "/run/{namespace}/{pod}/{container}", "/run/{namespace}/{pod}/{uid}/{container}", "/checkpoint/{namespace}/{pod}/{container}")
	service(noPods, both, "/exec/{namespace}/{pod}/{container}", "/exec/{namespace}/{pod}/{uid}/{container}",
		"/attach/{namespace}/{pod}/{container}", "/attach/{namespace}/{pod}/{uid}/{container}",
		"/portForward/{namespace}/{pod}", "/portForward/{namespace}/{pod}/{uid}", "/stats/summary")
	service(notImplemented, get, "/logs/{path...}", "/debug/pprof/{path...}")
	for _, root := range []string{"/pods", "/run", "/exec", "/attach", "/portForward", "/containerLogs"} {
		handler.HandleFunc(root, admitted(services))
		handler.HandleFunc(root+"/", admitted(services))
	}
	for _, root := range []string{"/stats/", "/runningpods/", "/checkpoint/", "/logs/", "/debug/pprof/"} {
		handler.HandleFunc(root, admitted(services))
	}
	return handler
}

// plainAnswer returns a handler that answers with a text and no more.
func plainAnswer(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the client may be gone
	}
}

// servePods writes the pods of the node.
func (k *kubelet) servePods(w http.ResponseWriter, r *http.Request) {
	var list corev1.PodList
	query := url.Values{"fieldSelector": {"spec.nodeName=" + k.name}, "resourceVersion": {"0"}}
	err := k.client.do(r.Context(), http.MethodGet, "/api/v1/pods", query, nil, &list)
	list.TypeMeta, list.ListMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, metav1.ListMeta{}
	body, invalid := json.Marshal(list)
	if err = errors.Join(err, invalid); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// selfSigned returns a serving certificate of a kubelet.
func selfSigned(in machine.Instance, name string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.AddDate(1, 0, 0), DNSNames: []string{name}, IPAddresses: []net.IP{in.PrivateIP.AsSlice()},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// A oneListener accepts one connection, and closes with it.
type oneListener struct {
	mu     sync.Mutex
	conn   net.Conn // nil after it was accepted
	closed <-chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{Port: kubeletPort} }

// A oneConn is a connection to a client of TLS. Its writes do not wait for the client, as those to a socket do not either:
// otherwise a client that refuses the certificate and this side would wait for each other.
type oneConn struct {
	net.Conn
	closed chan struct{} // closed when everything has been written, or nothing can be any more

	mu  sync.Mutex
	out chan []byte // nil after Close
}

func newOneConn(conn net.Conn) *oneConn {
	c := &oneConn{Conn: conn, closed: make(chan struct{}), out: make(chan []byte, 64)}
	go c.write(c.out)
	return c
}

// write writes to the client until Close.
func (c *oneConn) write(out <-chan []byte) {
	defer close(c.closed)
	failed := false
	for b := range out {
		if failed {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		stop := context.AfterFunc(ctx, func() { _ = c.Conn.Close() }) // ends Write
		_, err := c.Conn.Write(b)
		stop()
		cancel()
		failed = err != nil
	}
	_ = c.Conn.Close() // the client may have closed it
}

func (c *oneConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		return 0, net.ErrClosed
	}
	c.out <- bytes.Clone(b)
	return len(b), nil
}

func (c *oneConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		return net.ErrClosed
	}
	close(c.out)
	c.out = nil
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // ends a Read
	return nil
}

// SetDeadline and SetWriteDeadline leave the deadline for writing to write.
func (c *oneConn) SetDeadline(t time.Time) error    { return c.Conn.SetReadDeadline(t) }
func (c *oneConn) SetWriteDeadline(time.Time) error { return nil }

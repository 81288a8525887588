package simulated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/node"
)

const (
	protobufType = runtime.ContentTypeProtobuf
	// callTimeout bounds every call except watches. An API server that has the machine to itself answers in
	// milliseconds. The kubelet gives its heartbeats 10 s; on a busy laptop, giving up a call means doing its work
	// twice.
	callTimeout = 30 * time.Second
	// maxFrame bounds one watch event; etcd accepts no object over 1.5 MiB.
	maxFrame = 4 << 20
	// callsPerCluster bounds the concurrent calls to one cluster from all its nodes together, so that a thousand
	// nodes booting at once queue here and not in the API server. Leases have their own limit, as they do in API
	// servers, so that starting many pods does not make any node look dead.
	callsPerCluster  = 48
	leasesPerCluster = 32
)

// cluster is what the nodes of one cluster share: how to verify it, and how many calls to make at once. Nodes share
// no connection, because each has its own identity.
type cluster struct {
	key    string
	tls    *tls.Config
	slots  chan struct{}
	leases chan struct{}
	events *rate.Limiter
	refs   int
}

// clusters returns clusters by endpoint and certificate authority.
type clusters struct {
	eventRate  rate.Limit
	eventBurst int

	mu  sync.Mutex
	all map[string]*cluster
}

func (cs *clusters) get(endpoint *url.URL, ca []byte) (*cluster, error) {
	sum := sha256.Sum256(ca)
	key := endpoint.Host + "/" + string(sum[:])
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.all[key]; c != nil {
		c.refs++
		return c, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the certificate authority in user data contains no certificate")
	}
	c := &cluster{
		key: key,
		tls: &tls.Config{
			RootCAs:    roots,
			ServerName: endpoint.Hostname(),
			MinVersion: tls.VersionTLS12,
			// Set here because net/http would otherwise write to this shared value.
			NextProtos:         []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		},
		slots:  make(chan struct{}, callsPerCluster),
		leases: make(chan struct{}, leasesPerCluster),
		events: rate.NewLimiter(cs.eventRate, cs.eventBurst),
		refs:   1,
	}
	cs.all[key] = c
	return c, nil
}

func (cs *clusters) put(c *cluster) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.refs--; c.refs == 0 {
		delete(cs.all, c.key)
	}
}

// nodes is how many nodes of this runtime are in the cluster.
func (cs *clusters) nodes(c *cluster) int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.refs
}

// client is one node's client, with its own connection and identity.
type client struct {
	cluster   *cluster
	identity  *identity
	transport *http.Transport
	rest      *rest.RESTClient
	agent     string
	host      string                     // of the endpoint
	route     atomic.Pointer[node.Route] // of the last connection, if known
}

// dialError says that the endpoint could not be reached: the error is the network's and not the API server's.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func newClient(c *cluster, id *identity, endpoint *url.URL, agent string, dial func(ctx context.Context, host string, port int) (net.Conn, error)) (*client, error) {
	out := &client{cluster: c, identity: id, agent: agent, host: endpoint.Hostname()}
	if p := endpoint.Port(); p != "443" {
		out.host = endpoint.Host // a path on this machine
	}
	transport := &http.Transport{
		TLSClientConfig:     c.tls.Clone(), // a transport writes to its own config
		TLSHandshakeTimeout: callTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		WriteBufferSize:     2 << 10,
		ReadBufferSize:      2 << 10,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, portText, err := net.SplitHostPort(address)
			if err != nil {
				return nil, &dialError{err}
			}
			port, err := strconv.Atoi(portText)
			if err != nil {
				return nil, &dialError{err}
			}
			conn, err := dial(ctx, host, port)
			if err != nil {
				return nil, &dialError{err}
			}
			if r, ok := conn.(node.Routed); ok {
				route := r.Route()
				out.route.Store(&route)
			}
			return conn, nil
		},
	}
	base := *endpoint
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	content := rest.ClientContentConfig{
		AcceptContentTypes: protobufType,
		ContentType:        protobufType,
		GroupVersion:       corev1.SchemeGroupVersion,
		Negotiator:         runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion),
	}
	rc, err := rest.NewRESTClient(&base, "/", content, nil, &http.Client{Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("preparing the node's API client: %w", err)
	}
	out.transport, out.rest = transport, rc
	return out, nil
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// request starts a request as the node.
func (c *client) request(ctx context.Context, verb, path string) (*rest.Request, error) {
	token, err := c.identity.bearer(ctx)
	if err != nil {
		return nil, err
	}
	// No retries here: the node's loop decides what to repeat, and when.
	return c.rest.Verb(verb).AbsPath(path).MaxRetries(0).
		SetHeader("Authorization", "Bearer "+token).
		// The API server uses it as the field manager's name.
		SetHeader("User-Agent", c.agent).
		WarningHandlerWithContext(rest.NoWarnings{}), nil
}

// do makes a call. body is nil, a runtime.Object with its TypeMeta set, or the []byte of a strategic merge patch.
// into may be nil.
func (c *client) do(ctx context.Context, verb, path string, query url.Values, body any, into runtime.Object) error {
	lane := c.cluster.slots
	if strings.HasPrefix(path, leasePath) {
		lane = c.cluster.leases
	}
	select {
	case lane <- struct{}{}:
		defer func() { <-lane }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for a free connection to the cluster: %w", ctx.Err())
	}
	// Only the time of the call itself counts: waiting for a turn is not a sign of trouble.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := c.request(ctx, verb, path)
	if err != nil {
		return err
	}
	for k, vs := range query {
		for _, v := range vs {
			req.Param(k, v)
		}
	}
	switch b := body.(type) {
	case nil:
	case []byte:
		req.SetHeader("Content-Type", string(types.StrategicMergePatchType)).Body(b)
	case runtime.Object:
		var buf bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(b, &buf); err != nil {
			return fmt.Errorf("encoding %T: %w", body, err)
		}
		req.SetHeader("Content-Type", protobufType).Body(buf.Bytes())
	default:
		return fmt.Errorf("encoding %T: not a request body", body)
	}
	res := req.Do(ctx)
	if into != nil && res.Error() == nil {
		err = res.Into(into)
	} else {
		err = res.Error()
	}
	if apierrors.IsUnauthorized(err) {
		c.identity.reject()
	}
	return err
}

// Call implements API.
func (c *client) Call(ctx context.Context, verb, path string, body, into runtime.Object) error {
	return c.do(ctx, verb, path, nil, body, into)
}

// GetAs implements API.
func (c *client) GetAs(ctx context.Context, token, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := c.rest.Verb(http.MethodGet).AbsPath(path).MaxRetries(0).SetHeader("Authorization", "Bearer "+token).
		SetHeader("Accept", "application/json").WarningHandlerWithContext(rest.NoWarnings{}).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// watchPods follows the node's pods from a resource version and calls handle for each event until the server ends the
// watch or ctx ends. The pod of a bookmark only has a resource version.
func (c *client) watchPods(ctx context.Context, nodeName, resourceVersion string, timeout time.Duration, handle func(watch.EventType, *corev1.Pod)) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream when this returns
	defer cancel()
	req, err := c.request(ctx, http.MethodGet, "/api/v1/pods")
	if err != nil {
		return err
	}
	body, err := req.Param("watch", "true").
		Param("fieldSelector", "spec.nodeName="+nodeName).
		Param("allowWatchBookmarks", "true").
		Param("resourceVersion", resourceVersion).
		Param("timeoutSeconds", strconv.Itoa(int(timeout.Seconds()))).
		SetHeader("Accept", protobufType+";stream=watch").
		Stream(ctx)
	if err != nil {
		if apierrors.IsUnauthorized(err) {
			c.identity.reject()
		}
		return err
	}
	defer body.Close()
	var frame []byte
	for {
		var length [4]byte
		if _, err := io.ReadFull(body, length[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("watching pods: %w", err)
		}
		n := int(binary.BigEndian.Uint32(length[:]))
		if n > maxFrame {
			return fmt.Errorf("watching pods: an event of %d bytes", n)
		}
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(body, frame); err != nil {
			return fmt.Errorf("watching pods: %w", err)
		}
		var ev metav1.WatchEvent
		if err := ev.Unmarshal(frame); err != nil {
			return fmt.Errorf("decoding a watch event: %w", err)
		}
		if watch.EventType(ev.Type) == watch.Error {
			var status metav1.Status
			if err := decodeProtobuf(ev.Object.Raw, &status); err != nil {
				return err
			}
			return &apierrors.StatusError{ErrStatus: status}
		}
		pod := &corev1.Pod{}
		if err := decodeProtobuf(ev.Object.Raw, pod); err != nil {
			return err
		}
		handle(watch.EventType(ev.Type), pod)
		if cap(frame) > 64<<10 {
			frame = nil // do not keep the memory of one large pod forever
		}
	}
}

var protobufMagic = [...]byte{'k', '8', 's', 0}

func decodeProtobuf(raw []byte, into interface{ Unmarshal([]byte) error }) error {
	if !bytes.HasPrefix(raw, protobufMagic[:]) {
		return errors.New("decoding a watch event: not protobuf")
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(raw[len(protobufMagic):]); err != nil {
		return fmt.Errorf("decoding a watch event: %w", err)
	}
	if err := into.Unmarshal(unknown.Raw); err != nil {
		return fmt.Errorf("decoding a watch event: %w", err)
	}
	return nil
}

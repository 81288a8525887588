package simulated_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const endpointHost = "ABCDEF0123456789.gr7.us-east-1.eks.amazonaws.com"

// fakeAPI is an API server with what simulated nodes use: nodes, leases, pods and events, in protobuf, over TLS and
// HTTP/2, on connections in memory, so that it lives inside a synctest bubble. It checks only the form of tokens;
// end-to-end tests check that the real authorizers let nodes do what they do here.
type fakeAPI struct {
	t      *testing.T
	caPEM  []byte
	server *http.Server
	ln     *pipeListener

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]runtime.Object // collection, namespace/name
	watchers map[*watcher]bool
	writes   []string // "VERB path"
	requests map[string]int
	// refuse, if set, may answer a request with an error.
	refuse func(verb, path string) *apierrors.StatusError
	tokens []string
	// daemons are the pods that every node gets.
	daemons func() []*corev1.Pod
	// reviewed are the tokens about which kubelets have asked.
	reviewed []string
	// permits answers access reviews; nil denies all.
	permits func(authorizationv1.SubjectAccessReviewSpec) bool
	// custom are objects of other kinds, by path, for holders of podToken.
	custom map[string]string
}

// podToken is the token of every service account; its end is its audience.
const podToken = "token-of-a-pod:"

type watcher struct {
	node   string
	events chan watchEvent
	end    chan struct{}
}

type watchEvent struct {
	kind watch.EventType
	obj  runtime.Object
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	cert, caPEM := selfSigned(t)
	a := &fakeAPI{
		t: t, caPEM: caPEM, ln: newPipeListener(), version: 100,
		objects: map[string]map[string]runtime.Object{}, watchers: map[*watcher]bool{}, requests: map[string]int{},
	}
	a.server = &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0)}
	a.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.server.ServeTLS(a.ln, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving: %v", err)
		}
	}()
	t.Cleanup(func() {
		a.server.Close()
		<-done
	})
	return a
}

// dial is the network between instances and the endpoint.
func (a *fakeAPI) dial(ctx context.Context) (net.Conn, error) { return a.ln.dial(ctx) }

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	a.requests[r.Method]++
	if !slices.Contains(a.tokens, bearer) {
		a.tokens = append(a.tokens, bearer)
	}
	refuse := a.refuse
	a.mu.Unlock()
	if refuse != nil {
		if err := refuse(r.Method, r.URL.Path); err != nil {
			a.reply(w, int(err.ErrStatus.Code), &err.ErrStatus)
			return
		}
	}
	if strings.HasPrefix(bearer, podToken) {
		a.mu.Lock()
		text, ok := a.custom[r.URL.Path]
		a.mu.Unlock()
		if !ok {
			a.replyError(w, notFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
		return
	}
	if !strings.HasPrefix(bearer, "k8s-aws-v1.") {
		a.replyError(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if r.URL.Query().Get("watch") == "true" {
		a.serveWatch(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	obj, err := a.serve(r.Method, r.URL, r.Header.Get("Content-Type"), body)
	if err != nil {
		a.replyError(w, err)
		return
	}
	a.reply(w, http.StatusOK, obj)
}

func (a *fakeAPI) replyError(w http.ResponseWriter, err error) {
	var se *apierrors.StatusError
	if !errors.As(err, &se) {
		se = apierrors.NewInternalError(err)
	}
	a.reply(w, int(se.ErrStatus.Code), &se.ErrStatus)
}

func (a *fakeAPI) reply(w http.ResponseWriter, code int, obj runtime.Object) {
	raw := encode(a.t, obj)
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	w.Write(raw)
}

func encode(t *testing.T, obj runtime.Object) []byte {
	obj = obj.DeepCopyObject()
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Error(err)
		return nil
	}
	gvk := gvks[0]
	if gvk.Kind == "Status" {
		gvk = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	var buf bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &buf); err != nil {
		t.Error(err)
	}
	return buf.Bytes()
}

var notFound = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "it")

// serve answers everything but watches.
func (a *fakeAPI) serve(verb string, u *url.URL, contentType string, body []byte) (runtime.Object, error) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if parts[0] == "apis" {
		parts = parts[1:]
	}
	parts = parts[2:] // group or "api", and version
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	collection := parts[0]
	name := ""
	if len(parts) > 1 {
		name = parts[1]
	}
	sub := ""
	if len(parts) > 2 {
		sub = parts[2]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if verb != http.MethodGet {
		a.writes = append(a.writes, verb+" "+u.Path)
	}
	all := a.objects[collection]
	if all == nil {
		all = map[string]runtime.Object{}
		a.objects[collection] = all
	}
	key := namespace + "/" + name
	switch verb {
	case http.MethodPost:
		obj, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if tr, ok := obj.(*authenticationv1.TokenRequest); ok {
			tr.Status.Token = podToken + strings.Join(tr.Spec.Audiences, ",")
			return tr, nil
		}
		switch review := obj.(type) {
		case *authenticationv1.TokenReview:
			a.reviewed = append(a.reviewed, review.Spec.Token)
			name, ok := strings.CutPrefix(review.Spec.Token, "token-of-user:")
			if !ok {
				review.Status.Error = "invalid bearer token"
			} else {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
					Username: name, Groups: []string{"people"}, Extra: map[string]authenticationv1.ExtraValue{"team": {"shop"}},
				}}
			}
			return review, nil
		case *authorizationv1.SubjectAccessReview:
			if a.permits == nil {
				return review, nil
			}
			review.Status.Allowed = a.permits(review.Spec)
			return review, nil
		}
		acc, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		key = namespace + "/" + acc.GetName()
		if all[key] != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: collection}, acc.GetName())
		}
		acc.SetUID(types.UID(fmt.Sprintf("uid-of-%s", acc.GetName())))
		a.store(collection, key, obj, watch.Added)
		if collection == "nodes" {
			for _, d := range a.daemons() {
				a.bindLocked(acc.GetName(), d)
			}
		}
		return obj, nil
	case http.MethodGet:
		if name == "" {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
			for _, p := range a.podsOf(u.Query().Get("fieldSelector")) {
				list.Items = append(list.Items, *p)
			}
			return list, nil
		}
		if all[key] == nil {
			return nil, notFound
		}
		return all[key], nil
	case http.MethodPut:
		lease := &coordinationv1.Lease{}
		if _, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, lease); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		old, ok := all[key].(*coordinationv1.Lease)
		if !ok {
			return nil, notFound
		}
		if lease.ResourceVersion != old.ResourceVersion {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: collection}, name, errors.New("version"))
		}
		a.store(collection, key, lease, watch.Modified)
		return lease, nil
	case http.MethodPatch:
		if contentType != string(types.StrategicMergePatchType) {
			return nil, apierrors.NewBadRequest("content type " + contentType)
		}
		old := all[key]
		if old == nil {
			return nil, notFound
		}
		before, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		fresh := old.DeepCopyObject()
		after, err := strategicpatch.StrategicMergePatch(before, body, fresh)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		switch fresh.(type) {
		case *corev1.Pod:
			fresh = &corev1.Pod{}
		case *corev1.Node:
			fresh = &corev1.Node{}
		case *corev1.Event:
			fresh = &corev1.Event{}
		}
		if err := json.Unmarshal(after, fresh); err != nil {
			return nil, err
		}
		if p, ok := fresh.(*corev1.Pod); ok && p.UID != old.(*corev1.Pod).UID {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: collection}, name, errors.New("uid"))
		}
		_ = sub
		a.store(collection, key, fresh, watch.Modified)
		return fresh, nil
	case http.MethodDelete:
		p, ok := all[key].(*corev1.Pod)
		if !ok {
			return nil, notFound
		}
		delete(all, key)
		a.version++
		p = p.DeepCopy()
		p.ResourceVersion = strconv.Itoa(a.version)
		a.notify(watch.Deleted, p)
		return p, nil
	}
	return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: collection}, verb)
}

// store keeps an object under a new resource version. a.mu is held.
func (a *fakeAPI) store(collection, key string, obj runtime.Object, kind watch.EventType) {
	a.version++
	acc, err := meta.Accessor(obj)
	if err != nil {
		a.t.Error(err)
		return
	}
	acc.SetResourceVersion(strconv.Itoa(a.version))
	if a.objects[collection] == nil {
		a.objects[collection] = map[string]runtime.Object{}
	}
	a.objects[collection][key] = obj
	if p, ok := obj.(*corev1.Pod); ok {
		a.notify(kind, p)
	}
}

func (a *fakeAPI) notify(kind watch.EventType, p *corev1.Pod) {
	for w := range a.watchers {
		if w.node == p.Spec.NodeName {
			w.events <- watchEvent{kind, p.DeepCopy()}
		}
	}
}

func (a *fakeAPI) podsOf(selector string) []*corev1.Pod {
	name, _ := strings.CutPrefix(selector, "spec.nodeName=")
	var out []*corev1.Pod
	for _, key := range slices.Sorted(maps.Keys(a.objects["pods"])) {
		if p := a.objects["pods"][key].(*corev1.Pod); p.Spec.NodeName == name {
			out = append(out, p)
		}
	}
	return out
}

func (a *fakeAPI) serveWatch(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
	if !ok {
		a.replyError(w, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("can only list/watch pods with spec.nodeName field selector")))
		return
	}
	wt := &watcher{node: name, events: make(chan watchEvent, 10_000), end: make(chan struct{})}
	a.mu.Lock()
	if r.URL.Query().Get("resourceVersion") == "0" {
		for _, p := range a.podsOf("spec.nodeName=" + name) {
			wt.events <- watchEvent{watch.Added, p.DeepCopy()}
		}
	}
	a.watchers[wt] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.watchers, wt)
		a.mu.Unlock()
	}()
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	w.WriteHeader(http.StatusOK)
	flush := func() { w.(http.Flusher).Flush() }
	flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-wt.end:
			return
		case e := <-wt.events:
			ev := metav1.WatchEvent{Type: string(e.kind), Object: runtime.RawExtension{Raw: encode(a.t, e.obj)}}
			raw, err := ev.Marshal()
			if err != nil {
				a.t.Error(err)
				return
			}
			var n [4]byte
			binary.BigEndian.PutUint32(n[:], uint32(len(raw)))
			w.Write(append(n[:], raw...))
			flush()
		}
	}
}

// What tests do that nodes do not.

func (a *fakeAPI) refusing(f func(verb, path string) *apierrors.StatusError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = f
}

// bind creates a pod that is already scheduled to a node.
func (a *fakeAPI) bind(node string, p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bindLocked(node, p)
}

func (a *fakeAPI) bindLocked(node string, p *corev1.Pod) {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	if p.UID == "" {
		p.UID = types.UID("uid-of-" + p.Name)
	}
	if p.Generation == 0 {
		p.Generation = 1
	}
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	p.Status.Phase = corev1.PodPending
	a.store("pods", p.Namespace+"/"+p.Name, p, watch.Added)
}

// deletePod asks for a pod's deletion, as kubectl delete does.
func (a *fakeAPI) deletePod(name string, grace int64) {
	if !strings.Contains(name, "/") {
		name = "default/" + name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.objects["pods"][name].(*corev1.Pod).DeepCopy()
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	a.store("pods", name, p, watch.Modified)
}

// endWatches ends all watches, with a status if given one.
func (a *fakeAPI) endWatches(status *metav1.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watchers {
		if status != nil {
			w.events <- watchEvent{watch.Error, status}
		} else {
			close(w.end)
		}
		delete(a.watchers, w)
	}
}

func (a *fakeAPI) pod(name string) *corev1.Pod {
	if !strings.Contains(name, "/") {
		name = "default/" + name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p, _ := a.objects["pods"][name].(*corev1.Pod)
	return p
}

func (a *fakeAPI) node(name string) *corev1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, _ := a.objects["nodes"]["/"+name].(*corev1.Node)
	return n
}

// giveUp does what the controller manager does to a node whose lease has expired.
func (a *fakeAPI) giveUp(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.objects["nodes"]["/"+name].(*corev1.Node)
	if !ok {
		a.t.Errorf("no node %s", name)
		return
	}
	n = n.DeepCopy()
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
		c.LastTransitionTime = metav1.Now()
	}
	a.store("nodes", "/"+name, n, watch.Modified)
}

func (a *fakeAPI) lease(name string) *coordinationv1.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, _ := a.objects["leases"]["kube-node-lease/"+name].(*coordinationv1.Lease)
	return l
}

func (a *fakeAPI) events() []*corev1.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*corev1.Event
	for _, o := range a.objects["events"] {
		out = append(out, o.(*corev1.Event))
	}
	slices.SortFunc(out, func(x, y *corev1.Event) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// expireEvents deletes all events, as the API server does with those of an hour ago.
func (a *fakeAPI) expireEvents() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.objects["events"])
}

// takeWrites returns the writes since the last call.
func (a *fakeAPI) takeWrites() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.writes
	a.writes = nil
	return out
}

func (a *fakeAPI) seenTokens() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tokens)
}

// pipeListener accepts connections made in memory.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- buffered(server):
		return buffered(client), nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bufferedConn is a pipe that takes writes without a reader, as TCP does.
type bufferedConn struct {
	net.Conn
	writes chan []byte
	once   sync.Once
	closed chan struct{}
}

func buffered(c net.Conn) net.Conn {
	b := &bufferedConn{Conn: c, writes: make(chan []byte, 1024), closed: make(chan struct{})}
	go func() {
		defer c.Close()
		for {
			select {
			case w := <-b.writes:
				if _, err := c.Write(w); err != nil {
					return
				}
			case <-b.closed:
				for {
					select {
					case w := <-b.writes:
						if _, err := c.Write(w); err != nil {
							return
						}
					default:
						return
					}
				}
			}
		}
	}()
	return b
}

func (b *bufferedConn) Write(p []byte) (int, error) {
	select {
	case b.writes <- bytes.Clone(p):
		return len(p), nil
	case <-b.closed:
		return 0, net.ErrClosed
	}
}

func (b *bufferedConn) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func selfSigned(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{endpointHost},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// nodeadmUserData is what EKS writes for a managed node group.
func nodeadmUserData(ca []byte, extra string) []byte {
	return fmt.Appendf(nil, `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: dev
    apiServerEndpoint: https://%s
    certificateAuthority: %s
    cidr: 10.100.0.0/16
%s
--//--
`, endpointHost, base64.StdEncoding.EncodeToString(ca), extra)
}

// Package server is the pipeline that every AWS request passes: request ID, body limit, route, signature, operation,
// decode, refuse unsupported members, validate, authorize, handler, encode, journal.
//
// It knows the services only through awsapi.Service tables and the API models. It renders every error and every
// denial; handlers only return them. It opens no files or connections of its own: internal/app and testkit pass it
// its listener and everything else.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/journal"
)

// InternalPrefix is the path prefix of Drydock's own paths. No AWS operation's path starts with it: S3 bucket names
// may not start with an underscore.
const InternalPrefix = "/_drydock/"

// handlerTimeout is how long one call of a handler may take.
const handlerTimeout = time.Minute

// Config holds what a Server needs.
type Config struct {
	// Services handle the operations; Register adds more. Operations that the models have but no service handles get
	// 501 NotImplemented.
	Services []awsapi.Service
	// Lookup finds access keys. Required.
	Lookup sigv4.Lookup
	// Authorize decides whether call, whose decoded input is in, is allowed (authz.Authorizer.Authorize). It returns
	// nil, an *authz.Denial, or another error if it could not decide. It is not called for Exempt and Unsigned
	// operations. Required.
	Authorize func(ctx context.Context, call *awsapi.Call, in any) error
	// Used records every call that has a valid signature and a known operation and input, before anything
	// decides about it. It must be quick. If it returns an error, the call fails. Nil records nothing.
	Used func(ctx context.Context, call *awsapi.Call) error
	// Origin returns, for the remote address of a guest's connection, the VPC endpoint that it came through, if any,
	// and the address that AWS sees. The address is invalid if the connection is not a guest's. Nil means that there
	// are no guests.
	Origin func(remote string) (awsapi.VPCEndpoint, netip.Addr)
	// Faults deliberately delay calls or make them fail. Nil means no faults.
	Faults *fault.Set
	// Changed returns a channel that is closed at the next change of any state (store.Store.Changed). If it is nil,
	// waiters are not held.
	Changed func() <-chan struct{}
	// Changing is called after each request that succeeded and is not a read. Calls between services are not requests.
	// Nil is not called.
	Changing func(ctx context.Context, call *awsapi.Call)
	// Journal records calls and denials. Nil records nothing.
	Journal *journal.Journal
	// Clock is used for signatures and held answers. Nil means the real clock.
	Clock clock.Clock
	// Log is for internal failures; nil is slog.Default().
	Log *slog.Logger
	// AllowHosts are host names to answer to besides AWS's and this machine's own; *.example.com is every name below
	// example.com. See RefuseBrowser.
	AllowHosts []string
	// MaxBody limits request bodies, in bytes. 0 means each service's own limit.
	MaxBody int64
	// Internal serves the paths below InternalPrefix. If it is nil, they get 404.
	Internal http.Handler
}

// A Server answers the AWS API over HTTP. It is an http.Handler.
type Server struct {
	cfg      Config
	registry *registry
	verifier *sigv4.Verifier
	held     atomic.Int64
	answers  answers
}

// Held returns how many answers to waiters are being held.
func (s *Server) Held() int64 { return s.held.Load() }

// New checks that every service has a model and is declared once. The rest of a declaration is checked when the service
// is first needed, or by [Compatibility]: that every operation exists in the service's model, has a handler method of the
// SDK's shape, and honours only members that the model has.
func New(cfg Config) (*Server, error) {
	if cfg.Lookup == nil || cfg.Authorize == nil {
		return nil, errors.New("server: Lookup and Authorize are required")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	reg, err := newRegistry(cfg.Services)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg:      cfg,
		registry: reg,
		verifier: sigv4.NewVerifier(sigv4.Config{Lookup: cfg.Lookup, Clock: cfg.Clock}),
	}, nil
}

// Register adds services before the first request, as New does. It is for services that call others through the
// Server and are therefore built after it.
func (s *Server) Register(services ...awsapi.Service) error { return s.registry.add(services) }

// Verifier returns the server's signature verifier, so that others can share its key cache.
func (s *Server) Verifier() *sigv4.Verifier { return s.verifier }

// An exchange is one HTTP request on its way through the pipeline: an invocation and what the wire adds to it. Its
// fields are filled in stage by stage.
type exchange struct {
	invocation
	w        http.ResponseWriter
	r        *http.Request
	req      wire.Request
	auth     *sigv4.Authorization // nil if unsigned
	owner    string               // the account whose bucket an unsigned request is for
	identity string               // the identity document and signature that an instance sends instead
	authErr  error                // why auth could not be parsed
	pending  *sigv4.Pending       // the part of auth that is checked before the body is read; nil if the check failed
	refusal  error                // why pending is nil
	op       *model.Operation     // nil until known

	question question        // what the request asks, if its answer may be cached
	asOf     <-chan struct{} // the state that the answer is made from; nil if it is not cached
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if RefuseBrowser(w, r, s.cfg.AllowHosts) {
		return
	}
	if strings.HasPrefix(r.URL.Path, InternalPrefix) {
		if s.cfg.Internal == nil {
			http.NotFound(w, r)
			return
		}
		s.cfg.Internal.ServeHTTP(w, r)
		return
	}
	now := s.cfg.Clock.Now()
	path, query := wirePath(r)
	x := &exchange{
		w: w, r: r,
		req: wire.Request{Method: r.Method, EscapedPath: path, RawQuery: query, Host: r.Host, Header: r.Header},
		invocation: invocation{s: s, start: now, tls: r.TLS, call: awsapi.Call{
			RequestID: ids.UUID(),
			UserAgent: r.UserAgent(),
			Referer:   r.Referer(),
			TraceID:   r.Header.Get("X-Amzn-Trace-Id"),
			SourceIP:  sourceIP(r.RemoteAddr),
			Time:      now,
			Host:      r.Host,
			TLS:       r.TLS != nil,
		}},
	}
	if s.cfg.Origin != nil {
		if endpoint, address := s.cfg.Origin(r.RemoteAddr); address.IsValid() {
			x.call.VPCEndpoint, x.call.SourceIP = endpoint, address
		}
	}
	out, err := x.run()
	x.respond(out, err)
}

// run takes the exchange through every stage up to the handler's answer.
func (x *exchange) run() (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			out, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	for _, stage := range []func() error{
		x.readAuthorization, // who signed, and for which service and region
		x.readBody,
		x.route, // the service
		x.verify,
		x.findOperation,
		x.decode,
		x.refuse, // unsupported members
	} {
		if err := stage(); err != nil {
			return nil, err
		}
	}
	if x.s.cfg.Used != nil && x.auth != nil {
		if err := x.s.cfg.Used(x.r.Context(), &x.call); err != nil {
			return nil, fmt.Errorf("recording the use of %s: %w", x.call.Principal.AccessKeyID, err)
		}
	}
	x.askAgain()
	return x.perform(x.r.Context())
}

func (x *exchange) readAuthorization() error {
	if text, ok := strings.CutPrefix(x.req.Header.Get("Authorization"), instanceScheme); ok {
		x.identity = text
		return nil
	}
	auth, err := sigv4.Parse(x.signed())
	if e := (*sigv4.Error)(nil); errors.As(err, &e) && e.Kind == sigv4.Missing {
		return nil // some operations need no signature; route decides
	}
	if err != nil {
		x.authErr = err // route decides, if more is known about the intended service
		return nil
	}
	x.auth = auth
	x.call.Region = auth.Region
	if _, known := regions.Lookup(auth.Region); !known && auth.Region != "aws-global" {
		x.refusal = &sigv4.Error{Kind: sigv4.Scope, Message: fmt.Sprintf("Credential should be scoped to a valid region, not '%s'. ", auth.Region)}
	} else if len(bySigningName(auth.Service)) > 0 { // otherwise route rejects it
		x.pending, x.refusal = x.s.verifier.Begin(x.r.Context(), x.signed(), auth, auth.Service)
	}
	return nil
}

func (x *exchange) signed() *sigv4.Request {
	return &sigv4.Request{
		Method: x.req.Method, EscapedPath: x.req.EscapedPath, RawQuery: x.req.RawQuery,
		Host: x.req.Host, Header: x.req.Header, Body: x.req.Body, Length: x.r.ContentLength,
	}
}

func (x *exchange) verify() error {
	if x.identity != "" {
		return x.verifyInstance()
	}
	if x.auth == nil {
		x.call.Principal = awsapi.Principal{Type: awsapi.AnonymousCaller}
		x.unchunkAnonymous()
		return nil
	}
	if x.refusal != nil {
		return x.refusal
	}
	if partitionWide[x.service.Name] || x.call.Region == "aws-global" {
		// AWS insists on us-east-1 here. Clients that are configured with an endpoint URL sign for whatever region
		// they have (botocore's rules then drop the partition's signing region), so any region is accepted. AWS
		// deviation: a wrong region for a global service is not an error.
		x.call.Region = "us-east-1"
	}
	verify := func() (*sigv4.Verified, error) { return x.pending.Finish(x.signed()) }
	if x.streams() {
		verify = x.stream
	}
	got, err := verify()
	if err != nil {
		return err
	}
	x.call.Principal = got.Principal
	x.call.Account = got.Principal.Account
	x.call.Signature = awsapi.Signature{At: x.auth.Time, Presigned: x.auth.Presigned, Payload: x.req.Header.Get("X-Amz-Content-Sha256")}
	if len(got.Body) != len(x.req.Body) { // the body came in chunks
		x.unchunkHeader()
	}
	x.req.Body = got.Body
	return nil
}

// unchunkHeader changes the header to that of the body without S3's chunks.
func (x *exchange) unchunkHeader() {
	x.req.Header = x.req.Header.Clone()
	x.req.Header.Del("Content-Length")
	if rest := withoutChunked(x.req.Header.Get("Content-Encoding")); rest != "" {
		x.req.Header.Set("Content-Encoding", rest)
	} else {
		x.req.Header.Del("Content-Encoding")
	}
}

// partitionWide are the services that have one region for all.
var partitionWide = map[string]bool{"iam": true, "route53": true}

// withoutChunked removes S3's own framing from a list of encodings; the rest belongs to the object.
func withoutChunked(encodings string) string {
	var kept []string
	for e := range strings.SplitSeq(encodings, ",") {
		if e = strings.TrimSpace(e); e != "" && e != "aws-chunked" {
			kept = append(kept, e)
		}
	}
	return strings.Join(kept, ", ")
}

func (x *exchange) decode() error {
	x.in = x.handler.newInput()
	req := x.req
	req.EscapedPath = x.restPath(x.service)
	if x.auth != nil && x.auth.Presigned {
		req.RawQuery = withoutSignature(req.RawQuery)
	}
	x.addQueueURL(&req)
	members, err := wire.Decode(x.op, &req, x.in)
	if err != nil {
		return err
	}
	x.call.Members = members
	return nil
}

func (x *exchange) refuse() error {
	refused := x.handler.refused(x.call.Members, x.in)
	if len(refused) == 0 {
		return nil
	}
	return notHonoured(x.handler.action(), refused)
}

// respond writes the answer and the journal's entry.
func (x *exchange) respond(out any, err error) {
	var resp *wire.Response
	if f := fault.Of(err); f != nil {
		x.noteFault(f, err)
	}
	if err == nil {
		resp, err = x.encode(out)
	}
	if err != nil {
		svc := x.service
		if svc == nil {
			svc = x.guessService()
		}
		err = x.clientError(svc, err)
		resp = wire.EncodeErrorAs(svc, x.op, err, x.call.RequestID, x.r.Header.Get("Accept"))
	}
	h := x.w.Header()
	for k, v := range resp.Header {
		h[k] = v
	}
	h.Set("X-Amzn-Requestid", x.call.RequestID)
	// The length of a stream, and of what HEAD leaves out, is a member of the answer.
	bodyless := resp.Stream != nil || resp.Status == http.StatusNotModified || x.r.Method == http.MethodHead && h.Get("Content-Length") != ""
	if !bodyless {
		h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
	}
	x.w.WriteHeader(resp.Status)
	whole := true
	if resp.Stream != nil {
		whole = x.send(resp.Stream)
	} else {
		x.write(resp)
	}
	x.record(resp.Status, out, err)
	if err == nil && x.handler != nil && !x.handler.readOnly {
		x.changing()
	}
	if !whole {
		panic(http.ErrAbortHandler) // so that the client notices
	}
}

// changing reports a change to Config.Changing. The caller of an unsigned request has no account, so that its change is one of the
// owner's account.
func (x *exchange) changing() {
	call := x.call
	call.Account = cmp.Or(call.Account, x.owner)
	if x.s.cfg.Changing != nil && call.Account != "" {
		x.s.cfg.Changing(context.WithoutCancel(x.r.Context()), &call)
	}
}

// encode renders a handler's answer. A panic there is treated like a panic in the handler.
func (x *exchange) encode(out any) (resp *wire.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, fmt.Errorf("panic while encoding: %v\n%s", p, debug.Stack())
		}
	}()
	if x.again != nil && out == x.again.out {
		return x.again.resp, nil
	}
	resp, err = wire.Encode(x.op, out, x.call.RequestID, x.r.Header.Get("Accept"))
	if err == nil && x.asOf != nil {
		x.s.answers.keep(x.question, x.asOf, out, resp, x.call.RequestID)
	}
	return resp, err
}

// clientError turns err into the error that the client may see, and logs what it may not.
func (x *exchange) clientError(svc *model.Service, err error) error {
	if e := (*sigv4.Error)(nil); errors.As(err, &e) {
		return authError(svc, e)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		coded := (*awserr.Error)(nil)
		if errors.As(err, &coded) && coded.Cause != nil {
			level := slog.LevelWarn // a refusal is no fault of Drydock's
			if coded.ErrorFault() == smithy.FaultServer {
				level = slog.LevelError
			}
			x.log(x.r.Context(), level, "request failed", coded.Cause)
		}
		if coded != nil && coded.Code == awserr.CodeNotImplemented {
			return withSupports(coded, x.service, x.op)
		}
		return err
	}
	if x.r.Context().Err() != nil {
		return awserr.New("RequestTimeout", "The client went away.") // the client sees nothing of it
	}
	x.log(x.r.Context(), slog.LevelError, "request failed with an internal error", err)
	return internalFailure(svc)
}

// wirePath returns a request's path and query as the client sent them. The signature covers them undecoded, and an
// escaped slash is not a separator.
func wirePath(r *http.Request) (path, query string) {
	path, query, _ = strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") { // absolute form, OPTIONS *, or a request in a test
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
	}
	if path == "" {
		path = "/"
	}
	return path, query
}

func sourceIP(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap()
}

// validRegion distinguishes a region's name in a host name from other labels.
func validRegion(s string) bool {
	if len(s) == 0 || len(s) > 32 || s[0] == '-' || s[len(s)-1] == '-' || !strings.Contains(s, "-") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// withoutSignature removes the signature's parameters from a presigned URL's query, because they are not parameters
// of the operation.
func withoutSignature(rawQuery string) string {
	var kept []string
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if !strings.HasPrefix(pair, "X-Amz-") {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

package balancer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// server is the header Server of an answer that comes from an Application Load Balancer itself.
const serverName = "awselb/2.0"

// ServeHTTP answers a request to a listener for HTTP.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := l.want.Load()
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if want.Web.DropInvalid {
		for name := range r.Header {
			if strings.ContainsFunc(name, func(c rune) bool {
				return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
			}) {
				delete(r.Header, name)
			}
		}
	}
	rule := &want.Rules[len(want.Rules)-1]
	for i := range want.Rules {
		if meets(want.Rules[i].Conditions, r, client.Addr()) {
			rule = &want.Rules[i]
			break
		}
	}
	a := rule.Action
	switch a.Type {
	case elbv2types.ActionTypeEnumFixedResponse:
		l.fixed(w, want, a.FixedResponseConfig)
	case elbv2types.ActionTypeEnumRedirect:
		l.redirect(w, r, want, a.RedirectConfig)
	case elbv2types.ActionTypeEnumForward:
		l.forward(w, r, want, a, client)
	default:
		l.answer(w, want, http.StatusNotImplemented)
	}
}

// headers sets the headers that a load balancer adds to all answers.
func headers(h http.Header, want *Listener) {
	for k, v := range want.Web.Headers {
		h.Set(k, v)
	}
	if want.Web.NoServer {
		h.Del("Server")
	}
}

func (l *listener) fixed(w http.ResponseWriter, want *Listener, c *elbv2types.FixedResponseActionConfig) {
	code, err := strconv.Atoi(aws.ToString(c.StatusCode))
	if err != nil || code < 200 || code > 599 {
		code = http.StatusInternalServerError
	}
	h := w.Header()
	h.Set("Server", serverName)
	if body := aws.ToString(c.MessageBody); body != "" || c.ContentType != nil {
		h.Set("Content-Type", or(aws.ToString(c.ContentType), "text/plain"))
	}
	h.Set("Content-Length", strconv.Itoa(len(aws.ToString(c.MessageBody))))
	headers(h, want)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, aws.ToString(c.MessageBody)) // the client may have gone
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// redirect sends the client elsewhere. A client that came by a port of this machine gets the port that stands for the
// listener it is sent to.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-action-types.html#redirect-actions
func (l *listener) redirect(w http.ResponseWriter, r *http.Request, want *Listener, c *elbv2types.RedirectActionConfig) {
	protocol := strings.ToLower(want.Protocol)
	fill := func(s *string, otherwise string) string {
		return strings.NewReplacer(
			"#{protocol}", protocol, "#{host}", hostOf(r), "#{port}", strconv.Itoa(int(want.Port)),
			"#{path}", strings.TrimPrefix(r.URL.EscapedPath(), "/"), "#{query}", r.URL.RawQuery,
		).Replace(or(aws.ToString(s), otherwise))
	}
	to := strings.ToLower(fill(c.Protocol, "#{protocol}"))
	host, port := fill(c.Host, "#{host}"), fill(c.Port, "#{port}")
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && host == hostOf(r) && portOf(r) == l.local {
		if local := l.b.local(uint16(n)); local != 0 {
			port = strconv.Itoa(int(local))
		}
	}
	location := to + "://" + host + ":" + port + fill(c.Path, "/#{path}")
	if q := fill(c.Query, "#{query}"); q != "" {
		location += "?" + q
	}
	code := http.StatusFound
	if c.StatusCode == elbv2types.RedirectActionStatusCodeEnumHttp301 {
		code = http.StatusMovedPermanently
	}
	w.Header().Set("Location", location)
	l.answer(w, want, code)
}

// local returns the port on this machine that stands for a port of the load balancer, or 0.
func (b *running) local(port uint16) uint16 {
	b.plane.mu.Lock()
	defer b.plane.mu.Unlock()
	if l := b.listeners[port]; l != nil {
		return l.local
	}
	return 0
}

// answer answers for the load balancer itself.
func (l *listener) answer(w http.ResponseWriter, want *Listener, code int) {
	text := http.StatusText(code)
	switch code {
	case http.StatusServiceUnavailable:
		text = "Service Temporarily Unavailable"
	case http.StatusGatewayTimeout:
		text = "Gateway Time-out"
	}
	title := fmt.Sprintf("%d %s", code, text)
	body := "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title + "</h1></center>\r\n</body>\r\n</html>\r\n"
	h := w.Header()
	if want.Web.Classic { // seen from Classic Load Balancers, from memory
		body = ""
	} else {
		h.Set("Server", serverName)
		h.Set("Content-Type", "text/html")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	headers(h, want)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body) // the client may have gone
}

// forward forwards a request to a target.
func (l *listener) forward(w http.ResponseWriter, r *http.Request, want *Listener, a elbv2types.Action, client netip.AddrPort) {
	g, keepGroup := l.group(r, a)
	if g == nil {
		l.answer(w, want, http.StatusServiceUnavailable)
		return
	}
	sticky := g.sticky()
	t, ok := g.pick(client, sticky.wanted(g, r))
	if !ok {
		l.b.plane.log.Debug("a load balancer has no target", "name", l.b.name, "port", want.Port)
		l.answer(w, want, http.StatusServiceUnavailable)
		return
	}
	defer t.busy()()
	// A target has the idle time-out to begin its answer, once it has the request.
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	idle := cmp.Or(want.Web.Idle, time.Minute)
	var answered atomic.Bool // perhaps before the target has the whole request
	patience := time.AfterFunc(idle, func() {
		if !answered.Load() {
			cancel(context.DeadlineExceeded)
		}
	})
	defer patience.Stop()
	patience.Stop()
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { patience.Reset(idle) }}))
	proxy := httputil.ReverseProxy{
		Transport: t.transport,
		Rewrite:   func(p *httputil.ProxyRequest) { l.rewrite(p, want, &t, client) },
		ModifyResponse: func(resp *http.Response) error {
			answered.Store(true)
			sticky.set(resp, r, t.target)
			if keepGroup > 0 {
				setCookies(resp.Header, "AWSALBTG", value(g.id, TargetID{}), keepGroup)
			}
			headers(resp.Header, want)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			l.b.plane.log.Debug("a load balancer does not get an answer", "name", l.b.name, "target", t.TargetID.ID, "port", t.Port, "err", err)
			code := http.StatusBadGateway
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				code = http.StatusGatewayTimeout
			}
			if code != http.StatusGatewayTimeout && errors.Is(err, context.Canceled) {
				code = 460 // the client has closed the connection
			}
			l.answer(w, want, code)
		},
		ErrorLog: l.server.ErrorLog,
	}
	proxy.ServeHTTP(w, r)
}

// group returns the target group for a request, and for how long the client is to stay with it.
func (l *listener) group(r *http.Request, a elbv2types.Action) (*group, time.Duration) {
	var keep time.Duration
	id := ""
	if c := a.ForwardConfig; c != nil && c.TargetGroupStickinessConfig != nil && aws.ToBool(c.TargetGroupStickinessConfig.Enabled) {
		keep = time.Duration(aws.ToInt32(c.TargetGroupStickinessConfig.DurationSeconds)) * time.Second
		if cookie := remembered(r, "AWSALBTG"); cookie != "" {
			groups, _, _ := weights(a)
			if i := slices.IndexFunc(groups, func(id string) bool { return value(id, TargetID{}) == cookie }); i >= 0 {
				id = groups[i]
			}
		}
	}
	id = or(id, chosen(a))
	l.b.plane.mu.Lock()
	defer l.b.plane.mu.Unlock()
	return l.b.groups[id], keep
}

// rewrite makes the request to a target.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/x-forwarded-headers.html
func (l *listener) rewrite(p *httputil.ProxyRequest, want *Listener, t *choice, client netip.AddrPort) {
	p.SetURL(&url.URL{Scheme: t.scheme(), Host: net.JoinHostPort(t.To.Host(), strconv.Itoa(int(t.Port)))})
	p.Out.Host, p.Out.URL.RawQuery = p.In.Host, p.In.URL.RawQuery // as the client wrote it
	h := p.Out.Header
	for _, name := range []string{"Forwarded", "X-Forwarded-Host"} { // not the load balancer's
		if v := p.In.Header.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	h.Set("X-Forwarded-Proto", strings.ToLower(want.Protocol))
	h.Set("X-Forwarded-Port", strconv.Itoa(int(want.Port)))
	from := client.Addr().String()
	if want.Web.ClientPort {
		from = client.String()
	}
	before := p.In.Header.Values("X-Forwarded-For")
	switch want.Web.ForwardedFor {
	case "remove":
		h.Del("X-Forwarded-For")
	case "preserve":
		h["X-Forwarded-For"] = before
	default:
		h.Set("X-Forwarded-For", strings.Join(append(slices.Clone(before), from), ", "))
	}
	if want.Web.Classic {
		return
	}
	h.Set("X-Amzn-Trace-Id", trace(p.In.Header.Get("X-Amzn-Trace-Id"), time.Now()))
	if s := p.In.TLS; s != nil && want.Web.TLSHeaders {
		h.Set("X-Amzn-Tls-Version", strings.ReplaceAll(tls.VersionName(s.Version), "TLS ", "TLSv"))
		h.Set("X-Amzn-Tls-Cipher-Suite", tls.CipherSuiteName(s.CipherSuite))
	}
	h.Del("X-Amzn-Mtls-Clientcert")
	if s := p.In.TLS; s != nil && want.ClientCertificates && len(s.PeerCertificates) > 0 {
		var chain []byte
		for _, c := range s.PeerCertificates {
			chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		h.Set("X-Amzn-Mtls-Clientcert", safeEscape.Replace(url.QueryEscape(string(chain))))
	}
}

// safeEscape leaves the characters that AWS does not escape in a certificate.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/mutual-authentication.html
var safeEscape = strings.NewReplacer("+", "%20", "%2B", "+", "%2F", "/", "%3D", "=")

// trace returns the trace ID of a request, which may have one already.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-request-tracing.html
func trace(before string, now time.Time) string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails
	id := fmt.Sprintf("1-%08x-%s", now.Unix(), hex.EncodeToString(b))
	if !strings.Contains(before, "Root=") {
		return strings.TrimSuffix("Root="+id+";"+before, ";")
	}
	kept := slices.DeleteFunc(strings.Split(before, ";"), func(f string) bool { return strings.HasPrefix(f, "Self=") })
	return "Self=" + id + ";" + strings.Join(kept, ";")
}

func (t *choice) scheme() string {
	if t.Protocol == "HTTPS" {
		return "https"
	}
	return "http"
}

// newTarget returns a target, with connections of its own.
func newTarget(g *group, w Target) *target {
	t := &target{Target: w, g: g, conns: map[net.Conn]struct{}{}}
	t.checkPort.Store(uint32(w.CheckPort))
	t.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectPatience)
			defer cancel()
			defer context.AfterFunc(g.ctx, cancel)()
			c, err := t.dial(ctx, "", netip.AddrPort{})
			if err != nil {
				return nil, err
			}
			return &kept{Conn: c, t: t}, nil
		},
		TLSClientConfig: anyTarget(), DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: connectPatience, MaxResponseHeaderBytes: 64 << 10, Protocols: protocolsOf(g.cfg.ProtocolVersion),
	}
	return t
}

// kept is a connection of a target.
type kept struct {
	net.Conn
	t *target
}

// Close implements net.Conn.
func (k *kept) Close() error { return k.t.done(k.Conn) }

// protocolsOf returns the protocols of connections to targets, by the group's protocol version.
func protocolsOf(version string) *http.Protocols {
	var p http.Protocols
	if version == "HTTP2" || version == "GRPC" {
		p.SetHTTP2(true)
		p.SetUnencryptedHTTP2(true)
	} else {
		p.SetHTTP1(true)
	}
	return &p
}

func (g *group) sticky() Sticky {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cfg.Sticky
}

// name returns the name of the cookie in which the load balancer remembers a client's target.
func (s Sticky) name() string {
	switch s.Kind {
	case "lb_cookie":
		return "AWSALB"
	case "app_cookie":
		return "AWSALBAPP-0"
	}
	return s.Kind // of a Classic Load Balancer: AWSELB
}

// wanted returns what recognizes the target that a client stays with, or nil if it has none.
func (s Sticky) wanted(g *group, r *http.Request) func(*target) bool {
	if s.Kind == "" || s.Kind == "source_ip" {
		return nil
	}
	c := remembered(r, s.name())
	if c == "" {
		return nil
	}
	if s.Cookie != "" {
		if _, err := r.Cookie(s.Cookie); err != nil {
			return nil
		}
	}
	return func(t *target) bool { return value(g.id, t.TargetID) == c }
}

// remembered returns the value of a load balancer's cookie, or of the one for requests from other sites.
func remembered(r *http.Request, name string) string {
	for _, n := range []string{name, name + "CORS"} {
		if c, err := r.Cookie(n); err == nil {
			return c.Value
		}
	}
	return ""
}

// set sets the cookie with the target.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html#sticky-sessions
func (s Sticky) set(resp *http.Response, r *http.Request, t *target) {
	if s.Kind == "" || s.Kind == "source_ip" {
		return
	}
	if s.Cookie != "" { // only if the application sets its own, or the client has it
		_, err := r.Cookie(s.Cookie)
		if err != nil && !slices.ContainsFunc(resp.Cookies(), func(c *http.Cookie) bool { return c.Name == s.Cookie }) {
			return
		}
	}
	setCookies(resp.Header, s.name(), value(t.g.id, t.TargetID), s.Duration)
}

// setCookies sets a cookie of the load balancer, and for Application Load Balancers the one for requests from other
// sites.
func setCookies(h http.Header, name, v string, d time.Duration) {
	c := http.Cookie{Name: name, Value: v, Path: "/"}
	if d > 0 {
		c.Expires = time.Now().Add(d).UTC()
	}
	h.Add("Set-Cookie", c.String())
	if name == "AWSALB" || name == "AWSALBTG" {
		c.Name, c.SameSite, c.Secure = name+"CORS", http.SameSiteNoneMode, true
		h.Add("Set-Cookie", c.String())
	}
}

// value is a cookie's value that stands for a target. It says nothing about it, and is the same after a restart.
func value(group string, t TargetID) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", group, t.ID, t.Port))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func discard(r io.Reader) (int64, error) { return io.Copy(io.Discard, io.LimitReader(r, 1<<20)) }

package elbv2_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// laptop is the address of clients.
var laptop = netip.MustParseAddr("203.0.113.7")

// backends stand for the targets of a world: programs by address and port.
type backends struct {
	mu      sync.Mutex
	at      map[netip.AddrPort]string // addresses on this machine
	known   map[netip.Addr]bool
	refused error // of the network, for clients
	dialled []balancer.Destination
}

func (b *backends) set(target, local string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[netip.MustParseAddrPort(target)] = local
	if b.known == nil {
		b.known = map[netip.Addr]bool{}
	}
	b.known[netip.MustParseAddrPort(target).Addr()] = true
}

func (b *backends) remove(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.at, netip.MustParseAddrPort(target))
}

func (b *backends) network() balancer.Network {
	return balancer.Network{
		Dial: func(ctx context.Context, _, _ string, to balancer.Destination) (net.Conn, error) {
			b.mu.Lock()
			b.dialled = append(b.dialled, to)
			local := b.at[netip.AddrPortFrom(to.Address, to.Port)]
			b.mu.Unlock()
			if local == "" {
				return nil, errors.New("connection refused")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", local)
		},
		Runs: func(_, _ string, to balancer.Destination) bool { // those that a test has given an address on this machine
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.known[to.Address]
		},
		Admit: func(context.Context, string, string, string, string, uint16) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.refused
		},
	}
}

// echo serves HTTP at a target and answers with its name and what it was sent.
func (w *world) echo(name, target string) *httptest.Server {
	w.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.UserAgent(), "HealthChecker/2.0") {
			return
		}
		if r.URL.Path == "/login" {
			http.SetCookie(rw, &http.Cookie{Name: "session", Value: "1"})
		}
		fmt.Fprintf(rw, "%s %s %s\n", name, r.Method, r.URL)
		_ = r.Header.Write(rw)
	}))
	w.Cleanup(s.Close)
	w.backends.set(target, s.Listener.Addr().String())
	return s
}

// local returns the address on this machine of a listener.
func (w *world) local(lb elbv2types.LoadBalancer, port uint16) string {
	w.Helper()
	var out string
	testkit.Eventually(w, 10*time.Second, func() error {
		for _, l := range w.plane.Open(elbv2.TrafficKey(w.account, testkit.Region, *lb.LoadBalancerArn)) {
			if l.Port == port && l.Local != 0 {
				out = fmt.Sprintf("127.0.0.1:%d", l.Local)
				return nil
			}
		}
		return fmt.Errorf("no listener at port %d", port)
	})
	return out
}

// ips creates a target group with addresses as targets, and waits until they are healthy once it is in use.
func (w *world) ips(name string, protocol elbv2types.ProtocolEnum, addresses ...string) string {
	w.Helper()
	g := w.group(name, protocol, 8080, elbv2types.TargetTypeEnumIp)
	for _, a := range addresses {
		testkit.Must(w.RegisterTargets(context.Background(), &awselbv2.RegisterTargetsInput{TargetGroupArn: &g, Targets: []elbv2types.TargetDescription{{Id: &a}}}))(w)
	}
	return g
}

// healthy waits until the targets of groups have passed real health checks.
func (w *world) healthy(groups ...string) {
	w.Helper()
	w.find(elbnet.TimedOut) // what targets are that are not checked yet
	for _, g := range groups {
		testkit.Eventually(w, 10*time.Second, func() error {
			if h := w.health(g); strings.Trim(strings.ReplaceAll(h, "healthy", ""), ", ") != "" || h == "" || strings.Contains(h, "unhealthy") {
				return errors.New(h)
			}
			return nil
		})
	}
}

// get returns the status, the headers and the body of an answer. Redirects are not followed.
func get(t testing.TB, c *http.Client, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if change != nil {
		change(r)
	}
	if c == nil {
		c = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	}
	resp := testkit.Must(c.Do(r))(t)
	defer resp.Body.Close()
	return resp, string(testkit.Must(io.ReadAll(resp.Body))(t))
}

// Rules decide by host, path, header, method, query and source; the load balancer's own answers are AWS's; requests carry the
// headers of an Application Load Balancer.
func TestApplicationTraffic(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	lb := w.application("alb")
	program := w.echo("blue", "172.31.0.50:8080")
	w.echo("green", "172.31.0.51:8080")
	blue, green := w.ips("blue", elbv2types.ProtocolEnumHttp, "172.31.0.50"), w.ips("green", elbv2types.ProtocolEnumHttp, "172.31.0.51")
	l := w.listen(*lb.LoadBalancerArn, elbv2types.ProtocolEnumHttp, 80, blue)
	priority := int32(0)
	rule := func(c elbv2types.RuleCondition, a ...elbv2types.Action) {
		t.Helper()
		priority++
		testkit.Must(w.CreateRule(ctx, &awselbv2.CreateRuleInput{ListenerArn: &l, Priority: &priority, Conditions: []elbv2types.RuleCondition{c}, Actions: a}))(t)
	}
	toGreen := forward(green)[0]
	rule(elbv2types.RuleCondition{Field: aws.String("path-pattern"), PathPatternConfig: &elbv2types.PathPatternConditionConfig{Values: []string{"/gone/*"}}},
		elbv2types.Action{Type: elbv2types.ActionTypeEnumFixedResponse, FixedResponseConfig: &elbv2types.FixedResponseActionConfig{StatusCode: aws.String("410"), ContentType: aws.String("application/json"), MessageBody: aws.String(`{"gone":true}`)}})
	rule(elbv2types.RuleCondition{Field: aws.String("path-pattern"), PathPatternConfig: &elbv2types.PathPatternConditionConfig{Values: []string{"/old"}}},
		elbv2types.Action{Type: elbv2types.ActionTypeEnumRedirect, RedirectConfig: &elbv2types.RedirectActionConfig{StatusCode: elbv2types.RedirectActionStatusCodeEnumHttp301, Protocol: aws.String("HTTPS"), Port: aws.String("443"), Path: aws.String("/new/#{path}")}})
	rule(elbv2types.RuleCondition{Field: aws.String("host-header"), HostHeaderConfig: &elbv2types.HostHeaderConditionConfig{Values: []string{"*.Green.example"}}}, toGreen)
	rule(elbv2types.RuleCondition{Field: aws.String("http-header"), HttpHeaderConfig: &elbv2types.HttpHeaderConditionConfig{HttpHeaderName: aws.String("X-Color"), Values: []string{"gr*n"}}}, toGreen)
	rule(elbv2types.RuleCondition{Field: aws.String("http-request-method"), HttpRequestMethodConfig: &elbv2types.HttpRequestMethodConditionConfig{Values: []string{"DELETE"}}}, toGreen)
	rule(elbv2types.RuleCondition{Field: aws.String("query-string"), QueryStringConfig: &elbv2types.QueryStringConditionConfig{Values: []elbv2types.QueryStringKeyValuePair{{Key: aws.String("color"), Value: aws.String("green")}}}}, toGreen)
	rule(elbv2types.RuleCondition{Field: aws.String("source-ip"), SourceIpConfig: &elbv2types.SourceIpConditionConfig{Values: []string{"198.51.100.0/24"}}}, toGreen)
	w.healthy(blue, green)
	at := "http://" + w.local(lb, 80)

	testkit.Eventually(t, 10*time.Second, func() error { // until the last of these rules is in force
		if _, body := get(t, nil, at+"/?color=green", nil); !strings.HasPrefix(body, "green ") {
			return errors.New(body)
		}
		return nil
	})
	for _, tt := range []struct {
		what, path, want string
		change           func(*http.Request)
	}{
		{"the default action", "/", "blue GET /", nil},
		{"a host", "/", "green GET /", func(r *http.Request) { r.Host = "www.green.EXAMPLE:8443" }},
		{"another host", "/", "blue GET /", func(r *http.Request) { r.Host = "green.example" }},
		{"a header", "/", "green GET /", func(r *http.Request) { r.Header.Set("X-Color", "GREEN") }},
		{"a method", "/", "green DELETE /", func(r *http.Request) { r.Method = http.MethodDelete }},
		{"a query", "/?a=b&Color=green", "green GET /?a=b&Color=green", nil},
		{"another query", "/?color=greenish", "blue GET /?color=greenish", nil},
		{"the path is compared with its case", "/GONE/1", "blue GET /GONE/1", nil},
	} {
		if resp, body := get(t, nil, at+tt.path, tt.change); resp.StatusCode != 200 || !strings.HasPrefix(body, tt.want+"\n") {
			t.Errorf("%s: %d %s", tt.what, resp.StatusCode, body)
		}
	}
	if resp, body := get(t, nil, at+"/gone/1", nil); resp.StatusCode != 410 || body != `{"gone":true}` || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Server") != "awselb/2.0" {
		t.Errorf("a fixed response: %v %s", resp, body)
	}
	if resp, _ := get(t, nil, at+"/old?x=1", func(r *http.Request) { r.Host = "app.example" }); resp.StatusCode != 301 || resp.Header.Get("Location") != "https://app.example:443/new/old?x=1" {
		t.Errorf("a redirect: %v", resp)
	}
	_, body := get(t, nil, at+"/", func(r *http.Request) {
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		r.Header.Set("X-Amzn-Trace-Id", "Root=1-67891233-abcdef012345678912345678")
	})
	for _, want := range []string{
		"X-Forwarded-For: 192.0.2.1, 203.0.113.7\r\n", "X-Forwarded-Port: 80\r\n", "X-Forwarded-Proto: http\r\n", ";Root=1-67891233-abcdef012345678912345678\r\n", "X-Amzn-Trace-Id: Self=1-",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}

	// Without a healthy target, all get traffic; one that does not answer is a bad gateway; without a target, there is no service.
	w.backends.remove("172.31.0.50:8080")
	program.Close()
	testkit.Eventually(t, 10*time.Second, func() error {
		if h := w.health(blue); h != "unhealthy Target.FailedHealthChecks" {
			return errors.New(h)
		}
		return nil
	})
	if resp, body := get(t, nil, at+"/", nil); resp.StatusCode != 502 || !strings.Contains(body, "<center><h1>502 Bad Gateway</h1></center>") {
		t.Errorf("%v %s", resp, body)
	}
	testkit.Must(w.DeregisterTargets(ctx, &awselbv2.DeregisterTargetsInput{TargetGroupArn: &blue, Targets: []elbv2types.TargetDescription{{Id: aws.String("172.31.0.50")}}}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if resp, body := get(t, nil, at+"/", nil); resp.StatusCode != 503 || !strings.Contains(body, "503 Service Temporarily Unavailable") {
			return fmt.Errorf("%v %s", resp, body)
		}
		return nil
	})

	// A client that the network does not let through gets no answer.
	w.backends.mu.Lock()
	w.backends.refused = errors.New("no rule allows it")
	w.backends.mu.Unlock()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	r := testkit.Must(http.NewRequestWithContext(short, http.MethodGet, at, nil))(t)
	if resp, err := new(http.Client).Do(r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", resp, err)
	}
}

// Clients stay with a target by the load balancer's cookie or by the application's, and with a target group.
func TestStickySessions(t *testing.T) {
	w := newWorld(t)
	lb := w.application("alb")
	w.echo("one", "172.31.0.50:8080")
	w.echo("two", "172.31.0.51:8080")
	g := w.ips("g", elbv2types.ProtocolEnumHttp, "172.31.0.50", "172.31.0.51")
	l := w.listen(*lb.LoadBalancerArn, elbv2types.ProtocolEnumHttp, 80, g)
	w.healthy(g)
	at := "http://" + w.local(lb, 80)
	seen := func(c *http.Client) string {
		t.Helper()
		_, body := get(t, c, at, nil)
		return body[:3]
	}
	spread := map[string]bool{}
	for range 4 {
		spread[seen(nil)] = true
	}
	if len(spread) != 2 {
		t.Fatalf("all requests went to %v", spread)
	}

	attribute := func(kv ...string) {
		t.Helper()
		in := &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &g}
		for i := 0; i < len(kv); i += 2 {
			in.Attributes = append(in.Attributes, elbv2types.TargetGroupAttribute{Key: &kv[i], Value: &kv[i+1]})
		}
		testkit.Must(w.ModifyTargetGroupAttributes(t.Context(), in))(t)
	}
	stays := func(path, cookie string) {
		t.Helper()
		var jar string
		var first string
		testkit.Eventually(t, 10*time.Second, func() error {
			resp, body := get(t, nil, at+path, nil)
			jar, first = "", body[:3]
			for _, c := range resp.Cookies() {
				jar += c.Name + "=" + c.Value + "; "
			}
			if !strings.Contains(jar, cookie+"=") {
				return fmt.Errorf("no cookie %s in %q", cookie, jar)
			}
			return nil
		})
		for range 5 {
			if _, body := get(t, nil, at, func(r *http.Request) { r.Header.Set("Cookie", jar) }); body[:3] != first {
				t.Errorf("a client of %s with %s was sent to %s", first, jar, body[:3])
			}
		}
	}
	attribute("stickiness.enabled", "true", "stickiness.lb_cookie.duration_seconds", "60")
	stays("/", "AWSALB")
	attribute("stickiness.type", "app_cookie", "stickiness.app_cookie.cookie_name", "session")
	stays("/login", "AWSALBAPP-0")

	attribute("stickiness.enabled", "false")
	w.echo("three", "172.31.0.52:8080")
	other := w.ips("other", elbv2types.ProtocolEnumHttp, "172.31.0.52")
	both := forward(g, other)
	both[0].ForwardConfig.TargetGroupStickinessConfig = &elbv2types.TargetGroupStickinessConfig{Enabled: aws.Bool(true), DurationSeconds: aws.Int32(60)}
	both[0].ForwardConfig.TargetGroups[0].Weight = aws.Int32(0)
	testkit.Must(w.ModifyListener(t.Context(), &awselbv2.ModifyListenerInput{ListenerArn: &l, DefaultActions: both}))(t)
	stays("/", "AWSALBTG") // only the other has weight
	if got := seen(nil); got != "thr" {
		t.Errorf("a target group without weight was chosen: %s", got)
	}
}

// pair makes a certificate for a name that signs itself.
func pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	return tls.Certificate{Certificate: [][]byte{testkit.Must(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key))(t)}, PrivateKey: key}
}

// A TLS listener has the certificate for the client's server name, and only the versions of its policy.
func TestTLSTraffic(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	lb := w.application("alb")
	arns := map[string]string{}
	for _, name := range []string{"one.example", "two.example"} {
		arns[name] = "arn:aws:acm:" + testkit.Region + ":" + w.account + ":certificate/" + uuid.NewString()
		w.pairs.Store(arns[name], pair(t, name))
	}
	w.echo("one", "172.31.0.50:8080")
	g := w.ips("g", elbv2types.ProtocolEnumHttp, "172.31.0.50")
	l := testkit.Must(w.CreateListener(ctx, &awselbv2.CreateListenerInput{
		LoadBalancerArn: lb.LoadBalancerArn, Protocol: elbv2types.ProtocolEnumHttps, Port: aws.Int32(443), SslPolicy: aws.String("ELBSecurityPolicy-TLS13-1-2-2021-06"),
		Certificates: []elbv2types.Certificate{{CertificateArn: aws.String(arns["one.example"])}}, DefaultActions: forward(g),
	}))(t).Listeners[0]
	testkit.Must(w.AddListenerCertificates(ctx, &awselbv2.AddListenerCertificatesInput{ListenerArn: l.ListenerArn, Certificates: []elbv2types.Certificate{{CertificateArn: aws.String(arns["two.example"])}}}))(t)
	w.healthy(g)
	at := w.local(lb, 443)
	handshake := func(name string, highest uint16) (string, error) {
		c, err := (&tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true, MaxVersion: highest}}).DialContext(ctx, "tcp", at) //nolint:gosec // the test reads the certificate
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames[0], nil
	}
	for name, want := range map[string]string{"one.example": "one.example", "two.example": "two.example", "other.example": "one.example"} {
		testkit.Eventually(t, 10*time.Second, func() error {
			if got, err := handshake(name, 0); err != nil || got != want {
				return fmt.Errorf("for %s: %s, %w", name, got, err)
			}
			return nil
		})
	}
	if got, err := handshake("one.example", tls.VersionTLS11); err == nil {
		t.Errorf("TLS 1.1 was agreed about: %s", got)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}} //nolint:gosec // as above
	resp, body := get(t, c, "https://"+at, nil)
	if resp.ProtoMajor != 2 || !strings.Contains(body, "X-Forwarded-Proto: https\r\n") {
		t.Errorf("%s %s", resp.Proto, body)
	}
	c.CloseIdleConnections()
}

// A Network Load Balancer carries bytes both ways, tells the target about the client by the proxy protocol, and lets the
// connections of a removed target end. Its port on this machine survives a restart of the traffic.
func TestNetworkTraffic(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	lb := w.network("nlb")
	ln := testkit.Must(new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	w.backends.set("172.31.0.50:8080", ln.Addr().String())
	g := w.ips("g", elbv2types.ProtocolEnumTcp, "172.31.0.50")
	testkit.Must(w.ModifyTargetGroupAttributes(ctx, &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &g, Attributes: []elbv2types.TargetGroupAttribute{
		{Key: aws.String("proxy_protocol_v2.enabled"), Value: aws.String("true")}, {Key: aws.String("preserve_client_ip.enabled"), Value: aws.String("true")},
	}}))(t)
	w.listen(*lb.LoadBalancerArn, elbv2types.ProtocolEnumTcp, 9000, g)
	w.healthy(g)
	at := w.local(lb, 9000)
	c := testkit.Must(new(net.Dialer).DialContext(ctx, "tcp", at))(t).(*net.TCPConn)
	defer c.Close()
	testkit.Must(io.WriteString(c, "hello\n"))(t)
	head := make([]byte, 28)
	testkit.Must(io.ReadFull(c, head))(t)
	if want := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), laptop.AsSlice()...); !bytes.HasPrefix(head, want) {
		t.Errorf("the header of the proxy protocol is %x, want %x…", head, want)
	}
	said := bufio.NewReader(c)
	if line := testkit.Must(said.ReadString('\n'))(t); line != "hello\n" {
		t.Errorf("echoed %q", line)
	}
	w.backends.mu.Lock()
	client := netip.AddrPortFrom(laptop, c.LocalAddr().(*net.TCPAddr).AddrPort().Port())
	if !slices.ContainsFunc(w.backends.dialled, func(to balancer.Destination) bool { return to.Client == client }) {
		t.Error("no target was to see the client's address and port")
	}
	w.backends.mu.Unlock()

	testkit.Must(w.DeregisterTargets(ctx, &awselbv2.DeregisterTargetsInput{TargetGroupArn: &g, Targets: []elbv2types.TargetDescription{{Id: aws.String("172.31.0.50")}}}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if h := w.health(g); h != "draining Target.DeregistrationInProgress" {
			return errors.New(h)
		}
		return nil
	})
	testkit.Must(io.WriteString(c, "still here\n"))(t)
	if line := testkit.Must(said.ReadString('\n'))(t); line != "still here\n" {
		t.Errorf("echoed %q", line)
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if rest := testkit.Must(io.ReadAll(said))(t); len(rest) > 0 {
		t.Errorf("%q after the end", rest)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if h := w.health(g); h != "" {
			return errors.New(h)
		}
		return nil
	})
	testkit.Must(w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: lb.LoadBalancerArn}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", at); err == nil {
			_ = c.Close()
			return errors.New("the listener is still open")
		}
		return nil
	})
}

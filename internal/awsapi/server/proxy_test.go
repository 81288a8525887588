package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// proxied serves "here: PATH" with a proxy and returns the proxy's URL, a client
// that uses it, and what ends both.
func proxied(t *testing.T) (string, *http.Client, func()) {
	t.Helper()
	config, pool := certificate(t)
	ctx, stop := context.WithCancel(t.Context())
	ln, err := server.Listen(ctx, "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := server.NewProxy(ln, testkit.Log(t))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			if far, ok := strings.CutPrefix(r.Header.Get("Far"), "tcp "); ok { // as podrun does
				conn, err := net.Dial("tcp", far)
				if err != nil {
					t.Error(err)
					return
				}
				proxy.Tunnel(w, w.(http.Hijacker), conn)
				return
			}
			proxy.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, "here: "+r.Host+r.URL.Path)
	})
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(ctx, ln, handler, testkit.Log(t)) }()
	go func() { ended <- proxy.Run(ctx) }()
	end := func() {
		stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	address := "http://" + ln.Addr().String()
	through, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(through), TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return address, &http.Client{Transport: transport}, end
}

func TestProxyAnswersForAWS(t *testing.T) {
	_, client, end := proxied(t)
	defer end()
	res, err := client.Get("https://sts.eu-west-1.amazonaws.com/hello")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); string(b) != "here: sts.eu-west-1.amazonaws.com/hello" {
		t.Errorf("answered %q", b)
	}
}

// Tunnels end with the proxy.
func TestProxyTunnels(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "elsewhere") }))
	defer elsewhere.Close()
	_, client, end := proxied(t)
	client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true // the test server's own certificate
	client.Transport.(*http.Transport).ProxyConnectHeader = http.Header{"Far": {"tcp " + elsewhere.Listener.Addr().String()}}
	res, err := client.Get(elsewhere.URL)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(res.Body); string(b) != "elsewhere" {
		t.Errorf("answered %q", b)
	}
	res.Body.Close()
	end() // this also ends the tunnel, which the client keeps open
}

// A client that has finished sending still gets its answer.
func TestProxyLetsClientsHalfClose(t *testing.T) {
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	go func() {
		conn, err := elsewhere.Accept()
		if err != nil {
			return // the test has failed
		}
		defer conn.Close()
		said, _ := io.ReadAll(conn)
		_, _ = conn.Write(append([]byte("you said "), said...))
	}()
	address, _, end := proxied(t)
	defer end()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	target := elsewhere.Addr().String()
	if _, err := io.WriteString(conn, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\nFar: tcp "+target+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "you said hello" {
		t.Errorf("answered %q: %v", got, err)
	}
}

func TestProxyRefuses(t *testing.T) {
	address, _, end := proxied(t)
	defer end()
	// The attack: reach a service on this machine's loopback through the proxy.
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := inner.Accept(); err == nil {
			conn.Close()
			t.Error("the proxy dialed loopback")
		}
	}()
	defer inner.Close()
	for _, tt := range []struct{ name, target, want string }{
		{"a host without a port", "sts.eu-west-1.amazonaws.com", "400 Bad Request"},
		{"this machine's loopback", inner.Addr().String(), "421 Misdirected Request"},
		{"a name of it", "localhost:22", "421 Misdirected Request"},
		{"another machine", "example.org:443", "421 Misdirected Request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "CONNECT "+tt.target+" HTTP/1.1\r\nHost: "+tt.target+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, tt.want) {
				t.Errorf("answered %q, want %s", line, tt.want)
			}
		})
	}
	t.Run("another machine", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodConnect, "http://sts.eu-west-1.amazonaws.com:443", nil)
		r.RemoteAddr = "192.0.2.1:1024"
		w := httptest.NewRecorder()
		server.NewProxy(nil, testkit.Log(t)).ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("status %d", w.Code)
		}
	})
}

func TestAWSHost(t *testing.T) {
	for host, want := range map[string]bool{
		"ec2.us-east-1.amazonaws.com": true, "EKS.us-east-1.api.aws": true, "s3.amazonaws.com.": true,
		"amazonaws.com": false, "amazonaws.com.example.org": false, "notamazonaws.com": false, "example.org": false,
	} {
		if got := server.AWSHost(host); got != want {
			t.Errorf("AWSHost(%q) = %v", host, got)
		}
	}
}

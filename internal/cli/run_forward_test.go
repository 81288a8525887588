package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// fakeProxy is a daemon whose proxy serves AWS names and requires a token.
func fakeProxy(t *testing.T) *httptest.Server {
	t.Helper()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodConnect:
			http.NotFound(w, r)
		case r.Header.Get("Proxy-Authorization") != "Bearer t0ken":
			http.Error(w, "no token", http.StatusProxyAuthRequired)
		case !strings.HasSuffix(r.Host, ".amazonaws.com:443"):
			http.Error(w, "not Drydock's", http.StatusMisdirectedRequest)
		default:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\ndrydock")
		}
	}))
	t.Cleanup(daemon.Close)
	return daemon
}

// The proxy of drydock run adds the token by itself. It reaches other machines, but not
// services on this machine's loopback.
func TestRunProxy(t *testing.T) {
	daemon := fakeProxy(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	for _, tt := range []struct{ name, token, ask, want string }{
		{"a name of AWS's", "t0ken", "CONNECT sts.us-east-1.amazonaws.com:443", "200 Connection established|drydock"},
		{"another machine", "t0ken", "CONNECT example.org:443", "200 Connection established|elsewhere"},
		{"another machine that is not there", "t0ken", "CONNECT nowhere.example:443", "502 Bad Gateway|nobody"},
		{"loopback", "t0ken", "CONNECT " + inner.Addr().String(), "502 Bad Gateway|loopback or link-local"},
		{"the metadata of a cloud machine", "t0ken", "CONNECT 169.254.169.254:80", "502 Bad Gateway|loopback or link-local"},
		{"a token of an earlier daemon", "stale", "CONNECT sts.us-east-1.amazonaws.com:443", "407 Proxy Authentication Required|no token"},
		{"http", "t0ken", "GET http://example.org/a?b=c", "200 OK|GET /a?b=c"},
		{"http at loopback", "t0ken", "GET http://" + inner.Addr().String() + "/", "502 Bad Gateway|loopback or link-local"},
		{"no proxy request", "t0ken", "GET /", "400 Bad Request|CONNECT HOST:PORT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			f := newForwarder(daemon.URL, api.Bearer+tt.token, "")
			dial := f.outside
			f.outside = func(ctx context.Context, network, address string) (net.Conn, error) {
				switch address {
				case "example.org:443":
					near, far := net.Pipe()
					go func() {
						_, _ = io.WriteString(far, "elsewhere")
						_ = far.Close()
					}()
					return near, nil
				case "example.org:80":
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						if r, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
							_, _ = fmt.Fprintf(far, "HTTP/1.1 200 OK\r\n\r\n%s %s", r.Method, r.RequestURI)
						}
					}()
					return near, nil
				case "nowhere.example:443":
					return nil, &net.DNSError{Err: "nobody of that name"}
				}
				return dial(ctx, network, address)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.serve(ctx, ln)
			}()
			defer func() {
				cancel()
				<-done
			}()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, tt.ask+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			status, text, _ := strings.Cut(tt.want, "|")
			r := bufio.NewReader(conn)
			line, _ := r.ReadString('\n')
			rest, _ := io.ReadAll(r)
			if !strings.Contains(line, status) || !strings.Contains(string(rest), text) {
				t.Errorf("%q, then %q", line, rest)
			}
		})
	}
}

// The command gets its own proxy, without a secret in the URL, and the token in
// DRYDOCK_TOKEN. drydock run exits with the command's exit code.
func TestRunHasAProxyWithoutASecret(t *testing.T) {
	dir := t.TempDir()
	ca := dir + "/ca.pem"
	if err := os.WriteFile(ca, []byte("PEM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := fakeProxy(t)
	if err := api.WriteInfo(api.DaemonInfo{PID: os.Getpid(), URL: daemon.URL, DataDir: dir, CAFile: ca, Token: "t0ken"}); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := run(t, dir, "run", "--", "sh", "-c", "echo $HTTPS_PROXY $DRYDOCK_TOKEN; exit 3")
	proxy, token, _ := strings.Cut(strings.TrimSpace(out), " ")
	if code != 3 || !strings.HasPrefix(proxy, "http://127.0.0.1:") || proxy == daemon.URL || strings.Contains(proxy, "t0ken") || token != "t0ken" {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
	}
	if code, out, _ := run(t, dir, "env"); code != 0 || !strings.Contains(out, "export DRYDOCK_TOKEN=t0ken\n") {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// drydock run suggests how to explain failed requests, but prints at most three suggestions.
func TestRunSaysWhatExplains(t *testing.T) {
	var list []string
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_drydock/why/try" {
			_ = json.NewEncoder(w).Encode(list)
		}
	})
	info := testkit.Must(api.ReadInfo(dir))(t)
	info.CAFile = dir + "/ca.pem"
	if err := errors.Join(os.WriteFile(info.CAFile, []byte("PEM\n"), 0o600), api.WriteInfo(info)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	for range 5 {
		list = append(list, fmt.Sprint("drydock why session i-", len(list)+1))
	}
	for n, want := range map[int]string{0: "", 3: "Try: drydock why session i-1\nTry: drydock why session i-2\nTry: drydock why session i-3\n", 5: "i-3\nand 2 more\n"} {
		all := list
		list = list[:n]
		if code, _, stderr := run(t, dir, "run", "--", "false"); code != 1 || !strings.HasSuffix(stderr, want) || n == 0 && strings.Contains(stderr, "Try:") {
			t.Errorf("%d: exit code %d, %q", n, code, stderr)
		}
		list = all
	}
}

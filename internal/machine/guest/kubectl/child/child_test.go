package child_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xtaci/smux"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl/child"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

func TestMain(m *testing.M) {
	if code, ok := (childproc.Modes{kubectl.Mode: child.Main, "probe": probe}).Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// probe reports what a process can still do after CloseHost.
func probe(ctx context.Context, env childproc.Env) int {
	if err := child.CloseHost(); err != nil {
		return 1
	}
	_, file := os.ReadFile("/etc/passwd")
	_, dial := new(net.Dialer).DialContext(ctx, "tcp", string(env.Config))
	_, listen := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	_ = env.Report(fmt.Append(nil, file != nil, dial != nil, listen != nil, exec.CommandContext(ctx, "/bin/true").Run() != nil))
	<-ctx.Done()
	return 0
}

func TestTheChildHasNothingOfTheHost(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	w, err := childproc.StartWorker(childproc.WorkerSpec{Mode: "probe", Config: []byte(srv.Listener.Addr().String())})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	if got, err := w.Receive(t.Context()); err != nil || string(got) != "true true true true" {
		t.Errorf("%s, %v", got, err)
	}
}

// A machine with a kubeconfig for a server that says hello to one token.
func newMachine(t *testing.T) (*vfs.FS, kubectl.Machine) {
	t.Helper()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/slow":
			<-r.Context().Done()
		case r.URL.Path == "/much":
			for range 1 << 10 {
				_, _ = w.Write(bytes.Repeat([]byte("much "), 4<<10)) // the client leaves
			}
		default:
			_, _ = io.WriteString(w, "hello") // as above
		}
	}))
	t.Cleanup(srv.Close)
	f := vfs.New(vfs.DefaultLimits, nil)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	config := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: 'https://example.com', certificate-authority-data: " + ca +
		"}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [eks, get-token]}\n"
	for name, text := range map[string]string{"/root/.kube/config": config, "/root/map.yaml": "kind: ["} {
		if err := errors.Join(f.MkdirAll(filepath.Dir(name), 0o755), f.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return f, kubectl.Machine{
		Dial: func(ctx context.Context, host string, port int) (net.Conn, error) {
			if host != "example.com" || port != 443 {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
			}
			return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
		},
		Run: func(_ context.Context, c *shell.Call) (int, bool) {
			if c.Args[0] != "aws" {
				return 0, false
			}
			fmt.Fprintln(c.Stdout, `{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {"token": "secret"}}`)
			return 0, true
		},
	}
}

func TestKubectl(t *testing.T) {
	f, m := newMachine(t)
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte("kind: Secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := kubectl.New(kubectl.Config{})
	run := func(ctx context.Context, out io.Writer, args ...string) int {
		c := shell.NewCall(append([]string{"kubectl"}, args...), []string{"HOME=/root"})
		c.FS, c.Dir, c.User, c.Stdout, c.Stderr = f, "/root", "root", out, out
		return r.Run(ctx, c, m)
	}
	for _, tc := range []struct {
		args, want string
		status     int
	}{
		{"get --raw /hello", "hello", 0},
		{"get --raw /hello --server https://elsewhere", "i/o timeout", 1},
		{"get --raw /hello --kubeconfig " + secret, "error: stat " + secret + ": no such file or directory", 1},
		{"get --raw /hello --certificate-authority " + secret, "unable to read certificate-authority " + secret, 1},
		{"get --raw /hello --token x --user=''", "", 1},
		{"get --raw /hello --token x", "You must be logged in to the server", 1},
		{"create -f " + secret, `error: the path "` + secret + `" does not exist`, 1},
		{"create -f map.yaml --validate=false", "error: error parsing map.yaml: ", 1},
		{"create secret generic s --from-file=" + secret, "the flag --from-file does not work on a simulated machine", 1},
		{"cp " + secret + " pod:/tmp", "kubectl cp does not work on a simulated machine", 1},
		{"config set-context other --cluster=c --user=u", `Context "other" created.`, 0},
		{"config use-context other", `Switched to context "other".`, 0},
		{"config current-context", "other", 0},
		{"nonsense", `unknown command "nonsense"`, 1},
		{"config set-cluster c --server=https://example.org", "kubectl config set-cluster does not work on a simulated machine", 1},
		{"config set-credentials u --token=x", "kubectl config set-credentials does not work on a simulated machine", 1},
		{"config delete-context c", "kubectl config delete-context does not work on a simulated machine", 1},
		{"config rename-context c d", "kubectl config rename-context does not work on a simulated machine", 1},
		{"config unset users", "kubectl config unset does not work on a simulated machine", 1},
		{"config set users.u.token x", "kubectl config set does not work on a simulated machine", 1},
		{"config nonsense", `unknown command "nonsense" for "kubectl config"`, 1},
		{"cluster-info dump", "kubectl cluster-info dump does not work on a simulated machine", 1},
		{"cluster-info nonsense", `unknown command "nonsense" for "kubectl cluster-info"`, 1},
	} {
		var out bytes.Buffer
		if status := run(t.Context(), &out, strings.Fields(tc.args)...); status != tc.status || !strings.Contains(out.String(), tc.want) {
			t.Errorf("kubectl %s: status %d, want %d\n%s", tc.args, status, tc.status, out.String())
		}
	}
	if b, err := f.ReadFile("/root/.kube/config"); err != nil || !strings.Contains(string(b), "current-context: other") {
		t.Errorf("%s, %v", b, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if status := run(ctx, io.Discard, "get", "--raw", "/slow"); status != 130 {
		t.Errorf("an interrupted kubectl ends with %d", status)
	}
	var out limited
	if status := run(t.Context(), &out, "get", "--raw", "/much"); status != 137 {
		t.Errorf("after too much output, kubectl ends with %d", status)
	}
}

// TestCredentialPrograms checks what the programs that a kubeconfig names may do.
func TestCredentialPrograms(t *testing.T) {
	f, m := newMachine(t)
	config, err := f.ReadFile("/root/.kube/config")
	if err != nil {
		t.Fatal(err)
	}
	r := kubectl.New(kubectl.Config{})
	for _, tc := range []struct{ command, want string }{
		{"kubectl", "only aws and aws-iam-authenticator provide credentials, not kubectl"},
		{"curl", "only aws and aws-iam-authenticator provide credentials, not curl"},
		{"aws", "executable aws failed with exit code 139"},
		{"aws-iam-authenticator", "executable aws-iam-authenticator failed with exit code 7"},
		{"aws, env: [{name: BIG, value: " + strings.Repeat("x", 3<<20) + "}]", "Argument list too long"},
	} {
		text := strings.Replace(string(config), "command: aws", "command: "+tc.command, 1)
		if err := errors.Join(f.MkdirAll("/etc", 0o755), f.WriteFile("/etc/passwd", []byte("dev:x:1000:1000::/home/dev:/bin/bash\n"), 0o644), f.WriteFile("/config", []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		m.Run = func(_ context.Context, c *shell.Call) (int, bool) {
			if c.Args[0] == "aws" {
				panic("a fault of the program")
			}
			return 7, true
		}
		var out bytes.Buffer
		c := shell.NewCall([]string{"kubectl", "get", "--raw", "/hello", "--kubeconfig", "/config"}, nil)
		c.FS, c.Dir, c.User, c.Stdout, c.Stderr = f, "/", "dev", &out, &out
		if status := r.Run(t.Context(), c, m); status != 1 || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%.30s: status %d\n%.500s", tc.command, status, out.String())
		}
	}
}

// TestMachinesDoNotWaitForEachOther checks that one machine does not take all slots.
func TestMachinesDoNotWaitForEachOther(t *testing.T) {
	f, m := newMachine(t)
	r := kubectl.New(kubectl.Config{})
	run := func(ctx context.Context, id, path string) int {
		c := shell.NewCall([]string{"kubectl", "get", "--raw", path}, []string{"HOME=/root"})
		c.FS, c.Dir, c.User, c.Stdout, c.Stderr = f, "/root", "root", io.Discard, io.Discard
		on := m
		on.ID = id
		return r.Run(ctx, c, on)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	dialled := make(chan struct{}, 10)
	dial := m.Dial
	m.Dial = func(ctx context.Context, host string, port int) (net.Conn, error) {
		dialled <- struct{}{}
		return dial(ctx, host, port)
	}
	for range 6 {
		busy.Go(func() { run(ctx, "busy", "/slow") })
	}
	for range 2 {
		<-dialled
	}
	other, cancelOther := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelOther()
	if status := run(other, "other", "/hello"); status != 0 {
		t.Errorf("kubectl on another machine ends with %d", status)
	}
}

// TestLongInput checks that a standard input that is too long is not cut.
func TestLongInput(t *testing.T) {
	f, m := newMachine(t)
	var out bytes.Buffer
	c := shell.NewCall([]string{"kubectl", "create", "-f", "-"}, []string{"HOME=/root"})
	c.FS, c.Dir, c.User, c.Stdout, c.Stderr, c.Stdin = f, "/root", "root", &out, &out, strings.NewReader(strings.Repeat("#", 1<<20+1))
	if status := kubectl.New(kubectl.Config{}).Run(t.Context(), c, m); status != 1 || !strings.Contains(out.String(), "must not be longer than 1 MiB") {
		t.Errorf("status %d: %s", status, &out)
	}
}

// TestOutputsDoNotMix writes to both outputs at once.
func TestOutputsDoNotMix(t *testing.T) {
	near, far := net.Pipe()
	client, err := smux.Client(near, kubectl.Streams())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := smux.Server(far, kubectl.Streams())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stream, err := client.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	control, err := server.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	stdout, stderr := child.Outputs(stream)
	for w, text := range map[io.Writer]string{stdout: "o", stderr: "e"} {
		go func() { _, _ = w.Write(bytes.Repeat([]byte(text), size)) }() // what does not arrive is missed below
	}
	_ = control.SetReadDeadline(time.Now().Add(20 * time.Second))
	got := map[string]int{}
	for got["o"]+got["e"] < 2*size {
		var req kubectl.Request
		if err := kubectl.Receive(control, &req); err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		want := "o"
		if req.Err {
			want = "e"
		}
		if n := bytes.Count(req.Output, []byte(want)); n != len(req.Output) {
			t.Fatalf("%d of %d bytes are %s", n, len(req.Output), want)
		}
		got[want] += len(req.Output)
	}
}

// TestCredentials checks how long a token is used.
func TestCredentials(t *testing.T) {
	runs, expires := 0, "2999-01-01T00:00:00Z"
	refused := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); refused[got] {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer srv.Close()
	client := child.Authenticated(func([]string, []string) (kubectl.Reply, error) {
		runs++
		return kubectl.Reply{Stdout: fmt.Appendf(nil, `{"apiVersion": "v", "status": {"token": "t%d", "expirationTimestamp": %q}}`, runs, expires)}, nil
	}, http.DefaultTransport)
	get := func(command string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client(&api.ExecConfig{Command: command, APIVersion: "v"}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	want := func(n int) {
		t.Helper()
		if runs != n {
			t.Errorf("the program has run %d times, want %d", runs, n)
		}
	}
	get("aws")
	get("aws")
	want(1) // clients with the same configuration share a token
	refused["Bearer t1"] = true
	get("aws") // is refused
	want(1)
	expires = "2000-01-01T00:00:00Z"
	get("aws")
	want(2)
	get("aws") // the token has expired
	want(3)
	get("other")
	want(4)
}

// limited is an output with room for a megabyte.
type limited int

func (l *limited) Write(p []byte) (int, error) {
	if *l += limited(len(p)); *l > 1<<20 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/internal/api"
)

func podRunOf(env map[string]string) *api.PodRun {
	return &api.PodRun{
		Secret: "s3cr3t", Cluster: "dev", Pod: "web", Container: "app", Containers: []string{"app"}, ServiceAccount: "cart", Env: env,
		Mounts: []string{"/var/run/secrets/eks.amazonaws.com/serviceaccount", serviceAccountDir},
		Files:  map[string][]byte{serviceAccountDir + "/token": []byte("t"), serviceAccountDir + "/ca.crt": []byte("PEM")},
	}
}

// A command of a pod has the container's variables and none of the caller's identity.
func TestPodEnvironment(t *testing.T) {
	const here = "http://127.0.0.1:1111"
	e := podEnv{
		dir: "/tmp/d", pod: "web-1", listener: "127.0.0.1:1111", kubernetes: "127.0.0.1:2222", bundle: "/b.pem", ca: "/ca.pem",
		run: podRunOf(map[string]string{
			"COLOR": "blue", "PATH": "/container/bin", "HOME": "/root", "LANG": "C",
			"AWS_REGION": "eu-west-1", "AWS_ROLE_ARN": "arn",
			"AWS_WEB_IDENTITY_TOKEN_FILE":        "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
			"NEXT_TO_IT":                         "/var/run/secrets/eks.amazonaws.com/serviceaccount2/token",
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
			"AWS_ENDPOINT_URL":                   "http://127.0.0.1:4566", "AWS_ENDPOINT_URL_STS": "http://localhost:4566",
			"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000", "HTTPS_PROXY": "http://proxy.corp:3128", "ALL_PROXY": "socks5://x",
		}),
	}
	got := map[string]string{}
	for _, kv := range e.environ([]string{
		"PATH=/usr/bin", "HOME=/home/me", "LANG=de_DE", "TERM=xterm", "AWS_PAGER=", "AWS_MAX_ATTEMPTS=2",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=x", "AWS_PROFILE=me", "AWS_CONFIG_FILE=/me", "AWS_EC2_METADATA_DISABLED=true",
		"KUBECONFIG=/me", "KUBERNETES_SERVICE_HOST=1.2.3.4", "all_proxy=x", "no_proxy=169.254.0.0/16", "SSL_CERT_FILE=/mine", "BOTO_CONFIG=/me",
	}) {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = value
	}
	want := map[string]string{
		"PATH": "/usr/bin", "HOME": "/tmp/d/home", "LANG": "C", "TERM": "xterm", "AWS_PAGER": "", "AWS_MAX_ATTEMPTS": "2", "COLOR": "blue", "HOSTNAME": "web-1",
		"AWS_REGION": "eu-west-1", "AWS_ROLE_ARN": "arn",
		"AWS_WEB_IDENTITY_TOKEN_FILE":        "/tmp/d/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
		"NEXT_TO_IT":                         "/var/run/secrets/eks.amazonaws.com/serviceaccount2/token",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": here + "/v1/credentials", "AWS_EC2_METADATA_SERVICE_ENDPOINT": here,
		"AWS_ENDPOINT_URL": "https://127.0.0.1:1111", "AWS_ENDPOINT_URL_STS": "https://127.0.0.1:1111", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
		"AWS_CONFIG_FILE": "/tmp/d/aws-config", "AWS_SHARED_CREDENTIALS_FILE": "/tmp/d/aws-credentials", "BOTO_CONFIG": "/tmp/d/boto",
		"HTTP_PROXY": here, "http_proxy": here, "HTTPS_PROXY": here, "https_proxy": here,
		"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1",
		"AWS_CA_BUNDLE": "/b.pem", "SSL_CERT_FILE": "/b.pem", "REQUESTS_CA_BUNDLE": "/b.pem", "CURL_CA_BUNDLE": "/b.pem", "NODE_EXTRA_CA_CERTS": "/ca.pem",
		"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "2222", "KUBERNETES_SERVICE_PORT_HTTPS": "2222", "KUBECONFIG": "/tmp/d/kubeconfig", "DRYDOCK_POD_FILES": "/tmp/d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Files are private, below the folder whatever their names are, and replaced at once.
func TestPodFiles(t *testing.T) {
	p := podFiles{t.TempDir()}
	for range 2 {
		if err := p.write(map[string][]byte{"/a/token": []byte("t"), "/../../b": []byte("u")}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"a/token": "t", "b": "u"} {
		file := filepath.Join(p.dir, name)
		b, err := os.ReadFile(file)
		info, err2 := os.Stat(file)
		if err != nil || err2 != nil || string(b) != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %q %v, %v", name, b, info, errors.Join(err, err2))
		}
	}
	if all, err := os.ReadDir(filepath.Join(p.dir, "a")); err != nil || len(all) != 1 {
		t.Errorf("left: %v, %v", all, err)
	}
}

// The home folder has all but who the caller is.
func TestPodHome(t *testing.T) {
	home, p := t.TempDir(), podFiles{t.TempDir()}
	for _, name := range []string{".aws", ".kube", "go"} {
		if err := os.Mkdir(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "go", "x"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.makeHome(home); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(p.home())
	if err != nil || len(entries) != 1 || entries[0].Name() != "go" {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(home, "go", "x")); err != nil || string(b) != "kept" {
		t.Errorf("after the run the caller has %q, %v", b, err)
	}
	if err := (podFiles{t.TempDir()}).makeHome(filepath.Join(home, "none")); err != nil {
		t.Errorf("without a home: %v", err)
	}
}

func TestPodKubeconfig(t *testing.T) {
	p := podFiles{t.TempDir()}
	run := podRunOf(nil)
	if err := p.write(run.Files); err != nil {
		t.Fatal(err)
	}
	if err := p.writeKubeconfig(run, "shop", "127.0.0.1:2222"); err != nil {
		t.Fatal(err)
	}
	loaded, err := clientcmd.LoadFromFile(p.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c := clientcmd.NewDefaultClientConfig(*loaded, nil)
	namespace, _, err := c.Namespace()
	if err != nil || namespace != "shop" {
		t.Errorf("namespace %q, %v", namespace, err)
	}
	cluster, user := loaded.Clusters["in-cluster"], loaded.AuthInfos["in-cluster"]
	if cluster.Server != "https://127.0.0.1:2222" || cluster.CertificateAuthority != p.file(serviceAccountDir+"/ca.crt") || user.TokenFile != p.file(serviceAccountDir+"/token") {
		t.Errorf("cluster %+v, user %+v", cluster, user)
	}
	run.Files = nil // automountServiceAccountToken: false
	if err := p.writeKubeconfig(run, "shop", "127.0.0.1:2222"); err != nil {
		t.Fatal(err)
	}
	if loaded, err = clientcmd.LoadFromFile(p.kubeconfig()); err != nil || len(loaded.Contexts) != 0 || loaded.CurrentContext != "" {
		t.Errorf("without a token: %+v, %v", loaded, err)
	}
}

// A fakeDaemon answers CONNECT with the secret by an echo, and anything else by 403.
func fakeDaemon(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				r, err := http.ReadRequest(in)
				if err != nil || r.Method != http.MethodConnect || r.Host != api.PodRunTarget || r.Header.Get("Proxy-Authorization") != api.PodRunAuthorization+"s3cr3t" {
					_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
				said, _ := io.ReadAll(in)
				_, _ = c.Write(append([]byte("you said "), said...))
			})
		}
	})
	return ln.Addr().String()
}

// Connections get into the daemon with the run's secret, also half-closed ones, and end
// with the run.
func TestForwarder(t *testing.T) {
	daemon := fakeDaemon(t)
	for secret, want := range map[string]string{"s3cr3t": "you said hello", "guessed": ""} {
		ctx, cancel := context.WithCancel(t.Context())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			newForwarder("http://"+daemon, api.PodRunAuthorization+secret, api.PodRunTarget).serve(ctx, ln)
		}()
		dial := func() net.Conn {
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c, idle := dial(), dial()
		_, err = io.WriteString(c, "hello")
		if err = errors.Join(err, c.(*net.TCPConn).CloseWrite()); err != nil && want != "" { // a refused one may be over
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(c); string(got) != want {
			t.Errorf("with %s: %q, want %q", secret, got, want)
		}
		cancel()
		<-done // with a connection that says nothing
		c.Close()
		idle.Close()
	}
}

// A fakeRun is a daemon that has one pod.
func fakeRun(t *testing.T, dir string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_drydock/pod-runs", func(w http.ResponseWriter, r *http.Request) {
		var in api.PodRunRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Pod != "web" || in.Namespace != "default" || in.Account != "000000000000" {
			http.Error(w, "there is no pod\nTry: kubectl get pods", http.StatusConflict)
			return
		}
		run := podRunOf(map[string]string{"TOKEN_FILE": serviceAccountDir + "/token"})
		run.Containers = []string{"app", "side"}
		enc := json.NewEncoder(w)
		_ = enc.Encode(api.PodRunEvent{Run: run})
		_ = enc.Encode(api.PodRunEvent{Files: map[string][]byte{serviceAccountDir + "/token": []byte("renewed")}, Notice: "watch out"})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, []byte("PEM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := api.WriteInfo(api.DaemonInfo{PID: os.Getpid(), URL: "http://" + ln.Addr().String(), DataDir: dir, CAFile: ca}); err != nil {
		t.Fatal(err)
	}
}

// The command's output, exit code and last tokens are the run's, and nothing is left.
func TestRunAsPod(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "mine")
	fakeRun(t, dir)
	for _, tt := range []struct {
		script string
		code   int
		out    string
	}{
		{`until grep -q renewed "$TOKEN_FILE"; do :; done; cat "$TOKEN_FILE"; echo "$AWS_ACCESS_KEY_ID"`, 0, "renewed\n"},
		{"exit 7", 7, ""},
		{"kill -TERM $$", 143, ""},
	} {
		code, out, stderr := run(t, dir, "run", "--pod", "web", "--", "sh", "-c", tt.script)
		if code != tt.code || out != tt.out || !strings.Contains(stderr, `Defaulted container "app" out of: app, side`) {
			t.Errorf("%s: exit code %d, %q, %q", tt.script, code, out, stderr)
		}
		if tt.code == 0 && !strings.Contains(stderr, "drydock: watch out") {
			t.Errorf("the notice is not shown: %q", stderr)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "drydock-pod-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{1, "Try: kubectl get pods", []string{"run", "--pod", "other", "--", "true"}},
		{2, "is not [NAMESPACE/]NAME", []string{"run", "--pod", "a/b/c", "--", "true"}},
		{2, "need --pod", []string{"run", "--container", "c", "--", "true"}},
		{2, "not a 12-digit account ID", []string{"run", "--pod", "web", "--account", "1", "--", "true"}},
		{127, "no-such-program", []string{"run", "--pod", "web", "--", "no-such-program"}},
	} {
		if code, _, stderr := run(t, dir, tt.args...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit code %d, %q", tt.args, code, stderr)
		}
	}
}

// A signal to drydock reaches the command, which says how it ends.
func TestRunAsPodPassesSignals(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	fakeRun(t, dir)
	script := fmt.Sprintf(`trap 'echo told; exit 3' USR1; kill -USR1 %d; while :; do sleep 0.01; done`, os.Getpid())
	code, out, stderr := run(t, dir, "run", "--pod", "web", "--container", "app", "--", "sh", "-c", script)
	if code != 3 || out != "told\n" || strings.Contains(stderr, "Defaulted") {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
	}
}

func TestEverySignalThatEndsProgramsIsPassedOn(t *testing.T) {
	var names []string
	for _, s := range passedOn {
		names = append(names, s.String())
	}
	for _, want := range []string{"interrupt", "terminated", "hangup", "quit"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
}

func TestPodNotKnown(t *testing.T) {
	var b bytes.Buffer
	o := &globalOptions{streams: Streams{Out: &b, Err: &b}}
	if got := o.podNames(t.Context(), api.Place{}, "", true, "d"); got != nil {
		t.Errorf("without a daemon: %v", got)
	}
}

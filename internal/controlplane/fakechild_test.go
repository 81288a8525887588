package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// TestMain makes the test program its own child, so that everything except Kubernetes itself is tested without it.
func TestMain(m *testing.M) {
	modes := childproc.Modes{launch.Mode: fakeChild}
	if code, ok := modes.Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// fakeChild behaves like a control plane, and reports over HTTP what it was given.
func fakeChild(ctx context.Context, env childproc.Env) int {
	var cfg launch.Config
	if err := json.Unmarshal(env.Config, &cfg); err != nil {
		return 2
	}
	files := launch.Files(cfg.Dir)
	if _, err := os.Stat(files.FlexVolumes()); err == nil { // a test's wish
		_ = env.Report(launch.Report{Event: launch.Fatal, Reason: "no such luck"}.Encode())
		fmt.Fprintln(os.Stderr, "the last line of the log")
		return 1
	}
	for _, wish := range []string{hangWish(cfg.Dir), hangWish(cfg.Dir) + cfg.Version} {
		if _, err := os.Stat(wish); err == nil {
			select {}
		}
	}
	cas := x509.NewCertPool()
	cas.AppendCertsFromPEM(mustRead(files.CA()))
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs:  cas,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, err := tls.X509KeyPair(mustRead(files.Serving()), mustRead(files.Serving()))
			return &cert, err
		},
	})
	if err != nil {
		return 2
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(cfg) })
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(7) })
	mux.HandleFunc("/whoami", func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			subject := r.TLS.PeerCertificates[0].Subject
			fmt.Fprint(w, subject.CommonName, " ", strings.Join(subject.Organization, ","))
		}
	})
	mux.HandleFunc("POST /token-review", forward(files.TokenWebhook(), ""))
	mux.HandleFunc("POST /access-review", forward(files.AuthorizationWebhook(), ""))
	for _, path := range []string{launch.LoggingPath, launch.LogsPath, launch.UsagePath} {
		mux.HandleFunc("POST "+path, forward(files.TokenWebhook(), path))
	}
	mux.HandleFunc("POST /admission-review", admit(files))
	mux.HandleFunc("/dial", func(w http.ResponseWriter, r *http.Request) {
		_, socket, _ := strings.Cut(string(mustRead(files.Egress())), `udsName: "`)
		socket, _, _ = strings.Cut(socket, `"`)
		answer, err := connect(r.Context(), socket, r.FormValue("to"), r.FormValue("say"))
		if err != nil {
			answer = err.Error()
		}
		fmt.Fprint(w, answer)
	})
	server := &http.Server{Handler: mux}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	port := listener.Addr().(*net.TCPAddr).Port
	_ = env.Report(launch.Report{Event: launch.Listening, Port: port}.Encode())
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for leads := !cfg.Successor; ; leads = true {
			if leads {
				if err := lead(cfg.Dir); err != nil {
					_ = env.Report(launch.Report{Event: launch.Fatal, Reason: err.Error()}.Encode())
					os.Exit(1)
				}
				_ = env.Report(launch.Report{Event: launch.Ready, Port: port}.Encode())
			} else {
				_ = env.Report(launch.Report{Event: launch.Serving, Port: port}.Encode())
			}
			msg, err := env.Receive(ctx)
			switch {
			case err != nil:
				server.Close()
				return
			case launch.Command(msg) != launch.Lead:
				if _, err := os.Stat(lingerWish(cfg.Dir)); err == nil {
					select {}
				}
				<-time.After(100 * time.Millisecond) // connections to it are still on their way, as child.leaveTime says
				_ = server.Shutdown(ctx)
				return
			}
		}
	}()
	_ = server.Serve(listener)
	<-drained
	return 0
}

// lead fails if another process still runs the plane's controllers.
func lead(dir string) error {
	leader := filepath.Join(dir, "leader")
	if b, err := os.ReadFile(leader); err == nil {
		if pid, _ := strconv.Atoi(string(b)); pid != os.Getpid() && syscall.Kill(pid, 0) == nil {
			return fmt.Errorf("process %d still leads", pid)
		}
	}
	return os.WriteFile(leader, []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// hangWish is the file by which a test requests that a process never becomes ready.
func hangWish(dir string) string { return filepath.Join(dir, "hang") }

// lingerWish is the file with which a test makes a process never retire.
func lingerWish(dir string) string { return filepath.Join(dir, "linger") }

// forward posts a request on with a kubeconfig, as the API server's webhooks do.
func forward(kubeconfig, path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		cas := x509.NewCertPool()
		cas.AppendCertsFromPEM(mustRead(cfg.CAFile))
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: cas}}}
		defer client.CloseIdleConnections()
		to := cfg.Host + cfg.APIPath
		if u, err := url.Parse(cfg.Host); path != "" && err == nil {
			to = "https://" + u.Host + path
		}
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, to, r.Body)
		resp, err := client.Do(req)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	}
}

// admit posts a request on to the webhook of the cluster's configuration object,
// with the certificate that the admission configuration has for it.
func admit(files launch.Files) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var object admissionregistrationv1.MutatingWebhookConfiguration
		if err := json.Unmarshal(mustRead(files.PodIdentityWebhook()), &object); err != nil {
			fmt.Fprint(w, err)
			return
		}
		hook := object.Webhooks[0].ClientConfig
		users, err := clientcmd.LoadFromFile(files.AdmissionWebhook())
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		host := strings.TrimSuffix(strings.TrimPrefix(*hook.URL, "https://"), "/mutate")
		user := users.AuthInfos[host]
		if user == nil || !strings.Contains(string(mustRead(files.Admission())), files.AdmissionWebhook()) {
			fmt.Fprint(w, "no credentials for ", host)
			return
		}
		pair, err := tls.LoadX509KeyPair(user.ClientCertificate, user.ClientKey)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		cas := x509.NewCertPool()
		cas.AppendCertsFromPEM(hook.CABundle)
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: cas}}}
		defer client.CloseIdleConnections()
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, *hook.URL, r.Body)
		resp, err := client.Do(req)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	}
}

// connect sends something to an address through an HTTP CONNECT proxy and returns the complete answer, or the status
// line of a refusal.
func connect(ctx context.Context, socket, to, say string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n%s", to, to, say)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return resp.Status, nil
	}
	_ = conn.(*net.UnixConn).CloseWrite()
	b, err := io.ReadAll(r)
	return string(bytes.TrimSpace(b)), err
}

func mustRead(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return b
}

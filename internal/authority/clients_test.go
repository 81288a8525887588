package authority

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// clients connect to NAME at 127.0.0.1:PORT with a CA bundle, and fail if they do not trust
// the certificate.
var clients = map[string]func(name, port, bundle string) *exec.Cmd{
	"openssl": func(name, port, bundle string) *exec.Cmd {
		args := []string{"s_client", "-connect", "127.0.0.1:" + port, "-CAfile", bundle, "-verify_return_error", "-x509_strict", "-brief"}
		if _, err := netip.ParseAddr(name); err == nil {
			return exec.Command("openssl", append(args, "-verify_ip", name)...)
		}
		return exec.Command("openssl", append(args, "-verify_hostname", name, "-servername", name)...)
	},
	"python3": func(name, port, bundle string) *exec.Cmd {
		return exec.Command("python3", "-c", `
import socket, ssl, sys
name, port, bundle = sys.argv[1:]
context = ssl.create_default_context(cafile=bundle)
context.verify_flags |= ssl.VERIFY_X509_STRICT # the default since Python 3.13
context.wrap_socket(socket.create_connection(("127.0.0.1", int(port))), server_hostname=name).close()`, name, port, bundle)
	},
	"node": func(name, port, bundle string) *exec.Cmd {
		return exec.Command("node", "-e", `
const [name, port, bundle] = process.argv.slice(1)
const tls = require("tls"), net = require("net")
const socket = tls.connect({host: "127.0.0.1", port, ca: require("fs").readFileSync(bundle),
  servername: net.isIP(name) ? "" : name, checkServerIdentity: (_, cert) => tls.checkServerIdentity(name, cert)}, () => socket.end())
socket.on("error", e => { console.error(e.message); process.exit(1) })`, name, port, bundle)
	},
}

// OpenSSL, Python and Node accept the served names and reject forged ones, with the original
// bundle and with the renewed one. The server sends the first certificate of the CA, which
// does not permit the present address and expires in time.
func TestClients(t *testing.T) {
	t.Run("renewed for an address", func(t *testing.T) {
		dir := t.TempDir()
		a := open(t, Config{Dir: dir})
		first := filepath.Join(dir, "first.pem")
		if err := os.WriteFile(first, read(t, a.File()), 0o600); err != nil {
			t.Fatal(err)
		}
		testClients(t, open(t, Config{Dir: dir, Listen: laptop}), first)
	})
	t.Run("the first has expired", func(t *testing.T) {
		dir := t.TempDir()
		open(t, Config{Dir: dir, Now: func() time.Time { return time.Now().Add(-caLife - 24*time.Hour) }})
		testClients(t, open(t, Config{Dir: dir, Listen: laptop}), "")
	})
}

// testClients tests with the bundle of a renewed CA, and with an earlier one that is still
// valid if there is one.
func testClients(t *testing.T, renewed *Authority, earlier string) {
	bundles := []string{renewed.File()}
	if earlier != "" {
		bundles = append(bundles, earlier)
	}
	good := serveTLS(t, renewed.certificate)
	remote := serveTLS(t, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return renewed.certificate(&tls.ClientHelloInfo{Conn: addressed{local: laptop.AsSlice()}})
	})
	forged := serveTLS(t, func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		name, local := hello.ServerName, net.IP(nil)
		if name == "" || name == "198.51.100.1" {
			name, local = "localhost", net.ParseIP("198.51.100.1")
		}
		return renewed.aws.issue(name, local, time.Now())
	})
	for client, command := range clients {
		t.Run(client, func(t *testing.T) {
			if _, err := exec.LookPath(client); err != nil {
				needs.Missing(t, "%s is not installed", client)
			}
			if out, err := command(laptop.String(), remote, renewed.File()).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", laptop, err, out)
			}
			for _, bundle := range bundles {
				for _, name := range []string{
					"eks.us-east-1.amazonaws.com", "sts.cn-north-1.amazonaws.com.cn", "ec2.us-east-1.api.aws", "public.ecr.aws", "localhost", "127.0.0.1",
				} {
					if out, err := command(name, good, bundle).CombinedOutput(); err != nil {
						t.Errorf("%s, trusting %s: %v\n%s", name, filepath.Base(bundle), err, out)
					}
				}
				for _, name := range []string{"bank.example", "amazonaws.com.bank.example", "198.51.100.1"} {
					out, err := command(name, forged, bundle).CombinedOutput()
					if err == nil || !strings.Contains(string(out), "permitted subtree") {
						t.Errorf("%s, trusting %s: %v\n%s", name, filepath.Base(bundle), err, out)
					}
				}
			}
		})
	}
}

// serveTLS starts a TLS server and returns its port.
func serveTLS(t *testing.T, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = srv.Shutdown(context.Background())
		<-done
	})
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

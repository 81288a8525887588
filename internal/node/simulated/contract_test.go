package simulated_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
	"github.com/drydock-dev/drydock/internal/machine/machinetest"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestMain(m *testing.M) {
	if code, ok := (childproc.Modes{sandbox.Mode: sandbox.Main}).Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// memoryDisks keeps volumes for as long as the test.
type memoryDisks struct{ all sync.Map }

func (d *memoryDisks) Load(id string) ([]byte, bool, error) {
	b, ok := d.all.Load(id)
	if !ok {
		return nil, false, nil
	}
	return b.([]byte), true, nil
}

func (d *memoryDisks) Save(id string, data []byte) error {
	d.all.Store(id, data)
	return nil
}

// computer is the contract's world of simulated machines with one family of images.
func computer(t *testing.T, family images.Family) machinetest.World {
	scripts := sandbox.NewPool(sandbox.Config{})
	t.Cleanup(scripts.Close)
	disks := &memoryDisks{}
	return machinetest.World{
		Runtime: func(t *testing.T) machine.Runtime {
			return simulated.New(node.Config{
				Credentials: func(context.Context, string) (aws.Credentials, error) { return aws.Credentials{}, errors.New("none") },
				Log:         testkit.Log(t),
			}, simulated.Options{RunScript: scripts.Run, Disks: disks, Dial: func(_ context.Context, _ machine.Instance, host string, port int) (net.Conn, error) {
				return nil, fmt.Errorf("no way to %s:%d", host, port)
			}})
		},
		Instance: machine.Instance{
			Account: "000000000000", Region: "us-east-1", ID: "i-0123456789abcdef0", BootID: "1",
			Type: instancetypes.Type{Name: "m5.large", VCPU: 2, MemoryMiB: 8192}, Image: images.Image{ID: "ami-1", Architecture: "x86_64", Family: family, KubeletVersion: "1.36.2"},
			PrivateIP: netip.MustParseAddr("10.0.0.1"), PrivateDNSName: nodeName,
			Interfaces: []machine.Interface{{ID: "eni-1", MAC: "02:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
		},
		Interfaces: func(t *testing.T, m machine.Machine) []string {
			out, _ := run(t, m, "cat /sys/class/net/e*/address")
			return strings.Fields(out)
		},
	}
}

// run runs a script as root.
func run(t *testing.T, m machine.Machine, script string) (string, int) {
	t.Helper()
	var out strings.Builder
	status, err := machine.Run(t.Context(), m, machine.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out.String(), status
}

func TestSimulatedMachinesAreMachines(t *testing.T) {
	t.Run("Amazon Linux", func(t *testing.T) { machinetest.Run(t, computer(t, images.AL2023)) })
}

// EKS Auto Mode nodes do not allow access.
func TestAutoModeHasNoShell(t *testing.T) {
	w := computer(t, images.Bottlerocket)
	w.Instance.Operator = "eks.amazonaws.com"
	r := w.Runtime(t)
	defer r.Shutdown(context.Background())
	if err := r.Start(t.Context(), w.Instance); err != nil {
		t.Fatal(err)
	}
	m, _ := r.Machine(w.Instance.ID)
	_, err := m.Exec(t.Context(), machine.Command{})
	if e, ok := errors.AsType[*machine.UnsupportedError](err); !ok || e.Ability != machine.Exec {
		t.Errorf("running a program: %v", err)
	}
	want := "instance i-0123456789abcdef0 cannot run programs: its image has no shell"
	if err == nil || err.Error() != want {
		t.Errorf("the error says %q, want %q", err, want)
	}
}

func awaitBoot(t *testing.T, m machine.Machine) {
	t.Helper()
	select {
	case <-m.Booted():
	case <-time.After(20 * time.Second):
		t.Fatal("it does not boot")
	}
}

// Bottlerocket has a shell in its control container, from which one gets into the admin container and onto the host.
func TestBottlerocketsContainers(t *testing.T) {
	w := computer(t, images.Bottlerocket)
	w.Instance.UserData = []byte("[settings.kubernetes]\ncluster-name = \"c\"\nmax-pods = 17\n[settings.kubernetes.node-labels]\n\"a.b/c\" = \"<d>\"\n")
	r := w.Runtime(t)
	defer r.Shutdown(context.Background())
	if err := r.Start(t.Context(), w.Instance); err != nil {
		t.Fatal(err)
	}
	m, _ := r.Machine(w.Instance.ID)
	awaitBoot(t, m)
	if v := r.(*simulated.Runtime).AgentVersion(w.Instance.ID); v == "" {
		t.Error("it has no agent")
	}
	if conn, err := m.Dial(t.Context(), w.Instance.PrivateIP.String(), 22); err == nil {
		conn.Close()
		t.Error("it has an SSH server")
	}
	for _, c := range []struct {
		script, want string
		status       int
	}{
		{"apiclient get settings.kubernetes.max-pods", "{\n  \"settings\": {\n    \"kubernetes\": {\n      \"max-pods\": 17\n    }\n  }\n}\n", 0},
		{"apiclient raw -u /settings?prefix=kubernetes.node-labels", `{"kubernetes":{"node-labels":{"a.b/c":"<d>"}}}` + "\n", 0},
		{"apiclient -u /os", `{"arch":"x86_64","pretty_name":"Bottlerocket OS 1.50.0 (aws-k8s-1.36)","variant_id":"aws-k8s-1.36","version_id":"1.50.0"}` + "\n", 0},
		{"apiclient get /tx", "Failed to get settings: Failed GET request to '/tx': it is not implemented on simulated machines\n", 1},
		{"apiclient update check", "apiclient update is not implemented on simulated machines\n", 1},
		{"apiclient set motd", "Failed to change settings: \"motd\": simulated machines can only change motd, host-containers.admin.enabled, host-containers.control.enabled\n", 1},
		{"apiclient set kubernetes.max-pods=3 2>&1 | cut -d: -f 1", "Failed to change settings\n", 0},
		{"apiclient set settings.motd='hi there' && apiclient raw -u '/settings?keys=settings.motd'", `{"motd":"hi there"}` + "\n", 0},
		{"apiclient set", "Must specify key=value settings or --json settings with 'set'\n", 2},
		{"apiclient raw -u '/settings?keys=settings.mot'; apiclient raw -u '/settings?prefix=nothing'; apiclient get settings.nothing", "{}\n{}\n{}\n", 0},
		{"apiclient set motd=$(printf %070000d 0)", "Failed to change settings: simulated machines keep at most 65536 bytes of them\n", 1},
		{"apiclient exec control id -un", "root\n", 0},
		{"apiclient exec other id", "Failed to exec: simulated machines only have the host containers admin and control, not 'other'\n", 1},
		{"container=host systemctl stop containerd", "sh: line 1: systemctl: command not found\n", 127},
		{"apiclient exec admin id", "Failed to exec: the host container 'admin' is not running\n", 1},
		{"enable-admin-container | head -n 1; enable-admin-container | cut -c 1-38 | head -n 1", "Enabling admin container\nThe admin container is already enabled\n", 0},
		{"apiclient exec -T admin sh -c 'echo $container; id -un'", "admin\nroot\n", 0},
		{"systemctl is-active containerd", "sh: line 1: systemctl: command not found\n", 127},
		{"apiclient exec admin systemctl is-active containerd 2>&1 | grep -c 'command not found'", "1\n", 0},
		{"sheltie", "sheltie: only the admin container can reach the host\n", 1},
		{"echo systemctl is-active containerd | apiclient exec admin sheltie", "active\n", 0},
		{"apiclient exec admin apiclient exec control sh -c 'echo $container; sheltie'", "\nsheltie: only the admin container can reach the host\n", 1},
		{"apiclient exec admin ip -br link show dev eth0 | cut -d ' ' -f 1", "eth0\n", 0},
		{"disable-admin-container; apiclient exec admin true 2>&1", "Disabling admin container\nThe admin container is now disabled - it should stop soon.\nFailed to exec: the host container 'admin' is not running\n", 1},
	} {
		if out, status := run(t, m, c.script); out != c.want || status != c.status {
			t.Errorf("%s: %q, status %d; want %q, status %d", c.script, out, status, c.want, c.status)
		}
	}
	// The same on a terminal, where everything is typed ahead.
	var screen strings.Builder
	typed := "enter-admin-container\nsheltie\nsystemctl is-active containerd\nexit\nid -un\nexit\nexit\n"
	status, err := machine.Run(t.Context(), m, machine.Command{
		User: "ssm-user", Args: []string{"sh"}, Dir: "/usr/bin", Stdin: strings.NewReader(typed), Stdout: &screen, Terminal: &machine.TerminalSpec{Size: machine.Size{Columns: 200, Rows: 40}},
	})
	rest := screen.String()
	for _, want := range []string{
		"control container!", "[ssm-user@control]$ ", "Confirming admin container is enabled...", "admin container!", "[root@admin]# ", "bash-5.1# ", "\nactive", "[root@admin]# ", "\nroot", "[ssm-user@control]$ ",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("no %q in what follows on the screen: %q (%v, status %d)", want, rest, err, status)
		}
		rest = after
	}
	// The agent runs in the control container.
	agent := func(want bool) {
		t.Helper()
		if active, boots := r.(*simulated.Runtime).Unit(w.Instance.ID, "amazon-ssm-agent"); active != want || boots != want {
			t.Errorf("the agent runs: %v, and does after a reboot: %v; want %v", active, boots, want)
		}
	}
	agent(true)
	run(t, m, "apiclient set host-containers.control.enabled=false")
	agent(false)
	if out, status := run(t, m, "apiclient exec control true"); out != "Failed to exec: the host container 'control' is not running\n" || status != 1 {
		t.Errorf("%q, status %d", out, status)
	}
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, _ = r.Machine(w.Instance.ID)
	awaitBoot(t, m)
	agent(false)
	run(t, m, "apiclient set host-containers.control.enabled=true")
	agent(true)
	// Of two changes at once, none is lost.
	var both sync.WaitGroup
	for _, pair := range []string{"motd=both", "host-containers.admin.enabled=true"} {
		both.Go(func() {
			if _, err := machine.Run(t.Context(), m, machine.Command{Args: []string{"apiclient", "set", pair}}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	// A reboot keeps what was changed.
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, _ = r.Machine(w.Instance.ID)
	awaitBoot(t, m)
	if out, status := run(t, m, "apiclient exec admin id -un; apiclient raw -u '/settings?keys=settings.motd'"); out != "root\n"+`{"motd":"both"}`+"\n" || status != 0 {
		t.Errorf("after a reboot: %q, status %d", out, status)
	}
	// What root has written into the settings' file is not trusted.
	for _, text := range []string{"null", `{"motd": 3, "host-containers.admin.enabled": "yes", "host-containers": null}`, "[", "$(printf %70000s null)"} {
		run(t, m, `echo "`+strings.ReplaceAll(text, `"`, `\"`)+`" > /var/lib/bottlerocket/settings.json`)
		if err := m.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, _ = r.Machine(w.Instance.ID)
		awaitBoot(t, m)
		if out, status := run(t, m, "apiclient raw -u '/settings?keys=settings.motd,settings.host-containers.admin.enabled'; apiclient set motd=again"); status != 0 || out != `{"host-containers":{"admin":{"enabled":false}},"motd":"Welcome to Bottlerocket!"}`+"\n" {
			t.Errorf("with the settings %.80s: %q, status %d", text, out, status)
		}
	}
}

// User data can switch the control container off, and the agent with it, also gzipped.
func TestBottlerocketWithoutControlContainer(t *testing.T) {
	plain := []byte("[settings.host-containers.control]\nenabled = false\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(plain)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, userData := range map[string][]byte{"plain": plain, "gzipped": packed.Bytes()} {
		t.Run(name, func(t *testing.T) {
			w := computer(t, images.Bottlerocket)
			w.Instance.UserData = userData
			r := w.Runtime(t)
			defer r.Shutdown(context.Background())
			if err := r.Start(t.Context(), w.Instance); err != nil {
				t.Fatal(err)
			}
			m, _ := r.Machine(w.Instance.ID)
			awaitBoot(t, m)
			if active, _ := r.(*simulated.Runtime).Unit(w.Instance.ID, "amazon-ssm-agent"); active {
				t.Error("the agent runs")
			}
		})
	}
}

// The kubelet's health port is a port of the machine, only on localhost.
func TestKubeletsHealthPort(t *testing.T) {
	b := newBench(t)
	in := b.instance()
	b.launch(in)
	m, ok := b.rt.Machine(in.ID)
	if !ok {
		t.Fatal("the machine is not on")
	}
	var conn net.Conn
	testkit.Eventually(t, 10*time.Second, func() (err error) {
		conn, err = m.Dial(t.Context(), "localhost", 10248)
		return err
	})
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || res.StatusCode != http.StatusOK {
		t.Errorf("%s: %q (%v)", res.Status, body, err)
	}
	if c, err := m.Dial(t.Context(), in.PrivateIP.String(), 10248); err == nil {
		c.Close()
		t.Error("it listens on the instance's own address")
	}
}

// The kubelet's API answers other machines as a kubelet on EKS does: the cluster says who they are and what they may do.
func TestKubeletsPort(t *testing.T) {
	b := newBench(t)
	asked := 0
	b.api.permits = func(s authorizationv1.SubjectAccessReviewSpec) bool {
		asked++
		a := s.ResourceAttributes
		if !slices.Equal(s.Groups, []string{"people"}) || !slices.Equal(s.Extra["team"], []string{"shop"}) || a.Verb != "get" || a.Resource != "nodes" || a.Name != nodeName {
			t.Errorf("asked about %+v, %+v", s, a)
		}
		return s.User == "reader" && a.Subresource == "pods" || s.User == "root" && a.Subresource == "proxy" || s.User == "root" && a.Subresource == "metrics"
	}
	in := b.instance()
	b.launch(in)
	m, ok := b.rt.Machine(in.ID)
	if !ok {
		t.Fatal("the machine is not on")
	}
	client := kubeletClient(m, in)
	defer client.CloseIdleConnections()
	get := func(url, authorization string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		req.Header.Set("Authorization", authorization)
		res, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if s := res.TLS; err == nil && s != nil && s.PeerCertificates[0].Subject.CommonName != "system:node:"+nodeName {
			err = fmt.Errorf("the certificate is of %s", s.PeerCertificates[0].Subject)
		}
		return fmt.Sprint(res.StatusCode, " ", string(body)), err
	}
	const url = "https://node:10250"
	testkit.Eventually(t, 10*time.Second, func() error { _, err := get(url+"/pods", ""); return err })
	for _, c := range []struct{ path, authorization, want string }{
		{"/", "", "404 404 page not found\n"},
		{"/debug/", "", "404 404 page not found\n"},
		{"/healthz/nothing", "", "404 404 page not found\n"},
		{"/metrics/", "", "404 404 page not found\n"},
		{"/pods/nothing", "", "401 Unauthorized"},
		{"/run", "", "401 Unauthorized"},
		{"/exec/", "", "401 Unauthorized"},
		{"/stats/nothing", "", "401 Unauthorized"},
		{"/flagz", "", "401 Unauthorized"},
		{"/metrics/slis", "", "401 Unauthorized"},
		{"/statusz", "Bearer token-of-user:reader", "403 Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[statusz])\n"},
		{"/flagz", "Bearer token-of-user:reader", "403 Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[configz])\n"},
		{"/pods/nothing", "Bearer token-of-user:root", "404 404: Page Not Found"},
		{"/exec/a", "Bearer token-of-user:root", "404 404: Page Not Found"},
		{"/run/a/b/c", "Bearer token-of-user:root", "405 405: Method Not Allowed"},
		{"/runningpods/", "Bearer token-of-user:root", "501 pods on simulated nodes run nothing: /runningpods/ is not implemented\n"},
		{"/debug/pprof/heap", "Bearer token-of-user:root", "501 /debug/pprof/heap is not implemented on simulated nodes\n"},
		{"/pods", "", "401 Unauthorized"},
		{"/pods", "Basic YTpi", "401 Unauthorized"},
		{"/pods", "Bearer ", "401 Unauthorized"},
		{"/pods", "Bearer nobodys", "401 Unauthorized"},
		{"/pods", "Bearer token-of-user:nobody", "403 Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{"/metrics", "Bearer token-of-user:reader", "403 Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[metrics])\n"},
		{"/containerLogs/a/b/c", "Bearer token-of-user:reader", "403 Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[proxy])\n"},
		{"/healthz", "bearer token-of-user:root", "200 ok"},
		{"/containerLogs/a/b/c", "Bearer token-of-user:root", "501 pods on simulated nodes run nothing: /containerLogs/a/b/c is not implemented\n"},
		{"/metrics", "Bearer token-of-user:root", "501 pods on simulated nodes run nothing: /metrics is not implemented\n"},
		{"/configz", "Bearer token-of-user:root", "501 /configz is not implemented on simulated nodes\n"},
	} {
		if got, err := get(url+c.path, c.authorization); got != c.want || err != nil {
			t.Errorf("%s with %q: %q (%v), want %q", c.path, c.authorization, got, err, c.want)
		}
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		got, err := get(url+"/pods", "Bearer token-of-user:reader")
		if !strings.HasPrefix(got, `200 {"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"aws-node"`) {
			return fmt.Errorf("%q (%w)", got, errors.Join(err, errors.New("no pods")))
		}
		return err
	})
	// It does not ask again for a while.
	b.api.mu.Lock()
	before := asked
	b.api.mu.Unlock()
	if got, err := get(url+"/pods", "Bearer token-of-user:nobody"); !strings.HasPrefix(got, "403") || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
	b.api.mu.Lock()
	if asked != before {
		t.Errorf("it asked the cluster %d more times", asked-before)
	}
	reviewed := len(b.api.reviewed)
	b.api.mu.Unlock()
	// But it does so for a token that was refused.
	for range 2 {
		if got, err := get(url+"/pods", "Bearer nobodys"); got != "401 Unauthorized" || err != nil {
			t.Errorf("%q (%v)", got, err)
		}
	}
	b.api.mu.Lock()
	if n := len(b.api.reviewed) - reviewed; n != 2 {
		t.Errorf("it asked the cluster %d times about a token that was refused twice", n)
	}
	b.api.mu.Unlock()
	// If the cluster does not answer, the kubelet authenticates and authorizes no client.
	b.api.refusing(func(_, path string) *apierrors.StatusError {
		if strings.HasSuffix(path, "reviews") {
			return apierrors.NewInternalError(errors.New("no"))
		}
		return nil
	})
	if got, err := get(url+"/pods", "Bearer token-of-user:late"); got != "401 Unauthorized" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
	if got, err := get(url+"/logs/", "Bearer token-of-user:reader"); got != "500 Authorization error (user=reader, verb=get, resource=nodes, subresource=log)" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
	// A client that refuses the certificate gets no further, at once.
	conn, err := m.Dial(t.Context(), in.PrivateIP.String(), 10250)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := tls.Client(conn, &tls.Config{ServerName: nodeName, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context()); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	_ = conn.Close()
	if got, err := get("http://node:10250/", ""); !strings.HasPrefix(got, "400") || !strings.Contains(got, "Client sent an HTTP request to an HTTPS server") || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}

// Strangers do not keep a kubelet from leaving the cluster's API server to others.
func TestKubeletAsksFewQuestionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, most = 10, 4
		b := newBench(t)
		in := b.instance()
		b.launch(in)
		after(30 * time.Second)
		m, ok := b.rt.Machine(in.ID)
		if !ok {
			t.Fatal("the machine is not on")
		}
		var asked atomic.Int32
		answer := make(chan struct{})
		b.api.refusing(func(_, path string) *apierrors.StatusError {
			if strings.HasSuffix(path, "/tokenreviews") {
				asked.Add(1)
				<-answer
			}
			return nil
		})
		client := kubeletClient(m, in)
		defer client.CloseIdleConnections()
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://node:10250/pods", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", fmt.Sprint("Bearer stranger-", n))
				res, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				if _ = res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
					t.Errorf("a stranger's answer is %s", res.Status)
				}
			})
		}
		synctest.Wait()
		if n := asked.Load(); n != most {
			t.Errorf("it asks %d questions at once, want %d", n, most)
		}
		close(answer)
		all.Wait()
		if n := asked.Load(); n != clients {
			t.Errorf("it asked %d questions, want %d", n, clients)
		}
	})
}

// A kubelet that ends closes its connections, also those of clients that do not send what they have announced.
func TestKubeletsConnectionsEndWithIt(t *testing.T) {
	b := newBench(t)
	b.restartWithShell()
	in := b.instance()
	b.launch(in)
	m, ok := b.rt.Machine(in.ID)
	if !ok {
		t.Fatal("the machine is not on")
	}
	open := func(request string) (*tls.Conn, *bufio.Reader) {
		t.Helper()
		var conn net.Conn
		testkit.Eventually(t, 20*time.Second, func() (err error) {
			conn, err = m.Dial(t.Context(), in.PrivateIP.String(), 10250)
			return err
		})
		c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	idle, answers := open("GET /pods HTTP/1.1\r\nHost: node\r\n\r\n")
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s (%v)", res.Status, err)
	}
	_ = res.Body.Close()
	slow, unanswered := open("POST /run/a/b/c HTTP/1.1\r\nHost: node\r\nContent-Length: 10\r\n\r\n")
	run(t, m, "systemctl stop kubelet")
	for name, c := range map[string]struct {
		conn    *tls.Conn
		answers *bufio.Reader
	}{"an idle connection": {idle, answers}, "one with a request without its end": {slow, unanswered}} {
		_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c.answers); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s is open after the kubelet's end", name)
		}
	}
}

// kubeletClient returns a client of the kubelet's API that does not verify its certificate, like curl -k.
func kubeletClient(m machine.Machine, in machine.Instance) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return m.Dial(ctx, in.PrivateIP.String(), 10250)
		},
	}}
}

// A kubelet of an older version asks only for nodes/proxy, and says it in that version's words.
func TestKubeletsPortBeforeFineAuthorization(t *testing.T) {
	b := newBench(t)
	in := b.instance()
	in.Image.KubeletVersion = "1.31.9"
	b.launch(in)
	m, ok := b.rt.Machine(in.ID)
	if !ok {
		t.Fatal("the machine is not on")
	}
	client := kubeletClient(m, in)
	defer client.CloseIdleConnections()
	testkit.Eventually(t, 10*time.Second, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://node:10250/pods", nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer token-of-user:nobody")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if want := "Forbidden (user=nobody, verb=get, resource=nodes, subresource=proxy)"; res.StatusCode != http.StatusForbidden || string(body) != want {
			return fmt.Errorf("%s %q (%w), want %q", res.Status, body, errors.Join(err, errors.New("other")), want)
		}
		return nil
	})
}

// What a session on a machine looks at first.
func TestProgramsSeeTheirMachine(t *testing.T) {
	w := computer(t, images.AL2023)
	w.Instance.UserData = []byte("#!/bin/sh\necho from user data\n")
	r := w.Runtime(t)
	defer r.Shutdown(context.Background())
	if err := r.Start(t.Context(), w.Instance); err != nil {
		t.Fatal(err)
	}
	m, _ := r.Machine(w.Instance.ID)
	<-m.Booted()
	testkit.Eventually(t, 20*time.Second, func() error {
		if out, _ := run(t, m, "cat /var/log/cloud-init-output.log"); !strings.Contains(out, "from user data\n") || !strings.Contains(out, "finished at") {
			return fmt.Errorf("cloud-init's log is %q", out)
		}
		return nil
	})
	for script, want := range map[string]string{
		"hostname":                                                                   nodeName + "\n",
		"ls /sys/class/net":                                                          "ens5\nlo\n",
		"systemctl is-active containerd":                                             "active\n",
		"journalctl -u containerd -o cat | tail -n 1":                                "Started containerd.service - containerd container runtime.\n",
		"curl -s localhost:9 || echo $?":                                             "7\n",
		"sudo -u ec2-user id -un":                                                    "ec2-user\n",
		"grep -c 'Started containerd.service' /var/log/messages":                     "1\n",
		"ip route show dev ens5 | head -1 | cut -d ' ' -f 1-5":                       "default via 10.0.0.2 dev ens5\n",
		"ip -o -4 addr show dev ens5 | awk '{print $1, $2, $4}'":                     "2: ens5 10.0.0.1/32\n",
		"ip -br a | awk '{print $1, $3}'":                                            "lo 127.0.0.1/8\nens5 10.0.0.1/32\n",
		"ip link show dev ens5 | grep -c 'link/ether 02:00:00:00:00:01 '":            "1\n",
		"ip route | awk '/^default/{print $5}'":                                      "ens5\n",
		"ss -ltn | awk 'NR==1{print $1, $4, $5}'":                                    "State Local Address:Port\n",
		"ps -e | grep -c containerd; ps aux | awk '$NF==\"aux\"{print $1}'":          "1\nroot\n",
		"top -b -n1 | awk '/^Tasks/{print $3, $4}'":                                  "total, 1\n",
		"grep -c ^processor /proc/cpuinfo; awk '/^Mem[TA]/{print $2}' /proc/meminfo": "2\n8388608\n8388608\n",
		"awk '{print ($1 >= 0), ($2 >= $1)}' /proc/uptime":                           "1 1\n",
		"cut -d ' ' -f 1 /proc/loadavg":                                              "0.00\n",
		"free -m | awk '/^Mem/{print $2, $3}'":                                       "8192 0\n",
		"df -h / | awk 'NR==2{print $1, $2, $6}'":                                    "/dev/nvme0n1p1 20G /\n",
		"hostnamectl | grep -c 'Static hostname: " + nodeName + "'":                  "1\n",
		"uptime | grep -c 'load average'":                                            "1\n",
		"nc -z localhost 9":                                                          "Ncat: Connection refused.\n",
		"iptables -S 2>/dev/null | head -n 1":                                        "-P INPUT ACCEPT\n",
		"getent hosts localhost":                                                     "127.0.0.1       localhost localhost.localdomain localhost4 localhost4.localdomain4\n",
		"dig +short example.com | head -n 1":                                         ";; communications error to 169.254.169.253#53: timed out\n",
		"crictl pods; sudo -u ec2-user crictl ps 2>&1 | grep -c 'permission denied'": "POD ID              CREATED             STATE               NAME                NAMESPACE           ATTEMPT             RUNTIME\n1\n",
	} {
		if out, status := run(t, m, script); out != want || status != 0 && script[:2] != "nc" {
			t.Errorf("%s: %q, status %d; want %q", script, out, status, want)
		}
	}
	if !strings.Contains(string(m.Console()), "from user data") {
		t.Errorf("the console says %q", m.Console())
	}
}

package podrun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/pricing"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/why"
)

func runOf(name string) *podRun {
	return &podRun{
		program: eks.PodProgram{Cluster: "dev", Account: "000000000000", Region: "eu-west-1", Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Spec: corev1.PodSpec{ServiceAccountName: "cart", NodeName: "node-1"},
		}},
		listener: "127.0.0.1:1111", ended: make(chan struct{}), notices: make(chan string, maxNotices), told: map[string]bool{},
	}
}

// Tokens are renewed as the kubelet does, each in its time; what is not to be had is
// asked for again, and the user told once.
func TestPodTokensAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		life := map[string]time.Duration{"/hour": time.Hour, "/year": 365 * 24 * time.Hour}
		broken := false
		var issued []string
		tokens := podTokens{tokens: []eks.PodToken{{Path: "/hour"}, {Path: "/year"}}, issue: func(_ context.Context, p eks.PodToken) (string, time.Time, error) {
			if broken {
				return "", time.Time{}, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web")
			}
			issued = append(issued, p.Path+" after "+time.Since(began).String())
			return "t", time.Now().Add(life[p.Path]), nil
		}}
		if files, err := tokens.renew(t.Context(), time.Now()); err != nil || len(files) != 2 {
			t.Fatalf("%v, %v", files, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Hour)
		defer cancel()
		var notices []string
		err := runOf("web").follow(ctx, &tokens, func(e api.PodRunEvent) error {
			if e.Notice != "" {
				notices = append(notices, e.Notice)
			}
			if time.Since(began) > 3*time.Hour {
				broken = time.Since(began) < 5*time.Hour
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"/hour after 0s", "/year after 0s", "/hour after 48m0s", "/hour after 1h36m0s", "/hour after 2h24m0s", "/hour after 3h12m0s"}
		if diff := cmp.Diff(want, issued[:6]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if want := []string{"the pod shop/web is gone; its tokens are no longer renewed"}; cmp.Diff(want, notices) != "" {
			t.Errorf("told %q", notices)
		}
	})
}

// Without tokens, and once the client is gone, nothing goes on.
func TestPodRunEnds(t *testing.T) {
	gone := errors.New("gone")
	r := runOf("web")
	r.notice("hello")
	r.notice("hello")
	var told []string
	if err := r.follow(t.Context(), &podTokens{}, func(e api.PodRunEvent) error { told = append(told, e.Notice); return gone }); !errors.Is(err, gone) || len(told) != 1 {
		t.Errorf("%v after %q", err, told)
	}
	if len(r.notices) > 0 {
		t.Error("a notice is told twice")
	}
}

// What a request to the run's listener means: the variables of a command name it in
// the place of several hosts.
func TestMeantByPods(t *testing.T) {
	rs := New(Config{Services: theServices})
	signed := func(service, region string) http.Header {
		return http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIA/20260101/" + region + "/" + service + "/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64)}, "X-Amz-Date": {"20260101T000000Z"}}
	}
	for _, tt := range []struct {
		name, path string
		header     http.Header
		want       string
		port       int
	}{
		{"a regional service", "/", signed("ec2", "us-east-1"), "ec2.us-east-1.amazonaws.com", 443},
		{"STS of a region", "/", signed("sts", "us-west-2"), "sts.us-west-2.amazonaws.com", 443},
		{"a global service", "/", signed("iam", "us-east-1"), "iam.amazonaws.com", 443},
		{"a service of another name", "/", signed("elasticloadbalancing", "us-east-1"), "elasticloadbalancing.us-east-1.amazonaws.com", 443},
		{"a service with an endpoint of another name", "/", signed("pricing", "us-east-1"), "api.pricing.us-east-1.amazonaws.com", 443},
		{"EKS Auth", "/", signed("eks-auth", "us-east-1"), "eks-auth.us-east-1.api.aws", 443},
		{"a service that is not there", "/", signed("lambda", "us-east-1"), "lambda.us-east-1.amazonaws.com", 443},
		{"a signed path of the metadata service's", "/latest/meta-data", signed("eks", "us-east-1"), "eks.us-east-1.amazonaws.com", 443},
		{"the metadata service", "/latest/api/token", nil, "169.254.169.254", 80},
		{"the agent", "/v1/credentials", http.Header{"Authorization": {"eyJhbGciOi"}}, "169.254.170.23", 80},
		{"a web identity", "/", nil, "sts.eu-west-1.amazonaws.com", 443},
	} {
		r := httptest.NewRequest(http.MethodPost, tt.path, nil)
		for k, v := range tt.header {
			r.Header[k] = v
		}
		if host, port := rs.meant(runOf("web"), r); host != tt.want || port != tt.port {
			t.Errorf("%s: %s:%d, want %s:%d", tt.name, host, port, tt.want, tt.port)
		}
	}
}

// A web page that rebinds its name to the listener of a run would get the pod's
// credentials from the metadata service or the agent.
func TestPagesReachNoPod(t *testing.T) {
	rs := New(Config{})
	for _, host := range []string{"evil.example:1111", "127.0.0.1:1111"} {
		for _, path := range []string{"/latest/api/token", "/v1/credentials", "/"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if r.Host = host; host != "evil.example:1111" {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
			}
			w := httptest.NewRecorder()
			if rs.servePod(w, r, podConn{run: runOf("web")}, nil); w.Code != http.StatusForbidden {
				t.Errorf("%s%s: %d", host, path, w.Code)
			}
		}
	}
}

// Only who knows the secret of a run gets into it, and only from this machine.
func TestEnterPodRun(t *testing.T) {
	rs := New(Config{})
	secret, err := rs.add(runOf("web"))
	if err != nil || len(secret) != 64 {
		t.Fatalf("%q, %v", secret, err)
	}
	proxy := server.NewProxy(nil, testkit.Log(t))
	for _, tt := range []struct {
		name, remote, authorization string
		entered                     bool
		status                      int
	}{
		{"nobody's", "127.0.0.1:1", "", false, http.StatusOK},
		{"another proxy's", "127.0.0.1:1", "Basic eDp5", false, http.StatusOK},
		{"a wrong secret", "127.0.0.1:1", api.PodRunAuthorization + strings.Repeat("0", 64), true, http.StatusForbidden},
		{"another machine", "192.0.2.1:1", api.PodRunAuthorization + secret, true, http.StatusForbidden},
		{"the right one, on a connection that cannot be taken over", "127.0.0.1:1", api.PodRunAuthorization + secret, true, http.StatusBadRequest},
	} {
		r := httptest.NewRequest(http.MethodConnect, "http://"+api.PodRunTarget, nil)
		r.RemoteAddr = tt.remote
		r.Header.Set("Proxy-Authorization", tt.authorization)
		w := httptest.NewRecorder()
		if got := rs.enterPodRun(w, r, proxy); got != tt.entered || w.Code != tt.status {
			t.Errorf("%s: %v with status %d", tt.name, got, w.Code)
		}
	}
	if !rs.cfg.Listeners.Has("127.0.0.1:1111") || rs.cfg.Listeners.Has("127.0.0.1:2222") {
		t.Error("the run listens elsewhere")
	}
	rs.remove(secret)
	if _, ok := rs.find(secret); ok || rs.cfg.Listeners.Has("127.0.0.1:1111") {
		t.Error("the run goes on")
	}
	for range maxPodRuns {
		if _, err := rs.add(runOf("web")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rs.add(runOf("web")); err == nil {
		t.Error("there is no limit")
	}
}

// An openNetwork allows pods every connection.
type openNetwork struct{ Machines }

func (openNetwork) Running(string) (machine.Instance, bool) { return machine.Instance{}, true }
func (openNetwork) Reach(context.Context, machine.Instance, string, int) (compute.Origin, error) {
	return compute.Origin{}, nil
}

type oneNode struct{ Explainer }

func (oneNode) FindNode(string, string, string) (string, bool) { return "i-1", true }

type noPlanes struct{ ControlPlanes }

func (noPlanes) ByHost(string) (controlplane.Plane, bool) { return controlplane.Plane{}, false }

// The attack: a pod's program uses the daemon to reach a service on this machine's loopback.
func TestPodsReachNothingOfTheDaemonsOwn(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	go func() {
		if conn, err := inner.Accept(); err == nil {
			conn.Close()
			t.Error("it was dialed")
		}
	}()
	rs := New(Config{Machines: openNetwork{}, Why: oneNode{}, ControlPlanes: noPlanes{}, Origins: new(compute.Origins), Log: testkit.Log(t)})
	proxy := server.NewProxy(nil, testkit.Log(t))
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rs.servePod(w, r, podConn{run: runOf("web")}, proxy) }))
	defer daemon.Close()
	_, port, _ := net.SplitHostPort(inner.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0"} {
		target := net.JoinHostPort(host, port)
		for _, ask := range []string{"CONNECT " + target, "GET http://" + target + "/"} {
			conn, err := net.Dial("tcp", daemon.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, ask+" HTTP/1.1\r\nHost: "+target+"\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "502 Bad Gateway") {
				t.Errorf("%s: %q", ask, line)
			}
			conn.Close()
		}
	}
}

// A connection and where it comes from are known until it is closed.
func TestPodConnections(t *testing.T) {
	var origins compute.Origins
	rs := New(Config{Origins: &origins})
	run := runOf("web")
	if _, err := rs.add(run); err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer far.Close()
	c := rs.keep(near, podConn{run, "sts.eu-west-1.amazonaws.com", 443}, &origins)
	remote := c.RemoteAddr().String()
	origins.Set(remote, compute.Origin{Address: netip.MustParseAddr("10.0.0.9")})
	if got, ok := rs.of(remote); !ok || got.run != run || got.host != "sts.eu-west-1.amazonaws.com" {
		t.Errorf("%+v, %v", got, ok)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := rs.of(remote); ok || origins.Has(remote) {
		t.Error("it is known after its end")
	}
}

func TestCheckPodRun(t *testing.T) {
	good := api.PodRunRequest{Account: "000000000000", Region: "us-east-1", Namespace: "default", Pod: "web", Listener: "127.0.0.1:80"}
	if err := checkPodRun(&good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*api.PodRunRequest){
		"account must be 12 digits":  func(r *api.PodRunRequest) { r.Account = "1" },
		"region is missing":          func(r *api.PodRunRequest) { r.Region = "" },
		"a pod is missing":           func(r *api.PodRunRequest) { r.Pod = "a/b" },
		"must be a loopback address": func(r *api.PodRunRequest) { r.Listener = "192.0.2.1:80" },
	} {
		bad := good
		change(&bad)
		if err := checkPodRun(&bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What a pod does not reach is 504 to it, told to the user, and kept for `why`.
func TestUnreachableOfPods(t *testing.T) {
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	rs := New(Config{Journal: j, Log: testkit.Log(t, "secrets of the machine")})
	run, w := runOf("web"), httptest.NewRecorder()
	rs.unreachable(w, run, "sts.eu-west-1.amazonaws.com", 443, &node.Refusal{Err: errors.New("i/o timeout"), Decision: node.Decision{
		By: node.ByNetwork, Code: "NO_ROUTE", Component: "rtb-1", Text: "rtb-1 has no route", Fixes: []advice.Fix{{Proven: true, Commands: []string{"aws ec2 create-route"}}},
	}})
	if w.Code != http.StatusGatewayTimeout || !strings.HasPrefix(w.Body.String(), "<html>") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if got := <-run.notices; got != "pod shop/web cannot reach sts.eu-west-1.amazonaws.com:443: rtb-1 has no route\nTry: drydock why request --last-denied" {
		t.Errorf("told %q", got)
	}
	mux, answer := http.NewServeMux(), httptest.NewRecorder()
	why.New(why.Config{Journal: j}).Handle(mux)
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/_drydock/why/request?account=000000000000", nil))
	var e api.RequestExplanation
	if err := json.Unmarshal(answer.Body.Bytes(), &e); err != nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	for _, want := range []string{
		"connection to sts.eu-west-1.amazonaws.com:443", "principal system:serviceaccount:shop:cart", "shop/web in cluster dev of eu-west-1",
		"The connection failed: rtb-1 has no route.", "fix: aws ec2 create-route",
	} {
		if !strings.Contains(e.Text(), want) {
			t.Errorf("%s is not in:\n%s", want, e.Text())
		}
	}
	w = httptest.NewRecorder()
	if rs.unreachable(w, run, "x", 1, errors.New("secrets of the machine")); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secrets") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// On Fargate neither the node nor an agent gives credentials; what gives some is said.
func TestPodsOnFargateHaveNoCredentialsOfTheNode(t *testing.T) {
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	rs := New(Config{Journal: j, Log: testkit.Log(t)})
	mux := http.NewServeMux()
	why.New(why.Config{Journal: j}).Handle(mux)
	in := machine.Instance{ID: "fargate-1", Fargate: true}
	for name, ask := range map[string]func(http.ResponseWriter, *http.Request, *podRun, machine.Instance){
		"pod shop/web cannot reach 169.254.169.254:80: pods on Fargate have no instance metadata service":           rs.podMetadata,
		"pod shop/web: 169.254.170.23:80 refuses connections: EKS Pod Identity is not available to pods on Fargate": rs.podIdentityAgent,
	} {
		run, w, answer := runOf("web"), httptest.NewRecorder(), httptest.NewRecorder()
		ask(w, httptest.NewRequest(http.MethodGet, "/", nil), run, in)
		if told, _, _ := strings.Cut(<-run.notices, "\n"); told != name || w.Code < 500 {
			t.Errorf("status %d, told %q, want %q", w.Code, told, name)
		}
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/_drydock/why/request?account=000000000000", nil))
		if !strings.Contains(answer.Body.String(), "eks.amazonaws.com/role-arn=") {
			t.Errorf("%s: why says %s", name, answer.Body)
		}
	}
}

// theServices are some, by their operations.
func theServices() []awsapi.Service {
	return []awsapi.Service{
		new(eks.Service).AWS(), new(eksauth.Service).AWS(), new(ec2.Service).AWS(), new(elb.Service).AWS(), new(elbv2.Service).AWS(),
		new(iam.Service).AWS(), new(sts.Service).AWS(), new(pricing.Service).AWS(),
	}
}

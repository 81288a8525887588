package podrun

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// maxPodRuns bounds how many commands run as pods at a time.
const maxPodRuns = 256

// A podRun is one such command.
type podRun struct {
	program  eks.PodProgram
	listener string        // of the CLI
	ended    chan struct{} // closed when the command has ended
	// notices are shown to the user, each once.
	notices chan string
	mu      sync.Mutex
	told    map[string]bool
}

// A podConn is a connection of a run to a host, or to the run's own listener.
type podConn struct {
	run  *podRun
	host string // "" means the listener
	port int
}

const (
	maxNotices = 100 // of a run, before further ones are dropped
	maxPodName = 253
)

// notice sends the user a notice, unless it was sent before.
func (r *podRun) notice(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told[text] || len(r.told) >= maxNotices {
		return
	}
	select {
	case r.notices <- text:
		r.told[text] = true
	default: // more than anyone reads
	}
}

// whyServiceAccount is the command that explains the pod's AWS identity.
func (r *podRun) whyServiceAccount() string {
	pod := r.program.Pod
	return "drydock why serviceaccount " + pod.Namespace + "/" + cmp.Or(pod.Spec.ServiceAccountName, "default") + " --cluster " + r.program.Cluster
}

// name is NAMESPACE/NAME.
func (r *podRun) name() string { return r.program.Pod.Namespace + "/" + r.program.Pod.Name }

func (rs *Runs) add(r *podRun) (secret string, err error) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	secret = hex.EncodeToString(b)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.bySecret) >= maxPodRuns {
		return "", fmt.Errorf("%d commands are already running as pods", maxPodRuns)
	}
	rs.bySecret[secret] = r
	rs.cfg.Listeners.count(r.listener, 1)
	return secret, nil
}

func (rs *Runs) remove(secret string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.bySecret[secret]; ok {
		rs.cfg.Listeners.count(r.listener, -1)
		delete(rs.bySecret, secret)
	}
}

func (rs *Runs) find(secret string) (*podRun, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.bySecret[secret]
	return r, ok
}

// of returns the podConn with a remote address.
func (rs *Runs) of(remote string) (podConn, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	c, ok := rs.conns[remote]
	return c, ok
}

// keep registers a connection until it is closed.
func (rs *Runs) keep(conn net.Conn, c podConn, o *compute.Origins) net.Conn {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.conns[conn.RemoteAddr().String()] = c
	return &podRunConn{conn, rs, o}
}

type podRunConn struct {
	net.Conn
	runs    *Runs
	origins *compute.Origins
}

func (c *podRunConn) Close() error {
	remote := c.RemoteAddr().String()
	c.runs.mu.Lock()
	delete(c.runs.conns, remote)
	c.runs.mu.Unlock()
	c.origins.Forget(remote)
	return c.Conn.Close()
}

// CloseWrite lets tunnels half-close.
func (c *podRunConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// postPodRun starts a run. Its response lasts as long as the run and has one line for each update of tokens and each
// notice.
func (rs *Runs) postPodRun(w http.ResponseWriter, r *http.Request) {
	var in api.PodRunRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := checkPodRun(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := awsapi.WithCall(r.Context(), &awsapi.Call{Account: in.Account, Region: in.Region, Service: "eks"})
	program, err := rs.podProgram(ctx, &in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	run := &podRun{program: program, listener: in.Listener, ended: make(chan struct{}), notices: make(chan string, maxNotices), told: map[string]bool{}}
	tokens := podTokens{tokens: program.Tokens, issue: func(ctx context.Context, t eks.PodToken) (string, time.Time, error) {
		return rs.cfg.EKS.IssuePodToken(ctx, &program, t)
	}}
	files, err := tokens.renew(ctx, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	for name, data := range program.Files {
		files[name] = data
	}
	secret, err := rs.add(run)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer rs.remove(secret)
	out := http.NewResponseController(w)
	if err := errors.Join(out.SetReadDeadline(time.Time{}), out.SetWriteDeadline(time.Time{})); err != nil { // otherwise the run would end with them
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	send := func(e api.PodRunEvent) error {
		if err := json.NewEncoder(w).Encode(e); err != nil {
			return err
		}
		return out.Flush()
	}
	err = send(api.PodRunEvent{Run: &api.PodRun{
		Secret: secret, Cluster: program.Cluster, Pod: program.Pod.Name, Container: program.Container, Containers: program.Containers,
		ServiceAccount: cmp.Or(program.Pod.Spec.ServiceAccountName, "default"), Env: program.Env, Files: files, Mounts: program.Mounts,
	}})
	if err == nil {
		_ = run.follow(ctx, &tokens, send) // the client has disconnected
	}
}

// follow sends the client events until the client disconnects or the daemon ends.
func (r *podRun) follow(ctx context.Context, tokens *podTokens, send func(api.PodRunEvent) error) error {
	for {
		due := time.NewTimer(time.Until(tokens.due()))
		select {
		case <-ctx.Done():
			due.Stop()
			return nil
		case <-server.Draining(ctx):
			due.Stop()
			return nil
		case <-r.ended:
			due.Stop()
			return r.lastNotices(send)
		case text := <-r.notices:
			due.Stop()
			if err := send(api.PodRunEvent{Notice: text}); err != nil {
				return err
			}
		case <-due.C:
			files, err := tokens.renew(ctx, time.Now())
			switch {
			case apierrors.IsNotFound(err):
				r.notice("the pod " + r.name() + " is gone; its tokens are no longer renewed")
			case err != nil:
				r.notice("not renewed: " + err.Error())
			}
			if len(files) == 0 {
				continue
			}
			if err := send(api.PodRunEvent{Files: files}); err != nil {
				return err
			}
		}
	}
}

// lastNotices tells what the command did not live to see.
func (r *podRun) lastNotices(send func(api.PodRunEvent) error) error {
	for {
		select {
		case text := <-r.notices:
			if err := send(api.PodRunEvent{Notice: text}); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// postPodRunEnd ends the run of a secret: the command has ended.
func (rs *Runs) postPodRunEnd(w http.ResponseWriter, r *http.Request) {
	var in api.PodRunEnd
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if run, ok := rs.bySecret[in.Secret]; ok {
		rs.cfg.Listeners.count(run.listener, -1)
		delete(rs.bySecret, in.Secret)
		close(run.ended)
	}
	httpapi.Answer(w, struct{}{})
}

// checkPodRun bounds what is asked for.
func checkPodRun(in *api.PodRunRequest) error {
	listener, err := netip.ParseAddrPort(in.Listener)
	bad := httpapi.CheckAccount(in.Account)
	switch {
	case bad != nil:
		return bad
	case in.Region == "" || len(in.Region) > 32:
		return errors.New("region is missing")
	case in.Namespace == "" || in.Pod == "" || len(in.Namespace)+len(in.Pod) > 2*maxPodName || strings.Contains(in.Namespace+in.Pod, "/"):
		return errors.New("a pod is missing: NAMESPACE/NAME")
	case err != nil || !listener.Addr().IsLoopback():
		return errors.New("listener must be a loopback address")
	}
	return nil
}

// podProgram looks up the pod. Its errors say what to do next.
func (rs *Runs) podProgram(ctx context.Context, in *api.PodRunRequest) (eks.PodProgram, error) {
	cluster, err := rs.cfg.Why.OnlyCluster(ctx, in.Account, in.Region, in.Cluster)
	if err != nil {
		return eks.PodProgram{}, fmt.Errorf("%w\nTry: drydock status", err)
	}
	p, err := rs.cfg.EKS.PodProgram(ctx, cluster, in.Namespace, in.Pod, in.Container)
	name := in.Namespace + "/" + in.Pod
	if p.Pod != nil { // of the owner that in names
		name = in.Namespace + "/" + p.Pod.Name
	}
	var refused smithy.APIError
	var idle *eks.PodNotRunningError
	var none *eks.NoContainerError
	whyPod := "drydock why pod " + name + " --cluster " + cluster
	switch {
	case errors.As(err, &refused):
		return p, fmt.Errorf("%s\nTry: drydock status", refused.ErrorMessage())
	case errors.Is(err, eks.ErrNoPod):
		return p, rs.noPod(ctx, cluster, in)
	case errors.As(err, &idle):
		return p, fmt.Errorf("nothing runs in pod %s: %w%s\nTry: %s", name, idle, rs.whyNotRunning(ctx, cluster, in.Namespace, p.Pod.Name), whyPod)
	case errors.As(err, &none):
		return p, fmt.Errorf("pod %s: %w\nTry: drydock run --pod %s --cluster %s --container %s -- COMMAND", name, none, name, cluster, none.Have[0])
	case err != nil:
		return p, fmt.Errorf("pod %s: %w\nTry: %s", name, err, whyPod)
	}
	if _, ok := rs.podHost(&p); !ok {
		return p, fmt.Errorf("pod %s is on node %s, which is not a running instance, so its network is not known\nTry: %s", name, p.Pod.Spec.NodeName, whyPod)
	}
	return p, nil
}

// noPod says what to try if there is neither a pod nor an owner of pods that run.
func (rs *Runs) noPod(ctx context.Context, cluster string, in *api.PodRunRequest) error {
	err := fmt.Errorf("there is no pod %s/%s in cluster %s", in.Namespace, in.Pod, cluster)
	facts, e := rs.cfg.EKS.PodFacts(ctx, cluster, in.Namespace, in.Pod)
	switch {
	case e == nil && (facts.Pod != nil || len(facts.Events) > 0):
		return fmt.Errorf("%w\nTry: drydock why pod %s/%s --cluster %s", err, in.Namespace, in.Pod, cluster)
	}
	return fmt.Errorf("%w\nTry: kubectl get pods --namespace %s", err, in.Namespace)
}

// whyNotRunning is the first step at which the pod fails, as `why pod` shows it.
func (rs *Runs) whyNotRunning(ctx context.Context, cluster, namespace, pod string) string {
	s := rs.cfg.Why.FailingStep(ctx, cluster, namespace, pod)
	switch {
	case s == nil:
		return ""
	case s.Reason != nil:
		return "; " + s.Name + " fails: " + s.Reason.Text
	}
	return "; " + s.Name + " fails: " + s.Evidence
}

// podHost returns the machine that a pod is on, or false if the machine is gone.
func (rs *Runs) podHost(p *eks.PodProgram) (machine.Instance, bool) {
	id, ok := rs.cfg.Why.FindNode(p.Account, p.Region, p.Pod.Spec.NodeName)
	if !ok {
		return machine.Instance{}, false
	}
	return rs.cfg.Machines.Running(id)
}

// getPods lists pods, or with ?running= only those that run, for shells that complete
// arguments.
func (rs *Runs) getPods(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := awsapi.WithCall(r.Context(), &awsapi.Call{Account: account, Region: region, Service: "eks"})
	cluster, err := rs.cfg.Why.OnlyCluster(ctx, account, region, r.URL.Query().Get("cluster"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const most = 500 // a shell shows no more
	names, err := rs.cfg.EKS.PodNames(ctx, cluster, r.URL.Query().Has("running"), most)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	httpapi.Answer(w, names)
}

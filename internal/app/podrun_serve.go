package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machines"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// Where pods reach what is on their node.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var (
	agentAddresses    = []string{"169.254.170.23", "fd00:ec2::23"}
	metadataAddresses = []string{"169.254.169.254", "fd00:ec2::254"}
)

// podHops is how far a pod with a network of its own is from the metadata service.
const podHops = 2

// podDialTimeout bounds a connection to somewhere else than AWS.
const podDialTimeout = 30 * time.Second

// enterPodRun lets a connection of the CLI into its run, and reports whether it asked
// for one.
func (d *daemon) enterPodRun(w http.ResponseWriter, r *http.Request, proxy *server.Proxy) bool {
	secret, ok := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), cli.PodRunAuthorization)
	if !ok {
		return false
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	run, known := d.podRuns.find(secret)
	hijacker, can := w.(http.Hijacker)
	switch {
	case err != nil || !remote.Addr().Unmap().IsLoopback() || !known:
		http.Error(w, "no such run", http.StatusForbidden)
	case !can:
		http.Error(w, "CONNECT HOST:PORT by HTTP/1.1", http.StatusBadRequest)
	case r.Host == cli.PodRunTarget:
		d.answerPod(w, hijacker, proxy, podConn{run: run}, nil)
	default:
		d.connectPod(w, r, run, proxy)
	}
	return true
}

// answerPod serves what comes on a connection of a pod.
func (d *daemon) answerPod(w http.ResponseWriter, hijacker http.Hijacker, proxy *server.Proxy, c podConn, from *machines.Origin) {
	proxy.Answer(w, hijacker, func(conn net.Conn) net.Conn {
		if from != nil {
			d.origins.Set(conn.RemoteAddr().String(), *from)
		}
		return d.podRuns.keep(conn, c, &d.origins)
	})
}

// servePod answers a request that a program of a pod makes.
func (d *daemon) servePod(w http.ResponseWriter, r *http.Request, c podConn, proxy *server.Proxy) {
	switch {
	case r.Method == http.MethodConnect:
		d.connectPod(w, r, c.run, proxy)
	case c.host != "":
		d.requestOfPod(w, r, c.run, c.host, c.port)
	case r.URL.IsAbs(): // to a proxy
		host, port := r.URL.Hostname(), 80
		if p, err := strconv.Atoi(r.URL.Port()); err == nil {
			port = p
		}
		if r.URL.Scheme != "http" {
			http.Error(w, "by CONNECT", http.StatusBadRequest)
			return
		}
		d.requestOfPod(w, r, c.run, host, port)
	default: // to the listener, as an endpoint
		host, port := d.meant(c.run, r)
		d.requestOfPod(w, r, c.run, host, port)
	}
}

// meant is the host that a request to the run's listener would have gone to: the
// variables of the command name the listener in the place of several hosts.
func (d *daemon) meant(run *podRun, r *http.Request) (host string, port int) {
	auth, err := sigv4.Parse(&sigv4.Request{Method: r.Method, EscapedPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Host: r.Host, Header: r.Header})
	switch {
	case err == nil:
		return d.endpointName(auth.Service, auth.Region), 443
	case r.URL.Path == "/v1/credentials":
		return agentAddresses[0], 80
	case strings.HasPrefix(r.URL.Path, "/latest/"):
		return metadataAddresses[0], 80
	}
	return "sts." + run.program.Region + ".amazonaws.com", 443 // what needs no signature is STS's
}

// endpointName is the host that SDKs call a service by, which a signature names.
func (d *daemon) endpointName(signing, region string) string {
	prefix := signing
	for _, s := range d.services() {
		m, err := model.Get(s.Name)
		if err != nil || m.SigningName != signing {
			continue
		}
		prefix = m.EndpointPrefix
		if m.GlobalEndpoint != "" && m.Name != "sts" { // which every region has
			return m.GlobalEndpoint
		}
		break
	}
	if signing == "eks-auth" {
		return prefix + "." + region + ".api.aws" // which has no other
	}
	return prefix + "." + region + ".amazonaws.com"
}

// connectPod connects a program of a pod with a host, if the pod's network lets it.
func (d *daemon) connectPod(w http.ResponseWriter, r *http.Request, run *podRun, proxy *server.Proxy) {
	host, p, err := net.SplitHostPort(r.Host)
	port, bad := strconv.Atoi(p)
	hijacker, can := w.(http.Hijacker)
	if err != nil || bad != nil || port < 1 || port > 65535 || !can {
		http.Error(w, "CONNECT HOST:PORT by HTTP/1.1", http.StatusBadRequest)
		return
	}
	in, ok := d.podHost(&run.program)
	switch plane, isPlane := (planes{d.planes}).ByHost(host); {
	case slices.Contains(agentAddresses, host) || slices.Contains(metadataAddresses, host):
		d.answerPod(w, hijacker, proxy, podConn{run, host, port}, nil)
	case !ok:
		d.unreachable(w, run, host, port, gone(run))
	case r.Host == cli.PodRunKubernetes || isPlane:
		name := plane.AWSHost
		if !isPlane {
			name = d.planeHost(run.program.PlaneID)
		}
		far, err := d.machines.DialEndpoint(r.Context(), in, name, 443)
		if err != nil {
			d.unreachable(w, run, name, 443, err)
			return
		}
		proxy.Tunnel(w, hijacker, far)
	default:
		from, err := d.machines.Reach(r.Context(), in, host, port)
		if err != nil {
			d.unreachable(w, run, host, port, err)
			return
		}
		if server.AWSHost(host) {
			d.answerPod(w, hijacker, proxy, podConn{run, host, port}, &from)
			return
		}
		far, err := (&net.Dialer{Timeout: podDialTimeout}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		proxy.Tunnel(w, hijacker, far)
	}
}

// planeHost is AWS's name of a control plane.
func (d *daemon) planeHost(planeID string) string {
	for _, p := range d.planes.Planes() {
		if p.ID == planeID {
			return p.AWSHost
		}
	}
	return ""
}

// requestOfPod answers a request of a pod to a host.
func (d *daemon) requestOfPod(w http.ResponseWriter, r *http.Request, run *podRun, host string, port int) {
	in, ok := d.podHost(&run.program)
	switch {
	case !ok:
		d.unreachable(w, run, host, port, gone(run))
	case slices.Contains(agentAddresses, host) && port == 80:
		d.podIdentityAgent(w, r, run, in)
	case slices.Contains(metadataAddresses, host) && port == 80:
		d.podMetadata(w, r, run, in)
	case server.AWSHost(host):
		if _, _, address := d.origins.Of(r.RemoteAddr); r.TLS == nil || !address.IsValid() {
			from, err := d.machines.Reach(r.Context(), in, host, port)
			if err != nil {
				d.unreachable(w, run, host, port, err)
				return
			}
			d.origins.Set(r.RemoteAddr, from)
		}
		if strings.HasPrefix(host, "oidc.eks.") {
			d.planes.OIDCHandler().ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, server.InternalPrefix) {
			http.Error(w, "pods may not ask", http.StatusForbidden)
			return
		}
		d.server.ServeHTTP(w, r)
	default:
		if _, err := d.machines.Reach(r.Context(), in, host, port); err != nil {
			d.unreachable(w, run, host, port, err)
			return
		}
		to := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(port))}
		(&httputil.ReverseProxy{
			Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
			Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: podDialTimeout}).DialContext, DisableKeepAlives: true},
		}).ServeHTTP(w, r)
	}
}

// gone is why a pod whose node has ended reaches nothing.
func gone(run *podRun) error {
	return &node.Refusal{
		Err:      fmt.Errorf("the node of pod %s is gone", run.name()),
		Decision: node.Decision{By: node.ByNetwork, Component: run.program.Pod.Spec.NodeName, Text: "its instance runs no more"},
	}
}

// unreachable refuses what the pod's network does not let through. A proxy has no
// better word for a connection that times out than 504; why, the user is told once,
// and `drydock why` afterwards.
func (d *daemon) unreachable(w http.ResponseWriter, run *podRun, host string, port int, err error) {
	why := node.DecisionOf(err)
	if why == nil {
		d.log.Error("a connection of a pod", "pod", run.name(), "host", host, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	target := net.JoinHostPort(host, strconv.Itoa(port))
	d.recordRefusal(run, target, why)
	run.notice(fmt.Sprintf("pod %s cannot reach %s: %s\nTry: drydock why request --last-denied", run.name(), target, why.Text))
	// The page is not for reading: SDKs look into what is no HTML for an error of AWS's.
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusGatewayTimeout)
	_, _ = fmt.Fprintf(w, "<html><body>%s</body></html>\n", http.StatusText(http.StatusGatewayTimeout)) // the client may be gone
}

// recordRefusal keeps why a pod did not reach something.
func (d *daemon) recordRefusal(run *podRun, target string, why *node.Decision) {
	d.journal.Append(journal.Entry{
		Time: time.Now(), Account: run.program.Account, Region: run.program.Region, Kind: journal.KindDecision,
		Fields: map[string]any{
			"requestId": ids.UUID(), "cluster": run.program.Cluster, "pod": run.name(), "target": target,
			"principal": "system:serviceaccount:" + run.program.Pod.Namespace + ":" + run.program.Pod.Spec.ServiceAccountName, "decision": why,
		},
	})
}

// podMetadata is the instance metadata service as pods reach it: those with a network
// of their own are a hop further away than what runs on the instance.
func (d *daemon) podMetadata(w http.ResponseWriter, r *http.Request, run *podRun, in node.Instance) {
	if in.Fargate != nil {
		// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html: not available to pods
		d.unreachable(w, run, metadataAddresses[0], 80, &node.Refusal{
			Err: fmt.Errorf("no metadata service"), Decision: node.Decision{By: node.ByNetwork, Component: in.ID, Text: "pods on Fargate have no instance metadata service", Fixes: []string{roleByAnnotation(run)}},
		})
		return
	}
	hops := podHops
	if run.program.Pod.Spec.HostNetwork {
		hops = 1
	}
	out := r.Clone(r.Context())
	resp, err := d.machines.Metadata(in.ID, hops).RoundTrip(out)
	if err != nil {
		d.metadataLost(run, in, err)
		// Nobody answers: the client would wait for its own timeout, and sees the same sooner.
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the client may be gone
}

// podIdentityAgent is the EKS Pod Identity Agent on a pod's node: there if the add-on's
// pod runs on it, and then calling EKS Auth as the node.
func (d *daemon) podIdentityAgent(w http.ResponseWriter, r *http.Request, run *podRun, in node.Instance) {
	p := &run.program
	if in.Fargate != nil {
		// https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html#pod-id-restrictions: not on Fargate
		d.agentRefuses(w, run, "EKS Pod Identity is not available to pods on Fargate", roleByAnnotation(run))
		return
	}
	runs, err := d.eks.PodIdentityAgentRuns(r.Context(), p.PlaneID, p.Pod.Spec.NodeName)
	if err != nil {
		d.log.Error("looking for the EKS Pod Identity Agent", "node", p.Pod.Spec.NodeName, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	if !runs {
		d.agentRefuses(w, run, "no EKS Pod Identity Agent runs on node "+p.Pod.Spec.NodeName,
			"aws eks create-addon --cluster-name "+p.Cluster+" --addon-name eks-pod-identity-agent")
		return
	}
	d.eksAuth.Agent(p.Account, p.Region, p.Cluster, func(ctx context.Context) error {
		return d.agentMayCall(ctx, run, in)
	}).ServeHTTP(w, r)
}

// agentRefuses is the address of the agent where none listens.
func (d *daemon) agentRefuses(w http.ResponseWriter, run *podRun, text, fix string) {
	target := net.JoinHostPort(agentAddresses[0], "80")
	d.recordRefusal(run, target, &node.Decision{
		By: node.ByCluster, Code: "ConnectionRefused", Component: run.program.Pod.Spec.NodeName, Text: text, Fixes: []string{fix},
	})
	run.notice(fmt.Sprintf("pod %s: %s refuses connections: %s\nTry: %s", run.name(), target, text, fix))
	http.Error(w, "dial tcp "+target+": connect: connection refused", http.StatusBadGateway)
}

// roleByAnnotation gives a pod a role where neither its node nor an agent can.
func roleByAnnotation(run *podRun) string {
	pod := run.program.Pod
	return "kubectl annotate serviceaccount " + pod.Spec.ServiceAccountName + " --namespace " + pod.Namespace + " eks.amazonaws.com/role-arn=ROLE-ARN"
}

// agentMayCall decides the call of EKS Auth that the agent makes as its node.
func (d *daemon) agentMayCall(ctx context.Context, run *podRun, in node.Instance) error {
	host := "eks-auth." + in.Region + ".api.aws"
	err := d.machines.Call(ctx, in, node.Call{Action: node.ActionAssumeForPod, Host: host, Cluster: run.program.Cluster})
	why := node.DecisionOf(err)
	if why == nil {
		return err
	}
	d.recordRefusal(run, net.JoinHostPort(host, "443"), why)
	run.notice(fmt.Sprintf("pod %s: the EKS Pod Identity Agent of its node gets nothing of EKS Auth: %s\nTry: drydock why request --last-denied", run.name(), why.Text))
	if why.By == node.ByIAM {
		_, text, _ := strings.Cut(err.Error(), "api error "+why.Code+": ")
		return awserr.New(why.Code, text)
	}
	return &eksauth.UnsentError{Err: err}
}

// metadataLost tells why a pod got no answer.
func (d *daemon) metadataLost(run *podRun, in node.Instance, err error) {
	if why := node.DecisionOf(err); why != nil { // a fault
		d.recordRefusal(run, net.JoinHostPort(metadataAddresses[0], "80"), why)
		run.notice(fmt.Sprintf("pod %s: %s", run.name(), why.Text))
		return
	}
	i, ok := d.ec2.InstanceByID(in.Account, in.Region, in.ID)
	if !ok || i.MetadataOptions == nil {
		return
	}
	why := &node.Decision{
		By: node.ByNetwork, Code: "HttpPutResponseHopLimit", Component: in.ID,
		Text: fmt.Sprintf("the answer of %s's metadata service is lost: its HttpPutResponseHopLimit is %d, and pods are %d hops away",
			in.ID, max(aws.ToInt32(i.MetadataOptions.HttpPutResponseHopLimit), 1), podHops),
		Fixes: []string{fmt.Sprintf("aws ec2 modify-instance-metadata-options --instance-id %s --http-put-response-hop-limit %d", in.ID, podHops)},
	}
	d.recordRefusal(run, net.JoinHostPort(metadataAddresses[0], "80"), why)
	run.notice(fmt.Sprintf("pod %s: %s\nTry: %s", run.name(), why.Text, why.Fixes[0]))
}

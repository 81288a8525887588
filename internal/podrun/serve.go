package podrun

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

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/dialout"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/podidentityagent"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// Where pods reach services on their node. https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var (
	agentAddresses    = []string{"169.254.170.23", "fd00:ec2::23"}
	metadataAddresses = []string{"169.254.169.254", "fd00:ec2::254"}
)

// podHops is the number of hops from a pod with its own network to the metadata service.
const podHops = 2

// podDialTimeout bounds dialling a target other than AWS.
const podDialTimeout = 30 * time.Second

// Serve serves requests that belong to a run: connections of programs, and those by which a CLI enters a run. It
// returns false for all other requests.
func (rs *Runs) Serve(w http.ResponseWriter, r *http.Request, proxy *server.Proxy) bool {
	if c, ok := rs.of(r.RemoteAddr); ok {
		rs.servePod(w, r, c, proxy)
		return true
	}
	return r.Method == http.MethodConnect && rs.enterPodRun(w, r, proxy)
}

// enterPodRun lets a connection of the CLI into its run. It returns false if the request does not ask for that.
func (rs *Runs) enterPodRun(w http.ResponseWriter, r *http.Request, proxy *server.Proxy) bool {
	secret, ok := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), api.PodRunAuthorization)
	if !ok {
		return false
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	run, known := rs.find(secret)
	hijacker, can := w.(http.Hijacker)
	switch {
	case err != nil || !remote.Addr().Unmap().IsLoopback() || !known:
		http.Error(w, "no such run", http.StatusForbidden)
	case !can:
		http.Error(w, "want CONNECT HOST:PORT in HTTP/1.1", http.StatusBadRequest)
	case r.Host == api.PodRunTarget:
		rs.answerPod(w, hijacker, proxy, podConn{run: run}, nil)
	default:
		rs.connectPod(w, r, run, proxy)
	}
	return true
}

// answerPod serves a pod's connection.
func (rs *Runs) answerPod(w http.ResponseWriter, hijacker http.Hijacker, proxy *server.Proxy, c podConn, from *compute.Origin) {
	proxy.Answer(w, hijacker, func(conn net.Conn) net.Conn {
		if from != nil {
			rs.cfg.Origins.Set(conn.RemoteAddr().String(), *from)
		}
		return rs.keep(conn, c, rs.cfg.Origins)
	})
}

// servePod serves a request from a pod's program.
func (rs *Runs) servePod(w http.ResponseWriter, r *http.Request, c podConn, proxy *server.Proxy) {
	switch {
	case r.Method == http.MethodConnect:
		rs.connectPod(w, r, c.run, proxy)
	case c.host != "":
		rs.requestOfPod(w, r, c, c.host, c.port)
	case r.URL.IsAbs(): // to a proxy
		host, port := r.URL.Hostname(), 80
		if p, err := strconv.Atoi(r.URL.Port()); err == nil {
			port = p
		}
		if r.URL.Scheme != "http" {
			http.Error(w, "by CONNECT", http.StatusBadRequest)
			return
		}
		rs.requestOfPod(w, r, c, host, port)
	default: // to the listener, as an endpoint
		if server.RefuseBrowser(w, r, nil) {
			return
		}
		host, port := rs.meant(c.run, r)
		rs.requestOfPod(w, r, c, host, port)
	}
}

// meant returns the host for which a request to the run's listener was meant: the command's variables name the
// listener in place of several hosts.
func (rs *Runs) meant(run *podRun, r *http.Request) (host string, port int) {
	auth, err := sigv4.Parse(&sigv4.Request{Method: r.Method, EscapedPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Host: r.Host, Header: r.Header})
	switch {
	case err == nil:
		return rs.endpointName(auth.Service, auth.Region), 443
	case r.URL.Path == "/v1/credentials":
		return agentAddresses[0], 80
	case strings.HasPrefix(r.URL.Path, "/latest/"):
		return metadataAddresses[0], 80
	}
	return "sts." + run.program.Region + ".amazonaws.com", 443 // unsigned requests are for STS
}

// endpointName returns the host by which SDKs call the service with a signing name.
func (rs *Runs) endpointName(signing, region string) string {
	prefix := signing
	for _, s := range rs.cfg.Services() {
		m, err := model.Get(s.Name)
		if err != nil || m.SigningName != signing {
			continue
		}
		prefix = m.EndpointPrefix
		if m.GlobalEndpoint != "" && m.Name != "sts" { // which all regions share
			return m.GlobalEndpoint
		}
		break
	}
	if signing == "eks-auth" {
		return prefix + "." + region + ".api.aws" // its only endpoint
	}
	return prefix + "." + region + ".amazonaws.com"
}

// connectPod connects a pod's program to a host, if the pod's network allows it.
func (rs *Runs) connectPod(w http.ResponseWriter, r *http.Request, run *podRun, proxy *server.Proxy) {
	host, p, err := net.SplitHostPort(r.Host)
	port, bad := strconv.Atoi(p)
	hijacker, can := w.(http.Hijacker)
	if err != nil || bad != nil || port < 1 || port > 65535 || !can {
		http.Error(w, "want CONNECT HOST:PORT in HTTP/1.1", http.StatusBadRequest)
		return
	}
	in, ok := rs.podHost(&run.program)
	switch plane, isPlane := rs.cfg.ControlPlanes.ByHost(host); {
	case slices.Contains(agentAddresses, host) || slices.Contains(metadataAddresses, host):
		rs.answerPod(w, hijacker, proxy, podConn{run, host, port}, nil)
	case !ok:
		rs.unreachable(w, run, host, port, gone(run))
	case r.Host == api.PodRunKubernetes || isPlane:
		name := plane.AWSHost
		if !isPlane {
			name = rs.cfg.ControlPlanes.AWSHost(run.program.PlaneID)
		}
		far, err := rs.cfg.Machines.DialEndpoint(r.Context(), in, name, 443)
		if err != nil {
			rs.unreachable(w, run, name, 443, err)
			return
		}
		proxy.Tunnel(w, hijacker, far)
	default:
		from, err := rs.cfg.Machines.Reach(r.Context(), in, host, port)
		if err != nil {
			rs.unreachable(w, run, host, port, err)
			return
		}
		if server.AWSHost(host) {
			rs.answerPod(w, hijacker, proxy, podConn{run, host, port}, &from)
			return
		}
		far, err := dialout.Dialer(podDialTimeout).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		proxy.Tunnel(w, hijacker, far)
	}
}

// requestOfPod answers a request of a pod to a host.
func (rs *Runs) requestOfPod(w http.ResponseWriter, r *http.Request, c podConn, host string, port int) {
	run := c.run
	in, ok := rs.podHost(&run.program)
	switch {
	case !ok:
		rs.unreachable(w, run, host, port, gone(run))
	case slices.Contains(agentAddresses, host) && port == 80:
		rs.podIdentityAgent(w, r, run, in)
	case slices.Contains(metadataAddresses, host) && port == 80:
		rs.podMetadata(w, r, run, in)
	case server.AWSHost(host):
		// A connection to the listener carries requests to several hosts, also at once.
		if _, address := rs.cfg.Origins.Of(r.RemoteAddr); c.host == "" || !address.IsValid() {
			from, err := rs.cfg.Machines.Reach(r.Context(), in, host, port)
			if err != nil {
				rs.unreachable(w, run, host, port, err)
				return
			}
			r = r.WithContext(r.Context())
			r.RemoteAddr = rs.originOf(r.RemoteAddr)
			rs.cfg.Origins.Set(r.RemoteAddr, from)
			defer rs.cfg.Origins.Forget(r.RemoteAddr)
		}
		if strings.HasPrefix(host, "oidc.eks.") {
			rs.cfg.OIDC.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, server.InternalPrefix) {
			http.Error(w, "pods may not use these pages", http.StatusForbidden)
			return
		}
		rs.callOfPod(w, r, run)
	default:
		if _, err := rs.cfg.Machines.Reach(r.Context(), in, host, port); err != nil {
			rs.unreachable(w, run, host, port, err)
			return
		}
		to := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(port))}
		(&httputil.ReverseProxy{
			Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
			Transport: &http.Transport{DialContext: dialout.Dialer(podDialTimeout).DialContext, DisableKeepAlives: true},
		}).ServeHTTP(w, r)
	}
}

// originOf is a name for one request of a connection.
func (rs *Runs) originOf(remote string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.requests++
	return remote + "/" + strconv.FormatUint(rs.requests, 10)
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// callOfPod has AWS answer a call. If it refuses, the user is told what explains that.
func (rs *Runs) callOfPod(w http.ResponseWriter, r *http.Request, run *podRun) {
	began, seen := time.Now(), &statusWriter{ResponseWriter: w}
	rs.cfg.AWS.ServeHTTP(seen, r)
	if seen.status < http.StatusBadRequest {
		return
	}
	var action string
	var denied, identity bool
	for e, err := range rs.cfg.Journal.Query(journal.Filter{Since: began, Fields: map[string]string{"requestId": w.Header().Get("X-Amzn-Requestid")}}) {
		if err != nil {
			rs.cfg.Log.Error("looking up a refused call of a pod", "pod", run.name(), "err", err)
			return
		}
		switch e.Kind {
		case journal.KindDecision:
			denied = true
		case journal.KindCall:
			action = fmt.Sprintf("%v:%v", e.Fields["service"], e.Fields["operation"])
			identity = e.Fields["operation"] == "AssumeRoleWithWebIdentity"
			denied = denied || e.Fields["fault"] != nil
		}
	}
	switch {
	case identity:
		run.notice(fmt.Sprintf("pod %s gets no credentials: %s failed\nTry: %s", run.name(), action, run.whyServiceAccount()))
	case denied:
		run.notice(fmt.Sprintf("pod %s: %s was refused\nTry: drydock why request --last-denied", run.name(), action))
	}
}

// gone is why a pod whose node has ended reaches nothing.
func gone(run *podRun) error {
	return &node.Refusal{
		Err:      fmt.Errorf("the node of pod %s is gone", run.name()),
		Decision: node.Decision{By: node.ByNetwork, Component: run.program.Pod.Spec.NodeName, Text: "its instance is no longer running"},
	}
}

// unreachable refuses what the pod's network does not allow. For a connection that times out, a proxy has no better
// status than 504. The user gets the reason once, and afterwards from `drydock why`.
func (rs *Runs) unreachable(w http.ResponseWriter, run *podRun, host string, port int, err error) {
	why := node.DecisionOf(err)
	if why == nil {
		rs.cfg.Log.Error("a connection of a pod", "pod", run.name(), "host", host, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	target := net.JoinHostPort(host, strconv.Itoa(port))
	rs.recordRefusal(run, target, why)
	run.notice(fmt.Sprintf("pod %s cannot reach %s: %s\nTry: drydock why request --last-denied", run.name(), target, why.Text))
	// The page is not meant to be read: SDKs look for an AWS error in anything that is not HTML.
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusGatewayTimeout)
	_, _ = fmt.Fprintf(w, "<html><body>%s</body></html>\n", http.StatusText(http.StatusGatewayTimeout)) // the client may have disconnected
}

// recordRefusal records why a pod could not reach something.
func (rs *Runs) recordRefusal(run *podRun, target string, why *node.Decision) {
	rs.cfg.Journal.Append(journal.Entry{
		Time: time.Now(), Account: run.program.Account, Region: run.program.Region, Kind: journal.KindDecision,
		Fields: map[string]any{
			"requestId": ids.UUID(), "cluster": run.program.Cluster, "pod": run.name(), "target": target,
			"principal": "system:serviceaccount:" + run.program.Pod.Namespace + ":" + run.program.Pod.Spec.ServiceAccountName, "decision": why,
		},
	})
}

// podMetadata is the instance metadata service as pods reach it. Pods with their own network are one hop further away
// than programs on the instance.
func (rs *Runs) podMetadata(w http.ResponseWriter, r *http.Request, run *podRun, in machine.Instance) {
	if in.Fargate {
		// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html: not available to pods
		rs.unreachable(w, run, metadataAddresses[0], 80, &node.Refusal{
			Err: fmt.Errorf("no metadata service"), Decision: node.Decision{By: node.ByNetwork, Component: in.ID, Text: "pods on Fargate have no instance metadata service", Fixes: []advice.Fix{roleByAnnotation(run)}},
		})
		return
	}
	hops := podHops
	if run.program.Pod.Spec.HostNetwork {
		hops = 1
	}
	out := r.Clone(r.Context())
	resp, err := rs.cfg.Machines.Metadata(in.ID, hops).RoundTrip(out)
	if err != nil {
		rs.metadataLost(run, in, err)
		// The client would get no answer and wait for its own timeout. Closing the connection has the same effect,
		// but sooner.
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the client may have disconnected
}

// podIdentityAgent is the EKS Pod Identity Agent on a pod's node. It exists if the add-on's pod runs there, and calls
// EKS Auth as the node.
func (rs *Runs) podIdentityAgent(w http.ResponseWriter, r *http.Request, run *podRun, in machine.Instance) {
	p := &run.program
	if in.Fargate {
		// https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html#pod-id-restrictions: not on Fargate
		rs.agentRefuses(w, run, "EKS Pod Identity is not available to pods on Fargate", roleByAnnotation(run))
		return
	}
	runs, err := rs.cfg.EKS.PodIdentityAgentRuns(r.Context(), p.PlaneID, p.Pod.Spec.NodeName)
	if err != nil {
		rs.cfg.Log.Error("looking up the EKS Pod Identity Agent", "node", p.Pod.Spec.NodeName, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	if !runs {
		rs.agentRefuses(w, run, "no EKS Pod Identity Agent runs on node "+p.Pod.Spec.NodeName,
			rs.installAgent(r.Context(), p)[0])
		return
	}
	explained, seen := false, &statusWriter{ResponseWriter: w}
	eksauth.Agent(func(ctx context.Context, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error) {
		out, err := rs.cfg.Machines.AssumeForPod(ctx, in, p.Cluster, token)
		explained = node.DecisionOf(err) != nil
		return out, rs.agentRefused(run, in, err)
	}).ServeHTTP(seen, r)
	if seen.status >= http.StatusBadRequest && !explained {
		run.notice(fmt.Sprintf("pod %s gets no credentials from the EKS Pod Identity Agent\nTry: %s", run.name(), run.whyServiceAccount()))
	}
}

// installAgent returns the fix that installs the agent's add-on.
func (rs *Runs) installAgent(ctx context.Context, p *eks.PodProgram) []advice.Fix {
	const name = "eks-pod-identity-agent"
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: p.Account, Region: p.Region})
	return advice.Try(func(changes []advice.Change) error { return rs.cfg.EKS.TryAddon(ctx, p.Cluster, changes[0].Value) },
		[]advice.Change{{Kind: advice.InstallAddon, Resource: p.Cluster, Value: name}}, "aws eks create-addon --cluster-name "+p.Cluster+" --addon-name "+name+" --region "+p.Region)
}

// agentRefuses is the agent's address when no agent listens.
func (rs *Runs) agentRefuses(w http.ResponseWriter, run *podRun, text string, fix advice.Fix) {
	target := net.JoinHostPort(agentAddresses[0], "80")
	rs.recordRefusal(run, target, &node.Decision{
		By: node.ByCluster, Code: "ConnectionRefused", Component: run.program.Pod.Spec.NodeName, Text: text, Fixes: []advice.Fix{fix},
	})
	run.notice(fmt.Sprintf("pod %s: %s refuses connections: %s\nTry: %s", run.name(), target, text, fix.Shell()))
	http.Error(w, "dial tcp "+target+": connect: connection refused", http.StatusBadGateway)
}

// roleByAnnotation gives a pod a role if neither its node nor an agent can.
func roleByAnnotation(run *podRun) advice.Fix {
	pod := run.program.Pod
	return advice.Sketch("set ROLE to the ARN of a role that trusts the cluster's identity provider (aws iam list-roles --query 'Roles[].Arn'), and start the pod again",
		"kubectl annotate serviceaccount "+pod.Spec.ServiceAccountName+" --namespace "+pod.Namespace+" eks.amazonaws.com/role-arn=$ROLE")
}

// agentRefused explains to the pod why the agent's own call of EKS Auth was refused, and
// returns the error as the agent answers it.
func (rs *Runs) agentRefused(run *podRun, in machine.Instance, err error) error {
	host, why := "eks-auth."+in.Region+".api.aws", node.DecisionOf(err)
	if why == nil {
		return err
	}
	rs.recordRefusal(run, net.JoinHostPort(host, "443"), why)
	run.notice(fmt.Sprintf("pod %s: the EKS Pod Identity Agent of its node gets no credentials from EKS Auth: %s\nTry: drydock why request --last-denied", run.name(), why.Text))
	if why.By == node.ByIAM {
		_, text, _ := strings.Cut(err.Error(), "api error "+why.Code+": ")
		return awserr.New(why.Code, text)
	}
	return &podidentityagent.UnsentError{Err: err}
}

// metadataLost says why a pod got no answer.
func (rs *Runs) metadataLost(run *podRun, in machine.Instance, err error) {
	if why := node.DecisionOf(err); why != nil { // a fault
		rs.recordRefusal(run, net.JoinHostPort(metadataAddresses[0], "80"), why)
		run.notice(fmt.Sprintf("pod %s: %s", run.name(), why.Text))
		return
	}
	i, ok := rs.cfg.EC2.InstanceByID(in.Account, in.Region, in.ID)
	if !ok || i.MetadataOptions == nil {
		return
	}
	why := &node.Decision{
		By: node.ByNetwork, Code: "HttpPutResponseHopLimit", Component: in.ID,
		Text: fmt.Sprintf("the answer of %s's metadata service does not reach the pod: its HttpPutResponseHopLimit is %d, and pods are %d hops away",
			in.ID, max(aws.ToInt32(i.MetadataOptions.HttpPutResponseHopLimit), 1), podHops),
		Fixes: advice.Try(func(changes []advice.Change) error { // as the service itself decides
			if limit, err := strconv.Atoi(changes[0].Value); err != nil || i.MetadataOptions.HttpEndpoint == "disabled" || podHops > limit {
				return fmt.Errorf("the service answers no pods with the limit %s", changes[0].Value)
			}
			return nil
		}, []advice.Change{{Kind: advice.SetHopLimit, Resource: in.ID, Value: strconv.Itoa(podHops)}}, fmt.Sprintf("aws ec2 modify-instance-metadata-options --instance-id %s --http-put-response-hop-limit %d --region %s", in.ID, podHops, in.Region)),
	}
	rs.recordRefusal(run, net.JoinHostPort(metadataAddresses[0], "80"), why)
	run.notice(fmt.Sprintf("pod %s: %s\nTry: %s", run.name(), why.Text, why.Fixes[0].Shell()))
}

package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/store"
)

// runTraffic carries the traffic of load balancers until ctx ends.
func (d *daemon) runTraffic(ctx context.Context) error {
	return d.traffic.Run(ctx, balancer.Network{Dial: d.machines.DialTarget, Runs: d.machines.RunsPrograms, Admit: d.admitLaptop})
}

// laptop is the address of this machine as AWS sees it.
func (d *daemon) laptop() netip.Addr { return cmp.Or(d.cfg.ClientAddress, reach.Client) }

// admitLaptop returns why the network does not let this machine connect to a port of a load balancer by tcp or udp, or nil.
func (d *daemon) admitLaptop(ctx context.Context, account, region, dnsName, network string, port uint16) error {
	protocol := reach.TCP
	if network == "udp" {
		protocol = reach.UDP
	}
	v, err := d.machines.Check(ctx, account, region, reach.Flow{From: reach.Addr(d.laptop()), Protocol: protocol, Port: port}, strings.ToLower(dnsName))
	if err != nil || v.Reachable {
		return err
	}
	if len(v.Explanations) == 0 {
		return errors.New("the network does not let it through")
	}
	return errors.New(v.Explanations[0].Text)
}

// keyPair returns a certificate of ACM or IAM, with its private key.
func (d *daemon) keyPair(ctx context.Context, account, region, certificate string) (tls.Certificate, error) {
	if a, err := arn.Parse(certificate); err == nil && a.Service == "iam" {
		return d.iam.ServerKeyPair(account, certificate)
	}
	return d.acm.KeyPair(ctx, account, region, certificate)
}

// trafficKey identifies a load balancer, by its ARN or the name of a Classic Load Balancer, to what carries its traffic.
func trafficKey(account, region, name string) store.Key {
	if strings.HasPrefix(name, "arn:") {
		return elbv2.TrafficKey(account, region, name)
	}
	return elb.TrafficKey(account, region, name)
}

// balancers adapts the plane to what machines know of load balancers.
type balancers struct{ plane *balancer.Plane }

// Serves implements compute.Balancers.
func (b balancers) Serves(account, region, name string, port uint16) bool {
	return b.plane.Serves(trafficKey(account, region, name), port)
}

// Connect implements compute.Balancers.
func (b balancers) Connect(account, region, name string, port uint16, client netip.AddrPort) (net.Conn, error) {
	if client.Port() == 0 {
		client = netip.AddrPortFrom(client.Addr(), uint16(32768+time.Now().UnixNano()%28000)) //nolint:gosec // a port
	}
	return b.plane.Connect(trafficKey(account, region, name), port, client)
}

// ConnectPackets implements compute.Balancers.
func (b balancers) ConnectPackets(ctx context.Context, account, region, name string, port uint16, client netip.AddrPort) (net.Conn, error) {
	return b.plane.ConnectPackets(ctx, trafficKey(account, region, name), port, client)
}

// Ports implements compute.Balancers.
func (b balancers) Ports(account, region, name string) (tcp, udp []uint16) {
	return b.plane.Ports(trafficKey(account, region, name))
}

// A foundBalancer is a load balancer and where it is.
type foundBalancer struct {
	account, region string
	elbnet.Endpoint
}

// balancerNamed finds a load balancer by its name in DNS, or in one account and region by its ARN or its name.
func (d *daemon) balancerNamed(account, region, name string) (foundBalancer, bool) {
	name = strings.TrimSuffix(name, ".")
	scopes := [][2]string{{account, region}}
	if account == "" {
		scopes = elbv2.Places(d.store)
		scopes = append(scopes, elb.Places(d.store)...)
	}
	for _, s := range scopes {
		for _, all := range [][]elbnet.Endpoint{elbv2.Endpoints(d.store, s[0], s[1]), elb.Endpoints(d.store, s[0], s[1])} {
			for _, e := range all {
				parts := strings.Split(e.Name, "/") // …:loadbalancer/app/NAME/ID
				if strings.EqualFold(e.DNSName, strings.TrimPrefix(name, "dualstack.")) || account != "" && (e.Name == name || len(parts) > 2 && parts[2] == name) {
					return foundBalancer{s[0], s[1], e}, true
				}
			}
		}
	}
	return foundBalancer{}, false
}

// connectBalancer connects a program of `drydock run` with a load balancer, by its name in DNS.
func (d *daemon) connectBalancer(w http.ResponseWriter, r *http.Request, proxy *server.Proxy) bool {
	host, p, err := net.SplitHostPort(r.Host)
	if err != nil || !strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".amazonaws.com") || !strings.Contains(strings.ToLower(host), ".elb.") {
		return false
	}
	hijacker, ok := w.(http.Hijacker)
	lb, found := d.balancerNamed("", "", host)
	port, err := net.LookupPort("tcp", p)
	if !ok || !found || err != nil {
		return false
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // connecting may take long
	far, err := d.machines.ConnectFrom(r.Context(), lb.account, lb.region, reach.Addr(d.laptop()), host, port)
	if err != nil {
		status, text := dialError(err)
		http.Error(w, fmt.Sprintf("%s: %s\nTry: drydock why reach --from laptop --to %s", r.Host, text, r.Host), status)
		return true
	}
	proxy.Tunnel(w, hijacker, far)
	return true
}

// urlPatience is how long the ports of a load balancer that has just been created are waited for.
const urlPatience = 10 * time.Second

// getURLs returns where a load balancer is on this machine: the one of ?service= in ?namespace= of ?cluster=, or the one with
// ?name=.
func (d *daemon) getURLs(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	name := q.Get("name")
	if service := q.Get("service"); service != "" {
		if name, err = d.balancerOfService(r.Context(), account, region, q.Get("cluster"), cmp.Or(q.Get("namespace"), "default"), service); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
	}
	lb, ok := d.balancerNamed(account, region, name)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no load balancer %s in %s of account %s\nTry: aws elbv2 describe-load-balancers; aws elb describe-load-balancers", name, region, account), http.StatusNotFound)
		return
	}
	httpapi.Answer(w, d.urls(r.Context(), &lb))
}

func (d *daemon) urls(ctx context.Context, lb *foundBalancer) api.LoadBalancerURLs {
	out := api.LoadBalancerURLs{Name: lb.Name, DNSName: lb.DNSName, Listeners: []api.ListenerURL{}}
	ctx, cancel := context.WithTimeout(ctx, urlPatience)
	defer cancel()
	open := d.traffic.Open(trafficKey(lb.account, lb.region, lb.Name))
	for ; len(open) == 0 && ctx.Err() == nil; open = d.traffic.Open(trafficKey(lb.account, lb.region, lb.Name)) {
		select {
		case <-d.store.Changed():
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	for _, l := range open {
		u := api.ListenerURL{Port: l.Port, Protocol: l.Protocol, Problem: l.Fault}
		if l.Local != 0 {
			scheme := map[string]string{"HTTP": "http", "HTTPS": "https", "TLS": "tls", "SSL": "tls", "UDP": "udp"}[l.Protocol]
			u.URL = fmt.Sprintf("%s://127.0.0.1:%d", cmp.Or(scheme, "tcp"), l.Local)
			u.Problem = d.problem(lb, &l)
		}
		out.Listeners = append(out.Listeners, u)
	}
	return out
}

// problem returns why a listener does not answer, or the empty string if it does.
func (d *daemon) problem(lb *foundBalancer, l *balancer.Open) string {
	ctx, cancel := context.WithTimeout(context.Background(), urlPatience)
	defer cancel()
	network := "tcp"
	if l.Protocol == "UDP" {
		network = "udp"
	}
	if err := d.admitLaptop(ctx, lb.account, lb.region, lb.DNSName, network, l.Port); err != nil {
		return err.Error()
	}
	return d.traffic.Problem(trafficKey(lb.account, lb.region, lb.Name), *l)
}

// balancerOfService returns the name in DNS of the load balancer of a Service.
func (d *daemon) balancerOfService(ctx context.Context, account, region, cluster, namespace, name string) (string, error) {
	cluster, err := d.why.OnlyCluster(ctx, account, region, cluster)
	if err != nil {
		return "", err
	}
	for _, p := range d.planes.Planes() {
		if p.Key.Account != account || p.Key.Region != region || p.Key.Name != cluster {
			continue
		}
		cfg, err := (planes{d.planes, d.store}).Serving(p.ID)
		if err != nil {
			return "", err
		}
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return "", err
		}
		s, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "", fmt.Errorf("there is no Service %s in namespace %s of cluster %s\nTry: kubectl get services --namespace %s", name, namespace, cluster, namespace)
		case err != nil:
			return "", err
		case s.Spec.Type != "LoadBalancer":
			port := int32(80) // an ExternalName may have none
			if len(s.Spec.Ports) > 0 {
				port = s.Spec.Ports[0].Port
			}
			return "", fmt.Errorf("the Service %s is of type %s, and only type LoadBalancer has a load balancer\nTry: kubectl port-forward --namespace %s service/%s 8080:%d", name, s.Spec.Type, namespace, name, port)
		case len(s.Status.LoadBalancer.Ingress) == 0:
			return "", fmt.Errorf("the Service %s has no load balancer yet\nTry: kubectl events --namespace %s --for service/%s", name, namespace, name)
		}
		return s.Status.LoadBalancer.Ingress[0].Hostname, nil
	}
	return "", fmt.Errorf("the control plane of cluster %s does not run", cluster)
}

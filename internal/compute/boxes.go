package compute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/machine"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	nodeboxes "github.com/drydock-dev/drydock/internal/node/containers"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A boxNetwork is what machines that run containers see of AWS: in the network of each VPC, sockets answer DNS and the
// instance metadata service, and lead connections to AWS and to clusters through the same decisions as a simulated
// machine's.
type boxNetwork struct {
	machines *Machines
	guests   *guests
	rt       *boxes.Runtime
	log      *slog.Logger

	mu   sync.Mutex
	open map[string]*boxVPC
}

// A boxVPC is one VPC.
type boxVPC struct {
	n    *boxNetwork
	id   string
	done <-chan struct{} // closed when its sockets are gone

	mu    sync.Mutex
	names map[netip.Addr]string // what addresses were last resolved from
}

// connect opens the sockets of an instance's VPC, unless they are open.
func (n *boxNetwork) connect(ctx context.Context, in machine.Instance) error {
	done, err := n.rt.Done(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if v := n.open[in.VPCID]; v != nil && v.done == done {
		return nil
	}
	v := &boxVPC{n: n, id: in.VPCID, done: done, names: map[netip.Addr]string{}}
	socket := func(a netip.Addr, port uint16) inside.Socket {
		return inside.Socket{VPC: in.VPCID, Address: netip.AddrPortFrom(a, port)}
	}
	dns, err := n.rt.ListenPacket(ctx, socket(boxes.Resolver, 53))
	if err != nil {
		return err
	}
	opened := []io.Closer{dns}
	fail := func(err error) error {
		for _, c := range opened {
			_ = c.Close()
		}
		return err
	}
	metadata, err := n.rt.Listen(ctx, socket(metadataAddress.AddrPort().Addr().Unmap(), 80))
	if err != nil {
		return fail(err)
	}
	opened = append(opened, metadata)
	var others []net.Listener
	for _, port := range []uint16{443, 80} {
		l, err := n.rt.Listen(ctx, socket(netip.IPv4Unspecified(), port))
		if err != nil {
			return fail(err)
		}
		opened, others = append(opened, l), append(others, l)
	}
	go v.serveDNS(dns)
	server := &http.Server{Handler: http.HandlerFunc(v.serveMetadata), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(metadata) }()
	for _, l := range others {
		go v.serve(l)
	}
	go func() {
		<-done
		_ = server.Close()
		_ = fail(nil)
	}()
	n.open[in.VPCID] = v
	return nil
}

// from returns the instance with an address in the VPC, and whether the address is a pod's.
func (v *boxVPC) from(a netip.Addr) (in machine.Instance, pod, ok bool) {
	m := v.n.machines
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, in := range m.running {
		if in.VPCID == v.id && m.boxes.Has(in.ID, a) {
			return in, in.PrivateIP != a, true
		}
	}
	return machine.Instance{}, false, false
}

func (v *boxVPC) serveMetadata(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	in, pod, ok := v.from(from.Addr())
	if err != nil || !ok {
		panic(http.ErrAbortHandler)
	}
	hops := 1
	if pod {
		hops = 2
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: metadataAddress.IP.String()})
			if xff := p.In.Header.Values("X-Forwarded-For"); len(xff) > 0 {
				p.Out.Header["X-Forwarded-For"] = xff // the metadata service refuses tokens to proxies
			}
		},
		Transport:    v.n.machines.Metadata(in.ID, hops),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if no answer came
	}
	proxy.ServeHTTP(w, r)
}

// serve leads connections to where the client believes to be connected.
func (v *boxVPC) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go v.lead(c)
	}
}

func (v *boxVPC) lead(c net.Conn) {
	defer c.Close()
	to, err1 := netip.ParseAddrPort(c.LocalAddr().String())
	from, err2 := netip.ParseAddrPort(c.RemoteAddr().String())
	in, _, ok := v.from(from.Addr())
	if err1 != nil || err2 != nil || !ok {
		return
	}
	v.mu.Lock()
	name, ok := v.names[to.Addr()]
	v.mu.Unlock()
	if !ok {
		name = to.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	backend, err := v.n.guests.dial(ctx, in, name, int(to.Port()))
	if err != nil {
		v.n.log.Debug("a connection of a machine was refused", "instance", in.ID, "to", name, "port", to.Port(), "err", err)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	defer backend.Close()
	join(c, backend)
}

// join copies in both directions until both have ended.
func join(a, b net.Conn) {
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			return
		}
		_ = to.Close()
	}
	var wg sync.WaitGroup
	wg.Go(func() { one(a, b) })
	one(b, a)
	wg.Wait()
}

// serveDNS answers like the VPC's DNS server.
func (v *boxVPC) serveDNS(c net.PacketConn) {
	b := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		query := append([]byte(nil), b[:n]...)
		go func() {
			if out, ok := v.answerDNS(from, query); ok {
				_, _ = c.WriteTo(out, from) // the client asks again
			}
		}()
	}
}

func (v *boxVPC) answerDNS(from net.Addr, query []byte) ([]byte, bool) {
	source, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return nil, false
	}
	in, _, ok := v.from(source.Addr())
	var m dnsmessage.Message
	if !ok || m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil, false
	}
	q := m.Questions[0]
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true}, Questions: m.Questions}
	name := q.Name.String()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := v.n.guests.resolve(ctx, in, name[:max(0, len(name)-1)])
	if de, ok := errors.AsType[*net.DNSError](err); ok && !de.IsNotFound {
		return nil, false // the server is silent
	}
	if err != nil {
		out.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 5}
		if a.Is4() && q.Type == dnsmessage.TypeA {
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
			v.mu.Lock()
			v.names[a] = name[:len(name)-1]
			v.mu.Unlock()
		}
	}
	b, err := out.Pack()
	return b, err == nil
}

// endpoint returns the AWS name of the cluster with an endpoint, as user data has it.
func (m *Machines) endpoint(endpoint string) (string, bool) {
	if p, ok := m.cfg.ControlPlanes.ByEndpoint(endpoint); ok {
		return p.AWSHost, true
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", false
	}
	p, ok := m.cfg.ControlPlanes.ByHost(u.Hostname())
	return p.AWSHost, ok
}

// DialCluster connects a cluster's control plane to a node or pod that runs containers, if the network lets the control
// plane's network interface connect to it.
func (m *Machines) DialCluster(ctx context.Context, planeID, address string) (net.Conn, error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("invalid port %q: want a number from 1 to 65535", p)
	}
	to, err := netip.ParseAddr(host)
	if err != nil {
		return nil, controlplane.ErrRunsNothing
	}
	var plane controlplane.Plane
	for _, p := range m.cfg.ControlPlanes.Planes() {
		if p.ID == planeID {
			plane = p
		}
	}
	var in machine.Instance
	m.mu.Lock()
	for _, i := range m.running {
		if i.Account == plane.Key.Account && i.Region == plane.Key.Region && m.boxes.Has(i.ID, to) {
			in = i
		}
	}
	m.mu.Unlock()
	if in.ID == "" {
		return nil, controlplane.ErrRunsNothing
	}
	source, err := m.planeInterface(ctx, plane, in.VPCID)
	if err != nil {
		return nil, err
	}
	from, err := netip.ParseAddr(aws.ToString(source.PrivateIpAddress))
	if err != nil {
		return nil, err
	}
	flow := reach.Flow{From: reach.At(aws.ToString(source.NetworkInterfaceId)), To: reach.Addr(to), Protocol: reach.TCP, Port: uint16(port)}
	s, err := m.network.since(ctx, in.Account, in.Region, time.Now())
	if err != nil {
		return nil, err
	}
	if v := s.Check(flow); !v.Reachable {
		return nil, m.network.timeOut(ctx, refusal(v, in, host, int(port)))
	}
	return m.boxes.Dial(ctx, inside.Socket{VPC: in.VPCID, Address: netip.AddrPortFrom(to, uint16(port)), Source: from})
}

// planeInterface returns a network interface of a cluster's control plane in a VPC.
func (m *Machines) planeInterface(ctx context.Context, plane controlplane.Plane, vpc string) (ec2types.NetworkInterface, error) {
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: plane.Key.Account, Region: plane.Key.Region, Service: "ec2"})
	out, err := m.cfg.EC2.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
		{Name: aws.String("description"), Values: []string{"Amazon EKS " + plane.Key.Name}}, {Name: aws.String("vpc-id"), Values: []string{vpc}},
	}})
	if err != nil {
		return ec2types.NetworkInterface{}, err
	}
	if len(out.NetworkInterfaces) == 0 {
		return ec2types.NetworkInterface{}, fmt.Errorf("the control plane of %s has no network interface in %s", plane.Key.Name, vpc)
	}
	return out.NetworkInterfaces[0], nil
}

// LoadImage stores an archive of images for all machines that run containers, and returns their names.
func (m *Machines) LoadImage(archive io.Reader) ([]string, error) { return m.boxes.LoadImage(archive) }

// LoadedImages returns the names of the images of LoadImage.
func (m *Machines) LoadedImages() ([]string, error) {
	archives, err := m.boxes.Images()
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, a := range archives {
		if a == nodeboxes.PauseArchive {
			continue
		}
		names, err := m.boxes.ImageNames(a)
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	return out, nil
}

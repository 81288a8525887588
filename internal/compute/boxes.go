package compute

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	nodeboxes "github.com/drydock-dev/drydock/internal/node/containers"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A boxNetwork is the network of machines that run containers. Packets between them, and from control planes to them, pass
// a fabric that is compiled from what reach reads, and again whenever that changes. It answers itself for AWS, its
// clusters and simulated machines: DNS, the instance metadata service, and TCP connections to all addresses that no
// such machine has are led through the same decisions as a simulated machine's.
type boxNetwork struct {
	machines *Machines
	guests   *guests
	rt       *boxes.Runtime
	log      *slog.Logger

	apply   sync.Mutex      // one at a time
	done    <-chan struct{} // closed when the run of the host that has the network has ended
	current *fabric.State
	warned  bool // that there are too many simulated machines

	leaves atomic.Bool // packets leave for the internet, in the current run of the host; changed with apply

	mu    sync.Mutex
	boxes map[string]*boxLinks // by instance ID
	// answers are where this network answers besides at proxyPorts, and served at which ports it does.
	answers  boxAnswers
	served   map[inside.Service]bool // guarded by apply
	flows    *balancer.Flows[boxFlow]
	metadata *handoff
	owners   map[string]string // the instances with the network interfaces of the last state, by interface ID
}

// boxLinks is what the network keeps for an instance.
type boxLinks struct {
	vpc            string
	names          map[netip.Addr]string // what addresses were last resolved from
	queries, conns int                   // being answered
}

// Bounds for one instance. What is beyond is dropped.
const (
	maxBoxNames   = 4096
	maxBoxQueries = 64
	maxBoxConns   = 2048
)

// proxyPorts are those at which AWS, clusters and load balancers answer.
var proxyPorts = []uint16{80, 443}

// connect makes the machines' network like EC2's.
func (n *boxNetwork) connect(ctx context.Context) error {
	done, err := n.rt.Done(ctx)
	if err != nil {
		return err
	}
	n.apply.Lock()
	defer n.apply.Unlock()
	if n.done != done {
		if err := n.serve(ctx, done); err != nil {
			return err
		}
		n.done, n.current = done, nil
	}
	st, err := n.state(ctx)
	if err != nil {
		return err
	}
	n.serveAnswers(ctx)
	if n.current != nil && reflect.DeepEqual(st, n.current) {
		return nil
	}
	return n.put(ctx, st)
}

// put makes the network like the state. The caller holds apply.
func (n *boxNetwork) put(ctx context.Context, st *fabric.State) error {
	if err := n.rt.Apply(ctx, st); err != nil {
		n.current = nil
		return err
	}
	n.current = st
	return nil
}

// run makes the network like EC2's whenever the store has changed, until ctx ends.
func (n *boxNetwork) run(ctx context.Context, changed func() <-chan struct{}) {
	for {
		wake := changed()
		began := n.machines.cfg.Clock.Now()
		var again <-chan time.Time
		if len(n.running()) > 0 {
			if err := n.connect(ctx); err != nil && ctx.Err() == nil {
				n.log.Warn("the network of machines that run containers could not be changed: it is tried again", "err", err)
				again = n.machines.cfg.Clock.After(connectAgain)
			}
		}
		if !clock.Sleep(ctx, n.machines.cfg.Clock, restAfter(n.machines.cfg.Clock.Since(began))) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-again:
		}
	}
}

// restAfter returns how long run rests after a change: 20 times as long as the change took, to use little CPU, but at most a
// second, so that the network soon follows EC2's.
func restAfter(work time.Duration) time.Duration {
	return min(max(100*time.Millisecond, 20*work), time.Second)
}

// connectAgain is how long run waits after a failure, if nothing changes.
const connectAgain = 2 * time.Second

// running returns the instances, and the machines of Fargate, that run containers, by ID. There may be a thousand that do not.
func (n *boxNetwork) running() map[string]machine.Instance {
	out := n.machines.fargates.boxes()
	maps.DeleteFunc(out, func(id string, _ machine.Instance) bool {
		_, ok := n.rt.Machine(id)
		return !ok
	})
	n.machines.mu.Lock()
	ids := slices.Collect(maps.Keys(n.machines.running))
	n.machines.mu.Unlock()
	for _, id := range ids {
		if _, ok := n.rt.Machine(id); !ok {
			continue
		}
		if in, err := n.machines.Instance(id); err == nil {
			out[id] = in
		}
	}
	return out
}

// ownerOf returns the ID of the machine behind a network interface: an instance, or a machine of Fargate, which has the ID of its
// interface.
func ownerOf(r *reach.Interface, running map[string]machine.Instance) string {
	if running[r.ID].ID != "" {
		return r.ID
	}
	return r.Instance
}

// state compiles the networks of the accounts and regions that have such machines. Of the network interfaces, it has those
// that packets can come from or go to.
func (n *boxNetwork) state(ctx context.Context) (*fabric.State, error) {
	running := n.running()
	n.mu.Lock()
	maps.DeleteFunc(n.boxes, func(id string, _ *boxLinks) bool { return running[id].ID == "" })
	n.mu.Unlock()
	scopes := map[[2]string]bool{}
	macs := map[string]string{}
	for _, in := range running {
		scopes[[2]string{in.Account, in.Region}] = true
		for _, e := range in.Interfaces {
			macs[e.ID] = e.MAC
		}
	}
	out := &fabric.State{}
	answers := newBoxAnswers()
	snapshots, compiled := map[[2]string]*reach.Snapshot{}, map[[2]string]*fabric.State{}
	open := map[string]map[guestPort]bool{} // by instance
	for k := range scopes {
		s, err := n.machines.network.since(ctx, k[0], k[1], n.machines.network.clock.Now())
		if err != nil {
			return nil, fmt.Errorf("the network of %s in %s: %w", k[0], k[1], err)
		}
		snapshots[k], compiled[k] = s, fabric.Compile(s)
		answers.addBalancers(n.machines.cfg.Balancers, k, s)
		ours := maps.Clone(running)
		maps.DeleteFunc(ours, func(_ string, in machine.Instance) bool { return [2]string{in.Account, in.Region} != k })
		maps.Copy(open, answers.addGuests(n.guestsOf(s, compiled[k], running), ours))
	}
	n.mu.Lock()
	n.answers = answers
	n.mu.Unlock()
	seen, owners := map[string]bool{}, map[string]string{}
	for _, k := range slices.SortedFunc(maps.Keys(scopes), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		s, st := snapshots[k], compiled[k]
		st.Interfaces = slices.DeleteFunc(st.Interfaces, func(e fabric.Interface) bool {
			r, ok := s.Get(e.ID).(*reach.Interface)
			return !ok || r.Instance != "" && running[r.Instance].ID == "" && !e.Forwards
		})
		for i := range st.VPCs {
			st.VPCs[i].Proxy = proxyPorts
			st.VPCs[i].ProxyTCP, st.VPCs[i].ProxyUDP = answers.in(st.VPCs[i].ID), sorted(answers.udp)
		}
		dark := map[string][]netip.AddrPort{} // by instance
		for i := range st.Interfaces {
			e := &st.Interfaces[i]
			e.MAC = macs[e.ID]
			r, ok := s.Get(e.ID).(*reach.Interface)
			if !ok || running[ownerOf(r, running)].ID == "" {
				continue
			}
			owner := ownerOf(r, running)
			owners[e.ID] = owner
			if _, ok := dark[owner]; !ok {
				dark[owner] = n.dark(ctx, s, running[owner], open[owner])
			}
			e.Dark = dark[owner]
		}
		merge(out, st, seen)
	}
	if n.leaves.Load() {
		out.Outside, out.Inside = wholeInternet, insideOf(snapshots)
	}
	n.mu.Lock()
	n.owners = owners
	n.mu.Unlock()
	return out, nil
}

// guestsOf returns the simulated machines of a network. It says once if there are more than machines can reach.
func (n *boxNetwork) guestsOf(s *reach.Snapshot, st *fabric.State, running map[string]machine.Instance) *boxGuests {
	g := newBoxGuests(s, st, running)
	if g.cut && !n.warned {
		n.warned = true
		n.log.Warn("machines that run containers reach sshd and the kubelet of only some simulated instances", "region", s.Region(), "addresses", maxGuests)
	}
	return g
}

// dark returns the addresses and ports to which the network drops this instance's packets, so that its connections time out
// as on AWS. It considers addresses that were resolved or tried, and simulated machines: of these, open are those to which it
// may connect.
func (n *boxNetwork) dark(ctx context.Context, s *reach.Snapshot, in machine.Instance, open map[guestPort]bool) []netip.AddrPort {
	names := map[netip.Addr]string{}
	n.mu.Lock()
	for id, b := range n.boxes {
		if b.vpc == in.VPCID && id != in.ID {
			maps.Copy(names, b.names)
		}
	}
	if b := n.boxes[in.ID]; b != nil {
		maps.Copy(names, b.names)
	}
	answers := n.answers
	n.mu.Unlock()
	guests := answers.guests[in.VPCID]
	var out []netip.AddrPort
	for a, to := range guests {
		for _, port := range to.ports {
			if !to.open(open, port) {
				out = append(out, netip.AddrPortFrom(a, port))
			}
		}
	}
	for a, name := range names {
		host := answers.host(in.VPCID, a, name)
		for _, port := range answers.at(in.VPCID, a) {
			if slices.Contains(guests[a].ports, port) {
				continue
			}
			v, err := n.machines.network.checkIn(ctx, s, in, netip.Addr{}, host, int(port))
			// After an error, the connection itself is decided.
			if err == nil && (v.Destination == a || v.Resolution != nil && slices.Contains(v.Resolution.Addresses, a)) && drops(v, in, host, int(port)) {
				out = append(out, netip.AddrPortFrom(a, port))
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// learn remembers the name from which an instance has resolved addresses. From then on, the network drops packets to them of
// those instances of the VPC that may not connect there: pods of one may ask a DNS server that runs on another.
func (n *boxNetwork) learn(ctx context.Context, in machine.Instance, name string, addresses ...netip.Addr) {
	var learned []netip.Addr
	n.links(in, func(b *boxLinks) {
		for _, a := range addresses {
			if b.names[a] == name || name == a.String() && b.names[a] != "" { // the name says more
				continue
			}
			if len(b.names) >= maxBoxNames {
				clear(b.names) // clients resolve names again
			}
			b.names[a] = name
			learned = append(learned, a)
		}
	})
	if len(learned) == 0 {
		return
	}
	n.mu.Lock()
	answers := n.answers
	n.mu.Unlock()
	dark := map[string][]netip.AddrPort{}
	for id, other := range n.running() {
		if other.VPCID != in.VPCID {
			continue
		}
		for _, a := range learned {
			host := answers.host(in.VPCID, a, name)
			for _, port := range answers.at(in.VPCID, a) {
				if n.dropped(ctx, other, host, port) {
					dark[id] = append(dark[id], netip.AddrPortFrom(a, port))
				}
			}
		}
	}
	if err := n.darken(ctx, dark); err != nil && ctx.Err() == nil {
		n.log.Warn("the network of machines that run containers could not be changed", "err", err)
	}
}

// dropped reports whether the network drops all packets of an instance to a host.
func (n *boxNetwork) dropped(ctx context.Context, in machine.Instance, host string, port uint16) bool {
	v, err := n.machines.network.check(ctx, in, host, int(port))
	return err == nil && drops(v, in, host, int(port))
}

// darken adds dark addresses of instances to the network as it is. The next state has them, too.
func (n *boxNetwork) darken(ctx context.Context, dark map[string][]netip.AddrPort) error {
	if len(dark) == 0 {
		return nil
	}
	n.apply.Lock()
	defer n.apply.Unlock()
	if n.current == nil {
		return nil
	}
	st := *n.current
	st.Interfaces = slices.Clone(st.Interfaces)
	n.mu.Lock()
	owners := n.owners
	n.mu.Unlock()
	changed := false
	for i := range st.Interfaces {
		e := &st.Interfaces[i]
		all := slices.Concat(e.Dark, dark[owners[e.ID]])
		slices.SortFunc(all, netip.AddrPort.Compare)
		if all = slices.Compact(all); len(all) > len(e.Dark) {
			e.Dark, changed = all, true
		}
	}
	if !changed {
		return nil
	}
	return n.put(ctx, &st)
}

// merge adds a network to others. Accounts that are peered see each other's.
func merge(out, st *fabric.State, seen map[string]bool) {
	out.VPCs = appendNew(out.VPCs, st.VPCs, seen, func(v fabric.VPC) string { return v.ID })
	out.Subnets = appendNew(out.Subnets, st.Subnets, seen, func(v fabric.Subnet) string { return v.ID })
	out.ACLs = appendNew(out.ACLs, st.ACLs, seen, func(v fabric.ACL) string { return v.ID })
	out.Groups = appendNew(out.Groups, st.Groups, seen, func(v fabric.Group) string { return v.ID })
	out.Interfaces = appendNew(out.Interfaces, st.Interfaces, seen, func(v fabric.Interface) string { return v.ID })
	out.Transits = appendNew(out.Transits, st.Transits, seen, func(v fabric.Transit) string { return v.ID })
}

func appendNew[T any](to, from []T, seen map[string]bool, id func(T) string) []T {
	for _, v := range from {
		if !seen[id(v)] {
			seen[id(v)] = true
			to = append(to, v)
		}
	}
	return to
}

// serve answers in a new run of the host.
func (n *boxNetwork) serve(ctx context.Context, done <-chan struct{}) error {
	metadata := &handoff{conns: make(chan net.Conn), done: done}
	n.served = map[inside.Service]bool{}
	flows, end := context.WithCancel(context.Background())
	n.flows = balancer.NewFlows(flows, func(f func()) { go f() }, func(f boxFlow) string { return f.eni })
	go func() {
		<-done
		end()
	}()
	server := &http.Server{
		Handler: http.HandlerFunc(n.serveMetadata), ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, boxConnKey{}, c.(*boxConn).in)
		},
	}
	for _, port := range slices.Concat(proxyPorts, guestPorts) {
		if err := n.rt.Serve(ctx, port, func(c net.Conn, eni string) {
			n.accept(c, eni, func(c *boxConn) { n.lead(c, metadata) })
		}); err != nil {
			return err
		}
		n.served[inside.Service{Network: "tcp", Port: port}] = true
	}
	if err := n.rt.Serve(ctx, dnsPort, func(c net.Conn, eni string) {
		n.accept(c, eni, func(c *boxConn) {
			if to, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil && n.balances("tcp", to) {
				n.lead(c, metadata)
				return
			}
			n.serveDNSConn(c)
		})
	}); err != nil {
		return err
	}
	ours := n.flows
	if err := n.rt.ServePackets(ctx, dnsPort, func(d inside.Datagram, answer func([]byte)) {
		if n.balances("udp", d.Service) {
			n.servePackets(ours, d, answer)
			return
		}
		n.serveDNS(d, answer)
	}); err != nil {
		return err
	}
	n.served[inside.Service{Network: "tcp", Port: dnsPort}], n.served[inside.Service{Network: "udp", Port: dnsPort}] = true, true
	n.metadata = metadata
	go func() { _ = server.Serve(metadata) }() // until the run ends
	n.leave(ctx, done)
	return nil
}

// from returns the instance with a network interface. What the network does not have, nothing comes from.
func (n *boxNetwork) from(eni string) (machine.Instance, bool) {
	n.mu.Lock()
	id := n.owners[eni]
	n.mu.Unlock()
	return n.machines.Running(id)
}

// links calls do with what is kept for an instance.
func (n *boxNetwork) links(in machine.Instance, do func(*boxLinks)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.boxes[in.ID]
	if b == nil {
		b = &boxLinks{vpc: in.VPCID, names: map[netip.Addr]string{}}
		n.boxes[in.ID] = b
	}
	do(b)
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
	in, ok := m.boxAt(plane.Key.Account, plane.Key.Region, to)
	if !ok {
		return nil, controlplane.ErrRunsNothing
	}
	source, err := m.planeInterface(ctx, plane, in.VPCID)
	if err != nil {
		return nil, err
	}
	flow := reach.Flow{From: reach.At(aws.ToString(source.NetworkInterfaceId)), To: reach.Addr(to), Protocol: reach.TCP, Port: uint16(port)}
	s, err := m.network.since(ctx, in.Account, in.Region, m.network.clock.Now())
	if err != nil {
		return nil, err
	}
	if v := s.Check(flow); !v.Reachable {
		return nil, m.network.timeOut(ctx, refusal(v, in, host, int(port)))
	}
	if err := m.boxNetwork.connect(ctx); err != nil {
		return nil, err
	}
	return m.boxes.Dial(ctx, inside.Socket{Interface: aws.ToString(source.NetworkInterfaceId), Address: netip.AddrPortFrom(to, uint16(port))})
}

// boxAt returns the machine that runs containers and has an address.
func (m *Machines) boxAt(account, region string, a netip.Addr) (machine.Instance, bool) {
	for _, in := range m.boxNetwork.running() {
		if in.Account == account && in.Region == region && m.boxes.Has(in.ID, a) {
			return in, true
		}
	}
	return machine.Instance{}, false
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

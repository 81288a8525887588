package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/node"
)

// The pace of the plugin's daemon.
const (
	// poolInterval is how soon it checks its pool after a change.
	poolInterval = 5 * time.Second
	// decreaseInterval is how often it gives addresses back.
	decreaseInterval = 30 * time.Second
	// minENIAge is how long it keeps a new interface at least.
	minENIAge = time.Minute
	// fullRetry is how long it waits after a subnet was full before it asks EC2 again.
	//
	// AWS deviation: the plugin waits for two minutes.
	fullRetry = 15 * time.Second

	blockSize = 16 // addresses of a delegated prefix
)

// ipamd is the daemon of the VPC CNI plugin, which runs in aws-node: it makes sure that the node has addresses for
// pods, some more than it needs. https://github.com/aws/amazon-vpc-cni-k8s/blob/master/pkg/ipamd/ipamd.go
type ipamd struct {
	m       *instance
	maxPods int
	log     func(format string, args ...any)         // writes to the plugin's log
	pod     func() *cniPod                           // in which it runs
	denied  func(ctx context.Context, action string) // reports a missing permission
	// byEKS decides about the calls that EKS makes for a node of EKS Auto Mode, which has no aws-node; nil on others.
	byEKS func(ctx context.Context, c node.Call) error

	container string // the container in which it runs
	running   bool

	cfg         cniConfig
	credentials *aws.Credentials // nil means the instance role's
	enis        []node.PodInterface
	pool        *pool
	full        time.Time // until when EC2 is not asked for more
	decreased   time.Time
	problem     error     // why there are not enough addresses
	due         time.Time // when to check the pool next; zero means when it changes
}

// call checks whether aws-node may make a call of EC2. The error is the SDK's.
func (d *ipamd) call(ctx context.Context, c node.Call) error {
	if d.byEKS != nil {
		return d.byEKS(ctx, c)
	}
	if d.credentials == nil || d.credentials.Expired() {
		var err error
		if d.credentials, err = d.pod().identify(ctx); err != nil {
			return wrapped("operation error EC2: "+strings.TrimPrefix(c.Action, "ec2:")+", get identity: get credentials: failed to refresh cached credentials, ", err)
		}
	}
	c.Credentials = d.credentials
	err := d.m.decide(ctx, c)
	if why := node.DecisionOf(err); why != nil && why.By == node.ByIAM {
		d.denied(ctx, c.Action)
	}
	return err
}

// wrapped puts a prefix before an error and keeps its decision.
func wrapped(text string, err error) error {
	if why := node.DecisionOf(err); why != nil {
		return &node.Refusal{Err: fmt.Errorf("%s%w", text, err), Decision: *why}
	}
	return fmt.Errorf("%s%w", text, err)
}

// perENI returns how many addresses, or prefixes, an interface can have besides its own address.
func (d *ipamd) perENI() int { return max(d.m.in.Type.IPv4PerENI-1, 0) }

// unit returns how many pods an address or a prefix serves.
func (d *ipamd) unit() int {
	if d.cfg.prefixes {
		return blockSize
	}
	return 1
}

// maxENI returns how many interfaces the instance may have.
func (d *ipamd) maxENI() int {
	if n := d.cfg.maxENI; n >= 1 && n < d.m.in.Type.ENIs {
		return n
	}
	return d.m.in.Type.ENIs
}

// load gets the instance's interfaces with their addresses.
func (d *ipamd) load(ctx context.Context) error {
	all, err := d.m.rt.cfg.PodNetwork.Interfaces(ctx, d.m.in)
	if err != nil {
		return err
	}
	d.enis = all
	d.refill()
	return nil
}

func (d *ipamd) refill() {
	if d.cfg.ipv6 {
		d.pool.set6(d.usable(), 4*d.maxPods)
		return
	}
	d.pool.set(d.usable(), d.cfg.prefixes)
}

// managed reports whether the plugin manages an interface.
func (d *ipamd) managed(e node.PodInterface) bool {
	switch {
	case e.Device == 0:
		return true
	case e.Tags[tagNoManage] != "":
		return e.Tags[tagNoManage] != "true"
	default:
		return e.Tags[tagInstance] == d.m.in.ID || d.cfg.manageUntagged
	}
}

// usable returns the interfaces whose addresses pods get.
func (d *ipamd) usable() []node.PodInterface {
	var out []node.PodInterface
	for _, e := range d.enis {
		if d.cfg.ipv6 && e.Device != 0 { // further interfaces are only for IPv4
			continue
		}
		if d.managed(e) && (e.Device != 0 || !d.cfg.custom) {
			out = append(out, e)
		}
	}
	return out
}

// start prepares the node for pods. Even if it succeeds, there may be no addresses for them yet.
func (d *ipamd) start(ctx context.Context) error {
	if err := d.valid(); err != nil {
		return err
	}
	if err := d.call(ctx, node.Call{Action: node.ActionDescribeInterfaces}); err != nil {
		return fmt.Errorf("ipamd init: failed to retrieve attached ENIs info: %w", err)
	}
	if err := d.load(ctx); err != nil {
		return fmt.Errorf("ipamd init: failed to retrieve attached ENIs info: %w", err)
	}
	if d.cfg.noProvisioning {
		return nil
	}
	if d.byEKS == nil {
		if err := d.tag(ctx); err != nil {
			return err
		}
	}
	if d.cfg.ipv6 {
		return d.assign6(ctx)
	}
	d.dropOtherKind(ctx)
	if d.tooLow() {
		if err := d.increase(ctx); err != nil {
			return fmt.Errorf("error while trying to increase datastore pool: %w", err)
		}
		if d.cfg.custom && d.pool.stats(nil).total == 0 {
			err := errors.New("Failed to attach any ENIs for custom networking") //nolint:staticcheck // the plugin's text
			if d.problem != nil {
				err = fmt.Errorf("%w: %w", err, d.problem)
			}
			return err
		}
	}
	d.due = d.m.rt.clock.Now().Add(poolInterval)
	return nil
}

// valid checks the configuration as the plugin does, with its texts.
func (d *ipamd) valid() error {
	c := &d.cfg
	nitro := true
	if info, ok := instancetypes.Info(d.m.in.Type.Name); ok {
		nitro = info.Hypervisor == ec2types.InstanceTypeHypervisorNitro || aws.ToBool(info.BareMetal)
	}
	switch {
	case c.ipv4 && c.ipv6:
		return errors.New("IPv4 and IPv6 are both enabled. VPC CNI currently does not support dual stack mode") //nolint:staticcheck // the plugin's text
	case !c.ipv4 && !c.ipv6:
		return errors.New("IPv4 and IPv6 are both disabled. One of them have to be enabled") //nolint:staticcheck // the plugin's text
	case c.ipv6 && (c.custom || !c.prefixes):
		return errors.New("IPv6 is supported only in Prefix Delegation mode. Custom Networking is not supported in IPv6 mode. Please set the env variables accordingly.") //nolint:staticcheck // the plugin's text
	case c.ipv6 && !nitro:
		return fmt.Errorf("Prefix Delegation is not supported on non-nitro instance %s. IPv6 is only supported in Prefix delegation Mode. ", d.m.in.Type.Name) //nolint:staticcheck // the plugin's text
	}
	return nil
}

// assign6 gets the node's IPv6 prefix. One has addresses for all pods of all nodes that there could ever be.
func (d *ipamd) assign6(ctx context.Context) error {
	for i, e := range d.usable() {
		if len(e.Prefixes6) > 0 {
			continue
		}
		err := d.call(ctx, node.Call{Action: node.ActionAssignIPv6, Interface: e.ID})
		if err == nil {
			e, err = d.m.rt.cfg.PodNetwork.AssignPrefix6(ctx, d.m.in, e.ID, d.cfg.eniTags(d.m.in.ID))
			err = asSDK("AssignIpv6Addresses", err)
		}
		if err != nil {
			return fmt.Errorf("Failed to allocate IPv6 Prefixes to ENI: allocate IPv6 prefix: failed to allocate an IPv6 prefix address: %w", err) //nolint:staticcheck // the plugin's text
		}
		d.enis[i] = e // the primary interface is the first
	}
	d.refill()
	return nil
}

// has describes what the plugin has for pods.
func (d *ipamd) has() string {
	if !d.cfg.ipv6 {
		return fmt.Sprintf("%d addresses for pods", d.pool.stats(nil).total)
	}
	var blocks []string
	for _, e := range d.usable() {
		for _, p := range e.Prefixes6 {
			blocks = append(blocks, p.String())
		}
	}
	return "the prefix " + strings.Join(blocks, ", ") + " for pods"
}

// tag adds the plugin's tags to interfaces that existed before it. EC2 gets them with the next addresses, if there
// are any.
func (d *ipamd) tag(ctx context.Context) error {
	want := d.cfg.eniTags(d.m.in.ID)
	for i, e := range d.enis {
		if !d.managed(e) || subset(want, e.Tags) {
			continue
		}
		if err := d.call(ctx, node.Call{Action: node.ActionCreateTags, Interface: e.ID, Tags: want}); err != nil {
			return fmt.Errorf("ipamd init: failed to tag managed ENI %s: %w", e.ID, err)
		}
		if e.Device == 0 && !d.cfg.custom && d.room(e) > 0 {
			continue
		}
		now, err := d.m.rt.cfg.PodNetwork.Assign(ctx, d.m.in, e.ID, 0, 0, want)
		if err != nil {
			return fmt.Errorf("ipamd init: failed to tag managed ENI %s: %w", e.ID, err)
		}
		d.enis[i] = now
	}
	return nil
}

func subset(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

// dropOtherKind releases addresses or prefixes from before prefix delegation was switched on or off, unless pods use
// them.
func (d *ipamd) dropOtherKind(ctx context.Context) {
	for _, e := range d.usable() {
		other, n := newPool(), len(e.Prefixes)
		if d.cfg.prefixes {
			n = len(e.Addresses)
		}
		if n == 0 {
			continue
		}
		other.set([]node.PodInterface{e}, !d.cfg.prefixes)
		for _, a := range other.order {
			if mine := d.pool.byIP[a.ip]; mine != nil {
				a.uid = mine.uid
			}
		}
		ips, blocks := other.freeable(e.ID, n)
		if len(ips)+len(blocks) == 0 || d.call(ctx, node.Call{Action: node.ActionUnassignAddresses, Interface: e.ID}) != nil {
			continue
		}
		if err := d.m.rt.cfg.PodNetwork.Unassign(ctx, d.m.in, e.ID, ips, blocks); err == nil {
			err = d.load(ctx)
			if err != nil {
				return
			}
		}
	}
}

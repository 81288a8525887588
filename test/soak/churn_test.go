package soak

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A churn changes the world at random.
type churn struct {
	w    *world
	plan plan
	rng  *rand.Rand

	own      []string // instances launched by hand, oldest first
	stopped  []string
	muted    []string // that booted without metadata, maybe: a reboot fixes them
	done     map[string]int
	refused  map[string]int // by the code of what AWS answered
	nextLook time.Time
}

// An action changes something. All that is random about it comes from the numbers it gets, and every step draws the
// same amount, so that a seed repeats the run.
type action struct {
	name   string
	weight int
	do     func(c *churn, ctx context.Context, a, b uint64) error
}

var actions = []action{
	{"launch", 30, (*churn).launch},
	{"terminate", 14, (*churn).terminate},
	{"stop", 4, (*churn).stop},
	{"start", 6, (*churn).startStopped},
	{"reboot", 4, (*churn).reboot},
	{"scale", 6, (*churn).scale},
	{"take", 4, (*churn).take},
	{"isolate", 4, (*churn).isolate},
	{"zone", 2, (*churn).zone},
	{"capacity", 3, (*churn).capacity},
	{"calls", 8, (*churn).calls},
	{"imds", 2, (*churn).imds},
	{"dns", 2, (*churn).dns},
	{"crash", 1, (*churn).crash},
}

// run changes the world until its time is over, and checks it every second.
func (c *churn) run() {
	c.w.t.Helper()
	ctx := c.w.t.Context()
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	deadline := time.Now().Add(c.plan.churn)
	for time.Now().Before(deadline) && !c.w.t.Failed() {
		n, x, y := int(c.rng.Uint64N(uint64(total))), c.rng.Uint64(), c.rng.Uint64()
		i := 0
		for ; n >= actions[i].weight; i++ {
			n -= actions[i].weight
		}
		c.done[actions[i].name]++
		if err := actions[i].do(c, ctx, x, y); err != nil {
			c.note(actions[i].name, err)
		}
		if now := time.Now(); now.After(c.nextLook) {
			c.w.look(ctx)
			c.nextLook = time.Now().Add(max(time.Second, 4*time.Since(now)))
		}
		pause(20 * time.Millisecond)
	}
}

// fill launches half of the nodes.
func (c *churn) fill() {
	for ctx := c.w.t.Context(); len(c.own) < (c.plan.nodes-grouped)/2; {
		if err := c.launch(ctx, c.rng.Uint64(), c.rng.Uint64()); err != nil {
			c.w.t.Fatal(err)
		}
	}
}

// refusals are the errors that AWS may return while capacity is short, calls fail deliberately and instances come and
// go.
var refusals = []string{
	"InsufficientInstanceCapacity", "RequestLimitExceeded", "InternalError", "IncorrectInstanceState", "IncorrectState", "InsufficientFreeAddressesInSubnet",
}

// note counts AWS's refusals; any other error is a finding.
func (c *churn) note(name string, err error) {
	c.w.t.Helper()
	if api, ok := errors.AsType[smithy.APIError](err); ok && slices.Contains(refusals, api.ErrorCode()) {
		c.refused[api.ErrorCode()]++
		return
	}
	if strings.Contains(err.Error(), "there is no instance") { // it was deleted in the meantime
		c.refused["gone"]++
		return
	}
	c.w.t.Errorf("%s: %v", name, err)
}

func pick(from []string, n uint64) string {
	if len(from) == 0 {
		return ""
	}
	return from[n%uint64(len(from))]
}

func without(from []string, id string) []string {
	return slices.DeleteFunc(from, func(s string) bool { return s == id })
}

func (c *churn) launch(ctx context.Context, a, b uint64) error {
	room := c.plan.nodes - grouped - len(c.own) - len(c.stopped)
	n := int32(min(1+int(a%6), room))
	if n < 1 {
		return c.terminate(ctx, a, b)
	}
	types := []ec2types.InstanceType{"m5.large", "t3.medium", "c5.xlarge", "t3.small"}
	out, err := c.w.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: &c.w.image, InstanceType: types[b%4], SubnetId: aws.String(pick(c.w.subnets, b>>8)), UserData: &c.w.userData,
		MinCount: aws.Int32(1), MaxCount: &n, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")},
	})
	if err != nil {
		return err
	}
	for _, i := range out.Instances {
		c.own = append(c.own, *i.InstanceId)
	}
	return nil
}

func (c *churn) terminate(ctx context.Context, a, b uint64) error {
	var ids []string
	for n := a % 4; n < 4 && len(c.own) > 0; n++ {
		id := pick(c.own, b>>(8*n))
		ids, c.own = append(ids, id), without(c.own, id)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := c.w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: ids})
	if err != nil {
		c.own = append(c.own, ids...)
	}
	return err
}

func (c *churn) stop(ctx context.Context, a, _ uint64) error {
	id := pick(c.own, a)
	if id == "" {
		return nil
	}
	_, err := c.w.ec2.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{id}})
	if err == nil {
		c.own, c.stopped = without(c.own, id), append(c.stopped, id)
	}
	return err
}

func (c *churn) startStopped(ctx context.Context, a, _ uint64) error {
	id := pick(c.stopped, a)
	if id == "" {
		return nil
	}
	_, err := c.w.ec2.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: []string{id}})
	if err == nil {
		c.stopped, c.own = without(c.stopped, id), append(c.own, id)
	}
	return err
}

func (c *churn) reboot(ctx context.Context, a, _ uint64) error {
	id := pick(c.own, a)
	if id == "" {
		return nil
	}
	_, err := c.w.ec2.RebootInstances(ctx, &awsec2.RebootInstancesInput{InstanceIds: []string{id}})
	return err
}

func (c *churn) scale(ctx context.Context, a, _ uint64) error {
	return c.w.scale(ctx, int(a%uint64(3*c.plan.nodes)))
}

// take ends an instance of the node group from outside; the group replaces it.
func (c *churn) take(ctx context.Context, a, _ uint64) error {
	all, err := c.w.instances(ctx, "running")
	if err != nil {
		return err
	}
	var ids []string
	for id, i := range all {
		for _, tag := range i.Tags {
			if *tag.Key == "eks:nodegroup-name" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	if id := pick(ids, a); id != "" {
		return c.set("terminate", id)
	}
	return nil
}

// set sets a fault. Faults of instances that ended in the meantime cannot be set.
func (c *churn) set(args ...string) error {
	_, err := c.w.try(append([]string{"fault", "set"}, args...)...)
	return err
}

// seconds is a short time.
func seconds(n uint64) string { return (time.Second + time.Duration(n%4000)*time.Millisecond).String() }

func (c *churn) isolate(_ context.Context, a, b uint64) error {
	if id := pick(c.own, a); id != "" {
		return c.set("isolate", id, "--for", seconds(b))
	}
	return nil
}

func (c *churn) zone(_ context.Context, a, b uint64) error {
	return c.set("zone", pick([]string{"us-east-1a", "use1-az2", "us-east-1c"}, a), "--for", seconds(b))
}

func (c *churn) capacity(_ context.Context, a, b uint64) error {
	return c.set("capacity", "--type", pick([]string{"m5.*", "t3.medium", "*"}, a), "--zone", pick([]string{"us-east-1a", "us-east-1*"}, a>>8), "--for", seconds(b))
}

// calls makes API calls fail, those of nodes and of this program.
func (c *churn) calls(_ context.Context, a, b uint64) error {
	operation := pick([]string{"ec2:RunInstances", "ec2:TerminateInstances", "ec2:*", "ecr:*", "eks:Describe*"}, a)
	args := []string{pick([]string{"throttle", "error", "latency"}, a>>8), operation, "--for", seconds(b), "--percent", "40"}
	switch {
	case args[0] == "latency":
		args = append(args, "--delay", "300ms")
	case operation == "ec2:*" || operation == "ecr:*":
		args = append(args, "--principal", "*role/node*")
	}
	return c.set(args...)
}

func (c *churn) imds(_ context.Context, a, b uint64) error {
	id := pick(c.own, a)
	if id == "" {
		return nil
	}
	c.muted = append(c.muted, id)
	return c.set("imds", id, "--for", seconds(b))
}

func (c *churn) dns(_ context.Context, a, b uint64) error {
	target := pick(c.own, a)
	if a%8 == 0 || target == "" {
		target = c.w.vpc
	}
	return c.set("dns", target, "--for", seconds(b))
}

// crash ends the daemon by kill -9, in the long form only: what it was doing continues afterwards.
func (c *churn) crash(context.Context, uint64, uint64) error {
	c.w.t.Helper()
	if !c.plan.long {
		return nil
	}
	c.w.crash()
	c.w.eventually(time.Minute, "the cluster answers after a crash", func(ctx context.Context) error {
		_, err := c.w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	return nil
}

// mend clears all faults, starts what is stopped, and reboots instances that may have booted without metadata.
func (c *churn) mend() {
	c.w.t.Helper()
	ctx := c.w.t.Context()
	c.w.drydock("fault", "clear")
	var left []any
	if err := json.Unmarshal([]byte(c.w.drydock("fault", "list", "--output", "json")), &left); err != nil || len(left) > 0 {
		c.w.t.Fatalf("faults after all were cleared: %v %v", left, err)
	}
	c.w.eventually(time.Minute, "stopped instances can be started", func(ctx context.Context) error {
		for _, id := range slices.Clone(c.stopped) {
			if err := c.startStopped(ctx, uint64(slices.Index(c.stopped, id)), 0); err != nil {
				return err
			}
		}
		return nil
	})
	running, err := c.w.instances(ctx, "running")
	if err != nil {
		c.w.t.Fatal(err)
	}
	var mute []string
	for _, id := range c.muted {
		if _, ok := running[id]; ok && !slices.Contains(mute, id) {
			mute = append(mute, id)
		}
	}
	if len(mute) > 0 {
		must(c.w.ec2.RebootInstances(ctx, &awsec2.RebootInstancesInput{InstanceIds: mute}))(c.w.t)
	}
}

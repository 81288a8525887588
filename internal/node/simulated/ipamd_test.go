package simulated_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// small is an instance with one interface of five addresses: four for pods.
func (b *bench) small() machine.Instance {
	in := b.instance()
	in.Type.ENIs, in.Type.IPv4PerENI = 1, 5
	return in
}

// A pod that finds no address waits, reports it as the CNI does, and gets the address that another pod released once
// it has cooled down.
func TestAddressesRunOutAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.small())
		for i := range 5 {
			b.api.bind(nodeName, pod(fmt.Sprint("web-", i)))
		}
		after(time.Minute)
		phases := map[corev1.PodPhase]int{}
		waiting := ""
		used := map[string]bool{}
		for i := range 5 {
			p := b.api.pod(fmt.Sprint("web-", i))
			phases[p.Status.Phase]++
			if p.Status.Phase == corev1.PodPending {
				waiting = p.Name
			} else if used[p.Status.PodIP] {
				t.Errorf("%s is used twice", p.Status.PodIP)
			}
			used[p.Status.PodIP] = true
		}
		if phases[corev1.PodRunning] != 4 || phases[corev1.PodPending] != 1 {
			t.Fatalf("phases %v", phases)
		}
		if reason, _ := b.waits(waiting); reason != "ContainerCreating" {
			t.Errorf("reason %s", reason)
		}
		i := slices.IndexFunc(b.api.events(), func(e *corev1.Event) bool { return e.Reason == "FailedCreatePodSandBox" })
		if i < 0 {
			t.Fatal("no event")
		}
		const text = `: plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`
		if e := b.api.events()[i]; !strings.HasPrefix(e.Message, `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "`) ||
			!strings.HasSuffix(e.Message, text) || e.Count < 3 {
			t.Errorf("event %q, %d times", e.Message, e.Count)
		}
		if s := b.rt.PodSteps("i-0123456789abcdef0", "default", waiting); len(s) != 1 || s[0].Name != node.StepPodAddress {
			t.Errorf("steps %+v", s)
		}
		gone := "web-0"
		if waiting == gone {
			gone = "web-1"
		}
		b.api.deletePod(gone, 0)
		after(20 * time.Second) // it cools for 30 s
		if got := b.api.pod(waiting).Status.Phase; got != corev1.PodPending {
			t.Errorf("%s is %s", waiting, got)
		}
		after(26 * time.Second)
		if got := b.api.pod(waiting).Status.Phase; got != corev1.PodRunning {
			t.Errorf("%s is %s", waiting, got)
		}
	})
}

// A full subnet does not keep a node from becoming Ready, but its pods wait until there are addresses again.
func TestFullSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.ec2.free = 2
		b.launch(b.instance())
		for i := range 3 {
			b.api.bind(nodeName, pod(fmt.Sprint("web-", i)))
		}
		after(time.Minute)
		if got := b.info(); got.Phase != node.PhaseReady {
			t.Errorf("info %+v", got)
		}
		running := func() (n int) {
			for i := range 3 {
				if b.api.pod(fmt.Sprint("web-", i)).Status.Phase == corev1.PodRunning {
					n++
				}
			}
			return n
		}
		if got := running(); got != 2 || b.ec2.shape() != "2" {
			t.Errorf("%d pods run, interfaces %s", got, b.ec2.shape())
		}
		if got := b.failedSteps(); len(got) == 0 || !strings.Contains(got[len(got)-1], "InsufficientFreeAddressesInSubnet") {
			t.Errorf("failed steps %q", got)
		}
		b.ec2.mu.Lock()
		b.ec2.free = 50
		b.ec2.mu.Unlock()
		after(31 * time.Second)
		if got := running(); got != 3 {
			t.Errorf("%d pods run, interfaces %s", got, b.ec2.shape())
		}
		i := slices.IndexFunc(b.info().Steps, func(s node.Step) bool { return s.Name == node.StepNetwork })
		if s := b.info().Steps[i]; !s.OK {
			t.Errorf("step %+v", s)
		}
	})
}

// If the CNI lacks a permission after its start, a step shows it, and pods wait.
func TestInterfaceThatMayNotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.call = func(c node.Call) error {
			if c.Action == node.ActionCreateInterface {
				return &node.Refusal{Err: errors.New("UnauthorizedOperation"), Decision: node.Decision{By: node.ByIAM, Component: c.Action}}
			}
			return nil
		}
		in := b.instance()
		in.Type.IPv4PerENI = 3
		b.launch(in)
		for i := range 3 {
			b.api.bind(nodeName, pod(fmt.Sprint("web-", i)))
		}
		after(time.Minute)
		var waiting []node.Step
		for i := range 3 {
			waiting = append(waiting, b.rt.PodSteps(in.ID, "default", fmt.Sprint("web-", i))...)
		}
		if len(waiting) != 1 || waiting[0].Decision == nil || waiting[0].Decision.Component != node.ActionCreateInterface {
			t.Errorf("steps %+v", waiting)
		}
	})
}

// The warm targets determine what an instance has before there are pods, with pods, and some time after they are
// gone; m5.large has 3 interfaces of 10 addresses.
func TestWarmTargets(t *testing.T) {
	for _, tc := range []struct {
		name               string
		env                string
		idle, busy, after_ string
	}{
		{"none set", "", "9", "9 9", "9"},
		{"two interfaces", "WARM_ENI_TARGET=2", "9 9", "9 9 9", "9 9"},
		{"no interface", "WARM_ENI_TARGET=0", "9", "9", "9"},
		{"addresses", "WARM_IP_TARGET=2", "2", "5", "2"},
		{"addresses, and a minimum", "WARM_IP_TARGET=1 MINIMUM_IP_TARGET=4", "4", "4", "4"},
		{"prefixes", "ENABLE_PREFIX_DELEGATION=true WARM_PREFIX_TARGET=1", "0+1/28", "0+2/28", "0+1/28"},
		{"prefixes by addresses", "ENABLE_PREFIX_DELEGATION=true WARM_IP_TARGET=14", "0+1/28", "0+2/28", "0+1/28"},
		{"one interface at most", "WARM_ENI_TARGET=2 MAX_ENI=1", "9", "9", "9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.cni = tc.env
				b.launch(b.instance())
				after(20 * time.Second)
				if got := b.ec2.shape(); got != tc.idle {
					t.Errorf("without pods: %s, want %s", got, tc.idle)
				}
				for i := range 3 {
					b.api.bind(nodeName, pod(fmt.Sprint("web-", i)))
				}
				after(30 * time.Second)
				if got := b.ec2.shape(); got != tc.busy {
					t.Errorf("with pods: %s, want %s", got, tc.busy)
				}
				for i := range 3 {
					b.api.deletePod(fmt.Sprint("web-", i), 0)
				}
				after(3 * time.Minute)
				if got := b.ec2.shape(); got != tc.after_ {
					t.Errorf("after the pods: %s, want %s", got, tc.after_)
				}
			})
		})
	}
}

// An interface that is no longer needed is given back, but not the primary one.
func TestInterfacesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		for i := range 12 {
			b.api.bind(nodeName, pod(fmt.Sprint("web-", i)))
		}
		after(30 * time.Second)
		if got := b.ec2.shape(); got != "9 9 9" {
			t.Fatalf("interfaces %s", got)
		}
		e := b.ec2.enis[1]
		want := map[string]string{
			"node.k8s.amazonaws.com/instance_id": "i-0123456789abcdef0", "cluster.k8s.amazonaws.com/name": "dev", "eks:eni:owner": "amazon-vpc-cni",
			"node.k8s.amazonaws.com/createdAt": e.Tags["node.k8s.amazonaws.com/createdAt"],
		}
		if fmt.Sprint(e.Tags) != fmt.Sprint(want) || want["node.k8s.amazonaws.com/createdAt"] == "" {
			t.Errorf("tags %v", e.Tags)
		}
		if got := b.ec2.enis[0].Tags["cluster.k8s.amazonaws.com/name"]; got != "dev" {
			t.Errorf("the primary interface's tags: %v", b.ec2.enis[0].Tags)
		}
		for i := range 12 {
			b.api.deletePod(fmt.Sprint("web-", i), 0)
		}
		after(3 * time.Minute)
		if got := b.ec2.shape(); got != "9" { // as many as are kept warm
			t.Errorf("interfaces %s", got)
		}
		b.api.takeWrites()
	})
}

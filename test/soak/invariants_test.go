package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how often in a row something may look wrong: the parts of a check are not read at one moment.
const patience = 3

// look checks the invariants. Whatever looks wrong repeatedly fails the test.
func (w *world) look(ctx context.Context) {
	w.t.Helper()
	w.looks++
	wrong, err := w.wrong(ctx)
	if err != nil {
		w.t.Errorf("looking: %v", err)
		return
	}
	next := map[string]int{}
	for _, text := range wrong {
		next[text] = w.suspects[text] + 1
		if next[text] == patience {
			w.t.Errorf("%s, %d times in a row", text, patience)
		}
	}
	w.suspects = next
}

// wrong lists the violated invariants.
func (w *world) wrong(ctx context.Context) ([]string, error) {
	enis, err := w.interfaces(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	owner := map[string]string{} // address to interface
	host := map[string]string{}  // address to instance
	for _, e := range enis {
		for _, a := range e.PrivateIpAddresses {
			ip := aws.ToString(a.PrivateIpAddress)
			if other := owner[ip]; other != "" {
				out = append(out, fmt.Sprintf("%s and %s have the address %s", other, *e.NetworkInterfaceId, ip))
			}
			owner[ip] = *e.NetworkInterfaceId
			if e.Attachment != nil {
				host[ip] = aws.ToString(e.Attachment.InstanceId)
			}
		}
	}
	pods, err := w.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	running, err := w.instances(ctx, "running")
	if err != nil {
		return nil, err
	}
	alive := map[string]string{} // Ready nodes of running instances
	for _, n := range nodes.Items {
		id := n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]
		if _, ok := running[id]; ok && ready(&n) {
			alive[n.Name] = id
		}
	}
	user := map[string]string{} // address to pod
	for _, p := range pods.Items {
		id := alive[p.Spec.NodeName]
		if id == "" || p.Spec.HostNetwork || p.Status.PodIP == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue // on a node that is gone, or going: others may have its address
		}
		if other := user[p.Status.PodIP]; other != "" {
			out = append(out, fmt.Sprintf("the pods %s and %s have the address %s", other, p.Name, p.Status.PodIP))
		}
		user[p.Status.PodIP] = p.Name
		if got := host[p.Status.PodIP]; got != id {
			out = append(out, fmt.Sprintf("the pod %s of %s has the address %s, which is %q's", p.Name, id, p.Status.PodIP, got))
		}
	}
	return out, nil
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (w *world) interfaces(ctx context.Context) ([]ec2types.NetworkInterface, error) {
	var out []ec2types.NetworkInterface
	pages := awsec2.NewDescribeNetworkInterfacesPaginator(w.ec2, &awsec2.DescribeNetworkInterfacesInput{MaxResults: aws.Int32(1000)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, page.NetworkInterfaces...)
	}
	return out, nil
}

// awaitWhole waits until every running instance is a Ready node, and every node is a running instance: no node is
// missing, and there are no ghosts.
func (w *world) awaitWhole(within time.Duration) {
	w.t.Helper()
	w.eventually(within, "every instance is a Ready node, and every node an instance", func(ctx context.Context) error {
		all, err := w.instances(ctx, "pending", "running", "shutting-down", "stopping", "stopped")
		if err != nil {
			return err
		}
		nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var wrong []string
		known := map[string]bool{}
		for _, n := range nodes.Items {
			id := n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]
			known[id] = true
			switch i, ok := all[id]; {
			case !ok:
				wrong = append(wrong, n.Name+" is a ghost of "+id)
			case i.State.Name != ec2types.InstanceStateNameRunning:
				wrong = append(wrong, fmt.Sprintf("%s is %s", id, i.State.Name))
			case !ready(&n):
				wrong = append(wrong, n.Name+" ("+id+") is not Ready")
			}
		}
		for id, i := range all {
			if !known[id] {
				wrong = append(wrong, fmt.Sprintf("%s is %s and no node", id, i.State.Name))
			}
		}
		if len(wrong) > 0 {
			slices.Sort(wrong)
			return fmt.Errorf("%d of %d: %s", len(wrong), len(all), strings.Join(wrong[:min(5, len(wrong))], "; ")+w.why(wrong))
		}
		return nil
	})
	w.look(w.t.Context())
}

// why is the explanation of the first instance in a list of complaints.
func (w *world) why(wrong []string) string {
	for _, text := range wrong {
		if i := strings.Index(text, "i-0"); i >= 0 {
			id := text[i:min(len(text), i+19)]
			out, err := w.try("why", "node", id)
			if err != nil { // it is not Ready
				return "\n" + err.Error()
			}
			return "\n" + out
		}
	}
	return ""
}

// awaitNoLeftovers waits until, without nodes, there are no network interfaces but
// those of the control plane, and no volumes.
func (w *world) awaitNoLeftovers(within time.Duration) {
	w.t.Helper()
	w.eventually(within, "nothing is left of the instances", func(ctx context.Context) error {
		enis, err := w.interfaces(ctx)
		if err != nil {
			return err
		}
		for _, e := range enis {
			if aws.ToString(e.Description) != "Amazon EKS "+cluster {
				return fmt.Errorf("the network interface %s is %s: %s", *e.NetworkInterfaceId, e.Status, aws.ToString(e.Description))
			}
		}
		volumes, err := w.ec2.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{})
		if err != nil {
			return err
		}
		if n := len(volumes.Volumes); n > 0 {
			return fmt.Errorf("%d volumes, the first of them %s", n, *volumes.Volumes[0].VolumeId)
		}
		subnets, err := w.ec2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: w.subnets})
		if err != nil {
			return err
		}
		taken := 0
		for _, s := range subnets.Subnets {
			taken += 4091 - int(*s.AvailableIpAddressCount)
		}
		if taken != len(enis) {
			return fmt.Errorf("%d addresses are taken by %d network interfaces", taken, len(enis))
		}
		return nil
	})
}

// settledUsage returns the daemon's resources at rest: the minimum over some seconds.
func (w *world) settledUsage() usage {
	w.t.Helper()
	least := w.usage()
	for range 15 {
		pause(100 * time.Millisecond)
		u := w.usage()
		least.goroutines, least.files, least.childFiles = min(least.goroutines, u.goroutines), min(least.files, u.files), min(least.childFiles, u.childFiles)
	}
	return least
}

// slack is the allowed increase: idle connections, caches.
const slack = 40

// awaitUsage waits until the daemon holds no more than it did with a few nodes.
func (w *world) awaitUsage(before usage, within time.Duration) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	for {
		u := w.usage()
		if u.goroutines <= before.goroutines+slack && u.files <= before.files+slack && u.childFiles <= before.childFiles+slack {
			w.t.Logf("empty again: %v", u)
			return
		}
		if time.Now().After(deadline) {
			stacks := w.goroutines()
			w.t.Fatalf("it grew within %v:\nfrom %v\nto   %v\n%s", within, before, u, stacks[:min(len(stacks), 6000)])
		}
		pause(time.Second)
	}
}

package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

const flowImage = "flow:1"

// TestBenchContainers measures nodes that run containers: how soon they and their pods run, what they use, and how fast pods of
// two nodes talk.
func TestBenchContainers(t *testing.T) {
	measure(t)
	d := upContainers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	d.loadFlow(t)
	role, nodeRole := d.roles(ctx)
	subnets := d.subnets(ctx)
	d.createCluster(ctx, "c", role, subnets)
	kubectl := d.kubectlFor(t, "c")
	begun := time.Now()
	d.join(ctx, "c", nodeRole, subnets, 1, 2)
	if t.Failed() {
		return
	}
	t.Logf("CreateNodegroup of 2 until it is ACTIVE and they are Ready: %v", time.Since(begun).Round(10*time.Millisecond))
	kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=2m")

	idleBoxes(t, d, 2)
	var took []time.Duration
	for i := range 11 {
		name := fmt.Sprint("p", i)
		begun := time.Now()
		kubectl("run", name, "--image", flowImage)
		kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=1m")
		took = append(took, time.Since(begun))
	}
	t.Logf("kubectl run with a present image until kubectl wait says Ready, two commands: median %v of %d", median(took), len(took))

	claims(ctx, t, d, kubectl)

	nodes := strings.Fields(kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
	for i, name := range []string{"server", "client"} {
		kubectl("run", name, "--image", flowImage, "--overrides", fmt.Sprintf(`{"spec":{"nodeName":%q}}`, nodes[i]))
		kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=1m")
	}
	address := kubectl("get", "pod", "server", "-o", "jsonpath={.status.podIP}")
	var rates []string
	for range 3 {
		rates = append(rates, kubectl("exec", "client", "--", "/flow", address))
	}
	t.Logf("a TCP connection between pods of two nodes, five seconds, three times: %s Gbit/s", strings.Join(rates, ", "))

	kubectl("delete", "pods", "--all", "--now")
	grow := func(size int) time.Duration {
		begun := time.Now()
		if _, err := awseks.NewFromConfig(d.config()).UpdateNodegroupConfig(ctx, &awseks.UpdateNodegroupConfigInput{
			ClusterName: aws.String("c"), NodegroupName: aws.String("ng0"), ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(int32(size))},
		}); err != nil {
			t.Fatal(err)
		}
		for strings.Count(kubectl("get", "nodes", "--no-headers"), " Ready ") < size {
			if ctx.Err() != nil {
				t.Fatal(kubectl("get", "nodes"))
			}
			<-time.After(100 * time.Millisecond)
		}
		return time.Since(begun).Round(10 * time.Millisecond)
	}
	t.Logf("one more node Ready: %v", grow(3))
	t.Logf("7 more nodes Ready: %v", grow(10))
	begun = time.Now()
	kubectl("create", "deployment", "many", "--image", flowImage, "--replicas", "100")
	kubectl("rollout", "status", "deployment/many", "--timeout=6m")
	t.Logf("100 pods Ready on 10 nodes: %v", time.Since(begun).Round(10*time.Millisecond))
	settle(descendants(d.PID), time.Minute)
	t.Logf("10 nodes with 100 pods: %d MB of all processes of Drydock, each page counted once", sum(memoryOf(append(descendants(d.PID), d.PID), "Pss:")))
	d.timeDown(t)
}

// kubectlFor returns a function that runs kubectl for a cluster.
func (d *drydock) kubectlFor(t *testing.T, cluster string) func(args ...string) string {
	kc := d.kubeconfig(cluster)
	return func(args ...string) string {
		t.Helper()
		out, err := d.kubectl(kc, args...)
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
}

// loadFlow gives the nodes the image of flow.
func (d *drydock) loadFlow(t *testing.T) {
	t.Helper()
	archive, err := testkit.ImageArchive(flowImage, "./testdata/flow", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "flow.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(d.bin, "image", "load", file, "--data-dir", d.dir).CombinedOutput(); err != nil {
		t.Fatalf("image load: %v\n%s", err, out)
	}
}

// TestBenchMachines starts 50 machines that run containers at once.
func TestBenchMachines(t *testing.T) {
	measure(t)
	d := upContainers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	image, err := awsssm.NewFromConfig(d.config()).GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64")})
	if err != nil {
		t.Fatal(err)
	}
	ec2 := awsec2.NewFromConfig(d.config())
	begun := time.Now()
	out, err := ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: image.Parameter.Value, InstanceType: ec2types.InstanceTypeT3Micro, MinCount: aws.Int32(50), MaxCount: aws.Int32(50),
		SubnetId: &d.subnets(ctx)[0], UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho this machine works > /dev/console\n"))),
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, in := range out.Instances {
		wg.Go(func() {
			for ctx.Err() == nil {
				text, err := ec2.GetConsoleOutput(ctx, &awsec2.GetConsoleOutputInput{InstanceId: in.InstanceId, Latest: aws.Bool(true)})
				if err == nil {
					b, _ := base64.StdEncoding.DecodeString(aws.ToString(text.Output))
					if bytes.Contains(b, []byte("this machine works")) {
						return
					}
				}
				<-time.After(200 * time.Millisecond)
			}
			t.Errorf("%s did not run its user data", *in.InstanceId)
		})
	}
	wg.Wait()
	t.Logf("RunInstances of 50 until the last has run its user data: %v", time.Since(begun).Round(10*time.Millisecond))
	d.timeDown(t)
}

// upContainers starts a daemon whose instances run containers.
func upContainers(t *testing.T) *drydock {
	t.Helper()
	if r := probe.Run(); !r.Available {
		needs.Missing(t, "a machine on which nodes can run containers: %s", r.Why())
	}
	d, _ := up(t, "--warm-spares", "0", "--node-runtime", "containers", "--quota", "nodes-per-nodegroup=1000,vcpus=100000")
	return d
}

func (d *drydock) timeDown(t *testing.T) {
	t.Helper()
	begun := time.Now()
	if out, err := exec.Command(d.bin, "down", "--data-dir", d.dir).CombinedOutput(); err != nil {
		t.Errorf("drydock down: %v\n%s", err, out)
	}
	t.Logf("drydock down: %v", time.Since(begun).Round(10*time.Millisecond))
}

// idleBoxes measures what nodes use that have only the pods of add-ons.
func idleBoxes(t *testing.T, d *drydock, nodes int) {
	pids := machines(d)
	settle(pids, time.Minute)
	<-time.After(30 * time.Second)
	const window = 40 * time.Second
	before := map[int]time.Duration{}
	for _, p := range pids {
		before[p] = cpu(p)
	}
	<-time.After(window)
	programs := map[string]time.Duration{}
	var used time.Duration
	for _, p := range pids {
		programs[programOf(p)] += cpu(p) - before[p]
		used += cpu(p) - before[p]
	}
	private := sum(memoryOf(pids, "Private_Clean:")) + sum(memoryOf(pids, "Private_Dirty:"))
	each := map[string]int{}
	for _, p := range pids {
		each[programOf(p)] += sum(memoryOf([]int{p}, "Private_Clean:")) + sum(memoryOf([]int{p}, "Private_Dirty:"))
	}
	t.Logf("an idle node of %d: %d MB private memory, %.1f %% of a core over %v", nodes, private/nodes, 100*used.Seconds()/window.Seconds()/float64(nodes), window)
	t.Logf("of all nodes together: private MB %v, CPU time %v", each, programs)
}

// machines returns the processes of all machines: those below the child of the daemon that has the most.
func machines(d *drydock) (most []int) {
	for _, p := range testkit.Children(d.PID) {
		if all := descendants(p); len(all) > len(most) {
			most = all
		}
	}
	return most
}

// descendants returns the processes below a process.
func descendants(pid int) (out []int) {
	for _, p := range testkit.Children(pid) {
		out = append(append(out, p), descendants(p)...)
	}
	return out
}

// programOf names a process by its program and, of Drydock's, its mode.
func programOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	words := strings.Split(string(b), "\x00")
	name := filepath.Base(words[0])
	if len(words) > 1 && strings.HasPrefix(name, "drydock") {
		name += " " + words[1]
	}
	return name
}

// memoryOf returns the kernel's figures for each process's memory in MB. Private_ counts pages that no other process has, and
// Pss: shared ones in parts.
func memoryOf(pids []int, what string) (mb []int) {
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for l := range strings.Lines(string(b)) {
			if f := strings.Fields(l); len(f) > 1 && f[0] == what {
				kb, _ := strconv.Atoi(f[1])
				mb = append(mb, kb/1024)
			}
		}
	}
	return mb
}

func sum(all []int) (n int) {
	for _, v := range all {
		n += v
	}
	return n
}

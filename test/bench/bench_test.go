// Package bench measures the built program from outside: how quickly a daemon, a cluster and nodes come up, what they
// cost, and how many calls a second the endpoint answers. It runs with DRYDOCK_BENCH=1 and prints its figures; see
// docs/performance.md.
package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A drydock is a daemon under measurement.
type drydock struct {
	t   *testing.T
	bin string
	dir string
	api.DaemonInfo
}

// measure skips a measurement unless it was asked for.
func measure(t *testing.T) {
	t.Helper()
	if os.Getenv("DRYDOCK_BENCH") != "1" {
		t.Skip("measures only with DRYDOCK_BENCH=1: make bench")
	}
}

// up starts a daemon and returns it with the time until it answered.
func up(t *testing.T, flags ...string) (*drydock, time.Duration) {
	t.Helper()
	bin := testkit.Program(t)
	dir, err := os.MkdirTemp("", "ddb")
	if err != nil {
		t.Fatal(err)
	}
	d := &drydock{t: t, bin: bin, dir: dir}
	begun := time.Now()
	out, err := exec.Command(bin, append([]string{"up", "-d", "--port", "0", "--data-dir", dir}, flags...)...).CombinedOutput()
	took := time.Since(begun)
	if err != nil {
		t.Fatalf("drydock up: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(bin, "down", "--data-dir", dir).CombinedOutput(); err != nil {
			t.Errorf("drydock down: %v\n%s", err, out)
		}
		os.RemoveAll(dir)
	})
	if d.DaemonInfo, err = api.ReadInfo(dir); err != nil {
		t.Fatal(err)
	}
	return d, took
}

func (d *drydock) config() aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: &d.URL,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

func median(ds []time.Duration) time.Duration {
	sort.Slice(ds, func(i, j int) bool { return ds[i] < ds[j] })
	return ds[len(ds)/2]
}

func TestBenchDaemonReady(t *testing.T) {
	measure(t)
	var took []time.Duration
	for range 5 {
		t.Run("start", func(t *testing.T) {
			_, d := up(t, "--warm-spares", "0")
			took = append(took, d)
		})
	}
	t.Logf("daemon ready from an empty folder: median %v of 5", median(took))
}

// roles makes the roles of clusters and nodes and returns their ARNs.
func (d *drydock) roles(ctx context.Context) (cluster, nodes string) {
	return d.role(ctx, "cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy"),
		d.role(ctx, "node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
}

// role creates a role of a service with managed policies, and returns its ARN.
func (d *drydock) role(ctx context.Context, name, service string, policies ...string) string {
	c := awsiam.NewFromConfig(d.config())
	out, err := c.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName:                 &name,
		AssumeRolePolicyDocument: aws.String(fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":%q},"Action":["sts:AssumeRole","sts:TagSession"]}]}`, service)),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, p := range policies {
		if _, err := c.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &name, PolicyArn: aws.String("arn:aws:iam::aws:policy/" + p)}); err != nil {
			d.t.Fatal(err)
		}
	}
	return *out.Role.Arn
}

func (d *drydock) subnets(ctx context.Context) []string {
	out, err := awsec2.NewFromConfig(d.config()).DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{})
	if err != nil {
		d.t.Fatal(err)
	}
	var ids []string
	for _, s := range out.Subnets {
		ids = append(ids, *s.SubnetId)
	}
	return ids
}

// createCluster returns the time until an SDK waiter saw ACTIVE.
func (d *drydock) createCluster(ctx context.Context, name, role string, subnets []string) time.Duration {
	d.t.Helper()
	c := awseks.NewFromConfig(d.config())
	begun := time.Now()
	if _, err := c.CreateCluster(ctx, &awseks.CreateClusterInput{
		Name: &name, RoleArn: &role,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		AccessConfig:       &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi},
	}); err != nil {
		d.t.Fatal(err)
	}
	if err := awseks.NewClusterActiveWaiter(c).Wait(ctx, &awseks.DescribeClusterInput{Name: &name}, 2*time.Minute); err != nil {
		d.t.Fatal(err)
	}
	return time.Since(begun)
}

func (d *drydock) kubeconfig(name string) string {
	d.t.Helper()
	file := filepath.Join(d.dir, name+".kubeconfig")
	cmd := exec.Command(d.bin, "kubeconfig", name, "--data-dir", d.dir)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("kubeconfig: %v\n%s", err, out)
	}
	return file
}

func (d *drydock) kubectl(kubeconfig string, args ...string) (string, error) {
	out, err := exec.Command(d.bin, append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...).CombinedOutput()
	return string(out), err
}

// TestRegression runs with every `go test` and fails if something has become several times slower than it was,
// whatever else the machine is doing.
func TestRegression(t *testing.T) {
	ctx := t.Context()
	d, took := up(t, "--warm-spares", "0", "--quota", "nodes-per-nodegroup=1000,vcpus=1000")
	limit := func(what string, took, most time.Duration) {
		t.Logf("%s: %v", what, took)
		if took > most {
			t.Errorf("%s took %v, more than %v", what, took, most)
		}
	}
	limit("daemon ready", took, 5*time.Second)
	role, nodeRole := d.roles(ctx)
	subnets := d.ownNetwork(ctx)
	limit("cluster ACTIVE", d.createCluster(ctx, "c", role, subnets), 30*time.Second)
	// Nodes that join at once make much garbage, which must not stay: it used to be a gigabyte.
	begun := time.Now()
	d.join(ctx, "c", nodeRole, subnets, 1, 100)
	limit("100 nodes Ready", time.Since(begun), 4*time.Minute)
	if mb := memoryMB(testkit.Children(d.PID), "VmHWM:"); len(mb) != 1 || mb[0] > 850 {
		t.Errorf("the control plane of 100 new nodes took %v MB, more than 850", mb)
	}
	const calls = 500
	call := rawCall(t, d.config(), "sts", "Action=GetCallerIdentity&Version=2011-06-15", "<Arn>")
	begun = time.Now()
	for range calls {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	limit(fmt.Sprint(calls, " calls of GetCallerIdentity"), time.Since(begun), 5*time.Second)
}

func TestBenchCluster(t *testing.T) {
	measure(t)
	ctx := t.Context()
	d, _ := up(t, "--warm-spares", "0")
	role, _ := d.roles(ctx)
	subnets := d.subnets(ctx)
	var cold []time.Duration
	for i := range 3 {
		cold = append(cold, d.createCluster(ctx, fmt.Sprint("cold", i), role, subnets))
	}
	t.Logf("CreateCluster to ACTIVE, cold: median %v of 3", median(cold))
	d.delete(ctx, "cold1", "cold2")
	idle(t, d, "daemon and one control plane")
}

func TestBenchSpare(t *testing.T) {
	measure(t)
	ctx := t.Context()
	d, _ := up(t, "--warm-spares", "1")
	role, _ := d.roles(ctx)
	subnets := d.subnets(ctx)
	d.createCluster(ctx, "first", role, subnets)
	var warm []time.Duration
	for i := range 3 {
		d.awaitChildren(i + 2) // the clusters so far and the next spare
		warm = append(warm, d.createCluster(ctx, fmt.Sprint("warm", i), role, subnets))
	}
	t.Logf("CreateCluster to ACTIVE from a spare: median %v of 3", median(warm))
}

func (d *drydock) delete(ctx context.Context, names ...string) {
	c := awseks.NewFromConfig(d.config())
	for _, n := range names {
		if _, err := c.DeleteCluster(ctx, &awseks.DeleteClusterInput{Name: &n}); err != nil {
			d.t.Fatal(err)
		}
		if err := awseks.NewClusterDeletedWaiter(c).Wait(ctx, &awseks.DescribeClusterInput{Name: &n}, time.Minute); err != nil {
			d.t.Fatal(err)
		}
	}
}

// pids are the daemon and its children.
func (d *drydock) pids() []int {
	return append([]int{d.PID}, testkit.Children(d.PID)...)
}

// cpu is the CPU time a process has used; a tick is 10 ms.
func cpu(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	u, _ := strconv.Atoi(f[11])
	s, _ := strconv.Atoi(f[12])
	return time.Duration(u+s) * 10 * time.Millisecond
}

// memoryMB returns the kernel's figures for each process's memory: VmRSS: is the resident memory now, VmHWM: its
// peak.
func memoryMB(pids []int, what string) (mb []int) {
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for l := range strings.Lines(string(b)) {
			if f := strings.Fields(l); len(f) > 1 && f[0] == what {
				kb, _ := strconv.Atoi(f[1])
				mb = append(mb, kb/1024)
			}
		}
	}
	return mb
}

func cpuOf(pids []int) (sum time.Duration) {
	for _, p := range pids {
		sum += cpu(p)
	}
	return sum
}

// awaitChildren waits until n control planes run and have nothing left to do.
func (d *drydock) awaitChildren(n int) {
	d.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for len(testkit.Children(d.PID)) < n {
		if time.Now().After(deadline) {
			d.t.Fatalf("%d control planes run, want %d", len(testkit.Children(d.PID)), n)
		}
		<-time.After(100 * time.Millisecond)
	}
	settle(d.pids(), time.Minute)
}

// settle waits until the processes use less than a tenth of a core, or timeout.
func settle(pids []int, timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	for time.Now().Before(deadline) {
		before := cpuOf(pids)
		<-time.After(2 * time.Second)
		if cpuOf(pids)-before < 200*time.Millisecond {
			return
		}
	}
}

func idle(t *testing.T, d *drydock, what string) {
	pids := d.pids()
	settle(pids, time.Minute)
	<-time.After(40 * time.Second) // start-up has after-effects: first resyncs, memory that is returned
	const window = 40 * time.Second
	var before []time.Duration
	for _, p := range pids {
		before = append(before, cpu(p))
	}
	<-time.After(window)
	var used []string
	for i, p := range pids {
		used = append(used, fmt.Sprintf("%.1f %%", 100*(cpu(p)-before[i]).Seconds()/window.Seconds()))
	}
	t.Logf("idle, %s: resident %v MB; CPU %s of a core over %v", what, memoryMB(pids, "VmRSS:"), strings.Join(used, " + "), window)
}

func TestBenchThousandNodes(t *testing.T) {
	measure(t)
	ctx := t.Context()
	// A single deployment of 10,000 would measure what its ReplicaSet and the scheduler's spreading cost, which grows
	// with the square of its size.
	const groups, pods, deployments, namespaces = 3, 10000, 20, 10
	nodes := 1000
	d, _ := up(t, "--warm-spares", "0", "--quota", "nodes-per-nodegroup=1000,vcpus=100000")
	role, nodeRole := d.roles(ctx)
	subnets := d.ownNetwork(ctx)
	d.createCluster(ctx, "big", role, subnets)
	kc := d.kubeconfig("big")
	pids := d.pids()
	cpu0 := cpuOf(pids)
	begun := time.Now()
	d.join(ctx, "big", nodeRole, subnets, groups, nodes)
	if t.Failed() {
		return
	}
	used := cpuOf(pids) - cpu0
	t.Logf("%d nodes Ready in %v; %.0f ms of CPU per node", nodes, time.Since(begun).Round(100*time.Millisecond), 1000*used.Seconds()/float64(nodes))

	cpu0, begun = cpuOf(pids), time.Now()
	for i := range deployments {
		ns := fmt.Sprint("team-", i%namespaces)
		if i < namespaces {
			if out, err := d.kubectl(kc, "create", "namespace", ns); err != nil {
				t.Fatal(out)
			}
		}
		if out, err := d.kubectl(kc, "create", "deployment", fmt.Sprint("web-", i), "-n", ns, "--image", "nginx", "--replicas", fmt.Sprint(pods/deployments)); err != nil {
			t.Fatal(out)
		}
	}
	for i := range deployments {
		if out, err := d.kubectl(kc, "rollout", "status", fmt.Sprint("deployment/web-", i), "-n", fmt.Sprint("team-", i%namespaces), "--timeout", "10m"); err != nil {
			t.Fatal(out)
		}
	}
	used = cpuOf(pids) - cpu0
	t.Logf("%d pods Running in %v; %.1f ms of CPU per pod", pods, time.Since(begun).Round(100*time.Millisecond), 1000*used.Seconds()/pods)
	idle(t, d, fmt.Sprintf("%d nodes and %d pods", nodes, pods))
}

// join makes groups with so many nodes together, and returns when all are Ready.
func (d *drydock) join(ctx context.Context, cluster, role string, subnets []string, groups, nodes int) {
	c := awseks.NewFromConfig(d.config())
	var wg sync.WaitGroup
	for g := range groups {
		wg.Go(func() {
			name := fmt.Sprint("ng", g)
			size := int32(nodes / groups)
			if g == 0 {
				size += int32(nodes % groups)
			}
			if _, err := c.CreateNodegroup(ctx, &awseks.CreateNodegroupInput{
				ClusterName: &cluster, NodegroupName: &name, NodeRole: &role, Subnets: subnets,
				InstanceTypes: []string{"m5.large"},
				ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(1000), DesiredSize: &size},
			}); err != nil {
				d.t.Error(err)
				return
			}
			// Not with the SDK's waiter: it sleeps 30 s once an answer took longer than the ten seconds for which it
			// is held.
			deadline := time.Now().Add(5 * time.Minute)
			for {
				out, err := c.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
				if err != nil || time.Now().After(deadline) {
					d.t.Errorf("node group %s: %v", name, err)
					return
				}
				if out.Nodegroup.Status == ekstypes.NodegroupStatusActive {
					return
				}
				<-time.After(250 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// TestBenchHundredNodes measures what nodes that join all at once cost in memory.
func TestBenchHundredNodes(t *testing.T) {
	measure(t)
	ctx := t.Context()
	d, _ := up(t, "--warm-spares", "0", "--quota", "nodes-per-nodegroup=1000,vcpus=100000")
	role, nodeRole := d.roles(ctx)
	subnets := d.ownNetwork(ctx)
	d.createCluster(ctx, "big", role, subnets)
	d.awaitChildren(1)
	pids := d.pids()
	before := memoryMB(pids, "VmRSS:")
	cpu0, begun := cpuOf(pids), time.Now()
	d.join(ctx, "big", nodeRole, subnets, 1, 100)
	took := time.Since(begun)
	settle(pids, time.Minute)
	t.Logf("100 nodes Ready in %v, %v of CPU until all is quiet; resident of daemon and control plane: before %v, at most %v, after %v MB",
		took.Round(100*time.Millisecond), cpuOf(pids)-cpu0, before, memoryMB(pids, "VmHWM:"), memoryMB(pids, "VmRSS:"))
}

// ownNetwork makes a VPC of its own with a /16 and three large subnets.
func (d *drydock) ownNetwork(ctx context.Context) []string {
	c := awsec2.NewFromConfig(d.config())
	vpc, err := c.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		d.t.Fatal(err)
	}
	var ids []string
	for i, zone := range []string{"a", "b", "c"} {
		s, err := c.CreateSubnet(ctx, &awsec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/18", 64*i)), AvailabilityZone: aws.String("us-east-1" + zone),
		})
		if err != nil {
			d.t.Fatal(err)
		}
		// Nodes get in through the internet gateway only with a public address.
		if _, err := c.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{
			SubnetId: s.Subnet.SubnetId, MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)},
		}); err != nil {
			d.t.Fatal(err)
		}
		ids = append(ids, *s.Subnet.SubnetId)
	}
	d.open(ctx, c, vpc.Vpc.VpcId)
	return ids
}

// open gives a VPC a way to the internet.
func (d *drydock) open(ctx context.Context, c *awsec2.Client, vpc *string) {
	gateway, err := c.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{})
	if err != nil {
		d.t.Fatal(err)
	}
	id := gateway.InternetGateway.InternetGatewayId
	if _, err := c.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: id, VpcId: vpc}); err != nil {
		d.t.Fatal(err)
	}
	tables, err := c.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{*vpc}}}})
	if err != nil || len(tables.RouteTables) != 1 {
		d.t.Fatalf("%v, %+v", err, tables)
	}
	if _, err := c.CreateRoute(ctx, &awsec2.CreateRouteInput{
		RouteTableId: tables.RouteTables[0].RouteTableId, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: id,
	}); err != nil {
		d.t.Fatal(err)
	}
}

// TestBenchThroughput compares the endpoint with moto_server, if installed, in the same run and with the same client.
func TestBenchThroughput(t *testing.T) {
	measure(t)
	ctx := t.Context()
	d, _ := up(t, "--warm-spares", "0")
	ours := throughput(t, ctx, d.config())
	moto, err := exec.LookPath("moto_server")
	if err != nil {
		t.Logf("drydock: GetCallerIdentity %.0f/s, DescribeInstances of 100 %.0f/s (no moto_server to compare with)", ours[0], ours[1])
		return
	}
	cfg := startMoto(t, moto, d.config())
	theirs := throughput(t, ctx, cfg)
	t.Logf("GetCallerIdentity: %.0f/s, moto %.0f/s: %.0f times", ours[0], theirs[0], ours[0]/theirs[0])
	t.Logf("DescribeInstances of 100: %.0f/s, moto %.0f/s: %.0f times", ours[1], theirs[1], ours[1]/theirs[1])
}

// startMoto runs moto_server until the test ends and returns a configuration for it.
func startMoto(t *testing.T, moto string, cfg aws.Config) aws.Config {
	t.Helper()
	cmd := exec.Command(moto, "-H", "127.0.0.1", "-p", "45321")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	cfg.BaseEndpoint = aws.String("http://127.0.0.1:45321")
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := awssts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &awssts.GetCallerIdentityInput{})
		if err == nil {
			return cfg
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(200 * time.Millisecond)
	}
}

func throughput(t *testing.T, ctx context.Context, cfg aws.Config) [2]float64 {
	t.Helper()
	ec2 := awsec2.NewFromConfig(cfg)
	images, err := ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}})
	if err != nil || len(images.Images) == 0 {
		t.Fatalf("no images: %v", err)
	}
	image := ""
	for _, i := range images.Images {
		if i.Architecture == ec2types.ArchitectureValuesX8664 {
			image = *i.ImageId
			break
		}
	}
	if _, err := ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: &image, InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(100), MaxCount: aws.Int32(100),
	}); err != nil {
		t.Fatal(err)
	}
	return [2]float64{
		rate(t, rawCall(t, cfg, "sts", "Action=GetCallerIdentity&Version=2011-06-15", "<Arn>")),
		rate(t, rawCall(t, cfg, "ec2", "Action=DescribeInstances&Version=2016-11-15", "<instanceId>")),
	}
}

// rawCall returns a function that signs and sends one request and reads the answer: a client as light as possible, so
// that the server is what is measured.
func rawCall(t *testing.T, cfg aws.Config, service, body, want string) func() error {
	creds, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:])
	signer := v4.NewSigner()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	t.Cleanup(client.CloseIdleConnections)
	return func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, *cfg.BaseEndpoint+"/", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if err := signer.SignHTTP(t.Context(), creds, req, hash, service, cfg.Region, time.Now()); err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(want)) {
			return fmt.Errorf("%s: %s", resp.Status, b[:min(len(b), 300)])
		}
		return nil
	}
}

// rate returns how many calls a second four clients complete in 5 s.
func rate(t *testing.T, call func() error) float64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	const window = 5 * time.Second
	deadline := time.Now().Add(window)
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				if err := call(); err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / window.Seconds()
}

package ami

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// noBootstrap is /etc/eks/bootstrap.sh on images that nodeadm initialises.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/runtime/bootstrap.sh
func noBootstrap(_ context.Context, c *shell.Call) int {
	const bar = "!!!!!!!!!!\n"
	fmt.Fprint(c.Stderr, "\n"+bar+
		"!!!!!!!!!! ERROR: bootstrap.sh has been removed from AL2023-based EKS AMIs.\n"+bar+
		"!!!!!!!!!! EKS nodes are now initialized by nodeadm.\n"+bar+
		"!!!!!!!!!! To migrate your user data, see:\n"+bar+
		"!!!!!!!!!!     https://awslabs.github.io/amazon-eks-ami/nodeadm/\n"+bar+"\n")
	return 1
}

// bootstrapFlags are the options of bootstrap.sh; each takes a value.
var bootstrapFlags = map[string]bool{
	"--apiserver-endpoint": true, "--aws-api-retry-attempts": true, "--b64-cluster-ca": true, "--cluster-id": true, "--container-runtime": true,
	"--containerd-config-file": true, "--dns-cluster-ip": true, "--docker-config-json": true, "--enable-docker-bridge": true,
	"--enable-local-outpost": true, "--ip-family": true, "--kubelet-extra-args": true, "--local-disks": true, "--mount-bpf-fs": true,
	"--pause-container-account": true, "--pause-container-version": true, "--service-ipv6-cidr": true, "--use-max-pods": true,
}

// A bootstrapRun is one run of /etc/eks/bootstrap.sh.
type bootstrapRun struct {
	m     *Machine
	c     *shell.Call
	flags map[string]string
	name  string // the cluster's name
}

func (r *bootstrapRun) log(format string, args ...any) {
	fmt.Fprintf(r.c.Stderr, "%s [eks-bootstrap] %s\n", r.m.world.Clock.Now().UTC().Format("2006-01-02T15:04:05-0700"), fmt.Sprintf(format, args...))
}

// flag returns an option's value or, if it is not given, that of the environment variable that the script uses for
// it.
func (r *bootstrapRun) flag(name, otherwise string) string {
	if v, ok := r.flags[name]; ok {
		return v
	}
	if v := r.c.Getenv(strings.ReplaceAll(strings.ToUpper(strings.TrimPrefix(name, "--")), "-", "_")); v != "" {
		return v
	}
	return otherwise
}

// bootstrap is /etc/eks/bootstrap.sh of Amazon Linux 2: it writes the kubelet's files and starts the kubelet.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2/runtime/bootstrap.sh
func (m *Machine) bootstrap(ctx context.Context, c *shell.Call) int {
	r := &bootstrapRun{m: m, c: c, flags: map[string]string{}}
	r.log("INFO: starting...")
	var operands []string
	for args := c.Args[1:]; len(args) > 0; args = args[1:] {
		switch a := args[0]; {
		case a == "-h" || a == "--help":
			fmt.Fprintf(c.Stdout, "usage: %s [options] <cluster-name>\nBootstraps an instance into an EKS cluster\n", c.Args[0])
			return 1
		case bootstrapFlags[a]:
			if len(args) == 1 {
				fmt.Fprintf(c.Stderr, "%s: $2: unbound variable\n", c.Args[0])
				return 1
			}
			r.flags[a] = args[1]
			r.log("INFO: %s='%s'", a, args[1])
			args = args[1:]
		default:
			operands = append(operands, a) // also unknown options
		}
	}
	if len(operands) > 0 {
		r.name = operands[0]
	}
	return r.run(ctx)
}

func (r *bootstrapRun) run(ctx context.Context) int {
	m := r.m
	if _, err := m.metadata(ctx, "PUT", "latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "900"); err != nil {
		fmt.Fprintf(r.c.Stderr, "imds: %s\n", err)
		fmt.Fprintln(r.c.Stdout, "Exited with error on line 161")
		return 1
	}
	r.log("INFO: Using kubelet version %s", m.In.Image.KubeletVersion)
	r.log("INFO: Using containerd as the container runtime")
	if rt := r.flag("--container-runtime", "containerd"); rt != "containerd" {
		r.log("ERROR: containerd is the only supported container runtime as of Kubernetes version 1.24")
		return 1
	}
	if r.name == "" {
		r.log("ERROR: cluster name is not defined!")
		return 1
	}
	family := strings.ToLower(r.flag("--ip-family", ""))
	if family != "" && family != "ipv4" && family != "ipv6" {
		r.log("ERROR: Invalid --ip-family. Only ipv4 or ipv6 are allowed")
		return 1
	}
	cluster, status := r.cluster(ctx)
	if status != 0 {
		return status
	}
	if family == "" {
		family = cluster.IPFamily
	}
	if family == "" {
		family = "ipv4"
	}
	r.log("INFO: Using IP family: %s", family)
	dns := r.flag("--dns-cluster-ip", "")
	if dns == "" {
		if dns, status = r.dns(ctx, family, cluster.ServiceCIDR); status != 0 {
			return status
		}
	}
	name, status := r.privateDNSName(ctx)
	if status != 0 {
		return status
	}
	if err := r.write(cluster, dns, name); err != nil {
		fmt.Fprintln(r.c.Stderr, err)
		return 1
	}
	if err := enable(r.c.FS, "kubelet"); err != nil {
		fmt.Fprintln(r.c.Stderr, err)
		return 1
	}
	if r.c.FS != m.FS {
		_ = enable(m.FS, "kubelet") // a full disk has already been reported
	}
	m.apply(r.c)
	m.start("kubelet")
	r.log("INFO: complete!")
	return 0
}

// apply keeps the kubelet's files as a running program sees them until it ends, because a service that it starts reads them.
func (m *Machine) apply(c *shell.Call) {
	seen := map[string][]byte{}
	for _, name := range []string{
		userdata.KubeconfigFile, userdata.KubeletConfigFile, userdata.KubeletArgsFile, userdata.KubeletExtraFile, userdata.ClusterCAFile, userdata.NodeadmConfigFile,
		userdata.NodeadmEnvironmentFile,
	} {
		if b, err := c.FS.ReadFile(name); err == nil {
			seen[name] = append([]byte{}, b...) // not nil
		} else if errors.Is(err, fs.ErrNotExist) {
			seen[name] = nil
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = seen
}

// Done is called when a script or program has ended, and its changes are on the machine's disk.
func (m *Machine) Done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = nil
}

// readKubelet reads one of the kubelet's files as the script that controls the kubelet sees it, or from the disk.
func (m *Machine) readKubelet(name string) ([]byte, error) {
	m.mu.Lock()
	b, ok := m.seen[name]
	m.mu.Unlock()
	switch {
	case !ok:
		return m.FS.ReadFile(name)
	case b == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return b, nil
}

// cluster returns the cluster's facts from the options or, if they are incomplete, from EKS.
func (r *bootstrapRun) cluster(ctx context.Context) (node.ClusterInfo, int) {
	endpoint, ca := r.flag("--apiserver-endpoint", ""), r.flag("--b64-cluster-ca", "")
	if endpoint != "" && ca != "" {
		pem, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(ca), ""))
		if err != nil {
			fmt.Fprintln(r.c.Stderr, "base64: invalid input")
			fmt.Fprintln(r.c.Stdout, "Exited with error on line 375")
			return node.ClusterInfo{}, 1
		}
		return node.ClusterInfo{Endpoint: endpoint, CA: pem}, 0
	}
	r.log("INFO: --b64-cluster-ca or --apiserver-endpoint is not defined, describing cluster...")
	attempts, err := strconv.Atoi(r.flag("--aws-api-retry-attempts", "3"))
	if err != nil || attempts < 0 || attempts > 20 {
		attempts = 3
	}
	for n := 0; ; n++ {
		if n > 0 {
			r.log("INFO: Attempt %d of %d", n, attempts)
		}
		cluster, err := r.m.world.DescribeCluster(ctx, r.m.In.Region, r.name)
		if err == nil {
			return cluster, 0
		}
		fmt.Fprintf(r.c.Stderr, "\n%s\n", err)
		if n == attempts || ctx.Err() != nil {
			r.log("ERROR: Exhausted retries while describing cluster!")
			return node.ClusterInfo{}, 255
		}
		if !r.m.wait(ctx, time.Duration(5<<(1+n))*time.Second) {
			return node.ClusterInfo{}, 255
		}
	}
}

// dns returns the address of the cluster's DNS as the script derives it.
func (r *bootstrapRun) dns(ctx context.Context, family, serviceCIDR string) (string, int) {
	if family == "ipv6" {
		cidr := r.flag("--service-ipv6-cidr", "")
		if p, err := netip.ParsePrefix(serviceCIDR); cidr == "" && err == nil && p.Addr().Is6() {
			cidr = serviceCIDR
		}
		if cidr == "" {
			r.log("ERROR: One of --service-ipv6-cidr or --dns-cluster-ip must be provided when --ip-family is ipv6")
			return "", 1
		}
		return strings.SplitN(cidr, "/", 2)[0] + "a", 0
	}
	if p, err := netip.ParsePrefix(serviceCIDR); err == nil && p.Addr().Is4() {
		b := p.Addr().As4()
		b[3] = 10
		return netip.AddrFrom4(b).String(), 0
	}
	token, err := r.m.metadata(ctx, "PUT", "latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "900")
	get := func(name string) (text string) {
		if err == nil {
			text, err = r.m.metadata(ctx, "GET", "latest/meta-data/"+name, "X-aws-ec2-metadata-token", token)
		}
		return text
	}
	blocks := get("network/interfaces/macs/" + strings.Trim(get("mac"), "/\n") + "/vpc-ipv4-cidr-blocks")
	if err != nil {
		fmt.Fprintf(r.c.Stderr, "imds: %s\n", err)
		return "", 1
	}
	for line := range strings.Lines(blocks) {
		if strings.HasPrefix(line, "10.") {
			return "172.20.0.10", 0
		}
	}
	return "10.100.0.10", 0
}

// privateDNSName is the image's script private-dns-name, which gets the node's name from EC2.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2/runtime/bin/private-dns-name
func (r *bootstrapRun) privateDNSName(ctx context.Context) (string, int) {
	const attempts, interval = 20, 6 * time.Second
	m := r.m
	if m.world.PrivateDNSName == nil {
		return m.In.PrivateDNSName, 0
	}
	log := func(format string, args ...any) {
		fmt.Fprintf(r.c.Stderr, "%s [private-dns-name] %s\n", m.world.Clock.Now().UTC().Format("2006-01-02T15:04:05-0700"), fmt.Sprintf(format, args...))
	}
	log("will make up to %d attempt(s) every %d second(s)", attempts, int(interval.Seconds()))
	for n := 0; ; n++ {
		name, err := m.world.PrivateDNSName(ctx)
		if err == nil {
			log("INFO: retrieved PrivateDnsName: %s", name)
			return name, 0
		}
		fmt.Fprintf(r.c.Stderr, "\n%s\n", err)
		if n == attempts {
			log("ERROR: failed to retrieve PrivateDnsName after %d attempts!", n)
			return "", 1
		}
		log("WARN: PrivateDnsName is not available, waiting for %d seconds...", int(interval.Seconds()))
		if !m.wait(ctx, interval) {
			return "", 1
		}
	}
}

// write writes the kubelet's files.
func (r *bootstrapRun) write(cluster node.ClusterInfo, dns, name string) error {
	m, files := r.m, r.c.FS
	kubeconfig, err := files.ReadFile(userdata.KubeconfigFile)
	if err != nil {
		return err
	}
	text := strings.NewReplacer("MASTER_ENDPOINT", cluster.Endpoint, "AWS_REGION", m.In.Region, "CLUSTER_NAME", r.name).Replace(string(kubeconfig))
	config := map[string]any{}
	if b, err := files.ReadFile(userdata.KubeletConfigFile); err == nil {
		if err := json.Unmarshal(b, &config); err != nil {
			return fmt.Errorf("jq: error (at %s): %w", userdata.KubeletConfigFile, err)
		}
	}
	if config == nil { // the file contains null
		config = map[string]any{}
	}
	config["clusterDNS"] = strings.Split(dns, ",")
	pods := m.In.Type.ENIs*(m.In.Type.IPv4PerENI-1) + 2
	config["evictionHard"] = map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}
	config["kubeReserved"] = map[string]string{
		"cpu": fmt.Sprintf("%dm", reservedMilliCPU(m.In.Type.VCPU)), "ephemeral-storage": "1Gi", "memory": fmt.Sprintf("%dMi", 11*pods+255),
	}
	if r.flag("--use-max-pods", "true") == "true" {
		config["maxPods"] = pods
	}
	config["providerID"] = "aws:///" + m.In.AvailabilityZone + "/" + m.In.ID
	js, err := json.Marshal(config)
	if err != nil {
		return err
	}
	args := fmt.Sprintf("--node-ip=%s --pod-infra-container-image=602401143452.dkr.ecr.%s.amazonaws.com/eks/pause:%s --v=2 --hostname-override=%s --cloud-provider=external",
		m.nodeIP(strings.Contains(dns, ":")), m.In.Region, r.flag("--pause-container-version", "3.5"), name)
	written := []imageFile{
		{userdata.ClusterCAFile, 0o644, string(cluster.CA)},
		{userdata.KubeconfigFile, 0o644, text},
		{userdata.KubeletConfigFile, 0o644, string(js) + "\n"},
		{userdata.KubeletArgsFile, 0o644, "[Service]\nEnvironment='KUBELET_ARGS=" + args + "'\n"},
		{"/etc/systemd/system/kubelet.service", 0o644, "[Unit]\nDescription=Kubernetes Kubelet\n"},
	}
	if extra := r.flag("--kubelet-extra-args", ""); extra != "" {
		written = append(written, imageFile{userdata.KubeletExtraFile, 0o644, "[Service]\nEnvironment='KUBELET_EXTRA_ARGS=" + extra + "'\n"})
	}
	for _, f := range written {
		if err := files.MkdirAll(path.Dir(f.name), 0o755); err != nil {
			return err
		}
		if err := files.WriteFile(f.name, []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	return nil
}

// reservedMilliCPU is the script's reservation: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25
// % of the others.
func reservedMilliCPU(vcpu int) int {
	total, out := vcpu*1000, 0
	for _, r := range []struct{ from, to, share int }{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, total, 25}} {
		if total > r.from {
			out += (min(total, r.to) - r.from) * r.share / 100 / 100
		}
	}
	return out
}

// nodeadm supports init, which AL2023 runs by itself at boot after cloud-init.
func (m *Machine) nodeadm(_ context.Context, c *shell.Call) int {
	if len(c.Args) < 2 || c.Args[1] != "init" {
		return c.Fail("simulated nodes support only nodeadm init")
	}
	fmt.Fprintln(c.Stderr, `{"level":"info","msg":"nodeadm runs after cloud-init, with the configuration in user data"}`)
	return 0
}

func (m *Machine) kubeletCommand(_ context.Context, c *shell.Call) int {
	if m.In.Image.KubeletVersion == "" || m.In.Image.Family != images.AL2 && m.In.Image.Family != images.AL2023 {
		fmt.Fprintln(c.Stderr, "bash: kubelet: command not found")
		return 127
	}
	if len(c.Args) == 2 && c.Args[1] == "--version" {
		fmt.Fprintln(c.Stdout, "Kubernetes v"+m.In.Image.KubeletVersion)
		return 0
	}
	return c.Fail("start it with systemctl start kubelet")
}

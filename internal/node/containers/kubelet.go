package containers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// PauseImage is the image of the first container of every pod, and PauseArchive the archive that it is imported from.
const (
	PauseImage   = "drydock.local/pause:1"
	PauseArchive = "pause"
)

// filesDir has the files of the real kubelet. Those of nodeadm or bootstrap.sh, from which they are made, are where AWS has
// them.
const filesDir = "/var/lib/drydock/kubelet"

const containerdConfig = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "` + PauseImage + `"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "/etc/containerd/certs.d"

# Layers that all machines share count as if they were on this disk. Where nothing bounds disks, that would be the real one.
[plugins."io.containerd.snapshotter.v1.overlayfs"]
  reserve = %t

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  # The kubelet asks for statistics every ten seconds. More often is a call of each pod's shim every second.
  stats_collect_period = "10s"
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/drydock/bin"]
    conf_dir = "/etc/cni/net.d"
    use_internal_loopback = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "/opt/drydock/bin/drydock-runc"
        SystemdCgroup = false
        # A user may have 200 keys, and all machines are one user.
        NoNewKeyring = true
`

// startKubelet writes the kubelet's files and starts it.
func (i *instance) startKubelet(ctx context.Context, cfg *userdata.Config, shape simulated.Shape, c *client) error {
	server := cfg.Endpoint
	if host, ok := i.rt.options.Endpoint(cfg.Endpoint); ok {
		server = "https://" + host // the endpoint's address on this machine does not exist in the VPC
	}
	if err := i.writeToken(ctx, c); err != nil {
		return err
	}
	kubeconfig := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "kubelet",
		"clusters": []any{map[string]any{"name": "kubernetes", "cluster": map[string]any{"server": server, "certificate-authority": "/etc/kubernetes/pki/ca.crt"}}},
		"users":    []any{map[string]any{"name": "kubelet", "user": map[string]any{"tokenFile": "/var/lib/kubelet/token"}}},
		"contexts": []any{map[string]any{"name": "kubelet", "context": map[string]any{"cluster": "kubernetes", "user": "kubelet"}}},
	}
	for name, v := range map[string]any{filesDir + "/kubeconfig": kubeconfig, filesDir + "/config.json": i.kubeletConfig(cfg, shape), credentialProviderFile: i.credentialProviders()} {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := i.machine.Write(ctx, name, b, 0o600); err != nil {
			return err
		}
	}
	if err := i.machine.Write(ctx, "/etc/kubernetes/pki/ca.crt", c.ca(), 0o644); err != nil {
		return err
	}
	if b, err := attachments(i.in.Type.Name); err != nil {
		return err
	} else if b != nil {
		if err := i.machine.Write(ctx, attachmentsFile, b, 0o644); err != nil {
			return err
		}
	}
	memory := shape.Capacity[corev1.ResourceMemory]
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(shape.Labels)) {
		if domain, _, ok := strings.Cut(k, "/"); ok && (strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "k8s.io")) && !kubeletapis.IsKubeletLabel(k) {
			continue
		}
		labels = append(labels, k+"="+shape.Labels[k])
	}
	run, err := json.Marshal(launch.Kubelet{
		Args: []string{
			"--config=" + filesDir + "/config.json", "--kubeconfig=" + filesDir + "/kubeconfig", "--hostname-override=" + shape.Name,
			"--image-credential-provider-config=" + credentialProviderFile, "--image-credential-provider-bin-dir=" + addonimages.Programs,
			"--node-ip=" + i.in.PrivateIP.String(), "--node-labels=" + strings.Join(labels, ","), "--root-dir=/var/lib/kubelet", "--cert-dir=/var/lib/kubelet/pki",
		},
		Version: shape.Version, VCPU: i.in.Type.VCPU, MemoryBytes: uint64(memory.Value()),
	})
	if err != nil {
		return err
	}
	return i.machine.StartProgram(ctx, launch.KubeletRun, run)
}

// kubeletConfig returns the kubelet's configuration.
func (i *instance) kubeletConfig(cfg *userdata.Config, shape simulated.Shape) map[string]any {
	reserved := map[string]string{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		all, left := shape.Capacity[name], shape.Allocatable[name]
		all.Sub(left)
		reserved[string(name)] = all.String()
	}
	if i.machine.DiskBounded() {
		reserved[string(corev1.ResourceEphemeralStorage)] = cmp.Or(cfg.KubeReserved[string(corev1.ResourceEphemeralStorage)], "1Gi")
	}
	c := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}, "x509": map[string]any{"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
		},
		"authorization": map[string]any{"mode": "Webhook"}, "serverTLSBootstrap": true,
		// The machine's cgroup bounds it, if there are controllers. Pods have no groups of their own for each class.
		"cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{},
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"clusterDomain":            "cluster.local", "clusterDNS": clusterDNS(cfg),
		// The kubelet mounts a volume only after the node's status has named it: with the default of 10 seconds, that took 10 seconds.
		"nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "5m",
		"failSwapOn": false, "makeIPTablesUtilChains": false, "readOnlyPort": 0, "serializeImagePulls": false,
		"evictionHard": evictionHard(cfg, i.machine.DiskBounded()),
		"kubeReserved": reserved, "maxPods": shape.MaxPods, "providerID": shape.ProviderID, "registerWithTaints": cfg.Taints,
		"featureGates": map[string]bool{"KubeletInUserNamespace": true}, "volumePluginDir": "/var/lib/kubelet/volumeplugins",
	}
	if !i.machine.DiskBounded() {
		c["imageGCHighThresholdPercent"] = 100 // otherwise it is 85, as on EKS
	}
	return c
}

// evictionHard returns the thresholds at which the kubelet evicts pods. Those of the disk are the defaults of Amazon's images,
// unless user data has others. A disk without a bound is the real machine's, and so is its free space. The same is true of memory.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go
func evictionHard(cfg *userdata.Config, bounded bool) map[string]string {
	if !bounded {
		return map[string]string{"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"}
	}
	out := map[string]string{"nodefs.available": "10%", "nodefs.inodesFree": "5%"}
	maps.Copy(out, cfg.EvictionHard)
	out["memory.available"] = "0%"
	return out
}

// clusterDNS returns the addresses of the cluster's DNS service: by convention the tenth of the service range.
func clusterDNS(cfg *userdata.Config) []string {
	if len(cfg.ClusterDNS) > 0 {
		return cfg.ClusterDNS
	}
	p, err := netip.ParsePrefix(cmp.Or(cfg.ServiceCIDR, "10.100.0.0/16"))
	if err != nil || !p.Addr().Is4() {
		return nil
	}
	b := p.Masked().Addr().As4()
	return []string{fmt.Sprintf("%d.%d.%d.10", b[0], b[1], b[2])}
}

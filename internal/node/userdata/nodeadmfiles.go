package userdata

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The kubelet's files as nodeadm writes them.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go
const (
	NodeadmConfigFile      = "/etc/kubernetes/kubelet/config.json"
	NodeadmEnvironmentFile = "/etc/eks/kubelet/environment"
)

// A File is a file of a machine.
type File struct {
	Name string
	Mode fs.FileMode
	Text string
}

// NodeadmFiles returns the files that nodeadm writes for a node with the given name and maximum number of pods.
func (c *Config) NodeadmFiles(region, name, ip, providerID string, maxPods int) ([]File, error) {
	kubelet := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": "0.0.0.0",
		"authentication": map[string]any{
			"x509": map[string]any{"clientCAFile": ClusterCAFile}, "webhook": map[string]any{"enabled": true, "cacheTTL": "2m0s"}, "anonymous": map[string]any{"enabled": false},
		},
		"authorization": map[string]any{"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}},
		"cgroupDriver":  "systemd", "cgroupRoot": "/", "clusterDomain": "cluster.local", "clusterDNS": c.ClusterDNS,
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"evictionHard":             map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
		"hairpinMode":              "hairpin-veth", "maxPods": maxPods, "protectKernelDefaults": true, "providerID": providerID, "readOnlyPort": 0,
		"registerWithTaints": c.Taints, "serializeImagePulls": false, "serverTLSBootstrap": true,
	}
	for key, have := range map[string]map[string]string{"kubeReserved": c.KubeReserved, "systemReserved": c.SystemReserved, "evictionHard": c.EvictionHard} {
		if len(have) > 0 {
			kubelet[key] = have
		}
	}
	js, err := json.MarshalIndent(kubelet, "", "    ")
	if err != nil {
		return nil, err
	}
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		labels = append(labels, k+"="+c.Labels[k])
	}
	args := fmt.Sprintf("--cloud-provider=external --config=%s --config-dir=%s.d --hostname-override=%s --kubeconfig=%s --node-ip=%s --node-labels=%s --v=2",
		NodeadmConfigFile, NodeadmConfigFile, name, KubeconfigFile, ip, strings.Join(labels, ","))
	kubeconfig := fmt.Sprintf(`---
apiVersion: v1
kind: Config
clusters:
  - name: kubernetes
    cluster:
      certificate-authority: %s
      server: %s
current-context: kubelet
contexts:
  - name: kubelet
    context:
      cluster: kubernetes
      user: kubelet
users:
  - name: kubelet
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: aws
        args:
          - "eks"
          - "get-token"
          - "--cluster-name"
          - "%s"
          - "--region"
          - "%s"
`, ClusterCAFile, c.Endpoint, c.ClusterName, region)
	node := fmt.Sprintf(`{"spec":{"cluster":{"name":%q,"apiServerEndpoint":%q,"certificateAuthority":%q,"cidr":%q}}}`,
		c.ClusterName, c.Endpoint, base64.StdEncoding.EncodeToString(c.CA), c.ServiceCIDR)
	return []File{
		{ClusterCAFile, 0o644, string(c.CA)},
		{KubeconfigFile, 0o644, kubeconfig},
		{NodeadmConfigFile, 0o644, string(js) + "\n"},
		{NodeadmEnvironmentFile, 0o644, "NODEADM_KUBELET_ARGS=\"" + args + "\"\n"},
		{"/run/eks/nodeadm/config.json", 0o644, node + "\n"},
		{"/etc/systemd/system/kubelet.service", 0o644, "[Unit]\nDescription=Kubernetes Kubelet\nDocumentation=https://github.com/kubernetes/kubernetes\nAfter=containerd.service\nWants=containerd.service\n\n[Service]\nSlice=runtime.slice\nEnvironmentFile=" + NodeadmEnvironmentFile + "\nExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\nRestart=on-failure\nRestartForceExitStatus=SIGPIPE\nRestartSec=5\nKillMode=process\nCPUAccounting=true\nMemoryAccounting=true\n"},
	}, nil
}

// FromNodeadmFiles returns the configuration that a restarted kubelet reads from its files. written are the files that
// nodeadm wrote for c; they may have been changed since. The error is what the kubelet's log would say.
func (c *Config) FromNodeadmFiles(read func(name string) ([]byte, error), written []File) (*Config, error) {
	out := *c
	if err := out.applyKubeconfig(read); err != nil {
		return &out, err
	}
	config := NodeadmConfigFile
	environment, _ := read(NodeadmEnvironmentFile) // if it is gone, the flags are those of the boot
	if found := configFlag.FindSubmatch(environment); found != nil {
		config = string(found[1])
	}
	text, err := readKubeletConfig(read, config)
	if err != nil {
		return &out, err
	}
	if slices.ContainsFunc(written, func(f File) bool { return f.Name == config && bytes.Equal([]byte(f.Text), text) }) {
		return &out, nil
	}
	doc, err := decodeKubeletConfig(config, text)
	if err != nil {
		return &out, err
	}
	return &out, out.applyKubeletConfig(doc)
}

// configFlag matches the flag with which the unit names the kubelet's configuration file.
var configFlag = regexp.MustCompile(`--config=([^\s"]+)`)

package userdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// The kubelet's files on a machine configured by a script, as /etc/eks/bootstrap.sh writes them.
const (
	KubeconfigFile    = "/var/lib/kubelet/kubeconfig"
	KubeletConfigFile = "/etc/kubernetes/kubelet/kubelet-config.json"
	KubeletArgsFile   = "/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf"
	KubeletExtraFile  = "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf"
	ClusterCAFile     = "/etc/kubernetes/pki/ca.crt"
)

// kubeconfig is the relevant part of a kubelet's kubeconfig.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CAFile string `json:"certificate-authority"`
			CAData []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Exec struct {
				Args []string `json:"args"`
			} `json:"exec"`
		} `json:"user"`
	} `json:"users"`
}

// FromKubeletFiles reads what a starting kubelet reads: the files as scripts have left them at that time. The error
// is what the kubelet's log would say.
func FromKubeletFiles(read func(name string) ([]byte, error)) (*Config, error) {
	cfg := &Config{}
	if err := cfg.applyKubeconfig(read); err != nil {
		return cfg, err
	}
	text, err := read(KubeletConfigFile)
	if err == nil {
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			return cfg, fmt.Errorf("failed to load kubelet config file, path: %s, error: %w", KubeletConfigFile, err)
		}
		if err := cfg.applyKubeletConfig(doc); err != nil {
			return cfg, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return cfg, err
	}
	var flags []string
	for _, file := range []string{KubeletArgsFile, KubeletExtraFile} {
		text, err := read(file)
		if err != nil {
			continue // a missing drop-in changes nothing
		}
		for line := range strings.Lines(string(text)) {
			if _, value, ok := strings.Cut(line, "ARGS="); ok && strings.HasPrefix(line, "Environment=") {
				flags = append(flags, strings.Trim(strings.TrimSpace(value), `'"`))
			}
		}
	}
	if err := cfg.applyKubeletFlags(flags); err != nil {
		return cfg, err
	}
	slices.Sort(cfg.Ignored)
	cfg.Ignored = slices.Compact(cfg.Ignored)
	return cfg, cfg.validateLabels()
}

// applyKubeconfig reads the endpoint, its certificate authority and the name of the cluster for tokens from the kubelet's
// kubeconfig.
func (c *Config) applyKubeconfig(read func(name string) ([]byte, error)) error {
	text, err := read(KubeconfigFile)
	if err != nil {
		return fmt.Errorf("failed to run Kubelet: invalid kubeconfig: stat %s: no such file or directory", KubeconfigFile)
	}
	var kc kubeconfig
	if err := yamlsafe.Unmarshal(text, &kc); err != nil {
		return fmt.Errorf("failed to run Kubelet: invalid kubeconfig: %w", err)
	}
	if len(kc.Clusters) == 0 || len(kc.Users) == 0 {
		return errors.New("failed to run Kubelet: invalid kubeconfig: invalid configuration: no configuration has been provided")
	}
	cluster := kc.Clusters[0].Cluster
	if u, err := url.Parse(cluster.Server); err != nil || u.Host == "" {
		return fmt.Errorf("failed to run Kubelet: invalid kubeconfig: the server %q is not a URL", cluster.Server)
	}
	c.Endpoint, c.CA = cluster.Server, cluster.CAData
	if len(c.CA) == 0 {
		if c.CA, err = read(cluster.CAFile); err != nil {
			return fmt.Errorf("failed to run Kubelet: invalid kubeconfig: unable to read certificate-authority %s: open %s: no such file or directory", cluster.CAFile, cluster.CAFile)
		}
	}
	args := kc.Users[0].User.Exec.Args // for aws-iam-authenticator or the AWS CLI
	if i := slices.IndexFunc(args, func(a string) bool { return a == "-i" || a == "--cluster-name" }); i >= 0 && i+1 < len(args) {
		c.ClusterName = args[i+1]
	}
	return nil
}

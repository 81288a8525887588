package userdata

import (
	"bytes"
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
	text, err := readKubeletConfig(read, KubeletConfigFile)
	if err != nil {
		return cfg, err
	}
	doc, err := decodeKubeletConfig(KubeletConfigFile, text)
	if err != nil {
		return cfg, err
	}
	if err := cfg.applyKubeletConfig(doc); err != nil {
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

// badConfig returns the kubelet's error about its configuration file.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubelet/app/server.go
func badConfig(name, format string, args ...any) error {
	return fmt.Errorf("failed to load kubelet config file, path: %s, error: failed to load Kubelet config file %s, error %w", name, name, fmt.Errorf(format, args...))
}

// readKubeletConfig returns the text of the kubelet's configuration file.
func readKubeletConfig(read func(name string) ([]byte, error), name string) ([]byte, error) {
	text, err := read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, badConfig(name, "failed to read kubelet config file %q, error: open %s: no such file or directory", name, name)
	case err != nil:
		return nil, badConfig(name, "failed to read kubelet config file %q, error: %w", name, err)
	case len(text) == 0:
		return nil, badConfig(name, "kubelet config file %q was empty", name)
	}
	return text, nil
}

// decodeKubeletConfig decodes the kubelet's configuration file, which may be JSON or YAML.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubeletconfig/util/codec/codec.go
func decodeKubeletConfig(name string, text []byte) (doc map[string]any, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		err = json.Unmarshal(text, &doc)
	} else {
		err = yamlsafe.Unmarshal(text, &doc)
	}
	if err != nil {
		return nil, badConfig(name, "failed to decode: couldn't get version/kind; json parse error: %w", err)
	}
	return doc, nil
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

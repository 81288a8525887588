package programs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-proxy/app"
	sigsyaml "sigs.k8s.io/yaml"
)

// runKubeProxy is upstream's kube-proxy with the arguments of its container. It differs in how the configuration is read.
func runKubeProxy(args []string) int {
	for i, a := range args {
		file, ok := strings.CutPrefix(a, "--config=")
		if !ok {
			continue
		}
		own, err := ownConfig(file)
		if err != nil {
			return code(fmt.Errorf("kube-proxy: %w", err))
		}
		args[i] = "--config=" + own
	}
	c := app.NewProxyCommand()
	c.SetArgs(args)
	return cli.Run(c)
}

// ownConfig copies kube-proxy's configuration with what cannot be otherwise on a machine that runs containers: rules are
// made with nft, because that is the tool that machines have, and the sizes of connection tracking belong to the host's
// kernel. The process ends when the original changes, as upstream's does.
func ownConfig(file string) (string, error) {
	original, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var cfg map[string]any
	if err := yaml.Unmarshal(original, &cfg); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if mode := cfg["mode"]; mode != "nftables" {
		fmt.Fprintf(os.Stderr, "kube-proxy of Drydock: using the mode nftables instead of %q, whose tools machines do not have\n", mode)
	}
	cfg["mode"] = "nftables"
	cfg["conntrack"] = map[string]any{"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"}
	delete(cfg, "oomScoreAdj") // a user namespace may not lower it
	b, err := sigsyaml.Marshal(cfg)
	if err != nil {
		return "", err
	}
	own := filepath.Join(os.TempDir(), "kube-proxy-config")
	if err := os.MkdirAll(filepath.Dir(own), 0o1777); err != nil {
		return "", err
	}
	go func() {
		for range time.Tick(2 * time.Second) {
			if now, err := os.ReadFile(file); err == nil && !bytes.Equal(now, original) {
				fmt.Fprintln(os.Stderr, "content of the proxy server's configuration file was updated")
				os.Exit(1)
			}
		}
	}()
	return own, os.WriteFile(own, b, 0o600)
}

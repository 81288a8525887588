// Package userdata parses the user data that tells an EKS node which cluster to join and how.
//
// It handles the formats that need no program to run: nodeadm's NodeConfig on Amazon Linux 2023 and Bottlerocket's
// TOML settings. It also reads the files of a kubelet that a script configured. The machine runs the scripts
// (package machine/guest/cloudinit).
//
// User data comes from users and is not trusted: its size, its decompressed size, its nesting and its number of parts
// are bounded. May be imported by the node runtimes.
package userdata

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/gunzip"
)

const (
	// maxUserData is EC2's limit on user data before base64.
	// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html
	maxUserData = 16 << 10
	// maxDecompressed bounds the size of decompressed user data. AWS documents no limit; a NodeConfig of this size
	// contains nothing that a small one cannot.
	maxDecompressed = 256 << 10
	// maxMerged bounds the total size of all NodeConfigs with YAML's aliases expanded.
	maxMerged = 2 << 20
	// maxParts bounds the parts of a multipart message.
	maxParts = 64
)

// ErrNoBootstrap says that user data does not make its machine join a cluster. The machine still runs.
var ErrNoBootstrap = errors.New("user data does not join a cluster")

// Config is how a node joins its cluster, according to its user data.
type Config struct {
	ClusterName string
	Endpoint    string // URL of the Kubernetes API
	CA          []byte // PEM
	ServiceCIDR string // empty on Bottlerocket

	Labels map[string]string
	Taints []corev1.Taint
	// MaxPods is the kubelet's setting, or 0 if the machine has to compute it. ReservedForPods is the number from
	// which kubeReserved is computed; nodeadm ignores a kubelet setting of maxPods there. 0 means the machine's
	// number.
	MaxPods         int32
	ReservedForPods int32
	// MaxPodsExpression is nodeadm's CEL expression for MaxPods.
	MaxPodsExpression string
	PodsPerCore       int32
	ClusterDNS        []string
	// KubeReserved, SystemReserved and EvictionHard hold the settings that differ from the defaults, by resource or
	// signal.
	KubeReserved, SystemReserved, EvictionHard map[string]string

	// NodeName overrides the private DNS name; InstanceIDNodeName uses the instance's ID as the name.
	NodeName           string
	InstanceIDNodeName bool
	ProviderID         string

	// Scripts names the parts that the machine would have executed.
	Scripts []string
	// Ignored names the settings that this package does not handle, sorted.
	Ignored []string
}

// IPv6 reports whether the node joins an IPv6 cluster. Bottlerocket and bootstrap.sh only write the address of its DNS.
func (c *Config) IPv6() bool {
	if p, err := netip.ParsePrefix(c.ServiceCIDR); err == nil {
		return p.Addr().Is6()
	}
	if len(c.ClusterDNS) == 0 {
		return false
	}
	a, err := netip.ParseAddr(c.ClusterDNS[0])
	return err == nil && a.Is6()
}

// Parse reads user data as a machine of that family would. The error wraps ErrNoBootstrap if nothing in the data is
// meant to join a cluster; any other error is one that keeps the machine from joining. The returned Config is non-nil
// even then, and holds Scripts.
func Parse(family images.Family, userData []byte) (*Config, error) {
	cfg := &Config{}
	if len(userData) > maxUserData {
		return cfg, fmt.Errorf("user data has %d bytes, more than the %d that EC2 allows", len(userData), maxUserData)
	}
	budget := &budget{left: maxDecompressed}
	data, err := budget.decode(userData)
	if err != nil {
		return cfg, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return cfg, fmt.Errorf("there is no user data: %w", ErrNoBootstrap)
	}
	switch family {
	case images.AL2023:
		err = parseNodeadm(cfg, data, budget)
	case images.Bottlerocket:
		err = parseBottlerocket(cfg, data)
	case images.AL2:
		cfg.Scripts = []string{"user data"}
		err = fmt.Errorf("an AL2 node is bootstrapped by a script (/etc/eks/bootstrap.sh), and this runtime does not run scripts: %w", ErrNoBootstrap)
	default:
		err = fmt.Errorf("this runtime does not know how %s images read user data: %w", cmp.Or(family, "custom"), ErrNoBootstrap)
	}
	if err != nil {
		return cfg, err
	}
	slices.Sort(cfg.Ignored)
	cfg.Ignored = slices.Compact(cfg.Ignored)
	return cfg, cfg.validateLabels()
}

// budget bounds how much decoding one user data may produce in total.
type budget struct{ left int }

// decode removes base64 and gzip encoding, if present, as nodeadm and cloud-init do.
func (b *budget) decode(data []byte) ([]byte, error) {
	if decoded, err := base64.StdEncoding.DecodeString(string(data)); err == nil {
		data = decoded
	}
	if !gunzip.Is(data) {
		return data, nil
	}
	out, err := gunzip.Bytes(data, b.left)
	switch {
	case errors.Is(err, gunzip.ErrTooLarge):
		return nil, fmt.Errorf("user data decompresses to more than %d bytes", maxDecompressed)
	case err != nil:
		return nil, fmt.Errorf("decompressing user data: %w", err)
	}
	b.left -= len(out)
	return out, nil
}

// Decode removes base64 and gzip encoding from user data, if present.
func Decode(userData []byte) ([]byte, error) {
	return (&budget{left: maxDecompressed}).decode(userData)
}

// validateLabels rejects labels with which the kubelet refuses to start.
func (c *Config) validateLabels() error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			return fmt.Errorf("invalid node label key %q: %s", key, strings.Join(errs, "; "))
		}
		if errs := validation.IsValidLabelValue(c.Labels[key]); len(errs) > 0 {
			return fmt.Errorf("invalid value %q of node label %q: %s", c.Labels[key], key, strings.Join(errs, "; "))
		}
		if isKubernetesLabel(key) && !kubeletapis.IsKubeletLabel(key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		// The kubelet's own words: cmd/kubelet/app/options, ValidateKubeletFlags.
		return fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %v\n--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix (%s) or be in the specifically allowed set (%s)",
			unknown, strings.Join(kubeletapis.KubeletLabelNamespaces(), ", "), strings.Join(kubeletapis.KubeletLabels(), ", "))
	}
	return nil
}

func isKubernetesLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, d := range []string{"kubernetes.io", "k8s.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

// parseTaint reads key=value:Effect, key=:Effect and key:Effect.
func parseTaint(s string) (corev1.Taint, error) {
	bad := func(why string) (corev1.Taint, error) {
		return corev1.Taint{}, fmt.Errorf("invalid taint %q: %s", s, why)
	}
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return bad("it has no effect")
	}
	key, value, _ := strings.Cut(s[:colon], "=")
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(s[colon+1:])}
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		return bad(strings.Join(errs, "; "))
	}
	if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
		return bad(strings.Join(errs, "; "))
	}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return t, nil
	default:
		return bad("its effect is not NoSchedule, PreferNoSchedule or NoExecute")
	}
}

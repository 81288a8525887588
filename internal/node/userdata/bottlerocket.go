package userdata

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// bottlerocketSettings is the part of Bottlerocket's settings that determines how it joins.
// https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
type bottlerocketSettings struct {
	Settings struct {
		Kubernetes map[string]any `toml:"kubernetes"`
	} `toml:"settings"`
}

func parseBottlerocket(cfg *Config, data []byte) error {
	var doc bottlerocketSettings
	if err := toml.Unmarshal(data, &doc); err != nil {
		var de *toml.DecodeError
		if errors.As(err, &de) {
			row, col := de.Position()
			return fmt.Errorf("user data is not Bottlerocket TOML: line %d, column %d: %w", row, col, err)
		}
		return fmt.Errorf("user data is not Bottlerocket TOML: %w", err)
	}
	k := doc.Settings.Kubernetes
	if len(k) == 0 {
		return fmt.Errorf("user data has no [settings.kubernetes]: %w", ErrNoBootstrap)
	}
	r := tomlReader{from: k}
	cfg.ClusterName = r.text("cluster-name")
	cfg.Endpoint = r.text("api-server")
	ca := r.text("cluster-certificate")
	cfg.ClusterDNS = r.texts("cluster-dns-ip")
	cfg.Labels = r.table("node-labels")
	cfg.KubeReserved = r.table("kube-reserved")
	cfg.SystemReserved = r.table("system-reserved")
	cfg.EvictionHard = r.table("eviction-hard")
	cfg.NodeName = r.text("hostname-override")
	cfg.InstanceIDNodeName = r.text("hostname-override-source") == "instance-id"
	cfg.ProviderID = r.text("provider-id")
	mode := r.text("authentication-mode")
	standalone := r.flag("standalone-mode")
	if n := r.number("max-pods"); n != 0 {
		if n < 0 || n > 1<<20 {
			return fmt.Errorf("settings.kubernetes.max-pods is %d", n)
		}
		// Bottlerocket computes its reservation from settings.kubernetes.max-pods.
		cfg.MaxPods, cfg.ReservedForPods = int32(n), int32(n)
	}
	taints := r.lists("node-taints")
	if r.err != nil {
		return r.err
	}
	for _, key := range slices.Sorted(maps.Keys(taints)) {
		for _, v := range taints[key] {
			value, effect, ok := strings.Cut(v, ":")
			if !ok {
				return fmt.Errorf("settings.kubernetes.node-taints of %q: %q is not value:effect", key, v)
			}
			t, err := parseTaint(key + "=" + value + ":" + effect)
			if err != nil {
				return err
			}
			cfg.Taints = append(cfg.Taints, t)
		}
	}
	for key := range k {
		if !r.read[key] {
			cfg.Ignored = append(cfg.Ignored, "settings.kubernetes."+key)
		}
	}
	switch {
	case standalone:
		return fmt.Errorf("settings.kubernetes.standalone-mode is on: %w", ErrNoBootstrap)
	case mode != "" && mode != "aws":
		return fmt.Errorf("settings.kubernetes.authentication-mode is %q: EKS identifies nodes by their AWS role, so it must be \"aws\"", mode)
	case cfg.ClusterName == "":
		return errors.New("settings.kubernetes.cluster-name is missing")
	case cfg.Endpoint == "":
		return errors.New("settings.kubernetes.api-server is missing")
	case ca == "":
		return errors.New("settings.kubernetes.cluster-certificate is missing")
	}
	pem, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		return fmt.Errorf("settings.kubernetes.cluster-certificate: %w", err)
	}
	cfg.CA = pem
	return nil
}

// tomlReader reads settings of the expected types and keeps the first error.
type tomlReader struct {
	from map[string]any
	read map[string]bool
	err  error
}

func (r *tomlReader) get(key string) any {
	if r.read == nil {
		r.read = map[string]bool{}
	}
	r.read[key] = true
	return r.from[key]
}

func (r *tomlReader) wrong(key, want string, got any) {
	if r.err == nil && got != nil {
		r.err = fmt.Errorf("settings.kubernetes.%s must be %s, not %T", key, want, got)
	}
}

func (r *tomlReader) text(key string) string { return valueOf[string](r, key, "a string") }

func (r *tomlReader) flag(key string) bool { return valueOf[bool](r, key, "a boolean") }

func (r *tomlReader) number(key string) int64 { return valueOf[int64](r, key, "an integer") }

func valueOf[T any](r *tomlReader, key, want string) T {
	v := r.get(key)
	t, ok := v.(T)
	if !ok {
		r.wrong(key, want, v)
	}
	return t
}

// texts reads one string or a list of them.
func (r *tomlReader) texts(key string) []string {
	return r.asTexts(key, r.get(key))
}

func (r *tomlReader) asTexts(key string, v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				r.wrong(key, "a list of strings", v)
				return nil
			}
			out = append(out, s)
		}
		return out
	default:
		r.wrong(key, "a string or a list of them", v)
		return nil
	}
}

func (r *tomlReader) table(key string) map[string]string {
	v := r.get(key)
	m, ok := v.(map[string]any)
	if !ok {
		r.wrong(key, "a table", v)
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			r.wrong(key+"."+k, "a string", v)
		}
		out[k] = s
	}
	return out
}

// lists reads a table of strings or lists of strings.
func (r *tomlReader) lists(key string) map[string][]string {
	v := r.get(key)
	m, ok := v.(map[string]any)
	if !ok {
		r.wrong(key, "a table", v)
		return nil
	}
	out := make(map[string][]string, len(m))
	for k, v := range m {
		out[k] = r.asTexts(key+"."+k, v)
	}
	return out
}

package userdata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// nodeConfig is the relevant part of nodeadm's NodeConfig. https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name                 string `json:"name"`
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority []byte `json:"certificateAuthority"`
			CIDR                 string `json:"cidr"`
			EnableOutpost        *bool  `json:"enableOutpost"`
			ID                   string `json:"id"`
		} `json:"cluster"`
		Kubelet struct {
			Config            map[string]any `json:"config"`
			Flags             []string       `json:"flags"`
			MaxPodsExpression string         `json:"maxPodsExpression"`
		} `json:"kubelet"`
		FeatureGates map[string]bool `json:"featureGates"`
	} `json:"spec"`
}

// kubeletConfig is the part of KubeletConfiguration that matters to a node whose containers run nothing.
type kubeletConfig struct {
	MaxPods            *int32            `json:"maxPods"`
	PodsPerCore        int32             `json:"podsPerCore"`
	ClusterDNS         []string          `json:"clusterDNS"`
	RegisterWithTaints []corev1.Taint    `json:"registerWithTaints"`
	RegisterNode       *bool             `json:"registerNode"`
	KubeReserved       map[string]string `json:"kubeReserved"`
	SystemReserved     map[string]string `json:"systemReserved"`
	EvictionHard       map[string]string `json:"evictionHard"`
	ProviderID         string            `json:"providerID"`
}

const (
	nodeConfigAPIVersion = "node.eks.aws/v1alpha1"
	nodeConfigMediaType  = "application/node.eks.aws"
)

// parseNodeadm reads user data as nodeadm does: a multipart message's NodeConfig parts, merged in order, or else the
// whole as one NodeConfig.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/configprovider/mime.go
func parseNodeadm(cfg *Config, data []byte, budget *budget) error {
	docs, err := nodeConfigParts(cfg, data, budget)
	if err != nil {
		return err
	}
	if len(docs) == 0 {
		return fmt.Errorf("could not find NodeConfig within UserData: %w", ErrNoBootstrap)
	}
	var merged *nodeConfig
	left := maxMerged
	for _, doc := range docs {
		js, err := yamlsafe.ToJSON(doc)
		if left -= len(js); left < 0 {
			err = fmt.Errorf("its parts together are larger than %d bytes", maxMerged)
		}
		if err != nil {
			return fmt.Errorf("failed to decode node config, %w", err)
		}
		nc, err := decodeNodeConfig(js)
		if err != nil {
			return err
		}
		if merged == nil {
			merged = nc
		} else {
			merged.merge(nc)
		}
	}
	return merged.apply(cfg)
}

// nodeConfigParts returns the NodeConfig documents of user data and records scripts.
func nodeConfigParts(cfg *Config, data []byte, budget *budget) ([][]byte, error) {
	if bytes.HasPrefix(data, []byte("#!")) {
		cfg.Scripts = append(cfg.Scripts, "user data")
		return nil, nil
	}
	mr, ok := multipartReader(data)
	if !ok {
		return [][]byte{data}, nil
	}
	var docs [][]byte
	for n := 1; ; n++ {
		part, err := mr.NextPart()
		if err == io.EOF {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading part %d of multipart user data: %w", n, err)
		}
		if n > maxParts {
			return nil, fmt.Errorf("user data has more than %d parts", maxParts)
		}
		header := part.Header.Get("Content-Type")
		if header == "" {
			continue
		}
		mediaType, _, err := mime.ParseMediaType(header)
		if err != nil {
			return nil, fmt.Errorf("reading part %d of multipart user data: %w", n, err)
		}
		switch mediaType {
		case nodeConfigMediaType:
			raw, err := io.ReadAll(io.LimitReader(part, maxDecompressed))
			if err == nil {
				raw, err = budget.decode(raw)
			}
			if err != nil {
				return nil, fmt.Errorf("reading part %d of multipart user data: %w", n, err)
			}
			docs = append(docs, raw)
		case "text/x-shellscript", "text/cloud-boothook", "text/cloud-config":
			cfg.Scripts = append(cfg.Scripts, fmt.Sprintf("part %d (%s)", n, mediaType))
		}
	}
}

func multipartReader(data []byte) (*multipart.Reader, bool) {
	msg, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return nil, false
	}
	mediaType, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") || params["boundary"] == "" {
		return nil, false
	}
	return multipart.NewReader(msg.Body, params["boundary"]), true
}

// decodeNodeConfig decodes as nodeadm does: case-sensitive, ignoring unknown fields.
func decodeNodeConfig(js []byte) (*nodeConfig, error) {
	var nc nodeConfig
	if err := kjson.UnmarshalCaseSensitivePreserveInts(js, &nc); err != nil {
		return nil, fmt.Errorf("failed to decode node config, %w", err)
	}
	if nc.APIVersion != nodeConfigAPIVersion || nc.Kind != "NodeConfig" {
		return nil, fmt.Errorf("failed to decode node config, no kind %q is registered for version %q", nc.Kind, nc.APIVersion)
	}
	return &nc, nil
}

// merge merges other into nc: what other sets wins, kubelet flags are appended, and kubelet configuration is merged
// key by key.
func (nc *nodeConfig) merge(other *nodeConfig) {
	c, o := &nc.Spec.Cluster, &other.Spec.Cluster
	override(&c.Name, o.Name)
	override(&c.APIServerEndpoint, o.APIServerEndpoint)
	override(&c.CIDR, o.CIDR)
	override(&c.ID, o.ID)
	if len(o.CertificateAuthority) > 0 {
		c.CertificateAuthority = o.CertificateAuthority
	}
	if o.EnableOutpost != nil {
		c.EnableOutpost = o.EnableOutpost
	}
	nc.Spec.Kubelet.Config = mergeDocuments(nc.Spec.Kubelet.Config, other.Spec.Kubelet.Config)
	nc.Spec.Kubelet.Flags = append(nc.Spec.Kubelet.Flags, other.Spec.Kubelet.Flags...)
	override(&nc.Spec.Kubelet.MaxPodsExpression, other.Spec.Kubelet.MaxPodsExpression)
	if nc.Spec.FeatureGates == nil {
		nc.Spec.FeatureGates = map[string]bool{}
	}
	maps.Copy(nc.Spec.FeatureGates, other.Spec.FeatureGates)
}

func override(dst *string, src string) {
	if src != "" {
		*dst = src
	}
}

func mergeDocuments(dst, src map[string]any) map[string]any {
	if dst == nil {
		return src
	}
	for k, v := range src {
		if sub, ok := v.(map[string]any); ok {
			if have, ok := dst[k].(map[string]any); ok {
				dst[k] = mergeDocuments(have, sub)
				continue
			}
		}
		dst[k] = v
	}
	return dst
}

// apply validates as nodeadm does, with its error texts, and fills cfg.
func (nc *nodeConfig) apply(cfg *Config) error {
	c := nc.Spec.Cluster
	switch {
	case c.Name == "":
		return fmt.Errorf("Name is missing in cluster configuration") //nolint:staticcheck // nodeadm's text
	case c.APIServerEndpoint == "":
		return fmt.Errorf("Apiserver endpoint is missing in cluster configuration") //nolint:staticcheck // nodeadm's text
	case c.CertificateAuthority == nil:
		return fmt.Errorf("Certificate authority is missing in cluster configuration") //nolint:staticcheck // nodeadm's text
	case c.CIDR == "":
		return fmt.Errorf("CIDR is missing in cluster configuration") //nolint:staticcheck // nodeadm's text
	case c.EnableOutpost != nil && *c.EnableOutpost:
		return fmt.Errorf("nodes on AWS Outposts are not supported")
	}
	dns, err := clusterDNS(c.CIDR)
	if err != nil {
		return err
	}
	cfg.ClusterName, cfg.Endpoint, cfg.CA, cfg.ServiceCIDR = c.Name, c.APIServerEndpoint, c.CertificateAuthority, c.CIDR
	cfg.ClusterDNS = []string{dns}
	cfg.MaxPodsExpression = nc.Spec.Kubelet.MaxPodsExpression
	cfg.InstanceIDNodeName = nc.Spec.FeatureGates["InstanceIdNodeName"]
	if err := cfg.applyKubeletConfig(nc.Spec.Kubelet.Config); err != nil {
		return err
	}
	return cfg.applyKubeletFlags(nc.Spec.Kubelet.Flags)
}

// clusterDNS returns the address of kube-dns that nodeadm derives from the service range.
func clusterDNS(cidr string) (string, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("%s is not a valid IP Address. error: %w", cidr, err)
	}
	if prefix.Addr().Is4() {
		b := prefix.Addr().As4()
		b[3] = 10
		return netip.AddrFrom4(b).String(), nil
	}
	return strings.SplitN(cidr, "/", 2)[0] + "a", nil
}

func (c *Config) applyKubeletConfig(doc map[string]any) error {
	if len(doc) == 0 {
		return nil
	}
	js, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("reading spec.kubelet.config: %w", err)
	}
	var kc kubeletConfig
	if err := kjson.UnmarshalCaseSensitivePreserveInts(js, &kc); err != nil {
		return fmt.Errorf("reading spec.kubelet.config: %w", err)
	}
	if kc.RegisterNode != nil && !*kc.RegisterNode {
		return fmt.Errorf("the kubelet does not register (registerNode: false): %w", ErrNoBootstrap)
	}
	if kc.MaxPods != nil {
		if *kc.MaxPods < 0 {
			return fmt.Errorf("invalid configuration: maxPods (--max-pods) %d must not be a negative number", *kc.MaxPods)
		}
		c.MaxPods = *kc.MaxPods
	}
	if kc.PodsPerCore < 0 {
		return fmt.Errorf("invalid configuration: podsPerCore (--pods-per-core) %d must not be a negative number", kc.PodsPerCore)
	}
	for _, t := range kc.RegisterWithTaints {
		if _, err := parseTaint(t.Key + "=" + t.Value + ":" + string(t.Effect)); err != nil {
			return err
		}
	}
	c.PodsPerCore = kc.PodsPerCore
	c.Taints = kc.RegisterWithTaints
	c.KubeReserved, c.SystemReserved, c.EvictionHard = kc.KubeReserved, kc.SystemReserved, kc.EvictionHard
	if len(kc.ClusterDNS) > 0 {
		c.ClusterDNS = kc.ClusterDNS
	}
	c.ProviderID = kc.ProviderID
	for key := range doc {
		switch key {
		case "apiVersion", "kind", "maxPods", "podsPerCore", "clusterDNS", "registerWithTaints", "registerNode",
			"kubeReserved", "systemReserved", "evictionHard", "providerID":
		default:
			c.Ignored = append(c.Ignored, "kubelet.config."+key)
		}
	}
	return nil
}

// applyKubeletFlags reads the kubelet's command line, which takes precedence over its configuration. The flags of a
// NodeConfig reach the kubelet as one line.
func (c *Config) applyKubeletFlags(flags []string) error {
	words := strings.Fields(strings.Join(flags, " "))
	taintsSeen := false
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "--")
		if !ok {
			if name, ok = strings.CutPrefix(words[i], "-"); !ok {
				return fmt.Errorf("unknown command %v", words[i:]) // the kubelet's text
			}
		}
		name, value, ok := strings.Cut(name, "=")
		if !ok && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
		}
		value = strings.Trim(value, `"'`)
		switch name {
		case "node-labels":
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			for label := range strings.SplitSeq(value, ",") {
				if label = strings.TrimSpace(label); label != "" {
					k, v, _ := strings.Cut(label, "=")
					c.Labels[strings.TrimSpace(k)] = strings.TrimSpace(v)
				}
			}
		case "register-with-taints":
			if !taintsSeen {
				c.Taints, taintsSeen = nil, true
			}
			for s := range strings.SplitSeq(value, ",") {
				if s == "" {
					continue
				}
				t, err := parseTaint(s)
				if err != nil {
					return err
				}
				c.Taints = append(c.Taints, t)
			}
		case "max-pods":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return fmt.Errorf("invalid argument %q for \"--max-pods\" flag", value)
			}
			c.MaxPods = int32(n)
		case "cluster-dns":
			c.ClusterDNS = strings.Split(value, ",")
		case "hostname-override":
			c.NodeName = value
		case "provider-id":
			c.ProviderID = value
		case "register-node":
			if value == "false" {
				return fmt.Errorf("the kubelet does not register (--register-node=false): %w", ErrNoBootstrap)
			}
		default:
			c.Ignored = append(c.Ignored, "--"+name)
		}
	}
	return nil
}

package nodegroup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// userDataBoundary is the MIME boundary that EKS uses.
const userDataBoundary = "//"

// nodeLabels returns the labels with which a group's nodes register: the user's and EKS's.
func nodeLabels(g *record.Nodegroup) map[string]string {
	out := base.TagsOrEmpty(g.Nodegroup.Labels)
	out[plane.LabelNodegroup] = *g.Nodegroup.NodegroupName
	out["eks.amazonaws.com/nodegroup-image"] = g.ImageID
	out["eks.amazonaws.com/capacityType"] = string(g.Nodegroup.CapacityType)
	if t := g.Nodegroup.LaunchTemplate; t != nil {
		out["eks.amazonaws.com/sourceLaunchTemplateId"] = *t.Id
		out["eks.amazonaws.com/sourceLaunchTemplateVersion"] = *t.Version
	}
	return out
}

// userData returns the base64-encoded user data of a group's instances: EKS's part, merged with the
// user's. With a custom image, it is the user's alone.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
func userData(cluster *record.Cluster, g *record.Nodegroup, users string) (string, error) {
	own, err := base64.StdEncoding.DecodeString(users)
	if err != nil {
		return "", fmt.Errorf("the launch template's user data is not base64: %w", err)
	}
	var data []byte
	switch {
	case g.Nodegroup.AmiType == ekstypes.AMITypesCustom:
		return users, nil
	case strings.HasPrefix(string(g.Nodegroup.AmiType), "BOTTLEROCKET"):
		data, err = bottlerocketData(cluster, g, own)
	default:
		data, err = nodeConfigData(cluster, g, own)
	}
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

// nodeConfigData returns user data for Amazon Linux 2023: MIME parts, EKS's last.
// https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
func nodeConfigData(cluster *record.Cluster, g *record.Nodegroup, users []byte) ([]byte, error) {
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "node.eks.aws/v1alpha1",
		"kind":       "NodeConfig",
		"spec": map[string]any{
			"cluster": map[string]any{
				"name":                 cluster.Name(),
				"apiServerEndpoint":    "https://" + cluster.Plane.AWSHost,
				"certificateAuthority": base64.StdEncoding.EncodeToString(cluster.Plane.CAPEM),
				"cidr":                 cluster.ServiceCIDR(),
			},
			"kubelet": map[string]any{
				"config": map[string]any{"maxPods": maxPods(cluster, g.MachineTypes), "clusterDNS": []string{cluster.DNSAddress()}},
				"flags":  kubeletFlags(g),
			},
		},
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=%q\r\n\r\n", userDataBoundary)
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(userDataBoundary); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(users)) > 0 {
		if err := copyParts(w, users); err != nil {
			return nil, err
		}
	}
	part, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {"application/node.eks.aws"}})
	if err != nil {
		return nil, err
	}
	if _, err := part.Write(append([]byte("---\n"), config...)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

var errNotMIME = errors.New("User data was not in the MIME multipart format.") //nolint:staticcheck // AWS's text

// copyParts adds the parts of the user's MIME archive to w.
func copyParts(w *multipart.Writer, users []byte) error {
	msg, err := mail.ReadMessage(bytes.NewReader(users))
	if err != nil {
		return errNotMIME
	}
	typ, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(typ, "multipart/") || params["boundary"] == "" {
		return errNotMIME
	}
	r := multipart.NewReader(msg.Body, params["boundary"])
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return errNotMIME
		}
		to, err := w.CreatePart(p.Header)
		if err != nil {
			return err
		}
		if _, err := io.Copy(to, p); err != nil {
			return errNotMIME
		}
	}
}

func kubeletFlags(g *record.Nodegroup) []string {
	labels := nodeLabels(g)
	pairs := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, k+"="+labels[k])
	}
	flags := []string{"--node-labels=" + strings.Join(pairs, ",")}
	if len(g.Nodegroup.Taints) > 0 {
		var taints []string
		for _, t := range g.Nodegroup.Taints {
			taints = append(taints, aws.ToString(t.Key)+"="+aws.ToString(t.Value)+":"+taintEffect(t.Effect))
		}
		flags = append(flags, "--register-with-taints="+strings.Join(taints, ","))
	}
	return flags
}

// bottlerocketData returns user data for Bottlerocket: the user's TOML with EKS's settings.
func bottlerocketData(cluster *record.Cluster, g *record.Nodegroup, users []byte) ([]byte, error) {
	doc := map[string]any{}
	if err := toml.Unmarshal(users, &doc); err != nil {
		return nil, fmt.Errorf("User data was not in the TOML format: %w", err) //nolint:staticcheck // shown to users
	}
	k := table(table(doc, "settings"), "kubernetes")
	k["cluster-name"] = cluster.Name()
	k["api-server"] = "https://" + cluster.Plane.AWSHost
	k["cluster-certificate"] = base64.StdEncoding.EncodeToString(cluster.Plane.CAPEM)
	k["cluster-dns-ip"] = cluster.DNSAddress()
	if _, set := k["max-pods"]; !set {
		k["max-pods"] = maxPods(cluster, g.MachineTypes)
	}
	labels := table(k, "node-labels")
	for key, v := range nodeLabels(g) {
		labels[key] = v
	}
	if len(g.Nodegroup.Taints) > 0 {
		taints := table(k, "node-taints")
		for _, t := range g.Nodegroup.Taints {
			had, _ := taints[aws.ToString(t.Key)].([]string)
			taints[aws.ToString(t.Key)] = append(had, aws.ToString(t.Value)+":"+taintEffect(t.Effect))
		}
	}
	return toml.Marshal(doc)
}

// table returns the table at key in t, creating it if necessary.
func table(t map[string]any, key string) map[string]any {
	if sub, ok := t[key].(map[string]any); ok {
		return sub
	}
	sub := map[string]any{}
	t[key] = sub
	return sub
}

// maxPods returns the pod limit of a managed group: the lowest number of pods that its instance
// types have addresses for, capped at 110 below 30 vCPUs and at 250 otherwise.
// https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
func maxPods(cluster *record.Cluster, types []string) int {
	least := 250
	for _, name := range types {
		if t, ok := instancetypes.Lookup(name); ok {
			limit := 250
			if t.VCPU < 30 {
				limit = 110
			}
			if !cluster.IPv6() { // a single IPv6 prefix is enough for all of them
				limit = min(limit, t.MaxPods())
			}
			least = min(least, limit)
		}
	}
	return least
}

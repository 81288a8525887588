// Command addongen writes the embedded manifests of EKS add-ons from what their projects publish:
//
//	go run ./tools/addongen -in CHECKOUTS -out internal/catalog/addons/manifests
//
// CHECKOUTS holds one folder OWNER/NAME per repository of the table below, with its commit in the file COMMIT. Images
// become ${registry}/REPOSITORY:${tag…}, versions become ${appVersion}, and the schemas of custom resources lose
// their descriptions; nothing else changes. Charts are not rendered: kube-proxy, gp2, coredns-pdb,
// ebs-csi-default-sc, eks-pod-identity-agent and eks-node-monitoring-agent are maintained by hand, and each of those
// files names its source. Differences of versions other than the checkout's are in addons.yaml. The same input gives
// the same bytes.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// A manifest is one file to write.
type manifest struct {
	name    string
	sources []source
	// labels are set on every object and, if it selects pods, on those.
	labels map[string]string
	// podAnnotations are set on the pods of its workloads.
	podAnnotations map[string]string
}

// A source is a set of files of one repository.
type source struct {
	repository string // OWNER/NAME
	files      []string
}

// All of these repositories are under the Apache License 2.0.
var manifests = []manifest{
	{name: "vpc-cni", sources: []source{{"aws/amazon-vpc-cni-k8s", []string{"config/master/aws-k8s-cni.yaml"}}}},
	{
		name: "coredns", sources: []source{{"eksctl-io/eksctl", []string{"pkg/addons/default/assets/coredns-1.36.json"}}},
		// As on EKS; the user guide removes it for Fargate:
		// https://docs.aws.amazon.com/eks/latest/userguide/fargate-getting-started.html
		podAnnotations: map[string]string{"eks.amazonaws.com/compute-type": "ec2"},
	},
	{name: "network-resources", sources: []source{
		{"aws/amazon-vpc-resource-controller-k8s", []string{
			"config/crd/bases/vpcresources.k8s.aws_cninodes.yaml", "config/crd/bases/vpcresources.k8s.aws_securitygrouppolicies.yaml",
		}},
		{"aws/amazon-network-policy-controller-k8s", []string{"config/crd/bases/networking.k8s.aws_policyendpoints.yaml"}},
	}},
	{name: "node-diagnostics", sources: []source{{"aws/eks-node-monitoring-agent", []string{"api/crds/eks.amazonaws.com_nodediagnostics.yaml"}}}},
	{name: "aws-ebs-csi-driver", sources: []source{{"kubernetes-sigs/aws-ebs-csi-driver", under("deploy/kubernetes/base/",
		"serviceaccount-csi-controller", "serviceaccount-csi-node",
		"clusterrole-attacher", "clusterrole-csi-node", "clusterrole-provisioner", "clusterrole-resizer", "clusterrole-snapshotter",
		"clusterrolebinding-attacher", "clusterrolebinding-csi-node", "clusterrolebinding-provisioner", "clusterrolebinding-resizer", "clusterrolebinding-snapshotter",
		"role-leases", "rolebinding-leases", "csidriver", "poddisruptionbudget-controller", "controller", "node")}}},
	{
		name: "metrics-server", sources: []source{{"kubernetes-sigs/metrics-server", append(under("manifests/base/", "rbac", "service", "deployment", "apiservice"), "manifests/components/high-availability/pdb.yaml")}},
		labels: map[string]string{"app.kubernetes.io/name": "metrics-server", "app.kubernetes.io/instance": "metrics-server"},
	},
	{name: "snapshot-controller", sources: []source{{"kubernetes-csi/external-snapshotter", append(under("client/config/crd/",
		"snapshot.storage.k8s.io_volumesnapshotclasses", "snapshot.storage.k8s.io_volumesnapshotcontents", "snapshot.storage.k8s.io_volumesnapshots"),
		under("deploy/kubernetes/snapshot-controller/", "rbac-snapshot-controller", "setup-snapshot-controller")...)}}},
}

func under(folder string, names ...string) []string {
	for i, n := range names {
		names[i] = folder + n + ".yaml"
	}
	return names
}

func main() {
	in := flag.String("in", "", "folder of the checkouts")
	out := flag.String("out", "internal/catalog/addons/manifests", "folder to write")
	flag.Parse()
	for _, m := range manifests {
		if err := write(m, *in, *out); err != nil {
			fmt.Fprintln(os.Stderr, "addongen:", m.name+":", err)
			os.Exit(1)
		}
	}
}

func write(m manifest, in, out string) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# Generator: tools/addongen")
	for _, s := range m.sources {
		commit, err := os.ReadFile(filepath.Join(in, s.repository, "COMMIT"))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "# Upstream:  github.com/%s at %s, Apache-2.0\n", s.repository, bytes.TrimSpace(commit))
		for _, f := range s.files {
			fmt.Fprintln(&b, "#           ", f)
		}
	}
	for _, s := range m.sources {
		for _, f := range s.files {
			objects, err := read(filepath.Join(in, s.repository, f))
			if err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
			for _, o := range objects {
				change(o, m)
				raw, err := yaml.Marshal(o)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "---\n%s", raw)
			}
		}
	}
	return os.WriteFile(filepath.Join(out, m.name+".yaml"), b.Bytes(), 0o644)
}

type object = map[string]any

// read returns the objects of a file, with lists expanded into their items.
func read(name string) ([]object, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []object
	for d := utilyaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var o object
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case o["kind"] == "List":
			for _, i := range list(o, "items") {
				out = append(out, i.(object))
			}
		case o != nil:
			out = append(out, o)
		}
	}
}

// namespaced are the kinds used here that are namespaced.
var namespaced = map[string]bool{
	"ConfigMap": true, "DaemonSet": true, "Deployment": true, "PodDisruptionBudget": true,
	"Role": true, "RoleBinding": true, "Service": true, "ServiceAccount": true,
}

func change(o object, m manifest) {
	kind, _ := o["kind"].(string)
	meta := child(o, "metadata")
	delete(meta, "creationTimestamp")
	delete(o, "status")
	if namespaced[kind] && meta["namespace"] == nil {
		meta["namespace"] = "kube-system"
	}
	if a, ok := meta["annotations"].(object); ok && len(a) == 0 {
		delete(meta, "annotations")
	}
	for _, s := range list(o, "subjects") {
		if s := s.(object); s["kind"] == "ServiceAccount" && s["namespace"] == nil {
			s["namespace"] = "kube-system"
		}
	}
	if o["apiVersion"] == "policy/v1beta1" {
		o["apiVersion"] = "policy/v1"
	}
	spec := child(o, "spec")
	switch kind {
	case "CustomResourceDefinition":
		for _, v := range list(spec, "versions") {
			plain(child(child(v.(object), "schema"), "openAPIV3Schema"))
		}
		delete(spec, "preserveUnknownFields") // false is the default of v1
	case "Deployment", "DaemonSet":
		template := child(spec, "template")
		delete(child(template, "metadata"), "creationTimestamp")
		for k, v := range m.labels {
			ensure(spec, "selector", "matchLabels")[k] = v
			ensure(template, "metadata", "labels")[k] = v
		}
		for k, v := range m.podAnnotations {
			ensure(template, "metadata", "annotations")[k] = v
		}
		pod := child(template, "spec")
		delete(pod, "serviceAccount") // the old name of serviceAccountName
		for _, c := range append(list(pod, "initContainers"), list(pod, "containers")...) {
			c := c.(object)
			c["image"] = image(c["image"].(string))
		}
	case "Service":
		for k, v := range m.labels {
			ensure(o, "spec", "selector")[k] = v
		}
		if meta["name"] == "kube-dns" {
			spec["clusterIP"] = "${dnsAddress}"
			spec["clusterIPs"] = []any{"${dnsAddress}"}
			spec["ipFamilies"] = []any{"${ipFamily}"}
		}
	}
	for k, v := range m.labels {
		ensure(o, "metadata", "labels")[k] = v
	}
	if m.name == "vpc-cni" {
		versions(o)
		if kind == "DaemonSet" {
			pod := child(child(spec, "template"), "spec")
			cni := list(pod, "containers")[0].(object)
			// https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html
			for _, e := range append(list(cni, "env"), list(list(pod, "initContainers")[0].(object), "env")...) {
				if v, ok := families[e.(object)["name"].(string)]; ok {
					e.(object)["value"] = v
				}
			}
			// What EKS adds to the published manifest, from memory.
			cni["env"] = append(list(cni, "env"), object{"name": "CLUSTER_NAME", "value": "${clusterName}"}, object{"name": "VPC_ID", "value": "${vpcId}"})
		}
	}
}

// families are the settings of aws-node that depend on the cluster's IP family.
var families = map[string]string{"ENABLE_IPv4": "${ipv4}", "ENABLE_IPv6": "${ipv6}", "ENABLE_PREFIX_DELEGATION": "${ipv6}"}

// images maps images published elsewhere to the repositories in EKS's registry.
var images = map[string]string{
	"aws-ebs-csi-driver": "eks/aws-ebs-csi-driver", "metrics-server": "eks/metrics-server", "snapshot-controller": "eks/snapshot-controller",
	"csi-provisioner": "eks/csi-provisioner", "csi-attacher": "eks/csi-attacher", "csi-snapshotter": "eks/csi-snapshotter",
	"csi-resizer": "eks/csi-resizer", "livenessprobe": "eks/livenessprobe", "csi-node-driver-registrar": "eks/csi-node-driver-registrar",
}

// own are the images that have the add-on's own version.
var own = map[string]bool{
	"amazon-k8s-cni": true, "amazon-k8s-cni-init": true, "coredns": true,
	"aws-ebs-csi-driver": true, "metrics-server": true, "snapshot-controller": true,
}

var ecr = regexp.MustCompile(`^[^/]*\.dkr\.ecr\.[^/]*/|^%s\.dkr\.ecr\.%s\.%s/`)

func image(ref string) string {
	repository := ecr.ReplaceAllString(ref[:strings.LastIndexByte(ref, ':')], "")
	name := repository[strings.LastIndexByte(repository, '/')+1:]
	if r, ok := images[name]; ok {
		repository = r
	}
	if own[name] {
		return "${registry}/" + repository + ":${version}"
	}
	return "${registry}/" + repository + ":${tag." + name + "}"
}

var release = regexp.MustCompile(`^v1\.\d+\.\d+$`)

// versions replaces the release's number in values that consist of nothing else.
func versions(v any) any {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			v[k] = versions(e)
		}
	case []any:
		for i, e := range v {
			v[i] = versions(e)
		}
	case string:
		if release.MatchString(v) {
			return "${appVersion}"
		}
	}
	return v
}

// plain removes the descriptions of a schema and of the schemas in it.
func plain(s object) {
	delete(s, "description")
	for _, k := range []string{"properties", "patternProperties"} {
		for _, p := range child(s, k) {
			if p, ok := p.(object); ok {
				plain(p)
			}
		}
	}
	for _, k := range []string{"items", "additionalProperties", "not"} {
		if p, ok := s[k].(object); ok {
			plain(p)
		}
	}
	for _, k := range []string{"oneOf", "anyOf", "allOf"} {
		for _, p := range list(s, k) {
			plain(p.(object))
		}
	}
}

func child(o object, key string) object { c, _ := o[key].(object); return c }

func list(o object, key string) []any { l, _ := o[key].([]any); return l }

// ensure returns the object at a path, creating it if it is missing.
func ensure(o object, path ...string) object {
	for _, p := range path {
		c, ok := o[p].(object)
		if !ok {
			c = object{}
			o[p] = c
		}
		o = c
	}
	return o
}

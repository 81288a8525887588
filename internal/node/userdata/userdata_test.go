package userdata_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compress(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if _, err := zw.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

const ca = "-----BEGIN CERTIFICATE-----\n"

func TestUserDataThatJoins(t *testing.T) {
	plain := &userdata.Config{
		ClusterName: "dev", Endpoint: "https://ABCDEF.gr7.us-east-1.eks.amazonaws.com", CA: []byte(ca),
		ServiceCIDR: "10.100.0.0/16", ClusterDNS: []string{"10.100.0.10"},
	}
	with := func(change func(*userdata.Config)) *userdata.Config {
		c := *plain
		change(&c)
		return &c
	}
	merged := with(func(c *userdata.Config) {
		c.MaxPods, c.PodsPerCore = 150, 20
		c.Labels = map[string]string{"foo": "baz", "nodegroup": "test"}
		c.SystemReserved = map[string]string{"cpu": "150m", "memory": "1Gi"}
		c.Taints = []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoExecute"}, {Key: "lone", Effect: "NoSchedule"}}
		c.InstanceIDNodeName = true
		c.Scripts = []string{"part 1 (text/x-shellscript)"}
		c.Ignored = []string{"--v", "kubelet.config.port"}
	})
	bottlerocket := &userdata.Config{
		ClusterName: "dev", Endpoint: "https://ABCDEF.gr7.us-east-1.eks.amazonaws.com", CA: []byte(ca),
		ClusterDNS: []string{"10.100.0.10"}, MaxPods: 30, ReservedForPods: 30,
		Labels:       map[string]string{"eks.amazonaws.com/nodegroup": "ng"},
		Taints:       []corev1.Taint{{Key: "a", Value: "x", Effect: "NoSchedule"}, {Key: "a", Value: "y", Effect: "NoExecute"}, {Key: "b", Effect: "PreferNoSchedule"}},
		KubeReserved: map[string]string{"cpu": "80m"},
		Ignored:      []string{"settings.kubernetes.event-qps"},
	}
	for _, tc := range []struct {
		name   string
		family images.Family
		data   []byte
		want   *userdata.Config
	}{
		{"a NodeConfig", images.AL2023, read(t, "nodeconfig.yaml"), plain},
		{"a NodeConfig as JSON", images.AL2023, read(t, "nodeconfig.json"), plain},
		{"compressed", images.AL2023, compress(t, read(t, "nodeconfig.yaml")), plain},
		{"base64 twice, as some launch templates have it", images.AL2023, []byte(base64.StdEncoding.EncodeToString(read(t, "nodeconfig.yaml"))), plain},
		{"parts merged in order", images.AL2023, read(t, "multipart.txt"), merged},
		{"Bottlerocket settings", images.Bottlerocket, read(t, "bottlerocket.toml"), bottlerocket},
		{"IPv6 services", images.AL2023, bytes.ReplaceAll(read(t, "nodeconfig.yaml"), []byte("10.100.0.0/16"), []byte("fd00:1234::/108")),
			with(func(c *userdata.Config) {
				c.ServiceCIDR, c.ClusterDNS = "fd00:1234::/108", []string{"fd00:1234::a"}
			})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := userdata.Parse(tc.family, tc.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUserDataThatDoesNot(t *testing.T) {
	config := func(cluster string, rest ...string) []byte {
		return []byte("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {" + cluster + "}\n" + strings.Join(rest, "\n"))
	}
	const cluster = "name: dev, apiServerEndpoint: https://e, certificateAuthority: YQ==, cidr: 10.100.0.0/16"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	long := fmt.Sprintf("a: &a %q\nb: [%s*a]\n", strings.Repeat("x", 4<<10), strings.Repeat("*a,", 3_000))
	half := fmt.Sprintf("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\na: &a %q\nb: [%s*a]\n", strings.Repeat("x", 9_000), strings.Repeat("*a,", 100))
	halves := "Content-Type: multipart/mixed; boundary=B\n\n" + strings.Repeat("--B\nContent-Type: application/node.eks.aws\n\n"+half, 3) + "--B--\n"
	parts := "Content-Type: multipart/mixed; boundary=B\n\n" + strings.Repeat("--B\nContent-Type: text/plain\n\n\n", 100) + "--B--\n"
	for _, tc := range []struct {
		name   string
		family images.Family
		data   []byte
		want   string // part of the error
		joins  bool   // the data means to join
	}{
		// Nothing that bootstraps.
		{"none", images.AL2023, nil, "there is no user data", false},
		{"a script", images.AL2023, []byte("#!/bin/bash\n/etc/eks/bootstrap.sh dev\n"), "could not find NodeConfig within UserData", false},
		{"multipart without NodeConfig", images.AL2023, []byte("Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/x-shellscript\n\necho\n--B--\n"), "could not find NodeConfig", false},
		{"AL2", images.AL2, []byte("#!/bin/bash\n/etc/eks/bootstrap.sh dev\n"), "bootstrapped by a script", false},
		{"another system", images.Ubuntu, []byte("x"), "does not know how ubuntu images", false},
		{"Bottlerocket without Kubernetes", images.Bottlerocket, []byte("[settings.motd]\n"), "no [settings.kubernetes]", false},
		{"a kubelet that does not register", images.AL2023, config(cluster, "  kubelet: {flags: [--register-node=false]}"), "--register-node=false", false},

		// Mistakes that keep the machine out, in nodeadm's and the kubelet's words.
		{"no name", images.AL2023, config("apiServerEndpoint: e"), "Name is missing in cluster configuration", true},
		{"no endpoint", images.AL2023, config("name: dev"), "Apiserver endpoint is missing in cluster configuration", true},
		{"no authority", images.AL2023, config("name: dev, apiServerEndpoint: e"), "Certificate authority is missing in cluster configuration", true},
		{"no range", images.AL2023, config("name: dev, apiServerEndpoint: e, certificateAuthority: YQ=="), "CIDR is missing in cluster configuration", true},
		{"another kind", images.AL2023, []byte("apiVersion: v1\nkind: Pod\n"), `no kind "Pod" is registered for version "v1"`, true},
		{"a wrong type", images.AL2023, config("name: [dev]"), "failed to decode node config", true},
		{"no YAML", images.AL2023, []byte("a: b: c"), "failed to decode node config", true},
		{"a label of Kubernetes' own", images.AL2023, config(cluster, "  kubelet: {flags: [--node-labels=node-role.kubernetes.io/worker=]}"),
			"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [node-role.kubernetes.io/worker]", true},
		{"a bad label value", images.AL2023, config(cluster, "  kubelet: {flags: ['--node-labels=a=b/c']}"), `invalid value "b/c" of node label "a"`, true},
		{"a bad taint", images.AL2023, config(cluster, "  kubelet: {flags: ['--register-with-taints=a=b']}"), "invalid taint", true},
		{"a bad effect", images.AL2023, config(cluster, "  kubelet: {config: {registerWithTaints: [{key: a, effect: Never}]}}"), "invalid taint", true},
		{"a stray word", images.AL2023, config(cluster, "  kubelet: {flags: [run]}"), "unknown command [run]", true},
		{"no TOML", images.Bottlerocket, []byte("[settings"), "not Bottlerocket TOML: line 1", true},
		{"a missing setting", images.Bottlerocket, []byte("[settings.kubernetes]\ncluster-name='dev'\n"), "api-server is missing", true},
		{"a setting of the wrong type", images.Bottlerocket, []byte("[settings.kubernetes]\ncluster-name=1\n"), "cluster-name must be a string, not int64", true},
		{"token authentication", images.Bottlerocket, []byte("[settings.kubernetes]\ncluster-name='d'\nauthentication-mode='tls'\n"), "authentication-mode", true},

		// Malicious input.
		{"too much", images.AL2023, bytes.Repeat([]byte("x"), 16<<10+1), "more than the 16384", true},
		{"a gzip bomb", images.AL2023, compress(t, make([]byte, 8<<20)), "decompresses to more than", true},
		{"half a gzip", images.AL2023, compress(t, read(t, "nodeconfig.yaml"))[:40], "decompressing user data", true},
		{"a YAML bomb", images.AL2023, []byte(bomb), "excessive aliasing", true},
		{"a bomb of one text", images.AL2023, []byte(long), "failed to decode node config, yaml: document contains excessive aliasing", true},
		{"many halves of a bomb", images.AL2023, compress(t, []byte(halves)), "failed to decode node config, its parts together", true},
		{"deep YAML", images.AL2023, bytes.Repeat([]byte("["), 16<<10), "failed to decode", true},
		{"deep TOML", images.Bottlerocket, append([]byte("a="), bytes.Repeat([]byte("["), 16<<10-2)...), "not Bottlerocket TOML", true},
		{"very many parts", images.AL2023, []byte(parts), "more than 64 parts", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, err := userdata.Parse(tc.family, tc.data)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %+v, error %v, want error %q", cfg, err, tc.want)
			}
			if errors.Is(err, userdata.ErrNoBootstrap) == tc.joins {
				t.Errorf("ErrNoBootstrap: %v", !tc.joins)
			}
			if cfg == nil {
				t.Error("no config with the error")
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"nodeconfig.yaml", "nodeconfig.json", "multipart.txt", "bottlerocket.toml"} {
		data := read(f, name)
		f.Add(data)
		f.Add(compress(f, data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, family := range []images.Family{images.AL2023, images.Bottlerocket, images.AL2, images.Ubuntu} {
			cfg, err := userdata.Parse(family, data)
			if cfg == nil {
				t.Fatal("no config")
			}
			if err == nil && (cfg.ClusterName == "" || cfg.Endpoint == "" || cfg.CA == nil) {
				t.Errorf("%s joins without knowing where: %+v", family, cfg)
			}
		}
	})
}

// FuzzNodeConfig is FuzzParse with input that is always a NodeConfig.
func FuzzNodeConfig(f *testing.F) {
	for _, s := range []string{
		"{cluster: {name: c, apiServerEndpoint: 'https://x', certificateAuthority: Q0E=, cidr: 10.100.0.0/16}, kubelet: {flags: ['--node-labels=a=b,c=d'], config: {maxPods: 5, registerWithTaints: [{key: a, effect: NoSchedule}]}}}",
		"{cluster: {cidr: '::/0', certificateAuthority: 7}, featureGates: {InstanceIdNodeName: true}}", "{kubelet: {maxPodsExpression: '(max_enis - 1) * 2', config: {a: {b: {c: [1]}}, evictionHard: {x: 1}}}}", "[]", "null", "&a {x: *a}", "{a: &a '" + strings.Repeat("x", 1_000) + "', b: [" + strings.Repeat("*a,", 2_000) + "]}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		cfg, err := userdata.Parse(images.AL2023, []byte("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: "+spec+"\n"))
		if cfg == nil || err == nil && (cfg.ClusterName == "" || cfg.Endpoint == "" || cfg.CA == nil) {
			t.Errorf("%+v, %v", cfg, err)
		}
	})
}

// FuzzTOML is FuzzParse of Bottlerocket's settings.
func FuzzTOML(f *testing.F) {
	for _, s := range []string{
		"[settings.kubernetes]\ncluster-name = 'c'\napi-server = 'https://x'\ncluster-certificate = 'Q0E='\nmax-pods = 7\n[settings.kubernetes.node-labels]\na = 'b'\n[settings.kubernetes.node-taints]\n'k' = 'v:NoSchedule'\n",
		"settings.kubernetes.max-pods = 1e400\n", "[[settings]]\n", "settings = {kubernetes = {cluster-dns-ip = ['1.1.1.1', 7]}}", "a.b.c.d.e.f = 1979-05-27T07:32:00Z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := userdata.Parse(images.Bottlerocket, []byte(text))
		if cfg == nil || err == nil && (cfg.ClusterName == "" || cfg.Endpoint == "" || cfg.CA == nil) {
			t.Errorf("%+v, %v", cfg, err)
		}
	})
}

// FuzzKubeletFiles reads kubelet files with arbitrary contents, as a script may have written them.
func FuzzKubeletFiles(f *testing.F) {
	f.Add("clusters: [{cluster: {server: 'https://x', certificate-authority: /ca}}]", `{"maxPods": 3, "clusterDNS": ["1"]}`, "Environment='KUBELET_ARGS=--node-labels=a=b --max-pods=5'")
	f.Add("users: [{user: {exec: {args: [token, -i, c]}}}]", `null`, "Environment=\"KUBELET_EXTRA_ARGS=--register-with-taints=a=b:NoSchedule,c\"")
	f.Fuzz(func(t *testing.T, kubeconfig, config, args string) {
		_, _ = userdata.FromKubeletFiles(func(name string) ([]byte, error) {
			switch name {
			case userdata.KubeconfigFile:
				return []byte(kubeconfig), nil
			case userdata.KubeletConfigFile:
				return []byte(config), nil
			case userdata.KubeletArgsFile, userdata.KubeletExtraFile:
				return []byte(args), nil
			case userdata.ClusterCAFile:
				return []byte("CA"), nil
			}
			return nil, fs.ErrNotExist
		})
	})
}

package netpolicy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func cluster() Cluster {
	pod := func(namespace, name, ip string, labels map[string]string, ports ...corev1.ContainerPort) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}},
			Status:     corev1.PodStatus{PodIP: ip, HostIP: "10.0.0.1", Phase: corev1.PodRunning},
		}
	}
	ended := pod("shop", "ended", "10.0.0.9", map[string]string{"app": "web"})
	ended.Status.Phase = corev1.PodSucceeded
	host := pod("shop", "host", "10.0.0.1", map[string]string{"app": "web"})
	host.Spec.HostNetwork = true
	return Cluster{
		Pods: []*corev1.Pod{
			pod("shop", "web-2", "10.0.0.12", map[string]string{"app": "web"}, corev1.ContainerPort{Name: "http", ContainerPort: 8081}),
			pod("shop", "web-1", "10.0.0.11", map[string]string{"app": "web"}, corev1.ContainerPort{Name: "http", ContainerPort: 8080}, corev1.ContainerPort{Name: "http", ContainerPort: 53, Protocol: corev1.ProtocolUDP}),
			pod("shop", "db", "10.0.0.13", map[string]string{"app": "db"}, corev1.ContainerPort{Name: "sql", ContainerPort: 5432}),
			pod("shop", "pending", "", map[string]string{"app": "web"}),
			pod("ops", "probe", "10.0.0.20", map[string]string{"app": "probe"}), pod("other", "probe", "10.0.0.30", map[string]string{"app": "probe"}),
			ended, host,
		},
		Namespaces: map[string]*corev1.Namespace{
			"shop": {}, "ops": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "ops"}}}, "other": {},
		},
	}
}

func resolve(t *testing.T, text string) Spec {
	t.Helper()
	p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
	if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
		t.Fatal(err)
	}
	s, err := Resolve(&p, cluster())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct{ name, policy, isolation, selected, ingress, egress string }{
		{"deny", `podSelector: {}`, `["Ingress"]`, "db web-1 web-2", ``, ``},
		{"egress by its rules", `{podSelector: {matchLabels: {app: db}}, egress: [{}]}`, `["Ingress","Egress"]`, "db", ``,
			`[{"cidr":"0.0.0.0/0"},{"cidr":"::/0"}]`},
		{"types", `{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], ingress: [{}]}`, `["Egress"]`, "db", ``, ``},
		{"pods of the namespace", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}, {protocol: UDP}]}]}`, `["Ingress"]`, "db",
			`[{"cidr":"10.0.0.11","ports":[{"protocol":"TCP","port":5432},{"protocol":"UDP"}]},{"cidr":"10.0.0.12","ports":[{"protocol":"TCP","port":5432},{"protocol":"UDP"}]}]`, ``},
		{"pods of other namespaces", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: ops}}, podSelector: {matchLabels: {app: probe}}}]}]}`, `["Ingress"]`, "db",
			`[{"cidr":"10.0.0.20"}]`, ``},
		{"all namespaces", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: probe}}}]}]}`, `["Ingress"]`, "db",
			`[{"cidr":"10.0.0.20"},{"cidr":"10.0.0.30"}]`, ``},
		{"blocks and ranges", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.1.0/24]}}], ports: [{port: 8000, endPort: 8100}]}]}`, `["Ingress"]`, "db",
			`[{"cidr":"10.0.0.0/16","except":["10.0.1.0/24"],"ports":[{"protocol":"TCP","port":8000,"endPort":8100}]}]`, ``},
		// A name is the receiver's: that of the selected pods, or of each peer.
		{"named ports of the selected", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: http}]}]}`, `["Ingress"]`, "web-1 web-2",
			`[{"cidr":"10.0.0.13","ports":[{"protocol":"TCP","port":8080},{"protocol":"TCP","port":8081}]}]`, ``},
		{"named ports of peers", `{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}], ports: [{port: http}]}]}`, `["Egress"]`, "db", ``,
			`[{"cidr":"10.0.0.11","ports":[{"protocol":"TCP","port":8080}]},{"cidr":"10.0.0.12","ports":[{"protocol":"TCP","port":8081}]}]`},
		{"a name that no pod has", `{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: none}]}]}`, `["Ingress"]`, "db", ``, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := resolve(t, tt.policy)
			text := func(v any) string {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimPrefix(string(b), "null")
			}
			var selected []string
			for _, p := range s.PodSelectorEndpoints {
				selected = append(selected, p.Name)
			}
			got := []string{text(s.PodIsolation), strings.Join(selected, " "), text(s.Ingress), text(s.Egress)}
			if diff := cmp.Diff([]string{tt.isolation, tt.selected, tt.ingress, tt.egress}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuleset(t *testing.T) {
	one := resolve(t, `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress],
ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}, {from: [{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.1.0/24, 10.0.2.0/24]}}], ports: [{protocol: UDP, port: 1, endPort: 9}, {protocol: UDP}]}],
egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}`)
	two := resolve(t, `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]}`)
	// What users could write into PolicyEndpoints allows nothing, and gets into no script.
	hostile := resolve(t, `{podSelector: {matchLabels: {app: db}}}`)
	port := int32(5)
	hostile.Ingress = []Endpoint{
		{CIDR: "0.0.0.0/0 accept; }"}, {CIDR: "::/0"}, {CIDR: "0.0.0.0/0", Except: []string{"x"}}, {CIDR: "0.0.0.0/0", Ports: []Port{{Protocol: "tcp dport 1 accept"}}},
		{CIDR: "0.0.0.0/0", Ports: []Port{{Protocol: "TCP", Port: &port, EndPort: new(int32)}}},
	}
	hostile.PodSelectorEndpoints = append(hostile.PodSelectorEndpoints, Pod{HostIP: "10.0.0.1", PodIP: "; flush ruleset"}, Pod{HostIP: "10.0.0.2", PodIP: "10.0.0.99"})
	local := func(ip string) bool { return ip == "10.0.0.1" }
	got := Policies{Namespaced: []Spec{one, two, hostile}}.Ruleset(local)
	chain := func(name string) string {
		t.Helper()
		_, rest, ok := strings.Cut(got, "\tchain "+name+" {\n")
		if !ok {
			t.Fatalf("no chain %s in\n%s", name, got)
		}
		body, _, _ := strings.Cut(rest, "\t}\n")
		return strings.ReplaceAll(body, "\t\t", "")
	}
	for name, want := range map[string]string{
		"ingress_10_0_0_13": `ip saddr { 10.0.0.11, 10.0.0.12 } tcp dport 5432 accept
ip saddr 10.0.0.0/16 ip saddr != 10.0.1.0/24 ip saddr != 10.0.2.0/24 udp dport 1-9 accept
ip saddr 10.0.0.0/16 ip saddr != 10.0.1.0/24 ip saddr != 10.0.2.0/24 ip protocol udp accept
drop
`,
		"egress_10_0_0_13":  "ip daddr { 10.0.0.11, 10.0.0.12 } accept\ndrop\n",
		"ingress_10_0_0_11": "ip saddr { 10.0.0.11, 10.0.0.12 } tcp dport 5432 accept\ndrop\n",
		"egress":            "ip saddr { 10.0.0.11, 10.0.0.12, 10.0.0.13 } ip daddr 10.0.0.1 accept\nip saddr vmap @egress_admin\nip saddr vmap @egress_pods\nip saddr vmap @egress_baseline\n",
	} {
		if diff := cmp.Diff(want, chain(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if strings.Contains(got, "flush") || strings.Contains(got, "10_0_0_99") || !strings.Contains(got, "elements = { 10.0.0.11 : accept, 10.0.0.12 : accept, 10.0.0.13 : goto egress_10_0_0_13 }") {
		t.Error(got)
	}
	got = Policies{Strict: true}.Ruleset(local)
	for name, want := range map[string]string{"egress": "iifname \"eni*\" drop\n", "ingress": "oifname \"eni*\" drop\n"} {
		if !strings.HasSuffix(chain(name), "_baseline\n"+want) {
			t.Errorf("%s in the mode strict: %s", name, chain(name))
		}
	}
	if none := (Policies{}).Ruleset(local); strings.Contains(none, "elements") || strings.Contains(none, "drop") || !strings.HasPrefix(none, "table ip aws_network_policy {}\ndelete table ip aws_network_policy\n") {
		t.Error(none)
	}
}

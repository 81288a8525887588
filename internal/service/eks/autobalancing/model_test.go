package autobalancing

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestPathsBecomeConditionsInOrder(t *testing.T) {
	path := func(typ networkingv1.PathType, p string) networkingv1.HTTPIngressPath {
		return networkingv1.HTTPIngressPath{Path: p, PathType: &typ}
	}
	var got [][]string
	for _, p := range inOrder([]networkingv1.HTTPIngressPath{
		path(networkingv1.PathTypeImplementationSpecific, "/img/*"),
		path(networkingv1.PathTypePrefix, "/"),
		path(networkingv1.PathTypePrefix, "/cart/"),
		path(networkingv1.PathTypeExact, "/cart"),
	}) {
		got = append(got, patterns(&p))
	}
	if diff := cmp.Diff([][]string{{"/cart"}, {"/cart", "/cart/*"}, {"/*"}, {"/img/*"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListenersOfAnIngress(t *testing.T) {
	for _, tt := range []struct {
		name, ports string
		certs       []string
		want        []listener
		err         string
	}{
		{"none", "", nil, []listener{{port: 80, protocol: "HTTP"}}, ""},
		{"certificates", "", []string{"a", "b"}, []listener{{port: 443, protocol: "HTTPS", certificates: []string{"a", "b"}}}, ""},
		{"both", `[{"HTTPS":443},{"HTTP":80}]`, []string{"a"}, []listener{{port: 80, protocol: "HTTP"}, {port: 443, protocol: "HTTPS", certificates: []string{"a"}}}, ""},
		{"no certificate", `[{"HTTPS":443}]`, nil, nil, "no certificate found for the HTTPS listener on port 443"},
		{"protocol", `[{"TCP":443}]`, nil, nil, "listen protocol must be within [HTTP, HTTPS]: TCP"},
		{"port", `[{"HTTP":0}]`, nil, nil, "listen port must be within [1, 65535]: 0"},
		{"text", `80`, nil, nil, "failed to parse listen-ports configuration: `80`"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := listeners(tt.ports, tt.certs)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(listener{}, rule{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := ""; err != nil {
				if text = err.Error(); text != tt.err {
					t.Errorf("error %q, want %q", text, tt.err)
				}
			} else if tt.err != "" {
				t.Errorf("no error, want %q", tt.err)
			}
		})
	}
}

func TestNamesFitAndDiffer(t *testing.T) {
	a, b := nameOf("default", "a-very-long-name-of-a-service", "x"), nameOf("default", "a-very-long-name-of-a-service", "y")
	if a == b || !regexp.MustCompile(`^k8s-default-averylon-[0-9a-f]{10}$`).MatchString(a) || len(a) > 32 {
		t.Errorf("names %q and %q", a, b)
	}
}

func TestUnknownSettingsAreRefused(t *testing.T) {
	got, err := settingsOf(map[string]string{serviceAnnotations + "scheme": "internal", "other": "x"}, serviceAnnotations, ofServices)
	if err != nil || got["scheme"] != "internal" || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for k, v := range map[string]string{"eip-allocations": "e", "ip-address-type": "dualstack"} {
		if _, err := settingsOf(map[string]string{serviceAnnotations + k: v}, serviceAnnotations, ofServices); err == nil {
			t.Errorf("%s=%s was accepted", k, v)
		}
	}
}

func TestRangesAreAsEC2StoresThem(t *testing.T) {
	got := masked([]string{"10.1.2.3/16", " 10.1.0.0/16", "0.0.0.0/0"})
	if want := []string{"0.0.0.0/0", "10.1.0.0/16"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

package karpenter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/drydock-dev/drydock/internal/automode"
)

// discovery answers what the cache asks an API server before it starts.
func discovery(t *testing.T) *httptest.Server {
	kinds := map[string][]string{
		"api/v1": {"Pod", "Node", "Namespace", "PersistentVolume", "PersistentVolumeClaim"}, "apis/coordination.k8s.io/v1": {"Lease"},
		"apis/storage.k8s.io/v1": {"VolumeAttachment", "CSINode", "StorageClass"}, "apis/karpenter.sh/v1": {"NodeClaim", "NodePool"},
		"apis/karpenter.sh/v1alpha1": {"NodeOverlay"}, "apis/eks.amazonaws.com/v1": {"NodeClass"}, "apis/apps/v1": {"DaemonSet"}, "apis/policy/v1": {"PodDisruptionBudget"},
	}
	groups := &metav1.APIGroupList{}
	for path := range kinds {
		if group, version, ok := strings.Cut(strings.TrimPrefix(path, "apis/"), "/"); ok && group != "api" {
			v := metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any = groups
		path := strings.Trim(r.URL.Path, "/")
		switch names := kinds[path]; {
		case path == "api":
			out = &metav1.APIVersions{Versions: []string{"v1"}}
		case len(names) > 0:
			list := &metav1.APIResourceList{GroupVersion: strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/")}
			for _, n := range names {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(n) + "s", Kind: n, Verbs: []string{"get", "list", "watch"}})
			}
			out = list
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client may be gone
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestPrepareAgain checks that the controllers can be made more than once in a process, because a change of the setting starts
// them again.
func TestPrepareAgain(t *testing.T) {
	Register()
	cfg := Config{REST: &rest.Config{Host: discovery(t).URL}, Setting: automode.Setting{Region: "us-east-1", Version: "1.36"}, Log: klog.Background()}
	ctx := options.ToContext(log.IntoContext(t.Context(), cfg.Log), settings())
	for range 2 {
		if _, err := prepare(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
}

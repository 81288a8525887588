package controlplane_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// uses returns a plane's use of deprecated APIs as CLIENT API REMOVED REQUESTS.
func (w *world) uses(id string) []string {
	w.t.Helper()
	all, err := w.DeprecatedUse(id)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, u := range all {
		out = append(out, fmt.Sprint(u.UserAgent, " ", u.API, " ", u.Removed, " ", u.Requests))
	}
	return out
}

func (w *world) wantUses(id string, want ...string) {
	w.t.Helper()
	if got := w.uses(id); !slices.Equal(got, want) {
		w.t.Errorf("uses:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestUseOfDeprecatedAPIsIsCountedFor30Days(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	w := newWorld(t, func(cfg *config) { cfg.Clock = clock })
	p := w.claim("arn", account)
	use := func(agent string) {
		w.review(p.ID, "/usage", fmt.Sprintf(`{"Uses":[{"API":"/apis/g/v1beta1/things","Removed":"1.38","UserAgent":%q,"Requests":2}]}`, agent))
	}
	use("old")
	clock.Step(29 * 24 * time.Hour)
	use("old")
	use("new")
	w.reopen()
	w.ready(p.ID)
	w.wantUses(p.ID, "new /apis/g/v1beta1/things 1.38 2", "old /apis/g/v1beta1/things 1.38 4")
	clock.Step(24 * time.Hour)
	w.wantUses(p.ID, "new /apis/g/v1beta1/things 1.38 2", "old /apis/g/v1beta1/things 1.38 2")

	// New clients replace the least recently seen ones.
	clock.Step(time.Hour)
	for i := range 200 {
		use(fmt.Sprintf("c%03d", i))
	}
	if got := w.uses(p.ID); len(got) != 200 || !strings.HasPrefix(got[0], "c000 ") || !strings.HasPrefix(got[199], "c199 ") {
		t.Errorf("%d uses, from %s to %s", len(got), got[0], got[len(got)-1])
	}
	clock.Step(30 * 24 * time.Hour)
	w.wantUses(p.ID)
	if err := w.Release(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
}

// These are the APIs of EKS that Kubernetes 1.33 to 1.36 deprecates and introduces.
func TestDeprecatedAPIsOfEveryVersion(t *testing.T) {
	w := newKubernetes(t)
	key := account
	key.Version = "1.33"
	p := w.claim("arn", key)
	admin, err := w.RESTConfig(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	kinds := newRewriter(t, admin)
	known := map[string]bool{} // resources that the version before serves
	var kept []string          // fields that it keeps
	for _, tc := range []struct {
		version string
		want    []string // paths, with the version that removes them
	}{
		{"1.33", []string{"/api/v1/componentstatuses ", "/api/v1/endpoints "}},
		{"1.34", []string{"/apis/storage.k8s.io/v1beta1/volumeattributesclasses 1.37"}},
		{"1.35", []string{"/apis/resource.k8s.io/v1beta1/resourceclaims 1.38"}},
		{"1.36", []string{"/apis/resource.k8s.io/v1beta2/resourceclaims 1.39"}},
	} {
		if err := w.Upgrade(t.Context(), p.ID, tc.version); err != nil {
			t.Fatal(err)
		}
		introduced, served := []string{}, map[string]bool{}
		for _, res := range kinds.resources() {
			if served[res.Group+"/"+res.Name] = true; len(known) > 0 && !known[res.Group+"/"+res.Name] {
				introduced = append(introduced, "/apis/"+res.Group+"/"+res.Version+"/"+res.Name)
			}
		}
		known = served
		slices.Sort(introduced)
		if v, _ := eksversions.Lookup(tc.version); !slices.Equal(introduced, v.Introduces) {
			t.Errorf("%s introduces %q, and the catalog has %q", tc.version, introduced, v.Introduces)
		}
		fields := w.keptFields(p.ID)
		newer := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return slices.Contains(kept, f) })
		if v, _ := eksversions.Lookup(tc.version); tc.version != "1.33" && !slices.Equal(newer, v.IntroducesFields) {
			t.Errorf("%s introduces the fields %q, and the catalog has %q", tc.version, newer, v.IntroducesFields)
		}
		kept = fields
		as := rest.CopyConfig(admin)
		as.UserAgent = "test-" + tc.version
		callAll(t, w.clientset(as, nil), tc.version)
		eventually(t, func() error {
			got := strings.Join(w.uses(p.ID), "\n")
			for _, u := range tc.want {
				if !strings.Contains(got, "test-"+tc.version+" "+u+" 1") && !strings.Contains(got, "test-"+tc.version+" "+u+"1") {
					return fmt.Errorf("%s is missing in\n%s", u, got)
				}
			}
			if strings.Contains(got, "drydock/") {
				return errors.New("the control plane's own requests are counted:\n" + got)
			}
			return nil
		})
	}
}

// keptFields returns the fields of new features that a plane keeps: it accepts an object with the field, and answers with it.
func (w *world) keptFields(id string) []string {
	w.t.Helper()
	pod := func(spec, container string) string {
		return `{"apiVersion":"v1","kind":"Pod","spec":{"restartPolicy":"Never","volumes":[{"name":"v","emptyDir":{}}],` + spec + `"containers":[{"name":"c","image":"i"` + container + `}]}}`
	}
	hpa := func(behavior string) string {
		return `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"behavior":` + behavior + `}}`
	}
	driver := func(spec string) string {
		return `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","spec":{"tokenRequests":[{"audience":"a"}],` + spec + `}}`
	}
	claim := func(devices string) string {
		return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","spec":{"devices":` + devices + `}}`
	}
	var kept []string
	for field, manifest := range map[string]string{
		"/api/v1/pods spec.resources":                                                          pod(`"resources":{"requests":{"cpu":"1"}},`, ""),
		"/api/v1/pods spec.resourceClaims":                                                     pod(`"resourceClaims":[{"name":"gpu","resourceClaimName":"gpu"}],`, `,"resources":{"claims":[{"name":"gpu"}]}`),
		"/api/v1/pods spec.containers[].resources.claims":                                      pod(`"resourceClaims":[{"name":"gpu","resourceClaimName":"gpu"}],`, `,"resources":{"claims":[{"name":"gpu"}]}`),
		"/api/v1/pods spec.hostnameOverride":                                                   pod(`"hostnameOverride":"web",`, ""),
		"/api/v1/pods spec.containers[].restartPolicyRules":                                    pod("", `,"restartPolicy":"Never","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]`),
		"/api/v1/pods spec.containers[].env[].valueFrom.fileKeyRef":                            pod("", `,"env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"A"}}}]`),
		"/api/v1/persistentvolumeclaims spec.volumeAttributesClassName":                        `{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeAttributesClassName":"gold"}}`,
		"/api/v1/persistentvolumes spec.volumeAttributesClassName":                             `{"apiVersion":"v1","kind":"PersistentVolume","spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"csi":{"driver":"d.example.com","volumeHandle":"v"},"volumeAttributesClassName":"gold"}}`,
		"/apis/autoscaling/v2/horizontalpodautoscalers spec.behavior.scaleUp.tolerance":        hpa(`{"scaleUp":{"tolerance":"50m"}}`),
		"/apis/autoscaling/v2/horizontalpodautoscalers spec.behavior.scaleDown.tolerance":      hpa(`{"scaleDown":{"tolerance":"50m"}}`),
		"/apis/storage.k8s.io/v1/csidrivers spec.serviceAccountTokenInSecrets":                 driver(`"serviceAccountTokenInSecrets":true`),
		"/apis/storage.k8s.io/v1/csidrivers spec.nodeAllocatableUpdatePeriodSeconds":           driver(`"nodeAllocatableUpdatePeriodSeconds":60`),
		"/apis/resource.k8s.io/v1/deviceclasses spec.extendedResourceName":                     `{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","spec":{"extendedResourceName":"example.com/gpu"}}`,
		"/apis/resource.k8s.io/v1/resourceclaims spec.devices.constraints[].distinctAttribute": claim(`{"requests":[{"name":"a","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}],"constraints":[{"distinctAttribute":"example.com/slot"}]}`),
		"/apis/resource.k8s.io/v1/resourceclaims spec.devices.requests[].exactly.capacity":     claim(`{"requests":[{"name":"a","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1,"capacity":{"requests":{"example.com/memory":"1Gi"}}}}]}`),
		"/apis/resource.k8s.io/v1/resourceclaims spec.devices.requests[].exactly.tolerations":  claim(`{"requests":[{"name":"a","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1,"tolerations":[{"key":"example.com/slow","operator":"Exists"}]}}]}`),
	} {
		resource, path, _ := strings.Cut(field, " ")
		parts := strings.Split(strings.Trim(strings.Replace(resource, "/api/", "/apis//", 1), "/"), "/")
		gvr := schema.GroupVersionResource{Group: parts[1], Version: parts[2], Resource: parts[3]}
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(manifest), &o.Object); err != nil {
			w.t.Fatal(err)
		}
		o.SetName("sample.example.com")
		var in dynamic.ResourceInterface = w.dynamicClient(id).Resource(gvr)
		if !slices.Contains([]string{"csidrivers", "deviceclasses", "persistentvolumes"}, gvr.Resource) {
			in = w.dynamicClient(id).Resource(gvr).Namespace("default")
		}
		got, err := in.Create(w.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // without the field, what is left may be invalid
			w.t.Logf("%s: %v", field, err)
			continue
		}
		if err != nil {
			w.t.Fatalf("%s: %v", field, err)
		}
		last := path[strings.LastIndex(path, ".")+1:]
		if text := testkit.Must(json.Marshal(got.Object["spec"]))(w.t); strings.Contains(string(text), `"`+last+`":`) && (last != "resources" || got.Object["spec"].(map[string]any)["resources"] != nil) {
			kept = append(kept, field)
		}
	}
	slices.Sort(kept)
	return kept
}

// callAll makes a request to each API that a version deprecates.
func callAll(t *testing.T, client *kubernetes.Clientset, version string) {
	t.Helper()
	ctx, list := t.Context(), metav1.ListOptions{}
	_, err1 := client.CoreV1().ComponentStatuses().List(ctx, list)
	_, err2 := client.CoreV1().Endpoints("default").List(ctx, list)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if version == "1.33" { // our 1.33 serves no beta APIs
		return
	}
	_, err3 := client.StorageV1beta1().VolumeAttributesClasses().List(ctx, list)
	_, err4 := client.ResourceV1beta1().ResourceClaims("default").List(ctx, list)
	_, err5 := client.ResourceV1beta2().ResourceClaims("default").List(ctx, list)
	if err := errors.Join(err3, err4, err5); err != nil {
		t.Fatal(err)
	}
}

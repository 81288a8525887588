package controlplane_test

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Objects that Kubernetes 1.36 has rewritten, and those that it has created, are read and written by 1.35 after a rollback.
func TestRollbackOfRewrittenObjects(t *testing.T) {
	w := newKubernetes(t)
	key := account
	key.Version = "1.35"
	p := w.claim("arn", key)
	cfg, err := w.RESTConfig(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := newRewriter(t, cfg)
	c.create("before", someObjects)
	if err := w.Upgrade(t.Context(), p.ID, "1.36"); err != nil {
		t.Fatal(err)
	}
	c.create("after", someObjects)
	written := c.rewriteAll("1.36")
	if err := w.Upgrade(t.Context(), p.ID, "1.35"); err != nil {
		t.Fatal(err)
	}
	read := c.rewriteAll("1.35")
	for id, want := range written {
		if !strings.Contains(id, "mine-") { // the control plane may change its own objects
			continue
		}
		if diff := cmp.Diff(want, read[id]); diff != "" {
			t.Errorf("%s after the rollback (-want +got):\n%s", id, diff)
		}
	}
	t.Logf("%d objects were rewritten by 1.36 and %d by 1.35", len(written), len(read))
}

// A rewriter writes objects of all kinds.
type rewriter struct {
	t         *testing.T
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
}

func newRewriter(t *testing.T, cfg *rest.Config) *rewriter {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err1 := dynamic.NewForConfig(cfg)
	d, err2 := discovery.NewDiscoveryClientForConfig(cfg)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return &rewriter{t, client, d}
}

// resources returns the resources that can be listed and updated, in their preferred versions.
func (r *rewriter) resources() (out []metav1.APIResource) {
	r.t.Helper()
	lists, err := r.discovery.ServerPreferredResources()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, res := range list.APIResources {
			if slices.Contains(res.Verbs, "list") && slices.Contains(res.Verbs, "update") && !strings.Contains(res.Name, "/") {
				res.Group, res.Version = gv.Group, gv.Version
				out = append(out, res)
			}
		}
	}
	return out
}

func (r *rewriter) at(res metav1.APIResource) dynamic.NamespaceableResourceInterface {
	return r.client.Resource(schema.GroupVersionResource{Group: res.Group, Version: res.Version, Resource: res.Name})
}

// create creates objects, whose names get a suffix.
func (r *rewriter) create(suffix, objects string) {
	r.t.Helper()
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.ReplaceAll(objects, "SUFFIX", suffix)), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			r.t.Fatal(err)
		}
		gvk := o.GroupVersionKind()
		eventually(r.t, func() error { // the kind may have been defined only now
			all := r.resources()
			i := slices.IndexFunc(all, func(res metav1.APIResource) bool { return res.Kind == gvk.Kind && res.Group == gvk.Group })
			if i < 0 {
				return errors.New("not served: " + gvk.String())
			}
			in := dynamic.ResourceInterface(r.at(all[i]))
			if all[i].Namespaced {
				in = r.at(all[i]).Namespace("default")
			}
			_, err := in.Create(r.t.Context(), o, metav1.CreateOptions{})
			return err
		})
	}
}

// rewriteAll updates all objects, and returns their contents without what the server changes.
func (r *rewriter) rewriteAll(by string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, res := range r.resources() {
		if res.Name == "leases" || res.Name == "events" { // they change and go all the time
			continue
		}
		list, err := r.at(res).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			r.t.Fatalf("listing %s: %v", res.Name, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			id := res.Group + "/" + res.Name + " " + o.GetNamespace() + "/" + o.GetName()
			in := dynamic.ResourceInterface(r.at(res))
			if res.Namespaced {
				in = r.at(res).Namespace(o.GetNamespace())
			}
			eventually(r.t, func() error {
				annotations := o.GetAnnotations()
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations["example.com/rewritten-by"] = by
				o.SetAnnotations(annotations)
				updated, err := in.Update(r.t.Context(), o, metav1.UpdateOptions{})
				if apierrors.IsConflict(err) {
					o, err = in.Get(r.t.Context(), o.GetName(), metav1.GetOptions{})
					return errors.Join(errors.New("conflict"), err)
				}
				if apierrors.IsNotFound(err) {
					return nil
				}
				if err == nil {
					out[id] = content(r.t, updated)
				}
				return err
			})
		}
	}
	return out
}

// content returns an object without its status and what the server changes with every update.
func content(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	o = o.DeepCopy()
	for _, field := range []string{"resourceVersion", "generation", "managedFields", "annotations"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	delete(o.Object, "status")
	b, err := json.MarshalIndent(o.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const someObjects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: mine-SUFFIX}, data: {a: b}}
---
{apiVersion: v1, kind: Secret, metadata: {name: mine-SUFFIX}, stringData: {a: b}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: mine-SUFFIX}}
---
{apiVersion: v1, kind: Service, metadata: {name: mine-SUFFIX}, spec: {selector: {app: a}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: mine-SUFFIX}, spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: mine-SUFFIX}, spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 9Gi}}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: mine-SUFFIX}, spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: c, resources: {requests: {cpu: 100m}}}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: mine-SUFFIX}, spec: {replicas: 0, serviceName: s, selector: {matchLabels: {app: b}}, template: {metadata: {labels: {app: b}}, spec: {containers: [{name: c, image: c}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: mine-SUFFIX}, spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: mine-SUFFIX}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: mine-SUFFIX}, spec: {minAvailable: 1, selector: {matchLabels: {app: SUFFIX}}}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: mine-SUFFIX}, spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: mine-SUFFIX}, spec: {podSelector: {}, policyTypes: [Ingress]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: mine-SUFFIX}, provisioner: none}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: mine-SUFFIX}, driverName: none, parameters: {a: b}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: mine-SUFFIX}, value: 5}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: mine-SUFFIX}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: mine-SUFFIX}, spec: {selectors: [{cel: {expression: "device.driver == 'none'"}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: mine-SUFFIX}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: mine-SUFFIX}}]}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: mine-SUFFIX}, spec: {matchConstraints: {resourceRules: [{apiGroups: [example.org], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}]}, validations: [{expression: "true"}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: minesSUFFIX.example.com}, spec: {group: example.com, scope: Namespaced, names: {kind: MineSUFFIX, plural: minesSUFFIX, singular: mineSUFFIX}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
---
{apiVersion: example.com/v1, kind: MineSUFFIX, metadata: {name: mine-SUFFIX}, spec: {a: b}}
`

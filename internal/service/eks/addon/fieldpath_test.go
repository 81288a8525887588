package addon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestRemoveField(t *testing.T) {
	const object = `
metadata: {labels: {app.kubernetes.io/name: a, app: b}, finalizers: [x, "y]z"]}
spec:
  replicas: 2
  containers:
  - {name: a, image: i}
  - {name: b, image: j, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}
`
	for path, want := range map[string]string{
		".spec.replicas": `spec: {replicas: null}`,
		".metadata.labels.app.kubernetes.io/name":                                    `metadata: {labels: {app.kubernetes.io/name: null}}`,
		".metadata.labels.app":                                                       `metadata: {labels: {app: null}}`,
		`.metadata.finalizers[="y]z"]`:                                               `metadata: {finalizers: [x]}`,
		`.spec.containers[name="a"].image`:                                           `spec: {containers: [{name: a}, {name: b, image: j, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}]}`,
		`.spec.containers[name="b"].ports[containerPort=53,protocol="TCP"]`:          `spec: {containers: [{name: a, image: i}, {name: b, image: j, ports: [{containerPort: 53, protocol: UDP}]}]}`,
		`.spec.containers[name="b"].ports[containerPort=53,protocol="UDP"].protocol`: `spec: {containers: [{name: a, image: i}, {name: b, image: j, ports: [{containerPort: 53}, {containerPort: 53, protocol: TCP}]}]}`,
		`.spec.containers[name="c"].image`:                                           ``,
		`.spec.nothing`:                                                              ``,
		`spec`:                                                                       ``,
		``:                                                                           ``,
		`.spec.containers[`:                                                          ``,
	} {
		t.Run(path, func(t *testing.T) {
			var o, expected, change map[string]any
			for text, into := range map[string]*map[string]any{object: &o, object + "\n": &expected, want: &change} {
				if err := yaml.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			merge(expected, change)
			if got := removeField(o, path); got != (want != "") {
				t.Errorf("removed: %v", got)
			}
			if diff := cmp.Diff(expected, o); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) {
	for k, v := range patch {
		next, ok := v.(map[string]any)
		old, ok2 := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case ok && ok2:
			merge(old, next)
		default:
			into[k] = v
		}
	}
}

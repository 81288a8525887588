package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/internal/node"
)

// ref is a ConfigMap or Secret that a pod requires.
type ref struct {
	secret bool
	name   string
	key    string // empty means any
	volume string // the volume made from it; empty means the environment
}

func (r ref) kind() string {
	if r.secret {
		return "secret"
	}
	return "configmap"
}

// environment returns what a container's environment requires.
func environment(c *corev1.Container) []ref {
	var out []ref
	for _, e := range c.EnvFrom {
		if r := e.ConfigMapRef; r != nil && !yes(r.Optional) {
			out = append(out, ref{name: r.Name})
		}
		if r := e.SecretRef; r != nil && !yes(r.Optional) {
			out = append(out, ref{secret: true, name: r.Name})
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil && !yes(r.Optional) {
			out = append(out, ref{name: r.Name, key: r.Key})
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil && !yes(r.Optional) {
			out = append(out, ref{secret: true, name: r.Name, key: r.Key})
		}
	}
	return out
}

// rootCA exists in every namespace, because a controller of the cluster creates it. Asking for it for every pod would
// cost more than starting the pod.
const rootCA = "kube-root-ca.crt"

// volumes returns what a pod's volumes require.
func volumes(p *corev1.Pod) []ref {
	var out []ref
	add := func(volume string, secret bool, name string, optional *bool, items []corev1.KeyToPath) {
		if yes(optional) || name == rootCA {
			return
		}
		if len(items) == 0 {
			out = append(out, ref{secret: secret, name: name, volume: volume})
		}
		for _, i := range items {
			out = append(out, ref{secret: secret, name: name, key: i.Key, volume: volume})
		}
	}
	for _, v := range p.Spec.Volumes {
		if s := v.ConfigMap; s != nil {
			add(v.Name, false, s.Name, s.Optional, s.Items)
		}
		if s := v.Secret; s != nil {
			add(v.Name, true, s.SecretName, s.Optional, s.Items)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s := s.ConfigMap; s != nil {
				add(v.Name, false, s.Name, s.Optional, s.Items)
			}
			if s := s.Secret; s != nil {
				add(v.Name, true, s.Name, s.Optional, s.Items)
			}
		}
	}
	return out
}

func yes(b *bool) bool { return b != nil && *b }

// missing returns the kubelet's error if a reference cannot be resolved.
// https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go
func (r ref) missing(namespace string, keys []string, err error) error {
	if err != nil {
		return err
	}
	if r.key == "" || slices.Contains(keys, r.key) {
		return nil
	}
	kind := map[bool]string{false: "ConfigMap", true: "Secret"}[r.secret]
	if r.volume == "" {
		return r.refusal(namespace, fmt.Errorf("couldn't find key %s in %s %s/%s", r.key, kind, namespace, r.name))
	}
	return r.refusal(namespace, fmt.Errorf("references non-existent %s key: %s", map[bool]string{false: "config", true: "secret"}[r.secret], r.key))
}

// refusal is an error with the decision behind it.
func (r ref) refusal(namespace string, err error) error {
	return &node.Refusal{Err: err, Decision: node.Decision{
		By: node.ByKubernetes, Code: "NotFound", Component: r.kind() + "/" + r.name,
		Text: "the pod refers to the " + r.kind() + " " + namespace + "/" + r.name + ": " + err.Error(),
	}}
}

// references reads what pods refer to, and caches it briefly, because many pods refer to the same objects.
type references struct {
	k    *kubelet
	have map[ref]kept // by kind, namespace/name
}

type kept struct {
	keys  []string
	until time.Time
}

// keptFor is how long an object that was found is assumed to exist.
const keptFor = 10 * time.Second

// maxKept bounds the cache.
const maxKept = 1024

// check returns an error if a pod's reference cannot be resolved.
func (s *references) check(ctx context.Context, namespace string, r ref) error {
	id := ref{secret: r.secret, name: namespace + "/" + r.name}
	now := s.k.now()
	if got, ok := s.have[id]; ok && now.Before(got.until) {
		return r.missing(namespace, got.keys, nil)
	}
	var keys []string
	var err error
	if r.secret {
		var o corev1.Secret
		err = s.k.client.do(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/secrets/"+r.name, nil, nil, &o)
		for k := range o.Data {
			keys = append(keys, k)
		}
	} else {
		var o corev1.ConfigMap
		err = s.k.client.do(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps/"+r.name, nil, nil, &o)
		for k := range o.Data {
			keys = append(keys, k)
		}
		for k := range o.BinaryData {
			keys = append(keys, k)
		}
	}
	if apierrors.IsNotFound(err) {
		return r.refusal(namespace, fmt.Errorf("%s %q not found", r.kind(), r.name))
	}
	if err != nil {
		return errors.New("failed to sync " + r.kind() + " cache: timed out waiting for the condition")
	}
	if s.have == nil || len(s.have) >= maxKept {
		s.have = map[ref]kept{}
	}
	s.have[id] = kept{keys, now.Add(keptFor)}
	return r.missing(namespace, keys, nil)
}

// The kubelet's waits between two attempts to set up a volume, doubled each time, and between two attempts to create
// a container.
const (
	firstMount  = 500 * time.Millisecond
	maxMount    = 2*time.Minute + 2*time.Second
	configRetry = 10 * time.Second
)

// mount sets up the pod's volumes, or returns when to retry.
func (m *podMachine) mount(e env) (retry time.Time, ok bool) {
	if m.mounted || len(m.volumes) == 0 || e.refers == nil {
		return time.Time{}, true
	}
	if e.now.Before(m.mountDue) {
		return m.mountDue, false
	}
	for _, r := range m.volumes {
		err := e.refers(m.namespace, r)
		if err == nil {
			continue
		}
		m.mountErr = err
		m.event(e.now, corev1.EventTypeWarning, "FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", r.volume, err), nil)
		m.mountWait = min(max(2*m.mountWait, firstMount), maxMount)
		m.mountDue = e.now.Add(m.mountWait)
		return m.mountDue, false
	}
	m.mounted, m.mountErr = true, nil
	return time.Time{}, true
}

// configure makes a container's environment, and reports whether that succeeded.
func (m *podMachine) configure(c *container, e env, at func(time.Time)) bool {
	if e.refers == nil {
		return true
	}
	for _, r := range c.refs {
		err := e.refers(m.namespace, r)
		if err == nil {
			continue
		}
		c.configErr = err
		m.event(e.now, corev1.EventTypeWarning, "Failed", "Error: "+err.Error(), c)
		m.holdBack(c, reasonCreateContainerConfigError, err.Error())
		c.until = e.now.Add(configRetry)
		at(c.until)
		return false
	}
	c.configErr = nil
	return true
}

const reasonCreateContainerConfigError = "CreateContainerConfigError"

package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// An Environment is what a container's variables are made from. The functions return an object in the pod's
// namespace, or nil if it does not exist.
type Environment struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Node is the pod's node, for limits that a container does not set. It may be nil.
	Node      *corev1.Node
	ConfigMap func(name string) (*corev1.ConfigMap, error)
	Secret    func(name string) (*corev1.Secret, error)
}

// errNoValue says that an optional reference has no target, so the variable is not set.
var errNoValue = errors.New("no value")

// Variables returns the container's own variables as the kubelet makes them: envFrom, then env in its order,
// expanding $(NAME) of earlier ones. It does not include those of Services.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
func (e *Environment) Variables() (map[string]string, error) {
	out := map[string]string{}
	for i := range e.Container.EnvFrom {
		if err := e.from(&e.Container.EnvFrom[i], out); err != nil {
			return nil, fmt.Errorf("envFrom %d of container %s: %w", i, e.Container.Name, err)
		}
	}
	for i := range e.Container.Env {
		v := &e.Container.Env[i]
		if v.ValueFrom == nil {
			out[v.Name] = expand(v.Value, out)
			continue
		}
		value, err := e.valueFrom(v.ValueFrom)
		switch {
		case errors.Is(err, errNoValue):
		case err != nil:
			return nil, fmt.Errorf("variable %s of container %s: %w", v.Name, e.Container.Name, err)
		default:
			out[v.Name] = value
		}
	}
	return out, nil
}

// from adds all keys of a ConfigMap or Secret.
func (e *Environment) from(s *corev1.EnvFromSource, out map[string]string) error {
	switch {
	case s.ConfigMapRef != nil:
		m, err := e.ConfigMap(s.ConfigMapRef.Name)
		if err != nil {
			return err
		}
		if m == nil {
			return missing(s.ConfigMapRef.Optional, "ConfigMap "+s.ConfigMapRef.Name)
		}
		for k, v := range m.Data {
			out[s.Prefix+k] = v
		}
	case s.SecretRef != nil:
		m, err := e.Secret(s.SecretRef.Name)
		if err != nil {
			return err
		}
		if m == nil {
			return missing(s.SecretRef.Optional, "Secret "+s.SecretRef.Name)
		}
		for k, v := range m.Data {
			out[s.Prefix+k] = string(v)
		}
	}
	return nil
}

// missing returns nil for an optional reference, otherwise an error.
func missing(optional *bool, what string) error {
	if optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("there is no %s", what)
}

func (e *Environment) valueFrom(s *corev1.EnvVarSource) (string, error) {
	switch {
	case s.FieldRef != nil:
		return e.Field(s.FieldRef)
	case s.ResourceFieldRef != nil:
		return e.Resource(s.ResourceFieldRef)
	case s.ConfigMapKeyRef != nil:
		r := s.ConfigMapKeyRef
		m, err := e.ConfigMap(r.Name)
		if err != nil {
			return "", err
		}
		if m != nil {
			if v, ok := m.Data[r.Key]; ok {
				return v, nil
			}
		}
		if err := missing(r.Optional, "key "+r.Key+" in ConfigMap "+r.Name); err != nil {
			return "", err
		}
		return "", errNoValue
	case s.SecretKeyRef != nil:
		r := s.SecretKeyRef
		m, err := e.Secret(r.Name)
		if err != nil {
			return "", err
		}
		if m != nil {
			if v, ok := m.Data[r.Key]; ok {
				return string(v), nil
			}
		}
		if err := missing(r.Optional, "key "+r.Key+" in Secret "+r.Name); err != nil {
			return "", err
		}
		return "", errNoValue
	}
	return "", errors.New("without a kubelet, only fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef can be resolved")
}

// Field returns a field of the pod as the downward API does.
// https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
func (e *Environment) Field(r *corev1.ObjectFieldSelector) (string, error) {
	p := e.Pod
	path, key := r.FieldPath, ""
	if i := strings.Index(path, "['"); i > 0 && strings.HasSuffix(path, "']") {
		path, key = path[:i], path[i+2:len(path)-2]
		switch path {
		case "metadata.labels":
			return p.Labels[key], nil
		case "metadata.annotations":
			return p.Annotations[key], nil
		}
		return "", fmt.Errorf("there is no field %s", r.FieldPath)
	}
	switch path {
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "metadata.labels":
		return lines(p.Labels), nil
	case "metadata.annotations":
		return lines(p.Annotations), nil
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return p.Status.HostIP, nil
	case "status.hostIPs":
		var all []string
		for _, a := range p.Status.HostIPs {
			all = append(all, a.IP)
		}
		return strings.Join(all, ","), nil
	case "status.podIP":
		return p.Status.PodIP, nil
	case "status.podIPs":
		var all []string
		for _, a := range p.Status.PodIPs {
			all = append(all, a.IP)
		}
		return strings.Join(all, ","), nil
	}
	return "", fmt.Errorf("there is no field %s", r.FieldPath)
}

// lines formats labels or annotations as the downward API does.
func lines(m map[string]string) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(k + "=" + strconv.Quote(m[k]))
	}
	return b.String()
}

// Resource returns a limit or request in units of its divisor, rounded up. If a limit is not set, it is the node's
// capacity.
func (e *Environment) Resource(r *corev1.ResourceFieldSelector) (string, error) {
	c := e.Container
	for i := range e.Pod.Spec.Containers {
		if r.ContainerName != "" && e.Pod.Spec.Containers[i].Name == r.ContainerName {
			c = &e.Pod.Spec.Containers[i]
		}
	}
	kind, name, _ := strings.Cut(r.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	q, ok := list[corev1.ResourceName(name)]
	if !ok && kind == "limits" && e.Node != nil {
		q = e.Node.Status.Allocatable[corev1.ResourceName(name)]
	}
	divisor := r.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	a, b := q.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		a, b = q.MilliValue(), divisor.MilliValue()
	}
	if b <= 0 {
		return "", fmt.Errorf("the divisor %s of %s", divisor.String(), r.Resource)
	}
	return strconv.FormatInt((a+b-1)/b, 10), nil
}

// expand replaces $(NAME) by the value of that variable, if there is one; $$ is $.
func expand(s string, vars map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				b.WriteByte('$')
				continue
			}
			name := s[i+2 : i+end]
			if v, ok := vars[name]; ok {
				b.WriteString(v)
			} else {
				b.WriteString(s[i : i+end+1])
			}
			i += end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

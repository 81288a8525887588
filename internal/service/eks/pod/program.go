package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/kube"
)

// ErrNotFound means that there is no pod with that name.
var ErrNotFound = errors.New("no such pod")

// A NotRunningError means that a pod, or one of its containers, is not running.
type NotRunningError struct{ Why string }

func (e *NotRunningError) Error() string { return e.Why }

// A NoContainerError names a container that a pod does not have.
type NoContainerError struct {
	Name string
	Have []string
}

func (e *NoContainerError) Error() string {
	return fmt.Sprintf("it has no container %s; it has %s", e.Name, strings.Join(e.Have, ", "))
}

// A Program is the environment that a program in a container sees.
type Program struct {
	Cluster, Account, Region, PlaneID string
	Pod                               *corev1.Pod
	Container                         string
	Containers                        []string // all of the pod's, except init containers
	Env                               map[string]string
	// Tokens are the pod's service account tokens. Files, by path, is the other content of volumes
	// that contain tokens.
	Tokens []Token
	Files  map[string][]byte
	// Mounts are the paths of those volumes.
	Mounts []string
}

// A Token is a file with a projected token of a service account.
type Token struct {
	Path     string
	Audience string // empty for the API server
	Seconds  int64
}

// annotationDefaultContainer names the default container, as for kubectl.
// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-default-container
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// PodProgram tells what a program has in a container of a running pod, in a cluster of
// the call's account and region. name may also be the pod's owner's, such as a Deployment's:
// then it is a pod that is ready, if there is one. No container means the annotated one, or
// the first.
func (s *Service) PodProgram(ctx context.Context, cluster, namespace, name, container string) (Program, error) {
	key, rec, ses, err := s.Session(ctx, cluster)
	if err != nil {
		return Program{}, err
	}
	out := Program{Cluster: cluster, Account: key.Account, Region: key.Region, PlaneID: rec.Plane.ID, Files: map[string][]byte{}}
	out.Pod, err = ses.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		out.Pod, err = bestOf(ctx, ses.Client, namespace, name)
	}
	if err != nil {
		return out, err
	}
	c, err := out.choose(container)
	if err != nil {
		return out, err
	}
	if err := out.running(); err != nil {
		return out, err
	}
	e := environmentOf(ctx, ses.Client, out.Pod, c)
	if e.Node, err = found(ses.Client.CoreV1().Nodes().Get(ctx, out.Pod.Spec.NodeName, metav1.GetOptions{})); err != nil {
		return out, err
	}
	if out.Env, err = e.Variables(); err != nil {
		return out, err
	}
	return out, out.volumes(e)
}

// bestOf is the pod of an owner in the best state.
func bestOf(ctx context.Context, client kubernetes.Interface, namespace, owner string) (*corev1.Pod, error) {
	maker, err := currentMaker(ctx, client, namespace, owner)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(ownedBy(list.Items, maker), func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded
	})
	if len(own) == 0 {
		return nil, ErrNotFound
	}
	return slices.MinFunc(own, compareBadness), nil
}

// environmentOf reads each ConfigMap and Secret every time it is referenced, since there are few.
func environmentOf(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, c *corev1.Container) *kube.Environment {
	return &kube.Environment{
		Pod: pod, Container: c,
		ConfigMap: func(name string) (*corev1.ConfigMap, error) {
			return found(client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, name, metav1.GetOptions{}))
		},
		Secret: func(name string) (*corev1.Secret, error) {
			return found(client.CoreV1().Secrets(pod.Namespace).Get(ctx, name, metav1.GetOptions{}))
		},
	}
}

// choose returns the named container or the default one.
func (p *Program) choose(name string) (*corev1.Container, error) {
	spec := &p.Pod.Spec
	for i := range spec.Containers {
		p.Containers = append(p.Containers, spec.Containers[i].Name)
	}
	p.Container = cmp.Or(name, p.Pod.Annotations[annotationDefaultContainer], p.Containers[0])
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Name == p.Container {
				return &list[i], nil
			}
		}
	}
	return nil, &NoContainerError{p.Container, p.Containers}
}

// running returns an error if the container is not running.
func (p *Program) running() error {
	st := &p.Pod.Status
	switch {
	case p.Pod.DeletionTimestamp != nil:
		return &NotRunningError{"it is being deleted"}
	case st.Phase != corev1.PodRunning:
		return &NotRunningError{"it is " + cmp.Or(string(st.Phase), string(corev1.PodPending))}
	}
	for i := range st.ContainerStatuses {
		c := &st.ContainerStatuses[i]
		if c.Name != p.Container || c.State.Running != nil {
			continue
		}
		if c.State.Terminated != nil {
			return &NotRunningError{"its container " + c.Name + " has ended"}
		}
		why := "its container " + c.Name + " is waiting"
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			why += ": " + w.Reason
		}
		return &NotRunningError{why}
	}
	return nil
}

// volumes records the container's volumes that contain tokens of its service account.
func (p *Program) volumes(e *kube.Environment) error {
	for i := range p.Pod.Spec.Volumes {
		v := &p.Pod.Spec.Volumes[i]
		if v.Projected == nil || !slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
			continue
		}
		for _, m := range e.Container.VolumeMounts {
			if m.Name != v.Name {
				continue
			}
			p.Mounts = append(p.Mounts, path.Clean(m.MountPath))
			for j := range v.Projected.Sources {
				if err := p.source(e, &v.Projected.Sources[j], &m); err != nil {
					return fmt.Errorf("volume %s: %w", v.Name, err)
				}
			}
		}
	}
	return nil
}

// source records the files that one source projects into a mounted volume.
func (p *Program) source(e *kube.Environment, s *corev1.VolumeProjection, m *corev1.VolumeMount) error {
	// at returns the container path of a file in the volume, or false if it is not mounted.
	at := func(file string) (string, bool) {
		switch sub := path.Clean(m.SubPath); {
		case m.SubPath == "":
			return path.Join(m.MountPath, file), true
		case sub == path.Clean(file):
			return path.Clean(m.MountPath), true
		default:
			rest, ok := strings.CutPrefix(path.Clean(file), sub+"/")
			return path.Join(m.MountPath, rest), ok
		}
	}
	add := func(data map[string][]byte, items []corev1.KeyToPath) {
		if len(items) == 0 {
			for _, k := range slices.Sorted(maps.Keys(data)) {
				items = append(items, corev1.KeyToPath{Key: k, Path: k})
			}
		}
		for _, i := range items {
			if f, ok := at(i.Path); ok && data[i.Key] != nil {
				p.Files[f] = data[i.Key]
			}
		}
	}
	switch {
	case s.ServiceAccountToken != nil:
		if f, ok := at(s.ServiceAccountToken.Path); ok {
			t := Token{Path: f, Audience: s.ServiceAccountToken.Audience, Seconds: 3600}
			if n := s.ServiceAccountToken.ExpirationSeconds; n != nil {
				t.Seconds = *n
			}
			p.Tokens = append(p.Tokens, t)
		}
	case s.ConfigMap != nil:
		c, err := e.ConfigMap(s.ConfigMap.Name)
		if err != nil || c == nil {
			return err // a running pod had it when it started, so it was deleted since
		}
		data := maps.Clone(c.BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for k, v := range c.Data {
			data[k] = []byte(v)
		}
		add(data, s.ConfigMap.Items)
	case s.Secret != nil:
		c, err := e.Secret(s.Secret.Name)
		if err != nil || c == nil {
			return err
		}
		add(c.Data, s.Secret.Items)
	case s.DownwardAPI != nil:
		for _, i := range s.DownwardAPI.Items {
			var v string
			var err error
			if i.FieldRef != nil {
				v, err = e.Field(i.FieldRef)
			} else {
				v, err = e.Resource(i.ResourceFieldRef)
			}
			if err != nil {
				return err
			}
			if f, ok := at(i.Path); ok {
				p.Files[f] = []byte(v)
			}
		}
	}
	return nil
}

// IssuePodToken requests a token bound to the pod, as the kubelet does.
func (s *Service) IssuePodToken(ctx context.Context, p *Program, t Token) (token string, expires time.Time, err error) {
	ses, err := s.Sessions.Get(p.PlaneID)
	if err != nil {
		return "", time.Time{}, err
	}
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &t.Seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Pod.Name, UID: p.Pod.UID},
	}}
	if t.Audience != "" {
		req.Spec.Audiences = []string{t.Audience}
	}
	account := cmp.Or(p.Pod.Spec.ServiceAccountName, "default")
	out, err := ses.Client.CoreV1().ServiceAccounts(p.Pod.Namespace).CreateToken(ctx, account, req, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("a token of the service account %s/%s: %w", p.Pod.Namespace, account, err)
	}
	return out.Status.Token, out.Status.ExpirationTimestamp.Time, nil
}

// labelPodIdentityAgent labels the add-on's pods.
const labelPodIdentityAgent = "app.kubernetes.io/name=eks-pod-identity-agent"

// PodIdentityAgentRuns reports whether the EKS Pod Identity Agent runs on a node.
func (s *Service) PodIdentityAgentRuns(ctx context.Context, planeID, nodeName string) (bool, error) {
	ses, err := s.Sessions.Get(planeID)
	if err != nil {
		return false, err
	}
	pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		LabelSelector: labelPodIdentityAgent, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", nodeName).String(),
	})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName == nodeName && kube.PodReady(&p) && p.DeletionTimestamp == nil
	}), nil
}

// PodNames are the pods of a cluster of the call's account and region and their owners, as
// NAMESPACE/NAME, at most so many pods: those that run, or all.
func (s *Service) PodNames(ctx context.Context, cluster string, running bool, most int64) ([]string, error) {
	_, _, ses, err := s.Session(ctx, cluster)
	if err != nil {
		return nil, err
	}
	which := metav1.ListOptions{Limit: most}
	deployments, err := ses.Client.AppsV1().Deployments("").List(ctx, which)
	if err != nil {
		return nil, err
	}
	if running {
		which.FieldSelector = "status.phase=Running"
	}
	pods, err := ses.Client.CoreV1().Pods("").List(ctx, which)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range deployments.Items {
		if d := &deployments.Items[i]; !running || d.Status.AvailableReplicas > 0 {
			out = append(out, d.Namespace+"/"+d.Name)
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		out = append(out, p.Namespace+"/"+p.Name)
		if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind != "ReplicaSet" {
			out = append(out, p.Namespace+"/"+owner.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

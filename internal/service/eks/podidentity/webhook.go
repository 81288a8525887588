package podidentity

import (
	"context"
	"encoding/csv"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/service/eks/jsonpatch"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Annotations of the pod identity webhook: on service accounts and, for the last two, on pods.
// https://github.com/aws/amazon-eks-pod-identity-webhook#readme
const (
	AnnotationRole           = "eks.amazonaws.com/role-arn"
	annotationAudience       = "eks.amazonaws.com/audience"
	annotationRegionalSTS    = "eks.amazonaws.com/sts-regional-endpoints"
	annotationExpiration     = "eks.amazonaws.com/token-expiration"
	annotationSkipContainers = "eks.amazonaws.com/skip-containers"
	// labelSkipIdentity on a pod makes the webhook leave it unchanged.
	labelSkipIdentity = "eks.amazonaws.com/skip-pod-identity-webhook"
)

const (
	stsAudience       = "sts.amazonaws.com"
	agentAudience     = trustedService
	agentCredentials  = "http://169.254.170.23/v1/credentials"
	defaultExpiration = 86400
	minExpiration     = 600 // the API server's own limit
)

// An injection is what the webhook adds to a pod: a projected token of its service account, and the
// environment variables that SDKs look for.
type injection struct {
	volume, mountPath, file string
	audience                string
	expiration              int64
	regionalSTS             bool
	region, endpoint        string
	skip                    map[string]bool // names of containers
	// label reports whether to label pods, as EKS Pod Identity does.
	label bool
	// env returns the variables that say where the credentials are. If a container already sets one
	// of them, none is added.
	env func(tokenFile string) []corev1.EnvVar
}

// MutatePod returns the JSON patch that EKS's pod identity webhook would make to a new pod,
// including the order of variables, or nil if it changes nothing. A Pod Identity association takes
// precedence over the service account's annotations.
//
// AWS deviation: AWS_ENDPOINT_URL comes last, so that SDKs in the pod call Drydock. It is set a
// second time for STS, because the web identity provider of the SDK for Go (config v1.33) creates
// its STS client before reading the general variable. Both use plain http, which needs no CA
// bundle.
func (s *Service) MutatePod(ctx context.Context, planeID, namespace string, pod *corev1.Pod) ([]byte, error) {
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return nil, nil // the control plane belongs to no cluster yet, so the pod is part of the control plane itself
	}
	ops, err := s.identify(ctx, key, rec.Plane.ID, namespace, pod)
	return jsonpatch.Encode(ops, err)
}

// identify gives a pod the identity of its service account.
func (s *Service) identify(ctx context.Context, key store.Key, planeID, namespace string, pod *corev1.Pod) ([]jsonpatch.Operation, error) {
	account := pod.Spec.ServiceAccountName
	if _, skip := pod.Labels[labelSkipIdentity]; account == "" || skip {
		return nil, nil
	}
	ses, err := s.runningSession(ctx, key, planeID)
	if err != nil {
		return nil, err
	}
	annotations, err := plane.Value(ses, newAccountReads).annotations(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	_, err = record.PodIdentities.Get(s.Store, record.PodIdentityKey(key, namespace, account))
	t := tokenOf(annotations, err == nil)
	if t == nil {
		return nil, nil
	}
	t.region, t.endpoint = key.Region, s.EndpointURL
	t.readPod(pod)
	return t.patch(pod), nil
}

// runningSession waits for Run. After a restart, control planes create pods as soon as they are up,
// and a pod created without its identity would never get it.
func (s *Service) runningSession(ctx context.Context, cluster store.Key, planeID string) (*plane.Session, error) {
	select {
	case <-ctx.Done():
		return nil, plane.ErrNotRunning
	case <-s.Sessions.Running():
		return s.Sessions.Open(cluster, planeID)
	}
}

// tokenOf returns the injection that a service account's annotations ask for.
func tokenOf(annotations map[string]string, associated bool) *injection {
	t := &injection{regionalSTS: true, expiration: expirationOf(annotations, defaultExpiration)}
	if b, err := strconv.ParseBool(annotations[annotationRegionalSTS]); err == nil {
		t.regionalSTS = b
	}
	role := annotations[AnnotationRole]
	switch {
	case associated:
		t.volume, t.file, t.label = "eks-pod-identity-token", "eks-pod-identity-token", true
		t.mountPath, t.audience = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount", agentAudience
		t.env = func(file string) []corev1.EnvVar {
			return []corev1.EnvVar{
				{Name: "AWS_CONTAINER_CREDENTIALS_FULL_URI", Value: agentCredentials},
				{Name: "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", Value: file},
			}
		}
	case role != "":
		t.volume, t.file = "aws-iam-token", "token"
		t.mountPath, t.audience = "/var/run/secrets/eks.amazonaws.com/serviceaccount", stsAudience
		if a, ok := annotations[annotationAudience]; ok {
			t.audience = a
		}
		t.env = func(file string) []corev1.EnvVar {
			return []corev1.EnvVar{{Name: "AWS_ROLE_ARN", Value: role}, {Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: file}}
		}
	default:
		return nil
	}
	return t
}

// expirationOf returns the annotated expiration if it is a number, but not less than minExpiration.
func expirationOf(annotations map[string]string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(annotations[annotationExpiration], 10, 64); err == nil {
		return max(n, minExpiration)
	}
	return otherwise
}

// readPod reads the pod's own annotations, which take precedence over the service account's.
func (t *injection) readPod(pod *corev1.Pod) {
	t.expiration = expirationOf(pod.Annotations, t.expiration)
	if list, ok := pod.Annotations[annotationSkipContainers]; ok {
		names, _ := csv.NewReader(strings.NewReader(list)).Read() // a list that cannot be parsed skips none
		t.skip = map[string]bool{}
		for _, n := range names {
			t.skip[n] = true
		}
	}
}

func (t *injection) patch(pod *corev1.Pod) []jsonpatch.Operation {
	file := path.Join(t.mountPath, t.file)
	if pod.Spec.NodeSelector[corev1.LabelOSStable] == "windows" || pod.Spec.NodeSelector["beta.kubernetes.io/os"] == "windows" {
		file = `C:` + strings.ReplaceAll(file, "/", `\`)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if c := &containers[i]; !t.skip[c.Name] {
				t.inject(c, file)
			}
		}
	}
	ops := t.labels(pod)
	if !hasVolume(pod.Spec.Volumes, t.volume) {
		v := t.projected()
		if pod.Spec.Volumes == nil {
			ops = append(ops, jsonpatch.Add("/spec/volumes", []corev1.Volume{v}))
		} else {
			ops = append(ops, jsonpatch.Add("/spec/volumes/0", v))
		}
	}
	ops = append(ops, jsonpatch.Add("/spec/containers", pod.Spec.Containers))
	if len(pod.Spec.InitContainers) > 0 {
		ops = append(ops, jsonpatch.Add("/spec/initContainers", pod.Spec.InitContainers))
	}
	return ops
}

func (t *injection) labels(pod *corev1.Pod) []jsonpatch.Operation {
	if !t.label {
		return nil
	}
	return []jsonpatch.Operation{jsonpatch.SetEntry("/metadata/labels", &pod.Labels, "eks.amazonaws.com/pod-identity", "enabled")}
}

// inject adds to a container what it lacks: the volume mount, and each group of variables of which
// it sets none.
func (t *injection) inject(c *corev1.Container, file string) {
	var groups [][]corev1.EnvVar
	if t.regionalSTS {
		groups = append(groups, []corev1.EnvVar{{Name: "AWS_STS_REGIONAL_ENDPOINTS", Value: "regional"}})
	}
	groups = append(groups,
		[]corev1.EnvVar{{Name: "AWS_DEFAULT_REGION", Value: t.region}, {Name: "AWS_REGION", Value: t.region}},
		t.env(file))
	if t.endpoint != "" {
		groups = append(groups, []corev1.EnvVar{{Name: "AWS_ENDPOINT_URL", Value: t.endpoint}, {Name: "AWS_ENDPOINT_URL_STS", Value: t.endpoint}})
	}
	own := c.Env
	for _, g := range groups {
		if !slices.ContainsFunc(own, func(e corev1.EnvVar) bool {
			return slices.ContainsFunc(g, func(o corev1.EnvVar) bool { return o.Name == e.Name })
		}) {
			c.Env = append(c.Env, g...)
		}
	}
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == t.volume }) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: t.volume, ReadOnly: true, MountPath: t.mountPath})
	}
}

func (t *injection) projected() corev1.Volume {
	return corev1.Volume{Name: t.volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: t.audience, ExpirationSeconds: &t.expiration, Path: t.file,
		}}},
	}}}
}

func hasVolume(volumes []corev1.Volume, name string) bool {
	return slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// accountReads reads the annotations of service accounts for pods that are being created. An answer
// always comes from a read that began after the question, so that a pod created right after
// `kubectl annotate` sees the change. Pods created at the same time, such as those of a Deployment,
// share reads.
type accountReads struct {
	ses *plane.Session

	mu    sync.Mutex
	reads map[string]*accountRead // by NAMESPACE/NAME
}

// An accountRead is the read in progress for one service account, and the next read, for callers
// that arrived after it began.
type accountRead struct {
	next *accountAnswer // nil if no caller is waiting
}

type accountAnswer struct {
	done        chan struct{}
	annotations map[string]string
	err         error
}

func newAccountReads(ses *plane.Session) *accountReads {
	return &accountReads{ses: ses, reads: map[string]*accountRead{}}
}

// annotations returns a service account's annotations, or none if it does not exist.
func (a *accountReads) annotations(ctx context.Context, namespace, name string) (map[string]string, error) {
	key := namespace + "/" + name
	a.mu.Lock()
	r := a.reads[key]
	begin := r == nil
	if begin {
		r = &accountRead{}
		a.reads[key] = r
	}
	if r.next == nil {
		r.next = &accountAnswer{done: make(chan struct{})}
	}
	answer := r.next
	a.mu.Unlock()
	if begin {
		go a.read(namespace, name, r) // ends when no caller is waiting; the session's context ends a read
	}
	select {
	case <-answer.done:
		return answer.annotations, answer.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads until no more callers are waiting.
func (a *accountReads) read(namespace, name string, r *accountRead) {
	for {
		a.mu.Lock()
		answer := r.next
		r.next = nil
		if answer == nil {
			delete(a.reads, namespace+"/"+name)
		}
		a.mu.Unlock()
		if answer == nil {
			return
		}
		sa, err := a.ses.Client.CoreV1().ServiceAccounts(namespace).Get(a.ses.Context, name, metav1.GetOptions{})
		switch {
		case err == nil:
			answer.annotations = sa.Annotations
		case !apierrors.IsNotFound(err):
			answer.err = fmt.Errorf("service account %s/%s: %w", namespace, name, err)
		}
		close(answer.done)
	}
}

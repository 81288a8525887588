package eks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A mutated pod, with the fields that the webhook may change. A container's variables are written
// NAME=VALUE.
type mutated struct {
	Ops    []string
	Volume corev1.Volume
	Env    map[string][]string
	Mounts map[string][]string
}

func decodePatch(t *testing.T, patch []byte) mutated {
	t.Helper()
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &ops); err != nil {
		t.Fatal(err)
	}
	m := mutated{Env: map[string][]string{}, Mounts: map[string][]string{}}
	for _, o := range ops {
		m.Ops = append(m.Ops, o.Op+" "+o.Path)
		var err error
		var containers []corev1.Container
		switch {
		case o.Path == "/spec/volumes/0":
			err = json.Unmarshal(o.Value, &m.Volume)
		case strings.HasSuffix(o.Path, "ontainers"):
			err = json.Unmarshal(o.Value, &containers)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			for _, e := range c.Env {
				m.Env[c.Name] = append(m.Env[c.Name], e.Name+"="+e.Value)
			}
			for _, v := range c.VolumeMounts {
				m.Mounts[c.Name] = append(m.Mounts[c.Name], v.Name+" "+v.MountPath)
			}
		}
	}
	return m
}

const (
	tokenFile = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
	podFile   = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
)

// The real webhook's behavior is shown by its tests and their pods:
// https://github.com/aws/amazon-eks-pod-identity-webhook/tree/master/pkg/handler
func TestMutatePod(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.associate("shop", "associated")
	plane, cs := w.planes.only()
	role := w.arn("role/pod")
	for name, annotations := range map[string]map[string]string{
		"plain":      nil,
		"empty":      {"eks.amazonaws.com/role-arn": ""},
		"cart":       {"eks.amazonaws.com/role-arn": role},
		"associated": {"eks.amazonaws.com/role-arn": role, "eks.amazonaws.com/audience": "mine"},
		"tuned": {"eks.amazonaws.com/role-arn": role, "eks.amazonaws.com/audience": "mine", "eks.amazonaws.com/token-expiration": "10",
			"eks.amazonaws.com/sts-regional-endpoints": "false"},
		"hostile": {"eks.amazonaws.com/role-arn": role, "eks.amazonaws.com/token-expiration": "99999999999999999999", "eks.amazonaws.com/sts-regional-endpoints": "maybe"},
	} {
		_, err := cs.CoreV1().ServiceAccounts("shop").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	token := func(name, file, audience string, seconds int64) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds, Path: file}},
		}}}}
	}
	sts, region := "AWS_STS_REGIONAL_ENDPOINTS=regional", []string{"AWS_DEFAULT_REGION=us-east-1", "AWS_REGION=us-east-1"}
	web := []string{"AWS_ROLE_ARN=" + role, "AWS_WEB_IDENTITY_TOKEN_FILE=" + tokenFile + "/token"}
	endpoint := []string{"AWS_ENDPOINT_URL=http://127.0.0.1:4566", "AWS_ENDPOINT_URL_STS=http://127.0.0.1:4566"}
	list := func(parts ...any) (out []string) {
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				out = append(out, p)
			case []string:
				out = append(out, p...)
			}
		}
		return out
	}
	env := func(kv ...string) (out []corev1.EnvVar) {
		for _, s := range kv {
			k, v, _ := strings.Cut(s, "=")
			out = append(out, corev1.EnvVar{Name: k, Value: v})
		}
		return out
	}
	usual := []string{"add /spec/volumes/0", "add /spec/containers"}
	mount := map[string][]string{"app": {"aws-iam-token " + tokenFile}}
	standard := mutated{
		Ops: usual, Volume: token("aws-iam-token", "token", "sts.amazonaws.com", 86400),
		Env: map[string][]string{"app": list(sts, region, web, endpoint)}, Mounts: mount,
	}
	for _, tt := range []struct {
		name, account string
		change        func(*corev1.Pod)
		want          *mutated // nil if there is no patch
	}{
		{"no role", "plain", nil, nil},
		{"an empty role", "empty", nil, nil},
		{"no such service account", "none", nil, nil},
		{"no service account", "", nil, nil},
		{"a role", "cart", nil, &standard},
		{"numbers and words out of bounds", "hostile", nil, &standard},
		{"all annotations", "tuned", nil, &mutated{
			Ops: usual, Volume: token("aws-iam-token", "token", "mine", 600), Env: map[string][]string{"app": list(region, web, endpoint)}, Mounts: mount,
		}},
		{"the pod's expiration wins", "tuned", func(p *corev1.Pod) { p.Annotations = map[string]string{"eks.amazonaws.com/token-expiration": "3600"} }, &mutated{
			Ops: usual, Volume: token("aws-iam-token", "token", "mine", 3600), Env: map[string][]string{"app": list(region, web, endpoint)}, Mounts: mount,
		}},
		{"no volumes yet", "cart", func(p *corev1.Pod) { p.Spec.Volumes = nil }, &mutated{
			Ops: []string{"add /spec/volumes", "add /spec/containers"}, Env: standard.Env, Mounts: mount,
		}},
		{"the volume is there", "cart", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "aws-iam-token"}} }, &mutated{
			Ops: []string{"add /spec/containers"}, Env: standard.Env, Mounts: mount,
		}},
		{"the mount is there", "cart", func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "aws-iam-token", MountPath: "/mine"}}
		}, &mutated{Ops: usual, Volume: standard.Volume, Env: standard.Env, Mounts: map[string][]string{"app": {"aws-iam-token /mine"}}}},
		{"one variable keeps its group", "cart", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = env("AWS_ROLE_ARN=mine", "AWS_REGION=eu-west-1", "AWS_ENDPOINT_URL=http://elsewhere")
		}, &mutated{
			Ops: usual, Volume: standard.Volume, Mounts: mount,
			Env: map[string][]string{"app": {"AWS_ROLE_ARN=mine", "AWS_REGION=eu-west-1", "AWS_ENDPOINT_URL=http://elsewhere", sts}},
		}},
		{"init containers, and one that is skipped", "cart", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"eks.amazonaws.com/skip-containers": "side,other"}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "side"})
			p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		}, &mutated{
			Ops: append(usual[:2:2], "add /spec/initContainers"), Volume: standard.Volume,
			Env:    map[string][]string{"app": standard.Env["app"], "init": standard.Env["app"]},
			Mounts: map[string][]string{"app": mount["app"], "init": mount["app"]},
		}},
		{"a list that cannot be read skips none", "cart", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"eks.amazonaws.com/skip-containers": `"app`}
		}, &standard},
		{"windows", "cart", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} }, &mutated{
			Ops: usual, Volume: standard.Volume, Mounts: mount,
			Env: map[string][]string{"app": list(sts, region, web[0], `AWS_WEB_IDENTITY_TOKEN_FILE=C:\var\run\secrets\eks.amazonaws.com\serviceaccount\token`, endpoint)},
		}},
		{"an association goes before the annotation", "associated", nil, &mutated{
			Ops: append([]string{"add /metadata/labels"}, usual...), Volume: token("eks-pod-identity-token", "eks-pod-identity-token", podsService, 86400),
			Env: map[string][]string{"app": list(sts, region, "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials",
				"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="+podFile+"/eks-pod-identity-token", endpoint)},
			Mounts: map[string][]string{"app": {"eks-pod-identity-token " + podFile}},
		}},
		{"an association of a pod with labels", "associated", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, &mutated{
			Ops: append([]string{"add /metadata/labels/eks.amazonaws.com~1pod-identity"}, usual...), Volume: token("eks-pod-identity-token", "eks-pod-identity-token", podsService, 86400),
			Env: map[string][]string{"app": list(sts, region, "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials",
				"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="+podFile+"/eks-pod-identity-token", endpoint)},
			Mounts: map[string][]string{"app": {"eks-pod-identity-token " + podFile}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				ServiceAccountName: tt.account, Containers: []corev1.Container{{Name: "app"}}, Volumes: []corev1.Volume{{Name: "kube-api-access-x"}},
			}}
			if tt.change != nil {
				tt.change(pod)
			}
			patch, err := w.svc.MutatePod(t.Context(), plane.ID, "shop", pod)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == nil {
				if patch != nil {
					t.Fatalf("patch %s, want none", patch)
				}
				return
			}
			if diff := cmp.Diff(*tt.want, decodePatch(t, patch)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("while the service starts", func(t *testing.T) {
		w.stop()
		got := make(chan error, 1)
		go func() {
			patch, err := w.svc.MutatePod(t.Context(), plane.ID, "shop", &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "cart"}})
			if err == nil && patch == nil {
				err = errors.New("no patch")
			}
			got <- err
		}()
		w.start()
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
	t.Run("a control plane of no cluster", func(t *testing.T) {
		if patch, err := w.svc.MutatePod(t.Context(), "0", "shop", &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "cart"}}); patch != nil || err != nil {
			t.Errorf("%s, %v", patch, err)
		}
	})
}

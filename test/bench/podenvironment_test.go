package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// podEnvironment waits until a pod is Running and returns the environment of its first container, as a kubelet would
// make it. drydock run does that in another process, whose start should not be measured. The service account tokens
// are written below dir, and paths in the environment that refer to them point there.
func podEnvironment(ctx context.Context, client kubernetes.Interface, namespace, name, dir string) (map[string]string, error) {
	var pod *corev1.Pod
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for pod %s/%s: %w", namespace, name, err)
	}
	container := pod.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, m := range container.VolumeMounts {
			if m.Name != v.Name {
				continue
			}
			for _, source := range v.Projected.Sources {
				if t := source.ServiceAccountToken; t != nil {
					if err := writeToken(ctx, client, pod, t, filepath.Join(dir, m.MountPath)); err != nil {
						return nil, err
					}
				}
			}
			for k, value := range env {
				if strings.HasPrefix(value, m.MountPath+"/") {
					env[k] = filepath.Join(dir, value)
				}
			}
		}
	}
	return env, nil
}

// writeToken asks for a token as the kubelet does: bound to the pod.
func writeToken(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, t *corev1.ServiceAccountTokenProjection, dir string) error {
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: t.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if t.Audience != "" {
		req.Spec.Audiences = []string{t.Audience}
	}
	out, err := client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, req, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("a token for pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, t.Path), []byte(out.Status.Token), 0o600)
}

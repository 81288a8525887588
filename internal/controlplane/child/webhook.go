package child

import (
	"context"
	"encoding/json"
	"os"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// ensurePodIdentityWebhook puts the pod identity webhook's configuration into the
// cluster, and its address of this run into one of an earlier run. It is done
// before anybody is told of the cluster: no pod comes before it.
func ensurePodIdentityWebhook(ctx context.Context, cfg launch.Config, loopback *rest.Config) error {
	b, err := os.ReadFile(launch.Files(cfg.Dir).PodIdentityWebhook())
	if err != nil {
		return err
	}
	var want admissionregistrationv1.MutatingWebhookConfiguration
	if err := json.Unmarshal(b, &want); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return err
	}
	webhooks := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err = webhooks.Create(ctx, &want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := webhooks.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	have.Webhooks = want.Webhooks
	_, err = webhooks.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

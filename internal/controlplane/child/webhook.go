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

// ensureWebhooks creates the pod identity webhook's configuration in the cluster. In what an earlier run left it
// updates the daemon's address. Fargate's configuration is created with the first profile. This happens before the
// cluster is announced, so that no pod is created earlier.
func ensureWebhooks(ctx context.Context, cfg launch.Config, loopback *rest.Config) error {
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return err
	}
	files := launch.Files(cfg.Dir)
	if err := updateWebhook(ctx, client, files.FargateWebhook()); !apierrors.IsNotFound(err) && err != nil {
		return err
	}
	identity, err := readWebhook(files.PodIdentityWebhook())
	if err != nil {
		return err
	}
	_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, identity, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return updateWebhook(ctx, client, files.PodIdentityWebhook())
	}
	return err
}

func readWebhook(file string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w := new(admissionregistrationv1.MutatingWebhookConfiguration)
	return w, json.Unmarshal(b, w)
}

// updateWebhook brings an existing configuration up to date.
func updateWebhook(ctx context.Context, client kubernetes.Interface, file string) error {
	want, err := readWebhook(file)
	if err != nil {
		return err
	}
	webhooks := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	have, err := webhooks.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	have.Webhooks = want.Webhooks
	_, err = webhooks.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// A daemonClient calls the daemon's webhook server.
type daemonClient struct {
	client *http.Client
	url    string
}

// newDaemonClient returns a client that presents the certificate of the plane's webhooks.
func newDaemonClient(cfg launch.Config) (*daemonClient, error) {
	webhook, err := clientcmd.BuildConfigFromFlags("", launch.Files(cfg.Dir).TokenWebhook())
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(webhook.Host)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(webhook)
	if err != nil {
		return nil, err
	}
	return &daemonClient{client: client, url: "https://" + u.Host}, nil
}

// call posts message to path and decodes the response into message. within is the timeout.
func (d *daemonClient) call(ctx context.Context, path string, within time.Duration, message any) error {
	return d.ask(ctx, path, within, message, message)
}

// ask is call with an answer that is not the message: what the message shares with others does not change.
func (d *daemonClient) ask(ctx context.Context, path string, within time.Duration, message, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answered %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

package awscli

import (
	"context"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/clustertoken"
)

// clusterToken implements aws eks get-token.
// https://github.com/aws/aws-cli/blob/v2/awscli/customizations/eks/get_token.py
func (c *command) clusterToken(ctx context.Context, words []string) error {
	cluster := ""
	for len(words) > 0 {
		name, value, given := strings.Cut(words[0], "=")
		if words = words[1:]; !given && len(words) > 0 {
			value, words = words[0], words[1:]
		}
		if name != "--cluster-name" && name != "--cluster-id" {
			return unsupported("aws eks get-token " + name)
		}
		cluster = value
	}
	if cluster == "" {
		return &failure{status: statusUsage, text: "\nEither parameter --cluster-name or --cluster-id must be specified."}
	}
	region, err := c.region(ctx)
	if err != nil {
		return err
	}
	creds, err := c.credentials(ctx)
	if err != nil {
		return err
	}
	now := c.Now()
	token, err := clustertoken.New(ctx, creds, region, cluster, now)
	if err != nil {
		return err
	}
	return c.print(map[string]any{
		"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": map[string]any{},
		"status": map[string]any{"expirationTimestamp": now.Add(14 * time.Minute).UTC().Format(time.RFC3339), "token": token},
	})
}

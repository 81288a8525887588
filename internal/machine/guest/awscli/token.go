package awscli

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// emptySHA256 is the hash of the empty body of a GET.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// ClusterToken makes a token for a cluster: a presigned call of STS GetCallerIdentity.
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
func ClusterToken(ctx context.Context, creds aws.Credentials, region, cluster string, now time.Time) (string, error) {
	suffix := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		suffix = "amazonaws.com.cn"
	}
	url := "https://sts." + region + "." + suffix + "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("presigning a token: %w", err)
	}
	req.Header.Set("x-k8s-aws-id", cluster)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, creds, req, emptySHA256, "sts", region, now)
	if err != nil {
		return "", fmt.Errorf("presigning a token: %w", err)
	}
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(signed)), nil
}

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
	token, err := ClusterToken(ctx, creds, region, cluster, now)
	if err != nil {
		return err
	}
	return c.print(map[string]any{
		"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": map[string]any{},
		"status": map[string]any{"expirationTimestamp": now.Add(14 * time.Minute).UTC().Format(time.RFC3339), "token": token},
	})
}

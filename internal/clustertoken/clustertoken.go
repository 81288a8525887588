// Package clustertoken makes the bearer tokens with which IAM principals authenticate to the API servers of EKS clusters.
package clustertoken

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

// New makes a token for a cluster: a presigned call of STS GetCallerIdentity, which is not sent.
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
func New(ctx context.Context, creds aws.Credentials, region, cluster string, now time.Time) (string, error) {
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

package simulated

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"k8s.io/utils/clock"
)

const (
	tokenPrefix = "k8s-aws-v1."
	// tokenLife is how long a token is used. The cluster accepts it for 15 minutes after its date;
	// aws-iam-authenticator's clients renew it after 14.
	tokenLife = 13 * time.Minute
	// emptySHA256 is the hash of the empty body of a GET.
	emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// identity makes the bearer tokens with which one instance authenticates to its cluster: presigned calls of STS
// GetCallerIdentity, signed with the credentials of the instance's role, as aws-iam-authenticator on the node makes
// them.
type identity struct {
	cluster     string
	region      string
	clock       clock.PassiveClock
	credentials func(context.Context) (aws.Credentials, error)

	mu      sync.Mutex
	token   string
	renewAt time.Time
}

// bearer returns a token that is valid for at least another minute.
func (id *identity) bearer(ctx context.Context) (string, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	now := id.clock.Now()
	if id.token != "" && now.Before(id.renewAt) {
		return id.token, nil
	}
	creds, err := id.credentials(ctx)
	if err != nil {
		return "", &credentialsError{err}
	}
	token, err := presign(ctx, creds, id.region, id.cluster, now)
	if err != nil {
		return "", &credentialsError{err}
	}
	// Nodes that booted together should not renew together.
	renewAt := now.Add(tokenLife - rand.N(time.Minute))
	if creds.CanExpire && creds.Expires.Before(renewAt) {
		renewAt = creds.Expires
	}
	id.token, id.renewAt = token, renewAt
	return token, nil
}

// reject drops a token that the cluster did not accept.
func (id *identity) reject() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.token = ""
}

// credentialsError says that an instance has no credentials.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string {
	return "getting instance role credentials: " + e.err.Error()
}
func (e *credentialsError) Unwrap() error { return e.err }

// presign makes one token.
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
func presign(ctx context.Context, creds aws.Credentials, region, cluster string, now time.Time) (string, error) {
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
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed)), nil
}

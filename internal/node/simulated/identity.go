package simulated

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/clustertoken"
)

// tokenLife is how long a token is used. The cluster accepts it for 15 minutes after its date; aws-iam-authenticator's
// clients renew it after 14.
const tokenLife = 13 * time.Minute

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
	token, err := clustertoken.New(ctx, creds, id.region, id.cluster, now)
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

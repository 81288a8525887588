package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
)

const (
	// tryTimeout is how long EKS waits for KMS when it looks whether a key works.
	tryTimeout = 5 * time.Second
	// maxKeyClients bounds the sessions of cluster roles that are kept.
	maxKeyClients = 256
)

// clusterKeys are the KMS keys of clusters: EKS asks about them, and control planes
// encrypt with them. The latter call KMS by the front door, as the role of their
// cluster, so that policies and grants decide and CloudTrail knows.
type clusterKeys struct {
	awscall.KMS // as the user who called EKS
	d           *daemon
	http        *http.Client

	mu      sync.Mutex
	clients map[string]*awskms.Client // by cluster, role and region
}

var (
	_ eks.Keys         = (*clusterKeys)(nil)
	_ controlplane.KMS = planeKeys{}
)

func newClusterKeys(d *daemon) *clusterKeys {
	return &clusterKeys{KMS: awscall.KMS{API: d.server}, d: d, clients: map[string]*awskms.Client{}, http: &http.Client{Transport: &http.Transport{
		Proxy:             func(*http.Request) (*url.URL, error) { return nil, nil }, // the daemon itself
		DisableKeepAlives: true,                                                      // calls are rare
	}}}
}

// Try implements eks.Keys.
func (k *clusterKeys) Try(ctx context.Context, clusterARN, roleARN, keyARN string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	key, err := arn.Parse(keyARN)
	if err != nil {
		return err
	}
	return k.call(clusterARN, roleARN, key.Region, func(c *awskms.Client) error {
		sealed, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &keyARN, Plaintext: []byte("health")})
		if err == nil {
			_, err = c.Decrypt(ctx, &awskms.DecryptInput{KeyId: &keyARN, CiphertextBlob: sealed.CiphertextBlob})
		}
		return err
	})
}

// planeKeys are the same keys as control planes use them.
type planeKeys struct {
	keys   *clusterKeys
	planes *controlplane.Manager
	eks    *eks.Service
}

// Encrypt implements controlplane.KMS.
func (k planeKeys) Encrypt(ctx context.Context, planeID, keyARN string, plaintext []byte) ([]byte, error) {
	var sealed []byte
	err := k.asPlane(ctx, planeID, func(c *awskms.Client) error {
		out, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &keyARN, Plaintext: plaintext})
		if err == nil {
			sealed = out.CiphertextBlob
		}
		return err
	})
	return sealed, err
}

// Decrypt implements controlplane.KMS.
func (k planeKeys) Decrypt(ctx context.Context, planeID, keyARN string, ciphertext []byte) ([]byte, error) {
	var plaintext []byte
	err := k.asPlane(ctx, planeID, func(c *awskms.Client) error {
		out, err := c.Decrypt(ctx, &awskms.DecryptInput{KeyId: &keyARN, CiphertextBlob: ciphertext})
		if err == nil {
			plaintext = out.Plaintext
		}
		return err
	})
	return plaintext, err
}

// asPlane calls KMS as the role of a control plane's cluster.
func (k planeKeys) asPlane(ctx context.Context, planeID string, fn func(*awskms.Client) error) error {
	p, err := k.planes.Get(planeID)
	if err != nil {
		return err
	}
	cluster, role, err := k.eks.ClusterRole(p.Key.Account, p.Key.Region, p.Key.Name)
	if err != nil {
		return err
	}
	return k.keys.call(cluster, role, p.Key.Region, fn)
}

// staleSession are the answers to credentials that are no good any more: a reset
// takes sessions away before their time.
var staleSession = []string{"UnrecognizedClientException", "InvalidClientTokenId", "ExpiredTokenException", "InvalidSignatureException"}

// call calls KMS with a session of a cluster's role, which is kept while it works.
func (k *clusterKeys) call(cluster, role, region string, fn func(*awskms.Client) error) error {
	name := cluster + " " + role + " " + region
	for again := true; ; again = false {
		client, fresh := k.client(name, cluster, role, region)
		err := fn(client)
		var refused smithy.APIError
		if again && !fresh && errors.As(err, &refused) && slices.Contains(staleSession, refused.ErrorCode()) {
			k.forget(name)
			continue
		}
		return err
	}
}

// client returns a client with a session of a role, and whether it is a new one.
func (k *clusterKeys) client(name, cluster, role, region string) (c *awskms.Client, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.clients[name]; c != nil {
		return c, false
	}
	if len(k.clients) >= maxKeyClients {
		clear(k.clients)
	}
	session := aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		creds, err := k.d.assumeClusterRole(ctx, role, cluster)
		if errors.Is(err, iam.ErrNoSuchRole) || errors.Is(err, errRoleTrust) {
			err = fmt.Errorf("%w: %w", eks.ErrNoIdentity, err)
		}
		return aws.Credentials{
			AccessKeyID: creds.AccessKeyID, SecretAccessKey: creds.SecretAccessKey, SessionToken: creds.SessionToken, CanExpire: true, Expires: creds.Expiration,
		}, err
	})
	c = awskms.New(awskms.Options{
		Region: region, BaseEndpoint: &k.d.info.URL, HTTPClient: k.http, Retryer: aws.NopRetryer{},
		Credentials: aws.NewCredentialsCache(session, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = time.Minute }),
	})
	k.clients[name] = c
	return c, true
}

func (k *clusterKeys) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.clients, name)
}

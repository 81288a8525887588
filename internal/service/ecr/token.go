package ecr

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// tokenLife is how long an authorization token is valid.
	// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
	tokenLife = 12 * time.Hour
	// layerLife is how long the URL of a layer is valid.
	layerLife = time.Hour
)

// ErrTokenInvalid is returned for a token that this installation did not issue.
var ErrTokenInvalid = errors.New("invalid token")

// ErrTokenExpired is returned for a token that is no longer valid.
var ErrTokenExpired = errors.New("expired token")

// User is the user name to log in with, together with a token.
const User = "AWS"

// A token is the sealed content of an authorization token.
type token struct {
	Principal awsapi.Principal
	Expires   time.Time
}

// A layerToken is the sealed content of a layer's URL.
type layerToken struct {
	Account, Region, Repository, Digest string
	Expires                             time.Time
}

// The purposes of sealed tokens. A token for one purpose is not valid for another.
const (
	forRegistry = "registry"
	forLayer    = "layer"
)

// GetAuthorizationToken returns the password with which docker logs in to registries.
func (s *Service) GetAuthorizationToken(ctx context.Context, in *awsecr.GetAuthorizationTokenInput) (*awsecr.GetAuthorizationTokenOutput, error) {
	t, expires, err := s.Token(ctx)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 clients still send it
	ids := in.RegistryIds
	if len(ids) == 0 {
		ids = []string{registryOf(ctx, nil).Account}
	}
	out := &awsecr.GetAuthorizationTokenOutput{}
	for _, id := range ids {
		out.AuthorizationData = append(out.AuthorizationData, ecrtypes.AuthorizationData{
			AuthorizationToken: aws.String(base64.StdEncoding.EncodeToString([]byte(User + ":" + t))), ExpiresAt: &expires,
			ProxyEndpoint: aws.String("https://" + registryOf(ctx, &id).host()),
		})
	}
	return out, nil
}

// Token returns a password for the caller of ctx. Passwords for ECR Public have the same form.
func (s *Service) Token(ctx context.Context) (password string, expires time.Time, err error) {
	expires = s.now().Add(tokenLife)
	password, err = s.seal(ctx, forRegistry, token{awsapi.CallFrom(ctx).Principal, expires})
	return password, expires, err
}

// Login returns the principal that a password was issued to.
func (s *Service) Login(password string) (awsapi.Principal, error) {
	var t token
	if err := s.open(forRegistry, password, &t); err != nil {
		return awsapi.Principal{}, err
	}
	if !s.now().Before(t.Expires) {
		return awsapi.Principal{}, ErrTokenExpired
	}
	return t.Principal, nil
}

// LayerPath is the path under which layers are served. A sealed name follows it.
const LayerPath = "/v2/_layers/"

// LayerHost returns the host that serves a region's layers.
func LayerHost(region string) string {
	return "prod-" + region + "-starport-layer-bucket.s3." + region + ".amazonaws.com"
}

// layerURL returns the URL of a layer. Callers that reach Drydock by an address of this machine get a URL with that
// address.
func (s *Service) layerURL(ctx context.Context, sc scope, repository, digest string) (string, error) {
	t, err := s.seal(ctx, forLayer, layerToken{sc.Account, sc.Region, repository, digest, s.now().Add(layerLife)})
	if err != nil {
		return "", err
	}
	call := awsapi.CallFrom(ctx)
	if name, _, err := net.SplitHostPort(call.Host); err == nil {
		if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
			scheme := "http://"
			if call.TLS {
				scheme = "https://"
			}
			return scheme + call.Host + LayerPath + t, nil
		}
	}
	return "https://" + LayerHost(sc.Region) + LayerPath + t, nil
}

// LayerOf returns the layer that the sealed name in a URL identifies.
func (s *Service) LayerOf(sealed string) (account, region, repository, digest string, err error) {
	var t layerToken
	if err := s.open(forLayer, sealed, &t); err != nil {
		return "", "", "", "", err
	}
	if !s.now().Before(t.Expires) {
		return "", "", "", "", ErrTokenExpired
	}
	return t.Account, t.Region, t.Repository, t.Digest, nil
}

var tokenKeyID = store.Key{Account: "installation", ID: "1"}

// aead returns the cipher for tokens. If create is true, it creates the key when it is first needed.
func (s *Service) aead(ctx context.Context, create bool) (cipher.AEAD, error) {
	k, err := tokenKeys.Get(s.store, tokenKeyID)
	if store.IsNotFound(err) && create {
		err = s.store.Update(ctx, func(tx *store.Tx) error {
			var err error
			if k, err = tokenKeys.Get(tx, tokenKeyID); err == nil {
				return nil
			}
			k = tokenKey{make([]byte, 32)}
			rand.Read(k.Key) // never fails
			return tokenKeys.Put(tx, tokenKeyID, k)
		})
	}
	if err != nil {
		return nil, store.NotFoundAs(err, ErrTokenInvalid)
	}
	block, err := aes.NewCipher(k.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (s *Service) seal(ctx context.Context, purpose string, v any) (string, error) {
	aead, err := s.aead(ctx, true)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, []byte(purpose))), nil
}

func (s *Service) open(purpose, sealed string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return ErrTokenInvalid
	}
	aead, err := s.aead(context.Background(), false)
	if err != nil {
		return err
	}
	if len(raw) < aead.NonceSize() {
		return ErrTokenInvalid
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(purpose))
	if err != nil {
		return ErrTokenInvalid
	}
	return json.Unmarshal(plain, v)
}

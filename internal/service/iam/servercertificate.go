package iam

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxServerCertificates is AWS's default quota.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entities
const maxServerCertificates = 20

// A serverCertificate is a certificate that was uploaded for load balancers.
type serverCertificate struct {
	Name, Path, ID string
	Body           string // PEM
	Chain          string `json:",omitempty"`
	// Key is the private key, as PEM. Certificates of earlier versions have none.
	Key      string `json:",omitempty"`
	Uploaded time.Time
	Expires  time.Time
	Tags     []tag `json:",omitempty"`
}

func (c *serverCertificate) arn(account string) string {
	return arn.IAM(account, "server-certificate"+c.Path+c.Name)
}

func (c *serverCertificate) path() string { return c.Path }

func outServerCertificate(account string, c *serverCertificate) *iamtypes.ServerCertificateMetadata {
	return &iamtypes.ServerCertificateMetadata{
		ServerCertificateName: &c.Name, Path: &c.Path, ServerCertificateId: &c.ID, Arn: aws.String(c.arn(account)), UploadDate: &c.Uploaded, Expiration: &c.Expires,
	}
}

// The first two texts are in many issues of Terraform's provider; the others are from memory.

func malformedCertificate(why string) error {
	return &iamtypes.MalformedCertificateException{Message: &why}
}

func brokenCertificate() error {
	return malformedCertificate("Unable to parse certificate. Please ensure the certificate is in PEM format.")
}

func brokenChain() error {
	return malformedCertificate("Unable to validate certificate chain. The certificate chain must start with the immediate signing certificate, followed by any intermediaries in order. The index within the chain of the invalid certificate is: 0")
}

func brokenKey() error {
	return malformedCertificate("Unable to parse key. Please ensure the key is in PEM format.")
}

func otherKey() error {
	return &iamtypes.KeyPairMismatchException{Message: aws.String("The certificate and the private key do not match.")}
}

func noSuchServerCertificate(name string) error {
	return noSuchEntity("The Server Certificate with name %s cannot be found.", name)
}

func serverCertificateExists(name string) error {
	return alreadyExists("The Server Certificate with name %s already exists.", name)
}

// serverCertificateInUse: https://github.com/hashicorp/terraform/issues/5904
func serverCertificateInUse(id, user string) error {
	return deleteConflict("Certificate: " + id + " is currently in use by " + user + ". Please remove it first before deleting it from IAM.")
}

// parsedCertificates returns the certificates in a PEM text, or nil if it has anything else.
func parsedCertificates(text string) (out []*x509.Certificate) {
	for rest := []byte(strings.TrimSpace(text)); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// UploadServerCertificate stores a certificate whose private key and chain match it.
func (s *Service) UploadServerCertificate(ctx context.Context, in *awsiam.UploadServerCertificateInput) (*awsiam.UploadServerCertificateOutput, error) {
	own := parsedCertificates(*in.CertificateBody)
	if len(own) != 1 {
		return nil, brokenCertificate()
	}
	if block, _ := pem.Decode([]byte(*in.PrivateKey)); block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, brokenKey()
	}
	if _, err := tls.X509KeyPair([]byte(*in.CertificateBody), []byte(*in.PrivateKey)); err != nil {
		return nil, otherKey()
	}
	chain := parsedCertificates(aws.ToString(in.CertificateChain))
	if in.CertificateChain != nil && (len(chain) == 0 || own[0].CheckSignatureFrom(chain[0]) != nil) {
		return nil, brokenChain()
	}
	tags, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	c := serverCertificate{
		Name: *in.ServerCertificateName, Path: pathOr(in.Path), ID: ids.IAM("ASCA"),
		// Without the white space around them. [seen] hashicorp/terraform-provider-aws, TestAccIAMServerCertificate_file
		Body: strings.TrimSpace(*in.CertificateBody), Chain: strings.TrimSpace(aws.ToString(in.CertificateChain)), Key: *in.PrivateKey,
		Uploaded: s.now(), Expires: own[0].NotAfter.UTC(), Tags: tags,
	}
	if err := belowQuota(s, serverCertificates, acct, "ServerCertificates", maxServerCertificates); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := serverCertificates.Get(tx, nameKey(acct, c.Name)); err == nil {
			return serverCertificateExists(c.Name)
		}
		return serverCertificates.Create(tx, nameKey(acct, c.Name), c)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.UploadServerCertificateOutput{ServerCertificateMetadata: outServerCertificate(acct, &c), Tags: outTags(tags)}, nil
}

// GetServerCertificate returns a certificate with its chain.
func (s *Service) GetServerCertificate(ctx context.Context, in *awsiam.GetServerCertificateInput) (*awsiam.GetServerCertificateOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	c, err := serverCertificates.Get(s.store, nameKey(acct, *in.ServerCertificateName))
	if err != nil {
		return nil, store.NotFoundAs(err, noSuchServerCertificate(*in.ServerCertificateName))
	}
	out := &iamtypes.ServerCertificate{ServerCertificateMetadata: outServerCertificate(acct, &c), CertificateBody: &c.Body, Tags: outTags(c.Tags)}
	if c.Chain != "" {
		out.CertificateChain = &c.Chain
	}
	return &awsiam.GetServerCertificateOutput{ServerCertificate: out}, nil
}

// ListServerCertificates lists the account's certificates below a path.
func (s *Service) ListServerCertificates(ctx context.Context, in *awsiam.ListServerCertificatesInput) (*awsiam.ListServerCertificatesOutput, error) {
	p, err := list(ctx, s, serverCertificates, wants{in.PathPrefix, in.Marker, in.MaxItems}, nil, outServerCertificate)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListServerCertificatesOutput{ServerCertificateMetadataList: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// UpdateServerCertificate renames or moves a certificate.
func (s *Service) UpdateServerCertificate(ctx context.Context, in *awsiam.UpdateServerCertificateInput) (*awsiam.UpdateServerCertificateOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	return done[awsiam.UpdateServerCertificateOutput](s.store.Update(ctx, func(tx *store.Tx) error {
		old := nameKey(acct, *in.ServerCertificateName)
		c, err := serverCertificates.Get(tx, old)
		if err != nil {
			return store.NotFoundAs(err, noSuchServerCertificate(*in.ServerCertificateName))
		}
		if in.NewPath != nil {
			c.Path = *in.NewPath
		}
		if in.NewServerCertificateName != nil {
			c.Name = *in.NewServerCertificateName
		}
		if now := nameKey(acct, c.Name); now != old {
			if _, err := serverCertificates.Get(tx, now); err == nil {
				return serverCertificateExists(c.Name)
			}
			serverCertificates.Delete(tx, old)
		}
		return serverCertificates.Put(tx, nameKey(acct, c.Name), c)
	}))
}

// DeleteServerCertificate deletes a certificate that no load balancer uses.
func (s *Service) DeleteServerCertificate(ctx context.Context, in *awsiam.DeleteServerCertificateInput) (*awsiam.DeleteServerCertificateOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	return done[awsiam.DeleteServerCertificateOutput](s.store.Update(ctx, func(tx *store.Tx) error {
		key := nameKey(acct, *in.ServerCertificateName)
		c, err := serverCertificates.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, noSuchServerCertificate(*in.ServerCertificateName))
		}
		if s.certificateUsers != nil {
			if users := s.certificateUsers(acct, "", c.arn(acct)); len(users) > 0 {
				return serverCertificateInUse(c.ID, users[0])
			}
		}
		serverCertificates.Delete(tx, key)
		return nil
	}))
}

// HasServerCertificate reports whether an account has the server certificate with an ARN.
func (s *Service) HasServerCertificate(account, certificate string) bool {
	c, err := serverCertificates.Get(s.store, nameKey(account, certificate[strings.LastIndexByte(certificate, '/')+1:]))
	return err == nil && c.arn(account) == certificate
}

// ServerKeyPair returns the server certificate with an ARN, with its chain and its private key, for listeners.
func (s *Service) ServerKeyPair(account, certificate string) (tls.Certificate, error) {
	c, err := serverCertificates.Get(s.store, nameKey(account, certificate[strings.LastIndexByte(certificate, '/')+1:]))
	switch {
	case err != nil:
		return tls.Certificate{}, err
	case c.Key == "":
		return tls.Certificate{}, errors.New("its private key was not kept when it was uploaded: upload it again")
	}
	return tls.X509KeyPair([]byte(c.Body+"\n"+c.Chain), []byte(c.Key))
}

func (s *Service) taggedServerCertificate(ctx context.Context, name *string) tagged {
	return func(change func(*[]tag) error) error {
		err := serverCertificates.UpdateOne(ctx, s.store, nameKey(awsapi.CallFrom(ctx).Account, *name), func(c *serverCertificate) error { return change(&c.Tags) })
		return store.NotFoundAs(err, noSuchServerCertificate(*name))
	}
}

// TagServerCertificate adds tags to a certificate.
func (s *Service) TagServerCertificate(ctx context.Context, in *awsiam.TagServerCertificateInput) (*awsiam.TagServerCertificateOutput, error) {
	return done[awsiam.TagServerCertificateOutput](s.taggedServerCertificate(ctx, in.ServerCertificateName).add("ServerCertificate", in.Tags))
}

// UntagServerCertificate removes tags from a certificate.
func (s *Service) UntagServerCertificate(ctx context.Context, in *awsiam.UntagServerCertificateInput) (*awsiam.UntagServerCertificateOutput, error) {
	return done[awsiam.UntagServerCertificateOutput](s.taggedServerCertificate(ctx, in.ServerCertificateName).remove(in.TagKeys))
}

// ListServerCertificateTags lists the tags of a certificate.
func (s *Service) ListServerCertificateTags(ctx context.Context, in *awsiam.ListServerCertificateTagsInput) (*awsiam.ListServerCertificateTagsOutput, error) {
	c, err := serverCertificates.Get(s.store, nameKey(awsapi.CallFrom(ctx).Account, *in.ServerCertificateName))
	if err != nil {
		return nil, store.NotFoundAs(err, noSuchServerCertificate(*in.ServerCertificateName))
	}
	p, err := pageTags(c.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListServerCertificateTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

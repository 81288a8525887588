package iam

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// Users' credentials for services that do not take access keys: SSH keys for CodeCommit, certificates for SOAP requests,
// and passwords for single services. None of these services is here, so they are records, which tools manage.

// The key of a credential is USER ID/ID, so that it survives a new name of the user.
type sshKey struct {
	ID, Fingerprint string
	Body            string // authorized_keys format
	Active          bool
	Uploaded        time.Time
}

type signingCertificate struct {
	ID, Body string
	Active   bool
	Uploaded time.Time
}

type serviceCredential struct {
	ID, Service, UserName, Password string
	Active                          bool
	Created                         time.Time
}

// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entities
const (
	maxSSHKeys             = 5
	maxSigningCertificates = 2
	maxServiceCredentials  = 2 // for each service
)

// credentialServices are the services that take passwords of their own.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_service-specific-creds.html
var credentialServices = []string{"codecommit.amazonaws.com", "cassandra.amazonaws.com", "bedrock.amazonaws.com"}

// The texts about service-specific credentials are AWS's: localstack/localstack tests/aws/services/iam/test_iam.snapshot.json

func noSuchCredentialService(name string) error {
	return noSuchEntity("No such service %s is supported for Service Specific Credentials", name)
}

func noSuchCredential(id string) error { return noSuchEntity("No such credential %s exists", id) }

const mustRemoveObjects = "Cannot delete entity, must remove referenced objects first."

// Terraform's users quote the text.
func noSuchSSHKey(id string) error {
	return noSuchEntity("The Public Key with id %s cannot be found.", id)
}

func noSuchSigningCertificate(id string) error {
	return noSuchEntity("The Certificate with id %s cannot be found.", id)
}

// The texts below are from memory.

func invalidSSHKey() error {
	return &iamtypes.InvalidPublicKeyException{Message: aws.String("The SSH public key is invalid. It must be an RSA key of 2,048 to 16,384 bits.")}
}

func duplicateSSHKey() error {
	return &iamtypes.DuplicateSSHPublicKeyException{Message: aws.String("The SSH public key is already associated with the user.")}
}

func duplicateCertificate() error {
	return &iamtypes.DuplicateCertificateException{Message: aws.String("The certificate is already associated with the user.")}
}

// none checks a request about a user's credentials. Without a name, the request is about the caller, who may be root.
func (s *Service) none(ctx context.Context, name *string) error {
	if name == nil && awsapi.CallFrom(ctx).Principal.Type == awsapi.Root {
		return nil
	}
	_, err := s.user(ctx, name)
	return err
}

// owned are the user with that name, or the caller, and the key of one of its credentials.
func (s *Service) owned(ctx context.Context, r store.Reader, name *string, id string) (user, store.Key, error) {
	n, err := userName(ctx, name)
	if err != nil {
		return user{}, store.Key{}, err
	}
	acct := awsapi.CallFrom(ctx).Account
	u, err := users.Get(r, nameKey(acct, n))
	return u, store.Key{Account: acct, ID: u.ID + "/" + id}, store.NotFoundAs(err, noSuchUser(n))
}

// credentialsOf returns a user's credentials of one kind.
func credentialsOf[T any](r store.Reader, c store.Collection[T], account, userID string) []T {
	var out []T
	of := within(account)
	of.Prefix = userID + "/"
	for _, i := range c.All(r, of) {
		out = append(out, i.Value)
	}
	return out
}

// hasOtherCredentials reports whether a user has credentials of this file, which keep it from being deleted.
func hasOtherCredentials(r store.Reader, account, userID string) bool {
	return len(credentialsOf(r, sshKeys, account, userID))+len(credentialsOf(r, signingCertificates, account, userID))+len(credentialsOf(r, serviceCredentials, account, userID)) > 0
}

// addCredential stores a credential of the user, unless check refuses it.
func addCredential[T any](ctx context.Context, s *Service, c store.Collection[T], name *string, id string, make func(u user, have []T) (T, error)) (user, T, error) {
	var u user
	var v T
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		var key store.Key
		var err error
		if u, key, err = s.owned(ctx, tx, name, id); err != nil {
			return err
		}
		if v, err = make(u, credentialsOf(tx, c, key.Account, u.ID)); err != nil {
			return err
		}
		return c.Create(tx, key, v)
	})
	return u, v, err
}

// changeCredential edits a credential of the user, or deletes it if edit is nil.
func changeCredential[T any](ctx context.Context, s *Service, c store.Collection[T], name *string, id string, missing error, edit func(*T)) (user, T, error) {
	var u user
	var v T
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		var key store.Key
		var err error
		if u, key, err = s.owned(ctx, tx, name, id); err != nil {
			return err
		}
		if v, err = c.Get(tx, key); err != nil {
			return store.NotFoundAs(err, missing)
		}
		if edit == nil {
			c.Delete(tx, key)
			return nil
		}
		edit(&v)
		return c.Put(tx, key, v)
	})
	return u, v, err
}

// listCredentials lists the credentials of the user. Root, who may ask about itself, has none.
func listCredentials[T any](ctx context.Context, s *Service, c store.Collection[T], name *string) (user, []T, error) {
	if err := s.none(ctx, name); err != nil || name == nil && awsapi.CallFrom(ctx).Principal.Type == awsapi.Root {
		return user{}, nil, err
	}
	u, key, err := s.owned(ctx, s.store, name, "")
	if err != nil {
		return u, nil, err
	}
	return u, credentialsOf(s.store, c, key.Account, u.ID), nil
}

func isActive(s iamtypes.StatusType) bool { return s == iamtypes.StatusTypeActive }

// SSH keys.

// parseSSHKey reads an RSA key in OpenSSH's or in PEM's format.
func parseSSHKey(body string) (line string, key *rsa.PublicKey, err error) {
	var public ssh.PublicKey
	if block, _ := pem.Decode([]byte(body)); block != nil {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return "", nil, invalidSSHKey()
		}
		if public, err = ssh.NewPublicKey(parsed); err != nil {
			return "", nil, invalidSSHKey()
		}
	} else if public, _, _, _, err = ssh.ParseAuthorizedKey([]byte(body)); err != nil {
		return "", nil, invalidSSHKey()
	}
	wrapped, ok := public.(ssh.CryptoPublicKey)
	if !ok {
		return "", nil, invalidSSHKey()
	}
	if key, ok = wrapped.CryptoPublicKey().(*rsa.PublicKey); !ok || key.N.BitLen() < 2048 || key.N.BitLen() > 16384 {
		return "", nil, invalidSSHKey()
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))), key, nil
}

// fingerprint returns the MD5 fingerprint of a key's DER form, as EC2 shows it for imported keys.
func fingerprint(key *rsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "" // RSA keys can be marshalled
	}
	sum := md5.Sum(der)
	parts := make([]string, len(sum))
	for i := range sum {
		parts[i] = hex.EncodeToString(sum[i : i+1])
	}
	return strings.Join(parts, ":")
}

func outSSHKey(u user, k sshKey) *iamtypes.SSHPublicKey {
	return &iamtypes.SSHPublicKey{
		UserName: &u.Name, SSHPublicKeyId: &k.ID, Fingerprint: &k.Fingerprint, SSHPublicKeyBody: &k.Body, Status: status(k.Active), UploadDate: &k.Uploaded,
	}
}

// UploadSSHPublicKey gives a user an SSH key for CodeCommit.
func (s *Service) UploadSSHPublicKey(ctx context.Context, in *awsiam.UploadSSHPublicKeyInput) (*awsiam.UploadSSHPublicKeyOutput, error) {
	line, key, err := parseSSHKey(*in.SSHPublicKeyBody)
	if err != nil {
		return nil, err
	}
	k := sshKey{ID: ids.IAM("APKA"), Fingerprint: fingerprint(key), Body: line, Active: true, Uploaded: s.now()}
	u, k, err := addCredential(ctx, s, sshKeys, in.UserName, k.ID, func(_ user, have []sshKey) (sshKey, error) {
		switch {
		case slices.ContainsFunc(have, func(o sshKey) bool { return o.Fingerprint == k.Fingerprint }):
			return k, duplicateSSHKey()
		case len(have) >= maxSSHKeys:
			return k, quotaExceeded("SSHPublicKeysPerUser", maxSSHKeys)
		}
		return k, nil
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.UploadSSHPublicKeyOutput{SSHPublicKey: outSSHKey(u, k)}, nil
}

// GetSSHPublicKey returns a key in OpenSSH's or in PEM's format.
func (s *Service) GetSSHPublicKey(ctx context.Context, in *awsiam.GetSSHPublicKeyInput) (*awsiam.GetSSHPublicKeyOutput, error) {
	u, at, err := s.owned(ctx, s.store, in.UserName, *in.SSHPublicKeyId)
	if err != nil {
		return nil, err
	}
	k, err := sshKeys.Get(s.store, at)
	if err != nil {
		return nil, store.NotFoundAs(err, noSuchSSHKey(*in.SSHPublicKeyId))
	}
	if in.Encoding == iamtypes.EncodingTypePem {
		_, key, err := parseSSHKey(k.Body)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, err
		}
		k.Body = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	return &awsiam.GetSSHPublicKeyOutput{SSHPublicKey: outSSHKey(u, k)}, nil
}

// ListSSHPublicKeys lists a user's keys.
func (s *Service) ListSSHPublicKeys(ctx context.Context, in *awsiam.ListSSHPublicKeysInput) (*awsiam.ListSSHPublicKeysOutput, error) {
	u, all, err := listCredentials(ctx, s, sshKeys, in.UserName)
	out := &awsiam.ListSSHPublicKeysOutput{SSHPublicKeys: []iamtypes.SSHPublicKeyMetadata{}}
	for _, k := range all {
		out.SSHPublicKeys = append(out.SSHPublicKeys, iamtypes.SSHPublicKeyMetadata{UserName: &u.Name, SSHPublicKeyId: &k.ID, Status: status(k.Active), UploadDate: &k.Uploaded})
	}
	return out, err
}

// UpdateSSHPublicKey makes a key active or inactive.
func (s *Service) UpdateSSHPublicKey(ctx context.Context, in *awsiam.UpdateSSHPublicKeyInput) (*awsiam.UpdateSSHPublicKeyOutput, error) {
	_, _, err := changeCredential(ctx, s, sshKeys, in.UserName, *in.SSHPublicKeyId, noSuchSSHKey(*in.SSHPublicKeyId), func(k *sshKey) { k.Active = isActive(in.Status) })
	return done[awsiam.UpdateSSHPublicKeyOutput](err)
}

// DeleteSSHPublicKey deletes a key.
func (s *Service) DeleteSSHPublicKey(ctx context.Context, in *awsiam.DeleteSSHPublicKeyInput) (*awsiam.DeleteSSHPublicKeyOutput, error) {
	_, _, err := changeCredential(ctx, s, sshKeys, in.UserName, *in.SSHPublicKeyId, noSuchSSHKey(*in.SSHPublicKeyId), nil)
	return done[awsiam.DeleteSSHPublicKeyOutput](err)
}

// Signing certificates.

func outSigningCertificate(u user, c signingCertificate) iamtypes.SigningCertificate {
	return iamtypes.SigningCertificate{UserName: &u.Name, CertificateId: &c.ID, CertificateBody: &c.Body, Status: status(c.Active), UploadDate: &c.Uploaded}
}

// UploadSigningCertificate gives a user a certificate.
func (s *Service) UploadSigningCertificate(ctx context.Context, in *awsiam.UploadSigningCertificateInput) (*awsiam.UploadSigningCertificateOutput, error) {
	if len(parsedCertificates(*in.CertificateBody)) != 1 {
		return nil, brokenCertificate()
	}
	c := signingCertificate{ID: rand.Text()[:24], Body: *in.CertificateBody, Active: true, Uploaded: s.now()}
	u, c, err := addCredential(ctx, s, signingCertificates, in.UserName, c.ID, func(_ user, have []signingCertificate) (signingCertificate, error) {
		switch {
		case slices.ContainsFunc(have, func(o signingCertificate) bool { return strings.TrimSpace(o.Body) == strings.TrimSpace(c.Body) }):
			return c, duplicateCertificate()
		case len(have) >= maxSigningCertificates:
			return c, quotaExceeded("CertificatesPerUser", maxSigningCertificates)
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.UploadSigningCertificateOutput{Certificate: new(outSigningCertificate(u, c))}, nil
}

// ListSigningCertificates lists a user's certificates.
func (s *Service) ListSigningCertificates(ctx context.Context, in *awsiam.ListSigningCertificatesInput) (*awsiam.ListSigningCertificatesOutput, error) {
	u, all, err := listCredentials(ctx, s, signingCertificates, in.UserName)
	out := &awsiam.ListSigningCertificatesOutput{Certificates: []iamtypes.SigningCertificate{}}
	for _, c := range all {
		out.Certificates = append(out.Certificates, outSigningCertificate(u, c))
	}
	return out, err
}

// UpdateSigningCertificate makes a certificate active or inactive.
func (s *Service) UpdateSigningCertificate(ctx context.Context, in *awsiam.UpdateSigningCertificateInput) (*awsiam.UpdateSigningCertificateOutput, error) {
	_, _, err := changeCredential(ctx, s, signingCertificates, in.UserName, *in.CertificateId, noSuchSigningCertificate(*in.CertificateId), func(c *signingCertificate) { c.Active = isActive(in.Status) })
	return done[awsiam.UpdateSigningCertificateOutput](err)
}

// DeleteSigningCertificate deletes a certificate.
func (s *Service) DeleteSigningCertificate(ctx context.Context, in *awsiam.DeleteSigningCertificateInput) (*awsiam.DeleteSigningCertificateOutput, error) {
	_, _, err := changeCredential(ctx, s, signingCertificates, in.UserName, *in.CertificateId, noSuchSigningCertificate(*in.CertificateId), nil)
	return done[awsiam.DeleteSigningCertificateOutput](err)
}

// Service-specific credentials.

func outServiceCredential(u user, c serviceCredential) *iamtypes.ServiceSpecificCredential {
	return &iamtypes.ServiceSpecificCredential{
		UserName: &u.Name, ServiceName: &c.Service, ServiceUserName: &c.UserName, ServicePassword: &c.Password, ServiceSpecificCredentialId: &c.ID,
		Status: status(c.Active), CreateDate: &c.Created,
	}
}

// CreateServiceSpecificCredential gives a user a password for a service.
func (s *Service) CreateServiceSpecificCredential(ctx context.Context, in *awsiam.CreateServiceSpecificCredentialInput) (*awsiam.CreateServiceSpecificCredentialOutput, error) {
	id := ids.IAM("ACCA")
	u, c, err := addCredential(ctx, s, serviceCredentials, in.UserName, id, func(u user, have []serviceCredential) (serviceCredential, error) {
		c := serviceCredential{
			ID: id, Service: *in.ServiceName, UserName: u.Name + "-at-" + awsapi.CallFrom(ctx).Account, Password: rand.Text() + rand.Text(), Active: true, Created: s.now(),
		}
		have = slices.DeleteFunc(have, func(o serviceCredential) bool { return o.Service != c.Service })
		switch {
		case !slices.Contains(credentialServices, c.Service):
			return c, noSuchCredentialService(c.Service)
		case len(have) >= maxServiceCredentials:
			return c, quotaExceeded("ServiceSpecificCredentialsPerUser", maxServiceCredentials)
		}
		for n := 1; slices.ContainsFunc(have, func(o serviceCredential) bool { return o.UserName == c.UserName }); n++ {
			c.UserName = u.Name + "+" + strings.Repeat("1", n) + "-at-" + awsapi.CallFrom(ctx).Account
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateServiceSpecificCredentialOutput{ServiceSpecificCredential: outServiceCredential(u, c)}, nil
}

// ListServiceSpecificCredentials lists a user's credentials, for all services or one.
func (s *Service) ListServiceSpecificCredentials(ctx context.Context, in *awsiam.ListServiceSpecificCredentialsInput) (*awsiam.ListServiceSpecificCredentialsOutput, error) {
	if in.ServiceName != nil && !slices.Contains(credentialServices, *in.ServiceName) {
		return nil, noSuchCredentialService(*in.ServiceName)
	}
	u, all, err := listCredentials(ctx, s, serviceCredentials, in.UserName)
	out := &awsiam.ListServiceSpecificCredentialsOutput{ServiceSpecificCredentials: []iamtypes.ServiceSpecificCredentialMetadata{}}
	for _, c := range all {
		if in.ServiceName == nil || c.Service == *in.ServiceName {
			out.ServiceSpecificCredentials = append(out.ServiceSpecificCredentials, iamtypes.ServiceSpecificCredentialMetadata{
				UserName: &u.Name, ServiceName: &c.Service, ServiceUserName: &c.UserName, ServiceSpecificCredentialId: &c.ID, Status: status(c.Active), CreateDate: &c.Created,
			})
		}
	}
	return out, err
}

// UpdateServiceSpecificCredential makes a credential active or inactive.
func (s *Service) UpdateServiceSpecificCredential(ctx context.Context, in *awsiam.UpdateServiceSpecificCredentialInput) (*awsiam.UpdateServiceSpecificCredentialOutput, error) {
	id := *in.ServiceSpecificCredentialId
	_, _, err := changeCredential(ctx, s, serviceCredentials, in.UserName, id, noSuchCredential(id), func(c *serviceCredential) { c.Active = isActive(in.Status) })
	return done[awsiam.UpdateServiceSpecificCredentialOutput](err)
}

// ResetServiceSpecificCredential replaces a credential's password.
func (s *Service) ResetServiceSpecificCredential(ctx context.Context, in *awsiam.ResetServiceSpecificCredentialInput) (*awsiam.ResetServiceSpecificCredentialOutput, error) {
	id := *in.ServiceSpecificCredentialId
	u, c, err := changeCredential(ctx, s, serviceCredentials, in.UserName, id, noSuchCredential(id), func(c *serviceCredential) { c.Password = rand.Text() + rand.Text() })
	if err != nil {
		return nil, err
	}
	return &awsiam.ResetServiceSpecificCredentialOutput{ServiceSpecificCredential: outServiceCredential(u, c)}, nil
}

// DeleteServiceSpecificCredential deletes a credential.
func (s *Service) DeleteServiceSpecificCredential(ctx context.Context, in *awsiam.DeleteServiceSpecificCredentialInput) (*awsiam.DeleteServiceSpecificCredentialOutput, error) {
	id := *in.ServiceSpecificCredentialId
	_, _, err := changeCredential(ctx, s, serviceCredentials, in.UserName, id, noSuchCredential(id), nil)
	return done[awsiam.DeleteServiceSpecificCredentialOutput](err)
}

package iam_test

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/saml/samltest"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestSAMLProviders(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, account := w.root(t)
	metadata := func(id string) *string {
		return aws.String(testkit.Must(samltest.New(id, time.Now()))(t).Metadata())
	}
	create := func(document *string) (*awsiam.CreateSAMLProviderOutput, error) {
		return c.CreateSAMLProvider(ctx, &awsiam.CreateSAMLProviderInput{
			Name: aws.String("Corp"), SAMLMetadataDocument: document, Tags: []iamtypes.Tag{{Key: aws.String("team"), Value: aws.String("shop")}},
		})
	}
	_, err := create(aws.String(strings.Repeat("no metadata ", 100)))
	testkit.WantError(t, err, "InvalidInput", "Could not parse metadata")
	_, err = create(aws.String(strings.Replace(*metadata("https://idp.example"), "entityID=", `validUntil="2020-01-01T00:00:00Z" entityID=`, 1)))
	testkit.WantError(t, err, "InvalidInput", "Metadata document is expired")
	made := testkit.Must(create(metadata("https://idp.example")))(t)
	if want := "arn:aws:iam::" + account + ":saml-provider/Corp"; *made.SAMLProviderArn != want {
		t.Errorf("got %s, want %s", *made.SAMLProviderArn, want)
	}
	_, err = create(metadata("https://idp.example"))
	testkit.WantError(t, err, "EntityAlreadyExists", "SAMLProvider with name Corp already exists.")
	next := metadata("https://other.example")
	testkit.Must(c.UpdateSAMLProvider(ctx, &awsiam.UpdateSAMLProviderInput{SAMLProviderArn: made.SAMLProviderArn, SAMLMetadataDocument: next}))(t)
	got := testkit.Must(c.GetSAMLProvider(ctx, &awsiam.GetSAMLProviderInput{SAMLProviderArn: made.SAMLProviderArn}))(t)
	if *got.SAMLMetadataDocument != *next || len(got.Tags) != 1 || got.CreateDate == nil || aws.ToString(got.SAMLProviderUUID) == "" {
		t.Errorf("%+v", got)
	}
	if list := testkit.Must(c.ListSAMLProviders(ctx, &awsiam.ListSAMLProvidersInput{}))(t).SAMLProviderList; len(list) != 1 || *list[0].Arn != *made.SAMLProviderArn {
		t.Errorf("%+v", list)
	}
	testkit.Must(c.UntagSAMLProvider(ctx, &awsiam.UntagSAMLProviderInput{SAMLProviderArn: made.SAMLProviderArn, TagKeys: []string{"team"}}))(t)
	testkit.Must(c.TagSAMLProvider(ctx, &awsiam.TagSAMLProviderInput{SAMLProviderArn: made.SAMLProviderArn, Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))(t)
	if tags := testkit.Must(c.ListSAMLProviderTags(ctx, &awsiam.ListSAMLProviderTagsInput{SAMLProviderArn: made.SAMLProviderArn}))(t).Tags; len(tags) != 1 || *tags[0].Key != "a" {
		t.Errorf("%+v", tags)
	}
	if n := testkit.Must(c.GetAccountSummary(ctx, &awsiam.GetAccountSummaryInput{}))(t).SummaryMap["Providers"]; n != 1 {
		t.Errorf("the summary counts %d providers", n)
	}
	testkit.Must(c.DeleteSAMLProvider(ctx, &awsiam.DeleteSAMLProviderInput{SAMLProviderArn: made.SAMLProviderArn}))(t)
	_, err = c.GetSAMLProvider(ctx, &awsiam.GetSAMLProviderInput{SAMLProviderArn: made.SAMLProviderArn})
	testkit.WantError(t, err, "NoSuchEntity", "Manifest not found for arn "+*made.SAMLProviderArn)
}

// Texts: localstack/localstack tests/aws/services/iam/test_iam.snapshot.json, recorded from AWS.
func TestServiceSpecificCredentials(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, account := w.root(t)
	name, service := aws.String("ada"), aws.String("codecommit.amazonaws.com")
	testkit.Must(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name}))(t)
	_, err := c.CreateServiceSpecificCredential(ctx, &awsiam.CreateServiceSpecificCredentialInput{UserName: aws.String("nobody"), ServiceName: service})
	testkit.WantError(t, err, "NoSuchEntity", "The user with name nobody cannot be found.")
	_, err = c.CreateServiceSpecificCredential(ctx, &awsiam.CreateServiceSpecificCredentialInput{UserName: name, ServiceName: aws.String("lambda.amazonaws.com")})
	testkit.WantError(t, err, "NoSuchEntity", "No such service lambda.amazonaws.com is supported for Service Specific Credentials")
	made := testkit.Must(c.CreateServiceSpecificCredential(ctx, &awsiam.CreateServiceSpecificCredentialInput{UserName: name, ServiceName: service}))(t).ServiceSpecificCredential
	if *made.ServiceUserName != "ada-at-"+account || *made.ServicePassword == "" || made.Status != iamtypes.StatusTypeActive {
		t.Errorf("%+v", made)
	}
	id := made.ServiceSpecificCredentialId
	testkit.Must(c.UpdateServiceSpecificCredential(ctx, &awsiam.UpdateServiceSpecificCredentialInput{UserName: name, ServiceSpecificCredentialId: id, Status: iamtypes.StatusTypeInactive}))(t)
	if reset := testkit.Must(c.ResetServiceSpecificCredential(ctx, &awsiam.ResetServiceSpecificCredentialInput{UserName: name, ServiceSpecificCredentialId: id}))(t).ServiceSpecificCredential; *reset.ServicePassword == *made.ServicePassword || reset.Status != iamtypes.StatusTypeInactive {
		t.Errorf("%+v", reset)
	}
	for _, tt := range []struct {
		service *string
		want    int
	}{{nil, 1}, {service, 1}, {aws.String("cassandra.amazonaws.com"), 0}} {
		if got := testkit.Must(c.ListServiceSpecificCredentials(ctx, &awsiam.ListServiceSpecificCredentialsInput{UserName: name, ServiceName: tt.service}))(t).ServiceSpecificCredentials; len(got) != tt.want {
			t.Errorf("%s: %+v", aws.ToString(tt.service), got)
		}
	}
	_, err = c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: name})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must remove referenced objects first.")
	_, err = c.DeleteServiceSpecificCredential(ctx, &awsiam.DeleteServiceSpecificCredentialInput{UserName: name, ServiceSpecificCredentialId: aws.String("satisfiesregexbutstillinvalid")})
	testkit.WantError(t, err, "NoSuchEntity", "No such credential satisfiesregexbutstillinvalid exists")
	testkit.Must(c.DeleteServiceSpecificCredential(ctx, &awsiam.DeleteServiceSpecificCredentialInput{UserName: name, ServiceSpecificCredentialId: id}))(t)
	testkit.Must(c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: name}))(t)
}

func TestSSHKeysAndSigningCertificates(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, _ := w.root(t)
	name := aws.String("ada")
	testkit.Must(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name}))(t)
	_, err := c.UploadSSHPublicKey(ctx, &awsiam.UploadSSHPublicKeyInput{UserName: name, SSHPublicKeyBody: aws.String("no key")})
	if err == nil || !strings.Contains(err.Error(), "InvalidPublicKey") {
		t.Errorf("got %v", err)
	}
	key := testkit.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	public := testkit.Must(ssh.NewPublicKey(&key.PublicKey))(t)
	up := testkit.Must(c.UploadSSHPublicKey(ctx, &awsiam.UploadSSHPublicKeyInput{UserName: name, SSHPublicKeyBody: aws.String(string(ssh.MarshalAuthorizedKey(public)))}))(t).SSHPublicKey
	asPEM := testkit.Must(c.GetSSHPublicKey(ctx, &awsiam.GetSSHPublicKeyInput{UserName: name, SSHPublicKeyId: up.SSHPublicKeyId, Encoding: iamtypes.EncodingTypePem}))(t).SSHPublicKey
	if !strings.HasPrefix(*asPEM.SSHPublicKeyBody, "-----BEGIN PUBLIC KEY-----") {
		t.Errorf("%s", *asPEM.SSHPublicKeyBody)
	}
	_, err = c.UploadSSHPublicKey(ctx, &awsiam.UploadSSHPublicKeyInput{UserName: name, SSHPublicKeyBody: asPEM.SSHPublicKeyBody})
	if err == nil || !strings.Contains(err.Error(), "DuplicateSSHPublicKey") {
		t.Errorf("the same key as PEM: %v", err)
	}
	testkit.Must(c.UpdateSSHPublicKey(ctx, &awsiam.UpdateSSHPublicKeyInput{UserName: name, SSHPublicKeyId: up.SSHPublicKeyId, Status: iamtypes.StatusTypeInactive}))(t)
	if list := testkit.Must(c.ListSSHPublicKeys(ctx, &awsiam.ListSSHPublicKeysInput{UserName: name}))(t).SSHPublicKeys; len(list) != 1 || list[0].Status != iamtypes.StatusTypeInactive {
		t.Errorf("%+v", list)
	}
	body, _, _, _ := signed(t, "ada", nil, nil)
	cert := testkit.Must(c.UploadSigningCertificate(ctx, &awsiam.UploadSigningCertificateInput{UserName: name, CertificateBody: &body}))(t).Certificate
	if list := testkit.Must(c.ListSigningCertificates(ctx, &awsiam.ListSigningCertificatesInput{UserName: name}))(t).Certificates; len(list) != 1 || *list[0].CertificateId != *cert.CertificateId || *list[0].CertificateBody != body {
		t.Errorf("%+v: want the certificate as it was uploaded, to the last new line", list) // TestAccIAMSigningCertificate_basic of Terraform's provider
	}
	// They stay with a user who gets another name.
	testkit.Must(c.UpdateUser(ctx, &awsiam.UpdateUserInput{UserName: name, NewUserName: aws.String("lovelace")}))(t)
	name = aws.String("lovelace")
	testkit.Must(c.DeleteSSHPublicKey(ctx, &awsiam.DeleteSSHPublicKeyInput{UserName: name, SSHPublicKeyId: up.SSHPublicKeyId}))(t)
	testkit.Must(c.DeleteSigningCertificate(ctx, &awsiam.DeleteSigningCertificateInput{UserName: name, CertificateId: cert.CertificateId}))(t)
	_, err = c.DeleteSSHPublicKey(ctx, &awsiam.DeleteSSHPublicKeyInput{UserName: name, SSHPublicKeyId: up.SSHPublicKeyId})
	testkit.WantError(t, err, "NoSuchEntity", "The Public Key with id "+*up.SSHPublicKeyId+" cannot be found.")
	testkit.Must(c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: name}))(t)
}

package iam_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// signed returns a certificate signed by another one, or by itself, with its key, as PEM.
func signed(t *testing.T, name string, issuer *x509.Certificate, by *ecdsa.PrivateKey) (cert, key string, parsed *x509.Certificate, own *ecdsa.PrivateKey) {
	t.Helper()
	own = testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now(), NotAfter: time.Date(2036, 1, 2, 3, 4, 5, 0, time.UTC), IsCA: issuer == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if issuer == nil {
		issuer, by = template, own
	}
	der := testkit.Must(x509.CreateCertificate(rand.Reader, template, issuer, own.Public(), by))(t)
	inKey := testkit.Must(x509.MarshalPKCS8PrivateKey(own))(t)
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", inKey), testkit.Must(x509.ParseCertificate(der))(t), own
}

func TestServerCertificates(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, account := w.root(t)
	rootText, _, root, rootKey := signed(t, "root", nil, nil)
	body, key, _, _ := signed(t, "www.example.com", root, rootKey)
	other, otherKey, _, _ := signed(t, "other", nil, nil)
	upload := func(name, body, key string, chain *string) (*awsiam.UploadServerCertificateOutput, error) {
		return c.UploadServerCertificate(ctx, &awsiam.UploadServerCertificateInput{
			ServerCertificateName: &name, Path: aws.String("/cloudfront/"), CertificateBody: &body, PrivateKey: &key, CertificateChain: chain, Tags: []iamtypes.Tag{{Key: aws.String("team"), Value: aws.String("shop")}},
		})
	}
	for name, bad := range map[string]struct {
		body, key string
		chain     *string
		code      string
	}{
		"no certificate": {"hello", key, nil, "MalformedCertificate"},
		"two":            {body + other, key, nil, "MalformedCertificate"},
		"no key":         {body, "hello", nil, "MalformedCertificate"},
		"another key":    {body, otherKey, nil, "KeyPairMismatch"},
		"another chain":  {body, key, &other, "MalformedCertificate"},
		"no chain":       {body, key, &key, "MalformedCertificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := upload("web", bad.body, bad.key, bad.chain)
			testkit.WantError(t, err, bad.code, "")
		})
	}
	out := testkit.Must(upload("web", body, key, &rootText))(t).ServerCertificateMetadata
	if *out.Arn != "arn:aws:iam::"+account+":server-certificate/cloudfront/web" || !strings.HasPrefix(*out.ServerCertificateId, "ASCA") || out.Expiration.Year() != 2036 {
		t.Errorf("%+v", out)
	}
	_, err := upload("WEB", body, key, nil)
	testkit.WantError(t, err, "EntityAlreadyExists", "The Server Certificate with name WEB already exists.")
	got := testkit.Must(c.GetServerCertificate(ctx, &awsiam.GetServerCertificateInput{ServerCertificateName: aws.String("web")}))(t).ServerCertificate
	if *got.CertificateBody != strings.TrimSpace(body) || *got.CertificateChain != strings.TrimSpace(rootText) || len(got.Tags) != 1 {
		t.Errorf("%+v", got)
	}
	check(t, errorOf(upload("api", body, key, nil)))
	list := func(prefix string) (names []string) {
		for _, m := range testkit.Must(c.ListServerCertificates(ctx, &awsiam.ListServerCertificatesInput{PathPrefix: &prefix}))(t).ServerCertificateMetadataList {
			names = append(names, *m.ServerCertificateName)
		}
		return names
	}
	_, err = c.UpdateServerCertificate(ctx, &awsiam.UpdateServerCertificateInput{ServerCertificateName: aws.String("web"), NewServerCertificateName: aws.String("api")})
	testkit.WantError(t, err, "EntityAlreadyExists", "")
	check(t, errorOf(c.UpdateServerCertificate(ctx, &awsiam.UpdateServerCertificateInput{ServerCertificateName: aws.String("web"), NewServerCertificateName: aws.String("site"), NewPath: aws.String("/")})))
	if below, all := list("/cloudfront/"), list("/"); strings.Join(below, " ") != "api" || strings.Join(all, " ") != "api site" {
		t.Errorf("%v, %v", below, all)
	}
	check(t, errorOf(c.TagServerCertificate(ctx, &awsiam.TagServerCertificateInput{ServerCertificateName: aws.String("site"), Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})))
	check(t, errorOf(c.UntagServerCertificate(ctx, &awsiam.UntagServerCertificateInput{ServerCertificateName: aws.String("site"), TagKeys: []string{"team"}})))
	if tags := testkit.Must(c.ListServerCertificateTags(ctx, &awsiam.ListServerCertificateTagsInput{ServerCertificateName: aws.String("site")}))(t).Tags; len(tags) != 1 || *tags[0].Key != "a" {
		t.Errorf("%+v", tags)
	}
	check(t, errorOf(c.DeleteServerCertificate(ctx, &awsiam.DeleteServerCertificateInput{ServerCertificateName: aws.String("site")})))
	_, err = c.GetServerCertificate(ctx, &awsiam.GetServerCertificateInput{ServerCertificateName: aws.String("site")})
	testkit.WantError(t, err, "NoSuchEntity", "The Server Certificate with name site cannot be found.")
}

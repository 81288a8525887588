package acm

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// These are default quotas. https://docs.aws.amazon.com/acm/latest/userguide/acm-limits.html
const (
	maxCertificates = 2500
	maxNames        = 10
)

// life is how long a certificate is valid.
// https://nottinfra.co.uk/signals/aws-acm-certificate-validity-period-update
const life = 198 * 24 * time.Hour

var domainForm = regexp.MustCompile(`^(\*\.)?([a-z0-9_]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// keys generate the private keys of requested certificates, by algorithm.
// https://docs.aws.amazon.com/acm/latest/APIReference/API_RequestCertificate.html
var keys = map[string]func() (crypto.Signer, error){
	"RSA_2048":      func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
	"EC_prime256v1": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	"EC_secp384r1":  func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
}

// RequestCertificate requests a certificate, which is issued once its names are validated.
func (s *Service) RequestCertificate(ctx context.Context, in *awsacm.RequestCertificateInput) (*awsacm.RequestCertificateOutput, error) {
	if in.ValidationMethod != acmtypes.ValidationMethodDns {
		return nil, awserr.NotImplemented("the validation method " + or(string(in.ValidationMethod), "EMAIL"))
	}
	sc := scopeOf(ctx)
	c := certificateRecord{ID: ids.UUID(), Domain: strings.ToLower(*in.DomainName), Status: pending, Algorithm: or(string(in.KeyAlgorithm), "RSA_2048"), Logging: "ENABLED", Token: aws.ToString(in.IdempotencyToken), Created: s.now()}
	if keys[c.Algorithm] == nil {
		return nil, errValidation(fmt.Sprintf("The key algorithm %s is not supported for public certificates.", c.Algorithm))
	}
	if in.Options != nil {
		//lint:ignore SA1019 clients still send it, and policies still have its key
		c.Logging = or(string(in.Options.CertificateTransparencyLoggingPreference), c.Logging)
	}
	for _, n := range append([]string{c.Domain}, in.SubjectAlternativeNames...) {
		n = strings.ToLower(n)
		if !domainForm.MatchString(n) {
			return nil, errDomain(n)
		}
		c.Names = append(c.Names, n)
	}
	slices.Sort(c.Names)
	if c.Names = slices.Compact(c.Names); len(c.Names) > maxNames {
		return nil, errManyNames()
	}
	for _, o := range in.DomainValidationOptions {
		d, v := strings.ToLower(aws.ToString(o.DomainName)), strings.ToLower(aws.ToString(o.ValidationDomain))
		if !slices.Contains(c.Names, d) || d != v && !strings.HasSuffix(d, "."+v) {
			return nil, errValidationDomain(d)
		}
	}
	var err error
	if c.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		all := certificates.All(tx, sc.All())
		for _, o := range all {
			// A repeated request within an hour returns the same certificate.
			if c.Token != "" && o.Value.Token == c.Token && o.Value.Domain == c.Domain && slices.Equal(o.Value.Names, c.Names) && c.Created.Sub(o.Value.Created) < time.Hour {
				c.ID = o.Value.ID
				return nil
			}
		}
		if len(all) >= maxCertificates {
			return errManyCertificates()
		}
		return certificates.Create(tx, sc.Key(c.ID), c)
	})
	if err != nil {
		return nil, err
	}
	return &awsacm.RequestCertificateOutput{CertificateArn: aws.String(sc.arn(c.ID))}, nil
}

// issue creates the certificate. The private key of its issuer is not kept.
func (c *certificateRecord) issue(now time.Time) error {
	ca, err := keys["EC_prime256v1"]()
	if err != nil {
		return err
	}
	issuer := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{Country: []string{"US"}, Organization: []string{"Amazon"}, CommonName: "Drydock stand-in for Amazon"},
		NotBefore: now.Truncate(24 * time.Hour), NotAfter: now.Add(2 * life), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, err := x509.CreateCertificate(rand.Reader, issuer, issuer, ca.Public(), ca)
	if err != nil {
		return err
	}
	own, err := keys[c.Algorithm]()
	if err != nil {
		return err
	}
	usage := x509.KeyUsageDigitalSignature
	if c.Algorithm == "RSA_2048" {
		usage |= x509.KeyUsageKeyEncipherment
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: c.Domain}, DNSNames: c.Names, NotBefore: now.Truncate(24 * time.Hour), NotAfter: now.Truncate(24 * time.Hour).Add(life),
		KeyUsage: usage, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, issuer, own.Public(), ca)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return err
	}
	c.PEM, c.Chain, c.Status, c.Issued = pemOf("CERTIFICATE", leaf), pemOf("CERTIFICATE", root), issued, now
	c.Key = pemOf("PRIVATE KEY", key)
	return nil
}

func pemOf(typ string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}))
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return new(big.Int).SetBytes(b)
}

// x509 returns the certificate itself, or nil before it is issued.
func (c *certificateRecord) x509() *x509.Certificate {
	block, _ := pem.Decode([]byte(c.PEM))
	if block == nil {
		return nil
	}
	out, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return out
}

// shownAlgorithm returns the algorithm as responses spell it: RSA-2048 instead of RSA_2048, but still EC_prime256v1.
func (c *certificateRecord) shownAlgorithm() acmtypes.KeyAlgorithm {
	return acmtypes.KeyAlgorithm(strings.Replace(c.Algorithm, "RSA_", "RSA-", 1))
}

// usages are the names of key usages, in AWS's order.
var usages = []struct {
	bit  x509.KeyUsage
	name acmtypes.KeyUsageName
}{
	{x509.KeyUsageDigitalSignature, acmtypes.KeyUsageNameDigitalSignature}, {x509.KeyUsageContentCommitment, acmtypes.KeyUsageNameNonRepudation},
	{x509.KeyUsageKeyEncipherment, acmtypes.KeyUsageNameKeyEncipherment}, {x509.KeyUsageDataEncipherment, acmtypes.KeyUsageNameDataEncipherment},
	{x509.KeyUsageKeyAgreement, acmtypes.KeyUsageNameKeyAgreement}, {x509.KeyUsageCertSign, acmtypes.KeyUsageNameCertificateSigning}, {x509.KeyUsageCRLSign, acmtypes.KeyUsageNameCrlSigning},
}

var extendedUsages = map[x509.ExtKeyUsage]acmtypes.ExtendedKeyUsage{
	x509.ExtKeyUsageServerAuth: {Name: acmtypes.ExtendedKeyUsageNameTlsWebServerAuthentication, OID: aws.String("1.3.6.1.5.5.7.3.1")},
	x509.ExtKeyUsageClientAuth: {Name: acmtypes.ExtendedKeyUsageNameTlsWebClientAuthentication, OID: aws.String("1.3.6.1.5.5.7.3.2")},
}

// DescribeCertificate describes a certificate, with the CNAME records that validate its names.
func (s *Service) DescribeCertificate(ctx context.Context, in *awsacm.DescribeCertificateInput) (*awsacm.DescribeCertificateOutput, error) {
	c, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	out := &acmtypes.CertificateDetail{
		CertificateArn: in.CertificateArn, DomainName: &c.Domain, SubjectAlternativeNames: c.Names, Status: acmtypes.CertificateStatus(c.Status), CreatedAt: &c.Created,
		Issuer: aws.String("Amazon"), Subject: aws.String("CN=" + c.Domain), KeyAlgorithm: c.shownAlgorithm(), SignatureAlgorithm: aws.String("SHA256WITHRSA"),
		Type: acmtypes.CertificateTypeAmazonIssued, InUseBy: s.users(sc, c.ID), RenewalEligibility: acmtypes.RenewalEligibilityIneligible,
		KeyUsages: []acmtypes.KeyUsage{}, ExtendedKeyUsages: []acmtypes.ExtendedKeyUsage{},
		//lint:ignore SA1019 clients still send it, and policies still have its key
		Options: &acmtypes.CertificateOptions{CertificateTransparencyLoggingPreference: acmtypes.CertificateTransparencyLoggingPreference(c.Logging)},
	}
	for _, n := range c.Names {
		v := acmtypes.DomainValidation{DomainName: &n}
		if !c.Imported {
			name, value := validationRecord(sc.Account, n)
			v.ValidationDomain, v.ValidationMethod = &n, acmtypes.ValidationMethodDns
			v.ResourceRecord = &acmtypes.ResourceRecord{Name: &name, Value: &value, Type: acmtypes.RecordTypeCname}
			switch {
			case c.Status == issued, c.Status == pending && s.validated(sc.Account, n):
				v.ValidationStatus = acmtypes.DomainStatusSuccess
			case c.Status == pending:
				v.ValidationStatus = acmtypes.DomainStatusPendingValidation
			default:
				v.ValidationStatus = acmtypes.DomainStatusFailed
			}
		}
		out.DomainValidationOptions = append(out.DomainValidationOptions, v)
	}
	if x := c.x509(); x != nil {
		out.Serial, out.NotBefore, out.NotAfter = aws.String(colons(x.SerialNumber)), &x.NotBefore, &x.NotAfter
		out.KeyUsages, out.ExtendedKeyUsages = usagesOf(x), extendedUsagesOf(x)
		if c.Imported {
			out.Type, out.ImportedAt = acmtypes.CertificateTypeImported, &c.Issued
			out.Subject, out.SignatureAlgorithm = aws.String(x.Subject.String()), aws.String(signature(x))
			out.Issuer = aws.String(cmp.Or(strings.Join(x.Issuer.Organization, " "), x.Issuer.CommonName))
		} else {
			out.IssuedAt = &c.Issued
		}
	}
	return &awsacm.DescribeCertificateOutput{Certificate: out}, nil
}

func signature(x *x509.Certificate) string {
	switch x.PublicKeyAlgorithm {
	case x509.ECDSA:
		return "SHA256WITHECDSA"
	default:
		return "SHA256WITHRSA"
	}
}

// colons writes a serial number as ACM does: 03:e9.
func colons(n *big.Int) string {
	h := hex.EncodeToString(n.Bytes())
	var parts []string
	for i := 0; i < len(h); i += 2 {
		parts = append(parts, h[i:i+2])
	}
	return strings.Join(parts, ":")
}

func usagesOf(x *x509.Certificate) []acmtypes.KeyUsage {
	out := []acmtypes.KeyUsage{}
	for _, u := range usages {
		if x.KeyUsage&u.bit != 0 {
			out = append(out, acmtypes.KeyUsage{Name: u.name})
		}
	}
	return out
}

func extendedUsagesOf(x *x509.Certificate) []acmtypes.ExtendedKeyUsage {
	out := []acmtypes.ExtendedKeyUsage{}
	for _, u := range x.ExtKeyUsage {
		if e, ok := extendedUsages[u]; ok {
			out = append(out, e)
		}
	}
	return out
}

// ListCertificates lists certificates. Without a filter by key type, it lists those with RSA keys of up to 2048 bits.
func (s *Service) ListCertificates(ctx context.Context, in *awsacm.ListCertificatesInput) (*awsacm.ListCertificatesOutput, error) {
	sc := scopeOf(ctx)
	types := []string{"RSA_1024", "RSA_2048"}
	if in.Includes != nil && len(in.Includes.KeyTypes) > 0 {
		types = nil
		for _, k := range in.Includes.KeyTypes {
			types = append(types, string(k))
		}
	}
	all := []certificateRecord{}
	for _, item := range certificates.All(s.store, sc.All()) {
		if c := item.Value; slices.Contains(types, c.Algorithm) && (len(in.CertificateStatuses) == 0 || slices.Contains(in.CertificateStatuses, acmtypes.CertificateStatus(c.Status))) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b certificateRecord) int {
		c := a.Created.Compare(b.Created)
		if in.SortOrder == acmtypes.SortOrderDescending {
			return -c
		}
		return c
	})
	some, next, err := paging.CutInOrder(paging.Rules{Usual: 100, BadToken: errToken}, all, func(c certificateRecord) string { return c.ID }, in.MaxItems, in.NextToken)
	out := &awsacm.ListCertificatesOutput{CertificateSummaryList: []acmtypes.CertificateSummary{}, NextToken: next}
	for _, c := range some {
		out.CertificateSummaryList = append(out.CertificateSummaryList, s.summary(sc, &c))
	}
	return out, err
}

func (s *Service) summary(sc scope, c *certificateRecord) acmtypes.CertificateSummary {
	out := acmtypes.CertificateSummary{
		CertificateArn: aws.String(sc.arn(c.ID)), DomainName: &c.Domain, SubjectAlternativeNameSummaries: c.Names, HasAdditionalSubjectAlternativeNames: aws.Bool(false),
		Status: acmtypes.CertificateStatus(c.Status), Type: acmtypes.CertificateTypeAmazonIssued, KeyAlgorithm: c.shownAlgorithm(), InUse: aws.Bool(len(s.users(sc, c.ID)) > 0),
		RenewalEligibility: acmtypes.RenewalEligibilityIneligible, CreatedAt: &c.Created, KeyUsages: []acmtypes.KeyUsageName{}, ExtendedKeyUsages: []acmtypes.ExtendedKeyUsageName{},
	}
	if x := c.x509(); x != nil {
		out.NotBefore, out.NotAfter = &x.NotBefore, &x.NotAfter
		for _, u := range usagesOf(x) {
			out.KeyUsages = append(out.KeyUsages, u.Name)
		}
		for _, u := range extendedUsagesOf(x) {
			out.ExtendedKeyUsages = append(out.ExtendedKeyUsages, u.Name)
		}
		if c.Imported {
			out.Type, out.ImportedAt = acmtypes.CertificateTypeImported, &c.Issued
		} else {
			out.IssuedAt = &c.Issued
		}
	}
	return out
}

// GetCertificate returns an issued certificate and its chain.
func (s *Service) GetCertificate(ctx context.Context, in *awsacm.GetCertificateInput) (*awsacm.GetCertificateOutput, error) {
	c, err := s.find(ctx, in.CertificateArn)
	if err == nil && c.PEM == "" {
		err = errInProgress(*in.CertificateArn)
	}
	out := &awsacm.GetCertificateOutput{Certificate: &c.PEM}
	if c.Chain != "" {
		out.CertificateChain = &c.Chain
	}
	return out, err
}

// UpdateCertificateOptions changes the preference for certificate transparency logs.
func (s *Service) UpdateCertificateOptions(ctx context.Context, in *awsacm.UpdateCertificateOptionsInput) (*awsacm.UpdateCertificateOptionsOutput, error) {
	return &awsacm.UpdateCertificateOptionsOutput{}, s.change(ctx, in.CertificateArn, func(c *certificateRecord) error {
		if c.Imported {
			return errOptions(*in.CertificateArn)
		}
		//lint:ignore SA1019 clients still send it, and policies still have its key
		c.Logging = or(string(in.Options.CertificateTransparencyLoggingPreference), c.Logging)
		return nil
	})
}

// DeleteCertificate deletes a certificate that no load balancer uses.
func (s *Service) DeleteCertificate(ctx context.Context, in *awsacm.DeleteCertificateInput) (*awsacm.DeleteCertificateOutput, error) {
	c, err := s.find(ctx, in.CertificateArn)
	if err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	if len(s.users(sc, c.ID)) > 0 {
		return nil, errInUse(*in.CertificateArn, sc.Account)
	}
	return &awsacm.DeleteCertificateOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		certificates.Delete(tx, sc.Key(c.ID))
		return nil
	})
}

// ImportCertificate imports a certificate, or replaces one that was imported.
func (s *Service) ImportCertificate(ctx context.Context, in *awsacm.ImportCertificateInput) (*awsacm.ImportCertificateOutput, error) {
	sc, now := scopeOf(ctx), s.now()
	c, err := imported(in, now)
	if err != nil {
		return nil, err
	}
	if name := in.CertificateArn; name != nil {
		if len(in.Tags) > 0 {
			return nil, errTagsOnReimport()
		}
		return &awsacm.ImportCertificateOutput{CertificateArn: name}, s.change(ctx, name, func(r *certificateRecord) error {
			if !r.Imported {
				return errNotImported(*name)
			}
			c.ID, c.Created, c.Tags = r.ID, r.Created, r.Tags
			*r = c
			return nil
		})
	}
	if c.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	c.ID, c.Created = ids.UUID(), now
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if len(certificates.All(tx, sc.All())) >= maxCertificates {
			return errManyCertificates()
		}
		return certificates.Create(tx, sc.Key(c.ID), c)
	})
	return &awsacm.ImportCertificateOutput{CertificateArn: aws.String(sc.arn(c.ID))}, err
}

// imported checks the certificate in an import request and returns its record.
// https://docs.aws.amazon.com/acm/latest/userguide/import-certificate-prerequisites.html
func imported(in *awsacm.ImportCertificateInput, now time.Time) (certificateRecord, error) {
	var none certificateRecord
	block, rest := pem.Decode(in.Certificate)
	if block == nil || block.Type != "CERTIFICATE" {
		return none, errValidation("The certificate that you specified is not a valid PEM-encoded certificate.")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return none, errValidation("The certificate field contains more than one certificate. You can specify only one certificate in this field.")
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return none, errValidation("The certificate that you specified is not a valid PEM-encoded certificate.")
	}
	if now.Before(x.NotBefore) || now.After(x.NotAfter) {
		return none, errValidation("The certificate that you specified is not valid at this time.")
	}
	if _, err := tls.X509KeyPair(in.Certificate, in.PrivateKey); err != nil {
		return none, errValidation("The private key is not supported, or does not match the certificate.")
	}
	for chain := in.CertificateChain; ; {
		var block *pem.Block
		if block, chain = pem.Decode(chain); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return none, errValidation("Provided certificate chain is not in a valid PEM format.")
		}
	}
	c := certificateRecord{Domain: x.Subject.CommonName, Status: issued, Imported: true, Logging: "DISABLED", Issued: now, PEM: string(in.Certificate), Chain: string(in.CertificateChain), Key: string(in.PrivateKey)}
	switch key := x.PublicKey.(type) {
	case *rsa.PublicKey:
		c.Algorithm = fmt.Sprintf("RSA_%d", key.N.BitLen())
	case *ecdsa.PublicKey:
		c.Algorithm = map[string]string{"P-256": "EC_prime256v1", "P-384": "EC_secp384r1", "P-521": "EC_secp521r1"}[key.Params().Name]
	case ed25519.PublicKey:
	}
	if c.Algorithm == "" {
		return none, errValidation("The algorithm of the certificate's key is not supported.")
	}
	c.Names = slices.Clone(x.DNSNames)
	if c.Domain == "" && len(c.Names) > 0 {
		c.Domain = c.Names[0]
	}
	if net.ParseIP(c.Domain) == nil && c.Domain != "" {
		c.Names = append(c.Names, c.Domain)
	}
	slices.Sort(c.Names)
	c.Names = slices.Compact(c.Names)
	return c, nil
}

// Package samltest is a SAML identity provider for tests.
package samltest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// A Provider signs responses.
type Provider struct {
	EntityID string
	key      *ecdsa.PrivateKey
	cert     []byte
}

// New returns a provider whose certificate is valid at now.
func New(entityID string, now time.Time) (*Provider, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: entityID}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	return &Provider{entityID, key, cert}, err
}

// Metadata returns the provider's metadata document. IAM accepts none that is shorter than 1,000 characters.
func (p *Provider) Metadata() string {
	return fmt.Sprintf(`<?xml version="1.0"?>
<!-- %s -->
<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s">
  <md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
    <md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>
    <md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="https://idp.example/sso"/>
  </md:IDPSSODescriptor>
</md:EntityDescriptor>`, strings.Repeat("padding ", 60), p.EntityID, base64.StdEncoding.EncodeToString(p.cert))
}

// A Response is what the provider says. Zero values are those of a response that AWS accepts.
type Response struct {
	Issuer     string
	Subject    string
	Recipient  string
	Audience   string
	Now        time.Time
	Lasts      time.Duration
	Attributes map[string][]string
	SignAll    bool // the response instead of the assertion
	Unsigned   bool
}

// Sign returns a response.
func (p *Provider) Sign(r Response) (*etree.Document, error) {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	if r.Lasts == 0 {
		r.Lasts = 5 * time.Minute
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	issuer := or(r.Issuer, p.EntityID)
	var attributes strings.Builder
	for name, values := range r.Attributes {
		fmt.Fprintf(&attributes, `<saml:Attribute Name="%s">`, name)
		for _, v := range values {
			fmt.Fprintf(&attributes, `<saml:AttributeValue>%s</saml:AttributeValue>`, v)
		}
		attributes.WriteString(`</saml:Attribute>`)
	}
	doc := etree.NewDocument()
	err := doc.ReadFromString(fmt.Sprintf(`<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_response" Version="2.0" IssueInstant="%[2]s"><saml:Issuer>%[1]s</saml:Issuer><samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status><saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_assertion" Version="2.0" IssueInstant="%[2]s"><saml:Issuer>%[1]s</saml:Issuer><saml:Subject><saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent">%[3]s</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData NotOnOrAfter="%[4]s" Recipient="%[5]s"/></saml:SubjectConfirmation></saml:Subject><saml:Conditions NotBefore="%[2]s" NotOnOrAfter="%[4]s"><saml:AudienceRestriction><saml:Audience>%[6]s</saml:Audience></saml:AudienceRestriction></saml:Conditions><saml:AttributeStatement>%[7]s</saml:AttributeStatement></saml:Assertion></samlp:Response>`,
		issuer, at(r.Now), or(r.Subject, "ada"), at(r.Now.Add(r.Lasts)), or(r.Recipient, "https://signin.aws.amazon.com/saml"), or(r.Audience, "urn:amazon:webservices"), attributes.String()))
	if err != nil || r.Unsigned {
		return doc, err
	}
	ctx, err := dsig.NewSigningContext(p.key, [][]byte{p.cert})
	if err != nil {
		return nil, err
	}
	ctx.IdAttribute, ctx.Canonicalizer = "ID", dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("")
	if err := ctx.SetSignatureMethod(dsig.ECDSASHA256SignatureMethod); err != nil {
		return nil, err
	}
	root := doc.Root()
	if r.SignAll {
		signed, err := ctx.SignEnveloped(root)
		if err != nil {
			return nil, err
		}
		doc.SetRoot(signed)
		return again(doc)
	}
	assertion := root.SelectElement("Assertion")
	signed, err := ctx.SignEnveloped(assertion)
	if err != nil {
		return nil, err
	}
	root.RemoveChild(assertion)
	root.AddChild(signed)
	return again(doc)
}

// again returns the document as its text says: the signature library leaves elements without a parent.
func again(doc *etree.Document) (*etree.Document, error) {
	b, err := doc.WriteToBytes()
	if err != nil {
		return nil, err
	}
	out := etree.NewDocument()
	return out, out.ReadFromBytes(b)
}

// Encode returns the response as clients of AssumeRoleWithSAML send it.
func Encode(doc *etree.Document) (string, error) {
	b, err := doc.WriteToBytes()
	return base64.StdEncoding.EncodeToString(b), err
}

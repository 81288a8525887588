// Package saml reads the metadata of SAML 2.0 identity providers, and verifies their responses as AWS does before it
// issues credentials: signature, issuer, recipient, audience and times. No I/O.
//
// The XML may be hostile. Documents with a DOCTYPE, deep nesting, more than one assertion or an encrypted one are
// refused. The package reads only what the signature covers: the element that the signature library returns, not the
// one that was sent.
package saml

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

const (
	protocolNS  = "urn:oasis:names:tc:SAML:2.0:protocol"
	assertionNS = "urn:oasis:names:tc:SAML:2.0:assertion"
	metadataNS  = "urn:oasis:names:tc:SAML:2.0:metadata"
	signatureNS = "http://www.w3.org/2000/09/xmldsig#"
	success     = "urn:oasis:names:tc:SAML:2.0:status:Success"
	bearer      = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
	maxDepth    = 64
)

// Errors of ParseMetadata and Verify. A caller words them for its clients.
var (
	ErrMetadata  = errors.New("saml: not the metadata of an identity provider")
	ErrMalformed = errors.New("saml: not a response with one assertion")
	ErrSignature = errors.New("saml: the signature is missing or invalid")
	ErrIssuer    = errors.New("saml: another issuer")
	ErrStatus    = errors.New("saml: the identity provider reports a failure")
	ErrAudience  = errors.New("saml: not for this audience")
	ErrRecipient = errors.New("saml: not for this recipient")
	ErrExpired   = errors.New("saml: expired")
	ErrEarly     = errors.New("saml: not valid yet")
)

// Metadata is what is needed of an identity provider's metadata.
type Metadata struct {
	EntityID     string
	ValidUntil   time.Time // zero if it has no end
	certificates []*x509.Certificate
}

// parse reads a document whose shape is harmless.
func parse(text string) (*etree.Element, bool) {
	doc := etree.NewDocument()
	if err := doc.ReadFromString(text); err != nil || doc.Root() == nil {
		return nil, false
	}
	for _, t := range doc.Child {
		if _, ok := t.(*etree.Directive); ok { // a DOCTYPE, with entities
			return nil, false
		}
	}
	return doc.Root(), shallow(doc.Root(), maxDepth)
}

func shallow(e *etree.Element, depth int) bool {
	return depth > 0 && !slices.ContainsFunc(e.ChildElements(), func(c *etree.Element) bool { return !shallow(c, depth-1) })
}

func is(e *etree.Element, ns, tag string) bool { return e.Tag == tag && e.NamespaceURI() == ns }

// children returns the child elements with a name.
func children(e *etree.Element, ns, tag string) []*etree.Element {
	return slices.DeleteFunc(e.ChildElements(), func(c *etree.Element) bool { return !is(c, ns, tag) })
}

// child returns the first child element with a name, or an empty element.
func child(e *etree.Element, ns, tag string) *etree.Element {
	if all := children(e, ns, tag); len(all) > 0 {
		return all[0]
	}
	return etree.NewElement(tag)
}

// text returns an element's whole text. Element.Text would end at a comment, which the canonical form does not have: an
// attacker could cut values off.
func text(e *etree.Element) string {
	var b strings.Builder
	for _, t := range e.Child {
		if c, ok := t.(*etree.CharData); ok {
			b.WriteString(c.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// count counts the elements with a name at any depth.
func count(e *etree.Element, ns, tag string) int {
	n := 0
	if is(e, ns, tag) {
		n = 1
	}
	for _, c := range e.ChildElements() {
		n += count(c, ns, tag)
	}
	return n
}

// ParseMetadata reads an EntityDescriptor with the certificates by which the identity provider signs.
func ParseMetadata(document string) (Metadata, error) {
	root, ok := parse(document)
	if !ok || !is(root, metadataNS, "EntityDescriptor") {
		return Metadata{}, ErrMetadata
	}
	m := Metadata{EntityID: root.SelectAttrValue("entityID", "")}
	if until := root.SelectAttrValue("validUntil", ""); until != "" {
		t, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return Metadata{}, ErrMetadata
		}
		m.ValidUntil = t.UTC()
	}
	for _, d := range children(root, metadataNS, "IDPSSODescriptor") {
		for _, key := range children(d, metadataNS, "KeyDescriptor") {
			if use := key.SelectAttrValue("use", "signing"); use != "signing" {
				continue
			}
			for _, data := range children(child(key, signatureNS, "KeyInfo"), signatureNS, "X509Data") {
				for _, c := range children(data, signatureNS, "X509Certificate") {
					der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text(c)), ""))
					if err != nil {
						return Metadata{}, ErrMetadata
					}
					cert, err := x509.ParseCertificate(der)
					if err != nil {
						return Metadata{}, ErrMetadata
					}
					m.certificates = append(m.certificates, cert)
				}
			}
		}
	}
	if m.EntityID == "" || len(m.certificates) == 0 {
		return Metadata{}, ErrMetadata
	}
	return m, nil
}

// An Assertion is what a response with a valid signature says about a subject.
type Assertion struct {
	ID, Issuer, Subject string
	// SubjectType is the format of the subject's name, in AWS's short form: persistent, transient, …
	SubjectType string
	Recipient   string
	Issued      time.Time
	SessionEnd  time.Time // zero if the session may last as long as its role allows
	Attributes  map[string][]string
}

// recipient is the endpoint to which responses for AWS are sent, whichever sends them on.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_saml_assertions.html
var recipient = regexp.MustCompile(`^https://([a-z0-9-]+\.)?signin\.aws\.amazon\.com/saml(/acs/[\w-]+)?$`)

// audience is AWS as a service provider.
const audience = "urn:amazon:webservices"

// skew is how far clocks may differ.
const skew = time.Minute

// Verify returns the assertion of a response that the identity provider has signed, as a whole or the assertion in it.
func (m Metadata) Verify(response []byte, now time.Time) (*Assertion, error) {
	root, ok := parse(string(response))
	if !ok || !is(root, protocolNS, "Response") || count(root, assertionNS, "Assertion") != 1 || count(root, assertionNS, "EncryptedAssertion") != 0 {
		return nil, ErrMalformed
	}
	assertions := children(root, assertionNS, "Assertion")
	if len(assertions) != 1 {
		return nil, ErrMalformed
	}
	if text(child(assertions[0], assertionNS, "Issuer")) != m.EntityID {
		return nil, ErrIssuer // before the signature, as with AWS
	}
	signed, err := m.signed(root, assertions[0], now)
	if err != nil {
		return nil, err
	}
	if issuer := children(root, assertionNS, "Issuer"); len(issuer) > 0 && text(issuer[0]) != m.EntityID || text(child(signed, assertionNS, "Issuer")) != m.EntityID {
		return nil, ErrIssuer
	}
	if child(child(root, protocolNS, "Status"), protocolNS, "StatusCode").SelectAttrValue("Value", "") != success {
		return nil, ErrStatus
	}
	return m.read(signed, now)
}

// signed returns the assertion as the signature covers it.
func (m Metadata) signed(root, assertion *etree.Element, now time.Time) (*etree.Element, error) {
	ctx := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: m.certificates})
	ctx.IdAttribute, ctx.Clock = "ID", dsig.NewFakeClockAt(now)
	target := root
	if len(children(root, signatureNS, "Signature")) == 0 {
		// The namespaces of the response count for the assertion's canonical form.
		target = assertion.Copy()
		for e := assertion.Parent(); e != nil; e = e.Parent() {
			for _, a := range e.Attr {
				if (a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns") && target.SelectAttr(a.FullKey()) == nil {
					target.CreateAttr(a.FullKey(), a.Value)
				}
			}
		}
	}
	out, err := ctx.Validate(target)
	if err != nil {
		return nil, ErrSignature
	}
	if is(out, assertionNS, "Assertion") {
		return out, nil
	}
	all := children(out, assertionNS, "Assertion")
	if len(all) != 1 || count(out, assertionNS, "Assertion") != 1 {
		return nil, ErrMalformed
	}
	return all[0], nil
}

func (m Metadata) read(e *etree.Element, now time.Time) (*Assertion, error) {
	subject := child(e, assertionNS, "Subject")
	name := child(subject, assertionNS, "NameID")
	a := &Assertion{
		ID: e.SelectAttrValue("ID", ""), Issuer: m.EntityID, Subject: text(name), Attributes: map[string][]string{},
		SubjectType: strings.TrimPrefix(name.SelectAttrValue("Format", ""), "urn:oasis:names:tc:SAML:2.0:nameid-format:"),
	}
	var err error
	if a.Issued, err = time.Parse(time.RFC3339, e.SelectAttrValue("IssueInstant", "")); err != nil || a.Subject == "" {
		return nil, ErrMalformed
	}
	if err := within(child(e, assertionNS, "Conditions"), now); err != nil {
		return nil, err
	}
	restrictions := children(child(e, assertionNS, "Conditions"), assertionNS, "AudienceRestriction")
	for _, r := range restrictions {
		if !slices.ContainsFunc(children(r, assertionNS, "Audience"), func(x *etree.Element) bool {
			return text(x) == audience || recipient.MatchString(text(x))
		}) {
			return nil, ErrAudience
		}
	}
	found := ErrRecipient
	for _, c := range children(subject, assertionNS, "SubjectConfirmation") {
		data := child(c, assertionNS, "SubjectConfirmationData")
		to := data.SelectAttrValue("Recipient", "")
		if c.SelectAttrValue("Method", "") != bearer || !recipient.MatchString(to) {
			continue
		}
		if data.SelectAttr("NotOnOrAfter") == nil {
			return nil, ErrMalformed // the profile for browsers requires it
		}
		if found = within(data, now); found == nil {
			a.Recipient = to
			break
		}
	}
	if found != nil {
		return nil, found
	}
	for _, s := range children(e, assertionNS, "AuthnStatement") {
		if end := s.SelectAttrValue("SessionNotOnOrAfter", ""); end != "" {
			if a.SessionEnd, err = time.Parse(time.RFC3339, end); err != nil {
				return nil, ErrMalformed
			}
		}
	}
	for _, s := range children(e, assertionNS, "AttributeStatement") {
		for _, x := range children(s, assertionNS, "Attribute") {
			key := x.SelectAttrValue("Name", "")
			for _, v := range children(x, assertionNS, "AttributeValue") {
				a.Attributes[key] = append(a.Attributes[key], text(v))
			}
		}
	}
	return a, nil
}

// within checks the times of an element.
func within(e *etree.Element, now time.Time) error {
	for _, limit := range []struct {
		attr string
		bad  func(t time.Time) bool
		err  error
	}{
		{"NotBefore", func(t time.Time) bool { return now.Add(skew).Before(t) }, ErrEarly},
		{"NotOnOrAfter", func(t time.Time) bool { return !now.Before(t) }, ErrExpired},
	} {
		v := e.SelectAttrValue(limit.attr, "")
		if v == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return ErrMalformed
		}
		if limit.bad(t) {
			return limit.err
		}
	}
	return nil
}

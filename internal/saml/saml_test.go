package saml_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/drydock-dev/drydock/internal/saml"
	"github.com/drydock-dev/drydock/internal/saml/samltest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func provider(t testing.TB) (*samltest.Provider, saml.Metadata) {
	t.Helper()
	p, err := samltest.New("https://idp.example/metadata", now)
	if err != nil {
		t.Fatal(err)
	}
	m, err := saml.ParseMetadata(p.Metadata())
	if err != nil || m.EntityID != p.EntityID {
		t.Fatalf("%+v, %v", m, err)
	}
	return p, m
}

func sign(t testing.TB, p *samltest.Provider, r samltest.Response) *etree.Document {
	t.Helper()
	r.Now = now
	doc, err := p.Sign(r)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func verify(t testing.TB, m saml.Metadata, doc *etree.Document, at time.Time) (*saml.Assertion, error) {
	t.Helper()
	b, err := doc.WriteToBytes()
	if err != nil {
		t.Fatal(err)
	}
	return m.Verify(b, at)
}

func TestVerify(t *testing.T) {
	p, m := provider(t)
	other, err := samltest.New(p.EntityID, now)
	if err != nil {
		t.Fatal(err)
	}
	attributes := map[string][]string{"team": {"blue", "red"}}
	for _, all := range []bool{false, true} {
		a, err := verify(t, m, sign(t, p, samltest.Response{Attributes: attributes, SignAll: all}), now)
		if err != nil || a.Subject != "ada" || a.SubjectType != "persistent" || a.Recipient != "https://signin.aws.amazon.com/saml" || len(a.Attributes["team"]) != 2 {
			t.Errorf("signed as a whole: %v: %+v, %v", all, a, err)
		}
	}
	for name, tt := range map[string]struct {
		doc  *etree.Document
		at   time.Time
		want error
	}{
		"unsigned":          {sign(t, p, samltest.Response{Unsigned: true}), now, saml.ErrSignature},
		"another key":       {sign(t, other, samltest.Response{}), now, saml.ErrSignature},
		"another issuer":    {sign(t, p, samltest.Response{Issuer: "https://evil.example"}), now, saml.ErrIssuer},
		"another audience":  {sign(t, p, samltest.Response{Audience: "https://app.example"}), now, saml.ErrAudience},
		"another recipient": {sign(t, p, samltest.Response{Recipient: "https://signin.aws.amazon.com.evil.example/saml"}), now, saml.ErrRecipient},
		"expired":           {sign(t, p, samltest.Response{}), now.Add(5 * time.Minute), saml.ErrExpired},
		"too early":         {sign(t, p, samltest.Response{}), now.Add(-2 * time.Minute), saml.ErrEarly},
	} {
		if _, err := verify(t, m, tt.doc, tt.at); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// Nothing that an attacker adds to or moves within a signed response gets through.
func TestSignatureWrapping(t *testing.T) {
	p, m := provider(t)
	evil := func(doc *etree.Document) *etree.Element {
		e := doc.Root().SelectElement("Assertion").Copy()
		e.RemoveChild(e.SelectElement("Signature"))
		e.CreateAttr("ID", "_evil")
		e.FindElement("./Subject/NameID").SetText("root")
		return e
	}
	for name, change := range map[string]func(doc *etree.Document){
		"changed subject":    func(doc *etree.Document) { doc.FindElement("//NameID").SetText("root") },
		"changed attribute":  func(doc *etree.Document) { doc.FindElement("//AttributeValue").SetText("root") },
		"a second assertion": func(doc *etree.Document) { doc.Root().AddChild(evil(doc)) },
		"another one before": func(doc *etree.Document) { doc.Root().InsertChildAt(0, evil(doc)) },
		"the signed one inside": func(doc *etree.Document) {
			e := evil(doc)
			e.AddChild(doc.Root().SelectElement("Assertion"))
			doc.Root().AddChild(e)
		},
		"the signed one extended": func(doc *etree.Document) {
			doc.FindElement("//AttributeStatement").AddChild(doc.FindElement("//Attribute").Copy())
		},
		"the signature moved": func(doc *etree.Document) {
			e := evil(doc)
			signed := doc.Root().SelectElement("Assertion")
			signature := signed.SelectElement("Signature")
			doc.Root().RemoveChild(signed)
			signed.RemoveChild(signature)
			object := signature.CreateElement("Object")
			object.AddChild(signed)
			e.AddChild(signature)
			doc.Root().AddChild(e)
		},
		"a copy of the ID": func(doc *etree.Document) {
			e := evil(doc)
			e.CreateAttr("ID", "_assertion")
			e.AddChild(doc.Root().SelectElement("Assertion").SelectElement("Signature"))
			doc.Root().RemoveChild(doc.Root().SelectElement("Assertion"))
			doc.Root().AddChild(e)
		},
		"a comment in the subject": func(doc *etree.Document) {
			n := doc.FindElement("//NameID")
			n.SetText("ro")
			n.CreateComment("x")
			n.CreateText("ot")
		},
	} {
		doc := sign(t, p, samltest.Response{Attributes: map[string][]string{"team": {"blue"}}})
		change(doc)
		if a, err := verify(t, m, doc, now); err == nil {
			t.Errorf("%s: accepted as %+v", name, a)
		}
	}
}

// A comment does not cut a value off: canonical forms drop comments, so the signature stays valid.
func TestCommentsAreNotValues(t *testing.T) {
	p, m := provider(t)
	doc := sign(t, p, samltest.Response{Subject: "ada@example.com.evil.example"})
	n := doc.FindElement("//NameID")
	n.SetText("ada@example.com")
	n.CreateComment("x")
	n.CreateText(".evil.example")
	if a, err := verify(t, m, doc, now); err == nil && a.Subject != "ada@example.com.evil.example" {
		t.Errorf("the subject is %q", a.Subject)
	}
}

func TestHostileXML(t *testing.T) {
	_, m := provider(t)
	bomb := `<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol">&b;</samlp:Response>`
	deep := `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol">` + strings.Repeat("<a>", 20000) + strings.Repeat("</a>", 20000) + `</samlp:Response>`
	for _, text := range []string{"", "no XML", "<a>", bomb, deep, `<?xml version="1.0"?><a/>`} {
		if _, err := m.Verify([]byte(text), now); !errors.Is(err, saml.ErrMalformed) {
			t.Errorf("%.40q: %v", text, err)
		}
		if _, err := saml.ParseMetadata(text); !errors.Is(err, saml.ErrMetadata) {
			t.Errorf("%.40q as metadata: %v", text, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	p, m := provider(f)
	doc := sign(f, p, samltest.Response{})
	b, err := doc.WriteToBytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := m.Verify(b, now); err == nil && a.Subject != "ada" {
			t.Errorf("accepted %+v", a)
		}
	})
}

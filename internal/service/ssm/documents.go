package ssm

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
	"github.com/drydock-dev/drydock/internal/store"
)

// Quotas of documents. https://docs.aws.amazon.com/general/latest/gr/ssm.html#limits_ssm
const (
	maxDocuments        = 500
	maxDocumentVersions = 1000
	maxShares           = 1000
)

// A documentRecord is an account's own document without its content.
type documentRecord struct {
	Name, Type      string
	TargetType      string `json:",omitempty"`
	Default, Latest int64  // versions
	Created         time.Time
	Tags            map[string]string `json:",omitempty"`
	Accounts        []string          `json:",omitempty"` // accounts that it is shared with; "all" means every account
}

// A documentVersion is a version of a document.
type documentVersion struct {
	Number                   int64
	VersionName, DisplayName string `json:",omitempty"`
	Format, Content          string
	Created                  time.Time
}

var (
	documents        = store.NewCollection[documentRecord]("ssm", "document")
	documentVersions = store.NewCollection[documentVersion]("ssm", "document-version") // NAME:VERSION
)

func documentVersionKey(sc scope, name string, n int64) store.Key {
	return sc.Key(fmt.Sprintf("%s:%012d", name, n))
}

func documentHistory(r store.Reader, sc scope, name string) []documentVersion {
	var out []documentVersion
	for _, i := range documentVersions.All(r, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: name + ":"}) {
		out = append(out, i.Value)
	}
	return out
}

func errInvalidDocument(name string) error {
	return &ssmtypes.InvalidDocument{Message: aws.String("Document with name " + name + " does not exist.")}
}

// errDocument converts an error of package document to AWS's error.
func errDocument(err error) error {
	if e, ok := errors.AsType[*document.Error](err); ok {
		return awserr.New(e.Code, e.Message)
	}
	if e, ok := errors.AsType[*document.UnsupportedError](err); ok {
		return awserr.NotImplemented(e.What)
	}
	return err
}

// The texts of errors about versions are those that moto's authors recorded.

func errDocumentVersion() error {
	return &ssmtypes.InvalidDocumentVersion{Message: aws.String("The document version is not valid or does not exist.")}
}

// A foundDocument is the document that a request names, in the requested version.
type foundDocument struct {
	*document.Document
	rec     documentRecord
	version documentVersion
	name    string // as answers show it: the ARN of another account's document, otherwise the name
	owner   string // an account, or Amazon
	arn     string
}

// splitDocument returns the name of a document and the account that owns it, which a document's ARN may name.
func splitDocument(sc scope, ref string) (account, name string) {
	if a, err := arn.Parse(ref); err == nil && a.Service == "ssm" {
		if n, ok := strings.CutPrefix(a.Resource, "document/"); ok {
			return a.Account, n
		}
	}
	return sc.Account, ref
}

// provided returns a document that AWS provides, or nil. SSM-SessionManagerRunShell is not among them, because accounts
// create their own.
func (s *Service) provided(sc scope, account, name string) *foundDocument {
	p, ok := document.ByName(name)
	if !ok || account != sc.Account && account != "" || p.Name == document.Shell {
		return nil
	}
	return &foundDocument{
		Document: p.Document, name: name, owner: "Amazon", arn: arn.New("ssm", sc.Region, "", "document/"+name),
		rec:     documentRecord{Name: name, Type: p.Type, Default: 1, Latest: 1, Created: p.Created},
		version: documentVersion{Number: 1, Format: "JSON", Content: p.Content, Created: p.Created},
	}
}

// document returns the document that a request names. version is a number, $DEFAULT or $LATEST. If it is empty, document
// returns the version with the given name, or the default version if that is empty too.
func (s *Service) document(sc scope, ref, version, versionName string) (*foundDocument, error) {
	account, name := splitDocument(sc, ref)
	if a, err := arn.Parse(ref); err == nil && a.Region != sc.Region {
		return nil, errInvalidDocument(ref)
	}
	if d := s.provided(sc, account, name); d != nil {
		if version != "" && version != "1" && !strings.HasPrefix(version, "$") || versionName != "" {
			return nil, errDocumentVersion()
		}
		return d, nil
	}
	at := scope{regional.At(account, sc.Region)}
	rec, err := documents.Get(s.store, at.Key(name))
	if err != nil {
		return nil, store.NotFoundAs(err, errInvalidDocument(ref))
	}
	d := &foundDocument{rec: rec, name: name, owner: account, arn: arn.New("ssm", sc.Region, account, "document/"+name)}
	if account != sc.Account {
		if !slices.Contains(rec.Accounts, sc.Account) && !slices.Contains(rec.Accounts, "all") {
			return nil, errInvalidDocument(ref)
		}
		d.name = d.arn
	}
	d.rec.Latest = latestVersion(s.store, at, rec)
	if d.version, err = versionOf(s.store, at, rec, version, versionName); err != nil {
		return nil, err
	}
	if d.Document, err = document.Parse(rec.Type, d.version.Format, d.version.Content); err != nil {
		return nil, fmt.Errorf("reading the document %s: %w", d.arn, err) // it was valid when it was stored
	}
	return d, nil
}

// latestVersion returns the number of a document's latest version. The record has the number of the version created last,
// which may have been deleted.
func latestVersion(r store.Reader, sc scope, rec documentRecord) int64 {
	if _, err := documentVersions.Get(r, documentVersionKey(sc, rec.Name, rec.Latest)); err == nil {
		return rec.Latest
	}
	if all := documentHistory(r, sc, rec.Name); len(all) > 0 {
		return all[len(all)-1].Number
	}
	return rec.Latest
}

func versionOf(r store.Reader, sc scope, rec documentRecord, version, name string) (documentVersion, error) {
	n := rec.Default
	switch version {
	case "$LATEST":
		n = latestVersion(r, sc, rec)
	case "", "$DEFAULT":
	default:
		var err error
		if n, err = strconv.ParseInt(version, 10, 64); err != nil {
			return documentVersion{}, errDocumentVersion()
		}
	}
	if name != "" {
		all := documentHistory(r, sc, rec.Name)
		i := slices.IndexFunc(all, func(v documentVersion) bool { return v.VersionName == name && (version == "" || v.Number == n) })
		if i < 0 {
			return documentVersion{}, errDocumentVersion()
		}
		return all[i], nil
	}
	v, err := documentVersions.Get(r, documentVersionKey(sc, rec.Name, n))
	return v, store.NotFoundAs(err, errDocumentVersion())
}

// reservedNames matches the names that only AWS's documents may have.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CreateDocument.html
var reservedNames = regexp.MustCompile(`^(?i:aws|amazon|amzn)`)

package ssm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
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

// typeOf returns the type of a new document. A request may omit it for a document of schema 1.2.
func typeOf(in *awsssm.CreateDocumentInput) (string, error) {
	switch in.DocumentType {
	case ssmtypes.DocumentTypeSession, ssmtypes.DocumentTypeCommand:
		return string(in.DocumentType), nil
	case "":
	default:
		return "", awserr.NotImplemented("documents of the type " + string(in.DocumentType))
	}
	d, err := document.Parse(document.Command, string(in.DocumentFormat), aws.ToString(in.Content))
	if err != nil {
		return "", errDocument(err)
	}
	if d.Schema != "1.2" {
		// https://github.com/hashicorp/terraform/issues/11788
		return "", &ssmtypes.InvalidDocumentSchemaVersion{Message: aws.String("Document type is required for schema version " + d.Schema)}
	}
	return document.Command, nil
}

func formatOf(f ssmtypes.DocumentFormat) (string, error) {
	switch f {
	case "", ssmtypes.DocumentFormatJson:
		return "JSON", nil
	case ssmtypes.DocumentFormatYaml:
		return "YAML", nil
	}
	return "", awserr.NotImplemented("documents of the format " + string(f))
}

// CreateDocument creates a document of the type Session or Command.
func (s *Service) CreateDocument(ctx context.Context, in *awsssm.CreateDocumentInput) (*awsssm.CreateDocumentOutput, error) {
	sc, name := scopeOf(ctx), aws.ToString(in.Name)
	if reservedNames.MatchString(name) {
		return nil, errValidation("The document name %s is reserved: names can't begin with aws, amazon or amzn.", name)
	}
	format, err := formatOf(in.DocumentFormat)
	if err != nil {
		return nil, err
	}
	in.DocumentFormat = ssmtypes.DocumentFormat(format)
	kind, err := typeOf(in)
	if err != nil {
		return nil, err
	}
	if name == document.Shell && kind != document.Session {
		return nil, errValidation("The document %s must have the type Session, because it contains the preferences of Session Manager.", name)
	}
	content, err := document.Parse(kind, format, aws.ToString(in.Content))
	if err != nil {
		return nil, errDocument(err)
	}
	tags, err := addTags(nil, in.Tags)
	if err != nil {
		return nil, err
	}
	now := s.now()
	d := foundDocument{
		Document: content, name: name, owner: sc.Account,
		rec:     documentRecord{Name: name, Type: kind, TargetType: aws.ToString(in.TargetType), Default: 1, Latest: 1, Created: now, Tags: tags},
		version: documentVersion{Number: 1, VersionName: aws.ToString(in.VersionName), DisplayName: aws.ToString(in.DisplayName), Format: format, Content: *in.Content, Created: now},
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if len(documents.All(s.store, sc.All())) >= maxDocuments {
			return &ssmtypes.DocumentLimitExceeded{Message: aws.String("You can have at most 500 active Systems Manager documents.")}
		}
		if err := documents.Create(tx, sc.Key(name), d.rec); err != nil {
			if errors.Is(err, store.ErrExists) {
				// https://github.com/gazoakley/terraform-aws-session-manager-settings/issues/1
				err = &ssmtypes.DocumentAlreadyExists{Message: aws.String("Document with same name " + name + " already exists")}
			}
			return err
		}
		return documentVersions.Put(tx, documentVersionKey(sc, name, 1), d.version)
	})
	if err != nil {
		return nil, err
	}
	out := d.describe()
	out.Status = ssmtypes.DocumentStatusCreating
	return &awsssm.CreateDocumentOutput{DocumentDescription: &out}, nil
}

// UpdateDocument adds a version to a document. The default version does not change.
func (s *Service) UpdateDocument(ctx context.Context, in *awsssm.UpdateDocumentInput) (*awsssm.UpdateDocumentOutput, error) {
	sc, name := scopeOf(ctx), aws.ToString(in.Name)
	format, err := formatOf(in.DocumentFormat)
	if err != nil {
		return nil, err
	}
	d := foundDocument{name: name, owner: sc.Account}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		if d.rec, err = documents.Get(tx, sc.Key(name)); err != nil {
			return store.NotFoundAs(err, errInvalidDocument(name))
		}
		if v := aws.ToString(in.DocumentVersion); v != "" && v != "$LATEST" && v != strconv.FormatInt(latestVersion(tx, sc, d.rec), 10) {
			return errDocumentVersion()
		}
		if d.Document, err = document.Parse(d.rec.Type, format, aws.ToString(in.Content)); err != nil {
			return errDocument(err)
		}
		if d.Schema == "1.2" {
			// https://github.com/aws-cloudformation/aws-cloudformation-resource-providers-ssm/pull/93
			return &ssmtypes.InvalidDocumentSchemaVersion{Message: aws.String("Documents of schema version 1.2 can't be updated.")}
		}
		all := documentHistory(tx, sc, name)
		for _, v := range all {
			switch {
			case v.Content == *in.Content && v.Format == format:
				return &ssmtypes.DuplicateDocumentContent{Message: aws.String("The content of the association document matches another document. Change the content of the document and try again.")}
			case in.VersionName != nil && v.VersionName == *in.VersionName:
				return &ssmtypes.DuplicateDocumentVersionName{Message: aws.String("The specified version name is a duplicate.")}
			}
		}
		if len(all) >= maxDocumentVersions {
			return &ssmtypes.DocumentVersionLimitExceeded{Message: aws.String("The document has too many versions. Delete one or more document versions and try again.")}
		}
		d.rec.Latest++
		if in.TargetType != nil {
			d.rec.TargetType = *in.TargetType
		}
		d.version = documentVersion{Number: d.rec.Latest, VersionName: aws.ToString(in.VersionName), DisplayName: aws.ToString(in.DisplayName), Format: format, Content: *in.Content, Created: s.now()}
		if err := documentVersions.Put(tx, documentVersionKey(sc, name, d.rec.Latest), d.version); err != nil {
			return err
		}
		return documents.Put(tx, sc.Key(name), d.rec)
	})
	if err != nil {
		return nil, err
	}
	out := d.describe()
	out.Status = ssmtypes.DocumentStatusUpdating
	return &awsssm.UpdateDocumentOutput{DocumentDescription: &out}, nil
}

// UpdateDocumentDefaultVersion sets the default version of a document.
func (s *Service) UpdateDocumentDefaultVersion(ctx context.Context, in *awsssm.UpdateDocumentDefaultVersionInput) (*awsssm.UpdateDocumentDefaultVersionOutput, error) {
	sc, name := scopeOf(ctx), aws.ToString(in.Name)
	var v documentVersion
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		rec, err := documents.Get(tx, sc.Key(name))
		if err != nil {
			return store.NotFoundAs(err, errInvalidDocument(name))
		}
		if v, err = versionOf(tx, sc, rec, aws.ToString(in.DocumentVersion), ""); err != nil {
			return err
		}
		rec.Default = v.Number
		return documents.Put(tx, sc.Key(name), rec)
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.UpdateDocumentDefaultVersionOutput{Description: &ssmtypes.DocumentDefaultVersionDescription{
		Name: in.Name, DefaultVersion: aws.String(strconv.FormatInt(v.Number, 10)), DefaultVersionName: optional(v.VersionName),
	}}, nil
}

// DeleteDocument deletes a document or one of its versions.
func (s *Service) DeleteDocument(ctx context.Context, in *awsssm.DeleteDocumentInput) (*awsssm.DeleteDocumentOutput, error) {
	sc, name := scopeOf(ctx), aws.ToString(in.Name)
	if in.DocumentVersion != nil || in.VersionName != nil {
		return &awsssm.DeleteDocumentOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
			rec, err := documents.Get(tx, sc.Key(name))
			if err != nil {
				return store.NotFoundAs(err, errInvalidDocument(name))
			}
			v, err := versionOf(tx, sc, rec, aws.ToString(in.DocumentVersion), aws.ToString(in.VersionName))
			if err == nil && v.Number == rec.Default {
				err = &ssmtypes.InvalidDocumentOperation{Message: aws.String("Default version of the document can't be deleted.")}
			}
			if err == nil {
				documentVersions.Delete(tx, documentVersionKey(sc, name, v.Number))
			}
			return err
		})
	}
	// A transaction cannot delete a thousand versions. The last one deletes the record and the default version.
	for done := false; !done; {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			rec, err := documents.Get(tx, sc.Key(name))
			if err != nil {
				return store.NotFoundAs(err, errInvalidDocument(name))
			}
			if len(rec.Accounts) > 0 {
				return &ssmtypes.InvalidDocumentOperation{Message: aws.String("Must unshare document first before deleting")}
			}
			all := documentHistory(tx, sc, name)
			if done = len(all) <= 90; done {
				documents.Delete(tx, sc.Key(name))
			}
			for _, v := range all[:min(len(all), 90)] {
				if done || v.Number != rec.Default {
					documentVersions.Delete(tx, documentVersionKey(sc, name, v.Number))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return &awsssm.DeleteDocumentOutput{}, nil
}

// GetDocument returns the content of a document.
func (s *Service) GetDocument(ctx context.Context, in *awsssm.GetDocumentInput) (*awsssm.GetDocumentOutput, error) {
	d, err := s.document(scopeOf(ctx), aws.ToString(in.Name), aws.ToString(in.DocumentVersion), aws.ToString(in.VersionName))
	if err != nil {
		return nil, err
	}
	format, err := formatOf(in.DocumentFormat)
	if err != nil {
		return nil, err
	}
	if in.DocumentFormat != "" && format != d.version.Format {
		return nil, awserr.NotImplemented("GetDocument in another format than the document's: " + format)
	}
	return &awsssm.GetDocumentOutput{
		Name: &d.name, Content: &d.version.Content, DocumentFormat: ssmtypes.DocumentFormat(d.version.Format), DocumentType: ssmtypes.DocumentType(d.rec.Type), Status: ssmtypes.DocumentStatusActive,
		DocumentVersion: aws.String(strconv.FormatInt(d.version.Number, 10)), VersionName: optional(d.version.VersionName), DisplayName: optional(d.version.DisplayName), CreatedDate: aws.Time(d.version.Created),
	}, nil
}

// DescribeDocument describes a document.
func (s *Service) DescribeDocument(ctx context.Context, in *awsssm.DescribeDocumentInput) (*awsssm.DescribeDocumentOutput, error) {
	d, err := s.document(scopeOf(ctx), aws.ToString(in.Name), aws.ToString(in.DocumentVersion), aws.ToString(in.VersionName))
	if err != nil {
		return nil, err
	}
	out := d.describe()
	return &awsssm.DescribeDocumentOutput{Document: &out}, nil
}

func (d *foundDocument) describe() ssmtypes.DocumentDescription {
	sum := sha256.Sum256([]byte(d.version.Content))
	out := ssmtypes.DocumentDescription{
		Name: &d.name, Owner: &d.owner, DocumentType: ssmtypes.DocumentType(d.rec.Type), TargetType: optional(d.rec.TargetType), CreatedDate: aws.Time(d.version.Created),
		DocumentFormat: ssmtypes.DocumentFormat(d.version.Format), DocumentVersion: aws.String(strconv.FormatInt(d.version.Number, 10)), VersionName: optional(d.version.VersionName),
		DisplayName: optional(d.version.DisplayName), DefaultVersion: aws.String(strconv.FormatInt(d.rec.Default, 10)), LatestVersion: aws.String(strconv.FormatInt(d.rec.Latest, 10)),
		Hash: aws.String(hex.EncodeToString(sum[:])), HashType: ssmtypes.DocumentHashTypeSha256, SchemaVersion: aws.String(d.Schema), Description: optional(d.Description),
		Status: ssmtypes.DocumentStatusActive, PlatformTypes: d.platforms(), Tags: tagging.List(d.rec.Tags, func(k, v *string) ssmtypes.Tag { return ssmtypes.Tag{Key: k, Value: v} }),
	}
	for _, name := range slices.Sorted(maps.Keys(d.Parameters)) {
		p := d.Parameters[name]
		kind := ssmtypes.DocumentParameterTypeString
		if p.Type == "StringList" {
			kind = ssmtypes.DocumentParameterTypeStringList
		}
		out.Parameters = append(out.Parameters, ssmtypes.DocumentParameter{Name: &name, Type: kind, Description: optional(p.Description), DefaultValue: defaultOf(p.Default)})
	}
	return out
}

func defaultOf(v any) *string {
	if text, ok := v.(string); ok || v == nil {
		return optional(text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return aws.String(string(b))
}

func (d *foundDocument) platforms() []ssmtypes.PlatformType {
	if d.rec.Type == document.Session {
		return []ssmtypes.PlatformType{ssmtypes.PlatformTypeWindows, ssmtypes.PlatformTypeLinux, ssmtypes.PlatformTypeMacos}
	}
	var out []ssmtypes.PlatformType
	for _, step := range d.Steps {
		if step.Action == document.RunShellScript {
			out = append(out, ssmtypes.PlatformTypeLinux, ssmtypes.PlatformTypeMacos)
		} else {
			out = append(out, ssmtypes.PlatformTypeWindows)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ListDocuments lists the account's own documents, those shared with it, and AWS's.
func (s *Service) ListDocuments(ctx context.Context, in *awsssm.ListDocumentsInput) (*awsssm.ListDocumentsOutput, error) {
	sc := scopeOf(ctx)
	match, err := documentFilter(sc, in)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range document.All() {
		names = append(names, p.Name)
	}
	for _, i := range documents.All(s.store, store.Scope{}) {
		switch {
		case i.Key.Region != sc.Region:
		case i.Key.Account == sc.Account:
			names = append(names, i.Value.Name)
		case slices.Contains(i.Value.Accounts, sc.Account) || slices.Contains(i.Value.Accounts, "all"):
			names = append(names, arn.New("ssm", sc.Region, i.Key.Account, "document/"+i.Value.Name))
		}
	}
	var all []ssmtypes.DocumentIdentifier
	for _, name := range names {
		d, err := s.document(sc, name, "", "")
		if err != nil {
			if store.IsNotFound(err) || awserr.CodeOf(err) == "InvalidDocument" {
				continue // it has been deleted
			}
			return nil, err
		}
		if !match(d) {
			continue
		}
		x := d.describe()
		all = append(all, ssmtypes.DocumentIdentifier{
			Name: x.Name, Owner: x.Owner, DocumentType: x.DocumentType, DocumentFormat: x.DocumentFormat, DocumentVersion: x.DocumentVersion, VersionName: x.VersionName, DisplayName: x.DisplayName,
			CreatedDate: aws.Time(d.rec.Created), PlatformTypes: x.PlatformTypes, SchemaVersion: x.SchemaVersion, Tags: x.Tags, TargetType: x.TargetType,
		})
	}
	list, next, err := paging.Cut(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all, func(d ssmtypes.DocumentIdentifier) string { return *d.Name }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListDocumentsOutput{DocumentIdentifiers: append([]ssmtypes.DocumentIdentifier{}, list...), NextToken: next}, nil
}

// documentFilter converts the filters of a list of documents to a predicate. Both kinds of filters have the same keys.
func documentFilter(sc scope, in *awsssm.ListDocumentsInput) (func(*foundDocument) bool, error) {
	filters := map[string][]string{}
	for _, f := range in.Filters {
		filters[aws.ToString(f.Key)] = f.Values
	}
	for _, f := range in.DocumentFilterList {
		filters[string(f.Key)] = []string{aws.ToString(f.Value)}
	}
	for key := range filters {
		if !slices.Contains([]string{"DocumentType", "Name", "Owner", "PlatformTypes", "SearchKeyword", "TargetType"}, key) && !strings.HasPrefix(key, "tag:") {
			return nil, &ssmtypes.InvalidFilterKey{Message: aws.String("The specified filter key isn't valid: " + key)}
		}
	}
	passes := func(d *foundDocument, key, value string) bool {
		switch key {
		case "DocumentType":
			return d.rec.Type == value
		case "Name":
			return strings.HasPrefix(d.name, value)
		case "Owner":
			switch value {
			case "All":
				return true
			case "Self":
				return d.owner == sc.Account
			case "Amazon":
				return d.owner == "Amazon"
			case "Public":
				return d.owner != "Amazon" && slices.Contains(d.rec.Accounts, "all")
			case "Private":
				return d.owner != sc.Account && slices.Contains(d.rec.Accounts, sc.Account)
			}
			return false
		case "PlatformTypes":
			return slices.Contains(d.platforms(), ssmtypes.PlatformType(value))
		case "SearchKeyword":
			return strings.Contains(strings.ToLower(d.name), strings.ToLower(value))
		case "TargetType":
			return d.rec.TargetType == value
		}
		v, ok := d.rec.Tags[strings.TrimPrefix(key, "tag:")]
		return ok && v == value
	}
	return func(d *foundDocument) bool {
		for key, values := range filters {
			if !slices.ContainsFunc(values, func(v string) bool { return passes(d, key, v) }) {
				return false
			}
		}
		return true
	}, nil
}

// ListDocumentVersions lists the versions of a document, newest first.
func (s *Service) ListDocumentVersions(ctx context.Context, in *awsssm.ListDocumentVersionsInput) (*awsssm.ListDocumentVersionsOutput, error) {
	sc := scopeOf(ctx)
	d, err := s.document(sc, aws.ToString(in.Name), "", "")
	if err != nil {
		return nil, err
	}
	history := []documentVersion{d.version}
	if d.owner != "Amazon" {
		history = documentHistory(s.store, scope{regional.At(d.owner, sc.Region)}, d.rec.Name)
	}
	slices.Reverse(history)
	var all []ssmtypes.DocumentVersionInfo
	for _, v := range history {
		all = append(all, ssmtypes.DocumentVersionInfo{
			Name: &d.name, DocumentVersion: aws.String(strconv.FormatInt(v.Number, 10)), VersionName: optional(v.VersionName), DisplayName: optional(v.DisplayName), CreatedDate: aws.Time(v.Created),
			DocumentFormat: ssmtypes.DocumentFormat(v.Format), IsDefaultVersion: v.Number == d.rec.Default, Status: ssmtypes.DocumentStatusActive,
		})
	}
	list, next, err := paging.CutInOrder(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all, func(v ssmtypes.DocumentVersionInfo) string { return *v.DocumentVersion }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListDocumentVersionsOutput{DocumentVersions: list, NextToken: next}, nil
}

var accountForm = regexp.MustCompile(`^[0-9]{12}$`)

// ModifyDocumentPermission shares a document with some accounts or with all accounts, or stops sharing it.
func (s *Service) ModifyDocumentPermission(ctx context.Context, in *awsssm.ModifyDocumentPermissionInput) (*awsssm.ModifyDocumentPermissionOutput, error) {
	err := documents.UpdateOne(ctx, s.store, scopeOf(ctx).Key(aws.ToString(in.Name)), func(rec *documentRecord) error {
		var accounts []string
		for _, a := range slices.Concat(rec.Accounts, in.AccountIdsToAdd) {
			if strings.EqualFold(a, "all") {
				a = "all"
			} else if !accountForm.MatchString(a) {
				return errValidation("The account ID %q is not valid.", a)
			}
			if !slices.Contains(in.AccountIdsToRemove, a) && !(a == "all" && slices.Contains(in.AccountIdsToRemove, "All")) && !slices.Contains(accounts, a) {
				accounts = append(accounts, a)
			}
		}
		if len(accounts) > maxShares {
			return &ssmtypes.DocumentPermissionLimit{Message: aws.String("The document can't be shared with more Amazon Web Services accounts.")}
		}
		slices.Sort(accounts)
		rec.Accounts = accounts
		return nil
	})
	return &awsssm.ModifyDocumentPermissionOutput{}, store.NotFoundAs(err, errInvalidDocument(aws.ToString(in.Name)))
}

// DescribeDocumentPermission lists the accounts that a document is shared with.
func (s *Service) DescribeDocumentPermission(ctx context.Context, in *awsssm.DescribeDocumentPermissionInput) (*awsssm.DescribeDocumentPermissionOutput, error) {
	rec, err := documents.Get(s.store, scopeOf(ctx).Key(aws.ToString(in.Name)))
	if err != nil {
		return nil, store.NotFoundAs(err, errInvalidDocument(aws.ToString(in.Name)))
	}
	list, next, err := paging.Cut(paging.Rules{Usual: 200, BadToken: func(string) error { return errNextToken() }}, rec.Accounts, func(a string) string { return a }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsssm.DescribeDocumentPermissionOutput{AccountIds: append([]string{}, list...), AccountSharingInfoList: []ssmtypes.AccountSharingInfo{}, NextToken: next}
	for _, a := range list {
		out.AccountSharingInfoList = append(out.AccountSharingInfoList, ssmtypes.AccountSharingInfo{AccountId: &a, SharedDocumentVersion: aws.String("$DEFAULT")})
	}
	return out, nil
}

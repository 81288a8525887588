package ssm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	content := d.version.Content
	if in.DocumentFormat == "" {
		format = d.version.Format
	} else if format != d.version.Format {
		if content, err = document.Convert(content, format); err != nil {
			return nil, err
		}
	}
	return &awsssm.GetDocumentOutput{
		Name: &d.name, Content: &content, DocumentFormat: ssmtypes.DocumentFormat(format), DocumentType: ssmtypes.DocumentType(d.rec.Type), Status: ssmtypes.DocumentStatusActive,
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
			return nil, errInvalidFilterKey("The specified key isn't valid.")
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

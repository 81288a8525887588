package ssm

import (
	"context"
	"errors"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
	"github.com/drydock-dev/drydock/internal/store"
)

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

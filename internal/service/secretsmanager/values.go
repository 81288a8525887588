package secretsmanager

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A draft is a new version with its encrypted value, before it is stored.
type draft struct {
	id, key string
	value   valueRecord
	at      time.Time
	exists  bool // the version exists already, with the same value
}

// draft encrypts the value in a request for a new version of a secret. It returns nil if the request has no value.
func (s *Service) draft(ctx context.Context, sc scope, rec *secretRecord, token, text *string, data []byte) (*draft, error) {
	clear, isBinary := data, true
	switch {
	case text != nil && data != nil:
		return nil, errTwoValues()
	case text != nil:
		clear, isBinary = []byte(*text), false
	case data == nil:
		return nil, nil
	}
	d := &draft{id: aws.ToString(token), key: rec.Key, at: s.now()}
	if d.id == "" {
		d.id = ids.UUID()
	}
	if rec.at(d.id) >= 0 {
		old, err := values.Get(s.store, sc.Key(rec.ID+"/"+d.id))
		if err != nil {
			return nil, err
		}
		was, err := s.unseal(ctx, sc.arn(rec), d.id, &old)
		if err != nil {
			return nil, err
		}
		if old.Binary != isBinary || !bytes.Equal(was, clear) {
			return nil, errTokenUsed(d.id, rec.Name)
		}
		d.exists = true
		return d, nil
	}
	var err error
	d.value, err = s.seal(ctx, sc, rec.Key, sc.arn(rec), d.id, clear, isBinary)
	return d, err
}

// add stores the version and moves staging labels to it.
func (d *draft) add(tx *store.Tx, sc scope, r *secretRecord, stages []string) error {
	if !d.exists {
		if r.at(d.id) >= 0 {
			return errTokenUsed(d.id, r.Name)
		}
		if err := values.Put(tx, sc.Key(r.ID+"/"+d.id), d.value); err != nil {
			return err
		}
		r.Versions = append(slices.Clone(r.Versions), versionRecord{ID: d.id, Created: d.at, Key: d.key})
		r.Changed = d.at
	} else {
		r.Versions = slices.Clone(r.Versions)
	}
	for _, stage := range stages {
		r.move(stage, r.at(d.id))
	}
	return nil
}

// PutSecretValue adds a version.
func (s *Service) PutSecretValue(ctx context.Context, in *awssm.PutSecretValueInput) (*awssm.PutSecretValueOutput, error) {
	rec, sc, err := s.find(ctx, in.SecretId)
	if err != nil {
		return nil, err
	}
	d, err := s.draft(ctx, sc, &rec, in.ClientRequestToken, in.SecretString, in.SecretBinary)
	if err == nil && d == nil {
		err = errNoValue()
	}
	if err != nil {
		return nil, err
	}
	stages := in.VersionStages
	if len(stages) == 0 {
		stages = []string{current}
	}
	rec, _, err = s.change(ctx, in.SecretId, false, func(tx *store.Tx, sc scope, r *secretRecord) error {
		if len(r.Versions) == 0 && !slices.Contains(stages, current) {
			// The first version is the current one.
			return d.add(tx, sc, r, append([]string{current}, stages...))
		}
		return d.add(tx, sc, r, stages)
	})
	if err != nil {
		return nil, err
	}
	out := &awssm.PutSecretValueOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name, VersionId: &d.id}
	if i := rec.at(d.id); i >= 0 { // another request may have removed it again
		out.VersionStages = rec.Versions[i].Stages
	}
	return out, nil
}

// UpdateSecret changes a secret, and adds a version if the request has a value. If the key changes, the versions that
// have a staging label are encrypted again.
func (s *Service) UpdateSecret(ctx context.Context, in *awssm.UpdateSecretInput) (*awssm.UpdateSecretOutput, error) {
	rec, sc, err := s.find(ctx, in.SecretId)
	if err != nil {
		return nil, err
	}
	again := map[string]valueRecord{}
	if in.KmsKeyId != nil && *in.KmsKeyId != rec.Key {
		rec.Key = *in.KmsKeyId
		for _, v := range rec.Versions {
			if len(v.Stages) == 0 {
				continue
			}
			old, err := values.Get(s.store, sc.Key(rec.ID+"/"+v.ID))
			if err != nil {
				return nil, err
			}
			clear, err := s.unseal(ctx, sc.arn(&rec), v.ID, &old)
			if err != nil {
				return nil, err
			}
			if again[v.ID], err = s.seal(ctx, sc, rec.Key, sc.arn(&rec), v.ID, clear, old.Binary); err != nil {
				return nil, err
			}
		}
	}
	d, err := s.draft(ctx, sc, &rec, in.ClientRequestToken, in.SecretString, in.SecretBinary)
	if err != nil {
		return nil, err
	}
	key := rec.Key
	rec, _, err = s.change(ctx, in.SecretId, false, func(tx *store.Tx, sc scope, r *secretRecord) error {
		if in.Description != nil {
			r.Description = *in.Description
		}
		if in.KmsKeyId != nil {
			r.Key = key
		}
		r.Changed, r.Versions = s.now(), slices.Clone(r.Versions)
		for id, v := range again {
			if i := r.at(id); i >= 0 {
				r.Versions[i].Key = key
				if err := values.Put(tx, sc.Key(r.ID+"/"+id), v); err != nil {
					return err
				}
			}
		}
		if d == nil {
			return nil
		}
		return d.add(tx, sc, r, []string{current})
	})
	out := &awssm.UpdateSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}
	if d != nil {
		out.VersionId = &d.id
	}
	return out, err
}

// GetSecretValue decrypts a version: the current one unless the request says otherwise.
func (s *Service) GetSecretValue(ctx context.Context, in *awssm.GetSecretValueInput) (*awssm.GetSecretValueOutput, error) {
	rec, sc, err := s.find(ctx, in.SecretId)
	if err != nil {
		return nil, err
	}
	var i int
	switch stage := aws.ToString(in.VersionStage); {
	case in.VersionId != nil:
		if i = rec.at(*in.VersionId); i < 0 {
			return nil, errNoVersion("VersionId", *in.VersionId)
		}
		if stage != "" && !slices.Contains(rec.Versions[i].Stages, stage) {
			return nil, errVersionMismatch()
		}
	default:
		if stage == "" {
			stage = current
		}
		if i = rec.staged(stage); i < 0 {
			return nil, errNoVersion("staging label", stage)
		}
	}
	version := rec.Versions[i]
	v, err := values.Get(s.store, sc.Key(rec.ID+"/"+version.ID))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoVersion("VersionId", version.ID))
	}
	clear, err := s.unseal(ctx, sc.arn(&rec), version.ID, &v)
	if err != nil {
		return nil, err
	}
	if day := s.now().Truncate(24 * time.Hour); !version.Accessed.Equal(day) {
		_, _, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
			if i := r.at(version.ID); i >= 0 {
				r.Versions = slices.Clone(r.Versions)
				r.Accessed, r.Versions[i].Accessed = day, day
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out := &awssm.GetSecretValueOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name, VersionId: &version.ID, VersionStages: version.Stages, CreatedDate: &version.Created}
	if v.Binary {
		out.SecretBinary = clear
	} else {
		out.SecretString = aws.String(string(clear))
	}
	return out, nil
}

// BatchGetSecretValue decrypts the current versions of several secrets. The response has an error for each secret that
// the caller may not decrypt.
func (s *Service) BatchGetSecretValue(ctx context.Context, in *awssm.BatchGetSecretValueInput) (*awssm.BatchGetSecretValueOutput, error) {
	if (len(in.SecretIdList) > 0) == (len(in.Filters) > 0) {
		return nil, errBatch()
	}
	names, next := in.SecretIdList, (*string)(nil)
	if len(in.Filters) > 0 {
		found := s.filtered(scope{regional.Of(ctx)}, in.Filters, false)
		page, token, err := paging.CutInOrder(paging.Rules{Usual: 20, BadToken: errToken}, found, func(r secretRecord) string { return r.Name }, in.MaxResults, in.NextToken)
		if err != nil {
			return nil, err
		}
		next = token
		for _, r := range page {
			names = append(names, r.Name)
		}
	}
	out := &awssm.BatchGetSecretValueOutput{SecretValues: []smtypes.SecretValueEntry{}, Errors: []smtypes.APIErrorType{}, NextToken: next}
	for _, name := range names {
		v, err := awsapi.Do[awssm.GetSecretValueOutput](ctx, s.api, &awssm.GetSecretValueInput{SecretId: &name})
		switch code := awserr.CodeOf(err); {
		case err == nil:
			out.SecretValues = append(out.SecretValues, smtypes.SecretValueEntry{
				ARN: v.ARN, Name: v.Name, VersionId: v.VersionId, VersionStages: v.VersionStages, CreatedDate: v.CreatedDate, SecretString: v.SecretString, SecretBinary: v.SecretBinary,
			})
		case code == "" || awsapi.IsThrottle(err):
			return nil, err
		default:
			out.Errors = append(out.Errors, smtypes.APIErrorType{SecretId: &name, ErrorCode: &code, Message: aws.String(awserr.TextOf(err))})
		}
	}
	return out, nil
}

// ListSecretVersionIds lists versions. It includes those without a staging label only on request.
func (s *Service) ListSecretVersionIds(ctx context.Context, in *awssm.ListSecretVersionIdsInput) (*awssm.ListSecretVersionIdsOutput, error) {
	rec, sc, err := s.find(ctx, in.SecretId)
	if err != nil {
		return nil, err
	}
	shown := slices.DeleteFunc(slices.Clone(rec.Versions), func(v versionRecord) bool { return len(v.Stages) == 0 && !aws.ToBool(in.IncludeDeprecated) })
	page, next, err := paging.CutInOrder(paging.Rules{Usual: 100, Question: rec.ID, BadToken: errToken}, shown, func(v versionRecord) string { return v.ID }, in.MaxResults, in.NextToken)
	out := &awssm.ListSecretVersionIdsOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name, Versions: []smtypes.SecretVersionsListEntry{}, NextToken: next}
	for _, v := range page {
		key := v.Key
		if key == "" {
			key = "DefaultEncryptionKey"
		}
		out.Versions = append(out.Versions, smtypes.SecretVersionsListEntry{VersionId: &v.ID, VersionStages: v.Stages, CreatedDate: &v.Created, LastAccessedDate: moment(v.Accessed), KmsKeyIds: []string{key}})
	}
	return out, err
}

// UpdateSecretVersionStage moves a staging label from one version to another, or removes it.
// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_UpdateSecretVersionStage.html
func (s *Service) UpdateSecretVersionStage(ctx context.Context, in *awssm.UpdateSecretVersionStageInput) (*awssm.UpdateSecretVersionStageOutput, error) {
	rec, sc, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		stage, from, to := *in.VersionStage, r.staged(*in.VersionStage), -1
		if in.MoveToVersionId != nil {
			if to = r.at(*in.MoveToVersionId); to < 0 {
				return errNoVersion("VersionId", *in.MoveToVersionId)
			}
		}
		switch remove := aws.ToString(in.RemoveFromVersionId); {
		case remove == "" && from >= 0 && from != to:
			return errMoveFrom(stage, r.Versions[from].ID)
		case remove != "" && (from < 0 || r.Versions[from].ID != remove):
			return errNotAttached(stage, remove)
		case stage == current && to < 0:
			return errCurrentNeeded()
		}
		r.Versions, r.Changed = slices.Clone(r.Versions), s.now()
		r.move(stage, to)
		return nil
	})
	return &awssm.UpdateSecretVersionStageOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}, err
}

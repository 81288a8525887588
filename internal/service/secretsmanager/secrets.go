package secretsmanager

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9/_+=.@!-]+$`)

// CreateSecret creates a secret, with a first version if the request has a value.
func (s *Service) CreateSecret(ctx context.Context, in *awssm.CreateSecretInput) (*awssm.CreateSecretOutput, error) {
	if !nameForm.MatchString(*in.Name) {
		return nil, errName()
	}
	sc, now := scope{regional.Of(ctx)}, s.now()
	rec := secretRecord{ID: ids.Hex(16), Name: *in.Name, Suffix: ids.Hex(6), Description: aws.ToString(in.Description), Key: aws.ToString(in.KmsKeyId), Created: now, Changed: now}
	var err error
	if rec.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	// A repeated request has the same token and value as the first version, and changes nothing.
	if old, err := s.get(s.store, sc, rec.Name); err == nil {
		if in.ClientRequestToken != nil && old.Deleted.IsZero() && len(old.Versions) > 0 && old.Versions[0].ID == *in.ClientRequestToken {
			if d, err := s.draft(ctx, sc, &old, in.ClientRequestToken, in.SecretString, in.SecretBinary); err == nil && d != nil {
				return &awssm.CreateSecretOutput{ARN: aws.String(sc.arn(&old)), Name: &old.Name, VersionId: &d.id}, nil
			}
		}
		return nil, taken(&old)
	}
	put, err := s.draft(ctx, sc, &rec, in.ClientRequestToken, in.SecretString, in.SecretBinary)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := secrets.Get(tx, sc.Key(rec.Name))
		switch {
		case err == nil && !s.gone(&old):
			return taken(&old)
		case err == nil:
			remove(tx, sc.Scope, &old)
		case !store.IsNotFound(err):
			return err
		}
		made := rec
		if put != nil {
			if err := put.add(tx, sc, &made, []string{current}); err != nil {
				return err
			}
		}
		return secrets.Put(tx, sc.Key(made.Name), made)
	})
	out := &awssm.CreateSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}
	if put != nil {
		out.VersionId = &put.id
	}
	return out, err
}

// taken returns the error for a name that is already in use.
func taken(old *secretRecord) error {
	if !old.Deleted.IsZero() {
		return errDeletionScheduled()
	}
	return errExists(old.Name)
}

func putTags(old map[string]string, more []smtypes.Tag) (map[string]string, error) {
	rules := tagging.Rules{Most: 50, Reserved: errReservedTag, TooMany: errManyTags}
	return tagging.Put(rules, old, more, func(t smtypes.Tag) (key, value *string) { return t.Key, t.Value })
}

func tagList(tags map[string]string) []smtypes.Tag {
	return tagging.List(tags, func(k, v *string) smtypes.Tag { return smtypes.Tag{Key: k, Value: v} })
}

// entry describes a secret.
func (s *Service) entry(sc scope, r *secretRecord) smtypes.SecretListEntry {
	out := smtypes.SecretListEntry{
		ARN: aws.String(sc.arn(r)), Name: &r.Name, Description: some(r.Description), KmsKeyId: some(r.Key), CreatedDate: &r.Created, LastChangedDate: &r.Changed,
		LastAccessedDate: moment(r.Accessed), DeletedDate: moment(r.Deleted),
	}
	if len(r.Tags) > 0 {
		out.Tags = tagList(r.Tags)
	}
	for _, v := range r.Versions {
		if len(v.Stages) > 0 {
			if out.SecretVersionsToStages == nil {
				out.SecretVersionsToStages = map[string][]string{}
			}
			out.SecretVersionsToStages[v.ID] = v.Stages
		}
	}
	if rot := r.Rotation; rot.Lambda != "" {
		out.RotationLambdaARN, out.RotationEnabled = &rot.Lambda, &rot.Enabled
		out.RotationRules = &smtypes.RotationRulesType{Duration: some(rot.Duration), ScheduleExpression: some(rot.Schedule)}
		if rot.Days > 0 {
			out.RotationRules.AutomaticallyAfterDays = &rot.Days
			if rot.Enabled {
				out.NextRotationDate = aws.Time(rot.Set.Truncate(24 * time.Hour).Add(time.Duration(rot.Days+1)*24*time.Hour - time.Second))
			}
		}
	}
	return out
}

func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// DescribeSecret describes a secret, including one that is marked for deletion.
func (s *Service) DescribeSecret(ctx context.Context, in *awssm.DescribeSecretInput) (*awssm.DescribeSecretOutput, error) {
	rec, sc, err := s.lookup(s.store, scope{regional.Of(ctx)}, *in.SecretId)
	e := s.entry(sc, &rec)
	return &awssm.DescribeSecretOutput{
		ARN: e.ARN, Name: e.Name, Description: e.Description, KmsKeyId: e.KmsKeyId, CreatedDate: e.CreatedDate, LastChangedDate: e.LastChangedDate, LastAccessedDate: e.LastAccessedDate,
		DeletedDate: e.DeletedDate, NextRotationDate: e.NextRotationDate, RotationEnabled: e.RotationEnabled, RotationLambdaARN: e.RotationLambdaARN, RotationRules: e.RotationRules,
		Tags: e.Tags, VersionIdsToStages: e.SecretVersionsToStages,
	}, err
}

// ListSecrets lists secrets in the order of their creation.
func (s *Service) ListSecrets(ctx context.Context, in *awssm.ListSecretsInput) (*awssm.ListSecretsOutput, error) {
	sc := scope{regional.Of(ctx)}
	found := s.filtered(sc, in.Filters, aws.ToBool(in.IncludePlannedDeletion))
	if in.SortOrder == smtypes.SortOrderTypeDesc {
		slices.Reverse(found)
	}
	page, next, err := paging.CutInOrder(paging.Rules{Usual: 100, BadToken: errToken}, found, func(r secretRecord) string { return r.Name }, in.MaxResults, in.NextToken)
	out := &awssm.ListSecretsOutput{SecretList: []smtypes.SecretListEntry{}, NextToken: next}
	for _, r := range page {
		out.SecretList = append(out.SecretList, s.entry(sc, &r))
	}
	return out, err
}

// filtered returns the secrets that match all filters, oldest first.
func (s *Service) filtered(sc scope, filters []smtypes.Filter, deleted bool) []secretRecord {
	var out []secretRecord
	for _, item := range secrets.All(s.store, sc.All()) {
		r := item.Value
		if s.gone(&r) || !deleted && !r.Deleted.IsZero() {
			continue
		}
		if !slices.ContainsFunc(filters, func(f smtypes.Filter) bool { return !matches(sc, &r, f) }) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b secretRecord) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return out
}

// matches reports whether a secret matches one of a filter's values. It matches a value if one of its texts begins with
// the value or, for a value that starts with !, if none does. Only names and tags are case-sensitive.
// https://docs.aws.amazon.com/secretsmanager/latest/userguide/manage_search-secret.html
func matches(sc scope, r *secretRecord, f smtypes.Filter) bool {
	words := func(text string) []string { return strings.Fields(strings.ToLower(text)) }
	var texts []string
	folds := false
	switch f.Key {
	case smtypes.FilterNameStringTypeName:
		texts = []string{r.Name}
	case smtypes.FilterNameStringTypeDescription:
		texts, folds = words(r.Description), true
	case smtypes.FilterNameStringTypeTagKey:
		texts = slices.Collect(maps.Keys(r.Tags))
	case smtypes.FilterNameStringTypeTagValue:
		texts = slices.Collect(maps.Values(r.Tags))
	case smtypes.FilterNameStringTypePrimaryRegion:
		texts = []string{sc.Region}
	case smtypes.FilterNameStringTypeAll:
		texts, folds = append(words(r.Description), words(strings.NewReplacer("/", " ", "_", " ", "+", " ", "=", " ", ".", " ", "@", " ", "-", " ").Replace(r.Name))...), true
		for k, v := range r.Tags {
			texts = append(texts, strings.ToLower(k), strings.ToLower(v))
		}
	}
	begins := func(value string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.HasPrefix(t, value) })
	}
	return slices.ContainsFunc(f.Values, func(value string) bool {
		value, not := strings.CutPrefix(value, "!")
		if !folds {
			return begins(value) != not
		}
		all := words(value)
		return !slices.ContainsFunc(all, func(w string) bool { return !begins(w) }) != not
	})
}

// DeleteSecret schedules a secret's deletion, or deletes it at once.
func (s *Service) DeleteSecret(ctx context.Context, in *awssm.DeleteSecretInput) (*awssm.DeleteSecretOutput, error) {
	force, days := aws.ToBool(in.ForceDeleteWithoutRecovery), int64(30)
	if in.RecoveryWindowInDays != nil {
		if days = *in.RecoveryWindowInDays; force {
			return nil, errWindowAndForce()
		}
		if days < 7 || days > 30 {
			return nil, errWindow()
		}
	}
	now := s.now()
	if force {
		var rec secretRecord
		sc := scope{regional.Of(ctx)}
		err := s.store.Update(ctx, func(tx *store.Tx) (err error) {
			if rec, sc, err = s.lookup(tx, scope{regional.Of(ctx)}, *in.SecretId); err != nil {
				return err
			}
			remove(tx, sc.Scope, &rec)
			return nil
		})
		out := &awssm.DeleteSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name, DeletionDate: &now}
		// Deleting a secret that does not exist succeeds.
		// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DeleteSecret.html
		if awserr.CodeOf(err) == awserr.CodeOf(errNoSecret()) {
			out.ARN, out.Name, err = in.SecretId, in.SecretId, nil
		}
		return out, err
	}
	rec, sc, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		r.Deleted, r.Until = now, now.AddDate(0, 0, int(days))
		return nil
	})
	return &awssm.DeleteSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name, DeletionDate: &rec.Until}, err
}

// RestoreSecret cancels a deletion.
func (s *Service) RestoreSecret(ctx context.Context, in *awssm.RestoreSecretInput) (*awssm.RestoreSecretOutput, error) {
	rec, sc, err := s.change(ctx, in.SecretId, true, func(_ *store.Tx, _ scope, r *secretRecord) error {
		r.Deleted, r.Until = time.Time{}, time.Time{}
		return nil
	})
	return &awssm.RestoreSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}, err
}

// TagResource sets tags.
func (s *Service) TagResource(ctx context.Context, in *awssm.TagResourceInput) (*awssm.TagResourceOutput, error) {
	_, _, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) (err error) {
		r.Tags, err = putTags(r.Tags, in.Tags)
		return err
	})
	return &awssm.TagResourceOutput{}, err
}

// UntagResource removes tags.
func (s *Service) UntagResource(ctx context.Context, in *awssm.UntagResourceInput) (*awssm.UntagResourceOutput, error) {
	_, _, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		r.Tags = maps.Clone(r.Tags)
		for _, k := range in.TagKeys {
			delete(r.Tags, k)
		}
		return nil
	})
	return &awssm.UntagResourceOutput{}, err
}

// RotateSecret stores a secret's rotation settings. Nothing acts on them.
func (s *Service) RotateSecret(ctx context.Context, in *awssm.RotateSecretInput) (*awssm.RotateSecretOutput, error) {
	rec, sc, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		rot := &r.Rotation
		if in.RotationLambdaARN != nil {
			if !strings.HasPrefix(*in.RotationLambdaARN, "arn:aws:lambda:") {
				return errLambda()
			}
			rot.Lambda = *in.RotationLambdaARN
		}
		if rot.Lambda == "" {
			return errNoRotation()
		}
		if rules := in.RotationRules; rules != nil {
			schedule := aws.ToString(rules.ScheduleExpression)
			if (rules.AutomaticallyAfterDays != nil) == (schedule != "") || schedule != "" && !strings.HasPrefix(schedule, "rate(") && !strings.HasPrefix(schedule, "cron(") {
				return errRules()
			}
			rot.Days, rot.Duration, rot.Schedule = aws.ToInt64(rules.AutomaticallyAfterDays), aws.ToString(rules.Duration), schedule
		}
		rot.Enabled, rot.Set = true, s.now()
		r.Changed = rot.Set
		return nil
	})
	out := &awssm.RotateSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}
	if i := rec.staged(current); i >= 0 {
		out.VersionId = &rec.Versions[i].ID
	}
	return out, err
}

// CancelRotateSecret turns rotation off.
func (s *Service) CancelRotateSecret(ctx context.Context, in *awssm.CancelRotateSecretInput) (*awssm.CancelRotateSecretOutput, error) {
	rec, sc, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		if r.Rotation.Lambda == "" {
			return errNoRotation()
		}
		r.Rotation.Enabled, r.Changed = false, s.now()
		return nil
	})
	return &awssm.CancelRotateSecretOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}, err
}

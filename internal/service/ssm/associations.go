package ssm

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/schedule"
	"github.com/drydock-dev/drydock/internal/store"
)

// An association of State Manager runs a Command document on instances when it is created or updated, on a schedule, and
// on instances that become its targets. This file has the associations themselves, association_runs.go runs them, and
// association_history.go describes their runs.

// Quotas of associations. https://docs.aws.amazon.com/general/latest/gr/ssm.html#limits_ssm
const (
	maxAssociations        = 2000
	maxAssociationVersions = 1000
)

// An associationRecord is an association in its latest version.
type associationRecord struct {
	ID string
	// InstanceID is set if the association was created for one instance by its ID, not for targets.
	InstanceID string `json:",omitempty"`
	Created    time.Time
	associationVersion
	// Due is when the association last was due. It runs on every target that it has not run on since.
	Due  time.Time         `json:",omitzero"`
	Tags map[string]string `json:",omitempty"`
}

// An associationVersion is a version of an association.
type associationVersion struct {
	Version         int64
	Updated         time.Time
	Name            string `json:",omitempty"`
	Document        string
	DocumentVersion string
	Parameters      map[string][]string `json:",omitempty"`
	Targets         []ssmtypes.Target
	Schedule        string `json:",omitempty"`
	Offset          int32  `json:",omitempty"` // days after Schedule
	OnlyScheduled   bool   `json:",omitempty"` // a new version waits for the schedule
	Concurrency     string `json:",omitempty"`
	Errors          string `json:",omitempty"`
	Severity        string `json:",omitempty"`
	Sync            string `json:",omitempty"`
	Bucket          string `json:",omitempty"`
	BucketRegion    string `json:",omitempty"`
	Prefix          string `json:",omitempty"`
}

var (
	associations        = store.NewCollection[associationRecord]("ssm", "association")
	associationVersions = store.NewCollection[associationVersion]("ssm", "association-version") // ASSOCIATION/NUMBER
)

func associationVersionKey(association store.Key, n int64) store.Key {
	return association.Below(fmt.Sprintf("%06d", n))
}

func associationARN(sc scope, id string) string {
	return arn.New("ssm", sc.Region, sc.Account, "association/"+id)
}

// The texts of these errors are our own; AWS's are not known.

func errNoAssociation() error {
	return &ssmtypes.AssociationDoesNotExist{Message: aws.String("The association does not exist.")}
}

func errSchedule(text, why string) error {
	return &ssmtypes.InvalidSchedule{Message: aws.String(fmt.Sprintf("The schedule expression %q is not valid: %s.", text, why))}
}

func errAssociationTarget(why string) error { return &ssmtypes.InvalidTarget{Message: &why} }

// The limits of rates of associations.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/reference-cron-and-rate-expressions.html
const (
	minRate = 30 * time.Minute
	maxRate = 31 * 24 * time.Hour
)

// next returns when a version is due after a given time. It returns false if it is never due again.
func (v *associationVersion) next(after time.Time) (time.Time, bool) {
	if at, ok := strings.CutPrefix(v.Schedule, "at("); ok {
		t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(at, ")"))
		return t, err == nil && t.After(after)
	}
	if v.Schedule == "" {
		return time.Time{}, false
	}
	s, err := schedule.Parse(withoutSeconds(v.Schedule))
	if err != nil {
		return time.Time{}, false // it was valid when it was stored
	}
	days := time.Duration(v.Offset) * 24 * time.Hour
	t, ok := s.Next(v.Updated, after.Add(-days))
	return t.Add(days), ok
}

// startsAtOnce reports whether a new version runs without waiting for its schedule. A time that has passed is not waited
// for. [seen] the AWS CLI's example of create-association
func (v *associationVersion) startsAtOnce(now time.Time) bool {
	_, later := v.next(now)
	return !v.OnlyScheduled || strings.HasPrefix(v.Schedule, "at(") && !later
}

// withoutSeconds returns a cron expression without the seconds, which associations may begin with.
func withoutSeconds(text string) string {
	fields, ok := strings.CutPrefix(text, "cron(")
	if f := strings.Fields(fields); ok && len(f) == 7 {
		return "cron(" + strings.Join(f[1:], " ")
	}
	return text
}

// checkSchedule returns an error if a version's schedule is not valid.
func (v *associationVersion) checkSchedule() error {
	isCron := strings.HasPrefix(v.Schedule, "cron(")
	switch {
	case v.Schedule == "" && v.OnlyScheduled:
		return errSchedule("", "ApplyOnlyAtCronInterval needs one")
	case v.Schedule == "":
		return nil
	case v.OnlyScheduled && strings.HasPrefix(v.Schedule, "rate("):
		return errSchedule(v.Schedule, "ApplyOnlyAtCronInterval is not supported for rates")
	case v.Offset > 0 && !isCron:
		return errSchedule(v.Schedule, "ScheduleOffset is supported for cron only")
	}
	if at, ok := strings.CutPrefix(v.Schedule, "at("); ok {
		if _, err := time.Parse("2006-01-02T15:04:05)", at); err != nil {
			return errSchedule(v.Schedule, "a time has the form at(yyyy-mm-ddThh:mm:ss)")
		}
		return nil
	}
	s, err := schedule.Parse(withoutSeconds(v.Schedule))
	if err != nil {
		return errSchedule(v.Schedule, "want rate(…), cron(…) or at(…)")
	}
	if first, _ := s.Next(time.Time{}, time.Time{}); !isCron && (first.Sub(time.Time{}) < minRate || first.Sub(time.Time{}) > maxRate) {
		return errSchedule(v.Schedule, "a rate is between 30 minutes and 31 days")
	}
	return nil
}

// checkAssociation returns an error if a version of an association cannot run.
func (s *Service) checkAssociation(ctx context.Context, sc scope, v *associationVersion) error {
	for i := range v.Targets {
		if err := checkTarget(&v.Targets[i]); err != nil {
			return err
		}
	}
	if err := v.checkSchedule(); err != nil {
		return err
	}
	name, _, err := s.scripts(ctx, sc, v.Document, v.DocumentVersion, v.Parameters)
	v.Document = name
	return err
}

// matchesAssociation reports whether an instance is a target of an association.
func (s *Service) matchesAssociation(v *associationVersion, i *machine.Instance) bool {
	return !slices.ContainsFunc(v.Targets, func(t ssmtypes.Target) bool {
		all := strings.EqualFold(aws.ToString(t.Key), "InstanceIds") && slices.Contains(t.Values, "*")
		return !all && !s.targeted(i, &t)
	})
}

func outputOf(v *associationVersion, o *ssmtypes.InstanceAssociationOutputLocation) {
	if o != nil && o.S3Location != nil {
		v.Bucket, v.Prefix, v.BucketRegion = aws.ToString(o.S3Location.OutputS3BucketName), aws.ToString(o.S3Location.OutputS3KeyPrefix), aws.ToString(o.S3Location.OutputS3Region)
	}
}

func (v *associationVersion) output() *ssmtypes.InstanceAssociationOutputLocation {
	if v.Bucket == "" {
		return nil
	}
	return &ssmtypes.InstanceAssociationOutputLocation{S3Location: &ssmtypes.S3OutputLocation{OutputS3BucketName: &v.Bucket, OutputS3KeyPrefix: optional(v.Prefix), OutputS3Region: optional(v.BucketRegion)}}
}

func (v *associationVersion) offset() *int32 {
	if v.Offset == 0 {
		return nil
	}
	return &v.Offset
}

// CreateAssociation creates an association with an instance or with targets.
func (s *Service) CreateAssociation(ctx context.Context, in *awsssm.CreateAssociationInput) (*awsssm.CreateAssociationOutput, error) {
	sc, now := scopeOf(ctx), s.now()
	a := associationRecord{ID: ids.UUID(), InstanceID: aws.ToString(in.InstanceId), Created: now}
	a.associationVersion = associationVersion{
		Version: 1, Updated: now, Name: aws.ToString(in.AssociationName), Document: *in.Name, DocumentVersion: cmp.Or(aws.ToString(in.DocumentVersion), "$DEFAULT"),
		Parameters: in.Parameters, Targets: in.Targets, Schedule: aws.ToString(in.ScheduleExpression), Offset: aws.ToInt32(in.ScheduleOffset), OnlyScheduled: in.ApplyOnlyAtCronInterval,
		Concurrency: aws.ToString(in.MaxConcurrency), Errors: aws.ToString(in.MaxErrors), Severity: string(in.ComplianceSeverity), Sync: string(in.SyncCompliance),
	}
	outputOf(&a.associationVersion, in.OutputLocation)
	switch {
	case a.InstanceID != "" && len(a.Targets) > 0:
		return nil, errAssociationTarget("InstanceId and Targets cannot be used together.")
	case a.InstanceID != "":
		if _, err := s.runningInstance(sc, a.InstanceID); err != nil {
			return nil, err
		}
		a.Targets = []ssmtypes.Target{{Key: aws.String("InstanceIds"), Values: []string{a.InstanceID}}}
	case len(a.Targets) == 0:
		return nil, errAssociationTarget("An association needs an InstanceId or Targets.")
	}
	if err := s.checkAssociation(ctx, sc, &a.associationVersion); err != nil {
		return nil, err
	}
	var err error
	if a.Tags, err = addTags(nil, in.Tags); err != nil {
		return nil, err
	}
	if a.startsAtOnce(now) {
		a.Due = now
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		all := associations.All(tx, sc.All())
		if len(all) >= maxAssociations {
			return &ssmtypes.AssociationLimitExceeded{}
		}
		if a.InstanceID != "" && slices.ContainsFunc(all, func(i store.Item[associationRecord]) bool {
			return i.Value.InstanceID == a.InstanceID && i.Value.Document == a.Document
		}) {
			return &ssmtypes.AssociationAlreadyExists{}
		}
		if err := associationVersions.Create(tx, associationVersionKey(sc.Key(a.ID), 1), a.associationVersion); err != nil {
			return err
		}
		return associations.Create(tx, sc.Key(a.ID), a)
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.CreateAssociationOutput{AssociationDescription: s.describeNew(sc, &a)}, nil
}

// describeNew describes an association whose latest version has not been processed yet.
func (s *Service) describeNew(sc scope, a *associationRecord) *ssmtypes.AssociationDescription {
	out := s.describeAssociation(sc, a)
	out.Overview = &ssmtypes.AssociationOverview{Status: aws.String("Pending"), DetailedStatus: aws.String("Creating")}
	return out
}

func (s *Service) describeAssociation(sc scope, a *associationRecord) *ssmtypes.AssociationDescription {
	overview, last, success := s.overview(sc, a)
	out := &ssmtypes.AssociationDescription{
		AssociationId: &a.ID, AssociationName: optional(a.Name), AssociationVersion: aws.String(strconv.FormatInt(a.Version, 10)), Name: &a.Document, DocumentVersion: &a.DocumentVersion,
		InstanceId: optional(a.InstanceID), Parameters: a.Parameters, Targets: a.Targets, ScheduleExpression: optional(a.Schedule), ScheduleOffset: a.offset(), ApplyOnlyAtCronInterval: a.OnlyScheduled,
		MaxConcurrency: optional(a.Concurrency), MaxErrors: optional(a.Errors), ComplianceSeverity: ssmtypes.AssociationComplianceSeverity(a.Severity), SyncCompliance: ssmtypes.AssociationSyncCompliance(a.Sync),
		OutputLocation: a.output(), Date: &a.Created, LastUpdateAssociationDate: &a.Updated, Overview: overview, LastExecutionDate: last, LastSuccessfulExecutionDate: success,
	}
	if a.InstanceID != "" {
		out.Status = &ssmtypes.AssociationStatus{Date: &a.Updated, Name: "Associated", Message: aws.String("Associated with " + a.Document)}
	}
	return out
}

// association returns the association with an ID or, if the ID is nil, the one of a document and an instance.
func (s *Service) association(sc scope, id, name, instance *string) (associationRecord, error) {
	if id != nil {
		a, err := associations.Get(s.store, sc.Key(*id))
		return a, store.NotFoundAs(err, errNoAssociation())
	}
	for _, i := range associations.All(s.store, sc.All()) {
		if name != nil && instance != nil && i.Value.Document == *name && i.Value.InstanceID == *instance {
			return i.Value, nil
		}
	}
	return associationRecord{}, errNoAssociation()
}

// DescribeAssociation describes a version of an association.
func (s *Service) DescribeAssociation(ctx context.Context, in *awsssm.DescribeAssociationInput) (*awsssm.DescribeAssociationOutput, error) {
	sc := scopeOf(ctx)
	a, err := s.association(sc, in.AssociationId, in.Name, in.InstanceId)
	if err != nil {
		return nil, err
	}
	if v := aws.ToString(in.AssociationVersion); v != "" && v != "$LATEST" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, errAssociationVersion()
		}
		if a.associationVersion, err = associationVersions.Get(s.store, associationVersionKey(sc.Key(a.ID), n)); err != nil {
			return nil, store.NotFoundAs(err, errAssociationVersion())
		}
	}
	return &awsssm.DescribeAssociationOutput{AssociationDescription: s.describeAssociation(sc, &a)}, nil
}

func errAssociationVersion() error {
	return &ssmtypes.InvalidAssociationVersion{Message: aws.String("The association version is not valid or does not exist.")} // our own text
}

// UpdateAssociation creates a new version of an association. Optional members that the request omits lose their values,
// except for the name of the document and the targets.
func (s *Service) UpdateAssociation(ctx context.Context, in *awsssm.UpdateAssociationInput) (*awsssm.UpdateAssociationOutput, error) {
	sc, now := scopeOf(ctx), s.now()
	a, err := s.association(sc, in.AssociationId, nil, nil)
	if err != nil {
		return nil, err
	}
	old := a
	if v := aws.ToString(in.AssociationVersion); v != "" && v != "$LATEST" && v != strconv.FormatInt(a.Version, 10) {
		return nil, errAssociationVersion()
	}
	if a.Version >= maxAssociationVersions {
		return nil, &ssmtypes.AssociationVersionLimitExceeded{}
	}
	targets := in.Targets
	if len(targets) == 0 {
		targets = a.Targets
	} else {
		a.InstanceID = ""
	}
	a.associationVersion = associationVersion{
		Version: a.Version + 1, Updated: now, Name: aws.ToString(in.AssociationName), Document: cmp.Or(aws.ToString(in.Name), a.Document), DocumentVersion: cmp.Or(aws.ToString(in.DocumentVersion), "$DEFAULT"),
		Parameters: in.Parameters, Targets: targets, Schedule: aws.ToString(in.ScheduleExpression), Offset: aws.ToInt32(in.ScheduleOffset), OnlyScheduled: in.ApplyOnlyAtCronInterval,
		Concurrency: aws.ToString(in.MaxConcurrency), Errors: aws.ToString(in.MaxErrors), Severity: string(in.ComplianceSeverity), Sync: string(in.SyncCompliance),
	}
	outputOf(&a.associationVersion, in.OutputLocation)
	if err := s.checkAssociation(ctx, sc, &a.associationVersion); err != nil {
		return nil, err
	}
	if a.startsAtOnce(now) {
		a.due(now)
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		err := associations.Update(tx, sc.Key(a.ID), func(rec *associationRecord) error {
			if rec.Version != old.Version {
				return errConcurrent()
			}
			a.Tags = rec.Tags
			*rec = a
			return nil
		})
		if err != nil {
			return store.NotFoundAs(err, errNoAssociation())
		}
		return associationVersions.Create(tx, associationVersionKey(sc.Key(a.ID), a.Version), a.associationVersion)
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.UpdateAssociationOutput{AssociationDescription: s.describeNew(sc, &a)}, nil
}

// DeleteAssociation deletes an association. Runs that are under way are cancelled.
func (s *Service) DeleteAssociation(ctx context.Context, in *awsssm.DeleteAssociationInput) (*awsssm.DeleteAssociationOutput, error) {
	sc := scopeOf(ctx)
	a, err := s.association(sc, in.AssociationId, in.Name, in.InstanceId)
	if err != nil {
		return nil, err
	}
	return &awsssm.DeleteAssociationOutput{}, s.store.Update(ctx, func(tx *store.Tx) error { associations.Delete(tx, sc.Key(a.ID)); return nil })
}

// ListAssociations lists the associations that pass all filters.
func (s *Service) ListAssociations(ctx context.Context, in *awsssm.ListAssociationsInput) (*awsssm.ListAssociationsOutput, error) {
	sc := scopeOf(ctx)
	var all []ssmtypes.Association
	for _, i := range associations.All(s.store, sc.All()) {
		a := i.Value
		overview, last, _ := s.overview(sc, &a)
		passes := true
		for _, f := range in.AssociationFilterList {
			ok, err := s.passes(&a, overview, last, f)
			if err != nil {
				return nil, err
			}
			passes = passes && ok
		}
		if passes {
			all = append(all, ssmtypes.Association{
				AssociationId: &a.ID, AssociationName: optional(a.Name), AssociationVersion: aws.String(strconv.FormatInt(a.Version, 10)), Name: &a.Document, DocumentVersion: &a.DocumentVersion,
				InstanceId: optional(a.InstanceID), Targets: a.Targets, ScheduleExpression: optional(a.Schedule), ScheduleOffset: a.offset(), Overview: overview, LastExecutionDate: last,
			})
		}
	}
	list, next, err := paging.Cut(associationPages, all, func(a ssmtypes.Association) string { return *a.AssociationId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListAssociationsOutput{Associations: append([]ssmtypes.Association{}, list...), NextToken: next}, nil
}

var associationPages = paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}

// passes reports whether an association passes a filter.
func (s *Service) passes(a *associationRecord, overview *ssmtypes.AssociationOverview, last *time.Time, f ssmtypes.AssociationFilter) (bool, error) {
	value := aws.ToString(f.Value)
	switch f.Key {
	case ssmtypes.AssociationFilterKeyInstanceId:
		return slices.ContainsFunc(a.Targets, func(t ssmtypes.Target) bool {
			return strings.EqualFold(aws.ToString(t.Key), "InstanceIds") && slices.Contains(t.Values, value)
		}), nil
	case ssmtypes.AssociationFilterKeyName:
		return a.Document == value, nil
	case ssmtypes.AssociationFilterKeyAssociationId:
		return a.ID == value, nil
	case ssmtypes.AssociationFilterKeyAssociationName:
		return a.Name == value, nil
	case ssmtypes.AssociationFilterKeyStatus:
		return *overview.Status == value, nil
	case ssmtypes.AssociationFilterKeyLastExecutedBefore, ssmtypes.AssociationFilterKeyLastExecutedAfter:
		at, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return false, errValidation("The filter value %q is not a time such as 2024-05-01T12:00:00Z.", value)
		}
		return last != nil && (f.Key == ssmtypes.AssociationFilterKeyLastExecutedBefore) == last.Before(at), nil
	}
	return false, awserr.NotImplemented("the filter " + string(f.Key) + " of ListAssociations")
}

// ListAssociationVersions lists the versions of an association, the oldest first.
func (s *Service) ListAssociationVersions(ctx context.Context, in *awsssm.ListAssociationVersionsInput) (*awsssm.ListAssociationVersionsOutput, error) {
	sc := scopeOf(ctx)
	a, err := s.association(sc, in.AssociationId, nil, nil)
	if err != nil {
		return nil, err
	}
	var all []ssmtypes.AssociationVersionInfo
	for _, i := range associationVersions.All(s.store, sc.Key(a.ID).AllBelow()) {
		v := i.Value
		all = append(all, ssmtypes.AssociationVersionInfo{
			AssociationId: &a.ID, AssociationName: optional(v.Name), AssociationVersion: aws.String(strconv.FormatInt(v.Version, 10)), CreatedDate: &v.Updated, Name: &v.Document, DocumentVersion: &v.DocumentVersion,
			Parameters: v.Parameters, Targets: v.Targets, ScheduleExpression: optional(v.Schedule), ScheduleOffset: v.offset(), ApplyOnlyAtCronInterval: v.OnlyScheduled,
			MaxConcurrency: optional(v.Concurrency), MaxErrors: optional(v.Errors), ComplianceSeverity: ssmtypes.AssociationComplianceSeverity(v.Severity), SyncCompliance: ssmtypes.AssociationSyncCompliance(v.Sync), OutputLocation: v.output(),
		})
	}
	list, next, err := paging.CutInOrder(associationPages, all, func(v ssmtypes.AssociationVersionInfo) string { return *v.AssociationVersion }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListAssociationVersionsOutput{AssociationVersions: append([]ssmtypes.AssociationVersionInfo{}, list...), NextToken: next}, nil
}

// StartAssociationsOnce makes associations run at once.
func (s *Service) StartAssociationsOnce(ctx context.Context, in *awsssm.StartAssociationsOnceInput) (*awsssm.StartAssociationsOnceOutput, error) {
	return &awsssm.StartAssociationsOnceOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		for _, id := range in.AssociationIds {
			err := associations.Update(tx, scopeOf(ctx).Key(id), func(a *associationRecord) error { a.due(s.now()); return nil })
			if err != nil {
				return store.NotFoundAs(err, errNoAssociation())
			}
		}
		return nil
	})
}

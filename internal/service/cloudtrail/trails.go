package cloudtrail

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

// trails are stored by name, in their home region.
var trails = store.NewCollection[trailRecord]("cloudtrail", "trail")

// A trailRecord is a trail. While it logs, calls are sent to EventBridge. No files are written to
// its bucket.
type trailRecord struct {
	Name           string
	Bucket, Prefix string
	Global         bool `json:",omitempty"` // includes the events of global services
	MultiRegion    bool `json:",omitempty"`
	Validation     bool `json:",omitempty"`
	Tags           map[string]string
	Logging        bool      `json:",omitempty"`
	Started        time.Time `json:",omitzero"`
	Stopped        time.Time `json:",omitzero"`
}

// logs reports whether the trail was logging at a time. It only knows the last start and the last
// stop.
func (r *trailRecord) logs(at time.Time) bool {
	return !r.Started.IsZero() && !at.Before(r.Started) && (r.Logging || at.Before(r.Stopped))
}

// maxTrails is how many trails a region may have.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/WhatIsCloudTrail-Limits.html
const (
	maxTrails = 5
	maxTags   = 50
)

func trailARN(key store.Key) string {
	return arn.New("cloudtrail", key.Region, key.Account, "trail/"+key.ID)
}

// keyOf returns the key of the trail with the given name or ARN.
func keyOf(sc regional.Scope, nameOrARN string) store.Key {
	if a, err := arn.Parse(nameOrARN); err == nil && strings.HasPrefix(a.Resource, "trail/") {
		return store.Key{Account: a.Account, Region: a.Region, ID: strings.TrimPrefix(a.Resource, "trail/")}
	}
	return sc.Key(nameOrARN)
}

func (s *Service) find(ctx context.Context, name *string) (store.Item[trailRecord], error) {
	sc := regional.Of(ctx)
	key := keyOf(sc, aws.ToString(name))
	r, err := trails.Get(s.store, key)
	if key.Account != sc.Account || store.IsNotFound(err) {
		return store.Item[trailRecord]{}, trailNotFound(key, sc)
	}
	return store.Item[trailRecord]{Key: key, Value: r}, err
}

// change changes a trail. The request must be made in the trail's home region.
func (s *Service) change(ctx context.Context, name *string, fn func(*trailRecord) error) (store.Key, error) {
	sc := regional.Of(ctx)
	key := keyOf(sc, aws.ToString(name))
	if key.Account != sc.Account {
		return key, trailNotFound(key, sc)
	}
	if key.Region != sc.Region {
		return key, invalidHomeRegion(key, sc)
	}
	err := trails.UpdateOne(ctx, s.store, key, fn)
	if store.IsNotFound(err) {
		return key, trailNotFound(key, sc)
	}
	return key, err
}

// trailName matches valid names.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-trail-naming-requirements.html
var trailName = regexp.MustCompile(`^[A-Za-z0-9](?:[._-]?[A-Za-z0-9])*$`)

func checkName(name string) error {
	switch {
	case len(name) < 3:
		return invalidTrailName("Trail name too short. Minimum allowed length: 3 characters. Specified name length: %d characters.", len(name))
	case len(name) > 128:
		return invalidTrailName("Trail name too long. Maximum allowed length: 128 characters. Specified name length: %d characters.", len(name))
	case !trailName.MatchString(name):
		return invalidTrailName("Trail name or ARN can only contain uppercase letters, lowercase letters, numbers, periods (.), hyphens (-), and underscores (_). " +
			"The name must start with a letter or number, end with a letter or number, and not contain adjacent special characters.")
	}
	return nil
}

// CreateTrail creates a trail. It does not start logging.
func (s *Service) CreateTrail(ctx context.Context, in *awscloudtrail.CreateTrailInput) (*awscloudtrail.CreateTrailOutput, error) {
	if err := checkName(*in.Name); err != nil {
		return nil, err
	}
	r := trailRecord{
		Name: *in.Name, Bucket: *in.S3BucketName, Prefix: aws.ToString(in.S3KeyPrefix), MultiRegion: aws.ToBool(in.IsMultiRegionTrail),
		Global: in.IncludeGlobalServiceEvents == nil || *in.IncludeGlobalServiceEvents, Validation: aws.ToBool(in.EnableLogFileValidation),
	}
	if r.MultiRegion && !r.Global {
		return nil, globalRequired()
	}
	var err error
	if r.Tags, err = withTags(nil, in.TagsList); err != nil {
		return nil, err
	}
	sc := regional.Of(ctx)
	key := sc.Key(r.Name)
	if err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := trails.Get(tx, key); err == nil {
			return trailExists(r.Name, sc.Account)
		}
		if len(trails.All(tx, sc.All())) >= maxTrails {
			return tooManyTrails(sc.Account)
		}
		return trails.Create(tx, key, r)
	}); err != nil {
		return nil, err
	}
	t := sdkTrail(key, &r)
	return &awscloudtrail.CreateTrailOutput{
		Name: t.Name, TrailARN: t.TrailARN, S3BucketName: t.S3BucketName, S3KeyPrefix: t.S3KeyPrefix, IncludeGlobalServiceEvents: t.IncludeGlobalServiceEvents,
		IsMultiRegionTrail: t.IsMultiRegionTrail, LogFileValidationEnabled: t.LogFileValidationEnabled, IsOrganizationTrail: t.IsOrganizationTrail,
	}, nil
}

// UpdateTrail changes a trail. Settings that are not in the request stay as they are.
func (s *Service) UpdateTrail(ctx context.Context, in *awscloudtrail.UpdateTrailInput) (*awscloudtrail.UpdateTrailOutput, error) {
	var t cloudtrailtypes.Trail
	_, err := s.change(ctx, in.Name, func(r *trailRecord) error {
		r.Bucket, r.Prefix = cmp.Or(aws.ToString(in.S3BucketName), r.Bucket), cmp.Or(aws.ToString(in.S3KeyPrefix), r.Prefix)
		for to, v := range map[*bool]*bool{&r.Global: in.IncludeGlobalServiceEvents, &r.MultiRegion: in.IsMultiRegionTrail, &r.Validation: in.EnableLogFileValidation} {
			if v != nil {
				*to = *v
			}
		}
		if r.MultiRegion && !r.Global {
			return globalRequired()
		}
		t = sdkTrail(keyOf(regional.Of(ctx), *in.Name), r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awscloudtrail.UpdateTrailOutput{
		Name: t.Name, TrailARN: t.TrailARN, S3BucketName: t.S3BucketName, S3KeyPrefix: t.S3KeyPrefix, IncludeGlobalServiceEvents: t.IncludeGlobalServiceEvents,
		IsMultiRegionTrail: t.IsMultiRegionTrail, LogFileValidationEnabled: t.LogFileValidationEnabled, IsOrganizationTrail: t.IsOrganizationTrail,
	}, nil
}

// DeleteTrail deletes a trail.
func (s *Service) DeleteTrail(ctx context.Context, in *awscloudtrail.DeleteTrailInput) (*awscloudtrail.DeleteTrailOutput, error) {
	key, err := s.change(ctx, in.Name, func(*trailRecord) error { return nil })
	if err != nil {
		return nil, err
	}
	return &awscloudtrail.DeleteTrailOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		trails.Delete(tx, key)
		return nil
	})
}

// StartLogging starts the logging of a trail.
func (s *Service) StartLogging(ctx context.Context, in *awscloudtrail.StartLoggingInput) (*awscloudtrail.StartLoggingOutput, error) {
	_, err := s.change(ctx, in.Name, func(r *trailRecord) error {
		if !r.Logging {
			r.Logging, r.Started = true, s.clock.Now().UTC()
		}
		return nil
	})
	return &awscloudtrail.StartLoggingOutput{}, err
}

// StopLogging stops the logging of a trail.
func (s *Service) StopLogging(ctx context.Context, in *awscloudtrail.StopLoggingInput) (*awscloudtrail.StopLoggingOutput, error) {
	_, err := s.change(ctx, in.Name, func(r *trailRecord) error {
		if r.Logging {
			r.Logging, r.Stopped = false, s.clock.Now().UTC()
		}
		return nil
	})
	return &awscloudtrail.StopLoggingOutput{}, err
}

// GetTrail describes a trail.
func (s *Service) GetTrail(ctx context.Context, in *awscloudtrail.GetTrailInput) (*awscloudtrail.GetTrailOutput, error) {
	i, err := s.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	t := sdkTrail(i.Key, &i.Value)
	return &awscloudtrail.GetTrailOutput{Trail: &t}, nil
}

// GetTrailStatus returns whether a trail is logging, and when it last started and stopped.
func (s *Service) GetTrailStatus(ctx context.Context, in *awscloudtrail.GetTrailStatusInput) (*awscloudtrail.GetTrailStatusOutput, error) {
	i, err := s.find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &awscloudtrail.GetTrailStatusOutput{IsLogging: &i.Value.Logging}
	if t := i.Value.Started; !t.IsZero() {
		out.StartLoggingTime, out.TimeLoggingStarted = &t, aws.String(t.Format(time.RFC3339))
	}
	if t := i.Value.Stopped; !t.IsZero() {
		out.StopLoggingTime, out.TimeLoggingStopped = &t, aws.String(t.Format(time.RFC3339))
	}
	return out, nil
}

// GetEventSelectors returns the selectors that all trails have: they select all management events.
func (s *Service) GetEventSelectors(ctx context.Context, in *awscloudtrail.GetEventSelectorsInput) (*awscloudtrail.GetEventSelectorsOutput, error) {
	i, err := s.find(ctx, in.TrailName)
	if err != nil {
		return nil, err
	}
	return &awscloudtrail.GetEventSelectorsOutput{TrailARN: aws.String(trailARN(i.Key)), EventSelectors: []cloudtrailtypes.EventSelector{{
		ReadWriteType: cloudtrailtypes.ReadWriteTypeAll, IncludeManagementEvents: aws.Bool(true),
		DataResources: []cloudtrailtypes.DataResource{}, ExcludeManagementEventSources: []string{},
	}}}, nil
}

// DescribeTrails lists the trails of the region and, by default, the multi-region trails of other
// regions.
func (s *Service) DescribeTrails(ctx context.Context, in *awscloudtrail.DescribeTrailsInput) (*awscloudtrail.DescribeTrailsOutput, error) {
	sc := regional.Of(ctx)
	shadows := in.IncludeShadowTrails == nil || *in.IncludeShadowTrails
	out := &awscloudtrail.DescribeTrailsOutput{TrailList: []cloudtrailtypes.Trail{}}
	for _, i := range s.all(sc.Account) {
		if i.Key.Region != sc.Region && (!i.Value.MultiRegion || !shadows) {
			continue
		}
		if len(in.TrailNameList) == 0 || slices.ContainsFunc(in.TrailNameList, func(n string) bool {
			return n == trailARN(i.Key) || n == i.Value.Name && i.Key.Region == sc.Region
		}) {
			out.TrailList = append(out.TrailList, sdkTrail(i.Key, &i.Value))
		}
	}
	return out, nil
}

// all returns the trails of an account, in all regions.
func (s *Service) all(account string) []store.Item[trailRecord] {
	if s.store == nil {
		return nil
	}
	return trails.All(s.store, store.Scope{Account: account})
}

// ListTrails lists the account's trails in all regions.
func (s *Service) ListTrails(ctx context.Context, in *awscloudtrail.ListTrailsInput) (*awscloudtrail.ListTrailsOutput, error) {
	out := &awscloudtrail.ListTrailsOutput{Trails: []cloudtrailtypes.TrailInfo{}}
	all, next, err := paging.CutInOrder(paging.Rules{Usual: 100, BadToken: func(string) error { return invalidNextToken() }}, s.all(awsapi.CallFrom(ctx).Account),
		func(i store.Item[trailRecord]) string { return i.Key.String() }, nil, in.NextToken)
	for _, i := range all {
		out.Trails = append(out.Trails, cloudtrailtypes.TrailInfo{Name: aws.String(i.Value.Name), HomeRegion: aws.String(i.Key.Region), TrailARN: aws.String(trailARN(i.Key))})
	}
	out.NextToken = next
	return out, err
}

func sdkTrail(key store.Key, r *trailRecord) cloudtrailtypes.Trail {
	t := cloudtrailtypes.Trail{
		Name: &r.Name, TrailARN: aws.String(trailARN(key)), HomeRegion: &key.Region, S3BucketName: &r.Bucket,
		IncludeGlobalServiceEvents: &r.Global, IsMultiRegionTrail: &r.MultiRegion, LogFileValidationEnabled: &r.Validation,
		IsOrganizationTrail: aws.Bool(false), HasCustomEventSelectors: aws.Bool(false), HasInsightSelectors: aws.Bool(false),
	}
	if r.Prefix != "" {
		t.S3KeyPrefix = &r.Prefix
	}
	return t
}

var tagRules = tagging.Rules{Most: maxTags, Reserved: reservedTag, TooMany: tooManyTags}

func withTags(old map[string]string, more []cloudtrailtypes.Tag) (map[string]string, error) {
	return tagging.Put(tagRules, old, more, func(t cloudtrailtypes.Tag) (*string, *string) { return t.Key, t.Value })
}

// AddTags adds tags to a trail.
func (s *Service) AddTags(ctx context.Context, in *awscloudtrail.AddTagsInput) (*awscloudtrail.AddTagsOutput, error) {
	_, err := s.change(ctx, in.ResourceId, func(r *trailRecord) (err error) {
		r.Tags, err = withTags(r.Tags, in.TagsList)
		return err
	})
	return &awscloudtrail.AddTagsOutput{}, err
}

// RemoveTags removes tags from a trail.
func (s *Service) RemoveTags(ctx context.Context, in *awscloudtrail.RemoveTagsInput) (*awscloudtrail.RemoveTagsOutput, error) {
	_, err := s.change(ctx, in.ResourceId, func(r *trailRecord) error {
		r.Tags = maps.Clone(r.Tags)
		for _, t := range in.TagsList {
			delete(r.Tags, aws.ToString(t.Key))
		}
		return nil
	})
	return &awscloudtrail.RemoveTagsOutput{}, err
}

// ListTags lists the tags of trails.
func (s *Service) ListTags(ctx context.Context, in *awscloudtrail.ListTagsInput) (*awscloudtrail.ListTagsOutput, error) {
	if in.NextToken != nil {
		return nil, invalidNextToken()
	}
	out := &awscloudtrail.ListTagsOutput{ResourceTagList: []cloudtrailtypes.ResourceTag{}}
	for _, id := range in.ResourceIdList {
		i, err := s.find(ctx, &id)
		if err != nil {
			return nil, err
		}
		out.ResourceTagList = append(out.ResourceTagList, cloudtrailtypes.ResourceTag{ResourceId: &id, TagsList: tagging.List(i.Value.Tags, func(k, v *string) cloudtrailtypes.Tag {
			return cloudtrailtypes.Tag{Key: k, Value: v}
		})})
	}
	return out, nil
}

package ec2

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type launchTemplateRecord struct {
	ID              string
	Name            string
	Default, Latest int64
	Created         time.Time
	CreatedBy       string
	Tags            Tags `json:",omitempty"`
}

func (t launchTemplateRecord) sdk(scope) ec2types.LaunchTemplate {
	return ec2types.LaunchTemplate{
		LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name),
		DefaultVersionNumber: aws.Int64(t.Default), LatestVersionNumber: aws.Int64(t.Latest),
		CreateTime: aws.Time(t.Created), CreatedBy: aws.String(t.CreatedBy), Tags: t.Tags.sdk(),
		Operator: &ec2types.OperatorResponse{Managed: aws.Bool(false)},
	}
}

var (
	templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)
	digits       = regexp.MustCompile(`^[0-9]{1,18}$`)
)

func templateNameKey(sc scope, name string) store.Key { return sc.key(name) }

// CreateLaunchTemplate creates a template with its first version.
func (s *Service) CreateLaunchTemplate(ctx context.Context, in *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	name := aws.ToString(in.LaunchTemplateName)
	if name == "" {
		return nil, errMissing("LaunchTemplateName")
	}
	if !templateName.MatchString(name) {
		return nil, errf("InvalidLaunchTemplateName.MalformedException", "A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: - ( ) . / _.")
	}
	if in.LaunchTemplateData == nil {
		return nil, errMissing("LaunchTemplateData")
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeLaunchTemplate)
	if err != nil {
		return nil, err
	}
	now, by := s.now(), awsapi.CallFrom(ctx).Principal.ARN
	t := launchTemplateRecord{ID: ids.Resource("lt"), Name: name, Default: 1, Latest: 1, Created: now, CreatedBy: by, Tags: tags}
	v, err := newTemplateVersion(in.LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	v.TemplateID, v.Number, v.Description, v.Created, v.CreatedBy = t.ID, 1, aws.ToString(in.VersionDescription), now, by
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateLaunchTemplate", in.ClientToken, in, launchTemplates, launchTemplateID, &t); done || err != nil {
			return err
		}
		if err := launchTemplateNames.Create(tx, templateNameKey(sc, name), nameRecord{t.ID}); err == store.ErrExists {
			return errTemplateNameTaken()
		} else if err != nil {
			return err
		}
		if err := launchTemplates.Create(tx, sc.key(t.ID), t); err != nil {
			return err
		}
		if err := templateVersions.Create(tx, v.key(sc), v); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateLaunchTemplate", in.ClientToken, in, false, t.ID)
	})
	if err != nil {
		return nil, err
	}
	out := t.sdk(sc)
	return &awsec2.CreateLaunchTemplateOutput{LaunchTemplate: &out}, nil
}

// findTemplate returns a template by ID or name, of which exactly one is given.
func findTemplate(r store.Reader, sc scope, id, name *string) (launchTemplateRecord, error) {
	var none launchTemplateRecord
	switch {
	case aws.ToString(id) != "" && aws.ToString(name) != "":
		return none, errCombination("Either launch template id or launch template name should be specified, not both.")
	case aws.ToString(id) != "":
		return get(r, launchTemplates, sc, launchTemplateID, *id)
	case aws.ToString(name) != "":
		n, err := launchTemplateNames.Get(r, templateNameKey(sc, *name))
		if notFound(err) {
			return none, errTemplateNameNotFound(*name)
		}
		if err != nil {
			return none, err
		}
		return launchTemplates.Get(r, sc.key(n.ID))
	}
	return none, errf("MissingParameter", "Either launch template id or launch template name must be specified")
}

// version returns the number a selector stands for: a number, $Latest or
// $Default (also for none).
func (t launchTemplateRecord) version(selector string) (int64, error) {
	switch selector {
	case "", "$Default":
		return t.Default, nil
	case "$Latest":
		return t.Latest, nil
	}
	if !digits.MatchString(selector) {
		return 0, errf("InvalidLaunchTemplateVersion.Malformed", "Invalid launch template version: %s. Specify a version number, $Latest or $Default.", selector)
	}
	n, err := strconv.ParseInt(selector, 10, 64)
	if err != nil {
		return 0, errTemplateVersionNotFound(selector)
	}
	return n, nil
}

// ModifyLaunchTemplate sets the default version.
func (s *Service) ModifyLaunchTemplate(ctx context.Context, in *awsec2.ModifyLaunchTemplateInput) (*awsec2.ModifyLaunchTemplateOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.DefaultVersion == nil {
		return nil, errMissing("DefaultVersion")
	}
	var t launchTemplateRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if t, err = findTemplate(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		n, err := t.version(*in.DefaultVersion)
		if err != nil {
			return err
		}
		if _, err := getTemplateVersion(tx, sc, t, n); err != nil {
			return err
		}
		t.Default = n
		return launchTemplates.Put(tx, sc.key(t.ID), t)
	})
	if err != nil {
		return nil, err
	}
	out := t.sdk(sc)
	return &awsec2.ModifyLaunchTemplateOutput{LaunchTemplate: &out}, nil
}

// DeleteLaunchTemplate deletes a template with all its versions.
func (s *Service) DeleteLaunchTemplate(ctx context.Context, in *awsec2.DeleteLaunchTemplateInput) (*awsec2.DeleteLaunchTemplateOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var t launchTemplateRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if t, err = findTemplate(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		launchTemplateNames.Delete(tx, templateNameKey(sc, t.Name))
		launchTemplates.Delete(tx, sc.key(t.ID))
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Without its template nothing finds a version, so these may go one by one.
	versions, err := listTemplateVersions(s.store, sc, t.ID)
	if err != nil {
		return nil, err
	}
	for len(versions) > 0 {
		n := min(len(versions), 90)
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, v := range versions[:n] {
				templateVersions.Delete(tx, v.key(sc))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		versions = versions[n:]
	}
	out := t.sdk(sc)
	return &awsec2.DeleteLaunchTemplateOutput{LaunchTemplate: &out}, nil
}

// DescribeLaunchTemplates lists templates.
func (s *Service) DescribeLaunchTemplates(ctx context.Context, in *awsec2.DescribeLaunchTemplatesInput) (*awsec2.DescribeLaunchTemplatesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[launchTemplateRecord]{
		"create-time":          one(func(t launchTemplateRecord) string { return timeText(t.Created) }),
		"launch-template-name": one(func(t launchTemplateRecord) string { return t.Name }),
	}, func(t launchTemplateRecord) Tags { return t.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	want := in.LaunchTemplateIds
	for _, name := range in.LaunchTemplateNames {
		n, err := launchTemplateNames.Get(s.store, templateNameKey(sc, name))
		if notFound(err) {
			return nil, errTemplateNamesNotFound()
		}
		if err != nil {
			return nil, err
		}
		want = append(want[:len(want):len(want)], n.ID)
	}
	found, err := choose(s.store, launchTemplates, sc, launchTemplateID, want, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(t launchTemplateRecord) string { return t.ID }, in.MaxResults, in.NextToken, limits{1, 200})
	return &awsec2.DescribeLaunchTemplatesOutput{LaunchTemplates: sdkAll(sc, found), NextToken: next}, err
}

// timeText is a time as EC2's filters see it.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// joinComma joins for messages.
func joinComma(s []string) string { return strings.Join(s, ", ") }

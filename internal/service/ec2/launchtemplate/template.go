package launchtemplate

import (
	"context"
	"regexp"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Template is a launch template. Its versions are stored separately.
type Template struct {
	ID              string
	Name            string
	Default, Latest int64
	Created         time.Time
	CreatedBy       string
	Tags            tag.Set `json:",omitempty"`
	Operator        string  `json:",omitempty"` // the service that manages it
}

// SDK renders the record for the SDK.
func (t Template) SDK(resource.Scope) ec2types.LaunchTemplate {
	return ec2types.LaunchTemplate{
		LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name),
		DefaultVersionNumber: aws.Int64(t.Default), LatestVersionNumber: aws.Int64(t.Latest),
		CreateTime: aws.Time(t.Created), CreatedBy: aws.String(t.CreatedBy), Tags: t.Tags.SDK(),
		Operator: record.OperatorSDK(t.Operator),
	}
}

var (
	templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)
	digits       = regexp.MustCompile(`^[0-9]{1,18}$`)
)

func nameKey(sc resource.Scope, name string) store.Key { return sc.Key(name) }

// CreateLaunchTemplate creates a template with its first version.
func (s *Service) CreateLaunchTemplate(ctx context.Context, in *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error) {
	sc := resource.ScopeOf(ctx)
	name := aws.ToString(in.LaunchTemplateName)
	if name == "" {
		return nil, ec2err.Missing("LaunchTemplateName")
	}
	if !templateName.MatchString(name) {
		return nil, ec2err.New("InvalidLaunchTemplateName.MalformedException", "A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: - ( ) . / _.")
	}
	if in.LaunchTemplateData == nil {
		return nil, ec2err.Missing("LaunchTemplateData")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeLaunchTemplate)
	if err != nil {
		return nil, err
	}
	operator, err := record.OperatorOf(ctx, in.Operator)
	if err != nil {
		return nil, err
	}
	if _, err := record.OperatorOf(ctx, in.LaunchTemplateData.Operator); err != nil {
		return nil, err
	}
	now, by := s.Now(), awsapi.CallFrom(ctx).Principal.ARN
	v, err := newVersion(in.LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	t, err := resource.Create(ctx, s.Core, Templates, in.DryRun, in.ClientToken, in, func(tx *store.Tx, t *Template) error {
		*t = Template{ID: ids.Resource("lt"), Name: name, Default: 1, Latest: 1, Created: now, CreatedBy: by, Tags: tags, Operator: operator}
		v.TemplateID, v.Number, v.Description, v.Created, v.CreatedBy = t.ID, 1, aws.ToString(in.VersionDescription), now, by
		if err := Names.Create(tx, nameKey(sc, name), resource.Name{ID: t.ID}); err == store.ErrExists {
			return ec2err.TemplateNameTaken()
		} else if err != nil {
			return err
		}
		return Versions.Create(tx, v.Key(sc), v)
	})
	return &awsec2.CreateLaunchTemplateOutput{LaunchTemplate: new(t.SDK(sc))}, err
}

// Find returns a template by ID or name. Exactly one of them must be given.
func Find(r store.Reader, sc resource.Scope, id, name *string) (Template, error) {
	var none Template
	switch {
	case aws.ToString(id) != "" && aws.ToString(name) != "":
		return none, ec2err.Combination("Either launch template id or launch template name should be specified, not both.")
	case aws.ToString(id) != "":
		return resource.Get(r, Templates, sc, *id)
	case aws.ToString(name) != "":
		n, err := Names.Get(r, nameKey(sc, *name))
		if err != nil {
			return none, store.NotFoundAs(err, ec2err.TemplateNameNotFound(*name))
		}
		return Templates.Get(r, sc.Key(n.ID))
	}
	return none, ec2err.New("MissingParameter", "Either launch template id or launch template name must be specified")
}

// Version resolves a version selector: a number, $Latest or $Default. An empty selector means
// $Default.
func (t Template) Version(selector string) (int64, error) {
	switch selector {
	case "", "$Default":
		return t.Default, nil
	case "$Latest":
		return t.Latest, nil
	}
	if !digits.MatchString(selector) {
		return 0, ec2err.New("InvalidLaunchTemplateVersion.Malformed", "Invalid launch template version: %s. Specify a version number, $Latest or $Default.", selector)
	}
	n, err := strconv.ParseInt(selector, 10, 64)
	if err != nil {
		return 0, ec2err.TemplateVersionNotFound(selector)
	}
	return n, nil
}

// ModifyLaunchTemplate sets the default version.
func (s *Service) ModifyLaunchTemplate(ctx context.Context, in *awsec2.ModifyLaunchTemplateInput) (*awsec2.ModifyLaunchTemplateOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.DefaultVersion == nil {
		return nil, ec2err.Missing("DefaultVersion")
	}
	var t Template
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) (err error) {
		if t, err = Find(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		n, err := t.Version(*in.DefaultVersion)
		if err != nil {
			return err
		}
		if _, err := GetVersion(tx, sc, t, n); err != nil {
			return err
		}
		t.Default = n
		return Templates.Put(tx, sc.Key(t.ID), t)
	})
	return &awsec2.ModifyLaunchTemplateOutput{LaunchTemplate: new(t.SDK(sc))}, err
}

// DeleteLaunchTemplate deletes a template with all its versions.
func (s *Service) DeleteLaunchTemplate(ctx context.Context, in *awsec2.DeleteLaunchTemplateInput) (*awsec2.DeleteLaunchTemplateOutput, error) {
	sc := resource.ScopeOf(ctx)
	var t Template
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) (err error) {
		if t, err = Find(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		Names.Delete(tx, nameKey(sc, t.Name))
		Templates.Delete(tx, sc.Key(t.ID))
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Versions cannot be found without their template, so deleting them one by one is safe.
	versions := listVersions(s.Store, sc, t.ID)
	for len(versions) > 0 {
		n := min(len(versions), 90)
		err := s.Store.Update(ctx, func(tx *store.Tx) error {
			for _, v := range versions[:n] {
				Versions.Delete(tx, v.Key(sc))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		versions = versions[n:]
	}
	return &awsec2.DeleteLaunchTemplateOutput{LaunchTemplate: new(t.SDK(sc))}, nil
}

// DescribeLaunchTemplates lists templates.
func (s *Service) DescribeLaunchTemplates(ctx context.Context, in *awsec2.DescribeLaunchTemplatesInput) (*awsec2.DescribeLaunchTemplatesOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[Template]{
		"create-time":          filter.One(func(t Template) string { return resource.TimeText(t.Created) }),
		"launch-template-name": filter.One(func(t Template) string { return t.Name }),
	}, func(t Template) tag.Set { return t.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	want := in.LaunchTemplateIds
	for _, name := range in.LaunchTemplateNames {
		n, err := Names.Get(s.Store, nameKey(sc, name))
		if err != nil {
			return nil, store.NotFoundAs(err, ec2err.TemplateNamesNotFound())
		}
		want = append(want[:len(want):len(want)], n.ID)
	}
	if len(want) == 0 && !aws.ToBool(in.IncludeManagedResources) {
		all := match
		match = func(t Template) bool { return t.Operator == "" && all(t) }
	}
	found, err := resource.Choose(s.Store, Templates, sc, want, match)
	if err != nil {
		return nil, err
	}
	found, next, err := resource.Paginate(found, func(t Template) string { return t.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 200})
	return &awsec2.DescribeLaunchTemplatesOutput{LaunchTemplates: resource.SDKAll(sc, found), NextToken: next}, err
}

var (
	Templates = resource.NewKind("launch-template", resource.LaunchTemplateID, func(v *Template) (string, *tag.Set) { return v.ID, &v.Tags }, store.Same) // version 2 has Operator
	Names     = store.NewCollection[resource.Name]("ec2", "launch-template-name")
)

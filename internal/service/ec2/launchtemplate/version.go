package launchtemplate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Version has its data as the request's JSON without empty members. The member names are the same
// in the SDK's types for requests, responses and RunInstances, so the JSON fits all three
// (TestTemplateDataFitsEverySDKType).
type Version struct {
	TemplateID  string
	Number      int64
	Description string `json:",omitempty"`
	Created     time.Time
	CreatedBy   string
	Data        json.RawMessage
}

// Key is the key of a version.
func (v Version) Key(sc resource.Scope) store.Key {
	return sc.Key(fmt.Sprintf("%s/%012d", v.TemplateID, v.Number))
}

// MaxUserData is EC2's limit in bytes.
const MaxUserData = 16384 // bytes before base64

func newVersion(data *ec2types.RequestLaunchTemplateData) (Version, error) {
	if data.UserData != nil {
		if _, err := DecodeUserData(*data.UserData); err != nil {
			return Version{}, err
		}
	}
	if p := data.IamInstanceProfile; p != nil && p.Arn != nil && p.Name != nil {
		return Version{}, ec2err.Combination("The parameter IamInstanceProfile.Name may not be used in combination with IamInstanceProfile.Arn")
	}
	raw, err := CompactJSON(data)
	return Version{Data: raw}, err
}

// DecodeUserData decodes user data from a request.
func DecodeUserData(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, ec2err.UserDataEncoding()
	}
	if len(raw) > MaxUserData {
		return nil, ec2err.UserDataTooLarge()
	}
	return raw, nil
}

// CompactJSON encodes v without nulls and without empty enumeration values.
func CompactJSON(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	prune(tree)
	return json.Marshal(tree)
}

func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil || x == "" {
				delete(v, k)
				continue
			}
			prune(x)
		}
	case []any:
		for _, x := range v {
			prune(x)
		}
	}
}

func (v Version) response() (*ec2types.ResponseLaunchTemplateData, error) {
	out := new(ec2types.ResponseLaunchTemplateData)
	if err := json.Unmarshal(v.Data, out); err != nil {
		return nil, fmt.Errorf("launch template %s version %d: %w", v.TemplateID, v.Number, err)
	}
	return out, nil
}

// SDK renders the record for the SDK.
func (v Version) SDK(t Template) (ec2types.LaunchTemplateVersion, error) {
	data, err := v.response()
	return ec2types.LaunchTemplateVersion{
		LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name),
		VersionNumber: aws.Int64(v.Number), VersionDescription: resource.Optional(v.Description),
		DefaultVersion: aws.Bool(v.Number == t.Default), CreateTime: aws.Time(v.Created), CreatedBy: aws.String(v.CreatedBy),
		LaunchTemplateData: data, Operator: &ec2types.OperatorResponse{Managed: aws.Bool(false)},
	}, err
}

// GetVersion returns a version of a template.
func GetVersion(r store.Reader, sc resource.Scope, t Template, n int64) (Version, error) {
	v, err := Versions.Get(r, Version{TemplateID: t.ID, Number: n}.Key(sc))
	return v, store.NotFoundAs(err, ec2err.TemplateVersionNotFound(strconv.FormatInt(n, 10)))
}

func listVersions(r store.Reader, sc resource.Scope, template string) []Version {
	items := Versions.All(r, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: template + "/"})
	out := make([]Version, len(items))
	for i, it := range items {
		out[i] = it.Value
	}
	return out
}

// CreateLaunchTemplateVersion adds a version, based on SourceVersion if given.
func (s *Service) CreateLaunchTemplateVersion(ctx context.Context, in *awsec2.CreateLaunchTemplateVersionInput) (*awsec2.CreateLaunchTemplateVersionOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.LaunchTemplateData == nil {
		return nil, ec2err.Missing("LaunchTemplateData")
	}
	given, err := newVersion(in.LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	now, by := s.Now(), awsapi.CallFrom(ctx).Principal.ARN
	var t Template
	var v Version
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if t, err = Find(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		if done, err := s.Recall(tx, sc, "CreateLaunchTemplateVersion", in.ClientToken, in); err != nil {
			return err
		} else if done != nil {
			n, _ := strconv.ParseInt(done.IDs[0], 10, 64)
			v, err = GetVersion(tx, sc, t, n)
			return err
		}
		v = given
		if in.SourceVersion != nil {
			n, err := t.Version(*in.SourceVersion)
			if err != nil {
				return err
			}
			source, err := GetVersion(tx, sc, t, n)
			if err != nil {
				return err
			}
			if v.Data, err = OverlayJSON(source.Data, given.Data); err != nil {
				return err
			}
		}
		t.Latest++
		v.TemplateID, v.Number, v.Description, v.Created, v.CreatedBy = t.ID, t.Latest, aws.ToString(in.VersionDescription), now, by
		if err := Templates.Put(tx, sc.Key(t.ID), t); err != nil {
			return err
		}
		if err := Versions.Create(tx, v.Key(sc), v); err != nil {
			return err
		}
		return s.Remember(tx, sc, "CreateLaunchTemplateVersion", in.ClientToken, in, false, strconv.FormatInt(v.Number, 10))
	})
	if err != nil {
		return nil, err
	}
	out, err := v.SDK(t)
	return &awsec2.CreateLaunchTemplateVersionOutput{LaunchTemplateVersion: &out}, err
}

// OverlayJSON replaces top-level members of base with those of over.
func OverlayJSON(base, over json.RawMessage) (json.RawMessage, error) {
	var b, o map[string]json.RawMessage
	if err := json.Unmarshal(base, &b); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(over, &o); err != nil {
		return nil, err
	}
	for k, v := range o {
		b[k] = v
	}
	return json.Marshal(b)
}

// A versionView is a version with its template and decoded data.
type versionView struct {
	Version
	template Template
	data     *ec2types.ResponseLaunchTemplateData
}

func versionFields() filter.Fields[versionView] {
	type v = versionView
	metadata := func(get func(*ec2types.LaunchTemplateInstanceMetadataOptions) string) func(v) []string {
		return filter.One(func(t v) string {
			if t.data.MetadataOptions == nil {
				return ""
			}
			return get(t.data.MetadataOptions)
		})
	}
	return filter.Fields[v]{
		"create-time":             filter.One(func(t v) string { return resource.TimeText(t.Created) }),
		"ebs-optimized":           filter.Flag(func(t v) bool { return aws.ToBool(t.data.EbsOptimized) }),
		"http-endpoint":           metadata(func(m *ec2types.LaunchTemplateInstanceMetadataOptions) string { return string(m.HttpEndpoint) }),
		"http-protocol-ipv4":      filter.Never[v],
		"host-resource-group-arn": filter.Never[v],
		"http-tokens":             metadata(func(m *ec2types.LaunchTemplateInstanceMetadataOptions) string { return string(m.HttpTokens) }),
		"iam-instance-profile": filter.One(func(t v) string {
			if t.data.IamInstanceProfile == nil {
				return ""
			}
			return aws.ToString(t.data.IamInstanceProfile.Arn)
		}),
		"image-id":                  filter.One(func(t v) string { return aws.ToString(t.data.ImageId) }),
		"instance-type":             filter.One(func(t v) string { return string(t.data.InstanceType) }),
		"is-default-version":        filter.Flag(func(t v) bool { return t.Number == t.template.Default }),
		"kernel-id":                 filter.One(func(t v) string { return aws.ToString(t.data.KernelId) }),
		"license-configuration-arn": filter.Never[v],
		"network-card-index":        filter.Never[v],
		"ram-disk-id":               filter.One(func(t v) string { return aws.ToString(t.data.RamDiskId) }),
	}
}

// DescribeLaunchTemplateVersions lists the versions of a template, newest first, or the $Latest and
// $Default versions of all templates.
func (s *Service) DescribeLaunchTemplateVersions(ctx context.Context, in *awsec2.DescribeLaunchTemplateVersionsInput) (*awsec2.DescribeLaunchTemplateVersionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, versionFields(), nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := s.findVersions(sc, in)
	if err != nil {
		return nil, err
	}
	kept := found[:0]
	for _, v := range found {
		if v.data, err = v.response(); err != nil {
			return nil, err
		}
		if match(v) {
			kept = append(kept, v)
		}
	}
	// Pages are ordered by template, then by descending version number.
	id := func(v versionView) string { return fmt.Sprintf("%s/%012d", v.TemplateID, 999_999_999_999-v.Number) }
	page, next, err := resource.Paginate(kept, id, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 200})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeLaunchTemplateVersionsOutput{NextToken: next, LaunchTemplateVersions: []ec2types.LaunchTemplateVersion{}}
	for _, v := range page {
		sdk, err := v.SDK(v.template)
		if err != nil {
			return nil, err
		}
		if aws.ToBool(in.ResolveAlias) && sdk.LaunchTemplateData.ImageId != nil {
			if img, ok := s.images.LookupImage(sc, *sdk.LaunchTemplateData.ImageId); ok {
				sdk.LaunchTemplateData.ImageId = aws.String(img.ID)
			}
		}
		out.LaunchTemplateVersions = append(out.LaunchTemplateVersions, sdk)
	}
	return out, nil
}

// findVersions returns the versions that a request asks for, newest first per template.
func (s *Service) findVersions(sc resource.Scope, in *awsec2.DescribeLaunchTemplateVersionsInput) ([]versionView, error) {
	var templates []Template
	if in.LaunchTemplateId == nil && in.LaunchTemplateName == nil {
		for _, v := range in.Versions {
			if v != "$Latest" && v != "$Default" {
				return nil, ec2err.New("InvalidParameterValue", "If you do not specify a launch template, only $Latest and $Default are valid versions.")
			}
		}
		if len(in.Versions) == 0 {
			return nil, ec2err.New("MissingParameter", "Either launch template id or launch template name must be specified")
		}
		all := resource.List(s.Store, Templates, sc, resource.All)
		templates = all
	} else {
		t, err := Find(s.Store, sc, in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		templates = append(templates, t)
	}
	var out []versionView
	for _, t := range templates {
		wanted := map[int64]bool{}
		for _, selector := range in.Versions {
			n, err := t.Version(selector)
			if err != nil {
				return nil, err
			}
			if _, err := GetVersion(s.Store, sc, t, n); err != nil {
				return nil, err
			}
			wanted[n] = true
		}
		least, most := int64(0), t.Latest
		for _, b := range []struct {
			to       *int64
			selector *string
		}{{&least, in.MinVersion}, {&most, in.MaxVersion}} {
			if b.selector != nil {
				n, err := t.Version(*b.selector)
				if err != nil {
					return nil, err
				}
				*b.to = n
			}
		}
		versions := listVersions(s.Store, sc, t.ID)
		for i := len(versions) - 1; i >= 0; i-- {
			v := versions[i]
			if len(wanted) > 0 && !wanted[v.Number] || v.Number < least || v.Number > most {
				continue
			}
			out = append(out, versionView{Version: v, template: t})
		}
	}
	return out, nil
}

// DeleteLaunchTemplateVersions deletes versions. The default version cannot be deleted.
func (s *Service) DeleteLaunchTemplateVersions(ctx context.Context, in *awsec2.DeleteLaunchTemplateVersionsInput) (*awsec2.DeleteLaunchTemplateVersionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.Versions) == 0 {
		return nil, ec2err.Missing("Versions")
	}
	out := &awsec2.DeleteLaunchTemplateVersionsOutput{}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		*out = awsec2.DeleteLaunchTemplateVersionsOutput{}
		t, err := Find(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return err
		}
		for _, selector := range in.Versions {
			fail := func(n int64, code ec2types.LaunchTemplateErrorCode, message string) {
				out.UnsuccessfullyDeletedLaunchTemplateVersions = append(out.UnsuccessfullyDeletedLaunchTemplateVersions, ec2types.DeleteLaunchTemplateVersionsResponseErrorItem{
					LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name), VersionNumber: aws.Int64(n),
					ResponseError: &ec2types.ResponseError{Code: code, Message: aws.String(message)},
				})
			}
			n, err := t.Version(selector)
			if err != nil {
				return err
			}
			v, err := GetVersion(tx, sc, t, n)
			switch {
			case ec2err.HasCode(err, "InvalidLaunchTemplateId.VersionNotFound"):
				fail(n, ec2types.LaunchTemplateErrorCodeLaunchTemplateVersionDoesNotExist, "The specified launch template version does not exist.")
			case err != nil:
				return err
			case n == t.Default:
				return ec2err.New("OperationNotPermitted", "The default version of a launch template can't be deleted.")
			default:
				Versions.Delete(tx, v.Key(sc))
				out.SuccessfullyDeletedLaunchTemplateVersions = append(out.SuccessfullyDeletedLaunchTemplateVersions, ec2types.DeleteLaunchTemplateVersionsResponseSuccessItem{
					LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name), VersionNumber: aws.Int64(n),
				})
			}
		}
		return nil
	})
	return out, err
}

var Versions = store.NewCollection[Version]("ec2", "launch-template-version")

package ec2

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
	"github.com/drydock-dev/drydock/internal/store"
)

// A templateVersionRecord keeps the data as the request's JSON without empty
// members. The SDK's request, response and RunInstances types name their members
// alike, so one form fits all three (TestTemplateDataFitsEverySDKType).
type templateVersionRecord struct {
	TemplateID  string
	Number      int64
	Description string `json:",omitempty"`
	Created     time.Time
	CreatedBy   string
	Data        json.RawMessage
}

func (v templateVersionRecord) key(sc scope) store.Key {
	return sc.key(fmt.Sprintf("%s/%012d", v.TemplateID, v.Number))
}

const maxUserData = 16384 // bytes before base64

func newTemplateVersion(data *ec2types.RequestLaunchTemplateData) (templateVersionRecord, error) {
	if data.UserData != nil {
		if _, err := decodeUserData(*data.UserData); err != nil {
			return templateVersionRecord{}, err
		}
	}
	if p := data.IamInstanceProfile; p != nil && p.Arn != nil && p.Name != nil {
		return templateVersionRecord{}, errCombination("The parameter IamInstanceProfile.Name may not be used in combination with IamInstanceProfile.Arn")
	}
	raw, err := compactJSON(data)
	return templateVersionRecord{Data: raw}, err
}

// decodeUserData takes user data as the API carries it.
func decodeUserData(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, errUserDataEncoding()
	}
	if len(raw) > maxUserData {
		return nil, errUserDataTooLarge()
	}
	return raw, nil
}

// compactJSON encodes v without nulls and without empty enumeration values.
func compactJSON(v any) (json.RawMessage, error) {
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

func (v templateVersionRecord) response() (*ec2types.ResponseLaunchTemplateData, error) {
	out := new(ec2types.ResponseLaunchTemplateData)
	if err := json.Unmarshal(v.Data, out); err != nil {
		return nil, fmt.Errorf("launch template %s version %d: %w", v.TemplateID, v.Number, err)
	}
	return out, nil
}

func (v templateVersionRecord) sdk(t launchTemplateRecord) (ec2types.LaunchTemplateVersion, error) {
	data, err := v.response()
	return ec2types.LaunchTemplateVersion{
		LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name),
		VersionNumber: aws.Int64(v.Number), VersionDescription: optional(v.Description),
		DefaultVersion: aws.Bool(v.Number == t.Default), CreateTime: aws.Time(v.Created), CreatedBy: aws.String(v.CreatedBy),
		LaunchTemplateData: data, Operator: &ec2types.OperatorResponse{Managed: aws.Bool(false)},
	}, err
}

func getTemplateVersion(r store.Reader, sc scope, t launchTemplateRecord, n int64) (templateVersionRecord, error) {
	v, err := templateVersions.Get(r, templateVersionRecord{TemplateID: t.ID, Number: n}.key(sc))
	if notFound(err) {
		return v, errTemplateVersionNotFound(strconv.FormatInt(n, 10))
	}
	return v, err
}

func listTemplateVersions(r store.Reader, sc scope, template string) ([]templateVersionRecord, error) {
	items, err := templateVersions.List(r, store.Scope{Account: sc.account, Region: sc.region, Prefix: template + "/"})
	out := make([]templateVersionRecord, len(items))
	for i, it := range items {
		out[i] = it.Value
	}
	return out, err
}

// CreateLaunchTemplateVersion adds a version, on top of SourceVersion if given.
func (s *Service) CreateLaunchTemplateVersion(ctx context.Context, in *awsec2.CreateLaunchTemplateVersionInput) (*awsec2.CreateLaunchTemplateVersionOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.LaunchTemplateData == nil {
		return nil, errMissing("LaunchTemplateData")
	}
	given, err := newTemplateVersion(in.LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	now, by := s.now(), awsapi.CallFrom(ctx).Principal.ARN
	var t launchTemplateRecord
	var v templateVersionRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if t, err = findTemplate(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		if done, err := s.recall(tx, sc, "CreateLaunchTemplateVersion", in.ClientToken, in); err != nil {
			return err
		} else if done != nil {
			n, _ := strconv.ParseInt(done.IDs[0], 10, 64)
			v, err = getTemplateVersion(tx, sc, t, n)
			return err
		}
		v = given
		if in.SourceVersion != nil {
			n, err := t.version(*in.SourceVersion)
			if err != nil {
				return err
			}
			source, err := getTemplateVersion(tx, sc, t, n)
			if err != nil {
				return err
			}
			if v.Data, err = overlayJSON(source.Data, given.Data); err != nil {
				return err
			}
		}
		t.Latest++
		v.TemplateID, v.Number, v.Description, v.Created, v.CreatedBy = t.ID, t.Latest, aws.ToString(in.VersionDescription), now, by
		if err := launchTemplates.Put(tx, sc.key(t.ID), t); err != nil {
			return err
		}
		if err := templateVersions.Create(tx, v.key(sc), v); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateLaunchTemplateVersion", in.ClientToken, in, false, strconv.FormatInt(v.Number, 10))
	})
	if err != nil {
		return nil, err
	}
	out, err := v.sdk(t)
	return &awsec2.CreateLaunchTemplateVersionOutput{LaunchTemplateVersion: &out}, err
}

// overlayJSON replaces top-level members of base by those of over.
func overlayJSON(base, over json.RawMessage) (json.RawMessage, error) {
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
	templateVersionRecord
	template launchTemplateRecord
	data     *ec2types.ResponseLaunchTemplateData
}

func versionFields() fields[versionView] {
	type v = versionView
	metadata := func(get func(*ec2types.LaunchTemplateInstanceMetadataOptions) string) func(v) []string {
		return one(func(t v) string {
			if t.data.MetadataOptions == nil {
				return ""
			}
			return get(t.data.MetadataOptions)
		})
	}
	return fields[v]{
		"create-time":             one(func(t v) string { return timeText(t.Created) }),
		"ebs-optimized":           flag(func(t v) bool { return aws.ToBool(t.data.EbsOptimized) }),
		"http-endpoint":           metadata(func(m *ec2types.LaunchTemplateInstanceMetadataOptions) string { return string(m.HttpEndpoint) }),
		"http-protocol-ipv4":      never[v],
		"host-resource-group-arn": never[v],
		"http-tokens":             metadata(func(m *ec2types.LaunchTemplateInstanceMetadataOptions) string { return string(m.HttpTokens) }),
		"iam-instance-profile": one(func(t v) string {
			if t.data.IamInstanceProfile == nil {
				return ""
			}
			return aws.ToString(t.data.IamInstanceProfile.Arn)
		}),
		"image-id":                  one(func(t v) string { return aws.ToString(t.data.ImageId) }),
		"instance-type":             one(func(t v) string { return string(t.data.InstanceType) }),
		"is-default-version":        flag(func(t v) bool { return t.Number == t.template.Default }),
		"kernel-id":                 one(func(t v) string { return aws.ToString(t.data.KernelId) }),
		"license-configuration-arn": never[v],
		"network-card-index":        never[v],
		"ram-disk-id":               one(func(t v) string { return aws.ToString(t.data.RamDiskId) }),
	}
}

// DescribeLaunchTemplateVersions lists versions of a template, newest first, or
// $Latest and $Default ones of all templates.
func (s *Service) DescribeLaunchTemplateVersions(ctx context.Context, in *awsec2.DescribeLaunchTemplateVersionsInput) (*awsec2.DescribeLaunchTemplateVersionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, versionFields(), nil)
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
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
	// Newest first: the page's order is by template and falling number.
	id := func(v versionView) string { return fmt.Sprintf("%s/%012d", v.TemplateID, 999_999_999_999-v.Number) }
	page, next, err := paginate(kept, id, in.MaxResults, in.NextToken, limits{1, 200})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeLaunchTemplateVersionsOutput{NextToken: next, LaunchTemplateVersions: []ec2types.LaunchTemplateVersion{}}
	for _, v := range page {
		sdk, err := v.sdk(v.template)
		if err != nil {
			return nil, err
		}
		if aws.ToBool(in.ResolveAlias) && sdk.LaunchTemplateData.ImageId != nil {
			if img, ok := s.resolveImage(sc, *sdk.LaunchTemplateData.ImageId); ok {
				sdk.LaunchTemplateData.ImageId = aws.String(img.ID)
			}
		}
		out.LaunchTemplateVersions = append(out.LaunchTemplateVersions, sdk)
	}
	return out, nil
}

// findVersions returns the versions a request means, newest first per template.
func (s *Service) findVersions(sc scope, in *awsec2.DescribeLaunchTemplateVersionsInput) ([]versionView, error) {
	var templates []launchTemplateRecord
	if in.LaunchTemplateId == nil && in.LaunchTemplateName == nil {
		for _, v := range in.Versions {
			if v != "$Latest" && v != "$Default" {
				return nil, errf("InvalidParameterValue", "If you do not specify a launch template, only $Latest and $Default are valid versions.")
			}
		}
		if len(in.Versions) == 0 {
			return nil, errf("MissingParameter", "Either launch template id or launch template name must be specified")
		}
		all, err := list(s.store, launchTemplates, sc, func(launchTemplateRecord) bool { return true })
		if err != nil {
			return nil, err
		}
		templates = all
	} else {
		t, err := findTemplate(s.store, sc, in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		templates = append(templates, t)
	}
	var out []versionView
	for _, t := range templates {
		wanted := map[int64]bool{}
		for _, selector := range in.Versions {
			n, err := t.version(selector)
			if err != nil {
				return nil, err
			}
			if _, err := getTemplateVersion(s.store, sc, t, n); err != nil {
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
				n, err := t.version(*b.selector)
				if err != nil {
					return nil, err
				}
				*b.to = n
			}
		}
		versions, err := listTemplateVersions(s.store, sc, t.ID)
		if err != nil {
			return nil, err
		}
		for i := len(versions) - 1; i >= 0; i-- {
			v := versions[i]
			if len(wanted) > 0 && !wanted[v.Number] || v.Number < least || v.Number > most {
				continue
			}
			out = append(out, versionView{templateVersionRecord: v, template: t})
		}
	}
	return out, nil
}

// DeleteLaunchTemplateVersions deletes versions other than the default one.
func (s *Service) DeleteLaunchTemplateVersions(ctx context.Context, in *awsec2.DeleteLaunchTemplateVersionsInput) (*awsec2.DeleteLaunchTemplateVersionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.Versions) == 0 {
		return nil, errMissing("Versions")
	}
	out := &awsec2.DeleteLaunchTemplateVersionsOutput{}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		*out = awsec2.DeleteLaunchTemplateVersionsOutput{}
		t, err := findTemplate(tx, sc, in.LaunchTemplateId, in.LaunchTemplateName)
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
			n, err := t.version(selector)
			if err != nil {
				return err
			}
			v, err := getTemplateVersion(tx, sc, t, n)
			switch {
			case isCode(err, "InvalidLaunchTemplateId.VersionNotFound"):
				fail(n, ec2types.LaunchTemplateErrorCodeLaunchTemplateVersionDoesNotExist, "The specified launch template version does not exist.")
			case err != nil:
				return err
			case n == t.Default:
				return errf("OperationNotPermitted", "The default version of a launch template can't be deleted.")
			default:
				templateVersions.Delete(tx, v.key(sc))
				out.SuccessfullyDeletedLaunchTemplateVersions = append(out.SuccessfullyDeletedLaunchTemplateVersions, ec2types.DeleteLaunchTemplateVersionsResponseSuccessItem{
					LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name), VersionNumber: aws.Int64(n),
				})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

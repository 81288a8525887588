// Package resourcegroupstaggingapi implements the Resource Groups Tagging API: it finds the resources of all services by
// their tags, and changes tags by calling the services' own operations on behalf of the caller, who also needs permission
// for those operations.
//
// It stores nothing: each service's module lists its resources (module.Tagging). Only internal/app imports it.
package resourcegroupstaggingapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awstagging "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	taggingtypes "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
)

// Config has the dependencies of a Service.
type Config struct {
	API awsapi.API
	// Services returns what the other services let the API list and change.
	Services func() []module.Tagging
}

// A Service is the API for all accounts.
type Service struct{ cfg Config }

// New returns the service.
func New(cfg Config) *Service { return &Service{cfg} }

// Module declares the service to the daemon.
func (s *Service) Module() module.Module { return module.Module{Service: s.AWS()} }

// AWS declares the operations that the service answers.
func (s *Service) AWS() awsapi.Service {
	const noPolicies = "there are no organizations, and so no tag policies"
	return awsapi.Service{Name: "resourcegroupstaggingapi", Handler: s, Operations: []awsapi.Operation{
		{Name: "GetResources", Members: "PaginationToken ResourceARNList ResourceTypeFilters ResourcesPerPage TagFilters TagsPerPage"},
		{Name: "GetTagKeys", Members: "PaginationToken"},
		{Name: "GetTagValues", Members: "Key PaginationToken"},
		{Name: "TagResources", Members: "ResourceARNList Tags"},
		{Name: "UntagResources", Members: "ResourceARNList TagKeys"},
	}, Refused: []awsapi.Refusal{
		{Operations: "DescribeReportCreation GetComplianceSummary ListRequiredTags StartReportCreation", Why: noPolicies},
	}}
}

// globalRegion is the region whose callers also see resources without a region.
const globalRegion = "us-east-1"

// A found is a resource and the service that it belongs to.
type found struct {
	module.Resource
	of module.Tagging
}

// all returns the resources of the caller's account and region, sorted by ARN.
func (s *Service) all(ctx context.Context) []found {
	call := awsapi.CallFrom(ctx)
	places := []string{call.Region}
	if call.Region == globalRegion {
		places = append(places, "")
	}
	var out []found
	for _, of := range s.cfg.Services() {
		if of.Resources == nil {
			continue
		}
		for _, region := range places {
			for _, r := range of.Resources(call.Account, region) {
				out = append(out, found{r, of})
			}
		}
	}
	slices.SortFunc(out, func(a, b found) int { return strings.Compare(a.ARN, b.ARN) })
	// A service that ignores the region returns its resources twice.
	return slices.CompactFunc(out, func(a, b found) bool { return a.ARN == b.ARN })
}

// Page sizes of GetResources.
// https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
const (
	usualResources = 50
	maxResources   = 100
	minTags        = 100
	maxTags        = 500
	usualNames     = 1000 // page size of GetTagKeys and GetTagValues
)

// GetResources returns the tagged resources that match the request.
func (s *Service) GetResources(ctx context.Context, in *awstagging.GetResourcesInput) (*awstagging.GetResourcesOutput, error) {
	if err := checkQuery(in); err != nil {
		return nil, err
	}
	rules := pages(usualResources)
	rules.Size = func(n int32) (int, error) {
		if n < 1 || n > maxResources {
			return 0, invalid("ResourcesPerPage must be between 1 and 100.")
		}
		return int(n), nil
	}
	page, err := rules.Start(in.ResourcesPerPage, in.PaginationToken)
	if err != nil {
		return nil, err
	}
	out := &awstagging.GetResourcesOutput{ResourceTagMappingList: []taggingtypes.ResourceTagMapping{}}
	tags := 0
	for _, r := range s.all(ctx) {
		if r.ARN <= page.After || len(r.Tags) == 0 || !matches(in, &r) {
			continue
		}
		tags += len(r.Tags)
		if in.TagsPerPage != nil && tags > int(*in.TagsPerPage) {
			page.Stop()
			break
		}
		if page.Full() {
			break
		}
		page.Add(r.ARN)
		out.ResourceTagMappingList = append(out.ResourceTagMappingList, taggingtypes.ResourceTagMapping{
			ResourceARN: &r.ARN, Tags: tagging.List(r.Tags, func(k, v *string) taggingtypes.Tag { return taggingtypes.Tag{Key: k, Value: v} }),
		})
	}
	out.PaginationToken = token(page.Next())
	return out, nil
}

func checkQuery(in *awstagging.GetResourcesInput) error {
	if len(in.ResourceARNList) > 0 && (len(in.ResourceTypeFilters) > 0 || len(in.TagFilters) > 0 || in.ResourcesPerPage != nil || in.TagsPerPage != nil || aws.ToString(in.PaginationToken) != "") {
		return invalid("ResourceARNList cannot be specified together with ResourceTypeFilters, TagFilters, ResourcesPerPage, TagsPerPage or PaginationToken.")
	}
	if n := in.TagsPerPage; n != nil {
		if in.ResourcesPerPage != nil {
			return invalid("TagsPerPage and ResourcesPerPage cannot be specified together.")
		}
		if *n < minTags || *n > maxTags || *n%100 != 0 {
			return invalid("TagsPerPage must be a multiple of 100 between 100 and 500.")
		}
	}
	for _, f := range in.TagFilters {
		if aws.ToString(f.Key) == "" {
			return invalid("A tag filter must have a key.")
		}
	}
	for _, f := range in.ResourceTypeFilters {
		if service, kind, typed := strings.Cut(f, ":"); service == "" || typed && kind == "" {
			return invalid("The resource type filter " + f + " is not of the form service or service:type.")
		}
	}
	return nil
}

func matches(in *awstagging.GetResourcesInput, r *found) bool {
	switch {
	case len(in.ResourceARNList) > 0 && !slices.Contains(in.ResourceARNList, r.ARN):
		return false
	case len(in.ResourceTypeFilters) > 0 && !slices.ContainsFunc(in.ResourceTypeFilters, func(f string) bool { return ofType(r.ARN, f) }):
		return false
	}
	for _, f := range in.TagFilters {
		value, ok := r.Tags[*f.Key]
		if !ok || len(f.Values) > 0 && !slices.Contains(f.Values, value) {
			return false
		}
	}
	return true
}

// ofType reports whether a resource is of a type, such as ec2, ec2:instance or
// elasticloadbalancing:loadbalancer/app. The ARNs of queues and topics do not contain their type.
func ofType(name, filter string) bool {
	a, err := arn.Parse(name)
	service, kind, typed := strings.Cut(filter, ":")
	if err != nil || a.Service != service {
		return false
	}
	switch {
	case !typed:
		return true
	case service == "sqs":
		return kind == "queue"
	}
	rest, ok := strings.CutPrefix(a.Resource, kind)
	return ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ":"))
}

// GetTagKeys returns the keys of all tags.
func (s *Service) GetTagKeys(ctx context.Context, in *awstagging.GetTagKeysInput) (*awstagging.GetTagKeysOutput, error) {
	names, next, err := s.names(ctx, in.PaginationToken, func(r *found, add func(string)) {
		for k := range r.Tags {
			add(k)
		}
	})
	return &awstagging.GetTagKeysOutput{TagKeys: names, PaginationToken: next}, err
}

// GetTagValues returns the values of all tags with a key.
func (s *Service) GetTagValues(ctx context.Context, in *awstagging.GetTagValuesInput) (*awstagging.GetTagValuesOutput, error) {
	names, next, err := s.names(ctx, in.PaginationToken, func(r *found, add func(string)) {
		if v, ok := r.Tags[*in.Key]; ok {
			add(v)
		}
	})
	return &awstagging.GetTagValuesOutput{TagValues: names, PaginationToken: next}, err
}

// names returns a page of the distinct strings that of adds for the resources.
func (s *Service) names(ctx context.Context, after *string, of func(r *found, add func(string))) ([]string, *string, error) {
	seen := map[string]bool{}
	for _, r := range s.all(ctx) {
		of(&r, func(name string) { seen[name] = true })
	}
	all := make([]string, 0, len(seen))
	for name := range seen {
		all = append(all, name)
	}
	sort.Strings(all)
	page, next, err := paging.Cut(pages(usualNames), all, func(v string) string { return v }, nil, after)
	return page, token(next), err
}

// TagResources adds tags to resources, using the tagging operation of each resource's service.
func (s *Service) TagResources(ctx context.Context, in *awstagging.TagResourcesInput) (*awstagging.TagResourcesOutput, error) {
	return &awstagging.TagResourcesOutput{FailedResourcesMap: s.change(ctx, in.ResourceARNList, func(of module.Tagging, name string) any {
		if of.Put == nil {
			return nil
		}
		return of.Put(name, in.Tags)
	})}, nil
}

// UntagResources removes tags from resources, using the untagging operation of each resource's service.
func (s *Service) UntagResources(ctx context.Context, in *awstagging.UntagResourcesInput) (*awstagging.UntagResourcesOutput, error) {
	return &awstagging.UntagResourcesOutput{FailedResourcesMap: s.change(ctx, in.ResourceARNList, func(of module.Tagging, name string) any {
		if of.Remove == nil {
			return nil
		}
		return of.Remove(name, in.TagKeys)
	})}, nil
}

// change makes a call for each resource and returns the failures by ARN.
func (s *Service) change(ctx context.Context, names []string, input func(of module.Tagging, name string) any) map[string]taggingtypes.FailureInfo {
	all := s.all(ctx)
	failed := map[string]taggingtypes.FailureInfo{}
	refuse := func(name, message string) {
		failed[name] = taggingtypes.FailureInfo{ErrorCode: taggingtypes.ErrorCodeInvalidParameterException, ErrorMessage: &message, StatusCode: http.StatusBadRequest}
	}
	for _, name := range names {
		i, ok := slices.BinarySearchFunc(all, name, func(r found, name string) int { return strings.Compare(r.ARN, name) })
		if !ok {
			refuse(name, "The resource "+name+" does not exist in this account and region, or cannot have tags.")
			continue
		}
		in := input(all[i].of, name)
		if in == nil {
			refuse(name, "The tags of the resource "+name+" cannot be changed by this API.")
			continue
		}
		_, err := s.cfg.API.Call(ctx, in)
		var refused smithy.APIError
		switch {
		case err == nil:
		case errors.As(err, &refused) && refused.ErrorFault() != smithy.FaultServer:
			refuse(name, refused.ErrorCode()+": "+refused.ErrorMessage())
		default:
			failed[name] = taggingtypes.FailureInfo{
				ErrorCode: taggingtypes.ErrorCodeInternalServiceException, ErrorMessage: aws.String("The service failed. Try again."), StatusCode: http.StatusInternalServerError,
			}
		}
	}
	return failed
}

func pages(usual int) paging.Rules {
	return paging.Rules{Usual: usual, BadToken: func(string) error {
		return &taggingtypes.PaginationTokenExpiredException{Message: aws.String("The pagination token has expired, or is not valid.")}
	}}
}

// token returns the pagination token of a response, which is empty after the last page but never absent.
func token(next *string) *string { return aws.String(aws.ToString(next)) }

func invalid(message string) error {
	return &taggingtypes.InvalidParameterException{Message: &message}
}

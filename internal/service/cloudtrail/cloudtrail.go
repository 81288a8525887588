// Package cloudtrail implements AWS CloudTrail's event history: the management events that the AWS
// API server writes to the journal, looked up by attribute and time. The journal is bounded, so the
// oldest events are removed first; on AWS that happens after 90 days.
//
// There are no trails, so events are not delivered anywhere. Only internal/app may import the
// package.
package cloudtrail

import (
	"cmp"
	"context"

	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
)

// Config has the settings and dependencies of a Service.
type Config struct {
	Journal *journal.Journal // nil means that there are no events
	Clock   clock.Clock      // nil means the real clock
}

// A Service is CloudTrail for all accounts of the journal.
type Service struct {
	journal *journal.Journal
	clock   clock.Clock
}

// New returns the service.
func New(cfg Config) *Service {
	return &Service{journal: cfg.Journal, clock: cmp.Or[clock.Clock](cfg.Clock, clock.RealClock{})}
}

// AWS declares the operations that the service answers.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "cloudtrail", Handler: s, Operations: []awsapi.Operation{
		{Name: "LookupEvents", ReadOnly: true, Members: "EndTime LookupAttributes MaxResults NextToken StartTime"},
		{Name: "DescribeTrails", Members: "includeShadowTrails trailNameList"},
		{Name: "ListTrails", Members: "NextToken"},
	}}
}

// DescribeTrails lists the trails of the account, of which there are none.
func (s *Service) DescribeTrails(context.Context, *awscloudtrail.DescribeTrailsInput) (*awscloudtrail.DescribeTrailsOutput, error) {
	return &awscloudtrail.DescribeTrailsOutput{TrailList: []cloudtrailtypes.Trail{}}, nil
}

// ListTrails lists the trails of the account, of which there are none.
func (s *Service) ListTrails(_ context.Context, in *awscloudtrail.ListTrailsInput) (*awscloudtrail.ListTrailsOutput, error) {
	if in.NextToken != nil {
		return nil, invalidNextToken()
	}
	return &awscloudtrail.ListTrailsOutput{Trails: []cloudtrailtypes.TrailInfo{}}, nil
}

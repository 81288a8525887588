// Package cloudtrail implements AWS CloudTrail's event history: the management events that the AWS
// API server writes to the journal, looked up by attribute and time. The journal is bounded, so the
// oldest events are removed first; on AWS that happens after 90 days.
//
// While a trail logs, calls that change something are sent to EventBridge. No log files are written
// to its bucket. Only internal/app may import the package.
package cloudtrail

import (
	"cmp"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config has the settings and dependencies of a Service.
type Config struct {
	Store   *store.Store     // nil means that there are no trails
	Journal *journal.Journal // nil means that there are no events
	Clock   clock.Clock      // nil means the real clock
	Log     *slog.Logger     // nil means slog.Default()
}

// A Service is CloudTrail for all accounts of the journal.
type Service struct {
	store   *store.Store
	journal *journal.Journal
	clock   clock.Clock
	log     *slog.Logger
}

// New returns the service.
func New(cfg Config) *Service {
	return &Service{store: cfg.Store, journal: cfg.Journal, clock: cmp.Or[clock.Clock](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
}

// AWS declares the operations that the service answers.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "cloudtrail", Handler: s, Constraints: constraints, Operations: []awsapi.Operation{
		{Name: "LookupEvents", ReadOnly: true, Members: "EndTime LookupAttributes MaxResults NextToken StartTime"},
		{Name: "AddTags", Members: "ResourceId TagsList"},
		{Name: "CreateTrail", Members: "EnableLogFileValidation IncludeGlobalServiceEvents IsMultiRegionTrail Name S3BucketName S3KeyPrefix TagsList"},
		{Name: "DeleteTrail", Members: "Name"},
		{Name: "DescribeTrails", Members: "includeShadowTrails trailNameList"},
		{Name: "GetEventSelectors", Members: "TrailName"},
		{Name: "GetTrail", Members: "Name"},
		{Name: "GetTrailStatus", Members: "Name"},
		{Name: "ListTags", Members: "NextToken ResourceIdList"},
		{Name: "ListTrails", Members: "NextToken"},
		{Name: "RemoveTags", Members: "ResourceId TagsList"},
		{Name: "StartLogging", Members: "Name"},
		{Name: "StopLogging", Members: "Name"},
		{Name: "UpdateTrail", Members: "EnableLogFileValidation IncludeGlobalServiceEvents IsMultiRegionTrail Name S3BucketName S3KeyPrefix"},
	}}
}

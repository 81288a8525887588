package ec2

import (
	"slices"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// paged are the members of every Describe call that pages and filters.
const paged = " DryRun Filters MaxResults NextToken"

// AWS returns the service as the front door registers it.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ec2",
		Handler:       s,
		HandlesDryRun: true,
		Operations:    slices.Concat(networkOperations(), machineOperations(), insightsOperations()),
	}
}

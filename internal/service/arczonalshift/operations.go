package arczonalshift

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon. resources returns the managed resources of an account and region.
func (s *Service) Module(resources func(account, region string) []Resource) module.Module {
	s.resources = resources
	return module.Module{Service: s.AWS(), Resolver: resolver{s}}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "arczonalshift",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "GetManagedResource", Members: "resourceIdentifier"},
			{Name: "ListManagedResources", Members: "maxResults nextToken"},
			{Name: "StartZonalShift", Members: "awayFrom comment expiresIn resourceIdentifier"},
			{Name: "UpdateZonalShift", Members: "comment expiresIn zonalShiftId"},
			{Name: "CancelZonalShift", Members: "zonalShiftId"},
			{Name: "ListZonalShifts", Members: "maxResults nextToken resourceIdentifier status"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "CreatePracticeRunConfiguration UpdatePracticeRunConfiguration DeletePracticeRunConfiguration StartPracticeRun CancelPracticeRun",
				Why: "Practice runs are judged by CloudWatch alarms, and there is no CloudWatch. StartZonalShift does the same to the resource."},
			{Operations: "UpdateZonalAutoshiftConfiguration ListAutoshifts GetAutoshiftObserverNotificationStatus UpdateAutoshiftObserverNotificationStatus",
				Why: "Autoshifts need practice runs. No zone fails here but by `drydock fault set zone`."},
		},
	}
}

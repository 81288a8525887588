// Package shield says that accounts are not subscribed to AWS Shield Advanced. Load balancer controllers ask for that
// before they look for protections. Only the composition root imports the package.
package shield

import (
	"context"

	awsshield "github.com/aws/aws-sdk-go-v2/service/shield"
	shieldtypes "github.com/aws/aws-sdk-go-v2/service/shield/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Service is AWS Shield.
type Service struct{}

// New returns the service.
func New() *Service { return &Service{} }

// Module declares the service to the daemon.
func (s *Service) Module() module.Module { return module.Module{Service: s.AWS()} }

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name: "shield", Handler: s,
		Operations: []awsapi.Operation{{Name: "GetSubscriptionState"}},
		Refused: []awsapi.Refusal{{
			Operations: "CreateSubscription CreateProtection",
			Why:        "Accounts cannot subscribe to AWS Shield Advanced here.",
		}},
	}
}

// GetSubscriptionState returns INACTIVE: no account is subscribed to Shield Advanced.
func (*Service) GetSubscriptionState(context.Context, *awsshield.GetSubscriptionStateInput) (*awsshield.GetSubscriptionStateOutput, error) {
	return &awsshield.GetSubscriptionStateOutput{SubscriptionState: shieldtypes.SubscriptionStateInactive}, nil
}

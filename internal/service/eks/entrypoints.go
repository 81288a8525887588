package eks

import (
	"context"
	"errors"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// AWS returns the service's table of operations for the front door.
func (s *Service) AWS() awsapi.Service { return awsapi.Service{Name: "eks", Handler: s} }

// Run reconciles clusters and node groups until ctx ends.
func (s *Service) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// ErrUnauthenticated says that a token is not good or that its principal has no
// way into the cluster. Its text is for `drydock why`, not for the caller.
var ErrUnauthenticated = errors.New("unauthenticated")

// Authenticate says who a bearer token of the cluster behind planeID stands
// for. Every error means: not authenticated; those that wrap ErrUnauthenticated
// are final for this token and state, others are trouble of ours.
func (s *Service) Authenticate(ctx context.Context, planeID, token string) (authnv1.UserInfo, error) {
	return authnv1.UserInfo{}, ErrUnauthenticated
}

// Authorize says whether an EKS access policy of the requester's access entry
// allows a request. False is no opinion: RBAC may still allow it.
func (s *Service) Authorize(ctx context.Context, planeID string, spec authzv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error) {
	return false, "", nil
}

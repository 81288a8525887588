// Package pod looks pods of clusters up, for explanations (`drydock why`) and for
// programs that run as pods (`drydock run --pod`). It changes no pod.
package pod

import (
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
)

// A Service looks pods up. It answers no operation of the API.
type Service struct {
	*base.Service
	identities *podidentity.Service
}

// New returns the part of EKS that looks pods up.
func New(b *base.Service, identities *podidentity.Service) *Service { return &Service{b, identities} }

// Package nodegroup makes managed node groups: for each a launch template with the user
// data of its nodes, and an Auto Scaling group that launches and ends the instances. It
// drains nodes before they go, replaces them in updates, and says what is wrong with a
// group. It launches no instance itself, and no node is run here: instances join by
// their user data (internal/node).
//
//	CREATING → ACTIVE ⇄ UPDATING → DELETING → gone
//	   └────→ CREATE_FAILED ───────↗    └────→ DELETE_FAILED
package nodegroup

import (
	"context"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on managed node groups and reconciles them.
type Service struct {
	*base.Service
	access *access.Service
}

// New returns the part of EKS that makes managed node groups.
func New(b *base.Service, a *access.Service) *Service { return &Service{b, a} }

// asService returns a context in which EC2, Auto Scaling and IAM are called for a
// node group or its cluster, under the service-linked role of node groups.
// https://docs.aws.amazon.com/eks/latest/userguide/service-name-info-in-cloudtrail.html
func (s *Service) asService(ctx context.Context, at store.Key) context.Context {
	return awsapi.AsService(ctx, at.Account, at.Region, base.NodegroupRole, s.Clock.Now())
}

// Package cluster creates clusters: the security group and network interfaces of each,
// a control plane, its encryption, and the objects that every new cluster has.
// Resources that a cluster gets later (node groups, add-ons, profiles, entries) have
// packages of their own, and are deleted with it.
//
//	CREATING → ACTIVE ⇄ UPDATING → DELETING → gone
//	   └────→ FAILED ──────────────↗
package cluster

import (
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/addon"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
)

// A Service answers the operations on clusters and reconciles them.
type Service struct {
	*base.Service
	access *access.Service
	addons *addon.Service
}

// New returns the part of EKS that makes clusters.
func New(b *base.Service, a *access.Service, addons *addon.Service) *Service {
	return &Service{b, a, addons}
}

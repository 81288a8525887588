// Package base is what every part of EKS stands on: the configuration, the look-up of
// clusters, and what requests have in common (names, tags, paging, updates). It has no
// API operations of its own, and does not depend on the parts of EKS that use it.
package base

import "github.com/drydock-dev/drydock/internal/service/eks/plane"

// A Service is embedded by the parts of EKS. They share one.
type Service struct {
	Config
	Sessions *plane.Sessions
}

// New returns the service that the parts of EKS share.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	sessions := plane.NewSessions(plane.Config{ControlPlanes: cfg.ControlPlanes, NewClient: cfg.NewClient, NewObjects: cfg.NewObjects, Log: cfg.Log})
	return &Service{Config: cfg, Sessions: sessions}, nil
}

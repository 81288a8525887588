// Package access decides who may enter a cluster, and under which name: access entries and
// access policies, the aws-auth ConfigMap, the tokens of EKS, and the answers to the
// webhooks by which API servers ask for both. Package podidentity handles the AWS
// identities of pods.
package access

import "github.com/drydock-dev/drydock/internal/service/eks/base"

// A Service answers the operations on access entries and authenticates principals.
type Service struct {
	*base.Service
	names nodeNames
}

// New returns the part of EKS that decides about access.
func New(b *base.Service) *Service { return &Service{Service: b} }

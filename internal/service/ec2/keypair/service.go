// Package keypair manages key pairs, imported or generated. It stores only public keys.
package keypair

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on key pairs.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }

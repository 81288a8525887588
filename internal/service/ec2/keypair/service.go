// Package keypair holds key pairs, imported or generated. Of a generated one it keeps
// the public half only.
package keypair

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of key pairs.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }

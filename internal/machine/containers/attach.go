package containers

import (
	"context"

	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// Attach connects another network interface, which the network must have, to the machine for this boot. Attaching it again
// changes nothing.
func (m *Machine) Attach(ctx context.Context, eni, device string) error {
	return m.rt.ask(ctx, inside.HostRequest{Attach: &inside.Attachment{Machine: m.in.ID, Interface: eni, Device: device}})
}

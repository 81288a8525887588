package containers

import (
	"context"
	"errors"
	"os"

	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// Leave makes packets to the internet leave the network, for the current run of the host: see fabric.Leave.
func (r *Runtime) Leave(ctx context.Context) (*os.File, error) {
	ns, err := r.askFile(ctx, inside.HostRequest{Outside: true})
	if err == nil && ns == nil {
		err = errors.New("no network namespace")
	}
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return fabric.Leave(ns)
}

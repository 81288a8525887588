package controlplane

import (
	"context"
	"errors"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// Cloud is the information about AWS for the cloud provider in a plane's
// process.
type Cloud = launch.Cloud

// CloudCredentials are the credentials for its AWS calls.
type CloudCredentials = launch.Credentials

var errNoCloud = errors.New("no cloud is connected")

// cloud answers a plane that asks for its cloud.
func cloud(ctx context.Context, hooks Hooks, id string) Cloud {
	if hooks.Cloud == nil {
		return Cloud{Problem: errNoCloud.Error()}
	}
	c, err := hooks.Cloud(ctx, id)
	if err != nil { // together with what is known
		c.Problem = err.Error()
	}
	return c
}

// Drydock is Amazon EKS on your own machine.
package main

import (
	"maps"
	"os"

	"github.com/drydock-dev/drydock/internal/app"
	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/controlplane/child"
	"github.com/drydock-dev/drydock/internal/initgc"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	kubectlchild "github.com/drydock-dev/drydock/internal/machine/guest/kubectl/child"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
)

func main() {
	initgc.On()
	modes := childproc.Modes{"controlplane": child.Main, sandbox.Mode: sandbox.Main, kubectl.Mode: kubectlchild.Main}
	maps.Copy(modes, inside.HostModes())
	os.Exit(app.Main(os.Args, modes))
}

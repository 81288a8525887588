package ami

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// kubectlCommand is kubectl, with the machine's files, network and programs.
func (m *Machine) kubectlCommand(ctx context.Context, c *shell.Call) int {
	return m.world.Kubectl(ctx, c, kubectl.Machine{ID: m.In.ID, Dial: m.world.Dial, Run: m.Outside})
}

// authenticator is `aws-iam-authenticator token -i CLUSTER [--region REGION]`, which kubeconfigs of Amazon Linux 2 nodes name.
// The AWS CLI prints the same token.
func (m *Machine) authenticator(ctx context.Context, c *shell.Call) int {
	if len(c.Args) < 2 || c.Args[1] != "token" {
		return c.Fail("on simulated machines, only the subcommand token works")
	}
	args := []string{"aws", "eks", "get-token", "--output", "json"}
	for i := 2; i < len(c.Args); i++ {
		name, value, given := strings.Cut(c.Args[i], "=")
		if !given && i+1 < len(c.Args) {
			i++
			value = c.Args[i]
		}
		switch name {
		case "-i", "--cluster-id":
			args = append(args, "--cluster-name", value)
		case "--region":
			args = append(args, "--region", value)
		default:
			return c.Fail("on simulated machines, the option %s does not work", name)
		}
	}
	c.Args = args
	return m.aws(ctx, c)
}

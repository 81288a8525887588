package cli

import (
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// AWS CLI 2 opens the tunnels of Instance Connect endpoints with AWS's C libraries, which trust the certificates of the
// system and no others: no variable names a bundle. On Linux, drydock run therefore shows that one command Drydock's bundle
// in the place of the system's. Elsewhere, Drydock's CA has to be trusted by the system.

// The names of the commands that run a program with Drydock's bundle.
const (
	trustCommand     = "trust"
	trustViewCommand = "trust-view"
)

// newTrust runs a program that trusts a bundle, if the system permits a mount namespace.
func newTrust(o *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:                trustCommand + " BUNDLE COMMAND [ARG...]",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[1])
			if err != nil {
				return &ExitError{127, err}
			}
			return o.runChild(viewed([]string{trustViewCommand, args[0]}, path, args[1:], os.Environ())...)
		},
	}
}

// newTrustView becomes a program that sees a bundle in the place of the system's.
func newTrustView() *cobra.Command {
	return newView(trustViewCommand+" BUNDLE", func(bundle string) { _ = enterTrustView(bundle) })
}

// trusting returns the beginning of a shell command that runs the rest of it with a bundle.
func trusting(self, bundle string) string {
	return shellQuote(self) + " " + trustCommand + " " + shellQuote(bundle)
}

// trustingAWS returns a script that runs the aws CLI at path, which opens tunnels with a bundle.
func trustingAWS(self, bundle, path string) string {
	return `#!/bin/sh
case " $* " in
*" ec2-instance-connect open-tunnel "*) exec ` + trusting(self, bundle) + " " + shellQuote(path) + ` "$@" ;;
esac
exec ` + shellQuote(path) + ` "$@"
`
}

// trustingSSH returns the part of a script in front of ssh that makes the ProxyCommand which "aws ec2-instance-connect ssh"
// passes to ssh trust a bundle.
func trustingSSH(self, bundle string) string {
	return `trusting=` + shellQuote(strings.ReplaceAll(trusting(self, bundle), "%", "%%")) + `
for a do
	shift
	case $a in
	ProxyCommand=*ec2-instance-connect*open-tunnel*) a="ProxyCommand=$trusting ${a#ProxyCommand=}" ;;
	esac
	set -- "$@" "$a"
done
`
}

// trusts reports whether programs can be shown a bundle.
const trusts = runtime.GOOS == "linux"

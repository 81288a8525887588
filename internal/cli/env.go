package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// environment returns the variables that point AWS clients at the daemon.
// AWS_PROFILE is emptied: a profile's keys would win over the ones set here.
func environment(info DaemonInfo) [][2]string {
	return [][2]string{
		{"AWS_ENDPOINT_URL", info.URL},
		{"AWS_ACCESS_KEY_ID", info.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", info.SecretAccessKey},
		{"AWS_REGION", "us-east-1"},
		{"AWS_DEFAULT_REGION", "us-east-1"},
		{"AWS_CA_BUNDLE", info.CAFile},
		{"AWS_EC2_METADATA_DISABLED", "true"},
	}
}

// unset are variables that would take an AWS client elsewhere.
var unset = []string{"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"}

func newEnv(o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the variables that point AWS clients at Drydock",
		Example: `  eval "$(drydock env)"
  drydock env --output json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			vars := environment(info)
			if output == "json" {
				m := map[string]string{}
				for _, v := range vars {
					m[v[0]] = v[1]
				}
				return o.printJSON(m)
			}
			for _, name := range unset {
				fmt.Fprintf(o.streams.Out, "unset %s\n", name)
			}
			for _, v := range vars {
				fmt.Fprintf(o.streams.Out, "export %s=%s\n", v[0], shellQuote(v[1]))
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func newRun(o *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "run -- COMMAND [ARG...]",
		Short:   "Run a command whose AWS calls go to Drydock",
		Example: "  drydock run -- terraform apply",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return &ExitError{127, err}
			}
			return syscall.Exec(path, args, childEnv(os.Environ(), info))
		},
	}
}

// childEnv is base with the daemon's variables in place of the caller's own.
func childEnv(base []string, info DaemonInfo) []string {
	drop := map[string]bool{}
	for _, name := range unset {
		drop[name] = true
	}
	vars := environment(info)
	for _, v := range vars {
		drop[v[0]] = true
	}
	out := make([]string, 0, len(base)+len(vars))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		// A per-service endpoint (AWS_ENDPOINT_URL_EKS) would win over ours.
		if !drop[name] && !strings.HasPrefix(name, "AWS_ENDPOINT_URL_") {
			out = append(out, kv)
		}
	}
	for _, v := range vars {
		out = append(out, v[0]+"="+v[1])
	}
	return out
}

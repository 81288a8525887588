package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

// environment returns the variables that point AWS clients at the daemon.
// AWS_PROFILE is emptied: a profile's keys would win over the ones set here.
func environment(info api.DaemonInfo) [][2]string {
	return [][2]string{
		{"AWS_ENDPOINT_URL", info.URL},
		// The SDK for Go assumes roles of profiles and of web identities with an STS
		// client that does not read AWS_ENDPOINT_URL (config v1.33).
		{"AWS_ENDPOINT_URL_STS", info.URL},
		{"AWS_ACCESS_KEY_ID", info.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", info.SecretAccessKey},
		{"AWS_REGION", "us-east-1"},
		{"AWS_DEFAULT_REGION", "us-east-1"},
		{"AWS_CA_BUNDLE", info.CAFile},
		{"AWS_EC2_METADATA_DISABLED", "true"},
		{"DRYDOCK_TOKEN", info.Token}, // lets test suites call /_drydock/
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

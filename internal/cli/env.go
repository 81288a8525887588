package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

// environment returns the variables that point AWS clients at the daemon. AWS_PROFILE is emptied, because a profile's
// keys would override those set here.
func environment(info api.DaemonInfo) [][2]string {
	return [][2]string{
		{"AWS_ENDPOINT_URL", info.URL},
		// The SDK for Go assumes roles of profiles and of web identities with an STS client that does not read
		// AWS_ENDPOINT_URL (config v1.33).
		{"AWS_ENDPOINT_URL_STS", info.URL},
		{"AWS_ACCESS_KEY_ID", info.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", info.SecretAccessKey},
		{"AWS_REGION", "us-east-1"},
		{"AWS_DEFAULT_REGION", "us-east-1"},
		// Over what a profile or the caller's own environment says.
		{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false"},
		// Trusting only Drydock's CA stops what goes past AWS_ENDPOINT_URL: see newEnv.
		{"AWS_CA_BUNDLE", info.CAFile},
		{"AWS_EC2_METADATA_DISABLED", "true"},
		{"DRYDOCK_TOKEN", info.Token}, // lets test suites call /_drydock/
	}
}

// unset are variables that would send an AWS client elsewhere, or with other credentials.
var unset = []string{"AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_CREDENTIAL_EXPIRATION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"}

// otherEndpoints are the variables of an environment that name the endpoint of one service,
// and would win over AWS_ENDPOINT_URL.
func otherEndpoints(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "AWS_ENDPOINT_URL_") && name != "AWS_ENDPOINT_URL_STS" {
			out = append(out, name)
		}
	}
	return out
}

func newEnv(o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the variables that point AWS clients at Drydock",
		Long: `Print the variables that point AWS clients at Drydock.

AWS CLI 1 (1.45) sends commands of sqs and health, of emr in most regions, and of rds,
docdb and neptune in us-east-1 to AWS's own host names, whatever AWS_ENDPOINT_URL says.
"drydock run -- aws sqs ..." brings them to Drydock, and so does --endpoint-url
"$AWS_ENDPOINT_URL". Without these, AWS_CA_BUNDLE stops them: it names Drydock's CA alone,
so they fail with "SSL validation failed" in the TLS handshake. AWS then has seen a
connection, but nothing of the request, its signature or any credentials.

That does not hold with --no-verify-ssl, --ca-bundle or another AWS_CA_BUNDLE. Then the
request, with its parameters, is sent to AWS: signed with the keys of drydock env, which
AWS does not know and refuses, but with --profile NAME by that profile's own keys, and
AWS carries it out.`,
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
			for _, name := range append(slices.Clone(unset), otherEndpoints(os.Environ())...) {
				fmt.Fprintf(o.streams.Out, "unset %s\n", name)
			}
			for _, v := range vars {
				fmt.Fprintf(o.streams.Out, "export %s=%s\n", v[0], shellQuote(v[1]))
			}
			o.progress("Note: AWS CLI 1 sends sqs, emr and some other commands past AWS_ENDPOINT_URL, and AWS_CA_BUNDLE stops them. Use drydock run -- aws sqs ...; see drydock env --help")
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

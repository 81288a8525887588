package awscli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/machine/imds"
)

// globals are the options that may come before or after any command.
type globals struct {
	region, output, query, profile, endpoint string
	version, noPaginate, unsigned            bool
}

// readGlobals removes the global options from a command line.
func (c *command) readGlobals(args []string) (words []string, err error) {
	c.g.output = c.Getenv("AWS_DEFAULT_OUTPUT")
	c.g.profile = c.Getenv("AWS_PROFILE")
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		into := map[string]*string{"--region": &c.g.region, "--output": &c.g.output, "--query": &c.g.query, "--profile": &c.g.profile, "--endpoint-url": &c.g.endpoint}[name]
		switch {
		case into != nil || name == "--cli-read-timeout" || name == "--cli-connect-timeout" || name == "--color" || name == "--cli-binary-format" || name == "--ca-bundle":
			if !given {
				if i++; i == len(args) {
					return nil, usagef("argument %s: expected one argument", name)
				}
				value = args[i]
			}
			if into != nil {
				*into = value
			}
			if name == "--cli-binary-format" && value != "base64" {
				return nil, unsupported(name + " " + value)
			}
		case args[i] == "--version":
			c.g.version = true
		case args[i] == "--no-paginate":
			c.g.noPaginate = true
		case args[i] == "--no-sign-request":
			c.g.unsigned = true
		case slices.Contains([]string{"--no-cli-pager", "--no-verify-ssl", "--no-cli-auto-prompt"}, args[i]):
		case slices.Contains([]string{"--debug", "--cli-auto-prompt", "--cli-input-json", "--cli-input-yaml", "--generate-cli-skeleton", "--max-items", "--page-size", "--starting-token", "help"}, name):
			return nil, unsupported(name)
		default:
			words = append(words, args[i])
		}
	}
	if c.g.output == "" {
		c.g.output = c.setting("output")
	}
	switch c.g.output {
	case "":
		c.g.output = "json"
	case "json", "text":
	case "table", "yaml", "yaml-stream", "off":
		return nil, unsupported("--output " + c.g.output)
	default:
		return nil, usagef("argument --output: Found invalid choice '%s'", c.g.output)
	}
	if p := c.g.profile; p != "" && p != "default" {
		return nil, &failure{status: statusGeneral, text: fmt.Sprintf("\nThe config profile (%s) could not be found", p)}
	}
	return words, nil
}

// setting returns a setting of the default profile, or "".
func (c *command) setting(name string) string {
	for _, file := range []string{configFile(c.Call), path.Join(home(c.Call), ".aws/credentials")} {
		b, _ := c.FS.ReadFile(file) // most machines have none
		section := ""
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "[") {
				section = strings.Trim(line, "[]")
				continue
			}
			if k, v, ok := strings.Cut(line, "="); ok && section == "default" && strings.TrimSpace(k) == name {
				return strings.TrimSpace(v)
			}
		}
	}
	return ""
}

// configure is aws configure set and get for the default profile.
func (c *command) configure(words []string) error {
	switch {
	case len(words) == 2 && words[0] == "get":
		v := c.setting(strings.TrimPrefix(words[1], "default."))
		if v == "" {
			return &failure{status: statusFailed}
		}
		fmt.Fprintln(c.Stdout, v)
		return nil
	case len(words) == 3 && words[0] == "set":
		return c.set(strings.TrimPrefix(words[1], "default."), words[2])
	}
	return unsupported("aws configure " + strings.Join(words, " "))
}

func (c *command) set(name, value string) error {
	file := configFile(c.Call)
	if strings.HasPrefix(name, "aws_") {
		file = path.Join(path.Dir(file), "credentials")
	}
	if strings.ContainsAny(name+value, "\n[]") || strings.Contains(name, ".") {
		return unsupported("the setting " + name)
	}
	b, _ := c.FS.ReadFile(file) // it may not exist yet
	var kept []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if k, _, ok := strings.Cut(line, "="); line != "[default]" && (!ok || strings.TrimSpace(k) != name) {
			kept = append(kept, line)
		}
	}
	text := strings.Join(append([]string{"[default]", name + " = " + value}, kept...), "\n") + "\n"
	if err := c.FS.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	return c.FS.WriteFile(file, []byte(text), 0o600)
}

// region returns the region of a call: from option, environment, configuration, or the instance's own.
func (c *command) region(ctx context.Context) (string, error) {
	for _, r := range []string{c.g.region, c.Getenv("AWS_REGION"), c.Getenv("AWS_DEFAULT_REGION"), c.setting("region")} {
		if r != "" {
			if strings.Trim(r, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				return "", &failure{status: statusGeneral, text: fmt.Sprintf("\nProvided region_name '%s' doesn't match a supported format.", r)}
			}
			return r, nil
		}
	}
	b, err := imds.Client{Transport: c.Metadata}.Get(ctx, "meta-data/placement/region")
	if err != nil {
		return "", &failure{status: statusConfig, text: "\nYou must specify a region. You can also configure your region by running \"aws configure\".", cause: err}
	}
	return string(b), nil
}

// credentials returns the credentials from the environment, the configuration, or the instance's role.
func (c *command) credentials(ctx context.Context) (aws.Credentials, error) {
	if id := c.Getenv("AWS_ACCESS_KEY_ID"); id != "" {
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: c.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: c.Getenv("AWS_SESSION_TOKEN")}, nil
	}
	if id := c.setting("aws_access_key_id"); id != "" {
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: c.setting("aws_secret_access_key"), SessionToken: c.setting("aws_session_token")}, nil
	}
	creds, err := imds.Client{Transport: c.Metadata}.Credentials(ctx)
	if err != nil {
		return aws.Credentials{}, &failure{status: statusConfig, text: "\nUnable to locate credentials. You can configure credentials by running \"aws configure\".", cause: err}
	}
	return aws.Credentials{AccessKeyID: creds.AccessKeyID, SecretAccessKey: creds.SecretAccessKey, SessionToken: creds.SessionToken}, nil
}

// maxFile bounds a file that a parameter names.
const maxFile = 1 << 20

// file reads the file that file:// or fileb:// names.
func (c *command) file(name string) ([]byte, error) {
	f, err := c.FS.Open(c.Path(name), 0, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = errors.New("the file is too large")
	}
	return b, err
}

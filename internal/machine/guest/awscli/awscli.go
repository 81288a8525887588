// Package awscli is the aws command of a simulated machine: version 2 of the AWS CLI, as far as user data uses it. It
// can call every operation of every service with an API model here, because commands, requests and answers all follow
// the models. It rejects services without a model and most of the CLI's own commands with an explanation.
//
// It calls as the instance does: credentials and region come from the metadata service, and requests are signed and
// sent through the machine's network. Assumptions: one attempt per call instead of three, members of JSON sorted by
// name, and pages only if both sides call their token NextToken. May be imported by packages that run or test
// simulated machines.
package awscli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// A CLI is the command on one machine.
type CLI struct {
	// Metadata connects to the metadata service, HTTP to everything else.
	Metadata, HTTP http.RoundTripper
	Now            func() time.Time
	// Wait sleeps between the attempts of aws … wait. It returns false if the command must end.
	Wait func(ctx context.Context, d time.Duration) bool
}

// version is what aws --version prints; EKS images have the newest version.
const version = "aws-cli/2.27.50 Python/3.13.4 Linux/6.1 exe/x86_64.amzn.2023"

// Exit statuses.
// https://docs.aws.amazon.com/cli/latest/userguide/cli-usage-returncodes.html
const (
	statusFailed  = 1 // of an s3 command
	statusUsage   = 252
	statusConfig  = 253
	statusService = 254
	statusGeneral = 255
)

// A failure ends a command with a status and a text.
type failure struct {
	status int
	text   string
	cause  error // for code that needs the decision behind it
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

func usagef(format string, args ...any) error {
	return &failure{status: statusUsage, text: `
usage: aws [options] <command> <subcommand> [<subcommand> ...] [parameters]
To see help text, you can run:

  aws help
  aws <command> help
  aws <command> <subcommand> help

aws: error: ` + fmt.Sprintf(format, args...)}
}

func unsupported(what string) error {
	return &failure{status: statusUsage, text: "\naws: error: " + what + " is not supported on simulated nodes"}
}

// An APIError is an error that a service returned.
type APIError struct{ Code, Message, Operation string }

func (e *APIError) Error() string {
	return fmt.Sprintf("An error occurred (%s) when calling the %s operation: %s", e.Code, e.Operation, e.Message)
}

// a running command
type command struct {
	*CLI
	*shell.Call
	g globals
}

// Run runs aws with c.Args and returns its exit status.
func (x *CLI) Run(ctx context.Context, c *shell.Call) int {
	return report(c.Stderr, (&command{CLI: x, Call: c}).run(ctx))
}

// report prints the error, if any, and returns the corresponding exit status.
func report(stderr io.Writer, err error) int {
	var f *failure
	var ae *APIError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		if f.text != "" {
			fmt.Fprintln(stderr, f.text)
		}
		return f.status
	case errors.As(err, &ae):
		fmt.Fprintf(stderr, "\n%s\n", ae)
		return statusService
	}
	fmt.Fprintf(stderr, "\n%s\n", err)
	return statusGeneral
}

func (c *command) run(ctx context.Context) error {
	words, err := c.readGlobals(c.Args[1:])
	switch {
	case err != nil:
		return err
	case c.g.version:
		fmt.Fprintln(c.Stdout, version)
		return nil
	case len(words) == 0:
		return usagef("the following arguments are required: command")
	case words[0] == "configure":
		return c.configure(words[1:])
	case words[0] == "s3":
		return c.s3(ctx, words[1:])
	case len(words) == 1:
		return usagef("the following arguments are required: operation")
	case words[0] == "ecr" && words[1] == "get-login-password":
		return c.loginPassword(ctx)
	case words[0] == "eks" && words[1] == "get-token":
		return c.clusterToken(ctx, words[2:])
	}
	svc, err := model.Get(words[0])
	if err != nil || svc.Name != words[0] || svc.Protocol == model.ProtocolRESTXML {
		return unsupported("the service " + words[0])
	}
	if words[1] == "wait" {
		return c.wait(ctx, svc, words[2:])
	}
	op := operation(svc, words[1])
	if op == nil {
		return usagef("argument operation: Found invalid choice '%s'", words[1])
	}
	in, err := c.parameters(op, words[2:])
	if err != nil {
		return err
	}
	out, err := c.all(ctx, op, in)
	if err != nil {
		return err
	}
	return c.print(out)
}

// operation finds DescribeInstances by describe-instances.
func operation(svc *model.Service, name string) *model.Operation {
	want := plainName(name)
	if want != strings.ReplaceAll(name, "-", "") {
		return nil
	}
	for _, op := range svc.Operations {
		if plainName(op.Name) == want {
			return op
		}
	}
	return nil
}

// plainName returns what an API name and its command line form have in common.
func plainName(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }

// kebab returns the command line form of an API name: vpc-id for vpcId.
func kebab(s string) string {
	var out strings.Builder
	for i, r := range s {
		upper := r >= 'A' && r <= 'Z'
		before := i > 0 && (s[i-1] < 'A' || s[i-1] > 'Z')
		after := i > 0 && i+1 < len(s) && s[i+1] >= 'a' && s[i+1] <= 'z'
		if upper && (before || after) {
			out.WriteByte('-')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

// maxPages bounds how many pages one command collects.
const maxPages = 100

// all calls an operation, page by page.
func (c *command) all(ctx context.Context, op *model.Operation, in map[string]any) (map[string]any, error) {
	out, err := c.call(ctx, op, in)
	token := ""
	for _, name := range []string{"NextToken", "nextToken"} {
		if op.Input.Member(name) != nil && op.Output.Member(name) != nil {
			token = name
		}
	}
	if err != nil || token == "" || c.g.noPaginate || in[token] != nil {
		return out, err
	}
	for range maxPages {
		next, _ := out[token].(string)
		delete(out, token)
		if next == "" {
			return out, nil
		}
		in[token] = next
		page, err := c.call(ctx, op, in)
		if err != nil {
			return nil, err
		}
		for k, v := range page {
			more, isList := v.([]any)
			have, hasList := out[k].([]any)
			if isList && hasList {
				out[k] = append(have, more...)
			} else {
				out[k] = v
			}
		}
	}
	return out, nil
}

// networkError words a network error as botocore does.
func networkError(err error, target string) error {
	text := fmt.Sprintf("\nCould not connect to the endpoint URL: %q", target)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("\nConnect timeout on endpoint URL: %q", target)
	}
	return &failure{status: statusGeneral, text: text, cause: err}
}

func home(c *shell.Call) string {
	if h := c.Getenv("HOME"); h != "" {
		return h
	}
	return "/root"
}

func configFile(c *shell.Call) string { return path.Join(home(c), ".aws/config") }

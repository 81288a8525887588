// Package paste runs commands as if a person had pasted them into a shell that has the AWS
// CLI, against a daemon. Tests use it to run what `drydock why` prints, at a thirtieth of
// the cost of the real CLI. For tests only.
package paste

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/awscli"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A Shell is where commands are pasted.
type Shell struct {
	// URL is the daemon's, which answers for all of AWS's hosts.
	URL string
	// Env is KEY=value, with the credentials.
	Env []string
	// Kubectl runs kubectl and returns its exit status; nil: there is none.
	Kubectl func(ctx context.Context, c *shell.Call) int
}

// Run runs commands until one fails, and returns what they printed.
func (s *Shell) Run(ctx context.Context, commands string) (output string, ok bool, err error) {
	to, err := url.Parse(s.URL)
	if err != nil {
		return "", false, err
	}
	cli := &awscli.CLI{
		Metadata: nowhere{}, HTTP: doorway{to}, Now: time.Now,
		Wait: func(ctx context.Context, _ time.Duration) bool {
			select {
			case <-time.After(100 * time.Millisecond): // the daemon's resources take no longer
			case <-ctx.Done():
			}
			return ctx.Err() == nil
		},
	}
	var out bytes.Buffer
	res, err := shell.Run(ctx, shell.Job{
		FS: vfs.New(vfs.DefaultLimits, nil), Script: []byte("set -e\n" + commands), Name: "fix", Stdout: &out, Stderr: &out,
		Env: append([]string{"HOME=/root"}, s.Env...),
		Outside: func(ctx context.Context, c *shell.Call) (int, bool) {
			switch {
			case c.Args[0] == "aws":
				return cli.Run(ctx, c), true
			case c.Args[0] == "kubectl" && s.Kubectl != nil:
				return s.Kubectl(ctx, c), true
			}
			return 0, false
		},
	})
	return out.String(), res.Status == 0, err
}

// doorway sends requests for AWS's hosts to the daemon.
type doorway struct{ to *url.URL }

func (d doorway) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = d.to.Scheme, d.to.Host
	out.Host = r.URL.Host
	return http.DefaultTransport.RoundTrip(out)
}

// nowhere is the metadata service of a machine that has none.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrNotSupported }

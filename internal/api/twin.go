package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Twin is an account that was imported from AWS.
type Twin struct {
	Account string `json:"account"`
	Region  string `json:"region"`
	// Clusters are those that were asked for. Empty means all.
	Clusters []string `json:"clusters,omitempty"`
	// Changed reports whether something was changed in it since it was loaded.
	Changed bool `json:"changed,omitempty"`
	// What else was chosen when the source was read: the members are those of recording.Source.
	IAM          string `json:"iam,omitempty"`
	Redacted     bool   `json:"redacted"`
	Secrets      bool   `json:"secrets,omitempty"`
	NoKubernetes bool   `json:"noKubernetes,omitempty"`

	Caller  string    `json:"caller"`         // who read the source
	Read    time.Time `json:"read"`           // when
	Loaded  time.Time `json:"loaded"`         // when it was loaded into Drydock
	Answers int       `json:"answers"`        // of the source
	Gaps    []string  `json:"gaps,omitempty"` // what the source did not say
	// LeftOut lists what was not read or kept, because the user chose to leave it out or because it exceeds what an
	// import reads.
	LeftOut []string `json:"leftOut,omitempty"`
	// Differences are those between the Kubernetes objects of an earlier twin and its source, if they were asked for.
	Differences []Difference `json:"objectDifferences,omitempty"`
}

// A Difference is something that differs between a twin and its source. The members are those of twin.Difference.
type Difference struct {
	Action string `json:"action"`
	Path   string `json:"path"`
	Twin   string `json:"twin,omitempty"`
	Source string `json:"source,omitempty"`
}

// Text renders it for people.
func (t *Twin) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Account %s in %s is now a twin of the AWS account, read at %s: %d answers.\n", t.Account, t.Region, t.Read.UTC().Format(time.RFC3339), t.Answers)
	for _, l := range t.LeftOut {
		b.WriteString("Left out: " + l + "\n")
	}
	if len(t.Gaps) > 0 {
		fmt.Fprintf(&b, "Unknown, because the source did not say, or Drydock has no such thing (%d):\n", len(t.Gaps))
		for _, g := range t.Gaps {
			b.WriteString("  " + g + "\n")
		}
	}
	return b.String()
}

// importPatience is the timeout of loading a recording.
const importPatience = 10 * time.Minute

// ImportOptions say how a recording is loaded.
type ImportOptions struct {
	// Replace overwrites an account that is in use and not a twin.
	Replace bool
	// Compare first compares the Kubernetes objects of the twin that is replaced.
	Compare bool
	// Unchanged refuses to replace a twin in which something was changed, or that was read with other choices.
	Unchanged bool
	// Absent refuses to replace any twin.
	Absent bool
}

// ImportTwin loads a recording, in the form that twin.Send writes. If the options do not allow it to replace the account,
// the error is an *Error with http.StatusConflict.
func (c *Client) ImportTwin(ctx context.Context, recording io.Reader, o ImportOptions) (Twin, error) {
	query := url.Values{}
	for name, set := range map[string]bool{"replace": o.Replace, "compare": o.Compare, "unchanged": o.Unchanged, "absent": o.Absent} {
		query.Set(name, strconv.FormatBool(set))
	}
	var out Twin
	err := c.callFor(ctx, importPatience, http.MethodPost, "twin", query, recording, &out)
	return out, err
}

// Twins returns the twins.
func (c *Client) Twins(ctx context.Context) ([]Twin, error) {
	return get[[]Twin](ctx, c, "twins", nil)
}

// unknownText is the verdict if not everything that it depends on could be read of a twin's source.
func unknownText(unknown []string) string {
	var b strings.Builder
	for _, u := range unknown {
		b.WriteString("unknown: " + u + "\n")
	}
	return b.String()
}

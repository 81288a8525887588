package ssm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/authz"
)

// reference is a reference to a parameter of Parameter Store, in the values of a command's or session's parameters or in a
// document: {{ ssm:NAME }}, {{ ssm:NAME:VERSION }} or {{ ssm:NAME:LABEL }}.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-ssm-parameter-references.html
var reference = regexp.MustCompile(`\{\{\s*ssm:([a-zA-Z0-9_.\-/]+(?::[a-zA-Z0-9_.\-]+)?)\s*\}\}`)

// resolve replaces the references in a text by the parameters' values.
func (s *Service) resolve(sc scope, text string) (string, error) {
	var failed error
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := reference.FindStringSubmatch(ref)[1]
		p, _, err := s.find(sc, name)
		switch {
		case failed != nil:
		case err != nil:
			failed = errReference("The parameter %s does not exist.", name)
		case p.Type == string(ssmtypes.ParameterTypeSecureString):
			failed = errReference("The parameter %s is a SecureString. Only parameters of the types String and StringList can be referenced.", name)
		}
		return p.Value
	})
	return out, failed
}

// errReference has a text of its own; AWS's is not known.
func errReference(format string, args ...any) error {
	return &ssmtypes.InvalidParameters{Message: aws.String(fmt.Sprintf(format, args...))}
}

// resolved returns the given values of a document's parameters with their references replaced.
func (s *Service) resolved(sc scope, given map[string][]string) (map[string][]string, error) {
	out := make(map[string][]string, len(given))
	for name, values := range given {
		for _, v := range values {
			v, err := s.resolve(sc, v)
			if err != nil {
				return nil, err
			}
			out[name] = append(out[name], v)
		}
	}
	return out, nil
}

// referenced returns the parameters that a call refers to as targets: its caller must be allowed to read them.
func (r resolver) referenced(ctx context.Context, documentName *string, given map[string][]string) []authz.Target {
	parts := []any{given}
	if d, err := r.s.document(scopeOf(ctx), aws.ToString(documentName), "", ""); err == nil {
		parts = append(parts, d.version.Content)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for _, m := range reference.FindAllSubmatch(text, -1) {
		names[string(m[1])] = true
	}
	var out []authz.Target
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, authz.Target{Action: "ssm:GetParameters", Type: "parameter", ID: name})
	}
	return out
}

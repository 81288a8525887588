package ssm

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
)

// values returns the values of a document's parameters and of the parameters of Parameter Store that the document and the
// given values refer to.
func (s *Service) values(ctx context.Context, sc scope, d *document.Document, given map[string][]string) (map[string]any, error) {
	stored := map[string]any{}
	for _, ref := range d.Stored(given) {
		t := readOf(ref)
		p, _, err := s.find(sc, t.ID)
		if err != nil {
			return nil, errReference("The parameter %s does not exist.", t.ID)
		}
		// The document may have changed since the request was authorized. A run of an association has no caller: whoever
		// created the association was authorized.
		if s.allowed != nil && awsapi.CallFrom(ctx).Operation != "" && !s.allowed(ctx, t, authz.Resource{ARN: sc.arn(p.Name), Tags: p.Tags}) {
			return nil, awserr.New("AccessDeniedException", "User: "+awsapi.CallFrom(ctx).Principal.ARN+" is not authorized to perform: ssm:GetParameters on resource: "+sc.arn(p.Name))
		}
		if p.Type == string(ssmtypes.ParameterTypeSecureString) {
			return nil, errReference("The parameter %s is a SecureString. Only parameters of the types String and StringList can be referenced.", t.ID)
		}
		if p.Value == "" {
			return nil, errUnread(p.Name)
		}
		stored[ref] = p.Value
	}
	values, err := d.Values(given, stored)
	return values, errDocument(err)
}

// errReference has a text of its own; AWS's is not known.
func errReference(format string, args ...any) error {
	return &ssmtypes.InvalidParameters{Message: aws.String(fmt.Sprintf(format, args...))}
}

// readOf returns the target of reading the parameter of a reference, ssm:NAME.
func readOf(ref string) authz.Target {
	return authz.Target{Action: "ssm:GetParameters", Type: "parameter", ID: strings.TrimPrefix(ref, "ssm:")}
}

// referenced returns the parameters that a call with a document refers to as targets: its caller must be allowed to read
// them. Without the document, the call fails before it reads any.
func referenced(d *foundDocument, err error, given map[string][]string) (out []authz.Target) {
	if err != nil {
		return nil
	}
	for _, ref := range d.Stored(given) {
		out = append(out, readOf(ref))
	}
	return out
}

package cloudformation

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// Dynamic references to plain parameters are resolved together with a resource's properties. References to secrets are
// kept as references in records, events and comparisons, and are resolved only for the calls that act on the resource.
// So no secret is stored, and a changed secret alone does not change a resource.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references.html

const (
	// maxReferences is the number of dynamic references that a template may have.
	maxReferences = 60
	// maxResolved limits how many references are resolved, because functions can turn a few references into many.
	maxResolved = 10 * maxReferences
)

// takesSecure lists the properties that can refer to secure strings, among the types that Drydock implements.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-ssm-secure-strings.html
var takesSecure = []string{"AWS::IAM::User/Properties/LoginProfile/Password"}

var ssmReference = regexp.MustCompile(`^ssm(-secure)?:[a-zA-Z0-9_.\-/]+(:[0-9]+)?$`)

// [seen] https://github.com/aws/aws-cdk/issues/18747
func badReference(reference string) error {
	return template.Error("Incorrect format is used in the following SSM reference: [" + template.MakeReference(reference) + "]")
}

// checkReferences checks the dynamic references that appear literally in a template.
func checkReferences(i *template.Instance) error {
	n := 0
	var insecure []string
	for _, r := range i.Resources {
		for _, ref := range r.DynamicReferences() {
			n++
			switch service, _, _ := strings.Cut(ref.Text, ":"); {
			case service != "ssm" && service != "ssm-secure":
			case !strings.Contains(ref.Text, "${") && !ssmReference.MatchString(ref.Text):
				return badReference(ref.Text)
			case service == "ssm-secure" && !slices.Contains(takesSecure, ref.Path):
				insecure = append(insecure, ref.Path)
			}
		}
	}
	switch {
	case len(insecure) > 0: // [seen] https://github.com/aws/serverless-application-model/issues/1528
		return template.Error("SSM Secure reference is not supported in: [" + strings.Join(insecure, ",") + "]")
	case n > maxReferences:
		return template.Error(fmt.Sprintf("Template error: the template has %d dynamic references, more than the maximum of %d", n, maxReferences)) // our own wording
	}
	return nil
}

// Dynamic implements template.Runtime. It leaves references to secrets as they are.
func (rt *runtime) Dynamic(reference string) (string, error) {
	if rt.references++; rt.references > maxResolved {
		return "", template.Error(fmt.Sprintf("Template error: more than %d dynamic references", maxResolved)) // our own wording
	}
	switch service, name, _ := strings.Cut(reference, ":"); service {
	case "secretsmanager":
		return template.MakeReference(reference), nil
	case "ssm", "ssm-secure":
		if !ssmReference.MatchString(reference) {
			return "", badReference(reference)
		}
		if service == "ssm-secure" {
			return template.MakeReference(reference), nil
		}
		return rt.o.s.stored(rt.ctx, name, "")
	default:
		return "", template.Error("Drydock does not implement dynamic references to " + service + "; docs/compatibility.md lists what it implements.")
	}
}

// reveal replaces the references to secrets in the properties with the secrets. A nested stack gets the references,
// because it would store the secrets.
func (r *request) reveal() error {
	if r.typ == stackTyp {
		return nil
	}
	v, err := template.Resolve(r.props, func(reference string) (string, error) {
		secret, err := r.secret(reference)
		if err == nil && secret != "" {
			r.secrets = append(r.secrets, secret)
		}
		return secret, err
	})
	if err != nil {
		return err
	}
	r.plain, r.props = r.props, v.(*template.Map)
	return nil
}

// unrevealed returns the request with references in place of the secrets. It is for properties that are recorded or
// compared.
func (r *request) unrevealed() *request {
	if r.plain == nil {
		return r
	}
	out := *r
	out.props, out.plain = r.plain, nil
	return &out
}

// hidden returns a text in which the secrets that the request has revealed are masked.
func (r *request) hidden(text string) string {
	secrets := slices.Clone(r.secrets)
	if r.was != nil {
		secrets = append(secrets, r.was.secrets...)
	}
	// The longest secret comes first, because one secret may contain another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "****")
	}
	return text
}

// A censored error wraps another error and masks the secrets in its text.
type censored struct {
	error
	text string
}

func (e *censored) Error() string { return e.text }
func (e *censored) Unwrap() error { return e.error }

// censor masks the secrets that the request has revealed in the text of an error.
func (r *request) censor(err error) error {
	if err == nil {
		return nil
	}
	if text := r.hidden(err.Error()); text != err.Error() {
		return &censored{err, text}
	}
	return err
}

func (r *request) secret(reference string) (string, error) {
	service, name, _ := strings.Cut(reference, ":")
	switch service {
	case "ssm-secure":
		out, err := call[awsssm.GetParameterOutput](r, &awsssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
		switch {
		case err != nil:
			return "", r.legacyReason(err, "AWSSimpleSystemsManagement")
		case out.Parameter.Type != ssmtypes.ParameterTypeSecureString:
			return "", fmt.Errorf("the parameter %s is not a SecureString", name) // our own wording
		}
		return aws.ToString(out.Parameter.Value), nil
	case "secretsmanager":
		return r.secretValue(name)
	}
	return template.MakeReference(reference), nil
}

// secretValue returns the value that a reference ID:SecretString:KEY:STAGE:VERSION names. All parts except the first can
// be omitted or empty.
func (r *request) secretValue(reference string) (string, error) {
	parts := strings.Split(reference, ":")
	const inARN = 7
	if parts[0] == "arn" && len(parts) >= inARN {
		parts = append([]string{strings.Join(parts[:inARN], ":")}, parts[inARN:]...)
	}
	parts = append(parts, make([]string, 4)...)
	id, kind, key, stage, version := parts[0], parts[1], parts[2], parts[3], parts[4]
	if kind != "" && kind != "SecretString" {
		return "", fmt.Errorf("the dynamic reference %s must name SecretString, not %s", template.MakeReference("secretsmanager:"+reference), kind) // our own wording
	}
	out, err := call[awssm.GetSecretValueOutput](r, &awssm.GetSecretValueInput{SecretId: &id, VersionStage: nonEmpty(stage), VersionId: nonEmpty(version)})
	switch {
	case err != nil:
		return "", r.legacyReason(err, "AWSSecretsManager")
	case out.SecretString == nil:
		return "", fmt.Errorf("the secret %s is binary; dynamic references can name only text", id) // our own wording
	case key == "":
		return *out.SecretString, nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(*out.SecretString), &values) != nil {
		return "", errors.New("Could not parse SecretString JSON") //nolint:staticcheck // AWS's words
	}
	raw, ok := values[key]
	if !ok { // [seen] https://github.com/aws/aws-sam-cli/issues/2153
		return "", errors.New("Could not find a value associated with JSONKey in SecretString") //nolint:staticcheck // AWS's words
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return text, nil
}

// legacyReason words the error of a failed call as CloudFormation words the errors of its own calls.
// [seen] many reports of "Secrets Manager can't find the specified secret. (Service: AWSSecretsManager; …"
func (r *request) legacyReason(err error, service string) error {
	var refused smithy.APIError
	if !errors.As(err, &refused) {
		return err
	}
	out := &failure{failureRecord: failureRecord{Calls: callsOf(err), Code: refused.ErrorCode(), Message: refused.ErrorMessage()}}
	requestID := ""
	if n := len(out.Calls); n > 0 {
		requestID = out.Calls[n-1].RequestID
	}
	out.error = fmt.Errorf("%s (Service: %s; Status Code: 400; Error Code: %s; Request ID: %s; Proxy: null)", refused.ErrorMessage(), service, refused.ErrorCode(), requestID)
	return out
}

// refers reports whether a value contains a dynamic reference.
func refers(v any) bool {
	found := false
	_, _ = template.Resolve(v, func(string) (string, error) { found = true; return "", nil }) // only the function could fail
	return found
}

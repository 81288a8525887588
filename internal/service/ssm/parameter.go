package ssm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxVersions is how many versions of a parameter are kept.
const maxVersions = 100

type parameterRecord struct {
	Name  string
	Type  string // String, StringList or SecureString
	Value string // encrypted for a SecureString
	// KeyID is the KMS key that encrypted the value, as the request gave it. If it is empty, the
	// value was encrypted without KMS, as all values once were that used AWS's key. Envelope means
	// that a data key of the KMS key encrypted the value.
	KeyID       string `json:",omitempty"`
	Envelope    bool   `json:",omitempty"`
	Version     int64
	Modified    time.Time
	ModifiedBy  string
	Description string            `json:",omitempty"`
	DataType    string            // text or aws:ec2:image
	Tier        string            // Standard or Advanced
	Pattern     string            `json:",omitempty"`
	Tags        map[string]string `json:",omitempty"`
	// Labels are the labels of this version. Only records of versions have labels.
	Labels   []string          `json:",omitempty"`
	Policies []parameterPolicy `json:",omitempty"`
}

var (
	parameters = store.NewCollection[parameterRecord]("ssm", "parameter", store.Same)
	// versions has current and past versions under NAME:VERSION.
	versions = store.NewCollection[parameterRecord]("ssm", "parameter-version", store.Same)
)

func versionKey(sc scope, name string, n int64) store.Key {
	return sc.Key(fmt.Sprintf("%s:%012d", name, n))
}

func (p parameterRecord) sdk(sc scope) ssmtypes.Parameter {
	return ssmtypes.Parameter{
		ARN: aws.String(sc.arn(p.Name)), Name: aws.String(p.Name), Type: ssmtypes.ParameterType(p.Type), Value: aws.String(p.Value),
		Version: p.Version, LastModifiedDate: aws.Time(p.Modified), DataType: aws.String(p.DataType),
	}
}

// find returns the parameter in a request, given as NAME, NAME:VERSION or its ARN.
func (s *Service) find(sc scope, ref string) (parameterRecord, *string, error) {
	name, version, selected, err := s.parse(sc, ref)
	if err != nil {
		return parameterRecord{}, nil, err
	}
	var selector *string
	if selected {
		selector = aws.String(":" + version)
	}
	if p, ok := public(sc.Region, name); ok {
		// AWS publishes only the latest version.
		if selected && version != strconv.FormatInt(p.Version, 10) {
			return p, nil, errVersionNotFound(name, version)
		}
		return p, selector, nil
	}
	p, err := s.parameter(s.store, sc.Key(name))
	if errors.Is(err, store.ErrNotFound) {
		return p, nil, errNotFound()
	}
	if err != nil || !selected {
		return p, nil, err
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		p, err = s.labelled(sc, name, version)
		return p, selector, err
	}
	p, err = versions.Get(s.store, versionKey(sc, name, n))
	if errors.Is(err, store.ErrNotFound) {
		err = errVersionNotFound(name, version)
	}
	return p, selector, err
}

// parse splits a reference to a parameter into its name and its version or label.
func (s *Service) parse(sc scope, ref string) (name, version string, selected bool, err error) {
	name = ref
	if rest, ok := strings.CutPrefix(ref, "arn:"); ok {
		i := strings.Index(rest, ":parameter/")
		if i < 0 {
			return "", "", false, errNotFound()
		}
		name = rest[i+len(":parameter"):]
		if _, err := parameters.Get(s.store, sc.Key(strings.TrimPrefix(name, "/"))); err == nil {
			name = strings.TrimPrefix(name, "/")
		}
	}
	name, version, selected = strings.Cut(name, ":")
	return name, version, selected, nil
}

// ImageParameter returns the image ID in a parameter, given as NAME, NAME:VERSION, NAME:LABEL or
// its ARN. It returns false if there is no such parameter of the data type aws:ec2:image. EC2 uses
// it for resolve:ssm:NAME.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-ec2-aliases.html
func (s *Service) ImageParameter(account, region, name string) (imageID string, ok bool) {
	p, _, err := s.find(scope{regional.At(account, region)}, name)
	return p.Value, err == nil && p.DataType == imageType && p.Value != ""
}

// GetParameter returns one parameter.
func (s *Service) GetParameter(ctx context.Context, in *awsssm.GetParameterInput) (*awsssm.GetParameterOutput, error) {
	p, err := s.read(ctx, aws.ToString(in.Name), in.WithDecryption)
	if err != nil {
		return nil, err
	}
	return &awsssm.GetParameterOutput{Parameter: p}, nil
}

// read returns the parameter that a caller asks for, or the secret that the name refers to.
func (s *Service) read(ctx context.Context, ref string, decrypt *bool) (*ssmtypes.Parameter, error) {
	sc := scopeOf(ctx)
	ref = strings.TrimSpace(ref) // https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
	name, version, _, err := s.parse(sc, ref)
	if err != nil {
		return nil, err
	}
	if id, ok := strings.CutPrefix(name, secretsPath); ok {
		return s.secret(ctx, name, id, version, decrypt)
	}
	if !nameForm.MatchString(name) || strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		return nil, errName()
	}
	p, selector, err := s.find(sc, ref)
	if err != nil {
		return nil, err
	}
	if p, err = s.reveal(ctx, sc, p, decrypt); err != nil {
		return nil, err
	}
	out := p.sdk(sc)
	out.Selector = selector
	return &out, nil
}

// GetParameters returns up to ten parameters, and the names that are invalid.
func (s *Service) GetParameters(ctx context.Context, in *awsssm.GetParametersInput) (*awsssm.GetParametersOutput, error) {
	out := &awsssm.GetParametersOutput{Parameters: []ssmtypes.Parameter{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		p, err := s.read(ctx, name, in.WithDecryption)
		var missing *ssmtypes.ParameterNotFound
		var version *ssmtypes.ParameterVersionNotFound
		if errors.As(err, &missing) || errors.As(err, &version) {
			out.InvalidParameters = append(out.InvalidParameters, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Parameters = append(out.Parameters, *p)
	}
	return out, nil
}

// all returns the account's parameters or the public ones, sorted by name.
func (s *Service) all(sc scope, published bool) []parameterRecord {
	var out []parameterRecord
	if published {
		return publicParameters(sc.Region)
	}
	for _, it := range parameters.All(s.store, store.Scope{Account: sc.Account, Region: sc.Region}) {
		if !it.Value.expired(s.clock.Now()) {
			out = append(out, it.Value)
		}
	}
	return out
}

// below reports whether name is under path: directly, or at any depth.
func below(path, name string, recursive bool) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path, "/")+"/")
	return ok && (recursive || !strings.Contains(rest, "/"))
}

// GetParametersByPath returns the parameters under a path.
func (s *Service) GetParametersByPath(ctx context.Context, in *awsssm.GetParametersByPathInput) (*awsssm.GetParametersByPathOutput, error) {
	sc := scopeOf(ctx)
	path := aws.ToString(in.Path)
	if !strings.HasPrefix(path, "/") {
		return nil, errValidation("The parameter doesn't meet the parameter name requirements. The parameter name must begin with a forward slash \"/\". It can't be prefixed with \"aws\" or \"ssm\" (case-insensitive). It must use only letters, numbers, or the following symbols: . (period), - (hyphen), _ (underscore). Special characters are not allowed. All sub-paths, if specified, must use the forward slash symbol \"/\". Valid example: /get/parameters2-/by1./path0_.")
	}
	match, labels, err := compileByPath(in.ParameterFilters)
	if err != nil {
		return nil, err
	}
	all := s.all(sc, strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", "/aws/"))
	var found []parameterRecord
	var ok bool
	for _, p := range all {
		if !below(path, p.Name, aws.ToBool(in.Recursive)) || !match(p) {
			continue
		}
		if labels != nil {
			if p, ok = s.withLabel(sc, p, labels); !ok {
				continue
			}
		}
		found = append(found, p)
	}
	found, next, err := page(found, in.MaxResults, in.NextToken, 10)
	if err != nil {
		return nil, err
	}
	out := &awsssm.GetParametersByPathOutput{NextToken: next, Parameters: make([]ssmtypes.Parameter, len(found))}
	for i, p := range found {
		if p, err = s.reveal(ctx, sc, p, in.WithDecryption); err != nil {
			return nil, err
		}
		out.Parameters[i] = p.sdk(sc)
	}
	return out, nil
}

// page returns one page of parameters, which are sorted by name.
func page(all []parameterRecord, maxResults *int32, token *string, usual int) ([]parameterRecord, *string, error) {
	rules := paging.Rules{Usual: usual, BadToken: func(string) error { return errNextToken() }}
	return paging.Cut(rules, all, func(p parameterRecord) string { return p.Name }, maxResults, token)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

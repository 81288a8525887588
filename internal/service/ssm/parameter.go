package ssm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/store"
)

// publicPrefix is where AWS publishes parameters.
const publicPrefix = "/aws/service/"

// maxVersions is how many versions of a parameter are kept.
const maxVersions = 100

type parameterRecord struct {
	Name        string
	Type        string // String, StringList
	Value       string
	Version     int64
	Modified    time.Time
	ModifiedBy  string
	Description string            `json:",omitempty"`
	DataType    string            // text, aws:ec2:image
	Tier        string            // Standard, Advanced
	Pattern     string            `json:",omitempty"`
	Tags        map[string]string `json:",omitempty"`
}

var (
	parameters = store.NewCollection[parameterRecord]("ssm", "parameter")
	// versions holds past and present versions under NAME:VERSION.
	versions = store.NewCollection[parameterRecord]("ssm", "parameter-version")
)

func versionKey(sc scope, name string, n int64) store.Key {
	return sc.key(fmt.Sprintf("%s:%012d", name, n))
}

func (p parameterRecord) sdk(sc scope) ssmtypes.Parameter {
	return ssmtypes.Parameter{
		ARN: aws.String(sc.arn(p.Name)), Name: aws.String(p.Name), Type: ssmtypes.ParameterType(p.Type), Value: aws.String(p.Value),
		Version: p.Version, LastModifiedDate: aws.Time(p.Modified), DataType: aws.String(p.DataType),
	}
}

// public returns a published parameter.
func public(region, name string) (parameterRecord, bool) {
	p, ok := images.ParameterByName(region, name)
	return publicRecord(p), ok
}

func publicRecord(p images.Parameter) parameterRecord {
	return parameterRecord{
		Name: p.Name, Type: "String", Value: p.Value, Modified: p.Modified, DataType: p.DataType, Tier: "Standard",
		Version: p.Modified.Unix() / 86400 % 1000, // stable, and grows with releases
	}
}

// find returns the parameter a request names: NAME, NAME:VERSION or an ARN of it.
func (s *Service) find(sc scope, ref string) (parameterRecord, *string, error) {
	name := ref
	if rest, ok := strings.CutPrefix(ref, "arn:"); ok {
		i := strings.Index(rest, ":parameter/")
		if i < 0 {
			return parameterRecord{}, nil, errNotFound()
		}
		name = rest[i+len(":parameter"):]
		if _, err := parameters.Get(s.store, sc.key(strings.TrimPrefix(name, "/"))); err == nil {
			name = strings.TrimPrefix(name, "/")
		}
	}
	name, version, selected := strings.Cut(name, ":")
	var selector *string
	if selected {
		selector = aws.String(":" + version)
	}
	if p, ok := public(sc.region, name); ok {
		// AWS publishes the latest version only.
		if selected && version != strconv.FormatInt(p.Version, 10) {
			return p, nil, errVersionNotFound(name, version)
		}
		return p, selector, nil
	}
	p, err := parameters.Get(s.store, sc.key(name))
	if errors.Is(err, store.ErrNotFound) {
		return p, nil, errNotFound()
	}
	if err != nil || !selected {
		return p, nil, err
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil { // a label: there are none
		return p, nil, errVersionNotFound(name, version)
	}
	p, err = versions.Get(s.store, versionKey(sc, name, n))
	if errors.Is(err, store.ErrNotFound) {
		err = errVersionNotFound(name, version)
	}
	return p, selector, err
}

// GetParameter returns one parameter.
func (s *Service) GetParameter(ctx context.Context, in *awsssm.GetParameterInput) (*awsssm.GetParameterOutput, error) {
	sc := scopeOf(ctx)
	p, selector, err := s.find(sc, aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	out := p.sdk(sc)
	out.Selector = selector
	return &awsssm.GetParameterOutput{Parameter: &out}, nil
}

// GetParameters returns up to ten parameters, and the names that are none.
func (s *Service) GetParameters(ctx context.Context, in *awsssm.GetParametersInput) (*awsssm.GetParametersOutput, error) {
	sc := scopeOf(ctx)
	if len(in.Names) > 10 {
		return nil, errTooManyNames(len(in.Names))
	}
	out := &awsssm.GetParametersOutput{Parameters: []ssmtypes.Parameter{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		p, selector, err := s.find(sc, name)
		var missing *ssmtypes.ParameterNotFound
		var version *ssmtypes.ParameterVersionNotFound
		if errors.As(err, &missing) || errors.As(err, &version) {
			out.InvalidParameters = append(out.InvalidParameters, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		sdk := p.sdk(sc)
		sdk.Selector = selector
		out.Parameters = append(out.Parameters, sdk)
	}
	return out, nil
}

// all returns the account's parameters, or the published ones, sorted by name.
func (s *Service) all(sc scope, published bool) ([]parameterRecord, error) {
	var out []parameterRecord
	if published {
		for _, p := range images.Parameters(sc.region) {
			out = append(out, publicRecord(p))
		}
		return out, nil
	}
	items, err := parameters.List(s.store, store.Scope{Account: sc.account, Region: sc.region})
	for _, it := range items {
		out = append(out, it.Value)
	}
	return out, err
}

// below reports whether name lies under path: directly, or anywhere.
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
	match, err := compile(in.ParameterFilters, "Type", "KeyId", "Label")
	if err != nil {
		return nil, err
	}
	all, err := s.all(sc, strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", "/aws/"))
	if err != nil {
		return nil, err
	}
	var found []parameterRecord
	for _, p := range all {
		if below(path, p.Name, aws.ToBool(in.Recursive)) && match(p) {
			found = append(found, p)
		}
	}
	found, next, err := page(found, in.MaxResults, in.NextToken, 10)
	if err != nil {
		return nil, err
	}
	out := &awsssm.GetParametersByPathOutput{NextToken: next, Parameters: make([]ssmtypes.Parameter, len(found))}
	for i, p := range found {
		out.Parameters[i] = p.sdk(sc)
	}
	return out, nil
}

// page cuts one page out of parameters sorted by name.
func page(all []parameterRecord, maxResults *int32, token *string, most int32) ([]parameterRecord, *string, error) {
	if t := aws.ToString(token); t != "" {
		raw, err := base64.RawURLEncoding.DecodeString(t)
		if err != nil {
			return nil, nil, errNextToken()
		}
		all = all[sort.Search(len(all), func(i int) bool { return all[i].Name > string(raw) }):]
	}
	n := most
	if maxResults != nil {
		if *maxResults < 1 || *maxResults > most {
			return nil, nil, errValidation("1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must have value between 1 and %d", *maxResults, most)
		}
		n = *maxResults
	}
	if len(all) <= int(n) {
		return all, nil, nil
	}
	next := base64.RawURLEncoding.EncodeToString([]byte(all[n-1].Name))
	return all[:n], &next, nil
}

var nameForm = regexp.MustCompile(`^/?[a-zA-Z0-9_.\-]+(/[a-zA-Z0-9_.\-]+)*$`)

func checkName(name string) error {
	lower := strings.ToLower(strings.TrimPrefix(name, "/"))
	switch {
	case strings.HasPrefix(name, publicPrefix):
		return errReadOnlyName(name)
	case strings.HasPrefix(lower, "aws") || strings.HasPrefix(lower, "ssm"):
		return errReservedName()
	case !nameForm.MatchString(name) || len(name) > 1011 || strings.Contains(name, "/") && !strings.HasPrefix(name, "/"):
		return errName()
	case strings.Count(name, "/") > 15:
		return &ssmtypes.HierarchyLevelLimitExceededException{Message: aws.String("A hierarchy can have a maximum of 15 levels.")}
	}
	return nil
}

// PutParameter creates a parameter or, with Overwrite, adds a version.
func (s *Service) PutParameter(ctx context.Context, in *awsssm.PutParameterInput) (*awsssm.PutParameterOutput, error) {
	sc := scopeOf(ctx)
	name, value, overwrite := aws.ToString(in.Name), aws.ToString(in.Value), aws.ToBool(in.Overwrite)
	if err := checkName(name); err != nil {
		return nil, err
	}
	if in.Type == ssmtypes.ParameterTypeSecureString {
		return nil, errSecureString()
	}
	if in.Type != "" && in.Type != ssmtypes.ParameterTypeString && in.Type != ssmtypes.ParameterTypeStringList {
		return nil, errValidation("1 validation error detected: Value '%s' at 'type' failed to satisfy constraint: Member must satisfy enum value set: [SecureString, StringList, String]", in.Type)
	}
	if value == "" {
		return nil, errValidation("1 validation error detected: Value '' at 'value' failed to satisfy constraint: Member must have length greater than or equal to 1.")
	}
	if overwrite && len(in.Tags) > 0 {
		return nil, errTagsWithOverwrite()
	}
	tier, limit := "Standard", 4096
	if in.Tier == ssmtypes.ParameterTierAdvanced || in.Tier == ssmtypes.ParameterTierIntelligentTiering && len(value) > limit {
		tier, limit = "Advanced", 8192
	}
	if len(value) > limit {
		return nil, errValidation("%s tier parameters support a maximum parameter value of %d characters. To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier. For more information, see https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html", tier, limit)
	}
	dataType := aws.ToString(in.DataType)
	if dataType == "" {
		dataType = "text"
	}
	if dataType == "aws:ec2:image" {
		if _, ok := images.ByID(sc.region, value); !ok {
			return nil, errValidation("The AMI ID %s does not exist in region %s.", value, sc.region)
		}
	} else if dataType != "text" {
		return nil, errValidation("The following data type is not supported: %s (Data type names are all lowercase.)", dataType)
	}
	if p := aws.ToString(in.AllowedPattern); p != "" {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, &ssmtypes.InvalidAllowedPatternException{Message: aws.String("The specified allowedPattern is not a valid regular expression.")}
		}
		if !re.MatchString(value) {
			return nil, errPattern(p)
		}
	}
	var rec parameterRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := parameters.Get(tx, sc.key(name))
		switch {
		case errors.Is(err, store.ErrNotFound):
			if in.Type == "" {
				return errValidation("A parameter type is required when you create a parameter.")
			}
			rec = parameterRecord{Name: name, Tags: tagMap(nil, in.Tags)}
		case err != nil:
			return err
		case !overwrite:
			return errExists()
		default:
			rec = old
		}
		if in.Type != "" {
			rec.Type = string(in.Type)
		}
		rec.Value, rec.Version, rec.Modified, rec.ModifiedBy = value, rec.Version+1, s.now(), awsapi.CallFrom(ctx).Principal.ARN
		rec.DataType, rec.Tier = dataType, tier
		if in.Description != nil {
			rec.Description = *in.Description
		}
		if in.AllowedPattern != nil {
			rec.Pattern = *in.AllowedPattern
		}
		if rec.Version > maxVersions {
			versions.Delete(tx, versionKey(sc, name, rec.Version-maxVersions))
		}
		if err := versions.Put(tx, versionKey(sc, name, rec.Version), rec); err != nil {
			return err
		}
		return parameters.Put(tx, sc.key(name), rec)
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.PutParameterOutput{Version: rec.Version, Tier: ssmtypes.ParameterTier(rec.Tier)}, nil
}

// history returns the kept versions of a parameter, oldest first.
func history(r store.Reader, sc scope, name string) ([]parameterRecord, error) {
	items, err := versions.List(r, store.Scope{Account: sc.account, Region: sc.region, Prefix: name + ":"})
	out := make([]parameterRecord, len(items))
	for i, it := range items {
		out[i] = it.Value
	}
	return out, err
}

// remove deletes a parameter; false if there is none.
func (s *Service) remove(ctx context.Context, sc scope, name string) (bool, error) {
	removed := false
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		_, err := parameters.Get(tx, sc.key(name))
		if removed = err == nil; !removed {
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		}
		parameters.Delete(tx, sc.key(name))
		return nil
	})
	if err != nil || !removed {
		return false, err
	}
	old, err := history(s.store, sc, name)
	if err != nil {
		return true, err
	}
	for chunk := range slices.Chunk(old, 90) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, v := range chunk {
				versions.Delete(tx, versionKey(sc, name, v.Version))
			}
			return nil
		})
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

// DeleteParameter deletes a parameter with its versions.
func (s *Service) DeleteParameter(ctx context.Context, in *awsssm.DeleteParameterInput) (*awsssm.DeleteParameterOutput, error) {
	removed, err := s.remove(ctx, scopeOf(ctx), aws.ToString(in.Name))
	if err == nil && !removed {
		err = errNotFound()
	}
	return &awsssm.DeleteParameterOutput{}, err
}

// DeleteParameters deletes up to ten parameters.
func (s *Service) DeleteParameters(ctx context.Context, in *awsssm.DeleteParametersInput) (*awsssm.DeleteParametersOutput, error) {
	if len(in.Names) > 10 {
		return nil, errTooManyNames(len(in.Names))
	}
	out := &awsssm.DeleteParametersOutput{DeletedParameters: []string{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		removed, err := s.remove(ctx, scopeOf(ctx), name)
		switch {
		case err != nil:
			return nil, err
		case removed:
			out.DeletedParameters = append(out.DeletedParameters, name)
		default:
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

// GetParameterHistory lists the versions of a parameter.
func (s *Service) GetParameterHistory(ctx context.Context, in *awsssm.GetParameterHistoryInput) (*awsssm.GetParameterHistoryOutput, error) {
	sc := scopeOf(ctx)
	name := aws.ToString(in.Name)
	if _, err := parameters.Get(s.store, sc.key(name)); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = errNotFound()
		}
		return nil, err
	}
	all, err := history(s.store, sc, name)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Name = fmt.Sprintf("%012d", all[i].Version) // page by version
	}
	all, next, err := page(all, in.MaxResults, in.NextToken, 50)
	if err != nil {
		return nil, err
	}
	out := &awsssm.GetParameterHistoryOutput{NextToken: next, Parameters: []ssmtypes.ParameterHistory{}}
	for _, p := range all {
		out.Parameters = append(out.Parameters, ssmtypes.ParameterHistory{
			Name: aws.String(name), Type: ssmtypes.ParameterType(p.Type), Value: aws.String(p.Value), Version: p.Version, Labels: []string{},
			LastModifiedDate: aws.Time(p.Modified), LastModifiedUser: aws.String(p.ModifiedBy), Description: optional(p.Description),
			AllowedPattern: optional(p.Pattern), DataType: aws.String(p.DataType), Tier: ssmtypes.ParameterTier(p.Tier), Policies: []ssmtypes.ParameterInlinePolicy{},
		})
	}
	return out, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

package ssm

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// imageType is the data type of parameters that hold image IDs.
const imageType = "aws:ec2:image"

// maxParameters is the maximum number of parameters per account and region.
// https://docs.aws.amazon.com/general/latest/gr/ssm.html#limits_ssm
const maxParameters = 10000

// checkCount returns an error if there are too many parameters. As on AWS, parallel creations may
// exceed the limit.
func (s *Service) checkCount(sc scope) error {
	all := parameters.All(s.store, store.Scope{Account: sc.Account, Region: sc.Region})
	if len(all) >= maxParameters {
		return errLimit()
	}
	return nil
}

var nameForm = regexp.MustCompile(`^/?[a-zA-Z0-9_.\-]+(/[a-zA-Z0-9_.\-]+)*$`)

func checkName(name string) error {
	lower := strings.ToLower(strings.TrimLeft(name, "/"))
	isPath := strings.Count(name, "/") > 1
	switch {
	case isPath && strings.HasPrefix(strings.ToLower(name), "/aws"):
		return errReadOnlyName(name)
	case strings.HasPrefix(lower, "aws") || strings.HasPrefix(lower, "ssm"):
		return errReservedName(isPath)
	case strings.Contains(name, "/") && !strings.HasPrefix(name, "/"):
		return errUnqualifiedName()
	case !nameForm.MatchString(name) || len(name) > 1011:
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
	if overwrite && len(in.Tags) > 0 {
		return nil, errTagsWithOverwrite()
	}
	var policies []parameterPolicy
	if in.Policies != nil {
		var err error
		if policies, err = policiesOf(*in.Policies); err != nil {
			return nil, err
		}
	}
	tier, limit := "Standard", 4096
	if in.Tier == ssmtypes.ParameterTierAdvanced || in.Tier == ssmtypes.ParameterTierIntelligentTiering && (len(value) > limit || policies != nil) {
		tier, limit = "Advanced", 8192
	}
	if len(value) > limit {
		return nil, errValidation("%s tier parameters support a maximum parameter value of %d characters. To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier. For more information, see https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html", tier, limit)
	}
	tags, err := addTags(nil, in.Tags)
	if err != nil {
		return nil, err
	}
	dataType := aws.ToString(in.DataType)
	if dataType == "" {
		dataType = "text"
	}
	if dataType == imageType {
		// AWS deviation: AWS accepts the request and validates later; an event is the only sign of
		// a failure.
		exists, err := s.image(ctx, sc.Account, sc.Region, value)
		if err != nil {
			return nil, err
		}
		if !exists {
			return nil, errValidation("The AMI ID %s does not exist in region %s.", value, sc.Region)
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
	own, err := s.sealWithKMS(ctx, sc, in)
	if err != nil {
		return nil, err
	}
	if _, err := s.remove(ctx, sc, name, func(p *parameterRecord) bool { return p.expired(s.clock.Now()) }); err != nil { // with its versions
		return nil, err
	}
	var rec parameterRecord
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := s.parameter(tx, sc.Key(name))
		switch {
		case errors.Is(err, store.ErrNotFound):
			if in.Type == "" {
				return errValidation("A parameter type is required when you create a parameter.")
			}
			if err := s.checkCount(sc); err != nil {
				return err
			}
			rec = parameterRecord{Name: name, Tags: tags}
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
		if in.KeyId != nil && rec.Type != string(ssmtypes.ParameterTypeSecureString) {
			return errKeyOfPlain()
		}
		if rec.Tier == string(ssmtypes.ParameterTierAdvanced) && tier != rec.Tier {
			if in.Tier == ssmtypes.ParameterTierStandard {
				return errDowngrade()
			}
			tier = rec.Tier // keeps its value
		}
		value := value
		rec.KeyID, rec.Envelope = "", false
		switch {
		case rec.Type != string(ssmtypes.ParameterTypeSecureString):
		case own != nil:
			value, rec.KeyID, rec.Envelope = own.value, own.keyID, own.envelope
		case s.kms != nil || !ownedByAWS(sc, in.KeyId):
			return errConcurrent() // it became a SecureString just now
		default:
			if value, err = s.seal(tx, sc, name, value); err != nil {
				return err
			}
		}
		rec.Value, rec.Version, rec.Modified, rec.ModifiedBy = value, rec.Version+1, s.now(), awsapi.CallFrom(ctx).Principal.ARN
		rec.DataType, rec.Tier = dataType, tier
		if in.Policies != nil {
			rec.Policies = policies
		}
		if len(rec.Policies) > 0 && tier != string(ssmtypes.ParameterTierAdvanced) {
			return errValidation("Parameter policies are available for parameters of the advanced tier only.")
		}
		if in.Description != nil {
			rec.Description = *in.Description
		}
		if in.AllowedPattern != nil {
			rec.Pattern = *in.AllowedPattern
		}
		if rec.Version > maxVersions {
			oldest := versionKey(sc, name, rec.Version-maxVersions)
			if old, err := versions.Get(tx, oldest); err == nil && len(old.Labels) > 0 {
				return errMaxVersions(name, old.Version)
			}
			versions.Delete(tx, oldest)
		}
		if err := versions.Put(tx, versionKey(sc, name, rec.Version), rec); err != nil {
			return err
		}
		return parameters.Put(tx, sc.Key(name), rec)
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.PutParameterOutput{Version: rec.Version, Tier: ssmtypes.ParameterTier(rec.Tier)}, nil
}

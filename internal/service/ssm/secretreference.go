package ssm

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Secrets is the operation of Secrets Manager that Parameter Store calls on its caller's behalf, with the caller's
// permissions.
type Secrets interface {
	GetSecretValue(context.Context, *awssm.GetSecretValueInput) (*awssm.GetSecretValueOutput, error)
}

// secretsPath is what the names of secrets follow in the names of parameters that refer to them.
const secretsPath = "/aws/reference/secretsmanager/"

// secret reads the secret that the parameter with a name refers to. version is the ID or staging label of a version, or
// empty.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/integration-ps-secretsmanager.html
func (s *Service) secret(ctx context.Context, name, id, version string, decrypt *bool) (*ssmtypes.Parameter, error) {
	if !aws.ToBool(decrypt) {
		// [seen] https://github.com/sous-chefs/aws/issues/419
		return nil, errValidation("WithDecryption flag must be True for retrieving a Secret Manager secret.")
	}
	in := &awssm.GetSecretValueInput{SecretId: &id}
	out := &ssmtypes.Parameter{Name: &name, Type: ssmtypes.ParameterTypeSecureString}
	if version != "" {
		out.Selector = aws.String(":" + version)
		if len(version) >= 32 { // the minimum of a version ID, which is the ClientRequestToken of CreateSecret
			in.VersionId = &version
		} else {
			in.VersionStage = &version
		}
	}
	v, err := s.vault.GetSecretValue(ctx, in)
	var api smithy.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode() == "ResourceNotFoundException":
		return nil, errNoSecret(name, out.Selector)
	case errors.As(err, &api):
		return nil, awserr.New(api.ErrorCode(), "An error occurred ("+api.ErrorCode()+") when referencing Secrets Manager: "+api.ErrorMessage())
	case err != nil:
		return nil, err
	case v.SecretString == nil:
		return nil, awserr.NotImplemented("a parameter that refers to a binary secret")
	}
	source, err := json.Marshal(map[string]any{
		"ARN": v.ARN, "name": v.Name, "versionId": v.VersionId, "secretString": v.SecretString, "versionStages": v.VersionStages,
		"createdDate": float64(v.CreatedDate.UnixMilli()) / 1000,
	})
	if err != nil {
		return nil, err
	}
	out.ARN, out.Value, out.LastModifiedDate, out.SourceResult = v.ARN, v.SecretString, v.CreatedDate, aws.String(string(source))
	return out, nil
}

package cloudformation

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func secretHandlers() map[string]handler {
	const rotationRules = "RotateImmediatelyOnUpdate RotationLambdaARN RotationRules SecretId"
	return map[string]handler{
		"AWS::SecretsManager::Secret": madeWith(handler{
			inPlace: "Description GenerateSecretString KmsKeyId SecretString Tags", update: updateSecret,
			find: func(r *request) (string, error) {
				out, err := call[awssm.DescribeSecretOutput](r, &awssm.DescribeSecretInput{SecretId: aws.String(r.secretName())})
				if err != nil || out.DeletedDate != nil {
					return "", err
				}
				return *out.ARN, nil
			},
			read: idAs("Id"),
			// After CloudFormation has deleted a secret, its name can be reused immediately.
			remove: one[awssm.DeleteSecretOutput](func(r *request) any {
				return &awssm.DeleteSecretInput{SecretId: &r.id, ForceDeleteWithoutRecovery: aws.Bool(true)}
			}),
		}, "GenerateSecretString Name SecretString Tags", func(r *request, in *awssm.CreateSecretInput) error {
			in.Name, in.ClientRequestToken, in.Tags = aws.String(r.secretName()), &r.token, smTags(r.tags())
			var err error
			in.SecretString, err = r.newSecretString()
			return err
		}, func(_ *request, out *awssm.CreateSecretOutput) *string { return out.ARN }),
		"AWS::SecretsManager::ResourcePolicy": again("BlockPublicPolicy ResourcePolicy", madeWith(handler{
			read: idAs("Id"),
			remove: one[awssm.DeleteResourcePolicyOutput](func(r *request) any {
				return &awssm.DeleteResourcePolicyInput{SecretId: aws.String(r.text("SecretId"))}
			}),
		}, "", func(*request, *awssm.PutResourcePolicyInput) error { return nil }, func(_ *request, out *awssm.PutResourcePolicyOutput) *string { return out.ARN })),
		// Drydock's Secrets Manager stores the schedule, but does not rotate the secret.
		"AWS::SecretsManager::RotationSchedule": again(rotationRules, madeWith(handler{
			read: idAs("Id"),
			remove: func(r *request) error {
				_, err := call[awssm.CancelRotateSecretOutput](r, &awssm.CancelRotateSecretInput{SecretId: aws.String(r.text("SecretId"))})
				return err
			},
		}, "RotateImmediatelyOnUpdate", func(r *request, in *awssm.RotateSecretInput) error {
			in.RotateImmediately = aws.Bool(r.text("RotateImmediatelyOnUpdate") != "false")
			return nil
		}, func(_ *request, out *awssm.RotateSecretOutput) *string { return out.ARN })),
	}
}

// secretName returns the name in the properties, or else a generated name, which does not contain the stack's name.
func (r *request) secretName() string {
	if name := r.text("Name"); name != "" {
		return name
	}
	return r.logical + "-" + r.suffix
}

func smTags(tags []tagRecord) (out []smtypes.Tag) {
	for _, t := range tags {
		out = append(out, smtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// newSecretString returns the value of a new version of a secret, or nil if the properties do not specify one.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-secretsmanager-secret-generatesecretstring.html
func (r *request) newSecretString() (*string, error) {
	generate := r.props.Has("GenerateSecretString")
	switch {
	case generate && r.props.Has("SecretString"):
		return nil, &invalidProperties{"You can't specify both GenerateSecretString and SecretString"} // our own wording
	case !generate:
		return nonEmpty(r.text("SecretString")), nil
	}
	const intoTemplate = "GenerateStringKey SecretStringTemplate"
	m := r.mapOf("GenerateSecretString")
	in := &awssm.GetRandomPasswordInput{}
	if err := r.fillIn(in, "GenerateSecretString", intoTemplate); err != nil {
		return nil, err
	}
	if m.Has("GenerateStringKey") != m.Has("SecretStringTemplate") {
		return nil, &invalidProperties{"GenerateStringKey and SecretStringTemplate must be specified together"} // our own wording
	}
	out, err := call[awssm.GetRandomPasswordOutput](r, in)
	if err != nil {
		return nil, err
	}
	if !m.Has("GenerateStringKey") {
		return out.RandomPassword, nil
	}
	v, err := template.ReadJSON(text(m, "SecretStringTemplate"))
	object, ok := v.(*template.Map)
	if err != nil || !ok {
		return nil, errors.New("Could not parse SecretStringTemplate JSON") //nolint:staticcheck // in AWS's style
	}
	object = object.Clone()
	object.Set(text(m, "GenerateStringKey"), *out.RandomPassword)
	return aws.String(template.JSON(object)), nil
}

func updateSecret(r *request) error {
	in := &awssm.UpdateSecretInput{SecretId: &r.id}
	if r.changed("Description") {
		in.Description = aws.String(r.text("Description"))
	}
	if r.changed("KmsKeyId") {
		in.KmsKeyId = aws.String("alias/aws/secretsmanager")
		if key := r.text("KmsKeyId"); key != "" {
			in.KmsKeyId = &key
		}
	}
	if r.changed("GenerateSecretString", "SecretString") {
		var err error
		if in.SecretString, err = r.newSecretString(); err != nil {
			return err
		}
		in.ClientRequestToken = r.updateToken()
	}
	if r.changed("Description", "KmsKeyId", "GenerateSecretString", "SecretString") {
		_, err := call[awssm.UpdateSecretOutput](r, in)
		// An earlier run of this update may have created the version, with another password.
		if err != nil && !(codeOf(err) == "ResourceExistsException" && r.props.Has("GenerateSecretString")) {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awssm.UntagResourceOutput](r, &awssm.UntagResourceInput{SecretId: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awssm.TagResourceOutput](r, &awssm.TagResourceInput{SecretId: &r.id, Tags: smTags(set)})
	return err
}

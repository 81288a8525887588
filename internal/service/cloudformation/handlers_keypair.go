package cloudformation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// keyParameter returns the name of the parameter in which CloudFormation stores a private key.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-ec2-keypair.html
func keyParameter(keyPairID string) *string { return aws.String("/ec2/keypair/" + keyPairID) }

// createKeyPair imports the public key of the template, or creates a key pair and stores
// the private key as a parameter.
func createKeyPair(r *request) (string, error) {
	if material := r.text("PublicKeyMaterial"); material != "" {
		in := &awsec2.ImportKeyPairInput{PublicKeyMaterial: []byte(material), TagSpecifications: r.tagSpecs(ec2types.ResourceTypeKeyPair)}
		_, err := create[awsec2.ImportKeyPairOutput](r, in, "PublicKeyMaterial KeyType KeyFormat Tags")
		return aws.ToString(in.KeyName), err
	}
	in := &awsec2.CreateKeyPairInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeKeyPair)}
	out, err := create[awsec2.CreateKeyPairOutput](r, in, "Tags")
	if err != nil {
		return "", err
	}
	// The private key is returned only once. If it cannot be stored, the key pair is
	// useless and is deleted.
	put := &awsssm.PutParameterInput{Name: keyParameter(*out.KeyPairId), Value: out.KeyMaterial, Type: ssmtypes.ParameterTypeSecureString}
	if _, err := call[awsssm.PutParameterOutput](r, put); err != nil {
		if _, gone := call[awsec2.DeleteKeyPairOutput](r, &awsec2.DeleteKeyPairInput{KeyPairId: out.KeyPairId}); gone != nil {
			return "", gone
		}
		r.service = serviceOf(put)
		return "", err
	}
	return *out.KeyName, nil
}

func removeKeyPair(r *request) error {
	k, err := r.keyPair(r.id)
	if err != nil {
		return err
	}
	if !r.props.Has("PublicKeyMaterial") {
		if _, err := call[awsssm.DeleteParameterOutput](r, &awsssm.DeleteParameterInput{Name: keyParameter(*k.KeyPairId)}); err != nil && !notFound(err) {
			return err
		}
	}
	_, err = call[awsec2.DeleteKeyPairOutput](r, &awsec2.DeleteKeyPairInput{KeyName: &r.id})
	return err
}

package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// In Drydock, users' only credentials are access keys, passwords and virtual MFA devices. Operations that would create
// others are not supported, so these lists are always empty. Terraform and aws-nuke read them
// before they delete a user.

// none checks a request about a user's other credentials. Without a name, the request is about the
// caller, who may be root.
func (s *Service) none(ctx context.Context, name *string) error {
	if name == nil && awsapi.CallFrom(ctx).Principal.Type == awsapi.Root {
		return nil
	}
	_, err := s.user(ctx, name)
	return err
}

// ListSSHPublicKeys lists a user's keys for CodeCommit, of which there are none.
func (s *Service) ListSSHPublicKeys(ctx context.Context, in *awsiam.ListSSHPublicKeysInput) (*awsiam.ListSSHPublicKeysOutput, error) {
	if err := s.none(ctx, in.UserName); err != nil {
		return nil, err
	}
	return &awsiam.ListSSHPublicKeysOutput{SSHPublicKeys: []iamtypes.SSHPublicKeyMetadata{}}, nil
}

// ListSigningCertificates lists a user's certificates, of which there are none.
func (s *Service) ListSigningCertificates(ctx context.Context, in *awsiam.ListSigningCertificatesInput) (*awsiam.ListSigningCertificatesOutput, error) {
	if err := s.none(ctx, in.UserName); err != nil {
		return nil, err
	}
	return &awsiam.ListSigningCertificatesOutput{Certificates: []iamtypes.SigningCertificate{}}, nil
}

// ListServiceSpecificCredentials lists a user's service-specific credentials, of which there are
// none.
func (s *Service) ListServiceSpecificCredentials(ctx context.Context, in *awsiam.ListServiceSpecificCredentialsInput) (*awsiam.ListServiceSpecificCredentialsOutput, error) {
	if err := s.none(ctx, in.UserName); err != nil {
		return nil, err
	}
	return &awsiam.ListServiceSpecificCredentialsOutput{ServiceSpecificCredentials: []iamtypes.ServiceSpecificCredentialMetadata{}}, nil
}

package sts

import (
	"context"

	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// GetCallerIdentity returns the identity of the caller.
func (s *Service) GetCallerIdentity(ctx context.Context, _ *awssts.GetCallerIdentityInput) (*awssts.GetCallerIdentityOutput, error) {
	p := awsapi.CallFrom(ctx).Principal
	return &awssts.GetCallerIdentityOutput{Account: &p.Account, Arn: &p.ARN, UserId: &p.UserID}, nil
}

// GetAccessKeyInfo returns the account of an access key, whoever the caller is.
func (s *Service) GetAccessKeyInfo(_ context.Context, in *awssts.GetAccessKeyInfoInput) (*awssts.GetAccessKeyInfoOutput, error) {
	account, ok := s.dir.AccessKeyAccount(*in.AccessKeyId)
	if !ok {
		return nil, invalidAccessKeyID(*in.AccessKeyId)
	}
	return &awssts.GetAccessKeyInfoOutput{Account: &account}, nil
}

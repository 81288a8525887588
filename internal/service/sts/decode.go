package sts

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// DecodeAuthorizationMessage decodes the encoded message of a denial, for the account whose request
// was denied.
func (s *Service) DecodeAuthorizationMessage(ctx context.Context, in *awssts.DecodeAuthorizationMessageInput) (*awssts.DecodeAuthorizationMessageOutput, error) {
	plain, err := authz.Open(ctx, s.store, awsapi.CallFrom(ctx).Account, *in.EncodedMessage)
	if errors.Is(err, authz.ErrNotSealed) {
		return nil, invalidAuthorizationMessage()
	}
	if err != nil {
		return nil, err
	}
	return &awssts.DecodeAuthorizationMessageOutput{DecodedMessage: aws.String(string(plain))}, nil
}

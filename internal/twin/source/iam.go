package source

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
)

// ofIAM is an operation of IAM.
func ofIAM[In, Out any](name string, call func(context.Context, *In, ...func(*awsiam.Options)) (*Out, error)) operation[In, Out, awsiam.Options] {
	return operation[In, Out, awsiam.Options]{service: "iam", name: name, call: call}
}

// readIAM reads users, groups, roles, policies and identity providers.
func (r *reader) readIAM(ctx context.Context) error {
	_, err := ask(ctx, r, ofIAM("GetAccountAuthorizationDetails", r.iam.GetAccountAuthorizationDetails), &awsiam.GetAccountAuthorizationDetailsInput{}, "")
	if err != nil {
		return err
	}
	lists, err := ask(ctx, r, ofIAM("ListOpenIDConnectProviders", r.iam.ListOpenIDConnectProviders), &awsiam.ListOpenIDConnectProvidersInput{}, "")
	if err != nil {
		return err
	}
	for _, list := range lists {
		for _, p := range list.OpenIDConnectProviderList {
			if _, err := ask(ctx, r, ofIAM("GetOpenIDConnectProvider", r.iam.GetOpenIDConnectProvider), &awsiam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: p.Arn}, aws.ToString(p.Arn)); err != nil {
				return err
			}
		}
	}
	return nil
}

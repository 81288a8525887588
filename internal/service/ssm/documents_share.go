package ssm

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyDocumentPermission shares a document with some accounts or with all accounts, or stops sharing it.
func (s *Service) ModifyDocumentPermission(ctx context.Context, in *awsssm.ModifyDocumentPermissionInput) (*awsssm.ModifyDocumentPermissionOutput, error) {
	err := documents.UpdateOne(ctx, s.store, scopeOf(ctx).Key(aws.ToString(in.Name)), func(rec *documentRecord) error {
		var accounts []string
		for _, a := range slices.Concat(rec.Accounts, in.AccountIdsToAdd) {
			if strings.EqualFold(a, "all") {
				a = "all"
			} else if !accountForm.MatchString(a) {
				return errValidation("The account ID %q is not valid.", a)
			}
			if !slices.Contains(in.AccountIdsToRemove, a) && !(a == "all" && slices.Contains(in.AccountIdsToRemove, "All")) && !slices.Contains(accounts, a) {
				accounts = append(accounts, a)
			}
		}
		if len(accounts) > maxShares {
			return &ssmtypes.DocumentPermissionLimit{Message: aws.String("The document can't be shared with more Amazon Web Services accounts.")}
		}
		slices.Sort(accounts)
		rec.Accounts = accounts
		return nil
	})
	return &awsssm.ModifyDocumentPermissionOutput{}, store.NotFoundAs(err, errInvalidDocument(aws.ToString(in.Name)))
}

// DescribeDocumentPermission lists the accounts that a document is shared with.
func (s *Service) DescribeDocumentPermission(ctx context.Context, in *awsssm.DescribeDocumentPermissionInput) (*awsssm.DescribeDocumentPermissionOutput, error) {
	rec, err := documents.Get(s.store, scopeOf(ctx).Key(aws.ToString(in.Name)))
	if err != nil {
		return nil, store.NotFoundAs(err, errInvalidDocument(aws.ToString(in.Name)))
	}
	list, next, err := paging.Cut(paging.Rules{Usual: 200, BadToken: func(string) error { return errNextToken() }}, rec.Accounts, func(a string) string { return a }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsssm.DescribeDocumentPermissionOutput{AccountIds: append([]string{}, list...), AccountSharingInfoList: []ssmtypes.AccountSharingInfo{}, NextToken: next}
	for _, a := range list {
		out.AccountSharingInfoList = append(out.AccountSharingInfoList, ssmtypes.AccountSharingInfo{AccountId: &a, SharedDocumentVersion: aws.String("$DEFAULT")})
	}
	return out, nil
}

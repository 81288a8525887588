package iam

import (
	"context"
	"fmt"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// The default credentials belong to the user admin of awsapi.DefaultAccount, not to root: root may
// do everything as well, but it cannot assume roles.
const (
	DefaultAccessKey = "test"
	DefaultSecret    = "test"
	DefaultUser      = "admin"
)

// HasAccount reports whether the account exists.
func (s *Service) HasAccount(acct string) bool {
	_, err := accounts.Get(s.store, store.Key{Account: acct, ID: accountID})
	return err == nil
}

// EnsureAccount creates the account unless it exists. The default account gets the user admin with
// AdministratorAccess and the access key test/test. Whatever a user deletes stays deleted.
func (s *Service) EnsureAccount(ctx context.Context, acct string) error {
	if !isAccount(acct) {
		return fmt.Errorf("%q is not an account ID", acct)
	}
	key := store.Key{Account: acct, ID: accountID}
	if _, err := accounts.Get(s.store, key); err == nil {
		return nil
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := accounts.Get(tx, key); err == nil {
			return nil
		}
		if err := accounts.Create(tx, key, account{Created: s.now()}); err != nil {
			return err
		}
		if acct != awsapi.DefaultAccount {
			return nil
		}
		admin := user{identity: identity{
			Name: DefaultUser, Path: "/", ID: ids.IAM("AIDA"), Created: s.now(),
			Attached: []string{"arn:aws:iam::aws:policy/AdministratorAccess"},
		}}
		if err := users.Create(tx, nameKey(acct, DefaultUser), admin); err != nil {
			return err
		}
		return keys.Create(tx, store.Key{Account: acct, ID: DefaultAccessKey}, accessKey{
			User: DefaultUser, UserID: admin.ID, Secret: DefaultSecret, Active: true, Created: s.now(),
		})
	})
}

// RestoreAccessKey recreates an access key of the default user after a reset of its account.
func (s *Service) RestoreAccessKey(ctx context.Context, id, secret string) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		admin, err := users.Get(tx, nameKey(awsapi.DefaultAccount, DefaultUser))
		if err != nil {
			return err
		}
		return keys.Put(tx, store.Key{Account: awsapi.DefaultAccount, ID: id}, accessKey{
			User: DefaultUser, UserID: admin.ID, Secret: secret, Active: true, Created: s.now(),
		})
	})
}

// LookupAccessKey returns the secret and the owner of a long-term access key. A 12-digit number is
// the key of that account's root, with the secret DefaultSecret; RecordUse then creates the
// account. For any other unknown or inactive key it returns ErrNoSuchKey. Temporary credentials are
// handled by service/sts.
func (s *Service) LookupAccessKey(ctx context.Context, accessKeyID string) (secret string, p awsapi.Principal, err error) {
	if isAccount(accessKeyID) {
		acct := accessKeyID
		return DefaultSecret, awsapi.Principal{
			Type: awsapi.Root, Account: acct, ARN: rootARN(acct), UserID: acct, AccessKeyID: accessKeyID,
		}, nil
	}
	acct, ok := s.AccessKeyAccount(accessKeyID)
	if !ok {
		if accessKeyID != DefaultAccessKey {
			return "", awsapi.Principal{}, ErrNoSuchKey
		}
		acct = awsapi.DefaultAccount
		if err := s.EnsureAccount(ctx, acct); err != nil {
			return "", awsapi.Principal{}, err
		}
	}
	k, err := keys.Get(s.store, store.Key{Account: acct, ID: accessKeyID})
	if err == nil && !k.Active {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", awsapi.Principal{}, store.NotFoundAs(err, ErrNoSuchKey)
	}
	u, err := users.Get(s.store, nameKey(acct, k.User))
	if err == nil && u.ID != k.UserID {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", awsapi.Principal{}, store.NotFoundAs(err, ErrNoSuchKey)
	}
	return k.Secret, awsapi.Principal{
		Type: awsapi.IAMUser, Account: acct, ARN: u.arn(acct), UserID: u.ID, AccessKeyID: accessKeyID, Name: u.Name,
		Tags: tagMap(u.Tags),
	}, nil
}

// GetAccountSummary counts the account's resources and lists IAM's quotas.
func (s *Service) GetAccountSummary(ctx context.Context, _ *awsiam.GetAccountSummaryInput) (*awsiam.GetAccountSummaryOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	us := users.All(s.store, within(acct))
	gs := groups.All(s.store, within(acct))
	rs := roles.All(s.store, within(acct))
	ps := policies.All(s.store, within(acct))
	ip := profiles.All(s.store, within(acct))
	op := providers.All(s.store, within(acct))
	mfa := mfaDevices.All(s.store, within(acct))
	mfaInUse := 0
	for _, d := range mfa {
		if d.Value.UserID != "" {
			mfaInUse++
		}
	}
	versions := 0
	for _, p := range ps {
		versions += len(p.Value.Versions)
	}
	tokens := int32(1)
	if a, err := accounts.Get(s.store, store.Key{Account: acct, ID: accountID}); err == nil && a.TokensV2 {
		tokens = 2
	}
	return &awsiam.GetAccountSummaryOutput{SummaryMap: map[string]int32{
		"GlobalEndpointTokenVersion": tokens,
		"Users":                      int32(len(us)), "Groups": int32(len(gs)), "Roles": int32(len(rs)), "Policies": int32(len(ps)),
		"InstanceProfiles": int32(len(ip)), "Providers": int32(len(op) + len(samlProviders.All(s.store, within(acct)))), "PolicyVersionsInUse": int32(versions),
		"ServerCertificates": int32(len(serverCertificates.All(s.store, within(acct)))), "ServerCertificatesQuota": maxServerCertificates, "MFADevices": int32(len(mfa)), "MFADevicesInUse": int32(mfaInUse), "AccountMFAEnabled": 0,
		"AccountAccessKeysPresent": 0, "AccountSigningCertificatesPresent": 0,
		"AccessKeysPerUserQuota": maxAccessKeys, "GroupsPerUserQuota": maxGroupsPerUser,
		"AttachedPoliciesPerUserQuota": maxAttached, "AttachedPoliciesPerGroupQuota": maxAttached, "AttachedPoliciesPerRoleQuota": maxAttached,
		"UserPolicySizeQuota": int32(ofUser.inlineBytes), "GroupPolicySizeQuota": int32(ofGroup.inlineBytes),
		"AssumeRolePolicySizeQuota": maxTrustBytes, "PolicySizeQuota": maxPolicyBytes, "VersionsPerPolicyQuota": maxVersions,
	}}, nil
}

// rootARN returns the ARN of an account's root.
func rootARN(account string) string { return arn.IAM(account, "root") }

// CreateMemberAccount creates an account with a role that has administrator access and trusts another account, as
// AWS Organizations does. https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_accounts_access-cross-account-role.html
func (s *Service) CreateMemberAccount(ctx context.Context, acct, roleName, trusted string) error {
	if err := s.EnsureAccount(ctx, acct); err != nil {
		return err
	}
	call := *awsapi.CallFrom(ctx)
	call.Account = acct
	inMember := awsapi.WithCall(ctx, &call)
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + rootARN(trusted) + `"},"Action":"sts:AssumeRole"}]}`
	if _, err := s.CreateRole(inMember, &awsiam.CreateRoleInput{RoleName: &roleName, AssumeRolePolicyDocument: &trust}); err != nil {
		return err
	}
	admin := "arn:aws:iam::aws:policy/AdministratorAccess"
	_, err := s.AttachRolePolicy(inMember, &awsiam.AttachRolePolicyInput{RoleName: &roleName, PolicyArn: &admin})
	return err
}

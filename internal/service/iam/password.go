package iam

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// A login lets a user sign in to the console. Drydock has no console, so passwords are validated
// but not used.
type login struct {
	Created       time.Time
	Changed       time.Time `json:",omitzero"`
	ResetRequired bool
}

// CreateLoginProfile gives a user a password.
func (s *Service) CreateLoginProfile(ctx context.Context, in *awsiam.CreateLoginProfileInput) (*awsiam.CreateLoginProfileOutput, error) {
	if in.Password == nil {
		return nil, validationError("Password is required.") // from memory
	}
	name, err := userName(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	var out *iamtypes.LoginProfile
	err = userKind.change(ctx, s, name, func(tx *store.Tx, u *user) error {
		if u.Login != nil {
			return loginProfileExists(u.Name)
		}
		if err := judgePassword(tx, awsapi.CallFrom(ctx).Account, *in.Password); err != nil {
			return err
		}
		u.Login = &login{Created: s.now(), ResetRequired: in.PasswordResetRequired}
		out = outLogin(u)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateLoginProfileOutput{LoginProfile: out}, nil
}

// GetLoginProfile reports that a user has a password.
func (s *Service) GetLoginProfile(ctx context.Context, in *awsiam.GetLoginProfileInput) (*awsiam.GetLoginProfileOutput, error) {
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	if u.Login == nil {
		return nil, noSuchLoginProfile(u.Name)
	}
	return &awsiam.GetLoginProfileOutput{LoginProfile: outLogin(&u)}, nil
}

// UpdateLoginProfile changes a user's password.
func (s *Service) UpdateLoginProfile(ctx context.Context, in *awsiam.UpdateLoginProfileInput) (*awsiam.UpdateLoginProfileOutput, error) {
	return done[awsiam.UpdateLoginProfileOutput](userKind.change(ctx, s, *in.UserName, func(tx *store.Tx, u *user) error {
		if u.Login == nil {
			return noSuchLoginProfile(u.Name)
		}
		if in.Password != nil {
			if err := judgePassword(tx, awsapi.CallFrom(ctx).Account, *in.Password); err != nil {
				return err
			}
			u.Login.Changed = s.now()
		}
		if in.PasswordResetRequired != nil {
			u.Login.ResetRequired = *in.PasswordResetRequired
		}
		return nil
	}))
}

// DeleteLoginProfile removes a user's password.
func (s *Service) DeleteLoginProfile(ctx context.Context, in *awsiam.DeleteLoginProfileInput) (*awsiam.DeleteLoginProfileOutput, error) {
	name, err := userName(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	return done[awsiam.DeleteLoginProfileOutput](userKind.change(ctx, s, name, func(_ *store.Tx, u *user) error {
		if u.Login == nil {
			return noSuchLoginProfile(u.Name)
		}
		u.Login = nil
		return nil
	}))
}

func outLogin(u *user) *iamtypes.LoginProfile {
	return &iamtypes.LoginProfile{
		UserName: aws.String(u.Name), CreateDate: aws.Time(u.Login.Created), PasswordResetRequired: u.Login.ResetRequired,
	}
}

// A passwordPolicy has the account's requirements for passwords.
type passwordPolicy struct {
	MinLength                      int32
	Symbols, Numbers, Upper, Lower bool
	UsersMayChange, HardExpiry     bool
	MaxAge, ReusePrevention        int32 // 0 means that passwords do not expire
}

// UpdateAccountPasswordPolicy replaces the account's password policy. Settings that the request
// leaves out get their default values, not the previous ones.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_UpdateAccountPasswordPolicy.html
func (s *Service) UpdateAccountPasswordPolicy(ctx context.Context, in *awsiam.UpdateAccountPasswordPolicyInput) (*awsiam.UpdateAccountPasswordPolicyOutput, error) {
	p := &passwordPolicy{
		MinLength: 6, Symbols: in.RequireSymbols, Numbers: in.RequireNumbers, Upper: in.RequireUppercaseCharacters,
		Lower: in.RequireLowercaseCharacters, UsersMayChange: in.AllowUsersToChangePassword, HardExpiry: aws.ToBool(in.HardExpiry),
		MaxAge: aws.ToInt32(in.MaxPasswordAge), ReusePrevention: aws.ToInt32(in.PasswordReusePrevention),
	}
	if in.MinimumPasswordLength != nil {
		p.MinLength = *in.MinimumPasswordLength
	}
	return done[awsiam.UpdateAccountPasswordPolicyOutput](s.changeAccount(ctx, func(_ *store.Tx, a *account) error {
		a.Passwords = p
		return nil
	}))
}

// GetAccountPasswordPolicy describes the account's password policy.
func (s *Service) GetAccountPasswordPolicy(ctx context.Context, _ *awsiam.GetAccountPasswordPolicyInput) (*awsiam.GetAccountPasswordPolicyOutput, error) {
	a, err := s.account(ctx)
	if err != nil {
		return nil, err
	}
	p := a.Passwords
	if p == nil {
		return nil, noSuchPasswordPolicy(awsapi.CallFrom(ctx).Account)
	}
	out := &iamtypes.PasswordPolicy{
		MinimumPasswordLength: &p.MinLength, RequireSymbols: p.Symbols, RequireNumbers: p.Numbers, RequireUppercaseCharacters: p.Upper,
		RequireLowercaseCharacters: p.Lower, AllowUsersToChangePassword: p.UsersMayChange, HardExpiry: &p.HardExpiry, ExpirePasswords: p.MaxAge > 0,
	}
	if p.MaxAge > 0 {
		out.MaxPasswordAge = &p.MaxAge
	}
	if p.ReusePrevention > 0 {
		out.PasswordReusePrevention = &p.ReusePrevention
	}
	return &awsiam.GetAccountPasswordPolicyOutput{PasswordPolicy: out}, nil
}

// DeleteAccountPasswordPolicy restores AWS's default.
func (s *Service) DeleteAccountPasswordPolicy(ctx context.Context, _ *awsiam.DeleteAccountPasswordPolicyInput) (*awsiam.DeleteAccountPasswordPolicyOutput, error) {
	return done[awsiam.DeleteAccountPasswordPolicyOutput](s.changeAccount(ctx, func(_ *store.Tx, a *account) error {
		if a.Passwords == nil {
			return noSuchPasswordPolicy(awsapi.CallFrom(ctx).Account)
		}
		a.Passwords = nil
		return nil
	}))
}

// judgePassword checks a password against the account's policy or AWS's default: eight characters
// of at least three of the four kinds.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_passwords_account-policy.html
func judgePassword(r store.Reader, acct, password string) error {
	a, err := accounts.Get(r, store.Key{Account: acct, ID: accountID})
	if err := store.NotFoundAs(err, nil); err != nil {
		return err
	}
	const symbols = "!@#$%^&*()_+-=[]{}|'"
	upper := strings.ContainsFunc(password, func(r rune) bool { return 'A' <= r && r <= 'Z' })
	lower := strings.ContainsFunc(password, func(r rune) bool { return 'a' <= r && r <= 'z' })
	digit := strings.ContainsFunc(password, func(r rune) bool { return '0' <= r && r <= '9' })
	symbol := strings.ContainsAny(password, symbols)
	p := a.Passwords
	if p == nil {
		if utf8.RuneCountInString(password) < 8 {
			return passwordViolation("Password should have a minimum length of 8")
		}
		var missing []string
		for _, kind := range []struct {
			has  bool
			name string
		}{{upper, "uppercase letter"}, {lower, "lowercase letter"}, {digit, "number"}, {symbol, "symbol"}} {
			if !kind.has {
				missing = append(missing, "Password should have at least one "+kind.name)
			}
		}
		if len(missing) > 1 {
			return passwordViolation("Password should meet %d more of the following requirements: %s", len(missing)-1, strings.Join(missing, ", "))
		}
		return nil
	}
	switch {
	case utf8.RuneCountInString(password) < int(p.MinLength):
		return passwordViolation("Password should have a minimum length of %d", p.MinLength)
	case p.Upper && !upper:
		return passwordViolation("Password should have at least one uppercase letter")
	case p.Lower && !lower:
		return passwordViolation("Password should have at least one lowercase letter")
	case p.Numbers && !digit:
		return passwordViolation("Password should have at least one number")
	case p.Symbols && !symbol:
		return passwordViolation("Password should have at least one symbol")
	}
	return nil
}

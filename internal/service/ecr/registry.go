package ecr

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// registryID is the ID of the record of a registry.
const registryID = "registry"

// settings returns the settings of a registry. They are empty if the account has never set anything.
func (s *Service) settings(sc scope) (registryRecord, error) {
	r, err := registries.Get(s.store, sc.Key(registryID))
	return r, store.IgnoreNotFound(err)
}

func (s *Service) set(ctx context.Context, sc scope, fn func(*registryRecord) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		r, err := registries.Get(tx, sc.Key(registryID))
		if err := store.IgnoreNotFound(err); err != nil {
			return err
		}
		if err := fn(&r); err != nil {
			return err
		}
		return registries.Put(tx, sc.Key(registryID), r)
	})
}

// DescribeRegistry describes the caller's registry, which is never replicated.
func (s *Service) DescribeRegistry(ctx context.Context, _ *awsecr.DescribeRegistryInput) (*awsecr.DescribeRegistryOutput, error) {
	sc := registryOf(ctx, nil)
	return &awsecr.DescribeRegistryOutput{RegistryId: &sc.Account, ReplicationConfiguration: &ecrtypes.ReplicationConfiguration{Rules: []ecrtypes.ReplicationRule{}}}, nil
}

// PutRegistryPolicy sets the policy for all repositories of the registry.
func (s *Service) PutRegistryPolicy(ctx context.Context, in *awsecr.PutRegistryPolicyInput) (*awsecr.PutRegistryPolicyOutput, error) {
	sc := registryOf(ctx, nil)
	if _, err := policy.Parse(policy.Resource, *in.PolicyText); err != nil {
		return nil, errRegistryPolicy()
	}
	err := s.set(ctx, sc, func(r *registryRecord) error {
		r.Policy = *in.PolicyText
		return nil
	})
	return &awsecr.PutRegistryPolicyOutput{PolicyText: in.PolicyText, RegistryId: &sc.Account}, err
}

// GetRegistryPolicy returns the registry's policy.
func (s *Service) GetRegistryPolicy(ctx context.Context, _ *awsecr.GetRegistryPolicyInput) (*awsecr.GetRegistryPolicyOutput, error) {
	sc := registryOf(ctx, nil)
	r, err := s.settings(sc)
	if err == nil && r.Policy == "" {
		err = errNoRegistryPolicy(sc.Account)
	}
	return &awsecr.GetRegistryPolicyOutput{PolicyText: &r.Policy, RegistryId: &sc.Account}, err
}

// DeleteRegistryPolicy deletes the registry's policy.
func (s *Service) DeleteRegistryPolicy(ctx context.Context, _ *awsecr.DeleteRegistryPolicyInput) (*awsecr.DeleteRegistryPolicyOutput, error) {
	sc := registryOf(ctx, nil)
	var was string
	err := s.set(ctx, sc, func(r *registryRecord) error {
		if was = r.Policy; was == "" {
			return errNoRegistryPolicy(sc.Account)
		}
		r.Policy = ""
		return nil
	})
	return &awsecr.DeleteRegistryPolicyOutput{PolicyText: &was, RegistryId: &sc.Account}, err
}

// PutRegistryScanningConfiguration stores which repositories are to be scanned, and when.
func (s *Service) PutRegistryScanningConfiguration(ctx context.Context, in *awsecr.PutRegistryScanningConfigurationInput) (*awsecr.PutRegistryScanningConfigurationOutput, error) {
	c := ecrtypes.RegistryScanningConfiguration{ScanType: in.ScanType, Rules: in.Rules}
	if c.ScanType == "" {
		c.ScanType = ecrtypes.ScanTypeBasic
	}
	if c.Rules == nil {
		c.Rules = []ecrtypes.RegistryScanningRule{}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return &awsecr.PutRegistryScanningConfigurationOutput{RegistryScanningConfiguration: &c}, s.set(ctx, registryOf(ctx, nil), func(r *registryRecord) error {
		r.Scanning = string(raw)
		return nil
	})
}

// GetRegistryScanningConfiguration returns which repositories are to be scanned, and when.
func (s *Service) GetRegistryScanningConfiguration(ctx context.Context, _ *awsecr.GetRegistryScanningConfigurationInput) (*awsecr.GetRegistryScanningConfigurationOutput, error) {
	sc := registryOf(ctx, nil)
	r, err := s.settings(sc)
	c := ecrtypes.RegistryScanningConfiguration{ScanType: ecrtypes.ScanTypeBasic, Rules: []ecrtypes.RegistryScanningRule{}}
	if err == nil && r.Scanning != "" {
		err = json.Unmarshal([]byte(r.Scanning), &c)
	}
	return &awsecr.GetRegistryScanningConfigurationOutput{RegistryId: &sc.Account, ScanningConfiguration: &c}, err
}

// accountSettings are the allowed values of an account's settings. The first value is the default.
// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_PutAccountSetting.html
var accountSettings = map[string][]string{
	policyScope:               {"V2", "V1"},
	"BASIC_SCAN_TYPE_VERSION": {"AWS_NATIVE"},
}

// policyScope is the setting that decides whether registry policies apply to all actions (V2), or only to replication
// and pull-through caches (V1).
const policyScope = "REGISTRY_POLICY_SCOPE"

// PutAccountSetting changes a setting.
func (s *Service) PutAccountSetting(ctx context.Context, in *awsecr.PutAccountSettingInput) (*awsecr.PutAccountSettingOutput, error) {
	if !slices.Contains(accountSettings[*in.Name], *in.Value) {
		return nil, errSetting(*in.Name, *in.Value)
	}
	return &awsecr.PutAccountSettingOutput{Name: in.Name, Value: in.Value}, s.set(ctx, registryOf(ctx, nil), func(r *registryRecord) error {
		next := map[string]string{*in.Name: *in.Value}
		for k, v := range r.Settings {
			if k != *in.Name {
				next[k] = v
			}
		}
		r.Settings = next
		return nil
	})
}

func (r *registryRecord) setting(name string) string {
	if v := r.Settings[name]; v != "" {
		return v
	}
	return accountSettings[name][0]
}

// GetAccountSetting returns a setting.
func (s *Service) GetAccountSetting(ctx context.Context, in *awsecr.GetAccountSettingInput) (*awsecr.GetAccountSettingOutput, error) {
	if accountSettings[*in.Name] == nil {
		return nil, errSetting(*in.Name, "it")
	}
	r, err := s.settings(registryOf(ctx, nil))
	return &awsecr.GetAccountSettingOutput{Name: in.Name, Value: aws.String(r.setting(*in.Name))}, err
}

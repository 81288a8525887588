package ssm

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
)

// hostRole is the setting of default host management: the role of agents on instances whose own role does not let them
// register. https://docs.aws.amazon.com/systems-manager/latest/userguide/fleet-manager-default-host-management-configuration.html
const hostRole = "/ssm/managed-instance/default-ec2-instance-management-role"

// otherSettings are AWS's other settings.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetServiceSetting.html
var otherSettings = map[string]bool{
	"/ssm/appconfig/appconfig-managed-instance-hybrid-management": true, "/ssm/automation/customer-script-log-destination": true, "/ssm/automation/customer-script-log-group-name": true,
	"/ssm/automation/enable-adaptive-concurrency": true, "/ssm/documents/console/public-sharing-permission": true, "/ssm/managed-instance/activation-tier": true, "/ssm/opsinsights/opscenter": true,
	"/ssm/parameter-store/default-parameter-tier": true, "/ssm/parameter-store/high-throughput-enabled": true,
}

// noRole is the setting's default value.
const noRole = "$None"

// A settingRecord is a setting that has been changed.
type settingRecord struct {
	Value    string
	Modified time.Time
	By       string
}

var settings = store.NewCollection[settingRecord]("ssm", "service-setting")

// settingID returns the ID of the setting that a request names by its ID or ARN.
func settingID(ref *string) (string, error) {
	id := aws.ToString(ref)
	if _, name, ok := strings.Cut(id, ":servicesetting/"); ok {
		id = "/" + name
	}
	switch {
	case id == hostRole:
		return id, nil
	case otherSettings[id]:
		return "", awserr.NotImplemented("the service setting " + id)
	}
	return "", &ssmtypes.ServiceSettingNotFound{Message: aws.String("The specified service setting wasn't found. Either the service name or the setting hasn't been provisioned by the Amazon Web Services service team.")}
}

func (s *Service) setting(sc scope, id string) (*ssmtypes.ServiceSetting, error) {
	out := &ssmtypes.ServiceSetting{
		SettingId: &id, SettingValue: aws.String(noRole), Status: aws.String("Default"), LastModifiedUser: aws.String("System"), LastModifiedDate: aws.Time(time.Unix(0, 0)),
		ARN: aws.String(arn.New("ssm", sc.Region, sc.Account, "servicesetting"+id)),
	}
	rec, err := settings.Get(s.store, sc.Key(id))
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	out.SettingValue, out.Status, out.LastModifiedUser, out.LastModifiedDate = &rec.Value, aws.String("Customized"), &rec.By, aws.Time(rec.Modified)
	return out, err
}

// GetServiceSetting returns a setting.
func (s *Service) GetServiceSetting(ctx context.Context, in *awsssm.GetServiceSettingInput) (*awsssm.GetServiceSettingOutput, error) {
	id, err := settingID(in.SettingId)
	if err != nil {
		return nil, err
	}
	out, err := s.setting(scopeOf(ctx), id)
	return &awsssm.GetServiceSettingOutput{ServiceSetting: out}, err
}

// UpdateServiceSetting changes a setting.
func (s *Service) UpdateServiceSetting(ctx context.Context, in *awsssm.UpdateServiceSettingInput) (*awsssm.UpdateServiceSettingOutput, error) {
	id, err := settingID(in.SettingId)
	if err != nil {
		return nil, err
	}
	rec := settingRecord{Value: aws.ToString(in.SettingValue), Modified: s.now(), By: awsapi.CallFrom(ctx).Principal.ARN}
	return &awsssm.UpdateServiceSettingOutput{}, s.store.Update(ctx, func(tx *store.Tx) error { return settings.Put(tx, scopeOf(ctx).Key(id), rec) })
}

// ResetServiceSetting restores a setting's default.
func (s *Service) ResetServiceSetting(ctx context.Context, in *awsssm.ResetServiceSettingInput) (*awsssm.ResetServiceSettingOutput, error) {
	id, err := settingID(in.SettingId)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error { settings.Delete(tx, scopeOf(ctx).Key(id)); return nil })
	if err != nil {
		return nil, err
	}
	out, err := s.setting(scopeOf(ctx), id)
	return &awsssm.ResetServiceSettingOutput{ServiceSetting: out}, err
}

// roleOf returns the ARN of the role that a value of the setting names as PATH/NAME, or "" if it does not name one.
func roleOf(account, value string) string {
	if value == "" || value == noRole {
		return ""
	}
	return arn.IAM(account, "role/"+strings.TrimPrefix(value, "/"))
}

// HostRole returns the ARN of the default host management role, or "" if it is not set.
func (s *Service) HostRole(account, region string) string {
	rec, err := settings.Get(s.store, regional.At(account, region).Key(hostRole))
	if err != nil {
		return ""
	}
	return roleOf(account, rec.Value)
}

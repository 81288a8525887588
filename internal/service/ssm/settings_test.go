package ssm_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestServiceSettings(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	const id = "/ssm/managed-instance/default-ec2-instance-management-role"
	get := func(id string) (value, status string) {
		t.Helper()
		out, err := w.client.GetServiceSetting(ctx, &awsssm.GetServiceSettingInput{SettingId: &id})
		if err != nil {
			t.Fatal(err)
		}
		return *out.ServiceSetting.SettingValue, *out.ServiceSetting.Status
	}
	if value, status := get(id); value != "$None" || status != "Default" || w.service.HostRole(w.fleet.account, testkit.Region) != "" {
		t.Errorf("%s, %s", value, status)
	}
	update := &awsssm.UpdateServiceSettingInput{SettingId: aws.String(id), SettingValue: aws.String("service-role/Hosts")}
	keys := w.user(t, "carl", `{"Effect":"Allow","Action":"ssm:*","Resource":"*"}`)
	_, err := awsssm.NewFromConfig(w.AWSConfigWith(keys)).UpdateServiceSetting(ctx, update)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "iam:PassRole on resource: arn:aws:iam::"+w.fleet.account+":role/service-role/Hosts")
	if _, err := w.client.UpdateServiceSetting(ctx, update); err != nil {
		t.Fatal(err)
	}
	if value, status := get("arn:aws:ssm:us-east-1:" + w.fleet.account + ":servicesetting" + id); value != "service-role/Hosts" || status != "Customized" {
		t.Errorf("%s, %s", value, status)
	}
	if role := w.service.HostRole(w.fleet.account, testkit.Region); role != "arn:aws:iam::"+w.fleet.account+":role/service-role/Hosts" {
		t.Errorf("the role is %s", role)
	}
	if out, err := w.client.ResetServiceSetting(ctx, &awsssm.ResetServiceSettingInput{SettingId: aws.String(id)}); err != nil || *out.ServiceSetting.Status != "Default" {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = w.client.GetServiceSetting(ctx, &awsssm.GetServiceSettingInput{SettingId: aws.String("/ssm/nothing")})
	testkit.WantError(t, err, "ServiceSettingNotFound", "")
	_, err = w.client.GetServiceSetting(ctx, &awsssm.GetServiceSettingInput{SettingId: aws.String("/ssm/opsinsights/opscenter")})
	testkit.WantError(t, err, "NotImplemented", "")
}

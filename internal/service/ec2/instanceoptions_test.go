package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestCreditSpecifications(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	small := *w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.InstanceType = "t3.micro" })[0].InstanceId
	large := *w.launch(t, 1, nil)[0].InstanceId
	set := func(token string, credits ...string) (*awsec2.ModifyInstanceCreditSpecificationOutput, error) {
		in := &awsec2.ModifyInstanceCreditSpecificationInput{}
		if token != "" {
			in.ClientToken = &token
		}
		for n, id := range []string{small, large}[:len(credits)] {
			in.InstanceCreditSpecifications = append(in.InstanceCreditSpecifications, ec2types.InstanceCreditSpecificationRequest{InstanceId: aws.String(id), CpuCredits: &credits[n]})
		}
		return w.ModifyInstanceCreditSpecification(ctx, in)
	}
	out := must(set("once", "standard", "standard"))(t)
	if len(out.SuccessfulInstanceCreditSpecifications) != 1 || len(out.UnsuccessfulInstanceCreditSpecifications) != 1 {
		t.Fatalf("%+v", out)
	}
	if bad := out.UnsuccessfulInstanceCreditSpecifications[0]; *bad.InstanceId != large || bad.Error.Code != "InstanceCreditSpecification.NotSupported" {
		t.Errorf("%s: %s", *bad.InstanceId, bad.Error.Code)
	}
	_, err := set("once", "unlimited", "standard")
	wantError(t, err, "IdempotentParameterMismatch", "")
	_, err = set("", "plenty")
	wantError(t, err, "InvalidParameterValue", "")
	must(set("once", "standard", "standard"))(t)
	got := must(w.DescribeInstanceCreditSpecifications(ctx, &awsec2.DescribeInstanceCreditSpecificationsInput{InstanceIds: []string{small}}))(t).InstanceCreditSpecifications
	if *got[0].CpuCredits != "standard" {
		t.Errorf("credits: %s", *got[0].CpuCredits)
	}
}

// An account's defaults apply to launches that do not override them, until the defaults are
// cleared.
func TestMetadataDefaults(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	before := w.launch(t, 1, nil)[0].MetadataOptions
	must(w.ModifyInstanceMetadataDefaults(ctx, &awsec2.ModifyInstanceMetadataDefaultsInput{HttpTokens: "optional", HttpPutResponseHopLimit: aws.Int32(5), InstanceMetadataTags: "enabled"}))(t)
	if got := w.launch(t, 1, nil)[0].MetadataOptions; got.HttpTokens != "optional" || *got.HttpPutResponseHopLimit != 5 || got.InstanceMetadataTags != "enabled" || got.HttpEndpoint != before.HttpEndpoint {
		t.Errorf("%+v", got)
	}
	if got := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{HttpTokens: "required"}
	})[0].MetadataOptions; got.HttpTokens != "required" || *got.HttpPutResponseHopLimit != 5 {
		t.Errorf("%+v", got)
	}
	must(w.ModifyInstanceMetadataDefaults(ctx, &awsec2.ModifyInstanceMetadataDefaultsInput{HttpTokens: "no-preference", HttpPutResponseHopLimit: aws.Int32(-1)}))(t)
	level := must(w.GetInstanceMetadataDefaults(ctx, &awsec2.GetInstanceMetadataDefaultsInput{}))(t).AccountLevel
	if level.HttpTokens != "" || level.HttpPutResponseHopLimit != nil || level.InstanceMetadataTags != "enabled" {
		t.Errorf("%+v", level)
	}
	if got := w.launch(t, 1, nil)[0].MetadataOptions; got.HttpTokens != before.HttpTokens || *got.HttpPutResponseHopLimit != *before.HttpPutResponseHopLimit {
		t.Errorf("%+v", got)
	}
	_, err := w.ModifyInstanceMetadataDefaults(ctx, &awsec2.ModifyInstanceMetadataDefaultsInput{HttpPutResponseHopLimit: aws.Int32(65)})
	wantError(t, err, "InvalidParameterValue", "")
}

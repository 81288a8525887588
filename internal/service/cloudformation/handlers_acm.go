package cloudformation

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
)

func acmHandlers() map[string]handler {
	const logging = "CertificateTransparencyLoggingPreference"
	return map[string]handler{
		"AWS::CertificateManager::Certificate": made(handler{
			inPlace: logging + " Tags", update: updateCertificate, settle: settleCertificate,
			// The validation records are kept, because other certificates may use them, too.
			// https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/1603
			remove: one[awsacm.DeleteCertificateOutput](func(r *request) any { return &awsacm.DeleteCertificateInput{CertificateArn: &r.id} }),
		}, logging+" DomainValidationOptions Tags", func(r *request, in *awsacm.RequestCertificateInput) {
			in.IdempotencyToken = aws.String(strings.ReplaceAll(r.token, "-", "")) // a repeated request returns the same certificate
			in.Options, in.Tags = r.certificateOptions(), acmTags(r.tags())
			for _, o := range listed(r.props, "DomainValidationOptions", "") {
				if o.Has("ValidationDomain") {
					in.DomainValidationOptions = append(in.DomainValidationOptions, acmtypes.DomainValidationOption{DomainName: aws.String(text(o, "DomainName")), ValidationDomain: aws.String(text(o, "ValidationDomain"))})
				}
			}
		}, func(_ *request, out *awsacm.RequestCertificateOutput) *string { return out.CertificateArn }),
	}
}

func acmTags(tags []tagRecord) (out []acmtypes.Tag) {
	for _, t := range tags {
		out = append(out, acmtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

func (r *request) certificateOptions() *acmtypes.CertificateOptions {
	preference := acmtypes.CertificateTransparencyLoggingPreference(r.text("CertificateTransparencyLoggingPreference"))
	if preference == "" {
		preference = acmtypes.CertificateTransparencyLoggingPreferenceEnabled
	}
	//lint:ignore SA1019 templates still have it
	return &acmtypes.CertificateOptions{CertificateTransparencyLoggingPreference: preference}
}

// settleCertificate creates the records that validate the certificate's names in the given hosted zones, and waits until
// the certificate is issued.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-certificatemanager-certificate.html
func settleCertificate(r *request) error {
	zones := map[string]string{}
	for _, o := range listed(r.props, "DomainValidationOptions", "") {
		zones[strings.ToLower(text(o, "DomainName"))] = text(o, "HostedZoneId")
	}
	written := map[string]bool{}
	return r.wait(func() (bool, error) {
		out, err := call[awsacm.DescribeCertificateOutput](r, &awsacm.DescribeCertificateInput{CertificateArn: &r.id})
		if err != nil {
			return false, err
		}
		switch c := out.Certificate; c.Status {
		case acmtypes.CertificateStatusIssued:
			return true, nil
		case acmtypes.CertificateStatusPendingValidation:
			for _, v := range c.DomainValidationOptions {
				// A wildcard name is validated by the record of its domain.
				domain := strings.TrimPrefix(*v.DomainName, "*.")
				if v.ResourceRecord == nil || written[domain] {
					continue
				}
				written[domain] = true
				if err := r.validate(v.ResourceRecord, cmp.Or(zones[domain], zones["*."+domain])); err != nil {
					return false, err
				}
			}
			return false, nil
		default:
			return false, fmt.Errorf("%s is in state %s and hence failed to stabilize", r.id, c.Status)
		}
	})
}

// validate shows the record that validates a name in the stack's events. If a hosted zone is given, validate also creates
// the record there.
func (r *request) validate(record *acmtypes.ResourceRecord, zone string) error {
	// [seen] in the events of many users who had to create the record themselves
	shown := fmt.Sprintf("Content of DNS Record is: {Name: %s,Type: %s,Value: %s}", *record.Name, record.Type, *record.Value)
	if rec, _ := r.o.resource(r.logical); rec.Reason != shown {
		if err := r.o.note(r.logical, true, func(rec *resourceRecord) { rec.Reason = shown }); err != nil {
			return err
		}
	}
	if zone == "" {
		return nil
	}
	_, err := call[awsroute53.ChangeResourceRecordSetsOutput](r, &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: zoneID(&zone), ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{{
		Action: route53types.ChangeActionUpsert, ResourceRecordSet: &route53types.ResourceRecordSet{
			Name: record.Name, Type: route53types.RRType(record.Type), TTL: aws.Int64(300), ResourceRecords: []route53types.ResourceRecord{{Value: record.Value}},
		},
	}}}})
	return err
}

func updateCertificate(r *request) error {
	if r.changed("CertificateTransparencyLoggingPreference") {
		if _, err := call[awsacm.UpdateCertificateOptionsOutput](r, &awsacm.UpdateCertificateOptionsInput{CertificateArn: &r.id, Options: r.certificateOptions()}); err != nil {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		in := &awsacm.RemoveTagsFromCertificateInput{CertificateArn: &r.id}
		for _, k := range gone {
			in.Tags = append(in.Tags, acmtypes.Tag{Key: &k})
		}
		if _, err := call[awsacm.RemoveTagsFromCertificateOutput](r, in); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awsacm.AddTagsToCertificateOutput](r, &awsacm.AddTagsToCertificateInput{CertificateArn: &r.id, Tags: acmTags(set)})
	return err
}

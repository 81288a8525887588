package cloudformation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// A bucketSetting is a property of a bucket that separate calls set and remove.
type bucketSetting struct {
	property string
	put      func(r *request) error
	// remove restores the default.
	remove func(r *request) error
}

// bucketSettings are in the order in which the calls are made: a policy of another resource
// can be public only after the public access block has been changed.
var bucketSettings = []bucketSetting{
	{"VersioningConfiguration", func(r *request) error {
		in := &awss3.PutBucketVersioningInput{Bucket: &r.id, VersioningConfiguration: &s3types.VersioningConfiguration{}}
		return putSetting[awss3.PutBucketVersioningOutput](r, in, in.VersioningConfiguration, "VersioningConfiguration", r.mapOf("VersioningConfiguration"))
	}, func(r *request) error {
		// Once enabled, versioning can only be suspended.
		_, err := call[awss3.PutBucketVersioningOutput](r, &awss3.PutBucketVersioningInput{
			Bucket: &r.id, VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusSuspended},
		})
		return err
	}},
	{"BucketEncryption", func(r *request) error {
		in := &awss3.PutBucketEncryptionInput{Bucket: &r.id, ServerSideEncryptionConfiguration: &s3types.ServerSideEncryptionConfiguration{}}
		m := &template.Map{}
		m.Set("Rules", renameEach(r.mapOf("BucketEncryption").Get("ServerSideEncryptionConfiguration"), "ServerSideEncryptionByDefault", "ApplyServerSideEncryptionByDefault"))
		return putSetting[awss3.PutBucketEncryptionOutput](r, in, in.ServerSideEncryptionConfiguration, "BucketEncryption", m)
	}, one[awss3.DeleteBucketEncryptionOutput](func(r *request) any { return &awss3.DeleteBucketEncryptionInput{Bucket: &r.id} })},
	{"PublicAccessBlockConfiguration", func(r *request) error {
		in := &awss3.PutPublicAccessBlockInput{Bucket: &r.id, PublicAccessBlockConfiguration: &s3types.PublicAccessBlockConfiguration{}}
		return putSetting[awss3.PutPublicAccessBlockOutput](r, in, in.PublicAccessBlockConfiguration, "PublicAccessBlockConfiguration", r.mapOf("PublicAccessBlockConfiguration"))
	}, one[awss3.DeletePublicAccessBlockOutput](func(r *request) any { return &awss3.DeletePublicAccessBlockInput{Bucket: &r.id} })},
	{"OwnershipControls", func(r *request) error {
		in := &awss3.PutBucketOwnershipControlsInput{Bucket: &r.id, OwnershipControls: &s3types.OwnershipControls{}}
		return putSetting[awss3.PutBucketOwnershipControlsOutput](r, in, in.OwnershipControls, "OwnershipControls", r.mapOf("OwnershipControls"))
	}, one[awss3.DeleteBucketOwnershipControlsOutput](func(r *request) any { return &awss3.DeleteBucketOwnershipControlsInput{Bucket: &r.id} })},
	{"LifecycleConfiguration", putLifecycle,
		one[awss3.DeleteBucketLifecycleOutput](func(r *request) any { return &awss3.DeleteBucketLifecycleInput{Bucket: &r.id} })},
	{"CorsConfiguration", func(r *request) error {
		in := &awss3.PutBucketCorsInput{Bucket: &r.id, CORSConfiguration: &s3types.CORSConfiguration{}}
		m := &template.Map{}
		m.Set("CORSRules", renameEach(r.mapOf("CorsConfiguration").Get("CorsRules"), "ExposedHeaders", "ExposeHeaders", "MaxAge", "MaxAgeSeconds"))
		return putSetting[awss3.PutBucketCorsOutput](r, in, in.CORSConfiguration, "CorsConfiguration", m)
	}, one[awss3.DeleteBucketCorsOutput](func(r *request) any { return &awss3.DeleteBucketCorsInput{Bucket: &r.id} })},
	{"WebsiteConfiguration", func(r *request) error {
		in := &awss3.PutBucketWebsiteInput{Bucket: &r.id, WebsiteConfiguration: &s3types.WebsiteConfiguration{}}
		m := rename(r.mapOf("WebsiteConfiguration"))
		for property, member := range map[string]string{"IndexDocument": "Suffix", "ErrorDocument": "Key"} {
			if m.Has(property) {
				document := &template.Map{}
				document.Set(member, m.Get(property))
				m.Set(property, document)
			}
		}
		if m.Has("RoutingRules") {
			m.Set("RoutingRules", renameEach(m.Get("RoutingRules"), "RedirectRule", "Redirect", "RoutingRuleCondition", "Condition"))
		}
		return putSetting[awss3.PutBucketWebsiteOutput](r, in, in.WebsiteConfiguration, "WebsiteConfiguration", m)
	}, one[awss3.DeleteBucketWebsiteOutput](func(r *request) any { return &awss3.DeleteBucketWebsiteInput{Bucket: &r.id} })},
	{"LoggingConfiguration", func(r *request) error {
		to := &s3types.LoggingEnabled{TargetBucket: &r.id, TargetPrefix: aws.String("")}
		in := &awss3.PutBucketLoggingInput{Bucket: &r.id, BucketLoggingStatus: &s3types.BucketLoggingStatus{LoggingEnabled: to}}
		return putSetting[awss3.PutBucketLoggingOutput](r, in, to, "LoggingConfiguration", rename(r.mapOf("LoggingConfiguration"), "DestinationBucketName", "TargetBucket", "LogFilePrefix", "TargetPrefix"))
	}, one[awss3.PutBucketLoggingOutput](func(r *request) any {
		return &awss3.PutBucketLoggingInput{Bucket: &r.id, BucketLoggingStatus: &s3types.BucketLoggingStatus{}}
	})},
	{"AccelerateConfiguration", func(r *request) error {
		in := &awss3.PutBucketAccelerateConfigurationInput{Bucket: &r.id, AccelerateConfiguration: &s3types.AccelerateConfiguration{}}
		return putSetting[awss3.PutBucketAccelerateConfigurationOutput](r, in, in.AccelerateConfiguration, "AccelerateConfiguration", rename(r.mapOf("AccelerateConfiguration"), "AccelerationStatus", "Status"))
	}, one[awss3.PutBucketAccelerateConfigurationOutput](func(r *request) any {
		return &awss3.PutBucketAccelerateConfigurationInput{Bucket: &r.id, AccelerateConfiguration: &s3types.AccelerateConfiguration{Status: s3types.BucketAccelerateStatusSuspended}}
	})},
}

// putSetting fills in a part of an input from a map, and makes the call.
func putSetting[Out any](r *request, in, part any, property string, m *template.Map) error {
	if err := r.fillWith(part, m, nil, property+"."); err != nil {
		return err
	}
	_, err := call[Out](r, in)
	return err
}

func s3Handlers() map[string]handler {
	own := "AccessControl BucketName ObjectLockEnabled Tags"
	inPlace := "AccessControl ObjectLockEnabled Tags"
	for _, s := range bucketSettings {
		own, inPlace = own+" "+s.property, inPlace+" "+s.property
	}
	return map[string]handler{
		"AWS::S3::Bucket": {
			input: &awss3.CreateBucketInput{}, own: own, inPlace: inPlace, adopts: true,
			find: func(r *request) (string, error) {
				out, err := call[awss3.ListBucketsOutput](r, &awss3.ListBucketsInput{Prefix: aws.String(r.bucketName())})
				if err != nil || !slices.ContainsFunc(out.Buckets, func(b s3types.Bucket) bool { return aws.ToString(b.Name) == r.bucketName() }) {
					return "", err
				}
				return r.bucketName(), nil
			},
			create: func(r *request) (string, error) {
				in := &awss3.CreateBucketInput{Bucket: aws.String(r.bucketName()), ACL: s3types.BucketCannedACL(r.cannedACL())}
				if err := r.fill(in, own); err != nil {
					return "", err
				}
				if r.text("ObjectLockEnabled") == "true" {
					return "", r.notHonoured("ObjectLockEnabled")
				}
				if region := r.o.key.Region; region != "us-east-1" {
					in.CreateBucketConfiguration = &s3types.CreateBucketConfiguration{LocationConstraint: s3types.BucketLocationConstraint(region)}
				}
				_, err := call[awss3.CreateBucketOutput](r, in)
				return *in.Bucket, err
			},
			settle: settleBucket,
			update: func(r *request) error {
				if r.text("ObjectLockEnabled") == "true" {
					return r.notHonoured("ObjectLockEnabled")
				}
				for _, s := range bucketSettings {
					if r.was.props.Has(s.property) && !r.props.Has(s.property) {
						if err := s.remove(r); err != nil {
							return err
						}
					}
				}
				if r.cannedACL() == r.was.cannedACL() {
					return nil
				}
				_, err := call[awss3.PutBucketAclOutput](r, &awss3.PutBucketAclInput{Bucket: &r.id, ACL: s3types.BucketCannedACL(r.cannedACL())})
				return err
			},
			read: func(r *request) (map[string]any, error) {
				region := r.o.key.Region
				return map[string]any{
					"BucketName": r.id, "Arn": arn.New("s3", "", "", r.id), "DomainName": r.id + ".s3.amazonaws.com", "RegionalDomainName": fmt.Sprintf("%s.s3.%s.amazonaws.com", r.id, region),
					"DualStackDomainName": fmt.Sprintf("%s.s3.dualstack.%s.amazonaws.com", r.id, region), "WebsiteURL": "http://" + r.id + ".s3-website" + websiteSeparator(region) + region + ".amazonaws.com",
				}, nil
			},
			remove: one[awss3.DeleteBucketOutput](func(r *request) any { return &awss3.DeleteBucketInput{Bucket: &r.id} }),
		},
		"AWS::S3::BucketPolicy": {
			input: &awss3.PutBucketPolicyInput{}, own: "PolicyDocument", inPlace: "PolicyDocument", adopts: true,
			find: func(r *request) (string, error) {
				bucket := r.text("Bucket")
				_, err := call[awss3.GetBucketPolicyOutput](r, &awss3.GetBucketPolicyInput{Bucket: &bucket})
				return bucket, err
			},
			create: putBucketPolicy,
			update: func(r *request) error { _, err := putBucketPolicy(r); return err },
			remove: func(r *request) error {
				_, err := call[awss3.DeleteBucketPolicyOutput](r, &awss3.DeleteBucketPolicyInput{Bucket: &r.id})
				return unlessGone(err)
			},
		},
	}
}

func putBucketPolicy(r *request) (string, error) {
	bucket := r.text("Bucket")
	_, err := call[awss3.PutBucketPolicyOutput](r, &awss3.PutBucketPolicyInput{Bucket: &bucket, Policy: aws.String(r.document("PolicyDocument"))})
	return bucket, err
}

// bucketName returns the given name, or a generated one in lower case.
func (r *request) bucketName() string {
	if name := r.text("BucketName"); name != "" {
		return name
	}
	return strings.ToLower(r.name("BucketName", 63))
}

// cannedACL returns the ACL by its name in S3, such as log-delivery-write for LogDeliveryWrite.
func (r *request) cannedACL() string {
	if !r.props.Has("AccessControl") {
		return string(s3types.BucketCannedACLPrivate)
	}
	var out strings.Builder
	for i, c := range r.text("AccessControl") {
		if i > 0 && c >= 'A' && c <= 'Z' {
			out.WriteByte('-')
		}
		out.WriteRune(c)
	}
	return strings.ToLower(out.String())
}

// settleBucket applies the settings of a new bucket, or those that an update changes.
func settleBucket(r *request) error {
	for _, s := range bucketSettings {
		if r.props.Has(s.property) && (r.was == nil || r.changed(s.property)) {
			if err := s.put(r); err != nil {
				return err
			}
		}
	}
	tags := r.tags()
	switch {
	case r.was == nil && len(tags) == 0, r.was != nil && slices.Equal(tags, r.was.unrevealed().tags()):
		return nil
	case len(tags) == 0:
		_, err := call[awss3.DeleteBucketTaggingOutput](r, &awss3.DeleteBucketTaggingInput{Bucket: &r.id})
		return err
	}
	in := &awss3.PutBucketTaggingInput{Bucket: &r.id, Tagging: &s3types.Tagging{}}
	for _, t := range tags {
		in.Tagging.TagSet = append(in.Tagging.TagSet, s3types.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err := call[awss3.PutBucketTaggingOutput](r, in)
	return err
}

// putLifecycle sets the lifecycle rules, which have a different form in templates than in S3's API.
func putLifecycle(r *request) error {
	in := &awss3.PutBucketLifecycleConfigurationInput{Bucket: &r.id, LifecycleConfiguration: &s3types.BucketLifecycleConfiguration{}}
	configuration := r.mapOf("LifecycleConfiguration")
	in.TransitionDefaultMinimumObjectSize = s3types.TransitionDefaultMinimumObjectSize(text(configuration, "TransitionDefaultMinimumObjectSize"))
	rules, _ := configuration.Get("Rules").([]any)
	for _, e := range rules {
		m, ok := e.(*template.Map)
		if !ok {
			return r.wrongType("LifecycleConfiguration.Rules", "List of Map")
		}
		rule, err := r.lifecycleRule(m)
		if err != nil {
			return err
		}
		in.LifecycleConfiguration.Rules = append(in.LifecycleConfiguration.Rules, rule)
	}
	_, err := call[awss3.PutBucketLifecycleConfigurationOutput](r, in)
	return err
}

func (r *request) lifecycleRule(m *template.Map) (s3types.LifecycleRule, error) {
	const path = "LifecycleConfiguration.Rules."
	rule := s3types.LifecycleRule{}
	err := r.fillWith(&rule, m, strings.Fields("ExpirationDate ExpirationInDays ExpiredObjectDeleteMarker NoncurrentVersionExpirationInDays NoncurrentVersionTransition NoncurrentVersionTransitions "+
		"ObjectSizeGreaterThan ObjectSizeLessThan Prefix TagFilters Transition Transitions"), path)
	if err != nil {
		return rule, err
	}
	if expiry := only(m, "ExpirationInDays", "Days", "ExpiredObjectDeleteMarker", "ExpiredObjectDeleteMarker"); len(expiry.Keys()) > 0 || m.Has("ExpirationDate") {
		rule.Expiration = &s3types.LifecycleExpiration{}
		if err := r.fillWith(rule.Expiration, expiry, nil, path); err != nil {
			return rule, err
		}
		if rule.Expiration.Date, err = r.date(m, "ExpirationDate"); err != nil {
			return rule, err
		}
	}
	if m.Has("NoncurrentVersionExpirationInDays") {
		rule.NoncurrentVersionExpiration = &s3types.NoncurrentVersionExpiration{}
		if err := r.fillWith(rule.NoncurrentVersionExpiration, only(m, "NoncurrentVersionExpirationInDays", "NoncurrentDays"), nil, path); err != nil {
			return rule, err
		}
	}
	for _, t := range listed(m, "Transitions", "Transition") {
		transition := s3types.Transition{}
		if err := r.fillWith(&transition, rename(t, "TransitionInDays", "Days"), []string{"TransitionDate"}, path+"Transitions."); err != nil {
			return rule, err
		}
		if transition.Date, err = r.date(t, "TransitionDate"); err != nil {
			return rule, err
		}
		transition.StorageClass = s3types.TransitionStorageClass(strings.ToUpper(string(transition.StorageClass)))
		rule.Transitions = append(rule.Transitions, transition)
	}
	for _, t := range listed(m, "NoncurrentVersionTransitions", "NoncurrentVersionTransition") {
		transition := s3types.NoncurrentVersionTransition{}
		if err := r.fillWith(&transition, rename(t, "TransitionInDays", "NoncurrentDays"), nil, path+"NoncurrentVersionTransitions."); err != nil {
			return rule, err
		}
		transition.StorageClass = s3types.TransitionStorageClass(strings.ToUpper(string(transition.StorageClass)))
		rule.NoncurrentVersionTransitions = append(rule.NoncurrentVersionTransitions, transition)
	}
	rule.Filter, err = r.lifecycleFilter(m, path)
	return rule, err
}

// lifecycleFilter returns the filter of a rule. Several conditions need an And.
func (r *request) lifecycleFilter(m *template.Map, path string) (*s3types.LifecycleRuleFilter, error) {
	all := &s3types.LifecycleRuleAndOperator{}
	if err := r.fillWith(all, only(m, "ObjectSizeGreaterThan", "ObjectSizeGreaterThan", "ObjectSizeLessThan", "ObjectSizeLessThan", "Prefix", "Prefix", "TagFilters", "Tags"), nil, path); err != nil {
		return nil, err
	}
	given := len(all.Tags)
	for _, is := range []bool{all.ObjectSizeGreaterThan != nil, all.ObjectSizeLessThan != nil, all.Prefix != nil} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return &s3types.LifecycleRuleFilter{Prefix: aws.String("")}, nil
	case given > 1:
		return &s3types.LifecycleRuleFilter{And: all}, nil
	}
	one := &s3types.LifecycleRuleFilter{ObjectSizeGreaterThan: all.ObjectSizeGreaterThan, ObjectSizeLessThan: all.ObjectSizeLessThan, Prefix: all.Prefix}
	if len(all.Tags) == 1 {
		one.Tag = &all.Tags[0]
	}
	return one, nil
}

// date returns a member that is a date, or nil.
func (r *request) date(m *template.Map, member string) (*time.Time, error) {
	if !m.Has(member) {
		return nil, nil //nolint:nilnil // no date is given
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, text(m, member)); err == nil {
			return &at, nil
		}
	}
	return nil, r.wrongType(member, "Timestamp")
}

// websiteSeparator returns what precedes the region in the names of website endpoints.
// https://docs.aws.amazon.com/general/latest/gr/s3.html#s3_website_region_endpoints
func websiteSeparator(region string) string {
	if slices.Contains([]string{"us-east-1", "us-west-1", "us-west-2", "ap-southeast-1", "ap-southeast-2", "ap-northeast-1", "eu-west-1", "sa-east-1"}, region) {
		return "-"
	}
	return "."
}

// mapOf returns a property that is a map, or an empty map.
func (r *request) mapOf(property string) *template.Map {
	if m, ok := r.props.Get(property).(*template.Map); ok {
		return m
	}
	return &template.Map{}
}

func text(m *template.Map, member string) string {
	s, _ := template.Text(m.Get(member))
	return s
}

// only returns some members of a map. names has pairs of a name and the new name.
func only(m *template.Map, names ...string) *template.Map {
	out := &template.Map{}
	for i := 0; i+1 < len(names); i += 2 {
		if m.Has(names[i]) {
			out.Set(names[i+1], m.Get(names[i]))
		}
	}
	return out
}

// listed returns the maps in the member list, and after them the one in the member single.
func listed(m *template.Map, list, single string) (out []*template.Map) {
	all, _ := m.Get(list).([]any)
	for _, e := range append(slices.Clone(all), m.Get(single)) {
		if one, ok := e.(*template.Map); ok {
			out = append(out, one)
		}
	}
	return out
}

// renameEach renames members of every map in a list.
func renameEach(list any, names ...string) any {
	all, ok := list.([]any)
	if !ok {
		return list
	}
	out := make([]any, len(all))
	for i, e := range all {
		if m, ok := e.(*template.Map); ok {
			e = rename(m, names...)
		}
		out[i] = e
	}
	return out
}

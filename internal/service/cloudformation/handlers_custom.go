package cloudformation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// For a custom resource, AWS sends a request to the Lambda function or the SNS topic that its
// ServiceToken names. Drydock does not, but it does the work of some functions of the AWS CDK
// itself, with the same calls. It makes them as the stack's caller or role, not as the
// function's role. A function that only serves such resources exists as a record of the stack.

const (
	customResource = "AWS::CloudFormation::CustomResource"
	customPrefix   = "Custom::"
	lambdaFunction = "AWS::Lambda::Function"
	// anyProperty is the inPlace of handlers that accept changes of all properties.
	anyProperty = "*"
)

// A standIn does what the provider of a custom resource does on AWS.
// [seen] aws/aws-cdk, packages/@aws-cdk/custom-resource-handlers/lib
type standIn struct {
	does string // for the documentation
	handler
}

var standIns = map[string]standIn{
	"Custom::VpcRestrictDefaultSG": {"removes the rules of a VPC's default security group; deleting it adds them again", handler{
		create: func(r *request) (string, error) { return r.token, r.restrict(r.text("DefaultSecurityGroupId"), true) },
		update: func(r *request) error {
			if !r.changed("DefaultSecurityGroupId") {
				return nil
			}
			if err := r.restrict(r.was.text("DefaultSecurityGroupId"), false); err != nil && !notFound(err) {
				return err
			}
			return r.restrict(r.text("DefaultSecurityGroupId"), true)
		},
		remove: func(r *request) error { return r.restrict(r.text("DefaultSecurityGroupId"), false) },
	}},
	"Custom::AWSCDKCfnJson": {"parses a JSON text", handler{
		create: own,
		read: func(r *request) (map[string]any, error) {
			v, err := template.ReadJSON(r.unrevealed().text("Value"))
			return map[string]any{"Value": v}, err
		},
	}},
	"Custom::AWSCDKCfnJsonStringify": {"writes a value as JSON", handler{
		create: own,
		read: func(r *request) (map[string]any, error) {
			return map[string]any{"Value": template.JSON(asStrings(r.unrevealed().props.Get("Value")))}, nil
		},
	}},
	"Custom::S3AutoDeleteObjects": {"empties a bucket with the tag aws-cdk:auto-delete-objects before its deletion", handler{
		create: own, createOnly: "BucketName",
		remove: func(r *request) error { return r.emptyBucket(r.text("BucketName")) },
	}},
	"Custom::AWSCDKOpenIdConnectProvider": {"creates an OpenID Connect provider", handler{
		createOnly: "Url",
		find:       func(r *request) (string, error) { return findOIDCProvider(r.asProvider()) },
		create:     func(r *request) (string, error) { return createOIDCProvider(r.asProvider()) },
		update:     func(r *request) error { return updateOIDCProvider(r.asProvider()) },
		read: func(r *request) (map[string]any, error) {
			out, err := call[awsiam.GetOpenIDConnectProviderOutput](r, &awsiam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.id})
			if err != nil {
				return nil, err
			}
			list := make([]any, 0, len(out.ThumbprintList))
			for _, t := range out.ThumbprintList {
				list = append(list, t)
			}
			return map[string]any{"Thumbprints": template.JSON(list)}, nil
		},
		remove: deleteOIDCProvider,
	}},
}

// own creates a resource that exists only as a record.
func own(r *request) (string, error) { return r.token, nil }

func customHandlers() map[string]handler {
	out := map[string]handler{
		customResource: {create: func(r *request) (string, error) {
			if err := r.checkServiceToken(); err != nil {
				return "", err
			}
			return "", fmt.Errorf("%s needs the provider %s, but Drydock does not send requests of custom resources to AWS Lambda or Amazon SNS. docs/cloudformation.md lists the custom resources that it handles.", r.typ, r.text("ServiceToken")) //nolint:staticcheck // an event's text
		}},
		lambdaFunction: {
			inPlace: anyProperty, createOnly: "FunctionName",
			create: func(r *request) (string, error) { return r.name("FunctionName", 64), nil },
			read: func(r *request) (map[string]any, error) {
				return map[string]any{"Arn": arn.New("lambda", r.o.key.Region, r.o.key.Account, "function:"+r.id)}, nil
			},
		},
	}
	for typ, s := range standIns {
		h := s.handler
		h.inPlace = anyProperty
		h.create = func(r *request) (string, error) {
			if err := r.checkServiceToken(); err != nil {
				return "", err
			}
			return s.create(r)
		}
		h.update = func(r *request) error {
			switch {
			case r.changed("ServiceToken"):
				return errors.New("Modifying service token is not allowed.") //nolint:staticcheck // AWS's words
			case s.update != nil:
				return s.update(r)
			}
			return nil
		}
		out[typ] = h
	}
	return out
}

// handlerOf returns the handler of a resource type.
func handlerOf(typ string) (handler, bool) {
	h, ok := handlers[typ]
	if !ok && strings.HasPrefix(typ, customPrefix) {
		h, ok = handlers[customResource]
	}
	return h, ok
}

// A CustomResource is a custom resource that needs no provider.
type CustomResource struct{ Type, Does string }

// CustomResources returns the custom resources that need no provider.
func CustomResources() (out []CustomResource) {
	for _, typ := range slices.Sorted(maps.Keys(standIns)) {
		out = append(out, CustomResource{typ, standIns[typ].does})
	}
	return out
}

// providers returns the Lambda functions of a template that only serve custom resources that
// need no provider.
func providers(t *template.Template) map[string]bool {
	serves, others := map[string]bool{}, map[string]bool{}
	for _, d := range t.Declared() {
		_, custom := standIns[d.Type]
		for _, property := range d.Properties.Keys() {
			for _, ref := range template.References(d.Properties.Get(property)) {
				if custom && property == "ServiceToken" {
					serves[ref.Name] = true
				} else {
					others[ref.Name] = true
				}
			}
		}
	}
	maps.DeleteFunc(serves, func(id string, _ bool) bool { return others[id] })
	return serves
}

// checkServiceToken checks that the provider is a Lambda function or an SNS topic of the region.
func (r *request) checkServiceToken() error {
	if !r.props.Has("ServiceToken") {
		return &invalidProperties{fmt.Sprintf("Properties validation failed for resource %s with message: [#: required key [ServiceToken] not found]", r.logical)}
	}
	token, err := arn.Parse(r.text("ServiceToken"))
	if err != nil || token.Service != "lambda" && token.Service != "sns" || token.Region != r.o.key.Region {
		return errors.New("Invalid service token.") //nolint:staticcheck // AWS's words
	}
	return nil
}

// restrict removes the rules that EC2 gives to default security groups, or adds them again.
func (r *request) restrict(group string, remove bool) error {
	within := []ec2types.IpPermission{{IpProtocol: aws.String("-1"), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &group, UserId: &r.o.key.Account}}}}
	everywhere := []ec2types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}
	var steps []error
	if remove {
		_, out := call[awsec2.RevokeSecurityGroupEgressOutput](r, &awsec2.RevokeSecurityGroupEgressInput{GroupId: &group, IpPermissions: everywhere})
		_, in := call[awsec2.RevokeSecurityGroupIngressOutput](r, &awsec2.RevokeSecurityGroupIngressInput{GroupId: &group, IpPermissions: within})
		steps = []error{out, in}
	} else {
		_, in := call[awsec2.AuthorizeSecurityGroupIngressOutput](r, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: within})
		_, out := call[awsec2.AuthorizeSecurityGroupEgressOutput](r, &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: &group, IpPermissions: everywhere})
		steps = []error{in, out}
	}
	for _, err := range steps {
		if code := codeOf(err); err != nil && code != "InvalidPermission.NotFound" && code != "InvalidPermission.Duplicate" {
			return err
		}
	}
	return nil
}

// emptyBucket deletes all objects of a bucket, if the bucket has the CDK's tag. The CDK removes
// the tag when an app turns the option off.
func (r *request) emptyBucket(bucket string) error {
	tags, err := call[awss3.GetBucketTaggingOutput](r, &awss3.GetBucketTaggingInput{Bucket: &bucket})
	if codeOf(err) == "NoSuchBucket" || codeOf(err) == "NoSuchTagSet" {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(tags.TagSet, func(t s3types.Tag) bool {
		return aws.ToString(t.Key) == "aws-cdk:auto-delete-objects" && aws.ToString(t.Value) == "true"
	}) {
		return nil
	}
	for {
		list, err := call[awss3.ListObjectVersionsOutput](r, &awss3.ListObjectVersionsInput{Bucket: &bucket})
		if err != nil {
			return err
		}
		var objects []s3types.ObjectIdentifier
		for _, v := range list.Versions {
			objects = append(objects, s3types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range list.DeleteMarkers {
			objects = append(objects, s3types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		if len(objects) == 0 {
			return nil
		}
		out, err := call[awss3.DeleteObjectsOutput](r, &awss3.DeleteObjectsInput{Bucket: &bucket, Delete: &s3types.Delete{Objects: objects, Quiet: aws.Bool(true)}})
		if err != nil {
			return err
		}
		if len(out.Errors) > 0 {
			return fmt.Errorf("deleting %s of bucket %s: %s", aws.ToString(out.Errors[0].Key), bucket, aws.ToString(out.Errors[0].Message))
		}
	}
}

// asProvider returns the request with the properties of an AWS::IAM::OIDCProvider.
func (r *request) asProvider() *request {
	out := *r
	out.props = &template.Map{}
	for from, to := range map[string]string{"Url": "Url", "ClientIDList": "ClientIdList", "ThumbprintList": "ThumbprintList"} {
		if r.props.Has(from) {
			out.props.Set(to, r.props.Get(from))
		}
	}
	if r.was != nil {
		out.was = r.was.asProvider()
	}
	return &out
}

// asStrings converts numbers and booleans to strings, as AWS does in the properties of custom
// resources.
func asStrings(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = asStrings(e)
		}
		return out
	case *template.Map:
		out := &template.Map{}
		for _, k := range v.Keys() {
			out.Set(k, asStrings(v.Get(k)))
		}
		return out
	}
	text, _ := template.Text(v)
	return text
}

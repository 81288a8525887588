package cloudformation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// maxObject is the maximum size of a template in S3.
	maxObject = 1_000_000
	// maxPolicy is the maximum size of a stack policy in S3.
	// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
	maxPolicy = 16 << 10
)

// s3Host matches the host names of S3's endpoints. The group is the bucket, if the name begins with one.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
var s3Host = regexp.MustCompile(`^(?:(.+)\.)?s3(?:\.dualstack)?(?:[.-][a-z]{2}-[a-z-]+-[0-9])?\.amazonaws\.com$`)

// An s3Object is the object in S3 that a URL names.
type s3Object struct{ bucket, key, version string }

// objectAt returns the object that the URL in a member of a request names. The URL must be below an S3 endpoint or
// below the address that the request was sent to, because the AWS CLI uploads templates there.
//
// [seen] localstack/localstack, tests/aws/services/cloudformation/api/test_templates.snapshot.json
func objectAt(ctx context.Context, member, text string) (s3Object, error) {
	u, err := url.Parse(text)
	unsupported := invalid("%s must be a supported URL.", member)
	if err != nil {
		return s3Object{}, unsupported
	}
	bucket, path := "", u.EscapedPath()
	switch m := s3Host.FindStringSubmatch(strings.ToLower(u.Hostname())); {
	case u.Scheme == "s3":
		return s3Object{}, invalid("S3 error: Domain name specified in %s is not a valid S3 domain", u.Host)
	case u.Scheme != "https" && u.Scheme != "http":
		return s3Object{}, unsupported
	case m != nil:
		bucket = m[1]
	case u.Host == "" || u.Host != requestHost(ctx):
		return s3Object{}, unsupported
	}
	path = strings.TrimPrefix(path, "/")
	if bucket == "" {
		bucket, path, _ = strings.Cut(path, "/")
	}
	key, err := url.PathUnescape(path)
	if err != nil || bucket == "" || key == "" {
		// [seen] cucumber features of aws/aws-sdk-ruby and others
		return s3Object{}, invalid("%s must reference a valid S3 object to which you have access.", member)
	}
	return s3Object{bucket, key, u.Query().Get("versionId")}, nil
}

// requestHost returns the host that the request was sent to: for a nested stack, the request of its parent.
func requestHost(ctx context.Context) string {
	if n := nestingFrom(ctx); n != nil {
		return n.parent.Operation.Host
	}
	return awsapi.CallFrom(ctx).Host
}

// object reads an object of at most limit bytes as the caller. tooLarge is true if the object is larger.
func (s *Service) object(ctx context.Context, at s3Object, limit int64) (text string, tooLarge bool, err error) {
	out, err := awsapi.Do[awss3.GetObjectOutput](ctx, s.cfg.API, &awss3.GetObjectInput{Bucket: &at.bucket, Key: &at.key, VersionId: nonEmpty(at.version)})
	if err != nil {
		return "", false, err
	}
	defer func() { _ = out.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(out.Body, limit+1))
	return string(raw), int64(len(raw)) > limit, err
}

// fetch returns the text at the URL in a member of a request.
func (s *Service) fetch(ctx context.Context, member, where string, limit int64, tooLong string) (*string, error) {
	at, err := objectAt(ctx, member, where)
	if err != nil {
		return nil, err
	}
	text, tooLarge, err := s.object(ctx, at, limit)
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused):
		message := refused.ErrorMessage()
		if refused.ErrorCode() == "AccessDenied" {
			message = "Access Denied"
		}
		// [seen] https://github.com/aws-quickstart/quickstart-git2s3/issues/78 and others
		return nil, invalid("S3 error: %s\nFor more information check http://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html", message)
	case err != nil:
		return nil, err
	case tooLarge:
		return nil, invalid("%s", tooLong)
	}
	return &text, nil
}

// source returns the text of the template in a request, which is in the request or in S3, or nil if it has none.
func (s *Service) source(ctx context.Context, body, where *string) (*string, error) {
	switch {
	case body != nil && where != nil:
		return nil, invalid("You cannot specify both Template URL and Template Body") // from memory
	case where != nil:
		return s.fetch(ctx, "TemplateURL", *where, maxObject, fmt.Sprintf("Template may not exceed %d bytes in size.", maxObject))
	}
	return body, nil
}

// policySource returns the stack policy in a request, which is in the request or in S3, or "" if it has none.
func (s *Service) policySource(ctx context.Context, body, where *string, member string) (string, error) {
	switch {
	case body != nil && where != nil:
		return "", invalid("You can specify either the %sBody or the %[1]sURL parameter, but not both.", member) // the API reference says so
	case where != nil:
		var err error
		if body, err = s.fetch(ctx, member+"URL", *where, maxPolicy, fmt.Sprintf("Stack policy may not exceed %d bytes in size.", maxPolicy)); err != nil {
			return "", err
		}
	}
	return policyText(body)
}

// setTemplate sets the template of a version, and the result of its transforms.
func (v *versionRecord) setTemplate(original, processed string) {
	v.Template, v.Processed, v.Texts = original, processed, ""
}

// keepTexts moves long templates of a version to a separate record. It deletes such records that no version of the stack
// uses any more.
func keepTexts(tx *store.Tx, stack store.Key, v *versionRecord) error {
	if len(v.Template)+len(v.Processed) > maxBody {
		v.Texts = ids.UUID()
		if err := texts.Put(tx, below(stack, v.Texts), textRecord{v.Template, v.Processed}); err != nil {
			return err
		}
		v.Template, v.Processed = "", ""
	}
	used := []string{v.Texts}
	if rec, err := stacks.Get(tx, stack); err == nil {
		used = append(used, rec.Texts)
		if rec.Previous != nil {
			used = append(used, rec.Previous.Texts)
		}
	}
	for _, set := range changeSets.All(tx, within(stack)) {
		used = append(used, set.Value.Texts)
	}
	for _, text := range texts.All(tx, within(stack)) {
		if !slices.ContainsFunc(used, func(id string) bool { return below(stack, id) == text.Key }) {
			texts.Delete(tx, text.Key)
		}
	}
	return nil
}

// templates returns the template that was submitted for a version of a stack, and the result of its transforms, if any.
func templates(r store.Reader, stack store.Key, v *versionRecord) textRecord {
	if v.Texts != "" {
		if text, err := texts.Get(r, below(stack, v.Texts)); err == nil {
			return text
		}
	}
	return textRecord{v.Template, v.Processed}
}

func original(r store.Reader, stack store.Key, v *versionRecord) string {
	return templates(r, stack, v).Template
}

func processed(r store.Reader, stack store.Key, v *versionRecord) string {
	text := templates(r, stack, v)
	return cmp.Or(text.Processed, text.Template)
}

var s3URI = regexp.MustCompile(`^s3://([^/]+)/(.+)$`)

// include inserts what a template includes from S3, and returns the resulting text.
func (s *Service) include(ctx context.Context, key store.Key, rec *stackRecord, t *template.Template) (string, error) {
	text, err := t.Include(environment(key, rec), rec.values(), func(location string) (string, error) {
		m := s3URI.FindStringSubmatch(location)
		if m == nil {
			// [seen] https://github.com/amazon-archives/realworld-serverless-application/issues/58
			return "", template.Error("The location parameter is not a valid S3 uri.")
		}
		text, tooLarge, err := s.object(ctx, s3Object{bucket: m[1], key: m[2]}, maxObject)
		var refused smithy.APIError
		switch {
		case errors.As(err, &refused) && refused.ErrorCode() == "NoSuchBucket":
			return "", template.Error("S3 bucket [" + m[1] + "] does not exist.") // [seen] reports of the error
		case errors.As(err, &refused):
			return "", template.Error(refused.ErrorMessage())
		case tooLarge:
			return "", template.Error(fmt.Sprintf("The specified S3 object may not exceed %d bytes in size.", maxObject)) // our own wording
		}
		return text, err
	})
	if err == nil && len(text) > maxObject {
		return "", invalid("Template may not exceed %d bytes in size.", maxObject)
	}
	return text, err
}

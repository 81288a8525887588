package s3_test

import (
	"maps"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// The Resource Groups Tagging API adds and removes individual tags, whereas S3 only replaces all of them.
func TestTagging(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	api, arn := w.s3.Module().Tagging, "arn:aws:s3:::"+*c.bucket
	testkit.Must(c.PutBucketTagging(t.Context(), api.Put(arn, map[string]string{"a": "1"}).(*awss3.PutBucketTaggingInput)))(t)
	testkit.Must(c.PutBucketTagging(t.Context(), api.Put(arn, map[string]string{"b": "2"}).(*awss3.PutBucketTaggingInput)))(t)
	if got := api.Resources(c.account, testkit.Region); len(got) != 1 || got[0].ARN != arn || !maps.Equal(got[0].Tags, map[string]string{"a": "1", "b": "2"}) {
		t.Errorf("resources %v", got)
	}
	testkit.Must(c.PutBucketTagging(t.Context(), api.Remove(arn, []string{"a"}).(*awss3.PutBucketTaggingInput)))(t)
	if got := api.Resources(c.account, testkit.Region); len(got) != 1 || !maps.Equal(got[0].Tags, map[string]string{"b": "2"}) {
		t.Errorf("after removing one: %v", got)
	}
	testkit.Must(c.DeleteBucketTagging(t.Context(), api.Remove(arn, []string{"b"}).(*awss3.DeleteBucketTaggingInput)))(t)
}

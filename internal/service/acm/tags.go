package acm

import (
	"context"
	"maps"

	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

func scopeAt(k store.Key) scope { return scope{regional.At(k.Account, k.Region)} }

func putTags(old map[string]string, more []acmtypes.Tag) (map[string]string, error) {
	rules := tagging.Rules{Most: 50, Reserved: errReservedTag, TooMany: errManyTags}
	return tagging.Put(rules, old, more, func(t acmtypes.Tag) (key, value *string) { return t.Key, t.Value })
}

func tagList(tags map[string]string) []acmtypes.Tag {
	return tagging.List(tags, func(k, v *string) acmtypes.Tag { return acmtypes.Tag{Key: k, Value: v} })
}

func keyList(keys []string) []acmtypes.Tag {
	var out []acmtypes.Tag
	for _, k := range keys {
		out = append(out, acmtypes.Tag{Key: &k})
	}
	return out
}

// AddTagsToCertificate sets tags.
func (s *Service) AddTagsToCertificate(ctx context.Context, in *awsacm.AddTagsToCertificateInput) (*awsacm.AddTagsToCertificateOutput, error) {
	return &awsacm.AddTagsToCertificateOutput{}, s.change(ctx, in.CertificateArn, func(c *certificateRecord) (err error) {
		c.Tags, err = putTags(c.Tags, in.Tags)
		return err
	})
}

// RemoveTagsFromCertificate removes tags. If a value is given, it must be the tag's.
func (s *Service) RemoveTagsFromCertificate(ctx context.Context, in *awsacm.RemoveTagsFromCertificateInput) (*awsacm.RemoveTagsFromCertificateOutput, error) {
	return &awsacm.RemoveTagsFromCertificateOutput{}, s.change(ctx, in.CertificateArn, func(c *certificateRecord) error {
		c.Tags = maps.Clone(c.Tags)
		for _, t := range in.Tags {
			if v, ok := c.Tags[*t.Key]; ok && (t.Value == nil || *t.Value == v) {
				delete(c.Tags, *t.Key)
			}
		}
		return nil
	})
}

// ListTagsForCertificate lists tags.
func (s *Service) ListTagsForCertificate(ctx context.Context, in *awsacm.ListTagsForCertificateInput) (*awsacm.ListTagsForCertificateOutput, error) {
	c, err := s.find(ctx, in.CertificateArn)
	return &awsacm.ListTagsForCertificateOutput{Tags: tagList(c.Tags)}, err
}

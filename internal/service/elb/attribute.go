package elb

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

func seconds(n *int64) string { return strconv.FormatInt(aws.ToInt64(n), 10) }

// defaultAttributes are the attributes of a new load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/API_LoadBalancerAttributes.html
func defaultAttributes() elbtypes.LoadBalancerAttributes {
	return elbtypes.LoadBalancerAttributes{
		AccessLog:              &elbtypes.AccessLog{},
		ConnectionDraining:     &elbtypes.ConnectionDraining{Timeout: aws.Int32(300)},
		ConnectionSettings:     &elbtypes.ConnectionSettings{IdleTimeout: aws.Int32(60)},
		CrossZoneLoadBalancing: &elbtypes.CrossZoneLoadBalancing{},
		AdditionalAttributes:   []elbtypes.AdditionalAttribute{{Key: aws.String(desyncMode), Value: aws.String("defensive")}},
	}
}

const desyncMode = "elb.http.desyncmitigationmode"

// DescribeLoadBalancerAttributes returns the attributes of a load balancer.
func (s *Service) DescribeLoadBalancerAttributes(ctx context.Context, in *awselb.DescribeLoadBalancerAttributesInput) (*awselb.DescribeLoadBalancerAttributesOutput, error) {
	r, err := loadBalancer(s.Store, scopeOf(ctx), in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	return &awselb.DescribeLoadBalancerAttributesOutput{LoadBalancerAttributes: &r.Attributes}, nil
}

// ModifyLoadBalancerAttributes changes the attributes in the request. Others keep their values.
func (s *Service) ModifyLoadBalancerAttributes(ctx context.Context, in *awselb.ModifyLoadBalancerAttributesInput) (*awselb.ModifyLoadBalancerAttributesOutput, error) {
	if in.LoadBalancerAttributes == nil {
		return nil, errAttribute("LoadBalancerAttributes must be specified")
	}
	a := *in.LoadBalancerAttributes
	r, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		if l := a.AccessLog; l != nil {
			if l.Enabled && text(l.S3BucketName) == "" {
				return errConfiguration("AccessLog S3BucketName must be specified when AccessLog is enabled") // from memory
			}
			if l.EmitInterval != nil && *l.EmitInterval != 5 && *l.EmitInterval != 60 {
				return errAttribute("AccessLog EmitInterval must be 5 or 60 minutes") // from memory
			}
			r.Attributes.AccessLog = l
		}
		if d := a.ConnectionDraining; d != nil {
			if d.Timeout != nil && (*d.Timeout < 1 || *d.Timeout > 3600) {
				return errAttribute("ConnectionDraining Timeout must be in the range 1 to 3600") // from memory
			}
			next := *d
			if next.Timeout == nil {
				next.Timeout = r.Attributes.ConnectionDraining.Timeout
			}
			r.Attributes.ConnectionDraining = &next
		}
		if c := a.ConnectionSettings; c != nil {
			if t := aws.ToInt32(c.IdleTimeout); t < 1 || t > 4000 {
				return errAttribute("ConnectionSettings IdleTimeout must be in the range 1 to 4000") // from memory
			}
			r.Attributes.ConnectionSettings = c
		}
		if a.CrossZoneLoadBalancing != nil {
			r.Attributes.CrossZoneLoadBalancing = a.CrossZoneLoadBalancing
		}
		for _, x := range a.AdditionalAttributes {
			if text(x.Key) != desyncMode || !slices.Contains([]string{"monitor", "defensive", "strictest"}, text(x.Value)) {
				return &elbtypes.LoadBalancerAttributeNotFoundException{Message: aws.String("The attribute " + text(x.Key) + " is not known, or does not have that value")} // from memory
			}
			r.Attributes.AdditionalAttributes = []elbtypes.AdditionalAttribute{x}
		}
		return nil
	})
	return &awselb.ModifyLoadBalancerAttributesOutput{LoadBalancerName: in.LoadBalancerName, LoadBalancerAttributes: &r.Attributes}, err
}

const maxTags = 50

var tagRules = tagging.Rules{Most: maxTags, Reserved: errTagKey, Twice: errTagTwice, TooMany: errTooManyTags}

// newTags validates the tags in a request.
func newTags(in []elbtypes.Tag) (map[string]string, error) {
	return tagging.Put(tagRules, map[string]string{}, in, func(t elbtypes.Tag) (key, value *string) { return t.Key, t.Value })
}

// retag changes the tags of load balancers.
func (s *Service) retag(ctx context.Context, names []string, fn func(map[string]string)) error {
	sc := scopeOf(ctx)
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		for _, name := range names {
			if _, err := loadBalancer(tx, sc, &name); err != nil {
				return err
			}
			err := loadBalancers.Update(tx, sc.Key(name), func(r *loadBalancerRecord) error {
				if r.Tags == nil {
					r.Tags = map[string]string{}
				}
				fn(r.Tags)
				if len(r.Tags) > maxTags {
					return errTooManyTags()
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// AddTags adds or replaces tags of load balancers.
func (s *Service) AddTags(ctx context.Context, in *awselb.AddTagsInput) (*awselb.AddTagsOutput, error) {
	more, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	return &awselb.AddTagsOutput{}, s.retag(ctx, in.LoadBalancerNames, func(t map[string]string) { maps.Copy(t, more) })
}

// RemoveTags removes tags from load balancers.
func (s *Service) RemoveTags(ctx context.Context, in *awselb.RemoveTagsInput) (*awselb.RemoveTagsOutput, error) {
	return &awselb.RemoveTagsOutput{}, s.retag(ctx, in.LoadBalancerNames, func(t map[string]string) {
		for _, k := range in.Tags {
			delete(t, text(k.Key))
		}
	})
}

// DescribeTags lists the tags of load balancers.
func (s *Service) DescribeTags(ctx context.Context, in *awselb.DescribeTagsInput) (*awselb.DescribeTagsOutput, error) {
	out := &awselb.DescribeTagsOutput{TagDescriptions: []elbtypes.TagDescription{}}
	for _, name := range in.LoadBalancerNames {
		r, err := loadBalancer(s.Store, scopeOf(ctx), &name)
		if err != nil {
			return nil, err
		}
		out.TagDescriptions = append(out.TagDescriptions, elbtypes.TagDescription{
			LoadBalancerName: &name, Tags: tagging.List(r.Tags, func(k, v *string) elbtypes.Tag { return elbtypes.Tag{Key: k, Value: v} }),
		})
	}
	return out, nil
}

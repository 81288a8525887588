package ec2

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// taggable is what the Resource Groups Tagging API knows of EC2.
func (s *Service) taggable() module.Tagging {
	id := func(name string) []string { return []string{name[strings.LastIndexByte(name, '/')+1:]} }
	return module.Tagging{
		Resources: func(account, region string) (out []module.Resource) {
			if region == "" {
				return nil
			}
			sc := resource.Scope{Account: account, Region: region}
			for _, kind := range taggables() {
				for _, r := range kind.List(s.Store, sc) {
					out = append(out, module.Resource{ARN: sc.ARN(string(kind.Kind), r.ID), Tags: r.Tags})
				}
			}
			return out
		},
		Put: func(name string, tags map[string]string) any {
			return &awsec2.CreateTagsInput{Resources: id(name), Tags: tag.Set(tags).SDK()}
		},
		Remove: func(name string, keys []string) any {
			in := &awsec2.DeleteTagsInput{Resources: id(name)}
			for _, k := range keys {
				in.Tags = append(in.Tags, ec2types.Tag{Key: aws.String(k)})
			}
			return in
		},
	}
}

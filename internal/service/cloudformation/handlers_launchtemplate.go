package cloudformation

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func launchTemplateHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::LaunchTemplate": {
			input: &awsec2.CreateLaunchTemplateInput{}, own: "LaunchTemplateName TagSpecifications",
			find:    byTags("launch-template"),
			inPlace: "LaunchTemplateData VersionDescription",
			update: func(r *request) error {
				in := &awsec2.CreateLaunchTemplateVersionInput{ClientToken: r.updateToken(), LaunchTemplateId: &r.id}
				_, err := create[awsec2.CreateLaunchTemplateVersionOutput](r, in, "LaunchTemplateName TagSpecifications")
				return err
			},
			create: func(r *request) (string, error) {
				in := &awsec2.CreateLaunchTemplateInput{ClientToken: &r.token, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{}, TagSpecifications: r.tagSpecs(ec2types.ResourceTypeLaunchTemplate)}
				if err := r.fill(in, "LaunchTemplateName TagSpecifications"); err != nil {
					return "", err
				}
				var given struct{ TagSpecifications []ec2types.TagSpecification }
				if v := r.props.Get("TagSpecifications"); v != nil {
					m := &template.Map{}
					m.Set("TagSpecifications", v)
					if err := r.fillWith(&given, m, nil, ""); err != nil {
						return "", err
					}
				}
				for _, spec := range given.TagSpecifications {
					for _, t := range spec.Tags {
						mine := &in.TagSpecifications[0].Tags
						*mine = append(slices.DeleteFunc(*mine, func(o ec2types.Tag) bool { return *o.Key == aws.ToString(t.Key) }), t)
					}
				}
				in.LaunchTemplateName = aws.String(r.name("LaunchTemplateName", 128))
				out, err := call[awsec2.CreateLaunchTemplateOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.LaunchTemplate.LaunchTemplateId, nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsec2.DescribeLaunchTemplatesOutput](r, &awsec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{r.id}})
				if err != nil || len(out.LaunchTemplates) == 0 {
					return nil, err
				}
				t := out.LaunchTemplates[0]
				return map[string]any{"LaunchTemplateId": r.id, "LaunchTemplateName": t.LaunchTemplateName, "LatestVersionNumber": fmt.Sprint(aws.ToInt64(t.LatestVersionNumber)), "DefaultVersionNumber": fmt.Sprint(aws.ToInt64(t.DefaultVersionNumber))}, nil
			},
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteLaunchTemplateOutput](r, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: &r.id})
				return err
			},
		},
	}
}

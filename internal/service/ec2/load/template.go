package load

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

func (l *loader) launchTemplates() {
	known := map[string]bool{}
	each(l, "DescribeLaunchTemplates", func(out *awsec2.DescribeLaunchTemplatesOutput) []ec2types.LaunchTemplate { return out.LaunchTemplates }, func(_ *awsec2.DescribeLaunchTemplatesInput, in *ec2types.LaunchTemplate) error {
		t := launchtemplate.Template{
			ID: aws.ToString(in.LaunchTemplateId), Name: aws.ToString(in.LaunchTemplateName), Default: aws.ToInt64(in.DefaultVersionNumber), Latest: aws.ToInt64(in.LatestVersionNumber),
			Created: aws.ToTime(in.CreateTime), CreatedBy: aws.ToString(in.CreatedBy), Tags: tagsOf(in.Tags),
		}
		if t.Name == "" {
			return fmt.Errorf("launch template %s has no name", t.ID)
		}
		known[t.ID] = true
		l.writes = append(l.writes, module.Put(launchtemplate.Names, l.sc.Key(t.Name), resource.Name{ID: t.ID}))
		return put(l, launchtemplate.Templates, t)
	})
	each(l, "DescribeLaunchTemplateVersions", func(out *awsec2.DescribeLaunchTemplateVersionsOutput) []ec2types.LaunchTemplateVersion {
		return out.LaunchTemplateVersions
	}, func(_ *awsec2.DescribeLaunchTemplateVersionsInput, in *ec2types.LaunchTemplateVersion) error {
		if !known[aws.ToString(in.LaunchTemplateId)] || in.VersionNumber == nil {
			return nil
		}
		data, err := launchtemplate.CompactJSON(in.LaunchTemplateData)
		if err != nil {
			return err
		}
		v := launchtemplate.Version{
			TemplateID: *in.LaunchTemplateId, Number: *in.VersionNumber, Description: aws.ToString(in.VersionDescription), Created: aws.ToTime(in.CreateTime), CreatedBy: aws.ToString(in.CreatedBy), Data: data,
		}
		l.writes = append(l.writes, module.Put(launchtemplate.Versions, v.Key(l.sc), v))
		return nil
	})
}

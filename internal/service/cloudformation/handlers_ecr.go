package cloudformation

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func ecrHandlers() map[string]handler {
	const own = "EmptyOnDelete ImageTagMutabilityExclusionFilters LifecyclePolicy RepositoryName RepositoryPolicyText Tags"
	return map[string]handler{
		"AWS::ECR::Repository": madeWith(handler{
			inPlace: "EmptyOnDelete ImageScanningConfiguration ImageTagMutability ImageTagMutabilityExclusionFilters LifecyclePolicy RepositoryPolicyText Tags",
			update:  updateRepository,
			find: func(r *request) (string, error) {
				_, err := r.repository(r.repositoryName())
				return r.repositoryName(), err
			},
			settle: settleRepository,
			read: func(r *request) (map[string]any, error) {
				repo, err := r.repository(r.id)
				return map[string]any{"RepositoryName": r.id, "Arn": repo.RepositoryArn, "RepositoryUri": repo.RepositoryUri}, err
			},
			remove: one[awsecr.DeleteRepositoryOutput](func(r *request) any {
				return &awsecr.DeleteRepositoryInput{RepositoryName: &r.id, Force: r.text("EmptyOnDelete") == "true"}
			}),
		}, own, func(r *request, in *awsecr.CreateRepositoryInput) error {
			in.RepositoryName, in.Tags = aws.String(r.repositoryName()), r.ecrTags(r.tags())
			var err error
			in.ImageTagMutabilityExclusionFilters, err = r.exclusions()
			return err
		}, func(_ *request, out *awsecr.CreateRepositoryOutput) *string { return out.Repository.RepositoryName }),
		"AWS::ECR::RegistryPolicy": {
			input: &awsecr.PutRegistryPolicyInput{}, own: "PolicyText", inPlace: "PolicyText", adopts: true,
			find: func(r *request) (string, error) {
				out, err := call[awsecr.GetRegistryPolicyOutput](r, &awsecr.GetRegistryPolicyInput{})
				if err != nil {
					return "", err
				}
				return aws.ToString(out.RegistryId), nil
			},
			create: putRegistryPolicy,
			update: func(r *request) error { _, err := putRegistryPolicy(r); return err },
			read:   idAs("RegistryId"),
			remove: one[awsecr.DeleteRegistryPolicyOutput](func(*request) any { return &awsecr.DeleteRegistryPolicyInput{} }),
		},
		"AWS::ECR::RegistryScanningConfiguration": again("Rules ScanType", made(handler{
			read: idAs("RegistryId"),
			remove: one[awsecr.PutRegistryScanningConfigurationOutput](func(*request) any {
				return &awsecr.PutRegistryScanningConfigurationInput{ScanType: ecrtypes.ScanTypeBasic, Rules: []ecrtypes.RegistryScanningRule{}}
			}),
		}, "", func(*request, *awsecr.PutRegistryScanningConfigurationInput) {}, func(r *request, _ *awsecr.PutRegistryScanningConfigurationOutput) *string {
			return &r.o.key.Account
		})),
		"AWS::ECR::PublicRepository": madeWith(handler{
			inPlace: "RepositoryCatalogData RepositoryPolicyText Tags", update: updatePublicRepository,
			find: func(r *request) (string, error) {
				_, err := r.publicRepository(r.repositoryName())
				return r.repositoryName(), err
			},
			settle: func(r *request) error {
				if !r.props.Has("RepositoryPolicyText") || r.was != nil && !r.changed("RepositoryPolicyText") {
					return nil
				}
				_, err := call[awsecrpublic.SetRepositoryPolicyOutput](r, &awsecrpublic.SetRepositoryPolicyInput{RepositoryName: &r.id, PolicyText: aws.String(r.document("RepositoryPolicyText"))})
				return err
			},
			read: func(r *request) (map[string]any, error) {
				repo, err := r.publicRepository(r.id)
				return map[string]any{"RepositoryName": r.id, "Arn": repo.RepositoryArn}, err
			},
			remove: one[awsecrpublic.DeleteRepositoryOutput](func(r *request) any { return &awsecrpublic.DeleteRepositoryInput{RepositoryName: &r.id} }),
		}, "RepositoryCatalogData RepositoryName RepositoryPolicyText Tags", func(r *request, in *awsecrpublic.CreateRepositoryInput) error {
			in.RepositoryName, in.Tags = aws.String(r.repositoryName()), publicTags(r.tags())
			var err error
			in.CatalogData, err = r.catalogData()
			return err
		}, func(_ *request, out *awsecrpublic.CreateRepositoryOutput) *string {
			return out.Repository.RepositoryName
		}),
		"AWS::ECR::PullThroughCacheRule": made(handler{
			find: func(r *request) (string, error) {
				prefix := r.text("EcrRepositoryPrefix")
				_, err := call[awsecr.DescribePullThroughCacheRulesOutput](r, &awsecr.DescribePullThroughCacheRulesInput{EcrRepositoryPrefixes: []string{prefix}})
				return prefix, err
			},
			remove: one[awsecr.DeletePullThroughCacheRuleOutput](func(r *request) any {
				return &awsecr.DeletePullThroughCacheRuleInput{EcrRepositoryPrefix: &r.id}
			}),
		}, "", func(*request, *awsecr.CreatePullThroughCacheRuleInput) {}, func(_ *request, out *awsecr.CreatePullThroughCacheRuleOutput) *string {
			return out.EcrRepositoryPrefix
		}),
	}
}

func putRegistryPolicy(r *request) (string, error) {
	out, err := call[awsecr.PutRegistryPolicyOutput](r, &awsecr.PutRegistryPolicyInput{PolicyText: aws.String(r.document("PolicyText"))})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.RegistryId), nil
}

// repositoryName returns the given name, or a generated one in lower case.
func (r *request) repositoryName() string {
	if name := r.text("RepositoryName"); name != "" {
		return name
	}
	return strings.ToLower(r.name("RepositoryName", 256))
}

func (r *request) repository(name string) (ecrtypes.Repository, error) {
	out, err := call[awsecr.DescribeRepositoriesOutput](r, &awsecr.DescribeRepositoriesInput{RepositoryNames: []string{name}})
	if err != nil {
		return ecrtypes.Repository{}, err
	}
	return first(out.Repositories)
}

func (r *request) ecrTags(tags []tagRecord) (out []ecrtypes.Tag) {
	for _, t := range tags {
		out = append(out, ecrtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// exclusions returns the filters of tags to which the tag mutability does not apply.
func (r *request) exclusions() (out []ecrtypes.ImageTagMutabilityExclusionFilter, err error) {
	err = each(r, "ImageTagMutabilityExclusionFilters", "ImageTagMutabilityExclusionFilterType ImageTagMutabilityExclusionFilterValue", func(f *ecrtypes.ImageTagMutabilityExclusionFilter, m *template.Map) error {
		f.FilterType, f.Filter = ecrtypes.ImageTagMutabilityExclusionFilterType(text(m, "ImageTagMutabilityExclusionFilterType")), aws.String(text(m, "ImageTagMutabilityExclusionFilterValue"))
		out = append(out, *f)
		return nil
	})
	return out, err
}

// settleRepository sets the policies of a new repository, or those that an update changes.
func settleRepository(r *request) error {
	if r.props.Has("RepositoryPolicyText") && (r.was == nil || r.changed("RepositoryPolicyText")) {
		_, err := call[awsecr.SetRepositoryPolicyOutput](r, &awsecr.SetRepositoryPolicyInput{RepositoryName: &r.id, PolicyText: aws.String(r.document("RepositoryPolicyText"))})
		if err != nil {
			return err
		}
	}
	if !r.props.Has("LifecyclePolicy") || r.was != nil && !r.changed("LifecyclePolicy") {
		return nil
	}
	in := &awsecr.PutLifecyclePolicyInput{RepositoryName: &r.id}
	if err := r.fillIn(in, "LifecyclePolicy", ""); err != nil {
		return err
	}
	_, err := call[awsecr.PutLifecyclePolicyOutput](r, in)
	return err
}

func updateRepository(r *request) error {
	if r.was.props.Has("RepositoryPolicyText") && !r.props.Has("RepositoryPolicyText") {
		if _, err := call[awsecr.DeleteRepositoryPolicyOutput](r, &awsecr.DeleteRepositoryPolicyInput{RepositoryName: &r.id}); unlessGone(err) != nil {
			return err
		}
	}
	if r.was.props.Has("LifecyclePolicy") && !r.props.Has("LifecyclePolicy") {
		if _, err := call[awsecr.DeleteLifecyclePolicyOutput](r, &awsecr.DeleteLifecyclePolicyInput{RepositoryName: &r.id}); unlessGone(err) != nil {
			return err
		}
	}
	if r.changed("ImageTagMutability", "ImageTagMutabilityExclusionFilters") {
		in := &awsecr.PutImageTagMutabilityInput{RepositoryName: &r.id, ImageTagMutability: ecrtypes.ImageTagMutability(r.text("ImageTagMutability"))}
		if in.ImageTagMutability == "" {
			in.ImageTagMutability = ecrtypes.ImageTagMutabilityMutable
		}
		var err error
		if in.ImageTagMutabilityExclusionFilters, err = r.exclusions(); err != nil {
			return err
		}
		if _, err := call[awsecr.PutImageTagMutabilityOutput](r, in); err != nil {
			return err
		}
	}
	if r.changed("ImageScanningConfiguration") {
		in := &awsecr.PutImageScanningConfigurationInput{RepositoryName: &r.id, ImageScanningConfiguration: &ecrtypes.ImageScanningConfiguration{}}
		if err := r.fillIn(in.ImageScanningConfiguration, "ImageScanningConfiguration", ""); err != nil {
			return err
		}
		if _, err := call[awsecr.PutImageScanningConfigurationOutput](r, in); err != nil {
			return err
		}
	}
	repo, err := r.repository(r.id)
	if err != nil {
		return err
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awsecr.UntagResourceOutput](r, &awsecr.UntagResourceInput{ResourceArn: repo.RepositoryArn, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err = call[awsecr.TagResourceOutput](r, &awsecr.TagResourceInput{ResourceArn: repo.RepositoryArn, Tags: r.ecrTags(set)})
	return err
}

func publicTags(tags []tagRecord) (out []publictypes.Tag) {
	for _, t := range tags {
		out = append(out, publictypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

func (r *request) publicRepository(name string) (publictypes.Repository, error) {
	out, err := call[awsecrpublic.DescribeRepositoriesOutput](r, &awsecrpublic.DescribeRepositoriesInput{RepositoryNames: []string{name}})
	if err != nil {
		return publictypes.Repository{}, err
	}
	return first(out.Repositories)
}

// catalogData returns what the gallery shows about a repository.
func (r *request) catalogData() (*publictypes.RepositoryCatalogDataInput, error) {
	out := &publictypes.RepositoryCatalogDataInput{}
	return out, r.fillWith(out, rename(r.mapOf("RepositoryCatalogData"), "RepositoryDescription", "Description"), nil, "RepositoryCatalogData.")
}

func updatePublicRepository(r *request) error {
	if r.was.props.Has("RepositoryPolicyText") && !r.props.Has("RepositoryPolicyText") {
		if _, err := call[awsecrpublic.DeleteRepositoryPolicyOutput](r, &awsecrpublic.DeleteRepositoryPolicyInput{RepositoryName: &r.id}); unlessGone(err) != nil {
			return err
		}
	}
	if r.changed("RepositoryCatalogData") {
		data, err := r.catalogData()
		if err != nil {
			return err
		}
		if _, err := call[awsecrpublic.PutRepositoryCatalogDataOutput](r, &awsecrpublic.PutRepositoryCatalogDataInput{RepositoryName: &r.id, CatalogData: data}); err != nil {
			return err
		}
	}
	repo, err := r.publicRepository(r.id)
	if err != nil {
		return err
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awsecrpublic.UntagResourceOutput](r, &awsecrpublic.UntagResourceInput{ResourceArn: repo.RepositoryArn, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err = call[awsecrpublic.TagResourceOutput](r, &awsecrpublic.TagResourceInput{ResourceArn: repo.RepositoryArn, Tags: publicTags(set)})
	return err
}

package ecr

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// importRecords turns what another account's ECR answered into records: the repositories with their policies. Images are
// not read.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := scope{regional.At(r.Source.Account, r.Source.Region)}
	policies := map[string]string{}
	documents, err := recording.Pages[awsecr.GetRepositoryPolicyInput, awsecr.GetRepositoryPolicyOutput](r, "ecr", "GetRepositoryPolicy")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range documents {
		policies[aws.ToString(p.Input.RepositoryName)] = aws.ToString(p.Output.PolicyText)
	}
	found, err := recording.Pages[awsecr.DescribeRepositoriesInput, awsecr.DescribeRepositoriesOutput](r, "ecr", "DescribeRepositories")
	if err != nil {
		return nil, nil, err
	}
	var writes []module.Write
	for _, p := range found {
		for _, repo := range p.Output.Repositories {
			name := aws.ToString(repo.RepositoryName)
			if name == "" || strings.ContainsAny(name, " \n") || aws.ToString(repo.RepositoryArn) != sc.arn(name) {
				return nil, nil, fmt.Errorf("the source's answer to ecr:DescribeRepositories: %q is not a repository of account %s in %s", aws.ToString(repo.RepositoryArn), sc.Account, sc.Region)
			}
			rec := repositoryRecord{ID: ids.UUID(), Name: name, Created: aws.ToTime(repo.CreatedAt), Mutability: string(repo.ImageTagMutability), Policy: policies[name], Evaluated: r.Source.Started}
			for _, f := range repo.ImageTagMutabilityExclusionFilters {
				rec.Exceptions = append(rec.Exceptions, aws.ToString(f.Filter))
			}
			if repo.ImageScanningConfiguration != nil {
				rec.ScanOnPush = repo.ImageScanningConfiguration.ScanOnPush
			}
			if e := repo.EncryptionConfiguration; e != nil {
				rec.Encryption, rec.KMSKey = string(e.EncryptionType), aws.ToString(e.KmsKey)
			}
			writes = append(writes, module.Put(repositories, sc.Key(name), rec))
		}
	}
	return writes, nil, nil
}

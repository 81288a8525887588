package ssm

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// importRecords turns what another account's Systems Manager answered into records: the parameters without their values.
// An empty value, which no other parameter can have, means that the value was not read.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := scope{regional.At(r.Source.Account, r.Source.Region)}
	pages, err := recording.Pages[awsssm.DescribeParametersInput, awsssm.DescribeParametersOutput](r, "ssm", "DescribeParameters")
	if err != nil {
		return nil, nil, err
	}
	var writes []module.Write
	var gaps []recording.Gap
	for _, p := range pages {
		for _, in := range p.Output.Parameters {
			rec := parameterRecord{
				Name: aws.ToString(in.Name), Type: string(in.Type), KeyID: aws.ToString(in.KeyId), Version: in.Version, Modified: aws.ToTime(in.LastModifiedDate), ModifiedBy: aws.ToString(in.LastModifiedUser),
				Description: aws.ToString(in.Description), DataType: aws.ToString(in.DataType), Tier: string(in.Tier), Pattern: aws.ToString(in.AllowedPattern),
			}
			if !nameForm.MatchString(rec.Name) || rec.Version < 1 {
				return nil, nil, fmt.Errorf("the source's answer to ssm:DescribeParameters: %q, version %d, is not a parameter", rec.Name, rec.Version)
			}
			var policies []string
			for _, policy := range in.Policies {
				policies = append(policies, aws.ToString(policy.PolicyText))
			}
			if rec.Policies, err = policiesOf("[" + strings.Join(policies, ",") + "]"); err != nil {
				gaps = append(gaps, recording.Gap{Service: "ssm", Operation: "DescribeParameters", Subject: rec.Name, Code: recording.NotModelled, Message: fmt.Sprintf("the policies of parameter %s: %v", rec.Name, err)})
			}
			writes = append(writes, module.Put(parameters, sc.Key(rec.Name), rec), module.Put(versions, versionKey(sc, rec.Name, rec.Version), rec))
		}
	}
	return writes, gaps, nil
}

package servicequotas

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// importRecords turns what another account's Service Quotas answered into records: the values of quotas that decide something in
// a twin.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := scope{regional.At(r.Source.Account, r.Source.Region)}
	pages, err := recording.Pages[awsservicequotas.ListServiceQuotasInput, awsservicequotas.ListServiceQuotasOutput](r, "servicequotas", "ListServiceQuotas")
	if err != nil {
		return nil, nil, err
	}
	var writes []module.Write
	for _, p := range pages {
		for _, q := range p.Output.Quotas {
			service, code := aws.ToString(q.ServiceCode), aws.ToString(q.QuotaCode)
			if !quotas.InTwins(service, code) {
				continue
			}
			if q.Value == nil || *q.Value < 0 {
				return nil, nil, fmt.Errorf("the source's answer to servicequotas:ListServiceQuotas: quota %s of %s has no value", code, service)
			}
			writes = append(writes, module.Put(quotatable.Applied, sc.Key(service+"/"+code), quotatable.AppliedRecord{Value: *q.Value}))
		}
	}
	return writes, nil, nil
}

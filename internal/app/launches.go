package app

import (
	"context"
	"errors"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
	"github.com/drydock-dev/drydock/internal/store"
)

// ec2Quotas are EC2's quotas, of which only those of vCPUs can be changed: EC2
// asks for no other.
type ec2Quotas struct{ *servicequotas.Table }

// newEC2Quotas returns the quotas with those that --quota vcpus=N sets.
func newEC2Quotas(st *store.Store, n int) ec2Quotas {
	defaults := map[string]float64{}
	for _, q := range quotas.Of("ec2") {
		if n > 0 && countsVCPUs(q) {
			defaults[q.Code] = float64(n)
		}
	}
	return ec2Quotas{servicequotas.NewTable(st, "ec2", defaults)}
}

func countsVCPUs(q quotas.Quota) bool {
	return strings.HasPrefix(q.Name, "Running On-Demand") || strings.HasSuffix(q.Name, "Spot Instance Requests")
}

// Set refuses quotas that EC2 does not ask for.
func (e ec2Quotas) Set(ctx context.Context, account, region, code string, value float64) error {
	if q, ok := quotas.Lookup("ec2", code); !ok || !countsVCPUs(q) {
		return servicequotas.Fixed("ec2").Set(ctx, account, region, code, value)
	}
	return e.Table.Set(ctx, account, region, code, value)
}

// vcpuQuota is how many vCPUs of a bucket an account may run in a region. Buckets
// that the catalogue of quotas does not have are as big as the others by default.
func (d *daemon) vcpuQuota(_ context.Context, account, region, code string) int {
	if _, ok := quotas.Lookup("ec2", code); ok && d.ec2Quotas.Table != nil {
		if v, err := d.ec2Quotas.Value(account, region, code); err == nil {
			return int(v)
		}
	}
	if n := d.cfg.Quotas["vcpus"]; n > 0 {
		return n
	}
	return ec2.DefaultVCPUQuota
}

// imageExists answers what SSM asks of EC2, about parameters that hold an image's ID.
func (d *daemon) imageExists(ctx context.Context, account, region, id string) (bool, error) {
	ctx = awsapi.AsService(ctx, account, region, awsapi.ServiceRole{Service: "ssm.amazonaws.com", Name: "AWSServiceRoleForAmazonSSM", Session: "SSM"}, time.Now())
	_, err := awscall.EC2{API: d.server}.DescribeImages(ctx, &awsec2.DescribeImagesInput{ImageIds: []string{id}})
	if api, ok := errors.AsType[smithy.APIError](err); ok && strings.HasPrefix(api.ErrorCode(), "InvalidAMIID.") {
		return false, nil
	}
	return err == nil, err
}

package app

import (
	"cmp"
	"context"

	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
	"github.com/drydock-dev/drydock/internal/store"
)

// The codes of EKS's quotas, https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const (
	quotaClusters             = "L-1194D53C"
	quotaNodegroupsPerCluster = "L-6D54EA21"
	quotaNodesPerNodegroup    = "L-BD136A63"
	quotaFargateProfiles      = "L-33415657"
)

// quotaTables are the quotas that can be raised, with the defaults that --quota sets.
type quotaTables struct {
	eks *servicequotas.Table
	ec2 ec2Quotas
	// vcpus is the value of --quota vcpus=N, or 0 without that flag.
	vcpus int
}

func newQuotaTables(st *store.Store, flags map[string]int) quotaTables {
	defaults := map[string]float64{}
	for code, flag := range map[string]string{
		quotaClusters: "clusters", quotaNodegroupsPerCluster: "nodegroups-per-cluster", quotaNodesPerNodegroup: "nodes-per-nodegroup",
	} {
		if v := flags[flag]; v != 0 {
			defaults[code] = float64(v)
		}
	}
	return quotaTables{servicequotas.NewTable(st, "eks", defaults), newEC2Quotas(st, flags["vcpus"]), flags["vcpus"]}
}

// providers returns what Service Quotas shows. Services that do not read their quotas yet are Fixed: their quotas are
// shown but cannot be raised.
func (q quotaTables) providers(network *ec2.Service) []servicequotas.Provider {
	return []servicequotas.Provider{
		servicequotas.Fixed("autoscaling"), networkQuotas{q.ec2, network}, q.eks, networkQuotas{servicequotas.Fixed("vpc"), network},
	}
}

// ofEKS returns the quotas that EKS enforces.
func (q quotaTables) ofEKS(account, region string) (eks.Quotas, error) {
	var out eks.Quotas
	for code, to := range map[string]*int{
		quotaClusters: &out.Clusters, quotaNodegroupsPerCluster: &out.NodegroupsPerCluster, quotaNodesPerNodegroup: &out.NodesPerNodegroup,
		quotaFargateProfiles: &out.FargateProfilesPerCluster,
	} {
		v, err := q.eks.Value(account, region, code)
		if err != nil {
			return out, err
		}
		*to = int(v)
	}
	return out, nil
}

// ofVCPUs returns how many vCPUs of a bucket an account may run in a region. Buckets missing from the quota catalogue
// get the same default as the others.
func (q quotaTables) ofVCPUs(_ context.Context, account, region, code string) int {
	if _, ok := quotas.Lookup("ec2", code); ok {
		if v, err := q.ec2.Value(account, region, code); err == nil {
			return int(v)
		}
	}
	return cmp.Or(q.vcpus, ec2.DefaultVCPUQuota)
}

// ec2Quotas are EC2's quotas. Only vCPU quotas can be changed, because EC2 reads no others.
type ec2Quotas struct{ *servicequotas.Table }

// newEC2Quotas returns EC2's quotas with the defaults that --quota vcpus=N sets.
func newEC2Quotas(st *store.Store, n int) ec2Quotas {
	defaults := map[string]float64{}
	for _, q := range quotas.Of("ec2") {
		if n > 0 && q.CountsVCPUs() {
			defaults[q.Code] = float64(n)
		}
	}
	return ec2Quotas{servicequotas.NewTable(st, "ec2", defaults)}
}

// Set refuses to change quotas that EC2 does not read.
func (e ec2Quotas) Set(ctx context.Context, account, region, code string, value float64) error {
	if q, ok := quotas.Lookup("ec2", code); !ok || !q.CountsVCPUs() {
		return servicequotas.Fixed("ec2").Set(ctx, account, region, code, value)
	}
	return e.Table.Set(ctx, account, region, code, value)
}

// networkQuotas are a service's quotas. EC2 stores the values of those that it enforces on networks.
type networkQuotas struct {
	servicequotas.Provider // stores all other quotas

	ec2 *ec2.Service
}

// Quotas returns the provider's quotas with EC2's values in place.
func (n networkQuotas) Quotas(ctx context.Context, account, region string) ([]quotas.Quota, error) {
	all, err := n.Provider.Quotas(ctx, account, region)
	if err != nil {
		return nil, err
	}
	for i, q := range all {
		if !n.keeps(q.Code) {
			continue
		}
		if all[i].Value, _, err = n.ec2.QuotaValue(account, region, q.Code); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Set changes a quota in the place that stores it.
func (n networkQuotas) Set(ctx context.Context, account, region, code string, value float64) error {
	if n.keeps(code) {
		return n.ec2.SetQuota(ctx, account, region, code, value)
	}
	return n.Provider.Set(ctx, account, region, code, value)
}

func (n networkQuotas) keeps(code string) bool {
	for _, q := range n.ec2.Quotas() {
		if q.Code == code && q.Service == n.ServiceCode() {
			return true
		}
	}
	return false
}

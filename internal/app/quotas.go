package app

import (
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
)

// The codes of EKS's quotas, https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const (
	quotaClusters             = "L-1194D53C"
	quotaNodegroupsPerCluster = "L-6D54EA21"
	quotaNodesPerNodegroup    = "L-BD136A63"
	quotaFargateProfiles      = "L-33415657"
)

// newServiceQuotas makes Service Quotas. Services that cannot ask yet are Fixed: their
// quotas are shown, not raised.
func (d *daemon) newServiceQuotas() *servicequotas.Service {
	return servicequotas.New(servicequotas.Config{
		Store: d.store,
		Providers: []servicequotas.Provider{
			servicequotas.Fixed("autoscaling"), networkQuotas{d.ec2Quotas, d.ec2}, d.eksQuotas, networkQuotas{servicequotas.Fixed("vpc"), d.ec2},
		},
	})
}

// makeQuotaTables makes the tables of the quotas that can be raised, and returns what
// EKS asks of its own.
func (d *daemon) makeQuotaTables() func(account, region string) (eks.Quotas, error) {
	defaults := map[string]float64{}
	for code, flag := range map[string]string{
		quotaClusters: "clusters", quotaNodegroupsPerCluster: "nodegroups-per-cluster", quotaNodesPerNodegroup: "nodes-per-nodegroup",
	} {
		if v := d.cfg.Quotas[flag]; v != 0 {
			defaults[code] = float64(v)
		}
	}
	d.eksQuotas = servicequotas.NewTable(d.store, "eks", defaults)
	d.ec2Quotas = newEC2Quotas(d.store, d.cfg.Quotas["vcpus"])
	return func(account, region string) (eks.Quotas, error) {
		var q eks.Quotas
		for code, to := range map[string]*int{
			quotaClusters: &q.Clusters, quotaNodegroupsPerCluster: &q.NodegroupsPerCluster, quotaNodesPerNodegroup: &q.NodesPerNodegroup,
			quotaFargateProfiles: &q.FargateProfilesPerCluster,
		} {
			v, err := d.eksQuotas.Value(account, region, code)
			if err != nil {
				return q, err
			}
			*to = int(v)
		}
		return q, nil
	}
}

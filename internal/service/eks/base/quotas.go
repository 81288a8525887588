package base

import "github.com/drydock-dev/drydock/internal/store"

// Quotas limit an account's resources in a region.
// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
type Quotas struct {
	Clusters             int // 100
	NodegroupsPerCluster int // 30
	NodesPerNodegroup    int // 450

	FargateProfilesPerCluster int // 10
}

// byCode returns the fields by the codes of their quotas.
func (q *Quotas) byCode() map[string]*int {
	return map[string]*int{
		"L-1194D53C": &q.Clusters, "L-6D54EA21": &q.NodegroupsPerCluster, "L-BD136A63": &q.NodesPerNodegroup, "L-33415657": &q.FargateProfilesPerCluster,
	}
}

// defaults returns the quotas that are not zero, by code.
func (q Quotas) defaults() map[string]float64 {
	out := map[string]float64{}
	for code, v := range q.byCode() {
		if *v != 0 {
			out[code] = float64(*v)
		}
	}
	return out
}

// QuotasFor returns the quotas of the account and region of a key.
func (s *Service) QuotasFor(k store.Key) (Quotas, error) {
	var out Quotas
	for code, to := range out.byCode() {
		v, err := s.QuotaTable.Value(k.Account, k.Region, code)
		if err != nil {
			return out, err
		}
		*to = int(v)
	}
	return out, nil
}

package why

import (
	"encoding/json"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
)

// faultNotes describes the faults that may affect an instance.
func (x *Explainer) faultNotes(account, region, id, zone, vpc string) []string {
	var out []string
	for _, f := range x.cfg.Faults.Touching(account, region, id, zone, vpc) {
		out = append(out, f.Why()+" is in force; "+f.Fix()+" ends it")
	}
	return out
}

// launchFaultNotes describes the faults that keep instances from being launched.
func (x *Explainer) launchFaultNotes(account, region string) []string {
	var out []string
	for _, f := range x.cfg.Faults.List(account, region) {
		if f.Kind == fault.Capacity || f.Kind == fault.Zone {
			out = append(out, f.Why()+" is in force: launches fail; "+f.Fix()+" ends it")
		}
	}
	return out
}

// clusterFaultNotes describes the faults of a cluster's control plane.
func (x *Explainer) clusterFaultNotes(account, region, cluster string) []string {
	what := map[fault.Kind]string{
		fault.ControlPlane:  "the control plane is down",
		fault.SlowAPIServer: "the API server delays every request",
		fault.EtcdFull:      "etcd has reached its size limit, so nothing can be written (etcdserver: mvcc: database space exceeded)",
		fault.ExpiredCA:     "the certificate authority has expired, so no client trusts the API server (x509: certificate has expired or is not yet valid)",
		fault.Upgrade:       "changes of the Kubernetes version fail midway",
	}
	var out []string
	for _, f := range x.cfg.Faults.Clusters(account, region, cluster) {
		if w, ok := what[f.Kind]; ok {
			out = append(out, f.Why()+" is in force: "+w+"; "+f.Fix()+" ends it")
		}
	}
	return out
}

// faultOfEntry returns the fault in a decision of the journal, or nil.
func faultOfEntry(e journal.Entry) (f fault.Fault, ok bool) {
	raw, ok := e.Fields["fault"]
	if !ok {
		return f, false
	}
	b, err := json.Marshal(raw)
	return f, err == nil && json.Unmarshal(b, &f) == nil && f.ID != ""
}

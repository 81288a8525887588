package cluster

import (
	"fmt"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// A removal lists the APIs of EKS that a Kubernetes version removes.
type removal struct {
	version string
	apis    []removedAPI
}

type removedAPI struct {
	group       string
	old, stable string
	since       string // the first version that serves stable
	resources   []string
}

var draResources = []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}

// removals are the planned removals of APIs that EKS serves. EKS serves few beta APIs.
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/
var removals = []removal{
	{"1.37", []removedAPI{{"storage.k8s.io", "v1beta1", "v1", "1.34", []string{"volumeattributesclasses"}}}},
	{"1.38", []removedAPI{{"resource.k8s.io", "v1beta1", "v1", "1.34", draResources}}},
	{"1.39", []removedAPI{{"resource.k8s.io", "v1beta2", "v1", "1.34", draResources}}},
}

// deprecationsName is how the names of these insights begin.
const deprecationsName = "Deprecated APIs removed in Kubernetes v"

// deprecations returns the insights about deprecated APIs, one for each Kubernetes version that removes APIs. The
// names, descriptions and reasons are those of EKS.
// https://docs.aws.amazon.com/eks/latest/userguide/view-cluster-insights.html
func (e *evidence) deprecations() []ekstypes.Insight {
	var out []ekstypes.Insight
	current := eksversions.Number(*e.cluster.Cluster.Version)
	for _, r := range removals {
		if eksversions.Number(r.version) <= current {
			continue
		}
		f := passing("No deprecated API usage detected within the last 30 days.")
		if e.cluster.Source != nil && e.source == nil {
			f = finding{status: ekstypes.InsightStatusValueUnknown, reason: "use of deprecated APIs is unknown: the insights of the source were not read"}
		}
		for _, d := range e.details(r) {
			f.summary.DeprecationDetails = append(f.summary.DeprecationDetails, d)
			switch {
			case len(d.ClientStats) == 0:
				continue
			case eksversions.Number(r.version) == current+1:
				f.status = ekstypes.InsightStatusValueError
			default:
				f.status = ekstypes.InsightStatusValueWarning
			}
			f.reason = fmt.Sprintf("Deprecated API usage detected within last 30 days and your cluster is on Kubernetes v%s", *e.cluster.Cluster.Version)
		}
		i := e.insight(ekstypes.CategoryUpgradeReadiness, r.version, deprecationsName+r.version,
			fmt.Sprintf("Checks for usage of deprecated APIs that are scheduled for removal in Kubernetes v%s. Upgrading your cluster before migrating to the updated APIs supported by v%[1]s could cause application impact.", r.version),
			fmt.Sprintf("Update manifests and API clients to use newer Kubernetes APIs if applicable before upgrading to Kubernetes v%s.", r.version), f)
		i.AdditionalInfo = map[string]string{
			"EKS update cluster documentation":                docs + "update-cluster.html",
			"Kubernetes v" + r.version + " deprecation guide": "https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v" + strings.ReplaceAll(r.version, ".", "-"),
		}
		out = append(out, i)
	}
	return out
}

// details returns a removal's APIs and their clients.
func (e *evidence) details(r removal) []ekstypes.DeprecationDetail {
	var out []ekstypes.DeprecationDetail
	for _, a := range r.apis {
		for _, resource := range a.resources {
			usage := "/apis/" + a.group + "/" + a.old + "/" + resource
			out = append(out, ekstypes.DeprecationDetail{
				Usage: &usage, ReplacedWith: new("/apis/" + a.group + "/" + a.stable + "/" + resource),
				StopServingVersion: &r.version, StartServingReplacementVersion: &a.since, ClientStats: clientStats(e.uses, usage),
			})
		}
	}
	return out
}

// maxClients is the maximum number of clients that an insight names for an API.
const maxClients = 10

// clientStats returns the clients of an API, those with the most requests first.
func clientStats(uses []plane.APIUse, api string) []ekstypes.ClientStat {
	out := []ekstypes.ClientStat{}
	for _, u := range uses {
		if u.API == api {
			out = append(out, ekstypes.ClientStat{UserAgent: &u.UserAgent, NumberOfRequestsLast30Days: int32(min(u.Requests, 1<<31-1)), LastRequestTime: &u.Last})
		}
	}
	slices.SortStableFunc(out, func(a, b ekstypes.ClientStat) int {
		return int(b.NumberOfRequestsLast30Days) - int(a.NumberOfRequestsLast30Days)
	})
	return out[:min(len(out), maxClients)]
}

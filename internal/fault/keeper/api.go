package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/fault"
)

// API serves `drydock fault`. It checks faults against what exists.
type API struct {
	Keeper *Keeper
	EC2    EC2
	// Services are the services whose calls can fail.
	Services func() []awsapi.Service
	// Instances returns the IDs of the instances in an account and region.
	Instances func(account, region string) []string
	// Clusters returns the names of the EKS clusters in an account and region.
	Clusters func(account, region string) []string
	// SpotWarning is how long in advance a Spot Instance is warned if the user does not say it.
	SpotWarning time.Duration
	// FargateNotice is how long pods on Fargate that cannot be evicted are left alone if the user does not say it.
	FargateNotice time.Duration
}

// EC2 is the part of the EC2 service that is needed here.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	DescribeVpcs(ctx context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error)
}

// Handle adds its paths to mux.
func (a *API) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /_drydock/faults", a.getFaults)
	mux.HandleFunc("GET /_drydock/faults/targets", a.getFaultTargets)
	mux.HandleFunc("POST /_drydock/faults", a.postFault)
	mux.HandleFunc("DELETE /_drydock/faults", a.deleteFaults)
}

// getFaults returns the faults in force of ?account= and ?region=, or those of all regions without a region.
func (a *API) getFaults(w http.ResponseWriter, r *http.Request) {
	account, region := r.URL.Query().Get("account"), r.URL.Query().Get("region")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	out := a.Keeper.set.List(account, region)
	if out == nil {
		out = []fault.Fault{}
	}
	httpapi.Answer(w, out)
}

// postFault sets a fault and returns it with its ID.
func (a *API) postFault(w http.ResponseWriter, r *http.Request) {
	var in fault.Fault
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields() // ignoring a mistyped filter would make the fault affect everything
	if err := body.Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := a.completeFault(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := a.Keeper.add(r.Context(), in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	httpapi.Answer(w, out)
}

// deleteFaults ends and returns faults of ?account= in ?region=: those with ?id= (any number of times), all of
// ?kind=, or all.
func (a *API) deleteFaults(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	account, region := q.Get("account"), q.Get("region")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	if region == "" || httpapi.CheckAccount(account) != nil {
		http.Error(w, "account must be 12 digits, and region must be given", http.StatusBadRequest)
		return
	}
	wanted, kind := q["id"], fault.Kind(q.Get("kind"))
	gone, err := a.Keeper.clear(r.Context(), account, region, func(f fault.Fault) bool {
		return (len(wanted) == 0 || slices.Contains(wanted, f.ID)) && (kind == "" || f.Kind == kind)
	}, wanted...)
	if err != nil {
		status := http.StatusInternalServerError
		if _, ok := errors.AsType[*noFaultError](err); ok {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	httpapi.Answer(w, gone)
}

// getFaultTargets returns what faults can be set on, for shell completion.
func (a *API) getFaultTargets(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := api.FaultTargets{Instances: []string{}, VPCs: []string{}, Clusters: []string{}, Zones: []string{}, Operations: []string{}}
	ctx := awsapi.WithCall(r.Context(), &awsapi.Call{Account: account, Region: region, Service: "ec2"})
	out.Instances = append(out.Instances, a.Instances(account, region)...)
	out.Clusters = append(out.Clusters, a.Clusters(account, region)...)
	if vpcs, err := a.EC2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}); err == nil {
		for _, v := range vpcs.Vpcs {
			out.VPCs = append(out.VPCs, aws.ToString(v.VpcId))
		}
	}
	if reg, ok := regions.Lookup(region); ok {
		for _, z := range reg.Zones {
			out.Zones = append(out.Zones, z.Name, z.ID)
		}
	}
	for _, s := range a.Services() {
		if m, err := model.Get(s.Name); err == nil {
			for _, o := range s.Operations {
				out.Operations = append(out.Operations, m.SigningName+":"+o.Name)
			}
		}
	}
	httpapi.Answer(w, out)
}

package app

import (
	"encoding/json"
	"net/http"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// handleFaults are the pages of `drydock fault`: what the user breaks on purpose.
func (d *daemon) handleFaults(mux *http.ServeMux) {
	mux.HandleFunc("GET /_drydock/faults/capacity", d.getCapacityFaults)
	mux.HandleFunc("POST /_drydock/faults/capacity", d.changeCapacityFaults)
	mux.HandleFunc("DELETE /_drydock/faults/capacity", d.changeCapacityFaults)
}

func (d *daemon) getCapacityFaults(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	account := q.Get("account")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	pools, err := d.ec2.CapacityFaults(r.Context(), account, q.Get("region"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out := []cli.CapacityFault{}
	for _, p := range pools {
		out = append(out, cli.CapacityFault{Account: account, Region: q.Get("region"), Type: p.InstanceType, Zone: p.Zone, CapacityType: p.CapacityType})
	}
	answer(w, out)
}

// changeCapacityFaults sets one fault, or clears it; without its parts it clears all.
func (d *daemon) changeCapacityFaults(w http.ResponseWriter, r *http.Request) {
	var in cli.CapacityFault
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if in.Account == "" {
		in.Account = awsapi.DefaultAccount
	}
	if !accountNumber.MatchString(in.Account) {
		http.Error(w, "account must be 12 digits", http.StatusBadRequest)
		return
	}
	pool := ec2.CapacityPool{InstanceType: in.Type, Zone: in.Zone, CapacityType: in.CapacityType}
	var err error
	switch {
	case r.Method == http.MethodPost:
		err = d.ec2.SetCapacityFault(r.Context(), in.Account, in.Region, pool)
	case pool == ec2.CapacityPool{}:
		err = d.ec2.ClearCapacityFaults(r.Context(), in.Account, in.Region)
	default:
		err = d.ec2.ClearCapacityFaults(r.Context(), in.Account, in.Region, pool)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, struct{}{})
}

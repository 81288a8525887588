package app

import (
	"errors"
	"net/http"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/account"
)

// twins loads recordings of AWS accounts.
func (d *daemon) twins() *account.Loader {
	return &account.Loader{
		Store: d.store, Modules: func() []module.Module { return d.modules }, Reset: d.reset, InUse: d.iam.HasAccount, Now: time.Now,
	}
}

// postTwin loads the recording in the body. With ?replace=true it may overwrite an account that is no twin.
func (d *daemon) postTwin(w http.ResponseWriter, r *http.Request) {
	rec, err := twin.Receive(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t, err := d.twins().Load(r.Context(), rec, r.URL.Query().Get("replace") == "true")
	switch {
	case errors.Is(err, account.ErrNotATwin):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		httpapi.Answer(w, d.showTwin(t))
	}
}

// getTwins lists the twins.
func (d *daemon) getTwins(w http.ResponseWriter, _ *http.Request) {
	out := []api.Twin{}
	for _, t := range account.All(d.store) {
		out = append(out, d.showTwin(t))
	}
	httpapi.Answer(w, out)
}

func (d *daemon) showTwin(t account.Twin) api.Twin {
	out := api.Twin{Account: t.Source.Account, Region: t.Source.Region, Caller: t.Source.Caller, Read: t.Source.Started, Loaded: t.Loaded, Answers: t.Answers}
	for _, g := range account.Gaps(d.store, t.Source.Account) {
		out.Gaps = append(out.Gaps, g.String())
	}
	return out
}

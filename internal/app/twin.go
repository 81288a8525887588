package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/account"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// twins loads recordings of AWS accounts.
func (d *daemon) twins() *account.Loader {
	return &account.Loader{
		Store: d.store, Modules: func() []module.Module { return d.modules }, Reset: d.reset, InUse: d.iam.HasAccount, Now: time.Now,
		Dir: filepath.Join(d.cfg.DataDir, "twins"),
	}
}

// copies is what the services know of twins.
type copies struct{ d *daemon }

var _ eks.Twins = copies{}

// Held reports whether an account is a twin in which nothing was changed.
func (c copies) Held(id string) bool { return account.Held(c.d.store, id) }

// Objects calls fn for each list of Kubernetes objects that was read from a cluster.
func (c copies) Objects(_ context.Context, id, cluster string, fn func(recording.KubernetesList, *eks.TwinObjects) error) error {
	return c.d.twins().Objects(id, cluster, func(q recording.KubernetesList, l *account.List) error {
		return fn(q, &eks.TwinObjects{Kind: l.Kind, Items: l.Items})
	})
}

// Lost adds what could not be copied.
func (c copies) Lost(ctx context.Context, id string, still func(store.Reader) bool, gaps []recording.Gap) error {
	return account.AddGaps(ctx, c.d.store, id, still, gaps)
}

// holdsInstances reports whether the instances of an account wait: those of a twin boot when its clusters are copied, as
// user data that fails runs only once.
func (d *daemon) holdsInstances(id string) bool {
	t, ok := account.Of(d.store, id)
	return ok && (t.Loading || eks.Copying(d.store, id))
}

// changing notes the first change that somebody makes in a twin. Instances report about themselves with their roles.
func (d *daemon) changing(ctx context.Context, call *awsapi.Call) {
	if call.Service == "sts" || strings.HasPrefix(call.Principal.SessionName, "i-") {
		return
	}
	if err := account.MarkChanged(ctx, d.store, call.Account, time.Now()); err != nil {
		d.log.WarnContext(ctx, "marking a twin as changed", "account", call.Account, "err", err)
	}
}

// postTwin loads the recording in the body. The parameters are those of api.ImportOptions.
func (d *daemon) postTwin(w http.ResponseWriter, r *http.Request) {
	rec, err := twin.Receive(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var differences []api.Difference
	if r.URL.Query().Get("compare") == "true" {
		if differences, err = d.compareObjects(r.Context(), rec); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	asked := func(option string) bool { return r.URL.Query().Get(option) == "true" }
	t, err := d.twins().Load(r.Context(), rec, account.Expect{Any: asked("replace"), Unchanged: asked("unchanged"), Absent: asked("absent")})
	switch {
	case errors.Is(err, account.ErrNotATwin), errors.Is(err, account.ErrTwin):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		text := err.Error() // which may quote the recording
		if len(text) > mostReason {
			text = strings.ToValidUTF8(text[:mostReason], "") + "…"
		}
		http.Error(w, text, http.StatusBadRequest)
	default:
		out := d.showTwin(t)
		out.Differences = differences
		httpapi.Answer(w, out)
	}
}

// mostReason is how long the reason may be for which a recording is not loaded, in bytes.
const mostReason = 500

// mostDifferences is how many differences of Kubernetes objects are shown.
const mostDifferences = 500

// compareObjects returns how the Kubernetes objects of a twin differ from those in a recording. Clusters that are not in the twin, or are
// still being copied, are left out.
func (d *daemon) compareObjects(ctx context.Context, rec *recording.Recording) ([]api.Difference, error) {
	var out []api.Difference
	for i := range rec.Answers {
		a := &rec.Answers[i]
		if a.Service != recording.Kubernetes || len(a.Pages) == 0 {
			continue
		}
		q, err := a.KubernetesList()
		if err != nil {
			return nil, err
		}
		if !eks.Compared(q) {
			continue
		}
		var theirs eks.TwinObjects
		for _, page := range a.Pages {
			var l account.List
			if err := json.Unmarshal(page, &l); err != nil {
				return nil, fmt.Errorf("%s of cluster %s in the recording: %w", q.GroupResource(), q.Cluster, err)
			}
			theirs.Kind, theirs.Items = l.Kind, append(theirs.Items, l.Items...)
		}
		ours, there, err := d.eks.Comparable(ctx, rec.Source.Account, rec.Source.Region, q, &theirs, func(kind string, o map[string]any) {
			twin.StripObject(q, o, rec.Source.Secrets)
			if rec.Source.Redacted {
				twin.RedactObject(kind, o)
			}
		})
		if err != nil { // the twin is restored anyway
			out = append(out, api.Difference{Action: "kubernetes:" + q.GroupResource(), Path: q.Cluster, Twin: "unknown: " + err.Error()})
			continue
		}
		for _, found := range twin.CompareObjects(q, ours, there) {
			if len(out) == mostDifferences {
				return append(out, api.Difference{Action: "kubernetes:List", Path: "more", Twin: fmt.Sprintf("more than %d differences", mostDifferences)}), nil
			}
			out = append(out, api.Difference(found))
		}
	}
	return out, nil
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
	out := api.Twin{Account: t.Source.Account, Region: t.Source.Region, Clusters: t.Source.Clusters, Changed: t.Changed, IAM: t.Source.IAM, Redacted: t.Source.Redacted, Secrets: t.Source.Secrets, NoKubernetes: t.Source.NoKubernetes, Caller: t.Source.Caller, Read: t.Source.Started, Loaded: t.Loaded, Answers: t.Answers}
	for _, g := range account.Gaps(d.store, t.Source.Account) {
		switch g.Code {
		case recording.NotAsked:
			out.LeftOut = append(out.LeftOut, g.String())
		case recording.NotCopied: // not missing, and often many
		default:
			out.Gaps = append(out.Gaps, g.String())
		}
	}
	return out
}

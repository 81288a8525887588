package why

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/node"
)

// getWhyRequest explains why a request was refused: the one with ?id=, or the last one of ?account= or of any
// account.
func (x *Explainer) getWhyRequest(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	account, id := q.Get("account"), q.Get("id")
	if err := httpapi.CheckAccount(account); account != "" && err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, ok, err := x.explainRequest(r.Context(), account, id)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !ok && id != "":
		http.Error(w, "no request "+id+" is in the journal", http.StatusNotFound)
	case !ok:
		http.Error(w, "no request has been refused", http.StatusNotFound)
	default:
		httpapi.Answer(w, out)
	}
}

func (x *Explainer) explainRequest(ctx context.Context, account, id string) (api.RequestExplanation, bool, error) {
	filter := journal.Filter{Account: account, Kind: journal.KindDecision}
	if id != "" {
		filter.Fields = map[string]string{"requestId": id}
	}
	for e, err := range x.cfg.Journal.Query(filter) {
		if err != nil {
			return api.RequestExplanation{}, false, err
		}
		if f, ok := faultOfEntry(e); ok {
			out := requestOf(e)
			out.Refused, out.Fault = true, &api.RequestFault{
				ID: f.ID, Text: f.Why(), Fixes: x.faultFixes(f.Account, f.Region, f.ID), Code: text(e, "errorCode"), Message: text(e, "errorMessage"),
			}
			return out, true, nil
		}
		if why, ok := networkRefusal(e); ok {
			out := requestOf(e)
			out.Refused, out.Network = true, &api.RequestNetwork{Cluster: text(e, "cluster"), Pod: text(e, "pod"), Target: text(e, "target"), Reason: *x.reason(e.Account, e.Region, why)}
			return out, true, nil
		}
		if why, ok := kept(e); ok {
			now := x.cfg.Authorizer.Reconsider(ctx, why)
			out := api.RequestExplanation{
				RequestID: why.RequestID, Time: e.Time, Account: e.Account, Region: e.Region,
				Principal: cmp.Or(why.Principal.ARN, why.Principal.UserID), Service: why.Service, Operation: why.Operation, Refused: true,
				Explanation: why.Explanation, OmittedStatements: why.Omitted, NoSuchRole: why.NoSuchRole, ConditionKeys: why.Keys, Suggestions: why.Suggestions, Now: &now,
			}
			if out.Unknown = x.unknownRequest(e.Account, why.Service, cmp.Or(why.Principal.RoleARN, why.Principal.ARN), now); len(out.Unknown) > 0 {
				out.Suggestions, out.Now = nil, nil
				return out, true, nil
			}
			if !now.Allowed {
				out.Fixes = x.requestFixes(ctx, &why, cmp.Or(why.Principal.RoleARN, why.Principal.ARN))
			}
			return out, true, nil
		}
	}
	if id == "" {
		return api.RequestExplanation{}, false, nil
	}
	filter.Kind = journal.KindCall
	for e, err := range x.cfg.Journal.Query(filter) {
		if err != nil {
			return api.RequestExplanation{}, false, err
		}
		return requestOf(e), true, nil
	}
	return api.RequestExplanation{}, false, nil
}

// requestOf returns what a journal entry says about its request.
func requestOf(e journal.Entry) api.RequestExplanation {
	return api.RequestExplanation{
		RequestID: text(e, "requestId"), Time: e.Time, Account: e.Account, Region: e.Region,
		Principal: text(e, "principal"), Service: text(e, "service"), Operation: text(e, "operation"),
	}
}

func text(e journal.Entry, field string) string {
	s, _ := e.Fields[field].(string)
	return s
}

// networkRefusal returns why a pod's program could not reach something.
func networkRefusal(e journal.Entry) (*node.Decision, bool) {
	raw, ok := e.Fields["decision"]
	if !ok {
		return nil, false
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, false
	}
	var why node.Decision
	return &why, json.Unmarshal(b, &why) == nil && why.Text != ""
}

// kept returns the explanation in a decision that the journal holds.
func kept(e journal.Entry) (authz.Explanation, bool) {
	raw, ok := e.Fields["why"]
	if !ok {
		return authz.Explanation{}, false
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return authz.Explanation{}, false
	}
	var why authz.Explanation
	return why, json.Unmarshal(b, &why) == nil
}

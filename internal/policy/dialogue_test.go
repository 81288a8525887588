package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/drydock-dev/drydock/internal/policy"
)

// TestDialogues runs questions against policies and prints the reasoning. The commands:
//
//	policy NAME [kind=identity|session|boundary|trust|resource|endpoint]
//	    parse the document below, print the result
//	ask|explain|suggest action=… [resource=…] [owner=ACCOUNT] [WHO] [CONTEXT]
//	    [identity=(…)] [boundary=…] [session=(…)] [resourcepolicy=(…)] [trust=…] [endpoint=(…)] [required]
//	    print the decision, the whole reasoning, or what would allow it
//	trust policy=… [action=…] [WHO] [CONTEXT]   evaluate a trust policy alone
//	keys (NAME,…)                               list the condition keys of policies
//
// WHO is arn=… account=… role=… user=… id=…, or service=…, or federated=…; for ask, explain and suggest
// it is user/ann of 111122223333 by default, or anonymous. CONTEXT is context=(k=v|w,k,…), where a key without "="
// is absent, and known, which means that all keys not given are absent too; otherwise they are unknown.
//
// Rewrite with -rewrite, and commit a rewrite only if you can explain the change.
func TestDialogues(t *testing.T) {
	datadriven.Walk(t, "testdata/dialogue", func(t *testing.T, path string) {
		w := world{docs: map[string]*policy.Document{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return w.run(t, d)
		})
	})
}

type world struct{ docs map[string]*policy.Document }

var kinds = map[string]policy.Kind{
	"identity": policy.Identity, "session": policy.Session, "boundary": policy.Boundary,
	"trust": policy.Trust, "resource": policy.Resource, "endpoint": policy.Endpoint,
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "policy":
		kind := "identity"
		d.MaybeScanArgs(t, "kind", &kind)
		doc, err := policy.Parse(kinds[kind], d.Input)
		if err != nil {
			return "MalformedPolicyDocument: " + err.Error()
		}
		w.docs[d.CmdArgs[0].Key] = doc
		return fmt.Sprintf("%s, %d statement(s)", doc.Version, len(doc.Statements))
	case "keys":
		var docs []*policy.Document
		for _, a := range d.CmdArgs {
			docs = append(docs, w.docs[a.Key])
		}
		return strings.Join(policy.ContextKeys(docs...), "\n")
	}
	req := request(t, d)
	if d.Cmd == "trust" {
		dec, grant := policy.EvaluateTrust(req, w.sources(t, d, "policy")[0].Document)
		return describe(dec) + fmt.Sprintf("\ngrant: %s", []string{"none", "account", "role", "principal"}[grant])
	}
	p := policy.Policies{
		Identity: w.sources(t, d, "identity"), Session: w.sources(t, d, "session"), Sessioned: d.HasArg("session"),
		Boundary: first(w.sources(t, d, "boundary")), Resource: w.sources(t, d, "resourcepolicy"),
		ResourceRequired: d.HasArg("required"), Trust: first(w.sources(t, d, "trust")), Endpoint: w.sources(t, d, "endpoint"),
	}
	switch d.Cmd {
	case "ask":
		return describe(policy.Evaluate(req, p))
	case "explain":
		return policy.Explain(req, p).String()
	case "suggest":
		var b strings.Builder
		for i, s := range policy.Suggest(req, p) {
			fmt.Fprintf(&b, "%d. %s\n", i+1, strings.ReplaceAll(s.String(), "\n", "\n   "))
			if changedReq, changed := s.Apply(req, p); !policy.Evaluate(changedReq, changed).Allowed {
				b.WriteString("   which does not help\n")
			}
		}
		return b.String()
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func first(s []policy.Source) *policy.Source {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

func (w *world) sources(t *testing.T, d *datadriven.TestData, key string) (out []policy.Source) {
	arg, _ := d.Arg(key)
	for _, name := range arg.Vals {
		if name == "none" {
			continue
		}
		if w.docs[name] == nil {
			t.Fatalf("%s: no policy %s", d.Pos, name)
		}
		out = append(out, policy.Source{Name: name, Document: w.docs[name]})
	}
	return out
}

func request(t *testing.T, d *datadriven.TestData) policy.Request {
	known := map[string][]string{}
	req := policy.Request{Context: policy.Context{Values: known, Unknown: policy.AnyKey}}
	if d.HasArg("known") {
		req.Context.Unknown = nil
	}
	if arg, ok := d.Arg("context"); ok {
		for _, kv := range arg.Vals {
			k, v, found := strings.Cut(kv, "=")
			known[strings.ToLower(k)] = nil
			if found {
				known[strings.ToLower(k)] = strings.Split(v, "|")
			}
		}
	}
	who := &req.Principal
	if d.Cmd == "trust" {
		req.Action = "sts:AssumeRole"
	} else if !d.HasArg("arn") && !d.HasArg("service") && !d.HasArg("federated") && !d.HasArg("anonymous") {
		who.Account, who.ARN, who.ID = "111122223333", "arn:aws:iam::111122223333:user/ann", "AIDAANN"
	}
	for arg, to := range map[string]*string{
		"action": &req.Action, "resource": &req.Resource, "owner": &req.ResourceAccount,
		"arn": &who.ARN, "account": &who.Account, "role": &who.RoleARN, "user": &who.UserARN, "id": &who.ID,
		"service": &who.Service, "federated": &who.Federated,
	} {
		d.MaybeScanArgs(t, arg, to)
	}
	return req
}

func describe(d policy.Decision) string {
	lines := []string{"allowed"}
	if !d.Allowed {
		lines = []string{"refused: " + d.Message("U")}
	}
	for _, m := range d.Matched {
		lines = append(lines, "  by "+m.String())
	}
	for _, u := range d.Undecided {
		lines = append(lines, "  undecided "+u.String())
	}
	if len(d.UnknownKeys) > 0 {
		lines = append(lines, "  not known "+strings.Join(d.UnknownKeys, " "))
	}
	if len(d.Missing) > 1 {
		lines = append(lines, fmt.Sprintf("  missing %q", d.Missing))
	}
	return strings.Join(lines, "\n")
}

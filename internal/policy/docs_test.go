package policy_test

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

// The pages of the IAM User Guide that the tables of docs_*_test.go go through.
const (
	guide         = "https://docs.aws.amazon.com/IAM/latest/UserGuide/"
	evaluation    = guide + "reference_policies_evaluation-logic_policy-eval-denyallow.html"
	basics        = guide + "reference_policies_evaluation-logic_policy-eval-basics.html"
	implicitDeny  = guide + "reference_policies_evaluation-logic_AccessPolicyLanguage_Interplay.html"
	crossAccount  = guide + "reference_policies_evaluation-logic-cross-account.html"
	boundaries    = guide + "access_policies_boundaries.html"
	conditionPage = guide + "reference_policies_elements_condition.html"
	operatorPage  = guide + "reference_policies_elements_condition_operators.html"
	multiPage     = guide + "reference_policies_condition-logic-multiple-context-keys-or-values.html"
	setPage       = guide + "reference_policies_condition-single-vs-multi-valued-context-keys.html"
	variablePage  = guide + "reference_policies_variables.html"
	principalPage = guide + "reference_policies_elements_principal.html"
	notPrincipal  = guide + "reference_policies_elements_notprincipal.html"
	actionPage    = guide + "reference_policies_elements_action.html"
	notActionPage = guide + "reference_policies_elements_notaction.html"
	resourcePage  = guide + "reference_policies_elements_resource.html"
	notResource   = guide + "reference_policies_elements_notresource.html"
	versionPage   = guide + "reference_policies_elements_version.html"
	endpointPage  = "https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html"
)

// The callers in the tables. The resource belongs to 111122223333 unless a row says something else.
var (
	ann       = policy.Principal{Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/ann", ID: "AIDAANN"}
	root      = policy.Principal{Account: "111122223333", ARN: "arn:aws:iam::111122223333:root", ID: "111122223333"}
	session   = policy.Principal{Account: "111122223333", ARN: "arn:aws:sts::111122223333:assumed-role/role/s", RoleARN: "arn:aws:iam::111122223333:role/role", ID: "AROAROLE:s"}
	federated = policy.Principal{Account: "111122223333", ARN: "arn:aws:sts::111122223333:federated-user/fed", UserARN: "arn:aws:iam::111122223333:user/ann", ID: "111122223333:fed"}
	stranger  = policy.Principal{Account: "444455556666", ARN: "arn:aws:iam::444455556666:user/Bob", ID: "AIDABOB"}
	foreign   = policy.Principal{Account: "444455556666", ARN: "arn:aws:sts::444455556666:assumed-role/audit/app", RoleARN: "arn:aws:iam::444455556666:role/audit", ID: "AROAAUDIT:app"}
	service   = policy.Principal{Service: "eks.amazonaws.com"}
	anonymous = policy.Principal{}
)

// Expected results of a row.
const (
	allowed  = "allowed"
	implicit = "implicit deny"
	explicit = "explicit deny"
)

// A saying is a sentence of AWS's documentation, in our words, with a test case. Policies are written as their
// statements.
type saying struct {
	page, says string

	identity, boundary, session, resource, trust, endpoint string

	version  string // default 2012-10-17
	who      policy.Principal
	action   string // default s3:GetObject
	on       string // default arn:aws:s3:::bucket/key
	owner    string // default 111122223333
	context  string // k=v|w;k=v
	want     string
	required bool // the resource's policy must allow
}

const (
	allowAll = `{"Effect":"Allow","Action":"*","Resource":"*"}`
	denyAll  = `{"Effect":"Deny","Action":"*","Resource":"*"}`
)

// when returns an allow of everything under a condition.
func when(condition string) string {
	return `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{` + condition + `}}`
}

// to returns an allow of everything in a resource's policy.
func to(principal string) string {
	return `{"Effect":"Allow","Principal":` + principal + `,"Action":"*","Resource":"*"}`
}

func (s *saying) document(t *testing.T, kind policy.Kind, statements string) *policy.Document {
	t.Helper()
	version := s.version
	if version == "" {
		version = policy.Version2012
	}
	doc, err := policy.Parse(kind, `{"Version":"`+version+`","Statement":[`+statements+`]}`)
	if err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	return doc
}

func (s *saying) sources(t *testing.T, name string, kind policy.Kind, statements string) []policy.Source {
	t.Helper()
	if statements == "" {
		return nil
	}
	return []policy.Source{{Name: name, Document: s.document(t, kind, statements)}}
}

func (s *saying) question(t *testing.T) (policy.Request, policy.Policies) {
	t.Helper()
	req := policy.Request{
		Action: or(s.action, "s3:GetObject"), Resource: or(s.on, "arn:aws:s3:::bucket/key"),
		ResourceAccount: or(s.owner, "111122223333"), Principal: s.who,
		Context: policy.Context{Values: contextOf(s.context)},
	}
	return req, policy.Policies{
		Identity:         s.sources(t, "identity", policy.Identity, s.identity),
		Boundary:         first(s.sources(t, "boundary", policy.Boundary, s.boundary)),
		Session:          s.sources(t, "session", policy.Session, s.session),
		Sessioned:        s.session != "",
		Resource:         s.sources(t, "resource", policy.Resource, s.resource),
		Trust:            first(s.sources(t, "trust", policy.Trust, s.trust)),
		Endpoint:         s.sources(t, "endpoint", policy.Endpoint, s.endpoint),
		ResourceRequired: s.required,
	}
}

func contextOf(text string) map[string][]string {
	out := map[string][]string{}
	for kv := range strings.SplitSeq(text, ";") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			out[strings.ToLower(k)] = strings.Split(v, "|")
		}
	}
	return out
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func outcome(d policy.Decision) string {
	switch {
	case d.Allowed:
		return allowed
	case d.ExplicitDeny:
		return explicit
	}
	return implicit
}

func sayings() []saying {
	var out []saying
	for _, table := range [][]saying{evaluationSayings, conditionSayings, setSayings, variableSayings, principalSayings, elementSayings} {
		out = append(out, table...)
	}
	return out
}

// TestDocumentation goes through what AWS's documentation says.
func TestDocumentation(t *testing.T) {
	for _, s := range sayings() {
		t.Run(s.says, func(t *testing.T) {
			req, p := s.question(t)
			e := policy.Explain(req, p)
			if got := outcome(e.Decision); got != s.want {
				t.Errorf("got %s, want %s: %s\nsee %s\n%s", got, s.want, s.says, s.page, e)
			}
		})
	}
}

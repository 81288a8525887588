package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

// attached returns ten policies of fifty statements each, as large as IAM allows for an identity: some are for the
// request's action, with conditions and variables. The last one allows it.
func attached(tb testing.TB) policy.Policies {
	tb.Helper()
	var p policy.Policies
	for i := range 10 {
		var statements []string
		for j := range 49 {
			statements = append(statements, fmt.Sprintf([]string{
				`{"Sid":"S%[1]d","Effect":"Allow","Action":["ec2:Describe%[1]d*","s3:Get*","eks:List%[1]d"],"Resource":"arn:aws:ec2:*:*:instance/*"}`,
				`{"Sid":"S%[1]d","Effect":"Allow","Action":"eks:*","Resource":"arn:aws:eks:*:111122223333:cluster/team-%[1]d-*"}`,
				`{"Sid":"S%[1]d","Effect":"Allow","Action":"eks:Describe*","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"t%[1]d"}}}`,
				`{"Sid":"S%[1]d","Effect":"Deny","Action":["eks:Delete*","ec2:Terminate*"],"Resource":"*","Condition":{"Bool":{"aws:MultiFactorAuthPresent":"false"}}}`,
				`{"Sid":"S%[1]d","Effect":"Allow","Action":"iam:*AccessKey*","Resource":"arn:aws:iam::*:user/${aws:username}"}`,
			}[j%5], j))
		}
		statements = append(statements, `{"Sid":"Last","Effect":"Allow","Action":"eks:DescribeCluster","Resource":"arn:aws:eks:*:*:cluster/${aws:username}*"}`)
		doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":[`+strings.Join(statements, ",")+`]}`)
		if err != nil {
			tb.Fatal(err)
		}
		p.Identity = append(p.Identity, policy.Source{Name: fmt.Sprint(i), Document: doc})
	}
	return p
}

func described() policy.Request {
	return policy.Request{
		Action: "eks:DescribeCluster", Resource: "arn:aws:eks:us-east-1:111122223333:cluster/ann-1", Principal: ann,
		Context: policy.Context{Values: map[string][]string{"aws:username": {"ann"}, "aws:multifactorauthpresent": {"true"}, "aws:resourcetag/team": {"x"}}},
	}
}

// The budget is 50 µs: ten policies of fifty statements.
func BenchmarkAuthorize(b *testing.B) {
	p, req := attached(b), described()
	if !policy.Evaluate(req, p).Allowed {
		b.Fatal("refused")
	}
	b.ReportAllocs()
	for b.Loop() {
		policy.Evaluate(req, p)
	}
}

func BenchmarkExplain(b *testing.B) {
	p, req := attached(b), described()
	b.ReportAllocs()
	for b.Loop() {
		policy.Explain(req, p)
	}
}

func BenchmarkParse(b *testing.B) {
	text := `{"Version":"2012-10-17","Statement":[{"Sid":"A","Effect":"Allow","Action":["eks:*","iam:Get?*"],"Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"us-east-1"}}}]}`
	b.ReportAllocs()
	for b.Loop() {
		if _, err := policy.Parse(policy.Identity, text); err != nil {
			b.Fatal(err)
		}
	}
}

// Decisions do not leak memory. BenchmarkMillionDecisions makes more of them.
func TestDecisionsDoNotGrow(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	if grown := decideAndMeasure(t, n); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes in %d decisions", grown, n)
	}
}

func BenchmarkMillionDecisions(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(decideAndMeasure(b, 1_000_000)), "heap-growth-B")
	}
}

// decideAndMeasure makes n decisions and returns by how much the heap grew.
func decideAndMeasure(tb testing.TB, n int) int64 {
	tb.Helper()
	p, req := attached(tb), described()
	p.Identity = p.Identity[9:]
	decide := func(n int) {
		for range n {
			if !policy.Evaluate(req, p).Allowed {
				tb.Fatal("refused")
			}
		}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	decide(1000)
	before := heap()
	decide(n)
	return heap() - before
}

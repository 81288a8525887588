package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/advice"
)

func TestDiagnosis(t *testing.T) {
	d := Diagnosis{Account: "111122223333", Region: "eu-west-1", Cluster: "prod", Status: "ACTIVE", Checked: 4, Findings: []Ill{
		{Harm: HarmUnknown, Check: "node", Subject: "i-3", Text: "the source did not allow ec2:DescribeSubnets"},
		{Harm: HarmWarning, Check: "public-access", Subject: "prod", Text: "everybody"},
		{Harm: HarmError, Check: "node", Subject: "i-1", Text: "<identity> fails", Evidence: []string{"✘ identity"}, Fixes: []advice.Fix{{Commands: []string{"aws eks create-access-entry"}}}},
		{Harm: HarmError, Check: "node", Subject: "i-2", Text: "<identity> fails"},
	}}
	d.Sort()
	text := d.Text()
	for _, want := range []string{"is ACTIVE: 4 checks, 4 findings.", "error: node i-1, i-2: <identity> fails\n  ✘ identity\n  fix: aws eks create-access-entry\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if e, w, u := strings.Index(text, "error:"), strings.Index(text, "warning:"), strings.Index(text, "unknown:"); e < 0 || w < e || u < w {
		t.Errorf("not sorted by harm:\n%s", text)
	}
	var b bytes.Buffer
	if err := d.HTML(&b); err != nil || strings.Contains(b.String(), "<identity>") || !strings.Contains(b.String(), "&lt;identity&gt; fails") {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := d.SARIF(&b); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	if r := log.Runs[0].Results; log.Version != "2.1.0" || len(r) != 4 || r[0].Level != "error" || r[3].Level != "note" || !strings.HasSuffix(r[0].Message.Text, "fix: aws eks create-access-entry") {
		t.Errorf("%s", b.String())
	}
}

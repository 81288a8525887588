package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
)

func TestDoctorReportsWhatTheProbeFinds(t *testing.T) {
	want := probe.Run()
	for _, output := range []string{"text", "json"} {
		var out, errs bytes.Buffer
		code := Run(context.Background(), []string{"doctor", "containers", "--output", output}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, Config{})
		if (code == 0) != want.Available {
			t.Errorf("%s: exit code %d, available %v: %s", output, code, want.Available, &errs)
		}
		if output == "json" {
			var got probe.Report
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			continue
		}
		for _, c := range want.Checks {
			if !strings.Contains(out.String(), c.Found) || !strings.Contains(out.String(), c.Fix) {
				t.Errorf("the table lacks %v:\n%s", c, &out)
			}
		}
	}
}

func TestUpSaysWhichNodesCanRun(t *testing.T) {
	for _, tc := range []struct {
		name   string
		report probe.Report
		want   string
	}{
		{"everything", probe.Report{Available: true}, "simulated, containers"},
		{"no limits", probe.Report{Available: true, Checks: []probe.Check{{Name: probe.Limits, Level: probe.Limited, Found: "no cpu controller"}}},
			"simulated, containers with limits: resource limits: no cpu controller (drydock doctor containers)"},
		{"nothing", probe.Report{Checks: []probe.Check{{Name: probe.Overlay, Level: probe.Missing, Found: "not in the kernel"}}},
			"simulated; not containers: overlay: not in the kernel (drydock doctor containers)"},
	} {
		if got := runtimes(tc.report); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
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
			if diff := gocmp.Diff(want, got); diff != "" {
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

// If deleting the twin fails, the error names it, whatever the outcome of the command itself. --discard without a source is refused.
func TestDiscard(t *testing.T) {
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the store is closed", http.StatusInternalServerError)
	}))
	defer failing.Close()
	f := importFlags{discard: true, replay: "prod"}
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 2, ""},
		{&ExitError{Code: 1}, 1, ""},
		{&ExitError{2, errors.New("no such cluster")}, 2, "no such cluster\n"},
		{errors.New("broken pipe"), 2, "broken pipe\n"},
	} {
		err := f.discarded(t.Context(), &api.Client{Daemon: api.DaemonInfo{URL: failing.URL}}, "111122223333", tt.err)
		exit, ok := errors.AsType[*ExitError](err)
		if !ok || exit.Code != tt.code || !strings.HasPrefix(err.Error(), tt.want+"deleting the twin: ") || !strings.HasSuffix(err.Error(), "\nTry: drydock reset --account 111122223333") {
			t.Errorf("after %v: %v", tt.err, err)
		}
	}
	dir := playDaemon(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s is asked", r.URL) })
	for _, command := range []string{"doctor", "rehearse upgrade c"} {
		var errs bytes.Buffer
		code := Run(t.Context(), append([]string{"--data-dir", dir}, strings.Fields(command+" --discard")...), Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}, Config{})
		if code != 2 || !strings.Contains(errs.String(), "--discard deletes a twin that this command makes: add --profile") {
			t.Errorf("%s: exit code %d: %s", command, code, &errs)
		}
	}
}

// A question that reads AWS first replaces a twin only if it would be made as it is, and deletes none that the user has made.
func TestQuestionsSpareTwins(t *testing.T) {
	of := recording.Source{Format: recording.FormatVersion, Partition: "aws", Account: "111122223333", Region: "eu-west-1", Clusters: []string{"prod"}, IAM: recording.UsedIAM, Redacted: true, Complete: true}
	dir := filepath.Join(t.TempDir(), "recording")
	f, err := twin.OpenFolder(dir, of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(of); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, flags, want string // of the error, or empty if the twin is made
		there             []api.Twin
	}{
		{"none", "", "", nil},
		{"none, to be deleted", "--discard", "", nil},
		{"of another account", "", "", []api.Twin{{Account: "444455556666", Changed: true}}},
		{"the same", "", "", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM, Redacted: true}}},
		{"the same, to be deleted", "--discard", "account 111122223333 is already a twin, which this command would replace", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM, Redacted: true}}},
		{"with changes", "", "is already a twin in which something was changed, which", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM, Redacted: true, Changed: true}}},
		{"with changes, to be replaced", "--replace", "", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM, Redacted: true, Changed: true}}},
		{"of another region", "", "is already a twin of us-east-1, which", []api.Twin{{Account: of.Account, Region: "us-east-1", Clusters: of.Clusters, IAM: of.IAM, Redacted: true}}},
		{"of all clusters", "", "is already a twin of all clusters, which", []api.Twin{{Account: of.Account, Region: of.Region}}},
		{"of others, too", "", "is already a twin of prod, test, which", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: []string{"prod", "test"}}}},
		{"with all of IAM", "", "is already a twin that was read with --iam all, which", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, Redacted: true}}},
		{"with values of Secrets", "", "is already a twin that was read with --secrets, which", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM, Redacted: true, Secrets: true}}},
		{"unmasked", "", "is already a twin that was read with --unredacted, which", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM}}},
		{"without objects", "", "is already a twin that was read with --no-kubernetes, which", []api.Twin{{Account: of.Account, Region: of.Region, Clusters: of.Clusters, IAM: of.IAM, Redacted: true, NoKubernetes: true}}},
	} {
		for _, command := range []string{"doctor --cluster prod", "rehearse upgrade prod"} {
			var made, changed bool
			data := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/_drydock/twins":
					_ = json.NewEncoder(w).Encode(tt.there)
				case "/_drydock/twin":
					made = true
					if r.FormValue("unchanged") != "true" || r.FormValue("absent") != strconv.FormatBool(tt.flags == "--discard") || r.FormValue("replace") != strconv.FormatBool(tt.flags == "--replace") {
						t.Errorf("%s, %s: sent with %v", tt.name, command, r.Form)
					}
					http.Error(w, "enough is known", http.StatusBadRequest)
				default:
					changed = true
				}
			})
			var errs bytes.Buffer
			args := append([]string{"--data-dir", data}, strings.Fields(command+" --replay "+dir+" "+tt.flags)...)
			code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}, Config{})
			if code != 2 || changed || made != (tt.want == "") || !strings.Contains(errs.String(), cmp.Or(tt.want, "enough is known")) {
				t.Errorf("%s, %s: code %d, made %v, changed %v: %s", tt.name, command, code, made, changed, &errs)
			}
			if tt.want == "" {
				continue
			}
			try := command + " --account 111122223333 --region " + of.Region
			if tt.there[0].Region != of.Region { // that twin does not have the cluster
				try = "status"
			}
			if !strings.HasSuffix(errs.String(), "\nTry: drydock "+try+"\n") {
				t.Errorf("%s, %s: what to try is not %q: %s", tt.name, command, try, &errs)
			}
		}
	}
}

// A twin that is changed while its source is being read is not replaced.
func TestTwinChangedWhileReading(t *testing.T) {
	of := recording.Source{Format: recording.FormatVersion, Partition: "aws", Account: "111122223333", Region: "eu-west-1", Clusters: []string{"prod"}, Complete: true}
	dir := filepath.Join(t.TempDir(), "recording")
	f, err := twin.OpenFolder(dir, of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(of); err != nil {
		t.Fatal(err)
	}
	there := api.Twin{Account: of.Account, Region: of.Region, Clusters: of.Clusters}
	data := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/_drydock/twins":
			_ = json.NewEncoder(w).Encode([]api.Twin{there})
		case "/_drydock/twin":
			there.Changed = true
			http.Error(w, "account 111122223333 is a twin that this import may not replace", http.StatusConflict)
		}
	})
	var errs bytes.Buffer
	code := Run(t.Context(), []string{"--data-dir", data, "doctor", "--cluster", "prod", "--replay", dir}, Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}, Config{})
	if code != 2 || !strings.Contains(errs.String(), "is already a twin in which something was changed") || !strings.HasSuffix(errs.String(), "\nTry: drydock doctor --cluster prod --account 111122223333 --region eu-west-1\n") {
		t.Errorf("code %d: %s", code, &errs)
	}
}

// The exit code of a diagnosis says what was found, whatever the form in which it is printed.
func TestDoctorExitCodes(t *testing.T) {
	of := func(harms ...string) api.Diagnosis {
		d := api.Diagnosis{Cluster: "prod", Status: "ACTIVE", Checked: 7, Findings: []api.Ill{}}
		for _, h := range harms {
			d.Findings = append(d.Findings, api.Ill{Harm: h, Check: "node", Subject: "i-1", Text: "it is " + h, Evidence: []string{"seen"}})
		}
		return d
	}
	for _, tt := range []struct {
		name   string
		status int
		answer api.Diagnosis
		want   int
	}{
		{"nothing", 200, of(), 0},
		{"warnings", 200, of(api.HarmWarning), 0},
		{"errors", 200, of(api.HarmWarning, api.HarmError), 1},
		{"errors and unknowns", 200, of(api.HarmError, api.HarmUnknown), 1},
		{"unknowns", 200, of(api.HarmWarning, api.HarmUnknown), 3},
		{"no such cluster", http.StatusNotFound, of(), 2},
		{"a cluster that could not be read", api.StatusUnknown, of(), 3},
	} {
		for form, begins := range map[string]string{"text": "Cluster prod", "json": "{", "sarif": "{", "html": "<!"} {
			dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/_drydock/doctor" || r.FormValue("cluster") != "prod" {
					t.Errorf("%s is asked", r.URL)
				}
				if tt.status != 200 {
					http.Error(w, "no", tt.status)
					return
				}
				_ = json.NewEncoder(w).Encode(tt.answer)
			})
			var out, errs bytes.Buffer
			code := Run(t.Context(), []string{"--data-dir", dir, "doctor", "--cluster", "prod", "--output", form}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, Config{})
			if code != tt.want {
				t.Errorf("%s, %s: exit code %d, want %d: %s%s", tt.name, form, code, tt.want, &out, &errs)
			}
			if tt.status == 200 && (!strings.HasPrefix(out.String(), begins) || len(tt.answer.Findings) > 0 && !strings.Contains(out.String(), "it is "+tt.answer.Findings[0].Harm)) {
				t.Errorf("%s, %s: %s", tt.name, form, &out)
			}
		}
	}
}

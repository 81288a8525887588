package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
)

func run(t *testing.T, dataDir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(context.Background(), append([]string{"--data-dir", dataDir}, args...), Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, Config{
		Version: Version{Drydock: "v1", Kubernetes: "v1.36.3", Go: "go1.26"},
		RunDaemon: func(_ context.Context, cfg DaemonConfig, ready func(api.DaemonInfo)) error {
			ready(api.DaemonInfo{URL: "http://" + cfg.Listen.String(), DataDir: cfg.DataDir, Version: "v1", AccessKeyID: "test"})
			return nil
		},
		Supports: func() ([]api.ServiceSupport, error) {
			return []api.ServiceSupport{
				{Service: "ec2", Title: "EC2", Handled: 1, Partly: 1, Not: 1, Operations: []api.OperationSupport{
					{Service: "ec2", Operation: "CreateTransitGateway", State: api.SupportNone, Why: "it routes nothing"},
					{Service: "ec2", Operation: "CreateVpc", State: api.SupportHandled},
					{Service: "ec2", Operation: "RunInstances", State: api.SupportPartly, Refused: []string{"KernelId", "Placement.HostId"}, Except: "dedicated hosts"},
				}},
				{Service: "service-quotas", Title: "Service Quotas"},
			}, nil
		},
	})
	return code, out.String(), errs.String()
}

func TestEveryFailureSaysWhatToTry(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name, want string
		args       []string
		code       int
	}{
		{"status without a daemon", "Try: drydock up -d --data-dir " + dir + "\n", []string{"status"}, 1},
		{"env without a daemon", "Try: drydock up -d", []string{"env"}, 1},
		{"run without a daemon", "Try: drydock up -d", []string{"run", "--", "true"}, 1},
		{"reset without a daemon", "Try: drydock up -d", []string{"reset"}, 1},
		{"unknown flag", "Try: drydock up --help", []string{"up", "--nonsense"}, 2},
		{"a port out of range", "invalid argument \"99999\" for \"--port\" flag: value out of range\nTry: drydock up --help", []string{"up", "--port", "99999"}, 2},
		{"not a number", "flag: invalid syntax\n", []string{"up", "--port", `a"b`}, 2},
		{"bad address", "not an IP address", []string{"up", "--listen", "nowhere"}, 2},
		{"every host name", "--allow-host \"*\" is not a host name", []string{"up", "--allow-host", "*"}, 2},
		{"a URL for a host name", "without scheme and port", []string{"up", "--allow-host", "http://drydock.example:4566"}, 2},
		{"bad client address", "not an IP address", []string{"up", "--client-address", "x"}, 2},
		{"bad timing", "neither fast nor aws", []string{"up", "--timing", "slow"}, 2},
		{"bad quota", "only these quotas can be set", []string{"up", "--quota", "pods=3"}, 2},
		{"bad account", "not a 12-digit account ID", []string{"reset", "--account", "12"}, 2},
		{"a fault without a daemon", "Try: drydock up -d", []string{"fault", "set", "capacity", "--type", "m5.large"}, 1},
		{"bad output of faults", "neither text nor json", []string{"fault", "list", "--output", "yaml"}, 2},
		{"bad output, and what to try", "nor json\nTry: drydock why node --help", []string{"why", "node", "i-1", "--output", "yaml"}, 2},
		{"bad output", "neither text nor json\nTry: drydock status --output json\n", []string{"status", "--output", "yaml"}, 2},
		{"unknown command", "Try: drydock status", []string{"statsu"}, 2},
		{"nothing like a command", "Try: drydock --help", []string{"nonsense"}, 2},
		{"unknown command of a group", "Try: drydock why --help", []string{"why", "nonsense"}, 2},
		{"kind of fault without set", `unknown command "terminate" for "drydock fault"`, []string{"fault", "terminate", "i-1"}, 2},
		{"misspelt command of a group", "Try: drydock fault set terminate", []string{"fault", "set", "terminat"}, 2},
		{"missing argument", "accepts 1 arg(s), received 0; the usage is drydock why node", []string{"why", "node"}, 2},
		{"token of no cluster", "--cluster is missing\nTry: drydock token --cluster NAME", []string{"token"}, 2},
		{"fault without a target", "missing argument: INSTANCE-ID; the usage is drydock fault set isolate INSTANCE-ID [flags]\nTry: drydock fault set isolate --help\n", []string{"fault", "set", "isolate"}, 2},
		{"argument too many", "Try: drydock token --help", []string{"token", "dev"}, 2},
		{"nothing to run", "Try: drydock run --help", []string{"run"}, 2},
		{"flag of Kubernetes' programs", "unknown flag: --version", []string{"status", "--version"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := run(t, dir, tt.args...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, want %d; stderr %q, want %q in it", code, tt.code, stderr, tt.want)
			}
		})
	}
}

func TestHintsNameOnlyAnUnusualDataFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DRYDOCK_DATA_DIR", dir)
	if _, _, stderr := run(t, dir, "status"); !strings.HasSuffix(stderr, "\nTry: drydock up -d\n") {
		t.Errorf("stderr %q", stderr)
	}
}

// A group alone shows its commands, as --help does.
func TestGroupsShowTheirCommands(t *testing.T) {
	dir := t.TempDir()
	for _, group := range [][]string{nil, {"why"}, {"fault"}, {"fault", "set"}, {"rehearse"}, {"ami"}, {"support"}} {
		code, stdout, stderr := run(t, dir, group...)
		_, help, _ := run(t, dir, append(group, "--help")...)
		if code != 0 || stderr != "" || stdout != help || !strings.Contains(stdout, "Available Commands:") {
			t.Errorf("%q: exit code %d, stderr %q, stdout:\n%s", group, code, stderr, stdout)
		}
	}
}

func TestVersionFlagIsDrydocksOwn(t *testing.T) {
	dir := t.TempDir()
	code, flag, stderr := run(t, dir, "--version")
	if _, command, _ := run(t, dir, "version"); code != 0 || stderr != "" || flag != command || flag != "drydock v1 (Kubernetes v1.36.3, go1.26)\n" {
		t.Errorf("exit code %d, stderr %q: --version prints %q, version %q", code, stderr, flag, command)
	}
}

func TestUpSaysWhereItListensAndKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := run(t, dir, "up", "--port", "4999")
	if code != 0 || stdout != "" {
		t.Fatalf("exit code %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"http://127.0.0.1:4999", dir, "access key test", "--data-dir " + dir} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in:\n%s", want, stderr)
		}
	}
}

// up prints the startup notice and the CA for --allow-host names.
func TestUpAnnounces(t *testing.T) {
	var errs bytes.Buffer
	up := &upOptions{globalOptions: &globalOptions{streams: Streams{Err: &errs}}}
	up.describe(api.DaemonInfo{Notice: "The certificate authority was replaced.", NamedCAFile: "/d/named-ca.pem"}, DaemonConfig{})
	for _, want := range []string{"The certificate authority was replaced.\n", "/d/named-ca.pem"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not in:\n%s", want, errs.String())
		}
	}
}

// A record left by a daemon that was killed counts as no daemon.
func TestStaleRecordIsNoDaemon(t *testing.T) {
	dir := t.TempDir()
	b, err := json.Marshal(api.DaemonInfo{PID: 1<<22 + 1, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(api.InfoFile(dir), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, dir, "down"); code != 0 || !strings.Contains(stderr, "No Drydock is running") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestEnvironmentWinsOverTheCallersOwn(t *testing.T) {
	info := api.DaemonInfo{URL: "http://127.0.0.1:1", Token: "t", AccessKeyID: "test", SecretAccessKey: "test", CAFile: "/ca.pem"}
	got := childEnv([]string{"HOME=/h", "AWS_PROFILE=prod", "AWS_SESSION_TOKEN=x", "AWS_ENDPOINT_URL_EKS=https://real", "AWS_REGION=eu-west-1", "NO_PROXY=corp.example", "HTTPS_PROXY=http://corp:3128"}, info, "/bundle.pem", "http://127.0.0.1:2")
	for _, want := range []string{"HOME=/h", "AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_ENDPOINT_URL_STS=http://127.0.0.1:1", "AWS_REGION=us-east-1", "AWS_CA_BUNDLE=/bundle.pem", "SSL_CERT_FILE=/bundle.pem", "HTTPS_PROXY=http://127.0.0.1:2", "DRYDOCK_TOKEN=t", "NO_PROXY=corp.example,localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	for _, kv := range got {
		name, _, _ := strings.Cut(kv, "=")
		if name == "AWS_PROFILE" || name == "AWS_SESSION_TOKEN" || name == "AWS_ENDPOINT_URL_EKS" || kv == "HTTPS_PROXY=http://corp:3128" {
			t.Errorf("%s would lead the client elsewhere", kv)
		}
	}
	// Go programs trust Drydock's certificate everywhere but on macOS.
	for _, want := range []string{"AWS_ENDPOINT_URL_S3=https://127.0.0.1:1", "AWS_ENDPOINT_URL_SQS=https://127.0.0.1:1"} {
		if slices.Contains(got, want) != (runtime.GOOS != "darwin") {
			t.Errorf("%s: %v", want, got)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:4566": "http://127.0.0.1:4566",
		"":                      "''",
		"a b":                   "'a b'",
		"it's $HOME":            `'it'\''s $HOME'`,
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

// playDaemon answers pings and serves a daemon's other paths with h, and returns the folder
// in which commands find it.
func playDaemon(t *testing.T, h http.HandlerFunc) (dataDir string) {
	t.Helper()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_drydock/ping" {
			h(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(api.Ping{PID: os.Getpid()})
	}))
	t.Cleanup(daemon.Close)
	dir := t.TempDir()
	if err := api.WriteInfo(api.DaemonInfo{PID: os.Getpid(), URL: daemon.URL, DataDir: dir, AccessKeyID: "test", SecretAccessKey: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

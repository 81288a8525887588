package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An applier applies the configurations of acceptance tests with a released provider, many tests in one Terraform run:
// each test's configuration is a module. It is cheaper by far than the tests' own binaries. It checks what the tests
// check of the state, and that the plan after each step is empty; imports and the tests' own calls to AWS are left out.
type applier struct {
	work, drydock, terraform, provider string
	attach                             string // TF_REATTACH_PROVIDERS
	stop                               func()
}

// A candidate is a test whose configurations are known.
type candidate struct {
	test
	steps  []step
	dir    string // of its module
	frozen bool   // it failed, and keeps the configuration of the last step that worked
	faults []string
}

func (c *candidate) fault(step int, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("step %d: ", step+1)+fmt.Sprintf(format, args...))
}

// start runs the provider as a server that all runs share.
func (a *applier) start(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, a.drydock, "run", "--", "env", "-u", "AWS_CA_BUNDLE", "AWS_REGION=us-west-2", "AWS_DEFAULT_REGION=us-west-2", a.provider, "-debug")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	a.stop = func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }
	in := bufio.NewScanner(out)
	for in.Scan() {
		if _, value, ok := strings.Cut(in.Text(), "TF_REATTACH_PROVIDERS='"); ok {
			a.attach = strings.TrimSuffix(value, "'")
			go func() { // the provider must not block on its output
				for in.Scan() {
				}
			}()
			return nil
		}
	}
	a.stop()
	return errors.New("the provider does not start")
}

// A diagnostic is an error of a Terraform run.
type diagnostic struct {
	Severity, Summary, Detail, Address string
	Range                              *struct{ Filename string }
}

// run runs a command and returns its errors. A run that was only refused has errors and no error.
func (a *applier) run(ctx context.Context, dir string, args ...string) ([]diagnostic, []byte, error) {
	cmd := exec.CommandContext(ctx, a.terraform, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TF_REATTACH_PROVIDERS="+a.attach, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var found []diagnostic
	for line := range bytes.Lines(out) {
		var e struct{ Diagnostic *diagnostic }
		if json.Unmarshal(line, &e) == nil && e.Diagnostic != nil && e.Diagnostic.Severity == "error" {
			found = append(found, *e.Diagnostic)
		}
	}
	if err != nil && len(found) == 0 {
		return nil, out, fmt.Errorf("terraform %s: %w: %s %s", strings.Join(args, " "), err, stderr.String(), out)
	}
	return found, out, nil
}

var moduleOf = regexp.MustCompile(`^(?:module\.)?(t\d+)[./]`)

// owner returns the index of the test to which a diagnostic belongs, or -1.
func owner(d diagnostic) int {
	for _, s := range []string{d.Address, func() string {
		if d.Range != nil {
			return d.Range.Filename
		}
		return ""
	}()} {
		if m := moduleOf.FindStringSubmatch(s); m != nil {
			n, _ := strconv.Atoi(m[1][1:])
			return n
		}
	}
	return -1
}

func (d diagnostic) String() string {
	s := d.Summary
	if d.Detail != "" {
		s += ": " + d.Detail
	}
	if d.Address != "" {
		s += " [" + d.Address + "]"
	}
	return strings.TrimSpace(space.ReplaceAllString(s, " "))
}

// apply runs a batch of tests of a service, in whose folder their files are, through all of their steps, and destroys what they have made.
func (a *applier) apply(ctx context.Context, dir, service string, batch []*candidate) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"test-fixtures", "testdata"} {
		files := filepath.Join(service, name)
		if _, err := os.Stat(files); err != nil {
			continue
		}
		if err := os.Symlink(files, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	var root strings.Builder
	last := 0
	for i, c := range batch {
		fmt.Fprintf(&root, "module \"t%d\" {\n  source = \"./t%d\"\n}\n", i, i)
		c.dir = filepath.Join(dir, "t"+strconv.Itoa(i))
		if err := c.write(0); err != nil {
			return err
		}
		last = max(last, len(c.steps))
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(root.String()), 0o644); err != nil {
		return err
	}
	var failure error
	for n := 0; n < last && failure == nil; n++ {
		for _, c := range batch {
			if n > 0 && n < len(c.steps) && !c.frozen {
				if err := c.write(n); err != nil {
					return err
				}
			}
		}
		failure = a.step(ctx, dir, batch, n)
	}
	for range 3 {
		found, _, err := a.run(ctx, dir, "destroy", "-auto-approve", "-json", "-parallelism=20")
		if err != nil {
			return errors.Join(failure, err)
		}
		if len(found) == 0 {
			break
		}
		for _, d := range found {
			if i := owner(d); i >= 0 {
				batch[i].fault(len(batch[i].steps), "destroy: %s", d)
			} else {
				fmt.Fprintln(os.Stderr, "destroy:", d)
			}
		}
	}
	return failure
}

func (c *candidate) write(n int) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "main.tf"), []byte(c.steps[n].config), 0o644)
}

// freeze makes a test keep its previous step's configuration, or removes it if there was no such step or that step failed, too.
func (c *candidate) freeze(n int) error {
	if n > 0 && !c.frozen {
		c.frozen = true
		return c.write(n - 1)
	}
	c.frozen = true
	return os.WriteFile(filepath.Join(c.dir, "main.tf"), nil, 0o644)
}

func (a *applier) step(ctx context.Context, dir string, batch []*candidate, n int) error {
	for range 2*len(batch) + 5 {
		if n == 0 {
			if found, _, err := a.run(ctx, dir, "init", "-json", "-input=false"); err != nil {
				return err
			} else if again, err := drop(batch, n, "", found); err != nil {
				return err
			} else if again {
				continue
			}
		}
		found, out, err := a.run(ctx, dir, "apply", "-auto-approve", "-json", "-input=false", "-parallelism=20")
		if err != nil {
			return err
		}
		if changes(out) || len(found) == 0 {
			for _, d := range found {
				if i := owner(d); i >= 0 {
					batch[i].fault(n, "%s", d)
					batch[i].frozen = true
				} else {
					fmt.Fprintln(os.Stderr, d)
				}
			}
			return a.examine(ctx, dir, batch, n)
		}
		// It is not even planned: the tests that are at fault leave the batch.
		if again, err := drop(batch, n, "", found); err != nil {
			return err
		} else if !again {
			return fmt.Errorf("nothing can be planned: %v", found)
		}
	}
	return errors.New("the batch cannot be planned")
}

// changes reports whether an apply has begun to change something. Planning reads data sources, which looks similar.
func changes(out []byte) bool {
	for line := range bytes.Lines(out) {
		var e struct {
			Type string
			Hook struct{ Action string }
		}
		if json.Unmarshal(line, &e) == nil && e.Type == "apply_start" && e.Hook.Action != "read" {
			return true
		}
	}
	return false
}

// drop freezes the tests that are at fault, and reports whether there are any.
func drop(batch []*candidate, n int, what string, found []diagnostic) (bool, error) {
	at := map[int]bool{}
	for _, d := range found {
		if i := owner(d); i >= 0 {
			batch[i].fault(n, "%s%s", what, d)
			at[i] = true
		}
	}
	for i := range at {
		if err := batch[i].freeze(n); err != nil {
			return false, err
		}
	}
	return len(at) > 0, nil
}

// examine compares the state with the checks of a step, and the next plan with the state.
func (a *applier) examine(ctx context.Context, dir string, batch []*candidate, n int) error {
	applied, err := a.state(ctx, dir)
	if err != nil {
		return err
	}
	for i, c := range batch {
		if c.frozen || n >= len(c.steps) {
			continue
		}
		for _, k := range c.steps[n].checks {
			if text := k.examine(applied[i]); text != "" {
				c.fault(n, "%s", text)
			}
		}
	}
	for range 2*len(batch) + 5 {
		found, _, err := a.run(ctx, dir, "plan", "-json", "-input=false", "-out=plan", "-parallelism=20")
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return a.unchanged(ctx, dir, batch, n)
		}
		// The tests that are at fault leave the batch, so that the others can be planned.
		if again, err := drop(batch, n, "second plan: ", found); err != nil {
			return err
		} else if !again {
			return fmt.Errorf("not examined, because the second plan fails: %v", found)
		}
	}
	return errors.New("not examined, because the second plan of the batch fails")
}

// unchanged checks that a plan of the tests has no changes.
func (a *applier) unchanged(ctx context.Context, dir string, batch []*candidate, n int) error {
	_, out, err := a.run(ctx, dir, "show", "-json", "plan")
	if err != nil {
		return err
	}
	var plan struct {
		ResourceChanges []struct {
			Address string
			Change  struct {
				Actions       []string
				Before, After any
			}
		} `json:"resource_changes"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return err
	}
	for _, c := range plan.ResourceChanges {
		i := owner(diagnostic{Address: c.Address})
		if i < 0 || batch[i].frozen || n >= len(batch[i].steps) || batch[i].steps[n].nonEmpty || slices.Equal(c.Change.Actions, []string{"no-op"}) || slices.Equal(c.Change.Actions, []string{"read"}) {
			continue
		}
		batch[i].fault(n, "the second plan is not empty: %s %v: %s", c.Address, c.Change.Actions, difference(c.Change.Before, c.Change.After))
	}
	return nil
}

// state returns the attributes of each test's resources, as they were applied: a refresh turns some absent values into
// empty ones.
func (a *applier) state(ctx context.Context, dir string) (map[int]map[string]map[string]string, error) {
	_, out, err := a.run(ctx, dir, "show", "-json")
	if err != nil {
		return nil, err
	}
	var shown struct {
		Values struct {
			RootModule struct {
				ChildModules []struct {
					Address   string
					Resources []struct {
						Address string
						Values  map[string]any
					}
				} `json:"child_modules"`
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		return nil, err
	}
	states := map[int]map[string]map[string]string{}
	for _, m := range shown.Values.RootModule.ChildModules {
		state := map[string]map[string]string{}
		for _, r := range m.Resources {
			flat := map[string]string{}
			flatten(flat, "", r.Values)
			state[strings.TrimSuffix(strings.TrimPrefix(r.Address, m.Address+"."), "[0]")] = flat
		}
		if i := owner(diagnostic{Address: m.Address + "."}); i >= 0 {
			states[i] = state
		}
	}
	return states, nil
}

func difference(before, after any) string {
	was, is := map[string]string{}, map[string]string{}
	flatten(was, "", before)
	flatten(is, "", after)
	var out []string
	for k, v := range was {
		if is[k] != v {
			out = append(out, fmt.Sprintf("%s %.60q → %.60q", k, v, is[k]))
		}
	}
	for k, v := range is {
		if _, ok := was[k]; !ok {
			out = append(out, fmt.Sprintf("%s → %.60q", k, v))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 6)], "; ")
}

// flatten names values as the tests do: a.0.b, with a.# and m.% for the sizes of lists and maps.
func flatten(out map[string]string, prefix string, v any) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		if prefix != "" {
			out[prefix+".%"] = strconv.Itoa(len(v))
			prefix += "."
		}
		for k, x := range v {
			flatten(out, prefix+k, x)
		}
	case []any:
		out[prefix+".#"] = strconv.Itoa(len(v))
		for i, x := range v {
			flatten(out, prefix+"."+strconv.Itoa(i), x)
		}
	case float64:
		out[prefix] = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		out[prefix] = fmt.Sprint(v)
	}
}

func (k check) examine(state map[string]map[string]string) string {
	r, ok := state[k.address]
	if !ok {
		return fmt.Sprintf("%s is not in the state", k.address)
	}
	got, ok := r[k.key]
	switch k.kind {
	case "TestCheckResourceAttr":
		if got != k.value && !(k.value == "0" && got == "") {
			return fmt.Sprintf("%s: %s is %.200q, want %.200q", k.address, k.key, got, k.value)
		}
	case "TestCheckResourceAttrSet":
		if got == "" {
			return fmt.Sprintf("%s: %s is not set", k.address, k.key)
		}
	case "TestCheckNoResourceAttr":
		if ok && got != "" && got != "0" { // an empty list counts as none
			return fmt.Sprintf("%s: %s is %.200q, want none", k.address, k.key, got)
		}
	}
	return ""
}

// measure applies the tests' configurations in batches.
func measure(ctx context.Context, source, work, provider string, tests []test, size int) ([]outcome, error) {
	work, err := filepath.Abs(filepath.Join(work, "apply"))
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(work); err != nil {
		return nil, err
	}
	drydock, err := filepath.Abs("bin/drydock")
	if err != nil {
		return nil, err
	}
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		return nil, err
	}
	modules := filepath.Join(os.Getenv("HOME"), "go/pkg/mod")
	if out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output(); err == nil {
		modules = strings.TrimSpace(string(out))
	}
	e := &evaluator{source: source, modules: modules, packages: map[string]*declarations{}}
	var outcomes []outcome
	byService := map[string][]*candidate{}
	var services []string
	for _, t := range tests {
		steps, why := e.stepsOf(providerPath+"internal/service/"+t.service, t.name)
		if slices.ContainsFunc(steps, func(s step) bool { return strings.Contains(s.config, "provider \"aws") }) {
			steps, why = nil, "it configures the provider, which all tests of a run share"
		}
		if len(steps) == 0 {
			t.reason = "nothing to apply: " + why
			outcomes = append(outcomes, outcome{t, refused})
			continue
		}
		if byService[t.service] == nil {
			services = append(services, t.service)
		}
		byService[t.service] = append(byService[t.service], &candidate{test: t, steps: steps[:min(len(steps), 2)]})
	}
	a := &applier{work: work, drydock: drydock, terraform: terraform, provider: provider}
	up := &runner{work: work, drydock: drydock}
	for _, s := range services {
		down, err := up.up(ctx)
		if err != nil {
			return outcomes, err
		}
		err = func() error {
			defer down()
			if slices.Contains(inVPCs, s) {
				if err := a.prepare(ctx); err != nil {
					return err
				}
			}
			if err := a.start(ctx); err != nil {
				return err
			}
			defer func() { a.stop() }()
			n := 0
			size := size
			if s == "elb" {
				size = min(size, 16) // an account may have 20 Classic Load Balancers
			}
			for batch := range slices.Chunk(byService[s], size) {
				n++
				begin := time.Now()
				err := a.apply(ctx, filepath.Join(work, s+strconv.Itoa(n)), filepath.Join(source, "internal/service", s), batch)
				if err != nil {
					fmt.Fprintln(os.Stderr, "tfacc:", s, "batch", n, err)
				}
				for _, c := range batch {
					o := outcome{c.test, passed}
					switch joined := strings.Join(c.faults, " | "); {
					case err != nil && len(c.faults) == 0:
						o.end, o.reason = unending, err.Error()
					case notImplemented.MatchString(joined):
						o.end, o.reason = refused, notImplemented.FindStringSubmatch(joined)[1]
					case len(c.faults) > 0:
						o.end, o.reason = failed, joined
					}
					outcomes = append(outcomes, o)
					if o.end != passed {
						fmt.Fprintf(os.Stderr, "%s %s: %.1500s\n", o.end, c.name, o.reason)
					}
				}
				fmt.Fprintf(os.Stderr, "%s: batch %d of %d tests took %s\n", s, n, len(batch), time.Since(begin).Round(time.Second))
			}
			return nil
		}()
		if err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

// inVPCs are the services whose tests make VPCs.
var inVPCs = []string{"ec2", "eks", "autoscaling", "elb", "elbv2", "ssm"}

// prepare allows what the tests of a batch make at once, and creates the service-linked role that a test expects of an account.
func (a *applier) prepare(ctx context.Context) error {
	for _, command := range []string{
		"service-quotas request-service-quota-increase --service-code vpc --quota-code L-F678F1CE --desired-value 1000",
		"service-quotas request-service-quota-increase --service-code vpc --quota-code L-A4707A72 --desired-value 1000",
		"service-quotas request-service-quota-increase --service-code vpc --quota-code L-FE5A380F --desired-value 1000",
		"service-quotas request-service-quota-increase --service-code ec2 --quota-code L-0263D0A3 --desired-value 1000",
		"iam create-service-linked-role --aws-service-name autoscaling.amazonaws.com",
	} {
		args := append([]string{"run", "--", "aws", "--region", environment["Region"]}, strings.Fields(command)...)
		if out, err := exec.CommandContext(ctx, a.drydock, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("aws %s: %w: %s", command, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

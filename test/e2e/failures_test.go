package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/failures"
)

// TestFailures plays every row of internal/failures: it breaks, launches, looks at
// AWS's symptom, asks `drydock why`, mends, and waits for the recovery. The commands
// are the table's own, run by a shell with the AWS CLI and kubectl.
//
// Rows of the open network are played at once, in phases; those of the closed one
// have its endpoints for themselves in turn.
func TestFailures(t *testing.T) { playFailures(t, os.Getenv("NODE_RUNTIME"), failures.All()) }

// containerRows are those that CI plays on nodes that run containers, too: one of each class. `make failures-containers` plays
// all.
var containerRows = []string{"cluster-sg-ingress", "endpoint-group", "not-mapped", "no-cni-policy", "no-user-data", "cluster-tag", "pod-image-name", "session-policy"}

// TestFailuresOnContainers plays some rows on nodes that run containers: the verdicts are the same.
func TestFailuresOnContainers(t *testing.T) {
	if ok, err := condition("containers"); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Skip("nodes cannot run containers here: drydock doctor containers")
	}
	var rows []failures.Failure
	for _, f := range failures.All() {
		if slices.Contains(containerRows, f.ID) {
			rows = append(rows, f)
		}
	}
	if len(rows) != len(containerRows) {
		t.Fatalf("%d of the rows %v exist", len(rows), containerRows)
	}
	playFailures(t, "containers", rows)
}

// playFailures plays rows on nodes of a runtime; empty means the default.
func playFailures(t *testing.T, runtime string, rows []failures.Failure) {
	if ok, err := condition("clients:aws,kubectl"); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Skip("needs the aws CLI and kubectl")
	}
	w := newFailureWorld(t, runtime)
	var open, closed []*failure
	for _, row := range rows {
		f := &failure{Failure: row, w: w}
		if row.World == failures.Open {
			open = append(open, f)
		} else {
			closed = append(closed, f)
		}
	}
	t.Run("play", func(t *testing.T) {
		t.Run("closed", func(t *testing.T) {
			t.Parallel()
			var copied *twinDaemon // with TWINS=1
			if twinsPlayed() {
				copied = w.newTwin(t)
			}
			for _, f := range closed {
				t.Run(f.ID, func(t *testing.T) {
					mended := false
					defer w.judge(t, f) // once the endpoint answers again
					defer func() {
						if !mended { // the next row shall find the network whole
							for _, c := range f.Fix {
								_, _ = f.try(w.ctx, c)
							}
						}
					}()
					w.begin(t)
					f.prepare(t)
					f.launch(t)
					f.explained(t)
					if copied != nil {
						copied.run(t, "import --region us-east-1 --replace --cluster "+f.vars["CLUSTER"])
						f.onTwin(t, copied)
					}
					mended = true
					f.mend(t)
					f.recovered(t)
					for _, c := range f.Restore {
						if out, err := f.try(w.ctx, c); err != nil { // the table's own fix leaves nothing to take back
							t.Logf("%s: %v\n%s", c, err, out)
						}
					}
				})
			}
		})
		t.Run("open", func(t *testing.T) {
			t.Parallel()
			var copied *twinDaemon // with TWINS=1
			for _, phase := range []struct {
				name string
				run  func(*failure, *testing.T)
			}{
				{"break", (*failure).prepare}, {"launch", (*failure).launch}, {"explain", (*failure).explained},
				{"twin", func(f *failure, t *testing.T) { f.onTwin(t, copied) }},
				{"mend", (*failure).mend}, {"recover", (*failure).recovered},
			} {
				if phase.name == "twin" && !twinsPlayed() {
					continue
				}
				t.Run(phase.name, func(t *testing.T) {
					t.Cleanup(func() { w.compareNodes(t, phase.name, open) })
					if phase.name == "twin" {
						copied = w.newTwin(t)
						copied.run(t, "import --region us-east-1 --replace")
					}
					for _, f := range open {
						t.Run(f.ID, func(t *testing.T) {
							t.Parallel()
							if f.failed {
								t.Skip("an earlier phase failed")
							}
							defer func() { f.failed = f.failed || t.Failed() }()
							defer w.judge(t, f)
							w.begin(t)
							phase.run(f, t)
						})
					}
				})
			}
		})
	})
}

// A failure is one row that is being played.
type failure struct {
	failures.Failure
	w      *failureWorld
	dir    string
	vars   map[string]string
	failed bool
}

// sh runs a command of the table and returns what it printed.
func (f *failure) sh(t *testing.T, command string) string {
	t.Helper()
	out, err := f.try(f.w.ctx, command)
	if err != nil {
		t.Fatalf("%s\n%v\n%s", command, err, out)
	}
	return out
}

// try runs a command for a minute at most. Once the world has ended, the error says why.

func (f *failure) try(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if f.w.image != "" {
		command = anyImage.ReplaceAllString(command, f.w.image)
	}
	cmd := program(ctx, "bash", "-o", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = f.dir, slices.Clone(f.w.env) // rows run at once
	for k, v := range f.vars {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}

// anyImage is the image of the table's pods. What it is does not matter, but on nodes that run containers it must exist.
var anyImage = regexp.MustCompile(`\bnginx(:latest)?\b`)

// expand replaces the variables of a text.
func (f *failure) expand(text string) string {
	return os.Expand(text, func(name string) string {
		if name == "$" {
			return "$"
		}
		return f.vars[name]
	})
}

func (f *failure) writeUserData(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "user-data"), []byte(f.expand(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs commands of the table; those on aws-auth one at a time.
func (f *failure) run(t *testing.T, commands []string) {
	t.Helper()
	for _, c := range commands {
		if strings.Contains(c, "aws-auth") {
			f.alone(t, func() { f.sh(t, c) })
		} else {
			f.sh(t, c)
		}
	}
}

// alone reads something and replaces it, while no other row does.
func (f *failure) alone(t *testing.T, do func()) {
	t.Helper()
	select {
	case f.w.mapping <- struct{}{}:
	case <-f.w.ctx.Done():
		t.Fatalf("%v; still waiting for another row's change", context.Cause(f.w.ctx))
	}
	defer func() { <-f.w.mapping }() // a command that fails ends this goroutine
	do()
}

// prepare gives the row what it has for itself, and breaks it.
func (f *failure) prepare(t *testing.T) {
	f.dir = filepath.Join(f.w.dir, f.ID) // later phases are other tests
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.vars = f.w.own(t, &f.Failure)
	f.run(t, f.Break)
}

func (f *failure) launch(t *testing.T) {
	if f.Launch == "" {
		return
	}
	f.writeUserData(t, f.UserData)
	f.launchBy(t, f.Launch)
	if len(f.After) > 0 || f.Outcome == failures.Session {
		f.waitReady(t)
		f.run(t, f.After)
	}
}

func (f *failure) launchBy(t *testing.T, command string) {
	t.Helper()
	out := strings.Fields(f.sh(t, command+" --query 'Instances[0].[InstanceId,PrivateDnsName]' --output text"))
	if len(out) != 2 {
		t.Fatalf("launched: %q", out)
	}
	f.vars["INSTANCE"], f.vars["NODE"] = out[0], out[1]
}

// patience is what a loaded machine needs; a step takes a second on an idle one.
const patience = time.Minute

// recoveryPatience is longer than a kubelet waits before it pulls an image again: five
// minutes at most, the more the longer the failure was there.
const recoveryPatience = 6 * time.Minute

// eventually polls until ok, or fails with what was last seen.
func (f *failure) eventually(t *testing.T, what, command string, ok func(out string, err error) bool) {
	t.Helper()
	f.within(t, f.w.patience, what, command, ok)
}

func (f *failure) within(t *testing.T, patience time.Duration, what, command string, ok func(out string, err error) bool) {
	t.Helper()
	deadline, last := time.Now().Add(patience), "nothing yet"
	for {
		out, err := f.try(f.w.ctx, command)
		if ok(out, err) {
			return
		}
		if cause := context.Cause(f.w.ctx); cause != nil {
			t.Fatalf("%s: %v; still waiting for: %s\n%s", what, cause, f.expand(command), last)
		}
		last = fmt.Sprint(err, "\n", out)
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s\n%s", what, patience, f.expand(command), last)
		}
		<-time.After(400 * time.Millisecond) // a process each
	}
}

var crossed = regexp.MustCompile(`(?m)^  ✘ (\S+)`)

// explained waits for the verdict of `drydock why` and for AWS's symptom.
func (f *failure) explained(t *testing.T) {
	verdict := make([]string, len(f.Verdict))
	for i, v := range f.Verdict {
		verdict[i] = f.expand(v)
	}
	symptom := regexp.MustCompile("(?s)" + f.Symptom)
	f.eventually(t, "verdict", "drydock why "+f.Why+f.w.cluster(f), func(out string, err error) bool {
		if f.Outcome == failures.Warned {
			if !strings.Contains(out, "  ! "+f.Step) || err != nil {
				return false
			}
		} else if m := crossed.FindStringSubmatch(out); m == nil || m[1] != f.Step || err == nil {
			return false
		}
		for _, v := range verdict {
			if !strings.Contains(out, v) {
				return false
			}
		}
		return f.Look != "" || symptom.MatchString(out)
	})
	if f.Look != "" {
		f.eventually(t, "symptom "+f.Symptom, f.Look, func(out string, err error) bool { return err == nil && symptom.MatchString(out) })
	}
}

// compareNodes looks at what kubectl says of the nodes of all rows after a phase.
func (w *failureWorld) compareNodes(t *testing.T, phase string, rows []*failure) {
	if phase != "explain" && phase != "recover" {
		return
	}
	f := &failure{w: w, dir: w.dir, vars: w.worlds[failures.Open]}
	out, err := f.try(w.ctx, "kubectl get nodes --no-headers")
	if err != nil {
		t.Errorf("kubectl get nodes: %v\n%s", err, out)
	}
	status := map[string]string{}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 1 {
			status[words[0]] = words[1]
		}
	}
	for _, f := range rows {
		name := f.vars["NODE"]
		if f.failed || name == "" || f.Launch == "" {
			continue
		}
		want := "Ready"
		if phase == "explain" {
			want = map[failures.Outcome]string{failures.Out: "", failures.NotReady: "NotReady"}[f.Outcome]
			if f.Outcome == failures.Warned || f.Outcome == failures.Pod || f.Outcome == failures.Session {
				want = "Ready"
			}
		}
		if status[name] != want {
			t.Errorf("%s: kubectl says %q of %s, want %q", f.ID, status[name], name, want)
		}
	}
}

// mend runs what `drydock why` prints as the first fix, exactly as it is printed, and what
// it prints after that, until nothing is left to fix. The table's own fix is for rows of
// which only a person knows the rest.
func (f *failure) mend(t *testing.T) {
	ran, mended := f.printed(t)
	if mended {
		return
	}
	if !ran {
		f.run(t, f.Fix)
	}
	if !f.Relaunch {
		return
	}
	if f.FixedUserData != "" {
		f.writeUserData(t, f.FixedUserData)
	}
	command := f.FixedLaunch
	if command == "" {
		command = f.Launch
	}
	f.launchBy(t, command)
}

var launched = regexp.MustCompile(`"InstanceId": "(i-[0-9a-f]+)"`)

// printed runs the fixes that `drydock why` prints and that can be pasted. It reports whether
// there were any, and whether nothing is left to do: user data that has failed does not run
// again, so its instance may still have to be launched anew.
func (f *failure) printed(t *testing.T) (ran, mended bool) {
	t.Helper()
	if f.Sketch {
		return false, false
	}
	done := map[string]bool{}
	for range 4 {
		var did string
		well, last := false, false
		f.alone(t, func() { // two rows may be told to make the same rule
			out, err := f.try(f.w.ctx, "drydock why "+f.Why+f.w.cluster(f)+" --output json")
			if well = err == nil && f.Outcome != failures.Warned; well {
				return
			}
			fix := firstFix(t, out)
			commands := strings.Join(fix.Commands, "\n")
			if last = commands == "" || fix.Sketch != "" || done[commands]; last {
				return
			}
			done[commands] = true
			did = f.sh(t, "set -e\n"+commands)
		})
		if well {
			return true, true // nothing is left
		}
		if last {
			if len(done) == 0 {
				t.Logf("no fix is printed that can be pasted: the table's is run")
			}
			return len(done) > 0, false
		}
		if m := launched.FindAllStringSubmatch(did, -1); m != nil && f.Relaunch {
			f.vars["INSTANCE"] = m[0][1] // what is terminated comes after it
			f.vars["NODE"] = strings.TrimSpace(f.sh(t, "aws ec2 describe-instances --instance-ids $INSTANCE --query 'Reservations[0].Instances[0].PrivateDnsName' --output text"))
			return true, true
		}
		if f.Outcome == failures.Warned {
			return true, true
		}
		if f.mends() {
			return true, true
		}
	}
	return true, true
}

// mends waits for a moment for the recovery.
func (f *failure) mends() bool {
	ctx, cancel := context.WithTimeout(f.w.ctx, 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := f.try(ctx, "drydock why "+f.Why+f.w.cluster(f)); err == nil {
			return true
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return false
}

// firstFix is that of the first step that fails or warns.
func firstFix(t *testing.T, out string) advice.Fix {
	t.Helper()
	var e struct {
		Steps []struct {
			State  string
			Reason *struct{ Fixes []advice.Fix }
		}
	}
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, state := range []string{"failed", "warning"} {
		for _, s := range e.Steps {
			if s.State == state && s.Reason != nil && len(s.Reason.Fixes) > 0 {
				return s.Reason.Fixes[0]
			}
		}
	}
	return advice.Fix{}
}

// recovered waits until all is well.
func (f *failure) recovered(t *testing.T) {
	f.within(t, recoveryPatience, "recovery", "drydock why "+f.Why+f.w.cluster(f), func(out string, err error) bool {
		return err == nil && (f.Outcome != failures.Warned || !strings.Contains(out, "  ! "))
	})
}

func (f *failure) waitReady(t *testing.T) {
	t.Helper()
	f.eventually(t, "launch", "drydock why node $INSTANCE", func(_ string, err error) bool { return err == nil })
}

// A failureWorld is the daemon with the networks and clusters of the rows.
type failureWorld struct {
	dir    string
	url    string
	env    []string
	worlds map[failures.World]map[string]string
	// mapping has room for the one command that may change aws-auth.
	mapping chan struct{}
	// ctx ends with the test's time, or when the world has broken; its cause says which.
	ctx context.Context
	end context.CancelCauseFunc

	image    string        // takes the place of the table's; empty means that the table's is used
	patience time.Duration // for a step

	fixtures fixtures
	mu       sync.Mutex
	subnets  int
}

// failureLimit bounds the whole test, which takes four minutes on two cores, without twins. In a world that is broken,
// each row would wait out its own patience instead.
var failureLimit = map[bool]time.Duration{false: 12 * time.Minute, true: 70 * time.Minute}[twinsPlayed()]

// On nodes that run containers, real programs wait until they give up: containerd for half a minute for a connection.
const (
	containersLimit    = 40 * time.Minute
	containersPatience = 3 * time.Minute
)

// begin fails a row at once if the world has ended.
func (w *failureWorld) begin(t *testing.T) {
	t.Helper()
	if cause := context.Cause(w.ctx); cause != nil {
		t.Fatalf("not played: %v", cause)
	}
}

// judge looks after a row that has failed whether the others have a chance: without the
// daemon or the cluster they have none.
func (w *failureWorld) judge(t *testing.T, f *failure) {
	if !t.Failed() || w.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	if err := w.ping(ctx); err != nil {
		w.end(fmt.Errorf("row %s failed, and the daemon does not answer: %w", f.ID, err))
		return
	}
	ask := &failure{w: w, dir: w.dir, vars: w.worlds[f.World]}
	if out, err := ask.try(ctx, "kubectl get --raw /livez"); err != nil {
		w.end(fmt.Errorf("row %s failed, and cluster %s does not answer: %w\n%s", f.ID, ask.vars["CLUSTER"], err, out))
	}
}

func (w *failureWorld) ping(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/_drydock/ping", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ping: %s", resp.Status)
	}
	return nil
}

// cluster names the cluster of a question about a pod.
func (w *failureWorld) cluster(f *failure) string {
	if strings.HasPrefix(f.Why, "pod ") {
		return " --cluster $CLUSTER"
	}
	return ""
}

// roles of the aws-auth of the open cluster.
func (w *failureWorld) awsAuth(roles []string) string {
	var b strings.Builder
	for _, r := range roles {
		fmt.Fprintf(&b, "- {rolearn: \"arn:aws:iam::000000000000:role/%s\", username: \"system:node:{{EC2PrivateDNSName}}\", groups: [system:bootstrappers, system:nodes]}\n", r)
	}
	return b.String()
}

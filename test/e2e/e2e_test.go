// Package e2e drives the built program with the tools its users have: the aws
// CLI, kubectl, curl. Scripts use only what a user has: the endpoint, the
// credentials, a kubeconfig. Tools that are missing skip a script, or fail it
// when REQUIRE_CLIENTS is 1.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/script", scriptLimit, func(*testscript.Env) {})
}

// runScripts runs the scripts of a folder, each for at most the limit. more adds to what setup has prepared.
func runScripts(t *testing.T, dir string, limit time.Duration, more func(*testscript.Env)) {
	bin := testkit.Program(t)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") == "1",
		Setup: func(env *testscript.Env) error {
			if err := setup(env, bin, limit); err != nil {
				return err
			}
			more(env)
			return nil
		},
		Condition: condition,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start":      start,
			"eventually": eventually,
			"killdaemon": killDaemon,
			"killchild":  killChild,
			"stopdaemon": stopDaemon,
			"stopchild":  stopChild,
			"jq":         jq,
			"processes":  processes,
			"listening":  listening,
			"restore":    restore,
			"editdata":   editData,
			"startetcd":  startEtcd,
			"etcdkeys":   etcdKeys,
			"webimage":   webImage,
			"image":      programImage,
			"startother": startOther,
			"internet":   internet,
			"logged":     logged,
		},
	})
}

// controllers is the folder to which make controllers writes.
const controllers = "../../bin/controllers"

// condition adds [clients:a,b]: all these programs are there. Under
// REQUIRE_CLIENTS=1 a missing one is an error. [mounts]: mount namespaces are permitted.
// [containers]: nodes can run containers; under REQUIRE_CLIENTS=1 it is an error if they cannot, except with
// DRYDOCK_WITHOUT_CONTAINERS=1.
// [controllers:a,b]: make controllers has built the images of these controllers, or the program helm.
// [cdk]: CDK's program is installed, and its library beside it.
// [awscli2]: AWS CLI 2 is there, as aws2. Not every system has packages of it.
// [terraform]: Terraform is there, and the folder TERRAFORM_PLUGINS has its AWS provider.
func condition(cond string) (bool, error) {
	if cond == "terraform" {
		_, err := exec.LookPath("terraform")
		if err == nil {
			_, err = os.Stat(filepath.Join(os.Getenv("TERRAFORM_PLUGINS"), "registry.terraform.io/hashicorp/aws"))
		}
		return err == nil, nil
	}
	if cond == "awscli2" {
		_, err := exec.LookPath("aws2")
		return err == nil, nil
	}
	if cond == "cdk" {
		program, err := exec.LookPath("cdk")
		if err == nil {
			program, err = filepath.EvalSymlinks(program) // node_modules/aws-cdk/bin/cdk
		}
		if err == nil {
			_, err = os.Stat(filepath.Join(program, "../../../aws-cdk-lib"))
		}
		return err == nil, nil
	}
	if cond == "containers" {
		r := probe.Run()
		if !r.Available && os.Getenv("REQUIRE_CLIENTS") == "1" && os.Getenv("DRYDOCK_WITHOUT_CONTAINERS") != "1" {
			return false, fmt.Errorf("nodes cannot run containers: %s (REQUIRE_CLIENTS=1)", r.Why())
		}
		return r.Available, nil
	}
	if names, ok := strings.CutPrefix(cond, "controllers:"); ok {
		for name := range strings.SplitSeq(names, ",") {
			need := "image.tar"
			if name == "helm" {
				need = name
			}
			if _, err := os.Stat(filepath.Join(controllers, name, need)); err != nil {
				return false, nil
			}
		}
		return true, nil
	}
	if cond == "mounts" {
		return exec.Command("unshare", "--mount", "true").Run() == nil || exec.Command("unshare", "--user", "--mount", "true").Run() == nil, nil
	}
	list, ok := strings.CutPrefix(cond, "clients:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	for _, c := range strings.Split(list, ",") {
		if _, err := exec.LookPath(c); err != nil {
			if os.Getenv("REQUIRE_CLIENTS") == "1" {
				return false, fmt.Errorf("%s is required (REQUIRE_CLIENTS=1)", c)
			}
			return false, nil
		}
	}
	return true, nil
}

func setup(env *testscript.Env, bin string, most time.Duration) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	// A short path: unix sockets allow about a hundred bytes.
	data, err := os.MkdirTemp("", "dd")
	if err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("DRYDOCK_BIN", bin)
	env.Setenv("TERRAFORM_PLUGINS", os.Getenv("TERRAFORM_PLUGINS"))
	env.Setenv("GORACE", os.Getenv("GORACE")) // of a program with the race detector
	env.Setenv("KUBECONFIG", filepath.Join(home, "kubeconfig"))
	env.Setenv("DRYDOCK_DATA_DIR", data)
	env.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "aws-config"))
	env.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, "aws-credentials"))
	env.Setenv("AWS_PAGER", "")
	env.Setenv("AWS_DEFAULT_OUTPUT", "json")
	built, err := filepath.Abs(controllers)
	if err != nil {
		return err
	}
	env.Setenv("CONTROLLERS", built)
	env.Setenv("PATH", strings.Join([]string{filepath.Dir(bin), filepath.Join(built, "helm"), os.Getenv("PATH")}, string(os.PathListSeparator)))
	env.Values[tKey{}] = env.T()
	limit := time.AfterFunc(most, func() { endAll(data) })
	env.Defer(func() {
		limit.Stop()
		down(bin, data, env.T().Log)
		defer os.RemoveAll(data)
		if tt, ok := env.T().(interface{ Failed() bool }); ok && tt.Failed() {
			logs(data, env.T().Log)
		}
		if found := unexpected(data); len(found) > 0 {
			env.T().Fatal("the daemon logged errors:\n" + strings.Join(found, ""))
		}
	})
	return nil
}

// Bounds of what a test starts: one command that answers at once, and a whole script.
const (
	commandLimit = 2 * time.Minute
	scriptLimit  = 15 * time.Minute
)

// program runs a program in a process group of its own, which is killed as a whole when ctx
// ends. A process of the group that keeps the output open would otherwise be waited for.
func program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// down stops the daemon of a data folder.
func down(bin, data string, log func(...any)) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	if out, err := program(ctx, bin, "down", "--data-dir", data).CombinedOutput(); err != nil {
		log("drydock down: ", err, "\n", string(out))
	}
}

// endAll kills the processes of a script, which have its data folder in their environment.
// testscript waits for the output of a command to be closed, however long that takes.
func endAll(data string) {
	mark := []byte("DRYDOCK_DATA_DIR=" + data + "\x00")
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, mark) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// A tKey is the key of a script's test among its values: the functions of ts.Defer cannot fail it by ts.Fatalf, which panics there.
type tKey struct{}

// expected has the pattern of the errors that the last daemon of a data folder has logged because its script caused them.
var expected sync.Map

// unexpected returns the lines of level ERROR in the log of the last daemon of a data folder, as each begins a new log, except
// those that its script expects. Such a line fails the script, as it fails the tests of packages (testlog).
func unexpected(data string) []string {
	found := errorLines(data)
	if re, ok := expected.Load(data); ok {
		found = slices.DeleteFunc(found, re.(*regexp.Regexp).MatchString)
	}
	return found
}

func errorLines(data string) (found []string) {
	log, _ := os.ReadFile(filepath.Join(data, "drydock.log")) // a script may start no daemon
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(" level=ERROR ")) {
			found = append(found, string(line))
		}
	}
	return found
}

// noErrors fails the script if the last daemon of a data folder has logged unexpected errors.
func noErrors(ts *testscript.TestScript, data string) {
	if found := unexpected(data); len(found) > 0 {
		ts.Fatalf("the daemon logged errors:\n%s", strings.Join(found, ""))
	}
}

// logged PATTERN expects errors in the running daemon's log that match the pattern. At least one must be there already.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: logged PATTERN")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	data := ts.Getenv("DRYDOCK_DATA_DIR")
	if found := errorLines(data); !slices.ContainsFunc(found, re.MatchString) {
		ts.Fatalf("no error in the log matches:\n%s", strings.Join(found, ""))
	}
	expected.Store(data, re)
}

// logs shows the ends of all logs of a data folder.
func logs(data string, log func(...any)) {
	filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".log") {
			if b, err := os.ReadFile(path); err == nil {
				if len(b) > 6000 {
					b = b[len(b)-6000:]
				}
				log("== ", path, "\n", string(b))
			}
		}
		return nil
	})
}

type info struct {
	PID int    `json:"pid"`
	URL string `json:"url"`
}

func readInfo(ts *testscript.TestScript) info {
	b, err := os.ReadFile(filepath.Join(ts.Getenv("DRYDOCK_DATA_DIR"), "daemon.json"))
	ts.Check(err)
	var i info
	ts.Check(json.Unmarshal(b, &i))
	return i
}

// start [FLAG...] starts the daemon on a free port (the same one when the script
// starts it again) and sets what `drydock env` prints.
func start(ts *testscript.TestScript, neg bool, args []string) {
	port := ts.Getenv("DRYDOCK_PORT")
	if port == "" {
		port = "0"
	}
	if runtime := os.Getenv("NODE_RUNTIME"); runtime != "" { // to play a script on nodes that run containers
		args = append([]string{"--node-runtime", runtime}, args...)
	}
	data := ts.Getenv("DRYDOCK_DATA_DIR")
	noErrors(ts, data) // of the previous daemon
	expected.Delete(data)
	ts.Check(ts.Exec("drydock", append([]string{"up", "-d", "--port", port, "--warm-spares", "0"}, args...)...))
	i := readInfo(ts)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(i.URL, "http://"))
	ts.Check(err)
	ts.Setenv("DRYDOCK_PORT", port)
	var vars map[string]string
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	b, err := program(ctx, ts.Getenv("DRYDOCK_BIN"), "env", "--output", "json", "--data-dir", data).Output()
	ts.Check(err)
	ts.Check(json.Unmarshal(b, &vars))
	for k, v := range vars {
		ts.Setenv(k, v)
	}
}

// startother starts a second daemon and sets OTHER_DATA_DIR to its data folder. The other variables stay those of the
// first.
func startOther(ts *testscript.TestScript, neg bool, args []string) {
	data, err := os.MkdirTemp("", "dd")
	ts.Check(err)
	bin := ts.Getenv("DRYDOCK_BIN")
	ts.Defer(func() {
		down(bin, data, func(a ...any) { ts.Logf("%s", fmt.Sprint(a...)) })
		logs(data, func(a ...any) { ts.Logf("%s", fmt.Sprint(a...)) })
		if found := unexpected(data); len(found) > 0 {
			ts.Value(tKey{}).(testscript.T).Fatal("the other daemon logged errors:\n" + strings.Join(found, ""))
		}
	})
	ts.Setenv("OTHER_DATA_DIR", data)
	ts.Check(ts.Exec("drydock", append([]string{"up", "-d", "--port", "0", "--warm-spares", "0", "--data-dir", data}, args...)...))
}

// killdaemon ends the daemon with SIGKILL, as a crash would.
func killDaemon(ts *testscript.TestScript, neg bool, args []string) {
	pid := readInfo(ts).PID
	families.alive(ts.Getenv("DRYDOCK_DATA_DIR")) // remember its children
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	deadline := time.Now().Add(time.Minute)
	for syscall.Kill(pid, 0) == nil {
		if time.Now().After(deadline) {
			ts.Fatalf("process %d survives SIGKILL", pid)
		}
		pause()
	}
}

// killchild ends the daemon's control planes with SIGKILL.
func killChild(ts *testscript.TestScript, neg bool, args []string) {
	for _, pid := range testkit.Children(readInfo(ts).PID) {
		ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	}
}

// stopdaemon has the daemon hang, by SIGSTOP.
func stopDaemon(ts *testscript.TestScript, neg bool, args []string) {
	pid := readInfo(ts).PID
	families.alive(ts.Getenv("DRYDOCK_DATA_DIR")) // remember its children
	ts.Check(syscall.Kill(pid, syscall.SIGSTOP))
}

// stopchild has the daemon's control planes hang, by SIGSTOP.
func stopChild(ts *testscript.TestScript, neg bool, args []string) {
	families.alive(ts.Getenv("DRYDOCK_DATA_DIR"))
	for _, pid := range testkit.Children(readInfo(ts).PID) {
		ts.Check(syscall.Kill(pid, syscall.SIGSTOP))
	}
}

// eventually TIMEOUT PATTERN COMMAND... runs COMMAND until it succeeds and its
// output matches PATTERN. With !, until the command fails and its output matches.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: eventually TIMEOUT PATTERN COMMAND...")
	}
	timeout, err := time.ParseDuration(args[0])
	ts.Check(err)
	re, err := regexp.Compile("(?s)" + args[1])
	ts.Check(err)
	timeout = max(timeout, patience) // the scripts' own are of a machine that has nothing else to do
	deadline := time.Now().Add(timeout)
	for {
		started := time.Now()
		err := ts.Exec(args[2], args[3:]...)
		out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if (err != nil) == neg && re.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s: %s (last: %v)\n%s", timeout, args[1], err, out)
		}
		<-time.After(max(100*time.Millisecond, 3*time.Since(started))) // leaves most of a core to the work that is awaited
	}
}

// jq NAME PATH sets the variable NAME to the value at a dotted PATH of the JSON
// in stdout: jq ARN Role.Arn
func jq(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: jq NAME PATH")
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile("stdout"))))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for _, p := range strings.Split(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(x) {
				ts.Fatalf("no element %s in a list of %d", p, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("nothing at %s", p)
		}
	}
	if v == nil {
		ts.Fatalf("nothing at %s", args[1])
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// processes N waits until N processes of the daemon's family live: the daemon, its
// children, and those that earlier daemons on the same data folder left behind.
func processes(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.Now().Add(time.Minute)
	for {
		found := families.alive(ts.Getenv("DRYDOCK_DATA_DIR"))
		if len(found) == want {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d processes, want %d: %v", len(found), want, found)
		}
		pause()
	}
}

// families remembers every process a daemon was seen to have, by data folder:
// a child that outlives its daemon has no other mark of where it came from.
var families = family{seen: map[string]map[int]bool{}}

type family struct {
	mu   sync.Mutex
	seen map[string]map[int]bool
}

func (f *family) alive(dir string) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[dir] == nil {
		f.seen[dir] = map[int]bool{}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "daemon.json")); err == nil {
		var i info
		if json.Unmarshal(b, &i) == nil {
			f.seen[dir][i.PID] = true
			for _, c := range testkit.Children(i.PID) {
				f.seen[dir][c] = true
			}
		}
	}
	var out []int
	for pid := range f.seen[dir] {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(cmdline, []byte("drydock")) {
			out = append(out, pid)
		} else {
			delete(f.seen[dir], pid)
		}
	}
	return out
}

// listening URL says whether something accepts connections there; with !,
// whether nothing does.
func listening(ts *testscript.TestScript, neg bool, args []string) {
	addr := strings.TrimPrefix(strings.TrimPrefix(args[0], "http://"), "https://")
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err == nil {
		c.Close()
	}
	if (err != nil) != neg {
		ts.Fatalf("listening on %s: %v", addr, err == nil)
	}
}

// pause waits a little between two looks; every loop around it has a deadline.
func pause() { <-time.After(100 * time.Millisecond) }

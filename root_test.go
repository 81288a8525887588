// Package drydock holds the house rules of this repository as tests.
package drydock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/drydock-dev/drydock/"

// A ban is a direction in which imports must not go.
type ban struct {
	from   string // folders it holds for, as a pattern of the path below the root
	to     string // import paths it forbids, as a pattern
	except string // packages it does not hold for
	allow  string // import paths it does not forbid
	why    string
}

var bans = []ban{
	{from: `.*`, to: `^k8s\.io/kubernetes/`, except: `^internal/(controlplane/child|node/containers/programs)$|^tools/conformance/`,
		why: "the Kubernetes servers cost minutes to compile and link; they run in the child process only"},
	{from: `.*`, to: module + `internal/(controlplane/child|node/containers/programs)$`, except: `^cmd/drydock$|^tools/nodebin/node$`,
		why: "no test binary and no daemon code links the Kubernetes servers"},
	{from: `.*`, to: `^sigs\.k8s\.io/karpenter/`, except: `^internal/controlplane/child/karpenter$`,
		why: "Karpenter's controllers run in the child process only, next to the control plane of their cluster"},
	{from: `.*`, to: module + `internal/controlplane/child/karpenter$`, except: `^internal/controlplane/child$`,
		why: "Karpenter's controllers run in the child process only, next to the control plane of their cluster"},
	{from: `.*`, to: module + `internal/app$`, except: `^cmd/drydock$|^test/|^tools/`,
		why: "app is the composition root: it knows everybody, nobody knows it"},
	{from: `^internal/`, to: module + `internal/(why|podrun|fault/keeper|accountnet)$`, except: `^internal/app$`,
		why: "each stands between app and the services, for one purpose: app connects it, nobody else knows it"},
	{from: `^internal/`, to: module + `internal/compute$`, except: `^internal/(app|podrun)$`,
		why: "nodes and services are what machines are made of, and do not know them"},
	{from: `^internal/`, to: module + `internal/api/httpapi$`, except: `^internal/(app|why|podrun|fault/keeper)$`,
		why: "only what answers the daemon's own paths knows how they are answered"},
	{from: `^internal/machine/(simulated|guest|imds)(/|$)`, to: module + `internal/(node|service|store|app|compute)(/|$)`,
		why: "a computer does not know the kubelet that may run on it, nor who owns it"},
	{from: `^internal/`, to: module + `internal/machine/guest/`, except: `^internal/(compute|node/(ami|containers|simulated)|machine/.*)$`,
		why: "what runs inside simulated machines is theirs: everybody else runs programs by the seam, internal/machine"},
	{from: `^internal/`, to: module + `internal/machine/containers$`, except: `^internal/(compute|node/containers)$`,
		why: "everybody else uses machines by the seam, internal/machine"},
	{from: `^internal/machine/containers(/|$)`, to: module + `internal/(node|service|store|app|compute)(/|$)`,
		why: "a computer does not know the kubelet that may run on it, nor who owns it"},
	{from: `^internal/`, to: module + `internal/machine/simulated$`, except: `^internal/(compute|node/simulated)$`,
		why: "everybody else uses machines by the seam, internal/machine"},
	{from: `^internal/service/`, to: module + `internal/(service|controlplane|node|cli|console)(/|$)`,
		why: "services never import each other: the one in need declares an interface, app connects them"},
	{from: `^internal/`, to: module + `internal/service/`, except: `^internal/(app|why|podrun|compute|accountnet)$|^internal/service/`,
		why: "everybody else meets the services in app"},
	{from: `^internal/`, to: module + `internal/cli$`, except: `^internal/app$`,
		why: "the types of the daemon's own paths are in internal/api; only app runs the command line"},
	{from: `^internal/api$`, to: module + `internal/`, allow: module + `internal/(advice|atomicfile|fault|policy|reach)$`,
		why: "clients of the daemon must not link the daemon itself"},
	{from: `^internal/cli$`, to: module + `internal/(controlplane|node|store|awsapi)`,
		why: "commands talk to the daemon over HTTP, as any client would"},
	{from: `^internal/(advice|authz|awsapi|policy|reach|store|journal|catalog|reconcile)(/|$)`, to: module + `internal/(service|controlplane|node|cli|console)`,
		why: "dependencies point one way"},
	{from: `^internal/(arn|atomicfile|ids|clock|dialout|glob|kube|yamlsafe)$`, to: module, why: "leaves know nobody"},
	{from: `^internal/awsapi/(wire|model|awserr|sigv4)$`, to: module + `internal/(store|policy|reach|journal)`,
		why: "the codec and the signature check know formats, not state"},
	{from: `^internal/(advice|policy|reach)(/|$)`, to: `^(net/http|os|os/exec|go\.etcd\.io/.*|k8s\.io/.*)$`,
		why: "pure packages: value in, verdict with reasons out"},
	{from: `.*`, to: `^go\.etcd\.io/`, except: `^internal/(store(/.*)?|bytestore)$`,
		why: "the store alone talks to etcd, and bytestore has the file format of etcd, bbolt"},
}

// selfImport lets a package's own subpackages be imported.
func sameTree(from, to string) bool {
	to = strings.TrimPrefix(to, module)
	head := func(p string) string {
		parts := strings.Split(p, "/")
		if len(parts) > 3 && parts[1] == "service" {
			parts = parts[:3]
		} else if len(parts) > 2 && parts[1] != "service" {
			parts = parts[:2]
		}
		return strings.Join(parts, "/")
	}
	return head(from) == head(to)
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(f.path))
		test := strings.HasSuffix(f.path, "_test.go")
		for _, imp := range f.ast.Imports {
			to, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range bans {
				if !regexp.MustCompile(b.from).MatchString(dir) || !regexp.MustCompile(b.to).MatchString(to) {
					continue
				}
				if b.allow != "" && regexp.MustCompile(b.allow).MatchString(to) {
					continue
				}
				if b.except != "" && regexp.MustCompile(b.except).MatchString(dir) || sameTree(dir, to) {
					continue
				}
				if test && !strings.Contains(b.to, "child") && !strings.Contains(b.to, "kubernetes") {
					continue // tests may set up a world with neighbouring packages, but never with the servers
				}
				t.Errorf("%s imports %s: %s", f.path, to, b.why)
			}
		}
	}
}

// floors are the packages of a service that has several, from the bottom up. A package imports only packages of the
// lines before its own. The rest of Drydock imports only the service's own package.
var floors = map[string][]string{
	"internal/service/ec2": {
		"ec2err",
		"tag",
		"filter",
		"resource",
		"instancetype keypair quota record",
		"capacity firewall ipam placement storage",
		"image",
		"launchtemplate",
		"eni",
		"instance routing",
		"endpoint fleet transit vpc vpn",
		"insights load",
		".",
	},
	"internal/service/eks": {
		"record",
		"plane ekserr jsonpatch",
		"base",
		"access podidentity connector subscription autonodes autobalancing autostorage servingcerts policyendpoints",
		"addon nodegroup fargate capability",
		"cluster resource pod",
		"load",
		".",
	},
}

func TestFloorsHold(t *testing.T) {
	for service, lines := range floors {
		floor := map[string]int{}
		for n, line := range lines {
			for name := range strings.FieldsSeq(line) {
				dir := path.Join(service, name)
				floor[dir] = n + 1
				if _, err := os.Stat(dir); err != nil {
					t.Errorf("a floor of %s names %s, which is not there", service, name)
				}
			}
		}
		for _, f := range goFiles(t) {
			dir := filepath.ToSlash(filepath.Dir(f.path))
			if strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			if dir != service && !strings.HasPrefix(dir, service+"/") {
				for _, imp := range f.ast.Imports {
					if to := strings.Trim(imp.Path.Value, `"`); strings.HasPrefix(to, module+service+"/") {
						t.Errorf("%s imports %s: only %s knows its parts", f.path, to, service)
					}
				}
				continue
			}
			if floor[dir] == 0 {
				t.Errorf("%s is on no floor of %s", dir, service)
			}
			for _, imp := range f.ast.Imports {
				to := strings.TrimPrefix(strings.Trim(imp.Path.Value, `"`), module)
				if floor[to] >= floor[dir] && floor[to] != 0 {
					t.Errorf("%s imports %s, which is not below it", f.path, to)
				}
			}
		}
	}
}

// Whatever runs machines fits behind the seam, and code that uses machines only needs the seam. The seam depends on
// no shell, kubelet or service.
func TestTheMachineSeamKnowsNoImplementation(t *testing.T) {
	for _, f := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(f.path))
		if dir != "internal/machine" && dir != "internal/machine/machinetest" || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, imp := range f.ast.Imports {
			to, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own := strings.HasPrefix(to, module+"internal/catalog/") || to == module+"internal/machine"
			if strings.HasPrefix(to, module) && !own || strings.HasPrefix(to, "k8s.io/") || strings.HasPrefix(to, "mvdan.cc/") {
				t.Errorf("%s imports %s", f.path, to)
			}
		}
	}
}

// A ban on a package that no longer exists would have no effect.
func TestBannedPackagesExist(t *testing.T) {
	for _, dir := range []string{"internal/controlplane/child", "internal/app", "internal/store", "internal/policy", "internal/awsapi/wire",
		"internal/machine", "internal/machine/machinetest", "internal/machine/simulated", "internal/why", "internal/podrun", "internal/compute", "internal/accountnet", "internal/fault/keeper", "internal/api/httpapi", "internal/cli", "internal/api"} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a rule names %s, which is not there", dir)
		}
	}
}

// Each node has several processes of drydock-node and drydock-machine, and whatever they link prepares its tables in each of them
// (decision 114): they never link, however far below, what Drydock's own binary is for.
func TestProgramsOfNodesLinkNoModels(t *testing.T) {
	imports := map[string][]string{} // by folder
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(f.path))
		for _, imp := range f.ast.Imports {
			imports[dir] = append(imports[dir], strings.Trim(imp.Path.Value, `"`))
		}
	}
	heavy := regexp.MustCompile(`^` + module + `internal/(app|authz|awsapi|awscall|compute|controlplane|policy|service|store)(/|$)|^sigs\.k8s\.io/karpenter/|^go\.etcd\.io/`)
	for _, program := range []string{"tools/nodebin/node", "tools/nodebin/machine"} {
		seen := map[string]bool{}
		var walk func(dir string)
		walk = func(dir string) {
			if seen[dir] {
				return
			}
			seen[dir] = true
			for _, to := range imports[dir] {
				if heavy.MatchString(to) {
					t.Errorf("%s links %s, which %s imports", program, to, dir)
				} else if below, ok := strings.CutPrefix(to, module); ok {
					walk(below)
				}
			}
		}
		walk(program)
		if len(seen) < 5 {
			t.Errorf("%s links only %v", program, seen)
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") && f.path != "root_test.go" {
			continue
		}
		dir := filepath.Dir(f.path)
		documented[dir] = documented[dir] || f.ast.Doc != nil && len(f.ast.Doc.Text()) > 40
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc that says what it does", dir)
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && !inSynctest(f.ast) {
				t.Errorf("%s sleeps: poll with a deadline (testkit.Eventually)", f.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// Whatever services, reconcilers and machines do over time, tests do without waiting, with the clock that they pass. The
// programs of a guest's image have their own time.
func TestServicesHaveOneClock(t *testing.T) {
	ofClock := regexp.MustCompile(`^internal/(service|reconcile|compute|node|machine/(simulated|imds))(/|$)`)
	ownTime := regexp.MustCompile(`^internal/node/(ami|containers/programs)$`)
	reads := map[string]bool{"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true}
	for _, f := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(f.path))
		if strings.HasSuffix(f.path, "_test.go") || !ofClock.MatchString(dir) || ownTime.MatchString(dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && reads[sel.Sel.Name] {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" {
					t.Errorf("%s uses time.%s: ask the clock of its Config", f.fset.Position(n.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// skips are the tests that may be skipped for a reason other than a missing client.
var skips = map[string]string{
	"internal/awsapi/server/fuzztest/fuzz_test.go":         "inputs that are no requests",
	"internal/awsapi/wire/corpus_test.go":                  "cases that AWS's own SDK does otherwise, each with its reason",
	"internal/awsapi/wire/roundtrip/roundtrip_test.go":     "shapes that the SDK cannot hold, each with its reason",
	"internal/awsapi/wire/roundtrip/sqsquery_test.go":      "operations that the old SDK does not have",
	"internal/cli/run_peer_linux_test.go":                  "only root can be somebody else",
	"internal/cli/run_view_linux_test.go":                  "a machine that permits no mount namespaces",
	"internal/controlplane/kubernetes_test.go":             "reads /proc: Linux only",
	"internal/machine/containers/containers_linux_test.go": "CI without a C compiler, libseccomp or nft, which it says loudly",
	"internal/machine/guest/awscli/confirm_test.go":        "-short",
	"internal/machine/machinetest/machinetest.go":          "abilities that a machine does not declare",
	"internal/store/home_test.go":                          "root may write everywhere",
	"internal/testkit/needs/needs.go":                      "says what is missing",
	"test/bench/bench_test.go":                             "measures when asked to",
	"test/e2e/conformance_test.go":                         "CI where make conformance-tests failed, which it says loudly",
	"test/e2e/failures_test.go":                            "later phases of a row that has failed; without clients, which condition requires",
	"test/e2e/twin_denied_test.go":                         "boots thirty control planes when asked to; without clients, which condition requires",
	"test/soak/advice_test.go":                             "-short",
	"test/soak/hostile_test.go":                            "-short",
	"test/soak/soak_test.go":                               "-short",
}

// A test that is skipped because the machine lacks something uses needs.Missing, which fails in CI.
func TestSkipsAreNotSilent(t *testing.T) {
	for _, f := range goFiles(t) {
		path := filepath.ToSlash(f.path)
		if skips[path] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Skip" && sel.Sel.Name != "Skipf" && sel.Sel.Name != "SkipNow" {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "t" || id.Name == "b" || id.Name == "tb") {
				t.Errorf("%s skips: use needs.Missing, or give the reason in skips", f.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// A test that discards a log does not see internal failures in it: use testlog.New.
func TestLogsAreNotThrownAway(t *testing.T) {
	for _, f := range goFiles(t) {
		path := filepath.ToSlash(f.path)
		if !strings.HasSuffix(path, "_test.go") || path == "internal/store/crash_test.go" { // whose processes are killed while they write
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "DiscardHandler" {
				t.Errorf("%s throws a log away: use testlog.New", f.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// Only the package that tries changes on copies says that they have held there. Whoever has not tried a fix says so by
// a sketch, except for the operations of stacks.
func TestOnlyTheProverProves(t *testing.T) {
	says, untried := regexp.MustCompile(`\bProven\s*(:|=[^=])`), regexp.MustCompile(`advice\.Paste\(|advice\.Fix\{+Commands`)
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") || strings.HasPrefix(f.path, "internal/advice/") || strings.HasPrefix(f.path, "internal/awsapi/sigv4/") {
			continue
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "internal/advice\"") && says.Match(text) {
			t.Errorf("%s calls a fix proven: use advice.Try", f.path)
		}
		if untried.Match(text) && !strings.HasPrefix(f.path, "internal/why/stack_") {
			t.Errorf("%s has a fix that has not been tried: use advice.Try or advice.Sketch", f.path)
		}
	}
}

// The same for scripts: [clients:…] fails in CI, testscript's own [exec:…] does not. Those that need what CI does not have
// are named at its end (make unplayed).
func TestScriptsAreNotSkippedSilently(t *testing.T) {
	scripts, err := filepath.Glob("test/e2e/testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range scripts {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		if regexp.MustCompile(`(?m)^\[!?exec:`).Match(b) && base != "eksctl.txtar" && !strings.HasPrefix(base, "karpenter") { // no package registry has these programs, as their first lines say
			t.Errorf("%s: use [clients:…] instead of [exec:…]", name)
		}
		if regexp.MustCompile(`(?m)^\[![^\]]*\] skip 'NOT RUN`).Match(b) && !strings.Contains(string(makefile), " "+base) {
			t.Errorf("%s may be skipped in CI, and make unplayed does not name it", name)
		}
	}
}

// inSynctest reports whether code is in a synctest bubble, where sleeping costs nothing and is exact.
func inSynctest(f *ast.File) bool {
	for _, imp := range f.Imports {
		if imp.Path.Value == `"testing/synctest"` {
			return true
		}
	}
	return false
}

func TestArchitectureNamesPackagesThatExist(t *testing.T) {
	b, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:internal|cmd|test|tools)/[a-z0-9/_-]+(?:\\.go)?)`").FindAllStringSubmatch(string(b), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("docs/architecture.md names %s, which is not there", m[1])
		}
	}
}

type goFile struct {
	path string
	fset *token.FileSet
	ast  *ast.File
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var out []goFile
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, goFile{path, fset, f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// test is an acceptance test of the provider. One with a reason is not in the denominator.
type test struct {
	service, name string
	reason        string
}

// plan reads the provider's source.
type plan struct {
	source  string
	ops     operations
	types   map[string][]string // of unhandled, of all services that were read
	acctest *goPackage
}

func newPlan(source string, ops operations, services []string) (*plan, error) {
	p := &plan{source: source, ops: ops, types: map[string][]string{}}
	for _, s := range services {
		pkg, err := parsePackage(filepath.Join(source, "internal/service", s), func(f string) bool { return !strings.HasSuffix(f, "_test.go") })
		if err != nil {
			return nil, err
		}
		if s == "meta" || ops[s] != nil {
			for typ, missing := range unhandled(pkg, ops[s]) {
				p.types[typ] = missing
			}
		}
	}
	var err error
	p.acctest, err = parsePackage(filepath.Join(source, "internal/acctest"), func(f string) bool { return !strings.HasSuffix(f, "_test.go") })
	return p, err
}

// filesOf are the parts of a service whose tests are measured. All of a service's are, if it is not named here.
var filesOf = map[string]*regexp.Regexp{
	"ec2": regexp.MustCompile(`^(vpc_|ec2_instance|ec2_launch_template|ec2_fleet|ec2_eip|ec2_key_pair|ec2_availability_zone|ec2_ami|ec2_placement_group|ec2_capacity_reservation|ec2_spot|ebs_|transitgateway_(route|vpc|test|data_source|prefix))`),
}

// tests returns the acceptance tests of a service, sorted by name.
func (p *plan) tests(service string) ([]test, error) {
	pkg, err := parsePackage(filepath.Join(p.source, "internal/service", service), func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	if err != nil {
		return nil, err
	}
	var list []test
	for name := range pkg.funcs {
		if !strings.HasPrefix(name, "TestAcc") || filesOf[service] != nil && !filesOf[service].MatchString(pkg.file[name]) {
			continue
		}
		list = append(list, test{service, name, p.reason(pkg, name)})
	}
	slices.SortFunc(list, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

var (
	declared = regexp.MustCompile(`(?m)^\s*(resource|data)\s+"?([a-z0-9]+)_(\w+)"?\s+"`)
)

// needs are what a test's functions refer to and Drydock, or a machine without the internet, does not have.
var needs = []struct {
	name   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^(PreCheckAlternateAccount|PreCheckThirdAccount|ProtoV5FactoriesAlternate(AccountAndAlternateRegion)?|ConfigAlternateAccountProvider|ConfigNamedAlternateAccountProvider)$`), "needs a second account in the environment"},
	{regexp.MustCompile(`^(PreCheckOrganization.*)$`), "needs an account in an organization"},
	{regexp.MustCompile(`^(SkipIfEnvVarNotSet|PreCheckAssumeRoleARN)$`), "needs something in an environment variable"},
	{regexp.MustCompile(`^ExternalProviders$`), "needs another release of the provider from the registry"},
	{regexp.MustCompile(`^clusterVersion`), "needs versions of Kubernetes that are no longer offered"},
	{regexp.MustCompile(`^PreCheckOutposts`), "needs an Outpost"},
	{regexp.MustCompile(`^PreCheck(DirectoryService|SSOAdminInstances|Inspector2|WAFV2CloudFrontScope|APIGatewayTypeEDGE)`), "needs a service that Drydock does not have"},
}

// reason says why a test is excluded; it is empty for a test that is measured.
func (p *plan) reason(pkg *goPackage, name string) string {
	var names, texts []string
	pkg.reach(name, "", p.acctest, map[string]bool{}, func(n string) { names = append(names, n) }, func(s string) { texts = append(texts, s) })
	for _, need := range needs {
		if slices.ContainsFunc(names, need.name.MatchString) {
			return need.reason
		}
	}
	for _, text := range texts {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			typ := m[2] + "_" + m[3]
			if m[1] == "data" {
				typ = "data." + typ
			}
			missing, known := p.types[typ]
			switch {
			case m[2] != "aws" && m[2] != "terraform":
				return "needs another provider: " + m[2]
			case m[2] == "aws" && !known:
				return typ + ": Drydock does not have its service"
			case len(missing) > 0:
				return typ + ": " + strings.Join(missing, ", ") + " not handled"
			}
		}
	}
	return ""
}

// reach passes on the names and the string literals in a function, and in those of its package and of acctest that it
// refers to. Of acctest's functions only those that return configuration are followed.
func (p *goPackage) reach(name, in string, acctest *goPackage, seen map[string]bool, ref, text func(string)) {
	pkg := p
	if in == "acctest" {
		pkg = acctest
	}
	fn := pkg.funcs[name]
	if fn == nil || seen[in+name] {
		return
	}
	seen[in+name] = true
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			ref(n.Sel.Name)
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "acctest" && strings.HasPrefix(n.Sel.Name, "Config") {
				p.reach(n.Sel.Name, "acctest", acctest, seen, ref, text)
			}
		case *ast.Ident:
			ref(n.Name)
			if strings.HasPrefix(strings.ToLower(n.Name), "testacc") || strings.HasPrefix(strings.ToLower(n.Name), "config") {
				p.reach(n.Name, in, acctest, seen, ref, text)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if s, err := strconv.Unquote(n.Value); err == nil {
					text(s)
				}
			}
		}
		return true
	})
}

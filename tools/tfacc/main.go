// Command tfacc measures Drydock with the acceptance tests of Terraform's AWS provider, which its authors run against
// AWS. It needs a checkout of the provider (version 5.46 was measured) and the terraform program. docs/terraform.md has
// the results. `make terraform SOURCE=CHECKOUT` runs the tests of subset.txt; -services measures all of some services.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// measured are the services whose tests count. The tests' configurations use resources of the others as well.
var (
	measured = []string{"eks", "iam", "autoscaling", "elb", "elbv2", "kms", "ssm", "sqs", "events", "logs", "ecr", "s3", "ec2"}
	others   = []string{"ecrpublic", "sts", "account", "acm", "acmpca", "route53", "secretsmanager", "sns", "resourcegroupstaggingapi", "meta", "pricing", "cloudformation", "organizations"}
)

//go:embed subset.txt
var subset string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tfacc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	source := flag.String("source", "", "a checkout of github.com/hashicorp/terraform-provider-aws, with its tests")
	services := flag.String("services", "", "measure all tests of these services instead of the subset")
	only := flag.String("run", "", "run only tests whose names match this expression")
	list := flag.Bool("list", false, "print which tests are measured and which are excluded, with reasons; run nothing")
	work := flag.String("work", "bin/tfacc", "where the pruned provider, the test binaries and the tests' output go")
	provider := flag.String("provider", "", "a released provider's program: apply the tests' configurations with it instead of building the tests")
	size := flag.Int("batch", 60, "with -provider, how many tests share a run of Terraform")
	parallel := flag.Int("parallel", 4, "how many tests of a service run at once")
	timeout := flag.Duration("timeout", time.Hour, "how long the tests of a service may take")
	flag.Parse()
	if *source == "" {
		return fmt.Errorf("-source is missing: make terraform SOURCE=CHECKOUT")
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	ops, err := readCompatibility("docs/compatibility.md")
	if err != nil {
		return err
	}
	p, err := newPlan(*source, ops, append(slices.Clone(measured), others...))
	if err != nil {
		return err
	}
	wanted := func(t test) bool { return match.MatchString(t.name) }
	names := strings.Fields(*services)
	if *services == "" && !*list {
		chosen := map[string]bool{}
		in := bufio.NewScanner(strings.NewReader(subset))
		for in.Scan() {
			service, name, _ := strings.Cut(in.Text(), " ")
			if chosen[name] = true; !slices.Contains(names, service) {
				names = append(names, service)
			}
		}
		wanted = func(t test) bool { return chosen[t.name] && match.MatchString(t.name) }
	} else if *services == "" {
		names = measured
	}
	var tests, excluded []test
	for _, s := range names {
		all, err := p.tests(s)
		if err != nil {
			return err
		}
		for _, t := range all {
			switch {
			case !wanted(t):
			case t.reason != "":
				excluded = append(excluded, t)
			default:
				tests = append(tests, t)
			}
		}
	}
	if *list {
		for _, t := range tests {
			fmt.Println("measured", t.service, t.name)
		}
		for _, t := range excluded {
			fmt.Printf("excluded %s %s: %s\n", t.service, t.name, t.reason)
		}
		fmt.Printf("%d tests are measured, %d are excluded.\n", len(tests), len(excluded))
		return nil
	}
	if *provider != "" {
		outcomes, err := measure(ctx, *source, *work, *provider, tests, *size)
		report(os.Stdout, outcomes, excluded)
		return err
	}
	outcomes, err := execute(ctx, *source, *work, names, tests, *parallel, *timeout)
	report(os.Stdout, outcomes, excluded)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.end == failed || o.end == unending }) {
		return fmt.Errorf("some tests failed; their output is in %s", filepath.Join(*work, "output"))
	}
	return nil
}

// execute runs tests, one service after the other. It returns what ended before an error.
func execute(ctx context.Context, source, work string, services []string, tests []test, parallel int, timeout time.Duration) ([]outcome, error) {
	work, err := filepath.Abs(work)
	if err != nil {
		return nil, err
	}
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		return nil, err
	}
	drydock, err := filepath.Abs("bin/drydock")
	if err != nil {
		return nil, err
	}
	r := &runner{work: work, drydock: drydock, terraform: terraform, parallel: parallel, timeout: timeout}
	provider := filepath.Join(work, "provider")
	if _, err := os.Stat(provider); err != nil {
		if err := prune(source, provider, measured, others); err != nil {
			return nil, err
		}
	}
	var outcomes []outcome
	for _, s := range services {
		of := slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return t.service != s })
		if len(of) == 0 {
			continue
		}
		if err := r.build(ctx, s); err != nil {
			return outcomes, fmt.Errorf("building the tests of %s: %w", s, err)
		}
		down, err := r.up(ctx)
		if err != nil {
			return outcomes, err
		}
		ended, err := r.run(ctx, s, of)
		down()
		outcomes = append(outcomes, ended...)
		if err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

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
	"strconv"
	"strings"
	"time"
)

// How a test ended.
const (
	passed   = "passed"
	failed   = "failed"
	refused  = "refused" // Drydock answered NotImplemented, or the test skipped itself: excluded after the fact
	unending = "did not finish"
)

// outcome is how a test ended, and why if it did not pass.
type outcome struct {
	test
	end string
}

// runner builds and runs the test binaries of the pruned provider.
type runner struct {
	work      string // absolute
	drydock   string
	terraform string
	parallel  int
	timeout   time.Duration
}

// build compiles the tests of one service.
func (r *runner) build(ctx context.Context, service string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=all=-dwarf=false -l", "-ldflags=-s -w", "-o", r.binary(service), "./internal/service/"+service)
	cmd.Dir = filepath.Join(r.work, "provider")
	// The pruned module file lists more than is needed, so -mod=mod. The limits of memory are those of the Makefile.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath -mod=mod", "GOWORK=off")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

func (r *runner) binary(service string) string { return filepath.Join(r.work, service+".test") }

// up starts a daemon with an empty data folder; the returned function stops it.
func (r *runner) up(ctx context.Context) (func(), error) {
	data, err := os.MkdirTemp("", "tfacc")
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("DRYDOCK_DATA_DIR", data); err != nil {
		return nil, err
	}
	run := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, r.drydock, args...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd.Run()
	}
	down := func() { // also after an interrupt
		_ = run(context.WithoutCancel(ctx), "down")
		_ = os.RemoveAll(data)
	}
	return down, run(ctx, "up", "-d", "--port", "0")
}

// run runs tests of one service and returns how each ended. The output of each is left in the work folder.
func (r *runner) run(ctx context.Context, service string, tests []test) ([]outcome, error) {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	// Terraform's CLI does not take the bundle of AWS_CA_BUNDLE for its own connections, and the provider's SDK of version 1
	// refuses it together with its own client: SSL_CERT_FILE is enough for both.
	cmd := exec.CommandContext(ctx, r.drydock, "run", "--", "env", "-u", "AWS_CA_BUNDLE",
		"TF_ACC=1", "TF_ACC_TERRAFORM_PATH="+r.terraform, "CHECKPOINT_DISABLE=1", "AWS_DEFAULT_REGION=us-west-2", "AWS_REGION=us-west-2",
		"go", "tool", "test2json", "-t", r.binary(service), "-test.v=test2json", "-test.parallel", strconv.Itoa(r.parallel),
		"-test.timeout", r.timeout.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = filepath.Join(r.work, "provider/internal/service", service)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	texts, ends := map[string]*bytes.Buffer{}, map[string]string{}
	in := bufio.NewScanner(out)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(in.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		name, _, sub := strings.Cut(e.Test, "/")
		if texts[name] == nil {
			texts[name] = &bytes.Buffer{}
		}
		texts[name].WriteString(e.Output)
		if !sub && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			ends[name] = e.Action
			fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), e.Action, name)
		}
	}
	if err := cmd.Wait(); err != nil {
		if _, isExit := errors.AsType[*exec.ExitError](err); !isExit {
			return nil, err
		}
	}
	var list []outcome
	for _, t := range tests {
		text := ""
		if b := texts[t.name]; b != nil {
			text = b.String()
		}
		if err := r.save(t, text); err != nil {
			return nil, err
		}
		list = append(list, judge(t, ends[t.name], text))
	}
	return list, nil
}

func (r *runner) save(t test, text string) error {
	dir := filepath.Join(r.work, "output", t.service)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, t.name), []byte(text), 0o644)
}

var (
	notImplemented = regexp.MustCompile(`NotImplemented: ([^\n]*)`)
	errorLine      = regexp.MustCompile(`(?m)^\s*(?:\|\s*)?(Error: .*|Check failed: .*|.*\bCheck \d+/\d+ error: .*|panic: .*)`)
	space          = regexp.MustCompile(`\s+`)
)

func judge(t test, action, text string) outcome {
	switch action {
	case "pass":
		return outcome{t, passed}
	case "skip":
		lines := strings.Split(strings.TrimSpace(text), "\n")
		t.reason = "skips itself"
		for _, l := range lines {
			if _, why, ok := strings.Cut(l, ".go:"); ok {
				t.reason = "skips itself: " + strings.TrimLeft(why, "0123456789: ")
			}
		}
		return outcome{t, refused}
	case "":
		return outcome{t, unending}
	}
	flat := space.ReplaceAllString(text, " ")
	if m := notImplemented.FindStringSubmatch(flat); m != nil {
		t.reason = m[1][:min(len(m[1]), 160)]
		return outcome{t, refused}
	}
	t.reason = "see its output"
	if m := errorLine.FindStringSubmatchIndex(text); m != nil {
		rest := text[m[2]:]
		t.reason = strings.TrimSpace(space.ReplaceAllString(rest[:min(len(rest), 300)], " "))
	}
	return outcome{t, failed}
}

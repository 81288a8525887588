package soak

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/api"
)

func script(lines ...string) string { return "#!/bin/bash\n" + strings.Join(lines, "\n") + "\n" }

// noise is meaningless bytes, the same ones each time.
func noise(n int, head string) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return head + string(b)
}

// bomb is text that unpacks to a thousand times its size.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(append([]byte("#!/bin/bash\n"), make([]byte, 12<<20)...))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// laughs is YAML whose aliases stand for more than a machine can hold.
func laughs(head string) string {
	var b strings.Builder
	b.WriteString(head + "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	return b.String()
}

func nested(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func multipart(depth int) string {
	body := "Content-Type: text/x-shellscript\n\n#!/bin/bash\necho deep\n"
	for i := range depth {
		body = fmt.Sprintf("Content-Type: multipart/mixed; boundary=\"b%d\"\nMIME-Version: 1.0\n\n--b%d\n%s\n--b%d--\n", i, i, body, i)
	}
	return body
}

func nodeConfig(cluster string) string {
	return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n" + cluster
}

// hostile is user data that no instance should get.
func hostile(t *testing.T, own string) map[string]string {
	cert := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	return map[string]string{
		"nothing but NULs":           strings.Repeat("\x00", 16384),
		"noise":                      noise(16000, ""),
		"a script of noise":          noise(8000, "#!/bin/bash\n"),
		"an interpreter of noise":    noise(500, "#!"),
		"a broken gzip":              noise(4000, "\x1f\x8b\x08"),
		"a gzip bomb":                bomb(t),
		"one long line":              script("echo " + strings.Repeat("x", 16000)),
		"many quotes":                script(strings.Repeat("'\"", 8000)),
		"deep subshells":             script(nested("(", "true", ")", 5000)),
		"deep substitutions":         script("echo " + nested("$(echo ", "x", ")", 1500)),
		"an endless loop":            script("while :; do :; done"),
		"an endless sleep":           script("while true; do sleep 1000; done"),
		"endless output":             script("while :; do echo yes yes yes yes; done"),
		"endless recursion":          script("f() { f; }", "f"),
		"endless recursion by eval":  script("f() { eval 'f'; }", "f"),
		"a fork bomb":                script(":(){ :|:& };:"),
		"many processes":             script("for i in {1..100000}; do sleep 60 & done; wait"),
		"a string without end":       script("x=x; while :; do x=$x$x; done"),
		"an array without end":       script("a=(); while :; do a+=(\"${a[@]}\" x); done"),
		"a brace without end":        script("echo {1..999999999}"),
		"gigabytes by yes":           script("yes > /var/big"),
		"gigabytes by dd":            script("dd if=/dev/zero of=/var/big bs=1M count=1000000"),
		"gigabytes by doubling":      script("echo x > /a", "while :; do cat /a /a > /b; mv /b /a; done"),
		"a file without an end":      script("truncate -s 1000000000000 /big", "cat /big"),
		"files without number":       script("i=0; while :; do i=$((i+1)); echo x > /var/f$i; done"),
		"directories without depth":  script("while :; do mkdir d && cd d; done"),
		"links in circles":           script("ln -s /a /b; ln -s /b /a; cat /a; cp -r / /copy"),
		"everything removed":         script("rm -rf --no-preserve-root /", "rm -rf /*"),
		"a regular expression":       script("echo " + strings.Repeat("a", 200) + " | grep -E '" + strings.Repeat("(a*)*", 30) + "b'"),
		"its own daemon":             script("curl -s --max-time 2 "+own+"/_drydock/reset -X POST", "curl -s --max-time 2 http://localhost/"),
		"the host's files":           script("cat /proc/self/environ /etc/shadow ../../../../../../etc/passwd", "curl -s file:///etc/passwd"),
		"YAML that laughs":           laughs("#cloud-config\n"),
		"deep YAML":                  "#cloud-config\nruncmd: " + nested("[", "x", "]", 7000),
		"files beyond the disk":      "#cloud-config\nwrite_files:\n- path: ../../../../etc/passwd\n  content: x\n- path: /dev/sda\n  permissions: '99999999999'\n  content: !!binary AAAA\n",
		"parts within parts":         multipart(60),
		"a boundary of nothing":      "Content-Type: multipart/mixed; boundary=\"\"\nMIME-Version: 1.0\n\n--\n--\n",
		"a NodeConfig of no cluster": nodeConfig("    name: ../../../x\n    apiServerEndpoint: file:///etc/passwd\n    certificateAuthority: " + cert + "\n    cidr: 10.100.0.0/16\n"),
		"a NodeConfig of the daemon": nodeConfig("    name: x\n    apiServerEndpoint: " + strings.Replace(own, "http:", "https:", 1) + "\n    certificateAuthority: " + cert + "\n    cidr: 10.100.0.0/16\n"),
		"a NodeConfig of metadata":   nodeConfig("    name: x\n    apiServerEndpoint: https://169.254.169.254\n    certificateAuthority: " + cert + "\n    cidr: not/a/range\n"),
		"a NodeConfig of numbers":    nodeConfig("    name: x\n    apiServerEndpoint: https://x.eks.amazonaws.com:99999999\n    certificateAuthority: AAAA\n    cidr: 10.100.0.0/16\n") + "  kubelet:\n    config:\n      maxPods: -9223372036854775809\n      clusterDNS: [[[[]]]]\n    flags: ['--node-labels=" + strings.Repeat("a,", 4000) + "', '--max-pods=1e309']\n",
		"a NodeConfig that laughs":   laughs("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"),
		"a deep NodeConfig":          nodeConfig("    name: x\n") + "  kubelet: {config: " + nested("{a: ", "1", "}", 3000) + "}\n",
		"bootstrap.sh of noise":      script("/etc/eks/bootstrap.sh \"$(head -c 9000 /dev/urandom)\" --apiserver-endpoint 'https://[::1]:99999' --kubelet-extra-args '--node-labels=" + strings.Repeat("x=", 2000) + "'"),
	}
}

// Whatever user data instances get, they boot or fail to boot; they can be ended; and the daemon keeps answering all
// other requests.
func TestHostileUserData(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	d := start(t)
	w := &world{daemon: d, ec2: awsec2.NewFromConfig(d.config()), suspects: map[string]int{}}
	ctx := t.Context()
	images := must(w.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{
		Owners: []string{"amazon"}, Filters: []ec2types.Filter{
			{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.33-*"}},
			{Name: aws.String("architecture"), Values: []string{"x86_64"}},
		},
	}))(t).Images
	if len(images) == 0 {
		t.Fatal("there is no image")
	}
	run := func(userData string) (string, error) {
		out, err := w.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
			ImageId: images[0].ImageId, InstanceType: ec2types.InstanceTypeT3Small, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		})
		if err != nil {
			return "", err
		}
		return *out.Instances[0].InstanceId, nil
	}
	_, err := run(script(strings.Repeat("x", 16384)))
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "InvalidParameterValue" || api.ErrorMessage() != "User data is limited to 16384 bytes" {
		t.Errorf("too much user data: %v", err)
	}
	polite := func() error {
		id, err := run(script("echo all is well"))
		if err != nil {
			return err
		}
		deadline := time.Now().Add(time.Minute)
		for {
			out, err := w.ec2.GetConsoleOutput(ctx, &awsec2.GetConsoleOutputInput{InstanceId: &id})
			if err == nil {
				text, _ := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
				if bytes.Contains(text, []byte("all is well")) {
					_, err = w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}})
					return err
				}
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("a polite instance has not booted: %v", err)
			}
			pause(100 * time.Millisecond)
		}
	}
	if err := polite(); err != nil {
		t.Fatal(err)
	}
	before := w.settledUsage()

	cases := hostile(t, d.URL)
	var names, ids []string
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id, err := run(cases[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids = append(ids, id)
	}
	slowest := time.Duration(0)
	patience := 15 * time.Second
	if readPlan(t).long {
		patience = 5 * time.Minute
	}
	booting := ids
	for end := time.Now().Add(patience); time.Now().Before(end) && len(booting) > 0; {
		booting = slices.DeleteFunc(slices.Clone(booting), d.booted)
		began := time.Now()
		if err := d.healthy(ctx); err != nil {
			t.Fatal(err)
		}
		must(w.ec2.DescribeInstanceStatus(ctx, &awsec2.DescribeInstanceStatusInput{InstanceIds: ids}))(t)
		slowest = max(slowest, time.Since(began))
		pause(250 * time.Millisecond)
	}
	during := w.usage()
	var still []string
	for i, id := range ids {
		if slices.Contains(booting, id) {
			still = append(still, names[i])
		}
	}
	t.Logf("still at it: %s", strings.Join(still, ", "))
	t.Logf("%d hostile instances; before: %v; with them: %v; slowest answer %v", len(ids), before, during, slowest.Round(time.Millisecond))
	if slowest > 20*time.Second {
		t.Errorf("an answer took %v", slowest)
	}
	// The disks of all machines hold 512 MiB, besides 8 MiB each, scripts and programs hold another 512, and changes of 160 may be on
	// their way there.
	if during.rss > before.rss+1200 {
		t.Errorf("the daemon grew from %d to %d MiB", before.rss, during.rss)
	}

	must(w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: ids}))(t)
	w.eventually(time.Minute, "hostile instances can be terminated", func(ctx context.Context) error {
		left, err := w.instances(ctx, "pending", "running", "shutting-down")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d are left", len(left))
		}
		return err
	})
	if err := polite(); err != nil {
		t.Errorf("after all of it: %v", err)
	}
	w.awaitUsage(before, time.Minute)
}

// booted reports whether an instance has finished with its user data.
func (d *daemon) booted(id string) bool {
	e, err := (&api.Client{Daemon: d.DaemonInfo}).WhyNode(d.t.Context(), api.Place{}, id)
	return err == nil && e.Phase != "" && e.Phase != "Booting"
}

// healthy checks whether the daemon answers.
func (d *daemon) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/_drydock/ping", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The configurations of a test are evaluated up to the first step that needs something else.
func TestStepsOf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("internal/acctest/acctest.go", `package acctest
import "fmt"
const ResourcePrefix = "tf-acc-test"
func ConfigZones(n int) string { return fmt.Sprintf("# %d zones\n", n) }`)
	write("internal/service/sqs/queue.go", `package sqs
const DefaultDelay = 5`)
	write("internal/service/sqs/queue_test.go", `package sqs_test
import (
	"fmt"
	sdkacctest "github.com/hashicorp/terraform-plugin-testing/helper/acctest"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-provider-aws/internal/acctest"
	tfsqs "github.com/hashicorp/terraform-provider-aws/internal/service/sqs"
)
func TestAccSQSQueue_delay(t *testing.T) {
	ctx := acctest.Context(t)
	rName := sdkacctest.RandomWithPrefix(acctest.ResourcePrefix)
	resourceName := "aws_sqs_queue.test"
	resource.ParallelTest(t, resource.TestCase{
		PreCheck: func() { acctest.PreCheck(ctx, t) },
		Steps: []resource.TestStep{
			{
				Config: testAccQueueConfig(rName, "a", "b"),
				Check: resource.ComposeTestCheckFunc(
					testAccCheckQueueExists(ctx, resourceName),
					acctest.CheckResourceAttrRegionalARN(resourceName, "arn", "sqs", "q"),
					resource.TestCheckResourceAttr(resourceName, "delay", fmt.Sprint(tfsqs.DefaultDelay)),
				),
			},
			{ResourceName: resourceName, ImportState: true},
			{Config: testAccQueueConfig(rName), ExpectNonEmptyPlan: true},
			{Config: testAccQueueConfig(tfsqs.Name()), ExpectError: regexache.MustCompile("x")},
		},
	})
}
func testAccQueueConfig(name string, names ...string) string {
	extra := ""
	for i, n := range names {
		if i > 0 { extra += "," }
		extra += fmt.Sprintf("%[1]q", n)
	}
	return acctest.ConfigCompose(acctest.ConfigZones(3), fmt.Sprintf("queue %[1]s %[2]s", name, extra))
}`)
	e := &evaluator{source: dir, packages: map[string]*declarations{}}
	steps, reason := e.stepsOf(providerPath+"internal/service/sqs", "TestAccSQSQueue_delay")
	if len(steps) != 2 || reason == "" {
		t.Fatalf("got %d steps, reason %q", len(steps), reason)
	}
	if c := steps[0].config; !strings.HasPrefix(c, "# 3 zones\nqueue tf-acc-test-") || !strings.HasSuffix(c, ` "a","b"`) {
		t.Errorf("configuration %q", c)
	}
	want := []check{
		{"TestCheckResourceAttr", "aws_sqs_queue.test", "arn", "arn:aws:sqs:us-west-2:000000000000:q"},
		{"TestCheckResourceAttr", "aws_sqs_queue.test", "delay", "5"},
	}
	if !reflect.DeepEqual(steps[0].checks, want) {
		t.Errorf("checks %v, want %v", steps[0].checks, want)
	}
	if !steps[1].nonEmpty {
		t.Error("the second step's plan is expected to be empty")
	}
	state := map[string]map[string]string{}
	flat := map[string]string{}
	flatten(flat, "", map[string]any{"delay": 5.0, "arn": "x", "list": []any{map[string]any{"on": true}}})
	state["aws_sqs_queue.test"] = flat
	if flat["list.#"] != "1" || flat["list.0.on"] != "true" {
		t.Errorf("flattened %v", flat)
	}
	if got := want[0].examine(state); !strings.Contains(got, `arn is "x"`) {
		t.Errorf("the wrong ARN: %q", got)
	}
	if got := want[1].examine(state); got != "" {
		t.Errorf("the right delay: %q", got)
	}
}

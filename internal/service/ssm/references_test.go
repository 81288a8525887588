package ssm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestParameterReferences checks that commands get the values of the parameters that they refer to.
func TestParameterReferences(t *testing.T) {
	w := newWorld(t, nil)
	put := func(name, kind, value string) {
		t.Helper()
		if _, err := w.client.PutParameter(t.Context(), &awsssm.PutParameterInput{Name: &name, Type: ssmtypes.ParameterType(kind), Value: &value, Overwrite: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
	}
	put("/app/name", "String", "shop")
	put("/app/name", "String", "store")
	put("/app/key", "SecureString", "secret")
	w.create(t, "refers", "Command", `{"schemaVersion":"2.2","parameters":{"who":{"type":"String","allowedPattern":"^[a-z]+$"}},
		"mainSteps":[{"name":"a","action":"aws:runShellScript","inputs":{"runCommand":["echo {{ who }} {{ssm:/app/name:1}}"]}}]}`)
	_, all := w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("refers"), Parameters: map[string][]string{"who": {"{{ ssm:/app/name }}"}}})
	if got := *all[0].CommandPlugins[0].Output; got != "echo store shop" {
		t.Errorf("the instance ran %q", got)
	}
	for ref, want := range map[string]string{"/app/key": "is a SecureString", "/app/none": "does not exist"} {
		_, err := w.client.SendCommand(t.Context(), &awsssm.SendCommandInput{
			DocumentName: aws.String("AWS-RunShellScript"), InstanceIds: []string{instanceID}, Parameters: map[string][]string{"commands": {"echo {{ssm:" + ref + "}}"}},
		})
		testkit.WantErrorWith(t, err, "InvalidParameters", want)
	}
}

// TestDeniedReferences checks that no reference, however it is written, reads a parameter that its caller may not read.
func TestDeniedReferences(t *testing.T) {
	w := newWorld(t, nil)
	keys := w.user(t, "dev", `{"Effect":"Allow","Action":"ssm:*","Resource":"*"},{"Effect":"Deny","Action":"ssm:GetParameters","Resource":"arn:aws:ssm:*:*:parameter/prod/*"}`)
	dev := awsssm.NewFromConfig(w.AWSConfigWith(keys))
	for name, value := range map[string]string{"/prod/db": "hunter2", "/dev/indirect": "{{ ssm:/prod/db }}"} {
		if _, err := w.client.PutParameter(t.Context(), &awsssm.PutParameterInput{Name: &name, Type: "String", Value: &value}); err != nil {
			t.Fatal(err)
		}
	}
	content := func(line string) string {
		return `{"schemaVersion":"2.2","parameters":{"who":{"type":"String","default":"x"}},"mainSteps":[{"name":"a","action":"aws:runShellScript","inputs":{"runCommand":["` + line + `"]}}]}`
	}
	w.create(t, "escaped", "Command", content(`echo {{ ssm\u003a/prod/db }}`))
	w.create(t, "composed", "Command", content(`echo {{ ssm:{{ who }} }}`))
	w.create(t, "versions", "Command", content("echo {{ who }}"))
	if _, err := w.client.UpdateDocument(t.Context(), &awsssm.UpdateDocumentInput{Name: aws.String("versions"), DocumentVersion: aws.String("$LATEST"), Content: aws.String(content("echo {{ ssm:/prod/db }}"))}); err != nil {
		t.Fatal(err)
	}
	run := func(lines ...string) *awsssm.SendCommandInput {
		return &awsssm.SendCommandInput{DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": lines}}
	}
	for what, in := range map[string]*awsssm.SendCommandInput{
		"plain":           run("echo {{ssm:/prod/db}}"),
		"a tab":           run("echo {{\tssm:/prod/db}}"),
		"escaped":         {DocumentName: aws.String("escaped")},
		"another version": {DocumentName: aws.String("versions"), DocumentVersion: aws.String("2")},
		"the latest":      {DocumentName: aws.String("versions"), DocumentVersion: aws.String("$LATEST")},
	} {
		in.InstanceIds = []string{instanceID}
		if _, err := dev.SendCommand(t.Context(), in); err == nil || !strings.Contains(err.Error(), "not authorized to perform: ssm:GetParameters on resource: arn:aws:ssm:us-east-1:"+w.fleet.account+":parameter/prod/db") {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.client = dev
	for what, in := range map[string]*awsssm.SendCommandInput{ // what only looks like a reference after others are replaced is none
		"two lines": run("echo {{", "ssm:/prod/db }}"),
		"indirect":  run("echo {{ ssm:/dev/indirect }}"),
		"composed":  {DocumentName: aws.String("composed"), Parameters: map[string][]string{"who": {"/prod/db"}}},
	} {
		if _, all := w.command(t, in); strings.Contains(*all[0].CommandPlugins[0].Output, "hunter2") || !strings.Contains(*all[0].CommandPlugins[0].Output, "{{") {
			t.Errorf("%s: the instance ran %q", what, *all[0].CommandPlugins[0].Output)
		}
	}
	w.create(t, "session", "Session", `{"schemaVersion":"1.0","sessionType":"InteractiveCommands","properties":{"linux":{"commands":"echo {{ ssm\u003a/prod/db }}"}}}`)
	_, err := dev.StartSession(t.Context(), &awsssm.StartSessionInput{Target: aws.String(instanceID), DocumentName: aws.String("session")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "ssm:GetParameters")
}

// TestEndsOfSteps checks how a step ends its document.
func TestEndsOfSteps(t *testing.T) {
	w := newWorld(t, nil)
	for inputs, want := range map[string]string{
		`"runCommand":["fail"],"onFailure":"successAndExit"`: "Success: Success Success",
		`"runCommand":["fail"],"onFailure":"exit"`:           "Failed: Failed Failed",
		`"runCommand":["exit 168"]`:                          "Success: Success Success",
		`"runCommand":["exit 169"]`:                          "Failed: Failed Failed",
	} {
		w.create(t, "ends", "Command", `{"schemaVersion":"2.2","mainSteps":[{"name":"a","action":"aws:runShellScript","inputs":{`+inputs+`}},
			{"name":"b","action":"aws:runShellScript","inputs":{"runCommand":["date"]}}]}`)
		c, all := w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("ends")})
		got := string(c.Status) + ":"
		for _, p := range all[0].CommandPlugins {
			got += " " + string(p.Status)
		}
		first, second := *all[0].CommandPlugins[0].Output, *all[0].CommandPlugins[1].Output
		if got != want || !strings.Contains(first, "Further document steps will be skipped.") || second != "" {
			t.Errorf("%s: %s, want %s\n%s\n%s", inputs, got, want, first, second)
		}
		if _, err := w.client.DeleteDocument(t.Context(), &awsssm.DeleteDocumentInput{Name: aws.String("ends")}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTargetKeys(t *testing.T) {
	w := newWorld(t, nil)
	for key, code := range map[string]string{"tags:team": "ValidationException", "resource-groups:Name": "NotImplemented"} {
		_, err := w.client.SendCommand(t.Context(), &awsssm.SendCommandInput{
			DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"date"}}, Targets: []ssmtypes.Target{{Key: &key, Values: []string{"x"}}},
		})
		testkit.WantErrorWith(t, err, code, "")
	}
}

func TestDocumentsInTheOtherFormat(t *testing.T) {
	w := newWorld(t, nil)
	content := `{"schemaVersion": "2.2", "description": "x", "mainSteps": [{"name": "a", "action": "aws:runShellScript", "inputs": {"timeoutSeconds": "60", "runCommand": ["date", "echo 'a: b'"]}}]}`
	w.create(t, "doc", "Command", content)
	get := func(name, format string) string {
		t.Helper()
		out, err := w.client.GetDocument(t.Context(), &awsssm.GetDocumentInput{Name: &name, DocumentFormat: ssmtypes.DocumentFormat(format)})
		if err != nil || string(out.DocumentFormat) != format {
			t.Fatalf("%+v, %v", out, err)
		}
		return *out.Content
	}
	want := "schemaVersion: \"2.2\"\ndescription: x\nmainSteps:\n  - name: a\n    action: aws:runShellScript\n    inputs:\n      timeoutSeconds: \"60\"\n      runCommand:\n        - date\n        - 'echo ''a: b'''\n"
	yaml := get("doc", "YAML")
	if yaml != want {
		t.Errorf("%s", yaml)
	}
	if _, err := w.client.CreateDocument(t.Context(), &awsssm.CreateDocumentInput{Name: aws.String("again"), DocumentType: "Command", DocumentFormat: "YAML", Content: &yaml}); err != nil {
		t.Fatal(err)
	}
	if got := get("again", "JSON"); !strings.Contains(got, `"timeoutSeconds": "60"`) || get("doc", "JSON") != content {
		t.Errorf("%s", got)
	}
}

func TestDocumentsOfOtherRegions(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"arn:aws:ssm:eu-west-1::document/AWS-RunShellScript", "arn:aws:ssm:eu-west-1:" + w.fleet.account + ":document/x"} {
		_, err := w.client.GetDocument(t.Context(), &awsssm.GetDocumentInput{Name: &name})
		testkit.WantErrorWith(t, err, "InvalidDocument", "")
	}
}

// TestExpiredParametersStartAnew creates a parameter again after it has expired, before the sweep has deleted it.
func TestExpiredParametersStartAnew(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, clock)
	put := func(policies *string) {
		t.Helper()
		for range 2 {
			if _, err := w.client.PutParameter(t.Context(), &awsssm.PutParameterInput{Name: aws.String("p"), Value: aws.String("v"), Type: "String", Tier: "Advanced", Overwrite: aws.Bool(true), Policies: policies}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(aws.String(`[{"Type":"Expiration","Version":"1.0","Attributes":{"Timestamp":"` + clock.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05.000Z") + `"}}]`))
	clock.SetTime(clock.Now().Add(2 * time.Hour))
	if _, err := w.client.PutParameter(t.Context(), &awsssm.PutParameterInput{Name: aws.String("p"), Value: aws.String("new"), Type: "String"}); err != nil {
		t.Fatal(err)
	}
	out, err := w.client.GetParameterHistory(t.Context(), &awsssm.GetParameterHistoryInput{Name: aws.String("p")})
	if err != nil || len(out.Parameters) != 1 || *out.Parameters[0].Value != "new" || out.Parameters[0].Version != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

package ssm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

const greeting = `schemaVersion: "2.2"
description: Greets somebody
parameters:
  who:
    type: String
    description: whom to greet
    default: world
    allowedPattern: ^[a-z]+$
  more:
    type: StringList
    default: []
mainSteps:
- name: windows
  action: aws:runPowerShellScript
  precondition:
    StringEquals: [platformType, Windows]
  inputs:
    runCommand: [Write-Output hello]
- name: greet
  action: aws:runShellScript
  precondition:
    StringEquals: [platformType, Linux]
  inputs:
    timeoutSeconds: "60"
    runCommand:
    - echo hello {{ who }}
    - "{{ more }}"
    - echo bye
`

func (w *world) create(t testing.TB, name string, kind ssmtypes.DocumentType, content string) {
	t.Helper()
	format := ssmtypes.DocumentFormatJson
	if !strings.HasPrefix(strings.TrimSpace(content), "{") {
		format = ssmtypes.DocumentFormatYaml
	}
	if _, err := w.client.CreateDocument(t.Context(), &awsssm.CreateDocumentInput{Name: &name, DocumentType: kind, DocumentFormat: format, Content: &content}); err != nil {
		t.Fatal(err)
	}
}

func TestDocuments(t *testing.T) {
	w := newWorld(t, nil)
	c, ctx := w.client, t.Context()
	made, err := c.CreateDocument(ctx, &awsssm.CreateDocumentInput{
		Name: aws.String("greeting"), DocumentType: "Command", DocumentFormat: "YAML", Content: aws.String(greeting), VersionName: aws.String("first"),
		Tags: []ssmtypes.Tag{{Key: aws.String("team"), Value: aws.String("shop")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := made.DocumentDescription; d.Status != "Creating" || *d.SchemaVersion != "2.2" || len(d.Parameters) != 2 || *d.Parameters[1].DefaultValue != "world" || *d.Description != "Greets somebody" {
		t.Errorf("%+v", d)
	}
	_, err = c.CreateDocument(ctx, &awsssm.CreateDocumentInput{Name: aws.String("greeting"), DocumentType: "Command", DocumentFormat: "YAML", Content: aws.String(greeting)})
	testkit.WantError(t, err, "DocumentAlreadyExists", "Document with same name greeting already exists")

	update := func(content, version string) (*awsssm.UpdateDocumentOutput, error) {
		return c.UpdateDocument(ctx, &awsssm.UpdateDocumentInput{Name: aws.String("greeting"), DocumentFormat: "YAML", Content: &content, DocumentVersion: &version, VersionName: aws.String("second")})
	}
	_, err = update(greeting, "$LATEST")
	testkit.WantError(t, err, "DuplicateDocumentContent", "")
	_, err = update(greeting+"\n", "7")
	testkit.WantError(t, err, "InvalidDocumentVersion", "")
	updated, err := update(strings.Replace(greeting, "Greets", "Welcomes", 1), "$LATEST")
	if err != nil || *updated.DocumentDescription.LatestVersion != "2" || *updated.DocumentDescription.DefaultVersion != "1" {
		t.Errorf("%+v, %v", updated, err)
	}
	get := func(version, name *string) string {
		t.Helper()
		out, err := c.GetDocument(ctx, &awsssm.GetDocumentInput{Name: aws.String("greeting"), DocumentVersion: version, VersionName: name})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Content
	}
	if get(nil, nil) != greeting || !strings.Contains(get(aws.String("$LATEST"), nil), "Welcomes") || !strings.Contains(get(nil, aws.String("second")), "Welcomes") || get(aws.String("1"), nil) != greeting {
		t.Error("the wrong version")
	}
	if _, err := c.UpdateDocumentDefaultVersion(ctx, &awsssm.UpdateDocumentDefaultVersionInput{Name: aws.String("greeting"), DocumentVersion: aws.String("2")}); err != nil {
		t.Fatal(err)
	}
	versions, err := c.ListDocumentVersions(ctx, &awsssm.ListDocumentVersionsInput{Name: aws.String("greeting")})
	if err != nil || len(versions.DocumentVersions) != 2 || *versions.DocumentVersions[0].DocumentVersion != "2" || !versions.DocumentVersions[0].IsDefaultVersion {
		t.Errorf("%+v, %v", versions, err)
	}
	list := func(key string, values ...string) (names []string) {
		t.Helper()
		out, err := c.ListDocuments(ctx, &awsssm.ListDocumentsInput{Filters: []ssmtypes.DocumentKeyValuesFilter{{Key: &key, Values: values}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range out.DocumentIdentifiers {
			names = append(names, *d.Name)
		}
		return names
	}
	for key, want := range map[[2]string]string{
		{"Owner", "Self"}: "greeting", {"tag:team", "shop"}: "greeting", {"Name", "AWS-Run"}: "AWS-RunShellScript", {"DocumentType", "Command"}: "AWS-GatherSoftwareInventory AWS-RunShellScript AWS-UpdateSSMAgent greeting",
		{"Owner", "Private"}: "", {"PlatformTypes", "Windows"}: "AWS-GatherSoftwareInventory AWS-StartInteractiveCommand AWS-StartNonInteractiveCommand AWS-StartPortForwardingSession AWS-StartPortForwardingSessionToRemoteHost AWS-StartSSHSession AWS-UpdateSSMAgent greeting",
	} {
		if got := strings.Join(list(key[0], key[1]), " "); got != want {
			t.Errorf("%v: %s", key, got)
		}
	}
	described, err := c.DescribeDocument(ctx, &awsssm.DescribeDocumentInput{Name: aws.String("AWS-RunShellScript")})
	if err != nil || *described.Document.Owner != "Amazon" || *described.Document.SchemaVersion != "1.2" {
		t.Errorf("%+v, %v", described, err)
	}

	// Another account uses it once it is shared.
	other := awsssm.NewFromConfig(w.AWSConfig(w.Account(t)))
	shared := "arn:aws:ssm:us-east-1:" + w.fleet.account + ":document/greeting"
	_, err = other.GetDocument(ctx, &awsssm.GetDocumentInput{Name: &shared})
	testkit.WantError(t, err, "InvalidDocument", "Document with name "+shared+" does not exist.")
	share := &awsssm.ModifyDocumentPermissionInput{Name: aws.String("greeting"), PermissionType: "Share", AccountIdsToAdd: []string{"all"}}
	if _, err := c.ModifyDocumentPermission(ctx, share); err != nil {
		t.Fatal(err)
	}
	if out, err := other.GetDocument(ctx, &awsssm.GetDocumentInput{Name: &shared}); err != nil || *out.Name != shared {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = c.DeleteDocument(ctx, &awsssm.DeleteDocumentInput{Name: aws.String("greeting")})
	testkit.WantError(t, err, "InvalidDocumentOperation", "")
	if out, err := c.DescribeDocumentPermission(ctx, &awsssm.DescribeDocumentPermissionInput{Name: aws.String("greeting"), PermissionType: "Share"}); err != nil || len(out.AccountIds) != 1 || out.AccountIds[0] != "all" {
		t.Errorf("%+v, %v", out, err)
	}
	// The latest version is the highest that exists, and numbers are never reused.
	if _, err := update(greeting+"# third", "$LATEST"); err == nil {
		t.Error("a version name is used twice")
	}
	third, err := c.UpdateDocument(ctx, &awsssm.UpdateDocumentInput{Name: aws.String("greeting"), DocumentFormat: "YAML", Content: aws.String(greeting + "# third"), DocumentVersion: aws.String("$LATEST")})
	if err != nil || *third.DocumentDescription.LatestVersion != "3" {
		t.Fatalf("%+v, %v", third, err)
	}
	if _, err := c.DeleteDocument(ctx, &awsssm.DeleteDocumentInput{Name: aws.String("greeting"), DocumentVersion: aws.String("3")}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(get(aws.String("$LATEST"), nil), "Welcomes") {
		t.Error("the latest version is not the second")
	}
	if d, err := c.DescribeDocument(ctx, &awsssm.DescribeDocumentInput{Name: aws.String("greeting")}); err != nil || *d.Document.LatestVersion != "2" {
		t.Errorf("%+v, %v", d, err)
	}
	fourth, err := c.UpdateDocument(ctx, &awsssm.UpdateDocumentInput{Name: aws.String("greeting"), DocumentFormat: "YAML", Content: aws.String(greeting + "# fourth"), DocumentVersion: aws.String("2")})
	if err != nil || *fourth.DocumentDescription.LatestVersion != "4" {
		t.Fatalf("%+v, %v", fourth, err)
	}

	share.AccountIdsToAdd, share.AccountIdsToRemove = nil, []string{"all"}
	if _, err := c.ModifyDocumentPermission(ctx, share); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteDocument(ctx, &awsssm.DeleteDocumentInput{Name: aws.String("greeting"), DocumentVersion: aws.String("2")})
	testkit.WantError(t, err, "InvalidDocumentOperation", "Default version of the document can't be deleted.")
	if _, err := c.DeleteDocument(ctx, &awsssm.DeleteDocumentInput{Name: aws.String("greeting")}); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetDocument(ctx, &awsssm.GetDocumentInput{Name: aws.String("greeting")})
	testkit.WantError(t, err, "InvalidDocument", "Document with name greeting does not exist.")
}

func TestInvalidDocuments(t *testing.T) {
	w := newWorld(t, nil)
	const step = `"mainSteps":[{"name":"a","action":"aws:runShellScript","inputs":{"runCommand":["x"]}}]`
	for _, c := range []struct{ kind, content, code, text string }{
		{"Command", `{`, "InvalidDocumentContent", "JSON not well-formed."},
		{"Command", `{"schemaVersion":"3.0",` + step + `}`, "InvalidDocumentSchemaVersion", "3.0 is not a valid schema version for Command document type"},
		{"Session", `{"schemaVersion":"2.0","sessionType":"Standard_Stream"}`, "InvalidDocumentSchemaVersion", "2.0 is not a valid schema version for Session document type"},
		{"", `{"schemaVersion":"2.2",` + step + `}`, "InvalidDocumentSchemaVersion", "Document type is required for schema version 2.2"},
		{"Session", `{"schemaVersion":"1.0","sessionType":"Stream"}`, "InvalidDocumentContent", "session type"},
		{"Session", `{"schemaVersion":"1.0","sessionType":"Standard_Stream","inputs":{"idleSessionTimeout":"90"}}`, "InvalidDocumentContent", "idleSessionTimeout"},
		{"Command", `{"schemaVersion":"2.2","mainSteps":[]}`, "InvalidDocumentContent", "no steps"},
		{"Command", `{"schemaVersion":"2.2","mainSteps":[{"name":"a","action":"aws:fly","inputs":{}}]}`, "InvalidDocumentContent", "aws:fly"},
		{"Command", `{"schemaVersion":"2.2","mainSteps":[{"name":"a","action":"aws:runShellScript","inputs":{"runCommand":["{{ x }}"]}}]}`, "InvalidDocumentContent", `Parameter "x" is not declared.`},
		{"Command", `{"schemaVersion":"2.2","parameters":{"x":{"type":"Number"}},` + step + `}`, "InvalidDocumentContent", "valid type"},
		{"Command", `{"schemaVersion":"2.2","mainSteps":[{"name":"a","action":"aws:runShellScript","inputs":[]}]}`, "InvalidDocumentContent", "wrong type"},
		{"Command", `{"schemaVersion":"2.2","description":"` + strings.Repeat("x", 64<<10) + `",` + step + `}`, "MaxDocumentSizeExceeded", "64 KB"},
		{"Command", `{"schemaVersion":"2.2","mainSteps":[{"name":"a","action":"aws:downloadContent","inputs":{}}]}`, "NotImplemented", "aws:downloadContent"},
		{"Automation", `{}`, "NotImplemented", "Automation"},
	} {
		_, err := w.client.CreateDocument(t.Context(), &awsssm.CreateDocumentInput{Name: aws.String("mine"), DocumentType: ssmtypes.DocumentType(c.kind), Content: &c.content})
		testkit.WantErrorWith(t, err, c.code, c.text)
	}
	content := `{"schemaVersion":"2.2",` + step + `}`
	_, err := w.client.CreateDocument(t.Context(), &awsssm.CreateDocumentInput{Name: aws.String("AWS-Mine"), DocumentType: "Command", Content: &content})
	testkit.WantErrorWith(t, err, "ValidationException", "reserved")
	_, err = w.client.CreateDocument(t.Context(), &awsssm.CreateDocumentInput{Name: aws.String("SSM-SessionManagerRunShell"), DocumentType: "Command", Content: &content})
	testkit.WantErrorWith(t, err, "ValidationException", "must have the type Session")
	w.create(t, "old", "", `{"schemaVersion":"1.2","runtimeConfig":{"aws:runShellScript":{"properties":[{"runCommand":["x"]}]}}}`)
	_, err = w.client.UpdateDocument(t.Context(), &awsssm.UpdateDocumentInput{Name: aws.String("old"), Content: aws.String(`{"schemaVersion":"1.2","runtimeConfig":{"aws:runShellScript":{"properties":[{"runCommand":["y"]}]}}}`)})
	testkit.WantError(t, err, "InvalidDocumentSchemaVersion", "")
}

// TestManyVersions checks that DeleteDocument deletes a document with more versions than fit into a transaction.
func TestManyVersions(t *testing.T) {
	w := newWorld(t, nil)
	content := func(n int) string {
		return fmt.Sprintf(`{"schemaVersion":"1.0","description":"%d","sessionType":"InteractiveCommands","properties":{"linux":{"commands":"top"}}}`, n)
	}
	w.create(t, "many", "Session", content(0))
	for n := range 200 {
		if _, err := w.client.UpdateDocument(t.Context(), &awsssm.UpdateDocumentInput{Name: aws.String("many"), Content: aws.String(content(n + 1)), DocumentVersion: aws.String("$LATEST")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.client.DeleteDocument(t.Context(), &awsssm.DeleteDocumentInput{Name: aws.String("many")}); err != nil {
		t.Fatal(err)
	}
	w.create(t, "many", "Session", content(0))
	out, err := w.client.ListDocumentVersions(t.Context(), &awsssm.ListDocumentVersionsInput{Name: aws.String("many")})
	if err != nil || len(out.DocumentVersions) != 1 {
		t.Errorf("%d versions, %v", len(out.DocumentVersions), err)
	}
}

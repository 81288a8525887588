package botocore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/model/botocore"
)

// The embedded models are what the generator makes of their sources. The sources
// are not part of the repository: AWS_DATA names the folder above theirs.
func TestEmbeddedModelsAreUpToDate(t *testing.T) {
	dir := os.Getenv("AWS_DATA")
	if dir == "" {
		t.Skip("AWS_DATA is not set")
	}
	for _, name := range model.Names() {
		in, err := os.ReadFile(filepath.Join(dir, "models", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := botocore.Compact(name, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := model.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: go generate ./internal/awsapi/model", name)
		}
	}
}

func TestCompactFoldsScalarsAndDropsUnusedShapes(t *testing.T) {
	got, err := botocore.Compact("x", []byte(`{
		"metadata": {"protocol": "json", "targetPrefix": "X"},
		"operations": {"Do": {"name": "Do", "http": {"method": "POST", "requestUri": "/"}, "input": {"shape": "In"}, "errors": [{"shape": "Oops"}]}},
		"shapes": {
			"In": {"type": "structure", "required": ["a"], "members": {"b": {"shape": "When"}, "a": {"shape": "Text"}}},
			"Oops": {"type": "structure", "exception": true, "members": {}, "error": {"code": "Ouch", "httpStatusCode": 418}},
			"Text": {"type": "string", "sensitive": true, "pattern": ".*"},
			"When": {"type": "timestamp", "timestampFormat": "iso8601"},
			"Unused": {"type": "structure", "members": {}}
		}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"name":"x","package":"x","protocol":"json","targetPrefix":"X"}}
{"operation":{"name":"Do","input":"In","errors":["Oops"]}}
{"shape":{"name":"In","type":"structure","members":[{"name":"a","required":true,"sensitive":true},{"name":"b","shape":"timestamp","timestampFormat":"iso8601"}]}}
{"shape":{"name":"Oops","type":"structure","exception":true,"code":"Ouch","status":418}}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

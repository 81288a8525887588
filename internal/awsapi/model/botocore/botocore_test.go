package botocore_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/model/botocore"
)

// The embedded models are what the generator made from their sources, which are not part of the repository: checksums
// show whether somebody edited one. If AWS_DATA names the folder above the sources, the models are generated again
// and compared.
func TestEmbeddedModelsAreUpToDate(t *testing.T) {
	list, err := os.ReadFile("../data/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(list)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[strings.TrimSuffix(file, ".jsonl")] = sum
	}
	if diff := cmp.Diff(model.Names(), slices.Sorted(maps.Keys(sums))); diff != "" {
		t.Errorf("models (-embedded +summed):\n%s", diff)
	}
	sources := os.Getenv("AWS_DATA")
	for _, name := range model.Names() {
		got, err := model.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(got)); sum != sums[name] {
			t.Errorf("%s.jsonl was edited by hand: make generate writes it", name)
		}
		if sources == "" {
			continue
		}
		in, err := os.ReadFile(filepath.Join(sources, "models", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := botocore.Compact(name, in)
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
			"Oops": {"type": "structure", "exception": true, "members": {"m": {"shape": "Answered"}}, "error": {"code": "Ouch", "httpStatusCode": 418}},
			"Text": {"type": "string", "sensitive": true, "pattern": "a+"},
			"When": {"type": "timestamp", "timestampFormat": "iso8601"},
			"Answered": {"type": "string", "max": 7},
			"Unused": {"type": "structure", "members": {}}
		}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"name":"x","package":"x","protocol":"json","targetPrefix":"X"}}
{"operation":{"name":"Do","input":"In","errors":["Oops"]}}
{"shape":{"name":"In","type":"structure","members":[{"name":"a","shape":"Text","required":true,"sensitive":true},{"name":"b","shape":"timestamp","timestampFormat":"iso8601"}]}}
{"shape":{"name":"Oops","type":"structure","exception":true,"code":"Ouch","status":418,"members":[{"name":"m"}]}}
{"shape":{"name":"Text","type":"string","pattern":"a+"}}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

package awscli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jmespath/go-jmespath"
)

// maxQuery bounds a query's length, and with it how deeply parsing it nests.
const maxQuery = 4 << 10

// print writes an answer, or the result of --query on it.
func (c *command) print(out any) error {
	m, isMap := out.(map[string]any)
	if c.g.query != "" {
		if len(c.g.query) > maxQuery {
			return usagef("Bad value for --query: it is too long")
		}
		query, err := jmespath.Compile(c.g.query)
		if err != nil {
			return usagef("Bad value for --query %s: %s", c.g.query, err)
		}
		if out, err = query.Search(out); err != nil {
			return &failure{status: statusGeneral, text: "\n" + err.Error(), cause: err}
		}
	} else if isMap && len(m) == 0 {
		return nil
	}
	if c.g.output == "text" {
		var b strings.Builder
		writeText(&b, out, "", nil)
		_, err := io.WriteString(c.Stdout, b.String())
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := c.Stdout.Write(b.Bytes())
	return err
}

// writeText is --output text: first a structure's scalars, sorted by name, in one line with tabs, then its lists and
// structures, each line prefixed by the name.
// https://docs.aws.amazon.com/cli/latest/userguide/cli-usage-output-format.html#text-output
func writeText(w *strings.Builder, v any, name string, scalars []string) {
	switch v := v.(type) {
	case map[string]any:
		writeStructure(w, v, name, scalars)
	case []any:
		writeList(w, v, name)
	default:
		w.WriteString(textScalar(v) + "\n")
	}
}

// writeStructure writes a structure. The columns are the sorted scalars, or the structure's own if scalars is nil.
func writeStructure(w *strings.Builder, v map[string]any, name string, scalars []string) {
	var line, others []string
	for _, k := range scalars {
		if x, ok := v[k]; ok {
			line = append(line, textScalar(x))
		} else {
			line = append(line, "")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		_, column := slices.BinarySearch(scalars, k)
		switch {
		case column:
		case isScalar(v[k]):
			line = append(line, textScalar(v[k]))
		default:
			others = append(others, k)
		}
	}
	if len(line) > 0 {
		if name != "" {
			line = append([]string{strings.ToUpper(name)}, line...)
		}
		w.WriteString(strings.Join(line, "\t") + "\n")
	}
	for _, k := range others {
		writeText(w, v[k], k, nil)
	}
}

func writeList(w *strings.Builder, list []any, name string) {
	has := func(is func(any) bool) bool { return slices.ContainsFunc(list, is) }
	isMap := func(v any) bool { _, ok := v.(map[string]any); return ok }
	isList := func(v any) bool { _, ok := v.([]any); return ok }
	switch {
	case len(list) == 0:
	case has(isMap):
		// All structures of a list get the same columns.
		columns := map[string]bool{}
		for _, x := range list {
			m, _ := x.(map[string]any)
			for k, v := range m {
				if isScalar(v) {
					columns[k] = true
				}
			}
		}
		sorted := append([]string{}, slices.Sorted(maps.Keys(columns))...) // it must not be nil
		for _, x := range list {
			writeText(w, x, name, sorted)
		}
	case has(isList):
		var flat []any
		for _, x := range list {
			if isScalar(x) {
				flat = append(flat, x)
			}
		}
		if flat != nil {
			writeList(w, flat, name)
		}
		for _, x := range list {
			if !isScalar(x) {
				writeText(w, x, name, nil)
			}
		}
	case name != "":
		for _, x := range list {
			w.WriteString(strings.ToUpper(name) + "\t" + textScalar(x) + "\n")
		}
	default:
		var words []string
		for _, x := range list {
			words = append(words, textScalar(x))
		}
		w.WriteString(strings.Join(words, "\t") + "\n")
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// textScalar formats a value as Python prints it.
func textScalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		return scalar(v)
	}
	return fmt.Sprint(v)
}

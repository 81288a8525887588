package app

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
)

// WriteStackTypes writes docs/cloudformation.md: the resource types and properties of stacks.
func WriteStackTypes(w io.Writer) error {
	table, err := server.Compatibility(operations())
	if err != nil {
		return err
	}
	byName := map[string]server.OperationCompatibility{}
	for _, s := range table {
		for _, op := range s.Operations {
			byName[s.Name+"."+op.Name] = op
		}
	}
	// The names of the SDK's packages that the models have not.
	models := map[string]string{"elasticloadbalancing": "elb", "elasticloadbalancingv2": "elbv2", "cloudwatchlogs": "logs", "eventbridge": "events"}
	refused := func(input any) ([]string, string) {
		if input == nil {
			return nil, ""
		}
		t := reflect.TypeOf(input).Elem()
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		if name, ok := models[pkg]; ok {
			pkg = name
		}
		op := byName[pkg+"."+strings.TrimSuffix(t.Name(), "Input")]
		return op.Refused, op.Except
	}
	var b strings.Builder
	b.WriteString(`# Resource types of CloudFormation

Generated from the tables that stacks are made with. Do not edit. docs/compatibility.md says what else of CloudFormation there is.

A property that is not handled fails the resource with the text of HTTP 501: none is dropped silently. The other columns:

- *in place*: an update changes these without a new resource. A property that AWS's schema calls create-only needs a new one, which the update makes first. A change of any
  other property fails the update.
- *values*: what the call that makes the resource refuses.

| type | properties | not handled | in place | values |
|---|---|---|---|---|
`)
	quoted := func(names []string) string {
		if len(names) == 0 {
			return ""
		}
		return "`" + strings.Join(names, "` `") + "`"
	}
	types := cloudformation.TypesSupported(refused)
	for _, t := range types {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", t.Type, quoted(t.Handled), quoted(t.Refused), quoted(t.InPlace), t.Values)
	}
	fmt.Fprintf(&b, "\nThere are %d types.\n", len(types))
	_, err = io.WriteString(w, b.String())
	return err
}

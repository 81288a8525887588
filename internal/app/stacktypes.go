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
		if op.State == server.None && op.Why != "" {
			return nil, "all of them. " + op.Why
		}
		return op.Refused, op.Except
	}
	var b strings.Builder
	b.WriteString(`# Resource types of CloudFormation

Generated from the tables that create stacks. Do not edit. docs/compatibility.md covers the rest of CloudFormation.

A property that is not handled fails the resource with the text of HTTP 501: none is dropped silently. The other columns:

- *in place*: an update changes these without replacing the resource. A property that AWS's schema calls create-only needs a replacement, which the update creates before it deletes the old resource, or after that if AWS does so. A change of any
  other property fails the update.
- *values*: the values that the call that creates the resource refuses.

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
	fmt.Fprintf(&b, "\n## Drift and imports\n\nDrift is detected in %s, and change sets of the type IMPORT accept these types. Resources of other types stay NOT_CHECKED, and a property that Drydock cannot read counts as unchanged.\n", quoted(cloudformation.TypesRead()))
	b.WriteString(`
## Templates

All functions, sections and policies of templates work, except for these. Each fails with an error that says so:

- the section Hooks, and transforms other than AWS::Include and AWS::LanguageExtensions: AWS::Serverless and macros run in Lambda
- Fn::GetAZs of a region other than the stack's
- dynamic references to services other than ssm, ssm-secure and secretsmanager

DeletionPolicy Snapshot makes a snapshot of an AWS::EC2::Volume. For other types it has no effect, as on AWS.

## Custom resources

AWS sends the requests of custom resources to Lambda functions and SNS topics. Drydock does not: AWS::CloudFormation::CustomResource and Custom::* fail with a reason that names the
ServiceToken. It does the work of these AWS CDK functions itself, with the stack's permissions instead of the function's:

| type | what it does |
|---|---|
`)
	for _, c := range cloudformation.CustomResources() {
		fmt.Fprintf(&b, "| %s | %s |\n", c.Type, c.Does)
	}
	b.WriteString(`
A template may contain an AWS::Lambda::Function if nothing but the ServiceToken of such resources refers to it. The stack lists the function, but it does not exist and its code is not read.
Its role is created. Other functions are refused like a type that does not exist. In the CDK, these constructs need Lambda and therefore cannot be deployed: clusters, manifests and charts of
aws-eks (aws-eks-v2 creates clusters, node groups and access entries without Lambda, but its manifests and charts need it), bucket deployments, AwsCustomResource and the provider framework.
`)
	_, err = io.WriteString(w, b.String())
	return err
}

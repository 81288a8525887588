package template_test

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

type runtime struct{}

func (runtime) Ref(id string) (string, error)      { return "ref-" + id, nil }
func (runtime) GetAtt(id, a string) (any, error)   { return id + "-" + a, nil }
func (runtime) Import(name string) (string, error) { return "import-" + name, nil }
func (runtime) Zones(region string) ([]string, error) {
	return []string{region + "a", region + "b"}, nil
}
func (runtime) Dynamic(reference string) (string, error) { return "<" + reference + ">", nil }

var env = template.Environment{AccountID: "111122223333", Region: "us-east-1", StackID: "arn:s", StackName: "cart"}

func bind(body string, given map[string]string) (*template.Instance, error) {
	t, err := template.Parse(body)
	if err != nil {
		return nil, err
	}
	values, err := t.Values(given)
	if err != nil {
		return nil, err
	}
	i, err := t.Bind(env, values)
	if err != nil {
		return nil, err
	}
	return i, i.CheckRules(func(typ, id, attribute string) (string, error) {
		if id == "vpc-none" {
			return "", errors.New("it does not exist")
		}
		return map[string]string{"subnet-a VpcId": "vpc-1", "subnet-b VpcId": "vpc-1", "subnet-c VpcId": "vpc-2", "vpc-1 Tags.Team": "red"}[id+" "+attribute], nil
	})
}

// value resolves the property V of the only resource.
func value(body string, given map[string]string) (string, error) {
	i, err := bind(body, given)
	if err != nil {
		return "", err
	}
	m, err := i.Properties(i.Resources[0], runtime{})
	if err != nil {
		return "", err
	}
	return template.JSON(m.Get("V")), nil
}

func TestFunctions(t *testing.T) {
	const head = `
Transform: AWS::LanguageExtensions
Parameters:
  Name: {Type: String, Default: cart}
  Zones: {Type: CommaDelimitedList, Default: "a, b ,c"}
  Size: {Type: Number, Default: 3}
Mappings:
  M: {us-east-1: {Key: one, List: [x, y]}}
Conditions:
  IsCart: !Equals [!Ref Name, cart]
  NotCart: !Not [Condition: IsCart]
  Both: !And [Condition: IsCart, !Or [Condition: NotCart, !Equals ["1", 1]]]
Resources:
  A:
    Type: AWS::SQS::Queue
    Properties:
      V: `
	const tail = `
  B: {Type: AWS::SQS::Queue}
`
	for _, tt := range []struct{ v, want string }{
		{"!Ref Name", `"cart"`},
		{"!Ref Size", `"3"`},
		{"!Ref Zones", `["a","b","c"]`},
		{"!Ref B", `"ref-B"`},
		{"!GetAtt B.Arn.x", `"B-Arn.x"`},
		{"!GetAtt [B, Arn]", `"B-Arn"`},
		{"!Sub '${Name}-${B}-${B.Arn}-${!Name}-$5-${AWS::Region}'", `"cart-ref-B-B-Arn-${Name}-$5-us-east-1"`},
		{"!Sub ['${Name}${x}', {Name: 1, x: !Ref B}]", `"1ref-B"`},
		{"!Join ['-', [a, !Ref 'AWS::NoValue', 2, true]]", `"a-2-true"`},
		{"!Join ['', [!Ref 'AWS::NoValue']]", `""`},
		{"!Split [',', 'a,,b']", `["a","","b"]`},
		{"!Select [1, !Ref Zones]", `"b"`},
		{"!Select ['0', !GetAZs '']", `"us-east-1a"`},
		{"!FindInMap [M, !Ref 'AWS::Region', Key]", `"one"`},
		{"!FindInMap [M, !Ref Name, Key, {DefaultValue: no}]", `"no"`},
		{"!If [Both, [1, !If [NotCart, 2, !Ref 'AWS::NoValue']], x]", `[1]`},
		{"{a: !If [NotCart, 2, !Ref 'AWS::NoValue'], b: yes}", `{"b":"yes"}`},
		{"{Fn::Base64: !Sub '${Name}'}", `"Y2FydA=="`},
		{"!Cidr [10.0.0.0/16, 3, 8]", `["10.0.0.0/24","10.0.1.0/24","10.0.2.0/24"]`},
		{"!Select [1, !Cidr ['2600:1f18::/56', 8, 64]]", `"2600:1f18:0:1::/64"`},
		{"{Fn::ImportValue: !Sub '${Name}::VPC'}", `"import-cart::VPC"`},
		{"!Length [1, 2]", `2`},
		{"!ToJsonString {b: 1, a: [!Ref Name]}", `"{\"b\":1,\"a\":[\"cart\"]}"`},
		{"x{{resolve:ssm:/a:1}}y", `"x<ssm:/a:1>y"`},
		{"[2012-10-17, 0644, yes, 1.5, -1, true, ~x]", `["2012-10-17","0644","yes",1.5,-1,true,"~x"]`},
		{"{Fn::ForEach::I: [I, [x, y-1], {'K&{I}': !Sub '${I}!', 'L${I}': !Ref I}]}", `{"Kx":"x!","Lx":"x","Ky1":"y-1!","Ly-1":"y-1"}`},
	} {
		if got, err := value(head+tt.v+tail, nil); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.v, got, err, tt.want)
		}
	}
}

func TestOrderAndConditions(t *testing.T) {
	i, err := bind(`{
		"Parameters": {"On": {"Type": "String", "Default": "no"}},
		"Conditions": {"On": {"Fn::Equals": [{"Ref": "On"}, "yes"]}},
		"Resources": {
			"C": {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Fn::Sub": "${B.Value}"}}},
			"B": {"Type": "AWS::SSM::Parameter", "DependsOn": ["A", "Off"], "Properties": {"Value": {"Fn::If": ["On", {"Ref": "Off"}, "x"]}}},
			"A": {"Type": "AWS::SSM::Parameter"},
			"Off": {"Type": "AWS::SSM::Parameter", "Condition": "On"}
		},
		"Outputs": {"O": {"Condition": "On", "Value": {"Ref": "Off"}}, "P": {"Value": {"Ref": "A"}, "Export": {"Name": "e"}}}
	}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range i.Resources {
		got = append(got, fmt.Sprint(r.ID, r.DependsOn))
	}
	if s := strings.Join(got, " "); s != "C[B] B[A] A[]" || len(i.Outputs) != 1 || i.Outputs[0].Export != "e" {
		t.Errorf("%s, %+v", s, i.Outputs)
	}
}

// faults are invalid templates and AWS's texts for them. Most texts are recorded in
// localstack/localstack, tests/aws/services/cloudformation/**/*.snapshot.json.
var faults = []struct{ body, want string }{
	{`{"Resources": {"A": {"Type": }}}`, "Template format error: JSON not well-formed. (line 1, column 30)"},
	{"a: [", "Template format error: YAML not well-formed."},
	{"Resources:\n  A:\n    Type: !Base64 !Sub x", "Template format error: YAML not well-formed."},
	{"text", "Template format error: unsupported structure."},
	{"", "Template format error: unsupported structure."},
	{"Resources: {}", "Template format error: At least one Resources member must be defined."},
	{"Resources: {A: x}", "Template format error: Any Resources member must be an object."},
	{"Resources: {A: {Properties: {}}}", "Template format error: [/Resources/A] Every Resources object must contain a Type member."},
	{"Resources: {A-b: {Type: T}}", "Template format error: Resource name A-b is non alphanumeric."},
	{"Resources: {A: {Type: T, Invalid: x}}", "Invalid template resource property 'Invalid'"},
	{"Foo: 1\nResources: {A: {Type: T}}\nBar: 2", "Invalid template property or properties [Foo, Bar]"},
	{"Resources: {A: {Type: T}}\nOutputs: {MyOutput: {Value: null}}", "[/Outputs/MyOutput/Value] 'null' values are not allowed in templates"},
	{"Resources: {A: {Type: T}}\nOutputs: {O: {Description: x}}", "Template format error: Every Outputs member must contain a Value object"},
	{"Resources: {A: {Type: T}}\nMappings: {A: x}", "Template format error: Every Mappings member A must be a map"},
	{"Resources: {A: {Type: T}}\nMappings: {A: {B: {C: {D: x}}}}", "Template format error: Every Mappings attribute must be a String or a List."},
	{"Resources: {A: {Type: T, Properties: {X: !Ref B}}}", "Template format error: Unresolved resource dependencies [B] in the Resources block of the template"},
	{"Resources: {A: {Type: T, DependsOn: B}}", "Template format error: Unresolved resource dependencies [B] in the Resources block of the template"},
	{"Resources: {A: {Type: T}}\nOutputs: {O: {Value: !Ref B}}", "Unresolved resource dependencies [B] in the Outputs block of the template"},
	{"Conditions: {C: !Equals [a, b]}\nResources: {A: {Type: T}, B: {Type: T, Condition: C}}\nOutputs: {O: {Value: !Ref B}}", "Unresolved resource dependencies [B] in the Outputs block of the template"},
	{"Resources: {A: {Type: T, Properties: {X: !GetAtt B.C}}}", "Template error: instance of Fn::GetAtt references undefined resource B"},
	{"Resources: {A: {Type: T, Properties: {X: !GetAtt B}}}", "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource attribute"},
	{"Resources: {B: {Type: T, Properties: {X: !Ref A}}, A: {Type: T, Properties: {X: !Ref B}}, C: {Type: T, DependsOn: A}}", "Circular dependency between resources: [A, B]"},
	{"Resources: {A: {Type: T, Properties: {X: !If [C, 1, 2]}}}", "Template error: unresolved condition dependency C in Fn::If"},
	{"Conditions: {C: !Equals [1]}\nResources: {A: {Type: T}}", "Template error: every Fn::Equals object requires a list of 2 string parameters."},
	{"Conditions: {C: !Equals [!Ref A, x]}\nResources: {A: {Type: T}}", "Template format error: Unresolved dependencies [A]. Cannot reference resources in the Conditions block of the template"},
	{"Resources: {A: {Type: T, Properties: {X: !Select [3, [a]]}}}", "Template error: Fn::Select requires a list argument with two elements: an integer index and a list"},
	{"Resources: {A: {Type: T, Properties: {X: !FindInMap [M, a, b]}}}", "Template error: Mapping named 'M' is not present in the 'Mappings' section of template."},
	{"Mappings: {M: {A: {B: x}}}\nResources: {A: {Type: T, Properties: {X: !FindInMap [M, C, B]}}}", "Template error: Unable to get mapping for M::C::B"},
	{"Resources: {A: {Type: T, Properties: {X: !Sub '${a b}'}}}", "Template error: variable names in Fn::Sub syntax must contain only alphanumeric characters, underscores, periods, and colons"},
	{"Resources: {A: {Type: T, Properties: {X: {Fn::ImportValue: !Ref A}}}}", "Template error: the attribute in Fn::ImportValue must not depend on any resources, imported values, or Fn::GetAZs"},
	{"Resources: {'Fn::ForEach::X': [I, [a], {}]}", "Template format error: [/Resources/Fn::ForEach::X] resource definition is malformed"},
	{"Transform: AWS::LanguageExtensions\nResources: {'Fn::ForEach::X': [I, a, {}]}", "Transform AWS::LanguageExtensions failed with: Fn::ForEach layout is incorrect"},
	{"Parameters: {P: {Type: String}, Q: {Type: String}}\nResources: {A: {Type: T}}", "Parameters: [P, Q] must have values"},
	{"Parameters: {P: {Type: Number, Default: x}}\nResources: {A: {Type: T}}", "Parameter 'P' must be a number."},
	{"Parameters: {P: {Type: Number, Default: 0, MinValue: 1}}\nResources: {A: {Type: T}}", "Parameter 'P' must be a number not less than 1"},
	{"Parameters: {P: {Type: String, Default: abcdef, MaxLength: 5}}\nResources: {A: {Type: T}}", "Parameter 'P' must contain at most 5 characters"},
	{"Parameters: {P: {Type: String, Default: x, AllowedValues: [a]}}\nResources: {A: {Type: T}}", "Parameter 'P' must be one of AllowedValues"},
	{"Parameters: {P: {Type: String, Default: x, AllowedPattern: '[a-b]+'}}\nResources: {A: {Type: T}}", "Parameter 'P' must match pattern [a-b]+"},
	{"Parameters: {P: {Type: String, Default: x, AllowedValues: [a], ConstraintDescription: say a}}\nResources: {A: {Type: T}}", "Parameter P failed to satisfy constraint: say a"},
	{"Rules: {R: {Assertions: [{Assert: !Equals [a, b], AssertDescription: a is not b}]}}\nResources: {A: {Type: T}}", "Template error: a is not b"},
}

// TestPolicies resolves functions in the policies of resources, which need the language extensions.
func TestPolicies(t *testing.T) {
	const body = `
Parameters: {Stage: {Type: String, Default: prod}}
Mappings: {Keep: {prod: {P: Retain}, test: {P: Delete}}}
Conditions: {Prod: !Equals [!Ref Stage, prod]}
Resources: {A: {Type: T, DeletionPolicy: !FindInMap [Keep, !Ref Stage, P], UpdateReplacePolicy: !If [Prod, Snapshot, Delete]}}
`
	for stage, want := range map[string]string{"prod": "Retain Snapshot", "test": "Delete Delete"} {
		i, err := bind("Transform: AWS::LanguageExtensions"+body, map[string]string{"Stage": stage})
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Resources[0].DeletionPolicy + " " + i.Resources[0].UpdateReplacePolicy; got != want {
			t.Errorf("%s: %s", stage, got)
		}
	}
	for body, want := range map[string]string{
		body: "Template format error: Every DeletionPolicy member must be a string.",
		"Transform: AWS::LanguageExtensions\nResources: {A: {Type: T, DeletionPolicy: !Ref AWS::Region}}": "Template format error: Unrecognized DeletionPolicy us-east-1 for resource A",
		"Transform: AWS::LanguageExtensions\nResources: {A: {Type: T, UpdateReplacePolicy: !GetAtt B.C}}": "Template format error: UpdateReplacePolicy of resource A must not depend on resources.",
		"Transform: AWS::LanguageExtensions\nResources: {A: {Type: T, DeletionPolicy: {Retain: Retain}}}": "Template format error: Unrecognized DeletionPolicy  for resource A",
		"Resources: {A: {Type: T, DeletionPolicy: Keep}}":                                                 "Template format error: Unrecognized DeletionPolicy Keep for resource A",
	} {
		if _, err := bind(body, nil); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", body, err, want)
		}
	}
}

// TestComputedReferences resolves functions in the arguments of Ref and Fn::GetAtt, which need the language extensions.
func TestComputedReferences(t *testing.T) {
	const body = `
Transform: AWS::LanguageExtensions
Parameters: {Which: {Type: String, Default: B}, What: {Type: String, Default: Arn}}
Mappings: {M: {B: {Name: B}}}
Resources:
  A:
    Type: T
    Properties:
      V: [!Ref {'Fn::FindInMap': [M, !Ref Which, Name]}, !GetAtt [!Sub '${Which}', !Ref What], {'Fn::Join': ['-', [!Ref {'Fn::Sub': 'Wh${Rest}'}]]}]
  B: {Type: T}
`
	got, err := value(strings.ReplaceAll(body, "Wh${Rest}", "Which"), nil)
	if err != nil || got != `["ref-B","B-Arn","B"]` {
		t.Errorf("%s, %v", got, err)
	}
	i, err := bind(strings.ReplaceAll(body, "Wh${Rest}", "Which"), nil)
	if err != nil || fmt.Sprint(i.Resources[0].DependsOn) != "[B]" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := value(strings.ReplaceAll(body, "Wh${Rest}", "${B}"), nil); fmt.Sprint(err) != "Transform AWS::LanguageExtensions failed with: the arguments of Ref and Fn::GetAtt must not depend on resources" {
		t.Error(err)
	}
	if _, err := value(strings.Replace(strings.ReplaceAll(body, "Wh${Rest}", "Which"), "Transform: AWS::LanguageExtensions", "", 1), nil); fmt.Sprint(err) != "Template format error: Every Ref object must have a single String value." {
		t.Error(err)
	}
}

// TestRules evaluates the functions that only rules have, with two subnets of one VPC and a subnet of another.
func TestRules(t *testing.T) {
	const body = `
Parameters:
  VPC: {Type: 'AWS::EC2::VPC::Id', Default: vpc-1}
  One: {Type: 'AWS::EC2::Subnet::Id', Default: subnet-a}
  More: {Type: 'List<AWS::EC2::Subnet::Id>', Default: 'subnet-b, subnet-c'}
Rules:
  R:
    RuleCondition: !Equals [!Ref VPC, vpc-1]
    Assertions: [{Assert: %s, AssertDescription: no}]
Resources: {A: {Type: T}}
`
	for _, tt := range []struct{ assertion, want string }{
		{"{'Fn::EachMemberIn': [{'Fn::ValueOf': [One, VpcId]}, {'Fn::RefAll': 'AWS::EC2::VPC::Id'}]}", ""},
		{"{'Fn::EachMemberIn': [{'Fn::ValueOf': [More, VpcId]}, {'Fn::RefAll': 'AWS::EC2::VPC::Id'}]}", "Template error: no"},
		{"{'Fn::EachMemberEquals': [{'Fn::ValueOfAll': ['AWS::EC2::Subnet::Id', VpcId]}, vpc-1]}", "Template error: no"},
		{"{'Fn::Contains': [{'Fn::ValueOfAll': ['AWS::EC2::Subnet::Id', VpcId]}, vpc-2]}", ""},
		{"{'Fn::EachMemberEquals': [{'Fn::ValueOfAll': ['AWS::EC2::VPC::Id', Tags.Team]}, red]}", ""},
		{"{'Fn::Equals': [{'Fn::ValueOf': [VPC, Tags.Team]}, blue]}", "Template error: no"},
		{"{'Fn::And': [{'Fn::Contains': [{'Fn::RefAll': 'AWS::EC2::Subnet::Id'}, subnet-c]}, {'Fn::Not': [{'Fn::Contains': [{'Fn::RefAll': 'List<AWS::EC2::Subnet::Id>'}, subnet-a]}]}]}", ""},
		{"{'Fn::Contains': [[a], {'Fn::ValueOf': [VPC, CidrBlock]}]}", "Template error: The attribute CidrBlock of the parameter VPC, which has the type AWS::EC2::VPC::Id, cannot be used in rules."},
		{"{'Fn::Contains': [[a], {'Fn::ValueOf': [A, VpcId]}]}", "Template format error: Unresolved dependencies [A]. Cannot reference resources in the Rules block of the template"},
		{"{'Fn::Contains': [[a], {'Fn::ValueOf': [!Ref VPC, VpcId]}]}", "Template error: the parameters of Fn::ValueOf must be strings, not functions."},
		{"!Equals [!Ref A, a]", "Template format error: Rule R can only refer to parameters"},
		{"!Equals [!GetAtt A.Arn, a]", "Template format error: Rule R can only refer to parameters"},
		{"{'Fn::Contains': [[a], {'Fn::ValueOfAll': [VpcId]}]}", "Template error: every Fn::ValueOfAll object requires two string parameters."},
	} {
		if _, err := bind(fmt.Sprintf(body, tt.assertion), nil); fmt.Sprint(err) != tt.want && (err != nil || tt.want != "") {
			t.Errorf("%s\n got %v\nwant %s", tt.assertion, err, tt.want)
		}
	}
	missing := fmt.Sprintf(body, "{'Fn::Equals': [{'Fn::ValueOf': [VPC, DefaultNetworkAcl]}, a]}")
	missing = strings.ReplaceAll(missing, "vpc-1", "vpc-none")
	if _, err := bind(missing, nil); fmt.Sprint(err) != "Template error: Unable to retrieve the attribute DefaultNetworkAcl of vpc-none: it does not exist" {
		t.Error(err)
	}
	if _, err := bind("Resources: {A: {Type: T, Properties: {V: {'Fn::RefAll': 'AWS::EC2::VPC::Id'}}}}", nil); err == nil || !strings.Contains(err.Error(), "unsupported function: Fn::RefAll") {
		t.Errorf("outside of rules: %v", err)
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range faults {
		if _, err := bind(tt.body, nil); err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.body, err, tt.want)
		}
	}
	if _, err := bind("Resources: {A: {Type: T}}", map[string]string{"X": "1"}); err == nil || err.Error() != "Parameters: [X] do not exist in the template" {
		t.Error(err)
	}
	many := "Resources:\n"
	for n := range 501 {
		many += fmt.Sprintf("  A%d: {Type: T}\n", n)
	}
	if _, err := bind(many, nil); err == nil || err.Error() != "Template format error: Number of resources, 501, is greater than maximum allowed, 500" {
		t.Error(err)
	}
}

// doubled nests functions so that each level doubles the text.
func doubled(levels int) string {
	v := `"x"`
	for range levels {
		v = `{"Fn::Sub": ["${a}${a}", {"a": ` + v + `}]}`
	}
	return `{"Resources": {"A": {"Type": "T", "Properties": {"V": ` + v + `}}}}`
}

// hostile are templates that are meant to cost much.
func hostile() map[string]string {
	deep := strings.Repeat("[", 40_000) + strings.Repeat("]", 40_000)
	loops := `{"a${I}": 1}`
	for _, id := range []string{"I", "J", "K", "L", "M", "N"} {
		loops = fmt.Sprintf(`{"Fn::ForEach::%s": ["%s", [%s], %s]}`, id, id, strings.TrimSuffix(strings.Repeat(`"x",`, 20), ","), loops)
	}
	many := func(n int, each string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(each, i, (i+1)%n))
		}
		return strings.Join(all, ",")
	}
	nested := func(n int, before, within, after string) string {
		return strings.Repeat(before, n) + within + strings.Repeat(after, n)
	}
	of := func(v string) string { return `{"Resources": {"A": {"Type": "T", "Properties": {"V": ` + v + `}}}}` }
	const resources = `, "Resources": {"A": {"Type": "T", "Condition": "C0"}}}`
	return map[string]string{
		"deep":                  of(deep),
		"yaml":                  "Resources: {A: {Type: T, Properties: {V: " + deep[:20000] + deep[60000:] + "}}}",
		"doubled":               doubled(60),
		"loops":                 `{"Transform": "AWS::LanguageExtensions", "Resources": {"A": {"Type": "T", "Properties": {"V": ` + loops + `}}}}`,
		"resources by a loop":   `{"Transform": "AWS::LanguageExtensions", "Resources": {"Fn::ForEach::R": ["I", [` + many(600, `"a%d"`+"%.0s") + `], {"R${I}": {"Type": "T"}}]}}`,
		"a loop over itself":    `{"Transform": "AWS::LanguageExtensions", "Resources": {"Fn::ForEach::R": ["I", {"Ref": "I"}, {"R${I}": {"Type": "T"}}]}}`,
		"aliases":               "x: &a [a,a,a,a,a,a,a,a,a]\ny: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nz: &c [*b,*b,*b,*b,*b,*b,*b]\nw: &d [*c,*c,*c,*c,*c,*c]\nv: [*d,*d,*d,*d,*d,*d,*d,*d,*d]",
		"an alias of itself":    "Resources: {A: {Type: T, Properties: &p {V: *p}}}",
		"merged aliases":        "a: &a {k: v}\nb: &b {<<: [*a, *a], c: [*a, *a]}\nResources: {A: {Type: T, Properties: {<<: *b, V: *b}}}",
		"parameters":            `{"Parameters": {` + many(10_000, `"P%d": {"Type": "String"}`+"%.0s") + `}, "Resources": {"A": {"Type": "T"}}}`,
		"mappings":              `{"Mappings": {` + many(10_000, `"M%d": {"a": {"b": "c"}}`+"%.0s") + `}, "Resources": {"A": {"Type": "T"}}}`,
		"outputs":               `{"Outputs": {` + many(10_000, `"O%d": {"Value": "v"}`+"%.0s") + `}, "Resources": {"A": {"Type": "T"}}}`,
		"resources":             `{"Resources": {` + many(10_000, `"R%d": {"Type": "T"}`+"%.0s") + `}}`,
		"circular conditions":   `{"Conditions": {` + many(500, `"C%d": {"Fn::Not": [{"Condition": "C%d"}]}`) + `}` + resources,
		"a condition of itself": `{"Conditions": {"C0": {"Fn::And": [{"Condition": "C0"}, {"Condition": "C0"}]}}` + resources,
		"circular resources":    `{"Resources": {` + many(500, `"R%d": {"Type": "T", "DependsOn": "R%d"}`) + `}}`,
		"nested joins":          of(nested(1_000, `{"Fn::Join": ["", [`, `"x"`, `]]}`)),
		"nested subs":           of(nested(1_000, `{"Fn::Sub": ["${A}", {"A": `, `"x"`, `}]}`)),
		"nested ifs":            `{"Conditions": {"C0": {"Fn::Equals": ["a", "a"]}}, "Resources": {"A": {"Type": "T", "Properties": {"V": ` + nested(1_000, `{"Fn::If": ["C0", `, `"x"`, `, "y"]}`) + `}}}}`,
		"a long name":           `{"Resources": {"` + strings.Repeat("A", 500_000) + `": {"Type": "T"}}}`,
		"an unknown reference":  of(`{"Ref": "` + strings.Repeat("B", 500_000) + `"}`),
		"names in a text":       of(`{"Fn::Sub": "` + strings.Repeat("${B}", 100_000) + `"}`),
	}
}

// TestHostile checks that such templates get an error of CloudFormation's, soon and without much memory.
func TestHostile(t *testing.T) {
	for name, body := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			begun := time.Now()
			got, err := value(body, nil)
			took := time.Since(begun)
			goruntime.ReadMemStats(&after)
			_, ofTemplate := errors.AsType[template.Error](err)
			if _, ofTransform := errors.AsType[template.TransformError](err); !ofTemplate && !ofTransform {
				t.Errorf("%.100s, %v", got, err)
			}
			if err != nil && len(err.Error()) > 600_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 300 || took > 5*time.Second {
				t.Errorf("%d MB, %v", used, took)
			}
		})
	}
}

// FuzzTemplate checks that every text gets an answer, and the same answer twice.
func FuzzTemplate(f *testing.F) {
	for _, tt := range faults {
		f.Add(tt.body)
	}
	f.Add(doubled(20))
	for _, body := range hostile() {
		if len(body) < 51_200 {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		one, err := bind(body, nil)
		two, again := bind(body, nil)
		if fmt.Sprint(err) != fmt.Sprint(again) && !strings.Contains(fmt.Sprint(err), "failed with") {
			t.Errorf("%v, then %v", err, again)
		}
		if err != nil || again != nil {
			return
		}
		for n, r := range one.Resources {
			a, err := one.Properties(r, runtime{})
			b, _ := two.Properties(two.Resources[n], runtime{})
			if err == nil && template.JSON(a) != template.JSON(b) {
				t.Errorf("%s: %s, then %s", r.ID, template.JSON(a), template.JSON(b))
			}
		}
	})
}

// Package document reads Systems Manager documents of the types Session and Command, in JSON and YAML. It validates
// documents and the parameters given to them, and fills in the parameters. It also has the documents that AWS provides.
//
// It does not store or run anything. Only package ssm imports it.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// The types of documents.
const (
	Session = "Session"
	Command = "Command"
)

// The types of sessions.
const (
	StandardStream         = "Standard_Stream"
	InteractiveCommands    = "InteractiveCommands"
	NonInteractiveCommands = "NonInteractiveCommands"
	Port                   = "Port"
)

// The implemented actions of Command documents.
const (
	RunShellScript    = "aws:runShellScript"
	SoftwareInventory = "aws:softwareInventory"
	UpdateAgent       = "aws:updateSsmAgent"
)

// MaxSize is the maximum size of a document in bytes.
const MaxSize = 64 << 10

// An Error is the error of a document, or of the parameters given to it, with AWS's code.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func invalid(format string, args ...any) error {
	return &Error{"InvalidDocumentContent", fmt.Sprintf(format, args...)}
}

// An UnsupportedError names a feature of AWS's that is not implemented.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return e.What + " is not implemented" }

// A Document is the content of a document.
type Document struct {
	Schema      string                `json:"schemaVersion"`
	Description string                `json:"description"`
	Parameters  map[string]*Parameter `json:"parameters"`

	// Fields of Session documents.
	SessionType string         `json:"sessionType"`
	Inputs      map[string]any `json:"inputs"`
	Properties  map[string]any `json:"properties"`

	// Fields of Command documents. Parse converts RuntimeConfig, which schema 1.2 has, to Steps.
	Steps         []Step                    `json:"mainSteps"`
	RuntimeConfig map[string]*runtimeConfig `json:"runtimeConfig"`
}

type runtimeConfig struct {
	Properties any `json:"properties"`
}

// A Step is a step of a Command document.
type Step struct {
	Name         string           `json:"name"`
	Action       string           `json:"action"`
	Precondition map[string][]any `json:"precondition"`
	Inputs       map[string]any   `json:"inputs"`
}

// A Parameter is a parameter of a document.
type Parameter struct {
	Type           string `json:"type"`
	Description    string `json:"description"`
	Default        any    `json:"default"`
	AllowedValues  []any  `json:"allowedValues"`
	AllowedPattern string `json:"allowedPattern"`
	MinItems       *int   `json:"minItems"`
	MaxItems       *int   `json:"maxItems"`
	MinChars       *int   `json:"minChars"`
	MaxChars       *int   `json:"maxChars"`

	pattern *regexp.Regexp // AllowedPattern, or nil
}

// Parse reads a document. Its errors are an *Error or an *UnsupportedError.
func Parse(kind, format, content string) (*Document, error) {
	if len(content) > MaxSize {
		return nil, &Error{"MaxDocumentSizeExceeded", "The size limit of a document is 64 KB."}
	}
	text := []byte(content)
	if format == "YAML" {
		var err error
		if text, err = yamlsafe.ToJSON(text); err != nil {
			return nil, invalid("YAML not well-formed. %v", err)
		}
	}
	d := new(Document)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(d); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, invalid("%s has a value of the wrong type: %s", wrong.Field, wrong.Value)
		}
		return nil, invalid("%s not well-formed. %v", format, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("%s not well-formed. There is text after its end.", format)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Parameters)) {
		if err := d.Parameters[name].check(name); err != nil {
			return nil, err
		}
	}
	check := d.checkCommand
	if kind == Session {
		check = d.checkSession
	}
	if err := check(); err != nil {
		return nil, err
	}
	return d, d.checkReferences(d.Inputs, d.Properties, d.Steps)
}

var types = []string{"String", "StringList", "Integer", "Boolean", "StringMap", "MapList"}

func (p *Parameter) check(name string) (err error) {
	if p == nil || !slices.Contains(types, p.Type) {
		return invalid("Parameter %q has no valid type. Valid types: %s", name, strings.Join(types, ", "))
	}
	if p.AllowedPattern != "" {
		if p.pattern, err = regexp.Compile(p.AllowedPattern); err != nil {
			return invalid("The allowedPattern of parameter %q is not a regular expression: %s", name, p.AllowedPattern)
		}
	}
	return nil
}

// https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-schema.html
func (d *Document) checkSession() error {
	if d.Schema != "1.0" {
		// https://github.com/gazoakley/terraform-aws-session-manager-settings/issues/1
		return &Error{"InvalidDocumentSchemaVersion", d.Schema + " is not a valid schema version for Session document type"}
	}
	if !slices.Contains([]string{StandardStream, InteractiveCommands, NonInteractiveCommands, Port}, d.SessionType) {
		return invalid("The session type is not valid: %q", d.SessionType)
	}
	_, err := d.Preferences(map[string]any{})
	if d.Parameters != nil {
		err = nil // the values may come from parameters
	}
	return err
}

// actions are AWS's actions of Command documents, and whether they are implemented.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/documents-command-ssm-plugin-reference.html
var actions = map[string]bool{
	RunShellScript: true, SoftwareInventory: true, UpdateAgent: true, "aws:applications": false, "aws:cloudWatch": false, "aws:configureDocker": false, "aws:configurePackage": false,
	"aws:domainJoin": false, "aws:downloadContent": false, "aws:psModule": false, "aws:refreshAssociation": false, "aws:runDockerAction": false,
	"aws:runDocument": false, "aws:runPowerShellScript": false, "aws:updateAgent": false,
}

func (d *Document) checkCommand() error {
	switch d.Schema {
	case "1.2":
		if err := d.fromRuntimeConfig(); err != nil {
			return err
		}
	case "2.0", "2.2":
		if d.RuntimeConfig != nil {
			return invalid("runtimeConfig is not valid in schema version %s", d.Schema)
		}
	default:
		return &Error{"InvalidDocumentSchemaVersion", d.Schema + " is not a valid schema version for Command document type"}
	}
	if len(d.Steps) == 0 {
		return invalid("The document has no steps")
	}
	names := map[string]bool{}
	for _, s := range d.Steps {
		implemented, known := actions[s.Action]
		switch {
		case !known:
			return invalid("The action is not valid: %q", s.Action)
		case s.Name == "" || names[s.Name]:
			return invalid("Each step needs a name of its own: %q", s.Name)
		case !implemented && !s.forWindows():
			return &UnsupportedError{"the action " + s.Action + " of documents"}
		case s.Inputs["runCommand"] == nil && s.Action == RunShellScript:
			return invalid("Step %s has no runCommand", s.Name)
		}
		names[s.Name] = true
	}
	return nil
}

// forWindows reports whether a step's precondition admits Windows only.
func (s *Step) forWindows() bool {
	c := s.Precondition["StringEquals"]
	return len(c) == 2 && c[0] == "platformType" && c[1] == "Windows"
}

// fromRuntimeConfig makes the steps of a document of schema 1.2.
func (d *Document) fromRuntimeConfig() error {
	for _, action := range slices.Sorted(maps.Keys(d.RuntimeConfig)) {
		var all []any
		if c := d.RuntimeConfig[action]; c != nil {
			if list, ok := c.Properties.([]any); ok {
				all = list
			} else {
				all = []any{c.Properties}
			}
		}
		for i, p := range all {
			inputs, ok := p.(map[string]any)
			if !ok {
				return invalid("The properties of %s must be maps", action)
			}
			s := Step{Name: action, Action: action, Inputs: inputs}
			if i > 0 {
				s.Name = fmt.Sprintf("%s-%d", action, i)
			}
			d.Steps = append(d.Steps, s)
		}
	}
	return nil
}

var reference = regexp.MustCompile(`\{\{\s*([a-zA-Z0-9_:.\-/]+)\s*\}\}`)

// checkReferences returns an error if a document uses a parameter that it does not declare.
func (d *Document) checkReferences(parts ...any) error {
	text, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	for _, m := range reference.FindAllSubmatch(text, -1) {
		if name := string(m[1]); d.Parameters[name] == nil && !strings.Contains(name, ":") {
			return invalid("Parameter %q is not declared.", name) // https://github.com/CrowdStrike/aws-ssm-distributor/issues/66
		}
	}
	return nil
}

// stored matches what is between the braces of a reference to a parameter of Parameter Store: ssm:NAME, ssm:NAME:VERSION
// or ssm:NAME:LABEL.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-ssm-parameter-references.html
var stored = regexp.MustCompile(`^ssm:[a-zA-Z0-9_.\-/]+(?::[a-zA-Z0-9_.\-]+)?$`)

// Stored returns the references to parameters of Parameter Store in a document and in the values given for its own
// parameters, without their braces, sorted. It reads the texts that Values and Fill replace, each by itself.
func (d *Document) Stored(given map[string][]string) []string {
	found := map[string]bool{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			for _, m := range reference.FindAllStringSubmatch(v, -1) {
				if stored.MatchString(m[1]) {
					found[m[1]] = true
				}
			}
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			for _, e := range v {
				visit(e)
			}
		}
	}
	for _, values := range given {
		for _, v := range values {
			visit(v)
		}
	}
	for _, p := range d.Parameters {
		visit(p.Default)
	}
	visit(d.Inputs)
	visit(d.Properties)
	for i := range d.Steps {
		visit(d.Steps[i].Inputs)
		for _, operands := range d.Steps[i].Precondition {
			visit(operands)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Values validates the given parameters and returns the values of all of the document's parameters, including defaults:
// strings, lists and so on, according to their types. stored has the values of the references that Stored returns, and is
// part of the result. What has replaced a reference is never searched for references again: whoever may write a parameter
// must not choose which others are read.
func (d *Document) Values(given map[string][]string, stored map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if d.Parameters[name] == nil {
			return nil, &Error{"InvalidParameters", "the document has no parameter " + name}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Parameters)) {
		p := d.Parameters[name]
		values, ok := given[name]
		if !ok {
			if out[name] = Fill(p.Default, stored); p.Default == nil {
				return nil, &Error{"InvalidParameters", "the document needs a value for its parameter " + name}
			}
			continue
		}
		filled := make([]string, len(values))
		for i, v := range values {
			filled[i] = textOf(Fill(v, stored))
		}
		v, err := p.value(name, filled)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	maps.Copy(out, stored)
	return out, nil
}

func (p *Parameter) value(name string, given []string) (any, error) {
	refuse := func(why string) error {
		return &Error{"InvalidParameters", fmt.Sprintf("Parameter %q has value %q %s.", name, strings.Join(given, ","), why)}
	}
	for _, v := range given {
		n := len([]rune(v))
		switch {
		case p.pattern != nil && !p.pattern.MatchString(v):
			return nil, refuse("not matching " + strconv.Quote(p.AllowedPattern))
		case p.MinChars != nil && n < *p.MinChars:
			return nil, refuse(fmt.Sprintf("shorter than %d characters", *p.MinChars))
		case p.MaxChars != nil && n > *p.MaxChars:
			return nil, refuse(fmt.Sprintf("longer than %d characters", *p.MaxChars))
		case len(p.AllowedValues) > 0 && !slices.ContainsFunc(p.AllowedValues, func(a any) bool { return textOf(a) == v }):
			return nil, refuse("which is not among the allowed values")
		}
	}
	if p.Type == "StringList" {
		switch {
		case p.MinItems != nil && len(given) < *p.MinItems:
			return nil, refuse(fmt.Sprintf("with fewer than %d items", *p.MinItems))
		case p.MaxItems != nil && len(given) > *p.MaxItems:
			return nil, refuse(fmt.Sprintf("with more than %d items", *p.MaxItems))
		}
		list := make([]any, len(given))
		for i, v := range given {
			list[i] = v
		}
		return list, nil
	}
	if len(given) != 1 {
		return nil, refuse("but needs exactly one")
	}
	switch v := given[0]; p.Type {
	case "Integer":
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return nil, refuse("which is not an integer")
		}
		return json.Number(v), nil
	case "Boolean":
		if v != "true" && v != "false" {
			return nil, refuse("which is not a Boolean")
		}
		return v == "true", nil
	case "StringMap", "MapList":
		var out any
		if err := json.Unmarshal([]byte(v), &out); err != nil {
			return nil, refuse("which is not JSON")
		}
		return out, nil
	default:
		return v, nil
	}
}

// Fill replaces the references to parameters in v with their values.
func Fill(v any, values map[string]any) any {
	switch v := v.(type) {
	case string:
		if m := reference.FindStringSubmatch(v); m != nil && m[0] == strings.TrimSpace(v) {
			if value, ok := values[m[1]]; ok {
				return value
			}
		}
		return reference.ReplaceAllStringFunc(v, func(ref string) string {
			if value, ok := values[reference.FindStringSubmatch(ref)[1]]; ok {
				return textOf(value)
			}
			return ref
		})
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			filled := Fill(e, values)
			if list, ok := filled.([]any); ok && textual(e) {
				out = append(out, list...) // an item that is only {{ commands }} becomes the items of that list
				continue
			}
			out = append(out, filled)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Fill(e, values)
		}
		return out
	}
	return v
}

func textual(v any) bool {
	_, ok := v.(string)
	return ok
}

// textOf returns a value as text, as it appears within other text.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = textOf(e)
		}
		return strings.Join(parts, " ")
	case map[string]any:
		b, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(b)
	}
	return fmt.Sprint(v)
}

package server

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// A State says how completely an operation is handled.
type State string

// The states.
const (
	Handled State = "handled"
	Partly  State = "partly"
	None    State = "not"
)

// A ServiceCompatibility is one model's section of docs/compatibility.md.
type ServiceCompatibility struct {
	Name       string // the model's: eks, ec2, …
	Title      string // AWS's service ID
	Operations []OperationCompatibility
}

// Count returns how many operations are in that state.
func (s ServiceCompatibility) Count(state State) int {
	n := 0
	for _, op := range s.Operations {
		if op.State == state {
			n++
		}
	}
	return n
}

// An OperationCompatibility says which parts of an operation are handled.
type OperationCompatibility struct {
	Name  string
	State State
	// Refused are the members that a request may not carry, as dotted paths. If a container is refused as a whole,
	// only the container is listed.
	Refused []string
	// Except describes which values of other members are refused.
	Except string
	// Why explains why an operation that clients use is not handled.
	Why string
}

// Compatibility returns, for every operation of every embedded model, which parts of it services handle. It is built
// from the lists that the pipeline itself uses, and checks them.
func Compatibility(services []awsapi.Service) ([]ServiceCompatibility, error) {
	_, err := newRegistry(services)
	errs := []error{err}
	bound := map[string]*service{}
	for _, s := range services {
		svc, err := bind(s)
		if errs = append(errs, err); err == nil {
			bound[svc.model.Name] = svc
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var out []ServiceCompatibility
	for _, name := range model.Names() {
		m, err := model.Get(name)
		if err != nil {
			return nil, err
		}
		s := ServiceCompatibility{Name: name, Title: m.ServiceID}
		for opName := range m.Operations {
			c := OperationCompatibility{Name: opName, State: None}
			if svc := bound[name]; svc != nil {
				c.Why = svc.refused[opName]
				if op := svc.operations[opName]; op != nil {
					c.Refused = op.refusable()
					c.Except = op.Except
					c.State = Handled
					if len(c.Refused) > 0 || c.Except != "" {
						c.State = Partly
					}
				}
			}
			s.Operations = append(s.Operations, c)
		}
		slices.SortFunc(s.Operations, func(a, b OperationCompatibility) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, s)
	}
	return out, nil
}

// refusable lists the members of the operation's input that are not honoured.
func (o *operation) refusable() []string {
	var out []string
	within := map[*model.Shape]bool{} // shapes may be recursive
	var walk func(sh *model.Shape, prefix string)
	walk = func(sh *model.Shape, prefix string) {
		if sh = structure(sh); sh == nil || within[sh] {
			return
		}
		within[sh] = true
		defer delete(within, sh)
		for _, m := range sh.Members {
			if path := prefix + m.Name; o.honours.Covers(path) {
				walk(m.Shape, path+".")
			} else {
				out = append(out, path)
			}
		}
	}
	walk(o.model.Input, "")
	slices.Sort(out)
	return out
}

// WriteCompatibility writes docs/compatibility.md.
func WriteCompatibility(w io.Writer, services []ServiceCompatibility) error {
	var b strings.Builder
	b.WriteString(`# Which parts of the AWS API work

Generated from the operation tables that the server itself uses. Do not edit.

*Partly* handled operations refuse the members and the values listed with them, but accept members that are false, 0 or empty; operations that are not handled are always refused. Either way
the answer is HTTP 501 with code ` + "`NotImplemented`" + `, which no SDK retries. No member is accepted and then ignored. ` + "`drydock supports`" + ` shows the same tables.

Services with a query protocol (EC2, IAM, STS, Auto Scaling, CloudFormation, ELB) accept POST only. AWS accepts GET as well; Drydock answers HTTP 405 with code
` + "`MethodNotAllowed`" + `, because an access key of 12 digits needs no secret: a link on any web page could then act in that account. GET works where clients use it:
for presigned STS requests, and for CloudFormation's SignalResource and DescribeStackResource. REST services and S3 accept the methods of their API.

| service | operations | handled | partly | not |
|---|---:|---:|---:|---:|
`)
	for _, s := range services {
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d | %d | %d |\n", s.Title, s.Name, len(s.Operations), s.Count(Handled), s.Count(Partly), s.Count(None))
	}
	for _, s := range services {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", s.Name, s.Title)
		if s.Count(None) < len(s.Operations) {
			b.WriteString("\n| operation | state | refused members |\n|---|---|---|\n")
		}
		var none, because []string
		for _, op := range s.Operations {
			if op.State == None {
				none = append(none, op.Name)
				if op.Why != "" {
					because = append(because, fmt.Sprintf("| %s | not | %s |\n", op.Name, op.Why))
				}
				continue
			}
			refused := ""
			if len(op.Refused) > 0 {
				refused = "`" + strings.Join(op.Refused, "` `") + "`"
			}
			if op.Except != "" {
				refused = strings.TrimSpace(refused + " and these values: " + op.Except)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", op.Name, op.State, refused)
		}
		if because != nil {
			b.WriteString("\nClients use these operations, which are not handled:\n\n| operation | state | why |\n|---|---|---|\n" + strings.Join(because, ""))
		}
		if none != nil {
			fmt.Fprintf(&b, "\nNot handled: %s.\n", strings.Join(none, ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// publish sets the outputs and the status of the stack. If the outputs are not allowed, it returns the reason as
// refusal.
func (o *operation) publish(ctx context.Context, status cloudformationtypes.StackStatus) (refusal string, err error) {
	outputs, err := o.outputs(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return err.Error(), nil
	}
	err = o.s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := stacks.Get(tx, o.key)
		if err != nil || now.Operation.ID != o.rec.Operation.ID {
			return errors.Join(err, errSuperseded)
		}
		if refusal = o.exportsClash(tx, outputs); refusal != "" {
			return nil
		}
		err = stacks.Update(tx, o.key, func(rec *stackRecord) error {
			rec.Outputs, rec.Imports, rec.PolicyOnce = outputs, o.imports, ""
			if !rec.Held {
				rec.Previous = nil
			}
			return nil
		})
		if err != nil {
			return err
		}
		return o.s.noteStack(tx, o.key, status, "")
	})
	return refusal, err
}

// exportsClash returns the reason why the stack cannot export its outputs: another stack
// exports the same name, or uses a value that would change. It returns "" if the stack can
// export them.
func (o *operation) exportsClash(tx *store.Tx, outputs []outputRecord) string {
	for _, other := range all(tx, scopeAt(o.key)) {
		if other.ID == o.rec.ID || other.Status == cloudformationtypes.StackStatusDeleteComplete {
			continue
		}
		for _, theirs := range other.Outputs {
			if theirs.Export != "" && slices.ContainsFunc(outputs, func(mine outputRecord) bool { return mine.Export == theirs.Export }) {
				return fmt.Sprintf("Export with name %s is already exported by stack %s", theirs.Export, other.Name)
			}
		}
		for _, was := range o.rec.Outputs {
			if was.Export == "" || !slices.Contains(other.Imports, was.Export) {
				continue
			}
			switch i := slices.IndexFunc(outputs, func(mine outputRecord) bool { return mine.Export == was.Export }); {
			case i < 0:
				return fmt.Sprintf("Export %s cannot be deleted as it is in use by %s", was.Export, other.Name)
			case outputs[i].Value != was.Value:
				return fmt.Sprintf("Export %s cannot be updated as it is in use by %s", was.Export, other.Name)
			}
		}
	}
	return ""
}

// outputs resolves the stack's outputs.
func (o *operation) outputs(ctx context.Context) ([]outputRecord, error) {
	rt, err := o.runtime(ctx)
	if err != nil {
		return nil, err
	}
	// Resolve the imports of all resources, including those that an earlier daemon created and those that an update
	// did not change.
	for _, d := range o.instance.Resources {
		if len(o.rec.Imports) > 0 && template.Imports(d.Properties) {
			if _, err := o.instance.Properties(d, rt); err != nil {
				return nil, err
			}
		}
	}
	return o.outputsOf(rt)
}

func (o *operation) outputsOf(rt template.Runtime) ([]outputRecord, error) {
	var out []outputRecord
	for _, declared := range o.instance.Outputs {
		v, err := o.instance.Value(declared.Value, rt)
		if err != nil {
			return nil, fmt.Errorf("[Error] /Outputs/%s/Value: %w", declared.ID, err)
		}
		text, ok := template.Text(v)
		if !ok {
			return nil, fmt.Errorf("Template format error: Output %s is malformed. (Path: /Outputs/%s/Value) The Value field of every Outputs member must evaluate to a String", declared.ID, declared.ID) //nolint:staticcheck // AWS's words
		}
		rec := outputRecord{Key: declared.ID, Value: text, Description: declared.Description}
		if declared.Export != nil {
			name, err := o.instance.Value(declared.Export, rt)
			if err != nil {
				return nil, err
			}
			rec.Export, _ = template.Text(name)
		}
		out = append(out, rec)
	}
	return out, nil
}

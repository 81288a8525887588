package cloudformation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A panicker is an API whose calls panic if their input has one of the types.
type panicker struct {
	awsapi.API
	types string
}

func (p panicker) Call(ctx context.Context, in any) (any, error) {
	if strings.Contains(p.types, strings.TrimPrefix(fmt.Sprintf("%T", in), "*")) {
		panic("a bug")
	}
	return p.API.Call(ctx, in)
}

// TestPanic checks that a panic in the work on a resource fails the resource and nothing else.
func TestPanic(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.config.Log = testkit.Log(t, "panic in the work on a resource")
	with := func(types string, do func()) {
		cancel, ended := w.run(panicker{w.front, types})
		do()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	with("ssm.PutParameterInput", func() {
		id := w.create(t, "creation", parameters(`"Value": "a"`))
		w.want(t, id, "ROLLBACK_COMPLETE")
		if script := w.script(t, id); !strings.Contains(script, "A CREATE_FAILED Internal Failure\nS ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [A]. Rollback requested by user.") {
			t.Error(script)
		}
	})
	var id string
	with("", func() {
		id = w.create(t, "others", parameters(`"Value": "a"`))
		w.want(t, id, "CREATE_COMPLETE")
	})
	with("ssm.PutParameterInput", func() {
		_, script := w.update(t, id, parameters(`"Value": "b"`), "UPDATE_ROLLBACK_FAILED")
		if !strings.Contains(script, "A UPDATE_FAILED Internal Failure\nS UPDATE_ROLLBACK_IN_PROGRESS") {
			t.Error(script)
		}
	})
	with("ssm.DeleteParameterInput", func() {
		w.delete(t, id)
		w.want(t, id, "DELETE_FAILED")
		if script := w.script(t, id); !strings.HasSuffix(script, "A DELETE_FAILED Internal Failure\nS DELETE_FAILED The following resource(s) failed to delete: [A]. ") {
			t.Error(script)
		}
	})
	with("", func() {
		testkit.Must(w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id}))(t)
		w.want(t, id, "DELETE_COMPLETE")
	})
}

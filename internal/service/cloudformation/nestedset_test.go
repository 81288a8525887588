package cloudformation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestSetsFailTogether interrupts the execution and the deletion of a change set at each of their transactions. As long
// as a change set can be executed, the change sets of its nested stacks must exist and have the same status.
func TestSetsFailTogether(t *testing.T) {
	var left atomic.Int64 // if positive, this many transactions from now one fails
	var dead atomic.Bool  // whether all transactions fail
	var kill atomic.Pointer[func(context.Context)]
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true, BeforeCommit: func(ctx context.Context) error {
		if fn := kill.Load(); fn != nil {
			(*fn)(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if left.Add(-1) == 0 || dead.Load() {
			return awserr.New("Interrupted", "the daemon was killed")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	w, ctx := newWorldOn(t, st), t.Context()
	url := w.put(t, "templates", "inner", inner)
	body := fmt.Sprintf("Resources:\n  N: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: '%s', Parameters: {V: v}}}\n  M: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: '%[1]s', Parameters: {V: v}}}\n", url)
	// states returns the execution status of a change set and of the change sets of its nested stacks.
	states := func(id *string) string {
		set, err := w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: id})
		if err != nil {
			return "gone"
		}
		out := string(set.ExecutionStatus)
		for _, c := range set.Changes {
			inner, err := w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: c.ResourceChange.ChangeSetId})
			if err != nil {
				out += " gone"
				continue
			}
			out += " " + string(inner.ExecutionStatus)
		}
		return out
	}
	const whole, executed = "AVAILABLE AVAILABLE AVAILABLE", "EXECUTE_IN_PROGRESS EXECUTE_IN_PROGRESS EXECUTE_IN_PROGRESS"
	for nth := 1; ; nth++ {
		stack := fmt.Sprintf("s%d", nth)
		set := w.set(t, "set", stack, "CREATE", body, func(in *awscloudformation.CreateChangeSetInput) { in.IncludeNestedStacks = aws.Bool(true) })
		left.Store(int64(nth))
		_, err := w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: set.ChangeSetId})
		left.Store(0)
		if err == nil {
			if nth < 3 {
				t.Errorf("a deletion has %d transactions", nth-1)
			}
			break
		}
		if now := states(set.ChangeSetId); strings.HasPrefix(now, "AVAILABLE") && now != whole {
			t.Errorf("interrupted at transaction %d: %s", nth, now)
		}
		testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: set.ChangeSetId}))(t)
		for _, st := range testkit.Must(w.DescribeStacks(ctx, nil))(t).Stacks {
			if st.ParentId != nil {
				t.Errorf("interrupted at transaction %d: %s is left", nth, *st.StackName)
			}
		}
	}
	set := w.set(t, "set", "executed", "CREATE", body, func(in *awscloudformation.CreateChangeSetInput) { in.IncludeNestedStacks = aws.Bool(true) })
	for nth := 1; ; nth++ {
		left.Store(int64(nth))
		_, err := w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId})
		left.Store(0)
		if err == nil {
			break
		}
		if now := states(set.ChangeSetId); now != whole {
			t.Fatalf("interrupted at transaction %d: %s", nth, now)
		}
	}
	if now := states(set.ChangeSetId); now != executed {
		t.Error(now)
	}

	// A client that disconnects does not stop a deletion.
	set = w.set(t, "set", "disconnected", "CREATE", body, func(in *awscloudformation.CreateChangeSetInput) { in.IncludeNestedStacks = aws.Bool(true) })
	client, disconnect := context.WithCancel(ctx)
	var commits atomic.Int64
	kill.Store(new(func(ctx context.Context) {
		if commits.Add(1) != 2 {
			return
		}
		disconnect()
		if done := ctx.Done(); done != nil {
			<-done
		}
	}))
	_, err = w.DeleteChangeSet(client, &awscloudformation.DeleteChangeSetInput{ChangeSetName: set.ChangeSetId})
	if err == nil {
		t.Error("the client has not disconnected")
	}
	gone := func() error {
		if now := states(set.ChangeSetId); now != "gone" {
			return errors.New(now)
		}
		return nil
	}
	testkit.Eventually(t, 20*time.Second, gone)
	kill.Store(nil)
	// The next daemon completes the deletion that a killed one has begun.
	set = w.set(t, "set", "begun", "CREATE", body, func(in *awscloudformation.CreateChangeSetInput) { in.IncludeNestedStacks = aws.Bool(true) })
	left.Store(2)
	if _, err := w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: set.ChangeSetId}); err == nil {
		t.Error("the deletion was not interrupted")
	}
	left.Store(0)
	stop, ended := w.run(w.front)
	testkit.Eventually(t, 20*time.Second, gone)
	stop()
	<-ended

	// A daemon that is killed while it creates the change sets leaves nothing behind.
	for nth := 1; ; nth++ {
		stack := fmt.Sprintf("killed%d", nth)
		var commits atomic.Int64
		kill.Store(new(func(context.Context) {
			if commits.Add(1) == int64(nth) {
				dead.Store(true)
			}
		}))
		_, err := w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: &stack, ChangeSetName: aws.String("set"), ChangeSetType: "CREATE", TemplateBody: &body, IncludeNestedStacks: aws.Bool(true)})
		kill.Store(nil)
		dead.Store(false)
		want := 0
		if err == nil {
			want = 3 // the root and its nested stacks
		}
		stop, ended := w.run(w.front)
		testkit.Eventually(t, 20*time.Second, func() error {
			n := 0
			for _, st := range testkit.Must(w.DescribeStacks(ctx, nil))(t).Stacks {
				if strings.HasPrefix(*st.StackName, stack) {
					n++
				}
			}
			if n != want {
				return fmt.Errorf("killed at transaction %d: %d stacks are left", nth, n)
			}
			return nil
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err == nil {
			break
		}
	}
}

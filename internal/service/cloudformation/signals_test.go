package cloudformation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// signal sends a signal as soon as the resource is waiting for it.
func (w *world) signal(t *testing.T, stack, resource, id, status string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		r, err := w.DescribeStackResource(t.Context(), &awscloudformation.DescribeStackResourceInput{StackName: &stack, LogicalResourceId: &resource})
		if err == nil && r.StackResourceDetail.PhysicalResourceId == nil {
			err = fmt.Errorf("%s has not been created", resource)
		}
		if err != nil {
			return err
		}
		_, err = w.SignalResource(t.Context(), &awscloudformation.SignalResourceInput{
			StackName: &stack, LogicalResourceId: &resource, UniqueId: &id, Status: cloudformationtypes.ResourceSignalStatus(status),
		})
		return err
	})
}

func waiting(policy string) string {
	return `{"Resources": {"W": {"Type": "AWS::CloudFormation::WaitCondition"` + policy + `}, "P": {"Type": "AWS::SSM::Parameter", "DependsOn": "W", "Properties": {"Type": "String", "Value": "x"}}}}`
}

// TestSignals covers golden scenario 16, with a wait condition.
func TestSignals(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	two := waiting(`, "CreationPolicy": {"ResourceSignal": {"Count": "2", "Timeout": "PT1H"}}`)
	id := w.create(t, "good", two)
	for _, unique := range []string{"i-1", "i-1", "i-2"} { // a repeated ID counts once
		w.signal(t, id, "W", unique, "SUCCESS")
	}
	w.want(t, id, "CREATE_COMPLETE")
	wantScript(t, w.script(t, id), `S CREATE_IN_PROGRESS User Initiated
W CREATE_IN_PROGRESS
W CREATE_IN_PROGRESS Resource creation Initiated
W CREATE_IN_PROGRESS Received SUCCESS signal with UniqueId i-1
W CREATE_IN_PROGRESS Received SUCCESS signal with UniqueId i-2
W CREATE_COMPLETE
P CREATE_IN_PROGRESS
P CREATE_IN_PROGRESS Resource creation Initiated
P CREATE_COMPLETE
S CREATE_COMPLETE`)
	late := &awscloudformation.SignalResourceInput{StackName: aws.String("good"), LogicalResourceId: aws.String("W"), UniqueId: aws.String("i-3"), Status: "SUCCESS"}
	_, err := w.SignalResource(ctx, late)
	testkit.WantError(t, err, "ValidationError", "Stack "+id+" is in CREATE_COMPLETE state and cannot be signaled")

	id = w.create(t, "bad", two)
	w.signal(t, id, "W", "i-1", "SUCCESS")
	w.signal(t, id, "W", "i-2", "FAILURE")
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "W CREATE_FAILED Received FAILURE signal with UniqueId i-2\nS ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [W]. Rollback requested by user.") {
		t.Error(script)
	}
	most := waiting(`, "CreationPolicy": {"ResourceSignal": {"Count": 4}, "AutoScalingCreationPolicy": {"MinSuccessfulInstancesPercent": 75}}`)
	id = w.create(t, "most", most)
	for i, status := range []string{"FAILURE", "SUCCESS", "SUCCESS", "SUCCESS"} {
		w.signal(t, id, "W", fmt.Sprintf("i-%d", i), status)
	}
	w.want(t, id, "CREATE_COMPLETE")
	id = w.create(t, "few", most)
	for i, status := range []string{"FAILURE", "SUCCESS", "FAILURE"} {
		w.signal(t, id, "W", fmt.Sprintf("i-%d", i), status)
	}
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "W CREATE_FAILED Received 1 SUCCESS signal(s) out of 4.  Unable to satisfy 75% MinSuccessfulInstancesPercent requirement") {
		t.Error(script)
	}
}

// TestSignalTimeout covers golden scenario 17, and a creation policy whose signals do not arrive.
func TestSignalTimeout(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "condition", `{"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}, "W": {"Type": "AWS::CloudFormation::WaitCondition", "Properties": {"Handle": {"Ref": "H"}, "Timeout": "1"}}}}`)
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "W CREATE_FAILED WaitCondition timed out. Received 0 conditions when expecting 1\n") {
		t.Error(script)
	}
	id = w.create(t, "policy", waiting(`, "CreationPolicy": {"ResourceSignal": {"Count": 2, "Timeout": "PT1S"}}`))
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "W CREATE_FAILED Failed to receive 2 resource signal(s) within the specified duration\n") {
		t.Error(script)
	}
	_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("q"), TemplateBody: aws.String(`{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "CreationPolicy": {}}}}`)})
	testkit.WantErrorWith(t, err, "ValidationError", "CreationPolicy is not supported for resource type AWS::SQS::Queue")
	none := w.create(t, "none", waiting(`, "Properties": {"Count": 0, "Timeout": "10"}`))
	w.want(t, none, "CREATE_COMPLETE")
	_, script := w.update(t, none, waiting(`, "Properties": {"Count": 0, "Timeout": "20"}`), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "W UPDATE_FAILED Update to resource type AWS::CloudFormation::WaitCondition is not supported.") {
		t.Error(script)
	}
}

// TestManySignals sends more signals than a record keeps.
func TestManySignals(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "many", waiting(`, "CreationPolicy": {"ResourceSignal": {"Count": 2000, "Timeout": "PT1H"}}`))
	w.signal(t, id, "W", "0", "SUCCESS")
	for n := range 1010 {
		testkit.Must(w.SignalResource(ctx, &awscloudformation.SignalResourceInput{StackName: &id, LogicalResourceId: aws.String("W"), UniqueId: aws.String(fmt.Sprint(n)), Status: "SUCCESS"}))(t)
	}
	if n := strings.Count(w.script(t, id), "Received SUCCESS signal"); n != 1000 {
		t.Errorf("%d signals are kept", n)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}

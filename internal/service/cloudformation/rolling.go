package cloudformation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

const scalingGroup = "AWS::AutoScaling::AutoScalingGroup"

// launching are the properties of a group that its update policy concerns: instances that
// were launched with other values are obsolete.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-updatepolicy.html
var launching = []string{"LaunchConfigurationName", "LaunchTemplate", "MixedInstancesPolicy", "VPCZoneIdentifier"}

// A rollingUpdate says how a group's instances are replaced.
type rollingUpdate struct {
	batch, least, percent int
	pause                 time.Duration
	signals               bool
	suspend               []string
}

// updatePolicy returns the resolved update policy of a resource as JSON.
func (o *operation) updatePolicy(d *template.Resource, rt template.Runtime) (json.RawMessage, error) {
	if d.UpdatePolicy == nil {
		return nil, nil
	}
	v, err := o.instance.Value(d.UpdatePolicy, rt)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(template.JSON(v)), nil
}

// rolling parses the part of an update policy that says how instances are replaced. It
// returns nil if they are left alone.
func rolling(policy json.RawMessage) (*rollingUpdate, error) {
	m := (&resourceState{Properties: policy}).properties()
	roll, ok := m.Get("AutoScalingRollingUpdate").(*template.Map)
	if !ok {
		return nil, nil
	}
	out := &rollingUpdate{batch: 1, percent: 100}
	for name, into := range map[string]*int{"MaxBatchSize": &out.batch, "MinInstancesInService": &out.least, "MinSuccessfulInstancesPercent": &out.percent} {
		if text, ok := template.Text(roll.Get(name)); ok {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("AutoScalingRollingUpdate: %s must be a number", name)
			}
			*into = n
		}
	}
	out.batch = max(out.batch, 1)
	text, _ := template.Text(roll.Get("WaitOnResourceSignals"))
	if out.signals = text == "true"; out.signals {
		out.pause = 5 * time.Minute
	}
	if text, ok := template.Text(roll.Get("PauseTime")); ok {
		if out.pause, ok = duration(text); !ok || out.pause > time.Hour {
			return nil, fmt.Errorf("AutoScalingRollingUpdate: invalid PauseTime %s", text)
		}
	}
	list, _ := roll.Get("SuspendProcesses").([]any)
	for _, e := range list {
		text, _ := template.Text(e)
		out.suspend = append(out.suspend, text)
	}
	return out, nil
}

// willReplace reports whether an update policy replaces the whole group instead of its
// instances.
func willReplace(policy json.RawMessage) bool {
	m := (&resourceState{Properties: policy}).properties()
	replacing, _ := m.Get("AutoScalingReplacingUpdate").(*template.Map)
	text, _ := template.Text(replacing.Get("WillReplace"))
	return text == "true"
}

// iso formats a duration in the form PT5M.
func iso(d time.Duration) string {
	out := "PT"
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "H"}, {time.Minute, "M"}, {time.Second, "S"}} {
		if n := d / unit.d; n > 0 {
			out += strconv.Itoa(int(n)) + unit.name
			d -= n * unit.d
		}
	}
	if out == "PT" {
		return "PT0S"
	}
	return out
}

// roll replaces the instances of a group in batches. The group's record lists the obsolete
// ones, so that another daemon can continue. The texts were recorded on AWS.
func (r *request) roll(u *rollingUpdate) error {
	say := func(format string, args ...any) error {
		return r.o.note(r.logical, true, func(rec *resourceRecord) { rec.Reason = fmt.Sprintf(format, args...) })
	}
	rec, _ := r.o.resource(r.logical)
	if rec.Rolling == nil || rec.Rolling.Obsolete == nil {
		g, err := r.group(r.id)
		if err != nil || g == nil {
			return err
		}
		started := rollingRecord{Min: *g.MinSize, Desired: *g.DesiredCapacity}
		if rec.Rolling != nil { // an abandoned update has changed the sizes
			started = *rec.Rolling
		}
		for _, i := range g.Instances {
			started.Obsolete = append(started.Obsolete, *i.InstanceId)
		}
		if len(started.Obsolete) == 0 {
			return nil
		}
		text := fmt.Sprintf("Rolling update initiated. Terminating %d obsolete instance(s) in batches of %d", len(started.Obsolete), u.batch)
		if u.least > 0 {
			text += fmt.Sprintf(", while keeping at least %d instance(s) in service", u.least)
		}
		text += "."
		if u.signals {
			text += fmt.Sprintf(" Waiting on resource signals with a timeout of %s when new instances are added to the autoscaling group.", iso(u.pause))
		}
		if err := r.o.note(r.logical, true, func(rec *resourceRecord) { rec.Rolling, rec.Reason, rec.Signals = &started, text, nil }); err != nil {
			return err
		}
		rec.Rolling = &started
		if len(u.suspend) > 0 {
			if _, err := call[awsautoscaling.SuspendProcessesOutput](r, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: &r.id, ScalingProcesses: u.suspend}); err != nil {
				return err
			}
		}
		if most := min(int(*g.MaxSize), u.least+u.batch); int(started.Min) < most {
			size := aws.Int32(int32(max(most, int(started.Desired))))
			if err := say("Temporarily setting autoscaling group MinSize and DesiredCapacity to %d.", *size); err != nil {
				return err
			}
			if _, err := call[awsautoscaling.UpdateAutoScalingGroupOutput](r, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &r.id, MinSize: size, DesiredCapacity: size}); err != nil {
				return err
			}
		}
	}
	err := r.rollAll(u, rec.Rolling, say)
	if r.ctx.Err() != nil {
		return err
	}
	_, restored := call[awsautoscaling.UpdateAutoScalingGroupOutput](r, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &r.id, MinSize: &rec.Rolling.Min, DesiredCapacity: &rec.Rolling.Desired})
	if len(u.suspend) > 0 && restored == nil {
		_, restored = call[awsautoscaling.ResumeProcessesOutput](r, &awsautoscaling.ResumeProcessesInput{AutoScalingGroupName: &r.id, ScalingProcesses: u.suspend})
	}
	if err == nil {
		err = restored
	}
	if noted := r.o.note(r.logical, false, func(rec *resourceRecord) { rec.Rolling = nil }); err == nil {
		err = noted
	}
	return err
}

func (r *request) rollAll(u *rollingUpdate, started *rollingRecord, say func(string, ...any) error) error {
	total, succeeded, failures := len(started.Obsolete), 0, 0
	for {
		g, err := r.group(r.id)
		if err != nil || g == nil {
			return err
		}
		var left []string
		for _, i := range g.Instances {
			if slices.Contains(started.Obsolete, *i.InstanceId) {
				left = append(left, *i.InstanceId)
			}
		}
		if len(left) == 0 {
			return nil
		}
		batch := left[:min(u.batch, len(left))]
		names := strings.Join(batch, ", ")
		if err := say("Terminating instance(s) [%s]; replacing with %d new instance(s).", names, len(batch)); err != nil {
			return err
		}
		if err := r.o.note(r.logical, false, func(rec *resourceRecord) { rec.Signals, rec.Deadline = nil, time.Time{} }); err != nil {
			return err
		}
		for _, id := range batch {
			in := &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(false)}
			if _, err := call[awsautoscaling.TerminateInstanceInAutoScalingGroupOutput](r, in); err != nil && !r.isGone(id) {
				return err
			}
		}
		err = r.wait(func() (bool, error) {
			g, err := r.group(r.id)
			if err != nil || g == nil {
				return false, err
			}
			serving := 0
			for _, i := range g.Instances {
				if slices.Contains(batch, *i.InstanceId) {
					return false, nil
				}
				if i.LifecycleState == autoscalingtypes.LifecycleStateInService {
					serving++
				}
			}
			return serving >= int(aws.ToInt32(g.DesiredCapacity)), nil
		})
		if err != nil {
			return err
		}
		if err := say("Successfully terminated instance(s) [%s] (Progress %d%%).", names, (total-len(left)+len(batch))*100/total); err != nil {
			return err
		}
		switch {
		case u.signals:
			if err := say("New instance(s) added to autoscaling group - Waiting on %d resource signal(s) with a timeout of %s.", len(batch), iso(u.pause)); err != nil {
				return err
			}
			got, err := r.batchSignals(len(batch), u.pause)
			if err != nil {
				return err
			}
			if got < len(batch) {
				if err := say("Failed to receive %d resource signal(s) for the current batch.  Each resource signal timeout is counted as a FAILURE.", len(batch)-got); err != nil {
					return err
				}
			}
			succeeded, failures = succeeded+got, failures+len(batch)-got
			if failures*100 > (100-u.percent)*total {
				return fmt.Errorf("Received %d SUCCESS signal(s) out of %d.  Unable to satisfy %d%% MinSuccessfulInstancesPercent requirement", succeeded, succeeded+failures, u.percent) //nolint:staticcheck // AWS's words
			}
		case u.pause > 0:
			until := r.o.s.now().Add(u.pause)
			if err := r.wait(func() (bool, error) { return !r.o.s.now().Before(until), nil }); err != nil {
				return err
			}
		}
	}
}

func (r *request) isGone(instance string) bool {
	g, err := r.group(r.id)
	return err == nil && g != nil && !slices.ContainsFunc(g.Instances, func(i autoscalingtypes.Instance) bool { return *i.InstanceId == instance })
}

// batchSignals waits for the signals of new instances and returns how many succeeded.
func (r *request) batchSignals(count int, timeout time.Duration) (succeeded int, err error) {
	until := r.o.s.now().Add(timeout)
	err = r.wait(func() (bool, error) {
		rec, _ := r.o.resource(r.logical)
		succeeded = 0
		for _, s := range rec.Signals {
			if s.Success {
				succeeded++
			}
		}
		return len(rec.Signals) >= count || !r.o.s.now().Before(until), nil
	})
	return min(succeeded, count), err
}

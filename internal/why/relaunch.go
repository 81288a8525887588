package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// tagGroup is the key of a tag on every instance of an Auto Scaling group.
const tagGroup = "aws:autoscaling:groupName"

// relaunch returns the fix that replaces an instance by one with changed user data, in which news replaces the single
// occurrence of old. If only a person knows the right value, the fix is a sketch.
func (x *Explainer) relaunch(e *api.NodeExplanation, m *machine.Instance, old, news string) []advice.Fix {
	if old == "" || m == nil || strings.Count(string(m.UserData), old) != 1 {
		return x.replaced(e, m, "correct the file user-data before the instance is launched again", nil, "", nil)
	}
	return x.replaced(e, m, "", nil, "sed -i.wrong "+quoted("s|"+old+"|"+news+"|g")+" user-data", func() error {
		edited := strings.ReplaceAll(string(m.UserData), old, news)
		// Scripts are run, not parsed: in them, the replaced text is the cluster's name.
		if c, err := userdata.Parse(m.Image.Family, []byte(edited)); err == nil && c.ClusterName != news {
			return fmt.Errorf("user data names the cluster %s then", c.ClusterName)
		}
		return nil
	})
}

// onceOnly reports whether a step is taken by user data, which runs at the first boot only.
func onceOnly(step string) bool { return step == node.StepDescribe || step == node.StepScript }

// thenRelaunch adds the replacement of the instance to the fixes of the network. If the network works by now, replacing
// the instance is the only fix.
func (x *Explainer) thenRelaunch(e *api.NodeExplanation, m *machine.Instance, why *api.Reason) {
	if why == nil || why.By != node.ByNetwork {
		return
	}
	again := x.relaunchAfter(e, m, nil)
	if len(why.Fixes) == 0 && why.Note == "" {
		why.Fixes = again
		return
	}
	for i := range why.Fixes {
		if f := &why.Fixes[i]; f.Proven {
			f.Then(again[0])
		}
	}
}

// relaunchAfter returns the fix that replaces an instance whose user data is correct but ran too early, before the
// other fix.
func (x *Explainer) relaunchAfter(e *api.NodeExplanation, m *machine.Instance, before []advice.Fix) []advice.Fix {
	return x.replaced(e, m, "", before, "", nil)
}

// replaced returns the fix that launches an instance again, after another fix and an edit of its user data, which judge
// has to accept. It must be possible to launch the new instance while the old one still runs.
func (x *Explainer) replaced(e *api.NodeExplanation, m *machine.Instance, sketch string, first []advice.Fix, edit string, judge func() error) []advice.Fix {
	at := " --region " + e.Region
	var before []string
	changes := []advice.Change{{Kind: advice.ReplaceInstance, Resource: e.Instance, Value: edit}}
	for _, f := range first {
		before, changes = f.Commands, slices.Concat(f.Changes, changes)
	}
	i, ok := x.cfg.EC2.InstanceByID(e.Account, e.Region, e.Instance)
	if !ok || m == nil {
		return oneSketch("launch another instance with correct user data, and terminate "+e.Instance, before...)
	}
	if m.Operator != "" {
		return oneSketch("users may not end an instance of EKS Auto Mode: delete its node claim, and EKS launches another one if pods still need it", append(before,
			"kubectl delete nodeclaim $(kubectl get nodeclaims -o "+quoted(`jsonpath={.items[?(@.status.providerID=="aws:///`+m.AvailabilityZone+"/"+m.ID+`")].metadata.name}`)+")")...)
	}
	try := func(launches func() error, commands []string) []advice.Fix {
		out := advice.Try(func([]advice.Change) error {
			for _, f := range first {
				if !f.Proven {
					return errors.New(f.Sketch)
				}
			}
			if judge != nil {
				if err := judge(); err != nil {
					return err
				}
			}
			return launches()
		}, changes, commands...)
		out[0].Replaces = true
		return out
	}
	tags := map[string]string{}
	var own []map[string]string
	for _, t := range i.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		if !strings.HasPrefix(aws.ToString(t.Key), "aws:") {
			own = append(own, map[string]string{"Key": aws.ToString(t.Key), "Value": aws.ToString(t.Value)})
		}
	}
	terminate := "aws ec2 terminate-instances --instance-ids " + e.Instance + at
	if group := tags[tagGroup]; group != "" { // the group launches the next one
		if sketch == "" && edit == "" {
			return try(func() error { return x.launches(e.Account, e.Region, &i, 0) }, append(before, terminate))
		}
		return oneSketch("correct the user data in the launch template or configuration of the Auto Scaling group "+group+"; then the group replaces what is terminated",
			"aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names "+quoted(group)+" --query 'AutoScalingGroups[0].[LaunchTemplate,LaunchConfigurationName]'"+at, terminate)
	}
	run := fmt.Sprintf("aws ec2 run-instances --image-id %s --instance-type %s --subnet-id %s", aws.ToString(i.ImageId), i.InstanceType, aws.ToString(i.SubnetId))
	var groups []string
	for _, g := range i.SecurityGroups {
		groups = append(groups, aws.ToString(g.GroupId))
	}
	if len(groups) > 0 {
		run += " --security-group-ids " + strings.Join(groups, " ")
	}
	if p := i.IamInstanceProfile; p != nil {
		run += " --iam-instance-profile Arn=" + aws.ToString(p.Arn)
	}
	if i.KeyName != nil {
		run += " --key-name " + quoted(*i.KeyName)
	}
	var fetch string
	if len(m.UserData) > 0 {
		fetch = "aws ec2 describe-instance-attribute --instance-id " + e.Instance + " --attribute userData --query UserData.Value --output text" + at + " | base64 --decode > user-data"
	}
	if len(m.UserData) > 0 || edit != "" {
		run += " --user-data file://user-data"
	}
	if len(own) > 0 {
		if b, err := json.Marshal([]any{map[string]any{"ResourceType": "instance", "Tags": own}}); err == nil {
			run += " --tag-specifications " + quoted(string(b))
		}
	}
	commands := slices.Concat(before, nonEmpty(fetch, edit, run+at, terminate))
	if sketch != "" {
		return []advice.Fix{{Sketch: sketch, Commands: commands, Replaces: true, Changes: changes}}
	}
	return try(func() error { return x.replaceable(e, &i) }, commands)
}

func nonEmpty(words ...string) []string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

// planeOf returns the control plane of a node's cluster.
func (x *Explainer) planeOf(e *api.NodeExplanation) (string, error) {
	endpoints, err := x.cfg.EKS.APIEndpoints(context.Background(), e.Account, e.Region)
	if err != nil {
		return "", err
	}
	for _, end := range endpoints {
		if strings.HasSuffix(end.ARN, ":cluster/"+e.Cluster) {
			if plane, _, ok := x.cfg.PlaneAt(end.Host); ok {
				return plane, nil
			}
		}
	}
	return "", fmt.Errorf("cluster %s has no control plane", e.Cluster)
}

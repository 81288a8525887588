package account

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// An Observation is what AWS showed of an instance when it was read. What Drydock predicts is compared with it.
type Observation struct {
	State  string // EC2's
	Reason string `json:",omitempty"` // of the last change of the state
	// NodesRead reports whether the nodes of the instance's cluster were read. Node is its own, or nil if it had none.
	NodesRead bool
	Node      *NodeObservation `json:",omitempty"`
	// Console is the end of its console output.
	Console string `json:",omitempty"`
	// Activities are failed activities of its Auto Scaling group, and those about the instance, latest first.
	Activities []string `json:",omitempty"`
	// Agent is the ping status of its SSM Agent, or empty if it had not registered or was not read.
	Agent string `json:",omitempty"`
}

// A NodeObservation is the condition Ready of a node.
type NodeObservation struct {
	Name    string
	Ready   string // True, False or Unknown
	Reason  string `json:",omitempty"`
	Message string `json:",omitempty"`
}

// Observations are kept under the IDs of instances.
var observations = store.NewCollection[Observation]("twin", "observation")

// Observed returns what AWS showed of an instance of a twin.
func Observed(r store.Reader, account, instance string) (Observation, bool) {
	o, err := observations.Get(r, store.Key{Account: account, ID: instance})
	return o, err == nil
}

// Limits of what is kept of an instance.
const (
	keptConsole    = 2 << 10
	keptActivities = 5
)

// observe returns the writes of all observations.
func observe(r *recording.Recording) ([]module.Write, error) {
	instances, err := recording.Pages[awsec2.DescribeInstancesInput, awsec2.DescribeInstancesOutput](r, "ec2", "DescribeInstances")
	if err != nil {
		return nil, err
	}
	consoles, err := recording.Pages[awsec2.GetConsoleOutputInput, awsec2.GetConsoleOutputOutput](r, "ec2", "GetConsoleOutput")
	if err != nil {
		return nil, err
	}
	groups, err := recording.Pages[awsautoscaling.DescribeAutoScalingGroupsInput, awsautoscaling.DescribeAutoScalingGroupsOutput](r, "autoscaling", "DescribeAutoScalingGroups")
	if err != nil {
		return nil, err
	}
	activities, err := recording.Pages[awsautoscaling.DescribeScalingActivitiesInput, awsautoscaling.DescribeScalingActivitiesOutput](r, "autoscaling", "DescribeScalingActivities")
	if err != nil {
		return nil, err
	}
	agents, err := recording.Pages[awsssm.DescribeInstanceInformationInput, awsssm.DescribeInstanceInformationOutput](r, "ssm", "DescribeInstanceInformation")
	if err != nil {
		return nil, err
	}
	nodes, read, err := nodesOf(r)
	if err != nil {
		return nil, err
	}
	console, groupOf, agent := map[string]string{}, map[string]string{}, map[string]string{}
	for _, p := range consoles {
		if text, err := base64.StdEncoding.DecodeString(aws.ToString(p.Output.Output)); err == nil {
			console[aws.ToString(p.Input.InstanceId)] = string(text[max(0, len(text)-keptConsole):])
		}
	}
	for _, p := range groups {
		for _, g := range p.Output.AutoScalingGroups {
			for _, i := range g.Instances {
				groupOf[aws.ToString(i.InstanceId)] = aws.ToString(g.AutoScalingGroupName)
			}
		}
	}
	for _, p := range agents {
		for _, i := range p.Output.InstanceInformationList {
			agent[aws.ToString(i.InstanceId)] = string(i.PingStatus)
		}
	}
	of := map[string][]autoscalingtypes.Activity{}
	for _, p := range activities {
		for _, a := range p.Output.Activities {
			name := aws.ToString(a.AutoScalingGroupName)
			of[name] = append(of[name], a)
		}
	}
	var out []module.Write
	for _, p := range instances {
		for _, res := range p.Output.Reservations {
			for _, i := range res.Instances {
				id := aws.ToString(i.InstanceId)
				o := Observation{Reason: aws.ToString(i.StateTransitionReason), NodesRead: wereRead(read, clusterOf(i.Tags)), Node: nodes[id], Console: console[id], Agent: agent[id]}
				if i.State != nil {
					o.State = string(i.State.Name)
				}
				for _, a := range of[groupOf[id]] {
					if len(o.Activities) < keptActivities && (a.StatusCode == autoscalingtypes.ScalingActivityStatusCodeFailed || strings.Contains(aws.ToString(a.Description), id)) {
						o.Activities = append(o.Activities, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", a.StatusCode, aws.ToString(a.Description), aws.ToString(a.StatusMessage)), ": "))
					}
				}
				out = append(out, module.Put(observations, store.Key{Account: r.Source.Account, ID: id}, o))
			}
		}
	}
	return out, nil
}

// nodesOf returns the nodes by the IDs of their instances, and the clusters whose nodes were read.
func nodesOf(r *recording.Recording) (map[string]*NodeObservation, map[string]bool, error) {
	out, read := map[string]*NodeObservation{}, map[string]bool{}
	for _, a := range r.Answers {
		if a.Service != recording.Kubernetes {
			continue
		}
		q, err := a.KubernetesList()
		if err != nil {
			return nil, nil, err
		}
		if q.Group != "" || q.Resource != "nodes" && q.Resource != "" { // without a resource, it is about all
			continue
		}
		read[q.Cluster] = len(a.Pages) > 0
		for _, page := range a.Pages {
			if err := addNodes(out, page); err != nil {
				return nil, nil, err
			}
		}
	}
	return out, read, nil
}

// clusterOf returns the name of the cluster that an instance is meant for, or "" if its tags name none.
func clusterOf(tags []ec2types.Tag) string {
	for _, t := range tags {
		key := aws.ToString(t.Key)
		if name, ok := strings.CutPrefix(key, "kubernetes.io/cluster/"); ok {
			return name
		}
		if key == "eks:cluster-name" || key == "aws:eks:cluster-name" {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// wereRead reports whether the nodes of a cluster were read or, if it is not known which, those of all clusters.
func wereRead(read map[string]bool, cluster string) bool {
	if cluster != "" {
		return read[cluster]
	}
	for _, ok := range read {
		if !ok {
			return false
		}
	}
	return len(read) > 0
}

// addNodes adds the nodes of a page to the nodes by the IDs of their instances.
func addNodes(out map[string]*NodeObservation, page []byte) error {
	var list corev1.NodeList
	if err := json.Unmarshal(page, &list); err != nil {
		return fmt.Errorf("the nodes in the recording: %w", err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		o := &NodeObservation{Name: n.Name, Ready: "Unknown"}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				o.Ready, o.Reason, o.Message = string(c.Status), c.Reason, c.Message
			}
		}
		out[kube.InstanceID(n.Spec.ProviderID)] = o
	}
	return nil
}

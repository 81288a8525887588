package twin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A Difference is something that a twin and its source answer differently.
type Difference struct {
	Action string `json:"action"` // such as ec2:DescribeSecurityGroups
	// Path leads to it, with resources by their names: SecurityGroups[sg-1].IpPermissions[0].FromPort.
	Path string `json:"path"`
	// Twin and Source are the values as JSON, or empty if one of them does not have the value. Both are empty if the values
	// are those of a Secret, which are never shown.
	Twin   string `json:"twin,omitempty"`
	Source string `json:"source,omitempty"`
}

// String is the line for people.
func (d Difference) String() string {
	if d.Twin == "" && d.Source == "" {
		return d.Action + " " + d.Path + ": differs"
	}
	was := func(v string) string {
		if v == "" {
			return "nothing"
		}
		if len(v) > 200 {
			v = v[:200] + "…"
		}
		return v
	}
	return fmt.Sprintf("%s %s: the twin has %s, the source %s", d.Action, d.Path, was(d.Twin), was(d.Source))
}

// passing are the operations of AWS whose answers change by themselves, and volatile the members that do, or that are the
// twin's own.
var (
	passing  = []string{"GetCallerIdentity", "GetConsoleOutput", "DescribeScalingActivities", "DescribeInstanceInformation", "DescribeTargetHealth", "ListInsights", "DescribeInsight", "ListUpdates", "DescribeUpdate"}
	volatile = []string{"ResultMetadata", "NextToken", "Marker", "RoleLastUsed", "CertificateAuthority", "Endpoint", "ModifiedAt", "Health", "AvailableIpAddressCount"}
)

// Compare returns what AWS's APIs answer differently for a twin, which was read like its source. A resource that one of them does not
// have is one difference. What one of them did not allow to be read is not compared.
func Compare(twin, source *recording.Recording) ([]Difference, error) {
	ours, err := values(twin)
	if err != nil {
		return nil, err
	}
	theirs, err := values(source)
	if err != nil {
		return nil, err
	}
	var out []Difference
	for _, question := range slices.Sorted(maps.Keys(ours)) {
		if there, ok := theirs[question]; ok {
			action, _, _ := strings.Cut(question, " ")
			c := comparison{action: action, ignored: volatile}
			c.compare("", ours[question], there)
			out = append(out, c.found...)
		}
	}
	return out, nil
}

// CompareObjects returns how the Kubernetes objects of a cluster of a twin differ from those of its source, given by their names. Each
// text has at most maxText bytes. It removes the values from Secrets that only one side has.
func CompareObjects(q recording.KubernetesList, ours, theirs map[string]map[string]any) []Difference {
	c := comparison{action: Kubernetes + ":" + q.GroupResource()}
	all := maps.Clone(ours)
	maps.Copy(all, theirs)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := q.Cluster + "[" + name + "]"
		one, here := ours[name]
		other, there := theirs[name]
		if q.IsSecrets() {
			c.secret = path
			if !here || !there {
				StripObject(q, one, false)
				StripObject(q, other, false)
			}
		}
		switch {
		case here && there:
			c.compare(path, one, other)
		case here:
			c.found = append(c.found, Difference{c.action, path, text(one), ""})
		default:
			c.found = append(c.found, Difference{c.action, path, "", text(other)})
		}
	}
	for i := range c.found {
		d := &c.found[i]
		d.Path, d.Twin, d.Source = cut(d.Path), cut(d.Twin), cut(d.Source)
	}
	return c.found
}

// maxText is the size of a text about an object, in bytes. Objects may have some MiB.
const maxText = 4 << 10

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	const end = "…"
	return strings.ToValidUTF8(text[:maxText-len(end)], "") + end
}

// values returns the decoded answers by their questions. The elements of lists are together, whatever page they are on.
func values(r *recording.Recording) (map[string]any, error) {
	out := map[string]any{}
	for _, a := range r.Answers {
		if len(a.Pages) == 0 || a.Service == Kubernetes || slices.Contains(passing, a.Operation) {
			continue
		}
		action := recording.Action(a.Service, a.Operation)
		all := map[string]any{}
		for _, raw := range a.Pages {
			page := map[string]any{}
			if err := json.Unmarshal(raw, &page); err != nil {
				return nil, fmt.Errorf("%s in the recording: %w", action, err)
			}
			if a.Operation == "DescribeScheduledActions" {
				dropNextTimes(page)
			}
			for name, v := range page {
				list, ok := v.([]any)
				if before, again := all[name].([]any); ok && again {
					v = append(before, list...)
				}
				all[name] = v
			}
		}
		out[action+" "+string(a.Input)] = all
	}
	return out, nil
}

// dropNextTimes removes from recurring scheduled actions when they are due next, which moves on by itself.
func dropNextTimes(page map[string]any) {
	list, _ := page["ScheduledUpdateGroupActions"].([]any)
	for _, e := range list {
		if a, ok := e.(map[string]any); ok && text(a["Recurrence"]) != "" {
			delete(a, "StartTime")
			delete(a, "Time")
		}
	}
}

// A comparison collects the differences between two answers.
type comparison struct {
	action  string
	ignored []string // names of members
	secret  string   // the path of a Secret, whose values are not shown
	found   []Difference
}

func (c *comparison) compare(path string, ours, theirs any) {
	switch one := ours.(type) {
	case map[string]any:
		if other, ok := theirs.(map[string]any); ok {
			c.members(one, other, func(name string) string { return strings.TrimPrefix(path+"."+name, ".") })
			return
		}
	case []any:
		other, _ := theirs.([]any)
		if a, b, ok := named(one, other); ok {
			c.members(a, b, func(name string) string { return path + "[" + name + "]" })
			return
		}
	}
	if was, is := text(ours), text(theirs); was != is {
		if c.secret != "" && (strings.HasPrefix(path, c.secret+".data") || strings.HasPrefix(path, c.secret+".stringData")) {
			was, is = "", ""
		}
		c.found = append(c.found, Difference{c.action, path, was, is})
	}
}

func (c *comparison) members(ours, theirs map[string]any, path func(name string) string) {
	all := maps.Clone(ours)
	maps.Copy(all, theirs)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := path(name)
		// IAM lists AWS's policies only where they are used, and whoever uses them differs.
		listed := strings.HasPrefix(at, "Policies[arn:aws:iam::aws:policy/") && (ours[name] == nil || theirs[name] == nil)
		if !slices.Contains(c.ignored, name) && !listed {
			c.compare(at, ours[name], theirs[name])
		}
	}
}

// named returns the elements of two lists by their names, or false if elements of the lists have none.
func named(one, other []any) (a, b map[string]any, ok bool) {
	byName := func(list []any) (map[string]any, bool) {
		out := map[string]any{}
		for _, e := range list {
			name := nameOf(e)
			if _, twice := out[name]; twice || name == "" {
				return nil, false
			}
			out[name] = e
		}
		return out, true
	}
	a, okA := byName(one)
	b, okB := byName(other)
	return a, b, okA && okB && len(a)+len(b) > 0
}

// nameOf returns what identifies an element of a list: its ID or name.
func nameOf(e any) string {
	switch e := e.(type) {
	case string:
		return e
	case map[string]any:
		for _, member := range []string{
			"ListenerArn", "RuleArn", "TargetGroupArn", "LoadBalancerArn", "LoadBalancerName", "SecurityGroupRuleId", "AllocationId", "NetworkInterfaceId", "InstanceId", "VpcEndpointId", "NatGatewayId", "RouteTableId", "NetworkAclId", "GroupId", "SubnetId", "VolumeId",
			"TransitGatewayAttachmentId", "TransitGatewayRouteTableId", "TransitGatewayId", "InternetGatewayId", "EgressOnlyInternetGatewayId", "VpcPeeringConnectionId", "PrefixListId", "ReservationId", "VpcId", "DhcpOptionsId", "ImageId", "VersionNumber", "LaunchTemplateId",
			"PolicyARN", "ScheduledActionARN", "AutoScalingGroupName", "LaunchConfigurationName", "LifecycleHookName", "Arn", "PolicyArn", "RoleName", "UserName", "GroupName", "PolicyName", "QuotaCode", "VersionId", "Key", "Id", "Name", "name",
		} {
			switch v := e[member].(type) {
			case string:
				return v
			case float64:
				return fmt.Sprint(v)
			}
		}
	}
	return ""
}

// text is a value as JSON. What is empty is nothing.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if s := string(b); s != "null" && s != "[]" && s != "{}" && s != `""` && s != "0" && s != "false" {
		return s
	}
	return ""
}

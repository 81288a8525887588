package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
)

// answers caches answers, by the question and the kind of machine.
type answers map[string]advice.Answer

// key returns the key of a question about a connection: machines of one subnet with the same groups get the same
// answer.
func (x *Explainer) key(account, region string, c node.Connection) string {
	i, ok := x.cfg.EC2.InstanceByID(account, region, c.From)
	if !ok {
		return c.From + fmt.Sprint(c.Host, c.Port)
	}
	var groups []string
	for _, g := range i.SecurityGroups {
		groups = append(groups, aws.ToString(g.GroupId))
	}
	return fmt.Sprint(aws.ToString(i.SubnetId), groups, i.PublicIpAddress != nil, c.Host, c.Port)
}

// ofOne reports whether an answer changes the machine itself, which does not help any other.
func ofOne(a *advice.Answer) bool {
	return slices.ContainsFunc(a.Fixes, func(f advice.Fix) bool {
		return slices.ContainsFunc(f.Changes, func(c advice.Change) bool {
			return strings.HasPrefix(c.Resource, "eni-") || strings.HasPrefix(c.Resource, "i-")
		})
	})
}

// reason returns a decision with its fixes.
func (x *Explainer) reason(account, region string, d *node.Decision) *api.Reason {
	return x.reasonOf(account, region, d, nil, nil)
}

// reasonOf also finds the fixes for a connection that the network refused, in the current network. They have to bring
// a node all the way to Ready: steps are those that it has taken.
func (x *Explainer) reasonOf(account, region string, d *node.Decision, steps []node.Step, known answers) *api.Reason {
	if d == nil {
		return nil
	}
	out := &api.Reason{By: d.By, Code: d.Code, Component: d.Component, Text: d.Text, Fixes: d.Fixes}
	if c := d.Connection; c != nil {
		key := ""
		if known != nil {
			key = x.key(account, region, *c)
		}
		a, ok := known[key]
		if !ok {
			var err error
			if a, err = x.connect(context.Background(), account, region, *c, steps); err != nil {
				return out // there is no advice without the network
			}
			if known != nil && !ofOne(&a) {
				known[key] = a
			}
		}
		out.Fixes, out.Note = append(slices.Clone(a.Fixes), out.Fixes...), a.Note
	}
	switch {
	case d.By == node.ByFault && d.Subject != nil:
		out.Fixes = x.startFixes(account, region, d.Subject.Instance)
	case d.By == node.ByFault:
		out.Fixes = x.faultFixes(account, region, d.Component)
	case d.Subject != nil:
		out.Fixes = append(x.proposed(account, region, d), out.Fixes...)
	}
	return out
}

// connect finds how a connection can be made, and those that a node makes after it.
func (x *Explainer) connect(ctx context.Context, account, region string, c node.Connection, steps []node.Step) (advice.Answer, error) {
	s, err := x.cfg.Network(ctx, account, region)
	if err != nil {
		return advice.Answer{}, err
	}
	hosts := []string{}
	if len(steps) > 0 {
		if hosts, err = x.hostsOfNode(ctx, account, region, steps); err != nil {
			return advice.Answer{}, err
		}
	}
	q := advice.Connection{Through: x.through(ctx, account, region), Needs: []advice.Need{need(c.From, c.Host, c.Port)}}
	for _, h := range hosts {
		if h != c.Host {
			q.Needs = append(q.Needs, need(c.From, h, 443))
		}
	}
	return advice.Network(s, q), nil
}

func need(from, host string, port int) advice.Need {
	return advice.Need{Flow: reach.Flow{From: reach.At(from), Protocol: reach.TCP, Port: uint16(port)}, Name: host}
}

// through continues at load balancers. If that fails, the verdict is unchanged.
func (x *Explainer) through(ctx context.Context, account, region string) func(*reach.Snapshot, *reach.Verdict) *reach.Verdict {
	if x.cfg.Through == nil {
		return nil
	}
	return func(s *reach.Snapshot, v *reach.Verdict) *reach.Verdict {
		if w, err := x.cfg.Through(ctx, account, region, s, v); err == nil {
			return w
		}
		return v
	}
}

// hostsOfNode returns the hosts that a node contacts on its way to Ready: EC2, its cluster, and the registries of the
// images of its first pods. EKS is one of them if the node has called it.
func (x *Explainer) hostsOfNode(ctx context.Context, account, region string, steps []node.Step) ([]string, error) {
	at := "." + region + ".amazonaws.com"
	hosts := []string{"ec2" + at, "api.ecr" + at, addons.Registry(region), "prod-" + region + "-starport-layer-bucket.s3" + at}
	cluster := ""
	for _, s := range steps {
		if s.Cluster != "" {
			cluster = s.Cluster
		}
		if s.Name == node.StepDescribe {
			hosts = append(hosts, "eks"+at)
		}
	}
	if cluster == "" {
		return hosts, nil
	}
	endpoints, err := x.cfg.EKS.APIEndpoints(ctx, account, region)
	if err != nil {
		return nil, err
	}
	for _, e := range endpoints {
		if strings.HasSuffix(e.ARN, ":cluster/"+cluster) {
			hosts = append(hosts, e.Host)
		}
	}
	return hosts, nil
}

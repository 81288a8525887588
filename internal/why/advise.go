package why

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
)

// reason is a decision with what mends it. Of a connection that the network refused, the
// fixes are looked for in the network as it is now, and have to bring a node all the way:
// steps are those that it has taken.
func (x *Explainer) reason(account, region string, d *node.Decision, steps ...node.Step) *api.Reason {
	if d == nil {
		return nil
	}
	out := &api.Reason{By: d.By, Code: d.Code, Component: d.Component, Text: d.Text, Fixes: d.Fixes}
	if c := d.Connection; c != nil {
		a, err := x.connect(context.Background(), account, region, *c, steps)
		if err == nil { // without the network there is no advice about it
			out.Fixes, out.Note = append(a.Fixes, out.Fixes...), a.Note
		}
	}
	if d.Subject != nil {
		out.Fixes = append(x.identified(account, region, d), out.Fixes...)
	}
	return out
}

// identified are the fixes of a machine that its cluster does not let in.
func (x *Explainer) identified(account, region string, d *node.Decision) []advice.Fix {
	switch d.Code {
	case codeUnauthorized:
		return x.mapRole(context.Background(), region, d.Subject, "EC2_LINUX")
	case codeStaleEntry:
		return []advice.Fix{replaceEntry(region, d.Subject)}
	case codeWrongCluster:
		id := strings.TrimPrefix(d.Component, "user data of ")
		if m, err := x.cfg.Machines.Instance(id); err == nil {
			e := &api.NodeExplanation{Instance: id, Account: account, Region: region, Cluster: d.Subject.Cluster}
			return x.relaunch(e, &m, d.Subject.Named, d.Subject.Cluster)
		}
	}
	return nil
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

// through goes on at load balancers; where that fails the verdict stays as it is.
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

// hostsOfNode are the hosts that a node calls on its way to Ready: EC2, its cluster, and
// where the images of its first pods come from. EKS is one if the node has asked it.
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

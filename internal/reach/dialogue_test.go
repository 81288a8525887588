package reach_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A dialogue is a sequence of changes and questions, with all answers.
type dialogue struct {
	strings.Builder
	t   *testing.T
	net *reach.Snapshot
}

func (d *dialogue) say(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// change makes the network another one.
func (d *dialogue) change(what string, next *reach.Snapshot) {
	d.say("# %s\n", what)
	d.net = next
}

func (d *dialogue) verdict(v *reach.Verdict) *reach.Verdict {
	d.say("%s", v.Text())
	// The daemon sends what the command shows.
	raw, err := json.Marshal(v)
	if err != nil {
		d.t.Fatal(err)
	}
	var got reach.Verdict
	if err := json.Unmarshal(raw, &got); err != nil {
		d.t.Fatal(err)
	}
	if diff := cmp.Diff(v.Text(), got.Text()); diff != "" {
		d.t.Errorf("through JSON: %s", diff)
	}
	return v
}

func (d *dialogue) ask(from, to string, port uint16) *reach.Verdict {
	f := reach.Flow{From: reach.At(from), To: reach.At(to), Protocol: reach.TCP, Port: port}
	if from == "laptop" {
		f.From = laptop
	}
	d.say("> drydock why reach --from %s --to %s:%d", from, to, port)
	if strings.Contains(to, ".") {
		return d.verdict(d.net.CheckName(f, to))
	}
	return d.verdict(d.net.Check(f))
}

func (d *dialogue) end(name string) { testkit.Golden(d.t, name+".txt", d.String()) }

func TestDialogues(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		d := &dialogue{t: t, net: closed()}
		d.say("A cluster without internet:\n")
		d.say("  laptop ── igw-1 ── vpc-bastion 10.9.0.0/16 ── pcx-1 ── vpc-k8s 10.0.0.0/16")
		d.say("                     i-bastion                          i-worker  i-operator  control plane")
		d.say("                                                        vpce-ec2  vpce-dkr  vpce-s3\n")
		d.ask("i-worker", "ec2.us-east-1.amazonaws.com", 443)
		d.ask("i-worker", "bucket.s3.us-east-1.amazonaws.com", 443)
		d.ask("i-worker", "example.com", 443)
		d.ask("i-bastion", "i-operator", 22)
		d.ask("laptop", "i-operator", 22)
		d.ask("laptop", clusterName, 443)
		d.change("the endpoint of ec2 is deleted", edit(d.net, "vpce-ec2", "eni-ec2a", "eni-ec2b"))
		d.ask("i-worker", "ec2.us-east-1.amazonaws.com", 443)
		d.change("the workers' VPC loses its route back", with(t, d.net, "rtb-k8s", func(r *reach.RouteTable) { r.Routes = r.Routes[:1] }))
		d.ask("i-bastion", "i-operator", 22)
		d.ask("i-worker", "bucket.s3.us-east-1.amazonaws.com", 443)
		d.change("the cluster has private access only", with(t, d.net, clusterName, func(h *reach.HostName) { h.Public = nil }))
		d.ask("laptop", clusterName, 443)
		d.end("closed")
	})
	t.Run("open", func(t *testing.T) {
		d := &dialogue{t: t, net: open()}
		d.say("A VPC with a public and a private subnet:\n")
		d.say("  internet ── igw-1 ── subnet-pub: i-web, nat-1 ── subnet-priv: i-app, eice-1\n")
		d.ask("i-app", "example.com", 443)
		d.ask("i-web", "i-app", 8080)
		d.ask("i-app", "ec2-54-0-0-10.compute-1.amazonaws.com", 443)
		d.ask("eice-1", "i-app", 22)
		d.say("> drydock why reach --from i-app --to 2a00::1 --protocol icmpv6")
		d.verdict(d.net.Check(reach.Flow{From: reach.At("i-app"), To: reach.Addr(ip("2a00::1")), Protocol: reach.ICMPv6}))
		d.change("the ACL of the private subnet forgets replies to some clients", addEntries(t, d.net, "acl-1", entry(50, true, false, 50000, 65535)))
		d.ask("i-web", "i-app", 8080)
		d.change("and then to all", addEntries(t, d.net, "acl-1", entry(40, true, false, 1024, 65535)))
		d.ask("i-web", "i-app", 8080)
		d.change("the public subnet's route leads to the NAT gateway", reroute(t, d.net, "rtb-pub", anyone, "nat-1"))
		d.ask("laptop", "i-web", 443)
		d.end("open")
	})
	t.Run("connection", func(t *testing.T) {
		d := &dialogue{t: t, net: open()}
		made := d.ask("laptop", "i-web", 22)
		c, ok := made.Established()
		if !ok {
			t.Fatal("not made")
		}
		d.change("every rule of sg-web is revoked", edit(d.net, &reach.SecurityGroup{ID: "sg-web", VPC: "vpc-1"}))
		d.say("the connection that was made:")
		d.verdict(d.net.Continues(c))
		d.say("a new one:")
		d.ask("laptop", "i-web", 22)
		d.change("the ACL denies the port", addEntries(t, d.net, "acl-pub", entry(1, false, false, 22, 22)))
		d.say("the connection that was made:")
		d.verdict(d.net.Continues(c))
		d.end("connection")
	})
	t.Run("dot", func(t *testing.T) {
		testkit.Golden(t, "laptop-to-web.dot", open().Check(flow(laptop, reach.At("i-web"), 80)).DOT())
	})
}

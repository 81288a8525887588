package cloudformation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A request is the work on one resource.
type request struct {
	o       *operation
	ctx     context.Context
	id      string // physical
	logical string
	typ     string
	props   *template.Map
	// plain holds the properties with the references that reveal has replaced in props. It is nil before reveal.
	plain *template.Map
	// stackTags are the stack's tags.
	stackTags []tagRecord
	// was is the resource before the update. It is nil if the resource is created or removed.
	was *request
	// updatePolicy says how an update replaces the instances of a group.
	updatePolicy json.RawMessage
	// others are other physical IDs of this logical ID, which a search must not return.
	others []string
	// token makes creations idempotent, and suffix makes names unique.
	token, suffix string
	service       string // the service called last, for error texts
	// given holds the attributes that only the response to the creation has.
	given map[string]any
	// secrets are the secrets that reveal has put into props.
	secrets []string
}

// request returns a request for a physical resource.
func (o *operation) request(ctx context.Context, rec *resourceRecord, st *resourceState) *request {
	r := &request{
		o: o, ctx: ctx, id: st.PhysicalID, logical: rec.LogicalID, typ: rec.Type, token: st.Token, suffix: st.Suffix, props: st.properties(), stackTags: st.Tags,
	}
	now, _ := o.resource(rec.LogicalID) // rec may stand for a discarded physical resource
	r.others = append(r.others, now.PhysicalID)
	if now.Old != nil && now.Replaced && !now.OldGone {
		r.others = append(r.others, now.Old.PhysicalID)
	}
	for _, d := range now.Discarded {
		r.others = append(r.others, d.PhysicalID)
	}
	r.others = slices.DeleteFunc(r.others, func(id string) bool { return id == "" || id == r.id })
	return r
}

func scopeAt(key store.Key) regional.Scope { return regional.At(key.Account, key.Region) }

// call performs an AWS operation as the stack's caller or role.
func call[Out any](r *request, in any) (*Out, error) {
	r.service = serviceOf(in)
	return awsapi.Do[Out](r.ctx, r.o.s.cfg.API, in)
}

// serviceNames has the names of services in error texts, unless it is the SDK package's name with a capital letter.
var serviceNames = map[string]string{
	"autoscaling": "AutoScaling", "cloudwatchlogs": "CloudWatchLogs", "elasticloadbalancing": "ElasticLoadBalancing", "elasticloadbalancingv2": "ElasticLoadBalancingV2", "ecrpublic": "EcrPublic", "eventbridge": "EventBridge", "route53": "Route53", "secretsmanager": "SecretsManager",
}

// serviceOf returns the service of an SDK input, as error texts name it.
func serviceOf(in any) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", in), "*")
	name, _, _ = strings.Cut(name, ".")
	if known := serviceNames[name]; known != "" || name == "" {
		return known
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// name returns the physical name in the template, or generates STACK-LOGICAL-RANDOM, no longer than most.
func (r *request) name(property string, most int) string {
	if text, ok := template.Text(r.props.Get(property)); ok && text != "" {
		return text
	}
	return r.generated(r.o.rec.Name, most)
}

func (r *request) generated(prefix string, most int) string {
	name := prefix + "-" + r.logical
	if room := most - 1 - len(r.suffix); len(name) > room {
		// AWS shortens both parts.
		half := room / 2
		name = prefix[:min(len(prefix), room-min(len(r.logical), half)-1)] + "-" + r.logical[:min(len(r.logical), half)]
	}
	return name + "-" + r.suffix
}

const suffixes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

func newSuffix() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = suffixes[int(b[i])%len(suffixes)]
	}
	return string(b)
}

func (st *resourceState) properties() *template.Map {
	if v, err := template.ReadJSON(string(st.Properties)); err == nil {
		if m, ok := v.(*template.Map); ok {
			return m
		}
	}
	return &template.Map{}
}

// text returns a property as text, or "".
func (r *request) text(property string) string {
	text, _ := template.Text(r.props.Get(property))
	return text
}

// list returns a property as strings. A single string counts as a list.
func (r *request) list(property string) []string {
	list, ok := r.props.Get(property).([]any)
	if text, scalar := template.Text(r.props.Get(property)); scalar && !ok {
		return []string{text}
	}
	var out []string
	for _, e := range list {
		text, _ := template.Text(e)
		out = append(out, text)
	}
	return out
}

// wait calls check whenever the store changes, and at least every second, until it is done.
func (r *request) wait(check func() (bool, error)) error {
	for {
		changed := r.o.s.store.Changed()
		if done, err := check(); done || err != nil {
			return err
		}
		timer := r.o.s.clock.NewTimer(time.Second)
		pause := r.o.s.clock.NewTimer(20 * time.Millisecond)
		select {
		case <-r.ctx.Done():
		case <-timer.C():
		case <-changed:
			select {
			case <-pause.C():
			case <-r.ctx.Done():
			}
		}
		timer.Stop()
		pause.Stop()
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
	}
}

// find looks for a resource that an earlier call may have created. It uses CloudFormation's own permissions.
func (r *request) find(h handler) (string, error) {
	if h.find == nil {
		return "", nil
	}
	ctx := r.ctx
	defer func() { r.ctx = ctx }()
	r.ctx = r.o.asItself(ctx)
	id, err := h.find(r)
	if notFound(err) || slices.Contains(r.others, id) {
		return "", nil
	}
	return id, err
}

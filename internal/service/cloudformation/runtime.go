package cloudformation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A runtime resolves references in the values of a stack.
type runtime struct {
	o   *operation
	ctx context.Context
	// references is the number of dynamic references resolved so far.
	references int
}

func (o *operation) runtime(ctx context.Context) (*runtime, error) {
	as, err := o.as(ctx)
	return &runtime{o: o, ctx: as}, err
}

// Ref implements template.Runtime.
func (rt *runtime) Ref(id string) (string, error) {
	rec, ok := rt.o.resource(id)
	if !ok || rec.PhysicalID == "" {
		return "", fmt.Errorf("resource %s is not there", id)
	}
	return rec.shownAs(rec.Type), nil
}

// GetAtt implements template.Runtime.
func (rt *runtime) GetAtt(id, attribute string) (any, error) {
	rec, ok := rt.o.resource(id)
	if !ok {
		return nil, fmt.Errorf("resource %s is not there", id)
	}
	if rec.Type == stackTyp {
		if v, err := rt.o.s.output(scopeAt(rt.o.key), rec.PhysicalID, attribute); !store.IsNotFound(err) {
			return v, err
		}
	}
	if h, _ := handlerOf(rec.Type); slices.Contains(strings.Fields(h.live), attribute) {
		now, err := h.read(rt.o.request(rt.ctx, &rec, &rec.resourceState))
		if err != nil {
			return nil, err
		}
		rec.Attributes = addTo(rec.Attributes, now)
	}
	for _, raw := range []json.RawMessage{rec.Attributes, rec.Properties} {
		v, err := template.ReadJSON(string(raw))
		if m, ok := v.(*template.Map); err == nil && ok && m.Has(attribute) {
			return m.Get(attribute), nil
		}
	}
	return nil, template.Error(fmt.Sprintf("Resource type %s does not support attribute {%s}", rec.Type, attribute))
}

// Import implements template.Runtime.
func (rt *runtime) Import(name string) (string, error) {
	for _, f := range all(rt.o.s.store, scopeAt(rt.o.key)) {
		for _, out := range f.Outputs {
			if out.Export != name || f.Status == cloudformationtypes.StackStatusDeleteComplete {
				continue
			}
			rt.o.mu.Lock()
			defer rt.o.mu.Unlock()
			if slices.Contains(rt.o.imports, name) {
				return out.Value, nil
			}
			rt.o.imports = append(rt.o.imports, name)
			return out.Value, stacks.UpdateOne(context.Background(), rt.o.s.store, rt.o.key, func(rec *stackRecord) error {
				if !slices.Contains(rec.Imports, name) {
					rec.Imports = append(rec.Imports, name)
				}
				return nil
			})
		}
	}
	return "", template.Error("No export named " + name + " found.")
}

// Zones implements template.Runtime. It returns the zones with a default subnet. If there are no default subnets, it
// returns all zones.
func (rt *runtime) Zones(region string) ([]string, error) {
	if region != rt.o.key.Region {
		return nil, template.Error("Template error: Fn::GetAZs of the region " + region + " is not supported in " + rt.o.key.Region)
	}
	zones, err := awsapi.Do[awsec2.DescribeAvailabilityZonesOutput](rt.ctx, rt.o.s.cfg.API, &awsec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return nil, err
	}
	subnets, err := awsapi.Do[awsec2.DescribeSubnetsOutput](rt.ctx, rt.o.s.cfg.API, &awsec2.DescribeSubnetsInput{})
	if err != nil {
		return nil, err
	}
	var some, every []string
	for _, z := range zones.AvailabilityZones {
		every = append(every, aws.ToString(z.ZoneName))
	}
	for _, sub := range subnets.Subnets {
		if aws.ToBool(sub.DefaultForAz) {
			some = append(some, aws.ToString(sub.AvailabilityZone))
		}
	}
	if len(some) == 0 {
		some = every
	}
	sort.Strings(some)
	return slices.Compact(some), nil
}

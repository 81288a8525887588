package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A spoiled member of an answer: its operation and path, and what to put there.
type spoiled struct {
	answer int
	path   []string // members; of lists, the first element is meant
	with   any      // nil removes it
}

func (s spoiled) of(r *recording.Recording) string {
	with := "nothing"
	if s.with != nil {
		with = fmt.Sprintf("%.20q", fmt.Sprint(s.with))
	}
	return recording.Action(r.Answers[s.answer].Service, r.Answers[s.answer].Operation) + " " + strings.Join(s.path, ".") + " is " + with
}

// eachMember calls fn with the path of each member of a value.
func eachMember(v any, path []string, fn func([]string, any)) {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			eachMember(v[0], path, fn)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := append(slices.Clone(path), name)
			if v[name] != nil {
				fn(below, v[name])
				eachMember(v[name], below, fn)
			}
		}
	}
}

// replaceMember puts something in the place of a member.
func replaceMember(v any, path []string, with any) {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			replaceMember(v[0], path, with)
		}
	case map[string]any:
		switch {
		case len(path) > 1:
			replaceMember(v[path[0]], path[1:], with)
		case with == nil:
			delete(v, path[0])
		default:
			v[path[0]] = with
		}
	}
}

// spoilings are ways to spoil the members of a recording: each one is missing, empty, absurd or of another type.
func spoilings(t *testing.T, r *recording.Recording) []spoiled {
	var out []spoiled
	seen := map[string]bool{}
	for i, a := range r.Answers {
		if len(a.Pages) == 0 {
			continue
		}
		var page any
		if err := json.Unmarshal(a.Pages[0], &page); err != nil {
			t.Fatal(err)
		}
		eachMember(page, nil, func(path []string, v any) {
			name := a.Service + a.Operation + strings.Join(path, ".")
			if seen[name] || path[0] == "ResultMetadata" {
				return
			}
			seen[name] = true
			ways := []any{nil}
			switch v.(type) {
			case string:
				ways = append(ways, "", "../../x", strings.Repeat("y", 5000), 7)
			case float64:
				ways = append(ways, -1, 1<<31-1, "seven")
			case bool:
				ways = append(ways, "true")
			case []any:
				ways = append(ways, []any{}, []any{nil}, map[string]any{})
			case map[string]any:
				ways = append(ways, map[string]any{}, []any{})
			}
			for _, with := range ways {
				out = append(out, spoiled{i, path, with})
			}
		})
	}
	return out
}

// Whatever a source answers, its twin is refused with a reason, or it answers.
func TestTwinOfAHostileAccount(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account = "490000000000"
	w := newNetWorld(t, from, account, "nat")
	w.spoil(t, account, from)
	rec := readTwin(t, from, account, "test")
	cfg := configFor(to, account, "test")
	v2, v1, network := awselbv2.NewFromConfig(cfg), awselb.NewFromConfig(cfg), awsec2.NewFromConfig(cfg)
	asks := func() error {
		ctx := t.Context()
		var all []error
		add := func(_ any, err error) { all = append(all, err) }
		add(network.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{}))
		add(network.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{}))
		add(network.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{}))
		add(network.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{}))
		add(network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{}))
		add(network.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{}))
		add(network.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{}))
		add(network.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{}))
		add(network.DescribeVpcEndpoints(ctx, &awsec2.DescribeVpcEndpointsInput{}))
		add(network.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{}))
		add(network.DescribeLaunchTemplateVersions(ctx, &awsec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Latest"}}))
		add(v2.DescribeLoadBalancers(ctx, &awselbv2.DescribeLoadBalancersInput{}))
		add(v2.DescribeTargetGroups(ctx, &awselbv2.DescribeTargetGroupsInput{}))
		add(v1.DescribeLoadBalancers(ctx, &awselb.DescribeLoadBalancersInput{}))
		add(awsautoscaling.NewFromConfig(cfg).DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{}))
		add(awsautoscaling.NewFromConfig(cfg).DescribePolicies(ctx, &awsautoscaling.DescribePoliciesInput{}))
		add(awsautoscaling.NewFromConfig(cfg).DescribeScheduledActions(ctx, &awsautoscaling.DescribeScheduledActionsInput{}))
		add(awsiam.NewFromConfig(cfg).GetAccountAuthorizationDetails(ctx, &awsiam.GetAccountAuthorizationDetailsInput{}))
		add(awskms.NewFromConfig(cfg).ListAliases(ctx, &awskms.ListAliasesInput{}))
		add(awsroute53.NewFromConfig(cfg).ListHostedZones(ctx, &awsroute53.ListHostedZonesInput{}))
		return errors.Join(all...)
	}
	daemon := &api.Client{Daemon: to}
	all := spoilings(t, rec)
	stride := 31
	if os.Getenv("TWINS") == "1" { // all of them take minutes
		stride = 1
	}
	loadTwin(t, to, rec)
	refused, loaded := 0, 0
	for n := 0; n < len(all); n += stride {
		s := all[n]
		r := *rec
		r.Answers = slices.Clone(rec.Answers)
		var page any
		if err := json.Unmarshal(r.Answers[s.answer].Pages[0], &page); err != nil {
			t.Fatal(err)
		}
		replaceMember(page, s.path, s.with)
		r.Answers[s.answer].Pages = append([]json.RawMessage{testkit.Must(json.Marshal(page))(t)}, r.Answers[s.answer].Pages[1:]...)
		_, err := sendTwin(t, to, &r, true)
		if err != nil {
			refused++
			if no, ok := errors.AsType[*api.Error](err); !ok || no.Status != 400 || len(no.Message) > 1000 || !strings.HasPrefix(no.Message, "the source's answer") || strings.Contains(no.Message, "cannot be converted") {
				t.Errorf("%s: %v", s.of(rec), err)
			}
			if twins := testkit.Must(daemon.Twins(t.Context()))(t); len(twins) != 1 {
				t.Errorf("%s: refused, and the twin is gone", s.of(rec))
			}
			continue
		}
		loaded++
		if err := asks(); err != nil {
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				if no, ok := errors.AsType[*smithyhttp.ResponseError](e); !ok || no.HTTPStatusCode() >= 500 {
					t.Errorf("%s: asked, the twin answers %v", s.of(rec), e)
				}
			}
		}
		if _, err := daemon.WhyReach(t.Context(), api.Place{Account: account, Region: "us-east-1"}, w.connections()[0]); err != nil {
			if no, ok := errors.AsType[*api.Error](err); !ok || no.Status >= 500 {
				t.Errorf("%s: why reach: %v", s.of(rec), err)
			}
		}
	}
	t.Logf("%d of %d spoilings: %d refused, %d loaded", refused+loaded, len(all), refused, loaded)
}

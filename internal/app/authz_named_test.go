package app

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/acm"
	"github.com/drydock-dev/drydock/internal/service/arczonalshift"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/service/ecrpublic"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	eventbridge "github.com/drydock-dev/drydock/internal/service/events"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/service/organizations"
	"github.com/drydock-dev/drydock/internal/service/route53"
	"github.com/drydock-dev/drydock/internal/service/secretsmanager"
	"github.com/drydock-dev/drydock/internal/service/sns"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// anyOfItsKind lists the operations that are checked on any resource of a kind although they do not create it, and
// why.
var anyOfItsKind = map[string]string{
	"ec2:DeleteTags":                                  "the sample's resource is of no kind",
	"ec2:StartNetworkInsightsAnalysis":                "makes the analysis",
	"ec2:CopyImage":                                   "makes the image and its snapshots",
	"ec2:CopySnapshot":                                "makes the snapshot",
	"ec2:RegisterImage":                               "makes the image",
	"autoscaling:SetInstanceHealth":                   "the sample's instance is in no group",
	"autoscaling:TerminateInstanceInAutoScalingGroup": "as above",
	"iam:GetAccessKeyLastUsed":                        "the sample's key is nobody's",
	"sqs:CancelMessageMoveTask":                       "the sample's handle names no task",
	"iam:GetServiceLinkedRoleDeletionStatus":          "the sample's task names no role",
}

// TestChecksNameWhatRequestsName: if an operation acts on something that its request names, it must not be checked on
// any resource of that kind, because the resources and tags in policies would then have no effect.
func TestChecksNameWhatRequestsName(t *testing.T) {
	a := authz.New(authz.Config{Services: operations(), Policies: func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, false }})
	register(t, a)
	makes := regexp.MustCompile(`:(Create|Allocate|Run|RequestSpot)`)
	whole := regexp.MustCompile(`^(\*|[^/]*/\*|.*/autoScalingGroup(Name)?/\*)$`)
	for _, svc := range operations() {
		for _, op := range svc.Operations {
			name := authz.Prefix(svc.Name) + ":" + op.Name
			action, _, ok := authz.ActionOf(name)
			if op.Unsigned || !ok || len(action.Types) == 0 || makes.MatchString(name) {
				continue
			}
			in := reflect.New(reflect.ValueOf(svc.Handler).MethodByName(op.Name).Type().In(1).Elem())
			deepSample(in.Elem(), 4)
			call := &awsapi.Call{
				Service: svc.Name, Operation: op.Name, Account: "111122223333", Region: testkit.Region,
				Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: "111122223333", Name: "me"},
			}
			found := false
			for _, c := range a.Checks(t.Context(), call, in.Interface()) {
				tail := c.Resource
				if f := strings.SplitN(c.Resource, ":", 6); len(f) == 6 {
					tail = f[5]
				}
				if makes.MatchString(c.Action) { // a launch that comes with it
					continue
				}
				if !whole.MatchString(tail) && !strings.HasSuffix(tail, ":autoScalingGroupName/*") {
					continue
				}
				if found = true; anyOfItsKind[name] == "" {
					t.Errorf("%s is checked on %s: give it a row in the service's authorization, or a Targeter", name, c.Resource)
				}
			}
			if !found && anyOfItsKind[name] != "" {
				t.Errorf("%s is checked on what it names: it is no exception any more", name)
			}
		}
	}
}

// register adds the resolvers of the services to an authorizer. There are no resources.
func register(t *testing.T, a *authz.Authorizer) {
	t.Helper()
	st := testkit.NewServer(t, testkit.Config{}).Store
	for _, m := range []module.Module{
		autoscaling.New(autoscaling.Config{Store: st}).Module(), ec2.New(ec2.Config{Store: st}).Module(nil), elb.New(elbnet.Config{Store: st}).Module(),
		elbv2.New(elbnet.Config{Store: st}).Module(), iam.New(iam.Config{Store: st}).Module(), kms.New(kms.Config{Store: st}).Module(), logs.New(logs.Config{Store: st}).Module(), ecr.New(ecr.Config{Store: st}).Module(), ecrpublic.New(ecrpublic.Config{Store: st}).Module(), route53.New(route53.Config{Store: st}).Module(), eventbridge.New(eventbridge.Config{Store: st}).Module(), cloudtrail.New(cloudtrail.Config{Store: st}).Module(),
		sqs.New(sqs.Config{Store: st}).Module(), acm.New(acm.Config{Store: st}).Module(), secretsmanager.New(secretsmanager.Config{Store: st}).Module(), sns.New(sns.Config{Store: st}).Module(),
		organizations.New(organizations.Config{Store: st}).Module(),
		arczonalshift.New(arczonalshift.Config{Store: st}).Module(func(string, string) []arczonalshift.Resource { return nil }),
	} {
		a.Register(m.Service.Name, m.Resolver)
	}
}

// deepSample is sample that also fills nested structures and lists of them.
func deepSample(in reflect.Value, depth int) {
	sample(in)
	for i := range in.NumField() {
		f := in.Field(i)
		switch {
		case depth == 0 || !f.CanSet():
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && f.Type() != reflect.TypeFor[*time.Time]():
			f.Set(reflect.New(f.Type().Elem()))
			deepSample(f.Elem(), depth-1)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			deepSample(f.Index(0), depth-1)
		}
	}
}

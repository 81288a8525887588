package app

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestAssumeForPod creates sessions of roles, and from there of target roles, as far as their trust policies allow.
func TestAssumeForPod(t *testing.T) {
	d, faults := &daemon{}, fault.NewSet(fault.Config{})
	calls, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = calls.Close() })
	s := testkit.NewServer(t, testkit.Config{Journal: calls, Faults: faults, Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		d.server, d.store, d.iam = front, st, iam.New(iam.Config{Store: st})
		d.authorizer = authz.New(authz.Config{Services: []awsapi.Service{d.iam.AWS(), new(sts.Service).AWS()}, Policies: d.iam.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": d.iam.Authz()}, Store: st})
		d.sts = sts.New(sts.Config{Store: st, Directory: d.iam, Authorize: d.authorizer.AuthorizeTargets})
		return []awsapi.Service{d.iam.AWS(), d.sts.AWS()}
	}})
	account, far := s.Account(t), s.Account(t)
	role := func(account, name, statement string) string {
		t.Helper()
		trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",` + statement + `}]}`
		out, err := awsiam.NewFromConfig(s.AWSConfig(account)).CreateRole(t.Context(), &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Role.Arn
	}
	const service, both = `"Principal":{"Service":"pods.eks.amazonaws.com"}`, `,"Action":["sts:AssumeRole","sts:TagSession"]`
	pods := role(account, "pods", service+both)
	untagged := role(account, "untagged", service+`,"Action":"sts:AssumeRole"`)
	forCart := role(account, "for-cart", service+both+`,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-service-account":"cart"},"StringLike":{"aws:SourceArn":"*:cluster/dev"}}`)
	forBank := role(account, "for-bank", service+both+`,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-namespace":"bank"}}`)
	instances := role(account, "instances", `"Principal":{"Service":"ec2.amazonaws.com"}`+both)
	allow, name := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:*","Resource":"*"}]}`, "assume"
	if _, err := awsiam.NewFromConfig(s.AWSConfig(account)).PutRolePolicy(t.Context(), &awsiam.PutRolePolicyInput{RoleName: new("pods"), PolicyName: &name, PolicyDocument: &allow}); err != nil {
		t.Fatal(err)
	}
	target := role(far, "target", `"Principal":{"AWS":"`+pods+`"}`+both+`,"Condition":{"StringEquals":{"sts:ExternalId":"x-1","aws:PrincipalTag/kubernetes-namespace":"shop"}}`)

	tags := map[string]string{"kubernetes-namespace": "shop", "kubernetes-service-account": "cart"}
	for _, tt := range []struct {
		name, role, target, externalID string
		tags                           map[string]string
		want                           string // the session's ARN without its name, or part of the refusal
		lasts                          time.Duration
	}{
		{"a role", pods, "", "", tags, "arn:aws:sts::" + account + ":assumed-role/pods/", 6 * time.Hour},
		{"a role without tags", untagged, "", "", nil, "arn:aws:sts::" + account + ":assumed-role/untagged/", 6 * time.Hour},
		{"conditions that hold", forCart, "", "", tags, "arn:aws:sts::" + account + ":assumed-role/for-cart/", 6 * time.Hour},
		{"a target role", pods, target, "x-1", tags, "arn:aws:sts::" + far + ":assumed-role/target/", time.Hour},
		{"tags that are not allowed", untagged, "", "", tags, "not authorized to perform: sts:TagSession on resource: " + untagged, 0},
		{"conditions that do not hold", forBank, "", "", tags, "not authorized to perform: sts:AssumeRole on resource: " + forBank, 0},
		{"conditions on tags that are switched off", forCart, "", "", nil, "not authorized to perform: sts:AssumeRole on resource: " + forCart, 0},
		{"another service's role", instances, "", "", tags, "not authorized to perform: sts:AssumeRole on resource: " + instances, 0},
		{"a role that is gone", pods + "x", "", "", tags, "not authorized to perform: sts:AssumeRole on resource: " + pods + "x", 0},
		{"another external ID", pods, target, "x-2", tags, "not authorized to perform: sts:AssumeRole on resource: " + target, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := awsapi.WithCall(context.Background(), &awsapi.Call{Account: account, Region: "us-east-1", Service: "eks-auth"})
			got, err := d.assumeForPod(ctx, eksauth.Session{Name: "eks-dev-cart", Tags: tt.tags, Pod: eksauth.Pod{
				ClusterARN: "arn:aws:eks:us-east-1:" + account + ":cluster/dev", RoleARN: tt.role, TargetRoleARN: tt.target, ExternalID: tt.externalID,
			}})
			if tt.lasts == 0 {
				var refused *eksauth.NotAssumableError
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error = %v, want one about %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.ARN != tt.want+"eks-dev-cart" || !strings.HasSuffix(got.ID, ":eks-dev-cart") || !strings.Contains(got.ARN, got.Account) {
				t.Errorf("session %+v, want %s", got, tt.want)
			}
			if left := time.Until(got.Expiration); left > tt.lasts || left < tt.lasts-time.Minute {
				t.Errorf("valid for %v, want %v", left, tt.lasts)
			}
			_, p, err := d.sts.OpenSession(ctx, got.AccessKeyID, got.SessionToken)
			if diff := cmp.Diff(tt.tags, p.SessionTags); err != nil || diff != "" || len(p.TransitiveTagKeys) != len(tt.tags) {
				t.Errorf("%v, transitive %v, tags (-want +got):\n%s", err, p.TransitiveTagKeys, diff)
			}
		})
	}

	// CloudTrail shows EKS itself, and from there the session of the pod's role.
	calls.Flush()
	callers := map[string]bool{}
	for e, err := range calls.Query(journal.Filter{Kind: journal.KindCall, Fields: map[string]string{"operation": "AssumeRole"}}) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(e.Fields["event"])
		if err != nil {
			t.Fatal(err)
		}
		var event trailEvent
		if err := json.Unmarshal(b, &event); err != nil {
			t.Fatal(err)
		}
		callers[event.UserIdentity.Type+" "+event.UserIdentity.ARN+" by "+event.UserIdentity.InvokedBy] = true
	}
	if want := map[string]bool{
		"AWSService  by pods.eks.amazonaws.com": true,
		"AssumedRole arn:aws:sts::" + account + ":assumed-role/pods/eks-dev-cart by pods.eks.amazonaws.com": true,
		"AWSAccount  by pods.eks.amazonaws.com": true, // as the target's account sees it
	}; !maps.Equal(callers, want) {
		t.Errorf("AssumeRole was called by %v, want %v", callers, want)
	}
	// A throttle says nothing about the role.
	faults.Replace([]fault.Fault{{Kind: fault.Throttle, Account: account, Region: "us-east-1", Operation: "sts:AssumeRole"}})
	_, err = d.assumeForPod(awsapi.WithCall(t.Context(), &awsapi.Call{Account: account, Region: "us-east-1"}), eksauth.Session{Name: "eks-dev-cart", Pod: eksauth.Pod{ClusterARN: "c", RoleARN: pods}})
	if refused := (*eksauth.NotAssumableError)(nil); !awsapi.IsThrottle(err) || errors.As(err, &refused) {
		t.Errorf("throttled: %v", err)
	}
}

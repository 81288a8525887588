package eks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// Signatures and audiences are for the API server to check. This fake accepts every token that has
// not expired, and returns its subject.
func TestReviewPodToken(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	association := w.associate("shop", "cart")
	plane, cs := w.planes.only()
	var reviewed []string // audiences
	cs.PrependReactor("create", "tokenreviews", func(a k8stesting.Action) (bool, runtime.Object, error) {
		review := a.(k8stesting.CreateAction).GetObject().(*authnv1.TokenReview)
		reviewed = review.Spec.Audiences
		var claims jwt.RegisteredClaims
		if _, _, err := jwt.NewParser().ParseUnverified(review.Spec.Token, &claims); err != nil {
			return true, nil, err
		}
		pod, subject, _ := strings.Cut(claims.Subject, "@")
		review.Status = authnv1.TokenReviewStatus{Authenticated: claims.ExpiresAt.After(time.Now()), User: authnv1.UserInfo{Username: subject}}
		if pod != "" {
			review.Status.User.Extra = map[string]authnv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {pod}, "authentication.kubernetes.io/pod-uid": {"u"},
			}
		}
		return true, review, nil
	})
	sign := func(issuer, subject string, expires time.Duration) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
			Issuer: issuer, Subject: subject, ExpiresAt: jwt.NewNumericDate(time.Now().Add(expires)),
		}).SignedString([]byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	const cart = "system:serviceaccount:shop:cart"
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"})
	for _, tt := range []struct {
		name, cluster, token string
		want                 error
	}{
		{"another cluster's", "dev", sign("https://elsewhere", "p@"+cart, time.Hour), eks.ErrPodTokenInvalid},
		{"not a service account's", "dev", sign(plane.Issuer, "p@alice", time.Hour), eks.ErrPodTokenInvalid},
		{"of no pod", "dev", sign(plane.Issuer, "@"+cart, time.Hour), eks.ErrPodTokenInvalid},
		{"of no association", "dev", sign(plane.Issuer, "p@system:serviceaccount:shop:basket", time.Hour), eks.ErrNoPodIdentity},
		{"empty", "dev", "", eks.ErrPodTokenInvalid},
		{"no token", "dev", "a.b.c", eks.ErrPodTokenInvalid},
		{"huge", "dev", strings.Repeat("a", 1<<20), eks.ErrPodTokenInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := w.svc.ReviewPodToken(ctx, tt.cluster, tt.token); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
	_, err := w.svc.ReviewPodToken(ctx, "none", "x")
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: none.")
	var expired *eks.PodTokenExpiredError
	if _, err := w.svc.ReviewPodToken(ctx, "dev", sign(plane.Issuer, "p@"+cart, -time.Hour)); !errors.As(err, &expired) {
		t.Errorf("an expired token: %v", err)
	}
	got, err := w.svc.ReviewPodToken(ctx, "dev", sign(plane.Issuer, "p@"+cart, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := eks.PodSubject{
		Cluster: "dev", ClusterARN: "arn:aws:eks:us-east-1:" + w.account + ":cluster/dev", Namespace: "shop", ServiceAccount: "cart", Pod: "p", PodUID: "u",
		Association: eks.PodIdentity{ID: *association.AssociationId, ARN: *association.AssociationArn, RoleARN: w.arn("role/pod"), SessionTags: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{podsService}, reviewed); diff != "" {
		t.Errorf("audiences (-want +got):\n%s", diff)
	}
}

func TestServiceAccountIdentity(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	plane, cs := w.planes.only()
	for name, volumes := range map[string][]corev1.Volume{"early": nil, "late": {{Name: "aws-iam-token"}}} {
		_, err := cs.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{ServiceAccountName: "cart", Volumes: volumes},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"})
	want := eks.ServiceAccountIdentity{
		Cluster: "dev", ClusterARN: "arn:aws:eks:us-east-1:" + w.account + ":cluster/dev", Account: w.account, Region: "us-east-1",
		Namespace: "shop", ServiceAccount: "cart", Issuer: plane.Issuer, Subject: "system:serviceaccount:shop:cart",
	}
	check := func(name string) {
		t.Helper()
		got, err := w.svc.ServiceAccountIdentity(ctx, "dev", "shop", "cart")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("nothing there")
	_, err := cs.CoreV1().ServiceAccounts("shop").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "cart", Annotations: map[string]string{"eks.amazonaws.com/role-arn": "r", "eks.amazonaws.com/audience": "mine"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want.Exists, want.RoleARN, want.Audience, want.Expiration = true, "r", "mine", 86400
	want.Pods, want.WithoutToken = []string{"early", "late"}, []string{"early"}
	want.Bare = want.WithoutToken
	check("annotated")
	a := w.associate("shop", "cart")
	want.Association = &eks.PodIdentity{ID: *a.AssociationId, ARN: *a.AssociationArn, RoleARN: *a.RoleArn, SessionTags: true}
	want.Audience, want.WithoutToken = podsService, []string{"early", "late"}
	want.Bare = want.WithoutToken
	check("associated")
}

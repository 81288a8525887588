package testkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

type sts struct{}

func (sts) GetCallerIdentity(ctx context.Context, _ *awssts.GetCallerIdentityInput) (*awssts.GetCallerIdentityOutput, error) {
	return &awssts.GetCallerIdentityOutput{Account: &awsapi.CallFrom(ctx).Account}, nil
}

func TestAccountsAreTheirOwnCredentials(t *testing.T) {
	testkit.NoLeaks(t)
	s := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{{Name: "sts", Handler: sts{}, Operations: []awsapi.Operation{{Name: "GetCallerIdentity", Exempt: true}}}}
	}})
	a, b := s.Account(t), s.Account(t)
	if a == b || len(a) != 12 {
		t.Errorf("accounts %s and %s", a, b)
	}
	for _, account := range []string{a, b} {
		out, err := awssts.NewFromConfig(s.AWSConfig(account)).GetCallerIdentity(t.Context(), nil)
		if err != nil || *out.Account != account {
			t.Errorf("%s: %+v, %v", account, out, err)
		}
	}
}

func TestEventuallyStopsAtTheFirstSuccess(t *testing.T) {
	n := 0
	testkit.Eventually(t, 10*time.Second, func() error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if n != 3 {
		t.Errorf("called %d times", n)
	}
}

func TestNormalizerKeepsIdentity(t *testing.T) {
	n := testkit.NewNormalizer().Hide("PASSWORD", `pw-\d+`)
	got := n.Replace(`eni-0123456789abcdef0 eni-0aaaaaaaaaaaaaaaa eni-0123456789abcdef0 vpc-0123456789abcdef0
00000000-0000-4000-8000-000000000001 2026-07-01T12:00:00Z 20260701T120000Z http://127.0.0.1:4566 pw-1 123456789012`)
	want := `<ENI:1> <ENI:2> <ENI:1> <VPC:1>
<UUID:1> <TIME:1> <TIME:2> http://<ADDRESS:1> <PASSWORD:1> 123456789012`
	if got != want {
		t.Errorf("got %s", got)
	}
}

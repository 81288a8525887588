package shield_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsshield "github.com/aws/aws-sdk-go-v2/service/shield"
	shieldtypes "github.com/aws/aws-sdk-go-v2/service/shield/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/shield"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestNotSubscribed(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{shield.New().Module().Service}
	}})
	c := awsshield.NewFromConfig(srv.AWSConfig(srv.Account(t)))
	out, err := c.GetSubscriptionState(t.Context(), &awsshield.GetSubscriptionStateInput{})
	if err != nil || out.SubscriptionState != shieldtypes.SubscriptionStateInactive {
		t.Fatalf("%+v, %v", out, err)
	}
	_, err = c.CreateProtection(t.Context(), &awsshield.CreateProtectionInput{
		Name: aws.String("web"), ResourceArn: aws.String("arn:aws:elasticloadbalancing:us-east-1:111122223333:loadbalancer/app/web/0123456789abcdef"),
	})
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "NotImplemented" {
		t.Errorf("a protection can be created: %v", err)
	}
}

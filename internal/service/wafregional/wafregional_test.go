package wafregional_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awswaf "github.com/aws/aws-sdk-go-v2/service/wafregional"
	waftypes "github.com/aws/aws-sdk-go-v2/service/wafregional/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/wafregional"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestGetWebACLForResource(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{wafregional.New(func(account, region, arn string) bool {
			return strings.HasPrefix(arn, "arn:aws:elasticloadbalancing:"+region+":"+account+":loadbalancer/app/web/")
		}).Module().Service}
	}})
	account := srv.Account(t)
	c := awswaf.NewFromConfig(srv.AWSConfig(account))
	get := func(arn string) (*awswaf.GetWebACLForResourceOutput, error) {
		return c.GetWebACLForResource(t.Context(), &awswaf.GetWebACLForResourceInput{ResourceArn: &arn})
	}
	prefix := "arn:aws:elasticloadbalancing:" + testkit.Region + ":" + account + ":loadbalancer/app/"
	if out, err := get(prefix + "web/0123456789abcdef"); err != nil || out.WebACLSummary != nil {
		t.Errorf("%+v, %v", out, err)
	}
	_, err := get(prefix + "other/0123456789abcdef")
	if none, ok := errors.AsType[*waftypes.WAFNonexistentItemException](err); !ok || none.ErrorMessage() != "The referenced item does not exist." {
		t.Error(err)
	}
	_, err = get("loadbalancer/app/web/0123")
	if bad, ok := errors.AsType[*waftypes.WAFInvalidParameterException](err); !ok || bad.Field != "ResourceArn" ||
		aws.ToString(bad.Parameter) != "RESOURCE_ARN" || bad.Reason != waftypes.ParameterExceptionReasonIllegalArgument {
		t.Errorf("a malformed ARN: %v", err)
	}
}

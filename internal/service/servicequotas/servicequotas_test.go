package servicequotas_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	servicequotastypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

var str = aws.String

func start(t *testing.T) (*testkit.Server, *quotatable.Table) {
	t.Helper()
	var table *quotatable.Table
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		table = quotatable.New(st, "eks", map[string]float64{"L-6D54EA21": 7})
		return []awsapi.Service{servicequotas.New(servicequotas.Config{Store: st, Providers: func() []quotatable.Provider { return []quotatable.Provider{quotatable.Fixed("vpc"), table} }}).AWS()}
	}})
	return srv, table
}

func TestIncrease(t *testing.T) {
	srv, table := start(t)
	account := srv.Account(t)
	c := awsservicequotas.NewFromConfig(srv.AWSConfig(account))
	ctx := t.Context()
	value := func() float64 {
		t.Helper()
		out, err := c.GetServiceQuota(ctx, &awsservicequotas.GetServiceQuotaInput{ServiceCode: str("eks"), QuotaCode: str("L-1194D53C")})
		if err != nil {
			t.Fatal(err)
		}
		if want := "arn:aws:servicequotas:us-east-1:" + account + ":eks/L-1194D53C"; *out.Quota.QuotaArn != want {
			t.Errorf("%s, want %s", *out.Quota.QuotaArn, want)
		}
		return *out.Quota.Value
	}
	if v := value(); v != 100 {
		t.Errorf("%v clusters", v)
	}
	asked, err := c.RequestServiceQuotaIncrease(ctx, &awsservicequotas.RequestServiceQuotaIncreaseInput{ServiceCode: str("eks"), QuotaCode: str("L-1194D53C"), DesiredValue: aws.Float64(250)})
	if err != nil || asked.RequestedQuota.Status != "APPROVED" || *asked.RequestedQuota.QuotaName != "Clusters" {
		t.Fatalf("%+v %v", asked, err)
	}
	if v := value(); v != 250 {
		t.Errorf("%v clusters", v)
	}
	if v, err := table.Value(account, testkit.Region, "L-1194D53C"); v != 250 || err != nil {
		t.Errorf("the table says %v, %v", v, err)
	}
	if v, err := table.Value(srv.Account(t), testkit.Region, "L-1194D53C"); v != 100 || err != nil {
		t.Errorf("another account has %v, %v", v, err)
	}
	def, err := c.GetAWSDefaultServiceQuota(ctx, &awsservicequotas.GetAWSDefaultServiceQuotaInput{ServiceCode: str("eks"), QuotaCode: str("L-1194D53C")})
	if err != nil || *def.Quota.Value != 100 || *def.Quota.QuotaArn != "arn:aws:servicequotas:us-east-1::eks/L-1194D53C" {
		t.Errorf("%+v %v", def, err)
	}
	got, err := c.GetRequestedServiceQuotaChange(ctx, &awsservicequotas.GetRequestedServiceQuotaChangeInput{RequestId: asked.RequestedQuota.Id})
	if err != nil || *got.RequestedQuota.DesiredValue != 250 {
		t.Errorf("%+v %v", got, err)
	}
	for status, want := range map[servicequotastypes.RequestStatus]int{"": 1, "APPROVED": 1, "PENDING": 0} {
		out, err := c.ListRequestedServiceQuotaChangeHistory(ctx, &awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput{ServiceCode: str("eks"), Status: status})
		if err != nil || len(out.RequestedQuotas) != want {
			t.Errorf("%q: %+v %v", status, out, err)
		}
	}
	by, err := c.ListRequestedServiceQuotaChangeHistoryByQuota(ctx, &awsservicequotas.ListRequestedServiceQuotaChangeHistoryByQuotaInput{ServiceCode: str("eks"), QuotaCode: str("L-BD136A63")})
	if err != nil || len(by.RequestedQuotas) != 0 {
		t.Errorf("%+v %v", by, err)
	}
}

func TestLists(t *testing.T) {
	srv, _ := start(t)
	c := awsservicequotas.NewFromConfig(srv.AWSConfig(srv.Account(t)))
	ctx := t.Context()
	services, err := c.ListServices(ctx, &awsservicequotas.ListServicesInput{})
	if err != nil || len(services.Services) != 2 || *services.Services[0].ServiceCode != "eks" {
		t.Fatalf("%+v %v", services, err)
	}
	values := map[string]float64{}
	pages := 0
	for p := awsservicequotas.NewListServiceQuotasPaginator(c, &awsservicequotas.ListServiceQuotasInput{ServiceCode: str("eks"), MaxResults: aws.Int32(2)}); p.HasMorePages(); pages++ {
		out, err := p.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range out.Quotas {
			values[*q.QuotaName] = *q.Value
		}
	}
	if pages != 2 || len(values) != 4 || values["Fargate profiles per cluster"] != 10 || values["Managed node groups per cluster"] != 7 || values["Nodes per managed node group"] != 450 {
		t.Errorf("%d pages of %v", pages, values)
	}
	defaults, err := c.ListAWSDefaultServiceQuotas(ctx, &awsservicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: str("vpc")})
	if err != nil || len(defaults.Quotas) < 20 {
		t.Errorf("%+v %v", defaults, err)
	}
	none, err := c.ListServiceQuotas(ctx, &awsservicequotas.ListServiceQuotasInput{ServiceCode: str("eks"), QuotaAppliedAtLevel: "RESOURCE"})
	if err != nil || len(none.Quotas) != 0 {
		t.Errorf("%+v %v", none, err)
	}
}

func TestBadInput(t *testing.T) {
	srv, _ := start(t)
	c := awsservicequotas.NewFromConfig(srv.AWSConfig(srv.Account(t)))
	ctx := t.Context()
	ask := func(service, code string, value float64) func() error {
		return func() error {
			_, err := c.RequestServiceQuotaIncrease(ctx, &awsservicequotas.RequestServiceQuotaIncreaseInput{ServiceCode: &service, QuotaCode: &code, DesiredValue: &value})
			return err
		}
	}
	list := func(in awsservicequotas.ListServiceQuotasInput) func() error {
		return func() error { _, err := c.ListServiceQuotas(ctx, &in); return err }
	}
	for _, tc := range []struct {
		name, code, message string
		call                func() error
	}{
		{"service", "NoSuchResourceException", "The request failed because the specified service does not exist.", ask("EKS", "L-1194D53C", 200)},
		{"quota", "NoSuchResourceException", "", ask("eks", "L-00000000", 200)},
		{"not more", "IllegalArgumentException", "You must provide a quota value greater than the current quota value", ask("eks", "L-1194D53C", 100)},
		{"negative", "IllegalArgumentException", "", ask("eks", "L-1194D53C", -1)},
		{"too much", "IllegalArgumentException", "", ask("eks", "L-1194D53C", 1e11)},
		{"not adjustable", "IllegalArgumentException", "", ask("vpc", "L-8312C5BB", 200)},
		{"fixed", "NotImplemented", "", ask("vpc", "L-F678F1CE", 200)},
		{"list of no service", "NoSuchResourceException", "", list(awsservicequotas.ListServiceQuotasInput{ServiceCode: str("mars")})},
		{"level", "IllegalArgumentException", "", list(awsservicequotas.ListServiceQuotasInput{ServiceCode: str("eks"), QuotaAppliedAtLevel: "GALAXY"})},
		{"token", "InvalidPaginationTokenException", "", list(awsservicequotas.ListServiceQuotasInput{ServiceCode: str("eks"), NextToken: str("!")})},
		{"token beyond the end", "InvalidPaginationTokenException", "", list(awsservicequotas.ListServiceQuotasInput{ServiceCode: str("eks"), NextToken: str("OTk5")})},
		{"page of 0", "IllegalArgumentException", "", list(awsservicequotas.ListServiceQuotasInput{ServiceCode: str("eks"), MaxResults: aws.Int32(0)})},
		{"request", "NoSuchResourceException", "", func() error {
			_, err := c.GetRequestedServiceQuotaChange(ctx, &awsservicequotas.GetRequestedServiceQuotaChangeInput{RequestId: str("no")})
			return err
		}},
		{"status", "IllegalArgumentException", "", func() error {
			_, err := c.ListRequestedServiceQuotaChangeHistory(ctx, &awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput{Status: "MAYBE"})
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call()
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != tc.code || tc.message != "" && api.ErrorMessage() != tc.message {
				t.Errorf("got %v, want %s %s", err, tc.code, tc.message)
			}
		})
	}
	history, err := c.ListRequestedServiceQuotaChangeHistory(ctx, &awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput{})
	if err != nil || len(history.RequestedQuotas) != 0 {
		t.Errorf("refused requests left %+v, %v", history, err)
	}
}

// fragile is a provider during whose change the daemon stops, once.
type fragile struct {
	broken bool
	value  float64
}

func (f *fragile) ServiceCode() string { return "vpc" }

func (f *fragile) Quotas(context.Context, string, string) ([]quotas.Quota, error) {
	q, _ := quotas.Lookup("vpc", "L-F678F1CE")
	q.Value = f.value
	return []quotas.Quota{q}, nil
}

func (f *fragile) Set(_ context.Context, _, _, _ string, v float64) error {
	if f.broken {
		runtime.Goexit() // nothing after this runs
	}
	f.value = v
	return nil
}

func TestResume(t *testing.T) {
	f := &fragile{value: 5, broken: true}
	var s *servicequotas.Service
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		s = servicequotas.New(servicequotas.Config{Store: st, Providers: func() []quotatable.Provider { return []quotatable.Provider{f} }})
		return []awsapi.Service{s.AWS()}
	}})
	c := awsservicequotas.NewFromConfig(srv.AWSConfig(srv.Account(t)))
	ctx := t.Context()
	_, err := c.RequestServiceQuotaIncrease(ctx, &awsservicequotas.RequestServiceQuotaIncreaseInput{ServiceCode: str("vpc"), QuotaCode: str("L-F678F1CE"), DesiredValue: aws.Float64(20)})
	if err == nil || f.value != 5 {
		t.Fatalf("%v, %v VPCs", err, f.value)
	}
	f.broken = false
	if err := s.Module().Run(ctx); err != nil || f.value != 20 {
		t.Errorf("%v, %v VPCs", err, f.value)
	}
	history, err := c.ListRequestedServiceQuotaChangeHistory(ctx, &awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput{Status: "APPROVED"})
	if err != nil || len(history.RequestedQuotas) != 1 {
		t.Errorf("%+v %v", history, err)
	}
}

package server_test

import (
	"context"
	"strings"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A caller is an EKS that calls EC2, inside or outside of a store transaction.
type caller struct {
	store  *store.Store
	ec2    awscall.EC2
	inside bool
}

func (c *caller) ask(ctx context.Context) error {
	_, err := c.ec2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{})
	return err
}

func (c *caller) ListClusters(ctx context.Context, _ *awseks.ListClustersInput) (*awseks.ListClustersOutput, error) {
	err := c.store.Update(ctx, func(*store.Tx) error {
		if c.inside {
			return c.ask(ctx) // in a function called by it, as may happen
		}
		return nil
	})
	if err == nil {
		err = c.ask(ctx)
	}
	return &awseks.ListClustersOutput{Clusters: []string{}}, err
}

// A transaction may run several times; a call must not.
func TestNoCallInsideATransaction(t *testing.T) {
	asker, asked := &caller{}, &wellEC2{}
	const text = "ec2:DescribeVpcs is called inside a store transaction"
	w := testkit.NewServer(t, testkit.Config{Log: testkit.Log(t, text, "request failed"), Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		asker.store, asker.ec2 = st, awscall.EC2{API: front}
		return []awsapi.Service{
			{Name: "ec2", Handler: asked, Operations: []awsapi.Operation{{Name: "DescribeVpcs"}}},
			{Name: "eks", Handler: asker, Operations: []awsapi.Operation{{Name: "ListClusters"}}},
		}
	}})
	client := awseks.NewFromConfig(w.AWSConfig(w.Account(t)))
	if _, err := client.ListClusters(t.Context(), nil); err != nil || asked.calls != 1 {
		t.Errorf("outside of the transaction: %v, and %d calls", err, asked.calls)
	}
	asker.inside = true
	if _, err := client.ListClusters(t.Context(), nil); err == nil || strings.Contains(err.Error(), text) || asked.calls != 1 {
		t.Errorf("inside: %v, and %d calls", err, asked.calls)
	}
}

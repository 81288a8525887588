package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

type record struct{ Name string }

var records = store.NewCollection[record]("test", "record")

// A lister returns what is in the store, and counts its calls.
type lister struct {
	store *store.Store
	looks atomic.Int64
}

func (l *lister) DescribeInstances(ctx context.Context, in *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error) {
	l.looks.Add(1)
	call := awsapi.CallFrom(ctx)
	out := &awsec2.DescribeInstancesOutput{}
	for _, r := range records.All(l.store, store.Scope{Account: call.Account, Region: call.Region}) {
		out.Reservations = append(out.Reservations, ec2types.Reservation{ReservationId: aws.String(strings.Join(append(in.InstanceIds, r.Value.Name), "+"))})
	}
	return out, nil
}

// sameID checks that an answer has one request ID, in its header and in its body.
type sameID struct {
	t      *testing.T
	client *http.Client
}

func (c sameID) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if id := resp.Header.Get("X-Amzn-Requestid"); !bytes.Contains(body, []byte(id)) || int64(len(body)) != resp.ContentLength {
		c.t.Errorf("the answer to %s is %s", id, body)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

// TestAnswersAreKeptUntilTheStoreChanges: the same question is answered from the cache, every time with its own
// request ID, and never for another account or region.
func TestAnswersAreKeptUntilTheStoreChanges(t *testing.T) {
	l := &lister{}
	allowed := true
	s := testkit.NewServer(t, testkit.Config{
		Services: func(st *store.Store) []awsapi.Service {
			l.store = st
			return []awsapi.Service{{Name: "ec2", Handler: l, Operations: []awsapi.Operation{{Name: "DescribeInstances", Members: "InstanceIds", FromStore: true}}}}
		},
		Authorize: func(context.Context, *awsapi.Call) policy.Decision { return policy.Decision{Allowed: allowed} },
	})
	a, b := s.Account(t), s.Account(t)
	put := func(account, name string) {
		t.Helper()
		if err := s.Store.Update(t.Context(), func(tx *store.Tx) error {
			return records.Put(tx, store.Key{Account: account, Region: testkit.Region, ID: "x"}, record{name})
		}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	ask := func(account string, ids ...string) string {
		t.Helper()
		cfg := s.AWSConfig(account)
		cfg.HTTPClient = sameID{t, s.Client()}
		out, err := awsec2.NewFromConfig(cfg).DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{InstanceIds: ids})
		if err != nil {
			return "denied"
		}
		if id, ok := middleware.GetRequestIDMetadata(out.ResultMetadata); !ok || seen[id] {
			t.Errorf("request ID %q came before", id)
		} else {
			seen[id] = true
		}
		var names []string
		for _, r := range out.Reservations {
			names = append(names, *r.ReservationId)
		}
		return fmt.Sprint(names, l.looks.Load())
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	put(a, "one")
	put(b, "<other>")
	want(ask(a), "[one] 1")
	want(ask(a), "[one] 1")
	want(ask(b), "[<other>] 2")
	want(ask(a, "i"), "[i+one] 3")
	want(ask(b), "[<other>] 3")
	put(a, "two")
	want(ask(a), "[two] 4")
	want(ask(a), "[two] 4")
	allowed = false
	want(ask(a), "denied")
}

package simulated

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

// A registry token acts for the credentials that it was made with, until the kubelet forgets it or they expire.
func TestRegistryTokens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	keys, life := 0, 24*time.Hour
	var calls []string
	i := imageStore{
		puller: image.Puller{Call: func(_ context.Context, c node.Call) error {
			of := "the role"
			if c.Credentials != nil {
				of = c.Credentials.AccessKeyID
			}
			if c.Action != node.ActionGetObject {
				calls = append(calls, c.Action+" of "+of)
			}
			return nil
		}},
		credentials: func(context.Context) (aws.Credentials, error) {
			keys++
			return aws.Credentials{AccessKeyID: fmt.Sprint("key", keys), CanExpire: true, Expires: now.Add(life)}, nil
		},
		present: map[string]bool{}, tokens: map[string]registryToken{},
	}
	pull := func(asks string, want string) {
		t.Helper()
		calls = nil
		n, err := image.Parse("602401143452.dkr.ecr.us-east-1.amazonaws.com/app:1")
		if err != nil {
			t.Fatal(err)
		}
		if p := i.pull(t.Context(), n, now); p.err != nil {
			t.Fatal(p.err)
		}
		wanted := []string{node.ActionGetImage + " of " + want, node.ActionGetLayer + " of " + want}
		if asks != "" {
			wanted = append([]string{node.ActionGetToken + " of " + asks}, wanted...)
		}
		if !slices.Equal(calls, wanted) {
			t.Errorf("calls %q, want %q", calls, wanted)
		}
	}
	pull("the role", "key1")
	now = now.Add(tokenKept - time.Second)
	pull("", "key1")
	life = time.Hour
	now = now.Add(time.Second)
	pull("the role", "key2")
	now = now.Add(life)
	pull("the role", "key3")
}

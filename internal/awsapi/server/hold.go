package server

import (
	"context"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// Holding: an SDK's waiter asks, sleeps up to 30 seconds and asks again. Instead of letting it sleep, the server
// holds the answer until it is one that the waiter may be waiting for, or until maxHold has passed.
const (
	// maxHold is well below the shortest time after which clients give up reading, which is 30 seconds for the SDK for Java. A
	// busy computer needs more than ten seconds for a control plane, and the waiter's sleep would add 30.
	maxHold = 20 * time.Second
	// holdPause is the minimum time between two calls of a held handler, so that a busy store does not make waiters
	// expensive.
	holdPause = 20 * time.Millisecond
)

// answer calls the handler. For a waiter, it calls the handler again after every change of state until the answer is
// settled. Errors are final.
func (i *invocation) answer(ctx context.Context) (any, error) {
	hold := i.handler.Settled != nil && i.s.cfg.Changed != nil && waits(i.call.UserAgent, i.call.Operation)
	if !hold && i.again != nil {
		return i.again.out, nil
	}
	if !hold {
		return i.invoke(ctx)
	}
	i.s.held.Add(1)
	defer i.s.held.Add(-1)
	deadline := i.s.cfg.Clock.NewTimer(maxHold)
	defer deadline.Stop()
	for {
		changed := i.s.cfg.Changed() // before calling, so that no change is missed
		out, err := i.invoke(ctx)
		if err != nil || i.handler.Settled(out) {
			return out, err
		}
		pause := i.s.cfg.Clock.NewTimer(holdPause)
		for paused := false; changed != nil || !paused; {
			select {
			case <-changed:
				changed = nil
			case <-pause.C():
				paused = true
			case <-deadline.C():
				pause.Stop()
				return out, nil
			case <-Draining(ctx):
				pause.Stop()
				return out, nil
			case <-ctx.Done():
				pause.Stop()
				return nil, ctx.Err()
			}
		}
	}
}

func (i *invocation) invoke(ctx context.Context) (any, error) {
	if wire.Streams(i.handler.model) { // it takes as long as the client
		return i.handler.invoke(ctx, i.in)
	}
	ctx, cancel := context.WithTimeout(ctx, handlerTimeout)
	defer cancel()
	return i.handler.invoke(ctx, i.in)
}

// waits reports whether the request comes from a waiter, which sleeps between two requests. An SDK's waiter is
// recognized by its user agent: SDKs list the features in use after "m/", and B is WAITER (aws-sdk-go-v2
// aws/middleware/user_agent.go, botocore useragent.py; both set it in their waiters only). eksctl has its own waiter
// for updates and describes updates nowhere else (pkg/eks/update.go).
func waits(userAgent, operation string) bool {
	for field := range strings.FieldsSeq(userAgent) {
		if operation == "DescribeUpdate" && strings.HasPrefix(field, "eksctl/") {
			return true
		}
		if features, ok := strings.CutPrefix(field, "m/"); ok {
			for f := range strings.SplitSeq(features, ",") {
				if f == "B" {
					return true
				}
			}
		}
	}
	return false
}

type drainKey struct{}

// withDrain returns a context for requests to a server that stops when done is closed. Held answers are then sent.
func withDrain(ctx context.Context, done <-chan struct{}) context.Context {
	return context.WithValue(ctx, drainKey{}, done)
}

// Draining returns a channel that is closed when serving ends. A response that streams without end must end then.
func Draining(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(drainKey{}).(<-chan struct{})
	return done
}
